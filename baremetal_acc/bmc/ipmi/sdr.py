# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read the sensor data records (SDR) of a controller, and parse the locators of FRUs and of other controllers.

Locators are mixed with many records that describe sensors. The header of each of those is read too, since the record type is in
it.

Source: IPMI 2.0 revision 1.1, sections 33 (SDR Repository), 35 (device SDRs), 43 (records).
"""

import itertools
import secrets
import struct
from dataclasses import dataclass, replace

from baremetal_acc import wait
from baremetal_acc.bmc.ipmi.command import NOT_THERE, TOO_LONG, CommandReply, CompletionCode, NetFn, Raw, refusal
from baremetal_acc.bmc.ipmi.node_busy_retry import later
from baremetal_acc.bmc.ipmi.text import Coding, said
from baremetal_acc.errors import BmcAnswerInvalid, BmcBusy, BmcError, BmcNotAuthorised, BmcUnsupported

MOST_RECORDS = 4096
"""Maximum number of records of one controller. Large servers have a few hundred."""

MOST_RESERVATIONS = 64
"""Maximum number of reservations in one pass. A reservation is cancelled when anybody else makes one, such
as a sensor poller.
"""

LONGEST_PAUSE = 0.5
"""Longest pause before the next reservation, in seconds. Two concurrent readers cancel each other's reservations all the time;
with random pauses one of them finishes. A pass takes some tens of commands, a few ms each.
"""

MOST_READINGS = 3
"""Maximum number of passes over a repository that changes meanwhile."""

LONGEST_RECORD = 255
"""Maximum bytes of a record with its header: offsets beyond cannot be requested. The known types have at most 64 bytes."""

MOST_JUNK = 3
"""Maximum number of attempts for one record while the answer is a record with another id."""

MOST_GUESSES = 8
"""Maximum number of consecutive ids that are tried where the next record id is unknown or wrong."""

BRIDGED = 25
"""A limit on the request length up to this value means that the controller is behind a bridge; its answers are as short."""

_HEADER = 5
_WHOLE = 0xFF
_FIRST, _LAST = 0x0000, 0xFFFF
_FRU_LOCATOR, _CONTROLLER_LOCATOR = 0x11, 0x12

LOCATORS = frozenset({_FRU_LOCATOR, _CONTROLLER_LOCATOR})
"""Record types that are locators."""

_KINDS = frozenset({0x01, 0x02, 0x03, 0x08, 0x09, 0x10, 0x13, 0x14, *LOCATORS, *range(0xC0, 0x100)})
"""All record types that exist. Source: IPMI 2.0 revision 1.1, table 43-1 and following."""

_LEAST_OF_LOCATOR = 14
"""Bytes of a locator, with its header, up to the entity. If only the rest, the name, cannot be read, only the name is lost."""

_NO_MATTER_HOW_MUCH = frozenset(
    {
        *NOT_THERE,
        CompletionCode.BUSY,
        CompletionCode.DESTINATION_UNAVAILABLE,
        CompletionCode.PRIVILEGE,
        CompletionCode.SDR_UPDATE_MODE,
    }
)
"""Completion codes for which a shorter read does not help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgePath:
    """Where a controller keeps records (repository or device SDRs): the commands to read them."""

    netfn: NetFn
    info: int
    reserve: int
    get: int
    name: str


REPOSITORY = BridgePath(netfn=NetFn.STORAGE, info=0x20, reserve=0x22, get=0x23, name='SDR repository')
"""SDR repository of a BMC: the records of the whole machine."""

DEVICE = BridgePath(netfn=NetFn.SENSOR_EVENT, info=0x20, reserve=0x22, get=0x21, name='device SDRs')
"""Device SDRs of any controller: its own records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FruLocator:
    """FRU device locator (record type 11h).

    :ivar number: record id.
    :ivar address: slave address of the FRU's controller, in the eight-bit form (the BMC has 20h).
    :ivar channel: channel on which that controller is reached.
    :ivar logical: the FRU is read by FRU commands; False: it is an EEPROM on a bus of the controller.
    :ivar fru: FRU device id; for an EEPROM its address on the bus.
    :ivar lun: LUN for FRU commands.
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
    """Management controller device locator (record type 12h).

    :ivar fru_inventory: the controller has an FRU of its own.
    """

    number: int
    address: int
    channel: int
    fru_inventory: bool
    entity: int
    instance: int
    name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherSdr:
    """Any other record, or a truncated locator.

    :ivar kind: record type.
    :ivar data: the bytes that were read after the header.
    """

    number: int
    kind: int
    data: bytes

    @property
    def locates(self) -> bool:
        """Whether it is a truncated locator."""
        return self.kind in LOCATORS


Record = FruLocator | ControllerLocator | OtherSdr


# --------------------------------------------------------------------------------------------------------------------- reading


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedRecords:
    """The records of one place, as far as they could be read.

    :ivar records: each with its header.
    :ivar missed: what was not read, one clause each: there may be a locator among it.
    :ivar error: what ended the read early.
    """

    records: tuple[bytes, ...] = ()
    missed: tuple[str, ...] = ()
    error: BmcError | None = None


def read(raw: Raw, place: BridgePath, wanted: frozenset[int] | None = None, *, quick: Raw | None = None) -> CachedRecords:
    """Read the records of one place. If one record cannot be read, the others are still read.

    :param wanted: record types that are read completely; of any other maybe only the header. None: all types.
    :param quick: to the same controller, without retries while it is busy. It is used first: a record that the controller
        cannot return as a whole in time may be readable in parts.
    :raises BmcError: no record could be read.
    """
    kept = CachedRecords()
    for _ in range(MOST_READINGS):
        before = _info(raw, place)
        last, kept = kept, _Reading(raw, quick or raw, place, wanted, before[0]).kept()
        if kept.error is not None:
            if not kept.records:
                raise kept.error
            return kept
        # Some report a running clock as the time of the last change: two equal passes are accepted all the same.
        if before == _info(raw, place) or (kept == last and kept.records):
            return kept
    return replace(kept, missed=(*kept.missed, f'changed while it was read, {MOST_READINGS} times'))


def _info(raw: Raw, place: BridgePath) -> tuple[int | None, bytes | None]:
    """Number of records, and a value that differs after a change; None for each that a controller does not report.

    The value holds the times of the last addition and the last erase. Neither is read for device SDRs: they have a change
    indicator only where they can change.
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
    """Result of reading one record.

    :ivar following: id of the next record; None: not known.
    :ivar data: the record; empty: no valid data.
    :ivar why: why the record, or a wanted part of it, could not be read.
    """

    following: int | None = None
    data: bytes = b''
    why: BmcError | None = None

    @property
    def number(self) -> int | None:
        """The record id in its header."""
        return int.from_bytes(self.data[:2], 'little') if len(self.data) >= _HEADER else None


class _Reading:
    """One pass over the records, and the transfer lengths that the controller has accepted."""

    def __init__(self, raw: Raw, quick: Raw, place: BridgePath, wanted: frozenset[int] | None, count: int | None) -> None:
        self._raw = raw
        self._quick = quick
        self._place = place
        self._wanted = wanted
        self._count = count
        self._what = f'reading the {place.name}'
        self._reservations = 0
        self._reservation = 0
        self._found: dict[int, bytes] = {}
        self._asked: set[int] = set()
        self._missed: list[str] = []
        self._others: list[str] = []
        # A whole record takes one command, if the controller supports it; the short answers over a bridge never hold one.
        self._whole = raw.longest > BRIDGED
        self._step = max(_HEADER, min(raw.longest - 4, 32))

    def kept(self) -> CachedRecords:
        """Read all records, in order, as far as they can be read."""
        error = None
        try:
            error = self._walk()
        except BmcError as exc:
            error = exc
        if error is not None:
            self._missed.append(error.what)
        if not self._complete():
            # If the reported number of records was read, records that came with another id were not missed.
            self._missed += self._others
            if self._count is not None and len(self._found) < self._count and not self._missed:
                self._missed.append(f'the controller reports {self._count} records, but {len(self._found)} were read')
        return CachedRecords(records=tuple(self._found.values()), missed=tuple(self._missed), error=error)

    def _complete(self) -> bool:
        """Whether exactly the reported number of records was read; more would show that the reported number is wrong."""
        return self._count is not None and len(self._found) == self._count

    def _walk(self) -> BmcError | None:
        """Follow the next record ids; where there is none, or it was read before, try the ids after the current one.

        :returns: why not even the first record could be read.
        :raises BmcError: the pass cannot continue.
        """
        self._reservation = self._reserve()
        number, guesses = _FIRST, 0
        why: BmcError | None = None
        while True:
            if len(self._asked) > MOST_RECORDS:
                self._missed.append(f'more than {MOST_RECORDS} records')
                return None
            first, sound = not self._asked, False
            self._asked.add(number)
            got = self._record(number)
            if got is None:
                if first and self._count is None:
                    return None
                if not guesses and not first:
                    self._missed.append(f'record {number:04X}h is referenced, but does not exist')
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
                self._missed.append(f'record {number:04X}h names {following:04X}h as the next one, which was read before')
            guesses += 1
            number = got.number if number == _FIRST and got is not None and got.number is not None else number
            number = next(n for n in itertools.count(number + 1) if n not in self._asked and n not in self._found)
            if guesses > MOST_GUESSES or number >= _LAST:
                return why if not self._found else None

    def _take(self, number: int, got: _Got) -> bool:
        """Keep a record under its own id; whether no wanted part of it is missing."""
        if got.why is not None and not self._is_enough(got.data):
            # 0000h requests the first record, whose own id may differ.
            (self._others if number == _FIRST else self._missed).append(f'record {number:04X}h: {got.why.what}')
            return False
        if got.number is None:
            return True
        if got.data[3] not in _KINDS:
            self._missed.append(f'record {number:04X}h is of kind {got.data[3]:02X}h, which is unknown')
            return False
        if number not in (_FIRST, got.number):
            self._others.append(f'record {number:04X}h: the answer is record {got.number:04X}h')
        self._found.setdefault(got.number, got.data)
        return True

    def _is_enough(self, data: bytes) -> bool:
        """Whether the read part of a record is enough: its type, or for a locator everything except the name."""
        if len(data) < _HEADER:
            return False
        return len(data) >= _LEAST_OF_LOCATOR if data[3] in LOCATORS else self._wanted is not None

    def _reserve(self) -> int:
        """Reserve the records, which partial reads need; 0 where the controller has no reservations, or grants none.

        :raises BmcBusy: :data:`MOST_RESERVATIONS` were made already.
        """
        if self._reservations == MOST_RESERVATIONS:
            told = f'{self._what}: {MOST_RESERVATIONS} reservations were cancelled'
            raise BmcBusy(bmc=self._raw.label, what=told, hint='another client keeps reading or changing the SDRs')
        self._reservations += 1
        reply = self._raw(self._place.netfn, self._place.reserve)
        return int.from_bytes(reply.data[:2], 'little') if reply.ok and len(reply.data) >= 2 else 0

    def _record(self, number: int) -> _Got | None:
        """Read one record, whatever id it turns out to have; None: there is no record of this id.

        :raises BmcError: no answer, or the reservation was cancelled too often.
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
            if reply.code == CompletionCode.RESERVATION_CANCELLED:
                wait.sleep(secrets.randbelow(1000) / 1000 * min(0.05 * self._reservations, LONGEST_PAUSE))
                self._reservation = self._reserve()
                data = b''
                continue
            if reply.code == CompletionCode.NOT_PRESENT and not data:
                return None
            part = reply.data[2:] if reply.ok else b''
            if part and (len(part) <= count or (not data and len(part) == self._length(part))):
                following = int.from_bytes(reply.data[:2], 'little')
                data += part
                if shorter:
                    self._whole, self._step = whole, step  # the limit holds for all records
                continue
            why = why or self._failure(number, count, reply)
            if reply.code in _NO_MATTER_HOW_MUCH or count == 1:
                return _Got(following=following, data=data if len(data) >= _HEADER else b'', why=why)
            shorter = reply.code in TOO_LONG
            whole, step = False, step if count == _WHOLE else count // 2
        return _Got(following=following, data=data[:total])

    def _get(self, number: int, offset: int, count: int) -> CommandReply:
        """Read a part of a record. A busy controller is retried only where a shorter read would not help."""
        request = struct.pack('<HHBB', self._reservation, number, offset, count)
        reply = self._quick(self._place.netfn, self._place.get, request)
        if later(self._place.netfn, self._place.get, reply.code) and (reply.code != CompletionCode.TIMEOUT or count <= _HEADER):
            reply = self._raw(self._place.netfn, self._place.get, request)
        return reply

    def _failure(self, number: int, count: int, reply: CommandReply) -> BmcError:
        if not reply.ok:
            return refusal(self._raw, f'{self._what}: record {number:04X}h', reply)
        came = f'length {count} was requested, but {len(reply.data[2:])} received'
        return BmcAnswerInvalid(bmc=self._raw.label, what=f'{self._what}: record {number:04X}h: {came}')

    @staticmethod
    def _length(data: bytes) -> int:
        """Length of a record by its header: some controllers return the whole record whatever length is requested."""
        return _HEADER + data[4] if len(data) >= _HEADER else 0

    def _total(self, data: bytes) -> int:
        """How many bytes of a record to read, as far as its type and length are known."""
        if len(data) < _HEADER or (self._wanted is not None and data[3] not in self._wanted):
            return _HEADER
        return min(self._length(data), LONGEST_RECORD)


# --------------------------------------------------------------------------------------------------------------------- parsing


def parse(record: bytes) -> Record:
    """Parse a record. Any bytes are accepted.

    Offsets are those of the specification's tables, from 0: id 0, version 2, type 3, length 4, and the type's fields from 5 on.
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
    return OtherSdr(number=number, kind=kind, data=record[_HEADER:])


def _name(record: bytes) -> str | None:
    """The id string of a locator. SDR writers use the coding "Unicode" for 8-bit text, so it is decoded as such."""
    if len(record) < 16:
        return None
    coding, length = Coding(record[15] >> 6), record[15] & 0x1F
    return said(Coding.EIGHT_BIT if coding is Coding.BINARY else coding, record[16 : 16 + length])
