# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A DPU for an instance: as any whole device, and what the instance finds is the function that the DPU shows to its host.

Hardware: DPUs, which have a BMC of their own. Found by: a claim of a DPU's provider. Can do: nothing, for nothing has to be
done. Handle: the PCI address of the function that the host sees. Brought back: nothing has to be. Tried on: the emulator's DPU.
"""

from baremetal_acc.attach.device import Device
from baremetal_acc.model.accelerator import Kind
from baremetal_acc.model.attach import Claim, HandleType


class Dpu(Device):
    """See the module."""

    name = 'dpu'
    handle = HandleType.DPU_FUNCTION

    def can_handle(self, claim: Claim) -> bool:
        """Every claim of a whole DPU."""
        return claim.slot is None and claim.kind is Kind.DPU
