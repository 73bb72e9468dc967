# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A catalogue that is not the operator's, or not the operator's newest, is refused. Its images are honest, to the last byte.

The operator trusts one Ed25519 key and one CA. Signatures are made by :mod:`tests.malicious.notary`, not by what checks them.
"""

import base64
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.malicious.attack import Attack
from tests.malicious.notary import CATALOGUE, DAY, Authority, Notary, by_chain, by_key, fingerprint, notarised, public, signed
from tests.malicious.workshop import Workshop, asked, flipped, pushed, told, unsaid

Strike = Callable[[Notary], object]


def key() -> ed25519.Ed25519PrivateKey:
    return ed25519.Ed25519PrivateKey.generate()


def changed(change: Callable[[bytes], bytes]) -> Strike:
    """The catalogue changed after it was signed."""
    return lambda n: n.catalogue.write_bytes(change(n.catalogue.read_bytes()))


def entries(*made: Callable[[Notary, bytes], str]) -> Strike:
    """Another file of signatures; each entry is made from the statement that is to be signed."""
    return lambda n: n.put(*(one(n, CATALOGUE + n.catalogue.read_bytes()) for one in made))


def by_stranger(n: Notary, statement: bytes) -> str:
    stranger = key()
    return by_key(signed(stranger, statement), fingerprint(stranger))


def in_the_operators_name(n: Notary, statement: bytes) -> str:
    return by_key(signed(key(), statement), fingerprint(n.key))


def over(change: Callable[[Notary, bytes], bytes]) -> Strike:
    """The operator's own key, over something else."""
    return entries(lambda n, statement: by_key(signed(n.key, change(n, statement)), fingerprint(n.key)))


def value(change: Callable[[bytes], bytes]) -> Strike:
    """The right signature, its bytes changed."""
    return entries(lambda n, statement: by_key(change(signed(n.key, statement)), fingerprint(n.key)))


def of_another_catalogue(n: Notary) -> None:
    """Rightly signed by the operator, for another catalogue of his."""
    kept = n.catalogue.read_bytes()
    n.catalogue.write_bytes(kept.replace(b'serial = 7', b'serial = 8'))
    n.sign()
    n.catalogue.write_bytes(kept)


def by_another_ca_of_the_same_name(n: Notary) -> None:
    n.authority = Authority()
    n.by_leaf()


def by_its_own_ca(n: Notary) -> None:
    """A chain that brings its root along."""
    evil = Authority('Evil CA')
    leaf = evil.issue()
    n.put(by_chain(signed(leaf.key, CATALOGUE + n.catalogue.read_bytes()), [leaf.certificate, evil.certificate]))


def by_the_ca_itself(n: Notary) -> None:
    n.put(by_chain(signed(n.authority.key, CATALOGUE + n.catalogue.read_bytes()), [n.authority.certificate]))


def by_what_a_signer_issued(n: Notary) -> None:
    """A signer of the CA plays CA for somebody else."""
    signer, evil = n.authority.issue(name='Signer'), Authority('Signer')
    evil.key = signer.key
    leaf = evil.issue(name='Evil')
    n.put(by_chain(signed(leaf.key, CATALOGUE + n.catalogue.read_bytes()), [leaf.certificate, signer.certificate]))


def by_a_ca_below_the_ca(n: Notary) -> None:
    """The root allows none below it."""
    below, evil = n.authority.issue(name='Below', ca=True), Authority('Below')
    evil.key = below.key
    leaf = evil.issue()
    n.put(by_chain(signed(leaf.key, CATALOGUE + n.catalogue.read_bytes()), [leaf.certificate, below.certificate]))


def with_a_certificate_of_another_key(n: Notary) -> None:
    """Anybody can have the certificate of an honest signer."""
    n.put(by_chain(signed(key(), CATALOGUE + n.catalogue.read_bytes()), [n.authority.issue(key=key()).certificate]))


def with_garbage_for_a_certificate(n: Notary) -> None:
    n.put('[[signature]]\ncertificates = ["MIIB"]\nvalue = "AAAA"\n')


PAST = {'start': -2 * DAY, 'end': -timedelta(seconds=1)}
"""Of a certificate that was good until a moment ago."""

FUTURE = {'start': DAY, 'end': 2 * DAY}


def by_one_below(n: Notary, **certificate: object) -> list[x509.Certificate]:
    """Sign with a certificate of a CA in between, of whatever kind. The whole chain."""
    root = Authority(path_length=1)
    n.trust(root)
    between = Authority('Below')
    between.certificate = root.issue(name='Below', ca=True, key=between.key, purpose=None, **certificate).certificate
    leaf = between.issue()
    chain = [leaf.certificate, between.certificate]
    n.put(by_chain(signed(leaf.key, CATALOGUE + n.catalogue.read_bytes()), chain))
    return chain


def of_a_root(*roots: dict[str, timedelta]) -> Strike:
    """Sign below a trust root that was good once, or will be; or below several of one key, as a CA has that was renewed."""

    def strike(n: Notary) -> None:
        authorities = [Authority(**one, key=n.authority.key) for one in roots]
        n.trust(*authorities)
        n.authority = authorities[0]
        n.by_leaf()

    return strike


def of_yesterday_beside_a_stranger(n: Notary) -> None:
    """Neither of two halves makes a whole: the one is nobody, the other is past."""
    n.by_leaf(**PAST)
    past = n.file.read_text().removeprefix('format = 1')
    n.put(by_stranger(n, CATALOGUE + n.catalogue.read_bytes()), past)


def without_the_one_in_between(n: Notary) -> None:
    chain = by_one_below(n)
    n.file.write_text(n.file.read_text().replace(f', "{encoded(chain[1])}"', ''))


def encoded(certificate: x509.Certificate) -> str:
    return base64.b64encode(certificate.public_bytes(serialization.Encoding.DER)).decode()


def certificate_bytes(change: Callable[[bytes], bytes]) -> Strike:
    """The right signer, the bytes of his certificate changed."""

    def strike(n: Notary) -> None:
        leaf = n.authority.issue()
        n.put(by_chain(signed(leaf.key, CATALOGUE + n.catalogue.read_bytes()), [leaf.certificate]))
        der = leaf.certificate.public_bytes(serialization.Encoding.DER)
        right, wrong = (base64.b64encode(data).decode() for data in (der, change(der)))
        n.file.write_text(n.file.read_text().replace(right, wrong))

    return strike


def with_a_bit_of_the_ca_flipped(n: Notary) -> None:
    """The trust root of the CA is another certificate since: its own signature, which nobody checks, is not looked at."""
    n.by_leaf()
    point = n.authority.key.public_key().public_bytes(serialization.Encoding.X962, serialization.PublicFormat.CompressedPoint)
    der = n.authority.certificate.public_bytes(serialization.Encoding.DER)
    text = base64.encodebytes(flipped(der, der.index(point[1:]) + 16)).decode()
    n.roots.write_text(f'-----BEGIN CERTIFICATE-----\n{text}-----END CERTIFICATE-----\n')


def with_a_bit_of_the_trusted_key_flipped(n: Notary) -> None:
    der = n.key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    text = base64.b64encode(flipped(der, -10)).decode()
    n.roots.write_text(f'-----BEGIN PUBLIC KEY-----\n{text}\n-----END PUBLIC KEY-----\n')


UNTRUSTED = 'its signature is not trusted'

FORGED = {
    'not signed': (Attack.FORGED_SIGNATURE, lambda n: n.file.unlink(), ('is not signed: there is no ',)),
    'signed, and a bit flipped since': (
        Attack.BIT_FLIPPED,
        changed(lambda data: flipped(data, data.index(b'restore') + 11)),
        (UNTRUSTED, 'does not match'),
    ),
    'signed, and a comment added since': (
        Attack.FORGED_SIGNATURE,
        changed(lambda data: data + b'#'),
        (UNTRUSTED, 'does not match'),
    ),
    'signed, and the line ends changed since': (
        Attack.FORGED_SIGNATURE,
        changed(lambda data: data.replace(b'\n', b'\r\n')),
        (UNTRUSTED, 'does not match'),
    ),
    'signed, and one line end changed since': (
        Attack.FORGED_SIGNATURE,
        changed(lambda data: data.replace(b'\n', b'\r\n', 1)),
        (UNTRUSTED, 'does not match'),
    ),
    'signed, and the last line end cut since': (
        Attack.TRUNCATED,
        changed(lambda data: data.rstrip(b'\n')),
        (UNTRUSTED, 'does not match'),
    ),
    'signed, and a byte order mark put before it': (
        Attack.FORGED_SIGNATURE,
        changed(lambda data: b'\xef\xbb\xbf' + data),
        (UNTRUSTED, 'does not match'),
    ),
    'signed, and its end moved since': (
        Attack.FORGED_SIGNATURE,
        changed(lambda data: data.replace(b'expires = 2', b'expires = 3')),
        (UNTRUSTED, 'does not match'),
    ),
    'by nobody the operator knows': (Attack.FORGED_SIGNATURE, entries(by_stranger), (UNTRUSTED, 'which is not a trust root')),
    'by somebody in the name of the operator': (
        Attack.FORGED_SIGNATURE,
        entries(in_the_operators_name),
        (UNTRUSTED, 'does not match'),
    ),
    'by a crowd of strangers': (Attack.FORGED_SIGNATURE, entries(*[by_stranger] * 16), (UNTRUSTED, 'signature[15]')),
    'of another catalogue': (Attack.FORGED_SIGNATURE, of_another_catalogue, (UNTRUSTED, 'does not match')),
    'over the bare bytes': (
        Attack.FORGED_SIGNATURE,
        over(lambda n, statement: statement.removeprefix(CATALOGUE)),
        (UNTRUSTED, 'does not match'),
    ),
    'over a digest of the bytes': (
        Attack.FORGED_SIGNATURE,
        over(lambda n, statement: told(n.catalogue)[0].encode()),
        (UNTRUSTED, 'does not match'),
    ),
    'meant for an image': (
        Attack.FORGED_SIGNATURE,
        over(lambda n, statement: statement.replace(b'catalogue 1', b'image 1', 1)),
        (UNTRUSTED, 'does not match'),
    ),
    'over nothing': (Attack.FORGED_SIGNATURE, over(lambda n, statement: b''), (UNTRUSTED, 'does not match')),
    'with a bit flipped': (Attack.BIT_FLIPPED, value(lambda found: flipped(found, 40)), (UNTRUSTED, 'does not match')),
    'of zeros': (Attack.FORGED_SIGNATURE, value(lambda found: bytes(64)), (UNTRUSTED, 'does not match')),
    'of a neutral point': (Attack.FORGED_SIGNATURE, value(lambda found: b'\x01' + bytes(63)), (UNTRUSTED, 'does not match')),
    'cut short': (Attack.TRUNCATED, value(lambda found: found[:63]), (UNTRUSTED, 'does not match')),
    'of no length': (Attack.FORGED_SIGNATURE, value(lambda found: b''), ('catalogue.toml.sig',)),
    'twice as long': (Attack.OVERSIZED, value(lambda found: found * 2), (UNTRUSTED, 'does not match')),
    'by another CA of the same name': (
        Attack.FORGED_SIGNATURE,
        by_another_ca_of_the_same_name,
        (UNTRUSTED, 'was not issued by a trust root'),
    ),
    'by a CA that it brings along': (Attack.FORGED_SIGNATURE, by_its_own_ca, (UNTRUSTED, 'was not issued by a trust root')),
    'by the CA itself': (Attack.FORGED_SIGNATURE, by_the_ca_itself, (UNTRUSTED, 'is a CA certificate')),
    'by what a signer issued': (
        Attack.FORGED_SIGNATURE,
        by_what_a_signer_issued,
        (UNTRUSTED, 'CN=Signer may not issue certificates'),
    ),
    'by a CA too far below': (Attack.FORGED_SIGNATURE, by_a_ca_below_the_ca, (UNTRUSTED, 'has a path length of ')),
    'by a certificate of yesterday': (
        Attack.EXPIRED,
        lambda n: n.by_leaf(**PAST),
        (UNTRUSTED, 'is valid only from'),
    ),
    'by a certificate of tomorrow': (Attack.EXPIRED, lambda n: n.by_leaf(**FUTURE), (UNTRUSTED, 'is valid only from')),
    'by a certificate of a web server': (
        Attack.FORGED_SIGNATURE,
        lambda n: n.by_leaf(purpose=ExtendedKeyUsageOID.SERVER_AUTH),
        (UNTRUSTED, 'is not for code signing'),
    ),
    'by a certificate for nothing in particular': (
        Attack.FORGED_SIGNATURE,
        lambda n: n.by_leaf(purpose=None),
        (UNTRUSTED, 'is not for code signing'),
    ),
    'by a certificate that is a CA': (
        Attack.FORGED_SIGNATURE,
        lambda n: n.by_leaf(ca=True),
        (UNTRUSTED, 'is a CA certificate'),
    ),
    'by a certificate with unknown demands': (
        Attack.FORGED_SIGNATURE,
        lambda n: n.by_leaf(critical=True),
        (UNTRUSTED, 'critical extension'),
    ),
    'by a certificate of another key': (
        Attack.FORGED_SIGNATURE,
        with_a_certificate_of_another_key,
        (UNTRUSTED, 'does not match'),
    ),
    'by garbage': (Attack.FORGED_SIGNATURE, with_garbage_for_a_certificate, (UNTRUSTED, 'cannot be read')),
    'signed, and cut behind an image since': (
        Attack.TRUNCATED,
        changed(lambda data: data[: data.rindex(b'\n[[image]]')]),
        (UNTRUSTED, 'does not match'),
    ),
    'by a CA in between that has expired': (
        Attack.EXPIRED,
        lambda n: by_one_below(n, **PAST),
        (UNTRUSTED, 'CN=Below is valid only from'),
    ),
    'by a CA in between of tomorrow': (
        Attack.EXPIRED,
        lambda n: by_one_below(n, **FUTURE),
        (UNTRUSTED, 'CN=Below is valid only from'),
    ),
    'by a CA that has expired': (Attack.EXPIRED, of_a_root(PAST), (UNTRUSTED, 'CN=Operator CA is valid only from')),
    'by a CA of tomorrow': (Attack.EXPIRED, of_a_root(FUTURE), (UNTRUSTED, 'CN=Operator CA is valid only from')),
    'by a CA between its two certificates': (
        Attack.EXPIRED,
        of_a_root(PAST, FUTURE),
        (UNTRUSTED, 'CN=Operator CA is valid only from'),
    ),
    'by a certificate of yesterday beside a stranger': (
        Attack.EXPIRED,
        of_yesterday_beside_a_stranger,
        (UNTRUSTED, 'signature[0] is by key', 'signature[1] is by CN=Signer: the certificate is valid only from'),
    ),
    'without the CA in between': (
        Attack.TRUNCATED,
        without_the_one_in_between,
        (UNTRUSTED, 'CN=Signer was not issued by a trust root'),
    ),
    'by a certificate that is cut': (
        Attack.TRUNCATED,
        certificate_bytes(lambda der: der[:-20]),
        (UNTRUSTED, 'contains a certificate that cannot be read'),
    ),
    'by a certificate with a bit of its name flipped': (
        Attack.BIT_FLIPPED,
        certificate_bytes(lambda der: flipped(der, der.index(b'Signer') + 4)),
        (UNTRUSTED, 'was not issued by a trust root'),
    ),
    'by a certificate with a bit of its signature flipped': (
        Attack.BIT_FLIPPED,
        certificate_bytes(lambda der: flipped(der, -1)),
        (UNTRUSTED, 'was not issued by a trust root'),
    ),
    'by a key with a bit of its name flipped': (
        Attack.BIT_FLIPPED,
        entries(
            lambda n, statement: by_key(
                signed(n.key, statement), f'{fingerprint(n.key)[:-1]}{int(fingerprint(n.key)[-1], 16) ^ 1:x}'
            )
        ),
        (UNTRUSTED, 'which is not a trust root'),
    ),
    'by a CA with a bit of its key flipped': (
        Attack.BIT_FLIPPED,
        with_a_bit_of_the_ca_flipped,
        ('signature', 'not issued by a trust root'),
    ),
    'by a trusted key with a bit flipped': (
        Attack.BIT_FLIPPED,
        with_a_bit_of_the_trusted_key_flipped,
        (UNTRUSTED, 'which is not a trust root'),
    ),
}
"""What is not the operator's: code 4."""


@pytest.mark.parametrize('case', FORGED)
def test_a_catalogue_that_is_not_the_operators_is_refused_before_any_bmc_is_asked(case, shop):
    """One line that names the catalogue and why its signature is not trusted; no BMC has seen so much as a login."""
    _, strike, says = FORGED[case]
    notarised(shop, strike)
    refused(shop, (2 if case == 'of no length' else 4), ('catalogue.toml', *says))


def refused(shop: Workshop, code: int, says: tuple[str, ...]) -> None:
    assert [] == unsaid(shop.refused(code), says)
    assert 0 == asked(shop.machine)


def file_of(text: str | bytes) -> Strike:
    """A file of signatures that is none."""
    return lambda n: n.file.write_bytes(text.encode() if isinstance(text, str) else text)


def in_place_of_it(put: Callable[[Notary], object]) -> Strike:
    def strike(n: Notary) -> None:
        n.file.unlink()
        put(n)

    return strike


def roots(text: str | bytes | Callable[[Notary], bytes]) -> Strike:
    """Other trust roots."""

    def strike(n: Notary) -> None:
        data = text(n) if callable(text) else text
        n.roots.write_bytes(data.encode() if isinstance(data, str) else data)

    return strike


def private(n: Notary) -> bytes:
    return n.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


BROKEN = {
    # the file of signatures
    'an empty file': (Attack.TRUNCATED, file_of(''), ('catalogue.toml.sig', 'format')),
    'no signatures': (Attack.FORGED_SIGNATURE, file_of('format = 1\n'), ('catalogue.toml.sig', 'contains no [[signature]]')),
    'a bare signature': (
        Attack.FORGED_SIGNATURE,
        lambda n: n.file.write_bytes(n.key.sign(n.catalogue.read_bytes())),
        ('catalogue.toml.sig',),
    ),
    'a signature in PEM': (
        Attack.FORGED_SIGNATURE,
        file_of('-----BEGIN PGP SIGNATURE-----\n'),
        ('catalogue.toml.sig', 'not valid TOML'),
    ),
    'a signature in hexadecimal': (
        Attack.FORGED_SIGNATURE,
        file_of(f'format = 1\n[[signature]]\nkey = "sha256:{"a" * 64}"\nvalue = "{"0g" * 64}!"\n'),
        ('catalogue.toml.sig', 'is not base64'),
    ),
    'a signature by everybody': (
        Attack.FORGED_SIGNATURE,
        file_of('format = 1\n[[signature]]\nkey = "*"\nvalue = "AAAA"\n'),
        ('catalogue.toml.sig', 'key'),
    ),
    'a signature by nobody': (
        Attack.FORGED_SIGNATURE,
        file_of('format = 1\n[[signature]]\nvalue = "AAAA"\n'),
        ('either key or certificates is required',),
    ),
    'a signature that chooses its algorithm': (
        Attack.FORGED_SIGNATURE,
        file_of(f'format = 1\n[[signature]]\nalg = "none"\nkey = "sha256:{"a" * 64}"\nvalue = "AAAA"\n'),
        ('alg: no such key',),
    ),
    'a thousand signatures': (Attack.OVERSIZED, entries(*[by_stranger] * 1000), ('more than 16 signatures',)),
    'megabytes of signatures': (Attack.OVERSIZED, file_of('#' * 3_000_000), ('longer than',)),
    'a pipe of signatures': (Attack.NO_FILE, in_place_of_it(lambda n: os.mkfifo(n.file)), ('is not a regular file',)),
    'endless signatures': (
        Attack.NO_FILE,
        in_place_of_it(lambda n: n.file.symlink_to('/dev/zero')),
        ('is not a regular file',),
    ),
    'a link to no signatures': (
        Attack.NO_FILE,
        in_place_of_it(lambda n: n.file.symlink_to('gone')),
        ('catalogue.toml.sig', 'cannot be read'),
    ),
    'a folder of signatures': (
        Attack.NO_FILE,
        in_place_of_it(lambda n: n.file.mkdir()),
        ('catalogue.toml.sig', 'Is a directory'),
    ),
    'a file of signatures that is cut': (
        Attack.TRUNCATED,
        lambda n: n.file.write_text(n.file.read_text()[:-20]),
        ('catalogue.toml.sig', 'not valid TOML'),
    ),
    'a file of signatures cut behind its format': (
        Attack.TRUNCATED,
        lambda n: n.file.write_text('format = 1\n[[signature]]'),
        ('catalogue.toml.sig', 'value is missing'),
    ),
    'a tebibyte of signatures': (Attack.OVERSIZED, lambda n: os.truncate(n.file, 1 << 40), ('longer than',)),
    # the trust roots
    'no file of trust roots': (Attack.NO_FILE, lambda n: n.roots.unlink(), ('roots.pem', 'cannot be read')),
    'an empty file of trust roots': (
        Attack.TRUNCATED,
        roots(''),
        ('roots.pem', 'contains neither a public key nor a certificate'),
    ),
    'a trust root in raw bytes': (
        Attack.MALFORMED,
        roots(lambda n: n.key.public_key().public_bytes_raw()),
        ('roots.pem', 'contains neither a public key'),
    ),
    'a trust root that is cut': (
        Attack.TRUNCATED,
        lambda n: os.truncate(n.roots, 60),
        ('roots.pem', 'contains neither a public key nor a certificate'),
    ),
    'megabytes of trust roots': (
        Attack.OVERSIZED,
        lambda n: n.roots.write_bytes(n.roots.read_bytes() + b'#' * 3_000_000),
        ('roots.pem', 'longer than'),
    ),
    'a private key for a trust root': (Attack.MALFORMED, roots(private), ('roots.pem', 'a private key')),
    'an RSA key for a trust root': (
        Attack.MALFORMED,
        roots(lambda n: public(rsa.generate_private_key(public_exponent=65537, key_size=2048))),
        ('roots.pem', 'Ed25519'),
    ),
    'an ECDSA key for a trust root': (
        Attack.MALFORMED,
        roots(lambda n: public(ec.generate_private_key(ec.SECP256R1()))),
        ('roots.pem', 'Ed25519'),
    ),
    'a signer for a trust root': (
        Attack.MALFORMED,
        roots(lambda n: n.authority.issue().certificate.public_bytes(serialization.Encoding.PEM)),
        ('roots.pem', 'that of a CA'),
    ),
    'a trust root that others may write': (
        Attack.MALFORMED,
        lambda n: n.roots.chmod(0o664),
        ('roots.pem', 'other users can write it'),
    ),
    'a pipe of trust roots': (
        Attack.NO_FILE,
        lambda n: (n.roots.unlink(), os.mkfifo(n.roots)),
        ('roots.pem', 'is not a regular file'),
    ),
    # what every signed catalogue has
    'a signed catalogue without a serial': (
        Attack.MALFORMED,
        lambda n: (n.catalogue.write_text(n.catalogue.read_text().replace('serial = 7\n', '')), n.sign()),
        ('catalogue.toml', 'has no serial'),
    ),
    'a signed catalogue without an end': (
        Attack.MALFORMED,
        lambda n: (
            n.catalogue.write_text(
                '\n'.join(line for line in n.catalogue.read_text().splitlines() if not line.startswith('expires'))
            ),
            n.sign(),
        ),
        ('catalogue.toml', 'has no expires'),
    ),
}
"""What can never prove anything: code 2, by file."""


@pytest.mark.parametrize('case', BROKEN)
def test_signatures_and_trust_roots_that_cannot_be_right_are_refused_before_any_bmc_is_asked(case, shop):
    """One line that names the file and what is wrong with it; never is the catalogue believed for want of something."""
    _, strike, says = BROKEN[case]
    notarised(shop, strike)
    refused(shop, 2, says)


# -- older ones ------------------------------------------------------------------------------------------------------------


def seen(shop: Workshop) -> Notary:
    """The operator's catalogue of serial 7 was used once: by a plan, that writes nothing."""
    notary = notarised(shop)
    shop.lay()
    assert 3 == shop.run('plan', *shop.options).code
    shop.machine.reset_log()
    return notary


def put(shop: Workshop, serial: int, *, sign: bool = True, extra: str = '') -> None:
    shop.tail = extra
    shop.head[1] = f'serial = {serial}'
    if not sign:
        shop.after.clear()


def an_older_one(shop: Workshop) -> None:
    """Rightly signed, not expired, and older: whoever kept it cannot bring back what it allowed."""
    seen(shop)
    put(shop, 6)


def another_of_the_same_serial(shop: Workshop) -> None:
    """One serial stands for one content."""
    seen(shop)
    put(shop, 7, extra='# another\n')


def the_last_but_one(shop: Workshop) -> None:
    """Going up is all that a serial may do."""
    seen(shop)
    put(shop, 8)
    shop.lay()
    assert 3 == shop.run('plan', *shop.options).code
    put(shop, 7)


def an_older_one_by_another_spelling_of_its_path(shop: Workshop) -> None:
    """The memory knows files, not spellings."""
    seen(shop)
    put(shop, 6)
    shop.catalogue = './state/../catalogue.toml'


def an_older_one_by_its_whole_path(shop: Workshop) -> None:
    seen(shop)
    put(shop, 6)
    shop.catalogue = str(shop.path('catalogue.toml'))


def an_older_one_by_a_certificate(shop: Workshop) -> None:
    """Another signer of the operator's is no way round: the catalogue is remembered, not who signed it."""
    notary = seen(shop)
    put(shop, 6)
    shop.after.append(notary.by_leaf)


def a_link_turned_back(shop: Workshop) -> None:
    """Releases in folders of their own, and a link to the present one: the name counts, not where it leads."""
    notary = notarised(shop)
    shop.lay()
    present = shop.path('present')
    shop.catalogue = 'present/catalogue.toml'
    for serial in (6, 7):
        release = shop.path(f'release-{serial}')
        release.mkdir()
        notary.catalogue.write_text(shop.text().replace('serial = 7', f'serial = {serial}'))
        notary.sign()
        for path in (notary.catalogue, notary.file):
            path.rename(release / path.name)
        for path in shop.folder.glob('*.img'):
            (release / path.name).write_bytes(path.read_bytes())
        present.unlink(missing_ok=True)
        present.symlink_to(release.name)
        done = shop.run('plan', *shop.options)
        assert 3 == done.code, done.err
    present.unlink()
    present.symlink_to('release-6')


def nobodys(shop: Workshop, notary: Notary) -> None:
    """It is not signed, and does not have to be."""
    put(shop, 6, sign=False)
    shop.conf['catalogue_signature'] = 'optional'
    notary.file.unlink()


def an_older_one_of_nobody(shop: Workshop) -> None:
    """Where signatures are optional, leaving it out is no way back to an older one."""
    nobodys(shop, seen(shop))


def one_of_nobody_that_counts_no_more(shop: Workshop) -> None:
    nobodys(shop, seen(shop))
    del shop.head[1]


def with_its_memory(forge: Callable[[Path], object]) -> Callable[[Workshop], None]:
    """An older one, and what was seen is forged."""

    def act(shop: Workshop) -> None:
        seen(shop)
        path = shop.path('state/baremetal-acc/serials.sqlite')
        with closing(sqlite3.connect(path)) as db:
            assert [(7,)] == db.execute('SELECT serial FROM serial WHERE signed').fetchall()
        put(shop, 6)
        shop.after.append(lambda: forge(path))

    return act


NO_SERIALS = 'serials.sqlite: cannot be used: file is not a database'

OLDER = {
    'an older one': (Attack.DOWNGRADE, an_older_one, 4, 'has serial 6, but was seen before with serial 7'),
    'another of the same serial': (
        Attack.DOWNGRADE,
        another_of_the_same_serial,
        4,
        'has serial 7, which it had before with other content',
    ),
    'the last but one': (Attack.DOWNGRADE, the_last_but_one, 4, 'has serial 7, but was seen before with serial 8'),
    'an older one by another spelling of its path': (
        Attack.DOWNGRADE,
        an_older_one_by_another_spelling_of_its_path,
        4,
        'has serial 6, but was seen before with serial 7',
    ),
    'an older one by its whole path': (
        Attack.DOWNGRADE,
        an_older_one_by_its_whole_path,
        4,
        'has serial 6, but was seen before with serial 7',
    ),
    'an older one by a certificate': (
        Attack.DOWNGRADE,
        an_older_one_by_a_certificate,
        4,
        'has serial 6, but was seen before with serial 7',
    ),
    'a link turned back': (Attack.DOWNGRADE, a_link_turned_back, 4, 'has serial 6, but was seen before with serial 7'),
    'an older one of nobody': (Attack.DOWNGRADE, an_older_one_of_nobody, 4, 'has serial 6, but was seen before with serial 7'),
    'one of nobody that counts no more': (
        Attack.DOWNGRADE,
        one_of_nobody_that_counts_no_more,
        4,
        'has no serial, but was seen before with serial 7',
    ),
    # and what was seen is forged
    'a memory of nothing': (Attack.DOWNGRADE, with_its_memory(lambda path: path.write_text('{}')), 2, NO_SERIALS),
    'a memory of texts': (
        Attack.DOWNGRADE,
        with_its_memory(lambda path: path.write_text('{"format": 1, "catalogues": {"x": {"serial": "1"}}}')),
        2,
        NO_SERIALS,
    ),
    'a memory nested without an end': (
        Attack.DOWNGRADE,
        with_its_memory(lambda path: path.write_text('[' * 100_000)),
        2,
        NO_SERIALS,
    ),
    'a memory that is no text': (
        Attack.DOWNGRADE,
        with_its_memory(lambda path: path.write_bytes(b'\xff' * 100)),
        2,
        NO_SERIALS,
    ),
    'an empty memory': (Attack.DOWNGRADE, with_its_memory(lambda path: path.write_text('')), 2, 'it is empty'),
    'a memory made too long to read': (
        Attack.DOWNGRADE,
        with_its_memory(lambda path: os.truncate(path, 1 << 40)),
        4,
        'has serial 6, but was seen before with serial 7',
    ),
    'a memory that others may write': (
        Attack.DOWNGRADE,
        with_its_memory(lambda path: path.chmod(0o666)),
        2,
        'other users may write it',
    ),
    'a memory where others may write': (
        Attack.DOWNGRADE,
        with_its_memory(lambda path: (path.unlink(), path.parent.chmod(0o777))),
        2,
        'other users may write there',
    ),
    'a folder for a memory': (
        Attack.DOWNGRADE,
        with_its_memory(lambda path: (path.unlink(), path.mkdir())),
        2,
        'serials.sqlite: is not a regular file',
    ),
    'a pipe for a memory': (
        Attack.DOWNGRADE,
        with_its_memory(lambda path: (path.unlink(), os.mkfifo(path))),
        2,
        'serials.sqlite: is not a regular file',
    ),
}
"""The operator's own, and not his newest."""


@pytest.mark.parametrize('case', OLDER)
def test_an_older_catalogue_does_not_come_back(case, shop):
    """Code 4, or another where nobody can tell any more which is older; one line with the reason; no BMC is asked anything."""
    _, act, code, says = OLDER[case]
    act(shop)
    shop.machine.reset_log()
    error = shop.refused(code)
    assert [] == unsaid(error, (says,))
    assert 'internal error' not in error
    assert 0 == asked(shop.machine)


@pytest.mark.parametrize('verb', ['check', 'show'])
@pytest.mark.parametrize('case', ['not signed', 'signed, and a comment added since', 'by nobody the operator knows'])
def test_the_catalogue_verbs_refuse_what_apply_refuses(case, verb, shop):
    """What is checked before is what is checked then."""
    _, strike, says = FORGED[case]
    notarised(shop, strike)
    shop.lay()
    done = shop.run('catalogue', verb, '--config-file', 'acc.conf', '--catalogue', 'catalogue.toml')
    assert 4 == done.code, done.err
    for text in says:
        assert text in done.errors[0]


def test_a_serial_that_nobody_signed_does_not_lock_out_the_operator(shop):
    """Where signatures are optional, whoever writes the file once must not end the operator's own for ever."""
    notarised(shop, sign=False)
    shop.conf['catalogue_signature'] = 'optional'
    put(shop, 2**53)
    shop.lay()
    assert 3 == shop.run('plan', *shop.options).code
    notary = Notary(shop=shop)
    notary.roots.write_bytes(public(notary.key))
    shop.after.append(notary.sign)
    put(shop, 7)
    shop.lay()
    done = shop.run('plan', *shop.options)
    assert 3 == done.code, done.err


# -- signatures of images --------------------------------------------------------------------------------------------------


def image_signed(shop: Workshop, then: Callable[[Notary, Path], object] | None = None, **other: object) -> Notary:
    """Every image needs a signature of its own, and has one; nobody signs the catalogue.

    :param other: what is said of the image that is to be written, in place of the truth.
    """
    notary = notarised(shop, sign=False)
    shop.conf |= {'catalogue_signature': 'optional', 'image_signature': 'required'}

    def sign() -> None:
        for name, image in shop.images.items():
            truth = {'kind': 'image 1', 'name': name, 'size': image['size'], 'digest': image['digest'].strip('"'), 'end': '\n'}
            truth |= other if name == 'fpga-new' else {}
            statement = 'baremetal-acc {kind}\n{name}\n{size}\n{digest}{end}'.format(**truth).encode()
            entry = by_key(signed(notary.key, statement), fingerprint(notary.key))
            shop.path(f'{name}.sig').write_text(f'format = 1\n{entry}')
        if then is not None:
            then(notary, shop.path('fpga-new.sig'))

    for name, image in shop.images.items():
        image['signature'] = f'"{name}.sig"'
    shop.after.append(sign)
    return notary


def by_a_stranger(n: Notary, path: Path) -> None:
    evil = key()
    path.write_text(f'format = 1\n{by_key(signed(evil, statement(n)), fingerprint(evil))}')


def linked_outside(n: Notary, path: Path) -> None:
    path.rename(n.shop.outside / path.name)
    path.symlink_to(n.shop.outside / path.name)


def statement(n: Notary, name: str = 'fpga-new') -> bytes:
    """What is to be signed for an image."""
    image = n.shop.images[name]
    return f'baremetal-acc image 1\n{name}\n{image["size"]}\n{image["digest"].strip(chr(34))}\n'.encode()


def by_certificate(**certificate: object) -> Callable[[Notary, Path], None]:
    """The image signed by a certificate of the CA, of whatever kind."""

    def then(n: Notary, path: Path) -> None:
        leaf = n.authority.issue(**certificate)
        path.write_text(f'format = 1\n{by_chain(signed(leaf.key, statement(n)), [leaf.certificate])}')

    return then


def by_a_ca_that_has_expired(n: Notary, path: Path) -> None:
    n.authority = Authority(**PAST)
    n.trust(n.authority)
    by_certificate()(n, path)


def with_a_bit_flipped(n: Notary, path: Path) -> None:
    path.write_text(f'format = 1\n{by_key(flipped(signed(n.key, statement(n)), 40), fingerprint(n.key))}')


def named_by(source: str) -> Callable[[Notary, Path], None]:
    """The catalogue names another file for the signature, where the right one lies."""

    def then(n: Notary, path: Path) -> None:
        path.rename(n.shop.outside / path.name)
        text = n.catalogue.read_text()
        n.catalogue.write_text(text.replace('"fpga-new.sig"', f'"{source.format(outside=n.shop.outside)}"'))

    return then


def named_no_more(n: Notary, _: Path) -> None:
    """Leaving it out is no way round it."""
    n.catalogue.write_text(n.catalogue.read_text().replace('signature = "fpga-new.sig"\n', ''))


def of_what_it_was_before(n: Notary, _: Path) -> None:
    """The signature is the operator's; the image is not, and the catalogue tells the truth about it."""
    honest = told(n.shop.new_file)[0]
    n.shop.new_file.write_bytes(n.shop.new_file.read_bytes()[:-1] + b'x')
    n.catalogue.write_text(n.catalogue.read_text().replace(honest, told(n.shop.new_file)[0]))


IMAGES = {
    'of another image': (
        Attack.FORGED_SIGNATURE,
        lambda n, path: path.write_bytes(n.shop.path('fpga-old.sig').read_bytes()),
        {},
        'does not match',
    ),
    'of the same bytes by another name': (Attack.FORGED_SIGNATURE, None, {'name': 'fpga-old'}, 'does not match'),
    'of another size': (Attack.FORGED_SIGNATURE, None, {'size': '1'}, 'does not match'),
    'of another digest': (Attack.FORGED_SIGNATURE, None, {'digest': f'sha256:{"a" * 64}'}, 'does not match'),
    'of a digest without its algorithm': (Attack.FORGED_SIGNATURE, None, {'digest': 'a' * 64}, 'does not match'),
    'of a catalogue': (Attack.FORGED_SIGNATURE, None, {'kind': 'catalogue 1'}, 'does not match'),
    'without the last line end': (Attack.FORGED_SIGNATURE, None, {'end': ''}, 'does not match'),
    'by a stranger': (Attack.FORGED_SIGNATURE, by_a_stranger, {}, 'which is not a trust root'),
    'named no more': (Attack.FORGED_SIGNATURE, named_no_more, {}, 'has no signature of its own'),
    'of what it was before': (Attack.FORGED_SIGNATURE, of_what_it_was_before, {}, 'does not match'),
    'gone': (Attack.NO_FILE, lambda n, path: path.unlink(), {}, 'cannot be read: No such file'),
    'nothing in it': (Attack.TRUNCATED, lambda n, path: path.write_text(''), {}, 'its signature cannot be read'),
    'no text': (Attack.FORGED_SIGNATURE, lambda n, path: path.write_bytes(b'\xff' * 64), {}, 'is not UTF-8'),
    'without an end': (
        Attack.PATH_TRAVERSAL,
        lambda n, path: (path.unlink(), path.symlink_to('/dev/zero')),
        {},
        'is outside the folders',
    ),
    'megabytes long': (Attack.OVERSIZED, lambda n, path: path.write_text('#' * 3_000_000), {}, 'is longer than'),
    'a pipe': (Attack.NO_FILE, lambda n, path: (path.unlink(), os.mkfifo(path)), {}, 'is not a regular file'),
    'outside the folders': (Attack.PATH_TRAVERSAL, linked_outside, {}, 'is outside the folders'),
    'by an absolute path': (Attack.PATH_TRAVERSAL, named_by('{outside}/fpga-new.sig'), {}, 'is outside the folders'),
    'by a path that climbs out': (Attack.PATH_TRAVERSAL, named_by('../outside/fpga-new.sig'), {}, 'is outside the folders'),
    'by a signer of yesterday': (Attack.EXPIRED, by_certificate(**PAST), {}, 'the certificate is valid only from'),
    'by a signer of tomorrow': (Attack.EXPIRED, by_certificate(**FUTURE), {}, 'the certificate is valid only from'),
    'by a signer of a CA that has expired': (Attack.EXPIRED, by_a_ca_that_has_expired, {}, 'CN=Operator CA is valid only from'),
    'with one bit of it flipped': (Attack.BIT_FLIPPED, with_a_bit_flipped, {}, 'does not match'),
    'cut': (Attack.TRUNCATED, lambda n, path: os.truncate(path, 60), {}, 'its signature cannot be read'),
}


@pytest.mark.parametrize('case', IMAGES)
def test_an_image_whose_signature_proves_nothing_is_refused_and_nothing_is_sent(case, shop):
    """Whoever can write the catalogue, and cannot sign, cannot bring in an image of his."""
    _, then, other, says = IMAGES[case]
    image_signed(shop, then, **other)
    image_refused(shop, says)


def image_refused(shop: Workshop, says: str) -> None:
    assert [] == unsaid(shop.refused(4), ('image fpga-new', says))


def test_signed_images_are_written_byte_for_byte(honest):
    """Else the tests above could not fail."""
    image_signed(honest)
    honest.lay()
    done = honest.apply()
    assert 0 == done.code, done.err
    assert sorted((told(honest.new_file), told(honest.path('gzip-3.img')))) == sorted(pushed(honest.machine))


# -- and the honest ones ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    'sign',
    [
        lambda n: n.sign(),
        lambda n: n.by_leaf(),
        lambda n: n.by_leaf(key=key()),
        entries(by_stranger, lambda n, statement: by_key(signed(n.key, statement), fingerprint(n.key))),
    ],
    ids=['key', 'certificate', 'certificate of an Ed25519 key', 'one of two'],
)
def test_a_catalogue_that_is_the_operators_is_written_byte_for_byte(sign, honest):
    """By the trusted key, or by a certificate of the trusted CA: the BMC gets exactly the images."""
    notarised(honest, sign, sign=False)
    honest.lay()
    done = honest.apply()
    assert 0 == done.code, done.err
    assert sorted((told(honest.new_file), told(honest.path('gzip-3.img')))) == sorted(pushed(honest.machine))
