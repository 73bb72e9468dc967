# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Write PLDM firmware update packages, DSP0267 1.0 to 1.3.

The layout is that of :mod:`baremetal_acc.images.pldm_package`, which parses them.
"""

import struct
import zlib
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

from baremetal_acc.images.pldm import (
    VENDOR_DEFINED,
    AnyDescriptor,
    Descriptor,
    DeviceRecord,
    DownstreamRecord,
    PackageComponent,
    PldmPackage,
    PldmString,
    ReleaseTime,
    Revision,
    VendorDescriptor,
)
from baremetal_acc.images.pldm_package import CHECKSUM_BYTES


def header_size(package: PldmPackage) -> int:
    """Return PackageHeaderSize, with the checksums."""
    return len(_header(package)) + CHECKSUM_BYTES * (2 if package.revision.has_manifests else 1)


def placed(package: PldmPackage, sizes: Iterable[int]) -> PldmPackage:
    """Return the package with images of these sizes, one after the other after the header."""
    at = header_size(package)
    components = []
    for component, size in zip(package.components, sizes, strict=True):
        components.append(replace(component, offset=at, size_bytes=size))
        at += size
    return replace(package, components=tuple(components))


def encode(package: PldmPackage, payload: bytes) -> bytes:
    """Return the bytes of a package.

    :param payload: the bytes after the header: the images, where the components say.
    :raises ValueError: a value does not fit its field.
    """
    try:
        header = bytearray(_header(package))
        sums = CHECKSUM_BYTES * (2 if package.revision.has_manifests else 1)
        struct.pack_into('<H', header, 17, len(header) + sums)
    except (struct.error, OverflowError) as exc:
        raise ValueError(f'a value of the package does not fit its field: {exc}') from exc
    header += struct.pack('<I', zlib.crc32(header))
    if package.revision.has_manifests:
        header += struct.pack('<I', zlib.crc32(payload))
    return bytes(header) + payload


def _header(package: PldmPackage) -> bytes:
    """Return everything before the checksums, without the header size."""
    revision, length = package.revision, package.bitmap_bits // 8
    found = revision.identifier.bytes + struct.pack('<BH', revision.number, 0) + _release_bytes(package.released)
    found += struct.pack('<H', package.bitmap_bits) + _string(package.version)
    found += struct.pack('<B', len(package.devices))
    found += b''.join(_device_bytes(device, revision, length) for device in package.devices)
    if revision.has_downstream_devices:
        found += struct.pack('<B', len(package.downstream_devices))
        found += b''.join(_downstream_bytes(device, revision, length) for device in package.downstream_devices)
    found += struct.pack('<H', len(package.components))
    return found + b''.join(_component_bytes(component, revision) for component in package.components)


def _release_bytes(released: ReleaseTime | None) -> bytes:
    if released is None:
        return bytes(13)
    at, offset = released.moment, (released.moment.utcoffset() or timedelta()) // timedelta(minutes=1)
    fields = (at.second, at.minute, at.hour, at.day, at.month, at.year, released.resolution)
    return struct.pack('<hHBBBBBBHB', offset, at.microsecond & 0xFFFF, at.microsecond >> 16, *fields)


def _string(string: PldmString) -> bytes:
    return struct.pack('<BB', string.type, len(string.raw)) + string.raw


def _bitmap(components: frozenset[int], length: int) -> bytes:
    return sum(1 << component for component in components).to_bytes(length, 'little')


def _device_bytes(device: DeviceRecord, revision: Revision, length: int) -> bytes:
    version = device.image_set_version
    found = struct.pack('<IBBH', device.options, version.type, len(version.raw), len(device.package_data))
    if revision.has_manifests:
        found += struct.pack('<I', len(device.reference_manifest))
    found += _bitmap(device.components, length) + version.raw
    return _record_bytes(found, device)


def _downstream_bytes(device: DownstreamRecord, revision: Revision, length: int) -> bytes:
    version = device.min_version
    found = struct.pack('<IBBH', device.options, version.type, len(version.raw), len(device.package_data))
    if revision.has_manifests:
        found += struct.pack('<I', len(device.reference_manifest))
    found += _bitmap(device.components, length) + version.raw
    if device.min_version_stamp is not None:
        found += struct.pack('<I', device.min_version_stamp)
    return _record_bytes(found, device)


def _record_bytes(begin: bytes, device: DeviceRecord | DownstreamRecord) -> bytes:
    found = begin + b''.join(_descriptor_bytes(one) for one in device.descriptors)
    found += device.package_data + device.reference_manifest
    return struct.pack('<HB', 3 + len(found), len(device.descriptors)) + found


def _descriptor_bytes(descriptor: AnyDescriptor) -> bytes:
    match descriptor:
        case Descriptor(type=number, data=data):
            pass
        case VendorDescriptor(title=title, data=rest):
            number, data = VENDOR_DEFINED, _string(title) + rest
    return struct.pack('<HH', number, len(data)) + data


def _component_bytes(component: PackageComponent, revision: Revision) -> bytes:
    found = struct.pack('<HHI', component.classification, component.identifier, component.comparison_stamp)
    found += struct.pack('<HH', component.options, component.activation)
    found += struct.pack('<II', component.offset, component.size_bytes) + _string(component.version)
    if revision.has_opaque_data:
        found += struct.pack('<I', len(component.opaque_data)) + component.opaque_data
    return found
