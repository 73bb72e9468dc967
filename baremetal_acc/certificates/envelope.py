# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Sign hand-over certificates with Ed25519 keys, and check their signatures.

A signed certificate is one JSON document in its canonical form (:mod:`baremetal_acc.model.canonical`). It is an in-toto
statement (:mod:`baremetal_acc.certificates.in_toto`) in a DSSE envelope (:mod:`baremetal_acc.certificates.dsse`). Earlier
versions issued another form, which is still checked::

    {"certificate": {...}, "signature": {"algorithm": "Ed25519", "key": "sha256:...", "value": "..."}}

There the signature is over a line that names its purpose, and the canonical bytes of the value of ``certificate``. What is
signed in one form begins with other bytes than in the other form, so that a signature is valid in its own form alone. The
algorithm is named for readers of other programs: there is no other, and nothing in the document chooses one. A key is named by
the SHA-256 of the public key (SubjectPublicKeyInfo, DER); the certificate itself names the same.

Source: RFC 8032, section 5.1 (Ed25519); RFC 8410 (keys in PEM); RFC 8785.
"""

import base64
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from baremetal_acc.certificates import dsse, in_toto
from baremetal_acc.certificates.dsse import Wrapped
from baremetal_acc.errors import CertificateAltered, CertificateInvalid, CertificateUntrusted, DocumentError
from baremetal_acc.model import canonical
from baremetal_acc.model.canonical import NotCanonical
from baremetal_acc.model.certificate import Certificate, read

MAX_SIZE = 1024 * 1024
"""Most bytes of a signed certificate. One of 16 GPUs with their roots of trust has about 50 KiB."""

ALGORITHM = 'Ed25519'

_EARLIER_PURPOSE = b'baremetal-acc hand-over certificate 1\n'

_UNFOLDED = 'dsse:'

_KEY_SIZE = 64 * 1024

_PEM = re.compile(r'-----BEGIN ([A-Z0-9 ]+)-----\s.*?-----END \1-----', re.DOTALL)

HOW = 'openssl genpkey -algorithm ed25519'


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealer:
    """A private key that signs certificates.

    :ivar name: SHA-256 of its public key, as certificates name it.
    """

    private: Ed25519PrivateKey = field(repr=False)
    name: str

    @property
    def trust(self) -> dict[str, Ed25519PublicKey]:
        """Its public key, in the form that :func:`opened` takes."""
        return {self.name: self.private.public_key()}


def seal(certificate: Certificate, by: Sealer) -> bytes:
    """Return a signed certificate.

    :raises CertificateInvalid: the certificate names another key, is too long, or contains a text that cannot be encoded.
    """
    if certificate.key != by.name:
        raise CertificateInvalid(f'the certificate names key {certificate.key}, but would be signed with {by.name}')
    try:
        payload = canonical.encode(in_toto.statement(certificate))
        wrapped = Wrapped(payload=payload, keyid=by.name, signature=by.private.sign(dsse.pae(payload)))
        data = canonical.encode(dsse.wrap(wrapped))
    except NotCanonical as exc:
        raise CertificateInvalid(f'the certificate cannot be signed: {exc}') from None
    if len(data) > MAX_SIZE:
        raise CertificateInvalid(f'the certificate would have {len(data)} bytes; at most {MAX_SIZE} are allowed')
    return data


def opened(data: bytes, trust: Mapping[str, Ed25519PublicKey]) -> Certificate:
    """Return the certificate in these bytes if a trusted key signed it. One newline at the end is allowed.

    :raises CertificateInvalid: the bytes are no certificate.
    :raises CertificateUntrusted: they are not signed by a trusted key.
    :raises CertificateAltered: they were changed.
    """
    signed = _parts(data)
    name = signed.key
    if name not in trust:
        what = f'the certificate is signed with key {name}, which is not trusted'
        raise CertificateUntrusted(
            what, hint='if you trust that issuer, add its public key to option [baremetal_acc] certificate_trust or to --trust'
        )
    try:
        trust[name].verify(signed.signature, signed.message)
    except InvalidSignature:
        what = 'the signature does not match: other content was signed, or the certificate was changed afterwards'
        raise CertificateAltered(what) from None
    certificate = signed.read()
    if certificate.key != name:
        raise CertificateInvalid(f'the certificate names key {certificate.key}, but is signed with {name}')
    return certificate


def unchecked(data: bytes) -> Certificate:
    """Return the certificate in these bytes without a check of its signature: for display only, never to be relied on.

    :raises CertificateInvalid: the bytes are no certificate.
    """
    return _parts(data).read()


def load(path: Path) -> Sealer:
    """Load the private key from a PEM file that only its owner can read.

    :raises DocumentError: there is no key, others may use the file, or the key is of another kind.
    """
    data, mode, owner = _bytes(path, 'set by option [baremetal_acc] certificate_key or argument --key')
    if mode & (stat.S_IRWXG | stat.S_IRWXO | stat.S_IXUSR):
        what = f'contains the key of certificates, but other users can access the file (mode {stat.S_IMODE(mode):04o})'
        raise DocumentError(path=str(path), what=what, hint=f'chmod 600 {path}')
    if owner not in (0, os.geteuid()):
        what = 'contains the key of certificates, but belongs to another user'
        raise DocumentError(path=str(path), what=what, hint='make the user of this process its owner')
    if b'PRIVATE KEY-----' not in data:
        raise DocumentError(path=str(path), what='contains no private key in PEM', hint=f'create one: {HOW}')
    try:
        key = serialization.load_pem_private_key(data, None)
    except TypeError:
        what = 'has a passphrase, which cannot be entered here'
        raise DocumentError(path=str(path), what=what, hint=f'to create a key without one: {HOW}') from None
    except (ValueError, UnsupportedAlgorithm):
        raise DocumentError(
            path=str(path), what='contains no private key that can be read', hint=f'create one: {HOW}'
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise DocumentError(path=str(path), what='is not an Ed25519 key', hint=f'create one: {HOW}')
    return Sealer(private=key, name=fingerprint(key.public_key()))


def trusted(paths: Iterable[Path]) -> dict[str, Ed25519PublicKey]:
    """Load the public keys from PEM files, by name; a file may contain several.

    :raises DocumentError: a file cannot be read, others may write it, or it contains something else.
    """
    found: dict[str, Ed25519PublicKey] = {}
    hint = 'to extract the public key of a private key: openssl pkey -in KEY -pubout'
    for path in paths:
        data, mode, owner = _bytes(path, 'set by option [baremetal_acc] certificate_trust or argument --trust')
        if owner not in (0, os.geteuid()) or mode & (stat.S_IWGRP | stat.S_IWOTH):
            what = 'other users can write it, and could add trusted keys'
            raise DocumentError(path=str(path), what=what, hint=f'chown root {path}; chmod go-w {path}')
        blocks = list(_PEM.finditer(data.decode('latin-1')))
        if not blocks:
            raise DocumentError(path=str(path), what='contains no public key in PEM', hint=hint)
        for block in blocks:
            if block[1] != 'PUBLIC KEY':
                what = f'contains a {block[1].lower()}, but may contain only public keys'
                raise DocumentError(path=str(path), what=what, hint=hint)
            try:
                key = serialization.load_pem_public_key(block[0].encode())
            except (ValueError, UnsupportedAlgorithm):
                raise DocumentError(path=str(path), what='contains a public key that cannot be read', hint=hint) from None
            if not isinstance(key, Ed25519PublicKey):
                raise DocumentError(path=str(path), what='holds a public key that is not an Ed25519 key', hint=hint)
            found[fingerprint(key)] = key
    return found


def fingerprint(key: Ed25519PublicKey) -> str:
    """Return the name of a public key: its SHA-256."""
    digest = hashes.Hash(hashes.SHA256())
    digest.update(key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo))
    return f'sha256:{digest.finalize().hex()}'


def digest(data: bytes) -> str:
    """Return the name of the bytes of a signed certificate: their SHA-256."""
    made = hashes.Hash(hashes.SHA256())
    made.update(data)
    return f'sha256:{made.finalize().hex()}'


def packed(data: bytes) -> str:
    """Return the bytes of a signed certificate as a short text: compressed, in base64.

    The payload of a DSSE envelope is compressed as JSON, which takes half the space of its base64; then the text begins with
    ``dsse:``.
    """
    unfolded = _unfolded(data)
    prefix, content = ('', data) if unfolded is None else (_UNFOLDED, unfolded)
    return prefix + base64.b64encode(zlib.compress(content, 9)).decode()


def unpacked(text: str) -> bytes:
    """Return the bytes that :func:`packed` made the text from.

    :raises CertificateInvalid: the text is not such a text, or unpacks to too many bytes.
    """
    unpacker = zlib.decompressobj()
    with suppress(ValueError, zlib.error):
        data = unpacker.decompress(base64.b64decode(text.removeprefix(_UNFOLDED), validate=True), MAX_SIZE + 1)
        if unpacker.eof and not unpacker.unused_data:
            return _folded(data) if text.startswith(_UNFOLDED) else data
    raise CertificateInvalid('the copy that is stored with the node cannot be read: it is truncated or was changed')


def _unfolded(data: bytes) -> bytes | None:
    """Return a DSSE envelope with its payload as JSON in place of base64; None where the bytes are no such envelope."""
    with suppress(NotCanonical, CertificateInvalid):
        envelope = canonical.parse(data, limit=MAX_SIZE)
        payload = canonical.parse(dsse.unwrap(envelope).payload, limit=MAX_SIZE)
        return canonical.encode({**envelope, 'payload': payload})
    return None


def _folded(data: bytes) -> bytes:
    """Return the DSSE envelope that :func:`_unfolded` was given.

    :raises NotCanonical: the bytes are not what it returns.
    """
    envelope = canonical.parse(data, limit=MAX_SIZE)
    if not isinstance(envelope, dict) or 'payload' not in envelope:
        raise NotCanonical('there is no payload')
    return canonical.encode({**envelope, 'payload': dsse.to_base64(canonical.encode(envelope['payload']))})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Signed:
    """A signed certificate whose signature is not checked yet.

    :ivar message: what the signature is over.
    :ivar read: reads the certificate from what was signed.
    """

    key: str
    signature: bytes
    message: bytes
    read: Callable[[], Certificate]


def _earlier_message(body: canonical.Json) -> bytes:
    return _EARLIER_PURPOSE + canonical.encode(body)


def _parts(data: bytes) -> _Signed:
    """Return what a signed certificate consists of, whichever of the two forms it has.

    :raises CertificateInvalid: it has neither.
    """
    whole = _parsed(data.removesuffix(b'\n'))
    if isinstance(whole, dict) and dsse.FIELDS & whole.keys():
        wrapped = dsse.unwrap(whole)
        return _Signed(
            key=wrapped.keyid,
            signature=wrapped.signature,
            message=dsse.pae(wrapped.payload),
            read=lambda: in_toto.read_statement(_parsed(wrapped.payload, 'the payload: ')),
        )
    if not isinstance(whole, dict) or set(whole) != {'certificate', 'signature'}:
        raise CertificateInvalid('the document is neither a DSSE envelope nor an object of certificate and signature')
    body, signature = whole['certificate'], whole['signature']
    if not isinstance(signature, dict) or set(signature) != {'algorithm', 'key', 'value'}:
        raise CertificateInvalid('the signature is not an object of algorithm, key and value')
    if not all(type(text) is str for text in signature.values()):
        raise CertificateInvalid('a value of the signature is not a text')
    if signature['algorithm'] != ALGORITHM:
        raise CertificateInvalid(f'the algorithm of the signature is not {ALGORITHM}: {signature["algorithm"][:40]}')
    return _Signed(
        key=signature['key'],
        signature=dsse.from_base64(signature['value'], 'the value of the signature'),
        message=_earlier_message(body),
        read=lambda: read(body),
    )


def _parsed(data: bytes, where: str = '') -> canonical.Json:
    try:
        return canonical.parse(data, limit=MAX_SIZE)
    except NotCanonical as exc:
        raise CertificateInvalid(f'{where}{exc}') from None


def _bytes(path: Path, hint: str) -> tuple[bytes, int, int]:
    """Read a regular file once, and return its bytes, mode and owner. It does not block on a pipe in place of the file."""
    try:
        with open(path, 'rb', opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK | os.O_CLOEXEC)) as stream:
            found = os.fstat(stream.fileno())
            data = stream.read(_KEY_SIZE + 1) if stat.S_ISREG(found.st_mode) else b''
    except OSError as exc:
        raise DocumentError(path=str(path), what=f'cannot be read: {exc.strerror}', hint=hint) from exc
    if not stat.S_ISREG(found.st_mode):
        raise DocumentError(path=str(path), what='is not a regular file', hint=hint)
    if len(data) > _KEY_SIZE:
        raise DocumentError(path=str(path), what=f'longer than {_KEY_SIZE} bytes', hint=hint)
    return data, found.st_mode, found.st_uid
