# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Accept demands for functions, and report which of them have become schedulable in placement.

Demands are stored in a spool; each read of the machines shows which of them are served. A process that watches the pools does
at each turn::

    demands = desk.turn(machines, now, lasts)   # reports what is schedulable now, and forgets what is over
    plan(machines, pools, demands, now)
    ...
    while not desk.called() and ...:            # until the next turn is due, or a demand was submitted
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from baremetal_acc.errors import AccError, UsageError
from baremetal_acc.pools.spool import FOREVER, Spool, over, whole
from baremetal_acc.scheduling import demand
from baremetal_acc.scheduling.demand import AskedFunctions
from baremetal_acc.scheduling.demand_status import DemandProgress, StoredDemand, counting, progress
from baremetal_acc.scheduling.pools import DEMAND_LASTS, Demand, PoolMachine

LOG = logging.getLogger(__name__)


CALM = 2.0
"""Least seconds from the beginning of a turn to the next one that a new demand triggers.

Each turn reads all machines from Ironic and placement, and a flood of demands must not cause that all the time.
"""


@dataclass(slots=True, kw_only=True)
class DemandService:
    """Accepts demands, and reports which of them are served.

    :ivar lasts: how long a demand is taken to wait (``demand_seconds`` of the pool file).
    :ivar functions: names of the functions in the catalogue: no other function can be demanded.
    :ivar catalogue: reads the functions again at each turn; None: ``functions`` stays as it is.
    :ivar on_offer: tells whether a region is available in placement, by the root of its machine and its own provider: a region
        that cannot be claimed now is not reported as schedulable.
    :ivar say: is called with a line for each change of a demand.
    :ivar places: names of the regions for people, by provider: of the last turn.
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

    def tell(
        self, asked: AskedFunctions, request: str, at: datetime, *, source: str, asker: str | None = None
    ) -> tuple[Demand, ...]:
        """Store the demands of a request, all of them or none.

        :param asked: at least one function.
        :param request: id of the request; a request that is submitted twice counts once.
        :returns: the demands as they are stored.
        :raises DemandRefused: there are too many demands.
        :raises DemandDiffers: another request is known under this id.
        """
        demands, new = self.spool.put_all(asked.demands(request, at), source, asker)
        for one in demands if new else ():
            self.say(f'{_demand(one)}: submitted ({source})')
        return demands

    def function(self, name: str) -> str:
        """Return the function of that name in the catalogue's spelling. The name may also be its resource class in placement.

        :raises UsageError: the catalogue has no such function.
        """
        found = demand.of_name(name, self.functions)
        if found is None:
            known = ', '.join(sorted(self.functions)[:20]) or 'none'
            raise UsageError(
                argument='function', what=f'{name[:80]!a}: no such function in the catalogue', hint=f'functions: {known}'
            )
        return found

    def look(self, machines: Sequence[PoolMachine], now: datetime, lasts: timedelta) -> tuple[Demand, ...]:
        """Return the demands that a plan has to count, by the present machines. Reports nothing, and deletes nothing."""
        told = whole(t for t in self.spool.told(now, FOREVER) if not over(t, now, lasts))
        return counting(progress(told, machines, now))

    def turn(self, machines: Sequence[PoolMachine], now: datetime, lasts: timedelta) -> tuple[Demand, ...]:
        """Report the demands that have become schedulable, by the present machines.

        :returns: the demands that a plan has to count.
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

    def _sure(
        self, before: Mapping[str, StoredDemand], after: Sequence[StoredDemand], roots: Mapping[str | None, str]
    ) -> tuple[StoredDemand, ...]:
        """Return the new progress of the demands; the old one where a verified region is not available in placement."""
        unsure = {
            t.demand.request
            for t in after
            if t.progress is DemandProgress.SCHEDULABLE
            and before[t.demand.id].progress is not DemandProgress.SCHEDULABLE
            and not self.on_offer(roots[t.provider], t.provider or '')
        }
        return tuple(before[t.demand.id] if t.demand.request in unsure else t for t in after)

    def read_catalogue(self) -> None:
        """Read which functions can be demanded. On an error the known ones stay, and the error is reported."""
        if self.catalogue is not None:
            try:
                self.functions = self.catalogue()
            except AccError as exc:
                self.say(f'catalogue cannot be read; demands are still accepted for the functions that were read before: {exc}')

    def told(self) -> tuple[StoredDemand, ...]:
        """Return all demands with their progress, including those that the next turn will delete."""
        return self.spool.told(datetime.now(UTC), FOREVER)

    def called(self) -> bool:
        """Tell whether a demand was submitted since the last turn, once :data:`CALM` has passed. Only the ids are read."""
        return time.monotonic() - self._turned >= CALM and bool(self.spool.names() - self._seen)

    def _report(self, told: StoredDemand) -> None:
        where = self.places.get(told.provider or '', told.provider)
        match told.progress:
            case DemandProgress.SCHEDULABLE:
                what = f'schedulable after {(told.took or timedelta()).total_seconds():.0f} s: {where}'
            case DemandProgress.PROGRAMMING:
                what = f'being programmed: {where}'
            case DemandProgress.WAITING:
                what = 'waiting again'
            case DemandProgress.TAKEN:
                what = f'region no longer held for it: {where}'
        self.say(f'{_demand(told.demand)}: {what}')


def _demand(one: Demand) -> str:
    kind = '' if one.resource_class is None else f' on nodes of class {one.resource_class}'
    return f'demand {one.id} for {one.function}{kind}'
