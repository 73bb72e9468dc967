# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The table of a write is total, sends once, and never takes silence for success."""

import itertools

import pytest

from baremetal_acc.decide.flash import TABLE, Effect, Seen, classify, following
from baremetal_acc.model.inventory import TaskState
from baremetal_acc.model.job import ItemState
from baremetal_acc.model.lock import ResetKind

LOOKED_AT = (ItemState.SENT, ItemState.RUNNING)
EVERY = list(itertools.product(LOOKED_AT, Seen))
BASE = {'task': None, 'version': '1', 'staged': None, 'wanted': '2', 'busy': False}


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
            assert Seen.RUNNING is seen


@pytest.mark.parametrize('state', [ItemState.SENT, ItemState.RUNNING])
def test_a_succeeded_task_is_an_end_only_where_a_reset_shows_the_version(state):
    """Where no reset is needed the version must show at once."""
    assert ItemState.STAGED is following(state, Seen.SUCCEEDED, ResetKind.POWER_CYCLE).state
    assert Effect.SETTLE is following(state, Seen.SUCCEEDED, ResetKind.NONE).effect


@pytest.mark.parametrize('state', [ItemState.SENT, ItemState.RUNNING])
@pytest.mark.parametrize('seen', [Seen.VANISHED, Seen.NOTHING, Seen.MISSING])
def test_what_vanished_settles_and_then_fails(state, seen):
    """With a reason, and without another state."""
    for reset in ResetKind:
        found = following(state, seen, reset)
        assert (state, Effect.SETTLE) == (found.state, found.effect)
        assert found.why


@pytest.mark.parametrize(
    ('change', 'seen'),
    [
        ({'task': TaskState.ACTIVE, 'version': '2'}, Seen.WORKING),
        ({'task': TaskState.FAILED, 'version': '2'}, Seen.FAILED),
        ({'version': '2'}, Seen.RUNNING),
        ({'task': TaskState.GONE, 'version': '2'}, Seen.RUNNING),
        ({'staged': '2'}, Seen.STAGED),
        ({'task': TaskState.SUCCEEDED}, Seen.SUCCEEDED),
        ({'task': TaskState.SUCCEEDED, 'staged': '3'}, Seen.OTHER),
        ({'task': TaskState.SUCCEEDED, 'version': '2', 'staged': '3'}, Seen.OTHER),
        ({'version': '2', 'staged': '3'}, Seen.NOTHING),
        ({'version': '2', 'staged': 'v2'}, Seen.RUNNING),
        ({'task': TaskState.GONE}, Seen.VANISHED),
        ({'task': TaskState.GONE, 'busy': True}, Seen.ELSEWHERE),
        ({'version': 'V2 '}, Seen.RUNNING),
        ({'version': '2', 'before': '2'}, Seen.NOTHING),
        ({'version': '2', 'before': '2', 'task': TaskState.GONE}, Seen.VANISHED),
        ({'version': '2', 'before': '2', 'task': TaskState.SUCCEEDED}, Seen.RUNNING),
        ({'task': TaskState.ACTIVE, 'stalled': True}, Seen.STALLED),
        ({'task': TaskState.ACTIVE, 'stalled': True, 'version': '2'}, Seen.RUNNING),
        ({'task': TaskState.ACTIVE, 'stalled': True, 'staged': '2'}, Seen.STAGED),
        ({'staged': '2', 'staged_before': '2'}, Seen.NOTHING),
        ({'staged': '2', 'staged_before': '2', 'task': TaskState.GONE}, Seen.VANISHED),
        ({'staged': '2', 'staged_before': '2', 'task': TaskState.SUCCEEDED}, Seen.STAGED),
        ({'staged': '2', 'staged_before': '3'}, Seen.STAGED),
        ({'busy': True}, Seen.ELSEWHERE),
        ({}, Seen.NOTHING),
        ({'version': None}, Seen.NOTHING),
    ],
)
def test_a_look_is_told_apart(change, seen):
    """The device comes before the task, and a failed task before everything."""
    assert seen is classify(**(BASE | change))


@pytest.mark.parametrize(('state', 'seen'), EVERY)
def test_what_does_not_end_well_says_why(state, seen):
    """In words of its own: an operator reads them. What goes on, or ends well, has nothing to explain."""
    found = TABLE[state, seen]
    assert (found.effect in (Effect.FAIL, Effect.SETTLE)) is bool(found.why)
    assert (found.effect is Effect.FAIL) is (found.state is ItemState.FAILED)
