# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Poll the task of one write, its component and, where these do not tell, the whole card."""

import logging
from dataclasses import replace
from datetime import datetime, timedelta

from baremetal_acc.bmc.driver import Connection
from baremetal_acc.errors import AccError, BmcAnswerInvalid, BmcRefusalReason, BmcRefused, BmcUnreachable
from baremetal_acc.execution.observation import Bmcs
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.action import Flash, Program
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.inventory import Complaint, TaskReading, TaskState, UpdateActivity
from baremetal_acc.model.job import Job
from baremetal_acc.model.job_item import Item, ItemState
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.model.ref import Ref
from baremetal_acc.planning import bmc_restart, succession, waiting_tasks
from baremetal_acc.planning.image_selection import same_version
from baremetal_acc.planning.job_readings import WriteSight
from baremetal_acc.planning.merge import merge
from baremetal_acc.planning.update_states import UpdateObservation, classify
from baremetal_acc.planning.written_places import found_in, part_of

LOG = logging.getLogger(__name__)

_UNPROVEN = frozenset({UpdateObservation.UNTOLD, UpdateObservation.FORGOTTEN, UpdateObservation.UNANSWERED})
"""Nothing proves that the write has ended, unless its BMC has restarted since."""

_UNSEEN = _UNPROVEN | {UpdateObservation.UNSHOWN, UpdateObservation.NOTHING, UpdateObservation.VANISHED}
"""Neither the task nor the item of the component tells what became of the write."""

_UNWRITTEN = _UNSEEN | {UpdateObservation.SUCCEEDED}
"""The item that an image was sent to does not show the version of that image."""

_MOST_COMPLAINTS = 8
"""Complaints that are kept of one bundle."""

_MINUTE = timedelta(minutes=1)

_SOME_TIMES = timedelta(seconds=20)

_MAY_BE_GONE = frozenset(
    {BmcRefusalReason.NOT_FOUND, BmcRefusalReason.GONE, BmcRefusalReason.CONFLICT, BmcRefusalReason.INVALID_REQUEST}
)


def probe_write(
    job: Job,
    item: Item,
    action: Flash | Program,
    bmcs: Bmcs,
    now: datetime,
    poll: timedelta,
    tasks: dict[Ref, TaskReading],
    *,
    others: tuple[TaskReading, ...] | None,
    stalled: bool,
) -> WriteSight:
    """Poll one write.

    :param tasks: those that were read in this turn, for the writes of one bundle.
    :param others: the tasks of the BMC that run and are not known to be the job's; None: it could not be asked for them.
    """
    busy = others is None or bool(others)
    task, unread, runs = None, None, False
    whole: TaskReading | None = None
    try:
        bmc = bmcs[action.ref.bmc]
        task, unread = _own_task(item, bmc, tasks)
        whole = task
        task = _while_others_are_written(task, action)
        runs = task is not None and task.state is TaskState.ACTIVE
        told = _told_by_tasks(item, action, bmc, task, others, stalled=stalled)
        if told is not None:
            return told
        component, successor = _component(job, action, bmc, bmcs, now)
        task = _of_part(task, action, component)
        ours = _adopted(item, others)
        service = UpdateActivity.BUSY if busy or component.is_updating else bmc.update_activity()
        told_busy = service is UpdateActivity.BUSY and not busy and unread is None and _is_without_task(item, task)
    except AccError as exc:
        card = _card_without(action, bmcs, now) if _is_gone(exc) else None
        if card is not None:
            shown = f'{action.ref.uri} {found_in(card, None)}'
            # A component that is shown under another name was renamed; one that is not shown may not be ready yet.
            renamed = any(same_version(c.version, action.version) for c in card.firmware)
            untold = (
                UpdateObservation.UNSHOWN
                if task is not None and task.state is TaskState.SUCCEEDED
                else UpdateObservation.UNTOLD
            )
            seen = UpdateObservation.ELSEWHERE if busy else UpdateObservation.MISSING if renamed else untold
            return WriteSight(seen=seen, message=shown, stalled=runs)
        return WriteSight(seen=UpdateObservation.SILENT, message=exc.message)

    # That a task is gone which was never seen running proves nothing, unless the item shows that the write goes on.
    at_once = item.state is ItemState.RUNNING and item.moved is None and not component.is_updating
    lost = at_once and task is not None and task.state is TaskState.GONE

    def classified(staged: str | None, *, has_restarted: bool = False) -> UpdateObservation:
        return classify(
            task=None if lost else task,
            version=component.version,
            staged=staged,
            wanted=action.version,
            service=service if unread is None or component.is_updating else UpdateActivity.UNKNOWN,
            before=action.expects,
            staged_before=action.staged,
            stalled=stalled,
            answered=item.state is not ItemState.SENT,
            cancelled=item.cancelled is not None,
            restarts=isinstance(action, Flash) and action.reset is not ResetKind.NONE,
            failed_at_once=item.objection is not None and item.objection.fails,
            is_over=has_restarted or (item.told_busy and unread is None and service is not UpdateActivity.UNKNOWN),
            cut=item.cut,
        )

    seen = classified(component.staged)
    has_restarted = seen in _UNPROVEN and _has_restarted(item, bmc, now)
    seen = classified(component.staged, has_restarted=has_restarted)
    if seen in _UNWRITTEN and successor is None and _is_due(item, now, poll):
        # Some BMCs still answer for an item that they no longer list.
        card = _card_without(action, bmcs, now)
        successor = None if card is None else succession.successor(job, action, card)
        if successor is not None:
            component = successor
            seen = classified(component.staged, has_restarted=has_restarted)
    if seen in _UNSEEN and component.staged is None and _is_looked_at(item, action, now, poll):
        staged = _staged_by_card(action, bmcs, now)
        seen = seen if staged is None else classified(staged, has_restarted=has_restarted)
    said = task.message if task is not None else None if unread is None else unread.message
    return WriteSight(
        seen=seen,
        message=said,
        stalled=runs,
        shown=component.version,
        task=ours,
        waits=_waits(task),
        lost=lost,
        told_written=task is not None
        and any(task.names_as_written(ref, name) for ref, name in ((action.ref, component.id), (component.ref, component.id))),
        installed=component.installed,
        successor=successor,
        told_busy=told_busy,
        complaints=() if whole is None else _against_others(job, item, whole),
    )


def _against_others(job: Job, item: Item, task: TaskReading) -> tuple[Complaint, ...]:
    """Return the complaints of a bundle's task about parts that no item of the job is about; only for its first part."""
    upload = item.action.upload if isinstance(item.action, Flash) else None
    parts = [i for i in job.items if isinstance(i.action, Flash) and i.action.upload == upload]
    if upload is None or parts[0] is not item:
        return ()
    ours = {name for i in job.items if isinstance(i.action, Flash) for name in (i.action.ref.uri, i.action.component)}
    return tuple(dict.fromkeys(c for c in task.complaints if not c.is_about(ours)))[:_MOST_COMPLAINTS]


def _of_part(task: TaskReading | None, action: Flash | Program, component: Component) -> TaskReading | None:
    """Return what the task of a bundle says about one of its parts. A failed bundle may have written its other parts."""
    if task is None or not isinstance(action, Flash) or action.upload is None:
        return task
    said = task.said_against(action.ref, component.id) or task.message
    was_new = not same_version(action.expects, action.version) and same_version(component.version, action.version)
    if task.state is TaskState.FAILED and (task.names_as_written(action.ref, component.id) or was_new):
        return replace(task, state=TaskState.SUCCEEDED, message=said)
    return replace(task, message=said)


def _while_others_are_written(task: TaskReading | None, action: Flash | Program) -> TaskReading | None:
    """Return the task of a bundle as running while it still writes, even if a part that it has written waits for a restart."""
    is_part = isinstance(action, Flash) and action.upload is not None
    if task is None or not is_part or not task.awaits_restart or not task.percent or task.percent == 100:
        return task
    return replace(task, awaits_restart=False) if task.is_running else task


def _component(
    job: Job, action: Flash | Program, bmc: Connection, bmcs: Bmcs, now: datetime
) -> tuple[Component, Component | None]:
    """Return the component of a write as it is now, and its new item where an update has changed the item's URI, else None.

    :raises BmcError: it could not be read, and no other item is certain to be it.
    """
    try:
        return bmc.component(action.ref), None
    except BmcRefused as exc:
        card = _card_without(action, bmcs, now) if _is_gone(exc) else None
        found = None if card is None else succession.successor(job, action, card)
        if found is None:
            raise
        LOG.info('%s: %s is shown as %s now', job.target, action.ref, found.ref)
        return found, found


def _is_gone(exc: AccError) -> bool:
    """Whether a resource is not there; some BMCs refuse such a request with another status."""
    return isinstance(exc, BmcRefused) and exc.reason in _MAY_BE_GONE


def _is_due(item: Item, now: datetime, poll: timedelta) -> bool:
    """Whether the whole card is inspected in this turn: that is slow, so it is done some times a minute."""
    return (now - item.since) % _SOME_TIMES <= poll


def _is_without_task(item: Item, task: TaskReading | None) -> bool:
    """Whether the BMC has no task for a write (any more), so that a busy update service is not just an echo of that task."""
    return item.task is None if task is None else task.state is TaskState.GONE


def _has_restarted(item: Item, bmc: Connection, now: datetime) -> bool:
    """Whether the BMC has proven to have restarted since an image was sent to it. What could not be read proves nothing."""
    if not item.managers:
        return False
    try:
        return bmc_restart.has_restarted(item.managers, bmc.managers(), pushed=item.pushed, now=now)
    except AccError as exc:
        LOG.info('%s', exc)
        return False


def _own_task(item: Item, bmc: Connection, tasks: dict[Ref, TaskReading]) -> tuple[TaskReading | None, AccError | None]:
    """Return the task of a write, and why it could not be read; None for either.

    There is no task where none is known to be the write's own.

    :param tasks: those that were read in this turn: they are not read again.
    :raises BmcUnreachable: the BMC does not answer.
    """
    if item.task is None:
        return None, None
    try:
        task = tasks[item.task] if item.task in tasks else bmc.task(item.task)
        tasks[item.task] = task
    except BmcUnreachable:
        raise
    except AccError as exc:
        return None, exc
    if task.opaque and task.state is TaskState.FAILED and item.percent is not None:
        # This Task has reported its progress before: that it cannot be read just now does not end it.
        return None, BmcAnswerInvalid(bmc=item.task.bmc, what=task.raw)
    if not task.may_write or bmc_restart.is_another_task(item.task_started, task.started):
        # The BMC was restarted and numbers its tasks from the beginning again: this task is not ours.
        said = 'the BMC has another task at this URI'
        task = TaskReading(ref=task.ref, state=TaskState.GONE, raw=task.raw, message=said, opaque=True)
    return task, None


def _told_by_tasks(
    item: Item,
    action: Flash | Program,
    bmc: Connection,
    task: TaskReading | None,
    others: tuple[TaskReading, ...] | None,
    *,
    stalled: bool,
) -> WriteSight | None:
    """Return what is seen of a write whose task says enough; None where the device has to be read."""
    runs = task is not None and task.state is TaskState.ACTIVE
    failed = task is not None and task.state is TaskState.FAILED
    if failed and isinstance(action, Flash) and action.upload is not None:
        return None  # of a bundle some parts may have been written
    if task is not None and not task.opaque and (failed or (runs and not stalled)):
        # The message does not say which action the task waits for; one that starts the update is tried first.
        start = bmc.deferred(task.ref) if runs and task.awaits_start and not item.started else None
        awaits = task.awaits_restart and start is None
        seen = UpdateObservation.FAILED if not runs else UpdateObservation.AWAITS if awaits else UpdateObservation.WORKING
        idle = False
        if not runs and item.waits:
            component = bmc.component(action.ref)
            idle = waiting_tasks.wrote_nothing(item, task, component.version, component.staged)
        waits = _waits(task) and start is None
        return WriteSight(
            seen=seen,
            percent=task.percent,
            message=task.message,
            waits=waits,
            wrote_nothing=idle,
            task_started=task.started if runs and not waits and start is None else None,
            start=start,
        )
    waiting = None if stalled else _scheduled(item, task, others)
    if waiting is None:
        return None
    said = waiting.message or waiting.raw
    return WriteSight(seen=UpdateObservation.AWAITS, percent=waiting.percent, message=said, task=waiting.ref, waits=True)


def _waits(task: TaskReading | None) -> bool:
    """Whether a task has written nothing yet, as far as it says."""
    return task is not None and task.state is TaskState.ACTIVE and (task.unbegun or task.awaits_restart)


def _is_looked_at(item: Item, action: Flash | Program, now: datetime, poll: timedelta) -> bool:
    """Whether the whole card is inspected for a version that its item does not show: once a minute, where it needs a reset."""
    if not isinstance(action, Flash) or action.reset is ResetKind.NONE:
        return False
    return (now - (item.moved or item.since)) % _MINUTE <= poll


def _staged_by_card(action: Flash | Program, bmcs: Bmcs, now: datetime) -> str | None:
    """Return the staged version of a component, as an inspection of its card shows it; None where it shows none."""
    card, _ = _card_now(action, bmcs, now)
    part = None if card is None else part_of(card, action.ref)
    return None if part is None else part.staged


def _card_now(action: Flash | Program, bmcs: Bmcs, now: datetime) -> tuple[Accelerator | None, bool]:
    """Return the card of a write as a whole inspection shows it, and whether that inspection may have missed a part of it."""
    try:
        look = bmcs.look(action.ref.bmc, now)
    except AccError as exc:
        LOG.info('%s', exc)
        return None, True
    card = next((a for a in merge(look.accelerators) if a.id == action.accelerator), None)
    return card, any(gap.hides for gap in look.gaps)


def _adopted(item: Item, others: tuple[TaskReading, ...] | None) -> Ref | None:
    """Return the task of a write whose upload was answered without one: the only one that may write, right after the answer.

    No image is sent to a BMC that runs somebody else's task, so a task that runs now has begun since. One that appears later,
    or after an upload that was not answered, may be anybody's: it is waited for, and its end proves nothing.
    """
    first = item.task is None and item.state is ItemState.RUNNING and item.moved is None
    writing = [t for t in others or () if t.may_write]
    return writing[0].ref if first and len(writing) == 1 else None


def _scheduled(item: Item, task: TaskReading | None, others: tuple[TaskReading, ...] | None) -> TaskReading | None:
    """Return the task of a write that waits for a restart, where the upload's answer named none, or an opaque monitor.

    No image is sent to a BMC that runs somebody else's task: the only task there has begun since. It waits for a restart that
    is planned for the write, whoever has begun it.
    """
    untold = item.task is None or (task is not None and task.opaque and task.state is TaskState.ACTIVE)
    writing = [t for t in others or () if t.may_write]
    if item.state is not ItemState.RUNNING or not untold or len(writing) != 1:
        return None
    return writing[0] if writing[0].awaits_restart else None


def _card_without(action: Flash | Program, bmcs: Bmcs, now: datetime) -> Accelerator | None:
    """Return the card of a component that its BMC does not show any more; None where the card is not shown, or has it."""
    card, is_partial = _card_now(action, bmcs, now)
    return None if card is None or is_partial or part_of(card, action.ref) is not None else card
