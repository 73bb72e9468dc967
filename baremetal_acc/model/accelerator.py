# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What an accelerator is: one physical device, however often a BMC lists it."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from baremetal_acc.model.codec import SPARSE
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.lock import LockReading
from baremetal_acc.model.measurement import MeasurementReading
from baremetal_acc.model.ref import AcceleratorId, Ref


class Kind(StrEnum):
    """What a device computes with: the word for it, and what that means.

    A kind is added here, and to the rows of ``data/devices.toml`` that find it; everything else follows. Its resource class is
    ``CUSTOM_ACC_<KIND>`` unless there is a standard one.

    Computational storage has no kind of its own: the standard has no word for it, and what a tenant uses of such a drive is its
    FPGA or its chip. It carries the trait :data:`COMPUTATIONAL_STORAGE`.
    """

    _value_: str
    means: str

    def __new__(cls, word: str, means: str) -> Self:
        """A member, whose value is the word alone."""
        member = str.__new__(cls, word)
        member._value_, member.means = word, means
        return member

    GPU = 'GPU', 'a graphics processor, or one of its family that has no display'
    FPGA = 'FPGA', 'a programmable chip, whole or with slots that each hold a function'
    DPU = 'DPU', 'a network adapter with processors and a system of its own'
    NIC = 'NIC', 'an accelerating network adapter that is no DPU'
    ASIC = 'ASIC', 'any other chip that computes, such as for AI or for video'


COMPUTATIONAL_STORAGE = 'CUSTOM_COMPUTATIONAL_STORAGE'
"""Trait of an accelerator that is a drive too: one of its PCIe functions is a storage controller."""


class IdentitySource(StrEnum):
    """Which value identifies the device. Serial numbers are not unique on real machines, so a UUID comes first.

    ``serial`` stands for the serial number, with the location where two devices of a BMC have the same one.
    """

    UUID = 'uuid'
    SERIAL = 'serial'
    URI = 'uri'


class MergeBasis(StrEnum):
    """Why resources are taken for one device. The strongest comes first; ``order`` is a guess.

    ``link``: one links to the other, or to a PCIe function of it. ``pci-functions``: both list or link the same PCIe functions.
    ``chassis``: everything in a chassis that is a card or module is this device. ``uuid``: the same UUID. ``serial``: the same
    serial number. ``pci-address``: the same PCI address, vendor and device id. ``id-and-pci-ids``: the same Id and all PCI ids,
    where one System and one Chassis list it. ``location``: the same label of a place. ``number``: word and number of their Ids,
    such as GPU2. ``order``: as many of them were left as of the others of their kind.
    """

    LINK = 'link'
    PCI_FUNCTIONS = 'pci-functions'
    CHASSIS = 'chassis'
    UUID = 'uuid'
    SERIAL = 'serial'
    PCI_ADDRESS = 'pci-address'
    ID_AND_PCI_IDS = 'id-and-pci-ids'
    LOCATION = 'location'
    NUMBER = 'number'
    ORDER = 'order'


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class MergeEvidence:
    """What made one device of several resources.

    :ivar refs: the resources that say it, two or more, sorted.
    """

    basis: MergeBasis
    refs: tuple[Ref, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PciIds:
    """PCI identification, lower case with ``0x``; None where the BMC does not say.

    :ivar address: ``dddd:bb:dd.f``, or None.
    """

    vendor_id: str | None = None
    device_id: str | None = None
    subsystem_vendor_id: str | None = None
    subsystem_id: str | None = None
    class_code: str | None = None
    address: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """An acceleration function that a slot holds.

    Source: DSP8010 2025.4, AccelerationFunction v1_0_5.

    :ivar id: the resource's Id.
    :ivar type: AccelerationFunctionType, raw text where the BMC uses a word of its own.
    :ivar state: Status.State as given; ``health`` likewise.
    """

    ref: Ref
    id: str
    name: str | None = None
    type: str | None = None
    uuid: str | None = None
    version: str | None = None
    manufacturer: str | None = None
    state: str | None = None
    health: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconfigurationSlot:
    """A region of an FPGA that holds one function.

    Source: DSP8010 2025.4, Processor v1_22_0, FPGA.ReconfigurationSlots.

    :ivar index: position in the array, from 0 (a PATCH addresses it so).
    :ivar function: what it holds; None when empty.
    :ivar item: the SoftwareInventory that stands for the slot's image, the Target of an update; None when the BMC has none.
    """

    slot_id: str
    index: int
    uuid: str | None = None
    programmable_from_host: bool | None = None
    function: Function | None = None
    item: Component | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """One physical device.

    :ivar refs: every resource that is this device, sorted; ``primary`` is the best one to show.
    :ivar merged_by: why they are one device, sorted: the first that said so of each; none where one resource is all of it.
        What lies below one of them, and what one links that only completes it (its functions, its interfaces), needs no reason.
    :ivar system: the ComputerSystem it hangs under, the one that a reset of the device goes through, or None.
    :ivar health: Status.Health, the worst that one of its resources gives.
    :ivar health_rollup: Status.HealthRollup likewise: of the device and everything below it.
    :ivar state: Status.State as given: Enabled, Disabled, StandbyOffline, ...
    :ivar measurements: what its roots of trust say of it, none where it has none; None where nobody asked them: it is slow.
    """

    id: AcceleratorId
    kind: Kind
    identity: IdentitySource
    primary: Ref
    refs: tuple[Ref, ...]
    vendor: str | None = None
    model: str | None = None
    part_number: str | None = None
    serial: str | None = None
    uuid: str | None = None
    location: str | None = None
    pci: PciIds = PciIds()
    firmware: tuple[Component, ...] = ()
    slots: tuple[ReconfigurationSlot, ...] = ()
    functions: tuple[Function, ...] = ()
    locks: tuple[LockReading, ...] = ()
    traits: frozenset[str] = frozenset()
    system: Ref | None = None
    health: str | None = None
    health_rollup: str | None = None
    state: str | None = None
    measurements: tuple[MeasurementReading, ...] | None = None
    merged_by: tuple[MergeEvidence, ...] = field(default=(), metadata=SPARSE)

    @property
    def label(self) -> str:
        """Short text for messages: model and the last segment of the primary URI."""
        return f'{self.model or self.kind} {self.primary.uri.rstrip("/").rsplit("/", 1)[-1]}'
