# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Wait for sockets and timers: in an ordinary thread, or as one of many greenlets in one thread (:class:`Hub`).

Code that reads a BMC is written as if it could block. In an ordinary thread it does. In a :class:`Hub` it runs as a greenlet,
which lets others run while it waits: an inventory of many machines needs no thread for each BMC. Threads that compete for the
interpreter cost as much again as the inspections themselves (doc/source/reference/performance.rst).

Code that runs in a hub may hold no lock across a wait, unless nobody else in the hub wants that lock.
"""

import contextlib
import functools
import heapq
import itertools
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import greenlet

S = TypeVar('S')
T = TypeVar('T')

READ = select.POLLIN
WRITE = select.POLLOUT

TICK = 0.1
"""Seconds by which a wait for a socket may exceed its timeout: timeouts are checked this often."""

_here = threading.local()


def idle() -> float:
    """Clock of the seconds in which this process used no CPU: it had nothing to do, or other processes had the CPU."""
    return time.monotonic() - time.process_time()


class Hub:
    """Run many functions in one thread; each may wait for sockets and for time by :func:`for_socket` and :func:`sleep`.

    :ivar idle: seconds in which all of them waited and the process used no CPU. Time in which other processes had the CPU,
        while there was something to do, does not count.
    """

    def __init__(self) -> None:
        self.idle = 0.0
        self._epoll = select.epoll()
        self._ready: deque[tuple[greenlet.greenlet, Any]] = deque()
        self._timers: list[tuple[float, int, greenlet.greenlet]] = []
        self._numbers = itertools.count()
        self._main = greenlet.getcurrent()
        self._waiting: dict[int, tuple[greenlet.greenlet, float]] = {}
        self._next_look = 0.0
        self._calls: deque[Callable[[], None]] = deque()
        self._bell, self._button = socket.socketpair()
        self._bell.setblocking(False)
        self._button.setblocking(False)
        self._epoll.register(self._bell, READ)
        self._helpers: ThreadPoolExecutor | None = None

    def spawn(self, function: Callable[[], None]) -> None:
        """Start a function as a greenlet. An exception that it raises ends :meth:`run`."""
        self._ready.append((greenlet.greenlet(lambda _: function(), self._main), None))

    def call(self, function: Callable[[], None]) -> None:
        """Run a function in the hub's thread; may be called from any thread."""
        self._calls.append(function)
        with contextlib.suppress(BlockingIOError):
            self._button.send(b'!')

    def run(self, done: Callable[[], bool]) -> None:
        """Run all functions until ``done`` returns true."""
        _here.hub = self
        self._main = greenlet.getcurrent()
        try:
            while not done():
                self._turn()
        finally:
            _here.hub = None

    def close(self) -> None:
        """Close the hub's file descriptors; functions that still wait never continue."""
        self._epoll.close()
        self._bell.close()
        self._button.close()
        if self._helpers is not None:
            self._helpers.shutdown(wait=False, cancel_futures=True)

    # ---- called in a greenlet of this hub ----

    def for_socket(self, fd: int, event: int, seconds: float) -> bool:
        """Wait until a socket is ready; return False after the timeout. Only one greenlet may wait for a socket at a time."""
        once = event | select.EPOLLONESHOT
        try:
            self._epoll.modify(fd, once)  # epoll keeps it after its first wait; the kernel removes a closed one
        except FileNotFoundError:
            self._epoll.register(fd, once)
        self._waiting[fd] = greenlet.getcurrent(), time.monotonic() + seconds
        return bool(self._main.switch())

    def sleep(self, seconds: float) -> None:
        """Wait for time to pass."""
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._numbers), greenlet.getcurrent()))
        self._main.switch()

    def together(self, work: Callable[[S], T], items: Sequence[S]) -> list[T]:
        """As the function :func:`together`."""
        current = greenlet.getcurrent()
        futures: list[Future[T]] = [Future() for _ in items]

        def one(item: S, future: Future[T]) -> None:
            try:
                future.set_result(work(item))
            except BaseException as exc:  # noqa: BLE001 - it is raised where the result is taken
                future.set_exception(exc)
            if all(f.done() for f in futures):
                self._ready.append((current, None))

        for item, future in zip(items, futures, strict=True):
            self.spawn(functools.partial(one, item, future))
        self._main.switch()
        return [future.result() for future in futures]

    def in_thread(self, function: Callable[[], T]) -> T:
        """Run a function that would block the hub, such as a name lookup, in a thread; return its result."""
        if self._helpers is None:
            self._helpers = ThreadPoolExecutor(16, 'hub-helper')
        current = greenlet.getcurrent()
        future = self._helpers.submit(function)
        future.add_done_callback(lambda _: self.call(lambda: self._ready.append((current, None))))
        self._main.switch()
        return future.result()

    # ---- the loop ----

    def _turn(self) -> None:
        for _ in range(len(self._ready)):
            who, value = self._ready.popleft()
            who.switch(value)
        timeout = 0.0 if self._ready else TICK
        if self._timers and timeout:
            timeout = min(timeout, max(0.0, self._timers[0][0] - time.monotonic()))
        began = idle()
        events = self._epoll.poll(timeout)
        if timeout:
            self.idle += idle() - began
        for fd, _ in events:
            found = self._waiting.pop(fd, None)
            if found is not None:
                self._ready.append((found[0], True))
            elif fd == self._bell.fileno():
                with contextlib.suppress(BlockingIOError):
                    self._bell.recv(4096)
        while self._calls:
            self._calls.popleft()()
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            self._ready.append((heapq.heappop(self._timers)[2], None))
        if now >= self._next_look:
            self._next_look = now + TICK
            for fd in [fd for fd, (_, until) in self._waiting.items() if until <= now]:
                self._ready.append((self._waiting.pop(fd)[0], False))


def together(work: Callable[[S], T], items: Sequence[S]) -> list[T]:
    """Do something for each item at the same time, for all of them even when one fails; return the results in order.

    :raises Exception: what the first of them raised.
    """
    if len(items) < 2:
        return [work(item) for item in items]
    found = hub()
    if found is None:
        with ThreadPoolExecutor(max_workers=len(items)) as pool:
            return [future.result() for future in [pool.submit(work, item) for item in items]]
    return found.together(work, items)


def hub() -> Hub | None:
    """Return the hub that this code runs in; None in an ordinary thread."""
    return getattr(_here, 'hub', None)


def sleep(seconds: float) -> None:
    """Sleep as ``time.sleep`` does; in a hub, let others run meanwhile."""
    found = hub()
    if found is None:
        time.sleep(seconds)
    else:
        found.sleep(seconds)
