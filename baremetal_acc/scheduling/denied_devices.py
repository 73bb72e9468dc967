# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Find the devices of a stored inventory that run what the catalogue denies, and the providers that may offer them.

No BMC is asked. A verification of the same inventory finds the same (:func:`baremetal_acc.planning.verify.denied`), so that no
publication offers what is withdrawn here.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.image import Image
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.model.verdict import Finding
from baremetal_acc.planning import verify
from baremetal_acc.scheduling.provider_names import card_uuid, slot_uuid, together_uuid


@dataclass(frozen=True, slots=True, kw_only=True)
class DeniedDevice:
    """A device that runs, or will run after its next reset, what the catalogue denies.

    :ivar findings: at least one; each is a denied version or function.
    """

    accelerator: AcceleratorId
    label: str
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WithheldDevice:
    """A device that is withdrawn from placement because of the deny list, as it is stored.

    :ivar since: when it was withdrawn.
    :ivar findings: the first of those of :class:`DeniedDevice`, with facts in words; ``more``: how many others there were.
    """

    accelerator: AcceleratorId
    label: str
    since: datetime
    findings: tuple[Finding, ...]
    more: int = 0


def denied_images(catalogue: Iterable[Image]) -> tuple[Image, ...]:
    """Return the images of a catalogue that its deny list means."""
    return tuple(image for image in catalogue if image.denied is not None)


def denied_devices(inventory: Inventory, images: tuple[Image, ...]) -> tuple[DeniedDevice, ...]:
    """Return the devices of an inventory that run a denied image, in the order of the inventory.

    :param images: the denied images.
    """
    found = ((a, tuple(verify.denied(a, images))) for a in inventory.accelerators)
    return tuple(DeniedDevice(accelerator=a.id, label=a.label, findings=why) for a, why in found if why)


def offering(inventory: Inventory, devices: frozenset[AcceleratorId], node_uuid: str) -> frozenset[str]:
    """Return the UUIDs of the providers that may offer devices, whichever rule has published them.

    A device is published as a whole, by its slots, or together with all devices of its make: placement has some of these
    providers only.

    :raises UsageError: ``node_uuid`` is no UUID.
    """
    return frozenset(uuid for a in inventory.accelerators if a.id in devices for uuid in _of_device(a, node_uuid))


def counted_with(inventory: Inventory, devices: frozenset[AcceleratorId], node_uuid: str) -> bool:
    """Whether a provider that represents some of these devices may represent others, too."""
    makes = {together_uuid(node_uuid, a) for a in inventory.accelerators if a.id in devices}
    return any(together_uuid(node_uuid, a) in makes for a in inventory.accelerators if a.id not in devices)


def _of_device(accelerator: Accelerator, node_uuid: str) -> tuple[str, ...]:
    slots = (slot_uuid(node_uuid, accelerator.id, s.slot_id) for s in accelerator.slots)
    return (card_uuid(node_uuid, accelerator.id), together_uuid(node_uuid, accelerator), *slots)
