# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Retry policy for reads from a BMC: number of attempts, back-off, and the Retry-After header. Writes are never retried.

A read is idempotent: sending it twice changes nothing. A write is sent once; whoever sent it reads the state before deciding
what to do next.
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
"""Four attempts with pauses of 0.5, 1 and 2 s outlast a BMC that restarts one of its own services."""

PATIENCE = 20.0
"""Seconds after which one read is not retried, attempts and pauses together: a BMC that takes longer is busy or gone, and the
caller has other things to do. One answer may take longer than this; it is then the last attempt.
"""


class Later(Exception):
    """A read failed in a way that may be temporary: it can be retried.

    :ivar error: what to raise when all attempts have failed.
    :ivar after: seconds that the BMC asks to wait, or None.
    """

    def __init__(self, error: BmcError, after: float | None = None) -> None:
        self.error = error
        self.after = after
        super().__init__(str(error))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRetry:
    """Limits for retrying one read.

    :ivar attempts: maximum number of attempts.
    :ivar patience: seconds after which no further attempt is begun.
    :ivar sleep: waits between attempts; a test passes its own.
    """

    attempts: int = ATTEMPTS
    patience: float = PATIENCE
    sleep: Callable[[float], None] = wait.sleep

    def read(self, once: Callable[[], T], *, left: Callable[[], float] = lambda: float('inf')) -> T:
        """Call ``once``, and retry it while it raises :class:`Later`.

        :param left: seconds that the caller still has.
        :returns: what ``once`` returns.
        :raises BmcError: the error of the last attempt.
        """
        began = time.monotonic()
        try:
            return once()
        except Later as later:
            first = later
        return self._again(once, first, left, time.monotonic() - began)

    def _again(self, once: Callable[[], T], first: Later, left: Callable[[], float], taken: float) -> T:
        """Retry after a first attempt that has failed: tenacity is used only for the few reads that need it.

        :param taken: seconds that the first attempt took.
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
    """Seconds that a Retry-After header asks for; None when the header is absent or cannot be parsed.

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
