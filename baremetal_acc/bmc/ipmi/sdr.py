# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""List the FRUs and the controllers that a controller knows of.

They stand in its sensor data records (SDR), among many that describe sensors. Those are begun too, since what kind a record is
stands in the record.

Source: IPMI 2.0 revision 1.1, sections 33 (SDR Repository), 35 (device SDRs), 43 (records).
"""

import itertools
import secrets
import struct
from dataclasses import dataclass, replace

from baremetal_acc import wait
from baremetal_acc.bmc.ipmi.patient import later
from baremetal_acc.bmc.ipmi.text import Coding, said
from baremetal_acc.bmc.ipmi.wire import NOT_THERE, TOO_LONG, Code, NetFn, Raw, Reply, refusal
from baremetal_acc.errors import BmcAnswerInvalid, BmcBusy, BmcError, BmcNotAuthorised, BmcUnsupported

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

MOST_JUNK = 3
"""Answers, at most, to one question by a record that has another id than was asked for."""

MOST_GUESSES = 8
"""Ids in a row that are tried where the id of the next record is not known, or cannot be right."""

BRIDGED = 25
"""Where a request may have no more bytes than this the controller lies behind another one, and answers are as short."""

_HEADER = 5
_WHOLE = 0xFF
_FIRST, _LAST = 0x0000, 0xFFFF
_FRU_LOCATOR, _CONTROLLER_LOCATOR = 0x11, 0x12

LOCATORS = frozenset({_FRU_LOCATOR, _CONTROLLER_LOCATOR})
"""Kinds that say where something is."""

_KINDS = frozenset({0x01, 0x02, 0x03, 0x08, 0x09, 0x10, 0x13, 0x14, *LOCATORS, *range(0xC0, 0x100)})
"""All that there are. Source: IPMI 2.0 revision 1.1, table 43-1 and following."""

_LEAST_OF_LOCATOR = 14
"""Bytes of a locator, with its header, up to the entity. A name that cannot be read costs no more than the name."""

_NO_MATTER_HOW_MUCH = frozenset({*NOT_THERE, Code.BUSY, Code.DESTINATION_UNAVAILABLE, Code.PRIVILEGE, Code.SDR_UPDATE_MODE})
"""Refusals that asking for less does not change."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The records that a controller keeps in one place, as far as they could be read.

    :ivar records: each with its header.
    :ivar missed: what was not read, one clause each: a locator may be there.
    :ivar error: what ended the reading early.
    """

    records: tuple[bytes, ...] = ()
    missed: tuple[str, ...] = ()
    error: BmcError | None = None


def read(raw: Raw, place: Place, wanted: frozenset[int] | None = None, *, quick: Raw | None = None) -> Kept:
    """The records that a controller keeps there. One that cannot be read costs that one.

    :param wanted: kinds of which all is wanted: of any other the header may be all that is given. None: of every kind.
    :param quick: the same controller, which is not asked again where it is busy. It is asked first: a record that it cannot
        give in time whole it may give in parts.
    :raises BmcError: nothing could be read.
    """
    kept = Kept()
    for _ in range(MOST_READINGS):
        before = _info(raw, place)
        last, kept = kept, _Reading(raw, quick or raw, place, wanted, before[0]).kept()
        if kept.error is not None:
            if not kept.records:
                raise kept.error
            return kept
        # The clock of some goes on in what is to tell of changes: what reads alike twice is taken all the same.
        if before == _info(raw, place) or (kept == last and kept.records):
            return kept
    return replace(kept, missed=(*kept.missed, f'it changed while it was read, {MOST_READINGS} times'))


def _info(raw: Raw, place: Place) -> tuple[int | None, bytes | None]:
    """How many records there are, and what is another one after a change; None where a controller does not say.

    The latter is when a record was added and when one was erased. Of device SDRs it is not looked at: their indicator is there
    only where they can change.
    """
    if place is not REPOSITORY:
        return None, None
    reply = raw(place.netfn, place.info)
    if not reply.ok or len(reply.data) < 3:
        return None, None
    count = int.from_bytes(reply.data[1:3], 'little')
    return None if count in (0, _LAST) else count, reply.data[5:13]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Got:
    """What came of one record.

    :ivar following: id of the next one; None: it is not known.
    :ivar data: of the record; empty: nothing that could be believed.
    :ivar why: why it, or a part of it that is wanted, could not be read.
    """

    following: int | None = None
    data: bytes = b''
    why: BmcError | None = None

    @property
    def number(self) -> int | None:
        """Its id, as it says itself."""
        return int.from_bytes(self.data[:2], 'little') if len(self.data) >= _HEADER else None


class _Reading:
    """One pass over the records, with what it has learnt of the controller on the way."""

    def __init__(self, raw: Raw, quick: Raw, place: Place, wanted: frozenset[int] | None, count: int | None) -> None:
        self._raw = raw
        self._quick = quick
        self._place = place
        self._wanted = wanted
        self._count = count
        self._what = f'reading its {place.name}'
        self._reservations = 0
        self._reservation = 0
        self._found: dict[int, bytes] = {}
        self._asked: set[int] = set()
        self._missed: list[str] = []
        self._others: list[str] = []
        # Whole records take one command each, and not every controller gives them; the shortest answers never hold one.
        self._whole = raw.longest > BRIDGED
        self._step = max(_HEADER, min(raw.longest - 4, 32))

    def kept(self) -> Kept:
        """All of them, in their order, as far as they can be read."""
        error = None
        try:
            error = self._walk()
        except BmcError as exc:
            error = exc
        if error is not None:
            self._missed.append(error.what)
        if not self._complete():
            # Where all that there are said to be were read, another id than they were asked by misses none.
            self._missed += self._others
            if self._count is not None and len(self._found) < self._count and not self._missed:
                self._missed.append(f'{self._count} records are said to be there, and {len(self._found)} were read')
        return Kept(records=tuple(self._found.values()), missed=tuple(self._missed), error=error)

    def _complete(self) -> bool:
        """As many as there are said to be were read; neither fewer nor more, which would show that nobody counts them."""
        return self._count is not None and len(self._found) == self._count

    def _walk(self) -> BmcError | None:
        """From each record to the one that it names; where it names none, or one that was read, to the ids behind it.

        :returns: why not even the first one could be read.
        :raises BmcError: it cannot be gone on with.
        """
        self._reservation = self._reserve()
        number, guesses = _FIRST, 0
        why: BmcError | None = None
        while True:
            if len(self._asked) > MOST_RECORDS:
                self._missed.append(f'the records are more than {MOST_RECORDS}')
                return None
            first, sound = not self._asked, False
            self._asked.add(number)
            got = self._record(number)
            if got is None:
                if first and self._count is None:
                    return None
                if not guesses and not first:
                    self._missed.append(f'record {number:04X}h is named and not there')
            else:
                if first and isinstance(got.why, BmcUnsupported | BmcNotAuthorised):
                    return got.why
                why = got.why if first else why
                sound = self._take(number, got)
                if first and got.number is not None:
                    self._asked.add(got.number)
            following = None if got is None else got.following
            if got is not None and got.data:
                guesses = 0
            if following not in (None, _FIRST, _LAST) and following not in self._asked:
                number, guesses = following, 0
                continue
            if self._complete() or (following == _LAST and self._count is None):
                return None
            if following not in (None, _LAST) and not guesses and sound:
                self._missed.append(f'record {number:04X}h names {following:04X}h as the next one: they go round in a circle')
            guesses += 1
            number = got.number if number == _FIRST and got is not None and got.number is not None else number
            number = next(n for n in itertools.count(number + 1) if n not in self._asked and n not in self._found)
            if guesses > MOST_GUESSES or number >= _LAST:
                return why if not self._found else None

    def _take(self, number: int, got: _Got) -> bool:
        """Keep what was read of a record, by its own id; whether nothing that matters of it is missed."""
        if got.why is not None and not self._is_enough(got.data):
            # By 0000h the first record is asked for, which has an id of its own.
            (self._others if number == _FIRST else self._missed).append(f'record {number:04X}h: {got.why.what}')
            return False
        if got.number is None:
            return True
        if got.data[3] not in _KINDS:
            self._missed.append(f'record {number:04X}h is of kind {got.data[3]:02X}h, which there is not')
            return False
        if number not in (_FIRST, got.number):
            self._others.append(f'record {number:04X}h: what came is record {got.number:04X}h')
        self._found.setdefault(got.number, got.data)
        return True

    def _is_enough(self, data: bytes) -> bool:
        """All that matters of a record that cannot be read to its end: its kind, or what it locates, but for its name."""
        if len(data) < _HEADER:
            return False
        return len(data) >= _LEAST_OF_LOCATOR if data[3] in LOCATORS else self._wanted is not None

    def _reserve(self) -> int:
        """A reservation, which reading a part of a record needs; 0 where there is no such thing, or none is given.

        :raises BmcBusy: there were too many already.
        """
        if self._reservations == MOST_RESERVATIONS:
            told = f'{self._what}: {MOST_RESERVATIONS} reservations were cancelled'
            raise BmcBusy(bmc=self._raw.label, what=told, hint='something else reads or changes its SDRs all the time')
        self._reservations += 1
        reply = self._raw(self._place.netfn, self._place.reserve)
        return int.from_bytes(reply.data[:2], 'little') if reply.ok and len(reply.data) >= 2 else 0

    def _record(self, number: int) -> _Got | None:
        """One record, whatever id it has in the end; None: there is none of this number.

        :raises BmcError: it was not answered, or reserved by others again and again.
        """
        got = None
        for _ in range(MOST_JUNK):
            got = self._once(number)
            if got is None or got.number in (None, number) or (number == _FIRST and got.data[3] in _KINDS):
                break
        return got

    def _once(self, number: int) -> _Got | None:
        following, data = None, b''
        why: BmcError | None = None
        whole, step, shorter = self._whole, self._step, False
        while len(data) < (total := self._total(data)):
            count = _WHOLE if whole and not data else min(step, total - len(data))
            reply = self._get(number, len(data), count)
            if reply.code == Code.RESERVATION_CANCELLED:
                wait.sleep(secrets.randbelow(1000) / 1000 * min(0.05 * self._reservations, LONGEST_PAUSE))
                self._reservation = self._reserve()
                data = b''
                continue
            if reply.code == Code.NOT_PRESENT and not data:
                return None
            part = reply.data[2:] if reply.ok else b''
            if part and (len(part) <= count or (not data and len(part) == self._length(part))):
                following = int.from_bytes(reply.data[:2], 'little')
                data += part
                if shorter:
                    self._whole, self._step = whole, step  # it gives no more at once, of no record
                continue
            why = why or self._failure(number, count, reply)
            if reply.code in _NO_MATTER_HOW_MUCH or count == 1:
                return _Got(following=following, data=data if len(data) >= _HEADER else b'', why=why)
            shorter = reply.code in TOO_LONG
            whole, step = False, step if count == _WHOLE else count // 2
        return _Got(following=following, data=data[:total])

    def _get(self, number: int, offset: int, count: int) -> Reply:
        """A part of a record. A controller that is busy is given time where less of it would not help."""
        request = struct.pack('<HHBB', self._reservation, number, offset, count)
        reply = self._quick(self._place.netfn, self._place.get, request)
        if later(self._place.netfn, self._place.get, reply.code) and (reply.code != Code.TIMEOUT or count <= _HEADER):
            reply = self._raw(self._place.netfn, self._place.get, request)
        return reply

    def _failure(self, number: int, count: int, reply: Reply) -> BmcError:
        if not reply.ok:
            return refusal(self._raw, f'{self._what}: record {number:04X}h', reply)
        came = f'{count} bytes were asked for, and {len(reply.data[2:])} came'
        return BmcAnswerInvalid(bmc=self._raw.label, what=f'{self._what}: record {number:04X}h: {came}')

    @staticmethod
    def _length(data: bytes) -> int:
        """Of a record, by its header: some give all of it whatever they are asked for."""
        return _HEADER + data[4] if len(data) >= _HEADER else 0

    def _total(self, data: bytes) -> int:
        """How many bytes of a record are wanted by what is known of it."""
        if len(data) < _HEADER or (self._wanted is not None and data[3] not in self._wanted):
            return _HEADER
        return min(self._length(data), LONGEST_RECORD)


# --------------------------------------------------------------------------------------------------------------------- parsing


def parse(record: bytes) -> Record:
    """What a record says, whatever the bytes.

    Offsets are those of the tables, from 0: id 0, version 2, type 3, length 4, and what the type has from 5 on.
    """
    header = record[:_HEADER].ljust(_HEADER, b'\0')
    number, kind = int.from_bytes(header[:2], 'little'), header[3]
    if len(record) >= _LEAST_OF_LOCATOR and kind == _FRU_LOCATOR:
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
    if len(record) >= _LEAST_OF_LOCATOR and kind == _CONTROLLER_LOCATOR:
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
    if len(record) < 16:
        return None
    coding, length = Coding(record[15] >> 6), record[15] & 0x1F
    return said(Coding.EIGHT_BIT if coding is Coding.BINARY else coding, record[16 : 16 + length])
