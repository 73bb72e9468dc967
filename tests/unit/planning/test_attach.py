# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""An instance gets all of its accelerators, or what was written for it is brought back, the last one first."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baremetal_acc.model.action import Program, Publish
from baremetal_acc.model.attach import (
    Attached,
    AttachEvent,
    AttachHandle,
    Attachment,
    AttachState,
    FunctionAssignment,
    HandleType,
)
from baremetal_acc.model.codec import decode, encode
from baremetal_acc.model.job import Flow, Job
from baremetal_acc.model.job_item import Item, ItemState
from baremetal_acc.model.plan import Plan
from baremetal_acc.model.refusal import NoSlot, Refusal
from baremetal_acc.model.subject import Subject
from baremetal_acc.planning import attach as decide
from baremetal_acc.planning.attach import TABLE, after, begun, brought_back, going_back, in_reverse, planned, plugged, prepared
from baremetal_acc.planning.job_transitions import begin
from tests.unit.planning import values as v

S, E = AttachState, AttachEvent
INSTANCE = '11111111-aaaa-4bbb-8ccc-222222222222'
EVERY = st.sampled_from(AttachState)


def slot(number: int, **other) -> Attachment:
    """A slot that held aes, and is to hold gzip."""
    values = {'function': 'gzip', 'previous': 'aes'} | other
    return Attachment(
        provider=f'provider-{number}',
        classes=frozenset({'FPGA'}),
        accelerator=v.FPGA,
        label='Stratix FPGA_1',
        driver='region',
        handle=AttachHandle(handle=HandleType.SLOT, address='0000:e3:00.0', slot=f'Slot{number}'),
        slot=f'Slot{number}',
        **values,
    )


def card(**other) -> Attachment:
    """A whole device."""
    return Attachment(
        provider='provider-gpu',
        classes=frozenset({'PGPU'}),
        accelerator=v.GPU,
        label='H100 GPU_0',
        driver='device',
        handle=AttachHandle(handle=HandleType.PCI, address='0000:3b:00.0'),
        **other,
    )


def of(*items: Attachment, **other) -> Attached:
    return Attached(instance=INSTANCE, items=items, **other)


def program(number: int, function: str = 'gzip', order: int = 0) -> Program:
    return Program(
        accelerator=v.FPGA,
        slot=f'Slot{number}',
        ref=v.ref(f'UpdateService/SoftwareInventory/Slot{number}'),
        image=function,
        function=function,
        version='1.0',
        expects=None,
        order=order,
    )


def plan(*actions) -> Plan:
    return Plan(target='node-1', actions=actions)


def job(*states: tuple[Program, ItemState], message: str | None = None, untouched: bool = False) -> Job:
    """A job whose writes are in these states."""
    made = begin(
        plan(),
        identity='job-1',
        node='node-1',
        flow=Flow.DEPLOY,
        step='program',
        lifecycle=1,
        now=v.NOW,
        timeout=timedelta(hours=1),
        requester=None,
        demands_met=False,
    )
    items = [Item(action=Publish(), since=v.NOW)]
    for action, state in states:
        failed = state is ItemState.FAILED
        items.append(
            Item(action=action, since=v.NOW, state=state, message=message if failed else None, untouched=untouched and failed)
        )
    return replace(made, items=tuple(items))


def states(attached: Attached) -> dict[str, AttachState]:
    return {one.provider: one.state for one in attached.items}


# ------------------------------------------------------------------------------------------------------------- the table


def test_the_table_says_what_follows_of_everything():
    """Every state with every event, and nothing else."""
    assert {(state, event) for state in AttachState for event in AttachEvent} == set(TABLE)


MOVES = {
    (S.PLANNED, E.BEGIN): S.PREPARING,
    (S.PREPARING, E.BEGIN): S.PREPARING,
    (S.PREPARED, E.BEGIN): S.PREPARING,
    (S.PLUGGED, E.BEGIN): S.PREPARING,
    (S.FAILED, E.BEGIN): S.PREPARING,
    (S.UNPREPARING, E.BEGIN): S.PREPARING,
    (S.GONE, E.BEGIN): S.PREPARING,
    (S.NOT_ROLLED_BACK, E.BEGIN): S.PREPARING,
    (S.PREPARING, E.READY): S.PREPARED,
    (S.PREPARING, E.BREAK): S.FAILED,
    (S.PREPARED, E.BREAK): S.FAILED,
    (S.PREPARED, E.PLUG): S.PLUGGED,
    (S.PLANNED, E.BACK): S.GONE,
    (S.PREPARING, E.BACK): S.UNPREPARING,
    (S.PREPARED, E.BACK): S.UNPREPARING,
    (S.PLUGGED, E.BACK): S.UNPREPARING,
    (S.FAILED, E.BACK): S.UNPREPARING,
    (S.NOT_ROLLED_BACK, E.BACK): S.UNPREPARING,
    (S.UNPREPARING, E.UNDONE): S.GONE,
    (S.UNPREPARING, E.STUCK): S.NOT_ROLLED_BACK,
}


@pytest.mark.parametrize(('state', 'event'), sorted(TABLE))
def test_what_cannot_happen_changes_nothing(state, event):
    """An event may come twice, since whoever is killed does it again."""
    assert MOVES.get((state, event), state) == TABLE[state, event]


@given(EVERY, st.lists(st.sampled_from(AttachEvent), max_size=12))
def test_nothing_is_handed_over_that_was_not_prepared(state, events):
    """Whatever happens in whatever order: plugged comes after prepared, and gone after it was brought back, or never begun."""
    one = card(state=state)
    for event in events:
        before, one = one.state, after(one, event)
        assert one.state is not S.PLUGGED or before in (S.PREPARED, S.PLUGGED)
        assert one.state is not S.GONE or before in (S.UNPREPARING, S.PLANNED, S.GONE)
        assert one.state is not S.NOT_ROLLED_BACK or before in (S.UNPREPARING, S.NOT_ROLLED_BACK)


def test_what_is_gone_holds_nothing_of_the_instance():
    """And what went wrong is said as short as it has to be, and no longer than it is so."""
    one = slot(0, state=S.UNPREPARING, written=True, doubtful=True, why='it failed')
    gone = after(one, E.UNDONE)
    assert (S.GONE, False, False, None) == (gone.state, gone.written, gone.doubtful, gone.why)
    bad = after(one, E.STUCK, 'x' * 501)
    assert (S.NOT_ROLLED_BACK, True, True, 'x' * 500) == (bad.state, bad.written, bad.doubtful, bad.why)


# ------------------------------------------------------------------------------------------------------------- preparing


def test_the_first_attempt_keeps_what_is_seen():
    """The attachments are those that the drivers have made."""
    assert of(slot(0), card()) == planned(INSTANCE, [slot(0), card()], None)


def test_a_second_attempt_knows_what_was_there_before_the_first():
    """The slot holds the instance's own function by then, which is not what has to be brought back."""
    before = of(slot(0, written=True, state=S.PREPARED), slot(1, state=S.PREPARED))
    now = planned(INSTANCE, [slot(0, previous='gzip'), slot(1, previous='zstd')], before)
    assert ['aes', 'zstd'] == [one.previous for one in now.items]
    assert [(True, False), (False, False)] == [(one.written, one.doubtful) for one in now.items]


@pytest.mark.parametrize('state', [S.PREPARING, S.UNPREPARING, S.NOT_ROLLED_BACK])
def test_what_was_cut_off_may_hold_anything(state):
    """A job of which nobody has heard how it ended may have written half of it."""
    before = of(slot(0, written=state is not S.PREPARING, state=state))
    [one] = planned(INSTANCE, [slot(0, previous=None)], before).items
    assert ('aes', True, True, S.PLANNED) == (one.previous, one.written, one.doubtful, one.state)


def test_what_another_instance_had_is_not_ours():
    """Of another instance, or of a provider that stands for several devices, only what is the very same counts."""
    before = replace(of(slot(0, written=True)), instance='another')
    assert of(slot(0, previous='gzip')) == planned(INSTANCE, [slot(0, previous='gzip')], before)
    other = replace(slot(0, written=True), accelerator=v.GPU)
    assert of(slot(0, previous='gzip')) == planned(INSTANCE, [slot(0, previous='gzip')], of(other))


def test_they_stand_in_the_order_in_which_they_are_written():
    """What is not written comes first: nothing of it has to be brought back. It is prepared at once."""
    made = begun(of(slot(0), slot(1), slot(2), card(), reasons=('old',)), plan(program(2), program(0), Publish()), 'job-7')
    assert ['provider-1', 'provider-gpu', 'provider-2', 'provider-0'] == [one.provider for one in made.items]
    assert [S.PREPARED, S.PREPARED, S.PREPARING, S.PREPARING] == [one.state for one in made.items]
    assert ('job-7', ()) == (made.job, made.reasons)


def test_a_whole_device_is_no_slot_of_it():
    """A plan that writes to a slot of the card prepares the slot, and not the card."""
    whole = replace(card(), accelerator=v.FPGA)
    made = begun(of(whole), plan(program(0)), 'job-7')
    assert [S.PREPARED] == [one.state for one in made.items]


def test_all_is_well():
    """Each was written, or needed nothing."""
    going = begun(of(card(), slot(0), slot(1)), plan(program(0), program(1)), 'job-1')
    ended = prepared(going, job((program(0), ItemState.DONE), (program(1), ItemState.STAGED)), ())
    assert {S.PREPARED} == set(states(ended).values())
    assert [(False, False), (True, False), (True, False)] == [(one.written, one.doubtful) for one in ended.items]
    assert (None, None) == (ended.job, ended.items[1].why)


def test_the_one_that_failed_is_told_from_those_that_did_not():
    """Of the one whose write went wrong nobody knows what it holds; the one behind it was never begun."""
    going = begun(of(slot(0), slot(1), slot(2), card()), plan(program(0), program(1), program(2)), 'job-1')
    done = job(
        (program(0), ItemState.DONE), (program(1), ItemState.FAILED), (program(2), ItemState.SKIPPED), message='it broke'
    )
    ended = prepared(going, done, ('program Slot1: it broke',))
    found = {one.provider: (one.state, one.written, one.doubtful, one.why) for one in ended.items}
    assert {
        'provider-gpu': (S.PREPARED, False, False, None),
        'provider-0': (S.PREPARED, True, False, None),
        'provider-1': (S.FAILED, True, True, 'it broke'),
        'provider-2': (S.FAILED, False, False, 'program Slot1: it broke'),
    } == found


def test_a_write_that_never_reached_the_device_has_changed_nothing():
    """The image could not be had, for one."""
    going = begun(of(slot(0)), plan(program(0)), 'job-1')
    ended = prepared(going, job((program(0), ItemState.FAILED), message='no image', untouched=True), ('no image',))
    assert [(S.FAILED, False, False, 'no image')] == [(o.state, o.written, o.doubtful, o.why) for o in ended.items]
    assert not decide.must_go_back(ended)


def test_what_was_in_doubt_is_known_once_it_was_written_well():
    """And stays in doubt where it was not written."""
    going = of(
        slot(0, written=True, doubtful=True, state=S.PREPARING),
        slot(1, written=True, doubtful=True, state=S.PREPARED),
        job='job-1',
    )
    ended = prepared(going, job((program(0), ItemState.DONE)), ())
    assert [(True, False), (True, True)] == [(one.written, one.doubtful) for one in ended.items]


def test_the_last_write_to_a_slot_counts():
    """A job may write to one slot more than once."""
    going = begun(of(slot(0)), plan(program(0)), 'job-1')
    ended = prepared(going, job((program(0), ItemState.FAILED), (program(0), ItemState.DONE)), ())
    assert [(S.PREPARED, False)] == [(one.state, one.doubtful) for one in ended.items]


def test_the_slot_of_another_card_is_another_one():
    """Cards call their slots alike."""
    other = replace(program(0), accelerator=v.GPU)
    going = begun(of(slot(0)), plan(program(0)), 'job-1')
    ended = prepared(going, job((other, ItemState.DONE)), ('failed',))
    assert [(S.FAILED, False)] == [(one.state, one.written) for one in ended.items]


def test_what_was_looked_at_is_plugged():
    """Nobody works on it any more."""
    done = plugged(of(slot(0, state=S.PREPARED), card(state=S.FAILED), job='job-1', reasons=('old',)))
    assert {'provider-0': S.PLUGGED, 'provider-gpu': S.FAILED} == states(done)
    assert (None, ()) == (done.job, done.reasons)


# ----------------------------------------------------------------------------------------------------------- bringing back


def failed() -> Attached:
    """Two were written, and a third one failed; two more were not touched."""
    return of(
        card(state=S.PREPARED),
        slot(3, state=S.PREPARED),
        slot(0, state=S.PREPARED, written=True),
        slot(1, state=S.PREPARED, written=True),
        slot(2, state=S.FAILED, written=True, doubtful=True, why='it broke'),
        job='job-1',
    )


def test_what_was_written_goes_back_the_last_one_first():
    """What was not written has nothing to bring back."""
    assert decide.must_go_back(failed())
    back = going_back(failed(), ['it broke', 'x' * 600])
    assert ['provider-2', 'provider-1', 'provider-0'] == [one.provider for one in in_reverse(back)]
    assert [True, False, False] == [one.doubtful for one in in_reverse(back)]
    assert {'provider-gpu': S.GONE, 'provider-3': S.GONE} == {p: s for p, s in states(back).items() if s is S.GONE}
    assert (('it broke', 'x' * 500), None) == (back.reasons, back.job)


@pytest.mark.parametrize('state', [S.PREPARING, S.UNPREPARING, S.NOT_ROLLED_BACK])
def test_what_nobody_saw_end_goes_back_and_is_in_doubt(state):
    """A conductor died, or the flow was taken away in the middle of it."""
    before = of(slot(0, state=state, written=state is not S.PREPARING, back='zstd'))
    assert decide.must_go_back(before)
    [one] = in_reverse(going_back(before, ()))
    assert (True, True, None) == (one.written, one.doubtful, one.back)


def test_what_was_never_begun_does_not_go_back():
    """Planned, prepared without a write, or gone already."""
    before = of(slot(0), slot(1, state=S.GONE, back='aes'), card(state=S.PLUGGED))
    assert not decide.must_go_back(before)
    back = going_back(before, ())
    assert ({S.GONE}, ()) == (set(states(back).values()), in_reverse(back))
    assert () == decide.told(back), 'what was told of an earlier time is not told again'


def give(number: int, function: str = 'aes') -> FunctionAssignment:
    return FunctionAssignment(accelerator=v.FPGA, slot=f'Slot{number}', function=function)


def test_each_is_given_something_kept_or_stuck():
    """Only what has to be written stays open."""
    back = going_back(failed(), ['it broke'])
    known = decide.returned(back, [give(2), give(9)], {'provider-1': 'it was empty'}, {'provider-0': 'its driver raised'})
    found = {one.provider: (one.state, one.back, one.why) for one in known.items}
    assert {
        'provider-gpu': (S.GONE, None, None),
        'provider-3': (S.GONE, None, None),
        'provider-0': (S.NOT_ROLLED_BACK, None, 'its driver raised'),
        'provider-1': (S.GONE, None, 'it was empty'),
        'provider-2': (S.UNPREPARING, 'aes', None),
    } == found
    assert ['provider-0'] == [one.provider for one in decide.stuck(known)]
    assert () == decide.stuck(None)


def test_a_whole_device_is_kept_as_it_is():
    """No slot is meant by it, whatever is given to slots of the same card."""
    whole = of(replace(card(state=S.UNPREPARING, written=True), accelerator=v.FPGA))
    assert [S.GONE] == [one.state for one in decide.returned(whole, [give(0)]).items]


def test_slots_are_written_in_the_order_in_which_they_go_back():
    """Whatever order their images ask for; what else the plan writes comes last, and nothing else changes."""
    made = plan(Publish(), program(0, order=5), program(1, order=3), program(2, order=1))
    ordered = decide.in_turn(made, [give(2), give(0)])
    assert [None, 1, 2, 0] == [getattr(action, 'order', None) for action in ordered.actions]
    assert [replace(a, order=0) if isinstance(a, Program) else a for a in made.actions] == [
        replace(a, order=0) if isinstance(a, Program) else a for a in ordered.actions
    ]


def test_a_device_that_is_refused_keeps_no_other_one_from_being_brought_back():
    """What is refused of the whole machine is refused; of other devices, too."""
    refusals = tuple(
        Refusal(accelerator=which, label='x', subject=Subject.from_text(f'function {n}'), reason=NoSlot())
        for which, n in ((v.FPGA, 0), (v.FPGA, 1), (v.GPU, 2), (None, 3))
    )
    other = replace(program(0), accelerator=v.GPU)
    made = replace(plan(program(0), other, Publish()), refusals=refusals)
    left, why = decide.without_refused(made, [give(0)])
    assert (other, Publish()) == left.actions
    assert refusals[2:] == left.refusals
    assert {v.FPGA: refusals[:2]} == why
    assert (made, {}) == decide.without_refused(made, [])


def open_again(*items: Attachment) -> Attached:
    return of(*(replace(one, state=S.UNPREPARING, written=True, back='aes') for one in items), job='job-1')


def test_what_holds_again_what_it_held_is_gone():
    """It was written, or held it all the time."""
    attached = open_again(slot(0), slot(1))
    ended = brought_back(
        attached, job((program(0, 'aes'), ItemState.DONE)), {(v.FPGA, 'Slot0'): 'aes', (v.FPGA, 'Slot1'): 'aes'}
    )
    assert ({S.GONE}, None) == (set(states(ended).values()), ended.job)
    assert 2 * ('Stratix FPGA_1 (uuid:fpga-1) was rolled back: it holds aes again',) == tuple(
        text.split(' of ', 1)[1] for text in decide.told(ended)
    )


def test_a_write_that_failed_is_not_believed_though_it_shows_what_it_should():
    """What shows the old function may be half of the new one."""
    ended = brought_back(
        open_again(slot(0)), job((program(0, 'aes'), ItemState.FAILED), message='no'), {(v.FPGA, 'Slot0'): 'aes'}
    )
    assert [(S.NOT_ROLLED_BACK, 'no')] == [(one.state, one.why) for one in ended.items]
    assert ('Slot0 of Stratix FPGA_1 (uuid:fpga-1) was not rolled back: no; it is not available in placement',) == decide.told(
        ended
    )


@pytest.mark.parametrize(
    ('holds', 'why'),
    [
        ({(v.FPGA, 'Slot0'): 'gzip'}, 'it should hold aes again, but holds gzip'),
        ({}, 'it should hold aes again, but holds no known function'),
        (None, 'the slot could not be read in the end'),
    ],
)
def test_what_does_not_hold_it_is_stuck(holds, why):
    """Success is what is seen in the end."""
    ended = brought_back(open_again(slot(0)), job((program(0, 'aes'), ItemState.DONE)), holds)
    assert [(S.NOT_ROLLED_BACK, why)] == [(one.state, one.why) for one in ended.items]


def test_what_a_bmc_said_of_a_write_that_went_well_is_no_reason():
    """What is wrong is what the slot holds."""
    done = job((program(0, 'aes'), ItemState.DONE))
    done = replace(done, items=tuple(replace(item, message='all went well') for item in done.items))
    [one] = brought_back(open_again(slot(0)), done, {}).items
    assert 'it should hold aes again, but holds no known function' == one.why


def test_what_the_job_has_not_come_to_stays_open():
    """Another one has failed before it; a job of its own brings it back. What was settled before is left alone."""
    attached = open_again(slot(0), slot(1))
    attached = replace(attached, items=(*attached.items, slot(2, state=S.GONE), card(state=S.GONE)))
    done = job((program(1, 'aes'), ItemState.FAILED), (program(0, 'aes'), ItemState.SKIPPED), message='no')
    ended = brought_back(attached, done, {})
    assert {
        'provider-0': S.UNPREPARING,
        'provider-1': S.NOT_ROLLED_BACK,
        'provider-2': S.GONE,
        'provider-gpu': S.GONE,
    } == states(ended)
    assert ['provider-0'] == [one.provider for one in in_reverse(ended)]


def test_a_job_that_comes_to_nothing_leaves_nothing_open():
    """There is an end to it: each job settles one at least, or all."""
    attached = open_again(slot(0), slot(1))
    done = job((program(1, 'aes'), ItemState.FAILED), (program(0, 'aes'), ItemState.SKIPPED), message='no', untouched=True)
    assert {S.NOT_ROLLED_BACK} == set(states(brought_back(attached, done, {})).values())


def test_a_whole_device_that_is_open_has_nothing_to_hold():
    """No driver of ours leaves one; a stored one is not taken for brought back."""
    ended = brought_back(of(card(state=S.UNPREPARING, written=True)), job(), {})
    assert [S.NOT_ROLLED_BACK] == [one.state for one in ended.items]


def test_what_came_of_it_is_told_by_name():
    """The last one first; what nothing happened to is not told."""
    attached = of(
        slot(0, state=S.GONE),
        slot(1, state=S.GONE, why='it was empty'),
        slot(2, state=S.GONE, back='zstd', previous=None),
        slot(3, state=S.NOT_ROLLED_BACK, why='no'),
        slot(4, state=S.UNPREPARING, back='aes'),
        slot(5, state=S.GONE, back='aes', why='x'),
    )
    name = 'Stratix FPGA_1 (uuid:fpga-1)'
    assert (
        f'Slot5 of {name} was rolled back: it holds aes again',
        f'Slot3 of {name} was not rolled back: no; it is not available in placement',
        f'Slot2 of {name} was rolled back: it holds zstd, since its function before is unknown',
        f'Slot1 of {name} was left as it is: it was empty',
    ) == decide.told(attached)


# ------------------------------------------------------------------------------------------------------------- as a whole

WRITES = st.lists(st.sampled_from([ItemState.DONE, ItemState.FAILED, ItemState.SKIPPED]), min_size=1, max_size=5)


@given(WRITES, st.data())
def test_a_failed_deployment_leaves_nothing_that_is_not_named(fates, data):
    """Whatever fails, in the first job and in those that bring back: all comes to rest, and what is not back says so."""
    actions = [program(n) for n in range(len(fates))]
    going = begun(of(*(slot(n) for n in range(len(fates)))), plan(*actions), 'job-1')
    now = prepared(going, job(*zip(actions, fates, strict=True)), ('it broke',))
    now = going_back(now, ('it broke',))
    now = decide.returned(
        now, [FunctionAssignment(accelerator=v.FPGA, slot=one.slot, function='aes') for one in in_reverse(now)]
    )
    for _ in range(len(fates) + 1):
        left = in_reverse(now)
        if not left:
            break
        again = [data.draw(st.sampled_from([ItemState.DONE, ItemState.FAILED, ItemState.SKIPPED])) for _ in left]
        backs = [program(int(one.slot.removeprefix('Slot')), 'aes') for one in left]
        holds = {(v.FPGA, b.slot): 'aes' for b, fate in zip(backs, again, strict=True) if fate is ItemState.DONE}
        now = brought_back(now, job(*zip(backs, again, strict=True)), holds)
    assert () == in_reverse(now)
    assert {S.GONE, S.NOT_ROLLED_BACK} >= set(states(now).values())
    named = ' '.join(decide.told(now))
    for one, fate in zip(now.items, fates, strict=True):
        assert (fate is ItemState.SKIPPED) == (f'{one} ' not in named)
        assert one.state is S.GONE or f'{one} was not rolled back' in named


@given(EVERY, st.booleans(), st.none() | st.text(max_size=20))
def test_what_is_stored_is_read_again(state, flag, text):
    """As JSON, and back."""
    attached = of(slot(0, state=state, written=flag, why=text), card(doubtful=flag), job=text, reasons=('a',))
    assert attached == decode(Attached, encode(attached))


@pytest.mark.parametrize(
    ('handle', 'text'),
    [
        (AttachHandle(handle=HandleType.PCI, address='0000:3b:00.0', location='Slot 3'), '0000:3b:00.0'),
        (AttachHandle(handle=HandleType.PCI, location='Slot 3'), 'Slot 3'),
        (AttachHandle(handle=HandleType.PCI), 'an address that its BMC does not report'),
        (AttachHandle(handle=HandleType.SLOT, address='0000:e3:00.0', slot='Slot1'), 'Slot1 at 0000:e3:00.0'),
        (AttachHandle(handle=HandleType.DPU_FUNCTION, address='0000:17:00.0'), 'DPU function 0000:17:00.0'),
    ],
)
def test_a_handle_is_told_as_the_instance_finds_it(handle, text):
    """An address first, then where the device sits."""
    assert text == str(handle)
