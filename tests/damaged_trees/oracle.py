# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What must hold of a look at a damaged tree: nothing is lost or invented in silence, nothing verified of what is hidden."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from baremetal_acc.bmc.driver import BmcAddress
from baremetal_acc.bmc.redfish.concurrency import RememberedBmc
from baremetal_acc.bmc.redfish.driver import RedfishDriver
from baremetal_acc.bmc.retry import ReadRetry
from baremetal_acc.errors import BmcError
from baremetal_acc.execution import Target, Tools, observe
from baremetal_acc.images.store import FileStore
from baremetal_acc.locks.registry import mechanisms
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.inventory import Gap, Inventory
from baremetal_acc.model.lock import LockState, WritePath
from baremetal_acc.model.ref import HOST, Ref
from baremetal_acc.planning.lock_evidence import coverage
from baremetal_acc.planning.verify import verify
from baremetal_acc.policy.baseline_rules import Baseline, Match, NodeFacts, Rule
from tests import replies
from tests.damaged_trees.damage import Damage, shown
from tests.damaged_trees.tree import ROOT, Body, Service, Tree, links_of, plain

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)

NODE = NodeFacts(name='node')

CLOSED = frozenset({LockState.LOCKED_VERIFIED, LockState.LOCKED_REPORTED})

PATHS = tuple(WritePath)

_CARD = '/redfish/v1/Chassis/Card2'
_FPGAS = f'{_CARD}/NetworkAdapters/Slot2/Processors'

LIMITS = frozenset(
    ('dmtf/smartnic', what)
    for what in (
        f'deleted: {_CARD} NetworkAdapters -> {_CARD}/NetworkAdapters',
        f'deleted and not counted: {_CARD}/NetworkAdapters 0 -> {_CARD}/NetworkAdapters/Slot2',
        f'deleted and not counted: {_FPGAS} 0 -> {_FPGAS}/FPGA1',
    )
)
"""Damages that are not noticed. NetworkInterfaces of the System, and NetworkDeviceFunctions, lead to what is lost; those are
read where an adapter may be an accelerator, if at all, and this one would be the first. Ordinary servers have dozens."""


def look(service: Service) -> Inventory:
    """One inventory with its locks, by the code of the product, over no network.

    :raises BmcError: the BMC cannot be spoken to at all.
    """
    driver = RedfishDriver(
        patience=ReadRetry(sleep=lambda seconds: None), remembered=RememberedBmc(), dial=replies.dial(service.answer)
    )
    address = BmcAddress(name=HOST, address='https://192.0.2.1', system=service.tree.system, concurrency=1)
    empty = Baseline(rules=())
    tools = Tools(connect=driver.connect, mechanisms=mechanisms(), baseline=empty, catalogue=(), images=FileStore(folders=()))
    return observe(Target(name='node', node=NODE, bmcs=(address,)), tools, NOW)


@dataclass(frozen=True, kw_only=True)
class Known:
    """What a look at the whole tree found.

    :ivar asked: what it asked for.
    """

    tree: Tree
    inventory: Inventory
    asked: set[str]

    @classmethod
    def of(cls, tree: Tree) -> 'Known':
        """Of a tree as it was recorded."""
        service = Service(tree)
        return cls(tree=tree, inventory=look(service), asked=service.asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of one look.

    :ivar wrong: what must not be, line by line.
    :ivar hidden: a device is not seen, and a gap says so; ``unknowable``: nothing that the BMC shows says that it is there.
    :ivar refused: the look ended in an error. ``limit``: a limit that is known: one of LIMITS, or an item in whose place
        another one is listed twice. A real BMC lists firmware items twice and counts them twice, and lacks none.
    """

    wrong: tuple[str, ...] = ()
    hidden: bool = False
    unknowable: bool = False
    refused: bool = False
    limit: bool = False


def judge(known: Known, damage: Damage, *, expands: bool = False) -> Result:
    """Look at the damaged tree, and compare what is seen with what is there."""
    service = Service(known.tree, damage.changed, expands=expands, folds=damage.folds)
    try:
        seen = look(service)
    except BmcError:
        return Result(refused=True)
    except Exception as exc:  # noqa: BLE001 - that there is none is what is tested
        return Result(wrong=(f'CRASH {type(exc).__name__}: {exc}',))
    # Whose a gap is may change with what is damaged: it is an old one still.
    before = {replace(gap, accelerator=None) for gap in known.inventory.gaps}
    new = [gap for gap in seen.gaps if replace(gap, accelerator=None) not in before]
    hides = any(gap.hides for gap in new)
    missing, more = _compared(known.inventory.accelerators, seen.accelerators)
    lost = missing
    unknowable = False
    there = {uri.casefold() for uri in shown(service.said, ROOT)}
    if lost and not hides:
        lost = [a for a in lost if _is_told(a, there)]
        unknowable = not lost
    limit = bool(lost) and not hides and (known.tree.name, damage.what) in LIMITS
    wrong = [f'LESS {a.id} {a.primary.uri}' for a in lost if not hides and not limit]
    wrong += [f'MORE {what}' for devices, what in more if not any(_is_of(gap, devices) for gap in new)]
    if not limit:
        found = list(_verified(known.inventory, seen, new, nobodys=missing))
        visible = [
            (ref, text)
            for ref, text in found
            if ref is None or (ref.uri.casefold() in there and not _unrelated(damage, service, ref, seen))
        ]
        wrong += [text for _, text in visible]
        limit = bool(found) and not visible and any(ref is not None and _is_counted(service, ref) for ref, _ in found)
        unknowable = (unknowable or bool(found)) and not wrong and not limit
    return Result(wrong=tuple(wrong), hidden=bool(lost) and hides, unknowable=unknowable, limit=limit)


def _is_told(lost: Accelerator, there: set[str]) -> bool:
    """Something that is shown still says that there is such a device; an adapter or a chassis alone may be one without it."""
    uris = [ref.uri for ref in lost.refs if ref.uri.casefold() in there]
    return lost.primary.uri.casefold() in there or any(_MAY_BE_OTHERS.fullmatch(uri) is None for uri in uris)


_MAY_BE_OTHERS = re.compile(
    r'.*/(Chassis/[^/]+|Network(Adapters|Interfaces)/[^/]+(/(?!Processors/).*)?)|.*/(Systems|Managers)/[^/]+', re.DOTALL
)


def _unrelated(damage: Damage, service: Service, item: Ref, seen: Inventory) -> bool:
    """Nothing says any more of which device an item is: what said it is gone, and leads nowhere."""
    if not damage.kind.startswith(('deleted', 'contradicted')):
        return False
    uris = {ref.uri for a in seen.accelerators for ref in a.refs}
    ends = {plain(holder[name]['@odata.id']) for holder, name in links_of(service.body(item.uri))}
    ends |= {plain(outer) for end in ends if (outer := _contained_by(service.body(end))) is not None}
    back = {plain(holder[name]['@odata.id']) for uri in uris for holder, name in links_of(service.body(uri))}
    if item.uri in damage.changed and damage.kind == 'contradicted: another member':
        return item.uri not in back  # it says of itself that it is another device's, and nothing else says whose it is
    return item.uri not in back and not any(end == uri or end.startswith(f'{uri}/') for end in ends for uri in uris)


def _contained_by(body: Body | None) -> str | None:
    """What a chassis says that contains it."""
    links = body.get('Links') if isinstance(body, dict) else None
    outer = links.get('ContainedBy') if isinstance(links, dict) else None
    link = outer.get('@odata.id') if isinstance(outer, dict) else None
    return link if isinstance(link, str) else None


def _is_counted(service: Service, item: Ref) -> bool:
    """The list of an item that is not in it counts more than it has."""
    body = service.body(item.uri.rpartition('/')[0])
    listed, count = (body.get('Members'), body.get('Members@odata.count')) if isinstance(body, dict) else (None, None)
    if not isinstance(listed, list) or not isinstance(count, int):
        return False
    members = [
        service.body(plain(m['@odata.id'])) for m in listed if isinstance(m, dict) and isinstance(m.get('@odata.id'), str)
    ]
    said = {m.get('@odata.id') for m in members if isinstance(m, dict)}
    return len(said) < count


def _uris(one: Accelerator) -> set[str]:
    return {ref.uri.casefold() for ref in one.refs}


_PLACE = re.compile(r'/redfish/v1/(Systems|Chassis)/[^/]+')


def _is_of(gap: Gap, devices: Iterable[Accelerator]) -> bool:
    """A gap tells of one of some devices: it hides, or names one of them, a resource of it or the System or Chassis of that."""
    for one in devices:
        uris = {ref.uri for ref in (*one.refs, *(c.ref for c in one.firmware))}
        places = uris | {match[0] for uri in uris if (match := _PLACE.match(uri)) is not None}
        if gap.hides or gap.accelerator == one.id or gap.ref.uri in places or any(uri in gap.reason for uri in uris):
            return True
    return False


def _compared(
    whole: Iterable[Accelerator], seen: Iterable[Accelerator]
) -> tuple[list[Accelerator], list[tuple[list[Accelerator], str]]]:
    """Devices that are not seen, each for itself, and those that are seen and are none, or are one twice."""
    whole, seen = list(whole), list(seen)
    of = {n: [a for a in whole if _uris(a) & _uris(s)] for n, s in enumerate(seen)}
    times = {a.id: [n for n, found in of.items() if a in found] for a in whole}
    lost = [a for a in whole if not times[a.id]]
    lost += [a for found in of.values() for a in found[1:] if len(times[a.id]) == 1]
    more = [([seen[n]], f'{seen[n].primary.uri}: none') for n, found in of.items() if not found]
    more += [([a, *(seen[i] for i in n)], f'{a.primary.uri}: {len(n)} times') for a in whole if len(n := times[a.id]) > 1]
    return lost, more


def _verified(
    whole: Inventory, seen: Inventory, new: list[Gap], nobodys: Iterable[Accelerator]
) -> Iterator[tuple[Ref | None, str]]:
    """What is hidden of a machine that verifies by the rules that are easiest to meet: all is as it is shown, none was known.

    With the resource that is not seen, where it is that.

    :param nobodys: devices that are not seen: that is judged elsewhere.
    """
    out_of_sight = {a.id for a in nobodys}
    rules = []
    for a in seen.accelerators:
        versions = tuple((c.id, c.version) for c in a.firmware if c.id is not None and c.version is not None)
        block = frozenset(path for path in PATHS if _is_closed(a, path))
        rules.append(Rule(name=str(a.id), match=Match(ids=frozenset({a.id})), firmware=versions, block=block, accept=CLOSED))
    shown_as = replace(seen, gaps=tuple(new))
    if not verify(shown_as, Baseline(rules=tuple(rules)), NODE, (), (), lifecycle=1, known=frozenset()).met:
        return
    by_id = {a.id: a for a in seen.accelerators}
    everywhere = {c.ref: c for a in seen.accelerators for c in a.firmware}
    for a in whole.accelerators:
        if a.id in out_of_sight:
            continue
        # Damage may take away what identified it: on a first look nobody knows that.
        now = by_id.get(a.id) or next((s for s in seen.accelerators if _uris(a) & _uris(s)), None)
        if now is None:
            yield None, f'VERIFIED without {a.id}'
            continue
        for c in a.firmware:
            found = everywhere.get(c.ref)
            if c.version is not None and found is None and (c.id is not None or not any(d.id is None for d in now.firmware)):
                yield c.ref, f'VERIFIED without {c.ref.uri} of {a.id}'
            elif found is not None and found not in now.firmware and c.id is not None:
                yield c.ref, f'VERIFIED with {c.ref.uri} of {a.id} as that of another device'
            elif found is not None and c.version is not None and found.version != c.version:
                yield None, f'VERIFIED with {found.version} of {c.ref.uri}, which is {c.version}'
        for path in PATHS:
            if _is_closed(now, path) and not _is_closed(a, path):
                yield None, f'VERIFIED with {path} of {a.id} closed, which is open'


def _is_closed(one: Accelerator, path: WritePath) -> bool:
    readings = [r for r in one.locks if path in r.blocks]
    return bool(readings) and all(c.state in CLOSED for c in coverage(one, path, readings))
