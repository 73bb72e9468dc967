# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read the BMCs of thousands of targets concurrently in one process, so that no slow BMC delays the others.

The core is synchronous. Where each BMC gets several requests at a time, each target in progress has a thread of its own; a
large fleet, with one connection for each BMC, waits in one thread (:mod:`baremetal_acc.wait`). At most ``at_once`` targets are
in progress, and no more than keep this process busy. A target that only waits for its BMC soon no longer counts: dead and
hanging BMCs, however many and wherever in the list, do not keep others waiting. A second bound, on threads and open files,
holds for all targets in progress.
"""

import gc
import resource
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Generic, Protocol, TypeVar, runtime_checkable

from baremetal_acc import wait
from baremetal_acc.bmc.driver import BmcAddress, Connection
from baremetal_acc.cli import interruption
from baremetal_acc.errors import AccError, BmcUnreachable

GARBAGE = (100_000, 20, 20)
"""Thresholds of Python's garbage collector. Answers of BMCs are large, live for a second, and have no cycles: scanning them,
and all older objects, again and again cost some percent of the CPU."""

PATIENCE = 5.0
"""Seconds, see :class:`PoolBounds`. Real BMCs answer one request within a second, rarely only within 20."""

GRACE = 5.0
"""Seconds that targets in progress have to log out when the run is stopped."""

BEAT = 0.25
"""Seconds between two calls of ``beat`` while no target ends, and between two measurements of how busy this process is."""

FIRST = 32
"""Targets that are begun before it is known how busy they keep this process."""

LATE = 0.1
"""Seconds that a result may wait until it is taken; a longer wait means that threads wait for the interpreter."""

BUSY = 0.8
"""Share of one CPU above which more targets gain nothing: the interpreter runs one thread at a time."""

SWITCH = 0.02
"""Seconds that a thread may keep the interpreter. An inventory computes for some milliseconds, then waits for its BMC: with
Python's 5 ms it is interrupted all the time, which cost a third of the CPU with 256 threads."""

IN_HUB, FULL = 128, 0.97
""":data:`FIRST` and :data:`BUSY` where one thread waits for all targets, so that no threads compete for the interpreter."""

REQUESTS = 256
"""The most requests in progress where each target has a thread of its own: with more targets each BMC gets one request at a
time, and one thread waits for all of them."""

FACTOR = 4
"""How many times ``at_once`` targets may be in progress, those that no longer count included."""

SPARE_FILES = 64
"""Open files that are not connections: output, state, modules."""

T = TypeVar('T')
R = TypeVar('R')


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolBounds:
    """How much may be in progress at a time.

    :ivar at_once: the most targets that count.
    :ivar most: the most targets, those that no longer count included; each has a thread, unless one thread waits for all.
    :ivar each: concurrent requests to one BMC.
    :ivar patience: idle seconds of this process after which a target no longer counts: it only waits for its BMC.
    """

    at_once: int
    most: int
    each: int
    patience: float = PATIENCE


def bounds(targets: int, bmcs: int, *, at_once: int, each: int, files: int | None = None) -> PoolBounds:
    """The bounds for a run.

    With many targets each BMC gets fewer requests at a time: the fleet keeps this machine busy anyway, and each connection
    costs a TLS handshake.

    :param targets: the number of targets.
    :param bmcs: the number of BMCs of the target that has most of them.
    :param at_once: targets in progress, as configured. ``each``: concurrent requests to one BMC, as configured.
    :param files: files that may be open; None asks the system, and raises the soft limit as far as needed and allowed.
    """
    each = max(1, min(each, min(at_once, REQUESTS) // max(1, targets)))
    needed = max(1, bmcs) * each
    most = min(at_once * FACTOR, targets)
    if files is None:
        files = _open_files(most * needed + SPARE_FILES)
    most = max(1, min(most, (files - SPARE_FILES) // needed))
    return PoolBounds(at_once=min(at_once, most), most=most, each=each)


class Width:
    """Adapts the number of targets in progress: as many as keep this process busy.

    More targets would wait for the interpreter. That takes memory, twice the CPU (60 ms for each target with 256, 28 with 16,
    measured on a machine that had other work too), and makes BMCs look slow that are not.

    :param most: the upper limit.
    :param first: the number to begin with.
    :param busy: share of one CPU above which more targets gain nothing.
    :ivar targets: the present number.
    """

    def __init__(self, most: int, now: float, used: float, *, first: int = FIRST, busy: float = BUSY) -> None:
        self.targets = min(most, first)
        self._most = most
        self._first = first
        self._busy = busy
        self._since = now
        self._used = used
        self._late = 0.0

    def came_late(self, seconds: float) -> None:
        """Record that a result, or a timeout, was handled so many seconds late."""
        self._late = max(self._late, seconds)

    def look(self, now: float, used: float) -> None:
        """Adapt the number, at most once per :data:`BEAT`.

        :param used: seconds so far in which this process had something to do.
        """
        passed = now - self._since
        if passed < BEAT:
            return
        if self._late > LATE:
            self.targets = max(min(self._most, self._first // 2), self.targets * 3 // 4)
        elif used - self._used < self._busy * passed:
            self.targets = min(self._most, self.targets * 3 // 2 + 1)
        self._since, self._used, self._late = now, used, 0.0


class Fleet(Generic[T, R]):
    """Runs a function for every target, and yields the results in the order in which they come.

    :param work: the function for one target. An exception ends the run: an error of one target only is a result.
    :param beat: called from time to time while results are awaited.
    :param clock: counts the seconds in which this process was idle; in a hub the hub counts them. Busy seconds do not count:
        then a target may take long although its BMC is fast, and more targets at a time would only slow it down.
    :param stopping: called once when the run was stopped, to make targets in progress end soon.
    :param in_hub: run all targets in one thread: the function waits only by :mod:`baremetal_acc.wait`, so with one request at a
        time to each BMC.
    """

    def __init__(
        self,
        work: Callable[[T], R],
        limits: PoolBounds,
        *,
        beat: Callable[[], None] = lambda: None,
        stopping: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = wait.idle,
        grace: float = GRACE,
        in_hub: bool = False,
    ) -> None:
        self._work = work
        self._limits = limits
        self._beat = beat
        self._stopping = stopping
        self._clock = clock
        self._grace = grace
        self._most = limits.most
        self._due: SimpleQueue[tuple[int, T] | None] = SimpleQueue()
        self._ended: SimpleQueue[tuple[int, R | None, BaseException | None, float] | None] = SimpleQueue()
        self._threads = 0
        self._in_hub = in_hub
        self._hub: _HubThread | None = None
        self._running: dict[int, tuple[T, float]] = {}
        self._stopped = False

    @property
    def is_stopped(self) -> bool:
        """Whether the run was stopped, so that no more targets are begun."""
        return self._stopped

    @property
    def left_behind(self) -> tuple[T, ...]:
        """The targets that are in progress; after :meth:`results` those that did not end in time."""
        return tuple(item for item, _ in self._running.values())

    def stop(self) -> None:
        """Begin no more targets. May be called from a signal handler at any point: it takes no lock of ours."""
        self._stopped = True
        self._ended.put(None)

    def results(self, items: Iterable[T]) -> Generator[tuple[T, R], None, None]:
        """Yield each target and its result as soon as it ends; after :meth:`stop` those that end within the grace period.

        Results are not collected, and no target is begun while the caller handles a result: a slow caller is not overrun.
        """
        with _tuned():
            # One connection to each BMC: one thread can wait for all of them, and no threads compete for the interpreter.
            if self._in_hub:
                self._hub = _HubThread()
                self._clock = self._hub.idle
            try:
                yield from self._results(items)
            finally:
                for _ in range(self._threads):
                    self._due.put(None)
                if self._hub is not None:
                    self._hub.end()

    def _results(self, items: Iterable[T]) -> Generator[tuple[T, R], None, None]:
        first, busy = (IN_HUB, FULL) if self._in_hub else (FIRST, BUSY)
        now = time.monotonic()
        width = Width(self._limits.at_once, now, now - self._clock(), first=first, busy=busy)
        waiting = enumerate(items)
        following = next(waiting, None)
        until: float | None = None
        while True:
            while following is not None and not self._stopped and self._room(width.targets) and self._begin(*following):
                following = next(waiting, None)
            if self._stopped and until is None:
                until = time.monotonic() + self._grace
                self._stopping()
            if not self._running or (until is not None and time.monotonic() > until):
                return
            waited = time.monotonic()
            try:
                ended = self._ended.get(timeout=BEAT)
            except Empty:
                now = time.monotonic()
                width.came_late(now - waited - BEAT)
                width.look(now, now - self._clock())
                self._beat()
                continue
            if ended is not None:
                number, result, failed, at = ended
                now = time.monotonic()
                width.came_late(now - at)
                width.look(now, now - self._clock())
                item, _ = self._running.pop(number)
                if failed is not None:
                    raise failed
                yield item, result  # type: ignore[misc]  # there is a result where nothing failed

    def _room(self, width: int) -> bool:
        if len(self._running) >= self._most:
            return False
        if len(self._running) < width:
            return True
        since = self._clock() - self._limits.patience
        return sum(begun > since for _, begun in self._running.values()) < width

    def _begin(self, number: int, item: T) -> bool:
        """Begin a target in the hub; else in an idle thread, or a new one. False: the system allows no more threads."""
        if self._hub is not None:
            self._running[number] = item, self._clock()
            self._hub.begin(lambda: self._one(number, item))
            return True
        if len(self._running) >= self._threads:
            try:
                # Not a daemon: threads that it starts, such as a logout, would be daemons too, and be cut off at the exit.
                threading.Thread(target=self._thread, name=f'fleet-{self._threads}', daemon=False).start()
            except RuntimeError as exc:
                if not self._threads:
                    raise AccError(
                        'a thread could not be started', hint='raise the limit of threads or processes (ulimit -u)'
                    ) from exc
                self._most = self._threads
                return False
            self._threads += 1
        self._running[number] = item, self._clock()
        self._due.put((number, item))
        return True

    def _thread(self) -> None:
        while (due := self._due.get()) is not None:
            self._one(*due)
            del due

    def _one(self, number: int, item: T) -> None:
        try:
            result = self._work(item)
        except BaseException as exc:  # noqa: BLE001 - raised again by results(), which would wait for ever otherwise
            self._ended.put((number, None, exc, time.monotonic()))
        else:
            self._ended.put((number, result, None, time.monotonic()))


class _HubThread:
    """A thread in which all targets wait for their BMCs together."""

    def __init__(self) -> None:
        self._hub = wait.Hub()
        self._ended = False
        # A daemon: a target that hangs must not hold up the exit of the process.
        self._thread = threading.Thread(target=self._run, name='fleet', daemon=True)
        self._thread.start()

    def idle(self) -> float:
        """Seconds in which all targets waited for their BMCs, and the process used no CPU."""
        return self._hub.idle

    def begin(self, function: Callable[[], None]) -> None:
        """Begin a function, which must not raise."""
        self._hub.call(lambda: self._hub.spawn(function))

    def end(self) -> None:
        """End the thread as soon as it can; functions that still wait are never resumed."""
        self._ended = True
        self._hub.call(lambda: None)
        self._thread.join(GRACE)

    def _run(self) -> None:
        try:
            self._hub.run(lambda: self._ended)
        finally:
            self._hub.close()


@contextmanager
def _tuned() -> Iterator[None]:
    """Tune the interpreter for many threads that parse large short-lived answers; restore its settings afterwards."""
    switch, thresholds = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(SWITCH)
    gc.set_threshold(*GARBAGE)
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
        sys.setswitchinterval(switch)


@runtime_checkable
class Stoppable(Protocol):
    """A connection whose requests another thread can stop; the thread that uses the connection then logs out."""

    def stop(self) -> None:
        """Make every read from now on fail at once."""


class Connections:
    """Opens connections to BMCs, and keeps track of the open ones.

    :param connect: as in :class:`~baremetal_acc.execution.Tools`.
    """

    def __init__(self, connect: Callable[[BmcAddress], Connection]) -> None:
        self._connect = connect
        self._open: weakref.WeakSet[Connection] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    def __call__(self, address: BmcAddress) -> Connection:
        """Open a connection.

        :raises BmcError: as the driver does, or because the run was stopped.
        """
        if self._stopped.is_set():
            raise BmcUnreachable(bmc=address.label, what='not contacted: the run was stopped')
        made = self._connect(address)
        with self._lock:
            self._open.add(made)
        if self._stopped.is_set():
            _stop(made)
        return made

    def stop(self) -> None:
        """Open no more connections, and make the inventories in progress end soon."""
        self._stopped.set()
        with self._lock:
            found = list(self._open)
        for connection in found:
            _stop(connection)


def _stop(connection: Connection) -> None:
    if isinstance(connection, Stoppable):
        connection.stop()


@contextmanager
def interrupted_by_ctrl_c(stop: Callable[[], None]) -> Iterator[threading.Event]:
    """Let the first Ctrl-C call ``stop`` and interrupt nothing, so that no line is cut in two; the second raises as usual.

    :returns: an event that is set by the first Ctrl-C.
    """
    happened = threading.Event()

    def first(number: int, frame: FrameType | None) -> None:
        happened.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        stop()

    before = signal.getsignal(signal.SIGINT)
    # Signals reach the main thread only; and a shell that started us in the background may have set SIGINT to be ignored.
    ours = threading.current_thread() is threading.main_thread() and interruption.interrupts(before)
    if ours:
        signal.signal(signal.SIGINT, first)
    try:
        yield happened
    finally:
        if ours:
            signal.signal(signal.SIGINT, before)


def _open_files(wanted: int) -> int:
    """How many files may be open, after the soft limit was raised as far as wanted and allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    reachable = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if reachable > soft:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (reachable, hard))
            return reachable
    return soft
