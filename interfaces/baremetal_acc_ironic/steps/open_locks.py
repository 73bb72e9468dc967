# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The mark that a job has left locks open."""

from dataclasses import replace

from baremetal_acc import execution
from baremetal_acc.model.action import Engage, Flash, Program, Release, Reset, SetCardSetting
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import Job
from baremetal_acc.planning import interference
from baremetal_acc_ironic.state.node_state import NodeState, Opened
from baremetal_acc_ironic.steps import definitions, wall_clock
from baremetal_acc_ironic.steps.definitions import Step


def opened(state: NodeState, job: Job, step: Step, inventory: Inventory | None, *, failed: bool) -> Opened | None:
    """Return the mark that locks are open, after a job.

    :param inventory: the job's final inventory read; None if there was none.
    """
    left = _left_open(state, job, step, failed=failed)
    if left is None or left.found:
        return left
    if job.held_off:
        cards = left.accelerators | interference.open_cards(job)
        return replace(left, held_off=job.held_off, accelerators=cards, started=False)
    if inventory is None or job.verdict is None:
        return left
    off = left.held_off or interference.off_now(inventory, wall_clock.now())
    cards = left.accelerators | interference.not_closed(job.verdict)
    # If the host is on, the operator's ramdisk runs there.
    return replace(left, held_off=off, accelerators=cards, started=not off)


def _left_open(state: NodeState, job: Job, step: Step, *, failed: bool) -> Opened | None:
    if step is definitions.UNLOCK:
        # An unlock step that found nothing to open leaves the mark of an earlier one.
        earlier = state.opened is not None and bool(state.opened.accelerators)
        return state.opened if touched(job) or earlier else None
    looked = job.verdict is not None and (bool(job.verdict.findings) or not failed)
    if step is not definitions.PUBLISH and looked and not open_locks(job):
        return None
    if failed and state.opened is None and wrote(job):
        return Opened(since=wall_clock.now(), why=f'{step.name} failed and left locks open')
    return state.opened


def open_locks(job: Job) -> bool:
    """Whether the final read found a lock that is not closed as demanded, or a device that could not be read."""
    return job.verdict is not None and bool(execution.unprotected(job.verdict))


def touched(job: Job) -> bool:
    """Whether the job has begun to change something."""
    return any(
        i.state.begun and isinstance(i.action, Release | Flash | Program | SetCardSetting | Reset | Engage) for i in job.items
    )


def wrote(job: Job) -> bool:
    """Whether the job has begun to release a lock or to write an image."""
    return any(i.state.begun and isinstance(i.action, Release | Flash | Program) for i in job.items)
