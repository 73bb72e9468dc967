# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The state of the emulated machine: power, firmware banks, settings and locks, update tasks. This module knows no HTTP.

One machine is one chassis with one or more hosts and BMCs, which all show this one state. Everything that takes time is an
event on a queue; :meth:`Machine.settle` executes the events that are due, in order. So a test can advance a virtual clock, and
nothing here sleeps. The parts of a machine are defined in :mod:`~baremetal_acc.emulator.parts`.
"""

import contextlib
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from baremetal_acc.emulator.bundle import EQUAL, BundleObjection, assign, objection
from baremetal_acc.emulator.clock import EmulatedClock
from baremetal_acc.emulator.fault import BadFault, Fault, Faults
from baremetal_acc.emulator.image import BadImage, EmulatedImage, ImageFormat
from baremetal_acc.emulator.parts import (
    Bank,
    Cause,
    ComponentWrite,
    EmulatedBmc,
    EmulatedComponent,
    EmulatedSetting,
    EmulatedTaskState,
    Power,
    Restart,
    Start,
    System,
    Task,
    Value,
    WriteRefused,
    WriteResult,
    WriteRoute,
    message,
)
from baremetal_acc.emulator.pldm import PackageMaker

_ELSEWHERE = 'elsewhere'

# Enough for the longest test; a test that needs more clears the history in between.
MAX_EVENTS = 10000


@dataclass(frozen=True, slots=True)
class Keeper:
    """State of another part that is stored together with the state of the machine, as JSON.

    ``load`` raises ValueError, KeyError, TypeError or AttributeError where the stored state is not valid.
    """

    dump: Callable[[], Any]
    load: Callable[[Any], None]


@dataclass(frozen=True, slots=True, order=True)
class MachineEvent:
    """An event on the queue of a machine: at the second ``due``, ``handlers[kind]`` is called with it."""

    due: float
    order: int
    kind: str
    subject: str
    detail: str = ''


class MachineState:
    """What an emulated machine consists of, its history, and its queue of events.

    :param flash_seconds: how long writing an image takes.
    :param reset_seconds: how long a system takes to change its power or to restart.
    :param bmc_reset_seconds: how long a BMC is silent after Manager.Reset.
    :ivar cut_writes: changes of power while a component was being written.
    :ivar on_bmc_down: called with the name of a BMC when it restarts.
    :ivar on_system_reset: called with the name of a system and the ResetType of a reset.
    :ivar elsewhere: functions for :meth:`later`, by name.
    :ivar also: further entries of the true state, by key and name.
    :ivar keepers: state of other parts that is stored with the machine, by name.
    :ivar events: the queue, as a heap. ``handlers`` executes each kind of event.
    :ivar unclaimed: the loaded state of keepers that do not exist in this run.
    """

    def __init__(
        self,
        *,
        product: str,
        clock: EmulatedClock | None = None,
        flash_seconds: float = 2.0,
        reset_seconds: float = 0.2,
        bmc_reset_seconds: float = 0.5,
    ) -> None:
        self.product = product
        self.clock = clock or EmulatedClock()
        self.flash_seconds = flash_seconds
        self.reset_seconds = reset_seconds
        self.bmc_reset_seconds = bmc_reset_seconds
        self.faults = Faults()
        self.systems: dict[str, System] = {}
        self.bmcs: dict[str, EmulatedBmc] = {}
        self.components: dict[str, EmulatedComponent] = {}
        self.settings: dict[str, EmulatedSetting] = {}
        self.ways: list[WriteRoute] = []
        self.fetches: list[dict[str, Any]] = []
        self.cut_writes: list[dict[str, str]] = []
        self.history: deque[dict[str, Any]] = deque(maxlen=MAX_EVENTS)
        self.revision = 0
        self.on_bmc_down: list[Callable[[str], None]] = []
        self.on_system_reset: list[Callable[[str, str], None]] = []
        self.elsewhere: dict[str, Callable[[str], None]] = {}
        self.also: dict[str, dict[str, Callable[[], Any]]] = {}
        self.keepers: dict[str, Keeper] = {}
        self.unclaimed: dict[str, Any] = {}
        self.events: list[MachineEvent] = []
        self.handlers: dict[str, Callable[[MachineEvent], None]] = {_ELSEWHERE: self._call_elsewhere}
        self._happening: float | None = None
        self._order = itertools.count()

    def schedule(self, seconds: float, kind: str, subject: str, detail: str = '') -> None:
        """Add an event to the queue, for ``handlers[kind]``."""
        heapq.heappush(self.events, MachineEvent(self.now() + seconds, next(self._order), kind, subject, detail))

    def _call_elsewhere(self, event: MachineEvent) -> None:
        happen = self.elsewhere.get(event.subject)
        if happen is not None:
            happen(event.detail)

    def later(self, seconds: float, who: str, detail: str = '') -> None:
        """Call ``elsewhere[who]`` with ``detail`` after that many seconds, if the name is still registered then."""
        self.schedule(seconds, _ELSEWHERE, who, detail)

    def now(self) -> float:
        """The present second: that of the event while an event is executed, else that of the clock."""
        return self.clock.now() if self._happening is None else self._happening

    def settle(self) -> None:
        """Execute all events that are due, in the order of time."""
        while self.faults.any('clock-jumps') and (rule := self.faults.find('clock-jumps', bmc='*')) is not None:
            rule.count = 0
            self.clock.jump(float(rule.parameters['seconds']))
        while self.events and self.events[0].due <= self.clock.now():
            event = heapq.heappop(self.events)
            self._happening = event.due
            try:
                self.handlers[event.kind](event)
            finally:
                self._happening = None
            self.revision += 1

    def next_due(self) -> float | None:
        """Seconds until the next event; None: no event is queued."""
        return max(0.0, self.events[0].due - self.clock.now()) if self.events else None

    def note(self, what: str, **facts: Any) -> None:
        """Add an event to the history of the machine, which is true whatever a BMC reports."""
        self.history.append({'what': what, 'time': self.now(), **facts})

    def note_part(self, what: str, key: str, **facts: Any) -> None:
        """Add an event of one component to the history."""
        component = self.components[key]
        self.note(what, component=key, device=component.device, bmc=component.bmc, **facts)

    def setting_fault(self, name: str, setting: EmulatedSetting, *, use: bool) -> Fault | None:
        """The fault rule of that name that applies to a setting; None: there is none."""
        return self.faults.find(name, bmc=setting.bmc, device=setting.device, uri=setting.uri, use=use)

    def component_fault(self, name: str, component: EmulatedComponent, *, use: bool) -> Fault | None:
        """The fault rule of that name that applies to a component; None: there is none."""
        return self.faults.find(name, bmc=component.bmc, device=component.device, uri=component.uri, use=use)

    def is_gone(self, device: str) -> bool:
        """Whether a fault has removed the card, on any BMC that shows it."""
        places = {(one.bmc, one.device) for one in self.components.values() if one.device == device}
        return any(self.faults.find('device-absent', bmc=bmc, device=name, use=False) for bmc, name in places)

    def kept(self) -> dict[str, Any]:
        """The stored state of all keepers by name, and the loaded state of keepers that do not exist in this run."""
        return self.unclaimed | {name: keeper.dump() for name, keeper in self.keepers.items()}


class SettingValues:
    """The configured values of settings and locks and the values in force, as the BMCs hold and show them."""

    def __init__(self, machine: MachineState) -> None:
        self._machine = machine

    def configure(self, key: str, value: Value) -> None:
        """Write a setting, as the BMC does for a client."""
        setting = self._machine.settings[key]
        if setting.is_lock and self._machine.setting_fault('lock-ignored', setting, use=True):
            return
        setting.value = value
        if setting.takes_force is None and not setting.with_bmc and not self._never_in_force(setting):
            setting.in_force = value
        self._machine.revision += 1

    def _never_in_force(self, setting: EmulatedSetting) -> bool:
        """Whether a fault keeps the configured value of a lock from coming in force."""
        return setting.is_lock and self._machine.setting_fault('lock-never-in-force', setting, use=True) is not None

    def lockdown(self, bmc: str) -> EmulatedSetting | None:
        """The lockdown in force on a BMC; None: the BMC changes settings and takes updates."""
        return next((self._machine.settings[key] for key in self._machine.bmcs[bmc].lockdowns if self.is_closed(key)), None)

    def shown(self, key: str) -> Value:
        """The configured value as the BMC shows it."""
        setting = self._machine.settings[key]
        if setting.is_lock and self._is_invented(setting):
            return setting.locked
        if setting.takes_force is None and not setting.with_bmc:
            return setting.in_force
        return setting.value

    def shown_in_force(self, key: str) -> Value:
        """The value in force as the BMC shows it."""
        setting = self._machine.settings[key]
        if setting.is_lock and self._is_invented(setting):
            return setting.locked
        return setting.in_force

    def _is_invented(self, setting: EmulatedSetting) -> bool:
        """Whether a fault makes the BMC show a lock as closed whatever its state is."""
        lies = ('lock-reports-locked', 'lock-unread')
        return any(self._machine.setting_fault(name, setting, use=False) is not None for name in lies)

    def is_pending(self, key: str) -> bool:
        """Whether a configured value still waits for a restart."""
        return self._machine.settings[key].value != self._machine.settings[key].in_force

    def is_closed(self, key: str) -> bool:
        """Whether a lock really holds: the value in force is the locked one, and no fault makes the BMC invent it."""
        setting = self._machine.settings[key]
        if self._is_invented(setting):
            return False
        return setting.is_lock and setting.in_force == setting.locked

    def apply_restart(self, system: System, depth: Restart) -> None:
        """Bring values in force that wait for this restart of a system; a fault may open locks."""
        for setting in self._machine.settings.values():
            if setting.system != system.name:
                continue
            if setting.takes_force is not None and depth >= setting.takes_force and not self._never_in_force(setting):
                setting.in_force = setting.value
            if setting.once is not None and setting.value == setting.once[0]:
                setting.value = setting.in_force = setting.once[1]
            if setting.is_lock and self._machine.setting_fault('lock-lost-on-reset', setting, use=True):
                setting.value = setting.in_force = setting.open

    def apply_bmc_restart(self, bmc: str) -> None:
        """Bring values in force that wait for the restart of a BMC, when the BMC answers again."""
        for setting in self._machine.settings.values():
            if setting.with_bmc and setting.bmc == bmc and not self._never_in_force(setting):
                setting.in_force = setting.value

    def lose_locks_of_bmc(self, bmc: str) -> None:
        """Open the locks that a BMC loses, by a fault, when it is reset."""
        for setting in self._machine.settings.values():
            is_its = setting.is_lock and setting.bmc == bmc
            if is_its and self._machine.setting_fault('lock-lost-on-bmc-reset', setting, use=True):
                setting.value = setting.in_force = setting.open

    def lose_locks_of_card(self, component: EmulatedComponent) -> None:
        """Open the locks that a card loses, by a fault, when one of its components is updated."""
        for setting in self._machine.settings.values():
            is_its = setting.is_lock and setting.device == component.device and setting.bmc == component.bmc
            if is_its and self._machine.setting_fault('lock-lost-on-update', setting, use=True):
                setting.value = setting.in_force = setting.open


ROOT_OF_TRUST = 'erot'
"""The name of the root-of-trust component of a card, which guards the images of the other components."""


class FirmwareBanks:
    """The banks of the components: what the BMC shows of them, which images they take, and what brings an image in force."""

    def __init__(self, machine: MachineState, values: SettingValues) -> None:
        self._machine = machine
        self._values = values

    def shown_version(self, key: str, *, by_item: bool = False) -> str:
        """The version that the BMC shows; empty when the component holds nothing.

        :param by_item: the version in the SoftwareInventory item, not that in the card's own resources.
        """
        component = self._machine.components[key]
        rule = self._machine.component_fault('version-lies', component, use=False)
        if rule is not None and (by_item or not rule.parameters['item_only']):
            told = rule.parameters['version']
            if told is not None:
                return str(told)
            if component.sent is not None:
                return component.sent.version
        return component.active.version if component.active is not None else ''

    def lateness(self, component: EmulatedComponent) -> Fault | None:
        """The fault rule by which the inventory item does not yet show the last write; None: the item shows it."""
        return self._recent('item-late', component)

    def copy_seconds(self, device: str) -> float:
        """For how many more seconds the root of trust of a card copies the written image in the background; 0: none."""
        parts = [one for one in self._machine.components.values() if device and one.device == device]
        if not any(one.component == ROOT_OF_TRUST for one in parts):
            return 0.0
        # An image that waits for its activation is copied only after it came in force.
        settled = [one for one in parts if one.staged is None or one.identity is None]
        found = [(one, rule) for one in settled if (rule := self._recent('background-copy', one)) is not None]
        return max((self._left(one, rule) for one, rule in found), default=0.0)

    def _recent(self, name: str, component: EmulatedComponent) -> Fault | None:
        """The fault rule of that name that applies for some seconds after an update, if it still applies; else None."""
        if component.changed is None:
            return None
        rule = self._machine.component_fault(name, component, use=False)
        return rule if rule is not None and self._left(component, rule) > 0 else None

    def _left(self, component: EmulatedComponent, rule: Fault) -> float:
        changed = component.changed
        return 0.0 if changed is None else changed + float(rule.parameters['seconds']) - self._machine.now()

    def find_write_block(self, component: EmulatedComponent) -> WriteRefused | None:
        """Why the component takes no image at all now; None: it takes one."""
        if not component.updateable:
            return WriteRefused('not-updateable', f'{component.key} cannot be updated')
        if component.write_protect is not None and self._values.is_closed(component.write_protect):
            return WriteRefused('write-protected', f'{component.key} is write protected')
        return None

    def find_obstacle(self, component: EmulatedComponent, image: EmulatedImage) -> WriteRefused | None:
        """Why the component does not take this image now; None: it takes the image."""
        if (closed := self.find_write_block(component)) is not None:
            return closed
        try:
            self.check_image(component, image)
        except WriteRefused as why:
            return why
        return None

    def check_image(self, component: EmulatedComponent, image: EmulatedImage) -> None:
        """Check an image as the card does, whoever sends it.

        :raises Refused: the image is not for this component, or a fault makes the card refuse it.
        """
        variant = self._machine.component_fault('other-variant', component, use=False)
        asked = component if variant is None else replace(component, model=str(variant.parameters['takes']))
        asked.check(image)
        rule = self._machine.component_fault('image-refused', component, use=False)
        if rule is None:
            return
        version, below = rule.parameters['version'], rule.parameters['below']
        if version in (None, image.version) and (below is None or image.security_version < below):
            self._machine.component_fault('image-refused', component, use=True)
            raise WriteRefused('image-refused', str(rule.parameters['message']))

    def judge(self, key: str, image: EmulatedImage | None = None) -> None:
        """Check that the component can be written now, and with this image if one is given.

        :raises Refused: the component is not updateable or write protected, or the image is not for it.
        """
        component = self._machine.components[key]
        if (why := self.find_write_block(component)) is not None:
            raise why
        if image is not None:
            self.check_image(component, image)

    def activate(self, component: EmulatedComponent, bank: Bank) -> None:
        """Bring a bank in force now; the bank that was active becomes the backup."""
        component.previous = component.active
        component.active = bank
        component.staged = None
        component.changed = self._machine.now()
        self._machine.note_part('activated', component.key, version=bank.version, digest=bank.digest)

    def apply_restart(self, system: System, depth: Restart) -> None:
        """Activate the staged images that wait for this restart of a system, or drop or keep them where a fault says so."""
        for component in self._machine.components.values():
            is_deep_enough = component.activates is None or depth >= component.activates
            if component.system != system.name or component.staged is None or not is_deep_enough:
                continue
            if self.activates_with_bmc(component):
                continue
            if self._machine.component_fault('activation-lost', component, use=True) is not None:
                continue
            refused = self._machine.component_fault('activation-refused', component, use=True)
            if refused is None:
                self.activate(component, component.staged)
            elif refused.parameters['leaves'] is None:
                component.staged = None
            else:
                self.activate(component, Bank(version=str(refused.parameters['leaves']), writer='bmc'))

    def apply_bmc_restart(self, bmc: str) -> None:
        """Activate the staged images that, by a fault, wait for the restart of a BMC."""
        for component in self._machine.components.values():
            if component.bmc == bmc and component.staged is not None and self.activates_with_bmc(component):
                self.activate(component, component.staged)

    def activates_with_bmc(self, component: EmulatedComponent) -> bool:
        """Whether, by a fault, a staged image of the component comes in force with a restart of its BMC."""
        return self._machine.component_fault('activates-with-bmc', component, use=False) is not None

    def hold(self, key: str, image: EmulatedImage, writer: str) -> None:
        """Keep a written image until :meth:`activate_held`."""
        component = self._machine.components[key]
        component.held = component.sent = Bank.of(image, writer)
        self._machine.note_part('written', key, task=None, version=image.version, digest=image.digest, writer=writer)
        self._machine.revision += 1

    def drop_held(self, key: str) -> None:
        """Drop a written image that was not activated."""
        self._machine.components[key].held = None
        self._machine.revision += 1

    def activate_held(self, key: str, *, keeps_previous: bool = False) -> None:
        """Bring the held image in force, or stage it where a restart of the system activates it.

        :param keeps_previous: the backup was copied by an earlier command, and stays as it is.
        """
        component = self._machine.components[key]
        bank, previous = component.held, component.previous
        if bank is None or self._machine.component_fault('activation-lost', component, use=True) is not None:
            return
        component.held = None
        if component.activates is not None:
            component.staged = bank
        elif (refused := self._machine.component_fault('activation-refused', component, use=True)) is None:
            self.activate(component, bank)
        elif refused.parameters['leaves'] is not None:
            self.activate(component, Bank(version=str(refused.parameters['leaves']), writer='bmc'))
        if keeps_previous:
            component.previous = previous
        self._values.lose_locks_of_card(component)
        self._machine.revision += 1

    def back_up(self, key: str) -> None:
        """Copy the active bank to the backup for a rollback."""
        component = self._machine.components[key]
        component.previous = component.active
        self._machine.revision += 1

    def roll_back(self, key: str) -> None:
        """Swap the active bank and the backup.

        Where a restart of the system activates images, a staged image is dropped; if none is staged, the backup is staged.
        """
        component = self._machine.components[key]
        if component.activates is not None:
            component.staged = component.previous if component.staged is None else None
            self._machine.revision += 1
        elif component.previous is not None:
            component.active, component.previous = component.previous, component.active
            self._machine.revision += 1


def tenant_hosts(machine: MachineState) -> tuple[str, ...]:
    """The systems on which a tenant may be root: those that have an in-band path to a card."""
    return tuple(dict.fromkeys(way.host for way in machine.ways)) or ('host',)


class HostWrites:
    """In-band writes of a tenant who is root on a host."""

    def __init__(self, machine: MachineState, values: SettingValues, banks: FirmwareBanks) -> None:
        self._machine = machine
        self._values = values
        self._banks = banks

    def host_is_up(self, name: str = 'host') -> bool:
        """Whether code of a tenant can run on the host: it is on and not restarting."""
        host = self._machine.systems[name]
        return host.power is Power.ON and not host.booting

    def is_powered(self, device: str) -> bool:
        """Whether the system of a card is on."""
        parts = [one for one in self._machine.components.values() if device and one.device == device]
        return all(self._machine.systems[one.system].power is Power.ON for one in parts)

    def write_from_host(
        self,
        device: str,
        image: EmulatedImage | BadImage,
        *,
        path: str,
        component: str | None = None,
        slot: int | None = None,
        host: str | None = None,
    ) -> EmulatedComponent:
        """Write an image in band, as a tenant who is root on the host. It is in force at once: root may also reset the card.

        :param host: the host, where the machine has several; None: any host that has a path to the card.
        :raises Refused: ``host-off``, ``no-such-way``, ``locked``, ``bad-image``, ``wrong-...``.
        """
        reaching = [way for way in self._machine.ways if way.device == device and host in (None, way.host)]
        asked = {way.host for way in reaching} or ({*tenant_hosts(self._machine)} if host is None else {host})
        up = {name for name in asked if self.host_is_up(name)}
        if not up:
            raise WriteRefused('host-off', 'the host is off: nobody can be root on it')
        ways = [
            way
            for way in reaching
            if way.host in up and way.path == path and way.slot == slot and component in (None, way.component)
        ]
        if not ways or self._machine.is_gone(device):
            place = f'slot {slot}' if slot is not None else component or 'firmware'
            raise WriteRefused('no-such-way', f'the host has no {path} way to {place} of {device}')
        way = ways[0]
        for key in way.locks:
            if self._values.is_closed(key):
                raise WriteRefused('locked', f'{key} blocks the {path} way to {device}')
        if isinstance(image, BadImage):
            raise WriteRefused('bad-image', str(image))
        target = self._machine.components[way.target]
        self._banks.check_image(target, image)
        self._machine.note_part('written', target.key, task=None, version=image.version, digest=image.digest, writer='host')
        self._banks.activate(target, Bank.of(image, 'host'))
        self._machine.revision += 1
        return target


# bmcweb drops the oldest of its tasks when it holds more than a hundred.
MAX_TASKS = 100

# Faults that decide how a task ends. At most one applies to a task; it is chosen when the write begins.
FATES = (
    'task-fails',
    'task-vanishes',
    'task-stuck',
    'task-completed-version-unchanged',
    'task-completed-critical',
    'task-id-reused',
    'service-restarts',
    'bmc-restart',
    'power-lost',
)


def unwritten_parts(task: Task) -> list[str]:
    """The components that a task still has to write."""
    return [one.key for one in task.writes if one.result is None] if task.writes else list(task.targets)


def percent_at(task: Task, at: float) -> int:
    """PercentComplete of a task at that second."""
    if task.frozen_percent is not None:
        return task.frozen_percent
    if task.state is EmulatedTaskState.COMPLETED:
        return 100
    if task.starts is None or task.ends is None:
        return 0
    return max(0, min(99, int(100 * (at - task.starts) / max(task.ends - task.starts, 1e-9))))


def written_version(task: Task) -> str:
    """The version of the package or image of a task, for messages."""
    return task.package or next((one.version for one in task.writes), '')


class UpdateTasks:
    """The update tasks of the BMCs: which can begin, what they report, and how they fail or are cancelled."""

    def __init__(self, machine: MachineState) -> None:
        self._machine = machine

    def busy(self, bmc_name: str, targets: Iterable[str]) -> str | None:
        """Why no update of these components can begin now; None when it can."""
        bmc = self._machine.bmcs[bmc_name]
        running = [task for task in bmc.tasks.values() if task.is_open and not task.forgotten]
        held = {target for task in running for target in task.targets} | bmc.reserved
        for target in targets:
            if target in held:
                return f'{target} is being updated'
        if len(running) + len(bmc.reserved) >= bmc.parallel_updates:
            return f'{len(running) + len(bmc.reserved)} updates are running, this BMC takes {bmc.parallel_updates}'
        return None

    def written_beside(self, bmc_name: str, targets: Iterable[str]) -> tuple[str, ...]:
        """The components on the same cards as these that are being written, or reserved for a write."""
        bmc = self._machine.bmcs[bmc_name]
        devices = {self._machine.components[key].device for key in targets} - {''}
        held = {key for task in bmc.tasks.values() if task.is_open for key in task.targets} | bmc.reserved
        return tuple(sorted(key for key in held if self._machine.components[key].device in devices))

    def begin(self, bmc_name: str, targets: Iterable[str], *, on_reset: bool = False, forced: bool = False) -> Task:
        """Create the task of an update of these components. The task waits for its image or package.

        :param forced: equal and lower components of a package are written, too.
        :raises Refused: ``busy``.
        """
        keys = tuple(targets)
        why = self.busy(bmc_name, keys)
        if why is not None:
            raise WriteRefused('busy', why)
        bmc = self._machine.bmcs[bmc_name]
        task = Task(
            id=bmc.next_task,
            bmc=bmc_name,
            name=self.name_of(keys),
            targets=keys,
            created=self._machine.clock.now(),
            on_reset=on_reset,
            forced=forced,
        )
        bmc.next_task += 1
        bmc.tasks[task.id] = task
        closed = [identity for identity, known in bmc.tasks.items() if not known.is_open]
        for identity in closed[: max(0, len(bmc.tasks) - MAX_TASKS)]:
            del bmc.tasks[identity]
        self._machine.revision += 1
        return task

    def aim(self, task: Task, targets: Iterable[str]) -> None:
        """Set the targets of a task that was begun without targets, after its image showed which components it is for.

        :raises Refused: ``busy``: another task updates one of the targets.
        """
        keys = tuple(targets)
        bmc = self._machine.bmcs[task.bmc]
        others = {key for one in bmc.tasks.values() if one.is_open and one is not task for key in one.targets}
        for key in keys:
            if key in others | bmc.reserved:
                raise WriteRefused('busy', f'{key} is being updated')
        task.targets = keys
        task.name = self.name_of(keys)
        self._machine.revision += 1

    def name_of(self, keys: Iterable[str]) -> str:
        """The Name of a task that updates these components."""
        items = ', '.join(self._machine.components[key].uri.rsplit('/', 1)[-1] for key in keys)
        return f'Update of {items or "all that the image fits"}'

    def find(self, subject: str) -> Task | None:
        """The task that an event is about; None: its BMC does not have the task any more."""
        bmc_name, identity, life = subject.rsplit('/', 2)
        bmc = self._machine.bmcs[bmc_name]
        return bmc.tasks.get(int(identity)) if bmc.life == int(life) else None

    def find_fault(self, name: str, task: Task) -> Fault | None:
        """The rule of that name that applies to one of the targets of a task; None: there is none."""
        found = (self._machine.component_fault(name, self._machine.components[key], use=True) for key in task.targets)
        return next((rule for rule in found if rule is not None), None)

    def choose_fate(self, task: Task) -> dict[str, Any] | None:
        """The fault that decides how a task ends: its name and parameters; None: the task ends well."""
        for name in FATES:
            for key in task.targets:
                component = self._machine.components[key]
                rule = self._machine.component_fault(name, component, use=True)
                if rule is not None:
                    return {'name': name, **rule.parameters}
        return None

    def add_message(self, task: Task, write: ComponentWrite, reason: str, about: str = '', *, action: str = '') -> None:
        """Add a message about one component to a task, with the component's version unless ``about`` is given."""
        arguments = [self._machine.components[write.key].item, about or write.version]
        text = f'{arguments[0]}: {reason}, {arguments[1]}'
        task.messages.append(message(text, reason=reason, arguments=arguments, action=action))

    def record_objection(self, task: Task, write: ComponentWrite, against: BundleObjection) -> None:
        """Record that a component was skipped or has failed; the other components are not affected."""
        write.result = against.result
        is_skipped = against.result is WriteResult.SKIPPED
        self._machine.note_part('skipped' if is_skipped else 'failed', write.key, task=task.id, reason=against.reason)
        if is_skipped:
            self.add_message(task, write, 'skipped', against.text, action=against.action)
            return
        if against.failure is not None:
            self.add_message(task, write, f'part-{against.failure}-failed', action=against.action)
        self.add_message(task, write, 'resource-error', against.text, action=against.action)

    def end_in_part(self, task: Task, at: float) -> None:
        """End a task of which a part has failed."""
        task.state, task.status, task.frozen_percent, task.ended = EmulatedTaskState.EXCEPTION, 'Warning', 100, at
        task.messages.append(message('A part of the update has failed.', severity='Critical', reason='aborted'))
        self._machine.revision += 1

    def cancel(self, task: Task) -> None:
        """Cancel a running task, as a DELETE of the task or of its monitor does. What is not yet written stays unwritten."""
        self.fail(task, 'cancelled', 'The task was cancelled.', self._machine.now())
        task.state = EmulatedTaskState.CANCELLED

    def fail(self, task: Task, reason: str, text: str, at: float) -> None:
        """Fail a task with all that it has not written."""
        for key in unwritten_parts(task):
            self._machine.note_part('failed', key, task=task.id, reason=reason)
        task.state = EmulatedTaskState.EXCEPTION
        task.frozen_percent = percent_at(task, at)
        task.ended = at
        arguments = [', '.join(task.targets)]
        task.messages.append(message(text, severity='Critical', reason=reason, arguments=arguments))
        self._machine.revision += 1


def really_writes(task: Task) -> bool:
    """Whether a task really writes what it reports as written; a fault may make it only report so."""
    only_said = task.fate is not None and task.fate['name'].startswith('task-completed-')
    return not only_said or (task.fate is not None and bool(task.fate.get('completes')))


class ComponentWrites:
    """Write the images of a task into its components; each write of a package succeeds, is skipped or fails on its own."""

    def __init__(self, machine: MachineState, values: SettingValues, banks: FirmwareBanks, tasks: UpdateTasks) -> None:
        self._machine = machine
        self._values = values
        self._banks = banks
        self._tasks = tasks
        machine.handlers['part'] = self._write_part

    def skips_equal(self, write: ComponentWrite) -> bool:
        """Whether, by a fault, an image is skipped because the component runs its version."""
        component = self._machine.components[write.key]
        is_equal = component.active is not None and component.active.version == write.version
        return is_equal and self._machine.component_fault('equal-version-skipped', component, use=True) is not None

    def find_objection(self, write: ComponentWrite) -> BundleObjection | None:
        """Return why a device refuses a component image before or after the transfer; None: it takes the image."""
        component = self._machine.components[write.key]
        if self._banks.copy_seconds(component.device):
            text, action = 'The root of trust is busy', 'Wait until it has copied its image in the background.'
            return BundleObjection(result=WriteResult.FAILED, reason='copying', text=text, failure='transfer', action=action)
        if (closed := self._banks.find_write_block(component)) is not None:
            return BundleObjection(result=WriteResult.FAILED, reason=closed.reason, text=str(closed), failure='transfer')
        if (against := objection(write, component.active)) is not None:
            return against
        if write.image is not None and (why := self._banks.find_obstacle(component, write.image)) is not None:
            return BundleObjection(result=WriteResult.FAILED, reason=why.reason, text=str(why), failure='verify')
        return None

    def _finish_part(self, task: Task, write: ComponentWrite, *, writes: bool) -> None:
        """Finish the write of one component, unless it already has a result.

        :param writes: the component is really written; else the task only reports it as written.
        """
        if write.result is not None or write.image is None or write.key in task.told:
            return
        against = self._aborted(task, write) or self._against_late(write)
        if against is not None:
            self._tasks.record_objection(task, write, against)
            return
        task.told.append(write.key)
        self._tasks.add_message(task, write, 'verifying')
        self._tasks.add_message(task, write, 'applying')
        if writes:
            self._put(task, write, write.image)
        self._tasks.add_message(task, write, 'written')
        if self._machine.components[write.key].staged is not None:
            self._tasks.add_message(task, write, 'awaits-activation', action=write.activated_by)

    def _write_part(self, event: MachineEvent) -> None:
        task = self._tasks.find(event.subject)
        if task is None or not task.is_open:
            return
        is_stuck = task.fate is not None and task.fate['name'] == 'task-stuck' and not task.fate['completes']
        if is_stuck and task.frozen_percent is not None:
            return
        for one in task.writes:
            if one.key == event.detail:
                self._finish_part(task, one, writes=really_writes(task))

    def finish_package(self, task: Task, at: float, *, writes: bool) -> None:
        """Finish the writes of all components that were sent, each on its own."""
        for one in task.writes:
            self._finish_part(task, one, writes=writes)
        if any(one.result is WriteResult.FAILED for one in task.writes):
            self._tasks.end_in_part(task, at)
            return
        task.state, task.ended = EmulatedTaskState.COMPLETED, at
        self._machine.revision += 1

    def _aborted(self, task: Task, write: ComponentWrite) -> BundleObjection | None:
        """The objection of a device that takes no more components after one has failed, where its record says so.

        Source: DSP0267, table 4.
        """
        failed = [one for one in task.writes if one.endpoint == write.endpoint and one.result is WriteResult.FAILED]
        if write.continues or not failed:
            return None
        text = f'Its device gave up after {self._machine.components[failed[0].key].item}'
        return BundleObjection(result=WriteResult.FAILED, reason='given-up', text=text, failure='transfer')

    def _against_late(self, write: ComponentWrite) -> BundleObjection | None:
        """Return what stops a write at its end: a lock that was closed meanwhile, or a device that fails."""
        component = self._machine.components[write.key]
        if (closed := self._banks.find_write_block(component)) is not None:
            return BundleObjection(result=WriteResult.FAILED, reason=closed.reason, text=str(closed), failure='apply')
        rule = self._machine.component_fault('component-fails', component, use=True)
        if rule is None:
            return None
        text, stage = str(rule.parameters['message']), str(rule.parameters['stage'])
        return BundleObjection(result=WriteResult.FAILED, reason='device-refused', text=text, failure=stage)

    def write_all(self, task: Task) -> None:
        """Write the images of a task that have no result yet."""
        for one in task.writes:
            if one.result is None and one.image is not None:
                self._put(task, one, one.image)

    def _put(self, task: Task, write: ComponentWrite, image: EmulatedImage) -> None:
        """Write one image into its component."""
        component, bank = self._machine.components[write.key], Bank.of(image, 'bmc', stamp=write.stamp)
        write.result = WriteResult.WRITTEN
        component.changed = self._machine.now()
        self._machine.note_part(
            'written', write.key, task=task.id, version=bank.version, digest=bank.digest, writer=bank.writer
        )
        at_once = component.activates is None and not task.on_reset and not self._banks.activates_with_bmc(component)
        if task.is_installed_by_restart or at_once:
            self._banks.activate(component, bank)
        else:
            component.staged = bank
        self._values.lose_locks_of_card(component)


_UPDATER = 'Firmware Update Service'
"""The sender of messages that are about no component."""


class UpdateUploads:
    """Images and packages that arrive for a task: check them, then begin to write, or wait for StartUpdate or a restart."""

    def __init__(self, machine: MachineState, banks: FirmwareBanks, tasks: UpdateTasks, writes: ComponentWrites) -> None:
        self._machine = machine
        self._banks = banks
        self._tasks = tasks
        self._writes = writes
        machine.handlers['checked'] = self._finish_check

    def image_arrived(self, task: Task, image: EmulatedImage | BadImage) -> None:
        """Check an image that has arrived completely, and begin to write it."""
        if not task.is_open:
            return
        now = self._machine.clock.now()
        task.starts = now
        if isinstance(image, BadImage):
            self._tasks.fail(task, 'bad-image', str(image), now)
            return
        if not task.targets:
            self._tasks.fail(task, 'fits-nothing', f'A {image.component} image for {image.device} fits nothing here.', now)
            return
        self._machine.note('upload', bmc=task.bmc, task=task.id, digest=image.digest, package=None)
        task.writes = [ComponentWrite.of(key, image) for key in task.targets]
        if not task.forced and all(self._writes.skips_equal(write) for write in task.writes):
            for write in task.writes:
                self._tasks.record_objection(task, write, EQUAL)
            task.state, task.ended = EmulatedTaskState.COMPLETED, now
            self._machine.revision += 1
            return
        for key in task.targets:
            component = self._machine.components[key]
            component.sent = Bank.of(image, 'bmc')
            if (why := self._banks.find_obstacle(component, image)) is not None:
                self._tasks.fail(task, why.reason, str(why), now)
                return
        self._begin_or_wait(task, now)

    def package_arrived(self, task: Task, package: PackageMaker) -> None:
        """Let each device check its component of a package that has arrived, and begin to write the accepted components."""
        if not task.is_open:
            return
        now = self._machine.clock.now()
        task.starts, task.package = now, package.version
        self._machine.note('upload', bmc=task.bmc, task=task.id, digest=package.digest, package=package.version)
        if (refused := self._tasks.find_fault('package-refused', task)) is not None:
            self.refuse_package(task, 'package-refused', str(refused.parameters['message']))
            return
        there = [
            self._machine.components[key]
            for key in task.targets
            if not self._machine.is_gone(self._machine.components[key].device)
        ]
        task.writes = assign(package, there, force=task.forced)
        if not task.writes:
            self.refuse_package(task, 'fits-nothing', 'No device that was to be updated is in the package')
            return
        task.targets = tuple(one.key for one in task.writes)
        task.name = self._tasks.name_of(task.targets)
        for one in task.writes:
            self._tasks.add_message(task, one, 'target')
            if one.image is not None:
                self._machine.components[one.key].sent = Bank.of(one.image, 'bmc', stamp=one.stamp)
            if (against := self._writes.find_objection(one)) is not None:
                self._tasks.record_objection(task, one, against)
        self._begin_or_wait(task, now)

    def refuse_package(self, task: Task, reason: str, text: str) -> None:
        """End the task without writing any part of the upload; the task reports why."""
        if not task.is_open:
            return
        now = self._machine.clock.now()
        task.starts = now
        self._machine.note('refused', bmc=task.bmc, task=task.id, reason=reason)
        task.messages.append(message(text, severity='Critical', reason='resource-error', arguments=[_UPDATER, text]))
        self._tasks.end_in_part(task, now)

    def update_failed(self, task: Task, reason: str, text: str) -> None:
        """Fail a task whose image never arrived: the URI could not be fetched, or the upload was cut."""
        if task.is_open:
            self._tasks.fail(task, reason, text, self._machine.clock.now())

    def start_updates(self, bmc_name: str) -> list[Task]:
        """Carry out StartUpdate: write every image that waits for it. A completed task gets a new task for the write.

        :raises Refused: ``busy``: one of the components is being written.
        """
        started = []
        for task in [one for one in self._machine.bmcs[bmc_name].tasks.values() if one.waits_for_start]:
            going = task
            if task.state is EmulatedTaskState.COMPLETED:
                going = self._tasks.begin(bmc_name, task.targets, on_reset=task.on_reset, forced=task.forced)
                going.writes, going.package = task.writes, task.package
            task.waits_for_start = False
            self._begin_or_wait(going, self._machine.clock.now(), started=True)
            started.append(going)
        return started

    def install(self, system: System, at: float) -> None:
        """Begin to write the images that waited for this restart."""
        for task in [task for bmc in self._machine.bmcs.values() for task in bmc.tasks.values() if task.awaits_restart]:
            if any(self._machine.components[key].system == system.name for key in task.targets):
                self._begin_writing(task, at)

    def _begin_or_wait(self, task: Task, now: float, *, started: bool = False) -> None:
        """Begin to write, or wait for StartUpdate or for the next restart where a fault says so."""
        starts = None if started else self._tasks.find_fault('task-waits-for-start', task)
        if starts is not None:
            ends, checks = bool(starts.parameters['new_task']), float(starts.parameters['checks'])
            if checks:
                task.state = EmulatedTaskState.RUNNING
                self._machine.schedule(checks, 'checked', f'{task.bmc} {task.id}', 'ends' if ends else '')
                self._machine.revision += 1
            else:
                self._wait_for_start(task, now, ends=ends)
            return
        waits = self._tasks.find_fault('task-waits-for-restart', task)
        if waits is None:
            self._begin_writing(task, now)
            return
        task.state = EmulatedTaskState(str(waits.parameters['state']))
        task.is_installed_by_restart = True
        if waits.parameters['says']:
            task.messages.append(message(str(waits.parameters['message']), reason='restart-needed'))
        self._machine.revision += 1

    def _wait_for_start(self, task: Task, now: float, *, ends: bool) -> None:
        """Let a task wait until StartUpdate is requested.

        :param ends: the task is completed by that, and StartUpdate creates another one.
        """
        task.waits_for_start = True
        if ends:
            task.state, task.ended = EmulatedTaskState.COMPLETED, now
            task.messages.append(message('The image was checked, and waits to be started.', reason='checked'))
        else:
            task.state = EmulatedTaskState.PENDING
            task.messages.append(message('It waits for the action of the update service.', reason='start-needed'))
        self._machine.revision += 1

    def _finish_check(self, event: MachineEvent) -> None:
        name, _, identity = event.subject.partition(' ')
        task = self._machine.bmcs[name].tasks.get(int(identity))
        if task is not None and task.state is EmulatedTaskState.RUNNING:
            self._wait_for_start(task, event.due, ends=bool(event.detail))

    def _begin_writing(self, task: Task, at: float) -> None:
        """Write the images of a task from that second on."""
        sent = [one for one in task.writes if one.result is None]
        task.state = EmulatedTaskState.RUNNING
        task.starts, task.ends = at, at + (self._machine.flash_seconds if sent else 0)
        if task.package is None:
            text = f'Writing {written_version(task)} to {", ".join(task.targets)}.'
            task.messages.append(message(text, reason='started'))
        for one in sent if task.package is not None else ():
            self._tasks.add_message(task, one, 'transferring')
        if not sent:
            self._writes.finish_package(task, at, writes=False)
            return
        task.fate = self._tasks.choose_fate(task)
        subject = f'{task.bmc}/{task.id}/{self._machine.bmcs[task.bmc].life}'
        if task.fate is not None and 'at_percent' in task.fate:
            share = min(100, max(0, float(task.fate['at_percent']))) / 100
            self._machine.schedule(self._machine.flash_seconds * share, 'fate', subject)
        if task.fate is None or task.fate.get('completes') or task.fate['name'].startswith('task-completed-'):
            self._machine.schedule(self._machine.flash_seconds, 'written', subject)
        for number, one in enumerate(sent, start=1) if task.package is not None else ():
            # The components are written one after the other: a task that ends early leaves the package partly written.
            self._machine.schedule(self._machine.flash_seconds * number / len(sent), 'part', subject, one.key)
        self._machine.revision += 1


class PowerControl:
    """The power of the systems, the restarts of systems and BMCs, and what a restart brings in force.

    :param install: begins to write the images that waited for the restart of a system.
    """

    def __init__(
        self,
        machine: MachineState,
        values: SettingValues,
        banks: FirmwareBanks,
        install: Callable[[System, float], None],
    ) -> None:
        self._machine = machine
        self._values = values
        self._banks = banks
        self._install = install
        machine.handlers |= {
            'off': self._turn_off,
            'cycle': self._turn_on_again,
            'up': self._come_up,
            'bmc_up': self._finish_bmc_reset,
        }

    def reset_system(
        self, name: str, reset_type: str, *, cause: Cause = Cause.POWER_BUTTON, channel: int | None = None
    ) -> None:
        """Carry out ComputerSystem.Reset. A reset to the present state is no error and changes nothing, as on OpenBMC.

        :param cause: the cause of the reset; by default a person at the machine.
        :param channel: the IPMI channel through which the reset was requested.
        :raises Refused: a graceful restart of a system that is off, or the power is already changing.
        """
        system = self._machine.systems[name]
        if system.power in (Power.POWERING_ON, Power.POWERING_OFF) or system.booting:
            raise WriteRefused('in-transition', f'{name} is changing its power already')
        is_on = system.power is Power.ON
        by_hand = Cause.RESET_BUTTON if is_on and cause is Cause.POWER_BUTTON else cause
        system.asked = Start(cause=by_hand, channel=channel)
        if is_on is not (reset_type in ('On', 'ForceOn')):
            self._note_cut(name, reset_type)
        match reset_type:
            case 'On' | 'ForceOn':
                if not is_on:
                    self.power_on(system, Restart.COLD)
            case 'ForceOff' | 'GracefulShutdown':
                if is_on:
                    system.power = Power.POWERING_OFF
                    self._machine.schedule(self._machine.reset_seconds, 'off', name)
            case 'GracefulRestart':
                if not is_on:
                    raise WriteRefused('host-off', f'{name} is off')
                self._restart(system)
            case 'ForceRestart':
                if is_on:
                    self._restart(system)
                else:
                    self.power_on(system, Restart.COLD)
            case 'PowerCycle':
                if is_on:
                    system.power = Power.POWERING_OFF
                    self._machine.schedule(self._machine.reset_seconds / 2, 'cycle', name)
                else:
                    self.power_on(system, Restart.COLD)
            case _:
                raise WriteRefused('unknown-reset', f'{name} knows no reset {reset_type}')
        self._machine.revision += 1
        for listener in self._machine.on_system_reset:
            listener(name, reset_type)

    def _note_cut(self, name: str, reset_type: str) -> None:
        """Record a change of power while a component is being written: real cards do not survive every one."""
        tasks = [task for bmc in self._machine.bmcs.values() for task in bmc.tasks.values()]
        writing = {
            key
            for task in tasks
            if task.state is EmulatedTaskState.RUNNING and task.frozen_percent is None
            for key in unwritten_parts(task)
        }
        for key in sorted(key for key in writing if self._machine.components[key].system == name):
            self._machine.cut_writes.append({'component': key, 'system': name, 'reset_type': reset_type})

    def power_on(self, system: System, depth: Restart) -> None:
        """Begin to turn a system on."""
        system.power = Power.POWERING_ON
        system.state_since = system.on_since = self._machine.now()
        self._machine.schedule(self._machine.reset_seconds, 'up', system.name, str(int(depth)))

    def _restart(self, system: System) -> None:
        system.booting = True
        system.state_since = self._machine.now()
        self._machine.schedule(self._machine.reset_seconds, 'up', system.name, str(int(Restart.WARM)))

    def _turn_off(self, event: MachineEvent) -> None:
        system = self._machine.systems[event.subject]
        system.power = Power.OFF
        system.state_since = event.due
        system.on_seconds = system.on_for(event.due)
        system.on_since = None
        system.log(event.due)

    def _turn_on_again(self, event: MachineEvent) -> None:
        system = self._machine.systems[event.subject]
        system.power = Power.POWERING_ON
        system.state_since = event.due
        self._machine.schedule(self._machine.reset_seconds / 2, 'up', system.name, event.detail or str(int(Restart.COLD)))

    def _come_up(self, event: MachineEvent) -> None:
        self.finish_restart(self._machine.systems[event.subject], Restart(int(event.detail)), event.due)

    def finish_restart(self, system: System, depth: Restart, at: float) -> None:
        """Let a system be up again, and apply what waited for a restart of that depth."""
        system.power = Power.ON
        system.booting = False
        system.last_reset = system.state_since = at
        system.resets += 1
        system.start = system.asked
        if depth >= Restart.COLD:
            system.power_on = system.asked
        system.log(at)
        self._machine.note('restarted', system=system.name, depth=depth.name.lower())
        self._install(system, at)
        self._values.apply_restart(system, depth)
        self._banks.apply_restart(system, depth)
        if depth >= Restart.COLD:
            for other in self._machine.systems.values():
                if other.powered_by == system.name:
                    self.finish_restart(other, depth, at)

    def cycle_mains(self) -> None:
        """Cycle the standby power of the whole machine. Systems that were off stay off, since BMCs restore the last state.

        Source: DSP8010 Resource, ResetType FullPowerCycle; for the manufacturers' action see ``hw/tray.py``.
        """
        for system in self._machine.systems.values():
            if system.powered_by is not None:
                continue
            if system.power is Power.OFF:
                self._machine.note('restarted', system=system.name, depth=Restart.MAINS.name.lower())
                self._banks.apply_restart(system, Restart.MAINS)
                continue
            self._note_cut(system.name, 'FullPowerCycle')
            system.power = Power.POWERING_OFF
            system.booting = False
            system.asked = Start(cause=Cause.MAINS)
            self._machine.schedule(self._machine.reset_seconds / 2, 'cycle', system.name, str(int(Restart.MAINS)))
        for name in self._machine.bmcs:
            self.reset_bmc(name)

    def reset_bmc(self, name: str, seconds: float | None = None) -> None:
        """Carry out Manager.Reset: the BMC is silent, and returns without its sessions and tasks, which were in memory.

        :param seconds: how long the BMC is silent; ``bmc_reset_seconds`` when None.
        """
        bmc = self._machine.bmcs[name]
        silent = self._machine.bmc_reset_seconds if seconds is None else seconds
        bmc.down_until = self._machine.now() + silent
        for task in bmc.tasks.values():
            # An image that still arrives for the task finds it closed.
            task.state = EmulatedTaskState.EXCEPTION
        bmc.tasks.clear()
        bmc.reserved.clear()
        bmc.life += 1
        self._values.lose_locks_of_bmc(name)
        self._machine.schedule(silent, 'bmc_up', name)
        self._machine.note('bmc-restarted', bmc=name)
        self._machine.revision += 1
        for listener in self._machine.on_bmc_down:
            listener(name)

    def _finish_bmc_reset(self, event: MachineEvent) -> None:
        bmc = self._machine.bmcs[event.subject]
        if bmc.down_until is not None and bmc.down_until <= event.due:
            bmc.down_until = None
            bmc.last_reset = event.due
            self._values.apply_bmc_restart(bmc.name)
            self._banks.apply_bmc_restart(bmc.name)

    def is_bmc_down(self, name: str) -> bool:
        """Whether the BMC is silent at the moment."""
        return self._machine.bmcs[name].down_until is not None


class UpdateEndings:
    """How the write of a task ends: completed, failed, or as a fault decides."""

    def __init__(
        self,
        machine: MachineState,
        values: SettingValues,
        banks: FirmwareBanks,
        tasks: UpdateTasks,
        writes: ComponentWrites,
        power: PowerControl,
    ) -> None:
        self._machine = machine
        self._values = values
        self._banks = banks
        self._tasks = tasks
        self._writes = writes
        self._power = power
        machine.handlers |= {'fate': self._apply_fate, 'other_ended': self._end_other_job, 'written': self._finish}

    def _apply_fate(self, event: MachineEvent) -> None:
        task = self._tasks.find(event.subject)
        if task is None or task.fate is None or not task.is_open:
            return
        match task.fate['name']:
            case 'task-fails':
                if task.fate['completes']:
                    self._writes.write_all(task)
                self._tasks.fail(task, 'device-refused', str(task.fate['message']), event.due)
            case 'task-id-reused':
                self._reuse_id(task, event.due)
            case 'power-lost':
                self._lose_power(task, event.due)
            case 'task-vanishes':
                task.gone = True
                if not task.fate['completes']:
                    # The task is removed and releases its targets.
                    self._machine.bmcs[task.bmc].tasks.pop(task.id)
            case 'service-restarts':
                self._forget_tasks(task.bmc)
                if not task.fate['completes']:
                    self._machine.bmcs[task.bmc].tasks.pop(task.id)
            case 'task-stuck':
                task.frozen_percent = int(task.fate['at_percent'])
            case 'bmc-restart':
                if task.fate['completes']:
                    self._writes.write_all(task)
                self._power.reset_bmc(task.bmc, task.fate.get('seconds'))

    def _forget_tasks(self, name: str) -> None:
        """Restart the Redfish service alone: it forgets its tasks, while the writes go on."""
        tasks = self._machine.bmcs[name].tasks
        for task in [one for one in tasks.values() if not one.is_open]:
            tasks.pop(task.id)
        for task in tasks.values():
            task.gone = task.forgotten = True
        self._machine.note('service-restarted', bmc=name)

    def _reuse_id(self, task: Task, at: float) -> None:
        """Give the id of a task to another job."""
        if task.fate is not None and task.fate['completes']:
            self._writes.write_all(task)
        self._machine.bmcs[task.bmc].tasks[task.id] = Task(
            id=task.id,
            bmc=task.bmc,
            name='Collection of diagnostic data',
            targets=(),
            created=at,
            state=EmulatedTaskState.RUNNING,
            starts=at,
            ends=at + self._machine.flash_seconds,
        )
        self._machine.schedule(
            self._machine.flash_seconds, 'other_ended', f'{task.bmc}/{task.id}/{self._machine.bmcs[task.bmc].life}'
        )

    def _end_other_job(self, event: MachineEvent) -> None:
        task = self._tasks.find(event.subject)
        if task is not None:
            task.state = EmulatedTaskState.COMPLETED
            task.ended = event.due

    def _lose_power(self, task: Task, at: float) -> None:
        """Turn the power of the systems off in the middle of a write."""
        for key in unwritten_parts(task):
            component = self._machine.components[key]
            system = self._machine.systems[component.system]
            system.power, system.booting = Power.OFF, False
            if task.fate is not None and task.fate['leaves'] is not None:
                self._banks.activate(component, Bank(version=str(task.fate['leaves']), writer='bmc'))
        self._tasks.fail(task, 'device-refused', 'The power of the device failed.', at)

    def _finish(self, event: MachineEvent) -> None:
        task = self._tasks.find(event.subject)
        if task is None or not task.is_open or not task.writes:
            return
        fate = task.fate if task.fate is not None and task.fate['name'].startswith('task-completed-') else None
        if task.package is not None:
            self._finish_package_task(task, event.due, writes=really_writes(task))
            return
        if fate is None or fate.get('completes'):
            # A lock that was closed during the transfer is in force now, and blocks the write.
            for key in task.targets:
                protect = self._machine.components[key].write_protect
                if protect is not None and self._values.is_closed(protect):
                    self._tasks.fail(task, 'write-protected', f'{key} is write protected', event.due)
                    return
            self._writes.write_all(task)
        if task.fate is not None and task.fate['name'] == 'task-stuck':
            return
        task.state = EmulatedTaskState.COMPLETED
        task.ended = event.due
        self._power_on_after(task)
        if fate is not None and fate['name'] == 'task-completed-critical':
            task.status = str(fate['status'])
            arguments = [', '.join(task.targets)]
            task.messages.append(message(str(fate['message']), severity='Critical', reason='refused', arguments=arguments))
            return
        text = f'{written_version(task)} was written to {", ".join(task.targets)}.'
        task.messages.append(message(text, reason='completed'))
        if any(self._machine.components[key].staged is not None for key in task.targets):
            task.messages.append(
                message('A restart of the system brings it into force.', severity='OK', reason='reset-required')
            )
        if task.gone:
            self._machine.bmcs[task.bmc].tasks.pop(task.id)

    def _finish_package_task(self, task: Task, at: float, *, writes: bool) -> None:
        fate = task.fate['name'] if task.fate is not None else ''
        if fate == 'task-stuck':
            self._writes.write_all(task)
            return
        self._writes.finish_package(task, at, writes=writes)
        self._power_on_after(task)
        if task.fate is not None and fate == 'task-completed-critical':
            task.state, task.status = EmulatedTaskState.COMPLETED, str(task.fate['status'])
            task.messages.append(message(str(task.fate['message']), severity='Critical', reason='refused'))
        if task.gone:
            self._machine.bmcs[task.bmc].tasks.pop(task.id)

    def _power_on_after(self, task: Task) -> None:
        """Power on the updated systems where the fault ``powered-on-by-update`` applies."""
        if self._tasks.find_fault('powered-on-by-update', task) is None:
            return
        systems = {self._machine.components[key].system for key in task.targets}
        for name in sorted(name for name in systems if self._machine.systems[name].power is not Power.ON):
            with contextlib.suppress(WriteRefused):
                self._power.reset_system(name, 'On', cause=Cause.OEM)


def describe_truth(machine: MachineState, values: SettingValues) -> dict[str, Any]:
    """The true state for test assertions, whatever the BMCs report."""
    return {
        'product': machine.product,
        'time': machine.clock.now(),
        'systems': {
            name: {'power': system.power.value, 'resets': system.resets, 'booting': system.booting}
            for name, system in machine.systems.items()
        },
        'components': {
            key: {
                'uri': component.uri,
                'bmc': component.bmc,
                'device': component.device,
                'kind': component.kind.value,
                'model': component.model,
                'component': component.component,
                'active': asdict(component.active) if component.active else None,
                'staged': asdict(component.staged) if component.staged else None,
                'previous': asdict(component.previous) if component.previous else None,
            }
            | ({'held': asdict(component.held)} if component.held else {})
            for key, component in machine.components.items()
        },
        'locks': {
            key: {
                'uri': setting.uri,
                'bmc': setting.bmc,
                'device': setting.device,
                'configured': setting.value,
                'in_force': setting.in_force,
                'locked': setting.locked,
                'closed': values.is_closed(key),
            }
            for key, setting in machine.settings.items()
            if setting.is_lock
        },
        'ways': [
            {
                'device': way.device,
                'component': way.component,
                'slot': way.slot,
                'path': way.path,
                'target': way.target,
                **({'host': way.host} if len(tenant_hosts(machine)) > 1 else {}),
                'open': not any(values.is_closed(key) for key in way.locks),
            }
            for way in machine.ways
        ],
        'bmcs': {
            name: {
                'up': bmc.down_until is None,
                'uploads': sorted(bmc.reserved),
                'tasks': {
                    str(task.id): {
                        'state': task.state.value,
                        'percent': percent_at(task, machine.clock.now()),
                        'targets': list(task.targets),
                    }
                    for task in bmc.tasks.values()
                },
            }
            for name, bmc in machine.bmcs.items()
        },
        'fetches': list(machine.fetches),
        'cut_writes': list(machine.cut_writes),
        'history': list(machine.history),
        **{what: {name: tell() for name, tell in tellers.items()} for what, tellers in machine.also.items()},
    }


def dump_machine(machine: MachineState) -> dict[str, Any]:
    """The state as JSON. Image bytes are left out; their digests and versions are included. Times are relative to now."""
    now = machine.clock.now()

    def task_document(task: Task) -> dict[str, Any]:
        document = asdict(task)
        for key in ('created', 'starts', 'ends', 'ended'):
            document[key] = None if document[key] is None else document[key] - now
        return document

    return {
        'format': 1,
        'product': machine.product,
        'components': {
            key: {
                bank: asdict(held) if (held := getattr(component, bank)) is not None else None
                for bank in ('active', 'staged', 'previous', 'sent', 'held')
            }
            for key, component in machine.components.items()
        },
        'settings': {key: [setting.value, setting.in_force] for key, setting in machine.settings.items()},
        'systems': {
            name: {
                'power': system.power.value,
                'booting': system.booting,
                'last_reset': system.last_reset - now,
                'resets': system.resets,
                'state_since': system.state_since - now,
                'on_since': None if system.on_since is None else system.on_since - now,
                'on_seconds': system.on_seconds,
                'starts': [[one.cause.value, one.channel] for one in (system.asked, system.start, system.power_on)],
                'logged': system.logged,
                'logged_at': system.logged_at - now,
            }
            for name, system in machine.systems.items()
        },
        'bmcs': {
            name: {
                'next_task': bmc.next_task,
                'life': bmc.life,
                'last_reset': bmc.last_reset - now,
                'down_for': None if bmc.down_until is None else bmc.down_until - now,
                'tasks': [task_document(task) for task in bmc.tasks.values()],
            }
            for name, bmc in machine.bmcs.items()
        },
        'events': [[event.due - now, event.kind, event.subject, event.detail] for event in sorted(machine.events)],
        'kept': machine.kept(),
    }


def load_machine(machine: MachineState, tasks: UpdateTasks, document: Mapping[str, Any]) -> None:
    """Restore the state that :func:`dump_machine` returned.

    A task whose image had not arrived completely has failed. Events of :meth:`MachineState.later` are dropped.

    :raises ValueError: the document is of another product or another format.
    """
    if document.get('format') != 1 or document.get('product') != machine.product:
        raise ValueError(
            f'the stored state is of {document.get("product")!r} (format {document.get("format")!r}), '
            f'this machine is {machine.product!r} (format 1)'
        )
    now = machine.clock.now()

    def bank(stored: Mapping[str, Any] | None) -> Bank | None:
        return None if stored is None else Bank(**stored)

    for key, banks in document['components'].items():
        if (component := machine.components.get(key)) is not None:
            for name in ('active', 'staged', 'previous', 'sent', 'held'):
                setattr(component, name, bank(banks.get(name)))
    for key, (value, in_force) in document['settings'].items():
        if (setting := machine.settings.get(key)) is not None:
            setting.value, setting.in_force = value, in_force
    for name, stored in document['systems'].items():
        if (system := machine.systems.get(name)) is not None:
            system.power = Power(stored['power'])
            system.booting = stored['booting']
            system.last_reset = now + stored['last_reset']
            system.resets = stored['resets']
            if 'state_since' in stored:  # absent in states that were stored by older versions
                system.state_since = now + stored['state_since']
                system.on_since = None if stored['on_since'] is None else now + stored['on_since']
                system.on_seconds = stored['on_seconds']
                starts = [Start(cause=Cause(cause), channel=channel) for cause, channel in stored['starts']]
                system.asked, system.start, system.power_on = starts
                system.logged, system.logged_at = stored['logged'], now + stored['logged_at']
            elif system.power is Power.OFF:
                system.on_since = None
    for name, stored in document['bmcs'].items():
        if (bmc := machine.bmcs.get(name)) is not None:
            bmc.next_task = stored['next_task']
            bmc.life = stored['life']
            bmc.last_reset = now + stored['last_reset']
            bmc.down_until = None if stored['down_for'] is None else now + stored['down_for']
            bmc.tasks = {}
            for item in stored['tasks']:
                task = stored_task(item, now)
                if all(target in machine.components for target in task.targets):
                    bmc.tasks[task.id] = task
    machine.events = []
    for due, kind, subject, detail in document['events']:
        if kind != _ELSEWHERE:
            machine.schedule(due, kind, subject, detail)
    machine.unclaimed = dict(document.get('kept', {}))
    for name, keeper in machine.keepers.items():
        if name in machine.unclaimed:
            keeper.load(machine.unclaimed.pop(name))
    for bmc in machine.bmcs.values():
        for task in bmc.tasks.values():
            if task.state is EmulatedTaskState.NEW:
                tasks.fail(task, 'interrupted', 'The BMC restarted before the image was there.', now)
    machine.revision += 1


def stored_task(stored: Mapping[str, Any], now: float) -> Task:
    fields = dict(stored)
    for key in ('created', 'starts', 'ends', 'ended'):
        fields[key] = None if fields[key] is None else now + fields[key]
    fields['state'] = EmulatedTaskState(fields['state'])
    fields['targets'] = tuple(fields['targets'])
    # A state that was stored before packages were supported has one image for all targets.
    alone = fields.pop('image', None)
    fields.pop('bank', None)
    whole = [{'key': key, 'image': alone, 'version': alone['version']} for key in fields['targets']] if alone else []
    fields['writes'] = [stored_write(one) for one in fields.get('writes', whole)]
    return Task(**fields)


def stored_write(stored: Mapping[str, Any]) -> ComponentWrite:
    image, result = stored['image'], stored.get('result')
    image = None if image is None else EmulatedImage(**{**image, 'kind': ImageFormat(image['kind'])})
    return ComponentWrite(**{**stored, 'image': image, 'result': None if result is None else WriteResult(result)})


class Machine(MachineState):
    """One emulated machine: its state, and what clients, hosts and time do to it.

    Parameters and attributes are those of :class:`MachineState`. Each subject has a part of its own, which does the work.
    """

    def __init__(self, *, product: str, clock: EmulatedClock | None = None, **seconds: float) -> None:
        super().__init__(product=product, clock=clock, **seconds)
        self.values = SettingValues(self)
        self.banks = FirmwareBanks(self, self.values)
        self.host_writes = HostWrites(self, self.values, self.banks)
        self.tasks = UpdateTasks(self)
        self.writes = ComponentWrites(self, self.values, self.banks, self.tasks)
        self.uploads = UpdateUploads(self, self.banks, self.tasks, self.writes)
        self.power = PowerControl(self, self.values, self.banks, self.uploads.install)
        self.endings = UpdateEndings(self, self.values, self.banks, self.tasks, self.writes, self.power)

    def add_fault(self, document: Mapping[str, Any], *, lasting: bool = False) -> Fault:
        """Add a fault rule; see :meth:`~baremetal_acc.emulator.fault.Faults.add`.

        :raises BadFault: the rule is not valid, or selects a device or BMC that the machine does not have.
        """
        devices = {c.device for c in self.components.values()} | {s.device for s in self.settings.values() if s.device}
        known = {'device': devices - {''}, 'bmc': set(self.bmcs)}
        for selector, names in known.items():
            wanted = document.get(selector, '*')
            if isinstance(wanted, str) and wanted != '*' and not any(fnmatchcase(name, wanted) for name in names):
                raise BadFault(f'no {selector} is called {wanted!r}; there are {", ".join(sorted(names))}')
        return self.faults.add(document, lasting=lasting)

    def add_component(self, component: EmulatedComponent) -> EmulatedComponent:
        """Add a component."""
        self.components[component.key] = component
        return component

    def add_setting(
        self,
        key: str,
        value: Value,
        *,
        bmc: str,
        uri: str,
        device: str | None = None,
        locked: Value = None,
        is_lock: bool = False,
        open: Value = None,  # noqa: A002
        takes_force: Restart | None = None,
        system: str = 'host',
        once: tuple[Value, Value] | None = None,
        with_bmc: bool = False,
    ) -> EmulatedSetting:
        """Add a setting, configured and in force with the same value."""
        setting = EmulatedSetting(
            key=key,
            bmc=bmc,
            uri=uri,
            device=device,
            value=value,
            in_force=value,
            locked=locked,
            is_lock=is_lock,
            open=open,
            takes_force=takes_force,
            system=system,
            once=once,
            with_bmc=with_bmc,
        )
        self.settings[key] = setting
        return setting

    def add_lock(self, key: str, value: Value, *, locked: Value, open: Value, **place: Any) -> EmulatedSetting:  # noqa: A002
        """Add a lock: a setting with a locked and an open value."""
        return self.add_setting(key, value, locked=locked, open=open, is_lock=True, **place)

    def configure(self, key: str, value: Value) -> None:
        """Write a setting, as the BMC does for a client."""
        self.values.configure(key, value)

    def lockdown(self, bmc: str) -> EmulatedSetting | None:
        """The lockdown in force on a BMC; None: the BMC changes settings and takes updates."""
        return self.values.lockdown(bmc)

    def shown(self, key: str) -> Value:
        """The configured value as the BMC shows it."""
        return self.values.shown(key)

    def shown_in_force(self, key: str) -> Value:
        """The value in force as the BMC shows it."""
        return self.values.shown_in_force(key)

    def is_pending(self, key: str) -> bool:
        """Whether a configured value still waits for a restart."""
        return self.values.is_pending(key)

    def is_closed(self, key: str) -> bool:
        """Whether a lock really holds: the value in force is the locked one, and no fault makes the BMC invent it."""
        return self.values.is_closed(key)

    def shown_version(self, key: str, *, by_item: bool = False) -> str:
        """The version that the BMC shows; empty when the component holds nothing."""
        return self.banks.shown_version(key, by_item=by_item)

    def lateness(self, component: EmulatedComponent) -> Fault | None:
        """The fault rule by which the inventory item does not yet show the last write; None: the item shows it."""
        return self.banks.lateness(component)

    def copy_seconds(self, device: str) -> float:
        """For how many more seconds the root of trust of a card copies the written image in the background; 0: none."""
        return self.banks.copy_seconds(device)

    def reset_system(
        self, name: str, reset_type: str, *, cause: Cause = Cause.POWER_BUTTON, channel: int | None = None
    ) -> None:
        """Carry out ComputerSystem.Reset. A reset to the present state is no error and changes nothing, as on OpenBMC."""
        self.power.reset_system(name, reset_type, cause=cause, channel=channel)

    def cycle_mains(self) -> None:
        """Cycle the standby power of the whole machine. Systems that were off stay off, since BMCs restore the last state."""
        self.power.cycle_mains()

    def reset_bmc(self, name: str, seconds: float | None = None) -> None:
        """Carry out Manager.Reset: the BMC is silent, and returns without its sessions and tasks, which were in memory."""
        self.power.reset_bmc(name, seconds)

    def is_bmc_down(self, name: str) -> bool:
        """Whether the BMC is silent at the moment."""
        return self.power.is_bmc_down(name)

    def busy(self, bmc_name: str, targets: Iterable[str]) -> str | None:
        """Why no update of these components can begin now; None when it can."""
        return self.tasks.busy(bmc_name, targets)

    def written_beside(self, bmc_name: str, targets: Iterable[str]) -> tuple[str, ...]:
        """The components on the same cards as these that are being written, or reserved for a write."""
        return self.tasks.written_beside(bmc_name, targets)

    def begin_update(self, bmc_name: str, targets: Iterable[str], *, on_reset: bool = False, forced: bool = False) -> Task:
        """Create the task of an update of these components. The task waits for its image or package: :meth:`image_arrived`."""
        return self.tasks.begin(bmc_name, targets, on_reset=on_reset, forced=forced)

    def aim(self, task: Task, targets: Iterable[str]) -> None:
        """Set the targets of a task that was begun without targets, after its image showed which components it is for."""
        self.tasks.aim(task, targets)

    def image_arrived(self, task: Task, image: EmulatedImage | BadImage) -> None:
        """Check an image that has arrived completely, and begin to write it."""
        self.uploads.image_arrived(task, image)

    def package_arrived(self, task: Task, package: PackageMaker) -> None:
        """Let each device check its component of a package that has arrived, and begin to write the accepted components."""
        self.uploads.package_arrived(task, package)

    def refuse_package(self, task: Task, reason: str, text: str) -> None:
        """End the task without writing any part of the upload; the task reports why."""
        self.uploads.refuse_package(task, reason, text)

    def start_updates(self, bmc_name: str) -> list[Task]:
        """Carry out StartUpdate: write every image that waits for it. A completed task gets a new task for the write."""
        return self.uploads.start_updates(bmc_name)

    def update_failed(self, task: Task, reason: str, text: str) -> None:
        """Fail a task whose image never arrived: the URI could not be fetched, or the upload was cut."""
        self.uploads.update_failed(task, reason, text)

    def judge(self, key: str, image: EmulatedImage | None = None) -> None:
        """Check that the component can be written now, and with this image if one is given."""
        self.banks.judge(key, image)

    def hold(self, key: str, image: EmulatedImage, writer: str) -> None:
        """Keep a written image until :meth:`activate_held`."""
        self.banks.hold(key, image, writer)

    def drop_held(self, key: str) -> None:
        """Drop a written image that was not activated."""
        self.banks.drop_held(key)

    def activate_held(self, key: str, *, keeps_previous: bool = False) -> None:
        """Bring the held image in force, or stage it where a restart of the system activates it."""
        self.banks.activate_held(key, keeps_previous=keeps_previous)

    def back_up(self, key: str) -> None:
        """Copy the active bank to the backup for a rollback."""
        self.banks.back_up(key)

    def roll_back(self, key: str) -> None:
        """Swap the active bank and the backup."""
        self.banks.roll_back(key)

    def cancel(self, task: Task) -> None:
        """Cancel a running task, as a DELETE of the task or of its monitor does. What is not yet written stays unwritten."""
        self.tasks.cancel(task)

    def host_is_up(self, name: str = 'host') -> bool:
        """Whether code of a tenant can run on the host: it is on and not restarting."""
        return self.host_writes.host_is_up(name)

    def is_powered(self, device: str) -> bool:
        """Whether the system of a card is on."""
        return self.host_writes.is_powered(device)

    def write_from_host(
        self,
        device: str,
        image: EmulatedImage | BadImage,
        *,
        path: str,
        component: str | None = None,
        slot: int | None = None,
        host: str | None = None,
    ) -> EmulatedComponent:
        """Write an image in band, as a tenant who is root on the host. It is in force at once: root may also reset the card."""
        return self.host_writes.write_from_host(device, image, path=path, component=component, slot=slot, host=host)

    def percent(self, task: Task) -> int:
        """PercentComplete of a task now."""
        return percent_at(task, self.clock.now())

    @property
    def hosts(self) -> tuple[str, ...]:
        """The systems on which a tenant may be root: those that have an in-band path to a card."""
        return tenant_hosts(self)

    def truth(self) -> dict[str, Any]:
        """The true state for test assertions, whatever the BMCs report."""
        return describe_truth(self, self.values)

    def dump(self) -> dict[str, Any]:
        """The state as JSON; see :func:`dump_machine`."""
        return dump_machine(self)

    def load(self, document: Mapping[str, Any]) -> None:
        """Restore the state that :meth:`dump` returned; see :func:`load_machine`."""
        load_machine(self, self.tasks, document)
