# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A machine's life with a real Nova, which makes the root provider, schedules, deploys, deletes, and removes the tree."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from baremetal_acc.errors import RootMissing
from tests.journey.api import Json, Node, Services
from tests.journey.conftest import Enrol
from tests.journey.test_regions import CAN, PROGRAM, functions, template
from tests.nova import machines
from tests.nova.service import Answer, Nova

pytestmark = pytest.mark.journey

ZEROES = {'resources:VCPU': '0', 'resources:MEMORY_MB': '0', 'resources:DISK_GB': '0'}
GZIP = {'resources_ACC:FPGA': '1', f'trait_ACC:{CAN}GZIP': 'required', f'trait:{PROGRAM}': 'required'}
FLAVOR = {'resources:CUSTOM_REGIONS': '1', **ZEROES, **GZIP}

BETWEEN = {'No compute node record for host compute'}
"""What Nova calls an error and is none: its first look at its first node."""


@pytest.fixture
def nova(services: Services, tmp_path: Path) -> Iterator[Nova]:
    """A nova-compute of the Ironic of the journeys."""
    with Nova(tmp_path, services.placement.base, services.ironic.base) as running:
        yield running


class Beside:
    """What placement has of nodes, and what Nova does to it."""

    def __init__(self, nova: Nova, services: Services) -> None:
        self.nova = nova
        self.placement = services.placement

    def tree(self, node: Node) -> list[str]:
        found = self.placement.take('GET', f'/resource_providers?in_tree={node.uuid}')['resource_providers']
        return [p['uuid'] for p in found]

    def whole(self, node: Node) -> dict[str, Any]:
        """All of ours, generations included."""
        found: dict[str, Any] = {}
        for uuid in self.tree(node):
            if uuid != node.uuid:
                parts = ('', '/inventories', '/traits')
                found[uuid] = [self.placement.take('GET', f'/resource_providers/{uuid}{part}') for part in parts]
        return found

    def cycle(self, *nodes: Node) -> Answer:
        """Nova looks, five minutes after it did so last. It fails in nothing, and writes to the roots only."""
        self.nova.do('later')
        answer = self.nova.do('cycle')
        assert [] == [text for text in answer.errors if text not in BETWEEN]
        roots = {node.uuid for node in nodes}
        assert [] == [w for w in answer.written if w.startswith('PUT /resource_providers/') and w.split('/')[2] not in roots]
        return answer

    def check(self, node: Node, *, reserved: int) -> None:
        """A look of Nova changes nothing of ours, and the root is what Ironic says of the node."""
        before = self.whole(node)
        self.cycle(node)
        assert before == self.whole(node)
        root = f'/resource_providers/{node.uuid}'
        [(name, unit)] = self.placement.take('GET', f'{root}/inventories')['inventories'].items()
        assert ('CUSTOM_REGIONS', 1, reserved) == (name, unit['total'], unit['reserved'])
        traits = set(self.placement.take('GET', f'{root}/traits')['traits'])
        own = set(node.services.ironic.take('GET', f'{node.path}/traits')['traits'])
        assert own | {'COMPUTE_NODE', 'OWNER_NOVA'} <= traits
        assert {t for t in traits if t.startswith('CUSTOM_')} == own
        assert f'{CAN}GZIP' in own


def test_nova_beside_a_whole_life(enrol: Enrol, services: Services, nova: Nova) -> None:
    """Nova makes the root, finds the region, deploys it and cleans it; no look of it changes anything of ours."""
    template(services)
    beside = Beside(nova, services)
    node = enrol('acc-server', 'regions', root=False)
    beside.cycle(node)
    assert [node.uuid] == beside.tree(node)
    node.to('provide', 'available')
    before = functions(node)
    beside.check(node, reserved=0)

    built = nova.do('build', node=node.uuid, extra_specs=FLAVOR, deploy=True)
    assert built.done['instance'] is not None
    [region] = set(built.done['allocations']) - {node.uuid}

    def look(_: Json) -> None:
        beside.cycle(node)

    node.until('deploying')
    found = node.settle(meanwhile=look)
    assert 'active' == found['provision_state'], found['last_error']
    assert [] == nova.do('built', instance=built.done['instance']).done
    traits = services.placement.take('GET', f'/resource_providers/{region}/traits')['traits']
    assert 'CUSTOM_ACC_FN_GZIP' in traits
    assert 'gzip' in functions(node)
    beside.check(node, reserved=1)
    assert not node.may_be_claimed('FPGA')

    # Nova frees the claims while the machine is cleaned.
    assert [] == nova.do('delete', instance=built.done['instance'], undeploy=True).errors
    assert {} == services.placement.take('GET', f'/allocations/{built.done["instance"]}')['allocations']
    found = node.settle(meanwhile=look)
    assert 'available' == found['provision_state'], found['last_error']
    assert len(before) == len([name for name in node.offers() if name == 'FPGA'])
    beside.check(node, reserved=0)

    services.ironic.take('PUT', f'{node.path}/maintenance', {'reason': 'the end'})
    beside.check(node, reserved=1)
    assert 1 < len(beside.tree(node))
    services.ironic.take('DELETE', node.path)
    beside.cycle(node)
    assert [] == beside.tree(node)
    with pytest.raises(RootMissing):
        machines.publisher(services.placement.base).read(node.uuid)


def test_a_node_of_which_a_device_is_held_leaves_its_tree_behind(enrol: Enrol, services: Services, nova: Nova) -> None:
    """Nova tries once to delete it; an operator frees the device, and deletes the rest."""
    beside = Beside(nova, services)
    node = enrol('gpu-server', 'locks', root=False, parameters={'gpus': 1})
    beside.cycle(node)
    node.to('provide', 'available')
    beside.cycle(node)
    [device] = set(beside.tree(node)) - {node.uuid}
    consumer = 'f0a5f1b2-9d0c-4b55-a3b4-52f2a1c1d001'
    held = {'allocations': {device: {'resources': {'PGPU': 1}}}, 'project_id': 'p', 'user_id': 'u'}
    services.placement.take('PUT', f'/allocations/{consumer}', held | {'consumer_generation': None, 'consumer_type': 'X'})
    services.ironic.take('PUT', f'{node.path}/maintenance', {'reason': 'the end'})
    services.ironic.take('DELETE', node.path)

    nova.do('later')
    assert any(' 409' in line for line in nova.do('cycle').sent if line.startswith('DELETE '))
    assert {node.uuid, device} == set(beside.tree(node))
    assert [] == [line for line in nova.do('cycle').sent if node.uuid in line or device in line]
    services.placement.take('DELETE', f'/allocations/{consumer}')
    for uuid in (device, node.uuid):
        services.placement.take('DELETE', f'/resource_providers/{uuid}')
    assert [] == beside.tree(node)
