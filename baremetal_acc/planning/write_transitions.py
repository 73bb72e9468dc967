# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Record in a job what was read of its writes: progress, end, and what proves that the component was written.

The next state of a write is that of :data:`~baremetal_acc.planning.update_states.TABLE`. Added here are the time limits, the
cancelling of a task that is given up, and the text for the operator.
"""

from dataclasses import replace
from datetime import datetime

from baremetal_acc.model.action import Flash, Program
from baremetal_acc.model.job import Job
from baremetal_acc.model.job_item import Item, ItemState, WriteEvidence
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.planning import succession
from baremetal_acc.planning.image_selection import same_version
from baremetal_acc.planning.job_items import ended, with_item
from baremetal_acc.planning.job_readings import Sight, WriteSight
from baremetal_acc.planning.retry_limits import RetryLimits
from baremetal_acc.planning.update_states import Effect, Next, UpdateObservation, following
from baremetal_acc.planning.waiting_tasks import UNPLANNED, shut_out


def stalls(item: Item, now: datetime, patience: RetryLimits) -> bool:
    """Whether the task of a write has made no progress for longer than any write takes."""
    return item.moved is not None and now - item.moved > patience.stall


def record_writes(job: Job, sight: Sight, now: datetime, patience: RetryLimits) -> Job:
    """Return the job after a poll of its writes."""
    for position, seen in sight.writes.items():
        item = job.items[position]
        if seen.successor is not None and isinstance(item.action, Flash | Program):
            job = succession.moved(job, item.action, seen.successor)
            item = job.items[position]
        if item.state.ended or item.state is ItemState.PLANNED or not isinstance(item.action, Flash | Program):
            continue
        action = item.action
        follows = _next(job, item, action, seen.seen)
        # Where nothing better is known, report also why the upload got no answer.
        asks = follows.effect is Effect.ASK
        said = seen.message or (item.message if item.state is ItemState.SENT and not asks else None)
        told = '; '.join(filter(None, (said, _answered(item))))
        says = ' '.join(filter(None, (follows.why and follows.why + _instead(item.action, seen), told and f'({told})')))
        # A process that was killed while it waited for the answer polls late: the time to settle begins with the first poll.
        unseen = item.state is ItemState.SENT and item.task is None and item.moved is None
        too_long = not unseen and _too_long(follows.effect, item, now, patience)
        if seen.lost or (seen.seen is UpdateObservation.AWAITS and seen.task is not None):
            item = replace(item, task=seen.task, task_started=None)
            job = with_item(job, position, item)
        if follows.effect is Effect.GIVE_UP and _may_be_cancelled(item, now, patience):
            asked = replace(item, cancelled=item.cancelled or now, message=f'{says}; the BMC was requested to cancel it')
            job = with_item(job, position, replace(asked, waits=item.waits or seen.waits))
            continue
        if too_long or follows.effect in (Effect.FAIL, Effect.GIVE_UP):
            says += _not_cancelled(item) if follows.effect is Effect.GIVE_UP else ''
            if seen.wrote_nothing:
                says = f'{shut_out(job, action) or UNPLANNED} (the BMC has cancelled it, and nothing was written)'
            unsure = follows.effect in (Effect.ASK, Effect.GIVE_UP)
            nothing = seen.wrote_nothing or seen.seen is UpdateObservation.REFUSED
            job = ended(job, position, ItemState.FAILED, now, says, unsure=unsure, untouched=nothing)
        elif follows.state is not item.state:
            job = ended(job, position, follows.state, now, seen.message)
        if job.items[position].state in (ItemState.STAGED, ItemState.DONE):
            ended_by = item.evidence or _ended_by(action, seen)
            over = replace(job.items[position], evidence=ended_by, complaints=item.complaints or seen.complaints)
            job = with_item(job, position, over)
        item = replace(job.items[position], stalled=seen.stalled, strayed=item.strayed or _strays(action, seen))
        item = replace(item, told_busy=item.told_busy or seen.told_busy)
        if item.state is ItemState.FAILED:
            percent = item.percent if seen.percent is None else seen.percent
            item = replace(item, task_failed=seen.seen is UpdateObservation.FAILED, percent=percent)
        if item.objection is not None and not _stands_still(action, seen):
            item = replace(item, objection=replace(item.objection, fails=False))
        if item.state is ItemState.STAGED and seen.seen is UpdateObservation.AWAITS:
            # The stall is counted from the first poll after the restart.
            item = replace(item, follows=True, moved=None)
        if (unseen or (item.moved is None and asks)) and not item.state.ended:
            item = replace(item, moved=now)
        if asks and not item.state.ended:
            item = replace(item, message=f'{says}; waiting for it until {_by(item, now, patience)}')
        if seen.task is not None and item.task is None and not item.state.ended:
            item = replace(item, task=seen.task)
        # The time to settle begins when progress ends; a task that only claims to run has its own limit (stall).
        if not item.state.ended and follows.effect is Effect.WAIT:
            item = replace(item, since=now, moved=now if _moved(item, seen) else item.moved, message=seen.message)
            if seen.seen in (UpdateObservation.WORKING, UpdateObservation.AWAITS):
                evidence = item.evidence or _progressed(action, seen)
                # A task that waited may be started again, and then reports another StartTime.
                started = None if seen.waits else item.task_started or seen.task_started
                item = replace(item, percent=seen.percent, waits=seen.waits, evidence=evidence, task_started=started)
            if seen.start is not None and not item.started:
                item = replace(item, state=ItemState.SENT, progress=seen.start, started=True)
        job = replace(job, items=(*job.items[:position], item, *job.items[position + 1 :]))
    return job


def _answered(item: Item) -> str:
    """Return the objection in the BMC's answer to the upload, as part of a message; empty if there was none."""
    return '' if item.objection is None else f'the BMC answered the upload with: {item.objection.text}'


def _strays(action: Flash | Program, seen: WriteSight) -> bool:
    """Whether the component was read and shows another version than before the write, or none."""
    if seen.shown is None:
        return (
            seen.seen in (UpdateObservation.UNTOLD, UpdateObservation.UNSHOWN, UpdateObservation.MISSING)
            and action.expects is not None
        )
    return seen.shown != action.expects and not same_version(seen.shown, action.expects)


def _stands_still(action: Flash | Program, seen: WriteSight) -> bool:
    """Whether nothing is seen in progress that may be the write, and the component is as before; or nothing can be read."""
    if seen.seen is UpdateObservation.SILENT:
        return True
    as_before = seen.shown == action.expects or same_version(seen.shown, action.expects)
    return as_before and seen.seen in (UpdateObservation.REFUSED, UpdateObservation.NOTHING, UpdateObservation.UNTOLD)


def _next(job: Job, item: Item, action: Flash | Program, seen: UpdateObservation) -> Next:
    """Return the next state of a write.

    A write that waits for a restart of the host is given up if that restart cannot help it, or does not come.
    """
    follows = following(item.state, seen, _reset_of(action))
    if seen is UpdateObservation.AWAITS and (why := shut_out(job, action)) is not None:
        return Next(state=ItemState.FAILED, effect=Effect.GIVE_UP, why=why)
    if follows.effect is Effect.GIVE_UP and item.waits:
        return replace(follows, why=shut_out(job, action) or UNPLANNED)
    return follows


def _may_be_cancelled(item: Item, now: datetime, patience: RetryLimits) -> bool:
    """Whether a task that is to be given up can still be cancelled, or may still end because it was."""
    if item.task is None or item.uncancelled is not None:
        return False
    return item.cancelled is None or now - item.cancelled <= patience.settle


def _not_cancelled(item: Item) -> str:
    """Return what became of the attempt to cancel a task that is given up, as the end of a message."""
    if item.cancelled is None:
        return ''
    return f'; task {item.task} ' + (
        'still runs although it was to be cancelled'
        if item.uncancelled is None
        else f'could not be cancelled: {item.uncancelled}'
    )


def _too_long(effect: Effect, item: Item, now: datetime, patience: RetryLimits) -> bool:
    """Whether nothing has changed for as long as this effect may take."""
    limit = {Effect.SETTLE: patience.settle, Effect.ASK: patience.stall}.get(effect)
    # A write that is polled by its device made its last progress when it was sent, or when its task last reported some.
    since = item.moved or item.since if effect is Effect.ASK else max(item.since, item.moved or item.since)
    return limit is not None and now - since > limit


def _by(item: Item, now: datetime, patience: RetryLimits) -> str:
    return f'{(item.moved or now) + patience.stall:%H:%M:%S}Z'


def _progressed(action: Flash | Program, seen: WriteSight) -> WriteEvidence | None:
    """Return PROGRESS as evidence if the task is between 0 and 100 percent: a skipped task goes from 0 to 100 at once.

    The task of a bundle says nothing about a single component, which may be skipped while others are written.
    """
    if isinstance(action, Flash) and action.upload is not None:
        return None
    return WriteEvidence.PROGRESS if seen.percent is not None and 0 < seen.percent < 100 else None


def _ended_by(action: Flash | Program, seen: WriteSight) -> WriteEvidence | None:
    """Return the evidence that a write that ended well, and was not seen in progress, has reached its component."""
    if seen.told_written:
        return WriteEvidence.OUTCOME
    is_later = None not in (action.installed, seen.installed) and seen.installed != action.installed
    return WriteEvidence.INSTALLED if is_later else None


def _instead(action: Flash | Program, seen: WriteSight) -> str:
    """Say which version runs instead of the one that was sent; and if nothing else is wrong, what the catalogue may lack."""
    if seen.shown is None or same_version(seen.shown, action.version):
        return ''
    found = f': {seen.shown} runs, {action.version} was sent'
    if seen.seen is not UpdateObservation.SUCCEEDED or not isinstance(action, Flash):
        return found
    return (
        f'{found}; apply.reset of image {action.image} is {action.reset}: set it to the reset that the image needs, if '
        'it needs one'
    )


def _moved(item: Item, seen: WriteSight) -> bool:
    """Whether a task makes progress: by its percentage, or without one by its message. An unread task counts as moving."""
    if seen.seen not in (UpdateObservation.WORKING, UpdateObservation.AWAITS) or item.moved is None:
        return True
    return seen.percent != item.percent if seen.percent is not None else seen.message != item.message


def _reset_of(action: Flash | Program) -> ResetKind:
    return action.reset if isinstance(action, Flash) else ResetKind.NONE
