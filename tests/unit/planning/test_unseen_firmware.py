# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Firmware that is as demanded, on a BMC that does not show what the next start of the host brings."""

import pytest

from baremetal_acc.model.inventory import UpdateFacts
from baremetal_acc.planning.plan import EVERYTHING, Part, plan
from baremetal_acc.planning.verify import note_unseen_firmware
from baremetal_acc.render.notes import NEXT_START as UNSEEN
from tests.unit.planning import refusal_words
from tests.unit.planning import values as v

RUNS = v.component(version=v.NEW)


def looked(*refs):
    return v.inventory(v.gpu(firmware=(RUNS,)), bmcs=(v.facts(update=UpdateFacts(push=True, pull=False, unseen=refs)),))


@pytest.mark.parametrize(
    ('refs', 'demanded', 'told'),
    [
        ((RUNS.ref,), 'GPU_*', True),
        ((), 'GPU_*', False),
        ((v.ref('UpdateService/FirmwareInventory/Other'),), 'GPU_*', False),
        ((RUNS.ref,), 'RoT_*', False),
    ],
)
def test_of_a_demanded_version_it_is_told_that_another_may_wait_unseen(refs, demanded, told):
    """Whoever believes the version has to know it; nobody is held up, and of what nobody demands nothing is said."""
    rules = v.baseline(firmware=((demanded, v.NEW),))
    found = list(note_unseen_firmware(looked(*refs), rules, v.NODE))
    assert ([('H100 GPU_0', f'firmware GPU_0: {UNSEEN}')] if told else []) == refusal_words.notes(found)
    assert [] == list(note_unseen_firmware(looked(*refs), rules, v.NODE, only=frozenset({v.FPGA})))


@pytest.mark.parametrize(('parts', 'told'), [(EVERYTHING, 1), (frozenset({Part.LOCK}), 0)])
def test_a_plan_that_is_about_firmware_has_the_note(parts, told):
    """And is neither refused nor longer for it."""
    made = plan(looked(RUNS.ref), v.baseline(), v.NODE, (), parts=parts)
    assert told == sum(UNSEEN in n.text for n in refusal_words.notes(made.notes))
    without = plan(looked(), v.baseline(), v.NODE, (), parts=parts)
    assert (without.actions, without.refusals) == (made.actions, made.refusals)
