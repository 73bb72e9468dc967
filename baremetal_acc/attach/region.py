# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Attach driver for an FPGA slot: the slot gets the function that the flavor asks for, and later its previous function again.

Hardware: cards with ReconfigurationSlots. Found by: a claim of a slot's provider. Can do: have a job program a function.
Handle: the SlotId, and the PCI address of the card. Restored: the previous function. If there was none, or no rule or image
allows it any more, the slot keeps its function; if that function is not known, the slot gets any function that the rules allow
for it. No BMC that we know of can empty a slot. Tried on: the emulator's FPGA.
"""

from collections.abc import Sequence
from dataclasses import replace

from baremetal_acc.attach.api import Around, AttachUndo, PreparedAttachment
from baremetal_acc.model.attach import AttachHandle, Attachment, Claim, FunctionAssignment, HandleType, Place
from baremetal_acc.scheduling import region_claims
from baremetal_acc.scheduling.schedulable import Supply


class RegionAttachDriver:
    """See the module."""

    name = 'region'

    def can_handle(self, claim: Claim) -> bool:
        """Accept every claim of a slot."""
        return claim.slot is not None

    def get_devices(self, claims: Sequence[Claim], around: Around) -> tuple[Attachment, ...]:
        """Return each slot with the function that it holds now."""
        found = []
        for claim in claims:
            a = around.accelerator(claim)
            if a is None or claim.slot is None:
                continue
            found.append(
                Attachment(
                    provider=claim.provider,
                    classes=claim.classes,
                    accelerator=a.id,
                    label=a.label,
                    driver=self.name,
                    handle=AttachHandle(handle=HandleType.SLOT, address=a.pci.address, slot=claim.slot, location=a.location),
                    slot=claim.slot,
                    previous=around.holds.get((a.id, claim.slot)),
                )
            )
        return tuple(found)

    def prepare(self, attachments: Sequence[Attachment], around: Around) -> PreparedAttachment:
        """Choose the function for each attachment whose slot is published as a region.

        :raises UsageError: not every function that was asked for can be given to one of them.
        """
        supply = Supply(functions=around.holds, offers=around.supply.offers)
        chosen = region_claims.assign([_claimed(a) for a in attachments], around.asked, supply)
        made = tuple(replace(a, function=_of(chosen, a) or around.holds.get(_place(a))) for a in attachments)
        gives = (
            FunctionAssignment(accelerator=device, slot=slot, function=name) for (device, slot), name in sorted(chosen.items())
        )
        return PreparedAttachment(attachments=made, gives=tuple(gives))

    def post_plug(self, attachments: Sequence[Attachment], around: Around) -> tuple[str, ...]:
        """Check that each slot is still there, holds what it was claimed as, and what was programmed for the instance."""
        found = list(region_claims.broken([_claimed(a) for a in attachments], around.supply))
        for one in attachments:
            accelerator = around.accelerator(one)
            slots = () if accelerator is None else accelerator.slots
            if one.slot not in {s.slot_id for s in slots}:
                found.append(f'{one}: claimed by the instance, but no longer reported by its BMC')
                continue
            holds = around.supply.functions.get(_place(one))
            if one.written and one.function is not None and holds != one.function:
                found.append(f'{one}: programmed with {one.function}, but holds {holds or "no known function"}')
            if accelerator is not None:
                found += moved(one, accelerator.pci.address)
        return tuple(found)

    def unprepare(self, attachments: Sequence[Attachment], around: Around) -> AttachUndo:
        """Restore the previous function of each slot; without one, program a function so that the content becomes known."""
        gives: list[FunctionAssignment] = []
        kept: dict[str, str] = {}
        for one in attachments:
            made = around.supply.offers.get(one.accelerator)
            takes = frozenset[str]() if made is None or one.slot is None else made.takes.get(one.slot, frozenset())
            now = around.holds.get(_place(one))
            if one.previous is not None and one.previous in takes:
                gives.append(_give(one, one.previous))
            elif around.accelerator(one) is None:
                kept[one.provider] = 'its card is no longer reported'
            elif now is not None and not one.doubtful:
                was = (
                    'its previous content is unknown'
                    if one.previous is None
                    else f'its previous function {one.previous} is not available'
                )
                kept[one.provider] = f'{was}, and no BMC can empty a slot, so it keeps {now}'
            elif takes:
                # Any function will do: afterwards it is known what the slot holds.
                gives.append(_give(one, now if now in takes and now is not None else min(takes)))
            else:
                kept[one.provider] = 'no rule allows a function for it any more'
        return AttachUndo(gives=tuple(gives), kept=kept)


def moved(one: Attachment, address: str | None) -> list[str]:
    """Say if a device has another PCI address than that of its handle. Without an address it may be the same device."""
    before = one.handle.address
    if before is None or address is None or before == address:
        return []
    return [f'{one}: PCI address changed from {before} to {address} since it was attached']


def _give(one: Attachment, function: str) -> FunctionAssignment:
    return FunctionAssignment(accelerator=one.accelerator, slot=one.slot or '', function=function)


def _claimed(one: Attachment) -> region_claims.Claimed:
    return region_claims.Claimed(accelerator=one.accelerator, slot_id=one.slot or '', label=one.label, classes=one.classes)


def _place(one: Attachment) -> Place:
    return one.accelerator, one.slot or ''


def _of(chosen: dict[Place, str], one: Attachment) -> str | None:
    return chosen.get(_place(one))
