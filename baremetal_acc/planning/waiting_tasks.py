# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Give up a firmware write that waits for a host restart which cannot carry it out: none is planned, or a lock blocks it then.

The BMC is asked to cancel its task. A task that only waited until it was cancelled has written nothing, if the component shows
the same versions as before: then its card is as good as it was, and nothing has to be restored.
"""

from baremetal_acc.model.action import Engage, Flash, Program
from baremetal_acc.model.inventory import TaskReading
from baremetal_acc.model.job import Job
from baremetal_acc.model.job_item import Item, ItemState
from baremetal_acc.model.lock import ResetKind, Scope, WritePath

UNPLANNED = (
    'the update does not begin: if it waits for a restart of the host, which the catalogue does not plan, set '
    'apply.reset of its image'
)
"""Why a write is given up if its task waits, whatever it waits for."""


def shut_out(job: Job, action: Flash | Program) -> str | None:
    """Return why a restart cannot carry out a write: a lock that also blocks the BMC is closed by then. None if there is none.

    Locks are engaged before the host is restarted, as a tenant's code must not run next to an open one.
    """
    if not isinstance(action, Flash) or action.reset is ResetKind.NONE:
        return None
    for item in job.items:
        lock = item.action
        if isinstance(lock, Engage) and item.state is ItemState.PLANNED and _blocks(lock, action):
            return (
                f'the BMC carries out this update only with the restart of the host, but by then {lock.mechanism} at '
                f"{lock.ref} is engaged, which also blocks the BMC's own writes: write this image in an in-band "
                'cleaning, or while no rule requires that lock'
            )
    return None


def _blocks(lock: Engage, action: Flash) -> bool:
    """Whether a lock that is closed keeps the BMC from writing the component."""
    if WritePath.BMC_NETWORK not in lock.blocks:
        return False
    match lock.scope:
        case Scope.BMC:
            return lock.ref.bmc == action.ref.bmc
        case Scope.DEVICE:
            return lock.accelerator == action.accelerator
        case _:
            return lock.ref == action.ref


def wrote_nothing(item: Item, task: TaskReading, version: str | None, staged: str | None) -> bool:
    """Whether a task that has ended has written nothing: it had not begun when it was last seen, and was cancelled.

    :param version: what the component shows now, and ``staged`` what waits there for a reset.
    """
    action = item.action
    if not isinstance(action, Flash | Program) or not item.waits or item.cancelled is None or not task.was_cancelled:
        return False
    return version == action.expects and staged == action.staged
