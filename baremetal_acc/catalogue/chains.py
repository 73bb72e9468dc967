# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Does this chain of certificates lead from the signer to a trust root? Stricter than RFC 5280: see :func:`check`."""

from collections.abc import Collection
from datetime import datetime
from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID

from baremetal_acc.catalogue.keys import Untrusted, usable

MOST = 5
"""Certificates in a chain."""

_HASHES = ('sha256', 'sha384', 'sha512')

_KNOWN_CRITICAL = frozenset(
    {
        ExtensionOID.BASIC_CONSTRAINTS,
        ExtensionOID.KEY_USAGE,
        ExtensionOID.EXTENDED_KEY_USAGE,
        ExtensionOID.SUBJECT_ALTERNATIVE_NAME,
    }
)
"""Critical extensions that are looked at here, or that limit nothing of what a signature is for."""

E = TypeVar('E', bound=x509.ExtensionType)


def decoded(encoded: tuple[bytes, ...]) -> tuple[x509.Certificate, ...]:
    """The certificates of these bytes, DER.

    :raises Untrusted: one cannot be read.
    """
    try:
        return tuple(x509.load_der_x509_certificate(one) for one in encoded)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise Untrusted('holds a certificate that cannot be read') from None


def check(chain: tuple[x509.Certificate, ...], authorities: tuple[x509.Certificate, ...], now: datetime) -> None:
    """Each certificate is good now, issued by the next one, and the last one by a trust root.

    Stricter than RFC 5280 where that asks for more than a signature on a document needs: no name constraints, no policies, no
    other paths than the one that was given. The signer's certificate is for code signing, so that no other certificate of the
    same CA will do.

    :raises Untrusted: something does not hold.
    """
    if chain[-1] in authorities:
        chain = chain[:-1]
        if not chain:
            raise Untrusted('it is the certificate of a CA, not of a signer')
    last = chain[-1]
    roots = [a for a in authorities if a.subject == last.issuer and issued(last, a)]
    if not roots:
        raise Untrusted(f'{name_of(last)} was issued by no trust root')
    # A CA that was renewed has two certificates of one key: the one counts that is valid.
    root = next((a for a in roots if is_valid(a, now)), roots[0])
    check_path((*chain, root), now)


def check_path(path: tuple[x509.Certificate, ...], now: datetime) -> None:
    """Each certificate is good now and issued by the next one, the first one a signer's. Whom the last one is, is not asked.

    :raises Untrusted: something does not hold.
    """
    for depth, certificate in enumerate(path):
        name = 'it' if depth == 0 else name_of(certificate)
        if not is_valid(certificate, now):
            until = f'{certificate.not_valid_before_utc:%Y-%m-%d %H:%M}Z to {certificate.not_valid_after_utc:%Y-%m-%d %H:%M}Z'
            raise Untrusted(f'{name} is valid from {until} only')
        unknown = [e.oid.dotted_string for e in certificate.extensions if e.critical and e.oid not in _KNOWN_CRITICAL]
        if unknown:
            raise Untrusted(f'{name} demands what is not understood here (critical extension {unknown[0]})')
        if depth > 0:
            _check_issuer(certificate, depth - 1, name)
            if not issued(path[depth - 1], certificate):
                raise Untrusted(f'{name_of(path[depth - 1])} was not issued by {name}')
    check_leaf(path[0])


def _check_issuer(certificate: x509.Certificate, below: int, name: str) -> None:
    """It may issue certificates, with so many others between it and the signer."""
    usable(certificate.public_key())
    basic, usage = extension(certificate, x509.BasicConstraints), extension(certificate, x509.KeyUsage)
    if basic is None or not basic.ca:
        raise Untrusted(f'{name} may not issue certificates: it has no basicConstraints CA:TRUE')
    if usage is None or not usage.key_cert_sign:
        raise Untrusted(f'{name} may not issue certificates: it has no keyUsage keyCertSign')
    if basic.path_length is not None and basic.path_length < below:
        raise Untrusted(f'{name} allows fewer certificates below it')


def check_leaf(certificate: x509.Certificate) -> None:
    """It is a signer's, for code signing.

    :raises Untrusted: it is another's.
    """
    basic, usage = extension(certificate, x509.BasicConstraints), extension(certificate, x509.KeyUsage)
    purposes = extension(certificate, x509.ExtendedKeyUsage)
    if basic is not None and basic.ca:
        raise Untrusted('it is the certificate of a CA, not of a signer')
    if usage is None or not usage.digital_signature:
        raise Untrusted('it is not for digital signatures')
    if purposes is None or ExtendedKeyUsageOID.CODE_SIGNING not in purposes:
        raise Untrusted('it is not for code signing')


def is_valid(certificate: x509.Certificate, now: datetime) -> bool:
    """Neither too early nor too late."""
    return certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc


def issued(certificate: x509.Certificate, issuer: x509.Certificate, allowed: Collection[str] = _HASHES) -> bool:
    """It bears a signature of the issuer, over a digest of one of these algorithms."""
    algorithm = certificate.signature_hash_algorithm
    if algorithm is not None and algorithm.name not in allowed:
        return False
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def extension(certificate: x509.Certificate, kind: type[E]) -> E | None:
    """What it says of itself, if it does."""
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None


def name_of(certificate: x509.Certificate) -> str:
    """Its subject on one line, never longer than a line."""
    try:
        text = certificate.subject.rfc4514_string()
    except ValueError:
        text = ''
    return ''.join(c if c.isprintable() else '?' for c in text)[:200] or 'a certificate without a name'
