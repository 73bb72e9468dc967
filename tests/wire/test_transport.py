# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Is a connection kept when it may be, left when it must be, and does an answer end where it says? Real sockets on loopback."""

import contextlib
import gzip
import socket
import threading
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

import pytest

from baremetal_acc.bmc.redfish.transport import MAX_HEAD, Reply, TooLong, TooSlow, Transport, TransportError
from baremetal_acc.bmc.wait import Hub

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
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test runs twice: waiting in its own thread, and as one of many in a hub."""
    if request.param == 'hub':
        direct = Transport.exchange

        def in_hub(*args: Any, **kwargs: Any) -> Reply:
            return in_a_hub(lambda: direct(*args, **kwargs))

        monkeypatch.setattr(Transport, 'exchange', in_hub)


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
