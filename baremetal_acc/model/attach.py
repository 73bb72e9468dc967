# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What an instance has got of a machine's accelerators, by which handle it finds each of them, and how far each one is."""

from dataclasses import dataclass
from enum import StrEnum

from baremetal_acc.model.accelerator import Kind
from baremetal_acc.model.ref import AcceleratorId

Place = tuple[AcceleratorId, str]
"""A device and a SlotId of it."""


class HandleType(StrEnum):
    """By what an instance finds an accelerator: the PCI address of a device, a slot of a card, a function of a DPU."""

    PCI = 'pci'
    SLOT = 'slot'
    DPU_FUNCTION = 'dpu-function'


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachHandle:
    """Where an instance finds what it got.

    :ivar address: PCI address of the device or the card, ``dddd:bb:dd.f``; None where its BMC does not show it: many do so
        only while the host runs.
    :ivar slot: SlotId, of a slot.
    :ivar location: where the device sits in the machine, as its BMC calls it.
    """

    handle: HandleType
    address: str | None = None
    slot: str | None = None
    location: str | None = None

    def __str__(self) -> str:
        where = self.address or self.location or 'an address that its BMC does not show'
        match self.handle:
            case HandleType.PCI:
                return where
            case HandleType.SLOT:
                return f'{self.slot} at {where}'
            case HandleType.DPU_FUNCTION:
                return f'DPU function {where}'


class AttachState(StrEnum):
    """How far one accelerator of an instance is.

    ``planned``: claimed, nothing was done. ``preparing``: its device half is being made, or may be. ``prepared``: that is done.
    ``plugged``: it was looked at before the machine was handed over, and is what was promised. ``failed``: it could not be
    prepared. ``unpreparing``: it is being brought back. ``gone``: nothing has to be brought back any more.
    ``not-rolled-back``: it could not be brought back.
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
    """What happens to it.

    ``begin``: the instance's accelerators are prepared. ``ready``: this one is. ``break``: it cannot be. ``plug``: it was
    looked at, and is what was promised. ``back``: the instance goes, or another of its accelerators has failed. ``undone``: it
    was brought back. ``stuck``: it could not be.
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
    """What an instance holds of one provider of the machine.

    :ivar provider: its UUID in placement.
    :ivar classes: what it is claimed as.
    :ivar kind: of the device.
    :ivar slot: SlotId; None: the whole device.
    """

    provider: str
    classes: frozenset[str]
    accelerator: AcceleratorId
    kind: Kind
    slot: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """One accelerator, or one slot of one, of an instance.

    :ivar label: of the device, for people.
    :ivar driver: name of the attach driver that looks after it.
    :ivar function: what it is to hold, or holds, for the instance; None: nothing is asked of it.
    :ivar previous: the function that it held before the instance came; None: none, or none that is known.
    :ivar back: the function that it was to hold again when it was brought back last.
    :ivar written: something was written to it for the instance, or may have been.
    :ivar doubtful: nobody can say what it holds: the last write to it has failed, or was not seen to end.
    :ivar why: what went wrong, or why it was left as it is.
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

    :ivar items: in the order in which they are prepared.
    :ivar job: that works on them; None: none does.
    :ivar reasons: why they are being brought back.
    """

    instance: str
    items: tuple[Attachment, ...]
    job: str | None = None
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Give:
    """What a driver wants done to a device: put a function into a slot. The one job machinery does it."""

    accelerator: AcceleratorId
    slot: str
    function: str

    @property
    def place(self) -> Place:
        """Device and slot."""
        return self.accelerator, self.slot
