# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Inspection, firmware firewall and HPM.1 upload against a BMC that answers IPMI as it likes.

The BMC is the emulated one, with a card of its own and two controllers behind it, asked in this process without sockets, by a
clock of its own. What it answers is changed by a seed: each command's answer on its way out, also that of the controllers
behind (so that it comes with right checksums), and what the bridge makes of it. The emulator knows what is really so.

``python -m tests.hostile.ipmi --seed 1`` soaks, and ``--only NUMBER`` has one run again.
"""

# ruff: noqa: T201

import argparse
import dataclasses
import functools
import io
import json
import random
import resource as process
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any
from unittest import mock

from baremetal_acc import wait
from baremetal_acc.bmc.driver import BmcAddress, Document
from baremetal_acc.bmc.ipmi import controller_path, update
from baremetal_acc.bmc.ipmi.bridge import Bridge
from baremetal_acc.bmc.ipmi.command import CommandReply
from baremetal_acc.bmc.ipmi.connection import IpmiConnection
from baremetal_acc.bmc.ipmi.controller_access import ControllerAccess
from baremetal_acc.bmc.ipmi.documents import IpmiWriter
from baremetal_acc.bmc.ipmi.firmware_firewall import apply, masks
from baremetal_acc.bmc.ipmi.hpm import upgrade_target
from baremetal_acc.emulator.ipmi.chassis import EmulatedChassis
from baremetal_acc.emulator.ipmi.controller import (
    IPMB,
    LAN,
    SYSTEM,
    CommandAnswer,
    CommandRequest,
    ControllerIdentity,
    ControllerPlace,
    EmulatedController,
    EmulatedPrivilege,
    Reach,
)
from baremetal_acc.emulator.ipmi.firewall import EmulatedFirewall
from baremetal_acc.emulator.ipmi.fru import EmulatedBoardArea, EmulatedProductArea, FruDevices, inventory
from baremetal_acc.emulator.ipmi.sdr import EmulatedControllerLocator, EmulatedFruLocator, Repository
from baremetal_acc.emulator.ipmi.users import Users
from baremetal_acc.errors import BmcAnswerInvalid, BmcError, BmcUnreachable, StateError
from baremetal_acc.model.image import Upload
from baremetal_acc.model.inventory import TaskReading, TaskState
from baremetal_acc.model.lock import LockState
from baremetal_acc.model.ref import HOST, Ref
from tests.hostile.bmc import seeded
from tests.unit.bmc.ipmi import cards
from tests.unit.emulator.ipmi.machines import FPGA_KEY, Rig, upgrade

NOW = datetime(2026, 11, 24, 2, 0, tzinfo=UTC)
FIREWALL, COMPONENT = '/ipmi/firewall/f', '/ipmi/0-72/hpm/0'
COMPONENTS = (COMPONENT, '/ipmi/0-72/hpm/1')
VERSION, WRITTEN = '1.02.00070000', '1.03.00090000'
"""Versions of the emulator, 1.2.0.7 and 1.3.0.9, as HPM.1 has them."""
BMC, AMC, OTHER = 0x20, 0x72, 0x74

COMMAND_SECONDS = 0.002
BUDGET = 30.0
SLACK = 15.0
"""Seconds of the BMC's clock: of a command, of a look, and what may be under way when that is over."""

MOST_COMMANDS = 400_000
"""In a look that has all the time that it wants: the driver's own limit, and firmware of 64 controllers over two bridges."""

MOST_TURNS = 400

SERIALS = {(BMC, 3): 'A-1', (AMC, 0): 'A-2', (OTHER, 0): 'A-3'}
PLACES = {'/ipmi/fru/3': (BMC, 3), '/ipmi/0-72/fru/0': (AMC, 0), '/ipmi/0-74/fru/0': (OTHER, 0)}

GET_MESSAGE = (0x06, 0x33)
SEND_MESSAGE = (0x06, 0x34)
DEVICE_ID = (0x06, 0x01)
SET_ENABLES, GET_ENABLES = (0x06, 0x60), (0x06, 0x61)
ACTIVATE, ROLLBACK, PROPERTIES = (0x2C, 0x35), (0x2C, 0x38), (0x2C, 0x2F)

EVIL = b'\x1b[2J\x1b]0;owned\x07\r\n\0\x7f\x9b31m\x85\xad\xff\xfe\xd8\x00\xdc\x2e\x20'


class Kind(Enum):
    """What is done to an answer."""

    CODE = 'any completion code'
    ORDINARY = 'a completion code that says that there is nothing'
    CUT = 'cut short'
    EMPTY = 'no data'
    LONGER = 'longer'
    FLIPPED = 'some bits turned'
    NOISE = 'other bytes of that length'
    ANY = 'any bytes'
    ONES = 'all ones'
    OPEN = 'all ones, and a success'
    ZEROS = 'all zeros'
    COUNTED = 'another first byte'
    AGAIN = 'the answer to something before'
    SAME_AGAIN = 'the last answer to the same command'
    OTHERS = 'what another controller answers'
    NEXT = 'another record that follows'
    EVIL = 'what a terminal obeys'
    SILENT = 'nothing'
    LOST = 'nothing, and it was done'
    DAMAGED = 'what is no answer'
    FOREVER = 'one code from now on'


LOUD = frozenset({Kind.DAMAGED, Kind.SILENT, Kind.EMPTY})
"""After these a device that is missing is missing with a gap: no answer was one that says that there is nothing."""

_ORDINARY = (0xC1, 0xC2, 0xC9, 0xCB, 0xCC, 0xD3, 0xD4, 0x83)
_FOREVER = (0x80, 0x81, 0xC0, 0xC3, 0xC5, 0xCA, 0xD2, 0xD3, 0xFF)


class Hostile:
    """Changes answers, by a seed.

    :param only: kinds that are used.
    :param rate: of the answers; ``aim``: commands that are meant, all when empty.
    :ivar touched: what was changed, by address of the controller, NetFn and command; ``used`` how.
    """

    def __init__(self, rng: random.Random, *, only: tuple[Kind, ...] = tuple(Kind), rate: float = 0.1) -> None:
        self._rng = rng
        self._kinds = only
        self._rate = rate
        self.aim: frozenset[tuple[int, int]] = frozenset()
        self.active = True
        self.touched: Counter[tuple[int, int, int]] = Counter()
        self.used: Counter[Kind] = Counter()
        self.said: list[str] = []
        self._forever: dict[tuple[int, int, int], int] = {}
        self._last: dict[tuple[int, int], bytes] = {}
        self._any: list[bytes] = [b'']
        self.others: list[EmulatedController] = []

    def change(self, address: int, request: CommandRequest, answer: CommandAnswer) -> CommandAnswer:
        """An answer as it goes out."""
        key = (address, request.netfn, request.command)
        honest = answer.data
        if self.active and key in self._forever:
            answer = CommandAnswer(self._forever[key])
            self._note(key, Kind.FOREVER, request, answer)
        elif self.active and (not self.aim or key[1:] in self.aim) and self._rng.random() < self._rate:
            kind = self._rng.choice(self._kinds)
            answer = self._changed(kind, key, request, answer)
            self._note(key, kind, request, answer)
        self._last[key[1:]] = honest
        self._any = [*self._any[-8:], honest]
        return answer

    def _note(self, key: tuple[int, int, int], kind: Kind, request: CommandRequest, answer: CommandAnswer) -> None:
        self.touched[key] += 1
        self.used[kind] += 1
        if len(self.said) < 400:
            self.said.append(
                f'{key[0]:02X}h {key[1]:02X}/{key[2]:02X} {request.data.hex()}: {kind.value}: '
                f'{answer.code:02X} {answer.data.hex()}'
            )

    def _changed(self, kind: Kind, key: tuple[int, int, int], request: CommandRequest, answer: CommandAnswer) -> CommandAnswer:
        rng, data = self._rng, answer.data
        some = rng.randrange(len(data)) if data else 0
        match kind:
            case Kind.CODE:
                return CommandAnswer(rng.randrange(1, 256), data if rng.random() < 0.5 else b'')
            case Kind.ORDINARY:
                return CommandAnswer(rng.choice(_ORDINARY))
            case Kind.FOREVER:
                self._forever[key] = rng.choice(_FOREVER)
                return CommandAnswer(self._forever[key])
            case Kind.CUT:
                data = data[:some]
            case Kind.EMPTY:
                data = b''
            case Kind.LONGER:
                data += rng.randbytes(rng.randrange(1, 40))
            case Kind.FLIPPED:
                for _ in range(rng.randrange(1, 4) if data else 0):
                    at = rng.randrange(len(data))
                    data = data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
            case Kind.NOISE:
                data = rng.randbytes(len(data))
            case Kind.ANY:
                data = rng.randbytes(rng.randrange(256))
            case Kind.ONES:
                data = b'\xff' * len(data)
            case Kind.OPEN:
                return CommandAnswer(0, b'\xff' * 17)
            case Kind.ZEROS:
                data = bytes(len(data))
            case Kind.COUNTED:
                data = bytes([rng.randrange(256)]) + data[1:]
            case Kind.AGAIN:
                data = rng.choice(self._any)
            case Kind.SAME_AGAIN:
                data = self._last.get(key[1:], data)
            case Kind.OTHERS:
                # Never itself: what it was asked would be done a second time.
                other = rng.choice([one for one in self.others if one.address != key[0]])
                around, other.around = other.around, None
                try:
                    return other.answer(dataclasses.replace(request, channel=IPMB, qualifier=b''))
                finally:
                    other.around = around
            case Kind.NEXT:
                following = rng.choice((0, 0, 1, 2, 3, rng.randrange(0x10000), 0xFFFE, 0xFFFF))
                data = following.to_bytes(2, 'little') + data[2:]
            case Kind.EVIL:
                turned = rng.randrange(len(EVIL))
                data = data[:some] + (EVIL[turned:] + EVIL)[: len(data) - some]
            case Kind.SILENT:
                return CommandAnswer(0xC0, reach=Reach.UNHEARD)
            case Kind.LOST:
                return CommandAnswer(0xC0, reach=Reach.LOST)
            case Kind.DAMAGED:
                return CommandAnswer(0xC0, b'damaged', reach=Reach.LOST)
        return dataclasses.replace(answer, code=answer.code, data=data)


def board(name: str, serial: str) -> bytes:
    """An FRU with a board and a product area."""
    return inventory(
        board=EmulatedBoardArea(manufacturer='Maker', name=name, serial=f'B{serial}', part_number='BP-1'),
        product=EmulatedProductArea(manufacturer='Xilinx', name=name, part_number='PN-1', version='R1', serial=serial),
    )


def evil_memory(rng: random.Random) -> bytes:
    """A memory whose checksums are right, and whose texts and places are not."""

    def field() -> bytes:
        known = rng.choice((b'Alveo U50', b'Alveo U250', b'A-1', b'A-2'))
        body = rng.choice((known, EVIL, rng.randbytes(rng.randrange(60))))[: rng.randrange(1, 60)]
        return bytes([rng.choice((0x00, 0x40, 0x80, 0xC0, 0xC0, 0xC0)) | len(body)]) + body

    def area(first: int) -> bytes:
        return cards.area(
            bytes([rng.choice((0, 25, 1, 8, 0xFF))]) + rng.randbytes(first) + b''.join(field() for _ in range(rng.randrange(8)))
        )

    records = b''.join(
        cards.record(rng.choice((0xC0, 0xC1, 0x02)), rng.choice((b'\x5a\x31\x00', b'')) + rng.randbytes(rng.randrange(40)))
        for _ in range(rng.randrange(5))
    )
    whole = cards.memory(chassis=area(0), board=area(3), product=area(0), records=records, size=2048)
    if rng.random() < 0.4:  # areas that begin in each other, or outside
        head = bytes([1, *(rng.choice((0, 1, 2, 5, rng.randrange(256))) for _ in range(5)), 0])
        whole = head + cards.zero(head) + whole[8:]
    return whole


def is_required(place: ControllerPlace) -> bool:
    """No lock holds while that is open."""
    return place.command in apply.REQUIRED.get((place.netfn, place.qualifier), ())


def is_possible(place: ControllerPlace) -> bool:
    """It is closed where it can be."""
    return place.netfn in apply.VENDORS or place.command in apply.WHERE_POSSIBLE.get((place.netfn, place.qualifier), ())


class Quick(EmulatedFirewall):
    """A firewall of a controller whose commands are always the same."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._is_there = functools.cache(super()._is_there)  # type: ignore[method-assign]
        self._known: dict[tuple[int, bytes, bytes], tuple[int, tuple[ControllerPlace, ...]]] = {}
        self._fixed: dict[tuple[int, bytes], bytes] = {}
        self._places: dict[tuple[int, bytes], tuple[int, list[tuple[int, ControllerPlace]]]] = {}

    def _range(self, request: CommandRequest, qualifier: bytes) -> tuple[int, tuple[ControllerPlace, ...]]:
        key = (request.channel, request.data[:3], qualifier)
        if key not in self._known:
            self._known[key] = super()._range(request, qualifier)
        return self._known[key]

    def _support(self, request: CommandRequest) -> bytes:
        return self._once(request, super()._support)

    def _configurable(self, request: CommandRequest) -> bytes:
        return self._once(request, super()._configurable)

    def _enables(self, request: CommandRequest) -> bytes:
        key = (request.channel, request.data)
        if key not in self._places:
            channel, places = self._range(request, request.data[3:])
            self._places[key] = channel, [(n, place) for n, place in enumerate(places) if self._is_there(place)]
        channel, there = self._places[key]
        return sum(1 << n for n, place in there if place not in self.disabled[channel]).to_bytes(16, 'little')

    def _once(self, request: CommandRequest, serve: Callable[[CommandRequest], bytes]) -> bytes:
        key = (request.command, request.data)
        if key not in self._fixed:
            self._fixed[key] = serve(request)
        return self._fixed[key]


class Box(Rig):
    """A server with a card on the BMC and two cards with controllers of their own; it obeys the firewall and takes firmware.

    As a :class:`~baremetal_acc.bmc.ipmi.session_renewal.RmcpSessions` it is what the driver sends its commands by.

    :ivar commands: that were sent; ``arrived`` those that a controller executed, by its address.
    :ivar told: what Get Command Enables said that is open to the host, as it went out, by what was asked for.
    """

    label = 'host (hostile)'
    longest = 240

    def __init__(self) -> None:
        super().__init__(virtual=True)
        users = Users()
        users.put(2, 'admin', b'Sixteen is it 16', EmulatedPrivilege.ADMINISTRATOR)
        users.join(self.bmc)
        EmulatedChassis(lambda: True, lambda wanted: None).join(self.bmc)
        self.other = EmulatedController(
            identity=ControllerIdentity(device_id=0x12, support=0x08), address=OTHER, channels=(IPMB,)
        )
        self.bmc.behind[IPMB, OTHER] = self.other
        self.memories = [
            (FruDevices({0: board('Server 9', 'S-1'), 3: board('Alveo U250', 'A-1')}), self.bmc),
            (FruDevices({0: board('Alveo U50', 'A-2')}, longest=20), self.amc),
            (FruDevices({0: board('Alveo U50', 'A-3')}, longest=20), self.other),
        ]
        for memory, controller in self.memories:
            memory.join(controller)
        Repository(
            (
                EmulatedFruLocator(name='Card 3', fru_id=3, entity=0x0B, instance=1),
                EmulatedControllerLocator(name='AMC 1', address=AMC, instance=0x61),
                EmulatedControllerLocator(name='AMC 2', address=OTHER, instance=0x62),
            ),
            longest=20,
        ).join(self.bmc)
        for netfn, qualifier, command in (
            (0x30, b'', 0x70),
            (0x30, b'', 0xF0),
            (0x2E, b'\x57\x01\x00', 0x10),
            (0x02, b'', 0x20),
            (0x0C, b'', 0x10),
            (0x0C, b'', 0x31),
            (0x2C, b'\x52', 0x02),
        ):
            self.bmc.add(netfn, command, lambda _: b'', privilege=EmulatedPrivilege.USER, qualifier=qualifier)
        self.wall = Quick(self.bmc, self.machine, 'host')
        self.wall.join()
        self.controllers = {BMC: self.bmc, AMC: self.amc, OTHER: self.other}
        for address, controller in self.controllers.items():
            controller.around = functools.partial(self._around, address)
        self.begin(Hostile(random.Random(0), rate=0.0))

    def begin(self, hostile: Hostile, *, queue: bool = False, budget: float = BUDGET) -> None:
        """Another run. What was written before stays."""
        self.hostile = hostile
        hostile.others = list(self.controllers.values())
        self.commands = 0
        self.arrived: list[tuple[int, int, int, bytes]] = []
        self.told: dict[bytes, int] = {}
        self.queue: list[bytes] | None = [] if queue else None
        self.budget = budget
        self.until = float('inf')
        self.stopped = False

    def _around(
        self, address: int, request: CommandRequest, execute: Callable[[CommandRequest], CommandAnswer]
    ) -> CommandAnswer:
        self.arrived.append((address, request.netfn, request.command, request.data))
        return self.hostile.change(address, request, execute(request))

    # -- as the driver sees it ------------------------------------------------------------------------------------------

    def __call__(
        self, netfn: int, command: int, data: bytes = b'', *, lun: int = 0, once: bool = False, within: timedelta | None = None
    ) -> CommandReply:
        """Send a command."""
        if len(data) > self.longest:
            raise AssertionError(f'{len(data)} bytes of data')
        self.commands += 1
        self.clock.advance(COMMAND_SECONDS)
        if self.commands > MOST_COMMANDS:
            raise AssertionError(f'more than {MOST_COMMANDS} commands')
        if self.clock.now() >= self.until:
            raise BmcUnreachable(bmc=self.label, what='the time is over')
        answer = self.bmc.answer(
            CommandRequest(
                channel=LAN, netfn=netfn, command=command, data=data, lun=lun, privilege=EmulatedPrivilege.ADMINISTRATOR
            )
        )
        if self.queue is not None and (netfn, command) == GET_MESSAGE and answer.code == 0xC1:
            answer = CommandAnswer(0, self.queue.pop(0)) if self.queue else CommandAnswer(0x80)
        if answer.data == b'damaged':
            raise BmcAnswerInvalid(bmc=self.label, what='what came is no answer')
        if answer.reach is not Reach.ANSWERED:
            self.clock.advance(0.5)
            raise BmcUnreachable(bmc=self.label, what='no answer came')
        body = answer.data
        if answer.then is not None and answer.code == 0:
            whole = answer.then.encoded()
            if self.queue is None:
                body = whole + body
            else:
                self.queue.append(b'\0' + whole[1:])
        if (netfn, command) == GET_ENABLES and answer.code == 0 and data[:1] == b'\x0f':
            self.told[data[1:]] = self.told.get(data[1:], 0) | int.from_bytes(body[:16], 'little')
        return CommandReply(answer.code, body)

    def ready(self) -> 'Box':
        """It needs no login."""
        return self

    def close(self) -> None:
        """It has no session."""

    def __enter__(self) -> 'Box':
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @contextmanager
    def limited(self, budget: timedelta) -> Iterator[None]:
        """Use no more than this time."""
        before, self.until = self.until, self.clock.now() + budget.total_seconds()
        try:
            yield
        finally:
            self.until = before

    # -- what is really so ----------------------------------------------------------------------------------------------

    @property
    def open(self) -> frozenset[tuple[int, int]]:
        """What the lock has to close, exists, and is taken from the host, by NetFn and command."""
        return frozenset(
            (place.netfn, place.command)
            for place in self.bmc.commands
            if place not in self.wall.disabled[SYSTEM]
            and (is_required(place) or (is_possible(place) and (place.netfn, place.command) not in self.wall.fixed))
        )

    def shut(self, but: frozenset[ControllerPlace] = frozenset()) -> None:
        """Close all that the lock closes, by hand."""
        self.wall.disabled[SYSTEM] = {p for p in self.bmc.commands if is_required(p) or is_possible(p)} - but


class Access(ControllerAccess):
    """The controllers of a box; whoever asks is its administrator."""

    def administrator(self) -> Any:
        """The box."""
        return self.operator


def connected(address: BmcAddress, box: Box) -> IpmiConnection:
    """A connection by a box."""
    return IpmiConnection(address, Access(None, box, address.budget), None)  # type: ignore[arg-type]


ADDRESS = BmcAddress(name=HOST, address='ipmi://192.0.2.1', username='admin', password='Sixteen is it 16')


@dataclass(slots=True, kw_only=True)
class Ran:
    """One run.

    :ivar wrong: what must not be.
    :ivar ended: in what.
    """

    name: str
    hostile: Hostile
    commands: int = 0
    ended: str = ''
    wrong: list[str] = field(default_factory=list)


@contextmanager
def quickly(box: Box) -> Iterator[None]:
    """Nobody waits: it is the BMC's clock that counts."""
    bridge = functools.partial(Bridge, now=box.clock.now, sleep=box.clock.advance)
    with (
        mock.patch.object(wait, 'sleep', box.clock.advance),
        mock.patch.object(controller_path, 'Bridge', bridge),
    ):
        yield


@functools.cache
def shared_box() -> Box:
    """For runs that change nothing that is not put back."""
    return Box()


RECORDS = 4000


class Endless(Box):
    """A BMC that has always more to tell: controllers, records, memories of 64 KiB that it gives byte by byte, components."""

    longest = 240
    asked = 0

    def __call__(
        self, netfn: int, command: int, data: bytes = b'', *, lun: int = 0, once: bool = False, within: timedelta | None = None
    ) -> CommandReply:
        """Send a command."""
        self.asked += 1
        body = self._body(netfn, command, data)
        if (netfn, command) != SEND_MESSAGE:
            return CommandReply(0, body)
        to, inner = data[1], data[2] >> 2
        body = self._body(inner, data[6], data[7:-1])
        head = bytes([0x20, (inner | 1) << 2])
        tail = bytes([to, data[5], data[6], 0]) + body
        return CommandReply(0, head + cards.zero(head) + tail + cards.zero(tail))

    def _body(self, netfn: int, command: int, data: bytes) -> bytes:
        match netfn, command:
            case 0x06, 0x01:
                return bytes([0x20, 0x81, 2, 5, 2, 0xFF]) + bytes(9)
            case 0x0A | 0x04, 0x20:
                return bytes(14)
            case 0x0A | 0x04, 0x22:
                return b'\1\0'
            case 0x0A | 0x04, 0x21 | 0x23:
                number = int.from_bytes(data[2:4], 'little')
                made = cards.fru_locator if number & 1 else cards.mc_locator
                record = made(number, address=number >> 3 & 0xFE, channel=number >> 2 & 0xF, name='x' * 16)
                count = 255 if data[5] == 0xFF else data[5]
                following = number + 1 if number < RECORDS else 0xFFFF
                return following.to_bytes(2, 'little') + record[data[4] : data[4] + count]
            case 0x0A, 0x10:
                return b'\xff\xff\0'
            case 0x0A, 0x11:
                at = int.from_bytes(data[1:3], 'little')
                return b'\1' + ENDLESS[at : at + 1]
            case 0x2C, 0x2E:
                return b'\0\0\xff\xff\xff\xff\xff\xff'
            case 0x06, 0x42:
                return bytes((data[0], 4, 1, 0x80))
            case 0x06, 0x44:
                return b'\x3f\x7f\x3f\x34'
        return b'\0' + b'\xff' * 19


ENDLESS = (b'\1\0\0\0\0\2\0' + cards.zero(b'\1\2') + bytes(8) + b''.join(cards.record(0x02, bytes(127)) for _ in range(500)))[
    :0xFFFF
]


# ----------------------------------------------------------------------------------------------------------------- the runs

AIMS = (
    (),
    (),
    (DEVICE_ID,),
    ((0x0A, 0x20), (0x0A, 0x22), (0x0A, 0x23)),
    ((0x0A, 0x10), (0x0A, 0x11)),
    ((0x2C, 0x2E), PROPERTIES),
    (SEND_MESSAGE, GET_MESSAGE),
    ((0x06, 0x42), (0x06, 0x44), (0x06, 0x46), (0x0C, 0x02), (0x00, 0x01)),
)
WALL = (
    (),
    ((0x06, 0x09),),
    ((0x06, 0x0A),),
    ((0x06, 0x0A), (0x06, 0x0C)),
    ((0x06, 0x0C),),
    ((0x06, 0x64), (0x06, 0x09)),
    (GET_ENABLES,),
    ((0x06, 0x09), (0x06, 0x0A), (0x06, 0x0C), (0x06, 0x64), GET_ENABLES),
    (SET_ENABLES,),
)
UPLOAD = (
    (),
    ((0x2C, 0x32),),
    ((0x2C, 0x34),),
    ((0x2C, 0x34), (0x2C, 0x36), (0x2C, 0x37)),
    (ACTIVATE, ROLLBACK),
    ((0x2C, 0x2E), PROPERTIES),
    ((0x2C, 0x31), (0x2C, 0x33), (0x2C, 0x30)),
    (SEND_MESSAGE,),
)


def hostile(rng: random.Random, aims: tuple[tuple[tuple[int, int], ...], ...]) -> Hostile:
    """What is done in a run."""
    only = tuple(Kind) if rng.random() < 0.5 else tuple(rng.sample(sorted(Kind, key=str), rng.randrange(1, 3)))
    if rng.random() < 0.15:
        only = tuple(sorted(LOUD, key=str))
    made = Hostile(rng, only=only, rate=rng.choice((0.01, 0.03, 0.1, 0.3, 1.0)))
    made.aim = frozenset(rng.choice(aims))
    return made


def look(seed: int, number: int, given: Hostile | None = None) -> Ran:
    """A look, by the driver."""
    rng = seeded(seed, number, 'look')
    box = shared_box()
    box.wall.disabled[SYSTEM].clear()
    honest = [(memory.contents, dict(memory.contents)) for memory, _ in box.memories]
    evil = rng.random() < 0.3
    if evil:
        for memory, _ in box.memories:
            memory.contents.update({one: bytearray(evil_memory(rng)) for one in memory.contents if rng.random() < 0.7})
    if rng.random() < 0.5:
        left = [place for place in sorted(box.bmc.commands) if rng.random() < 0.05]
        box.shut(but=frozenset(left))
    made = given or hostile(rng, AIMS + WALL[1:-1])
    ran = Ran(name='look', hostile=made)
    box.begin(made, queue=rng.random() < 0.3)
    address = dataclasses.replace(ADDRESS, budget=timedelta(seconds=3600 if rng.random() < 0.01 else BUDGET))
    began = box.clock.now()
    seen = None
    try:
        with quickly(box):
            seen = connected(address, box).look(NOW)
            ran.ended = 'look'
    except BmcError as exc:
        ran.ended = type(exc).__name__
        _printable(ran, 'the error', str(exc))
    except Exception:  # noqa: BLE001 - whatever else it is, that is what is looked for
        ran.wrong.append(f'no error of ours:\n{traceback.format_exc()}')
    finally:
        for contents, before in honest:
            contents.update(before)
    ran.commands = box.commands
    took = box.clock.now() - began
    assert address.budget is not None
    if took > address.budget.total_seconds() + SLACK:
        ran.wrong.append(f'took {took:.0f} s')
    if seen is None:
        return ran
    for one in (*seen.accelerators, *seen.platform_devices, *seen.gaps, dataclasses.replace(seen.facts, accounts=None)):
        _texts(ran, dataclasses.asdict(one))
    accounts = seen.facts.accounts
    if accounts is not None:
        _texts(ran, {'accounts': [*map(str, accounts.users), *accounts.unguarded, accounts.unread or '']})
    documents = seen.reader._documents
    _texts(ran, documents)
    json.dumps(documents)
    _attributed(ran, box, seen, evil)
    if FIREWALL in documents:
        locked(ran, box, documents[FIREWALL]['State'], documents[FIREWALL]['Closes'])
    return ran


def _texts(ran: Ran, value: Any, where: str = '') -> None:
    if isinstance(value, str):
        _printable(ran, where, value)
    elif isinstance(value, dict):
        for name, part in value.items():
            _texts(ran, part, f'{where}.{name}')
    elif isinstance(value, list | tuple | set | frozenset):
        for part in value:
            _texts(ran, part, where)


def _printable(ran: Ran, where: str, text: str) -> None:
    if not text.isprintable():
        ran.wrong.append(f'{where} has control characters: {text!r}')


def _attributed(ran: Ran, box: Box, seen: Any, evil: bool) -> None:
    """Each device and each component is there once, and says what stands there, or what was said."""
    touched = ran.hostile.touched
    ids = Counter(a.id for a in seen.accelerators)
    refs = Counter(ref.uri for a in seen.accelerators for ref in (*a.refs, *(c.ref for c in a.firmware)))
    refs += Counter(p.ref.uri for p in seen.platform_devices)
    ran.wrong += [f'{what} is told {times} times' for what, times in (ids + refs).items() if times > 1]
    bridged = (BMC, *SEND_MESSAGE) in touched or (BMC, *GET_MESSAGE) in touched
    for one in seen.accelerators:
        place = PLACES.get(one.primary.uri)
        if place is None:
            if not touched and not evil:
                ran.wrong.append(f'{one.primary.uri} is not there')
            continue
        changed = any((place[0], 0x0A, command) in touched for command in (0x10, 0x11))
        if not evil and not changed and not (bridged and place[0] != BMC) and one.serial != SERIALS[place]:
            ran.wrong.append(f'{one.primary.uri} has the serial number {one.serial}')
        for item in one.firmware if not bridged and (place[0], *PROPERTIES) not in touched else ():
            true = VERSION if item.ref.uri in COMPONENTS else None
            if item.version != true:
                ran.wrong.append(f'{item.ref.uri} has the version {item.version}')
    missing = set(PLACES) - {a.primary.uri for a in seen.accelerators}
    hidden = any(gap.hides for gap in seen.gaps)
    if missing and not hidden and not evil and not (set(ran.hostile.used) - LOUD):
        ran.wrong.append(f'without a gap that may hide one there is no {", ".join(sorted(missing))}')


def locked(ran: Ran, box: Box, state: str, closes: str | None) -> None:
    """Locked is only told when it is so, or when Get Command Enables lied; what would be closed could be opened again."""
    if closes is not None:
        try:
            apply.parse_undo(closes)
        except StateError:
            ran.wrong.append(f'nobody could open again what would be closed: a record of {len(closes)} characters')
    if state != LockState.LOCKED_REPORTED or (BMC, *GET_ENABLES) in ran.hostile.touched:
        return
    # Which commands of a vendor, and of those that are closed where they can be, is known from the BMC alone.
    lied = {command for address, netfn, command in ran.hostile.touched if (address, netfn) == (BMC, 0x06)}
    vendors = lied & {0x09, 0x0A, 0x0C, 0x64}
    required = {(place.netfn, place.command) for place in box.bmc.commands if is_required(place)}
    left = sorted(one for one in box.open if one in required or not vendors)
    if left:
        ran.wrong.append('locked, and open are ' + ', '.join(f'{netfn:02X}/{command:02X}' for netfn, command in left))


def wall(seed: int, number: int, given: Hostile | None = None) -> Ran:
    """The lock is engaged and released, or only read."""
    rng = seeded(seed, number, 'wall')
    box = shared_box()
    box.wall.disabled[SYSTEM].clear()
    before = {place for place in sorted(box.bmc.commands) if rng.random() < rng.choice((0.0, 0.1))}
    box.wall.disabled[SYSTEM] = {
        place for place in before if (place.netfn, place.command) not in {*box.wall.fixed, SET_ENABLES, GET_ENABLES}
    }
    before = set(box.wall.disabled[SYSTEM])
    lan = set(box.wall.disabled[LAN])
    made = given or hostile(rng, WALL)
    made.active = False
    ran = Ran(name='wall', hostile=made)
    box.begin(made)
    writer = IpmiWriter(ADDRESS, box)  # type: ignore[arg-type]
    releases = rng.random() < 0.5
    try:
        with quickly(box):
            document = writer.fresh(FIREWALL)
            record = str(document.body['Closes'])
            if releases:
                writer.patch(document, {'Closed': True})
                if box.open:
                    ran.wrong.append(f'an honest BMC is not locked: {sorted(box.open)}')
            made.active, box.told, since = True, {}, len(box.arrived)
            _patched(ran, box, writer, document, {'Open': [record]} if releases else {'Closed': True})
            _told(ran, box)
            made.active = False
            _written(ran, box, box.arrived[since:], apply.parse_undo(record) if releases else None)
            if box.wall.disabled[LAN] != lan:
                ran.wrong.append('the firewall of the LAN has changed')
            lied = {command for address, netfn, command in made.touched if (address, netfn) == (BMC, 0x06)}
            if not releases and 0x61 not in lied and not lied & {0x0A, 0x0C, 0x09, 0x64}:
                # Nothing that was read was false: the record opens what was closed, and nothing else.
                box.until = float('inf')
                if before - box.wall.disabled[SYSTEM]:
                    ran.wrong.append('what had been closed before is open')
                writer.patch(document, {'Open': [record]})
                if before != box.wall.disabled[SYSTEM]:
                    ran.wrong.append('after release it is not as it was before')
    except Exception:  # noqa: BLE001 - whatever it is, that is what is looked for
        ran.wrong.append(f'no error of ours:\n{traceback.format_exc()}')
    finally:
        box.wall.disabled[SYSTEM].clear()
    ran.commands = box.commands
    return ran


def _patched(ran: Ran, box: Box, writer: IpmiWriter, document: Document, body: dict[str, Any]) -> None:
    try:
        writer.patch(document, body)
        ran.ended = 'written'
    except BmcError as exc:
        ran.ended = type(exc).__name__
        _printable(ran, 'the error', str(exc))


def _told(ran: Ran, box: Box) -> None:
    """What a look would say of the lock now."""
    verdict = masks.read(lambda: masks.observe(box))
    _texts(ran, [*verdict.open, *verdict.fixed, verdict.reason or ''])
    locked(ran, box, verdict.state, verdict.closes)


def _written(ran: Ran, box: Box, arrived: list[tuple[int, int, int, bytes]], record: apply.Undo | None) -> None:
    """The host's channel alone is written; and of a release nothing but what is recorded is opened.

    What was open by the BMC's own words is written as open again: a mask is written whole.
    """
    allowed: dict[bytes, int] = {}
    for subset, commands in (record or {}).items():
        for operation in (0, 1):
            key = masks.encode_query(SYSTEM, subset, operation)[1:]
            allowed[key] = int.from_bytes(masks.encode_mask(commands, operation), 'little')
    for address, netfn, command, data in arrived:
        if (netfn, command) in {(0x06, 0x62)}:
            ran.wrong.append('sub-functions were written')
        if (netfn, command) != SET_ENABLES:
            continue
        if address != BMC or data[0] != SYSTEM:
            ran.wrong.append(f'channel {data[0]:X}h of {address:02X}h was written')
        key = data[1:3] + data[19:]
        more = int.from_bytes(data[3:19], 'little') & ~allowed.get(key, 0)
        if record is not None and more & ~box.told.get(key, 0):
            ran.wrong.append(f'{data.hex()} opens more than was recorded')


def upload(seed: int, number: int, changes: Hostile | None = None) -> Ran:
    """Firmware is written to the card behind the BMC, as a deploy does it."""
    rng = seeded(seed, number, 'upload')
    box = Box()
    made = changes or hostile(rng, UPLOAD)
    ran = Ran(name='upload', hostile=made)
    box.begin(made, queue=rng.random() < 0.2)
    content = upgrade('1.3.0.9', data=None)
    given = Upload(file='fpga.hpm', size_bytes=len(content), open=lambda: io.BytesIO(content))
    if rng.random() < 0.3:
        given = dataclasses.replace(given, goes_back=True)
    ref = Ref(bmc=HOST, uri=COMPONENT)
    try:
        with quickly(box):
            raw = controller_path.bridged(box, ((controller_path.Hop(channel=0, address=AMC)),))
            ran.ended = _uploaded(ran, box, raw, ref, given)
    except BmcError as exc:
        ran.ended = type(exc).__name__
        _printable(ran, 'the error', str(exc))
    except Exception:  # noqa: BLE001 - whatever it is, that is what is looked for
        ran.wrong.append(f'no error of ours:\n{traceback.format_exc()}')
    ran.commands = box.commands
    for which in (ACTIVATE, ROLLBACK):
        times = sum(one[1:3] == which for one in box.arrived)
        if times > 1:
            ran.wrong.append(f'{which[0]:02X}/{which[1]:02X} was sent {times} times')
    return ran


def _uploaded(ran: Ran, box: Box, raw: Any, ref: Ref, given: Upload) -> str:
    turn: Any = update.push(raw, ref, 0, given)
    for _ in range(MOST_TURNS):
        if isinstance(turn, TaskReading):
            break
        turn = update.go_on(raw, ref, 0, given, turn, clock=box.clock.now, sleep=box.clock.advance)
    else:
        return 'endless'
    state = TaskState.ACTIVE
    for _ in range(20):
        box.clock.advance(1.0)
        try:
            state = update.reading(raw, ref, 0, back=turn.ref.uri.endswith(update.ROLLBACK)).state
        except BmcError:
            continue
        if state is not TaskState.ACTIVE:
            break
    if state is not TaskState.SUCCEEDED:
        return str(state)
    one = upgrade_target.read_component(raw, 0)
    _texts(ran, dataclasses.asdict(dataclasses.replace(one, current=None, rollback=None, deferred=None)))
    runs = box.versions(FPGA_KEY)[0]
    told = None if one.current is None else one.current.text
    bridged = any((BMC, *which) in ran.hostile.touched for which in (SEND_MESSAGE, GET_MESSAGE))
    if (
        (AMC, *PROPERTIES) not in ran.hostile.touched
        and not bridged
        and told != {'1.3.0.9': '1.03.00090000'}.get(runs or '', told)
    ):
        ran.wrong.append(f'it runs {runs}, and {told} is told')
    return 'SUCCEEDED'


RUNS = (look, wall, wall, upload)


def run(seed: int, number: int) -> Ran:
    """The run of that number."""
    return RUNS[number % len(RUNS)](seed, number)


def endless(box: Endless) -> Any:
    """A look that has all the time that it wants."""
    with quickly(box):
        return connected(dataclasses.replace(ADDRESS, budget=timedelta(days=1)), box).look(NOW)


# ----------------------------------------------------------------------------------------------------------------- the soak


def main() -> int:
    """Soak, and print figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--seed', type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument('--seconds', type=float, default=300.0)
    parser.add_argument('--runs', type=int, default=1_000_000)
    parser.add_argument('--faults', type=int, default=20, help='stop after that many runs at fault')
    parser.add_argument('--only', type=int, help='one run, with all that was done in it')
    arguments = parser.parse_args()
    if arguments.only is not None:
        ran = run(arguments.seed, arguments.only)
        print('\n'.join([*ran.hostile.said, f'{ran.name}: {ran.ended}, {ran.commands} commands', *ran.wrong]))
        return 1 if ran.wrong else 0
    print(f'seed {arguments.seed}', flush=True)
    started, number, wrong, most = time.monotonic(), 0, 0, (0, 0)
    ends: Counter[str] = Counter()
    took: Counter[str] = Counter()
    kinds: Counter[Kind] = Counter()
    commands = 0
    while number < arguments.runs and time.monotonic() - started < arguments.seconds and wrong < arguments.faults:
        began = time.monotonic()
        ran = run(arguments.seed, number)
        took[ran.name] += int(1e6 * (time.monotonic() - began))
        ends[f'{ran.name} {ran.ended}'] += 1
        kinds += ran.hostile.used
        commands += ran.commands
        most = max(most, (ran.commands, number))
        if ran.wrong:
            wrong += 1
            print(f'FAULT in run {number} ({ran.name}); again: --seed {arguments.seed} --only {number}')
            print('\n'.join(text[-1500:] for text in ran.wrong[:3]), flush=True)
        number += 1
    memory = process.getrusage(process.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f'{number} runs, {wrong} at fault, {time.monotonic() - started:.0f} s, {commands} commands, '
        f'{sum(kinds.values())} answers changed; most commands {most[0]} (run {most[1]}); {memory:.0f} MiB\n'
        f'ended in: {ends.most_common()}\nchanges: {[(kind.name, count) for kind, count in kinds.most_common()]}\n'
        f'microseconds: {took.most_common()}',
        flush=True,
    )
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
