# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The locks of the emulator block the writers that they are meant for: each is tried by the host agent API, open and closed."""

ROOT = '/redfish/v1'
ITEMS = f'{ROOT}/UpdateService/FirmwareInventory'
HOST = f'{ROOT}/Systems/System_0'
FPGA = f'{HOST}/Processors/FPGA1'
EROT = f'{ROOT}/Chassis/HGX_ERoT_GPU_0'
DPU = f'{ROOT}/Systems/Bluefield'


def test_a_gpu_is_open_to_the_tenant_until_its_root_of_trust_is_told_not_to(fast, client, gpu_image):
    """InbandUpdatePolicyEnabled: unlocked the tenant's firmware is there, locked it is refused; the BMC's way stays open."""
    machine = fast('acc-server')
    bmc = client(machine.bmcs['host'])
    shown = bmc.get(EROT)
    protected = shown['Links']['Oem']['Nvidia']['ComponentsProtected']
    assert [{'@odata.id': f'{ROOT}/Systems/HGX_Baseboard_0/Processors/GPU_0'}] == protected
    assert True is shown['Oem']['Nvidia']['InbandUpdatePolicyEnabled']
    assert machine.tenant_write('GPU_0', gpu_image('6.6.6'))['written']
    assert '6.6.6' == bmc.get(f'{ITEMS}/HGX_FW_GPU_0')['Version'].strip()

    answer = bmc.patch(EROT, {'Oem': {'Nvidia': {'InbandUpdatePolicyEnabled': False}}})
    assert 204 == answer.status_code
    assert False is bmc.get(EROT)['Oem']['Nvidia']['InbandUpdatePolicyEnabled']
    refused = machine.tenant_write('GPU_0', gpu_image('7.7.7'))
    assert (False, 'locked') == (refused['written'], refused['code'])
    assert '6.6.6' == bmc.get(f'{ITEMS}/HGX_FW_GPU_0')['Version'].strip()
    assert machine.tenant_write('GPU_1', gpu_image('7.7.7'))['written']
    assert 'Completed' == bmc.finished(bmc.push(f'{ITEMS}/HGX_FW_GPU_0', gpu_image()))['TaskState']


def test_a_slot_is_open_to_the_tenant_until_it_is_not_programmable_from_the_host(fast, client, function_image):
    """One PATCH with placeholders locks the second slot only; the device lock closes the rest; the BMC programs both."""
    machine = fast('fpga-server')
    bmc = client(machine.bmcs['host'])
    assert machine.tenant_program('FPGA1', 1, function_image('6.6'))['written']
    assert '6.6' == bmc.get(f'{FPGA}/AccelerationFunctions/Slot1')['Version']

    answer = bmc.patch(FPGA, {'FPGA': {'ReconfigurationSlots': [{}, {'ProgrammableFromHost': False}]}})
    assert 204 == answer.status_code
    fpga = bmc.get(FPGA)['FPGA']
    assert [True, False] == [slot['ProgrammableFromHost'] for slot in fpga['ReconfigurationSlots']]
    assert not machine.tenant_program('FPGA1', 1, function_image('7.7'))['written']
    assert machine.tenant_program('FPGA1', 0, function_image('7.7'))['written']

    bmc.patch(FPGA, {'FPGA': {'ProgrammableFromHost': False}})
    assert not machine.tenant_program('FPGA1', 0, function_image('8.8'))['written']
    slot = f'{ROOT}/UpdateService/SoftwareInventory/FPGA1_Slot1'
    assert 'Completed' == bmc.finished(bmc.push(slot, function_image('2.0')))['TaskState']
    assert '2.0' == bmc.get(slot)['Version']


def test_the_dpu_is_open_by_two_ways_and_each_has_its_lock_that_waits_for_a_reset(fast, client, gpu_image):
    """Bios shows what is in force, Bios/Settings what is pending; HostRshim is shown at once and holds after a power cycle."""
    machine = fast('acc-server')
    dpu, host = client(machine.bmcs['dpu']), client(machine.bmcs['host'])
    image = gpu_image('6.6', 'bluefield3', 'nic')
    assert machine.tenant_write('DPU', image, path='pcie')['written']
    assert machine.tenant_write('DPU', image, path='rshim')['written']
    assert '6.6' == dpu.get(f'{ITEMS}/DPU_NIC')['Version']

    settings = dpu.get(f'{DPU}/Bios')['@Redfish.Settings']['SettingsObject']['@odata.id']
    assert {} == dpu.get(settings)['Attributes']
    assert 204 == dpu.patch(settings, {'Attributes': {'HostPrivilegeLevel': 'Restricted'}}).status_code
    oem = dpu.get(dpu.get(DPU)['Oem']['Nvidia']['@odata.id'])
    action = oem['Actions']['#HostRshim.Set']
    assert 204 == dpu.post(action['target'], {'HostRshim': 'Disabled'}).status_code
    assert 'Disabled' == dpu.get(oem['@odata.id'])['HostRshim']
    assert {'HostPrivilegeLevel': 'Restricted'} == dpu.get(settings)['Attributes']
    assert 'Privileged' == dpu.get(f'{DPU}/Bios')['Attributes']['HostPrivilegeLevel']
    for path in ('pcie', 'rshim'):
        assert machine.tenant_write('DPU', image, path=path)['written'], path

    dpu.reset(DPU, 'ForceRestart')
    assert 'Restricted' == dpu.get(f'{DPU}/Bios')['Attributes']['HostPrivilegeLevel']
    assert {} == dpu.get(settings)['Attributes']
    assert not machine.tenant_write('DPU', image, path='pcie')['written']
    assert machine.tenant_write('DPU', image, path='rshim')['written']
    host.reset(HOST, 'PowerCycle')
    for path in ('pcie', 'rshim'):
        assert not machine.tenant_write('DPU', image, path=path)['written'], path
    assert 'Completed' == dpu.finished(dpu.push(f'{ITEMS}/DPU_NIC', gpu_image('5.0', 'bluefield3', 'nic')))['TaskState']


def test_the_door_works_only_while_the_host_is_on(fast, client, gpu_image):
    """A powered-off host is the time to release a lock."""
    machine = fast('acc-server')
    bmc = client(machine.bmcs['host'])
    assert {'GPU_0', 'GPU_1', 'FPGA1', 'DPU'} == set(machine.devices())
    bmc.reset(HOST, 'ForceOff')
    assert None is machine.devices()
    assert 'host-off' == machine.tenant_write('GPU_0', gpu_image())['code']
    bmc.reset(HOST, 'On')
    assert machine.tenant_write('GPU_0', gpu_image())['written']
    assert [503, 200] == [entry['status'] for entry in machine.log() if entry['bmc'] == 'door']


def test_a_patch_with_anything_wrong_in_it_changes_nothing(fast, client):
    """All of it is checked before anything is written, and the error names the property."""
    bmc = client(fast('fpga-server').bmcs['host'])
    right = {'ProgrammableFromHost': False}
    for document, words in (
        ({'FPGA': right | {'Model': 'x'}}, 'Model'),
        ({'FPGA': right | {'Nonsense': 1}}, 'Nonsense'),
        ({'FPGA': {'ProgrammableFromHost': 'false'}}, 'ProgrammableFromHost'),
        ({'FPGA': right | {'ReconfigurationSlots': [{}, {}, {}]}}, 'ReconfigurationSlots'),
        ({'FPGA': right | {'ReconfigurationSlots': {'0': right}}}, 'ReconfigurationSlots'),
        ({}, 'empty'),
    ):
        answer = bmc.patch(FPGA, document)
        assert (400, True) == (answer.status_code, words in answer.json()['error']['message']), document
    assert 400 == bmc.call('PATCH', FPGA, data=b'{no json').status_code
    assert 405 == bmc.patch(f'{FPGA}/AccelerationFunctions', {}).status_code
    fpga = bmc.get(FPGA)['FPGA']
    assert [True, True, True] == [
        fpga['ProgrammableFromHost'],
        *(s['ProgrammableFromHost'] for s in fpga['ReconfigurationSlots']),
    ]


def test_another_value_than_the_locks_know_is_refused(fast, client):
    """AllowableValues are kept, for the attribute and for the action."""
    machine = fast('dpu')
    dpu = client(machine.bmcs['dpu'])
    assert 400 == dpu.patch(f'{DPU}/Bios/Settings', {'Attributes': {'HostPrivilegeLevel': 'Whatever'}}).status_code
    assert 405 == dpu.patch(f'{DPU}/Bios', {'Attributes': {'HostPrivilegeLevel': 'Restricted'}}).status_code
    target = f'{DPU}/Oem/Nvidia/Actions/HostRshim.Set'
    assert 400 == dpu.post(target, {'HostRshim': 'Maybe'}).status_code
    assert 400 == dpu.post(target, {}).status_code
    assert 405 == dpu.call('GET', target).status_code
    machine.power('PowerCycle')
    assert not machine.truth()['locks']['Bluefield/HostRshim']['closed']
