# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""That a BMC has restarted is proven by its Managers alone, and not by a clock that was set."""

from datetime import timedelta

import pytest

from baremetal_acc.model.inventory import ManagerReading
from baremetal_acc.planning.bmc_restart import has_restarted, is_another_task
from tests.unit.planning import values as v

PUSHED = v.NOW
UP_SINCE = PUSHED - timedelta(days=3)


def manager(last_reset, time, name='1') -> ManagerReading:
    """A Manager as it tells of itself."""
    texts = [None if at is None else at if isinstance(at, str) else at.isoformat() for at in (last_reset, time)]
    return ManagerReading(ref=v.ref(f'Managers/{name}'), last_reset=texts[0], time=texts[1])


BEFORE = manager(UP_SINCE, PUSHED)


def at(minutes: float, last_reset, *, ahead: timedelta = timedelta(0), name='1') -> ManagerReading:
    """The Manager so long after the push, whose clock is so much ahead of ours."""
    return manager(last_reset, PUSHED + timedelta(minutes=minutes) + ahead, name)


def told(after, minutes=10, before=(BEFORE,)):
    """What a reading after that many minutes proves."""
    return has_restarted(before, after, pushed=PUSHED, now=PUSHED + timedelta(minutes=minutes))


def test_a_manager_that_was_reset_after_the_push_has_restarted():
    """By its own clock, whatever that is."""
    assert told([at(10, PUSHED + timedelta(minutes=3))])
    day = timedelta(days=1)
    before = (manager(UP_SINCE + day, PUSHED + day),)
    assert told([at(10, PUSHED + day + timedelta(minutes=3), ahead=day)], before=before)


@pytest.mark.parametrize(
    'after',
    [
        at(10, UP_SINCE),
        at(10, UP_SINCE + timedelta(seconds=1)),
        at(10, None),
        at(10, 'sunday'),
        at(10, '0000-00-00T00:00:00Z'),
        manager(PUSHED + timedelta(minutes=3), None),
        # Its time is counted back from a clock that was set: it has been up as long as before.
        at(10, UP_SINCE + timedelta(days=1), ahead=timedelta(days=1)),
        at(10, UP_SINCE - timedelta(days=1), ahead=timedelta(days=-1)),
        # Its time is stored, and the clock was set back: by that clock it has just started.
        at(10, UP_SINCE, ahead=timedelta(days=-3, minutes=-8)),
        # It has started with a clock of 1970 that was set since.
        at(10, '1970-01-01T00:00:20Z'),
        # By its clock it starts in an hour.
        at(10, PUSHED + timedelta(hours=1)),
        at(10, PUSHED + timedelta(minutes=3), name='2'),
    ],
    ids=str,
)
def test_nothing_else_proves_a_restart(after):
    """Not that it shows another time, nor that it shows none."""
    assert not told([after])


def test_a_restart_right_before_the_push_is_none_after_it():
    """What was read before the push may be older than it by a moment."""
    assert not told([at(10, PUSHED - timedelta(seconds=3))])


def test_every_manager_has_to_have_restarted():
    """Nobody knows which of them writes; and one that is not shown any more proves nothing."""
    before = (BEFORE, manager(UP_SINCE, PUSHED, 'HGX'))
    new, old = at(10, PUSHED + timedelta(minutes=3)), at(10, UP_SINCE, name='HGX')
    assert not told([new, old], before=before)
    assert not told([new], before=before)
    assert not told([], before=())
    assert told([new, at(10, PUSHED + timedelta(minutes=4), name='HGX')], before=before)


def test_without_the_time_of_the_push_nothing_is_proven():
    """As of a job that was stored before there was such a thing."""
    after = [at(10, PUSHED + timedelta(minutes=3))]
    assert not has_restarted((BEFORE,), after, pushed=None, now=PUSHED + timedelta(minutes=10))


@pytest.mark.parametrize(
    ('started', 'shown', 'another'),
    [
        ('2026-11-21T12:00:00Z', '2026-11-21T12:00:00Z', False),
        ('2026-11-21T12:00:00Z', '2026-11-21T13:00:00+01:00', False),
        ('2026-11-21T12:00:00Z', '2026-11-21T12:00:02Z', False),
        ('2026-11-21T12:00:00Z', '2026-11-21T12:01:00Z', True),
        ('2026-11-21T12:00:00Z', '1970-01-01T00:02:00Z', True),
        ('2026-11-21T12:00:00Z', 'TIME_NOW', False),
        ('2026-11-21T12:00:00Z', None, False),
        (None, '2026-11-21T12:00:00Z', False),
    ],
)
def test_a_task_with_another_start_is_another_task(started, shown, another):
    """Whatever the clock of the BMC says; what cannot be read is no time."""
    assert another is is_another_task(started, shown)
