# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Repeat a turn with placement that somebody else's write or a lost answer has disturbed."""

from collections.abc import Callable
from typing import TypeVar

from baremetal_acc.errors import PlacementError, PlacementUnreachable
from baremetal_acc.placement.answers import PlacementChanged

ATTEMPTS = 12
"""How often everything is read and compared again. Sixteen publishers at once needed at most four on PostgreSQL and MariaDB."""

LOST = 3
"""How many answers of placement may be lost before a call fails: one restart of one of its servers behind a load balancer."""

LOST_SECONDS = 10.0
"""A call that has taken longer fails at the next lost answer: after a timeout the caller has waited long enough."""

T = TypeVar('T')


class PlacementRetries:
    """Repeats turns that somebody else's writes or a lost answer have disturbed.

    :param timeout: seconds after which the client gives up a request.
    :param sleep: pauses after somebody else's write; ``jitter`` returns a random number from 0 to 1, ``clock`` monotonic
        seconds.
    """

    def __init__(
        self,
        timeout: Callable[[], float],
        *,
        sleep: Callable[[float], None],
        jitter: Callable[[], float],
        clock: Callable[[], float],
        attempts: int,
    ) -> None:
        self._timeout = timeout
        self._sleep = sleep
        self._jitter = jitter
        self._clock = clock
        self._attempts = attempts

    def take(self, turn: Callable[[], T | None], *, on_refused: Callable[[], None]) -> T:
        """Take turns until one returns a result. A turn that somebody else disturbs starts over after a random pause.

        So does a turn that lost an answer: the next read shows what became of the request.

        :param on_refused: called before the one further attempt after a refusal that may pass.
        """
        last: PlacementError | None = None
        refused = False
        lost, began = 0, self._clock()
        for attempt in range(self._attempts):
            try:
                result = turn()
            except PlacementUnreachable as exc:
                lost += 1
                if lost > LOST or self._clock() - began >= min(LOST_SECONDS, self._timeout()):
                    raise
                last = exc
                self._pause(attempt)
                continue
            except PlacementChanged as again:
                last = again.error
                if again.once:
                    if refused and last is not None:
                        raise last from None
                    refused = True
                    on_refused()
                self._pause(attempt)
                continue
            if result is not None:
                return result
        why = 'its providers kept changing' if last is None else last.message
        raise PlacementUnreachable(f'{why}; stopped after {self._attempts} attempts') from last

    def _pause(self, attempt: int) -> None:
        self._sleep(min(2.0, 0.02 * 2**attempt) * self._jitter())
