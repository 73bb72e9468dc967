# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Record in a job which of its resets took place, and which locks took effect with them."""

from dataclasses import replace
from datetime import datetime

from baremetal_acc.model.action import Reset, ResetPurpose
from baremetal_acc.model.job import Job
from baremetal_acc.model.job_item import Item, ItemState
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.planning import activation
from baremetal_acc.planning.action_descriptions import objected
from baremetal_acc.planning.job_items import ended, has_purpose, with_item
from baremetal_acc.planning.job_readings import Sight
from baremetal_acc.planning.retry_limits import RetryLimits


def record_resets(job: Job, sight: Sight, now: datetime, patience: RetryLimits) -> Job:
    """Return the job after a poll of its resets."""
    for position, came in sight.resets.items():
        item = job.items[position]
        if item.state is not ItemState.RUNNING or not isinstance(item.action, Reset):
            continue
        by_hand = item.action.kind is activation.BY_HAND
        if came:
            job = _waited(job, item, now, patience) if by_hand else job
            job = ended(job, position, ItemState.DONE, now)
            job = _in_force(job, position, item.action, now)
        elif came is None and item.action.kind.restarts_bmc and not item.silent:
            job = with_item(job, position, replace(item, silent=True))
        elif by_hand:
            if now - item.since > patience.person:
                job = ended(
                    _waited(job, item, now, patience), position, ItemState.FAILED, now, _nobody_came(job, item, patience)
                )
        elif came is False and item.again is not None and now >= item.again and now <= job.deadline:
            # The BMC has answered with an error of its own, and nothing shows that the reset took place: it is read once more,
            # and requested once more if it has not.
            job = with_item(job, position, replace(item, state=ItemState.PLANNED, rejected=2, again=None))
        elif (came is False and now - item.since > patience.reset) or now > job.deadline + patience.reset:
            is_hold = has_purpose(item.action, ResetPurpose.HOLD)
            what = f'{item.message}, but the host was not seen off' if is_hold and item.message else 'the reset was not seen'
            said = f' ({item.message})' if item.rejected and item.message and not is_hold else ''
            job = ended(job, position, ItemState.FAILED, now, f'{what} within {patience.reset}{objected(item)}{said}')
    return job


def _waited(job: Job, item: Item, now: datetime, patience: RetryLimits) -> Job:
    """Extend the deadline of a job that has waited for a person by the time that was waited."""
    return replace(job, deadline=job.deadline - patience.person + (now - item.since))


def _nobody_came(job: Job, item: Item, patience: RetryLimits) -> str:
    """Return what is left to do if nobody has done the manual reset in time."""
    if not isinstance(item.action, Reset):
        raise TypeError('only a reset waits for a person')
    flashes = activation.brought_in_force(job, item.action)
    parts = ', '.join(f'{a.component} of {a.accelerator} ({a.version})' for a in flashes) or 'what was written'
    return (
        f'not done by {item.since + patience.person:%Y-%m-%d %H:%M:%S}Z; {parts} is written and waits for it: unplug '
        'the power cord of the powered-off machine, plug it in again, and run this again'
    )


def _in_force(job: Job, position: int, reset: Reset, now: datetime) -> Job:
    """Record the reset at the locks that needed it. Powering on counts as a reset of a host that was off before.

    A loss of standby power restarts the BMC; locks that need a start of the host take effect with that start.
    """
    if reset.kind.is_standby:
        restarted = (
            replace(e, reset_at=now)
            if e.needs is ResetKind.BMC_RESET and e.reset_at is None and e.reset is not None and e.reset.bmc == reset.system.bmc
            else e
            for e in job.engagements
        )
        return replace(job, engagements=tuple(restarted))
    if reset.purpose is ResetPurpose.HOLD or (reset.purpose is ResetPurpose.RESUME and not _was_off(job, position, reset)):
        return job
    engagements = tuple(
        replace(e, reset_at=now)
        if e.needs is not ResetKind.NONE
        and e.reset_at is None
        and _strong_enough(reset.kind, e.needs)
        and e.reset == reset.system
        else e
        for e in job.engagements
    )  # fmt: skip
    return replace(job, engagements=engagements)


def _was_off(job: Job, position: int, resume: Reset) -> bool:
    """Whether the last hold of this System before the given item has succeeded."""
    before = (i for i in reversed(job.items[:position]) if has_purpose(i.action, ResetPurpose.HOLD))
    last = next((i for i in before if isinstance(i.action, Reset) and i.action.system == resume.system), None)
    return last is not None and last.state is ItemState.DONE


def _strong_enough(done: ResetKind, needed: ResetKind) -> bool:
    return done is needed or (done is ResetKind.POWER_CYCLE and needed is ResetKind.SYSTEM_RESET)
