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

import math
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from baremetal_acc import wait
from baremetal_acc.http.answer_parser import AnswerParser, Headers
from baremetal_acc.http.connection_line import ConnectionLine
from baremetal_acc.http.transport_errors import TooSlow, TransportError

HOT = 0.1
"""Seconds within which no peer closes a connection for being idle. If one does all the same, a read is sent again."""


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
        self._message = AnswerParser()

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
