# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Keys and certificates as signers have them, good ones and bad ones."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)

YEAR = timedelta(days=365)


def key(kind: str = 'ed25519') -> Any:
    """A private key."""
    match kind:
        case 'ed25519':
            return ed25519.Ed25519PrivateKey.generate()
        case 'p256':
            return ec.generate_private_key(ec.SECP256R1())
        case 'p384':
            return ec.generate_private_key(ec.SECP384R1())
        case 'k1':
            return ec.generate_private_key(ec.SECP256K1())
        case _:
            return rsa.generate_private_key(public_exponent=65537, key_size=int(kind.removeprefix('rsa')))


def private_pem(private: Any, passphrase: bytes | None = None) -> bytes:
    """What openssl genpkey writes."""
    encryption = serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
    return private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


def public_pem(private: Any) -> bytes:
    """What openssl pkey -pubout writes."""
    encoding, form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    return private.public_key().public_bytes(encoding, form)


def pem(*certificates: x509.Certificate) -> bytes:
    """One after another."""
    return b''.join(c.public_bytes(serialization.Encoding.PEM) for c in certificates)


def secret_file(path: Path, data: bytes, mode: int = 0o600) -> Path:
    """A file that only its owner can read."""
    path.write_bytes(data)
    path.chmod(mode)
    return path


def certificate(
    name: str,
    own: Any,
    issuer: tuple[str, Any] | None = None,
    *,
    ca: bool = False,
    length: int | None = None,
    purpose: Any = ExtendedKeyUsageOID.CODE_SIGNING,
    signs: bool = True,
    since: datetime = NOW - YEAR,
    until: datetime = NOW + YEAR,
    critical: Any = None,
    digest: Any = None,
) -> x509.Certificate:
    """A certificate of the key ``own``.

    :param issuer: name and key of who issues it; itself when None.
    :param purpose: extended key usage, None for none at all.
    """
    by, issuing = issuer or (name, own)
    usage = dict.fromkeys(
        (
            'digital_signature',
            'content_commitment',
            'key_encipherment',
            'data_encipherment',
            'key_agreement',
            'key_cert_sign',
            'crl_sign',
            'encipher_only',
            'decipher_only',
        ),
        False,
    )
    usage['key_cert_sign' if ca else 'digital_signature'] = signs
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, by)]))
        .public_key(own.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(since)
        .not_valid_after(until)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=length), critical=True)
        .add_extension(x509.KeyUsage(**usage), critical=True)
    )
    if purpose is not None and not ca:
        builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
    if critical is not None:
        builder = builder.add_extension(critical, critical=True)
    plain = isinstance(issuing, ed25519.Ed25519PrivateKey)
    return builder.sign(issuing, None if plain else digest or hashes.SHA256())
