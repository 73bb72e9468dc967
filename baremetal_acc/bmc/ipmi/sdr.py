# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which FRUs and which controllers does a controller know of?

They stand in its sensor data records (SDR), among many that describe sensors. Those are begun too, since what kind a record is
stands in the record.

Source: IPMI 2.0 revision 1.1, sections 33 (SDR Repository), 35 (device SDRs), 43 (records).
"""

import secrets
import struct
from dataclasses import dataclass

from baremetal_acc.bmc import wait
from baremetal_acc.bmc.ipmi.text import Coding, said
from baremetal_acc.bmc.ipmi.wire import NOT_THERE, TOO_LONG, Code, NetFn, Raw, refusal
from baremetal_acc.errors import BmcAnswerInvalid, BmcBusy

MOST_RECORDS = 4096
"""Of one controller. Large servers have a few hundred."""

MOST_RESERVATIONS = 64
"""In one reading. A reservation is cancelled by everybody else who makes one, such as whoever polls the sensors."""

LONGEST_PAUSE = 0.5
"""Seconds before the next reservation. Two who read at the same time cancel each other's all the time, unless chance lets one
of them finish. A reading takes some tens of commands, a few ms each."""

MOST_READINGS = 3
"""Of one repository that is being changed meanwhile."""

LONGEST_RECORD = 255
"""With its header: what lies beyond cannot be asked for. The known kinds have at most 64 bytes."""

BRIDGED = 25
"""Where a request may have no more bytes than this the controller lies behind another one, and answers are as short."""

_HEADER = 5
_WHOLE = 0xFF
_FIRST, _LAST = 0x0000, 0xFFFF
_FRU_LOCATOR, _CONTROLLER_LOCATOR = 0x11, 0x12

LOCATORS = frozenset({_FRU_LOCATOR, _CONTROLLER_LOCATOR})
"""Kinds that say where something is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a controller keeps records."""

    netfn: NetFn
    info: int
    reserve: int
    get: int
    name: str


REPOSITORY = Place(netfn=NetFn.STORAGE, info=0x20, reserve=0x22, get=0x23, name='SDR repository')
"""Of a BMC: the records of the whole machine."""

DEVICE = Place(netfn=NetFn.SENSOR_EVENT, info=0x20, reserve=0x22, get=0x21, name='device SDRs')
"""Of any controller: its own records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FruLocator:
    """Says where an FRU is (record type 11h).

    :ivar number: record id.
    :ivar address: of the controller that has it, in the eight-bit form (the BMC has 20h).
    :ivar channel: on which that controller is reached.
    :ivar logical: it is read by FRU commands; False: it is an EEPROM on a bus of the controller.
    :ivar fru: FRU device id; of an EEPROM its address on the bus.
    :ivar lun: to which FRU commands go.
    """

    number: int
    address: int
    channel: int
    logical: bool
    fru: int
    lun: int
    bus: int
    device_type: int
    modifier: int
    entity: int
    instance: int
    name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerLocator:
    """Says where a controller is (record type 12h).

    :ivar fru_inventory: it has an FRU of its own.
    """

    number: int
    address: int
    channel: int
    fru_inventory: bool
    entity: int
    instance: int
    name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherRecord:
    """Any other record, and one that is cut short.

    :ivar kind: record type.
    :ivar data: what was read after the header.
    """

    number: int
    kind: int
    data: bytes

    @property
    def locates(self) -> bool:
        """It would say where something is, and is cut short."""
        return self.kind in LOCATORS


Record = FruLocator | ControllerLocator | OtherRecord


# --------------------------------------------------------------------------------------------------------------------- reading


def read(raw: Raw, place: Place, wanted: frozenset[int] | None = None) -> tuple[bytes, ...]:
    """All records that a controller keeps there, each with its header.

    :param wanted: kinds of which all is wanted: of any other the header may be all that is given. None: of every kind.
    :raises BmcBusy: they were changed, or reserved by others, again and again.
    :raises BmcError: it was refused or not answered, or the records have no end.
    """
    for _ in range(MOST_READINGS):
        before = _changed(raw, place)
        records = _Reading(raw, place, wanted).records()
        if before == _changed(raw, place):
            return records
    raise BmcBusy(bmc=raw.label, what=f'{place.name}: changed while it was read, {MOST_READINGS} times')


def _changed(raw: Raw, place: Place) -> bytes | None:
    """What is another one after a change; None where a controller does not say.

    Of a repository: number of records, and when one was added and when one was erased. Of device SDRs it is not looked at:
    their indicator is there only where they can change.
    """
    if place is not REPOSITORY:
        return None
    reply = raw(place.netfn, place.info)
    if reply.code in NOT_THERE:
        return None
    if not reply.ok:
        raise refusal(raw, f'Get {place.name} info', reply)
    return reply.data[1:3] + reply.data[5:13]


class _Reading:
    """One pass over the records, with what it has learnt of the controller on the way."""

    def __init__(self, raw: Raw, place: Place, wanted: frozenset[int] | None) -> None:
        self._raw = raw
        self._place = place
        self._wanted = wanted
        self._what = f'reading its {place.name}'
        self._reservations = 0
        self._reservation = self._reserve()
        # Whole records take one command each, and not every controller gives them; the shortest answers never hold one.
        self._whole = raw.longest > BRIDGED
        self._step = max(_HEADER, min(raw.longest - 4, 32))

    def records(self) -> tuple[bytes, ...]:
        """All of them, in their order.

        :raises BmcError: they cannot be read.
        """
        found = []
        number, seen = _FIRST, set[int]()
        while number != _LAST:
            if number in seen or len(seen) >= MOST_RECORDS:
                how = 'go round in a circle' if number in seen else f'are more than {MOST_RECORDS}'
                raise BmcAnswerInvalid(bmc=self._raw.label, what=f'{self._what}: the records {how}')
            seen.add(number)
            got = self._record(number)
            if got is None:
                if number == _FIRST:
                    return ()
                raise BmcAnswerInvalid(bmc=self._raw.label, what=f'{self._what}: record {number:04X}h is named and not there')
            number, record = got
            found.append(record)
        return tuple(found)

    def _reserve(self) -> int:
        """A reservation, which reading a part of a record needs; 0 where there is no such thing.

        :raises BmcBusy: there were too many already.
        """
        if self._reservations == MOST_RESERVATIONS:
            told = f'{self._what}: {MOST_RESERVATIONS} reservations were cancelled'
            raise BmcBusy(bmc=self._raw.label, what=told, hint='something else reads or changes its SDRs all the time')
        self._reservations += 1
        reply = self._raw(self._place.netfn, self._place.reserve)
        if reply.code in NOT_THERE:
            return 0
        if not reply.ok:
            raise refusal(self._raw, f'{self._what}: Reserve', reply)
        if len(reply.data) < 2:
            raise BmcAnswerInvalid(bmc=self._raw.label, what=f'{self._what}: its reservation is cut short')
        return int.from_bytes(reply.data[:2], 'little')

    def _record(self, number: int) -> tuple[int, bytes] | None:
        """The number of the next record, and this one; None: there is none of this number."""
        following, data = _LAST, b''
        while len(data) < (total := self._total(data)):
            if total > LONGEST_RECORD:
                told = f'{self._what}: record {number:04X}h would have {total} bytes'
                raise BmcAnswerInvalid(bmc=self._raw.label, what=told)
            whole = self._whole and not data
            count = _WHOLE if whole else min(self._step, total - len(data))
            request = struct.pack('<HHBB', self._reservation, number, len(data), count)
            reply = self._raw(self._place.netfn, self._place.get, request)
            if reply.code == Code.RESERVATION_CANCELLED:
                wait.sleep(secrets.randbelow(1000) / 1000 * min(0.05 * self._reservations, LONGEST_PAUSE))
                self._reservation = self._reserve()
                data = b''
                continue
            if reply.code == Code.NOT_PRESENT and not data:
                return None
            if reply.code in TOO_LONG and whole:
                self._whole = False
                continue
            if reply.code in TOO_LONG and count > 1:
                self._step = count // 2
                continue
            if not reply.ok:
                raise refusal(self._raw, f'{self._what}: record {number:04X}h', reply)
            part = reply.data[2:]
            if not part or len(part) > count:
                told = f'{self._what}: record {number:04X}h: {count} bytes were asked for, and {len(part)} came'
                raise BmcAnswerInvalid(bmc=self._raw.label, what=told)
            following = int.from_bytes(reply.data[:2], 'little')
            data += part
        return following, data[:total]

    def _total(self, data: bytes) -> int:
        """How many bytes of a record are wanted by what is known of it."""
        if len(data) < _HEADER or (self._wanted is not None and data[3] not in self._wanted):
            return _HEADER
        return _HEADER + data[4]


# --------------------------------------------------------------------------------------------------------------------- parsing


def parse(record: bytes) -> Record:
    """What a record says, whatever the bytes.

    Offsets are those of the tables, from 0: id 0, version 2, type 3, length 4, and what the type has from 5 on.
    """
    header = record[:_HEADER].ljust(_HEADER, b'\0')
    number, kind = int.from_bytes(header[:2], 'little'), header[3]
    if len(record) > 15 and kind == _FRU_LOCATOR:
        return FruLocator(
            number=number,
            address=record[5] & 0xFE,
            channel=record[8] >> 4,
            logical=bool(record[7] & 0x80),
            fru=record[6],
            lun=record[7] >> 3 & 0x03,
            bus=record[7] & 0x07,
            device_type=record[10],
            modifier=record[11],
            entity=record[12],
            instance=record[13],
            name=_name(record),
        )
    if len(record) > 15 and kind == _CONTROLLER_LOCATOR:
        return ControllerLocator(
            number=number,
            address=record[5] & 0xFE,
            channel=record[6] & 0x0F,
            fru_inventory=bool(record[8] & 0x08),
            entity=record[12],
            instance=record[13],
            name=_name(record),
        )
    return OtherRecord(number=number, kind=kind, data=record[_HEADER:])


def _name(record: bytes) -> str | None:
    """The id string of a locator. What an SDR calls Unicode is eight-bit text with everybody who wrote one."""
    coding, length = Coding(record[15] >> 6), record[15] & 0x1F
    return said(Coding.EIGHT_BIT if coding is Coding.BINARY else coding, record[16 : 16 + length])


def records(raw: Raw, place: Place) -> tuple[Record, ...]:
    """All records that a controller keeps there, parsed; of those that locate nothing the kind is all that is sure to be known.

    :raises BmcError: they cannot be read.
    """
    return tuple(parse(record) for record in read(raw, place, LOCATORS))
