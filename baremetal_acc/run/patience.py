# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Decide what follows when an action, or the look that it needs, did not succeed: it is tried again, or has failed."""

import logging
from dataclasses import replace
from datetime import datetime

from baremetal_acc.decide.advance import Move, Patience, describe, ended, with_item
from baremetal_acc.errors import (
    AccError,
    BmcAnswerInvalid,
    BmcBusy,
    BmcConflict,
    BmcError,
    BmcNotAuthorised,
    BmcRefusalReason,
    BmcRefused,
    BmcShutOut,
    BmcUnreachable,
    BmcUnsupported,
    InventoryInUse,
)
from baremetal_acc.model.job import (
    Action,
    CheckImage,
    Engage,
    Flash,
    Item,
    ItemState,
    Job,
    Outcome,
    Program,
    Reset,
    ResetPurpose,
    Wait,
)
from baremetal_acc.run.tools import Tools

LOG = logging.getLogger(__name__)


def blind(job: Job, move: Move, exc: AccError, tools: Tools, now: datetime) -> tuple[Job, Outcome]:
    """What is due needs a look, and there is none: wait for the BMC up to the deadline, then give these actions up."""
    LOG.warning('%s: %s', job.target, exc)
    # Once something was opened or written, there is no way but through: what fails for now may pass, up to the deadline.
    # (Who is shut out for good does not get here: that ends the job.)
    passes = exc.waiting_helps or (job.opened and isinstance(exc, BmcError))
    if not passes or now > job.deadline:
        for position in move.perform:
            job = ended(job, position, ItemState.FAILED, now, str(exc))
    tools.save(job)
    return job, Wait(delay=tools.patience.poll, doing=f'waiting: {exc.message}')


def not_performed(job: Job, position: int, exc: AccError, patience: Patience, now: datetime) -> Job:
    """An action that can be repeated without harm is tried again while waiting can help; else it has failed."""
    item = job.items[position]
    LOG.warning('%s: %s: %s', job.target, describe(item.action), exc)
    repeats = not isinstance(item.action, Flash | Program) and _passes(item.action, exc)
    # A BMC that says what it is busy with is waited for as long as that may take; one that is away up to the deadline.
    away = isinstance(exc, BmcUnreachable | BmcNotAuthorised | BmcAnswerInvalid) and job.opened
    limit = patience.claims if isinstance(exc, InventoryInUse) else patience.reset
    if isinstance(item.action, CheckImage):
        limit = patience.stall  # an update of somebody else may take as long as one of ours
    if repeats and (away or now - item.since <= limit) and now <= job.deadline:
        if isinstance(item.action, Engage) and isinstance(exc, BmcRefused | BmcConflict | BmcAnswerInvalid):
            return with_item(job, position, _rejected(item, exc, patience, now))
        return with_item(job, position, replace(item, message=str(exc)))
    if isinstance(item.action, Reset) and isinstance(exc, BmcRefused) and not took_nothing(exc) and not item.rejected:
        # An error of its own says nothing of what it has done: the power is read again, and it is asked once more.
        return with_item(job, position, replace(item, rejected=1, message=str(exc)))
    if isinstance(exc, BmcShutOut):
        job = replace(job, reasons=tuple(dict.fromkeys((*job.reasons, str(exc)))))
    waited = f', waited for {(now - item.since).total_seconds():.0f} s' if exc.waiting_helps and now > item.since else ''
    is_hold = isinstance(item.action, Reset) and item.action.purpose is ResetPurpose.HOLD
    untouched = is_hold and took_nothing(exc)
    return ended(job, position, ItemState.FAILED, now, f'{exc}{waited}', untouched=untouched)


def _rejected(item: Item, exc: BmcError, patience: Patience, now: datetime) -> Item:
    """A change of a lock that the BMC has rejected: it is sent again, after twice as long each time."""
    again = now + patience.poll * 2**item.rejected
    message = f'{exc}; sent again at {again:%H:%M:%S}Z' if item.rejected else str(exc)
    return replace(item, rejected=item.rejected + 1, again=again, message=message)


def _passes(action: Action, exc: AccError) -> bool:
    """What fails now may succeed later. A BMC that restarts refuses logins, or what it is asked for, for a while.

    How often one that refuses is asked, and when, is decided in :mod:`baremetal_acc.decide.admission`.
    """
    if isinstance(exc, BmcShutOut):
        return False
    if exc.waiting_helps or isinstance(exc, BmcNotAuthorised | BmcAnswerInvalid):
        return True
    if isinstance(action, Reset) and is_changing(exc):
        return True  # whoever changes it, it ends
    return isinstance(action, Engage) and isinstance(exc, BmcError) and not isinstance(exc, BmcUnsupported)


def is_changing(exc: AccError) -> bool:
    """What was asked of the power of a host is refused as it is just changing."""
    return isinstance(exc, BmcBusy) or (isinstance(exc, BmcRefused) and exc.reason is BmcRefusalReason.CONFLICT)


def took_nothing(exc: AccError) -> bool:
    """The BMC has said that it does not want what it was sent, or was never sent it."""
    if isinstance(exc, BmcRefused):
        return exc.reason is not BmcRefusalReason.INTERNAL_ERROR
    if isinstance(exc, BmcUnreachable):
        return not exc.sent
    return not isinstance(exc, BmcAnswerInvalid)
