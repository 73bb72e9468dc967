# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Dataclasses for an accelerator: one physical device, however many Redfish resources a BMC lists for it."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from baremetal_acc.model.card_setting import CardSettingReading
from baremetal_acc.model.codec import SPARSE
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.lock import LockReading
from baremetal_acc.model.measurement import MeasurementReading
from baremetal_acc.model.ref import AcceleratorId, Ref


class Kind(StrEnum):
    """The kind of an accelerator, with a description of it in ``means``.

    A new kind is added here, and to the rows of ``data/devices.toml`` that find it; everything else follows. Its resource class
    is ``CUSTOM_ACC_<KIND>`` unless there is a standard one.

    Computational storage has no kind of its own: the standard has no word for it, and a tenant uses the FPGA or the chip of
    such a drive. It carries the trait :data:`COMPUTATIONAL_STORAGE`.
    """

    _value_: str
    means: str

    def __new__(cls, word: str, means: str) -> Self:
        """Make a member whose value is the word alone."""
        member = str.__new__(cls, word)
        member._value_, member.means = word, means
        return member

    GPU = 'GPU', 'a graphics processor, or one of its family that has no display'
    FPGA = 'FPGA', 'a programmable chip, whole or with slots that each hold a function'
    DPU = 'DPU', 'a network adapter with processors and a system of its own'
    NIC = 'NIC', 'an accelerating network adapter that is no DPU'
    ASIC = 'ASIC', 'any other chip that computes, such as for AI or for video'


COMPUTATIONAL_STORAGE = 'CUSTOM_COMPUTATIONAL_STORAGE'
"""Trait of an accelerator that is also a drive: one of its PCIe functions is a storage controller."""


class IdentitySource(StrEnum):
    """The value that identifies a device. Serial numbers are not unique on real machines, so a UUID comes first.

    ``serial`` is the serial number, with the location where two devices of a BMC have the same serial number.
    """

    UUID = 'uuid'
    SERIAL = 'serial'
    URI = 'uri'


class MergeBasis(StrEnum):
    """Why several resources are taken for one device. The strongest reason comes first; ``order`` is a guess.

    ``link``: one links to the other, or to a PCIe function of it. ``pci-functions``: both list or link the same PCIe functions.
    ``chassis``: everything in a chassis that is a card or module is this device. ``uuid``: the same UUID. ``serial``: the same
    serial number. ``pci-address``: the same PCI address, vendor and device id. ``id-and-pci-ids``: the same Id and all PCI ids,
    where one System and one Chassis list the resource. ``location``: the same location label. ``number``: the same word and
    number in their Ids, such as GPU2. ``order``: paired by position, since as many cards as processors or adapters of their
    kind were left.
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
    """The evidence that several resources are one device.

    :ivar refs: the resources that the evidence is about, two or more, sorted.
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
    """An acceleration function in a slot.

    Source: DSP8010 2025.4, AccelerationFunction v1_0_5.

    :ivar id: the resource's Id.
    :ivar type: AccelerationFunctionType; the raw text where the BMC uses a word of its own.
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
    """A reconfiguration slot of an FPGA, which holds one function.

    Source: DSP8010 2025.4, Processor v1_22_0, FPGA.ReconfigurationSlots.

    :ivar index: position in the array, from 0; a PATCH addresses the slot by it.
    :ivar function: the function in the slot; None when the slot is empty.
    :ivar item: the SoftwareInventory of the slot's image, the Target of an update; None when the BMC has none.
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
    :ivar merged_by: the evidence that the resources are one device, sorted: of each resource the first that was found; empty
        for a single resource. Resources below one of them, and linked ones that only complete it (its functions, its
        interfaces), need no evidence.
    :ivar system: the ComputerSystem that the device belongs to, through which the device is reset, or None.
    :ivar health: Status.Health, the worst of all resources of the device.
    :ivar health_rollup: Status.HealthRollup, likewise: of the device and everything below it.
    :ivar state: Status.State as given: Enabled, Disabled, StandbyOffline, ...
    :ivar measurements: readings of the device's roots of trust; empty where it has none; None where they were not asked, since
        that is slow.
    :ivar settings: readings of the settings that rules demand of the device; None where they were not read.
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
    settings: tuple[CardSettingReading, ...] | None = field(default=None, metadata=SPARSE)

    @property
    def label(self) -> str:
        """Short text for messages: model and the last segment of the primary URI."""
        return f'{self.model or self.kind} {self.primary.uri.rstrip("/").rsplit("/", 1)[-1]}'
