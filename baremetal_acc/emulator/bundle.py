# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Assign the component images of a PLDM firmware update package to components of the machine, and check each one for a device.

The functions are pure. A device gets the components of the first firmware device ID record all of whose descriptors it has;
within that record, ComponentClassification and ComponentIdentifier select the component image. Eight equal cards match one
record and share its image.

Source: DSP0267 1.3.0, tables 4 and 6, and its ComponentCompatibilityResponseCode for images that are equal or lower;
openbmc/pldm, fw-update/package_parser.cpp and update_manager.cpp.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from baremetal_acc.emulator.image import BadImage
from baremetal_acc.emulator.parts import Bank, ComponentWrite, EmulatedComponent, WriteResult
from baremetal_acc.emulator.pldm import PackageDeviceRecord, PackageMaker, PackagePart


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleObjection:
    """Why a device does not take a component image: the image is skipped, or has failed.

    :ivar reason: a word for programs.
    :ivar failure: the stage at which the failure shows; None where only ``text`` reports it.
    :ivar action: what the operator can do.
    """

    result: WriteResult
    reason: str
    text: str
    failure: str | None = None
    action: str = ''


FORCE = 'Send the image again with ForceUpdate.'
EQUAL = BundleObjection(result=WriteResult.SKIPPED, reason='equal', text='the image is identical', action=FORCE)
LOWER = BundleObjection(
    result=WriteResult.FAILED,
    reason='lower',
    text='The comparison stamp is lower than that of the running firmware',
    action=FORCE,
)


def assign(package: PackageMaker, components: Iterable[EmulatedComponent], *, force: bool) -> list[ComponentWrite]:
    """Assign images of a package to these components. Components for which the package has no image are left out."""
    found = []
    for component in components:
        identity = component.identity
        record = _record_for(package, component)
        if identity is None or record is None:
            continue
        part = _part_for(package, record, component)
        if part is not None:
            found.append(_write(component.key, identity.endpoint, record, part, force=force))
    return found


def _record_for(package: PackageMaker, component: EmulatedComponent) -> PackageDeviceRecord | None:
    if component.identity is None:
        return None
    return next((one for one in package.records if one.descriptors <= component.identity.descriptors), None)


def _part_for(package: PackageMaker, record: PackageDeviceRecord, component: EmulatedComponent) -> PackagePart | None:
    identity = component.identity
    parts = (package.parts[position] for position in sorted(record.parts))
    wanted = None if identity is None else (identity.classification, identity.number)
    return next((one for one in parts if (one.classification, one.number) == wanted), None)


def _write(key: str, endpoint: str, record: PackageDeviceRecord, part: PackagePart, *, force: bool) -> ComponentWrite:
    is_whole = not isinstance(part.image, BadImage)
    return ComponentWrite(
        key=key,
        image=part.image if not isinstance(part.image, BadImage) else None,
        version=part.version,
        stamp=part.stamp,
        forced=force or part.forced,
        endpoint=endpoint,
        continues=record.continues,
        activated_by=part.activated_by,
        defect='' if is_whole else str(part.image),
    )


def objection(write: ComponentWrite, active: Bank | None) -> BundleObjection | None:
    """Return why an image is not written, from the image itself and from what the component runs; None: it is written."""
    if write.image is None:
        return BundleObjection(result=WriteResult.FAILED, reason='bad-image', text=write.defect, failure='verify')
    if write.image.version != write.version:
        text = f'The image has version {write.image.version}, but the package says version {write.version}'
        return BundleObjection(result=WriteResult.FAILED, reason='other-version', text=text, failure='verify')
    if active is None or write.forced:
        return None
    if write.stamp is not None and active.stamp is not None:
        order = (write.stamp > active.stamp) - (write.stamp < active.stamp)
    else:
        order = _compare(write.version.strip(), active.version.strip())
    return {0: EQUAL, -1: LOWER}.get(order)


def _compare(one: str, other: str) -> int:
    """Compare two versions as devices do (clients do not): 1 where the first is higher, -1 where the second is, 0 otherwise.

    Versions are compared field by field: as numbers where both are decimal, else as hexadecimal digits or letters, to which
    manufacturers give a fixed width.
    """
    for mine, theirs in zip(_fields(one), _fields(other), strict=False):
        if mine == theirs:
            continue
        if mine.isdecimal() and theirs.isdecimal() and int(mine) != int(theirs):
            return 1 if int(mine) > int(theirs) else -1
        return 1 if mine > theirs else -1
    return (len(_fields(one)) > len(_fields(other))) - (len(_fields(one)) < len(_fields(other)))


def _fields(version: str) -> list[str]:
    return re.findall(r'[0-9a-z]+', version.lower())
