# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read and parse the inventory data of a field replaceable unit (FRU).

:func:`read` reads the used part of the FRU's memory, :func:`parse` decodes it. Areas and records with a wrong checksum are
reported as faults, and their data is not used.

Source: Platform Management FRU Information Storage Definition 1.0 revision 1.3 (sections 8, 10 to 13, 16); IPMI 2.0 revision
1.1, section 34; AMC.0 R2.0, tables 3-10 and 3-16 to 3-19 as ipmitool reads them (lib/ipmi_ekanalyzer.c).
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from baremetal_acc.bmc.ipmi.command import (
    FRU_BUSY,
    FRU_INFO,
    FRU_READ,
    NOT_THERE,
    TOO_LONG,
    CommandReply,
    CompletionCode,
    NetFn,
    Raw,
    refusal,
)
from baremetal_acc.bmc.ipmi.text import Coding, said
from baremetal_acc.bmc.placeholders import is_placeholder
from baremetal_acc.errors import BmcAnswerInvalid, BmcBusy, BmcError

MOST = 16 * 1024
"""Maximum bytes that are read of one FRU. Memories have 256 bytes to 8 KiB; 64 KiB behind a slow bus would take too long."""

MOST_AT_ONCE = 240
"""Maximum bytes requested by one command: an answer counts its bytes in one byte, and its message has further bytes."""

MOST_RECORDS = 128
"""Maximum number of records in the multi-record area. MicroTCA carriers have about twenty."""

PICMG = 0x00315A
"""PICMG's manufacturer id in OEM records. Source: IANA private enterprise numbers, 12634."""

READ_AGAIN = 2
"""Maximum number of times that an FRU is read again."""

_NO_MATTER_HOW_MUCH = frozenset(
    {*NOT_THERE, FRU_BUSY, CompletionCode.BUSY, CompletionCode.DESTINATION_UNAVAILABLE, CompletionCode.PRIVILEGE}
)
"""Completion codes for which a shorter read does not help."""

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
class ChassisArea:
    """Chassis info area.

    :ivar kind: SMBIOS chassis type.
    :ivar more: custom fields.
    """

    kind: int
    part_number: str | None = None
    serial: str | None = None
    more: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardArea:
    """Board info area.

    :ivar made: manufacturing time, to the minute; None where it is not given.
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
class ProductArea:
    """Product info area."""

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
class OtherMultiRecord:
    """A multi-record area record that is not decoded.

    :ivar kind: record type id.
    """

    kind: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class OemRecord:
    """An OEM record.

    :ivar manufacturer: IANA private enterprise number.
    :ivar data: the bytes after it.
    """

    kind: int
    manufacturer: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PicmgRecord:
    """A PICMG record that is not decoded.

    :ivar number: PICMG record id.
    """

    number: int
    version: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleCurrent:
    """Maximum current draw of an AMC (PICMG record 16h)."""

    amperes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One link by which an AMC can use a channel (AMC link descriptor).

    :ivar lanes: which of the channel's four lanes.
    :ivar kind: link type: 02h PCI Express, 05h Ethernet, 06h Serial RapidIO, 07h storage; F0h to FEh: the OEM GUID of that
        index.
    :ivar extension: link type extension, such as the generation.
    :ivar group: link grouping id; links of one group other than 0 belong together.
    :ivar match: asymmetric match: 0 for an equal link, else which other link it matches.
    """

    channel: int
    lanes: tuple[int, ...]
    kind: int
    extension: int
    group: int
    match: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PointToPoint:
    """Point-to-point connectivity of an AMC, or of a device on its carrier (PICMG record 19h).

    :ivar module: it describes the AMC itself; False: a device on the carrier.
    :ivar device: number of that device.
    :ivar channels: for each channel, the ports of its four lanes; None where it has no such lane.
    """

    module: bool
    device: int
    guids: tuple[bytes, ...]
    channels: tuple[tuple[int | None, ...], ...]
    links: tuple[Link, ...]


Record = OtherMultiRecord | OemRecord | PicmgRecord | ModuleCurrent | PointToPoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """Decoded contents of an FRU.

    :ivar faults: areas and records that are invalid, one clause each, naming the area.
    :ivar unsure: an invalid area may hold the name of a board or of a product.
    """

    chassis: ChassisArea | None = None
    board: BoardArea | None = None
    product: ProductArea | None = None
    records: tuple[Record, ...] = ()
    faults: tuple[str, ...] = ()
    unsure: bool = False


# --------------------------------------------------------------------------------------------------------------------- reading


def contents(raw: Raw, number: int = 0, *, lun: int = 0, whole: bool = False) -> Contents:
    """Read and parse an FRU. It is read again if an area with a name is invalid, since buses lose bits.

    :param number: FRU device id.
    :param whole: fail if only the beginning can be read.
    :raises BmcError: it was refused, or not answered.
    """
    best = parse(read(raw, number, lun=lun, whole=whole))
    for _ in range(READ_AGAIN):
        if not best.unsure:
            break
        try:
            again = parse(read(raw, number, lun=lun, whole=whole))
        except BmcError:
            break
        best = min(best, again, key=lambda found: (found.unsure, len(found.faults)))
    return best


def read(raw: Raw, number: int = 0, *, lun: int = 0, whole: bool = False) -> bytes:
    """Read the memory of an FRU, from its beginning to the end of the last area in use, or as far as it can be read.

    The reported size does not limit the read: some controllers report 0, or too little.

    :param number: FRU device id.
    :param whole: a refusal before the reported size is an error. Data beyond the reported size may be missing.
    :raises BmcError: it was refused, or not answered.
    """
    what = f'Read FRU Data of FRU {number}'
    told, unit, why = _info(raw, number, lun)
    size = min(told, MOST) // unit * unit
    unsized = why is not None
    longest = max(_HEADER, min(raw.longest - 2, MOST_AT_ONCE))
    step = longest // unit
    data = b''
    while len(data) < min(end := needed(data), MOST):
        left = size - len(data) if len(data) < size else end - len(data) + unit - 1
        count = max(1, min(step, left // unit))
        reply = raw(NetFn.STORAGE, FRU_READ, struct.pack('<BHB', number, len(data) // unit, count), lun=lun)
        part = _part(reply, count, unit)
        if part:
            data += part
            why = None
            continue
        why = why or _failure(raw, what, reply, count * unit)
        if reply.code in _NO_MATTER_HOW_MUCH:
            raise why
        if count > 1:
            # A shorter answer may fit, or come in time. Other errors get fewer retries: the length shrinks faster.
            step = max(1, count // (2 if reply.code in TOO_LONG else 4))
            continue
        if unit == 2 and not data:
            unit, step = 1, longest  # it reports access by words, but counts bytes
            continue
        if len(data) < min(_HEADER, size) or (unsized and not data) or (whole and len(data) < size):
            raise why
        break
    return data


def _part(reply: CommandReply, count: int, unit: int) -> bytes:
    """The data bytes of an answer; empty if it has fewer bytes than its count says, or more than were requested.

    :param count: number of units that were requested.
    """
    if not reply.ok or not reply.data:
        return b''
    given, body = reply.data[0], reply.data[1:]
    if given > count and given == len(body) == count * unit:
        return body  # it counts bytes although it is read by words
    return body[: given * unit] if given <= count and len(body) >= given * unit else b''


def _failure(raw: Raw, what: str, reply: CommandReply, count: int) -> BmcError:
    """The error for a read that returned no data.

    :param count: number of bytes that were requested.
    """
    if reply.code == FRU_BUSY:
        return BmcBusy(bmc=raw.label, what=f'{what}: the device is busy (81h)')
    if not reply.ok:
        return refusal(raw, what, reply)
    told = f'the answer says {reply.data[0] if reply.data else 0} and has {len(reply.data[1:])}'
    return BmcAnswerInvalid(bmc=raw.label, what=f'{what}: {count} bytes were asked for, and {told}')


def _info(raw: Raw, number: int, lun: int) -> tuple[int, int, BmcError | None]:
    """Get FRU Inventory Area Info: size in bytes, bytes per unit (2 for access by words), and why these are unknown, or None.

    :raises BmcError: it was refused, or not answered.
    """
    reply = raw(NetFn.STORAGE, FRU_INFO, bytes([number]), lun=lun)
    what = f'Get FRU Inventory Area Info of FRU {number}'
    if reply.code == FRU_BUSY:
        raise BmcBusy(bmc=raw.label, what=f'{what}: the device is busy (81h)')
    if reply.code in NOT_THERE:
        return 0, 1, refusal(raw, what, reply)  # it may have Read FRU Data all the same
    if not reply.ok:
        raise refusal(raw, what, reply)
    size = int.from_bytes(reply.data[:2], 'little')
    if len(reply.data) < 3:
        told = f'{what}: the answer has {len(reply.data)} bytes, and 3 are needed'
        return size, 1, BmcAnswerInvalid(bmc=raw.label, what=told)
    return size, 2 if reply.data[2] & 1 else 1, None


def needed(data: bytes) -> int:
    """Bytes from the beginning that hold all areas and records known from this beginning. It may grow as more is read."""
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
    """This area or record is invalid."""


def parse(data: bytes) -> Contents:
    """Parse the memory of an FRU. Any bytes are accepted: what is invalid is reported in ``faults``."""
    fault = _header_fault(data)
    if fault is not None:
        return Contents(faults=(fault,), unsure=True)
    faults: list[str] = []
    chassis, chassis_fault = _chassis(data)
    board, board_fault = _board(data)
    product, product_fault = _product(data)
    for name, told in (('chassis', chassis_fault), ('board', board_fault), ('product', product_fault)):
        if told is not None:
            faults.append(f'{name} area: {told}')
    records = tuple(_records(data, faults))
    unsure = (board_fault is not None and not (board and board.product)) or (
        product_fault is not None and not (product and product.name)
    )
    return Contents(chassis=chassis, board=board, product=product, records=records, faults=tuple(faults), unsure=unsure)


def _header_fault(data: bytes) -> str | None:
    """What is wrong with the common header, or None."""
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

    :param place: index in the common header of the area's offset.
    :raises _Fault: the area is invalid.
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


def _chassis(data: bytes) -> tuple[ChassisArea | None, str | None]:
    area, fault = _believed(data, 2)
    if area is None:
        return None, fault
    names, more, fault = _named(area, 3, 2, english=True)
    return ChassisArea(kind=area[2], part_number=names[0], serial=names[1], more=more), fault


def _board(data: bytes) -> tuple[BoardArea | None, str | None]:
    area, fault = _believed(data, 3)
    if area is None:
        return None, fault
    minutes = int.from_bytes(area[3:6], 'little')
    names, more, fault = _named(area, 6, 5, english=area[2] in _ENGLISH)
    found = BoardArea(
        language=area[2],
        made=_EPOCH + timedelta(minutes=minutes) if minutes else None,
        manufacturer=names[0],
        product=names[1],
        serial=names[2],
        part_number=names[3],
        file_id=names[4],
        more=more,
    )
    return found, fault


def _product(data: bytes) -> tuple[ProductArea | None, str | None]:
    area, fault = _believed(data, 4)
    if area is None:
        return None, fault
    names, more, fault = _named(area, 3, 7, english=area[2] in _ENGLISH)
    found = ProductArea(
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
    return found, fault


def _believed(data: bytes, place: int) -> tuple[bytes | None, str | None]:
    """An area without its checksum, and why it is invalid; both None where there is none."""
    try:
        return _area(data, place), None
    except _Fault as exc:
        return None, str(exc)


def _named(area: bytes, offset: int, count: int, *, english: bool) -> tuple[list[str | None], tuple[str, ...], str | None]:
    """The predefined fields (None for empty ones and placeholders), the custom fields, and why the rest is missing, or None.

    :param offset: of the first field.
    :param count: number of predefined fields.
    """
    texts: list[str | None] = []
    fault = None
    try:
        texts.extend(_fields(area, offset, english))
    except _Fault as exc:
        fault = str(exc)
    names = [None if text is None or is_placeholder(text) else text for text in texts[:count]]
    names += [None] * (count - len(names))
    return names, tuple(text for text in texts[count:] if text is not None), fault


def _fields(area: bytes, offset: int, english: bool) -> Iterator[str | None]:
    while offset < len(area) and area[offset] != _END_OF_FIELDS:
        coding, length = Coding(area[offset] >> 6), area[offset] & 0x3F
        field = area[offset + 1 : offset + 1 + length]
        if len(field) < length:
            raise _Fault(f'a field of {length} bytes does not fit')
        yield said(coding, field, wide=not english)
        offset += 1 + length


def _records(data: bytes, faults: list[str]) -> Iterator[Record]:
    """The records of the multi-record area. Invalid ones are reported in ``faults``."""
    offset = data[5] * _UNIT
    for n in range(MOST_RECORDS if offset else 0):
        header = data[offset : offset + _RECORD_HEADER]
        if len(header) < _RECORD_HEADER:
            faults.append(f'record {n}: it would begin at byte {offset}, and {len(data)} could be read')
            return
        if sum(header) & 0xFF:
            # Its length may be wrong too, so the offset of the next record is unknown.
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
                yield OtherMultiRecord(kind=kind, data=body)
        if flags & _LAST_RECORD:
            return
    if offset:
        faults.append(f'there are more than {MOST_RECORDS} records')


def _record(kind: int, body: bytes) -> Record:
    """Decode one record.

    :raises _Fault: its layout is not that of its type.
    """
    if kind < _OEM:
        return OtherMultiRecord(kind=kind, data=body)
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
    """Decode record 19h, after its version.

    A channel has three bytes: five bits for the port of each lane, from lane 0 on, then four reserved bits. A link has five
    bytes: channel (8 bits), lanes (4), type (8), extension (4), group (8), match (2), reserved (6). Both start with the lowest
    byte.

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
