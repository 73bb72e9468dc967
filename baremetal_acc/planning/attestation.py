# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Compare the signed SPDM measurements of a device with the measurements that the catalogue expects of its images.

A version is a claim of the BMC; a measurement is signed by the root of trust of the device. When both describe the same
component, they have to mean the same image.
"""

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.finding import (
    Contradicted,
    KeyShared,
    KeyUnknown,
    NotMeasured,
    NotProven,
    Proven,
    RootShared,
    Signed,
)
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.image import Image, ReferenceValue
from baremetal_acc.model.measurement import Compared, MeasurementReading, MeasurementState
from baremetal_acc.model.ref import Ref
from baremetal_acc.model.reference import ReferenceCompared, VersionReference
from baremetal_acc.model.subject import MEASUREMENTS, Subject, SubjectKind
from baremetal_acc.model.verdict import Finding, Met
from baremetal_acc.planning import reference_values
from baremetal_acc.planning.image_selection import meant_for, same_version
from baremetal_acc.planning.reference_values import is_expected
from baremetal_acc.policy.baseline_rules import Measure
from baremetal_acc.policy.device_demands import Demands


def findings(
    accelerator: Accelerator,
    all_of_them: Iterable[Accelerator],
    wanted: Demands,
    catalogue: Iterable[Image],
    references: tuple[VersionReference, ...] = (),
) -> Iterator[Finding]:
    """Yield the findings about the measurements of a device.

    :param all_of_them: the devices of the inventory, this one among them.
    :param references: what makers publish for versions, from the catalogue.
    """
    if wanted.measure is Measure.OFF:
        return
    required = wanted.measure is Measure.REQUIRED
    if not accelerator.measurements:
        if required:
            yield _finding(accelerator, MEASUREMENTS, NotMeasured(asked=accelerator.measurements is not None), Met.NO, wanted)
        return
    others = tuple((a.label, r) for a in all_of_them if a.id != accelerator.id for r in a.measurements or ())
    known = tuple(i for i in catalogue if i.measurements)
    for reading in accelerator.measurements:
        met, fact = _judged(accelerator, reading, known, others, references, required=required)
        subject = Subject(kind=SubjectKind.MEASUREMENT, name=reading.integrity)
        yield _finding(accelerator, subject, fact, met, wanted)


def _judged(
    accelerator: Accelerator,
    reading: MeasurementReading,
    catalogue: tuple[Image, ...],
    others: tuple[tuple[str, MeasurementReading], ...],
    references: tuple[VersionReference, ...],
    *,
    required: bool,
) -> tuple[Met, Signed]:
    """Judge the measurements of one root of trust."""
    if reading.state is not MeasurementState.PROVEN:
        return Met.NO, NotProven(reading=reading)
    if reading.fingerprint is None:
        return Met.NO, KeyUnknown()
    strangers = [label for label, r in others if r.fingerprint == reading.fingerprint and _root(r) != _root(reading)]
    if strangers:
        # One genuine card may answer for all: whoever relays the challenges can do that.
        return Met.NO, KeyShared(label=strangers[-1])
    beside = len([r for _, r in others if _root(r) == _root(reading)])
    if required and beside and not _own(accelerator, others):
        # Whoever relays the challenges could link all devices to one genuine card.
        return Met.NO, RootShared(others=beside)
    compared = all_compared(accelerator, reading, catalogue)
    wrong = tuple(c for c in compared if not c.images)
    results = reference_values.compared(reading, references)
    if wrong or any(isinstance(r, ReferenceCompared) and r.differing for r in results):
        return Met.NO, Contradicted(compared=wrong, references=results)
    known = bool(compared) or any(isinstance(r, ReferenceCompared) and r.matching for r in results)
    proven = Proven(reading=reading, compared=compared, others=beside, references=results)
    return Met.NO if required and not known else Met.YES, proven


def matching(
    accelerator: Accelerator,
    all_of_them: Iterable[Accelerator],
    catalogue: Iterable[Image],
    references: tuple[VersionReference, ...] = (),
) -> Mapping[Ref, tuple[str, ...]]:
    """Return the components of a device that its roots of trust have measured as images of the catalogue, with the image names.

    Empty if any root of trust contradicts or does not prove the device.
    """
    others = tuple((a.label, r) for a in all_of_them if a.id != accelerator.id for r in a.measurements or ())
    known = tuple(i for i in catalogue if i.measurements)
    found: dict[Ref, tuple[str, ...]] = {}
    for reading in accelerator.measurements or ():
        if _judged(accelerator, reading, known, others, references, required=True)[0] is not Met.YES:
            return {}
        for one in all_compared(accelerator, reading, known):
            found[one.component.ref] = (*found.get(one.component.ref, ()), *one.images)
    return found


def _root(reading: MeasurementReading) -> tuple[Ref, str]:
    """Identify the root of trust that signed, as its BMC names it. One may protect, and sign for, several devices.

    Source: DSP8010 2025.4, ComponentIntegrity v1_3_2, Links.ComponentsProtected.
    """
    return reading.ref, reading.integrity


def _own(accelerator: Accelerator, others: tuple[tuple[str, MeasurementReading], ...]) -> bool:
    """Whether a root of trust has proven what it signs for this device and for no other."""
    elsewhere = {_root(r) for _, r in others}
    return any(r.state is MeasurementState.PROVEN and _root(r) not in elsewhere for r in accelerator.measurements or ())


def all_compared(accelerator: Accelerator, reading: MeasurementReading, catalogue: tuple[Image, ...]) -> tuple[Compared, ...]:
    """Compare the components of a device for which an image has reference measurements."""
    found = (_compared(accelerator, one, reading, catalogue) for one in accelerator.firmware)
    return tuple(c for c in found if c is not None)


def _compared(
    accelerator: Accelerator, component: Component, reading: MeasurementReading, catalogue: tuple[Image, ...]
) -> Compared | None:
    """Compare version and measurements of a component: do they mean one image? None if no image has references for it."""
    known = [(i, _references(i, reading)) for i in catalogue if meant_for(i, accelerator, component)]
    known = [(image, references) for image, references in known if references]
    measured = [image for image, references in known if all(_holds(r, reading) for r in references)]
    expected = [(i, references) for i, references in known if same_version(i.version, component.version)]
    if names := tuple(image.name for image, _ in expected if any(image is one for one in measured)):
        return Compared(component=component, images=names)
    if measured:
        return Compared(component=component, image=measured[0].name, image_version=measured[0].version)
    if not expected:
        return None
    image, references = expected[0]
    first = next(r for r in references if not _holds(r, reading))
    shown = next((m for m in reading.measurements if m.index == first.index), None)
    return Compared(component=component, image=image.name, index=first.index, measurement=shown)


def _references(image: Image, reading: MeasurementReading) -> tuple[ReferenceValue, ...]:
    return tuple(r for r in image.measurements if fnmatchcase(reading.integrity.casefold(), r.integrity.casefold()))


def _holds(reference: ReferenceValue, reading: MeasurementReading) -> bool:
    """Whether one of the values that the catalogue allows was measured at that index."""
    return any(m.index == reference.index and is_expected(reference, m) for m in reading.measurements)


def _finding(accelerator: Accelerator, subject: Subject, fact: Signed, met: Met, wanted: Demands) -> Finding:
    return Finding(
        accelerator=accelerator.id,
        label=accelerator.label,
        subject=subject,
        fact=fact,
        met=met,
        rule=wanted.measure_rule,
    )
