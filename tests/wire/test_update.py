# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""An image is sent as the BMC advertises it, and its answer is understood."""

import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import requests

from baremetal_acc.bmc.driver import Upload
from baremetal_acc.bmc.redfish.upload_body import Multipart
from baremetal_acc.errors import BmcBusy, BmcNotAuthorised, BmcRefused, BmcUnreachable, BmcUnsupported, ImageMismatch
from baremetal_acc.model.inventory import Objection, TaskState, UpdateActivity
from baremetal_acc.model.ref import HOST, Ref
from tests.wire.conftest import NOW

SERVICE = '/redfish/v1/UpdateService'
PUSH = f'{SERVICE}/update-multipart'
TARGET = Ref(bmc=HOST, uri=f'{SERVICE}/FirmwareInventory/HGX_FW_GPU_0')
IMAGE = bytes(range(256)) * 4096
TASK = {
    '@odata.id': '/redfish/v1/TaskService/Tasks/7',
    '@odata.type': '#Task.v1_4_3.Task',
    'Id': '7',
    'Name': 't',
    'TaskState': 'Running',
}


def _service(bmc: Any, **more: Any) -> None:
    bmc.tree['/redfish/v1']['UpdateService'] = {'@odata.id': SERVICE}
    bmc.put(SERVICE, **{'ServiceEnabled': True, 'MultipartHttpPushUri': PUSH, **more})


def _upload(data: bytes = IMAGE, size: int | None = None, file: str = '/srv/images/gpu.fwpkg') -> Upload:
    return Upload(file=file, size_bytes=len(data) if size is None else size, open=lambda: io.BytesIO(data))


def _take(bmc: Any, answer: Callable[..., Any]) -> list[bytes]:
    """Read the streamed body as a server would, then answer."""
    got: list[bytes] = []

    def reply(request: Any, context: Any) -> str | bytes:
        got.append(request.body)
        return answer(request, context)

    bmc.replies['POST', PUSH] = reply
    return got


def _push(bmc: Any, upload: Upload | None = None) -> Any:
    with bmc.connect() as connection:
        return connection.push(TARGET, upload or _upload())


def _parts(body: bytes, content_type: str) -> dict[str, tuple[str, bytes]]:
    boundary = content_type.partition('boundary=')[2].encode()
    found = {}
    for part in body.split(b'--' + boundary)[1:-1]:
        head, _, data = part.strip(b'\r\n').partition(b'\r\n\r\n')
        name = re.search(rb'name="([^"]+)"', head)
        assert name is not None
        found[name.group(1).decode()] = (head.decode(), data)
    return found


def test_one_target_and_the_apply_time_are_always_given(bmc: Any, reply: Callable[..., Any]) -> None:
    """Without Targets a service applies the image to everything that it fits, and without the time whenever it likes."""
    _service(bmc)
    got = _take(bmc, reply(202, TASK))
    _push(bmc)
    request = next(r for r in bmc.requests if r.method == 'POST')
    parts = _parts(got[0], request.headers['Content-Type'])
    assert {'Targets': [TARGET.uri], '@Redfish.OperationApplyTime': 'Immediate'} == json.loads(parts['UpdateParameters'][1])
    assert 'application/json' in parts['UpdateParameters'][0]
    assert IMAGE == parts['UpdateFile'][1]
    assert 'filename="gpu.fwpkg"' in parts['UpdateFile'][0]
    assert str(len(got[0])) == request.headers['Content-Length']
    assert 'Transfer-Encoding' not in request.headers


@pytest.mark.parametrize(
    ('values', 'asked'),
    [(['OnReset', 'Immediate'], 'Immediate'), (['OnReset'], 'OnReset'), ([], 'Immediate'), (None, 'Immediate')],
)
def test_the_apply_time_is_one_that_is_advertised(bmc: Any, reply: Callable[..., Any], values: Any, asked: str) -> None:
    """Immediate before OnReset; Immediate where nothing is said."""
    _service(bmc, **{'MultipartHttpPushUri@Redfish.OperationApplyTimeSupport': {'SupportedValues': values}})
    got = _take(bmc, reply(202, TASK))
    _push(bmc)
    assert f'"@Redfish.OperationApplyTime": "{asked}"'.encode() in got[0]


def test_a_bmc_with_maintenance_windows_only_is_refused(bmc: Any) -> None:
    """Neither Immediate nor OnReset: nothing is sent."""
    _service(
        bmc, **{'MultipartHttpPushUri@Redfish.OperationApplyTimeSupport': {'SupportedValues': ['AtMaintenanceWindowStart']}}
    )
    with pytest.raises(BmcUnsupported, match='AtMaintenanceWindowStart'):
        _push(bmc)
    assert 0 == bmc.count('POST')


def test_a_bmc_that_can_only_pull_is_refused_with_that_reason(bmc: Any) -> None:
    """SimpleUpdate alone: the message says what it offers."""
    _service(bmc, MultipartHttpPushUri=None, Actions={'#UpdateService.SimpleUpdate': {'target': f'{SERVICE}/Actions/x'}})
    with pytest.raises(BmcUnsupported, match='can only pull images'):
        _push(bmc)
    assert 0 == bmc.count('POST')


def test_a_bmc_without_update_service_is_refused_with_that_reason(bmc: Any) -> None:
    """The root has no link."""
    with pytest.raises(BmcUnsupported, match='no UpdateService'):
        _push(bmc)


@pytest.mark.parametrize('more', [{'ServiceEnabled': False}, {'Status': {'State': 'UnavailableOffline'}}])
def test_a_service_that_is_off_is_refused(bmc: Any, more: dict[str, Any]) -> None:
    """Seen on a real BMC: UnavailableOffline."""
    _service(bmc, **more)
    with pytest.raises(BmcUnsupported, match='UpdateService is'):
        _push(bmc)
    assert 0 == bmc.count('POST')


@pytest.mark.parametrize('place', ['https://192.0.2.99/redfish/v1/upload', '//192.0.2.99/upload'])
def test_an_image_is_not_sent_to_another_machine_and_nobody_takes_it_for_sent(bmc: Any, place: str) -> None:
    """BMCs behind NAT give their own address, and some a wrong one: a card that got nothing is not quarantined."""
    _service(bmc, MultipartHttpPushUri=place)
    with bmc.connect() as connection, pytest.raises(BmcUnsupported, match='does not point to this BMC'):
        connection.push(TARGET, _upload())
    assert 0 == bmc.count('POST', place)


def test_an_image_larger_than_the_bmc_takes_is_not_sent(bmc: Any) -> None:
    """MaxImageSizeBytes."""
    _service(bmc, MaxImageSizeBytes=1000)
    with pytest.raises(BmcRefused, match='MaxImageSizeBytes'):
        _push(bmc)
    assert 0 == bmc.count('POST')


def test_the_task_in_the_body_comes_before_the_monitor_in_location(bmc: Any, reply: Callable[..., Any]) -> None:
    """bmcweb's Location is the monitor, whose URI dies when the task has ended."""
    _service(bmc)
    _take(bmc, reply(202, TASK, Location='/redfish/v1/TaskService/TaskMonitors/7'))
    found = _push(bmc)
    assert (TaskState.ACTIVE, '/redfish/v1/TaskService/Tasks/7') == (found.state, found.ref.uri)


def test_a_location_alone_is_followed(bmc: Any, reply: Callable[..., Any]) -> None:
    """No body: the monitor is all there is."""
    _service(bmc)
    _take(bmc, reply(202, None, Location='https://192.0.2.1/redfish/v1/TaskService/TaskMonitors/7'))
    assert '/redfish/v1/TaskService/TaskMonitors/7' == _push(bmc).ref.uri


@pytest.mark.parametrize('code', [200, 201, 202, 204])
def test_accepted_without_a_task_is_none(bmc: Any, reply: Callable[..., Any], code: int) -> None:
    """sushy raises MissingHeaderError here although the update was accepted."""
    _service(bmc)
    _take(bmc, reply(code))
    assert _push(bmc) is None


CRITICAL = {'Message': 'wrong key', 'MessageSeverity': 'Critical'}


@pytest.mark.parametrize('code', [200, 201, 202])
def test_what_an_answer_without_a_task_says_against_the_upload_is_told(bmc: Any, reply: Callable[..., Any], code: int) -> None:
    """It is a success by its status."""
    _service(bmc)
    _take(bmc, reply(code, {'Messages': [CRITICAL]}))
    assert Objection(text='wrong key', fails=True) == _push(bmc)


def test_what_an_answer_with_a_task_says_against_the_upload_is_no_end_of_the_task(bmc: Any, reply: Callable[..., Any]) -> None:
    """By its monitor, and in its body, in which Messages are those of the task."""
    _service(bmc)
    _take(bmc, reply(202, {'@Message.ExtendedInfo': [CRITICAL]}, Location='/redfish/v1/TaskService/TaskMonitors/7'))
    found = _push(bmc)
    assert (TaskState.ACTIVE, Objection(text='wrong key', fails=True)) == (found.state, found.objection)
    _take(bmc, reply(202, TASK | {'Messages': [CRITICAL]}))
    found = _push(bmc)
    assert (TaskState.ACTIVE, None) == (found.state, found.objection)


def test_a_task_that_has_failed_and_names_no_place_is_a_refusal(bmc: Any, reply: Callable[..., Any]) -> None:
    """Nobody can read it again."""
    _service(bmc)
    task = {'@odata.type': TASK['@odata.type'], 'TaskState': 'Exception', 'TaskStatus': 'Critical', 'Messages': [CRITICAL]}
    _take(bmc, reply(200, task))
    assert Objection(text='wrong key', fails=True) == _push(bmc)


@pytest.mark.parametrize('authority', ['https://10.20.30.40', 'http://bmc.internal:8080', '//nat', ''])
def test_of_a_location_only_the_path_counts(bmc: Any, reply: Callable[..., Any], authority: str) -> None:
    """A BMC behind NAT writes the address that it knows itself by; nobody but the BMC that took the image is asked."""
    _service(bmc)
    _take(bmc, reply(202, None, Location=f'{authority}/redfish/v1/TaskService/Tasks/7'))
    assert '/redfish/v1/TaskService/Tasks/7' == _push(bmc).ref.uri


@pytest.mark.parametrize('location', ['', '   ', '/', 'https://10.20.30.40', 'mailto:x', '/x' * 400, 'https://[bad/x'])
def test_a_location_that_is_none_is_no_task(bmc: Any, reply: Callable[..., Any], location: str) -> None:
    """The image was taken; nothing is followed."""
    _service(bmc)
    _take(bmc, reply(202, None, Location=location))
    assert _push(bmc) is None


@pytest.mark.parametrize(
    'body',
    [
        {'Task': {'@odata.id': '/redfish/v1/TaskService/Tasks/7'}},
        {'@odata.id': '/redfish/v1/TaskService/Tasks/7'},
        {'error': {'@Message.ExtendedInfo': [{'MessageArgs': ['/redfish/v1/TaskService/Tasks/7']}]}},
        {'Messages': [{'MessageArgs': ['https://10.20.30.40/redfish/v1/TaskService/Tasks/7']}]},
        {'Oem': {'Maker': {'Job': '/redfish/v1/TaskService/Tasks/7'}}, '@odata.id': '/redfish/v1/UpdateService'},
    ],
)
@pytest.mark.parametrize('code', [200, 201, 202])
def test_the_task_is_found_wherever_the_body_links_it(
    bmc: Any, reply: Callable[..., Any], code: int, body: dict[str, Any]
) -> None:
    """It is read, and counts where it is a Task."""
    _service(bmc)
    bmc.put('/redfish/v1/TaskService/Tasks/7', TaskState='Running')
    _take(bmc, reply(code, body))
    found = _push(bmc)
    assert (TaskState.ACTIVE, '/redfish/v1/TaskService/Tasks/7') == (found.state, found.ref.uri)


def test_a_link_of_the_body_that_leads_to_no_task_is_none(bmc: Any, reply: Callable[..., Any]) -> None:
    """What was written stands there, too."""
    _service(bmc)
    bmc.put('/redfish/v1/UpdateService/FirmwareInventory/A', Version='1')
    _take(bmc, reply(200, {'Target': '/redfish/v1/UpdateService/FirmwareInventory/A', 'Other': '/redfish/v1/none'}))
    assert _push(bmc) is None


@pytest.mark.parametrize(
    ('code', 'name', 'error'),
    [
        (503, 'ServiceTemporarilyUnavailable', BmcBusy),
        (400, 'UpdateInProgress', BmcBusy),
        (409, 'ResourceInUse', BmcBusy),
        (400, 'PropertyValueFormatError', BmcRefused),
        (403, 'InsufficientPrivilege', BmcNotAuthorised),
        (413, 'PayloadTooLarge', BmcRefused),
    ],
)
def test_a_refusal_has_its_kind(bmc: Any, reply: Callable[..., Any], code: int, name: str, error: type[Exception]) -> None:
    """Busy is not refused: waiting can help."""
    _service(bmc)
    info = [{'MessageId': f'Base.1.16.{name}', 'Message': f'because of {name}'}]
    _take(bmc, reply(code, {'error': {'@Message.ExtendedInfo': info}}))
    with pytest.raises(error, match=f'because of {name}'):
        _push(bmc)
    assert 1 == bmc.count('POST')


PROXY = '<html><head><title>Error</title></head><body>upstream timed out</body></html>'


@pytest.mark.parametrize('code', [502, 503, 504])
@pytest.mark.parametrize(
    'body',
    [
        '',
        PROXY,
        '{"message": "no healthy upstream"}',
        {'error': {'code': 'Base.1.16.GeneralError', 'message': 'A general error has occurred.'}},
        {'error': {'@Message.ExtendedInfo': [{'MessageId': 'Base.1.16.InternalError', 'Message': 'x'}]}},
    ],
)
def test_an_answer_of_the_web_server_in_front_says_nothing_of_the_upload(
    bmc: Any, reply: Callable[..., Any], code: int, body: Any
) -> None:
    """It may have given the image to the service before it lost patience, and the image is not sent again."""
    _service(bmc)
    _take(bmc, reply(code, body, Retry_After='1'))
    with pytest.raises(BmcUnreachable, match=f'HTTP {code}.*whether the request arrived is unknown') as told:
        _push(bmc)
    assert (1, True) == (bmc.count('POST'), told.value.sent)


@pytest.mark.parametrize('name', ['Base.1.16.ResourceInUse', 'Update.1.0.UpdateInProgress', 'Maker.2.1.FlashBusy'])
def test_a_service_that_says_itself_that_it_is_busy_has_taken_nothing(bmc: Any, reply: Callable[..., Any], name: str) -> None:
    """Its error is one of Redfish, whose message says so."""
    _service(bmc)
    _take(bmc, reply(503, {'error': {'@Message.ExtendedInfo': [{'MessageId': name}]}}))
    with pytest.raises(BmcBusy):
        _push(bmc)


def test_too_many_requests_are_turned_away_before_anything_is_taken(bmc: Any, reply: Callable[..., Any]) -> None:
    """HTTP 429 is said of a request that nobody looks at (RFC 6585, section 4)."""
    _service(bmc)
    _take(bmc, reply(429, PROXY))
    with pytest.raises(BmcBusy):
        _push(bmc)


def test_a_broken_upload_says_that_nobody_knows(bmc: Any) -> None:
    """The connection broke while the image was sent."""
    _service(bmc)
    bmc.replies['POST', PUSH] = [requests.ConnectionError('Broken pipe')]
    with pytest.raises(BmcUnreachable, match='whether the request arrived is unknown'):
        _push(bmc)
    assert 1 == bmc.count('POST')


@pytest.mark.parametrize(('size', 'what'), [(len(IMAGE) + 1, 'ends 1 bytes early'), (len(IMAGE) - 1, 'more bytes')])
def test_a_file_that_changed_since_it_was_checked_is_not_sent_whole(size: int, what: str) -> None:
    """The length was promised in the request's head: the last bytes never come, so the BMC cannot take it for whole."""
    upload = _upload(size=size)
    with upload.open() as file:
        body = Multipart({}, upload, file)
        sent: list[bytes] = []
        with pytest.raises(ImageMismatch, match=what):
            sent.extend(body)
        assert sum(map(len, sent)) < len(body)


def test_the_body_is_read_in_pieces() -> None:
    """Memory does not grow with the image: a piece is never more than 256 KiB."""
    size = 3 * 1024 * 1024

    class Endless(io.RawIOBase):
        largest = 0
        left = size

        def read(self, wanted: int = -1) -> bytes:
            Endless.largest = max(Endless.largest, wanted)
            given = min(wanted, self.left)
            self.left -= given
            return bytes(given)

    upload = Upload(file='x', size_bytes=size, open=Endless)  # type: ignore[arg-type]
    body = Multipart({}, upload, Endless())  # type: ignore[arg-type]
    assert len(body) == sum(len(piece) for piece in body)
    assert 256 * 1024 == Endless.largest


def test_a_hostile_file_name_stays_in_its_header() -> None:
    """Quotes and line ends in a name would add headers."""
    upload = _upload(b'x', file='a"\r\nX-Evil: 1.bin')
    head = next(iter(Multipart({}, upload, upload.open())))
    assert 1 == head.count(b'filename="')
    assert b'X-Evil' not in head.split(b'filename="')[1].split(b'"')[1]
    assert b'filename="a___X-Evil__1.bin"' in head


def test_what_a_service_takes_is_told(bmc: Any) -> None:
    """push, pull, the largest image, and one at a time unless the operator says otherwise."""
    _service(bmc, MaxImageSizeBytes=5, Actions={'#UpdateService.SimpleUpdate': {'target': 'x'}})
    facts = bmc.look().facts.update
    assert (True, True, 5, 1) == (facts.push, facts.pull, facts.max_size, facts.parallel)
    assert 4 == bmc.look(parallel_updates=4).facts.update.parallel
    bmc.tree[SERVICE]['ServiceEnabled'] = False
    facts = bmc.look().facts.update
    assert (False, False) == (facts.push, facts.pull)


@pytest.mark.parametrize(
    ('service', 'forces'),
    [
        ({'@odata.type': '#UpdateService.v1_11_0.UpdateService'}, True),
        ({'@odata.type': '#UpdateService.v1_17_0.UpdateService'}, True),
        ({'@odata.type': '#UpdateService.v2_0_0.UpdateService'}, True),
        ({'@odata.type': '#UpdateService.v1_10_9.UpdateService'}, False),
        ({'@odata.type': '#UpdateService.v1_8_0.UpdateService', 'HttpPushUriOptions': {'ForceUpdate': False}}, True),
        ({'@odata.type': '#UpdateService.v1_8_0.UpdateService', 'HttpPushUriOptions': {}}, False),
        ({'@odata.type': '#UpdateService.v1_99.UpdateService'}, False),
        ({'@odata.type': 11}, False),
        ({'@odata.type': '#UpdateService.v1_11_0.UpdateService', 'MultipartHttpPushUri': None}, False),
    ],
)
def test_whether_an_image_can_be_forced_is_told(bmc: Any, service: dict[str, Any], forces: bool) -> None:
    """By the schema, or by what the service shows under an older one; not of a service that is sent nothing."""
    _service(bmc, **service)
    assert forces is bmc.look().facts.update.forces


def test_an_image_that_is_forced_says_so(bmc: Any, reply: Callable[..., Any]) -> None:
    """And no other one does."""
    _service(bmc)
    got = _take(bmc, reply(202, TASK))
    _push(bmc, replace(_upload(), forced=True))
    _push(bmc)
    assert [True, False] == [b'"ForceUpdate": true' in body for body in got]


@pytest.mark.parametrize(
    ('code', 'text', 'more', 'sent'),
    [
        (400, 'The property ForceUpdate in the request is unknown', {}, [True, False]),
        (422, 'Force Update is not supported here', {}, [True, False]),
        (400, 'unknown key force_update', {}, [True, False]),
        (501, 'ForceUpdate is not implemented', {}, [True, False]),
        (400, 'A property is not in the list', {'MessageArgs': ['ForceUpdate']}, [True, False]),
        (400, 'A property is not in the list', {'RelatedProperties': ['#/ForceUpdate']}, [True, False]),
        (400, 'The request was malformed', {'MessageId': 'Base.1.16.MalformedJSON'}, [True, False]),
        (400, 'A property is not in the list', {'MessageArgs': 'ForceUpdate', 'RelatedProperties': [7, None]}, [True]),
        (400, 'The image is for another device', {}, [True]),
        (400, 'The image is for another device', {'MessageArgs': ['Targets']}, [True]),
        (500, 'The property ForceUpdate cannot be handled', {}, [True]),
    ],
)
def test_a_bmc_that_refuses_to_be_forced_is_sent_the_image_without(
    bmc: Any, reply: Callable[..., Any], code: int, text: str, more: dict[str, Any], sent: list[bool]
) -> None:
    """It has taken nothing then. Any other refusal is one of the image, and of a server error nobody knows."""
    _service(bmc)
    got: list[bool] = []

    def answer(request: Any, context: Any) -> str | bytes:
        got.append(b'"ForceUpdate": true' in request.body)
        info = [{'MessageId': 'Base.1.16.PropertyUnknown', 'Message': text} | more]
        told = reply(code, {'error': {'@Message.ExtendedInfo': info}}) if got[-1] else reply(202, TASK)
        return told(request, context)

    bmc.replies['POST', PUSH] = answer
    if sent[-1]:
        with pytest.raises(BmcRefused, match=re.escape(text)):
            _push(bmc, replace(_upload(), forced=True))
    else:
        assert TaskState.ACTIVE is _push(bmc, replace(_upload(), forced=True)).state
    assert sent == got


@pytest.mark.parametrize(
    ('service', 'says'),
    [
        ({'Status': {'State': 'Updating'}}, UpdateActivity.BUSY),
        ({'Status': {'State': 'Enabled'}}, UpdateActivity.UNKNOWN),
        ({'HttpPushUriTargetsBusy': True}, UpdateActivity.BUSY),
        ({'HttpPushUriTargetsBusy': False}, UpdateActivity.UNKNOWN),
        ({'Oem': {'Maker': {'State': 'Updating', 'FlashProgressPercent': 40}}}, UpdateActivity.BUSY),
        ({'Oem': {'Maker': {'State': 'Writing'}}}, UpdateActivity.BUSY),
        ({'Oem': {'Maker': {'Update': {'UpdateStatus': 'In Progress'}}}}, UpdateActivity.BUSY),
        ({'Oem': {'Maker': {'State': 'Idle'}}}, UpdateActivity.IDLE),
        ({'Oem': {'Maker': {'State': 'Complete'}, 'Other': {'State': 'Verifying'}}}, UpdateActivity.BUSY),
        ({'Oem': {'Maker': {'State': 'Frobnicating'}}}, UpdateActivity.UNKNOWN),
        ({'Oem': {'Maker': {'State': {'a': 'Idle'}, 'Name': 'Idle'}}}, UpdateActivity.UNKNOWN),
        ({'Oem': ['Idle']}, UpdateActivity.UNKNOWN),
        ({}, UpdateActivity.UNKNOWN),
    ],
)
def test_what_the_update_service_says_of_itself_is_told(bmc: Any, service: dict[str, Any], says: UpdateActivity) -> None:
    """In the standard's words or in those of its maker; that it is enabled says nothing of what it does."""
    _service(bmc, **service)
    with bmc.connect() as connection:
        assert says is connection.update_activity()
    bmc.tree['/redfish/v1']['Tasks'] = {'@odata.id': '/redfish/v1/TaskService'}
    with bmc.connect() as connection:
        assert (UpdateActivity.TOLD_BY_TASKS if says is UpdateActivity.UNKNOWN else says) is connection.update_activity()


def test_an_image_is_not_sent_to_a_service_that_says_that_it_writes(bmc: Any) -> None:
    """Whoever has begun that, and whether it has a task or not."""
    _service(bmc, Oem={'Maker': {'State': 'Updating'}})
    with pytest.raises(BmcBusy, match='the UpdateService reports that it is writing'):
        _push(bmc)
    assert 0 == bmc.count('POST')


def test_what_a_root_of_trust_copies_in_the_background_keeps_the_bmc_busy(bmc: Any, reply: Callable[..., Any]) -> None:
    """No image is sent, and no reset asked for, before it has ended; whose it is was seen by the look before."""
    _service(bmc)
    bmc.tree['/redfish/v1']['Chassis'] = {'@odata.id': '/redfish/v1/Chassis'}
    bmc.put('/redfish/v1/Chassis', Members=[{'@odata.id': '/redfish/v1/Chassis/RoT'}])
    bmc.put('/redfish/v1/Chassis/RoT', Oem={'Nvidia': {'BackgroundCopyStatus': 'Completed'}})
    with bmc.connect() as connection:
        connection.look(NOW).reader.get('/redfish/v1/Chassis/RoT')  # as whoever reads locks does
        assert UpdateActivity.UNKNOWN is connection.update_activity()
        bmc.put('/redfish/v1/Chassis/RoT', Oem={'Nvidia': {'BackgroundCopyStatus': 'InProgress'}})
        assert UpdateActivity.BUSY is connection.update_activity()
        with pytest.raises(BmcBusy, match='copying an image in the background'):
            connection.push(TARGET, _upload())
        assert 0 == bmc.count('POST', PUSH)
        bmc.put('/redfish/v1/Chassis/RoT', Oem={'Nvidia': {'BackgroundCopyStatus': 'Completed'}})
        _take(bmc, reply(202, TASK))
        assert TaskState.ACTIVE is connection.push(TARGET, _upload()).state
        del bmc.tree['/redfish/v1/Chassis/RoT']
        assert UpdateActivity.UNKNOWN is connection.update_activity(), 'what is gone copies nothing'
