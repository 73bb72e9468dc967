# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Keys, and certificates in the form of earlier versions: what a trusted key signed is taken, and nothing else."""

import base64
import hashlib
import json
import re
import subprocess
import zlib
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from baremetal_acc.certificates import envelope as s
from baremetal_acc.errors import CertificateInvalid, DocumentError
from baremetal_acc.model import canonical
from baremetal_acc.model.certificate import document
from tests.unit.certificates.values import certificate, sealed_as_before, sealer, write_key

OURS, THEIRS = sealer(1), sealer(2)
CERTIFICATE = certificate()
SEALED = sealed_as_before(CERTIFICATE, OURS)
ORDER = 2**252 + 27742317777372353535851937790883648493
"""Of the group of Ed25519. Source: RFC 8032, section 5.1."""


def refused(data: bytes, trust=None) -> str:
    with pytest.raises(CertificateInvalid) as caught:
        s.opened(data, OURS.trust if trust is None else trust)
    return str(caught.value)


def edited(edit) -> bytes:
    """The signed document, changed by somebody who has no key."""
    body = json.loads(SEALED)
    changed = edit(body)
    return canonical.encode(body if changed is None else changed)


def signed_anew(edit, by=OURS, *, purpose: bytes = b'baremetal-acc hand-over certificate 1\n') -> bytes:
    """The signed document, changed and signed again: by this test, not by our code."""
    body = json.loads(SEALED)
    edit(body['certificate'])
    value = by.private.sign(purpose + canonical.encode(body['certificate']))
    body['signature'] = {'algorithm': 'Ed25519', 'key': by.name, 'value': base64.b64encode(value).decode()}
    return canonical.encode(body)


def test_what_was_sealed_is_opened():
    """With its own key among those that are trusted; a line end behind it does no harm."""
    assert CERTIFICATE == s.opened(SEALED, OURS.trust)
    assert CERTIFICATE == s.opened(SEALED + b'\n', THEIRS.trust | OURS.trust)
    assert CERTIFICATE == s.opened(signed_anew(lambda body: None), OURS.trust)


def test_the_signature_is_one_that_others_can_check(tmp_path):
    """With openssl: the line that says what for, and the canonical bytes of the certificate."""
    body = json.loads(SEALED)
    (tmp_path / 'statement').write_bytes(b'baremetal-acc hand-over certificate 1\n' + canonical.encode(body['certificate']))
    (tmp_path / 'signature').write_bytes(base64.b64decode(body['signature']['value']))
    write_key(tmp_path / 'key.pub', OURS, public=True)
    command = ['openssl', 'pkeyutl', '-verify', '-pubin', '-inkey', 'key.pub', '-rawin', '-in', 'statement']
    done = subprocess.run([*command, '-sigfile', 'signature'], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (0, 'Signature Verified Successfully') == (done.returncode, done.stdout.strip()), done.stderr


def test_the_name_of_a_key_is_the_digest_of_its_public_half():
    """SubjectPublicKeyInfo in DER."""
    der = OURS.private.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    assert f'sha256:{hashlib.sha256(der).hexdigest()}' == OURS.name == CERTIFICATE.key


def _set(path, value):
    """An edit of one place."""

    def edit(body):
        for key in path[:-1]:
            body = body[key]
        body[path[-1]] = value

    return edit


CARD = ('certificate', 'accelerators', 0)
TEXT = json.loads(SEALED)['signature']['value']
VALUE = base64.b64decode(TEXT)
LOOSE = TEXT[:-3] + chr(ord(TEXT[-3]) + 1) + '=='
"""The same 64 bytes: the last letter stands for two bits of them, and four that nobody reads."""


def _with_value(value: bytes) -> bytes:
    return edited(_set(('signature', 'value'), base64.b64encode(value).decode()))


def _more_of_the_group() -> bytes:
    """The same point, and a scalar that is the same modulo the order: another text for the same equation."""
    scalar = int.from_bytes(VALUE[32:], 'little') + ORDER
    return VALUE[:32] + scalar.to_bytes(32, 'little')


ATTACKS = {
    'another node': (edited(_set(('certificate', 'node', 'uuid'), '6f1a7c1e-0000-4000-8000-000000000002')), 'does not match'),
    'another name of the node': (edited(_set(('certificate', 'node', 'name'), 'node-2')), 'does not match'),
    'another lifecycle': (edited(_set(('certificate', 'lifecycle'), 10)), 'does not match'),
    'another deployment': (edited(_set(('certificate', 'deployment'), 'd-2')), 'does not match'),
    'another version of firmware': (edited(_set((*CARD, 'firmware', 0, 'version'), '9.9')), 'does not match'),
    'a path that was open': (edited(_set((*CARD, 'paths', 1, 'state'), 'locked-verified')), 'does not match'),
    'a waiver that was none': (
        edited(lambda body: body['certificate']['waivers'].append(document(CERTIFICATE)['node'])),
        'does not match',
    ),
    'a card less': (edited(_set(('certificate', 'accelerators'), [])), 'does not match'),
    'a letter that looks the same': (edited(_set((*CARD, 'vendor'), '\u0391MD')), 'does not match'),
    'a letter composed in another way': (edited(_set((*CARD, 'vendor'), 'e\u0301')), 'does not match'),
    'a bit of the signature': (_with_value(bytes([VALUE[0] ^ 1]) + VALUE[1:]), 'does not match'),
    'another scalar of the same signature': (_with_value(_more_of_the_group()), 'does not match'),
    'an empty signature': (_with_value(b''), 'does not match'),
    'a signature of nought': (_with_value(bytes(64)), 'does not match'),
    'half a signature': (_with_value(VALUE[:32]), 'does not match'),
    'a signature that is no base64': (edited(_set(('signature', 'value'), '!')), 'is not base64'),
    'loose bits of base64': (
        edited(_set(('signature', 'value'), LOOSE)),
        'not canonical base64',
    ),
    'no signature': (
        edited(lambda body: {'certificate': body['certificate']}),
        'neither a DSSE envelope nor an object of certificate and signature',
    ),
    'a signature that is null': (edited(_set(('signature',), None)), 'not an object of algorithm'),
    'two signatures': (edited(lambda body: body | {'signature': [body['signature']] * 2}), 'not an object of algorithm'),
    'a signature of numbers': (edited(_set(('signature', 'value'), 1)), 'is not a text'),
    'algorithm none': (edited(_set(('signature', 'algorithm'), 'none')), 'the algorithm of the signature is not Ed25519: none'),
    'an algorithm with a shared key': (
        edited(_set(('signature', 'algorithm'), 'HS256')),
        'the algorithm of the signature is not Ed25519',
    ),
    'an algorithm in other letters': (
        edited(_set(('signature', 'algorithm'), 'ed25519')),
        'the algorithm of the signature is not Ed25519',
    ),
    'a key that is not trusted': (sealed_as_before(certificate(THEIRS), THEIRS), 'which is not trusted'),
    'our name for their key': (
        edited(
            lambda b: b['signature'].update(
                json.loads(sealed_as_before(certificate(THEIRS), THEIRS))['signature'], key=OURS.name
            )
        ),
        'does not match',
    ),
    'a key beside the certificate': (edited(_set(('signature', 'certificates'), ['...'])), 'not an object of algorithm'),
    'more beside the certificate': (
        edited(_set(('comment',), 'trust me')),
        'neither a DSSE envelope nor an object of certificate and signature',
    ),
    'another purpose': (
        signed_anew(lambda body: None, purpose=b'baremetal-acc catalogue 1\n'),
        'does not match',
    ),
    'another key named inside': (signed_anew(_set(('key',), THEIRS.name)), 'the certificate names key'),
    'another format': (signed_anew(_set(('format',), 2)), 'does not have format'),
    'a field that nobody knows': (signed_anew(_set(('hint',), 'x')), 'not a certificate'),
    'a time without a zone': (signed_anew(_set(('issued',), '2026-11-21T12:01:00')), 'not a certificate'),
    'a time in another zone': (
        signed_anew(_set(('issued',), '2026-11-21T13:01:00+01:00')),
        'is not written as its issuer writes it',
    ),
    'a number in place of a text': (signed_anew(_set(('deployment',), 7)), 'not a certificate'),
    'a truth in place of a number': (signed_anew(_set(('lifecycle',), True)), 'not a certificate'),
    'the second half missing': (SEALED[: len(SEALED) // 2], 'not JSON'),
    'the last byte missing': (SEALED[:-1], 'not JSON'),
    'a byte more': (SEALED + b'}', 'not JSON'),
    'two of them': (SEALED + b'\n' + SEALED, 'not JSON'),
    'two line ends': (SEALED + b'\n\n', 'not canonical JSON'),
    'blanks between': (json.dumps(json.loads(SEALED), sort_keys=True).encode(), 'not canonical JSON'),
    'keys in another order': (
        json.dumps(dict(reversed(json.loads(SEALED).items())), separators=(',', ':'), ensure_ascii=False).encode(),
        'not canonical JSON',
    ),
    'a key twice': (SEALED.replace(b'"lifecycle":8', b'"lifecycle":8,"lifecycle":9'), 'a key twice'),
    'a whole certificate twice': (b'{"certificate":{},' + SEALED[1:], 'a key twice'),
    'a key in escapes': (SEALED.replace(b'"lifecycle"', b'"life\\u0063ycle"'), 'not canonical JSON'),
    'a huge number': (SEALED.replace(b'"lifecycle":8', b'"lifecycle":' + b'9' * 5000), 'beyond'),
    'a fraction': (SEALED.replace(b'"lifecycle":8', b'"lifecycle":8.0'), 'not whole'),
    'no number': (SEALED.replace(b'"lifecycle":8', b'"lifecycle":NaN'), 'not whole'),
    'a byte order mark': (b'\xef\xbb\xbf' + SEALED, 'not JSON'),
    'half a character': (SEALED.replace(b'"node-1"', b'"\\ud800"', 1), 'lone surrogate'),
    'no UTF-8': (SEALED.replace(b'"node-1"', b'"\xc0\xaf"', 1), 'not UTF-8'),
    'a deep one': (b'[' * 100_000, 'nested more than'),
    'a long one': (b'"' + b'a' * s.MAX_SIZE + b'"', 'longer than'),
    'an empty one': (b'', 'not JSON'),
    'a list': (b'[]', 'neither a DSSE envelope nor an object of certificate and signature'),
    'null': (b'null', 'neither a DSSE envelope nor an object of certificate and signature'),
}


@pytest.mark.parametrize(('data', 'why'), ATTACKS.values(), ids=ATTACKS)
def test_a_forged_one_is_refused(data, why):
    """Each with a reason."""
    assert data != SEALED
    found = refused(data)
    assert re.search(why, found), found


def test_a_bit_changed_anywhere_is_refused():
    """Of a sample over all of its bytes."""
    for position in range(0, len(SEALED), 37):
        for bit in (0, 5):
            changed = bytearray(SEALED)
            changed[position] ^= 1 << bit
            refused(bytes(changed))


def test_every_shorter_one_is_refused():
    """Of a sample over all of its lengths."""
    for length in range(0, len(SEALED), 41):
        refused(SEALED[:length])


def test_without_any_trust_nothing_is_taken():
    """Not even what is signed well."""
    assert 'which is not trusted' in refused(SEALED, {})


def test_what_it_says_can_be_shown_without_trust():
    """To a reader who does not rely on it."""
    assert certificate(THEIRS) == s.unchecked(sealed_as_before(certificate(THEIRS), THEIRS))
    with pytest.raises(CertificateInvalid):
        s.unchecked(SEALED[:-1])


def test_nothing_is_sealed_that_would_be_refused():
    """Another key's name, half a character, too long."""
    for wrong in (certificate(THEIRS), certificate(issuer='\ud800'), certificate(issuer='a' * s.MAX_SIZE)):
        with pytest.raises(CertificateInvalid):
            s.seal(wrong, OURS)


def test_a_text_that_a_terminal_would_obey_is_data():
    """It is signed as it is; whoever prints it makes it harmless."""
    hostile = certificate(issuer='\x1b[2J\u202eevil\x00')
    for data in (s.seal(hostile, OURS), sealed_as_before(hostile, OURS)):
        assert hostile == s.opened(data, OURS.trust)


@pytest.mark.parametrize('data', [SEALED, s.seal(CERTIFICATE, OURS), b'{"payload":{}}', b'', b'x'], ids=repr)
def test_what_is_packed_comes_back(data):
    """And nothing else does: cut, followed by something, no base64, or one that becomes larger and larger."""
    text = s.packed(data)
    prefix, body = ('dsse:', text[5:]) if text.startswith('dsse:') else ('', text)
    assert data == s.unpacked(text)
    behind = prefix + base64.b64encode(base64.b64decode(body) + b'x').decode()
    for wrong in (text[:-8], prefix + body[8:], behind, text + '!', '', s.packed(bytes(s.MAX_SIZE + 2))):
        with pytest.raises(CertificateInvalid, match='cannot be read'):
            s.unpacked(wrong)


def test_a_packed_envelope_is_not_compressed_as_base64():
    """That would take twice the space; what is packed in another way under that name is none."""
    text = s.packed(s.seal(CERTIFICATE, OURS))
    assert len(text) < 1.3 * len(s.packed(SEALED))
    for content in (b'{}', b'[]', b'{"payload": {}}', b'x', SEALED[:-1]):
        with pytest.raises(CertificateInvalid, match='cannot be read'):
            s.unpacked('dsse:' + base64.b64encode(zlib.compress(content)).decode())


# ------------------------------------------------------------------------------------------------------------------- keys


def test_a_key_of_openssl_is_read(tmp_path):
    """As the documentation makes it, and its public half."""
    for command in (
        ['openssl', 'genpkey', '-algorithm', 'ed25519', '-out', 'key.pem'],
        ['openssl', 'pkey', '-in', 'key.pem', '-pubout', '-out', 'key.pub'],
    ):
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / 'key.pem').chmod(0o600)
    found = s.load(tmp_path / 'key.pem')
    assert {found.name} == set(s.trusted([tmp_path / 'key.pub']))
    assert 'private' not in repr(found)
    sealed = s.seal(certificate(found), found)
    assert found.name == s.opened(sealed, s.trusted([tmp_path / 'key.pub'])).key


@pytest.mark.parametrize('mode', [0o640, 0o604, 0o660, 0o700, 0o644])
def test_a_key_that_others_may_use_is_none(tmp_path, mode):
    """It names mode and remedy."""
    path = write_key(tmp_path / 'key', OURS, mode=mode)
    with pytest.raises(DocumentError, match=f'mode {mode:04o}.*chmod 600'):
        s.load(path)


def _pem(key, passphrase: bytes | None = None) -> bytes:
    hidden = serialization.NoEncryption() if passphrase is None else serialization.BestAvailableEncryption(passphrase)
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, hidden)


def _public(key) -> bytes:
    return key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


RSA = rsa.generate_private_key(65537, 1024)
EC = ec.generate_private_key(ec.SECP256R1())
ED = Ed25519PrivateKey.from_private_bytes(bytes(32))


@pytest.mark.parametrize(
    ('data', 'why'),
    [
        (b'', 'no private key in PEM'),
        (b'x' * 70_000, 'longer than'),
        (_public(ED), 'no private key in PEM'),
        (_pem(RSA), 'not an Ed25519 key'),
        (_pem(EC), 'not an Ed25519 key'),
        (_pem(ED, b'secret'), 'has a passphrase'),
        (_pem(ED).replace(b'MC4C', b'AAAA'), 'no private key that can be read'),
    ],
)
def test_what_is_no_key_of_ours_is_refused(tmp_path, data, why):
    """Never with its content in the message."""
    path = tmp_path / 'key'
    path.write_bytes(data)
    path.chmod(0o600)
    with pytest.raises(DocumentError, match=why) as caught:
        s.load(path)
    assert 'BwBCIE' not in str(caught.value)


@pytest.mark.parametrize(
    ('data', 'mode', 'why'),
    [
        (b'', 0o644, 'no public key in PEM'),
        (_pem(ED), 0o600, 'contains a private key, but may contain only public keys'),
        (_public(RSA), 0o644, 'not an Ed25519 key'),
        (_public(ED), 0o666, 'other users can write it'),
        (_public(ED), 0o664, 'other users can write it'),
        (_public(ED).replace(b'MCow', b'AAAA'), 0o644, 'cannot be read'),
    ],
)
def test_what_is_no_public_key_is_no_trust(tmp_path, data, mode, why):
    """Neither is a file that others may write."""
    path = tmp_path / 'key.pub'
    path.write_bytes(data)
    path.chmod(mode)
    with pytest.raises(DocumentError, match=why):
        s.trusted([path])


def test_files_that_are_none_hold_nobody(tmp_path):
    """Missing, a folder, a pipe."""
    import os

    os.mkfifo(tmp_path / 'pipe')
    for path in (tmp_path / 'none', tmp_path, tmp_path / 'pipe'):
        for read in (s.load, lambda one: s.trusted([one])):
            with pytest.raises(DocumentError):
                read(path)


def test_several_keys_are_trusted_while_one_follows_another(tmp_path):
    """Rotation: two files, or both in one."""
    both = tmp_path / 'both.pub'
    old, new = (write_key(tmp_path / f'{n}.pub', key, public=True, mode=0o644) for n, key in ((1, OURS), (2, THEIRS)))
    both.write_bytes(old.read_bytes() + new.read_bytes())
    assert {OURS.name, THEIRS.name} == set(s.trusted([old, new])) == set(s.trusted([both]))


def test_a_replayed_one_opens_and_does_not_hold():
    """Its signature is good for ever: what it is good for is asked of what it says."""
    from baremetal_acc.certificates.validity import holds

    again = s.opened(SEALED, OURS.trust)
    assert () == holds(again, now=again.issued, node=again.node.uuid, lifecycle=8, deployment='d-1')
    assert holds(again, now=again.issued, node=again.node.uuid, lifecycle=10, deployment='d-2')
    assert holds(replace(again, deployment='d-2'), now=again.issued, deployment='d-1')
