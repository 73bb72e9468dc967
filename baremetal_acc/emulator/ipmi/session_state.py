# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Sessions of an emulated BMC: those that are being opened, and the open ones with their sequence numbers.

Source: IPMI 2.0 revision 1.1, sections 6.12 and 13.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from baremetal_acc.emulator.ipmi.cipher_suites import EmulatedSuite
from baremetal_acc.emulator.ipmi.controller import EmulatedPrivilege
from baremetal_acc.emulator.ipmi.message import Message
from baremetal_acc.emulator.ipmi.users import UserTable

AHEAD, BEHIND = 16, 15
"""The window of accepted sequence numbers around the highest one received. Source: section 6.12.13."""


@dataclass(slots=True, kw_only=True)
class SessionHandshake:
    """A session that is being opened.

    :ivar asked: the last request of the handshake, and ``answered`` its answer, which is repeated when a client that lost it
        repeats the request.
    """

    id: int
    console: bytes
    suite: EmulatedSuite
    limit: EmulatedPrivilege
    since: float
    asked: bytes = b''
    answered: bytes = b''
    first: bytes = b''
    second: bytes = b''
    tail: bytes = b''
    user: UserTable | None = None
    role: EmulatedPrivilege = EmulatedPrivilege.USER


@dataclass(frozen=True, slots=True)
class AnsweredRequest:
    """A request that was executed, its answers, and when they are sent."""

    request: Message
    at: float
    answers: tuple[Message, ...]


@dataclass(slots=True, kw_only=True)
class OpenSession:
    """An open session.

    :ivar end: ends a session of the BMC, this one or another.
    """

    handshake: SessionHandshake
    end: Callable[[int], bool]
    k1: bytes
    k2: bytes
    user: UserTable
    limit: EmulatedPrivilege
    privilege: EmulatedPrivilege
    used: float
    highest: int = 0
    seen: set[int] = field(default_factory=set)
    sent: int = 0
    done: OrderedDict[int, AnsweredRequest] = field(default_factory=OrderedDict)

    def close(self, session_id: int) -> bool:
        """End a session, of this console or another; False when there is no session of that id."""
        return self.end(session_id)

    def forget(self) -> None:
        """Drop this session without an answer."""
        self.end(self.handshake.id)

    def takes(self, sequence: int) -> bool:
        """Whether a sequence number is new and within the window; the call marks it as seen.

        The first number is the client's choice: ipmitool also counts the packets of the handshake and the repeated ones.
        """
        most = self.highest + AHEAD if self.highest else sequence
        if not max(1, self.highest - BEHIND) <= sequence <= most or sequence in self.seen:
            return False
        self.highest = max(self.highest, sequence)
        self.seen = {number for number in self.seen if number >= self.highest - BEHIND} | {sequence}
        return True
