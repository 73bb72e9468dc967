# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A node's life: enrolled, inspected, cleaned, deployed, serviced, undeployed; Ironic, placement and the machine agree."""

import uuid
from datetime import UTC, datetime
from pathlib import Path

import pytest

from baremetal_acc.certificates import envelope
from baremetal_acc.certificates.validity import holds
from tests.journey.api import Services
from tests.journey.conftest import DPU_NEW, DPU_OLD, FPGA_NEW, FPGA_OLD, GPU_NEW, GPU_OLD, Enrol

pytestmark = pytest.mark.journey

RESET = '/redfish/v1/Systems/System_0/Actions/ComputerSystem.Reset'
ITEM = '/redfish/v1/UpdateService/FirmwareInventory/FPGA1_FW'

OFFERS = ['CUSTOM_ACC_DPU', 'CUSTOM_ACC_FN_AES', 'CUSTOM_ACC_FN_GZIP', 'PGPU', 'PGPU']


def test_ironic_lists_the_hardware_type(services: Services) -> None:
    """``baremetal driver list`` has redfish-acc with our interfaces as its defaults, and a conductor that serves it."""
    found = services.ironic.take('GET', '/v1/drivers?detail=True&type=dynamic')['drivers']
    ours = next(driver for driver in found if driver['name'] == 'redfish-acc')
    assert ['conductor'] == ours['hosts']
    defaults = {name: ours[f'default_{name}_interface'] for name in ('firmware', 'inspect', 'power')}
    assert dict.fromkeys(('firmware', 'inspect', 'power'), 'redfish-acc') == defaults


@pytest.mark.shows('inventory', 'flash', 'lock host path', 'verify', hardware=('hgx-gpu', 'fpga', 'bluefield'), how='ironic')
@pytest.mark.shows('program', hardware=('fpga',), how='ironic')
def test_a_node_lives_from_enrolment_to_the_next_tenant(enrol: Enrol, services: Services, documents: Path) -> None:
    """Each chapter is compared with what really is so in the machine."""
    node = enrol('acc-server', 'life')
    machine = node.machine

    # Passwords of both BMCs are masked, wherever the node is shown.
    shown = services.ironic.ask('GET', node.path).text
    assert [] == [bmc for bmc, one in machine.bmcs.items() if one.password in shown]

    # Inspection: four cards, old firmware, nothing locked.
    node.to('inspect', 'manageable')
    found = node.accelerators()
    assert ['DPU', 'FPGA', 'GPU', 'GPU'] == sorted(a['kind'] for a in found)
    assert {'unlocked'} == {reading['state'] for a in found for reading in a['locks']}
    assert [] == node.writes(), 'inspection writes nothing'
    listed = node.firmware()
    assert (GPU_OLD, FPGA_OLD, DPU_OLD) == tuple(listed[k] for k in ('gpu:HGX_FW_GPU_1', 'fpga:FPGA1_FW', 'dpu:DPU_NIC'))
    assert 'accelerators:4' in node.show()['properties']['capabilities'].split(',')

    # Automated cleaning: everything at the baseline, every image once, every way closed, published.
    node.to('provide', 'available')
    versions = node.versions()
    assert {GPU_NEW} == {versions['host/HGX_FW_GPU_0'], versions['host/HGX_FW_GPU_1']}
    assert (FPGA_NEW, DPU_NEW) == (versions['host/FPGA1_FW'], versions['dpu/DPU_NIC'])
    slots = [machine.truth()['components'][f'host/FPGA1_Slot{n}']['active']['function'] for n in (0, 1)]
    assert ['gzip', 'aes'] == slots
    assert 6 == len(node.uploads()) == len({tuple(e['body']['Targets']) for e in node.uploads()})
    assert [] == node.open_ways()
    assert OFFERS == node.offers()
    listed = node.firmware()
    assert (GPU_NEW, FPGA_NEW, DPU_NEW) == tuple(listed[k] for k in ('gpu:HGX_FW_GPU_1', 'fpga:FPGA1_FW', 'dpu:DPU_NIC'))
    traits = set(services.ironic.take('GET', f'{node.path}/traits')['traits'])
    assert {'CUSTOM_ACC_GPU', 'CUSTOM_ACC_FPGA', 'CUSTOM_ACC_DPU', 'CUSTOM_ACC_FN_GZIP', 'CUSTOM_ACC_FN_AES'} <= traits
    root = services.placement.take('GET', f'/resource_providers/{node.uuid}/inventories')['inventories']
    assert ['CUSTOM_BAREMETAL'] == list(root), "Nova's root provider is not ours to write"
    assert [] == services.placement.take('GET', f'/resource_providers/{node.uuid}/traits')['traits']
    assert any('locks engaged and read back' in event for event in node.history())

    # A claim as Nova makes it, then the deploy, which engages every lock once more.
    instance = str(uuid.uuid4())
    query = f'resources=CUSTOM_BAREMETAL:1&resources_A=CUSTOM_ACC_FN_AES:1&in_tree={node.uuid}'
    candidate = services.placement.take('GET', f'/allocation_candidates?{query}')['allocation_requests'][0]
    claim = {'project_id': 'p', 'user_id': 'u', 'consumer_generation': None, 'consumer_type': 'INSTANCE'}
    services.placement.take('PUT', f'/allocations/{instance}', candidate | claim)
    node.patch(instance_uuid=instance)
    machine.reset_log()
    found = node.deploy()
    assert 'active' == found['provision_state'], found['last_error']
    engaged = {e['path'] for e in node.writes()}
    closed = {lock['uri'] for lock in machine.truth()['locks'].values() if lock['device'] and 'ERoT_GPU' in lock['uri']}
    assert closed <= engaged
    assert 'power on' == found['power_state']
    assert ['CUSTOM_ACC_FN_AES'] == node.offers(), 'of a machine that is taken only what its instance has claimed is left'
    assert not any(node.may_be_claimed(name) for name in set(OFFERS)), 'a region can be claimed without its machine'

    # Its certificate, as somebody checks it who has nothing but the key of the issuer, and Ironic's answer.
    kept = node.show()['driver_internal_info']['baremetal_acc']['certificate']
    state = Path(services.logs['ironic']).parent
    signed = envelope.opened(envelope.unpacked(kept['packed']), envelope.load(state / 'certificate.pem').trust)
    assert () == holds(
        signed, now=datetime.now(UTC), node=node.uuid, lifecycle=kept['lifecycle'], deployment=kept['deployment']
    )
    assert instance == signed.node.instance
    assert {FPGA_NEW} == {f.version for card in signed.accelerators for f in card.firmware if f.id == 'FPGA1_FW'}
    [current] = (state / 'certificates' / node.uuid).glob('*.json')

    # A service step under a tenant who has claimed a function of the very card: host off before anything is open.
    before = documents.joinpath('baseline.toml').read_text()
    documents.joinpath('baseline.toml').write_text(before.replace(f'"FPGA1_FW" = "{FPGA_NEW}"', f'"FPGA1_FW" = "{FPGA_OLD}"'))
    try:
        machine.reset_log()
        card = next(a['id'] for a in node.accelerators() if a['kind'] == 'FPGA')
        node.serve('update_accelerator_firmware', devices=[card])
        open_while_on: list[str] = []

        def look(_: object) -> None:
            truth = machine.truth()
            if truth['systems']['host']['power'] == 'On':
                open_while_on.extend(w['device'] for w in truth['ways'] if w['open'])

        found = node.settle(meanwhile=look)
    finally:
        documents.joinpath('baseline.toml').write_text(before)
    assert 'active' == found['provision_state'], found['last_error']
    assert [] == open_while_on
    assert FPGA_OLD == node.versions()['host/FPGA1_FW']
    assert 1 == len(node.uploads())
    told = [
        'off' if e['body'] == {'ResetType': 'ForceOff'} else 'on'
        for e in node.writes()
        if e['path'] == RESET and e['body']['ResetType'] in ('ForceOff', 'On')
    ]
    assert ['off', 'on'] == told
    order = [
        next(n for n, e in enumerate(node.writes()) if fits(e))
        for fits in (
            lambda e: e['path'] == RESET,
            lambda e: e['path'] == ITEM and e['body'] == {'WriteProtected': False},
            lambda e: e in node.uploads(),
            lambda e: e['path'] == ITEM and e['body'] == {'WriteProtected': True},
            lambda e: e['path'] == RESET and e['body'] == {'ResetType': 'On'},
        )
    ]
    assert sorted(order) == order, 'host off, release, flash, engage, host on'
    assert ([], 'On') == (node.open_ways(), machine.truth()['systems']['host']['power'])
    held = services.placement.take('GET', f'/allocations/{instance}')['allocations']
    assert 2 == len(held), 'what the tenant has claimed stays claimed'
    assert (['CUSTOM_ACC_FN_AES'], False) == (node.offers(), node.may_be_claimed('CUSTOM_ACC_FN_AES'))

    # Undeploy: the card is brought back to the baseline, and offered to the next one.
    machine.reset_log()
    node.provision('deleted')
    services.placement.take('DELETE', f'/allocations/{instance}')
    found = node.settle()
    assert 'available' == found['provision_state'], found['last_error']
    assert [True, True] == [
        node.show()['driver_internal_info']['baremetal_acc']['certificate'][k] for k in ('superseded', 'away')
    ]
    assert (False, True) == (current.exists(), (current.parent / 'superseded' / current.name).exists())
    assert ([ITEM], FPGA_NEW) == ([e['body']['Targets'][0] for e in node.uploads()], node.versions()['host/FPGA1_FW'])
    assert [] == node.open_ways()
    assert OFFERS == node.offers()
    assert all(node.may_be_claimed(name) for name in set(OFFERS))
