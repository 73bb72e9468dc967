# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A tray is cleaned to the versions of a bundle, deployed, written by its tenant, and cleaned again, forced."""

from typing import Any

import pytest
import requests

from baremetal_acc.emulator.image import build_image
from tests.journey.conftest import TRAY_NEW, TRAY_OLD, Enrol

pytestmark = pytest.mark.journey

GPUS = ('host/HGX_FW_GPU_0', 'host/HGX_FW_GPU_1')


def runs(machine: Any, what: str = 'version') -> list[str]:
    """What the GPUs really run."""
    components = machine.truth()['components']
    return [components[key]['active'][what] for key in GPUS]


def open_up(machine: Any) -> None:
    """Somebody who may write to the BMC opens the way from the host to the first card."""
    bmc = machine.bmcs['host']
    with requests.Session() as http:
        http.trust_env, http.verify, http.auth = False, bmc.verify_ca, (bmc.username, bmc.password)
        for place, body in (
            ('Chassis/HGX_ERoT_GPU_0', {'Oem': {'Nvidia': {'InbandUpdatePolicyEnabled': True}}}),
            ('UpdateService/FirmwareInventory/HGX_FW_GPU_0', {'WriteProtected': False}),
        ):
            assert http.patch(f'{bmc.address}/redfish/v1/{place}', json=body, timeout=10).status_code < 300


@pytest.mark.shows('inventory', 'flash', 'lock host path', 'verify', hardware=('tray',), how='ironic')
def test_a_tray_from_an_old_bundle_to_a_new_one_and_back_from_its_tenant(enrol: Enrol) -> None:
    """One upload for both cards; a write of the tenant under the same version breaks the chain; it is written over."""
    node = enrol('hgx-tray', 'tray', parameters={'gpus': 2})
    machine = node.machine
    assert [TRAY_OLD] * 2 == runs(machine)
    node.to('provide', 'available')
    assert [TRAY_NEW] * 2 == runs(machine)
    (upload,) = node.uploads()
    assert (['/redfish/v1/UpdateService/FirmwareInventory/HGX_0'], None) == (
        upload['body']['Targets'],
        upload['body'].get('ForceUpdate'),
    )
    assert ([], ['PGPU', 'PGPU']) == (node.open_ways(), node.offers())
    good = runs(machine, 'digest')

    found = node.deploy()
    assert 'active' == found['provision_state'], found['last_error']
    tampered = build_image(model='b200', component='gpu', version=TRAY_NEW, size_bytes=4096)
    assert not machine.tenant_write('GPU_0', tampered)['written']
    open_up(machine)
    assert machine.tenant_write('GPU_0', tampered)['written']
    assert [TRAY_NEW] * 2 == runs(machine)
    assert good != runs(machine, 'digest')

    machine.reset_log()
    node.to('deleted', 'available')
    assert good == runs(machine, 'digest')
    (upload,) = node.uploads()
    assert True is upload['body']['ForceUpdate']
    assert 2 <= len({one['component'] for one in machine.history('written')[-2:]})
    assert ([], ['PGPU', 'PGPU']) == (node.open_ways(), node.offers())
