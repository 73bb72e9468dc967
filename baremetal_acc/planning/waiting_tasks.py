# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Give up a write that waits for a restart of the host which cannot help it: none is planned, or its lock is closed by then.

The BMC is asked to cancel its task. A task that has only waited until it was cancelled has written nothing, where the component
shows what it showed before: then its card is as good as it was, and nothing is put back.
"""

from baremetal_acc.model.inventory import TaskReading
from baremetal_acc.model.job import Engage, Flash, Item, ItemState, Job, Program
from baremetal_acc.model.lock import ResetKind, Scope, WritePath

UNPLANNED = (
    'the update does not begin: where it waits for a restart of the host, which the catalogue does not ask for, let '
    'apply.reset of its image say so'
)
"""Why a write is given up whose task waits, be it for what nobody does."""


def shut_out(job: Job, action: Flash | Program) -> str | None:
    """Why a restart cannot carry out a write: by then a lock is closed that blocks the BMC, too. None where there is no such.

    Locks are closed before the host is restarted, as no code of a tenant may run beside an open one.
    """
    if not isinstance(action, Flash) or action.reset is ResetKind.NONE:
        return None
    for item in job.items:
        lock = item.action
        if isinstance(lock, Engage) and item.state is ItemState.PLANNED and _blocks(lock, action):
            return (
                f'the BMC carries out this update only with the restart of the host, and by then {lock.mechanism} at '
                f"{lock.ref} is closed, which blocks the BMC's own writes, too: write this image in a cleaning in band, or "
                'while no rule demands that lock'
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
    """Whether a task that has ended has written nothing: when it was last seen it had not begun, and it was cancelled.

    :param version: what the component shows now, and ``staged`` what waits there for a reset.
    """
    action = item.action
    if not isinstance(action, Flash | Program) or not item.waits or item.cancelled is None or not task.was_cancelled:
        return False
    return version == action.expects and staged == action.staged
