# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The custody of a card over a whole job, by the machine in memory."""

from dataclasses import replace
from datetime import timedelta

import pytest

from baremetal_acc.execution import custody_feed, observe
from baremetal_acc.model.action import Reset, ResetPurpose
from baremetal_acc.model.custody import NO_CUSTODY, Access, BreakCause, Cover, Custody, CustodyDemand, Origin, Strength
from baremetal_acc.model.inventory import Gap, PowerState, TaskReading, TaskState
from baremetal_acc.model.job import Done, Failed
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.model.ref import BmcName
from baremetal_acc.planning import custody
from baremetal_acc.planning.plan import plan
from tests.unit.execution.bench import Bench, Connection, Machine, restorable
from tests.unit.planning import values as v


def bench_of(connection=Connection, machine=None, **how) -> Bench:
    """A bench whose BMC behaves in another way."""
    bench = Bench(machine=machine or Machine(), **how)
    bench.tools = replace(bench.tools, connect=lambda _: connection(bench.machine))
    return bench


def job_of(bench: Bench, kept: Custody = NO_CUSTODY, *, again: bool = False, **how):
    """A job that goes on with the custody that is kept."""
    inventory = observe(bench.target, bench.tools, bench.now)
    made = plan(inventory, bench.baseline, v.NODE, bench.tools.catalogue, hold=True, again=frozenset({v.GPU} if again else ()))
    job = bench.job(hold=True, **how)
    if again:
        job = replace(job, items=tuple(replace(job.items[0], action=action) for action in made.actions))
    now = custody_feed.looked(kept, inventory, bench.target, bench.tools, (), lifecycle=v.LIFECYCLE, by=bench.now)
    return custody_feed.begun_with(job, now, made, inventory, bench.target, bench.tools)


def chain(job):
    """That of the card."""
    return job.custody.of(v.GPU).chain


def writing(job):
    """That which begins with the write."""
    return job.custody.of(v.GPU).writing


class Slow(dict):
    """Tasks that take their time."""

    def __setitem__(self, key, value):
        super().__setitem__(key, value if key in self else 20)


class Silent(Connection):
    """A BMC that keeps no time of the last reset."""

    def last_reset(self, system):
        return None


class Keeps(Connection):
    """A BMC that tells when it was last reset itself."""

    def look(self, now):
        seen = super().look(now)
        return replace(seen, facts=replace(seen.facts, bmc_reset='once'))


@pytest.mark.parametrize('connection', [Keeps, Connection, Silent])
def test_a_job_that_writes_a_card_begins_its_chain_and_hands_it_on_closed(connection):
    """The host is off until the card is closed, then the lock covers it.

    It is polled until its BMC was seen to set the time of the last reset at a start, as the first job shows of one that does.
    """
    bench = bench_of(connection)
    job, outcome = bench.run(job_of(bench))
    assert isinstance(outcome, Done)
    found = chain(job)
    assert (Origin.WRITTEN, ('gpu-new',), None) == (found.origin, found.by, found.broken)
    assert [Cover.HOST_OFF, Cover.LOCKED] == [i.cover for i in found.intervals]
    assert Strength.POLLED is found.strength
    seen = job.custody.of(v.GPU).seen
    assert (Access.CLOSED, True) == (seen.access, seen.proven)
    assert (() if connection is Silent else (v.SYSTEM,)) == job.custody.dependable

    bench.now += timedelta(hours=1)
    bench.machine.closed = False  # somebody else has opened it, so that only the host that is off covers the next write
    job, outcome = bench.run(job_of(bench, job.custody, again=True))
    assert isinstance(outcome, Done)
    assert None is chain(job).broken
    assert (Strength.EVIDENCED if connection is Keeps else Strength.POLLED) is chain(job).strength


def test_a_card_that_a_job_only_locks_has_no_chain():
    """It runs what the rules demand, as it says, and nobody knows who has written that."""
    bench = Bench(machine=Machine(version=v.NEW))
    job, outcome = bench.run(job_of(bench))
    assert isinstance(outcome, Done)
    assert chain(job) is None


def test_a_job_that_writes_nothing_does_not_wait_for_a_chain_that_no_reading_mends():
    """A device that was reset may take its time to show itself again. Its chain is broken for good."""
    bench = Bench(machine=Machine(version=v.NEW, power=PowerState.ON))
    rules = tuple(replace(rule, custody=CustodyDemand.REQUIRED) for rule in bench.baseline.rules)
    bench.baseline = replace(bench.baseline, rules=rules)
    bench.tools = replace(bench.tools, baseline=bench.baseline)
    began = bench.now
    job = job_of(bench)
    again = Reset(system=v.SYSTEM, purpose=ResetPurpose.ENFORCE, kind=ResetKind.POWER_CYCLE, why=('a lock',))
    job = replace(job, items=(*job.items[:-1], replace(job.items[0], action=again), job.items[-1]))
    job, outcome = bench.run(job)
    assert isinstance(outcome, Failed)
    assert 'reset power-cycle' in bench.machine.log
    assert ['custody'] == [str(f.subject) for f in job.verdict.unmet]
    assert bench.now - began < bench.tools.patience.settle


@pytest.mark.parametrize(('state', 'cause'), [(ItemState.DONE, None), (ItemState.FAILED, BreakCause.WRITE_FAILED)])
def test_a_write_that_waits_for_a_reset_which_does_not_come_breaks_the_chain(state, cause):
    """It may be staged for good, and at an equal version no reading of the card tells."""
    bench = Bench()
    job, _ = bench.run(job_of(bench))
    reset = Reset(system=v.SYSTEM, purpose=ResetPurpose.ENFORCE, kind=ResetKind.POWER_CYCLE, why=('gpu-new',))

    def with_reset(state):
        return replace(job, items=(*job.items, replace(job.items[0], action=reset, state=state)))

    after = custody_feed.after_writes(with_reset(ItemState.RUNNING), with_reset(state), bench.now)
    broken = chain(after).broken
    assert cause is (None if broken is None else broken.cause)


def test_a_chain_goes_on_over_a_job_that_writes_nothing():
    """Cleaned once more, closed all the time."""
    bench = Bench()
    job, _ = bench.run(job_of(bench))
    again, outcome = bench.run(job_of(bench, job.custody))
    assert isinstance(outcome, Done)
    assert 1 == sum(entry.startswith('push') for entry in bench.machine.log)
    assert (chain(job).begun, None) == (chain(again).begun, chain(again).broken)
    assert chain(again).reaches > chain(job).reaches


def test_a_host_that_wakes_while_the_card_is_open_breaks_its_chain():
    """Though it is off again at the next reading, and nothing of the card shows it."""

    bench = bench_of(machine=Machine(closed=True, protects_all=True, tasks=Slow()))
    job = job_of(bench)
    while writing(job) is None or bench.now - writing(job).begun < timedelta(seconds=20):
        job, outcome = bench.turn(job)
        bench.now += outcome.delay
    assert not bench.machine.closed
    bench.machine.resets += 1
    job, outcome = bench.run(job)
    assert isinstance(outcome, Failed)
    assert BreakCause.HOST_RAN is chain(job).broken.cause


def test_a_host_that_nobody_could_see_for_longer_than_it_needs_to_start_breaks_the_chain():
    """Its BMC tells nothing but the power, and the card is written and open."""
    bench = bench_of(Silent)
    job = job_of(bench)
    while writing(job) is None:
        job, outcome = bench.turn(job)
        bench.now += outcome.delay
    assert chain(job) is None
    assert not custody.holds(job.custody.of(v.GPU), bench.now), 'before the write has ended'
    bench.now += timedelta(seconds=11)
    job, _ = bench.run(job)
    assert BreakCause.HOST_UNSEEN is chain(job).broken.cause


class Skips(Connection):
    """A BMC that skips an image of a version that the card has already, and says that it succeeded."""

    def push(self, target, upload):
        answer = super().push(target, upload)
        self.machine.tasks[answer.ref] = 1
        return answer


def test_a_job_does_not_wait_for_a_card_to_sign_where_nothing_checks_what_it_signs():
    """Else it would, until all has settled: nothing but that mends the chain of a write that is not evidenced."""
    took = []
    for attestor in (None, object()):
        bench = bench_of(Skips, Machine(version=v.NEW))
        rules = tuple(replace(rule, custody=CustodyDemand.REQUIRED) for rule in bench.baseline.rules)
        bench.baseline = replace(bench.baseline, rules=rules)
        bench.tools = replace(bench.tools, baseline=bench.baseline, attestor=attestor)
        began = bench.now
        job, outcome = bench.run(job_of(bench, again=True))
        assert isinstance(outcome, Failed)
        assert ['custody'] == [str(f.subject) for f in job.verdict.unmet]
        took.append(bench.now - began)
    assert bench.tools.patience.settle <= took[1] - took[0]


def test_a_write_at_the_same_version_begins_a_chain_only_where_it_is_seen_to_progress():
    """A BMC may skip an image of a version that the card has already, and says that it succeeded."""
    for connection, cause in ((Connection, None), (Skips, BreakCause.WRITE_UNPROVEN)):
        bench = bench_of(connection, Machine(version=v.NEW))
        job, outcome = bench.run(job_of(bench, again=True))
        assert isinstance(outcome, Done), outcome
        assert 1 == sum(entry.startswith('push') for entry in bench.machine.log)
        assert cause == (chain(job).broken.cause if chain(job).broken else None)


class Names(Skips):
    """One whose task ends at once, too, and names what it has written."""

    named = v.component().ref.uri

    def task(self, ref):
        return replace(super().task(ref), written=(self.named,))


class NamesAnother(Names):
    """It names another component."""

    named = v.component('GPU_1').ref.uri


class Dates(Skips):
    """One that shows when a component was written last."""

    shown = ('before', 'after')

    def look(self, now):
        found = super().look(now)
        component = self.component(None)
        return replace(found, accelerators=tuple(replace(a, firmware=(component,)) for a in found.accelerators))

    def component(self, ref):
        at = self.shown[bool(self.machine.sent) and not any(self.machine.tasks.values())]
        return replace(super().component(ref), installed=at)


class KeepsTheDate(Dates):
    """It has skipped the image."""

    shown = ('before', 'before')


class DatesFirst(Dates):
    """It did not say so before."""

    shown = (None, 'after')


@pytest.mark.parametrize(
    ('connection', 'cause'),
    [
        (Names, None),
        (NamesAnother, BreakCause.WRITE_UNPROVEN),
        (Dates, None),
        (KeepsTheDate, BreakCause.WRITE_UNPROVEN),
        (DatesFirst, BreakCause.WRITE_UNPROVEN),
    ],
)
def test_a_write_at_the_same_version_is_shown_by_its_task_or_by_the_time_of_the_last_write(connection, cause):
    """Where it was not seen on its way. What was not shown before has not moved."""
    bench = bench_of(connection, Machine(version=v.NEW))
    job, outcome = bench.run(job_of(bench, again=True))
    assert isinstance(outcome, Done), outcome
    assert cause == (chain(job).broken.cause if chain(job).broken else None)


def test_a_write_that_fails_breaks_the_chain_and_what_is_put_back_begins_none():
    """The card runs what it ran, and nobody knows what the write has left."""
    bench = restorable(Machine(task_ends=TaskState.FAILED, power=PowerState.OFF))
    kept = custody_feed.looked(
        NO_CUSTODY,
        observe(bench.target, bench.tools, bench.now),
        bench.target,
        bench.tools,
        (),
        lifecycle=v.LIFECYCLE,
        by=bench.now,
    )
    kept = custody.begun(kept, v.GPU, Origin.ACCEPTED, bench.now, by=['ada'], until=bench.now + timedelta(days=1))
    job, outcome = bench.run(job_of(bench, kept))
    assert isinstance(outcome, Failed)
    assert (Origin.ACCEPTED, BreakCause.WRITE_FAILED) == (chain(job).origin, chain(job).broken.cause)


def test_a_write_that_was_refused_before_anything_reached_the_card_breaks_no_chain():
    """Its BMC said no."""
    bench = Bench(machine=Machine(refuses=True, power=PowerState.OFF))
    kept = custody_feed.looked(
        NO_CUSTODY,
        observe(bench.target, bench.tools, bench.now),
        bench.target,
        bench.tools,
        (),
        lifecycle=v.LIFECYCLE,
        by=bench.now,
    )
    job = job_of(bench, custody.begun(kept, v.GPU, Origin.ACCEPTED, bench.now, by=['ada']))
    job, outcome = bench.run(job)
    assert isinstance(outcome, Failed)
    assert custody.holds(job.custody.of(v.GPU), bench.now)


def test_a_job_that_was_cut_off_while_it_wrote_leaves_no_chain():
    """The next one begins with what it left."""
    bench = bench_of(machine=Machine(tasks=Slow()))
    job = job_of(bench)
    while writing(job) is None:
        job, _ = bench.turn(job)
    kept = custody.begun(job.custody, v.GPU, Origin.ACCEPTED, bench.now, by=['ada'])
    kept = custody.write_begun(kept, v.GPU, bench.now, images=['gpu-new'])
    assert not custody.holds(kept.of(v.GPU), bench.now)
    after = job_of(bench, kept)
    assert (BreakCause.WRITE_FAILED, None) == (chain(after).broken.cause, writing(after))


def test_a_card_that_is_found_with_another_version_while_it_is_open_breaks_its_chain():
    """Somebody else has written it."""
    bench = Bench()
    job = job_of(bench)
    while not any(entry.startswith('power Off') for entry in bench.machine.log):
        job, _ = bench.turn(job)
    bench.machine.version = '6.6.6'
    job, outcome = bench.run(job)
    assert isinstance(outcome, Failed)
    assert not custody.holds(job.custody.of(v.GPU), bench.now)


def test_a_host_that_is_not_held_breaks_the_chain_unless_the_operators_ramdisk_runs_there():
    """An open card beside whatever runs."""
    for ramdisk, cover in ((False, None), (True, Cover.RAMDISK)):
        bench = Bench(machine=Machine(power=PowerState.ON))
        bench.tools = replace(bench.tools, ramdisk=ramdisk)
        inventory = observe(bench.target, bench.tools, bench.now)
        made = plan(inventory, bench.baseline, v.NODE, bench.tools.catalogue)
        now = custody_feed.looked(NO_CUSTODY, inventory, bench.target, bench.tools, (), lifecycle=v.LIFECYCLE, by=bench.now)
        job = custody_feed.begun_with(bench.job(), now, made, inventory, bench.target, bench.tools)
        job, outcome = bench.run(job)
        assert isinstance(outcome, Done)
        assert ramdisk is custody.holds(job.custody.of(v.GPU), bench.now)
        assert ramdisk is (cover in {i.cover for i in chain(job).intervals})


def test_the_reset_of_a_host_that_ran_the_ramdisk_is_covered_by_locks_that_were_read_before_it():
    """What it boots next may be something else; and a lock that does not close is seen before that."""
    for ignored, holds in ((False, True), (True, False)):
        bench = Bench(machine=Machine(power=PowerState.ON, lock_ignored=ignored))
        bench.tools = replace(bench.tools, ramdisk=True)
        inventory = observe(bench.target, bench.tools, bench.now)
        made = plan(inventory, bench.baseline, v.NODE, bench.tools.catalogue)
        now = custody_feed.looked(NO_CUSTODY, inventory, bench.target, bench.tools, (), lifecycle=v.LIFECYCLE, by=bench.now)
        job = custody_feed.begun_with(bench.job(), now, made, inventory, bench.target, bench.tools)
        job, _ = bench.run(job)
        assert 'reset power-cycle' in bench.machine.log
        assert holds is custody.holds(job.custody.of(v.GPU), bench.now)


def test_a_lock_that_a_job_opens_counts_as_open_from_there():
    """Whoever dies after that finds whatever somebody else has made of it."""
    bench = bench_of(machine=Machine(closed=True, protects_all=True))
    job = job_of(bench)
    while 'release' not in bench.machine.log:
        job, _ = bench.turn(job)
    assert Access.OPEN is job.custody.of(v.GPU).seen.access


@pytest.mark.parametrize('hides', [True, False])
def test_a_card_that_may_lie_behind_what_could_not_be_read_breaks_no_chain(hides):
    """The next reading says; one that is simply not shown may be anywhere."""
    bench = Bench(machine=Machine(version=v.NEW))
    inventory = observe(bench.target, bench.tools, bench.now)
    kept = custody_feed.looked(NO_CUSTODY, inventory, bench.target, bench.tools, (), lifecycle=v.LIFECYCLE, by=bench.now)
    kept = custody.begun(kept, v.GPU, Origin.WRITTEN, bench.now, by=['gpu-new'])
    gaps = (Gap(ref=v.ref('Systems/1/Processors'), reason='HTTP 503', hides=hides),)
    seen = replace(inventory, accelerators=(), gaps=gaps)
    kept = custody_feed.looked(kept, seen, bench.target, bench.tools, (), lifecycle=v.LIFECYCLE, by=bench.now)
    assert hides is custody.holds(kept.of(v.GPU), bench.now)


# ----------------------------------------------------------------------------------------------------------------- strangers


class Strangers(Connection):
    """A BMC that works on something of somebody else for some readings."""

    is_write, left = True, 3

    def active_tasks(self):
        if type(self).left <= 0:
            return super().active_tasks()
        type(self).left -= 1
        theirs = TaskReading(ref=v.ref('Tasks/9'), state=TaskState.ACTIVE, raw='Running', may_write=self.is_write)
        return [*super().active_tasks(), theirs]


@pytest.mark.parametrize('may_write', [True, False])
def test_what_a_bmc_works_on_for_somebody_else_breaks_a_chain_unless_it_cannot_be_a_write(may_write):
    """It is seen right before our own write, which waits for it, and begins the chain that counts."""
    bench = bench_of(type('Theirs', (Strangers,), {'is_write': may_write}), machine=Machine(power=PowerState.OFF))
    job = job_of(bench)
    job = replace(job, custody=custody.begun(job.custody, v.GPU, Origin.ACCEPTED, bench.now, by=['ada']))
    while not bench.machine.sent:
        job, outcome = bench.turn(job)
        bench.now += outcome.delay
        if not bench.machine.sent and may_write and job.custody.of(v.GPU).chain.broken is not None:
            assert (BreakCause.FOREIGN_WRITE, v.ref('Tasks/9')) == (chain(job).broken.cause, chain(job).broken.ref)
    assert (BreakCause.FOREIGN_WRITE if may_write else None) == (chain(job).broken.cause if chain(job).broken else None)
    job, outcome = bench.run(job)
    assert isinstance(outcome, Done), outcome
    assert (Origin.WRITTEN, None) == (chain(job).origin, chain(job).broken)


def test_what_a_bmc_has_for_a_write_of_ours_breaks_nothing():
    """A controller may have a task of its own for what it was sent on; whose it is it does not say."""

    class Forwards(Connection):
        def active_tasks(self):
            own = super().active_tasks()
            more = [TaskReading(ref=v.ref('Tasks/HGX_0'), state=TaskState.ACTIVE, raw='Running')] if own else []
            return [*own, *more]

    bench = bench_of(Forwards, machine=Machine(power=PowerState.OFF))
    job, outcome = bench.run(job_of(bench))
    assert isinstance(outcome, Done), outcome
    assert None is chain(job).broken


class Keeping(Connection):
    """A BMC that keeps its tasks, and those of somebody else."""

    theirs = ()

    def tasks(self):
        ended = [t for t in (*self.machine.tasks, *type(self).theirs) if not self.machine.tasks.get(t)]
        kept = [TaskReading(ref=r, state=TaskState.SUCCEEDED, raw='Completed/OK', is_update=True) for r in ended]
        return [*(replace(t, is_update=True) for t in self.active_tasks()), *kept]


def test_our_own_updates_are_known_after_a_job_and_those_of_somebody_else_break_a_chain():
    """Which of them the BMC shows by the next reading."""
    kind = type('Theirs', (Keeping,), {})
    bench = bench_of(kind, machine=Machine(power=PowerState.OFF))
    job, outcome = bench.run(job_of(bench))
    assert isinstance(outcome, Done), outcome
    assert bench.machine.tasks
    assert [1] == [len(k.marks) for k in job.custody.updates]

    def read_again(kept):
        inventory = observe(bench.target, bench.tools, bench.now, tasks=True)
        args = (bench.target, bench.tools, job.engagements)
        return custody_feed.looked(kept, inventory, *args, lifecycle=v.LIFECYCLE, by=bench.now)

    kept = read_again(job.custody)
    assert kept.of(v.GPU).chain.broken is None
    kind.theirs = (v.ref('Tasks/77'),)
    before, bench.now = bench.now, bench.now + timedelta(minutes=5)
    broken = read_again(kept).of(v.GPU).chain.broken
    assert (BreakCause.FOREIGN_WRITE, v.ref('Tasks/77')) == (broken.cause, broken.ref)
    assert (before, bench.now) == (broken.since, broken.until)


def test_what_has_ended_on_a_bmc_of_several_machines_may_be_ours_for_another_target():
    """Else the cleaning of one machine would break the chains of the next one, and the other way round."""

    class Shared(Keeping):
        def look(self, now):
            return replace(super().look(now), machines=2)

    bench = bench_of(Shared, machine=Machine(power=PowerState.OFF))
    job, outcome = bench.run(job_of(bench))
    assert isinstance(outcome, Done), outcome
    assert () == job.custody.updates
    Shared.theirs = (v.ref('Tasks/77'),)
    inventory = observe(bench.target, bench.tools, bench.now, tasks=True)
    kept = custody_feed.with_foreign_writes(job.custody, inventory)
    assert kept == job.custody


def test_only_the_cards_that_a_bmc_shows_may_have_been_written_by_it():
    """A card behind another BMC is not; one that was read by an earlier version, which did not keep that, neither."""
    bench = Bench(machine=Machine(version=v.NEW))
    inventory = observe(bench.target, bench.tools, bench.now)
    task = TaskReading(ref=v.ref('Tasks/9'), state=TaskState.ACTIVE, raw='Running')
    kept = custody_feed.looked(NO_CUSTODY, inventory, bench.target, bench.tools, (), lifecycle=v.LIFECYCLE, by=bench.now)
    kept = custody.begun(kept, v.GPU, Origin.WRITTEN, bench.now, by=['gpu-new'])
    facts = inventory.bmcs[0]
    for name, holds in ((BmcName('dpu'), True), (facts.name, False)):
        busy = replace(inventory, bmcs=(facts, replace(facts, name=name, active_tasks=(task,))))
        now = custody_feed.with_foreign_writes(kept, busy)
        assert holds is custody.holds(now.of(v.GPU), bench.now)
