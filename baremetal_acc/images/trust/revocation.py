# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read the certificate revocation lists (CRLs) that an operator names, and check certificate chains with them. Asks no server.

A list counts for certificates of its own issuer only, and has to be complete: delta lists, indirect ones and those of only some
reasons are refused.

Source: RFC 5280, sections 5 and 6.3.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from cryptography import x509

from baremetal_acc import input_file
from baremetal_acc.errors import DocumentError
from baremetal_acc.images.trust import chains
from baremetal_acc.images.trust.keys import UNREADABLE, Untrusted, usable

MAX_SIZE = 16 * 1024 * 1024
"""Most bytes of a list: some 400,000 certificates."""

_DIGESTS = frozenset({'sha256', 'sha384', 'sha512'})

_PEM = b'-----BEGIN X509 CRL-----'

_HINT = 'get the present list from the issuer'


@dataclass(frozen=True, slots=True, kw_only=True)
class RevocationList:
    """A list that is valid now. Its signature counts once the certificate of its issuer is known.

    :ivar path: path of the file, for messages.
    """

    path: str
    crl: x509.CertificateRevocationList


@dataclass(frozen=True, slots=True, kw_only=True)
class RevocationCheck:
    """What lists say of a chain, none of whose certificates they revoke.

    :ivar used: the paths of the lists that counted.
    :ivar unchecked: the subjects of the certificates below the root that no list was for.
    """

    used: frozenset[str]
    unchecked: tuple[str, ...]


def load(path: str, now: datetime) -> RevocationList:
    """Read a list in PEM or DER.

    :raises DocumentError: it cannot be read, is not valid now, or is of a kind that is not supported.
    """
    try:
        data = input_file.read(path, MAX_SIZE)
    except OSError as exc:
        raise DocumentError(path=path, what=f'cannot be read: {exc.strerror}', hint='name a file that you may read') from exc
    if len(data) > MAX_SIZE:
        raise DocumentError(path=path, what=f'longer than {MAX_SIZE} bytes', hint='check that it is the right file')
    if data.count(_PEM) > 1:
        raise DocumentError(path=path, what='contains several revocation lists', hint='write each into a file of its own')
    try:
        crl = x509.load_pem_x509_crl(data) if _PEM in data else x509.load_der_x509_crl(data)
        _check(path, crl, now)
    except UNREADABLE:
        what = 'is not a certificate revocation list in PEM or DER'
        raise DocumentError(path=path, what=what, hint='name a file with one list') from None
    return RevocationList(path=path, crl=crl)


def _check(path: str, crl: x509.CertificateRevocationList, now: datetime) -> None:
    """Check that a list is complete and valid now.

    :raises DocumentError: it is not.
    """
    until = crl.next_update_utc
    if until is None or not crl.last_update_utc <= now <= until:
        end = 'an unknown time' if until is None else f'{until:%Y-%m-%d %H:%M}Z'
        what = f'is a revocation list that is valid only from {crl.last_update_utc:%Y-%m-%d %H:%M}Z to {end}'
        raise DocumentError(path=path, what=what, hint=_HINT)
    limiting = [e.oid.dotted_string for e in crl.extensions if e.critical or isinstance(e.value, x509.DeltaCRLIndicator)]
    if limiting:
        what = f'is a revocation list with the extension {limiting[0]}, which is not supported: it may be incomplete'
        raise DocumentError(path=path, what=what, hint='get a complete list of the issuer itself')
    algorithm = crl.signature_hash_algorithm
    if algorithm is not None and algorithm.name not in _DIGESTS:
        what = f'is signed over a {algorithm.name} digest; SHA-2 is required'
        raise DocumentError(path=path, what=what, hint=_HINT)


def check(chain: tuple[x509.Certificate, ...], lists: Iterable[RevocationList]) -> RevocationCheck:
    """Check that no certificate of a chain below its root is revoked.

    :param chain: from the signer's own up to the root; its signatures were checked.
    :raises Untrusted: a certificate is revoked, or a list was signed by a certificate that may not sign any.
    """
    lists = tuple(lists)
    used: set[str] = set()
    unchecked = []
    for certificate, issuer in itertools.pairwise(chain):
        known = [one for one in lists if one.crl.issuer == certificate.issuer and _is_signed_by(one, issuer)]
        for one in known:
            at = _revoked_at(certificate, one)
            if at is not None:
                raise Untrusted(f'{chains.name_of(certificate)} was revoked on {at:%Y-%m-%d} ({one.path})')
        used |= {one.path for one in known}
        if not known:
            unchecked.append(chains.name_of(certificate))
    return RevocationCheck(used=frozenset(used), unchecked=tuple(unchecked))


def _revoked_at(certificate: x509.Certificate, one: RevocationList) -> datetime | None:
    """Return when a list says that a certificate of its issuer was revoked; None where it does not list it.

    :raises Untrusted: the entries cannot be read.
    """
    try:
        entry = one.crl.get_revoked_certificate_by_serial_number(certificate.serial_number)
        return None if entry is None else entry.revocation_date_utc
    except UNREADABLE:
        raise Untrusted(f'the entries of {one.path} cannot be read') from None


def _is_signed_by(one: RevocationList, issuer: x509.Certificate) -> bool:
    """Tell whether a certificate has signed a list.

    :raises Untrusted: it has, but may not.
    """
    try:
        is_signed = one.crl.is_signature_valid(usable(issuer.public_key()))
    except UNREADABLE:
        return False
    usage = chains.extension(issuer, x509.KeyUsage)
    if is_signed and usage is not None and not usage.crl_sign:
        raise Untrusted(f'{chains.name_of(issuer)} may not sign {one.path}: it has no keyUsage cRLSign')
    return is_signed
