# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Decide whether an action, or the inspection that it needs, is retried after an error, or has failed."""

import logging
from dataclasses import replace
from datetime import datetime

from baremetal_acc.errors import (
    AccError,
    BmcAnswerInvalid,
    BmcBusy,
    BmcConflict,
    BmcError,
    BmcLockedOut,
    BmcNotAuthorised,
    BmcRefusalReason,
    BmcRefused,
    BmcUnreachable,
    BmcUnsupported,
    InventoryInUse,
)
from baremetal_acc.execution.context import Tools
from baremetal_acc.model.action import Action, CheckImage, Engage, Flash, Program, Reset, ResetPurpose
from baremetal_acc.model.job import Job, Outcome, Wait
from baremetal_acc.model.job_item import Item, ItemState
from baremetal_acc.planning.action_descriptions import describe
from baremetal_acc.planning.due_actions import DueActions
from baremetal_acc.planning.job_items import ended, with_item
from baremetal_acc.planning.retry_limits import RetryLimits

LOG = logging.getLogger(__name__)


def blind(job: Job, move: DueActions, exc: AccError, tools: Tools, now: datetime) -> tuple[Job, Outcome]:
    """The inventory could not be read: retry until the deadline, then fail the pending actions."""
    LOG.warning('%s: %s', job.target, exc)
    # Once something was unlocked or written the job has to be finished: any error of a BMC is retried until the deadline.
    # (A BMC that refuses our credentials for good ends the job, and does not get here.)
    passes = exc.waiting_helps or (job.opened and isinstance(exc, BmcError))
    if not passes or now > job.deadline:
        for position in move.perform:
            job = ended(job, position, ItemState.FAILED, now, str(exc))
    tools.save(job)
    return job, Wait(delay=tools.patience.poll, doing=f'waiting: {exc.message}')


def not_performed(job: Job, position: int, exc: AccError, patience: RetryLimits, now: datetime) -> Job:
    """Retry an action that can be repeated without harm while waiting can help; otherwise the action has failed."""
    item = job.items[position]
    LOG.warning('%s: %s: %s', job.target, describe(item.action), exc)
    repeats = not isinstance(item.action, Flash | Program) and _passes(item.action, exc)
    # A BMC that says that it is busy gets the time that its work may take; one that does not answer, until the deadline.
    away = isinstance(exc, BmcUnreachable | BmcNotAuthorised | BmcAnswerInvalid) and job.opened
    limit = patience.claims if isinstance(exc, InventoryInUse) else patience.reset
    if isinstance(item.action, CheckImage):
        limit = patience.stall  # somebody else's update may take as long as one of ours
    if repeats and (away or now - item.since <= limit) and now <= job.deadline:
        if isinstance(item.action, Engage) and isinstance(exc, BmcRefused | BmcConflict | BmcAnswerInvalid):
            return with_item(job, position, _rejected(item, exc, patience, now))
        return with_item(job, position, replace(item, message=str(exc)))
    if isinstance(item.action, Reset) and isinstance(exc, BmcRefused) and not took_nothing(exc) and not item.rejected:
        # A server error does not say what the BMC has done: the power is read again, and the reset is requested once more.
        return with_item(job, position, replace(item, rejected=1, message=str(exc)))
    if isinstance(exc, BmcLockedOut):
        job = replace(job, reasons=tuple(dict.fromkeys((*job.reasons, str(exc)))))
    waited = f', waited for {(now - item.since).total_seconds():.0f} s' if exc.waiting_helps and now > item.since else ''
    is_hold = isinstance(item.action, Reset) and item.action.purpose is ResetPurpose.HOLD
    untouched = is_hold and took_nothing(exc)
    return ended(job, position, ItemState.FAILED, now, f'{exc}{waited}', untouched=untouched)


def _rejected(item: Item, exc: BmcError, patience: RetryLimits, now: datetime) -> Item:
    """Return the item of a change of a lock that the BMC has rejected: it is sent again, after twice as long each time."""
    again = now + patience.poll * 2**item.rejected
    message = f'{exc}; sent again at {again:%H:%M:%S}Z' if item.rejected else str(exc)
    return replace(item, rejected=item.rejected + 1, again=again, message=message)


def _passes(action: Action, exc: AccError) -> bool:
    """Whether an action that fails now may succeed later. A BMC that restarts refuses logins, or requests, for a while.

    How often a BMC that refuses is asked, and when, is decided in :mod:`baremetal_acc.planning.login_backoff`.
    """
    if isinstance(exc, BmcLockedOut):
        return False
    if exc.waiting_helps or isinstance(exc, BmcNotAuthorised | BmcAnswerInvalid):
        return True
    if isinstance(action, Reset) and is_changing(exc):
        return True  # whoever changes the power, the change ends
    return isinstance(action, Engage) and isinstance(exc, BmcError) and not isinstance(exc, BmcUnsupported)


def is_changing(exc: AccError) -> bool:
    """Whether a request to change the power of a host was refused because the power is just changing."""
    return isinstance(exc, BmcBusy) or (isinstance(exc, BmcRefused) and exc.reason is BmcRefusalReason.CONFLICT)


def took_nothing(exc: AccError) -> bool:
    """Whether the BMC has rejected what it was sent, or was never sent it."""
    if isinstance(exc, BmcRefused):
        return exc.reason is not BmcRefusalReason.INTERNAL_ERROR
    if isinstance(exc, BmcUnreachable):
        return not exc.sent
    return not isinstance(exc, BmcAnswerInvalid)
