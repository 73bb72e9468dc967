# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How the client handles a peer that misbehaves on the wire. Real sockets on loopback, no library in between."""

import contextlib
import io
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from baremetal_acc.bmc import pending
from baremetal_acc.bmc.driver import BmcAddress, Upload
from baremetal_acc.bmc.redfish import client as module
from baremetal_acc.bmc.redfish.client import Connector
from baremetal_acc.bmc.redfish.upload_body import Multipart
from baremetal_acc.bmc.retry import ReadRetry
from baremetal_acc.errors import BmcAnswerInvalid, BmcBusy, BmcUnreachable
from baremetal_acc.model.ref import HOST

Peer = Callable[[socket.socket], None]


@pytest.fixture
def peer() -> Iterator[Callable[[Peer], Connector]]:
    """Starts a peer and gives a connector to it. Each connection is handled by the function."""
    servers: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def start(handle: Peer) -> Connector:
        server = socket.create_server(('127.0.0.1', 0))
        servers.append(server)

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    try:
                        handle(connection)
                    except OSError:
                        continue

        threads.append(threading.Thread(target=serve))
        threads[-1].start()
        address = BmcAddress(name=HOST, address=f'http://127.0.0.1:{server.getsockname()[1]}', timeout=timedelta(seconds=1))
        return Connector(address, ReadRetry(attempts=2, sleep=lambda seconds: None))

    yield start
    for server in servers:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
    for thread in threads:
        thread.join(10)


def _head(connection: socket.socket) -> bytes:
    data = b''
    while b'\r\n\r\n' not in data:
        piece = connection.recv(65536)
        if not piece:
            return data
        data += piece
    return data


def test_closing_a_connector_closes_its_connections(peer: Callable[[Peer], Connector]) -> None:
    """A BMC has few of them."""
    ended: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        _head(connection)
        connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}')
        ended.append(connection.recv(1))

    connector = peer(serve)
    connector.read('/redfish/v1')
    assert [] == ended
    connector.close()
    for _ in range(500):
        if ended:
            break
        time.sleep(0.01)
    assert [b''] == ended


def test_an_answer_that_trickles_in_ends_in_time(peer: Callable[[Peer], Connector]) -> None:
    """A byte every now and then keeps each single read alive; the whole is bounded."""

    def trickle(connection: socket.socket) -> None:
        _head(connection)
        connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n')
        for _ in range(100):
            connection.sendall(b' ')
            time.sleep(0.1)

    started = time.monotonic()
    with pytest.raises(BmcUnreachable, match='did not end in time'):
        peer(trickle).read('/redfish/v1')
    assert 4 > time.monotonic() - started


@pytest.mark.parametrize('chunked', [False, True])
def test_an_endless_answer_ends_at_its_bound(
    peer: Callable[[Peer], Connector], monkeypatch: pytest.MonkeyPatch, chunked: bool
) -> None:
    """Without a length, and in chunks."""
    monkeypatch.setattr(module, 'MAX_ANSWER', 1_000_000)

    def endless(connection: socket.socket) -> None:
        _head(connection)
        connection.sendall(
            b'HTTP/1.1 200 OK\r\n' + (b'Transfer-Encoding: chunked\r\n\r\n' if chunked else b'Connection: close\r\n\r\n')
        )
        while True:
            connection.sendall(b'1000\r\n' + b' ' * 4096 + b'\r\n' if chunked else b' ' * 4096)

    with pytest.raises(BmcAnswerInvalid, match='longer than 1000000 bytes'):
        peer(endless).read('/redfish/v1')


@pytest.mark.parametrize(
    'answer',
    [b'', b'HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{', b'\x15\x03\x01', b'HTTP/9 x y\r\n\r\n'],
)
def test_an_answer_that_breaks_off_is_no_answer(peer: Callable[[Peer], Connector], answer: bytes) -> None:
    """Wherever it breaks; a read is tried twice here."""
    tries: list[int] = []

    def cut(connection: socket.socket) -> None:
        _head(connection)
        tries.append(1)
        connection.sendall(answer)

    with pytest.raises(BmcUnreachable):
        peer(cut).read('/redfish/v1')
    assert 2 == len(tries)


def test_a_write_on_a_connection_that_the_bmc_has_closed_is_sent_once_at_most(peer: Callable[[Peer], Connector]) -> None:
    """An idle connection that is closed by the BMC is not used again, and nothing is sent twice."""
    got: list[bytes] = []

    def once(connection: socket.socket) -> None:
        got.append(_head(connection).split(b' ')[0])
        connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}')

    connector = peer(once)
    connector.read('/redfish/v1')
    time.sleep(0.2)
    connector.send('POST', '/redfish/v1/x', body={})
    assert [b'GET', b'POST'] == got


def _push(connector: Connector, size: int) -> Any:
    upload = Upload(file='x', size_bytes=size, open=lambda: io.BytesIO(bytes(size)))
    with upload.open() as file:
        body = Multipart({}, upload, file)
        return connector.send('POST', '/push', stream=body, headers={'Content-Type': body.content_type})


def test_a_large_image_arrives_whole(peer: Callable[[Peer], Connector]) -> None:
    """With its length in the head, streamed."""
    lengths: list[tuple[int, int]] = []

    def take(connection: socket.socket) -> None:
        head, _, rest = _head(connection).partition(b'\r\n\r\n')
        wanted = next(int(line.split(b':')[1]) for line in head.split(b'\r\n') if line.lower().startswith(b'content-length'))
        got = len(rest)
        while got < wanted:
            got += len(connection.recv(1 << 20))
        lengths.append((wanted, got))
        connection.sendall(b'HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n')

    assert 202 == _push(peer(take), 20_000_000).status
    assert lengths[0][0] == lengths[0][1] > 20_000_000


@pytest.mark.parametrize('drain', [False, True])
def test_a_refusal_before_the_image_was_taken_is_busy_or_unknown_but_never_taken(
    peer: Callable[[Peer], Connector], drain: bool
) -> None:
    """The BMC answers 503 at once. If it goes on reading we see the answer; if it slams the door we may not, and say so."""
    pushes: list[int] = []
    body = b'{"error": {"@Message.ExtendedInfo": [{"MessageId": "Base.1.16.ServiceTemporarilyUnavailable"}]}}'
    head = b'HTTP/1.1 503 Busy\r\nContent-Length: %d\r\nRetry-After: 5\r\nConnection: close\r\n\r\n' % len(body)

    def busy(connection: socket.socket) -> None:
        _head(connection)
        pushes.append(1)
        connection.sendall(head + body)
        while drain and connection.recv(1 << 20):
            continue

    with pytest.raises(BmcBusy if drain else (BmcBusy, BmcUnreachable)):
        _push(peer(busy), 20_000_000)
    assert [1] == pushes


def test_a_peer_that_takes_nothing_more_is_given_up(peer: Callable[[Peer], Connector], monkeypatch: pytest.MonkeyPatch) -> None:
    """It stops reading in the middle of an image."""
    monkeypatch.setattr(module, 'PIECE_TIMEOUT', 0.5)
    done = threading.Event()

    def stall(connection: socket.socket) -> None:
        _head(connection)
        done.wait(10)

    try:
        with pytest.raises(BmcUnreachable, match='whether the request arrived is unknown'):
            _push(peer(stall), 50_000_000)
    finally:
        done.set()


def test_a_name_that_nobody_knows_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not as a BMC that does not answer: the operator looks at the name first. No name server can be had here."""

    def unknown(*args: Any, **kwargs: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, 'Name or service not known')

    connector = Connector(BmcAddress(name=HOST, address='http://bmc.invalid'), ReadRetry(attempts=1))
    monkeypatch.setattr(socket, 'getaddrinfo', unknown)
    with pytest.raises(BmcUnreachable, match='the host name cannot be resolved'):
        connector.read('/redfish/v1')


def test_a_connection_that_does_not_come_is_told_as_such() -> None:
    """A listener whose queue is full answers nothing."""
    with socket.create_server(('127.0.0.1', 0), backlog=0) as full:
        port = full.getsockname()[1]
        waiting = []
        for _ in range(4):
            waiting.append(socket.socket())
            waiting[-1].setblocking(False)
            waiting[-1].connect_ex(('127.0.0.1', port))
        address = BmcAddress(name=HOST, address=f'http://127.0.0.1:{port}', timeout=timedelta(seconds=1))
        connector = Connector(address, ReadRetry(attempts=1))
        try:
            with pytest.raises(BmcUnreachable, match='no connection in time'):
                connector.read('/redfish/v1')
        finally:
            for sock in waiting:
                sock.close()


def _by(connector: Connector, seconds: float) -> Connector:
    """A connector that would wait a minute for an answer, of somebody who has to be done after these seconds."""
    address = replace(connector._address, timeout=timedelta(minutes=1), until=time.monotonic() + seconds)
    return Connector(address, ReadRetry(attempts=1, sleep=lambda seconds: None))


def _hang(connection: socket.socket) -> None:
    _head(connection)
    connection.recv(1)


def _bits(connection: socket.socket) -> None:
    """A byte of the head of the answer now and then."""
    connection.settimeout(0.2)
    with contextlib.suppress(TimeoutError):
        while connection.recv(1 << 20):
            continue
    for byte in b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}':
        connection.sendall(bytes([byte]))
        time.sleep(0.5)


SENDS: dict[str, Callable[[Connector], Any]] = {
    'read': lambda connector: connector.read('/redfish/v1'),
    'write': lambda connector: connector.send('PATCH', '/redfish/v1', body={}),
    'image': lambda connector: _push(connector, 1000),
}


@pytest.mark.parametrize('handle', [_hang, _bits])
@pytest.mark.parametrize('sends', SENDS)
def test_no_answer_is_waited_for_past_the_deadline_of_who_asks(
    peer: Callable[[Peer], Connector], handle: Peer, sends: str
) -> None:
    """Whether nothing comes, or a byte now and then, which keeps each single read alive."""
    connector = _by(peer(handle), 1.5)
    started = time.monotonic()
    with pytest.raises(BmcUnreachable) as told:
        SENDS[sends](connector)
    assert 6 > time.monotonic() - started
    assert (sends == 'image') <= ('whether the request arrived is unknown' in told.value.what)


def test_an_image_that_is_taken_by_bits_and_pieces_is_broken_off_at_the_deadline(
    peer: Callable[[Peer], Connector], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each piece is taken in time, and all of it never."""
    monkeypatch.setattr(module, 'LATE', 0.5)

    def sip(connection: socket.socket) -> None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        _head(connection)
        while connection.recv(4096):
            time.sleep(0.05)

    started = time.monotonic()
    with pytest.raises(BmcUnreachable, match='whether the request arrived is unknown'):
        _push(_by(peer(sip), 1.5), 50_000_000)
    assert 8 > time.monotonic() - started


def test_past_the_deadline_there_is_a_short_time_and_less_for_what_was_silent(
    peer: Callable[[Peer], Connector], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Locks are closed all the same, by a BMC that takes its time; one that hangs holds nobody up again and again."""
    monkeypatch.setattr(module, 'LATE', 2.0)
    monkeypatch.setattr(module, 'SILENT', 0.2)
    taken = []
    connector = _by(peer(_hang), 0.0)
    for _ in range(2):
        started = time.monotonic()
        with pytest.raises(BmcUnreachable):
            connector.read('/redfish/v1')
        taken.append(time.monotonic() - started)
    assert 1.5 < taken[0] < 4
    assert taken[1] < 1.9
    assert {'/redfish/v1'} == connector.silent


def test_what_is_answered_again_is_not_silent_any_more(peer: Callable[[Peer], Connector]) -> None:
    """It has its whole time from then on."""

    def serve(connection: socket.socket) -> None:
        _head(connection)
        connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}')

    connector = peer(serve)
    connector.silent = {'/redfish/v1', '/redfish/v1/Systems'}
    connector.read('/redfish/v1')
    assert {'/redfish/v1/Systems'} == connector.silent


def test_who_waits_inside_a_request_knows_what_for(peer: Callable[[Peer], Connector]) -> None:
    """From any thread, with the time at which it is given up."""
    seen = []

    def late(connection: socket.socket) -> None:
        _head(connection)
        seen.extend(pending.requests())
        connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}')

    connector = peer(late)
    connector.read('/redfish/v1/Systems')
    mine = [one for one in seen if one.bmc == connector.label]
    assert [('GET /redfish/v1/Systems', 1.0)] == [(one.what, round(one.until - one.since, 1)) for one in mine]
    assert [] == [one for one in pending.requests() if one.bmc == connector.label]


def test_past_the_deadline_a_read_is_not_repeated(peer: Callable[[Peer], Connector], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks has no time left for it."""
    monkeypatch.setattr(module, 'LATE', 0.3)
    asked = []

    def hang(connection: socket.socket) -> None:
        asked.append(_head(connection))
        connection.recv(1)

    address = replace(peer(hang)._address, until=time.monotonic())
    with pytest.raises(BmcUnreachable):
        Connector(address, ReadRetry(sleep=lambda seconds: None)).read('/redfish/v1')
    assert 1 == len(asked)
