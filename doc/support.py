# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The page ``support``: what does what, and on what that was tried.

It is what lock mechanisms say of themselves (:class:`baremetal_acc.locks.mechanism.MechanismInfo`), and what
``nox -s support-matrix`` has noted in ``tried.json`` of the tests that passed.
"""

import json
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from baremetal_acc.locks.mechanism import Mechanism
from baremetal_acc.locks.registry import mechanisms
from baremetal_acc.model.lock import ResetKind, Scope, WritePath
from doc.rst import plain, table

TRIED = Path(__file__).parent / 'source' / 'tried.json'

VERBS = ('inventory', 'flash', 'program', 'lock host path', 'lock BMC path', 'verify')

HARDWARE = {
    'hgx-gpu': 'NVIDIA HGX and MGX GPUs behind roots of trust',
    'tray': 'Trays of GPUs that are flashed by one package',
    'pcie-gpu': 'NVIDIA GPUs as PCIe cards, behind the BMC of Dell, HPE, Lenovo or Supermicro',
    'fpga': 'FPGA cards with reconfiguration slots',
    'bluefield': 'NVIDIA BlueField DPUs with a BMC of their own',
    'smartnic': 'SmartNICs behind the BMC of the host',
    'drive': 'Computational storage: drives with an FPGA',
}
"""The rows."""

NOT_FOR = {
    ('program', 'hgx-gpu'),
    ('program', 'tray'),
    ('program', 'pcie-gpu'),
    ('program', 'bluefield'),
    ('program', 'smartnic'),
}
"""What there is nothing to do of: only an FPGA has slots."""

HOW = {'ironic': 'standalone Ironic', 'nova': 'Ironic with Nova', 'cli': 'command line', 'core': 'what all of these call'}
"""The tables. A test of the core plans and turns jobs as they do, without them."""

ON = ('emulator', 'recording', 'hardware')


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What one test shows.

    :ivar test: file and name, without parameters.
    :ivar how: None: by the code below, whoever calls it.
    """

    test: str
    verbs: tuple[str, ...] = ()
    hardware: tuple[str, ...] = ()
    how: str | None = None
    on: str = 'emulator'
    mechanisms: tuple[str, ...] = ()

    def wrong(self) -> list[str]:
        """Words that the page has no place for."""
        known = {m.name for m in mechanisms()}
        words = [*self.verbs, *self.hardware, *self.mechanisms, self.on, *([self.how] if self.how else [])]
        return [w for w in words if w not in {*VERBS, *HARDWARE, *known, *ON, *HOW}]


def tried() -> tuple[dict[str, str], tuple[Shown, ...]]:
    """What was noted when the page was written: by which commit and when, and what passed."""
    document = json.loads(TRIED.read_text())
    lists = ('verbs', 'hardware', 'mechanisms')
    shown = [Shown(**{k: tuple(v) if k in lists else v for k, v in one.items()}) for one in document.pop('shown')]
    return document, tuple(shown)


def page(about: dict[str, str], shown: Sequence[Shown], known: Sequence[Mechanism]) -> str:
    """The whole page, below its title."""
    return '\n'.join([*_top(about, shown), *_verbs(shown), *_paths(known), *_mechanisms(shown, known), ''])


def _top(about: dict[str, str], shown: Sequence[Shown]) -> Iterator[str]:
    yield from _text(
        f'What was tried, by the tests that passed at commit {about["commit"]} ({about["date"]}): {len(shown)} times a test '
        'says that it shows something of this page.'
    )
    yield from _text(
        "*emulator*: a test does it against ``baremetal-acc emulate``. *recording*: replies of a real BMC, or of DMTF's "
        'mockups, were read; a recording takes no writes. *hardware*: a real machine. *not tried* says no more than that. '
        '*nothing to do*: such hardware has nothing of the kind. *Host path* is the way of the host to the card itself, *BMC '
        'path* its way by the BMC: the system interface, the host interface, and what vendors add to them.'
    )


def _text(text: str) -> Iterator[str]:
    yield from textwrap.wrap(text, 127, break_long_words=False, break_on_hyphens=False)
    yield ''


def _verbs(shown: Sequence[Shown]) -> Iterator[str]:
    for how, title in HOW.items():
        yield title[0].upper() + title[1:]
        yield '-' * len(title)
        yield ''
        if not any(s.how == how for s in shown):
            yield from _text(
                'Not tried: no test runs it. What is published in placement is read as Nova would read it, and claimed as Nova '
                'would claim it.'
            )
            continue
        rows = ([name, *(_cell(shown, how, verb, hardware) for verb in VERBS)] for hardware, name in HARDWARE.items())
        yield from table(('hardware', *VERBS), rows)


def _cell(shown: Iterable[Shown], how: str, verb: str, hardware: str) -> str:
    if (verb, hardware) in NOT_FOR:
        return 'nothing to do'
    # What is read of a recording does not depend on who asks.
    on = {s.on for s in shown if verb in s.verbs and hardware in s.hardware and s.how in (how, None)}
    return ', '.join(w for w in ON if w in on) or 'not tried'


_PATHS = {
    WritePath.HOST_DEVICE: 'host to card',
    WritePath.HOST_BMC_IPMI: 'host to BMC, IPMI',
    WritePath.HOST_BMC_REDFISH: 'host to BMC, Redfish',
    WritePath.BMC_NETWORK: "operator's own",
}


def _paths(known: Sequence[Mechanism]) -> Iterator[str]:
    yield 'Locks: what each closes'
    yield '-----------------------'
    yield ''
    yield from table(('mechanism', *_PATHS.values(), 'of what', 'after'), map(_closes, known))
    yield from _text(
        "What closes the operator's own way too is opened for a flash and closed again. *After* is the reset that a change "
        'needs before it is in force.'
    )


def _closes(mechanism: Mechanism) -> list[str]:
    about = mechanism.about
    closes = ['closed' if path in about.blocks else '' for path in _PATHS]
    of = ', '.join(SCOPES[s] for s in sorted(about.protects, key=list(SCOPES).index))
    return [f'``{mechanism.name}``', *closes, of, '' if about.needs is ResetKind.NONE else str(about.needs)]


SCOPES = {
    Scope.BMC: 'all devices, as far as they are reached through the BMC',
    Scope.DEVICE: 'the card',
    Scope.FIRMWARE: 'its firmware',
    Scope.COMPONENT: 'one item',
    Scope.SLOT: 'one slot',
}


def _mechanisms(shown: Sequence[Shown], known: Sequence[Mechanism]) -> Iterator[str]:
    yield 'Locks: where they are found, and what they cannot prove'
    yield '-------------------------------------------------------'
    yield ''
    for m in known:
        about = m.about
        on = [w for w in ON if any(s.on == w and m.name in s.mechanisms for s in shown)]
        yield f'``{m.name}``'
        yield f'   :Hardware: {plain(about.hardware)}'
        yield f'   :Read at: {plain(about.read_back)}'
        yield f'   :Cannot prove: {plain(about.cannot_prove)}'
        if about.licence is not None:
            yield f'   :Licence: {plain(about.licence)}'
        if about.wraps:
            yield '   :Order: opened first and closed last, since the BMC changes nothing else while it holds'
        yield f'   :Tried on: {", ".join(on) or "not tried"}'
        yield f'   :Source: {plain(about.source)}'
        yield ''
