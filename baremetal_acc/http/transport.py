# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 client over kept connections: exchange requests and answers, send an image in pieces, read an answer in pieces.

An inspection is many small requests, and an inventory of many machines is many inspections: what a request costs decides how
many BMCs one process can read. Sockets and TLS are Python's own, messages are parsed by llhttp (package httptools). An answer
is bounded in size, number of headers and time, whatever it says of itself, and a connection that brought anything unexpected is
not used again.

An image is sent to a BMC piece by piece. The answer may come before all of it is sent; a refusal ends the upload there. From a
web server an image is read piece by piece, too.
"""

import contextlib
import errno
import math
import os
import select
import socket
import ssl
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import httptools

from baremetal_acc import wait

MAX_HEAD = 64 * 1024
"""Limit of status line and headers, in bytes. The largest that was seen has 1 KiB."""

PIECE = 64 * 1024

HOT = 0.1
"""Seconds within which no peer closes a connection for being idle. If one does all the same, a read is sent again."""

_DONE = 300
"""Statuses below it say that something was done. Source: RFC 9110, section 15."""

T = TypeVar('T')


class TransportError(OSError):
    """The peer broke HTTP, or exceeded the limits."""


class TooLong(TransportError):
    """The answer exceeds the size limit."""


class TooSlow(TransportError):
    """The answer was not complete in time."""


class Headers(dict[str, str]):
    """Headers by their names in lower case; several of one name are joined with a comma."""

    def get(self, name: str, default: Any = None) -> Any:
        """Return a header, by its name in any case."""
        return super().get(name.lower(), default)


@dataclass(slots=True)
class HttpReply:
    """An answer.

    :ivar seconds: from the request's first byte to the answer's last.
    """

    status: int
    headers: Headers
    content: bytes
    seconds: float


@dataclass(slots=True)
class Stream:
    """An answer that is read piece by piece, as it was sent: a compressed body stays compressed.

    :ivar pieces: of the body, as they come. Taking them raises ``OSError``, as :meth:`Transport.stream`.
    """

    status: int
    headers: Headers
    pieces: Iterator[bytes]


class TransportWire(Protocol):
    """A connection that carries bytes, for one request at a time."""

    def send(self, data: bytes, timeout: float, deadline: float) -> None:
        """Send all of the data.

        :param timeout: seconds for that. ``deadline``: by the monotonic clock, when the answer has to be there.
        :raises TimeoutError: the peer did not take it in time. ``OSError``: the connection broke.
        """

    def offer(self, data: memoryview, deadline: float) -> tuple[int, bytes | None]:
        """Send data until something comes back.

        :returns: how many bytes were sent, and what came: None for nothing, empty where the peer has closed the connection.
        :raises TimeoutError: the peer did not take it in time. ``OSError``: the connection broke.
        """

    def receive(self, left: float, deadline: float, *, first: bool) -> bytes:
        """Return what comes next; empty where the peer has closed the connection.

        :param left: seconds until the deadline. ``first``: nothing has come since :meth:`send`, whose timeout still applies.
        :raises TimeoutError: nothing came in time. ``OSError``: the connection broke.
        """

    def is_quiet(self) -> bool:
        """Whether nothing unrequested has come, neither data nor the end of the connection."""

    def break_off(self) -> None:
        """Let a thread that waits for the connection find it closed; may be called from any thread."""

    def close(self) -> None:
        """Close the connection at once."""


Dial = Callable[[str, int, ssl.SSLContext | None, float], TransportWire]
"""Makes a connection: to a host and a port, with a TLS context or None, within some seconds.

Raises TimeoutError where there is none in time, ``OSError``, or ``ssl.SSLError`` where TLS fails or the peer is not trusted.
"""


class Transport:
    """Connections to one host. Safe to use from several threads; each request has a connection for itself.

    :param context: for TLS, None for plain HTTP.
    :param limit: returns the limit of a body in bytes, uncompressed; called for each answer. It does not bound :meth:`stream`.
    :param dial: makes a connection; None for one over the network.
    """

    def __init__(
        self, host: str, port: int, context: ssl.SSLContext | None, limit: Callable[[], int], dial: Dial | None = None
    ) -> None:
        self._host = host
        self._port = port
        self._context = context
        self._limit = limit
        self._dial: Dial = dial or ConnectionLine
        self._idle: list[_Link] = []
        self._lock = threading.Lock()
        self._closed = False
        self._reading: set[_Link] = set()
        self._stopped = False

    def exchange(self, head: bytes, body: bytes | None, *, connect: float, timeout: float, again: bool) -> HttpReply:
        """Send one request and read its answer.

        :param head: request line and headers, complete. ``body``: what follows, None for nothing.
        :param connect: seconds for a new connection. ``timeout``: seconds for the answer.
        :param again: the request may be sent once more when a kept connection turns out to be closed: true for reads only.
        :raises OSError: no connection, no answer, or one that breaks the rules; ``ssl.SSLError``: TLS fails, or the peer is not
            trusted.
        """
        started = time.monotonic()
        link = self._kept(started - HOT if again else started)
        if link is not None:
            try:
                return self._over(link, head, body, timeout, read=again)
            except (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError):
                if not again or link.heard or self._stopped:
                    raise
        link = self._connected(connect)
        return self._over(link, head, body, max(1.0, timeout - (time.monotonic() - started)), read=again)

    def push(
        self, head: bytes, pieces: Iterable[bytes], *, connect: float, piece: float, timeout: float, until: float
    ) -> HttpReply:
        """Send one request whose body comes piece by piece, once, over a new connection, and read its answer.

        The next piece is taken when the one before was sent; none after an answer that refuses the request.

        :param piece: seconds for one piece to be sent. ``timeout``: for the answer, once everything is sent.
        :param until: by the monotonic clock, when all of it has to be done.
        :raises OSError: as :meth:`exchange`.
        """
        link = self._connected(connect)
        try:
            reply, keep = link.push(head, pieces, piece, timeout, until, self._limit())
        except BaseException:
            link.close()
            raise
        self._keep(link, keep=keep)
        return reply

    @contextmanager
    def stream(self, head: bytes, *, connect: float, silence: float, until: float) -> Iterator[Stream]:
        """Send one request over a new connection, which is closed at the end, and give its answer as it comes.

        No more than one piece of the body is kept; the caller has to bound its length.

        :param silence: seconds within which the next piece has to come.
        :param until: by the monotonic clock, when all of it has to be there.
        :raises OSError: as :meth:`exchange`.
        """
        link = self._connected(connect)
        try:
            yield link.stream(head, silence, until)
        finally:
            link.close()

    def _connected(self, seconds: float) -> '_Link':
        try:
            return _Link(self._dial(self._host, self._port, self._context, seconds))
        except TimeoutError as exc:
            raise TransportError('no connection in time') from exc
        except UnicodeError as exc:  # the text cannot be a host name
            raise socket.gaierror(socket.EAI_NONAME, str(exc)) from exc

    def break_reads(self) -> None:
        """Break off the reads that wait for an answer, and retry none of them; writes continue. Callable from any thread."""
        with self._lock:
            self._stopped = True
            reading = list(self._reading)
        for link in reading:
            link.break_off()

    def close(self) -> None:
        """Close all connections that are not in use; the others are closed when their answer is there."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for link in idle:
            link.close()

    def _kept(self, lately: float) -> '_Link | None':
        """Return a kept connection that can be used, None without one.

        :param lately: a connection that was used since then is not checked for having been closed.
        """
        while True:
            with self._lock:
                if not self._idle:
                    return None
                link = self._idle.pop()
            if link.used > lately or link.is_quiet():
                return link
            link.close()

    def _over(self, link: '_Link', head: bytes, body: bytes | None, timeout: float, *, read: bool) -> HttpReply:
        if read:
            with self._lock:
                self._reading.add(link)
        try:
            reply, keep = link.exchange(head, body, timeout, self._limit())
        except BaseException:
            with self._lock:
                self._reading.discard(link)
            link.close()
            raise
        self._keep(link, keep=keep)
        return reply

    def _keep(self, link: '_Link', *, keep: bool) -> None:
        """Keep a connection whose answer is complete, or close it."""
        with self._lock:
            self._reading.discard(link)
            keep = keep and not self._closed
            if keep:
                self._idle.append(link)
        if not keep:
            link.close()


class _Link:
    """One connection, with the parser of its answers.

    :ivar heard: a part of the answer to the current request has come.
    :ivar used: when the last answer was complete.
    """

    __slots__ = ('_message', '_wire', 'heard', 'used')

    def __init__(self, wire: TransportWire) -> None:
        self._wire = wire
        self.heard = False
        self.used = 0.0
        self._message = _Message()

    def is_quiet(self) -> bool:
        """As :meth:`TransportWire.is_quiet`."""
        return self._wire.is_quiet()

    def close(self) -> None:
        """Close the connection at once."""
        self._message.end()
        self._wire.close()

    def break_off(self) -> None:
        """As :meth:`TransportWire.break_off`."""
        self._wire.break_off()

    def exchange(self, head: bytes, body: bytes | None, timeout: float, limit: int) -> tuple[HttpReply, bool]:
        """Send a request and read the answer; return whether the connection can be used again, too."""
        self.heard = False
        started = time.monotonic()
        deadline = started + timeout
        self._wire.send(head + body if body is not None else head, timeout, deadline)
        self._message.begin(limit)
        self._hear(deadline, sent=True)
        return self._reply(started), self._message.keep

    def stream(self, head: bytes, silence: float, until: float) -> Stream:
        """Send a request and read the head of the answer."""
        message = self._message
        self.heard = False
        self._wire.send(head, min(silence, max(0.1, until - time.monotonic())), until)
        message.begin(sys.maxsize, as_sent=True)
        steps = self._steps(until, sent=False, silence=silence)
        while message.in_head:
            next(steps)

        def pieces() -> Iterator[bytes]:
            yield message.content()
            for _ in steps:
                yield message.content()

        return Stream(message.status, message.headers, filter(None, pieces()))

    def push(
        self, head: bytes, pieces: Iterable[bytes], piece: float, timeout: float, until: float, limit: int
    ) -> tuple[HttpReply, bool]:
        """Send a request piece by piece and read the answer; return whether the connection can be used again, too."""
        self.heard = False
        started = time.monotonic()
        self._message.begin(limit)
        broken: OSError | None = None
        whole = False
        try:
            whole = self._pour(head, piece, until) and all(self._pour(one, piece, until) for one in pieces)
        except _Broken as exc:
            broken = exc.error  # it may have answered before it closed
        try:
            self._hear(min(until, time.monotonic() + timeout), sent=False)
        except OSError:
            if broken is not None:
                raise broken from None
            raise
        return self._reply(started), self._message.keep and whole

    def _pour(self, data: bytes, seconds: float, until: float) -> bool:
        """Send one piece.

        :returns: whether more is to follow. False: the answer has begun, and refuses the request.
        :raises _Broken: the connection broke. ``TimeoutError``: the peer did not take the piece in time.
        """
        rest = memoryview(data)
        until = min(until, time.monotonic() + seconds)
        while rest:
            try:
                sent, came = self._wire.offer(rest, until)
                if came == b'':
                    raise ConnectionResetError('the connection was closed before the answer was complete')
            except (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError) as exc:
                raise _Broken(exc) from exc
            rest = rest[sent:]
            if came is not None:
                self.heard = True
                self._message.feed(came)
                if self._message.refuses:
                    return False
        return True

    def _hear(self, deadline: float, *, sent: bool) -> None:
        """Read the answer to its end.

        :param sent: the request was sent by :meth:`TransportWire.send`.
        """
        for _ in self._steps(deadline, sent=sent):
            pass

    def _steps(self, deadline: float, *, sent: bool, silence: float = math.inf) -> Iterator[None]:
        """Read the answer to its end, piece by piece.

        :param silence: seconds until the next piece has to come.
        """
        hub = wait.hub()
        message = self._message
        pieces = 0
        while not message.complete:
            now = time.monotonic()
            if deadline <= now:
                raise TooSlow('the answer did not end in time')
            until = min(deadline, now + silence)
            try:
                piece = self._wire.receive(until - now, until, first=sent and not self.heard)
            except TimeoutError:
                if self.heard:
                    raise TooSlow('the answer did not end in time') from None
                raise
            except ssl.SSLEOFError:
                piece = b''
            if not piece:
                if not message.ends_with_connection:
                    raise ConnectionResetError('the connection was closed before the answer was complete')
                break
            self.heard = True
            message.feed(piece)
            pieces += 1
            if hub is not None and not pieces % 16:
                hub.sleep(0)  # a peer that never stops sending must not block the others
            yield

    def _reply(self, started: float) -> HttpReply:
        message = self._message
        self.used = time.monotonic()
        return HttpReply(message.status, message.headers, message.content(), self.used - started)


class _Broken(Exception):
    """The connection broke while a piece was sent: distinguished from an error of whatever makes the pieces."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


class ConnectionLine:
    """A connection over TCP, with TLS where there is a context for it. Waits in its thread, or as a greenlet of a hub."""

    __slots__ = ('_hub', '_poll', '_socket', '_timeout')

    def __init__(self, host: str, port: int, context: ssl.SSLContext | None, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        self._hub = wait.hub()
        if self._hub is None:
            plain = socket.create_connection((host, port), timeout)
        else:
            plain = _connected(self._hub, host, port, deadline)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is not None and self._hub is None:
                plain.settimeout(max(0.1, deadline - time.monotonic()))
                self._socket: socket.socket = context.wrap_socket(plain, server_hostname=host)
            elif context is not None and self._hub is not None:
                secured = context.wrap_socket(plain, server_hostname=host, do_handshake_on_connect=False)
                self._socket = plain = secured
                _patiently(self._hub, secured, secured.do_handshake, deadline)
            else:
                self._socket = plain
        except BaseException:
            plain.close()
            raise
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._timeout = -1.0

    def send(self, data: bytes, timeout: float, deadline: float) -> None:
        """Send all of the data."""
        hub = self._hub = wait.hub()
        if hub is None:
            self._within(timeout)
            self._socket.sendall(data)
            return
        self._within(0.0)
        rest = data
        while rest:
            sent = _patiently(hub, self._socket, lambda: self._socket.send(rest), deadline, wait.WRITE)  # noqa: B023
            rest = rest[sent:]

    def offer(self, data: memoryview, deadline: float) -> tuple[int, bytes | None]:
        """Send data until something comes back: a peer that refuses the request may not read any more."""
        self._hub = wait.hub()
        self._within(0.0)
        sent = 0
        while True:
            came = self._come()
            if came is not None:
                return sent, came
            event = wait.READ
            try:
                while sent < len(data):
                    sent += self._socket.send(data[sent:])
                return sent, None
            except ssl.SSLWantReadError:
                pass
            except (ssl.SSLWantWriteError, BlockingIOError):
                event |= wait.WRITE
            self._until_ready(event, deadline)

    def receive(self, left: float, deadline: float, *, first: bool) -> bytes:
        """Return what comes next."""
        if self._hub is None:
            if not first:
                self._within(left)
            return self._socket.recv(PIECE)
        # An answer takes some time: to read at once would only cost a system call.
        if first and not self._hub.for_socket(self._socket.fileno(), wait.READ, left):
            raise TimeoutError('timed out')
        return _patiently(self._hub, self._socket, lambda: self._socket.recv(PIECE), deadline)

    def is_quiet(self) -> bool:
        """As :meth:`TransportWire.is_quiet`."""
        return not self._poll.poll(0)

    def close(self) -> None:
        """Close the connection at once."""
        with contextlib.suppress(OSError):
            self._socket.close()

    def break_off(self) -> None:
        """As :meth:`TransportWire.break_off`. No TLS close_notify is sent: the thread that waits is using the TLS
        connection.
        """
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def _within(self, seconds: float) -> None:
        """Set the timeout of the next wait, if it has changed: each change is a system call."""
        if seconds != self._timeout:
            self._timeout = seconds
            self._socket.settimeout(seconds)

    def _come(self) -> bytes | None:
        """Return what has come already; None for nothing, also where only TLS itself has exchanged data."""
        if self.is_quiet():
            return None
        try:
            return self._socket.recv(PIECE)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
            return None

    def _until_ready(self, event: int, deadline: float) -> None:
        """Wait until the socket is ready.

        :raises TimeoutError: it was not ready in time.
        """
        left = max(0.0, deadline - time.monotonic())
        if self._hub is not None:
            ready = self._hub.for_socket(self._socket.fileno(), event, left)
        else:
            poll = select.poll()
            poll.register(self._socket, event)
            ready = bool(poll.poll(left * 1000))
        if not ready:
            raise TimeoutError('timed out')


def _connected(hub: wait.Hub, host: str, port: int, deadline: float) -> socket.socket:
    """Make a connection without blocking the hub."""
    failed: OSError = OSError('no address')
    try:
        found = socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM, 0, socket.AI_NUMERICHOST)
    except socket.gaierror:
        asked = time.monotonic()
        found = hub.in_thread(lambda: socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM))
        deadline += time.monotonic() - asked  # name lookups may queue: that time does not count for the BMC
    for number, (family, kind, protocol, _, address) in enumerate(found):
        plain = socket.socket(family, kind, protocol)
        plain.setblocking(False)
        try:
            code = plain.connect_ex(address)
            if code == errno.EINPROGRESS:
                if not hub.for_socket(plain.fileno(), wait.WRITE, (deadline - time.monotonic()) / (len(found) - number)):
                    raise TimeoutError('timed out')
                code = plain.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                raise OSError(code, os.strerror(code))
        except OSError as exc:
            plain.close()
            failed = exc
        else:
            return plain
    raise failed


def _patiently(hub: wait.Hub, sock: socket.socket, act: Callable[[], T], deadline: float, event: int = wait.READ) -> T:
    """Call a function on a non-blocking socket, as soon as the socket is ready for it."""
    while True:
        try:
            return act()
        except ssl.SSLWantReadError:
            event = wait.READ
        except ssl.SSLWantWriteError:
            event = wait.WRITE
        except BlockingIOError:
            pass
        if not hub.for_socket(sock.fileno(), event, deadline - time.monotonic()):
            raise TimeoutError('timed out')


class _Message:
    """The answers of one connection, one after the other, while they are parsed.

    llhttp calls the methods named ``on_``.

    :ivar in_head: status and headers are not complete.
    """

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True)
        self.begin(0)

    def begin(self, limit: int, *, as_sent: bool = False) -> None:
        """Begin the next answer of a connection; the one before was complete, and nothing came after it.

        :param limit: of the body in bytes, uncompressed; ``as_sent``: it is not uncompressed.
        """
        self._limit = limit
        self._as_sent = as_sent
        self._beside = 0
        self._packed = 0
        self.in_head = True
        self._parts: list[bytes] = []
        self._size = 0
        self._unpack: _Unpack | None = None
        self._more = False
        self.headers = Headers()
        self.status = 0
        self.complete = False
        self.keep = False

    @property
    def ends_with_connection(self) -> bool:
        """Whether the body has no length of its own, so that it ends with the connection."""
        framed = 'content-length' in self.headers or 'transfer-encoding' in self.headers
        return not self.in_head and not framed

    @property
    def refuses(self) -> bool:
        """Whether the answer says that the request is not carried out, so that the rest of it need not be sent."""
        return not self.in_head and self.status >= _DONE

    def feed(self, piece: bytes) -> None:
        """Parse what came."""
        self._beside += len(piece)
        try:
            self._parser.feed_data(piece)
        except httptools.HttpParserUpgrade:
            raise TransportError('the answer wants to switch protocols') from None
        except httptools.HttpParserError as exc:
            own = exc.__context__
            if isinstance(own, TransportError):
                raise own from None
            if not self.complete:
                raise TransportError(f'the answer is no HTTP: {str(exc)[:100]}') from None
        # Counts headers, and what chunks and trailers add to a body: the smallest chunks add six bytes to each byte.
        if self._beside > MAX_HEAD + 6 * self._packed:
            raise TransportError(f'more than {MAX_HEAD} bytes of headers')
        self.keep = self.keep and not self._more

    def content(self) -> bytes:
        """Return what has come of the body since the last call, uncompressed."""
        if self._unpack is not None and self._packed:
            self._unpack.finish()
        parts, self._parts = self._parts, []
        return b''.join(parts)

    def end(self) -> None:
        """Parse no more answers.

        Parser and message refer to each other, a cycle that the garbage collector might leave for long.
        """
        self.__dict__.pop('_parser', None)

    def on_message_begin(self) -> None:
        if self.complete:
            self._more = True

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._more or not self.in_head:
            return  # another answer's, or a trailer
        key = name.decode('latin-1').lower()
        text = value.decode('latin-1')
        self.headers[key] = f'{self.headers[key]}, {text}' if key in self.headers else text

    def on_headers_complete(self) -> None:
        if self._more:
            return
        self.status = self._parser.get_status_code()
        if self.status < 200:
            self.headers.clear()  # an interim answer; the real one follows
            return
        self.in_head = False
        coding = self.headers.get('content-encoding', '').strip().lower()
        if coding not in ('', 'identity') and not self._as_sent:
            self._unpack = _Unpack(coding)

    def on_body(self, body: bytes) -> None:
        if self._more:
            return
        self._beside -= len(body)
        self._packed += len(body)
        if self._unpack is not None:
            body = self._unpack.more(body, self._limit - self._size)
        self._size += len(body)
        if self._size > self._limit:
            raise TooLong(f'the answer is longer than {self._limit} bytes')
        self._parts.append(body)

    def on_message_complete(self) -> None:
        if self.status >= 200 and not self.complete:
            self.complete = True
            self.keep = self._parser.should_keep_alive()


class _Unpack:
    """Uncompresses a body, never more than allowed. We ask for no compression; some peers compress all the same."""

    def __init__(self, coding: str) -> None:
        if coding not in ('gzip', 'x-gzip', 'deflate'):
            raise TransportError('the answer is packed in a way that was not asked for')
        self._engine = zlib.decompressobj(zlib.MAX_WBITS | 32)

    def more(self, packed: bytes, most: int) -> bytes:
        """Return the next piece, at most one byte more than allowed."""
        try:
            return self._engine.decompress(packed, max(1, most + 1))
        except zlib.error as exc:
            raise TransportError('the answer cannot be unpacked') from exc

    def finish(self) -> None:
        """Raise an error if the end of the compressed body is missing."""
        if not self._engine.eof:
            raise TransportError('the packed answer is cut off')
