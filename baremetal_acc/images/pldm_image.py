# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Refuse an image that is a PLDM package where its header and the catalogue contradict each other.

The catalogue is believed, and the header is not. But where they differ one of them means another image, and the BMC would do
something else with it than the plan says.
"""

from collections.abc import Iterable

from baremetal_acc.errors import ImageError, ImageMismatch, PackageMalformed
from baremetal_acc.images import draft, pldm_package
from baremetal_acc.images.pldm import DeviceRecord, DownstreamRecord, PldmPackage
from baremetal_acc.model.image import Bundle, BundlePart, Image, ImageKind, Upload
from baremetal_acc.planning.image_selection import same_version

_TOLD = 5
"""Most versions in a message; a package may have thousands."""


def contradiction(image: Image, upload: Upload) -> ImageError | None:
    """Return the error for a PLDM package whose own header contradicts the catalogue; None for any other image.

    A bundle that is no PLDM package is an error, too, and so is a malformed package.
    """
    if image.kind is not ImageKind.FIRMWARE:
        return None
    with upload.open() as stream:
        if not pldm_package.begins_as_one(stream.read(pldm_package.IDENTIFIER_BYTES)):
            return _no_package(image)
        try:
            package = pldm_package.parse(stream, image.name)
        except PackageMalformed as exc:
            return exc.with_traceback(None)
    what = _version(image, package) or _devices(image, package) if image.bundle is None else _parts(image.bundle, package)
    if what is None:
        return None
    hint = 'use the right file or correct the catalogue; to see the header: baremetal-acc catalogue show FILE.fwpkg'
    return ImageMismatch(image=image.file, what=what, hint=hint)


def _no_package(image: Image) -> ImageError | None:
    """Return the error for a bundle that is no PLDM package; None for another image."""
    if image.bundle is None:
        return None
    hint = 'list it with one [[image]] for each component'
    return ImageMismatch(
        image=image.file, what='is in a [[bundle]], but is not a PLDM package that lists its components', hint=hint
    )


def _parts(bundle: Bundle, package: PldmPackage) -> str | None:
    """Return the difference between the components of a package and of its bundle: none is written that no plan knows of."""
    there = [(component.identifier, component.version.text) for component in package.components]
    unlisted = [
        f'{number:#06x} {version}' for number, version in there if not any(_is(p, number, version) for p in bundle.parts)
    ]
    missing = [f'{p.component} {p.version}' for p in bundle.parts if not any(_is(p, *one) for one in there)]
    if unlisted:
        return f'its header has components that the catalogue does not list: {_listed(unlisted)}'
    if missing:
        return f'the catalogue lists components that its header does not have: {_listed(missing)}'
    return None


def _is(part: BundlePart, identifier: int, version: str) -> bool:
    return part.identifier in (None, identifier) and same_version(part.version, version)


def _version(image: Image, package: PldmPackage) -> str | None:
    """Return a contradiction, unless the version is that of a component, of all components of a device, or of the package."""
    said = [component.version.text for component in package.components]
    said += [device.image_set_version.text for device in package.devices]
    said.append(package.version.text)
    if any(same_version(image.version, version) for version in said if version):
        return None
    return f'its header says {_listed(said)}, and the catalogue says version {image.version}'


def _devices(image: Image, package: PldmPackage) -> str | None:
    """Return a contradiction where both sides name all of their devices by PCI ids, and have none in common."""
    records: tuple[DeviceRecord | DownstreamRecord, ...] = (*package.devices, *package.downstream_devices)
    said = [draft.pci_ids(record.descriptors) for record in records]
    wanted = [fit.pci for fit in image.fits]
    if None in said or None in wanted or set(said) & set(wanted):
        return None
    devices, fits = _listed(one for one in said if one), _listed(one for one in wanted if one)
    return f'its header is for PCI devices {devices}, and the catalogue says {fits}'


def _listed(said: Iterable[str]) -> str:
    found = [draft.quoted(one) for one in dict.fromkeys(said) if one]
    more = f' and {len(found) - _TOLD} more' if len(found) > _TOLD else ''
    return (', '.join(found[:_TOLD]) or 'nothing') + more
