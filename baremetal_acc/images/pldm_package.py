# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Parse PLDM firmware update packages, DSP0267 1.0 to 1.3.

All numbers have their low byte first, identifiers their high byte. A package is::

    package header information       PackageHeaderIdentifier .. PackageVersionString             table 3
    firmware device ID records       a count of one byte, then the records                       table 4
    downstream device ID records     from 1.1 on, likewise                                       table 5
    component image information      a count of two bytes, then the components                   table 6
    PackageHeaderChecksum            CRC-32 of everything before it
    PackagePayloadChecksum           from 1.3 on: CRC-32 of everything after it
    component images                 where each component says

Table numbers are those of DSP0267 1.3.0. The layout of each revision is that of openbmc/pldm,
``tools/fw-update/pldm_fwup_pkg_creator.py``, of openbmc/libpldm, ``src/dsp/firmware_update.c``, and of
chipsalliance/caliptra-mcu-sw, ``docs/src/pldm_update_package.md``.

Only the header is held in memory; its size field limits it to 65,535 bytes. The parser takes time in proportion to the bytes,
for any input. Fields have to fill the header completely: a package is refused when a length leads outside its record, or ends
before the end of the record. The type of an initial descriptor is not checked against the types that the specification allows
there; that is left to the device.
"""

import io
import struct
import zlib
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import BinaryIO

from baremetal_acc.errors import PackageMalformed
from baremetal_acc.images.pldm import (
    DESCRIPTOR_BYTES,
    VENDOR_DEFINED,
    Activation,
    AnyDescriptor,
    Classification,
    ComponentOption,
    Descriptor,
    DescriptorType,
    DeviceRecord,
    DeviceUpdateOption,
    DownstreamRecord,
    DownstreamUpdateOption,
    PackageComponent,
    PldmPackage,
    PldmString,
    ReleaseTime,
    Revision,
    StringType,
    VendorDescriptor,
)

SUFFIX = '.fwpkg'
"""The usual suffix of a package's file name."""

IDENTIFIER_BYTES = 16

_FIXED = 36
"""Bytes of the package header information before PackageVersionString."""

_LEAST_AREAS = 3
"""Bytes of the counts of devices and components."""

_CHECKSUM = 4

_LAST_OFFSET_MINUTES = 24 * 60 - 1
"""Largest offset from UTC, in either direction."""

_AT_ONCE = 1024 * 1024
"""Bytes of the payload that are read at a time."""

_BY_NUMBER = {revision.number: revision for revision in Revision}

_BY_IDENTIFIER = {revision.identifier.bytes: revision for revision in Revision}


def begins_as_one(begin: bytes) -> bool:
    """Tell whether these first bytes are the identifier of a package. No TOML document begins with such bytes."""
    return begin[:IDENTIFIER_BYTES] in _BY_IDENTIFIER


def parse(content: bytes | BinaryIO, name: str) -> PldmPackage:
    """Parse a package, and check its checksums and that every image is within the file.

    :param content: the whole package; from a stream the header is read first, and the rest piece by piece for its checksum.
    :param name: name of the package, for messages.
    :raises PackageMalformed: the package violates the specification.
    """
    stream = io.BytesIO(content) if isinstance(content, bytes) else content
    size = stream.seek(0, io.SEEK_END)
    stream.seek(0)
    begin = FieldReader(_read(stream, _FIXED), name)
    identifier = begin.take(IDENTIFIER_BYTES, 'PackageHeaderIdentifier')
    revision = _BY_IDENTIFIER.get(identifier)
    if revision is None:
        known = ', '.join(f'{one.identifier} for {one.version}' for one in Revision)
        raise begin.wrong('PackageHeaderIdentifier', identifier.hex(), f'one that is known ({known})', back=IDENTIFIER_BYTES)
    number = begin.u8('PackageHeaderFormatRevision')
    if number != revision.number:
        expected = f'{revision.number}, which goes with the identifier of DSP0267 {revision.version},'
        raise begin.wrong('PackageHeaderFormatRevision', str(number), expected, back=1)
    header_bytes = begin.u16('PackageHeaderSize')
    sums = _CHECKSUM * (2 if revision.has_manifests else 1)
    least = _FIXED + _LEAST_AREAS + revision.has_downstream_devices + sums
    if header_bytes < least:
        raise begin.wrong('PackageHeaderSize', str(header_bytes), f'at least {least}', back=2)
    if header_bytes > size:
        expected = f'no more than the {size} bytes that the package has'
        raise begin.wrong('PackageHeaderSize', str(header_bytes), expected, back=2)
    stream.seek(0)
    header = _read(stream, header_bytes)
    _check_header_sum(header, header_bytes - sums, name)
    reader = FieldReader(header[: header_bytes - sums], name)
    package = _package(reader, revision, range(header_bytes, size))
    if reader.left:
        found, expected = f'{header_bytes}', f'{header_bytes - reader.left}, where the last field ends,'
        raise reader.wrong('PackageHeaderSize', found, expected, back=reader.done - 17)
    if revision.has_manifests:
        _check_payload_sum(header, stream, package.images_end, name)
    return package


class FieldReader:
    """Reads fields, one after the other.

    :param within: prefix of the field names, for messages: ``FirmwareDeviceIDRecords[2].``.
    """

    def __init__(self, data: bytes, name: str, *, at: int = 0, end: int | None = None, within: str = '') -> None:
        self._data = data
        self._name = name
        self._at = self._begin = at
        self._end = len(data) if end is None else end
        self._within = within

    @property
    def left(self) -> int:
        """Number of bytes that were not read yet."""
        return self._end - self._at

    @property
    def done(self) -> int:
        """Number of bytes that were read."""
        return self._at - self._begin

    def wrong(self, field: str, found: str, expected: str, *, back: int = 0) -> PackageMalformed:
        """Return the error for a field.

        :param back: how many bytes before the present position the field began.
        """
        where = f'{self._within}{field}'
        return PackageMalformed(image=self._name, field=where, offset=self._at - back, found=found, expected=expected)

    def take(self, length: int, field: str) -> bytes:
        """Read that many bytes.

        :raises PackageMalformed: there are fewer.
        """
        if length > self.left:
            raise self.wrong(field, f'{self.left} bytes are left', f'{length} bytes')
        found = self._data[self._at : self._at + length]
        self._at += length
        return found

    def u8(self, field: str) -> int:
        """Read a number of one byte."""
        return self.take(1, field)[0]

    def u16(self, field: str) -> int:
        """Read a number of two bytes."""
        return int.from_bytes(self.take(2, field), 'little')

    def u32(self, field: str) -> int:
        """Read a number of four bytes."""
        return int.from_bytes(self.take(4, field), 'little')

    def part(self, length: int, field: str, within: str) -> 'FieldReader':
        """Return a reader of the next bytes.

        :raises PackageMalformed: there are fewer.
        """
        if length > self.left:
            raise self.wrong(field, f'{self.left} bytes are left', f'{length} bytes')
        found = FieldReader(self._data, self._name, at=self._at, end=self._at + length, within=f'{self._within}{within}')
        self._at += length
        return found

    def string_type(self, field: str) -> StringType:
        """Read a string type."""
        number = self.u8(field)
        try:
            return StringType(number)
        except ValueError:
            raise self.wrong(field, str(number), f'one of 0 to {max(StringType)}', back=1) from None

    def string(self, kind: StringType, length: int, field: str) -> PldmString:
        """Read a string of a known type."""
        found = PldmString(type=kind, raw=self.take(length, field))
        try:
            found.text  # noqa: B018 - it decodes
        except UnicodeDecodeError:
            raise self.wrong(field, f'0x{found.raw[:16].hex()}', f'text in {kind.name}', back=length) from None
        return found


def _package(reader: FieldReader, revision: Revision, payload: range) -> PldmPackage:
    """Parse everything before the checksums.

    :param payload: where images may be.
    """
    reader.take(_FIXED - 17, 'PackageHeaderIdentifier')  # with revision and size, which are known
    released = _release_time(reader)
    bits = reader.u16('ComponentBitmapBitLength')
    if bits % 8:
        raise reader.wrong('ComponentBitmapBitLength', str(bits), 'a multiple of 8', back=2)
    kind = reader.string_type('PackageVersionStringType')
    length = reader.u8('PackageVersionStringLength')
    version = reader.string(kind, length, 'PackageVersionString')
    bitmaps = _Bitmaps(bits // 8)
    devices = tuple(_device(reader, revision, bitmaps, number) for number in range(reader.u8('DeviceIDRecordCount')))
    downstream: tuple[DownstreamRecord, ...] = ()
    if revision.has_downstream_devices:
        count = reader.u8('DownstreamDeviceIDRecordCount')
        downstream = tuple(_downstream_device(reader, revision, bitmaps, number) for number in range(count))
    if not devices and not downstream:
        raise reader.wrong('DeviceIDRecordCount', '0', 'a device that the package is for', back=1)
    count = reader.u16('ComponentImageCount')
    if not 0 < count <= bits:
        expected = f'1 to {bits}, which is ComponentBitmapBitLength,' if bits else 'a ComponentBitmapBitLength that has room'
        raise reader.wrong('ComponentImageCount', str(count), expected, back=2)
    bitmaps.check(count)
    return PldmPackage(
        revision=revision,
        released=released,
        version=version,
        bitmap_bits=bits,
        devices=devices,
        downstream_devices=downstream,
        components=tuple(_component(reader, revision, payload, number) for number in range(count)),
    )


def _release_time(reader: FieldReader) -> ReleaseTime | None:
    """Parse a timestamp104: offset from UTC in minutes, microsecond, second, minute, hour, day, month, year, resolution."""
    field = 'PackageReleaseDateTime'
    raw = reader.take(13, field)
    if not any(raw):
        return None
    offset, low, high, second, minute, hour, day, month, year, resolution = struct.unpack('<hHBBBBBBHB', raw)
    try:
        if abs(offset) > _LAST_OFFSET_MINUTES:
            raise ValueError(offset)
        zone = timezone(timedelta(minutes=offset))
        moment = datetime(year, month, day, hour, minute, second, low + (high << 16), tzinfo=zone)
    except ValueError:
        raise reader.wrong(field, f'0x{raw.hex()}', 'a date and time that there is', back=13) from None
    return ReleaseTime(moment=moment, resolution=resolution)


class _Bitmaps:
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
            told = reader.wrong(field, f'bit {max(found)} is set', 'only bits of components', back=self._length)
            self._highest.append((max(found), told))
        return found

    def check(self, components: int) -> None:
        """Check that no bitmap names a component that does not exist.

        :raises PackageMalformed: a bitmap does.
        """
        for highest, told in self._highest:
            if highest >= components:
                raise told


def _device(reader: FieldReader, revision: Revision, bitmaps: _Bitmaps, number: int) -> DeviceRecord:
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


def _downstream_device(reader: FieldReader, revision: Revision, bitmaps: _Bitmaps, number: int) -> DownstreamRecord:
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
        raise reader.wrong(f'{within}RecordLength', str(length), 'more than its own two bytes and DescriptorCount', back=2)
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


def _component(reader: FieldReader, revision: Revision, payload: range, number: int) -> PackageComponent:
    """Parse the information of a component image, which is in the payload. Two components may have the same image."""
    within = f'ComponentImageInformation[{number}].'
    classification = reader.u16(f'{within}ComponentClassification')
    identifier = reader.u16(f'{within}ComponentIdentifier')
    stamp = reader.u32(f'{within}ComponentComparisonStamp')
    options = ComponentOption(reader.u16(f'{within}ComponentOptions'))
    activation = Activation(reader.u16(f'{within}RequestedComponentActivationMethod'))
    offset = reader.u32(f'{within}ComponentLocationOffset')
    if not payload.start <= offset <= payload.stop:
        expected = f'{payload.start} to {payload.stop}, behind the header and within the package,'
        raise reader.wrong(f'{within}ComponentLocationOffset', str(offset), expected, back=4)
    size = reader.u32(f'{within}ComponentSize')
    if size > payload.stop - offset:
        expected = f'at most the {payload.stop - offset} bytes that the package has from there on'
        raise reader.wrong(f'{within}ComponentSize', str(size), expected, back=4)
    kind = reader.string_type(f'{within}ComponentVersionStringType')
    length = reader.u8(f'{within}ComponentVersionStringLength')
    version = reader.string(kind, length, f'{within}ComponentVersionString')
    opaque = 0
    if revision.has_opaque_data:
        opaque = reader.u32(f'{within}ComponentOpaqueDataLength')
    return PackageComponent(
        classification=_classification(classification),
        identifier=identifier,
        comparison_stamp=stamp,
        options=options,
        activation=activation,
        offset=offset,
        size_bytes=size,
        version=version,
        opaque_data=reader.take(opaque, f'{within}ComponentOpaqueData'),
    )


def _classification(number: int) -> Classification | int:
    try:
        return Classification(number)
    except ValueError:
        return number


def _check_header_sum(header: bytes, length: int, name: str) -> None:
    said = int.from_bytes(header[length : length + _CHECKSUM], 'little')
    found = zlib.crc32(header[:length])
    if said != found:
        raise PackageMalformed(
            image=name, field='PackageHeaderChecksum', offset=length, found=f'0x{said:08x}', expected=f'0x{found:08x}'
        )


def _check_payload_sum(header: bytes, stream: BinaryIO, images_end: int, name: str) -> None:
    """Check the payload checksum.

    The payload is what comes after the header. What a vendor has appended to the last image, such as a signature, may be part
    of the payload, as libpldm reads it, or not: either checksum is right, and nothing else.
    """
    offset = len(header) - _CHECKSUM
    said = int.from_bytes(header[offset:], 'little')
    stream.seek(len(header))
    images = _sum(stream, images_end - len(header), name)
    if images == said:
        return
    everything = _sum(stream, None, name, images)
    if everything != said:
        raise PackageMalformed(
            image=name, field='PackagePayloadChecksum', offset=offset, found=f'0x{said:08x}', expected=f'0x{everything:08x}'
        )


def _sum(stream: BinaryIO, length: int | None, name: str, begin: int = 0) -> int:
    """Return the CRC-32 of the next bytes; of all of them where ``length`` is None."""
    found, left = begin, length
    while left is None or left > 0:
        piece = stream.read(_AT_ONCE if left is None else min(_AT_ONCE, left))
        if not piece:
            if left is None:
                break
            raise _shorter(stream, name)
        found = zlib.crc32(piece, found)
        left = None if left is None else left - len(piece)
    return found


def _read(stream: BinaryIO, length: int) -> bytes:
    """Read the next bytes, fewer where the stream ends; a stream may return them in pieces."""
    pieces = []
    while length and (piece := stream.read(length)):
        pieces.append(piece)
        length -= len(piece)
    return b''.join(pieces)


def _shorter(stream: BinaryIO, name: str) -> PackageMalformed:
    found = 'the package has become shorter since it was opened'
    return PackageMalformed(image=name, field='the payload', offset=stream.tell(), found=found, expected='its end')


def header_size(package: PldmPackage) -> int:
    """Return PackageHeaderSize, with the checksums."""
    return len(_header(package)) + _CHECKSUM * (2 if package.revision.has_manifests else 1)


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
        sums = _CHECKSUM * (2 if package.revision.has_manifests else 1)
        struct.pack_into('<H', header, 17, len(header) + sums)
    except (struct.error, OverflowError) as exc:
        raise ValueError(f'a part of the package has no room in its field: {exc}') from exc
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
