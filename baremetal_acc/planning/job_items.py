# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Find and replace single items of a job: writes that have not ended, writes of one upload, items that have ended."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from baremetal_acc.model.action import Action, Flash, Program, Reset, ResetPurpose, Stage, stage
from baremetal_acc.model.job import Job
from baremetal_acc.model.job_item import Item, ItemState
from baremetal_acc.planning.action_descriptions import describe


def ended(
    job: Job,
    position: int,
    state: ItemState,
    now: datetime,
    message: str | None = None,
    *,
    untouched: bool = False,
    unsure: bool = False,
) -> Job:
    """Return the job with one item in another state.

    The failure of an action up to the writes, of a reset, or of a publication is added to the reasons of the job.

    :param untouched: the action failed before anything of it could reach the device.
    :param unsure: the write was given up, and nobody knows whether it has ended.
    """
    item = replace(job.items[position].to(state, now, message), untouched=untouched, unsure=unsure, progress=None)
    if state.ended:
        item = replace(item, managers=(), task_started=None)  # not needed any more, and the size of a stored job is limited
    items = (*job.items[:position], item, *job.items[position + 1 :])
    reasons = job.reasons
    counts = stage(item.action) <= Stage.WRITE or isinstance(item.action, Reset) or stage(item.action) is Stage.PUBLISH
    if state is ItemState.FAILED and counts:
        what = f'{_again(item)}{describe(item.action)}'
        reasons = (*reasons, f'{what}: {message or "failed"}')
    return replace(job, items=items, reasons=reasons)


def _again(item: Item) -> str:
    """Prefix for the reason of a failed retry or rollback."""
    if isinstance(item.action, Flash) and item.action.retry:
        return 'sent once more: '
    return 'restore: ' if item.restoring else ''


def with_item(job: Job, position: int, item: Item) -> Job:
    """Return the job with one of its items replaced."""
    return replace(job, items=(*job.items[:position], item, *job.items[position + 1 :]))


def given_up(job: Job) -> Iterator[Flash | Program]:
    """Yield the writes that may continue unseen: they were given up, nothing proves that they ended, and no task reports them.

    A write whose task claims to run keeps its BMC busy, as the task of somebody else does.
    """
    items = (i for i in job.items if i.unsure and i.state.ended and not i.stalled)
    return (a for i in items if isinstance(a := i.action, Flash | Program))


def sharing_upload(job: Job, position: int) -> tuple[int, ...]:
    """Return the positions of the writes of one upload: the parts of a bundle that are in the same state as the given one."""
    item = job.items[position]
    first = item.action
    if not isinstance(first, Flash) or first.upload is None:
        return (position,)
    return tuple(
        n
        for n, i in enumerate(job.items)
        if isinstance(i.action, Flash)
        and (i.action.upload, i.action.order) == (first.upload, first.order)
        and (i.state, i.restoring) == (item.state, item.restoring)
    )


def unfinished_writes(job: Job) -> Iterator[tuple[int, Item, Flash | Program]]:
    """Yield the writes that have not ended, with position and item."""
    for position, item in enumerate(job.items):
        if isinstance(item.action, Flash | Program) and not item.state.ended:
            yield position, item, item.action


def has_purpose(action: Action, purpose: ResetPurpose) -> bool:
    """Whether an action is a reset of this purpose."""
    return isinstance(action, Reset) and action.purpose is purpose
