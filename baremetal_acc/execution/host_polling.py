# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read the power of hosts that a job holds off while its turn is busy with an upload or a slow inspection.

One request over Redfish may take minutes: an image that is sent, or an inspection of a large machine. A host that is powered on
and off again during that time would not be noticed. So a thread reads the power over a session of its own, which is opened only
once a turn takes longer than a third of the time that may pass between two readings (:attr:`RetryLimits.blind`). Its readings
are fed to custody before the next whole reading. The thread changes nothing. Where it fails there is no reading, and custody
decides what that is worth.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from baremetal_acc.bmc.driver import BmcAddress, Connection
from baremetal_acc.errors import AccError, BmcNotAuthorised
from baremetal_acc.model.inventory import HostReading
from baremetal_acc.model.ref import BmcName, Ref

LOG = logging.getLogger(__name__)

READINGS_PER_LIMIT = 3
"""Readings within the time that may pass between two of them: one that fails, or is slow, leaves no gap."""


MOST_FAILED_SESSIONS = 3
"""Failures of a BMC in one turn after which it is polled no more.

A BMC whose sessions are used up may end one of ours for each that is requested.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPoll:
    """The hosts, as they were read once.

    :ivar at: when the reading began, UTC; ``by`` when it had ended.
    :ivar hosts: by System; one that could not be read is missing.
    """

    at: datetime
    by: datetime
    hosts: Mapping[Ref, HostReading]


class HostPolling:
    """The power readings of one turn of a job. Use it as a context manager: leaving it ends them."""

    def __init__(
        self,
        connect: Callable[[BmcAddress], Connection],
        bmcs: Iterable[BmcAddress],
        now: datetime,
        *,
        limit: timedelta,
    ) -> None:
        """Nothing is read yet.

        :param connect: opens a session. Its failures do not concern the turn, so it must not remember them for the turn.
        :param now: the time at which the turn has begun, by its own clock.
        :param limit: how far apart readings may be.
        """
        self._connect = connect
        # A BMC that takes one request at a time is not polled next to an upload.
        self._addresses = {b.name: b for b in bmcs if b.concurrency > 1}
        self._began = now, time.monotonic()
        self._every = limit.total_seconds() / READINGS_PER_LIMIT
        self._polls: list[HostPoll] = []
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> 'HostPolling':
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def moment(self) -> datetime:
        """The time now, by the clock of the turn, UTC."""
        now, began = self._began
        return now + timedelta(seconds=time.monotonic() - began)

    def begin(self, systems: Iterable[Ref]) -> None:
        """Read these Systems from now on, as far as their BMCs take several requests at a time."""
        wanted = tuple(s for s in systems if s.bmc in self._addresses)
        if not wanted or self._every <= 0 or self._thread is not None or self._ended.is_set():
            return
        thread = threading.Thread(target=self._read, args=(wanted,), name='host-polling', daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the system gives us no thread
            LOG.info('No thread could be started to read the power state of %s', ', '.join(map(str, wanted)))
            return
        self._thread = thread

    def end(self) -> None:
        """Stop reading. A reading that is under way does not count."""
        with self._lock:
            self._ended.set()

    def taken(self) -> tuple[HostPoll, ...]:
        """Return the readings since the last call, the oldest first."""
        with self._lock:
            polls, self._polls = tuple(self._polls), []
        return polls

    # ---- in the thread ----

    def _read(self, systems: tuple[Ref, ...]) -> None:
        sessions: dict[BmcName, Connection] = {}
        failed: Counter[BmcName] = Counter()
        try:
            while not self._ended.wait(self._every):
                at = self.moment()
                hosts = self._read_once([s for s in systems if failed[s.bmc] < MOST_FAILED_SESSIONS], sessions, failed)
                with self._lock:
                    if self._ended.is_set():
                        return
                    self._polls.append(HostPoll(at=at, by=self.moment(), hosts=hosts))
        except BmcNotAuthorised as exc:
            LOG.info('%s', exc)  # the BMC allows no further session: another try would look like an attack
        finally:
            for session in sessions.values():
                session.close()

    def _read_once(
        self, systems: Iterable[Ref], sessions: dict[BmcName, Connection], failed: Counter[BmcName]
    ) -> dict[Ref, HostReading]:
        """Read the Systems that can be read, open sessions where there are none, and count which BMCs failed.

        :raises BmcNotAuthorised: a BMC has refused us.
        """
        hosts: dict[Ref, HostReading] = {}
        for system in systems:
            try:
                if system.bmc not in sessions:
                    sessions[system.bmc] = self._connect(self._addresses[system.bmc])
                hosts[system] = sessions[system.bmc].host(system)
            except BmcNotAuthorised:
                raise
            except AccError as exc:
                LOG.info('%s', exc)
                failed[system.bmc] += 1
                if system.bmc in sessions:
                    sessions.pop(system.bmc).close()
        return hosts


__all__ = ['MOST_FAILED_SESSIONS', 'READINGS_PER_LIMIT', 'HostPoll', 'HostPolling']
