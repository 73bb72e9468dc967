# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A region is claimed whatever its function is, and the deployment programs the function that its tenant's flavor asks for."""

import uuid

import pytest

from tests.journey.api import Node, Services
from tests.journey.conftest import Enrol

pytestmark = pytest.mark.journey

CAN, PROGRAM = 'CUSTOM_ACC_CAN_', 'CUSTOM_ACC_PROGRAM'


def claim(services: Services, node: Node, *groups: str) -> str:
    """Claim the machine and a region for each group, as Nova does it for a flavor; what it asks Ironic for goes with it."""
    instance = str(uuid.uuid4())
    asked = ''.join(f'&resources_{n}=FPGA:1&required_{n}={trait}' for n, trait in enumerate(groups))
    query = f'resources=CUSTOM_BAREMETAL:1{asked}&group_policy=isolate&in_tree={node.uuid}'
    found = services.placement.take('GET', f'/allocation_candidates?{query}')['allocation_requests']
    body = {'project_id': 'p', 'user_id': 'u', 'consumer_generation': None, 'consumer_type': 'INSTANCE'}
    services.placement.take('PUT', f'/allocations/{instance}', found[0] | body)
    node.patch(instance_uuid=instance, instance_info__traits=sorted({PROGRAM, *groups}))
    return instance


def template(services: Services) -> None:
    """The deploy template that the trait of a flavor starts."""
    if services.ironic.ask('GET', f'/v1/deploy_templates/{PROGRAM}').status_code == 200:
        return
    step = {'interface': 'firmware', 'step': 'program_accelerators', 'args': {'claimed': True}, 'priority': 150}
    services.ironic.take('POST', '/v1/deploy_templates', {'name': PROGRAM, 'steps': [step]})


def functions(node: Node) -> list[str | None]:
    """What the slots really hold."""
    parts = node.machine.truth()['components']
    active = [parts[f'host/FPGA1_Slot{n}']['active'] for n in (0, 1)]
    return [None if a is None else a['function'] for a in active]


@pytest.mark.shows('program', hardware=('fpga',), how='ironic')
def test_a_region_gets_the_function_that_its_tenant_asks_for(enrol: Enrol, services: Services) -> None:
    """By the trait of the flavor, which starts the template; the region that it got by its allocation, and no other one."""
    template(services)
    node = enrol('acc-server', 'regions')
    node.to('provide', 'available')
    before = functions(node)
    traits = set(services.ironic.take('GET', f'{node.path}/traits')['traits'])
    assert {f'{CAN}GZIP', f'{CAN}AES', PROGRAM} <= traits
    assert ['FPGA', 'FPGA'] == [name for name in node.offers() if name == 'FPGA']

    # One region: the other one stays as it was, and neither can be claimed by anybody else.
    instance = claim(services, node, f'{CAN}GZIP')
    held = services.placement.take('GET', f'/allocations/{instance}')['allocations'].keys() - {node.uuid}
    found = node.deploy()
    assert 'active' == found['provision_state'], found['last_error']
    after = functions(node)
    [changed] = [n for n in (0, 1) if after[n] != before[n]] or [before.index('gzip')]
    assert 'gzip' == after[changed]
    assert before[1 - changed] == after[1 - changed]
    [region] = held
    assert 'CUSTOM_ACC_FN_GZIP' in services.placement.take('GET', f'/resource_providers/{region}/traits')['traits']
    assert (['FPGA'], False) == (node.offers(), node.may_be_claimed('FPGA'))
    assert [] == node.open_ways()

    # The next tenant asks for both.
    node.provision('deleted')
    services.placement.take('DELETE', f'/allocations/{instance}')
    found = node.settle()
    assert 'available' == found['provision_state'], found['last_error']
    instance = claim(services, node, f'{CAN}GZIP', f'{CAN}AES')
    found = node.deploy()
    assert 'active' == found['provision_state'], found['last_error']
    assert {'gzip', 'aes'} == set(functions(node))
    assert (['FPGA', 'FPGA'], False) == (node.offers(), node.may_be_claimed('FPGA'))


def test_a_machine_without_a_root_provider_is_deployed(enrol: Enrol, services: Services) -> None:
    """Nova has not made it, or has deleted it: nothing of the machine is on offer then, so there is nothing to wait for."""
    node = enrol('gpu-server', 'locks', parameters={'gpus': 1})
    node.to('provide', 'available')
    tree = services.placement.take('GET', f'/resource_providers?in_tree={node.uuid}')['resource_providers']
    for provider in sorted(tree, key=lambda p: p['uuid'] == node.uuid):
        services.placement.take('DELETE', f'/resource_providers/{provider["uuid"]}')
    found = node.deploy()
    assert 'active' == found['provision_state'], found['last_error']
    assert [] == node.open_ways()


def test_what_was_claimed_and_cannot_be_had_fails_the_deployment(enrol: Enrol, services: Services) -> None:
    """A tenant who asks for a function by trait, and whose allocation holds no region, is told what is missing."""
    node = enrol('acc-server', 'regions')
    node.to('provide', 'available')
    template(services)
    instance = claim(services, node)
    node.patch(instance_info__traits=[f'{CAN}GZIP', PROGRAM])
    found = node.deploy()
    assert 'deploy failed' == found['provision_state']
    assert 'its flavor requires gzip, but it has claimed no programmable region of the node' in found['last_error']
    assert [] == node.uploads()
    services.placement.take('DELETE', f'/allocations/{instance}')
