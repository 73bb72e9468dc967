# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""TaskService, Tasks and task monitors of one emulated BMC: the progress and the messages of its updates."""

from collections.abc import Iterable, Mapping
from typing import Any

from baremetal_acc.emulator.fault import Fault
from baremetal_acc.emulator.parts import EmulatedTaskState, Task
from baremetal_acc.emulator.redfish.errors import PACKAGE_FORMS, RedfishError, registry_message
from baremetal_acc.emulator.redfish.resource import (
    ROOT,
    Body,
    Caller,
    Outcome,
    Resource,
    body_of,
    collection,
    ref,
    status,
)
from baremetal_acc.emulator.redfish.view import View

SERVICE = f'{ROOT}/TaskService'
# The Retry-After of a task monitor; OpenBMC sends 30, which would make every test wait.
RETRY_AFTER_SECONDS = 1

# reason of the machine -> message of the Update registry
_MESSAGES = {
    'started': 'InstallingOnComponent',
    'completed': 'UpdateSuccessful',
    'reset-required': 'AwaitToActivate',
    'restart-needed': 'AwaitToActivate',
    'start-needed': 'AwaitToUpdate',
    'checked': 'VerifyingAtComponent',
    'bad-image': 'VerificationFailed',
    'fits-nothing': 'VerificationFailed',
    'wrong-kind': 'VerificationFailed',
    'wrong-model': 'VerificationFailed',
    'image-refused': 'VerificationFailed',
    'wrong-component': 'VerificationFailed',
    'transfer-failed': 'TransferFailed',
    'interrupted': 'TransferFailed',
}


# Messages that report the result of a component.
_RESULTS = frozenset(
    {
        *('written', 'skipped', 'resource-error', 'aborted'),
        *('part-transfer-failed', 'part-verify-failed', 'part-apply-failed'),
    }
)


def add_tasks(view: View) -> None:
    """Add TaskService; tasks come and go with the updates."""
    view.tree.add(
        Resource(
            uri=SERVICE,
            type='#TaskService.v1_2_1.TaskService',
            render=lambda: {
                'Id': 'TaskService',
                'Name': 'Task Service',
                'Status': status(),
                'ServiceEnabled': True,
                'CompletedTaskOverWritePolicy': 'Oldest',
                'LifeCycleEventOnTaskStateChange': False,
                'DateTime': view.machine.clock.wall(),
                'Tasks': ref(f'{SERVICE}/Tasks'),
            },
            volatile=frozenset({'DateTime'}),
            privilege='ConfigureManager',
        ),
        collection(
            f'{SERVICE}/Tasks',
            'Task',
            lambda: [task_uri(view, task) for task in _visible(view)],
            privilege='ConfigureManager',
        ),
    )
    view.tree.add_source(lambda: _tasks(view))


def task_uri(view: View, task: Task) -> str:
    """The URI of the Task."""
    return f'{SERVICE}/Tasks/{view.task_prefix}{task.id}'


def monitor_uri(view: View, task: Task) -> str:
    """The URI of the task monitor, as OpenBMC names it; a monitor without a Task is under UpdateService."""
    base = SERVICE if with_monitor_alone(view) is None else f'{ROOT}/UpdateService'
    return f'{base}/{"TaskMonitors" if base == SERVICE else "Monitors"}/{view.task_prefix}{task.id}'


def without_tasks(view: View, *, use: bool = False) -> Fault | None:
    """The fault rule by which an update has neither Task nor monitor."""
    return view.machine.faults.find('no-task', bmc=view.name, use=use)


def with_monitor_alone(view: View, *, use: bool = False) -> Fault | None:
    """The fault rule by which an update has a monitor and no Task."""
    return view.machine.faults.find('task-monitor-only', bmc=view.name, use=use)


def _visible(view: View) -> list[Task]:
    """The tasks that TaskService shows."""
    is_told = without_tasks(view) is None and with_monitor_alone(view) is None
    return _known(view) if is_told else []


def _known(view: View) -> list[Task]:
    return [task for task in view.machine.bmcs[view.name].tasks.values() if not task.gone]


def _tasks(view: View) -> Iterable[Resource]:
    return [task_resource(view, task) for task in _visible(view)]


def monitored(view: View, uri: str) -> Task | None:
    """The task whose monitor is ``uri``."""
    for task in _monitored(view):
        if monitor_uri(view, task) == uri:
            return task
    return None


def _monitored(view: View) -> list[Task]:
    """The tasks that have a monitor."""
    alone = with_monitor_alone(view)
    if alone is None or without_tasks(view) is not None:
        return _visible(view)
    return [task for task in _known(view) if task.is_open or not alone.parameters['vanishes']]


def monitor_outcome(view: View, task: Task) -> Outcome:
    """The answer to a GET of the monitor of a task. Source: DSP0266, asynchronous operations.

    :raises RedfishError: the update has failed, and only the monitor can report it.
    """
    headers = {'Location': monitor_uri(view, task), 'Retry-After': str(RETRY_AFTER_SECONDS)} if task.is_open else {}
    if with_monitor_alone(view) is not None:
        if task.state in (EmulatedTaskState.EXCEPTION, EmulatedTaskState.CANCELLED):
            raise RedfishError(400, 'GeneralError', text=str(task.messages[-1]['text']))
        return Outcome(status=202 if task.is_open else 204, headers=headers)
    if view.machine.faults.find('monitor-empty', bmc=view.name) is not None:
        return Outcome(status=200)
    return Outcome(status=202 if task.is_open else 200, body=body_of(task_resource(view, task)), headers=headers)


def task_resource(view: View, task: Task) -> Resource:
    """The Task resource of a task."""
    machine = view.machine

    def render() -> Body:
        body: Body = {
            'Id': f'{view.task_prefix}{task.id}',
            'Name': task.name,
            'TaskState': task.state.value,
            'TaskStatus': task.status or ('Critical' if task.state is EmulatedTaskState.EXCEPTION else 'OK'),
            'StartTime': machine.clock.wall(task.created),
            'PercentComplete': machine.percent(task),
            'HidePayload': True,
            'Messages': [dressed for one in task.messages if (dressed := _dress(view, task, one)) is not None],
        }
        if task.is_open:
            body['TaskMonitor'] = monitor_uri(view, task)
        if task.ended is not None:
            body['EndTime'] = machine.clock.wall(task.ended)
        return body

    def delete(caller: Caller) -> Outcome:
        if not task.is_open:
            machine.bmcs[view.name].tasks.pop(task.id, None)
        elif machine.faults.find('task-not-cancelled', bmc=view.name) is not None:
            raise RedfishError(405, 'OperationNotAllowed', headers={'Allow': 'GET, HEAD'})
        else:
            machine.cancel(task)
        return Outcome()

    return Resource(
        uri=task_uri(view, task),
        type='#Task.v1_7_4.Task',
        render=render,
        delete=delete,
        privilege='ConfigureManager',
    )


def _dress(view: View, task: Task, one: Mapping[str, Any]) -> Body | None:
    """The Message object of a message of a task, as this BMC writes it; None: a fault leaves it out."""
    reason = str(one['reason'])
    if reason not in PACKAGE_FORMS:
        return registry_message('Update', _MESSAGES.get(reason, 'ApplyFailed'), _arguments(task, reason), text=str(one['text']))
    rule = view.machine.faults.find('task-messages', bmc=view.name, use=False)
    form = None if rule is None else rule.parameters['form']
    if form == 'none' or (form == 'results' and reason not in _RESULTS):
        return None
    forms = PACKAGE_FORMS if form == 'older' else {**PACKAGE_FORMS, **view.forms}
    component, about = [*one['arguments'], '', ''][:2]
    return forms[reason].dress(str(component), str(about), str(one.get('action', '')))


def _arguments(task: Task, reason: str) -> tuple[str, str]:
    image = next((one.version for one in task.writes), '(unknown)')
    target = ', '.join(task.targets)
    return (target, image) if reason == 'completed' else (image, target)
