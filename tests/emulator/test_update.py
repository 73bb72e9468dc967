# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The emulator updates firmware like a real BMC: push and pull, tasks, one target, and the locks of the BMC's own path."""

import base64
import hashlib
import http.server
import json
import socket
import threading

import pytest

ROOT = '/redfish/v1'
ITEMS = f'{ROOT}/UpdateService/FirmwareInventory'
SLOTS = f'{ROOT}/UpdateService/SoftwareInventory'
HOST = f'{ROOT}/Systems/System_0'
GPU = f'{ROOT}/Systems/HGX_Baseboard_0/Processors/GPU_0'
FPGA = f'{HOST}/Processors/FPGA1'


def test_a_push_is_a_task_with_progress_and_the_version_changes_after_the_restart(fast, client, gpu_image, wait):
    """202 with the Task and its monitor; StagedVersion until the host restarts; blanks pad the item, not the Processor."""
    machine = fast('gpu-server', flash_seconds=0.6)
    bmc = client(machine.bmcs['host'])
    old = bmc.get(f'{ITEMS}/HGX_FW_GPU_0')
    assert ('96.00.30.00.01  ', True) == (old['Version'], old['ResetRequiredOnUpdate'])
    image = gpu_image('96.00.A6.00.01', size_bytes=2_000_000)

    answer = bmc.push(f'{ITEMS}/HGX_FW_GPU_0', image)
    assert 202 == answer.status_code
    monitor = answer.headers['Location']
    assert ('1', 202) == (answer.headers['Retry-After'], bmc.call('GET', monitor).status_code)
    seen = set()

    def ended():
        task = bmc.get(answer.json()['@odata.id'])
        seen.add(task['PercentComplete'])
        return task if task['TaskState'] == 'Completed' else None

    task = wait(ended)
    assert ('OK', 100) == (task['TaskStatus'], task['PercentComplete'])
    assert len(seen) > 3
    assert 200 == bmc.call('GET', monitor).status_code
    assert old['Version'] == bmc.get(f'{ITEMS}/HGX_FW_GPU_0')['Version']
    pcie = bmc.get(f'{ROOT}/Chassis/HGX_GPU_0/PCIeDevices/GPU_0')
    assert ('96.00.30.00.01', '96.00.A6.00.01') == (pcie['FirmwareVersion'], pcie['StagedVersion'])

    bmc.reset(HOST, 'GracefulRestart')
    assert '96.00.A6.00.01  ' == bmc.get(f'{ITEMS}/HGX_FW_GPU_0')['Version']
    assert '96.00.A6.00.01' == bmc.get(GPU)['FirmwareVersion']
    truth = machine.truth()['components']['host/HGX_FW_GPU_0']
    assert f'sha256:{hashlib.sha256(image).hexdigest()}' == truth['active']['digest']
    pushed = [entry for entry in machine.log() if entry['path'].endswith('update-multipart')]
    assert [(202, truth['active']['digest'], len(image))] == [
        (one['status'], one['digest'], one['received_bytes']) for one in pushed
    ]


class _Images(http.server.BaseHTTPRequestHandler):
    image = b''

    def do_GET(self):
        if self.path != '/image.bin':
            self.send_error(404)
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.image)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def images():
    """An image server on loopback."""
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), _Images)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f'http://127.0.0.1:{server.server_address[1]}'
    server.shutdown()
    thread.join()
    server.server_close()


def simple_update(bmc, uri, target, **more):
    action = bmc.get(f'{ROOT}/UpdateService')['Actions']['#UpdateService.SimpleUpdate']['target']
    body = {'ImageURI': uri, 'TransferProtocol': 'HTTP', 'Targets': [target], '@Redfish.OperationApplyTime': 'Immediate'}
    return bmc.post(action, body | more)


def test_simple_update_fetches_the_image_itself(fast, client, gpu_image, images):
    """The bytes come from the URI: the fetch is recorded and the version changes."""
    machine = fast('acc-server')
    bmc = client(machine.bmcs['host'])
    _Images.image = gpu_image(component='erot')
    task = bmc.finished(simple_update(bmc, f'{images}/image.bin', f'{ITEMS}/HGX_FW_ERoT_GPU_1'))
    assert 'Completed' == task['TaskState']
    assert '2.0.0' == bmc.get(f'{ITEMS}/HGX_FW_ERoT_GPU_1')['Version']
    fetch = machine.truth()['fetches'][0]
    assert (200, len(_Images.image), None) == (fetch['status'], fetch['received_bytes'], fetch['error'])


def test_a_fetch_that_fails_is_a_task_that_fails(fast, client, images):
    """404 at the image server, nothing listening, and no URI at all."""
    machine = fast('gpu-server')
    bmc = client(machine.bmcs['host'])
    for uri in (f'{images}/missing', 'http://127.0.0.1:9/x'):
        task = bmc.finished(simple_update(bmc, uri, f'{ITEMS}/HGX_FW_GPU_0'))
        assert ('Exception', 'Critical') == (task['TaskState'], task['TaskStatus'])
        assert uri in task['Messages'][-1]['Message']
    for uri in ('ftp://127.0.0.1/x', 'nonsense', 'http://'):
        assert 400 == simple_update(bmc, uri, f'{ITEMS}/HGX_FW_GPU_0').status_code
    assert 400 == simple_update(bmc, f'{images}/x', f'{ITEMS}/HGX_FW_GPU_0', TransferProtocol='SCP').status_code


@pytest.mark.parametrize(
    ('parameters', 'words'),
    [
        ({}, 'exactly one Target'),
        ({'Targets': []}, 'exactly one Target'),
        ({'Targets': [f'{ITEMS}/HGX_FW_GPU_0', f'{ITEMS}/HGX_FW_GPU_1']}, 'one request per Target'),
        ({'Targets': [f'{ITEMS}/NOTHING']}, 'not an item of this BMC'),
        ({'Targets': [HOST]}, 'not an item of this BMC'),
        ({'Targets': 'x'}, 'wrong type'),
        ({'Targets': [f'{ITEMS}/UEFI'], 'Tragets': []}, 'Tragets'),
        ({'Targets': [f'{ITEMS}/UEFI'], '@Redfish.OperationApplyTime': 'Someday'}, 'Someday'),
    ],
)
def test_a_request_that_does_not_say_what_it_wants_is_refused(fast, client, gpu_image, parameters, words):
    """One explicit Target; the error names what is wrong, and no task begins."""
    machine = fast('gpu-server')
    bmc = client(machine.bmcs['host'])
    answer = bmc.push(None, gpu_image(), parameters)
    assert 400 == answer.status_code
    assert words in answer.json()['error']['message']
    assert [] == bmc.get(f'{ROOT}/TaskService/Tasks')['Members']


def test_a_bmc_that_is_not_strict_takes_no_target_as_all_that_fits(fast, client, gpu_image):
    """The danger of the standard: without Targets the image goes to every GPU."""
    from baremetal_acc.emulator.redfish.view import Options

    machine = fast('gpu-server', gpus=3, options={'*': Options(strict_targets=False)})
    bmc = client(machine.bmcs['host'])
    bmc.finished(bmc.push(None, gpu_image(component='erot'), {}))
    versions = [bmc.get(f'{ITEMS}/HGX_FW_ERoT_GPU_{number}')['Version'] for number in range(3)]
    assert ['2.0.0'] * 3 == versions


def loose(fast, **more):
    """A machine whose BMC takes a request without Targets."""
    from baremetal_acc.emulator.redfish.view import Options

    return fast('gpu-server', gpus=3, options={'*': Options(strict_targets=False)}, **more)


def ends_at(machine) -> list[str]:
    """Which root of trust of the GPUs runs which version, in truth."""
    parts = machine.truth()['components']
    return [parts[f'host/HGX_FW_ERoT_GPU_{number}']['active']['version'] for number in range(3)]


def without_targets(bmc, uri):
    """SimpleUpdate that leaves it to the BMC what is updated."""
    action = bmc.get(f'{ROOT}/UpdateService')['Actions']['#UpdateService.SimpleUpdate']['target']
    return bmc.post(action, {'ImageURI': uri})


def test_a_fetched_image_without_target_goes_to_all_that_it_fits(fast, client, gpu_image, images):
    """As a pushed one does; nothing that was not written is called completed. The task says what it was for."""
    machine = loose(fast)
    bmc = client(machine.bmcs['host'])
    before = machine.truth()['components']
    _Images.image = gpu_image(component='erot')
    task = bmc.finished(without_targets(bmc, f'{images}/image.bin'))
    assert 'Completed' == task['TaskState']
    assert ['2.0.0'] * 3 == ends_at(machine)
    assert 'Update of HGX_FW_ERoT_GPU_0, HGX_FW_ERoT_GPU_1, HGX_FW_ERoT_GPU_2' == task['Name']
    after = machine.truth()['components']
    others = [key for key in before if 'ERoT' not in key]
    assert [before[key] for key in others] == [after[key] for key in others]


def test_a_fetched_image_without_target_that_fits_nothing_is_an_exception(fast, client, gpu_image, images):
    """And so is one that is no image."""
    machine = loose(fast)
    bmc = client(machine.bmcs['host'])
    before = machine.truth()['components']
    for image, words in ((gpu_image(model='a100'), 'fits no component'), (b'nonsense' * 100, 'magic line')):
        _Images.image = image
        task = bmc.finished(without_targets(bmc, f'{images}/image.bin'))
        assert ('Exception', 'Critical') == (task['TaskState'], task['TaskStatus'])
        assert words in task['Messages'][-1]['Message']
    assert before == machine.truth()['components']


def test_a_fetched_image_without_target_waits_for_nobody(fast, client, gpu_image, images):
    """What it fits is being written already: the task ends in an exception, and the other one goes on."""
    machine = loose(fast, flash_seconds=1.5)
    bmc = client(machine.bmcs['host'])
    first = bmc.push(f'{ITEMS}/HGX_FW_ERoT_GPU_1', gpu_image('3.0.0', component='erot'))
    _Images.image = gpu_image(component='erot')
    task = bmc.finished(without_targets(bmc, f'{images}/image.bin'))
    assert 'Exception' == task['TaskState']
    assert 'is being updated' in task['Messages'][-1]['Message']
    assert 'Completed' == bmc.finished(first)['TaskState']
    old = ends_at(machine)
    assert '3.0.0' == old[1]
    assert '2.0.0' not in old


def test_a_card_that_is_gone_is_not_written_by_an_image_without_target(fast, client, gpu_image, images):
    """Neither when it is pushed, nor when it is fetched."""
    machine = loose(fast)
    bmc = client(machine.bmcs['host'])
    machine.fault('device-absent', device='GPU_1')
    gone = ends_at(machine)[1]
    bmc.finished(bmc.push(None, gpu_image('3.0.0', component='erot'), {}))
    assert ['3.0.0', gone, '3.0.0'] == ends_at(machine)
    _Images.image = gpu_image(component='erot')
    bmc.finished(without_targets(bmc, f'{images}/image.bin'))
    assert ['2.0.0', gone, '2.0.0'] == ends_at(machine)


@pytest.mark.parametrize(
    ('target', 'arguments', 'message'),
    [
        (f'{ITEMS}/HGX_FW_GPU_0', {'model': 'a100'}, 'has model h100'),
        (f'{ITEMS}/HGX_FW_GPU_0', {'component': 'erot'}, 'is component gpu'),
        (f'{SLOTS}/FPGA1_Slot0', {'model': 'd5005', 'component': 'slot'}, 'requires a function image'),
    ],
)
def test_an_image_for_something_else_is_an_exception_that_says_so(fast, client, gpu_image, target, arguments, message):
    """The BMC takes the bytes, judges, and the task tells."""
    machine = fast('acc-server')
    bmc = client(machine.bmcs['host'])
    before = machine.truth()['components']
    task = bmc.finished(bmc.push(target, gpu_image(**arguments)))
    assert 'Exception' == task['TaskState']
    assert message in task['Messages'][-1]['Message']
    assert before.keys() == machine.truth()['components'].keys()
    assert [one['active'] for one in before.values()] == [one['active'] for one in machine.truth()['components'].values()]


def test_a_function_image_is_no_firmware(fast, client, function_image):
    """Firmware and function are two things, also at the FPGA's own item."""
    bmc = client(fast('fpga-server').bmcs['host'])
    task = bmc.finished(bmc.push(f'{ITEMS}/FPGA1_FW', function_image()))
    assert 'requires a firmware image' in task['Messages'][-1]['Message']


def test_programming_a_slot_makes_its_function_appear(fast, client, function_image):
    """An empty slot has neither link nor resource; a programmed one has both, at once and without a restart."""
    machine = fast('fpga-server')
    bmc = client(machine.bmcs['host'])
    item = bmc.get(f'{SLOTS}/FPGA1_Slot1')
    assert ('', False) == (item['Version'], item['Active'])
    assert [{'@odata.id': f'{FPGA}#/FPGA/ReconfigurationSlots/1'}] == item['RelatedItem']
    slots = bmc.get(FPGA)['FPGA']['ReconfigurationSlots']
    assert ['Slot0', 'Slot1'] == [slot['SlotId'] for slot in slots]
    assert not any('AccelerationFunction' in slot for slot in slots)
    assert [] == bmc.get(f'{FPGA}/AccelerationFunctions')['Members']

    task = bmc.finished(bmc.push(f'{SLOTS}/FPGA1_Slot1', function_image('1.4', 'aes-gcm')))
    assert 'Completed' == task['TaskState']
    slots = bmc.get(FPGA)['FPGA']['ReconfigurationSlots']
    assert 'AccelerationFunction' not in slots[0]
    function = bmc.get(slots[1]['AccelerationFunction']['@odata.id'])
    assert ('aes-gcm', '1.4', 'Encryption', ['Slot1']) == (
        function['Name'],
        function['Version'],
        function['AccelerationFunctionType'],
        function['FpgaReconfigurationSlots'],
    )
    assert '1.4' == bmc.get(f'{SLOTS}/FPGA1_Slot1')['Version']


def test_four_cards_are_flashed_at_once_and_the_fifth_waits(fast, client, gpu_image):
    """parallel_updates of the BMC; busy is 503 with Retry-After and a message of the Base registry."""
    machine = fast('gpu-server', gpus=5, flash_seconds=1.0)
    bmc = client(machine.bmcs['host'])
    running = [bmc.push(f'{ITEMS}/HGX_FW_GPU_{number}', gpu_image()) for number in range(4)]
    assert [202] * 4 == [one.status_code for one in running]
    for target in ('HGX_FW_GPU_4', 'HGX_FW_GPU_0'):
        refused = bmc.push(f'{ITEMS}/{target}', gpu_image())
        assert 503 == refused.status_code
        assert int(refused.headers['Retry-After']) >= 1
        assert refused.json()['error']['code'].endswith('ServiceTemporarilyUnavailable')
    assert ['Completed'] * 4 == [bmc.finished(one)['TaskState'] for one in running]
    assert 202 == bmc.push(f'{ITEMS}/HGX_FW_GPU_4', gpu_image()).status_code


def test_write_protected_stops_the_bmc_and_can_be_taken_back(fast, client, gpu_image):
    """It blocks bmc-network too: the operator releases it for the own flash."""
    machine = fast('gpu-server')
    bmc = client(machine.bmcs['host'])
    item = f'{ITEMS}/HGX_FW_GPU_0'
    assert False is bmc.get(item)['WriteProtected']
    assert 204 == bmc.patch(item, {'WriteProtected': True}).status_code
    assert True is bmc.get(item)['WriteProtected']
    task = bmc.finished(bmc.push(item, gpu_image()))
    assert 'is write-protected' in task['Messages'][-1]['Message']
    assert None is machine.truth()['components']['host/HGX_FW_GPU_0']['staged']
    bmc.patch(item, {'WriteProtected': False})
    assert 'Completed' == bmc.finished(bmc.push(item, gpu_image()))['TaskState']


def test_an_item_without_write_protection_has_no_such_property(fast, client):
    """As on real BMCs, where few items have it: a PATCH names a property that is not known."""
    bmc = client(fast('gpu-server').bmcs['host'])
    item = f'{ITEMS}/HGX_FW_ERoT_GPU_0'
    assert 'WriteProtected' not in bmc.get(item)
    answer = bmc.patch(item, {'WriteProtected': True})
    assert (400, True) == (answer.status_code, 'WriteProtected' in answer.json()['error']['message'])


def test_what_a_bmc_cannot_do_it_does_not_offer(fast, client):
    """Pull only, push only, and no UpdateService at all."""
    from baremetal_acc.emulator.redfish.view import Options

    pull = client(fast('gpu-server', options={'host': Options(push=False)}).bmcs['host'])
    service = pull.get(f'{ROOT}/UpdateService')
    assert ('MultipartHttpPushUri' in service, '#UpdateService.SimpleUpdate' in service['Actions']) == (False, True)
    assert 404 == pull.post(f'{ROOT}/UpdateService/update-multipart', {}).status_code
    push = client(fast('gpu-server', options={'host': Options(pull=False)}).bmcs['host'])
    assert 'Actions' not in push.get(f'{ROOT}/UpdateService')
    none = client(fast('acc-server', options={'*': Options(update_service=False)}).bmcs['dpu'])
    assert 'UpdateService' not in none.get(ROOT)
    assert 404 == none.call('GET', f'{ROOT}/UpdateService').status_code


def test_a_body_that_is_no_multipart_and_an_image_that_is_too_large_are_refused(fast, client, gpu_image):
    """Sizes are bounded on both sides."""
    from baremetal_acc.emulator.redfish.view import Options

    bmc = client(fast('gpu-server', options={'*': Options(max_image_bytes=100_000)}).bmcs['host'])
    uri = f'{ROOT}/UpdateService/update-multipart'
    assert 415 == bmc.post(uri, {'Targets': []}).status_code
    answer = bmc.push(f'{ITEMS}/HGX_FW_GPU_0', gpu_image(size_bytes=300_000))
    assert 413 == answer.status_code
    assert 100_000 == bmc.get(f'{ROOT}/UpdateService')['MaxImageSizeBytes']
    missing = {'UpdateFile': ('x', b'x', 'application/octet-stream')}
    answer = bmc.call('POST', uri, files=missing)
    assert (400, True) == (answer.status_code, 'UpdateParameters' in answer.json()['error']['message'])
    assert 202 == bmc.push(f'{ITEMS}/HGX_FW_GPU_0', gpu_image()).status_code


def _raw_push(bmc, auth, body, headers):
    """Send bytes as they are, and close: what a client does that dies."""
    connection = socket.create_connection(('127.0.0.1', int(bmc.rsplit(':', 1)[1])))
    head = f'POST {ROOT}/UpdateService/update-multipart HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {auth}\r\n{headers}\r\n\r\n'
    connection.sendall(head.encode() + body)
    return connection


def test_a_client_that_dies_in_the_middle_leaves_the_target_free(fast, client, gpu_image, wait):
    """No task, and the log says how many bytes had come."""
    machine = fast('gpu-server', tls=False)
    bmc = client(machine.bmcs['host'])
    auth = base64.b64encode(f'{machine.bmcs["host"].username}:{machine.bmcs["host"].password}'.encode()).decode()
    item = f'{ITEMS}/HGX_FW_GPU_0'
    body = (
        b'--b\r\nContent-Disposition: form-data; name="UpdateParameters"\r\n\r\n'
        + json.dumps({'Targets': [item]}).encode()
        + b'\r\n--b\r\nContent-Disposition: form-data; name="UpdateFile"; filename="x"\r\n\r\n'
        + gpu_image()[:30000]
    )
    headers = f'Content-Type: multipart/form-data; boundary=b\r\nContent-Length: {len(body) + 50000}'
    connection = _raw_push(machine.bmcs['host'].address, auth, body, headers)
    wait(lambda: machine.truth()['bmcs']['host']['uploads'] == ['host/HGX_FW_GPU_0'])
    assert 503 == bmc.push(item, gpu_image()).status_code
    connection.close()
    wait(lambda: any(entry['status'] == 0 for entry in machine.log()))
    assert [] == bmc.get(f'{ROOT}/TaskService/Tasks')['Members']
    assert 202 == bmc.push(item, gpu_image()).status_code


@pytest.mark.parametrize(
    ('content_type', 'body'),
    [
        ('multipart/form-data', b'x'),
        ('multipart/form-data; boundary=b', b'no boundary at all'),
        ('multipart/form-data; boundary=b', b'--b\r\nContent-Disposition: form-data; name="Other"\r\n\r\nx\r\n--b--\r\n'),
        ('multipart/form-data; boundary=b', b'--b\r\n\r\nx\r\n--b--\r\n'),
        (
            'multipart/form-data; boundary=b',
            b'--b\r\nContent-Disposition: form-data; name="UpdateParameters"\r\n\r\n{no json\r\n--b--\r\n',
        ),
        (
            'multipart/form-data; boundary=b',
            b'--b\r\nContent-Disposition: form-data; name="UpdateParameters"\r\n\r\n[1]\r\n--b--\r\n',
        ),
        ('multipart/form-data; boundary=b', b'--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c--\r\n--b--\r\n'),
    ],
)
def test_a_multipart_body_that_is_none_is_refused_with_400(fast, client, content_type, body):
    """Whatever comes, the BMC answers and goes on."""
    bmc = client(fast('gpu-server').bmcs['host'])
    uri = f'{ROOT}/UpdateService/update-multipart'
    answer = bmc.call('POST', uri, data=body, headers={'Content-Type': content_type})
    assert (400, True) == (answer.status_code, 'error' in answer.json())
    assert bmc.get(ROOT)


# ------------------------------------------------------------------------------------------------ the own journal


def test_the_journal_of_the_machine_counts_uploads_writes_activations_and_restarts(fast, client, gpu_image):
    """In order, with digests, for the oracle of tests; emptied with the log."""
    machine = fast('gpu-server')
    bmc = client(machine.bmcs['host'])
    image = gpu_image()
    digest = f'sha256:{hashlib.sha256(image).hexdigest()}'
    bmc.finished(bmc.push(f'{ITEMS}/HGX_FW_GPU_1', image))
    bmc.reset(HOST, 'PowerCycle')
    assert ['upload', 'written', 'restarted', 'activated'] == [one['what'] for one in machine.history()]
    upload, written, restarted, activated = machine.history()
    assert (digest, None) == (upload['digest'], upload['package'])
    assert ('host/HGX_FW_GPU_1', 'GPU_1', '2.0.0', digest, 'bmc') == tuple(
        written[name] for name in ('component', 'device', 'version', 'digest', 'writer')
    )
    assert ('host', 'cold') == (restarted['system'], restarted['depth'])
    assert ('host/HGX_FW_GPU_1', '2.0.0') == (activated['component'], activated['version'])
    machine.tenant_write('GPU_0', gpu_image('6.6.6'))
    assert ['bmc', 'host'] == [one['writer'] for one in machine.history('written')]
    machine.reset_log()
    assert [] == machine.history()


def test_the_journal_of_the_machine_tells_why_nothing_was_written(fast, client, gpu_image):
    """An image for something else has failed, with the reason."""
    machine = fast('gpu-server')
    bmc = client(machine.bmcs['host'])
    bmc.finished(bmc.push(f'{ITEMS}/HGX_FW_GPU_1', gpu_image(model='a100')))
    assert [('host/HGX_FW_GPU_1', 'wrong-model')] == [(one['component'], one['reason']) for one in machine.history('failed')]
    assert [] == machine.history('written')
