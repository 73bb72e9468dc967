# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Faults of HTTP: the emulated BMC misbehaves on the wire as its fault rules say, and only there."""

import time

import pytest
import requests

ROOT = '/redfish/v1'
ITEMS = f'{ROOT}/UpdateService/FirmwareInventory'
EROT = f'{ROOT}/Chassis/HGX_ERoT_GPU_0'
HOST = f'{ROOT}/Systems/System_0'
LOCK = {'Oem': {'Nvidia': {'InbandUpdatePolicyEnabled': False}}}


def test_a_lock_that_is_ignored_answers_as_if_it_had_been_taken(fast, client, gpu_image):
    """The card of the demo: 204, and it stands open. Reading it back shows that; the other card is locked."""
    machine = fast('gpu-server')
    bmc = client(machine.bmcs['host'])
    machine.fault('lock-ignored', device='GPU_0')
    assert 204 == bmc.patch(EROT, LOCK).status_code
    assert 204 == bmc.patch(EROT.replace('GPU_0', 'GPU_1'), LOCK).status_code
    assert True is bmc.get(EROT)['Oem']['Nvidia']['InbandUpdatePolicyEnabled']
    assert machine.tenant_write('GPU_0', gpu_image())['written']
    assert not machine.tenant_write('GPU_1', gpu_image())['written']


def test_a_lock_that_lies_reads_locked_and_lets_the_tenant_in(fast, client, gpu_image):
    """Only the door and the oracle know."""
    machine = fast('gpu-server')
    bmc = client(machine.bmcs['host'])
    machine.fault('lock-reports-locked', uri='*/HGX_ERoT_GPU_0')
    assert False is bmc.get(EROT)['Oem']['Nvidia']['InbandUpdatePolicyEnabled']
    assert machine.tenant_write('GPU_0', gpu_image())['written']


def test_a_lock_is_lost_with_the_reset(fast, client):
    """Engaged, read back, and gone after the restart."""
    machine = fast('gpu-server')
    bmc = client(machine.bmcs['host'])
    machine.fault('lock-lost-on-reset', device='GPU_0')
    bmc.patch(EROT, LOCK)
    assert False is bmc.get(EROT)['Oem']['Nvidia']['InbandUpdatePolicyEnabled']
    bmc.reset(HOST, 'ForceRestart')
    assert True is bmc.get(EROT)['Oem']['Nvidia']['InbandUpdatePolicyEnabled']


def test_a_task_vanishes(fast, client, gpu_image, wait):
    """404 for the Task and its monitor, and no trace in the collection."""
    machine = fast('gpu-server', flash_seconds=0.4)
    bmc = client(machine.bmcs['host'])
    machine.fault('task-vanishes', device='GPU_0')
    answer = bmc.push(f'{ITEMS}/HGX_FW_GPU_0', gpu_image())
    task = answer.json()['@odata.id']
    assert 200 == bmc.call('GET', task).status_code
    wait(lambda: bmc.call('GET', task).status_code == 404)
    assert 404 == bmc.call('GET', answer.headers['Location']).status_code
    assert [] == bmc.get(f'{ROOT}/TaskService/Tasks')['Members']
    assert None is machine.truth()['components']['host/HGX_FW_GPU_0']['staged']


def test_a_task_fails_and_says_why(fast, client, gpu_image):
    """The message of the rule is the message of the task."""
    machine = fast('gpu-server')
    bmc = client(machine.bmcs['host'])
    machine.fault('task-fails', device='GPU_0', message='The flash chip is worn out.')
    task = bmc.finished(bmc.push(f'{ITEMS}/HGX_FW_GPU_0', gpu_image()))
    assert ('Exception', True) == (task['TaskState'], 'worn out' in task['Messages'][-1]['Message'])


def test_a_task_completes_and_the_version_does_not_change(fast, client, gpu_image):
    """Completed, 100 %, OK: and nothing."""
    machine = fast('gpu-server')
    bmc = client(machine.bmcs['host'])
    machine.fault('task-completed-version-unchanged', device='GPU_0')
    item = f'{ITEMS}/HGX_FW_ERoT_GPU_0'
    old = bmc.get(item)['Version']
    task = bmc.finished(bmc.push(item, gpu_image(component='erot')))
    assert ('Completed', 'OK', 100) == (task['TaskState'], task['TaskStatus'], task['PercentComplete'])
    assert old == bmc.get(item)['Version']


def test_updates_are_refused_for_a_while(fast, client, gpu_image):
    """503 with the Retry-After of the rule, as often as it says; other requests pass."""
    machine = fast('gpu-server')
    bmc = client(machine.bmcs['host'])
    machine.fault('update-503', count=2, retry_after=7)
    target = f'{ITEMS}/HGX_FW_GPU_0'
    refused = bmc.push(target, gpu_image())
    assert (503, '7') == (refused.status_code, refused.headers['Retry-After'])
    assert [503, 202] == [bmc.push(target, gpu_image()).status_code for _ in range(2)]


def test_the_connection_is_refused_before_or_cut_after_the_write(fast, client):
    """Before: nothing happened. After: it was carried out and the client cannot know. Both are in the log with status 0."""
    machine = fast('gpu-server')
    bmc = client(machine.bmcs['host'])
    machine.fault('refuse', uri=EROT, method='PATCH', count=1)
    with pytest.raises(requests.ConnectionError):
        bmc.patch(EROT, LOCK)
    assert True is bmc.get(EROT)['Oem']['Nvidia']['InbandUpdatePolicyEnabled']
    machine.fault('refuse', uri=EROT, method='PATCH', count=1, after=True)
    with pytest.raises(requests.ConnectionError):
        bmc.patch(EROT, LOCK)
    assert False is bmc.get(EROT)['Oem']['Nvidia']['InbandUpdatePolicyEnabled']
    assert [0, 0] == [entry['status'] for entry in machine.log()]


def test_answers_are_late_wrong_or_cut(fast, client):
    """slow, http-status, truncated-json, each for one URI."""
    machine = fast('gpu-server')
    bmc = client(machine.bmcs['host'])
    machine.fault('slow', uri=HOST, seconds=0.3, count=1)
    begin = time.monotonic()
    bmc.get(HOST)
    assert time.monotonic() - begin >= 0.3
    machine.fault('http-status', uri=f'{ROOT}/Chassis', status=500, count=1)
    answer = bmc.call('GET', f'{ROOT}/Chassis')
    assert (500, True) == (answer.status_code, 'error' in answer.json())
    machine.fault('truncated-json', uri=HOST, count=1)
    with pytest.raises(ValueError):
        bmc.call('GET', HOST).json()
    bmc.get(HOST)


def test_expanded_members_may_lack_what_is_required(fast, client):
    """As AMI based BMCs send them: the single GET has it."""
    machine = fast('gpu-server')
    bmc = client(machine.bmcs['host'])
    machine.fault('expand-broken', uri='*/Processors')
    uri = f'{ROOT}/Systems/HGX_Baseboard_0/Processors'
    member = bmc.get(f'{uri}?$expand=.')['Members'][0]
    assert ('ProcessorType' in member, 'Id' in member, 'Name' in member) == (True, False, False)
    assert 'Id' in bmc.get(member['@odata.id'])


def test_a_card_vanishes_with_all_that_belongs_to_it(fast, client):
    """Processor, Chassis, root of trust, firmware items; nothing links to them; the host does not see it either."""
    machine = fast('gpu-server')
    bmc = client(machine.bmcs['host'])
    rule = machine.fault('device-absent', device='GPU_2')
    assert 404 == bmc.call('GET', f'{ROOT}/Systems/HGX_Baseboard_0/Processors/GPU_2').status_code
    for uri in (f'{ROOT}/Chassis', ITEMS, f'{ROOT}/Systems/HGX_Baseboard_0/Processors', f'{ROOT}/Chassis/HGX_Chassis_0'):
        text = bmc.call('GET', uri).text
        assert ('GPU_2' in text, 'GPU_1' in text) == (False, True), uri
    assert 'GPU_2' not in machine.devices()
    machine.clear_faults(rule)
    assert 200 == bmc.call('GET', f'{ROOT}/Systems/HGX_Baseboard_0/Processors/GPU_2').status_code


def test_an_etag_that_is_wrong_lets_no_one_write_with_it(fast, client):
    """The ETag that is shown never matches: 412."""
    machine = fast('gpu-server')
    bmc = client(machine.bmcs['host'])
    machine.fault('wrong-etag', uri=EROT)
    shown = bmc.call('GET', EROT).headers['ETag']
    assert 412 == bmc.patch(EROT, LOCK, headers={'If-Match': shown}).status_code


def test_a_weak_etag_matches_nothing_or_its_strong_form(fast, client):
    """As RFC 9110 has it for If-Match, and as some BMCs do."""
    machine = fast('gpu-server')
    bmc = client(machine.bmcs['host'])
    rule = machine.fault('weak-etag', uri=EROT)
    shown = bmc.call('GET', EROT).headers['ETag']
    assert shown == bmc.call('GET', EROT).json()['@odata.etag']
    assert shown.startswith('W/"')
    for tag in (shown, shown[2:]):
        assert 412 == bmc.patch(EROT, LOCK, headers={'If-Match': tag}).status_code
    machine.clear_faults(rule)
    machine.fault('weak-etag', uri=EROT, matches=True)
    assert 412 == bmc.patch(EROT, LOCK, headers={'If-Match': shown}).status_code
    assert 204 == bmc.patch(EROT, LOCK, headers={'If-Match': shown[2:]}).status_code


def test_a_write_needs_a_condition_and_no_etag_is_shown(fast, client):
    """428 without If-Match; any condition will do where nobody can know one."""
    machine = fast('gpu-server')
    bmc = client(machine.bmcs['host'])
    machine.fault('precondition-required', uri=EROT, hides=True)
    seen = bmc.call('GET', EROT)
    assert ('ETag' in seen.headers, '@odata.etag' in seen.json()) == (False, False)
    assert 428 == bmc.patch(EROT, LOCK).status_code
    assert 204 == bmc.patch(EROT, LOCK, headers={'If-Match': '*'}).status_code


@pytest.mark.parametrize(('monitor', 'statuses'), [(True, (202, 204)), (False, (404, 404))])
def test_a_change_is_accepted_and_carried_out_later(fast, client, monitor, statuses):
    """Until then the lock is open, and no other change is taken."""
    machine = fast('gpu-server')
    bmc = client(machine.bmcs['host'])
    rule = machine.fault('patch-later', seconds=0.5, monitor=monitor)
    accepted = bmc.patch(EROT, LOCK)
    assert 202 == accepted.status_code
    assert statuses[0] == bmc.call('GET', accepted.headers['Location']).status_code
    assert 400 == bmc.patch(EROT, LOCK).status_code
    assert bmc.call('GET', EROT).json()['Oem']['Nvidia']['InbandUpdatePolicyEnabled']
    time.sleep(0.6)
    assert not bmc.call('GET', EROT).json()['Oem']['Nvidia']['InbandUpdatePolicyEnabled']
    assert statuses[1] == bmc.call('GET', accepted.headers['Location']).status_code
    machine.clear_faults(rule)
    assert 204 == bmc.patch(EROT, LOCK).status_code


def test_the_bmc_restarts_in_the_middle_of_an_update(fast, client, gpu_image, wait):
    """Silent, then back without the task; the firmware is as it was; the other BMC answers all the time."""
    machine = fast('acc-server', flash_seconds=0.3, bmc_reset_seconds=0.3)
    bmc, dpu = client(machine.bmcs['host']), client(machine.bmcs['dpu'])
    machine.fault('bmc-restart', device='GPU_0', count=1)
    task = bmc.push(f'{ITEMS}/HGX_FW_GPU_0', gpu_image()).json()['@odata.id']

    def is_silent():
        try:
            bmc.call('GET', ROOT)
        except requests.ConnectionError:
            return True
        return False

    wait(is_silent)
    assert dpu.get(ROOT)
    wait(lambda: not is_silent())
    assert 404 == bmc.call('GET', task).status_code
    assert None is machine.truth()['components']['host/HGX_FW_GPU_0']['staged']


def test_an_upload_is_cut_and_the_target_is_free_again(fast, client, gpu_image):
    """No task, nothing written, the log has what was received; the next upload goes through."""
    machine = fast('gpu-server')
    bmc = client(machine.bmcs['host'])
    machine.fault('upload-cut', device='GPU_0', count=1, after_bytes=100_000)
    image = gpu_image(size_bytes=3_000_000)
    with pytest.raises(requests.ConnectionError):
        bmc.push(f'{ITEMS}/HGX_FW_GPU_0', image)
    entry = machine.log()[-1]
    assert (0, True) == (entry['status'], 100_000 <= entry['received_bytes'] < len(image))
    assert [] == bmc.get(f'{ROOT}/TaskService/Tasks')['Members']
    assert 202 == bmc.push(f'{ITEMS}/HGX_FW_GPU_0', image).status_code


def test_a_fault_that_cannot_be_is_refused(fast):
    """A misspelt rule would let a test pass that shows nothing."""
    machine = fast('dpu')
    with pytest.raises(ValueError, match='unknown fault'):
        machine.fault('lock-ignord')
    with pytest.raises(ValueError, match=r"unknown device 'GPU_0'; the machine has .*DPU"):
        machine.fault('task-fails', device='GPU_0')
    with pytest.raises(ValueError, match="unknown bmc 'host'"):
        machine.fault('bmc-restarts', bmc='host')
    assert [] == machine.faults()


@pytest.mark.parametrize('at', ['task', 'monitor'])
def test_a_task_that_runs_is_cancelled_by_delete_unless_a_fault_forbids_it(fast, client, gpu_image, at):
    """Of the task or of its monitor: nothing more is written, and the task says that it was cancelled."""
    machine = fast('gpu-server', flash_seconds=60)
    bmc = client(machine.bmcs['host'])
    rule = machine.fault('task-not-cancelled')
    task = bmc.push(f'{ITEMS}/HGX_FW_GPU_0', gpu_image()).json()
    place = task['@odata.id'] if at == 'task' else task['TaskMonitor']
    assert 405 == bmc.call('DELETE', place).status_code
    assert 'Running' == bmc.get(task['@odata.id'])['TaskState']
    machine.clear_faults(rule)
    assert 204 == bmc.call('DELETE', place).status_code
    assert 'Cancelled' == bmc.get(task['@odata.id'])['TaskState']
    assert machine.truth()['components']['host/HGX_FW_GPU_0']['staged'] is None
