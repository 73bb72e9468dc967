# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Parse the transcript of an SPDM measurement exchange: requests, measurement blocks, and the bytes that were signed.

SPDM 1.1 signs the GET_MEASUREMENTS requests and their MEASUREMENTS responses; 1.2 and 1.3 put the negotiation before them
(VCA). All bytes come from a BMC and are hostile: no length is followed beyond the bytes that there are, and both missing and
surplus bytes are refused.

Source: DSP0274 1.1.4, 1.2.3 and 1.3.2, GET_MEASUREMENTS request and MEASUREMENTS response, ALGORITHMS response, measurement
block, DMTF measurement specification, L1/L2; DSP8010 2025.4, ComponentIntegrity v1_3_2, SPDMGetSignedMeasurementsResponse.
"""

import hashlib
from dataclasses import dataclass

from baremetal_acc.images.trust.keys import Untrusted
from baremetal_acc.model.measurement import NONCE_BYTES, Measurement

VERSIONS = {0x11: '1.1', 0x12: '1.2', 0x13: '1.3'}

MAX_TRANSCRIPT = 256 * 1024
"""Most bytes of a transcript. A record has at most 254 blocks; the known real ones take less than 8 KiB."""

SIGNING: dict[int, str] = {
    0x001: 'TPM_ALG_RSASSA_2048', 0x002: 'TPM_ALG_RSAPSS_2048', 0x004: 'TPM_ALG_RSASSA_3072', 0x008: 'TPM_ALG_RSAPSS_3072',
    0x010: 'TPM_ALG_ECDSA_ECC_NIST_P256', 0x020: 'TPM_ALG_RSASSA_4096', 0x040: 'TPM_ALG_RSAPSS_4096',
    0x080: 'TPM_ALG_ECDSA_ECC_NIST_P384', 0x100: 'TPM_ALG_ECDSA_ECC_NIST_P521', 0x400: 'EdDSA ed25519',
}  # fmt: skip
"""BaseAsymSel. Other algorithms (SM2, Ed448, extended ones) are not checked, and prove nothing."""

SIGNATURE_BYTES: dict[str, int] = {
    'TPM_ALG_RSASSA_2048': 256, 'TPM_ALG_RSAPSS_2048': 256, 'TPM_ALG_RSASSA_3072': 384, 'TPM_ALG_RSAPSS_3072': 384,
    'TPM_ALG_ECDSA_ECC_NIST_P256': 64, 'TPM_ALG_RSASSA_4096': 512, 'TPM_ALG_RSAPSS_4096': 512,
    'TPM_ALG_ECDSA_ECC_NIST_P384': 96, 'TPM_ALG_ECDSA_ECC_NIST_P521': 132, 'EdDSA ed25519': 64,
}  # fmt: skip

HASHING: dict[int, str] = {
    0x01: 'TPM_ALG_SHA_256', 0x02: 'TPM_ALG_SHA_384', 0x04: 'TPM_ALG_SHA_512',
    0x08: 'TPM_ALG_SHA3_256', 0x10: 'TPM_ALG_SHA3_384', 0x20: 'TPM_ALG_SHA3_512',
}  # fmt: skip
"""BaseHashSel. MeasurementHashAlgo has the same algorithms one bit higher: its lowest bit means that nothing is hashed."""

HASHES: dict[str, str] = {
    'TPM_ALG_SHA_256': 'sha256', 'TPM_ALG_SHA_384': 'sha384', 'TPM_ALG_SHA_512': 'sha512',
    'TPM_ALG_SHA3_256': 'sha3_256', 'TPM_ALG_SHA3_384': 'sha3_384', 'TPM_ALG_SHA3_512': 'sha3_512',
}  # fmt: skip

KINDS = (
    'immutable-rom',
    'mutable-firmware',
    'hardware-configuration',
    'firmware-configuration',
    'manifest',
    'device-mode',
    'firmware-version',
    'security-version',
    'hash-extended',
    'informational',
    'structured-manifest',
)
"""DMTFSpecMeasurementValueType, bits 6 to 0."""

DEVICE_MODE = 'device-mode'

_LONGEST_RAW = 64
"""Most bytes of a raw value that is kept as it is; a longer one is kept as its SHA-256."""

_DMTF = 0x01
_RAW = 0x80
_ALL = 0xFF
_SIGNED, _RAW_REQUESTED, _NEW_REQUESTED = 0x01, 0x02, 0x04
_CHANGED = 0x10
_CODES = {
    0x84: 'GET_VERSION', 0x04: 'VERSION', 0xE1: 'GET_CAPABILITIES', 0x61: 'CAPABILITIES', 0xE3: 'NEGOTIATE_ALGORITHMS',
    0x63: 'ALGORITHMS', 0xE0: 'GET_MEASUREMENTS', 0x60: 'MEASUREMENTS', 0x7F: 'ERROR',
}  # fmt: skip

_MODES = {0: 'manufacturing', 1: 'validation', 3: 'recovery', 4: 'RMA', 5: 'decommissioned'}
"""Operational modes other than the normal one, which is bit 2."""

_NORMAL = 1 << 2

_DEBUG = {
    0: 'non-invasive debug mode is active',
    1: 'invasive debug mode is active',
    2: 'non-invasive debug mode was active since the last reset',
    3: 'invasive debug mode was active since the last reset',
}
_DEBUGGED_ONCE = 1 << 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """A parsed measurement exchange.

    :ivar nonce: nonce of the signed request; ``slot`` is the certificate slot in it.
    :ivar signing: the algorithm as negotiated in the transcript; None where the transcript does not contain it (SPDM 1.1).
        ``hashing`` likewise.
    :ivar signed: the bytes that were signed: L1/L2.
    :ivar mode: the raw device mode blocks.
    :ivar opaque: the opaque data of the signed response.
    """

    version: str
    nonce: bytes
    slot: int
    signing: str | None
    hashing: str | None
    signed: bytes
    signature: bytes
    measurements: tuple[Measurement, ...]
    mode: tuple[bytes, ...]
    opaque: bytes


class _Bytes:
    """Bytes that are read from the front."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self.at

    def take(self, size: int, what: str) -> bytes:
        """Read the next bytes.

        :raises Untrusted: there are fewer.
        """
        if size > self.left:
            raise Untrusted(f'the transcript ends within {what}')
        found = self._data[self.at : self.at + size]
        self.at += size
        return found

    def number(self, size: int, what: str) -> int:
        """Read a whole number, low byte first."""
        return int.from_bytes(self.take(size, what), 'little')

    def before(self, end: int) -> bytes:
        return self._data[:end]

    def peek(self) -> bytes:
        return self._data[self.at : self.at + 4]


def read(data: bytes, signing: str | None) -> Transcript:
    """Parse a measurement exchange.

    :param signing: the signature algorithm as the BMC says it, for a version whose transcript does not contain it.
    :raises Untrusted: the bytes are no complete exchange that ends with a signed response, or do not cover all measurements of
        the device.
    """
    if len(data) > MAX_TRANSCRIPT:
        raise Untrusted(f'the transcript has more than {MAX_TRANSCRIPT} bytes')
    rest = _Bytes(data)
    negotiated: _Negotiated | None = None
    if data[:2] == b'\x10\x84':
        negotiated = _negotiation(rest)
    version = negotiated.version if negotiated is not None else (data[0] if data else 0)
    if version not in VERSIONS:
        raise Untrusted(f'SPDM {version >> 4}.{version & 15} is not supported, only {", ".join(VERSIONS.values())}')
    if version >= 0x12 and negotiated is None:
        raise Untrusted('the transcript lacks the negotiation (VCA), which SPDM 1.2 and later sign')
    if version < 0x12 and negotiated is not None:
        raise Untrusted('the transcript contains a negotiation (VCA), which SPDM 1.1 does not sign')
    chosen = negotiated.signing if negotiated is not None else signing
    if chosen not in SIGNATURE_BYTES:
        raise Untrusted(f'the signature algorithm is not supported ({_word(chosen)})')
    return _exchanges(rest, version, negotiated, chosen)


def speaks_against(transcript: Transcript) -> tuple[str | None, str | None]:
    """Return why a device in this mode proves nothing, and a remark on a device that does; None for nothing.

    Source: DSP0274 1.2.3, device mode field of a measurement block.

    :raises Untrusted: the mode cannot be read.
    """
    why, told = [], None
    for value in transcript.mode:
        if len(value) != 16:
            raise Untrusted('the device mode cannot be read')
        can, state, _, debug = (int.from_bytes(value[at : at + 4], 'little') for at in (0, 4, 8, 12))
        why += [text for bit, text in _DEBUG.items() if debug & 1 << bit]
        why += [f'the device is in {name} mode' for bit, name in _MODES.items() if state & 1 << bit]
        if can and not state & _NORMAL:
            why.append('the device is not in normal operation')
        if debug & _DEBUGGED_ONCE:
            told = 'invasive debug mode was active at least once since the device was manufactured'
    return '; '.join(dict.fromkeys(why)) or None, told


@dataclass(frozen=True, slots=True, kw_only=True)
class _Negotiated:
    version: int
    signing: str | None
    hashing: str | None
    measuring: str | None


def _negotiation(rest: _Bytes) -> _Negotiated:
    """Parse GET_VERSION to ALGORITHMS."""
    _message(rest, 0x10, 0x84)
    _message(rest, 0x10, 0x04)
    rest.take(1, 'VERSION')
    rest.take(2 * rest.number(1, 'VERSION'), 'VERSION')
    version = rest.peek()[0] if rest.left else 0
    _message(rest, version, 0xE1)
    # Request and response have the flags, and since 1.2 the sizes. Source: DSP0274 1.2.3, GET_CAPABILITIES and CAPABILITIES.
    size = 16 if version >= 0x12 else 8
    rest.take(size, 'GET_CAPABILITIES')
    options, _ = _message(rest, version, 0x61)
    rest.take(size, 'CAPABILITIES')
    if version >= 0x13 and options & 1:
        rest.take(2, 'CAPABILITIES')
        rest.take(max(0, rest.number(2, 'CAPABILITIES') - 4), 'CAPABILITIES')
    _message(rest, version, 0xE3)
    rest.take(max(0, rest.number(2, 'NEGOTIATE_ALGORITHMS') - 6), 'NEGOTIATE_ALGORITHMS')
    _message(rest, version, 0x63)
    length = rest.number(2, 'ALGORITHMS')
    body = _Bytes(rest.take(max(0, length - 6), 'ALGORITHMS'))
    specification = body.number(1, 'ALGORITHMS')
    body.take(1, 'ALGORITHMS')
    measuring, signing, hashing = (body.number(4, 'ALGORITHMS') for _ in range(3))
    if specification != _DMTF:
        raise Untrusted('the measurements do not follow the DMTF measurement specification')
    return _Negotiated(
        version=version, signing=SIGNING.get(signing), hashing=HASHING.get(hashing), measuring=HASHING.get(measuring >> 1)
    )


def _message(rest: _Bytes, version: int, code: int) -> tuple[int, int]:
    """Read the header of the expected message, and return both of its parameters.

    :raises Untrusted: another message comes next.
    """
    found = rest.take(4, _CODES[code])
    if found[0] != version or found[1] != code:
        name = _CODES.get(found[1], f'0x{found[1]:02x}')
        raise Untrusted(f'{_CODES[code]} of SPDM {version >> 4}.{version & 15} expected, {name} found')
    return found[2], found[3]


def _exchanges(rest: _Bytes, version: int, negotiated: _Negotiated | None, signing: str) -> Transcript:
    """Parse pairs of request and response; the last one is signed."""
    blocks: dict[int, tuple[Measurement, bytes]] = {}
    whole, total = False, None
    while True:
        attributes, operation = _message(rest, version, 0xE0)
        if attributes & ~(_SIGNED | _RAW_REQUESTED):
            # NewMeasurementRequested asks for the firmware that runs after the next reset, not for the running one.
            raise Untrusted('the measurements that were requested are not those of the running firmware')
        is_signed = bool(attributes & _SIGNED)
        nonce = rest.take(NONCE_BYTES, 'GET_MEASUREMENTS') if is_signed else b''
        slot = rest.number(1, 'GET_MEASUREMENTS') & 0x0F if is_signed else 0
        context = rest.take(8, 'GET_MEASUREMENTS') if version >= 0x13 else b''
        first, second = _message(rest, version, 0x60)
        count = rest.number(1, 'MEASUREMENTS')
        record = _Bytes(rest.take(rest.number(3, 'MEASUREMENTS'), 'the record of MEASUREMENTS'))
        _blocks(record, count, negotiated, blocks)
        rest.take(NONCE_BYTES, 'MEASUREMENTS')
        opaque = rest.take(rest.number(2, 'MEASUREMENTS'), 'the opaque data of MEASUREMENTS')
        if version >= 0x13 and rest.take(8, 'MEASUREMENTS') != context:
            raise Untrusted('a response has another context than its request')
        whole = whole or operation == _ALL
        total = first if operation == 0 else total
        if not is_signed:
            continue
        if version >= 0x12 and second & 0x30 == _CHANGED:
            raise Untrusted('the device reports that its measurements changed during the exchange')
        if second & 0x0F != slot:
            raise Untrusted('the device signed with another certificate slot than the requested one')
        signed = rest.before(rest.at)
        signature = rest.take(SIGNATURE_BYTES[signing], 'the signature')
        break
    if rest.left:
        raise Untrusted(f'the transcript continues after the signature (bytes: {rest.left})')
    if not blocks:
        raise Untrusted('the response contains no measurement')
    if not whole and total != len(blocks):
        # Without the block for debug mode, a device in debug mode would look clean.
        raise Untrusted('not all measurements of the device were requested')
    return Transcript(
        version=VERSIONS[version],
        nonce=nonce,
        slot=slot,
        signing=negotiated.signing if negotiated is not None else None,
        hashing=negotiated.hashing if negotiated is not None else None,
        signed=signed,
        signature=signature,
        measurements=tuple(blocks[index][0] for index in sorted(blocks)),
        mode=tuple(value for found, value in blocks.values() if found.kind == DEVICE_MODE),
        opaque=opaque,
    )


def _blocks(record: _Bytes, count: int, negotiated: _Negotiated | None, into: dict[int, tuple[Measurement, bytes]]) -> None:
    """Parse the blocks of one record.

    :raises Untrusted: the blocks do not match the record, or one index has two values.
    """
    for _ in range(count):
        index = record.number(1, 'a measurement')
        specification = record.number(1, 'a measurement')
        value = _Bytes(record.take(record.number(2, 'a measurement'), 'a measurement'))
        if specification != _DMTF:
            raise Untrusted(f'measurement {index} does not follow the DMTF measurement specification')
        kind = value.number(1, 'a measurement')
        content = value.take(value.number(2, 'a measurement'), 'a measurement')
        if value.left or not content:
            raise Untrusted(f'the length of measurement {index} is wrong')
        found = _measurement(index, kind, content, None if negotiated is None else negotiated.measuring)
        if into.setdefault(index, (found, content))[1] != content:
            raise Untrusted(f'measurement {index} has two values')
    if record.left:
        raise Untrusted('a measurement record continues after its last measurement')


def _measurement(index: int, kind: int, content: bytes, algorithm: str | None) -> Measurement:
    raw = bool(kind & _RAW)
    number = kind & ~_RAW
    name = KINDS[number] if number < len(KINDS) else f'type-0x{number:02x}'
    if name == DEVICE_MODE and not raw:
        raise Untrusted('the device mode is reported as a digest, and cannot be read')
    if raw:
        long = len(content) > _LONGEST_RAW
        value = hashlib.sha256(content).hexdigest() if long else content.hex()
        return Measurement(index=index, kind=name, value=value, raw=True, hashed=long)
    hash_name = None if algorithm is None else HASHES[algorithm]
    if hash_name is not None and hashlib.new(hash_name).digest_size != len(content):
        raise Untrusted(f'measurement {index} is not a {hash_name} digest')
    return Measurement(index=index, kind=name, value=content.hex(), algorithm=hash_name)


def _word(text: str | None) -> str:
    """Shorten a word of a BMC for a message, and make it printable."""
    return ''.join(c if c.isprintable() else '?' for c in text[:60]) if text else 'none is reported'
