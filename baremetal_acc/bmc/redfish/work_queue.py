# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Work queue for Redfish reads: runs jobs by rank, with as many threads as the BMC's concurrency limit allows.

A job may add further jobs while the queue runs, as the answer to one request decides what is read next.
"""

import heapq
import threading
from collections.abc import Callable

from baremetal_acc.bmc.redfish.concurrency import Pace


class WorkQueue:
    """Work queue: runs the job of the lowest rank first, jobs of one rank in the order added, with the pace's concurrency.

    With a limit of one, all jobs run in the caller's thread. Jobs may be added from several threads.
    """

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._jobs: list[tuple[int, int, Callable[[], None]]] = []
        self._changed = threading.Condition()
        self._added = self._active = self._workers = 0
        self._failure: BaseException | None = None

    def add(self, rank: int, job: Callable[[], None]) -> None:
        """Queue a job. A running job may add others.

        :param rank: lower ranks run first.
        """
        with self._changed:
            self._added += 1
            heapq.heappush(self._jobs, (rank, self._added, job))
            if self._workers:  # without helpers, no other thread can be waiting
                self._changed.notify()

    @property
    def waiting(self) -> bool:
        """Whether a job is queued that no thread has begun."""
        return bool(self._jobs)

    def run(self) -> None:
        """Run all queued jobs, and those that they add, until none is left.

        :raises BaseException: the first exception that a job raised; jobs not begun by then are dropped.
        """
        try:
            self._work()
            with self._changed:
                while self._workers:
                    self._changed.wait()
        except BaseException:
            with self._changed:
                self._jobs.clear()
            raise
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _work(self, *, helper: bool = False) -> None:
        """Run jobs until none is queued, and none is running that could add one. Starts helper threads as needed."""
        try:
            while (job := self._next()) is not None:
                try:
                    job()
                except BaseException as exc:  # noqa: BLE001 - run() raises it, in the thread that waits
                    with self._changed:
                        self._failure = self._failure or exc
                        self._jobs.clear()
                finally:
                    with self._changed:
                        self._active -= 1
                        if self._workers:
                            self._changed.notify_all()
        finally:
            if helper:
                with self._changed:
                    self._workers -= 1
                    self._changed.notify_all()

    def _next(self) -> Callable[[], None] | None:
        with self._changed:
            while True:
                if self._jobs and self._active < self._pace.limit:
                    self._active += 1
                    job = heapq.heappop(self._jobs)[2]
                    self._call_in_a_helper()
                    return job
                if not self._jobs and not self._active:
                    return None
                self._changed.wait()

    def _call_in_a_helper(self) -> None:
        """Start one more thread if a job is queued, all threads are busy and the pace allows one more."""
        threads = self._workers + 1
        if self._jobs and threads == self._active and threads < self._pace.limit:
            self._workers += 1
            try:
                threading.Thread(target=self._work, kwargs={'helper': True}, name='redfish', daemon=True).start()
            except RuntimeError:
                self._workers -= 1  # the system allows no more threads: the existing ones continue
