# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Check a chain of certificates from who signed up to a root that the operator trusts, for signers of code and for devices.

Stricter than RFC 5280 where that asks for more than a signature on a document needs: no name constraints, no policies, no other
path than the one that was given. ``cryptography.x509.verification`` would take fewer signers and fewer devices: no CA with an
Ed25519 key and no certificate that is signed by way of SHA-3, whatever the policy: tests/unit/catalogue/test_library_chains.py.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID

from baremetal_acc.catalogue.keys import Untrusted, usable

MOST = 5
"""Certificates in a chain."""

_SHA2 = frozenset({'sha256', 'sha384', 'sha512'})

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What one use of certificates asks of them.

    :ivar holder: whose the first certificate is.
    :ivar root: what the last one is.
    :ivar it: how the first one is called in reasons; by its name where None.
    :ivar purpose: why a first certificate of these purposes will not do, None where it will.
    :ivar digests: of signatures on certificates.
    :ivar describes: beginnings of extensions that only describe the holder, critical or not.
    :ivar names_usage: a CA has to say that it may sign certificates, and not only to leave out what it may.
    """

    holder: str
    root: str
    it: str | None = None
    purpose: Callable[[frozenset[str]], str | None]
    digests: frozenset[str] = _SHA2
    describes: tuple[str, ...] = ()
    names_usage: bool = True


def _signs_code(purposes: frozenset[str]) -> str | None:
    """No other certificate of the same CA will do."""
    if ExtendedKeyUsageOID.CODE_SIGNING.dotted_string not in purposes:
        return 'is not for code signing'
    return None


SIGNER = Profile(holder='signer', root='trust root', it='it', purpose=_signs_code)
"""Of who signs catalogues and images."""


def decoded(encoded: tuple[bytes, ...]) -> tuple[x509.Certificate, ...]:
    """The certificates of these bytes, DER.

    :raises Untrusted: one cannot be read.
    """
    try:
        return tuple(x509.load_der_x509_certificate(one) for one in encoded)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise Untrusted('holds a certificate that cannot be read') from None


def check(chain: tuple[x509.Certificate, ...], authorities: tuple[x509.Certificate, ...], now: datetime) -> None:
    """A signer's chain is good now, each certificate issued by the next one, and the last one by a trust root.

    :raises Untrusted: something does not hold.
    """
    if chain[-1] in authorities:
        chain = chain[:-1]
        if not chain:
            raise Untrusted('it is the certificate of a CA, not of a signer')
    check_path((*chain, anchor(chain[-1], authorities, now, SIGNER)), now, SIGNER)


def anchor(
    top: x509.Certificate, authorities: tuple[x509.Certificate, ...], now: datetime, profile: Profile
) -> x509.Certificate:
    """The root that issued this certificate.

    :raises Untrusted: none did.
    """
    roots = [a for a in authorities if a.subject == top.issuer and issued(top, a, profile)]
    if not roots:
        raise Untrusted(f'{name_of(top)} was issued by no {profile.root}')
    # A CA that was renewed has two certificates of one key: the one counts that is valid.
    return next((a for a in roots if is_valid(a, now)), roots[0])


def check_path(path: tuple[x509.Certificate, ...], now: datetime, profile: Profile) -> None:
    """Each certificate is good now and issued by the next one, the first one its holder's. Whom the last one is, is not asked.

    :raises Untrusted: something does not hold.
    """
    for depth, certificate in enumerate(path):
        name = profile.it if depth == 0 and profile.it else name_of(certificate)
        if not is_valid(certificate, now):
            until = f'{certificate.not_valid_before_utc:%Y-%m-%d %H:%M}Z to {certificate.not_valid_after_utc:%Y-%m-%d %H:%M}Z'
            raise Untrusted(f'{name} is valid from {until} only')
        critical = [e.oid.dotted_string for e in certificate.extensions if e.critical and e.oid not in _KNOWN_CRITICAL]
        unknown = [oid for oid in critical if not oid.startswith(profile.describes)]
        if unknown:
            raise Untrusted(f'{name} demands what is not understood here (critical extension {unknown[0]})')
        if depth > 0:
            _check_issuer(certificate, depth - 1, name, profile)
            if not issued(path[depth - 1], certificate, profile):
                raise Untrusted(f'{name_of(path[depth - 1])} was not issued by {name}')
    check_leaf(path[0], profile)


def _check_issuer(certificate: x509.Certificate, below: int, name: str, profile: Profile) -> None:
    """It may issue certificates, with so many others between it and the first one."""
    usable(certificate.public_key())
    basic, usage = extension(certificate, x509.BasicConstraints), extension(certificate, x509.KeyUsage)
    may_sign = not profile.names_usage if usage is None else usage.key_cert_sign
    if basic is None or not basic.ca:
        raise Untrusted(f'{name} may not issue certificates: it has no basicConstraints CA:TRUE')
    if not may_sign:
        raise Untrusted(f'{name} may not issue certificates: it has no keyUsage keyCertSign')
    if basic.path_length is not None and basic.path_length < below:
        raise Untrusted(f'{name} allows fewer certificates below it')


def check_leaf(certificate: x509.Certificate, profile: Profile) -> None:
    """It is a holder's, for signatures and for their purpose.

    :raises Untrusted: it is another's.
    """
    name = profile.it or name_of(certificate)
    basic, usage = extension(certificate, x509.BasicConstraints), extension(certificate, x509.KeyUsage)
    if basic is not None and basic.ca:
        raise Untrusted(f'{name} is the certificate of a CA, not of a {profile.holder}')
    if usage is None or not usage.digital_signature:
        raise Untrusted(f'{name} is not for digital signatures')
    purposes = extension(certificate, x509.ExtendedKeyUsage)
    wrong = profile.purpose(frozenset(p.dotted_string for p in purposes or ()))
    if wrong is not None:
        raise Untrusted(f'{name} {wrong}')


def is_valid(certificate: x509.Certificate, now: datetime) -> bool:
    """Neither too early nor too late."""
    return certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc


def issued(certificate: x509.Certificate, issuer: x509.Certificate, profile: Profile) -> bool:
    """It bears a signature of the issuer, over a digest that will do."""
    algorithm = certificate.signature_hash_algorithm
    if algorithm is not None and algorithm.name not in profile.digests:
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
