# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What is a measurement of firmware: what a BMC brought, unchecked, and what is known once somebody has checked it?"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from baremetal_acc.model.firmware import Component
from baremetal_acc.model.ref import AcceleratorId, Ref

NONCE_BYTES = 32
"""Of a nonce. Source: DSP8010 2025.4, ComponentIntegrity v1_3_2, SPDMGetSignedMeasurements; DSP0274 1.3.2, GET_MEASUREMENTS."""

COMPARED = 'compared with the catalogue: '
"""How the reason of a reading begins in a certificate, where it was held against values of the catalogue."""


class MeasurementState(StrEnum):
    """What one reading is worth.

    ``proven``: signed over our nonce by a key whose chain leads to a root that the operator pinned, and nothing in it speaks
    against the device. ``refused``: something does not hold, or the device is in a mode in which it proves nothing.
    ``unknown``: nobody could ask or judge. Only the first says anything good.
    """

    PROVEN = 'proven'
    REFUSED = 'refused'
    UNKNOWN = 'unknown'


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One block of a record.

    :ivar index: of the block, 1 to 254.
    :ivar kind: what was measured: ``mutable-firmware``; ``type-0x0b`` for one that is not known here.
    :ivar algorithm: of a digest, where the signed transcript says it: ``sha384``; None: it does not, or the value is no digest.
    :ivar value: hexadecimal.
    :ivar raw: the value is what was measured itself, and no digest of it. Long ones are given as their SHA-256 by ``hashed``.
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
class SignedMeasurements:
    """What a BMC brought from a device, before anybody has checked it. Nothing in it counts.

    :ivar ref: the ComponentIntegrity; ``integrity`` its Id.
    :ivar nonce: what we asked with; ``slot`` the certificate slot that we asked for.
    :ivar transcript: SignedMeasurements, decoded.
    :ivar certificates: the chain as PEM text, in whatever order.
    :ivar version: of SPDM, as the BMC says; ``hashing`` and ``signing`` likewise. None where it says nothing.
    :ivar at: when the look began that asked for it, UTC; ``session`` names the session.
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
    """What one root of trust says of a device, once it was checked.

    :ivar accelerator: the device that it speaks of.
    :ivar ref: the ComponentIntegrity; ``integrity`` its Id.
    :ivar reason: why it is not proven; of one that is, what has to be told all the same, or None. In a certificate that begins
        with what it was compared with.
    :ivar version: of SPDM, as the signed transcript says it.
    :ivar signer: subject of the certificate whose key signed; ``fingerprint`` SHA-256 of that key.
    :ivar root: SHA-256 of the pinned root that the chain leads to.
    :ivar nonce: what was asked with, hexadecimal.
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

    @property
    def is_compared(self) -> bool:
        """Of one in a certificate: it was held against values of the catalogue. The text is all that certificates say of it."""
        return self.reason is not None and self.reason.startswith(COMPARED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One component, as its version and its measurements tell of it.

    :ivar images: of the catalogue, by name, that it measures as; empty: version and measurements do not go together.
    :ivar image: another one that it measures as, which is of ``image_version``; or the one of its version, that it does not
        measure as: ``index`` is the first block that differs, ``measurement`` what is shown there.
    """

    component: Component
    images: tuple[str, ...] = ()
    image: str | None = None
    image_version: str | None = None
    index: int | None = None
    measurement: Measurement | None = None
