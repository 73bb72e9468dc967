# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Select the actions of the current stage of a job that may start now."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from baremetal_acc.model.action import Engage, Flash, Program, Release, Reset, ResetPurpose, SetCardSetting, Stage, stage
from baremetal_acc.model.job import Job
from baremetal_acc.model.job_item import Item, ItemState
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.planning.job_items import has_purpose, sharing_upload, unfinished_writes
from baremetal_acc.planning.job_readings import Sight


@dataclass(frozen=True, slots=True, kw_only=True)
class DueActions:
    """The job after a poll, and the positions of the items that are due.

    Mark these items by :func:`~baremetal_acc.planning.job_transitions.sent` and store the job before performing them.
    """

    job: Job
    perform: tuple[int, ...] = ()


def select_writes(job: Job, sight: Sight) -> list[int]:
    """Return the positions of the writes that may start now.

    Lower orders go first, on whichever BMC; each card gets one write at a time, and each BMC no more than it takes. An image
    that is sent in turns continues.

    A BMC with something to roll back gets one write at a time, and none while an update runs there that is not ours: that
    update may be of the same card.
    """
    open_writes = list(unfinished_writes(job))
    under_way = [a for _, i, a in open_writes if i.state is not ItemState.PLANNED]
    load = Counter(a.ref.bmc for a in under_way)
    cards = {a.accelerator for a in under_way}
    # A write may have failed because the BMC had several: a BMC with something to roll back gets one at a time.
    # Another update that it runs may be the very write that has failed, under another name.
    careful = {a.ref.bmc for _, i, a in open_writes if i.restoring}
    lowest = min((a.order for _, _, a in open_writes), default=0)
    due = []
    for position, item, action in open_writes:
        if item.progress is not None:
            due.append(position)
            continue
        bmc = action.ref.bmc
        takes = 1 if bmc in careful else dict(job.parallel).get(bmc, 1)
        free = 0 if sight.foreign.get(bmc, 0) else takes - load[bmc]
        if position in due or item.state is not ItemState.PLANNED or action.order != lowest or free <= 0:
            continue
        together = sharing_upload(job, position)
        theirs = {action.accelerator, *(f.accelerator for n in together if isinstance(f := job.items[n].action, Flash))}
        if not theirs & cards:
            load[bmc] += 1
            cards |= theirs
            due += together
    return due


def select_settings(job: Job) -> list[int]:
    """Return the positions of the settings of cards that may be set now: after all writes of images have ended."""
    if next(unfinished_writes(job), None) is not None:
        return []
    return [n for n, i in enumerate(job.items) if isinstance(i.action, SetCardSetting) and not i.state.ended]


def select_lock_changes(job: Job, at: Stage, now: datetime) -> list[int]:
    """Return the positions of the lock changes that may start now.

    A lockdown is released before the other locks and engaged after them: under a lockdown the BMC changes no other setting. A
    BMC that still carries out one change gets no other, and a change that it has rejected waits for its retry time.
    """
    open_ones = [(n, i) for n, i in enumerate(job.items) if stage(i.action) is at and not i.state.ended]
    lockdowns = [n for n, i in open_ones if isinstance(i.action, Release | Engage) and i.action.wraps]
    others = [n for n, _ in open_ones if n not in lockdowns]
    following = (lockdowns or others) if at is Stage.RELEASE else (others or lockdowns)
    return [n for n in following if not waits_for_lock(job, n) and (job.items[n].again or now) <= now]


def waits_for_lock(job: Job, position: int) -> bool:
    """Whether a lock change that was not sent yet waits for another one that its BMC still carries out."""
    action = job.items[position].action
    return isinstance(action, Release | Engage) and any(
        item.state is ItemState.RUNNING and isinstance(item.action, Release | Engage) and item.action.ref.bmc == action.ref.bmc
        for item in job.items
    )


def select_resets(job: Job, at: Stage) -> list[int]:
    """Return the positions of the resets that may start now.

    Resets that enforce a change go together, but those of BMCs go before standby power is cut; the host is given back after
    all.
    """
    resets = [(n, i) for n, i in enumerate(job.items) if stage(i.action) is at and not i.state.ended]
    enforcing = [(n, i) for n, i in resets if has_purpose(i.action, ResetPurpose.ENFORCE)]
    of_bmcs = [(n, i) for n, i in enforcing if isinstance(i.action, Reset) and i.action.kind is ResetKind.BMC_RESET]
    return [n for n, i in (of_bmcs or enforcing or resets) if i.state in (ItemState.PLANNED, ItemState.SENT)]


def select_performable(job: Job, positions: list[int]) -> DueActions:
    """Select the items that can be performed now. A write that was sent is only polled, unless its image is sent in turns."""

    def can(item: Item) -> bool:
        if item.state is ItemState.SENT:
            return item.progress is not None or not isinstance(item.action, Flash | Program)
        return item.state is ItemState.PLANNED

    return DueActions(job=job, perform=tuple(n for n in positions if can(job.items[n])))
