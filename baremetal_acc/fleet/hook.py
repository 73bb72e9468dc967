# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How does a scheduler without Nova tell that it found nothing? By HTTP, with a token::

    POST /v1/demands    {"id": "...", "query": "resources=CUSTOM_GOLD:1&resources_ACC=CUSTOM_ACC_FN_AES:1"}
    GET  /v1/demands    all that count and how far it has come with them; ?id=... for one request
    GET  /v1/health     whether anybody is at home; needs no token

What comes in may be anything: the size of a request, its time, the number of connections and the rate of demands are bounded,
and every refusal is JSON with a sentence that says what to do.
"""

import asyncio
import hmac
import json
import logging
import os
import socket
import ssl
import stat
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from aiohttp import web

from baremetal_acc.decide import demand
from baremetal_acc.decide.demand import Asked
from baremetal_acc.decide.progress import Told
from baremetal_acc.errors import AccError, DemandDiffers, DemandRefused, StateError, UsageError
from baremetal_acc.fleet.demand import Desk
from baremetal_acc.fleet.document import body_of

LOG = logging.getLogger(__name__)

OPTION = '[baremetal_acc_demand]'

MAX_BODY = 32 * 1024
"""Bytes: the extra specs of a flavor, 256 of a hundred bytes."""

CONNECTION_SECONDS = 15.0
"""How long a connection may last: one request, from the first byte of it to the last of its answer."""

CONNECTIONS = 64
"""At a time. One more is closed at once."""

RATE = 50.0
"""Demands a second that are looked at, in the long run."""

BURST = 200
"""Demands that may come at once."""

LOG_SECONDS = 60.0
"""How long after it was logged that a demand was refused no other refusal is: fifty may come a second."""

TOKEN_LENGTHS = (16, 512)
"""Characters of a token, at least and at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listen:
    """Where and how the hook listens.

    :ivar address: HOST:PORT, the host as an IP address.
    :ivar token_file: whoever has what it holds may tell demands.
    """

    address: str
    token_file: str | None
    certificate: str | None = None
    key: str | None = None

    def place(self) -> tuple[str, int]:
        """Host and port.

        :raises UsageError: it is no such address, or one where anybody could read the token.
        """
        host, _, port = self.address.rpartition(':')
        host = host.removeprefix('[').removesuffix(']')
        try:
            where, number = ip_address(host), int(port) if port.isascii() and port.isdigit() else -1
        except ValueError:
            where, number = None, -1
        if where is None or not 0 <= number <= 65535:
            raise UsageError(
                argument=f'{OPTION} http_listen',
                what=f'{self.address!a}: is no address',
                hint='such as 127.0.0.1:8779, [::1]:8779',
            )
        if not where.is_loopback and self.certificate is None:
            raise UsageError(
                argument=f'{OPTION} http_listen',
                what=f'{self.address}: others could read the token on its way',
                hint='name http_certificate and http_key, or listen at 127.0.0.1',
            )
        return host, number

    def token(self) -> bytes:
        """What a request has to hold.

        :raises UsageError: there is none. ``StateError``: the file cannot be read, or others may read it.
        """
        if self.token_file is None:
            raise UsageError(
                argument=f'{OPTION} http_token_file',
                what='is needed: whoever can connect could have machines programmed',
                hint='umask 077; openssl rand -hex 32 > FILE',
            )
        return read_token(Path(self.token_file))

    def tls(self) -> ssl.SSLContext | None:
        """How it proves who it is; None: it does not, and listens to this machine alone.

        :raises UsageError: certificate or key cannot be used.
        """
        if self.certificate is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.certificate, self.key, password=lambda: '')
        except (OSError, ValueError) as exc:
            raise UsageError(
                argument=f'{OPTION} http_certificate',
                what=f'{self.certificate}: cannot be used with its key: {exc}',
                hint='both in PEM, the key without a password',
            ) from None
        return context


def read_token(path: Path) -> bytes:
    """The token of a file.

    :raises StateError: it cannot be read, or others may read or write it. ``UsageError``: it holds no token.
    """
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), 'rb') as stream:
            found = os.fstat(stream.fileno())
            data = stream.read(TOKEN_LENGTHS[1] + 2) if stat.S_ISREG(found.st_mode) else b''
    except OSError as exc:
        raise StateError(f'{path}: {exc.strerror}', hint=f'option {OPTION} http_token_file names it') from exc
    if found.st_uid not in (0, os.geteuid()) or found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise StateError(f'{path}: others may read it, or it is not yours', hint=f'chmod 600 {path}')
    token = data.strip()
    if not (TOKEN_LENGTHS[0] <= len(token) <= TOKEN_LENGTHS[1]) or not all(0x21 <= b <= 0x7E for b in token):
        raise UsageError(
            argument=f'{OPTION} http_token_file',
            what=f'{path}: holds no token of {TOKEN_LENGTHS[0]} to {TOKEN_LENGTHS[1]} characters without blanks',
            hint='umask 077; openssl rand -hex 32 > FILE',
        )
    return token


class _Refused(Exception):
    """A request is refused."""

    def __init__(self, status: int, what: str, headers: Mapping[str, str] | None = None, **more: Any) -> None:
        super().__init__(what)
        self.status = status
        self.body = {'error': what, **more}
        self.headers = dict(headers or {})


class _Server(web.Server):
    """aiohttp's server with connections for a bounded time each: nobody can hold one by sending slowly."""

    def __init__(self, handler: Callable[[web.BaseRequest], Any]) -> None:
        super().__init__(handler, access_log=None, auto_decompress=False, keepalive_timeout=0, tcp_keepalive=False)
        self._ends: dict[Any, asyncio.TimerHandle] = {}

    @property
    def open(self) -> int:
        """Connections."""
        return len(self._ends)

    def connection_made(self, handler: Any, transport: asyncio.Transport) -> None:
        """Somebody has connected."""
        super().connection_made(handler, transport)
        self._ends[handler] = asyncio.get_running_loop().call_later(CONNECTION_SECONDS, transport.abort)

    def connection_lost(self, handler: Any, exc: BaseException | None = None) -> None:
        """He has gone."""
        timer = self._ends.pop(handler, None)
        if timer is not None:
            timer.cancel()
        super().connection_lost(handler, exc)


class Hook:
    """Listens in a thread of its own, from :meth:`start` until :meth:`stop`."""

    def __init__(self, listen: Listen, desk: Desk, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._where, self._token, self._tls = listen.place(), listen.token(), listen.tls()
        self._desk = desk
        self._clock = clock
        self._left, self._at = float(BURST), clock()
        self._logged: float | None = None
        self._loop = asyncio.new_event_loop()
        self._thread: threading.Thread | None = None
        self._socket: socket.socket | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        host, port = (self._socket.getsockname() if self._socket is not None else self._where)[:2]
        shown = f'[{host}]' if ':' in host else host
        return f'{"http" if self._tls is None else "https"}://{shown}:{port}'

    def start(self) -> None:
        """Listen.

        :raises UsageError: it cannot listen there.
        """
        host, port = self._where
        try:
            self._socket = socket.create_server(
                (host, port), family=socket.AF_INET6 if ':' in host else socket.AF_INET, backlog=CONNECTIONS
            )
        except OSError as exc:
            raise UsageError(argument=f'{OPTION} http_listen', what=f'{host} port {port}: {exc.strerror}') from exc
        self._thread = threading.Thread(target=self._run, args=(self._socket,), name='demand-hook', daemon=True)
        self._thread.start()
        LOG.info('demands are taken at %s/v1/demands', self.url)

    def stop(self) -> None:
        """Listen no more."""
        if self._thread is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def _run(self, listening_at: socket.socket) -> None:
        asyncio.set_event_loop(self._loop)
        serving = self._loop.create_task(self._serve(listening_at))
        try:
            self._loop.run_forever()
        finally:
            serving.cancel()
            self._loop.run_until_complete(asyncio.wait([serving]))
            listening_at.close()
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()

    async def _serve(self, listening_at: socket.socket) -> None:
        """Take connections, so many at a time. asyncio's own server counts none whose TLS is not agreed on yet."""
        loop = asyncio.get_running_loop()
        server = _Server(self._answer)
        coming: set[asyncio.Task[None]] = set()
        listening_at.setblocking(False)
        try:
            while True:
                try:
                    connection, _ = await loop.sock_accept(listening_at)
                except OSError as exc:
                    LOG.warning('a connection could not be taken: %s', exc.strerror)
                    await asyncio.sleep(1.0)
                    continue
                if len(coming) + server.open >= CONNECTIONS:
                    connection.close()
                    continue
                task = loop.create_task(self._hand_over(connection, server))
                coming.add(task)
                task.add_done_callback(coming.discard)
        finally:
            for task in coming:
                task.cancel()
            await server.shutdown(1.0)

    async def _hand_over(self, connection: socket.socket, server: _Server) -> None:
        """Give a connection to the server when its TLS is agreed on."""
        timeout = None if self._tls is None else CONNECTION_SECONDS
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                server, connection, ssl=self._tls, ssl_handshake_timeout=timeout
            )
        except OSError as exc:
            LOG.debug('a connection came to nothing: %s', type(exc).__name__)
            connection.close()

    async def _answer(self, http: web.BaseRequest) -> web.StreamResponse:
        headers: Mapping[str, str] = {}
        try:
            status, body = await self._respond(http)
        except _Refused as exc:
            status, body, headers = exc.status, exc.body, exc.headers
        except DemandRefused as exc:
            self._log_refusal(exc)
            status, body, headers = 503, {'error': exc.text}, {'Retry-After': '60'}
        except DemandDiffers as exc:
            status, body = 409, {'error': str(exc)}
        except UsageError as exc:
            status, body = 422, {'error': str(exc)}
        except AccError as exc:
            LOG.error('a demand could not be kept: %s', exc)
            status, body = 500, {'error': 'it could not be kept; the log of the service says why'}
        answer = web.json_response(body, status=status, headers=headers)
        answer.force_close()
        return answer

    def _log_refusal(self, error: DemandRefused) -> None:
        """What refuses one refuses all that come after it: the log is told once in a while."""
        now = self._clock()
        if self._logged is None or now - self._logged >= LOG_SECONDS:
            self._logged = now
            LOG.warning('a demand was refused: %s', error)

    async def _respond(self, http: web.BaseRequest) -> tuple[int, dict[str, Any]]:
        if http.path == '/v1/health':
            _only(http, 'GET')
            return 200, {'status': 'ok'}
        if http.path != '/v1/demands':
            raise _Refused(404, 'there are /v1/demands and /v1/health')
        self._admit(http)
        _only(http, 'GET', 'POST')
        loop = asyncio.get_running_loop()
        if http.method == 'GET':
            return 200, await loop.run_in_executor(None, self._list, http.query.get('id'))
        self._pace()
        body = _parsed(await _read(http))
        return 202, await loop.run_in_executor(None, self._tell, body)

    def _admit(self, http: web.BaseRequest) -> None:
        scheme, _, given = http.headers.get('Authorization', '').partition(' ')
        right = hmac.compare_digest(given.strip().encode('utf-8', 'surrogateescape'), self._token)
        if scheme.lower() != 'bearer' or not right:
            raise _Refused(
                401,
                'the header Authorization: Bearer TOKEN is missing, or its token is not the one',
                {'WWW-Authenticate': 'Bearer'},
            )

    def _pace(self) -> None:
        """Let so many through a second, and no more."""
        now = self._clock()
        self._left, self._at = min(float(BURST), self._left + (now - self._at) * RATE), now
        if self._left < 1:
            raise _Refused(429, f'more than {RATE:.0f} demands a second', {'Retry-After': '1'})
        self._left -= 1

    def _list(self, request: str | None) -> dict[str, Any]:
        told = self._desk.told()
        return body_of((t for t in told if request is None or _of_request(t, request)), self._desk.spool.refused())

    def _tell(self, body: Mapping[str, Any]) -> dict[str, Any]:
        asked = self._asked(body)
        if not asked.functions:
            raise _Refused(422, 'it asks for no function that could be programmed', notes=list(asked.notes))
        request = _text(body, 'id')
        demands = self._desk.tell(
            asked, request or '', datetime.now(UTC), source='http', asker=_text(body, 'project', needed=False)
        )
        return {
            'demands': [{'id': d.id, 'function': d.function, 'resource_class': d.resource_class} for d in demands],
            'notes': list(asked.notes),
        }

    def _asked(self, body: Mapping[str, Any]) -> Asked:
        unknown = sorted(set(body) - {'id', 'function', 'query', 'extra_specs', 'resource_class', 'project'})
        if unknown:
            raise _Refused(400, f'there is no key {unknown[0][:80]!a}')
        given = [key for key in ('function', 'query', 'extra_specs') if key in body]
        if len(given) != 1:
            raise _Refused(400, 'one of function, query and extra_specs has to be there, and no more than one')
        resource_class = _text(body, 'resource_class', needed=False)
        if given == ['function']:
            return Asked(functions=(self._desk.function(_text(body, 'function') or ''),), resource_class=resource_class)
        if given == ['query']:
            asked = demand.of_query(_text(body, 'query', MAX_BODY) or '', self._desk.functions)
        else:
            specs = body['extra_specs']
            if not isinstance(specs, dict) or not all(isinstance(value, str) for value in specs.values()):
                raise _Refused(400, 'extra_specs has to be an object of texts')
            asked = demand.of_flavor(specs, self._desk.functions)
        return asked if resource_class is None else replace(asked, resource_class=resource_class)


def _of_request(told: Told, request: str) -> bool:
    return told.demand.id == request or told.demand.id.rpartition('/')[0] == request


def _only(http: web.BaseRequest, *methods: str) -> None:
    if http.method not in methods:
        raise _Refused(405, f'there is {" and ".join(methods)}', {'Allow': ', '.join(methods)})


async def _read(http: web.BaseRequest) -> bytes:
    if http.headers.get('Content-Encoding', 'identity').lower() != 'identity':
        raise _Refused(415, 'a body that is packed is not read')
    too_long = _Refused(413, f'a body has {MAX_BODY} bytes at most')
    if (http.content_length or 0) > MAX_BODY:
        raise too_long
    data = bytearray()
    async for chunk in http.content.iter_any():
        data += chunk
        if len(data) > MAX_BODY:
            raise too_long
    return bytes(data)


def _parsed(data: bytes) -> dict[str, Any]:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        raise _Refused(400, 'the body is no JSON') from None
    if not isinstance(body, dict):
        raise _Refused(400, 'the body is no JSON object')
    return body


def _text(body: Mapping[str, Any], key: str, longest: int = 255, *, needed: bool = True) -> str | None:
    value = body.get(key)
    if value is None and not needed:
        return None
    if not isinstance(value, str) or not 0 < len(value) <= longest:
        raise _Refused(400, f'{key} has to be a text of 1 to {longest} characters')
    return value
