# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""``reserved`` that an operator has set on one of our providers stays, in a real placement, through all that we do."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import pytest

from baremetal_acc.errors import InventoryInUse
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.provider import KeptReservation, Provider, ProviderInventory, ProviderTree
from baremetal_acc.placement.client import PlacementClient
from baremetal_acc.placement.node_withdrawal import NodeWithdrawal
from baremetal_acc.placement.publish import Publisher
from baremetal_acc.policy.baseline_rules import Offering
from baremetal_acc.scheduling import providers, reservations
from baremetal_acc.scheduling.provider_names import OPERATOR_RESERVED, RESERVES_NOTHING, together_uuid
from baremetal_acc.scheduling.schedulable import Offer
from tests.unit.planning.values import gpu, inventory
from tests.wire.test_placement import (
    CONSUMER,
    OTHER,
    Adapter,
    Cloud,
    cloud,
    gpu_of,
    met,
    publisher,
    root,
    sending,
    wanted,
    writes,
)

__all__ = ['cloud', 'publisher', 'root', 'sending']  # fixtures

MARKS = frozenset({RESERVES_NOTHING, OPERATOR_RESERVED})


class Stopped(Exception):
    """The publisher dies."""


@contextmanager
def dies_before(sending: Adapter, write: int) -> Iterator[None]:
    """A new process whose n-th write, from 0, is never sent."""
    left = [write]

    def before(method: str, _url: str) -> None:
        if method != 'GET':
            if not left[0]:
                raise Stopped
            left[0] -= 1

    sending.before = before
    try:
        yield
    finally:
        sending.before = lambda method, url: None


def fresh(sending: Adapter) -> Publisher:
    """A publisher that remembers nothing."""
    return Publisher(PlacementClient(sending), sleep=lambda seconds: None)


def marks(cloud: Cloud, uuid: str) -> set[str]:
    """The traits that tell whose reservation it is."""
    return {t for t in cloud.traits(uuid) if t == RESERVES_NOTHING or reservations.is_note(t)}


def cards(count: int) -> list[Accelerator]:
    """GPUs of one make."""
    return [gpu(uuid=f'41d85005-536c-4187-a5b3-244d1aec8{number:03}', serial=f'S{number}') for number in range(count)]


def together(root: str, count: int) -> tuple[str, ProviderTree]:
    """The provider of some GPUs that are offered together, and its tree."""
    seen = [replace(a, id=type(a.id)(f'uuid:{n}')) for n, a in enumerate(cards(4))][:count]
    offers = {a.id: Offer(how=Offering.TOGETHER) for a in seen}
    return together_uuid(root, gpu()), providers.tree(inventory(*seen), met(), root, {}, offers)


def test_it_stays_through_publications_withdrawals_and_returns(
    publisher: Publisher, sending: Adapter, cloud: Cloud, root: str
) -> None:
    """Also of another process, and only the operator ends it."""
    own = gpu_of(root)
    publisher.publish(wanted(root))
    assert {RESERVES_NOTHING} == marks(cloud, own)
    cloud.offer(own, 'PGPU', reserved=1)
    for using in (publisher, fresh(sending)):
        found = using.publish(wanted(root))
        (name,) = {p.name for p in using.read(root).providers if p.uuid == own}
        assert (KeptReservation(uuid=own, name=name, resource_class='PGPU', total=1, reserved=1),) == found.reserved
        assert {'PGPU': (1, 1)} == cloud.offers(own)
        assert MARKS == marks(cloud, own)
        using.withdraw(root)
        assert {} == cloud.offers(own)
        assert MARKS == marks(cloud, own)
        assert not using.withdraw(root).changed
        using.publish(ProviderTree(root_uuid=root, providers=()))
        assert MARKS == marks(cloud, own)
        using.publish(wanted(root))
        assert {'PGPU': (1, 1)} == cloud.offers(own)
        sending.sent.clear()
        assert not using.publish(wanted(root)).changed
        assert [] == writes(sending.sent)
    cloud.offer(own, 'PGPU', reserved=0)
    assert () == publisher.publish(wanted(root)).reserved
    assert ({'PGPU': (1, 0)}, {RESERVES_NOTHING}) == (cloud.offers(own), marks(cloud, own))


@pytest.mark.parametrize('write', range(3))
def test_it_stays_where_a_withdrawal_is_cut_off(
    publisher: Publisher, sending: Adapter, cloud: Cloud, root: str, write: int
) -> None:
    """No publication has seen it before: it is noted before the inventory goes."""
    own = gpu_of(root)
    publisher.publish(wanted(root))
    cloud.offer(own, 'PGPU', reserved=1)
    with dies_before(sending, write), suppress(Stopped):
        fresh(sending).withdraw(root)
    fresh(sending).publish(wanted(root))
    assert {'PGPU': (1, 1)} == cloud.offers(own)


@pytest.mark.parametrize('operator', [0, 1])
def test_ours_ends_with_the_claim_and_the_operators_does_not(
    publisher: Publisher, cloud: Cloud, root: str, operator: int
) -> None:
    """A claimed device that is withdrawn is reserved by us; the operator may have reserved it before."""
    own = gpu_of(root)
    publisher.publish(wanted(root))
    cloud.claim(OTHER, own, 'PGPU')
    cloud.offer(own, 'PGPU', reserved=operator)
    publisher.publish(wanted(root))
    for _ in range(2):
        with pytest.raises(InventoryInUse):
            publisher.withdraw(root)
        assert {'PGPU': (1, 1)} == cloud.offers(own)
        assert ({OPERATOR_RESERVED} if operator else set()) == marks(cloud, own)
    cloud.free(OTHER)
    publisher.publish(wanted(root))
    assert {'PGPU': (1, operator)} == cloud.offers(own)
    assert ({RESERVES_NOTHING} | ({OPERATOR_RESERVED} if operator else set())) == marks(cloud, own)


def test_some_of_several_devices_stay_reserved_however_many_are_published(
    publisher: Publisher, cloud: Cloud, root: str
) -> None:
    """Never more than the operator has left."""
    own, four = together(root, 4)
    publisher.publish(four)
    cloud.offer(own, 'PGPU', total=4, reserved=3, max_unit=4)
    publisher.publish(four)
    assert {RESERVES_NOTHING, f'{OPERATOR_RESERVED}_3'} == marks(cloud, own)
    for count, reserved in ((2, 2), (4, 3), (3, 3), (4, 3)):
        publisher.publish(together(root, count)[1])
        assert {'PGPU': (count, reserved)} == cloud.offers(own)
    publisher.withdraw(root)
    publisher.publish(four)
    assert {'PGPU': (4, 3)} == cloud.offers(own)
    cloud.claim(OTHER, own, 'PGPU')
    with pytest.raises(InventoryInUse):
        publisher.withdraw(root)
    assert ({'PGPU': (4, 4)}, {f'{OPERATOR_RESERVED}_3'}) == (cloud.offers(own), marks(cloud, own))
    cloud.free(OTHER)
    publisher.publish(four)
    assert {'PGPU': (4, 3)} == cloud.offers(own)
    cloud.offer(own, 'PGPU', total=4, reserved=4, max_unit=4)
    publisher.publish(together(root, 3)[1])
    publisher.publish(four)
    assert {'PGPU': (4, 4)} == cloud.offers(own), 'all means all'
    cloud.offer(own, 'PGPU', total=4, reserved=1, max_unit=4)
    publisher.publish(four)
    assert ({'PGPU': (4, 1)}, {RESERVES_NOTHING, f'{OPERATOR_RESERVED}_1'}) == (cloud.offers(own), marks(cloud, own))


def test_a_provider_of_an_earlier_release_with_all_reserved_counts_as_ours(
    publisher: Publisher, cloud: Cloud, root: str
) -> None:
    """It had no such trait, and reserved all of what was claimed. Any other number is the operator's."""
    own, four = together(root, 4)
    publisher.publish(four)
    for reserved, after in ((4, 0), (2, 2)):
        found = cloud.all_of(own)[2]
        older = sorted(t for t in found['traits'] if t not in marks(cloud, own))
        body = {'resource_provider_generation': found['resource_provider_generation'], 'traits': older}
        cloud.ask('PUT', f'/resource_providers/{own}/traits', body)
        cloud.offer(own, 'PGPU', total=4, reserved=reserved, max_unit=4)
        publisher.publish(four)
        assert {'PGPU': (4, after)} == cloud.offers(own)


@pytest.mark.parametrize('operator', [0, 1])
def test_a_publisher_that_dies_at_any_write_loses_no_reservation_and_invents_none(
    sending: Adapter, cloud: Cloud, root: str, operator: int
) -> None:
    """Before each write of a withdrawal with a claim, of its end, of a withdrawal, and of the publication after it."""
    own = gpu_of(root)
    fresh(sending).publish(wanted(root))

    def publish() -> None:
        fresh(sending).publish(wanted(root))
        assert {'PGPU': (1, operator)} == cloud.offers(own)

    def withdraw() -> None:
        fresh(sending).withdraw(root)
        assert {} == cloud.offers(own)

    def hold() -> None:
        with pytest.raises(InventoryInUse):
            fresh(sending).withdraw(root)
        assert {'PGPU': (1, 1)} == cloud.offers(own)

    died = 0
    for work, claimed in ((hold, True), (publish, False), (withdraw, False), (publish, False)):
        if claimed:
            cloud.claim(OTHER, own, 'PGPU')
            cloud.offer(own, 'PGPU', reserved=operator)
        else:
            cloud.free(OTHER, ok=False)
        for write in range(20):
            try:
                with dies_before(sending, write):
                    work()
                break
            except Stopped:
                died += 1
                assert not operator or cloud.offers(own).get('PGPU', (1, 1)) == (1, 1), 'never offered in between'
        else:
            raise AssertionError('it never ended')
    assert died >= 8


def test_an_operator_who_reserves_while_we_write_is_heard(
    publisher: Publisher, sending: Adapter, cloud: Cloud, root: str
) -> None:
    """Placement refuses our write, and what is read then has the reservation."""
    own = gpu_of(root)
    publisher.publish(wanted(root))
    publisher.withdraw(root)
    publisher.publish(wanted(root))
    once = [True]

    def before(method: str, url: str) -> None:
        if method != 'GET' and own in url and once:
            once.clear()
            cloud.offer(own, 'PGPU', reserved=1)

    sending.before = before
    publisher.withdraw(root)
    sending.before = lambda method, url: None
    assert not once
    assert {} == cloud.offers(own)
    assert MARKS == marks(cloud, own)
    publisher.publish(wanted(root))
    assert {'PGPU': (1, 1)} == cloud.offers(own)


def test_a_pools_withdrawal_notes_it_before_the_inventory_goes(
    publisher: Publisher, sending: Adapter, cloud: Cloud, root: str
) -> None:
    """So that a conductor that publishes the node meanwhile keeps it, too."""
    own = gpu_of(root)
    publisher.publish(wanted(root))
    cloud.offer(own, 'PGPU', reserved=1)
    pool = NodeWithdrawal(PlacementClient(sending), sleep=lambda seconds: None)
    seen = pool.look(root)
    pool.withdraw(root, seen)
    assert ({}, MARKS) == (cloud.offers(own), marks(cloud, own))
    fresh(sending).publish(wanted(root))
    assert {'PGPU': (1, 1)} == cloud.offers(own)
    seen = pool.look(root)
    pool.withdraw(root, seen)
    pool.put_back(root, seen.offered)
    assert {'PGPU': (1, 1)} == cloud.offers(own)
    seen = pool.look(root)
    cloud.offer(own, 'PGPU', reserved=1)
    with pytest.raises(InventoryInUse):
        pool.withdraw(root, seen)


def test_a_claim_of_the_nodes_own_instance_keeps_it(publisher: Publisher, cloud: Cloud, root: str) -> None:
    """Of a device that is published meanwhile, too."""
    own = gpu_of(root)
    publisher.publish(wanted(root))
    cloud.claim(CONSUMER, own, 'PGPU')
    cloud.offer(own, 'PGPU', reserved=1)
    publisher.publish(providers.withdrawn(wanted(root)), consumer=CONSUMER)
    assert {'PGPU': (1, 1)} == cloud.offers(own)
    cloud.free(CONSUMER)
    publisher.publish(wanted(root))
    assert {'PGPU': (1, 1)} == cloud.offers(own)


@pytest.mark.parametrize(
    ('trait', 'note'),
    [
        (OPERATOR_RESERVED, True),
        (f'{OPERATOR_RESERVED}_12', True),
        (f'{OPERATOR_RESERVED}_', False),
        (f'{OPERATOR_RESERVED}_X', False),
        (f'{OPERATOR_RESERVED}_{"9" * 30}', False),
        (RESERVES_NOTHING, False),
        ('12', False),
    ],
)
def test_which_traits_are_notes(trait: str, note: bool) -> None:
    """Others are left to whoever has set them."""
    assert note is reservations.is_note(trait)
    found = Provider(uuid='u', name='n', parent_uuid='p', traits=frozenset({trait}))
    assert (frozenset({trait}) if note else frozenset()) == reservations.noted(found)
    inventories = (ProviderInventory(resource_class='PGPU', reserved=0),)
    assert frozenset() == reservations.noted(replace(found, inventories=inventories))
