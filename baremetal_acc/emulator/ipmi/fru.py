# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""FRU inventory areas of emulated boards, and the commands that read and write FRU devices (0A/10, 11 and 12).

Source: Platform Management FRU Information Storage Definition 1.0, sections 8 to 16; IPMI 2.0 revision 1.1, section 34; PICMG
AMC.0 R2.0, section 3.6 for the records of a card.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from baremetal_acc.emulator.ipmi.controller import (
    MANY,
    STORAGE,
    CommandRefusal,
    CommandRequest,
    EmulatedCode,
    EmulatedController,
    EmulatedPrivilege,
)
from baremetal_acc.emulator.ipmi.message import checksum

ENGLISH = 25
PICMG = 0x00315A
"""The manufacturer ID of PICMG records."""

_FORMAT = 1
_LATIN = 0xC0
_END = 0xC1
_LONGEST_TEXT = 63
_OEM_RECORD = 0xC0
_LAST = 0x80
_EPOCH = datetime(1996, 1, 1, tzinfo=UTC)
_PROTECTED = 0x80


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatedBoardArea:
    """The board info area."""

    manufacturer: str
    name: str
    serial: str
    part_number: str
    file_id: str = ''
    made: datetime = _EPOCH
    custom: tuple[str, ...] = ()

    def encoded(self) -> bytes:
        """The bytes of the area."""
        minutes = int((self.made - _EPOCH).total_seconds()) // 60
        texts = (self.manufacturer, self.name, self.serial, self.part_number, self.file_id, *self.custom)
        return _area(bytes((ENGLISH,)) + minutes.to_bytes(3, 'little'), texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatedProductArea:
    """The product info area."""

    manufacturer: str
    name: str
    part_number: str
    version: str
    serial: str
    asset_tag: str = ''
    file_id: str = ''
    custom: tuple[str, ...] = ()

    def encoded(self) -> bytes:
        """The bytes of the area."""
        texts = (self.manufacturer, self.name, self.part_number, self.version, self.serial, self.asset_tag, self.file_id)
        return _area(bytes((ENGLISH,)), (*texts, *self.custom))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChassisInfo:
    """The chassis info area.

    :ivar kind: the chassis type of SMBIOS; 17h is a main server chassis.
    """

    kind: int = 0x17
    part_number: str
    serial: str
    custom: tuple[str, ...] = ()

    def encoded(self) -> bytes:
        """The bytes of the area."""
        return _area(bytes((self.kind,)), (self.part_number, self.serial, *self.custom))


def picmg_record(record_id: int, data: bytes, version: int = 0) -> tuple[int, bytes]:
    """Build a multi-record of PICMG, such as 16h, Module Current Requirements."""
    return _OEM_RECORD, PICMG.to_bytes(3, 'little') + bytes((record_id, version)) + data


def inventory(
    *,
    chassis: ChassisInfo | None = None,
    board: EmulatedBoardArea | None = None,
    product: EmulatedProductArea | None = None,
    records: tuple[tuple[int, bytes], ...] = (),
    size_bytes: int = 256,
) -> bytes:
    """Build a whole inventory: common header and areas, padded with FFh.

    :param records: multi-records, type and content.
    :param size_bytes: the smallest size; a larger inventory grows.
    :raises ValueError: an area, a record or a text does not fit its length field.
    """
    offsets, body = [0], b''
    for area in (chassis, board, product):
        offsets.append(len(body) // 8 + 1 if area is not None else 0)
        body += area.encoded() if area is not None else b''
    offsets.append(len(body) // 8 + 1 if records else 0)
    body += _records(records)
    if max(offsets) > 0xFF:
        raise ValueError(f'a FRU area begins at offset {max(offsets) * 8}, but the limit is 2040 bytes')
    header = bytes((_FORMAT, *offsets, 0))
    return (header + bytes((checksum(header),)) + body).ljust(size_bytes, b'\xff')


def _text(text: str) -> bytes:
    """Encode a field. A field of one character would look like the end of the fields, so a blank is added."""
    raw = text.encode('latin-1')
    raw = raw + b' ' if len(raw) == 1 else raw
    if len(raw) > _LONGEST_TEXT:
        raise ValueError(f'{text!r} is longer than a FRU field allows ({_LONGEST_TEXT} bytes)')
    return bytes((_LATIN | len(raw),)) + raw


def _area(head: bytes, texts: tuple[str, ...]) -> bytes:
    inner = head + b''.join(_text(text) for text in texts) + bytes((_END,))
    inner += bytes(-(len(inner) + 3) % 8)
    if len(inner) + 3 > 0xFF * 8:
        raise ValueError(f'a FRU area has {len(inner) + 3} bytes, but the limit is 2040')
    area = bytes((_FORMAT, (len(inner) + 3) // 8)) + inner
    return area + bytes((checksum(area),))


def _records(records: tuple[tuple[int, bytes], ...]) -> bytes:
    encoded = b''
    for number, (kind, data) in enumerate(records, 1):
        if len(data) > 0xFF:
            raise ValueError(f'a FRU record has {len(data)} bytes, but the limit is 255')
        head = bytes((kind, 2 | (_LAST if number == len(records) else 0), len(data), checksum(data)))
        encoded += head + bytes((checksum(head),)) + data
    return encoded


class FruDevices:
    """The FRU devices of one controller.

    :ivar contents: the contents by FRU device id; writes change them.
    :ivar protected: ids that cannot be written.
    :ivar longest: bytes that one read returns at most; longer reads are refused with CAh.
    :raises ValueError: an inventory is larger than two bytes can express.
    """

    def __init__(self, contents: dict[int, bytes], *, longest: int = 64) -> None:
        if any(len(content) > 0xFFFF for content in contents.values()):
            raise ValueError('a FRU inventory must have at most 65535 bytes')
        self.contents = {number: bytearray(content) for number, content in contents.items()}
        self.protected: set[int] = set()
        self.longest = longest

    def dump(self) -> Any:
        """The contents, as JSON."""
        return {str(number): content.hex() for number, content in self.contents.items()}

    def load(self, stored: Any) -> None:
        """Restore the contents in place, since an EEPROM may share the bytes.

        :raises ValueError: the stored contents are of other devices.
        """
        contents = {int(number): bytes.fromhex(content) for number, content in stored.items()}
        if {n: len(content) for n, content in contents.items()} != {n: len(c) for n, c in self.contents.items()}:
            raise ValueError('the stored FRU inventories differ in number or size from those of this machine')
        for number, content in contents.items():
            self.contents[number][:] = content

    def join(self, controller: EmulatedController) -> None:
        """Register the FRU commands at a controller."""
        controller.add(STORAGE, 0x10, self._info, privilege=EmulatedPrivilege.USER, least=1)
        controller.add(STORAGE, 0x11, self._read, privilege=EmulatedPrivilege.USER, least=4)
        controller.add(STORAGE, 0x12, self._write, privilege=EmulatedPrivilege.ADMINISTRATOR, least=4, most=MANY)

    def _content(self, request: CommandRequest) -> bytearray:
        content = self.contents.get(request.data[0])
        if content is None:
            raise CommandRefusal(EmulatedCode.NOT_PRESENT)
        return content

    def _info(self, request: CommandRequest) -> bytes:
        return len(self._content(request)).to_bytes(2, 'little') + b'\0'

    def _read(self, request: CommandRequest) -> bytes:
        content, start, count = self._content(request), int.from_bytes(request.data[1:3], 'little'), request.data[3]
        if start >= len(content):
            raise CommandRefusal(EmulatedCode.OUT_OF_RANGE)
        if count > self.longest:
            raise CommandRefusal(EmulatedCode.CANNOT_RETURN)
        read = bytes(content[start : start + count])
        return bytes((len(read),)) + read

    def _write(self, request: CommandRequest) -> bytes:
        content, start, data = self._content(request), int.from_bytes(request.data[1:3], 'little'), request.data[3:]
        if request.data[0] in self.protected:
            raise CommandRefusal(_PROTECTED)
        if len(data) > 0xFF:
            raise CommandRefusal(EmulatedCode.LENGTH_EXCEEDED)
        if start + len(data) > len(content):
            raise CommandRefusal(EmulatedCode.OUT_OF_RANGE)
        content[start : start + len(data)] = data
        return bytes((len(data),))
