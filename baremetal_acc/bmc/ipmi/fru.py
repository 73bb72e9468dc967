# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What does a field replaceable unit (FRU) say of itself?

:func:`read` fetches as much of its memory as is used, :func:`parse` says what stands there. A wrong checksum is told, and what
it covers is not believed.

Source: Platform Management FRU Information Storage Definition 1.0 revision 1.3 (sections 8, 10 to 13, 16); IPMI 2.0 revision
1.1, section 34; AMC.0 R2.0, tables 3-10 and 3-16 to 3-19 by way of public implementations (facts/ipmi.md, section 4).
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from baremetal_acc.bmc.ipmi.text import Coding, said
from baremetal_acc.bmc.ipmi.wire import TOO_LONG, NetFn, Raw, refusal
from baremetal_acc.errors import BmcAnswerInvalid, BmcBusy

MOST = 16 * 1024
"""Bytes that are read of one FRU. Memories have 256 bytes to 8 KiB; 64 KiB behind a slow bus would hold us up."""

MOST_AT_ONCE = 240
"""Bytes asked for at once: an answer counts its bytes in one byte, and its message holds others beside them."""

MOST_RECORDS = 128
"""In the multi-record area. Carriers of MicroTCA have about twenty."""

PICMG = 0x00315A
"""Manufacturer of the records that PICMG defines. Source: IANA private enterprise numbers, 12634."""

_GET_INFO, _READ = 0x10, 0x11

_BUSY = 0x81
"""Of Read FRU Data: the device is busy. Source: IPMI 2.0 revision 1.1, table 34-3."""

_HEADER = 8
_UNIT = 8
_RECORD_HEADER = 5
_LAST_RECORD = 0x80
_END_OF_FIELDS = 0xC1
_ENGLISH = frozenset({0, 25})
_OEM = 0xC0
_MODULE_CURRENT, _POINT_TO_POINT = 0x16, 0x19
_NO_PORT = 0x1F

_EPOCH = datetime(1996, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chassis:
    """The chassis area.

    :ivar kind: chassis type of SMBIOS.
    :ivar more: further fields, which have no names.
    """

    kind: int
    part_number: str | None = None
    serial: str | None = None
    more: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """The board area.

    :ivar made: when, to the minute; None where it does not say.
    """

    language: int
    made: datetime | None = None
    manufacturer: str | None = None
    product: str | None = None
    serial: str | None = None
    part_number: str | None = None
    file_id: str | None = None
    more: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """The product area."""

    language: int
    manufacturer: str | None = None
    name: str | None = None
    part_number: str | None = None
    version: str | None = None
    serial: str | None = None
    asset_tag: str | None = None
    file_id: str | None = None
    more: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherRecord:
    """A record that is kept as it is.

    :ivar kind: record type id.
    """

    kind: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class OemRecord:
    """A record of a manufacturer.

    :ivar manufacturer: IANA private enterprise number.
    :ivar data: what comes after it.
    """

    kind: int
    manufacturer: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PicmgRecord:
    """A record of PICMG that is kept as it is.

    :ivar number: PICMG record id.
    """

    number: int
    version: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleCurrent:
    """How much an AMC may draw (PICMG record 16h)."""

    amperes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One way in which an AMC can use a channel.

    :ivar lanes: which of the channel's four lanes.
    :ivar kind: 02h PCI Express, 05h Ethernet, 06h Serial RapidIO, 07h storage; F0h to FEh: the GUID of that place.
    :ivar extension: variant within the kind, such as the generation.
    :ivar group: links of one group other than 0 belong together.
    :ivar match: 0 an equal one, else which other one it goes with.
    """

    channel: int
    lanes: tuple[int, ...]
    kind: int
    extension: int
    group: int
    match: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PointToPoint:
    """What an AMC, or a device on its carrier, can be connected by (PICMG record 19h).

    :ivar module: it is of the AMC itself; False: of a device on the carrier.
    :ivar device: that device's number.
    :ivar channels: of each channel the ports of its four lanes, None where it has no such lane.
    """

    module: bool
    device: int
    guids: tuple[bytes, ...]
    channels: tuple[tuple[int | None, ...], ...]
    links: tuple[Link, ...]


Record = OtherRecord | OemRecord | PicmgRecord | ModuleCurrent | PointToPoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What an FRU says.

    :ivar faults: what stands there and cannot be believed, one clause each, naming the area.
    """

    chassis: Chassis | None = None
    board: Board | None = None
    product: Product | None = None
    records: tuple[Record, ...] = ()
    faults: tuple[str, ...] = ()


# --------------------------------------------------------------------------------------------------------------------- reading


def read(raw: Raw, number: int = 0, *, lun: int = 0) -> bytes:
    """The memory of an FRU, from its beginning to the end of the last area in use.

    :param number: FRU device id.
    :raises BmcError: it was refused, or not answered.
    """
    what = f'Read FRU Data of FRU {number}'
    info = _info(raw, number, lun)
    unit = 2 if info[2] & 1 else 1
    size = min(int.from_bytes(info[:2], 'little'), MOST) // unit * unit
    step = max(_HEADER, min(raw.longest - 2, MOST_AT_ONCE)) // unit
    data = b''
    while len(data) < min(size, needed(data)):
        count = min(step, (size - len(data)) // unit)
        reply = raw(NetFn.STORAGE, _READ, struct.pack('<BHB', number, len(data) // unit, count), lun=lun)
        if reply.code in TOO_LONG and count > 1:
            step = count // 2
            continue
        if reply.code == _BUSY:
            raise BmcBusy(bmc=raw.label, what=f'{what}: the device is busy (81h)')
        if not reply.ok:
            raise refusal(raw, what, reply)
        given = reply.data[0] if reply.data else 0
        part = reply.data[1 : 1 + given * unit]
        if not 0 < given <= count or len(part) < given * unit:
            told = f'{what}: {count * unit} bytes were asked for, and the answer says {given * unit} and has {len(part)}'
            raise BmcAnswerInvalid(bmc=raw.label, what=told)
        data += part
    return data


def _info(raw: Raw, number: int, lun: int) -> bytes:
    """Size of an FRU's memory, and how it is counted.

    :raises BmcError: it was refused, or not answered.
    """
    reply = raw(NetFn.STORAGE, _GET_INFO, bytes([number]), lun=lun)
    what = f'Get FRU Inventory Area Info of FRU {number}'
    if not reply.ok:
        raise refusal(raw, what, reply)
    if len(reply.data) < 3:
        raise BmcAnswerInvalid(bmc=raw.label, what=f'{what}: the answer has {len(reply.data)} bytes, and 3 are needed')
    return reply.data


def needed(data: bytes) -> int:
    """How many bytes, from the beginning, hold all that this beginning speaks of. More may show once they are known."""
    if len(data) < _HEADER or _header_fault(data) is not None:
        return _HEADER
    areas = [place * _UNIT for place in data[2:5] if place]
    ends = [_HEADER, *(at + (data[at + 1] * _UNIT if at + 1 < len(data) else 2) for at in areas)]
    if data[5]:
        offset = data[5] * _UNIT
        for _ in range(MOST_RECORDS):
            header = data[offset : offset + _RECORD_HEADER]
            if len(header) < _RECORD_HEADER or sum(header) & 0xFF:
                ends.append(offset + _RECORD_HEADER)
                break
            offset += _RECORD_HEADER + header[2]
            ends.append(offset)
            if header[1] & _LAST_RECORD:
                break
    return max(ends)


# --------------------------------------------------------------------------------------------------------------------- parsing


class _Fault(ValueError):
    """This area, or this record, cannot be believed."""


def parse(data: bytes) -> Contents:
    """What the memory of an FRU says, whatever the bytes."""
    fault = _header_fault(data)
    if fault is not None:
        return Contents(faults=(fault,))
    faults: list[str] = []
    chassis = board = product = None
    try:
        if (area := _area(data, 2)) is not None:
            chassis = _chassis(area)
    except _Fault as exc:
        faults.append(f'chassis area: {exc}')
    try:
        if (area := _area(data, 3)) is not None:
            board = _board(area)
    except _Fault as exc:
        faults.append(f'board area: {exc}')
    try:
        if (area := _area(data, 4)) is not None:
            product = _product(area)
    except _Fault as exc:
        faults.append(f'product area: {exc}')
    records = tuple(_records(data, faults))
    return Contents(chassis=chassis, board=board, product=product, records=records, faults=tuple(faults))


def _header_fault(data: bytes) -> str | None:
    """What is wrong with the common header; None: nothing."""
    header = data[:_HEADER]
    if len(header) < _HEADER:
        return f'common header: it has {len(header)} bytes of {_HEADER}'
    if len(set(header)) == 1 and header[0] in (0x00, 0xFF):
        return 'common header: nothing was ever written here'
    if sum(header) & 0xFF:
        return 'common header: its checksum is wrong'
    if header[0] & 0x0F != 1:
        return f'common header: its format is {header[0] & 0x0F}, and 1 is known'
    return None


def _area(data: bytes, place: int) -> bytes | None:
    """An area without its checksum; None where there is none.

    :param place: where in the common header its offset stands.
    :raises _Fault: it cannot be believed.
    """
    offset = data[place] * _UNIT
    if not offset:
        return None
    beginning = data[offset : offset + 2]
    if len(beginning) < 2:
        raise _Fault(f'it would begin at byte {offset}, and {len(data)} could be read')
    length = beginning[1] * _UNIT
    area = data[offset : offset + length]
    if not length:
        raise _Fault('it says that it is empty')
    if len(area) < length:
        raise _Fault(f'it would have {length} bytes, and {len(area)} could be read')
    if sum(area) & 0xFF:
        raise _Fault('its checksum is wrong')
    if area[0] & 0x0F != 1:
        raise _Fault(f'its format is {area[0] & 0x0F}, and 1 is known')
    return area[:-1]


def _chassis(area: bytes) -> Chassis:
    names, more = _named(area, 3, 2, english=True)
    return Chassis(kind=area[2], part_number=names[0], serial=names[1], more=more)


def _board(area: bytes) -> Board:
    minutes = int.from_bytes(area[3:6], 'little')
    names, more = _named(area, 6, 5, english=area[2] in _ENGLISH)
    return Board(
        language=area[2],
        made=_EPOCH + timedelta(minutes=minutes) if minutes else None,
        manufacturer=names[0],
        product=names[1],
        serial=names[2],
        part_number=names[3],
        file_id=names[4],
        more=more,
    )


def _product(area: bytes) -> Product:
    names, more = _named(area, 3, 7, english=area[2] in _ENGLISH)
    return Product(
        language=area[2],
        manufacturer=names[0],
        name=names[1],
        part_number=names[2],
        version=names[3],
        serial=names[4],
        asset_tag=names[5],
        file_id=names[6],
        more=more,
    )


def _named(area: bytes, offset: int, count: int, *, english: bool) -> tuple[list[str | None], tuple[str, ...]]:
    """The fields that have names, None for those that are not there, and the further ones.

    :param offset: where the first one begins.
    :param count: how many have names.
    """
    texts = list(_fields(area, offset, english))
    names = texts[:count] + [None] * (count - len(texts))
    return names, tuple(text for text in texts[count:] if text is not None)


def _fields(area: bytes, offset: int, english: bool) -> Iterator[str | None]:
    while offset < len(area) and area[offset] != _END_OF_FIELDS:
        coding, length = Coding(area[offset] >> 6), area[offset] & 0x3F
        field = area[offset + 1 : offset + 1 + length]
        if len(field) < length:
            raise _Fault(f'a field of {length} bytes does not fit')
        yield said(coding, field, wide=not english)
        offset += 1 + length


def _records(data: bytes, faults: list[str]) -> Iterator[Record]:
    """The records of the multi-record area. What cannot be believed is told in ``faults``."""
    offset = data[5] * _UNIT
    for n in range(MOST_RECORDS if offset else 0):
        header = data[offset : offset + _RECORD_HEADER]
        if len(header) < _RECORD_HEADER:
            faults.append(f'record {n}: it would begin at byte {offset}, and {len(data)} could be read')
            return
        if sum(header) & 0xFF:
            # Nor is its length believed: where the next one would begin is not known.
            faults.append(f'record {n}: the checksum of its header is wrong, so that further ones are not known')
            return
        kind, flags, length, checksum = header[:4]
        offset += _RECORD_HEADER
        body = data[offset : offset + length]
        offset += length
        if len(body) < length:
            faults.append(f'record {n}: it would have {length} bytes, and {len(body)} could be read')
            return
        if (sum(body) + checksum) & 0xFF:
            faults.append(f'record {n}: its checksum is wrong')
        else:
            try:
                yield _record(kind, body)
            except _Fault as exc:
                faults.append(f'record {n}: {exc}')
                yield OtherRecord(kind=kind, data=body)
        if flags & _LAST_RECORD:
            return
    if offset:
        faults.append(f'there are more than {MOST_RECORDS} records')


def _record(kind: int, body: bytes) -> Record:
    """What one record says.

    :raises _Fault: it has another layout than its kind has.
    """
    if kind < _OEM:
        return OtherRecord(kind=kind, data=body)
    if len(body) < 3:
        raise _Fault('it is of a manufacturer and does not say which')
    manufacturer = int.from_bytes(body[:3], 'little')
    if manufacturer != PICMG:
        return OemRecord(kind=kind, manufacturer=manufacturer, data=body[3:])
    if len(body) < 5:
        raise _Fault('it is of PICMG and does not say which')
    number, version, rest = body[3], body[4], body[5:]
    if number == _MODULE_CURRENT:
        if not rest:
            raise _Fault('it says no current')
        return ModuleCurrent(amperes=rest[0] / 10)
    if number == _POINT_TO_POINT:
        return _point_to_point(rest)
    return PicmgRecord(number=number, version=version, data=rest)


def _point_to_point(data: bytes) -> PointToPoint:
    """What record 19h says after its version.

    A channel has three bytes: five bits for the port of each lane, from lane 0 on, then four reserved ones. A link has five:
    channel (8 bits), lanes (4), type (8), extension (4), group (8), match (2), reserved (6). Both begin with the lowest byte.

    :raises _Fault: it ends too early, or in the middle of a link.
    """
    count = data[0] if data else 0
    offset = 1 + 16 * count
    if len(data) < offset + 2:
        raise _Fault('its list of connections is cut short')
    guids = tuple(data[1 + 16 * n : 17 + 16 * n] for n in range(count))
    device, channels = data[offset], data[offset + 1]
    first_link = offset + 2 + 3 * channels
    if len(data) < first_link or (len(data) - first_link) % 5:
        raise _Fault('its list of connections is cut short')
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
