# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Do an action that is due, and was stored as about to be done."""

from collections.abc import Iterable, Iterator
from datetime import datetime

from baremetal_acc.decide.advance import Move, ended
from baremetal_acc.errors import AccError
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import CheckImage, Engage, Flash, ItemState, Job, Program, Publish, Release, Reset, Withdraw
from baremetal_acc.run.checking import check_idle, check_image
from baremetal_acc.run.ending import publish
from baremetal_acc.run.locking import engage, release
from baremetal_acc.run.looking import Bmcs
from baremetal_acc.run.patience import not_performed
from baremetal_acc.run.power import reset
from baremetal_acc.run.tools import Target, Tools
from baremetal_acc.run.writing import go_on, write


def needs_inventory(move: Move) -> bool:
    """Whether something is due that is done only to what a fresh look shows."""
    due = [move.job.items[p] for p in move.perform]
    return any(isinstance(i.action, Release | Flash | Program | Engage) and i.progress is None for i in due)


def one_for_each_upload(job: Job, positions: Iterable[int]) -> Iterator[int]:
    """The items that are to be performed, of the parts of one bundle the first alone: with it all of them are sent, once."""
    uploads = set()
    for position in positions:
        action = job.items[position].action
        upload = action.upload if isinstance(action, Flash) else None
        if upload is None or upload not in uploads:
            yield position
        uploads.add(upload)


def perform(
    job: Job, position: int, target: Target, tools: Tools, bmcs: Bmcs, inventory: Inventory | None, now: datetime
) -> Job:
    """Do one action that was stored as about to be done."""
    item = job.items[position]
    try:
        match item.action:
            case Withdraw() as action:
                if tools.placement is not None:
                    tools.placement.withdraw(None if action.whole else action.accelerators, alone=action.whole)
            case CheckImage() as action:
                check_image(action, tools, bmcs)
                checks = [(n, i.action) for n, i in enumerate(job.items) if isinstance(i.action, CheckImage)]
                if position == checks[0][0]:
                    check_idle((check for _, check in checks), bmcs)
            case Release() as action:
                return release(job, position, action, tools, bmcs, inventory, now)
            case Engage() as action:
                return engage(job, position, action, tools, bmcs, inventory, now)
            case Flash() | Program() as action if item.progress is not None:
                return go_on(job, position, action, item.progress, tools, bmcs, now)
            case Flash() | Program():
                return write(job, position, target, tools, bmcs, inventory, now)
            case Reset() as action:
                return reset(job, position, action, target, tools, bmcs, now)
            case Publish():
                return publish(job, position, target, tools, now)
    except AccError as exc:
        return not_performed(job, position, exc, tools.patience, now)
    return ended(job, position, ItemState.DONE, now)
