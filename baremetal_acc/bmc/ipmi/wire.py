# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Define one IPMI command, and what may be asked of whoever sends it.

FRU, SDR, HPM.1 and the firmware firewall are pairs of encoding and parsing, and procedures over a :class:`Raw`: a session
with a BMC, a controller behind it, or a test.
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


class Code(IntEnum):
    """Completion codes. Source: IPMI 2.0 revision 1.1, table 5-2. 80h to BEh mean something else with each command."""

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


NOT_THERE = frozenset({Code.INVALID_COMMAND, Code.INVALID_FOR_LUN})
"""The controller has no such command: an ordinary answer."""

AWAY = frozenset({Code.TIMEOUT, Code.INITIALISING, Code.DESTINATION_UNAVAILABLE, Code.NO_RESPONSE, Code.UNSPECIFIED})
"""The controller may be restarting: it can be asked again later."""

FRU_INFO, FRU_READ = 0x10, 0x11
"""Get FRU Inventory Area Info and Read FRU Data, of NetFn 0Ah."""

FRU_BUSY = 0x81
"""Of those two: the FRU device is busy. Source: IPMI 2.0 revision 1.1, tables 34-2 and 34-3."""

TOO_LONG = frozenset({Code.TRUNCATED, Code.LENGTH_INVALID, Code.LENGTH_EXCEEDED, Code.OUT_OF_RANGE, Code.CANNOT_RETURN})
"""A shorter request, or one for less, may be taken."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a controller answered.

    :ivar code: completion code; not always one of :class:`Code`.
    :ivar data: what comes after it.
    :ivar number: of what Send Message has carried, the sequence number that the transport gave it; None: that of who sent it.
    :ivar again: it was sent more than once: an earlier one may have been done, and this be the answer to its repetition.
    """

    code: int
    data: bytes = b''
    again: bool = field(default=False, compare=False)
    number: int | None = field(default=None, compare=False)

    @property
    def ok(self) -> bool:
        """It was done."""
        return self.code == Code.OK


class Raw(Protocol):
    """Sends commands to one controller, one at a time."""

    label: str
    """Which controller, for messages: the BMC's name and address, and the way from there. Without credentials."""

    longest: int
    """Bytes of data that a request may have at most."""

    def __call__(
        self, netfn: int, command: int, data: bytes = b'', *, lun: int = 0, once: bool = False, within: timedelta | None = None
    ) -> Reply:
        """Send a command and wait for the answer. A completion code other than 0 is an answer like any other.

        :param once: do not send it a second time, whatever happens: it may have been done though no answer came.
        :param within: how long to wait for the answer; None: as long as the controller is usually given.
        :raises BmcUnreachable: no answer came. Of a command that was to be sent once nobody knows whether it was done.
        :raises BmcAnswerInvalid: what came is no answer to it.
        """


@runtime_checkable
class Paced(Protocol):
    """A :class:`Raw` that knows to send commands of one kind one after another faster than one at a time."""

    def series(self, netfn: int, command: int, requests: Iterable[bytes], taken: Callable[[Reply], bool]) -> Reply | None:
        """As :func:`series`."""


def series(raw: Raw, netfn: int, command: int, requests: Iterable[bytes], taken: Callable[[Reply], bool]) -> Reply | None:
    """Send commands of one kind one after another, each when the one before was answered.

    :param requests: their data. One may be asked for before the last answer has come.
    :param taken: whether the next one may be sent after this answer. It is called once for each.
    :returns: the first answer that was not taken; None: all were.
    :raises BmcError: as by :class:`Raw`; what came before was taken.
    """
    if isinstance(raw, Paced):
        return raw.series(netfn, command, requests, taken)
    for data in requests:
        reply = raw(netfn, command, data)
        if not taken(reply):
            return reply
    return None


class CommandRefused(BmcRefused):
    """A command has ended with a completion code that is no success. What the code means only the command tells."""

    def __init__(self, raw: Raw, what: str, code: int) -> None:
        self.code = code
        super().__init__(bmc=raw.label, what=f'{what}: refused with completion code {code:02X}h')


def refusal(raw: Raw, what: str, reply: Reply) -> BmcError:
    """The error for a completion code that is no success.

    :param what: the command, for people, such as ``Get Device ID``.
    """
    code = f'{reply.code:02X}h'
    if reply.code in NOT_THERE:
        return BmcUnsupported(bmc=raw.label, what=f'{what}: it has no such command ({code})')
    if reply.code == Code.BUSY:
        return BmcBusy(bmc=raw.label, what=f'{what}: it is busy ({code})')
    if reply.code == Code.PRIVILEGE:
        return BmcNotAuthorised(
            bmc=raw.label,
            what=f'{what}: refused ({code})',
            hint='the user lacks the privilege, or the command is disabled on this channel',
        )
    return CommandRefused(raw, what, reply.code)


def ask(raw: Raw, netfn: int, command: int, data: bytes = b'', *, what: str, least: int = 0, once: bool = False) -> bytes:
    """Send a command that has to succeed.

    :param what: the command, for people.
    :param least: bytes that its answer has at least after the completion code.
    :returns: what comes after the completion code.
    :raises BmcError: it was refused, was not answered, or the answer is too short.
    """
    reply = raw(netfn, command, data, once=once)
    if not reply.ok:
        raise refusal(raw, what, reply)
    if len(reply.data) < least:
        raise BmcAnswerInvalid(bmc=raw.label, what=f'{what}: the answer has {len(reply.data)} bytes, and {least} are needed')
    return reply.data
