# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What an instance has claimed is found again among the regions of its machine, and every function it asks for gets one."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baremetal_acc.errors import UsageError
from baremetal_acc.model.action import Program, Withdraw
from baremetal_acc.model.plan import Plan
from baremetal_acc.policy.baseline_rules import Offering
from baremetal_acc.scheduling import provider_names
from baremetal_acc.scheduling.region_claims import (
    Claimed,
    asked,
    assign,
    broken,
    changed,
    everything,
    keep,
    not_shown,
    regions,
    unkept,
)
from baremetal_acc.scheduling.schedulable import Offer, Supply
from tests.unit.planning import values as v

NODE = '11111111-aaaa-4bbb-8ccc-222222222222'
OTHER = '33333333-aaaa-4bbb-8ccc-222222222222'


def supply(takes: dict[str, set[str]], holds: dict[str, str] | None = None, how: Offering = Offering.REGION) -> Supply:
    """Of the FPGA: what each slot can be given, and what it holds."""
    made = Offer(how=how, takes={slot: frozenset(names) for slot, names in takes.items()})
    return Supply(functions={(v.FPGA, slot): name for slot, name in (holds or {}).items()}, offers={v.FPGA: made})


def claimed(*slots: str, classes: frozenset[str] = frozenset({'FPGA'})) -> tuple[Claimed, ...]:
    return tuple(Claimed(accelerator=v.FPGA, slot_id=slot, label='Stratix FPGA_1', classes=classes) for slot in slots)


def by_slot(found):
    return {slot: function for (_, slot), function in found.items()}


# ----------------------------------------------------------------------------------------------------------------- regions


def test_a_claim_is_found_again_by_the_provider():
    """Of the slots that are there now, whatever else the instance holds, here or elsewhere."""
    held = {
        provider_names.slot_uuid(NODE, v.FPGA, 'Slot1'): frozenset({'FPGA'}),
        provider_names.slot_uuid(OTHER, v.FPGA, 'Slot0'): frozenset({'FPGA'}),
        provider_names.card_uuid(NODE, v.GPU): frozenset({'PGPU'}),
        NODE: frozenset({'CUSTOM_GOLD'}),
        provider_names.slot_uuid(NODE, v.FPGA, 'Slot0'): frozenset(),
    }
    seen = v.inventory(v.gpu(), v.fpga())
    label = v.fpga().label
    (found,) = regions(held, NODE, seen)
    assert Claimed(accelerator=v.FPGA, slot_id='Slot1', label=label, classes=frozenset({'FPGA'})) == found
    assert f'Slot1 of {label}' == str(found)
    assert () == regions({}, NODE, seen)


def test_claims_come_in_the_order_of_their_slots_and_each_once():
    """Whatever the order of placement's answer, and though a BMC calls two slots alike."""
    twice = v.fpga(slots=(v.slot(1), v.slot(0), replace(v.slot(0), index=2)))
    held = {provider_names.slot_uuid(NODE, v.FPGA, f'Slot{n}'): frozenset({'FPGA'}) for n in (1, 0)}
    assert ['Slot0', 'Slot1'] == [c.slot_id for c in regions(held, NODE, v.inventory(twice))]


# ------------------------------------------------------------------------------------------------------------------- asked


def test_what_an_instance_asks_for_is_told_by_its_traits():
    """Only of functions that a region of this node can be given; the other traits mean something else."""
    made = supply({'Slot0': {'gzip', 'aes'}, 'Slot1': {'aes', 'zip'}})
    traits = [
        'CUSTOM_ACC_CAN_GZIP',
        'CUSTOM_ACC_CAN_AES',
        'CUSTOM_ACC_CAN_AES',
        'CUSTOM_ACC_CAN_TLS',
        'CUSTOM_ACC_FN_ZIP',
        'HW_X',
    ]
    assert ('aes', 'gzip') == asked(traits, made)
    assert () == asked((), made)


# ------------------------------------------------------------------------------------------------------------------ assign


def test_each_function_gets_a_region_that_can_be_given_it():
    """Though the first one could have had either."""
    made = supply({'Slot0': {'aes', 'gzip'}, 'Slot1': {'aes'}})
    assert {'Slot0': 'gzip', 'Slot1': 'aes'} == by_slot(assign(claimed('Slot0', 'Slot1'), ('aes', 'gzip'), made))


def test_what_a_region_holds_already_it_keeps():
    """Nothing is programmed that need not be."""
    made = supply({'Slot0': {'aes', 'gzip'}, 'Slot1': {'aes', 'gzip'}}, {'Slot0': 'gzip', 'Slot1': 'aes'})
    assert {'Slot0': 'gzip', 'Slot1': 'aes'} == by_slot(assign(claimed('Slot0', 'Slot1'), ('aes', 'gzip'), made))


def test_what_is_asked_for_twice_is_given_twice():
    """Traits say no number: more regions than functions are of those functions."""
    made = supply({f'Slot{n}': {'aes', 'gzip', 'zip'} for n in range(4)}, {'Slot2': 'gzip', 'Slot3': 'zip'})
    assert {'Slot0': 'aes', 'Slot2': 'gzip', 'Slot1': 'aes', 'Slot3': 'aes'} == by_slot(
        assign(claimed('Slot0', 'Slot1', 'Slot2', 'Slot3'), ('aes', 'gzip'), made)
    )
    kept = supply({f'Slot{n}': {'aes'} for n in range(2)}, {'Slot0': 'aes', 'Slot1': 'aes'})
    assert {'Slot0': 'aes', 'Slot1': 'aes'} == by_slot(assign(claimed('Slot0', 'Slot1'), ('aes',), kept))


def test_a_region_that_is_left_over_keeps_what_it_holds_if_that_was_asked_for():
    """Two hold gzip; one of them is what was asked for, and nobody asked for the other one to be changed."""
    made = supply(
        {f'Slot{n}': {'aes', 'gzip'} for n in range(4)}, {'Slot0': 'aes', 'Slot1': 'gzip', 'Slot2': 'gzip', 'Slot3': 'zip'}
    )
    assert {'Slot0': 'aes', 'Slot1': 'gzip', 'Slot2': 'gzip', 'Slot3': 'aes'} == by_slot(
        assign(claimed('Slot0', 'Slot1', 'Slot2', 'Slot3'), ('aes', 'gzip'), made)
    )


def test_a_region_that_can_be_given_nothing_that_was_asked_for_is_left():
    """It was claimed for what it is."""
    made = supply({'Slot0': {'aes'}, 'Slot1': {'zip'}})
    assert {'Slot0': 'aes'} == by_slot(assign(claimed('Slot0', 'Slot1'), ('aes',), made))
    assert {'Slot0': 'aes'} == by_slot(assign(claimed('Slot0', 'Slot7'), ('aes',), made))
    assert {} == assign(claimed('Slot0'), (), made)
    assert {} == assign((), (), made)


def test_a_slot_that_is_claimed_as_its_function_is_given_no_other_one():
    """It was claimed for the function that it holds."""
    made = supply({'Slot0': {'aes'}}, {'Slot0': 'gzip'}, how=Offering.FUNCTION)
    with pytest.raises(UsageError) as failed:
        assign(claimed('Slot0', classes=frozenset({'CUSTOM_ACC_FN_GZIP'})), ('aes', 'tls'), made)
    assert (
        'the claims of the instance: its flavor requires aes, tls, but it has claimed no programmable region of the node '
        '(request the resource class of the regions in the same group of the flavor as the trait)'
    ) == str(failed.value)
    assert {} == assign(claimed('Slot0'), (), Supply(functions={}, offers={}))


def test_more_functions_than_regions_are_refused():
    """The message says what it holds, what it asks for, and what is left over."""
    made = supply({'Slot0': {'aes', 'gzip'}, 'Slot1': {'zip'}})
    with pytest.raises(UsageError) as failed:
        assign(claimed('Slot0', 'Slot1'), ('aes', 'gzip'), made)
    assert (
        'the claims of the instance: the claimed regions (Slot0 of Stratix FPGA_1, Slot1 of Stratix FPGA_1) cannot be '
        'given all of aes, gzip: no region is left for gzip (give each function a group of its own '
        'in the flavor, with class and trait in the same group)'
    ) == str(failed.value)


FUNCTIONS = sorted({'aes', 'gzip', 'tls', 'zip'})


@given(
    st.dictionaries(st.sampled_from([f'Slot{n}' for n in range(5)]), st.frozensets(st.sampled_from(FUNCTIONS)), min_size=1),
    st.frozensets(st.sampled_from(FUNCTIONS)),
    st.dictionaries(st.sampled_from([f'Slot{n}' for n in range(5)]), st.sampled_from(FUNCTIONS)),
)
def test_whatever_was_claimed_every_function_is_in_play_or_it_is_refused(takes, functions, holds):
    """And it is refused only if there is no way at all."""
    made = supply(takes, holds)
    wanted = tuple(sorted(functions))
    slots = tuple(sorted(takes))

    def possible(left: tuple[str, ...], free: tuple[str, ...]) -> bool:
        return not left or any(
            left[0] in takes[slot] and possible(left[1:], tuple(s for s in free if s != slot)) for slot in free
        )

    if not possible(wanted, slots):
        with pytest.raises(UsageError):
            assign(claimed(*slots), wanted, made)
        return
    found = by_slot(assign(claimed(*slots), wanted, made))
    assert set(wanted) == set(found.values())
    assert all(function in takes[slot] for slot, function in found.items())
    assert {slot for slot in slots if takes[slot] & functions} == set(found)


# ------------------------------------------------------------------------------------------------------------------ broken


def test_what_was_claimed_and_is_not_there_any_more_is_told():
    """A region that holds what it was claimed as is well, and so is one of a generic class, whatever it holds."""
    gzip = frozenset({'CUSTOM_ACC_FN_GZIP'})
    assert [] == list(broken(claimed('Slot0', classes=gzip), supply({}, {'Slot0': 'gzip'})))
    assert [] == list(broken(claimed('Slot0'), supply({}, {})))
    assert ['Slot0 of Stratix FPGA_1: the instance has claimed CUSTOM_ACC_FN_GZIP, but the region holds aes'] == list(
        broken(claimed('Slot0', classes=gzip), supply({}, {'Slot0': 'aes', 'Slot1': 'gzip'}))
    )
    assert [
        'Slot0 of Stratix FPGA_1: the instance has claimed CUSTOM_ACC_FN_GZIP, but the region holds no known function'
    ] == list(broken(claimed('Slot0', classes=gzip), supply({}, {})))


# ------------------------------------------------------------------------------------------------------------------ unkept

BOTH = [(v.FPGA, 'Slot0'), (v.FPGA, 'Slot1')]
CAN_GZIP, FN_GZIP, PROGRAM = 'CUSTOM_ACC_CAN_GZIP', 'CUSTOM_ACC_FN_GZIP', 'CUSTOM_ACC_PROGRAM'


def told(traits, places=BOTH, how=Offering.REGION, **holds) -> list[str]:
    offers = {v.FPGA: Offer(how=how)}
    made = Supply(functions={(v.FPGA, slot): name for slot, name in holds.items()}, offers=offers)
    return list(unkept(traits, places, made))


def test_a_function_that_was_to_be_programmed_is_in_a_region_that_was_claimed():
    """Whichever of them; what another slot holds does not count."""
    assert [] == told([CAN_GZIP, PROGRAM], Slot1='gzip')
    expected = f'the flavor of the instance requires {CAN_GZIP}, but the claimed regions hold aes'
    assert [expected] == told([PROGRAM, CAN_GZIP], places=BOTH[:1], Slot0='aes', Slot1='gzip')
    assert [expected.replace('aes', 'aes, tls')] == told([PROGRAM, CAN_GZIP], Slot0='tls', Slot1='aes')
    nothing = 'but the claimed regions hold no known function'
    assert [expected.partition('but ')[0] + nothing] == told([PROGRAM, CAN_GZIP], places=[])


def test_what_a_region_can_be_given_is_no_promise_that_it_is():
    """A tenant may program it; only the flavor's other trait has that done."""
    assert [] == told([CAN_GZIP])
    assert [] == told([PROGRAM, 'CUSTOM_ACC_FPGA', 'HW_X'])


def test_a_function_that_was_in_play_still_is():
    """By the trait of a region, which says nothing of slots that are claimed as their function."""
    assert [] == told([FN_GZIP], Slot0='gzip')
    expected = f'the flavor of the instance requires {FN_GZIP}, but the claimed regions hold aes'
    assert [expected] == told([FN_GZIP], Slot0='aes')
    assert [] == told([FN_GZIP], how=Offering.FUNCTION, Slot0='aes')
    assert [] == told([FN_GZIP], places=[], Slot0='aes')
    assert [expected.replace('aes', 'no known function')] == told([FN_GZIP])
    other = [('uuid:other', 'Slot0'), *BOTH]
    assert [expected] == told([FN_GZIP], places=other, Slot0='aes')


# -------------------------------------------------------------------------------------------------------------- everything


def test_a_card_is_found_by_whatever_it_was_offered_as_when_it_was_claimed():
    """A rule has changed since: an instance that runs keeps what it has."""
    seen = v.inventory(v.gpu(), v.fpga())
    card, several = provider_names.card_uuid(NODE, v.GPU), provider_names.together_uuid(NODE, v.gpu())
    whole, slot = provider_names.card_uuid(NODE, v.FPGA), provider_names.slot_uuid(NODE, v.FPGA, 'Slot1')
    for provider, device, name in ((card, v.GPU, None), (several, v.GPU, None), (whole, v.FPGA, None), (slot, v.FPGA, 'Slot1')):
        [claim] = everything({NODE: frozenset({'CUSTOM_GOLD'}), provider: frozenset({'FPGA'})}, NODE, seen)
        assert (provider, device, name) == (claim.provider, claim.accelerator, claim.slot)


@pytest.mark.parametrize(
    ('resource_class', 'told'),
    [('PGPU', True), ('CUSTOM_ACC_FN_GZIP', True), ('CUSTOM_REGION', True), ('CUSTOM_OTHER', False), ('PCI_DEVICE', False)],
)
def test_what_was_claimed_and_is_not_shown_any_more_is_told(resource_class, told):
    """A slot that has vanished, by a class of ours or of the operator's; what others have below the root is theirs."""
    gone = provider_names.slot_uuid(NODE, v.FPGA, 'Slot7')
    held = {NODE: frozenset({'CUSTOM_GOLD'}), gone: frozenset({resource_class})}
    made = Supply(functions={}, offers={v.FPGA: Offer(how=Offering.REGION, resource_class='CUSTOM_REGION')})
    found = list(not_shown(held, NODE, everything(held, NODE, v.inventory(v.fpga())), made))
    text = f'the instance has claimed {resource_class} of provider {gone}, which is no device of the node'
    assert ([text] if told else []) == found


def test_what_is_claimed_of_a_card_comes_before_its_slots_and_they_in_their_order():
    """Drivers are asked in that order, and leave in the other one."""
    slots = [provider_names.slot_uuid(NODE, v.FPGA, f'Slot{n}') for n in (1, 0)]
    held = {p: frozenset({'FPGA'}) for p in (*slots, provider_names.card_uuid(NODE, v.FPGA))}
    assert [None, 'Slot0', 'Slot1'] == [c.slot for c in everything(held, NODE, v.inventory(v.fpga()))]


def test_all_that_is_claimed_of_what_has_vanished_is_told_in_one_sentence():
    """By name, in order."""
    gone = provider_names.slot_uuid(NODE, v.FPGA, 'Slot7')
    held = {gone: frozenset({'PGPU', 'FPGA', 'CUSTOM_ELSE'})}
    found = list(not_shown(held, NODE, (), Supply(functions={}, offers={})))
    assert [f'the instance has claimed FPGA, PGPU of provider {gone}, which is no device of the node'] == found


# -------------------------------------------------------------------------------------------------------------------- keep


def gives(slot: str, function: str) -> Plan:
    """A plan that programs a slot, after it has locked something."""
    program = Program(accelerator=v.FPGA, slot=slot, ref=v.ref('x'), image='img', function=function, version='1', expects=None)
    return Plan(target='node-1', actions=(Withdraw(accelerators=()), program))


@pytest.mark.parametrize(
    ('classes', 'slot', 'function', 'refused'),
    [
        ({'CUSTOM_ACC_FN_GZIP'}, 'Slot0', 'aes', True),
        ({'CUSTOM_ACC_FN_GZIP', 'FPGA'}, 'Slot0', 'aes', True),
        ({'CUSTOM_ACC_FN_GZIP'}, 'Slot0', 'GZIP', False),
        ({'CUSTOM_ACC_FN_GZIP'}, 'Slot1', 'aes', False),
        ({'FPGA'}, 'Slot0', 'aes', False),
    ],
)
def test_a_region_that_is_claimed_as_a_function_gets_no_other_one(classes, slot, function, refused):
    """The tenant asked for that one; who claims a region whatever it holds may have any in it."""
    regions = claimed('Slot0', classes=frozenset(classes))
    if not refused:
        keep(regions, gives(slot, function), {}, v.inventory(v.fpga()))
        return
    with pytest.raises(UsageError) as failed:
        keep(regions, gives(slot, function), {}, v.inventory(v.fpga()))
    assert (
        'Slot0 of Stratix FPGA_1: the instance has claimed CUSTOM_ACC_FN_GZIP, and the plan would program aes '
        '(it can be reprogrammed after the instance has been deleted)'
    ) == str(failed.value)


@pytest.mark.parametrize(
    ('holds', 'refused'),
    [({'Slot0': 'gzip'}, True), ({'Slot0': 'aes'}, False), ({'Slot1': 'gzip'}, False), ({}, False)],
)
def test_what_is_offered_as_its_function_keeps_it_while_anything_of_the_node_is_claimed(holds, refused):
    """Though nobody has claimed that region; it is given again what it holds, and something where nothing is known to be."""
    single = {(v.FPGA, slot): name for slot, name in holds.items()}
    if not refused:
        keep((), gives('Slot0', 'aes'), single, v.inventory(v.fpga()))
        return
    with pytest.raises(UsageError) as failed:
        keep((), gives('Slot0', 'aes'), single, v.inventory(v.fpga()))
    assert (
        'Slot0 of Stratix FPGA1: it is published as its function gzip, and the plan would program aes '
        'while an instance has claimed anything of the node '
        '(it can be reprogrammed after the instance has been deleted; a region (offer = "region") can at any time)'
    ) == str(failed.value)


def test_what_changes_is_told_with_what_is_there_and_what_comes():
    """Of slots that are claimed as their function; another spelling of it is no other one."""
    single = {(v.FPGA, 'Slot0'): 'gzip', (v.FPGA, 'Slot1'): 'aes'}
    assert {(v.FPGA, 'Slot0'): ('gzip', 'aes')} == changed(gives('Slot0', 'aes').actions, single)
    assert {} == changed(gives('Slot0', 'GZIP').actions, single)
    assert {} == changed(gives('Slot2', 'gzip').actions, single)


def test_a_region_that_has_drifted_is_given_back_what_its_tenant_has_claimed():
    """Whatever it holds now. One that nobody has claimed, and that holds the same by another name, is given it again, too."""
    seen = v.inventory(v.fpga())
    regions = claimed('Slot0', classes=frozenset({'CUSTOM_ACC_FN_GZIP'}))
    keep(regions, gives('Slot0', 'gzip'), {(v.FPGA, 'Slot0'): 'aes'}, seen)
    keep((), gives('Slot0', 'GZIP'), {(v.FPGA, 'Slot0'): 'gzip'}, seen)


def test_a_region_that_is_claimed_as_two_functions_gets_no_third():
    """Rules may have changed between the two claims; either is as good."""
    regions = claimed('Slot0', classes=frozenset({'CUSTOM_ACC_FN_GZIP', 'CUSTOM_ACC_FN_AES'}))
    with pytest.raises(UsageError, match='has claimed CUSTOM_ACC_FN_AES, CUSTOM_ACC_FN_GZIP, and the plan would program zip'):
        keep(regions, gives('Slot0', 'zip'), {}, v.inventory(v.fpga()))
    keep(regions, gives('Slot0', 'aes'), {}, v.inventory(v.fpga()))


def test_a_device_that_the_machine_does_not_show_is_told_by_its_identity():
    """A plan is made of what was seen; should it not be, nothing fails but the plan."""
    with pytest.raises(UsageError) as failed:
        keep((), gives('Slot0', 'aes'), {(v.FPGA, 'Slot0'): 'gzip'}, v.inventory())
    assert str(failed.value).startswith(f'Slot0 of {v.FPGA}: ')
