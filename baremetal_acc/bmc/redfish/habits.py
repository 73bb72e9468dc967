# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What is remembered of a BMC: how many requests it takes, what it is fast at, and what was needed of it last time.

Nothing here is a fact about a device: it only decides in what order, and how many at a time, resources are asked for. What a
BMC said is never kept here.
"""

import statistics
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from baremetal_acc.bmc.redfish.account import Accounts
from baremetal_acc.model.ownership import Ownership

CALM = 20
"""Good answers in a row after which one request more at a time is tried."""

SAMPLES = 16

CHANCE = 0.015
"""Seconds of difference that say nothing: our own threads wait for one another that long."""

REMEMBERED = 1024
"""BMCs that are remembered. The longest list of targets seen has 20 KiB."""


@dataclass(slots=True)
class Pace:
    """How many requests a BMC gets at a time: as many as it was set to, fewer while it pushes back.

    A BMC pushes back by 429 and 503, and by connections that break or bring nothing in time. Then the number is halved; after
    a row of good answers it grows by one.
    """

    ceiling: int
    limit: int = 0
    calm: int = 0

    def __post_init__(self) -> None:
        self.limit = min(self.limit or self.ceiling, self.ceiling)

    def bound(self, ceiling: int) -> None:
        """Never more than that from now on."""
        if self.limit == self.ceiling:
            self.limit = ceiling
        self.ceiling = ceiling
        self.limit = min(self.limit, ceiling)

    def answered(self) -> None:
        """A good answer came."""
        if self.limit < self.ceiling:
            self.calm += 1
            if self.calm >= CALM:
                self.calm = 0
                self.limit += 1

    def pushed_back(self) -> None:
        """The BMC could not take it."""
        self.calm = 0
        self.limit = max(1, self.limit // 2)


@dataclass(slots=True)
class Expansion:
    """Is one expanded collection faster than its members one by one?

    Some BMCs pay for each member that they put in. The time of an expanded answer beyond that of the slowest plain one tells
    how much; a plain one that was sent after it has waited in the same queue, so that a BMC which answers one request after
    the other is not taken for one that pays. What delays an answer by chance delays one of them: the cheapest members count.
    Expanding loses when a member costs more than a plain read does, shared by those that run at a time
    (facts/performance.md, section 1).

    :ivar is_flat: one level is all that it expands, whatever it says.
    """

    plain: deque[float] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    beyond: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    hopeless: bool = False
    is_flat: bool = False
    _wins: dict[int, bool] = field(default_factory=dict, init=False, repr=False, compare=False)

    def read(self, seconds: float) -> None:
        """A plain answer came."""
        self.plain.append(seconds)
        self._wins = {}

    def expanded(self, seconds: float, members: int) -> None:
        """An expanded answer came."""
        if members:
            self.beyond.append((seconds, members))
            self._wins = {}

    def failed(self) -> None:
        """An expanded answer did not come where a plain one did."""
        self.hopeless = True

    def failed_deep(self) -> None:
        """What was asked for more than one level deep was refused, or came as if one level had been asked for, or none."""
        self.is_flat = True

    @property
    def known(self) -> bool:
        """Something can be said."""
        return self.hopeless or bool(self.plain and self.beyond)

    def wins(self, at_once: int) -> bool:
        """Expanding is the faster way, or nothing is known yet."""
        if self.hopeless:
            return False
        if not self.known:
            return True
        known = self._wins  # until the next answer: every device of a machine asks
        if at_once not in known:
            known[at_once] = self._costs_less(at_once)
        return known[at_once]

    def _costs_less(self, at_once: int) -> bool:
        plain, expanded = tuple(self.plain), tuple(self.beyond)  # other threads go on adding
        slowest = max(plain)
        beyond = ((seconds - slowest, members) for seconds, members in expanded)
        cheapest = min(extra / members if extra > CHANCE else 0.0 for extra, members in beyond)
        return cheapest * at_once < statistics.median(plain)


@dataclass(slots=True)
class Habits:
    """What was learnt of one BMC.

    :ivar targets: what a whole look asked for, in order: paths, some with the query that expands.
    :ivar copies: what says whether it copies images in the background, paths.
    :ivar accounts: whose sessions this process has open with it.
    :ivar alone: whose its resources were in the last look, where that was one machine; None: several, or nobody has looked.
    :ivar only: it answers the query ``only`` as it should, or does not; None: nobody knows.
    :ivar silent: paths that were not answered in time when they were asked for last.
    """

    pace: Pace
    expansion: Expansion = field(default_factory=Expansion)
    targets: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()
    accounts: Accounts = field(default_factory=Accounts)
    alone: Ownership | None = None
    only: bool | None = None
    silent: set[str] = field(default_factory=set)


class Remembered:
    """The habits of many BMCs, the latest ones, in this process. Safe to use from several threads."""

    def __init__(self, most: int = REMEMBERED) -> None:
        self._most = most
        self._habits: OrderedDict[str, Habits] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, origin: str, new: Callable[[], Habits]) -> Habits:
        """The habits of the BMC at an address; new ones when it is not known."""
        with self._lock:
            found = self._habits.pop(origin, None)
            if found is None:
                found = new()
            self._habits[origin] = found
            while len(self._habits) > self._most:
                self._habits.popitem(last=False)
            return found
