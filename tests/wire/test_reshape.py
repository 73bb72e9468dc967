# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Flat inventory moves with its live claims, in a real placement, whatever others do meanwhile and whatever gets lost."""

import random
import re
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Event, Thread
from typing import Any

import pytest
from keystoneauth1 import exceptions

from baremetal_acc.errors import PlacementRefused, PlacementUnreachable, RootMissing
from baremetal_acc.model.provider import CreateProvider, ProviderInventory, ProviderTree, SetTraits
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.model.reshape import InventoryMove
from baremetal_acc.model.verdict import Verdict
from baremetal_acc.placement.client import PlacementClient
from baremetal_acc.placement.publish import Publisher
from baremetal_acc.placement.reshape import CALM, CLOSED, Reshaper, ReshapeRefused, Wish
from baremetal_acc.policy.baseline_rules import Offering
from baremetal_acc.render.reshape_refusals import sentences
from baremetal_acc.scheduling import provider_names, providers
from baremetal_acc.scheduling.schedulable import Offer
from tests.unit.planning.values import FPGA, fpga, gpu, inventory
from tests.wire.test_placement import Adapter, Cloud

GOLD = 'CUSTOM_BAREMETAL_GOLD'
RESHAPER = 'POST /reshaper'


class FlatCloud(Cloud):
    """Everybody else, with inventory on the root as Nova writes it from provider.yaml."""

    def flat(self, **classes: int | dict[str, Any]) -> str:
        """A node whose root offers the node's own class, and these."""
        root = self.root()
        for name in classes:
            if name.startswith('CUSTOM_'):
                self.ask('PUT', f'/resource_classes/{name}')
        self.stock(root, **{GOLD: 1} | classes)
        return root

    def stock(self, provider: str, **classes: int | dict[str, Any]) -> None:
        """Set everything that a provider offers."""
        generation = self.ask('GET', f'/resource_providers/{provider}')['generation']
        offers = {name: {'total': n, 'max_unit': n} if isinstance(n, int) else n for name, n in classes.items()}
        body = {'resource_provider_generation': generation, 'inventories': offers}
        self.ask('PUT', f'/resource_providers/{provider}/inventories', body)

    def tenant(self, **claims: dict[str, int]) -> str:
        """An instance with claims by provider."""
        consumer = str(uuid.uuid4())
        self.ask('PUT', f'/allocations/{consumer}', claim({p: dict(r) for p, r in claims.items()}))
        return consumer

    def holds(self, consumer: str) -> dict[str, dict[str, int]]:
        """What somebody claims, by provider."""
        found = self.ask('GET', f'/allocations/{consumer}')['allocations']
        return {p: a['resources'] for p, a in found.items()}

    def everything(self, root: str, *consumers: str) -> Any:
        """Inventories, traits and generations of a tree, and what these consumers hold."""
        return [self.all_of(p) for p in sorted(self.tree(root))], [self.ask('GET', f'/allocations/{c}') for c in consumers]


def claim(resources: dict[str, dict[str, int]]) -> dict[str, Any]:
    allocations = {p: {'resources': r} for p, r in resources.items()}
    return {'allocations': allocations, 'project_id': 'p', 'user_id': 'u', 'consumer_generation': None}


@pytest.fixture
def cloud(url: str) -> FlatCloud:
    return FlatCloud(url)


@pytest.fixture
def sending(url: str) -> Adapter:
    return Adapter(url)


@pytest.fixture
def reshaper(sending: Adapter) -> Reshaper:
    return made(sending)


def made(sending: Adapter, **other: Any) -> Reshaper:
    client = PlacementClient(sending)
    return Reshaper(client, Publisher(client), **{'sleep': lambda seconds: None} | other)


def gpus(root: str, count: int = 2) -> ProviderTree:
    """So many GPUs that hold up."""
    found = [gpu(id=AcceleratorId(f'uuid:gpu-{n}')) for n in range(count)]
    return providers.tree(inventory(*found), Verdict(target='node-1', findings=()), root, {})


def card(root: str, number: int) -> str:
    return provider_names.card_uuid(root, AcceleratorId(f'uuid:gpu-{number}'))


def first(root: str) -> str:
    """Of two cards the one that a claim goes to."""
    return min(card(root, 0), card(root, 1))


def forth(root: str, count: int = 2, **other: Any) -> Wish:
    return Wish(root_uuid=root, wanted=gpus(root, count), **other)


@contextmanager
def refused(told: str) -> Iterator[pytest.ExceptionInfo[ReshapeRefused]]:
    """A reshape is, for one reason."""
    with pytest.raises(ReshapeRefused) as caught:
        yield caught
    [said] = sentences(caught.value.reshape)
    assert re.search(told, said), said


def back(root: str, **other: Any) -> Wish:
    return Wish(root_uuid=root, **other)


def on_cards(cloud: FlatCloud, root: str, count: int = 2) -> list[Any]:
    return [cloud.offers(card(root, n)) for n in range(count)]


def before_the_call(sending: Adapter, act: Callable[[], None], times: int = 1) -> None:
    """Let somebody else act just before the call goes out, so many times."""
    left = [times]

    def step_in(method: str, url: str) -> None:
        if f'{method} {url}' == RESHAPER and left[0]:
            left[0] -= 1
            act()

    sending.before = step_in


def calls(sending: Adapter) -> int:
    return sending.sent.count(RESHAPER)


def test_flat_inventory_moves_with_its_live_claims(reshaper: Reshaper, sending: Adapter, cloud: FlatCloud) -> None:
    """One call. The tenant keeps the node, what it has on other nodes, and its two GPUs: one of each card now."""
    root, other = cloud.flat(PGPU=2), cloud.flat(VGPU=4)
    tenant = cloud.tenant(**{root: {GOLD: 1, 'PGPU': 2}, other: {'VGPU': 3}})
    done = reshaper.apply(forth(root))
    assert 1 == calls(sending)
    expected = {root: {GOLD: 1}, card(root, 0): {'PGPU': 1}, card(root, 1): {'PGPU': 1}, other: {'VGPU': 3}}
    assert expected == cloud.holds(tenant)
    assert {GOLD: (1, 0)} == cloud.offers(root)
    assert 2 * [{'PGPU': (1, 0)}] == on_cards(cloud, root)
    assert (2, 2) == (done.reshape.moves[0].before, done.reshape.moves[0].claimed)
    assert 2 * [CreateProvider] + 2 * [SetTraits] == [type(c) for c in done.calls]
    assert provider_names.OWNER in cloud.traits(card(root, 0))


def test_a_node_that_nova_reserves_for_its_instance_can_be_reshaped(reshaper: Reshaper, cloud: FlatCloud) -> None:
    """As it does of every node with an instance. The reserve stays."""
    root = cloud.flat(PGPU=2)
    tenant = cloud.tenant(**{root: {GOLD: 1, 'PGPU': 1}})
    cloud.stock(root, **{GOLD: {'total': 1, 'reserved': 1, 'max_unit': 1}, 'PGPU': 2})
    reshaper.apply(forth(root))
    assert {GOLD: (1, 1)} == cloud.offers(root)
    assert {root: {GOLD: 1}, first(root): {'PGPU': 1}} == cloud.holds(tenant)


def test_what_stays_on_the_root_stays_to_the_last_value(reshaper: Reshaper, cloud: FlatCloud) -> None:
    """Its own class, other classes with all their values, and its traits."""
    odd = {'total': 9, 'reserved': 1, 'min_unit': 2, 'max_unit': 8, 'step_size': 2, 'allocation_ratio': 1.5}
    root = cloud.flat(PGPU=1, CUSTOM_ODD=odd)
    reshaper.apply(forth(root))
    found = cloud.ask('GET', f'/resource_providers/{root}/inventories')['inventories']
    assert {GOLD, 'CUSTOM_ODD'} == set(found)
    assert odd == found['CUSTOM_ODD']
    assert {'OWNER_NOVA'} == cloud.traits(root)


def test_there_and_back_is_where_it_began(reshaper: Reshaper, cloud: FlatCloud) -> None:
    """Claims of all tenants, what the root offers, and what the reserves were; the providers stay, empty."""
    root = cloud.flat(PGPU={'total': 4, 'max_unit': 4, 'reserved': 1})
    first, second = cloud.tenant(**{root: {GOLD: 1, 'PGPU': 2}}), cloud.tenant(**{root: {'PGPU': 1}})
    before = cloud.offers(root)
    reshaper.apply(forth(root, 4))
    assert {GOLD: (1, 0)} == cloud.offers(root)
    done = reshaper.apply(back(root))
    assert before == cloud.offers(root)
    assert {root: {GOLD: 1, 'PGPU': 2}} == cloud.holds(first)
    assert {root: {'PGPU': 1}} == cloud.holds(second)
    assert 4 * [{}] == on_cards(cloud, root, 4)
    assert () == done.calls
    assert 5 == len(cloud.tree(root))


def test_an_operators_class_and_model_there_and_back(reshaper: Reshaper, cloud: FlatCloud) -> None:
    """The operator's flat class is another word for what the cards have."""
    root = cloud.flat(CUSTOM_GPU_BIG=2, PGPU=1)
    tenant = cloud.tenant(**{root: {'CUSTOM_GPU_BIG': 1}})
    move = InventoryMove(flat='CUSTOM_GPU_BIG', nested='PGPU', trait='CUSTOM_ACC_GPU_NVIDIA_H100')
    reshaper.apply(forth(root, moves=(move,)))
    assert {first(root): {'PGPU': 1}} == cloud.holds(tenant)
    assert {GOLD: (1, 0), 'PGPU': (1, 0)} == cloud.offers(root)
    reshaper.apply(back(root, moves=(move,)))
    assert {root: {'CUSTOM_GPU_BIG': 1}} == cloud.holds(tenant)
    assert {GOLD: (1, 0), 'PGPU': (1, 0), 'CUSTOM_GPU_BIG': (2, 0)} == cloud.offers(root)


def test_devices_that_are_offered_together_take_a_claim_whole(reshaper: Reshaper, cloud: FlatCloud) -> None:
    """One provider has all eight, so a flavor that asks for eight stays right; and back."""
    root = cloud.flat(PGPU=8)
    tenant = cloud.tenant(**{root: {GOLD: 1, 'PGPU': 8}})
    found = [gpu(id=AcceleratorId(f'uuid:gpu-{n}')) for n in range(8)]
    offered = {a.id: Offer(how=Offering.TOGETHER) for a in found}
    tree = providers.tree(inventory(*found), Verdict(target='node-1', findings=()), root, {}, offered)
    reshaper.apply(Wish(root_uuid=root, wanted=tree))
    assert {root: {GOLD: 1}, provider_names.together_uuid(root, found[0]): {'PGPU': 8}} == cloud.holds(tenant)
    reshaper.apply(back(root))
    assert {root: {GOLD: 1, 'PGPU': 8}} == cloud.holds(tenant)


def test_a_class_that_nobody_ever_offered_is_made_known(reshaper: Reshaper, cloud: FlatCloud) -> None:
    """Placement refuses inventory of a class that it does not know."""
    root = cloud.flat(FPGA=1)
    function = f'fn-{uuid.uuid4()}'
    name = provider_names.function_class(function)
    verdict = Verdict(target='node-1', findings=())
    tree = providers.tree(inventory(fpga()), verdict, root, {(FPGA, 'Slot0'): function})
    reshaper.apply(Wish(root_uuid=root, wanted=tree, moves=(InventoryMove(flat='FPGA', nested=name),)))
    assert {name: (1, 0)} == cloud.offers(provider_names.slot_uuid(root, FPGA, 'Slot0'))


def test_a_plan_writes_nothing_and_is_what_is_then_done(reshaper: Reshaper, sending: Adapter, cloud: FlatCloud) -> None:
    """The providers that it would make, and what would move to them."""
    root = cloud.flat(PGPU=2)
    tenant = cloud.tenant(**{root: {'PGPU': 1}})
    before = cloud.everything(root, tenant)
    planned = reshaper.plan(forth(root))
    assert [] == [line for line in sending.sent if not line.startswith('GET ')]
    assert before == cloud.everything(root, tenant)
    done = reshaper.apply(forth(root))
    assert planned.calls == done.calls
    assert (planned.reshape.moves, planned.reshape.shifts) == (done.reshape.moves, done.reshape.shifts)


def test_done_twice_is_done_once(reshaper: Reshaper, sending: Adapter, cloud: FlatCloud) -> None:
    """The second time there is nothing to move and nothing is written."""
    root = cloud.flat(PGPU=2)
    reshaper.apply(forth(root))
    sending.sent.clear()
    again = reshaper.apply(forth(root))
    assert ((), ()) == (again.calls, again.reshape.moves)
    assert [] == [line for line in sending.sent if not line.startswith('GET ')]


def test_a_refusal_leaves_everything_as_it_was(reshaper: Reshaper, sending: Adapter, cloud: FlatCloud) -> None:
    """More is claimed than devices hold up; not even an empty provider is made."""
    root = cloud.flat(PGPU=2)
    tenant = cloud.tenant(**{root: {'PGPU': 2}})
    before = cloud.everything(root, tenant)
    planned = reshaper.plan(forth(root, 1))
    with refused(f'2 PGPU of the root are claimed.*{tenant}') as caught:
        reshaper.apply(forth(root, 1))
    assert caught.value.reshape == planned.reshape
    assert () == planned.calls
    assert before == cloud.everything(root, tenant)
    assert [] == [line for line in sending.sent if not line.startswith('GET ')]


def test_nothing_can_be_scheduled_before_the_call(reshaper: Reshaper, sending: Adapter, cloud: FlatCloud) -> None:
    """The providers are there, and empty: what is offered is offered once, at the root."""
    root = cloud.flat(PGPU=1)
    seen: list[Any] = []
    query = f'resources_ACC=PGPU:1&in_tree_ACC={root}'
    before_the_call(sending, lambda: seen.extend(cloud.candidates(root, query)))
    reshaper.apply(forth(root, 1))
    assert [{root}] == seen
    assert [{card(root, 0)}] == cloud.candidates(root, query)


def test_a_claim_in_between_moves_too(reshaper: Reshaper, sending: Adapter, cloud: FlatCloud) -> None:
    """Placement refuses the call; it is looked anew, and then the new claim is among those that move."""
    root = cloud.flat(PGPU=2)
    late: list[str] = []
    before_the_call(sending, lambda: late.append(cloud.tenant(**{root: {'PGPU': 1}})))
    reshaper.apply(forth(root))
    assert 2 == calls(sending)
    assert {first(root): {'PGPU': 1}} == cloud.holds(late[0])


def test_what_is_freed_in_between_stays_free(reshaper: Reshaper, sending: Adapter, cloud: FlatCloud) -> None:
    """A consumer that is gone is not written anew."""
    root = cloud.flat(PGPU=2)
    tenant = cloud.tenant(**{root: {GOLD: 1, 'PGPU': 1}})
    before_the_call(sending, lambda: cloud.free(tenant))
    reshaper.apply(forth(root))
    assert 2 == calls(sending)
    assert {} == cloud.holds(tenant)
    assert 2 * [{'PGPU': (1, 0)}] == on_cards(cloud, root)


def test_what_is_freed_while_it_is_looked_at_stays_free(reshaper: Reshaper, sending: Adapter, cloud: FlatCloud) -> None:
    """Freed between the list of claims and the claims themselves: its units are free."""
    root = cloud.flat(PGPU=1)
    tenant = cloud.tenant(**{root: {'PGPU': 1}})

    def step_in(method: str, url: str) -> None:
        if url == f'/allocations/{tenant}':
            cloud.free(tenant)

    sending.before = step_in
    done = reshaper.apply(forth(root, 1))
    assert 0 == done.reshape.moves[0].claimed
    assert {} == cloud.holds(tenant)


def test_what_a_tenant_claims_elsewhere_in_between_is_kept(reshaper: Reshaper, sending: Adapter, cloud: FlatCloud) -> None:
    """Its claims are replaced as a whole, so a call that does not know of one has to be refused."""
    root, other = cloud.flat(PGPU=1), cloud.flat(VGPU=4)
    tenant = cloud.tenant(**{root: {'PGPU': 1}})

    def more() -> None:
        body = claim({root: {'PGPU': 1}, other: {'VGPU': 2}}) | {'consumer_generation': 1}
        cloud.ask('PUT', f'/allocations/{tenant}', body)

    before_the_call(sending, more)
    reshaper.apply(forth(root, 1))
    assert {card(root, 0): {'PGPU': 1}, other: {'VGPU': 2}} == cloud.holds(tenant)


def test_a_claim_of_a_device_in_between_is_counted(reshaper: Reshaper, sending: Adapter, cloud: FlatCloud) -> None:
    """A node that offers both, for provider.yaml came later: the card that somebody takes now is not given to somebody else."""
    root = cloud.flat()
    Publisher(PlacementClient(Adapter(sending.get_endpoint()))).publish(gpus(root))
    own = cloud.ask('GET', f'/resource_providers/{root}/inventories')
    own['inventories']['PGPU'] = {'total': 2}
    cloud.ask('PUT', f'/resource_providers/{root}/inventories', own)
    tenant = cloud.tenant(**{root: {'PGPU': 1}})
    late: list[str] = []
    before_the_call(sending, lambda: late.append(cloud.tenant(**{card(root, 0): {'PGPU': 1}})))
    reshaper.apply(forth(root))
    assert {card(root, 0): {'PGPU': 1}} == cloud.holds(late[0])
    assert {card(root, 1): {'PGPU': 1}} == cloud.holds(tenant)


def flat_and_together(cloud: FlatCloud) -> tuple[str, str]:
    """A node whose two GPUs are on offer of the root, and counted together, as an earlier rule had it. :returns: both."""
    root = cloud.flat()
    found = [gpu(id=AcceleratorId(f'uuid:gpu-{n}')) for n in range(2)]
    offered = {a.id: Offer(how=Offering.TOGETHER) for a in found}
    tree = providers.tree(inventory(*found), Verdict(target='node-1', findings=()), root, {}, offered)
    Publisher(PlacementClient(cloud.adapter)).publish(tree)
    cloud.stock(root, **{GOLD: 1, 'PGPU': 2})
    return root, provider_names.together_uuid(root, found[0])


def test_a_card_that_is_held_as_something_else_takes_nothing(reshaper: Reshaper, cloud: FlatCloud) -> None:
    """The claim goes to the other card; when that is held, too, all is refused, with the holder, and stays as it was."""
    root = cloud.flat(PGPU=2)
    Publisher(PlacementClient(cloud.adapter)).publish(replace_offers(gpus(root), 'CUSTOM_BIG_GPU', first(root)))
    holder = cloud.tenant(**{first(root): {'CUSTOM_BIG_GPU': 1}})
    second = max(card(root, 0), card(root, 1))
    tenants = [cloud.tenant(**{root: {'PGPU': 1}}) for _ in range(2)]
    before = cloud.everything(root, holder, *tenants)
    told = f'can take over nothing while 1 CUSTOM_BIG_GPU of {root}_ACC_.* is claimed \\(by {holder}\\)'
    with refused(f'2 PGPU of the root are claimed.*room for 1 PGPU.*{told}'):
        reshaper.apply(forth(root))
    assert before == cloud.everything(root, holder, *tenants)
    cloud.free(tenants.pop())
    reshaper.apply(forth(root))
    assert [{second: {'PGPU': 1}}] == [cloud.holds(t) for t in tenants]
    assert {first(root): {'CUSTOM_BIG_GPU': 1}} == cloud.holds(holder)
    assert ({'CUSTOM_BIG_GPU': (1, 0)}, {'PGPU': (1, 0)}) == (cloud.offers(first(root)), cloud.offers(second))


def replace_offers(tree: ProviderTree, name: str, provider: str) -> ProviderTree:
    """One provider of it alone offers anything, and as that class."""
    offers = {provider: (ProviderInventory(resource_class=name),)}
    return replace(tree, providers=tuple(replace(p, inventories=offers.get(p.uuid, ())) for p in tree.providers))


def test_cards_that_are_held_together_take_nothing_one_by_one(reshaper: Reshaper, cloud: FlatCloud) -> None:
    """An earlier rule counted them: their provider is none of today's. Nobody can say which card is held."""
    root, counted = flat_and_together(cloud)
    holder, tenant = cloud.tenant(**{counted: {'PGPU': 1}}), cloud.tenant(**{root: {'PGPU': 1}})
    before = cloud.everything(root, holder, tenant)
    with refused(f'no device can take over PGPU; .* while 1 PGPU of {root}_ACC_.* is claimed .by {holder}'):
        reshaper.apply(forth(root))
    assert before == cloud.everything(root, holder, tenant)
    cloud.free(holder)
    reshaper.apply(forth(root))
    assert {first(root): {'PGPU': 1}} == cloud.holds(tenant)
    # Nobody gets them by their other name either, until the next publication takes it away.
    assert {'PGPU': (2, 2)} == cloud.offers(counted)


def test_who_takes_a_card_by_its_other_name_in_between_is_seen(reshaper: Reshaper, sending: Adapter, cloud: FlatCloud) -> None:
    """The call carries the generation of whoever stands for the card."""
    root, counted = flat_and_together(cloud)
    tenant = cloud.tenant(**{root: {'PGPU': 1}})
    late: list[str] = []
    before_the_call(sending, lambda: late.append(cloud.tenant(**{counted: {'PGPU': 1}})))
    with refused('no device can take over PGPU'):
        reshaper.apply(forth(root))
    assert 1 == calls(sending)
    assert [{root: {'PGPU': 1}}, {counted: {'PGPU': 1}}] == [cloud.holds(c) for c in (tenant, *late)]


def test_who_takes_and_frees_a_card_by_its_other_name_is_kept_away(
    reshaper: Reshaper, sending: Adapter, cloud: FlatCloud
) -> None:
    """What a card is on offer as besides is closed, too, and opened again."""
    root, counted = flat_and_together(cloud)

    def act() -> None:
        got: list[str] = []
        claim_now(cloud, counted, got)
        for tenant in got:
            cloud.free(tenant)

    before_the_call(sending, act, times=100)
    reshaper.apply(forth(root))
    assert CALM + 1 == calls(sending)
    found = cloud.ask('GET', f'/resource_providers/{counted}/inventories')['inventories']['PGPU']
    assert (2, 1) == (found['reserved'], found['min_unit'])


def test_what_others_have_below_the_root_is_none_of_the_devices(reshaper: Reshaper, cloud: FlatCloud) -> None:
    """Another service's provider below a card may be held as it likes."""
    root = cloud.flat(PGPU=1)
    other = str(uuid.uuid4())
    Publisher(PlacementClient(cloud.adapter)).prepare(gpus(root, 1))
    cloud.ask('POST', '/resource_providers', {'uuid': other, 'name': other, 'parent_provider_uuid': card(root, 0)})
    cloud.stock(other, VGPU=1)
    cloud.tenant(**{other: {'VGPU': 1}})
    tenant = cloud.tenant(**{root: {'PGPU': 1}})
    reshaper.apply(forth(root, 1))
    assert {card(root, 0): {'PGPU': 1}} == cloud.holds(tenant)


def test_an_answer_that_is_lost_is_found_out_by_looking(reshaper: Reshaper, sending: Adapter, cloud: FlatCloud) -> None:
    """The connection breaks after placement did it: it is not sent again, and what was done is told."""
    root = cloud.flat(PGPU=2)
    tenant = cloud.tenant(**{root: {'PGPU': 1}})
    sending.after = lost_once()
    done = reshaper.apply(forth(root))
    assert 1 == calls(sending)
    assert {first(root): {'PGPU': 1}} == cloud.holds(tenant)
    assert 1 == done.reshape.moves[0].claimed


def test_a_request_that_is_lost_is_sent_again(reshaper: Reshaper, sending: Adapter, cloud: FlatCloud) -> None:
    """It never arrived, as the look tells."""
    root = cloud.flat(PGPU=2)

    def lose() -> None:
        raise exceptions.ConnectFailure('lost')

    before_the_call(sending, lose)
    reshaper.apply(forth(root))
    assert 1 == calls(sending)
    assert 2 * [{'PGPU': (1, 0)}] == on_cards(cloud, root)


def test_a_placement_that_goes_away_is_told_with_what_to_do(sending: Adapter, cloud: FlatCloud) -> None:
    """After a call whose answer was lost nobody can know; the same command finds out."""
    root = cloud.flat(PGPU=1)
    sending.after = lost_once(for_good=True)
    with pytest.raises(PlacementUnreachable, match='run the same command again') as caught:
        made(sending, attempts=4).apply(forth(root, 1))
    assert caught.value.waiting_helps
    assert {'PGPU': (1, 0)} == cloud.offers(card(root, 0))


def lost_once(*, for_good: bool = False) -> Callable[[str, str], None]:
    """The connection breaks after the call was done; the next ones work, or never again."""
    broken = [False]

    def lose(method: str, url: str) -> None:
        if broken[0] and for_good:
            raise exceptions.ConnectFailure('gone')
        if f'{method} {url}' == RESHAPER and not broken[0]:
            broken[0] = True
            raise exceptions.ConnectFailure('lost')

    return lose


def test_somebody_who_never_stops_is_given_up_on(sending: Adapter, cloud: FlatCloud) -> None:
    """After so many attempts nothing was moved, all is open again, and the error says to try again."""
    root = cloud.flat(PGPU={'total': 8, 'max_unit': 8, 'min_unit': 2, 'step_size': 2}, VGPU=100)
    before = cloud.ask('GET', f'/resource_providers/{root}/inventories')['inventories']
    before_the_call(sending, lambda: cloud.free(cloud.tenant(**{root: {'VGPU': 1}})), times=100)
    pauses: list[float] = []
    with pytest.raises(PlacementUnreachable, match='stopped after 5 attempts'):
        made(sending, attempts=5, sleep=pauses.append, jitter=lambda: 1.0).apply(forth(root, 8))
    assert 5 == calls(sending)
    assert [0.02, 0.04, 0.08, 0.16, 0.25] == pauses
    assert before == cloud.ask('GET', f'/resource_providers/{root}/inventories')['inventories']
    assert 8 * [{}] == on_cards(cloud, root, 8)


def claim_now(cloud: FlatCloud, root: str, got: list[str], name: str = 'PGPU') -> None:
    """Somebody claims one, if it can be had."""
    consumer = str(uuid.uuid4())
    answer = cloud.ask('PUT', f'/allocations/{consumer}', claim({root: {name: 1}}), ok=False)
    if 'errors' not in answer:
        got.append(consumer)


def test_who_claims_all_the_time_is_kept_away(reshaper: Reshaper, sending: Adapter, cloud: FlatCloud) -> None:
    """After some attempts newcomers find it closed, and then the call fits in; who came before them keeps what it has."""
    root = cloud.flat(PGPU=8)
    got: list[str] = []
    before_the_call(sending, lambda: claim_now(cloud, root, got), times=100)
    reshaper.apply(forth(root, 8))
    assert (CALM + 1, CALM) == (calls(sending), len(got))
    assert 8 * [{'PGPU': (1, 0)}] == on_cards(cloud, root, 8)
    assert CALM == sum(usages(cloud, root).values())
    found = cloud.ask('GET', f'/resource_providers/{card(root, 0)}/inventories')['inventories']['PGPU']
    assert {'total': 1, 'reserved': 0, 'min_unit': 1, 'max_unit': 1, 'step_size': 1, 'allocation_ratio': 1.0} == found


def test_on_the_way_back_newcomers_are_kept_away_too(reshaper: Reshaper, sending: Adapter, cloud: FlatCloud) -> None:
    """From the devices that they would claim."""
    root = cloud.flat(PGPU=8)
    reshaper.apply(forth(root, 8))
    got: list[str] = []
    left = [card(root, n) for n in range(8)]
    before_the_call(sending, lambda: claim_now(cloud, left.pop(), got), times=8)
    sending.sent.clear()
    reshaper.apply(back(root))
    assert (CALM + 1, CALM) == (calls(sending), len(got))
    assert (8, 0) == cloud.offers(root)['PGPU']
    assert all({root: {'PGPU': 1}} == cloud.holds(tenant) for tenant in got)


def test_what_was_closed_is_opened_when_it_is_refused_then(reshaper: Reshaper, sending: Adapter, cloud: FlatCloud) -> None:
    """Meanwhile more was claimed than there are devices that hold up: nothing moves, and all can be claimed as before."""
    root = cloud.flat(PGPU={'total': 8, 'max_unit': 8, 'min_unit': 1, 'step_size': 1, 'allocation_ratio': 2.0})
    got: list[str] = []

    def act() -> None:
        for _ in range(2):
            claim_now(cloud, root, got)

    before_the_call(sending, act, times=4)
    with refused('of the root are claimed'):
        reshaper.apply(forth(root, 5))
    assert CALM == calls(sending)
    claim_now(cloud, root, got)
    assert 2 * CALM + 1 == len(got)
    assert {root: {'PGPU': 1}} == cloud.holds(got[-1])


def test_what_a_process_that_died_left_closed_is_opened(reshaper: Reshaper, cloud: FlatCloud) -> None:
    """By the same command, whether it moves, is refused, or has nothing to move."""
    shut = {'total': 2, 'max_unit': 2, 'min_unit': CLOSED}
    root = cloud.flat(PGPU=shut)
    tenants: list[str] = []
    claim_now(cloud, root, tenants)
    assert [] == tenants
    with refused('no device that passes verification'):
        reshaper.apply(forth(root, moves=(InventoryMove(flat='PGPU', nested='PGPU', trait='CUSTOM_NOBODY'),)))
    claim_now(cloud, root, tenants)
    assert 1 == len(tenants)
    cloud.stock(root, **{GOLD: 1, 'PGPU': shut})
    reshaper.apply(forth(root))
    assert 2 * [{'PGPU': (1, 0)}] == on_cards(cloud, root)
    cloud.stock(first(root), PGPU={'total': 1, 'max_unit': 1, 'min_unit': CLOSED})
    assert () == reshaper.apply(forth(root)).reshape.moves
    assert 1 == cloud.ask('GET', f'/resource_providers/{first(root)}/inventories')['inventories']['PGPU']['min_unit']


def test_who_lacks_the_role_service_is_told(url: str, cloud: FlatCloud) -> None:
    """The role admin is enough for all that we publish, and not for this; nothing was moved."""
    root = cloud.flat(PGPU=1)
    admin = Adapter(url)
    admin.additional_headers['X-Roles'] = 'admin'
    with pytest.raises(PlacementRefused, match=r'POST /reshaper: status 403.*role add --user USER --project service service'):
        made(admin).apply(forth(root, 1))
    assert {GOLD: (1, 0), 'PGPU': (1, 0)} == cloud.offers(root)
    assert [{}] == on_cards(cloud, root, 1)


def test_the_role_service_is_enough(url: str, cloud: FlatCloud) -> None:
    """For looking, for the providers, and for the call."""
    root = cloud.flat(PGPU=1)
    tenant = cloud.tenant(**{root: {'PGPU': 1}})
    service = Adapter(url)
    service.additional_headers['X-Roles'] = 'service'
    made(service).apply(forth(root, 1))
    assert {card(root, 0): {'PGPU': 1}} == cloud.holds(tenant)


def test_a_root_that_is_missing_is_not_made(reshaper: Reshaper, cloud: FlatCloud) -> None:
    """It is Nova's."""
    nowhere = str(uuid.uuid4())
    for wish in (forth(nowhere), back(nowhere)):
        for act in (reshaper.plan, reshaper.apply):
            with pytest.raises(RootMissing, match=nowhere):
                act(wish)
    assert set() == cloud.tree(nowhere)


def test_a_provider_that_is_deleted_in_between_is_made_again(reshaper: Reshaper, sending: Adapter, cloud: FlatCloud) -> None:
    """Nova deletes trees; placement refuses the call, and it is prepared anew."""
    root = cloud.flat(PGPU=2)
    before_the_call(sending, lambda: cloud.ask('DELETE', f'/resource_providers/{card(root, 0)}'))
    reshaper.apply(forth(root))
    assert 2 * [{'PGPU': (1, 0)}] == on_cards(cloud, root)
    assert provider_names.OWNER in cloud.traits(card(root, 0))


def test_a_root_whose_only_inventory_moves_is_left_empty(reshaper: Reshaper, cloud: FlatCloud) -> None:
    """Nova has not written the node's own class yet."""
    root = cloud.flat(PGPU=1)
    cloud.stock(root, PGPU=1)
    reshaper.apply(forth(root, 1))
    assert {} == cloud.offers(root)
    reshaper.apply(back(root))
    assert {'PGPU': (1, 0)} == cloud.offers(root)


def test_a_publication_afterwards_agrees(reshaper: Reshaper, sending: Adapter, cloud: FlatCloud) -> None:
    """What was moved is what would be published: all that is left to say is that nothing is reserved for a reshape any more."""
    root = cloud.flat(PGPU=2)
    reshaper.apply(forth(root))
    after = Publisher(PlacementClient(sending))
    left = after.plan(gpus(root)).calls
    before = {p.uuid: p.traits for p in after.read(root).providers}
    marked = {uuid: traits | {provider_names.RESERVES_NOTHING} for uuid, traits in before.items()}
    assert marked == {c.uuid: c.traits for c in left if isinstance(c, SetTraits)}
    assert len(left) == len(marked)


class Claimers:
    """Tenants that claim and free as they please, each with a claim on another node that has to survive, and count."""

    PAUSE = 0.8
    """Seconds between two acts of one of them, at most."""

    def __init__(self, url: str, root: str, other: str, count: int) -> None:
        self.places = (root, *(card(root, n) for n in range(count)))
        self.other = other
        self.errors: list[str] = []
        self.claims = 0
        self.held: dict[int, str] = {}
        self.stop = Event()
        self.threads = [Thread(target=self._run, args=(FlatCloud(url), n)) for n in range(count)]

    def __enter__(self) -> 'Claimers':
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop.set()
        for thread in self.threads:
            thread.join()

    def _run(self, cloud: FlatCloud, number: int) -> None:
        rng = random.Random(number)
        try:
            while not self.stop.wait(rng.random() * self.PAUSE):
                if number in self.held:
                    consumer = self.held.pop(number)
                    self.check(cloud, consumer, number)
                    cloud.free(consumer)
                else:
                    self._claim(cloud, number, rng)
        except Exception as exc:  # noqa: BLE001 - shown by the test
            self.errors.append(repr(exc))

    def _claim(self, cloud: FlatCloud, number: int, rng: random.Random) -> None:
        """Of the root if it has any, as most do; else of any card."""
        for place in (self.places[0], *rng.sample(self.places[1:], 3)):
            consumer = str(uuid.uuid4())
            body = claim({place: {'PGPU': 1}, self.other: {'VGPU': number + 1}})
            answer = cloud.ask('PUT', f'/allocations/{consumer}', body, ok=False)
            codes = {(e['status'], e['code']) for e in answer.get('errors', ())}
            if not codes:
                self.claims += 1
                self.held[number] = consumer
                return
            if codes - {(409, 'placement.undefined_code'), (409, 'placement.concurrent_update')}:
                self.errors.append(f'{codes}')

    def check(self, cloud: FlatCloud, consumer: str, number: int) -> None:
        """Nobody took anything from it or gave it anything, wherever it is now."""
        holds = cloud.holds(consumer)
        there = holds.pop(self.other, {})
        if {'VGPU': number + 1} != there or [{'PGPU': 1}] != [*holds.values()]:
            self.errors.append(f'{consumer} holds {holds} and {there}')


class Watcher:
    """Claims nothing, and looks all the time: placement serves one request after the other, so each is one moment."""

    def __init__(self, url: str, root: str) -> None:
        self.root = root
        self.errors: list[str] = []
        self.seen: set[str] = set()
        self.stop = Event()
        self.thread = Thread(target=self._run, args=(FlatCloud(url),))

    def __enter__(self) -> 'Watcher':
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop.set()
        self.thread.join()

    def _run(self, cloud: FlatCloud) -> None:
        try:
            while not self.stop.wait(0.5):
                self._look(cloud)
        except Exception as exc:  # noqa: BLE001 - shown by the test
            self.errors.append(repr(exc))

    def _look(self, cloud: FlatCloud) -> None:
        """Who has room offers it on the root or on the cards, never on both, and nobody gives away more than there is."""
        found = cloud.ask('GET', f'/allocation_candidates?limit=1000&resources=PGPU:1&in_tree={self.root}')
        units = {p: s['resources']['PGPU'] for p, s in found['provider_summaries'].items() if 'PGPU' in s['resources']}
        where = {'root' if p == self.root else 'cards' for p in units}
        self.seen |= where
        capacity = {p: 8 if p == self.root else 1 for p in units}
        if len(where) > 1 or {p: u['capacity'] for p, u in units.items()} != capacity:
            self.errors.append(f'on offer at one moment: {units}')
        for provider in sorted(cloud.tree(self.root)):
            used = cloud.ask('GET', f'/resource_providers/{provider}/usages')['usages'].get('PGPU', 0)
            if used > (8 if provider == self.root else 1):
                self.errors.append(f'{provider} gives away {used}')


def test_eight_claimers_lose_nothing_and_get_nothing_twice(url: str, cloud: FlatCloud) -> None:
    """Flat to nested and back while they claim and free: all or nothing, no claim lost, none too many."""
    root, other = cloud.flat(PGPU=8), cloud.flat(VGPU=1000)
    cards = {card(root, n) for n in range(8)}
    reshaper = made(Adapter(url), sleep=time.sleep)
    with Claimers(url, root, other, 8) as claimers, Watcher(url, root) as watcher:
        for wish in (forth(root, 8), back(root), forth(root, 8)):
            time.sleep(0.5)
            reshaper.apply(wish)
            offers = {p: found['PGPU'] for p in cloud.tree(root) if 'PGPU' in (found := cloud.offers(p))}
            assert ({root: (8, 0)} if wish.wanted is None else dict.fromkeys(cards, (1, 0))) == offers
    for number, consumer in claimers.held.items():
        claimers.check(cloud, consumer, number)
    assert [] == claimers.errors
    assert [] == watcher.errors
    assert {'root', 'cards'} == watcher.seen
    assert 8 < claimers.claims
    used = usages(cloud, root)
    assert len(claimers.held) == sum(used.values())
    assert (0, {0, 1}) == (used[root], {0, 1} | {used[c] for c in cards})
    # By the other way round: who placement says has something of the cards is just who was told to have it, one each.
    holders = [c for p in cards for c in cloud.ask('GET', f'/resource_providers/{p}/allocations')['allocations']]
    assert sorted(claimers.held.values()) == sorted(holders)
    elsewhere = cloud.ask('GET', f'/resource_providers/{other}/allocations')['allocations']
    assert {c: {'VGPU': n + 1} for n, c in claimers.held.items()} == {c: a['resources'] for c, a in elsewhere.items()}


def usages(cloud: FlatCloud, root: str) -> dict[str, int]:
    """How much of PGPU is claimed of each provider of the tree."""
    return {p: cloud.ask('GET', f'/resource_providers/{p}/usages')['usages'].get('PGPU', 0) for p in cloud.tree(root)}
