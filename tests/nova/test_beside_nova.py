# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Nova and baremetal-acc leave each other's providers alone: Nova's resource tracker and report client, and real placement.

Nova looks at its nodes three times, and forgets before each what it remembers of placement. We do our work between.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from baremetal_acc.errors import InventoryInUse, RootMissing
from baremetal_acc.model.provider import ProviderTree
from baremetal_acc.placement.publish import Publisher
from baremetal_acc.scheduling import providers
from tests.journey.api import Http
from tests.nova import machines
from tests.nova.conftest import Make
from tests.nova.machines import GOLD, Machine
from tests.nova.service import Answer, Nova

BARE = {f'resources:{GOLD}': '1', 'resources:VCPU': '0', 'resources:MEMORY_MB': '0', 'resources:DISK_GB': '0'}

OF_NOVA = {'COMPUTE_NODE', 'OWNER_NOVA'}


class Site:
    """Nodes in Nova and in placement."""

    def __init__(self, nova: Nova, placement: str, asked: Http, nodes: dict[str, Machine]) -> None:
        self.nova = nova
        self.asked = asked
        self.nodes = nodes
        self.publisher: Publisher = machines.publisher(placement)
        self.traits = {name: node.wanted()[1] for name, node in nodes.items()}

    def look(self, *, startup: bool = False) -> Answer:
        """Nova looks at all nodes."""
        told = {node.uuid: node.node(self.traits[name]) for name, node in self.nodes.items()}
        return self.nova.do('report', nodes=told, startup=startup)

    def tree(self, name: str) -> ProviderTree:
        """What we want of a node now; its traits in Ironic follow."""
        tree, self.traits[name] = self.nodes[name].wanted()
        return tree

    def publish(self, name: str, consumer: str | None = None) -> None:
        self.publisher.publish(self.tree(name), consumer=consumer)

    def whole(self, provider: str) -> Any:
        """All that placement knows of a provider, generation included."""
        parts = ('', '/inventories', '/traits', '/aggregates')
        found = [self.asked.take('GET', f'/resource_providers/{provider}{part}') for part in parts]
        return [{k: v for k, v in one.items() if k != 'links'} for one in found]

    def ours(self) -> dict[str, Any]:
        """All below the roots."""
        found = {}
        for node in self.nodes.values():
            below = self.asked.take('GET', f'/resource_providers?in_tree={node.uuid}')['resource_providers']
            found |= {p['uuid']: self.whole(p['uuid']) for p in below if p['uuid'] != node.uuid}
        return found

    def root(self, name: str) -> tuple[dict[str, int], set[str]]:
        """What the root reserves of each class that it has, and its traits."""
        _, inventories, traits, _ = self.whole(self.nodes[name].uuid)
        return {c: i['reserved'] for c, i in inventories['inventories'].items()}, set(traits['traits'])

    def check(self, reserved: dict[str, int]) -> Answer:
        """Nova has forgotten what it knew, and looks: all of ours stays as it is, and the roots are as Nova wants them.

        :param reserved: what Nova reserves of each node.
        """
        before = self.ours()
        self.nova.do('later')
        answer = self.look()
        assert before == self.ours()
        assert [] == answer.errors
        roots = {node.uuid for node in self.nodes.values()}
        elsewhere = [w for w in answer.written if w.startswith('PUT /resource_providers/') and w.split('/')[2] not in roots]
        assert [] == elsewhere
        assert [] == [
            w for w in answer.written if not w.startswith('PUT ') or w.rpartition(' ')[2] not in ('200', '201', '204')
        ]
        for name in self.nodes:
            found, traits = self.root(name)
            assert {GOLD: reserved.get(name, 0)} == found, name
            assert self.traits[name] | OF_NOVA <= traits, name
            assert {t for t in traits if t.startswith('CUSTOM_')} == set(self.traits[name]), name
        # Nobody has anything to do, on either side.
        before = self.ours()
        again = self.look()
        assert ([], []) == (again.errors, again.written)
        # What our providers cost Nova once a minute: one question each. The roots have one more, and so has every claim.
        of_providers = [line for line in again.sent if line.startswith('GET /resource_providers/')]
        assert all('/allocations ' in line for line in of_providers)
        assert len(before) + 2 * len(roots) == len(of_providers)
        assert all(line.startswith('GET /allocations/') for line in again.sent if line not in of_providers)
        assert before == self.ours()
        return answer


@pytest.fixture
def site(nova: Nova, placement: str, asked: Http, make: Make) -> Site:
    """A node for each way to offer accelerators, and one with everything. Nova knows them; nothing is published."""
    nodes = {
        'functions': make('fpga-server', machines.SINGLE, functions=machines.FUNCTIONS),
        'gpus': make('gpu-server', machines.SINGLE, gpus=3),
        'together': make('gpu-server', machines.TOGETHER, gpus=4, seed='2'),
        'regions': make('fpga-server', machines.REGIONS, functions=machines.FUNCTIONS, seed='2'),
        'everything': make('acc-server', machines.REGIONS, functions=machines.FUNCTIONS),
    }
    return Site(nova, placement, asked, nodes)


def test_nova_and_we_leave_each_others_providers_alone(site: Site) -> None:
    """Three times, with claims, other functions, withdrawals and cards that are gone between, and in all states of a node."""
    first = site.nodes['gpus']
    with pytest.raises(RootMissing):
        site.publish('gpus')
    assert [] == site.look(startup=True).errors
    for name in site.nodes:
        site.publish(name)
    assert 12 < len(site.ours())
    site.check({})
    for name in site.nodes:
        assert not site.publisher.publish(site.tree(name)).changed, name

    # Tenants come: by a function, by devices together, by regions with a function each. Their machines are deployed.
    groups = {
        'functions': {'resources_ACC:CUSTOM_ACC_FN_AES': '1'},
        'together': {'resources_ACC:PGPU': '2', 'trait_ACC:CUSTOM_ACC_TOGETHER': 'required'},
        'regions': {
            'resources_A:FPGA': '1',
            'trait_A:CUSTOM_ACC_CAN_GZIP': 'required',
            'resources_B:FPGA': '1',
            'trait_B:CUSTOM_ACC_CAN_AES': 'required',
            'group_policy': 'isolate',
        },
    }
    tenants = {}
    for name, wanted in groups.items():
        node = site.nodes[name]
        built = site.nova.do('build', node=node.uuid, extra_specs={**BARE, **wanted}, deploy=False)
        assert [] == built.errors
        tenants[name] = built.done
        node.states = {'instance_id': built.done['instance'], 'provision_state': 'deploying'}
        taken = providers.withdrawn(site.tree(name))
        site.publisher.publish(taken, consumer=built.done['instance'])
    # Another machine is cleaned, with all of it withdrawn; the last one is in maintenance.
    site.nodes['gpus'].states = {'provision_state': 'cleaning', 'power_state': 'power on'}
    site.publisher.withdraw(first.uuid)
    site.nodes['everything'].states = {'is_maintenance': True}
    assert {} == {u: p[1]['inventories'] for u, p in site.ours().items() if u in of(site.tree('gpus')) and p[1]['inventories']}
    site.check(dict.fromkeys(site.nodes, 1))

    # They are active; a slot of a machine without tenant is given another function, and a card is gone.
    for name, tenant in tenants.items():
        site.nodes[name].states = {'instance_id': tenant['instance'], 'provision_state': 'active', 'power_state': 'power on'}
    other = site.nodes['everything']
    slot = other.emulated.components['host/FPGA1_Slot0']
    slot.active = replace(slot.active, version='3.1', function='aes')
    site.publish('everything')
    site.nodes['gpus'].states = {}
    before = site.tree('gpus')
    site.publisher.publish(replace(before, providers=before.providers[1:]))
    site.check({name: 1 for name in site.nodes if name != 'gpus'})
    held = {uuid: resources for tenant in tenants.values() for uuid, resources in tenant['allocations'].items()}
    for name, tenant in tenants.items():
        now = site.asked.take('GET', f'/allocations/{tenant["instance"]}')['allocations']
        assert tenant['allocations'] == {uuid: one['resources'] for uuid, one in now.items()}, name
    for uuid in set(held) - {node.uuid for node in site.nodes.values()}:
        assert all(i['reserved'] == i['total'] for i in site.whole(uuid)[1]['inventories'].values())

    # Tenants leave: Nova frees root and devices at once, and after cleaning all is on offer again.
    with pytest.raises(InventoryInUse):
        site.publisher.publish(providers.withdrawn(site.tree('regions')))
    for tenant in tenants.values():
        assert [] == site.nova.do('delete', instance=tenant['instance'], undeploy=False).errors
        assert {} == site.asked.take('GET', f'/allocations/{tenant["instance"]}')['allocations']
    for node in site.nodes.values():
        node.states = {}
    for name in site.nodes:
        site.publish(name)
    site.check({})
    for name, wanted in groups.items():
        ways = site.nova.do('ask', extra_specs={**BARE, **wanted}).done['candidates']
        assert any(site.nodes[name].uuid in way for way in ways), name


def of(tree: ProviderTree) -> set[str]:
    """The UUIDs of its providers."""
    return {p.uuid for p in tree.providers}


def test_a_provider_that_is_deleted_keeps_nova_from_its_node_for_five_minutes(site: Site) -> None:
    """Which is why cards that are gone stay as providers without offers, unless an operator says otherwise."""
    site.nodes = {'gpus': site.nodes['gpus']}
    assert [] == site.look(startup=True).errors
    site.publish('gpus')
    site.check({})
    tree = site.tree('gpus')
    less = replace(tree, providers=tree.providers[1:])
    assert site.publisher.publish(less).changed
    assert ([], []) == (site.look().errors, site.look().errors)

    gone = tree.providers[0].uuid
    site.publisher.publish(less, delete_gone=True)
    with pytest.raises(AssertionError, match='ResourceProviderAllocationRetrievalFailed'):
        site.look()
    site.check({})
    assert 404 == site.asked.ask('GET', f'/resource_providers/{gone}').status_code


PROVIDER = """\
meta:
  schema_version: '1.0'
providers:
  - identification:
      uuid: '{uuid}'
    inventories:
      additional:
        - CUSTOM_RACK_SLOT:
            total: 1
"""


def test_a_provider_of_ours_in_nova_s_provider_yaml_breaks_the_update_of_its_node(
    placement: str, asked: Http, make: Make, tmp_path: Path
) -> None:
    """Nova adds to it once, and cannot update the node from then on: never name them there."""
    node = make('gpu-server', machines.SINGLE, gpus=1)
    tree, _ = node.wanted()
    [device] = of(tree)
    (tmp_path / 'providers').mkdir()
    (tmp_path / 'providers' / 'provider.yaml').write_text(PROVIDER.format(uuid=device))
    with Nova(tmp_path, placement) as nova:
        site = Site(nova, placement, asked, {'gpus': node})
        assert [] == site.look(startup=True).errors
        site.publish('gpus')
        nova.do('later')
        assert [] == site.look().errors
        assert {'PGPU', 'CUSTOM_RACK_SLOT'} == set(site.whole(device)[1]['inventories'])
        nova.do('later')
        with pytest.raises(AssertionError, match='owned by the virt driver'):
            site.look()
