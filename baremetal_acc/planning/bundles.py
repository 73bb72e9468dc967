# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Find the firmware components that a firmware bundle would be written to.

A bundle is one package that is uploaded once; its BMC then writes every component of every device that the package is for.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.image import Bundle, Image
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.ref import AcceleratorId, BmcName, Ref
from baremetal_acc.planning import image_selection

Place = tuple[AcceleratorId, Ref]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """A component that a bundle would be written to.

    :ivar images: the images of the bundle that fit the component; more than one is the operator's mistake.
    """

    accelerator: Accelerator
    component: Component
    images: tuple[Image, ...]

    @property
    def place(self) -> Place:
        """Device, and SoftwareInventory item."""
        return (self.accelerator.id, self.component.ref)


def of(catalogue: Iterable[Image], name: str) -> tuple[Image, ...]:
    """Return the images of a bundle."""
    return tuple(i for i in catalogue if i.bundle is not None and i.bundle.name == name)


def reached(catalogue: Iterable[Image], name: str, bmc: BmcName, inventory: Inventory) -> tuple[Reached, ...]:
    """Return all components that a BMC would write a bundle to, as far as the inventory shows them."""
    members = of(catalogue, name)
    found = []
    for accelerator in inventory.accelerators:
        for component in accelerator.firmware:
            if component.ref.bmc != bmc:
                continue
            meant = tuple(i for i in members if image_selection.meant_for(i, accelerator, component))
            if meant:
                found.append(Reached(accelerator=accelerator, component=component, images=meant))
    return tuple(found)


def without_contradiction(
    found: Iterable[Image], catalogue: Iterable[Image], inventory: Inventory, demanded: Mapping[Place, str], bmc: BmcName
) -> tuple[Image, ...]:
    """Keep the images whose bundle brings no other version to any component than the one that is demanded of it.

    Images without a bundle are kept.

    :param found: images that bring a component to one version.
    :param demanded: the demanded version of each component.
    """
    catalogue = tuple(catalogue)

    def agrees(bundle: Bundle) -> bool:
        return all(
            image_selection.same_version(image.version, demanded.get(one.place, image.version))
            for one in reached(catalogue, bundle.name, bmc, inventory)
            for image in one.images
        )

    return tuple(i for i in found if i.bundle is None or agrees(i.bundle))


__all__ = ['Place', 'Reached', 'of', 'reached', 'without_contradiction']
