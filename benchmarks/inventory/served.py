# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Many BMCs from one recorded tree, in one process, with the cost of a real one: delay, slots, sessions, TLS.

It shares no code with the client or the emulator, and is lean on purpose: what is measured is the client. Every BMC has its
own port, its own slots and its own counters. Each request holds one of the BMC's slots for ``delay`` seconds; an expanded
answer holds it longer by ``member_delay`` for each member that was put in. Requests of one connection are answered in order.

Run as a process of its own: it prints one line of JSON with the ports, then serves until its standard input is closed. The
control port answers ``GET /counts``, which also sets all counters back to zero. ``late`` is how many seconds after its time an
answer began, on average: where that is no small part of the delay, the machine is too busy to measure on.
"""

import argparse
import base64
import contextlib
import functools
import hashlib
import heapq
import json
import re
import resource
import secrets
import select
import socket
import ssl
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import unquote

ROOT = '/redfish/v1'
SERVICE = f'{ROOT}/SessionService'
SESSIONS = f'{SERVICE}/Sessions'
USER, PASSWORD = 'admin', 'bench-password'

DRIP = 1.0
"""Seconds between two bytes of a BMC that drips."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one target gets: complete answers, and what they cost.

    :ivar members: how many were expanded.
    """

    whole: bytes
    unchanged: bytes
    etag: str
    members: int


def http(status: int, body: bytes, extra: str = '') -> bytes:
    """A complete answer that keeps the connection."""
    return (
        f'HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: application/json\r\nOData-Version: 4.0\r\n'
        f'Cache-Control: no-cache\r\n{extra}Content-Length: {len(body)}\r\n\r\n'
    ).encode('latin-1') + body


def error(status: int, code: str, extra: str = '') -> bytes:
    """An error as Redfish tells it."""
    return http(status, json.dumps({'error': {'code': f'Base.1.0.{code}', 'message': code}}).encode(), extra)


class Tree:
    """The bodies of a recorded tree."""

    def __init__(self, folder: Path, *, expand: bool, fill: bool = False) -> None:
        """Read it.

        :param expand: serve $expand, and say so in the root; else refuse it.
        :param fill: put in what every resource must have and these lack: some clients die without.
        """
        self.bodies = {
            '/' + '/'.join(path.parent.relative_to(folder).parts): path.read_bytes() for path in folder.rglob('index.json')
        }
        if fill:
            self.bodies = {uri: filled(uri, body) for uri, body in self.bodies.items()}
            dangling = {link for body in self.bodies.values() for link in singles(json.loads(body))} - set(self.bodies)
            self.bodies |= {uri: filled(uri, EMPTY) for uri in dangling if uri.startswith(ROOT)}
        root = json.loads(self.bodies[ROOT])
        features = dict(root.get('ProtocolFeaturesSupported') or {})
        said = (features.get('ExpandQuery') or {}).get('MaxLevels')
        most = said if isinstance(said, int) and expand else 1
        features['ExpandQuery'] = {'ExpandAll': expand, 'NoLinks': expand, 'Levels': expand, 'Links': False, 'MaxLevels': most}
        self._only = features.get('OnlyMemberQuery') is True
        root['ProtocolFeaturesSupported'] = features
        root['SessionService'] = {'@odata.id': SERVICE}
        root.setdefault('Links', {})['Sessions'] = {'@odata.id': SESSIONS}
        self.bodies[ROOT] = json.dumps(root).encode()
        service = {'@odata.id': SERVICE, '@odata.type': '#SessionService.v1_1_8.SessionService', 'Id': 'SessionService'}
        self.bodies[SERVICE] = json.dumps(
            {**service, 'Name': 'Session Service', 'ServiceEnabled': True, 'Sessions': {'@odata.id': SESSIONS}}
        ).encode()
        self._expand = expand
        self._answers: dict[str, Answer] = {}

    def answer(self, target: str) -> Answer:
        """The answer to a GET; made once."""
        found = self._answers.get(target)
        if found is None:
            found = self._answers[target] = self._make(target)
        return found

    def _make(self, target: str) -> Answer:
        path, _, query = target.partition('?')
        body = self.bodies.get(unquote(path).rstrip('/'))
        if body is None:
            return Answer(whole=error(404, 'ResourceMissingAtURI'), unchanged=b'', etag='', members=0)
        members = 0
        if '$expand' in query:
            if not self._expand:
                return Answer(whole=error(501, 'QueryNotSupported'), unchanged=b'', etag='', members=0)
            found = LEVELS.search(query)
            whole, members = self._expanded(json.loads(body), int(found[1]) if found is not None else 1)
            body = json.dumps(whole).encode()
        elif query == 'only' and self._only:
            listed = json.loads(body).get('Members')
            if isinstance(listed, list) and len(listed) == 1:
                body = self.bodies.get(str(listed[0].get('@odata.id')).rstrip('/'), body)
        etag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
        extra = f'ETag: {etag}\r\n'
        return Answer(whole=http(200, body, extra), unchanged=http(304, b'', extra), etag=etag, members=members)

    def _expanded(self, body: Any, levels: int) -> tuple[Any, int]:
        """A resource with what it links to, but for what its Links do, and how many resources that is."""
        if not isinstance(body, dict) or not levels:
            return body, 0
        count = 0

        def put_in(value: Any) -> Any:
            nonlocal count
            if isinstance(value, list):
                return [put_in(item) for item in value]
            inner = self.bodies.get(str(value['@odata.id']).rstrip('/')) if _is_link(value) else None
            try:
                found, below = self._expanded(json.loads(inner) if inner is not None else value, levels - 1)
            except ValueError:
                return value
            count += (inner is not None) + below
            return found

        names = ['Members'] if isinstance(body.get('Members'), list) else [name for name in body if name != 'Links']
        whole = {**body, **{name: put_in(body[name]) for name in names if _has_link(body[name])}}
        return whole, count


def _is_link(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {'@odata.id'}


def _has_link(value: Any) -> bool:
    return _is_link(value) or (isinstance(value, list) and any(map(_is_link, value)))


LEVELS = re.compile(r'\$levels=([1-9])')

EMPTY = b'{"@odata.type": "#ResourceCollection.ResourceCollection", "Id": "-", "Members": []}'
"""What a single link leads to that the recording has cut off: an empty collection, or a resource that says nothing."""


def singles(document: Any) -> Iterator[str]:
    """URIs that a document names outside of arrays: what the service has there, whatever members come and go."""
    if isinstance(document, dict):
        for value in document.values():
            link = value.get('@odata.id') if isinstance(value, dict) else None
            if isinstance(link, str) and len(value) == 1 and '#' not in link:
                yield link.rstrip('/')
            else:
                yield from singles(value)


def filled(uri: str, body: bytes) -> bytes:
    """A body with the properties that every resource and every collection must have.

    Source: DSP0266, sections "Resources" and "Resource collections".
    """
    try:
        document = json.loads(body)
    except ValueError:
        document = {}
    if not isinstance(document, dict):
        document = {}
    name = uri.rpartition('/')[2]
    document.setdefault('@odata.id', uri)
    document.setdefault('Name', name)
    if str(document.get('@odata.type', '')).partition('.')[0].endswith('Collection'):
        if not isinstance(document.get('Members'), list):
            document['Members'] = []
        document['Members@odata.count'] = len(document['Members'])
    else:
        document.setdefault('Id', name)
    return json.dumps(document).encode()


@dataclass(slots=True)
class Bmc:
    """One BMC: its slots and its counters.

    :ivar kind: ``healthy``, ``silent``, ``refusing`` or ``dripping``.
    """

    kind: str = 'healthy'
    tokens: set[str] = field(default_factory=set)
    asked: Counter[str] = field(default_factory=Counter)
    waiting: deque[tuple['Connection', bytes, float]] = field(default_factory=deque)
    running: int = 0
    connections: int = 0
    logins: int = 0
    unchanged: int = 0
    peak: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """What a request costs."""

    delay: float = 0.05
    member_delay: float = 0.0
    connection_delay: float = 0.0
    slots: int = 4
    auth: bool = True


def respond(
    bmc: Bmc, tree: Tree, knobs: Knobs, method: str, target: str, headers: dict[str, str], body: bytes
) -> tuple[bytes, int]:
    """The answer to one request, and how many members it has expanded."""
    if method == 'GET':
        if knobs.auth and target.rstrip('/') not in (ROOT, '/redfish') and not _known(bmc, headers):
            return error(401, 'NoValidSession', 'WWW-Authenticate: Basic realm="bmc"\r\n'), 0
        answer = tree.answer(target)
        if answer.etag and answer.etag in headers.get('if-none-match', ''):
            bmc.unchanged += 1
            return answer.unchanged, 0
        return answer.whole, answer.members
    path = target.rstrip('/')
    if method == 'POST' and path == SESSIONS:
        given = json.loads(body)
        if (given.get('UserName'), given.get('Password')) != (USER, PASSWORD):
            return error(401, 'ResourceAtUriUnauthorized'), 0
        token = secrets.token_hex(16)
        bmc.tokens.add(token)
        bmc.logins += 1
        uri = f'{SESSIONS}/{bmc.logins}'
        document = {'@odata.id': uri, '@odata.type': '#Session.v1_7_0.Session', 'Id': f'{bmc.logins}', 'Name': 'Session'}
        return http(201, json.dumps(document).encode(), f'X-Auth-Token: {token}\r\nLocation: {uri}\r\n'), 0
    if method == 'DELETE' and path.startswith(SESSIONS):
        bmc.tokens.discard(headers.get('x-auth-token', ''))
        return b'HTTP/1.1 204 No Content\r\nOData-Version: 4.0\r\n\r\n', 0
    return error(405, 'OperationNotAllowed'), 0


def _known(bmc: Bmc, headers: dict[str, str]) -> bool:
    return headers.get('x-auth-token') in bmc.tokens or headers.get('authorization') == BASIC


BASIC = f'Basic {base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()}'


def counts(bmcs: list[Bmc]) -> dict[str, Any]:
    """What all BMCs were asked since the last time; sets the counters back.

    ``repeated`` are GETs that a BMC had answered before; ``peak`` is the most that one BMC had in progress.
    """
    total: Counter[str] = Counter()
    for bmc in bmcs:
        total.update(bmc.asked)
    found = {
        'requests': total.total(),
        'repeated': sum(n - 1 for bmc in bmcs for name, n in bmc.asked.items() if name.startswith('GET ') and n > 1),
        'connections': sum(bmc.connections for bmc in bmcs),
        'logins': sum(bmc.logins for bmc in bmcs),
        'unchanged': sum(bmc.unchanged for bmc in bmcs),
        'peak': max(bmc.peak for bmc in bmcs),
        'left': sum(len(bmc.tokens) for bmc in bmcs),
        'cpu': time.process_time(),
        'asked': dict(total),
    }
    for bmc in bmcs:
        bmc.asked.clear()
        bmc.connections = bmc.unchanged = bmc.peak = 0
    return found


class Connection:
    """One connection to a BMC."""

    __slots__ = ('_busy', '_in', '_out', '_server', '_sock', 'bmc', 'closing', 'fd', 'ready_at', 'shaking')

    def __init__(self, server: 'Server', bmc: Bmc, sock: socket.socket, *, shaking: bool) -> None:
        self._server = server
        self._sock = sock
        self._in = b''
        self._out = b''
        self._busy = False
        self.bmc = bmc
        self.fd = sock.fileno()
        self.shaking = shaking
        self.closing = False
        self.ready_at = time.monotonic() + server.knobs.connection_delay

    def event(self, events: int) -> None:
        """Something can be read or written."""
        try:
            if self.shaking:
                assert isinstance(self._sock, ssl.SSLSocket)
                self._sock.do_handshake()
                self.shaking = False
            if events & select.EPOLLOUT and self._out:
                self._flush()
            if events & ~select.EPOLLOUT:
                self._read()
        except (ssl.SSLWantReadError, BlockingIOError):
            pass
        except ssl.SSLWantWriteError:
            self._server.watch(self.fd, select.EPOLLIN | select.EPOLLOUT)
        except OSError:
            self.close()

    def _read(self) -> None:
        try:
            while True:
                data = self._sock.recv(65536)
                if not data:
                    self.close()
                    return
                self._in += data
                self.next()
                if len(data) < 16384:  # less than a TLS record: there is no more
                    return
        except (ssl.SSLWantReadError, BlockingIOError):
            return

    def next(self) -> None:
        """Take up the next request, if it is whole and the last one was answered."""
        if self._busy or not self._in:
            return
        end = self._in.find(b'\r\n\r\n')
        if end < 0:
            return
        first, *lines = self._in[:end].decode('latin-1').split('\r\n')
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(':') for line in lines)}
        stop = end + 4 + int(headers.get('content-length', 0))
        if len(self._in) < stop:
            return
        body, self._in = self._in[end + 4 : stop], self._in[stop:]
        method, target, _ = first.split(' ', 2)
        bmc = self.bmc
        bmc.asked[f'{method} {target}'] += 1
        knobs = self._server.knobs
        answer, members = respond(bmc, self._server.tree, knobs, method, target, headers, body)
        if headers.get('connection', '').lower() == 'close':
            self.closing = True
            answer = answer.replace(b'\r\n', b'\r\nConnection: close\r\n', 1)
        self._busy = True
        self._server.enter(self, answer, knobs.delay + members * knobs.member_delay)

    def answer(self, whole: bytes) -> None:
        """Send an answer; then the next request of this connection comes up."""
        self._busy = False
        if self.fd < 0:
            return
        if self.bmc.kind == 'dripping':
            self._drip(whole)
            return
        self._out += whole
        try:
            self._flush()
        except OSError:
            self.close()
            return
        self.next()

    def _drip(self, whole: bytes) -> None:
        if self.fd >= 0 and whole:
            self._out += whole[:1]
            with contextlib.suppress(OSError):
                self._flush()
            self._server.later(DRIP, lambda: self._drip(whole[1:]))

    def _flush(self) -> None:
        try:
            while self._out:
                sent = self._sock.send(self._out)
                self._out = self._out[sent:]
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError, BlockingIOError):
            self._server.watch(self.fd, select.EPOLLIN | select.EPOLLOUT)
            return
        self._server.watch(self.fd, select.EPOLLIN)
        if self.closing:
            self.close()

    def close(self) -> None:
        """No more of it."""
        if self.fd >= 0:
            self._server.forget(self.fd)
            self.fd = -1
            self._sock.close()


class Server:
    """All BMCs, in one loop over epoll: no task and no future for each request."""

    def __init__(self, bmcs: list[Bmc], tree: Tree, knobs: Knobs, context: ssl.SSLContext | None = None) -> None:
        self.bmcs = bmcs
        self.tree = tree
        self.knobs = knobs
        self._context = context
        # The first descriptor of all: select() takes small numbers only, and waits more exactly than epoll's milliseconds.
        self._epoll = select.epoll()
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._watched: dict[int, int] = {}
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._serial = 0
        self._running = True
        self._late = 0.0
        self._ended = 0
        self._listening: list[socket.socket] = []

    def listen(self) -> tuple[list[int], int]:
        """Open all ports.

        :returns: those of the BMCs, and the control port.
        """
        ports = []
        for bmc in self.bmcs:
            sock = socket.socket()
            sock.bind(('127.0.0.1', 0))
            self._listening.append(sock)
            ports.append(sock.getsockname()[1])
            if bmc.kind == 'refusing':
                continue
            sock.listen(256)
            sock.setblocking(False)
            if bmc.kind != 'silent':  # the kernel takes its connections, nobody else does
                self._add(sock.fileno(), functools.partial(self._accept, sock, bmc))
        control = socket.create_server(('127.0.0.1', 0))
        self._listening.append(control)
        self._add(control.fileno(), lambda _: self._tell(control))
        return ports, control.getsockname()[1]

    def serve(self, until: int) -> None:
        """Serve until a descriptor can be read."""
        self._add(until, lambda _: self.stop())
        while self._running:
            timeout = max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else None
            select.select([self._epoll.fileno()], (), (), timeout)
            for fd, events in self._epoll.poll(0):
                handler = self._handlers.get(fd)
                if handler is not None:
                    handler(events)
            now = time.monotonic()
            while self._timers and self._timers[0][0] <= now:
                at, _, call = heapq.heappop(self._timers)
                self._late += now - at
                self._ended += 1
                call()

    def stop(self) -> None:
        """Leave :meth:`serve`."""
        self._running = False

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call something after a time."""
        self._serial += 1
        heapq.heappush(self._timers, (time.monotonic() + seconds, self._serial, call))

    def enter(self, connection: Connection, answer: bytes, seconds: float) -> None:
        """A request comes in: it waits for its connection to be set up, then for a slot."""
        wait = connection.ready_at - time.monotonic() if self.knobs.connection_delay else 0.0
        if wait > 0:
            self.later(wait, lambda: self._queue(connection, answer, seconds))
        else:
            self._queue(connection, answer, seconds)

    def _queue(self, connection: Connection, answer: bytes, seconds: float) -> None:
        bmc = connection.bmc
        if bmc.running < self.knobs.slots:
            self._start(connection, answer, seconds)
        else:
            bmc.waiting.append((connection, answer, seconds))

    def _start(self, connection: Connection, answer: bytes, seconds: float) -> None:
        bmc = connection.bmc
        bmc.running += 1
        bmc.peak = max(bmc.peak, bmc.running)
        self.later(seconds, lambda: self._finish(connection, answer))

    def _finish(self, connection: Connection, answer: bytes) -> None:
        bmc = connection.bmc
        bmc.running -= 1
        if bmc.waiting:
            self._start(*bmc.waiting.popleft())
        connection.answer(answer)

    def watch(self, fd: int, events: int) -> None:
        """Change what a connection waits for."""
        if fd in self._handlers and self._watched.get(fd) != events:
            self._epoll.modify(fd, events)
            self._watched[fd] = events

    def forget(self, fd: int) -> None:
        """A connection is about to be closed."""
        if self._handlers.pop(fd, None) is not None:
            self._watched.pop(fd, None)
            self._epoll.unregister(fd)

    def _add(self, fd: int, handler: Callable[[int], None]) -> None:
        self._epoll.register(fd, select.EPOLLIN)
        self._watched[fd] = select.EPOLLIN
        self._handlers[fd] = handler

    def _accept(self, listening: socket.socket, bmc: Bmc, _events: int) -> None:
        try:
            sock, _ = listening.accept()
        except OSError:
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        bmc.connections += 1
        if self._context is not None:
            sock = self._context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        connection = Connection(self, bmc, sock, shaking=self._context is not None)
        self._add(connection.fd, connection.event)

    def _tell(self, control: socket.socket) -> None:
        sock, _ = control.accept()
        with sock:
            sock.settimeout(5)
            with contextlib.suppress(OSError):
                sock.recv(65536)
                late = self._late / self._ended if self._ended else 0.0
                self._late, self._ended = 0.0, 0
                told = counts(self.bmcs) | {'late': late}
                sock.sendall(http(200, json.dumps(told).encode(), 'Connection: close\r\n'))


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('tree', type=Path, help='folder that holds redfish/v1/index.json')
    parser.add_argument('--count', type=int, default=1, help='BMCs')
    parser.add_argument('--silent', type=int, default=0, help='number of BMCs that accept connections and never answer')
    parser.add_argument('--refusing', type=int, default=0, help='number of BMCs that refuse connections')
    parser.add_argument('--dripping', type=int, default=0, help='number of BMCs that answer one byte a second')
    parser.add_argument('--delay', type=float, default=0.05, help='seconds that a request holds a slot')
    parser.add_argument('--member-delay', type=float, default=0.0, help='seconds more for each expanded member')
    parser.add_argument('--connection-delay', type=float, default=0.0, help='seconds until a connection is set up')
    parser.add_argument('--slots', type=int, default=4, help='requests in progress at a time, per BMC')
    parser.add_argument('--expand', action='store_true', help='serve $expand')
    parser.add_argument('--fill', action='store_true', help='add required properties that the recording lacks')
    parser.add_argument('--no-auth', action='store_true', help='answer everybody')
    parser.add_argument('--certificate', help='PEM file with certificate and key: serve HTTPS')
    arguments = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    context = None
    if arguments.certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(arguments.certificate)
    kinds = ['silent'] * arguments.silent + ['refusing'] * arguments.refusing + ['dripping'] * arguments.dripping
    kinds += ['healthy'] * (arguments.count - len(kinds))
    server = Server(
        [Bmc(kind=kind) for kind in kinds],
        Tree(arguments.tree, expand=arguments.expand, fill=arguments.fill),
        Knobs(
            delay=arguments.delay,
            member_delay=arguments.member_delay,
            connection_delay=arguments.connection_delay,
            slots=arguments.slots,
            auth=not arguments.no_auth,
        ),
        context,
    )
    ports, control = server.listen()
    print(json.dumps({'ports': ports, 'kinds': kinds, 'control': control}), flush=True)
    server.serve(sys.stdin.fileno())


if __name__ == '__main__':
    main()
