# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""An emulated IPMI management controller: its command table, privileges, guards, and bridging to controllers behind it.

A command is executed the same way through every interface: only the channel differs. Each part of a controller (users, chassis,
FRU, SDR, firmware) has state of its own and adds its commands by :meth:`EmulatedController.add`; a part that may refuse
commands, such as a firewall, adds itself to :attr:`EmulatedController.guards`. Duplicate requests are handled by the session:
every command that arrives here is executed.

Source: IPMI 2.0 revision 1.1, sections 5, 20, 21 and 22, and appendix G for privileges.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from typing import NamedTuple, Protocol

from baremetal_acc.emulator.ipmi.message import BMC, Message

IPMB, LAN, SECOND_LAN, PRESENT, SYSTEM = 0x0, 0x1, 0x8, 0xE, 0xF
"""Channel numbers; PRESENT in a request means the channel that the request comes from."""

CHASSIS, APP, STORAGE, TRANSPORT, GROUP, OEM = 0x00, 0x06, 0x0A, 0x0C, 0x2C, 0x2E

QUALIFIER_BYTES = {GROUP: 1, OEM: 3}
"""How many bytes of the data name the owner of the command: the body code of NetFn 2Ch, the IANA number of 2Eh."""

MANY = 0xFFFF
"""A limit above the data of any request."""

_UNTRACKED, _TRACKED = 0x00, 0x40


class EmulatedCode(IntEnum):
    """Completion codes that the emulator gives. Source: table 5-2."""

    OK = 0x00
    NO_ACKNOWLEDGE = 0x83
    BUSY = 0xC0
    INVALID_COMMAND = 0xC1
    INVALID_FOR_LUN = 0xC2
    OUT_OF_SPACE = 0xC4
    RESERVATION_CANCELLED = 0xC5
    LENGTH_INVALID = 0xC7
    LENGTH_EXCEEDED = 0xC8
    OUT_OF_RANGE = 0xC9
    CANNOT_RETURN = 0xCA
    NOT_PRESENT = 0xCB
    INVALID_FIELD = 0xCC
    PRIVILEGE = 0xD4
    NOT_IN_STATE = 0xD5
    SUB_FUNCTION = 0xD6


class EmulatedPrivilege(IntEnum):
    """Privilege levels, and limits of them."""

    CALLBACK = 1
    USER = 2
    OPERATOR = 3
    ADMINISTRATOR = 4
    OEM = 5


class CommandRefusal(Exception):
    """A command is refused with a completion code."""

    def __init__(self, code: int) -> None:
        super().__init__(f'refused with {code:02X}h')
        self.code = code


class ControllerSession(Protocol):
    """The session that a command came through, as the command sees it."""

    privilege: EmulatedPrivilege
    limit: EmulatedPrivilege

    def close(self, session_id: int) -> bool:
        """End a session, of this console or another; False when there is no session of that id."""

    def forget(self) -> None:
        """Drop this session without an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRequest:
    """One command as it reaches a controller.

    :ivar qualifier: body code or IANA number, taken off the data.
    :ivar privilege: the privilege of the sender; a channel without sessions has all privileges.
    :ivar bridged_by_host: the command was bridged, and software on the host sent it to the first controller.
    """

    channel: int
    netfn: int
    command: int
    data: bytes = b''
    lun: int = 0
    qualifier: bytes = b''
    privilege: EmulatedPrivilege = EmulatedPrivilege.ADMINISTRATOR
    session: ControllerSession | None = None
    bridged_by_host: bool = False

    @property
    def is_hosts(self) -> bool:
        """Whether software on the host sent the command."""
        return self.channel == SYSTEM or self.bridged_by_host


class Reach(Enum):
    """How far a request and its answer got."""

    ANSWERED = 'answered'
    LOST = 'the request was carried out, the answer is lost'
    UNHEARD = 'the request was not heard'


@dataclass(frozen=True, slots=True)
class CommandAnswer:
    """Completion code and data.

    :ivar then: the response of a further controller, which is sent after this one.
    :ivar late: how many seconds the answer, and what is sent after it, is delayed.
    """

    code: int
    data: bytes = b''
    then: Message | None = None
    reach: Reach = Reach.ANSWERED
    late: float = 0.0

    @property
    def wire(self) -> bytes:
        """The data of a response."""
        return bytes((self.code,)) + self.data


class ControllerPlace(NamedTuple):
    """The key of a command in the command table."""

    netfn: int
    lun: int
    qualifier: bytes
    command: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandHandler:
    """A command of the table: the function that executes it, the privilege that it needs, and its limits of data bytes."""

    serve: Callable[[CommandRequest], 'bytes | CommandAnswer']
    privilege: EmulatedPrivilege
    least: int
    most: int


Guard = Callable[[CommandRequest], int | None]
"""Returns the completion code that refuses a command, or None. It is called only for commands of the controller's table."""

Around = Callable[[CommandRequest, Callable[[CommandRequest], CommandAnswer]], CommandAnswer]
"""A wrapper around a controller: it gets a request and the function that executes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerIdentity:
    """The answer of Get Device ID. Defaults: a BMC with FRU inventory, SDR repository and chassis.

    :ivar firmware: major and minor version; the minor one is encoded as BCD.
    :ivar support: bits of additional device support.
    """

    device_id: int = 0x20
    device_revision: int = 1
    firmware: tuple[int, int] = (1, 0)
    support: int = 0x8A
    manufacturer: int = 0
    product: int = 0
    auxiliary: bytes = bytes(4)

    def encoded(self) -> bytes:
        """The data of the response of Get Device ID."""
        major, minor = self.firmware
        bcd = minor // 10 << 4 | minor % 10
        return (
            bytes((self.device_id, self.device_revision, major, bcd, 0x02, self.support))
            + self.manufacturer.to_bytes(3, 'little')
            + self.product.to_bytes(2, 'little')
            + self.auxiliary
        )


class EmulatedController:
    """A BMC, or a controller behind one.

    :param guid: 16 bytes, in wire order.
    :param channels: the channels that it has.
    :ivar guards: functions that may refuse a command.
    :ivar behind: further controllers, by channel and address; never in a circle.
    :ivar on_reset: called when it restarts.
    :ivar restarting: carries out a restart; a replacement calls :meth:`restarted`.
    :ivar away: functions that return whether the controller is absent and answers nobody.
    :ivar around: a wrapper around the execution of every command.
    """

    def __init__(
        self,
        *,
        identity: ControllerIdentity | None = None,
        guid: bytes = bytes(16),
        address: int = BMC,
        channels: tuple[int, ...] = (IPMB, LAN, SYSTEM),
    ) -> None:
        self.identity = identity or ControllerIdentity()
        self.guid = guid
        self.address = address
        self.channels = channels
        self.commands: dict[ControllerPlace, CommandHandler] = {}
        self.guards: list[Guard] = []
        self.behind: dict[tuple[int, int], EmulatedController] = {}
        self.on_reset: list[Callable[[], None]] = []
        self.restarting: Callable[[], None] = self.restarted
        self.away: list[Callable[[], bool]] = []
        self.around: Around | None = None
        user, administrator = EmulatedPrivilege.USER, EmulatedPrivilege.ADMINISTRATOR
        self.add(APP, 0x01, lambda _: self.identity.encoded(), privilege=user)
        self.add(APP, 0x02, self._reset, privilege=administrator)
        self.add(APP, 0x03, self._reset, privilege=administrator)
        self.add(APP, 0x04, lambda _: b'\x55\x00', privilege=user)
        self.add(APP, 0x08, lambda _: self.guid, privilege=user)
        self.add(APP, 0x09, self._netfn_support, privilege=user, least=1)
        self.add(APP, 0x34, self._send_message, privilege=user, least=1, most=MANY)
        self.add(APP, 0x37, lambda _: self.guid, privilege=user)

    def add(
        self,
        netfn: int,
        command: int,
        serve: Callable[[CommandRequest], bytes | CommandAnswer],
        *,
        privilege: EmulatedPrivilege,
        least: int = 0,
        most: int | None = None,
        qualifier: bytes = b'',
        lun: int = 0,
    ) -> None:
        """Add a command to the table.

        :param serve: executes the command; returns the data after the completion code, or raises :class:`CommandRefusal`.
        :param least: the smallest number of data bytes, without the qualifier; other lengths are refused with C7h.
        :param most: the largest number; equal to ``least`` when absent.
        """
        place = ControllerPlace(netfn, lun, qualifier, command)
        self.commands[place] = CommandHandler(
            serve=serve, privilege=privilege, least=least, most=least if most is None else most
        )

    def channel(self, request: CommandRequest, asked: int) -> int:
        """The channel that a request names.

        :raises Refusal: there is no such channel.
        """
        channel = request.channel if asked == PRESENT else asked
        if channel not in self.channels:
            raise CommandRefusal(EmulatedCode.INVALID_FIELD)
        return channel

    @property
    def is_away(self) -> bool:
        """Whether the controller answers nobody at the moment."""
        return any(away() for away in self.away)

    def restarted(self) -> None:
        """Drop the state that is only in memory, after a restart."""
        for restart in self.on_reset:
            restart()

    def answer(self, request: CommandRequest) -> CommandAnswer:
        """Execute a command, or refuse it."""
        return self._answer(request) if self.around is None else self.around(request, self._answer)

    def _answer(self, request: CommandRequest) -> CommandAnswer:
        size = QUALIFIER_BYTES.get(request.netfn, 0)
        if len(request.data) < size:
            return CommandAnswer(EmulatedCode.LENGTH_INVALID)
        qualifier, data = request.data[:size], request.data[size:]
        answer = self._execute(replace(request, qualifier=qualifier, data=data))
        return replace(answer, data=qualifier + answer.data)

    def _execute(self, request: CommandRequest) -> CommandAnswer:
        place = ControllerPlace(request.netfn, request.lun, request.qualifier, request.command)
        command = self.commands.get(place)
        if command is None:
            elsewhere = any(place._replace(lun=lun) in self.commands for lun in range(4))
            return CommandAnswer(EmulatedCode.INVALID_FOR_LUN if elsewhere else EmulatedCode.INVALID_COMMAND)
        for guard in self.guards:
            if (code := guard(request)) is not None:
                return CommandAnswer(code)
        if request.privilege < command.privilege:
            return CommandAnswer(EmulatedCode.PRIVILEGE)
        if not command.least <= len(request.data) <= command.most:
            return CommandAnswer(EmulatedCode.LENGTH_INVALID)
        try:
            served = command.serve(request)
        except CommandRefusal as refusal:
            return CommandAnswer(refusal.code)
        return served if isinstance(served, CommandAnswer) else CommandAnswer(EmulatedCode.OK, served)

    def _reset(self, _: CommandRequest) -> bytes:
        self.restarting()
        return b''

    def _netfn_support(self, request: CommandRequest) -> bytes:
        self.channel(request, request.data[0] & 0xF)
        used = {(place.lun, place.netfn // 2) for place in self.commands}
        luns = sum(1 << 2 * lun for lun in {lun for lun, _ in used})
        masks = (sum(1 << bit for lun, bit in used if lun == wanted) for wanted in range(4))
        return bytes((luns,)) + b''.join(mask.to_bytes(4, 'little') for mask in masks)

    def _send_message(self, request: CommandRequest) -> CommandAnswer:
        """Bridge a message. Only tracked requests are accepted; from the system interface also untracked ones.

        A controller on the IPMB trusts every sender there: it has no users.
        """
        how, inner = request.data[0], Message.parse(request.data[1:])
        taken = (_TRACKED, _UNTRACKED) if request.channel == SYSTEM else (_TRACKED,)
        if how & 0xF0 not in taken or inner is None or inner.netfn & 1:
            raise CommandRefusal(EmulatedCode.INVALID_FIELD)
        target = self.behind.get((how & 0xF, inner.to))
        if target is None or target.is_away:
            raise CommandRefusal(EmulatedCode.NO_ACKNOWLEDGE)
        answer = target.answer(
            CommandRequest(
                channel=IPMB,
                netfn=inner.netfn,
                lun=inner.to_lun,
                command=inner.command,
                data=inner.data,
                bridged_by_host=request.is_hosts,
            )
        )
        if answer.reach is not Reach.ANSWERED:
            return CommandAnswer(EmulatedCode.OK)
        # The response of a still further controller is contained in the answer of the controller before it.
        further = answer.then.encoded() if answer.then is not None else b''
        return CommandAnswer(EmulatedCode.OK, then=inner.response(answer.wire + further), late=answer.late)
