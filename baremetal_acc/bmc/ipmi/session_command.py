# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A command to send in a session, and the messages that answer it."""

from typing import NamedTuple

from baremetal_acc.bmc.ipmi import bridge
from baremetal_acc.bmc.ipmi.command import CommandReply, CompletionCode, NetFn
from baremetal_acc.bmc.ipmi.response_message import RmcpAnswer, sound

_CONSOLE = 0x81
"""Our address in messages."""

SEND_MESSAGE = 0x34
"""Send Message, of NetFn App."""


class SessionCommand(NamedTuple):
    """A command to send. One is created for each packet; a NamedTuple is created in a third of a dataclass's time.

    :ivar once: it may not be retransmitted.
    :ivar within: timeout in seconds.
    """

    netfn: int
    command: int
    data: bytes
    lun: int
    once: bool
    within: float

    def __str__(self) -> str:
        return f'command {self.netfn:02X}h/{self.command:02X}h'

    @property
    def carried(self) -> bytes | None:
        """For Send Message with tracking: the message to the controller behind."""
        tracked = (self.netfn, self.command) == (NetFn.APP, SEND_MESSAGE) and self.data[:1] and self.data[0] & 0xC0 == 0x40
        return self.data[1:] if tracked and len(self.data) >= 8 else None

    def numbered(self, sequence: int) -> 'SessionCommand':
        """The same, with the carried message renumbered to the sequence number of the Send Message that carries it.

        Some BMCs return the one number, others the other. With two numbers, a late answer to the previous command could match
        this one, and two bridges to one controller could have started with the same number.
        """
        inner = self.data[4:-1]
        inner = inner[:1] + bytes((sequence << 2 | inner[1] & 0x03,)) + inner[2:]
        return self._replace(data=self.data[:4] + inner + bytes((-sum(inner) & 0xFF,)))

    def answered(self, answer: RmcpAnswer, sequence: int) -> CommandReply | None:
        """The reply, if a message is an answer to this command, else None."""
        inner = self.carried
        if answer.sender == bridge.BMC:
            mine = (answer.netfn, answer.command, answer.sequence) == (self.netfn | 1, self.command, sequence)
            return CommandReply(answer.code, answer.data) if mine and answer.to == _CONSOLE else None
        # An answer from the BMC's own address is not that of a controller behind, though other clients accept it by sequence
        # number and command: a late answer of the BMC, such as its device id, could be taken for that of a card.
        if inner is None or (answer.sender, answer.netfn, answer.command) != (inner[0], inner[1] >> 2 | 1, inner[5]):
            return None
        # Some BMCs keep the requester's address of the bus in it (OpenIPMI's ipmi_sim 2.0.33).
        mine = answer.to in (_CONSOLE, inner[3]) and answer.sequence == sequence
        return CommandReply(CompletionCode.OK, answer.whole) if mine and sound(answer.whole) else None
