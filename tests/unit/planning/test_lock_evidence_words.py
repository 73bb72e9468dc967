# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Why a reading proves nothing, word by word: an operator reads it where a deploy is refused."""

from dataclasses import replace
from datetime import timedelta

import pytest

from baremetal_acc.model.job import Flow
from baremetal_acc.model.lock import LockState, ResetKind, Scope
from baremetal_acc.planning.lock_evidence import WritablePart, doubted, judge, trouble
from tests.unit.planning import values as v

LATER = v.NOW + timedelta(seconds=1)

WAITS = v.reading(needs=ResetKind.POWER_CYCLE, reset=v.SYSTEM)

CASES = [
    (
        v.reading(LockState.LOCKED_VERIFIED),
        v.engagement(),
        LockState.UNKNOWN,
        'a lock mechanism reported itself as verified, which it must not',
    ),
    (v.reading(), None, LockState.LOCKED_REPORTED, 'found locked, but not engaged by us'),
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
    (WAITS, v.engagement(WAITS, reset_at=None), LockState.PENDING_RESET, 'in effect only after a power-cycle'),
    (v.reading(reason='as it says'), v.engagement(), LockState.LOCKED_VERIFIED, None),
]

SLOT = 'FPGA/ReconfigurationSlots/1/ProgrammableFromHost'

WRONG = [{'MessageId': 'Base.1.19.InternalError', 'MessageSeverity': 'Critical'}]

IT_IS = 'the BMC reports an error next to it (Critical: Base.1.19.InternalError)'


@pytest.mark.parametrize(('reading', 'record', 'state', 'why'), CASES)
def test_why_a_reading_proves_nothing_is_said_in_these_words(reading, record, state, why):
    """And nothing else of the reading is changed."""
    found = judge(reading, () if record is None else (record,), lifecycle=v.LIFECYCLE, flow=Flow.DEPLOY)
    assert replace(reading, state=state, reason=why) == found


def test_what_comes_with_the_start_of_the_host_says_so():
    """It counts, and whoever reads why sees that it is not in force yet."""
    waits = v.reading(LockState.PENDING_RESET, needs=ResetKind.SYSTEM_RESET, reset=v.SYSTEM, with_start=v.SYSTEM)
    found = judge(waits, [v.engagement(waits, reset_at=None)], lifecycle=v.LIFECYCLE, flow=Flow.DEPLOY, starting=v.SYSTEM)
    assert replace(waits, state=LockState.LOCKED_VERIFIED, reason='takes effect with the start of the host') == found


def test_what_shows_no_items_is_called_the_device():
    """In the words of a refusal; and what is reached by way of a BMC, after it."""
    assert 'all by way of BMC host' == str(WritablePart(scope=Scope.BMC, part='host'))
    assert ['the device', 'Slot0'] == [
        str(WritablePart(scope=Scope.FIRMWARE)),
        str(WritablePart(scope=Scope.SLOT, part='Slot0')),
    ]


def shown(beside=(), slot=(), slots=(), fpga=(), resource=()):
    """A Processor with two slots, and what it says beside the property of the second one, and around it."""
    second = {'ProgrammableFromHost': False, **dict(beside), **dict(slot)}
    inner = {'ReconfigurationSlots': [{'ProgrammableFromHost': False}, second], 'ProgrammableFromHost': False}
    return {'FPGA': {**inner, **dict(slots)}, **dict(fpga), **dict(resource)}


@pytest.mark.parametrize(
    'body',
    [
        shown(beside={'ProgrammableFromHost@Message.ExtendedInfo': WRONG}),
        shown(slot={'@Message.ExtendedInfo': WRONG}),
        shown(slots={'ReconfigurationSlots@Message.ExtendedInfo': WRONG}),
        shown(slots={'@Message.ExtendedInfo': WRONG}),
        shown(fpga={'FPGA@Message.ExtendedInfo': WRONG}),
        shown(resource={'@Message.ExtendedInfo': WRONG}),
    ],
)
def test_a_lock_that_is_shown_with_a_message_of_something_wrong_is_unknown(body):
    """Wherever it stands on the way to the property: of an object in an array, too. Nothing else of the reading is changed."""
    reading = replace(v.reading(), field=SLOT)
    assert replace(reading, state=LockState.UNKNOWN, reason=IT_IS) == doubted(reading, body)
    for state in set(LockState) - {LockState.LOCKED_REPORTED}:
        assert replace(reading, state=state) == doubted(replace(reading, state=state), body)


@pytest.mark.parametrize('field', [SLOT, 'FPGA/ProgrammableFromHost', 'FPGA/ReconfigurationSlots/2/ProgrammableFromHost', ''])
def test_a_message_beside_something_else_is_nobodys(field):
    """Of the other slot, of another property, of none."""
    around = {'Other@Message.ExtendedInfo': WRONG, 'Other': {'@Message.ExtendedInfo': WRONG}}
    body = shown(slot=around, slots=around, fpga=around)
    body['FPGA']['ReconfigurationSlots'][0]['ProgrammableFromHost@Message.ExtendedInfo'] = WRONG
    reading = replace(v.reading(), field=field)
    assert reading == doubted(reading, body)


def test_a_message_beside_a_property_is_found_by_each_place_that_it_stands_for():
    """One property of a drive is shown as a place for each of its items."""
    body = {'ConfigurationLock': 'Enabled', 'ConfigurationLock@Message.ExtendedInfo': WRONG}
    for field in ('ConfigurationLock', 'ConfigurationLock/FW', 'ConfigurationLock/0', f'ConfigurationLock/{"9" * 5000}'):
        assert IT_IS == trouble(body, field)
        assert IT_IS == trouble(body | {'ConfigurationLock': ['Enabled']}, field)


@pytest.mark.parametrize(
    ('messages', 'said'),
    [
        ([{'MessageSeverity': 'Warning', 'Severity': 'OK', 'MessageId': 'X.1'}], '(Warning: X.1)'),
        ([{'Severity': 'Warning', 'MessageId': 'X.1'}], '(Warning: X.1)'),
        ([{'MessageId': 'X.1'}], '(unknown severity: X.1)'),
        ([{'MessageId': 'X' * 81, 'Severity': 'Critical'}], f'(Critical: {"X" * 80})'),
        (['text'], '(unknown severity: None)'),
        ([{'Severity': 'OK'}, {'Severity': 'Critical', 'MessageId': 'X.2'}], '(Critical: X.2)'),
        ([{'MessageSeverity': 'OK', 'Severity': 'Critical', 'MessageId': 'X.1'}], None),
        ([], None),
        ({'Severity': 'Critical'}, None),
        ('text', None),
    ],
)
def test_only_a_message_that_says_ok_is_none(messages, said):
    """Its newer word counts before the older one; what says nothing of how bad it is may be bad."""
    expected = None if said is None else f'the BMC reports an error next to it {said}'
    assert expected == trouble({'@Message.ExtendedInfo': messages})
