# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The faults of BMCs, cards, power and answers do what their rows say, to a client that is not ours."""

import json

import pytest
import requests

from baremetal_acc.emulator.fault import BadFault, Faults

ROOT = '/redfish/v1'
ITEMS = f'{ROOT}/UpdateService/FirmwareInventory'
EROT = f'{ROOT}/Chassis/HGX_ERoT_GPU_0'
ITEM = f'{ITEMS}/HGX_FW_ERoT_GPU_0'
HOST = f'{ROOT}/Systems/System_0'
BMC = f'{ROOT}/Managers/BMC_0'
CARD = {'device': 'GPU_0'}


@pytest.fixture
def pair(fast, client):
    """A machine with two GPUs whose clock only the test moves, and a client of it."""

    def start(**more):
        machine = fast('gpu-server', gpus=2, virtual_clock=True, flash_seconds=10, bmc_reset_seconds=10, **more)
        return machine, client(machine.bmcs['host'])

    return start


def pushed(pair, gpu_image, name, **rule):
    """A machine with a fault whose root of trust is half written."""
    machine, bmc = pair()
    machine.fault(name, **rule)
    answer = bmc.push(ITEM, gpu_image(component='erot'))
    assert 202 == answer.status_code
    machine.advance(5)
    return machine, bmc, answer


def version(machine) -> str:
    """What the root of trust of the first GPU really runs."""
    return machine.truth()['components']['host/HGX_FW_ERoT_GPU_0']['active']['version']


def test_a_task_stays_at_100_percent(pair, gpu_image):
    """Whether or not the image was written, and the target stays busy."""
    for completes, runs in ((False, '01.02.0060.0000_n00'), (True, '2.0.0')):
        machine, bmc, answer = pushed(pair, gpu_image, 'task-stuck', at_percent=100, completes=completes, **CARD)
        machine.advance(3600)
        task = bmc.get(answer.json()['@odata.id'])
        assert ('Running', 100) == (task['TaskState'], task['PercentComplete'])
        assert runs == version(machine)
        assert 503 == bmc.push(ITEM, gpu_image(component='erot')).status_code


def test_a_task_fails_and_the_image_was_written(pair, gpu_image):
    """Exception, and the new version runs."""
    machine, bmc, answer = pushed(pair, gpu_image, 'task-fails', completes=True, **CARD)
    assert ('Exception', '2.0.0') == (bmc.get(answer.json()['@odata.id'])['TaskState'], version(machine))


@pytest.mark.parametrize(('status', 'completes'), [('Critical', False), ('OK', False), ('Critical', True)])
def test_a_task_completes_with_a_critical_message(pair, gpu_image, status, completes):
    """Completed, 100 %; what it did is seen in the item alone."""
    machine, bmc, answer = pushed(pair, gpu_image, 'task-completed-critical', status=status, completes=completes, **CARD)
    machine.advance(10)
    task = bmc.get(answer.json()['@odata.id'])
    assert ('Completed', status, 'Critical') == (task['TaskState'], task['TaskStatus'], task['Messages'][-1]['MessageSeverity'])
    assert completes is (version(machine) == '2.0.0')


def test_a_task_id_is_that_of_another_job(pair, gpu_image):
    """It runs, it completes, and it has nothing to do with the update."""
    machine, bmc, answer = pushed(pair, gpu_image, 'task-id-reused', **CARD)
    task = answer.json()['@odata.id']
    assert ('Running', 'Collection of diagnostic data') == (bmc.get(task)['TaskState'], bmc.get(task)['Name'])
    machine.advance(20)
    assert 'Completed' == bmc.get(task)['TaskState']
    assert '01.02.0060.0000_n00' == version(machine)


def test_a_monitor_says_200_and_nothing_else(pair, gpu_image):
    """Long before the end, which the Task itself tells."""
    _, bmc, answer = pushed(pair, gpu_image, 'monitor-empty')
    assert b'' == answer.content
    monitor = bmc.call('GET', answer.headers['Location'])
    assert (200, b'') == (monitor.status_code, monitor.content)
    assert 'Running' == bmc.get(f'{ROOT}/TaskService/Tasks/0')['TaskState']


def test_a_bmc_restarts_instead_of_answering_and_is_silent_for_as_long_as_told(pair):
    """Its sessions and tasks are gone."""
    machine, bmc = pair()
    machine.fault('bmc-restart-on-request', uri=HOST, method='GET', count=1, seconds=100)
    for seconds in (0, 99):
        machine.advance(seconds)
        with pytest.raises(requests.ConnectionError):
            bmc.call('GET', HOST)
    machine.advance(1)
    assert 200 == bmc.call('GET', HOST).status_code


def test_two_images_at_once_are_too_many(pair, gpu_image):
    """The BMC restarts, and what it was writing is lost; one at a time it takes."""
    machine, bmc = pair()
    machine.fault('memory-exhausted')
    assert 202 == bmc.push(ITEM, gpu_image(component='erot')).status_code
    with pytest.raises(requests.ConnectionError):
        bmc.push(ITEM.replace('GPU_0', 'GPU_1'), gpu_image(component='erot'))
    machine.advance(60)
    assert [] == bmc.get(f'{ROOT}/TaskService/Tasks')['Members']
    assert '01.02.0060.0000_n00' == version(machine)


def test_no_password_and_no_session_is_taken_any_more(pair):
    """Until the rule is taken away."""
    machine, bmc = pair()
    login = {'UserName': bmc.http.auth[0], 'Password': bmc.http.auth[1]}
    token = bmc.post(f'{ROOT}/SessionService/Sessions', login).headers['X-Auth-Token']
    machine.fault('password-rotated')
    assert 401 == bmc.call('GET', HOST).status_code
    assert 401 == bmc.call('GET', HOST, headers={'X-Auth-Token': token}, auth=lambda request: request).status_code
    assert 401 == bmc.post(f'{ROOT}/SessionService/Sessions', login).status_code
    assert 200 == bmc.call('GET', ROOT).status_code
    machine.clear_faults()
    assert 200 == bmc.call('GET', HOST).status_code


def test_new_connections_meet_another_certificate(pair, client):
    """One that connected before goes on; who connects now finds no reason to trust it."""
    machine, bmc = pair()
    assert 200 == bmc.call('GET', HOST).status_code
    machine.fault('certificate-changed')
    assert 200 == bmc.call('GET', HOST).status_code
    other = client(machine.bmcs['host'])
    with pytest.raises(requests.exceptions.SSLError):
        other.call('GET', HOST)
    machine.clear_faults()
    assert 200 == client(machine.bmcs['host']).call('GET', HOST).status_code


def test_a_clock_jumps_once_and_what_was_noted_stays(pair):
    """DateTime is a day later, LastResetTime is not; the next reset has the new time."""
    machine, bmc = pair()
    before, reset = bmc.get(BMC)['DateTime'], bmc.get(HOST)['LastResetTime']
    machine.advance(5)
    machine.fault('clock-jumps', seconds=-86400)
    assert before > bmc.get(BMC)['DateTime']
    assert reset == bmc.get(HOST)['LastResetTime']
    bmc.post(f'{HOST}/Actions/ComputerSystem.Reset', {'ResetType': 'ForceRestart'})
    machine.advance(5)
    assert reset > bmc.get(HOST)['LastResetTime']


def test_an_item_has_another_name_once_it_was_sent_an_image(pair, gpu_image):
    """Old name 404, new name in the collection and everywhere that links to it."""
    machine, bmc, _ = pushed(pair, gpu_image, 'item-renamed', **CARD)
    machine.advance(10)
    assert 404 == bmc.call('GET', ITEM).status_code
    assert ('HGX_FW_ERoT_GPU_0_1', '2.0.0') == tuple(bmc.get(f'{ITEM}_1')[key].strip() for key in ('Id', 'Version'))
    members = [member['@odata.id'] for member in bmc.get(ITEMS)['Members']]
    assert (True, False) == (f'{ITEM}_1' in members, ITEM in members)
    assert 202 == bmc.push(f'{ITEM}_1', gpu_image(component='erot', version='3.0.0')).status_code


def test_two_cards_swap_their_names(pair, gpu_image):
    """Serial numbers and versions move; an image for the one goes to the other."""
    machine, bmc = pair()
    place = f'{ROOT}/Systems/HGX_Baseboard_0/Processors/GPU_{{}}'
    one, other = (bmc.get(place.format(n))['SerialNumber'] for n in (0, 1))
    machine.fault('cards-swapped')
    assert [other, one] == [bmc.get(place.format(n))['SerialNumber'] for n in (0, 1)]
    assert 202 == bmc.push(ITEM, gpu_image(component='erot')).status_code
    machine.advance(20)
    assert '01.02.0060.0000_n00' == version(machine)
    assert '2.0.0' == bmc.get(ITEM)['Version'].strip()


def test_a_card_is_exchanged_for_one_of_the_same_model(pair):
    """Other serial number and UUID, the same model; the other card is what it was."""
    machine, bmc = pair()
    places = [f'{ROOT}/Systems/HGX_Baseboard_0/Processors/GPU_{n}' for n in (0, 1)]
    before = [bmc.get(place) for place in places]
    machine.fault('card-exchanged', **CARD)
    after = [bmc.get(place) for place in places]
    assert before[0]['Model'] == after[0]['Model']
    for key in ('SerialNumber', 'UUID'):
        assert before[0][key] != after[0][key]
        assert before[1][key] == after[1][key]


def test_the_power_fails_in_the_middle_of_a_write(pair, gpu_image):
    """The task fails, the host is off, and the card is left with what the rule says."""
    for leaves, runs in ((None, '01.02.0060.0000_n00'), ('recovery', 'recovery')):
        given = {} if leaves is None else {'leaves': leaves}
        machine, bmc, answer = pushed(pair, gpu_image, 'power-lost', **CARD, **given)
        assert ('Exception', 'Off') == (bmc.get(answer.json()['@odata.id'])['TaskState'], bmc.get(HOST)['PowerState'])
        assert runs == version(machine)


def test_a_change_of_power_under_a_write_is_remembered(pair, gpu_image):
    """The oracle tells; a restart when nothing is written is none."""
    machine, bmc = pair()
    bmc.post(f'{HOST}/Actions/ComputerSystem.Reset', {'ResetType': 'ForceRestart'})
    machine.advance(5)
    bmc.push(ITEM, gpu_image(component='erot'))
    assert [] == machine.truth()['cut_writes']
    bmc.post(f'{HOST}/Actions/ComputerSystem.Reset', {'ResetType': 'ForceOff'})
    cut = {'component': 'host/HGX_FW_ERoT_GPU_0', 'system': 'host', 'reset_type': 'ForceOff'}
    assert [cut] == machine.truth()['cut_writes']


@pytest.mark.parametrize('how', ['lock-lost-on-bmc-reset', 'lock-lost-on-update'])
def test_a_lock_is_lost_by_a_restart_of_the_bmc_or_by_an_update(pair, gpu_image, how):
    """It was closed, nobody opened it, and it is open."""
    machine, bmc = pair()
    machine.fault(how, **CARD)
    bmc.patch(EROT, {'Oem': {'Nvidia': {'InbandUpdatePolicyEnabled': False}}})
    assert machine.truth()['locks']['HGX_ERoT_GPU_0/InbandUpdatePolicyEnabled']['closed']
    if how == 'lock-lost-on-update':
        bmc.push(ITEM, gpu_image(component='erot'))
    else:
        bmc.post(f'{BMC}/Actions/Manager.Reset', {'ResetType': 'GracefulRestart'})
    machine.advance(30)
    assert True is bmc.get(EROT)['Oem']['Nvidia']['InbandUpdatePolicyEnabled']


def test_what_is_staged_stays_staged(pair, gpu_image):
    """A restart that should bring it in force does not; the next one does."""
    machine, bmc = pair()
    machine.fault('activation-lost', count=1, **CARD)
    bmc.push(f'{ITEMS}/HGX_FW_GPU_0', gpu_image())
    machine.advance(20)
    for active in ('96.00.30.00.01', '2.0.0'):
        bmc.post(f'{HOST}/Actions/ComputerSystem.Reset', {'ResetType': 'ForceRestart'})
        machine.advance(5)
        assert active == machine.truth()['components']['host/HGX_FW_GPU_0']['active']['version']


def test_an_image_comes_in_force_with_a_restart_of_its_bmc_alone(pair, gpu_image):
    """One of the host does nothing to it."""
    machine, bmc = pair()
    machine.fault('activates-with-bmc', **CARD)
    bmc.push(f'{ITEMS}/HGX_FW_GPU_0', gpu_image())
    machine.advance(20)
    for what, kind, active in (
        ('Systems/System_0', 'ComputerSystem', '96.00.30.00.01'),
        ('Managers/BMC_0', 'Manager', '2.0.0'),
    ):
        bmc.post(f'/redfish/v1/{what}/Actions/{kind}.Reset', {'ResetType': 'ForceRestart'})
        machine.advance(200)
        assert active == machine.truth()['components']['host/HGX_FW_GPU_0']['active']['version']


@pytest.mark.parametrize('after', [False, True])
def test_a_connection_stays_open_and_nothing_comes(pair, after):
    """With after, what was asked for has been done."""
    machine, bmc = pair()
    machine.fault('hang', uri=EROT, method='PATCH', after=after, count=1)
    with pytest.raises(requests.exceptions.ReadTimeout):
        bmc.http.patch(bmc.base + EROT, json={'Oem': {'Nvidia': {'InbandUpdatePolicyEnabled': False}}}, timeout=0.5)
    assert after is machine.truth()['locks']['HGX_ERoT_GPU_0/InbandUpdatePolicyEnabled']['closed']
    assert 200 == bmc.call('GET', EROT).status_code


def test_an_upload_is_taken_no_further(pair, gpu_image):
    """No answer, no task, and the target is free again once the client has gone."""
    machine, bmc = pair()
    machine.fault('upload-stalls', count=1, after_bytes=1000)
    files = {
        'UpdateParameters': (None, json.dumps({'Targets': [ITEM]}), 'application/json'),
        'UpdateFile': ('image.bin', gpu_image(component='erot'), 'application/octet-stream'),
    }
    with pytest.raises(requests.exceptions.Timeout):
        bmc.http.post(f'{bmc.base}{ROOT}/UpdateService/update-multipart', files=files, timeout=0.5)
    assert [] == bmc.get(f'{ROOT}/TaskService/Tasks')['Members']


def test_a_body_comes_byte_by_byte(pair):
    """The status is there at once; the body is not."""
    machine, bmc = pair()
    machine.fault('drip', uri=HOST, bytes_per_second=20, count=1)
    with bmc.http.get(bmc.base + HOST, stream=True, timeout=10) as answer:
        assert 200 == answer.status_code
        assert b'{' == answer.raw.read(1)


@pytest.mark.parametrize('how', ['duplicate-keys', 'huge', 'nan', 'many-members', 'endless-next', 'deep'])
def test_json_is_strange(pair, how):
    """Each in its way; the status is 200."""
    machine, bmc = pair()
    machine.fault('strange-json', how=how, uri=ITEMS, count=1)
    answer = bmc.call('GET', ITEMS)
    assert 200 == answer.status_code
    body = answer.content
    expected = {
        'duplicate-keys': 2 == body.count(b'"Members":'),
        'huge': len(body) > 16 * 1024 * 1024,
        'nan': b'NaN' in body and b'Infinity' in body,
        'many-members': body.count(b'@odata.id') > 1_000_000,
        'endless-next': f'"Members@odata.nextLink": "{ITEMS}?$skip=0"'.encode() in body,
        'deep': b'[' * 100_000 in body,
    }
    assert expected[how]


def test_a_status_comes_with_the_retry_after_that_it_was_told(pair):
    """Also with one that says nothing."""
    machine, bmc = pair()
    machine.fault('http-status', uri=HOST, status=503, retry_after='soon', count=1)
    answer = bmc.call('GET', HOST)
    assert (503, 'soon') == (answer.status_code, answer.headers['Retry-After'])


def test_the_log_tells_reads_when_asked_and_what_was_written_on_the_same_card(pair, gpu_image):
    """Both in the order in which they came."""
    machine, bmc = pair()
    uris = (ITEM, f'{ITEMS}/HGX_FW_GPU_0')
    for uri, component in zip(uris, ('erot', 'gpu'), strict=True):
        bmc.get(uri)
        assert 202 == bmc.push(uri, gpu_image(component=component)).status_code
    assert [[], ['host/HGX_FW_ERoT_GPU_0']] == [entry['overlaps'] for entry in machine.log()]
    entries = machine.log(reads=True)
    assert [entry['number'] for entry in entries] == sorted(entry['number'] for entry in entries)
    assert set(uris) <= {entry['path'] for entry in entries if entry['method'] == 'GET'}


@pytest.mark.parametrize(
    ('rule', 'words'),
    [
        ({'name': 'strange-json', 'how': 'odd'}, 'how must be one of deep, duplicate-keys'),
        ({'name': 'strange-json', 'how': 3}, 'how must be a string'),
        ({'name': 'bmc-restart', 'seconds': 'long'}, 'seconds must be a number'),
        ({'name': 'bmc-restart', 'seconds': True}, 'seconds must be a number'),
        ({'name': 'http-status', 'retry_after': []}, 'retry_after must be a number or a string'),
        ({'name': 'power-lost', 'leaves': 3}, 'leaves must be a string'),
    ],
)
def test_a_rule_that_cannot_be_is_refused(rule, words):
    """Also where a parameter may be left out."""
    with pytest.raises(BadFault, match=words):
        Faults().add(rule)
