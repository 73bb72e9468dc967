# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What is remembered of a target whichever shell it has, and which cards stood open meanwhile."""

from dataclasses import replace
from datetime import timedelta

import pytest

from baremetal_acc.execution import Tools, lifecycle
from baremetal_acc.execution.lifecycle import Remembered
from baremetal_acc.model.job import Flow
from baremetal_acc.model.lock import LockState, WritePath
from baremetal_acc.model.plan import Plan
from baremetal_acc.model.quarantine import Quarantine
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.model.verdict import Verdict
from baremetal_acc.planning import waivers
from baremetal_acc.planning.job_transitions import begin
from tests.unit.planning import values as v

GONE = AcceleratorId('uuid:gone')
SPANS = {'now': v.NOW, 'timeout': timedelta(hours=1), 'lifecycle': 1}


@pytest.mark.parametrize(
    ('state', 'lifecycle_of_it', 'is_engaged', 'expected'),
    [
        (LockState.UNLOCKED, v.LIFECYCLE, True, {v.GPU}),
        (LockState.UNLOCKED, v.LIFECYCLE + 1, True, set()),
        (LockState.UNLOCKED, v.LIFECYCLE, False, set()),
        (LockState.LOCKED_REPORTED, v.LIFECYCLE, True, set()),
        (LockState.UNKNOWN, v.LIFECYCLE, True, set()),
    ],
)
def test_a_card_stood_open_of_which_a_lock_is_open_that_we_had_closed(state, lifecycle_of_it, is_engaged, expected):
    """One that we have opened ourselves has no record, and what nobody knows of opens nothing."""
    card = v.gpu(locks=(v.reading(state=state),))
    records = [replace(v.engagement(), lifecycle=v.LIFECYCLE)] if is_engaged else []
    assert expected == lifecycle.stood_open(records, lifecycle_of_it, v.inventory(card))


def test_what_devices_have_shown_is_missed_while_they_must_be_there():
    """Of one that need not be there any more nothing is."""
    card = v.gpu(locks=(v.reading(),))
    lost = [(device, WritePath.HOST_BMC_IPMI, 'x') for device in (v.GPU, GONE)]
    before = Remembered(known=frozenset({v.GPU}), blockable=tuple(lost))
    after = before.shown([card])
    assert waivers.blockable([card]) | {lost[0]} == set(after.blockable)
    assert Remembered() == after.without_shown()
    tools = after.tools(
        Tools(connect=lambda _: pytest.fail('not opened'), mechanisms=(), baseline=v.baseline(), catalogue=(), images=None)
    )  # type: ignore
    assert (after.known, frozenset(after.blockable), after.ways) == (tools.known, tools.blockable, tools.ways)


@pytest.mark.parametrize(
    ('met', 'whole', 'known', 'quarantined'),
    [(False, False, {GONE}, 1), (True, False, {GONE, v.GPU}, 1), (True, True, {GONE, v.GPU}, 0)],
)
def test_a_device_has_to_be_there_once_all_held_and_one_that_was_taken_out_is_quarantined_no_more(
    met, whole, known, quarantined
):
    """Both only by a final look: a job that ended without one proves nothing."""
    mark = Quarantine(device=AcceleratorId('uuid:spoilt'), since=v.NOW, why='it burns')
    job = begin(Plan(target='node-1', actions=()), identity='1', node='n', flow=Flow.CLI, step='apply', **SPANS)
    job = replace(job, verdict=Verdict(target='node-1', findings=()))
    before = Remembered(known=frozenset({GONE}), quarantined=(mark,))
    after = before.after(job, v.inventory(v.gpu(locks=(v.reading(),))), v.NOW, met=met, whole=whole)
    assert (known, quarantined, met) == (set(after.known), len(after.quarantined), bool(after.blockable))
    assert before == before.after(job, None, v.NOW, met=met, whole=whole)
