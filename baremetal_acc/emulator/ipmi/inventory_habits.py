# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Habits of real servers in their FRU inventories and sensor data records, each by a name, such as empty bays and DIMM SPDs.

Tried on: our own inspection, and ipmitool, which prints such FRUs as ``Device not present`` or as memory. Each is known from
public reports: ipmitool issues 242, 279 and 308 (DIMMs by their SPD), tigerblue77/Dell_iDRAC_fan_controller_Docker issues 192
and 193, and openbmc issue 3591 (what empty bays answer), freeipmi-mirror issues 29 (a record that ends with C3h) and 34 (81h).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from baremetal_acc.emulator.ipmi.controller import STORAGE, CommandRequest, EmulatedCode, EmulatedController, EmulatedPrivilege
from baremetal_acc.emulator.ipmi.fru import EmulatedBoardArea, EmulatedProductArea, inventory
from baremetal_acc.emulator.ipmi.sdr import EmulatedFruLocator, PlainRecord

_FIRST_FRU = 16
_ADD_IN, _POWER_SUPPLY, _BACKPLANE, _MEMORY = 0x0B, 0x0A, 0x0F, 0x20
_DIMM = 0x01
_SENSOR = 0x02
_INFO, _READ, _GET_SDR = 0x10, 0x11, 0x23
_APP, _SEND_MESSAGE = 0x06, 0x34
_BUSY, _TIMEOUT, _UNSPECIFIED = 0x81, 0xC3, 0xFF
_HEADER_BYTES = 5

DDR4_SPD = bytes.fromhex('23120c018521000800600003080b80000000080df8ff010055006e6e6e11006e200800057003003c14').ljust(512, b'\0')
"""The SPD of a DDR4 RDIMM: its first bytes, padded with zeros."""

Record = EmulatedFruLocator | PlainRecord


def _damaged_card() -> bytes:
    """An FPGA card whose product area has one flipped bit; its board area is sound and names another part."""
    whole = bytearray(
        inventory(
            board=EmulatedBoardArea(manufacturer='Maker', name='Board 9', serial='B-9', part_number='BP-9'),
            product=EmulatedProductArea(
                manufacturer='Maker', name='FPGA PAC D5005', part_number='P-9', version='1', serial='S-9'
            ),
        )
    )
    whole[whole.index(b'D5005')] ^= 1
    return bytes(whole)


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryHabit:
    """One habit.

    :ivar frus: FRU locators with the content of each FRU: its memory, or the completion code of all commands about it.
    :ivar records: further records, at the end.
    :ivar wraps: the last record names the first one as the next one, not FFFFh.
    :ivar unreadable: of the last record only the header can be read; other reads are refused with C3h.
    :ivar busy: so many commands about any FRU are first answered with 81h.
    :ivar administrators: records, FRUs and bridging need Administrator privilege.
    """

    frus: tuple[tuple[str, int, int, bytes | int], ...] = ()
    records: tuple[PlainRecord, ...] = ()
    wraps: bool = False
    unreadable: bool = False
    busy: int = 0
    administrators: bool = False


HABITS: Mapping[str, InventoryHabit] = {
    'dimms': InventoryHabit(
        frus=(
            ('CPU 1 DIMM 1', _MEMORY, _DIMM, DDR4_SPD),
            ('CPU 1 DIMM 2', _MEMORY, _DIMM, DDR4_SPD),
            ('CPU 1 DIMM 3', _MEMORY, _DIMM, EmulatedCode.NOT_PRESENT),
            ('CPU 2 DIMM 1', _MEMORY, _DIMM, _UNSPECIFIED),
        )
    ),
    'empty-bays': InventoryHabit(
        frus=(
            ('BP0', _BACKPLANE, 0, _TIMEOUT),
            ('BP1', _BACKPLANE, 0, _UNSPECIFIED),
            ('BP2', _BACKPLANE, 0, EmulatedCode.OUT_OF_RANGE),
            ('PSU 2', _POWER_SUPPLY, 0, EmulatedCode.NOT_PRESENT),
        )
    ),
    'blank-eeproms': InventoryHabit(
        frus=(
            ('PSU 3', _POWER_SUPPLY, 0, b'\xff' * 256),
            ('PSU 4', _POWER_SUPPLY, 0, bytes(256)),
            ('BP 5', _BACKPLANE, 0, b''),
        )
    ),
    'empty-slot': InventoryHabit(frus=(('PERC2', _ADD_IN, 0, EmulatedCode.OUT_OF_RANGE),)),
    'damaged-card': InventoryHabit(frus=(('Slot 9', _ADD_IN, 0, _damaged_card()),)),
    'sdr-unreadable': InventoryHabit(records=(PlainRecord(kind=_SENSOR, body=bytes(40)),), unreadable=True),
    'sdr-wraps': InventoryHabit(wraps=True),
    'fru-busy': InventoryHabit(busy=2),
    'administrators-only': InventoryHabit(administrators=True),
}
"""All habits by their names, the values of ``--inventory-habit``."""


@dataclass(slots=True)
class InventoryHabits:
    """The chosen habits of one BMC.

    :ivar frus: their FRU memories by FRU device id.
    :ivar records: the locators of these FRUs, and further records.
    """

    names: tuple[str, ...]
    frus: dict[int, bytes] = field(init=False, default_factory=dict)
    records: list[Record] = field(init=False, default_factory=list)
    _refused: dict[int, int] = field(init=False, default_factory=dict)
    _busy: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        for habit in self._all:
            for name, entity, modifier, content in habit.frus:
                number = _FIRST_FRU + len(self.records)
                self.records.append(
                    EmulatedFruLocator(name=name, fru_id=number, entity=entity, instance=number, modifier=modifier)
                )
                if isinstance(content, bytes):
                    self.frus[number] = content
                else:
                    self._refused[number] = content
        for habit in self._all:
            self.records += habit.records
            self._busy += habit.busy

    @property
    def _all(self) -> tuple[InventoryHabit, ...]:
        return tuple(HABITS[name] for name in self.names)

    @property
    def wraps(self) -> bool:
        """Whether the last record names the first one as the next one."""
        return any(habit.wraps for habit in self._all)

    def join(self, controller: EmulatedController, number_of_records: Callable[[], int]) -> None:
        """Apply the habits to a controller."""
        unreadable = any(habit.unreadable for habit in self._all)
        administrators = any(habit.administrators for habit in self._all)

        def guard(request: CommandRequest) -> int | None:
            is_fru = request.netfn == STORAGE and request.command in (_INFO, _READ)
            is_record = (request.netfn, request.command) == (STORAGE, _GET_SDR)
            is_bridge = (request.netfn, request.command) == (_APP, _SEND_MESSAGE)
            if administrators and (is_fru or is_record or is_bridge) and request.privilege < EmulatedPrivilege.ADMINISTRATOR:
                return EmulatedCode.PRIVILEGE
            if is_fru and request.data:
                if self._busy:
                    self._busy -= 1
                    return _BUSY
                return self._refused.get(request.data[0])
            if is_record and unreadable and len(request.data) == 6:
                number, offset, count = int.from_bytes(request.data[2:4], 'little'), request.data[4], request.data[5]
                if number == number_of_records() and offset + count > _HEADER_BYTES:
                    return _TIMEOUT
            return None

        controller.guards.append(guard)
