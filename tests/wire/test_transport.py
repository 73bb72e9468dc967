# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A connection is kept when it may be, left when it must be, and an answer ends where it says. Real sockets on loopback."""

import contextlib
import functools
import gzip
import socket
import ssl
import threading
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

import pytest

from baremetal_acc.emulator.tls import make_certificate
from baremetal_acc.http.answer_parser import MAX_HEAD
from baremetal_acc.http.transport import HttpReply, Transport
from baremetal_acc.http.transport_errors import TooLong, TooSlow, TransportError
from baremetal_acc.wait import Hub

HEAD = b'GET /redfish/v1 HTTP/1.1\r\nHost: bmc'
Script = list[bytes | None]
T = TypeVar('T')


class Peer:
    """Answers each request of each connection with the next piece of a script; None closes the connection.

    :ivar connections: how many there were.
    :ivar requests: what came, head by head.
    """

    def __init__(self, script: Script) -> None:
        self._script = list(script)
        self.connections = 0
        self.requests: list[bytes] = []
        self._server = socket.create_server(('127.0.0.1', 0))
        self.port: int = self._server.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self.connections += 1
            with connection, contextlib.suppress(OSError):
                self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        while True:
            data = b''
            while b'\r\n\r\n' not in data:
                piece = connection.recv(65536)
                if not piece:
                    return
                data += piece
            self.requests.append(data)
            answer = self._script.pop(0) if self._script else None
            if answer is None:
                return
            connection.sendall(answer)
            if b'Connection: close' in answer or (b'Content-Length' not in answer and b'chunked' not in answer):
                return

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join(10)


@pytest.fixture
def peer() -> Iterator[Callable[..., tuple[Peer, Transport]]]:
    """Starts a peer, and gives a transport to it."""
    made: list[tuple[Peer, Transport]] = []

    def start(*script: bytes | None, limit: int = 100_000) -> tuple[Peer, Transport]:
        it = Peer(list(script))
        made.append((it, Transport('127.0.0.1', it.port, None, lambda: limit)))
        return made[-1]

    yield start
    for it, transport in made:
        transport.close()
        it.close()


@pytest.fixture(params=['thread', 'hub'], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], T]], T]:
    """Every test runs twice: waiting in its own thread, and as one of many in a hub.

    :returns: what runs a function so.
    """
    if request.param == 'hub':
        for name in ('exchange', 'push'):
            direct = getattr(Transport, name)
            monkeypatch.setattr(Transport, name, functools.partialmethod(_in_hub, direct))
        return in_a_hub
    return lambda function: function()


def _in_hub(transport: Transport, direct: Callable[..., HttpReply], /, *args: Any, **kwargs: Any) -> HttpReply:
    return in_a_hub(lambda: direct(transport, *args, **kwargs))


def in_a_hub(function: Callable[[], T]) -> T:
    """What a function gives that runs in a hub."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as exc:  # noqa: BLE001 - it is raised where the result is taken
            future.set_exception(exc)

    hub = Hub()
    try:
        hub.spawn(run)
        hub.run(future.done)
    finally:
        hub.close()
    return future.result()


def ask(transport: Transport, *, again: bool = True, timeout: float = 5.0, body: bytes | None = None) -> tuple[int, bytes]:
    """One request: status and content."""
    reply = transport.exchange(HEAD + b'\r\n\r\n', body, connect=5.0, timeout=timeout, again=again)
    return reply.status, reply.content


def push(
    transport: Transport, pieces: Iterable[bytes], *, size: int, piece: float = 5.0, timeout: float = 5.0, whole: float = 10.0
) -> tuple[int, bytes]:
    """One request whose body comes piece by piece: status and content of the answer."""
    head = HEAD.replace(b'GET', b'POST') + b'\r\nContent-Length: %d\r\n\r\n' % size
    reply = transport.push(head, pieces, connect=5.0, piece=piece, timeout=timeout, until=time.monotonic() + whole)
    return reply.status, reply.content


class Image:
    """Pieces of a body, as many as are asked for.

    :ivar taken: how many that were.
    """

    def __init__(self, pieces: int) -> None:
        self.left = pieces
        self.taken = 0

    def __iter__(self) -> Iterator[bytes]:
        while self.left:
            self.left -= 1
            self.taken += 1
            yield bytes(PIECE)


PIECE = 256 * 1024

MANY = 400
"""Pieces that no buffer holds."""


class Taker:
    """A peer that does what it is told with one request after the other, over TLS where it has a context."""

    def __init__(self, handle: Callable[[socket.socket], None], context: ssl.SSLContext | None = None) -> None:
        self.connections = 0
        self._server = socket.create_server(('127.0.0.1', 0))
        self.port: int = self._server.getsockname()[1]
        self._handle, self._context = handle, context
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self.connections += 1
            with contextlib.suppress(OSError):
                if self._context is not None:
                    connection = self._context.wrap_socket(connection, server_side=True)
                with connection:
                    self._handle(connection)

    def join(self) -> None:
        """Serve nobody any more; what was begun ends first."""
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join(10)


@pytest.fixture(scope='module')
def secured(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """For the peer, and for who trusts it."""
    made = make_certificate(tmp_path_factory.mktemp('tls'), 'taker')
    return made.context(), ssl.create_default_context(cafile=str(made.ca))


@pytest.fixture(params=['plain', 'tls'])
def taker(
    request: pytest.FixtureRequest, secured: tuple[ssl.SSLContext, ssl.SSLContext]
) -> Iterator[Callable[[Callable[[socket.socket], None]], tuple[Taker, Transport]]]:
    """Starts a peer that takes images, and gives a transport to it."""
    server, client = (None, None) if request.param == 'plain' else secured
    made: list[tuple[Taker, Transport]] = []

    def start(handle: Callable[[socket.socket], None]) -> tuple[Taker, Transport]:
        it = Taker(handle, server)
        made.append((it, Transport('127.0.0.1', it.port, client, lambda: 100_000)))
        return made[-1]

    yield start
    for it, transport in made:
        transport.close()
        it.join()


def head_of(connection: socket.socket) -> bytes:
    """What comes first, with all of the head of a request in it."""
    data = b''
    while b'\r\n\r\n' not in data:
        piece = connection.recv(65536)
        if not piece:
            return data
        data += piece
    return data


def body_of(connection: socket.socket, size: int, data: bytes) -> int:
    """Bytes of the body that come, up to its end."""
    got = len(data.partition(b'\r\n\r\n')[2])
    while got < size and (piece := connection.recv(1 << 20)):
        got += len(piece)
    return got


def plain(content: bytes, more: bytes = b'') -> bytes:
    """An ordinary answer."""
    return b'HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%s\r\n%s' % (len(content), more, content)


def test_one_connection_serves_many_requests(peer: Callable[..., tuple[Peer, Transport]]) -> None:
    """Set-up costs a handshake."""
    it, transport = peer(plain(b'one'), plain(b'two'), plain(b'three'))
    assert [(200, b'one'), (200, b'two'), (200, b'three')] == [ask(transport) for _ in range(3)]
    assert 1 == it.connections


def test_a_connection_that_is_to_be_closed_is_not_used_again(peer: Callable[..., tuple[Peer, Transport]]) -> None:
    """Source: RFC 9112, section 9.6."""
    it, transport = peer(plain(b'one', b'Connection: close\r\n'), plain(b'two'))
    assert [(200, b'one'), (200, b'two')] == [ask(transport) for _ in range(2)]
    assert 2 == it.connections


@pytest.mark.parametrize('ending', [b'HTTP/1.1 200 OK\r\n\r\n{}', b'HTTP/1.0 200 OK\r\n\r\n{}'])
def test_a_body_without_a_length_ends_with_the_connection(peer: Callable[..., tuple[Peer, Transport]], ending: bytes) -> None:
    """Source: RFC 9112, section 6.3."""
    _, transport = peer(ending)
    assert (200, b'{}') == ask(transport)


def test_chunks_are_put_together(peer: Callable[..., tuple[Peer, Transport]]) -> None:
    """Source: RFC 9112, section 7.1."""
    chunked = b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{"a\r\n4;x=y\r\n":1}\r\n0\r\n\r\n'
    it, transport = peer(chunked, plain(b'next'))
    assert (200, b'{"a":1}') == ask(transport)
    assert (200, b'next') == ask(transport)
    assert 1 == it.connections


def test_a_trailer_is_no_header(peer: Callable[..., tuple[Peer, Transport]]) -> None:
    """It comes after the body, and may not change what was said before."""
    _, transport = peer(b'HTTP/1.1 200 OK\r\nETag: "a"\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nETag: "b"\r\n\r\n')
    reply = transport.exchange(HEAD + b'\r\n\r\n', None, connect=5.0, timeout=5.0, again=True)
    assert '"a"' == reply.headers['etag']


def test_the_smallest_chunks_are_no_attack(peer: Callable[..., tuple[Peer, Transport]]) -> None:
    """Each adds six bytes to its one."""
    _, transport = peer(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n' + b'1\r\nx\r\n' * 50_000 + b'0\r\n\r\n')
    assert (200, b'x' * 50_000) == ask(transport)


@pytest.mark.parametrize('status', [204, 304])
def test_some_answers_have_no_body(peer: Callable[..., tuple[Peer, Transport]], status: int) -> None:
    """Whatever they say of its length. Source: RFC 9112, section 6.3."""
    it, transport = peer(b'HTTP/1.1 %d X\r\nContent-Length: 5\r\n\r\n' % status, plain(b'next'))
    assert [(status, b''), (200, b'next')] == [ask(transport) for _ in range(2)]
    assert 1 == it.connections


def test_an_interim_answer_is_passed_over(peer: Callable[..., tuple[Peer, Transport]]) -> None:
    """And its headers are not those of the answer."""
    _, transport = peer(b'HTTP/1.1 103 Early Hints\r\nETag: "early"\r\n\r\n' + plain(b'{}'))
    reply = transport.exchange(HEAD + b'\r\n\r\n', None, connect=5.0, timeout=5.0, again=True)
    assert (200, b'{}', None) == (reply.status, reply.content, reply.headers.get('etag'))


@pytest.mark.parametrize('more', [plain(b'nobody asked'), b'x'])
def test_what_nobody_asked_for_is_no_answer_to_the_next_request(
    peer: Callable[..., tuple[Peer, Transport]], more: bytes
) -> None:
    """The connection that brought it is left."""
    it, transport = peer(plain(b'one') + more, plain(b'two'))
    assert [(200, b'one'), (200, b'two')] == [ask(transport) for _ in range(2)]
    assert 2 == it.connections


def test_a_kept_connection_that_was_closed_costs_a_read_nothing(peer: Callable[..., tuple[Peer, Transport]]) -> None:
    """Services close what is idle; that is no failure of the BMC."""
    it, transport = peer(plain(b'one'), None, plain(b'two'))
    assert (200, b'one') == ask(transport)
    assert (200, b'two') == ask(transport)
    assert 3 == len(it.requests)


def test_a_write_is_not_sent_again_over_another_connection(peer: Callable[..., tuple[Peer, Transport]]) -> None:
    """Nobody knows whether the first one was read."""
    it, transport = peer(plain(b'one'), None, plain(b'two'))
    ask(transport)
    with pytest.raises(ConnectionError):
        ask(transport, again=False, body=b'{}')
    assert 2 == len(it.requests)


def test_an_answer_that_has_begun_is_not_asked_for_again(peer: Callable[..., tuple[Peer, Transport]]) -> None:
    """That is the caller's decision, with its pauses and its limits."""
    it, transport = peer(plain(b'one'), b'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 9\r\n\r\nhalf')
    ask(transport)
    with pytest.raises(ConnectionError):
        ask(transport)
    assert 2 == len(it.requests)


@pytest.mark.parametrize(
    'pack',
    [gzip.compress, zlib.compress, lambda data: zlib.compress(data, wbits=31)],
    ids=['gzip', 'deflate', 'gzip by zlib'],
)
def test_a_packed_answer_is_unpacked(peer: Callable[..., tuple[Peer, Transport]], pack: Callable[[bytes], bytes]) -> None:
    """We ask for none; some peers pack all the same."""
    name = b'deflate' if pack is zlib.compress else b'gzip'
    _, transport = peer(plain(pack(b'{"Id": "1"}'), b'Content-Encoding: %s\r\n' % name))
    assert (200, b'{"Id": "1"}') == ask(transport)


def test_a_packed_answer_is_not_unpacked_beyond_the_limit(peer: Callable[..., tuple[Peer, Transport]]) -> None:
    """A few kilobytes may unpack to gigabytes."""
    _, transport = peer(plain(gzip.compress(b' ' * 50_000_000), b'Content-Encoding: gzip\r\n'), limit=1000)
    with pytest.raises(TooLong):
        ask(transport)


@pytest.mark.parametrize(
    'answer',
    [
        plain(gzip.compress(b'{}')[:-9], b'Content-Encoding: gzip\r\n'),
        plain(b'{}', b'Content-Encoding: gzip\r\n'),
        plain(b'{}', b'Content-Encoding: br\r\n'),
        plain(gzip.compress(gzip.compress(b'{}')), b'Content-Encoding: gzip, gzip\r\n'),
    ],
    ids=['cut off', 'not packed', 'unknown', 'twice'],
)
def test_a_badly_packed_answer_is_no_answer(peer: Callable[..., tuple[Peer, Transport]], answer: bytes) -> None:
    """None of it passes for the resource."""
    _, transport = peer(answer)
    with pytest.raises(TransportError):
        ask(transport)


@pytest.mark.parametrize(
    'answer',
    [
        b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{} ',
        b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n',
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n',
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\n{}\r\n0\r\n\r\n',
        b'HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\nContent-Length: 0\r\n\r\n{}',
        b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: ' + b'y' * (2 * MAX_HEAD) + b'\r\n\r\n{}',
        b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n' + b'A: b\r\n' * MAX_HEAD + b'\r\n{}',
        b'HTTP/1.1 103 X\r\n\r\n' * MAX_HEAD + b'Content-Length: x',
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;' + b'a' * (2 * MAX_HEAD) + b'\r\n{}\r\n0\r\n\r\n',
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n' + b'A: b\r\n' * MAX_HEAD + b'\r\n',
        b'no HTTP at all, Content-Length\r\n\r\n',
    ],
    ids=[
        'two lengths',
        'two framings',
        'bad chunk',
        'huge chunk',
        'upgrade',
        'long header',
        'many headers',
        'interim',
        'chunk extension',
        'trailers',
        'text',
    ],
)
def test_an_answer_that_breaks_the_rules_is_no_answer(peer: Callable[..., tuple[Peer, Transport]], answer: bytes) -> None:
    """What can be read in two ways is not read at all, and nothing is endless."""
    _, transport = peer(answer)
    with pytest.raises(TransportError):
        ask(transport)


def test_an_answer_that_does_not_come_ends_in_time(peer: Callable[..., tuple[Peer, Transport]]) -> None:
    """Half a body, and then silence."""
    _, transport = peer(b'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf')
    with pytest.raises(TooSlow):
        ask(transport, timeout=0.3)


def test_after_it_was_closed_no_connection_is_kept(peer: Callable[..., tuple[Peer, Transport]]) -> None:
    """A farewell in another thread leaves nothing open."""
    it, transport = peer(plain(b'one'), plain(b'two'))
    transport.close()
    assert [(200, b'one'), (200, b'two')] == [ask(transport) for _ in range(2)]
    assert 2 == it.connections


def test_an_image_arrives_whole_and_its_connection_is_kept(taker: Callable[..., tuple[Taker, Transport]]) -> None:
    """The answer is that to all of it."""
    got: list[int] = []
    size = MANY * PIECE

    def take(connection: socket.socket) -> None:
        got.append(body_of(connection, size, head_of(connection)))
        connection.sendall(plain(b'taken'))
        head_of(connection)
        connection.sendall(plain(b'next'))

    it, transport = taker(take)
    assert (200, b'taken') == push(transport, Image(MANY), size=size)
    assert (200, b'next') == ask(transport)
    assert ([size], 1) == (got, it.connections)


def test_an_image_goes_over_a_connection_of_its_own(taker: Callable[..., tuple[Taker, Transport]]) -> None:
    """One that was kept may be closed at any moment, and an image is not sent twice."""

    def take(connection: socket.socket) -> None:
        data = head_of(connection)
        body_of(connection, PIECE if data.startswith(b'POST') else 0, data)
        connection.sendall(plain(b'answer'))

    it, transport = taker(take)
    ask(transport)
    assert (200, b'answer') == push(transport, Image(1), size=PIECE)
    assert 2 == it.connections


def test_an_image_that_is_refused_early_goes_no_further(taker: Callable[..., tuple[Taker, Transport]]) -> None:
    """The peer reads no more, and does not close: its answer is there, and nobody waits for the image to be taken."""
    done = threading.Event()

    def refuse(connection: socket.socket) -> None:
        head_of(connection)
        connection.sendall(b'HTTP/1.1 413 Too large\r\nContent-Length: 3\r\n\r\nbig')
        done.wait(10)

    it, transport = taker(refuse)
    image = Image(MANY)
    started = time.monotonic()
    try:
        assert (413, b'big') == push(transport, image, size=MANY * PIECE)
    finally:
        done.set()
    assert 3 > time.monotonic() - started
    assert MANY > image.taken
    assert 1 == it.connections


def test_an_image_that_is_answered_early_is_sent_to_its_end(taker: Callable[..., tuple[Taker, Transport]]) -> None:
    """An interim answer is none, and one of success may come before the BMC has read what it needs."""
    got: list[int] = []
    size = MANY * PIECE

    def take(connection: socket.socket) -> None:
        data = head_of(connection)
        connection.sendall(b'HTTP/1.1 100 Continue\r\n\r\n')
        connection.sendall(plain(b'at once'))
        got.append(body_of(connection, size, data))

    it, transport = taker(take)
    assert (200, b'at once') == push(transport, Image(MANY), size=size)
    it.join()
    assert [size] == got


def test_a_connection_that_breaks_in_an_image_is_broken_and_nothing_is_sent_again(
    taker: Callable[..., tuple[Taker, Transport]],
) -> None:
    """Nobody knows what the peer makes of the half that it has."""

    def slam(connection: socket.socket) -> None:
        head_of(connection)
        connection.recv(1000)

    it, transport = taker(slam)
    image = Image(MANY)
    with pytest.raises((ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError)):
        push(transport, image, size=MANY * PIECE)
    assert MANY > image.taken
    assert 1 == it.connections


def test_a_file_that_fails_while_it_is_sent_is_no_broken_connection(taker: Callable[..., tuple[Taker, Transport]]) -> None:
    """Its own error comes through, and the peer does not get a whole."""
    got: list[int] = []
    begun = threading.Event()

    def take(connection: socket.socket) -> None:
        data = head_of(connection)
        begun.set()
        got.append(body_of(connection, 2 * PIECE, data))

    def half() -> Iterator[bytes]:
        yield bytes(PIECE)
        assert begun.wait(10)
        raise ConnectionError('of the file')

    it, transport = taker(take)
    with pytest.raises(ConnectionError, match='of the file'):
        push(transport, half(), size=2 * PIECE)
    it.join()
    assert 2 * PIECE not in got
    assert 1 == it.connections


@pytest.mark.parametrize(('piece', 'whole'), [(0.3, 10.0), (10.0, 0.3)], ids=['a piece', 'all'])
def test_an_image_that_is_not_taken_is_given_up_in_time(
    taker: Callable[..., tuple[Taker, Transport]], piece: float, whole: float
) -> None:
    """Be it one piece that is not taken, or the whole."""
    done = threading.Event()

    def stall(connection: socket.socket) -> None:
        head_of(connection)
        done.wait(10)

    _, transport = taker(stall)
    started = time.monotonic()
    try:
        with pytest.raises(TimeoutError):
            push(transport, Image(MANY), size=MANY * PIECE, piece=piece, whole=whole)
    finally:
        done.set()
    assert 3 > time.monotonic() - started


def test_the_answer_to_an_image_is_waited_for_as_long_as_it_may_take(taker: Callable[..., tuple[Taker, Transport]]) -> None:
    """From when all is sent: a BMC checks all of it first."""
    done = threading.Event()

    def check(connection: socket.socket) -> None:
        body_of(connection, PIECE, head_of(connection))
        done.wait(10)

    _, transport = taker(check)
    started = time.monotonic()
    try:
        with pytest.raises(TimeoutError):
            push(transport, Image(1), size=PIECE, timeout=0.5)
    finally:
        done.set()
    assert 0.5 <= time.monotonic() - started < 3


Streamed = Callable[..., tuple[int, str | None, bytes]]


@pytest.fixture
def streamed(way: Callable[[Callable[[], T]], T]) -> Streamed:
    """Status, Content-Encoding and body of a streamed answer."""

    def take(transport: Transport, seconds: float = 30.0, silence: float = 30.0) -> tuple[int, str | None, bytes]:
        until = time.monotonic() + seconds
        with transport.stream(HEAD + b'\r\n\r\n', connect=5, silence=silence, until=until) as answer:
            return answer.status, answer.headers.get('Content-Encoding'), b''.join(answer.pieces)

    return lambda *args, **kwargs: way(lambda: take(*args, **kwargs))  # type: ignore[return-value,arg-type]


PACKED = gzip.compress(b'x' * 1000, mtime=0)


@pytest.mark.parametrize(
    ('answer', 'expected'),
    [
        (b'HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc', (200, None, b'abc')),
        (b'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n', (200, None, b'')),
        (b'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabc', (200, None, b'abc')),
        (b'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 No\r\nContent-Length: 1\r\n\r\nx', (404, None, b'x')),
        (b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n', (200, None, b'abc')),
        (
            b'HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n' % len(PACKED) + PACKED,
            (200, 'gzip', PACKED),
        ),
        (b'HTTP/1.1 200 OK\r\nContent-Encoding: odd\r\nContent-Length: 1\r\n\r\nx', (200, 'odd', b'x')),
    ],
    ids=['length', 'empty', 'close', 'interim', 'chunked', 'packed', 'odd coding'],
)
def test_an_answer_comes_piece_by_piece_as_it_was_sent(peer, streamed: Streamed, answer: bytes, expected: object) -> None:
    """However its end is told, longer than any bound of answers, and never unpacked; its connection is closed and not kept."""
    it, transport = peer(answer, answer, limit=2)
    assert [expected] * 2 == [streamed(transport), streamed(transport)]
    assert 2 == it.connections


def test_no_more_of_a_streamed_answer_is_kept_than_a_piece(peer, way: Callable[[Callable[[], T]], T]) -> None:
    """Images have gibibytes. 64 MiB take less than two."""
    size = 64 * 2**20
    _, transport = peer(b'HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n' % size + bytes(size))

    def take() -> int:
        with transport.stream(HEAD + b'\r\n\r\n', connect=5, silence=30, until=time.monotonic() + 60) as answer:
            return sum(map(len, answer.pieces))

    tracemalloc.start()
    try:
        assert size == way(take)  # type: ignore[arg-type,comparison-overlap]
        assert tracemalloc.get_traced_memory()[1] < 2 * 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    'answer',
    [
        b'HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nabc',
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\nab\r\n',
        b'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Le',
        b'Connection: close',
        b'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx',
        b'HTTP/1.1 200 OK\r\nConnection: close\r\nX: ' + b'x' * MAX_HEAD + b'\r\n\r\n',
        None,
    ],
)
def test_a_streamed_answer_that_is_cut_or_odd_is_none(peer, streamed: Streamed, answer: bytes | None) -> None:
    """In its head or in its body."""
    _, transport = peer(answer)
    with pytest.raises(OSError):
        streamed(transport)


@pytest.mark.parametrize('head', [b'', b'HTTP/1.1 200 OK\r\n', b'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx'])
@pytest.mark.parametrize(('seconds', 'silence'), [(0.3, 30.0), (30.0, 0.3)])
def test_a_streamed_answer_comes_within_its_time(streamed: Streamed, head: bytes, seconds: float, silence: float) -> None:
    """All of it, and the next piece of it."""
    with socket.create_server(('127.0.0.1', 0)) as server:
        transport = Transport('127.0.0.1', server.getsockname()[1], None, lambda: 0)
        over = threading.Event()

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(head)
                over.wait(20)

        thread = threading.Thread(target=serve)
        thread.start()
        started = time.monotonic()
        with pytest.raises(TimeoutError if not head else TooSlow):
            streamed(transport, seconds=seconds, silence=silence)
        assert 0.25 < time.monotonic() - started < 10
        over.set()
        thread.join(10)
