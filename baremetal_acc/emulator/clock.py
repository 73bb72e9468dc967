# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What time is it in the emulated machine? A clock that runs by itself, or one that a test moves."""

import time
from datetime import UTC, datetime, timedelta


class Clock:
    """Seconds since the machine was made, and the wall time that belongs to them.

    :param virtual: the clock stands still until :meth:`advance` moves it.
    :param start: wall time of second 0; now when absent.
    """

    def __init__(self, *, virtual: bool = False, start: datetime | None = None) -> None:
        self.virtual = virtual
        self._wall_start = start or datetime.now(UTC)
        self._origin = time.monotonic()
        self._offset = 0.0
        self._jumps: list[tuple[float, float]] = []

    def now(self) -> float:
        """Seconds since the start; never goes back."""
        return self._offset if self.virtual else self._offset + time.monotonic() - self._origin

    def advance(self, seconds: float) -> None:
        """Move the clock forward; a running clock jumps and runs on.

        :raises ValueError: time does not run backwards.
        """
        if seconds < 0:
            raise ValueError(f'the clock cannot go back by {seconds} s')
        self._offset += seconds

    def jump(self, seconds: float) -> None:
        """From now on the wall time is that much later, or earlier; what was noted before stays as it was noted."""
        self._jumps.append((self.now(), seconds))

    def wall(self, at: float | None = None) -> str:
        """The wall time of second ``at`` (now when absent) as Redfish writes it: ``2026-11-20T10:11:12+00:00``."""
        second = self.now() if at is None else at
        jumped = sum(seconds for since, seconds in self._jumps if at is None or at > since)
        moment = self._wall_start + timedelta(seconds=second + jumped)
        return moment.replace(microsecond=0).isoformat()
