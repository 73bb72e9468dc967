# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Locks against firmware writes: write paths, lock readings, and the records of locks that were engaged."""

from collections.abc import Iterable
from dataclasses import dataclass
from dataclasses import field as of_dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

from baremetal_acc.model.codec import SPARSE
from baremetal_acc.model.ref import AcceleratorId, Ref


class WritePath(StrEnum):
    """A path by which firmware of a device can be written.

    ``host-device`` is the host's own path to the card (PCIe, or the card's own console port to the host); ``host-bmc-ipmi`` the
    system interface; ``host-bmc-redfish`` the host interface or virtual NIC; ``bmc-network`` the operator's own path.
    """

    HOST_DEVICE = 'host-device'
    HOST_BMC_IPMI = 'host-bmc-ipmi'
    HOST_BMC_REDFISH = 'host-bmc-redfish'
    BMC_NETWORK = 'bmc-network'


class LockState(StrEnum):
    """The state that one lock reading shows.

    ``locked-verified``: we engaged the lock and read it back over a fresh session, with nothing pending. It proves the
    configuration, not that a write is refused. ``locked-reported``: read as locked, but not engaged by us in this lifecycle:
    never enough for a deploy. ``pending-reset``: set, and not effective before a reset. ``unsupported``: no mechanism.
    ``unknown``: could not be read, or sources disagree.
    """

    LOCKED_VERIFIED = 'locked-verified'
    LOCKED_REPORTED = 'locked-reported'
    PENDING_RESET = 'pending-reset'
    PARTIAL = 'partial'
    UNLOCKED = 'unlocked'
    UNSUPPORTED = 'unsupported'
    UNKNOWN = 'unknown'


class ResetKind(StrEnum):
    """The reset with which a setting or staged firmware takes effect.

    ``system-reset`` is any start of the System, also from power off: BIOS settings take effect with it. ``bmc-reset`` is a
    reset of the Manager. ``aux-power-cycle``: an action of the BMC removes the standby power of the machine and restores it,
    and the BMC restarts with it. ``ac-power-cycle``: a person does the same with the power cord. Source: DSP8010 2025.4,
    Resource.ResetType (the driver chooses the ResetType); DSP0267 1.3.0, table 6.
    """

    NONE = 'none'
    BMC_RESET = 'bmc-reset'
    SYSTEM_RESET = 'system-reset'
    POWER_CYCLE = 'power-cycle'
    AUX_POWER_CYCLE = 'aux-power-cycle'
    AC_POWER_CYCLE = 'ac-power-cycle'

    @property
    def is_standby(self) -> bool:
        """Whether the standby power is removed, and the BMC restarts with it: this includes the effect of any other reset."""
        return self in (ResetKind.AUX_POWER_CYCLE, ResetKind.AC_POWER_CYCLE)

    @property
    def restarts_bmc(self) -> bool:
        """Whether the BMC restarts: its sessions and tasks are lost, and so are the locks that it keeps in memory."""
        return self is ResetKind.BMC_RESET or self.is_standby


class Scope(StrEnum):
    """The part of a device that a mechanism protects.

    ``device``: all firmware and every slot. ``firmware``: all firmware, no slot. ``component``: one SoftwareInventory.
    ``slot``: one ReconfigurationSlot. ``bmc``: whole machines: everything of any device that can be reached through this BMC.
    It is one lock however many devices show it, and it does not close the device's own path to the host.
    """

    DEVICE = 'device'
    FIRMWARE = 'firmware'
    COMPONENT = 'component'
    SLOT = 'slot'
    BMC = 'bmc'


class AtPlace:
    """Base class of everything that is about one place of a lock, at which the lock is engaged and released."""

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
    """The reading of one mechanism at one place, at one time.

    :ivar mechanism: the name of the mechanism, the same as that of its entry point.
    :ivar accelerator: the device that the lock protects.
    :ivar scope: the part of the device that the lock protects; ``part`` is the SoftwareInventory Id or the SlotId where it is a
        single one.
    :ivar blocks: the write paths that the lock blocks when it is closed.
    :ivar ref: the resource that was read; ``field`` the property in it, a path of names and positions joined with ``/``.
    :ivar value: the literal value, as JSON text; None where there was none.
    :ivar state: the state as read. A mechanism never returns ``locked-verified``: only
        :mod:`baremetal_acc.planning.lock_evidence` does.
    :ivar at: when the read began that the reading is part of, UTC.
    :ivar session: name of the session of the reading; two readings over one session have the same name.
    :ivar needs: the reset with which a change of the lock takes effect.
    :ivar reset: the System (for a ``bmc-reset``: the Manager) that has to be reset, or None.
    :ivar wraps: a lockdown under which the BMC changes no other setting: it is opened once, before all others, and closed after
        all others, for all devices.
    :ivar in_force: the BMC shows effective settings separately from pending ones, and the closed state is effective: closing
        the lock again needs no reset.
    :ivar with_start: a System: the closed state is set, and takes effect with the next start of this System, before any code of
        its host runs; None where that is not so.
    :ivar closable: False where the device says that it cannot close the lock completely: engaging it leaves a path open, which
        ``reason`` names.
    :ivar closes: what engaging the lock now would close, in the mechanism's own format, for a lock whose release must open that
        and nothing else; empty where it would close nothing, or where it is unknown; None where a release needs no such record.
    :ivar leaves: what engaging the lock leaves open since the device cannot close it and no rule demands it, as a short text
        that changes when any of it changes, and is empty where nothing is left open; None where the mechanism does not say.
    :ivar reason: why the state is unknown, partial or pending, or why the lock cannot be closed, or None.
    :ivar volatile: a restart of the BMC may open the lock.
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
        """The reset that closing the lock needs in its present state."""
        return ResetKind.NONE if self.in_force and self.state is LockState.LOCKED_REPORTED else self.needs


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Way(AtPlace):
    """A place of a machine-wide lock that a BMC has shown: each of them may be a path of the host to that BMC.

    :ivar mechanism: as in the reading, as are ``ref``, ``field`` and ``blocks``; ``blocks`` is sorted.
    """

    mechanism: str
    ref: Ref
    field: str
    blocks: tuple[WritePath, ...]


MOST_CLOSED = 8
"""Most records of one lock. Only somebody who toggles the lock needs more; what they opened then stays closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockUndoRecord(AtPlace):
    """What we have closed at the place of a lock, so that releasing the lock opens that, and nothing else.

    An undo record is no evidence. It outlives the lifecycles of the node, until the lock is released.

    :ivar closed: ``LockReading.closes`` of each time that we have engaged the lock, without repetitions.
    """

    STORED_NAME: ClassVar = 'Undo'

    mechanism: str
    ref: Ref
    field: str
    closed: tuple[str, ...]


def closed_by_us(undos: Iterable[LockUndoRecord], place: tuple[str, Ref, str]) -> tuple[str, ...]:
    """Return what we have closed at a place."""
    return next((u.closed for u in undos if u.place == place), ())


def to_be_closed(undos: Iterable[LockUndoRecord], reading: LockReading) -> tuple[LockUndoRecord, ...]:
    """Return the records with the addition of what engaging a lock closes. They have to be stored before it is engaged."""
    known = tuple(undos)
    before = closed_by_us(known, reading.place)
    if not reading.closes or reading.closes in before or len(before) == MOST_CLOSED:
        return known
    mechanism, ref, field = reading.place
    return (
        *opened_again(known, reading.place),
        LockUndoRecord(mechanism=mechanism, ref=ref, field=field, closed=(*before, reading.closes)),
    )


def opened_again(undos: Iterable[LockUndoRecord], place: tuple[str, Ref, str]) -> tuple[LockUndoRecord, ...]:
    """Return the records without those of a place."""
    return tuple(u for u in undos if u.place != place)


@dataclass(frozen=True, slots=True, kw_only=True)
class Engagement(AtPlace):
    """Our own record that a lock was engaged: without it no reading counts as verified.

    :ivar accelerator: identity of the card when the lock was engaged.
    :ivar lifecycle: lifecycle of the node at that time; evidence of another lifecycle counts for nothing.
    :ivar flow: the flow in which it was engaged (``clean``, ``deploy``, ``service``, ``cli``): a deploy accepts only evidence
        of a deploy.
    :ivar session: the session of the write; the reading that proves the lock has to come over another one.
    :ivar at: when the turn began in which the lock was written, UTC. A reading that proves it is of a later turn.
    :ivar part: part of the card, as in the reading that was engaged: places are positions, and a BMC may renumber them.
    :ivar reset: the System whose reset the lock needs; ``reset_at`` when that reset was seen to be done, or None.
    :ivar scope: as in the reading. A lock of scope ``bmc`` is engaged once for all devices: ``accelerator`` is only one of
        them.
    :ivar blocks: as in the reading; empty where it is unknown, as in records of earlier versions: the lock may block any path.
    :ivar leaves: as in the reading with which the lock was engaged; None also where it is unknown, as in records of earlier
        versions.
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
    """A part of a device that can be written: a firmware component, a slot, or, where the device shows neither, the device.

    Of scope ``bmc``: the whole device, through the BMC that ``part`` names.
    """

    scope: Scope
    part: str | None = None

    def __str__(self) -> str:
        if self.scope is Scope.BMC:
            return f'all by way of BMC {self.part}'
        return self.part if self.part is not None else 'the device'


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How one write path to one part of a device is blocked.

    :ivar state: the state of the mechanism that blocks the path best; ``unsupported`` where none does.
    :ivar reading: the reading of that mechanism.
    """

    subject: WritablePart
    state: LockState
    reading: LockReading | None
