# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""An update that a BMC shows, and that it did not show before, was somebody else's, unless we have written to that BMC."""

import time
from dataclasses import replace

import pytest

from baremetal_acc.model.custody import NO_CUSTODY, Custody, KnownUpdates
from baremetal_acc.model.inventory import TaskReading, TaskState
from baremetal_acc.planning import updates
from tests.unit.planning import values as v


def task(number: int, started: str | None = '2026-11-26T12:00:00Z', **changes) -> TaskReading:
    """An update that has ended."""
    ended = TaskReading(ref=v.ref(f'Tasks/{number}'), state=TaskState.SUCCEEDED, raw='Completed/OK', is_update=True)
    return replace(ended, started=started, **changes)


def shown(*ended: TaskReading, active: tuple[TaskReading, ...] = ()):
    """What a BMC shows."""
    return v.facts(ended_tasks=ended, active_tasks=active)


def known(*ended: TaskReading, active: tuple[TaskReading, ...] = ()) -> Custody:
    """The custody after a reading of these."""
    return updates.learnt(NO_CUSTODY, shown(*ended, active=active))


@pytest.mark.parametrize(
    ('before', 'after', 'found'),
    [
        ((), (task(1),), 1),
        ((task(1),), (task(1),), None),
        ((task(1),), (task(1), task(2)), 2),
        ((task(1), task(2)), (task(2),), None),  # the oldest one is gone
        ((task(1),), (), None),
        # the BMC was restarted, and counts from the beginning again, with its clock set or not
        ((task(1),), (task(1, '2026-11-26T13:00:00Z'),), 1),
        ((task(1),), (task(1, '1970-01-01T00:00:09Z'),), 1),
        # another time zone, and another way to write it
        ((task(1),), (task(1, '2026-11-26T13:00:00+01:00'),), None),
        # no moment, for it says no offset: a BMC that shows local time shows another one in summer
        ((task(1, '2026-11-26T12:00:00'),), (task(1, '2026-11-26T13:00:00'),), None),
        ((task(1, None),), (task(1, None), task(2, None)), 2),
        ((task(1, 'TIME_NA'),), (task(1, 'TIME_NA'),), None),
        # nobody says that it is an update
        ((), (task(1, is_update=False),), None),
    ],
)
def test_what_somebody_else_has_updated(before, after, found):
    """Whatever it was for."""
    expected = None if found is None else v.ref(f'Tasks/{found}')
    assert expected == updates.new(known(*before), shown(*after))


def test_what_was_not_asked_says_nothing():
    """Neither before nor now; and what was known stays so."""
    assert updates.new(NO_CUSTODY, shown(task(1))) is None
    assert updates.new(known(), v.facts()) is None
    assert known(task(1)) == updates.learnt(known(task(1)), v.facts())


def test_one_that_still_runs_is_known_when_it_has_ended():
    """It was told while it ran, or is ours."""
    running = known(active=(task(1, state=TaskState.ACTIVE),))
    assert updates.new(running, shown(task(1))) is None
    assert updates.new(known(), shown(active=(task(1, state=TaskState.ACTIVE),))) is None


def test_a_stuck_task_of_our_own_is_known_for_as_long_as_it_is_shown():
    """The BMC counts from the beginning again after its restart, and then that number is somebody else's."""
    ours = task(1, state=TaskState.ACTIVE, is_update=False)
    theirs = task(2, state=TaskState.ACTIVE, is_update=False)
    kept = updates.learnt(NO_CUSTODY, shown(active=(ours,)), [ours.ref])
    assert updates.running(kept, shown(active=(ours,))) is None
    assert theirs.ref == updates.running(kept, shown(active=(ours, theirs)))
    assert ours.ref == updates.running(kept, shown(active=(replace(ours, started='2026-11-26T13:00:00Z'),)))
    kept = updates.learnt(kept, shown(active=(ours,)))
    assert updates.running(kept, shown(active=(ours,))) is None
    kept = updates.learnt(kept, shown())
    assert ours.ref == updates.running(kept, shown(active=(ours,)))


def test_what_is_known_of_a_bmc_does_not_hide_what_runs():
    """An update that ran at a reading of ours has not ended by being known; of one that writes nothing nobody has to know."""
    running = task(1, state=TaskState.ACTIVE)
    assert running.ref == updates.running(known(active=(running,)), shown(active=(running,)))
    assert running.ref == updates.running(NO_CUSTODY, shown(active=(running,)))
    assert updates.running(NO_CUSTODY, shown(active=(replace(running, may_write=False),))) is None


def test_what_is_forgotten_before_we_write_is_learnt_by_the_next_reading():
    """Of that BMC alone."""
    kept = updates.learnt(known(task(1)), replace(shown(task(7)), name='dpu'))
    kept = updates.forgotten(kept, ['host'])
    assert ['dpu'] == [k.bmc for k in kept.updates]
    assert updates.new(kept, shown(task(1), task(2))) is None
    kept = updates.learnt(kept, shown(task(1), task(2)))
    assert ['dpu', 'host'] == [k.bmc for k in kept.updates]
    assert updates.new(kept, shown(task(1), task(2))) is None
    assert v.ref('Tasks/3') == updates.new(kept, shown(task(3)))
    assert updates.new(kept, replace(shown(task(7)), name='dpu')) is None


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch):
    """We run in a time zone of our own, which is not UTC."""
    monkeypatch.setenv('TZ', 'XYZ-03:00')
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures('elsewhere')
@pytest.mark.parametrize(
    ('mark', 'ended'),
    [
        ('75010d28', task(1)),
        ('75010d28', task(1, '2026-11-26T17:30:00+05:30')),
        ('6b2e5a62', task(2, None)),
        ('6b2e5a62', task(2, 'TIME_NA')),
        ('6b2e5a62', task(2, '2026-11-26T12:00:00')),
    ],
)
def test_what_the_last_release_has_stored_is_known(mark, ended):
    """Else each update of before would be somebody else's, and break the custody of every card. Wherever we run."""
    stored = Custody(updates=(KnownUpdates(bmc=v.SYSTEM.bmc, marks=(mark,)),))
    assert updates.new(stored, shown(ended)) is None
    assert stored == updates.learnt(NO_CUSTODY, shown(ended))
