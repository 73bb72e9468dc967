# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The number of concurrent requests to a BMC, and whether ``$expand`` is worth it."""

import pytest

from baremetal_acc.bmc.redfish.concurrency import CALM, BmcHabits, Expansion, Pace, RememberedBmc


def test_a_bmc_that_pushes_back_gets_half_and_never_nothing() -> None:
    """429, 503 and broken connections come from BMCs that are asked too much."""
    pace = Pace(ceiling=4)
    limits = [pace.limit]
    for _ in range(3):
        pace.pushed_back()
        limits.append(pace.limit)
    assert [4, 2, 1, 1] == limits


def test_after_a_calm_while_one_more_is_tried_up_to_the_ceiling() -> None:
    """What was too much may have been a moment."""
    pace = Pace(ceiling=3)
    pace.pushed_back()
    for _ in range(CALM):
        pace.answered()
    assert 2 == pace.limit
    for _ in range(10 * CALM):
        pace.answered()
    assert 3 == pace.limit


def test_trouble_ends_the_calm() -> None:
    """The row of good answers begins anew."""
    pace = Pace(ceiling=2)
    pace.pushed_back()
    for _ in range(CALM - 1):
        pace.answered()
    pace.pushed_back()
    pace.answered()
    assert 1 == pace.limit


def expansion(plain: list[float], *expanded: tuple[float, int]) -> Expansion:
    """With these answers, in seconds."""
    it = Expansion()
    for seconds in plain:
        it.read(seconds)
    for seconds, members in expanded:
        it.expanded(seconds, members)
    return it


@pytest.mark.parametrize(
    ('plain', 'expanded', 'at_once', 'wins'),
    [
        ([], [], 4, True),
        ([0.05], [], 4, True),
        ([0.05, 0.05], [(0.05, 1), (0.05, 4)], 4, True),
        # 5 ms for a member: a plain read costs 50 ms, shared by four.
        ([0.05, 0.05], [(0.055, 1), (0.155, 21)], 4, True),
        # 25 ms and 50 ms for a member: four plain reads at a time are faster.
        ([0.05, 0.05], [(0.075, 1), (0.15, 4)], 4, False),
        ([0.05, 0.05], [(0.1, 1), (0.25, 4)], 4, False),
        # One request at a time: nothing is shared, 25 ms for a member still win.
        ([0.05, 0.05], [(0.075, 1), (0.15, 4)], 1, True),
        ([0.05, 0.05], [(0.15, 1), (0.5, 4)], 1, False),
        # One after the other in the BMC: the last plain read waited for all, so that no member costs anything.
        ([0.05, 0.2], [(0.05, 1), (0.1, 4), (0.15, 1)], 4, True),
        # Empty collections tell nothing.
        ([0.05], [(9.0, 0)], 4, True),
        # Chance.
        ([0.001], [(0.015, 1)], 4, True),
    ],
)
def test_expanding_is_left_where_a_member_costs_more_than_its_share_of_a_plain_read(
    plain: list[float], expanded: list[tuple[float, int]], at_once: int, wins: bool
) -> None:
    """A plain read of 50 ms, four at a time, costs 12.5 ms: at 25 ms a member plain reads win, at 5 ms they lose."""
    assert wins is expansion(plain, *expanded).wins(at_once)


def test_old_answers_are_forgotten() -> None:
    """A BMC may get faster."""
    it = expansion([0.05] * 3, (0.5, 4), (0.5, 4))
    assert not it.wins(4)
    for _ in range(40):
        it.read(0.05)
        it.expanded(0.05, 4)
    assert it.wins(4)


def test_every_answer_counts_at_once() -> None:
    """What it comes to is worked out once for all devices, and anew with each answer, for each number of requests at a time."""
    it = expansion([0.05], (0.1, 2))
    assert [True, False, True] == [it.wins(1), it.wins(4), it.wins(1)]
    it.read(0.5)
    assert it.wins(4)
    it = expansion([0.05], (0.05, 2))
    assert it.wins(4)
    it.beyond.clear()
    it.expanded(0.5, 2)
    assert not it.wins(4)


def test_the_latest_bmcs_are_remembered() -> None:
    """A conductor sees thousands."""
    known = RememberedBmc(most=2)
    first = known.of('a', lambda: BmcHabits(pace=Pace(ceiling=1)))
    known.of('b', lambda: BmcHabits(pace=Pace(ceiling=1)))
    assert first is known.of('a', lambda: BmcHabits(pace=Pace(ceiling=1)))
    known.of('c', lambda: BmcHabits(pace=Pace(ceiling=1)))
    assert first is known.of('a', lambda: BmcHabits(pace=Pace(ceiling=1)))
    assert 7 == known.of('b', lambda: BmcHabits(pace=Pace(ceiling=7))).pace.ceiling


@pytest.mark.parametrize(('pushes', 'limits'), [(0, [4, 1, 8]), (1, [2, 1, 8])])
def test_the_operators_limit_holds_at_once(pushes: int, limits: list[int]) -> None:
    """Fewer from now on; a BMC that stands all it is given may get more."""
    pace = Pace(ceiling=4)
    for _ in range(pushes):
        pace.pushed_back()
    seen = [pace.limit]
    for ceiling in (1, 8):
        pace.bound(ceiling)
        seen.append(pace.limit)
    assert limits == seen
