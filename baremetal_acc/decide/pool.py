# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which free regions of a fleet ought to be given another function? What the operator wants on the shelf, and who waits for it.

A pool says how many regions with a function should be free to claim. A demand is somebody who asked for a function and found
none. To program a region takes its whole machine off the shelf for a while, so that a plan names machines, each with all that
is to be done to it, and takes few of them at a time.

What keeps the fleet at rest: a region that was changed is left alone for a while, whoever asks; only what a pool has beyond its
goal and a margin is given to another pool; and nobody who waits takes what another pool has as its goal. Machines of which
anything is claimed are never touched.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase

from baremetal_acc.decide.reshape import node_class
from baremetal_acc.model import toml
from baremetal_acc.model.ref import AcceleratorId

FORMAT = 1

REST = timedelta(hours=1)
"""How long a region is left alone after it was changed, where the file does not say."""

DEMAND_LASTS = timedelta(minutes=15)
"""How long somebody is taken to wait for a function, where the file does not say."""

MOVE_LASTS = timedelta(hours=4)
"""How long a machine may be off the shelf, where the file does not say: one cleaning, and another one that brings it back."""

AT_A_TIME = 4
"""How many machines are off the shelf at a time, where the file does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """How many regions with one function should be free.

    :ivar free: the goal.
    :ivar spare: what it keeps beyond that before it gives any to another pool.
    :ivar resource_class: of the machines that count, a shell pattern, case ignored; None: all.
    :ivar owner: of the machines that count, likewise.
    :ivar at_a_time: how many machines may be off the shelf for it at a time; None: as many as for all.
    """

    name: str
    function: str
    free: int
    spare: int = 0
    resource_class: str | None = None
    owner: str | None = None
    at_a_time: int | None = None

    def counts(self, machine: 'Machine') -> bool:
        """Regions of this machine are of the pool."""
        return _like(machine.resource_class, self.resource_class) and _like(machine.owner, self.owner)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pools:
    """A pool file.

    :ivar rest: how long a region is left alone after it was changed.
    :ivar demand_lasts: how long a demand counts.
    :ivar at_a_time: how many machines may be off the shelf at a time.
    :ivar move_lasts: how long nobody wonders why one of them is not back.
    """

    pools: tuple[Pool, ...]
    rest: timedelta = REST
    demand_lasts: timedelta = DEMAND_LASTS
    at_a_time: int = AT_A_TIME
    move_lasts: timedelta = MOVE_LASTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """One slot of one card.

    :ivar provider: its UUID in placement.
    :ivar function: what it verifiably holds; None: nothing.
    :ivar takes: what it can be given.
    :ivar changed: when a pool or a demand had it changed last; None: never, or nobody remembers.
    :ivar coming: the function that it is being given now.
    """

    provider: str
    accelerator: AcceleratorId
    slot_id: str
    function: str | None = None
    takes: frozenset[str] = frozenset()
    changed: datetime | None = None
    coming: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One node.

    :ivar busy: why it cannot be taken, for people: claimed, in maintenance, not available; None: it can.
    :ivar passing: it is busy for a moment only, and what it holds is free all the same.
    """

    uuid: str
    name: str
    regions: tuple[Region, ...]
    resource_class: str | None = None
    owner: str | None = None
    busy: str | None = None
    passing: bool = False

    @property
    def under_way(self) -> bool:
        """Some region of it is being given a function."""
        return any(r.coming is not None for r in self.regions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Somebody asked for a function and found none.

    :ivar id: the request; the same one told twice is one demand.
    :ivar resource_class: of the machines that would do; None: any.
    """

    id: str
    function: str
    at: datetime
    resource_class: str | None = None

    def counts(self, machine: Machine) -> bool:
        """A region of this machine would do. Its class may be said in Ironic's words or in placement's: gold, CUSTOM_GOLD."""
        asked, there = self.resource_class, node_class(machine.resource_class)
        return asked is None or (there is not None and there in (asked.upper(), node_class(asked)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Give a region another function.

    :ivar why: name of the pool, or the demand, that it is for.
    """

    provider: str
    accelerator: AcceleratorId
    slot_id: str
    was: str | None
    function: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """All that is to be done to one machine, which is off the shelf meanwhile."""

    machine: str
    name: str
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Short:
    """A goal that the plan does not reach.

    :ivar missing: how many regions.
    :ivar why: for people.
    """

    who: str
    function: str
    missing: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPlan:
    """What ought to be done now, and what cannot be done now."""

    moves: tuple[Move, ...] = ()
    short: tuple[Short, ...] = ()


# ------------------------------------------------------------------------------------------------------------------ demand


def alive(demands: Iterable[Demand], now: datetime, lasts: timedelta) -> tuple[Demand, ...]:
    """Those that still count, the oldest first; of several of one id the first one.

    What lies in the future was stamped by a clock that goes wrong, and counts as of now.
    """
    first: dict[str, Demand] = {}
    for demand in sorted(demands, key=lambda d: (d.at, d.id)):
        first.setdefault(demand.id, demand)
    return tuple(d for d in first.values() if now - d.at < lasts)


# -------------------------------------------------------------------------------------------------------------------- plan


@dataclass(slots=True)
class _Want:
    """A pool or the demands of one kind, and how many regions it has and is short of.

    :ivar pool: its name; empty for demands.
    :ivar limit: how many machines at a time, for texts.
    """

    who: str
    function: str
    waits: bool
    goal: int
    machines: tuple[Machine, ...]
    missing: int
    limit: int
    pool: str = ''
    given: int = 0
    why: str = ''


class _Shelf:
    """What is planned so far, and what each pool will have when all that is under way and planned is done."""

    def __init__(self, machines: Sequence[Machine], pools: Pools) -> None:
        self.machines = {m.uuid: m for m in sorted(machines, key=lambda m: m.uuid)}
        self.chosen: dict[str, dict[str, Change]] = {}
        self.places = pools.at_a_time - sum(m.under_way for m in machines)
        self._limits = {p.name: p.at_a_time - self._for(p, machines) for p in pools.pools if p.at_a_time is not None}
        self._pools = {m.uuid: tuple(p for p in pools.pools if p.counts(m)) for m in machines}
        self.stock = {p.name: self.count(p.function, (m for m in machines if p.counts(m))) for p in pools.pools}

    @staticmethod
    def _for(pool: Pool, machines: Iterable[Machine]) -> int:
        """How many machines are being given what a pool wants."""
        return sum(pool.counts(m) and any(r.coming == pool.function for r in m.regions) for m in machines)

    def has_place(self, want: '_Want', machine: Machine) -> bool:
        """A machine is off the shelf anyway, or may go there as well: there are not too many, for all and for the pool."""
        ours = {uuid for uuid, changes in self.chosen.items() if any(c.why == want.who for c in changes.values())}
        limit = self._limits.get(want.pool)
        if limit is not None and machine.uuid not in ours and len(ours) >= limit:
            return False
        return machine.uuid in self.chosen or len(self.chosen) < self.places

    @staticmethod
    def count(function: str, machines: Iterable[Machine]) -> int:
        """How many regions of machines that are not claimed will hold a function, when what is under way is done."""
        free = (m for m in machines if m.busy is None or m.under_way or m.passing)
        return sum((region.coming or region.function) == function for machine in free for region in machine.regions)

    def ours(self, machine: Machine) -> bool:
        """Some pool counts it, or there is none."""
        return not self.stock or bool(self._pools[machine.uuid])

    def wanted(self, machine: Machine) -> frozenset[str]:
        """The functions that pools want of regions of a machine."""
        return frozenset(pool.function for pool in self._pools[machine.uuid])

    def may_go(self, machine: Machine, region: Region, *, waits: bool) -> bool:
        """Every pool that counts a region keeps its goal without it, and its margin unless it is for somebody who waits."""
        return all(
            self.stock[pool.name] > pool.free + (0 if waits else pool.spare)
            for pool in self._pools[machine.uuid]
            if pool.function == region.function
        )

    def choose(self, machine: Machine, change: Change) -> None:
        """Plan a change."""
        self.chosen.setdefault(machine.uuid, {})[change.provider] = change
        for pool in self._pools[machine.uuid]:
            self.stock[pool.name] += (pool.function == change.function) - (pool.function == change.was)


def plan(machines: Sequence[Machine], pools: Pools, demands: Iterable[Demand], now: datetime) -> PoolPlan:
    """What ought to be done now.

    Who waits comes before what is to lie on the shelf. Among those the one that is shortest of its goal comes first, each time
    anew, so that nobody is served whole while another one has nothing.

    :param machines: all of the fleet; those that are busy and those under way, too.
    """
    shelf = _Shelf(machines, pools)
    open_demands = alive(demands, now, pools.demand_lasts)
    wants = [*_of_demands(open_demands, shelf, pools.at_a_time), *_of_pools(pools, shelf)]
    for waits in (True, False):
        ours = [w for w in wants if w.waits is waits]
        while (want := _next(ours)) is not None:
            _serve(want, shelf, pools, now)
    moves = tuple(
        Move(machine=uuid, name=shelf.machines[uuid].name, changes=tuple(c for _, c in sorted(changes.items())))
        for uuid, changes in sorted(shelf.chosen.items())
    )
    short = tuple(
        Short(who=w.who, function=w.function, missing=w.missing - w.given, why=w.why) for w in wants if w.missing > w.given
    )
    return PoolPlan(moves=moves, short=short)


def _of_demands(demands: Iterable[Demand], shelf: _Shelf, limit: int) -> Iterator[_Want]:
    """Those who wait for the same are one want: how many there are, and what is free or on its way for them already.

    The same is what the same machines would do for, however their class is said. A free region is there for one want only, for
    the one that has the fewest machines to choose from.

    Whatever somebody waits for, only machines are programmed that a pool is about: others are nobody's to change, such as those
    of another project. Where there is no pool at all, the file is about all of them.
    """
    would_do: dict[str | None, tuple[str, ...]] = {}
    groups: dict[tuple[str, tuple[str, ...], str], list[Demand]] = {}
    for demand in demands:
        asked = demand.resource_class
        if asked not in would_do:
            would_do[asked] = tuple(m.uuid for m in shelf.machines.values() if demand.counts(m))
        nowhere = '' if would_do[asked] else (asked or '').casefold()
        groups.setdefault((demand.function, would_do[asked], nowhere), []).append(demand)
    free: dict[tuple[str, str], int] = {}
    for (function, uuids, _), found in sorted(groups.items(), key=lambda group: (group[0][0], len(group[0][1]), group[0])):
        meant = tuple(shelf.machines[uuid] for uuid in uuids)
        there = 0
        for m in meant:
            left = free.setdefault((function, m.uuid), shelf.count(function, (m,)))
            taken = min(left, len(found) - there)
            free[function, m.uuid] -= taken
            there += taken
        asked = found[0].resource_class
        kind = f' of class {asked.casefold()}' if asked else ''
        yield _Want(
            who=f'{len(found)} waiting for {function}{kind}',
            function=function,
            waits=True,
            goal=len(found),
            machines=tuple(m for m in meant if shelf.ours(m)),
            missing=len(found) - there,
            limit=limit,
        )


def _of_pools(pools: Pools, shelf: _Shelf) -> Iterator[_Want]:
    for pool in pools.pools:
        yield _Want(
            who=f'pool {pool.name}',
            function=pool.function,
            waits=False,
            goal=pool.free,
            machines=tuple(m for m in shelf.machines.values() if pool.counts(m)),
            missing=max(0, pool.free - shelf.stock[pool.name]),
            limit=min(pools.at_a_time, pool.at_a_time or pools.at_a_time),
            pool=pool.name,
        )


def _next(wants: Sequence[_Want]) -> _Want | None:
    """The one that is furthest from its goal, as a share of it; None: none that can still be served."""
    still = [w for w in wants if w.given < w.missing and not w.why]
    return min(still, key=lambda w: ((w.given - w.missing) / w.goal, w.function, w.who), default=None)


def _serve(want: _Want, shelf: _Shelf, pools: Pools, now: datetime) -> None:
    """Choose one region for it, or say why there is none."""
    able = [(m, r) for m in want.machines for r in m.regions if want.function in r.takes and want.function != r.function]
    free = [(m, r) for m, r in able if m.busy is None and not m.under_way]
    # What was stamped far in the future was stamped by a clock that goes wrong.
    rested = [(m, r) for m, r in free if r.changed is None or abs(now - r.changed) >= pools.rest]
    left = [(m, r) for m, r in rested if r.provider not in shelf.chosen.get(m.uuid, {})]
    spared = [(m, r) for m, r in left if shelf.may_go(m, r, waits=want.waits)]
    within = [(m, r) for m, r in spared if shelf.has_place(want, m)]
    stages = (
        (able, f'no other region can be given {want.function}'),
        (free, 'every machine that could is claimed or busy'),
        (rested, 'every region that could was changed a short while ago'),
        (left, 'every region that could is given to others'),
        (spared, 'every region that could holds what a pool needs'),
        (within, f'{want.limit} machines at a time are enough'),
    )
    why = next((text for found, text in stages if not found), None)
    if why is not None:
        want.why = why
        return

    def cost(place: tuple[Machine, Region]) -> tuple[bool, bool, int, str, str]:
        """Another machine off the shelf, a function that some pool wants, and others that go off the shelf with it."""
        machine, region = place
        wanted = shelf.wanted(machine)
        others = sum(r.function in wanted for r in machine.regions if r is not region)
        return (machine.uuid not in shelf.chosen, region.function in wanted, others, machine.uuid, region.provider)

    machine, region = min(within, key=cost)
    change = Change(
        provider=region.provider,
        accelerator=region.accelerator,
        slot_id=region.slot_id,
        was=region.function,
        function=want.function,
        why=want.who,
    )
    shelf.choose(machine, change)
    want.given += 1


# -------------------------------------------------------------------------------------------------------------------- file


def parse(text: str, path: str) -> Pools:
    """A pool file.

    :param path: for messages.
    :raises DocumentError: it is wrong; names file and line.
    """
    document = toml.read(text, path, format_version=FORMAT)
    pools: dict[str, Pool] = {}
    for number, table in enumerate(document.tables('pool')):
        pool = _pool(table, number)
        if pool.name in pools:
            raise table.error('name', f'two pools are called {pool.name!r}')
        pools[pool.name] = pool
    found = Pools(
        pools=tuple(pools.values()),
        rest=_seconds(document, 'rest_seconds', REST),
        demand_lasts=_seconds(document, 'demand_seconds', DEMAND_LASTS),
        at_a_time=document.integer('machines_at_a_time', minimum=1) or AT_A_TIME,
        move_lasts=_seconds(document, 'move_seconds', MOVE_LASTS),
    )
    document.finish()
    return found


def _pool(table: toml.Table, number: int) -> Pool:
    found = Pool(
        name=table.string('name') or f'pool-{number + 1}',
        function=table.required_string('function'),
        free=table.integer('free', required=True) or 0,
        spare=table.integer('spare') or 0,
        resource_class=table.string('resource_class'),
        owner=table.string('owner'),
        at_a_time=table.integer('machines_at_a_time', minimum=1),
    )
    table.finish()
    return found


def _seconds(document: toml.Table, key: str, usual: timedelta) -> timedelta:
    value = document.integer(key)
    return usual if value is None else timedelta(seconds=value)


def _like(text: str | None, pattern: str | None) -> bool:
    return pattern is None or (text is not None and fnmatchcase(text.casefold(), pattern.casefold()))
