# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Why a reading proves nothing, word by word: an operator reads it where a deploy is refused."""

from dataclasses import replace
from datetime import timedelta

import pytest

from baremetal_acc.decide.evidence import Subject, judge
from baremetal_acc.model.job import Flow
from baremetal_acc.model.lock import LockState, ResetKind, Scope
from tests.unit.decide import values as v

LATER = v.NOW + timedelta(seconds=1)

WAITS = v.reading(needs=ResetKind.POWER_CYCLE, reset=v.SYSTEM)

CASES = [
    (v.reading(LockState.LOCKED_VERIFIED), v.engagement(), LockState.UNKNOWN, 'a mechanism may not call itself verified'),
    (v.reading(), None, LockState.LOCKED_REPORTED, 'found closed, not engaged by us'),
    (v.reading(), v.engagement(accelerator=v.FPGA), LockState.LOCKED_REPORTED, 'engaged on another card'),
    (v.reading(part='a'), v.engagement(part='b'), LockState.LOCKED_REPORTED, 'engaged for another part of this card'),
    (v.reading(), v.engagement(lifecycle=6), LockState.LOCKED_REPORTED, 'engaged in an earlier lifecycle of the node'),
    (v.reading(), v.engagement(flow='clean'), LockState.LOCKED_REPORTED, 'not engaged in this deploy'),
    (v.reading(), v.engagement(at=LATER), LockState.LOCKED_REPORTED, 'read before it was engaged'),
    (
        v.reading(),
        v.engagement(session='reading-session'),
        LockState.LOCKED_REPORTED,
        'read over the session that engaged it',
    ),
    (WAITS, v.engagement(WAITS, reset_at=None), LockState.PENDING_RESET, 'in force after a power-cycle only'),
    (v.reading(reason='as it says'), v.engagement(), LockState.LOCKED_VERIFIED, None),
]


@pytest.mark.parametrize(('reading', 'record', 'state', 'why'), CASES)
def test_why_a_reading_proves_nothing_is_said_in_these_words(reading, record, state, why):
    """And nothing else of the reading is changed."""
    found = judge(reading, () if record is None else (record,), lifecycle=v.LIFECYCLE, flow=Flow.DEPLOY)
    assert replace(reading, state=state, reason=why) == found


def test_what_shows_no_items_is_called_the_device():
    """In the words of a refusal."""
    assert ['the device', 'Slot0'] == [str(Subject(scope=Scope.FIRMWARE)), str(Subject(scope=Scope.SLOT, part='Slot0'))]
