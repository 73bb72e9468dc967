# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A firmware component of a device, with its running and its staged version."""

from dataclasses import dataclass, field

from baremetal_acc.model.codec import SPARSE
from baremetal_acc.model.ref import Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """A firmware image on a device, as a SoftwareInventory or a version property shows it.

    Versions are stripped of blanks and compared for equality, never ordered. A version that a BMC gives as empty or as a
    sentinel is None.

    Source: DSP8010 2025.4, SoftwareInventory v1_13_0.

    :ivar id: Id of the SoftwareInventory; None when only the device itself shows a version.
    :ivar ref: the resource: the SoftwareInventory, or the device itself when there is none.
    :ivar version: the running version.
    :ivar staged: the version that runs after a reset, or None.
    :ivar lowest_supported: LowestSupportedVersion.
    :ivar updateable: Updateable; None when the BMC does not say.
    :ivar software_id: SoftwareId, the manufacturer's id of the image.
    :ivar write_protected: WriteProtected; None when the BMC does not say.
    :ivar is_updating: the resource says that it is being written: no version that it shows proves the end of the write.
    :ivar installed: when the component was written last, as the BMC says it; None where the BMC does not say.
    :ivar certain: the BMC states that the SoftwareInventory belongs to the device; False where that was inferred.
    """

    id: str | None
    ref: Ref
    name: str | None = None
    version: str | None = None
    staged: str | None = None
    lowest_supported: str | None = None
    updateable: bool | None = None
    software_id: str | None = None
    write_protected: bool | None = None
    certain: bool = True
    is_updating: bool = field(default=False, metadata=SPARSE)
    installed: str | None = field(default=None, metadata=SPARSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemIdentity:
    """The properties by which the SoftwareInventory of a component is found again after an update gave it another URI.

    :ivar software_id: its SoftwareId.
    :ivar beside: other SoftwareInventory resources of the card that could be confused with it.
    """

    software_id: str | None = field(default=None, metadata=SPARSE)
    beside: tuple[Ref, ...] = field(default=(), metadata=SPARSE)
