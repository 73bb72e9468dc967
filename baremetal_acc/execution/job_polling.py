# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Poll what a job has under way: read the tasks, component versions, resets and host power from the BMCs."""

import logging
from collections.abc import Container, Iterable
from dataclasses import replace
from datetime import datetime

from baremetal_acc.errors import AccError
from baremetal_acc.execution.observation import Bmcs
from baremetal_acc.execution.reset_polling import probe_reset
from baremetal_acc.execution.write_polling import probe_write
from baremetal_acc.model.action import Flash, Program, Reset, ResetPurpose, Stage
from baremetal_acc.model.inventory import HostReading, PowerState, TaskReading
from baremetal_acc.model.job import Job
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.model.ref import BmcName, Ref
from baremetal_acc.planning import interference, lock_changes
from baremetal_acc.planning.action_descriptions import complained, describe
from baremetal_acc.planning.due_actions import DueActions
from baremetal_acc.planning.job_items import with_item
from baremetal_acc.planning.job_readings import UNASKED, Sight, WriteSight
from baremetal_acc.planning.job_transitions import current
from baremetal_acc.planning.retry_limits import RetryLimits
from baremetal_acc.planning.write_transitions import stalls

LOG = logging.getLogger(__name__)


def sight_of(job: Job, bmcs: Bmcs, now: datetime, patience: RetryLimits) -> Sight:
    """Poll the writes and resets of a job that are under way, and updates that are not ours."""
    writes: dict[int, WriteSight] = {}
    tasks: dict[Ref, TaskReading] = {}
    resets: dict[int, bool | None] = {}
    # A write that the job has given up may still run: then it blocks the BMC for everything else, as a foreign update does.
    own_tasks = {i.task for i in job.items if i.task is not None and not i.state.ended} | stuck_tasks(job) | awaiting_tasks(job)
    own_tasks |= {i.progress.task for i in job.items if i.progress is not None} | lock_changes.own(job)
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
                writes[position] = probe_write(
                    job, item, action, bmcs, now, patience.poll, tasks, others=asked[name], stalled=stalled
                )
        elif isinstance(action, Reset) and item.state is ItemState.RUNNING:
            if action.purpose is ResetPurpose.HOLD:
                seen = hosts.get(action.system)
                resets[position] = None if seen is None else seen.power is PowerState.OFF
            else:
                resets[position] = probe_reset(job, item, action, bmcs)
    return Sight(
        writes=writes,
        resets=resets,
        foreign=foreign,
        hosts=hosts,
        foreign_writes=foreign_writes,
        changes=read_tasks(lock_changes.tasks(job), bmcs),
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
            LOG.warning('%s: %s was cancelled: it has made no progress for long', job.target, item.task)
    return job


def stuck_tasks(job: Job) -> set[Ref]:
    """Return the tasks that claim to run for ever, of writes whose device shows that they have ended well."""
    good = (ItemState.STAGED, ItemState.DONE)
    return {i.task for i in job.items if i.task is not None and i.stalled and i.state in good}


def awaiting_tasks(job: Job) -> set[Ref]:
    """Return the tasks of the job that continue only once the host is restarted, and those of its changes of locks."""
    return {i.task for i in job.items if i.task is not None and i.follows} | lock_changes.own(job)


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


def tell_complaints(before: Job, job: Job) -> None:
    """Log new complaints of tasks about parts that no item of a job is about."""
    for old, new in zip(before.items, job.items, strict=False):
        for complaint in () if old.complaints else new.complaints:
            said = complained(complaint)
            LOG.warning('%s: %s: the BMC reports about other parts of its bundle: %s', job.target, describe(new.action), said)
