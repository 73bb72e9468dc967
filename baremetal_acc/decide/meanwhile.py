# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Could a tenant's host program an FPGA while we program one of its slots, or be using what the slot holds?

The BMC's way and the host's way to an FPGA are two: what the BMC writes the host may overwrite a moment later, and what is
read back then proves nothing. So the host is off, or runs nobody's code but the operator's, or its own way is closed: to the
slot and to the FPGA's firmware, which could load anything. A slot is programmed under a tenant's running host only when it is
empty: nobody can see from outside whether a function is in use.
"""

from baremetal_acc.decide.baseline import Exposure
from baremetal_acc.decide.evidence import coverage
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.inventory import BmcFacts, PowerState
from baremetal_acc.model.job import Flow, Job, Program, Reset, ResetPurpose
from baremetal_acc.model.lock import LockState, Scope, WritablePart, WritePath


def host_may_program(
    job: Job, action: Program, exposure: Exposure, host: BmcFacts | None, accelerator: Accelerator | None
) -> str | None:
    """Why a slot must not be programmed now, or None.

    A host that the job holds is off, or nothing is written at all; a cleaning that does not hold it has it in the operator's
    own ramdisk. A way that nobody can read counts as open.

    :param host: of the look right before the write; None: the host's BMC was not read. ``accelerator`` is of the same look.
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
            f"a tenant's host runs and could program it meanwhile ({WritePath.HOST_DEVICE}: {', '.join(open_ways)}): "
            'let the host be powered off, or lock the card first'
        )
    holds = _held_by(accelerator, action.slot)
    return (
        None
        if holds is None
        else f"it holds {holds}, which a tenant's host that runs may be using: let the host be powered off"
    )


def _held_by(accelerator: Accelerator | None, slot_id: str) -> str | None:
    """What a slot holds, in words; None when it is empty."""
    for slot in () if accelerator is None else accelerator.slots:
        if slot.slot_id == slot_id and slot.function is not None:
            return slot.function.name or slot.function.id
        if slot.slot_id == slot_id and slot.item is not None and slot.item.version is not None:
            return f'version {slot.item.version} of something'
    return None
