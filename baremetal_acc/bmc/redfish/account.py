# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Bookkeeping of the Redfish sessions that this process has open with one BMC, per account (user and password).

A BMC may have only one free session. Then the connections of this process take turns: a connection that needs a session closes
the idle sessions of the other connections, and each of these logs in again before its next request.
"""

import threading
import time
import weakref
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Protocol

from baremetal_acc import wait

SCARCE = 600.0
"""Seconds for which a BMC without a free session is assumed to have one for us: idle ones are closed before the next login."""

ROOM = 2.0
"""Seconds that a login waits for other connections' sessions that are in use or being closed: some requests take that long."""

LINGER = 5.0
"""Seconds after which a session that we have closed is certainly free: some BMCs answer the DELETE before they have ended it.
"""

_BEAT = 0.02

MOST = 64
"""Accounts (user and password) that are remembered for each BMC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldSession:
    """An open session.

    :ivar token: its X-Auth-Token.
    :ivar places: URIs at which it may be deleted, the likeliest first.
    """

    token: str = field(repr=False)
    places: tuple[str, ...]


class Holder(Protocol):
    """A connection that may hold a session: its token, whether a request uses it now, and how to close it."""

    @property
    def token(self) -> str | None: ...

    @property
    def in_use(self) -> bool: ...

    def give_up(self) -> bool: ...


class SessionPool:
    """The sessions of one account (user and password) on one BMC, over all connections of this process.

    Safe to use from several threads; no lock is held during any wait.

    :ivar basic_refused: the BMC has refused Basic authentication: it is not tried again, as BMCs lock accounts out.
    """

    def __init__(self) -> None:
        self.basic_refused = False
        self._holders: weakref.WeakSet[Holder] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._ending = 0
        self._ended = 0
        self._left: HeldSession | None = None
        self._scarce_until = float('-inf')
        self._freed_until = float('-inf')

    @property
    def ended(self) -> int:
        """Number of sessions that were closed so far."""
        with self._lock:
            return self._ended

    @property
    def scarce(self) -> bool:
        """The BMC had no free session within the last SCARCE seconds."""
        return time.monotonic() < self._scarce_until

    @property
    def lingers(self) -> bool:
        """A session was closed within the last LINGER seconds: the BMC may still count it."""
        return time.monotonic() < self._freed_until

    def ran_short(self) -> None:
        """Note that the BMC has no free session."""
        self._scarce_until = time.monotonic() + SCARCE

    def enter(self, holder: Holder) -> None:
        """Register a connection that has opened a session."""
        with self._lock:
            self._holders.add(holder)

    def ending(self) -> None:
        """Note that a session is about to be closed."""
        with self._lock:
            self._ending += 1

    def has_ended(self, left: HeldSession | None, *, closed: bool) -> None:
        """Note the result of an attempt to close a session.

        :param left: the session, if it was not closed and its token may still be good.
        :param closed: the BMC has closed it, and has one more free session now or soon.
        """
        with self._lock:
            self._ending -= 1
            if closed:
                self._ended += 1
                self._freed_until = time.monotonic() + LINGER
            elif left is not None:
                self._left = left

    def take_left(self) -> HeldSession | None:
        """Return a session that could not be closed, for further use; each is returned once."""
        with self._lock:
            left, self._left = self._left, None
        return left

    def make_room(self, own: Holder) -> bool:
        """Close idle sessions of other connections; wait up to ROOM seconds for those that are in use or being closed.

        :returns: whether a session was closed, by any connection.
        """
        before = self.ended
        until = time.monotonic() + ROOM
        while True:
            others = self._others(own)
            for other in others:
                other.give_up()
            with self._lock:
                if self._ended != before:
                    return True
                ending = self._ending
            if not ending and not any(other.token is not None and other.in_use for other in others):
                return False
            if time.monotonic() >= until:
                return False
            wait.sleep(_BEAT)

    def holds_another(self, own: Holder) -> bool:
        """Whether another connection has an open session: then the credentials are good."""
        return self.token_of_another(own) is not None

    def token_of_another(self, own: Holder) -> str | None:
        """The token of another connection's open session; None if there is none."""
        return next((token for other in self._others(own) if (token := other.token) is not None), None)

    def _others(self, own: Holder) -> list[Holder]:
        with self._lock:
            return [holder for holder in self._holders if holder is not own]


class SessionPools:
    """The accounts of one BMC, by user and password; the latest MOST are kept. Safe to use from several threads."""

    def __init__(self) -> None:
        self._found: OrderedDict[tuple[str | None, str | None], SessionPool] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, username: str | None, password: str | None) -> SessionPool:
        """The account of these credentials; a new one if it is not known."""
        with self._lock:
            found = self._found.pop((username, password), None) or SessionPool()
            self._found[username, password] = found
            while len(self._found) > MOST:
                self._found.popitem(last=False)
            return found
