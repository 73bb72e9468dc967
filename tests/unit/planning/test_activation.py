# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What brings firmware in force: the one reset that covers others, what refuses it, what follows it, and who is waited for."""

from dataclasses import replace
from datetime import timedelta

import pytest

from baremetal_acc.model.action import Engage, Flash, Reset, ResetPurpose, Stage, stage
from baremetal_acc.model.inventory import PowerState
from baremetal_acc.model.job import Flow
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.model.lock import ResetKind, Scope
from baremetal_acc.model.plan import Plan
from baremetal_acc.planning import rollback, write_outcomes
from baremetal_acc.planning.action_descriptions import describe
from baremetal_acc.planning.job_items import ended
from baremetal_acc.planning.job_readings import Sight
from baremetal_acc.planning.job_transitions import advance, begin
from baremetal_acc.planning.plan import EVERYTHING, Part, plan
from baremetal_acc.planning.retry_limits import RetryLimits
from tests.unit.planning import refusal_words
from tests.unit.planning import values as v

AUX, AC = ResetKind.AUX_POWER_CYCLE, ResetKind.AC_POWER_CYCLE
MANAGER, CHASSIS = v.ref('Managers/1'), v.ref('Chassis/BMC_0')
PATIENCE = RetryLimits(person=timedelta(hours=3))
LATER = v.NOW + timedelta(seconds=30)


def host(**changes):
    """A BMC that can do all of it, and keeps a host off that was off."""
    return v.facts(**({'manager': MANAGER, 'standby_reset': CHASSIS, 'power_restore': 'LastState'} | changes))


def planned(kind, *locks, facts=None, block=frozenset(), parts=EVERYTHING - {Part.PUBLISH}, **how):
    card = v.gpu(locks=locks)
    seen = v.inventory(card, bmcs=(facts or host(),))
    return plan(seen, v.baseline(block=block), v.NODE, (v.image(reset=kind),), parts=parts, **how)


def resets(made):
    return [(a.system, a.purpose.value, a.kind, a.by) for a in made.actions if isinstance(a, Reset)]


@pytest.mark.parametrize(('kind', 'by'), [(AUX, CHASSIS), (AC, None)])
@pytest.mark.parametrize(
    ('power', 'hold', 'before', 'after'),
    [
        (PowerState.ON, True, [(v.SYSTEM, 'hold', ResetKind.NONE, None)], [(v.SYSTEM, 'resume', ResetKind.NONE, None)]),
        (PowerState.OFF, True, [(v.SYSTEM, 'hold', ResetKind.NONE, None)], []),
        (PowerState.ON, False, [], [(v.SYSTEM, 'enforce', ResetKind.POWER_CYCLE, None)]),
        (PowerState.OFF, False, [], []),
    ],
)
def test_standby_power_goes_once_and_the_host_is_as_before(kind, by, power, hold, before, after):
    """Held or not, on or off: what was on is on again, and what was off stays off."""
    made = planned(kind, facts=host(power=power), hold=hold)
    assert () == made.refusals
    assert [*before, (v.SYSTEM, 'enforce', kind, by), *after] == resets(made)
    assert [MANAGER] == [a.manager for a in made.actions if isinstance(a, Reset) and a.kind is kind]


def test_a_restart_of_the_bmc_alone_is_not_asked_for_with_it():
    """It restarts anyway; a restart of the host that a lock needs is that by which the host comes back."""
    nic = v.reading(mechanism='nic', place='Managers/1', scope=Scope.BMC, needs=ResetKind.BMC_RESET, reset=MANAGER)
    bios = v.reading(mechanism='bios', place='Bios', needs=ResetKind.SYSTEM_RESET, reset=v.SYSTEM)
    made = planned(AUX, nic, bios, block=v.HOST_DEVICE)
    assert [(v.SYSTEM, 'enforce', AUX, CHASSIS), (v.SYSTEM, 'enforce', ResetKind.SYSTEM_RESET, None)] == resets(made)
    (cycle,) = [a for a in made.actions if isinstance(a, Reset) and a.kind is AUX]
    assert {'BMC host nic', 'H100 GPU_0 firmware GPU_0'} == set(cycle.why)


@pytest.mark.parametrize(
    ('kind', 'facts', 'hold', 'says'),
    [
        (AUX, {'standby_reset': None}, False, 'has to do an aux-power-cycle, and its BMC offers no action for that'),
        (AUX, {'power': PowerState.UNKNOWN}, False, 'its BMC does not report its power state'),
        (AC, {'power': PowerState.UNKNOWN}, False, 'its BMC does not report its power state'),
        (AUX, {'power_restore': 'AlwaysOn'}, True, 'powers on by itself when power returns'),
        (AC, {'power_restore': 'AlwaysOn'}, True, 'powers on by itself when power returns'),
        (AUX, {'resets': frozenset({ResetKind.SYSTEM_RESET})}, False, 'has to be powered off and on'),
        (AUX, {'system': None}, False, 'needs an aux-power-cycle, and the BMC shows no System to reset'),
        (ResetKind.BMC_RESET, {'manager': None}, False, 'and the BMC shows no Manager that can be restarted'),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_plan(kind, facts, hold, says):
    """Before anything is touched."""
    assert any(says in one for one in refusal_words.sentences(planned(kind, facts=host(**facts), hold=hold)))


def test_a_host_that_nobody_holds_may_come_on_by_itself():
    """It runs the operator's ramdisk, and would be started anyway."""
    assert () == planned(AUX, facts=host(power_restore='AlwaysOn')).refusals


def test_a_bmc_is_restarted_for_its_firmware():
    """The Manager is reset, the host is not."""
    assert [(MANAGER, 'enforce', ResetKind.BMC_RESET, None)] == resets(planned(ResetKind.BMC_RESET))


@pytest.mark.parametrize(('kind', 'again'), [(AUX, 1), (ResetKind.BMC_RESET, 1), (ResetKind.POWER_CYCLE, 0)])
def test_a_lock_that_its_bmc_keeps_in_memory_is_closed_once_more_before_the_host_starts(kind, again):
    """And is no business of a reset that the BMC outlives."""
    made = planned(kind, v.reading(volatile=True), v.reading(mechanism='kept', place='Kept'), block=v.HOST_DEVICE, hold=True)
    assert () == made.refusals
    stages = [stage(a) for a in made.actions]
    assert again == stages.count(Stage.REENGAGE)
    assert sorted(stages) == stages
    assert 2 == stages.count(Stage.ENGAGE)
    assert {'rot'} >= {a.mechanism for a in made.actions if isinstance(a, Engage) and a.again}


def test_somebody_who_reads_the_plan_learns_that_a_person_is_needed():
    """By the machine's name."""
    assert [
        n for n in refusal_words.notes(planned(AC).notes) if 'a person has to unplug and replug the power cord of' in n.text
    ]
    assert [] == [n for n in refusal_words.notes(planned(AUX).notes) if 'power cord' in n.text]


# ---------------------------------------------------------------------------------------------------------------------- jobs


FLASH = Flash(
    accelerator=v.gpu().id, component='GPU_0', ref=v.component().ref, image='gpu-new', version=v.NEW, expects=v.OLD, reset=AC
)


def waiting(kind=AC, **item):
    """A job that has written, and waits for the loss of standby power."""
    cycle = Reset(system=v.SYSTEM, purpose=ResetPurpose.ENFORCE, kind=kind, why=(), manager=MANAGER)
    made = Plan(target='n', actions=(replace(FLASH, reset=kind), cycle))
    job = begin(made, identity='j', node='n', flow=Flow.CLI, step='s', lifecycle=1, now=v.NOW, timeout=timedelta(hours=1))
    job = replace(ended(job, 0, ItemState.STAGED, v.NOW), deadline=job.deadline + PATIENCE.person)
    return replace(job, items=(job.items[0], replace(job.items[1].to(ItemState.RUNNING, v.NOW), **item)))


def turned(job, came, now):
    return advance(job, Sight(resets={1: came}), now, PATIENCE).job


def test_the_time_in_which_a_person_is_waited_for_is_none_of_the_job():
    """Its deadline is as far away as it was, and nothing of the job is late meanwhile."""
    job = waiting()
    at = v.NOW + timedelta(hours=2)
    assert ItemState.RUNNING is turned(job, False, at).items[1].state
    assert () == turned(job, None, at).reasons
    after = turned(job, True, at)
    assert (ItemState.DONE, v.NOW + timedelta(hours=3)) == (after.items[1].state, after.deadline)


def test_a_person_is_waited_for_no_longer_than_was_told():
    """What is left to do is said; the write is neither wrong nor the device quarantined, whatever it shows."""
    job = waiting()
    last = v.NOW + PATIENCE.person
    assert () == turned(job, False, last).reasons
    after = turned(job, False, last + timedelta(seconds=1))
    assert ItemState.FAILED is after.items[1].state
    assert f'not done by {last:%Y-%m-%d %H:%M:%S}Z; GPU_0 of' in after.reasons[0]
    seen = v.inventory()
    assert {} == write_outcomes.wrong(after, seen)
    end = write_outcomes.judge(after, seen)
    assert ((), True) == (end.quarantined, 'is held: image gpu-new is written to GPU_0' in end.held[0])
    assert () == rollback.due(after, last)


def test_a_cycle_that_came_and_changed_nothing_is_a_failed_write():
    """Then the device does not run what was written."""
    after = turned(waiting(), True, LATER)
    assert [0] == list(write_outcomes.wrong(after, v.inventory()))


def test_a_bmc_that_falls_silent_is_remembered():
    """By that it is known to have restarted where it keeps no time of it."""
    assert turned(waiting(AUX), None, LATER).items[1].silent


@pytest.mark.parametrize(
    ('kind', 'says'), [(AUX, 'cycle the standby power of'), (AC, 'wait for a person to unplug and replug the power cord of')]
)
def test_what_it_is_about_is_said_in_words(kind, says):
    """The machine is named."""
    assert f'{says} {v.SYSTEM}' in describe(waiting(kind).items[1].action)


def test_no_standby_power_goes_for_an_image_that_was_not_written():
    """Nor is anybody asked to pull a cord; and the host is not started that was not powered off for it."""
    cycle = Reset(system=v.SYSTEM, purpose=ResetPurpose.ENFORCE, kind=AC, why=())
    back = replace(cycle, kind=ResetKind.POWER_CYCLE)
    made = Plan(target='n', actions=(FLASH, cycle, back))
    job = begin(made, identity='j', node='n', flow=Flow.CLI, step='s', lifecycle=1, now=v.NOW, timeout=timedelta(hours=1))
    failed = ended(job, 0, ItemState.FAILED, v.NOW, untouched=True)
    assert [ItemState.SKIPPED] * 2 == [i.state for i in advance(failed, Sight(), v.NOW, PATIENCE).job.items[1:]]
    staged = ended(job, 0, ItemState.STAGED, v.NOW)
    off = ended(staged, 1, ItemState.FAILED, v.NOW, 'refused')
    assert [2] == list(advance(off, Sight(), v.NOW, PATIENCE).perform)
