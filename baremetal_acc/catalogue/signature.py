# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Who signed this? Ed25519 keys and X.509 certificates, up to the roots that the operator trusts.

A signature lies in a file of its own, beside what it is for::

    format = 1
    [[signature]]
    key = "sha256:..."          # SHA-256 of the public key (SubjectPublicKeyInfo, DER): for a key that is a trust root itself
    certificates = ["..."]      # or this: the signer's certificate and those in between, base64 of DER, each issued by the next
    value = "..."               # base64

The algorithm follows from the kind of the key; nothing in the file chooses it. What is signed begins with a line that says what
for, so that a signature over one kind of thing is none over another.
"""

import base64
import binascii
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID

from baremetal_acc.errors import DocumentError
from baremetal_acc.model import toml
from baremetal_acc.model.image import Image

FORMAT = 1

MAX_SIZE = 256 * 1024
"""Bytes of a file of signatures, of keys or of certificates. A chain takes some thousand."""

_MOST_SIGNATURES, _MOST_CERTIFICATES = 16, 5

_SUFFIXES = ('.pem', '.crt', '.pub')
"""Files that count in a folder of trust roots."""

_CURVES: dict[str, hashes.HashAlgorithm] = {
    'secp256r1': hashes.SHA256(),
    'secp384r1': hashes.SHA384(),
    'secp521r1': hashes.SHA512(),
}

_HASHES = ('sha256', 'sha384', 'sha512')

_SMALLEST_RSA = 2048
"""Bits. Source: NIST SP 800-57 part 1 revision 5, table 2 and 4 (112 bits of strength)."""

_PEM = re.compile(r'-----BEGIN ([A-Z0-9 ]+)-----\s.*?-----END \1-----', re.DOTALL)

_FINGERPRINT = re.compile(r'sha256:[0-9a-f]{64}')

_KNOWN_CRITICAL = frozenset(
    {
        ExtensionOID.BASIC_CONSTRAINTS,
        ExtensionOID.KEY_USAGE,
        ExtensionOID.EXTENDED_KEY_USAGE,
        ExtensionOID.SUBJECT_ALTERNATIVE_NAME,
    }
)
"""Critical extensions that are looked at here, or that limit nothing of what a signature is for."""

PublicKey = ed25519.Ed25519PublicKey | ec.EllipticCurvePublicKey | rsa.RSAPublicKey

PrivateKey = ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


E = TypeVar('E', bound=x509.ExtensionType)


class Untrusted(Exception):
    """Why a signature proves nothing. Whoever asked says of what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Signature:
    key: str | None
    certificates: tuple[bytes, ...]
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """The trust roots.

    :ivar keys: by the SHA-256 of the public key.
    """

    keys: dict[str, ed25519.Ed25519PublicKey]
    authorities: tuple[x509.Certificate, ...]

    def check(self, statement: bytes, text: str, path: str, now: datetime) -> str:
        """At least one signature of a file is a trusted signer's, and is over these very bytes.

        :param text: the file of signatures; ``path`` names it in messages.
        :returns: who signed.
        :raises Untrusted: none is. ``DocumentError``: it is no file of signatures.
        """
        reasons = []
        for n, one in enumerate(_parse(text, path)):
            try:
                key, who = self._signer(one, now)
                _verify(key, one.value, statement)
            except Untrusted as exc:
                reasons.append(f'signature[{n}] {exc}')
            else:
                return who
        raise Untrusted('; '.join(reasons))

    def _signer(self, one: _Signature, now: datetime) -> tuple[PublicKey, str]:
        if one.key is not None:
            if one.key not in self.keys:
                raise Untrusted(f'is by the key {one.key}, which is no trust root')
            return self.keys[one.key], f'key {one.key}'
        chain = _certificates(one.certificates)
        leaf, name = chain[0], _name(chain[0])
        try:
            _check_chain(chain, self.authorities, now)
            key = _usable(leaf.public_key())
        except Untrusted as exc:
            raise Untrusted(f'is by {name}: {exc}') from None
        except (ValueError, TypeError, UnsupportedAlgorithm, x509.DuplicateExtension) as exc:
            raise Untrusted(f'is by {name}: a certificate is malformed ({type(exc).__name__})') from None
        return key, name


@dataclass(frozen=True, slots=True, kw_only=True)
class Signer:
    """A private key, with the certificates that say whose it is."""

    key: PrivateKey
    certificates: tuple[x509.Certificate, ...] = ()

    def __repr__(self) -> str:
        return f'<Signer {self.name}>'

    @property
    def name(self) -> str:
        """As :meth:`Trust.check` names it."""
        return _name(self.certificates[0]) if self.certificates else f'key {fingerprint(self.key.public_key())}'

    def file(self, statement: bytes, kept: tuple[str, str] | None = None) -> str:
        """A file of signatures over these bytes.

        :param kept: text and path of another such file, whose signatures are taken over, as many as a file may hold: those of
            other signers, and this one's over what was there before, so that the file can be put in place first.
        :raises DocumentError: that one is no such file.
        """
        encoded = tuple(c.public_bytes(serialization.Encoding.DER) for c in self.certificates)
        key = None if encoded else fingerprint(self.key.public_key())
        mine = _Signature(key=key, certificates=encoded, value=_sign(self.key, statement))
        others = () if kept is None else _parse(*kept)
        parts = [_text(one) for one in dict.fromkeys((mine, *others))]
        return '\n'.join((f'format = {FORMAT}\n', *parts[:_MOST_SIGNATURES]))


def _text(one: _Signature) -> str:
    def encoded(data: bytes) -> str:
        return f'"{base64.b64encode(data).decode()}"'

    certificates = ', '.join(encoded(c) for c in one.certificates)
    who = f'certificates = [{certificates}]' if one.key is None else f'key = "{one.key}"'
    return f'[[signature]]\n{who}\nvalue = {encoded(one.value)}\n'


def catalogue_statement(data: bytes) -> bytes:
    """What a signature of a catalogue is over: a line that says so, and the bytes of the file."""
    return b'baremetal-acc catalogue 1\n' + data


def image_statement(image: Image) -> bytes:
    """What a signature of an image is over: a line that says so, then its name, size and digest, a line each."""
    return f'baremetal-acc image 1\n{image.name}\n{image.size_bytes}\n{image.digest}\n'.encode()


def fingerprint(key: PublicKey) -> str:
    """How a public key is named."""
    digest = hashes.Hash(hashes.SHA256())
    digest.update(key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo))
    return f'sha256:{digest.finalize().hex()}'


# ------------------------------------------------------------------------------------------------------------ trust roots


def trust(paths: Sequence[Path]) -> Trust:
    """The trust roots of these files and folders.

    :raises DocumentError: one cannot be read, holds something else, or holds none.
    """
    keys: dict[str, ed25519.Ed25519PublicKey] = {}
    authorities: list[x509.Certificate] = []
    for path in _files(paths):
        text = _read(path)
        blocks = list(_PEM.finditer(text))
        if not blocks:
            raise DocumentError(path=str(path), what='holds no public key and no certificate in PEM')
        for block in blocks:
            line = text.count('\n', 0, block.start()) + 1
            try:
                match block[1]:
                    case 'PUBLIC KEY':
                        key = serialization.load_pem_public_key(block[0].encode())
                        if not isinstance(key, ed25519.Ed25519PublicKey):
                            raise ValueError('a public key that is a trust root is an Ed25519 key; others need a certificate')
                        keys[fingerprint(key)] = key
                    case 'CERTIFICATE':
                        authorities.append(_authority(x509.load_pem_x509_certificate(block[0].encode())))
                    case kind if 'PRIVATE' in kind:
                        raise ValueError('a private key: it belongs to the signer alone, never to those who check')
                    case _:
                        raise ValueError('neither a public key nor a certificate')
            except (ValueError, TypeError, UnsupportedAlgorithm, x509.DuplicateExtension) as exc:
                raise DocumentError(path=str(path), line=line, what=f'no trust root: {exc}') from None
    return Trust(keys=keys, authorities=tuple(authorities))


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        try:
            found = sorted(p for p in path.iterdir() if p.suffix in _SUFFIXES and not p.name.startswith('.'))
        except OSError as exc:
            raise DocumentError(path=str(path), what=f'cannot be read: {exc.strerror}') from exc
        if not found:
            raise DocumentError(path=str(path), what=f'holds no trust root: no file that ends with {", ".join(_SUFFIXES)}')
        yield from found


def _read(path: Path) -> str:
    hint = 'option [baremetal_acc] trust_roots names it'
    try:
        with open(path, 'rb', opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK | os.O_CLOEXEC)) as stream:
            mode = os.fstat(stream.fileno()).st_mode
            data = stream.read(MAX_SIZE + 1) if stat.S_ISREG(mode) else b''
    except OSError as exc:
        raise DocumentError(path=str(path), what=f'cannot be read: {exc.strerror}', hint=hint) from exc
    if not stat.S_ISREG(mode):
        raise DocumentError(path=str(path), what='is no regular file', hint=hint)
    if mode & stat.S_IWOTH:
        what = 'everybody may write it, and could sign in your name'
        raise DocumentError(path=str(path), what=what, hint=f'chmod o-w {path}')
    if len(data) > MAX_SIZE:
        raise DocumentError(path=str(path), what=f'longer than {MAX_SIZE} bytes', hint=hint)
    return data.decode('latin-1')  # tools write names of all alphabets around the blocks


def _authority(certificate: x509.Certificate) -> x509.Certificate:
    basic = _extension(certificate, x509.BasicConstraints)
    if basic is None or not basic.ca:
        raise ValueError(
            'a certificate that is a trust root is that of a CA; to trust one signer give his Ed25519 public key instead '
            '(openssl x509 -pubkey)'
        )
    return certificate


# ------------------------------------------------------------------------------------------------------------- signatures


def _parse(text: str, path: str) -> tuple[_Signature, ...]:
    document = toml.read(text, path, format_version=FORMAT)
    tables = document.tables('signature')
    document.finish()
    if not tables:
        raise DocumentError(path=path, what='holds no [[signature]]')
    if len(tables) > _MOST_SIGNATURES:
        raise DocumentError(path=path, what=f'holds more than {_MOST_SIGNATURES} signatures')
    found = []
    for table in tables:
        key, certificates = table.string('key'), table.strings('certificates')
        value = _bytes(table, 'value', table.required_string('value'))
        table.finish()
        if key is not None and not _FINGERPRINT.fullmatch(key):
            raise table.error('key', 'is no SHA-256 of a public key like "sha256:..."')
        if (key is None) is (not certificates):
            raise table.error(None, 'names either key or certificates')
        if certificates and len(certificates) > _MOST_CERTIFICATES:
            raise table.error('certificates', f'more than {_MOST_CERTIFICATES}')
        encoded = tuple(_bytes(table, 'certificates', one) for one in certificates or ())
        found.append(_Signature(key=key, certificates=encoded, value=value))
    return tuple(found)


def _bytes(table: toml.Table, key: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        raise table.error(key, 'no base64') from None


def _certificates(encoded: tuple[bytes, ...]) -> tuple[x509.Certificate, ...]:
    try:
        return tuple(x509.load_der_x509_certificate(one) for one in encoded)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise Untrusted('holds a certificate that cannot be read') from None


def _usable(key: object) -> PublicKey:
    """A key that is strong enough, of a kind that we know."""
    match key:
        case ed25519.Ed25519PublicKey():
            return key
        case ec.EllipticCurvePublicKey() if key.curve.name in _CURVES:
            return key
        case rsa.RSAPublicKey() if key.key_size >= _SMALLEST_RSA:
            return key
        case rsa.RSAPublicKey():
            raise Untrusted(f'its RSA key has {key.key_size} bits, {_SMALLEST_RSA} are the least')
        case _:
            raise Untrusted('its key is neither Ed25519 nor ECDSA (P-256, P-384, P-521) nor RSA')


def _verify(key: PublicKey, value: bytes, statement: bytes) -> None:
    try:
        match key:
            case ed25519.Ed25519PublicKey():
                key.verify(value, statement)
            case ec.EllipticCurvePublicKey():
                key.verify(value, statement, ec.ECDSA(_CURVES[key.curve.name]))
            case _:
                key.verify(value, statement, _PSS, hashes.SHA256())
    except InvalidSignature:
        raise Untrusted('does not fit: what was signed was something else, or it was changed since') from None


def _sign(key: PrivateKey, statement: bytes) -> bytes:
    match key:
        case ed25519.Ed25519PrivateKey():
            return key.sign(statement)
        case ec.EllipticCurvePrivateKey():
            return key.sign(statement, ec.ECDSA(_CURVES[key.curve.name]))
        case _:
            return key.sign(statement, _PSS, hashes.SHA256())


_PSS = padding.PSS(mgf=padding.MGF1(hashes.SHA256()), salt_length=padding.PSS.DIGEST_LENGTH)


# ------------------------------------------------------------------------------------------------------------------ chains


def _check_chain(chain: tuple[x509.Certificate, ...], authorities: tuple[x509.Certificate, ...], now: datetime) -> None:
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
    roots = [a for a in authorities if a.subject == last.issuer and _issued(last, a)]
    if not roots:
        raise Untrusted(f'{_name(last)} was issued by no trust root')
    # A CA that was renewed has two certificates of one key: the one counts that is valid.
    root = next((a for a in roots if _is_valid(a, now)), roots[0])
    path = (*chain, root)
    for depth, certificate in enumerate(path):
        name = 'it' if depth == 0 else _name(certificate)
        if not _is_valid(certificate, now):
            until = f'{certificate.not_valid_before_utc:%Y-%m-%d %H:%M}Z to {certificate.not_valid_after_utc:%Y-%m-%d %H:%M}Z'
            raise Untrusted(f'{name} is valid from {until} only')
        unknown = [e.oid.dotted_string for e in certificate.extensions if e.critical and e.oid not in _KNOWN_CRITICAL]
        if unknown:
            raise Untrusted(f'{name} demands what is not understood here (critical extension {unknown[0]})')
        if depth > 0:
            _check_issuer(certificate, depth - 1, name)
            if not _issued(path[depth - 1], certificate):
                raise Untrusted(f'{_name(path[depth - 1])} was not issued by {name}')
    _check_leaf(path[0])


def _check_issuer(certificate: x509.Certificate, below: int, name: str) -> None:
    """It may issue certificates, with so many others between it and the signer."""
    _usable(certificate.public_key())
    basic, usage = _extension(certificate, x509.BasicConstraints), _extension(certificate, x509.KeyUsage)
    if basic is None or not basic.ca or usage is None or not usage.key_cert_sign:
        raise Untrusted(f'{name} may not issue certificates')
    if basic.path_length is not None and basic.path_length < below:
        raise Untrusted(f'{name} allows fewer certificates below it')


def _check_leaf(certificate: x509.Certificate) -> None:
    basic, usage = _extension(certificate, x509.BasicConstraints), _extension(certificate, x509.KeyUsage)
    purposes = _extension(certificate, x509.ExtendedKeyUsage)
    if basic is not None and basic.ca:
        raise Untrusted('it is the certificate of a CA, not of a signer')
    if usage is None or not usage.digital_signature:
        raise Untrusted('it is not for digital signatures')
    if purposes is None or ExtendedKeyUsageOID.CODE_SIGNING not in purposes:
        raise Untrusted('it is not for code signing')


def _is_valid(certificate: x509.Certificate, now: datetime) -> bool:
    return certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc


def _issued(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    algorithm = certificate.signature_hash_algorithm
    if algorithm is not None and algorithm.name not in _HASHES:
        return False
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _extension(certificate: x509.Certificate, kind: type[E]) -> E | None:
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None


def _name(certificate: x509.Certificate) -> str:
    """Its subject on one line, never longer than a line."""
    try:
        text = certificate.subject.rfc4514_string()
    except ValueError:
        text = ''
    return ''.join(c if c.isprintable() else '?' for c in text)[:200] or 'a certificate without a name'


# ---------------------------------------------------------------------------------------------------------------- signing


def signer(key: Path, certificates: Path | None, passphrase: bytes | None) -> Signer:
    """Who signs with this file of a private key.

    :param certificates: PEM: the signer's certificate, then those in between.
    :raises DocumentError: the key cannot be read, others may read it, or it does not belong to the certificate.
        ``TypeError``: a passphrase is needed, or there is one and none is needed.
    """
    private = _private_key(key, passphrase)
    if certificates is None:
        if not isinstance(private, ed25519.Ed25519PrivateKey):
            what = 'is no Ed25519 key: only those sign without a certificate'
            raise DocumentError(
                path=str(key), what=what, hint='give --certificate, or make one: openssl genpkey -algorithm ed25519'
            )
        return Signer(key=private)
    try:
        chain = tuple(x509.load_pem_x509_certificates(certificates.read_bytes()))
        _check_leaf(chain[0])
        same = fingerprint(_usable(chain[0].public_key())) == fingerprint(private.public_key())
    except OSError as exc:
        raise DocumentError(path=str(certificates), what=f'cannot be read: {exc.strerror}') from exc
    except Untrusted as exc:
        raise DocumentError(path=str(certificates), what=f'nobody would accept the first certificate: {exc}') from None
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.DuplicateExtension):
        raise DocumentError(path=str(certificates), what='holds no certificate in PEM that can be read') from None
    if not same:
        what = f'the first certificate is of another key than that of {key}'
        raise DocumentError(path=str(certificates), what=what, hint="the signer's own certificate comes first")
    if len(chain) > _MOST_CERTIFICATES:
        raise DocumentError(path=str(certificates), what=f'holds more than {_MOST_CERTIFICATES} certificates')
    return Signer(key=private, certificates=chain)


def _private_key(path: Path, passphrase: bytes | None) -> PrivateKey:
    try:
        with open(path, 'rb', opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK | os.O_CLOEXEC)) as stream:
            mode = os.fstat(stream.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise DocumentError(path=str(path), what='is no regular file')
            if mode & (stat.S_IRWXG | stat.S_IRWXO | stat.S_IXUSR):
                what = f'holds a private key, and others may use the file (mode {stat.S_IMODE(mode):04o})'
                raise DocumentError(path=str(path), what=what, hint=f'chmod 600 {path}')
            data = stream.read(MAX_SIZE + 1)
    except OSError as exc:
        raise DocumentError(path=str(path), what=f'cannot be read: {exc.strerror}') from exc
    try:
        key = serialization.load_pem_private_key(data, passphrase)
        _usable(key.public_key())
    except (ValueError, UnsupportedAlgorithm):
        wrong = 'or the passphrase is wrong' if passphrase is not None else 'in PEM'
        raise DocumentError(path=str(path), what=f'holds no private key that can be read {wrong}') from None
    except Untrusted as exc:
        raise DocumentError(path=str(path), what=str(exc)) from None
    if not isinstance(key, PrivateKey):
        raise DocumentError(path=str(path), what='holds a key of a kind that cannot sign')
    return key
