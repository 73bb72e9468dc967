# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""In what order, and how many at a time, is work done that grows while it is done?"""

import heapq
import threading
from collections.abc import Callable

from baremetal_acc.bmc.redfish.habits import Pace


class Agenda:
    """Jobs, the lowest rank first, then in the order in which they came; as many at a time as the pace allows.

    With one at a time there is no other thread than the caller's. Safe to add to from several threads.
    """

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._jobs: list[tuple[int, int, Callable[[], None]]] = []
        self._changed = threading.Condition()
        self._added = self._active = self._workers = 0
        self._failure: BaseException | None = None

    def add(self, rank: int, job: Callable[[], None]) -> None:
        """Do it when its turn comes. A job may add others."""
        with self._changed:
            self._added += 1
            heapq.heappush(self._jobs, (rank, self._added, job))
            if self._workers:  # else nobody can be waiting but who adds
                self._changed.notify()

    @property
    def waiting(self) -> bool:
        """There is something that nobody has begun."""
        return bool(self._jobs)

    def run(self) -> None:
        """Do all there is, and all that comes of it.

        :raises BaseException: the first that a job raised; what was not begun by then is dropped.
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
        """Do jobs until there are none, and none can come any more. Calls in helpers while there are more."""
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
        """One thread more, where there is more to do, nobody free to do it, and the pace allows it."""
        threads = self._workers + 1
        if self._jobs and threads == self._active and threads < self._pace.limit:
            self._workers += 1
            try:
                threading.Thread(target=self._work, kwargs={'helper': True}, name='redfish', daemon=True).start()
            except RuntimeError:
                self._workers -= 1  # the system gives us no more: those that there are go on
