# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The system interface (channel Fh) of an emulated BMC, over a socket for QEMU's ``ipmi-bmc-extern``.

The other end is root on the host: there is no login, and every privilege is granted. Only the firmware firewall on channel Fh
and the vendor's locks of this interface restrict it: they switch it off, and it answers nothing, or they limit the privilege.

On the wire: A0h ends a message, A1h a command, AAh escapes these three, which follow with bit 4 set. A message is sequence
number, NetFn and LUN, command, data, and a checksum over all; the answer has the same sequence number, and a completion code.

Source: OpenIPMI, lanserv, the "VM" codec; QEMU, hw/ipmi/ipmi_bmc_extern.c;
doc/source/reference/ipmi_notes.rst, "The system interface of a QEMU guest".
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import cast

from baremetal_acc.emulator.ipmi.controller import SYSTEM, CommandRequest, EmulatedController, EmulatedPrivilege, Reach
from baremetal_acc.emulator.ipmi.message import checksum
from baremetal_acc.emulator.ipmi.messaging import Messages

END, COMMAND_END, ESCAPE = 0xA0, 0xA1, 0xAA
LOOPBACK = '127.0.0.1'
LONGEST = 300
"""The longest message that is kept, in bytes; QEMU sends 300 at most."""

_TURNED = 0x10
_SPECIAL = frozenset((END, COMMAND_END, ESCAPE))
_VERSION = bytes((0xFF, 1))
_LEAST = 4


class Signal(IntEnum):
    """Commands on the wire: actions of the BMC on the machine, or notices to it; RESET is also sent by the machine.

    POWER_OFF ends QEMU at once. SHUT_DOWN asks the guest by ACPI; QEMU of 2016 called it "force off", and treated it as that.
    """

    QUIET = 0x00
    ATTENTION = 0x01
    ATTENTION_INTERRUPT = 0x02
    POWER_OFF = 0x03
    RESET = 0x04
    INTERRUPT_ON = 0x05
    INTERRUPT_OFF = 0x06
    DIAGNOSE = 0x07
    CAPABILITIES = 0x08
    SHUT_DOWN = 0x09


@dataclass(frozen=True, slots=True)
class Frame:
    """A message, or a command, without escapes; an answer may be sent some seconds late."""

    content: bytes
    is_command: bool
    late: float = 0.0


class SystemCodec:
    """Splits a byte stream into frames. A frame that is too long, or ends in an escape, is dropped."""

    def __init__(self) -> None:
        self._content = bytearray()
        self._escaped = self._too_long = False

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that these bytes complete."""
        frames = []
        for byte in data:
            if byte in (END, COMMAND_END):
                if self._content and not self._escaped and not self._too_long:
                    frames.append(Frame(bytes(self._content), byte == COMMAND_END))
                self._content.clear()
                self._escaped = self._too_long = False
            elif byte == ESCAPE:
                self._escaped = True
            elif len(self._content) >= LONGEST:
                self._too_long = True
            else:
                self._content.append(byte & ~_TURNED if self._escaped else byte)
                self._escaped = False
        return frames


def encoded(frame: Frame) -> bytes:
    """The bytes of a frame on the wire."""
    out = bytearray()
    for byte in frame.content:
        out += bytes((ESCAPE, byte | _TURNED)) if byte in _SPECIAL else bytes((byte,))
    return bytes(out) + bytes((COMMAND_END if frame.is_command else END,))


class SystemInterface:
    """The system interface of one BMC, independent of the transport.

    :param on_host_reset: called when the machine at the other end was reset.
    :param privilege: returns the privilege of the host; None: the interface is switched off.
    """

    def __init__(
        self,
        controller: EmulatedController,
        messages: Messages,
        *,
        on_host_reset: Callable[[], None] = lambda: None,
        privilege: Callable[[], EmulatedPrivilege | None] = lambda: EmulatedPrivilege.ADMINISTRATOR,
    ) -> None:
        self._privilege = privilege
        self._controller = controller
        self._messages = messages
        self._on_host_reset = on_host_reset

    def receive(self, frame: Frame) -> list[Frame]:
        """The answers to a frame."""
        if frame.is_command:
            if frame.content[0] == Signal.RESET:
                self._on_host_reset()
            # QEMU drops data that arrives together with a command: this one is sent only after QEMU has sent its capabilities.
            return [Frame(bytes((Signal.INTERRUPT_OFF,)), True)] if frame.content[0] == Signal.CAPABILITIES else []
        raw = frame.content
        privilege = self._privilege()
        if len(raw) < _LEAST or checksum(raw) or raw[1] >> 2 & 1 or self._controller.is_away or privilege is None:
            return []
        request = CommandRequest(
            channel=SYSTEM,
            netfn=raw[1] >> 2,
            lun=raw[1] & 3,
            command=raw[2],
            data=raw[3:-1],
            privilege=privilege,
        )
        answer = self._controller.answer(request)
        if answer.reach is not Reach.ANSWERED:
            return []
        if answer.then is not None:
            self._messages.put(answer.then)
        body = bytes((raw[0], raw[1] | 4, raw[2])) + answer.wire
        return [Frame(body + bytes((checksum(body),)), False, answer.late)]


class _Connection(asyncio.Protocol):
    def __init__(self, door: 'SystemDoor') -> None:
        self._door = door
        self._codec = SystemCodec()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        connected = self._transport.get_extra_info('socket')
        if connected is not None and connected.family in (socket.AF_INET, socket.AF_INET6):
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.send(Frame(_VERSION, True))
        self._door.connected(self)

    def data_received(self, data: bytes) -> None:
        for frame in self._codec.feed(data):
            for answer in self._door.interface.receive(frame):
                if answer.late > 0:
                    asyncio.get_running_loop().call_later(answer.late, self.send, answer)
                else:
                    self.send(answer)
            self._door.tell(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._door.lost(self)

    def send(self, frame: Frame) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(encoded(frame))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class SystemDoor:
    """The system interface of one BMC on a socket, for one machine at a time: a new connection replaces the old one."""

    def __init__(self, interface: SystemInterface, messages: Messages) -> None:
        self.interface = interface
        self._server: asyncio.Server | None = None
        self._connection: _Connection | None = None
        self._told: Signal | None = None
        self._wanted = Signal.QUIET
        self._path: Path | None = None
        messages.on_attention.append(self._attention)

    async def listen(self, host: str = LOOPBACK, port: int = 0) -> int:
        """Listen for a machine on a TCP port; return the port."""
        self._server = await asyncio.get_running_loop().create_server(lambda: _Connection(self), host, port)
        return int(self._server.sockets[0].getsockname()[1])

    async def listen_at(self, path: Path) -> None:
        """Listen for a machine on a Unix socket, which only its owner can open."""
        self._server = await asyncio.get_running_loop().create_unix_server(lambda: _Connection(self), path)
        path.chmod(0o600)
        self._path = path

    async def close(self) -> None:
        """Close the socket and the connection."""
        if self._connection is not None:
            self._connection.close()
        if self._server is not None:
            self._server.close()
            await asyncio.sleep(0)
        if self._path is not None:
            with contextlib.suppress(FileNotFoundError):
                self._path.unlink()

    @property
    def is_connected(self) -> bool:
        """Whether a machine is connected."""
        return self._connection is not None

    def signal(self, what: Signal) -> bool:
        """Send a signal to the machine; return False when none is connected."""
        if self._connection is None:
            return False
        self._connection.send(Frame(bytes((what,)), True))
        return True

    def connected(self, connection: _Connection) -> None:
        """Take a new connection in place of the old one."""
        if self._connection is not None:
            self._connection.close()
        self._connection, self._told = connection, None

    def lost(self, connection: _Connection) -> None:
        """Forget a connection that was closed."""
        if self._connection is connection:
            self._connection = None

    def tell(self, connection: _Connection) -> None:
        """Send a change of the attention flag; always after an answer, since QEMU drops what follows a command."""
        if connection is self._connection and self._wanted is not (self._told or Signal.QUIET):
            connection.send(Frame(bytes((self._wanted,)), True))
            self._told = self._wanted

    def _attention(self, is_set: bool, by_interrupt: bool) -> None:
        if not is_set:
            self._wanted = Signal.QUIET
        else:
            self._wanted = Signal.ATTENTION_INTERRUPT if by_interrupt else Signal.ATTENTION
