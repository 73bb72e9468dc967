# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Our providers have the names that Cyborg gives the same hardware, only where they are true."""

from dataclasses import replace

import pytest

from baremetal_acc.bmc.device_ids import shipped
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.verdict import Verdict
from baremetal_acc.policy.baseline import parse
from baremetal_acc.policy.baseline_rules import Offering
from baremetal_acc.scheduling import provider_names, provider_traits
from baremetal_acc.scheduling.provider_names import PREFIX
from baremetal_acc.scheduling.provider_traits import node_traits, room_for
from baremetal_acc.scheduling.providers import tree
from baremetal_acc.scheduling.schedulable import Offer, supply
from tests.unit.planning import values as v

ROOT = '11111111-aaaa-4bbb-8ccc-222222222222'
SLOT0 = provider_names.slot_uuid(ROOT, v.FPGA, 'Slot0')
SLOT1 = provider_names.slot_uuid(ROOT, v.FPGA, 'Slot1')
CARD = provider_names.card_uuid(ROOT, v.FPGA)
UUID = 'f7df405c-bd7a-cf72-22f1-44b0b93acd18'
ID = 'CUSTOM_FPGA_FUNCTION_ID_INTEL_F7DF405CBD7ACF7222F144B0B93ACD18'
HELD = {(v.FPGA, 'Slot0'): 'gzip'}
MET = Verdict(target='node-1', findings=())
GZIP = v.function_image(name='img-gzip', function='gzip', uuid=UUID)


def known(card: Accelerator) -> Accelerator:
    """With the traits that the shipped list gives it."""
    return replace(card, traits=shipped().traits(card.kind, card.pci.vendor_id, card.pci.device_id))


def card(function_uuid: str | None = UUID) -> Accelerator:
    """An FPGA whose first slot holds gzip, by a BMC that gives the function this UUID."""
    first = v.slot(0)
    return known(
        v.fpga(slots=(replace(first, function=replace(first.function, name='gzip', uuid=function_uuid)), v.slot(1, None)))
    )


def published(accelerator: Accelerator, image=GZIP, *lines: str) -> dict[str, frozenset[str]]:
    """The traits of all providers."""
    text = 'format = 1\n[[rule]]\nname = "r"\n' + '\n'.join(lines or ('count = 0',)) + '\n'
    seen = v.inventory(accelerator)
    made = supply(seen, MET, parse(text, 'baseline.toml'), v.NODE, (image,))
    return {p.uuid: p.traits for p in tree(seen, MET, ROOT, made.functions, made.offers).providers}


def test_the_traits_of_a_gpu_and_an_fpga_are_cyborgs_too():
    """Beside ours, on the card and on its slots."""
    [gpu] = tree(v.inventory(known(v.gpu())), MET, ROOT, {}).providers
    assert {'CUSTOM_NVIDIA_2330', 'CUSTOM_ACC_PCI_10DE_2330', provider_names.OWNER} < gpu.traits
    found = published(card())
    cyborgs = {'CUSTOM_FPGA_INTEL', 'CUSTOM_FPGA_INTEL_PAC_ARRIA10', 'CUSTOM_FPGA_PRODUCT_ID_09C4'}
    assert all(cyborgs < traits for traits in found.values())


@pytest.mark.parametrize('how', ['function', 'region'])
def test_a_function_of_which_the_catalogue_gives_the_uuid_has_cyborgs_name_for_it(how):
    """However its slot is offered; the card has it not, and neither has a slot that holds nothing."""
    found = published(card(), GZIP, f'offer = "{how}"')
    assert [True, False, False] == [ID in found[p] for p in (SLOT0, SLOT1, CARD)]


@pytest.mark.parametrize(
    ('accelerator', 'image'),
    [
        (card(), replace(GZIP, uuid=None)),
        (card('11111111-2222-4333-8444-555555555555'), GZIP),
        (card('00000000-0000-0000-0000-000000000000'), replace(GZIP, uuid='00000000-0000-0000-0000-000000000000')),
        (card('F7DF'), replace(GZIP, uuid='F7DF')),
        (
            replace(card(), traits=frozenset({'CUSTOM_FPGA_STORAGE', 'CUSTOM_FPGA_PRODUCT_ID_09C4', 'CUSTOM_FPGA_INTEL_X'})),
            GZIP,
        ),
    ],
    ids=['the word of a BMC alone', 'another function', 'nothing but zeros', 'no UUID', 'no maker'],
)
def test_a_uuid_that_is_not_certain_names_no_function(accelerator, image):
    """A BMC may call the resource by a UUID of its own; two cards then have two names for one function."""
    found = published(accelerator, image)
    assert not [t for traits in found.values() for t in traits if 'FUNCTION_ID' in t]


def test_the_same_function_of_a_slot_that_is_offered_as_nothing_has_no_name():
    """The card is claimed whole, whatever it holds."""
    found = published(card(), GZIP, 'offer = "device"')
    assert not [t for traits in found.values() for t in traits if 'FUNCTION_ID' in t]


def test_an_empty_slot_has_no_function_though_the_catalogue_knows_one():
    """Nor does one of which nobody can tell what it holds."""
    found = published(known(v.fpga(slots=(v.slot(0, None),))))
    assert not [t for t in found[SLOT0] if 'FUNCTION_ID' in t]


def test_a_slot_whose_function_is_not_in_play_has_no_name_for_it():
    """Whatever else is said of the slot."""
    made = {v.FPGA: Offer(how=Offering.FUNCTION, uuids={'Slot0': UUID})}
    named = [{t for p in tree(v.inventory(card()), MET, ROOT, f, made).providers for t in p.traits} for f in ({}, HELD)]
    assert [False, True] == [ID in traits for traits in named]


def test_the_longest_name_of_a_maker_gives_a_name_that_placement_takes():
    """An operator may call a maker anything."""
    given = frozenset({f'CUSTOM_FPGA_{"M" * 240}'})
    [name] = {t for t in published(replace(card(), traits=given))[SLOT0] if 'FUNCTION_ID' in t}
    assert 255 == len(name)


def test_only_a_region_that_can_be_given_something_is_programmable():
    """One that nobody may program would be chosen for nothing."""
    assert {'CUSTOM_PROGRAMMABLE'} <= published(card(), GZIP, 'offer = "region"')[SLOT1]
    for lines in (['offer = "region"', 'takes = []'], ['offer = "function"'], ['offer = "device"']):
        assert not [t for traits in published(card(), GZIP, *lines).values() for t in traits if t == 'CUSTOM_PROGRAMMABLE']


def test_cyborgs_names_go_to_the_node_as_well():
    """Nova hands those that a flavor requires to Ironic, which deploys only where the node has them."""
    seen = v.inventory(known(v.gpu()), card())
    made = supply(seen, MET, parse('format = 1\n[[rule]]\nmatch = { kind = "FPGA" }\noffer = "region"\n', 'b'), v.NODE, (GZIP,))
    found = node_traits(seen, MET, made.functions, made.offers)
    assert {'CUSTOM_NVIDIA_2330', 'CUSTOM_FPGA_INTEL', 'CUSTOM_FPGA_PRODUCT_ID_09C4', 'CUSTOM_PROGRAMMABLE', ID} < found
    assert provider_names.OWNER not in found


def test_where_ironic_has_no_room_for_all_ours_come_first():
    """A node that was just full with the last version stays as it is."""
    traits = node_traits(v.inventory(known(v.gpu())), MET, {})
    assert 5 == len(traits)
    mine = frozenset(f'CUSTOM_MINE_{n}' for n in range(45))
    assert traits == room_for(traits, mine | {'CUSTOM_ACC_OLD'})
    assert traits == room_for(traits, mine | {'CUSTOM_NVIDIA_2330'})
    full = mine | {'CUSTOM_MINE_45'}
    assert provider_traits.device_traits(v.gpu()) == room_for(traits, full)
    assert traits == node_traits(v.inventory(known(v.gpu())), MET, {}, others=full)
    assert all(t.startswith(PREFIX) for t in room_for(traits, full))
