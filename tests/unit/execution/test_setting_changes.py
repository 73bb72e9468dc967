# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Changes of locks that a BMC accepts and carries out later, and changes that it rejects."""

import itertools
from dataclasses import replace
from datetime import timedelta

import pytest

from baremetal_acc.bmc.driver import Accepted
from baremetal_acc.errors import BmcAnswerInvalid, BmcConflict, BmcRefusalReason, BmcRefused, BmcUnreachable
from baremetal_acc.execution import locking, observe
from baremetal_acc.execution.step_context import StepContext
from baremetal_acc.model.action import Engage, Release
from baremetal_acc.model.custody import Access, Cover, Origin
from baremetal_acc.model.inventory import TaskReading, TaskState
from baremetal_acc.model.job import Done, Failed, Flow
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.model.ref import HOST, BmcName, Ref
from baremetal_acc.planning import custody
from baremetal_acc.planning.plan import Part
from tests.unit.execution.bench import Bench, Connection, Machine, Mechanism, Reader
from tests.unit.planning import values as v

LOCK = frozenset({Part.LOCK})
MONITOR = Ref(bmc=HOST, uri='/redfish/v1/TaskService/TaskMonitors/p')


class LaterLock(Mechanism):
    """A lock whose change is accepted, and carried out when so many seconds have passed.

    :ivar task_ends: how its task ends; None where the BMC names none.
    :ivar task_takes: seconds until its task ends, or is gone.
    """

    def __init__(self, bench, seconds, task_ends=TaskState.SUCCEEDED, task_takes=None, said=True):
        super().__init__(bench.machine)
        self.said = said
        self.bench, self.seconds, self.task_ends = bench, seconds, task_ends
        self.task_takes = seconds if task_takes is None else task_takes
        self.due, self.wanted, self.begun, self.refused = None, None, None, 0

    def read(self, accelerator, readers, now):
        self._settle()
        return super().read(accelerator, readers, now)

    def _settle(self):
        if self.due is not None and self.bench.now >= self.due:
            self.machine.closed, self.due = self.wanted, None

    def _accept(self, writer, closed):
        self._settle()
        if self.due is not None:
            self.refused += 1
            raise BmcRefused(bmc='host', what='a task is being processed', reason=BmcRefusalReason.INVALID_REQUEST)
        self.begun, self.wanted = self.bench.now, closed
        self.due = self.bench.now + timedelta(seconds=self.seconds)
        writer.accepted.append(Accepted(ref=MONITOR, task=None if self.task_ends is None else MONITOR, said=self.said))

    def engage(self, writer, reading):
        self.machine.log.append('engage')
        self._accept(writer, True)

    def release(self, writer, reading):
        self.machine.log.append('release')
        self._accept(writer, False)

    def task(self, ref):
        if self.bench.now - self.begun < timedelta(seconds=self.task_takes):
            return TaskReading(ref=ref, state=TaskState.ACTIVE, raw='HTTP 202', opaque=True)
        return TaskReading(ref=ref, state=self.task_ends, raw='ended', message='as the BMC says', opaque=True)


def later(seconds, machine=None, **how):
    """A bench whose lock is changed later."""
    bench = Bench(machine=machine or Machine(version=v.NEW))
    lock = LaterLock(bench, seconds, **how)

    class Connected(Connection):
        def writer(self):
            found = Reader(self.session)
            found.accepted, found.unconditional = [], []
            return found

        def task(self, ref):
            return lock.task(ref) if ref == MONITOR else super().task(ref)

    bench.tools = replace(bench.tools, mechanisms=(lock,), connect=lambda address: Connected(bench.machine))
    return bench, lock


def locks(job):
    return [i.state for i in job.items if isinstance(i.action, Engage | Release)]


@pytest.mark.parametrize('how', [{}, {'task_ends': TaskState.GONE, 'task_takes': 0}, {'task_ends': None}])
def test_a_lock_counts_as_closed_when_it_shows_that_and_is_written_once(how):
    """By its task, by a monitor that is gone at once, and without any task."""
    bench, lock = later(40, **how)
    _, outcome = bench.run(bench.job(parts=LOCK))
    assert isinstance(outcome, Done)
    assert 1 == bench.machine.log.count('engage')
    assert 0 == lock.refused


@pytest.mark.parametrize('needs', [ResetKind.POWER_CYCLE, ResetKind.NONE])
def test_what_is_not_shown_before_its_reset_is_not_waited_for(needs):
    """Where the BMC does not say that it carries the change out later: what needs a reset may be shown only after it."""
    bench, _ = later(10_000, Machine(version=v.NEW, lock_needs=needs), task_ends=None, said=False)
    job = bench.job(parts=LOCK)
    while locks(job) == [ItemState.PLANNED]:
        job, _ = bench.turn(job)
    assert [ItemState.RUNNING if needs is ResetKind.NONE else ItemState.DONE] == locks(job)


def test_a_task_is_followed_for_longer_than_a_device_may_take_to_settle():
    """The time to settle begins when the task has ended."""
    bench, _ = later(200)
    _, outcome = bench.run(bench.job(parts=LOCK))
    assert isinstance(outcome, Done)
    assert 1 == bench.machine.log.count('engage')


def test_what_is_never_carried_out_fails_with_that_reason():
    """The task ends well, and the lock stays open for longer than anything takes to show itself."""
    bench, _ = later(10_000, task_takes=10)
    job, outcome = bench.run(bench.job(parts=LOCK))
    assert isinstance(outcome, Failed)
    assert [ItemState.FAILED] == locks(job)
    assert ['the BMC accepted the change, but the lock is unlocked after 0:01:00'] == [i.message for i in job.items]
    assert 1 == bench.machine.log.count('engage')


def test_a_task_that_fails_says_why():
    """Nothing is sent again."""
    bench, _ = later(10_000, task_ends=TaskState.FAILED, task_takes=10)
    job, outcome = bench.run(bench.job(parts=LOCK))
    assert isinstance(outcome, Failed)
    assert ['the BMC says that the change failed (as the BMC says)'] == [
        i.message for i in job.items if isinstance(i.action, Engage)
    ]
    assert 1 == bench.machine.log.count('engage')


def test_nothing_is_written_before_the_lock_is_open():
    """The image is sent when the lock shows that it is open, and not when the BMC has accepted that."""
    bench, lock = later(30, machine=Machine(protects_all=True, closed=True))
    _, outcome = bench.run(bench.job(hold=True))
    assert isinstance(outcome, Done)
    pushes = [line for line in bench.machine.log if line.startswith('push')]
    assert [f'push {bench.image.name} off open'] == pushes
    assert ['release', pushes[0], 'engage'] == [
        line for line in bench.machine.log if line in ('release', 'engage') or line.startswith('push')
    ]
    assert 0 == lock.refused


def test_a_lock_that_is_closed_again_later_keeps_the_card_closed_meanwhile():
    """It was proven closed, and is read before the reset that proves this engaging, beside a running host."""
    bench, _ = later(30, machine=Machine(version=v.NEW, lock_needs=ResetKind.POWER_CYCLE))
    job, outcome = bench.run(bench.job(parts=LOCK))
    assert isinstance(outcome, Done)
    kept = job.custody
    assert (Access.CLOSED, True) == (kept.of(v.GPU).seen.access, kept.of(v.GPU).seen.proven)
    kept = custody.begun(kept, v.GPU, Origin.ACCEPTED, bench.now, by=('ada',))
    again, outcome = bench.run(replace(bench.job(parts=LOCK, flow=Flow.DEPLOY), custody=kept))
    assert isinstance(outcome, Done)
    assert 2 == bench.machine.log.count('engage')
    chain = again.custody.of(v.GPU).chain
    assert (None, {Cover.LOCKED}) == (chain.broken, {i.cover for i in chain.intervals})
    assert chain.reaches > kept.of(v.GPU).seen.at


def test_what_was_rejected_while_another_lock_was_changed_is_tried_anew():
    """The BMC was busy with that one. What another BMC has rejected, and what has ended, is left as it is."""
    bench, _ = later(0)
    job = bench.job(parts=LOCK)
    (own,) = job.items
    elsewhere = replace(own.action, ref=replace(own.action.ref, bmc=BmcName('dpu')))
    refused = replace(own, rejected=3, again=bench.now + timedelta(minutes=2), since=bench.now)
    items = (own, refused, replace(refused, action=elsewhere), replace(refused, state=ItemState.FAILED))
    now = bench.now + timedelta(minutes=4)
    at = StepContext(
        job=replace(job, items=items),
        position=0,
        target=bench.target,
        tools=bench.tools,
        bmcs={HOST: bench.tools.connect(bench.target.bmcs[0])},
        inventory=observe(bench.target, bench.tools, now),
        now=now,
    )
    job = locking.engage(at, own.action)
    assert (0, None, now) == (job.items[1].rejected, job.items[1].again, job.items[1].since)
    assert items[2:] == job.items[2:]


def test_a_release_that_is_never_carried_out_ends_the_job_before_anything_is_written():
    """And the lock is not touched again but to close it."""
    bench, _ = later(10_000, machine=Machine(protects_all=True, closed=True), task_takes=10)
    _, outcome = bench.run(bench.job(hold=True))
    assert isinstance(outcome, Failed)
    assert any('the BMC accepted the change, but the lock is locked' in reason for reason in outcome.reasons)
    assert not any(line.startswith('push') for line in bench.machine.log)


@pytest.mark.parametrize('task_ends', [TaskState.SUCCEEDED, None])
def test_a_job_ends_though_its_bmc_is_never_heard_of_again(task_ends):
    """It has accepted the change and answers nothing from then on: past the deadline the lock is not waited for."""
    bench, lock = later(40, task_ends=task_ends)
    connect = bench.tools.connect

    def silent_then(address):
        if lock.begun is not None and bench.now > lock.begun:
            raise BmcUnreachable(bmc='host', what='no answer')
        return connect(address)

    bench.tools = replace(bench.tools, connect=silent_then)
    _, outcome = bench.run(bench.job(parts=LOCK), ticks=3000)
    assert isinstance(outcome, Failed)
    assert bench.now - v.NOW < timedelta(hours=2)


@pytest.mark.parametrize(
    'error',
    [BmcRefused(bmc='host', what='no', reason=BmcRefusalReason.INVALID_REQUEST), BmcConflict(bmc='host', what='changed')],
)
def test_a_rejected_change_is_sent_again_after_twice_as_long_each_time(error):
    """And not at every poll: 5 s, 10 s, 20 s and so on, for as long as a BMC may take to come to itself."""
    sent = []

    class Refuses(Mechanism):
        def engage(self, writer, reading):
            sent.append(bench.now)
            raise error

    bench = Bench(machine=Machine(version=v.NEW))
    bench.tools = replace(bench.tools, mechanisms=(Refuses(bench.machine),))
    _, outcome = bench.run(bench.job(parts=LOCK))
    assert isinstance(outcome, Failed)
    waited = [(b - a).total_seconds() for a, b in itertools.pairwise(sent)]
    assert 6 == len(waited)
    assert all(5 * 2**n <= seconds <= 5 * 2**n + 6 for n, seconds in enumerate(waited)), waited


BROKEN = [
    BmcRefused(bmc='host', what='internal error', reason=BmcRefusalReason.INTERNAL_ERROR),
    BmcUnreachable(bmc='host', what='no answer'),
    BmcAnswerInvalid(bmc='host', what='is no JSON'),
]


def broken(error, does=True, machine=None, times=1):
    """A bench whose lock is changed, or not, and whose BMC answers that with an error."""
    bench = Bench(machine=machine or Machine(version=v.NEW))

    class Breaks(Mechanism):
        left = times

        def _change(self, what, closed):
            self.machine.log.append(what)
            if does:
                self.machine.closed = closed
            if self.left:
                self.left -= 1
                raise error
            self.machine.closed = closed

        def engage(self, writer, reading):
            self._change('engage', True)

        def release(self, writer, reading):
            self._change('release', False)

    bench.tools = replace(bench.tools, mechanisms=(Breaks(bench.machine),))
    return bench


@pytest.mark.parametrize('error', BROKEN)
def test_a_lock_that_is_closed_though_its_change_was_answered_with_an_error_is_not_written_again(error):
    """It is read, shows what it did not before, and is evidence like any other that we have engaged."""
    bench = broken(error)
    _, outcome = bench.run(bench.job(parts=LOCK))
    assert isinstance(outcome, Done), outcome
    assert 1 == bench.machine.log.count('engage')


@pytest.mark.parametrize('error', BROKEN)
def test_a_lock_that_stays_open_is_written_again(error):
    """Once it was read."""
    bench = broken(error, does=False)
    _, outcome = bench.run(bench.job(parts=LOCK))
    assert isinstance(outcome, Done), outcome
    assert 2 == bench.machine.log.count('engage')


def test_a_lock_that_was_closed_before_proves_nothing_after_an_error():
    """It is written until the BMC takes it."""
    bench = broken(BROKEN[0], machine=Machine(version=v.NEW, closed=True))
    _, outcome = bench.run(bench.job(parts=LOCK))
    assert isinstance(outcome, Done), outcome
    assert 2 == bench.machine.log.count('engage')


@pytest.mark.parametrize('error', BROKEN)
def test_a_lock_that_is_open_though_its_change_was_answered_with_an_error_is_written_through(error):
    """It is released once, and closed again in the end."""
    bench = broken(error, machine=Machine(protects_all=True, closed=True))
    _, outcome = bench.run(bench.job(hold=True))
    assert isinstance(outcome, Done), outcome
    assert ['release', 'engage'] == [line for line in bench.machine.log if line in ('release', 'engage')]


def test_a_lock_that_never_opens_ends_the_job():
    """After a bounded number of attempts, and nothing is written."""
    bench = broken(BROKEN[0], does=False, machine=Machine(protects_all=True, closed=True), times=1000)
    _, outcome = bench.run(bench.job(hold=True))
    assert isinstance(outcome, Failed)
    assert 2 == bench.machine.log.count('release')
    assert not any(line.startswith('push') for line in bench.machine.log)
