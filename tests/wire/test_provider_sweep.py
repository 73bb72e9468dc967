# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Providers of many nodes are emptied in a real placement by few requests, next to claims and other writers."""

import uuid
from unittest import mock

import pytest

from baremetal_acc.errors import PlacementUnreachable
from baremetal_acc.model.provider import ProviderTree
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.model.verdict import Verdict
from baremetal_acc.placement import provider_sweep
from baremetal_acc.placement.client import PlacementAnswer, PlacementClient
from baremetal_acc.placement.provider_list import ProviderList
from baremetal_acc.placement.provider_sweep import ProviderSweep, SweepReadings, Swept
from baremetal_acc.placement.publish import Publisher
from baremetal_acc.scheduling import denied_devices, providers
from baremetal_acc.scheduling.provider_names import OPERATOR_RESERVED, card_uuid
from tests.unit.planning.values import GPU, fpga, gpu, inventory
from tests.wire.test_placement import Adapter, Cloud
from tests.wire.test_reservations import together

NODES = 6
LOOK = inventory(gpu(), fpga())
CARD = frozenset({AcceleratorId(GPU)})


@pytest.fixture
def cloud(placement: str) -> Cloud:
    return Cloud(placement)


@pytest.fixture
def sending(placement: str) -> Adapter:
    return Adapter(placement)


@pytest.fixture
def roots(cloud: Cloud, placement: str) -> list[str]:
    """Nodes with a GPU that is available."""
    made = [cloud.root() for _ in range(NODES)]
    publisher = Publisher(PlacementClient(Adapter(placement)))
    for root in made:
        publisher.publish(wanted_tree(root))
    return made


def wanted_tree(root: str) -> ProviderTree:
    return providers.tree(LOOK, Verdict(target='n', findings=()), root, {})


def wanted(roots: list[str]) -> dict[str, frozenset[str]]:
    return {root: denied_devices.offering(LOOK, CARD, root) for root in roots}


def inventories(cloud: Cloud, root: str) -> dict:
    return cloud.ask('GET', f'/resource_providers/{card_uuid(root, AcceleratorId(GPU))}/inventories')['inventories']


def sweep(sending: Adapter, roots: list[str]) -> dict[str, Swept]:
    return {one.root: one for one in ProviderSweep(PlacementClient(sending)).empty(wanted(roots))}


def writes(sending: Adapter) -> list[str]:
    return [sent for sent in sending.sent if not sent.startswith('GET')]


def test_all_are_emptied_by_one_write(cloud: Cloud, sending: Adapter, roots: list[str]) -> None:
    """And nothing else is: neither a root, nor another device. A node that placement does not know offers nothing."""
    before = {root: cloud.ask('GET', f'/resource_providers/{root}/inventories') for root in roots}
    stranger = '11111111-2222-4333-8444-555555555555'
    found = sweep(sending, [*roots, stranger])
    assert all(one.is_done for one in found.values())
    assert ([{}] * NODES, 1) == ([inventories(cloud, root) for root in roots], len(writes(sending)))
    assert before == {root: cloud.ask('GET', f'/resource_providers/{root}/inventories') for root in roots}
    assert NODES + 1 + 1 == len([s for s in sending.sent if s == 'GET /resource_providers'])
    assert 1 == len([s for s in sending.sent if s.endswith('/inventories')]), 'the others are listed by one request'


def test_the_providers_of_many_nodes_are_listed_by_one_request(cloud: Cloud, sending: Adapter, roots: list[str]) -> None:
    """After the first nodes. A change since the list is noticed, and so is a node that came after it."""
    listed = ProviderList(one_by_one=1)
    sweeper = ProviderSweep(PlacementClient(sending), SweepReadings(listed=listed))
    assert all(one.is_done for one in sweeper.empty(wanted(roots)))
    assert [{}] * NODES == [inventories(cloud, root) for root in roots]
    assert 3 == len([s for s in sending.sent if s == 'GET /resource_providers']), (
        'a node, all nodes, and those with a free unit'
    )
    publisher = Publisher(PlacementClient(sending))
    late = cloud.root()
    for root in (*roots, late):
        publisher.publish(wanted_tree(root))
    assert all(one.is_done for one in sweeper.empty(wanted([*roots, late])))
    assert [{}] * (NODES + 1) == [inventories(cloud, root) for root in (*roots, late)]


def test_what_is_claimed_stays_and_keeps_no_other_from_being_emptied(cloud: Cloud, sending: Adapter, roots: list[str]) -> None:
    """It is returned, and is there as before."""
    card = card_uuid(roots[2], AcceleratorId(GPU))
    cloud.claim(str(uuid.uuid4()), card, 'PGPU')
    held = inventories(cloud, roots[2])
    found = sweep(sending, roots)
    assert frozenset({card}) == found[roots[2]].kept
    assert [root for root in roots if not found[root].is_done] == [roots[2]]
    assert [held if root == roots[2] else {} for root in roots] == [inventories(cloud, root) for root in roots]


def test_a_write_of_somebody_else_is_overtaken(cloud: Cloud, sending: Adapter, roots: list[str]) -> None:
    """Between the read and the write of the sweep, one provider is written, and one is deleted."""
    written, deleted = (card_uuid(root, AcceleratorId(GPU)) for root in roots[:2])
    sweeper = ProviderSweep(PlacementClient(sending))
    read = sweeper._generations

    def then_others(uuids: frozenset[str], below: dict) -> dict:
        found = read(uuids, below)
        if card_uuid(roots[-1], AcceleratorId(GPU)) in below and len(uuids) > 1:
            cloud.offer(written, 'PGPU', total=1)
            cloud.ask('DELETE', f'/resource_providers/{deleted}')
        return found

    with mock.patch.object(sweeper, '_generations', then_others):
        found = {one.root: one for one in sweeper.empty(wanted(roots))}
    assert all(one.is_done for one in found.values())
    assert {} == inventories(cloud, roots[0])


def test_without_the_role_service_each_is_emptied_by_itself(placement: str, cloud: Cloud, roots: list[str]) -> None:
    """POST /reshaper is forbidden then; what is claimed is returned all the same."""

    class WithoutService(Adapter):
        def request(self, url: str, method: str, **kwargs):
            kwargs['headers'] = kwargs.get('headers', {}) | {'X-Roles': 'admin'}
            return super().request(url, method, **kwargs)

    cloud.claim(str(uuid.uuid4()), card_uuid(roots[0], AcceleratorId(GPU)), 'PGPU')
    found = sweep(WithoutService(placement), roots)
    assert [roots[0]] == [root for root in roots if not found[root].is_done]
    assert [{}] * (NODES - 1) == [inventories(cloud, root) for root in roots[1:]]


def test_many_are_written_in_parts(cloud: Cloud, sending: Adapter, roots: list[str]) -> None:
    """A transaction of placement stays short."""
    with mock.patch.object(provider_sweep, 'AT_A_TIME', 2):
        sweep(sending, roots)
    assert ([{}] * NODES, NODES // 2) == ([inventories(cloud, root) for root in roots], len(writes(sending)))


def test_a_placement_that_does_not_answer_is_asked_once(cloud: Cloud, sending: Adapter, roots: list[str]) -> None:
    """Each node would wait for as long. What was read before is emptied."""
    client = PlacementClient(sending)
    read, asked = client.get, []

    def silent(path: str, **query: str):
        asked.extend(query.get('in_tree', '').split())
        if len(asked) > 2:
            raise PlacementUnreachable('no answer')
        return read(path, **query)

    with mock.patch.object(client, 'get', silent):
        found = {one.root: one for one in ProviderSweep(client).empty(wanted(roots))}
    assert [True, True] + [False] * (NODES - 2) == [found[root].is_done for root in roots]
    assert (3, {}) == (len(asked), inventories(cloud, roots[0]))


def test_what_an_operator_has_reserved_is_reserved_again(
    placement: str, cloud: Cloud, sending: Adapter, roots: list[str]
) -> None:
    """No publication has seen it before. Only providers of which no unit is free are read."""
    by_hand = roots[1:3]
    for root in by_hand:
        cloud.offer(card_uuid(root, AcceleratorId(GPU)), 'PGPU', reserved=1)
    found = sweep(sending, roots)
    assert all(one.is_done for one in found.values())
    assert ([{}] * NODES, 2) == ([inventories(cloud, root) for root in roots], writes(sending).count('POST /reshaper'))
    assert 1 + len(by_hand) == len([s for s in sending.sent if s.startswith('GET') and s.endswith('/inventories')])
    for root in roots:
        Publisher(PlacementClient(Adapter(placement))).publish(wanted_tree(root))
    assert [root in by_hand for root in roots] == [inventories(cloud, root)['PGPU']['reserved'] == 1 for root in roots]


def test_a_part_of_several_devices_is_reserved_again(placement: str, cloud: Cloud, sending: Adapter, roots: list[str]) -> None:
    """A unit of them is free, so that the list of those with a free unit would say nothing."""
    own, tree = together(roots[0], 3)
    publisher = Publisher(PlacementClient(Adapter(placement)))
    publisher.publish(tree)
    cloud.offer(own, 'PGPU', total=3, reserved=2, max_unit=3)
    [found] = ProviderSweep(PlacementClient(sending)).empty({roots[0]: frozenset({own})})
    assert (True, {}, {f'{OPERATOR_RESERVED}_2'}) == (
        found.is_done,
        cloud.offers(own),
        {t for t in cloud.traits(own) if t.startswith(OPERATOR_RESERVED)},
    )
    publisher.publish(tree)
    assert {'PGPU': (3, 2)} == cloud.offers(own)


def test_what_is_reserved_between_the_reads_and_the_write_is_reserved_again(
    placement: str, cloud: Cloud, sending: Adapter, roots: list[str]
) -> None:
    """The generation that was read refuses the write; then the provider is read again."""
    card = card_uuid(roots[3], AcceleratorId(GPU))
    pending = [card]

    def before(method: str, url: str) -> None:
        if url == '/reshaper' and pending:
            cloud.offer(pending.pop(), 'PGPU', reserved=1)

    sending.before = before
    assert all(one.is_done for one in sweep(sending, roots).values())
    assert ({}, True) == (cloud.offers(card), OPERATOR_RESERVED in cloud.traits(card))
    Publisher(PlacementClient(Adapter(placement))).publish(wanted_tree(roots[3]))
    assert {'PGPU': (1, 1)} == cloud.offers(card)


def test_where_the_free_ones_cannot_be_listed_each_provider_is_read(cloud: Cloud, sending: Adapter, roots: list[str]) -> None:
    """Too many of them for one answer, such as in a large cloud."""
    card = card_uuid(roots[4], AcceleratorId(GPU))
    cloud.offer(card, 'PGPU', reserved=1)
    client = PlacementClient(sending)
    read = client.get

    def silent(path: str, **query: str):
        if 'resources' in query:
            raise PlacementUnreachable('no answer')
        return read(path, **query)

    with mock.patch.object(client, 'get', silent):
        found = {one.root: one for one in ProviderSweep(client).empty(wanted(roots))}
    assert all(one.is_done for one in found.values())
    assert NODES == len([s for s in sending.sent if s.startswith('GET') and s.endswith('/inventories')])
    assert OPERATOR_RESERVED in cloud.traits(card)


def test_what_cannot_be_noted_is_not_withdrawn(cloud: Cloud, sending: Adapter, roots: list[str]) -> None:
    """Placement refuses the note, or fails: the reservation would be lost. All other nodes are swept."""
    card = card_uuid(roots[0], AcceleratorId(GPU))
    cloud.offer(card, 'PGPU', reserved=1)
    client = PlacementClient(sending)
    send = client._send

    for status in (400, 403, 409, 500):

        def refusing(method: str, path: str, body, status: int = status):
            if method == 'PUT' and path.endswith('/traits'):
                return PlacementAnswer(status=status, code=None, body={})
            return send(method, path, body)

        with mock.patch.object(client, '_send', refusing):
            found = {one.root: one for one in ProviderSweep(client).empty(wanted(roots[:2]))}
        assert found[roots[0]].error is not None
        assert {'PGPU': (1, 1)} == cloud.offers(card)
    assert {} == inventories(cloud, roots[1])
