# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read our nodes from Ironic and placement: the functions in their regions, and why a node cannot be taken.

No BMC is asked: each conductor stores in the node what it verified (:mod:`baremetal_acc.scheduling.regions`).
"""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from baremetal_acc.errors import AccError, StaleJob
from baremetal_acc.pools.ironic import IronicApi, Json, one_line
from baremetal_acc.pools.state_machine import Holds, MoveState
from baremetal_acc.scheduling import regions
from baremetal_acc.scheduling.pools import PoolMachine, PoolRegion, RegionMove

KEY = 'baremetal_acc'
"""Our key in driver_internal_info."""

AVAILABLE, MANAGEABLE, FAILED = 'available', 'manageable', 'clean failed'

BETWEEN = frozenset({'cleaning', 'clean wait', 'verifying', 'clean hold'})

AT_ONCE = 8
"""How many machines are looked up in placement at a time."""

NO_REGIONS = 'no FPGA regions are stored for the node'


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRead:
    """One node as Ironic shows it.

    :ivar regions: the stored regions of the node; empty where there are none, or none that can be read.
    :ivar busy: why the node cannot be taken, as far as Ironic shows; None where it can. ``passing``: the reason passes in a
        moment.
    :ivar kept: why its conductor keeps the node withdrawn from placement; None where it does not.
    """

    uuid: str
    name: str
    standing: MoveState
    state: str
    regions: tuple[PoolRegion, ...]
    resource_class: str | None = None
    owner: str | None = None
    instance: str | None = None
    maintenance: bool = False
    last_error: str | None = None
    ours: bool = False
    kept: str | None = None
    busy: str | None = None
    passing: bool = False

    def holds(self, move: RegionMove) -> Holds:
        """Return whether the regions of a move were last verified to hold the old functions, the new ones, or others."""
        now = {r.provider: r.function for r in self.regions}
        if any(c.provider not in now for c in move.changes):
            return Holds.OTHER
        if all(now[c.provider] == c.function for c in move.changes):
            return Holds.AFTER
        return Holds.BEFORE if all(now[c.provider] == c.was for c in move.changes) else Holds.OTHER


def parse(raw: Json) -> NodeRead | None:
    """Return a node of Ironic's answer; None where it cannot be worked with."""
    uuid = raw.get('uuid')
    state = raw.get('provision_state')
    if not isinstance(uuid, str) or not isinstance(state, str):
        return None
    info = raw.get('driver_internal_info')
    ours = info.get(KEY) if isinstance(info, dict) else None
    found: tuple[PoolRegion, ...] = ()
    unreadable = None
    if isinstance(ours, dict) and ours.get('regions') is not None:
        try:
            found = regions.of_node(uuid, regions.read(ours['regions']))
        except StaleJob as exc:
            unreadable = exc.message
        except AccError:
            return None
    instance = _text(raw.get('instance_uuid'))
    last_error = _text(raw.get('last_error'))
    made = NodeRead(
        uuid=uuid,
        name=one_line(_text(raw.get('name')) or uuid, 255),
        standing=_standing(state),
        state=one_line(state, 64),
        regions=found,
        resource_class=_text(raw.get('resource_class')),
        owner=_text(raw.get('owner')),
        instance=instance,
        maintenance=raw.get('maintenance') is not False,
        last_error=None if last_error is None else one_line(last_error),
        ours=isinstance(ours, dict),
        kept=_kept(ours),
    )
    why, passing = _busy(made, raw, unreadable)
    return replace(made, busy=why, passing=passing)


def _kept(ours: object) -> str | None:
    """Return why a conductor has withdrawn a node, as it has stored it."""
    shelf = ours.get('shelf') if isinstance(ours, dict) else None
    mark = shelf.get('withdrawn') if isinstance(shelf, dict) else None
    if not isinstance(mark, dict):
        return None
    return one_line(_text(mark.get('why')) or 'no reason is stored', 255)


def _standing(state: str) -> MoveState:
    if state == AVAILABLE:
        return MoveState.AVAILABLE
    if state == MANAGEABLE:
        return MoveState.MANAGEABLE
    if state == FAILED:
        return MoveState.FAILED
    return MoveState.BETWEEN if state in BETWEEN else MoveState.TAKEN


def _busy(node: NodeRead, raw: Json, unreadable: str | None) -> tuple[str | None, bool]:
    """Return why a node cannot be taken, and whether that passes in a moment."""
    holder = _text(raw.get('reservation'))
    reasons = (
        (f'claimed by instance {node.instance}', node.instance is not None, False),
        (f'not available: {node.state}' + (f': {node.last_error}' if node.last_error else ''), node.state != AVAILABLE, False),
        ('in maintenance', node.maintenance, False),
        ('protected', raw.get('protected') is True, False),
        ('retired', raw.get('retired') is True, False),
        (f'last_error is set: {node.last_error}', node.last_error is not None, False),
        (f'{unreadable}', unreadable is not None, False),
        (NO_REGIONS, not node.regions, False),
        (f'withdrawn from placement by its conductor: {node.kept}', node.kept is not None, False),
        (f'locked by conductor {one_line(holder or "", 64)}', holder is not None, True),
    )
    return next(((text, passing) for text, so, passing in reasons if so), (None, False))


def fleet(
    ironic: IronicApi, claimed: Callable[[str], str | None], under_way: Mapping[str, RegionMove] | None = None
) -> tuple[PoolMachine, ...]:
    """Return our machines, sorted by UUID.

    :param claimed: returns why placement says that a machine cannot be taken; called only for nodes that are free in Ironic.
    :param under_way: moves that have begun, by the UUID of the node: their new functions count, and the machine is busy.
    :raises IronicError: Ironic cannot be read. ``PlacementError``: placement cannot.
    """
    moves = under_way or {}
    read = sorted((n for raw in ironic.nodes() if (n := parse(raw)) is not None and n.ours), key=lambda n: n.uuid)
    asked = [n for n in read if (n.busy is None or n.passing) and n.uuid not in moves]
    with ThreadPoolExecutor(max_workers=AT_ONCE) as workers:
        held = dict(zip((n.uuid for n in asked), workers.map(claimed, (n.uuid for n in asked)), strict=True))
    return tuple(_machine(n, held.get(n.uuid), moves.get(n.uuid)) for n in read)


def _machine(node: NodeRead, held: str | None, move: RegionMove | None) -> PoolMachine:
    coming = {} if move is None else {c.provider: c.function for c in move.changes}
    return PoolMachine(
        uuid=node.uuid,
        name=node.name,
        regions=tuple(replace(r, coming=coming.get(r.provider)) for r in node.regions),
        resource_class=node.resource_class,
        owner=node.owner,
        busy='being programmed' if move is not None else held or node.busy,
        passing=node.passing and held is None,
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
