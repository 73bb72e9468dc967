# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What a lock is: write paths, and readings that say which of them a mechanism blocks."""

from collections.abc import Iterable
from dataclasses import dataclass
from dataclasses import field as of_dataclass
from datetime import datetime
from enum import StrEnum

from baremetal_acc.model.codec import SPARSE
from baremetal_acc.model.ref import AcceleratorId, Ref


class WritePath(StrEnum):
    """A way by which firmware of a device can be written.

    ``host-device`` is the host's own way to the card (PCIe, or the card's own console port to the host); ``host-bmc-ipmi``
    the system interface; ``host-bmc-redfish`` the host interface or virtual NIC; ``bmc-network`` the operator's own way.
    """

    HOST_DEVICE = 'host-device'
    HOST_BMC_IPMI = 'host-bmc-ipmi'
    HOST_BMC_REDFISH = 'host-bmc-redfish'
    BMC_NETWORK = 'bmc-network'


class LockState(StrEnum):
    """What one reading shows.

    ``locked-verified``: we engaged it and read it back over a fresh session, nothing pending. It proves configuration, not a
    refused write. ``locked-reported``: read, not engaged by us in this lifecycle: never enough for a deploy.
    ``pending-reset``: set, not in force. ``unsupported``: no mechanism. ``unknown``: could not be read, or sources disagree.
    """

    LOCKED_VERIFIED = 'locked-verified'
    LOCKED_REPORTED = 'locked-reported'
    PENDING_RESET = 'pending-reset'
    PARTIAL = 'partial'
    UNLOCKED = 'unlocked'
    UNSUPPORTED = 'unsupported'
    UNKNOWN = 'unknown'


class ResetKind(StrEnum):
    """What has to happen before something that was set or staged is in force.

    ``system-reset`` is any start of the System that it is of, also from power off: what the BIOS keeps comes with it.
    ``bmc-reset`` is one of the Manager. ``aux-power-cycle``: the standby power of the machine is taken away and given back, by
    an action of its BMC, which restarts with it. ``ac-power-cycle``: a person does the same with the power cord. Source:
    DSP8010 2025.4, Resource.ResetType (the words used for it are the driver's business); DSP0267 1.3.0, table 6.
    """

    NONE = 'none'
    BMC_RESET = 'bmc-reset'
    SYSTEM_RESET = 'system-reset'
    POWER_CYCLE = 'power-cycle'
    AUX_POWER_CYCLE = 'aux-power-cycle'
    AC_POWER_CYCLE = 'ac-power-cycle'

    @property
    def is_standby(self) -> bool:
        """The standby power goes, and the BMC restarts with it: whatever another reset brings in force, this does too."""
        return self in (ResetKind.AUX_POWER_CYCLE, ResetKind.AC_POWER_CYCLE)

    @property
    def restarts_bmc(self) -> bool:
        """The BMC restarts: its sessions and tasks are gone, and so are the locks that it keeps in memory."""
        return self is ResetKind.BMC_RESET or self.is_standby


class Scope(StrEnum):
    """What of a device a mechanism protects.

    ``device``: all firmware and every slot. ``firmware``: all firmware, no slot. ``component``: one SoftwareInventory.
    ``slot``: one ReconfigurationSlot. ``bmc``: of whole machines: whatever of any device can be reached through this BMC. It is
    one lock however many devices show it, and the device's own way to the host is not among what it closes.
    """

    DEVICE = 'device'
    FIRMWARE = 'firmware'
    COMPONENT = 'component'
    SLOT = 'slot'
    BMC = 'bmc'


class AtPlace:
    """What is of one place of a lock, at which it is engaged and released."""

    __slots__ = ()
    mechanism: str
    ref: Ref
    field: str

    @property
    def place(self) -> tuple[str, Ref, str]:
        """Mechanism, resource and field."""
        return (self.mechanism, self.ref, self.field)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockReading(AtPlace):
    """What one mechanism says at one place, at one time.

    :ivar mechanism: its name, the same as its entry point's.
    :ivar accelerator: the device it protects.
    :ivar scope: what of the device it protects; ``part`` names the SoftwareInventory Id or the SlotId where it is one only.
    :ivar blocks: the write paths it blocks when it is locked.
    :ivar ref: the resource it was read from; ``field`` the place in it, a path of names and positions joined with ``/``.
    :ivar value: the literal value, as JSON text; None when there was none.
    :ivar state: as read. ``locked-verified`` never comes from a mechanism: only :mod:`baremetal_acc.decide.evidence` says it.
    :ivar at: when the look that read it began, UTC.
    :ivar session: names the session by which it was read; two readings over one session have the same.
    :ivar needs: the reset that a change of it needs before it is in force.
    :ivar reset: the System (of a ``bmc-reset``: the Manager) that this reset is of, or None.
    :ivar wraps: a lockdown under which the BMC changes no other setting: it is opened once, first, and closed last, for all
        devices.
    :ivar in_force: the BMC tells what is in force from what is set, and this is in force: to close it again needs no reset.
    :ivar with_start: a System: closed is set, and comes in force with the next start of this one, before any code of its host
        runs; None where that is not so.
    :ivar closable: False where the device says that it cannot close it altogether: engaging it leaves a way in. ``reason`` says
        which.
    :ivar closes: what engaging it now would close, in the mechanism's own words, where releasing it is to open that and nothing
        else; empty where that is nothing, or where nobody knows; None where releasing it needs no memory.
    :ivar leaves: what engaging it leaves open since the device does not let it be closed and nobody demands that, as a short
        word that is another one when any of it is another, and empty where nothing is left; None where it does not tell.
    :ivar reason: why it is unknown, partial or pending, or cannot be closed, or None.
    :ivar volatile: a restart of its BMC may open it.
    """

    mechanism: str
    accelerator: AcceleratorId
    blocks: frozenset[WritePath]
    ref: Ref
    field: str
    value: str | None
    state: LockState
    at: datetime
    session: str
    scope: Scope = Scope.DEVICE
    part: str | None = None
    needs: ResetKind = ResetKind.NONE
    reset: Ref | None = None
    wraps: bool = False
    with_start: Ref | None = None
    in_force: bool = False
    closable: bool = True
    closes: str | None = None
    leaves: str | None = None
    reason: str | None = None
    volatile: bool = of_dataclass(default=False, metadata=SPARSE)

    @property
    def to_close(self) -> ResetKind:
        """The reset that closing it needs as it is now."""
        return ResetKind.NONE if self.in_force and self.state is LockState.LOCKED_REPORTED else self.needs


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Way(AtPlace):
    """A place of a lock of a whole machine that a BMC has shown: each of them may be a way of the host to that BMC.

    :ivar mechanism: with ``ref``, ``field`` and ``blocks`` as in the reading; ``blocks`` sorted.
    """

    mechanism: str
    ref: Ref
    field: str
    blocks: tuple[WritePath, ...]


MOST_CLOSED = 8
"""Records of one lock. Whoever gets more out of us toggles it, and what he opened stays closed when it is released."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo(AtPlace):
    """What we have closed at the place of a lock, so that releasing it opens that, and nothing else.

    It is no evidence, and lasts from one lifecycle of the node to the next, until the lock is released.

    :ivar closed: ``LockReading.closes`` of each time that we have engaged it, without repetitions.
    """

    mechanism: str
    ref: Ref
    field: str
    closed: tuple[str, ...]


def closed_by_us(undos: Iterable[Undo], place: tuple[str, Ref, str]) -> tuple[str, ...]:
    """What we have closed at a place."""
    return next((u.closed for u in undos if u.place == place), ())


def to_be_closed(undos: Iterable[Undo], reading: LockReading) -> tuple[Undo, ...]:
    """The records with what engaging a lock closes. To be stored before it is engaged."""
    known = tuple(undos)
    before = closed_by_us(known, reading.place)
    if not reading.closes or reading.closes in before or len(before) == MOST_CLOSED:
        return known
    mechanism, ref, field = reading.place
    return (
        *opened_again(known, reading.place),
        Undo(mechanism=mechanism, ref=ref, field=field, closed=(*before, reading.closes)),
    )


def opened_again(undos: Iterable[Undo], place: tuple[str, Ref, str]) -> tuple[Undo, ...]:
    """The records without those of a place."""
    return tuple(u for u in undos if u.place != place)


@dataclass(frozen=True, slots=True, kw_only=True)
class Engagement(AtPlace):
    """Our own record that a lock was engaged: without it no reading counts as verified.

    :ivar accelerator: identity of the card at that time.
    :ivar lifecycle: of the node at that time; evidence of another lifecycle counts for nothing.
    :ivar flow: in which it was engaged (``clean``, ``deploy``, ``service``, ``cli``): a deploy takes only a deploy's own.
    :ivar session: by which the write went; the reading that proves it has to come over another one.
    :ivar at: when the turn began in which it was written, UTC. A look that proves it is of a later turn.
    :ivar part: of the card, as in the reading that was engaged: places are positions, and a BMC may renumber them.
    :ivar reset: the System whose reset it needs; ``reset_at`` when that was seen done, or None.
    :ivar scope: as in the reading. A lock of scope ``bmc`` is engaged once for all devices: ``accelerator`` is but one of them.
    :ivar blocks: as in the reading; empty where nobody knows, as in records of earlier versions: it may be any path.
    :ivar leaves: as in the reading that it was engaged with; None where nobody knows, too, as in records of earlier versions.
    """

    mechanism: str
    accelerator: AcceleratorId
    ref: Ref
    field: str
    lifecycle: int
    flow: str
    session: str
    at: datetime
    part: str | None = None
    needs: ResetKind = ResetKind.NONE
    reset: Ref | None = None
    reset_at: datetime | None = None
    scope: Scope = Scope.DEVICE
    blocks: frozenset[WritePath] = frozenset()
    leaves: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WritablePart:
    """Something of a device that can be written: a firmware component, a slot, or, where it shows neither, the device.

    Of scope ``bmc``: all of the device, by way of the BMC that ``part`` names.
    """

    scope: Scope
    part: str | None = None

    def __str__(self) -> str:
        if self.scope is Scope.BMC:
            return f'all by way of BMC {self.part}'
        return self.part if self.part is not None else 'the device'


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How one write path to one subject is blocked.

    :ivar state: of the mechanism that blocks it best; ``unsupported`` when none does.
    :ivar reading: the one that says so.
    """

    subject: WritablePart
    state: LockState
    reading: LockReading | None
