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
from datetime import datetime, timedelta, timezone
from typing import BinaryIO

from baremetal_acc.errors import PackageMalformed
from baremetal_acc.images.pldm import (
    Activation,
    Classification,
    ComponentOption,
    DownstreamRecord,
    PackageComponent,
    PldmPackage,
    ReleaseTime,
    Revision,
)
from baremetal_acc.images.pldm_fields import FieldReader
from baremetal_acc.images.pldm_records import ComponentBitmaps, parse_device, parse_downstream_device

SUFFIX = '.fwpkg'
"""The usual suffix of a package's file name."""

IDENTIFIER_BYTES = 16

_FIXED = 36
"""Bytes of the package header information before PackageVersionString."""

_LEAST_AREAS = 3
"""Bytes of the counts of devices and components."""

CHECKSUM_BYTES = 4

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
        raise begin.wrong('PackageHeaderIdentifier', identifier.hex(), f'a known one ({known})', back=IDENTIFIER_BYTES)
    number = begin.u8('PackageHeaderFormatRevision')
    if number != revision.number:
        expected = f'{revision.number}, which goes with the identifier of DSP0267 {revision.version},'
        raise begin.wrong('PackageHeaderFormatRevision', str(number), expected, back=1)
    header_bytes = begin.u16('PackageHeaderSize')
    sums = CHECKSUM_BYTES * (2 if revision.has_manifests else 1)
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
    bitmaps = ComponentBitmaps(bits // 8)
    devices = tuple(parse_device(reader, revision, bitmaps, number) for number in range(reader.u8('DeviceIDRecordCount')))
    downstream: tuple[DownstreamRecord, ...] = ()
    if revision.has_downstream_devices:
        count = reader.u8('DownstreamDeviceIDRecordCount')
        downstream = tuple(parse_downstream_device(reader, revision, bitmaps, number) for number in range(count))
    if not devices and not downstream:
        raise reader.wrong('DeviceIDRecordCount', '0', 'at least one device record', back=1)
    count = reader.u16('ComponentImageCount')
    if not 0 < count <= bits:
        expected = f'1 to {bits}, which is ComponentBitmapBitLength,' if bits else 'a larger ComponentBitmapBitLength'
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
        raise reader.wrong(field, f'0x{raw.hex()}', 'a valid date and time', back=13) from None
    return ReleaseTime(moment=moment, resolution=resolution)


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
        expected = f'{payload.start} to {payload.stop}, after the header and within the package,'
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
    said = int.from_bytes(header[length : length + CHECKSUM_BYTES], 'little')
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
    offset = len(header) - CHECKSUM_BYTES
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
    found = 'the package was truncated after it was opened'
    return PackageMalformed(image=name, field='the payload', offset=stream.tell(), found=found, expected='the rest of it')
