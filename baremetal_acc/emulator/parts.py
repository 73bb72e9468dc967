# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What does an emulated machine consist of? Its parts as they are now; what happens to them is the machine's.

* A *component* is what an image can be written into: a card's firmware, or a slot for a function. It has banks: active,
  staged, previous. Its version changes only when an image arrived, was found whole and fit, and, where the hardware
  needs it, the system was restarted.
* A *setting* is a value with two lives: what is configured and what is in force. A lock is a setting with a locked value.
* A *way* is how the host reaches a component in band, and which locks close it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any

from baremetal_acc.emulator.image import Image, Kind

Value = str | bool | int | None

UP_SINCE = -3600.0
"""Seconds: a machine has been up for an hour when its emulator starts. BMCs give the time of a reset in whole seconds, so one
in the second of the start would not show.
"""


class Restart(IntEnum):
    """How deep a restart goes: COLD takes the power away, WARM does not, and MAINS takes the standby power of all away."""

    WARM = 1
    COLD = 2
    MAINS = 3


class Power(StrEnum):
    """ComputerSystem.PowerState. Source: DSP8010 Resource, PowerState."""

    ON = 'On'
    OFF = 'Off'
    POWERING_ON = 'PoweringOn'
    POWERING_OFF = 'PoweringOff'


class TaskState(StrEnum):
    """The states of Task.TaskState that this BMC uses. Source: DSP8010 Task."""

    NEW = 'New'
    PENDING = 'Pending'
    SCHEDULED = 'Scheduled'
    RUNNING = 'Running'
    COMPLETED = 'Completed'
    EXCEPTION = 'Exception'
    CANCELLED = 'Cancelled'


class Refused(Exception):
    """The machine does not do this. ``reason`` is a word for programs, the text is for people."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Bank:
    """One copy of firmware or of a function, and who wrote it: ``factory``, ``bmc`` or ``host``.

    ``stamp`` is the comparison stamp of the package that it came in; None: it came in none, or the package uses none.
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
    def of(cls, image: Image, writer: str, *, stamp: int | None = None) -> 'Bank':
        """What a bank holds once ``image`` has been written into it."""
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
class Identity:
    """By what a PLDM package knows a component: the firmware device that it belongs to, and its ComponentIdentifier there.

    ``endpoint`` names the device, which has these descriptors (DescriptorType and data as they stand in a package).
    Source: DSP0267 1.3.0, tables 4, 6 and 7.
    """

    endpoint: str
    descriptors: frozenset[tuple[int, bytes]]
    number: int
    classification: int = 0x000A


@dataclass(slots=True, kw_only=True)
class Component:
    """Something an image can be written into.

    ``key`` is unique in the machine and names it in messages; ``uri`` is its SoftwareInventory. ``active`` is None for a slot
    that holds nothing. ``activates`` is the restart of ``system`` that brings a staged image into force, None: at once.
    ``held`` is what was written and waits for a command of the BMC, before it is staged or in force. ``changed`` is the second
    at which a bank was written last, or came in force; None: neither since the emulator was started. ``identity`` is by what a
    PLDM package knows it; None: no package does.
    """

    key: str
    bmc: str
    uri: str
    device: str
    kind: Kind
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
    identity: Identity | None = None

    @property
    def item(self) -> str:
        """The Id of its SoftwareInventory."""
        return self.uri.rsplit('/', 1)[-1]

    def check(self, image: Image) -> None:
        """Whether the image is for this component.

        :raises Refused: another kind, another model, another component.
        """
        if image.kind is not self.kind:
            raise Refused('wrong-kind', f'{self.key} takes a {self.kind} image, this is a {image.kind} image')
        if image.device != self.model:
            raise Refused('wrong-model', f'{self.key} is a {self.model}, the image is for a {image.device}')
        if image.component != self.component:
            raise Refused('wrong-component', f'{self.key} is the {self.component}, the image is for {image.component}')


@dataclass(slots=True, kw_only=True)
class Setting:
    """A value that can be configured; a lock when it has a ``locked`` value.

    ``takes_force`` is the restart of ``system`` that brings the configured value into force; None: at once. ``uri`` is the
    resource that shows it. ``once`` = (A, B): a restart turns the value A into B (a boot override for one boot). ``with_bmc``:
    a restart of the BMC brings it into force, and nothing else does.
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
class Way:
    """How ``host`` reaches a component in band: through ``path``, unless one of the locks is closed.

    Its own paths to the card are ``pcie`` and ``rshim``; those by the BMC ``kcs``, ``redfish``, ``vnic`` and ``chif``.
    """

    device: str
    component: str
    path: str
    target: str
    locks: tuple[str, ...] = ()
    slot: int | None = None
    host: str = 'host'


class Cause(IntEnum):
    """What has started a system. Source: IPMI 2.0 revision 1.1, section 28.11, whose numbers these are."""

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
    """What has started a system.

    :ivar channel: of a command over IPMI, the channel that it came by.
    """

    cause: Cause = Cause.POWER_BUTTON
    channel: int | None = None


@dataclass(slots=True, kw_only=True)
class System:
    """Something with a power button. ``powered_by`` names the system whose cold start is also a cold start of this one.

    :ivar state_since: since when its progress of booting is what it is.
    :ivar on_since: since when its power is on; None: it is off. ``on_seconds`` is how long it was on before that.
    :ivar asked: what will have started it, once the start that is under way is done; ``start`` what has started it last, and
        ``power_on`` what has last brought it from off to on.
    :ivar logged: entries in the log of its BMC, the last of ``logged_at``: one for each start and each power-off.
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
        """For how many seconds it has been on in all."""
        return self.on_seconds + (0.0 if self.on_since is None else now - self.on_since)

    def log(self, at: float) -> None:
        """An entry more in the log."""
        self.logged += 1
        self.logged_at = at


class Result(StrEnum):
    """What has become of one image for one component."""

    WRITTEN = 'written'
    SKIPPED = 'skipped'
    FAILED = 'failed'


@dataclass(slots=True, kw_only=True)
class Write:
    """One image for one component: what an upload is resolved into.

    ``image`` is None where what lies in a package for the component is no whole image; ``defect`` says why. ``version`` is what
    the package says of it. ``forced``: it is written whatever the component runs. ``endpoint`` is the firmware device, and
    ``continues`` whether its other components are written when this one fails. ``activated_by`` is what the package says brings
    it in force. ``result`` is None until it has ended.
    """

    key: str
    image: Image | None
    version: str
    stamp: int | None = None
    forced: bool = False
    endpoint: str = ''
    continues: bool = True
    activated_by: str = ''
    defect: str = ''
    result: Result | None = None

    @classmethod
    def of(cls, key: str, image: Image) -> 'Write':
        """An image that came by itself."""
        return cls(key=key, image=image, version=image.version)


@dataclass(slots=True, kw_only=True)
class Task:
    """One update as the BMC tells of it. ``writes`` is what its upload was resolved into, once that has arrived.

    ``fate`` is what a fault rule has in store for it, ``status`` what TaskStatus says then. Percentages come from the clock
    between ``starts`` and ``ends``. ``is_installed_by_restart``: the image is written in a restart, and needs no other one.
    ``waits_for_start``: it is written once StartUpdate was asked for.
    ``package`` is the version of the package that was sent; None: it was an image by itself. ``forced``: ForceUpdate was
    said. ``told`` are the components that it says to be written. ``forgotten``: it goes on, and the BMC knows nothing of it.
    """

    id: int
    bmc: str
    name: str
    targets: tuple[str, ...]
    created: float
    state: TaskState = TaskState.NEW
    starts: float | None = None
    ends: float | None = None
    ended: float | None = None
    on_reset: bool = False
    forced: bool = False
    messages: list[dict[str, Any]] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
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
        """Whether it still holds its targets."""
        is_held = self.waits_for_start and self.state is TaskState.PENDING
        return self.state in (TaskState.NEW, TaskState.RUNNING) or self.awaits_restart or is_held

    @property
    def awaits_restart(self) -> bool:
        """Whether the image is written only once its system has been restarted."""
        return self.is_installed_by_restart and self.state in (TaskState.NEW, TaskState.PENDING, TaskState.SCHEDULED)


@dataclass(slots=True, kw_only=True)
class Bmc:
    """One BMC of the machine. ``down_until`` is the second at which it answers again.

    ``lockdowns`` are the locks under which it changes no other setting and takes no update.
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


def message(
    text: str, *, severity: str = 'OK', reason: str = 'info', arguments: Iterable[str] = (), action: str = ''
) -> dict[str, Any]:
    """A message of a task, as data: the HTTP side dresses it for Redfish.

    :param arguments: of one about one component: the component, then its version or what it is about.
    :param action: what is to be done about it.
    """
    return {'text': text, 'severity': severity, 'reason': reason, 'arguments': list(arguments), 'action': action}
