# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A web server that lies about an image, or leads elsewhere, is not believed. Only the server is not honest here.

The operator allows one server. A second one listens too: it must not be asked anything.
"""

import gzip
import itertools
import ssl
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.malicious.attack import Attack
from tests.malicious.notary import Authority, Leaf
from tests.malicious.test_signatures import FUTURE, PAST, image_signed
from tests.malicious.web import Answer, Web, always, leading, raw, reply
from tests.malicious.workshop import NEW, OLD, Workshop, flipped, pushed, told, unsaid

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


def served(shop: Workshop, web: Web, answer: Answer, *, allowed: bool = True, name: str = 'fpga-new') -> bytes:
    """Let an image come from the server; these are its honest bytes."""
    file = shop.path(f'{name}.img')
    data = file.read_bytes()
    shop.images[name]['source'] = f'"{web.origin}/{file.name}"'
    file.rename(shop.outside / file.name)
    if allowed:
        shop.conf['image_hosts'] = web.origin
    web.answers[f'/{file.name}'] = answer
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


def after_hops(web: Web, hops: int, last: str) -> Answer:
    """So many redirects to the server itself, and then one to somewhere else."""
    for hop in range(1, hops):
        web.answers[f'/hop/{hop}'] = leading(f'/hop/{hop + 1}')
    web.answers[f'/hop/{hops}'] = leading(last)
    return leading('/hop/1')


def mirrored(web: Web, data: bytes) -> Answer:
    """A redirect to these bytes on the server itself."""
    web.answers['/mirror'] = always(reply(data))
    return leading('/mirror')


def moved(*headers: str, status: str = '302 Found', body: bytes = b'') -> Answer:
    """A redirect of another form."""
    return always(reply(body, *headers, status=status))


def chunked(*pieces: bytes, end: bytes = b'0\r\n\r\n') -> Answer:
    """An answer in chunks, and how it ends."""
    body = b''.join(b'%x\r\n%b\r\n' % (len(piece), piece) for piece in pieces)
    return raw('HTTP/1.1 200 OK', 'Transfer-Encoding: chunked', 'Connection: close', body=body + end)


Make = Callable[[Web, Web, bytes], Answer]
"""The answer of the allowed server, given both and the honest bytes."""

NO_SERVER = 'which is not an allowed server'

LIES: dict[str, tuple[Attack, Make, tuple[str, ...]]] = {
    # leading elsewhere
    'a redirect to another server': (
        Attack.REDIRECT,
        lambda web, other, data: leading(f'{other.origin}{PATH}'),
        ('redirects', NO_SERVER),
    ),
    'a redirect without a scheme': (
        Attack.REDIRECT,
        lambda web, other, data: leading(f'//127.0.0.1:{other.port}{PATH}'),
        ('redirects', NO_SERVER),
    ),
    'a redirect to a user of that name': (
        Attack.REDIRECT,
        lambda web, other, data: leading(f'http://127.0.0.1:{web.port}@127.0.0.1:{other.port}{PATH}'),
        ('redirects', 'is not a plain URL'),
    ),
    'a redirect with backslashes': (
        Attack.REDIRECT,
        lambda web, other, data: leading(f'http:\\\\127.0.0.1:{other.port}{PATH}'),
        ('cannot be read',),
    ),
    'a redirect with a backslash before a user': (
        Attack.REDIRECT,
        lambda web, other, data: leading(f'http://127.0.0.1:{other.port}\\@127.0.0.1:{web.port}{PATH}'),
        ('redirects', 'is not a plain URL'),
    ),
    'a redirect with a tab in it': (
        Attack.REDIRECT,
        lambda web, other, data: leading(f'http://127.0.0.1:{other.port}\t{PATH}'),
        ('cannot be read',),
    ),
    'a redirect with a fragment': (
        Attack.REDIRECT,
        lambda web, other, data: leading(f'{other.origin}/#@127.0.0.1:{web.port}{PATH}'),
        ('redirects', 'is not a plain URL'),
    ),
    'a redirect to another name of the same': (
        Attack.REDIRECT,
        lambda web, other, data: leading(f'http://localhost:{web.port}/again'),
        ('redirects', NO_SERVER),
    ),
    'a redirect to the same as a number': (
        Attack.REDIRECT,
        lambda web, other, data: leading(f'http://2130706433:{web.port}/again'),
        ('redirects', NO_SERVER),
    ),
    'a redirect to a file': (
        Attack.PATH_TRAVERSAL,
        lambda web, other, data: leading('file:///etc/passwd'),
        ('redirects', 'is not a plain URL'),
    ),
    'a redirect to data': (
        Attack.BAD_SERVER,
        lambda web, other, data: leading('data:text/plain,x'),
        ('redirects', 'is not a plain URL'),
    ),
    'a redirect to itself': (Attack.BAD_SERVER, lambda web, other, data: leading(PATH), ('more than 5 redirects',)),
    'a redirect to nowhere': (Attack.BAD_SERVER, lambda web, other, data: leading(''), ('cannot be read',)),
    'a redirect by HTML': (
        Attack.BAD_SERVER,
        lambda web, other, data: always(reply(b'<meta http-equiv=refresh content="0;url=/again">')),
        ('bytes, the catalogue says',),
    ),
    'a refresh by header': (
        Attack.REDIRECT,
        lambda web, other, data: always(reply(b'', f'Refresh: 0;url={other.origin}{PATH}')),
        ('bytes, the catalogue says',),
    ),
    'a redirect to another server in capitals': (
        Attack.REDIRECT,
        lambda web, other, data: leading(f'HTTP://127.0.0.1:{other.port}{PATH}'),
        ('redirects', NO_SERVER),
    ),
    'a redirect to another server by TLS': (
        Attack.REDIRECT,
        lambda web, other, data: leading(f'https://127.0.0.1:{other.port}{PATH}'),
        ('redirects', NO_SERVER),
    ),
    'a redirect to the port that goes without saying': (
        Attack.REDIRECT,
        lambda web, other, data: leading(f'http://127.0.0.1{PATH}'),
        ('redirects', NO_SERVER),
    ),
    'a redirect to a name that begins alike': (
        Attack.REDIRECT,
        lambda web, other, data: leading(f'http://127.0.0.1.example.com:{web.port}{PATH}'),
        ('redirects', NO_SERVER),
    ),
    'a redirect to a name that ends alike': (
        Attack.REDIRECT,
        lambda web, other, data: leading(f'http://evil.127.0.0.1:{web.port}{PATH}'),
        ('redirects', NO_SERVER),
    ),
    'a redirect to the same with a dot behind': (
        Attack.REDIRECT,
        lambda web, other, data: leading(f'http://127.0.0.1.:{web.port}/again'),
        ('redirects', 'is not a plain URL'),
    ),
    'a redirect to the same in octal': (
        Attack.REDIRECT,
        lambda web, other, data: leading(f'http://0177.0.0.1:{web.port}/again'),
        ('redirects', NO_SERVER),
    ),
    'a redirect to the same as IPv6': (
        Attack.REDIRECT,
        lambda web, other, data: leading(f'http://[::ffff:127.0.0.1]:{web.port}/again'),
        ('redirects', NO_SERVER),
    ),
    'a redirect to a port that wraps round': (
        Attack.REDIRECT,
        lambda web, other, data: leading(f'http://127.0.0.1:{other.port + 65536}{PATH}'),
        ('redirects to an address that',),
    ),
    'a redirect to a host in percents': (
        Attack.REDIRECT,
        lambda web, other, data: leading(f'http://127.0.0.1%3a{other.port}%2f@127.0.0.1:{web.port}/again'),
        ('redirects', 'is not a plain URL'),
    ),
    'a second redirect to another server': (
        Attack.REDIRECT,
        lambda web, other, data: after_hops(web, 1, f'{other.origin}{PATH}'),
        ('redirects', NO_SERVER),
    ),
    'the last redirect of all to another server': (
        Attack.REDIRECT,
        lambda web, other, data: after_hops(web, 4, f'{other.origin}{PATH}'),
        ('redirects', NO_SERVER),
    ),
    'a redirect to both of two servers': (
        Attack.REDIRECT,
        lambda web, other, data: moved(f'Location: {web.origin}/again', f'Location: {other.origin}{PATH}'),
        ('redirects', 'is not a plain URL'),
    ),
    'a redirect on two lines': (
        Attack.REDIRECT,
        lambda web, other, data: moved(f'Location: http://127.0.0.1:{web.port}', f' @127.0.0.1:{other.port}{PATH}'),
        ('cannot be read', 'is not HTTP'),
    ),
    'a redirect with the right bytes beside it': (
        Attack.REDIRECT,
        lambda web, other, data: moved(f'Location: {other.origin}{PATH}', body=data),
        ('redirects', NO_SERVER),
    ),
    'a redirect for ever to another server': (
        Attack.REDIRECT,
        lambda web, other, data: moved(f'Location: {other.origin}{PATH}', status='308 Permanent Redirect'),
        ('redirects', NO_SERVER),
    ),
    'a choice of servers': (
        Attack.REDIRECT,
        lambda web, other, data: moved(f'Location: {other.origin}{PATH}', status='300 Multiple Choices'),
        ('HTTP status 300',),
    ),
    'a proxy to be used': (
        Attack.REDIRECT,
        lambda web, other, data: moved(f'Location: {other.origin}', status='305 Use Proxy'),
        ('HTTP status 305',),
    ),
    'an alternative service': (
        Attack.REDIRECT,
        lambda web, other, data: moved(f'Alt-Svc: http/1.1="127.0.0.1:{other.port}"', status='421 Misdirected Request'),
        ('HTTP status 421',),
    ),
    'a redirect by HTML to another server': (
        Attack.REDIRECT,
        lambda web, other, data: always(reply(f'<meta http-equiv=refresh content="0;url={other.origin}{PATH}">'.encode())),
        ('bytes, the catalogue says',),
    ),
    # other bytes
    'one bit flipped': (
        Attack.BIT_FLIPPED,
        lambda web, other, data: always(reply(flipped(data, 5000))),
        ('has sha256 ', 'the catalogue says '),
    ),
    'one byte short, and so announced': (
        Attack.TRUNCATED,
        lambda web, other, data: always(reply(data[:-1])),
        ('bytes, the catalogue says',),
    ),
    'one byte long, and so announced': (
        Attack.OVERSIZED,
        lambda web, other, data: always(reply(data + b'x')),
        ('bytes, the catalogue says',),
    ),
    'cut short of what was announced': (
        Attack.TRUNCATED,
        lambda web, other, data: raw('HTTP/1.1 200 OK', f'Content-Length: {len(data)}', body=data[:9000]),
        ('cannot be read', 'the connection was closed before the answer was complete'),
    ),
    'cut short, nothing announced': (
        Attack.TRUNCATED,
        lambda web, other, data: raw('HTTP/1.1 200 OK', 'Connection: close', body=data[:9000]),
        ('has 9000 bytes, the catalogue says',),
    ),
    'longer, nothing announced': (
        Attack.OVERSIZED,
        lambda web, other, data: raw('HTTP/1.1 200 OK', 'Connection: close', body=data + b'x'),
        ('is longer than',),
    ),
    'without an end': (Attack.OVERSIZED, lambda web, other, data: endless, ('is longer than',)),
    'one bit flipped in a chunk': (
        Attack.BIT_FLIPPED,
        lambda web, other, data: chunked(data[:4096], flipped(data[4096:], 900)),
        ('has sha256 ', 'the catalogue says '),
    ),
    'one bit flipped behind a redirect': (
        Attack.BIT_FLIPPED,
        lambda web, other, data: mirrored(web, flipped(data, 5000)),
        ('has sha256 ', 'the catalogue says '),
    ),
    'chunks without an end': (
        Attack.TRUNCATED,
        lambda web, other, data: chunked(data[:4096], data[4096:8192], end=b''),
        ('cannot be read', 'the connection was closed before the answer was complete'),
    ),
    'a chunk shorter than it says': (
        Attack.TRUNCATED,
        lambda web, other, data: chunked(data[:4096], end=b'5000\r\n' + data[4096:8192]),
        ('cannot be read', 'the connection was closed before the answer was complete'),
    ),
    'chunks that end too early': (
        Attack.TRUNCATED,
        lambda web, other, data: chunked(data[:4096]),
        ('has 4096 bytes, the catalogue says',),
    ),
    'cut in its headers': (
        Attack.TRUNCATED,
        lambda web, other, data: always(b'HTTP/1.1 200 OK\r\nContent-Le'),
        ('cannot be read', 'closed before the answer was complete'),
    ),
    'a chunk of all bytes that there are': (
        Attack.OVERSIZED,
        lambda web, other, data: chunked(end=b'ffffffffffffffffff\r\n' + data + b'x'),
        ('cannot be read', 'is not HTTP'),
    ),
    'announced as a tebibyte': (
        Attack.OVERSIZED,
        lambda web, other, data: raw('HTTP/1.1 200 OK', f'Content-Length: {1 << 40}', body=data),
        ('reports a Content-Length of 1099511627776 bytes, the catalogue says ',),
    ),
    'announced twice': (
        Attack.BAD_SERVER,
        lambda web, other, data: raw(
            'HTTP/1.1 200 OK', f'Content-Length: {len(data)}', 'Content-Length: 1', 'Connection: close', body=data
        ),
        ('cannot be read', 'is not HTTP'),
    ),
    'in chunks that are none': (
        Attack.BAD_SERVER,
        lambda web, other, data: raw('HTTP/1.1 200 OK', 'Transfer-Encoding: chunked', body=b'zz\r\n' + data),
        ('cannot be read',),
    ),
    'packed': (
        Attack.BAD_SERVER,
        lambda web, other, data: always(reply(gzip.compress(data), 'Content-Encoding: gzip')),
        ('cannot be read',),
    ),
    'packed into a bomb': (
        Attack.OVERSIZED,
        lambda web, other, data: always(reply(gzip.compress(bytes(50_000_000)), 'Content-Encoding: gzip')),
        ('cannot be read',),
    ),
    # no answer
    'absent': (Attack.BAD_SERVER, lambda web, other, data: always(reply(b'', status='404 Not Found')), ('HTTP status 404',)),
    'a part of it': (
        Attack.BAD_SERVER,
        lambda web, other, data: always(reply(data, 'Content-Range: bytes 0-9/10', status='206 Partial Content')),
        ('HTTP status 206',),
    ),
    'an error with the right bytes': (
        Attack.BAD_SERVER,
        lambda web, other, data: always(reply(data, status='500 Oops')),
        ('HTTP status 500',),
    ),
    'no HTTP': (Attack.BAD_SERVER, lambda web, other, data: always(data), ('cannot be read',)),
    'a hundred thousand headers': (Attack.OVERSIZED, lambda web, other, data: many_headers, ('cannot be read',)),
    'a header of a megabyte': (
        Attack.OVERSIZED,
        lambda web, other, data: raw('HTTP/1.1 200 OK', f'X: {"x" * 1_000_000}', body=data),
        ('cannot be read',),
    ),
    'nothing at all': (Attack.TRUNCATED, lambda web, other, data: always(b''), ('cannot be read',)),
}


@pytest.mark.parametrize('case', LIES)
def test_a_server_that_lies_is_refused_and_nothing_of_it_is_sent(case, shop, web, other):
    """Code 4 and one line with image, URL and reason; no other server was asked; the BMCs were read and not written."""
    _, make, says = LIES[case]
    data = served(shop, web, lambda _: ())
    web.answers[PATH] = make(web, other, data)
    web.answers['/again'] = other.answers[PATH] = always(reply(data))
    refused(shop, (f'{web.origin}{PATH}', *says))
    assert [] == other.asked
    assert '/again' not in web.asked


Put = Callable[[Workshop, Web, Web], object]
"""The attack, given the allowed server and the other one."""


def image_elsewhere(name: str) -> Put:
    """Another image than the wanted one is redirected to another server."""

    def put(shop: Workshop, web: Web, other: Web) -> None:
        data = served(shop, web, leading(f'{other.origin}{PATH}'), name=name)
        other.answers[PATH] = always(reply(data))

    return put


def image_flipped(name: str) -> Put:
    """Another image than the wanted one comes with a bit flipped."""

    def put(shop: Workshop, web: Web, other: Web) -> None:
        data = served(shop, web, lambda _: (), name=name)
        web.answers[f'/{name}.img'] = always(reply(flipped(data, 5000)))

    return put


def step_elsewhere(shop: Workshop, web: Web, other: Web) -> None:
    shop.step()
    image_elsewhere('fpga-step')(shop, web, other)


def signature_at(shop: Workshop, web: Web, answer: Answer) -> None:
    """The signature of the wanted image, where each needs one, comes from the server."""
    image_signed(shop)
    shop.new['signature'] = f'"{web.origin}/fpga-new.sig"'
    shop.conf['image_hosts'] = web.origin
    web.answers['/fpga-new.sig'] = answer


def signature_elsewhere(shop: Workshop, web: Web, other: Web) -> None:
    signature_at(shop, web, leading(f'{other.origin}/fpga-new.sig'))


def signature_cut(shop: Workshop, web: Web, other: Web) -> None:
    signature_at(shop, web, raw('HTTP/1.1 200 OK', 'Content-Length: 200', body=b'format = 1\n[[signature]]\n'))


def signature_without_an_end(shop: Workshop, web: Web, other: Web) -> None:
    signature_at(shop, web, endless)


OTHERS: dict[str, tuple[Attack, Put, tuple[str, ...]]] = {
    'a redirect of the way back': (Attack.REDIRECT, image_elsewhere('fpga-old'), ('image fpga-old', 'redirects', NO_SERVER)),
    'a redirect of a function': (Attack.REDIRECT, image_elsewhere('gzip-3'), ('image gzip-3', 'redirects', NO_SERVER)),
    'a redirect of a stepping image': (Attack.REDIRECT, step_elsewhere, ('image fpga-step', 'redirects', NO_SERVER)),
    'a redirect of a signature': (Attack.REDIRECT, signature_elsewhere, ('image fpga-new', 'redirects', NO_SERVER)),
    'a signature that is cut on its way': (
        Attack.TRUNCATED,
        signature_cut,
        ('image fpga-new', 'the connection was closed before the answer was complete'),
    ),
    'a signature without an end on its way': (
        Attack.OVERSIZED,
        signature_without_an_end,
        ('image fpga-new', 'is longer than'),
    ),
    'one bit of the way back': (Attack.BIT_FLIPPED, image_flipped('fpga-old'), ('image fpga-old', 'has sha256 ')),
    'one bit of a function': (Attack.BIT_FLIPPED, image_flipped('gzip-3'), ('image gzip-3', 'has sha256 ')),
}


@pytest.mark.parametrize('case', OTHERS)
def test_a_server_is_not_believed_about_anything_else_either(case, shop, web, other):
    """Ways back, functions, steps and signatures come from servers, too."""
    _, put, says = OTHERS[case]
    put(shop, web, other)
    assert [] == unsaid(shop.refused(4), ('node-1', *says))
    assert len(web.asked) > 0
    assert [] == other.asked


def refused(shop: Workshop, says: Iterable[str]) -> None:
    assert [] == unsaid(shop.refused(4), ('node-1', 'image fpga-new', *says))


DRIPS = {
    'drops in the first line': (Attack.BAD_SERVER, b'HTTP/1.1 200 '),
    'drops in a header': (Attack.BAD_SERVER, b'HTTP/1.1 200 OK\r\nX: '),
    'drops in the body': (Attack.BAD_SERVER, b'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n'),
}
"""What comes before a byte now and then."""


@pytest.mark.parametrize('case', DRIPS)
def test_a_server_that_drips_is_cut_off(case, shop, web):
    """A byte every now and then holds nobody for longer than image_timeout, wherever in the answer."""
    served(shop, web, dripping(web, DRIPS[case][1]))
    shop.conf['image_timeout'] = '1'
    refused(shop, ('not fetched completely within 1 s', 'image_timeout'))


FOREIGN: dict[str, tuple[Attack, bool, str, int, str]] = {
    'where none is named': (Attack.FOREIGN_SERVER, False, '127.0.0.1', 4, NO_SERVER),
    'by another name': (Attack.FOREIGN_SERVER, True, 'localhost', 4, NO_SERVER),
    'in short': (Attack.FOREIGN_SERVER, True, '127.1', 4, NO_SERVER),
    'as a number': (Attack.FOREIGN_SERVER, True, '2130706433', 4, NO_SERVER),
    'with a dot behind': (Attack.FOREIGN_SERVER, True, '127.0.0.1.', 2, 'is not a plain URL'),
    'as IPv6': (Attack.FOREIGN_SERVER, True, '[::ffff:127.0.0.1]', 4, NO_SERVER),
}
"""Class, whether the operator names the server, how the catalogue spells it, the code, and what is said."""


@pytest.mark.parametrize('case', FOREIGN)
def test_no_server_is_asked_that_the_operator_does_not_name(case, shop, web):
    """By default there are none. Other spellings of an address are other servers: nothing is looked up to tell."""
    _, allowed, spelling, code, says = FOREIGN[case]
    data = served(shop, web, lambda _: (), allowed=allowed)
    web.answers[PATH] = always(reply(data))
    shop.new['source'] = f'"http://{spelling}:{web.port}{PATH}"'
    assert [] == unsaid(shop.refused(code), (says,))
    assert [] == web.asked


CERTIFICATES: dict[str, tuple[Attack, Authority, dict[str, Any], bool, str]] = {
    # A subject is no name of a server: that stands in subjectAltName.
    'of another name': (Attack.BAD_SERVER, Authority(), {'names': ()}, True, 'mismatch'),
    'of another CA': (Attack.BAD_SERVER, Authority(), {}, False, 'self-signed certificate in certificate chain'),
    'of yesterday': (Attack.EXPIRED, Authority(), PAST, True, 'certificate has expired'),
    'of tomorrow': (Attack.EXPIRED, Authority(), FUTURE, True, 'certificate is not yet valid'),
    'of a CA that has expired': (Attack.EXPIRED, Authority(**PAST), {}, True, 'certificate has expired'),
}
"""Class, CA, its certificate of the server, whether that CA is trusted, and what is said."""


@pytest.mark.parametrize('case', CERTIFICATES)
def test_a_server_that_cannot_prove_who_it_is_is_refused(case, shop, tmp_path):
    """By TLS the certificate has to verify: by a CA that is trusted, for the very name, and now."""
    _, authority, certificate, trusted, says = CERTIFICATES[case]
    honest = {'name': '127.0.0.1', 'purpose': ExtendedKeyUsageOID.SERVER_AUTH, 'names': ('127.0.0.1',)}
    (tmp_path / 'web.pem').write_bytes(in_pem(authority.issue(**(honest | certificate)), authority))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / 'web.pem')
    web = Web(context)
    try:
        data = served(shop, web, lambda _: ())
        web.answers[PATH] = always(reply(data))
        shop.conf['image_hosts'] = f'127.0.0.1:{web.port}'
        believed = authority if trusted else Authority('Another CA')
        (shop.outside / 'ca.pem').write_bytes(believed.certificate.public_bytes(serialization.Encoding.PEM))
        shop.conf['image_ca'] = str(shop.outside / 'ca.pem')
        refused(shop, ('certificate of the server cannot be verified', says))
        assert [] == web.asked
    finally:
        web.stop()


def in_pem(leaf: Leaf, authority: Authority) -> bytes:
    """Key and certificates, for a server."""
    chain = (leaf.certificate, authority.certificate)
    return leaf.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ) + b''.join(one.public_bytes(serialization.Encoding.PEM) for one in chain)


LATER: dict[str, tuple[Attack, int, int, Make, tuple[str, ...]]] = {
    'other bytes after the plan': (
        Attack.SWAPPED,
        1,
        4,
        lambda web, other, data: always(reply(flipped(data, 5000))),
        ('has sha256 ', 'the catalogue says '),
    ),
    'other bytes after the check': (
        Attack.SWAPPED,
        2,
        4,
        lambda web, other, data: always(reply(flipped(data, 5000))),
        ('has sha256 ', 'the catalogue says '),
    ),
    'less after the check': (
        Attack.SWAPPED,
        2,
        4,
        lambda web, other, data: always(reply(data[:-1])),
        ('bytes, the catalogue says',),
    ),
    'more after the check': (Attack.SWAPPED, 2, 4, lambda web, other, data: endless, ('is longer than',)),
    'another server after the check': (
        Attack.SWAPPED,
        2,
        4,
        lambda web, other, data: leading(f'{other.origin}{PATH}'),
        ('redirects', NO_SERVER),
    ),
}
"""Class, how often the server is honest, the code, what it answers then, and what is said."""


@pytest.mark.parametrize('case', LATER)
def test_a_server_that_turns_malicious_later_is_not_believed(case, honest, web, other):
    """Honest to the plan, or to the check too, and then not: nothing of it is sent."""
    _, honest_answers, code, make, says = LATER[case]
    data = served(honest, web, lambda _: ())
    evil = make(web, other, data)
    web.answers[PATH] = lambda before: (reply(data),) if before < honest_answers else evil(before)
    other.answers[PATH] = always(reply(data))
    honest.lay()
    done = honest.apply()
    assert code == done.code, done.err
    assert 1 == len(done.errors), done.err
    assert [] == unsaid(done.errors[0], ('node-1', 'image fpga-new', *says))
    assert honest_answers + 1 == len(web.asked)
    assert [] == other.asked
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
