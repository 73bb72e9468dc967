# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Tell from Manager.LastResetTime whether a BMC has restarted since an image was sent to it: then its write has ended.

A service that has lost its tasks proves nothing: it may have been restarted alone, while the process that writes still runs.
Manager.LastResetTime tells the two apart, as it is of the whole Manager (DSP8010 2025.4, Manager v1_24_0). Some BMCs store it
when they start, others count it back from their clock whenever they are asked (openbmc/phosphor-state-manager,
bmc_state_manager.cpp): there it moves by a second between two reads, and by as much as the clock when the clock is set. So two
things have to hold: the time differs from the one before, and the time from it to the Manager's own clock is shorter than the
time since the image was sent.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from baremetal_acc.model.inventory import ManagerReading

WOBBLE = timedelta(seconds=5)
"""Two readings of the same restart differ by less, where a BMC counts the time back from its clock."""

ROUNDING = timedelta(seconds=2)
"""The difference of two times of whole seconds is wrong by less than this."""


def has_restarted(
    before: Iterable[ManagerReading], after: Iterable[ManagerReading], *, pushed: datetime | None, now: datetime
) -> bool:
    """Whether every Manager of a BMC has restarted since an image was sent; it is unknown which of them writes.

    A Manager that shows no time, or is not shown any more, proves nothing.

    :param before: the Managers right before the image was sent, and ``after`` as they are now.
    :param pushed: when the image was sent, by our clock; None where that is unknown.
    """
    known = {one.ref: one for one in before}
    found = {one.ref: one for one in after}
    if pushed is None or not known or known.keys() != found.keys():
        return False
    return all(_has(known[ref], found[ref], now - pushed) for ref in known)


def is_another_task(started: str | None, now: str | None) -> bool:
    """Whether the task under the URI of ours was started at another time: the BMC has restarted, and numbers its tasks again.

    Task.StartTime is when a task was started last (DSP8010 2025.4, Task v1_7_4): of a task that was seen to run, and does not
    wait, another time is that of another task. A time that cannot be read proves nothing.

    :param started: StartTime of ours while it ran, and ``now`` of the task that is shown now, as the BMC writes them.
    """
    ours, shown = _at(started), _at(now)
    return ours is not None and shown is not None and abs(shown - ours) > WOBBLE


def _has(before: ManagerReading, after: ManagerReading, since: timedelta) -> bool:
    then, last, clock = _at(before.last_reset), _at(after.last_reset), _at(after.time)
    if then is None or last is None or clock is None:
        return False
    return abs(last - then) > WOBBLE and -ROUNDING <= clock - last < since - ROUNDING


def _at(text: str | None) -> datetime | None:
    """Parse a time as a BMC writes it; one without an offset is UTC. None: it is no time."""
    try:
        at = None if text is None else datetime.fromisoformat(text)
    except ValueError:
        return None
    return at if at is None or at.tzinfo is not None else at.replace(tzinfo=UTC)
