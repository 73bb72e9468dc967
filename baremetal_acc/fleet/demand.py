# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What does the fleet owe to whom, and whom has it served? What is told lies in a spool; each look at the fleet says the rest.

Whoever watches the fleet does at each turn::

    demands = desk.turn(machines, now, lasts)   # reports what is schedulable now, and forgets what is over
    plan(machines, pools, demands, now)
    ...
    while not desk.called() and ...:            # until the next turn is due, or somebody has told something
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from baremetal_acc.decide import demand
from baremetal_acc.decide.demand import Asked
from baremetal_acc.decide.pool import DEMAND_LASTS, Demand, Machine
from baremetal_acc.decide.progress import Progress, Told, counting, progress
from baremetal_acc.errors import AccError, UsageError
from baremetal_acc.fleet.spool import FOREVER, Spool, over, whole

LOG = logging.getLogger(__name__)


CALM = 2.0
"""Seconds between the beginning of a turn and the next one that somebody calls for: each asks Ironic and placement of all
machines, and a flood is no reason to ask them all the time."""


@dataclass(slots=True, kw_only=True)
class Desk:
    """Where demands are told and served.

    :ivar lasts: how long somebody is taken to wait (``demand_seconds`` of the pool file).
    :ivar functions: names of the functions that the catalogue knows: nothing else can be asked for.
    :ivar catalogue: reads the functions anew, at each turn; None: they stay as they are.
    :ivar on_offer: whether placement has a region on offer, by the root of its machine and its own provider: what cannot be
        claimed now is not called schedulable.
    :ivar say: told what becomes of demands, a line each.
    :ivar places: what the regions are called for people, by provider: of the last turn.
    """

    spool: Spool
    lasts: timedelta = DEMAND_LASTS
    functions: frozenset[str] = frozenset()
    on_offer: Callable[[str, str], bool] = lambda _root, _provider: True
    say: Callable[[str], object] = LOG.info
    catalogue: Callable[[], frozenset[str]] | None = None
    places: Mapping[str, str] = field(default_factory=dict)
    _seen: frozenset[str] = frozenset()
    _turned: float = -CALM

    def tell(self, asked: Asked, request: str, at: datetime, *, source: str, asker: str | None = None) -> tuple[Demand, ...]:
        """Keep what a request asks for: all of it, or nothing.

        :param asked: a function at least.
        :param request: its id; the same one told twice is told once.
        :returns: its demands, as they are kept.
        :raises DemandRefused: there are too many.
        :raises DemandDiffers: the id is known as that of another request.
        """
        demands, new = self.spool.put_all(asked.demands(request, at), source, asker)
        for one in demands if new else ():
            self.say(f'{_demand(one)}: told by {source}')
        return demands

    def function(self, name: str) -> str:
        """The function of that name, as the catalogue spells it; its class in placement means it, too.

        :raises UsageError: the catalogue knows none.
        """
        found = demand.of_name(name, self.functions)
        if found is None:
            known = ', '.join(sorted(self.functions)[:20]) or 'none'
            raise UsageError(
                argument='function', what=f'{name[:80]!a}: the catalogue knows no such function', hint=f'it knows {known}'
            )
        return found

    def look(self, machines: Sequence[Machine], now: datetime, lasts: timedelta) -> tuple[Demand, ...]:
        """The demands that a plan ought to count, by what the fleet is like now. Nothing is reported, and nothing forgotten."""
        told = whole(t for t in self.spool.told(now, FOREVER) if not over(t, now, lasts))
        return counting(progress(told, machines, now))

    def turn(self, machines: Sequence[Machine], now: datetime, lasts: timedelta) -> tuple[Demand, ...]:
        """Report what has become schedulable, by what the fleet is like now.

        :returns: the demands that a plan ought to count.
        """
        self.lasts = lasts
        self.read_catalogue()
        self._seen, self._turned = self.spool.names(), time.monotonic()
        self.places = {r.provider: f'{r.slot_id} of {r.accelerator} in {m.name}' for m in machines for r in m.regions}
        before = {t.demand.id: t for t in self.spool.told(now, lasts)}
        roots: dict[str | None, str] = {r.provider: m.uuid for m in machines for r in m.regions}
        after = self._sure(before, progress(before.values(), machines, now), roots)
        for told in after:
            if told != before[told.demand.id] and self.spool.mark(told):
                self._report(told)
        return counting(after)

    def _sure(self, before: Mapping[str, Told], after: Sequence[Told], roots: Mapping[str | None, str]) -> tuple[Told, ...]:
        """What they have come to; as before those of a request of which placement does not have on offer what is verified."""
        unsure = {
            t.demand.request
            for t in after
            if t.progress is Progress.SCHEDULABLE
            and before[t.demand.id].progress is not Progress.SCHEDULABLE
            and not self.on_offer(roots[t.provider], t.provider or '')
        }
        return tuple(before[t.demand.id] if t.demand.request in unsure else t for t in after)

    def read_catalogue(self) -> None:
        """Which functions can be asked for now. Where it cannot be read, those that were known stay, and it is said."""
        if self.catalogue is not None:
            try:
                self.functions = self.catalogue()
            except AccError as exc:
                self.say(f'the catalogue cannot be read, and demands are taken for what it held before: {exc}')

    def told(self) -> tuple[Told, ...]:
        """All demands, and how far it has come with each; those that the next turn will forget, too."""
        return self.spool.told(datetime.now(UTC), FOREVER)

    def called(self) -> bool:
        """Somebody has told something since the last turn, and that was a while ago. It is cheap to ask: a folder is listed."""
        return time.monotonic() - self._turned >= CALM and bool(self.spool.names() - self._seen)

    def _report(self, told: Told) -> None:
        where = self.places.get(told.provider or '', told.provider)
        match told.progress:
            case Progress.SCHEDULABLE:
                what = f'schedulable after {(told.took or timedelta()).total_seconds():.0f} s: {where}'
            case Progress.PROGRAMMING:
                what = f'being programmed: {where}'
            case Progress.WAITING:
                what = 'waits again'
            case Progress.TAKEN:
                what = f'no longer held: {where}'
        self.say(f'{_demand(told.demand)}: {what}')


def _demand(one: Demand) -> str:
    kind = '' if one.resource_class is None else f' on machines of class {one.resource_class}'
    return f'demand {one.id} for {one.function}{kind}'
