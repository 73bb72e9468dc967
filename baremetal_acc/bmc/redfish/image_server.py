# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Image server for SimpleUpdate (pull): serves the checked copy of a firmware image to one BMC over HTTP or HTTPS.

This process serves the image at a random URL, which it sends only to the BMC, and only while the update waits for the BMC to
fetch the image. Nothing else is served, and the number of connections, the bytes sent and the time of a connection are limited.
"""

import contextlib
import hmac
import logging
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import PurePath
from typing import Any, BinaryIO, TypeVar

from baremetal_acc.bmc.driver import ImageServer, Upload
from baremetal_acc.errors import UsageError

LOG = logging.getLogger(__name__)

T = TypeVar('T')

CHUNK = 256 * 1024

CONNECTIONS = 4
"""Downloads at a time. A BMC may open a second connection, to probe before it fetches."""

MOST = 64
"""Connections at a time, idle ones included: each has a thread."""

STRANGERS = 16
"""Connections of one client that have not requested the image yet, at a time: it leaves room for the BMC."""

OTHERS = 32
"""The same for all clients together whose address is not the BMC's: half of MOST is kept for the BMC."""

NAMING = 20.0
"""Seconds for a connection to request the image, including TLS, however slowly it sends."""

TIMES = 3
"""How many times the image's size is sent at most: a BMC may start again, but not for ever."""

PIECE_TIMEOUT = 60.0
"""Seconds for a client to take one piece, and to send a request."""


class Fetched:
    """HTTP server of one image, in a thread of its own. Use it as a context manager: leaving it withdraws the image.

    :ivar url: the URL for the BMC.
    :ivar addresses: IP addresses at which we reach the BMC.
    """

    def __init__(self, upload: Upload, where: ImageServer, bmc: str, *, host: str | None = None) -> None:
        """Listen and begin to serve.

        :param bmc: the BMC, for the log.
        :param host: name or address at which we reach the BMC. A BMC that fetches from another address is counted with the
            other clients.
        :raises UsageError: no allowed port is free, or the certificate cannot be used.
        """
        self._upload = upload
        self._bmc = bmc
        self._lock = threading.Lock()
        self._whole = threading.Event()
        self._upto = 0
        self.addresses = _addresses(host)
        self._left = TIMES * upload.size_bytes
        self._slots = threading.Semaphore(CONNECTIONS)
        name = ''.join(c if c.isascii() and (c.isalnum() or c in '._-') else '_' for c in PurePath(upload.file).name)
        self._path = f'/{secrets.token_urlsafe(32)}/{name.strip(".") or "image"}'
        context = _context(where)
        self._server = _listening(where, self, context)
        try:
            self._file: BinaryIO = upload.open()
        except BaseException:
            self._server.server_close()
            raise
        port = self._server.server_address[1]
        host = f'[{where.host}]' if ':' in where.host else where.host
        self.url = f'{"https" if context is not None else "http"}://{host}:{port}{self._path}'
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.2,), name='image-server', daemon=True)
        self._thread.start()

    def __enter__(self) -> 'Fetched':
        return self

    def __exit__(self, *exc: object) -> None:
        """Stop serving: new and running downloads get no more bytes."""
        with self._lock:
            self._left = 0
            self._path = ''
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._file.close()

    def wait(self, seconds: float) -> bool:
        """Wait until the whole image was sent; False after the given seconds."""
        return self._whole.wait(seconds)

    # ---- called by the request handlers ----

    def is_asked_for(self, path: str) -> bool:
        """Whether a path is the image's, and the image has not been withdrawn."""
        with self._lock:
            return bool(self._path) and hmac.compare_digest(path.encode('utf-8', 'replace'), self._path.encode())

    @property
    def size(self) -> int:
        """Size of the image in bytes."""
        return self._upload.size_bytes

    @contextlib.contextmanager
    def slot(self) -> Iterator[bool]:
        """Take one of the CONNECTIONS download slots; False if none is free."""
        got = self._slots.acquire(blocking=False)
        try:
            yield got
        finally:
            if got:
                self._slots.release()

    def piece(self, start: int, size: int) -> bytes:
        """Bytes of the image; none once it was withdrawn or sent TIMES times."""
        with self._lock:
            if self._left <= 0:
                return b''
            self._file.seek(start)
            found = self._file.read(min(size, self._left))
            self._left -= len(found)
            return found

    def sent(self, start: int, count: int) -> None:
        """Note that bytes were sent. The image is complete once no part is missing: some BMCs read the end first."""
        with self._lock:
            if start <= self._upto:
                self._upto = max(self._upto, start + count)
            whole = self._upto == self.size
        if whole:
            LOG.info('%s: the BMC has fetched the image (%d bytes)', self._bmc, self.size)
            self._whole.set()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = CONNECTIONS

    def __init__(self, address: tuple[str, int], family: socket.AddressFamily, image: Fetched, context: ssl.SSLContext | None):
        self.address_family = family
        self.image = image
        self.context = context
        self._room = threading.Semaphore(MOST)
        self._guard = threading.Lock()
        self._strangers: dict[Any, tuple[float, socket.socket]] = {}
        super().__init__(address, _Request)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for a connection, unless there are too many: in all, of one client, or of all but the BMC."""
        ours = self.image.addresses
        with self._guard:
            many = sum(known[0] == client_address[0] for known in self._strangers) >= STRANGERS
            if client_address[0] not in ours:
                many = many or sum(known[0] not in ours for known in self._strangers) >= OTHERS
        if many or not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            with self._guard:
                # A duplicate handle, as TLS takes over the first one.
                self._strangers[client_address] = (time.monotonic(), request.dup())
            super().process_request(request, client_address)
        except (OSError, RuntimeError):  # no file handle or thread is available: the server closes the connection
            self.knows(client_address)
            self._room.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection in its thread, and count it off at the end."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.knows(client_address)
            self._room.release()

    def knows(self, client_address: Any) -> None:
        """Note that a client has requested the image, or is gone: it no longer counts as a stranger."""
        with self._guard:
            known = self._strangers.pop(client_address, None)
        if known is not None:
            known[1].close()

    def service_actions(self) -> None:
        """Called now and then: shut down connections that have not requested the image within NAMING seconds."""
        latest = time.monotonic() - NAMING
        with self._guard:
            for since, connection in self._strangers.values():
                if since < latest:
                    with contextlib.suppress(OSError):
                        connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log a client that disconnects, or does not speak TLS, without a traceback on stderr."""
        LOG.debug('A connection to the image server broke', exc_info=True)


class _Request(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = 'HTTP/1.1'
    server_version, sys_version = 'baremetal-acc', ''
    timeout = PIECE_TIMEOUT

    def setup(self) -> None:
        """Do the TLS handshake in the connection's thread, so that a silent client blocks no other."""
        if self.server.context is not None:
            self.request.settimeout(PIECE_TIMEOUT)
            self.request = self.server.context.wrap_socket(self.request, server_side=True)
        super().setup()

    def do_HEAD(self) -> None:
        self._serve(body=False)

    def do_GET(self) -> None:
        self._serve(body=True)

    def _serve(self, *, body: bool) -> None:
        image = self.server.image
        if not image.is_asked_for(self.path):
            self._refuse(HTTPStatus.NOT_FOUND)
            return
        self.server.knows(self.client_address)
        with image.slot() as free:
            if not free:
                self._refuse(HTTPStatus.SERVICE_UNAVAILABLE)
                return
            start = self._start()
            if start is None:
                self._refuse(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
                return
            self.send_response(HTTPStatus.PARTIAL_CONTENT if start else HTTPStatus.OK)
            self.send_header('Content-Type', 'application/octet-stream')
            self.send_header('Accept-Ranges', 'bytes')
            self.send_header('Cache-Control', 'no-store')
            self.send_header('Content-Length', str(image.size - start))
            if start:
                self.send_header('Content-Range', f'bytes {start}-{image.size - 1}/{image.size}')
            self.end_headers()
            if body:
                self._send(image, start)

    def _send(self, image: Fetched, start: int) -> None:
        at = start
        while at < image.size:
            piece = image.piece(at, CHUNK)
            if not piece:
                self.close_connection = True
                return
            self.wfile.write(piece)
            image.sent(at, len(piece))
            at += len(piece)

    def _start(self) -> int | None:
        """First byte to send: 0, or the one that an interrupted BMC asks for; None if it is past the end.

        Other ranges are answered with the whole image, as the standard allows. Source: RFC 9110, section 14.2.
        """
        text = self.headers.get('Range', '')
        begin = text.removeprefix('bytes=').removesuffix('-')
        if not text.startswith('bytes=') or not text.endswith('-') or not begin.isdecimal() or len(begin) > 20:
            return 0
        return int(begin) if int(begin) < self.server.image.size else None

    def _refuse(self, status: HTTPStatus) -> None:
        self.send_response(status)
        self.send_header('Content-Length', '0')
        self.send_header('Connection', 'close')
        self.end_headers()
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that the library calls it by
        """Log nothing: the path is a secret."""


def _addresses(host: str | None) -> frozenset[str]:
    """The IP addresses of a host, as connections show them; empty if it does not resolve."""
    if host is None:
        return frozenset()
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return frozenset()
    return frozenset(str(address[0]) for *_, address in found)


def _context(where: ImageServer) -> ssl.SSLContext | None:
    if where.certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(where.certificate, where.key)
    except (OSError, ssl.SSLError) as exc:
        what = f'{where.certificate} cannot be used: {exc.strerror or exc}'
        raise UsageError(argument='image_server_certificate', what=what, hint='set PEM files of certificate and key') from exc
    return context


def check(where: ImageServer) -> None:
    """Check that images could be served now; nothing listens afterwards.

    :raises UsageError: no allowed port is free, or the certificate cannot be used.
    """
    _context(where)
    _at_free_port(where, lambda port: socket.create_server((where.listen, port), family=_family(where)).close())


def _family(where: ImageServer) -> socket.AddressFamily:
    return socket.AF_INET6 if ':' in where.host else socket.AF_INET


def _listening(where: ImageServer, image: Fetched, context: ssl.SSLContext | None) -> _Server:
    """A server at the first free port."""
    return _at_free_port(where, lambda port: _Server((where.listen, port), _family(where), image, context))


def _at_free_port(where: ImageServer, listen: Callable[[int], T]) -> T:
    first, last = where.ports
    failed: Exception | None = None
    for port in range(first, last + 1):
        try:
            return listen(port)
        except (OSError, OverflowError) as exc:
            failed = exc
    why = failed or 'the last port is lower than the first'
    what = f'no port from {first} to {last} of {where.listen or "this host"} is available to listen on: {why}'
    raise UsageError(argument='image_server_ports', what=what, hint='set free ports that BMCs can reach') from failed
