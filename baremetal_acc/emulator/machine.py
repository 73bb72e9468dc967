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

ROOT_OF_TRUST = 'erot'
"""The name of the root-of-trust component of a card, which guards the images of the other components."""

# bmcweb drops the oldest of its tasks when it holds more than a hundred.
MAX_TASKS = 100

_UPDATER = 'Firmware Update Service'
"""The sender of messages that are about no component."""

# Enough for the longest test; a test that needs more clears the history in between.
MAX_EVENTS = 10000

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


@dataclass(frozen=True, slots=True)
class Keeper:
    """State of another part that is stored together with the state of the machine, as JSON.

    ``load`` raises ValueError, KeyError, TypeError or AttributeError where the stored state is not valid.
    """

    dump: Callable[[], Any]
    load: Callable[[Any], None]


@dataclass(frozen=True, slots=True, order=True)
class _Event:
    due: float
    order: int
    kind: str
    subject: str
    detail: str = ''


class Machine:
    """The state of one emulated machine.

    :param flash_seconds: how long writing an image takes.
    :param reset_seconds: how long a system takes to change its power or to restart.
    :param bmc_reset_seconds: how long a BMC is silent after Manager.Reset.
    :ivar cut_writes: changes of power while a component was being written.
    :ivar on_bmc_down: called with the name of a BMC when it restarts.
    :ivar on_system_reset: called with the name of a system and the ResetType of a reset.
    :ivar elsewhere: functions for :meth:`later`, by name.
    :ivar also: further entries of :meth:`truth`, by key and name.
    :ivar keepers: state of other parts that is stored with the machine, by name.
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
        self._unclaimed: dict[str, Any] = {}
        self._events: list[_Event] = []
        self._happening: float | None = None
        self._order = itertools.count()

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

    # -- building the machine -----------------------------------------------------------------------------------------

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

    # -- events and the clock -----------------------------------------------------------------------------------------

    def _later(self, seconds: float, kind: str, subject: str, detail: str = '') -> None:
        heapq.heappush(self._events, _Event(self._now() + seconds, next(self._order), kind, subject, detail))

    def _now(self) -> float:
        """The present second: that of the event while an event is executed, else that of the clock."""
        return self.clock.now() if self._happening is None else self._happening

    def later(self, seconds: float, who: str, detail: str = '') -> None:
        """Call ``elsewhere[who]`` with ``detail`` after that many seconds, if the name is still registered then."""
        self._later(seconds, _ELSEWHERE, who, detail)

    def _happen_elsewhere(self, event: _Event) -> None:
        happen = self.elsewhere.get(event.subject)
        if happen is not None:
            happen(event.detail)

    def now(self) -> float:
        """The present second: that of the event while an event is executed, else that of the clock."""
        return self._now()

    def settle(self) -> None:
        """Execute all events that are due, in the order of time."""
        while self.faults.any('clock-jumps') and (rule := self.faults.find('clock-jumps', bmc='*')) is not None:
            rule.count = 0
            self.clock.jump(float(rule.parameters['seconds']))
        while self._events and self._events[0].due <= self.clock.now():
            event = heapq.heappop(self._events)
            self._happening = event.due
            try:
                getattr(self, f'_happen_{event.kind}')(event)
            finally:
                self._happening = None
            self.revision += 1

    def next_due(self) -> float | None:
        """Seconds until the next event; None: no event is queued."""
        return max(0.0, self._events[0].due - self.clock.now()) if self._events else None

    def note(self, what: str, **facts: Any) -> None:
        """Add an event to the history of the machine, which is true whatever a BMC reports."""
        self.history.append({'what': what, 'time': self._now(), **facts})

    def _note_part(self, what: str, key: str, **facts: Any) -> None:
        component = self.components[key]
        self.note(what, component=key, device=component.device, bmc=component.bmc, **facts)

    # -- settings and locks -------------------------------------------------------------------------------------------

    def _lock_fault(self, name: str, setting: EmulatedSetting, *, use: bool) -> Fault | None:
        return self.faults.find(name, bmc=setting.bmc, device=setting.device, uri=setting.uri, use=use)

    def _component_fault(self, name: str, component: EmulatedComponent, *, use: bool) -> Fault | None:
        return self.faults.find(name, bmc=component.bmc, device=component.device, uri=component.uri, use=use)

    def configure(self, key: str, value: Value) -> None:
        """Write a setting, as the BMC does for a client."""
        setting = self.settings[key]
        if setting.is_lock and self._lock_fault('lock-ignored', setting, use=True):
            return
        setting.value = value
        if setting.takes_force is None and not setting.with_bmc and not self._never_in_force(setting):
            setting.in_force = value
        self.revision += 1

    def _never_in_force(self, setting: EmulatedSetting) -> bool:
        """Whether a fault keeps the configured value of a lock from coming in force."""
        return setting.is_lock and self._lock_fault('lock-never-in-force', setting, use=True) is not None

    def lockdown(self, bmc: str) -> EmulatedSetting | None:
        """The lockdown in force on a BMC; None: the BMC changes settings and takes updates."""
        return next((self.settings[key] for key in self.bmcs[bmc].lockdowns if self.is_closed(key)), None)

    def shown(self, key: str) -> Value:
        """The configured value as the BMC shows it."""
        setting = self.settings[key]
        if setting.is_lock and self._is_invented(setting):
            return setting.locked
        if setting.takes_force is None and not setting.with_bmc:
            return setting.in_force
        return setting.value

    def shown_in_force(self, key: str) -> Value:
        """The value in force as the BMC shows it."""
        setting = self.settings[key]
        if setting.is_lock and self._is_invented(setting):
            return setting.locked
        return setting.in_force

    def _is_invented(self, setting: EmulatedSetting) -> bool:
        """Whether a fault makes the BMC show a lock as closed whatever its state is."""
        lies = ('lock-reports-locked', 'lock-unread')
        return any(self._lock_fault(name, setting, use=False) is not None for name in lies)

    def is_pending(self, key: str) -> bool:
        """Whether a configured value still waits for a restart."""
        return self.settings[key].value != self.settings[key].in_force

    def is_closed(self, key: str) -> bool:
        """Whether a lock really holds: the value in force is the locked one, and no fault makes the BMC invent it."""
        setting = self.settings[key]
        if self._is_invented(setting):
            return False
        return setting.is_lock and setting.in_force == setting.locked

    # -- shown versions -----------------------------------------------------------------------------------------------

    def shown_version(self, key: str, *, by_item: bool = False) -> str:
        """The version that the BMC shows; empty when the component holds nothing.

        :param by_item: the version in the SoftwareInventory item, not that in the card's own resources.
        """
        component = self.components[key]
        rule = self._component_fault('version-lies', component, use=False)
        if rule is not None and (by_item or not rule.parameters['item_only']):
            told = rule.parameters['version']
            if told is not None:
                return str(told)
            if component.sent is not None:
                return component.sent.version
        return component.active.version if component.active is not None else ''

    # -- late items and background copies -----------------------------------------------------------------------------

    def lateness(self, component: EmulatedComponent) -> Fault | None:
        """The fault rule by which the inventory item does not yet show the last write; None: the item shows it."""
        return self._recent('item-late', component)

    def copy_seconds(self, device: str) -> float:
        """For how many more seconds the root of trust of a card copies the written image in the background; 0: none."""
        parts = [one for one in self.components.values() if device and one.device == device]
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
        rule = self._component_fault(name, component, use=False)
        return rule if rule is not None and self._left(component, rule) > 0 else None

    def _left(self, component: EmulatedComponent, rule: Fault) -> float:
        changed = component.changed
        return 0.0 if changed is None else changed + float(rule.parameters['seconds']) - self.now()

    # -- power --------------------------------------------------------------------------------------------------------

    def reset_system(
        self, name: str, reset_type: str, *, cause: Cause = Cause.POWER_BUTTON, channel: int | None = None
    ) -> None:
        """Carry out ComputerSystem.Reset. A reset to the present state is no error and changes nothing, as on OpenBMC.

        :param cause: the cause of the reset; by default a person at the machine.
        :param channel: the IPMI channel through which the reset was requested.
        :raises Refused: a graceful restart of a system that is off, or the power is already changing.
        """
        system = self.systems[name]
        if system.power in (Power.POWERING_ON, Power.POWERING_OFF) or system.booting:
            raise WriteRefused('in-transition', f'{name} is changing its power already')
        is_on = system.power is Power.ON
        by_hand = Cause.RESET_BUTTON if is_on and cause is Cause.POWER_BUTTON else cause
        system.asked = Start(cause=by_hand, channel=channel)
        if is_on is not (reset_type in ('On', 'ForceOn')):
            self._note_cut(name, reset_type)
        match reset_type:
            case 'On':
                if not is_on:
                    self._power_on(system, Restart.COLD)
            case 'ForceOn':
                if not is_on:
                    self._power_on(system, Restart.COLD)
            case 'ForceOff' | 'GracefulShutdown':
                if is_on:
                    system.power = Power.POWERING_OFF
                    self._later(self.reset_seconds, 'off', name)
            case 'GracefulRestart':
                if not is_on:
                    raise WriteRefused('host-off', f'{name} is off')
                self._restart(system)
            case 'ForceRestart':
                if is_on:
                    self._restart(system)
                else:
                    self._power_on(system, Restart.COLD)
            case 'PowerCycle':
                if is_on:
                    system.power = Power.POWERING_OFF
                    self._later(self.reset_seconds / 2, 'cycle', name)
                else:
                    self._power_on(system, Restart.COLD)
            case _:
                raise WriteRefused('unknown-reset', f'{name} knows no reset {reset_type}')
        self.revision += 1
        for listener in self.on_system_reset:
            listener(name, reset_type)

    def _note_cut(self, name: str, reset_type: str) -> None:
        """Record a change of power while a component is being written: real cards do not survive every one."""
        tasks = [task for bmc in self.bmcs.values() for task in bmc.tasks.values()]
        writing = {
            key
            for task in tasks
            if task.state is EmulatedTaskState.RUNNING and task.frozen_percent is None
            for key in _unwritten(task)
        }
        for key in sorted(key for key in writing if self.components[key].system == name):
            self.cut_writes.append({'component': key, 'system': name, 'reset_type': reset_type})

    def _power_on(self, system: System, depth: Restart) -> None:
        system.power = Power.POWERING_ON
        system.state_since = system.on_since = self._now()
        self._later(self.reset_seconds, 'up', system.name, str(int(depth)))

    def _restart(self, system: System) -> None:
        system.booting = True
        system.state_since = self._now()
        self._later(self.reset_seconds, 'up', system.name, str(int(Restart.WARM)))

    def _happen_off(self, event: _Event) -> None:
        system = self.systems[event.subject]
        system.power = Power.OFF
        system.state_since = event.due
        system.on_seconds = system.on_for(event.due)
        system.on_since = None
        system.log(event.due)

    def _happen_cycle(self, event: _Event) -> None:
        system = self.systems[event.subject]
        system.power = Power.POWERING_ON
        system.state_since = event.due
        self._later(self.reset_seconds / 2, 'up', system.name, event.detail or str(int(Restart.COLD)))

    def _happen_up(self, event: _Event) -> None:
        self._restarted(self.systems[event.subject], Restart(int(event.detail)), event.due)

    def _restarted(self, system: System, depth: Restart, at: float) -> None:
        system.power = Power.ON
        system.booting = False
        system.last_reset = system.state_since = at
        system.resets += 1
        system.start = system.asked
        if depth >= Restart.COLD:
            system.power_on = system.asked
        system.log(at)
        self.note('restarted', system=system.name, depth=depth.name.lower())
        self._install(system, at)
        for setting in self.settings.values():
            if setting.system != system.name:
                continue
            if setting.takes_force is not None and depth >= setting.takes_force and not self._never_in_force(setting):
                setting.in_force = setting.value
            if setting.once is not None and setting.value == setting.once[0]:
                setting.value = setting.in_force = setting.once[1]
            if setting.is_lock and self._lock_fault('lock-lost-on-reset', setting, use=True):
                setting.value = setting.in_force = setting.open
        self._bring_in_force(system, depth)
        if depth >= Restart.COLD:
            for other in self.systems.values():
                if other.powered_by == system.name:
                    self._restarted(other, depth, at)

    def _bring_in_force(self, system: System, depth: Restart) -> None:
        """Activate the staged images that wait for this restart of a system, or drop or keep them where a fault says so."""
        for component in self.components.values():
            is_deep_enough = component.activates is None or depth >= component.activates
            if component.system != system.name or component.staged is None or not is_deep_enough:
                continue
            if self._activates_with_bmc(component):
                continue
            if self._component_fault('activation-lost', component, use=True) is not None:
                continue
            refused = self._component_fault('activation-refused', component, use=True)
            if refused is None:
                self._activate(component, component.staged)
            elif refused.parameters['leaves'] is None:
                component.staged = None
            else:
                self._activate(component, Bank(version=str(refused.parameters['leaves']), writer='bmc'))

    def _install(self, system: System, at: float) -> None:
        """Begin to write the images that waited for this restart."""
        for task in [task for bmc in self.bmcs.values() for task in bmc.tasks.values() if task.awaits_restart]:
            if any(self.components[key].system == system.name for key in task.targets):
                self._begin_writing(task, at)

    def cycle_mains(self) -> None:
        """Cycle the standby power of the whole machine. Systems that were off stay off, since BMCs restore the last state.

        Source: DSP8010 Resource, ResetType FullPowerCycle; for the manufacturers' action see ``hw/tray.py``.
        """
        for system in self.systems.values():
            if system.powered_by is not None:
                continue
            if system.power is Power.OFF:
                self.note('restarted', system=system.name, depth=Restart.MAINS.name.lower())
                self._bring_in_force(system, Restart.MAINS)
                continue
            self._note_cut(system.name, 'FullPowerCycle')
            system.power = Power.POWERING_OFF
            system.booting = False
            system.asked = Start(cause=Cause.MAINS)
            self._later(self.reset_seconds / 2, 'cycle', system.name, str(int(Restart.MAINS)))
        for name in self.bmcs:
            self.reset_bmc(name)

    def reset_bmc(self, name: str, seconds: float | None = None) -> None:
        """Carry out Manager.Reset: the BMC is silent, and returns without its sessions and tasks, which were in memory.

        :param seconds: how long the BMC is silent; ``bmc_reset_seconds`` when None.
        """
        bmc = self.bmcs[name]
        silent = self.bmc_reset_seconds if seconds is None else seconds
        bmc.down_until = self._now() + silent
        for task in bmc.tasks.values():
            # An image that still arrives for the task finds it closed.
            task.state = EmulatedTaskState.EXCEPTION
        bmc.tasks.clear()
        bmc.reserved.clear()
        bmc.life += 1
        for setting in self.settings.values():
            if setting.is_lock and setting.bmc == name and self._lock_fault('lock-lost-on-bmc-reset', setting, use=True):
                setting.value = setting.in_force = setting.open
        self._later(silent, 'bmc_up', name)
        self.note('bmc-restarted', bmc=name)
        self.revision += 1
        for listener in self.on_bmc_down:
            listener(name)

    def _happen_bmc_up(self, event: _Event) -> None:
        bmc = self.bmcs[event.subject]
        if bmc.down_until is not None and bmc.down_until <= event.due:
            bmc.down_until = None
            bmc.last_reset = event.due
            for setting in self.settings.values():
                if setting.with_bmc and setting.bmc == bmc.name and not self._never_in_force(setting):
                    setting.in_force = setting.value
            for component in self.components.values():
                if component.bmc == bmc.name and component.staged is not None and self._activates_with_bmc(component):
                    self._activate(component, component.staged)

    def _activates_with_bmc(self, component: EmulatedComponent) -> bool:
        return self._component_fault('activates-with-bmc', component, use=False) is not None

    def is_bmc_down(self, name: str) -> bool:
        """Whether the BMC is silent at the moment."""
        return self.bmcs[name].down_until is not None

    # -- updates by a BMC ---------------------------------------------------------------------------------------------

    def busy(self, bmc_name: str, targets: Iterable[str]) -> str | None:
        """Why no update of these components can begin now; None when it can."""
        bmc = self.bmcs[bmc_name]
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
        bmc = self.bmcs[bmc_name]
        devices = {self.components[key].device for key in targets} - {''}
        held = {key for task in bmc.tasks.values() if task.is_open for key in task.targets} | bmc.reserved
        return tuple(sorted(key for key in held if self.components[key].device in devices))

    def begin_update(self, bmc_name: str, targets: Iterable[str], *, on_reset: bool = False, forced: bool = False) -> Task:
        """Create the task of an update of these components. The task waits for its image or package: :meth:`image_arrived`.

        :param forced: equal and lower components of a package are written, too.
        :raises Refused: ``busy``.
        """
        keys = tuple(targets)
        why = self.busy(bmc_name, keys)
        if why is not None:
            raise WriteRefused('busy', why)
        bmc = self.bmcs[bmc_name]
        task = Task(
            id=bmc.next_task,
            bmc=bmc_name,
            name=self._name_of(keys),
            targets=keys,
            created=self.clock.now(),
            on_reset=on_reset,
            forced=forced,
        )
        bmc.next_task += 1
        bmc.tasks[task.id] = task
        closed = [identity for identity, known in bmc.tasks.items() if not known.is_open]
        for identity in closed[: max(0, len(bmc.tasks) - MAX_TASKS)]:
            del bmc.tasks[identity]
        self.revision += 1
        return task

    def _name_of(self, keys: Iterable[str]) -> str:
        items = ', '.join(self.components[key].uri.rsplit('/', 1)[-1] for key in keys)
        return f'Update of {items or "all that the image fits"}'

    def aim(self, task: Task, targets: Iterable[str]) -> None:
        """Set the targets of a task that was begun without targets, after its image showed which components it is for.

        :raises Refused: ``busy``: another task updates one of the targets.
        """
        keys = tuple(targets)
        bmc = self.bmcs[task.bmc]
        others = {key for one in bmc.tasks.values() if one.is_open and one is not task for key in one.targets}
        for key in keys:
            if key in others | bmc.reserved:
                raise WriteRefused('busy', f'{key} is being updated')
        task.targets = keys
        task.name = self._name_of(keys)
        self.revision += 1

    def image_arrived(self, task: Task, image: EmulatedImage | BadImage) -> None:
        """Check an image that has arrived completely, and begin to write it."""
        if not task.is_open:
            return
        now = self.clock.now()
        task.starts = now
        if isinstance(image, BadImage):
            self._fail(task, 'bad-image', str(image), now)
            return
        if not task.targets:
            self._fail(task, 'fits-nothing', f'A {image.component} image for {image.device} fits nothing here.', now)
            return
        self.note('upload', bmc=task.bmc, task=task.id, digest=image.digest, package=None)
        task.writes = [ComponentWrite.of(key, image) for key in task.targets]
        if not task.forced and all(self._skips_equal(write) for write in task.writes):
            for write in task.writes:
                self._object(task, write, EQUAL)
            task.state, task.ended = EmulatedTaskState.COMPLETED, now
            self.revision += 1
            return
        for key in task.targets:
            component = self.components[key]
            component.sent = Bank.of(image, 'bmc')
            if (why := self._obstacle(component, image)) is not None:
                self._fail(task, why.reason, str(why), now)
                return
        self._begin_or_wait(task, now)

    def _skips_equal(self, write: ComponentWrite) -> bool:
        component = self.components[write.key]
        is_equal = component.active is not None and component.active.version == write.version
        return is_equal and self._component_fault('equal-version-skipped', component, use=True) is not None

    def package_arrived(self, task: Task, package: PackageMaker) -> None:
        """Let each device check its component of a package that has arrived, and begin to write the accepted components."""
        if not task.is_open:
            return
        now = self.clock.now()
        task.starts, task.package = now, package.version
        self.note('upload', bmc=task.bmc, task=task.id, digest=package.digest, package=package.version)
        if (refused := self._task_fault('package-refused', task)) is not None:
            self.refuse_package(task, 'package-refused', str(refused.parameters['message']))
            return
        there = [self.components[key] for key in task.targets if not self.is_gone(self.components[key].device)]
        task.writes = assign(package, there, force=task.forced)
        if not task.writes:
            self.refuse_package(task, 'fits-nothing', 'No device that was to be updated is in the package')
            return
        task.targets = tuple(one.key for one in task.writes)
        task.name = self._name_of(task.targets)
        for one in task.writes:
            self._say(task, one, 'target')
            if one.image is not None:
                self.components[one.key].sent = Bank.of(one.image, 'bmc', stamp=one.stamp)
            if (against := self._against(one)) is not None:
                self._object(task, one, against)
        self._begin_or_wait(task, now)

    def refuse_package(self, task: Task, reason: str, text: str) -> None:
        """End the task without writing any part of the upload; the task reports why."""
        if not task.is_open:
            return
        now = self.clock.now()
        task.starts = now
        self.note('refused', bmc=task.bmc, task=task.id, reason=reason)
        task.messages.append(message(text, severity='Critical', reason='resource-error', arguments=[_UPDATER, text]))
        self._end_in_part(task, now)

    def _end_in_part(self, task: Task, at: float) -> None:
        """End a task of which a part has failed."""
        task.state, task.status, task.frozen_percent, task.ended = EmulatedTaskState.EXCEPTION, 'Warning', 100, at
        task.messages.append(message('A part of the update has failed.', severity='Critical', reason='aborted'))
        self.revision += 1

    def _against(self, write: ComponentWrite) -> BundleObjection | None:
        """Return why a device refuses a component image before or after the transfer; None: it takes the image."""
        component = self.components[write.key]
        if self.copy_seconds(component.device):
            text, action = 'The root of trust is busy', 'Wait until it has copied its image in the background.'
            return BundleObjection(result=WriteResult.FAILED, reason='copying', text=text, failure='transfer', action=action)
        if (closed := self._closed(component)) is not None:
            return BundleObjection(result=WriteResult.FAILED, reason=closed.reason, text=str(closed), failure='transfer')
        if (against := objection(write, component.active)) is not None:
            return against
        if write.image is not None and (why := self._obstacle(component, write.image)) is not None:
            return BundleObjection(result=WriteResult.FAILED, reason=why.reason, text=str(why), failure='verify')
        return None

    def _object(self, task: Task, write: ComponentWrite, against: BundleObjection) -> None:
        """Record that a component was skipped or has failed; the other components are not affected."""
        write.result = against.result
        is_skipped = against.result is WriteResult.SKIPPED
        self._note_part('skipped' if is_skipped else 'failed', write.key, task=task.id, reason=against.reason)
        if is_skipped:
            self._say(task, write, 'skipped', against.text, action=against.action)
            return
        if against.failure is not None:
            self._say(task, write, f'part-{against.failure}-failed', action=against.action)
        self._say(task, write, 'resource-error', against.text, action=against.action)

    def _say(self, task: Task, write: ComponentWrite, reason: str, about: str = '', *, action: str = '') -> None:
        """Add a message about one component to a task, with the component's version unless ``about`` is given."""
        arguments = [self.components[write.key].item, about or write.version]
        text = f'{arguments[0]}: {reason}, {arguments[1]}'
        task.messages.append(message(text, reason=reason, arguments=arguments, action=action))

    def _finish_part(self, task: Task, write: ComponentWrite, *, writes: bool) -> None:
        """Finish the write of one component, unless it already has a result.

        :param writes: the component is really written; else the task only reports it as written.
        """
        if write.result is not None or write.image is None or write.key in task.told:
            return
        against = self._aborted(task, write) or self._against_late(write)
        if against is not None:
            self._object(task, write, against)
            return
        task.told.append(write.key)
        self._say(task, write, 'verifying')
        self._say(task, write, 'applying')
        if writes:
            self._put(task, write, write.image)
        self._say(task, write, 'written')
        if self.components[write.key].staged is not None:
            self._say(task, write, 'awaits-activation', action=write.activated_by)

    def _happen_part(self, event: _Event) -> None:
        task = self._task_of(event.subject)
        if task is None or not task.is_open:
            return
        is_stuck = task.fate is not None and task.fate['name'] == 'task-stuck' and not task.fate['completes']
        if is_stuck and task.frozen_percent is not None:
            return
        for one in task.writes:
            if one.key == event.detail:
                self._finish_part(task, one, writes=_really_writes(task))

    def _finish_package(self, task: Task, at: float, *, writes: bool) -> None:
        """Finish the writes of all components that were sent, each on its own."""
        for one in task.writes:
            self._finish_part(task, one, writes=writes)
        if any(one.result is WriteResult.FAILED for one in task.writes):
            self._end_in_part(task, at)
            return
        task.state, task.ended = EmulatedTaskState.COMPLETED, at
        self.revision += 1

    def _aborted(self, task: Task, write: ComponentWrite) -> BundleObjection | None:
        """The objection of a device that takes no more components after one has failed, where its record says so.

        Source: DSP0267, table 4.
        """
        failed = [one for one in task.writes if one.endpoint == write.endpoint and one.result is WriteResult.FAILED]
        if write.continues or not failed:
            return None
        text = f'Its device gave up after {self.components[failed[0].key].item}'
        return BundleObjection(result=WriteResult.FAILED, reason='given-up', text=text, failure='transfer')

    def _against_late(self, write: ComponentWrite) -> BundleObjection | None:
        """Return what stops a write at its end: a lock that was closed meanwhile, or a device that fails."""
        component = self.components[write.key]
        if (closed := self._closed(component)) is not None:
            return BundleObjection(result=WriteResult.FAILED, reason=closed.reason, text=str(closed), failure='apply')
        rule = self._component_fault('component-fails', component, use=True)
        if rule is None:
            return None
        text, stage = str(rule.parameters['message']), str(rule.parameters['stage'])
        return BundleObjection(result=WriteResult.FAILED, reason='device-refused', text=text, failure=stage)

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
        self.revision += 1

    def _happen_checked(self, event: _Event) -> None:
        name, _, identity = event.subject.partition(' ')
        task = self.bmcs[name].tasks.get(int(identity))
        if task is not None and task.state is EmulatedTaskState.RUNNING:
            self._wait_for_start(task, event.due, ends=bool(event.detail))

    def start_updates(self, bmc_name: str) -> list[Task]:
        """Carry out StartUpdate: write every image that waits for it. A completed task gets a new task for the write.

        :raises Refused: ``busy``: one of the components is being written.
        """
        started = []
        for task in [one for one in self.bmcs[bmc_name].tasks.values() if one.waits_for_start]:
            going = task
            if task.state is EmulatedTaskState.COMPLETED:
                going = self.begin_update(bmc_name, task.targets, on_reset=task.on_reset, forced=task.forced)
                going.writes, going.package = task.writes, task.package
            task.waits_for_start = False
            self._begin_or_wait(going, self.clock.now(), started=True)
            started.append(going)
        return started

    def _begin_or_wait(self, task: Task, now: float, *, started: bool = False) -> None:
        """Begin to write, or wait for StartUpdate or for the next restart where a fault says so."""
        starts = None if started else self._task_fault('task-waits-for-start', task)
        if starts is not None:
            ends, checks = bool(starts.parameters['new_task']), float(starts.parameters['checks'])
            if checks:
                task.state = EmulatedTaskState.RUNNING
                self._later(checks, 'checked', f'{task.bmc} {task.id}', 'ends' if ends else '')
                self.revision += 1
            else:
                self._wait_for_start(task, now, ends=ends)
            return
        waits = self._task_fault('task-waits-for-restart', task)
        if waits is None:
            self._begin_writing(task, now)
            return
        task.state = EmulatedTaskState(str(waits.parameters['state']))
        task.is_installed_by_restart = True
        if waits.parameters['says']:
            task.messages.append(message(str(waits.parameters['message']), reason='restart-needed'))
        self.revision += 1

    def _begin_writing(self, task: Task, at: float) -> None:
        """Write the images of a task from that second on."""
        sent = [one for one in task.writes if one.result is None]
        task.state = EmulatedTaskState.RUNNING
        task.starts, task.ends = at, at + (self.flash_seconds if sent else 0)
        if task.package is None:
            text = f'Writing {_version(task)} to {", ".join(task.targets)}.'
            task.messages.append(message(text, reason='started'))
        for one in sent if task.package is not None else ():
            self._say(task, one, 'transferring')
        if not sent:
            self._finish_package(task, at, writes=False)
            return
        task.fate = self._fate(task)
        subject = f'{task.bmc}/{task.id}/{self.bmcs[task.bmc].life}'
        if task.fate is not None and 'at_percent' in task.fate:
            share = min(100, max(0, float(task.fate['at_percent']))) / 100
            self._later(self.flash_seconds * share, 'fate', subject)
        if task.fate is None or task.fate.get('completes') or task.fate['name'].startswith('task-completed-'):
            self._later(self.flash_seconds, 'written', subject)
        for number, one in enumerate(sent, start=1) if task.package is not None else ():
            # The components are written one after the other: a task that ends early leaves the package partly written.
            self._later(self.flash_seconds * number / len(sent), 'part', subject, one.key)
        self.revision += 1

    def update_failed(self, task: Task, reason: str, text: str) -> None:
        """Fail a task whose image never arrived: the URI could not be fetched, or the upload was cut."""
        if task.is_open:
            self._fail(task, reason, text, self.clock.now())

    def _closed(self, component: EmulatedComponent) -> WriteRefused | None:
        if not component.updateable:
            return WriteRefused('not-updateable', f'{component.key} cannot be updated')
        if component.write_protect is not None and self.is_closed(component.write_protect):
            return WriteRefused('write-protected', f'{component.key} is write protected')
        return None

    def _obstacle(self, component: EmulatedComponent, image: EmulatedImage) -> WriteRefused | None:
        if (closed := self._closed(component)) is not None:
            return closed
        try:
            self._check(component, image)
        except WriteRefused as why:
            return why
        return None

    def _check(self, component: EmulatedComponent, image: EmulatedImage) -> None:
        """Check an image as the card does, whoever sends it.

        :raises Refused: the image is not for this component, or a fault makes the card refuse it.
        """
        variant = self._component_fault('other-variant', component, use=False)
        asked = component if variant is None else replace(component, model=str(variant.parameters['takes']))
        asked.check(image)
        rule = self._component_fault('image-refused', component, use=False)
        if rule is None:
            return
        version, below = rule.parameters['version'], rule.parameters['below']
        if version in (None, image.version) and (below is None or image.security_version < below):
            self._component_fault('image-refused', component, use=True)
            raise WriteRefused('image-refused', str(rule.parameters['message']))

    def _fate(self, task: Task) -> dict[str, Any] | None:
        for name in FATES:
            for key in task.targets:
                component = self.components[key]
                rule = self._component_fault(name, component, use=True)
                if rule is not None:
                    return {'name': name, **rule.parameters}
        return None

    def _task_fault(self, name: str, task: Task) -> Fault | None:
        """The rule of that name that applies to one of the targets of a task; None: there is none."""
        found = (self._component_fault(name, self.components[key], use=True) for key in task.targets)
        return next((rule for rule in found if rule is not None), None)

    def _task_of(self, subject: str) -> Task | None:
        bmc_name, identity, life = subject.rsplit('/', 2)
        bmc = self.bmcs[bmc_name]
        return bmc.tasks.get(int(identity)) if bmc.life == int(life) else None

    def _happen_fate(self, event: _Event) -> None:
        task = self._task_of(event.subject)
        if task is None or task.fate is None or not task.is_open:
            return
        match task.fate['name']:
            case 'task-fails':
                if task.fate['completes']:
                    self._write(task)
                self._fail(task, 'device-refused', str(task.fate['message']), event.due)
            case 'task-id-reused':
                self._reuse(task, event.due)
            case 'power-lost':
                self._lose_power(task, event.due)
            case 'task-vanishes':
                task.gone = True
                if not task.fate['completes']:
                    # The task is removed and releases its targets.
                    self.bmcs[task.bmc].tasks.pop(task.id)
            case 'service-restarts':
                self._forget_tasks(task.bmc)
                if not task.fate['completes']:
                    self.bmcs[task.bmc].tasks.pop(task.id)
            case 'task-stuck':
                task.frozen_percent = int(task.fate['at_percent'])
            case 'bmc-restart':
                if task.fate['completes']:
                    self._write(task)
                self.reset_bmc(task.bmc, task.fate.get('seconds'))

    def _forget_tasks(self, name: str) -> None:
        """Restart the Redfish service alone: it forgets its tasks, while the writes go on."""
        tasks = self.bmcs[name].tasks
        for task in [one for one in tasks.values() if not one.is_open]:
            tasks.pop(task.id)
        for task in tasks.values():
            task.gone = task.forgotten = True
        self.note('service-restarted', bmc=name)

    def _reuse(self, task: Task, at: float) -> None:
        """Give the id of a task to another job."""
        if task.fate is not None and task.fate['completes']:
            self._write(task)
        self.bmcs[task.bmc].tasks[task.id] = Task(
            id=task.id,
            bmc=task.bmc,
            name='Collection of diagnostic data',
            targets=(),
            created=at,
            state=EmulatedTaskState.RUNNING,
            starts=at,
            ends=at + self.flash_seconds,
        )
        self._later(self.flash_seconds, 'other_ended', f'{task.bmc}/{task.id}/{self.bmcs[task.bmc].life}')

    def _happen_other_ended(self, event: _Event) -> None:
        task = self._task_of(event.subject)
        if task is not None:
            task.state = EmulatedTaskState.COMPLETED
            task.ended = event.due

    def _lose_power(self, task: Task, at: float) -> None:
        """Turn the power of the systems off in the middle of a write."""
        for key in _unwritten(task):
            component = self.components[key]
            system = self.systems[component.system]
            system.power, system.booting = Power.OFF, False
            if task.fate is not None and task.fate['leaves'] is not None:
                self._activate(component, Bank(version=str(task.fate['leaves']), writer='bmc'))
        self._fail(task, 'device-refused', 'The power of the device failed.', at)

    def _happen_written(self, event: _Event) -> None:
        task = self._task_of(event.subject)
        if task is None or not task.is_open or not task.writes:
            return
        fate = task.fate if task.fate is not None and task.fate['name'].startswith('task-completed-') else None
        if task.package is not None:
            self._package_written(task, event.due, writes=_really_writes(task))
            return
        if fate is None or fate.get('completes'):
            # A lock that was closed during the transfer is in force now, and blocks the write.
            for key in task.targets:
                protect = self.components[key].write_protect
                if protect is not None and self.is_closed(protect):
                    self._fail(task, 'write-protected', f'{key} is write protected', event.due)
                    return
            self._write(task)
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
        text = f'{_version(task)} was written to {", ".join(task.targets)}.'
        task.messages.append(message(text, reason='completed'))
        if any(self.components[key].staged is not None for key in task.targets):
            task.messages.append(
                message('A restart of the system brings it into force.', severity='OK', reason='reset-required')
            )
        if task.gone:
            self.bmcs[task.bmc].tasks.pop(task.id)

    def _package_written(self, task: Task, at: float, *, writes: bool) -> None:
        fate = task.fate['name'] if task.fate is not None else ''
        if fate == 'task-stuck':
            self._write(task)
            return
        self._finish_package(task, at, writes=writes)
        self._power_on_after(task)
        if task.fate is not None and fate == 'task-completed-critical':
            task.state, task.status = EmulatedTaskState.COMPLETED, str(task.fate['status'])
            task.messages.append(message(str(task.fate['message']), severity='Critical', reason='refused'))
        if task.gone:
            self.bmcs[task.bmc].tasks.pop(task.id)

    def _power_on_after(self, task: Task) -> None:
        """Power on the updated systems where the fault ``powered-on-by-update`` applies."""
        if self._task_fault('powered-on-by-update', task) is None:
            return
        systems = {self.components[key].system for key in task.targets}
        for name in sorted(name for name in systems if self.systems[name].power is not Power.ON):
            with contextlib.suppress(WriteRefused):
                self.reset_system(name, 'On', cause=Cause.OEM)

    def _write(self, task: Task) -> None:
        """Write the images of a task that have no result yet."""
        for one in task.writes:
            if one.result is None and one.image is not None:
                self._put(task, one, one.image)

    def _put(self, task: Task, write: ComponentWrite, image: EmulatedImage) -> None:
        """Write one image into its component."""
        component, bank = self.components[write.key], Bank.of(image, 'bmc', stamp=write.stamp)
        write.result = WriteResult.WRITTEN
        component.changed = self._now()
        self._note_part('written', write.key, task=task.id, version=bank.version, digest=bank.digest, writer=bank.writer)
        at_once = component.activates is None and not task.on_reset and not self._activates_with_bmc(component)
        if task.is_installed_by_restart or at_once:
            self._activate(component, bank)
        else:
            component.staged = bank
        self._open_by_update(component)

    def _open_by_update(self, component: EmulatedComponent) -> None:
        for setting in self.settings.values():
            is_its = setting.is_lock and setting.device == component.device and setting.bmc == component.bmc
            if is_its and self._lock_fault('lock-lost-on-update', setting, use=True):
                setting.value = setting.in_force = setting.open

    # -- updates by commands: a written image is held until a command activates it ------------------------------------

    def judge(self, key: str, image: EmulatedImage | None = None) -> None:
        """Check that the component can be written now, and with this image if one is given.

        :raises Refused: the component is not updateable or write protected, or the image is not for it.
        """
        component = self.components[key]
        if (why := self._closed(component)) is not None:
            raise why
        if image is not None:
            self._check(component, image)

    def hold(self, key: str, image: EmulatedImage, writer: str) -> None:
        """Keep a written image until :meth:`activate_held`."""
        component = self.components[key]
        component.held = component.sent = Bank.of(image, writer)
        self._note_part('written', key, task=None, version=image.version, digest=image.digest, writer=writer)
        self.revision += 1

    def drop_held(self, key: str) -> None:
        """Drop a written image that was not activated."""
        self.components[key].held = None
        self.revision += 1

    def activate_held(self, key: str, *, keeps_previous: bool = False) -> None:
        """Bring the held image in force, or stage it where a restart of the system activates it.

        :param keeps_previous: the backup was copied by an earlier command, and stays as it is.
        """
        component = self.components[key]
        bank, previous = component.held, component.previous
        if bank is None or self._component_fault('activation-lost', component, use=True) is not None:
            return
        component.held = None
        if component.activates is not None:
            component.staged = bank
        elif (refused := self._component_fault('activation-refused', component, use=True)) is None:
            self._activate(component, bank)
        elif refused.parameters['leaves'] is not None:
            self._activate(component, Bank(version=str(refused.parameters['leaves']), writer='bmc'))
        if keeps_previous:
            component.previous = previous
        self._open_by_update(component)
        self.revision += 1

    def back_up(self, key: str) -> None:
        """Copy the active bank to the backup for a rollback."""
        component = self.components[key]
        component.previous = component.active
        self.revision += 1

    def roll_back(self, key: str) -> None:
        """Swap the active bank and the backup.

        Where a restart of the system activates images, a staged image is dropped; if none is staged, the backup is staged.
        """
        component = self.components[key]
        if component.activates is not None:
            component.staged = component.previous if component.staged is None else None
            self.revision += 1
        elif component.previous is not None:
            component.active, component.previous = component.previous, component.active
            self.revision += 1

    def _activate(self, component: EmulatedComponent, bank: Bank) -> None:
        component.previous = component.active
        component.active = bank
        component.staged = None
        component.changed = self._now()
        self._note_part('activated', component.key, version=bank.version, digest=bank.digest)

    def cancel(self, task: Task) -> None:
        """Cancel a running task, as a DELETE of the task or of its monitor does. What is not yet written stays unwritten."""
        self._fail(task, 'cancelled', 'The task was cancelled.', self.now())
        task.state = EmulatedTaskState.CANCELLED

    def _fail(self, task: Task, reason: str, text: str, at: float) -> None:
        for key in _unwritten(task):
            self._note_part('failed', key, task=task.id, reason=reason)
        task.state = EmulatedTaskState.EXCEPTION
        task.frozen_percent = self._percent(task, at)
        task.ended = at
        arguments = [', '.join(task.targets)]
        task.messages.append(message(text, severity='Critical', reason=reason, arguments=arguments))
        self.revision += 1

    def percent(self, task: Task) -> int:
        """PercentComplete of a task now."""
        return self._percent(task, self.clock.now())

    def _percent(self, task: Task, at: float) -> int:
        if task.frozen_percent is not None:
            return task.frozen_percent
        if task.state is EmulatedTaskState.COMPLETED:
            return 100
        if task.starts is None or task.ends is None:
            return 0
        return max(0, min(99, int(100 * (at - task.starts) / max(task.ends - task.starts, 1e-9))))

    # -- in-band writes of the host -----------------------------------------------------------------------------------

    @property
    def hosts(self) -> tuple[str, ...]:
        """The systems on which a tenant may be root: those that have an in-band path to a card."""
        return tuple(dict.fromkeys(way.host for way in self.ways)) or ('host',)

    def host_is_up(self, name: str = 'host') -> bool:
        """Whether code of a tenant can run on the host: it is on and not restarting."""
        host = self.systems[name]
        return host.power is Power.ON and not host.booting

    def is_gone(self, device: str) -> bool:
        """Whether a fault has removed the card, on any BMC that shows it."""
        places = {(one.bmc, one.device) for one in self.components.values() if one.device == device}
        return any(self.faults.find('device-absent', bmc=bmc, device=name, use=False) for bmc, name in places)

    def is_powered(self, device: str) -> bool:
        """Whether the system of a card is on."""
        parts = [one for one in self.components.values() if device and one.device == device]
        return all(self.systems[one.system].power is Power.ON for one in parts)

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
        reaching = [way for way in self.ways if way.device == device and host in (None, way.host)]
        asked = {way.host for way in reaching} or ({*self.hosts} if host is None else {host})
        up = {name for name in asked if self.host_is_up(name)}
        if not up:
            raise WriteRefused('host-off', 'the host is off: nobody can be root on it')
        ways = [
            way
            for way in reaching
            if way.host in up and way.path == path and way.slot == slot and component in (None, way.component)
        ]
        if not ways or self.is_gone(device):
            place = f'slot {slot}' if slot is not None else component or 'firmware'
            raise WriteRefused('no-such-way', f'the host has no {path} way to {place} of {device}')
        way = ways[0]
        for key in way.locks:
            if self.is_closed(key):
                raise WriteRefused('locked', f'{key} blocks the {path} way to {device}')
        if isinstance(image, BadImage):
            raise WriteRefused('bad-image', str(image))
        target = self.components[way.target]
        self._check(target, image)
        self._note_part('written', target.key, task=None, version=image.version, digest=image.digest, writer='host')
        self._activate(target, Bank.of(image, 'host'))
        self.revision += 1
        return target

    # -- true state for tests -----------------------------------------------------------------------------------------

    def truth(self) -> dict[str, Any]:
        """The true state for test assertions, whatever the BMCs report."""
        return {
            'product': self.product,
            'time': self.clock.now(),
            'systems': {
                name: {'power': system.power.value, 'resets': system.resets, 'booting': system.booting}
                for name, system in self.systems.items()
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
                for key, component in self.components.items()
            },
            'locks': {
                key: {
                    'uri': setting.uri,
                    'bmc': setting.bmc,
                    'device': setting.device,
                    'configured': setting.value,
                    'in_force': setting.in_force,
                    'locked': setting.locked,
                    'closed': self.is_closed(key),
                }
                for key, setting in self.settings.items()
                if setting.is_lock
            },
            'ways': [
                {
                    'device': way.device,
                    'component': way.component,
                    'slot': way.slot,
                    'path': way.path,
                    'target': way.target,
                    **({'host': way.host} if len(self.hosts) > 1 else {}),
                    'open': not any(self.is_closed(key) for key in way.locks),
                }
                for way in self.ways
            ],
            'bmcs': {
                name: {
                    'up': not self.is_bmc_down(name),
                    'uploads': sorted(bmc.reserved),
                    'tasks': {
                        str(task.id): {
                            'state': task.state.value,
                            'percent': self.percent(task),
                            'targets': list(task.targets),
                        }
                        for task in bmc.tasks.values()
                    },
                }
                for name, bmc in self.bmcs.items()
            },
            'fetches': list(self.fetches),
            'cut_writes': list(self.cut_writes),
            'history': list(self.history),
            **{what: {name: tell() for name, tell in tellers.items()} for what, tellers in self.also.items()},
        }

    # -- stored state -------------------------------------------------------------------------------------------------

    def kept(self) -> dict[str, Any]:
        """The stored state of all keepers by name, and the loaded state of keepers that do not exist in this run."""
        return self._unclaimed | {name: keeper.dump() for name, keeper in self.keepers.items()}

    def dump(self) -> dict[str, Any]:
        """The state as JSON. Image bytes are left out; their digests and versions are included. Times are relative to now."""
        now = self.clock.now()

        def task_document(task: Task) -> dict[str, Any]:
            document = asdict(task)
            for key in ('created', 'starts', 'ends', 'ended'):
                document[key] = None if document[key] is None else document[key] - now
            return document

        return {
            'format': 1,
            'product': self.product,
            'components': {
                key: {
                    bank: asdict(held) if (held := getattr(component, bank)) is not None else None
                    for bank in ('active', 'staged', 'previous', 'sent', 'held')
                }
                for key, component in self.components.items()
            },
            'settings': {key: [setting.value, setting.in_force] for key, setting in self.settings.items()},
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
                for name, system in self.systems.items()
            },
            'bmcs': {
                name: {
                    'next_task': bmc.next_task,
                    'life': bmc.life,
                    'last_reset': bmc.last_reset - now,
                    'down_for': None if bmc.down_until is None else bmc.down_until - now,
                    'tasks': [task_document(task) for task in bmc.tasks.values()],
                }
                for name, bmc in self.bmcs.items()
            },
            'events': [[event.due - now, event.kind, event.subject, event.detail] for event in sorted(self._events)],
            'kept': self.kept(),
        }

    def load(self, document: Mapping[str, Any]) -> None:
        """Restore the state that :meth:`dump` returned.

        A task whose image had not arrived completely has failed. Events of :meth:`later` are dropped.

        :raises ValueError: the document is of another product or another format.
        """
        if document.get('format') != 1 or document.get('product') != self.product:
            raise ValueError(
                f'the stored state is of {document.get("product")!r} (format {document.get("format")!r}), '
                f'this machine is {self.product!r} (format 1)'
            )
        now = self.clock.now()

        def bank(stored: Mapping[str, Any] | None) -> Bank | None:
            return None if stored is None else Bank(**stored)

        for key, banks in document['components'].items():
            if (component := self.components.get(key)) is not None:
                for name in ('active', 'staged', 'previous', 'sent', 'held'):
                    setattr(component, name, bank(banks.get(name)))
        for key, (value, in_force) in document['settings'].items():
            if (setting := self.settings.get(key)) is not None:
                setting.value, setting.in_force = value, in_force
        for name, stored in document['systems'].items():
            if (system := self.systems.get(name)) is not None:
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
            if (bmc := self.bmcs.get(name)) is not None:
                bmc.next_task = stored['next_task']
                bmc.life = stored['life']
                bmc.last_reset = now + stored['last_reset']
                bmc.down_until = None if stored['down_for'] is None else now + stored['down_for']
                bmc.tasks = {}
                for item in stored['tasks']:
                    task = _task(item, now)
                    if all(target in self.components for target in task.targets):
                        bmc.tasks[task.id] = task
        self._events = []
        for due, kind, subject, detail in document['events']:
            if kind != _ELSEWHERE:
                self._later(due, kind, subject, detail)
        self._unclaimed = dict(document.get('kept', {}))
        for name, keeper in self.keepers.items():
            if name in self._unclaimed:
                keeper.load(self._unclaimed.pop(name))
        for bmc in self.bmcs.values():
            for task in bmc.tasks.values():
                if task.state is EmulatedTaskState.NEW:
                    self._fail(task, 'interrupted', 'The BMC restarted before the image was there.', now)
        self.revision += 1


def _task(stored: Mapping[str, Any], now: float) -> Task:
    fields = dict(stored)
    for key in ('created', 'starts', 'ends', 'ended'):
        fields[key] = None if fields[key] is None else now + fields[key]
    fields['state'] = EmulatedTaskState(fields['state'])
    fields['targets'] = tuple(fields['targets'])
    # A state that was stored before packages were supported has one image for all targets.
    alone = fields.pop('image', None)
    fields.pop('bank', None)
    whole = [{'key': key, 'image': alone, 'version': alone['version']} for key in fields['targets']] if alone else []
    fields['writes'] = [_stored_write(one) for one in fields.get('writes', whole)]
    return Task(**fields)


def _stored_write(stored: Mapping[str, Any]) -> ComponentWrite:
    image, result = stored['image'], stored.get('result')
    image = None if image is None else EmulatedImage(**{**image, 'kind': ImageFormat(image['kind'])})
    return ComponentWrite(**{**stored, 'image': image, 'result': None if result is None else WriteResult(result)})


def _really_writes(task: Task) -> bool:
    """Whether a task really writes what it reports as written; a fault may make it only report so."""
    only_said = task.fate is not None and task.fate['name'].startswith('task-completed-')
    return not only_said or (task.fate is not None and bool(task.fate.get('completes')))


def _unwritten(task: Task) -> list[str]:
    """The components that a task still has to write."""
    return [one.key for one in task.writes if one.result is None] if task.writes else list(task.targets)


def _version(task: Task) -> str:
    """The version of the package or image of a task, for messages."""
    return task.package or next((one.version for one in task.writes), '')
