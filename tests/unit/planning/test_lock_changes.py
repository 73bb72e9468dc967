# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A change of a lock that the BMC carries out later is followed by its task, then by the lock itself, and neither for ever."""

from dataclasses import replace
from datetime import timedelta

import pytest

from baremetal_acc.model.action import Engage, Flash, Release
from baremetal_acc.model.inventory import Objection, TaskReading, TaskState
from baremetal_acc.model.job import Flow, Job
from baremetal_acc.model.job_item import Item, ItemState
from baremetal_acc.model.lock import LockState, Scope
from baremetal_acc.model.plan import Plan
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.planning import lock_changes
from baremetal_acc.planning.job_transitions import begin
from baremetal_acc.planning.retry_limits import RetryLimits
from tests.unit.planning import values as v

PATIENCE = RetryLimits(settle=timedelta(seconds=60), reset=timedelta(seconds=600))
TICK = timedelta(seconds=1)
LOCK = v.reading(LockState.UNLOCKED)
"""The lock as it is shown before: its value is ``false``."""

CLOSE = Engage(accelerator=v.GPU, mechanism='rot', ref=LOCK.ref, field='Closed', blocks=v.HOST_DEVICE)
OPEN = Release(accelerator=v.GPU, mechanism='rot', ref=LOCK.ref, field='Closed', expects='true')
WRITE = Flash(accelerator=v.GPU, component='GPU_0', ref=v.ref('GPU_0'), image='i', version=v.NEW, expects=v.OLD)
TASK, OTHER = v.ref('TaskService/Tasks/9'), v.ref('TaskService/Tasks/10')
RUNS = TaskReading(ref=TASK, state=TaskState.ACTIVE, raw='Running/OK')


def job(*items: tuple[Engage | Release | Flash, dict], left: timedelta = timedelta(hours=1)) -> Job:
    """A job of these, each sent just now and accepted with a task that is followed, but for what is said of it.

    :param left: until its deadline.
    """
    made = Plan(target='n', actions=tuple(action for action, _ in items))
    begun = begin(made, identity='j', node='n', flow=Flow.CLEAN, step='s', lifecycle=1, now=v.NOW, timeout=left)
    known = {'state': ItemState.RUNNING, 'task': TASK, 'follows': True, 'since': v.NOW, 'before': 'false'}
    return replace(begun, items=tuple(Item(action=action, **(known | said)) for action, said in items))


def only(found: Job) -> Item:
    """The one item of a job."""
    (item,) = found.items
    return item


def sees(of: Job, task: TaskReading | None, after: timedelta = TICK) -> Job:
    """The job once its task was read; None: it could not be."""
    return lock_changes.seen(of, {} if task is None else {TASK: task}, v.NOW + after, PATIENCE)


def reads(of: Job, *locks, after: timedelta = TICK) -> Job:
    """The job once its card was read with these locks."""
    return lock_changes.read_back(of, v.inventory(v.gpu(locks=locks)), v.NOW + after, PATIENCE)


NOT_UNDER_WAY = [
    (CLOSE, {'state': ItemState.PLANNED}),
    (CLOSE, {'state': ItemState.DONE}),
    (CLOSE, {'state': ItemState.FAILED}),
    (WRITE, {}),
]


def test_the_tasks_of_changes_under_way_are_read_once_each():
    """In their order, whatever stands before them; one that answered without a task has none to be read."""
    second = replace(OPEN, field='Other')
    changes = [*NOT_UNDER_WAY, (CLOSE, {'task': None}), (CLOSE, {'task': OTHER}), (OPEN, {}), (second, {'task': OTHER})]
    assert (OTHER, TASK) == lock_changes.tasks(job(*changes))
    assert () == lock_changes.tasks(job(*NOT_UNDER_WAY))


def test_every_task_of_a_change_is_our_own_and_none_of_a_write():
    """Also when it has ended; a write's is others' business."""
    ended = (CLOSE, {'state': ItemState.DONE})
    assert {TASK, OTHER} == lock_changes.own(job(ended, (OPEN, {'task': OTHER}), (CLOSE, {'task': None})))
    assert frozenset() == lock_changes.own(job((WRITE, {}), (CLOSE, {'task': None})))


@pytest.mark.parametrize('change', [CLOSE, OPEN])
def test_locks_are_read_once_a_task_has_ended_and_not_before(change):
    """Of nothing else that runs."""
    assert not lock_changes.reads_back(job((change, {})))
    assert lock_changes.reads_back(job((CLOSE, {}), (change, {'follows': False})))
    assert not lock_changes.reads_back(job(*((action, said | {'follows': False}) for action, said in NOT_UNDER_WAY)))


@pytest.mark.parametrize('change', [CLOSE, OPEN])
def test_a_task_that_runs_is_followed_and_its_words_are_kept(change):
    """Its message, or its state where it has none, and how far it is."""
    found = only(sees(job((change, {})), replace(RUNS, percent=40, message='writing NVRAM')))
    assert (ItemState.RUNNING, True, 'writing NVRAM', 40) == (found.state, found.follows, found.message, found.percent)
    assert found.since == v.NOW
    found = only(sees(job((change, {})), RUNS))
    assert (ItemState.RUNNING, True, 'Running/OK', None) == (found.state, found.follows, found.message, found.percent)


def test_a_task_that_cannot_be_read_leaves_everything_as_it_was():
    """Its last words too."""
    before = job((CLOSE, {'message': 'writing NVRAM', 'percent': 40}))
    assert sees(before, None) == before
    without = job((CLOSE, {'task': None}))
    assert lock_changes.seen(without, {TASK: replace(RUNS, state=TaskState.FAILED)}, v.NOW + TICK, PATIENCE) == without


@pytest.mark.parametrize('state', [TaskState.SUCCEEDED, TaskState.GONE])
def test_a_task_that_has_ended_or_is_gone_leads_to_the_lock(state):
    """Which is given its time from then on."""
    found = only(sees(job((CLOSE, {})), replace(RUNS, state=state, message='set', percent=100)))
    assert (ItemState.RUNNING, False, v.NOW + TICK) == (found.state, found.follows, found.since)
    assert ('set', 100) == (found.message, found.percent)


@pytest.mark.parametrize('message', [None, 'no such attribute'])
def test_a_task_that_fails_fails_the_change_in_its_own_words(message):
    """Or with its state where it has no words. One that says that it waits for a restart besides has failed all the same."""
    failed = replace(RUNS, state=TaskState.FAILED, raw='Exception/Critical', message=message, awaits_restart=True)
    found = sees(job((CLOSE, {})), failed)
    assert (ItemState.FAILED, v.NOW + TICK) == (only(found).state, only(found).since)
    words = message or 'Exception/Critical'
    assert only(found).message == f'the BMC says that the change failed ({words})'


def test_a_change_that_opens_a_way_for_a_write_fails_the_job():
    """One that closes it again does not: the verdict says what is open then."""
    failed = replace(RUNS, state=TaskState.FAILED)
    (reason,) = sees(job((OPEN, {})), failed).reasons
    assert reason == f'release rot of {v.GPU} at {LOCK.ref}: the BMC says that the change failed (Running/OK)'
    assert sees(job((CLOSE, {})), failed).reasons == ()


@pytest.mark.parametrize('state', [TaskState.ACTIVE, TaskState.SUCCEEDED])
def test_a_task_that_waits_for_a_restart_ends_the_wait(state):
    """However long it has run already: the lock says that it is pending."""
    found = only(sees(job((CLOSE, {})), replace(RUNS, state=state, awaits_restart=True), PATIENCE.reset + TICK))
    assert (ItemState.DONE, 'the BMC applies the change with a restart') == (found.state, found.message)
    assert found.since == v.NOW + PATIENCE.reset + TICK


@pytest.mark.parametrize('task', [RUNS, None])
def test_a_task_is_followed_for_as_long_as_a_reset_takes(task):
    """Read or not; then the lock is read."""
    assert only(sees(job((CLOSE, {})), task, PATIENCE.reset)).follows
    late = only(sees(job((CLOSE, {})), task, PATIENCE.reset + TICK))
    assert (ItemState.RUNNING, False, v.NOW + PATIENCE.reset + TICK) == (late.state, late.follows, late.since)


def test_a_lock_that_cannot_be_read_is_waited_for_until_the_deadline_and_as_long_as_a_device_and_a_reset_take():
    """Both have to be over."""
    unread = (CLOSE, {'follows': False})
    both = PATIENCE.settle + PATIENCE.reset
    for left, after in ((timedelta(0), both), (both + TICK, both + TICK), (timedelta(hours=1), both + TICK)):
        assert only(sees(job(unread, left=left), RUNS, after)).state is ItemState.RUNNING
    found = only(sees(job(unread, left=both), RUNS, both + TICK))
    assert (ItemState.FAILED, v.NOW + both + TICK) == (found.state, found.since)
    assert found.message == 'the BMC accepted the change, but the lock could not be read since'


def test_every_change_is_looked_at_and_nothing_else():
    """Whatever comes before one: a lock that is only read, a task that fails, one that goes on."""
    second = replace(OPEN, field='Other')
    begun = job(*NOT_UNDER_WAY, (CLOSE, {'follows': False}), (OPEN, {'task': OTHER}), (second, {}))
    tasks = {TASK: replace(RUNS, state=TaskState.SUCCEEDED), OTHER: replace(RUNS, ref=OTHER, state=TaskState.FAILED)}
    found = lock_changes.seen(begun, tasks, v.NOW + TICK, PATIENCE)
    assert found.items[:5] == begun.items[:5]
    assert (ItemState.FAILED, ItemState.RUNNING) == (found.items[5].state, found.items[6].state)
    assert not found.items[6].follows


# ------------------------------------------------------------------------------------------------------------------- the lock


@pytest.mark.parametrize(
    ('change', 'state', 'value', 'is_done'),
    [
        (CLOSE, LockState.LOCKED_REPORTED, 'false', True),
        (CLOSE, LockState.LOCKED_VERIFIED, 'false', True),
        (CLOSE, LockState.PENDING_RESET, 'false', True),
        (CLOSE, LockState.UNLOCKED, 'false', False),
        (CLOSE, LockState.PARTIAL, 'false', False),
        (CLOSE, LockState.UNKNOWN, None, False),
        # it is another one than before: what it is worth is the verdict's business
        (CLOSE, LockState.PARTIAL, 'true', True),
        (CLOSE, LockState.UNLOCKED, 'true', True),
        (OPEN, LockState.UNLOCKED, 'false', True),
        (OPEN, LockState.LOCKED_REPORTED, 'false', False),
        (OPEN, LockState.PENDING_RESET, 'false', False),
        (OPEN, LockState.UNKNOWN, None, False),
        (OPEN, LockState.LOCKED_REPORTED, 'true', True),
    ],
)
def test_a_change_is_done_when_the_lock_shows_it_or_is_another_one(change, state, value, is_done):
    """While its task is followed nobody asks the lock."""
    shown = replace(LOCK, state=state, value=value)
    found = only(reads(job((change, {'follows': False})), shown))
    assert (ItemState.DONE if is_done else ItemState.RUNNING) is found.state
    assert found.since == (v.NOW + TICK if is_done else v.NOW)
    assert found.message == (None if is_done else 'accepted by the BMC; waiting for the lock to show it')
    followed = job((change, {}))
    assert reads(followed, shown, after=2 * PATIENCE.settle) == followed


@pytest.mark.parametrize('shown', [LOCK, None])
def test_a_lock_has_as_long_to_show_a_change_as_a_device_takes(shown):
    """From when its task ended, or from the deadline of the job, whichever is over first; the failure says what was shown."""
    locks = () if shown is None else (shown,)
    unshown = (CLOSE, {'follows': False, 'objection': Objection(text='Policy')})
    assert only(reads(job(unshown), *locks, after=PATIENCE.settle)).state is ItemState.RUNNING
    found = only(reads(job(unshown), *locks, after=PATIENCE.settle + TICK))
    assert (ItemState.FAILED, v.NOW + PATIENCE.settle + TICK) == (found.state, found.since)
    what = 'the lock is not shown' if shown is None else 'the lock is unlocked'
    said = '(the BMC accepted it with the message: Policy)'
    assert found.message == f'the BMC accepted the change, but {what} after {PATIENCE.settle} {said}'
    # sent before the deadline, its task ended long after it
    ended_late = (CLOSE, {'follows': False, 'since': v.NOW + PATIENCE.settle})
    assert only(reads(job(ended_late, left=TICK), *locks, after=PATIENCE.settle + TICK)).state is ItemState.RUNNING
    assert only(reads(job(ended_late, left=TICK), *locks, after=PATIENCE.settle + 2 * TICK)).state is ItemState.FAILED


def test_every_lock_that_is_to_be_read_is_looked_at_and_nothing_else():
    """Whatever stands before it."""
    others = [(action, said | {'follows': False}) for action, said in NOT_UNDER_WAY]
    begun = job(*others, (OPEN, {}), (CLOSE, {'follows': False}))
    found = reads(begun, v.reading())
    assert found.items[:-1] == begun.items[:-1]
    assert found.items[-1].state is ItemState.DONE


@pytest.mark.parametrize(
    'other',
    [
        v.reading(mechanism='bios'),
        v.reading(place='Chassis/RoT_1'),
        replace(v.reading(), field='Other'),
    ],
)
def test_only_the_very_place_tells_of_a_change(other):
    """And where there are others it is found among them."""
    assert lock_changes.reading_of(CLOSE, v.inventory(v.gpu(locks=(other,)))) is None
    assert lock_changes.reading_of(CLOSE, v.inventory(v.gpu(locks=(other, LOCK)))) == LOCK
    assert lock_changes.reading_of(CLOSE, None) is None


def test_only_the_card_itself_tells_of_its_lock_and_any_card_of_one_of_the_whole_machine():
    """With the same place on both."""
    another = v.gpu(id=AcceleratorId('another'), locks=(v.reading(),))
    cards = v.inventory(another, v.gpu())
    assert lock_changes.reading_of(replace(CLOSE, accelerator=AcceleratorId('third')), cards) is None
    assert lock_changes.reading_of(CLOSE, v.inventory(another, v.gpu(locks=(LOCK,)))) == LOCK
    whole = replace(CLOSE, accelerator=AcceleratorId('third'), scope=Scope.BMC)
    assert lock_changes.reading_of(whole, cards) == v.reading()


@pytest.mark.parametrize(
    ('change', 'state', 'before', 'value', 'is_done'),
    [
        (CLOSE, LockState.LOCKED_REPORTED, 'false', 'true', True),
        (CLOSE, LockState.PENDING_RESET, 'false', 'true', True),
        (CLOSE, LockState.LOCKED_REPORTED, 'true', 'true', False),
        (CLOSE, LockState.LOCKED_REPORTED, None, 'true', False),
        (CLOSE, LockState.LOCKED_REPORTED, 'false', None, False),
        (CLOSE, LockState.PARTIAL, 'false', 'true', False),
        (CLOSE, LockState.UNLOCKED, 'false', 'true', False),
        (OPEN, LockState.UNLOCKED, 'true', 'false', True),
        (OPEN, LockState.UNLOCKED, 'false', 'false', False),
        (OPEN, LockState.LOCKED_REPORTED, 'true', 'false', False),
    ],
)
def test_a_change_without_an_answer_was_done_if_the_lock_shows_it_and_did_not_before(change, state, before, value, is_done):
    """A lock that was so before may have been so by somebody else."""
    item = Item(action=change, since=v.NOW, before=before)
    assert is_done is lock_changes.is_done_unanswered(item, change, replace(LOCK, state=state, value=value))


SAID = {'state': ItemState.DONE, 'objection': Objection(text='may need a licence')}


@pytest.mark.parametrize(
    ('change', 'said', 'lock', 'is_told'),
    [
        (CLOSE, SAID, LOCK, True),
        (CLOSE, SAID, None, True),
        (CLOSE, SAID, v.reading(), False),
        (CLOSE, SAID, v.reading(LockState.PENDING_RESET), False),
        (OPEN, SAID, LOCK, True),
        (OPEN, SAID, v.reading(), True),
        (CLOSE, SAID | {'objection': None}, LOCK, False),
        (OPEN, SAID | {'state': ItemState.RUNNING}, LOCK, False),
        (WRITE, SAID, LOCK, False),
    ],
)
def test_what_a_bmc_said_against_a_change_is_told_unless_the_lock_is_closed_in_the_end(change, said, lock, is_told):
    """Of an opened one always; whatever stands before it."""
    inventory = v.inventory(v.gpu(locks=() if lock is None else (lock,)))
    verb = 'engage' if isinstance(change, Engage) else 'release'
    expected = (
        [f'{verb} rot of {v.GPU} at {LOCK.ref}: the BMC accepted it with the message: may need a licence'] if is_told else []
    )
    assert expected == list(lock_changes.objected(job((WRITE, SAID), (CLOSE, {}), (change, said)), inventory))


def test_what_a_bmc_said_against_a_change_is_told_where_nobody_could_look():
    """For nobody knows that the lock is closed."""
    assert 1 == len(list(lock_changes.objected(job((CLOSE, SAID)), None)))
