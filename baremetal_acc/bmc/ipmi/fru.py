# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Parse the inventory data of a field replaceable unit (FRU): common header, chassis, board and product area.

Areas and records with a wrong checksum are reported as faults, and their data is not used.

Source: Platform Management FRU Information Storage Definition 1.0 revision 1.3 (sections 8, 10 to 13, 16); IPMI 2.0 revision
1.1, section 34; AMC.0 R2.0, tables 3-10 and 3-16 to 3-19 as ipmitool reads them (lib/ipmi_ekanalyzer.c).
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from baremetal_acc.bmc.ipmi.fru_contents import BoardArea, ChassisArea, Contents, ProductArea
from baremetal_acc.bmc.ipmi.fru_records import (
    LAST_RECORD,
    MOST_RECORDS,
    OFFSET_UNIT,
    RECORD_HEADER_BYTES,
    InvalidFruData,
    parse_records,
)
from baremetal_acc.bmc.ipmi.text import Coding, said
from baremetal_acc.bmc.placeholders import is_placeholder

HEADER_BYTES = 8
"""Length of the common header."""

_END_OF_FIELDS = 0xC1
_ENGLISH = frozenset({0, 25})

_EPOCH = datetime(1996, 1, 1, tzinfo=UTC)


def needed(data: bytes) -> int:
    """Bytes from the beginning that hold all areas and records known from this beginning. It may grow as more is read."""
    if len(data) < HEADER_BYTES or _header_fault(data) is not None:
        return HEADER_BYTES
    areas = [place * OFFSET_UNIT for place in data[2:5] if place]
    ends = [HEADER_BYTES, *(at + (data[at + 1] * OFFSET_UNIT if at + 1 < len(data) else 2) for at in areas)]
    if data[5]:
        offset = data[5] * OFFSET_UNIT
        for _ in range(MOST_RECORDS):
            header = data[offset : offset + RECORD_HEADER_BYTES]
            if len(header) < RECORD_HEADER_BYTES or sum(header) & 0xFF:
                ends.append(offset + RECORD_HEADER_BYTES)
                break
            offset += RECORD_HEADER_BYTES + header[2]
            ends.append(offset)
            if header[1] & LAST_RECORD:
                break
    return max(ends)


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
    records = tuple(parse_records(data, faults))
    unsure = (board_fault is not None and not (board and board.product)) or (
        product_fault is not None and not (product and product.name)
    )
    return Contents(chassis=chassis, board=board, product=product, records=records, faults=tuple(faults), unsure=unsure)


def _header_fault(data: bytes) -> str | None:
    """What is wrong with the common header, or None."""
    header = data[:HEADER_BYTES]
    if len(header) < HEADER_BYTES:
        return f'common header: truncated (length {len(header)} of {HEADER_BYTES} bytes)'
    if len(set(header)) == 1 and header[0] in (0x00, 0xFF):
        return 'common header: was never written'
    if sum(header) & 0xFF:
        return 'common header: checksum is wrong'
    if header[0] & 0x0F != 1:
        return f'common header: format version {header[0] & 0x0F} is not supported, only 1'
    return None


def _area(data: bytes, place: int) -> bytes | None:
    """An area without its checksum; None where there is none.

    :param place: index in the common header of the area's offset.
    :raises InvalidFruData: the area is invalid.
    """
    offset = data[place] * OFFSET_UNIT
    if not offset:
        return None
    beginning = data[offset : offset + 2]
    if len(beginning) < 2:
        raise InvalidFruData(f'begins at byte {offset}, but only {len(data)} bytes could be read')
    length = beginning[1] * OFFSET_UNIT
    area = data[offset : offset + length]
    if not length:
        raise InvalidFruData('has length 0')
    if len(area) < length:
        raise InvalidFruData(f'has length {length}, but only {len(area)} bytes could be read')
    if sum(area) & 0xFF:
        raise InvalidFruData('checksum is wrong')
    if area[0] & 0x0F != 1:
        raise InvalidFruData(f'format version {area[0] & 0x0F} is not supported, only 1')
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
    except InvalidFruData as exc:
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
    except InvalidFruData as exc:
        fault = str(exc)
    names = [None if text is None or is_placeholder(text) else text for text in texts[:count]]
    names += [None] * (count - len(names))
    return names, tuple(text for text in texts[count:] if text is not None), fault


def _fields(area: bytes, offset: int, english: bool) -> Iterator[str | None]:
    while offset < len(area) and area[offset] != _END_OF_FIELDS:
        coding, length = Coding(area[offset] >> 6), area[offset] & 0x3F
        field = area[offset + 1 : offset + 1 + length]
        if len(field) < length:
            raise InvalidFruData(f'a field of length {length} does not fit')
        yield said(coding, field, wide=not english)
        offset += 1 + length
