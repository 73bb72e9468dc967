# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The inventory of a target: its BMCs, accelerators, tasks, accounts and power states, and the gaps that could not be read."""

from collections.abc import Container
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.bmc_state import BmcState
from baremetal_acc.model.codec import SPARSE
from baremetal_acc.model.lock import LockReading, ResetKind
from baremetal_acc.model.ref import HOST, AcceleratorId, BmcName, Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A resource that could not be read, or that was odd.

    :ivar ref: the resource; ``field`` the property in it, or None for the whole resource.
    :ivar accelerator: the device concerned, or None where that is unknown.
    :ivar hides: the gap may hide devices: a collection, or a member of one, that could not be read although it is there (a
        dangling link hides nothing).
    """

    ref: Ref
    reason: str
    field: str | None = None
    accelerator: AcceleratorId | None = None
    hides: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformDevice:
    """A part with an accelerator-like type that belongs to the baseboard, and is never assignable."""

    ref: Ref
    kind: str
    model: str | None = None
    reason: str | None = None


class PowerState(StrEnum):
    """The power state of a System. Source: DSP8010 2025.4, Resource.PowerState."""

    ON = 'On'
    OFF = 'Off'
    POWERING_ON = 'PoweringOn'
    POWERING_OFF = 'PoweringOff'
    PAUSED = 'Paused'
    UNKNOWN = 'Unknown'


class PowerEvent(StrEnum):
    """The last power event in the answer to Get Chassis Status. Source: IPMI 2.0 revision 1.1, section 28.2."""

    MAINS_LOST = 'mains-lost'
    OVERLOAD = 'overload'
    INTERLOCK = 'interlock'
    FAULT = 'fault'
    ON_BY_COMMAND = 'on-by-command'


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReading:
    """The power state of a System, and what its BMC says about its last start.

    Everything but ``power`` is None where the BMC does not say it, or where the reading did not ask for it. The texts are only
    compared for equality with earlier ones. What a change of each of them proves is in
    :mod:`baremetal_acc.planning.host_evidence`.

    :ivar last_reset: ComputerSystem.LastResetTime, as the BMC writes it.
    :ivar boot_progress: ComputerSystem.BootProgress: LastState with LastStateTime and LastBootTimeSeconds, as far as the BMC
        has them.
    :ivar bmc_reset: Manager.LastResetTime of the BMC itself.
    :ivar power_on_hours: Get POH Counter, in minutes.
    :ivar restart_cause: Get System Restart Cause, with the channel of a command; None also where the BMC does not know it.
    :ivar power_event: Get Chassis Status, the byte on the last power event.
    :ivar log_mark: Get SEL Info: number of entries, and when the last one was added.
    """

    power: PowerState
    last_reset: str | None = None
    boot_progress: str | None = None
    bmc_reset: str | None = None
    power_on_hours: int | None = None
    restart_cause: str | None = None
    power_event: frozenset[PowerEvent] | None = None
    log_mark: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerReading:
    """The time of the last restart of a Manager.

    :ivar last_reset: Manager.LastResetTime, as the BMC writes it; None where it shows none.
    :ivar time: Manager.DateTime, the clock that ``last_reset`` is taken from.
    """

    ref: Ref
    last_reset: str | None = None
    time: str | None = None


class TaskState(StrEnum):
    """The state of a task of a BMC, reduced to what decisions need.

    ``gone`` is not success: the BMC no longer has the task. Source: DSP8010 2025.4, Task v1_7_4, TaskState.
    """

    ACTIVE = 'active'
    SUCCEEDED = 'succeeded'
    FAILED = 'failed'
    GONE = 'gone'


class UpdateActivity(StrEnum):
    """Whether the update service of a BMC is writing.

    ``idle``: the service says that it writes nothing. ``busy``: it says that it writes. ``told-by-tasks``: it says nothing, and
    the BMC shows its tasks; an update that is one of these tasks has ended once none of them runs. ``unknown``: neither says
    it.
    """

    IDLE = 'idle'
    BUSY = 'busy'
    TOLD_BY_TASKS = 'told-by-tasks'
    UNKNOWN = 'unknown'


@dataclass(frozen=True, slots=True, kw_only=True)
class Objection:
    """An objection of a BMC to a request that it answers as a success.

    :ivar text: the message of the BMC: one line, printable, shortened.
    :ivar fails: the message says plainly that the request has failed. A warning does not.
    """

    text: str
    fails: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """A message of a task that speaks against a component.

    :ivar names: the Ids and URIs that the message names.
    """

    names: tuple[str, ...]
    text: str

    def is_about(self, names: Container[str | None]) -> bool:
        """Tell whether the message names one of these."""
        return any(name in names for name in self.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReading:
    """One task of a BMC.

    :ivar raw: TaskState and TaskStatus as the BMC says them, joined with ``/``.
    :ivar percent: PercentComplete, 0 to 100, or None.
    :ivar message: the BMC's last message, shortened.
    :ivar may_write: the task may write firmware; False where the BMC says that it does something else.
    :ivar is_update: the BMC says that the task writes, or has written, firmware. Many BMCs do not say what a task is for.
    :ivar started: StartTime as the BMC writes it, or None.
    :ivar opaque: a task monitor that only tells whether the task has ended; False: a Task resource with a state of its own.
    :ivar awaits_restart: the task continues only after a restart of the host.
    :ivar unbegun: the task says that it has not begun yet.
    :ivar is_running: the task says that it is running now.
    :ivar is_waiting: the task says that it is suspended and waits for something.
    :ivar awaits_start: the task waits, and says that an action of the update service starts it, or may do so.
    :ivar was_cancelled: the task has ended because it was cancelled.
    :ivar written: the components that the task's messages name as written, and not those that they name as skipped.
    :ivar complaints: messages of the task that speak against a component.
    :ivar objection: an objection in the answer that named the task.
    """

    ref: Ref
    state: TaskState
    raw: str
    percent: int | None = None
    message: str | None = None
    may_write: bool = True
    is_update: bool = False
    started: str | None = None
    opaque: bool = False
    awaits_restart: bool = False
    unbegun: bool = False
    is_running: bool = False
    is_waiting: bool = False
    awaits_start: bool = False
    was_cancelled: bool = False
    objection: Objection | None = None
    written: tuple[str, ...] = ()
    complaints: tuple[Complaint, ...] = ()

    def names_as_written(self, ref: Ref, component: str | None) -> bool:
        """Tell whether the task's messages name this very component as written, by its URI or its Id."""
        return any(name in (ref.uri, component) for name in self.written)

    def said_against(self, ref: Ref, component: str | None) -> str | None:
        """Return the last message of the task that speaks against this very component; None where there is none."""
        return next((c.text for c in reversed(self.complaints) if c.is_about((ref.uri, component))), None)


class UploadWay(StrEnum):
    """How an image gets to a BMC.

    ``multipart-push``: with its parameters in one request. ``http-push``: alone in a request. ``pull``: the BMC fetches it from
    us. ``hpm.1``: in blocks over IPMI.
    """

    MULTIPART_PUSH = 'multipart-push'
    HTTP_PUSH = 'http-push'
    PULL = 'pull'
    HPM_1 = 'hpm.1'


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """How an image would be sent to a BMC.

    :ivar apply_time: the OperationApplyTime that the request would have, or for HttpPushUri the ApplyTime; None: no such
        parameter, since the BMC offers none.
    :ivar obstacle: why nothing would be sent; None when the image would be sent.
    """

    way: UploadWay
    apply_time: str | None
    obstacle: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateFacts:
    """How a BMC takes firmware images.

    :ivar push: the BMC takes an image from us: in the request (MultipartHttpPushUri, HttpPushUri), or by fetching it where the
        operator allows that.
    :ivar pull: the BMC fetches an image itself (SimpleUpdate).
    :ivar parallel: how many updates the BMC takes at once; 1 unless something says otherwise.
    :ivar max_size: MaxImageSizeBytes, or None.
    :ivar sending: how an image would be sent; None where nothing is sent, and in inventories that were stored by releases
        without this field.
    :ivar judges: the BMC can be asked beforehand whether an image could be written to a component.
    :ivar forces: the BMC can be told to write an image over a component that runs an equal or a higher version (ForceUpdate).
    :ivar unseen: components of which the BMC does not show firmware that was activated and runs only after a restart of the
        host.
    :ivar untargeted: the BMC takes an image for everything that it fits, and cannot be told to write a single component.
    """

    push: bool
    pull: bool
    parallel: int = 1
    max_size: int | None = None
    sending: Sending | None = None
    judges: bool = False
    forces: bool = False
    unseen: tuple[Ref, ...] = ()
    untargeted: bool = field(default=False, metadata=SPARSE)


PRIVILEGES = ('no access', 'callback', 'user', 'operator', 'administrator', 'OEM')
"""Privilege levels of IPMI accounts, the least first. Source: IPMI 2.0 revision 1.1, sections 6.8 and 22.27."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class BmcUser:
    """An account that may log in to a BMC.

    :ivar number: number of the account, from 1; ``name`` is empty for the anonymous account.
    :ivar privilege: its highest privilege on any channel, one of :data:`PRIVILEGES`, or another word.
    :ivar channel: the channel with that privilege; None: the channel that the operator uses.
    """

    number: int
    name: str
    privilege: str
    channel: int | None = None

    def __str__(self) -> str:
        where = '' if self.channel is None else f' on channel {self.channel:X}h'
        return f'{self.name!r} (number {self.number}, {self.privilege}{where})'


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """The accounts that may log in to a BMC.

    :ivar unread: why not all accounts could be read, or None.
    :ivar unguarded: ways to log in without a password, each with the remedy.
    """

    users: tuple[BmcUser, ...]
    unread: str | None = None
    unguarded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BmcFacts:
    """The facts that were read of one BMC.

    :ivar update: None when the BMC takes no firmware: by Redfish, without UpdateService; by IPMI, without HPM.1.
    :ivar power: power state of the System that is handed to the tenant (of the DPU's own System for a DPU's BMC).
    :ivar system: that System.
    :ivar active_tasks: tasks that are still running.
    :ivar ended_tasks: tasks that have ended, and that the BMC still shows; None where nobody has asked for tasks.
    :ivar accounts: accounts that may log in; None where the driver does not ask.
    :ivar last_reset: of that System, as are the fields after it: see :class:`HostReading`.
    :ivar resets: the resets that can be requested of that System; with ``none`` among them it can be powered off and on. None
        where the BMC does not say.
    :ivar standby_reset: the resource whose action removes the standby power of that System and restores it: a Chassis, or the
        System itself; None where none is known.
    :ivar manager: the Manager of the BMC that can be restarted; None where none says that it can.
    :ivar power_restore: PowerRestorePolicy of that System: whether it powers on by itself once power is back.
    :ivar state: the settings of the BMC; None where no rule names one, or where this read did not include them.
    """

    name: BmcName
    address: str
    session: str
    product: str | None = None
    firmware_version: str | None = None
    update: UpdateFacts | None = None
    system: Ref | None = None
    power: PowerState = PowerState.UNKNOWN
    active_tasks: tuple[TaskReading, ...] = ()
    ended_tasks: tuple[TaskReading, ...] | None = None
    accounts: Accounts | None = None
    last_reset: str | None = None
    boot_progress: str | None = None
    bmc_reset: str | None = None
    power_on_hours: int | None = None
    restart_cause: str | None = None
    power_event: frozenset[PowerEvent] | None = None
    log_mark: str | None = None
    resets: frozenset[ResetKind] | None = None
    standby_reset: Ref | None = field(default=None, metadata=SPARSE)
    manager: Ref | None = field(default=None, metadata=SPARSE)
    power_restore: str | None = field(default=None, metadata=SPARSE)
    state: BmcState | None = field(default=None, metadata=SPARSE)

    @property
    def host(self) -> HostReading:
        """The reading of that System."""
        return HostReading(
            power=self.power,
            last_reset=self.last_reset,
            boot_progress=self.boot_progress,
            bmc_reset=self.bmc_reset,
            power_on_hours=self.power_on_hours,
            restart_cause=self.restart_cause,
            power_event=self.power_event,
            log_mark=self.log_mark,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """One read of a target.

    Collections are sorted by their ids, so that two reads of the same machine give equal values but for times and sessions.

    :ivar target: the target's name.
    :ivar at: when the read began, UTC.
    :ivar shared: resources of devices and locks that the target shares with other machines: they are read, and never written.
    :ivar several: BMCs that serve several machines, whether or not all of these belong to the target.
    """

    target: str
    at: datetime
    bmcs: tuple[BmcFacts, ...]
    accelerators: tuple[Accelerator, ...]
    platform_devices: tuple[PlatformDevice, ...] = ()
    platform_locks: tuple[LockReading, ...] = ()
    gaps: tuple[Gap, ...] = ()
    shared: tuple[Ref, ...] = field(default=(), metadata=SPARSE)
    several: tuple[BmcName, ...] = field(default=(), metadata=SPARSE)

    @property
    def hosts(self) -> tuple[BmcFacts, ...]:
        """The BMCs of the target's machines, each with its System.

        These are the host's BMC, and further BMCs that serve several machines, where the named System is no card.
        """
        cards = {ref for a in self.accelerators for ref in a.refs}
        return tuple(
            b
            for b in self.bmcs
            if b.name == HOST or (b.name in self.several and b.system is not None and b.system not in cards)
        )

    @property
    def shared_devices(self) -> frozenset[AcceleratorId]:
        """The devices that a machine outside the target reaches as well, or may reach."""
        shared = set(self.shared)
        return frozenset(a.id for a in self.accelerators if a.primary in shared or not shared.isdisjoint(a.refs))

    def accelerator(self, wanted: AcceleratorId) -> Accelerator | None:
        """Return the device of that identity, or None."""
        return next((a for a in self.accelerators if a.id == wanted), None)

    def bmc(self, name: BmcName) -> BmcFacts | None:
        """Return the facts of the BMC of that name, or None."""
        return next((b for b in self.bmcs if b.name == name), None)
