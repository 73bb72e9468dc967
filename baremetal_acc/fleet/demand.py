# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What does the fleet owe to whom, and whom has it served? What is told lies in a spool; each look at the fleet says the rest.

Whoever watches the fleet does at each turn::

    demands = desk.turn(machines, now)      # reports what is schedulable now, and forgets what is over
    plan(machines, pools, demands, now)
    ...
    desk.wait(seconds)                      # until the next turn is due, or somebody tells something
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from baremetal_acc.decide import demand
from baremetal_acc.decide.demand import Asked, Progress, Told
from baremetal_acc.decide.pool import DEMAND_LASTS, Demand, Machine
from baremetal_acc.errors import UsageError
from baremetal_acc.fleet.spool import Spool

LOG = logging.getLogger(__name__)

GLANCE_SECONDS = 0.5
"""How often it is looked whether somebody told something. To list a folder takes a millisecond."""


@dataclass(slots=True, kw_only=True)
class Desk:
    """Where demands are told and served.

    :ivar lasts: how long somebody is taken to wait (``demand_seconds`` of the pool file).
    :ivar functions: names of the functions that the catalogue knows: nothing else can be asked for.
    :ivar places: what the regions are called for people, by provider: of the last turn.
    """

    spool: Spool
    lasts: timedelta = DEMAND_LASTS
    functions: frozenset[str] = frozenset()
    places: Mapping[str, str] = field(default_factory=dict)
    _seen: frozenset[str] = frozenset()

    def tell(self, asked: Asked, request: str, at: datetime, *, source: str, asker: str | None = None) -> tuple[Demand, ...]:
        """Keep what a request asks for.

        :param request: its id; the same one told twice is told once.
        :returns: its demands, those that were told before among them.
        :raises DemandRefused: there are too many. Those of the request that were told before it stay.
        """
        demands = asked.demands(request, at)
        for one in demands:
            if self.spool.put(one, source, asker):
                LOG.info('demand %s for %s%s: told by %s', one.id, one.function, _of_class(one), source)
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

    def turn(self, machines: Sequence[Machine], now: datetime) -> tuple[Demand, ...]:
        """Report what has become schedulable, by what the fleet is like now.

        :returns: the demands that a plan ought to count.
        """
        self._seen = self.spool.names()
        self.places = {r.provider: f'{r.slot_id} of {r.accelerator} in {m.name}' for m in machines for r in m.regions}
        before = {t.demand.id: t for t in self.spool.told(now, self.lasts)}
        after = demand.progress(before.values(), machines, now)
        for told in after:
            if told != before[told.demand.id] and self.spool.mark(told):
                self._report(told)
        return demand.counting(after)

    def told(self, now: datetime) -> tuple[Told, ...]:
        """All demands that count, and how far it has come with each."""
        return self.spool.told(now, self.lasts)

    def wait(self, seconds: float, *, sleep: Callable[[float], object] = time.sleep) -> bool:
        """Until the time is over, or somebody has told something since the last turn.

        :returns: whether somebody has.
        """
        until = time.monotonic() + seconds
        while True:
            if self.spool.names() - self._seen:
                return True
            left = until - time.monotonic()
            if left <= 0:
                return False
            sleep(min(left, GLANCE_SECONDS))

    def _report(self, told: Told) -> None:
        one = told.demand
        where = self.places.get(told.provider or '', told.provider)
        match told.progress:
            case Progress.SCHEDULABLE:
                took = (told.took or timedelta()).total_seconds()
                LOG.info('demand %s for %s%s: schedulable after %.0f s, %s', one.id, one.function, _of_class(one), took, where)
            case Progress.PROGRAMMING:
                LOG.info('demand %s for %s%s: being programmed, %s', one.id, one.function, _of_class(one), where)
            case Progress.WAITING:
                LOG.info('demand %s for %s%s: waiting', one.id, one.function, _of_class(one))
            case Progress.TAKEN:
                LOG.info('demand %s for %s%s: %s is no longer free', one.id, one.function, _of_class(one), where)


def _of_class(one: Demand) -> str:
    return '' if one.resource_class is None else f' on machines of class {one.resource_class}'
