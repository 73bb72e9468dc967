# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A whole machine is withdrawn from a real placement or nothing of it, and restored exactly as it was."""

import uuid
from threading import Thread

import pytest
from keystoneauth1 import exceptions

from baremetal_acc.errors import InventoryInUse, PlacementRefused, PlacementUnreachable
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.model.verdict import Verdict
from baremetal_acc.placement.client import PlacementClient
from baremetal_acc.placement.node_withdrawal import NodeWithdrawal
from baremetal_acc.placement.publish import Publisher
from baremetal_acc.scheduling import provider_names, providers
from baremetal_acc.scheduling.provider_names import OPERATOR_RESERVED
from tests.unit.planning.values import FPGA, fpga, gpu, inventory
from tests.wire.test_placement import Adapter, Cloud

GOLD, GZIP, AES = 'CUSTOM_BAREMETAL_GOLD', 'CUSTOM_ACC_FN_GZIP', 'CUSTOM_ACC_FN_AES'
RESHAPER = ('/reshaper', 'POST')


@pytest.fixture
def cloud(placement: str) -> Cloud:
    return Cloud(placement)


@pytest.fixture
def sending(placement: str) -> Adapter:
    return Adapter(placement)


@pytest.fixture
def shelf(sending: Adapter) -> NodeWithdrawal:
    return NodeWithdrawal(PlacementClient(sending), sleep=lambda _: None)


@pytest.fixture
def root(cloud: Cloud, placement: str) -> str:
    """A node with a GPU and two functions on offer."""
    made = cloud.root()
    functions = {(FPGA, 'Slot0'): 'gzip', (FPGA, 'Slot1'): 'aes'}
    tree = providers.tree(inventory(gpu(), fpga()), Verdict(target='n', findings=()), made, functions)
    Publisher(PlacementClient(Adapter(placement))).publish(tree)
    return made


def offers(cloud: Cloud, root: str) -> dict:
    return {p: cloud.ask('GET', f'/resource_providers/{p}/inventories')['inventories'] for p in sorted(cloud.tree(root))}


def of(root: str, slot: str) -> str:
    return provider_names.slot_uuid(root, AcceleratorId(FPGA), slot)


def writes(sending: Adapter) -> list[str]:
    return [sent for sent in sending.sent if not sent.startswith('GET')]


def test_where_nobody_has_ever_published_there_is_nothing_of_ours(cloud: Cloud, shelf: NodeWithdrawal) -> None:
    """The first test of this file, since the placement does not know our trait yet, and refuses to look for it."""
    assert 'errors' in cloud.ask('GET', f'/traits/{provider_names.OWNER}', ok=False), 'another test has published already'
    node = cloud.root()
    found = shelf.look(node)
    assert (True, (), ()) == (found.root, found.ours, found.claims)
    shelf.withdraw(node, found)


def test_what_is_on_offer_is_known(cloud: Cloud, shelf: NodeWithdrawal, root: str) -> None:
    """A provider that offers nothing, has reserved all of it, or is not there, is not on offer."""
    assert shelf.on_offer(root, of(root, 'Slot0'))
    cloud.offer(of(root, 'Slot0'), GZIP, total=1, reserved=1)
    assert not shelf.on_offer(root, of(root, 'Slot0'))
    shelf.withdraw(root, shelf.look(root))
    assert not shelf.on_offer(root, of(root, 'Slot1'))
    assert not shelf.on_offer(root, str(uuid.uuid4()))


def test_what_cannot_be_had_with_its_machine_is_not_on_offer(cloud: Cloud, shelf: NodeWithdrawal, root: str) -> None:
    """Nova reserves the root while Ironic does not have the node available, and a while longer. Without Nova it has nothing."""
    cloud.offer(root, GOLD, total=1, reserved=1)
    assert not shelf.on_offer(root, of(root, 'Slot0'))
    assert [] == cloud.ask('GET', f'/allocation_candidates?resources={GOLD}:1&resources_A={GZIP}:1')['allocation_requests']
    cloud.offer(root, GOLD)
    assert shelf.on_offer(root, of(root, 'Slot0'))
    cloud.ask('DELETE', f'/resource_providers/{root}/inventories')
    assert shelf.on_offer(root, of(root, 'Slot0'))
    assert not shelf.on_offer(str(uuid.uuid4()), of(root, 'Slot0'))


def test_a_machine_is_taken_off_and_put_back_as_it_was(
    cloud: Cloud, shelf: NodeWithdrawal, sending: Adapter, root: str
) -> None:
    """One call each: whatever somebody had set of an inventory comes back, the root and what is not ours stay."""
    theirs = cloud.child(root)
    cloud.offer(of(root, 'Slot0'), GZIP, total=4, reserved=1, max_unit=3, step_size=1, allocation_ratio=2.0)
    before = offers(cloud, root)
    on = shelf.look(root)
    assert (True, (), {theirs, root}) == (on.root, on.claims, cloud.tree(root) - {o.uuid for o in on.ours})
    shelf.withdraw(root, on)
    now = offers(cloud, root)
    assert {theirs, root} == {p for p, found in now.items() if found}
    assert (before[theirs], before[root]) == (now[theirs], now[root])
    assert () == shelf.look(root).offered
    assert 3 == len(shelf.put_back(root, on.offered))
    assert before == offers(cloud, root)
    assert 3 == len(shelf.put_back(root, on.offered)), 'twice does no harm'
    assert before == offers(cloud, root)
    noted = [f'PUT /traits/{OPERATOR_RESERVED}_1', f'PUT /resource_providers/{of(root, "Slot0")}/traits']
    assert [*noted, *['POST /reshaper'] * 3] == writes(sending)
    assert f'{OPERATOR_RESERVED}_1' in cloud.traits(of(root, 'Slot0'))


@pytest.mark.parametrize('when', ['before the look', 'after the look', 'while it is sent'])
def test_what_is_claimed_refuses_all_of_it(cloud: Cloud, shelf: NodeWithdrawal, sending: Adapter, root: str, when: str) -> None:
    """Whoever claims first has it, and nothing was changed."""
    consumer = str(uuid.uuid4())
    if when == 'before the look':
        cloud.claim(consumer, of(root, 'Slot1'), AES)
    on = shelf.look(root)
    before = offers(cloud, root)
    if when == 'after the look':
        cloud.claim(consumer, of(root, 'Slot1'), AES)
    if when == 'while it is sent':
        sending.before = lambda method, url: cloud.claim(consumer, of(root, 'Slot1'), AES) if url == '/reshaper' else None
    with pytest.raises(InventoryInUse, match='was just claimed'):
        shelf.withdraw(root, on)
    assert before == offers(cloud, root)
    assert [of(root, 'Slot1')] == list(cloud.ask('GET', f'/allocations/{consumer}')['allocations'])
    cloud.free(consumer)


def test_a_withdrawal_that_an_adapter_sends_twice_is_nobody_knows_whose(
    cloud: Cloud, shelf: NodeWithdrawal, sending: Adapter, root: str
) -> None:
    """The sample of [placement] has it do so; the second one finds what the first one has done. It is put back then."""
    on = shelf.look(root)
    before = offers(cloud, root)
    twice: list[str] = []

    def done_already(method: str, url: str) -> None:
        if url == '/reshaper' and not twice:
            twice.append(url)
            shelf.withdraw(root, on)

    sending.before = done_already
    with pytest.raises(PlacementUnreachable, match='its inventory was just withdrawn'):
        shelf.withdraw(root, on)
    assert before != offers(cloud, root)
    shelf.put_back(root, on.offered)
    assert before == offers(cloud, root)


def test_claims_and_withdrawals_never_both_succeed(cloud: Cloud, shelf: NodeWithdrawal, root: str, placement: str) -> None:
    """Twenty times at the same moment: there is a claim and everything is offered, or nothing of either."""
    for _ in range(20):
        consumer = str(uuid.uuid4())
        on = shelf.look(root)
        body = {of(root, 'Slot0'): {'resources': {GZIP: 1}}}
        claim = {'allocations': body, 'project_id': 'p', 'user_id': 'u', 'consumer_generation': None}
        other = Cloud(placement)
        claimer = Thread(target=other.ask, args=('PUT', f'/allocations/{consumer}', claim), kwargs={'ok': False})
        claimer.start()
        try:
            shelf.withdraw(root, on)
            withdrawn = True
        except InventoryInUse:
            withdrawn = False
        claimer.join()
        claimed = bool(cloud.ask('GET', f'/allocations/{consumer}')['allocations'])
        assert claimed is not withdrawn
        assert bool(shelf.look(root).offered) is not withdrawn
        cloud.free(consumer, ok=False)
        shelf.put_back(root, on.offered)


def test_every_claim_of_a_machine_is_told(cloud: Cloud, shelf: NodeWithdrawal, root: str) -> None:
    """Of its root, of a region, and of what is not ours; a machine without a root cannot be judged."""
    assert None is shelf.busy(root)
    for provider, name in ((root, GOLD), (of(root, 'Slot0'), GZIP), (cloud.child(root), 'PCI_DEVICE')):
        consumer = str(uuid.uuid4())
        cloud.claim(consumer, provider, name)
        told = f'{name} of provider {provider} by consumer {consumer}'
        assert (f'claimed: {told}', (told,)) == (shelf.busy(root), shelf.look(root).claims)
        cloud.free(consumer)
    gone = str(uuid.uuid4())
    assert 'placement has no root provider for the node' == shelf.busy(gone)
    assert not shelf.look(gone).root


def test_what_somebody_has_published_meanwhile_is_left_as_it_is(cloud: Cloud, shelf: NodeWithdrawal, root: str) -> None:
    """He has looked at the cards since: what he does not offer does not come back, by however old a journal."""
    on = shelf.look(root)
    shelf.withdraw(root, on)
    cloud.offer(of(root, 'Slot1'), AES)
    shelf.put_back(root, on.offered)
    assert [{AES}] == [set(found) for p, found in offers(cloud, root).items() if found and p != root]


def test_what_others_do_to_providers_meanwhile_is_seen(
    cloud: Cloud, shelf: NodeWithdrawal, sending: Adapter, root: str
) -> None:
    """A provider that is gone stays so, and a conflict is read anew."""
    on = shelf.look(root)
    shelf.withdraw(root, on)
    cloud.ask('DELETE', f'/resource_providers/{of(root, "Slot0")}')
    calls = []

    def disturb(method: str, url: str) -> None:
        if (url, method) == RESHAPER and not calls:
            calls.append(url)
            cloud.ask('PUT', f'/resource_providers/{provider_names.card_uuid(root, on_gpu)}/inventories', disturbed)

    on_gpu = next(a.id for a in (gpu(),))
    card = provider_names.card_uuid(root, on_gpu)
    disturbed = {'resource_provider_generation': cloud.all_of(card)[0]['generation'], 'inventories': {}}
    sending.before = disturb
    assert 2 == len(shelf.put_back(root, on.offered))
    assert ['PGPU'] == list(cloud.offers(card))
    assert [AES] == list(cloud.offers(of(root, 'Slot1')))
    assert 1 == len(calls)


def test_a_lost_answer_is_looked_after(cloud: Cloud, shelf: NodeWithdrawal, sending: Adapter, root: str) -> None:
    """Whether it was withdrawn is not known then; putting it back looks, and does what is missing."""
    before = offers(cloud, root)
    on = shelf.look(root)

    def lose(method: str, url: str) -> None:
        if (url, method) == RESHAPER:
            raise exceptions.ConnectFailure('cut')

    sending.after = lose
    with pytest.raises(PlacementUnreachable):
        shelf.withdraw(root, on)
    assert () == shelf.look(root).offered
    assert 3 == len(shelf.put_back(root, on.offered))
    assert before == offers(cloud, root)


@pytest.mark.parametrize('arrives', ['after it was looked for', 'while that is written'])
def test_a_withdrawal_that_arrives_late_takes_nothing_off(
    cloud: Cloud, shelf: NodeWithdrawal, sending: Adapter, root: str, arrives: str
) -> None:
    """A server in between kept it. Nobody would know that the machine is off the shelf, nor put it back."""
    before = offers(cloud, root)
    on = shelf.look(root)
    late: list[dict] = []

    def keep(method: str, url: str) -> None:
        if (url, method) == RESHAPER and not late:
            bodies = {o.uuid: {'resource_provider_generation': g, 'inventories': {}} for o, (_, g) in pairs}
            late.append({'inventories': bodies, 'allocations': {}})
            raise exceptions.ConnectFailure('cut')
        if (url, method) == RESHAPER and arrives == 'while that is written' and len(late) == 1:
            late.append(cloud.ask('POST', '/reshaper', late[0]))

    pairs = list(zip(on.offered, [g for g in on.generations if g[0] in {o.uuid for o in on.offered}], strict=True))
    sending.before = keep
    with pytest.raises(PlacementUnreachable):
        shelf.withdraw(root, on)
    assert before == offers(cloud, root)
    assert 3 == len(shelf.put_back(root, on.offered))
    if arrives == 'after it was looked for':
        assert 'errors' in cloud.ask('POST', '/reshaper', late[0], ok=False)
    assert before == offers(cloud, root)


def test_a_machine_that_is_claimed_is_left_to_who_has_it(cloud: Cloud, shelf: NodeWithdrawal, root: str) -> None:
    """What keeps a late withdrawal away changes nothing of what is offered, nor of what is claimed."""
    on = shelf.look(root)
    consumer = str(uuid.uuid4())
    cloud.claim(consumer, of(root, 'Slot0'), GZIP)
    before = offers(cloud, root)
    assert 3 == len(shelf.put_back(root, on.offered))
    assert before == offers(cloud, root)
    assert [of(root, 'Slot0')] == list(cloud.ask('GET', f'/allocations/{consumer}')['allocations'])
    cloud.free(consumer)


def test_who_may_not_reshape_is_told_which_role_is_missing(placement: str, root: str, cloud: Cloud) -> None:
    """Nothing was changed."""
    before = offers(cloud, root)

    class WithoutService(Adapter):
        def request(self, url: str, method: str, **kwargs):
            kwargs['headers'] = kwargs.get('headers', {}) | {'X-Roles': 'admin'}
            return super().request(url, method, **kwargs)

    shelf = NodeWithdrawal(PlacementClient(WithoutService(placement)))
    on = shelf.look(root)
    with pytest.raises(PlacementRefused, match='openstack role add --user USER --project service service'):
        shelf.withdraw(root, on)
    with pytest.raises(PlacementRefused, match='status 403'):
        shelf.put_back(root, _emptied(cloud, root, on))
    assert {p: o for p, o in before.items() if p == root} == {p: o for p, o in offers(cloud, root).items() if p == root}


def _emptied(cloud: Cloud, root: str, on) -> tuple:
    NodeWithdrawal(PlacementClient(cloud.adapter)).withdraw(root, on)
    return on.offered


def test_of_a_machine_that_somebody_has_got_meanwhile_nothing_is_put_back(
    cloud: Cloud, shelf: NodeWithdrawal, root: str
) -> None:
    """A process stood still: the node was claimed and deployed, and Ironic had nothing to withdraw that was not withdrawn."""
    on = shelf.look(root)
    shelf.withdraw(root, on)

    def still() -> None:
        raise PlacementUnreachable('it is active')

    with pytest.raises(PlacementUnreachable, match='it is active'):
        shelf.put_back(root, on.offered, still=still)
    assert () == shelf.look(root).offered
