# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read a signed manifest of reference values: check who signed it, and return the values that the signature covers.

Two formats are known: an SWID tag with TCG RIM that XML-DSig signs (:mod:`~baremetal_acc.images.reference.swid`), and CoRIM
that COSE signs (:mod:`~baremetal_acc.images.reference.corim`). A manifest comes from the internet and is hostile until its
signature is verified; what its signature does not cover is never used.
"""

import hashlib
import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import ModuleType

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from baremetal_acc.errors import DocumentError, LocalError
from baremetal_acc.images.trust import chains
from baremetal_acc.images.trust import revocation as revocation_lists
from baremetal_acc.images.trust.keys import UNREADABLE, Untrusted, fingerprint, usable
from baremetal_acc.images.trust.revocation import RevocationCheck, RevocationList
from baremetal_acc.model.image import ReferenceValue
from baremetal_acc.model.reference import VersionReference

MAX_SIZE = 1024 * 1024
"""Most bytes of a manifest. Those that NVIDIA publishes for H100 have 20 KiB."""

MOST_CERTIFICATES = 10
"""Most certificates of a signer's chain. The known ones have four."""

LAST_INDEX = 254
"""The highest index of a measurement. Source: DSP0274 1.2.3, measurement index: 0xFF asks for all."""

LONGEST_TEXT = 100
"""Most characters of an id, a version or the name of a component."""

HEX_DIGITS = {'sha256': 64, 'sha384': 96, 'sha512': 128, 'sha3_256': 64, 'sha3_384': 96, 'sha3_512': 128}
"""Hexadecimal digits of a digest."""

_TCG = '2.23.133.'
"""Prefix of the purposes that TCG defines."""


class ManifestFormat(StrEnum):
    """The format of a manifest."""

    SWID = 'swid'
    CORIM = 'corim'


class Malformed(Exception):
    """A manifest is no valid one of its format, or names what is not supported; the text says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedReferences:
    """The values of a manifest for one version of one component."""

    component: str
    version: str
    measurements: tuple[ReferenceValue, ...]
    inactive: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """What the signature of a manifest covers.

    :ivar id: the manifest's own id.
    :ivar path: the certificates from the signer's own up to the pinned root.
    """

    id: str
    references: tuple[NamedReferences, ...]
    path: tuple[x509.Certificate, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A manifest whose signature was verified.

    :ivar digest: SHA-256 of its bytes.
    :ivar signer: subject of the certificate that signed; ``fingerprint`` is the SHA-256 of its key.
    :ivar root: subject of the pinned root that the chain leads to.
    :ivar expires: when the first certificate of the chain expires, UTC.
    :ivar revocation: what the operator's revocation lists say of the chain.
    """

    format: ManifestFormat
    id: str
    digest: str
    signer: str
    fingerprint: str
    root: str
    expires: datetime
    revocation: RevocationCheck
    references: tuple[NamedReferences, ...]

    @property
    def source(self) -> str:
        """The manifest in one line: format, id, digest."""
        return f'{self.format} {self.id} {self.digest}'

    def for_roots_of_trust(self, integrity: str) -> tuple[VersionReference, ...]:
        """Return the references for the roots of trust whose Id matches a pattern."""
        return tuple(
            VersionReference(
                component=one.component,
                version=one.version,
                measurements=tuple(
                    ReferenceValue(integrity=integrity, index=value.index, values=value.values) for value in one.measurements
                ),
                inactive=one.inactive,
                source=self.source,
            )
            for one in self.references
        )


def _signs_references(purposes: frozenset[str]) -> str | None:
    """Demand that a certificate with purposes has one for signing manifests: code signing, or one of TCG's."""
    if purposes and ExtendedKeyUsageOID.CODE_SIGNING.dotted_string not in purposes:
        return None if any(purpose.startswith(_TCG) for purpose in purposes) else 'is not for signing manifests'
    return None


SIGNER = chains.Profile(holder='signer', root='pinned root', purpose=_signs_references)
"""The demands on the certificate chain of a maker that signs manifests."""


def read(
    data: bytes,
    path: str,
    authorities: tuple[x509.Certificate, ...],
    at: datetime,
    lists: tuple[RevocationList, ...] = (),
) -> Manifest:
    """Read a manifest and verify its signature.

    :param path: path of the file, for messages.
    :param authorities: the roots that the operator pinned.
    :param at: the time at which all certificates have to be valid.
    :param lists: the operator's revocation lists. A certificate that one of them lists is refused, whatever ``at`` is.
    :raises DocumentError: the signature proves nothing, or the manifest is malformed or too long.
    :raises LocalError: a library is not installed.
    """
    if len(data) > MAX_SIZE:
        raise DocumentError(path=path, what=f'longer than {MAX_SIZE} bytes', hint='check that it is the right file')
    form = ManifestFormat.SWID if data.lstrip(b'\xef\xbb\xbf \t\r\n').startswith(b'<') else ManifestFormat.CORIM
    try:
        found = _reader(form)(data, authorities, at)
        signer = found.path[0]
        key = fingerprint(usable(signer.public_key()))
    except Untrusted as exc:
        hint = (
            'the values are not used; get the manifest and the root again from the maker, or, if certificates have only '
            'expired, name a day on which they were valid (--at)'
        )
        raise DocumentError(path=path, what=f'its signature is not trusted: {exc}', hint=hint) from None
    except Malformed as exc:
        hint = 'supported are signed SWID tags with TCG RIM (XML) and signed CoRIM (CBOR)'
        raise DocumentError(path=path, what=f'is not a valid {form} manifest: {exc}', hint=hint) from None
    except UNREADABLE as exc:
        what = f'a certificate of its signer is malformed ({type(exc).__name__})'
        raise DocumentError(path=path, what=what, hint='the values are not used') from None
    try:
        revocation = revocation_lists.check(found.path, lists)
    except Untrusted as exc:
        hint = 'the values are not used; get a manifest from the maker that a valid certificate has signed'
        raise DocumentError(path=path, what=f'its signature is not trusted: {exc}', hint=hint) from None
    return Manifest(
        format=form,
        id=found.id,
        digest=f'sha256:{hashlib.sha256(data).hexdigest()}',
        signer=chains.name_of(signer),
        fingerprint=key,
        root=chains.name_of(found.path[-1]),
        expires=min(c.not_valid_after_utc for c in found.path),
        revocation=revocation,
        references=found.references,
    )


def _reader(form: ManifestFormat) -> Callable[[bytes, tuple[x509.Certificate, ...], datetime], Signed]:
    """The reader of a format. Its libraries are an extra.

    :raises LocalError: they are not installed.
    """
    try:
        module: ModuleType = importlib.import_module(f'baremetal_acc.images.reference.{form}')
    except ModuleNotFoundError as exc:
        library = (exc.name or '').partition('.')[0]
        if library == 'baremetal_acc':
            raise
        hint = "pip install 'baremetal-acc[reference]'"
        raise LocalError('signed reference values', f'{library} is not installed', hint=hint) from exc
    found: Callable[[bytes, tuple[x509.Certificate, ...], datetime], Signed] = module.signed
    return found


def text(found: object, what: str) -> str:
    """Return a text of a manifest that can be stored in one line of a document.

    :raises Malformed: it is none.
    """
    if not isinstance(found, str) or not found.strip() or len(found) > LONGEST_TEXT or not found.isprintable():
        raise Malformed(f'{what} is not a text of 1 to {LONGEST_TEXT} printable characters')
    return found.strip()


def digest_value(algorithm: str, digits: str, index: int) -> tuple[str, str]:
    """Return a digest as algorithm and lower-case hexadecimal value.

    :raises Malformed: it is no digest of the algorithm.
    """
    if len(digits) != HEX_DIGITS[algorithm] or set(digits.lower()) - set('0123456789abcdef'):
        raise Malformed(f'measurement {index} has a value that is not a {algorithm} digest')
    return algorithm, digits.lower()


def once(indices: Iterable[int]) -> None:
    """Check that each index is one of a measurement, and is named once.

    :raises Malformed: it is not.
    """
    seen: set[int] = set()
    for index in indices:
        if not 1 <= index <= LAST_INDEX:
            raise Malformed(f'{index} is not an index of a measurement, 1 to {LAST_INDEX}')
        if index in seen:
            raise Malformed(f'measurement {index} is listed twice')
        seen.add(index)
