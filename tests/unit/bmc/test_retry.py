# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How often a read is retried, and how long the retries wait."""

import time
from datetime import UTC, datetime

import pytest

from baremetal_acc.bmc.retry import Later, ReadRetry, retry_after
from baremetal_acc.errors import BmcBusy

BUSY = BmcBusy(bmc='host', what='busy')


def _repeat(*outcomes: object, left: float = float('inf'), **limits: float) -> tuple[object, list[float], int]:
    """What comes out, the pauses, and how many tries there were."""
    slept: list[float] = []
    waiting = list(outcomes)
    tries = 0

    def once() -> object:
        nonlocal tries
        tries += 1
        outcome = waiting.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    try:
        found: object = ReadRetry(sleep=slept.append, **limits).read(once, left=lambda: left)  # type: ignore[arg-type]
    except BmcBusy as exc:
        found = exc
    return found, slept, tries


def test_an_answer_is_not_asked_for_again() -> None:
    """One try, no pause."""
    assert ('yes', [], 1) == _repeat('yes')


def test_pauses_grow() -> None:
    """0.5, 1, 2 seconds; four tries in all."""
    assert (BUSY, [0.5, 1.0, 2.0], 4) == _repeat(*[Later(BUSY)] * 9)


def test_what_cannot_pass_is_not_repeated() -> None:
    """Only Later is."""
    assert (BUSY, [], 1) == _repeat(BUSY, 'never')


def test_the_bmc_says_how_long() -> None:
    """Retry-After instead of our own pause."""
    assert ('yes', [7.0], 2) == _repeat(Later(BUSY, 7.0), 'yes')


def test_longer_than_our_patience_is_not_waited() -> None:
    """Neither at once nor in sum."""
    assert (BUSY, [], 1) == _repeat(Later(BUSY, 21.0), 'never')
    assert (BUSY, [9.0, 9.0], 3) == _repeat(*[Later(BUSY, 9.0)] * 5)


def test_longer_than_the_caller_has_is_not_waited() -> None:
    """The budget of a look ends it."""
    assert (BUSY, [], 1) == _repeat(Later(BUSY, 3.0), 'never', left=2.0)


@pytest.mark.parametrize(
    ('value', 'seconds'),
    [
        (None, None),
        ('30', 30.0),
        (' 5 ', 5.0),
        ('Fri, 20 Nov 2026 12:00:10 GMT', 10.0),
        ('Fri, 20 Nov 2026 11:00:00 GMT', 0.0),
        ('-3', None),
        ('soon', None),
        ('', None),
        ('٣', None),
        ('9' * 400, 999999999.0),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str | None, seconds: float | None) -> None:
    """RFC 9110; anything else says nothing."""
    assert seconds == retry_after(value, datetime(2026, 11, 20, 12, 0, tzinfo=UTC))


def test_the_first_try_takes_of_our_patience_too() -> None:
    """A read that was not answered for longer than that is not begun again: it would hold its caller up twice as long."""
    tries = 0

    def once() -> None:
        nonlocal tries
        tries += 1
        time.sleep(0.06)
        raise Later(BUSY)

    with pytest.raises(BmcBusy):
        ReadRetry(patience=0.55, sleep=lambda seconds: None).read(once)
    assert 1 == tries
