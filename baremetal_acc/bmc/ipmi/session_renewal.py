# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Log in to a BMC again when a command is to be sent and no session is open."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from baremetal_acc.bmc.ipmi.command import CommandReply
from baremetal_acc.bmc.ipmi.endpoint import Endpoint, LoginPrivilege
from baremetal_acc.bmc.ipmi.session import LONGEST, RmcpSession
from baremetal_acc.errors import BmcAnswerInvalid, BmcNotAuthorised, BmcUnreachable

IDLE = 20.0
"""Seconds of idling after which a session is replaced: BMCs end idle sessions after 30 to 60 s, without notice."""


class RmcpSessions:
    """A :class:`~baremetal_acc.bmc.ipmi.command.Raw` that opens a session when a command is to be sent and there is none.

    That is the case at first, after the session has idled, and after a timeout, since a BMC that has restarted does not answer
    in the old session. No command is sent again in another session.

    :ivar stopped: pending commands have to give up. May be set from any thread.
    """

    longest = LONGEST

    def __init__(
        self,
        there: Endpoint,
        privilege: LoginPrivilege = LoginPrivilege.OPERATOR,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.label = there.label
        self.stopped = False
        self._there = there
        self._privilege = privilege
        self._clock = clock
        self._lock = threading.RLock()
        self._session: RmcpSession | None = None
        self._until = float('inf')
        self._refused: BmcNotAuthorised | None = None

    def __enter__(self) -> 'RmcpSessions':
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __call__(
        self, netfn: int, command: int, data: bytes = b'', *, lun: int = 0, once: bool = False, within: timedelta | None = None
    ) -> CommandReply:
        """Send a command and wait for the answer.

        :raises BmcError: as by :class:`~baremetal_acc.bmc.ipmi.session.RmcpSession`, including its login.
        """
        with self._lock:
            session = self.ready()
            try:
                return session(netfn, command, data, lun=lun, once=once, within=within)
            except (BmcUnreachable, BmcAnswerInvalid):
                self.close()
                raise

    def series(
        self, netfn: int, command: int, requests: Iterable[bytes], taken: Callable[[CommandReply], bool]
    ) -> CommandReply | None:
        """As :func:`~baremetal_acc.bmc.ipmi.command.series`, all of it in one session.

        :raises BmcError: as by :class:`~baremetal_acc.bmc.ipmi.session.RmcpSession`, including its login.
        """
        with self._lock:
            session = self.ready()
            try:
                return session.series(netfn, command, requests, taken)
            except (BmcUnreachable, BmcAnswerInvalid):
                self.close()
                raise

    def ready(self) -> RmcpSession:
        """The open session, after a login where one is needed.

        :raises BmcError: it cannot be opened. Refused credentials are not tried again: repeated failures lock users out.
        """
        with self._lock:
            if self._refused is not None:
                raise self._refused
            if self._session is not None and self._clock() - self._session.idle_since > IDLE:
                self.close()
            if self._session is None:
                left = self._until - self._clock()
                budget = None if left == float('inf') else timedelta(seconds=max(0.0, left))
                try:
                    self._session = RmcpSession(
                        self._there, self._privilege, budget=budget, clock=self._clock, stopped=lambda: self.stopped
                    )
                except BmcNotAuthorised as exc:
                    self._refused = exc
                    raise
                except BmcUnreachable as exc:
                    exc.sent = False
                    raise
            self._session.until = self._until
            return self._session

    @contextmanager
    def limited(self, budget: timedelta) -> Iterator[None]:
        """Context with a time limit for all commands in it; an earlier limit still applies."""
        before, self._until = self._until, min(self._until, self._clock() + budget.total_seconds())
        try:
            yield
        finally:
            self._until = before

    def close(self) -> None:
        """Log out. Never fails; another command would log in again."""
        with self._lock:
            if self._session is not None:
                self._session.close()
                self._session = None
