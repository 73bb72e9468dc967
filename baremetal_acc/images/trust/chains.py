# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Check an X.509 certificate chain from the signer up to a root that the operator trusts, for code signers and for devices.

Stricter than RFC 5280, which covers more than a signature on a document needs: name constraints, policies and other paths than
the given one are not supported. ``cryptography.x509.verification`` would accept fewer signers and fewer devices: no CA with an
Ed25519 key and no certificate that is signed with a SHA-3 digest, whatever the policy:
tests/unit/images/test_library_chains.py.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID

from baremetal_acc.images.trust.keys import UNREADABLE, Untrusted, usable

MOST = 5
"""Most certificates in a chain."""

_SHA2 = frozenset({'sha256', 'sha384', 'sha512'})

_KNOWN_CRITICAL = frozenset(
    {
        ExtensionOID.BASIC_CONSTRAINTS,
        ExtensionOID.KEY_USAGE,
        ExtensionOID.EXTENDED_KEY_USAGE,
        ExtensionOID.SUBJECT_ALTERNATIVE_NAME,
    }
)
"""Critical extensions that are checked here, or that do not limit what a signature is for."""

_NOT_ISSUED: tuple[type[Exception], ...] = (InvalidSignature, *UNREADABLE)
"""What cryptography raises for a certificate that another one has not issued."""

E = TypeVar('E', bound=x509.ExtensionType)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The demands of one use of certificates.

    :ivar holder: the kind of holder of the first certificate.
    :ivar root: the kind of the last certificate.
    :ivar it: what reasons call the first certificate; None: its name.
    :ivar purpose: returns why a first certificate of these purposes is not acceptable; None where it is.
    :ivar digests: digests that are accepted in signatures of certificates.
    :ivar describes: prefixes of extensions that only describe the holder, critical or not.
    :ivar names_usage: a CA certificate needs a key usage that allows it to sign certificates; False: a missing key usage is
        accepted.
    """

    holder: str
    root: str
    it: str | None = None
    purpose: Callable[[frozenset[str]], str | None]
    digests: frozenset[str] = _SHA2
    describes: tuple[str, ...] = ()
    names_usage: bool = True


def _signs_code(purposes: frozenset[str]) -> str | None:
    """Demand the purpose of code signing: another certificate of the same CA is not enough."""
    if ExtendedKeyUsageOID.CODE_SIGNING.dotted_string not in purposes:
        return 'is not for code signing'
    return None


SIGNER = Profile(holder='signer', root='trust root', it='the certificate', purpose=_signs_code)
"""The demands on signers of catalogues and images."""


def decoded(encoded: tuple[bytes, ...]) -> tuple[x509.Certificate, ...]:
    """Return the certificates of these DER bytes.

    :raises Untrusted: a certificate cannot be read.
    """
    try:
        return tuple(x509.load_der_x509_certificate(one) for one in encoded)
    except UNREADABLE:
        raise Untrusted('contains a certificate that cannot be read') from None


def check(
    chain: tuple[x509.Certificate, ...], authorities: tuple[x509.Certificate, ...], now: datetime
) -> tuple[x509.Certificate, ...]:
    """Check that a signer's chain is valid now, each certificate issued by the next one, and the last one by a trust root.

    :returns: the certificates from the signer up to the trust root.
    :raises Untrusted: a check fails.
    """
    if chain[-1] in authorities:
        chain = chain[:-1]
        if not chain:
            raise Untrusted('the certificate is a CA certificate, not that of a signer')
    whole = (*chain, anchor(chain[-1], authorities, now, SIGNER))
    check_path(whole, now, SIGNER)
    return whole


def path(
    found: tuple[x509.Certificate, ...], authorities: tuple[x509.Certificate, ...], now: datetime, profile: Profile
) -> tuple[x509.Certificate, ...]:
    """Return the certificates from the holder's own up to a root, from certificates in any order.

    :raises Untrusted: they are no such path, or a check of it fails.
    """
    ordered = _ordered(found, profile)
    pinned = next((n for n, c in enumerate(ordered) if c in authorities), None)
    # Certificates above a pinned one do not matter.
    root = () if pinned is not None else (anchor(ordered[-1], authorities, now, profile),)
    whole = (*ordered[: None if pinned is None else pinned + 1], *root)
    if len(whole) < 2:
        raise Untrusted(f'the chain has no {profile.holder} certificate, only that of a root')
    check_path(whole, now, profile)
    return whole


def _ordered(found: tuple[x509.Certificate, ...], profile: Profile) -> tuple[x509.Certificate, ...]:
    """Order a chain from the holder's own certificate upwards, by who issued whom.

    SPDM lists a chain from the root down (DSP0274), a BMC's CertificateString begins with either end.

    :raises Untrusted: the certificates are no single chain.
    """
    leaves = [c for c in found if not any(o is not c and o.issuer == c.subject and issued(o, c, profile) for o in found)]
    if len(leaves) != 1:
        raise Untrusted(f'the certificates are not a chain that ends in one {profile.holder} certificate')
    chain, rest = [leaves[0]], [c for c in found if c is not leaves[0]]
    while rest:
        above = [c for c in rest if c.subject == chain[-1].issuer and issued(chain[-1], c, profile)]
        if len(above) != 1:
            raise Untrusted('the certificates are not a single chain')
        chain.append(above[0])
        rest.remove(above[0])
    return tuple(chain)


def anchor(
    top: x509.Certificate, authorities: tuple[x509.Certificate, ...], now: datetime, profile: Profile
) -> x509.Certificate:
    """Return the root that issued this certificate.

    :raises Untrusted: no root issued it.
    """
    roots = [a for a in authorities if a.subject == top.issuer and issued(top, a, profile)]
    if not roots:
        raise Untrusted(f'{name_of(top)} was not issued by a {profile.root}')
    # A renewed CA has two certificates of one key: the valid one counts.
    return next((a for a in roots if is_valid(a, now)), roots[0])


def check_path(path: tuple[x509.Certificate, ...], now: datetime, profile: Profile) -> None:
    """Check that each certificate is valid now and issued by the next one, and that the first one is its holder's.

    It is not checked whether the last certificate is trusted.

    :raises Untrusted: a check fails.
    """
    for depth, certificate in enumerate(path):
        name = profile.it if depth == 0 and profile.it else name_of(certificate)
        if not is_valid(certificate, now):
            until = f'{certificate.not_valid_before_utc:%Y-%m-%d %H:%M}Z to {certificate.not_valid_after_utc:%Y-%m-%d %H:%M}Z'
            raise Untrusted(f'{name} is valid only from {until}')
        critical = [e.oid.dotted_string for e in certificate.extensions if e.critical and e.oid not in _KNOWN_CRITICAL]
        unknown = [oid for oid in critical if not oid.startswith(profile.describes)]
        if unknown:
            raise Untrusted(f'{name} has the critical extension {unknown[0]}, which is not supported')
        if depth > 0:
            _check_issuer(certificate, depth - 1, name, profile)
            if not issued(path[depth - 1], certificate, profile):
                raise Untrusted(f'{name_of(path[depth - 1])} was not issued by {name}')
    check_leaf(path[0], profile)


def _check_issuer(certificate: x509.Certificate, below: int, name: str, profile: Profile) -> None:
    """Check that a certificate may issue certificates, with so many others between it and the first one."""
    usable(certificate.public_key())
    basic, usage = extension(certificate, x509.BasicConstraints), extension(certificate, x509.KeyUsage)
    may_sign = not profile.names_usage if usage is None else usage.key_cert_sign
    if basic is None or not basic.ca:
        raise Untrusted(f'{name} may not issue certificates: it has no basicConstraints CA:TRUE')
    if not may_sign:
        raise Untrusted(f'{name} may not issue certificates: it has no keyUsage keyCertSign')
    if basic.path_length is not None and basic.path_length < below:
        raise Untrusted(f'{name} has a path length of {basic.path_length}, but the chain needs {below}')


def check_leaf(certificate: x509.Certificate, profile: Profile) -> None:
    """Check that a certificate is its holder's, and is for signatures and their purpose.

    :raises Untrusted: it is not.
    """
    name = profile.it or name_of(certificate)
    basic, usage = extension(certificate, x509.BasicConstraints), extension(certificate, x509.KeyUsage)
    if basic is not None and basic.ca:
        raise Untrusted(f'{name} is a CA certificate, not that of a {profile.holder}')
    if usage is None or not usage.digital_signature:
        raise Untrusted(f'{name} is not for digital signatures')
    purposes = extension(certificate, x509.ExtendedKeyUsage)
    wrong = profile.purpose(frozenset(p.dotted_string for p in purposes or ()))
    if wrong is not None:
        raise Untrusted(f'{name} {wrong}')


def is_valid(certificate: x509.Certificate, now: datetime) -> bool:
    """Tell whether a certificate is valid at that time."""
    return certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc


def issued(certificate: x509.Certificate, issuer: x509.Certificate, profile: Profile) -> bool:
    """Tell whether a certificate has a signature of the issuer, over an accepted digest."""
    algorithm = certificate.signature_hash_algorithm
    if algorithm is not None and algorithm.name not in profile.digests:
        return False
    if _unused_bits(certificate):
        return False
    try:
        certificate.verify_directly_issued_by(issuer)
    except _NOT_ISSUED:
        return False
    return True


def _unused_bits(certificate: x509.Certificate) -> int:
    """Return how many bits of the last byte of the signature are unused: none may be, and the library does not check it.

    The signature is the end of a certificate: a BIT STRING, which begins with this number. Source: RFC 5280, section 4.1.
    """
    return certificate.public_bytes(serialization.Encoding.DER)[-len(certificate.signature) - 1]


def extension(certificate: x509.Certificate, kind: type[E]) -> E | None:
    """Return an extension of a certificate; None where it has none of that kind."""
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None


def name_of(certificate: x509.Certificate) -> str:
    """Return the subject of a certificate on one line of bounded length."""
    try:
        text = certificate.subject.rfc4514_string()
    except ValueError:
        text = ''
    return ''.join(c if c.isprintable() else '?' for c in text)[:200] or 'a certificate without a name'
