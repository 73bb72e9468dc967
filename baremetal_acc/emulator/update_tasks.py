# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The update tasks of emulated BMCs: which can begin, what they report, and how they fail or are cancelled."""

from collections.abc import Iterable
from typing import Any

from baremetal_acc.emulator.bundle import BundleObjection
from baremetal_acc.emulator.fault import Fault
from baremetal_acc.emulator.machine_state import MachineState
from baremetal_acc.emulator.parts import ComponentWrite, EmulatedTaskState, Task, WriteRefused, WriteResult, message

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
            return f'the BMC runs {len(running) + len(bmc.reserved)} of at most {bmc.parallel_updates} updates'
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
        :raises WriteRefused: ``busy``.
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

        :raises WriteRefused: ``busy``: another task updates one of the targets.
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
        return f'Update of {items or "all components that the image fits"}'

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
        task.messages.append(message('The update of a component has failed.', severity='Critical', reason='aborted'))
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
