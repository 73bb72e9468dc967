# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which keys may sign, and does a signature fit one of them? The algorithm follows from the kind of the key."""

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

MAX_SIZE = 256 * 1024
"""Bytes of a file of signatures, of keys or of certificates. A chain takes some thousand."""

_CURVES: dict[str, hashes.HashAlgorithm] = {
    'secp256r1': hashes.SHA256(),
    'secp384r1': hashes.SHA384(),
    'secp521r1': hashes.SHA512(),
}

_SMALLEST_RSA = 2048
"""Bits. Source: NIST SP 800-57 part 1 revision 5, table 2 and 4 (112 bits of strength)."""

_PSS = padding.PSS(mgf=padding.MGF1(hashes.SHA256()), salt_length=padding.PSS.DIGEST_LENGTH)

PublicKey = ed25519.Ed25519PublicKey | ec.EllipticCurvePublicKey | rsa.RSAPublicKey

PrivateKey = ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


class Untrusted(Exception):
    """Why a signature proves nothing. Whoever asked says of what."""


def fingerprint(key: PublicKey) -> str:
    """How a public key is named."""
    digest = hashes.Hash(hashes.SHA256())
    digest.update(key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo))
    return f'sha256:{digest.finalize().hex()}'


def usable(key: object) -> PublicKey:
    """A key that is strong enough, of a kind that we know.

    :raises Untrusted: it is another one.
    """
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


def verify(key: PublicKey, value: bytes, statement: bytes) -> None:
    """The value is this key's signature over these very bytes.

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
        raise Untrusted('does not fit: what was signed was something else, or it was changed since') from None


def sign(key: PrivateKey, statement: bytes) -> bytes:
    """What :func:`verify` takes."""
    match key:
        case ed25519.Ed25519PrivateKey():
            return key.sign(statement)
        case ec.EllipticCurvePrivateKey():
            return key.sign(statement, ec.ECDSA(_CURVES[key.curve.name]))
        case _:
            return key.sign(statement, _PSS, hashes.SHA256())
