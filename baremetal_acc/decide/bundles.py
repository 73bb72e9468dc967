# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What a bundle reaches: a package is sent once, and its BMC writes every component of every device that it is for."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from baremetal_acc.decide import images
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.image import Bundle, Image
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.ref import AcceleratorId, BmcName, Ref

Place = tuple[AcceleratorId, Ref]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """A component that a bundle would be written to.

    :ivar images: those of the bundle that are meant for it; more than one is the operator's mistake.
    """

    accelerator: Accelerator
    component: Component
    images: tuple[Image, ...]

    @property
    def place(self) -> Place:
        """Which device, which of its items."""
        return (self.accelerator.id, self.component.ref)


def of(catalogue: Iterable[Image], name: str) -> tuple[Image, ...]:
    """The images of a bundle."""
    return tuple(i for i in catalogue if i.bundle is not None and i.bundle.name == name)


def reached(catalogue: Iterable[Image], name: str, bmc: BmcName, inventory: Inventory) -> tuple[Reached, ...]:
    """All that a bundle would be written to by a BMC, as far as the inventory shows it."""
    members = of(catalogue, name)
    found = []
    for accelerator in inventory.accelerators:
        for component in accelerator.firmware:
            if component.ref.bmc != bmc:
                continue
            meant = tuple(i for i in members if images.meant_for(i, accelerator, component))
            if meant:
                found.append(Reached(accelerator=accelerator, component=component, images=meant))
    return tuple(found)


def without_contradiction(
    found: Iterable[Image], catalogue: Iterable[Image], inventory: Inventory, demanded: Mapping[Place, str], bmc: BmcName
) -> tuple[Image, ...]:
    """Of images that bring one version those whose bundle brings nothing else than is demanded.

    :param demanded: versions, by what they are demanded of.
    """
    catalogue = tuple(catalogue)

    def agrees(bundle: Bundle) -> bool:
        return all(
            images.same_version(image.version, demanded.get(one.place, image.version))
            for one in reached(catalogue, bundle.name, bmc, inventory)
            for image in one.images
        )

    return tuple(i for i in found if i.bundle is None or agrees(i.bundle))


__all__ = ['Place', 'Reached', 'of', 'reached', 'without_contradiction']
