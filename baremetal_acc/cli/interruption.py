# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What the first Ctrl-C does to a command: it is said at once what is left, sessions are closed, and the command ends in time.

Within half a second it is said what goes on without us. Then the command unwinds (KeyboardInterrupt); what it asks of BMCs is
stopped, but for closing sessions. After five seconds it ends whatever still hangs, as after a SIGKILL: a job is stored before
each write, and sessions that are left a BMC ends by its own timeout. The second Ctrl-C interrupts once more.
"""

import _thread
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType

from baremetal_acc.bmc import stopping
from baremetal_acc.cli import text
from baremetal_acc.cli.exits import Exit

UNWINDING = 2.0
"""Seconds that a command has to end, besides those for closing sessions."""

_MOMENT = 0.1

_WAKE = (0.02, 0.1, 0.3)
"""Seconds between a Ctrl-C and those signals that make the main thread take note of it."""

_DAEMONS = 0.5
"""Seconds that a thread has to end for which nobody waits else; it may have a session."""

Describe = Callable[[], Iterable[str]]


class _Said:
    """What is to be said, and whether it was."""

    def __init__(self) -> None:
        self.describe: Describe | None = None
        self.done = False


_SAID = _Said()


@contextmanager
def saying(describe: Describe) -> Iterator[None]:
    """What an interruption leaves is described so while this lasts, between any two steps of the main thread."""
    before, _SAID.describe, _SAID.done = _SAID.describe, describe, False
    try:
        yield
    except KeyboardInterrupt:
        _say()  # somebody else has raised it
        raise
    finally:
        _SAID.describe = before


class First:
    """The handler of the first Ctrl-C."""

    def __init__(self, seconds: float, end: Callable[[int], object]) -> None:
        """Nothing happens yet.

        :param seconds: after which the process ends.
        :param end: ends it without unwinding it.
        """
        self._seconds = seconds
        self._end = end
        self._until: float | None = None
        self._over = threading.Event()
        self._stopped = threading.Event()
        self._there_before = frozenset(threading.enumerate())

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Called by Python between two steps of the main thread.

        :raises KeyboardInterrupt: always.
        """
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self._until = time.monotonic() + self._seconds
        # No lock may be taken here that the main thread may hold: neither that of a Thread, nor one of a connection.
        _thread.start_new_thread(self._ending, ())
        _say()
        self._stopped.wait(_MOMENT)  # so that logging out, which follows, knows how long it may take
        raise KeyboardInterrupt

    def _ending(self) -> None:
        stopping.stop_all()
        self._stopped.set()
        if not self._over.wait(max(0.0, self._left())):
            self._end(Exit.INTERRUPTED)

    def _left(self) -> float:
        return 0.0 if self._until is None else self._until - time.monotonic()

    def wait(self) -> None:
        """Wait for the threads that the command has begun: they close sessions. What still hangs in the end is ended."""
        if self._until is None:
            return
        found = [thread for thread in threading.enumerate() if thread not in self._there_before]
        for thread in sorted(found, key=lambda t: t.daemon):
            thread.join(max(0.0, min(self._left(), _DAEMONS if thread.daemon else self._left())))
            if thread.is_alive() and not thread.daemon:
                return
        self._over.set()


@contextmanager
def _noticed() -> Iterator[None]:
    """While this lasts, no Ctrl-C waits for what the main thread waits for.

    Python notes a signal, and calls its handler when the main thread comes back from the system. A signal that comes just
    before the thread goes to wait there ends no wait: the handler would be called when the BMC has answered. So somebody reads
    what Python notes, and sends the main thread another signal, which means nothing.
    """
    main = threading.get_ident()
    reads, writes = socket.socketpair()
    writes.setblocking(False)
    over = threading.Event()

    def wake() -> None:
        while noted := reads.recv(64):
            for seconds in _WAKE if signal.SIGINT in noted else ():
                if not over.wait(seconds):
                    signal.pthread_kill(main, signal.SIGURG)

    other = signal.signal(signal.SIGURG, lambda number, frame: None)
    before = signal.set_wakeup_fd(writes.fileno(), warn_on_full_buffer=False)
    thread = threading.Thread(target=wake, name='interruption', daemon=True)
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        over.set()
        writes.shutdown(socket.SHUT_RDWR)  # to close it is not enough where a process that was forked has it, too
        thread.join()
        writes.close()
        reads.close()
        signal.signal(signal.SIGURG, other)


def interrupts(handler: object) -> bool:
    """A handler of SIGINT raises KeyboardInterrupt: that of Python, or ours."""
    return handler is signal.default_int_handler or isinstance(handler, First)


@contextmanager
def bounded(seconds: float = UNWINDING + stopping.CLOSING, end: Callable[[int], object] = os._exit) -> Iterator[None]:
    """While this lasts, the first Ctrl-C is handled as the module says. Whoever has a handler of his own keeps it."""
    before = signal.getsignal(signal.SIGINT)
    # Signals are the main thread's, and who started us in the background may have had them ignored.
    if threading.current_thread() is not threading.main_thread() or before is not signal.default_int_handler:
        yield
        return
    with _noticed():
        first = First(seconds, end)
        _SAID.done = False
        stopping.begin()
        signal.signal(signal.SIGINT, first)
        try:
            yield
        finally:
            first.wait()
            signal.signal(signal.SIGINT, before)


def _say() -> None:
    if _SAID.done:
        return
    _SAID.done = True
    describe = _SAID.describe
    lines = ['interrupted'] if describe is None else [*describe()] or ['interrupted']
    for line in lines:
        try:
            text.error(line)
        except RuntimeError:  # the main thread was printing: Python allows no second print within the first
            os.write(sys.stderr.fileno(), f'{text.PROGRAM}: error: {text.printable(line)}\n'.encode())
