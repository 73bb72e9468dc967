# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Parse the multi-record area of an FRU, with the records of PICMG.

Source: Platform Management FRU Information Storage Definition 1.0 revision 1.3, section 16; AMC.0 R2.0, tables 3-10 and 3-16
to 3-19 as ipmitool reads them (lib/ipmi_ekanalyzer.c).
"""

from collections.abc import Iterator

from baremetal_acc.bmc.ipmi.fru_contents import (
    Link,
    ModuleCurrent,
    OemRecord,
    OtherMultiRecord,
    PicmgRecord,
    PointToPoint,
    Record,
)

MOST_RECORDS = 128
"""Maximum number of records in the multi-record area. MicroTCA carriers have about twenty."""

PICMG = 0x00315A
"""PICMG's manufacturer id in OEM records. Source: IANA private enterprise numbers, 12634."""

OFFSET_UNIT = 8
"""Offsets and lengths of areas are in units of so many bytes."""

RECORD_HEADER_BYTES = 5
LAST_RECORD = 0x80
"""The bit in the header of the last record."""

_OEM = 0xC0
_MODULE_CURRENT, _POINT_TO_POINT = 0x16, 0x19
_NO_PORT = 0x1F


class InvalidFruData(ValueError):
    """This area or record is invalid."""


def parse_records(data: bytes, faults: list[str]) -> Iterator[Record]:
    """The records of the multi-record area. Invalid ones are reported in ``faults``."""
    offset = data[5] * OFFSET_UNIT
    for n in range(MOST_RECORDS if offset else 0):
        header = data[offset : offset + RECORD_HEADER_BYTES]
        if len(header) < RECORD_HEADER_BYTES:
            faults.append(f'record {n}: begins at byte {offset}, but only {len(data)} bytes could be read')
            return
        if sum(header) & 0xFF:
            # Its length may be wrong too, so the offset of the next record is unknown.
            faults.append(f'record {n}: header checksum is wrong, so further records cannot be found')
            return
        kind, flags, length, checksum = header[:4]
        offset += RECORD_HEADER_BYTES
        body = data[offset : offset + length]
        offset += length
        if len(body) < length:
            faults.append(f'record {n}: has length {length}, but only {len(body)} bytes could be read')
            return
        if (sum(body) + checksum) & 0xFF:
            faults.append(f'record {n}: checksum is wrong')
        else:
            try:
                yield _record(kind, body)
            except InvalidFruData as exc:
                faults.append(f'record {n}: {exc}')
                yield OtherMultiRecord(kind=kind, data=body)
        if flags & LAST_RECORD:
            return
    if offset:
        faults.append(f'there are more than {MOST_RECORDS} records')


def _record(kind: int, body: bytes) -> Record:
    """Decode one record.

    :raises InvalidFruData: its layout is not that of its type.
    """
    if kind < _OEM:
        return OtherMultiRecord(kind=kind, data=body)
    if len(body) < 3:
        raise InvalidFruData('OEM record without a manufacturer id')
    manufacturer = int.from_bytes(body[:3], 'little')
    if manufacturer != PICMG:
        return OemRecord(kind=kind, manufacturer=manufacturer, data=body[3:])
    if len(body) < 5:
        raise InvalidFruData('PICMG record without a record id')
    number, version, rest = body[3], body[4], body[5:]
    if number == _MODULE_CURRENT:
        if not rest:
            raise InvalidFruData('module current record without a value')
        return ModuleCurrent(amperes=rest[0] / 10)
    if number == _POINT_TO_POINT:
        return _point_to_point(rest)
    return PicmgRecord(number=number, version=version, data=rest)


def _point_to_point(data: bytes) -> PointToPoint:
    """Decode record 19h, after its version.

    A channel has three bytes: five bits for the port of each lane, from lane 0 on, then four reserved bits. A link has five
    bytes: channel (8 bits), lanes (4), type (8), extension (4), group (8), match (2), reserved (6). Both start with the lowest
    byte.

    :raises InvalidFruData: it ends too early, or in the middle of a link.
    """
    count = data[0] if data else 0
    offset = 1 + 16 * count
    if len(data) < offset + 2:
        raise InvalidFruData('the list of connections is truncated')
    guids = tuple(data[1 + 16 * n : 17 + 16 * n] for n in range(count))
    device, channels = data[offset], data[offset + 1]
    first_link = offset + 2 + 3 * channels
    if len(data) < first_link or (len(data) - first_link) % 5:
        raise InvalidFruData('the list of connections is truncated')
    return PointToPoint(
        module=bool(device & 0x80),
        device=device & 0x0F,
        guids=guids,
        channels=tuple(_ports(data[n : n + 3]) for n in range(offset + 2, first_link, 3)),
        links=tuple(_link(data[n : n + 5]) for n in range(first_link, len(data), 5)),
    )


def _ports(data: bytes) -> tuple[int | None, ...]:
    bits = int.from_bytes(data, 'little')
    ports = (bits >> 5 * lane & 0x1F for lane in range(4))
    return tuple(None if port == _NO_PORT else port for port in ports)


def _link(data: bytes) -> Link:
    bits = int.from_bytes(data, 'little')
    return Link(
        channel=bits & 0xFF,
        lanes=tuple(lane for lane in range(4) if bits >> 8 + lane & 1),
        kind=bits >> 12 & 0xFF,
        extension=bits >> 20 & 0x0F,
        group=bits >> 24 & 0xFF,
        match=bits >> 32 & 0x03,
    )
