# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A tenant who is root on the host can write every card while it is unlocked, and none once the node was deployed."""

from pathlib import Path
from typing import Any

import pytest

from tests.journey.conftest import TENANT, Enrol

pytestmark = pytest.mark.journey


def attempts(machine: Any, documents: Path) -> dict[str, dict[str, Any]]:
    """Root writes to everything that the host reaches."""
    image = {name: (documents / f'tenant-{name}.img').read_bytes() for name in ('gpu', 'fpga', 'dpu', 'slot')}
    return {
        'host/HGX_FW_GPU_0': machine.tenant_write('GPU_0', image['gpu']),
        'host/FPGA1_FW': machine.tenant_write('FPGA1', image['fpga']),
        'host/FPGA1_Slot1': machine.tenant_program('FPGA1', 1, image['slot']),
        'dpu/DPU_NIC': machine.tenant_write('DPU', image['dpu']),
        'dpu/DPU_NIC over rshim': machine.tenant_write('DPU', image['dpu'], path='rshim', component='nic'),
    }


def test_open_cards_take_what_root_writes_and_closed_ones_do_not(enrol: Enrol, documents: Path) -> None:
    """Unlocked: all five ways succeed, and the versions change. Deployed: all five are refused, and nothing changes."""
    node = enrol('acc-server', 'locks', automated_clean=False)
    before = node.versions()
    written = attempts(node.machine, documents)
    assert dict.fromkeys(written, True) == {where: answer['written'] for where, answer in written.items()}
    now = node.versions()
    changed = {key for key in now if now[key] != before[key]}
    assert {where.split(' ')[0] for where in written} == changed
    assert {TENANT} == {now[key] for key in changed}

    node.to('provide', 'available')
    found = node.deploy()
    assert 'active' == found['provision_state'], found['last_error']
    assert 'On' == node.machine.truth()['systems']['host']['power']
    refused = attempts(node.machine, documents)
    assert dict.fromkeys(refused, (False, 'locked')) == {w: (a['written'], a['code']) for w, a in refused.items()}
    assert now == node.versions()


def test_what_a_tenant_wrote_is_found_and_replaced_by_cleaning(enrol: Enrol, documents: Path) -> None:
    """The operator's firmware is back, and the locks are closed behind it."""
    node = enrol('gpu-server', 'flash', parameters={'gpus': 1})
    answer = node.machine.tenant_write('GPU_0', (documents / 'tenant-gpu.img').read_bytes())
    assert (True, TENANT) == (answer['written'], node.versions()['host/HGX_FW_GPU_0'])
    node.to('provide', 'available')
    assert node.versions()['host/HGX_FW_GPU_0'] not in (TENANT, None)
    assert [] == node.open_ways()
    assert ['PGPU'] == node.offers()
