# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which private keys are accepted for signing, with which certificates."""

from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from baremetal_acc.errors import DocumentError
from baremetal_acc.images.trust import signature, signing
from baremetal_acc.images.trust.signature import Trust
from tests.unit.images import keys
from tests.unit.images.keys import NOW, certificate, key

STATEMENT = signature.catalogue_statement(b'format = 1\n')

DAY = timedelta(days=1)

OWN, ROOT, WEAK = key(), key(), key('rsa1024')


def accepted(trust: Trust, text: str) -> str:
    return ', '.join(trust.check(STATEMENT, text, 'catalogue.toml.sig', NOW))


def test_a_private_key_that_others_can_read_is_not_used(tmp_path):
    """Whoever copied it signs, too."""
    for mode in (0o640, 0o604, 0o660):
        path = keys.secret_file(tmp_path / 'key', keys.private_pem(OWN), mode=mode)
        with pytest.raises(DocumentError, match=f'other users can access the file .mode {mode:04o}.*chmod 600'):
            signing.signer(path, None, None)
    assert OWN.public_key() == signing.signer(keys.secret_file(path, keys.private_pem(OWN), 0o400), None, None).key.public_key()


def test_a_passphrase_is_asked_for_and_compared(tmp_path):
    """Without it nobody signs; nothing of key or passphrase is in the message."""
    path = keys.secret_file(tmp_path / 'key', keys.private_pem(OWN, b'geheim'))
    with pytest.raises(TypeError):
        signing.signer(path, None, None)
    with pytest.raises(DocumentError, match='or the passphrase is wrong') as caught:
        signing.signer(path, None, b'falsch')
    assert 'falsch' not in str(caught.value)
    signer = signing.signer(path, None, b'geheim')
    assert accepted(
        Trust(keys={signature.fingerprint(OWN.public_key()): OWN.public_key()}, authorities=()), signer.file(STATEMENT)
    )


def test_a_signer_needs_what_others_will_accept(tmp_path):
    """Told when it is signed, not when it is refused."""
    own = key('p256')
    path = keys.secret_file(tmp_path / 'key', keys.private_pem(own))
    chain = tmp_path / 'chain.pem'
    with pytest.raises(DocumentError, match='is not an Ed25519 key: other keys need a certificate'):
        signing.signer(path, None, None)
    chain.write_bytes(keys.pem(certificate('R', OWN, ('Root', ROOT))))
    with pytest.raises(DocumentError, match='the first certificate does not belong to the key'):
        signing.signer(path, chain, None, NOW)
    chain.write_bytes(keys.pem(certificate('R', own, ('Root', ROOT), purpose=ExtendedKeyUsageOID.SERVER_AUTH)))
    with pytest.raises(
        DocumentError, match='the first certificate would not be accepted: the certificate is not for code signing'
    ):
        signing.signer(path, chain, None, NOW)
    chain.write_bytes(b'nothing')
    with pytest.raises(DocumentError, match='contains no certificate in PEM'):
        signing.signer(path, chain, None, NOW)
    chain.write_bytes(keys.pem(certificate('R', own, ('Root', ROOT))))
    made = signing.signer(path, chain, None, NOW)
    assert 'CN=R' == accepted(Trust(keys={}, authorities=(certificate('Root', ROOT, ca=True),)), made.file(STATEMENT))
    assert 'PRIVATE' not in repr(made)
    with pytest.raises(DocumentError, match='contains no private key in PEM'):
        signing.signer(keys.secret_file(tmp_path / 'other', keys.public_pem(own)), None, None)
    with pytest.raises(DocumentError, match='its RSA key has 1024 bits'):
        signing.signer(keys.secret_file(tmp_path / 'weak', keys.private_pem(WEAK)), None, None)


def test_nobody_signs_with_certificates_that_all_would_refuse(tmp_path):
    """Not valid now, or a chain that is none: told when it is signed, with the reason that the check would give."""
    path = keys.secret_file(tmp_path / 'key', keys.private_pem(OWN))
    chain = tmp_path / 'chain.pem'
    middle, by = key(), ('Middle', key())
    later, earlier = {'since': NOW + DAY}, {'until': NOW - DAY}
    names = x509.NameConstraints(permitted_subtrees=[x509.DNSName('example.org')], excluded_subtrees=None)
    leaf = certificate('R', OWN, ('Middle', middle))
    for certificates, says in (
        ((certificate('R', OWN, by, **earlier),), 'the certificate is valid only from .* to'),
        ((certificate('R', OWN, by, **later),), 'the certificate is valid only from .* to'),
        ((certificate('R', OWN, by, critical=names),), 'has the critical extension'),
        ((leaf, certificate('Middle', middle, by, ca=True, **earlier)), 'CN=Middle is valid only from .* to'),
        ((leaf, certificate('Middle', middle, by)), 'CN=Middle may not issue certificates'),
        ((leaf, certificate('Other', key(), by, ca=True)), 'CN=R was not issued by CN=Other'),
    ):
        chain.write_bytes(keys.pem(*certificates))
        with pytest.raises(DocumentError, match=f'chain.pem: signatures with this chain would not be accepted: .*{says}'):
            signing.signer(path, chain, None, NOW)
    chain.write_bytes(keys.pem(leaf, certificate('Middle', middle, by, ca=True)))
    assert 'CN=R' == signing.signer(path, chain, None, NOW).name


def test_a_file_without_a_private_key_is_not_called_one(tmp_path):
    """A certificate as --key, readable by all as certificates are: chmod would help nobody."""
    path = keys.secret_file(tmp_path / 'root.pem', keys.pem(certificate('Root', ROOT, ca=True)), mode=0o644)
    with pytest.raises(DocumentError, match=r'contains no private key in PEM \(--key names'):
        signing.signer(path, None, None)
