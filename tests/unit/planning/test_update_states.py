# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The table of a write is total, sends once, and never takes silence for success."""

import itertools
from dataclasses import replace

import pytest

from baremetal_acc.model.inventory import TaskReading, TaskState, UpdateActivity
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.planning.update_states import TABLE, Effect, UpdateObservation, classify, following
from tests.unit.planning import values as v

LOOKED_AT = (ItemState.SENT, ItemState.RUNNING)
EVERY = list(itertools.product(LOOKED_AT, UpdateObservation))
BASE = {'task': None, 'version': '1', 'staged': None, 'wanted': '2', 'service': UpdateActivity.IDLE}


def test_the_table_is_total():
    """Every state that is looked at, with everything a look can show, and nothing else."""
    assert set(EVERY) == set(TABLE)


@pytest.mark.parametrize(('state', 'seen'), EVERY)
def test_no_look_sends_a_write_again(state, seen):
    """Nobody knows whether a write that was sent has arrived: it is looked for, and never planned again."""
    for reset in ResetKind:
        assert ItemState.PLANNED is not following(state, seen, reset).state


@pytest.mark.parametrize(('state', 'seen'), EVERY)
def test_only_the_version_itself_is_done(state, seen):
    """A finished task, a vanished task and silence are not success."""
    for reset in ResetKind:
        if following(state, seen, reset).state is ItemState.DONE:
            assert UpdateObservation.RUNNING is seen


@pytest.mark.parametrize('state', [ItemState.SENT, ItemState.RUNNING])
def test_a_succeeded_task_is_an_end_only_where_a_reset_shows_the_version(state):
    """Where no reset is needed the version must show at once."""
    assert ItemState.STAGED is following(state, UpdateObservation.SUCCEEDED, ResetKind.POWER_CYCLE).state
    assert Effect.SETTLE is following(state, UpdateObservation.SUCCEEDED, ResetKind.NONE).effect


@pytest.mark.parametrize('state', [ItemState.SENT, ItemState.RUNNING])
def test_a_task_that_waits_for_a_restart_gets_the_one_that_is_planned(state):
    """It is followed to its end after that; where none is planned it is waited for."""
    for reset in ResetKind:
        found = following(state, UpdateObservation.AWAITS, reset)
        ends = (ItemState.STAGED, Effect.END) if reset is not ResetKind.NONE else (ItemState.RUNNING, Effect.WAIT)
        assert ends == (found.state, found.effect)


@pytest.mark.parametrize('state', [ItemState.SENT, ItemState.RUNNING])
@pytest.mark.parametrize(
    'seen', [UpdateObservation.UNTOLD, UpdateObservation.UNSHOWN, UpdateObservation.FORGOTTEN, UpdateObservation.UNANSWERED]
)
def test_what_nobody_tells_is_asked_for_longer_than_the_slowest_write(state, seen):
    """It never fails because a time is over that no evidence stands for."""
    assert (state, Effect.ASK) == (following(state, seen, ResetKind.NONE).state, TABLE[state, seen].effect)
    assert Effect.GIVE_UP is TABLE[state, UpdateObservation.STALLED].effect


@pytest.mark.parametrize('state', [ItemState.SENT, ItemState.RUNNING])
@pytest.mark.parametrize('seen', [UpdateObservation.VANISHED, UpdateObservation.NOTHING, UpdateObservation.MISSING])
def test_what_vanished_settles_and_then_fails(state, seen):
    """With a reason, and without another state."""
    for reset in ResetKind:
        found = following(state, seen, reset)
        assert (state, Effect.SETTLE) == (found.state, found.effect)
        assert found.why


IDLE, BUSY, TASKS, UNKNOWN = (
    UpdateActivity.IDLE,
    UpdateActivity.BUSY,
    UpdateActivity.TOLD_BY_TASKS,
    UpdateActivity.UNKNOWN,
)


def task(state, **more) -> TaskReading:
    """Ours, as the BMC shows it."""
    return TaskReading(ref=v.ref('TaskService/Tasks/1'), state=state, raw='x', **more)


ACTIVE, SUCCEEDED, FAILED, GONE = map(task, (TaskState.ACTIVE, TaskState.SUCCEEDED, TaskState.FAILED, TaskState.GONE))
SAYS_202, SAYS_200, SAYS_400, SAYS_404 = (replace(t, opaque=True) for t in (ACTIVE, SUCCEEDED, FAILED, GONE))
AWAITS = replace(ACTIVE, awaits_restart=True)
UNBEGUN = replace(ACTIVE, unbegun=True)


@pytest.mark.parametrize(
    ('change', 'seen'),
    [
        ({'task': ACTIVE, 'version': '2'}, UpdateObservation.WORKING),
        ({'task': AWAITS, 'version': '2'}, UpdateObservation.AWAITS),
        ({'task': FAILED, 'version': '2'}, UpdateObservation.FAILED),
        ({'version': '2'}, UpdateObservation.RUNNING),
        ({'version': '2', 'service': UNKNOWN}, UpdateObservation.RUNNING),
        ({'version': '2', 'service': BUSY}, UpdateObservation.RUNNING),
        ({'task': GONE, 'version': '2'}, UpdateObservation.RUNNING),
        ({'staged': '2'}, UpdateObservation.STAGED),
        ({'task': SUCCEEDED}, UpdateObservation.SUCCEEDED),
        ({'task': SUCCEEDED, 'service': UNKNOWN}, UpdateObservation.SUCCEEDED),
        ({'task': SUCCEEDED, 'staged': '3'}, UpdateObservation.OTHER),
        ({'task': SUCCEEDED, 'version': '2', 'staged': '3'}, UpdateObservation.OTHER),
        ({'version': '2', 'staged': '3'}, UpdateObservation.NOTHING),
        ({'version': '2', 'staged': 'v2'}, UpdateObservation.RUNNING),
        ({'task': GONE}, UpdateObservation.VANISHED),
        ({'task': GONE, 'service': TASKS}, UpdateObservation.FORGOTTEN),
        ({'task': GONE, 'service': TASKS, 'is_over': True}, UpdateObservation.VANISHED),
        ({'task': GONE, 'service': UNKNOWN, 'is_over': True}, UpdateObservation.VANISHED),
        ({'task': GONE, 'service': BUSY, 'is_over': True}, UpdateObservation.ELSEWHERE),
        ({'task': GONE, 'version': None, 'is_over': True}, UpdateObservation.UNTOLD),
        ({'task': GONE, 'version': '2', 'is_over': True}, UpdateObservation.RUNNING),
        ({'task': GONE, 'service': UNKNOWN}, UpdateObservation.UNTOLD),
        ({'task': GONE, 'service': BUSY}, UpdateObservation.ELSEWHERE),
        ({'version': 'V2 '}, UpdateObservation.RUNNING),
        ({'version': '2', 'before': '2'}, UpdateObservation.NOTHING),
        ({'version': '2', 'before': '2', 'service': UNKNOWN}, UpdateObservation.UNTOLD),
        ({'version': '2', 'before': '2', 'task': GONE}, UpdateObservation.VANISHED),
        ({'version': '2', 'before': '2', 'task': SUCCEEDED}, UpdateObservation.RUNNING),
        ({'task': ACTIVE, 'stalled': True}, UpdateObservation.STALLED),
        ({'task': AWAITS, 'stalled': True}, UpdateObservation.STALLED),
        ({'task': SAYS_400, 'cancelled': True}, UpdateObservation.UNTOLD),
        ({'task': SAYS_400, 'cancelled': True, 'service': IDLE}, UpdateObservation.UNTOLD),
        ({'task': SAYS_400, 'cancelled': True, 'version': '2'}, UpdateObservation.RUNNING),
        ({'task': SAYS_400, 'cancelled': True, 'staged': '2'}, UpdateObservation.STAGED),
        ({'task': FAILED, 'cancelled': True}, UpdateObservation.FAILED),
        ({'task': ACTIVE, 'stalled': True, 'restarts': True}, UpdateObservation.STALLED),
        ({'task': UNBEGUN, 'stalled': True}, UpdateObservation.STALLED),
        ({'task': UNBEGUN, 'stalled': True, 'restarts': True}, UpdateObservation.AWAITS),
        ({'task': UNBEGUN, 'restarts': True}, UpdateObservation.WORKING),
        ({'task': UNBEGUN, 'stalled': True, 'restarts': True, 'version': '2'}, UpdateObservation.RUNNING),
        ({'task': ACTIVE, 'stalled': True, 'version': '2'}, UpdateObservation.RUNNING),
        ({'task': ACTIVE, 'stalled': True, 'staged': '2'}, UpdateObservation.STAGED),
        ({'task': ACTIVE, 'stalled': True, 'service': BUSY}, UpdateObservation.STALLED),
        ({'staged': '2', 'staged_before': '2'}, UpdateObservation.NOTHING),
        ({'staged': '2', 'staged_before': '2', 'task': GONE}, UpdateObservation.VANISHED),
        ({'staged': '2', 'staged_before': '2', 'task': SUCCEEDED}, UpdateObservation.STAGED),
        ({'staged': '2', 'staged_before': '3'}, UpdateObservation.STAGED),
        ({'staged': '2', 'service': BUSY}, UpdateObservation.ELSEWHERE),
        ({'service': BUSY}, UpdateObservation.ELSEWHERE),
        ({'service': TASKS}, UpdateObservation.UNTOLD),
        ({'service': TASKS, 'answered': False}, UpdateObservation.UNANSWERED),
        ({'service': TASKS, 'answered': False, 'cut': True}, UpdateObservation.NOTHING),
        ({'service': TASKS, 'answered': False, 'is_over': True}, UpdateObservation.NOTHING),
        ({'service': UNKNOWN, 'answered': False, 'is_over': True}, UpdateObservation.NOTHING),
        ({'service': UNKNOWN, 'answered': False, 'cut': True}, UpdateObservation.UNTOLD),
        ({'service': BUSY, 'answered': False, 'cut': True}, UpdateObservation.ELSEWHERE),
        ({'service': TASKS, 'is_over': True}, UpdateObservation.NOTHING),
        ({'service': UNKNOWN, 'answered': False}, UpdateObservation.UNTOLD),
        ({'service': UNKNOWN}, UpdateObservation.UNTOLD),
        ({}, UpdateObservation.NOTHING),
        # Its answer to the upload was a success that says that it failed.
        ({'failed_at_once': True, 'before': '1'}, UpdateObservation.REFUSED),
        ({'failed_at_once': True, 'before': '1', 'service': TASKS}, UpdateObservation.REFUSED),
        ({'failed_at_once': True, 'before': '1', 'service': UNKNOWN}, UpdateObservation.UNTOLD),
        ({'failed_at_once': True, 'before': '1', 'service': BUSY}, UpdateObservation.ELSEWHERE),
        ({'failed_at_once': True, 'before': '1', 'task': ACTIVE}, UpdateObservation.WORKING),
        ({'failed_at_once': True, 'before': '1', 'task': SAYS_202}, UpdateObservation.WORKING),
        ({'failed_at_once': True, 'before': '1', 'task': SUCCEEDED}, UpdateObservation.SUCCEEDED),
        ({'failed_at_once': True, 'before': '1', 'task': GONE, 'service': TASKS}, UpdateObservation.FORGOTTEN),
        ({'failed_at_once': True, 'before': '1', 'version': '2'}, UpdateObservation.RUNNING),
        ({'failed_at_once': True, 'before': '1', 'staged': '2'}, UpdateObservation.STAGED),
        ({'failed_at_once': True, 'before': '1', 'staged': '3'}, UpdateObservation.NOTHING),
        ({'failed_at_once': True, 'before': '1', 'version': '3'}, UpdateObservation.NOTHING),
        ({'failed_at_once': True, 'before': '1', 'version': '3', 'service': TASKS}, UpdateObservation.UNTOLD),
        ({'failed_at_once': True, 'before': '1', 'version': None}, UpdateObservation.UNTOLD),
        ({'failed_at_once': True, 'before': '2', 'version': '2', 'service': TASKS}, UpdateObservation.REFUSED),
        ({'version': None}, UpdateObservation.UNTOLD),
        ({'version': None, 'task': SUCCEEDED}, UpdateObservation.UNSHOWN),
        ({'version': None, 'task': GONE}, UpdateObservation.UNTOLD),
        ({'version': None, 'task': FAILED}, UpdateObservation.FAILED),
        # A monitor that says no more than whether it has ended: the device is asked, whatever it says.
        ({'task': SAYS_202}, UpdateObservation.WORKING),
        ({'task': SAYS_202, 'service': BUSY, 'version': '2'}, UpdateObservation.WORKING),
        ({'task': SAYS_202, 'version': '2'}, UpdateObservation.RUNNING),
        ({'task': SAYS_202, 'version': '2', 'service': UNKNOWN}, UpdateObservation.RUNNING),
        ({'task': SAYS_200}, UpdateObservation.SUCCEEDED),
        ({'task': SAYS_200, 'service': BUSY}, UpdateObservation.ELSEWHERE),
        ({'task': SAYS_200, 'service': BUSY, 'version': '2', 'before': '2'}, UpdateObservation.ELSEWHERE),
        ({'task': SAYS_200, 'version': '2', 'before': '2'}, UpdateObservation.RUNNING),
        ({'task': SAYS_400}, UpdateObservation.FAILED),
        ({'task': SAYS_400, 'service': BUSY}, UpdateObservation.ELSEWHERE),
        ({'task': SAYS_400, 'version': '2'}, UpdateObservation.RUNNING),
        ({'task': SAYS_404, 'version': '2'}, UpdateObservation.RUNNING),
        # A service that has forgotten the task knows nothing of its write, whatever it says of itself.
        ({'task': SAYS_404}, UpdateObservation.FORGOTTEN),
        ({'task': SAYS_404, 'is_over': True}, UpdateObservation.VANISHED),
        ({'task': SAYS_404, 'cancelled': True, 'service': TASKS}, UpdateObservation.UNTOLD),
    ],
)
def test_a_look_is_told_apart(change, seen):
    """A task that tells how it stands comes before the device, and the device before a monitor that does not."""
    assert seen is classify(**(BASE | change))


@pytest.mark.parametrize('service', UpdateActivity)
@pytest.mark.parametrize('ours', [None, ACTIVE, AWAITS, SUCCEEDED, FAILED, GONE, SAYS_202, SAYS_200, SAYS_400, SAYS_404])
@pytest.mark.parametrize('version', [None, '1', '2', '3'])
@pytest.mark.parametrize('before', ['1', '2'])
@pytest.mark.parametrize('stalled', [False, True])
@pytest.mark.parametrize('failed_at_once', [False, True])
@pytest.mark.parametrize('answered', [False, True])
def test_nothing_fails_that_may_still_be_written(service, ours, version, before, stalled, failed_at_once, answered):
    """What fails at once or when it had the time to settle is put back: only what is known to have ended may be.

    The BMC says of an upload that it failed, shows its tasks, and none: that is an end while the component is as it was. That
    it has forgotten the task is none, whatever its service says of itself then.
    """
    look = {'task': ours, 'version': version, 'service': service, 'before': before, 'stalled': stalled}
    seen = classify(**(BASE | look), failed_at_once=failed_at_once, answered=answered)
    ended = ours is not None and ours.state in (TaskState.SUCCEEDED, TaskState.FAILED)
    forgotten = ours is not None and ours.state is TaskState.GONE and ours.opaque
    told = ended or (service is IDLE and not forgotten)
    told = told or (failed_at_once and service is TASKS and ours is None and version == before)
    for state in LOOKED_AT:
        if following(state, seen, ResetKind.NONE).effect in (Effect.FAIL, Effect.SETTLE):
            assert told


@pytest.mark.parametrize(('state', 'seen'), EVERY)
def test_what_does_not_end_well_says_why(state, seen):
    """In words of its own: an operator reads them. What goes on, or ends well, has nothing to explain."""
    found = TABLE[state, seen]
    assert (found.effect not in (Effect.WAIT, Effect.END)) is bool(found.why)
    assert (found.effect in (Effect.FAIL, Effect.GIVE_UP)) is (found.state is ItemState.FAILED)
