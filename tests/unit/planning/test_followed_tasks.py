# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A write that goes on with the restart of its host is followed to its end, and given up only when nothing moves any more."""

from dataclasses import replace
from datetime import timedelta

import pytest

from baremetal_acc.model.action import Flash
from baremetal_acc.model.inventory import TaskReading, TaskState
from baremetal_acc.model.job import Flow, Job
from baremetal_acc.model.job_item import Item, ItemState
from baremetal_acc.model.plan import Plan
from baremetal_acc.planning.followed_tasks import followed, to_follow
from baremetal_acc.planning.job_transitions import begin
from tests.unit.planning import values as v

STALL = timedelta(minutes=45)
LONG_AGO, TASK, OTHER = v.NOW - STALL, v.ref('TaskService/Tasks/9'), v.ref('TaskService/Tasks/10')
RUNS = TaskReading(ref=TASK, state=TaskState.ACTIVE, raw='Running/OK', percent=10, message='erasing')


def job(*items: dict) -> Job:
    """A job that has written a card for each of these, and whose tasks wait for the restart, but for what is said of each."""
    flashes = tuple(
        Flash(accelerator=v.GPU, component=f'GPU_{n}', ref=v.ref(f'GPU_{n}'), image='i', version=v.NEW, expects=v.OLD)
        for n in range(len(items))
    )
    made = Plan(target='n', actions=flashes)
    begun = begin(
        made, identity='j', node='n', flow=Flow.CLEAN, step='s', lifecycle=1, now=v.EARLIER, timeout=timedelta(hours=3)
    )
    known = {'state': ItemState.STAGED, 'task': TASK, 'follows': True, 'percent': 10, 'message': 'erasing', 'moved': v.EARLIER}
    return replace(begun, items=tuple(replace(i, **(known | said)) for i, said in zip(begun.items, items, strict=True)))


def after(*items: dict, task: TaskReading | None = None, **said) -> tuple[Job, bool]:
    """What the first of them, or the only one, comes to when this is read of its task: by default the same as before."""
    shown = replace(task or RUNS, **said)
    return followed(job(*(items or ({},))), {TASK: shown}, v.NOW, STALL)


def only(found: Job) -> Item:
    """The one item of the job."""
    (item,) = found.items
    return item


UNFOLLOWED = [{'follows': False}, {'state': ItemState.DONE}, {'state': ItemState.FAILED}, {'task': None}]
"""A write that had ended before the restart, that has ended after it, and one of which no task is known."""


@pytest.mark.parametrize('other', UNFOLLOWED)
def test_only_a_write_that_is_staged_and_goes_on_with_the_restart_is_followed(other):
    """Whatever stands before it in the job."""
    assert [] == list(to_follow(job(other)))
    both = job(other, {'task': OTHER})
    assert [OTHER] == list(to_follow(both))
    tasks = {TASK: replace(RUNS, state=TaskState.FAILED), OTHER: replace(RUNS, ref=OTHER, state=TaskState.SUCCEEDED)}
    found, goes_on = followed(both, tasks, v.NOW, STALL)
    assert goes_on
    assert (both.items[0], False, ()) == (found.items[0], found.items[1].follows, found.reasons)
    alone = job(other)
    assert (alone, False) == followed(alone, tasks, v.NOW, STALL)


@pytest.mark.parametrize('state', [TaskState.SUCCEEDED, TaskState.GONE])
def test_a_task_that_has_ended_well_or_is_gone_leaves_it_to_the_device(state):
    """Which gets its time from now on; that a task is gone is no failure."""
    found, goes_on = after(state=state)
    item = only(found)
    assert goes_on
    assert (ItemState.STAGED, False, v.NOW, ()) == (item.state, item.follows, item.since, found.reasons)


@pytest.mark.parametrize(
    ('message', 'end'), [('bad image', 'the restart of the host (bad image)'), (None, 'the restart of the host')]
)
def test_a_task_that_fails_fails_its_write_with_what_the_bmc_says(message, end):
    """At once, though it moved a moment ago, and for certain: what was there can be put back."""
    found, goes_on = after(state=TaskState.FAILED, message=message)
    item = only(found)
    assert not goes_on
    assert (ItemState.FAILED, False, v.NOW, False) == (item.state, item.follows, item.since, item.unsure)
    why = f'the BMC says that the update failed after {end}'
    assert (why, (f'flash GPU_0 of uuid:gpu-0 with i: {why}',)) == (item.message, found.reasons)


@pytest.mark.parametrize(('said', 'raw'), [('Running/OK', 'Running/OK'), (None, 'the task cannot be read')])
def test_a_task_that_does_not_move_for_too_long_is_given_up_and_nobody_knows_whether_it_has_ended(said, raw):
    """Nor may be read; not a moment before its time is over."""
    tasks = {} if said is None else {TASK: replace(RUNS, raw=said)}
    just = job({'moved': LONG_AGO})
    assert (just, True) == followed(just, tasks, v.NOW, STALL)
    found, goes_on = followed(job({'moved': LONG_AGO - timedelta(seconds=1)}), tasks, v.NOW, STALL)
    item = only(found)
    assert not goes_on
    assert (ItemState.FAILED, False, True) == (item.state, item.follows, item.unsure)
    why = f'the update should have continued with the restart of the host, but made no progress for 0:45:00 ({raw})'
    assert (why, (f'flash GPU_0 of uuid:gpu-0 with i: {why}',)) == (item.message, found.reasons)


@pytest.mark.parametrize('said', [{'percent': 11}, {'percent': 11, 'message': 'writing'}, {'percent': None, 'message': 'x'}])
@pytest.mark.parametrize('moved', [v.EARLIER, LONG_AGO - timedelta(hours=1), None])
def test_a_task_that_moves_is_waited_for_however_long_it_stood_still(said, moved):
    """What it says is kept, so that the next reading is compared with that."""
    found, goes_on = after({'moved': moved}, **said)
    item = only(found)
    shown = {'percent': 10, 'message': 'erasing'} | said
    assert goes_on
    assert (v.NOW, shown) == (item.moved, {'percent': item.percent, 'message': item.message})
    assert (ItemState.STAGED, True, v.EARLIER) == (item.state, item.follows, item.since)


def test_words_alone_are_no_movement_of_a_task_that_tells_how_far_it_is():
    """A BMC may put a time into them."""
    found, _ = after({'moved': v.EARLIER}, message='erasing, 12:00:01')
    assert v.EARLIER == only(found).moved
    found, _ = after({'moved': v.EARLIER, 'percent': None}, percent=None, message='erasing, 12:00:01')
    assert v.NOW == only(found).moved


def test_the_time_of_a_task_that_stands_still_goes_on_from_when_it_moved_last():
    """Each reading of the same must not begin it again; the first one begins it."""
    assert (job({}), True) == after()
    assert v.NOW == only(after({'moved': None})[0]).moved


def test_a_task_that_cannot_be_read_loses_nothing_of_what_was_known():
    """Its time begins with the first look at the latest."""
    assert (job({}), True) == followed(job({}), {}, v.NOW, STALL)
    found, goes_on = followed(job({'moved': None}), {}, v.NOW, STALL)
    assert (job({'moved': v.NOW}), True) == (found, goes_on)


def test_a_job_goes_on_while_one_of_its_tasks_does():
    """Whichever of them has failed, and in either order."""
    tasks = {TASK: replace(RUNS, state=TaskState.FAILED), OTHER: replace(RUNS, ref=OTHER)}
    for items in (({}, {'task': OTHER}), ({'task': OTHER}, {})):
        found, goes_on = followed(job(*items), tasks, v.NOW, STALL)
        assert goes_on
        assert {TASK: ItemState.FAILED, OTHER: ItemState.STAGED} == {i.task: i.state for i in found.items}
