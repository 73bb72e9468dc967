# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How are emulated BMCs put on the network for IPMI? Each has a UDP port of its own; one event loop serves them all."""

import asyncio
import threading
from typing import cast

from baremetal_acc.emulator.ipmi.session import Endpoint

LOOPBACK = '127.0.0.1'
START_SECONDS = 30


class _Port(asyncio.DatagramProtocol):
    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)  # asyncio's own is no subclass of it

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        if self._transport is not None:
            for answer in self._endpoint.receive(data):
                self._transport.sendto(answer, addr)


async def listen(endpoint: Endpoint, host: str = LOOPBACK, port: int = 0) -> tuple[asyncio.DatagramTransport, int]:
    """Serve one BMC.

    :param port: 0: a free one.
    :returns: what ends it when closed, and the port.
    """
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(lambda: _Port(endpoint), local_addr=(host, port))
    return transport, int(transport.get_extra_info('sockname')[1])


class LanThread:
    """An event loop in a thread of its own that serves BMCs, for tests, which are synchronous."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name='emulated-ipmi', daemon=True)
        self._transports: list[asyncio.DatagramTransport] = []

    def __enter__(self) -> 'LanThread':
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(START_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_SECONDS)
        self._loop.close()

    def add(self, endpoint: Endpoint, port: int = 0) -> int:
        """Serve one more BMC; gives its port."""
        transport, bound = asyncio.run_coroutine_threadsafe(listen(endpoint, port=port), self._loop).result(START_SECONDS)
        self._transports.append(transport)
        return bound

    async def _end(self) -> None:
        for transport in self._transports:
            transport.close()
        await asyncio.sleep(0)
