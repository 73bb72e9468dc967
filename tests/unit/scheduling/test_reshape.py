# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What moves from the root to the devices' providers and back keeps every number: of claims, of reserves, of what there is."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baremetal_acc.model.provider import Provider, ProviderInventory, ProviderTree
from baremetal_acc.model.reshape import Consumer, InventoryMove, Moved, MovedClaim, Placed, Reshape, Shift, Stock, Stocked
from baremetal_acc.render.reshape_refusals import sentences
from baremetal_acc.scheduling import reshape

ROOT = 'root'
GOLD = 'CUSTOM_GOLD'
H100, L40 = 'CUSTOM_ACC_GPU_H100', 'CUSTOM_ACC_GPU_L40'
ELSEWHERE = MovedClaim(provider='other-node', resource_class='SRIOV_NET_VF', amount=3)


def stock(name: str, total: int = 1, **other) -> Stock:
    return Stock(**({'resource_class': name, 'total': total, 'max_unit': total} | other))


def wanted(*names: str, offer: str | None = 'PGPU', total: int = 1, trait: str = H100) -> ProviderTree:
    """Devices that hold up, each with a provider of that name, all of one model."""
    offers = () if offer is None else (ProviderInventory(resource_class=offer, total=total),)
    return ProviderTree(
        root_uuid=ROOT,
        providers=tuple(
            Provider(uuid=n, name=f'name-{n}', parent_uuid=ROOT, inventories=offers, traits=frozenset({trait})) for n in names
        ),
    )


def both(one: ProviderTree, other: ProviderTree) -> ProviderTree:
    return ProviderTree(root_uuid=ROOT, providers=(*one.providers, *other.providers))


def consumer(name: str, *claims: MovedClaim, generation: int = 5) -> Consumer:
    return Consumer(uuid=name, project_id='p', user_id='u', generation=generation, claims=claims)


def claim(amount: int, name: str = 'PGPU', provider: str = ROOT) -> MovedClaim:
    return MovedClaim(provider=provider, resource_class=name, amount=amount)


def placed(*stocks: Stock, consumers: tuple[Consumer, ...] = (), children: tuple[Stocked, ...] = ()) -> Placed:
    """A root with the node's own class and those stocks."""
    root = Stocked(
        uuid=ROOT, name=ROOT, stocks=tuple(sorted((stock(GOLD), *stocks), key=lambda s: s.resource_class)), generation=9
    )
    return counted(Placed(root=root, children=children, consumers=consumers))


def counted(found: Placed) -> Placed:
    """With what the consumers claim counted at the providers."""
    used = Counter()
    for someone in found.consumers:
        for c in someone.claims:
            used[c.provider, c.resource_class] += c.amount

    def of(provider: Stocked) -> Stocked:
        return replace(provider, used={name: n for (p, name), n in sorted(used.items()) if p == provider.uuid and n})

    holders = {
        place: tuple(sorted(c.uuid for c in found.consumers if place in {(k.provider, k.resource_class) for k in c.claims}))
        for place in used
    }
    return replace(found, root=of(found.root), children=tuple(of(c) for c in found.children), holders=holders)


def child(name: str, *stocks: Stock, trait: str = H100, generation: int = 4, parent: str = ROOT) -> Stocked:
    return Stocked(
        uuid=name, name=f'name-{name}', parent_uuid=parent, stocks=stocks, traits=frozenset({trait}), generation=generation
    )


def after(before: Placed, made: Reshape) -> Placed:
    """What placement holds once the call was made."""
    changed = {p.uuid: p for p in made.providers}
    children = {c.uuid: c for c in before.children} | {u: p for u, p in changed.items() if u != ROOT}
    moved = {c.uuid: c for c in made.consumers}
    return Placed(
        root=changed.get(ROOT, before.root),
        children=tuple(children[u] for u in sorted(children)),
        consumers=tuple(moved.get(c.uuid, c) for c in before.consumers),
        holders=before.holders,
    )


def offers(found: Placed) -> dict[str, dict[str, tuple[int, int]]]:
    """Total and reserved by provider and class."""
    return {p.uuid: {s.resource_class: (s.total, s.reserved) for s in p.stocks} for p in (found.root, *found.children)}


# ------------------------------------------------------------------------------------------------------------------ there


def test_flat_inventory_becomes_one_for_each_device():
    """The root keeps what is its own, every device has one, and nothing else is written."""
    made = reshape.forth(placed(stock('PGPU', 2)), wanted('a', 'b'))
    assert ((ROOT, 9), ('a', None), ('b', None)) == tuple((p.uuid, p.generation) for p in made.providers)
    assert ('root', 'name-a', 'name-b') == tuple(p.name for p in made.providers)
    assert {ROOT: {GOLD: (1, 0)}, 'a': {'PGPU': (1, 0)}, 'b': {'PGPU': (1, 0)}} == offers(after(placed(), made))
    assert (Moved(source_class='PGPU', target_class='PGPU', before=2, after=2, reserved=0, claimed=0),) == made.moves
    assert ((), (), (GOLD,), (), ()) == (made.consumers, made.shifts, made.stays, made.absent, made.refusals)
    assert ROOT == made.root_uuid


def test_what_a_device_is_given_can_be_claimed_as_a_whole_and_no_more():
    """No overcommitment, in steps of one."""
    made = reshape.forth(placed(stock('PGPU', 4, allocation_ratio=2.0, min_unit=2, step_size=2)), wanted('a', total=4))
    assert (stock('PGPU', 4),) == made.providers[1].stocks


def test_what_stays_on_the_root_stays_to_the_last_value():
    """The call replaces all that a provider has, so every value is written back as it was."""
    odd = stock('CUSTOM_ODD', 7, reserved=2, min_unit=3, max_unit=6, step_size=3, allocation_ratio=1.5)
    made = reshape.forth(placed(odd, stock('PGPU', 1)), wanted('a'))
    assert (stock(GOLD), odd) == made.providers[0].stocks
    assert (GOLD, 'CUSTOM_ODD') == made.stays


def test_a_claim_moves_and_the_consumer_keeps_all_else():
    """Its other claims, those on other nodes' providers too, and its generation: placement replaces what it is told of."""
    tenant = consumer('t', ELSEWHERE, claim(1, GOLD), claim(1))
    made = reshape.forth(placed(stock('PGPU', 1), consumers=(tenant,)), wanted('a'))
    assert (consumer('t', claim(1, provider='a'), ELSEWHERE, claim(1, GOLD)),) == made.consumers
    expected = Shift(consumer='t', amount=1, source=ROOT, source_class='PGPU', target='a', target_class='PGPU')
    assert (expected,) == made.shifts
    assert {GOLD: 1} == made.providers[0].used
    assert {'PGPU': 1} == made.providers[1].used
    assert 1 == made.moves[0].claimed


def test_a_claim_for_two_becomes_one_of_each_of_two_devices():
    """No device has two."""
    made = reshape.forth(placed(stock('PGPU', 2), consumers=(consumer('t', claim(2)),)), wanted('a', 'b'))
    assert {('a', 1), ('b', 1)} == {(s.target, s.amount) for s in made.shifts}
    assert (claim(1, provider='a'), claim(1, provider='b')) == made.consumers[0].claims


def test_a_claim_that_fits_in_one_place_is_not_split():
    """The larger ones are placed first, and each where it leaves the least room."""
    claims = (consumer('s', claim(1)), consumer('t', claim(3)))
    tree = both(wanted('a', total=3), wanted('b', total=1))
    made = reshape.forth(placed(stock('PGPU', 4), consumers=claims), tree)
    assert [('t', 3, 'a'), ('s', 1, 'b')] == [(s.consumer, s.amount, s.target) for s in made.shifts]


@pytest.mark.parametrize(('large', 'small'), [('a', 'b'), ('b', 'a')])
def test_a_claim_that_fits_nowhere_fills_the_largest_first(large, small):
    """It is split into as few parts as that takes. One that fits leaves the large one whole."""
    tree = both(wanted(small, total=1), wanted(large, total=3))
    made = reshape.forth(placed(stock('PGPU', 4), consumers=(consumer('t', claim(4)),)), tree)
    assert [(3, large), (1, small)] == [(s.amount, s.target) for s in made.shifts]
    made = reshape.forth(placed(stock('PGPU', 4), consumers=(consumer('t', claim(1)),)), tree)
    assert [(1, small)] == [(s.amount, s.target) for s in made.shifts]


def test_who_claims_nothing_that_moves_is_not_written():
    """A consumer of the node alone is none of our business."""
    tenant = consumer('t', claim(1, GOLD))
    assert () == reshape.forth(placed(stock('PGPU', 1), consumers=(tenant,)), wanted('a')).consumers


def test_a_device_that_does_not_hold_up_takes_nothing():
    """There are fewer then, and the plan says so."""
    made = reshape.forth(placed(stock('PGPU', 2)), both(wanted('a'), wanted('b', offer=None)))
    assert [ROOT, 'a'] == [p.uuid for p in made.providers]
    assert (2, 1) == (made.moves[0].before, made.moves[0].after)


def test_more_claims_than_devices_that_hold_up_are_refused():
    """Who claims is named, with the numbers."""
    two = (consumer('t', claim(1)), consumer('s', claim(1)))
    made = reshape.forth(placed(stock('PGPU', 2), consumers=two), wanted('a'))
    expected = (
        '2 PGPU of the root are claimed, and the devices that pass verification have room for 1 PGPU (claimed by s, '
        't): fix the devices that fail verification, or wait until an instance is deleted'
    )
    assert (expected,) == sentences(made)
    assert ((), (), ()) == (made.moves, made.providers, made.consumers)


def test_all_that_is_refused_is_told():
    """Each class for its own reason."""
    before = placed(stock('FPGA'), stock('PGPU', 3), stock('VGPU'), consumers=(consumer('t', claim(2)),))
    moves = tuple(InventoryMove(flat=name, nested=name) for name in ('CUSTOM_NONE', 'FPGA', 'PGPU', 'VGPU'))
    made = reshape.forth(before, wanted('a'), moves)
    assert ('CUSTOM_NONE',) == made.absent
    assert ['no device', '2 PGPU of', 'no device'] == [reason[:9] for reason in sentences(made)]
    assert ROOT == made.root_uuid


def test_several_classes_move_at_once():
    """Each leaves the root, and a device that offers both has both."""
    two = Provider(
        uuid='a',
        name='name-a',
        parent_uuid=ROOT,
        inventories=(ProviderInventory(resource_class='FPGA'), ProviderInventory(resource_class='PGPU')),
    )
    before = placed(stock('FPGA'), stock('PGPU'))
    made = reshape.forth(before, ProviderTree(root_uuid=ROOT, providers=(two,)))
    there = after(before, made)
    assert {ROOT: {GOLD: (1, 0)}, 'a': {'FPGA': (1, 0), 'PGPU': (1, 0)}} == offers(there)
    assert offers(before)[ROOT] == offers(after(there, reshape.back(there)))[ROOT]


def test_a_plan_without_refusals_passes():
    """One class moves."""
    made = reshape.forth(placed(stock('PGPU', 2)), wanted('a'))
    assert ((), 1) == (made.refusals, len(made.moves))


def test_one_refusal_is_enough_for_nothing_to_be_done():
    """All or nothing: what could move does not."""
    made = reshape.forth(placed(stock('FPGA', 1), stock('PGPU', 1)), wanted('a'))
    assert 1 == len(made.refusals)
    assert ((), ()) == (made.moves, made.providers)
    assert (GOLD, 'FPGA', 'PGPU') == made.stays


def test_without_a_device_that_offers_the_class_it_is_refused():
    """FPGAs with slots offer functions; which of them is meant is the operator's to say."""
    made = reshape.forth(placed(stock('FPGA', 2)), wanted('a', offer='CUSTOM_ACC_FN_GZIP'))
    assert ('no device that passes verification offers FPGA: available: CUSTOM_ACC_FN_GZIP (--class FPGA=...)',) == sentences(
        made
    )
    two = both(wanted('a', offer='CUSTOM_ACC_FN_GZIP'), wanted('b', offer='CUSTOM_ACC_FN_AES'))
    made = reshape.forth(placed(stock('FPGA', 2)), two)
    expected = (
        'no device that passes verification offers FPGA: available: CUSTOM_ACC_FN_AES, CUSTOM_ACC_FN_GZIP (--class FPGA=...)'
    )
    assert (expected,) == sentences(made)
    renamed = reshape.forth(
        placed(stock('FPGA', 1)),
        wanted('a', offer='CUSTOM_ACC_FN_GZIP'),
        (InventoryMove(flat='FPGA', nested='CUSTOM_ACC_FN_GZIP'),),
    )
    assert {'a': {'CUSTOM_ACC_FN_GZIP': (1, 0)}, ROOT: {GOLD: (1, 0)}} == offers(after(placed(), renamed))


def test_without_any_device_that_holds_up_it_is_refused():
    """Not taken for a machine without devices."""
    made = reshape.forth(placed(stock('PGPU', 2)), wanted('a', offer=None))
    assert (
        'no device that passes verification offers PGPU: baremetal-acc verify lists the findings that are not met',
    ) == sentences(made)


def test_an_operators_class_becomes_the_standard_one_by_its_word():
    """What was claimed as CUSTOM_H100 is claimed as PGPU of a device afterwards. Other classes stay."""
    tenant = consumer('t', claim(1, 'CUSTOM_H100'))
    before = placed(stock('CUSTOM_H100', 2), stock('FPGA', 1), consumers=(tenant,))
    made = reshape.forth(before, wanted('a', 'b'), (InventoryMove(flat='CUSTOM_H100', nested='PGPU'),))
    assert (claim(1, provider='a'),) == made.consumers[0].claims
    assert (Moved(source_class='CUSTOM_H100', target_class='PGPU', before=2, after=2, reserved=0, claimed=1),) == made.moves
    assert (GOLD, 'FPGA') == made.stays


def test_two_classes_of_an_operator_go_each_to_its_own_model():
    """A trait says which devices are meant."""
    before = placed(
        stock('CUSTOM_H100', 1),
        stock('CUSTOM_L40', 1),
        consumers=(consumer('t', claim(1, 'CUSTOM_L40'), claim(1, 'CUSTOM_H100')),),
    )
    tree = both(wanted('a', trait=L40), wanted('b', trait=H100))
    moves = (
        InventoryMove(flat='CUSTOM_H100', nested='PGPU', trait=H100),
        InventoryMove(flat='CUSTOM_L40', nested='PGPU', trait=L40),
    )
    made = reshape.forth(before, tree, moves)
    assert {('CUSTOM_H100', 'b'), ('CUSTOM_L40', 'a')} == {(s.source_class, s.target) for s in made.shifts}


def test_two_classes_that_mean_the_same_devices_are_refused():
    """Nobody could tell which device was which; otherwise a tenant's claim would be on another model."""
    before = placed(stock('CUSTOM_H100', 1), stock('CUSTOM_L40', 1))
    moves = (InventoryMove(flat='CUSTOM_H100', nested='PGPU'), InventoryMove(flat='CUSTOM_L40', nested='PGPU', trait=L40))
    made = reshape.forth(before, both(wanted('a', trait=L40), wanted('b')), moves)
    expected = (
        'CUSTOM_H100 and CUSTOM_L40 both mean devices with PGPU: distinguish them by a trait (--class CUSTOM_L40=PGPU:TRAIT)'
    )
    assert (expected,) == sentences(made)


def test_a_trait_that_no_device_has_is_refused():
    """It is named."""
    made = reshape.forth(placed(stock('PGPU', 1)), wanted('a'), (InventoryMove(flat='PGPU', nested='PGPU', trait=L40),))
    assert (
        f'no device that passes verification offers PGPU with the trait {L40}: available: PGPU (--class PGPU=...)',
    ) == sentences(made)


@pytest.mark.parametrize('name', [GOLD, 'VCPU', 'MEMORY_MB', 'DISK_GB'])
def test_what_the_node_itself_is_claimed_as_is_never_moved(name):
    """The node would not be found any more."""
    before = placed(stock(name)) if name != GOLD else placed()
    made = reshape.forth(before, wanted('a'), (InventoryMove(flat=name, nested='PGPU'),), own=GOLD)
    assert (f'{name} is the resource class of the node itself, not of devices',) == sentences(made)
    made = reshape.back(placed(children=(child('a', stock('PGPU')),)), (InventoryMove(flat=name, nested='PGPU'),), own=GOLD)
    assert (f'{name} is the resource class of the node itself, not of devices',) == sentences(made)


def test_nothing_flat_is_nothing_to_move():
    """As after it was done; a class that was asked for and is not there is told."""
    made = reshape.forth(placed(), wanted('a'))
    assert ((), (), (), (GOLD,), ()) == (made.moves, made.providers, made.refusals, made.stays, made.absent)
    made = reshape.forth(placed(), wanted('a'), (InventoryMove(flat='PGPV', nested='PGPU'),))
    assert (('PGPV',), ()) == (made.absent, made.refusals)
    made = reshape.forth(
        placed(stock('PGPU')),
        wanted('a'),
        (InventoryMove(flat='PGPV', nested='PGPU'), InventoryMove(flat='PGPU', nested='PGPU')),
    )
    assert (('PGPV',), 1) == (made.absent, len(made.moves))


def test_what_is_offered_twice_is_offered_once_afterwards():
    """A node that was published before: what is claimed of a device already is taken."""
    nested = child('a', stock('PGPU'))
    tenants = (consumer('s', claim(1, provider='a')), consumer('t', claim(1)))
    before = placed(stock('PGPU', 2), consumers=tenants, children=(nested,))
    made = reshape.forth(before, wanted('a', 'b'))
    assert [('t', 'b')] == [(s.consumer, s.target) for s in made.shifts]
    assert (9, 4, None) == tuple(p.generation for p in made.providers)
    assert {'PGPU': 1} == made.providers[1].used
    third = (*tenants, consumer('u', claim(1)))
    assert reshape.forth(placed(stock('PGPU', 2), consumers=third, children=(nested,)), wanted('a', 'b')).refusals


def test_claims_of_one_consumer_on_root_and_device_are_added():
    """It holds two units of one device then."""
    tenant = consumer('t', claim(1, provider='a'), claim(1))
    before = placed(stock('PGPU', 2), consumers=(tenant,), children=(child('a', stock('PGPU', 2)),))
    made = reshape.forth(before, wanted('a', total=2))
    assert (claim(2, provider='a'),) == made.consumers[0].claims


def test_another_class_of_a_device_stays_with_it():
    """A function that its tenant still holds, for one."""
    held = stock('CUSTOM_ACC_FN_AES', 1, reserved=1)
    before = placed(stock('PGPU', 1), children=(child('a', held),))
    assert (held, stock('PGPU')) == reshape.forth(before, wanted('a')).providers[1].stocks


def test_a_device_that_is_held_as_something_else_takes_nothing():
    """It is one device, whatever it is called: the claim goes to another one, and who held it is not written."""
    held = child('a', stock('CUSTOM_BIG', 1, reserved=1))
    tenants = (consumer('s', claim(1, 'CUSTOM_BIG', 'a')), consumer('t', claim(1)))
    made = reshape.forth(placed(stock('PGPU', 2, reserved=1), consumers=tenants, children=(held,)), wanted('a', 'b'))
    assert [('t', 'b')] == [(s.consumer, s.target) for s in made.shifts]
    assert [(ROOT, {GOLD: (1, 0)}), ('b', {'PGPU': (1, 0)})] == [
        (p.uuid, {s.resource_class: (s.total, s.reserved) for s in p.stocks}) for p in made.providers
    ]
    assert (Moved(source_class='PGPU', target_class='PGPU', before=2, after=1, reserved=0, claimed=1),) == made.moves


def test_who_holds_a_device_as_something_else_is_told():
    """With the numbers, when there is no room without it; of a class alone, too, and of each such device."""
    held = (child('a', stock('CUSTOM_BIG', 3)), child('b', stock('CUSTOM_ODD'), stock('FPGA')))
    tenants = (
        consumer('s', claim(1, 'CUSTOM_BIG', 'a')),
        consumer('r', claim(2, 'CUSTOM_BIG', 'a')),
        consumer('u', claim(1, 'FPGA', 'b'), claim(1, 'CUSTOM_ODD', 'b')),
        consumer('t', claim(2)),
    )
    told = (
        '; name-a can take over nothing while 3 CUSTOM_BIG of name-a is claimed (by r, s)'
        '; name-b can take over nothing while 1 CUSTOM_ODD of name-b is claimed (by u)'
    )
    before = placed(stock('PGPU', 3), consumers=tenants, children=held)
    made = reshape.forth(before, wanted('a', 'b', 'c'))
    expected = (
        '2 PGPU of the root are claimed, and the devices that pass verification have room for 1 PGPU (claimed by t): '
        f'fix the devices that fail verification, or wait until an instance is deleted{told}'
    )
    assert (expected,) == sentences(made)
    assert ((), ()) == (made.moves, made.providers)
    assert (f'no device can take over PGPU{told}',) == sentences(reshape.forth(before, wanted('a', 'b')))


def test_refusals_go_on_after_a_class_that_no_device_can_take():
    """Each class for its own reason."""
    held = child('a', stock('CUSTOM_BIG'))
    before = placed(stock('FPGA'), stock('PGPU'), consumers=(consumer('s', claim(1, 'CUSTOM_BIG', 'a')),), children=(held,))
    moves = tuple(InventoryMove(flat=name, nested='PGPU', trait=trait) for name, trait in (('PGPU', H100), ('FPGA', L40)))
    made = reshape.forth(before, wanted('a'), moves)
    assert ['no device can take', 'no device that pas'] == [reason[:18] for reason in sentences(made)]


@pytest.mark.parametrize(('held', 'want'), [('slot', 'card'), ('card', 'slot')])
def test_a_card_and_its_slots_are_one_device(held, want):
    """A slot is held while its card is wanted whole, and the other way round; what is wanted of another card takes all."""
    parents = {'card': ROOT, 'slot': 'card'}
    old = child(held, stock('CUSTOM_OLD'), parent=parents[held])
    tenants = (consumer('s', claim(1, 'CUSTOM_OLD', held)), consumer('t', claim(1)))
    before = placed(stock('PGPU', 2), consumers=tenants, children=(old,))
    tree = both(wanted(want), wanted('other'))
    tree = replace(tree, providers=tuple(replace(p, parent_uuid=parents.get(p.uuid, ROOT)) for p in tree.providers))
    made = reshape.forth(before, tree)
    assert [('t', 'other')] == [(s.consumer, s.target) for s in made.shifts]
    assert [ROOT, 'other'] == [p.uuid for p in made.providers]
    told = f'name-{want} can take over nothing while 1 CUSTOM_OLD of name-{held} is claimed (by s)'
    alone = replace(tree, providers=tree.providers[:1])
    assert (f'no device can take over PGPU; {told}',) == sentences(reshape.forth(before, alone))


def test_slots_beside_each_other_are_two_devices():
    """One that is held as an earlier function keeps the other from nothing."""
    slots = (child('x', stock('CUSTOM_OLD'), parent='card'), child('y', parent='card'))
    tenants = (consumer('s', claim(1, 'CUSTOM_OLD', 'x')), consumer('t', claim(1)))
    tree = wanted('x', 'y')
    tree = replace(tree, providers=tuple(replace(p, parent_uuid='card') for p in tree.providers))
    made = reshape.forth(placed(stock('PGPU', 2), consumers=tenants, children=slots), tree)
    assert [('t', 'y')] == [(s.consumer, s.target) for s in made.shifts]


@pytest.mark.parametrize('together', ['held', 'wanted'])
def test_devices_that_are_counted_together_are_all_of_their_kind(together):
    """Which ones a provider stands for that stands for several was said by rules that may have changed since."""
    kind, several = 'CUSTOM_ACC_GPU', 'CUSTOM_ACC_TOGETHER'
    both_traits = frozenset({kind, several}), frozenset({kind})
    ours, theirs = both_traits if together == 'held' else both_traits[::-1]
    old = replace(child('old', stock('PGPU', 2)), traits=ours)
    tenants = (consumer('s', claim(1, 'PGPU', 'old')), consumer('t', claim(1)))
    before = placed(stock('PGPU', 2), consumers=tenants, children=(old,))
    tree = wanted('a', 'b')
    tree = replace(tree, providers=tuple(replace(p, traits=theirs) for p in tree.providers))
    told = ''.join(f'; name-{n} can take over nothing while 1 PGPU of name-old is claimed (by s)' for n in 'ab')
    assert (f'no device can take over PGPU{told}',) == sentences(reshape.forth(before, tree))
    other = replace(tree, providers=tuple(replace(p, traits=frozenset({'CUSTOM_ACC_FPGA', several})) for p in tree.providers))
    assert () == sentences(reshape.forth(before, other))


def test_what_is_held_as_it_is_wanted_is_in_nobodys_way():
    """A provider that stands for several devices may have two classes, and a card of the same kind may be on its own."""
    kind, several = frozenset({'CUSTOM_ACC_GPU'}), frozenset({'CUSTOM_ACC_GPU', 'CUSTOM_ACC_TOGETHER'})
    offers = (ProviderInventory(resource_class='CUSTOM_BIG', total=2), ProviderInventory(resource_class='PGPU', total=2))
    one = Provider(uuid='all', name='name-all', parent_uuid=ROOT, inventories=offers, traits=several)
    tree = ProviderTree(root_uuid=ROOT, providers=(one, replace(wanted('own').providers[0], traits=kind)))
    children = (
        replace(child('all', stock('CUSTOM_BIG', 2), stock('PGPU', 2)), traits=several),
        replace(child('own', stock('PGPU')), traits=kind),
    )
    tenants = (consumer('s', claim(1, 'CUSTOM_BIG', 'all')), consumer('t', claim(2)), consumer('u', claim(1, provider='own')))
    made = reshape.forth(placed(stock('PGPU', 3), consumers=tenants, children=children), tree)
    assert [('t', 2, 'all')] == [(s.consumer, s.amount, s.target) for s in made.shifts]
    assert (stock('CUSTOM_BIG', 2), stock('PGPU', 2)) == made.providers[1].stocks


def test_nobody_gets_a_device_by_another_name_from_the_moment_on_in_which_it_takes_over():
    """What is on offer still of a device that takes over is reserved, with all its values, and the call carries the generations
    of all who stand for it. What stands for other devices is not written.
    """
    odd = stock('CUSTOM_BIG', 3, reserved=1, min_unit=2, max_unit=3, step_size=2, allocation_ratio=1.5)
    children = (
        child('a', odd, generation=6),
        child('a0', stock('VGPU'), parent='a', generation=7),
        child('a1', parent='a'),
        child('b', stock('FPGA'), generation=8),
        child('gone', stock('PGPU')),
    )
    made = reshape.forth(placed(stock('PGPU'), children=children), both(wanted('a'), wanted('b', offer='FPGA')))
    assert [(ROOT, 9), ('a', 6), ('a0', 7)] == [(p.uuid, p.generation) for p in made.providers]
    assert (replace(odd, reserved=3), stock('PGPU')) == made.providers[1].stocks
    assert (stock('VGPU', reserved=1),) == made.providers[2].stocks


def test_a_device_that_is_reserved_takes_no_claim():
    """Somebody works on it."""
    nested = child('a', stock('PGPU', 1, reserved=1))
    before = placed(stock('PGPU', 1), consumers=(consumer('t', claim(1)),), children=(nested,))
    assert reshape.forth(before, wanted('a')).refusals
    free = reshape.forth(placed(stock('PGPU', 1), children=(nested,)), wanted('a'))
    assert (stock('PGPU', 1, reserved=1),) == free.providers[1].stocks
    assert 1 == free.moves[0].reserved


def test_what_the_operator_kept_from_being_claimed_is_kept():
    """As many as were reserved on the root are reserved of devices that nobody claims."""
    before = placed(stock('PGPU', 3, reserved=1), consumers=(consumer('t', claim(1)),))
    made = reshape.forth(before, wanted('a', 'b', 'c'))
    by = {p.uuid: p.stock('PGPU').reserved for p in made.providers[1:]}
    assert {'a': 0, 'b': 1, 'c': 0} == by
    assert 1 == made.moves[0].reserved


@pytest.mark.parametrize(
    ('total', 'reserved', 'claimed', 'devices', 'expected'),
    [
        (4, 2, 0, 4, 2),
        (4, 4, 1, 4, 3),  # drained for the reshape: what is claimed is not reserved besides
        (4, 1, 0, 3, 0),  # the one that does not hold up is the one that nobody could claim
        (4, 2, 0, 3, 1),
        (2, 1, 0, 4, 1),
        (2, 9, 0, 4, 2),
        (4, 0, 0, 2, 0),
    ],
)
def test_no_more_can_be_claimed_than_before(total, reserved, claimed, devices, expected):
    """For the moment at least: the next publication offers what is verified."""
    tenants = (consumer('t', claim(claimed)),) if claimed else ()
    before = placed(stock('PGPU', total, reserved=reserved), consumers=tenants)
    assert expected == reshape.forth(before, wanted(*'abcdefg'[:devices])).moves[0].reserved


# ------------------------------------------------------------------------------------------------------------------- back


def test_back_the_root_offers_what_the_devices_offered():
    """The providers stay, empty."""
    before = placed(children=(child('a', stock('PGPU')), child('b', stock('PGPU'), generation=6)))
    made = reshape.back(before)
    assert {ROOT: {GOLD: (1, 0), 'PGPU': (2, 0)}, 'a': {}, 'b': {}} == offers(after(before, made))
    assert ((ROOT, 9), ('a', 4), ('b', 6)) == tuple((p.uuid, p.generation) for p in made.providers)
    assert 2 == made.providers[0].stock('PGPU').max_unit
    assert (Moved(source_class='PGPU', target_class='PGPU', before=2, after=2, reserved=0, claimed=0),) == made.moves
    assert (GOLD,) == made.stays


def test_back_claims_of_one_consumer_become_one():
    """And it keeps all else."""
    tenant = consumer('t', claim(1, provider='a'), claim(1, provider='b'), ELSEWHERE, claim(1, GOLD))
    before = placed(consumers=(tenant,), children=(child('a', stock('PGPU')), child('b', stock('PGPU'))))
    made = reshape.back(before)
    assert (consumer('t', ELSEWHERE, claim(1, GOLD), claim(2)),) == made.consumers
    assert {GOLD: 1, 'PGPU': 2} == made.providers[0].used
    assert [{}, {}] == [p.used for p in made.providers[1:]]
    assert 2 == made.moves[0].claimed


def test_back_under_another_name_and_of_one_model():
    """The same words mean the same pairs both ways."""
    before = placed(
        consumers=(consumer('t', claim(1, provider='a')),),
        children=(child('a', stock('PGPU')), child('b', stock('PGPU'), trait=L40)),
    )
    made = reshape.back(before, (InventoryMove(flat='CUSTOM_H100', nested='PGPU', trait=H100),))
    assert {ROOT: {'CUSTOM_H100': (1, 0), GOLD: (1, 0)}, 'a': {}, 'b': {'PGPU': (1, 0)}} == offers(after(before, made))
    assert (claim(1, 'CUSTOM_H100'),) == made.consumers[0].claims


def test_back_takes_all_that_the_devices_offer():
    """Functions and an operator's own classes too; unless some are asked for."""
    both_classes = (stock('CUSTOM_ACC_FN_GZIP'), stock('CUSTOM_OWN'))
    before = placed(children=(child('a', *both_classes),))
    assert ['CUSTOM_ACC_FN_GZIP', 'CUSTOM_OWN'] == [m.source_class for m in reshape.back(before).moves]
    made = reshape.back(before, (InventoryMove(flat='CUSTOM_OWN', nested='CUSTOM_OWN'),))
    assert both_classes[:1] == made.providers[1].stocks


def test_back_nobody_gets_what_was_reserved():
    """What is reserved and claimed, as while a step works on a tenant's device, is claimed, not more."""
    busy, free = stock('PGPU', 1, reserved=1), stock('PGPU', 1, reserved=1)
    before = placed(
        consumers=(consumer('t', claim(1, provider='a')),),
        children=(child('a', busy), child('b', free), child('c', stock('PGPU'))),
    )
    assert stock('PGPU', 3, reserved=1) == reshape.back(before).providers[0].stock('PGPU')


def test_back_what_the_root_offers_already_is_the_same_devices():
    """Nova has added it again, for one: there are no more than before. Claims on it count."""
    children = (child('a', stock('PGPU')), child('b', stock('PGPU')))
    before = placed(
        stock('PGPU', 5), consumers=(consumer('s', claim(1)), consumer('t', claim(1, provider='a'))), children=children
    )
    made = reshape.back(before)
    assert stock('PGPU', 2) == made.providers[0].stock('PGPU')
    assert ['t'] == [c.uuid for c in made.consumers]
    assert (GOLD,) == made.stays
    many = replace(before, consumers=(consumer('s', claim(2)), consumer('t', claim(1, provider='a'))))
    expected = '2 PGPU of the root and 1 PGPU of devices are claimed, but there are only 2: wait until an instance is deleted'
    assert (expected,) == sentences(reshape.back(counted(many)))


def test_back_all_that_is_refused_is_told():
    """Each class for its own reason; what is not there keeps nothing else from being looked at."""
    children = (child('a', stock('FPGA')), child('b', stock('PGPU')))
    tenants = (consumer('s', claim(1), claim(1, 'FPGA')), consumer('t', claim(1, 'FPGA', 'a'), claim(1, provider='b')))
    before = placed(stock('FPGA'), stock('PGPU'), consumers=tenants, children=children)
    moves = tuple(InventoryMove(flat=name, nested=name) for name in ('CUSTOM_NONE', 'FPGA', 'PGPU'))
    made = reshape.back(before, moves)
    assert (('CUSTOM_NONE',), 2) == (made.absent, len(made.refusals))


def test_back_reserves_leave_room_for_what_is_claimed_on_the_root():
    """Placement would refuse claims beyond that."""
    children = (child('a', stock('PGPU', 1, reserved=1)), child('b', stock('PGPU')))
    tenants = (consumer('s', claim(1)), consumer('t', claim(1, provider='b')))
    made = reshape.back(placed(stock('PGPU', 2), consumers=tenants, children=children))
    assert stock('PGPU', 2) == made.providers[0].stock('PGPU')


def test_back_with_nothing_to_take_is_nothing_to_move():
    """As after it was done."""
    made = reshape.back(placed(children=(child('a'),)), (InventoryMove(flat='CUSTOM_H100', nested='PGPU'),))
    assert ((), (), ('PGPU',)) == (made.moves, made.refusals, made.absent)
    assert () == reshape.back(placed(stock('PGPU'), children=(child('a'),))).moves


def test_back_two_classes_that_mean_the_same_devices_are_refused():
    """A device can be one of them only."""
    before = placed(children=(child('a', stock('PGPU')),))
    made = reshape.back(
        before, (InventoryMove(flat='CUSTOM_H100', nested='PGPU'), InventoryMove(flat='CUSTOM_L40', nested='PGPU'))
    )
    assert 1 == len(made.refusals)
    assert 'CUSTOM_H100 and CUSTOM_L40 both mean devices' in sentences(made)[0]


# ------------------------------------------------------------------------------------------------------------------ words


@pytest.mark.parametrize(
    ('name', 'expected'), [(None, None), ('gold', 'CUSTOM_GOLD'), ('baremetal.gold-2', 'CUSTOM_BAREMETAL_GOLD_2')]
)
def test_the_nodes_own_class_is_called_as_nova_calls_it(name, expected):
    """Ironic's word with a prefix."""
    assert expected == reshape.node_class(name)


def test_what_leaves_is_known_before_anybody_is_read():
    """Root or devices, by class and trait."""
    before = placed(stock('PGPU'), children=(child('a', stock('PGPU')), child('b', stock('PGPU'), trait=L40)))
    moves = (InventoryMove(flat='PGPU', nested='PGPU', trait=H100),)
    assert {(ROOT, 'PGPU')} == reshape.leaving(before, moves, back=False)
    other = (InventoryMove(flat='PGPU', nested='FPGA'),)
    assert ({(ROOT, 'PGPU')}, set()) == (reshape.leaving(before, other, back=False), reshape.leaving(before, other, back=True))
    assert {('a', 'PGPU')} == reshape.leaving(before, moves, back=True)


def test_what_arrives_is_touched_where_there_is_some_already():
    """Newcomers are to be kept away from both ends, and from nothing else."""
    before = placed(stock('CUSTOM_X'), stock('PGPU'), children=(child('a', stock('PGPU'), stock('FPGA')), child('b')))
    there = (InventoryMove(flat='CUSTOM_X', nested='PGPU'),)
    tree = both(wanted('a', 'b'), wanted('c', offer='FPGA'))
    offered = replace(
        tree.provider('a'), inventories=(ProviderInventory(resource_class='FPGA'), *tree.provider('a').inventories)
    )
    tree = replace(tree, providers=(offered, *tree.providers[1:]))
    assert {(ROOT, 'CUSTOM_X'), ('a', 'PGPU')} == reshape.touched(before, tree, iter(there))
    assert {(ROOT, 'CUSTOM_X'), ('a', 'PGPU')} == reshape.touched(before, None, iter(there))
    other = (InventoryMove(flat='CUSTOM_Y', nested='PGPU', trait=L40),)
    assert frozenset() == reshape.touched(before, None, other)
    assert frozenset() == reshape.touched(before, tree, other)


def test_what_a_device_is_offered_as_besides_is_touched():
    """Newcomers are kept from the device that takes something over, whatever it is called; not from others."""
    children = (child('a', stock('CUSTOM_BIG')), child('b', stock('FPGA')), child('a0', stock('VGPU'), parent='a'))
    before = placed(stock('PGPU'), children=children)
    tree = both(wanted('a'), wanted('b', offer='FPGA'))
    moves = (InventoryMove(flat='PGPU', nested='PGPU'),)
    assert {(ROOT, 'PGPU'), ('a', 'CUSTOM_BIG'), ('a0', 'VGPU')} == reshape.touched(before, tree, moves)


def test_what_publications_use_is_moved_unless_something_else_is_asked_for():
    """Whole devices, functions, and what a rule offers devices as; the node's own class and others' are not."""
    names = ('PGPU', 'VGPU', 'CUSTOM_ACC_FN_GZIP', 'CUSTOM_ACC_DPU', 'FPGA', 'CUSTOM_OWN')
    before = placed(*(stock(n) for n in names), children=(child('a', stock('SRIOV_NET_VF')),))
    found = reshape.chosen(before, wanted('a', offer='CUSTOM_OWN'), ())
    assert ['CUSTOM_ACC_DPU', 'CUSTOM_ACC_FN_GZIP', 'CUSTOM_OWN', 'FPGA', 'PGPU'] == [m.flat for m in found]
    assert all(m.flat == m.nested and m.trait is None for m in found)
    assert ['SRIOV_NET_VF'] == [m.nested for m in reshape.chosen(before, None, ())]
    asked = InventoryMove(flat='VGPU', nested='PGPU')
    assert (asked,) == reshape.chosen(before, wanted('a'), [asked])


# ------------------------------------------------------------------------------------------------------------ properties

CLASSES = ('PGPU', 'CUSTOM_ACC_DPU')


@st.composite
def flat_nodes(draw):
    """A node with flat inventory, claims on it and elsewhere, and devices of which not all hold up."""
    stocks, trees, consumers = [], [], {}
    for name in CLASSES:
        sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=5))
        total = sum(sizes)
        reserved = draw(st.integers(0, total))
        stocks.append(stock(name, total, reserved=reserved))
        trees.append([wanted(f'{name}-{n}', offer=name, total=size) for n, size in enumerate(sizes)])
        left = total
        for who in draw(st.lists(st.sampled_from('stuvw'), unique=True)):
            amount = draw(st.integers(1, 4))
            if amount <= left:
                left -= amount
                consumers.setdefault(who, [claim(1, GOLD)] if draw(st.booleans()) else []).append(claim(amount, name))
    tree = ProviderTree(root_uuid=ROOT, providers=tuple(p for group in trees for t in group for p in t.providers))
    if draw(st.booleans()):
        lost = draw(st.sets(st.sampled_from([p.uuid for p in tree.providers])))
        tree = replace(tree, providers=tuple(replace(p, inventories=()) if p.uuid in lost else p for p in tree.providers))
    whole = tuple(
        consumer(who, *sorted([*claims, ELSEWHERE], key=lambda c: (c.provider, c.resource_class)))
        for who, claims in sorted(consumers.items())
    )
    return placed(*sorted(stocks, key=lambda s: s.resource_class), consumers=whole), tree


def held(someone: Consumer) -> Counter:
    """What a consumer holds of the node, by class, wherever; and elsewhere."""
    found = Counter()
    for c in someone.claims:
        found[c.provider == ELSEWHERE.provider, c.resource_class] += c.amount
    return found


def free(found: Placed, name: str) -> int:
    """How much of a class can be claimed now."""
    total = 0
    for p in (found.root, *found.children):
        s = p.stock(name)
        if s is not None:
            total += max(0, s.total - s.reserved - p.used.get(name, 0))
    return total


@given(flat_nodes())
@settings(max_examples=300, deadline=None)
def test_no_claim_is_lost_and_none_is_more_than_there_is(node):
    """Whatever is moved: each consumer holds what it held, nothing is claimed or reserved beyond what a device has, and no more
    can be claimed than before. Or else it is refused, and then nothing is moved.
    """
    before, tree = node
    made = reshape.forth(before, tree)
    if made.refusals:
        assert (made.moves, made.providers, made.consumers) == ((), (), ())
        return
    now = after(before, made)
    assert [held(c) for c in before.consumers] == [held(c) for c in now.consumers]
    assert now == replace(counted(now), children=now.children, holders=now.holders)
    for name in CLASSES:
        assert now.root.stock(name) is None
        assert free(now, name) <= free(before, name)
    for provider in now.children:
        for s in provider.stocks:
            assert s.reserved + provider.used.get(s.resource_class, 0) <= s.total
    assert made.consumers == tuple(c for c in now.consumers if c in made.consumers)


@given(flat_nodes())
@settings(max_examples=300, deadline=None)
def test_there_and_back_is_where_it_began(node):
    """When all devices hold up: inventory, claims and reserves (as far as they did not lie on what is claimed)."""
    before, tree = node
    made = reshape.forth(before, tree)
    if made.refusals or any(m.before != m.after for m in made.moves):
        return
    there = after(before, made)
    again = after(there, reshape.back(there))
    stocks = tuple(
        replace(s, reserved=min(s.reserved, max(0, s.total - before.root.used.get(s.resource_class, 0))))
        for s in before.root.stocks
    )
    assert replace(before.root, stocks=stocks) == replace(again.root, generation=before.root.generation)
    assert before.consumers == again.consumers
    assert all(() == c.stocks and {} == c.used for c in again.children)
