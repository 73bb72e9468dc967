# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Plan which free FPGA regions of a fleet to reprogram, from the goals of pools and the waiting demands.

A plan changes few machines at a time. Several rules keep the fleet stable: a region that was changed is left alone for a while,
whoever asks; a region that serves a demand is not changed; a pool gives away only what it has beyond its goal and its margin;
and a demand never takes what another pool needs for its goal. A machine with a claim on it is never touched.

A request for several functions is served by one machine with all of them, or not at all: spread over machines, they are of no
use.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from baremetal_acc.scheduling.demand import of_name
from baremetal_acc.scheduling.pools import (
    Demand,
    Pool,
    PoolMachine,
    PoolPlan,
    PoolRegion,
    Pools,
    RegionChange,
    RegionMove,
    Short,
)
from baremetal_acc.scheduling.reshape import node_class


def alive(demands: Iterable[Demand], now: datetime, lasts: timedelta) -> tuple[Demand, ...]:
    """Return the demands that still count, the oldest first; of several with one id, the first.

    A demand from the future was stamped by a wrong clock, and counts like one of now. A demand that holds a region counts as
    long as it holds it.
    """
    first: dict[str, Demand] = {}
    for demand in sorted(demands, key=lambda d: (d.at, d.id)):
        first.setdefault(demand.id, demand)
    return tuple(d for d in first.values() if d.held is not None or now - d.at < lasts)


@dataclass(slots=True)
class _Want:
    """A pool, or all demands of one kind, and how many regions it lacks; machines, if one has to have several functions.

    :ivar functions: what one region or machine has to hold.
    :ivar pool: name of the pool; empty for demands.
    :ivar limit: how many machines at a time, for texts.
    """

    who: str
    functions: tuple[str, ...]
    waits: bool
    goal: int
    machines: tuple[PoolMachine, ...]
    missing: int
    limit: int
    pool: str = ''
    given: int = 0
    why: str = ''

    @property
    def function(self) -> str:
        """The functions as one text, for people and for sorting."""
        return ', '.join(self.functions)

    @property
    def still(self) -> bool:
        """Whether it still lacks something, and no reason has been found why it cannot be served."""
        return self.given < self.missing and not self.why


class _Shelf:
    """State of the planning: the chosen changes, the regions that serve demands, and each pool's stock after all changes."""

    def __init__(self, machines: Sequence[PoolMachine], pools: Pools) -> None:
        self.machines = {m.uuid: m for m in sorted(machines, key=lambda m: m.uuid)}
        self.ready = frozenset(m.uuid for m in machines if m.ready)
        self.chosen: dict[str, dict[str, RegionChange]] = {}
        self.kept: set[str | None] = set()
        self.places = pools.at_a_time - sum(m.under_way for m in machines)
        self._limits = {p.name: p.at_a_time - self._for(p, machines) for p in pools.pools if p.at_a_time is not None}
        self._pools = {m.uuid: tuple(p for p in pools.pools if p.counts(m)) for m in machines}
        self.stock = {p.name: self.count(p.function, (m for m in machines if p.counts(m))) for p in pools.pools}
        self._of_class: dict[str | None, list[PoolMachine]] = {}
        self._there: dict[str, dict[str, list[str]]] = {}
        self._could: dict[str, dict[str, None]] = {}
        self._at: dict[str | None, tuple[PoolMachine, str]] = {}
        for machine in self.machines.values():
            self._of_class.setdefault(node_class(machine.resource_class), []).append(machine)
            for region in machine.regions:
                function = region.will_hold
                for able in region.takes if function is None else region.takes | {function}:
                    self._could.setdefault(able, {})[machine.uuid] = None
                if function is not None and _counts(machine):
                    self._there.setdefault(function, {}).setdefault(machine.uuid, []).append(region.provider)
                    self._at[region.provider] = (machine, function)

    @staticmethod
    def _for(pool: Pool, machines: Iterable[PoolMachine]) -> int:
        """Count the machines that are being given what a pool wants."""
        return sum(pool.counts(m) and any(r.coming == pool.function for r in m.regions) for m in machines)

    def has_place(self, want: '_Want', machine: PoolMachine) -> bool:
        """Whether a machine may be changed: it is being withdrawn already, or the limits (total, pool) allow one more."""
        limit = self._limits.get(want.pool)
        if limit is not None:
            ours = {uuid for uuid, changes in self.chosen.items() if any(c.why == want.who for c in changes.values())}
            if machine.uuid not in ours and len(ours) >= limit:
                return False
        return machine.uuid in self.chosen or len(self.chosen) < self.places

    @staticmethod
    def count(function: str, machines: Iterable[PoolMachine]) -> int:
        """Count the regions of free machines that will hold a function after the changes under way."""
        return sum(r.will_hold == function for machine in machines if _counts(machine) for r in machine.regions)

    def ours(self, machine: PoolMachine) -> bool:
        """Whether any pool counts the machine, or there is no pool."""
        return not self.stock or bool(self._pools[machine.uuid])

    def classes(self, demand: Demand) -> tuple[str | None, ...]:
        """Return the resource classes of the existing machines that are suitable for a demand."""
        named = demand.classes
        return tuple(c for c in self._of_class if named is None or c in named)

    def of_classes(self, classes: tuple[str | None, ...]) -> tuple[PoolMachine, ...]:
        """Return the machines of these classes."""
        return tuple(sorted((m for c in classes for m in self._of_class[c]), key=lambda m: m.uuid))

    def keep_held(self, demands: Sequence[Demand]) -> bool:
        """Keep the held regions of one request for it, if they still hold its functions on one machine, one region for each."""
        found = {d.held: self._at[d.held] for d in demands if d.held in self._at and d.held not in self.kept}
        good = len(found) == len(demands) and len({machine.uuid for machine, _ in found.values()}) == 1
        if not good or any(found[d.held][1] != d.function for d in demands):
            return False
        self.kept |= found.keys()
        return True

    def keep(self, functions: Sequence[str], among: frozenset[str], most: int) -> int:
        """Reserve regions, free or being programmed, for requests that need all of these functions on one machine.

        :param among: UUIDs of the suitable machines.
        :param most: how many requests wait.
        :returns: how many of them are served.
        """
        need = Counter(functions)
        served = 0
        for uuid in min((self._there.get(f, {}) for f in need), key=len):
            if served == most:
                break
            while uuid in among and served < most:
                left = {f: [p for p in self._there[f].get(uuid, ()) if p not in self.kept] for f in need}
                if any(len(left[f]) < number for f, number in need.items()):
                    break
                self.kept.update(p for f, number in need.items() for p in left[f][:number])
                served += 1
        return served

    def could(self, functions: Sequence[str], machines: Sequence[PoolMachine]) -> tuple[PoolMachine, ...]:
        """Return the machines that have enough regions, and a region that holds or takes the rarest of the functions."""
        few = min((self._could.get(f, {}) for f in functions), key=len)
        return tuple(m for m in machines if m.uuid in few and len(m.regions) >= len(functions))

    def wanted(self, machine: PoolMachine) -> frozenset[str]:
        """Return the functions that pools want of the regions of a machine."""
        return frozenset(pool.function for pool in self._pools[machine.uuid])

    def missed(self, machine: PoolMachine, besides: Iterable[str]) -> int:
        """Count the regions of a machine, withdrawn with it, that serve a demand or hold what some pool wants.

        :param besides: providers of regions that are not counted.
        """
        wanted, others = self.wanted(machine), frozenset(besides)
        return sum(r.provider in self.kept or r.function in wanted for r in machine.regions if r.provider not in others)

    def surplus(self, machine: PoolMachine, function: str | None, *, waits: bool) -> int | None:
        """Return how many regions with a function every pool that counts a machine can give away; None: any number.

        A pool keeps its goal, and also its margin unless the region is for a waiting demand.
        """
        spared = (
            self.stock[pool.name] - pool.free - (0 if waits else pool.spare)
            for pool in self._pools[machine.uuid]
            if pool.function == function
        )
        return min(spared, default=None)

    def may_go(self, machine: PoolMachine, region: PoolRegion, *, waits: bool) -> bool:
        """Whether every pool that counts a region can give it away."""
        surplus = self.surplus(machine, region.function, waits=waits)
        return surplus is None or surplus > 0

    def choose(self, machine: PoolMachine, region: PoolRegion, function: str, why: str) -> None:
        """Plan a change."""
        self.chosen.setdefault(machine.uuid, {})[region.provider] = RegionChange(
            provider=region.provider,
            accelerator=region.accelerator,
            slot_id=region.slot_id,
            was=region.function,
            function=function,
            why=why,
        )
        for pool in self._pools[machine.uuid]:
            self.stock[pool.name] += (pool.function == function) - (pool.function == region.function)


def _counts(machine: PoolMachine) -> bool:
    """Whether what the machine holds, or will hold after the changes under way, is free."""
    return machine.busy is None or machine.under_way or machine.passing


def plan(machines: Sequence[PoolMachine], pools: Pools, demands: Iterable[Demand], now: datetime) -> PoolPlan:
    """Plan the changes to make now.

    Demands come before pools. Among either, the one furthest from its goal comes first, and this is decided again after each
    change: so none is served completely while another one has nothing.

    :param machines: the whole fleet, including the machines that are busy or under way.
    """
    pools = _spelled(pools, machines)
    shelf = _Shelf(machines, pools)
    open_demands = alive(demands, now, pools.demand_lasts)
    wants = [*_of_demands(open_demands, shelf, pools.at_a_time), *_of_pools(pools, shelf)]
    for waits in (True, False):
        _serve_all([w for w in wants if w.waits is waits], shelf, pools, now)
    moves = tuple(
        RegionMove(machine=uuid, name=shelf.machines[uuid].name, changes=tuple(c for _, c in sorted(changes.items())))
        for uuid, changes in sorted(shelf.chosen.items())
    )
    short = tuple(
        Short(who=w.who, function=w.function, missing=w.missing - w.given, why=w.why) for w in wants if w.missing > w.given
    )
    return PoolPlan(moves=moves, short=short)


def _spelled(pools: Pools, machines: Iterable[PoolMachine]) -> Pools:
    """Name the functions of pools as the regions do: functions with one name in placement are one function."""
    known = frozenset(f for m in machines for r in m.regions for f in (*r.takes, r.function, r.coming) if f is not None)
    spelled = (p if p.function in known else replace(p, function=of_name(p.function, known) or p.function) for p in pools.pools)
    return replace(pools, pools=tuple(spelled))


def _of_demands(demands: Iterable[Demand], shelf: _Shelf, limit: int) -> Iterator[_Want]:
    """Turn the demands into wants: requests for the same functions on the same machines are one want.

    How the class of these machines is spelled does not matter. Each free region serves only one request: first the request that
    holds it, then those with fewer machines to choose from, or with several functions on one machine. Such a region is not
    changed.

    Only machines that a pool counts are programmed for demands: other machines, such as those of another project, are not the
    planner's to change. If there is no pool at all, the file covers all machines.
    """
    requests: dict[tuple[str, bool], list[Demand]] = {}
    for demand in demands:
        requests.setdefault(demand.request, []).append(demand)
    kinds: dict[tuple[tuple[str, ...], tuple[str | None, ...], str], list[list[Demand]]] = {}
    for found in requests.values():
        classes = shelf.classes(found[0])
        nowhere = '' if classes else (found[0].resource_class or '').casefold()
        kinds.setdefault((tuple(sorted(d.function for d in found)), classes, nowhere), []).append(found)
    meant = {classes: shelf.of_classes(classes) for _, classes, _ in kinds}
    among = {classes: frozenset(m.uuid for m in several) for classes, several in meant.items()}
    missing = {kind: sum(not shelf.keep_held(found) for found in several) for kind, several in kinds.items()}
    for kind in sorted(kinds, key=lambda k: (len(meant[k[1]]), -len(k[0]), str(k))):
        functions, classes, _ = kind
        missing[kind] -= shelf.keep(functions, among[classes], missing[kind])
    for kind in sorted(kinds, key=lambda k: (k[0], len(meant[k[1]]), str(k))):
        functions, classes, _ = kind
        asked = kinds[kind][0][0].resource_class
        together = ' on one node' if len(functions) > 1 else ''
        of_class = f' of class {asked.casefold()}' if asked else ''
        requesting = '1 request' if len(kinds[kind]) == 1 else f'{len(kinds[kind])} requests'
        yield _Want(
            who=f'{requesting} waiting for {", ".join(functions)}{together}{of_class}',
            functions=functions,
            waits=True,
            goal=len(kinds[kind]),
            machines=tuple(m for m in shelf.could(functions, meant[classes]) if shelf.ours(m)) if missing[kind] else (),
            missing=missing[kind],
            limit=limit,
        )


def _of_pools(pools: Pools, shelf: _Shelf) -> Iterator[_Want]:
    for pool in pools.pools:
        yield _Want(
            who=f'pool {pool.name}',
            functions=(pool.function,),
            waits=False,
            goal=pool.free,
            machines=tuple(m for m in shelf.machines.values() if pool.counts(m)),
            missing=max(0, pool.free - shelf.stock[pool.name]),
            limit=min(pools.at_a_time, pool.at_a_time or pools.at_a_time),
            pool=pool.name,
        )


def _serve_all(wants: Sequence[_Want], shelf: _Shelf, pools: Pools, now: datetime) -> None:
    """Serve the want that is furthest from its goal, as a share of it, again and again until none can be served."""

    def turn(number: int) -> tuple[float, str, str, int]:
        want = wants[number]
        return ((want.given - want.missing) / want.goal, want.function, want.who, number)

    queue = [turn(n) for n, want in enumerate(wants) if want.still]
    heapq.heapify(queue)
    while queue:
        *_, number = heapq.heappop(queue)
        want = wants[number]
        (_serve if len(want.functions) == 1 else _serve_together)(want, shelf, pools, now)
        if want.still:
            heapq.heappush(queue, turn(number))


def _rested(region: PoolRegion, pools: Pools, now: datetime) -> bool:
    """Whether a region may be changed again. A time far in the future was stamped by a wrong clock, and counts as rested."""
    return region.changed is None or abs(now - region.changed) >= pools.rest


def _serve(want: _Want, shelf: _Shelf, pools: Pools, now: datetime) -> None:
    """Choose one region for a want, or say why there is none."""
    (function,) = want.functions
    able = [(m, r) for m in want.machines for r in m.regions if function in r.takes and function != r.function]
    free = [(m, r) for m, r in able if m.uuid in shelf.ready]
    rested = [(m, r) for m, r in free if _rested(r, pools, now)]
    left = [(m, r) for m, r in rested if r.provider not in shelf.chosen.get(m.uuid, {})]
    needless = [(m, r) for m, r in left if r.provider not in shelf.kept]
    spared = [(m, r) for m, r in needless if shelf.may_go(m, r, waits=want.waits)]
    within = [(m, r) for m, r in spared if shelf.has_place(want, m)]
    stages = (
        (able, f'no other region can be given {function}'),
        (free, 'every suitable node is claimed or busy'),
        (rested, 'every suitable region was changed within rest_seconds'),
        (left, 'every suitable region is already planned for others'),
        (needless, 'every suitable region serves another demand'),
        (spared, 'every suitable region holds a function that a pool needs'),
        (within, f'machines_at_a_time = {want.limit} is reached'),
    )
    why = next((text for found, text in stages if not found), None)
    if why is not None:
        want.why = why
        return

    def cost(place: tuple[PoolMachine, PoolRegion]) -> tuple[bool, bool, int, bool, str, str]:
        """Prefer no further machine, no function that a pool wants, few other regions withdrawn, and an empty region."""
        machine, region = place
        return (
            machine.uuid not in shelf.chosen,
            region.function in shelf.wanted(machine),
            shelf.missed(machine, (region.provider,)),
            region.function is not None,
            machine.uuid,
            region.provider,
        )

    machine, region = min(within, key=cost)
    shelf.choose(machine, region, function, want.who)
    want.given += 1


# ---------------------------------------------------------------------------------------- several functions on one machine


def _serve_together(want: _Want, shelf: _Shelf, pools: Pools, now: datetime) -> None:
    """Choose one machine that can be given all missing functions, or say why there is none."""
    free = [m for m in want.machines if m.uuid in shelf.ready]
    within = [m for m in free if shelf.has_place(want, m)]
    found = [(m, f) for m in within if (f := _as_it_may(want, shelf, m, pools, now)) is not None]
    if not found:
        if len(within) < len(free) and any(_as_it_may(want, shelf, m, pools, now) is not None for m in free):
            want.why = f'machines_at_a_time = {want.limit} is reached'
        elif any(_as_it_could(want, m) for m in free):
            want.why = 'every suitable node has regions that were changed within rest_seconds, or that others need'
        elif any(_as_it_could(want, m) for m in want.machines):
            want.why = 'every suitable node is claimed or busy'
        else:
            want.why = 'no node can be given all of the functions'
        return

    def cost(place: tuple[PoolMachine, Sequence[tuple[PoolRegion, str]]]) -> tuple[int, bool, int, int, str]:
        """Prefer few changes, no further machine, few functions that pools want, and few other regions withdrawn."""
        machine, given = place
        changed = [r for r, function in given if r.function != function]
        wanted = shelf.wanted(machine)
        return (
            len(changed),
            machine.uuid not in shelf.chosen,
            sum(r.function in wanted for r in changed),
            shelf.missed(machine, (r.provider for r, _ in given)),
            machine.uuid,
        )

    machine, given = min(found, key=cost)
    for region, function in given:
        if region.function == function:
            shelf.kept.add(region.provider)
        else:
            shelf.choose(machine, region, function, want.who)
    want.given += 1


def _as_it_may(
    want: _Want, shelf: _Shelf, machine: PoolMachine, pools: Pools, now: datetime
) -> list[tuple[PoolRegion, str]] | None:
    """Return which of the machine's regions are to hold which function; None if it cannot be given all of them now."""
    chosen = shelf.chosen.get(machine.uuid, {})
    left = [r for r in machine.regions if r.provider not in chosen and r.provider not in shelf.kept]
    if len(left) < len(want.functions):
        return None
    if not any(_rested(r, pools, now) for r in left):
        return None  # no region may be changed; a machine that holds all functions already was served before
    wanted = shelf.wanted(machine)
    spare = {r.function: shelf.surplus(machine, r.function, waits=True) for r in left}
    fixed: list[PoolRegion] = []
    changeable: list[PoolRegion] = []
    for region in sorted(left, key=lambda r: (r.function in wanted, r.function is not None, r.provider)):
        surplus = spare[region.function]
        if _rested(region, pools, now) and (surplus is None or surplus > 0):
            spare[region.function] = None if surplus is None else surplus - 1
            changeable.append(region)
        else:
            fixed.append(region)
    return _matched(want.functions, fixed, changeable)


def _as_it_could(want: _Want, machine: PoolMachine) -> bool:
    """Whether the machine could hold all functions if nobody else needed its regions."""
    return _matched(want.functions, (), machine.regions) is not None


def _matched(
    functions: Sequence[str], fixed: Sequence[PoolRegion], changeable: Sequence[PoolRegion]
) -> list[tuple[PoolRegion, str]] | None:
    """Return a region for each function: one that holds it, else one that can be given it; None if there are too few.

    A function that finds no region has earlier ones move, as far as they find another region (H. W. Kuhn, 1955).
    """
    regions = [*fixed, *changeable]
    good = [[n for n, r in enumerate(regions) if r.function == f or (n >= len(fixed) and f in r.takes)] for f in functions]
    if not all(good):
        return None
    has: dict[int, int] = {}

    def place(number: int, seen: set[int]) -> bool:
        """Find a region for a function, an unused one if possible."""
        for at in sorted(good[number], key=lambda n: n in has):
            if at not in seen:
                seen.add(at)
                if at not in has or place(has[at], seen):
                    has[at] = number
                    return True
        return False

    lacking = []
    for number, function in enumerate(functions):
        holds = next((n for n in good[number] if regions[n].function == function and n not in has), None)
        if holds is None:
            lacking.append(number)
        else:
            has[holds] = number
    if not all(place(number, set()) for number in lacking):
        return None
    return [(regions[at], functions[number]) for at, number in sorted(has.items())]
