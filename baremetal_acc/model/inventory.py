# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What was seen of a target: its accelerators, and what could not be read."""

from collections.abc import Container
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.codec import SPARSE
from baremetal_acc.model.lock import LockReading, ResetKind
from baremetal_acc.model.ref import HOST, AcceleratorId, BmcName, Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Something that could not be read, or was odd.

    :ivar ref: the resource; ``field`` the place in it, or None for the whole resource.
    :ivar accelerator: the device concerned, or None when that cannot be told.
    :ivar hides: devices may lie behind it, unseen: a collection, or a member of one, that could not be read although it is
        there (a dangling link hides nothing).
    """

    ref: Ref
    reason: str
    field: str | None = None
    accelerator: AcceleratorId | None = None
    hides: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformDevice:
    """A part with an accelerator-like type that belongs to the baseboard: never assignable."""

    ref: Ref
    kind: str
    model: str | None = None
    reason: str | None = None


class PowerState(StrEnum):
    """Source: DSP8010 2025.4, Resource.PowerState."""

    ON = 'On'
    OFF = 'Off'
    POWERING_ON = 'PoweringOn'
    POWERING_OFF = 'PoweringOff'
    PAUSED = 'Paused'
    UNKNOWN = 'Unknown'


class PowerEvent(StrEnum):
    """What Get Chassis Status says of the last change of power. Source: IPMI 2.0 revision 1.1, section 28.2."""

    MAINS_LOST = 'mains-lost'
    OVERLOAD = 'overload'
    INTERLOCK = 'interlock'
    FAULT = 'fault'
    ON_BY_COMMAND = 'on-by-command'


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReading:
    """Whether a System is on, and what its BMC says of when and why it was started.

    Everything but ``power`` is None where the BMC does not say it, or where this way of reading does not ask for it. Texts are
    only compared for being another than before. What a change of each shows, and what it does not, is in
    :mod:`baremetal_acc.planning.host_evidence`.

    :ivar last_reset: ComputerSystem.LastResetTime, as the BMC writes it.
    :ivar boot_progress: ComputerSystem.BootProgress: LastState with LastStateTime and LastBootTimeSeconds, those that it has.
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
    """What a Manager says of its own last restart.

    :ivar last_reset: Manager.LastResetTime, as the BMC writes it; None where it shows none.
    :ivar time: Manager.DateTime, the clock that this is told by.
    """

    ref: Ref
    last_reset: str | None = None
    time: str | None = None


class TaskState(StrEnum):
    """What is known of a task of a BMC, in the only three ways that matter, and why there is a fourth.

    ``gone`` is not success: the BMC no longer has the task. Source: DSP8010 2025.4, Task v1_7_4, TaskState.
    """

    ACTIVE = 'active'
    SUCCEEDED = 'succeeded'
    FAILED = 'failed'
    GONE = 'gone'


class UpdateActivity(StrEnum):
    """What the update service of a BMC says of itself.

    ``idle``: it writes nothing. ``busy``: it does. ``told-by-tasks``: it says nothing, and the BMC shows its tasks; that none
    runs is an end where the update is one of them. ``unknown``: nothing tells.
    """

    IDLE = 'idle'
    BUSY = 'busy'
    TOLD_BY_TASKS = 'told-by-tasks'
    UNKNOWN = 'unknown'


@dataclass(frozen=True, slots=True, kw_only=True)
class Objection:
    """What a BMC says against a request that it answers as a success.

    :ivar text: its words: one line, printable, shortened.
    :ivar fails: it says plainly that what was asked for has failed. A warning does not.
    """

    text: str
    fails: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """What a message of a task says against something.

    :ivar names: what it names, Ids and URIs.
    """

    names: tuple[str, ...]
    text: str

    def is_about(self, names: Container[str | None]) -> bool:
        """It names one of these."""
        return any(name in names for name in self.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReading:
    """One task of a BMC.

    :ivar raw: TaskState and TaskStatus as the BMC says them, joined with ``/``.
    :ivar percent: PercentComplete, 0 to 100, or None.
    :ivar message: the BMC's last message, shortened.
    :ivar may_write: it may write firmware; False where the BMC says that it is something else.
    :ivar is_update: the BMC says that it writes, or has written, firmware. Many say nothing of what a task is for.
    :ivar started: StartTime as the BMC says it, or None.
    :ivar opaque: a task monitor that says no more than whether it has ended; False: a resource with a state of its own.
    :ivar awaits_restart: it goes on only once the host is restarted.
    :ivar unbegun: it says that it has not begun yet.
    :ivar is_running: it says that it goes on just now.
    :ivar is_waiting: it says that nothing of it goes on: it waits for something.
    :ivar awaits_start: it waits, and says that an action of the update service starts it, or may do so.
    :ivar was_cancelled: it has ended because it was cancelled.
    :ivar written: what its messages name that it has written, and not what they name that it has skipped.
    :ivar complaints: what its messages say against something.
    :ivar objection: what the answer that named it said against the request.
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
        """Its messages say of the very component that it was written, by its URI or its Id."""
        return any(name in (ref.uri, component) for name in self.written)

    def said_against(self, ref: Ref, component: str | None) -> str | None:
        """The last that its messages say against the very component; None: nothing."""
        return next((c.text for c in reversed(self.complaints) if c.is_about((ref.uri, component))), None)


class Way(StrEnum):
    """How an image gets to a BMC: with its parameters in a request, alone in one, fetched from us, or in blocks over IPMI."""

    MULTIPART_PUSH = 'multipart-push'
    HTTP_PUSH = 'http-push'
    PULL = 'pull'
    HPM_1 = 'hpm.1'


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """How an image would be sent to a BMC.

    :ivar apply_time: the OperationApplyTime that it would be asked for, or of HttpPushUri the ApplyTime; None: for none, since
        it offers none.
    :ivar obstacle: why nothing would be sent, None when something would.
    """

    way: Way
    apply_time: str | None
    obstacle: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateFacts:
    """How a BMC takes images.

    :ivar push: it takes an image from us: in the request (MultipartHttpPushUri, HttpPushUri), or by fetching it where the
        operator lets it.
    :ivar pull: it fetches an image itself (SimpleUpdate).
    :ivar parallel: how many updates it takes at once; 1 unless something says otherwise.
    :ivar max_size: MaxImageSizeBytes, or None.
    :ivar sending: how; None where nothing is sent, and in looks that were stored before there was such a field.
    :ivar judges: it can be told beforehand whether an image could be written to a component.
    :ivar forces: it can be told to write an image over a component that runs an equal or a higher version (ForceUpdate).
    :ivar unseen: components of which it does not show what was activated and waits for a restart of the host to run.
    :ivar untargeted: it takes an image for everything that it fits, and can be told of no single component.
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
"""What accounts of IPMI may be, the least first. Source: IPMI 2.0 revision 1.1, sections 6.8 and 22.27."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class BmcUser:
    """An account of a BMC that may log in.

    :ivar number: of the account, from 1; ``name`` may be empty: that is the anonymous one.
    :ivar privilege: the most it may be on any channel, one of :data:`PRIVILEGES`, or another word.
    :ivar channel: where it may be that; None: on the operator's own.
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
    """Who may log in to a BMC.

    :ivar unread: why not all of them could be read, or None.
    :ivar unguarded: ways in that ask for no password, each with what is to be done about it.
    """

    users: tuple[BmcUser, ...]
    unread: str | None = None
    unguarded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BmcFacts:
    """What was learnt of one BMC.

    :ivar update: None when it takes no firmware: by Redfish, without UpdateService; by IPMI, without HPM.1.
    :ivar power: of the System that the target hands out (of the DPU's own System for a DPU's BMC).
    :ivar system: that System.
    :ivar active_tasks: tasks that still run.
    :ivar ended_tasks: those that do not any more, and that it still shows; None where nobody has asked for tasks.
    :ivar accounts: who may log in; None where the driver does not ask.
    :ivar last_reset: of that System, and so is all that follows it: as of :class:`HostReading`.
    :ivar resets: the resets that can be asked for of that System; ``none`` among them: it can be powered off and on. None where
        it does not say.
    :ivar standby_reset: whose action takes the standby power of that System away and gives it back: a Chassis, or the System
        itself; None where none is known.
    :ivar manager: the Manager of the BMC that can be restarted; None where none says that it can.
    :ivar power_restore: PowerRestorePolicy of that System: whether it comes on by itself once it has power again.
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

    @property
    def host(self) -> HostReading:
        """What was read of that System."""
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
    """One look at a target.

    Collections are sorted by their ids, so that two looks at the same machine give equal values but for times and sessions.

    :ivar target: the target's name.
    :ivar at: when the look began, UTC.
    :ivar shared: resources of devices and locks that are not the target's alone: they are read, and never written.
    :ivar several: BMCs that serve several machines, whether or not all of them are the target's.
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
        """The BMCs as those of the machines that the target has, each with its System: that of the host, and further ones that
        serve several machines, where the System that is named is no card.
        """
        cards = {ref for a in self.accelerators for ref in a.refs}
        return tuple(
            b
            for b in self.bmcs
            if b.name == HOST or (b.name in self.several and b.system is not None and b.system not in cards)
        )

    @property
    def shared_devices(self) -> frozenset[AcceleratorId]:
        """The devices that a machine which is not of the target reaches, too, or may reach."""
        shared = set(self.shared)
        return frozenset(a.id for a in self.accelerators if a.primary in shared or not shared.isdisjoint(a.refs))

    def accelerator(self, wanted: AcceleratorId) -> Accelerator | None:
        """The device of that identity, or None."""
        return next((a for a in self.accelerators if a.id == wanted), None)

    def bmc(self, name: BmcName) -> BmcFacts | None:
        """What was learnt of the BMC of that name, or None."""
        return next((b for b in self.bmcs if b.name == name), None)
