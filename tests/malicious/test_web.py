# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Is a web server believed that lies about an image, or leads elsewhere? The catalogue is honest here, and the server is not.

The operator allows one server. A second one listens too: it must not be asked anything.
"""

import gzip
import itertools
import ssl
from collections.abc import Callable, Iterable, Iterator

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID

from baremetal_acc.emulator.tls import make_certificate
from tests.malicious.notary import Authority, Leaf
from tests.malicious.web import Answer, Web, always, leading, raw, reply
from tests.malicious.workshop import NEW, OLD, Workshop, flipped, pushed, reached, told, unsaid

PATH = '/fpga-new.img'


@pytest.fixture
def web() -> Iterator[Web]:
    """The server that the operator allows."""
    started = Web()
    yield started
    started.stop()


@pytest.fixture
def other() -> Iterator[Web]:
    """The server that he does not."""
    started = Web()
    yield started
    started.stop()


def served(shop: Workshop, web: Web, answer: Answer, *, allowed: bool = True) -> bytes:
    """Let the image come from the server; these are its honest bytes."""
    data = shop.new_file.read_bytes()
    shop.new['source'] = f'"{web.origin}{PATH}"'
    shop.new_file.rename(shop.outside / 'fpga-new.img')
    if allowed:
        shop.conf['image_hosts'] = web.origin
    web.answers[PATH] = answer
    return data


def dripping(web: Web, first: bytes) -> Answer:
    """A byte now and then, for ever."""

    def answer(_: int) -> Iterable[bytes]:
        yield first
        while not web.closing.wait(0.2):
            yield b'x'

    return answer


def endless(_: int) -> Iterable[bytes]:
    yield b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'
    yield from itertools.repeat(b'10000\r\n' + bytes(0x10000) + b'\r\n')


def many_headers(_: int) -> Iterable[bytes]:
    yield b'HTTP/1.1 200 OK\r\n'
    for number in range(100_000):
        yield f'X-{number}: x\r\n'.encode()


Make = Callable[[Web, Web, bytes], Answer]
"""The answer of the allowed server, given both and the honest bytes."""

NO_SERVER = 'which is no server that may be asked'

LIES: dict[str, tuple[Make, tuple[str, ...]]] = {
    # leading elsewhere
    'a redirect to another server': (lambda web, other, data: leading(f'{other.origin}{PATH}'), ('redirects', NO_SERVER)),
    'a redirect without a scheme': (
        lambda web, other, data: leading(f'//127.0.0.1:{other.port}{PATH}'),
        ('redirects', NO_SERVER),
    ),
    'a redirect to a user of that name': (
        lambda web, other, data: leading(f'http://127.0.0.1:{web.port}@127.0.0.1:{other.port}{PATH}'),
        ('redirects', 'is no plain URL'),
    ),
    'a redirect with backslashes': (
        lambda web, other, data: leading(f'http:\\\\127.0.0.1:{other.port}{PATH}'),
        ('cannot be read',),
    ),
    'a redirect with a backslash before a user': (
        lambda web, other, data: leading(f'http://127.0.0.1:{other.port}\\@127.0.0.1:{web.port}{PATH}'),
        ('redirects', 'is no plain URL'),
    ),
    'a redirect with a tab in it': (
        lambda web, other, data: leading(f'http://127.0.0.1:{other.port}\t{PATH}'),
        ('cannot be read',),
    ),
    'a redirect with a fragment': (
        lambda web, other, data: leading(f'{other.origin}/#@127.0.0.1:{web.port}{PATH}'),
        ('redirects', 'is no plain URL'),
    ),
    'a redirect to another name of the same': (
        lambda web, other, data: leading(f'http://localhost:{web.port}/again'),
        ('redirects', NO_SERVER),
    ),
    'a redirect to the same as a number': (
        lambda web, other, data: leading(f'http://2130706433:{web.port}/again'),
        ('redirects', NO_SERVER),
    ),
    'a redirect to a file': (lambda web, other, data: leading('file:///etc/passwd'), ('redirects',)),
    'a redirect to data': (lambda web, other, data: leading('data:text/plain,x'), ('redirects',)),
    'a redirect to itself': (lambda web, other, data: leading(PATH), ('more than 5 redirects',)),
    'a redirect to nowhere': (lambda web, other, data: leading(''), ('cannot be read',)),
    'a redirect by HTML': (
        lambda web, other, data: always(reply(b'<meta http-equiv=refresh content="0;url=/again">')),
        ('bytes, the catalogue says',),
    ),
    'a refresh by header': (
        lambda web, other, data: always(reply(b'', f'Refresh: 0;url={other.origin}{PATH}')),
        ('bytes, the catalogue says',),
    ),
    # other bytes
    'one bit flipped': (lambda web, other, data: always(reply(flipped(data, 5000))), ('has sha256 ', 'the catalogue says ')),
    'one byte short, and so announced': (lambda web, other, data: always(reply(data[:-1])), ('bytes, the catalogue says',)),
    'one byte long, and so announced': (lambda web, other, data: always(reply(data + b'x')), ('bytes, the catalogue says',)),
    'cut short of what was announced': (
        lambda web, other, data: raw('HTTP/1.1 200 OK', f'Content-Length: {len(data)}', body=data[:9000]),
        ('cannot be read', 'breaks off'),
    ),
    'cut short, nothing announced': (
        lambda web, other, data: raw('HTTP/1.1 200 OK', 'Connection: close', body=data[:9000]),
        ('has 9000 bytes, the catalogue says',),
    ),
    'longer, nothing announced': (
        lambda web, other, data: raw('HTTP/1.1 200 OK', 'Connection: close', body=data + b'x'),
        ('is longer than',),
    ),
    'without an end': (lambda web, other, data: endless, ('is longer than',)),
    'announced twice': (
        lambda web, other, data: raw(
            'HTTP/1.1 200 OK', f'Content-Length: {len(data)}', 'Content-Length: 1', 'Connection: close', body=data
        ),
        ('fpga-new',),
    ),
    'in chunks that are none': (
        lambda web, other, data: raw('HTTP/1.1 200 OK', 'Transfer-Encoding: chunked', body=b'zz\r\n' + data),
        ('cannot be read',),
    ),
    'packed': (
        lambda web, other, data: always(reply(gzip.compress(data), 'Content-Encoding: gzip')),
        ('cannot be read',),
    ),
    'packed into a bomb': (
        lambda web, other, data: always(reply(gzip.compress(bytes(50_000_000)), 'Content-Encoding: gzip')),
        ('cannot be read',),
    ),
    # no answer
    'absent': (lambda web, other, data: always(reply(b'', status='404 Not Found')), ('HTTP status 404',)),
    'a part of it': (
        lambda web, other, data: always(reply(data, 'Content-Range: bytes 0-9/10', status='206 Partial Content')),
        ('HTTP status 206',),
    ),
    'an error with the right bytes': (lambda web, other, data: always(reply(data, status='500 Oops')), ('HTTP status 500',)),
    'no HTTP': (lambda web, other, data: always(data), ('cannot be read',)),
    'a hundred thousand headers': (lambda web, other, data: many_headers, ('cannot be read',)),
    'a header of a megabyte': (
        lambda web, other, data: raw('HTTP/1.1 200 OK', f'X: {"x" * 1_000_000}', body=data),
        ('cannot be read',),
    ),
    'nothing at all': (lambda web, other, data: always(b''), ('cannot be read',)),
}


@pytest.mark.parametrize('case', LIES)
def test_a_server_that_lies_is_refused_and_nothing_of_it_is_sent(case, shop, web, other):
    """Code 4 and one line with image, URL and reason; no other server was asked; the BMCs were read and not written."""
    make, says = LIES[case]
    data = served(shop, web, lambda _: ())
    web.answers[PATH] = make(web, other, data)
    web.answers['/again'] = other.answers[PATH] = always(reply(data))
    refused(shop, (f'{web.origin}{PATH}', *says))
    assert [] == other.asked
    assert '/again' not in web.asked


def refused(shop: Workshop, says: Iterable[str]) -> None:
    assert [] == unsaid(shop.refused(4), ('node-1', 'image fpga-new', *says))


@pytest.mark.parametrize(
    'first',
    [b'', b'HTTP/1.1 200 OK\r\nX: ', b'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n'],
    ids=['silence', 'header', 'body'],
)
def test_a_server_that_drips_is_cut_off(first, shop, web):
    """A byte every now and then holds nobody for longer than image_timeout, wherever in the answer."""
    served(shop, web, dripping(web, first))
    shop.conf['image_timeout'] = '1'
    refused(shop, ('did not come within 1 seconds', 'image_timeout'))


def test_no_server_is_asked_that_the_operator_does_not_name(shop, web):
    """By default there are none."""
    data = served(shop, web, lambda _: (), allowed=False)
    web.answers[PATH] = always(reply(data))
    refused(shop, (NO_SERVER, 'image_hosts'))
    assert [] == web.asked


@pytest.mark.parametrize('spelling', ['localhost', '127.1', '2130706433', '127.0.0.1.', '[::ffff:127.0.0.1]'])
def test_a_server_is_known_by_the_name_that_the_operator_gave(spelling, shop, web):
    """Other spellings of the same address are other servers: nothing is looked up to tell."""
    data = served(shop, web, lambda _: ())
    web.answers[PATH] = always(reply(data))
    shop.new['source'] = f'"http://{spelling}:{web.port}{PATH}"'
    shop.lay()
    done = shop.apply()
    assert done.code in (2, 4), done.err
    assert 1 == len(done.errors)
    assert [] == web.asked
    assert [] == reached(shop.machine)


@pytest.mark.parametrize('trusted', [True, False], ids=['another name', 'another CA'])
def test_a_server_that_cannot_prove_who_it_is_is_refused(trusted, shop, tmp_path):
    """By TLS the certificate has to verify: by a CA that is trusted, for the very name."""
    made = make_certificate(tmp_path, 'web', ('127.0.0.1',))
    authority = Authority()
    if trusted:
        # A subject is no name of a server: that stands in subjectAltName.
        nameless = authority.issue(name='127.0.0.1', purpose=ExtendedKeyUsageOID.SERVER_AUTH)
        (tmp_path / 'nameless.pem').write_bytes(in_pem(nameless))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / 'nameless.pem')
    web = Web(context if trusted else made.context())
    try:
        data = served(shop, web, lambda _: ())
        web.answers[PATH] = always(reply(data))
        shop.conf['image_hosts'] = f'127.0.0.1:{web.port}'
        (shop.outside / 'ca.pem').write_bytes(authority.certificate.public_bytes(serialization.Encoding.PEM))
        shop.conf['image_ca'] = str(shop.outside / 'ca.pem')
        refused(shop, ('certificate of the server does not verify', 'mismatch' if trusted else 'unable to get'))
        assert [] == web.asked
    finally:
        web.stop()


def in_pem(leaf: Leaf) -> bytes:
    """Key and certificate, for a server."""
    return leaf.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ) + leaf.certificate.public_bytes(serialization.Encoding.PEM)


@pytest.mark.parametrize(('honest_answers', 'code'), [(1, 4), (2, 6)], ids=['after the plan', 'after the check'])
def test_a_server_that_turns_malicious_later_is_not_believed(honest_answers, code, honest, web):
    """Honest to the plan, or to the check too, and then other bytes: they are not sent."""
    data = served(honest, web, lambda _: ())
    web.answers[PATH] = lambda before: (reply(data if before < honest_answers else flipped(data, 5000)),)
    honest.lay()
    done = honest.apply()
    assert code == done.code, done.err
    assert 1 == len(done.errors), done.err
    for text in ('node-1', 'image fpga-new', 'has sha256 ', 'the catalogue says '):
        assert text in done.errors[0]
    assert honest_answers + 1 == len(web.asked)
    assert told(honest.outside / 'fpga-new.img') not in pushed(honest.machine)
    assert [] == [digest for digest, _ in pushed(honest.machine) if digest != told(honest.path('gzip-3.img'))[0]]
    assert OLD == honest.machine.truth()['components']['host/FPGA1_FW']['active']['version']


def test_an_honest_server_is_written_byte_for_byte_also_behind_a_redirect(honest, web):
    """To a server that is allowed; else the tests above could not fail."""
    data = served(honest, web, leading('/images/fpga-new.img?token=1'))
    web.answers['/images/fpga-new.img?token=1'] = always(reply(data))
    honest.lay()
    done = honest.apply()
    assert 0 == done.code, done.err
    assert sorted((told(honest.outside / 'fpga-new.img'), told(honest.path('gzip-3.img')))) == sorted(pushed(honest.machine))
    assert NEW == honest.machine.truth()['components']['host/FPGA1_FW']['active']['version']
