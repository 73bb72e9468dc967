# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""I2C buses of an emulated controller, written by Master Write-Read (06/52), which bypasses the FRU commands.

An EEPROM can share its bytes with an FRU device: what is written through one is read through the other.

Source: IPMI 2.0 revision 1.1, section 22.11.
"""

from collections.abc import Callable, Mapping

from baremetal_acc.emulator.ipmi.controller import (
    APP,
    MANY,
    CommandRefusal,
    CommandRequest,
    EmulatedCode,
    EmulatedController,
    EmulatedPrivilege,
)

Device = Callable[[bytes, int], bytes]
"""A device on a bus: takes the written bytes and the number of bytes to read, and returns the read bytes.

It raises :class:`CommandRefusal` with 83h where it does not acknowledge.
"""

NOT_ACKNOWLEDGED = 0x83
LONGEST = 64
"""The most bytes that one command writes or reads."""


class Eeprom:
    """A memory behind one address: the first written bytes are the offset.

    :param content: its bytes; they may be shared.
    :param address_bytes: length of the offset, 1 or 2 bytes; big-endian.
    :ivar protected: it acknowledges no byte that would be written.
    """

    def __init__(self, content: bytearray, *, address_bytes: int = 2) -> None:
        if address_bytes not in (1, 2) or not 0 < len(content) <= 256**address_bytes:
            raise ValueError(f'an EEPROM of {len(content)} bytes cannot have addresses of {address_bytes} bytes')
        self.content = content
        self.protected = False
        self._address_bytes = address_bytes
        self._place = 0

    def __call__(self, written: bytes, count: int) -> bytes:
        """Carry out one transfer. The offset wraps at the end of the memory."""
        address, data = written[: self._address_bytes], written[self._address_bytes :]
        if data and self.protected:
            raise CommandRefusal(NOT_ACKNOWLEDGED)
        if len(address) == self._address_bytes:
            self._place = int.from_bytes(address, 'big') % len(self.content)
        for byte in data:
            self.content[self._place] = byte
            self._place = (self._place + 1) % len(self.content)
        read = bytes(self.content[(self._place + offset) % len(self.content)] for offset in range(count))
        self._place = (self._place + count) % len(self.content)
        return read


class Buses:
    """The I2C buses of one controller.

    :param devices: by bus, as the first byte of Master Write-Read names it, and by 8-bit address, whose last bit is 0.
    """

    def __init__(self, devices: Mapping[tuple[int, int], Device]) -> None:
        self.devices = dict(devices)

    def join(self, controller: EmulatedController) -> None:
        """Register Master Write-Read at a controller."""
        controller.add(APP, 0x52, self._transfer, privilege=EmulatedPrivilege.ADMINISTRATOR, least=3, most=MANY)

    def _transfer(self, request: CommandRequest) -> bytes:
        bus, address, count, written = request.data[0], request.data[1], request.data[2], request.data[3:]
        if address & 1:
            raise CommandRefusal(EmulatedCode.INVALID_FIELD)
        if len(written) > LONGEST:
            raise CommandRefusal(EmulatedCode.LENGTH_EXCEEDED)
        if count > LONGEST:
            raise CommandRefusal(EmulatedCode.CANNOT_RETURN)
        device = self.devices.get((bus, address))
        if device is None:
            raise CommandRefusal(NOT_ACKNOWLEDGED)
        return device(written, count)
