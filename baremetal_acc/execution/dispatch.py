# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Dispatch an action that is due, and was stored as such, to the function that performs it."""

from collections.abc import Iterable, Iterator

from baremetal_acc.errors import AccError
from baremetal_acc.execution.card_setting import set_card_setting
from baremetal_acc.execution.checking import check_idle, check_image
from baremetal_acc.execution.finish import publish
from baremetal_acc.execution.firmware_update import go_on, write
from baremetal_acc.execution.locking import engage, release
from baremetal_acc.execution.power import reset
from baremetal_acc.execution.setting_restore import restore_setting
from baremetal_acc.execution.step_context import StepContext
from baremetal_acc.model.action import (
    CheckImage,
    Engage,
    Flash,
    Program,
    Publish,
    Release,
    Reset,
    RestoreSetting,
    SetCardSetting,
    Withdraw,
)
from baremetal_acc.model.job import Job
from baremetal_acc.planning.due_actions import DueActions


def needs_inventory(move: DueActions) -> bool:
    """Whether an action is due that is performed only on what a fresh inspection shows."""
    due = [move.job.items[p] for p in move.perform]
    kinds = Release | Flash | Program | SetCardSetting | Engage
    return any(isinstance(i.action, kinds) and i.progress is None for i in due)


def one_for_each_upload(job: Job, positions: Iterable[int]) -> Iterator[int]:
    """Return the items to perform; of the parts of one bundle only the first, which sends the bundle once for all of them."""
    uploads = set()
    for position in positions:
        action = job.items[position].action
        upload = action.upload if isinstance(action, Flash) else None
        if upload is None or upload not in uploads:
            yield position
        uploads.add(upload)


def perform(at: StepContext) -> Job:
    """Perform one action that was stored as about to be performed."""
    try:
        match at.item.action:
            case Withdraw() as action:
                if at.tools.placement is not None:
                    at.tools.placement.withdraw(None if action.whole else action.accelerators, alone=action.whole)
            case CheckImage() as action:
                check_image(action, at.tools, at.bmcs)
                checks = [(n, i.action) for n, i in enumerate(at.job.items) if isinstance(i.action, CheckImage)]
                if at.position == checks[0][0]:
                    check_idle((check for _, check in checks), at.bmcs)
            case Release() as action:
                return release(at, action)
            case Engage() as action:
                return engage(at, action)
            case Flash() | Program() as action if at.item.progress is not None:
                return go_on(at, action, at.item.progress)
            case Flash() | Program():
                return write(at)
            case SetCardSetting() as action:
                return set_card_setting(at, action)
            case Reset() as action:
                return reset(at, action)
            case RestoreSetting() as action:
                return restore_setting(at, action)
            case Publish():
                return publish(at)
    except AccError as exc:
        return at.not_performed(exc)
    return at.done()
