# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The sessions that this process has open with one BMC, by one account.

A BMC may have one session left for us. Connections of one process then take turns: the one that needs a session closes those
of the others that nobody uses at the moment, and each of these opens one again when it is used next.
"""

import threading
import time
import weakref
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Protocol

from baremetal_acc import wait

SCARCE = 600.0
"""Seconds for which a BMC that had no session free is taken to have one only for us: idle ones are closed before the next."""

ROOM = 2.0
"""Seconds that a login waits for the sessions of others that are in use, or are being closed: some requests take as long."""

LINGER = 5.0
"""Seconds after which a session that we have closed is free again at the latest: some BMCs answer before they have ended it."""

_BEAT = 0.02

MOST = 64
"""Accounts of one BMC that are remembered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A session that is open.

    :ivar places: URIs at which it may be closed, the likeliest first.
    """

    token: str = field(repr=False)
    places: tuple[str, ...]


class Holder(Protocol):
    """Who may hold a session."""

    @property
    def token(self) -> str | None: ...

    @property
    def in_use(self) -> bool: ...

    def give_up(self) -> bool: ...


class Account:
    """Safe to use from several threads; no lock is held while anything is waited for.

    :ivar basic_refused: the BMC does not take Basic authentication: it is not asked for it again, for accounts get locked out.
    """

    def __init__(self) -> None:
        self.basic_refused = False
        self._holders: weakref.WeakSet[Holder] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._ending = 0
        self._ended = 0
        self._left: Held | None = None
        self._scarce_until = float('-inf')
        self._freed_until = float('-inf')

    @property
    def ended(self) -> int:
        """How many sessions were closed so far."""
        with self._lock:
            return self._ended

    @property
    def scarce(self) -> bool:
        """The BMC had no session free a short time ago."""
        return time.monotonic() < self._scarce_until

    @property
    def lingers(self) -> bool:
        """A session was closed so lately that the BMC may still count it."""
        return time.monotonic() < self._freed_until

    def ran_short(self) -> None:
        """The BMC has no session free."""
        self._scarce_until = time.monotonic() + SCARCE

    def enter(self, holder: Holder) -> None:
        """Somebody has opened a session."""
        with self._lock:
            self._holders.add(holder)

    def ending(self) -> None:
        """A session is about to be closed."""
        with self._lock:
            self._ending += 1

    def has_ended(self, left: Held | None, *, closed: bool) -> None:
        """Nothing more can be done to close it.

        :param left: the session, where it is not closed, and may still be good.
        :param closed: the BMC has one session more that is free, or will have soon.
        """
        with self._lock:
            self._ending -= 1
            if closed:
                self._ended += 1
                self._freed_until = time.monotonic() + LINGER
            elif left is not None:
                self._left = left

    def take_left(self) -> Held | None:
        """A session that could not be closed; each is given once."""
        with self._lock:
            left, self._left = self._left, None
        return left

    def make_room(self, own: Holder) -> bool:
        """Close the sessions of others that nobody uses; those in use, or being closed, are waited for a short time.

        :returns: a session was closed, by whomever.
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
        """Another connection has a session open: the credentials are good."""
        return self.token_of_another(own) is not None

    def token_of_another(self, own: Holder) -> str | None:
        """The token of a session that another connection has open, None when there is none."""
        return next((token for other in self._others(own) if (token := other.token) is not None), None)

    def _others(self, own: Holder) -> list[Holder]:
        with self._lock:
            return [holder for holder in self._holders if holder is not own]


class Accounts:
    """The accounts of one BMC, by user and password. Safe to use from several threads."""

    def __init__(self) -> None:
        self._found: OrderedDict[tuple[str | None, str | None], Account] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, username: str | None, password: str | None) -> Account:
        """The one of these credentials."""
        with self._lock:
            found = self._found.pop((username, password), None) or Account()
            self._found[username, password] = found
            while len(self._found) > MOST:
                self._found.popitem(last=False)
            return found
