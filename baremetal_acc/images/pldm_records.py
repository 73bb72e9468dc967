# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Parse the device records of a PLDM firmware update package, with their bitmaps and descriptors.

Tables 4 and 5 of DSP0267 1.3.0.
"""

from baremetal_acc.errors import PackageMalformed
from baremetal_acc.images.pldm import (
    DESCRIPTOR_BYTES,
    VENDOR_DEFINED,
    AnyDescriptor,
    Descriptor,
    DescriptorType,
    DeviceRecord,
    DeviceUpdateOption,
    DownstreamRecord,
    DownstreamUpdateOption,
    Revision,
    VendorDescriptor,
)
from baremetal_acc.images.pldm_fields import FieldReader


class ComponentBitmaps:
    """The component bitmaps of records, which precede the number of components.

    :param length: bytes of each bitmap.
    """

    def __init__(self, length: int) -> None:
        self._length = length
        self._highest: list[tuple[int, PackageMalformed]] = []

    def read(self, reader: FieldReader) -> frozenset[int]:
        """Read a bitmap, and return the positions of its components; the first is 0."""
        field = 'ApplicableComponents'
        raw = reader.take(self._length, field)
        found = frozenset(8 * at + bit for at, byte in enumerate(raw) if byte for bit in range(8) if byte >> bit & 1)
        if found:
            told = reader.wrong(field, f'bit {max(found)} is set', 'a bit of an existing component', back=self._length)
            self._highest.append((max(found), told))
        return found

    def check(self, components: int) -> None:
        """Check that no bitmap names a component that does not exist.

        :raises PackageMalformed: a bitmap does.
        """
        for highest, told in self._highest:
            if highest >= components:
                raise told


def parse_device(reader: FieldReader, revision: Revision, bitmaps: ComponentBitmaps, number: int) -> DeviceRecord:
    """Parse a firmware device ID record."""
    record, count = _record(reader, f'FirmwareDeviceIDRecords[{number}].')
    options = DeviceUpdateOption(record.u32('DeviceUpdateOptionFlags'))
    kind = record.string_type('ComponentImageSetVersionStringType')
    length = record.u8('ComponentImageSetVersionStringLength')
    package_data = record.u16('FirmwareDevicePackageDataLength')
    manifest = record.u32('ReferenceManifestLength') if revision.has_manifests else 0
    components = bitmaps.read(record)
    version = record.string(kind, length, 'ComponentImageSetVersionString')
    found = DeviceRecord(
        options=options,
        image_set_version=version,
        components=components,
        descriptors=tuple(_descriptor(record, position) for position in range(count)),
        package_data=record.take(package_data, 'FirmwareDevicePackageData'),
        reference_manifest=record.take(manifest, 'ReferenceManifestData'),
    )
    _ended(record)
    return found


def parse_downstream_device(
    reader: FieldReader, revision: Revision, bitmaps: ComponentBitmaps, number: int
) -> DownstreamRecord:
    """Parse a downstream device ID record."""
    record, count = _record(reader, f'DownstreamDeviceIDRecords[{number}].')
    options = DownstreamUpdateOption(record.u32('DownstreamDeviceUpdateOptionFlags'))
    kind = record.string_type('DownstreamDeviceSelfContainedActivationMinVersionStringType')
    length = record.u8('DownstreamDeviceSelfContainedActivationMinVersionStringLength')
    package_data = record.u16('DownstreamDevicePackageDataLength')
    manifest = record.u32('DownstreamDeviceReferenceManifestLength') if revision.has_manifests else 0
    components = bitmaps.read(record)
    version = record.string(kind, length, 'DownstreamDeviceSelfContainedActivationMinVersionString')
    stamped = DownstreamUpdateOption.SELF_CONTAINED_ACTIVATION_MIN_VERSION in options
    stamp = record.u32('DownstreamDeviceSelfContainedActivationMinVersionComparisonStamp') if stamped else None
    found = DownstreamRecord(
        options=options,
        min_version=version,
        min_version_stamp=stamp,
        components=components,
        descriptors=tuple(_descriptor(record, position) for position in range(count)),
        package_data=record.take(package_data, 'DownstreamDevicePackageData'),
        reference_manifest=record.take(manifest, 'DownstreamDeviceReferenceManifestData'),
    )
    _ended(record)
    return found


def _record(reader: FieldReader, within: str) -> tuple[FieldReader, int]:
    """Return a reader of the rest of a record of either kind, and its number of descriptors."""
    length = reader.u16(f'{within}RecordLength')
    if length < 3:
        raise reader.wrong(f'{within}RecordLength', str(length), 'at least 3, for RecordLength and DescriptorCount,', back=2)
    record = reader.part(length - 2, f'{within}RecordLength', within)
    count = record.u8('DescriptorCount')
    if not count:
        raise record.wrong('DescriptorCount', '0', 'an initial descriptor', back=1)
    return record, count


def _ended(record: FieldReader) -> None:
    if record.left:
        found, expected = f'{record.done + record.left + 2}', f'{record.done + 2}, where its last field ends,'
        raise record.wrong('RecordLength', found, expected, back=record.done + 2)


def _descriptor(record: FieldReader, position: int) -> AnyDescriptor:
    """Parse type, length and data of a descriptor; the data of a vendor-defined one begins with a title."""
    within = f'RecordDescriptors[{position}].'
    number = record.u16(f'{within}DescriptorType')
    length = record.u16(f'{within}DescriptorLength')
    data = record.part(length, f'{within}DescriptorData', within)
    if number == VENDOR_DEFINED:
        kind = data.string_type('VendorDefinedDescriptorTitleStringType')
        title = data.u8('VendorDefinedDescriptorTitleStringLength')
        return VendorDescriptor(
            title=data.string(kind, title, 'VendorDefinedDescriptorTitleString'),
            data=data.take(data.left, 'VendorDefinedDescriptorData'),
        )
    try:
        known = DescriptorType(number)
    except ValueError:
        return Descriptor(type=number, data=data.take(length, 'DescriptorData'))
    if length != DESCRIPTOR_BYTES[known]:
        raise data.wrong('DescriptorLength', str(length), f'{DESCRIPTOR_BYTES[known]} for {known.name}', back=2)
    return Descriptor(type=known, data=data.take(length, 'DescriptorData'))
