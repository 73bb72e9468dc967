# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Attach driver for a whole device (GPU, NIC, FPGA): nothing has to be prepared, the device is only checked.

Hardware: GPUs, NICs, other chips, FPGAs that are claimed whole. Found by: a claim of a device's provider. Can do: nothing,
since nothing has to be done. Handle: the PCI address. Restored: nothing has to be. Tried on: the emulator's GPUs.
"""

from collections.abc import Sequence

from baremetal_acc.attach.api import Around, AttachUndo, PreparedAttachment
from baremetal_acc.attach.region import moved
from baremetal_acc.model.accelerator import Kind
from baremetal_acc.model.attach import AttachHandle, Attachment, Claim, HandleType


class DeviceAttachDriver:
    """See the module."""

    name = 'device'
    handle = HandleType.PCI

    def can_handle(self, claim: Claim) -> bool:
        """Accept every claim of a whole device that is no DPU."""
        return claim.slot is None and claim.kind is not Kind.DPU

    def get_devices(self, claims: Sequence[Claim], around: Around) -> tuple[Attachment, ...]:
        """Return each device with its PCI address."""
        return tuple(
            Attachment(
                provider=claim.provider,
                classes=claim.classes,
                accelerator=a.id,
                label=a.label,
                driver=self.name,
                handle=AttachHandle(handle=self.handle, address=a.pci.address, location=a.location),
            )
            for claim in claims
            if (a := around.accelerator(claim)) is not None
        )

    def prepare(self, attachments: Sequence[Attachment], around: Around) -> PreparedAttachment:
        """Return the attachments as they are: nothing has to be done."""
        return PreparedAttachment(attachments=tuple(attachments))

    def post_plug(self, attachments: Sequence[Attachment], around: Around) -> tuple[str, ...]:
        """Check that each device is still there, at the same PCI address. Its firmware and locks are verified elsewhere."""
        found = []
        for one in attachments:
            accelerator = around.accelerator(one)
            if accelerator is None:
                found.append(f'{one}: claimed by the instance, but no longer reported by its BMC')
            else:
                found += moved(one, accelerator.pci.address)
        return tuple(found)

    def unprepare(self, attachments: Sequence[Attachment], around: Around) -> AttachUndo:
        """Nothing has to be restored."""
        return AttachUndo()
