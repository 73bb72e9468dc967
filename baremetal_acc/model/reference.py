# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Reference values that a maker publishes for a version, and the facts of a comparison with signed measurements."""

from dataclasses import dataclass

from baremetal_acc.model.image import ReferenceValue
from baremetal_acc.model.measurement import MeasuredVersion, Measurement


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionReference:
    """The measurements that the maker of a component publishes for one version of it.

    :ivar component: what the maker calls the component: ``GH100 GPU``.
    :ivar version: the version, as the signed measurements name it.
    :ivar measurements: the accepted values by index; each names the roots of trust that it is for.
    :ivar inactive: indices that the maker lists and that are not compared.
    :ivar source: the manifest: its format, id and digest.
    """

    component: str
    version: str
    measurements: tuple[ReferenceValue, ...]
    inactive: tuple[int, ...] = ()
    source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceMatches:
    """A measurement is one of the values that the reference has for its index."""

    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceDiffers:
    """A measurement is none of the values that the reference has for its index.

    :ivar expected: the values, pairs of algorithm and hexadecimal value.
    :ivar found: what the device reports at the index; None where it reports nothing.
    """

    index: int
    expected: tuple[tuple[str, str], ...]
    found: Measurement | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceNotActive:
    """The reference lists the index of a measurement as not active: its value is not compared."""

    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NoReference:
    """The catalogue has no reference for a version that the signed measurements name."""

    named: MeasuredVersion


ReferenceFact = ReferenceMatches | ReferenceDiffers | ReferenceNotActive


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceCompared:
    """The signed measurements compared with the reference of a version that they name.

    :ivar facts: one for each index of the reference, in its order.
    """

    named: MeasuredVersion
    reference: VersionReference
    facts: tuple[ReferenceFact, ...]

    @property
    def differing(self) -> tuple[ReferenceDiffers, ...]:
        return tuple(f for f in self.facts if isinstance(f, ReferenceDiffers))

    @property
    def matching(self) -> tuple[ReferenceMatches, ...]:
        return tuple(f for f in self.facts if isinstance(f, ReferenceMatches))


ReferenceResult = ReferenceCompared | NoReference
