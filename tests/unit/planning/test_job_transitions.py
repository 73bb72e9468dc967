# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What of a job is due: stages in order, limits of BMCs and cards kept, locks engaged whatever failed."""

from dataclasses import replace
from datetime import timedelta

import pytest

from baremetal_acc.model.action import (
    CheckImage,
    Engage,
    Flash,
    Program,
    Publish,
    Release,
    Reset,
    ResetPurpose,
    Stage,
    Withdraw,
)
from baremetal_acc.model.image import UploadProgress
from baremetal_acc.model.job import Flow, Job
from baremetal_acc.model.job_item import Item, ItemState
from baremetal_acc.model.lock import ResetKind, Scope
from baremetal_acc.model.plan import Plan
from baremetal_acc.model.ref import HOST, BmcName, Ref
from baremetal_acc.model.verdict import Verdict
from baremetal_acc.planning.action_descriptions import describe
from baremetal_acc.planning.job_items import ended
from baremetal_acc.planning.job_readings import UNASKED, Sight, WriteSight
from baremetal_acc.planning.job_transitions import advance, begin, current, expire, sent, taken_up
from baremetal_acc.planning.retry_limits import RetryLimits
from baremetal_acc.planning.update_states import UpdateObservation
from baremetal_acc.planning.write_transitions import stalls
from tests.unit.planning import values as v

PATIENCE = RetryLimits(poll=timedelta(seconds=5), settle=timedelta(seconds=60), reset=timedelta(minutes=5))
DPU = BmcName('dpu')


def flash(number: int, *, card: str | None = None, bmc: BmcName = HOST, order: int = 0) -> Flash:
    ref = Ref(bmc=bmc, uri=f'/redfish/v1/UpdateService/FirmwareInventory/{number}')
    card = card or f'uuid:{number}'
    return Flash(accelerator=card, component=str(number), ref=ref, image='i', version=v.NEW, expects=v.OLD, order=order)


def engage(card: str = 'uuid:0') -> Engage:
    return Engage(accelerator=card, mechanism='rot', ref=v.ref('Chassis/RoT'), field='Closed', blocks=v.HOST_DEVICE)


def job(*actions, parallel: int = 1):
    made = Plan(target='n', actions=actions, parallel=((HOST, parallel), (DPU, parallel)))
    return begin(made, identity='j', node='n', flow=Flow.CLEAN, step='s', lifecycle=1, now=v.NOW, timeout=timedelta(hours=1))


def due(value, sight=None, now=v.NOW):
    move = advance(value, sight or Sight(), now, PATIENCE)
    return [value.items[p].action for p in move.perform]


def test_a_stage_begins_when_the_one_before_it_has_ended():
    """Withdraw before anything is written, locks before resets, publishing last."""
    reset = Reset(system=v.SYSTEM, purpose=ResetPurpose.ENFORCE, kind=ResetKind.POWER_CYCLE, why=())
    value = job(Withdraw(accelerators=()), flash(0), engage(), reset, Publish())
    seen = []
    for position in range(4):
        seen += [type(a).__name__ for a in due(value)]
        value = ended(value, position, ItemState.DONE, v.NOW)
    assert ['Withdraw', 'Flash', 'Engage', 'Reset'] == seen
    assert Stage.VERIFY is current(value)
    assert [] == due(value)


@pytest.mark.parametrize(('parallel', 'expected'), [(1, 1), (2, 2), (9, 3)])
def test_a_bmc_gets_no_more_updates_at_once_than_it_takes(parallel, expected):
    """One, unless something says more."""
    assert expected == len(due(job(flash(0), flash(1), flash(2), parallel=parallel)))


def test_every_bmc_has_its_own_limit():
    """A DPU's BMC works beside the host's."""
    assert [HOST, DPU] == [a.ref.bmc for a in due(job(flash(0), flash(1), flash(2, bmc=DPU)))]


def test_a_card_is_never_written_twice_at_once():
    """However much its BMC would take."""
    two_on_one = job(flash(0, card='uuid:x'), flash(1, card='uuid:x'), flash(2), parallel=9)
    assert ['0', '2'] == [a.component for a in due(two_on_one)]
    running = ended(two_on_one, 0, ItemState.RUNNING, v.NOW)
    assert ['2'] == [a.component for a in due(running)]


def test_updates_of_others_count_too():
    """A BMC that is busy with somebody else's update gets none of ours, however many it takes: it may be of the same card."""
    value = job(flash(0), flash(1), parallel=3)
    assert ['0', '1'] == [a.component for a in due(value, Sight(foreign={HOST: 0}))]
    assert [] == due(value, Sight(foreign={HOST: 1}))
    assert ['0', '1'] == [a.component for a in due(value, Sight(foreign={DPU: 1}))]


def test_lower_orders_are_written_first():
    """A later order waits for every earlier one of the target, whichever BMC that is of; equal ones of two BMCs go together."""
    value = job(flash(0, order=1), flash(1, order=2), flash(2, bmc=DPU, order=2), flash(3, bmc=DPU, order=3), parallel=9)
    assert ['0'] == [a.component for a in due(value)]
    assert [] == due(ended(value, 0, ItemState.RUNNING, v.NOW))
    value = ended(value, 0, ItemState.STAGED, v.NOW)
    assert ['1', '2'] == [a.component for a in due(value)]
    value = ended(value, 2, ItemState.DONE, v.NOW)
    assert ['1'] == [a.component for a in due(value)]
    assert ['3'] == [a.component for a in due(ended(value, 1, ItemState.DONE, v.NOW))]


def test_a_write_that_was_sent_is_not_due_again():
    """It is looked for; whatever can be repeated without harm is due again."""
    value = sent(job(flash(0)), [0], v.NOW)
    assert [] == due(value)
    value = sent(job(engage()), [0], v.NOW)
    assert [engage()] == due(value)


def test_after_a_failed_write_the_locks_are_engaged_and_placement_is_told():
    """Writes that were not begun are skipped; what is published after a failure is that nothing is offered."""
    value = job(flash(0), flash(1), engage(), Publish())
    value = ended(value, 0, ItemState.FAILED, v.NOW, 'broken')
    move = advance(value, Sight(), v.NOW, PATIENCE)
    assert [ItemState.FAILED, ItemState.SKIPPED, ItemState.PLANNED, ItemState.PLANNED] == [i.state for i in move.job.items]
    assert (2,) == move.perform


def test_a_failure_before_the_first_write_skips_everything_but_placement():
    """There is nothing to close that was opened; the node is not offered."""
    value = job(Withdraw(accelerators=()), flash(0), engage(), Publish())
    value = ended(value, 0, ItemState.FAILED, v.NOW, 'held by an instance')
    move = advance(value, Sight(), v.NOW, PATIENCE)
    assert [ItemState.FAILED, ItemState.SKIPPED, ItemState.SKIPPED, ItemState.PLANNED] == [i.state for i in move.job.items]
    assert Stage.VERIFY is current(move.job)


def test_a_version_that_does_not_show_fails_after_the_time_to_settle():
    """Not before: a device may take its time."""
    value = ended(job(flash(0)), 0, ItemState.RUNNING, v.NOW)
    gone = Sight(writes={0: WriteSight(seen=UpdateObservation.VANISHED)})
    early = advance(value, gone, v.NOW + timedelta(seconds=59), PATIENCE).job
    late = advance(value, gone, v.NOW + timedelta(seconds=61), PATIENCE).job
    assert (ItemState.RUNNING, ItemState.FAILED) == (early.items[0].state, late.items[0].state)
    assert 'no longer shows the update' in late.reasons[0]


def test_progress_counts_as_life():
    """The time to settle begins when nothing moves any more."""
    value = ended(job(flash(0)), 0, ItemState.RUNNING, v.NOW)
    later = v.NOW + timedelta(minutes=30)
    value = advance(value, Sight(writes={0: WriteSight(seen=UpdateObservation.WORKING, percent=90)}), later, PATIENCE).job
    assert 90 == value.items[0].percent
    gone = Sight(writes={0: WriteSight(seen=UpdateObservation.VANISHED)})
    assert ItemState.RUNNING is advance(value, gone, later + timedelta(seconds=30), PATIENCE).job.items[0].state


@pytest.mark.parametrize(
    ('first', 'second', 'alive'),
    [
        ({'percent': 99}, {'percent': 99, 'message': 'still at it'}, False),
        ({'percent': 98}, {'percent': 99}, True),
        ({'message': 'erasing'}, {'message': 'writing'}, True),
        ({'message': 'erasing'}, {'message': 'erasing'}, False),
    ],
)
def test_a_task_lives_only_while_it_moves(first, second, alive):
    """By its percentage, or where it gives none by its message."""
    value = ended(job(flash(0)), 0, ItemState.RUNNING, v.NOW)
    later = v.NOW + timedelta(hours=1)
    value = advance(value, Sight(writes={0: WriteSight(seen=UpdateObservation.WORKING, **first)}), v.NOW, PATIENCE).job
    value = advance(value, Sight(writes={0: WriteSight(seen=UpdateObservation.WORKING, **second)}), later, PATIENCE).job
    assert alive is not stalls(value.items[0], later, PATIENCE)


def test_a_bmc_that_was_silent_gets_its_time_again():
    """What was not seen may have moved."""
    value = ended(job(flash(0)), 0, ItemState.RUNNING, v.NOW)
    later = v.NOW + timedelta(hours=1)
    working = Sight(writes={0: WriteSight(seen=UpdateObservation.WORKING, percent=50)})
    value = advance(value, working, v.NOW, PATIENCE).job
    value = advance(value, Sight(writes={0: WriteSight(seen=UpdateObservation.SILENT)}), later, PATIENCE).job
    value = advance(value, working, later, PATIENCE).job
    assert not stalls(value.items[0], later, PATIENCE)


def test_a_stalled_task_whose_version_is_there_is_done_and_remembered_as_stalled():
    """Its task keeps nothing else from going on; one that failed does."""
    value = ended(job(flash(0)), 0, ItemState.RUNNING, v.NOW)
    good = advance(value, Sight(writes={0: WriteSight(seen=UpdateObservation.RUNNING, stalled=True)}), v.NOW, PATIENCE).job
    bad = advance(value, Sight(writes={0: WriteSight(seen=UpdateObservation.STALLED, stalled=True)}), v.NOW, PATIENCE).job
    assert [(ItemState.DONE, True), (ItemState.FAILED, True)] == [(j.items[0].state, j.items[0].stalled) for j in (good, bad)]


def restoring(value, *positions):
    return replace(value, items=tuple(replace(i, restoring=n in positions) for n, i in enumerate(value.items)))


def test_what_is_put_back_is_due_although_the_job_has_failed():
    """And before any lock is engaged."""
    value = ended(restoring(job(flash(0), engage(), flash(1)), 2), 0, ItemState.FAILED, v.NOW, 'broken')
    assert [flash(1)] == due(value)


@pytest.mark.parametrize('step', ['hold', 'release'])
def test_nothing_is_put_back_when_the_way_to_the_device_cannot_be_opened(step):
    """A host that runs, or a lock that stays closed; the locks are engaged all the same."""
    hold = Reset(system=v.SYSTEM, purpose=ResetPurpose.HOLD, kind=ResetKind.NONE, why=())
    release = Release(accelerator='uuid:0', mechanism='rot', ref=v.ref('Chassis/RoT'), field='Closed', expects='true')
    first = hold if step == 'hold' else release
    value = restoring(job(flash(0), first, flash(0), flash(1), engage()), 1, 2, 3, 4)
    value = ended(value, 0, ItemState.FAILED, v.NOW, 'broken')
    value = ended(value, 1, ItemState.FAILED, v.NOW, 'no')
    other = ItemState.SKIPPED if step == 'hold' else ItemState.PLANNED
    after = advance(value, Sight(), v.NOW, PATIENCE).job
    assert [ItemState.SKIPPED, other, ItemState.PLANNED] == [i.state for i in after.items[2:]]


def test_past_the_deadline_nothing_waits_to_be_put_back():
    """It has failed without having touched the device."""
    value = ended(restoring(job(flash(0), flash(1), engage()), 1), 0, ItemState.FAILED, v.NOW, 'broken')
    after = advance(value, Sight(), v.NOW + timedelta(hours=2), PATIENCE).job
    assert (ItemState.FAILED, True) == (after.items[1].state, after.items[1].untouched)


@pytest.mark.parametrize(('foreign', 'state'), [(1, ItemState.FAILED), (0, ItemState.PLANNED), (UNASKED, ItemState.PLANNED)])
def test_what_is_put_back_waits_for_a_busy_bmc_no_longer_than_anything_takes(foreign, state):
    """A BMC that cannot be asked is another matter: it may come back."""
    value = restoring(job(flash(1)), 0)
    after = advance(value, Sight(foreign={HOST: foreign}), v.NOW + timedelta(minutes=50), PATIENCE).job
    assert state is after.items[0].state


def test_nothing_is_put_back_while_any_update_of_others_runs():
    """However many the BMC takes: it may be the very write that has failed."""
    value = restoring(job(flash(1), parallel=9), 0)
    assert ([], [flash(1)]) == (due(value, Sight(foreign={HOST: 1})), due(value, Sight(foreign={HOST: 0})))


def test_a_bmc_on_which_something_is_put_back_gets_one_write_at_a_time():
    """Two at once may be what made them fail, and there is no third time. Another BMC is not concerned."""
    value = restoring(job(flash(0), flash(1), flash(2), flash(3, bmc=DPU), flash(4, bmc=DPU), parallel=9), 0, 1)
    assert [flash(0), flash(3, bmc=DPU), flash(4, bmc=DPU)] == due(value)
    running = ended(value, 0, ItemState.RUNNING, v.NOW)
    assert [flash(3, bmc=DPU), flash(4, bmc=DPU)] == due(running)
    first_is_over = ended(value, 0, ItemState.DONE, v.NOW)
    assert flash(1) == due(first_is_over)[0]
    both_are_over = ended(first_is_over, 1, ItemState.DONE, v.NOW)
    assert flash(2) == due(both_are_over)[0]


def test_what_waits_for_its_turn_to_be_put_back_does_not_wait_for_a_busy_bmc():
    """However long the one before it took, the BMC was not kept busy by others."""
    value = ended(restoring(job(flash(0), flash(1), parallel=9), 0, 1), 0, ItemState.RUNNING, v.NOW)
    late = v.NOW + timedelta(minutes=50)
    sight = Sight(writes={0: WriteSight(seen=UpdateObservation.WORKING, percent=5)}, foreign={HOST: 0})
    value = ended(advance(value, sight, late, PATIENCE).job, 0, ItemState.DONE, late)
    after = advance(value, Sight(foreign={HOST: 1}), late + PATIENCE.poll, PATIENCE).job
    assert ItemState.PLANNED is after.items[1].state


def test_nothing_is_written_in_the_turn_in_which_a_write_is_given_up():
    """Its task may still run, and was counted as our own in the look of this turn."""
    value = restoring(ended(job(flash(0), flash(1)), 0, ItemState.RUNNING, v.NOW), 1)
    given_up = Sight(writes={0: WriteSight(seen=UpdateObservation.STALLED, stalled=True)}, foreign={HOST: 0})
    move = advance(value, given_up, v.NOW, PATIENCE)
    assert ((), [flash(1)]) == (move.perform, due(move.job, Sight(foreign={HOST: 0})))


def test_a_silent_bmc_does_not_tell_that_a_reset_did_not_come():
    """One that answers does."""
    reset = Reset(system=v.SYSTEM, purpose=ResetPurpose.ENFORCE, kind=ResetKind.POWER_CYCLE, why=())
    value = ended(job(reset), 0, ItemState.RUNNING, v.NOW)
    later = v.NOW + timedelta(minutes=20)
    states = [advance(value, Sight(resets={0: came}), later, PATIENCE).job.items[0].state for came in (None, False, True)]
    assert [ItemState.RUNNING, ItemState.FAILED, ItemState.DONE] == states


@pytest.mark.parametrize('came', [None, False])
def test_no_reset_is_waited_for_longer_than_its_patience_past_the_deadline(came):
    """Every job ends."""
    reset = Reset(system=v.SYSTEM, purpose=ResetPurpose.RESUME, kind=ResetKind.POWER_CYCLE, why=())
    late = v.NOW + timedelta(hours=1) + PATIENCE.reset + timedelta(seconds=1)
    value = ended(job(reset), 0, ItemState.RUNNING, late)
    assert ItemState.FAILED is advance(value, Sight(resets={0: came}), late, PATIENCE).job.items[0].state


def test_the_deadline_ends_what_still_runs_and_keeps_the_locks_due():
    """Everything ends; what was opened is closed."""
    value = ended(job(flash(0), flash(1), engage()), 0, ItemState.RUNNING, v.NOW)
    move = advance(value, Sight(), v.NOW + timedelta(hours=2), PATIENCE)
    assert [ItemState.FAILED, ItemState.SKIPPED] == [i.state for i in move.job.items[:2]]
    assert (2,) == move.perform
    assert 'the deadline has passed' in move.job.reasons


def test_a_job_whose_last_action_ended_before_the_deadline_has_not_failed():
    """The shell died after it stored that, and looks again when the deadline has passed."""
    value = replace(ended(job(Publish()), 0, ItemState.DONE, v.NOW), verdict=Verdict(target='n', findings=()))
    assert () == advance(value, Sight(), v.NOW + timedelta(hours=2), PATIENCE).job.reasons


def test_a_program_is_limited_like_a_flash():
    """Two slots of one card are programmed one after the other."""
    refs = [v.ref(f'UpdateService/SoftwareInventory/{n}') for n in range(2)]
    slots = [
        Program(accelerator='uuid:f', slot=f'Slot{n}', ref=r, image='i', function='gzip', version='1', expects=None)
        for n, r in enumerate(refs)
    ]
    assert slots[:1] == due(job(*slots, parallel=9))


def test_who_was_killed_over_the_answer_and_looks_late_still_lets_the_card_settle():
    """What was sent may just be done: the time to settle begins with the first look, and ends."""
    value = ended(job(flash(0)), 0, ItemState.SENT, v.NOW)
    late = v.NOW + timedelta(minutes=30)
    sight = Sight(writes={0: WriteSight(seen=UpdateObservation.NOTHING)})
    for after, state in ((0, ItemState.SENT), (50, ItemState.SENT), (61, ItemState.FAILED)):
        value = advance(value, sight, late + timedelta(seconds=after), PATIENCE).job
        assert state is value.items[0].state, after


# ------------------------------------------------------------------------------------------------ what is written down


LATE = v.NOW + timedelta(hours=1, seconds=1)
LATER = v.NOW + timedelta(minutes=3)
HOLD = Reset(system=v.SYSTEM, purpose=ResetPurpose.HOLD, kind=ResetKind.NONE, why=())
ENFORCE = Reset(system=v.SYSTEM, purpose=ResetPurpose.ENFORCE, kind=ResetKind.POWER_CYCLE, why=())
RESUME = Reset(system=v.SYSTEM, purpose=ResetPurpose.RESUME, kind=ResetKind.SYSTEM_RESET, why=())
MANAGER = Reset(system=v.ref('Managers/1'), purpose=ResetPurpose.ENFORCE, kind=ResetKind.BMC_RESET, why=())
PROGRAM = Program(
    accelerator='uuid:f', slot='Slot0', ref=v.ref('Slot0'), image='i', function='gzip', version='1', expects=None
)  # fmt: skip


def release(card: str = 'uuid:0', **changes) -> Release:
    values = {'mechanism': 'rot', 'ref': v.ref('Chassis/RoT'), 'field': 'Closed', 'expects': 'true'}
    return Release(accelerator=card, **(values | changes))


def see(value, now=LATER, *, writes=None, resets=None, foreign=None):
    """The job after a look."""
    return advance(value, Sight(writes=writes or {}, resets=resets or {}, foreign=foreign or {}), now, PATIENCE).job


def in_state(value, *states, **changes):
    """The job with its items in these states, since the beginning."""
    return replace(
        value, items=tuple(replace(i, state=s, **changes) for i, s in zip(value.items, map(ItemState, states), strict=True))
    )


def states(value):
    return [str(i.state) for i in value.items]


def test_a_job_holds_what_its_plan_and_its_caller_say():
    """Who asked for it, for which node, until when; nothing has begun."""
    made = Plan(target='n', actions=(flash(0), engage()), parallel=((HOST, 2),))
    how = {'identity': 'j', 'node': 'uuid', 'flow': Flow.DEPLOY, 'step': 'lock', 'lifecycle': 3, 'now': v.NOW}
    expected = Job(
        id='j',
        target='n',
        node='uuid',
        flow=Flow.DEPLOY,
        step='lock',
        lifecycle=3,
        created=v.NOW,
        deadline=v.NOW + timedelta(minutes=2),
        items=(Item(action=flash(0), since=v.NOW), Item(action=engage(), since=v.NOW)),
        parallel=((HOST, 2),),
        requester=None,
        demands_met=True,
    )
    assert expected == begin(made, timeout=timedelta(minutes=2), **how)
    asked = begin(made, timeout=timedelta(minutes=2), requester='ann', demands_met=False, **how)
    assert replace(expected, requester='ann', demands_met=False) == asked


@pytest.mark.parametrize(
    ('action', 'expected'),
    [
        (flash(1), 'flash 1 of uuid:1 with i'),
        (PROGRAM, 'program Slot0 of uuid:f with gzip'),
        (HOLD, 'power off host:/redfish/v1/Systems/1'),
        (RESUME, 'power on host:/redfish/v1/Systems/1'),
        (ENFORCE, 'reset host:/redfish/v1/Systems/1'),
        (release(), 'release rot of uuid:0 at host:/redfish/v1/Chassis/RoT'),
        (engage(), 'engage rot of uuid:0 at host:/redfish/v1/Chassis/RoT'),
        (replace(release(), scope=Scope.BMC), 'release rot of BMC host at host:/redfish/v1/Chassis/RoT'),
        (replace(engage(), scope=Scope.BMC), 'engage rot of BMC host at host:/redfish/v1/Chassis/RoT'),
        (CheckImage(image='i'), 'check image i'),
        (Withdraw(accelerators=()), 'withdraw from placement'),
        (Publish(), 'publish to placement'),
    ],
    ids=lambda x: x if isinstance(x, str) else '',
)
def test_an_action_is_told_in_a_few_words(action, expected):
    """What is done, to which card, by which image, lock or System."""
    assert expected == describe(action)


@pytest.mark.parametrize(
    ('action', 'counts'),
    [
        (Withdraw(accelerators=()), True),
        (CheckImage(image='i'), True),
        (HOLD, True),
        (release(), True),
        (flash(0), True),
        (engage(), False),
        (ENFORCE, True),
        (Publish(), True),
    ],
    ids=describe,
)
def test_what_failed_is_a_reason_of_the_job_but_for_a_lock(action, counts):
    """A lock that was not engaged is judged by the verdict, which knows what is asked of it."""
    value = job(flash(7), action, flash(8))
    after = ended(value, 1, ItemState.FAILED, LATER, 'no power')
    failed = Item(action=action, since=LATER, state=ItemState.FAILED, message='no power')
    assert (value.items[0], failed, value.items[2]) == after.items
    assert ((f'{describe(action)}: no power',) if counts else ()) == after.reasons
    untold = ended(value, 1, ItemState.FAILED, LATER, untouched=True)
    assert replace(failed, message=None, untouched=True) == untold.items[1]
    assert ((f'{describe(action)}: failed',) if counts else ()) == untold.reasons
    back = ended(restoring(replace(value, reasons=('first',)), 1), 1, ItemState.FAILED, LATER, 'no')
    assert (('first', f'restore: {describe(action)}: no') if counts else ('first',)) == back.reasons
    assert () == ended(value, 1, ItemState.DONE, LATER, 'well').reasons


def test_what_is_sent_is_marked_with_its_time_once():
    """What was sent before keeps the time from which it is waited for."""
    value = sent(sent(job(flash(0), flash(1), flash(2)), [1], v.NOW), [1, 2], LATER)
    assert ['planned', 'sent', 'sent'] == states(value)
    assert [v.NOW, v.NOW, LATER] == [i.since for i in value.items]


def test_who_reads_that_a_job_took_too_long_learns_what_took_so_long():
    """The causes are told once, with the last words of the BMC; what is not waited for is left as it is."""
    actions = (flash(0), flash(1), flash(2), flash(3), flash(4), engage(), ENFORCE)
    begun = ('done', 'running', 'sent', 'planned', 'planned', 'sent', 'running')
    value = in_state(job(*actions), *begun, message='at 50')
    value = replace(value, items=tuple(replace(i, message=None) if n in (2, 4) else i for n, i in enumerate(value.items)))
    after = expire(value, LATE)
    late = {
        1: replace(value.items[1], state=ItemState.FAILED, since=LATE, message='not done by the deadline (at 50)', unsure=True),
        2: replace(value.items[2], state=ItemState.FAILED, since=LATE, message='not done by the deadline', unsure=True),
    }
    assert tuple(late.get(n, i) for n, i in enumerate(value.items)) == after.items
    told = (
        'the deadline has passed',
        f'{describe(flash(1))}: not done by the deadline (at 50)',
        f'{describe(flash(2))}: not done by the deadline',
        f'{describe(flash(3))}: at 50',
    )
    assert told == after.reasons
    skipped = see(value, LATE)
    assert told == skipped.reasons
    assert [(ItemState.SKIPPED, LATE)] * 2 == [(i.state, i.since) for i in skipped.items[3:5]]
    assert [(ItemState.FAILED, LATE)] * 2 == [(i.state, i.since) for i in skipped.items[1:3]]
    assert told == see(skipped, LATE).reasons
    assert value.reasons == see(value, value.deadline).reasons, 'on the second it is still in time'


def test_a_task_that_moved_just_as_long_ago_as_anything_takes_is_not_stalled():
    """A second later it is; one that was never seen to move is not."""
    item = replace(job(flash(0)).items[0], moved=v.NOW)
    assert not stalls(item, v.NOW + PATIENCE.stall, PATIENCE)
    assert stalls(item, v.NOW + PATIENCE.stall + timedelta(seconds=1), PATIENCE)
    assert not stalls(replace(item, moved=None), v.NOW + timedelta(days=1), PATIENCE)


# ---------------------------------------------------------------------------------------------------------- what was seen


REBOOTED = replace(flash(0), reset=ResetKind.POWER_CYCLE)


@pytest.mark.parametrize(
    ('action', 'state', 'said', 'seen', 'expected', 'message'),
    [
        (flash(0), 'running', 'old', {'seen': UpdateObservation.RUNNING, 'message': 'all done'}, 'done', 'all done'),
        (flash(0), 'running', 'old', {'seen': UpdateObservation.STAGED}, 'staged', 'old'),
        (REBOOTED, 'running', None, {'seen': UpdateObservation.SUCCEEDED, 'message': 'well'}, 'staged', 'well'),
        (flash(0), 'running', None, {'seen': UpdateObservation.SUCCEEDED}, 'running', None),
        (PROGRAM, 'running', None, {'seen': UpdateObservation.SUCCEEDED}, 'running', None),
        (PROGRAM, 'running', None, {'seen': UpdateObservation.RUNNING}, 'done', None),
        (
            flash(0),
            'sent',
            'cut',
            {'seen': UpdateObservation.WORKING, 'percent': 5, 'message': 'erasing'},
            'running',
            'erasing',
        ),
        (flash(0), 'sent', 'cut', {'seen': UpdateObservation.FAILED}, 'failed', 'the BMC says that the update failed (cut)'),
        (
            flash(0),
            'sent',
            'cut',
            {'seen': UpdateObservation.FAILED, 'message': 'bad'},
            'failed',
            'the BMC says that the update failed (bad)',
        ),
        (flash(0), 'sent', None, {'seen': UpdateObservation.FAILED}, 'failed', 'the BMC says that the update failed'),
        (flash(0), 'running', 'at 50', {'seen': UpdateObservation.FAILED}, 'failed', 'the BMC says that the update failed'),
    ],
)
def test_what_a_look_shows_of_a_write_is_what_becomes_of_it(action, state, said, seen, expected, message):
    """With the words of the BMC, or those of the answer that was lost; what else the job has stays as it is."""
    value = in_state(job(flash(7), action, engage()), 'done', state, 'planned')
    value = replace(value, items=(value.items[0], replace(value.items[1], message=said, moved=v.NOW), value.items[2]))
    after = see(value, v.NOW + timedelta(seconds=30), writes={1: WriteSight(**seen)})
    assert (expected, message) == (str(after.items[1].state), after.items[1].message)
    changed = v.NOW + timedelta(seconds=30)
    assert (v.NOW if expected == state else changed) == after.items[1].since
    assert (value.items[0], value.items[2]) == (after.items[0], after.items[2])
    assert ((f'{describe(action)}: {message}',) if expected == 'failed' else ()) == after.reasons


def test_only_writes_under_way_are_judged_by_a_look():
    """What has ended, was not begun or is no write is what it was; the write beside them is seen."""
    value = in_state(job(flash(0), flash(1), flash(2), engage(), flash(4)), 'done', 'failed', 'planned', 'sent', 'running')
    after = see(value, v.NOW, writes={n: WriteSight(seen=UpdateObservation.RUNNING, message='seen') for n in range(5)})
    assert (*value.items[:4], replace(value.items[4], state=ItemState.DONE, message='seen')) == after.items


def test_the_time_to_settle_is_up_when_it_is_over_and_begins_when_a_task_was_last_seen():
    """Be it one that did not move any more."""
    value = in_state(job(flash(0)), 'running')
    gone = {0: WriteSight(seen=UpdateObservation.VANISHED)}
    assert ['running'] == states(see(value, v.NOW + PATIENCE.settle, writes=gone))
    too_late = v.NOW + PATIENCE.settle + timedelta(seconds=1)
    failed = see(value, too_late, writes=gone).items[0]
    why = 'the BMC no longer shows the update, and the new version is not shown'
    assert (ItemState.FAILED, too_late, why) == (failed.state, failed.since, failed.message)
    same = {0: WriteSight(seen=UpdateObservation.WORKING, percent=50)}
    for minutes in (0, 30):
        value = see(value, v.NOW + timedelta(minutes=minutes), writes=same)
    assert (v.NOW, v.NOW + timedelta(minutes=30)) == (value.items[0].moved, value.items[0].since)
    assert ['running'] == states(see(value, v.NOW + timedelta(minutes=30, seconds=59), writes=gone))


@pytest.mark.parametrize(
    ('seen', 'expected'),
    [
        (
            UpdateObservation.VANISHED,
            'the BMC no longer shows the update, and the new version is not shown: 1.0 runs, 2.0 was sent',
        ),
        (
            UpdateObservation.SUCCEEDED,
            'the BMC says that the update succeeded, but the new version is not shown: 1.0 runs, 2.0 was sent; apply.reset of '
            'image i is none: set it to the reset that the image needs, if it needs one',
        ),
    ],
)
def test_a_version_that_does_not_come_is_named_with_what_runs_in_its_place(seen, expected):
    """And where the BMC says that all went well, what the catalogue may not have said."""
    late = v.NOW + PATIENCE.settle + timedelta(seconds=1)
    value = in_state(job(flash(0)), 'running')
    failed = see(value, late, writes={0: WriteSight(seen=seen, shown=v.OLD)}).items[0]
    assert (ItemState.FAILED, expected) == (failed.state, failed.message)
    unasked = see(value, late, writes={0: WriteSight(seen=seen)}).items[0]
    assert expected.split(': ')[0] == unasked.message


def test_what_is_put_back_waits_for_a_busy_bmc_just_as_long_as_anything_takes():
    """Then it has failed without having touched the device, and the reason names the BMC."""
    value = restoring(job(flash(0), flash(1)), 1)
    value = replace(value, items=(replace(value.items[0], state=ItemState.DONE), value.items[1]))
    assert ['done', 'planned'] == states(see(value, v.NOW + PATIENCE.stall, foreign={HOST: 1}))
    late = v.NOW + PATIENCE.stall + timedelta(seconds=1)
    assert ['done', 'planned'] == states(see(value, late)), 'nothing keeps it busy'
    after = see(value, late, foreign={HOST: 1})
    why = 'an update has kept BMC host busy for 0:45:00'
    failed = replace(value.items[1], state=ItemState.FAILED, since=late, message=why, untouched=True)
    assert (failed, (f'restore: {describe(flash(1))}: {why}',)) == (after.items[1], after.reasons)
    assert ['planned'] == states(see(job(flash(0)), late, foreign={HOST: 1})), (
        'what is written first may wait till the deadline'
    )


# ----------------------------------------------------------------------------------------------------------------- resets


def test_a_reset_that_came_is_done_and_one_that_does_not_come_is_told():
    """Each in its own time; what is no reset, or was not asked for yet, is not looked at."""
    value = in_state(job(flash(0), ENFORCE, RESUME, MANAGER, ENFORCE), 'done', 'planned', 'running', 'running', 'running')
    came = dict.fromkeys(range(4), True) | {4: False}
    in_time = see(value, v.NOW + PATIENCE.reset, resets=came)
    assert ['done', 'planned', 'done', 'done', 'running'] == states(in_time)
    assert {v.NOW + PATIENCE.reset} == {i.since for i in in_time.items[2:4]}
    late = v.NOW + PATIENCE.reset + timedelta(seconds=1)
    failed = see(value, late, resets={4: False}).items[4]
    assert (ItemState.FAILED, late, 'the reset was not seen within 0:05:00') == (failed.state, failed.since, failed.message)


@pytest.mark.parametrize(
    ('message', 'expected'),
    [
        (None, 'the reset was not seen within 0:05:00'),
        ('it was requested to power off', 'it was requested to power off, but the host was not seen off within 0:05:00'),
    ],
)
def test_a_host_that_is_not_seen_off_keeps_what_it_was_told(message, expected):
    """It may go off later: whoever reads why the job failed has to know."""
    value = in_state(job(HOLD, flash(0)), 'running', 'planned')
    value = replace(value, items=(replace(value.items[0], message=message), value.items[1]))
    after = see(value, v.NOW + PATIENCE.reset + timedelta(seconds=1), resets={0: False})
    assert (ItemState.FAILED, expected) == (after.items[0].state, after.items[0].message)


@pytest.mark.parametrize(('reset', 'silent'), [(MANAGER, True), (ENFORCE, False)], ids=['bmc', 'host'])
def test_a_bmc_that_went_silent_after_its_own_reset_is_remembered_as_such(reset, silent):
    """That it answers again is how its reset shows; a System's reset has other signs."""
    value = in_state(job(reset, reset), 'running', 'running')
    assert [False, False] == [i.silent for i in see(value, resets={0: False, 1: False}).items]
    after = see(value, resets={0: None, 1: False})
    assert [silent, False] == [i.silent for i in after.items]
    assert ['running', 'running'] == states(after)


def test_a_silent_bmc_is_waited_for_as_long_past_the_deadline_as_a_reset_may_take():
    """No longer."""
    value = in_state(job(RESUME, MANAGER), 'running', 'running', silent=True)
    last = value.deadline + PATIENCE.reset
    silence = {0: None, 1: None}
    assert ['running', 'running'] == states(see(value, last, resets=silence))
    assert ['failed', 'failed'] == states(see(value, last + timedelta(seconds=1), resets=silence))


KINDS = tuple(ResetKind)


@pytest.mark.parametrize('done', KINDS)
@pytest.mark.parametrize('needed', KINDS)
def test_a_reset_that_came_brings_the_locks_in_force_that_needed_it(done, needed):
    """A power cycle is any start of the host as well, and no reset of a BMC. The loss of standby power restarts that alone."""
    record = v.engagement(needs=needed, reset=v.SYSTEM, reset_at=None)
    reset = replace(ENFORCE, kind=done)
    after = see(replace(in_state(job(reset), 'running'), engagements=(record,)), resets={0: True})
    enough = done is needed or (done, needed) == (ResetKind.POWER_CYCLE, ResetKind.SYSTEM_RESET)
    if done in (ResetKind.AUX_POWER_CYCLE, ResetKind.AC_POWER_CYCLE):
        enough = needed is ResetKind.BMC_RESET
    assert (replace(record, reset_at=LATER if enough and needed is not ResetKind.NONE else None),) == after.engagements


@pytest.mark.parametrize(
    ('holds', 'is_reset'), [(['done'], True), (['failed'], False), (['done', 'failed'], False), ([], False)]
)
def test_a_host_that_was_never_off_was_not_reset_by_being_powered_on(holds, is_reset):
    """It shows on, as it did before: no lock that waits for a reset is in force by that."""
    record = v.engagement(needs=ResetKind.SYSTEM_RESET, reset=v.SYSTEM, reset_at=None)
    value = in_state(job(*[HOLD] * len(holds), RESUME), *holds, 'running')
    after = see(replace(value, engagements=(record,)), resets={len(holds): True})
    assert 'done' == states(after)[-1]
    assert (replace(record, reset_at=LATER if is_reset else None),) == after.engagements


def test_a_reset_brings_nothing_else_in_force():
    """No lock of another System, none that was in force before; and a host that was powered off starts nothing."""
    record = v.engagement(needs=ResetKind.POWER_CYCLE, reset=v.SYSTEM, reset_at=None)
    others = (replace(record, reset=v.ref('Systems/2')), replace(record, reset_at=v.EARLIER))
    value = replace(in_state(job(ENFORCE, HOLD), 'running', 'running'), engagements=(*others, record))
    assert (*others, replace(record, reset_at=LATER)) == see(value, resets={0: True}).engagements
    held = replace(value, items=(value.items[0], replace(value.items[1], action=replace(HOLD, kind=ResetKind.POWER_CYCLE))))
    assert value.engagements == see(held, resets={1: True}).engagements
    assert value.engagements == see(value, resets={0: False}).engagements


def test_the_host_is_given_back_when_the_resets_that_enforce_have_ended_and_those_of_bmcs_come_first():
    """What was asked for already is not asked for again; what may not have been is."""
    value = in_state(job(flash(0), RESUME, ENFORCE, MANAGER), 'done', 'planned', 'planned', 'planned')
    assert [MANAGER] == due(value)
    assert [MANAGER] == due(in_state(value, 'done', 'planned', 'planned', 'sent'))
    assert [] == due(in_state(value, 'done', 'planned', 'planned', 'running'))
    assert [ENFORCE] == due(in_state(value, 'done', 'planned', 'planned', 'done'))
    assert [] == due(in_state(value, 'done', 'planned', 'running', 'done'))
    assert [RESUME] == due(in_state(value, 'done', 'planned', 'done', 'done'))


# ------------------------------------------------------------------------------------------------------------------ locks


def test_a_lockdown_is_opened_before_the_other_locks_and_closed_after_them():
    """Under it the BMC changes nothing."""
    opening = (release(), release(field='Down', wraps=True), release('uuid:1'))
    value = job(*opening)
    assert [opening[1]] == due(value)
    assert [] == due(in_state(value, 'planned', 'running', 'planned'))
    assert [opening[0], opening[2]] == due(in_state(value, 'planned', 'done', 'planned'))
    closing = (replace(engage(), wraps=True), engage('uuid:1'), engage('uuid:2'))
    value = job(*closing)
    assert [*closing[1:]] == due(value)
    assert [closing[2]] == due(in_state(value, 'planned', 'done', 'sent'))
    assert [closing[0]] == due(in_state(value, 'planned', 'done', 'failed'))


@pytest.mark.parametrize(
    ('parallel', 'foreign', 'expected'), [((), {}, 1), (((DPU, 2),), {}, 1), (((HOST, 2),), {DPU: UNASKED}, 2)]
)
def test_a_bmc_of_which_nothing_is_said_takes_one_update_at_a_time(parallel, foreign, expected):
    """What is said of another BMC says nothing of it."""
    value = replace(job(flash(0), flash(1)), parallel=parallel)
    assert expected == len(due(value, Sight(foreign=foreign)))


# -------------------------------------------------------------------------------------------- what a failure makes pointless


@pytest.mark.parametrize(
    ('item', 'needed'),
    [
        ((replace(flash(1), reset=ResetKind.POWER_CYCLE), 'done', False), True),
        ((replace(flash(1), reset=ResetKind.POWER_CYCLE), 'failed', False), True),
        ((replace(flash(1), reset=ResetKind.POWER_CYCLE), 'failed', True), False),
        ((replace(flash(1), reset=ResetKind.POWER_CYCLE), 'skipped', False), False),
        ((replace(flash(1, bmc=DPU), reset=ResetKind.POWER_CYCLE), 'done', False), False),
        ((flash(1), 'done', False), False),
        ((replace(engage(), needs=ResetKind.POWER_CYCLE), 'done', False), True),
        ((replace(engage(), needs=ResetKind.POWER_CYCLE), 'planned', False), True),
        ((replace(engage(), needs=ResetKind.POWER_CYCLE), 'skipped', False), False),
        ((engage(), 'done', False), False),
        ((release(), 'done', False), True),
        ((release(), 'failed', False), True),
        ((release(), 'skipped', False), False),
        ((Withdraw(accelerators=()), 'done', False), False),
        ((PROGRAM, 'done', False), False),
    ],
    ids=lambda x: f'{describe(x[0])} {x[1]}' if isinstance(x, tuple) else str(x),
)
def test_after_a_failure_a_host_is_reset_only_for_what_takes_effect_by_that(item, needed):
    """An image that may have been written on its BMC, or a lock; nobody restarts a host because a file was bad."""
    action, state, untouched = item
    value = in_state(job(PROGRAM, action, ENFORCE), 'failed', state, 'planned')
    value = replace(
        value, items=(value.items[0], replace(value.items[1], untouched=untouched), value.items[2]), reasons=('broken',)
    )
    assert ('planned' if needed else 'skipped') == states(see(value))[2]
    assert 'planned' == states(see(replace(value, reasons=())))[2]


@pytest.mark.parametrize('hold', ['planned', 'skipped', 'running', 'done', 'failed'])
def test_a_host_that_was_held_is_given_back_at_proven_locks_whatever_failed(hold):
    """For that alone its locks are engaged, even if nothing was opened; one that was not held is left alone."""
    value = replace(in_state(job(HOLD, flash(0), engage(), RESUME, Publish()), hold, *['planned'] * 4), reasons=('no power',))
    after = see(value)
    begun = hold in ('running', 'done', 'failed')
    kept = 'planned' if begun else 'skipped'
    assert ['skipped' if hold == 'planned' else hold, 'skipped', kept, kept, 'planned'] == states(after)
    assert [LATER] == [i.since for i in after.items if i.state is ItemState.SKIPPED][-1:]


def test_what_was_done_well_and_what_failed_beside_it_are_no_reasons_against_putting_back():
    """Only a way that could not be opened for it is."""
    value = in_state(job(Withdraw(accelerators=()), CheckImage(image='i'), HOLD, flash(0), flash(1)), *['done'] * 5)
    value = replace(value, reasons=('broken',))
    back = Item(action=flash(0), since=v.NOW, restoring=True)
    other = replace(back, action=flash(1), state=ItemState.FAILED)
    assert 'planned' == states(see(replace(value, items=(*value.items, back, other))))[5]
    first_time = replace(value.items[2], state=ItemState.FAILED)
    assert 'planned' == states(see(replace(value, items=(*value.items[:2], first_time, *value.items[3:], back))))[5]
    again = replace(first_time, restoring=True)
    assert 'skipped' == states(see(replace(value, items=(*value.items, again, back))))[6]


@pytest.mark.parametrize(
    ('lock', 'expected'),
    [
        (release('uuid:0'), ['skipped', 'planned', 'planned', 'skipped', 'planned']),
        (release('uuid:9', scope=Scope.BMC), ['skipped', 'skipped', 'planned', 'skipped', 'planned']),
        (
            release('uuid:9', ref=Ref(bmc=DPU, uri='/redfish/v1/Managers/1'), scope=Scope.BMC),
            ['planned', 'planned', 'skipped', 'planned', 'planned'],
        ),
        (HOLD, ['skipped', 'skipped', 'skipped', 'skipped', 'planned']),
    ],
    ids=['of a card', 'of a machine', 'of a machine, another BMC', 'host'],
)
def test_a_way_that_could_not_be_opened_keeps_back_what_goes_that_way(lock, expected):
    """The lock of a card keeps the card back, that of a whole machine what is behind its BMC, a host that runs everything."""
    items = [Item(action=lock, since=v.NOW, state=ItemState.FAILED, restoring=True)]
    waiting = (flash(0), flash(1), flash(2, bmc=DPU), release('uuid:0', field='other'), engage())
    items += (Item(action=a, since=v.NOW, restoring=True) for a in waiting)
    value = replace(in_state(job(flash(5)), 'failed'), reasons=('broken',))
    assert expected == states(see(replace(value, items=(*value.items, *items))))[2:]


def test_a_failure_of_another_stage_is_a_way_that_cannot_be_gone():
    """What has to be checked before anything is put back was not good."""
    value = replace(in_state(job(flash(0)), 'failed'), reasons=('broken',))
    check = Item(action=CheckImage(image='i'), since=v.NOW, state=ItemState.FAILED, restoring=True)
    back = Item(action=flash(0), since=v.NOW, restoring=True)
    assert ['failed', 'failed', 'skipped'] == states(see(replace(value, items=(*value.items, check, back))))


# ------------------------------------------------------------------------------------------------------- sent in turns


UPLOAD = UploadProgress(task=v.ref('Uploads/0'), so_far='half', percent=50)


def on_its_way(progress=UPLOAD, *actions):
    """A job whose first write is sent in turns."""
    value = sent(job(flash(0), *actions), [0], v.NOW)
    return replace(value, items=(replace(value.items[0], progress=progress, moved=v.NOW), *value.items[1:]))


def test_what_is_sent_in_turns_goes_on_while_nothing_else_of_its_bmc_begins():
    """It is due each time, before what is planned, and beside an update that is not ours; it keeps the BMC's only place."""
    value = on_its_way(UPLOAD, flash(1), flash(2, bmc=DPU))
    assert (0, 2) == advance(value, Sight(), v.NOW, PATIENCE).perform
    assert (0, 2) == advance(value, Sight(foreign={HOST: 1}), v.NOW, PATIENCE).perform


def test_a_turn_is_stored_as_begun_before_it_is_taken():
    """Where it was, and since when, stays."""
    value = on_its_way()
    marked = sent(value, [0], v.NOW + timedelta(seconds=9)).items[0]
    assert replace(value.items[0], progress=replace(UPLOAD, turning=True)) == marked


@pytest.mark.parametrize(
    ('progress', 'expected'),
    [
        # Between two turns: as it was.
        (UPLOAD, UPLOAD),
        # Whoever took the turn has died: nobody knows how much has arrived, and nothing of it is in force.
        (replace(UPLOAD, turning=True), replace(UPLOAD, so_far=None)),
        # It may have been brought in force: that is looked for, and not repeated.
        (replace(UPLOAD, whole=True, turning=True), None),
        (replace(UPLOAD, whole=True), replace(UPLOAD, whole=True)),
    ],
)
def test_a_turn_that_was_interrupted_is_begun_anew_unless_it_was_the_last(progress, expected):
    """What was whole may be in force."""
    item = taken_up(on_its_way(progress)).items[0]
    assert (ItemState.SENT, expected) == (item.state, item.progress)


def test_what_may_be_in_force_is_looked_for_only():
    """It is not sent again, whatever the BMC shows."""
    value = taken_up(on_its_way(replace(UPLOAD, whole=True, turning=True)))
    seen = Sight(writes={0: WriteSight(seen=UpdateObservation.NOTHING)}, foreign={HOST: 0})
    assert () == advance(value, seen, v.NOW, PATIENCE).perform


def test_an_upload_that_has_ended_is_on_its_way_no_more():
    """Nobody goes on with it, whatever it is put back from."""
    item = ended(on_its_way(), 0, ItemState.FAILED, v.NOW, 'broken').items[0]
    assert (ItemState.FAILED, 'broken', None) == (item.state, item.message, item.progress)


def test_an_upload_that_is_not_through_by_the_deadline_has_failed():
    """As one that was begun: what it has left is put back."""
    value = expire(on_its_way(), v.NOW + timedelta(days=1))
    item = value.items[0]
    assert (ItemState.FAILED, False, None) == (item.state, item.untouched, item.progress)
