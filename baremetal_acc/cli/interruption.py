# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Handle the first Ctrl-C (SIGINT): report what is left at once, close the BMC sessions, and end the command in bounded time.

Within half a second the command reports what continues without it. Then it unwinds (KeyboardInterrupt); its requests to BMCs
are stopped, except those that close sessions. After five seconds the process ends even if something still hangs. That is as
safe as a SIGKILL: a job is stored before each write, and a BMC ends sessions that are left by its own timeout. The second
Ctrl-C interrupts once more.
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
from baremetal_acc.cli.exits import Exit
from baremetal_acc.cli.output import text

UNWINDING = 2.0
"""Seconds that a command has to end, in addition to those for closing sessions."""

_MOMENT = 0.1

_WAKE = (0.02, 0.1, 0.3)
"""After a Ctrl-C, the seconds before each of the signals that make the main thread run Python's signal handlers."""

_DAEMONS = 0.5
"""Seconds that a daemon thread has to end, which Python itself does not wait for; it may have an open session."""

Describe = Callable[[], Iterable[str]]


class _Said:
    """What the first Ctrl-C reports, and whether it was reported."""

    def __init__(self) -> None:
        self.describe: Describe | None = None
        self.done = False


_SAID = _Said()


@contextmanager
def saying(describe: Describe) -> Iterator[None]:
    """Within this context, ``describe`` gives the lines that an interruption reports; it may be called at any point in time."""
    before, _SAID.describe, _SAID.done = _SAID.describe, describe, False
    try:
        yield
    except KeyboardInterrupt:
        _say()  # for an interruption that did not come through the handler
        raise
    finally:
        _SAID.describe = before


class First:
    """The handler of the first Ctrl-C."""

    def __init__(self, seconds: float, end: Callable[[int], object]) -> None:
        """Create the handler; it is not installed yet.

        :param seconds: seconds after the Ctrl-C, after which the process ends.
        :param end: ends the process without unwinding it.
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
        # No lock may be taken here that the interrupted main thread may hold: not that of a Thread, nor one of a connection.
        _thread.start_new_thread(self._ending, ())
        _say()
        self._stopped.wait(_MOMENT)  # so that the logouts, which follow, know how long they may take
        raise KeyboardInterrupt

    def _ending(self) -> None:
        stopping.stop_all()
        self._stopped.set()
        if not self._over.wait(max(0.0, self._left())):
            self._end(Exit.INTERRUPTED)

    def _left(self) -> float:
        return 0.0 if self._until is None else self._until - time.monotonic()

    def wait(self) -> None:
        """Wait for the threads that the command has started: they close sessions. Threads that hang end with the process."""
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
    """Within this context, a Ctrl-C is handled at once, also while the main thread waits in a system call.

    Python records a signal, and calls its handler when the main thread returns from the system call. A signal that arrives just
    before the thread begins to wait does not interrupt the wait: the handler would be called only after the BMC has answered.
    So a thread reads the numbers of recorded signals (:func:`signal.set_wakeup_fd`), and sends SIGURG to the main thread, whose
    handler does nothing.
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
        writes.shutdown(socket.SHUT_RDWR)  # closing alone is not enough where a forked process has the socket open, too
        thread.join()
        writes.close()
        reads.close()
        signal.signal(signal.SIGURG, other)


def interrupts(handler: object) -> bool:
    """Whether a handler of SIGINT raises KeyboardInterrupt: Python's own handler, or ours."""
    return handler is signal.default_int_handler or isinstance(handler, First)


@contextmanager
def bounded(seconds: float = UNWINDING + stopping.CLOSING, end: Callable[[int], object] = os._exit) -> Iterator[None]:
    """Within this context, handle the first Ctrl-C as the module docstring says. A handler of another kind stays in place."""
    before = signal.getsignal(signal.SIGINT)
    # Signals reach the main thread only; and a shell that started us in the background may have set SIGINT to be ignored.
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
        except RuntimeError:  # the interrupted code was printing: Python does not allow a nested print
            os.write(sys.stderr.fileno(), f'{text.PROGRAM}: error: {text.printable(line)}\n'.encode())
