# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What does what, and on what was that tried? The page doc/source/support.rst, from declarations and from tests that passed.

A test that shows something says so:
``@pytest.mark.shows('flash', 'verify', hardware=('hgx-gpu',), how='cli', on='emulator', mechanisms=('write_protected',))``.
``make support-matrix`` runs all of them, notes those that passed in ``tried.json``, and writes the page from that and from what
every lock mechanism says of itself (:class:`baremetal_acc.locks.api.About`). Nothing on it is written by hand.
"""

import ast
import json
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from baremetal_acc.locks.api import Mechanism
from baremetal_acc.locks.find import mechanisms
from baremetal_acc.model.lock import ResetKind, Scope, WritePath

TREE = Path(__file__).parents[2]

PAGE = TREE / 'doc' / 'source' / 'support.rst'

TRIED = TREE / 'doc' / 'source' / 'tried.json'

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


def marked(folder: Path = TREE / 'tests') -> tuple[Shown, ...]:
    """What every test that is marked says of itself, read from the files and not run."""
    found = []
    for path in sorted(folder.rglob('test_*.py')):
        text = path.read_text()
        if 'mark.shows' not in text:
            continue
        for outer in ast.parse(text).body:
            names = [outer.name] if isinstance(outer, ast.ClassDef) else []
            for node in outer.body if isinstance(outer, ast.ClassDef) else [outer]:
                if isinstance(node, ast.FunctionDef):
                    test = '::'.join([str(path.relative_to(TREE)), *names, node.name])
                    found += [_shown(test, mark) for mark in _marks(node)]
    return tuple(sorted(found, key=repr))


def _marks(node: ast.FunctionDef) -> Iterator[ast.Call]:
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == 'pytest.mark.shows':
            yield decorator


def _shown(test: str, mark: ast.Call) -> Shown:
    more = {k.arg: ast.literal_eval(k.value) for k in mark.keywords if k.arg is not None}
    return Shown(test=test, verbs=tuple(ast.literal_eval(a) for a in mark.args), **more)


# ------------------------------------------------------------------------------------------------------------------- running


class Passed:
    """A plugin of pytest: which tests passed, in all their variants."""

    def __init__(self) -> None:
        self.passed: set[str] = set()
        self.not_passed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid.partition('[')[0]
        if report.outcome != 'passed':
            self.not_passed.add(name)
        elif report.when == 'call':
            self.passed.add(name)


def tried() -> tuple[dict[str, str], tuple[Shown, ...]]:
    """What was noted when the page was written: by which commit and when, and what passed."""
    document = json.loads(TRIED.read_text())
    lists = ('verbs', 'hardware', 'mechanisms')
    shown = [Shown(**{k: tuple(v) if k in lists else v for k, v in one.items()}) for one in document.pop('shown')]
    return document, tuple(shown)


def note(found: Iterable[Shown], commit: str, date: str) -> str:
    """The text of tried.json."""
    shown = [{k: v for k, v in vars(one).items() if v not in (None, ())} for one in sorted(found, key=repr)]
    return json.dumps({'commit': commit, 'date': date, 'shown': shown}, indent=1) + '\n'


# ---------------------------------------------------------------------------------------------------------------------- page


def page(about: dict[str, str], shown: Sequence[Shown], known: Sequence[Mechanism]) -> str:
    """The whole page."""
    return '\n'.join([*_top(about, shown), *_verbs(shown), *_paths(known), *_mechanisms(shown, known), ''])


def _top(about: dict[str, str], shown: Sequence[Shown]) -> Iterator[str]:
    yield '.. Written by make support-matrix, from what mechanisms and tests say. Do not edit.'
    yield ''
    yield 'Support matrix'
    yield '=============='
    yield ''
    yield from _text(
        f'What was tried, by the tests that passed at commit {about["commit"]} ({about["date"]}): {len(shown)} times a test '
        'says that it shows something of this page. A test in ``make test`` fails when the page and what they and the lock '
        'mechanisms say of themselves differ.'
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
        yield '.. list-table::'
        yield '   :header-rows: 1'
        yield ''
        yield from _row(['hardware', *VERBS])
        for hardware, name in HARDWARE.items():
            yield from _row([name, *(_cell(shown, how, verb, hardware) for verb in VERBS)])
        yield ''


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
    yield '.. list-table::'
    yield '   :header-rows: 1'
    yield ''
    yield from _row(['mechanism', *_PATHS.values(), 'of what', 'after'])
    for m in known:
        closes = ['closed' if path in m.about.blocks else '' for path in _PATHS]
        of = ', '.join(_SCOPES[s] for s in sorted(m.about.protects, key=list(_SCOPES).index))
        yield from _row([f'``{m.name}``', *closes, of, '' if m.about.needs is ResetKind.NONE else str(m.about.needs)])
    yield ''
    yield from _text(
        "What closes the operator's own way too is opened for a flash and closed again. *After* is the reset that a change "
        'needs before it is in force.'
    )


_SCOPES = {
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
        yield f'   :Hardware: {_plain(about.hardware)}'
        yield f'   :Read at: {_plain(about.read_back)}'
        yield f'   :Cannot prove: {_plain(about.cannot_prove)}'
        if about.licence is not None:
            yield f'   :Licence: {_plain(about.licence)}'
        if about.wraps:
            yield '   :Order: opened first and closed last, since the BMC changes nothing else while it holds'
        yield f'   :Tried on: {", ".join(on) or "not tried"}'
        yield f'   :Source: {_plain(about.source)}'
        yield ''


def _plain(text: str) -> str:
    """Text of a declaration, in which no character means anything to reST."""
    return ''.join('\\' + c if c in '*`_|\\' else c for c in text)


def _row(cells: Iterable[str]) -> Iterator[str]:
    for n, cell in enumerate(cells):
        yield f'   {"*" if n == 0 else " "} - {cell}'.rstrip()


def main() -> int:
    """Run what is marked, note what passed, write the page."""
    shown = marked()
    wrong = [f'{one.test}: {word}' for one in shown for word in one.wrong()]
    if wrong:
        sys.stderr.write('\n'.join(['unknown words:', *wrong, '']))
        return 2
    seen = Passed()
    status = pytest.main(['-q', '-m', 'shows', '-p', 'no:cacheprovider', *sorted({s.test for s in shown})], plugins=[seen])
    good = [one for one in shown if one.test in seen.passed - seen.not_passed]
    command = ['git', 'rev-parse', '--short', 'HEAD']
    commit = subprocess.run(command, cwd=TREE, capture_output=True, text=True, check=True).stdout.strip()
    TRIED.write_text(note(good, commit, f'{datetime.now(UTC):%Y-%m-%d}'))
    about, noted = tried()
    PAGE.write_text(page(about, noted, mechanisms()))
    left = sorted({s.test for s in shown} - {s.test for s in good})
    sys.stderr.write(f'{len(good)} of {len(shown)} noted, {PAGE} written\n' + ''.join(f'did not pass: {t}\n' for t in left))
    return int(status)


if __name__ == '__main__':
    sys.exit(main())
