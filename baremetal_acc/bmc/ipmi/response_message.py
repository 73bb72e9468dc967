# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Decode IPMI response messages, and check their checksums.

Source: IPMI 2.0 revision 1.1, section 13.
"""

from dataclasses import dataclass

SHORTEST_RESPONSE = 8
"""Minimum bytes of a response: six before the completion code, the completion code, and a checksum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RmcpAnswer:
    """A decoded response message.

    :ivar whole: all its bytes.
    """

    to: int
    netfn: int
    sender: int
    sequence: int
    command: int
    code: int
    data: bytes
    whole: bytes


def parsed(message: bytes) -> RmcpAnswer | None:
    """Decode a response message; None when it is too short. The checksums are not checked here."""
    if len(message) < SHORTEST_RESPONSE:
        return None
    return RmcpAnswer(
        to=message[0],
        netfn=message[1] >> 2,
        sender=message[3],
        sequence=message[4] >> 2,
        command=message[5],
        code=message[6],
        data=message[7:-1],
        whole=message,
    )


def sound(message: bytes) -> bool:
    """Whether both checksums are right.

    Needed where nothing else protects a message: before a session, and on the bus to a controller behind the BMC. The BMC's own
    messages in a session are protected by the integrity check of the packet, and some BMCs have wrong checksums in them
    (FreeIPMI's workaround ``nochecksumcheck``).
    """
    return not (sum(message[:3]) & 0xFF or sum(message[3:]) & 0xFF)
