# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Ask a fleet for what our inventory asks it for, with asyncio and httptools, and make nothing of it.

It is what a fleet is measured against: a client of the same requests, over TLS that verifies, with a login and one connection
for each BMC, in one process and one thread. It knows the requests beforehand, decodes the JSON of each answer, and throws it
away: no links to follow, no model, no locks. Prints one line for each BMC that answered everything with 200.
"""

import argparse
import asyncio
import json
import ssl
from pathlib import Path

import httptools

from benchmarks.inventory.served import PASSWORD, SESSIONS, USER

AT_ONCE = 512
"""BMCs in progress. More make it no faster here; fewer leave it idle without ``$expand``."""


class _Exchange(asyncio.Protocol):
    """One connection: a request, its answer, and the next."""

    def __init__(self) -> None:
        self._answered: asyncio.Future[None] | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._body: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self.token = b''
        self.place = b''

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(exc or ConnectionResetError('closed'))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by httptools."""
        if name == b'X-Auth-Token':
            self.token = value
        elif name == b'Location':
            self.place = value

    def on_body(self, data: bytes) -> None:
        """Called by httptools."""
        self._body.append(data)

    def on_message_complete(self) -> None:
        """Called by httptools."""
        assert self._answered is not None
        self._answered.set_result(None)

    async def ask(self, method: bytes, target: bytes, body: bytes = b'') -> int:
        """Send a request, and decode what comes."""
        assert self._transport is not None
        self._answered = asyncio.get_running_loop().create_future()
        self._parser = httptools.HttpResponseParser(self)
        self._body.clear()
        lines = [method + b' ' + target + b' HTTP/1.1', b'Host: bmc', b'Accept: application/json', b'OData-Version: 4.0']
        if self.token:
            lines.append(b'X-Auth-Token: ' + self.token)
        if body:
            lines += [b'Content-Type: application/json', b'Content-Length: %d' % len(body)]
        self._transport.write(b'\r\n'.join([*lines, b'', body]))
        await self._answered
        if self._body:
            json.loads(b''.join(self._body))
        return int(self._parser.get_status_code())

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()


async def _one(port: int, targets: list[bytes], context: ssl.SSLContext, room: asyncio.Semaphore) -> None:
    login = json.dumps({'UserName': USER, 'Password': PASSWORD}).encode()
    async with room:
        loop = asyncio.get_running_loop()
        _, exchange = await loop.create_connection(_Exchange, '127.0.0.1', port, ssl=context, server_hostname='127.0.0.1')
        right = await exchange.ask(b'POST', SESSIONS.encode(), login) == 201
        for target in targets:
            right &= await exchange.ask(b'GET', target) == 200
        await exchange.ask(b'DELETE', exchange.place)
        exchange.close()
    if right:
        print(json.dumps({'target': f'bmc-{port}'}), flush=True)


async def _all(ports: list[int], targets: list[bytes], context: ssl.SSLContext) -> None:
    room = asyncio.Semaphore(AT_ONCE)
    async with asyncio.TaskGroup() as group:
        for port in ports:
            group.create_task(_one(port, targets, context, room))


def main() -> None:
    """Ask all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('file', type=Path, help='JSON: ca, ports, and targets, the GETs of one BMC')
    found = json.loads(parser.parse_args().file.read_text(encoding='utf-8'))
    context = ssl.create_default_context(cafile=found['ca'])
    asyncio.run(_all(found['ports'], [target.encode() for target in found['targets']], context))


if __name__ == '__main__':
    main()
