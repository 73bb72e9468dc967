# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which devices are quarantined after a job, and what ends a quarantine."""

from dataclasses import replace
from datetime import timedelta

import pytest

from baremetal_acc.model.action import Program
from baremetal_acc.model.interference import Interference, InterferenceKind
from baremetal_acc.model.job import Flow, Job
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.model.quarantine import Quarantine
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.model.verdict import Verdict
from baremetal_acc.planning import quarantine
from baremetal_acc.planning.job_transitions import begin
from baremetal_acc.planning.plan import plan
from tests.unit.planning import values as v

SLOTS = tuple(v.slot(n).item.ref for n in (0, 1))
CARD = v.inventory(v.fpga(slots=(v.slot(0), v.slot(1))))
RENAMED = AcceleratorId('uuid:fpga-renamed')
OTHER = AcceleratorId(f'{v.FPGA}0')
LATER = v.NOW + timedelta(hours=1)
SPOILT_SLOT = Quarantine(device=v.FPGA, since=v.NOW, why='it burns', firmware=False, refs=SLOTS[:1], anew=SLOTS[:1])
SPOILT_FIRMWARE = Quarantine(device=v.FPGA, since=v.NOW, why='it burns', refs=(), anew=())
VERDICT = Verdict(target='node-1', findings=())


def card(device: AcceleratorId = v.FPGA, **shown: str):
    """What a card shows in its slots."""
    slots = tuple(v.slot(n) for n in (0, 1))
    return v.inventory(replace(v.fpga(slots=slots), id=device, **shown))


def programmed(*slots: int, state: ItemState = ItemState.DONE) -> Job:
    """A job that has written these slots of the card."""
    rules = v.baseline(firmware=None, block=frozenset(), functions=tuple((f'Slot{slot}', 'gzip') for slot in slots))
    made = plan(CARD, rules, v.NODE, [v.function_image()], again=frozenset({v.FPGA}))
    job = begin(made, identity='1', node='n', flow=Flow.CLI, step='program', lifecycle=1, now=v.NOW, timeout=timedelta(1))
    return replace(job, items=tuple(replace(i, state=state) for i in job.items))


def failed(*slots: int) -> Job:
    """A job whose writes to these slots have failed, so that nobody may use the card."""
    return replace(programmed(*slots, state=ItemState.FAILED), quarantined=(v.FPGA,))


def after(job: Job, *marks: Quarantine, inventory=CARD, well: bool = True) -> list[tuple]:
    """What is quarantined after a job: whether firmware is, where, and what has to be written."""
    left = quarantine.after(marks, job, inventory, LATER, lambda written: well and written == {v.FPGA})
    return [(q.firmware, q.refs, q.anew) for q in left]


FIRMWARE, SLOT = (True, (), ()), (False, SLOTS[:1], SLOTS[:1])


@pytest.mark.parametrize(
    ('job', 'marks', 'expected'),
    [
        (programmed(0), [SPOILT_SLOT], []),
        (programmed(0), [SPOILT_FIRMWARE, SPOILT_SLOT], [FIRMWARE]),
        (programmed(1), [SPOILT_SLOT], [SLOT]),
        (programmed(0), [], []),
        (failed(1), [SPOILT_FIRMWARE, SPOILT_SLOT], [FIRMWARE, (False, SLOTS, SLOTS)]),
        (failed(1), [SPOILT_FIRMWARE], [FIRMWARE, (False, SLOTS[1:], SLOTS[1:])]),
        (failed(0), [SPOILT_SLOT], [SLOT]),
    ],
)
def test_a_write_ends_what_it_mends_and_adds_what_it_spoils(job, marks, expected):
    """Of a card there is one quarantine for its firmware and one for its functions, and neither takes the other's place."""
    assert expected == after(job, *marks)


def test_what_was_written_is_not_mended_while_something_of_it_does_not_hold():
    """The shell judges that, of the very devices that were written."""
    assert [SLOT] == after(programmed(0), SPOILT_SLOT, well=False)
    assert [] == after(programmed(0), SPOILT_SLOT)


def test_a_slot_that_was_restored_is_not_to_be_written_for_ever():
    """The job has written it well, and spoilt its neighbour: only that one is left to be written."""
    good, bad = programmed(0), failed(1)
    job = replace(bad, items=(*good.items, *bad.items))
    assert [FIRMWARE, (False, SLOTS, SLOTS[1:])] == after(job, SPOILT_FIRMWARE, SPOILT_SLOT, well=False)
    # What is quarantined of another card, or in another way, is left as it is.
    elsewhere = replace(SPOILT_SLOT, device=v.GPU, refs=SLOTS[:1], anew=SLOTS[:1])
    assert SLOT in after(job, elsewhere, well=False)


def test_without_a_final_look_it_is_judged_by_what_the_job_says():
    """Nobody knows what the card shows: what the job counts as spoilt is quarantined, and nothing that it has written is."""
    assert [(False, SLOTS[1:], SLOTS[1:])] == after(failed(1), inventory=None)
    unsaid = replace(failed(1), quarantined=())
    assert [(False, SLOTS[1:], SLOTS[1:])] == after(unsaid, inventory=None)
    # One that has had its final look is judged already.
    assert [] == after(replace(unsaid, verdict=VERDICT), inventory=None)
    assert [(False, SLOTS[1:], SLOTS[1:])] == after(replace(unsaid, verdict=VERDICT))


@pytest.mark.parametrize(
    ('reasons', 'expected'),
    [
        (
            (
                f'Stratix FPGA1 ({v.FPGA}) is quarantined: Slot1 ran 2.0',
                f'{v.FPGA} is quarantined: Slot0 ran 1.0',
                f'Stratix FPGA2 ({OTHER}) is quarantined: Slot7 ran 1.0',
                f'the host is off while {v.FPGA} is quarantined',
            ),
            f'Stratix FPGA1 ({v.FPGA}) is quarantined: Slot1 ran 2.0 {v.FPGA} is quarantined: Slot0 ran 1.0',
        ),
        ((), f'{v.FPGA} is quarantined'),
    ],
)
def test_why_is_what_a_job_that_was_judged_says_of_the_very_device(reasons, expected):
    """It keeps sentences only."""
    job = replace(failed(1), verdict=VERDICT, reasons=reasons)
    (mark,) = quarantine.after((), job, None, LATER, lambda _: False)
    assert (v.FPGA, LATER, expected) == (mark.device, mark.since, mark.why)


def test_why_is_what_the_final_look_shows_of_the_very_device():
    """Each sentence of it, and none about another device."""
    job = replace(failed(0, 1), quarantined=(v.GPU, v.FPGA))
    found = {q.device: q.why for q in quarantine.after((), job, CARD, LATER, lambda _: False)}
    assert f'{v.GPU} is quarantined' == found[v.GPU]
    first, second = (f'({v.FPGA}) is quarantined: Slot{n} ' for n in (0, 1))
    assert 0 < found[v.FPGA].index(first) < found[v.FPGA].index(second)
    assert ' before the card is used Stratix' in found[v.FPGA]


def test_firmware_that_was_spoilt_is_quarantined_as_that():
    """A slot is not: functions may be written to a card whose firmware is good."""
    made = plan(v.inventory(v.gpu()), v.baseline(block=frozenset()), v.NODE, [v.image()])
    job = begin(made, identity='1', node='n', flow=Flow.CLI, step='apply', lifecycle=1, now=v.NOW, timeout=timedelta(1))
    items = tuple(replace(i, state=ItemState.FAILED) for i in job.items)
    (mark,) = quarantine.after((), replace(job, items=items), v.inventory(v.gpu()), LATER, lambda _: False)
    assert (v.GPU, True, v.gpu().firmware[0].ref) == (mark.device, mark.firmware, *mark.refs)
    assert mark.refs == mark.anew


def test_two_quarantines_of_one_device_become_one():
    """What was spoilt before has still to be mended; the later reason is the one that is told."""
    later = replace(SPOILT_SLOT, why='it smokes', refs=SLOTS[1:], anew=())
    (one,) = quarantine.joined((SPOILT_SLOT, later), ())
    assert ('it smokes', set(SLOTS), SLOTS[:1]) == (one.why, set(one.refs), one.anew)
    assert (SPOILT_SLOT, SPOILT_FIRMWARE) == quarantine.joined((SPOILT_SLOT,), (SPOILT_FIRMWARE,))


def test_what_is_in_the_place_of_a_quarantined_card_is_suspected_too():
    """It may be the same card with another name, and what is quarantined is suspected wherever it is."""
    assert {v.FPGA} == quarantine.suspects([SPOILT_SLOT], CARD)
    assert {v.FPGA, RENAMED} == quarantine.suspects([SPOILT_SLOT], card(RENAMED))
    assert {v.FPGA} == quarantine.suspects(iter([SPOILT_SLOT]), v.inventory())
    assert (SPOILT_SLOT,) == quarantine.still_there([SPOILT_SLOT, replace(SPOILT_SLOT, device=v.GPU, refs=())], card(RENAMED))
    assert (SPOILT_SLOT,) == quarantine.still_there(iter([SPOILT_SLOT]), CARD)
    assert () == quarantine.still_there([SPOILT_SLOT], v.inventory())


def test_a_card_is_unmended_until_a_job_has_written_it_well():
    """One with another name in its place has to be written itself."""
    assert {v.FPGA} == quarantine.unmended([SPOILT_SLOT], programmed(1), CARD)
    assert not quarantine.unmended([SPOILT_SLOT], programmed(0), CARD)
    assert {RENAMED} == quarantine.unmended([SPOILT_SLOT], programmed(0), card(RENAMED))
    assert not quarantine.unmended([SPOILT_SLOT], programmed(1), v.inventory())


def test_what_a_card_does_not_show_any_more_cannot_be_written():
    """Of a slot that is gone nothing has to be written, where somebody has looked."""
    gone = replace(SPOILT_SLOT, refs=(*SLOTS, v.ref('gone')), anew=(SLOTS[0], v.ref('gone')))
    writes = tuple(i.action for i in programmed(0).items if isinstance(i.action, Program))
    assert {v.FPGA} == quarantine.mended(gone, writes, CARD)
    assert not quarantine.mended(gone, writes, None)
    assert not quarantine.mended(replace(gone, anew=SLOTS), writes, CARD)
    assert {v.FPGA} == quarantine.written_well(gone, programmed(0), CARD)


def test_a_card_that_was_met_open_is_quarantined_where_its_firmware_is_not_yet():
    """A quarantine of its functions does not stand for that."""
    met = Interference(kind=InterferenceKind.HOST_ON, accelerators=frozenset({v.FPGA, v.GPU}), at=LATER, ref=v.ref('Systems/1'))
    (slot, fpga, gpu) = quarantine.with_interferences((SPOILT_SLOT,), (met,))
    assert (SPOILT_SLOT, v.FPGA, v.GPU) == (slot, fpga.device, gpu.device)
    assert (True, LATER, f'{met}: {v.FPGA} is quarantined') == (fpga.firmware, fpga.since, fpga.why)
    assert (SPOILT_FIRMWARE, gpu) == quarantine.with_interferences((SPOILT_FIRMWARE,), (met,))
