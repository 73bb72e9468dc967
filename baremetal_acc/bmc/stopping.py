# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Stop everything that this process asks of BMCs, so that it can end.

What is read fails at once, nothing more is written, and sessions have a moment to be closed. Of use to a command that was
interrupted; a service never calls it.
"""

import threading
import weakref
from typing import Protocol

CLOSING = 3.0
"""Seconds that sessions have to be closed. What is left then the BMC ends by its own timeout."""


class Stoppable(Protocol):
    """Something that asks a BMC."""

    def stop(self) -> None:
        """Ask for nothing more but to be logged out. From any thread."""


_open: weakref.WeakSet[Stoppable] = weakref.WeakSet()
_lock = threading.Lock()
_stopped = threading.Event()


def watch(one: Stoppable) -> None:
    """Let it be stopped with all others; at once where they were already."""
    with _lock:
        _open.add(one)
    if _stopped.is_set():
        one.stop()


def stop_all() -> None:
    """Stop everything that is open, and what is opened from now on. Not from a handler of a signal: it takes locks."""
    _stopped.set()
    with _lock:
        found = list(_open)
    for one in found:
        one.stop()


def begin() -> None:
    """Let BMCs be asked again."""
    _stopped.clear()
