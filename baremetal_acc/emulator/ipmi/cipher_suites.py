# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The cipher suites of an emulated BMC: keyed digests, and the encryption of payloads.

Source: IPMI 2.0 revision 1.1, sections 13 and 22.15.
"""

import hmac
import secrets
from dataclasses import dataclass

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatedSuite:
    """A cipher suite; the algorithms are those of tables 13-17 to 13-19."""

    number: int
    algorithms: tuple[int, int, int]
    digest: str
    check_bytes: int

    def mac(self, key: bytes, data: bytes) -> bytes:
        """The keyed digest."""
        return hmac.new(key, data, self.digest).digest()

    @property
    def record(self) -> bytes:
        """The record of the suite in Get Channel Cipher Suites."""
        authentication, integrity, confidentiality = self.algorithms
        return bytes((0xC0, self.number, authentication, 0x40 | integrity, 0x80 | confidentiality))


SUITES = {
    3: EmulatedSuite(number=3, algorithms=(1, 1, 1), digest='sha1', check_bytes=12),
    17: EmulatedSuite(number=17, algorithms=(3, 4, 1), digest='sha256', check_bytes=16),
}


def encrypt_payload(key: bytes, data: bytes) -> bytes:
    """An initialisation vector, and the data with its padding, encrypted by AES-CBC-128."""
    pad = -(len(data) + 1) % 16
    start = secrets.token_bytes(16)
    cipher = Cipher(algorithms.AES(key), modes.CBC(start)).encryptor()
    return start + cipher.update(data + bytes(range(1, pad + 1)) + bytes((pad,))) + cipher.finalize()


def decrypt_payload(key: bytes, payload: bytes) -> bytes | None:
    """The data of a payload; None where its length or its padding is wrong."""
    if len(payload) < 32 or len(payload) % 16:
        return None
    cipher = Cipher(algorithms.AES(key), modes.CBC(payload[:16])).decryptor()
    plain = cipher.update(payload[16:]) + cipher.finalize()
    pad = plain[-1]
    if pad > 15 or plain[-pad - 1 : -1] != bytes(range(1, pad + 1)):
        return None
    return plain[: -pad - 1]
