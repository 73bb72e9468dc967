# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How often, and after what pause, is a read asked again? Writes never are.

A read is idempotent: asking twice changes nothing. A write is sent once, and whoever sent it looks before deciding.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

import tenacity

from baremetal_acc import wait
from baremetal_acc.errors import BmcError

T = TypeVar('T')

ATTEMPTS = 4
"""Four tries with pauses of 0.5, 1 and 2 s outlast a BMC that re-starts one of its own services."""

PATIENCE = 20.0
"""Seconds after which one read is not begun again, tries and pauses together: a BMC that wants longer is busy or gone, and the
caller has other things to do. One answer may take longer than this; it is then the last try."""


class Later(Exception):
    """A read failed in a way that may pass.

    :ivar error: what to raise when the tries are used up.
    :ivar after: seconds the BMC asks to wait, or None.
    """

    def __init__(self, error: BmcError, after: float | None = None) -> None:
        self.error = error
        self.after = after
        super().__init__(str(error))


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Limits of repeating one read.

    :ivar patience: seconds after which no further try is begun.
    :ivar sleep: pauses; a test passes its own.
    """

    attempts: int = ATTEMPTS
    patience: float = PATIENCE
    sleep: Callable[[float], None] = wait.sleep

    def read(self, once: Callable[[], T], *, left: Callable[[], float] = lambda: float('inf')) -> T:
        """What ``once`` returns, asked again while it raises :class:`Later`.

        :param left: seconds that the caller still has.
        :raises BmcError: the last try's error.
        """
        began = time.monotonic()
        try:
            return once()
        except Later as later:
            first = later
        return self._again(once, first, left, time.monotonic() - began)

    def _again(self, once: Callable[[], T], first: Later, left: Callable[[], float], taken: float) -> T:
        """Begin with a first try that has failed: tenacity is for those few reads that need it.

        :param taken: seconds by that try.
        """
        paused = 0.0
        tries = iter((first,))

        def attempt() -> T:
            for known in tries:
                raise known
            return once()

        def pause(state: tenacity.RetryCallState) -> float:
            outcome = state.outcome
            later = outcome.exception() if outcome is not None else None
            wanted = later.after if isinstance(later, Later) else None
            return wanted if wanted is not None else 0.5 * 2.0 ** (state.attempt_number - 1)

        def enough(state: tenacity.RetryCallState) -> bool:
            spent = taken + max(paused, state.seconds_since_start or 0.0) + state.upcoming_sleep
            return state.attempt_number >= self.attempts or spent > self.patience or state.upcoming_sleep > left()

        def sleep(seconds: float) -> None:
            nonlocal paused
            paused += seconds
            self.sleep(seconds)

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(Later), wait=pause, stop=enough, sleep=sleep, reraise=True
        )
        try:
            return retrying(attempt)
        except Later as later:
            raise later.error from later.__cause__


def retry_after(value: str | None, now: datetime | None = None) -> float | None:
    """Seconds that a Retry-After header asks for, None when it is absent or says nothing sensible.

    Source: RFC 9110, section 10.2.3: seconds, or an HTTP date.
    """
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return max(0.0, (date - (now or datetime.now(UTC))).total_seconds())
