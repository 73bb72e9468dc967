# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Many BMCs from one recorded tree, in one process, with the cost of a real one: delay, slots, sessions, TLS.

It shares no code with the client or the emulator, and is lean on purpose: what is measured is the client. Every BMC has its own
port, its own slots and its own counters. Each request holds one of the BMC's slots for ``delay`` seconds; an expanded answer holds
it longer by ``member_delay`` for each member that was put in.

Run as a process of its own: it prints one line of JSON with the ports, then serves until its standard input is closed. The control
port answers ``GET /counts``, which also sets all counters back to zero.
"""

import argparse
import asyncio
import base64
import hashlib
import json
import secrets
import ssl
import sys
from collections import Counter
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import unquote

ROOT = '/redfish/v1'
SESSIONS = f'{ROOT}/SessionService/Sessions'
USER, PASSWORD = 'admin', 'bench-password'


class Tree:
    """The bodies of a recorded tree."""

    def __init__(self, folder: Path, *, expand: bool) -> None:
        self.bodies = {
            '/' + '/'.join(path.parent.relative_to(folder).parts): path.read_bytes() for path in folder.rglob('index.json')
        }
        root = json.loads(self.bodies[ROOT])
        features = dict(root.get('ProtocolFeaturesSupported') or {})
        features['ExpandQuery'] = {'ExpandAll': expand, 'NoLinks': expand, 'Levels': expand, 'Links': False, 'MaxLevels': 1}
        root['ProtocolFeaturesSupported'] = features
        root.setdefault('Links', {})['Sessions'] = {'@odata.id': SESSIONS}
        self.bodies[ROOT] = json.dumps(root).encode()
        self._expand = expand
        self._answers: dict[str, tuple[int, bytes, str, int]] = {}

    def answer(self, target: str) -> tuple[int, bytes, str, int]:
        """Status, body, ETag, and how many members were expanded."""
        found = self._answers.get(target)
        if found is None:
            found = self._answers[target] = self._make(target)
        return found

    def _make(self, target: str) -> tuple[int, bytes, str, int]:
        path, _, query = target.partition('?')
        path = unquote(path).rstrip('/')
        body = self.bodies.get(path)
        if body is None:
            return 404, b'{"error": {"code": "Base.1.0.ResourceMissingAtURI", "message": "not there"}}', '', 0
        members = 0
        if '$expand' in query:
            if not self._expand:
                return 501, b'{"error": {"code": "Base.1.0.QueryNotSupported", "message": "no $expand"}}', '', 0
            body, members = self._expanded(body)
        return 200, body, f'"{hashlib.sha256(body).hexdigest()[:16]}"', members

    def _expanded(self, body: bytes) -> tuple[bytes, int]:
        document: Any = json.loads(body)
        found = document.get('Members')
        whole: list[Any] = []
        for member in found if isinstance(found, list) else ():
            inner = self.bodies.get(str(member.get('@odata.id')).rstrip('/'))
            try:
                whole.append(json.loads(inner) if inner is not None else member)
            except ValueError:
                whole.append(member)
        if whole:
            document['Members'] = whole
        return json.dumps(document).encode(), len(whole)


@dataclass(slots=True)
class Bmc:
    """One BMC: its slots and its counters."""

    slots: asyncio.Semaphore
    tokens: set[str] = field(default_factory=set)
    asked: Counter[str] = field(default_factory=Counter)
    connections: int = 0
    logins: int = 0
    unchanged: int = 0
    at_once: int = 0
    peak: int = 0
    broken: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """What a request costs."""

    delay: float
    member_delay: float
    auth: bool
    connection_delay: float


class Speaker(asyncio.Protocol):
    """One connection."""

    def __init__(self, bmc: Bmc, tree: Tree, knobs: Knobs) -> None:
        self._bmc = bmc
        self._tree = tree
        self._knobs = knobs
        self._buffer = b''
        self._waiting: asyncio.Queue[tuple[str, str, dict[str, str], bytes]] = asyncio.Queue()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._bmc.connections += 1
        self._worker = asyncio.get_running_loop().create_task(self._work())

    def connection_lost(self, exc: Exception | None) -> None:
        self._worker.cancel()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b'\r\n\r\n')) >= 0:
            lines = self._buffer[:end].decode('latin-1').split('\r\n')
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(':') for line in lines[1:])}
            size = int(headers.get('content-length', '0'))
            if len(self._buffer) < end + 4 + size:
                return
            body = self._buffer[end + 4 : end + 4 + size]
            self._buffer = self._buffer[end + 4 + size :]
            method, target, _ = lines[0].split(' ', 2)
            self._waiting.put_nowait((method, target, headers, body))

    async def _work(self) -> None:
        if self._knobs.connection_delay:
            await asyncio.sleep(self._knobs.connection_delay)
        while True:
            method, target, headers, body = await self._waiting.get()
            bmc = self._bmc
            if bmc.broken:
                await asyncio.sleep(3600)
            bmc.asked[f'{method} {target}'] += 1
            status, answer, extra, members = self._respond(method, target, headers, body)
            async with bmc.slots:
                bmc.at_once += 1
                bmc.peak = max(bmc.peak, bmc.at_once)
                await asyncio.sleep(self._knobs.delay + members * self._knobs.member_delay)
                bmc.at_once -= 1
            close = headers.get('connection', '').lower() == 'close'
            head = (
                f'HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: application/json\r\nOData-Version: 4.0\r\n'
                f'Cache-Control: no-cache\r\n{extra}Content-Length: {len(answer)}\r\n'
                f'{"Connection: close" if close else "Connection: keep-alive"}\r\n\r\n'
            )
            self._transport.write(head.encode('latin-1') + answer)
            if close:
                self._transport.close()
                return

    def _respond(self, method: str, target: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes, str, int]:
        bmc = self._bmc
        path = target.partition('?')[0].rstrip('/')
        if method == 'POST' and path == SESSIONS:
            given = json.loads(body)
            if (given.get('UserName'), given.get('Password')) != (USER, PASSWORD):
                return 401, b'{}', '', 0
            token = secrets.token_hex(16)
            bmc.tokens.add(token)
            bmc.logins += 1
            uri = f'{SESSIONS}/{bmc.logins}'
            return 201, json.dumps({'@odata.id': uri, 'Id': '1', 'Name': 'Session'}).encode(), (
                f'X-Auth-Token: {token}\r\nLocation: {uri}\r\n'
            ), 0  # fmt: skip
        if method == 'DELETE' and path.startswith(SESSIONS):
            bmc.tokens.discard(headers.get('x-auth-token', ''))
            return 204, b'', '', 0
        if method != 'GET':
            return 405, b'{}', '', 0
        if self._knobs.auth and path not in (ROOT, '/redfish') and not self._known(headers):
            return 401, b'{}', 'WWW-Authenticate: Basic realm="bmc"\r\n', 0
        status, answer, etag, members = self._tree.answer(target)
        if etag and etag in headers.get('if-none-match', ''):
            bmc.unchanged += 1
            return 304, b'', f'ETag: {etag}\r\n', 0
        return status, answer, f'ETag: {etag}\r\n' if etag else '', members

    def _known(self, headers: dict[str, str]) -> bool:
        if headers.get('x-auth-token') in self._bmc.tokens:
            return True
        expected = base64.b64encode(f'{USER}:{PASSWORD}'.encode()).decode()
        return headers.get('authorization') == f'Basic {expected}'


async def _control(bmcs: list[Bmc], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b'\r\n\r\n')
    total: Counter[str] = Counter()
    for bmc in bmcs:
        total += bmc.asked
    counts = {
        'requests': total.total(),
        'repeated': sum(n - 1 for bmc in bmcs for name, n in bmc.asked.items() if name.startswith('GET ') and n > 1),
        'connections': sum(bmc.connections for bmc in bmcs),
        'logins': sum(bmc.logins for bmc in bmcs),
        'unchanged': sum(bmc.unchanged for bmc in bmcs),
        'peak': max(bmc.peak for bmc in bmcs),
        'asked': dict(total),
    }
    for bmc in bmcs:
        bmc.asked.clear()
        bmc.connections = bmc.logins = bmc.unchanged = bmc.peak = 0
    body = json.dumps(counts).encode()
    writer.write(
        b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n' % len(body)
    )
    writer.write(body)
    await writer.drain()
    writer.close()


async def _serve(arguments: argparse.Namespace) -> None:
    tree = Tree(arguments.tree, expand=arguments.expand)
    knobs = Knobs(
        delay=arguments.delay,
        member_delay=arguments.member_delay,
        auth=not arguments.no_auth,
        connection_delay=arguments.connection_delay,
    )
    context = None
    if arguments.certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(arguments.certificate)
    bmcs = [Bmc(asyncio.Semaphore(arguments.slots)) for _ in range(arguments.count)]
    for bmc in bmcs[: arguments.broken]:
        bmc.broken = True
    loop = asyncio.get_running_loop()
    ports = []
    servers = []
    for bmc in bmcs:
        server = await loop.create_server(
            lambda bmc=bmc: Speaker(bmc, tree, knobs),
            '127.0.0.1',
            0,
            ssl=context,
            backlog=256,  # type: ignore[misc]
        )
        servers.append(server)
        ports.append(server.sockets[0].getsockname()[1])
    control = await asyncio.start_server(lambda r, w: _control(bmcs, r, w), '127.0.0.1', 0)
    print(json.dumps({'ports': ports, 'control': control.sockets[0].getsockname()[1]}), flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('tree', type=Path, help='folder that holds redfish/v1/index.json')
    parser.add_argument('--count', type=int, default=1, help='BMCs')
    parser.add_argument('--broken', type=int, default=0, help='of those, BMCs that take connections and never answer')
    parser.add_argument('--delay', type=float, default=0.05, help='seconds that a request holds a slot')
    parser.add_argument('--member-delay', type=float, default=0.0, help='seconds more for each expanded member')
    parser.add_argument('--connection-delay', type=float, default=0.0, help='seconds for the first request of a connection')
    parser.add_argument('--slots', type=int, default=4, help='requests in progress at a time, per BMC')
    parser.add_argument('--expand', action='store_true', help='serve $expand')
    parser.add_argument('--no-auth', action='store_true', help='answer everybody')
    parser.add_argument('--certificate', help='PEM file with certificate and key: serve HTTPS')
    asyncio.run(_serve(parser.parse_args()))


if __name__ == '__main__':
    main()
