# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Signed measurements are compared with the reference of the version that they name themselves, index by index."""

from dataclasses import replace

import pytest

from baremetal_acc.model.finding import Contradicted, Proven
from baremetal_acc.model.image import ReferenceValue
from baremetal_acc.model.measurement import MeasuredVersion, Measurement, MeasurementReading, MeasurementState
from baremetal_acc.model.ref import HOST, Ref
from baremetal_acc.model.reference import (
    NoReference,
    ReferenceCompared,
    ReferenceDiffers,
    ReferenceMatches,
    ReferenceNotActive,
    VersionReference,
)
from baremetal_acc.model.verdict import Met
from baremetal_acc.planning import attestation
from baremetal_acc.planning.reference_values import compared
from baremetal_acc.policy.baseline_rules import Measure
from baremetal_acc.policy.device_demands import demands
from baremetal_acc.render.reference_values import fact, result
from tests.unit.planning import values as v

VBIOS = MeasuredVersion(part='vbios', version='96.00.74.00.20')
DRIVER = MeasuredVersion(part='driver', version='580.159.03')


def digest(letter: str) -> str:
    return letter * 96


def measurement(index: int, letter: str, algorithm: str | None = 'sha384') -> Measurement:
    return Measurement(index=index, kind='mutable-firmware', value=digest(letter), algorithm=algorithm)


def value(index: int, *letters: str, integrity: str = '*') -> ReferenceValue:
    return ReferenceValue(integrity=integrity, index=index, values=tuple(('sha384', digest(one)) for one in letters))


READING = MeasurementReading(
    accelerator=v.GPU,
    ref=Ref(bmc=HOST, uri='/redfish/v1/ComponentIntegrity/HGX_IRoT_GPU_0'),
    integrity='HGX_IRoT_GPU_0',
    state=MeasurementState.PROVEN,
    at=v.NOW,
    session='host-1',
    version='1.1',
    fingerprint='sha256:' + '1' * 64,
    measurements=(measurement(1, 'a'), measurement(2, 'b'), measurement(3, 'c')),
    versions=(VBIOS,),
)

REFERENCE = VersionReference(
    component='GH100 GPU', version='96.00.74.00.20', measurements=(value(1, 'f', 'a'), value(2, 'b')), inactive=(3,)
)


def test_each_measurement_matches_differs_or_is_not_active():
    """One of the values is enough; what the maker marks as not active is not compared, and is shown as such."""
    (found,) = compared(READING, (REFERENCE,))
    facts = (ReferenceMatches(index=1), ReferenceMatches(index=2), ReferenceNotActive(index=3))
    assert ReferenceCompared(named=VBIOS, reference=REFERENCE, facts=facts) == found
    other = replace(REFERENCE, measurements=(value(1, 'a'), value(2, 'e'), value(4, 'd')))
    (found,) = compared(READING, (other,))
    differs = (
        ReferenceDiffers(index=2, expected=(('sha384', digest('e')),), found=measurement(2, 'b')),
        ReferenceDiffers(index=4, expected=(('sha384', digest('d')),), found=None),
    )
    assert differs == found.differing
    assert (ReferenceMatches(index=1),) == found.matching


def test_a_version_without_a_reference_is_a_fact_of_its_own():
    """It is no match and no difference, and no reference of another version is taken for it."""
    other = replace(REFERENCE, version='96.00.74.00.1F')
    assert (NoReference(named=VBIOS),) == compared(READING, (other,))
    assert (NoReference(named=VBIOS),) == compared(READING, ())
    both = compared(replace(READING, versions=(VBIOS, DRIVER)), (REFERENCE,))
    assert [ReferenceCompared, NoReference] == [type(one) for one in both]


def test_the_version_is_the_one_that_was_signed_however_it_is_written():
    """The case of letters does not count, as everywhere."""
    signed = replace(READING, versions=(MeasuredVersion(part='vbios', version='96.00.74.00.1f'),))
    assert isinstance(compared(signed, (replace(REFERENCE, version='96.00.74.00.1F'),))[0], ReferenceCompared)


@pytest.mark.parametrize('state', [MeasurementState.REFUSED, MeasurementState.UNKNOWN])
def test_what_is_not_proven_is_compared_with_nothing(state: MeasurementState):
    """Nor what names no version."""
    assert () == compared(replace(READING, state=state), (REFERENCE,))
    assert () == compared(replace(READING, versions=()), (REFERENCE,))


def test_a_reference_for_other_roots_of_trust_does_not_count():
    """The pattern is over the Ids of ComponentIntegrity, in any letter case."""
    mine, others = (replace(REFERENCE, measurements=(value(1, 'a', integrity=p),)) for p in ('hgx_irot_*', 'HGX_ERoT_*'))
    assert (NoReference(named=VBIOS),) == compared(READING, (others,))
    assert isinstance(compared(READING, (others, mine))[0], ReferenceCompared)


@pytest.mark.parametrize(('found', 'matches'), [(None, True), ('sha384', True), ('sha3_384', False)])
def test_a_digest_of_another_algorithm_is_another_value(found: str | None, matches: bool):
    """SPDM 1.1 names no algorithm: then the length has to do. A raw value is never a digest."""
    reading = replace(READING, measurements=(measurement(1, 'a', found),))
    one = replace(REFERENCE, measurements=(value(1, 'a'),))
    assert matches == (not compared(reading, (one,))[0].differing)
    raw = replace(reading, measurements=(replace(measurement(1, 'a', None), raw=True),))
    assert compared(raw, (one,))[0].differing


# ------------------------------------------------------------------------------------------------------------- the verdict


def judged(references: tuple[VersionReference, ...], measure: Measure = Measure.WHERE_PRESENT):
    """The finding about a GPU that has signed."""
    gpu = replace(v.gpu(), measurements=(READING,))
    wanted = replace(demands(v.baseline(), gpu, v.NODE), measure=measure)
    (found,) = attestation.findings(gpu, (gpu,), wanted, (), references)
    return found


def test_a_measurement_that_differs_is_not_met_and_one_that_matches_is():
    """The verdict names index and values; a version without a reference is met only where no comparison is required."""
    other = replace(REFERENCE, measurements=(value(1, 'a'), value(2, 'e')))
    assert (Met.YES, Proven) == (judged((REFERENCE,)).met, type(judged((REFERENCE,)).fact))
    assert (Met.NO, Contradicted) == (judged((other,)).met, type(judged((other,)).fact))
    assert (Met.YES, Met.NO) == (judged(()).met, judged((), Measure.REQUIRED).met)
    assert Met.YES == judged((REFERENCE,), Measure.REQUIRED).met
    nothing_active = replace(REFERENCE, measurements=(value(1, 'a', integrity='other'),))
    assert Met.NO == judged((nothing_active,), Measure.REQUIRED).met


def test_the_texts_name_version_index_and_values():
    """A person can act on them."""
    other = replace(REFERENCE, measurements=(value(1, 'a'), value(2, 'e', 'd')))
    (found,) = compared(READING, (other,))
    assert result(found) == (
        'vbios 96.00.74.00.20, reference of GH100 GPU: 1 measurement matches, measurement 2 differs: it is '
        'sha384:bbbbbbbbbbbbbbbb..., expected sha384:eeeeeeeeeeeeeeee... or sha384:dddddddddddddddd..., 1 not active'
    )
    assert 'driver 580.159.03: no reference for this version' == result(NoReference(named=DRIVER))
    missing = ReferenceDiffers(index=9, expected=(('raw', '00ff'),), found=None)
    assert 'measurement 9 differs: it is missing, expected raw:00ff...' == fact(missing)
    assert 'measurement 1 matches' == fact(ReferenceMatches(index=1))
    assert 'measurement 3 is not active' == fact(ReferenceNotActive(index=3))
    many = replace(REFERENCE, measurements=tuple(value(n, '0') for n in (1, 2, 4, 5, 6)))
    assert '2 more differ' in result(compared(READING, (many,))[0])


def test_what_differs_from_the_reference_begins_no_chain_of_custody():
    """As where the image of the reported version was not measured."""
    gpu = replace(v.gpu(), measurements=(READING,))
    assert {} == attestation.matching(gpu, (gpu,), (), (replace(REFERENCE, measurements=(value(2, 'e'),)),))
