# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The cards of a node with the deploy interface ``direct`` are cleaned by a runbook that boots no ramdisk."""

import pytest

from tests.journey.api import Services
from tests.journey.conftest import Enrol

pytestmark = pytest.mark.journey

RUNBOOK = 'CUSTOM_OUT_OF_BAND_CLEANING'


@pytest.fixture
def runbook(services: Services) -> str:
    """As an operator makes it once for all such nodes; it is chosen by the resource class."""
    body = {
        'name': RUNBOOK,
        'public': True,
        'disable_ramdisk': True,
        'steps': [{'interface': 'firmware', 'step': 'reconcile_accelerators', 'args': {}, 'order': 1}],
    }
    services.ironic.take('POST', '/v1/runbooks', body)
    services.ironic.take('PUT', f'/v1/runbooks/{RUNBOOK}/traits', {'traits': [RUNBOOK]})
    return RUNBOOK


def test_automated_cleaning_by_a_runbook_needs_no_ramdisk(enrol: Enrol, services: Services, runbook: str) -> None:
    """Cards are closed and published; the host was never booted into an agent. Adopted, the node takes service steps."""
    boot = {'deploy_interface': 'direct', 'boot_interface': 'redfish-virtual-media', 'management_interface': 'redfish'}
    node = enrol('gpu-server', 'direct', parameters={'gpus': 1}, **boot)
    services.ironic.take('PUT', f'{node.path}/traits', {'traits': [runbook]})
    node.to('provide', 'available')
    assert ([], ['PGPU']) == (node.open_ways(), node.offers())
    assert [] == [e['path'] for e in node.writes() if 'VirtualMedia' in e['path']]
    traits = services.ironic.take('GET', f'{node.path}/traits')['traits']
    assert runbook in traits, "the operator's own trait stays"
    node.to('manage', 'manageable')
    node.to('adopt', 'active')
    node.serve('lock_accelerators')
    found = node.settle()
    assert 'active' == found['provision_state'], found['last_error']
    assert [] == node.open_ways()
