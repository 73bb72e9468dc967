# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The power of the systems of an emulated machine, and restarts of its systems and BMCs."""

from collections.abc import Callable

from baremetal_acc.emulator.firmware_banks import FirmwareBanks
from baremetal_acc.emulator.machine_state import MachineEvent, MachineState
from baremetal_acc.emulator.parts import Cause, EmulatedTaskState, Power, Restart, Start, System, WriteRefused
from baremetal_acc.emulator.setting_values import SettingValues
from baremetal_acc.emulator.update_tasks import unwritten_parts


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
        :raises WriteRefused: a graceful restart of a system that is off, or the power is already changing.
        """
        system = self._machine.systems[name]
        if system.power in (Power.POWERING_ON, Power.POWERING_OFF) or system.booting:
            raise WriteRefused('in-transition', f'the power state of {name} is already changing')
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
                raise WriteRefused('unknown-reset', f'{name} does not support the reset type {reset_type}')
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
