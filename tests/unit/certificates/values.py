# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Certificates to be signed, and keys to sign them with."""

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from baremetal_acc.certificates.envelope import Sealer, fingerprint
from baremetal_acc.model import canonical
from baremetal_acc.model.certificate import Certificate, document
from tests.unit.certificates.test_statement import issued


def sealer(number: int = 1) -> Sealer:
    """The same key for the same number."""
    key = Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)
    return Sealer(private=key, name=fingerprint(key.public_key()))


def certificate(by: Sealer | None = None, **changes) -> Certificate:
    """One that names the key it is to be signed with."""
    return replace(issued(), **({'key': (by or sealer()).name} | changes))


def sealed_as_before(
    certificate: Certificate, by: Sealer, purpose: bytes = b'baremetal-acc hand-over certificate 1\n'
) -> bytes:
    """Signed in the form of earlier versions: by this test, not by our code."""
    body = document(certificate)
    value = base64.b64encode(by.private.sign(purpose + canonical.encode(body))).decode()
    return canonical.encode({'certificate': body, 'signature': {'algorithm': 'Ed25519', 'key': by.name, 'value': value}})


def altered(data: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """An envelope with another payload, under the old signature."""
    envelope: dict[str, Any] = json.loads(data)
    before = base64.b64decode(envelope['payload'])
    after = change(before)
    assert after != before
    return canonical.encode({**envelope, 'payload': base64.b64encode(after).decode()})


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
