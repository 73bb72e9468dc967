# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Images and packages that arrive at an emulated BMC: they are checked, then written at once or after a wait."""

from baremetal_acc.emulator.bundle import EQUAL, assign
from baremetal_acc.emulator.component_writes import ComponentWrites
from baremetal_acc.emulator.firmware_banks import FirmwareBanks
from baremetal_acc.emulator.image import BadImage, EmulatedImage
from baremetal_acc.emulator.machine_state import MachineEvent, MachineState
from baremetal_acc.emulator.parts import Bank, ComponentWrite, EmulatedTaskState, System, Task, message
from baremetal_acc.emulator.pldm import PackageMaker
from baremetal_acc.emulator.update_tasks import UpdateTasks, written_version

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
            self._tasks.fail(
                task,
                'fits-nothing',
                f'The image for component {image.component} of model {image.device} fits no component of this BMC.',
                now,
            )
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
            self.refuse_package(task, 'fits-nothing', 'The package has no image for the devices to be updated')
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

        :raises WriteRefused: ``busy``: one of the components is being written.
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
            task.messages.append(message('The image was checked, and waits for StartUpdate.', reason='checked'))
        else:
            task.state = EmulatedTaskState.PENDING
            task.messages.append(message('The update waits for StartUpdate.', reason='start-needed'))
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
