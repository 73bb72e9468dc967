# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What a BMC, a crash or somebody with a power button can do to a job, it cannot make it pass or leave a lock open."""

from dataclasses import replace
from datetime import timedelta

import pytest

from baremetal_acc.errors import BmcRefusalReason, BmcRefused, BmcUnreachable, BmcUnsupported, UsageError
from baremetal_acc.model.action import Flash, ResetPurpose
from baremetal_acc.model.codec import decode
from baremetal_acc.model.custody import CustodyDemand
from baremetal_acc.model.interference import InterferenceKind
from baremetal_acc.model.inventory import PowerState, TaskReading, TaskState
from baremetal_acc.model.job import Done, Failed, Job
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.model.lock import LockState, ResetKind
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.planning.plan import Part
from baremetal_acc.policy.baseline_rules import Baseline, Match, Rule
from tests.unit.execution.bench import Bench, Connection, Machine, Mechanism
from tests.unit.planning import values as v

OTHER = AcceleratorId('uuid:gpu-1')
LOCK = frozenset({Part.LOCK, Part.PUBLISH})


def working(machine=None, connection=Connection, mechanism=Mechanism, **how):
    """A bench whose BMC or lock behaves in another way."""
    bench = Bench(machine=machine or Machine(), **how)
    bench.tools = replace(bench.tools, connect=lambda _: connection(bench.machine), mechanisms=(mechanism(bench.machine),))
    return bench


class Two(Connection):
    """Two GPUs; the second one has the right firmware."""

    def look(self, now):
        seen = super().look(now)
        right = v.component('GPU_1', v.NEW)
        uri = v.ref('Systems/1/Processors/GPU_1')
        other = v.gpu(id=OTHER, primary=uri, refs=(uri,), firmware=(right,), locks=())
        return replace(seen, accelerators=(*seen.accelerators, other))


class LockOfEach(Mechanism):
    """A root of trust for each card."""

    def read(self, accelerator, readers, now):
        found = super().read(accelerator, readers, now)
        return tuple(replace(r, accelerator=accelerator.id, ref=v.ref(f'Chassis/{accelerator.id[5:]}')) for r in found)


class LockOfAll(Mechanism):
    """One root of trust for all cards."""

    def read(self, accelerator, readers, now):
        return tuple(replace(r, accelerator=accelerator.id) for r in super().read(accelerator, readers, now))


# ---------------------------------------------------------------------------------------------------------- what is proven


def test_a_card_that_is_lost_by_its_write_fails_the_job():
    """Bricked, it is not listed any more; the other card is as it should be, which proves nothing of this one."""

    class Bricks(Machine):
        def power_cycle(self):
            super().power_cycle()
            self.present = False

    bench = working(Bricks(), Two, LockOfEach)
    _, outcome = bench.run(bench.job())
    assert isinstance(outcome, Failed)
    assert any(f'{v.GPU}, present: expected the card seen before, found absent' in r for r in outcome.reasons)


def test_a_reset_that_nobody_saw_brings_nothing_in_force():
    """The BMC answers 200 to the reset, does nothing, and has no LastResetTime that would tell."""

    class Forgetful(Connection):
        def last_reset(self, system):
            return None

        def reset(self, system, kind):
            self.machine.log.append('reset, ignored')

    bench = working(Machine(version=v.NEW, lock_needs=ResetKind.POWER_CYCLE), Forgetful)
    _, outcome = bench.run(bench.job())
    assert isinstance(outcome, Done)
    assert 1 == bench.machine.resets
    assert ['engage', 'power Off', 'power On', 'publish'] == bench.machine.log


def test_a_system_that_does_not_power_off_ends_the_job():
    """And is not waited for for ever."""

    class Stubborn(Connection):
        def last_reset(self, system):
            return None

        def set_power(self, system, wanted):
            self.machine.log.append(f'power {wanted}, ignored')

    bench = working(Machine(version=v.NEW, lock_needs=ResetKind.POWER_CYCLE), Stubborn)
    _, outcome = bench.run(bench.job())
    assert isinstance(outcome, Failed)
    assert any('did not power off' in r for r in outcome.reasons)


@pytest.mark.parametrize('when', ['push', 'engage'])
def test_a_lock_that_is_not_shown_any_more_fails_the_job_also_where_a_missing_one_is_waived(when):
    """The baseline waives what no mechanism blocks. A lock that was there and has gone is something else."""

    class Hides(Mechanism):
        def read(self, accelerator, readers, now):
            hidden = any(entry.startswith(when) for entry in self.machine.log)
            return () if hidden else super().read(accelerator, readers, now)

    bench = working(mechanism=Hides, baseline=v.waiving())
    _, outcome = bench.run(bench.job())
    assert isinstance(outcome, Failed)


def test_a_lock_that_two_cards_share_is_proven_for_both():
    """One root of trust may protect several devices: evidence of one is none of the other, so there are two."""
    bench = working(Machine(version=v.NEW), Two, LockOfAll)
    job, outcome = bench.run(bench.job())
    assert isinstance(outcome, Done)
    assert {v.GPU, OTHER} == {e.accelerator for e in job.engagements}


def test_what_changes_between_the_final_look_and_the_publishing_fails_the_job():
    """Placement is told the truth, and so is whoever waits for the job."""
    bench = Bench()
    bench.tools = replace(bench.tools, observed=lambda *_: setattr(bench.machine, 'closed', False))
    _, outcome = bench.run(bench.job())
    assert isinstance(outcome, Failed)
    assert any('lock host-device' in r for r in outcome.reasons)
    assert 'publish' in bench.machine.log


def test_evidence_is_void_before_a_release_and_stays_so_if_the_release_fails():
    """The answer says no, and nobody knows what was done."""

    class SaysNo(Mechanism):
        def release(self, writer, reading):
            super().release(writer, reading)
            raise BmcRefused(bmc='host', what='no', reason=BmcRefusalReason.INVALID_REQUEST)

    bench = working(Machine(closed=True, protects_all=True), mechanism=SaysNo)
    old = v.engagement(bench.machine.lock('s', v.NOW))
    bench.run(replace(bench.job(), engagements=(old,)))
    after = bench.machine.log.index('release') + 1
    kept = [decode(Job, body) for body, length in bench.saved if length >= after]
    assert kept
    assert not any(old in job.engagements for job in kept)


# -------------------------------------------------------------------------------------------------- what stays locked, off


def test_a_held_host_stays_off_while_its_cards_are_not_shown():
    """What is not seen is not locked."""

    class Blind(Connection):
        def look(self, now):
            seen = super().look(now)
            return replace(seen, accelerators=()) if 'release' in self.machine.log else seen

    bench = working(Machine(closed=True, protects_all=True), Blind)
    _, outcome = bench.run(bench.job(hold=True))
    assert isinstance(outcome, Failed)
    assert PowerState.OFF is bench.machine.power


def test_a_host_that_loses_its_lock_when_it_is_given_back_is_powered_off_again():
    """The tenant's code does not run at a lock that we opened."""
    bench = Bench(machine=Machine(lock_lost_on_reset=True))
    _, outcome = bench.run(bench.job(hold=True))
    assert isinstance(outcome, Failed)
    assert PowerState.OFF is bench.machine.power
    assert 'the host was powered off again' in outcome.reasons


def test_a_host_whose_lock_nobody_can_read_once_it_was_given_back_is_powered_off_again():
    """Nobody has opened it, as far as anybody knows; nor is it known to be closed."""

    class Mute(Machine):
        def lock(self, session, now):
            found = super().lock(session, now)
            return replace(found, state=LockState.UNKNOWN, reason='HTTP 500') if self.resets else found

    bench = Bench(machine=Mute())
    _, outcome = bench.run(bench.job(hold=True))
    assert isinstance(outcome, Failed)
    assert PowerState.OFF is bench.machine.power


def test_a_host_is_not_given_back_while_the_bmc_writes_to_something():
    """Somebody else's update has begun since; a card that is being written must not start."""

    class OneMore(Connection):
        def active_tasks(self):
            if 'engage' not in self.machine.log or self.machine.resets:
                return super().active_tasks()
            self.machine.log.append('asked')
            busy = self.machine.log.count('asked') <= 3
            others = TaskReading(ref=v.ref('TaskService/Tasks/others'), state=TaskState.ACTIVE, raw='Running/OK')
            return [*super().active_tasks(), *([others] if busy else [])]

    bench = working(Machine(), OneMore)
    _, outcome = bench.run(bench.job(hold=True))
    assert isinstance(outcome, Done), outcome
    assert bench.machine.log.index('power On') > [n for n, e in enumerate(bench.machine.log) if e == 'asked'][2]


def test_a_host_that_somebody_powers_on_and_that_refuses_to_go_off_again_is_told():
    """The card that was opened is gone, so its lock cannot be closed; that the host runs at it must be known."""

    class Stubborn(Connection):
        def look(self, now):
            seen = super().look(now)
            if 'release' not in self.machine.log:
                return seen
            self.machine.power = PowerState.ON
            return replace(seen, accelerators=())

        def set_power(self, system, wanted):
            if wanted is PowerState.OFF and 'release' in self.machine.log:
                raise BmcRefused(bmc='host', what='no', reason=BmcRefusalReason.INVALID_REQUEST)
            super().set_power(system, wanted)

    bench = working(Machine(closed=True, protects_all=True), Stubborn)
    _, outcome = bench.run(bench.job(hold=True))
    assert isinstance(outcome, Failed)
    assert any('the host may run, since it could not be powered off: BMC host: no' in r for r in outcome.reasons)


def test_a_crash_while_the_host_is_given_back_does_not_leave_it_on_at_an_open_lock():
    """It was told to power on, the shell died, and the power-on lost the lock."""
    bench = Bench(machine=Machine(lock_lost_on_reset=True))
    job = bench.job(hold=True)
    while 'power On' not in bench.machine.log:
        before = len(bench.saved)
        job, _ = bench.turn(job)
    stored = decode(Job, bench.saved[before][0])
    assert ItemState.SENT is next(i for i in stored.items if getattr(i.action, 'purpose', None) is ResetPurpose.RESUME).state
    _, outcome = bench.run(stored)
    assert isinstance(outcome, Failed)
    assert PowerState.OFF is bench.machine.power


@pytest.mark.parametrize('protects_all', [False, True])
def test_nothing_is_opened_or_written_once_somebody_has_powered_the_held_host_on(protects_all):
    """The host was seen off; that was then."""

    class PoweredOn(Connection):
        def look(self, now):
            if self.machine.log[-1:] == ['power Off']:
                self.machine.power = PowerState.ON
            return super().look(now)

    bench = working(Machine(closed=True, protects_all=protects_all), PoweredOn)
    _, outcome = bench.run(bench.job(hold=True))
    assert isinstance(outcome, Failed)
    assert not any(entry.startswith(('push', 'release')) for entry in bench.machine.log)
    assert [InterferenceKind.HOST_ON] == [one.kind for one in outcome.interferences]


class Mute(Connection):
    """A BMC that does not tell the power of the host that it was told to power off, with everything that it shows of it."""

    def look(self, now):
        seen = super().look(now)
        return replace(seen, facts=replace(seen.facts, power=PowerState.UNKNOWN)) if 'power Off' in self.machine.log else seen


@pytest.mark.parametrize('protects_all', [True, False])
def test_nothing_is_opened_or_written_while_nobody_knows_whether_the_held_host_runs(protects_all):
    """With a lock on every path the release is refused, else the write. A host that is not read off is not off."""
    bench = working(Machine(closed=protects_all, protects_all=protects_all), Mute)
    _, outcome = bench.run(bench.job(hold=True))
    assert isinstance(outcome, Failed)
    assert not [e for e in bench.machine.log if e.startswith(('release', 'push'))]
    assert any('the host was powered off, but is Unknown now' in r for r in outcome.reasons), outcome.reasons
    assert () == outcome.interferences, 'nobody has seen it run'


def test_a_host_is_not_given_back_with_a_card_that_somebody_else_may_have_written():
    """Every lock is proven closed, no card is quarantined, and the card shows a version that nobody here has written."""
    bench = Bench(machine=Machine(closed=False))
    job = bench.job(hold=True)
    while 'power Off' not in bench.machine.log:
        job, _ = bench.turn(job)
    bench.machine.version = '6.6.6'
    _, outcome = bench.run(job)
    assert isinstance(outcome, Failed)
    assert [InterferenceKind.FIRMWARE] == [one.kind for one in outcome.interferences]
    assert (PowerState.OFF, True) == (bench.machine.power, bench.machine.closed)
    assert 'power On' not in bench.machine.log
    assert any(f'{v.GPU} has to be written again' in r for r in outcome.reasons), outcome.reasons


def test_a_host_that_could_not_be_powered_off_is_left_as_it_is():
    """Nothing was opened; the locks are engaged and proven, and nobody says that the host is off."""

    class NoOff(Connection):
        def set_power(self, system, wanted):
            if wanted is PowerState.OFF:
                raise BmcUnsupported(bmc='host', what='no ForceOff')
            super().set_power(system, wanted)

    bench = working(connection=NoOff)
    _, outcome = bench.run(bench.job(hold=True))
    assert isinstance(outcome, Failed)
    assert (PowerState.ON, True) == (bench.machine.power, bench.machine.closed)
    assert not any('stays powered off' in r for r in outcome.reasons)


def test_a_lock_that_stood_in_our_way_is_closed_again_also_if_no_rule_asks_for_it():
    """We opened it."""
    bench = Bench(machine=Machine(closed=True, protects_all=True), baseline=v.baseline(block=frozenset()))
    _, outcome = bench.run(bench.job())
    assert isinstance(outcome, Done)
    assert 'release' in bench.machine.log
    assert bench.machine.closed


def test_a_lock_that_we_opened_and_cannot_close_fails_the_job_also_if_no_rule_asks_for_it():
    """And says which."""
    machine = Machine(closed=True, protects_all=True, lock_ignored=True)
    bench = Bench(machine=machine, baseline=v.baseline(block=frozenset()))
    _, outcome = bench.run(bench.job())
    assert isinstance(outcome, Failed)
    assert any('the lock is not engaged again: unlocked' in r for r in outcome.reasons)


# ------------------------------------------------------------------------------------------------------------ what is sent


def test_a_reset_whose_answer_was_lost_is_not_sent_again():
    """It came; a second one could meet a card that applies its firmware."""

    class Cut(Connection):
        def reset(self, system, kind):
            super().reset(system, kind)
            raise BmcUnreachable(bmc='host', what='connection cut')

    bench = working(connection=Cut)
    _, outcome = bench.run(bench.job())
    assert isinstance(outcome, Done)
    assert 1 == bench.machine.resets


def test_a_reset_that_may_have_been_sent_before_a_crash_is_not_sent_again():
    """LastResetTime changes when the System is back, not when it goes."""
    bench = Bench()
    job = bench.job()
    while 'reset power-cycle' not in bench.machine.log:
        before = len(bench.saved)
        job, _ = bench.turn(job)
    kept = [decode(Job, body) for body, _ in bench.saved[before:]]
    stored = next(j for j in kept if any(i.before is not None for i in j.items))
    bench.machine.resets -= 1
    job, _ = bench.turn(stored)
    bench.machine.resets += 1
    _, outcome = bench.run(job)
    assert isinstance(outcome, Done)
    assert 1 == bench.machine.log.count('reset power-cycle')


class Endless(dict):
    """Tasks that never end."""

    def __setitem__(self, key, value):
        super().__setitem__(key, 4)


def test_no_system_is_reset_while_the_bmc_still_writes():
    """The deadline passes, the flash goes on: cutting the power could brick the card."""
    bench = Bench(machine=Machine(tasks=Endless()))
    _, outcome = bench.run(bench.job(timeout=timedelta(minutes=10)))
    assert isinstance(outcome, Failed)
    assert bench.machine.closed
    assert not any(entry.startswith('reset') for entry in bench.machine.log)
    assert any('it is not reset while a write may still run' in r for r in outcome.reasons)


def test_no_host_is_powered_off_under_the_update_of_somebody_else():
    """It may be the BIOS that is being written."""
    bench = Bench()
    job = bench.job(hold=True)
    bench.machine.tasks = Endless({v.ref('TaskService/Tasks/9'): 4})
    _, outcome = bench.run(job)
    assert isinstance(outcome, Failed)
    assert 'power Off' not in bench.machine.log
    assert PowerState.ON is bench.machine.power


def test_a_busy_bmc_is_not_asked_again_at_once():
    """Each try reads everything and copies the image."""
    bench = Bench(machine=Machine(busy=1))
    job = bench.job()
    while bench.machine.busy:
        job, outcome = bench.turn(job)
    assert ItemState.PLANNED is next(i for i in job.items if isinstance(i.action, Flash)).state
    assert bench.tools.patience.poll == outcome.delay


# --------------------------------------------------------------------------------------------------------- what ends, ends


@pytest.mark.parametrize('after', range(8))
def test_a_configuration_that_breaks_under_a_job_ends_it(after):
    """The address has no scheme any more: no tick raises, and the job ends as failed."""
    bench = Bench()
    job = bench.job()
    for _ in range(after):
        job, _ = bench.turn(job)

    def broken(address):
        raise UsageError(argument='address of BMC host', what='has no scheme')

    bench.tools = replace(bench.tools, connect=broken)
    _, outcome = bench.run(job, ticks=2000)
    assert isinstance(outcome, Failed)


def test_a_lock_that_is_found_open_is_no_lock_in_the_verdict():
    """The bench itself: an ignored lock is read as open."""
    bench = working(Machine(version=v.NEW, lock_ignored=True), Two, LockOfEach)
    job, _ = bench.run(bench.job(parts=LOCK))
    assert {LockState.UNLOCKED} == {f.state for f in job.verdict.findings if str(f.subject).startswith('lock ')}


# -------------------------------------------------------------------------------------- rules for a card that hides its place


class Shy(Connection):
    """The card shows the slot that it is in until something was opened or switched off."""

    def look(self, now):
        seen = super().look(now)
        place = None if {'release', 'power off'} & set(self.machine.log) or self.machine.power is PowerState.OFF else 'Slot 0'
        return replace(seen, accelerators=tuple(replace(a, location=place) for a in seen.accelerators))


@pytest.mark.parametrize(('lowest', 'written'), [(5, True), (6, False)])
def test_the_floor_of_a_rule_holds_for_a_card_that_has_stopped_showing_its_place(lowest, written):
    """The floor of the rule for its slot was raised after the plan, and the image may be below it."""

    def rules(floor: int) -> Baseline:
        said = {'custody': CustodyDemand.REPORTED}
        strict = Rule(name='strict', match=Match(location='Slot 0'), firmware=(('GPU_*', v.NEW),), security_floor=floor, **said)
        return Baseline(rules=(strict, Rule(name='all', match=Match(), block=v.HOST_DEVICE, **said)))

    bench = working(Machine(), Shy, baseline=rules(1))
    job = bench.job(hold=True)
    bench.tools = replace(bench.tools, baseline=rules(lowest))
    bench.run(job)
    assert written is any(line.startswith('push ') for line in bench.machine.log)
