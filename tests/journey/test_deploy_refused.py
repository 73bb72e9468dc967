# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A node is not handed over unless every lock is proven closed in this very deploy; ``last_error`` says where and why."""

import pytest

from tests.journey.conftest import Enrol

pytestmark = pytest.mark.journey

ROOT = '/redfish/v1/Chassis/HGX_ERoT_GPU_0'
SKIP_LOCK = [{'interface': 'firmware', 'step': 'lock_accelerators', 'args': {}, 'priority': 0}]


@pytest.mark.parametrize(
    ('product', 'faults', 'words'),
    [
        pytest.param(
            'gpu-server',
            [{'name': 'lock-ignored', 'device': 'GPU_0'}],
            ['GPU_0', 'host-device', 'expected locked-verified', 'unlocked'],
            id='the BMC answers 204 and leaves the lock open',
        ),
        pytest.param(
            'gpu-server',
            [{'name': 'lock-reports-locked', 'device': 'GPU_0'}, {'name': 'http-status', 'uri': ROOT, 'method': 'GET'}],
            ['HGX_ERoT_GPU_0', 'could not be read', 'HTTP 500'],
            id='a lock cannot be read, and would lie',
        ),
        pytest.param(
            'gpu-server',
            [{'name': 'lock-reports-locked', 'device': 'GPU_0'}, {'name': 'http-status', 'uri': ROOT, 'method': 'PATCH'}],
            ['GPU_0', 'host-device', 'expected locked-verified', 'locked-reported', 'not engaged by us'],
            id='a lock that shows itself closed cannot be engaged',
        ),
        pytest.param(
            'acc-server',
            [{'name': 'lock-lost-on-reset', 'device': 'DPU'}],
            ['BlueField-3', 'host-device', 'expected locked-verified', 'unlocked'],
            id='the reset that a lock needs opens it',
        ),
        pytest.param(
            'acc-server',
            [{'name': 'refuse', 'bmc': 'dpu'}],
            ['dpu (https://127.0.0.1:'],
            id='a BMC does not answer',
        ),
    ],
)
def test_a_lock_that_is_not_proven_keeps_the_node(
    enrol: Enrol, product: str, faults: list[dict[str, str]], words: list[str]
) -> None:
    """Deploy failed; the card, the write path, what was expected and what was found. Never active, not for a moment."""
    # Without $expand each resource is read by itself, and one that cannot be read is one.
    node = enrol(product, 'locks', automated_clean=False, parameters={'gpus': 1, 'options': {'*': {'expand': False}}})
    node.to('provide', 'available')
    for fault in faults:
        node.machine.fault(**fault)
    found = node.deploy()
    assert 'deploy failed' == found['provision_state'], found
    assert 'active' not in node.seen
    assert [] == [w for w in words if w not in found['last_error']], found['last_error']
    assert node.name in found['last_error']


def test_once_repaired_the_same_node_deploys(enrol: Enrol) -> None:
    """A refusal is about the moment: without the fault the next deploy collects its own evidence and passes."""
    node = enrol('gpu-server', 'locks', automated_clean=False, parameters={'gpus': 1})
    node.to('provide', 'available')
    node.machine.fault('lock-ignored')
    assert 'deploy failed' == node.deploy()['provision_state']
    assert [] != node.open_ways()
    node.machine.clear_faults()
    found = node.deploy()
    assert 'active' == found['provision_state'], found['last_error']
    assert [] == node.open_ways()


def test_a_card_that_has_vanished_keeps_the_node(enrol: Enrol) -> None:
    """Absent is a failure: inspection saw the card, the deploy does not."""
    node = enrol('gpu-server', 'locks', automated_clean=False, parameters={'gpus': 2})
    node.to('inspect', 'manageable')
    gone = next(a for a in node.accelerators() if a['primary']['uri'].endswith('/GPU_1'))
    node.to('provide', 'available')
    node.machine.fault('device-absent', device='GPU_1')
    found = node.deploy()
    assert 'deploy failed' == found['provision_state'], found
    assert 'active' not in node.seen
    assert gone['id'] in found['last_error'] or 'GPU_1' in found['last_error'], found['last_error']
    assert 'present' in found['last_error'], found['last_error']


def test_evidence_of_cleaning_or_of_an_earlier_deploy_is_none(enrol: Enrol) -> None:
    """With the lock step taken out of the deploy, everything is closed and proven by cleaning; that proves nothing now."""
    node = enrol('gpu-server', 'locks', parameters={'gpus': 1})
    node.to('provide', 'available')
    assert [] == node.open_ways()
    found = node.deploy(deploy_steps=SKIP_LOCK)
    assert 'deploy failed' == found['provision_state'], found
    assert [] == [w for w in ('GPU_0', 'host-device', 'not engaged in this deploy') if w not in found['last_error']], found
    found = node.deploy()
    assert 'active' == found['provision_state'], found['last_error']
    node.patch(automated_clean=False)
    node.to('deleted', 'available')
    assert [] == node.open_ways(), 'the locks still hold'
    found = node.deploy(deploy_steps=SKIP_LOCK)
    assert 'deploy failed' == found['provision_state'], found
    assert 'host-device' in found['last_error'], found
    assert ['active'] == [s for s in node.seen if s == 'active'], 'only the deploy with its own evidence'


def test_no_deploy_step_of_a_user_takes_the_verification_out(enrol: Enrol) -> None:
    """Whoever may deploy may send deploy steps; with the priority 0 for both of ours the deploy fails and says so."""
    node = enrol('gpu-server', 'locks', automated_clean=False, parameters={'gpus': 1})
    node.to('provide', 'available')
    verify = SKIP_LOCK[0] | {'step': 'verify_accelerators'}
    found = node.deploy(deploy_steps=[*SKIP_LOCK, verify])
    assert 'deploy failed' == found['provision_state'], found
    assert 'verify_accelerators is left out of this deploy' in found['last_error'], found['last_error']
    assert 'active' not in node.seen
    found = node.deploy()
    assert ('active', []) == (found['provision_state'], node.open_ways()), found['last_error']
