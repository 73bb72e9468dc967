# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Whose private key is taken, with which certificates?"""

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from baremetal_acc.catalogue import signature, signing
from baremetal_acc.catalogue.signature import Trust
from baremetal_acc.errors import DocumentError
from tests.unit.catalogue import keys
from tests.unit.catalogue.keys import NOW, certificate, key

STATEMENT = signature.catalogue_statement(b'format = 1\n')

OWN, ROOT, WEAK = key(), key(), key('rsa1024')


def accepted(trust: Trust, text: str) -> str:
    return trust.check(STATEMENT, text, 'catalogue.toml.sig', NOW)


def test_a_private_key_that_others_can_read_is_not_used(tmp_path):
    """Whoever copied it signs, too."""
    for mode in (0o640, 0o604, 0o660):
        path = keys.secret_file(tmp_path / 'key', keys.private_pem(OWN), mode=mode)
        with pytest.raises(DocumentError, match=f'others may use the file .mode {mode:04o}.*chmod 600'):
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
    with pytest.raises(DocumentError, match='is no Ed25519 key: only those sign without a certificate'):
        signing.signer(path, None, None)
    chain.write_bytes(keys.pem(certificate('R', OWN, ('Root', ROOT))))
    with pytest.raises(DocumentError, match='the first certificate is of another key'):
        signing.signer(path, chain, None)
    chain.write_bytes(keys.pem(certificate('R', own, ('Root', ROOT), purpose=ExtendedKeyUsageOID.SERVER_AUTH)))
    with pytest.raises(DocumentError, match='nobody would accept the first certificate: it is not for code signing'):
        signing.signer(path, chain, None)
    chain.write_bytes(b'nothing')
    with pytest.raises(DocumentError, match='holds no certificate in PEM'):
        signing.signer(path, chain, None)
    chain.write_bytes(keys.pem(certificate('R', own, ('Root', ROOT))))
    made = signing.signer(path, chain, None)
    assert 'CN=R' == accepted(Trust(keys={}, authorities=(certificate('Root', ROOT, ca=True),)), made.file(STATEMENT))
    assert 'PRIVATE' not in repr(made)
    with pytest.raises(DocumentError, match='holds no private key that can be read in PEM'):
        signing.signer(keys.secret_file(tmp_path / 'other', keys.public_pem(own)), None, None)
    with pytest.raises(DocumentError, match='its RSA key has 1024 bits'):
        signing.signer(keys.secret_file(tmp_path / 'weak', keys.private_pem(WEAK)), None, None)
