# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Who waits for which function, and is there one for him now?

A demand waits, then a region is being given its function, then one is schedulable: verified and on offer, for whoever comes
first. It is held for a while, which means that no other demand counts it. The demands of one request, which asks one machine
for several functions, go through this together.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from baremetal_acc.decide.pool import Demand, Machine
from baremetal_acc.decide.reshape import node_class


class Progress(StrEnum):
    """How far it has come with a demand."""

    WAITING = 'waiting'
    PROGRAMMING = 'programming'
    SCHEDULABLE = 'schedulable'
    TAKEN = 'taken'


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A demand, and how far it has come with it.

    :ivar source: who told it: file or nova.
    :ivar since: when its progress became what it is; of one that waits, when it was told.
    :ivar asker: on whose behalf, a project; None: the operator's.
    :ivar provider: the region that is held for it, or was.
    :ivar took: from when it was told until its function was schedulable; None: it never was.
    """

    demand: Demand
    source: str
    since: datetime
    progress: Progress = Progress.WAITING
    asker: str | None = None
    provider: str | None = None
    took: timedelta | None = None


def progress(told: Iterable[Told], machines: Sequence[Machine], now: datetime) -> tuple[Told, ...]:
    """How far it has come with each demand, by what the fleet is like now; in the order that they were told in.

    Each region is held for one demand. Those keep theirs that have one; then come those who ask for machines of a class, then
    those to whom any machine is good; of both first those who ask for several functions, the oldest first. All demands of one
    request have regions of one machine, or none has. One whose region has been claimed, or is no longer what it was, is over,
    and so are the others of its request: whoever asks for it again tells it again.
    """
    ready = _Places(m for m in machines if m.ready)
    coming = _Places(m for m in machines if m.under_way)
    passing = _Places(m for m in machines if m.passing and m.busy is not None and not m.under_way)
    found: list[Told] = []
    requests: dict[tuple[str, bool], list[Told]] = {}
    for one in told:
        if one.progress is Progress.TAKEN:
            found.append(one)
        else:
            requests.setdefault(one.demand.request, []).append(one)
    others = []
    for several in requests.values():
        if all(t.progress is Progress.SCHEDULABLE for t in several):
            found.extend(_kept(several, (ready, coming, passing), now))
        else:
            others.append(several)
    for several in sorted(others, key=_turn):
        found.extend(_served(several, ready, coming, now))
    return tuple(sorted(found, key=lambda t: (t.demand.at, t.demand.id)))


def counting(told: Iterable[Told]) -> tuple[Demand, ...]:
    """The demands that a plan ought to count: all but those whose region somebody has taken.

    One that is schedulable counts as long as its region is held for it, so that this one is neither counted for another one nor
    changed; one that is being programmed likewise.
    """
    return tuple(
        replace(t.demand, resource_class=in_placement(t.demand.resource_class), held=_held(t))
        for t in told
        if t.progress is not Progress.TAKEN
    )


def _held(told: Told) -> str | None:
    return told.provider if told.progress in (Progress.PROGRAMMING, Progress.SCHEDULABLE) else None


def _turn(several: Sequence[Told]) -> tuple[bool, bool, datetime, str]:
    """Whoever has fewer machines to choose from comes first."""
    first = min((t.demand for t in several), key=lambda d: (d.at, d.id))
    return (first.resource_class is None, len(several) == 1, first.at, first.id)


class _Places:
    """The regions of some machines by what they hold, or will when what is under way is done."""

    def __init__(self, machines: Iterable[Machine]) -> None:
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
        # Each line of those of a class, and of all, is taken from its end.
        for provider in sorted(providers, reverse=True):
            uuid, function = self._at[provider]
            for kind in {None, self._class[uuid]}:
                self._lines.setdefault((function, kind), []).append(provider)

    def take(self, demands: Sequence[Demand]) -> Sequence[str] | None:
        """A region for each, all of one machine, that nobody else gets then."""
        found = self._of_one_machine(demands) if len(demands) > 1 else self._next(demands[0])
        self._taken.update(found or ())
        return found

    def keep(self, told: Sequence[Told]) -> bool:
        """Each gets the region that it has, all of one machine, or none does."""
        found = {p: self._at[p] for t in told if (p := t.provider) in self._at and p not in self._taken}
        good = len(found) == len(told) and len({uuid for uuid, _ in found.values()}) == 1
        if not good or not all(self._serves(t.demand, *found[t.provider]) for t in told):
            return False
        self._taken |= found.keys()
        return True

    def _serves(self, demand: Demand, uuid: str, function: str) -> bool:
        return function == demand.function and (demand.classes is None or self._class[uuid] in demand.classes)

    def _next(self, demand: Demand) -> Sequence[str] | None:
        """The first one, by its provider."""
        classes: Iterable[str | None] = (None,) if demand.classes is None else demand.classes
        lines = [line for kind in classes if (line := self._lines.get((demand.function, kind)))]
        for line in lines:
            while line and line[-1] in self._taken:
                line.pop()
        return min(([line[-1]] for line in lines if line), default=None)

    def _of_one_machine(self, demands: Sequence[Demand]) -> Sequence[str] | None:
        """Those of the first machine that has enough. One that has not never will, and is not looked at again."""
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


def _kept(several: Sequence[Told], anywhere: Iterable[_Places], now: datetime) -> Iterator[Told]:
    """Those that were schedulable: they are as long as their regions are, or will be again in a moment.

    That is also while others of their machine are programmed.
    """
    if any(places.keep(several) for places in anywhere):
        yield from several
    else:
        yield from (replace(t, progress=Progress.TAKEN, since=now) for t in several)


def _served(several: Sequence[Told], ready: _Places, coming: _Places, now: datetime) -> Iterator[Told]:
    """Those of one request that wait, or waited a while ago."""
    demands = [t.demand for t in several]
    if (found := ready.take(demands)) is not None:
        for one, at in zip(several, found, strict=True):
            yield replace(one, progress=Progress.SCHEDULABLE, since=now, provider=at, took=now - one.demand.at)
    elif (found := coming.take(demands)) is not None:
        for one, at in zip(several, found, strict=True):
            since = one.since if one.progress is Progress.PROGRAMMING else now
            yield replace(one, progress=Progress.PROGRAMMING, since=since, provider=at)
    else:
        for one in several:
            yield replace(one, progress=Progress.WAITING, since=one.demand.at, provider=None)


def in_placement(resource_class: str | None) -> str | None:
    """How placement calls a machine's class, if it is said in Ironic's words: so that both are one."""
    if resource_class is None or resource_class.upper().startswith('CUSTOM_'):
        return resource_class and resource_class.upper()
    return node_class(resource_class)
