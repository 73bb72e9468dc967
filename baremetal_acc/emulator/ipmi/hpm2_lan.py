# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""HPM.2 of an emulated BMC: the payload sizes of its LAN channel.

Source: PICMG HPM.2 R1.0, section 3.
"""

from baremetal_acc.emulator.ipmi.channel import LanChannel
from baremetal_acc.emulator.ipmi.controller import (
    GROUP,
    LAN,
    CommandRefusal,
    CommandRequest,
    EmulatedCode,
    EmulatedController,
    EmulatedPrivilege,
)
from baremetal_acc.emulator.ipmi.hpm_commands import HPM_X, OEM_FROM, PICMG_BODY

_HPM_2, _REVISION = 2, 1
_PAYLOAD_OVERHEAD = 7


class ExtendedLan:
    """HPM.2 of a BMC: the payload sizes of its LAN channel.

    :param inbound_bytes: of the payload of a request, and ``outbound_bytes`` of an answer.
    :param start: the first of the LAN configuration parameters that HPM.2 adds.
    """

    def __init__(
        self, channel: LanChannel, *, inbound_bytes: int = 1024, outbound_bytes: int = 1024, start: int = 0xC0
    ) -> None:
        if start < OEM_FROM or not _PAYLOAD_OVERHEAD < inbound_bytes <= 0xFFFF or not 0 < outbound_bytes <= 0xFFFF:
            raise ValueError('HPM.2: the first parameter must be at least C0h, and payloads must have at most 65535 bytes')
        self._start = start
        self.inbound_bytes = inbound_bytes
        sizes = inbound_bytes.to_bytes(2, 'little') + outbound_bytes.to_bytes(2, 'little')
        channel.parameters[start] = bytes((0, 0, 0)) + sizes
        channel.read_only.add(start)

    def join(self, controller: EmulatedController) -> None:
        """Register Get HPM.x Capabilities at a controller."""
        controller.add(GROUP, HPM_X, self._capabilities, privilege=EmulatedPrivilege.USER, least=1, qualifier=PICMG_BODY)

    @property
    def block_bytes(self) -> int:
        """The longest block of an upload over this LAN: a payload without the message, body code and block number."""
        return self.inbound_bytes - _PAYLOAD_OVERHEAD - 2

    def _capabilities(self, request: CommandRequest) -> bytes:
        if request.data[0] != _HPM_2:
            raise CommandRefusal(EmulatedCode.INVALID_FIELD)
        return bytes((_HPM_2, _REVISION)) + (1 << LAN).to_bytes(2, 'little') + bytes((0, self._start, _REVISION, 0, 0))
