# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Track each demand for an FPGA function: waiting, programming, schedulable, or taken.

A demand waits until a region is programmed for it; then the region is schedulable: verified, and available in placement to
whoever claims it first. The region is held for the demand, which means only that no other demand counts it. The demands of one
request, which needs several functions on one machine, go through these states together.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from baremetal_acc.scheduling.pools import Demand, PoolMachine
from baremetal_acc.scheduling.reshape import node_class


class DemandProgress(StrEnum):
    """The state of a demand."""

    WAITING = 'waiting'
    PROGRAMMING = 'programming'
    SCHEDULABLE = 'schedulable'
    TAKEN = 'taken'


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDemand:
    """A stored demand and its state.

    :ivar source: where it was reported: file or nova.
    :ivar since: when its state last changed; of a waiting demand, when it was reported.
    :ivar asker: the project on whose behalf it was made; None: the operator's.
    :ivar provider: the region that is, or was, held for it.
    :ivar took: time from the report until its function was schedulable; None: it never was.
    """

    demand: Demand
    source: str
    since: datetime
    progress: DemandProgress = DemandProgress.WAITING
    asker: str | None = None
    provider: str | None = None
    took: timedelta | None = None


def progress(told: Iterable[StoredDemand], machines: Sequence[PoolMachine], now: datetime) -> tuple[StoredDemand, ...]:
    """Return each demand with its present state, from the present state of the fleet; in the order of their reports.

    Each region is held for one demand. A request whose demands are all schedulable keeps its regions; if one of them was
    claimed, or is not what it was, the whole request is over, and whoever needs the functions again has to request them again.
    Then the other requests are served: those for machines of a class before those that any machine suits; among both, requests
    for several functions first, then the oldest. All demands of one request get regions of one machine, or none does.
    """
    ready = _Places(m for m in machines if m.ready)
    coming = _Places(m for m in machines if m.under_way)
    passing = _Places(m for m in machines if m.passing and m.busy is not None and not m.under_way)
    found: list[StoredDemand] = []
    requests: dict[tuple[str, bool], list[StoredDemand]] = {}
    for one in told:
        if one.progress is DemandProgress.TAKEN:
            found.append(one)
        else:
            requests.setdefault(one.demand.request, []).append(one)
    others = []
    for several in requests.values():
        if all(t.progress is DemandProgress.SCHEDULABLE for t in several):
            found.extend(_kept(several, (ready, coming, passing), now))
        else:
            others.append(several)
    for several in sorted(others, key=_turn):
        found.extend(_served(several, ready, coming, now))
    return tuple(sorted(found, key=lambda t: (t.demand.at, t.demand.id)))


def counting(told: Iterable[StoredDemand]) -> tuple[Demand, ...]:
    """Return the demands that a plan should count: all but those whose region was taken.

    A schedulable demand, or one that is being programmed, counts as long as its region is held for it, so that this region is
    neither counted for another demand nor changed.
    """
    return tuple(
        replace(t.demand, resource_class=in_placement(t.demand.resource_class), held=_held(t))
        for t in told
        if t.progress is not DemandProgress.TAKEN
    )


def _held(told: StoredDemand) -> str | None:
    return told.provider if told.progress in (DemandProgress.PROGRAMMING, DemandProgress.SCHEDULABLE) else None


def _turn(several: Sequence[StoredDemand]) -> tuple[bool, bool, datetime, str]:
    """Sort key: requests with fewer machines to choose from come first."""
    first = min((t.demand for t in several), key=lambda d: (d.at, d.id))
    return (first.resource_class is None, len(several) == 1, first.at, first.id)


class _Places:
    """The regions of some machines, by the function that they hold or will hold after the change under way."""

    def __init__(self, machines: Iterable[PoolMachine]) -> None:
        self._taken: set[str | None] = set()
        self._at: dict[str | None, tuple[str, str]] = {}
        self._class: dict[str, str | None] = {}
        self._of: dict[str, dict[str, list[str]]] = {}
        self._lines: dict[tuple[str, str | None], list[str]] = {}
        self._left: dict[tuple[tuple[str, ...], frozenset[str] | None], list[str]] = {}
        providers = []
        for machine in sorted(machines, key=lambda m: m.uuid):
            self._class[machine.uuid] = node_class(machine.resource_class)
            for region in machine.regions:
                function = region.will_hold
                if function is not None:
                    providers.append(region.provider)
                    self._at[region.provider] = (machine.uuid, function)
                    self._of.setdefault(function, {}).setdefault(machine.uuid, []).append(region.provider)
        # The lines, one of each class and one of all, are consumed from their ends.
        for provider in sorted(providers, reverse=True):
            uuid, function = self._at[provider]
            for kind in {None, self._class[uuid]}:
                self._lines.setdefault((function, kind), []).append(provider)

    def take(self, demands: Sequence[Demand]) -> Sequence[str] | None:
        """Take a region for each demand, all of one machine, that nobody else gets then."""
        found = self._of_one_machine(demands) if len(demands) > 1 else self._next(demands[0])
        self._taken.update(found or ())
        return found

    def keep(self, told: Sequence[StoredDemand]) -> bool:
        """Keep the region that each demand has, if all of them still serve on one machine; otherwise keep none."""
        found = {p: self._at[p] for t in told if (p := t.provider) in self._at and p not in self._taken}
        good = len(found) == len(told) and len({uuid for uuid, _ in found.values()}) == 1
        if not good or not all(self._serves(t.demand, *found[t.provider]) for t in told):
            return False
        self._taken |= found.keys()
        return True

    def _serves(self, demand: Demand, uuid: str, function: str) -> bool:
        return function == demand.function and (demand.classes is None or self._class[uuid] in demand.classes)

    def _next(self, demand: Demand) -> Sequence[str] | None:
        """Return the first free region, by its provider."""
        classes: Iterable[str | None] = (None,) if demand.classes is None else demand.classes
        lines = [line for kind in classes if (line := self._lines.get((demand.function, kind)))]
        for line in lines:
            while line and line[-1] in self._taken:
                line.pop()
        return min(([line[-1]] for line in lines if line), default=None)

    def _of_one_machine(self, demands: Sequence[Demand]) -> Sequence[str] | None:
        """Return regions of the first machine that has enough. A machine that has too few never gets enough, and is dropped."""
        need = Counter(d.function for d in demands)
        kind = (tuple(sorted(need.elements())), demands[0].classes)
        if kind not in self._left:
            few = min((self._of.get(f, {}) for f in need), key=len)
            self._left[kind] = [m for m in reversed(few) if kind[1] is None or self._class[m] in kind[1]]
        left = self._left[kind]
        while left:
            free = {f: [p for p in self._of[f].get(left[-1], ()) if p not in self._taken] for f in need}
            if all(len(free[f]) >= number for f, number in need.items()):
                return [free[d.function].pop(0) for d in demands]
            left.pop()
        return None


def _kept(several: Sequence[StoredDemand], anywhere: Iterable[_Places], now: datetime) -> Iterator[StoredDemand]:
    """Keep schedulable demands as long as their regions serve them, or will again in a moment; otherwise they are taken.

    Regions also serve while others of their machine are programmed.
    """
    if any(places.keep(several) for places in anywhere):
        yield from several
    else:
        yield from (replace(t, progress=DemandProgress.TAKEN, since=now) for t in several)


def _served(several: Sequence[StoredDemand], ready: _Places, coming: _Places, now: datetime) -> Iterator[StoredDemand]:
    """Yield the state of the demands of one request that has no region yet, or whose region is still being programmed."""
    demands = [t.demand for t in several]
    if (found := ready.take(demands)) is not None:
        for one, at in zip(several, found, strict=True):
            yield replace(one, progress=DemandProgress.SCHEDULABLE, since=now, provider=at, took=now - one.demand.at)
    elif (found := coming.take(demands)) is not None:
        for one, at in zip(several, found, strict=True):
            since = one.since if one.progress is DemandProgress.PROGRAMMING else now
            yield replace(one, progress=DemandProgress.PROGRAMMING, since=since, provider=at)
    else:
        for one in several:
            yield replace(one, progress=DemandProgress.WAITING, since=one.demand.at, provider=None)


def in_placement(resource_class: str | None) -> str | None:
    """Return placement's name of a machine's class, also if it is named as in Ironic, so that both mean one class."""
    if resource_class is None or resource_class.upper().startswith('CUSTOM_'):
        return resource_class and resource_class.upper()
    return node_class(resource_class)
