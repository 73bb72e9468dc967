# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Do devices run what their BMC says they run? What they signed is compared with what the catalogue expects of each image.

A version is what a BMC says; a measurement is what the device's root of trust has signed. Where both speak of one component
they have to mean the same image.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from baremetal_acc.decide.baseline import Demands, Measure
from baremetal_acc.decide.images import meant_for, same_version
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.image import Image, Reference
from baremetal_acc.model.job import Finding, Met
from baremetal_acc.model.measurement import COMPARED, Measurement, MeasurementReading, MeasurementState
from baremetal_acc.model.ref import Ref
from baremetal_acc.model.subject import MEASUREMENTS, Subject, SubjectKind

EXPECTED = 'signed by the device, with our nonce and a pinned root, and as the catalogue expects'

NOT_COMPARED = 'the catalogue has nothing to compare it with'

_MOST_TOLD = 3


def findings(
    accelerator: Accelerator, all_of_them: Iterable[Accelerator], wanted: Demands, catalogue: Iterable[Image]
) -> Iterator[Finding]:
    """What is to be said of a device's measurements.

    :param all_of_them: the devices of the look, this one among them.
    """
    if wanted.measure is Measure.OFF:
        return
    required = wanted.measure is Measure.REQUIRED
    if not accelerator.measurements:
        if required:
            nobody = accelerator.measurements is None
            found = 'nobody has asked for them in this look' if nobody else 'the BMC shows no root of trust that signs for it'
            yield _finding(accelerator, MEASUREMENTS, found, Met.NO, wanted)
        return
    others = tuple((a.label, r) for a in all_of_them if a.id != accelerator.id for r in a.measurements or ())
    known = tuple(i for i in catalogue if i.measurements)
    for reading in accelerator.measurements:
        met, found = _judged(accelerator, reading, known, others, required=required)
        subject = Subject(kind=SubjectKind.MEASUREMENT, name=reading.integrity)
        yield _finding(accelerator, subject, found, met, wanted)


def _judged(
    accelerator: Accelerator,
    reading: MeasurementReading,
    catalogue: tuple[Image, ...],
    others: tuple[tuple[str, MeasurementReading], ...],
    *,
    required: bool,
) -> tuple[Met, str]:
    """What one root of trust comes to, and how that is said."""
    told = '' if reading.reason is None else f': {reading.reason}'
    if reading.state is not MeasurementState.PROVEN:
        return Met.NO, f'{reading.state}{told}'
    if reading.fingerprint is None:
        return Met.NO, 'nobody knows by which key it was signed'
    strangers = [label for label, r in others if r.fingerprint == reading.fingerprint and _root(r) != _root(reading)]
    if strangers:
        # One genuine card that answers for all: whoever passes questions on can do that.
        return Met.NO, f'the key that signed is that of {strangers[-1]}, too'
    beside = len([r for _, r in others if _root(r) == _root(reading)])
    many = f'{beside} other device{"s" if beside > 1 else ""}'
    if required and beside and not _own(accelerator, others):
        # Whoever passes questions on could link all devices to one genuine card.
        return Met.NO, f'it signs for {many}, too, and nothing else signs for this one alone'
    told += f'; the same root of trust signs for {many}' if beside else ''
    compared = _all_compared(accelerator, reading, catalogue)
    wrong = [c.text for c in compared if not c.same]
    if wrong:
        return Met.NO, '; '.join(wrong[:_MOST_TOLD])
    if not compared:
        return Met.NO if required else Met.YES, f'proven, and {NOT_COMPARED}{told}'
    return Met.YES, f'proven: {"; ".join(c.text for c in compared[:_MOST_TOLD])}{told}'


def matching(
    accelerator: Accelerator, all_of_them: Iterable[Accelerator], catalogue: Iterable[Image]
) -> Mapping[Ref, tuple[str, ...]]:
    """The components of a device that its roots of trust have measured as an image of the catalogue, with the images by name.

    Empty where any of them speaks against the device.
    """
    others = tuple((a.label, r) for a in all_of_them if a.id != accelerator.id for r in a.measurements or ())
    known = tuple(i for i in catalogue if i.measurements)
    found: dict[Ref, tuple[str, ...]] = {}
    for reading in accelerator.measurements or ():
        if _judged(accelerator, reading, known, others, required=True)[0] is not Met.YES:
            return {}
        for one in _all_compared(accelerator, reading, known):
            found[one.component] = (*found.get(one.component, ()), *one.images)
    return found


def recorded(accelerator: Accelerator, catalogue: Iterable[Image]) -> tuple[MeasurementReading, ...]:
    """The readings of a device for the record: each that is proven says what it was compared with, or that it was not."""
    known = tuple(i for i in catalogue if i.measurements)

    def said(reading: MeasurementReading) -> MeasurementReading:
        if reading.state is not MeasurementState.PROVEN:
            return reading
        texts = [c.text for c in _all_compared(accelerator, reading, known)]
        what = f'{COMPARED}{"; ".join(texts)}' if texts else NOT_COMPARED
        return replace(reading, reason='; '.join(filter(None, (what, reading.reason))))

    return tuple(said(reading) for reading in accelerator.measurements or ())


def _root(reading: MeasurementReading) -> tuple[Ref, str]:
    """The root of trust that signed, as its BMC names it. One may protect several devices, and answers for each of them.

    Source: DSP8010 2025.4, ComponentIntegrity v1_3_2, Links.ComponentsProtected.
    """
    return reading.ref, reading.integrity


def _own(accelerator: Accelerator, others: tuple[tuple[str, MeasurementReading], ...]) -> bool:
    """A root of trust has proven what it signs for this device and for no other."""
    elsewhere = {_root(r) for _, r in others}
    return any(r.state is MeasurementState.PROVEN and _root(r) not in elsewhere for r in accelerator.measurements or ())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compared:
    """One component, as its version and its measurements tell of it.

    :ivar images: of the catalogue, by name, that it measures as.
    """

    component: Ref
    same: bool
    text: str
    images: tuple[str, ...] = ()


def _all_compared(accelerator: Accelerator, reading: MeasurementReading, catalogue: tuple[Image, ...]) -> tuple[_Compared, ...]:
    """The components of a device that an image tells of what they have to measure."""
    found = (_compared(accelerator, one, reading, catalogue) for one in accelerator.firmware)
    return tuple(c for c in found if c is not None)


def _compared(
    accelerator: Accelerator, component: Component, reading: MeasurementReading, catalogue: tuple[Image, ...]
) -> _Compared | None:
    """Whether version and measurements of a component mean the same image; None: no image tells what they have to be."""
    known = [(i, _references(i, reading)) for i in catalogue if meant_for(i, accelerator, component)]
    known = [(image, references) for image, references in known if references]
    measured = [image for image, references in known if all(_holds(r, reading) for r in references)]
    expected = [(i, references) for i, references in known if same_version(i.version, component.version)]
    if any(image is one for image, _ in expected for one in measured):
        names = tuple(image.name for image, _ in expected if any(image is one for one in measured))
        return _Compared(component=component.ref, same=True, text=f'{component.id} is {component.version}', images=names)
    if not expected and not measured:
        return None
    says = f'{component.id} is said to be {component.version or "nothing known"}'
    if measured:
        other = measured[0]
        text = f'{says}, and measures as image {other.name}, which is {other.version}'
        return _Compared(component=component.ref, same=False, text=text)
    image, references = expected[0]
    first = next(r for r in references if not _holds(r, reading))
    shown = [m for m in reading.measurements if m.index == first.index]
    what = f'is {_short(shown[0])}' if shown else 'is missing'
    text = f'{says}, and measurement {first.index} {what}, not that of image {image.name}'
    return _Compared(component=component.ref, same=False, text=text)


def _references(image: Image, reading: MeasurementReading) -> tuple[Reference, ...]:
    return tuple(r for r in image.measurements if fnmatchcase(reading.integrity.casefold(), r.integrity.casefold()))


def _holds(reference: Reference, reading: MeasurementReading) -> bool:
    """One of the values that the catalogue allows was measured there."""
    return any(
        m.index == reference.index and any(_same(m, kind, v) for kind, v in reference.values) for m in reading.measurements
    )


def _same(found: Measurement, kind: str, value: str) -> bool:
    """Of the same algorithm, where the device tells which; SPDM 1.1 does not, and the length of the value has to do."""
    if found.raw:
        return kind == 'raw' and not found.hashed and found.value == value
    return kind != 'raw' and found.algorithm in (None, kind) and found.value == value


def _short(found: Measurement) -> str:
    return f'{found.algorithm or ("raw" if found.raw else "digest")}:{found.value[:16]}...'


def _finding(accelerator: Accelerator, subject: Subject, found: str, met: Met, wanted: Demands) -> Finding:
    return Finding(
        accelerator=accelerator.id,
        label=accelerator.label,
        subject=subject,
        expected=EXPECTED,
        found=found,
        met=met,
        rule=wanted.measure_rule,
    )
