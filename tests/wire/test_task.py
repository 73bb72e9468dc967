# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A task has ended only when the BMC says so."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests

from baremetal_acc.bmc.redfish.task import STATES, state
from baremetal_acc.errors import BmcAnswerInvalid, BmcNotAuthorised, BmcRefused, BmcUnreachable, BmcUnsupported
from baremetal_acc.model.inventory import TaskState
from baremetal_acc.model.ref import HOST, Ref

TASKS = '/redfish/v1/TaskService/Tasks'
TASK = Ref(bmc=HOST, uri=f'{TASKS}/1')
MONITOR = Ref(bmc=HOST, uri='/redfish/v1/TaskService/TaskMonitors/1')


def test_every_task_state_of_the_standard_is_decided(shared: Path) -> None:
    """The table is total over the schema's enumeration."""
    text = (shared / 'redfish-csdl' / 'Task_v1.xml').read_text()
    body = text[text.index('<EnumType Name="TaskState"') :]
    words = set(re.findall(r'<Member Name="(\w+)"', body[: body.index('</EnumType>')]))
    assert words == set(STATES)


@pytest.mark.parametrize(
    ('task_state', 'task_status', 'means'),
    [
        ('Running', 'OK', TaskState.ACTIVE),
        ('Running', 'Critical', TaskState.ACTIVE),
        ('Completed', 'OK', TaskState.SUCCEEDED),
        ('Completed', 'Warning', TaskState.SUCCEEDED),
        ('Completed', None, TaskState.SUCCEEDED),
        ('Completed', 'Critical', TaskState.FAILED),
        ('Completed', 'Strange', TaskState.FAILED),
        ('Exception', 'OK', TaskState.FAILED),
        ('Cancelled', 'OK', TaskState.FAILED),
        ('Killed', 'OK', TaskState.FAILED),
        ('Interrupted', 'OK', TaskState.ACTIVE),
        ('Frobnicating', 'OK', TaskState.ACTIVE),
        (None, 'OK', TaskState.ACTIVE),
    ],
)
def test_a_state_means(task_state: str | None, task_status: str | None, means: TaskState) -> None:
    """A real task ended Completed, 100 %, Critical: that is a failure. An unknown word is no end."""
    assert means == state(task_state, task_status)


def _task(bmc: Any, **body: Any) -> Any:
    bmc.put(TASK.uri, **body)
    with bmc.connect() as connection:
        return connection.task(TASK)


def test_a_task_is_read_with_its_progress_and_its_last_message(bmc: Any) -> None:
    """raw keeps the BMC's own words."""
    messages = [{'Message': 'first'}, {'Message': 'second\n\x00line'}, None]
    found = _task(bmc, TaskState='Running', TaskStatus='OK', PercentComplete=40, Messages=messages)
    assert (TaskState.ACTIVE, 'Running/OK', 40, 'second line') == (found.state, found.raw, found.percent, found.message)


def test_a_long_message_is_shortened(bmc: Any) -> None:
    """At most 300 characters."""
    found = _task(bmc, TaskState='Exception', Messages=[{'Message': 'x' * 5000}])
    assert 300 == len(found.message)


@pytest.mark.parametrize(
    ('body', 'is_unbegun'),
    [
        ({'TaskState': 'New'}, True),
        ({'TaskState': 'Starting', 'PercentComplete': 0}, True),
        ({'TaskState': 'Starting', 'PercentComplete': 1}, False),
        ({'TaskState': 'Running', 'PercentComplete': 0}, False),
        ({'JobState': 'New'}, True),
        ({'TaskState': 'Frobnicating'}, False),
    ],
)
def test_a_task_that_has_not_begun_says_so(bmc: Any, body: dict[str, Any], is_unbegun: bool) -> None:
    """By its state; one that has got anywhere has begun."""
    assert is_unbegun is _task(bmc, **body).unbegun


@pytest.mark.parametrize('word', ['Cancelled', 'Cancelling', 'Killed', 'Exception'])
def test_only_a_task_that_has_been_cancelled_was_cancelled(bmc: Any, word: str) -> None:
    """One that is being cancelled may still end otherwise, and what was killed may have been writing."""
    assert (word == 'Cancelled') is _task(bmc, TaskState=word).was_cancelled


UPDATED, SKIPPED = 'Update.1.0.UpdateSuccessful', 'NvidiaUpdate.1.0.ComponentUpdateSkipped'


@pytest.mark.parametrize(
    ('messages', 'written'),
    [
        ([{'MessageId': UPDATED, 'MessageArgs': ['GPU_0', 'image']}], ('GPU_0',)),
        (
            [{'MessageId': UPDATED, 'MessageArgs': ['/a/GPU_0/']}, {'MessageId': UPDATED, 'MessageArgs': ['B']}],
            ('/a/GPU_0', 'B'),
        ),
        ([{'MessageId': UPDATED, 'MessageArgs': ['A']}, {'MessageId': SKIPPED, 'MessageArgs': ['A', '1.0']}], ()),
        ([{'MessageId': 'Update.1.0.UpdateInProgress', 'MessageArgs': ['A']}], ()),
        ([7, {'MessageId': 7}, {'MessageId': UPDATED}, {'MessageId': UPDATED, 'MessageArgs': [7]}], ()),
        ({'MessageId': UPDATED, 'MessageArgs': ['A']}, ()),
        (None, ()),
    ],
)
def test_what_a_task_names_as_written_is_told(bmc: Any, messages: Any, written: tuple[str, ...]) -> None:
    """Of what it says that it has skipped nothing was written."""
    assert written == _task(bmc, TaskState='Completed', TaskStatus='OK', Messages=messages).written


DETERMINED, AWAITS = 'Update.1.0.TargetDetermined', 'Update.1.0.AwaitToActivate'


@pytest.mark.parametrize(
    ('ends', 'waits'),
    [
        ([], False),
        ([(AWAITS, ['2.0', 'GPU_0'])], False),
        ([('Update.1.0.TransferFailed', ['2.0', 'GPU_1']), (AWAITS, ['2.0', 'GPU_0'])], True),
        ([(AWAITS, ['2.0', '/a/GPU_1/']), (AWAITS, ['2.0', 'GPU_0'])], True),
        ([(SKIPPED, ['GPU_1', 'equal']), (AWAITS, ['2.0', 'GPU_0'])], True),
    ],
)
def test_a_task_that_has_components_before_it_waits_for_no_restart(bmc: Any, ends: Any, waits: bool) -> None:
    """What its last message says is of one that it has written. Once all have come to their end it waits."""
    told = [(DETERMINED, ['/a/GPU_0', '2.0']), (DETERMINED, ['GPU_1', '2.0']), *ends]
    messages = [7, {'MessageId': 7}, {'MessageId': DETERMINED}]
    messages += [{'MessageId': name, 'MessageArgs': arguments} for name, arguments in told]
    runs, pending = (_task(bmc, TaskState=word, Messages=messages) for word in ('Running', 'Pending'))
    assert (waits, True) == (runs.awaits_restart, runs.is_running)
    assert (True, False) == (pending.awaits_restart, pending.is_running)


def test_what_a_task_says_against_a_component_is_kept_for_it(bmc: Any) -> None:
    """By its Id or its URI, whichever argument it is; the last counts, and what has no severity is no complaint."""

    def message(text: str, *arguments: Any, **more: Any) -> Any:
        return {'MessageId': 'Update.1.0.ApplyFailed', 'Message': text, 'MessageArgs': list(arguments), **more}

    messages = [
        message('It began.', 'GPU_0', MessageSeverity='OK'),
        message('It was slow.', '1.0', 'GPU_0', Severity='Warning'),
        message('It broke.', '1.0', 'GPU_0', MessageSeverity='Critical'),
        message('This one too.', f'{TASK.uri}/', MessageSeverity='Critical'),
        message('x', 7, Severity='Critical'),
        {'MessageArgs': ['GPU_1'], 'Severity': 'Critical'},
        7,
    ]
    told = _task(bmc, TaskState='Exception', TaskStatus='Warning', Messages=messages)
    assert 'It broke.' == told.said_against(Ref(bmc=HOST, uri='/x'), 'GPU_0')
    assert 'This one too.' == told.said_against(TASK, 'other')
    assert told.said_against(Ref(bmc=HOST, uri='/x'), 'GPU_1') is None
    many = [message('no', f'GPU_{n}' * 100, Severity='Critical') for n in range(300)]
    told = _task(bmc, TaskState='Exception', TaskStatus='Warning', Messages=many)
    assert len(told.complaints) <= 256
    assert all(len(name) <= 200 for c in told.complaints for name in c.names)


@pytest.mark.parametrize('percent', [None, -1, 101, '40', True])
def test_a_percentage_that_is_none_is_none(bmc: Any, percent: Any) -> None:
    """Nothing is guessed from it."""
    assert _task(bmc, TaskState='Running', PercentComplete=percent).percent is None


@pytest.mark.parametrize('code', [404, 410])
def test_a_vanished_task_is_gone_and_no_success(bmc: Any, reply: Callable[..., Any], code: int) -> None:
    """Other clients take it for success."""
    bmc.replies['GET', TASK.uri] = reply(code)
    with bmc.connect() as connection:
        assert TaskState.GONE == connection.task(TASK).state


def test_a_task_that_cannot_be_asked_is_an_error(bmc: Any) -> None:
    """A BMC that restarts is not a task that is gone."""
    bmc.replies['GET', TASK.uri] = [requests.ConnectionError()] * 9
    with bmc.connect() as connection, pytest.raises(BmcUnreachable):
        connection.task(TASK)


def test_a_monitor_that_answers_202_is_active(bmc: Any, reply: Callable[..., Any]) -> None:
    """With or without the task in its body."""
    bmc.replies['GET', MONITOR.uri] = [
        reply(202, None, Retry_After='30'),
        reply(202, {'TaskState': 'Running', 'PercentComplete': 5}),
    ]
    with bmc.connect() as connection:
        assert [(TaskState.ACTIVE, None), (TaskState.ACTIVE, 5)] == [
            (t.state, t.percent) for t in map(connection.task, [MONITOR] * 2)
        ]
    assert [] == bmc.slept


@pytest.mark.parametrize('code', [200, 204])
def test_a_monitor_that_answers_with_the_result_has_ended(bmc: Any, reply: Callable[..., Any], code: int) -> None:
    """Whether the version changed is read back by whoever pushed."""
    bmc.replies['GET', MONITOR.uri] = reply(code, {'Message': 'done'} if code == 200 else None)
    with bmc.connect() as connection:
        assert TaskState.SUCCEEDED == connection.task(MONITOR).state


def test_a_monitor_that_answers_with_an_error_has_failed(bmc: Any, reply: Callable[..., Any]) -> None:
    """A client error is the operation's own result; with 500 it is just no answer."""
    info = {'error': {'@Message.ExtendedInfo': [{'Message': 'the image is for another device'}]}}
    bmc.replies['GET', MONITOR.uri] = reply(400, info)
    with bmc.connect() as connection:
        found = connection.task(MONITOR)
        assert (TaskState.FAILED, 'HTTP 400', True) == (found.state, found.raw, found.opaque)
        assert 'another device' in found.message
        bmc.replies['GET', MONITOR.uri] = reply(500)
        with pytest.raises(BmcRefused):
            connection.task(MONITOR)


@pytest.mark.parametrize(
    'uri', ['/redfish/v1/TaskMonit/0', '/redfish/v1/TaskService/Tasks/7', '/async/0af3', '/redfish/v1/Oem/Q']
)
@pytest.mark.parametrize(
    ('answer', 'means', 'percent'),
    [
        ((202, None), TaskState.ACTIVE, None),
        ((202, {'Name': 'Update', 'PercentComplete': 7}), TaskState.ACTIVE, None),
        ((202, {'TaskState': 'Running', 'PercentComplete': 7}), TaskState.ACTIVE, 7),
        ((200, {'TaskState': 'Running', 'PercentComplete': 7}), TaskState.ACTIVE, 7),
        ((200, {'@odata.type': '#Task.v1_4_2.Task', '@odata.id': '/x'}), TaskState.ACTIVE, None),
        ((200, {'JobState': 'Running', 'PercentComplete': 7}), TaskState.ACTIVE, 7),
        ((200, {'@odata.type': '#MakersJob.v1_1_0.MakersJob', 'JobState': 'Downloading'}), TaskState.ACTIVE, None),
        ((200, {'JobState': 'Completed', 'JobStatus': 'OK'}), TaskState.SUCCEEDED, None),
        ((200, {'JobState': 'Completed', 'JobStatus': 'Critical'}), TaskState.FAILED, None),
        ((200, {'JobState': 'CompletedWithErrors'}), TaskState.FAILED, None),
        ((200, {'JobState': 'Failed'}), TaskState.FAILED, None),
        ((200, {'error': {'@Message.ExtendedInfo': [{'MessageId': 'Base.1.8.Success'}]}}), TaskState.SUCCEEDED, None),
        (
            (200, {'error': {'@Message.ExtendedInfo': [{'MessageId': 'U.1.0.Bad', 'MessageSeverity': 'Critical'}]}}),
            TaskState.FAILED,
            None,
        ),
        ((200, None), TaskState.SUCCEEDED, None),
        ((204, None), TaskState.SUCCEEDED, None),
        ((400, None), TaskState.FAILED, None),
        ((404, None), TaskState.GONE, None),
        ((410, None), TaskState.GONE, None),
    ],
)
def test_a_task_is_recognised_by_what_it_answers(
    bmc: Any, reply: Callable[..., Any], uri: str, answer: tuple[int, Any], means: TaskState, percent: int | None
) -> None:
    """However its URI is spelled: DSP0266 leaves that to the service."""
    bmc.replies['GET', uri] = reply(*answer)
    with bmc.connect() as connection:
        found = connection.task(Ref(bmc=HOST, uri=uri))
    assert (means, percent) == (found.state, found.percent)


@pytest.mark.parametrize(
    ('body', 'awaits'),
    [
        ({'TaskState': 'Pending'}, True),
        ({'TaskState': 'Running', 'Messages': [{'MessageId': 'IDRAC.2.8.JCP001'}]}, True),
        ({'TaskState': 'Starting', 'Messages': [{'MessageId': 'Update.1.0.AwaitToActivate'}]}, True),
        ({'TaskState': 'New', 'Messages': [{'MessageId': 'IDRAC.2.8.RED001'}, {'MessageId': 'Base.1.13.ResetRequired'}]}, True),
        ({'TaskState': 'Running', 'Messages': [{'MessageId': 'IDRAC.2.8.JCP001'}, {'MessageId': 'Update.1.0.X'}]}, False),
        ({'JobState': 'Scheduled'}, True),
        ({'JobState': 'RebootPending', 'MessageId': 'X1'}, True),
        ({'JobState': 'New', 'MessageId': 'JCP001', 'Message': 'Task successfully scheduled.'}, True),
        ({'TaskState': 'Running'}, False),
        ({'TaskState': 'Running', 'Messages': [{'MessageId': 'iLO.2.14.SystemResetRequired'}]}, True),
        ({'TaskState': 'Running', 'Messages': [{'MessageId': 'X.1.0.PendingHostReboot'}]}, True),
        ({'TaskState': 'Running', 'Messages': [{'MessageId': 'Base.1.8.ResetInProgress'}]}, False),
        ({'TaskState': 'Running', 'Messages': [{'MessageId': 'X.1.0.NoRebootRequired'}]}, False),
        ({'TaskState': 'New', 'Messages': [{'Message': 'Waiting for the download, do not reboot the server'}]}, False),
        ({'TaskState': 'Suspended', 'Messages': [{'Message': 'Waiting for the server to be restarted'}]}, True),
        ({'TaskState': 'New', 'Messages': [{'Message': 'Job scheduled successfully'}]}, True),
        ({'TaskState': 'Starting', 'Messages': [{'Message': 'The update is applied at the next boot.'}]}, True),
        ({'TaskState': 'Suspended', 'Messages': [{'Message': 'Reboot required'}]}, True),
        ({'TaskState': 'Running', 'Messages': [{'Message': 'A reboot is required once this has ended'}]}, False),
        ({'TaskState': 'Starting', 'Messages': [{'Message': 'Downloading. Do not restart the server.'}]}, False),
        ({'TaskState': 'New', 'Messages': [{'Message': 'Waiting for the lock of the flash'}]}, False),
        ({'TaskState': 'Completed', 'Messages': [{'MessageId': 'Base.1.13.ResetRequired'}]}, False),
    ],
)
def test_a_task_that_goes_on_only_after_a_restart_of_the_host_says_so(bmc: Any, body: dict[str, Any], awaits: bool) -> None:
    """By its state, or by its last message; what it said before that is over."""
    bmc.put(TASK.uri, **body)
    with bmc.connect() as connection:
        assert awaits == connection.task(TASK).awaits_restart


@pytest.mark.parametrize('content', [{'@odata.type': '#SoftwareInventory.v1_3_0.SoftwareInventory', 'Version': '1'}, {}])
def test_a_resource_that_is_no_task_is_no_end_of_one(bmc: Any, content: dict[str, Any]) -> None:
    """A Location may lead to what was written, which stands there all the time."""
    bmc.put(TASK.uri, **content)
    with bmc.connect() as connection, pytest.raises(BmcAnswerInvalid, match='neither a Task nor a Job nor the result'):
        connection.task(TASK)


def test_a_page_for_people_is_no_end_of_a_task(bmc: Any, reply: Callable[..., Any]) -> None:
    """Web servers of BMCs answer 200 with one for what they do not know."""
    bmc.replies['GET', MONITOR.uri] = reply(200, '<html>Please log in</html>', Content_Type='text/html')
    with bmc.connect() as connection, pytest.raises(BmcAnswerInvalid, match='neither a Task'):
        connection.task(MONITOR)


def test_active_tasks_leave_out_what_has_ended_or_vanished(bmc: Any) -> None:
    """The root may call the service Tasks; a task that is listed and not there does not run."""
    bmc.tree['/redfish/v1']['Tasks'] = {'@odata.id': '/redfish/v1/TaskService'}
    bmc.put('/redfish/v1/TaskService', Tasks={'@odata.id': TASKS})
    bmc.collection(TASKS, '1', '2', '3')
    bmc.put(f'{TASKS}/1', TaskState='Running')
    bmc.put(f'{TASKS}/2', TaskState='Completed', TaskStatus='OK')
    with bmc.connect() as connection:
        assert [TASK] == [t.ref for t in connection.active_tasks()]
        assert [TaskState.ACTIVE, TaskState.SUCCEEDED] == [t.state for t in connection.tasks()]
    assert () == bmc.look().facts.active_tasks


@pytest.mark.parametrize(
    ('payload', 'may_write'),
    [
        ({}, True),
        ({'Payload': {'TargetUri': '/redfish/v1/UpdateService/update'}}, True),
        ({'Payload': {'TargetUri': '/redfish/v1/Systems/1/LogServices/Dump/Actions/LogService.CollectDiagnosticData'}}, False),
        ({'Payload': {'TargetUri': '/redfish/v1/Managers/1/Oem/Updater'}}, True),
        ({'Payload': {'TargetUri': 7}}, True),
        ({'Payload': 'x'}, True),
    ],
)
def test_a_task_may_write_firmware_unless_it_was_asked_for_where_none_is_written(
    bmc: Any, payload: Any, may_write: bool
) -> None:
    """Many BMCs do not say what a task was asked for."""
    bmc.put(TASK.uri, TaskState='Running', **payload)
    with bmc.connect() as connection:
        assert may_write is connection.task(TASK).may_write


@pytest.mark.parametrize(
    ('body', 'is_update'),
    [
        ({}, False),
        ({'Payload': {'TargetUri': '/redfish/v1/UpdateService/update-multipart'}}, True),
        ({'Payload': {'TargetUri': '/redfish/v1/UpdateService/Actions/UpdateService.SimpleUpdate'}}, True),
        ({'Payload': {'TargetUri': '/redfish/v1/ComponentIntegrity/GPU_0/Actions/X'}}, False),
        ({'Payload': {'TargetUri': 7}, 'Messages': 7}, False),
        ({'Messages': [7, {'MessageId': 7}, {'MessageId': 'Update.1.2.UpdateSuccessful'}]}, True),
        ({'Messages': [{'MessageId': 'TaskEvent.1.0.TaskCompletedOK'}, {'Message': 'Update.'}]}, False),
    ],
)
def test_a_task_is_an_update_where_the_bmc_says_so(bmc: Any, body: Any, is_update: bool) -> None:
    """A task that may be one is not one: BMCs have tasks for logs and measurements, too."""
    bmc.put(TASK.uri, TaskState='Completed', StartTime='2026-11-26T12:00:00Z', **body)
    with bmc.connect() as connection:
        found = connection.task(TASK)
    assert (is_update, '2026-11-26T12:00:00Z') == (found.is_update, found.started)


@pytest.mark.parametrize(
    ('others', 'machines'),
    [
        ({}, 1),
        ({'SystemType': 'DPU'}, 1),
        ({'SystemType': 'Physical'}, 1),
        ({'SystemType': 'Physical', 'Actions': {'#ComputerSystem.Reset': {'target': '/redfish/v1/Systems/2/Reset'}}}, 2),
    ],
)
def test_a_look_tells_of_how_many_machines_a_bmc_is(bmc: Any, others: dict[str, Any], machines: int) -> None:
    """A board of GPUs that cannot be reset alone is none, nor is a DPU."""
    bmc.tree['/redfish/v1/Systems/1']['Actions'] = {'#ComputerSystem.Reset': {'target': '/redfish/v1/Systems/1/Reset'}}
    if others:
        bmc.collection('/redfish/v1/Systems', '1', '2')
        bmc.put('/redfish/v1/Systems/2', **others)
    assert machines == bmc.look(system='/redfish/v1/Systems/1').machines


def test_a_task_that_cannot_be_understood_is_no_silence(bmc: Any) -> None:
    """Whoever asks whether the BMC is busy must not hear no."""
    bmc.tree['/redfish/v1']['Tasks'] = {'@odata.id': '/redfish/v1/TaskService'}
    bmc.put('/redfish/v1/TaskService', Tasks={'@odata.id': TASKS})
    bmc.collection(TASKS, '1')
    bmc.tree[f'{TASKS}/1'] = 'garbled'
    with bmc.connect() as connection, pytest.raises(BmcAnswerInvalid):
        connection.active_tasks()


def test_tasks_that_come_with_their_collection_are_not_asked_for_again(bmc: Any) -> None:
    """A BMC that keeps a hundred ended tasks would be asked for each of them in every turn of a job."""
    bmc.tree['/redfish/v1']['Tasks'] = {'@odata.id': '/redfish/v1/TaskService'}
    bmc.tree['/redfish/v1']['ProtocolFeaturesSupported'] = {'ExpandQuery': {'NoLinks': True}}
    tasks = '/redfish/v1/TaskService/Tasks'
    bmc.put('/redfish/v1/TaskService', Tasks={'@odata.id': tasks})
    whole = [bmc.put(f'{tasks}/{n}', TaskState='Completed', TaskStatus='OK') for n in range(100)]
    running = bmc.put(f'{tasks}/100', TaskState='Running')
    bare = {'@odata.id': f'{tasks}/101', 'Id': '101', 'Name': 'shown without its state'}
    bmc.put(f'{tasks}/101', TaskState='Running')
    bmc.tree[f'{tasks}?$expand=.'] = {'@odata.id': tasks, 'Name': 'Tasks', 'Members': [*whole, running, bare]}
    bmc.collection(tasks, *map(str, range(102)))
    with bmc.connect() as connection:
        assert ['100', '101'] == [t.ref.uri.rpartition('/')[2] for t in connection.active_tasks()]
    assert [f'{tasks}/101'] == [uri for method, uri in bmc.seen if uri.startswith(f'{tasks}/')]


CANCELLED = '/redfish/v1/TaskService/Tasks/4'


@pytest.mark.parametrize(
    ('shown', 'refused', 'asked'),
    [
        ({}, (), [CANCELLED]),
        ({'TaskMonitor': '/monitors/4'}, (), ['/monitors/4']),
        ({'TaskMonitor': '/monitors/4'}, ('/monitors/4',), ['/monitors/4', CANCELLED]),
        ({'TaskMonitor': 'https://elsewhere.example/monitors/4'}, (), ['/monitors/4']),
        ({'TaskMonitor': 7}, (), [CANCELLED]),
    ],
)
def test_a_task_is_cancelled_at_its_monitor_or_else_itself(bmc: Any, reply: Any, shown: Any, refused: Any, asked: Any) -> None:
    """Whatever authority its monitor names, only this BMC is asked."""
    bmc.put(CANCELLED, TaskState='Running', **shown)
    for place in refused:
        bmc.replies['DELETE', place] = reply(405)
    with bmc.connect() as connection:
        connection.cancel(Ref(bmc=HOST, uri=CANCELLED))
    assert asked == [uri for method, uri in bmc.seen if method == 'DELETE']


@pytest.mark.parametrize('code', [400, 404, 405, 409, 501])
def test_a_task_that_cannot_be_deleted_cannot_be_cancelled(bmc: Any, reply: Any, code: int) -> None:
    """Which is no error of the request, and nothing to try again."""
    bmc.put(CANCELLED, TaskState='Running')
    bmc.replies['DELETE', CANCELLED] = reply(code)
    with bmc.connect() as connection, pytest.raises(BmcUnsupported, match='does not allow this task to be cancelled'):
        connection.cancel(Ref(bmc=HOST, uri=CANCELLED))
    assert 1 == bmc.count('DELETE')


def test_a_task_that_may_not_be_cancelled_by_us_is_an_error_of_its_own(bmc: Any, reply: Any) -> None:
    """The role is missing: the BMC could."""
    bmc.put(CANCELLED, TaskState='Running')
    bmc.replies['DELETE', CANCELLED] = reply(403)
    with bmc.connect() as connection, pytest.raises(BmcNotAuthorised):
        connection.cancel(Ref(bmc=HOST, uri=CANCELLED))
