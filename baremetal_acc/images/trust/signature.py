# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Create and check signature files of catalogues, baselines and images, by Ed25519 keys or X.509 certificates.

A signature counts when its key is a trust root, or its certificates lead to one. How many different keys must have signed is
the operator's configuration; nothing in a document or in its signature file changes it. The signatures are in a file of their
own, next to the signed file::

    format = 1
    [[signature]]
    key = "sha256:..."          # SHA-256 of the public key (SubjectPublicKeyInfo, DER): for a key that is a trust root itself
    certificates = ["..."]      # or this: the signer's certificate and those in between, base64 of DER, each issued by the next
    value = "..."               # base64

The kind of the key determines the algorithm; nothing in the file chooses it. The signed bytes begin with a line that names the
purpose, so that a signature over a catalogue is none over an image or a baseline. All signatures of a file are over the same
bytes; each signer adds one without the keys of the others.
"""

import base64
import binascii
import re
from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from baremetal_acc.errors import DocumentError
from baremetal_acc.images.trust import chains
from baremetal_acc.images.trust.keys import (
    MAX_SIZE,
    UNREADABLE,
    PrivateKey,
    PublicKey,
    Untrusted,
    fingerprint,
    sign,
    usable,
    verify,
)
from baremetal_acc.images.trust.threshold import TooFewSigners, ValidSignature, independent
from baremetal_acc.model import toml
from baremetal_acc.model.image import Image

__all__ = [
    'FORMAT',
    'MAX_SIZE',
    'Signer',
    'TooFewSigners',
    'Trust',
    'Untrusted',
    'baseline_statement',
    'catalogue_statement',
    'fingerprint',
    'image_statement',
]

FORMAT = 1

_MOST_SIGNATURES = 16
"""Most signatures of a file; the option ``signature_threshold`` allows no more."""

_UNUSABLE: tuple[type[Exception], ...] = (Untrusted, *UNREADABLE)

_FINGERPRINT = re.compile(r'sha256:[0-9a-f]{64}')


@dataclass(frozen=True, slots=True, kw_only=True)
class _Signature:
    key: str | None
    certificates: tuple[bytes, ...]
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """The trust roots of the operator.

    :ivar keys: public keys by their SHA-256.
    :ivar threshold: how many different keys must have signed.
    """

    keys: dict[str, ed25519.Ed25519PublicKey]
    authorities: tuple[x509.Certificate, ...]
    threshold: int = 1

    def __post_init__(self) -> None:
        """Refuse a threshold that no signature, or no signature file, could meet."""
        if not 1 <= self.threshold <= _MOST_SIGNATURES:
            raise ValueError(f'threshold {self.threshold} is not between 1 and {_MOST_SIGNATURES}')

    @property
    def roots(self) -> dict[str, str]:
        """The name of each different key that can count, by the SHA-256 of the key. A CA that was renewed is one key."""
        found = {named: f'key {named}' for named in self.keys}
        for authority in self.authorities:
            try:
                named = fingerprint(usable(authority.public_key()))
            except _UNUSABLE:
                continue  # no certificate that it has issued is accepted
            found.setdefault(named, f'CA {chains.name_of(authority)}')
        return found

    def check(self, statement: bytes, text: str, path: str, now: datetime) -> tuple[str, ...]:
        """Check that as many trusted signers as required have signed these very bytes, each with a key of its own.

        :param text: the signature file; ``path`` names it in messages.
        :returns: who signed: those whose signatures count, at least as many as required.
        :raises Untrusted: too few have. ``DocumentError``: the text is no signature file.
        """
        roots = self.roots
        valid: list[ValidSignature] = []
        reasons = []
        for n, one in enumerate(_parse(text, path)):
            try:
                key, found = self._signer(one, now, frozenset(roots))
                verify(key, one.value, statement)
            except Untrusted as exc:
                reasons.append(f'signature[{n}] {exc}')
            else:
                valid.append(found)
        counted = independent(valid)
        if len(counted) >= self.threshold:
            return tuple(one.signer for one in counted)
        if self.threshold == 1:
            raise Untrusted('; '.join(reasons))
        again = [one.signer for one in dict.fromkeys(valid) if one not in counted]
        reasons += [f'{who} does not count: its key or its CA is counted already' for who in again]
        absent = tuple(name for root, name in roots.items() if root not in {one.root for one in valid})
        raise TooFewSigners(
            signed=tuple(one.signer for one in counted), required=self.threshold, absent=absent, reasons=tuple(reasons)
        )

    def _signer(self, one: _Signature, now: datetime, roots: frozenset[str]) -> tuple[PublicKey, ValidSignature]:
        """Return the key that has to verify a signature, and what the signature counts for if it does."""
        if one.key is not None:
            if one.key not in self.keys:
                raise Untrusted(f'is by key {one.key}, which is not a trust root')
            return self.keys[one.key], ValidSignature(keys=frozenset({one.key}), root=one.key, signer=f'key {one.key}')
        chain = chains.decoded(one.certificates)
        name = chains.name_of(chain[0])
        try:
            path = chains.check(chain, self.authorities, now)
            public = [usable(certificate.public_key()) for certificate in path]
        except Untrusted as exc:
            raise Untrusted(f'is by {name}: {exc}') from None
        except UNREADABLE as exc:
            raise Untrusted(f'is by {name}: a certificate is malformed ({type(exc).__name__})') from None
        named = [fingerprint(key) for key in public]
        # A key that is a trust root itself counts as that root, whoever has certified it.
        end = next(n for n, found in enumerate(named) if found in roots or n == len(named) - 1)
        return public[0], ValidSignature(keys=frozenset(named[: end + 1]), root=named[end], signer=name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signer:
    """A private key, with the certificates of its holder."""

    key: PrivateKey
    certificates: tuple[x509.Certificate, ...] = ()

    def __repr__(self) -> str:
        return f'<Signer {self.name}>'

    @property
    def name(self) -> str:
        """The signer's name, as :meth:`Trust.check` returns it."""
        return chains.name_of(self.certificates[0]) if self.certificates else f'key {fingerprint(self.key.public_key())}'

    def file(self, statement: bytes, kept: tuple[str, str] | None = None) -> str:
        """Return a signature file over these bytes.

        :param kept: text and path of another signature file, whose signatures are taken over, as many as a file may hold: those
            of other signers, and this signer's over the earlier content, so that the signature file can be replaced before the
            signed file. This signer's earlier signature over the same content is replaced.
        :raises DocumentError: the other file is no signature file.
        """
        encoded = tuple(c.public_bytes(serialization.Encoding.DER) for c in self.certificates)
        key = None if encoded else fingerprint(self.key.public_key())
        mine = _Signature(key=key, certificates=encoded, value=sign(self.key, statement))
        others = () if kept is None else tuple(one for one in _parse(*kept) if not self._replaces(one, mine, statement))
        parts = [_text(one) for one in dict.fromkeys((mine, *others))]
        return '\n'.join((f'format = {FORMAT}\n', *parts[:_MOST_SIGNATURES]))

    def _replaces(self, one: _Signature, mine: _Signature, statement: bytes) -> bool:
        """Tell whether a signature is this signer's over the same bytes. An ECDSA signature differs each time it is made."""
        if (one.key, one.certificates) != (mine.key, mine.certificates):
            return False
        try:
            verify(self.key.public_key(), one.value, statement)
        except Untrusted:
            return False
        return True


def _text(one: _Signature) -> str:
    def encoded(data: bytes) -> str:
        return f'"{base64.b64encode(data).decode()}"'

    certificates = ', '.join(encoded(c) for c in one.certificates)
    who = f'certificates = [{certificates}]' if one.key is None else f'key = "{one.key}"'
    return f'[[signature]]\n{who}\nvalue = {encoded(one.value)}\n'


def catalogue_statement(data: bytes) -> bytes:
    """Return the signed bytes of a catalogue: a line with the purpose, and the bytes of the file."""
    return b'baremetal-acc catalogue 1\n' + data


def baseline_statement(data: bytes) -> bytes:
    """Return the signed bytes of a baseline: a line with the purpose, and the bytes of the file."""
    return b'baremetal-acc baseline 1\n' + data


def image_statement(image: Image) -> bytes:
    """Return the signed bytes of an image: a line with the purpose, then its name, size and digest, a line each."""
    return f'baremetal-acc image 1\n{image.file}\n{image.size_bytes}\n{image.digest}\n'.encode()


def _parse(text: str, path: str) -> tuple[_Signature, ...]:
    document = toml.read(text, path, format_version=FORMAT)
    tables = document.tables('signature')
    document.finish()
    if not tables:
        raise DocumentError(path=path, what='contains no [[signature]]')
    if len(tables) > _MOST_SIGNATURES:
        raise DocumentError(path=path, what=f'contains more than {_MOST_SIGNATURES} signatures')
    found = []
    for table in tables:
        key, certificates = table.string('key'), table.strings('certificates')
        value = _bytes(table, 'value', table.required_string('value'))
        table.finish()
        if key is not None and not _FINGERPRINT.fullmatch(key):
            raise table.error('key', 'is not the SHA-256 of a public key like "sha256:..."')
        if (key is None) is (not certificates):
            raise table.error(None, 'either key or certificates is required')
        if certificates and len(certificates) > chains.MOST:
            raise table.error('certificates', f'more than {chains.MOST}')
        encoded = tuple(_bytes(table, 'certificates', one) for one in certificates or ())
        found.append(_Signature(key=key, certificates=encoded, value=value))
    return tuple(found)


def _bytes(table: toml.Table, key: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        raise table.error(key, 'is not base64') from None
