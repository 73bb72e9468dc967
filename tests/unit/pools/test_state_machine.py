# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What comes next is decided by what is seen: nothing stays withdrawn, and what somebody else has is his."""

import itertools

import pytest

from baremetal_acc.pools.state_machine import Act, Holds, MoveStage, MoveState, NodeSighting, following, resumed

S, A, N, H = MoveStage, Act, MoveState, Holds

EVERYTHING = [
    NodeSighting(standing=standing, holds=holds, claimed=claimed, offered=offered, maintenance=maintenance)
    for standing, holds, claimed, offered, maintenance in itertools.product(N, H, (False, True), (False, True), (False, True))
]


def seen(standing: MoveState, holds: Holds = H.BEFORE, **more) -> NodeSighting:
    return NodeSighting(standing=standing, holds=holds, **more)


STORY = [
    # stage, done, what is seen, stage then, act
    (S.WITHDRAW, False, seen(N.AVAILABLE), S.WITHDRAW, A.WITHDRAW),
    (S.WITHDRAW, True, seen(N.AVAILABLE), S.MANAGE, A.MANAGE),
    (S.MANAGE, True, seen(N.AVAILABLE), S.MANAGE, A.WAIT),
    (S.MANAGE, True, seen(N.MANAGEABLE), S.CLEAN, A.CLEAN),
    (S.CLEAN, True, seen(N.BETWEEN), S.CLEAN, A.WAIT),
    (S.CLEAN, True, seen(N.MANAGEABLE, H.AFTER), S.PROVIDE, A.PROVIDE),
    (S.PROVIDE, True, seen(N.MANAGEABLE, H.AFTER), S.PROVIDE, A.WAIT),
    (S.PROVIDE, True, seen(N.BETWEEN, H.AFTER), S.PROVIDE, A.WAIT),
    (S.PROVIDE, True, seen(N.AVAILABLE, H.AFTER), S.VERIFY, A.WAIT),
    (S.VERIFY, False, seen(N.AVAILABLE, H.AFTER, offered=True), S.VERIFY, A.DONE),
]


@pytest.mark.parametrize(('stage', 'done', 'what', 'then', 'act'), STORY)
def test_a_move_that_nothing_disturbs(stage, done, what, then, act):
    """Withdrawn, taken out of use, cleaned once, brought back, and verified."""
    assert (then, act) == following(stage, what, done=done)


@pytest.mark.parametrize(
    ('stage', 'done', 'what', 'then', 'act'),
    [
        # Claimed before it was taken out of use: what was offered is put back.
        (S.WITHDRAW, True, seen(N.AVAILABLE, claimed=True), S.RESTORE, A.PUT_BACK),
        (S.MANAGE, False, seen(N.AVAILABLE, claimed=True), S.RESTORE, A.PUT_BACK),
        (S.RESTORE, True, seen(N.AVAILABLE, claimed=True), S.RESTORE, A.CANCELLED),
        # Afterwards: it is brought back first.
        (S.MANAGE, True, seen(N.MANAGEABLE, claimed=True), S.RETURN, A.PROVIDE),
        (S.CLEAN, False, seen(N.MANAGEABLE, claimed=True), S.RETURN, A.PROVIDE),
        (S.RETURN, True, seen(N.MANAGEABLE), S.RETURN, A.WAIT),
        (S.RETURN, True, seen(N.BETWEEN), S.RETURN, A.WAIT),
        (S.RETURN, True, seen(N.AVAILABLE), S.RESTORE, A.PUT_BACK),
        # Not when its programs have run: it is brought back with them.
        (S.CLEAN, True, seen(N.MANAGEABLE, H.AFTER, claimed=True), S.PROVIDE, A.PROVIDE),
        (S.CLEAN, False, seen(N.MANAGEABLE, H.AFTER, claimed=True), S.PROVIDE, A.PROVIDE),
        # Who has claimed what was asked for has found it.
        (S.VERIFY, False, seen(N.AVAILABLE, H.AFTER, claimed=True), S.VERIFY, A.DONE),
        (S.PROVIDE, True, seen(N.TAKEN, H.AFTER), S.VERIFY, A.DONE),
        # Somebody else has it: it is his.
        (S.WITHDRAW, False, seen(N.TAKEN), S.RESTORE, A.CANCELLED),
        (S.WITHDRAW, False, seen(N.AVAILABLE, claimed=True), S.RESTORE, A.PUT_BACK),
        (S.WITHDRAW, False, seen(N.AVAILABLE, maintenance=True), S.RESTORE, A.WAIT),
        (S.MANAGE, False, seen(N.AVAILABLE, maintenance=True), S.RESTORE, A.WAIT),
        (S.RESTORE, False, seen(N.AVAILABLE, maintenance=True), S.RESTORE, A.WAIT),
        (S.MANAGE, False, seen(N.TAKEN), S.MANAGE, A.LEFT),
        (S.MANAGE, False, seen(N.FAILED), S.MANAGE, A.LEFT),
        (S.MANAGE, False, seen(N.GONE), S.MANAGE, A.LEFT),
        (S.MANAGE, True, seen(N.BETWEEN), S.MANAGE, A.WAIT),
        (S.CLEAN, False, seen(N.MANAGEABLE, maintenance=True), S.CLEAN, A.LEFT),
        (S.CLEAN, True, seen(N.TAKEN), S.CLEAN, A.LEFT),
        (S.CLEAN, True, seen(N.GONE), S.CLEAN, A.LEFT),
        (S.PROVIDE, False, seen(N.MANAGEABLE, H.AFTER, maintenance=True), S.PROVIDE, A.LEFT),
        (S.PROVIDE, True, seen(N.GONE), S.PROVIDE, A.LEFT),
        (S.PROVIDE, True, seen(N.TAKEN, H.OTHER), S.VERIFY, A.LEFT),
        (S.RETURN, False, seen(N.MANAGEABLE, maintenance=True), S.RETURN, A.LEFT),
        (S.RETURN, True, seen(N.TAKEN), S.RETURN, A.LEFT),
        (S.RETURN, True, seen(N.GONE), S.RETURN, A.LEFT),
        (S.VERIFY, False, seen(N.MANAGEABLE, H.AFTER), S.VERIFY, A.LEFT),
        (S.VERIFY, False, seen(N.BETWEEN, H.AFTER), S.VERIFY, A.LEFT),
        (S.VERIFY, False, seen(N.GONE), S.VERIFY, A.LEFT),
        # Somebody has brought it back before anything was programmed.
        (S.CLEAN, False, seen(N.AVAILABLE), S.RESTORE, A.PUT_BACK),
        (S.CLEAN, True, seen(N.AVAILABLE, H.OTHER), S.RESTORE, A.CANCELLED),
        # A cleaning that failed is for a person.
        (S.CLEAN, True, seen(N.FAILED), S.CLEAN, A.FAILED),
        (S.PROVIDE, True, seen(N.FAILED), S.PROVIDE, A.FAILED),
        (S.RETURN, True, seen(N.FAILED), S.RETURN, A.FAILED),
        (S.VERIFY, False, seen(N.FAILED), S.VERIFY, A.FAILED),
        # It ended, and what it ended with is seen at the end.
        (S.CLEAN, True, seen(N.MANAGEABLE, H.OTHER), S.PROVIDE, A.PROVIDE),
        (S.PROVIDE, True, seen(N.AVAILABLE, H.OTHER), S.VERIFY, A.WAIT),
    ],
)
def test_a_move_that_is_disturbed(stage, done, what, then, act):
    """By a claim, a person, or a card."""
    assert (then, act) == following(stage, what, done=done)


@pytest.mark.parametrize('stage', S)
@pytest.mark.parametrize('done', [False, True])
def test_whatever_is_seen_there_is_an_answer(stage, done):
    """Nothing is done to a machine that is somebody else's, that is gone, or that nothing is known of."""
    for what in EVERYTHING:
        then, act = following(stage, what, done=done)
        assert isinstance(then, MoveStage)
        if what.standing in (N.TAKEN, N.GONE, N.FAILED):
            assert act.ends, (stage, done, what)
        if what.maintenance:
            assert act not in (A.WITHDRAW, A.MANAGE, A.CLEAN, A.PROVIDE), (stage, done, what)
        if act is A.CLEAN:
            assert (N.MANAGEABLE, False) == (what.standing, what.claimed)
            assert what.holds is not H.AFTER
        if act is A.PUT_BACK:
            assert (N.AVAILABLE, H.BEFORE, False) == (what.standing, what.holds, what.maintenance)
        if act in (A.WITHDRAW, A.MANAGE):
            assert what.standing is N.AVAILABLE
        if act is A.PROVIDE:
            assert what.standing is N.MANAGEABLE


@pytest.mark.parametrize(
    ('stage', 'standing', 'expected'),
    [
        (S.WITHDRAW, N.AVAILABLE, S.RESTORE),
        (S.MANAGE, N.AVAILABLE, S.RESTORE),
        (S.MANAGE, N.MANAGEABLE, S.MANAGE),
        (S.WITHDRAW, N.TAKEN, S.WITHDRAW),
        (S.CLEAN, N.AVAILABLE, S.CLEAN),
        (S.PROVIDE, N.AVAILABLE, S.PROVIDE),
    ],
)
def test_what_a_killed_process_had_in_use_still_goes_back(stage, standing, expected):
    """The plan of then is old; all else goes on."""
    assert expected is resumed(stage, seen(standing))


def test_four_acts_end_a_move():
    """And no other one does."""
    assert {A.DONE, A.CANCELLED, A.FAILED, A.LEFT} == {a for a in A if a.ends}
