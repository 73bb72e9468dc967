# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Measurements count when a device whose chain leads to a pinned root has signed them over our nonce, and only then."""

import base64
import struct
from dataclasses import replace
from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from hypothesis import given, settings
from hypothesis import strategies as st

from baremetal_acc.errors import DocumentError
from baremetal_acc.images.spdm import signed_measurements, transcript
from baremetal_acc.images.spdm.signed_measurements import SpdmAttestor
from baremetal_acc.images.trust.keys import Untrusted
from baremetal_acc.model.measurement import Measurement, MeasurementState
from tests.unit.images import spdm_device as made
from tests.unit.images.spdm_device import NONCE, NOW, Device, block

ATTESTOR = SpdmAttestor(authorities=(made.ROOT,))
OTHER_KEY = ec.generate_private_key(ec.SECP384R1())
OTHER_ROOT = made.certificate('root', OTHER_KEY, 'root', OTHER_KEY, ca=True)


def mode(*, state: int = 0b100, debug: int = 0, can: int = 0b100) -> bytes:
    """A block that tells of a device's mode."""
    return block(0xFE, 0x85, struct.pack('<IIII', can, state, 0x1F, debug))


@pytest.mark.parametrize('minor', [1, 2, 3])
@pytest.mark.parametrize(
    ('signing', 'hashing'),
    [(made.P256, made.SHA256), (made.P384, made.SHA384), (made.RSASSA_2048, made.SHA256), (made.RSAPSS_2048, made.SHA384)],
)
def test_what_a_device_of_a_pinned_root_signed_over_our_nonce_is_proven(minor, signing, hashing):
    """SPDM 1.1 signs requests and answers, 1.2 and 1.3 the negotiation too, behind a prefix of their own."""
    reading = ATTESTOR.check(Device(minor=minor, signing=signing, hashing=hashing).brought())
    assert (MeasurementState.PROVEN, None) == (reading.state, reading.reason)
    assert (f'1.{minor}', 'CN=device', NONCE.hex()) == (reading.version, reading.signer, reading.nonce)
    assert (reading.root or '').startswith('sha256:')
    named = 'sha384' if minor > 1 else None
    firmware = Measurement(index=2, kind='mutable-firmware', value=made.FIRMWARE.hex(), algorithm=named)
    assert firmware == reading.measurements[0]
    assert Measurement(index=0xFE, kind='device-mode', value=made.NORMAL_MODE.hex(), raw=True) == reading.measurements[1]


@pytest.mark.parametrize('minor', [2, 3])
def test_ed25519_signs_since_spdm_1_2(minor):
    """BaseAsymAlgo has had EdDSA since then."""
    reading = ATTESTOR.check(Device(minor=minor, signing=made.ED25519).brought())
    assert MeasurementState.PROVEN == reading.state
    old = ATTESTOR.check(Device(minor=1, signing=made.ED25519).brought())
    assert (MeasurementState.REFUSED, 'the key of the device certificate is not for EdDSA ed25519') == (old.state, old.reason)


REFUSED = {
    'stale nonce': (Device(nonce=b'\1' * 32).brought(), 'the nonce is not the one that was sent'),
    'another nonce by one bit': (Device(nonce=NONCE[:-1] + b'\x1e').brought(), 'the nonce is not the one'),
    'another key': (Device(key=OTHER_KEY).brought(), 'the signature does not match'),
    'no prefix': (Device(signing_prefix=b'').brought(), 'the signature does not match'),
    'prefix of another version': (
        Device(signing_prefix=signed_measurements.prefix('1.3')).brought(),
        'the signature does not match',
    ),
    'slot not asked for': (Device(slot=1).brought(), 'certificate slot 1'),
    'slot not answered': (Device(answered_slot=1).brought(), 'another certificate slot'),
    'key of another kind': (
        Device(signing=made.P256, hashing=made.SHA256).brought(chain=made.pem(made.ROOT, made.BETWEEN, made.LEAVES[made.P384])),
        'is not for TPM_ALG_ECDSA_ECC_NIST_P256',
    ),
    'next firmware': (Device(minor=3, attributes=5).brought(), 'not those of the running firmware'),
    'changed meanwhile': (Device(changed=1).brought(), 'measurements changed during the exchange'),
    'another context': (Device(minor=3, answered_context=b'elsewhere'[:8]).brought(), 'another context than its request'),
    'one index only': (Device(operation=2, blocks=(made.FIRMWARE_BLOCK,)).brought(), 'not all measurements'),
    'nothing measured': (Device(blocks=()).brought(), 'contains no measurement'),
    'bytes behind': (Device(after=b'\0').brought(), 'the transcript continues after the signature (bytes: 1)'),
    'more blocks than there are': (Device(count=3).brought(), 'the transcript ends within'),
    'fewer blocks than there are': (Device(count=1).brought(), 'continues after its last measurement'),
    'no DMTF block': (
        Device(blocks=(block(2, 1, made.FIRMWARE, specification=2),)).brought(),
        'does not follow the DMTF measurement specification',
    ),
    'no DMTF record': (Device(specification=2).brought(), 'do not follow the DMTF measurement specification'),
    'digest of another length': (Device(blocks=(block(2, 1, b'x' * 32),)).brought(), 'is not a sha384 digest'),
    'no value': (Device(blocks=(block(2, 1, b''),)).brought(), 'the length of measurement 2 is wrong'),
    'two values of one index': (Device(blocks=(made.FIRMWARE_BLOCK, block(2, 1, b'y' * 48))).brought(), 'has two values'),
    'mode as a digest': (Device(blocks=(block(0xFE, 5, b'z' * 48),)).brought(), 'reported as a digest'),
    'mode cut short': (Device(blocks=(block(0xFE, 0x85, b'\0' * 8),)).brought(), 'the device mode cannot be read'),
    'no negotiation': (Device(negotiation=False).brought(), 'lacks the negotiation'),
    'a version before': (Device(minor=0).brought(), 'SPDM 1.0 is not supported'),
    'a version to come': (Device(minor=4).brought(), 'SPDM 1.4 is not supported'),
    'another version beside': (Device().brought(version='1.1.0'), 'another SPDM version than the transcript, 1.2'),
    'other algorithms beside': (Device().brought(hashing='TPM_ALG_SHA_256'), 'other algorithms'),
    'an unknown algorithm': (Device(minor=1).brought(signing='OEM'), 'not supported (OEM)'),
    'no algorithm': (Device(minor=1).brought(hashing=None), 'the hash algorithm of the transcript is not supported'),
    'another hash than signed': (Device(minor=1).brought(hashing='TPM_ALG_SHA_512'), 'the signature does not match'),
    'no certificate': (Device().brought(chain=''), 'the response contains no certificate'),
    'certificate that is none': (
        Device().brought(chain='-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----'),
        'cannot be read',
    ),
    'chain too long to be one': (Device().brought(chain=made.pem(made.ROOT) * 11), 'more than 10 certificates'),
    'text too long': (Device().brought(chain='x' * 65537), 'more than 65536 characters'),
    'another root of that name': (
        Device().brought(chain=made.pem(OTHER_ROOT, made.BETWEEN, made.LEAVES[made.P384])),
        'not a chain that ends in one device certificate',
    ),
    'chain with a gap': (
        Device().brought(chain=made.pem(made.ROOT, made.LEAVES[made.P384])),
        'not a chain that ends in one device certificate',
    ),
    'nothing of the root': (Device().brought(chain=made.pem(made.LEAVES[made.P384])), 'not issued by a pinned root'),
    'two devices': (
        Device().brought(chain=made.pem(made.ROOT, made.BETWEEN, made.LEAVES[made.P384], made.LEAVES[made.P256])),
        'not a chain that ends in one device certificate',
    ),
    'the root itself': (
        Device(key=made.ROOT_KEY).brought(chain=made.pem(made.ROOT)),
        'no device certificate, only that of a root',
    ),
    'a CA in between': (Device(key=made.BETWEEN_KEY).brought(chain=made.pem(made.ROOT, made.BETWEEN)), 'not that of a device'),
    'transcript too long': (Device().brought(transcript=b'\x10\x84' * 200_000), 'more than 262144 bytes'),
    'no transcript': (Device().brought(transcript=b''), 'SPDM 0.0 is not supported'),
}


@pytest.mark.parametrize('case', REFUSED)
def test_what_does_not_hold_is_refused_and_says_why(case):
    """Replay, another key, another question, half an answer: each has its own reason, and no measurement is kept."""
    brought, why = REFUSED[case]
    reading = ATTESTOR.check(brought)
    assert MeasurementState.REFUSED == reading.state
    assert why in (reading.reason or ''), reading.reason
    assert () == reading.measurements


@pytest.mark.parametrize(
    ('chain', 'why'),
    [
        (made.leaf(days=(-10, -1)), 'is valid only from'),
        (made.leaf(days=(1, 10)), 'is valid only from'),
        (made.leaf(digital_signature=False), 'not for digital signatures'),
        (made.leaf(purposes=('1.3.6.1.4.1.412.274.4',)), 'is for an SPDM requester'),
        (made.leaf(critical='1.2.3.4'), 'critical extension 1.2.3.4'),
    ],
)
def test_a_certificate_that_does_not_hold_proves_nothing(chain, why):
    """Expired, not yet valid, of another use: the signature itself is good each time."""
    reading = ATTESTOR.check(Device().brought(chain=made.pem(chain, made.BETWEEN, made.ROOT)))
    assert MeasurementState.REFUSED == reading.state
    assert why in (reading.reason or ''), reading.reason


@pytest.mark.parametrize('otherwise', [{'purposes': ('1.3.6.1.4.1.412.274.3',)}, {'critical': '2.23.133.5.4.1'}])
def test_purposes_of_a_responder_and_what_describes_a_device_do_not_hinder(otherwise):
    """TCG's TcbInfo may be critical, and DMTF's purpose of a responder is just right."""
    reading = ATTESTOR.check(Device().brought(chain=made.pem(made.leaf(**otherwise), made.BETWEEN, made.ROOT)))
    assert (MeasurementState.PROVEN, None) == (reading.state, reading.reason)


def test_a_certificate_of_a_version_that_there_is_not_is_refused():
    """One changed bit of a genuine certificate: the library has an error of its own for it."""
    der = made.LEAVES[made.P384].public_bytes(serialization.Encoding.DER)
    version = der.index(b'\xa0\x03\x02\x01\x02') + 4
    other = base64.encodebytes(der[:version] + b'\x12' + der[version + 1 :]).decode()
    chain = made.pem(made.ROOT, made.BETWEEN) + f'-----BEGIN CERTIFICATE-----\n{other}-----END CERTIFICATE-----\n'
    reading = ATTESTOR.check(Device().brought(chain=chain))
    assert MeasurementState.REFUSED == reading.state
    assert 'a certificate that cannot be read' in (reading.reason or '')


def test_a_signature_that_is_not_whole_bytes_is_refused():
    """The number of unused bits before it is no part of the signature, and the library takes any: one bit of a genuine one."""
    leaf = next(one for one in (made.leaf() for _ in range(200)) if not one.signature[-1] & 1)
    der = leaf.public_bytes(serialization.Encoding.DER)
    at = len(der) - len(leaf.signature) - 1
    other = x509.load_der_x509_certificate(der[:at] + b'\x01' + der[at + 1 :])
    chain = made.pem(made.ROOT, made.BETWEEN)
    assert MeasurementState.PROVEN == ATTESTOR.check(Device().brought(chain=chain + made.pem(leaf))).state
    assert MeasurementState.REFUSED == ATTESTOR.check(Device().brought(chain=chain + made.pem(other))).state


def test_a_ca_that_may_not_issue_or_has_expired_breaks_the_chain():
    """Each certificate on the way is asked, the pinned root too."""
    for otherwise, why in (({'ca': False}, 'may not issue'), ({'ca': True, 'days': (-9, -1)}, 'valid only from')):
        between = made.certificate('between', made.BETWEEN_KEY, 'root', made.ROOT_KEY, **otherwise)
        reading = ATTESTOR.check(Device().brought(chain=made.pem(made.LEAVES[made.P384], between, made.ROOT)))
        assert why in (reading.reason or ''), reading.reason
    late = replace(Device().brought(), at=NOW + timedelta(days=4000))
    assert 'valid only from' in (ATTESTOR.check(late).reason or '')
    short = made.certificate('root', made.ROOT_KEY, 'root', made.ROOT_KEY, ca=True, path_length=0)
    reading = SpdmAttestor(authorities=(short,)).check(Device().brought(chain=made.pem(made.BETWEEN, made.LEAVES[made.P384])))
    assert 'path length of 0, but the chain needs 1' in (reading.reason or '')


def test_a_chain_counts_in_either_order_and_up_to_whatever_is_pinned():
    """SPDM gives the root first, BMCs give either; an operator may pin the vendor's root or a CA below it."""
    upwards = made.pem(made.LEAVES[made.P384], made.BETWEEN, made.ROOT)
    below = SpdmAttestor(authorities=(made.BETWEEN,))
    assert MeasurementState.PROVEN == ATTESTOR.check(Device().brought(chain=upwards)).state
    assert MeasurementState.PROVEN == below.check(Device().brought(chain=upwards)).state
    without_root = made.pem(made.BETWEEN, made.LEAVES[made.P384])
    assert MeasurementState.PROVEN == ATTESTOR.check(Device().brought(chain=without_root)).state
    assert 'not issued by a pinned root' in (SpdmAttestor(authorities=(OTHER_ROOT,)).check(Device().brought()).reason or '')
    assert 'not issued by a pinned root' in (SpdmAttestor(authorities=()).check(Device().brought()).reason or '')


@pytest.mark.parametrize(
    ('told', 'why'),
    [
        (mode(debug=1), 'non-invasive debug mode is active'),
        (mode(debug=2), 'invasive debug mode is active'),
        (mode(debug=4), 'non-invasive debug mode was active since the last reset'),
        (mode(debug=8), 'invasive debug mode was active since the last reset'),
        (mode(state=1), 'manufacturing mode'),
        (mode(state=0b1000), 'recovery mode'),
        (mode(state=0b10000), 'RMA mode'),
        (mode(state=0b100000), 'decommissioned mode'),
        (mode(state=0b110), 'validation mode'),
        (mode(state=0), 'not in normal operation'),
    ],
)
def test_a_device_in_debug_or_another_special_mode_is_refused(told, why):
    """What it measures then is what somebody made it say."""
    reading = ATTESTOR.check(Device(blocks=(made.FIRMWARE_BLOCK, told)).brought())
    assert MeasurementState.REFUSED == reading.state
    assert why in (reading.reason or ''), reading.reason


def test_that_a_device_was_debugged_once_is_told_and_no_mode_at_all_is_none():
    """The first never goes away again, so it cannot be refused for ever; older devices tell no mode."""
    once = ATTESTOR.check(Device(blocks=(made.FIRMWARE_BLOCK, mode(debug=16))).brought())
    assert (MeasurementState.PROVEN, True) == (once.state, 'once since the device was manufactured' in (once.reason or ''))
    none = ATTESTOR.check(Device(blocks=(made.FIRMWARE_BLOCK,)).brought())
    assert (MeasurementState.PROVEN, None) == (none.state, none.reason)


@pytest.mark.parametrize('minor', [1, 2, 3])
def test_measurements_may_be_asked_for_one_by_one_if_all_of_them_are(minor):
    """A first question tells how many there are. A BMC that leaves out the block of the mode hides debug mode."""
    device = Device(minor=minor)
    count = device.exchange(operation=0, signed=False, blocks=(), total=2)
    first = device.exchange(operation=2, signed=False, blocks=(made.FIRMWARE_BLOCK,))
    whole = replace(device, before=count + first, operation=0xFE, blocks=(made.MODE_BLOCK,))
    reading = ATTESTOR.check(whole.brought())
    assert (MeasurementState.PROVEN, None, 2) == (reading.state, reading.reason, len(reading.measurements))
    part = replace(device, before=count, operation=2, blocks=(made.FIRMWARE_BLOCK,))
    assert 'not all measurements' in (ATTESTOR.check(part.brought()).reason or '')


def test_every_byte_of_a_transcript_counts():
    """One that is cut short, or has any one byte changed, proves nothing."""
    brought = Device(opaque=b'').brought()
    whole = brought.transcript
    for at in range(len(whole)):
        other = whole[:at] + bytes([whole[at] ^ 0x01]) + whole[at + 1 :]
        assert MeasurementState.REFUSED == ATTESTOR.check(replace(brought, transcript=other)).state, at
    for at in range(0, len(whole), 7):
        assert MeasurementState.REFUSED == ATTESTOR.check(replace(brought, transcript=whole[:at])).state, at


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300), st.sampled_from([b'', b'\x10\x84\0\0', b'\x11\xe0\x01\xff', Device().vca()]))
def test_no_bytes_make_the_reader_fail(data, start):
    """It refuses; it never breaks, nor reads past the end."""
    with pytest.raises(Untrusted):
        transcript.read(start + data, 'TPM_ALG_ECDSA_ECC_NIST_P384')


def test_long_raw_values_are_kept_as_their_digest():
    """A manifest may have kilobytes."""
    reading = ATTESTOR.check(Device(blocks=(block(0xFD, 0x84, b'm' * 500), block(9, 0x8B, b'n'))).brought())
    assert [(9, 'type-0x0b', True, False), (0xFD, 'manifest', True, True)] == [
        (m.index, m.kind, m.raw, m.hashed) for m in reading.measurements
    ]
    assert 64 == len(reading.measurements[1].value)


def test_the_roots_come_from_files_of_certificates_of_cas(tmp_path):
    """None configured is no attestor at all, never one that trusts; a bare key is no root."""
    root = tmp_path / 'root.pem'
    root.write_text(made.pem(made.ROOT))
    root.chmod(0o600)
    assert signed_measurements.attestor([]) is None
    assert SpdmAttestor(authorities=(made.ROOT,)) == signed_measurements.attestor([str(root)])
    public = ed25519.Ed25519PrivateKey.generate().public_key()
    info = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    root.write_bytes(info)
    with pytest.raises(DocumentError, match='spdm_trust_roots'):
        signed_measurements.attestor([str(root)])
    root.write_text(made.pem(made.LEAVES[made.P384]))
    with pytest.raises(DocumentError, match='that of a CA'):
        signed_measurements.attestor([str(root)])
