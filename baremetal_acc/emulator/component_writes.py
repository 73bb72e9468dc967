# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Write images into the components of an emulated machine; each component has a result of its own."""

from baremetal_acc.emulator.bundle import BundleObjection, objection
from baremetal_acc.emulator.firmware_banks import FirmwareBanks
from baremetal_acc.emulator.image import EmulatedImage
from baremetal_acc.emulator.machine_state import MachineEvent, MachineState
from baremetal_acc.emulator.parts import Bank, ComponentWrite, EmulatedTaskState, Task, WriteResult
from baremetal_acc.emulator.setting_values import SettingValues
from baremetal_acc.emulator.update_tasks import UpdateTasks


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
            text, action = 'The root of trust is busy', 'Wait until the root of trust has copied its image in the background.'
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
        text = f'The device stopped the update after {self._machine.components[failed[0].key].item} had failed'
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
