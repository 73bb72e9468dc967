# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The format of an IPMI message, which is the same on a LAN and on an IPMB: parse, encode, checksum.

Source: IPMI 2.0 revision 1.1, sections 12.4, 13.8 and 6.13.
"""

from dataclasses import dataclass, replace

BMC = 0x20
"""Slave address of the BMC."""

_LEAST = 7


class LateMessage(bytes):
    """A datagram that is sent with a delay.

    :ivar seconds: the delay.
    """

    seconds = 0.0


def late(datagram: bytes, seconds: float) -> bytes:
    """Return the datagram with a delay."""
    if seconds <= 0:
        return datagram
    waiting = LateMessage(datagram)
    waiting.seconds = seconds
    return waiting


def lateness(datagram: bytes) -> float:
    """The delay of a datagram, in seconds."""
    return datagram.seconds if isinstance(datagram, LateMessage) else 0.0


def checksum(data: bytes) -> int:
    """The checksum byte: it makes the sum of all bytes 0."""
    return -sum(data) & 0xFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One request or response; the completion code of a response is the first byte of its data.

    :ivar to: address of the receiver, and ``sender`` that of the sender: slave addresses, or a software id such as 81h.
    :ivar sequence: the requester's sequence number, six bits.
    """

    to: int
    to_lun: int
    netfn: int
    sender: int
    sender_lun: int
    sequence: int
    command: int
    data: bytes

    @classmethod
    def parse(cls, raw: bytes) -> 'Message | None':
        """Parse a message; None when it is too short or a checksum is wrong: a controller does not answer such a message."""
        if len(raw) < _LEAST or checksum(raw[:3]) or checksum(raw[3:]):
            return None
        return cls(
            to=raw[0],
            to_lun=raw[1] & 3,
            netfn=raw[1] >> 2,
            sender=raw[3],
            sender_lun=raw[4] & 3,
            sequence=raw[4] >> 2,
            command=raw[5],
            data=raw[6:-1],
        )

    def encoded(self) -> bytes:
        """The bytes of the message on the wire."""
        head = bytes((self.to, self.netfn << 2 | self.to_lun))
        body = bytes((self.sender, self.sequence << 2 | self.sender_lun, self.command)) + self.data
        return head + bytes((checksum(head),)) + body + bytes((checksum(body),))

    def response(self, data: bytes) -> 'Message':
        """The response to this request."""
        return replace(
            self,
            to=self.sender,
            to_lun=self.sender_lun,
            netfn=self.netfn | 1,
            sender=self.to,
            sender_lun=self.to_lun,
            data=data,
        )
