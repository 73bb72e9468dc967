# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What comes from a web server, and what is made of servers that are not what they seem."""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from baremetal_acc.emulator.tls import make_certificate
from baremetal_acc.errors import ImageMismatch, ImageMissing
from baremetal_acc.images import address
from baremetal_acc.images.fetch import Web
from baremetal_acc.images.store import FileStore, ImageFiles, WebStore
from baremetal_acc.model.image import Digest, DigestAlgorithm
from tests.unit.images import web
from tests.unit.planning import values as v

DATA = bytes(range(256)) * 4000


@pytest.fixture
def server() -> Iterator[web.Server]:
    """One without TLS."""
    found = web.Server()
    yield found
    found.stop()


@pytest.fixture
def encrypted(tmp_path) -> Iterator[web.Server]:
    """One with TLS; its authority is ``tmp_path/web-ca.pem``."""
    found = web.Server(make_certificate(tmp_path, 'web').context())
    yield found
    found.stop()


def image(source: str, data: bytes = DATA):
    digest = Digest(algorithm=DigestAlgorithm.SHA256, value=hashlib.sha256(data).hexdigest())
    return v.image(source=source, size_bytes=len(data), digest=digest)


def store(*servers: web.Server, **how) -> WebStore:
    return WebStore(web=Web(hosts=frozenset(address.origin(s.origin) for s in servers), **how))


@pytest.mark.parametrize('answer', [web.body, web.unannounced, web.chunked])
def test_an_image_comes_from_a_server(server, answer):
    """However it is sent; as often as it is opened from its beginning, and by its last name."""
    server.answers['/fw/gpu.bin?token=geheim'] = answer(DATA)
    upload = store(server).open(image(f'{server.origin}/fw/gpu.bin?token=geheim'))
    assert ('gpu.bin', len(DATA)) == (upload.file, upload.size_bytes)
    assert DATA == upload.open().read() == upload.open().read()
    assert 1 == len(server.requests)


def test_the_certificate_of_a_server_is_verified(encrypted, tmp_path):
    """With the operator's authority, and with no other."""
    encrypted.answers['/a'] = web.body(DATA)
    wanted = image(f'{encrypted.origin}/a')
    with pytest.raises(ImageMissing, match=r'certificate of the server cannot be verified: .*issuer cert.*image_ca'):
        store(encrypted).open(wanted)
    assert DATA == store(encrypted, authorities=str(tmp_path / 'web-ca.pem')).open(wanted).open().read()
    with pytest.raises(ImageMissing, match=r'the file of CA certificates /nowhere cannot be read .set by option .* image_ca'):
        store(encrypted, authorities='/nowhere').open(wanted)


def test_only_allowed_servers_are_asked(server):
    """None by default; host, port and scheme count. The token in the URL is not repeated."""
    url = f'{server.origin}/a?token=geheim'
    port = address.parse(url).origin.port
    for hosts in ((), ('127.0.0.1',), ('http://127.0.0.1',), (f'127.0.0.1:{port}',), (f'http://localhost:{port}',)):
        with pytest.raises(ImageMissing, match=r'which is not an allowed server .*image_hosts') as caught:
            WebStore(web=Web(hosts=frozenset(map(address.origin, hosts)))).open(image(url))
        assert 'geheim' not in str(caught.value)
    assert [] == server.requests


def test_a_redirect_within_the_allowed_servers_is_followed(server, encrypted, tmp_path):
    """Also a relative one, also to TLS."""
    server.answers['/a'] = web.redirect('/b?x=1', '301 Moved Permanently')
    server.answers['/b?x=1'] = web.redirect(f'{encrypted.origin}/c', '307 Temporary Redirect')
    encrypted.answers['/c'] = web.body(DATA)
    found = store(server, encrypted, authorities=str(tmp_path / 'web-ca.pem')).open(image(f'{server.origin}/a'))
    assert DATA == found.open().read()


@pytest.mark.parametrize(
    ('where', 'says'),
    [
        (
            'http://127.0.0.2:{port}/a',
            r'redirects to an address that is on http://127.0.0.2:\d+, which is not an allowed server',
        ),
        ('http://127.0.0.1:1/a', 'redirects to an address that is on http://127.0.0.1:1, which is not an allowed server'),
        (
            'https://127.0.0.1:{port}/a',
            r'redirects to an address that is on https://127.0.0.1:\d+, which is not an allowed server',
        ),
        ('//evil.example/a', 'redirects to an address that is on http://evil.example:80, which is not an allowed server'),
        ('file:///etc/passwd', 'redirects to an address that is not a plain URL'),
        ('http://127.0.0.1:{port}@evil.example/', 'redirects to an address that is not a plain URL'),
        ('http://evil.example\\@127.0.0.1:{port}/a', 'redirects to an address that is not a plain URL'),
        ('http://127.0.0.1:{port}/a#b', 'redirects to an address that is not a plain URL'),
        ('/r', 'more than 5 redirects'),
        ('', 'more than 5 redirects'),
    ],
)
def test_a_redirect_elsewhere_is_not_followed(server, where, says):
    """To another host, port, scheme or file; with a name before the host; or in a circle."""
    server.answers['/r'] = web.redirect(where.format(port=address.parse(server.origin).origin.port))
    with pytest.raises(ImageMissing, match=says):
        store(server).open(image(f'{server.origin}/r'))


def test_a_redirect_away_from_tls_is_not_followed(server, encrypted, tmp_path):
    """Though both servers are allowed."""
    encrypted.answers['/a'] = web.redirect(f'{server.origin}/a')
    with pytest.raises(ImageMissing, match='which is not encrypted'):
        store(server, encrypted, authorities=str(tmp_path / 'web-ca.pem')).open(image(f'{encrypted.origin}/a'))
    assert [] == server.requests


@pytest.mark.parametrize(
    ('answer', 'error', 'says'),
    [
        (web.body(DATA[:-1] + b'x'), ImageMismatch, 'has sha256 .*, the catalogue says'),
        (web.body(DATA[:-1]), ImageMissing, 'the server reports a Content-Length of 1023999 bytes, the catalogue says 1024000'),
        (web.body(DATA + b'x'), ImageMissing, 'the server reports a Content-Length of 1024001 bytes'),
        (web.unannounced(DATA + b'x'), ImageMismatch, 'is longer than 1024000 bytes'),
        (web.unannounced(DATA[:-1]), ImageMismatch, 'has 1023999 bytes, the catalogue says 1024000'),
        (web.body(DATA[:1000], length=len(DATA)), ImageMissing, 'the transfer broke off'),
        (web.body(DATA, status='404 Not Found'), ImageMissing, 'returned HTTP status 404'),
        (web.body(DATA, status='206 Partial Content'), ImageMissing, 'returned HTTP status 206'),
        (web.body(DATA, 'Content-Encoding: gzip'), ImageMissing, 'sent a Content-Encoding, although the request accepts none'),
        (lambda c: c.sendall(b'nonsense\r\n\r\n'), ImageMissing, 'the request failed'),
        (
            lambda c: c.sendall(b'HTTP/1.1 200 OK\r\n' + b'A: b\r\n' * 20_000 + b'\r\n'),
            ImageMissing,
            'the request failed',
        ),
        (lambda c: None, ImageMissing, 'the request failed'),
    ],
)
def test_other_bytes_and_other_answers_are_refused(server, answer, error, says):
    """Changed, cut off, too many, encoded, or no answer at all; no file stays open."""
    server.answers['/a'] = answer
    before = len(os.listdir('/proc/self/fd'))
    with pytest.raises(error, match=says):
        store(server).open(image(f'{server.origin}/a'))
    server.stop()
    assert before >= len(os.listdir('/proc/self/fd'))


@pytest.mark.parametrize(
    ('first', 'drop'),
    [
        (b'', b''),
        (b'H', b'T'),
        (b'HTTP/1.1 200 OK\r\n', b'A: b\r\n'),
        (b'', b'HTTP/1.1 100 Continue\r\n\r\n'),
        (b'HTTP/1.1 200 OK\r\nContent-Length: 1024000\r\n\r\n', b'x'),
        (b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n', b'1\r\nx\r\n'),
        (b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n', b'0'),
    ],
)
def test_a_server_that_drips_is_cut_off(server, first, drop):
    """In the first line, in the headers, in the body: each wait is short, all of them together would never end."""
    server.answers['/a'] = web.dripping(first, drop, server.over)
    with pytest.raises(ImageMissing, match=r'it was not fetched completely within 1 s .*image_timeout|the request failed'):
        store(server, timeout=timedelta(seconds=1)).open(image(f'{server.origin}/a'))


def test_a_handshake_that_drips_is_cut_off(encrypted):
    """A record of TLS of 16 KiB, a byte now and then."""
    encrypted.raw = web.dripping(b'\x16\x03\x03\x40\x00', b'\x02', encrypted.over)
    with pytest.raises(ImageMissing, match='it was not fetched completely within 1 s'):
        store(encrypted, timeout=timedelta(seconds=1)).open(image(f'{encrypted.origin}/a'))


def test_an_image_larger_than_allowed_is_not_begun(server, tmp_path):
    """Whatever the catalogue says of its size: the private copy has to lie somewhere."""
    server.answers['/a'] = web.body(DATA)
    (tmp_path / 'a').write_bytes(DATA)
    for one, source in ((store(server), f'{server.origin}/a'), (FileStore(folders=(tmp_path,)), str(tmp_path / 'a'))):
        with pytest.raises(ImageMismatch, match=r'1024000 bytes, exceeds the maximum of 1000 bytes .*image_max_size'):
            replace(one, largest=1000).open(image(source))


def test_nothing_of_the_environment_goes_to_a_server(server, monkeypatch, tmp_path):
    """Neither proxies nor the passwords of ~/.netrc, and no cookies from one redirect to the next."""
    (tmp_path / '.netrc').write_text('machine 127.0.0.1 login me password geheim\n')
    monkeypatch.setenv('HOME', str(tmp_path))
    monkeypatch.setenv('NETRC', str(tmp_path / '.netrc'))
    monkeypatch.setenv('http_proxy', 'http://127.0.0.1:1')
    server.answers['/a'] = web.body(DATA)
    store(server).open(image(f'{server.origin}/a'))
    assert 'authorization' not in server.requests[0].lower()


def test_a_signature_comes_from_a_server_too(server):
    """Bounded: it is read before anything is known of it."""
    server.answers['/a.sig'] = web.body(b' ' * 10**6)
    signed = replace(image(f'{server.origin}/a'), signature=f'{server.origin}/a.sig')
    with pytest.raises(Exception, match=r'its signature cannot be read: .*/a.sig is longer than 262144 bytes'):
        ImageFiles(files=FileStore(folders=()), web=store(server), trust=object()).open(signed)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    'text',
    [
        'ftp://h/a',
        'https:///a',
        'https://h',
        'https://h:0/a',
        'https://h:65536/a',
        'https://h:/a',
        'https://u@h/a',
        'https://u:p@h/a',
        'https://h/a b',
        'https://h/a\n',
        'https://h/ä',
        'https://hä/a',
        'https://h\\@i/a',
        'https://h/a#b',
        'https://h..i/a',
        'https://.h/a',
        'https://h?a',
        'HTTPS:/h/a',
        ' https://h/a',
        'https://h/<a>',
    ],
)
def test_what_two_readers_could_read_differently_is_no_address(text):
    """A URL names one server, or it is refused. One without a path names its root."""
    if text in ('https://h', 'https://h?a'):
        assert 'https://h:443' == str(address.parse(text).origin)
        return
    with pytest.raises(ValueError) as caught:
        address.parse(text)
    assert text not in str(caught.value)


def test_servers_are_compared_with_their_ports():
    """Case does not count, and what is left out is the port of the scheme."""
    assert address.origin('Images.Example') == address.parse('https://images.example:443/a').origin
    assert address.origin('http://[::1]:80') == address.parse('http://[::1]/x').origin
    assert address.origin('a.example:8443') != address.parse('https://a.example/x').origin
    for wrong in ('https://h/path', 'h?x', 'a b', ''):
        with pytest.raises(ValueError):
            address.origin(wrong)
