# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Is a catalogue refused that is not the operator's, or not his newest? Its images are honest, each to the last byte.

The operator trusts one Ed25519 key and one CA. Signatures are made by :mod:`tests.malicious.notary`, not by what checks them.
"""

import json
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.malicious.notary import CATALOGUE, DAY, Authority, Notary, by_chain, by_key, fingerprint, notarised, public, signed
from tests.malicious.workshop import Workshop, asked, flipped, pushed, reached, told, unsaid

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


UNTRUSTED = 'its signature proves nothing'

FORGED = {
    'not signed': (lambda n: n.file.unlink(), ('is not signed: there is no ',)),
    'signed, and a bit flipped since': (
        changed(lambda data: flipped(data, data.index(b'restore') + 11)),
        (UNTRUSTED, 'does not fit'),
    ),
    'signed, and a comment added since': (changed(lambda data: data + b'#'), (UNTRUSTED, 'does not fit')),
    'signed, and the line ends changed since': (
        changed(lambda data: data.replace(b'\n', b'\r\n')),
        (UNTRUSTED, 'does not fit'),
    ),
    'signed, and one line end changed since': (
        changed(lambda data: data.replace(b'\n', b'\r\n', 1)),
        (UNTRUSTED, 'does not fit'),
    ),
    'signed, and the last line end cut since': (changed(lambda data: data.rstrip(b'\n')), (UNTRUSTED, 'does not fit')),
    'signed, and a byte order mark put before it': (changed(lambda data: b'\xef\xbb\xbf' + data), (UNTRUSTED, 'does not fit')),
    'signed, and its end moved since': (
        changed(lambda data: data.replace(b'expires = 2', b'expires = 3')),
        (UNTRUSTED, 'does not fit'),
    ),
    'by nobody the operator knows': (entries(by_stranger), (UNTRUSTED, 'which is no trust root')),
    'by somebody in the name of the operator': (entries(in_the_operators_name), (UNTRUSTED, 'does not fit')),
    'by a crowd of strangers': (entries(*[by_stranger] * 16), (UNTRUSTED, 'signature[15]')),
    'of another catalogue': (of_another_catalogue, (UNTRUSTED, 'does not fit')),
    'over the bare bytes': (over(lambda n, statement: statement.removeprefix(CATALOGUE)), (UNTRUSTED, 'does not fit')),
    'over a digest of the bytes': (over(lambda n, statement: told(n.catalogue)[0].encode()), (UNTRUSTED, 'does not fit')),
    'meant for an image': (
        over(lambda n, statement: statement.replace(b'catalogue 1', b'image 1', 1)),
        (UNTRUSTED, 'does not fit'),
    ),
    'over nothing': (over(lambda n, statement: b''), (UNTRUSTED, 'does not fit')),
    'with a bit flipped': (value(lambda found: flipped(found, 40)), (UNTRUSTED, 'does not fit')),
    'of zeros': (value(lambda found: bytes(64)), (UNTRUSTED, 'does not fit')),
    'of a neutral point': (value(lambda found: b'\x01' + bytes(63)), (UNTRUSTED, 'does not fit')),
    'cut short': (value(lambda found: found[:63]), (UNTRUSTED, 'does not fit')),
    'of no length': (value(lambda found: b''), ('catalogue.toml.sig',)),
    'twice as long': (value(lambda found: found * 2), (UNTRUSTED, 'does not fit')),
    'by another CA of the same name': (by_another_ca_of_the_same_name, (UNTRUSTED, 'was issued by no trust root')),
    'by a CA that it brings along': (by_its_own_ca, (UNTRUSTED, 'was issued by no trust root')),
    'by the CA itself': (by_the_ca_itself, (UNTRUSTED, 'it is the certificate of a CA')),
    'by what a signer issued': (by_what_a_signer_issued, (UNTRUSTED, 'CN=Signer may not issue certificates')),
    'by a CA too far below': (by_a_ca_below_the_ca, (UNTRUSTED, 'allows fewer certificates below it')),
    'by a certificate of yesterday': (
        lambda n: n.by_leaf(start=-2 * DAY, end=-timedelta(seconds=1)),
        (UNTRUSTED, 'is valid from'),
    ),
    'by a certificate of tomorrow': (lambda n: n.by_leaf(start=DAY, end=2 * DAY), (UNTRUSTED, 'is valid from')),
    'by a certificate of a web server': (
        lambda n: n.by_leaf(purpose=ExtendedKeyUsageOID.SERVER_AUTH),
        (UNTRUSTED, 'is not for code signing'),
    ),
    'by a certificate for nothing in particular': (lambda n: n.by_leaf(purpose=None), (UNTRUSTED, 'is not for code signing')),
    'by a certificate that is a CA': (lambda n: n.by_leaf(ca=True), (UNTRUSTED, 'it is the certificate of a CA')),
    'by a certificate with unknown demands': (lambda n: n.by_leaf(critical=True), (UNTRUSTED, 'critical extension')),
    'by a certificate of another key': (with_a_certificate_of_another_key, (UNTRUSTED, 'does not fit')),
    'by garbage': (with_garbage_for_a_certificate, (UNTRUSTED, 'cannot be read')),
}
"""What is not the operator's: code 4."""


@pytest.mark.parametrize('case', FORGED)
def test_a_catalogue_that_is_not_the_operators_is_refused_before_any_bmc_is_asked(case, shop):
    """One line that names the catalogue and why its signature proves nothing; no BMC has seen so much as a login."""
    strike, says = FORGED[case]
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
    'an empty file': (file_of(''), ('catalogue.toml.sig', 'format')),
    'no signatures': (file_of('format = 1\n'), ('catalogue.toml.sig', 'holds no [[signature]]')),
    'a bare signature': (lambda n: n.file.write_bytes(n.key.sign(n.catalogue.read_bytes())), ('catalogue.toml.sig',)),
    'a signature in PEM': (file_of('-----BEGIN PGP SIGNATURE-----\n'), ('catalogue.toml.sig', 'no valid TOML')),
    'a signature in hexadecimal': (
        file_of(f'format = 1\n[[signature]]\nkey = "sha256:{"a" * 64}"\nvalue = "{"0g" * 64}!"\n'),
        ('catalogue.toml.sig', 'no base64'),
    ),
    'a signature by everybody': (
        file_of('format = 1\n[[signature]]\nkey = "*"\nvalue = "AAAA"\n'),
        ('catalogue.toml.sig', 'key'),
    ),
    'a signature by nobody': (file_of('format = 1\n[[signature]]\nvalue = "AAAA"\n'), ('names either key or certificates',)),
    'a signature that chooses its algorithm': (
        file_of(f'format = 1\n[[signature]]\nalg = "none"\nkey = "sha256:{"a" * 64}"\nvalue = "AAAA"\n'),
        ('alg: no such key',),
    ),
    'a thousand signatures': (entries(*[by_stranger] * 1000), ('more than 16 signatures',)),
    'megabytes of signatures': (file_of('#' * 3_000_000), ('longer than',)),
    'a pipe of signatures': (in_place_of_it(lambda n: os.mkfifo(n.file)), ('is no regular file',)),
    'endless signatures': (in_place_of_it(lambda n: n.file.symlink_to('/dev/zero')), ('is no regular file',)),
    'a link to no signatures': (in_place_of_it(lambda n: n.file.symlink_to('gone')), ('catalogue.toml.sig', 'cannot be read')),
    'a folder of signatures': (in_place_of_it(lambda n: n.file.mkdir()), ('catalogue.toml.sig', 'Is a directory')),
    # the trust roots
    'no file of trust roots': (lambda n: n.roots.unlink(), ('roots.pem', 'cannot be read')),
    'an empty file of trust roots': (roots(''), ('roots.pem', 'holds no public key and no certificate')),
    'a trust root in raw bytes': (roots(lambda n: n.key.public_key().public_bytes_raw()), ('roots.pem', 'holds no public key')),
    'a private key for a trust root': (roots(private), ('roots.pem', 'a private key')),
    'an RSA key for a trust root': (
        roots(lambda n: public(rsa.generate_private_key(public_exponent=65537, key_size=2048))),
        ('roots.pem', 'Ed25519'),
    ),
    'an ECDSA key for a trust root': (
        roots(lambda n: public(ec.generate_private_key(ec.SECP256R1()))),
        ('roots.pem', 'Ed25519'),
    ),
    'a signer for a trust root': (
        roots(lambda n: n.authority.issue().certificate.public_bytes(serialization.Encoding.PEM)),
        ('roots.pem', 'that of a CA'),
    ),
    'a trust root that others may write': (lambda n: n.roots.chmod(0o664), ('roots.pem', 'others may write it')),
    'a pipe of trust roots': (
        lambda n: (n.roots.unlink(), os.mkfifo(n.roots)),
        ('roots.pem', 'is no regular file'),
    ),
    # what every signed catalogue has
    'a signed catalogue without a serial': (
        lambda n: (n.catalogue.write_text(n.catalogue.read_text().replace('serial = 7\n', '')), n.sign()),
        ('catalogue.toml', 'has no serial'),
    ),
    'a signed catalogue without an end': (
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
    strike, says = BROKEN[case]
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


def test_an_older_catalogue_does_not_come_back(shop):
    """Rightly signed, not expired, and older: whoever kept it cannot bring back what it allowed."""
    seen(shop)
    put(shop, 6)
    refused(shop, 4, ('catalogue.toml', 'has serial 6, and serial 7 was seen before'))


def test_two_catalogues_of_one_serial_are_not_both_the_operators(shop):
    """One serial stands for one content."""
    seen(shop)
    put(shop, 7, extra='# another\n')
    refused(shop, 4, ('catalogue.toml', 'has serial 7 as another one that was seen before'))


def test_a_newer_catalogue_is_taken_and_the_older_one_is_then_refused(shop):
    """Going up is all that a serial may do."""
    seen(shop)
    put(shop, 8)
    shop.lay()
    assert 3 == shop.run('plan', *shop.options).code
    shop.machine.reset_log()
    put(shop, 7)
    refused(shop, 4, ('has serial 7, and serial 8 was seen before',))


def test_a_link_is_not_turned_back_to_an_older_catalogue(shop):
    """Releases in folders of their own, and a link to the present one: the name counts, not where it leads."""
    notary = notarised(shop)
    shop.lay()
    for serial in (6, 7):
        release = shop.path(f'release-{serial}')
        release.mkdir()
        notary.catalogue.write_text(shop.text().replace('serial = 7', f'serial = {serial}'))
        notary.sign()
        for path in (notary.catalogue, notary.file):
            path.rename(release / path.name)
        for path in shop.folder.glob('*.img'):
            (release / path.name).write_bytes(path.read_bytes())
        present = shop.path('present')
        present.unlink(missing_ok=True)
        present.symlink_to(release.name)
        done = shop.run('plan', *shop.options[:-1], 'present/catalogue.toml')
        assert 3 == done.code, done.err
    present.unlink()
    present.symlink_to('release-6')
    shop.machine.reset_log()
    done = shop.run('apply', '--execute', *shop.options[:-1], 'present/catalogue.toml')
    assert 4 == done.code, done.err
    assert 'has serial 6, and serial 7 was seen before' in done.errors[0]
    assert [] == reached(shop.machine)


@pytest.mark.parametrize('verb', ['check', 'show'])
@pytest.mark.parametrize('case', ['not signed', 'signed, and a comment added since', 'by nobody the operator knows'])
def test_the_catalogue_verbs_refuse_what_apply_refuses(case, verb, shop):
    """What is checked before is what is checked then."""
    strike, says = FORGED[case]
    notarised(shop, strike)
    shop.lay()
    done = shop.run('catalogue', verb, '--config-file', 'acc.conf', '--catalogue', 'catalogue.toml')
    assert 4 == done.code, done.err
    for text in says:
        assert text in done.errors[0]


def test_an_expired_catalogue_is_refused_though_it_is_the_operators(shop):
    """Freezing: an attacker who holds back newer catalogues wins a limited time only."""
    notarised(shop)
    shop.head[2] = 'expires = 2026-01-01T00:00:00Z'
    shop.lay()
    done = shop.apply()
    assert 4 == done.code, done.err
    assert 'catalogue.toml, which lists it, has expired at 2026-01-01 00:00:00Z' in done.errors[0]
    assert [] == reached(shop.machine)


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


@pytest.mark.parametrize(
    ('forge', 'says'),
    [
        (lambda path: path.write_text('{}'), 'it is no file of serials'),
        (lambda path: path.write_text('{"format": 1, "catalogues": {"x": {"serial": "1"}}}'), 'it is no file of serials'),
        (lambda path: path.write_text('[' * 100_000), 'it is no file of serials'),
        (lambda path: path.write_bytes(b'\xff' * 100), 'it is no file of serials'),
        (lambda path: path.write_text(''), 'it is no file of serials'),
        (lambda path: path.chmod(0o666), 'others may write it'),
        (lambda path: (path.unlink(), path.mkdir()), 'serials.json'),
        (lambda path: (path.unlink(), os.mkfifo(path)), 'serials.json'),
    ],
    ids=['empty', 'typed', 'nested', 'binary', 'nothing', 'writable', 'folder', 'pipe'],
)
def test_a_forged_memory_of_serials_is_not_believed(forge, says, shop):
    """What cannot tell an older catalogue from a newer one lets neither pass; the operator is told what to do."""
    seen(shop)
    path = shop.path('state/baremetal-acc/serials.json')
    assert 7 in [one['serial'] for one in json.loads(path.read_text())['catalogues'].values()]
    forge(path)
    done = shop.apply()
    assert done.code in (1, 2, 4), done.err
    assert 1 == len(done.errors), done.err
    assert says in done.errors[0]
    assert 'internal error' not in done.errors[0]
    assert [] == reached(shop.machine)


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
    image = n.shop.new
    statement = f'baremetal-acc image 1\nfpga-new\n{image["size"]}\n{image["digest"].strip(chr(34))}\n'.encode()
    path.write_text(f'format = 1\n{by_key(signed(evil, statement), fingerprint(evil))}')


def linked_outside(n: Notary, path: Path) -> None:
    path.rename(n.shop.outside / path.name)
    path.symlink_to(n.shop.outside / path.name)


IMAGES = {
    'of another image': (lambda n, path: path.write_bytes(n.shop.path('fpga-old.sig').read_bytes()), {}, 'does not fit'),
    'of the same bytes by another name': (None, {'name': 'fpga-old'}, 'does not fit'),
    'of another size': (None, {'size': '1'}, 'does not fit'),
    'of another digest': (None, {'digest': f'sha256:{"a" * 64}'}, 'does not fit'),
    'of a digest without its algorithm': (None, {'digest': 'a' * 64}, 'does not fit'),
    'of a catalogue': (None, {'kind': 'catalogue 1'}, 'does not fit'),
    'without the last line end': (None, {'end': ''}, 'does not fit'),
    'by a stranger': (by_a_stranger, {}, 'which is no trust root'),
    'gone': (lambda n, path: path.unlink(), {}, 'cannot be read: No such file'),
    'empty': (lambda n, path: path.write_text(''), {}, 'its signature cannot be read'),
    'no text': (lambda n, path: path.write_bytes(b'\xff' * 64), {}, 'is not UTF-8'),
    'without an end': (lambda n, path: (path.unlink(), path.symlink_to('/dev/zero')), {}, 'is outside the folders'),
    'megabytes long': (lambda n, path: path.write_text('#' * 3_000_000), {}, 'is longer than'),
    'a pipe': (lambda n, path: (path.unlink(), os.mkfifo(path)), {}, 'is no regular file'),
    'outside the folders': (linked_outside, {}, 'is outside the folders'),
}


@pytest.mark.parametrize('case', IMAGES)
def test_an_image_whose_signature_proves_nothing_is_refused_and_nothing_is_sent(case, shop):
    """Whoever can write the catalogue, and cannot sign, cannot bring in an image of his."""
    then, other, says = IMAGES[case]
    image_signed(shop, then, **other)
    image_refused(shop, says)


def test_an_image_that_names_no_signature_is_refused_where_one_is_required(shop):
    """Leaving it out is no way round it."""
    image_signed(shop)
    del shop.new['signature']
    image_refused(shop, 'has no signature of its own')


def test_a_signature_does_not_go_with_another_image_of_that_name(shop):
    """The signature is the operator's; the image is not, and the catalogue tells the truth about it."""
    image_signed(shop)
    shop.lay()
    evil = shop.new_file.read_bytes()[:-1] + b'x'
    shop.new_file.write_bytes(evil)
    shop.describe('fpga-new', evil)
    shop.after.clear()
    image_refused(shop, 'does not fit')


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


def test_there_are_at_least_twenty():
    """As many as the issue asks for."""
    assert len(FORGED) >= 20
