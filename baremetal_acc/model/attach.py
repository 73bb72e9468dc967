# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Accelerators attached to an instance: the claimed devices and slots, their attach handles, and their attach states."""

from dataclasses import dataclass
from enum import StrEnum

from baremetal_acc.model.accelerator import Kind
from baremetal_acc.model.ref import AcceleratorId

Place = tuple[AcceleratorId, str]
"""A device and a SlotId of it."""


class HandleType(StrEnum):
    """How an instance addresses an accelerator: the PCI address of a device, a slot of a card, or a function of a DPU."""

    PCI = 'pci'
    SLOT = 'slot'
    DPU_FUNCTION = 'dpu-function'


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachHandle:
    """The address by which an instance finds an accelerator that it got.

    :ivar address: PCI address of the device or the card, ``dddd:bb:dd.f``; None where the BMC does not show it: many show it
        only while the host runs.
    :ivar slot: SlotId, for a slot.
    :ivar location: the location of the device in the machine, as the BMC calls it.
    """

    handle: HandleType
    address: str | None = None
    slot: str | None = None
    location: str | None = None

    def __str__(self) -> str:
        where = self.address or self.location or 'an address that its BMC does not report'
        match self.handle:
            case HandleType.PCI:
                return where
            case HandleType.SLOT:
                return f'{self.slot} at {where}'
            case HandleType.DPU_FUNCTION:
                return f'DPU function {where}'


class AttachState(StrEnum):
    """The state of one accelerator of an instance.

    ``planned``: claimed, nothing was done. ``preparing``: the device is being prepared, or may be. ``prepared``: it is
    prepared. ``plugged``: it was inspected before the machine was handed over, and is as promised. ``failed``: it could not be
    prepared. ``unpreparing``: it is being restored. ``gone``: nothing is left to restore. ``not-rolled-back``: it could not be
    restored.
    """

    PLANNED = 'planned'
    PREPARING = 'preparing'
    PREPARED = 'prepared'
    PLUGGED = 'plugged'
    FAILED = 'failed'
    UNPREPARING = 'unpreparing'
    GONE = 'gone'
    NOT_ROLLED_BACK = 'not-rolled-back'


class AttachEvent(StrEnum):
    """An event that changes the state of an attachment.

    ``begin``: the preparation of the instance's accelerators begins. ``ready``: this accelerator is prepared. ``break``: it
    cannot be prepared. ``plug``: it was inspected, and is as promised. ``back``: the instance leaves the node, or another of
    its accelerators has failed. ``undone``: the accelerator was restored. ``stuck``: it could not be restored.
    """

    BEGIN = 'begin'
    READY = 'ready'
    BREAK = 'break'
    PLUG = 'plug'
    BACK = 'back'
    UNDONE = 'undone'
    STUCK = 'stuck'


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The allocation of an instance on one resource provider of the machine.

    :ivar provider: UUID of the provider in placement.
    :ivar classes: the resource classes that are allocated.
    :ivar kind: the kind of the device.
    :ivar slot: SlotId; None for the whole device.
    """

    provider: str
    classes: frozenset[str]
    accelerator: AcceleratorId
    kind: Kind
    slot: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """One accelerator, or one slot of an accelerator, of an instance.

    :ivar label: the device's label, for people.
    :ivar driver: name of the attach driver that prepares and restores the device.
    :ivar function: the function that the slot is to hold, or holds, for the instance; None where none is asked for.
    :ivar previous: the function that the slot held before; None for none, or an unknown one.
    :ivar back: the function that was to be restored when the slot was restored last.
    :ivar written: something was written to the device for the instance, or may have been.
    :ivar doubtful: it is unknown what the slot holds: the last write to it has failed, or was not seen to end.
    :ivar why: what went wrong, or why the accelerator was left as it is.
    """

    provider: str
    classes: frozenset[str]
    accelerator: AcceleratorId
    label: str
    driver: str
    handle: AttachHandle
    slot: str | None = None
    function: str | None = None
    previous: str | None = None
    back: str | None = None
    written: bool = False
    doubtful: bool = False
    state: AttachState = AttachState.PLANNED
    why: str | None = None

    @property
    def place(self) -> Place | None:
        """Device and slot; None for a whole device."""
        return None if self.slot is None else (self.accelerator, self.slot)

    def __str__(self) -> str:
        part = self.label if self.slot is None else f'{self.slot} of {self.label}'
        return f'{part} ({self.accelerator})'


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """All accelerators of one instance.

    :ivar items: the attachments, in the order in which they are prepared.
    :ivar job: id of the job that works on them; None where there is none.
    :ivar reasons: why they are being restored.
    """

    instance: str
    items: tuple[Attachment, ...]
    job: str | None = None
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionAssignment:
    """A function that an attach driver wants in a slot. The job machinery programs it."""

    accelerator: AcceleratorId
    slot: str
    function: str

    @property
    def place(self) -> Place:
        """Device and slot."""
        return self.accelerator, self.slot
