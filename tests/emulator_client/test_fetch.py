# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A BMC that fetches images itself gets the bytes that were checked, and nobody else gets anything."""

import contextlib
import http.client
import io
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from baremetal_acc import bootstrap
from baremetal_acc.bmc.driver import ImageServer, Upload
from baremetal_acc.bmc.redfish import image_server, update
from baremetal_acc.bmc.redfish.extended_info import short
from baremetal_acc.bmc.redfish.image_server import Fetched
from baremetal_acc.emulator.image import build_image
from baremetal_acc.emulator.tls import make_certificate
from baremetal_acc.errors import BmcRefused, BmcUnsupported, UsageError
from baremetal_acc.model.inventory import TaskState
from baremetal_acc.model.ref import BmcName, Ref
from tests.configured import settings

from .test_client import GPU_ITEM, connect, look, now, until_ended, upload

HERE = ImageServer(host='127.0.0.1', listen='127.0.0.1')
IMAGE = bytes(range(256)) * 4096


@pytest.fixture
def pulling(emulated_machine: Callable[..., Any]) -> Callable[..., Any]:
    """A GPU server whose BMC takes no image in a request."""
    from baremetal_acc.emulator.hw.parameters import Options

    return lambda **more: emulated_machine('gpu-server', options={'*': Options(push=False)}, flash_seconds=0.2, **more)


@contextlib.contextmanager
def asking(url: str, context: ssl.SSLContext | None = None) -> Iterator[http.client.HTTPConnection]:
    """A connection to the server of an address."""
    parts = urlsplit(url)
    host, port = parts.hostname or '', parts.port
    connection = http.client.HTTPSConnection(host, port, context=context, timeout=20) if context else None
    connection = connection or http.client.HTTPConnection(host, port, timeout=20)
    try:
        yield connection
    finally:
        connection.close()


def ask(url: str, method: str = 'GET', **headers: str) -> tuple[int, bytes]:
    """Status and body."""
    with asking(url) as connection:
        connection.request(method, urlsplit(url).path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()


def test_a_bmc_that_only_pulls_is_given_the_image_and_flashes_it(pulling: Callable[..., Any]) -> None:
    """Told once, fetched, staged; what we say of the BMC is that it takes images."""
    machine = pulling()
    assert look(machine).facts.update == look(machine, images=None).facts.update
    image = build_image(model='h100', component='gpu', version='96.00.99.00.01', size_bytes=2_000_000)
    with connect(machine, images=HERE) as connection:
        facts = connection.look(now()).facts.update
        assert facts is not None
        assert facts.push
        task = connection.push(Ref(bmc=BmcName('host'), uri=GPU_ITEM), upload(image))
        assert TaskState.SUCCEEDED is until_ended(connection, task).state
    assert 1 == len([e for e in machine.log() if e['path'].endswith('UpdateService.SimpleUpdate')])
    assert [] == [t for t in threading.enumerate() if t.name == 'image-server']


def test_without_an_address_of_ours_it_says_what_to_set(pulling: Callable[..., Any]) -> None:
    """Listening for BMCs is the operator's decision. Nothing is asked of the BMC."""
    machine = pulling()
    with connect(machine) as connection:
        with pytest.raises(BmcUnsupported, match='can only pull') as caught:
            connection.push(Ref(bmc=BmcName('host'), uri=GPU_ITEM), upload(IMAGE))
        facts = connection.look(now()).facts.update
    assert 'image_server_host' in (caught.value.hint or '')
    assert facts is not None
    assert not facts.push
    assert [] == machine.log()


def test_a_bmc_that_refuses_leaves_nothing_listening(pulling: Callable[..., Any]) -> None:
    """A Target that is none."""
    machine = pulling()
    with connect(machine, images=HERE) as connection, pytest.raises(BmcRefused):
        connection.push(Ref(bmc=BmcName('host'), uri='/redfish/v1/nothing'), upload(IMAGE))
    assert [] == [t for t in threading.enumerate() if t.name == 'image-server']


def test_a_bmc_that_never_comes_is_not_waited_for_longer_than_its_task(
    pulling: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails to reach us: its task says so, and what is served is withdrawn."""
    monkeypatch.setattr(update, 'TASK_BEAT', 0.1)
    machine = pulling()
    elsewhere = ImageServer(host='127.0.0.1', listen='127.0.0.2')  # the operator named an address that is not ours
    with connect(machine, images=elsewhere) as connection:
        task = connection.push(Ref(bmc=BmcName('host'), uri=GPU_ITEM), upload(IMAGE))
        assert TaskState.FAILED is until_ended(connection, task).state
    assert [] == [t for t in threading.enumerate() if t.name == 'image-server']


def test_what_is_served_is_the_image_and_nothing_else() -> None:
    """At its own address, whole, from where it was interrupted, or only its size."""
    with Fetched(upload(IMAGE), HERE, 'bmc') as served:
        base = served.url.removesuffix(urlsplit(served.url).path)
        assert (200, b'') == ask(served.url, 'HEAD')
        assert not served.wait(0)
        for path in ('/', '/image.bin', '/../etc/passwd', urlsplit(served.url).path + 'x', urlsplit(served.url).path[:-1]):
            assert (404, b'') == ask(base + path)
        assert 501 == ask(served.url, 'POST')[0]
        assert (206, IMAGE[1_000_000:]) == ask(served.url, Range='bytes=1000000-')
        assert not served.wait(0.2)
        assert (416, b'') == ask(served.url, Range=f'bytes={len(IMAGE)}-')
        assert (200, IMAGE) == ask(served.url, Range='bytes=0-10,20-30')
        assert served.wait(5)


def test_the_address_cannot_be_guessed_and_ends_with_the_image() -> None:
    """Each time another one, of 256 bits; afterwards nobody listens."""
    seen = set()
    for _ in range(3):
        with Fetched(upload(IMAGE), HERE, 'bmc') as served:
            seen.add(urlsplit(served.url).path)
            url = served.url
        with pytest.raises(OSError, match='refused'):
            ask(url)
    assert 3 == len(seen)
    assert all(len(path.split('/')[1]) >= 43 for path in seen)


def test_a_name_that_would_lead_elsewhere_is_only_a_name() -> None:
    """The name of the file is for the BMC's log."""
    for name in ('../../x y\r\nHost: evil', '..', '', 'größe.bin', 'a' * 10):
        image = Upload(file=name, size_bytes=len(IMAGE), open=lambda: io.BytesIO(IMAGE))
        with Fetched(image, HERE, 'bmc') as served:
            path = urlsplit(served.url).path
            assert 3 == len(path.split('/'))
            assert path.isascii()
            assert path.isprintable()
            assert (200, IMAGE) == ask(served.url)


def test_nobody_can_fetch_it_for_ever() -> None:
    """A BMC that begins anew is served, up to a bound."""
    with Fetched(upload(IMAGE), HERE, 'bmc') as served:
        assert [(200, IMAGE)] * image_server.TIMES == [ask(served.url) for _ in range(image_server.TIMES)]
        with asking(served.url) as connection:
            connection.request('GET', urlsplit(served.url).path)
            with pytest.raises(http.client.IncompleteRead):
                connection.getresponse().read()


def test_who_connects_and_says_nothing_holds_up_nobody() -> None:
    """The BMC is served all the same, over TLS too."""
    with contextlib.ExitStack() as stack:
        served = stack.enter_context(Fetched(upload(IMAGE), HERE, 'bmc'))
        where = urlsplit(served.url)
        for _ in range(2 * image_server.CONNECTIONS):
            stack.enter_context(socket.create_connection((where.hostname or '', where.port or 0)))
        assert (200, IMAGE) == ask(served.url)


def test_a_flood_of_connections_does_not_become_a_flood_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those beyond the bound are closed at once, and there is room again when others have gone."""
    monkeypatch.setattr(image_server, 'MOST', 3)
    with Fetched(upload(IMAGE), HERE, 'bmc') as served:
        where = urlsplit(served.url)
        silent = [socket.create_connection((where.hostname or '', where.port or 0), 20) for _ in range(3)]
        beyond = socket.create_connection((where.hostname or '', where.port or 0), 20)
        with beyond:
            assert b'' == beyond.recv(1)
        for one in silent:
            one.close()
        answers: list[tuple[int, bytes]] = []
        for _ in range(5000):
            with contextlib.suppress(OSError, http.client.HTTPException):
                answers.append(ask(served.url))
                break
        assert [(200, IMAGE)] == answers


def test_one_client_that_says_nothing_leaves_room_for_the_bmc() -> None:
    """A host of the same network opens as many connections as it can, and says a letter on each."""
    with Fetched(upload(IMAGE), HERE, 'bmc') as served, contextlib.ExitStack() as stack:
        where = urlsplit(served.url)
        idle = []
        for _ in range(image_server.MOST + 1):
            other = socket.create_connection((where.hostname or '', where.port or 0), 20, source_address=('127.0.0.2', 0))
            stack.enter_context(other)
            with contextlib.suppress(OSError):
                other.sendall(b'G')
            idle.append(other)
        assert (200, IMAGE) == ask(served.url)
        for other in idle[image_server.STRANGERS :]:
            with contextlib.suppress(ConnectionResetError):
                assert b'' == other.recv(1)


def test_many_clients_that_say_nothing_leave_room_for_the_bmc() -> None:
    """One for each address that a host can give itself; the BMC is known by the address at which we reach it."""
    with Fetched(upload(IMAGE), HERE, 'bmc', host='localhost') as served, contextlib.ExitStack() as stack:
        where = urlsplit(served.url)
        for number in range(image_server.MOST + image_server.STRANGERS):
            source = (f'127.0.1.{1 + number % 8}', 0)
            stack.enter_context(socket.create_connection((where.hostname or '', where.port or 0), 20, source_address=source))
        assert (200, IMAGE) == ask(served.url)


def test_a_bmc_that_reads_the_end_first_gets_the_rest() -> None:
    """Its last byte is not the whole image, and the server goes on until every part was taken."""
    with Fetched(upload(IMAGE), HERE, 'bmc') as served:
        parts = urlsplit(served.url)
        with contextlib.closing(http.client.HTTPConnection(parts.hostname or '', parts.port, timeout=20)) as connection:
            connection.request('GET', parts.path, headers={'Range': f'bytes={len(IMAGE) - 1}-'})
            assert IMAGE[-1:] == connection.getresponse().read()
        assert not served.wait(0.5)
        assert (200, IMAGE) == ask(served.url)
        assert served.wait(20)


@pytest.mark.parametrize('tls', [False, True])
def test_who_does_not_ask_for_the_image_in_time_is_sent_away(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, tls: bool
) -> None:
    """However often it says another letter; who has asked may take his time."""
    monkeypatch.setattr(image_server, 'NAMING', 0.0)
    where, context = HERE, None
    if tls:
        certificate = make_certificate(tmp_path, 'images')
        where = ImageServer(host='127.0.0.1', listen='127.0.0.1', certificate=str(certificate.chain))
        context = ssl.create_default_context(cafile=str(certificate.ca))
    with Fetched(upload(IMAGE), where, 'bmc') as served:
        parts = urlsplit(served.url)
        with socket.create_connection((parts.hostname or '', parts.port or 0), 20) as silent:
            assert b'' == silent.recv(1)
        monkeypatch.setattr(image_server, 'NAMING', 20.0)
        with asking(served.url, context) as connection:
            connection.request('HEAD', parts.path)
            connection.getresponse().read()
            monkeypatch.setattr(image_server, 'NAMING', 0.0)
            with socket.create_connection((parts.hostname or '', parts.port or 0), 20) as silent:
                assert b'' == silent.recv(1)  # whoever was to be sent away is gone now
            connection.request('GET', parts.path)
            assert IMAGE == connection.getresponse().read()


def test_no_more_than_a_few_are_served_at_a_time() -> None:
    """Each holds a connection; others are told to come later."""
    with contextlib.ExitStack() as stack:
        served = stack.enter_context(Fetched(upload(IMAGE * 40), HERE, 'bmc'))
        where = urlsplit(served.url)
        for _ in range(image_server.CONNECTIONS):
            sock = stack.enter_context(socket.create_connection((where.hostname or '', where.port or 0)))
            sock.sendall(f'GET {where.path} HTTP/1.1\r\nHost: x\r\n\r\n'.encode())
            assert sock.recv(15).startswith(b'HTTP/1.1 200')
        assert 503 == ask(served.url)[0]


def test_over_https_it_is_served_with_the_operators_certificate(tmp_path: Path) -> None:
    """A BMC that verifies can; who speaks plain HTTP there gets nothing."""
    certificate = make_certificate(tmp_path, 'bench')
    where = ImageServer(host='127.0.0.1', listen='127.0.0.1', certificate=str(certificate.chain))
    context = ssl.create_default_context(cafile=str(certificate.ca))
    with Fetched(upload(IMAGE), where, 'bmc') as served:
        assert served.url.startswith('https://')
        with pytest.raises((OSError, http.client.HTTPException)):
            ask(served.url.replace('https', 'http'))
        with asking(served.url, context) as connection:
            connection.request('GET', urlsplit(served.url).path)
            assert IMAGE == connection.getresponse().read()


def test_a_port_that_is_taken_is_told_and_the_next_is_used() -> None:
    """Of those that the operator has opened."""
    with socket.create_server(('127.0.0.1', 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f'no port from {port} to {port}'):
            Fetched(upload(IMAGE), ImageServer(host='127.0.0.1', listen='127.0.0.1', ports=(port, port)), 'bmc')
        where = ImageServer(host='127.0.0.1', listen='127.0.0.1', ports=(port, port + 20))
        with Fetched(upload(IMAGE), where, 'bmc') as served:
            assert port != urlsplit(served.url).port


def test_a_certificate_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    """By the option's name."""
    where = ImageServer(host='127.0.0.1', listen='127.0.0.1', certificate=str(tmp_path / 'none.pem'))
    with pytest.raises(UsageError, match='image_server_certificate'):
        Fetched(upload(IMAGE), where, 'bmc')


def test_the_address_is_in_no_log(pulling: Callable[..., Any], caplog: pytest.LogCaptureFixture) -> None:
    """Whoever reads our log cannot fetch the image."""
    caplog.set_level(logging.DEBUG)
    with Fetched(upload(IMAGE), HERE, 'bmc') as served:
        token = urlsplit(served.url).path.split('/')[1]
        ask(served.url)
        ask(served.url + 'x')
        assert served.wait(5)
    assert 'has fetched' in caplog.text
    assert token not in caplog.text


def test_ports_are_configured_as_one_or_a_range() -> None:
    """And nothing is served unless the operator names our address."""
    assert bootstrap.image_server(settings()) is None
    assert ImageServer(host='192.0.2.1') == bootstrap.image_server(settings(image_server_host='192.0.2.1'))
    for text, ports in (('8000', (8000, 8000)), ('8000-8010', (8000, 8010))):
        found = bootstrap.image_server(settings(image_server_host='192.0.2.1', image_server_ports=text))
        assert ImageServer(host='192.0.2.1', ports=ports) == found
    for text in ('x8000', '8000-8010-8020', '8000-', '', '8000\n', 'any', '123456'):
        with pytest.raises(ValueError, match='match regex'):
            settings(image_server_ports=text)
    found = bootstrap.image_server(settings(image_server_host='192.0.2.1', image_server_ports='99999'))
    assert found is not None
    with pytest.raises(UsageError, match='no port from 99999'):
        Fetched(upload(IMAGE), found, 'bmc')


def test_a_bmc_that_repeats_the_address_of_an_image_does_not_give_it_away() -> None:
    """In the message of its task, which is shown and stored."""
    with Fetched(upload(IMAGE), HERE, 'bmc') as served:
        text = short(f'The image could not be fetched from {served.url} today.')
        assert urlsplit(served.url).path.split('/')[1] not in text
        assert f'/***/{urlsplit(served.url).path.split("/")[2]} today.' in text
