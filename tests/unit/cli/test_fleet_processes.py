# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Several processes share the targets of a run; none is left, whoever ends first."""

import inspect
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import pytest

from baremetal_acc import errors
from baremetal_acc.cli.worker_pool import PoolBounds
from baremetal_acc.cli.worker_processes import Processes, shared
from baremetal_acc.errors import AccError, BmcUnreachable

LIMITS = PoolBounds(at_once=8, most=8, each=1)


def is_there(pid: int) -> bool:
    """A process runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def gone(pids: set[int]) -> bool:
    """All of them have ended, within some seconds."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if not any(map(is_there, pids)):
            return True
        time.sleep(0.05)
    return False


def test_each_target_is_worked_on_once_in_one_of_the_processes():
    """By two that are not ours, and that are gone afterwards."""
    running = Processes(lambda number: (number * 10, os.getpid()), LIMITS, 2)
    found = dict(running.results(range(9)))
    assert {number: number * 10 for number in range(9)} == {number: result for number, (result, _) in found.items()}
    pids = {pid for _, pid in found.values()}
    assert (2, False) == (len(pids), os.getpid() in pids)
    assert gone(pids)
    assert () == running.left_behind


@pytest.mark.parametrize('count', [1, 2, 3, 5])
def test_the_processes_together_have_no_more_in_progress_than_one_would(count):
    """And each has something."""
    limits = [shared(LIMITS, count, number) for number in range(count)]
    assert (8, 8) == (sum(one.at_once for one in limits), sum(one.most for one in limits))
    assert min(one.at_once for one in limits) >= 1
    few = Processes(lambda _: os.getpid(), PoolBounds(at_once=1, most=1, each=1), count)
    assert 1 == len({pid for _, pid in few.results(range(4))})


def test_an_error_of_the_work_itself_ends_the_run_as_it_is():
    """With its own class, words and facts."""

    def work(number: int) -> int:
        if number == 3:
            raise BmcUnreachable(bmc='host (https://bmc)', what='no answer', sent=False)
        return number

    with pytest.raises(BmcUnreachable, match='no answer') as caught:
        list(Processes(work, LIMITS, 2).results(range(8)))
    assert ('host (https://bmc)', False) == (caught.value.bmc, caught.value.sent)


@pytest.mark.parametrize('how', ['exits', 'is killed'])
def test_a_process_that_ends_early_is_said(how, capfd):
    """Nothing is taken for read that it had; the others end with it."""

    def work(number: int) -> int:
        if number == 2:
            os._exit(7) if how == 'exits' else os.kill(os.getpid(), signal.SIGKILL)
        return number

    end = 'ended with code 7' if how == 'exits' else 'ended by signal 9'
    with pytest.raises(AccError, match=end) as caught:
        list(Processes(work, PoolBounds(at_once=2, most=2, each=1), 2).results(range(8)))
    assert 'fleet_processes = 1' in str(caught.value)


def test_a_defect_ends_the_run_and_is_shown(capfd):
    """Its traceback is that of the process in which it is."""

    def work(number: int) -> int:
        return 1 // number

    with pytest.raises(AccError, match='ended with code 1'):
        list(Processes(work, LIMITS, 2).results(range(4)))
    assert 'ZeroDivisionError' in capfd.readouterr().err


def test_a_stopped_run_begins_no_more_and_leaves_behind_what_does_not_end():
    """What ends within the grace comes; each process is told, and ends."""
    told: list[str] = []

    def work(number: int) -> int:
        if number == 0:
            threading.Event().wait(600)
        time.sleep(0.3)
        return os.getpid()

    limits = PoolBounds(at_once=2, most=2, each=1)
    running = Processes(work, limits, 2, grace=1.0, stopped=lambda: told.append('stopped'))
    pids = set()
    for _, pid in running.results(range(100)):
        pids.add(pid)
        running.stop()
    assert ['stopped'] == told
    assert (0,) == running.left_behind
    assert 1 <= len(pids) <= 2
    assert gone(pids)


def test_who_takes_no_more_ends_them():
    """As where nobody reads the output any more."""
    results = Processes(lambda _: (time.sleep(0.05), os.getpid())[1], LIMITS, 2).results(range(1000))
    pids = {next(results)[1] for _ in range(6)}
    results.close()
    assert gone(pids)


ALONE = """
import os, sys, time
from baremetal_acc.cli.worker_pool import PoolBounds
from baremetal_acc.cli.worker_processes import Processes
def work(number):
    time.sleep(0.1)
    return os.getpid()
for _, pid in Processes(work, PoolBounds(at_once=4, most=4, each=1), 2, grace=1.0).results(range(10000)):
    print(pid, flush=True)
"""


def test_no_process_outlives_the_one_that_started_it():
    """Not even where that was killed."""
    with subprocess.Popen([sys.executable, '-c', ALONE], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pids = {int(process.stdout.readline()) for _ in range(20)}
        process.kill()
    assert 2 == len(pids)
    assert gone(pids)


def test_errors_are_the_same_in_another_process():
    """Every one of them that can be made from these."""
    given = {
        'message': 'm',
        'bmc': 'host',
        'what': 'it is so',
        'argument': '--x',
        'path': '/p',
        'target': 'node-1',
        'reason': 'why',
        'name': 'n',
        'names': ('n',),
    }
    made = []
    for kind in vars(errors).values():
        if not (inspect.isclass(kind) and issubclass(kind, AccError)):
            continue
        wanted = [
            p for p in inspect.signature(kind).parameters.values() if p.default is p.empty and p.kind is not p.VAR_KEYWORD
        ]
        if all(p.name in given for p in wanted):
            positional = [given[p.name] for p in wanted if p.kind is p.POSITIONAL_OR_KEYWORD]
            named = {p.name: given[p.name] for p in wanted if p.kind is p.KEYWORD_ONLY}
            made.append(kind(*positional, **named))
    assert len(made) > 10
    for error in made:
        other = pickle.loads(pickle.dumps(error))
        assert (type(error), str(error), error.args, vars(error)) == (type(other), str(other), other.args, vars(other))
