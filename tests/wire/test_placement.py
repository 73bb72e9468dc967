# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A real placement comes to agree with us, and keeps what belongs to others. A process, over HTTP, with keystoneauth."""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from threading import Thread
from typing import Any
from urllib.parse import unquote

import pytest
from keystoneauth1 import adapter, exceptions, session, token_endpoint

from baremetal_acc.errors import ClaimedAlone, InventoryInUse, PlacementRefused, PlacementUnreachable, RootMissing
from baremetal_acc.model.accelerator import Kind
from baremetal_acc.model.finding import FindingText
from baremetal_acc.model.provider import CreateProvider, ProviderInventory, ProviderTree, SetInventories, SetTraits
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.model.subject import PRESENT
from baremetal_acc.model.verdict import Finding, Met, Verdict
from baremetal_acc.placement.client import PlacementClient
from baremetal_acc.placement.provider_cache import REMEMBER_SECONDS
from baremetal_acc.placement.publish import Publisher
from baremetal_acc.policy.baseline_rules import Offering
from baremetal_acc.scheduling import provider_names, providers
from baremetal_acc.scheduling.schedulable import Offer
from tests.unit.planning.values import FPGA, GPU, fpga, gpu, inventory, slot

GZIP = {(FPGA, 'Slot0'): 'gzip'}
HELD = 'CUSTOM_ACC_FN_GZIP'
CONSUMER = '7b9a3a3e-3f4d-4a0e-9d53-0d1f0a3f8a01'
OTHER = '0e7c1f5a-8d0b-4a77-8a0e-6f1d2d3c4b5a'


class Adapter(adapter.Adapter):
    """A real adapter that writes down what it sends. A test can step in before a request, and before its answer comes."""

    def __init__(self, url: str, *, token: str = 'admin') -> None:
        auth = token_endpoint.Token(url, token)
        super().__init__(session=session.Session(auth=auth, timeout=30), service_type='placement')
        self.sent: list[str] = []
        self.before: Callable[[str, str], None] = lambda method, url: None
        self.after: Callable[[str, str], None] = lambda method, url: None

    def request(self, url: str, method: str, **kwargs: Any) -> Any:
        self.before(method, url)
        self.sent.append(f'{method} {url.partition("?")[0]}')
        answer = super().request(url, method, **kwargs)
        self.after(method, url)
        return answer


class Cloud:
    """What everybody else does to placement: Nova, tenants, other operators."""

    def __init__(self, url: str) -> None:
        self.adapter = Adapter(url)

    def ask(self, method: str, path: str, body: Any = None, *, ok: bool = True) -> Any:
        answer = self.adapter.request(
            path, method, json=body, raise_exc=False, microversion='1.37', microversion_service_type='placement'
        )
        assert answer.status_code < 400 or not ok, answer.text
        return answer.json() if answer.content else {}

    def root(self) -> str:
        """A root provider as Nova makes one for a node: UUID and name are the node's."""
        root = str(uuid.uuid4())
        self.ask('POST', '/resource_providers', {'uuid': root, 'name': root})
        self.ask('PUT', '/resource_classes/CUSTOM_BAREMETAL_GOLD')
        self.offer(root, 'CUSTOM_BAREMETAL_GOLD')
        self.ask('PUT', f'/resource_providers/{root}/traits', {'resource_provider_generation': 1, 'traits': ['OWNER_NOVA']})
        return root

    def offer(self, provider: str, resource_class: str, **other: Any) -> None:
        generation = self.ask('GET', f'/resource_providers/{provider}')['generation']
        offers = {resource_class: {'total': 1, 'reserved': 0} | other}
        body = {'resource_provider_generation': generation, 'inventories': offers}
        self.ask('PUT', f'/resource_providers/{provider}/inventories', body)

    def child(self, root: str) -> str:
        """A provider of somebody else below the root."""
        child = str(uuid.uuid4())
        self.ask('POST', '/resource_providers', {'uuid': child, 'name': child, 'parent_provider_uuid': root})
        self.offer(child, 'PCI_DEVICE')
        return child

    def claim(self, consumer: str, provider: str, resource_class: str) -> None:
        allocations = {provider: {'resources': {resource_class: 1}}}
        body = {'allocations': allocations, 'project_id': 'p', 'user_id': 'u', 'consumer_generation': None}
        self.ask('PUT', f'/allocations/{consumer}', body)

    def free(self, consumer: str, *, ok: bool = True) -> None:
        self.ask('DELETE', f'/allocations/{consumer}', ok=ok)

    def all_of(self, provider: str) -> Any:
        """Everything that placement knows of a provider, generation included."""
        base = f'/resource_providers/{provider}'
        return [self.ask('GET', base), self.ask('GET', f'{base}/inventories'), self.ask('GET', f'{base}/traits')]

    def offers(self, provider: str) -> dict[str, tuple[int, int]]:
        """Total and reserved by class."""
        found = self.ask('GET', f'/resource_providers/{provider}/inventories')['inventories']
        return {name: (i['total'], i['reserved']) for name, i in found.items()}

    def traits(self, provider: str) -> set[str]:
        return set(self.ask('GET', f'/resource_providers/{provider}/traits')['traits'])

    def tree(self, root: str) -> set[str]:
        return {p['uuid'] for p in self.ask('GET', f'/resource_providers?in_tree={root}')['resource_providers']}

    def candidates(self, root: str, query: str) -> list[set[str]]:
        """The providers of each way to serve a request."""
        if 'resources=' in query:
            query += f'&in_tree={root}'
        found = self.ask('GET', f'/allocation_candidates?limit=1000&{query}')['allocation_requests']
        return [set(c['allocations']) for c in found]


@pytest.fixture
def cloud(url: str) -> Iterator[Cloud]:
    cloud = Cloud(url)
    yield cloud
    for consumer in (CONSUMER, OTHER):
        cloud.free(consumer, ok=False)


@pytest.fixture
def root(cloud: Cloud) -> str:
    return cloud.root()


@pytest.fixture
def sending(url: str) -> Adapter:
    return Adapter(url)


@pytest.fixture
def publisher(sending: Adapter) -> Publisher:
    return Publisher(PlacementClient(sending), sleep=lambda seconds: None)


def met() -> Verdict:
    return Verdict(target='node-1', findings=())


def wanted(root: str, functions: Any = None, *, accelerators: Any = None, verdict: Verdict | None = None) -> ProviderTree:
    """A GPU, and an FPGA with a function in the first of two slots."""
    seen = inventory(*(accelerators or (gpu(), fpga())))
    return providers.tree(seen, verdict or met(), root, GZIP if functions is None else functions)


def gpu_of(root: str) -> str:
    return provider_names.card_uuid(root, GPU)


def slot_of(root: str, slot_id: str = 'Slot0') -> str:
    return provider_names.slot_uuid(root, FPGA, slot_id)


def writes(sent: list[str]) -> list[str]:
    return [line for line in sent if not line.startswith('GET ')]


def test_the_first_publication_makes_the_tree(publisher: Publisher, cloud: Cloud, root: str) -> None:
    """Card and slots are below the root, offer what was verified, and carry our owner trait and what they are."""
    result = publisher.publish(wanted(root))
    assert result.changed
    assert {'PGPU': (1, 0)} == cloud.offers(gpu_of(root))
    assert {HELD: (1, 0)} == cloud.offers(slot_of(root))
    assert {} == cloud.offers(slot_of(root, 'Slot1'))
    assert {} == cloud.offers(provider_names.card_uuid(root, FPGA))
    expected = {
        provider_names.OWNER,
        'CUSTOM_ACC_GPU',
        'CUSTOM_ACC_GPU_NVIDIA',
        'CUSTOM_ACC_GPU_NVIDIA_H100',
        'CUSTOM_ACC_PCI_10DE_2330',
        provider_names.RESERVES_NOTHING,
    }
    assert expected == cloud.traits(gpu_of(root))
    assert (
        provider_names.card_uuid(root, FPGA) == cloud.ask('GET', f'/resource_providers/{slot_of(root)}')['parent_provider_uuid']
    )


def test_what_is_offered_cannot_be_promised_twice(publisher: Publisher, cloud: Cloud, root: str) -> None:
    """One unit at most, in steps of one, and no overcommitment."""
    publisher.publish(wanted(root))
    found = cloud.ask('GET', f'/resource_providers/{gpu_of(root)}/inventories')['inventories']['PGPU']
    assert {'total': 1, 'reserved': 0, 'min_unit': 1, 'max_unit': 1, 'step_size': 1, 'allocation_ratio': 1.0} == found


def test_nothing_changed_is_one_get(publisher: Publisher, sending: Adapter, root: str) -> None:
    """A publisher that remembers asks for the generations of the tree, and that is all."""
    publisher.publish(wanted(root))
    sending.sent.clear()
    assert not publisher.publish(wanted(root)).changed
    assert ['GET /resource_providers'] == sending.sent


def test_success_is_read_back_with_one_get(publisher: Publisher, sending: Adapter, root: str) -> None:
    """What placement answered to a write is what it then has, if the generations say so."""
    publisher.publish(wanted(root))
    publisher.publish(wanted(root, {(FPGA, 'Slot0'): 'aes'}))
    last = max(n for n, line in enumerate(sending.sent) if line in writes(sending.sent))
    assert ['GET /resource_providers'] == sending.sent[last + 1 :]


def test_a_new_process_that_finds_all_as_it_should_be_writes_nothing(publisher: Publisher, url: str, root: str) -> None:
    """Nothing remembered costs reads, and no write."""
    publisher.publish(wanted(root))
    fresh = Adapter(url)
    assert not Publisher(PlacementClient(fresh)).publish(wanted(root)).changed
    assert [] == writes(fresh.sent)


def test_a_memory_that_is_too_old_is_read_again(sending: Adapter, root: str) -> None:
    """Deleted and made again, a provider may meet the generation that is remembered: memory ends after a while."""
    now = [0.0]
    publisher = Publisher(PlacementClient(sending), clock=lambda: now[0])
    publisher.publish(wanted(root))
    publisher.publish(wanted(root))
    now[0] = REMEMBER_SECONDS
    sending.sent.clear()
    assert not publisher.publish(wanted(root)).changed
    assert 1 < len(sending.sent)


def test_another_function_withdraws_before_it_offers(publisher: Publisher, cloud: Cloud, root: str) -> None:
    """The old class goes first; the new one comes last. In between the slot offers nothing."""
    publisher.publish(wanted(root))
    result = publisher.publish(wanted(root, {(FPGA, 'Slot0'): 'aes'}))
    inventories = [call.inventories for call in result.calls]
    assert [(), (ProviderInventory(resource_class='CUSTOM_ACC_FN_AES'),)] == inventories
    assert {slot_of(root)} == {call.uuid for call in result.calls}
    assert {'CUSTOM_ACC_FN_AES': (1, 0)} == cloud.offers(slot_of(root))


def test_traits_are_set_before_anything_is_offered(publisher: Publisher, root: str) -> None:
    """Nobody can claim a device under a trait that it does not have yet."""
    kinds = [type(call) for call in publisher.publish(wanted(root)).calls]
    assert 4 * [CreateProvider] + 4 * [SetTraits] + 2 * [SetInventories] == kinds


def gpus(count: int, **changes: Any) -> Any:
    return tuple(gpu(id=AcceleratorId(f'uuid:gpu-{n}'), **changes) for n in range(count))


def test_eight_devices_are_published_by_nineteen_calls(publisher: Publisher, sending: Adapter, cloud: Cloud) -> None:
    """A look at the tree and at its root, eight providers, their traits, and one call for all offers.

    A process asks once what placement has of names, whatever the number of nodes. Of what it has made itself it knows all, so
    that the next publication asks once.
    """
    publisher.publish(wanted(cloud.root(), {}, accelerators=gpus(1)))
    sending.sent.clear()
    node = cloud.root()
    publisher.publish(wanted(node, {}, accelerators=gpus(8)))
    assert 8 == sum(1 for line in sending.sent if line == 'POST /resource_providers')
    assert 1 == sum(1 for line in sending.sent if line == 'POST /reshaper')
    assert 19 == len(sending.sent), sending.sent
    sending.sent.clear()
    assert () == publisher.publish(wanted(node, {}, accelerators=gpus(8))).calls
    assert ['GET /resource_providers'] == sending.sent
    assert 8 * [{'PGPU': (1, 0)}] == [cloud.offers(p) for p in sorted(cloud.tree(node) - {node})]


def test_one_device_that_changed_costs_four_calls(publisher: Publisher, sending: Adapter, root: str) -> None:
    """Withdraw, traits, offer, and a look to see that it is so."""
    publisher.publish(wanted(root, {}, accelerators=gpus(8)))
    sending.sent.clear()
    cards = gpus(8)
    publisher.publish(wanted(root, {}, accelerators=(*cards[:7], gpu(id=cards[7].id, kind=Kind.ASIC))))
    asked = [line for line in sending.sent if not line.startswith(('GET /traits', 'PUT /traits', 'PUT /resource_classes'))]
    assert ['PUT', 'PUT', 'PUT', 'GET'] == [line.partition(' ')[0] for line in asked]
    sending.sent.clear()
    publisher.publish(wanted(root, {}, accelerators=gpus(8)))
    assert 4 == len(sending.sent), sending.sent


def test_what_is_remembered_and_no_more_true_is_read_again(publisher: Publisher, cloud: Cloud, root: str) -> None:
    """Somebody else withdrew it meanwhile: the write with the old generation is refused, and the end is right."""
    publisher.publish(wanted(root))
    generation = cloud.ask('GET', f'/resource_providers/{gpu_of(root)}')['generation']
    body = {'resource_provider_generation': generation, 'inventories': {}}
    cloud.ask('PUT', f'/resource_providers/{gpu_of(root)}/inventories', body)
    publisher.publish(wanted(root, accelerators=(gpu(model='L40'), fpga())))
    assert {'PGPU': (1, 0)} == cloud.offers(gpu_of(root))
    assert 'CUSTOM_ACC_GPU_NVIDIA_L40' in cloud.traits(gpu_of(root))


def test_without_the_role_for_it_each_offer_is_sent_by_itself(url: str, cloud: Cloud, root: str) -> None:
    """POST /reshaper needs the role service: an administrator publishes all the same, and asks for it once."""
    sending = Adapter(url)
    sending.additional_headers = {'X-Roles': 'admin'}
    publisher = Publisher(PlacementClient(sending))
    publisher.publish(wanted(root))
    assert {'PGPU': (1, 0)} == cloud.offers(gpu_of(root))
    assert {HELD: (1, 0)} == cloud.offers(slot_of(root))
    publisher.publish(wanted(cloud.root()))
    assert 1 == sending.sent.count('POST /reshaper')


def test_many_names_are_asked_for_in_lines_that_a_web_server_takes(publisher: Publisher, sending: Adapter) -> None:
    """Each name once, and none is left out."""
    lines: list[str] = []
    sending.before = lambda method, url: lines.append(url) if url.startswith('/traits?') else None
    names = [f'CUSTOM_{n:03}_{"X" * 200}' for n in range(50)]
    publisher.declare(traits=names)
    assert all(len(line) < 8000 for line in lines)
    assert 3 <= len(lines) <= 4
    assert names == [name for line in lines for name in unquote(line).partition('in:')[2].split(',')]
    assert 50 == sum(line.startswith('PUT /traits/') for line in sending.sent)
    sending.sent.clear()
    publisher.declare(traits=names)
    assert [] == sending.sent


def test_the_root_is_never_touched(publisher: Publisher, cloud: Cloud, root: str) -> None:
    """Inventory, traits and generation of Nova's provider are what they were, after all that we can do."""
    before = cloud.all_of(root)
    publisher.publish(wanted(root))
    publisher.withdraw(root)
    publisher.publish(wanted(root, {}, accelerators=(gpu(),)), delete_gone=True)
    assert before == cloud.all_of(root)


def test_what_others_put_below_the_root_is_not_touched(publisher: Publisher, cloud: Cloud, root: str) -> None:
    """A provider without our owner trait is not read as ours, emptied or deleted."""
    foreign = cloud.child(root)
    before = cloud.all_of(foreign)
    publisher.publish(wanted(root))
    publisher.withdraw(root)
    publisher.publish(wanted(root, {}, accelerators=(gpu(),)), delete_gone=True)
    assert before == cloud.all_of(foreign)
    assert [gpu_of(root)] == [p.uuid for p in publisher.read(root).providers]


def test_other_nodes_in_the_same_tree_are_not_touched(publisher: Publisher, cloud: Cloud, root: str) -> None:
    """An operator may hang several nodes below one provider: what is in placement's tree is not all this node's."""
    neighbour = cloud.root()
    publisher.publish(wanted(neighbour))
    publisher.publish(wanted(root))
    rack = cloud.root()
    for node in (root, neighbour):
        cloud.ask('PUT', f'/resource_providers/{node}', {'name': node, 'parent_provider_uuid': rack})
    publisher.withdraw(root)
    assert {} == cloud.offers(gpu_of(root))
    assert {'PGPU': (1, 0)} == cloud.offers(gpu_of(neighbour))


def test_a_flavor_finds_a_function(publisher: Publisher, cloud: Cloud, root: str) -> None:
    """A request for the node's class and a function has one candidate: the root and the slot that holds it."""
    publisher.publish(wanted(root))
    query = f'resources=CUSTOM_BAREMETAL_GOLD:1&resources_ACC={HELD}:1&in_tree_ACC={root}'
    assert [{root, slot_of(root)}] == cloud.candidates(root, query)
    query = f'{query}&required_ACC=CUSTOM_ACC_FPGA_INTEL_STRATIX'
    assert [{root, slot_of(root)}] == cloud.candidates(root, query)


def test_a_flavor_finds_two_functions_on_two_slots(publisher: Publisher, cloud: Cloud, root: str) -> None:
    """One group for each, isolated: the page on flavors says so."""
    both = {(FPGA, 'Slot0'): 'gzip', (FPGA, 'Slot1'): 'aes'}
    publisher.publish(wanted(root, both, accelerators=(fpga(slots=(slot(0), slot(1))),)))
    query = f'resources=CUSTOM_BAREMETAL_GOLD:1&resources_A={HELD}:1&resources_B=CUSTOM_ACC_FN_AES:1&group_policy=isolate'
    assert [{root, slot_of(root), slot_of(root, 'Slot1')}] == cloud.candidates(root, f'{query}&in_tree_A={root}')


def test_one_group_is_never_split_over_two_devices(publisher: Publisher, cloud: Cloud, root: str) -> None:
    """Two GPUs are two groups: the page on flavors says so."""
    publisher.publish(wanted(root, {}, accelerators=(gpu(), gpu(id=AcceleratorId('uuid:gpu-1')))))
    assert [] == cloud.candidates(root, f'resources_ACC=PGPU:2&in_tree_ACC={root}')
    two = f'resources_A=PGPU:1&resources_B=PGPU:1&group_policy=none&in_tree_A={root}&in_tree_B={root}'
    second = provider_names.card_uuid(root, AcceleratorId('uuid:gpu-1'))
    assert {frozenset({gpu_of(root), second})} == {frozenset(c) for c in cloud.candidates(root, two)}


def test_a_tenant_who_asks_for_a_model_gets_that_model(publisher: Publisher, cloud: Cloud, root: str) -> None:
    """Class and trait of one group come from one provider."""
    other = AcceleratorId('uuid:gpu-1')
    publisher.publish(wanted(root, {}, accelerators=(gpu(), gpu(id=other, model='L40'))))
    query = f'resources_ACC=PGPU:1&required_ACC=CUSTOM_ACC_GPU_NVIDIA_L40&in_tree_ACC={root}'
    assert [{provider_names.card_uuid(root, other)}] == cloud.candidates(root, query)


def test_what_is_withdrawn_cannot_be_found(publisher: Publisher, cloud: Cloud, root: str) -> None:
    """The providers stay, with their traits, and no request lands on them."""
    publisher.publish(wanted(root))
    publisher.withdraw(root)
    assert [] == cloud.candidates(root, f'resources_ACC={HELD}:1&in_tree_ACC={root}&resources=CUSTOM_BAREMETAL_GOLD:1')
    assert 5 == len(cloud.tree(root))
    assert provider_names.OWNER in cloud.traits(slot_of(root))


def test_withdrawing_a_card_withdraws_its_slots_and_no_other_card(publisher: Publisher, cloud: Cloud, root: str) -> None:
    """The slots lie below the card."""
    publisher.publish(wanted(root))
    publisher.withdraw(root, frozenset({provider_names.card_uuid(root, FPGA)}))
    assert {} == cloud.offers(slot_of(root))
    assert {'PGPU': (1, 0)} == cloud.offers(gpu_of(root))


def test_a_claim_keeps_us_from_withdrawing(publisher: Publisher, cloud: Cloud, root: str) -> None:
    """The error names provider, class and consumer; all else was withdrawn. The claim is untouched, and nobody gets it next."""
    publisher.publish(wanted(root))
    cloud.claim(OTHER, slot_of(root), HELD)
    with pytest.raises(InventoryInUse) as caught:
        publisher.withdraw(root, consumer=CONSUMER)
    name = wanted(root).provider(slot_of(root)).name
    assert f'provider {name} is held: {HELD} by consumer {OTHER}' in str(caught.value)
    assert {HELD: (1, 1)} == cloud.offers(slot_of(root))
    assert {} == cloud.offers(gpu_of(root))
    assert [slot_of(root)] == list(cloud.ask('GET', f'/allocations/{OTHER}')['allocations'])


def test_only_who_has_the_machine_is_waited_for(publisher: Publisher, cloud: Cloud, root: str) -> None:
    """An instance that leaves frees the machine and its parts in one; one that never had the machine does not leave it."""
    publisher.publish(wanted(root))
    cloud.claim(OTHER, slot_of(root), HELD)
    with pytest.raises(ClaimedAlone) as caught:
        publisher.withdraw(root, consumer=CONSUMER)
    assert not caught.value.waiting_helps
    assert f'openstack resource provider allocation show {OTHER}' in str(caught.value)
    cloud.free(OTHER)
    publisher.publish(wanted(root))
    cloud.ask(
        'PUT',
        f'/allocations/{OTHER}',
        {
            'allocations': {root: {'resources': {'CUSTOM_BAREMETAL_GOLD': 1}}, slot_of(root): {'resources': {HELD: 1}}},
            'project_id': 'p',
            'user_id': 'u',
            'consumer_generation': None,
        },
    )
    with pytest.raises(InventoryInUse) as caught:
        publisher.withdraw(root, consumer=CONSUMER)
    assert caught.value.waiting_helps
    assert f'delete its allocation, see openstack resource provider allocation show {OTHER}' in str(caught.value)


@pytest.mark.parametrize('where', ['slot', 'root', 'foreign'])
def test_who_has_claimed_anything_of_a_node_is_in_the_way_of_who_wants_it_alone(
    publisher: Publisher, cloud: Cloud, root: str, where: str
) -> None:
    """Of the machine, of what is ours, or of what is somebody else's below it; the node's own instance does not count."""
    publisher.publish(wanted(root))
    claimed = {
        'slot': (slot_of(root), HELD),
        'root': (root, 'CUSTOM_BAREMETAL_GOLD'),
        'foreign': (cloud.child(root), 'PCI_DEVICE'),
    }[where]
    publisher.withdraw(root, alone=True)
    publisher.publish(wanted(root))
    cloud.claim(OTHER, *claimed)
    publisher.withdraw(root, consumer=OTHER, alone=True)
    with pytest.raises(InventoryInUse) as caught:
        publisher.withdraw(root, consumer=CONSUMER, alone=True)
    name = cloud.ask('GET', f'/resource_providers/{claimed[0]}')['name']
    assert f'while nothing of the node is claimed: provider {name} is held: {claimed[1]} by consumer {OTHER}' in str(
        caught.value
    )
    assert caught.value.waiting_helps == (where == 'root')
    assert {} == cloud.offers(gpu_of(root))
    if where != 'slot':
        publisher.withdraw(root, consumer=CONSUMER)


def test_nothing_is_claimed_of_a_node_that_placement_does_not_know(publisher: Publisher) -> None:
    """Its root may not be there yet."""
    assert () == publisher.withdraw(str(uuid.uuid4()), alone=True).calls


def test_what_is_claimed_and_cannot_be_read_is_no_free_machine(publisher: Publisher, sending: Adapter, root: str) -> None:
    """An answer that is lost is asked for again; one that never comes is an error."""
    publisher.publish(wanted(root))
    left = [2]

    def lose(method: str, url: str) -> None:
        if url.endswith('/allocations') and left[0]:
            left[0] -= 1
            raise exceptions.ConnectFailure('gone')

    sending.before = lose
    publisher.withdraw(root, alone=True)
    assert 0 == left[0]
    left[0] = 1000
    with pytest.raises(PlacementUnreachable):
        publisher.withdraw(root, alone=True)


def test_withdrawing_works_when_the_claim_is_gone(publisher: Publisher, cloud: Cloud, root: str) -> None:
    """Nova frees an instance's claims a little after cleaning has begun: the next try succeeds."""
    publisher.publish(wanted(root))
    cloud.claim(OTHER, slot_of(root), HELD)
    with pytest.raises(InventoryInUse):
        publisher.withdraw(root)
    cloud.free(OTHER)
    publisher.withdraw(root)
    assert {} == cloud.offers(slot_of(root))


def test_what_the_nodes_own_instance_holds_is_reserved_and_stays(publisher: Publisher, cloud: Cloud, root: str) -> None:
    """A service step on an active node takes nothing from its tenant, and nobody else can claim it."""
    publisher.publish(wanted(root))
    cloud.claim(CONSUMER, slot_of(root), HELD)
    publisher.withdraw(root, consumer=CONSUMER)
    assert {HELD: (1, 1)} == cloud.offers(slot_of(root))
    assert {} == cloud.offers(gpu_of(root))
    publisher.publish(wanted(root), consumer=CONSUMER)
    assert {HELD: (1, 0)} == cloud.offers(slot_of(root))


def test_of_a_machine_that_is_taken_only_what_its_instance_holds_is_left(
    publisher: Publisher, sending: Adapter, cloud: Cloud, root: str
) -> None:
    """Nobody can claim it, though: not while the instance has it, and not when it has just gone and cleaning has not begun."""
    publisher.publish(wanted(root))
    cloud.claim(CONSUMER, slot_of(root), HELD)
    taken = providers.withdrawn(wanted(root))
    publisher.publish(taken, consumer=CONSUMER)
    assert {HELD: (1, 1)} == cloud.offers(slot_of(root))
    assert {} == cloud.offers(gpu_of(root))
    sending.sent.clear()
    assert not publisher.publish(taken, consumer=CONSUMER).changed
    assert [f'GET /allocations/{CONSUMER}', 'GET /resource_providers'] == sending.sent
    cloud.free(CONSUMER)
    assert [] == cloud.candidates(root, f'resources_ACC={HELD}:1&in_tree_ACC={root}')
    publisher.publish(wanted(root))
    assert {HELD: (1, 0)} == cloud.offers(slot_of(root))


def test_another_function_under_a_tenant_keeps_what_the_tenant_claimed(publisher: Publisher, cloud: Cloud, root: str) -> None:
    """The class that its instance claimed stays until it is gone, reserved, and the slot is offered as nothing else."""
    publisher.publish(wanted(root))
    cloud.claim(CONSUMER, slot_of(root), HELD)
    aes = {(FPGA, 'Slot0'): 'aes'}
    publisher.declare(['CUSTOM_ACC_FN_AES'])
    publisher.publish(wanted(root, aes), consumer=CONSUMER)
    assert {HELD: (1, 1)} == cloud.offers(slot_of(root))
    assert [] == cloud.candidates(root, f'resources_ACC=CUSTOM_ACC_FN_AES:1&in_tree_ACC={root}')
    cloud.free(CONSUMER)
    publisher.publish(wanted(root, aes))
    assert {'CUSTOM_ACC_FN_AES': (1, 0)} == cloud.offers(slot_of(root))


def test_a_claim_of_somebody_else_keeps_a_publication_from_taking_it(publisher: Publisher, cloud: Cloud, root: str) -> None:
    """All else is published, then it says who holds what."""
    publisher.publish(wanted(root))
    cloud.claim(OTHER, slot_of(root), HELD)
    slots = (slot(0), slot(1))
    with pytest.raises(InventoryInUse, match=OTHER):
        publisher.publish(wanted(root, {(FPGA, 'Slot1'): 'aes'}, accelerators=(gpu(), fpga(slots=slots))))
    assert {HELD: (1, 1)} == cloud.offers(slot_of(root))
    assert {'CUSTOM_ACC_FN_AES': (1, 0)} == cloud.offers(slot_of(root, 'Slot1'))


def test_what_is_not_wanted_any_more_goes_to_nobody_when_its_consumer_has_gone(
    publisher: Publisher, cloud: Cloud, root: str
) -> None:
    """A slot that holds no gzip any more is not found as gzip in the moment when who holds it as that lets go of it."""
    publisher.publish(wanted(root))
    cloud.claim(OTHER, slot_of(root), HELD)
    with pytest.raises(InventoryInUse):
        publisher.publish(wanted(root, {}))
    cloud.free(OTHER)
    assert [] == cloud.candidates(root, f'resources_ACC={HELD}:1&in_tree_ACC={root}')
    publisher.publish(wanted(root, {}))
    assert {} == cloud.offers(slot_of(root))


SECOND = AcceleratorId('uuid:gpu-1')
TWO = {GPU: Offer(how=Offering.TOGETHER), SECOND: Offer(how=Offering.TOGETHER)}
WHOLE = {FPGA: Offer(how=Offering.DEVICE)}
BOTH = {(FPGA, 'Slot0'): 'gzip', (FPGA, 'Slot1'): 'aes'}


@pytest.mark.parametrize(
    ('before', 'after', 'claimed', 'resource_class', 'left'),
    [
        ({}, TWO, lambda root: gpu_of(root), 'PGPU', 0),
        (TWO, {}, lambda root: provider_names.together_uuid(root, gpu()), 'PGPU', 0),
        (WHOLE, {}, lambda root: provider_names.card_uuid(root, FPGA), 'FPGA', 2),
        ({}, WHOLE, lambda root: slot_of(root), HELD, 2),
    ],
    ids=['device-together', 'together-device', 'device-function', 'function-device'],
)
def test_a_device_that_is_held_as_one_thing_is_not_offered_as_another(
    publisher: Publisher,
    cloud: Cloud,
    root: str,
    before: dict[AcceleratorId, Offer],
    after: dict[AcceleratorId, Offer],
    claimed: Callable[[str], str],
    resource_class: str,
    left: int,
) -> None:
    """Rules change under a live claim: until it is gone the device is not promised again. Other devices are offered."""
    seen = inventory(gpu(), gpu(id=SECOND), fpga())
    publisher.publish(providers.tree(seen, met(), root, BOTH, before))
    held = claimed(root)
    cloud.claim(OTHER, held, resource_class)
    wish = providers.tree(seen, met(), root, BOTH, after)
    for _ in range(2):
        with pytest.raises(InventoryInUse, match=OTHER):
            publisher.publish(wish)
        found = {p: cloud.offers(p) for p in cloud.tree(root) - {root}}
        total, reserved = found.pop(held)[resource_class]
        assert total == reserved
        others = [o for o in found.values() if o]
        assert left == sum('PGPU' in o for o in others)
        assert (left == 0) == any('CUSTOM_ACC_FN_AES' in o for o in others)
        assert not any('FPGA' in o for o in others)
    cloud.free(OTHER)
    publisher.publish(wish)
    expected = {p.uuid: {i.resource_class: (i.total, 0) for i in p.inventories} for p in wish.providers if p.inventories}
    assert expected == {p: o for p in cloud.tree(root) - {root} if (o := cloud.offers(p))}


REGIONS = {FPGA: Offer(how=Offering.REGION, known=frozenset({'Slot0', 'Slot1'}))}
BIG = {GPU: Offer(how=Offering.DEVICE, resource_class='CUSTOM_BIG_GPU')}
BIG_TOGETHER = {d: Offer(how=Offering.TOGETHER, resource_class='CUSTOM_BIG_GPU') for d in (GPU, SECOND)}


@pytest.mark.parametrize(
    ('before', 'after', 'claimed', 'resource_class'),
    [
        ({}, REGIONS, slot_of, HELD),
        (REGIONS, {}, slot_of, 'FPGA'),
        ({}, BIG, gpu_of, 'PGPU'),
        (BIG, {}, gpu_of, 'CUSTOM_BIG_GPU'),
        (TWO, BIG_TOGETHER, lambda root: provider_names.together_uuid(root, gpu()), 'PGPU'),
    ],
)
def test_a_device_that_is_held_by_one_name_is_not_offered_by_another(
    publisher: Publisher,
    cloud: Cloud,
    root: str,
    before: dict[AcceleratorId, Offer],
    after: dict[AcceleratorId, Offer],
    claimed: Callable[[str], str],
    resource_class: str,
) -> None:
    """By its own provider, either: who asks for the new class would get the device that somebody has."""
    seen = inventory(gpu(), gpu(id=SECOND), fpga())
    publisher.publish(providers.tree(seen, met(), root, BOTH, before))
    held = claimed(root)
    cloud.claim(OTHER, held, resource_class)
    wish = providers.tree(seen, met(), root, BOTH, after)
    total = cloud.offers(held)[resource_class][0]
    for _ in range(2):
        with pytest.raises(InventoryInUse, match=OTHER):
            publisher.publish(wish)
        assert {resource_class: (total, total)} == cloud.offers(held)
    cloud.free(OTHER)
    publisher.publish(wish)
    new = {i.resource_class: (i.total, 0) for p in wish.providers if p.uuid == held for i in p.inventories}
    assert new == cloud.offers(held)
    assert resource_class not in new


def test_who_stood_still_offers_nothing_of_a_node_that_is_somebody_elses_by_now(
    publisher: Publisher, sending: Adapter, cloud: Cloud, root: str, url: str
) -> None:
    """Another one has cleaned and deployed it meanwhile: what it reserved and withdrew stays so."""
    taken = False

    def still() -> None:
        if taken:
            raise RuntimeError('another conductor has the node')

    def elsewhere(method: str, path: str) -> None:
        nonlocal taken
        if method == 'GET' or taken:
            return
        taken = True
        other = Publisher(PlacementClient(Adapter(url)))
        other.publish(wanted(root))
        cloud.claim(CONSUMER, slot_of(root), HELD)
        other.publish(providers.withdrawn(wanted(root)), consumer=CONSUMER)

    publisher.publish(providers.withdrawn(wanted(root)))
    sending.before = elsewhere
    with pytest.raises(RuntimeError, match='another conductor'):
        publisher.publish(wanted(root), still=still)
    assert {HELD: (1, 1)} == cloud.offers(slot_of(root))
    assert {} == cloud.offers(gpu_of(root))


def test_a_card_that_does_not_hold_up_offers_nothing(publisher: Publisher, cloud: Cloud, root: str) -> None:
    """Its provider and traits stay."""
    publisher.publish(wanted(root))
    unmet = Finding(
        accelerator=GPU, label='H100', subject=PRESENT, fact=FindingText(expected='2.0', found='1.0'), met=Met.NO, rule='all'
    )
    publisher.publish(wanted(root, verdict=Verdict(target='node-1', findings=(unmet,))))
    assert {} == cloud.offers(gpu_of(root))
    assert 'CUSTOM_ACC_GPU' in cloud.traits(gpu_of(root))


def test_a_card_that_is_gone_is_emptied_and_stays_until_it_may_be_deleted(
    publisher: Publisher, cloud: Cloud, root: str
) -> None:
    """Nova cannot update a node for minutes after a provider that it remembers was deleted, so that takes a word."""
    publisher.publish(wanted(root))
    publisher.publish(wanted(root, {}, accelerators=(gpu(),)))
    assert {} == cloud.offers(slot_of(root))
    assert slot_of(root) in cloud.tree(root)
    publisher.publish(wanted(root, {}, accelerators=(gpu(),)), delete_gone=True)
    assert {root, gpu_of(root)} == cloud.tree(root)


def test_what_another_publisher_makes_below_a_card_that_is_deleted_is_deleted_too(
    publisher: Publisher, cloud: Cloud, sending: Adapter, url: str, root: str
) -> None:
    """A conductor that was thought dead: it is no provider of somebody else's, for which an operator would have to look."""
    publisher.publish(wanted(root))
    card = provider_names.card_uuid(root, FPGA)
    again: list[str] = []

    def make_again(method: str, url_sent: str) -> None:
        if (method, url_sent) == ('DELETE', f'/resource_providers/{card}') and not again:
            again.append(url_sent)
            Publisher(PlacementClient(Adapter(url))).publish(wanted(root))

    sending.before = make_again
    publisher.publish(wanted(root, {}, accelerators=(gpu(),)), delete_gone=True)
    assert 1 == len(again)
    assert {root, gpu_of(root)} == cloud.tree(root)


def test_a_claimed_card_is_never_deleted(publisher: Publisher, cloud: Cloud, root: str) -> None:
    """Neither its slot nor the card above it, whatever was asked for."""
    publisher.publish(wanted(root))
    cloud.claim(OTHER, slot_of(root), HELD)
    with pytest.raises(InventoryInUse, match=OTHER):
        publisher.publish(wanted(root, {}, accelerators=(gpu(),)), delete_gone=True)
    assert {root, gpu_of(root), slot_of(root), provider_names.card_uuid(root, FPGA)} == cloud.tree(root)
    assert {HELD: (1, 1)} == cloud.offers(slot_of(root))


def test_a_root_that_is_missing_is_waited_for_and_not_made(publisher: Publisher, cloud: Cloud) -> None:
    """The root is Nova's: reading and publishing say so, and nothing is made."""
    nowhere = str(uuid.uuid4())
    for action in (lambda: publisher.read(nowhere), lambda: publisher.publish(wanted(nowhere))):
        with pytest.raises(RootMissing, match=nowhere) as caught:
            action()
        assert caught.value.waiting_helps
    assert set() == cloud.tree(nowhere)


def test_nothing_is_offered_below_a_missing_root(publisher: Publisher) -> None:
    """A node is cleaned before Nova knows it; there is nothing to withdraw then."""
    assert not publisher.withdraw(str(uuid.uuid4())).changed


def test_a_root_that_vanished_is_noticed(publisher: Publisher, cloud: Cloud, root: str) -> None:
    """Nova deletes a node's whole tree, and what is remembered of it counts for nothing."""
    publisher.publish(wanted(root))
    for provider in [*reversed(publisher.read(root).providers)]:
        cloud.ask('DELETE', f'/resource_providers/{provider.uuid}')
    cloud.ask('DELETE', f'/resource_providers/{root}')
    with pytest.raises(RootMissing):
        publisher.publish(wanted(root))


def test_a_change_by_somebody_else_in_between_is_not_overwritten_blindly(
    publisher: Publisher, sending: Adapter, cloud: Cloud, root: str
) -> None:
    """The generation has moved, so placement refuses; all is read again, and then it is as wanted."""
    publisher.publish(wanted(root))
    cloud.ask('PUT', '/resource_classes/CUSTOM_STRANGE')
    stepped_in = []

    def step_in(method: str, url: str) -> None:
        if method == 'PUT' and url.endswith('/inventories') and not stepped_in:
            stepped_in.append(url)
            cloud.offer(slot_of(root), 'CUSTOM_STRANGE')

    sending.before = step_in
    sending.sent.clear()
    publisher.publish(wanted(root, {}))
    assert 1 == len(stepped_in)
    assert 2 == sum(line.endswith('/inventories') for line in writes(sending.sent))
    assert {} == cloud.offers(slot_of(root))


def test_what_changes_while_it_is_read_is_read_again(publisher: Publisher, url: str, cloud: Cloud, root: str) -> None:
    """Inventory and traits come by two requests, and make one picture only if both are of one generation."""
    publisher.publish(wanted(root))
    looking = Adapter(url)
    stepped_in = []

    def step_in(method: str, path: str) -> None:
        if path == f'/resource_providers/{gpu_of(root)}/traits' and not stepped_in:
            stepped_in.append(path)
            cloud.offer(gpu_of(root), 'PGPU', total=3)

    looking.before = step_in
    found = Publisher(PlacementClient(looking), sleep=lambda seconds: None).read(root)
    assert 1 == len(stepped_in)
    assert [3] == [i.total for i in found.provider(gpu_of(root)).inventories]


def test_values_that_somebody_altered_are_put_right(publisher: Publisher, cloud: Cloud, root: str) -> None:
    """An allocation ratio of two would promise one card to two tenants."""
    publisher.publish(wanted(root))
    cloud.offer(gpu_of(root), 'PGPU', allocation_ratio=2.0)
    assert publisher.publish(wanted(root)).changed
    found = cloud.ask('GET', f'/resource_providers/{gpu_of(root)}/inventories')['inventories']['PGPU']
    assert 1.0 == found['allocation_ratio']


def test_several_publishers_of_one_node_agree_in_the_end(url: str, cloud: Cloud, root: str) -> None:
    """Whoever is last wins, nobody gives up, and nobody fails."""
    errors: list[Exception] = []

    def run(function: str) -> None:
        try:
            Publisher(PlacementClient(Adapter(url))).publish(wanted(root, {(FPGA, 'Slot0'): function}))
        except Exception as exc:  # noqa: BLE001 - shown below
            errors.append(exc)

    threads = [Thread(target=run, args=('gzip',)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [] == errors
    assert {HELD: (1, 0)} == cloud.offers(slot_of(root))
    assert 5 == len(cloud.tree(root))


def test_a_provider_that_was_made_and_not_finished_is_finished(publisher: Publisher, cloud: Cloud, root: str) -> None:
    """A conductor that died between making a provider and giving it our owner trait left one with our UUID."""
    half = wanted(root).provider(gpu_of(root))
    cloud.ask('POST', '/resource_providers', {'uuid': half.uuid, 'name': half.name, 'parent_provider_uuid': root})
    publisher.publish(wanted(root))
    assert {'PGPU': (1, 0)} == cloud.offers(gpu_of(root))
    assert provider_names.OWNER in cloud.traits(gpu_of(root))


def test_a_provider_below_the_wrong_parent_is_moved(publisher: Publisher, cloud: Cloud, root: str) -> None:
    """A slot belongs below its card."""
    publisher.publish(wanted(root))
    slot_name = wanted(root).provider(slot_of(root)).name
    cloud.ask('PUT', f'/resource_providers/{slot_of(root)}', {'name': slot_name, 'parent_provider_uuid': root})
    publisher.publish(wanted(root))
    assert (
        provider_names.card_uuid(root, FPGA) == cloud.ask('GET', f'/resource_providers/{slot_of(root)}')['parent_provider_uuid']
    )


def test_a_provider_of_ours_below_another_root_is_refused(publisher: Publisher, cloud: Cloud, root: str) -> None:
    """It is named, with what to do."""
    publisher.publish(wanted(root))
    gpu_name = wanted(root).provider(gpu_of(root)).name
    cloud.ask('PUT', f'/resource_providers/{gpu_of(root)}', {'name': gpu_name, 'parent_provider_uuid': None})
    with pytest.raises(PlacementRefused, match=f'{gpu_of(root)}.*below another root'):
        publisher.publish(wanted(root))


def test_a_name_that_is_taken_is_refused(publisher: Publisher, cloud: Cloud, root: str) -> None:
    """Names are unique in a cloud; somebody else's provider is not ours to rename. It is named, with what removes it."""
    gpu_name = wanted(root).provider(gpu_of(root)).name
    taken = str(uuid.uuid4())
    cloud.ask('POST', '/resource_providers', {'uuid': taken, 'name': gpu_name, 'parent_provider_uuid': root})
    with pytest.raises(PlacementRefused, match=f'another provider with the name {gpu_name}: {taken}') as refused:
        publisher.publish(wanted(root))
    assert f'which another program or a person made with parent {root}; nothing is allocated of it' in refused.value.message
    assert f'openstack resource provider delete {taken}' in str(refused.value.hint)
    cloud.ask(
        'PUT', f'/resource_providers/{taken}/traits', {'resource_provider_generation': 0, 'traits': [provider_names.OWNER]}
    )
    with pytest.raises(PlacementRefused, match=r'which baremetal-acc made with parent .* for a node that was deleted'):
        publisher.publish(wanted(root))
    cloud.ask('DELETE', f'/resource_providers/{taken}')
    publisher.publish(wanted(root))


def test_a_provider_that_keeps_nova_from_creating_the_root_is_named(publisher: Publisher, cloud: Cloud) -> None:
    """A leftover of a compute node with the name of the node, under another UUID: Nova gets 409; an instance may be on it."""
    node, left = str(uuid.uuid4()), str(uuid.uuid4())
    with pytest.raises(RootMissing, match=rf'no root provider {node} \(nova-compute creates it'):
        publisher.publish(wanted(node))
    cloud.ask('POST', '/resource_providers', {'uuid': left, 'name': node})
    with pytest.raises(RootMissing, match=f'no root provider {node}, and Nova cannot create it, .* {left}, a root provider'):
        publisher.publish(wanted(node))
    cloud.offer(left, 'CUSTOM_BAREMETAL_GOLD')
    consumer = str(uuid.uuid4())
    cloud.claim(consumer, left, 'CUSTOM_BAREMETAL_GOLD')
    cloud.ask('PUT', f'/resource_providers/{left}/traits', {'resource_provider_generation': 2, 'traits': ['OWNER_NOVA']})
    with pytest.raises(RootMissing, match=f'which Nova made for a compute node, .* allocated to {consumer}') as refused:
        publisher.publish(wanted(node))
    assert 'allocation delete CONSUMER for each consumer that is gone, then openstack' in str(refused.value.hint)
    assert () == publisher.withdraw(node).calls, 'a withdrawal has nothing to do there'


def test_a_class_that_somebody_deleted_is_made_again(publisher: Publisher, cloud: Cloud, root: str) -> None:
    """Placement lets anybody delete a class that nobody offers, and then refuses to offer it."""
    own = {(FPGA, 'Slot0'): f'fn-{uuid.uuid4()}'}
    name = provider_names.function_class(own[FPGA, 'Slot0'])
    publisher.publish(wanted(root, own))
    publisher.withdraw(root)
    cloud.ask('DELETE', f'/resource_classes/{name}')
    publisher.publish(wanted(root, own))
    assert {name: (1, 0)} == cloud.offers(slot_of(root))


def test_a_standard_trait_that_placement_does_not_know_is_named(publisher: Publisher, root: str) -> None:
    """The lists of known devices may name a trait of a newer os-traits, or a misspelt one."""
    odd = gpu(traits=frozenset({'HW_GPU_NO_SUCH_THING'}))
    with pytest.raises(PlacementRefused, match='HW_GPU_NO_SUCH_THING'):
        publisher.publish(wanted(root, {}, accelerators=(odd,)))


def test_a_standard_trait_is_set(publisher: Publisher, cloud: Cloud, root: str) -> None:
    """What os-traits has a word for is said with it."""
    publisher.publish(wanted(root, {}, accelerators=(gpu(traits=frozenset({'HW_NIC_ACCEL_SSL'})),)))
    assert 'HW_NIC_ACCEL_SSL' in cloud.traits(gpu_of(root))


def test_classes_can_be_declared_before_anybody_offers_them(publisher: Publisher, cloud: Cloud) -> None:
    """A query for an unknown class is an error (and an instance without a valid host); for a known one it finds nothing."""
    name = provider_names.function_class(f'fn-{uuid.uuid4()}')
    publisher.declare(classes=(name,))
    assert [] == cloud.ask('GET', f'/allocation_candidates?resources={name}:1')['allocation_requests']


def test_a_plan_writes_nothing(publisher: Publisher, sending: Adapter, cloud: Cloud, root: str) -> None:
    """And it is what a publication then does."""
    planned = publisher.plan(wanted(root))
    assert [] == writes(sending.sent)
    assert {root} == cloud.tree(root)
    assert planned == publisher.publish(wanted(root))


def test_a_token_without_roles_is_refused_with_a_hint(url: str, root: str) -> None:
    """The message names the request and what to do; placement's own text and the token are not in it."""
    publisher = Publisher(PlacementClient(Adapter(url, token='very-secret')))
    with pytest.raises(PlacementRefused, match='status 403') as caught:
        publisher.read(root)
    assert 'role service or admin' in str(caught.value)
    assert 'very-secret' not in str(caught.value)


def test_a_placement_that_is_not_there_is_unreachable(root: str) -> None:
    """Waiting can help."""
    publisher = Publisher(PlacementClient(Adapter('http://127.0.0.1:9')))
    with pytest.raises(PlacementUnreachable) as caught:
        publisher.read(root)
    assert caught.value.waiting_helps


def test_a_tree_can_be_replaced_by_itself(publisher: Publisher, root: str) -> None:
    """What was read agrees with what was wanted, generations aside."""
    publisher.publish(wanted(root))
    found = publisher.read(root)
    marked = {replace(p, traits=p.traits | {provider_names.RESERVES_NOTHING}) for p in wanted(root).providers}
    assert marked == {replace(p, generation=None) for p in found.providers}


@pytest.mark.parametrize('role', ['service', 'admin'])
def test_one_role_is_enough(url: str, cloud: Cloud, root: str, role: str) -> None:
    """Ironic's user has the role service; no more is needed for anything that we do."""
    sending = Adapter(url)
    sending.additional_headers['X-Roles'] = role
    publisher = Publisher(PlacementClient(sending))
    publisher.publish(wanted(root))
    cloud.claim(CONSUMER, slot_of(root), HELD)
    publisher.withdraw(root, consumer=CONSUMER)
    assert {HELD: (1, 1)} == cloud.offers(slot_of(root))


def test_any_other_role_is_refused(url: str, root: str) -> None:
    """The message says which role to ask for."""
    sending = Adapter(url)
    sending.additional_headers['X-Roles'] = 'reader'
    with pytest.raises(PlacementRefused, match=r'403.*role service or admin'):
        Publisher(PlacementClient(sending)).publish(wanted(root))


def test_a_provider_that_lost_our_owner_trait_is_ours_no_more(publisher: Publisher, cloud: Cloud, root: str) -> None:
    """Whoever takes the trait away takes the provider over, also from a publisher that remembers it."""
    publisher.publish(wanted(root))
    generation = cloud.ask('GET', f'/resource_providers/{gpu_of(root)}')['generation']
    body = {'resource_provider_generation': generation, 'traits': []}
    cloud.ask('PUT', f'/resource_providers/{gpu_of(root)}/traits', body)
    publisher.withdraw(root)
    assert {'PGPU': (1, 0)} == cloud.offers(gpu_of(root))
    assert {} == cloud.offers(slot_of(root))


def test_all_names_are_made_known_with_few_questions(publisher: Publisher, sending: Adapter, cloud: Cloud) -> None:
    """Two questions; a write for each that is missing, and none when nothing is, however many they are."""
    mark = uuid.uuid4().hex[:8].upper()
    classes = [f'CUSTOM_ACC_FN_{mark}_{n}' for n in range(50)]
    traits = [f'CUSTOM_ACC_CAN_{mark}_{n}' for n in range(50)]
    cloud.ask('PUT', f'/traits/{traits[0]}')
    cloud.ask('PUT', f'/resource_classes/{classes[0]}')
    publisher.declare(traits=traits[:1])  # the version is asked for once
    sending.sent.clear()
    assert tuple(sorted([*classes[1:], *traits[1:]])) == publisher.declare(classes, traits, anew=True)
    assert ['GET /resource_classes', 'GET /traits'] == [line for line in sending.sent if line.startswith('GET')]
    assert 98 == len(writes(sending.sent))
    sending.sent.clear()
    assert () == publisher.declare(iter(classes), iter(traits), anew=True)
    assert ['GET /resource_classes', 'GET /traits'] == sending.sent
    # Somebody tidies up.
    cloud.ask('DELETE', f'/traits/{traits[7]}')
    cloud.ask('DELETE', f'/resource_classes/{classes[7]}')
    assert () == publisher.declare(classes, traits)
    assert (traits[7], classes[7]) == publisher.declare(classes, traits, anew=True)


def test_what_the_root_offers_itself_is_not_offered_a_second_time(
    publisher: Publisher, sending: Adapter, cloud: Cloud, root: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A root that is still flat: a warning names what moves it, all else is offered, and the rest once it was moved."""
    own = cloud.ask('GET', f'/resource_providers/{root}/inventories')
    flat = {
        'resource_provider_generation': own['resource_provider_generation'],
        'inventories': own['inventories'] | {'PGPU': {'total': 1}},
    }
    cloud.ask('PUT', f'/resource_providers/{root}/inventories', flat)
    caplog.clear()
    publisher.publish(wanted(root))
    assert frozenset({'PGPU'}) == publisher.flat(wanted(root))
    assert {} == cloud.offers(gpu_of(root))
    assert {HELD: (1, 0)} == cloud.offers(slot_of(root))
    assert f'node {root}: root provider has inventory of PGPU itself' in caplog.text
    assert 'baremetal-acc reshape' in caplog.text
    assert all('PGPU' not in str(call) for call in publisher.plan(wanted(root)).calls)
    own = cloud.ask('GET', f'/resource_providers/{root}/inventories')
    gone = {k: v for k, v in own['inventories'].items() if k != 'PGPU'}
    body = {'resource_provider_generation': own['resource_provider_generation'], 'inventories': gone}
    cloud.ask('PUT', f'/resource_providers/{root}/inventories', body)
    publisher.publish(wanted(root))
    assert {'PGPU': (1, 0)} == cloud.offers(gpu_of(root))
    sending.sent.clear()
    publisher.publish(wanted(root))
    assert ['GET /resource_providers'] == sending.sent


def test_what_is_on_offer_already_stays_when_the_root_offers_it_too(publisher: Publisher, cloud: Cloud, root: str) -> None:
    """Somebody may hold it; a reshape ends that."""
    publisher.publish(wanted(root))
    own = cloud.ask('GET', f'/resource_providers/{root}/inventories')
    body = own | {'inventories': own['inventories'] | {'PGPU': {'total': 1}}}
    cloud.ask('PUT', f'/resource_providers/{root}/inventories', body)
    publisher.publish(
        wanted(root, {(FPGA, 'Slot0'): 'gzip', (FPGA, 'Slot1'): 'aes'}, accelerators=(gpu(), fpga(slots=(slot(0), slot(1)))))
    )
    assert {'PGPU': (1, 0)} == cloud.offers(gpu_of(root))
