# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The UDP listener of emulated BMCs for IPMI over LAN: one port for each BMC, all on one event loop."""

import asyncio
import random
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, cast

from baremetal_acc.emulator.ipmi.message import lateness
from baremetal_acc.emulator.ipmi.system import SystemDoor

LOOPBACK = '127.0.0.1'
START_SECONDS = 30


class LanEndpoint(Protocol):
    """One BMC on the LAN: :class:`~baremetal_acc.emulator.ipmi.session.SessionEndpoint`, or a wrapper around it."""

    def receive(self, datagram: bytes) -> list[bytes]:
        """The answers to a datagram, to be sent at once or :func:`~baremetal_acc.emulator.ipmi.message.late`."""


@dataclass(slots=True, kw_only=True)
class LanLine:
    """The transmission faults of datagrams; they can be changed while the BMC serves.

    :ivar loss: share of datagrams that are lost, each way, and ``garbled`` share of answers in which one bit is flipped.
    :ivar delay_seconds: how late each answer is sent.
    :ivar silent: every datagram is lost.
    :ivar seed: the same seed loses the same datagrams again.
    """

    loss: float = 0.0
    garbled: float = 0.0
    delay_seconds: float = 0.0
    silent: bool = False
    seed: int = 0
    _random: random.Random = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311 no secret

    def loses(self) -> bool:
        """Whether the next datagram is lost."""
        return self.silent or self._random.random() < self.loss

    def brings(self, answer: bytes) -> bytes:
        """An answer as it arrives."""
        if not self._random.random() < self.garbled:
            return answer
        place = self._random.randrange(len(answer) * 8)
        return answer[: place // 8] + bytes((answer[place // 8] ^ 1 << place % 8,)) + answer[place // 8 + 1 :]


class _Port(asyncio.DatagramProtocol):
    def __init__(self, endpoint: LanEndpoint, line: LanLine) -> None:
        self._endpoint = endpoint
        self._line = line
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)  # asyncio's own is no subclass of it

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        if self._line.loses():
            return
        for answer in self._endpoint.receive(data):
            if self._line.loses():
                continue
            seconds = self._line.delay_seconds + lateness(answer)
            answer = self._line.brings(answer)
            if seconds > 0:
                asyncio.get_running_loop().call_later(seconds, self._send, answer, addr)
            else:
                self._send(answer, addr)

    def _send(self, answer: bytes, addr: tuple[str, int]) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.sendto(answer, addr)


async def listen(
    endpoint: LanEndpoint, host: str = LOOPBACK, port: int = 0, line: LanLine | None = None
) -> tuple[asyncio.DatagramTransport, int]:
    """Serve one BMC.

    :param port: 0: a free one.
    :returns: the transport, which ends the service when closed, and the port.
    """
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: _Port(endpoint, line or LanLine()), local_addr=(host, port)
    )
    return transport, int(transport.get_extra_info('sockname')[1])


class LanThread:
    """An event loop in a thread of its own that serves BMCs, for tests, which are synchronous."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name='emulated-ipmi', daemon=True)
        self._transports: list[asyncio.DatagramTransport] = []
        self._doors: list[SystemDoor] = []

    def __enter__(self) -> 'LanThread':
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(START_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_SECONDS)
        self._loop.close()

    def add(self, endpoint: LanEndpoint, port: int = 0, line: LanLine | None = None) -> int:
        """Serve one more BMC; return its port."""
        serving = listen(endpoint, port=port, line=line)
        transport, bound = asyncio.run_coroutine_threadsafe(serving, self._loop).result(START_SECONDS)
        self._transports.append(transport)
        return bound

    def add_door(self, door: SystemDoor, path: Path | None = None) -> int:
        """Serve the system interface of a BMC on a TCP port or a Unix socket; return the port, or 0."""

        async def listening() -> int:
            if path is None:
                return await door.listen()
            await door.listen_at(path)
            return 0

        bound = asyncio.run_coroutine_threadsafe(listening(), self._loop).result(START_SECONDS)
        self._doors.append(door)
        return bound

    async def _end(self) -> None:
        for transport in self._transports:
            transport.close()
        for door in self._doors:
            await door.close()
        await asyncio.sleep(0)
