# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What a verb is about, how a job that has ended counts, and that an unlock is not forgotten."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from baremetal_acc.cli import plan_builder, target_verdict
from baremetal_acc.cli.exits import Exit
from baremetal_acc.cli.job_outcome import judge_job
from baremetal_acc.cli.plan_request import Verb
from baremetal_acc.cli.state import TargetState, Unlocked
from baremetal_acc.model.action import CheckImage, Engage, Flash, Program, Reset, ResetPurpose
from baremetal_acc.model.finding import FindingText
from baremetal_acc.model.job import Done, Failed, Flow, Job
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.model.lock import LockState
from baremetal_acc.model.plan import Plan
from baremetal_acc.model.quarantine import Quarantine
from baremetal_acc.model.subject import Subject
from baremetal_acc.model.verdict import Finding, Met, Verdict
from baremetal_acc.planning.job_transitions import begin
from baremetal_acc.planning.plan import plan
from baremetal_acc.planning.verify import verify
from tests.unit.planning import refusal_words
from tests.unit.planning import values as v

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def finding(subject: str, accelerator=v.GPU, met: Met = Met.NO) -> Finding:
    return Finding(
        accelerator=accelerator,
        label='x',
        subject=Subject.from_text(subject),
        fact=FindingText(expected='a', found='b'),
        met=met,
        rule='r',
        state=LockState.UNLOCKED,
    )


VERDICT = Verdict(
    target='node-1',
    findings=(
        finding('firmware GPU_0'),
        finding('lock host-device'),
        finding('lock host-device', v.FPGA),
        finding('lock'),
        finding('function Slot0', v.FPGA),
        finding('function Slot1', v.FPGA),
        finding('present', None),
        finding('users of BMC host'),
        finding('lock bmc-network', met=Met.YES),
    ),
)


@pytest.mark.parametrize(
    ('verb', 'devices', 'expected'),
    [
        (Verb.APPLY, None, 8),
        (Verb.APPLY, {v.GPU}, 5),
        (Verb.LOCK, None, 5),
        (Verb.LOCK, {v.FPGA}, 2),
        (Verb.PROGRAM, {v.FPGA}, 3),
        (Verb.UNLOCK, None, 0),
    ],
)
def test_a_verb_is_judged_by_what_it_is_about(verb, devices, expected):
    """lock fails for a card that is not seen and for who may undo it, not for old firmware; apply for all. Where devices are
    named, what is hidden may be one of them.
    """
    slots = ('slot0',) if verb is Verb.PROGRAM else ()
    found = target_verdict.relevant(verb, VERDICT, None if devices is None else frozenset(devices), slots)
    assert expected == len(found)
    assert all(f.met is Met.NO for f in found)


def test_an_unlock_is_not_met_until_it_is_undone():
    """Also where the baseline asks for no lock at all: the mark alone fails."""
    inventory = v.inventory(v.gpu(firmware=()))
    rules = v.baseline(firmware=None, block=frozenset())
    clean = verify(inventory, rules, v.NODE, (), (), lifecycle=1)
    assert clean.met
    state = TargetState(target='node-1', unlocked=(Unlocked(accelerator=v.GPU, at=NOW),))
    marked = target_verdict.marked(clean, inventory, state)
    assert ['lock'] == [str(f.subject) for f in marked.unmet]
    assert 'unlocked on purpose at 2026-11-21 12:00:00Z' == marked.unmet[0].fact.found


def test_a_quarantined_device_is_not_met_whatever_it_shows():
    """It shows the right version: only an apply that ends well ends the quarantine. A lock is judged without it."""
    inventory = v.inventory(v.gpu(firmware=()))
    clean = verify(inventory, v.baseline(firmware=None, block=frozenset()), v.NODE, (), (), lifecycle=1)
    mark = Quarantine(device=v.GPU, since=NOW, why='it runs recovery')
    marked = target_verdict.marked(clean, inventory, TargetState(target='node-1', quarantined=(mark,)))
    assert ['quarantine'] == [str(f.subject) for f in marked.unmet]
    assert 'quarantined since 2026-11-21 12:00:00Z' in marked.unmet[0].fact.found
    assert (1, 0) == tuple(len(target_verdict.relevant(verb, marked, None)) for verb in (Verb.APPLY, Verb.LOCK))


def programmed(*slots: int) -> Job:
    """A job that has written these slots of the card."""
    card = v.fpga(slots=(v.slot(0), v.slot(1)))
    functions = tuple((f'Slot{n}', 'gzip') for n in slots)
    rules = v.baseline(firmware=None, block=frozenset(), functions=functions)
    made = plan(v.inventory(card), rules, v.NODE, [v.function_image()], again=frozenset({v.FPGA}))
    job = begin(made, identity='1', node='n', flow=Flow.CLI, step='program', lifecycle=1, now=NOW, timeout=timedelta(1))
    return replace(job, items=tuple(replace(i, state=ItemState.DONE) for i in job.items))


SLOTS = tuple(v.slot(n).item.ref for n in (0, 1))
SPOILT_SLOT = Quarantine(device=v.FPGA, since=NOW, why='w', firmware=False, refs=SLOTS[:1], anew=SLOTS[:1])
SPOILT_FIRMWARE = Quarantine(device=v.FPGA, since=NOW, why='w', firmware=True, refs=(), anew=())


@pytest.mark.parametrize(
    ('mark', 'slots', 'expected'),
    [
        (SPOILT_SLOT, (0,), 'the card is written again, whatever it shows'),
        (
            SPOILT_SLOT,
            (1,),
            'this does not end the quarantine, but apply or program --execute that writes the damaged parts again does',
        ),
        (
            SPOILT_SLOT,
            (),
            'this does not end the quarantine, but apply or program --execute that writes the damaged parts again does',
        ),
        (
            SPOILT_FIRMWARE,
            (0,),
            'this does not end the quarantine, but apply --execute that writes the damaged parts again does',
        ),
    ],
)
def test_a_plan_says_of_a_quarantined_device_whether_it_ends_that(mark, slots, expected):
    """By what it writes, whatever the verb."""
    inventory = v.inventory(v.fpga(slots=(v.slot(0), v.slot(1))))
    actions = tuple(i.action for i in programmed(*slots).items) if slots else ()
    state = TargetState(target='node-1', quarantined=(mark,))
    (note,) = plan_builder._quarantine_notes(state, inventory, Plan(target='node-1', actions=actions))
    assert f'quarantined since 2026-11-21 12:00:00Z: {expected}' == refusal_words.notes([note])[0].text


def ended(*states: tuple[type, ItemState], reasons: tuple[str, ...] = ()) -> Job:
    """A job in which the actions of these kinds ended so."""
    made = plan(
        v.inventory(v.gpu(), v.fpga()), v.baseline(functions=(('Slot1', 'gzip'),)), v.NODE, [v.image(), v.function_image()]
    )
    job = begin(made, identity='1', node='n', flow=Flow.CLI, step='apply', lifecycle=1, now=NOW, timeout=timedelta(1))
    wanted = dict(states)
    items = tuple(replace(i, state=wanted.get(type(i.action), ItemState.DONE)) for i in job.items)
    assert set(wanted) <= {type(i.action) for i in job.items}
    return replace(job, items=items, reasons=reasons)


@pytest.mark.parametrize(
    ('kind', 'expected'),
    [
        (Flash, Exit.WRITE_FAILED),
        (Program, Exit.WRITE_FAILED),
        (Engage, Exit.WRITE_FAILED),
        (CheckImage, Exit.REFUSED),
    ],
)
def test_a_job_that_failed_counts_by_what_failed(kind, expected):
    """A write that went wrong is 6; an image that was not right, before anything was written, is a refusal."""
    job = ended((kind, ItemState.FAILED), reasons=('because',))
    code, _, error = judge_job(job, Failed(reasons=job.reasons, wrote=True), (finding('firmware GPU_0'),))
    assert expected is code
    assert error is not None
    assert 'because' in str(error)


@pytest.mark.parametrize(('others', 'expected'), [(ItemState.SKIPPED, Exit.REFUSED), (ItemState.DONE, Exit.WRITE_FAILED)])
def test_a_write_of_which_nothing_reached_its_device_is_a_refusal_unless_another_was_written(others, expected):
    """Its BMC refused it, or nobody sent it: no device has to be looked at."""
    job = ended((Flash, ItemState.FAILED), (Program, others), reasons=('because',))
    job = replace(job, items=tuple(replace(i, untouched=i.state is ItemState.FAILED) for i in job.items))
    code, _, error = judge_job(job, Failed(reasons=job.reasons, wrote=False), ())
    assert expected is code
    assert 'because' in str(error)


def held(purpose: ResetPurpose, **others: ItemState) -> Job:
    """A job in which a reset of this purpose failed, and the actions of other kinds are in these states, all others planned."""
    fpga = v.fpga(locks=(v.reading(state=LockState.UNLOCKED),))
    found = v.inventory(v.gpu(), fpga)
    made = plan(found, v.baseline(functions=(('Slot1', 'gzip'),)), v.NODE, [v.image(), v.function_image()], hold=True)
    job = begin(made, identity='1', node='n', flow=Flow.CLI, step='apply', lifecycle=1, now=NOW, timeout=timedelta(1))

    def state(action) -> ItemState:
        if isinstance(action, Reset):
            return ItemState.FAILED if action.purpose is purpose else ItemState.DONE
        return others.get(type(action).__name__, ItemState.SKIPPED)

    items = tuple(replace(i, state=state(i.action)) for i in job.items)
    assert {purpose} == {i.action.purpose for i in items if isinstance(i.action, Reset) and i.state is ItemState.FAILED}
    return replace(job, items=items, reasons=('it was requested to power off',))


@pytest.mark.parametrize(
    ('purpose', 'others', 'expected'),
    [
        (ResetPurpose.HOLD, {}, Exit.REFUSED),
        (ResetPurpose.HOLD, {'CheckImage': ItemState.DONE, 'Publish': ItemState.DONE}, Exit.REFUSED),
        (ResetPurpose.HOLD, {'Engage': ItemState.DONE}, Exit.REFUSED),
        (ResetPurpose.HOLD, {'Engage': ItemState.FAILED}, Exit.WRITE_FAILED),
        (ResetPurpose.HOLD, {'Flash': ItemState.SENT}, Exit.WRITE_FAILED),
        (ResetPurpose.RESUME, {}, Exit.WRITE_FAILED),
    ],
)
def test_a_host_that_did_not_power_off_before_any_card_was_touched_is_a_refusal(purpose, others, expected):
    """Nothing has to be looked at; that it was told to power off is said all the same."""
    code, _, error = judge_job(held(purpose, **others), Failed(reasons=('x',), wrote=False), ())
    assert expected is code
    assert 'it was requested to power off' in str(error)


@pytest.mark.parametrize(
    ('untouched', 'engaged', 'expected'),
    [
        (True, ItemState.DONE, Exit.REFUSED),
        (True, ItemState.FAILED, Exit.WRITE_FAILED),
        (False, ItemState.DONE, Exit.WRITE_FAILED),
    ],
)
def test_a_host_that_was_never_told_to_power_off_has_not_to_be_powered_on(untouched, engaged, expected):
    """As its BMC is busy for ever: that it could not be told to power on either leaves nothing to look at."""
    job = held(ResetPurpose.HOLD, Engage=engaged)
    items = tuple(
        replace(i, state=ItemState.FAILED, untouched=untouched and i.action.purpose is ResetPurpose.HOLD)
        if isinstance(i.action, Reset)
        else i
        for i in job.items
    )
    code, _, _ = judge_job(replace(job, items=items), Failed(reasons=('x',), wrote=False), ())
    assert expected is code


def test_a_job_without_a_failed_write_that_does_not_hold_is_not_met():
    """Everything was written as it should, and a lock still reads open."""
    unmet = (finding('lock host-device'),)
    for outcome in (Failed(reasons=('x',), wrote=True), Done()):
        code, word, error = judge_job(ended(), outcome, unmet)
        assert (Exit.NOT_MET, 'not-met') == (code, word)
        assert 'x, lock host-device: expected a, found b (rule r)' in str(error)


def test_a_job_that_holds_is_done():
    """And has nothing to say."""
    assert (Exit.HOLDS, 'done', None) == judge_job(ended(), Done(), ())


def test_a_resumed_program_job_asks_for_its_functions_again():
    """The baseline does not know them: the rule of the command line is made anew from the job."""
    job = replace(ended(), step='program')
    from baremetal_acc.execution import Tools

    tools = Tools(
        connect=lambda _: pytest.fail('not opened'),
        mechanisms=(),
        baseline=v.baseline(),
        catalogue=(),
        images=None,  # type: ignore[arg-type]
    )
    again, devices, slots = plan_builder.resumed(job, tools)
    assert ({v.FPGA}, ('Slot1',)) == (devices, slots)
    assert (('Slot1', 'gzip'),) == again.baseline.rules[0].functions
    assert {v.FPGA} == again.baseline.rules[0].match.ids
    assert v.baseline().rules == again.baseline.rules[1:]
