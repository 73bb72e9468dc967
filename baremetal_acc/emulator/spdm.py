# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""SPDM signed measurements of an emulated root of trust: the bytes that responder and requester exchange, signed by the device.

Keys and certificates are generated for each machine: a root of the manufacturer, a CA below it, and one certificate for each
device. A device signs with ECDSA P-384 and SHA-384 and measures with SHA-256: the measurement of firmware is the digest of the
image that its bank holds.

Source: DSP0274 1.1.4, 1.2.3 and 1.3.2, GET_VERSION to MEASUREMENTS, signature generation.
"""

import datetime
import functools
import hashlib
import secrets
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.x509.oid import NameOID

VALIDITY = datetime.timedelta(days=365)
MADE = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
"""When the device certificates become valid: long before any clock of a test."""

SIGNING = 'TPM_ALG_ECDSA_ECC_NIST_P384'
HASHING = 'TPM_ALG_SHA_384'
MEASURING = 'sha256'

ROM, FIRMWARE, HARDWARE, FIRMWARE_CONFIGURATION, MODE = 0x00, 0x01, 0x02, 0x03, 0x05
RAW = 0x80
MODE_INDEX = 0xFE
ALL = 0xFF

_P384, _SHA384, _MEASURE_SHA256 = 0x80, 0x02, 0x02
_NORMAL, _DEBUG_POSSIBLE, _INVASIVE_DEBUG = 0b100, 0b11111, 0b10


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementBlock:
    """A measurement block: its index, its type (with 0x80: a raw value), its value."""

    index: int
    kind: int
    value: bytes

    def encoded(self) -> bytes:
        """The block as in a measurement record."""
        inner = struct.pack('<BH', self.kind, len(self.value)) + self.value
        return struct.pack('<BBH', self.index, 1, len(inner)) + inner


def mode(*, debug: bool = False) -> MeasurementBlock:
    """The block that reports the device mode: normal operation, or invasive debug mode."""
    state = _INVASIVE_DEBUG if debug else 0
    return MeasurementBlock(
        index=MODE_INDEX, kind=RAW | MODE, value=struct.pack('<IIII', _NORMAL, _NORMAL, _DEBUG_POSSIBLE, state)
    )


def opaque_version(version: str) -> bytes:
    """Opaque data that names a VBIOS version as NVSwitches do: one field of type 6, as text.

    Source: evidence of LS10 in NVIDIA/attestation-sdk 73c032eb.
    """
    return struct.pack('<HH', 6, len(version)) + version.encode('ascii') if version.isascii() else b''


class Authority:
    """The manufacturer of devices: a root, and the CA that issues the certificates of devices."""

    def __init__(self, name: str = 'Emulated maker') -> None:
        self.name = name

    @functools.cached_property
    def _root(self) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
        return _issue(f'{self.name} root', None, ca=True)

    @functools.cached_property
    def _between(self) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
        return _issue(f'{self.name} devices', self._root, ca=True)

    def root(self) -> bytes:
        """The root certificate that a client pins, PEM."""
        return _pem(self._root[1])

    @functools.cached_property
    def elsewhere(self) -> 'SpdmIdentity':
        """The identity of a genuine device of another machine."""
        return self.device('Emulated device elsewhere')

    def device(self, name: str, *, expired: bool = False) -> 'SpdmIdentity':
        """Issue the certificate of one device, with the chain above it."""
        key, certificate = _issue(name, self._between, ca=False, expired=expired)
        return SpdmIdentity(key=key, chain=(self._root[1], self._between[1], certificate))


@dataclass(frozen=True, slots=True, kw_only=True)
class SpdmIdentity:
    """The key of a device, and its certificates from the root down, the order of SPDM's certificate chain.

    Source: DSP0274 1.2.3, certificate chain format.
    """

    key: ec.EllipticCurvePrivateKey
    chain: tuple[x509.Certificate, ...]

    def certificate_string(self) -> str:
        """The chain as a BMC's CertificateString has it: PEM, the certificate of the device first, the root last.

        DSP8010 does not say which order a PEMchain has. DMTF's rf_component_integrity.py (redfish_utilities 3.5.2) takes the
        first certificate for that of the device.
        """
        return _pem(*reversed(self.chain)).decode()

    def sign(self, version: str, data: bytes) -> bytes:
        """Sign a transcript."""
        if version != '1.1':
            context = b'responder-measurements signing'
            data = f'dmtf-spdm-v{version}.*'.encode() * 4 + bytes(36 - len(context)) + context + hashlib.sha384(data).digest()
        numbers = decode_dss_signature(self.key.sign(data, ec.ECDSA(hashes.SHA384())))
        return b''.join(number.to_bytes(48, 'big') for number in numbers)


def transcript(
    identity: SpdmIdentity,
    blocks: Sequence[MeasurementBlock],
    *,
    nonce: bytes,
    slot: int = 0,
    version: str = '1.2',
    signed: bool = True,
    opaque: bytes = b'',
) -> bytes:
    """The transcript of the exchange between the BMC's requester and the device, with the device's signature over it."""
    code = 0x10 | int(version.removeprefix('1.'))

    def head(message: int, first: int = 0, second: int = 0) -> bytes:
        return bytes((code, message, first, second))

    said = b''
    if version != '1.1':
        nothing = bytes(16)
        asked = struct.pack('<HBBII12sBBH', 32, 1, 2, _P384, _SHA384, b'', 0, 0, 0)
        chosen = struct.pack('<HBBIII12sBBH', 36, 1, 2, _MEASURE_SHA256, _P384, _SHA384, b'', 0, 0, 0)
        said = b'\x10\x84\x00\x00\x10\x04\x00\x00\x00\x01' + bytes((0, code))
        said += head(0xE1) + nothing + head(0x61) + nothing + head(0xE3) + asked + head(0x63) + chosen
    context = bytes(8) if version == '1.3' else b''
    record = b''.join(block.encoded() for block in blocks)
    said += head(0xE0, int(signed), ALL) + (nonce + bytes((slot,)) if signed else b'') + context
    said += head(0x60, 0, slot) + bytes((len(blocks),)) + len(record).to_bytes(3, 'little') + record
    said += secrets.token_bytes(32) + len(opaque).to_bytes(2, 'little') + opaque + context
    return said + identity.sign(version, said) if signed else said


def _issue(
    name: str,
    issuer: tuple[ec.EllipticCurvePrivateKey, x509.Certificate] | None,
    *,
    ca: bool,
    expired: bool = False,
) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP384R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    ends = now - datetime.timedelta(days=1) if expired else now + VALIDITY
    usage = x509.KeyUsage(
        digital_signature=not ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=ca,
        crl_sign=ca,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer[1].subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(MADE)
        .not_valid_after(ends)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .sign(key if issuer is None else issuer[0], hashes.SHA384())
    )
    return key, certificate


def _pem(*certificates: x509.Certificate) -> bytes:
    return b''.join(one.public_bytes(serialization.Encoding.PEM) for one in certificates)
