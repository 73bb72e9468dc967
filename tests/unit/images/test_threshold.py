# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How many keys have signed: every private key counts once, however many signatures it can make."""

import itertools
import random

import pytest
from cryptography.hazmat.primitives import serialization

from baremetal_acc.errors import DocumentError
from baremetal_acc.images.trust import roots, signature
from baremetal_acc.images.trust.signature import Signer, TooFewSigners, Trust, Untrusted
from baremetal_acc.images.trust.threshold import ValidSignature, independent
from tests.unit.images import keys
from tests.unit.images.keys import NOW, certificate, key

STATEMENT = signature.catalogue_statement(b'format = 1\n')

ONE, TWO, THREE = key(), key(), key()

CA = key('p256')

ROOT = certificate('Root', CA, ca=True)


def trusting(*raw, authorities=(), threshold=2) -> Trust:
    found = {signature.fingerprint(k.public_key()): k.public_key() for k in raw}
    return Trust(keys=found, authorities=authorities, threshold=threshold)


def together(*signers: Signer, statement=STATEMENT) -> str:
    """One signs, and the others add a signature each, knowing nothing but the file."""
    text = None
    for signer in signers:
        text = signer.file(statement, None if text is None else (text, 'catalogue.toml.sig'))
    assert text is not None
    return text


def checked(trust: Trust, text: str, statement: bytes = STATEMENT) -> tuple[str, ...]:
    return trust.check(statement, text, 'catalogue.toml.sig', NOW)


def named(private) -> str:
    return f'key {signature.fingerprint(private.public_key())}'


def test_signers_add_their_signatures_one_after_the_other():
    """Each with its own key alone; the newest is first."""
    text = together(Signer(key=ONE), Signer(key=TWO))
    assert (named(TWO), named(ONE)) == checked(trusting(ONE, TWO, THREE), text)
    assert checked(trusting(ONE, TWO, THREE, threshold=1), text)


def test_what_is_missing_is_told():
    """Who has signed, how many are missing, and who could sign; and why the other signatures do not count."""
    text = together(Signer(key=ONE), Signer(key=key()))
    with pytest.raises(TooFewSigners, match='which is not a trust root') as caught:
        checked(trusting(ONE, TWO, THREE, authorities=(ROOT,), threshold=3), text)
    assert ((named(ONE),), 3, (named(TWO), named(THREE), 'CA CN=Root')) == (
        caught.value.signed,
        caught.value.required,
        caught.value.absent,
    )
    assert f'1 of 3 required keys has signed ({named(ONE)}); 2 missing; ' in str(caught.value)


def test_a_key_whose_root_was_removed_counts_no_more():
    """Rotation: its old signature stays in the file, and the next signer replaces it."""
    text = together(Signer(key=ONE), Signer(key=TWO))
    with pytest.raises(TooFewSigners, match='1 of 2 required keys has signed'):
        checked(trusting(TWO, THREE), text)
    more = Signer(key=THREE).file(STATEMENT, (text, 'catalogue.toml.sig'))
    assert {named(TWO), named(THREE)} == set(checked(trusting(TWO, THREE), more))


def test_an_ecdsa_signer_who_signs_again_replaces_its_signature():
    """Each ECDSA signature differs: sixteen of one signer would push those of the others out of the file."""
    own = key('p256')
    signer = Signer(key=own, certificates=(certificate('Release', own, ('Root', CA)),))
    text = together(Signer(key=ONE), *[signer] * 20)
    assert 2 == text.count('[[signature]]')
    assert ('CN=Release', named(ONE)) == checked(trusting(ONE, authorities=(ROOT,)), text)


@pytest.mark.parametrize('kind', ['ed25519', 'p256', 'rsa2048'])
def test_a_key_with_certificates_of_two_cas_counts_once(kind):
    """Whatever its kind."""
    own = key(kind)
    other_ca = key()
    other = certificate('Other', other_ca, ca=True)
    plain = certificate('A', own, ('Root', CA))
    again = certificate('B', own, ('Other', other_ca))
    text = together(Signer(key=own, certificates=(plain,)), Signer(key=own, certificates=(again,)))
    with pytest.raises(TooFewSigners, match='1 of 2 required keys has signed'):
        checked(trusting(authorities=(ROOT, other)), text)


@pytest.mark.parametrize('threshold', [-1, 0, 17])
def test_a_threshold_that_cannot_be_is_no_threshold(threshold):
    """Zero would accept anything."""
    with pytest.raises(ValueError, match='is not between 1 and 16'):
        trusting(ONE, threshold=threshold)


def test_a_threshold_above_the_number_of_different_keys_is_refused(tmp_path):
    """A CA counts as one, as does a CA that was renewed; the same key in two files counts once."""
    renewed = certificate('Root', CA, ca=True, until=NOW + 2 * keys.YEAR)
    for name, data in (('a.pub', keys.public_pem(ONE)), ('b.pub', keys.public_pem(ONE)), ('c.pem', keys.pem(ROOT, renewed))):
        (tmp_path / name).write_bytes(data)
    assert 2 == roots.trust([tmp_path], 2).threshold
    with pytest.raises(DocumentError, match='requires 3 keys, but option trust_roots names 2 different keys'):
        roots.trust([tmp_path], 3)
    with pytest.raises(DocumentError, match='requires 2 keys, but option trust_roots names 0 different keys'):
        roots.trust([], 2)


def test_a_ca_with_a_weak_key_is_not_counted(tmp_path):
    """No certificate that it has issued is accepted, so a threshold that needs it could never be met."""
    weak = key('rsa1024')
    (tmp_path / 'a.pem').write_bytes(keys.public_pem(ONE) + keys.pem(certificate('Weak', weak, ca=True)))
    with pytest.raises(DocumentError, match='requires 2 keys, but option trust_roots names 1 different key'):
        roots.trust([tmp_path], 2)


def test_one_signature_needs_no_threshold_to_be_refused_as_before():
    """With one key required, the message has nothing about numbers."""
    with pytest.raises(Untrusted, match='which is not a trust root') as caught:
        checked(trusting(ONE, threshold=1), together(Signer(key=TWO)))
    assert not isinstance(caught.value, TooFewSigners)


def valid(*names: str) -> ValidSignature:
    return ValidSignature(keys=frozenset(names), root=names[-1], signer=' '.join(names))


@pytest.mark.parametrize(
    ('signatures', 'counted'),
    [
        ((), 0),
        ((valid('a'),), 1),
        ((valid('a'), valid('a')), 1),
        ((valid('a'), valid('b')), 2),
        ((valid('x', 'ca'), valid('y', 'ca')), 1),
        ((valid('x', 'ca'), valid('x', 'cb')), 1),
        ((valid('x', 'ca'), valid('x', 'cb'), valid('y', 'ca')), 2),
        ((valid('x', 'i', 'ca'), valid('y', 'i', 'cb')), 1),
        ((valid('x', 'ca'), valid('y', 'cb'), valid('z', 'cc'), valid('x', 'cd')), 3),
    ],
)
def test_signatures_with_a_key_in_common_count_once(signatures, counted):
    """In every order, so that a signature which is put first cannot keep others from counting."""
    for order in itertools.permutations(signatures):
        assert counted == len(independent(order))


def test_whoever_has_too_few_private_keys_never_makes_enough():
    """Drawn at random: with n private keys no more than n signatures count, whatever is signed with them."""
    draw = random.Random(7)
    for _ in range(300):
        held = draw.sample('abcdefgh', draw.randint(1, 3))
        made = []
        for n in range(16):
            chain = [f'own{n}', *draw.sample('abcdefgh', draw.randint(0, 3))]
            chain.insert(draw.randrange(len(chain) + 1), draw.choice(held))
            made.append(valid(*chain))
        assert len(independent(made)) <= len(held)


def test_sixteen_signatures_are_counted_at_once():
    """The hardest sets that a file can hold: all disjoint, all alike but one, and rings."""
    ring = [valid(f'k{n}', f'k{(n + 1) % 16}') for n in range(16)]
    assert 8 == len(independent(ring))
    pairs = [valid(a, b) for a, b in itertools.combinations('abcdef', 2)][:16]
    assert 3 == len(independent(pairs))
    assert 16 == len(independent([valid(str(n)) for n in range(16)]))


def compressed(public) -> bytes:
    """The SubjectPublicKeyInfo of a P-256 key with a compressed point. Source: RFC 5480, section 2.2."""
    point = public.public_bytes(serialization.Encoding.X962, serialization.PublicFormat.CompressedPoint)
    algorithm = bytes.fromhex('301306072a8648ce3d020106082a8648ce3d030107')
    return bytes([0x30, len(algorithm) + 3 + len(point)]) + algorithm + bytes([3, len(point) + 1, 0]) + point


def pss(public) -> bytes:
    """The SubjectPublicKeyInfo of an RSA key whose algorithm is RSASSA-PSS. Source: RFC 4055, section 1.2."""
    plain = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    old, new = bytes.fromhex('300d06092a864886f70d0101010500'), bytes.fromhex('300b06092a864886f70d01010a')
    assert 0x82 == plain[1]
    rest = plain[4:].replace(old, new, 1)
    return plain[:2] + len(rest).to_bytes(2, 'big') + rest


@pytest.mark.parametrize(('kind', 'encode'), [('p256', compressed), ('rsa2048', pss)])
def test_two_encodings_of_one_public_key_have_one_name(kind, encode):
    """So that a certificate with the other encoding is no second key."""
    public = key(kind).public_key()
    other = encode(public)
    assert other != public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    assert signature.fingerprint(public) == signature.fingerprint(serialization.load_der_public_key(other))
