# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What real devices have signed is proven, up to the root that their maker publishes; with any byte changed it is refused.

The evidence is in no repository of ours: BAREMETAL_ACC_SHARED names the folder that holds it. Each run changes some bytes of
it; ``make soak-evidence`` changes every byte.
"""

import base64
import os
from collections.abc import Iterator
from dataclasses import replace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from baremetal_acc.images.spdm.signed_measurements import SpdmAttestor
from baremetal_acc.model.measurement import MeasurementState
from tests.unit.images import genuine
from tests.unit.images.genuine import Evidence

EVERY_BYTE = os.environ.get('BAREMETAL_ACC_EVIDENCE') == 'all'

SAMPLE = 181
"""One byte in so many is changed without BAREMETAL_ACC_EVIDENCE=all: a prime, so that all fields have their turn."""

ALL = genuine.evidence()

pytestmark = pytest.mark.skipif(not ALL, reason=genuine.WHY_NOT)

H100 = [one for one in ALL if one.arch == 'HOPPER']

LS10 = [one for one in ALL if one.arch == 'LS10']

each = pytest.mark.parametrize('one', [pytest.param(one, id=one.name) for one in ALL])


def attestor(one: Evidence) -> SpdmAttestor:
    """An attestor that trusts the root of the maker."""
    return SpdmAttestor(authorities=one.roots)


def chain(one: Evidence) -> list[x509.Certificate]:
    """The certificates in the order in which the maker gives them."""
    return x509.load_pem_x509_certificates(one.signed.certificates.encode())


def pem(certificates: list[x509.Certificate]) -> str:
    """Certificates as text."""
    return ''.join(c.public_bytes(serialization.Encoding.PEM).decode() for c in certificates)


def test_there_are_cards_and_switches_among_the_evidence():
    """The tests below would show nothing without."""
    assert (6, 5) == (len([one for one in H100 if '.json' in one.name]), len(LS10))


@each
def test_what_a_real_device_signed_is_proven_with_its_chain_in_either_order(one: Evidence):
    """The maker gives the device's own certificate first; SPDM's own order (DSP0274) is from the root down."""
    leaf_first = chain(one)
    assert 5 == len(leaf_first)
    leaf_first[0].verify_directly_issued_by(leaf_first[1])
    for certificates in (leaf_first, leaf_first[::-1], leaf_first[:-1], leaf_first[-2::-1], leaf_first[2:] + leaf_first[:2]):
        reading = attestor(one).check(replace(one.signed, certificates=pem(certificates)))
        assert (MeasurementState.PROVEN, None) == (reading.state, reading.reason)
        assert one.blocks == len(reading.measurements)
        assert '1.1' == reading.version


@each
def test_without_the_root_of_the_maker_it_proves_nothing(one: Evidence):
    """Nor with another nonce than the one that was sent, nor with the chain of another device."""
    assert MeasurementState.REFUSED == SpdmAttestor(authorities=()).check(one.signed).state
    other_nonce = replace(one.signed, nonce=bytes(31) + b'\1')
    assert MeasurementState.REFUSED == attestor(one).check(other_nonce).state
    other = next(o for o in ALL if chain(o)[0] != chain(one)[0])
    crossed = replace(one.signed, certificates=other.signed.certificates)
    assert MeasurementState.REFUSED == attestor(one).check(crossed).state


@each
def test_with_one_byte_changed_it_proves_nothing(one: Evidence):
    """A byte of what was signed, of the signature, or of any certificate."""
    checks = attestor(one)
    whole, certificates = one.signed.transcript, chain(one)
    proven = [('transcript', at) for at, other in changed(whole) if proves(checks, replace(one.signed, transcript=other))]
    for n, certificate in enumerate(certificates):
        for at, other in changed(certificate.public_bytes(serialization.Encoding.DER)):
            text = pem(certificates[:n]) + armored(other) + pem(certificates[n + 1 :])
            if proves(checks, replace(one.signed, certificates=text)):
                proven.append((f'certificate {n}', at))
    assert [] == proven


def proves(checks: SpdmAttestor, signed) -> bool:
    """Whether anything is proven by it."""
    return checks.check(signed).state is not MeasurementState.REFUSED


def changed(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The data with one bit of a byte changed, for some bytes or for all."""
    for at in range(0, len(data), 1 if EVERY_BYTE else SAMPLE):
        yield at, data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :]


def armored(der: bytes) -> str:
    """DER as PEM, whatever is in it."""
    return f'-----BEGIN CERTIFICATE-----\n{base64.encodebytes(der).decode()}-----END CERTIFICATE-----\n'
