# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Per-BMC request statistics of this process: concurrency limit, whether ``$expand`` is faster, URIs needed last time.

They decide only in what order, and how many at a time, resources are read. No property of a device is cached here. Two members
are more than statistics: :attr:`BmcHabits.alone`, the ownership of the BMC's resources, and :attr:`BmcHabits.accounts`, the
open sessions.
"""

import statistics
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from baremetal_acc.bmc.redfish.account import SessionPools
from baremetal_acc.model.ownership import Ownership

CALM = 20
"""Successful answers in a row after which one more concurrent request is tried."""

SAMPLES = 16

CHANCE = 0.015
"""Seconds of difference that are noise: our own threads wait that long for one another."""

REMEMBERED = 1024
"""BMCs that are remembered. The longest list of targets seen has 20 KiB."""


@dataclass(slots=True)
class Pace:
    """Concurrency limit of one BMC: how many requests it is sent at a time.

    The limit begins at the configured ceiling. It is halved when the BMC pushes back on a read (429, 500, 502, 503, 504, a
    connection that breaks, or no answer in time), and grows by one after CALM successful answers in a row.

    :ivar ceiling: the configured limit.
    :ivar limit: the limit now.
    :ivar calm: successful answers in a row since the last change.
    """

    ceiling: int
    limit: int = 0
    calm: int = 0

    def __post_init__(self) -> None:
        self.limit = min(self.limit or self.ceiling, self.ceiling)

    def bound(self, ceiling: int) -> None:
        """Set a new ceiling."""
        if self.limit == self.ceiling:
            self.limit = ceiling
        self.ceiling = ceiling
        self.limit = min(self.limit, ceiling)

    def answered(self) -> None:
        """Note a successful answer."""
        if self.limit < self.ceiling:
            self.calm += 1
            if self.calm >= CALM:
                self.calm = 0
                self.limit += 1

    def pushed_back(self) -> None:
        """Note that the BMC could not take a request: halve the limit."""
        self.calm = 0
        self.limit = max(1, self.limit // 2)


@dataclass(slots=True)
class Expansion:
    """Estimates whether one expanded collection is read faster than its members one by one.

    Some BMCs need time for each member that they expand: the time of an expanded answer beyond the slowest plain answer tells
    how much. A plain request that is sent after an expanded one has waited in the same queue, so that a BMC which answers one
    request after the other is not mistaken for one that is slow at expanding. A chance delay affects one answer: the cheapest
    time per member counts. Expanding is slower when one member costs more than a plain read, divided by the number of
    concurrent requests; ``make bench`` measures that (doc/source/reference/performance.rst, ``costly``).

    :ivar plain: seconds of the latest plain answers.
    :ivar beyond: seconds and number of members of the latest expanded answers.
    :ivar hopeless: an expanded answer did not come where a plain one did: it is not tried again.
    :ivar is_flat: the BMC expands one level only, whatever it advertises.
    """

    plain: deque[float] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    beyond: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    hopeless: bool = False
    is_flat: bool = False
    _wins: dict[int, bool] = field(default_factory=dict, init=False, repr=False, compare=False)

    def read(self, seconds: float) -> None:
        """Note a plain answer."""
        self.plain.append(seconds)
        self._wins = {}

    def expanded(self, seconds: float, members: int) -> None:
        """Note an expanded answer."""
        if members:
            self.beyond.append((seconds, members))
            self._wins = {}

    def failed(self) -> None:
        """Note that an expanded answer did not come where a plain one did."""
        self.hopeless = True

    def failed_deep(self) -> None:
        """Note that a request for more than one level was refused, or was answered as for one level or for none."""
        self.is_flat = True

    @property
    def known(self) -> bool:
        """Whether there are enough answers for an estimate."""
        return self.hopeless or bool(self.plain and self.beyond)

    def wins(self, at_once: int) -> bool:
        """Whether expanding is faster, or nothing is known yet.

        :param at_once: number of concurrent requests.
        """
        if self.hopeless:
            return False
        if not self.known:
            return True
        known = self._wins  # cached until the next answer: this is asked for every device of a machine
        if at_once not in known:
            known[at_once] = self._costs_less(at_once)
        return known[at_once]

    def _costs_less(self, at_once: int) -> bool:
        plain, expanded = tuple(self.plain), tuple(self.beyond)  # copies, as other threads keep adding
        slowest = max(plain)
        beyond = ((seconds - slowest, members) for seconds, members in expanded)
        cheapest = min(extra / members if extra > CHANCE else 0.0 for extra, members in beyond)
        return cheapest * at_once < statistics.median(plain)


@dataclass(slots=True)
class BmcHabits:
    """What this process has learnt about one BMC.

    :ivar pace: its concurrency limit.
    :ivar expansion: whether it is faster at expanded reads.
    :ivar targets: what the last complete inventory asked for, in order: paths, some with the ``$expand`` query.
    :ivar copies: paths of the resources that say whether a root of trust copies an image in the background.
    :ivar accounts: the sessions that this process has open with the BMC.
    :ivar alone: ownership of the resources at the last inventory, if the BMC serves one machine; None: it serves several, or
        there was no inventory yet.
    :ivar only: whether the query ``only`` works as specified; None: unknown.
    :ivar silent: paths whose last request timed out.
    """

    pace: Pace
    expansion: Expansion = field(default_factory=Expansion)
    targets: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()
    accounts: SessionPools = field(default_factory=SessionPools)
    alone: Ownership | None = None
    only: bool | None = None
    silent: set[str] = field(default_factory=set)


class RememberedBmc:
    """The habits of the most recently used BMCs in this process. Safe to use from several threads."""

    def __init__(self, most: int = REMEMBERED) -> None:
        self._most = most
        self._habits: OrderedDict[str, BmcHabits] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, origin: str, new: Callable[[], BmcHabits]) -> BmcHabits:
        """The habits of the BMC at an address; created by ``new`` if it is not known."""
        with self._lock:
            found = self._habits.pop(origin, None)
            if found is None:
                found = new()
            self._habits[origin] = found
            while len(self._habits) > self._most:
                self._habits.popitem(last=False)
            return found
