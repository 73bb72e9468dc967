# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A device that signs measurements, made from the words of DSP0274 alone: it shares no code with what checks it, nor with the
emulator. Each part of an exchange can be another than it should be."""

import hashlib
import struct
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils
from cryptography.x509.oid import NameOID, ObjectIdentifier

from baremetal_acc.model.measurement import SignedMeasurements
from baremetal_acc.model.ref import AcceleratorId, BmcName, Ref

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
NONCE = bytes(range(32))
FIRMWARE = hashlib.sha384(b'firmware 1').digest()
NORMAL_MODE = struct.pack('<IIII', 0b100, 0b100, 0x1F, 0)

P256 = (0x10, 'TPM_ALG_ECDSA_ECC_NIST_P256')
P384 = (0x80, 'TPM_ALG_ECDSA_ECC_NIST_P384')
ED25519 = (0x400, 'EdDSA ed25519')
RSASSA_2048 = (0x01, 'TPM_ALG_RSASSA_2048')
RSAPSS_2048 = (0x02, 'TPM_ALG_RSAPSS_2048')
SHA256 = (0x01, 'TPM_ALG_SHA_256', hashlib.sha256, hashes.SHA256())
SHA384 = (0x02, 'TPM_ALG_SHA_384', hashlib.sha384, hashes.SHA384())


def block(index: int, kind: int, value: bytes, *, specification: int = 1) -> bytes:
    """A measurement block: index, specification, size; type, size, value."""
    inner = struct.pack('<BH', kind, len(value)) + value
    return struct.pack('<BBH', index, specification, len(inner)) + inner


FIRMWARE_BLOCK = block(2, 0x01, FIRMWARE)
MODE_BLOCK = block(0xFE, 0x85, NORMAL_MODE)


def certificate(
    subject: str,
    key,
    issuer: str,
    issuer_key,
    *,
    ca: bool,
    days: tuple[int, int] = (-1, 3650),
    path_length: int | None = None,
    digital_signature: bool = True,
    purposes: tuple[str, ...] = (),
    critical: str | None = None,
    signs_lists: bool = False,
):
    """One certificate, by another's key."""

    def name(text: str):
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    usage = x509.KeyUsage(digital_signature and not ca, False, False, False, False, ca, signs_lists, False, False)
    made = (
        x509.CertificateBuilder()
        .subject_name(name(subject))
        .issuer_name(name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW + timedelta(days=days[0]))
        .not_valid_after(NOW + timedelta(days=days[1]))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=path_length), critical=True)
        .add_extension(usage, critical=True)
    )
    if purposes:
        made = made.add_extension(x509.ExtendedKeyUsage([ObjectIdentifier(one) for one in purposes]), critical=False)
    if critical:
        made = made.add_extension(x509.UnrecognizedExtension(ObjectIdentifier(critical), b'\x05\x00'), critical=True)
    return made.sign(issuer_key, None if isinstance(issuer_key, ed25519.Ed25519PrivateKey) else hashes.SHA384())


def pem(*certificates) -> str:
    """Certificates as text."""
    return ''.join(c.public_bytes(serialization.Encoding.PEM).decode() for c in certificates)


ROOT_KEY, BETWEEN_KEY = ec.generate_private_key(ec.SECP384R1()), ec.generate_private_key(ec.SECP384R1())
ROOT = certificate('root', ROOT_KEY, 'root', ROOT_KEY, ca=True)
BETWEEN = certificate('between', BETWEEN_KEY, 'root', ROOT_KEY, ca=True)
KEYS = {
    P256: ec.generate_private_key(ec.SECP256R1()),
    P384: ec.generate_private_key(ec.SECP384R1()),
    ED25519: ed25519.Ed25519PrivateKey.generate(),
    RSASSA_2048: rsa.generate_private_key(65537, 2048),
}
KEYS[RSAPSS_2048] = KEYS[RSASSA_2048]


def leaf(signing=P384, **otherwise):
    """The device's own certificate."""
    return certificate('device', KEYS[signing], 'between', BETWEEN_KEY, ca=False, **otherwise)


LEAVES = {signing: leaf(signing) for signing in KEYS}


@dataclass(frozen=True, kw_only=True)
class Device:
    """What a device answers, and how."""

    minor: int = 2
    signing: tuple = P384
    hashing: tuple = SHA384
    nonce: bytes = NONCE
    slot: int = 0
    answered_slot: int | None = None
    blocks: tuple[bytes, ...] = (FIRMWARE_BLOCK, MODE_BLOCK)
    count: int | None = None
    operation: int = 0xFF
    attributes: int = 1
    changed: int = 0
    context: bytes = b'contextx'
    answered_context: bytes | None = None
    measuring: int = 0x04
    specification: int = 1
    before: bytes = b''
    after: bytes = b''
    key: object = None
    signing_prefix: bytes | None = None
    opaque: bytes = b'opaque'
    negotiation: bool = True
    claims: dict = field(default_factory=dict)

    def head(self, code: int, first: int = 0, second: int = 0) -> bytes:
        """The four bytes of every message."""
        return bytes([0x10 | self.minor, code, first, second])

    def vca(self) -> bytes:
        """GET_VERSION to ALGORITHMS; SPDM 1.1 does not sign it."""
        if self.minor < 2 or not self.negotiation:
            return b''
        capabilities = bytes(16)
        request = struct.pack('<HBBII12sBBH', 32, 1, 2, self.signing[0], self.hashing[0], b'', 0, 0, 0)
        chosen = (36, self.specification, 2, self.measuring, self.signing[0], self.hashing[0], b'', 0, 0, 0)
        return (
            b'\x10\x84\0\0' + b'\x10\x04\0\0' + bytes([0, 1]) + struct.pack('<H', (0x10 | self.minor) << 8)
            + self.head(0xE1) + capabilities + self.head(0x61) + capabilities
            + self.head(0xE3) + request + self.head(0x63) + struct.pack('<HBBIII12sBBH', *chosen)
        )  # fmt: skip

    def exchange(self, *, operation: int, signed: bool, blocks: tuple[bytes, ...], total: int = 0) -> bytes:
        """A request and its answer, without the signature."""
        record = b''.join(blocks)
        context = self.context if self.minor >= 3 else b''
        answered = (self.answered_context or self.context) if self.minor >= 3 else b''
        request = self.head(0xE0, self.attributes if signed else 0, operation)
        request += self.nonce + bytes([self.slot]) if signed else b''
        second = (self.slot if self.answered_slot is None else self.answered_slot) | self.changed << 4
        return (
            request + context + self.head(0x60, total, second)
            + bytes([len(blocks) if self.count is None else self.count]) + len(record).to_bytes(3, 'little') + record
            + b'\x5a' * 32 + struct.pack('<H', len(self.opaque)) + self.opaque + answered
        )  # fmt: skip

    def body(self) -> bytes:
        """All that is signed."""
        return self.vca() + self.before + self.exchange(operation=self.operation, signed=True, blocks=self.blocks)

    def signature(self, data: bytes) -> bytes:
        """The signature over the body, as the version has it."""
        key, (_, _, digest, algorithm) = self.key or KEYS[self.signing], self.hashing
        if self.minor >= 2:
            words = f'dmtf-spdm-v1.{self.minor}.*'.encode() * 4
            context = b'responder-measurements signing'
            before = words + bytes(36 - len(context)) + context if self.signing_prefix is None else self.signing_prefix
            data = before + digest(data).digest()
        if isinstance(key, ed25519.Ed25519PrivateKey):
            return key.sign(data)
        if isinstance(key, rsa.RSAPrivateKey):
            pss = padding.PSS(mgf=padding.MGF1(algorithm), salt_length=algorithm.digest_size)
            return key.sign(data, padding.PKCS1v15() if self.signing == RSASSA_2048 else pss, algorithm)
        size = (key.curve.key_size + 7) // 8
        numbers = utils.decode_dss_signature(key.sign(data, ec.ECDSA(algorithm)))
        return b''.join(n.to_bytes(size, 'big') for n in numbers)

    def transcript(self) -> bytes:
        """What a BMC gives as SignedMeasurements."""
        data = self.body()
        return data + self.signature(data) + self.after

    def brought(self, chain: str | None = None, **otherwise) -> SignedMeasurements:
        """What a BMC brings."""
        made = SignedMeasurements(
            accelerator=AcceleratorId('uuid:1'),
            ref=Ref(bmc=BmcName('host'), uri='/redfish/v1/ComponentIntegrity/ROT_0'),
            integrity='ROT_0',
            nonce=NONCE,
            slot=0,
            transcript=self.transcript(),
            certificates=pem(ROOT, BETWEEN, LEAVES[self.signing]) if chain is None else chain,
            version=f'1.{self.minor}.0',
            hashing=self.hashing[1],
            signing=self.signing[1],
            at=NOW,
            session='host-1',
        )
        return replace(made, **otherwise)
