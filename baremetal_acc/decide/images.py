# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which image is meant: what fits a device, and what a slot or a component then reports."""

from collections.abc import Iterable
from fnmatch import fnmatchcase

from baremetal_acc.model.accelerator import Accelerator, Function, ReconfigurationSlot
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.image import Fit, Image, ImageKind


def fits(image: Image, accelerator: Accelerator, component: Component | None) -> bool:
    """The ids of the device (and of the component, for a SoftwareId) are those that the image is for."""
    return any(_fit(fit, accelerator, component) for fit in image.fits)


def firmware_image(images: Iterable[Image], accelerator: Accelerator, component: Component, version: str) -> tuple[Image, ...]:
    """The firmware images that bring a component of a device to a version. More than one is the operator's mistake."""
    return tuple(
        image
        for image in images
        if image.kind is ImageKind.FIRMWARE
        and image.version == version
        and component.id is not None
        and fnmatchcase(component.id.casefold(), image.component.casefold())
        and fits(image, accelerator, component)
    )


def function_image(
    images: Iterable[Image], accelerator: Accelerator, slot: ReconfigurationSlot, function: str
) -> tuple[Image, ...]:
    """The function images that put a function into a slot of a device."""
    return tuple(
        image
        for image in images
        if image.kind is ImageKind.FUNCTION
        and image.function == function
        and fnmatchcase(slot.slot_id.casefold(), image.component.casefold())
        and fits(image, accelerator, slot.item)
    )


def holds(slot: ReconfigurationSlot, image: Image) -> bool:
    """The slot reports the function of the image, in its version.

    A function is known by its UUID where the catalogue gives one, else by name. Source: DSP8010 2025.4,
    AccelerationFunction v1_0_5, UUID and Version.
    """
    function = slot.function
    if function is None or function.version != image.version:
        return False
    if image.uuid is not None:
        return function.uuid is not None and function.uuid.casefold() == image.uuid.casefold()
    return image.function is not None and image.function.casefold() in _names(function)


def other_staged(slot: ReconfigurationSlot, images: Iterable[Image]) -> bool:
    """The next reset puts something else into the slot than one of these images."""
    staged = slot.item.staged if slot.item is not None else None
    return staged is not None and all(staged != image.version for image in images)


def security_version(images: Iterable[Image], accelerator: Accelerator, component: Component) -> int | None:
    """The security version of what a component runs now, as far as the catalogue knows that image; else None."""
    known = [
        image.security_version
        for image in images
        if component.version is not None and image in firmware_image((image,), accelerator, component, component.version)
    ]
    return max(known, default=None)


def _names(function: Function) -> set[str]:
    return {text.casefold() for text in (function.id, function.name) if text}


def _fit(fit: Fit, accelerator: Accelerator, component: Component | None) -> bool:
    pci = f'{accelerator.pci.vendor_id}:{accelerator.pci.device_id}'
    return (
        _same(fit.vendor, accelerator.vendor)
        and _same(fit.model, accelerator.model)
        and _same(fit.part_number, accelerator.part_number)
        and _same(fit.pci, pci)
        and _same(fit.software_id, component.software_id if component else None)
    )


def _same(wanted: str | None, found: str | None) -> bool:
    return wanted is None or (found is not None and wanted.casefold() == found.casefold())
