# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""IPMI commands: network functions, completion codes, the contract of a command sender (:class:`Raw`), and errors for refusals.

FRU, SDR, HPM.1 and the firmware firewall are encoding and parsing functions, and procedures over a :class:`Raw`: a session with
a BMC, a bridge to a controller behind it, or a test double.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from enum import IntEnum
from typing import Protocol, runtime_checkable

from baremetal_acc.errors import BmcAnswerInvalid, BmcBusy, BmcError, BmcNotAuthorised, BmcRefused, BmcUnsupported

GROUP_PICMG = 0x00
"""Body code of PICMG, the first byte of each request and, after the completion code, of each response of NetFn 2Ch/2Dh."""


class NetFn(IntEnum):
    """Network functions of requests. Source: IPMI 2.0 revision 1.1, table 5-1."""

    CHASSIS = 0x00
    BRIDGE = 0x02
    SENSOR_EVENT = 0x04
    APP = 0x06
    FIRMWARE = 0x08
    STORAGE = 0x0A
    TRANSPORT = 0x0C
    GROUP = 0x2C
    OEM_GROUP = 0x2E


class CompletionCode(IntEnum):
    """Completion codes. Source: IPMI 2.0 revision 1.1, table 5-2. The meaning of 80h to BEh depends on the command."""

    OK = 0x00
    BUSY = 0xC0
    INVALID_COMMAND = 0xC1
    INVALID_FOR_LUN = 0xC2
    TIMEOUT = 0xC3
    OUT_OF_SPACE = 0xC4
    RESERVATION_CANCELLED = 0xC5
    TRUNCATED = 0xC6
    LENGTH_INVALID = 0xC7
    LENGTH_EXCEEDED = 0xC8
    OUT_OF_RANGE = 0xC9
    CANNOT_RETURN = 0xCA
    NOT_PRESENT = 0xCB
    INVALID_FIELD = 0xCC
    ILLEGAL_COMMAND = 0xCD
    NO_RESPONSE = 0xCE
    DUPLICATE = 0xCF
    SDR_UPDATE_MODE = 0xD0
    FIRMWARE_UPDATE_MODE = 0xD1
    INITIALISING = 0xD2
    DESTINATION_UNAVAILABLE = 0xD3
    PRIVILEGE = 0xD4
    NOT_IN_STATE = 0xD5
    SUBFUNCTION_DISABLED = 0xD6
    UNSPECIFIED = 0xFF


NOT_THERE = frozenset({CompletionCode.INVALID_COMMAND, CompletionCode.INVALID_FOR_LUN})
"""The controller does not have the command: an ordinary answer."""

AWAY = frozenset(
    {
        CompletionCode.TIMEOUT,
        CompletionCode.INITIALISING,
        CompletionCode.DESTINATION_UNAVAILABLE,
        CompletionCode.NO_RESPONSE,
        CompletionCode.UNSPECIFIED,
    }
)
"""The controller may be restarting: retry later."""

FRU_INFO, FRU_READ = 0x10, 0x11
"""Get FRU Inventory Area Info and Read FRU Data, of NetFn 0Ah."""

FRU_BUSY = 0x81
"""Completion code of these two commands: FRU device busy. Source: IPMI 2.0 revision 1.1, tables 34-2 and 34-3."""

TOO_LONG = frozenset(
    {
        CompletionCode.TRUNCATED,
        CompletionCode.LENGTH_INVALID,
        CompletionCode.LENGTH_EXCEEDED,
        CompletionCode.OUT_OF_RANGE,
        CompletionCode.CANNOT_RETURN,
    }
)
"""A shorter request, or a request for fewer bytes, may be accepted."""


@dataclass(frozen=True, slots=True)
class CommandReply:
    """Answer of a controller to a command.

    :ivar code: completion code; not always one of :class:`CompletionCode`.
    :ivar data: the bytes after it.
    :ivar number: for Send Message, the sequence number that the transport gave the carried message; None: the caller's.
    :ivar again: the command was retransmitted: an earlier copy may have been executed, and this be the answer to a later one.
    """

    code: int
    data: bytes = b''
    again: bool = field(default=False, compare=False)
    number: int | None = field(default=None, compare=False)

    @property
    def ok(self) -> bool:
        """Whether the command succeeded."""
        return self.code == CompletionCode.OK


class Raw(Protocol):
    """Contract: sends commands to one controller, one at a time."""

    label: str
    """The controller, for messages: name and address of the BMC, and the path from there. Without credentials."""

    longest: int
    """Maximum bytes of data in a request."""

    def __call__(
        self, netfn: int, command: int, data: bytes = b'', *, lun: int = 0, once: bool = False, within: timedelta | None = None
    ) -> CommandReply:
        """Send a command and wait for the answer. A completion code other than 0 is returned like any other answer.

        :param once: never send the command a second time: it may have been executed though no answer came.
        :param within: how long to wait for the answer; None: the default timeout of the controller.
        :raises BmcUnreachable: no answer came. Whether a command with ``once`` was executed is not known.
        :raises BmcAnswerInvalid: what came is no answer to the command.
        """


@runtime_checkable
class Paced(Protocol):
    """A :class:`Raw` that can send a series of commands of one kind faster than one at a time."""

    def series(
        self, netfn: int, command: int, requests: Iterable[bytes], taken: Callable[[CommandReply], bool]
    ) -> CommandReply | None:
        """As :func:`series`."""


def series(
    raw: Raw, netfn: int, command: int, requests: Iterable[bytes], taken: Callable[[CommandReply], bool]
) -> CommandReply | None:
    """Send commands of one kind in sequence, each after the one before was answered.

    :param requests: their data. The next one may be generated before the last answer has come.
    :param taken: whether to continue after this answer. It is called once for each answer.
    :returns: the first answer for which ``taken`` was false; None: there was none.
    :raises BmcError: as by :class:`Raw`; all commands before were taken.
    """
    if isinstance(raw, Paced):
        return raw.series(netfn, command, requests, taken)
    for data in requests:
        reply = raw(netfn, command, data)
        if not taken(reply):
            return reply
    return None


class CommandRefused(BmcRefused):
    """A command ended with a completion code other than success. The meaning of the code may depend on the command."""

    def __init__(self, raw: Raw, what: str, code: int) -> None:
        self.code = code
        super().__init__(bmc=raw.label, what=f'{what}: refused with completion code {code:02X}h')


def refusal(raw: Raw, what: str, reply: CommandReply) -> BmcError:
    """The error for a completion code other than success.

    :param what: the command, for people, such as ``Get Device ID``.
    """
    code = f'{reply.code:02X}h'
    if reply.code in NOT_THERE:
        return BmcUnsupported(bmc=raw.label, what=f'{what}: the command is not supported ({code})')
    if reply.code == CompletionCode.BUSY:
        return BmcBusy(bmc=raw.label, what=f'{what}: the controller is busy ({code})')
    if reply.code == CompletionCode.PRIVILEGE:
        return BmcNotAuthorised(
            bmc=raw.label,
            what=f'{what}: refused ({code})',
            hint='the user lacks the privilege, or the command is disabled on this channel',
        )
    return CommandRefused(raw, what, reply.code)


def ask(raw: Raw, netfn: int, command: int, data: bytes = b'', *, what: str, least: int = 0, once: bool = False) -> bytes:
    """Send a command that has to succeed.

    :param what: the command, for people.
    :param least: minimum number of bytes of the answer after the completion code.
    :returns: the bytes after the completion code.
    :raises BmcError: the command was refused or not answered, or the answer is too short.
    """
    reply = raw(netfn, command, data, once=once)
    if not reply.ok:
        raise refusal(raw, what, reply)
    if len(reply.data) < least:
        raise BmcAnswerInvalid(
            bmc=raw.label, what=f'{what}: the answer is too short (length {len(reply.data)}, minimum {least} bytes)'
        )
    return reply.data
