# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The data classes of an emulated machine: components, settings, in-band paths, systems, tasks and BMCs.

They hold the present state; :class:`~baremetal_acc.emulator.machine.Machine` changes it.

* A *component* takes images: a card's firmware, or a reconfiguration slot for a function. It has banks: active, staged,
  previous. Its version changes only after an image arrived, was found whole and fitting, and, where the hardware needs it, the
  system was restarted.
* A *setting* has a configured value and a value in force. A lock is a setting with a locked value.
* A *way* is an in-band path by which the host can write a component, with the locks that close it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any

from baremetal_acc.emulator.image import EmulatedImage, ImageFormat

Value = str | bool | int | None

UP_SINCE = -3600.0
"""Seconds: a machine has been up for an hour when its emulator starts. BMCs report the time of a reset in whole seconds, so a
reset within the second of the start would not show.
"""


class Restart(IntEnum):
    """The depth of a restart: WARM keeps the power, COLD takes it away, MAINS also takes the standby power of all away."""

    WARM = 1
    COLD = 2
    MAINS = 3


class Power(StrEnum):
    """Values of ComputerSystem.PowerState. Source: DSP8010 Resource, PowerState."""

    ON = 'On'
    OFF = 'Off'
    POWERING_ON = 'PoweringOn'
    POWERING_OFF = 'PoweringOff'


class EmulatedTaskState(StrEnum):
    """The values of Task.TaskState that this BMC uses. Source: DSP8010 Task."""

    NEW = 'New'
    PENDING = 'Pending'
    SCHEDULED = 'Scheduled'
    RUNNING = 'Running'
    COMPLETED = 'Completed'
    EXCEPTION = 'Exception'
    CANCELLED = 'Cancelled'


class WriteRefused(Exception):
    """The machine refuses a request. ``reason`` is a word for programs, the text is for people."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Bank:
    """One copy of firmware or of a function, and its writer: ``factory``, ``bmc`` or ``host``.

    :ivar stamp: the comparison stamp of the package that the image came in; None: no package, or the package uses none.
    """

    version: str
    security_version: int = 1
    digest: str | None = None
    writer: str = 'factory'
    function: str | None = None
    function_uuid: str | None = None
    function_type: str | None = None
    stamp: int | None = None

    @classmethod
    def of(cls, image: EmulatedImage, writer: str, *, stamp: int | None = None) -> 'Bank':
        """The bank after ``image`` has been written into it."""
        return cls(
            version=image.version,
            security_version=image.security_version,
            digest=image.digest,
            writer=writer,
            function=image.function,
            function_uuid=image.function_uuid,
            function_type=image.function_type,
            stamp=stamp,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceIdentity:
    """The PLDM identity of a component: its firmware device, and its ComponentIdentifier on that device.

    :ivar endpoint: the name of the firmware device.
    :ivar descriptors: the descriptors of the device (DescriptorType and data, as in a package).

    Source: DSP0267 1.3.0, tables 4, 6 and 7.
    """

    endpoint: str
    descriptors: frozenset[tuple[int, bytes]]
    number: int
    classification: int = 0x000A


@dataclass(slots=True, kw_only=True)
class EmulatedComponent:
    """A component that an image can be written into.

    :ivar key: unique in the machine; names the component in messages.
    :ivar uri: the URI of its SoftwareInventory.
    :ivar active: None for an empty slot.
    :ivar sent: the last image that was sent to it, whether or not it was written.
    :ivar held: an image that was written and waits for a command to the BMC before it is staged or in force.
    :ivar changed: the second of the last write or activation; None: neither happened since the emulator was started.
    :ivar activates: the restart of ``system`` that brings a staged image in force; None: at once.
    :ivar write_protect: the key of the lock that blocks writes by the BMC; an in-band path has its own ``locks``.
    :ivar identity: its PLDM identity; None: no package contains it.
    """

    key: str
    bmc: str
    uri: str
    device: str
    kind: ImageFormat
    model: str
    component: str
    active: Bank | None
    staged: Bank | None = None
    previous: Bank | None = None
    sent: Bank | None = None
    held: Bank | None = None
    changed: float | None = None
    updateable: bool = True
    activates: Restart | None = None
    system: str = 'host'
    write_protect: str | None = None
    identity: DeviceIdentity | None = None

    @property
    def item(self) -> str:
        """The Id of its SoftwareInventory."""
        return self.uri.rsplit('/', 1)[-1]

    def check(self, image: EmulatedImage) -> None:
        """Check that the image is for this component.

        :raises WriteRefused: the image is of another kind, or for another model or component.
        """
        if image.kind is not self.kind:
            raise WriteRefused('wrong-kind', f'{self.key} requires a {self.kind} image, but this is a {image.kind} image')
        if image.device != self.model:
            raise WriteRefused('wrong-model', f'{self.key} has model {self.model}, but the image is for model {image.device}')
        if image.component != self.component:
            raise WriteRefused(
                'wrong-component', f'{self.key} is component {self.component}, but the image is for component {image.component}'
            )


@dataclass(slots=True, kw_only=True)
class EmulatedSetting:
    """A value that can be configured; a lock when ``is_lock``.

    :ivar uri: the resource that shows it.
    :ivar locked: the value at which a lock holds, and ``open`` the value at which it does not.
    :ivar takes_force: the restart of ``system`` that brings the configured value in force; None: at once.
    :ivar once: (A, B): a restart turns the value A into B (a boot override for one boot).
    :ivar with_bmc: only a restart of the BMC brings the configured value in force.
    """

    key: str
    bmc: str
    uri: str
    device: str | None
    value: Value
    in_force: Value
    locked: Value = None
    is_lock: bool = False
    open: Value = None
    takes_force: Restart | None = None
    system: str = 'host'
    once: tuple[Value, Value] | None = None
    with_bmc: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRoute:
    """An in-band path by which ``host`` can write a component: it is open unless one of ``locks`` is closed.

    :ivar component: the component of the card that the path leads to, and ``target`` the key of that component in the machine.
    :ivar path: the host's own paths to a card are ``pcie``, ``rshim``, ``flash`` and ``nvme``; those through the BMC are
        ``kcs``, ``redfish``, ``vnic`` and ``chif``.
    :ivar slot: the reconfiguration slot that the path leads to; None: firmware.
    """

    device: str
    component: str
    path: str
    target: str
    locks: tuple[str, ...] = ()
    slot: int | None = None
    host: str = 'host'


class Cause(IntEnum):
    """The cause of the start of a system. Source: IPMI 2.0 revision 1.1, section 28.11, which defines these numbers."""

    UNKNOWN = 0x0
    COMMAND = 0x1
    RESET_BUTTON = 0x2
    POWER_BUTTON = 0x3
    WATCHDOG = 0x4
    OEM = 0x5
    MAINS = 0x6
    SOFT_RESET = 0xA
    CLOCK = 0xB


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One start of a system.

    :ivar channel: for an IPMI command, the channel that it came through.
    """

    cause: Cause = Cause.POWER_BUTTON
    channel: int | None = None


@dataclass(slots=True, kw_only=True)
class System:
    """A system that can be powered on and off.

    :ivar powered_by: the system whose cold start is also a cold start of this one.
    :ivar state_since: the second since which its boot progress has not changed.
    :ivar on_since: the second at which its power was turned on; None: it is off. ``on_seconds`` is how long it was on before
        that.
    :ivar asked: the requested start that is under way; ``start`` the last start, and ``power_on`` the last start from off to
        on.
    :ivar logged: the number of entries in the log of its BMC, and ``logged_at`` the time of the last one. Each start, ForceOff
        and GracefulShutdown adds an entry.
    """

    name: str
    bmc: str
    uri: str
    power: Power = Power.ON
    last_reset: float = UP_SINCE
    booting: bool = False
    powered_by: str | None = None
    resets: int = 0
    state_since: float = UP_SINCE
    on_since: float | None = UP_SINCE
    on_seconds: float = 0.0
    asked: Start = field(default_factory=Start)
    start: Start = field(default_factory=Start)
    power_on: Start = field(default_factory=Start)
    logged: int = 1
    logged_at: float = UP_SINCE

    def on_for(self, now: float) -> float:
        """For how many seconds the system has been on in total."""
        return self.on_seconds + (0.0 if self.on_since is None else now - self.on_since)

    def log(self, at: float) -> None:
        """Add an entry to the log."""
        self.logged += 1
        self.logged_at = at


class WriteResult(StrEnum):
    """The result of one image for one component."""

    WRITTEN = 'written'
    SKIPPED = 'skipped'
    FAILED = 'failed'


@dataclass(slots=True, kw_only=True)
class ComponentWrite:
    """The write of one image to one component; an upload is resolved into these.

    :ivar image: None where the package has no whole image for the component; ``defect`` says why.
    :ivar version: the version that the package states.
    :ivar forced: the image is written whatever the component runs.
    :ivar endpoint: the firmware device.
    :ivar continues: whether the other components of the device are written when this one fails.
    :ivar activated_by: what activates the image, as the package states it.
    :ivar result: None until the write has ended.
    """

    key: str
    image: EmulatedImage | None
    version: str
    stamp: int | None = None
    forced: bool = False
    endpoint: str = ''
    continues: bool = True
    activated_by: str = ''
    defect: str = ''
    result: WriteResult | None = None

    @classmethod
    def of(cls, key: str, image: EmulatedImage) -> 'ComponentWrite':
        """The write of an image that was sent without a package."""
        return cls(key=key, image=image, version=image.version)


@dataclass(slots=True, kw_only=True)
class Task:
    """One update as the BMC reports it.

    :ivar writes: the writes that its upload was resolved into; empty until the upload has arrived.
    :ivar fate: the fault rule that decides how the task ends: its name and parameters.
    :ivar status: the TaskStatus that a fault or a partial failure sets.
    :ivar starts: when the upload arrived, then when the write begins; percentages follow the clock from then to ``ends``.
    :ivar is_installed_by_restart: the image is written in a restart, and needs no further one.
    :ivar waits_for_start: the image is written after StartUpdate was requested.
    :ivar package: the version of the package that was sent; None: an image without a package.
    :ivar forced: ForceUpdate was set.
    :ivar told: the components that the task reports as written.
    :ivar gone: the BMC does not show the task any more.
    :ivar forgotten: the write goes on, but the BMC does not know of the task any more.
    """

    id: int
    bmc: str
    name: str
    targets: tuple[str, ...]
    created: float
    state: EmulatedTaskState = EmulatedTaskState.NEW
    starts: float | None = None
    ends: float | None = None
    ended: float | None = None
    on_reset: bool = False
    forced: bool = False
    messages: list[dict[str, Any]] = field(default_factory=list)
    writes: list[ComponentWrite] = field(default_factory=list)
    package: str | None = None
    told: list[str] = field(default_factory=list)
    fate: dict[str, Any] | None = None
    gone: bool = False
    forgotten: bool = False
    frozen_percent: int | None = None
    status: str | None = None
    is_installed_by_restart: bool = False
    waits_for_start: bool = False

    @property
    def is_open(self) -> bool:
        """Whether the task still holds its targets."""
        is_held = self.waits_for_start and self.state is EmulatedTaskState.PENDING
        return self.state in (EmulatedTaskState.NEW, EmulatedTaskState.RUNNING) or self.awaits_restart or is_held

    @property
    def awaits_restart(self) -> bool:
        """Whether the image is written only after a restart of its system."""
        return self.is_installed_by_restart and self.state in (
            EmulatedTaskState.NEW,
            EmulatedTaskState.PENDING,
            EmulatedTaskState.SCHEDULED,
        )


@dataclass(slots=True, kw_only=True)
class EmulatedBmc:
    """One BMC of the machine.

    :ivar down_until: the second at which it answers again.
    :ivar reserved: the components for which uploads are arriving.
    :ivar life: how often it has restarted.
    :ivar lockdowns: the locks under which it changes no other setting and takes no update.
    :ivar host_paths: the paths of its host to it (``kcs``, ``redfish``, ...), with the locks that each close the path.
    :ivar host_limits: those of these locks that limit the privilege of the host instead of switching the path off.
    """

    name: str
    manager_uri: str
    parallel_updates: int = 4
    down_until: float | None = None
    last_reset: float = 0.0
    next_task: int = 0
    tasks: dict[int, Task] = field(default_factory=dict)
    reserved: set[str] = field(default_factory=set)
    life: int = 0
    lockdowns: list[str] = field(default_factory=list)
    host_paths: dict[str, list[str]] = field(default_factory=dict)
    host_limits: list[str] = field(default_factory=list)


def message(
    text: str, *, severity: str = 'OK', reason: str = 'info', arguments: Iterable[str] = (), action: str = ''
) -> dict[str, Any]:
    """A message of a task, as data, which the Redfish side converts to a Message object.

    :param arguments: for a message about one component: the component, then its version or another detail.
    :param action: what the operator can do about it.
    """
    return {'text': text, 'severity': severity, 'reason': reason, 'arguments': list(arguments), 'action': action}
