# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Follow update tasks that continue only after a restart of the host, until they end.

A write that its BMC schedules for a restart of the host is staged when that restart is requested. Its task stays the same after
the restart, and what the device shows is not judged before the task has ended.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from baremetal_acc.model.inventory import TaskReading, TaskState
from baremetal_acc.model.job import Job
from baremetal_acc.model.job_item import Item, ItemState
from baremetal_acc.model.ref import Ref
from baremetal_acc.planning.job_items import ended, with_item


def to_follow(job: Job) -> Iterator[Ref]:
    """Return the tasks that continue with the restart of the host that has come."""
    return (item.task for item in job.items if _follows(item) and item.task is not None)


def followed(job: Job, tasks: Mapping[Ref, TaskReading], now: datetime, stall: timedelta) -> tuple[Job, bool]:
    """Return the job after its tasks were read, and whether one of them still runs.

    A task that has not moved for ``stall`` is given up, and it is unknown whether its write has ended. Once a task has ended
    well, the device decides, within its time for that. The same holds for a task that is gone; but where the device does not
    show the version then, it is unknown whether the write has ended: the service that had the task may have been restarted
    during the write.

    :param tasks: one that could not be read is missing.
    """
    goes_on = False
    for position, item in enumerate(job.items):
        if not _follows(item) or item.task is None:
            continue
        task = tasks.get(item.task)
        if task is not None and task.state in (TaskState.SUCCEEDED, TaskState.GONE):
            is_gone = task.state is TaskState.GONE
            job, goes_on = with_item(job, position, replace(item, follows=False, since=now, unsure=is_gone)), True
        elif task is not None and task.state is TaskState.FAILED:
            said = f' ({task.message})' if task.message else ''
            why = f'the BMC says that the update failed after the restart of the host{said}'
            job = ended(with_item(job, position, replace(item, follows=False)), position, ItemState.FAILED, now, why)
        elif item.moved is not None and not _moves(item, task) and now - item.moved > stall:
            raw = 'the task cannot be read' if task is None else task.raw
            why = f'the update should have continued with the restart of the host, but made no progress for {stall} ({raw})'
            given_up = with_item(job, position, replace(item, follows=False))
            job = ended(given_up, position, ItemState.FAILED, now, why, unsure=True)
        else:
            moves = item.moved is None or _moves(item, task)
            latest = replace(item, moved=now if moves else item.moved)
            if task is not None:
                latest = replace(latest, percent=task.percent, message=task.message)
            job, goes_on = with_item(job, position, latest), True
    return job, goes_on


def _follows(item: Item) -> bool:
    return item.follows and item.state is ItemState.STAGED


def _moves(item: Item, task: TaskReading | None) -> bool:
    """Whether a task makes progress: by its percentage, or where it has none by its message."""
    if task is None:
        return False
    return task.percent != item.percent if task.percent is not None else task.message != item.message
