# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""One inspection of a hostile BMC, and the check that its outcome is allowed.

A look ends in an inventory or in an error of ours, in time, speaks to nobody else, claims no lock and no version that was not
sent, and prints neither secrets nor what a terminal would obey.
"""

import base64
import functools
import io
import json
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn

import yaml

from baremetal_acc.bmc.driver import BmcAddress
from baremetal_acc.bmc.redfish.concurrency import RememberedBmc
from baremetal_acc.bmc.redfish.driver import RedfishDriver
from baremetal_acc.bmc.retry import ReadRetry
from baremetal_acc.cli.output import documents
from baremetal_acc.errors import AccError
from baremetal_acc.execution import Target, Tools, observe
from baremetal_acc.images.store import FileStore
from baremetal_acc.locks.registry import mechanisms
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.ref import HOST, AcceleratorId, BmcName
from baremetal_acc.planning.verify import verify
from baremetal_acc.policy import baseline
from baremetal_acc.policy.baseline_rules import Baseline, NodeFacts
from tests.hostile.bmc import Honest, HostileBmc, Tree, recorded, seeded
from tests.hostile.mutate import CLOSED, DOCUMENT, PASSWORD, USER, WANTED, WIRE, Hostile, places
from tests.hostile.oracle import Served, closed, false_locks, false_versions, has_version

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)

BUDGET = timedelta(seconds=4)
TIMEOUT = timedelta(seconds=1)

LONGEST = 30.0
"""Seconds in which a look must have ended: its budget, the tries of the root, login and logout, and a machine that has other
things to do. It tells a look that hangs from one that ends, no more."""

NODE = NodeFacts(name='hostile')

SMALL = ('dmtf/rackmount', 'dmtf/smartnic', 'nvidia/bluefield3')
LARGE = (
    'nvidia/gh200',
    'lenovo/sr670v2-8xl40-bluefield2',
    'supermicro/hgx-h100-8gpu',
    'dell/r750-h100-bluefield2',
    'hpe/dl380a-gen11-2xh100nvl',
)

LOCKED = baseline.parse(
    "format = 1\n[[rule]]\nblock = ['host-device']\naccept = ['locked-reported', 'locked-verified']\n", 'locked.toml'
)
CURRENT = baseline.parse(f"format = 1\n[[rule]]\nblock = []\n[rule.firmware]\n'*' = '{WANTED}'\n", 'current.toml')


# ---------------------------------------------------------------------------------------------------------------- watched


class Watch:
    """Whom this process speaks to. An audit hook sees every connection and every name that is looked up."""

    def __init__(self) -> None:
        self.active = False
        self.ports: set[int] = set()
        self.seen: list[str] = []

    def hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Called by the interpreter."""
        if not self.active:
            return
        if event == 'socket.connect':
            where = arguments[1]
            if isinstance(where, tuple) and not (where[0] == '127.0.0.1' and where[1] in self.ports):
                self.seen.append(f'connected to {where}')
        elif event in ('socket.getaddrinfo', 'socket.gethostbyname') and arguments[0] not in ('127.0.0.1', b'127.0.0.1'):
            self.seen.append(f'looked up {arguments[0]!r}')


WATCH = Watch()
sys.addaudithook(WATCH.hook)


class _Heard(logging.Handler):
    """Everything that is logged."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[tuple[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append((record.name, record.getMessage()))


@contextmanager
def listening() -> Iterator[_Heard]:
    heard, root = _Heard(), logging.getLogger()
    before = root.level
    root.addHandler(heard)
    root.setLevel(logging.DEBUG)
    try:
        yield heard
    finally:
        root.removeHandler(heard)
        root.setLevel(before)


# ------------------------------------------------------------------------------------------------------------------ looks


@dataclass(slots=True, kw_only=True)
class Seen:
    """What came of a look.

    :ivar crash: what was raised that is no error of ours.
    """

    inventory: Inventory | None = None
    error: AccError | None = None
    crash: str | None = None
    seconds: float = 0.0
    log: list[tuple[str, str]] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)


CARD = BmcName('card')
"""The second BMC of a target that has two."""


def look(
    bmc: HostileBmc,
    script: Honest,
    *,
    card: Honest | None = None,
    tls: bool = False,
    concurrency: int = 4,
    remembered: RememberedBmc | None = None,
) -> Seen:
    """Look once, the public way.

    :param card: what a second BMC of the same target answers, with TLS.
    :param remembered: what earlier looks have learnt of the BMC; nothing when None, so that no look depends on another one.
    """
    seen = Seen()
    address = BmcAddress(
        name=HOST,
        address=bmc.https if tls and card is None else bmc.http,
        username=USER,
        password=PASSWORD,
        verify_ca=str(bmc.certificate),
        timeout=TIMEOUT,
        budget=BUDGET,
        concurrency=concurrency,
    )
    addresses = (address,) if card is None else (address, replace(address, name=CARD, address=bmc.https))
    driver = RedfishDriver(
        patience=ReadRetry(attempts=2, patience=1.0, sleep=lambda seconds: None),
        remembered=RememberedBmc() if remembered is None else remembered,
    )
    tools = Tools(connect=driver.connect, mechanisms=mechanisms(), baseline=LOCKED, catalogue=(), images=FileStore(folders=()))
    target = Target(name='hostile', node=NODE, bmcs=addresses)
    before = bmc.strangers
    WATCH.ports, WATCH.seen, WATCH.active = set(bmc.ports[:2]), [], True
    bmc.play(script, card or script)
    started = time.monotonic()
    with listening() as heard:
        try:
            seen.inventory = observe(target, tools, NOW)
        except AccError as exc:
            seen.error = exc
        except Exception:  # noqa: BLE001 - that there is none is what is tested
            seen.crash = traceback.format_exc(limit=-6)
        finally:
            seen.seconds = time.monotonic() - started
            WATCH.active = False
            bmc.play(None)
            bmc.hang_up()
    seen.log = heard.lines
    seen.strangers = list(WATCH.seen)
    if bmc.strangers != before:
        seen.strangers.append('somebody connected to the port of a stranger')
    return seen


def served_by(script: Honest, card: Honest | None = None) -> Served:
    """What the BMCs of a target sent."""
    return Served(
        {
            name: (played.log, played.chains if isinstance(played, Hostile) else {})
            for name, played in ((HOST, script), (CARD, card))
            if played is not None
        }
    )


def faults(seen: Seen, script: Honest, known: 'Known | None' = None, card: Honest | None = None) -> list[str]:
    """Everything about a look that must not be."""
    found = [f'talked to others: {text}' for text in seen.strangers]
    if seen.crash is not None:
        found.append(f'ended in what is no error of ours:\n{seen.crash}')
    if seen.seconds > LONGEST:
        found.append(f'took {seen.seconds:.1f} s')
    found += _told(seen, [*script.tokens, *(card.tokens if card is not None else ())])
    if seen.inventory is None:
        return found
    served = served_by(script, card)
    found += false_locks(seen.inventory, served)
    found += false_versions(seen.inventory, served)
    if known is not None:
        found += _too_good(seen.inventory, script, known, served)
    return found


def _told(seen: Seen, tokens: list[str]) -> list[str]:
    """What was printed, raised and logged."""
    texts = [('the log', f'{name}: {line}') for name, line in seen.log]
    found = [
        f'the log has control characters: {line!r}'
        for name, line in seen.log
        if name.startswith('baremetal_acc') and not line.isprintable()
    ][:3]
    if seen.error is not None:
        texts.append(('the error', str(seen.error)))
        if not str(seen.error).isprintable():
            found.append(f'the error has control characters: {str(seen.error)!r}')
    body = documents.document([documents.inventory('hostile', seen.inventory, seen.error)])
    try:
        printed = json.dumps(body, indent=2)
        json.loads(printed, parse_constant=_refuse)
        if not printed.isascii() or any(ord(c) < 32 and c != '\n' for c in printed) or '\x7f' in printed:
            found.append('what is printed has control characters')
        if seen.inventory is not None and len(seen.inventory.gaps) < 300:
            yaml.safe_dump(json.loads(printed), stream := io.StringIO(), sort_keys=False)
            stream.getvalue().encode()
    except (ValueError, RecursionError, yaml.YAMLError) as exc:
        found.append(f'what is printed is no JSON: {type(exc).__name__}: {exc}')
    if seen.inventory is not None:
        texts += [('a gap', f'{gap.ref} {gap.reason}') for gap in seen.inventory.gaps]
    found += secrets_in(texts, tokens)
    gaps = [] if seen.inventory is None else [g.reason for g in seen.inventory.gaps]
    found += [f'a gap has control characters: {reason!r}' for reason in gaps if not reason.isprintable()][:3]
    return found


def secrets_in(texts: Iterable[tuple[str, str]], tokens: Iterable[str]) -> list[str]:
    """Texts that hold our password, as it is or as Basic authentication writes it, or a token that we were given."""
    # Half a password is a secret, too: texts are cut.
    secrets = [PASSWORD[:12], base64.b64encode(f'{USER}:{PASSWORD}'.encode()).decode(), *tokens]
    return [f'{where} has a secret: {text[:300]!r}' for where, text in texts for secret in secrets if secret in text]


def _refuse(word: str) -> NoReturn:
    raise ValueError(f'{word} is no JSON')


# ------------------------------------------------------------------------------------------------------------------ known


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What an honest look at the same tree gave."""

    inventory: Inventory
    ids: frozenset[AcceleratorId]
    met: dict[str, bool]


def what(inventory: Inventory) -> object:
    """What an inventory says of devices, without times, sessions and addresses."""
    return [
        (
            a.id,
            a.refs,
            a.firmware,
            a.functions,
            a.slots,
            [(r.mechanism, r.ref, r.field, r.value, r.state, r.reason) for r in a.locks],
        )
        for a in inventory.accelerators
    ]


_RULES: dict[str, Baseline] = {'locked': LOCKED, 'current': CURRENT}


def _met(inventory: Inventory, rules: Baseline, ids: frozenset[AcceleratorId]) -> bool:
    return verify(inventory, rules, NODE, (), (), lifecycle=1, known=ids).met


def knowledge(inventory: Inventory) -> Known:
    """What is known after an honest look."""
    ids = frozenset(a.id for a in inventory.accelerators)
    return Known(inventory=inventory, ids=ids, met={name: _met(inventory, rules, ids) for name, rules in _RULES.items()})


def _too_good(inventory: Inventory, script: Honest, known: Known, served: Served) -> list[str]:
    """Verdicts that hold although the recording's does not, and nothing that was sent says so."""
    found = []
    relinked = script.relinked if isinstance(script, Hostile) else False
    for name, rules in _RULES.items():
        if known.met[name] or not _met(inventory, rules, known.ids):
            continue
        seen = {a.id for a in inventory.accelerators}
        if not known.ids <= seen:
            found.append(f'{name} is met without {sorted(known.ids - seen)}')
        if name == 'current':
            bad = [
                str(c.ref)
                for a in inventory.accelerators
                for c in a.firmware
                if c.id and not has_version(c.ref, WANTED, served)
            ]
            if not relinked:
                components = [c for a in known.inventory.accelerators for c in a.firmware if c.id]
                bad += [str(c.ref) for c in components if not has_version(c.ref, WANTED, served)]
        else:
            bad = []
            if not relinked:
                readings = [r for a in known.inventory.accelerators for r in a.locks if 'host-device' in r.blocks]
                bad += [f'{r.ref} {r.field}' for r in readings if not closed(r, served)]
        if bad:
            found.append(f'{name} is met, and nothing that was sent says so of {", ".join(bad[:5])}')
    return found


# ------------------------------------------------------------------------------------------------------------------ cases


def shared() -> Path:
    """The folder with the recordings."""
    return Path(os.environ.get('BAREMETAL_ACC_SHARED') or Path(__file__).parents[3] / 'shared')


@functools.cache
def tree(name: str, variant: str) -> Tree:
    """A recording with its locks as recorded, all shown and open, or all shown and closed."""
    found = json.loads(json.dumps(recorded(shared() / 'recordings' / name)))
    if variant == 'recorded':
        return found
    opened: dict[str, Any] = {'HostPrivilegeLevel': 'Privileged', 'HostRshim': 'Enabled'}
    for uri, body in found.items():
        if '/FirmwareInventory/' in uri or '/SoftwareInventory/' in uri:
            # The BMC's own items stay open: a BMC that says true of everything is not believed.
            body['WriteProtected'] = variant == 'closed' and len(body.get('RelatedItem') or ()) > 0
        for container, key in list(places(body)):
            if key in CLOSED and key != 'WriteProtected':
                container[key] = CLOSED[key] if variant == 'closed' else opened.get(key, not CLOSED[key])
    return found


_KNOWN: dict[tuple[str, str], Known] = {}
_LOCK = threading.Lock()


def known_of(bmc: HostileBmc, name: str, variant: str) -> Known:
    """What an honest look at a tree gives.

    :raises AssertionError: the honest look itself is at fault.
    """
    if (name, variant) not in _KNOWN:
        script = Honest(tree=tree(name, variant))
        seen = look(bmc, script)
        wrong = faults(seen, script)
        if wrong or seen.inventory is None:
            raise AssertionError(f'an honest look at {name} ({variant}): {seen.error} {wrong}')
        _KNOWN[name, variant] = knowledge(seen.inventory)
    return _KNOWN[name, variant]


@dataclass(slots=True, kw_only=True)
class Case:
    """One look of the soak.

    :ivar card: what a second BMC of the target answers, a card's own.
    :ivar first_honest: an honest look comes before, from which the client has learnt. ``then_honest``: one comes afterwards.
    """

    name: str
    variant: str
    script: Hostile
    card: Hostile | None = None
    tls: bool = False
    concurrency: int = 4
    first_honest: bool = False
    then_honest: bool = False

    @property
    def scripts(self) -> list[Hostile]:
        """Of all BMCs."""
        return [self.script] if self.card is None else [self.script, self.card]


def case(seed: int, number: int, stranger: str, names: tuple[str, ...] = (*SMALL, *LARGE)) -> Case:
    """The look of that number."""
    rng = seeded(seed, number)
    weights = [6 if name in SMALL else 1 for name in names]
    name = rng.choices(names, weights)[0]
    variant = rng.choice(('recorded', 'open', 'open', 'closed'))
    script = Hostile(
        tree=tree(name, variant),
        expand=rng.random() < 0.5,
        sessions=rng.random() < 0.8,
        seed=seed,
        number=number,
        stranger=stranger,
        rate=rng.choice((0.03, 0.1, 0.3, 0.6, 0.95)),
        wire=rng.choice((0.0, 0.3, 0.6, 1.0)),
        slow=rng.random() < 0.02,
        heavy=rng.random() < 0.02,
        values=rng.random() < 0.85,
    )
    if rng.random() < 0.3:
        script.only = tuple(rng.sample([*DOCUMENT, *WIRE], k=rng.randint(1, 3)))
    made = Case(name=name, variant=variant, script=script, tls=rng.random() < 0.15, concurrency=rng.choice((1, 4, 4, 8)))
    if rng.random() < 0.1:
        made.card = replace(
            script, tree=tree('nvidia/bluefield3', rng.choice(('open', 'closed'))), number=-1 - number, log=[], tokens=[],
            again={}, used={}, chains={}, lock=threading.Lock(), rate=rng.choice((0.03, 0.3, 0.95)),
        )  # fmt: skip
    made.first_honest, made.then_honest = rng.random() < 0.1, rng.random() < 0.1
    return made


def judge(bmc: HostileBmc, made: Case) -> tuple[Seen, list[str]]:
    """Look, and say what was wrong. An honest look afterwards must not suffer from what was learnt."""
    known = known_of(bmc, made.name, made.variant)
    remembered = RememberedBmc()

    def honest(when: str) -> list[str]:
        script = Honest(tree=made.script.tree, expand=made.script.expand)
        seen = look(bmc, script, tls=made.tls and made.card is None, concurrency=made.concurrency, remembered=remembered)
        found = [f'in the honest look {when}: {text}' for text in faults(seen, script)]
        if seen.inventory is None or what(seen.inventory) != what(known.inventory):
            found.append(f'the honest look {when} found something else ({seen.error})')
        return found

    found = honest('before') if made.first_honest else []
    seen = look(bmc, made.script, card=made.card, tls=made.tls, concurrency=made.concurrency, remembered=remembered)
    found += faults(seen, made.script, known if made.card is None else None, made.card)
    if made.then_honest:
        found += honest('afterwards')
    if bmc.faults:
        found += [f'the harness: {text}' for text in bmc.faults]
        bmc.faults.clear()
    return seen, found
