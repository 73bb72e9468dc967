# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The clock of the emulated machine: it runs in real time, or a test advances it."""

import time
from datetime import UTC, datetime, timedelta


class EmulatedClock:
    """Seconds since the machine was made, and the wall time that belongs to each.

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
        """Return the seconds since the start; they never decrease."""
        return self._offset if self.virtual else self._offset + time.monotonic() - self._origin

    def advance(self, seconds: float) -> None:
        """Move the clock forward; a running clock jumps and keeps running.

        :raises ValueError: ``seconds`` is negative.
        """
        if seconds < 0:
            raise ValueError(f'seconds must not be negative, but is {seconds}: the clock only moves forward')
        self._offset += seconds

    def jump(self, seconds: float) -> None:
        """Shift the wall time from now on by ``seconds``, which may be negative. The wall time of earlier seconds is kept."""
        self._jumps.append((self.now(), seconds))

    def wall(self, at: float | None = None) -> str:
        """Return the wall time of second ``at`` (now when absent) in the format of Redfish: ``2026-11-20T10:11:12+00:00``."""
        second = self.now() if at is None else at
        jumped = sum(seconds for since, seconds in self._jumps if at is None or at > since)
        moment = self._wall_start + timedelta(seconds=second + jumped)
        return moment.replace(microsecond=0).isoformat()
