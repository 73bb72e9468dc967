# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Pair the devices of two inventories by identity and place, and their parts by name."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from baremetal_acc.model.accelerator import Accelerator, IdentitySource, ReconfigurationSlot
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.inventory_change import BehindGap, BmcsNotAsked
from baremetal_acc.model.lock import LockReading
from baremetal_acc.model.ref import AcceleratorId


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicePairs:
    """Devices of two inventories: pairs that correspond to each other, and the rest."""

    pairs: tuple[tuple[Accelerator, Accelerator], ...]
    missing: tuple[Accelerator, ...]
    fresh: tuple[Accelerator, ...]


def pair_devices(before: Inventory, now: Inventory) -> DevicePairs:
    """Pair the devices by identity, and the remaining ones by place."""
    old, new = {a.id: a for a in before.accelerators}, {a.id: a for a in now.accelerators}
    pairs = [(old[i], new[i]) for i in sorted(old.keys() & new.keys())]
    missing = [old[i] for i in sorted(old.keys() - new.keys())]
    fresh = [new[i] for i in sorted(new.keys() - old.keys())]
    was_at, is_at = _locations(before), _locations(now)
    ranked = sorted(
        (rank, a.id, b.id) for a in missing for b in fresh if (rank := _same_place(a, b, was_at, is_at)) is not None
    )
    for _, left, come in ranked:
        a, b = old[left], new[come]
        if a in missing and b in fresh:
            pairs.append((a, b))
            missing.remove(a)
            fresh.remove(b)
    return DevicePairs(pairs=tuple(pairs), missing=tuple(missing), fresh=tuple(fresh))


def _locations(inventory: Inventory) -> Mapping[AcceleratorId, tuple[str, str]]:
    """Return the locations that tell devices apart: real machines give one location to many devices."""
    times = Counter((a.primary.bmc, a.location) for a in inventory.accelerators)
    return {
        a.id: (a.primary.bmc, a.location)
        for a in inventory.accelerators
        if a.location and times[a.primary.bmc, a.location] == 1
    }


def _same_place(
    old: Accelerator,
    new: Accelerator,
    was_at: Mapping[AcceleratorId, tuple[str, str]],
    is_at: Mapping[AcceleratorId, tuple[str, str]],
) -> int | None:
    """Rank how surely two devices are at one place, 0 is best; None if they are not."""
    was, here = was_at.get(old.id), is_at.get(new.id)
    if was is not None and here is not None:
        return 0 if was == here else None
    if old.primary == new.primary:
        return 1
    return 2 if set(old.refs) & set(new.refs) else None


CARD_PROPERTIES = ('kind', 'vendor', 'model', 'part_number', 'serial', 'uuid')
PCI_IDS = ('vendor_id', 'device_id', 'subsystem_vendor_id', 'subsystem_id')


def card_properties(a: Accelerator) -> dict[str, str | None]:
    """Return the properties that a card reports of itself, by name."""
    facts = {name.replace('_', ' '): getattr(a, name) for name in CARD_PROPERTIES}
    return facts | {f'PCI {name.replace("_", " ")}': getattr(a.pci, name) for name in PCI_IDS}


def is_another_card(old: Accelerator, new: Accelerator) -> bool:
    """Whether two paired devices are two cards, because they report different properties.

    A card that is identified by a UUID or a serial number may change its other properties, for example with new firmware.
    """
    if old.id == new.id and new.identity is not IdentitySource.URI:
        return False
    was, found = card_properties(old), card_properties(new)
    return any(is_different(was[name], found[name]) for name in was if name != 'vendor')


def is_different(was: str | None, found: str | None) -> bool:
    """Whether two values are known and differ, upper and lower case apart."""
    return was is not None and found is not None and was.casefold() != found.casefold()


def find_what_hides(a: Accelerator, look: Inventory) -> BmcsNotAsked | BehindGap | None:
    """Return why an inventory cannot say that a device is absent; None if it can."""
    bmcs = {ref.bmc for ref in (a.primary, *a.refs)}
    if not bmcs & {b.name for b in look.bmcs}:
        return BmcsNotAsked(names=tuple(sorted(bmcs)))
    gap = next((g for g in look.gaps if g.hides and g.ref.bmc in bmcs), None)
    return None if gap is None else BehindGap(gap=gap)


def key_components(components: Iterable[Component]) -> dict[str, Component]:
    """Index components by BMC and Id; by URI if they have no Id, or share one."""
    found: dict[str, Component] = {}
    for c in components:
        key = f'{c.ref.bmc}:{c.id}' if c.id is not None else str(c.ref)
        found[key if key not in found else f'{key} {c.ref}'] = c
    return found


def key_slots(slots: Iterable[ReconfigurationSlot]) -> dict[str, ReconfigurationSlot]:
    """Index slots by SlotId, and by position if they share one."""
    found: dict[str, ReconfigurationSlot] = {}
    for s in slots:
        found[s.slot_id if s.slot_id not in found else f'{s.slot_id} {s.index}'] = s
    return found


def key_locks(locks: Iterable[LockReading]) -> dict[str, LockReading]:
    """Index lock readings by mechanism, resource and field."""
    return {f'{r.mechanism} {r.ref} {r.field}': r for r in locks}
