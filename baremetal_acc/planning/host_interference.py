# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Refuse to program an FPGA slot that the tenant's host can still write, or may be using.

BMC and host reach an FPGA by separate paths: the host may overwrite a moment later what the BMC has written, and the readback
then proves nothing. So a slot is programmed only while the host is off, or runs only the operator's code, or its own path is
closed: to the slot, and to the firmware of the FPGA, which could load anything. Under a tenant's running host, only an empty
slot is programmed, because nobody can see out of band whether a function is in use.
"""

from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.action import Program, Reset, ResetPurpose
from baremetal_acc.model.inventory import BmcFacts, PowerState
from baremetal_acc.model.job import Flow, Job
from baremetal_acc.model.lock import LockState, Scope, WritablePart, WritePath
from baremetal_acc.planning.lock_evidence import coverage
from baremetal_acc.policy.baseline_rules import Exposure


def host_may_program(
    job: Job, action: Program, exposure: Exposure, host: BmcFacts | None, accelerator: Accelerator | None
) -> str | None:
    """Return why a slot must not be programmed now, or None.

    A host that the job holds is off, or nothing is written at all; a cleaning that does not hold the host runs the operator's
    own ramdisk on it. A path that cannot be read counts as open.

    :param host: from the inventory read right before the write; None: the host's BMC was not read. ``accelerator`` is from the
        same read.
    """
    held = any(isinstance(i.action, Reset) and i.action.purpose is ResetPurpose.HOLD for i in job.items)
    if held or job.flow is Flow.CLEAN or exposure is not Exposure.TENANT:
        return None
    if host is not None and host.power is PowerState.OFF:
        return None
    slot = WritablePart(scope=Scope.SLOT, part=action.slot)
    ways = () if accelerator is None else coverage(accelerator, WritePath.HOST_DEVICE, accelerator.locks)
    asked = [way for way in ways if way.subject == slot or way.subject.scope is not Scope.SLOT]
    open_ways = [f'{way.subject} is {way.state}' for way in asked if way.state is not LockState.LOCKED_REPORTED]
    if not any(way.subject == slot for way in asked):
        open_ways.append(f'{slot} is not shown')
    if open_ways:
        return (
            f"the tenant's host is on and could program the slot at the same time ({WritePath.HOST_DEVICE}: "
            f'{", ".join(open_ways)}): '
            'power the host off, or lock the card, before the slot is programmed'
        )
    holds = _held_by(accelerator, action.slot)
    return (
        None
        if holds is None
        else f"the slot holds {holds}, which the tenant's host may be using: power the host off before the slot is programmed"
    )


def _held_by(accelerator: Accelerator | None, slot_id: str) -> str | None:
    """Describe what a slot holds; None when it is empty."""
    for slot in () if accelerator is None else accelerator.slots:
        if slot.slot_id == slot_id and slot.function is not None:
            return slot.function.name or slot.function.id
        if slot.slot_id == slot_id and slot.item is not None and slot.item.version is not None:
            return f'an unnamed function, version {slot.item.version}'
    return None
