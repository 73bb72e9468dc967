# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which free regions of a fleet ought to be given another function? What the operator wants on the shelf, and who waits for it.

A plan takes few machines at a time. What keeps the fleet at rest: a region that was changed is left alone for a while, whoever
asks; what serves a demand is not changed; only what a pool has beyond its goal and a margin is given to another pool; and
nobody who waits takes what another pool has as its goal. Machines of which anything is claimed are never touched.

A request for several functions is served by one machine with all of them, or not at all: elsewhere they are of no use to it.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from baremetal_acc.decide.demand import of_name
from baremetal_acc.decide.pool import Change, Demand, Machine, Move, Pool, PoolPlan, Pools, Region, Short
from baremetal_acc.decide.reshape import node_class


def alive(demands: Iterable[Demand], now: datetime, lasts: timedelta) -> tuple[Demand, ...]:
    """Those that still count, the oldest first; of several of one id the first one.

    What lies in the future was stamped by a clock that goes wrong, and counts as of now. One that has a region counts as long
    as it has.
    """
    first: dict[str, Demand] = {}
    for demand in sorted(demands, key=lambda d: (d.at, d.id)):
        first.setdefault(demand.id, demand)
    return tuple(d for d in first.values() if d.held is not None or now - d.at < lasts)


@dataclass(slots=True)
class _Want:
    """A pool or the demands of one kind, and how many regions it is short of; machines, where one has to have several.

    :ivar functions: what one of them has to hold.
    :ivar pool: its name; empty for demands.
    :ivar limit: how many machines at a time, for texts.
    """

    who: str
    functions: tuple[str, ...]
    waits: bool
    goal: int
    machines: tuple[Machine, ...]
    missing: int
    limit: int
    pool: str = ''
    given: int = 0
    why: str = ''

    @property
    def function(self) -> str:
        """For people, and for an order."""
        return ', '.join(self.functions)

    @property
    def still(self) -> bool:
        """It is short of something, and nobody has said yet that there is none."""
        return self.given < self.missing and not self.why


class _Shelf:
    """What is planned so far, what serves somebody, and what each pool will have when all under way and planned is done."""

    def __init__(self, machines: Sequence[Machine], pools: Pools) -> None:
        self.machines = {m.uuid: m for m in sorted(machines, key=lambda m: m.uuid)}
        self.ready = frozenset(m.uuid for m in machines if m.ready)
        self.chosen: dict[str, dict[str, Change]] = {}
        self.kept: set[str | None] = set()
        self.places = pools.at_a_time - sum(m.under_way for m in machines)
        self._limits = {p.name: p.at_a_time - self._for(p, machines) for p in pools.pools if p.at_a_time is not None}
        self._pools = {m.uuid: tuple(p for p in pools.pools if p.counts(m)) for m in machines}
        self.stock = {p.name: self.count(p.function, (m for m in machines if p.counts(m))) for p in pools.pools}
        self._of_class: dict[str | None, list[Machine]] = {}
        self._there: dict[str, dict[str, list[str]]] = {}
        self._could: dict[str, dict[str, None]] = {}
        self._at: dict[str | None, tuple[Machine, str]] = {}
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
    def _for(pool: Pool, machines: Iterable[Machine]) -> int:
        """How many machines are being given what a pool wants."""
        return sum(pool.counts(m) and any(r.coming == pool.function for r in m.regions) for m in machines)

    def has_place(self, want: '_Want', machine: Machine) -> bool:
        """A machine is off the shelf anyway, or may go there as well: there are not too many, for all and for the pool."""
        limit = self._limits.get(want.pool)
        if limit is not None:
            ours = {uuid for uuid, changes in self.chosen.items() if any(c.why == want.who for c in changes.values())}
            if machine.uuid not in ours and len(ours) >= limit:
                return False
        return machine.uuid in self.chosen or len(self.chosen) < self.places

    @staticmethod
    def count(function: str, machines: Iterable[Machine]) -> int:
        """How many regions of machines that are not claimed will hold a function, when what is under way is done."""
        return sum(r.will_hold == function for machine in machines if _counts(machine) for r in machine.regions)

    def ours(self, machine: Machine) -> bool:
        """Some pool counts it, or there is none."""
        return not self.stock or bool(self._pools[machine.uuid])

    def classes(self, demand: Demand) -> tuple[str | None, ...]:
        """The classes of machines that would do for a demand, of those that there are."""
        named = demand.classes
        return tuple(c for c in self._of_class if named is None or c in named)

    def of_classes(self, classes: tuple[str | None, ...]) -> tuple[Machine, ...]:
        """The machines of these classes."""
        return tuple(sorted((m for c in classes for m in self._of_class[c]), key=lambda m: m.uuid))

    def keep_held(self, demands: Sequence[Demand]) -> bool:
        """What is held for those of one request serves them, if it is there still: of one machine, and each for one of them."""
        found = {d.held: self._at[d.held] for d in demands if d.held in self._at and d.held not in self.kept}
        good = len(found) == len(demands) and len({machine.uuid for machine, _ in found.values()}) == 1
        if not good or any(found[d.held][1] != d.function for d in demands):
            return False
        self.kept |= found.keys()
        return True

    def keep(self, functions: Sequence[str], among: frozenset[str], most: int) -> int:
        """Let what is free, or on its way, serve some who wait for all of these functions of one machine.

        :param among: UUIDs of the machines that would do.
        :param most: how many wait.
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

    def could(self, functions: Sequence[str], machines: Sequence[Machine]) -> tuple[Machine, ...]:
        """Those of some machines that have enough regions, and one that holds or takes the function that fewest do."""
        few = min((self._could.get(f, {}) for f in functions), key=len)
        return tuple(m for m in machines if m.uuid in few and len(m.regions) >= len(functions))

    def wanted(self, machine: Machine) -> frozenset[str]:
        """The functions that pools want of regions of a machine."""
        return frozenset(pool.function for pool in self._pools[machine.uuid])

    def missed(self, machine: Machine, besides: Iterable[str]) -> int:
        """How many regions go off the shelf with a machine that serve somebody, or hold what some pool wants.

        :param besides: providers of those that are not counted.
        """
        wanted, others = self.wanted(machine), frozenset(besides)
        return sum(r.provider in self.kept or r.function in wanted for r in machine.regions if r.provider not in others)

    def surplus(self, machine: Machine, function: str | None, *, waits: bool) -> int | None:
        """How many regions with a function every pool that counts a machine can spare; None: any number.

        It keeps its goal, and its margin unless it is for somebody who waits.
        """
        spared = (
            self.stock[pool.name] - pool.free - (0 if waits else pool.spare)
            for pool in self._pools[machine.uuid]
            if pool.function == function
        )
        return min(spared, default=None)

    def may_go(self, machine: Machine, region: Region, *, waits: bool) -> bool:
        """Every pool that counts a region can spare it."""
        surplus = self.surplus(machine, region.function, waits=waits)
        return surplus is None or surplus > 0

    def choose(self, machine: Machine, region: Region, function: str, why: str) -> None:
        """Plan a change."""
        self.chosen.setdefault(machine.uuid, {})[region.provider] = Change(
            provider=region.provider,
            accelerator=region.accelerator,
            slot_id=region.slot_id,
            was=region.function,
            function=function,
            why=why,
        )
        for pool in self._pools[machine.uuid]:
            self.stock[pool.name] += (pool.function == function) - (pool.function == region.function)


def _counts(machine: Machine) -> bool:
    """What it holds, or will when what is under way is done, is free."""
    return machine.busy is None or machine.under_way or machine.passing


def plan(machines: Sequence[Machine], pools: Pools, demands: Iterable[Demand], now: datetime) -> PoolPlan:
    """What ought to be done now.

    Who waits comes before what is to lie on the shelf. Among those the one that is shortest of its goal comes first, each time
    anew, so that nobody is served whole while another one has nothing.

    :param machines: all of the fleet; those that are busy and those under way, too.
    """
    pools = _spelled(pools, machines)
    shelf = _Shelf(machines, pools)
    open_demands = alive(demands, now, pools.demand_lasts)
    wants = [*_of_demands(open_demands, shelf, pools.at_a_time), *_of_pools(pools, shelf)]
    for waits in (True, False):
        _serve_all([w for w in wants if w.waits is waits], shelf, pools, now)
    moves = tuple(
        Move(machine=uuid, name=shelf.machines[uuid].name, changes=tuple(c for _, c in sorted(changes.items())))
        for uuid, changes in sorted(shelf.chosen.items())
    )
    short = tuple(
        Short(who=w.who, function=w.function, missing=w.missing - w.given, why=w.why) for w in wants if w.missing > w.given
    )
    return PoolPlan(moves=moves, short=short)


def _spelled(pools: Pools, machines: Iterable[Machine]) -> Pools:
    """With the functions as the regions call them: what placement has one name for is one function."""
    known = frozenset(f for m in machines for r in m.regions for f in (*r.takes, r.function, r.coming) if f is not None)
    spelled = (p if p.function in known else replace(p, function=of_name(p.function, known) or p.function) for p in pools.pools)
    return replace(pools, pools=tuple(spelled))


def _of_demands(demands: Iterable[Demand], shelf: _Shelf, limit: int) -> Iterator[_Want]:
    """Those who wait for the same are one want: how many there are, and what is free or on its way for them already.

    The same is what the same machines would do for, however their class is said. A free region is there for one only: for whom
    it is held, then for one who has few machines to choose from, or needs several functions of one. It is not changed then.

    Whatever somebody waits for, only machines are programmed that a pool is about: others are nobody's to change, such as those
    of another project. Where there is no pool at all, the file is about all of them.
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
        together = ' on one machine' if len(functions) > 1 else ''
        of_class = f' of class {asked.casefold()}' if asked else ''
        yield _Want(
            who=f'{len(kinds[kind])} waiting for {", ".join(functions)}{together}{of_class}',
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
    """The one that is furthest from its goal, as a share of it, comes next, until none can be served any more."""

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


def _rested(region: Region, pools: Pools, now: datetime) -> bool:
    """What was stamped far in the future was stamped by a clock that goes wrong."""
    return region.changed is None or abs(now - region.changed) >= pools.rest


def _serve(want: _Want, shelf: _Shelf, pools: Pools, now: datetime) -> None:
    """Choose one region for it, or say why there is none."""
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
        (free, 'every machine that could is claimed or busy'),
        (rested, 'every region that could was changed a short while ago'),
        (left, 'every region that could is given to others'),
        (needless, 'every region that could serves others who wait'),
        (spared, 'every region that could holds what a pool needs'),
        (within, f'{want.limit} machines at a time are enough'),
    )
    why = next((text for found, text in stages if not found), None)
    if why is not None:
        want.why = why
        return

    def cost(place: tuple[Machine, Region]) -> tuple[bool, bool, int, bool, str, str]:
        """Another machine off the shelf, a function that some pool wants, what goes off the shelf with it, any function."""
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


# ---------------------------------------------------------------------------------------------------------------- together


def _serve_together(want: _Want, shelf: _Shelf, pools: Pools, now: datetime) -> None:
    """Choose one machine that can be given all that it lacks of several functions, or say why there is none."""
    free = [m for m in want.machines if m.uuid in shelf.ready]
    within = [m for m in free if shelf.has_place(want, m)]
    found = [(m, f) for m in within if (f := _as_it_may(want, shelf, m, pools, now)) is not None]
    if not found:
        if len(within) < len(free) and any(_as_it_may(want, shelf, m, pools, now) is not None for m in free):
            want.why = f'{want.limit} machines at a time are enough'
        elif any(_as_it_could(want, m) for m in free):
            want.why = 'every machine that could has regions that rest, or that others need'
        elif any(_as_it_could(want, m) for m in want.machines):
            want.why = 'every machine that could is claimed or busy'
        else:
            want.why = 'no machine can be given all of them'
        return

    def cost(place: tuple[Machine, Sequence[tuple[Region, str]]]) -> tuple[int, bool, int, int, str]:
        """Regions changed, another machine off the shelf, functions that some pool wants, what goes off the shelf with it."""
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


def _as_it_may(want: _Want, shelf: _Shelf, machine: Machine, pools: Pools, now: datetime) -> list[tuple[Region, str]] | None:
    """Which of its regions are to hold what of several functions; None: it cannot be given all of them now."""
    chosen = shelf.chosen.get(machine.uuid, {})
    left = [r for r in machine.regions if r.provider not in chosen and r.provider not in shelf.kept]
    if len(left) < len(want.functions):
        return None
    if not any(_rested(r, pools, now) for r in left):
        return None  # it would hold all of them already, and serve
    wanted = shelf.wanted(machine)
    spare = {r.function: shelf.surplus(machine, r.function, waits=True) for r in left}
    fixed: list[Region] = []
    changeable: list[Region] = []
    for region in sorted(left, key=lambda r: (r.function in wanted, r.function is not None, r.provider)):
        surplus = spare[region.function]
        if _rested(region, pools, now) and (surplus is None or surplus > 0):
            spare[region.function] = None if surplus is None else surplus - 1
            changeable.append(region)
        else:
            fixed.append(region)
    return _matched(want.functions, fixed, changeable)


def _as_it_could(want: _Want, machine: Machine) -> bool:
    """It could hold all of several functions, if nobody else needed any of its regions."""
    return _matched(want.functions, (), machine.regions) is not None


def _matched(
    functions: Sequence[str], fixed: Sequence[Region], changeable: Sequence[Region]
) -> list[tuple[Region, str]] | None:
    """A region for each function: one that holds it, else one that can be given it; None: there are not enough.

    Each that finds none has those before it step aside, as far as they find another one (H. W. Kuhn, 1955).
    """
    regions = [*fixed, *changeable]
    good = [[n for n, r in enumerate(regions) if r.function == f or (n >= len(fixed) and f in r.takes)] for f in functions]
    if not all(good):
        return None
    has: dict[int, int] = {}

    def place(number: int, seen: set[int]) -> bool:
        """Find a region for a function, an unused one if there is any."""
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
