# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Who signed, and everybody else who would like to have signed."""

import base64
import subprocess
from dataclasses import replace
from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.x509.oid import ExtendedKeyUsageOID

from baremetal_acc.errors import DocumentError
from baremetal_acc.images.trust import signature
from baremetal_acc.images.trust.signature import Signer, Trust, Untrusted
from tests.unit.images import keys
from tests.unit.images.keys import NOW, YEAR, certificate, key
from tests.unit.planning import values as v

STATEMENT = signature.catalogue_statement(b'format = 1\n')

ROOT = key()


def trusting(*authorities: x509.Certificate, raw=()) -> Trust:
    return Trust(keys={signature.fingerprint(k.public_key()): k.public_key() for k in raw}, authorities=authorities)


def checked(trust: Trust, text: str, statement: bytes = STATEMENT, now=NOW) -> str:
    return ', '.join(trust.check(statement, text, 'catalogue.toml.sig', now))


def test_a_key_that_is_a_trust_root_signs():
    """And is named by its fingerprint."""
    own = key()
    assert f'key {signature.fingerprint(own.public_key())}' == checked(trusting(raw=[own]), Signer(key=own).file(STATEMENT))


@pytest.mark.parametrize('statement', [STATEMENT + b'\n', STATEMENT[:-1], b'format = 1\n', STATEMENT.replace(b'1\n', b'1\r\n')])
def test_a_signature_is_over_the_exact_bytes(statement):
    """One more, one less, another line end, or the same bytes for another purpose."""
    own = key()
    with pytest.raises(Untrusted, match='does not match: other content was signed'):
        checked(trusting(raw=[own]), Signer(key=own).file(STATEMENT), statement)


def test_a_flipped_bit_is_no_signature():
    """Anywhere in its value."""
    own = key()
    text = Signer(key=own).file(STATEMENT)
    value = text.split('"')[3]
    for n in (0, 31, 63):
        raw = bytearray(base64.b64decode(value))
        raw[n] ^= 1
        with pytest.raises(Untrusted, match='does not match'):
            checked(trusting(raw=[own]), text.replace(value, base64.b64encode(raw).decode()))


def test_a_key_that_is_no_trust_root_is_named_and_refused():
    """Also one that claims to be the root."""
    own, other = key(), key()
    text = Signer(key=other).file(STATEMENT)
    fingerprint = signature.fingerprint(other.public_key())
    with pytest.raises(Untrusted, match=f'is by key {fingerprint}, which is not a trust root'):
        checked(trusting(raw=[own]), text)
    with pytest.raises(Untrusted, match='does not match'):
        checked(trusting(raw=[own]), text.replace(fingerprint, signature.fingerprint(own.public_key())))


@pytest.mark.parametrize('kind', ['ed25519', 'p256', 'p384', 'rsa2048'])
@pytest.mark.parametrize('between', [0, 1, 2])
def test_a_chain_up_to_a_ca_signs(kind, between):
    """With keys of each kind, and any number of certificates in between, with or without the root among them."""
    root = certificate('Root', ROOT, ca=True)
    chain, issuer = [], ('Root', ROOT)
    for n in range(between):
        above = key(kind)
        chain.insert(0, certificate(f'CA {n}', above, issuer, ca=True, length=between - n - 1))
        issuer = (f'CA {n}', above)
    own = key(kind)
    chain.insert(0, certificate('Release', own, issuer))
    assert 'CN=Release' == checked(trusting(root), Signer(key=own, certificates=tuple(chain)).file(STATEMENT))
    assert 'CN=Release' == checked(trusting(root), Signer(key=own, certificates=(*chain, root)).file(STATEMENT))


OWN = key()
NAME_CONSTRAINTS = x509.NameConstraints([x509.DNSName('example.org')], None)


def inner(**how):
    """A CA below the root, and what it issued."""
    above = key()
    ca = certificate('CA', above, ('Root', ROOT), **({'ca': True} | how))
    return (certificate('Release', OWN, ('CA', above)), ca)


BAD_CHAINS = {
    'expired': (
        lambda: (certificate('R', OWN, ('Root', ROOT), until=NOW - timedelta(1)),),
        'the certificate is valid only from .* to',
    ),
    'not yet valid': (
        lambda: (certificate('R', OWN, ('Root', ROOT), since=NOW + timedelta(1)),),
        'the certificate is valid only from .* to',
    ),
    'for a web server': (
        lambda: (certificate('R', OWN, ('Root', ROOT), purpose=ExtendedKeyUsageOID.SERVER_AUTH),),
        'the certificate is not for code signing',
    ),
    'for anything': (
        lambda: (certificate('R', OWN, ('Root', ROOT), purpose=ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE),),
        'the certificate is not for code signing',
    ),
    'for nothing named': (
        lambda: (certificate('R', OWN, ('Root', ROOT), purpose=None),),
        'the certificate is not for code signing',
    ),
    'not for signatures': (
        lambda: (certificate('R', OWN, ('Root', ROOT), signs=False),),
        'the certificate is not for digital signatures',
    ),
    'of a CA itself': (lambda: (certificate('R', OWN, ('Root', ROOT), ca=True),), 'is a CA certificate, not that of a signer'),
    'self-signed': (lambda: (certificate('R', OWN),), 'CN=R was not issued by a trust root'),
    'issued by a namesake': (lambda: (certificate('R', OWN, ('Root', key())),), 'CN=R was not issued by a trust root'),
    'by a namesake that comes along': (
        lambda: (certificate('R', OWN, ('Root', OWN)), certificate('Root', OWN, ca=True)),
        'CN=Root was not issued by a trust root',
    ),
    'critical name constraints': (
        lambda: inner(critical=NAME_CONSTRAINTS),
        r'CN=CA has the critical extension 2.5.29.30, which is not supported',
    ),
    'issued by what is no CA': (
        lambda: inner(ca=False),
        'CN=CA may not issue certificates: it has no basicConstraints CA:TRUE',
    ),
    'by a CA that may not': (lambda: inner(signs=False), 'CN=CA may not issue certificates: it has no keyUsage keyCertSign'),
    'by a CA that has expired': (lambda: inner(until=NOW - timedelta(1)), 'CN=CA is valid only from .* to'),
    'in the wrong order': (lambda: inner()[::-1], 'CN=Release was not issued by a trust root'),
    'with a gap': (lambda: inner()[:1], 'CN=Release was not issued by a trust root'),
    'a weak RSA key': (
        lambda: (certificate('R', WEAK, ('Root', ROOT)),),
        'its RSA key has 1024 bits; at least 2048 are required',
    ),
    'an odd curve': (lambda: (certificate('R', ODD, ('Root', ROOT)),), 'its key is neither Ed25519 nor ECDSA'),
}

WEAK, ODD = key('rsa1024'), key('k1')


@pytest.mark.parametrize('name', BAD_CHAINS)
def test_a_bad_chain_proves_nothing(name):
    """The signature itself fits its key, and the reason names the certificate."""
    make, says = BAD_CHAINS[name]
    root = certificate('Root', ROOT, ca=True)
    text = Signer(key=OWN, certificates=make()).file(STATEMENT)
    with pytest.raises(Untrusted, match=says):
        checked(trusting(root), text)


def test_a_chain_longer_than_its_ca_allows_proves_nothing():
    """A CA that may sign signers only has made another CA."""
    first, second = key(), key()
    chain = (
        certificate('Release', OWN, ('Second', second)),
        certificate('Second', second, ('First', first), ca=True),
        certificate('First', first, ('Root', ROOT), ca=True, length=0),
    )
    with pytest.raises(Untrusted, match='CN=First has a path length of 0, but the chain needs 1'):
        checked(trusting(certificate('Root', ROOT, ca=True)), Signer(key=OWN, certificates=chain).file(STATEMENT))


def test_a_root_that_has_expired_vouches_for_nobody():
    """Its certificates do not outlive it."""
    root = certificate('Root', ROOT, ca=True, since=NOW - 2 * YEAR, until=NOW - timedelta(1))
    text = Signer(key=OWN, certificates=(certificate('R', OWN, ('Root', ROOT)),)).file(STATEMENT)
    with pytest.raises(Untrusted, match=r'CN=Root is valid only from .* to'):
        checked(trusting(root), text)
    renewed = certificate('Root', ROOT, ca=True)
    assert 'CN=R' == checked(trusting(root, renewed), text) == checked(trusting(renewed, root), text)


def test_an_rsa_signature_of_another_padding_is_none():
    """The kind of key decides how it signs; there is nothing to choose."""
    own = key('rsa2048')
    root, leaf = certificate('Root', ROOT, ca=True), certificate('R', own, ('Root', ROOT))
    text = Signer(key=own, certificates=(leaf,)).file(STATEMENT)
    other = own.sign(STATEMENT, padding.PKCS1v15(), hashes.SHA256())
    value = text.split('"')[3]
    with pytest.raises(Untrusted, match='does not match'):
        checked(trusting(root), text.replace(value, base64.b64encode(other).decode()))


def test_one_good_signature_among_others_is_enough():
    """So that a key can be replaced: both sign for a time."""
    own, other = key(), key()
    first = Signer(key=other).file(STATEMENT)
    both = Signer(key=own).file(STATEMENT, (first, 'x.sig'))
    assert 2 == both.count('[[signature]]')
    assert checked(trusting(raw=[own]), both) != checked(trusting(raw=[other]), both)
    again = Signer(key=own).file(STATEMENT, (both, 'x.sig'))
    assert 2 == again.count('[[signature]]')
    for n in range(20):
        again = Signer(key=own).file(STATEMENT + bytes([n]), (again, 'x.sig'))
    assert 16 == again.count('[[signature]]')
    for n in (5, 19):
        assert checked(trusting(raw=[own]), again, STATEMENT + bytes([n]))
    with pytest.raises(Untrusted, match=r'signature\[0\] is by key .*; signature\[1\] is by key'):
        checked(trusting(raw=[key()]), both)


def test_an_image_statement_says_name_size_and_digest():
    """Each of them changes it, and no catalogue can be one: its first line is no TOML."""
    image = v.image()
    statement = signature.image_statement(image)
    others = [replace(image, name='x'), replace(image, size_bytes=1), v.image(digest=replace(image.digest, value='1' * 64))]
    assert len({statement, *map(signature.image_statement, others)}) == 4
    own = key()
    with pytest.raises(Untrusted):
        checked(trusting(raw=[own]), Signer(key=own).file(statement))


@pytest.mark.parametrize(
    ('text', 'says'),
    [
        ('', 'format = 1 expected, nothing found'),
        ('format = 1\n', r'contains no \[\[signature\]\]'),
        ('format = 2\n', 'format = 1 expected, 2 found'),
        ('format = 1\nalgorithm = "none"\n[[signature]]\nvalue = "aa=="', 'algorithm: no such key'),
        ('format = 1\n[[signature]]\nvalue = "aaaa"', 'either key or certificates is required'),
        (
            f'format = 1\n[[signature]]\nkey = "sha256:{"0" * 64}"\ncertificates = ["aaaa"]\nvalue = "aaaa"',
            'either key or certificates is',
        ),
        ('format = 1\n[[signature]]\nkey = "x"\nvalue = "aaaa"', 'is not the SHA-256 of a public key'),
        (f'format = 1\n[[signature]]\nkey = "sha256:{"0" * 64}"\nvalue = "a!"', 'is not base64'),
        (f'format = 1\n[[signature]]\nkey = "sha256:{"0" * 64}"\nvalue = "aaaa"\nfor = "all"', 'for: no such key'),
        (f'format = 1\n[[signature]]\ncertificates = {["aaaa"] * 6}\nvalue = "aaaa"', 'more than 5'),
        ('format = 1\n' + f'[[signature]]\nkey = "sha256:{"0" * 64}"\nvalue = "aaaa"\n' * 17, 'more than 16 signatures'),
        ('-----BEGIN PGP SIGNATURE-----', 'not valid TOML'),
    ],
)
def test_what_is_no_file_of_signatures_is_told(text, says):
    """With its name, and what is wrong."""
    with pytest.raises(DocumentError, match=says) as caught:
        checked(trusting(raw=[OWN]), text)
    assert str(caught.value).startswith('catalogue.toml.sig')


def test_a_certificate_that_is_none_proves_nothing():
    """Any bytes may stand there."""
    with pytest.raises(Untrusted, match='a certificate that cannot be read'):
        checked(trusting(), 'format = 1\n[[signature]]\ncertificates = ["aaaa"]\nvalue = "aaaa"\n')


def test_openssl_can_sign_too(tmp_path):
    """A key in an HSM signs what the page says: one line, then the file."""
    own = key()
    keys.secret_file(tmp_path / 'key.pem', keys.private_pem(own))
    (tmp_path / 'data').write_bytes(STATEMENT)
    subprocess.run(
        ['openssl', 'pkeyutl', '-sign', '-rawin', '-inkey', 'key.pem', '-in', 'data', '-out', 'value'], cwd=tmp_path, check=True
    )
    value = base64.b64encode((tmp_path / 'value').read_bytes()).decode()
    fingerprint = signature.fingerprint(own.public_key())
    assert checked(trusting(raw=[own]), f'format = 1\n[[signature]]\nkey = "{fingerprint}"\nvalue = "{value}"\n')
