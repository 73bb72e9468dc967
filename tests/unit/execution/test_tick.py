# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A job goes the straight path, ends whatever happens, and leaves nothing open."""

import time
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from baremetal_acc.model.action import Engage, Flash
from baremetal_acc.model.codec import decode
from baremetal_acc.model.inventory import PowerState, TaskState
from baremetal_acc.model.job import Done, Failed, Flow, Job, Wait
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.model.lock import LockState, ResetKind
from baremetal_acc.planning.plan import Part
from tests.unit.execution.bench import Bench, Machine, restorable
from tests.unit.planning import values as v


def finish(**machine):
    bench = Bench(machine=Machine(**machine))
    job, outcome = bench.run(bench.job())
    return bench, job, outcome


def test_the_straight_path():
    """Withdraw, flash, engage, reset, verify, publish; every lock verified, in this order."""
    bench, job, outcome = finish()
    assert isinstance(outcome, Done)
    assert ['withdraw', 'push gpu-new on open', 'engage', 'reset power-cycle', 'publish'] == bench.machine.log
    assert v.NEW == bench.machine.version
    assert [LockState.LOCKED_VERIFIED] == [f.state for f in job.verdict.findings if f.state]


def test_each_session_of_a_turn_ends_with_the_deadline_of_the_job():
    """A BMC that does not answer holds nobody up past it; by the clock of this process, whatever the time of the job is."""
    bench = Bench(machine=Machine())
    connect, late = bench.tools.connect, []
    job = bench.job(timeout=timedelta(hours=10))

    def noting(address):
        left = (job.deadline - bench.now).total_seconds()
        late.append(address.until - time.monotonic() - left)
        return connect(address)

    bench.tools = replace(bench.tools, connect=noting)
    _, outcome = bench.run(job)
    assert isinstance(outcome, Done)
    assert late
    assert all(-60 < seconds <= 0 for seconds in late)


def test_a_held_host_is_off_while_anything_is_open():
    """Off before the release, on after the engagement: the tenant's code never meets an open lock."""
    bench = Bench(machine=Machine(closed=True, protects_all=True))
    _, outcome = bench.run(bench.job(hold=True))
    assert isinstance(outcome, Done)
    expected = ['withdraw', 'power Off', 'release', 'push gpu-new off open', 'engage', 'power On', 'publish']
    assert expected == bench.machine.log


def test_the_intent_is_stored_before_each_write():
    """A shell that dies at any moment finds what it was about to do."""
    bench, _, _ = finish()
    done = set()
    for position, entry in enumerate(bench.machine.log):
        kind = {'push': Flash, 'engage': Engage}.get(entry.partition(' ')[0])
        if kind is None:
            continue
        before = [decode(Job, body) for body, length in bench.saved if length == position]
        item = next(i for i in before[-1].items if isinstance(i.action, kind))
        assert ItemState.SENT is item.state
        done.add(kind)
    assert {Flash, Engage} == done


def test_a_bmc_that_ignores_the_lock_fails_the_job():
    """200 is not success: what is read back decides."""
    bench, _, outcome = finish(lock_ignored=True)
    assert isinstance(outcome, Failed)
    assert any('lock host-device' in r and 'unlocked' in r for r in outcome.reasons)
    assert 'publish' not in bench.machine.log


def test_a_held_host_stays_off_when_the_lock_does_not_hold():
    """The host is not given back to a tenant's code at an open lock."""
    bench = Bench(machine=Machine(lock_ignored=True))
    _, outcome = bench.run(bench.job(hold=True))
    assert isinstance(outcome, Failed)
    assert PowerState.OFF is bench.machine.power
    assert any('the host stays powered off' in r for r in outcome.reasons)


def test_a_lock_lost_by_the_reset_fails_the_job():
    """The last look comes after the reset."""
    _, _, outcome = finish(lock_lost_on_reset=True)
    assert isinstance(outcome, Failed)


def test_a_lock_that_needs_a_reset_is_verified_after_it():
    """Pending until the reset was seen, verified after."""
    bench = Bench(machine=Machine(version=v.NEW, lock_needs=ResetKind.POWER_CYCLE))
    _, outcome = bench.run(bench.job())
    assert isinstance(outcome, Done)
    assert ['engage', 'reset power-cycle', 'publish'] == bench.machine.log


@pytest.mark.parametrize('ends', [TaskState.FAILED, TaskState.GONE])
def test_a_task_that_fails_or_vanishes_fails_the_job_and_everything_is_locked(ends):
    """The version is not there: whatever the task says, it is no success; and the lock is engaged all the same."""
    bench, _, outcome = finish(task_ends=ends)
    assert isinstance(outcome, Failed)
    assert outcome.wrote
    assert bench.machine.closed
    assert 1 == sum(entry.startswith('push') for entry in bench.machine.log)
    assert 'publish' not in bench.machine.log


def test_a_task_that_succeeds_without_the_version_fails_the_job():
    """Completed, and the old version runs."""
    bench = Bench(machine=Machine(reset_needed=True), image=v.image(reset=ResetKind.NONE))
    _, outcome = bench.run(bench.job())
    assert isinstance(outcome, Failed)
    bench = Bench(machine=Machine(arrives=False), image=v.image(reset=ResetKind.NONE))
    bench.machine.task_ends = TaskState.SUCCEEDED
    _, outcome = bench.run(bench.job())
    assert isinstance(outcome, Failed)


def test_an_upload_cut_after_it_arrived_is_found_and_not_sent_again():
    """The connection broke; the device tells whether it arrived."""
    bench, _, outcome = finish(cut_upload=True)
    assert isinstance(outcome, Done)
    assert 1 == sum(entry.startswith('push') for entry in bench.machine.log)


def test_an_upload_that_never_arrived_fails_and_is_not_sent_again():
    """Nobody knows, so nobody repeats it."""
    bench, _, outcome = finish(cut_upload=True, arrives=False)
    assert isinstance(outcome, Failed)
    assert 1 == sum(entry.startswith('push') for entry in bench.machine.log)
    assert any('neither a task nor the new version' in r for r in outcome.reasons)


def test_a_busy_bmc_is_asked_again():
    """It took nothing, so nothing is repeated."""
    _, _, outcome = finish(busy=3)
    assert isinstance(outcome, Done)


def test_a_bmc_that_is_busy_for_ever_is_waited_for_no_longer():
    """Ten minutes here, long before the deadline; nothing has reached the card, so nothing is wrong with it."""
    bench, job, outcome = finish(busy=10_000)
    assert isinstance(outcome, Failed)
    assert any('the BMC has only answered that it is busy for 0:10:00' in r for r in outcome.reasons)
    assert (False, ()) == (outcome.wrote, outcome.quarantined)
    assert bench.now < job.deadline


def test_a_bad_image_ends_the_job_before_anything_is_written():
    """No release, no upload, no engagement: the machine is as it was."""
    bench, _, outcome = finish(image_is_good=False)
    assert isinstance(outcome, Failed)
    assert not outcome.wrote
    assert ['withdraw', 'withdraw everything'] == bench.machine.log
    assert any('digest differs' in r for r in outcome.reasons)


def test_a_bad_image_while_the_host_is_held_gives_the_host_back():
    """The check comes before the host is powered off."""
    bench = Bench(machine=Machine(image_is_good=False))
    _, outcome = bench.run(bench.job(hold=True))
    assert isinstance(outcome, Failed)
    assert PowerState.ON is bench.machine.power


@pytest.mark.parametrize('name', ['gpu-new', 'gpu-old'])
def test_an_image_that_its_bmc_speaks_against_changes_nothing(name):
    """Be it the one that is written or the one to put back: no release, no upload, and the host was not powered off."""
    bench = restorable(Machine(judges=True, speaks_against=(name,)))
    _, outcome = bench.run(bench.job(hold=True))
    assert isinstance(outcome, Failed)
    assert not outcome.wrote
    done = {entry for entry in bench.machine.log if not entry.startswith('judge')}
    assert {'withdraw', 'withdraw everything'} == done
    assert any(f'check image {name}: ' in r and 'is for another controller' in r for r in outcome.reasons), outcome.reasons


def test_an_image_is_judged_once_at_each_of_its_places_before_anything_is_done():
    """Where nothing speaks against it the job goes on."""
    bench = restorable(Machine(judges=True))
    _, outcome = bench.run(bench.job(hold=True))
    assert isinstance(outcome, Done)
    item = v.component().ref
    log = [entry for entry in bench.machine.log if not entry.startswith('withdraw')]
    assert [f'judge gpu-new at {item}', f'judge gpu-old at {item}'] == log[:2]
    assert 2 == sum(entry.startswith('judge') for entry in log)


def test_an_image_that_changes_after_the_check_is_not_sent():
    """It is checked again on the very bytes that go to the BMC."""
    bench = Bench()
    job = bench.job()
    while not any(i.state is ItemState.DONE and type(i.action).__name__ == 'CheckImage' for i in job.items):
        job, _ = bench.turn(job)
    bench.machine.image_is_good = False
    _, outcome = bench.run(job)
    assert isinstance(outcome, Failed)
    assert not any(entry.startswith('push') for entry in bench.machine.log)


def test_a_card_that_changed_since_the_plan_is_not_written():
    """An action carries what it expects to find."""
    bench = Bench()
    job = bench.job()
    bench.machine.version = '1.5'
    _, outcome = bench.run(job)
    assert isinstance(outcome, Failed)
    assert not any(entry.startswith('push') for entry in bench.machine.log)
    assert any('the plan was made with version 1.0, but the card now shows 1.5' in r for r in outcome.reasons)


def test_a_card_that_vanished_since_the_plan_is_not_written():
    """Nor is another one in its place."""
    bench = Bench()
    job = bench.job()
    bench.machine.present = False
    _, outcome = bench.run(job)
    assert isinstance(outcome, Failed)
    assert not any(entry.startswith('push') for entry in bench.machine.log)


def test_a_silent_bmc_is_ridden_out():
    """Connection refused for a while, within the deadline."""
    bench = Bench()
    job = bench.job()
    while not any(i.state is ItemState.RUNNING for i in job.items):
        job, _ = bench.turn(job)
    bench.machine.silent = 4
    _, outcome = bench.run(job)
    assert isinstance(outcome, Done)


def test_a_job_ends_at_its_deadline():
    """A task that runs for ever does not hold a node for ever, and the lock is engaged."""
    bench = Bench()
    job = bench.job(timeout=timedelta(minutes=10))

    class Endless(dict):
        def __setitem__(self, key, value):
            super().__setitem__(key, 4)

    bench.machine.tasks = Endless()
    _, outcome = bench.run(job)
    assert isinstance(outcome, Failed)
    assert 'the deadline has passed' in outcome.reasons
    assert bench.machine.closed


def test_unlocking_releases_and_demands_nothing():
    """What is opened on purpose is open, and the evidence is gone."""
    bench = Bench(machine=Machine(version=v.NEW, closed=True))
    job, outcome = bench.run(bench.job(parts=frozenset({Part.UNLOCK}), demands_met=False))
    assert isinstance(outcome, Done)
    assert not bench.machine.closed
    assert () == job.engagements
    assert not job.verdict.met


@pytest.mark.parametrize('present', [True, False])
def test_who_only_unlocks_waits_for_no_version_that_it_does_not_write(present):
    """It took the whole time to settle: the host is off, so nothing comes back, and nobody was to write the version."""
    bench = Bench(machine=Machine(version=v.OLD, closed=True))
    job = bench.job(parts=frozenset({Part.UNLOCK}), hold=True, demands_met=False)
    if not present:
        bench.baseline = v.baseline(firmware=(('other', v.NEW),))
        bench.tools = replace(bench.tools, baseline=bench.baseline)
    begun = bench.now
    job, outcome = bench.run(job)
    assert isinstance(outcome, Done)
    assert not bench.machine.closed
    assert bench.now - begun < bench.tools.patience.settle / 3


def test_a_lock_that_needs_a_reset_waits_for_no_version_that_it_does_not_write():
    """After a reset a card may be away for a while; one that shows another version is back."""
    bench = Bench(machine=Machine(version=v.OLD, lock_needs=ResetKind.POWER_CYCLE))
    begun = bench.now
    job, outcome = bench.run(bench.job(parts=frozenset({Part.LOCK}), demands_met=False))
    assert isinstance(outcome, Done)
    assert [e.reset_at is not None for e in job.engagements] == [True]
    assert bench.now - begun < bench.tools.patience.settle / 3


def test_a_deploy_takes_evidence_of_its_own_flow():
    """The same job as a deploy's is verified by its own engagement."""
    bench = Bench(machine=Machine(version=v.NEW))
    job, outcome = bench.run(bench.job(flow=Flow.DEPLOY, parts=frozenset({Part.LOCK})))
    assert isinstance(outcome, Done)
    assert ['deploy'] == [e.flow for e in job.engagements]


def test_after_a_failure_nothing_is_offered():
    """Neither the card that failed, nor one that was offered before and has vanished since."""
    bench, _, _ = finish(lock_ignored=True)
    assert 'withdraw everything' == bench.machine.log[-1]
    assert 'publish' not in bench.machine.log


def test_an_ended_job_does_nothing():
    """Turning it again changes nothing and says the same."""
    bench, job, outcome = finish()
    before = list(bench.machine.log)
    again, same = bench.turn(job)
    assert (job, outcome, before) == (again, same, bench.machine.log)


FAULTS = st.fixed_dictionaries(
    {},
    optional={
        'lock_ignored': st.booleans(),
        'lock_lost_on_reset': st.booleans(),
        'silent': st.integers(0, 3),
        'busy': st.integers(0, 3),
        'cut_upload': st.booleans(),
        'arrives': st.booleans(),
        'refuses': st.booleans(),
        'task_ends': st.sampled_from([TaskState.SUCCEEDED, TaskState.FAILED, TaskState.GONE]),
        'image_is_good': st.booleans(),
        'protects_all': st.booleans(),
        'closed': st.booleans(),
        'lock_needs': st.sampled_from([ResetKind.NONE, ResetKind.POWER_CYCLE]),
    },
)


@settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow],
)
@given(faults=FAULTS, hold=st.booleans(), crashes=st.sets(st.integers(0, 40), max_size=6))
def test_whatever_happens_a_job_ends_and_nothing_passes_unproven(faults, hold, crashes):
    """Random faults and crashes: no job without an end, one upload at most, no success without version and lock."""
    silent = faults.pop('silent', 0)
    bench = Bench(machine=Machine(**faults))
    job = bench.job(hold=hold)
    bench.machine.silent = silent
    outcome = None
    for count in range(600):
        stored = len(bench.saved)
        after, outcome = bench.turn(job)
        if count in crashes and len(bench.saved) > stored:
            # The shell died right after it stored its intent; whatever the BMC did meanwhile, it did.
            after, outcome = decode(Job, bench.saved[stored][0]), Wait(delay=timedelta(0), doing='')
        job = after
        if not isinstance(outcome, Wait):
            break
        bench.now += outcome.delay
    assert not isinstance(outcome, Wait)
    assert sum(entry.startswith('push') for entry in bench.machine.log) <= 1
    if isinstance(outcome, Done):
        assert v.NEW == bench.machine.version
        assert bench.machine.closed
        assert 'publish' in bench.machine.log
    else:
        assert replace(job).reasons
    if hold and bench.machine.power is PowerState.ON and 'power Off' in bench.machine.log:
        assert bench.machine.closed
