# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""SPDM measurements of firmware: the signed data as a BMC returned it, and the reading after the signature was checked."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from baremetal_acc.model.codec import SPARSE
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.ref import AcceleratorId, Ref

NONCE_BYTES = 32
"""Length of a nonce.

Source: DSP8010 2025.4, ComponentIntegrity v1_3_2, SPDMGetSignedMeasurements; DSP0274 1.3.2, GET_MEASUREMENTS.
"""

COMPARED = 'compared with the catalogue: '
"""Prefix of a reading's reason in a certificate, where the measurements were compared with values of the catalogue. A
certificate without a :class:`MeasurementComparison` says so in no other way."""


class MeasurementState(StrEnum):
    """What a measurement reading proves.

    ``proven``: signed over our nonce by a key whose chain leads to a root that the operator pinned, and nothing in the
    measurements speaks against the device. ``refused``: a check failed, or the device is in a mode in which it proves nothing.
    ``unknown``: the device could not be asked or judged. Only ``proven`` is good.
    """

    PROVEN = 'proven'
    REFUSED = 'refused'
    UNKNOWN = 'unknown'


class MeasurementComparison(StrEnum):
    """Whether the catalogue has values for proven measurements.

    ``compared``: it has at least one, and the measurements were compared with it. ``no-reference``: it has none, so that the
    signature alone is proven.
    """

    COMPARED = 'compared'
    NO_REFERENCE = 'no-reference'


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One measurement block of a record.

    :ivar index: index of the block, 1 to 254.
    :ivar kind: the measured part: ``mutable-firmware``; ``type-0x0b`` for one that is not known here.
    :ivar algorithm: of a digest, where the signed transcript names it: ``sha384``; None where it does not, or where the value
        is no digest.
    :ivar value: hexadecimal.
    :ivar raw: the value is the measured data itself, and no digest of it. Long data is given as its SHA-256, with ``hashed``
        set.
    """

    index: int
    kind: str
    value: str
    algorithm: str | None = None
    raw: bool = False
    hashed: bool = False

    def __str__(self) -> str:
        return f'{self.index} {self.kind} {self.algorithm or ("raw" if self.raw else "digest")}:{self.value}'


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredVersion:
    """A version that a device names in the data that it signs.

    :ivar part: what has the version: ``vbios``, ``driver``.
    """

    part: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedMeasurements:
    """Signed measurements as a BMC returned them, before they were checked. Nothing in them counts.

    :ivar ref: the ComponentIntegrity; ``integrity`` its Id.
    :ivar nonce: the nonce that we sent; ``slot`` is the certificate slot that we asked for.
    :ivar transcript: SignedMeasurements of the BMC's answer, decoded.
    :ivar certificates: the certificate chain as PEM text, in any order.
    :ivar version: SPDM version, as the BMC says; ``hashing`` and ``signing`` are its algorithms. None where the BMC says
        nothing.
    :ivar at: when the read began that requested the measurements, UTC; ``session`` is the name of the session.
    """

    accelerator: AcceleratorId
    ref: Ref
    integrity: str
    nonce: bytes
    slot: int
    transcript: bytes
    certificates: str
    version: str | None
    hashing: str | None
    signing: str | None
    at: datetime
    session: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementReading:
    """The checked measurements of a device by one root of trust.

    :ivar accelerator: the device that the measurements are about.
    :ivar ref: the ComponentIntegrity; ``integrity`` its Id.
    :ivar reason: why the reading is not proven; for a proven one a remark, or None.
    :ivar version: SPDM version, as the signed transcript says it.
    :ivar signer: subject of the certificate whose key signed; ``fingerprint`` is the SHA-256 of that key.
    :ivar root: SHA-256 of the pinned root that the chain leads to.
    :ivar nonce: the nonce that we sent, hexadecimal.
    :ivar versions: versions that the signed data names, where its form is known.
    :ivar comparison: of a proven reading of a certificate. None elsewhere, and in certificates of releases without this field.
    """

    accelerator: AcceleratorId
    ref: Ref
    integrity: str
    state: MeasurementState
    at: datetime
    session: str
    reason: str | None = None
    version: str | None = None
    signer: str | None = None
    fingerprint: str | None = None
    root: str | None = None
    nonce: str | None = None
    measurements: tuple[Measurement, ...] = ()
    versions: tuple[MeasuredVersion, ...] = field(default=(), metadata=SPARSE)
    comparison: MeasurementComparison | None = field(default=None, metadata=SPARSE)

    @property
    def is_compared(self) -> bool:
        """Whether a reading of a certificate was compared with values of the catalogue."""
        if self.comparison is None:  # of an older release, where only the text of the reason tells
            return self.reason is not None and self.reason.startswith(COMPARED)
        return self.comparison is MeasurementComparison.COMPARED


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The version of a component compared with its measurements.

    :ivar images: names of the catalogue's images whose measurements match; empty where version and measurements contradict each
        other.
    :ivar image: another image whose measurements match, with ``image_version``; or the image of the shown version, whose
        measurements do not match: ``index`` is the first block that differs, ``measurement`` the block that the device reports
        there.
    """

    component: Component
    images: tuple[str, ...] = ()
    image: str | None = None
    image_version: str | None = None
    index: int | None = None
    measurement: Measurement | None = None
