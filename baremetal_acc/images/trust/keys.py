# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Public keys that may sign, and the creation and check of one signature. The kind of the key determines the algorithm."""

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

MAX_SIZE = 256 * 1024
"""Most bytes of a file of signatures, of keys or of certificates. A chain takes some thousand."""

_CURVES: dict[str, hashes.HashAlgorithm] = {
    'secp256r1': hashes.SHA256(),
    'secp384r1': hashes.SHA384(),
    'secp521r1': hashes.SHA512(),
}

_SMALLEST_RSA = 2048
"""Least bits of an RSA key. Source: NIST SP 800-57 part 1 revision 5, table 2 and 4 (112 bits of strength)."""

_PSS = padding.PSS(mgf=padding.MGF1(hashes.SHA256()), salt_length=padding.PSS.DIGEST_LENGTH)

UNREADABLE: tuple[type[Exception], ...] = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
"""What cryptography raises for a certificate or a key that it cannot read, when it is loaded or when a part of it is used."""

PublicKey = ed25519.Ed25519PublicKey | ec.EllipticCurvePublicKey | rsa.RSAPublicKey

PrivateKey = ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


class Untrusted(Exception):
    """A signature proves nothing; the text says why. The caller names the signed thing."""


def fingerprint(key: PublicKey) -> str:
    """Return the name of a public key: its SHA-256."""
    digest = hashes.Hash(hashes.SHA256())
    digest.update(key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo))
    return f'sha256:{digest.finalize().hex()}'


def usable(key: object) -> PublicKey:
    """Return the key if it is strong enough, and of a supported kind.

    :raises Untrusted: the key is not.
    """
    match key:
        case ed25519.Ed25519PublicKey():
            return key
        case ec.EllipticCurvePublicKey() if key.curve.name in _CURVES:
            return key
        case rsa.RSAPublicKey() if key.key_size >= _SMALLEST_RSA:
            return key
        case rsa.RSAPublicKey():
            raise Untrusted(f'its RSA key has {key.key_size} bits; at least {_SMALLEST_RSA} are required')
        case _:
            raise Untrusted('its key is neither Ed25519 nor ECDSA (P-256, P-384, P-521) nor RSA')


def verify(key: PublicKey, value: bytes, statement: bytes) -> None:
    """Check that the value is this key's signature over these very bytes.

    :raises Untrusted: it is not.
    """
    try:
        match key:
            case ed25519.Ed25519PublicKey():
                key.verify(value, statement)
            case ec.EllipticCurvePublicKey():
                key.verify(value, statement, ec.ECDSA(_CURVES[key.curve.name]))
            case _:
                key.verify(value, statement, _PSS, hashes.SHA256())
    except InvalidSignature:
        raise Untrusted('does not match: other content was signed, or it was changed afterwards') from None


def sign(key: PrivateKey, statement: bytes) -> bytes:
    """Return a signature that :func:`verify` accepts."""
    match key:
        case ed25519.Ed25519PrivateKey():
            return key.sign(statement)
        case ec.EllipticCurvePrivateKey():
            return key.sign(statement, ec.ECDSA(_CURVES[key.curve.name]))
        case _:
            return key.sign(statement, _PSS, hashes.SHA256())
