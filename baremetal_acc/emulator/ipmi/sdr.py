# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Where do the emulated BMC's records say that boards and controllers are? Locators in the SDR repository, and 0A/20, 22, 23.

Source: IPMI 2.0 revision 1.1, sections 33.9 to 33.12, 43.8 and 43.9.
"""

from dataclasses import dataclass

from baremetal_acc.emulator.ipmi.controller import STORAGE, Code, Controller, Privilege, Refusal, Request
from baremetal_acc.emulator.ipmi.message import BMC

AMC = 0xC1
"""The entity of an AMC. Source: PICMG AMC.0."""

_VERSION = 0x51
_FRU_LOCATOR, _MC_LOCATOR = 0x11, 0x12
_LATIN = 0xC0
_LONGEST_NAME = 16
_HAS_FRU = 0x08
_LOGICAL = 0x80
_FRU_DEVICE = 0x10
_RESERVE = 0x02
_WHOLE = 0xFF
_FIRST, _LAST = 0x0000, 0xFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class FruLocator:
    """Where a logical FRU device is.

    :ivar address: of the controller that holds it.
    """

    name: str
    fru_id: int
    entity: int
    instance: int
    address: int = BMC
    channel: int = 0
    kind: int = _FRU_LOCATOR

    @property
    def body(self) -> bytes:
        """What comes after the header."""
        where = bytes((self.address, self.fru_id, _LOGICAL, self.channel << 4, 0, _FRU_DEVICE, 0))
        return where + bytes((self.entity, self.instance, 0)) + _name(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerLocator:
    """Where a further controller is.

    :ivar capabilities: bit 3: it has FRU devices.
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
        """What comes after the header."""
        where = bytes((self.address, self.channel, 0, self.capabilities, 0, 0, 0))
        return where + bytes((self.entity, self.instance, 0)) + _name(self.name)


def _name(name: str) -> bytes:
    raw = name.encode('latin-1')
    if len(raw) > _LONGEST_NAME:
        raise ValueError(f'{name!r} is longer than the {_LONGEST_NAME} bytes of a name')
    return bytes((_LATIN | len(raw),)) + raw


class Repository:
    """The SDR repository of one BMC.

    :ivar records: its records, in their order; their numbers begin with 1.
    :ivar longest: bytes that one read gives at most; more is refused with CAh.
    """

    def __init__(self, records: tuple[FruLocator | ControllerLocator, ...], *, longest: int = 64) -> None:
        self.records = records
        self.longest = longest
        self._reservation: int | None = None
        self._reserved = 0

    def join(self, controller: Controller) -> None:
        """Let a controller answer for these records. Each reset cancels the reservation."""
        controller.add(STORAGE, 0x20, self._info, privilege=Privilege.USER)
        controller.add(STORAGE, 0x22, self._reserve, privilege=Privilege.USER)
        controller.add(STORAGE, 0x23, self._read, privilege=Privilege.USER, least=6)
        controller.on_reset.append(self._cancel)

    def _cancel(self) -> None:
        self._reservation = None

    def _info(self, _: Request) -> bytes:
        return bytes((_VERSION,)) + len(self.records).to_bytes(2, 'little') + bytes(2 + 4 + 4) + bytes((_RESERVE,))

    def _reserve(self, _: Request) -> bytes:
        self._reserved = self._reservation = self._reserved % 0xFFFF + 1
        return self._reserved.to_bytes(2, 'little')

    def _read(self, request: Request) -> bytes:
        reservation, wanted = (int.from_bytes(request.data[place : place + 2], 'little') for place in (0, 2))
        start, count = request.data[4:6]
        number = 1 if wanted == _FIRST else len(self.records) if wanted == _LAST else wanted
        if not 1 <= number <= len(self.records):
            raise Refusal(Code.NOT_PRESENT)
        record = self.records[number - 1]
        raw = number.to_bytes(2, 'little') + bytes((_VERSION, record.kind, len(record.body))) + record.body
        # The beginning of a record may be read without a reservation, by those who want to know the length.
        if (start or reservation) and reservation != self._reservation:
            raise Refusal(Code.RESERVATION_CANCELLED)
        if start >= len(raw):
            raise Refusal(Code.OUT_OF_RANGE)
        part = raw[start:] if count == _WHOLE else raw[start : start + count]
        if len(part) > self.longest:
            raise Refusal(Code.CANNOT_RETURN)
        following = number + 1 if number < len(self.records) else _LAST
        return following.to_bytes(2, 'little') + part
