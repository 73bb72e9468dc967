# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Share the targets of a run among several processes, because one Python interpreter runs one thread at a time.

Each process takes every n-th target and has a :class:`~baremetal_acc.cli.worker_pool.Fleet` of its own. It sends each result
over a pipe as soon as it has it, and is told to stop by the same pipe. It stops when the pipe is closed, however the parent
ended.
"""

import math
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, Pipe, wait
from typing import Generic, NoReturn, TypeVar

from baremetal_acc.cli.worker_pool import BEAT, GRACE, Fleet, PoolBounds
from baremetal_acc.errors import AccError
from baremetal_acc.execution.observation import LOGOUT

LONGER = 2.0
"""Seconds that a process gets to end, in addition to the grace period of its targets."""

T = TypeVar('T')
R = TypeVar('R')


@dataclass(slots=True, kw_only=True)
class _Worker:
    """One worker process.

    :ivar left: positions of its targets whose results have not arrived yet.
    """

    pid: int
    pipe: Connection
    left: set[int]
    done: bool = False


def shared(limits: PoolBounds, processes: int, number: int) -> PoolBounds:
    """The bounds of one of several processes that share a run: together they have no more in progress than one process alone.

    :param number: the number of this process, from 0.
    """
    at_once, most = (total // processes + (number < total % processes) for total in (limits.at_once, limits.most))
    return replace(limits, at_once=at_once, most=most)


class Processes(Generic[T, R]):
    """Does what :class:`~baremetal_acc.cli.worker_pool.Fleet` does, in several processes. Results of ``work`` have to be
    picklable.

    :param count: the number of processes, at least two.
    :param stopping: called in each worker process when the run was stopped; ``stopped`` is called in this process then.
    """

    def __init__(
        self,
        work: Callable[[T], R],
        limits: PoolBounds,
        count: int,
        *,
        beat: Callable[[], None] = lambda: None,
        stopping: Callable[[], None] = lambda: None,
        stopped: Callable[[], None] = lambda: None,
        in_hub: bool = False,
        grace: float = GRACE,
    ) -> None:
        self._work = work
        self._limits = limits
        self._count = min(count, limits.at_once)
        self._beat = beat
        self._stopping = stopping
        self._stopped = stopped
        self._in_hub = in_hub
        self._grace = grace
        self._stop = False
        self._left: tuple[T, ...] = ()

    @property
    def left_behind(self) -> tuple[T, ...]:
        """After :meth:`results`: the targets that did not end in time."""
        return self._left

    def stop(self) -> None:
        """Begin no more targets. May be called from a signal handler."""
        self._stop = True

    def results(self, items: Iterable[T]) -> Generator[tuple[T, R], None, None]:
        """Yield each target and its result as soon as it ends; after :meth:`stop` those that end within the grace period.

        :raises AccError: a worker process died.
        """
        all_items = tuple(items)
        workers: list[_Worker] = []
        try:
            for first in range(min(self._count, len(all_items))):
                workers.append(self._started(all_items, first, workers))
            yield from self._results(all_items, workers)
        finally:
            for worker in workers:
                worker.pipe.close()
                if not worker.done:
                    with suppress(ProcessLookupError):
                        os.kill(worker.pid, signal.SIGKILL)
                with suppress(ChildProcessError):
                    os.waitpid(worker.pid, 0)

    def _results(self, items: tuple[T, ...], workers: list[_Worker]) -> Generator[tuple[T, R], None, None]:
        until: float | None = None
        while not all(worker.done for worker in workers):
            if self._stop and until is None:
                until = time.monotonic() + self._grace + LONGER
                self._stopped()
                for worker in workers:
                    with suppress(OSError):
                        worker.pipe.send(None)
            if until is not None and time.monotonic() > until:
                self._left += tuple(items[p] for worker in workers if not worker.done for p in sorted(worker.left))
                return
            ready = wait([worker.pipe for worker in workers if not worker.done], timeout=BEAT)
            if not ready:
                self._beat()
            for worker in workers:
                if worker.pipe in ready:
                    yield from self._taken(items, worker)

    def _taken(self, items: tuple[T, ...], worker: _Worker) -> Generator[tuple[T, R], None, None]:
        """Receive one message of a worker process, and yield its target and result, if it has one."""
        try:
            position, result = worker.pipe.recv()
        except (EOFError, ConnectionResetError) as exc:
            worker.done = True
            _, status = os.waitpid(worker.pid, 0)
            code = os.waitstatus_to_exitcode(status)
            how = f'by signal {-code}' if code < 0 else f'with code {code}'
            raise AccError(
                f'a worker process ended {how}; targets that it has not read: {len(worker.left)}',
                hint='set [baremetal_acc] fleet_processes = 1, run it again with --debug and report it',
            ) from exc
        if position is None:
            worker.done = True
            if isinstance(result, BaseException):
                raise result
            self._left += tuple(items[p] for p in result)
            return
        worker.left.discard(position)
        yield items[position], result

    def _started(self, items: tuple[T, ...], first: int, others: list[_Worker]) -> _Worker:
        ours, theirs = Pipe()
        positions = range(first, len(items), self._count)
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            pid = os.fork()
        except OSError as exc:
            raise AccError(
                f'a process could not be started: {exc.strerror}', hint='set [baremetal_acc] fleet_processes = 1'
            ) from exc
        if pid == 0:
            for pipe in (ours, *(other.pipe for other in others)):
                pipe.close()
            self._live(items, positions, theirs, shared(self._limits, self._count, first))
        theirs.close()
        return _Worker(pid=pid, pipe=ours, left=set(positions))

    def _live(self, items: tuple[T, ...], positions: range, pipe: Connection, limits: PoolBounds) -> NoReturn:
        """Run a fleet in the worker process. Never returns, so that the code of the parent does not run in the worker."""
        code, logouts = 1, self._grace
        try:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles it, and tells the workers to stop
            fleet: Fleet[int, R] = Fleet(
                lambda position: self._work(items[position]),
                limits,
                stopping=self._stopping,
                grace=self._grace,
                in_hub=self._in_hub,
            )
            threading.Thread(target=_obey, args=(pipe, fleet), name='fleet-told', daemon=True).start()
            try:
                for found in fleet.results(positions):
                    pipe.send(found)
            except AccError as exc:
                pipe.send((None, exc))
            else:
                pipe.send((None, sorted(fleet.left_behind)))
            code = 0
            if not fleet.is_stopped:
                logouts = math.inf  # each logout ends by itself, within the timeout of its BMC
        except BrokenPipeError:
            pass  # the parent has gone
        except BaseException:  # noqa: BLE001 - report it while possible; the parent's code must not run in this process
            traceback.print_exc()
        finally:
            try:
                with suppress(OSError):
                    sys.stderr.flush()
                _finish_logouts(logouts)
            finally:
                os._exit(code)


def _finish_logouts(seconds: float) -> None:
    """Wait for the threads that close sessions: :func:`os._exit` would cut them off.

    :param seconds: the longest wait, for all of them together.
    """
    until = time.monotonic() + seconds
    for thread in threading.enumerate():
        while thread.name == LOGOUT and thread.is_alive() and time.monotonic() < until:
            thread.join(BEAT)


def _obey(pipe: Connection, fleet: Fleet[int, R]) -> None:
    """Stop the fleet when the parent says so, or when the parent has gone."""
    with suppress(EOFError, OSError):
        pipe.recv()
    fleet.stop()


def runner(
    work: Callable[[T], R],
    limits: PoolBounds,
    processes: int,
    *,
    beat: Callable[[], None],
    stopping: Callable[[], None],
    stopped: Callable[[], None],
    in_hub: bool,
) -> Fleet[T, R] | Processes[T, R]:
    """A runner of ``work`` for every target: in this process for one process, else in several.

    :param stopping: makes targets in progress end soon; ``stopped`` reports that the run was stopped.
    """
    if processes > 1:
        return Processes(work, limits, processes, beat=beat, stopping=stopping, stopped=stopped, in_hub=in_hub)

    def stop() -> None:
        stopped()
        stopping()

    return Fleet(work, limits, beat=beat, stopping=stop, in_hub=in_hub)


__all__ = ['Processes', 'runner', 'shared']
