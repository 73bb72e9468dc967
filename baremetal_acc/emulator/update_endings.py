# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The endings of update tasks of emulated BMCs: completed, failed, or as a fault decides."""

import contextlib

from baremetal_acc.emulator.component_writes import ComponentWrites, really_writes
from baremetal_acc.emulator.firmware_banks import FirmwareBanks
from baremetal_acc.emulator.machine_state import MachineEvent, MachineState
from baremetal_acc.emulator.parts import Bank, Cause, EmulatedTaskState, Power, Task, WriteRefused, message
from baremetal_acc.emulator.power_control import PowerControl
from baremetal_acc.emulator.setting_values import SettingValues
from baremetal_acc.emulator.update_tasks import UpdateTasks, unwritten_parts, written_version


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
                    self._tasks.fail(task, 'write-protected', f'{key} is write-protected', event.due)
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
