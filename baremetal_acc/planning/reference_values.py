# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Compare signed measurements with the reference values that makers publish for the versions that the measurements name.

The version comes from the signed data, not from the BMC: a BMC that reports a wrong version does not choose the reference.
"""

from fnmatch import fnmatchcase

from baremetal_acc.model.image import ReferenceValue
from baremetal_acc.model.measurement import Measurement, MeasurementReading, MeasurementState
from baremetal_acc.model.reference import (
    NoReference,
    ReferenceCompared,
    ReferenceDiffers,
    ReferenceFact,
    ReferenceMatches,
    ReferenceNotActive,
    ReferenceResult,
    VersionReference,
)
from baremetal_acc.planning.image_selection import same_version


def compared(reading: MeasurementReading, references: tuple[VersionReference, ...]) -> tuple[ReferenceResult, ...]:
    """Return one result for each version that a proven reading names and for each reference of that version.

    Nothing for a reading that is not proven, or that names no version.
    """
    if reading.state is not MeasurementState.PROVEN:
        return ()
    found: list[ReferenceResult] = []
    for named in reading.versions:
        of_version = [r for r in references if same_version(r.version, named.version) and _mine(r, reading)]
        found += [ReferenceCompared(named=named, reference=r, facts=_facts(r, reading)) for r in of_version]
        if not of_version:
            found.append(NoReference(named=named))
    return tuple(found)


def _mine(reference: VersionReference, reading: MeasurementReading) -> tuple[ReferenceValue, ...]:
    """The values of a reference that are for the root of trust of a reading."""
    name = reading.integrity.casefold()
    return tuple(one for one in reference.measurements if fnmatchcase(name, one.integrity.casefold()))


def _facts(reference: VersionReference, reading: MeasurementReading) -> tuple[ReferenceFact, ...]:
    measured = {m.index: m for m in reading.measurements}
    facts: list[ReferenceFact] = [_fact(one, measured.get(one.index)) for one in _mine(reference, reading)]
    facts += [ReferenceNotActive(index=index) for index in reference.inactive if index in measured]
    return tuple(sorted(facts, key=lambda fact: fact.index))


def _fact(reference: ReferenceValue, found: Measurement | None) -> ReferenceFact:
    if found is not None and is_expected(reference, found):
        return ReferenceMatches(index=reference.index)
    return ReferenceDiffers(index=reference.index, expected=reference.values, found=found)


def is_expected(reference: ReferenceValue, found: Measurement) -> bool:
    """Whether a measurement is one of the values of a reference, of the same algorithm.

    SPDM 1.1 does not report the algorithm; then the length of the value has to do.
    """
    if found.raw:
        return not found.hashed and ('raw', found.value) in reference.values
    return any(kind != 'raw' and found.algorithm in (None, kind) and found.value == value for kind, value in reference.values)
