# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A certificate that a revocation list of its issuer names is refused; a list that may be incomplete or out of date is none."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from baremetal_acc.errors import DocumentError
from baremetal_acc.images.trust import revocation
from baremetal_acc.images.trust.keys import Untrusted
from tests.unit.images import spdm_device as made

NOW = made.NOW
ROOT = made.certificate('root', made.ROOT_KEY, 'root', made.ROOT_KEY, ca=True, signs_lists=True)
BETWEEN = made.certificate('between', made.BETWEEN_KEY, 'root', made.ROOT_KEY, ca=True, signs_lists=True)
LEAF = made.leaf()
CHAIN = (LEAF, BETWEEN, ROOT)


def crl(
    *revoked: x509.Certificate,
    issuer: str = 'between',
    key: Any = made.BETWEEN_KEY,
    days: tuple[float, float | None] = (-1, 1),
    digest: hashes.HashAlgorithm | None = None,
    extensions: tuple[x509.ExtensionType, ...] = (),
    critical: bool = True,
) -> bytes:
    """A list in DER."""
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, issuer)])
    built = x509.CertificateRevocationListBuilder().issuer_name(name).last_update(NOW + timedelta(days=days[0]))
    built = built.next_update(NOW + timedelta(days=days[1]))
    for certificate in revoked:
        entry = x509.RevokedCertificateBuilder().serial_number(certificate.serial_number).revocation_date(NOW).build()
        built = built.add_revoked_certificate(entry)
    for one in extensions:
        built = built.add_extension(one, critical=critical)
    return built.sign(key, digest or hashes.SHA384()).public_bytes(serialization.Encoding.DER)


def loaded(folder: Path, data: bytes) -> revocation.RevocationList:
    path = folder / f'{len(list(folder.iterdir()))}.crl'
    path.write_bytes(data)
    return revocation.load(str(path), NOW)


def pem(data: bytes) -> bytes:
    return x509.load_der_x509_crl(data).public_bytes(serialization.Encoding.PEM)


@pytest.mark.parametrize('form', [bytes, pem])
def test_a_revoked_certificate_is_refused_wherever_in_the_chain_it_is(tmp_path, form):
    """By the list of its own issuer, in either form; the root is the operator's own choice."""
    by_between = loaded(tmp_path, form(crl(LEAF)))
    with pytest.raises(Untrusted, match=r'CN=device was revoked on 2026-11-22 \(.*0\.crl\)'):
        revocation.check(CHAIN, [by_between])
    by_root = loaded(tmp_path, form(crl(BETWEEN, issuer='root', key=made.ROOT_KEY)))
    with pytest.raises(Untrusted, match='CN=between was revoked on 2026-11-22'):
        revocation.check(CHAIN, [loaded(tmp_path, form(crl())), by_root])


def test_what_no_list_was_for_is_told(tmp_path):
    """A list of other certificates counts; one of another issuer, or that another key has signed, does not."""
    other, renamed = made.leaf(), crl(LEAF, issuer='root', key=made.BETWEEN_KEY)
    of_between, of_another = loaded(tmp_path, crl(other)), loaded(tmp_path, crl(LEAF, issuer='another'))
    forged, of_root = loaded(tmp_path, crl(LEAF, key=made.ROOT_KEY)), loaded(tmp_path, crl(issuer='root', key=made.ROOT_KEY))
    misnamed = loaded(tmp_path, renamed)
    for lists, used, unchecked in (
        ((), (), ('CN=device', 'CN=between')),
        ((of_between,), (of_between,), ('CN=between',)),
        ((of_between, of_root), (of_between, of_root), ()),
        ((forged, of_another, misnamed), (), ('CN=device', 'CN=between')),
    ):
        found = revocation.check(CHAIN, lists)
        assert (frozenset(one.path for one in used), unchecked) == (found.used, found.unchecked)


def test_a_certificate_that_may_not_sign_lists_signs_none(tmp_path):
    """It has the key usage of a CA, and no cRLSign."""
    with pytest.raises(Untrusted, match=r'CN=between may not sign .*: it has no keyUsage cRLSign'):
        revocation.check((LEAF, made.BETWEEN, ROOT), [loaded(tmp_path, crl())])


@pytest.mark.parametrize(
    ('data', 'says'),
    [
        (crl(days=(-3, -1)), 'is a revocation list that is valid only from 2026-11-19 12:00Z to 2026-11-21 12:00Z'),
        (crl(days=(1, 3)), 'is a revocation list that is valid only from'),
        (crl(extensions=(x509.DeltaCRLIndicator(1),)), 'with the extension 2.5.29.27, which is not supported'),
        (crl(extensions=(x509.DeltaCRLIndicator(1),), critical=False), 'with the extension 2.5.29.27'),
        (
            crl(
                extensions=(
                    x509.IssuingDistributionPoint(
                        full_name=None,
                        relative_name=None,
                        only_contains_user_certs=False,
                        only_contains_ca_certs=False,
                        only_some_reasons=None,
                        indirect_crl=True,
                        only_contains_attribute_certs=False,
                    ),
                )
            ),
            'with the extension 2.5.29.28',
        ),
        (crl(digest=hashes.SHA3_384()), 'is signed over a sha3-384 digest; SHA-2 is required'),
        (pem(crl()) + pem(crl(LEAF)), 'contains several revocation lists'),
        (made.pem(LEAF).encode(), 'is not a certificate revocation list in PEM or DER'),
        (crl()[:-1], 'is not a certificate revocation list in PEM or DER'),
        (b'', 'is not a certificate revocation list in PEM or DER'),
        (bytes(revocation.MAX_SIZE + 1), f'longer than {revocation.MAX_SIZE} bytes'),
    ],
    ids=[
        'expired',
        'not yet',
        'delta',
        'delta not critical',
        'indirect',
        'digest',
        'two',
        'certificate',
        'cut',
        'empty',
        'long',
    ],
)
def test_a_list_that_cannot_be_relied_on_is_refused(tmp_path, data, says):
    """By its name, and with what to do."""
    with pytest.raises(DocumentError) as caught:
        loaded(tmp_path, data)
    assert caught.value.path == str(tmp_path / '0.crl')
    assert says in caught.value.what
    assert caught.value.hint


def test_a_list_that_is_not_there_is_named(tmp_path):
    """And why it cannot be read."""
    with pytest.raises(DocumentError, match=r'missing\.crl: cannot be read: No such file or directory'):
        revocation.load(str(tmp_path / 'missing.crl'), NOW)
