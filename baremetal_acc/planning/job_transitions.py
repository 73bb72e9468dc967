# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Advance a job: record what was read of its writes and resets, and select the actions that are due.

The job is a value, and no action is performed here. Stages follow one another (:class:`~baremetal_acc.model.action.Stage`).
After a failure no further action up to the writes is started. If by then the host was held off, a lock released or an image
sent, failed flashes are rolled back (:mod:`~baremetal_acc.planning.rollback`) and the locks are still engaged, and then the
job ends as failed: no lock stays open because something else went wrong. Otherwise only the publication is left.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from baremetal_acc.model.action import (
    Action,
    Engage,
    Flash,
    Program,
    Release,
    Reset,
    ResetPurpose,
    SetCardSetting,
    Stage,
    stage,
)
from baremetal_acc.model.job import Flow, Job
from baremetal_acc.model.job_item import Item, ItemState
from baremetal_acc.model.lock import ResetKind, Scope
from baremetal_acc.model.plan import Plan
from baremetal_acc.planning import interference
from baremetal_acc.planning.action_descriptions import describe, objected
from baremetal_acc.planning.due_actions import (
    DueActions,
    select_lock_changes,
    select_performable,
    select_resets,
    select_settings,
    select_writes,
)
from baremetal_acc.planning.job_items import ended, given_up, has_purpose, unfinished_writes, with_item
from baremetal_acc.planning.job_readings import UNASKED, Sight
from baremetal_acc.planning.reset_transitions import record_resets
from baremetal_acc.planning.retry_limits import RetryLimits
from baremetal_acc.planning.write_transitions import record_writes


def begin(
    made: Plan,
    *,
    identity: str,
    node: str,
    flow: Flow,
    step: str,
    lifecycle: int,
    now: datetime,
    timeout: timedelta,
    requester: str | None = None,
    demands_met: bool = True,
) -> Job:
    """Create the job that executes a plan."""
    return Job(
        id=identity,
        target=made.target,
        node=node,
        flow=flow,
        step=step,
        lifecycle=lifecycle,
        created=now,
        deadline=now + timeout,
        items=tuple(Item(action=action, since=now) for action in made.actions),
        parallel=made.parallel,
        requester=requester,
        demands_met=demands_met,
    )


def current(job: Job) -> Stage | None:
    """Return the current stage of the job; None when all stages have ended.

    VERIFY is due once all stages before PUBLISH have ended.
    """
    open_stages = [stage(i.action) for i in job.items if not i.state.ended]
    first = min(open_stages, default=None)
    if first in (None, Stage.PUBLISH) and job.verdict is None and not job.ended:
        return Stage.VERIFY
    return first


def advance(job: Job, sight: Sight, now: datetime, patience: RetryLimits) -> DueActions:
    """Update the job from what was read, and select the items that are due."""
    under_way = [n for n, i, _ in unfinished_writes(job) if i.state is not ItemState.PLANNED]
    # A job whose stages had all ended before the deadline is not expired, although its end was not reported yet.
    if now > job.deadline and current(job) is not None:
        job = expire(job, now)
    job = record_writes(job, sight, now, patience)
    job = record_resets(job, sight, now, patience)
    job = interference.watched(job, sight.hosts, now, interference.tail(patience.poll))
    job = _busy_for_too_long(job, sight, now, patience)
    job = _not_beside_what_may_go_on(job, now)
    job = _give_up_what_is_pointless(job, now)
    match current(job):
        case None | Stage.VERIFY:
            return DueActions(job=job)
        case Stage.WRITE if any(job.items[n].state is ItemState.FAILED for n in under_way):
            # A write that was given up just now may still run, and was not counted in sight.foreign: poll again first.
            return DueActions(job=job)
        case Stage.WRITE:
            return select_performable(job, [*select_writes(job, sight), *select_settings(job)])
        case Stage.RESTART_BMC | Stage.RESET as at:
            return select_performable(job, select_resets(job, at))
        case Stage.RELEASE | Stage.ENGAGE | Stage.REENGAGE as at:
            return select_performable(job, select_lock_changes(job, at, now))
        case Stage() as at:
            return select_performable(job, [n for n, i in enumerate(job.items) if stage(i.action) is at and not i.state.ended])


def sent(job: Job, positions: Iterable[int], now: datetime) -> Job:
    """Mark items as about to be performed. The job is stored with these marks before the actions are performed."""
    items = list(job.items)
    for position in positions:
        item = items[position]
        if item.progress is not None:
            items[position] = replace(item, progress=replace(item.progress, turning=True))
        elif item.state is not ItemState.SENT:
            items[position] = item.to(ItemState.SENT, now)
    return replace(job, items=tuple(items))


def taken_up(job: Job) -> Job:
    """Return the job as it is resumed after it was stored, whichever process stopped meanwhile.

    If a turn of an image that is sent in several turns had begun, the image is sent again from the beginning: nothing of it is
    in force, and nobody knows how much of it has arrived. If that turn may have activated the image, the write is polled like
    any write that was sent.
    """
    return replace(job, items=tuple(_taken_up(item) for item in job.items))


def _taken_up(item: Item) -> Item:
    if item.progress is None or not item.progress.turning:
        return item
    if item.progress.whole:
        return replace(item, progress=None)
    return replace(item, progress=replace(item.progress, so_far=None, turning=False))


def expire(job: Job, now: datetime) -> Job:
    """Fail the actions up to the writes that have started and not ended by the deadline, and the planned rollbacks.

    Locks, and the return of the host, are still tried past the deadline. Other planned actions are not failed; the reason that
    is added to the job has them skipped.
    """

    def late(item: Item) -> Item:
        if stage(item.action) > Stage.WRITE or item.state.ended:
            return item
        last = (f' ({item.message})' if item.message else '') + objected(item)
        failed = replace(item.to(ItemState.FAILED, now, f'not done by the deadline{last}'), progress=None)
        if item.state is not ItemState.PLANNED:
            return replace(failed, unsure=isinstance(item.action, Flash | Program))
        return replace(failed, untouched=True) if item.restoring else item

    both = [(item, late(item)) for item in job.items]
    reasons = job.reasons if 'the deadline has passed' in job.reasons else (*job.reasons, 'the deadline has passed')
    # The reasons also name what took so long.
    causes = (
        f'{describe(item.action)}: {item.message}'
        for before, item in both
        if not before.state.ended
        and stage(item.action) <= Stage.WRITE
        and (before.message or before.state is not ItemState.PLANNED)
    )
    return replace(job, items=tuple(item for _, item in both), reasons=(*reasons, *causes))


def _busy_for_too_long(job: Job, sight: Sight, now: datetime, patience: RetryLimits) -> Job:
    """Fail rollbacks that wait for longer than the stall limit for a BMC that a foreign, or the failed, update keeps busy."""
    under_way = {a.ref.bmc for _, i, a in unfinished_writes(job) if i.state is not ItemState.PLANNED}
    for position, item, action in tuple(unfinished_writes(job)):
        bmc = action.ref.bmc
        if not item.restoring or item.state is not ItemState.PLANNED:
            continue
        if bmc in under_way:
            job = with_item(job, position, replace(item, since=now))  # it waits for a write of this job, not for the BMC
        elif 0 < sight.foreign.get(bmc, 0) < UNASKED and now - item.since > patience.stall:
            why = f'an update has kept BMC {bmc} busy for {patience.stall}'
            job = ended(job, position, ItemState.FAILED, now, why, untouched=True)
    return job


def _not_beside_what_may_go_on(job: Job, now: datetime) -> Job:
    """Fail rollbacks through a BMC that may still carry out a write which the job has given up."""
    writing = {a.ref.bmc: a for a in given_up(job)}
    for position, item, action in tuple(unfinished_writes(job)):
        other = writing.get(action.ref.bmc)
        if other is not None and item.restoring and item.state is ItemState.PLANNED:
            why = f'its BMC may still {describe(other)}'
            job = ended(job, position, ItemState.FAILED, now, why, untouched=True)
    return job


def _give_up_what_is_pointless(job: Job, now: datetime) -> Job:
    if not job.reasons:
        return job
    held = any(i.state.begun and has_purpose(i.action, ResetPurpose.HOLD) for i in job.items)
    closed = [i.action for i in job.items if i.restoring and i.state is ItemState.FAILED and stage(i.action) < Stage.WRITE]

    def pointless(item: Item) -> bool:
        if item.state is not ItemState.PLANNED:
            return False
        if item.restoring:
            # A failure does not prevent its own rollback, unless the host could not be held or a lock could not be released.
            return stage(item.action) <= Stage.WRITE and any(_stands_in_the_way(c, item.action) for c in closed)
        if has_purpose(item.action, ResetPurpose.RESUME):
            return not held
        if isinstance(item.action, Reset) and item.action.purpose is ResetPurpose.ENFORCE and not _needed(job, item.action):
            return True
        at = stage(item.action)
        if at is Stage.PUBLISH:
            return False  # a device whose write failed must not stay available in placement
        # A held host is given back only with proven locks, so locks are engaged for that alone.
        return at <= Stage.WRITE or not (job.opened or (held and at in (Stage.ENGAGE, Stage.REENGAGE)))

    items = tuple(i.to(ItemState.SKIPPED, now) if pointless(i) else i for i in job.items)
    return replace(job, items=items)


def _needed(job: Job, reset: Reset) -> bool:
    """Whether a reset activates an image that may have been written, or a lock. A rejected image is no reason for one."""

    def takes(item: Item) -> bool:
        match item.action:
            case Flash() as flash:
                written = item.state.begun and not item.untouched and flash.ref.bmc == reset.system.bmc
                is_enough = flash.reset.is_standby or not reset.kind.is_standby
                return written and flash.reset is not ResetKind.NONE and is_enough
            case Reset() as cycle:
                # A System that was powered off for the standby cycle starts again.
                return item.state.begun and cycle.kind.is_standby and cycle != reset and cycle.system == reset.system
            case _ if reset.kind.is_standby:
                return False
            case Engage() as engage:
                return engage.needs is not ResetKind.NONE and item.state is not ItemState.SKIPPED
            case SetCardSetting() as setting:
                return setting.needs is not ResetKind.NONE and item.state.begun
            case Release():
                return item.state.begun
            case _:
                return False

    return any(map(takes, job.items))


def _stands_in_the_way(failed: Action, action: Action) -> bool:
    """Whether a failed action prevents another one: a host that is not off prevents all, a lock all changes to its card."""
    if isinstance(failed, Release) and isinstance(action, Release | Flash | Program):
        return failed.ref.bmc == action.ref.bmc if failed.scope is Scope.BMC else failed.accelerator == action.accelerator
    return True
