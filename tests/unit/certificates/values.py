# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Certificates to be signed, and keys to sign them with."""

from dataclasses import replace
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from baremetal_acc.certificates.envelope import Sealer, fingerprint
from baremetal_acc.model.certificate import Certificate
from tests.unit.certificates.test_statement import issued


def sealer(number: int = 1) -> Sealer:
    """The same key for the same number."""
    key = Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)
    return Sealer(private=key, name=fingerprint(key.public_key()))


def certificate(by: Sealer | None = None, **changes) -> Certificate:
    """One that names the key it is to be signed with."""
    return replace(issued(), **({'key': (by or sealer()).name} | changes))


def write_key(path: Path, by: Sealer, *, public: bool = False, mode: int = 0o600) -> Path:
    """The key in PEM, as openssl writes it."""
    if public:
        data = by.private.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    else:
        data = by.private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    path.write_bytes(data)
    path.chmod(mode)
    return path
