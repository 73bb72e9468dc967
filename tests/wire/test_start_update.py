# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""When StartUpdate is sent, when it is not, and what its answers mean."""

import io
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import requests

from baremetal_acc.bmc.driver import Upload
from baremetal_acc.bmc.redfish import start_update
from baremetal_acc.errors import BmcBusy, BmcNotAuthorised, BmcRefused, BmcUnreachable, BmcUnsupported
from baremetal_acc.model.action import Publish
from baremetal_acc.model.image import UploadProgress
from baremetal_acc.model.inventory import Objection, TaskReading, TaskState
from baremetal_acc.model.job_item import Item, ItemState
from baremetal_acc.model.ref import HOST, Ref
from baremetal_acc.planning import job_transitions
from tests.wire.conftest import NOW

SERVICE = '/redfish/v1/UpdateService'
PUSH = f'{SERVICE}/update-multipart'
START = f'{SERVICE}/Actions/UpdateService.StartUpdate'
TARGET = Ref(bmc=HOST, uri=f'{SERVICE}/FirmwareInventory/HGX_FW_GPU_0')
TASK_URI, NEXT_URI = '/redfish/v1/TaskService/Tasks/7', '/redfish/v1/TaskService/Tasks/8'
SUPPORT = 'MultipartHttpPushUri@Redfish.OperationApplyTimeSupport'
ACTIONS = {'#UpdateService.StartUpdate': {'target': START}}
AWAITS = {'MessageId': 'Update.1.0.AwaitToUpdate', 'Message': 'Awaiting for an action to proceed.'}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_update, 'BEAT', 0.01)
    monkeypatch.setattr(start_update, 'BEGINS', 0.1)


def task(state: str, uri: str = TASK_URI, **more: Any) -> dict[str, Any]:
    """A Task."""
    return {'@odata.id': uri, '@odata.type': '#Task.v1_4_3.Task', 'Id': uri[-1], 'Name': 't', 'TaskState': state, **more}


@pytest.fixture
def service(bmc: Any, reply: Callable[..., Any]) -> Callable[..., None]:
    """A service that takes images OnStartUpdateRequest alone, and answers an upload with a task."""

    def offer(answer: dict[str, Any] | None = None, *, times: Any = ('OnStartUpdateRequest',), **more: Any) -> None:
        answer = task('Pending') if answer is None else answer
        bmc.tree['/redfish/v1']['UpdateService'] = {'@odata.id': SERVICE}
        shown = {SUPPORT: {'SupportedValues': list(times)}, 'Actions': ACTIONS}
        bmc.put(SERVICE, **({'MultipartHttpPushUri': PUSH} | shown | more))
        bmc.put(TASK_URI, **answer)

        def take(request: Any, context: Any) -> Any:
            assert request.body
            return reply(202, answer)(request, context)

        bmc.replies['POST', PUSH] = take

    return offer


def push(bmc: Any) -> Any:
    """What an upload comes to."""
    upload = Upload(file='x', size_bytes=4, open=lambda: io.BytesIO(b'data'))
    with bmc.connect() as connection:
        return connection.push(TARGET, upload)


def go_on(bmc: Any, progress: UploadProgress) -> Any:
    """What its turn comes to."""
    upload = Upload(file='x', size_bytes=4, open=lambda: io.BytesIO(b'data'))
    with bmc.connect() as connection:
        return connection.go_on(TARGET, upload, progress)


def turn(bmc: Any) -> Any:
    """An upload and its turn."""
    return go_on(bmc, push(bmc))


@pytest.mark.parametrize('times', [['Immediate', 'OnStartUpdateRequest'], ['OnReset', 'OnStartUpdateRequest'], []])
def test_what_is_applied_at_another_time_is_not_started(bmc: Any, service: Callable[..., None], times: list[str]) -> None:
    """That the action is shown says nothing of this upload, and neither does a task that is pending."""
    service(times=times)
    assert isinstance(push(bmc), TaskReading)
    assert [times[0] if times else 'Immediate'] == [bmc.look().facts.update.sending.apply_time]
    assert 0 == bmc.count('POST', START)


def test_a_service_without_the_action_is_refused(bmc: Any, service: Callable[..., None]) -> None:
    """What it takes would never be written."""
    service(Actions={})
    with pytest.raises(BmcUnsupported, match='only at OnStartUpdateRequest'):
        push(bmc)
    assert 'OnStartUpdateRequest' in bmc.look().facts.update.sending.obstacle


@pytest.mark.parametrize(
    ('said', 'waits'),
    [
        (task('Pending', Messages=[AWAITS]), True),
        (task('Suspended', Messages=[AWAITS]), True),
        (task('Pending', Messages=[{'Message': 'Waiting.', 'Resolution': 'Perform the StartUpdate action.'}]), True),
        (task('Running', Messages=[AWAITS]), False),
        (task('Pending', Messages=[AWAITS, {'MessageId': 'Update.1.0.AwaitToActivate'}]), False),
        (task('Pending', Messages=[AWAITS | {'Message': 'Awaiting a reboot of the system to proceed.'}]), False),
        (task('Pending'), False),
        (task('Exception', Messages=[AWAITS]), False),
    ],
)
def test_a_task_that_waits_for_the_action_unasked_is_started(
    bmc: Any, service: Callable[..., None], said: dict[str, Any], waits: bool
) -> None:
    """By the message for that, or by one that names the action; not one that waits for a restart."""
    service(said, times=['Immediate'])
    assert waits is isinstance(push(bmc), UploadProgress)
    service(said, times=['Immediate'], Actions={})
    assert not isinstance(push(bmc), UploadProgress), 'there is nothing to start it with'


def test_a_task_that_names_the_action_waits_for_no_restart(bmc: Any) -> None:
    """Nobody restarts a host for it."""
    bmc.put(TASK_URI, **task('Pending', Messages=[{'Message': 'Run StartUpdate to proceed.'}]))
    with bmc.connect() as connection:
        found = connection.task(Ref(bmc=HOST, uri=TASK_URI))
    assert (False, True) == (found.awaits_restart, found.awaits_start)


def test_the_action_is_sent_with_an_empty_body_and_the_same_task_is_followed(
    bmc: Any, service: Callable[..., None], reply: Callable[..., Any]
) -> None:
    """Its answer names none; the task has begun when it is told."""
    service()
    bmc.replies['POST', START] = reply(204)
    bmc.replies['GET', TASK_URI] = [reply(200, task('Pending')), reply(200, task('Pending')), reply(200, task('Running'))]
    found = turn(bmc)
    assert (TASK_URI, 'Running', False) == (found.ref.uri, found.raw, found.awaits_restart)
    assert [{}] == [r.json() for r in bmc.requests if r.method == 'POST' and r.path.endswith('startupdate')]


def test_the_task_that_the_answer_names_is_followed(bmc: Any, service: Callable[..., None], reply: Callable[..., Any]) -> None:
    """That of the upload has ended with the check of the image."""
    service(task('Completed', TaskStatus='OK'))
    bmc.replies['POST', START] = reply(202, task('Running', NEXT_URI))
    assert NEXT_URI == turn(bmc).ref.uri


def test_a_task_that_has_ended_is_not_followed(bmc: Any, service: Callable[..., None], reply: Callable[..., Any]) -> None:
    """Its success is one of the check."""
    service(task('Completed', TaskStatus='OK'))
    bmc.replies['POST', START] = reply(204)
    assert turn(bmc) is None


def test_an_image_that_is_still_being_checked_is_waited_for(bmc: Any, service: Callable[..., None]) -> None:
    """And one that was found wrong is not started."""
    service(task('Running'))
    with pytest.raises(BmcBusy, match='still checking the image'):
        turn(bmc)
    progress = push(bmc)
    bmc.put(TASK_URI, **task('Exception', Messages=[{'Message': 'wrong signature'}]))
    with pytest.raises(BmcRefused, match='wrong signature'):
        go_on(bmc, progress)
    assert 0 == bmc.count('POST', START)


@pytest.mark.parametrize('answer', [requests.ConnectionError('Broken pipe'), 500])
def test_an_answer_that_leaves_it_open_is_followed_by_a_look(
    bmc: Any, service: Callable[..., None], reply: Callable[..., Any], answer: Any
) -> None:
    """It is never sent again: not at once, and not by the turn that follows."""
    service()
    bmc.replies['POST', START] = [answer if isinstance(answer, Exception) else reply(answer)]
    progress = push(bmc)
    if isinstance(answer, Exception):
        with pytest.raises(BmcUnreachable) as caught:
            go_on(bmc, progress)
        assert caught.value.sent
    else:
        assert TASK_URI == go_on(bmc, progress).ref.uri
    assert TASK_URI == go_on(bmc, UploadProgress(task=progress.task)).ref.uri
    assert 1 == bmc.count('POST', START)


def test_what_could_not_be_asked_before_has_started_nothing(bmc: Any, service: Callable[..., None]) -> None:
    """Whoever asked knows that, and takes the same turn again."""
    service()
    progress = push(bmc)
    bmc.replies['GET', TASK_URI] = [requests.ConnectionError('gone')] * 9
    with pytest.raises(BmcUnreachable) as caught:
        go_on(bmc, progress)
    assert (False, 0) == (caught.value.sent, bmc.count('POST', START))


def test_nothing_is_started_beside_a_task_of_somebody_else_that_waits(bmc: Any, service: Callable[..., None]) -> None:
    """The action starts everything."""
    service()
    bmc.tree['/redfish/v1']['Tasks'] = {'@odata.id': '/redfish/v1/TaskService'}
    bmc.put('/redfish/v1/TaskService', Tasks={'@odata.id': '/redfish/v1/TaskService/Tasks'})
    bmc.collection('/redfish/v1/TaskService/Tasks', '7', '8')
    bmc.put(NEXT_URI, **task('Pending', NEXT_URI))
    with pytest.raises(BmcBusy, match=f'another client: {NEXT_URI}'):
        turn(bmc)
    assert 0 == bmc.count('POST', START)


def test_a_turn_that_was_interrupted_is_one_of_which_nobody_knows_whether_it_was_sent(
    bmc: Any, service: Callable[..., None]
) -> None:
    """What is stored before a turn, and taken up by another process, is looked at."""
    service()
    progress = push(bmc)
    item = Item(action=Publish(), since=NOW, state=ItemState.SENT, progress=replace(progress, turning=True))
    stored = job_transitions._taken_up(item).progress
    assert stored is not None
    assert TASK_URI == go_on(bmc, stored).ref.uri
    assert 0 == bmc.count('POST', START)


@pytest.mark.parametrize(('code', 'error'), [(400, BmcRefused), (403, BmcNotAuthorised)])
def test_what_is_refused_is_cancelled(
    bmc: Any, service: Callable[..., None], reply: Callable[..., Any], code: int, error: type[Exception]
) -> None:
    """Nobody starts it any more; who restarts the BMC's queue must not."""
    service()
    bmc.replies['POST', START] = reply(code)
    with pytest.raises(error):
        turn(bmc)
    assert (1, 1) == (bmc.count('POST', START), bmc.count('DELETE', TASK_URI))


def test_a_refusal_by_a_bmc_that_needed_no_start_is_told_and_the_device_decides(
    bmc: Any, service: Callable[..., None], reply: Callable[..., Any]
) -> None:
    """Its task has ended well."""
    service(task('Completed', TaskStatus='OK'))
    bmc.replies['POST', START] = reply(400)
    found = turn(bmc)
    assert (TaskState.SUCCEEDED, True) == (found.state, found.objection.fails)


def test_an_upload_without_a_task_is_started_too(bmc: Any, service: Callable[..., None], reply: Callable[..., Any]) -> None:
    """What the BMC says against an image in its answer is an end, and nothing is started then."""
    service()
    bmc.replies['POST', PUSH] = lambda request, context: reply(200)(request, context)
    bmc.replies['POST', START] = reply(202, task('Running', NEXT_URI))
    assert NEXT_URI == turn(bmc).ref.uri
    critical = {'Messages': [{'Message': 'wrong key', 'MessageSeverity': 'Critical'}]}
    bmc.replies['POST', PUSH] = lambda request, context: reply(200, critical)(request, context)
    assert Objection(text='wrong key', fails=True) == push(bmc)
    assert 1 == bmc.count('POST', START)
