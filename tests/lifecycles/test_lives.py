# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Some hundred random lifecycles, always the same ones, and a check that they would notice a missing guard."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from baremetal_acc.model.custody import Cover, Interval, Strength
from baremetal_acc.model.lock import LockState
from baremetal_acc.planning import custody, custody_intervals, custody_rules, lock_evidence, watch
from tests.lifecycles import soak
from tests.lifecycles.life import PRODUCTS, TROUBLES, Life, UnprovenHandOver, play

FIRST, COUNT = 0, 100

WITHOUT = 150
"""Lives, at most, within which the loss of a guard has to show."""


@pytest.fixture(scope='module')
def played() -> Counter[str]:
    """What came of them. A life that goes wrong fails here, with its story."""
    figures: Counter[str] = Counter()
    for seed in range(FIRST, FIRST + COUNT):
        figures += play(seed).figures
    return figures


def test_no_machine_is_handed_over_without_fresh_proof_nor_refused_without_a_cause(played: Counter[str]) -> None:
    """Every one was played to its end, and with nothing wrong nothing is refused."""
    assert COUNT == played['lives']
    assert 0 == played['false refusals'] + played['false failures of cleaning'] + played['false alarms']
    assert 0 == played[soak.REFUSED]


def test_the_lives_are_worth_playing(played: Counter[str]) -> None:
    """They hold hand-overs and refusals, tenants that write, and a watch that finds something."""
    for what in (
        'hand-overs',
        'refusals',
        'cleanings failed',
        'rounds with troubles',
        'writes of tenants done',
        'writes of tenants refused',
        'deployments with nothing wrong',
        'believed',
        'hand-overs, custody required',
        'hand-overs, custody evidenced',
        'hand-overs with other bytes where custody is only reported',
        'components with other bytes by code on the host',
        'starts of hosts by somebody else',
        soak.CALM,
    ):
        assert 0 < played[what], what
    never = [name for name in TROUBLES if not played[f'fault {name}']]
    assert len(TROUBLES) / 10 > len(never), never


def test_a_life_is_the_same_each_time() -> None:
    """Whoever is told a seed sees the same story."""
    assert play(7).told == play(7).told
    assert set(PRODUCTS) == {Life(seed).product for seed in range(100)}


def first_wrong(kind: type[AssertionError] = AssertionError) -> tuple[int, str]:
    """The first life that goes wrong now in that way, and what is said of it; -1 when none does."""
    for seed in range(WITHOUT):
        try:
            play(seed)
        except kind as exc:
            return seed, str(exc)
    return -1, ''


def _believes_everything(judge: Callable[..., Any]) -> Callable[..., Any]:
    def judged(reading: Any, *args: Any, **kwargs: Any) -> Any:
        found = judge(reading, *args, **kwargs)
        closed = found.state in (LockState.LOCKED_REPORTED, LockState.PENDING_RESET)
        return replace(found, state=LockState.LOCKED_VERIFIED) if closed else found

    return judged


def test_evidence_of_nobody_that_counted_would_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock that was found closed, and that nobody closed in this deployment, is handed over: the truth says so."""
    monkeypatch.setattr(lock_evidence, 'judge', _believes_everything(lock_evidence.judge))
    assert 'handed over with' in first_wrong()[1]


def test_a_watch_that_sees_nothing_would_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock that has opened, or firmware that has changed, is not told."""
    monkeypatch.setattr(watch, 'troubles', lambda *_, **__: ())
    assert 'the watch saw nothing' in first_wrong()[1]


def test_a_refusal_without_a_cause_would_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who refuses everything hands nothing over, and that is no proof of anything."""
    monkeypatch.setattr(lock_evidence, 'judge', lambda reading, *_, **__: replace(reading, state=LockState.UNKNOWN))
    assert 0 < sum(play(seed).figures['false failures of cleaning'] for seed in range(5))


def test_a_chain_that_held_whatever_happened_would_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """A card that ran code of a tenant's host could write is handed over with the tenant's bytes."""

    def between(before: Any, after: Any, *_: Any, **__: Any) -> Interval:
        return Interval(since=before.at, until=after.at, cover=Cover.HOST_OFF, strength=Strength.EVIDENCED)

    monkeypatch.setattr(custody, 'between', between)
    assert 'is not of the catalogue' in first_wrong(UnprovenHandOver)[1]


def test_custody_that_is_asked_of_nobody_would_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """A card of which nobody knows who has written it passes by its version."""
    monkeypatch.setattr(custody_rules, 'satisfies', lambda *_: True)
    assert 'is not of the catalogue' in first_wrong(UnprovenHandOver)[1]


def test_custody_that_breaks_without_a_cause_would_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reading of the host's power alone would count for nothing."""
    for module in (custody, custody_intervals):
        monkeypatch.setattr(module, 'host_activity', lambda *_: custody_intervals.HostActivity.SILENT)
    assert 0 < sum(play(seed).figures['false failures of cleaning'] for seed in range(20))


def test_the_command_says_what_came_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    """By a seed, in two processes; and one life alone."""
    assert 0 == soak.main(['--lifecycles', '20', '--seed', '5'])
    said = capsys.readouterr().out
    assert '20 lifecycles from seed 5, 2 processes' in said
    assert '0 lives went wrong; 0.000 % of' in said
    assert '0 unproven hand-overs; 0 of' in said
    assert 0 == soak.main(['--only', '7'])
    assert '\n'.join(play(7).told) in capsys.readouterr().out


def test_the_command_fails_where_a_life_goes_wrong(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the seed."""
    monkeypatch.setattr(lock_evidence, 'judge', _believes_everything(lock_evidence.judge))
    seed, _ = first_wrong()
    assert 1 == soak.main(['--lifecycles', '1', '--seed', str(seed), '--processes', '1'])
    assert f'(--only {seed})' in capsys.readouterr().out
