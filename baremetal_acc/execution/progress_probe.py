# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Poll what a job has under way: read the tasks, component versions, resets and host power from the BMCs."""

import logging
from collections.abc import Container, Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from baremetal_acc.bmc.driver import Connection
from baremetal_acc.errors import AccError, BmcAnswerInvalid, BmcRefusalReason, BmcRefused, BmcUnreachable
from baremetal_acc.execution.observation import Bmcs
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.inventory import Complaint, HostReading, PowerState, TaskReading, TaskState, UpdateActivity
from baremetal_acc.model.job import Flash, Item, ItemState, Job, Program, Reset, ResetPurpose, Stage
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.model.ref import BmcName, Ref
from baremetal_acc.planning import activation, bmc_restart, interference, setting_changes, succession, waiting_tasks
from baremetal_acc.planning.action_descriptions import complained, describe
from baremetal_acc.planning.due_actions import DueActions
from baremetal_acc.planning.image_selection import same_version
from baremetal_acc.planning.job_items import with_item
from baremetal_acc.planning.job_readings import UNASKED, Sight, WriteSight
from baremetal_acc.planning.job_transitions import current
from baremetal_acc.planning.merge import merge
from baremetal_acc.planning.retry_limits import RetryLimits
from baremetal_acc.planning.update_states import UpdateObservation, classify
from baremetal_acc.planning.write_transitions import stalls
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


def sight_of(job: Job, bmcs: Bmcs, now: datetime, patience: RetryLimits) -> Sight:
    """Poll the writes and resets of a job that are under way, and updates that are not ours."""
    writes: dict[int, WriteSight] = {}
    tasks: dict[Ref, TaskReading] = {}
    resets: dict[int, bool | None] = {}
    # A write that the job has given up may still run: then it blocks the BMC for everything else, as a foreign update does.
    own_tasks = {i.task for i in job.items if i.task is not None and not i.state.ended} | stuck_tasks(job) | awaiting_tasks(job)
    own_tasks |= {i.progress.task for i in job.items if i.progress is not None} | setting_changes.own(job)
    scheduled = {ref.bmc for ref in awaiting_tasks(job)}
    asked: dict[BmcName, tuple[TaskReading, ...] | None] = {}
    foreign: dict[BmcName, int] = {}
    foreign_writes: dict[BmcName, Ref] = {}
    at = current(job)
    hosts = _hosts(job, bmcs)
    for position, item in enumerate(job.items):
        action = item.action
        if isinstance(action, Flash | Program) and at is Stage.WRITE and not item.state.ended:
            name = action.ref.bmc
            if name not in asked:
                others = asked[name] = _foreign(bmcs, name, own_tasks, is_scheduled=name in scheduled)
                foreign[name] = UNASKED if others is None else len(others)
                other = next((t.ref for t in others or () if t.may_write), None)
                # Once the job has written to a BMC, that BMC may have tasks of its own for it.
                if other is not None and name not in job.sent_to:
                    foreign_writes[name] = other
            if item.state is not ItemState.PLANNED and item.progress is None:
                stalled = stalls(item, now, patience)
                writes[position] = _write_sight(
                    job, item, action, bmcs, now, patience.poll, tasks, others=asked[name], stalled=stalled
                )
        elif isinstance(action, Reset) and item.state is ItemState.RUNNING:
            if action.purpose is ResetPurpose.HOLD:
                seen = hosts.get(action.system)
                resets[position] = None if seen is None else seen.power is PowerState.OFF
            else:
                resets[position] = _reset_came(job, item, action, bmcs)
    return Sight(
        writes=writes,
        resets=resets,
        foreign=foreign,
        hosts=hosts,
        foreign_writes=foreign_writes,
        changes=read_tasks(setting_changes.tasks(job), bmcs),
    )


def read_tasks(refs: Iterable[Ref], bmcs: Bmcs) -> dict[Ref, TaskReading]:
    """Read some tasks; one that cannot be read is missing."""
    found = {}
    for ref in refs:
        try:
            found[ref] = bmcs[ref.bmc].task(ref)
        except AccError as exc:
            LOG.info('%s', exc)
    return found


def _hosts(job: Job, bmcs: Bmcs) -> dict[Ref, HostReading]:
    """Read the power of the Systems that the job holds off, or is waiting to see off: each once."""
    waits = (
        i.action.system
        for i in job.items
        if isinstance(i.action, Reset) and i.action.purpose is ResetPurpose.HOLD and i.state is ItemState.RUNNING
    )
    found = {}
    for system in dict.fromkeys((*waits, *interference.holding(job))):
        try:
            found[system] = bmcs[system.bmc].host(system)
        except AccError as exc:
            LOG.info('%s', exc)
    return found


def of_asked_bmcs(move: DueActions, sight: Sight) -> DueActions:
    """Return the move without writes to BMCs of which it is not known yet whether they are busy.

    The stage of these writes has begun with this very tick.
    """

    def asked(position: int) -> bool:
        action = move.job.items[position].action
        return not isinstance(action, Flash | Program) or action.ref.bmc in sight.foreign

    return replace(move, perform=tuple(p for p in move.perform if asked(p)))


def cancel_tasks(before: Job, job: Job, bmcs: Bmcs, now: datetime) -> Job:
    """Ask BMCs to cancel the tasks that a turn has given up, each once.

    :param before: the job before they were given up.
    """
    asked: dict[Ref, str | None] = {}
    for position, (was, item) in enumerate(zip(before.items, job.items, strict=True)):
        if item.cancelled is None or was.cancelled is not None or item.task is None:
            continue
        if item.task in asked:  # a bundle has one task for all of its parts
            job = with_item(job, position, replace(item, uncancelled=asked[item.task]))
            continue
        asked[item.task] = None
        try:
            bmcs[item.task.bmc].cancel(item.task)
        except AccError as exc:
            asked[item.task] = exc.message
            LOG.warning('%s: %s could not be cancelled: %s', job.target, item.task, exc)
            job = with_item(job, position, replace(item, uncancelled=exc.message))
        else:
            LOG.warning('%s: %s was cancelled: it has not moved for long', job.target, item.task)
    return job


def stuck_tasks(job: Job) -> set[Ref]:
    """Return the tasks that claim to run for ever, of writes whose device shows that they have ended well."""
    good = (ItemState.STAGED, ItemState.DONE)
    return {i.task for i in job.items if i.task is not None and i.stalled and i.state in good}


def awaiting_tasks(job: Job) -> set[Ref]:
    """Return the tasks of the job that continue only once the host is restarted, and those of its changes of locks."""
    return {i.task for i in job.items if i.task is not None and i.follows} | setting_changes.own(job)


def not_ours(active: Iterable[TaskReading], own: Container[Ref], *, is_scheduled: bool) -> tuple[TaskReading, ...]:
    """Return the running tasks of a BMC that are not the job's.

    :param own: the known tasks of the job.
    :param is_scheduled: a write of the job waits for a restart of the host there. BMCs show such a write both as a Job and as a
        Task, and anything else that waits for the restart writes nothing before it.
    """
    return tuple(t for t in active if t.ref not in own and not (is_scheduled and t.awaits_restart))


def _foreign(bmcs: Bmcs, name: BmcName, own: set[Ref], *, is_scheduled: bool) -> tuple[TaskReading, ...] | None:
    """Return the tasks that run and are not ours; None: the BMC cannot be asked, and counts as busy."""
    try:
        return not_ours(bmcs[name].active_tasks(), own, is_scheduled=is_scheduled)
    except AccError as exc:
        LOG.info('%s', exc)
        return None


def _write_sight(
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


def tell_complaints(before: Job, job: Job) -> None:
    """Log new complaints of tasks about parts that no item of a job is about."""
    for old, new in zip(before.items, job.items, strict=False):
        for complaint in () if old.complaints else new.complaints:
            said = complained(complaint)
            LOG.warning('%s: %s: the BMC says against other parts of its bundle: %s', job.target, describe(new.action), said)


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
        said = 'the BMC has another task there'
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


def _reset_came(job: Job, item: Item, action: Reset, bmcs: Bmcs) -> bool | None:
    """Return whether a reset was carried out; None: the BMC does not answer."""
    try:
        bmc = bmcs[action.system.bmc]
        if action.kind.is_standby:
            return _cycle_came(job, item, action, bmc)
        if action.purpose is ResetPurpose.ENFORCE and action.kind is ResetKind.BMC_RESET:
            last = bmc.last_reset(action.system)
            return last not in (None, item.before) if item.before else item.silent
        if bmc.power(action.system) is not PowerState.ON:
            return False
        return item.before is None or bmc.last_reset(action.system) not in (None, item.before)
    except AccError as exc:
        LOG.info('%s', exc)
        # A BMC that is busy, or that refuses, is running: only one that cannot be reached may be restarting.
        there = action.kind.restarts_bmc and not isinstance(exc, BmcUnreachable)
        return False if there else None


def _cycle_came(job: Job, item: Item, action: Reset, bmc: Connection) -> bool:
    """Return whether the standby power of a System was cut, and its BMC is back.

    A restart of the BMC shows it. Where a person cuts the power, the firmware versions that run afterwards have to show it,
    too: the BMC may have restarted alone.

    :raises BmcError: it does not answer, or does not say.
    """
    last = None if action.manager is None else bmc.last_reset(action.manager)
    bmc.power(action.system)
    restarted = last not in (None, item.before) if item.before else item.silent
    flashes = activation.brought_in_force(job, action)
    if action.kind is not activation.BY_HAND or not flashes:
        return restarted
    runs = all(same_version(bmc.component(flash.ref).version, flash.version) for flash in flashes)
    return runs and (restarted or not item.shown)
