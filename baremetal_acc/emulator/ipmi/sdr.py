# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The SDR repository of an emulated BMC: FRU and controller locator records, read and written (0A/20, 22 to 27).

Source: IPMI 2.0 revision 1.1, sections 33.9 to 33.16, 43.8 and 43.9.
"""

from dataclasses import dataclass
from typing import Any

from baremetal_acc.emulator.ipmi.controller import (
    STORAGE,
    CommandRefusal,
    CommandRequest,
    EmulatedCode,
    EmulatedController,
    EmulatedPrivilege,
)
from baremetal_acc.emulator.ipmi.message import BMC

AMC = 0xC1
"""The entity ID of an AMC. Source: PICMG AMC.0."""

_VERSION = 0x51
_FRU_LOCATOR, _MC_LOCATOR = 0x11, 0x12
_LATIN = 0xC0
_LONGEST_NAME = 16
_HAS_FRU = 0x08
_LOGICAL = 0x80
_FRU_DEVICE = 0x10
_RESERVE, _ADD_PART, _DELETE = 0x02, 0x04, 0x08
_WHOLE = 0xFF
_FIRST, _LAST = 0x0000, 0xFFFF
_HEADER_BYTES = 5
_LENGTH_DIFFERS = 0x80
_LAST_PIECE = 1
_ERASE, _ERASED_YET, _DONE = 0xAA, 0x00, 0x01
_MOST = 1000
_FREE_BYTES = 0x4000


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatedFruLocator:
    """A FRU device locator record: where a logical FRU device is.

    :ivar address: of the controller that holds it.
    :ivar modifier: the device type modifier; 01h: the SPD of a DIMM.
    """

    name: str
    fru_id: int
    entity: int
    instance: int
    address: int = BMC
    channel: int = 0
    modifier: int = 0
    kind: int = _FRU_LOCATOR

    @property
    def body(self) -> bytes:
        """The record after its header."""
        where = bytes((self.address, self.fru_id, _LOGICAL, self.channel << 4, 0, _FRU_DEVICE, self.modifier))
        return where + bytes((self.entity, self.instance, 0)) + _name(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatedControllerLocator:
    """A management controller device locator record: where a further controller is.

    :ivar capabilities: bit 3: the controller has FRU devices.
    """

    name: str
    address: int
    entity: int = AMC
    instance: int
    channel: int = 0
    capabilities: int = _HAS_FRU
    kind: int = _MC_LOCATOR

    @property
    def body(self) -> bytes:
        """The record after its header."""
        where = bytes((self.address, self.channel, 0, self.capabilities, 0, 0, 0))
        return where + bytes((self.entity, self.instance, 0)) + _name(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainRecord:
    """A record of any other type.

    :ivar body: the record after its header.
    """

    kind: int
    body: bytes


def _name(name: str) -> bytes:
    raw = name.encode('latin-1')
    if len(raw) > _LONGEST_NAME:
        raise ValueError(f'the name {name!r} of a sensor data record is longer than {_LONGEST_NAME} bytes')
    return bytes((_LATIN | len(raw),)) + raw


class Repository:
    """The SDR repository of one BMC.

    :param records: its records, in their order; their numbers begin with 1.
    :param longest: bytes that one read returns at most; longer reads are refused with CAh.
    :param wraps: the last record names the first one as the next one, not FFFFh.
    :param writable: records can be added, deleted and cleared; written records replace the true ones for every reader.
    :ivar raw: the records by number, from the version of the record on.
    """

    def __init__(
        self,
        records: tuple[EmulatedFruLocator | EmulatedControllerLocator | PlainRecord, ...],
        *,
        longest: int = 64,
        writable: bool = False,
        wraps: bool = False,
    ) -> None:
        self.raw = {
            number: bytes((_VERSION, record.kind, len(record.body))) + record.body for number, record in enumerate(records, 1)
        }
        self.longest = longest
        self.writable = writable
        self._end = _FIRST if wraps else _LAST
        self._reservation: int | None = None
        self._reserved = 0
        self._next = len(records) + 1
        self._partial: tuple[int, bytes] | None = None
        self._added = self._erased = 0

    def join(self, controller: EmulatedController) -> None:
        """Register the SDR commands at a controller. A restart cancels the reservation."""
        controller.add(STORAGE, 0x20, self._info, privilege=EmulatedPrivilege.USER)
        controller.add(STORAGE, 0x22, self._reserve, privilege=EmulatedPrivilege.USER)
        controller.add(STORAGE, 0x23, self._read, privilege=EmulatedPrivilege.USER, least=6)
        controller.on_reset.append(self._cancel)
        if self.writable:
            operator = EmulatedPrivilege.OPERATOR
            controller.add(STORAGE, 0x24, self._add, privilege=operator, least=_HEADER_BYTES, most=_HEADER_BYTES + 0xFF)
            controller.add(STORAGE, 0x25, self._add_part, privilege=operator, least=7, most=6 + _HEADER_BYTES + 0xFF)
            controller.add(STORAGE, 0x26, self._delete, privilege=operator, least=4)
            controller.add(STORAGE, 0x27, self._clear, privilege=operator, least=6)

    def dump(self) -> Any:
        """The records as JSON."""
        raw = {str(number): record.hex() for number, record in self.raw.items()}
        return {'raw': raw, 'next': self._next, 'added': self._added, 'erased': self._erased}

    def load(self, stored: Any) -> None:
        """Restore the records.

        :raises ValueError: the stored records are not valid.
        """
        raw = {int(number): bytes.fromhex(record) for number, record in stored['raw'].items()}
        if any(len(record) < _HEADER_BYTES - 2 or not 0 < number < stored['next'] for number, record in raw.items()):
            raise ValueError('the stored sensor data records are not valid')
        self.raw, self._next = raw, int(stored['next'])
        self._added, self._erased = int(stored['added']), int(stored['erased'])

    def _cancel(self) -> None:
        self._reservation = None
        self._partial = None

    def _info(self, _: CommandRequest) -> bytes:
        free = _FREE_BYTES if self.writable else 0
        can = _RESERVE | (_DELETE | _ADD_PART if self.writable else 0)
        times = self._added.to_bytes(4, 'little') + self._erased.to_bytes(4, 'little')
        return bytes((_VERSION,)) + len(self.raw).to_bytes(2, 'little') + free.to_bytes(2, 'little') + times + bytes((can,))

    def _reserve(self, _: CommandRequest) -> bytes:
        self._reserved = self._reservation = self._reserved % 0xFFFF + 1
        return self._reserved.to_bytes(2, 'little')

    def _read(self, request: CommandRequest) -> bytes:
        reservation, wanted = (int.from_bytes(request.data[place : place + 2], 'little') for place in (0, 2))
        start, count = request.data[4:6]
        numbers = sorted(self.raw)
        if not numbers:
            raise CommandRefusal(EmulatedCode.NOT_PRESENT)
        number = numbers[0] if wanted == _FIRST else numbers[-1] if wanted == _LAST else wanted
        if number not in self.raw:
            raise CommandRefusal(EmulatedCode.NOT_PRESENT)
        raw = number.to_bytes(2, 'little') + self.raw[number]
        # The beginning of a record may be read without a reservation, to get its length.
        if (start or reservation) and reservation != self._reservation:
            raise CommandRefusal(EmulatedCode.RESERVATION_CANCELLED)
        if start >= len(raw):
            raise CommandRefusal(EmulatedCode.OUT_OF_RANGE)
        part = raw[start:] if count == _WHOLE else raw[start : start + count]
        if len(part) > self.longest:
            raise CommandRefusal(EmulatedCode.CANNOT_RETURN)
        following = next((one for one in numbers if one > number), self._end)
        return following.to_bytes(2, 'little') + part

    # -- write commands -----------------------------------------------------------------------------------------------

    def _put(self, record: bytes) -> bytes:
        """Add a record, given with its number, which is ignored: the repository assigns another one.

        :raises Refusal: its length differs from the one in its header, or the repository is full.
        """
        if len(record) < _HEADER_BYTES or len(record) != _HEADER_BYTES + record[4]:
            raise CommandRefusal(_LENGTH_DIFFERS)
        if len(self.raw) >= _MOST:
            raise CommandRefusal(EmulatedCode.OUT_OF_SPACE)
        number, self._next = self._next, self._next + 1
        self.raw[number] = record[2:]
        self._added += 1
        self._cancel()
        return number.to_bytes(2, 'little')

    def _add(self, request: CommandRequest) -> bytes:
        return self._put(request.data)

    def _add_part(self, request: CommandRequest) -> bytes:
        """Add a record in pieces, in their order; the last piece is marked."""
        reservation, number = (int.from_bytes(request.data[place : place + 2], 'little') for place in (0, 2))
        start, progress, piece = request.data[4], request.data[5] & 0xF, request.data[6:]
        if reservation != self._reservation:
            raise CommandRefusal(EmulatedCode.RESERVATION_CANCELLED)
        kept = b'' if start == 0 or self._partial is None else self._partial[1]
        if start != len(kept) or (start and self._partial is not None and number != self._partial[0]):
            raise CommandRefusal(EmulatedCode.OUT_OF_RANGE)
        record = kept + piece
        if progress == _LAST_PIECE:
            return self._put(record)
        self._partial = (self._next, record[: _HEADER_BYTES + 0xFF])
        return self._next.to_bytes(2, 'little')

    def _delete(self, request: CommandRequest) -> bytes:
        reservation, number = (int.from_bytes(request.data[place : place + 2], 'little') for place in (0, 2))
        if reservation != self._reservation:
            raise CommandRefusal(EmulatedCode.RESERVATION_CANCELLED)
        if number not in self.raw:
            raise CommandRefusal(EmulatedCode.NOT_PRESENT)
        del self.raw[number]
        self._erased += 1
        self._cancel()
        return number.to_bytes(2, 'little')

    def _clear(self, request: CommandRequest) -> bytes:
        if int.from_bytes(request.data[:2], 'little') != self._reservation:
            raise CommandRefusal(EmulatedCode.RESERVATION_CANCELLED)
        if request.data[2:5] != b'CLR' or request.data[5] not in (_ERASE, _ERASED_YET):
            raise CommandRefusal(EmulatedCode.INVALID_FIELD)
        if request.data[5] == _ERASE:
            self.raw.clear()
            self._erased += 1
        return bytes((_DONE,))
