# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Follow a change of a lock, or of a setting of a card, that the BMC carries out later, until a reading shows it.

Where the BMC names a task, the task is followed first. When it has ended, or is gone, the lock is read until it shows the
change, for as long as a device may take to show a change. Until then no other change of a lock is sent to that BMC: it may
refuse a second one.

Source: DSP0266, section "Asynchronous operations".
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime

from baremetal_acc.model.action import Engage, Release, SetCardSetting
from baremetal_acc.model.inventory import Inventory, TaskReading, TaskState
from baremetal_acc.model.job import Job
from baremetal_acc.model.job_item import Item, ItemState
from baremetal_acc.model.lock import LockReading, LockState, Scope
from baremetal_acc.model.ref import Ref
from baremetal_acc.planning import action_descriptions, card_settings
from baremetal_acc.planning.action_descriptions import describe
from baremetal_acc.planning.job_items import ended, with_item
from baremetal_acc.planning.retry_limits import RetryLimits

_CHANGES = (Engage, Release, SetCardSetting)

_CLOSED = frozenset({LockState.LOCKED_VERIFIED, LockState.LOCKED_REPORTED, LockState.PENDING_RESET})


def tasks(job: Job) -> tuple[Ref, ...]:
    """Return the tasks to read."""
    return tuple(dict.fromkeys(item.task for _, item, _ in _under_way(job) if item.task is not None))


def own(job: Job) -> frozenset[Ref]:
    """Return every task by which a BMC has carried out a change of a lock for the job, or does."""
    return frozenset(i.task for i in job.items if isinstance(i.action, _CHANGES) and i.task is not None)


def reads_back(job: Job) -> bool:
    """Whether the locks have to be read, since the task for a change of one has ended."""
    return any(item.follows is False for _, item, _ in _under_way(job))


def seen(job: Job, found: Mapping[Ref, TaskReading], now: datetime, patience: RetryLimits) -> Job:
    """Return the job after the tasks of its changes were read.

    A task that waits for a restart ends the wait: the change is pending then, as the lock itself says. A task that claims to
    run for longer than a reset of the BMC takes is followed no more, and the lock is read. After the deadline a lock that
    cannot be read is not waited for.

    :param found: one that could not be read is missing.
    """
    for position, item, action in _under_way(job):
        if not item.follows:
            if now > job.deadline and now - item.since > patience.settle + patience.reset:
                why = f'the BMC accepted the change, but {_noun(action)} could not be read since'
                job = ended(job, position, ItemState.FAILED, now, why)
            continue
        task = None if item.task is None else found.get(item.task)
        told = item if task is None else replace(item, message=task.message or task.raw, percent=task.percent)
        if task is not None and task.state is TaskState.FAILED:
            job = ended(
                job, position, ItemState.FAILED, now, f'the BMC says that the change failed ({task.message or task.raw})'
            )
        elif task is not None and task.awaits_restart:
            job = ended(job, position, ItemState.DONE, now, 'the BMC applies the change with a restart')
        elif (task is not None and task.state is not TaskState.ACTIVE) or now - item.since > patience.reset:
            job = with_item(job, position, replace(told, follows=False, since=now))
        else:
            job = with_item(job, position, told)
    return job


def read_back(job: Job, inventory: Inventory, now: datetime, patience: RetryLimits) -> Job:
    """Return the job after its changed locks were read, of changes that the BMC has carried out according to its tasks."""
    for position, item, action in _under_way(job):
        if item.follows:
            continue
        is_shown, shown = _found(item, action, inventory)
        if is_shown:
            job = ended(job, position, ItemState.DONE, now)
        elif now - item.since > patience.settle or now > job.deadline + patience.settle:
            why = f'the BMC accepted the change, but {shown} after {patience.settle}{action_descriptions.objected(item)}'
            job = ended(job, position, ItemState.FAILED, now, why)
        else:
            job = with_item(
                job, position, replace(item, message=f'accepted by the BMC; waiting for {_noun(action)} to show it')
            )
    return job


def _under_way(job: Job) -> Iterator[tuple[int, Item, Engage | Release | SetCardSetting]]:
    for position, item in enumerate(job.items):
        if item.state is ItemState.RUNNING and isinstance(item.action, Engage | Release | SetCardSetting):
            yield position, item, item.action


def _noun(action: Engage | Release | SetCardSetting) -> str:
    return 'the setting' if isinstance(action, SetCardSetting) else 'the lock'


def _found(item: Item, action: Engage | Release | SetCardSetting, inventory: Inventory) -> tuple[bool, str]:
    """Return whether a reading shows the change, and what it shows."""
    if isinstance(action, SetCardSetting):
        setting = card_settings.reading_of(action, inventory)
        return setting is not None and card_settings.is_written(setting, action), card_settings.told(setting)
    reading = reading_of(action, inventory)
    shown = 'the lock is not shown' if reading is None else f'the lock is {reading.state}'
    return reading is not None and _shows(item, action, reading), shown


def reading_of(action: Engage | Release, inventory: Inventory | None) -> LockReading | None:
    """Return the present reading of the very lock and card that an action is for.

    A lock of a whole machine reads the same on any card that shows it.
    """
    wanted = (action.mechanism, action.ref, action.field)
    shown = () if inventory is None else inventory.accelerators
    cards = (a for a in shown if action.scope is Scope.BMC or a.id == action.accelerator)
    return next((r for a in cards for r in a.locks if r.place == wanted), None)


def is_done_unanswered(item: Item, action: Engage | Release, reading: LockReading) -> bool:
    """Whether a change was made although the BMC answered with a server error or not at all: the lock shows it only now."""
    shows = reading.state in _CLOSED if isinstance(action, Engage) else reading.state is LockState.UNLOCKED
    return shows and item.before is not None and reading.value not in (None, item.before)


def objected(job: Job, inventory: Inventory | None) -> Iterator[str]:
    """List what BMCs said against changes of locks that they accepted, where the lock does not show the change.

    A lock that was released for a write may be engaged again since: what was said against the release is always listed.
    """
    for item in job.items:
        action = item.action
        if not isinstance(action, Engage | Release) or item.objection is None or item.state is not ItemState.DONE:
            continue
        reading = reading_of(action, inventory)
        if isinstance(action, Release) or reading is None or reading.state not in _CLOSED:
            yield f'{describe(action)}: the BMC accepted it with the message: {item.objection.text}'


def _shows(item: Item, action: Engage | Release, reading: LockReading) -> bool:
    """Whether the lock has changed: it is as requested, or not as before. Which of them it is, is judged elsewhere."""
    asked = reading.state in _CLOSED if isinstance(action, Engage) else reading.state is LockState.UNLOCKED
    return asked or (reading.value is not None and reading.value != item.before)
