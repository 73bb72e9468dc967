# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What is set, sent and restored for an image that is pushed by HttpPushUri, and when nothing is pushed in that way."""

import io
import json
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import requests

from baremetal_acc.bmc import stopping
from baremetal_acc.bmc.driver import ImageServer, Upload
from baremetal_acc.bmc.redfish import http_push
from baremetal_acc.errors import BmcBusy, BmcRefused, BmcUnreachable, BmcUnsupported
from baremetal_acc.model.inventory import Sending, TaskState, UploadWay
from baremetal_acc.model.ref import HOST, Ref

SERVICE = '/redfish/v1/UpdateService'
PUSH = '/fwupdate'
PULL = f'{SERVICE}/Actions/UpdateService.SimpleUpdate'
TARGET = Ref(bmc=HOST, uri=f'{SERVICE}/FirmwareInventory/HGX_FW_GPU_0')
IMAGE = bytes(range(256)) * 4096
TASK_URI = '/redfish/v1/TaskService/Tasks/7'
TASK = {'@odata.id': TASK_URI, '@odata.type': '#Task.v1_4_3.Task', 'Id': '7', 'Name': 't', 'TaskState': 'Running'}
OPTIONS = {'ForceUpdate': False, 'HttpPushUriApplyTime': {'ApplyTime': 'Immediate'}}
HERE = ImageServer(host='127.0.0.1', listen='127.0.0.1')


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_push, 'BEAT', 0.01)
    monkeypatch.setattr(http_push, 'SETTLES', 0.1)


@pytest.fixture
def service(bmc: Any, reply: Callable[..., Any]) -> Callable[..., list[bytes]]:
    """An update service that keeps what is set, and takes what is pushed; tells the bodies that it got."""

    def offer(**more: Any) -> list[bytes]:
        bmc.tree['/redfish/v1']['UpdateService'] = {'@odata.id': SERVICE}
        bmc.put(SERVICE, **({'ServiceEnabled': True, 'HttpPushUri': PUSH, 'HttpPushUriTargets': []} | more))
        got: list[bytes] = []

        def keep(request: Any, context: Any) -> str:
            _merge(bmc.tree[SERVICE], request.json())
            context.status_code = 204
            return ''

        def take(request: Any, context: Any) -> Any:
            got.append(request.body)
            return reply(202, TASK)(request, context)

        bmc.replies['PATCH', SERVICE], bmc.replies['POST', PUSH] = keep, take
        return got

    return offer


def _merge(body: dict[str, Any], patch: dict[str, Any]) -> None:
    for name, value in patch.items():
        if isinstance(value, dict):
            _merge(body.setdefault(name, {}), value)
        else:
            body[name] = value


def _upload(**more: Any) -> Upload:
    return Upload(file='x', size_bytes=len(IMAGE), open=lambda: io.BytesIO(IMAGE), **more)


def _push(bmc: Any, upload: Upload | None = None, **address: Any) -> Any:
    with bmc.connect(**address) as connection:
        return connection.push(TARGET, upload or _upload())


def test_the_bytes_go_out_as_they_are_to_the_target_that_was_set(bmc: Any, service: Callable[..., list[bytes]]) -> None:
    """With their length and their type; only what is not so already is set, and only that restored."""
    got = service(HttpPushUriOptions=OPTIONS)
    assert TASK_URI == _push(bmc).ref.uri
    (request,) = [r for r in bmc.requests if r.method == 'POST']
    assert [IMAGE] == got
    assert ('application/octet-stream', str(len(IMAGE))) == (request.headers['Content-Type'], request.headers['Content-Length'])
    assert [{'HttpPushUriTargets': [TARGET.uri]}, {'HttpPushUriTargets': []}] == bmc.body_of('PATCH')


@pytest.mark.parametrize(
    ('shown', 'found'),
    [
        ({}, None),
        ({'HttpPushUriOptions': {'HttpPushUriApplyTime': {'ApplyTime': 'OnReset'}}}, 'Immediate'),
        ({'HttpPushUriOptions': {'HttpPushUriApplyTime': {'ApplyTime': None}}}, None),
        ({'HttpPushUriOptions': {'HttpPushUriApplyTime': ['odd']}}, None),
        (
            {
                'HttpPushUriOptions': {
                    'HttpPushUriApplyTime': {
                        'ApplyTime': 'AtMaintenanceWindowStart',
                        'ApplyTime@Redfish.AllowableValues': ['OnReset', 'AtMaintenanceWindowStart'],
                    }
                }
            },
            'OnReset',
        ),
    ],
)
def test_the_apply_time_is_set_where_it_is_offered(
    bmc: Any, service: Callable[..., list[bytes]], shown: dict[str, Any], found: str | None
) -> None:
    """As the look says; what was there before is restored."""
    service(**shown)
    before = repr(bmc.tree[SERVICE])
    assert Sending(way=UploadWay.HTTP_PUSH, apply_time=found) == bmc.look().facts.update.sending
    _push(bmc)
    when = [b['HttpPushUriOptions']['HttpPushUriApplyTime']['ApplyTime'] for b in bmc.body_of('PATCH') if len(b) > 1]
    assert ([] if found is None else [found]) == when[:1]
    assert before == repr(bmc.tree[SERVICE])


def test_a_bmc_with_maintenance_windows_only_is_refused(bmc: Any, service: Callable[..., list[bytes]]) -> None:
    """Nothing is set, and nothing sent."""
    when = {'ApplyTime': 'AtMaintenanceWindowStart', 'ApplyTime@Redfish.AllowableValues': ['AtMaintenanceWindowStart']}
    service(HttpPushUriOptions={'HttpPushUriApplyTime': when})
    with pytest.raises(BmcUnsupported, match='only at AtMaintenanceWindowStart'):
        _push(bmc)
    assert (0, 0) == (bmc.count('POST'), bmc.count('PATCH'))


WITHOUT_TARGETS = {'HttpPushUriTargets': 'odd'}


@pytest.mark.parametrize('fetches', [True, False])
def test_nothing_is_pushed_whose_target_cannot_be_named(
    bmc: Any, service: Callable[..., list[bytes]], reply: Callable[..., Any], fetches: bool
) -> None:
    """It would go to everything that it fits: the BMC fetches it where it can, and the reason says why where not."""
    actions = {'#UpdateService.SimpleUpdate': {'target': PULL}} if fetches else {}
    got = service(**WITHOUT_TARGETS, Actions=actions)
    bmc.replies['POST', PULL] = reply(400)
    told = bmc.look(images=HERE).facts.update.sending
    assert (
        (UploadWay.PULL, True) == (told.way, told.obstacle is None)
        if fetches
        else UploadWay.HTTP_PUSH is told.way and told.obstacle
    )
    says = '' if fetches else 'without HttpPushUriTargets: an image would be written to all'
    with pytest.raises(BmcRefused if fetches else BmcUnsupported, match=says):
        _push(bmc, images=HERE)
    assert ([], int(fetches)) == (got, bmc.count('POST'))
    if fetches:
        assert bmc.look().facts.update.sending is None, 'an operator who lets it fetch helps'
        with pytest.raises(BmcUnsupported, match='HttpPushUri with HttpPushUriTargets'):
            _push(bmc)


@pytest.mark.parametrize('more', [{'untargeted': True}, {'targets': ()}])
def test_an_upload_that_is_for_no_target_needs_no_targets(
    bmc: Any, service: Callable[..., list[bytes]], more: dict[str, Any]
) -> None:
    """Its maker says so; nothing is set then."""
    got = service(**WITHOUT_TARGETS)
    assert bmc.look().facts.update.untargeted
    _push(bmc, _upload(**more), images=HERE)
    assert ([IMAGE], 0) == (got, bmc.count('PATCH'))


def test_what_can_be_forced_is_told_by_what_is_shown(bmc: Any, service: Callable[..., list[bytes]]) -> None:
    """The schema says nothing of a push without parameters."""
    service(**{'@odata.type': '#UpdateService.v1_14_0.UpdateService'})
    assert not bmc.look().facts.update.forces
    service(HttpPushUriOptions={'ForceUpdate': None})
    assert bmc.look().facts.update.forces


def test_a_bmc_that_refuses_to_be_forced_is_sent_the_image_without(
    bmc: Any, service: Callable[..., list[bytes]], reply: Callable[..., Any]
) -> None:
    """Just that is left out; targets are set, and restored."""
    got = service(HttpPushUriOptions=OPTIONS)
    keep = bmc.replies['PATCH', SERVICE]

    def refuse(request: Any, context: Any) -> Any:
        if 'ForceUpdate' not in request.text:
            return keep(request, context)
        info = [{'MessageId': 'Base.1.16.PropertyNotWritable', 'Message': 'ForceUpdate is read only'}]
        return reply(400, {'error': {'@Message.ExtendedInfo': info}})(request, context)

    bmc.replies['PATCH', SERVICE] = refuse
    before = repr(bmc.tree[SERVICE])
    _push(bmc, _upload(forced=True))
    assert ([IMAGE], before) == (got, repr(bmc.tree[SERVICE]))
    assert {'HttpPushUriTargets': [TARGET.uri]} in bmc.body_of('PATCH')


@pytest.mark.parametrize(('code', 'error'), [(400, BmcRefused), (500, BmcRefused), (503, BmcUnreachable)])
def test_where_the_targets_cannot_be_set_no_image_is_sent(
    bmc: Any, service: Callable[..., list[bytes]], reply: Callable[..., Any], code: int, error: type[Exception]
) -> None:
    """And whoever asked knows that nothing was sent, also of a server error."""
    got = service()
    bmc.replies['PATCH', SERVICE] = reply(code)
    with pytest.raises(error) as caught:
        _push(bmc)
    assert [] == got
    assert getattr(caught.value, 'status', None) is None
    assert not getattr(caught.value, 'sent', False)


def test_what_a_bmc_does_not_show_after_it_was_set_was_not_set(
    bmc: Any, service: Callable[..., list[bytes]], reply: Callable[..., Any]
) -> None:
    """Success is what is read back: an image would go to everything that it fits."""
    got = service()
    bmc.replies['PATCH', SERVICE] = reply(204)
    with pytest.raises(
        BmcRefused,
        match=r'no image was sent, .*: the settings were accepted, but other values are read back: HttpPushUriTargets is',
    ):
        _push(bmc)
    assert [] == got


def test_a_lost_answer_to_a_setting_is_no_lost_answer_to_an_image(bmc: Any, service: Callable[..., list[bytes]]) -> None:
    """The settings are looked at again, and restored if they were set after all."""
    got = service()
    keep = bmc.replies['PATCH', SERVICE]

    def lost(request: Any, context: Any) -> str:
        keep(request, context)
        bmc.replies['PATCH', SERVICE] = keep
        raise requests.ConnectionError('Broken pipe')

    bmc.replies['PATCH', SERVICE] = lost
    with pytest.raises(BmcUnreachable) as caught:
        _push(bmc)
    assert (False, [], []) == (caught.value.sent, got, bmc.tree[SERVICE]['HttpPushUriTargets'])


def test_what_somebody_else_has_changed_meanwhile_stays(bmc: Any, service: Callable[..., list[bytes]]) -> None:
    """It is theirs by now."""
    service(HttpPushUriTargetsBusy=False)
    take = bmc.replies['POST', PUSH]

    def change(request: Any, context: Any) -> Any:
        bmc.tree[SERVICE]['HttpPushUriTargets'] = ['/redfish/v1/theirs']
        return take(request, context)

    bmc.replies['POST', PUSH] = change
    _push(bmc)
    assert (['/redfish/v1/theirs'], False) == tuple(
        bmc.tree[SERVICE][name] for name in ('HttpPushUriTargets', 'HttpPushUriTargetsBusy')
    )


def test_a_reservation_that_comes_first_is_somebody_elses(
    bmc: Any, service: Callable[..., list[bytes]], reply: Callable[..., Any]
) -> None:
    """Two clients that read the flag at once: the condition of the write tells."""
    got = service(HttpPushUriTargetsBusy=False)
    bmc.etags[SERVICE] = '"1"'

    def lost(request: Any, context: Any) -> Any:
        bmc.tree[SERVICE]['HttpPushUriTargetsBusy'] = True
        bmc.etags[SERVICE] = '"2"'
        return reply(412)(request, context)

    bmc.replies['PATCH', SERVICE] = lost
    with pytest.raises(BmcBusy, match='another client is changing the settings'):
        _push(bmc)
    assert ([], True, 1) == (got, bmc.tree[SERVICE]['HttpPushUriTargetsBusy'], bmc.count('PATCH'))


def test_settings_that_cannot_be_restored_are_tried_again_one_by_one_and_told(
    bmc: Any, service: Callable[..., list[bytes]], reply: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    """What was sent stays sent; the log says what to write where."""
    service(HttpPushUriTargetsBusy=False, HttpPushUriOptions={'ForceUpdate': True})
    keep, take = bmc.replies['PATCH', SERVICE], bmc.replies['POST', PUSH]

    def refuse(request: Any, context: Any) -> Any:
        return keep(request, context) if list(request.json()) == ['HttpPushUriTargetsBusy'] else reply(500)(request, context)

    def taken(request: Any, context: Any) -> Any:
        bmc.replies['PATCH', SERVICE] = refuse
        return take(request, context)

    bmc.replies['POST', PUSH] = taken
    with caplog.at_level(logging.ERROR):
        assert TaskState.ACTIVE is _push(bmc).state
    assert 'could not be restored: PATCH this resource' in caplog.text
    assert "{'HttpPushUriTargets': [], 'HttpPushUriOptions': {'ForceUpdate': True}}" in caplog.text
    assert False is bmc.tree[SERVICE]['HttpPushUriTargetsBusy'], 'the others may push'


def test_a_run_that_is_stopped_restores_the_settings(bmc: Any, service: Callable[..., list[bytes]]) -> None:
    """In the seconds that it has for logging out, and without another look."""
    service(HttpPushUriTargetsBusy=False)
    take = bmc.replies['POST', PUSH]

    def stopped(request: Any, context: Any) -> Any:
        stopping.stop_all()
        return take(request, context)

    bmc.replies['POST', PUSH] = stopped
    try:
        _push(bmc)
    finally:
        stopping.begin()
    assert ([], False) == (bmc.tree[SERVICE]['HttpPushUriTargets'], bmc.tree[SERVICE]['HttpPushUriTargetsBusy'])


def test_targets_are_restored_only_once_the_task_has_begun(bmc: Any, service: Callable[..., list[bytes]]) -> None:
    """It may read them only then."""
    got = service()
    seen = []
    states = iter(['New', 'Starting', 'Running'])

    def task(request: Any, context: Any) -> str:
        seen.append(list(bmc.tree[SERVICE]['HttpPushUriTargets']))
        return json.dumps(TASK | {'TaskState': next(states)})

    bmc.replies['GET', TASK_URI] = task

    def take(request: Any, context: Any) -> str:
        got.append(request.body)
        return json.dumps(TASK | {'TaskState': 'New'})

    bmc.replies['POST', PUSH] = take
    _push(bmc)
    assert ([[TARGET.uri]] * 3, []) == (seen, bmc.tree[SERVICE]['HttpPushUriTargets'])


def test_an_image_is_not_pushed_to_another_machine(bmc: Any, service: Callable[..., list[bytes]]) -> None:
    """Nothing is set for it either."""
    service(HttpPushUri='https://192.0.2.99/fwupdate')
    with pytest.raises(BmcUnsupported, match='does not point to this BMC'):
        _push(bmc)
    assert 0 == bmc.count('PATCH')


def test_several_targets_are_set_together(bmc: Any, service: Callable[..., list[bytes]]) -> None:
    """As the upload says; a BMC that shows them in another order has them all the same."""
    service()
    keep = bmc.replies['PATCH', SERVICE]

    def reversed_order(request: Any, context: Any) -> Any:
        found = keep(request, context)
        bmc.tree[SERVICE]['HttpPushUriTargets'].reverse()
        return found

    bmc.replies['PATCH', SERVICE] = reversed_order
    targets = ('/redfish/v1/Chassis/A', '/redfish/v1/Chassis/B')
    _push(bmc, replace(_upload(), targets=targets))
    assert {'HttpPushUriTargets': list(targets)} == bmc.body_of('PATCH')[0]
    assert 2 == bmc.count('PATCH')
