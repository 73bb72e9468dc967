# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Release a write-protection lock of a device, and engage it again with a record of the engagement.

The lock is read back by the next inspection (:mod:`baremetal_acc.execution.observation`); what that reading proves is judged by
:mod:`baremetal_acc.planning.lock_evidence`.
"""

import logging
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from baremetal_acc.bmc.driver import Writer
from baremetal_acc.errors import AccError
from baremetal_acc.execution.context import Tools
from baremetal_acc.execution.power import host_runs
from baremetal_acc.execution.retry_policy import took_nothing
from baremetal_acc.execution.step_context import StepContext
from baremetal_acc.locks.mechanism import Mechanism, StatefulMechanism
from baremetal_acc.model.action import Engage, Release
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import Job
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.model.lock import (
    Engagement,
    LockReading,
    LockState,
    LockUndoRecord,
    ResetKind,
    Scope,
    closed_by_us,
    opened_again,
    to_be_closed,
)
from baremetal_acc.model.ref import BmcName
from baremetal_acc.planning import known_later, lock_changes
from baremetal_acc.planning.action_descriptions import describe
from baremetal_acc.planning.lock_changes import reading_of

LOG = logging.getLogger(__name__)

_NOT_SHOWN = 'this card no longer shows this lock'


def release(at: StepContext, action: Release) -> Job:
    """Release a lock that is still as the plan saw it, while a host that is to be off is off."""
    job, tools = at.job, at.tools
    mechanism, reading = _reading_at(action, tools, at.inventory)
    if mechanism is None or reading is None:
        return at.failed(known_later.hidden_by_hold(job, at.inventory, action.accelerator) or _NOT_SHOWN)
    running = host_runs(job, at.inventory)
    if running is not None:
        return at.failed(running)
    if reading.value != action.expects and reading.state is not LockState.UNLOCKED:
        return at.failed(f'the plan was made with {action.expects}, but the lock now reads {reading.value}')
    opened = opened_again(job.undos, reading.place)
    if lock_changes.is_done_unanswered(at.item, action, reading):
        return at.of(replace(job, undos=opened)).done()
    closed = closed_by_us(job.undos, reading.place)
    if isinstance(mechanism, StatefulMechanism) and not closed and reading.state is LockState.PARTIAL:
        # The write path is open already. What is closed of the lock was closed by its vendor, or by somebody else.
        return at.done('no part of it was engaged by us')
    # Earlier evidence is void from here on, also if this process dies before the answer.
    job = replace(job, engagements=tuple(e for e in job.engagements if e.place != reading.place))
    tools.save(job)
    try:
        writer = at.bmcs[action.ref.bmc].writer()
        if isinstance(mechanism, StatefulMechanism):
            mechanism.reopen(writer, reading, closed)
        else:
            mechanism.release(writer, reading)
    except AccError as exc:
        return _unanswered(at.of(job), reading, exc)
    return _accepted(at.of(replace(job, undos=opened)), reading, writer)


def engage(at: StepContext, action: Engage) -> Job:
    """Engage a lock, and keep the record of that as evidence for the verdict."""
    job, tools, now = at.job, at.tools, at.now
    mechanism, reading = _reading_at(action, tools, at.inventory)
    # A card that has just been written, or a BMC that has just started, takes time to be shown again.
    if reading is None and mechanism is not None and now <= job.deadline and now - at.item.since <= tools.patience.settle:
        return at.with_item(replace(at.item, message=_NOT_SHOWN))
    if mechanism is None or reading is None:
        # Where the baseline accepts a path that no mechanism blocks, the verdict would not notice.
        reasons = (*job.reasons, f'{describe(action)}: {_NOT_SHOWN}')
        return at.of(replace(job, reasons=reasons)).failed(_NOT_SHOWN)
    undos = to_be_closed(job.undos, reading)
    if undos != job.undos:  # after a crash from here on, what was closed can still be opened
        job = replace(job, undos=undos)
        tools.save(job)
    writer = at.bmcs[action.ref.bmc].writer()
    is_done = lock_changes.is_done_unanswered(at.item, action, reading)
    try:
        if not is_done:
            close(mechanism, writer, reading, undos)
    except AccError as exc:
        return _unanswered(at.of(job), reading, exc)
    record = Engagement(
        mechanism=action.mechanism,
        accelerator=action.accelerator,
        ref=action.ref,
        field=action.field,
        lifecycle=job.lifecycle,
        flow=job.flow,
        session=writer.session,
        at=now,
        part=reading.part,
        needs=action.needs,
        reset=reading.reset,
        scope=reading.scope,
        blocks=reading.blocks,
        leaves=reading.leaves,
    )
    # A lock may protect several devices: each has its own record. A lock of a whole machine has one record for all.
    others = tuple(e for e in job.engagements if not _replaces(record, e))
    return _accepted(at.of(replace(job, engagements=(*others, record))), reading, writer)


def _unanswered(at: StepContext, reading: LockReading, exc: AccError) -> Job:
    """Return the job after a change of a lock was not accepted. The lock is read first where the change may have been made."""
    item = at.item
    if not took_nothing(exc) and item.before is None and reading.value is not None:
        item = replace(item, before=reading.value)
        at = at.of(at.with_item(item))
        if isinstance(item.action, Release) and at.now <= at.job.deadline:
            return at.with_item(replace(item, message=str(exc)))
    return at.not_performed(exc)


def _accepted(at: StepContext, reading: LockReading, writer: Writer) -> Job:
    """Return the job after a write to a lock was accepted: done, or followed where the BMC carries it out later."""
    at = at.of(_tried_anew(at.job, reading.ref.bmc, at.now))
    objection = writer.objections[-1] if writer.objections else None
    action = at.item.action
    if objection is not None:
        LOG.warning('%s: %s: the BMC accepted it with the message: %s', at.job.target, describe(action), objection.text)
    item = replace(at.item, unconditional=bool(writer.unconditional), objection=objection)
    by_reset = isinstance(action, Engage) and action.needs is not ResetKind.NONE
    if all(by_reset and not one.said for one in writer.accepted):
        # Some BMCs show a change only after the reset that makes it take effect. The verdict judges that.
        return at.of(at.with_item(item)).done()
    task = writer.accepted[-1].task
    running = replace(item.to(ItemState.RUNNING, at.now), task=task, follows=task is not None, before=reading.value)
    return at.with_item(running)


def _tried_anew(job: Job, bmc: BmcName, now: datetime) -> Job:
    """Return the job with its rejected changes of locks of a BMC as if they had not been sent yet.

    The BMC has accepted another change since. It may take some time for that, and reject others meanwhile, whether or not the
    lock shows when it is done: a lock that was closed before shows no change.
    """
    items = tuple(
        replace(item, rejected=0, again=None, since=now)
        if item.rejected and not item.state.ended and isinstance(item.action, Engage) and item.action.ref.bmc == bmc
        else item
        for item in job.items
    )
    return replace(job, items=items)


def close(mechanism: Mechanism, writer: Writer, reading: LockReading, undos: Iterable[LockUndoRecord]) -> None:
    """Have a mechanism engage its lock; a mechanism that needs to know what we have closed is given the records.

    :raises BmcError: as :meth:`~baremetal_acc.locks.mechanism.Mechanism.engage`.
    """
    if isinstance(mechanism, StatefulMechanism):
        mechanism.engage(writer, reading, closed_by_us(undos, reading.place))
    else:
        mechanism.engage(writer, reading)


def _replaces(new: Engagement, old: Engagement) -> bool:
    return new.place == old.place and (new.scope is Scope.BMC or new.accelerator == old.accelerator)


def _reading_at(
    action: Release | Engage, tools: Tools, inventory: Inventory | None
) -> tuple[Mechanism | None, LockReading | None]:
    """Return the mechanism of an action, and the present reading of its lock."""
    return next((m for m in tools.mechanisms if m.name == action.mechanism), None), reading_of(action, inventory)
