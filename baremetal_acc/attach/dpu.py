# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Attach driver for a DPU: as for any whole device; the instance gets the PCI function that the DPU shows to its host.

Hardware: DPUs, which have a BMC of their own. Found by: a claim of a DPU's provider. Can do: nothing, since nothing has to be
done. Handle: the PCI address of the function that the host sees. Restored: nothing has to be. Tried on: the emulator's DPU.
"""

from baremetal_acc.attach.device import DeviceAttachDriver
from baremetal_acc.model.accelerator import Kind
from baremetal_acc.model.attach import Claim, HandleType


class DpuAttachDriver(DeviceAttachDriver):
    """See the module."""

    name = 'dpu'
    handle = HandleType.DPU_FUNCTION

    def can_handle(self, claim: Claim) -> bool:
        """Accept every claim of a whole DPU."""
        return claim.slot is None and claim.kind is Kind.DPU
