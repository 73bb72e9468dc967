# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What of a job is due: stages in order, limits of BMCs and cards kept, locks engaged whatever failed."""

from dataclasses import replace
from datetime import timedelta

import pytest

from baremetal_acc.decide.advance import (
    UNASKED,
    Patience,
    Sight,
    WriteSight,
    advance,
    begin,
    current,
    ended,
    sent,
    stalls,
)
from baremetal_acc.decide.flash import Seen
from baremetal_acc.model.job import (
    Engage,
    Flash,
    Flow,
    ItemState,
    Plan,
    Program,
    Publish,
    Release,
    Reset,
    ResetPurpose,
    Stage,
    Verdict,
    Withdraw,
)
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.model.ref import HOST, BmcName, Ref
from tests.unit.decide import values as v

PATIENCE = Patience(poll=timedelta(seconds=5), settle=timedelta(seconds=60), reset=timedelta(minutes=5))
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
    """A later order waits for every earlier one of its BMC; a DPU's own BMC never waits for the host's."""
    value = job(flash(0, order=1), flash(1, order=2), flash(2, bmc=DPU, order=2), flash(3, bmc=DPU, order=3), parallel=9)
    assert ['0', '2'] == [a.component for a in due(value)]
    assert ['2'] == [a.component for a in due(ended(value, 0, ItemState.RUNNING, v.NOW))]
    assert ['1', '2'] == [a.component for a in due(ended(value, 0, ItemState.STAGED, v.NOW))]


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
    gone = Sight(writes={0: WriteSight(seen=Seen.VANISHED)})
    early = advance(value, gone, v.NOW + timedelta(seconds=59), PATIENCE).job
    late = advance(value, gone, v.NOW + timedelta(seconds=61), PATIENCE).job
    assert (ItemState.RUNNING, ItemState.FAILED) == (early.items[0].state, late.items[0].state)
    assert 'forgotten the update' in late.reasons[0]


def test_progress_counts_as_life():
    """The time to settle begins when nothing moves any more."""
    value = ended(job(flash(0)), 0, ItemState.RUNNING, v.NOW)
    later = v.NOW + timedelta(minutes=30)
    value = advance(value, Sight(writes={0: WriteSight(seen=Seen.WORKING, percent=90)}), later, PATIENCE).job
    assert 90 == value.items[0].percent
    gone = Sight(writes={0: WriteSight(seen=Seen.VANISHED)})
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
    value = advance(value, Sight(writes={0: WriteSight(seen=Seen.WORKING, **first)}), v.NOW, PATIENCE).job
    value = advance(value, Sight(writes={0: WriteSight(seen=Seen.WORKING, **second)}), later, PATIENCE).job
    assert alive is not stalls(value.items[0], later, PATIENCE)


def test_a_bmc_that_was_silent_gets_its_time_again():
    """What was not seen may have moved."""
    value = ended(job(flash(0)), 0, ItemState.RUNNING, v.NOW)
    later = v.NOW + timedelta(hours=1)
    working = Sight(writes={0: WriteSight(seen=Seen.WORKING, percent=50)})
    value = advance(value, working, v.NOW, PATIENCE).job
    value = advance(value, Sight(writes={0: WriteSight(seen=Seen.SILENT)}), later, PATIENCE).job
    value = advance(value, working, later, PATIENCE).job
    assert not stalls(value.items[0], later, PATIENCE)


def test_a_stalled_task_whose_version_is_there_is_done_and_remembered_as_stalled():
    """Its task keeps nothing else from going on; one that failed does."""
    value = ended(job(flash(0)), 0, ItemState.RUNNING, v.NOW)
    good = advance(value, Sight(writes={0: WriteSight(seen=Seen.RUNNING, stalled=True)}), v.NOW, PATIENCE).job
    bad = advance(value, Sight(writes={0: WriteSight(seen=Seen.STALLED, stalled=True)}), v.NOW, PATIENCE).job
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
    sight = Sight(writes={0: WriteSight(seen=Seen.WORKING, percent=5)}, foreign={HOST: 0})
    value = ended(advance(value, sight, late, PATIENCE).job, 0, ItemState.DONE, late)
    after = advance(value, Sight(foreign={HOST: 1}), late + PATIENCE.poll, PATIENCE).job
    assert ItemState.PLANNED is after.items[1].state


def test_nothing_is_written_in_the_turn_in_which_a_write_is_given_up():
    """Its task may still run, and was counted as our own in the look of this turn."""
    value = restoring(ended(job(flash(0), flash(1)), 0, ItemState.RUNNING, v.NOW), 1)
    given_up = Sight(writes={0: WriteSight(seen=Seen.STALLED, stalled=True)}, foreign={HOST: 0})
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
    sight = Sight(writes={0: WriteSight(seen=Seen.NOTHING)})
    for after, state in ((0, ItemState.SENT), (50, ItemState.SENT), (61, ItemState.FAILED)):
        value = advance(value, sight, late + timedelta(seconds=after), PATIENCE).job
        assert state is value.items[0].state, after
