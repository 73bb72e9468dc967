# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A fleet: bounded, in the order of completion, held up by nobody, and stopped when it is told to."""

import gc
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator

import pytest

from baremetal_acc import wait
from baremetal_acc.bmc.driver import BmcAddress
from baremetal_acc.cli import worker_pool
from baremetal_acc.cli.worker_pool import Connections, Fleet, PoolBounds, Width
from baremetal_acc.errors import BmcUnreachable


class Work:
    """What is done for a target: it waits until the test lets it go, and counts what is in progress."""

    def __init__(self, *held: int) -> None:
        self.gates = {number: threading.Event() for number in held}
        self.running: set[int] = set()
        self.begun: list[int] = []
        self.peak = 0
        self.lock = threading.Lock()

    def __call__(self, number: int) -> int:
        with self.lock:
            self.begun.append(number)
            self.running.add(number)
            self.peak = max(self.peak, len(self.running))
        if number in self.gates:
            self.gates[number].wait(60)
        with self.lock:
            self.running.discard(number)
        return number * 10

    def release(self) -> None:
        """Let everything end."""
        for gate in self.gates.values():
            gate.set()


@pytest.fixture
def clock() -> Iterator[list[float]]:
    """A clock of idle seconds that the test sets."""
    return [0.0]


def limits(at_once: int, most: int) -> PoolBounds:
    return PoolBounds(at_once=at_once, most=most, each=1, patience=5)


def test_no_more_than_the_bound_is_in_progress():
    """Twenty targets, three at a time; each has its own result."""
    work = Work()
    assert {n: n * 10 for n in range(20)} == dict(Fleet(work, limits(3, 12)).results(range(20)))
    assert work.peak <= 3


def test_results_come_in_the_order_in_which_targets_end():
    """The first one ends last, and its result comes last."""
    work = Work(0)
    results = Fleet(work, limits(2, 2)).results(range(4))
    assert [1, 2, 3] == [next(results)[0] for _ in range(3)]
    work.release()
    assert [(0, 0)] == list(results)


def test_targets_that_only_wait_leave_their_places_to_others(clock):
    """Three that hang fill a bound of three; when that has cost five idle seconds they count no more."""
    work = Work(0, 1, 2)
    seen = Fleet(work, limits(3, 5), clock=lambda: clock[0], beat=lambda: clock.__setitem__(0, 5.5))
    results = seen.results(range(9))
    assert [3, 4, 5, 6, 7, 8] == sorted(next(results)[0] for _ in range(6))
    assert work.peak <= 5, 'the second bound holds for all'
    assert (0, 1, 2) == seen.left_behind
    work.release()
    assert [0, 1, 2] == sorted(number for number, _ in results)


def test_targets_keep_their_places_while_there_is_work_to_do(clock):
    """However long they take by the wall: without idle time a further target would only make all of them slower."""
    work = Work(0, 1)
    beats: list[int] = []

    def beat() -> None:
        beats.append(len(work.begun))
        work.release()

    results = Fleet(work, limits(2, 8), clock=lambda: clock[0], beat=beat).results(range(4))
    assert 4 == len(list(results))
    assert [2] == beats


def test_what_was_taken_is_not_kept():
    """A stream of a million targets takes no more memory than those in progress."""

    class Result:
        """Can be referred to weakly."""

    results = Fleet(lambda number: Result(), limits(2, 2)).results(range(50))
    earlier: list[weakref.ref[Result]] = []
    for _, result in results:
        earlier.append(weakref.ref(result))
        del result
        gc.collect()
        assert 0 == sum(ref() is not None for ref in earlier[:-1])
    assert 50 == len(earlier)


def test_nothing_is_begun_while_a_result_waits_to_be_taken():
    """Who takes results slowly, as a full pipe does, is not run over."""
    work = Work()
    results = Fleet(work, limits(2, 2)).results(range(50))
    next(results)
    assert len(work.begun) <= 3
    results.close()


def test_targets_are_asked_for_one_after_another():
    """A list without end is no problem."""
    asked: list[int] = []

    def endless() -> Iterator[int]:
        while True:
            asked.append(len(asked))
            yield asked[-1]

    results = Fleet(Work(), limits(2, 2)).results(endless())
    next(results)
    assert len(asked) <= 4
    results.close()


def test_an_error_of_the_work_itself_ends_the_run():
    """What concerns one target only is a result; anything else is a defect, and is seen."""

    def work(number: int) -> int:
        raise ZeroDivisionError(number)

    with pytest.raises(ZeroDivisionError):
        list(Fleet(work, limits(2, 2)).results(range(3)))


def test_a_stopped_run_begins_no_more_and_waits_for_those_that_end():
    """Those in progress are told to stop, their results still come, and what does not end in time is left behind."""
    work = Work(0, 1)
    told: list[str] = []

    def stopping() -> None:
        told.append('stop')
        work.gates[0].set()

    running = Fleet(work, limits(3, 3), stopping=stopping, grace=0.5)
    results = running.results(range(9))
    assert 2 == next(results)[0]
    running.stop()
    ended = [number for number, _ in results]
    assert ['stop'] == told
    assert 0 in ended
    assert set(work.begun) == {*ended, 1, 2}
    assert (1,) == running.left_behind
    work.release()


@pytest.mark.parametrize(
    ('targets', 'bmcs', 'at_once', 'each', 'files', 'expected'),
    [
        (1, 1, 256, 4, 1024, (1, 1, 4)),
        (8, 2, 256, 4, 1024, (8, 8, 4)),
        (64, 1, 256, 4, 1024, (64, 64, 4)),
        (128, 1, 256, 4, 1024, (128, 128, 2)),
        (1000, 1, 256, 4, 4096, (256, 1000, 1)),
        (5000, 1, 256, 4, 4096, (256, 1024, 1)),
        (5000, 1, 256, 4, 1024, (256, 960, 1)),
        (5000, 2, 256, 4, 256, (96, 96, 1)),
        (5000, 4, 256, 4, 20, (1, 1, 1)),
        (10, 1, 1, 4, 1024, (1, 4, 1)),
    ],
)
def test_the_bounds_follow_from_targets_and_open_files(targets, bmcs, at_once, each, files, expected):
    """Many targets: one request at a time to each; never more connections than files may be open."""
    found = worker_pool.bounds(targets, bmcs, at_once=at_once, each=each, files=files)
    assert expected == (found.at_once, found.most, found.each)


def test_the_width_grows_while_the_process_has_time():
    """From a first few to the bound within two seconds, where BMCs are slow and we only wait."""
    width = Width(256, 0.0, 0.0)
    seen = [width.targets]
    for step in range(1, 8):
        width.look(step * worker_pool.BEAT, 0.0)
        seen.append(width.targets)
    assert [32, 49, 74, 112, 169, 254, 256, 256] == seen


def test_the_width_stays_where_the_process_is_busy():
    """More would bring nothing; between two looks nothing changes either."""
    width = Width(256, 0.0, 0.0)
    width.look(worker_pool.BEAT, worker_pool.BEAT * 0.9)
    assert 32 == width.targets
    width.look(worker_pool.BEAT * 1.5, worker_pool.BEAT * 0.9)
    assert 32 == width.targets


def test_the_width_shrinks_when_threads_stand_in_line():
    """Also where other processes have the CPU, so that ours is not busy; never to nothing, and it recovers."""
    width = Width(256, 0.0, 0.0)
    for step in range(1, 9):
        width.look(step * worker_pool.BEAT, 0.0)
    seen = []
    for step in range(9, 21):
        width.came_late(worker_pool.LATE * 2)
        width.came_late(0.0)
        width.look(step * worker_pool.BEAT, 0.0)
        seen.append(width.targets)
    assert [192, 144, 108] == seen[:3]
    assert 16 == seen[-1]
    width.look(21 * worker_pool.BEAT, 0.0)
    assert 25 == width.targets
    narrow = Width(3, 0.0, 0.0)
    narrow.came_late(1.0)
    narrow.look(worker_pool.BEAT, 0.0)
    assert 3 == narrow.targets


@pytest.mark.parametrize(
    ('pause', 'grows'),
    [
        pytest.param(wait.sleep, True, id='they wait for their BMCs'),
        pytest.param(time.sleep, False, id='others have the CPU'),
    ],
)
def test_a_hub_takes_more_targets_only_where_it_has_nothing_to_do(monkeypatch, pause, grows):
    """Where others had the CPU, a process that used little of it began all targets, and took three times the memory."""
    monkeypatch.setattr(worker_pool, 'IN_HUB', 4)
    running, most = 0, 0

    def work(number: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        wait.sleep(0.0)
        pause(0.1 if grows else 0.01)
        running -= 1

    assert 100 == len(list(Fleet(work, limits(100, 100), in_hub=True).results(range(100))))
    assert grows == (most > 4)


def test_the_interpreter_is_as_before_afterwards():
    """Its settings belong to the whole process, also when nobody takes the last result."""
    before = sys.getswitchinterval(), gc.get_threshold()
    inside = [(sys.getswitchinterval(), gc.get_threshold()) for _ in Fleet(Work(), limits(2, 2)).results(range(2))]
    assert [(worker_pool.SWITCH, worker_pool.GARBAGE)] * 2 == inside
    assert before == (sys.getswitchinterval(), gc.get_threshold())
    results = Fleet(Work(), limits(2, 2)).results(range(3))
    next(results)
    results.close()
    assert before == (sys.getswitchinterval(), gc.get_threshold())


LIMITED = """
import resource
from baremetal_acc.cli import worker_pool
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 300))
found = worker_pool.bounds(1000, 2, at_once=256, each=4)
print(found.at_once, found.most, *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_the_limit_of_open_files_is_raised_as_far_as_it_may_be():
    """Two connections for each target, and 64 files for ourselves: 300 are enough for 118 targets."""
    told = subprocess.run([sys.executable, '-c', LIMITED], capture_output=True, text=True, check=True)
    assert '118 118 300 300\n' == told.stdout


class Bmc:
    """A connection that can be stopped."""

    def __init__(self) -> None:
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True


ADDRESS = BmcAddress(name='host', address='https://192.0.2.1')


def test_connections_that_are_open_are_told_to_stop():
    """One that was let go is not kept alive for that, and after it none is opened."""
    made: list[Bmc] = []
    connections = Connections(lambda address: made.append(Bmc()) or made[-1])
    first, second = connections(ADDRESS), connections(ADDRESS)
    gone = weakref.ref(made.pop())
    del second
    gc.collect()
    assert gone() is None
    connections.stop()
    assert first.stopped
    with pytest.raises(BmcUnreachable, match='the run was stopped'):
        connections(ADDRESS)


def test_a_connection_that_opens_while_the_run_stops_is_stopped_too():
    """It was under way when nobody knew of it."""
    connections = Connections(lambda address: (connections.stop(), Bmc())[1])
    assert connections(ADDRESS).stopped


def test_the_first_ctrl_c_stops_and_the_second_interrupts():
    """The first cuts no line in two; the second is for those who cannot wait. Afterwards everything is as it was."""
    before = signal.getsignal(signal.SIGINT)
    stops: list[str] = []
    with worker_pool.interrupted_by_ctrl_c(lambda: stops.append('stop')) as interrupted:
        assert not interrupted.is_set()
        signal.raise_signal(signal.SIGINT)
        assert (['stop'], True) == (stops, interrupted.is_set())
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert before == signal.getsignal(signal.SIGINT)


def test_an_ignored_ctrl_c_stays_ignored():
    """As for a command that a shell has started in the background."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with worker_pool.interrupted_by_ctrl_c(lambda: None) as interrupted:
            signal.raise_signal(signal.SIGINT)
        assert not interrupted.is_set()
    finally:
        signal.signal(signal.SIGINT, before)
