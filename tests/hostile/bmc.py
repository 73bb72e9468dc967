# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A hostile BMC that keeps to no rule: a server on loopback that sends whatever bytes a script says.

It shares no code with the client: its own HTTP, its own idea of what was sent. One script is in force at a time.
"""

import asyncio
import contextlib
import functools
import json
import random
import socket
import ssl
import struct
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

Tree = dict[str, Any]

HOLD = 'hold'
RESET = 'reset'
CLOSE = 'close'


@dataclass(slots=True, kw_only=True)
class Sent:
    """One answer as it went out.

    :ivar target: path and query that were asked for.
    :ivar bodies: what an HTTP client may rightly take for the body of a success; empty when there is none.
    :ivar mutations: the names of what was done to it.
    :ivar condition: If-Match of the request.
    :ivar login: it answers a request that holds a password: a BMC can name any place for that.
    """

    method: str
    target: str
    bodies: tuple[bytes, ...] = ()
    mutations: tuple[str, ...] = ()
    login: bool = False
    condition: str | None = None


@dataclass(slots=True, kw_only=True)
class Request:
    """What came in."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        """The path without its query."""
        return self.target.partition('?')[0]


@dataclass(slots=True, kw_only=True)
class Answer:
    """Bytes to send, piece by piece.

    :ivar pieces: bytes, or seconds to wait.
    :ivar end: None (keep the connection), CLOSE, RESET, or HOLD: say nothing more and keep it open.
    """

    pieces: list[bytes | float]
    end: str | None = None
    sent: Sent


class Script(Protocol):
    """What is answered in one look."""

    def answer(self, request: Request) -> Answer:
        """The answer to a request."""


class HostileBmc:
    """The server, with an HTTP and an HTTPS port, in a thread of its own.

    :ivar scripts: what is answered at the HTTP port, and at the HTTPS port; None: nothing.
    :ivar strangers: connections at the port that nobody has any business at.
    """

    def __init__(self, folder: Path) -> None:
        self.scripts: list[Script | None] = [None, None]
        self.strangers = 0
        self.faults: list[str] = []
        self._folder = folder
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name='hostile-bmc', daemon=True)
        self._open: set[asyncio.Task[None]] = set()

    def __enter__(self) -> 'HostileBmc':
        self._thread.start()
        if not self._ready.wait(30):
            raise AssertionError('the hostile BMC did not start')
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)

    def play(self, *scripts: Script | None) -> None:
        """Answer by one script at both ports, or by one at each."""
        self.scripts = [scripts[0], scripts[-1]]

    @property
    def http(self) -> str:
        """Its address in plain HTTP."""
        return f'http://127.0.0.1:{self.ports[0]}'

    @property
    def https(self) -> str:
        """Its address with TLS."""
        return f'https://127.0.0.1:{self.ports[1]}'

    @property
    def stranger(self) -> str:
        """Host and port that no look may ever connect to."""
        return f'127.0.0.2:{self.ports[2]}'

    def hang_up(self) -> None:
        """Close what earlier looks have left open."""
        done = threading.Event()

        def end() -> None:
            for task in self._open:
                task.cancel()
            done.set()

        self._loop.call_soon_threadsafe(end)
        done.wait(10)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        plain = await asyncio.start_server(functools.partial(self._speak, 0), '127.0.0.1', 0, limit=1 << 22, backlog=256)
        tls = await asyncio.start_server(
            functools.partial(self._speak, 1), '127.0.0.1', 0, ssl=self._context(), limit=1 << 22, backlog=256
        )
        other = await asyncio.start_server(self._stranger, '127.0.0.2', 0)
        self.ports = [server.sockets[0].getsockname()[1] for server in (plain, tls, other)]
        self._ready.set()
        await self._stop.wait()
        for server in (plain, tls, other):
            server.close()
        for task in self._open:
            task.cancel()
        await asyncio.sleep(0)

    def _context(self) -> ssl.SSLContext:
        key, certificate = self._folder / 'key.pem', self._folder / 'certificate.pem'
        subprocess.run(
            ['openssl', 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=127.0.0.1',
             '-addext', 'subjectAltName=IP:127.0.0.1', '-keyout', str(key), '-out', str(certificate)],
            check=True, capture_output=True, timeout=60,
        )  # fmt: skip
        self.certificate = certificate
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        return context

    async def _stranger(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.strangers += 1
        writer.close()

    async def _speak(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            while await self._one(port, reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ssl.SSLError, asyncio.CancelledError):
            pass
        except Exception as exc:  # noqa: BLE001 - a fault of the harness is not to look like one of the client
            self.faults.append(f'{type(exc).__name__}: {exc}')
        finally:
            self._open.discard(task)
            with contextlib.suppress(Exception):
                writer.close()

    async def _one(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b'\r\n\r\n')).decode('latin-1')
        first, *lines = head[:-4].split('\r\n')
        method, target, _ = first.split(' ', 2)
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(':') for line in lines)}
        body = await reader.readexactly(int(headers.get('content-length', '0')))
        script = self.scripts[port]
        if script is None:
            return False
        answer = script.answer(Request(method=method, target=target, headers=headers, body=body))
        for piece in answer.pieces:
            if isinstance(piece, float):
                await asyncio.sleep(piece)
            else:
                writer.write(piece)
                await writer.drain()
        if answer.end == RESET:
            raw = writer.get_extra_info('socket')
            with contextlib.suppress(OSError, AttributeError):
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
            writer.transport.abort()
            return False
        if answer.end == HOLD:
            await reader.read(1)
            return False
        return answer.end is None


def recorded(folder: Path) -> Tree:
    """A recording as a tree: URI to body."""
    tree: Tree = {}
    for file in folder.rglob('index.json'):
        with contextlib.suppress(ValueError):
            body = json.loads(file.read_bytes())
            if isinstance(body, dict):
                tree['/' + str(file.parent.relative_to(folder)).strip('/')] = body
    return tree


def plain(uri: str) -> str:
    """A URI as the oracle compares them."""
    path = uri.split('#')[0].split('?')[0]
    return '/' + '/'.join(part for part in path.split('/') if part)


def seeded(*parts: object) -> random.Random:
    """Numbers that depend on these values and on nothing else."""
    return random.Random('|'.join(map(str, parts)))


@dataclass(slots=True, kw_only=True)
class Honest:
    """A script that answers as the recording does, with sessions and $expand; the base of the hostile ones.

    :ivar expand: advertise $expand and answer it.
    """

    tree: Tree
    expand: bool = False
    sessions: bool = True
    log: list[Sent] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    again: dict[str, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def document(self, request: Request) -> tuple[int, Any, dict[str, str]]:
        """Status, body and headers of an honest answer."""
        path = plain(request.target)
        if request.method == 'POST' and path.endswith('/Sessions'):
            if not self.sessions:
                return 405, None, {}
            token = f'T0ken-{len(self.tokens)}-{random.getrandbits(64):016x}'
            self.tokens.append(token)
            uri = f'{path}/1'
            return 201, {'@odata.id': uri, 'Id': '1', 'Name': 'Session'}, {'X-Auth-Token': token, 'Location': uri}
        if request.method == 'DELETE':
            return 204, None, {}
        if request.method != 'GET' or path not in self.tree:
            return 404, {'error': {'code': 'Base.1.8.ResourceMissingAtURI', 'message': 'nothing there'}}, {}
        body = self.tree[path]
        if path == '/redfish/v1':
            query = {'ExpandAll': True, 'Levels': True, 'NoLinks': True, 'MaxLevels': 1} if self.expand else {}
            body = {**body, 'ProtocolFeaturesSupported': {'ExpandQuery': query}}
            body.setdefault('Links', {'Sessions': {'@odata.id': '/redfish/v1/SessionService/Sessions'}})
        if 'expand' in request.target and isinstance(body.get('Members'), list):
            members = [self.tree.get(plain(str(m.get('@odata.id'))), m) for m in body['Members'] if isinstance(m, dict)]
            body = {**body, 'Members': members}
        return 200, body, {}

    def turn(self, request: Request) -> int:
        """How often this was asked before: answers depend on it and not on which thread came first."""
        name = f'{request.method} {request.target}'
        with self.lock:
            self.again[name] = self.again.get(name, -1) + 1
            return self.again[name]

    def answer(self, request: Request) -> Answer:
        """The recording's answer."""
        self.turn(request)
        return self.finish(request, *self.document(request))

    def finish(self, request: Request, status: int, body: Any, headers: dict[str, str]) -> Answer:
        """An orderly answer."""
        content = b'' if body is None else json.dumps(body).encode()
        sent = Sent(
            method=request.method,
            target=request.target,
            bodies=(content,) if status < 300 and content else (),
            condition=request.headers.get('if-match'),
        )
        with self.lock:
            self.log.append(sent)
        return Answer(pieces=[head(status, {**headers, 'Content-Length': str(len(content))}) + content], sent=sent)


def head(status: int | str, headers: dict[str, str], version: str = 'HTTP/1.1') -> bytes:
    """Status line and headers."""
    lines = [f'{version} {status} X', *(f'{name}: {value}' for name, value in headers.items())]
    return ('\r\n'.join(lines) + '\r\n\r\n').encode('latin-1', 'replace')
