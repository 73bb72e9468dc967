# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A flash that failed is put back once; where that does not help the device is quarantined, and its locks are closed."""

from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from baremetal_acc.errors import BmcBusy, BmcNotAuthorised, BmcRefusalReason, BmcRefused, BmcUnreachable, BmcUnsupported
from baremetal_acc.model.accelerator import PciIds
from baremetal_acc.model.action import Flash
from baremetal_acc.model.codec import decode, encode
from baremetal_acc.model.interference import InterferenceKind
from baremetal_acc.model.inventory import Accounts, BmcUser, Gap, PowerState, TaskReading, TaskState
from baremetal_acc.model.job import Done, Failed, Job
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.model.lock import LockState, ResetKind
from baremetal_acc.model.ref import HOST, AcceleratorId
from baremetal_acc.planning import quarantine_writes, rollback, written_places
from tests.unit.execution.bench import Bench, Connection, Images, Machine, Mechanism, restorable
from tests.unit.execution.world import Card, World
from tests.unit.execution.world import Connection as WorldConnection
from tests.unit.planning import values as v


def pushes(bench):
    return [entry.split()[1] for entry in bench.machine.log if entry.startswith('push')]


def finish(bench, **how):
    job, outcome = bench.run(bench.job(**how))
    assert isinstance(outcome, Failed)
    return job, outcome


def with_connection(bench, kind):
    bench.tools = replace(bench.tools, connect=lambda _: kind(bench.machine))
    return bench


def restoring(job):
    return [i for i in job.items if i.restoring and isinstance(i.action, Flash)]


# ------------------------------------------------------------------------------------------------------------- put back once


@pytest.mark.parametrize('ends', [TaskState.FAILED, TaskState.GONE])
def test_a_flash_that_failed_is_put_back_before_the_locks_are_engaged(ends):
    """The job fails all the same, and says what runs."""
    bench = restorable(Machine(task_ends=ends, spoils=(v.NEW,)))
    job, outcome = finish(bench)
    expected = [
        'withdraw', 'push gpu-new on open', 'push gpu-old on open', 'engage', 'reset power-cycle', 'withdraw everything',
    ]  # fmt: skip
    assert expected == bench.machine.log
    assert v.OLD == bench.machine.version
    assert () == outcome.quarantined
    assert any('restored to 1.0 (image gpu-old)' in r for r in outcome.reasons)
    assert [LockState.LOCKED_VERIFIED] == [f.state for f in job.verdict.findings if f.state]


def test_a_wrong_version_that_shows_only_after_the_reset_goes_through_the_stages_once_more():
    """Written, engaged and reset again, with one more reboot and fresh evidence."""
    bench = restorable(Machine(spoils=(v.NEW,), spoils_when_reset=True))
    job, outcome = finish(bench)
    expected = [
        'withdraw', 'push gpu-new on open', 'engage', 'reset power-cycle',
        'push gpu-old on open', 'engage', 'reset power-cycle', 'withdraw everything',
    ]  # fmt: skip
    assert expected == bench.machine.log
    assert (v.OLD, ()) == (bench.machine.version, outcome.quarantined)
    assert any('in the end it ran broken' in r for r in outcome.reasons)
    assert any('restored to 1.0' in r for r in outcome.reasons)
    assert bench.machine.closed
    assert 1 == len(job.engagements)


def test_a_host_that_was_given_back_is_held_again_while_something_is_put_back():
    """Off before the lock is opened again, on after it is proven again."""
    bench = restorable(Machine(closed=True, protects_all=True, spoils=(v.NEW,), spoils_when_reset=True))
    _, outcome = finish(bench, hold=True)
    once = ['power Off', 'release', 'push gpu-new off open', 'engage', 'power On']
    again = ['power Off', 'release', 'push gpu-old off open', 'engage', 'power On']
    assert ['withdraw', *once, *again, 'withdraw everything'] == bench.machine.log
    assert () == outcome.quarantined


def test_a_lock_that_the_job_closed_itself_is_opened_to_put_back():
    """It was open when the plan was made, so nothing was released; now it stands in the way."""
    bench = restorable(Machine(protects_all=True, spoils=(v.NEW,), spoils_when_reset=True))
    _, outcome = finish(bench)
    after = bench.machine.log[bench.machine.log.index('reset power-cycle') + 1 :]
    assert ['release', 'push gpu-old on open', 'engage', 'reset power-cycle', 'withdraw everything'] == after
    assert bench.machine.closed
    assert () == outcome.quarantined


def test_evidence_from_before_the_second_time_counts_for_nothing():
    """The BMC takes the second engagement and ignores it: the first one does not stand in for it."""

    class Forgets(Machine):
        def power_cycle(self):
            super().power_cycle()
            self.lock_ignored = True

    bench = restorable(Forgets(protects_all=True, spoils=(v.NEW,), spoils_when_reset=True))
    _, outcome = finish(bench)
    assert not bench.machine.closed
    assert any('lock host-device' in r for r in outcome.reasons)


def test_a_lock_that_cannot_be_engaged_again_is_not_proven_by_what_was_engaged_before():
    """It still reads closed; but the card was written since."""

    class Once(Mechanism):
        def engage(self, writer, reading):
            if 'engage' in self.machine.log:
                raise BmcUnsupported(bmc='host', what='not any more')
            super().engage(writer, reading)

    bench = restorable(Machine(spoils=(v.NEW,), spoils_when_reset=True))
    bench.tools = replace(bench.tools, mechanisms=(Once(bench.machine),))
    _, outcome = finish(bench)
    assert bench.machine.closed
    assert any('lock host-device' in r and 'locked-reported' in r for r in outcome.reasons)


def test_what_nobody_can_look_at_in_the_end_is_held():
    """The BMC went away for good after the write: the version that was staged may run, or not."""
    bench = restorable(Machine(closed=True, protects_all=True))
    job = bench.job(timeout=timedelta(minutes=20))
    while 'reset power-cycle' not in bench.machine.log:
        job, _ = bench.turn(job)
    bench.machine.silent = 10_000
    _, outcome = bench.run(job)
    assert isinstance(outcome, Failed)
    assert () == outcome.quarantined
    assert any(f'{v.GPU} is held: ' in r and 'the final inspection failed' in r for r in outcome.reasons)
    assert any('it could not be read whether the lock is engaged again' in r for r in outcome.reasons)


def test_what_to_put_back_is_stored_before_it_is_sent():
    """A shell that dies in between finds it, marked."""
    bench = restorable(Machine(task_ends=TaskState.FAILED))
    finish(bench)
    position = next(n for n, entry in enumerate(bench.machine.log) if entry.startswith('push gpu-old'))
    before = [decode(Job, body) for body, length in bench.saved if length == position]
    assert [ItemState.SENT] == [i.state for i in restoring(before[-1])]


def test_a_reset_that_is_still_to_come_serves_what_is_put_back_too():
    """One reboot, as strong as the stronger of both needs."""
    bench = restorable(Machine(task_ends=TaskState.FAILED), reset=ResetKind.SYSTEM_RESET)
    bench.tools = replace(
        bench.tools, catalogue=(bench.image, replace(bench.others[0], reset=ResetKind.POWER_CYCLE))
    )  # fmt: skip
    finish(bench)
    assert ['reset power-cycle'] == [entry for entry in bench.machine.log if entry.startswith('reset')]


# ----------------------------------------------------------------------------------------------------------------- quarantine


def test_a_failed_flash_without_an_image_to_go_back_to_quarantines_the_device():
    """And names device, what it runs and what to do."""
    bench = Bench(machine=Machine(task_ends=TaskState.FAILED, spoils=(v.NEW,)))
    job, outcome = finish(bench)
    assert ((v.GPU,), (v.GPU,)) == (outcome.quarantined, job.quarantined)
    told = next(r for r in outcome.reasons if 'is quarantined' in r)
    assert all(word in told for word in (v.GPU, 'GPU_0 ran broken', 'no restore image', 'replace the card'))
    assert bench.machine.closed


@pytest.mark.parametrize('when_reset', [False, True])
def test_what_cannot_be_put_back_is_quarantined_and_not_tried_again(when_reset):
    """One attempt."""
    machine = Machine(spoils=(v.NEW, v.OLD), spoils_when_reset=when_reset, task_ends=TaskState.SUCCEEDED)
    bench = restorable(machine)
    _, outcome = finish(bench)
    assert ['gpu-new', 'gpu-old'] == pushes(bench)
    assert (v.GPU,) == outcome.quarantined
    assert bench.machine.closed


def test_a_restore_that_fails_is_quarantined():
    """The BMC says so."""
    bench = restorable(Machine(task_ends=TaskState.FAILED, restores=False))
    _, outcome = finish(bench)
    assert ['gpu-new', 'gpu-old'] == pushes(bench)
    assert (v.GPU,) == outcome.quarantined
    assert any('restore: flash GPU_0' in r for r in outcome.reasons)


def test_an_old_version_that_was_there_all_along_proves_nothing_of_what_was_put_back():
    """The card shows 1.0 before and after; the task of the second write has vanished."""

    class Vanishes(Connection):
        def how_it_ends(self, ref):
            return TaskState.FAILED if self.machine.sent[ref] == v.NEW else TaskState.GONE

    bench = with_connection(restorable(Machine()), Vanishes)
    _, outcome = finish(bench)
    assert ['gpu-new', 'gpu-old'] == pushes(bench)
    assert (v.GPU,) == outcome.quarantined


@pytest.mark.parametrize('what', ['gone', 'denied', 'other'])
def test_an_image_that_must_not_be_put_back_is_not(what):
    """Not in the catalogue any more, denied since, or for another card than the one that is there now."""
    bench = restorable(Machine(task_ends=TaskState.FAILED))
    job = bench.job()
    old = bench.others[0]
    changed = {
        'gone': (),
        'denied': (replace(old, denied='it bricks'),),
        'other': (replace(old, fits=(replace(old.fits[0], model='A100'),)),),
    }
    bench.tools = replace(bench.tools, catalogue=(bench.image, *changed[what]))
    # The plan has checked the image that was in the catalogue then.
    items = tuple(i for i in job.items if getattr(i.action, 'image', None) != 'gpu-old')
    _, outcome = bench.run(replace(job, items=items))
    assert isinstance(outcome, Failed)
    assert ['gpu-new'] == pushes(bench)
    assert (v.GPU,) == outcome.quarantined


def test_nothing_is_opened_again_for_an_image_that_cannot_be_put_back():
    """The catalogue calls an image for another card by its name now; the host is only taken back, for its card is spoilt."""
    bench = restorable(Machine(closed=True, protects_all=True, spoils=(v.NEW,), spoils_when_reset=True))
    job = bench.job(hold=True)
    (old,) = bench.others
    bench.tools = replace(bench.tools, catalogue=(bench.image, replace(old, fits=(replace(old.fits[0], model='A100'),))))
    items = tuple(i for i in job.items if getattr(i.action, 'image', None) != 'gpu-old')
    _, outcome = bench.run(replace(job, items=items))
    once = ['withdraw', 'power Off', 'release', 'push gpu-new off open', 'engage', 'power On']
    assert [*once, 'power Off', 'withdraw everything'] == bench.machine.log
    assert (v.GPU,) == outcome.quarantined


def test_an_image_that_has_changed_since_the_check_is_not_put_back():
    """The very bytes are checked again."""
    bench = restorable(Machine(task_ends=TaskState.FAILED))

    class Swapped(Images):
        def open(self, image):
            self.machine.image_is_good = image.name != 'gpu-old' or not pushes(bench)
            return super().open(image)

    bench.tools = replace(bench.tools, images=Swapped(bench.machine))
    _, outcome = finish(bench)
    assert ['gpu-new'] == pushes(bench)
    assert (v.GPU,) == outcome.quarantined
    assert any('digest differs' in r for r in outcome.reasons)


def test_a_card_that_is_lost_by_its_write_is_quarantined():
    """There is nothing to write to; nobody waits for ever."""

    class Bricks(Connection):
        def finish(self, ref):
            super().finish(ref)
            self.machine.present = False

    bench = with_connection(restorable(Machine(task_ends=TaskState.FAILED)), Bricks)
    _, outcome = finish(bench)
    assert ['gpu-new'] == pushes(bench)
    assert (v.GPU,) == outcome.quarantined
    assert any('the BMC no longer shows the card' in r for r in outcome.reasons)


def test_a_card_that_comes_back_after_its_failure_is_put_back():
    """It restarts, and is not shown for a while."""

    class Restarts(Connection):
        def finish(self, ref):
            super().finish(ref)
            self.machine.present = False

        def look(self, now):
            seen = super().look(now)
            self.machine.resets += 1
            self.machine.present = self.machine.present or self.machine.resets > 5
            return seen

    bench = with_connection(restorable(Machine(task_ends=TaskState.FAILED)), Restarts)
    _, outcome = finish(bench)
    assert ['gpu-new', 'gpu-old'] == pushes(bench)[:2]
    assert any('restored' in r for r in outcome.reasons)


def test_a_host_that_runs_again_is_powered_off_before_what_was_there_is_put_back():
    """Somebody has powered the held host on: nothing is written while its code may run, and the card stays suspect."""

    class PoweredOn(Connection):
        def finish(self, ref):
            super().finish(ref)
            self.machine.power = PowerState.ON

    bench = with_connection(restorable(Machine(task_ends=TaskState.FAILED)), PoweredOn)
    _, outcome = finish(bench, hold=True)
    assert ['push gpu-new off open', 'push gpu-old off open'] == [e for e in bench.machine.log if e.startswith('push')]
    assert [(InterferenceKind.HOST_ON, frozenset({v.GPU}))] == [(i.kind, i.accelerators) for i in outcome.interferences]
    assert PowerState.OFF is bench.machine.power


def test_a_host_is_not_given_back_with_a_card_that_could_not_be_put_back():
    """Its locks hold; but nobody shall use the card, and whoever has the host would."""
    bench = restorable(Machine(task_ends=TaskState.FAILED, restores=False))
    _, outcome = finish(bench, hold=True)
    assert (PowerState.OFF, True) == (bench.machine.power, bench.machine.closed)
    assert 'power On' not in bench.machine.log
    assert f'the host stays powered off: {v.GPU} could be neither written nor restored' in ' '.join(outcome.reasons)


def test_a_host_that_shows_the_bad_card_only_once_it_runs_is_powered_off_again():
    """What was put back breaks with the reset, too: that is seen after the host was given back."""
    bench = restorable(Machine(spoils=(v.NEW, v.OLD), spoils_when_reset=True))
    _, outcome = finish(bench, hold=True)
    assert ['power On', 'power Off', 'withdraw everything'] == bench.machine.log[-3:]
    assert PowerState.OFF is bench.machine.power
    assert 'the host was powered off again' in outcome.reasons
    assert (v.GPU,) == outcome.quarantined


def test_a_host_whose_card_nobody_can_look_at_in_the_end_is_powered_off_again():
    """The BMC shows no card any more, and still takes commands."""

    class Blind(Connection):
        def look(self, now):
            if 'power On' in self.machine.log:
                raise BmcUnreachable(bmc='host', what='no answer')
            return super().look(now)

    bench = with_connection(restorable(Machine()), Blind)
    _, outcome = finish(bench, hold=True, timeout=timedelta(minutes=20))
    assert (PowerState.OFF, ()) == (bench.machine.power, outcome.quarantined)
    assert any('the final inspection failed' in r for r in outcome.reasons)


def test_a_host_that_was_found_off_stays_off_with_a_card_that_could_not_be_put_back():
    """It was to be started for the firmware; there is none that it could start with."""
    bench = restorable(Machine(power=PowerState.OFF, task_ends=TaskState.FAILED, restores=False))
    _, outcome = finish(bench, hold=True)
    assert (PowerState.OFF, (v.GPU,)) == (bench.machine.power, outcome.quarantined)
    assert not any(entry.startswith('power') for entry in bench.machine.log)


def test_a_host_is_not_given_back_with_a_card_that_was_quarantined_before():
    """This job has refused to write it, or has nothing for it; nobody may use it all the same."""
    bench = Bench(machine=Machine())
    job = bench.job(hold=True)
    bench.tools = replace(bench.tools, unusable=lambda _job, _inventory: frozenset({v.GPU}))
    _, outcome = bench.run(job)
    assert isinstance(outcome, Failed)
    assert PowerState.OFF is bench.machine.power
    assert any(f'the host stays powered off: {v.GPU} is quarantined' in r for r in outcome.reasons)


def test_a_host_is_not_given_back_to_an_account_that_nobody_expects():
    """Who may log in to the BMC opens any lock again. Locked first, then looked who there is."""
    admin, mallory = (BmcUser(number=n, name=name, privilege='administrator') for n, name in ((2, 'admin'), (5, 'mallory')))
    bench = Bench(machine=Machine(accounts=Accounts(users=(admin, mallory))))
    rules = bench.baseline
    bench.baseline = replace(rules, rules=tuple(replace(r, bmc_users=('admin',)) for r in rules.rules))
    bench.tools = replace(bench.tools, baseline=bench.baseline)
    _, outcome = bench.run(bench.job(hold=True))
    assert isinstance(outcome, Failed)
    assert PowerState.OFF is bench.machine.power
    assert bench.machine.closed
    (told,) = [r for r in outcome.reasons if 'the host stays powered off' in r]
    assert "users of BMC host: expected no accounts but admin, found 'mallory' (number 5, administrator)" in told
    bench.machine.accounts = Accounts(users=(admin,))
    _, outcome = bench.run(bench.job(hold=True))
    assert isinstance(outcome, Done)


def test_a_host_that_does_not_go_off_is_told_more_than_once_and_then_of():
    """The BMC takes the request and does nothing, as long as it likes; only what was read back is told as done."""
    machine = Machine(spoils=(v.NEW, v.OLD), spoils_when_reset=True)

    class Deaf(Connection):
        def set_power(self, system, wanted):
            if wanted is PowerState.OFF and machine.version == machine.becomes and self.machine.power is PowerState.ON:
                self.machine.log.append('power Off, ignored')
                return
            super().set_power(system, wanted)

    bench = with_connection(Bench(machine=machine), Deaf)
    _, outcome = finish(bench, hold=True)
    assert bench.machine.log.count('power Off, ignored') > 2
    assert PowerState.ON is bench.machine.power
    assert any(
        ('the host may run, since it could not be powered off: it was requested to power off, but is On') in r
        for r in outcome.reasons
    )
    assert 'the host was powered off again' not in outcome.reasons


def test_a_host_that_somebody_powers_on_without_being_asked_is_powered_off_at_the_end():
    """The job had no reason to give it back: it was found off, and nothing needs it on."""

    class PoweredOn(Connection):
        def finish(self, ref):
            super().finish(ref)
            self.machine.power = PowerState.ON

    bench = with_connection(
        Bench(machine=Machine(power=PowerState.OFF, reset_needed=False), image=v.image(reset=ResetKind.NONE)), PoweredOn
    )
    bench.machine.task_ends = TaskState.FAILED
    _, outcome = finish(bench, hold=True)
    assert (PowerState.OFF, (v.GPU,)) == (bench.machine.power, outcome.quarantined)
    assert 'the host was powered off again' in outcome.reasons


@pytest.mark.parametrize('reads', range(1, 7))
def test_a_host_that_goes_off_right_after_it_was_read_is_read_again(reads):
    """It was read as going off, and is off when its power is asked for: the shell is told that it is off."""

    class Slow(Connection):
        def finish(self, ref):
            super().finish(ref)
            self.machine.power = PowerState.ON

        def set_power(self, system, wanted):
            super().set_power(system, wanted)
            if wanted is PowerState.OFF:
                self.machine.power = PowerState.POWERING_OFF

        def look(self, now):
            seen = super().look(now)
            if self.machine.power is PowerState.POWERING_OFF:
                going.append(now)
                self.machine.power = PowerState.OFF if len(going) >= reads else PowerState.POWERING_OFF
            return seen

    going, told = [], []
    bench = with_connection(
        Bench(machine=Machine(power=PowerState.OFF, reset_needed=False), image=v.image(reset=ResetKind.NONE)), Slow
    )
    bench.machine.task_ends = TaskState.FAILED
    bench.tools = replace(bench.tools, observed=lambda inventory, _: told.append(inventory.bmc(HOST).power))
    _, outcome = finish(bench, hold=True)
    assert PowerState.OFF is told[-1]
    assert 'the host was powered off again' in outcome.reasons


def test_past_the_deadline_nothing_is_put_back():
    """No write is begun that nobody would wait for; the device, which runs what it ran, is held."""

    class Endless(dict):
        def __setitem__(self, key, value):
            super().__setitem__(key, 4)

    bench = restorable(Machine(tasks=Endless()))
    _, outcome = finish(bench, timeout=timedelta(minutes=10))
    assert ['gpu-new'] == pushes(bench)
    assert () == outcome.quarantined
    (told,) = [r for r in outcome.reasons if 'is held' in r]
    assert 'whether the write of image gpu-new to GPU_0 has ended is not known (task ' in told


# ------------------------------------------------------------------------------------------------------- nothing to put back


@pytest.mark.parametrize(
    'error',
    [BmcRefused(bmc='host', what='no', reason=BmcRefusalReason.INVALID_REQUEST), BmcNotAuthorised(bmc='host', what='role')],
)
def test_a_write_that_the_bmc_refused_needs_nothing_put_back(error):
    """It has taken nothing: the device is as it was, and in nobody's quarantine."""

    class Refuses(Connection):
        def push(self, target, upload):
            raise error

    bench = with_connection(restorable(Machine()), Refuses)
    job, outcome = finish(bench)
    assert ([], (), False) == (restoring(job), outcome.quarantined, outcome.wrote)
    assert bench.machine.closed


@pytest.mark.parametrize(
    'error',
    [BmcRefused(bmc='host', what='oops', reason=BmcRefusalReason.INTERNAL_ERROR), BmcUnreachable(bmc='host', what='cut')],
)
def test_a_write_whose_answer_says_nothing_is_put_back_when_it_does_not_show(error):
    """An internal error tells as little as a cut connection: the BMC may have taken all of it."""

    class Breaks(Connection):
        def push(self, target, upload):
            if upload.file == 'gpu-new':
                self.machine.log.append('push gpu-new on open')
                raise error
            return super().push(target, upload)

    bench = with_connection(restorable(Machine()), Breaks)
    _, outcome = finish(bench)
    assert ['gpu-new', 'gpu-old'] == pushes(bench)
    assert () == outcome.quarantined


def test_a_device_that_changed_since_the_plan_is_not_put_back():
    """We have not touched it."""
    bench = restorable(Machine())
    job = bench.job()
    bench.machine.version = '1.5'
    job, outcome = bench.run(job)
    assert isinstance(outcome, Failed)
    assert ([], ()) == (pushes(bench), outcome.quarantined)


def test_a_job_that_was_stored_before_there_was_restoring_still_loads():
    """The fields that are new have defaults."""
    body = encode(restorable(Machine()).job())
    for name in ('second', 'quarantined'):
        del body[name]
    for item in body['items']:
        for name in ('moved', 'stalled', 'untouched', 'restoring'):
            item.pop(name, None)
        item['action'].pop('restore', None)
    old = decode(Job, body)
    assert ((), False) == (old.quarantined, old.second)
    assert () == rollback.due(old, v.NOW)


# -------------------------------------------------------------------------------------------------------------- ridden out


class Stuck(Connection):
    """The task of the new image says 99 % for ever."""

    shows = None

    def task(self, ref):
        if self.machine.sent.get(ref) == v.NEW:
            if self.machine.version != v.OLD or self.shows is None:
                return TaskReading(ref=ref, state=TaskState.ACTIVE, raw='Running/OK', percent=99)
            self.machine.version = self.shows
        return super().task(ref)

    def finish(self, ref):
        if self.machine.sent[ref] != v.NEW:
            super().finish(ref)

    def active_tasks(self):
        stuck = [r for r, version in self.machine.sent.items() if version == v.NEW]
        mine = [TaskReading(ref=r, state=TaskState.ACTIVE, raw='Running/OK', percent=99) for r in stuck]
        return [*mine, *(t for t in super().active_tasks() if t.ref not in stuck)]


def test_a_task_that_never_ends_is_done_when_the_device_shows_the_version():
    """99 % for ever is no life: after the time to stall the device is asked, and that task keeps nothing from going on."""

    class Shows(Stuck):
        shows = v.NEW

    bench = with_connection(restorable(Machine(), reset=ResetKind.NONE), Shows)
    _, outcome = bench.run(bench.job(timeout=timedelta(hours=3)), ticks=2000)
    assert isinstance(outcome, Done)
    assert 'publish' == bench.machine.log[-1]


def test_a_task_that_never_ends_and_shows_nothing_holds_its_card_before_the_deadline():
    """Whether its write has ended nobody knows, so nothing is put back; and nobody waits for the deadline to learn that."""
    bench = with_connection(restorable(Machine(), reset=ResetKind.NONE), Stuck)
    began = bench.now
    _, outcome = bench.run(bench.job(timeout=timedelta(hours=30)), ticks=2000)
    assert isinstance(outcome, Failed)
    assert ['gpu-new'] == pushes(bench)
    assert () == outcome.quarantined
    assert bench.now - began < timedelta(hours=3)
    assert any('has made no progress for long' in r for r in outcome.reasons)
    assert any('in the end it ran 1.0. Nothing more is sent' in r for r in outcome.reasons), outcome.reasons


def test_a_task_that_goes_on_under_another_name_is_waited_for():
    """Our task is gone, and another one runs: it may be ours, so nothing has failed yet."""

    class Renames(Connection):
        def task(self, ref):
            return TaskReading(ref=ref, state=TaskState.GONE, raw='404')

        def active_tasks(self):
            self.machine.resets += 1
            if not self.machine.sent or self.machine.resets > 40:
                if self.machine.sent:
                    self.machine.version = v.NEW
                return []
            return [TaskReading(ref=v.ref('TaskService/Tasks/new'), state=TaskState.ACTIVE, raw='Running/OK')]

    bench = with_connection(restorable(Machine(), reset=ResetKind.NONE), Renames)
    _, outcome = bench.run(bench.job())
    assert isinstance(outcome, Done)
    assert ['gpu-new'] == pushes(bench)


def test_another_staged_version_is_no_success():
    """The task says that it succeeded; the next reset would bring something else in force."""

    class Wrong(Connection):
        def finish(self, ref):
            super().finish(ref)
            if self.machine.sent[ref] == v.NEW:
                self.machine.staged = 'other'

    bench = with_connection(restorable(Machine()), Wrong)
    _, outcome = finish(bench)
    assert ['gpu-new', 'gpu-old'] == pushes(bench)
    assert (v.OLD, None) == (bench.machine.version, bench.machine.staged)
    assert 1 == bench.machine.resets
    assert () == outcome.quarantined


class Changing(Connection):
    """A host whose power is just changing: what asks for another change is refused, so often."""

    def refuse(self):
        if self.machine.conflicts:
            self.machine.conflicts -= 1
            raise BmcRefused(bmc='host', what='the power state is changing', reason=self.machine.refusal)

    def set_power(self, system, wanted):
        self.refuse()
        super().set_power(system, wanted)

    def reset(self, system, kind):
        self.refuse()
        super().reset(system, kind)


@pytest.mark.parametrize('hold', [True, False])
def test_a_host_whose_power_is_just_changing_is_asked_again(hold):
    """A conflict passes when the change is over; a reset that was refused is sent again."""
    bench = with_connection(restorable(Machine()), Changing)
    bench.machine.conflicts, bench.machine.refusal = 3, BmcRefusalReason.CONFLICT
    _, outcome = bench.run(bench.job(hold=hold))
    assert isinstance(outcome, Done)
    assert (0, 1) == (bench.machine.conflicts, bench.machine.resets)


def test_a_host_that_refuses_to_power_off_fails_the_job():
    """Another refusal than that is final, and so is one that does not end."""
    for conflicts, reason in ((1, BmcRefusalReason.INVALID_REQUEST), (10_000, BmcRefusalReason.CONFLICT)):
        bench = with_connection(restorable(Machine()), Changing)
        bench.machine.conflicts, bench.machine.refusal = conflicts, reason
        _, outcome = finish(bench, hold=True)
        assert any('the power state is changing' in reason for reason in outcome.reasons)
        assert [] == pushes(bench)
        assert timedelta(minutes=12) > bench.now - v.NOW  # two times reset_timeout: to power off, and to power on


def test_what_was_staged_before_the_write_is_not_its_result():
    """The version was waiting for a reset already, and the BMC has forgotten the write, which never arrived."""
    bench = restorable(Machine(staged=v.NEW, arrives=False, task_ends=TaskState.GONE))
    _, outcome = finish(bench)
    assert ['gpu-new', 'gpu-old'] == pushes(bench)
    assert (v.GPU,) == outcome.quarantined


def test_what_somebody_stages_between_plan_and_write_is_not_the_result_of_the_write():
    """What is staged right before the write counts, not what was staged when the plan was made."""
    bench = restorable(Machine(arrives=False, task_ends=TaskState.GONE))
    job = bench.job()
    bench.machine.staged = v.NEW
    _, outcome = bench.run(job)
    assert isinstance(outcome, Failed)
    assert ['gpu-new', 'gpu-old'] == pushes(bench)
    assert (v.GPU,) == outcome.quarantined


def test_a_bmc_that_dies_in_the_look_before_a_write_is_waited_for():
    """The part of a card that it showed before is not judged: the image would not fit it."""

    class Dying(Connection):
        def look(self, now):
            found = super().look(now)
            if self.machine.busy_looks <= 0 or 'withdraw' not in self.machine.log:
                return found
            self.machine.busy_looks -= 1
            part = replace(found.accelerators[0], vendor=None, model=None, part_number=None, pci=PciIds())
            gap = Gap(ref=v.ref('Chassis'), reason='no answer', hides=True)
            return replace(found, accelerators=(part,), gaps=(gap,))

    bench = with_connection(restorable(Machine()), Dying)
    bench.machine.busy_looks = 4
    _, outcome = bench.run(bench.job())
    assert isinstance(outcome, Done)
    assert 0 == bench.machine.busy_looks
    assert ['gpu-new'] == pushes(bench)


@pytest.mark.parametrize(
    ('error', 'minutes'),
    [
        (BmcUnreachable(bmc='host', what='connection refused'), 12),
        (BmcBusy(bmc='host', what='503'), 4),
        (BmcNotAuthorised(bmc='host', what='401'), 12),
    ],
)
@pytest.mark.parametrize('when', ['push', 'engage', 'reset'])
def test_a_bmc_that_is_away_for_minutes_is_ridden_out(error, minutes, when):
    """In whichever stage: after the write, after the engagement, before the final look."""
    bench = restorable(Machine())
    job = bench.job()
    while not any(entry.startswith(when) for entry in bench.machine.log):
        job, outcome = bench.turn(job)
        bench.now += outcome.delay
    gone = bench.now + timedelta(minutes=minutes)

    def connect(address):
        if bench.now < gone:
            raise error
        return Connection(bench.machine)

    bench.tools = replace(bench.tools, connect=connect)
    _, outcome = bench.run(job)
    assert isinstance(outcome, Done)
    assert ['gpu-new'] == pushes(bench)


def test_a_card_that_is_not_shown_for_a_while_is_still_locked():
    """The BMC has just started, and lists its devices seconds later."""

    class Late(Connection):
        def look(self, now):
            seen = super().look(now)
            if not any(entry.startswith('push') for entry in self.machine.log):
                return seen
            self.machine.silent_looks = getattr(self.machine, 'silent_looks', 0) + 1
            return replace(seen, accelerators=()) if self.machine.silent_looks < 4 else seen

    bench = with_connection(restorable(Machine()), Late)
    _, outcome = bench.run(bench.job())
    assert isinstance(outcome, Done)
    assert bench.machine.closed


def test_a_bmc_that_was_not_asked_whether_it_is_busy_gets_no_image():
    """The host is seen off and the writes begin in one tick; somebody else's update runs."""

    class Others(Connection):
        asked = 0

        def active_tasks(self):
            off = self.machine.power is PowerState.OFF
            busy = off and Others.asked < 3
            Others.asked += off
            others = [TaskReading(ref=v.ref('TaskService/Tasks/9'), state=TaskState.ACTIVE, raw='Running/OK')]
            return others if busy else super().active_tasks()

        def push(self, target, upload):
            assert Others.asked >= 3
            return super().push(target, upload)

    bench = with_connection(restorable(Machine()), Others)
    _, outcome = bench.run(bench.job(hold=True))
    assert isinstance(outcome, Done)


# ------------------------------------------------------------------------------------------------ a component that is gone


@dataclass
class Renaming(Machine):
    """A machine whose firmware item has another name once an image has arrived.

    :ivar shows: the card is shown meanwhile; ``hides``: a part of the inventory could not be read; ``others``: so many updates
        run that are not ours; ``comes_back``: after so many looks at the item it is there again.
    """

    shows: bool = True
    hides: bool = False
    others: int = 0
    comes_back: int = 10_000

    @property
    def renamed(self) -> bool:
        return bool(self.sent) and not any(self.tasks.values()) and self.comes_back > 0


class Renamed(Connection):
    def look(self, now):
        found = super().look(now)
        if not self.machine.renamed:
            return found
        # Another SoftwareId: nothing says that it is the component that was written.
        new = replace(v.component('GPU_0_1', v.NEW, software_id='0x0099'), ref=v.ref('UpdateService/FirmwareInventory/GPU_0_1'))
        gaps = (Gap(ref=v.ref('Chassis'), reason='HTTP 500', hides=True),) if self.machine.hides else ()
        cards = (v.gpu(firmware=(new,), locks=()),) if self.machine.shows else ()
        return replace(found, accelerators=cards, gaps=gaps)

    def component(self, ref):
        if self.machine.renamed:
            self.machine.comes_back -= 1
            raise BmcRefused(bmc='host', what='no such resource', reason=BmcRefusalReason.NOT_FOUND)
        return super().component(ref)

    def active_tasks(self):
        foreign = v.ref('TaskService/Tasks/foreign')
        extra = [TaskReading(ref=foreign, state=TaskState.ACTIVE, raw='Running/OK')] * self.machine.others
        return super().active_tasks() + (extra if self.machine.sent else [])


def renamed(**how):
    return with_connection(restorable(Renaming(reset_needed=False, **how), reset=ResetKind.NONE), Renamed)


def test_a_component_that_its_card_shows_no_more_is_judged_when_it_had_the_time_to_settle():
    """F16. The card is quarantined long before the deadline; the reasons name what was written and what is there now."""
    bench = renamed()
    _, outcome = finish(bench, timeout=timedelta(hours=5))
    assert (v.GPU,) == outcome.quarantined
    assert ['gpu-new'] == pushes(bench)
    (told,) = [r for r in outcome.reasons if 'is quarantined' in r]
    assert 'GPU_0 was no longer shown; the card showed GPU_0_1 2.0' in told
    assert 'the deadline has passed' not in outcome.reasons
    assert timedelta(minutes=5) > bench.now - v.NOW


@pytest.mark.parametrize('how', [{'shows': False}, {'hides': True}, {'others': 1}], ids=str)
def test_a_component_is_waited_for_while_its_card_is_not_shown_or_may_not_be_or_its_bmc_is_busy(how):
    """Only the deadline ends that."""
    bench = renamed(**how)
    _, outcome = finish(bench, timeout=timedelta(minutes=30))
    assert 'the deadline has passed' in outcome.reasons
    assert () == outcome.quarantined or how == {'shows': False}
    assert ['gpu-new'] == pushes(bench)


def test_a_component_that_is_shown_again_in_time_is_done():
    """A BMC may list its items one after the other."""
    bench = renamed(comes_back=3)
    _, outcome = bench.run(bench.job())
    assert isinstance(outcome, Done)
    assert v.NEW == bench.machine.version


def test_what_a_card_shows_is_told_in_a_sentence_that_ends():
    """A BMC may show hundreds of items with names of any length."""
    many = tuple(v.component(f'{n:03}' + 'x' * 500, 'y' * 500) for n in range(300))
    told = written_places.found_in(v.gpu(firmware=many), None)
    assert told.startswith('was no longer shown; the card showed 000xxx')
    assert told.endswith(' and 294 more')
    assert 1000 > len(told)
    assert 'was no longer shown; the card showed no firmware' == written_places.found_in(v.gpu(firmware=()), None)


def test_a_bmc_is_looked_at_once_in_a_turn_however_many_of_its_components_are_gone():
    """A look is a hundred requests to a BMC that has just been busy."""
    world = World(cards=[Card(number=n, bmc=HOST) for n in range(4)], parallel=4, reset_needed=False)
    job = world.job(hold=False, timeout=timedelta(hours=1))
    while sum(i.state is ItemState.RUNNING for i in job.items) < 4:
        job, _ = world.turn(job)
    world.go_on(timedelta(minutes=5))
    for card in world.cards:
        card.present = False
    looks = []

    class Counting(WorldConnection):
        def look(self, now):
            looks.append(now)
            return super().look(now)

    world.tools = replace(world.tools, connect=lambda address: Counting(world, address.name))
    job, _ = world.turn(job)
    assert 4 == sum(i.state is ItemState.RUNNING for i in job.items)
    assert 1 == len(looks)


def test_only_what_was_written_well_itself_is_written_anew():
    """A job for another card mends nothing of a quarantined one, nor does one that failed or that put something back."""
    bench = Bench()
    job, outcome = bench.run(bench.job())
    assert isinstance(outcome, Done)
    ref = next(i.action.ref for i in job.items if isinstance(i.action, Flash))
    other = AcceleratorId('uuid:other')
    assert {v.GPU} == quarantine_writes.written_anew(job, v.GPU, firmware=True, places=())
    assert {v.GPU} == quarantine_writes.written_anew(job, other, firmware=True, places=[ref]), 'another name in the same place'
    assert frozenset() == quarantine_writes.written_anew(job, other, firmware=True, places=[replace(ref, uri='/elsewhere')])
    failed, _ = finish(restorable(Machine(task_ends=TaskState.FAILED)))
    assert frozenset() == quarantine_writes.written_anew(failed, v.GPU, firmware=True, places=[ref])


class Deaf(Connection):
    """A host that stays on, whatever it is told."""

    def set_power(self, system, wanted):
        self.machine.log.append(f'power {wanted}')


def test_a_host_that_stays_on_is_told_of_with_what_it_was_told():
    """It may yet go off: the reason of the job says that it was asked to."""
    bench = with_connection(restorable(Machine()), Deaf)
    _, outcome = finish(bench, hold=True)
    assert [] == pushes(bench)
    assert (
        'power off host:/redfish/v1/Systems/1: it was requested to power off, but the host was not seen off within 0:05:00'
        in outcome.reasons
    )
    assert not outcome.wrote
