# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Stop all BMC connections of this process, so that an interrupted command can end.

Pending reads fail at once, nothing more is written, and sessions get a short time to be closed. For commands that were
interrupted; a service never calls it.
"""

import threading
import weakref
from typing import Protocol

CLOSING = 3.0
"""Seconds for closing sessions. The BMC ends the remaining ones by its own timeout."""


class StoppableRequests(Protocol):
    """A connection to a BMC that can be stopped."""

    def stop(self) -> None:
        """Send no more requests, except to log out. May be called from any thread."""


_open: weakref.WeakSet[StoppableRequests] = weakref.WeakSet()
_lock = threading.Lock()
_stopped = threading.Event()


def watch(one: StoppableRequests) -> None:
    """Register a connection to be stopped by :func:`stop_all`; it is stopped at once if that was called before."""
    with _lock:
        _open.add(one)
    if _stopped.is_set():
        one.stop()


def stop_all() -> None:
    """Stop all open connections, and those opened from now on. Do not call it from a signal handler: it takes locks."""
    _stopped.set()
    with _lock:
        found = list(_open)
    for one in found:
        one.stop()


def begin() -> None:
    """Allow connections again after :func:`stop_all`."""
    _stopped.clear()
