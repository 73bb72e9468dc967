# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The work queue does everything once, in order, by as many workers as allowed, and ends."""

import threading

import pytest

from baremetal_acc.bmc.redfish.concurrency import Pace
from baremetal_acc.bmc.redfish.work_queue import WorkQueue


def test_alone_it_works_by_rank_and_then_in_order() -> None:
    """In the caller's own thread."""
    agenda = WorkQueue(Pace(ceiling=1))
    done: list[tuple[str, int]] = []
    for rank, name in ((2, 'c'), (1, 'a'), (1, 'b')):
        agenda.add(rank, lambda name=name: done.append((name, threading.get_ident())))  # type: ignore[misc]
    agenda.run()
    assert [('a', threading.get_ident()), ('b', threading.get_ident()), ('c', threading.get_ident())] == done


@pytest.mark.parametrize('limit', [1, 2, 4])
def test_what_jobs_add_is_done_too_and_never_more_at_a_time_than_allowed(limit: int) -> None:
    """A tree of 400 jobs."""
    agenda = WorkQueue(Pace(ceiling=limit))
    lock = threading.Lock()
    at_once = peak = done = 0

    def job(depth: int) -> None:
        nonlocal at_once, peak, done
        with lock:
            at_once += 1
            peak = max(peak, at_once)
        if depth:
            for _ in range(3):
                agenda.add(depth, lambda: job(depth - 1))
        with lock:
            at_once -= 1
            done += 1

    agenda.add(0, lambda: job(5))
    agenda.run()
    assert sum(3**n for n in range(6)) == done
    assert peak <= limit


def test_several_work_at_a_time_where_they_may() -> None:
    """Each of four waits for the three others."""
    agenda = WorkQueue(Pace(ceiling=4))
    together = threading.Barrier(4, timeout=10)
    for _ in range(4):
        agenda.add(0, lambda: together.wait() and None)
    agenda.run()
    assert not together.broken


@pytest.mark.parametrize('limit', [1, 4])
def test_what_a_job_raises_ends_the_run(limit: int) -> None:
    """And the agenda can be used again."""
    agenda = WorkQueue(Pace(ceiling=limit))
    done: list[int] = []

    def broken() -> None:
        raise ValueError('broken')

    agenda.add(0, broken)
    with pytest.raises(ValueError, match='broken'):
        agenda.run()
    agenda.add(0, lambda: done.append(1))
    agenda.run()
    assert [1] == done


def test_a_thread_that_the_system_does_not_give_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of processes is reached: those that there are do all of it."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    agenda = WorkQueue(Pace(ceiling=4))
    done: list[int] = []
    for number in range(9):
        agenda.add(0, lambda number=number: done.append(number))  # type: ignore[misc]
    monkeypatch.setattr(threading.Thread, 'start', refuse)
    agenda.run()
    assert list(range(9)) == done
