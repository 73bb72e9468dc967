# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Select firmware and function images: which image fits a device, and the upgrade path to its version.

Also compares versions, and tells which image of the catalogue a component or slot reports.
"""

import re
from collections import deque
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache
from string import ascii_lowercase, ascii_uppercase

from baremetal_acc.model.accelerator import Accelerator, Function, ReconfigurationSlot
from baremetal_acc.model.action import Flash, Program
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.image import Fit, Image, ImageKind

_PADDING = ' \t\r\n\v\f\0'

_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)

# ------------------------------------------------------------------------------------------------------------- versions


def same_version(one: str | None, other: str | None) -> bool:
    """Whether two versions are the same, however they are written. Versions are never older or newer.

    Ignored: blanks and NULs around the text, the case of Latin letters, and a ``v`` before the first digit. BMCs report one
    version as ``96.00.A6.00.01`` in one resource and with blanks after it in another, and print ``v2.2`` where the vendor's
    notes say ``2.2``. Nothing else is ignored: a letter that only looks like another one differs from it.

    An unknown version equals no version, not even another unknown one.

    Source: recording nvidia/gh200; doc/source/reference/redfish_notes.rst, "What real trees show".
    """
    return one is not None and other is not None and _plain(one) == _plain(other) != ''


@lru_cache(maxsize=4096)
def _plain(version: str) -> str:
    text = version.strip(_PADDING).translate(_LOWER)
    return text[1:] if text[:1] == 'v' and text[1:2] in set('0123456789') else text


# --------------------------------------------------------------------------------------------------------- fitting images


def fits(image: Image, accelerator: Accelerator, component: Component | None) -> bool:
    """Whether the ids of the device (and of the component, for a SoftwareId) are those that the image is for."""
    return any(_fit(fit, accelerator, component) for fit in image.fits)


def by_name_only(image: Image, accelerator: Accelerator, component: Component | None) -> bool:
    """Whether the image fits only by vendor and model: texts that several kinds of cards share, and no id of the card."""
    matching = [fit for fit in image.fits if _fit(fit, accelerator, component)]
    return bool(matching) and not any(fit.pci or fit.part_number or fit.software_id for fit in matching)


def firmware_image(images: Iterable[Image], accelerator: Accelerator, component: Component, version: str) -> tuple[Image, ...]:
    """Return the firmware images that bring a component of a device to a version. More than one is the operator's mistake."""
    return tuple(i for i in images if same_version(i.version, version) and meant_for(i, accelerator, component))


def written_otherwise(images: Iterable[Image], accelerator: Accelerator, component: Component, version: str) -> str | None:
    """Return the one other version of an image for the component with equal numbers, as 2.01 and 2.1; else None.

    For a hint only: they are two different versions.
    """
    found = {
        i.version
        for i in images
        if i.denied is None and _numbers(i.version) == _numbers(version) and meant_for(i, accelerator, component)
    }
    return found.pop() if len(found) == 1 else None


def _numbers(version: str) -> tuple[int | str, ...]:
    return tuple(
        int(part) if part.isdecimal() else part.casefold() for part in re.findall(r'[0-9]{1,18}|[^0-9]+', version.strip())
    )


def for_others(images: Iterable[Image], accelerator: Accelerator, component: Component, version: str) -> tuple[Image, ...]:
    """Return the firmware images of that version, for components of that name, that are for ids other than the device's."""
    return tuple(
        image
        for image in images
        if image.kind is ImageKind.FIRMWARE
        and same_version(image.version, version)
        and component.id is not None
        and fnmatchcase(component.id.casefold(), image.component.casefold())
        and not fits(image, accelerator, component)
    )


def meant_for(image: Image, accelerator: Accelerator, component: Component, kind: ImageKind = ImageKind.FIRMWARE) -> bool:
    """Whether the image is of that kind, for components of that name, and for the ids of this device."""
    return (
        image.kind is kind
        and component.id is not None
        and fnmatchcase(component.id.casefold(), image.component.casefold())
        and fits(image, accelerator, component)
        and identified(image, component) is not False
    )


def identified(image: Image, component: Component) -> bool | None:
    """Whether the SoftwareId of a component is the identifier of an image; None if one of them is missing, or is no number.

    Source: openbmc/pldm as NVIDIA ships it: the SoftwareId of an item is the ComponentIdentifier of its firmware (DSP0267).
    """
    if image.identifier is None or not component.software_id:
        return None
    try:
        return int(component.software_id, 0) == image.identifier
    except ValueError:
        return None


def function_image(
    images: Iterable[Image], accelerator: Accelerator, slot: ReconfigurationSlot, function: str
) -> tuple[Image, ...]:
    """Return the function images that put a function into a slot of a device, including denied ones."""
    return tuple(
        image
        for image in images
        if image.kind is ImageKind.FUNCTION
        and image.function == function
        and fnmatchcase(slot.slot_id.casefold(), image.component.casefold())
        and fits(image, accelerator, slot.item)
    )


def unfit(
    action: Flash | Program,
    image: Image,
    catalogue: Iterable[Image],
    accelerator: Accelerator,
    component: Component,
    *,
    floor: int,
    floor_rule: str | None = None,
    back: bool = False,
) -> str | None:
    """Return why the image that now has the name of a planned image must not be written, or None.

    Catalogue, baseline and BMC may all have changed since the plan was made.

    :param component: the component that is written, as it is now; of a slot, its item.
    :param floor: the security floor that the baseline sets now; ``floor_rule`` the rule that sets it.
    :param back: it is a rollback: the image is written over whatever a failed write has left.
    """
    if action.content is not None and image.content != action.content:
        return another(image, action.content)
    if not same_version(image.version, action.version):
        return f'image {image.name} is now version {image.version}, but {action.version} was planned: plan again'
    if isinstance(action, Flash):
        # The planned image may be a revocation: its kind is part of the content.
        kind = ImageKind.FIRMWARE if action.content is None else image.kind
        meant = meant_for(image, accelerator, component, kind)
        denied = denial(catalogue, accelerator, component, image.version)
    else:
        slots = [
            s for s in accelerator.slots if s.slot_id == action.slot and s.item is not None and s.item.ref == component.ref
        ]
        meant = any(image in function_image((image,), accelerator, slot, action.function) for slot in slots)
        denied = image.denied
    if not meant:
        return f'image {image.name} does not fit this device, as catalogue and BMC are now: plan again'
    if by_name_only(image, accelerator, component):
        return f'image {image.name} fits this device by vendor and model only'
    if denied is not None:
        return f'version {image.version} is denied: {denied}'
    if image.security_version < floor:
        by = '' if floor_rule is None else f', which security_floor of rule {floor_rule} sets'
        return f'image {image.name} has security version {image.security_version}, the floor is {floor}{by}'
    if not back and not may_follow(image, component.version):
        return f'image {image.name} may be written over {", ".join(image.via)} only: plan again'
    return None


def another(image: Image, content: str) -> str:
    """Say that the name of an image now refers to other contents than when it was planned."""
    return f'image {image.name} has changed since it was planned ({image.content} instead of {content}): plan again'


# -------------------------------------------------------------------------------------------------------- present contents


def holds(slot: ReconfigurationSlot, image: Image) -> bool:
    """Whether the slot reports the function of the image, in its version.

    A function is identified by its UUID if the catalogue gives one, else by name. Source: DSP8010 2025.4, AccelerationFunction
    v1_0_5, UUID and Version.
    """
    function = slot.function
    if function is None or not same_version(function.version, image.version):
        return False
    if image.uuid is not None:
        return function.uuid is not None and function.uuid.casefold() == image.uuid.casefold()
    return image.function is not None and image.function.casefold() in _names(function)


def held(images: Iterable[Image], accelerator: Accelerator, slot: ReconfigurationSlot) -> str | None:
    """Return the catalogue function that a slot holds, demanded or not; None if it holds none, or nobody can tell which."""
    found = [
        image
        for image in images
        if image.function is not None
        and image in function_image((image,), accelerator, slot, image.function)
        and holds(slot, image)
        and not by_name_only(image, accelerator, slot.item)
    ]
    names = {image.function for image in found}
    if len(names) != 1 or any(image.denied is not None for image in found) or other_staged(slot, found):
        return None
    return names.pop()


def shown(function: Function) -> str:
    """Return what a function is called in texts: its name, or the Id of the resource if it has none."""
    return function.name or function.id


def other_staged(slot: ReconfigurationSlot, images: Iterable[Image]) -> bool:
    """Whether the next reset puts something else into the slot than one of these images."""
    staged = slot.item.staged if slot.item is not None else None
    return staged is not None and not any(same_version(staged, image.version) for image in images)


def security_version(
    images: Iterable[Image], accelerator: Accelerator, component: Component, version: str | None
) -> int | None:
    """Return the highest security version that the catalogue gives a version of a component; None if it does not know it."""
    found = most_secure(images, accelerator, component, version)
    return None if found is None else found.security_version


def most_secure(images: Iterable[Image], accelerator: Accelerator, component: Component, version: str | None) -> Image | None:
    """Return the image of a version of a component with the highest security version; None if the catalogue has none."""
    return max(_maybe(images, accelerator, component, version), key=lambda image: image.security_version, default=None)


def denial(images: Iterable[Image], accelerator: Accelerator, component: Component, version: str | None) -> str | None:
    """Return why the catalogue denies a version of a component; None if it does not."""
    reasons = {i.denied for i in _maybe(images, accelerator, component, version) if i.denied is not None}
    return '; '.join(sorted(reasons)) or None


def denied_functions(images: Iterable[Image], accelerator: Accelerator, slot: ReconfigurationSlot) -> tuple[Image, ...]:
    """Return the images that the catalogue denies and that a slot may hold."""
    return tuple(
        image
        for image in images
        if image.kind is ImageKind.FUNCTION
        and image.denied is not None
        and fnmatchcase(slot.slot_id.casefold(), image.component.casefold())
        and holds(slot, image)
        and any(_fit(fit, accelerator, slot.item, unsaid=True) for fit in image.fits)
    )


def _maybe(images: Iterable[Image], accelerator: Accelerator, component: Component, version: str | None) -> tuple[Image, ...]:
    """Return the images that a version of a component may come from. Ids that the BMC does not report rule out no image."""
    return tuple(
        image
        for image in images
        if image.kind is not ImageKind.FUNCTION
        and same_version(image.version, version)
        and (component.id is None or fnmatchcase(component.id.casefold(), image.component.casefold()))
        and any(_fit(fit, accelerator, component, unsaid=True) for fit in image.fits)
    )


# ------------------------------------------------------------------------------------------------------------- upgrade paths


def way(images: Iterable[Image], accelerator: Accelerator, component: Component, image: Image) -> tuple[Image, ...] | None:
    """Return the shortest sequence of images that brings a component from its version to an image; None if there is none.

    The last image is the given one. Of two sequences of equal length, the one counts whose versions the catalogue lists first.
    A version that several images bring, or one that is denied, is no step.
    """
    if may_follow(image, component.version):
        return (image,)
    steps: dict[str, list[Image]] = {}
    for other in images:
        if meant_for(other, accelerator, component):
            steps.setdefault(_plain(other.version), []).append(other)
    seen = {_plain(image.version)}
    open_ways: deque[tuple[Image, ...]] = deque([(image,)])
    while open_ways:
        found = open_ways.popleft()
        if may_follow(found[0], component.version):
            return found
        for version in map(_plain, found[0].via):
            step = steps.get(version, [])
            if version not in seen and len(step) == 1 and step[0].denied is None:
                open_ways.append((step[0], *found))
            seen.add(version)
    return None


def may_follow(image: Image, version: str | None) -> bool:
    """Whether the image may be written over that version: over any, one of its ``via``, or its own.

    Not asked of an image that is restored: the image whose ``restore`` it is permits that.
    """
    return not image.via or any(same_version(version, over) for over in (image.version, *image.via))


def _names(function: Function) -> set[str]:
    return {text.casefold() for text in (function.id, function.name) if text}


def _fit(fit: Fit, accelerator: Accelerator, component: Component | None, *, unsaid: bool = False) -> bool:
    """Whether a device and a component have the ids of one fit.

    :param unsaid: an id that the BMC does not report fits.
    """
    pci = accelerator.pci
    asked = (
        (fit.vendor, accelerator.vendor),
        (fit.model, accelerator.model),
        (fit.part_number, accelerator.part_number),
        (fit.pci, _pair(pci.vendor_id, pci.device_id)),
        (fit.subsystem, _pair(pci.subsystem_vendor_id, pci.subsystem_id)),
        (fit.software_id, component.software_id if component else None),
    )
    return all(_same(wanted, found, unsaid=unsaid) for wanted, found in asked)


def _pair(vendor: str | None, device: str | None) -> str | None:
    return None if vendor is None or device is None else f'{vendor}:{device}'


def _same(wanted: str | None, found: str | None, *, unsaid: bool) -> bool:
    if found is None:
        return wanted is None or unsaid
    return wanted is None or wanted.casefold() == found.casefold()
