# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What placement is told follows from what was verified, and the calls that tell it lead there."""

import re
import uuid
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baremetal_acc.errors import UsageError
from baremetal_acc.model.accelerator import Kind, PciIds
from baremetal_acc.model.finding import FindingText
from baremetal_acc.model.provider import (
    Call,
    CreateProvider,
    DeleteProvider,
    MoveProvider,
    Provider,
    ProviderInventory,
    ProviderTree,
    SetInventories,
    SetTraits,
)
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.model.subject import Subject
from baremetal_acc.model.verdict import Finding, Met, Verdict
from baremetal_acc.scheduling import provider_diff, provider_hierarchy, provider_names, provider_traits, providers
from baremetal_acc.scheduling.provider_diff import describe, diff
from baremetal_acc.scheduling.provider_names import CLASSES, OWNER
from baremetal_acc.scheduling.provider_traits import node_traits
from baremetal_acc.scheduling.providers import tree, withdrawn
from tests.unit.planning import values as v

NODE = '11111111-aaaa-4bbb-8ccc-222222222222'
OTHER_NODE = '33333333-aaaa-4bbb-8ccc-222222222222'
GZIP = {(v.FPGA, 'Slot0'): 'gzip'}
GPU_UUID = provider_names.card_uuid(NODE, v.GPU)
FPGA_UUID = provider_names.card_uuid(NODE, v.FPGA)
SLOT0 = provider_names.slot_uuid(NODE, v.FPGA, 'Slot0')
SLOT1 = provider_names.slot_uuid(NODE, v.FPGA, 'Slot1')


def verdict(*unmet):
    findings = [
        Finding(
            accelerator=a,
            label='x',
            subject=Subject.from_text('firmware'),
            fact=FindingText(expected='2', found='1'),
            met=Met.NO,
            rule='r',
        )
        for a in unmet
    ]
    good = Finding(
        accelerator=v.GPU,
        label='x',
        subject=Subject.from_text('present'),
        fact=FindingText(expected='yes', found='yes'),
        met=Met.YES,
        rule='r',
    )
    return Verdict(target='node-1', findings=(good, *findings))


def offers(of: ProviderTree) -> dict[str, set[str]]:
    return {p.uuid: {i.resource_class for i in p.inventories} for p in of.providers}


def wanted(*accelerators, unmet=(), functions=GZIP, node=NODE) -> ProviderTree:
    return tree(v.inventory(*(accelerators or (v.gpu(), v.fpga()))), verdict(*unmet), node, functions)


# -------------------------------------------------------------------------------------------------------------- tree


def test_every_device_and_every_slot_is_a_provider():
    """The GPU is a PGPU, the slot with a verified function is that function, and the FPGA itself cannot be claimed."""
    expected = {GPU_UUID: {'PGPU'}, FPGA_UUID: set(), SLOT0: {'CUSTOM_ACC_FN_GZIP'}, SLOT1: set()}
    assert expected == offers(wanted())


def test_cards_lie_below_the_root_and_slots_below_their_card():
    """The root has the node's UUID, and is not among ours."""
    found = wanted()
    assert NODE == found.root_uuid
    assert {GPU_UUID: NODE, FPGA_UUID: NODE, SLOT0: FPGA_UUID, SLOT1: FPGA_UUID} == {
        p.uuid: p.parent_uuid for p in found.providers
    }


@pytest.mark.parametrize(
    ('kind', 'resource_class'),
    [
        (Kind.GPU, 'PGPU'),
        (Kind.FPGA, 'FPGA'),
        (Kind.DPU, 'CUSTOM_ACC_DPU'),
        (Kind.NIC, 'CUSTOM_ACC_NIC'),
        (Kind.ASIC, 'CUSTOM_ACC_ASIC'),
    ],
)
def test_a_whole_device_is_claimed_by_the_class_of_its_kind(kind, resource_class):
    """Total 1, nothing reserved; an FPGA without slots is claimed whole."""
    (provider,) = wanted(v.gpu(kind=kind)).providers
    assert (ProviderInventory(resource_class=resource_class, total=1, reserved=0),) == provider.inventories


def test_every_kind_has_a_class():
    """A new kind needs a row."""
    assert set(Kind) == set(CLASSES)


def test_a_slot_whose_function_was_not_verified_offers_nothing():
    """It reports gzip, but nobody says that this is the catalogue's."""
    assert set() == offers(wanted(functions={}))[SLOT0]


def test_a_device_that_does_not_hold_up_offers_nothing_with_all_its_slots():
    """Its providers stay; the other device is not concerned."""
    assert {GPU_UUID: {'PGPU'}, FPGA_UUID: set(), SLOT0: set(), SLOT1: set()} == offers(wanted(unmet=(v.FPGA,)))


def test_a_finding_about_the_node_does_not_withdraw_the_cards_that_hold_up():
    """One of eight cards may be missing; that is no reason to withdraw seven."""
    assert {'PGPU'} == offers(wanted(unmet=(None,)))[GPU_UUID]


def test_two_devices_of_one_identity_offer_nothing():
    """They cannot be told apart, so neither was verified."""
    assert {GPU_UUID: set()} == offers(wanted(v.gpu(), v.gpu(model='another')))


def test_two_slots_of_one_id_offer_nothing():
    """Which of them holds the function cannot be told."""
    found = wanted(v.fpga(slots=(v.slot(0), replace(v.slot(1), slot_id='Slot0'))))
    assert {FPGA_UUID: set(), SLOT0: set()} == offers(found)


def test_every_provider_carries_our_owner_trait():
    """It is how we know ours again."""
    assert all(OWNER in p.traits for p in wanted().providers)


def test_a_slot_has_the_traits_of_its_card():
    """A flavor's suffixed group wants class and traits from one provider."""
    found = wanted(v.fpga(traits=frozenset({'CUSTOM_FPGA_CARD'})))
    assert found.provider(FPGA_UUID).traits == found.provider(SLOT0).traits
    assert 'CUSTOM_FPGA_CARD' in found.provider(SLOT0).traits


@pytest.mark.parametrize(
    ('device', 'traits'),
    [
        (
            v.gpu(),
            {'CUSTOM_ACC_GPU', 'CUSTOM_ACC_GPU_NVIDIA', 'CUSTOM_ACC_GPU_NVIDIA_H100', 'CUSTOM_ACC_PCI_10DE_2330'},
        ),
        (v.gpu(vendor=None, pci=PciIds()), {'CUSTOM_ACC_GPU'}),
        (v.gpu(model=None, pci=PciIds()), {'CUSTOM_ACC_GPU', 'CUSTOM_ACC_GPU_NVIDIA'}),
        (
            v.gpu(model='NVIDIA H100 80GB-HBM3 ', pci=PciIds()),
            {'CUSTOM_ACC_GPU', 'CUSTOM_ACC_GPU_NVIDIA', 'CUSTOM_ACC_GPU_NVIDIA_H100_80GB_HBM3'},
        ),
        (v.gpu(vendor='日本', pci=PciIds()), {'CUSTOM_ACC_GPU'}),
        (v.gpu(vendor=None, pci=PciIds(vendor_id='0x10de')), {'CUSTOM_ACC_GPU'}),
        (v.gpu(vendor=None, pci=PciIds(device_id='0x2330')), {'CUSTOM_ACC_GPU'}),
    ],
)
def test_traits_say_kind_vendor_model_and_pci_ids(device, traits):
    """From the most general to the most exact; what is unknown, or has no Latin letter, gives none."""
    assert traits == provider_traits.device_traits(device)


@given(vendor=st.text(max_size=400), model=st.text(max_size=400), serial=st.text(max_size=50))
def test_whatever_a_bmc_says_the_names_are_such_as_placement_takes(vendor, model, serial):
    """Text of a BMC is hostile: it ends in no name that is too long, has other characters, or means something to others."""
    device = v.gpu(id=AcceleratorId(f'serial:{serial}'), vendor=vendor, model=model, serial=serial)
    (provider,) = wanted(device).providers
    assert all(re.fullmatch('CUSTOM_[A-Z0-9_]{1,248}', trait) for trait in provider.traits)
    assert len(provider.name) <= 200
    assert all(t == OWNER or t.startswith(('CUSTOM_ACC_GPU', 'CUSTOM_ACC_PCI_')) for t in provider.traits)


def test_long_names_that_differ_at_the_end_stay_different():
    """They are cut, and told apart by what they were."""
    a, b = (provider_names.function_class('x' * 300 + end) for end in 'ab')
    assert a != b
    assert (255, 255) == (len(a), len(b))


@pytest.mark.parametrize(
    'trait', ['COMPUTE_MANAGED_PCI_DEVICE', 'MISC_SHARES_VIA_AGGREGATE', 'OWNER_NOVA', 'CUSTOM_OWNER_SOMEBODY', 'custom_x', '']
)
def test_a_trait_that_others_give_a_meaning_is_refused(trait):
    """COMPUTE_MANAGED_PCI_DEVICE anywhere in the tree ends nova-compute at its start (nova 34.0.0)."""
    with pytest.raises(UsageError, match=f"trait '{trait}' of H100 GPU_0"):
        wanted(v.gpu(traits=frozenset({trait})))


# -------------------------------------------------------------------------------------------------------------- names


def test_names_and_uuids_never_change():
    """A change would orphan every provider that was ever published: these values were written down once."""
    found = wanted()
    assert {
        GPU_UUID: f'{NODE}_ACC_{GPU_UUID.replace("-", "")[:12]}',
        SLOT0: f'{NODE}_ACC_{SLOT0.replace("-", "")[:12]}',
    } == {u: found.provider(u).name for u in (GPU_UUID, SLOT0)}
    assert ('f1ef1857-633e-5fc6-a3f3-85c895f9d4aa', '88f42276-64e0-5937-80a7-9f881445a270') == (GPU_UUID, SLOT0)


def test_the_same_card_in_another_node_is_another_provider():
    """It is below another root there."""
    assert not {p.uuid for p in wanted().providers} & {p.uuid for p in wanted(node=OTHER_NODE).providers}


def test_the_spelling_of_a_node_does_not_matter():
    """Upper case, and no dashes, are the same node."""
    assert wanted() == wanted(node=NODE.upper().replace('-', ''))


@given(st.lists(st.tuples(st.text(max_size=8), st.one_of(st.none(), st.text(max_size=8))), unique=True, max_size=20))
def test_no_two_devices_or_slots_are_one_provider(places):
    """No text of a BMC can spell another card's slot."""
    found = {
        provider_names.card_uuid(NODE, AcceleratorId(card))
        if slot is None
        else provider_names.slot_uuid(NODE, AcceleratorId(card), slot)
        for card, slot in places
    }
    assert len(places) == len(found)


def test_half_a_surrogate_pair_in_an_id_is_an_id():
    """JSON can carry one, and UTF-8 cannot."""
    ids = ['\ud800', '\\ud800', '?']
    assert 3 == len({provider_names.slot_uuid(NODE, v.FPGA, one) for one in ids})


def test_a_node_without_a_uuid_is_named():
    """Placement knows nodes by UUID only."""
    with pytest.raises(UsageError, match="'node-1' is not a UUID"):
        wanted(node='node-1')


@pytest.mark.parametrize(
    ('function', 'name'),
    [('gzip', 'CUSTOM_ACC_FN_GZIP'), ('AES-256 (GCM)', 'CUSTOM_ACC_FN_AES_256_GCM'), ('_x_', 'CUSTOM_ACC_FN_X')],
)
def test_a_function_becomes_a_class(function, name):
    """Letters and digits count; all between is one underline."""
    assert name == provider_names.function_class(function)


def test_a_function_without_a_letter_is_refused():
    """There is no class for it."""
    with pytest.raises(UsageError, match='no letter or digit'):
        provider_names.function_class('---')


def test_functions_that_would_share_a_class_are_refused():
    """A tenant who asks for one could get the other."""
    with pytest.raises(UsageError, match=r"'a-b' and 'a_b'.*CUSTOM_ACC_FN_A_B"):
        wanted(functions={(v.FPGA, 'Slot0'): 'a-b', (v.FPGA, 'Slot1'): 'a_b'})


def test_a_function_is_the_same_in_any_case():
    """Images and slots are compared without case, too."""
    assert {'AES': 'CUSTOM_ACC_FN_AES', 'aes': 'CUSTOM_ACC_FN_AES'} == provider_names.function_classes(['aes', 'AES'])


# ---------------------------------------------------------------------------------------------------------- node traits


def test_a_node_has_the_traits_of_its_devices_and_functions():
    """All begin alike, so that we know ours again; a flavor's required trait has to be on the node as well."""
    traits = node_traits(v.inventory(v.gpu(), v.fpga()), verdict(), GZIP)
    assert {'CUSTOM_ACC_GPU_NVIDIA_H100', 'CUSTOM_ACC_FPGA_INTEL_STRATIX', 'CUSTOM_ACC_FN_GZIP'} < traits
    assert all(t.startswith('CUSTOM_ACC_') for t in traits)


def test_a_device_that_does_not_hold_up_gives_its_node_no_trait():
    """Nobody is sent to a node for it."""
    traits = node_traits(v.inventory(v.gpu(), v.fpga()), verdict(v.FPGA), GZIP)
    assert provider_traits.device_traits(v.gpu()) == traits


def test_a_devices_own_traits_go_to_the_node():
    """Whatever they are called: a flavor that requires one is deployed only where the node has it."""
    own = frozenset({'CUSTOM_ACC_NVLINK', 'CUSTOM_X', 'HW_GPU_API_VULKAN'})
    traits = node_traits(v.inventory(v.gpu(traits=own), v.fpga(traits=frozenset({'CUSTOM_Y'}))), verdict(v.FPGA), {})
    assert provider_traits.device_traits(v.gpu()) | own == traits


def test_more_traits_than_ironic_keeps_are_refused():
    """The message says how many are whose; traits of ours that are on the node already are not counted twice."""
    others = frozenset(f'CUSTOM_MINE_{n}' for n in range(46)) | {'CUSTOM_ACC_GPU', 'CUSTOM_ACC_OLD'}
    here = v.inventory(v.gpu())
    assert 4 == len(node_traits(here, verdict(), {}, others=others))
    with pytest.raises(UsageError, match='4 for its accelerators and 47 others are more than the 50 that Ironic stores'):
        node_traits(here, verdict(), {}, others=others | {'CUSTOM_MINE_46'})


# -------------------------------------------------------------------------------------------------------------- offers


def test_what_takes_nothing_away_can_be_sent_together():
    """No consumer can be in its way; what takes something away has to be asked for first, and by itself."""

    def sets(uuid: str, *classes: str, reserved: int = 0) -> SetInventories:
        units = tuple(ProviderInventory(resource_class=name, reserved=reserved) for name in classes)
        return SetInventories(uuid=uuid, name=uuid, inventories=units)

    def has(uuid: str, *classes: str) -> Provider:
        return Provider(uuid=uuid, name=uuid, parent_uuid=NODE, inventories=sets(uuid, *classes).inventories)

    actual = ProviderTree(root_uuid=NODE, providers=(has('a', 'X'), has('b', 'X', 'Y'), has('c', 'X'), has('d')))
    changed, less, more, same = sets('a', 'Z'), sets('b', 'X'), sets('b', 'W', 'X'), sets('c', 'X', reserved=1)
    calls = (
        CreateProvider(uuid='e', name='e', parent_uuid=NODE),
        sets('a'),
        less,
        SetTraits(uuid='a', name='a', traits=frozenset()),
        changed,
        more,
        same,
        sets('d', 'X'),
        sets('e', 'X'),
        DeleteProvider(uuid='f', name='f'),
    )
    assert (changed, more, same, sets('d', 'X'), sets('e', 'X')) == provider_diff.offers(calls, actual)
    assert () == provider_diff.offers((), actual)


# ------------------------------------------------------------------------------------------------------ withdrawn, held


def test_withdrawn_offers_nothing_and_keeps_all_else():
    """Providers, names and traits stay."""
    found = wanted()
    empty = withdrawn(found)
    assert all(not p.inventories for p in empty.providers)
    assert [replace(p, inventories=()) for p in found.providers] == list(empty.providers)


def test_withdrawing_a_card_takes_its_slots_along():
    """And no other card."""
    assert {GPU_UUID: {'PGPU'}, FPGA_UUID: set(), SLOT0: set(), SLOT1: set()} == offers(
        withdrawn(wanted(), frozenset({FPGA_UUID}))
    )


def test_what_is_prepared_exists_and_offers_what_it_offered():
    """New providers are empty, those that are there keep their offers, with the wanted traits, and nobody's go."""
    there = wanted(v.gpu())
    stays = replace(there.providers[0], traits=frozenset({'CUSTOM_OLD'}), generation=3)
    gone = Provider(
        uuid='gone', name='gone', parent_uuid=NODE, inventories=(ProviderInventory(resource_class='PGPU'),), generation=7
    )
    actual = replace(there, providers=(stays, gone))
    made = providers.prepared(wanted(), actual)
    assert {'PGPU'} == {i.resource_class for i in made.provider(stays.uuid).inventories}
    assert there.providers[0].traits == made.provider(stays.uuid).traits
    assert replace(gone, generation=None, reserves=True) == made.provider('gone')
    assert {()} == {p.inventories for p in made.providers if p.uuid not in (stays.uuid, 'gone')}
    kinds = [type(call) for call in diff(made, actual)]
    assert 3 * [CreateProvider] + 4 * [SetTraits] == kinds


def test_what_is_held_stays_and_is_wholly_reserved():
    """The class that somebody claimed stays, nobody else can claim it, and the same region is offered as nothing else."""
    actual = replace(wanted().provider(SLOT0), inventories=(ProviderInventory(resource_class='FPGA', total=3, altered=True),))
    found = providers.held(wanted(), actual, frozenset({'FPGA'})).provider(SLOT0)
    assert (ProviderInventory(resource_class='FPGA', total=3, reserved=3),) == found.inventories
    both = (ProviderInventory(resource_class='CUSTOM_ACC_FN_GZIP'), *actual.inventories)
    found = providers.held(wanted(), replace(actual, inventories=both), frozenset({'FPGA', 'CUSTOM_ACC_FN_GZIP'}))
    assert {'CUSTOM_ACC_FN_GZIP': (1, 1), 'FPGA': (3, 3)} == {
        i.resource_class: (i.total, i.reserved) for i in found.provider(SLOT0).inventories
    }


def test_what_is_held_and_wanted_is_as_it_is_wanted():
    """Somebody holds it, and it is offered all the same: nothing has to be reserved."""
    actual = wanted().provider(SLOT0)
    assert offers(wanted()) == offers(providers.held(wanted(), actual, frozenset({'CUSTOM_ACC_FN_GZIP'})))
    assert wanted().provider(SLOT0) == providers.held(wanted(), actual, frozenset({'CUSTOM_ACC_FN_GZIP'})).provider(SLOT0)


def test_what_is_held_of_a_card_that_is_gone_stays():
    """The provider is wanted again, for what is held of it."""
    actual = replace(wanted().provider(GPU_UUID), generation=7)
    found = providers.held(wanted(v.fpga()), actual, frozenset({'PGPU'}))
    kept = (ProviderInventory(resource_class='PGPU', reserved=1),)
    assert replace(actual, inventories=kept, generation=None, reserves=True) == found.provider(GPU_UUID)
    assert {GPU_UUID, FPGA_UUID, SLOT0, SLOT1} == {p.uuid for p in found.providers}
    assert {SLOT0, SLOT1} == {p.uuid for p in found.providers[2:]}


def test_the_root_cannot_be_a_provider_of_ours():
    """Whoever tries has a defect, and is stopped before anything is sent."""
    with pytest.raises(ValueError, match='is among the providers of the devices'):
        ProviderTree(root_uuid=NODE, providers=(Provider(uuid=NODE, name='x', parent_uuid=OTHER_NODE),))


# -------------------------------------------------------------------------------------------------------------- diff


def apply(calls: tuple[Call, ...], actual: ProviderTree, claimed: frozenset[str] = frozenset()) -> ProviderTree:
    """What placement makes of calls, with its rules: parents exist, children are gone, claimed classes stay."""
    known = {p.uuid: p for p in actual.providers}
    for call in calls:
        match call:
            case CreateProvider():
                assert call.uuid not in known
                assert call.parent_uuid in {actual.root_uuid, *known}
                known[call.uuid] = Provider(uuid=call.uuid, name=call.name, parent_uuid=call.parent_uuid)
            case MoveProvider():
                assert call.parent_uuid in {actual.root_uuid, *known}
                known[call.uuid] = replace(known[call.uuid], name=call.name, parent_uuid=call.parent_uuid)
            case SetInventories():
                assert not any(i.altered for i in call.inventories)
                known[call.uuid] = replace(known[call.uuid], inventories=call.inventories)
            case SetTraits():
                known[call.uuid] = replace(known[call.uuid], traits=call.traits)
            case DeleteProvider():
                assert not known[call.uuid].inventories
                assert call.uuid not in {p.parent_uuid for p in known.values()}
                del known[call.uuid]
    return ProviderTree(root_uuid=actual.root_uuid, providers=tuple(known.values()))


_inventory = st.builds(
    ProviderInventory,
    resource_class=st.sampled_from(['PGPU', 'FPGA', 'CUSTOM_ACC_FN_A', 'CUSTOM_ACC_FN_B']),
    total=st.integers(1, 3),
    reserved=st.integers(0, 1),
)
_UUIDS = [str(uuid.UUID(int=n)) for n in range(1, 7)]


@st.composite
def trees(draw, *, altered: bool = False) -> ProviderTree:
    """Any tree of up to six providers, at most three levels deep."""
    chosen = draw(st.lists(st.sampled_from(_UUIDS), unique=True))
    found: list[Provider] = []
    for one in chosen:
        inventories = draw(st.lists(_inventory, unique_by=lambda i: i.resource_class, max_size=3))
        if altered:
            inventories = [replace(i, altered=draw(st.booleans())) for i in inventories]
        found.append(
            Provider(
                uuid=one,
                name=f'{NODE}_ACC_{one}',
                parent_uuid=draw(st.sampled_from([NODE, *(p.uuid for p in found)])),
                inventories=tuple(sorted(inventories, key=lambda i: i.resource_class)),
                traits=draw(st.frozensets(st.sampled_from([OWNER, 'CUSTOM_A', 'CUSTOM_B']))),
                generation=draw(st.one_of(st.none(), st.integers(0, 9))),
            )
        )
    return ProviderTree(root_uuid=NODE, providers=tuple(found))


@given(trees(), trees(altered=True))
def test_the_calls_lead_to_what_is_wanted(want, actual):
    """Afterwards there is nothing left to call, and everything wanted is there as it is wanted."""
    result = apply(diff(want, actual), actual)
    assert () == diff(want, result)
    for provider in want.providers:
        assert replace(provider, generation=None) == replace(result.provider(provider.uuid), generation=None)
    assert all(not p.inventories for p in result.providers if want.provider(p.uuid) is None)


@given(trees())
def test_what_is_already_so_needs_no_call(want):
    """Order and generations do not matter."""
    actual = replace(want, providers=tuple(replace(p, generation=7) for p in reversed(want.providers)))
    assert () == diff(want, actual)


@given(trees(), trees(altered=True))
def test_what_goes_is_withdrawn_before_anything_is_offered(want, actual):
    """Up to its last offer no provider ever has a class under traits other than those it is wanted with."""
    state = actual
    for call in diff(want, actual):
        state = apply((call,), state)
        if isinstance(call, SetInventories):
            before = {i.resource_class for i in actual.provider(call.uuid).inventories} if actual.provider(call.uuid) else set()
            now = {i.resource_class for i in call.inventories}
            goal = want.provider(call.uuid)
            if now - before:
                assert goal.traits == state.provider(call.uuid).traits
                assert {i.resource_class for i in goal.inventories} == now


@given(trees(), trees())
def test_nothing_is_deleted_unless_it_may_be(want, actual):
    """And with leave only what the wanted tree lacks, after it was emptied, children first."""
    lacking = {p.uuid for p in actual.providers} - {p.uuid for p in want.providers}
    assert not [c for c in diff(want, actual) if isinstance(c, DeleteProvider)]
    calls = diff(want, actual, delete_gone=True)
    # A provider that somebody hung below one of those that go is moved first.
    assert lacking == {c.uuid for c in calls if isinstance(c, DeleteProvider)}
    assert () == diff(want, apply(calls, actual), delete_gone=True)


@given(trees(), trees())
def test_the_root_is_never_called(want, actual):
    """It is Nova's."""
    assert NODE not in {call.uuid for call in diff(want, actual, delete_gone=True)}


def test_another_function_is_withdraw_then_offer():
    """The empty inventory is what placement refuses while somebody holds the old function."""
    name = wanted().provider(SLOT0).name
    expected = (
        SetInventories(uuid=SLOT0, name=name, inventories=()),
        SetInventories(uuid=SLOT0, name=name, inventories=(ProviderInventory(resource_class='CUSTOM_ACC_FN_AES'),)),
    )
    assert expected == diff(wanted(functions={(v.FPGA, 'Slot0'): 'aes'}), wanted())


PGPU, FPGA_CLASS = ProviderInventory(resource_class='PGPU'), ProviderInventory(resource_class='FPGA')


def provider(number: int, parent: int = 0, *inventories: ProviderInventory, name: str = '', **changes) -> Provider:
    """One that is called by its number; below the root unless another number is given."""
    values = {'traits': frozenset({OWNER}), 'inventories': inventories} | changes
    parent_uuid = _UUIDS[parent - 1] if parent else NODE
    return Provider(uuid=_UUIDS[number - 1], name=name or f'p{number}', parent_uuid=parent_uuid, **values)


def below_root(*found: Provider) -> ProviderTree:
    return ProviderTree(root_uuid=NODE, providers=found)


def test_the_calls_are_these_in_this_order():
    """Made empty with the parent first, moved, withdrawn, given traits, offered, and deleted with the child first."""
    u = dict(enumerate(_UUIDS, 1))
    actual = below_root(
        provider(1, 0, replace(PGPU, altered=True), FPGA_CLASS),
        provider(2, 0, PGPU, traits=frozenset()),
        provider(4, 0, PGPU),
        provider(3, 4),
    )
    want = below_root(provider(6, 0, PGPU), provider(5, 6, FPGA_CLASS), provider(2, 1, PGPU, name='new'), provider(1, 0, PGPU))
    calls = (
        CreateProvider(uuid=u[6], name='p6', parent_uuid=NODE),
        MoveProvider(uuid=u[2], name='new', parent_uuid=u[1]),
        CreateProvider(uuid=u[5], name='p5', parent_uuid=u[6]),
        SetInventories(uuid=u[4], name='p4', inventories=()),
        SetInventories(uuid=u[1], name='p1', inventories=(PGPU,)),
        SetTraits(uuid=u[6], name='p6', traits=frozenset({OWNER})),
        SetTraits(uuid=u[2], name='new', traits=frozenset({OWNER})),
        SetTraits(uuid=u[5], name='p5', traits=frozenset({OWNER})),
        SetInventories(uuid=u[6], name='p6', inventories=(PGPU,)),
        SetInventories(uuid=u[5], name='p5', inventories=(FPGA_CLASS,)),
    )
    assert calls == diff(want, actual)
    gone = (DeleteProvider(uuid=u[3], name='p3'), DeleteProvider(uuid=u[4], name='p4'))
    assert (*calls, *gone) == diff(want, actual, delete_gone=True)


@pytest.mark.parametrize(
    ('seen', 'expected'),
    [
        (provider(1, 0, PGPU), ()),
        (provider(1, 0, PGPU, generation=7), ()),
        (provider(1, 0, PGPU, name='old'), (MoveProvider(uuid=_UUIDS[0], name='p1', parent_uuid=NODE),)),
        (provider(1, 2, PGPU), (MoveProvider(uuid=_UUIDS[0], name='p1', parent_uuid=NODE),)),
        (
            provider(1, 0, PGPU, traits=frozenset({OWNER, 'CUSTOM_X'})),
            (SetTraits(uuid=_UUIDS[0], name='p1', traits=frozenset({OWNER})),),
        ),
        *(
            (provider(1, 0, *now), (SetInventories(uuid=_UUIDS[0], name='p1', inventories=(PGPU,)),))
            for now in ((), (replace(PGPU, total=2),), (replace(PGPU, reserved=1),), (replace(PGPU, altered=True),))
        ),
    ],
)
def test_what_is_not_as_it_is_wanted_is_set_and_nothing_else(seen, expected):
    """A value that somebody else gave is no reason to withdraw what stays."""
    assert expected == diff(below_root(provider(1, 0, PGPU), provider(2)), below_root(seen, provider(2)))


def test_parents_come_before_their_children_and_then_their_uuid_counts():
    """However deep they lie; in a circle that somebody made nobody is lost."""
    deep = (provider(1, 2), provider(2, 3), provider(3, 4), provider(4))
    beside = (provider(5, 6), provider(6))
    order = [provider(4), provider(6), provider(3, 4), provider(5, 6), provider(2, 3), provider(1, 2)]
    assert order == list(provider_hierarchy.parents_first((*deep, *beside)))
    everything = withdrawn(below_root(*(replace(p, inventories=(PGPU,)) for p in deep + beside)), frozenset({_UUIDS[3]}))
    assert set(_UUIDS[4:]) == {p.uuid for p in everything.providers if p.inventories}
    circle = (provider(1, 2), provider(2, 1))
    assert set(circle) == set(provider_hierarchy.parents_first(circle))


def test_every_call_can_be_told():
    """One line each, with the provider's name."""
    lines = [
        describe(call)
        for call in (
            CreateProvider(uuid='u', name='n', parent_uuid='p'),
            MoveProvider(uuid='u', name='n', parent_uuid='p'),
            SetInventories(uuid='u', name='n', inventories=()),
            SetInventories(uuid='u', name='n', inventories=(ProviderInventory(resource_class='FPGA', total=2, reserved=1),)),
            SetTraits(uuid='u', name='n', traits=frozenset({'B', 'A'})),
            DeleteProvider(uuid='u', name='n'),
        )
    ]
    assert [
        'create provider n with parent p',
        'move provider n to parent p',
        'n: remove all inventory',
        'n: set inventory FPGA 2 (1 reserved)',
        'n: set traits A, B',
        'delete provider n',
    ] == lines


# ------------------------------------------------------------------------------------------------------------- words


def told(exc: pytest.ExceptionInfo[UsageError]) -> tuple[str, str, str | None]:
    return exc.value.argument, exc.value.message.removeprefix(f'{exc.value.argument}: '), exc.value.hint


def test_what_placement_can_have_no_name_for_is_refused_word_by_word():
    """An operator reads these, and they say what to do."""
    with pytest.raises(UsageError) as exc:
        provider_names.function_class('--')
    what = 'has no letter or digit, so it cannot be named in placement'
    assert ("function '--'", what, 'rename it in the catalogue') == told(exc)
    with pytest.raises(UsageError) as exc:
        provider_names.function_classes(['a-b', 'a_b'])
    what = 'both become CUSTOM_ACC_FN_A_B in placement'
    assert ("functions 'a-b' and 'a_b'", what, 'rename one of them in the catalogue') == told(exc)
    with pytest.raises(UsageError) as exc:
        tree(v.inventory(), verdict(), 'node-1', {})
    assert ('node', "'node-1' is not a UUID", 'give the UUID that the node has in Ironic') == told(exc)
    with pytest.raises(UsageError) as exc:
        wanted(v.gpu(traits=frozenset({'x' * 100})), functions={})
    what = 'cannot be set on a device: the name is invalid or reserved'
    hint = 'rename it in the list of known devices: CUSTOM_, then capital letters, digits and underscores'
    assert (f"trait '{'x' * 80}' of H100 GPU_0", what, hint) == told(exc)
    for trait in ('CUSTOM_ACC_FN_GZIP', 'CUSTOM_ACC_CAN_GZIP', 'CUSTOM_ACC_TOGETHER', 'CUSTOM_ACC_PROGRAM'):
        with pytest.raises(UsageError) as exc:
            wanted(v.gpu(traits=frozenset({trait})), functions={})
        assert (f"trait '{trait}' of H100 GPU_0", what, hint) == told(exc), 'it says what nobody has verified'
    others = frozenset(f'CUSTOM_{n}' for n in range(provider_traits.NODE_TRAITS))
    with pytest.raises(UsageError) as exc:
        node_traits(v.inventory(v.gpu()), verdict(), {}, others=others)
    what = f'4 for its accelerators and {len(others)} others are more than the {provider_traits.NODE_TRAITS} that Ironic stores'
    hint = 'remove traits of your own from the node (baremetal node remove trait)'
    assert ('traits of the node', what, hint) == told(exc)


def test_a_name_of_just_the_length_that_placement_takes_stays_and_a_longer_one_ends_in_its_digest():
    """Two long names that begin alike stay two, in capital letters as every class and trait has to be."""
    room = provider_names.NAME_LENGTH - len('CUSTOM_ACC_FN_')
    assert f'CUSTOM_ACC_FN_{"A" * room}' == provider_names.function_class('a' * room)
    one, other = (provider_names.function_class('a' * room + last) for last in 'bc')
    assert one != other
    assert {provider_names.NAME_LENGTH} == {len(one), len(other)}
    assert re.fullmatch(r'[A-Z0-9_]+_[0-9A-F]{12}', one)
    assert 'CUSTOM_ACC_FN_A_B' == provider_names.function_class('__a-b__')


def test_what_is_offered_is_told_with_what_is_reserved():
    """One line for each call, and nothing reserved is not told."""
    two = (
        ProviderInventory(resource_class='PGPU', total=2, reserved=1),
        ProviderInventory(resource_class='FPGA', total=1),
    )
    call = SetInventories(uuid=GPU_UUID, name='card', inventories=two)
    assert 'card: set inventory PGPU 2 (1 reserved), FPGA 1' == describe(call)


def test_a_reservation_that_ends_is_told():
    """A person may have set it; one that stays, or grows, is not told as one that ends."""
    want = below_root(provider(1, inventories=(PGPU,)))
    actual = below_root(provider(1, inventories=(replace(PGPU, reserved=1),)))
    [call] = diff(want, actual)
    assert (replace(PGPU, reserved=1),) == call.unreserved
    assert describe(call).endswith(': set inventory PGPU 1 (reserved: 1 -> 0)')
    [call] = diff(actual, want)
    assert () == call.unreserved
    assert describe(call).endswith(': set inventory PGPU 1 (1 reserved)')


def test_what_is_gone_is_deleted_only_where_that_was_asked_for():
    """A provider that somebody may still hold stays, with nothing on offer."""
    actual = wanted()
    fewer = replace(actual, providers=tuple(p for p in actual.providers if p.uuid != GPU_UUID))
    assert [] == [c for c in diff(fewer, actual) if isinstance(c, DeleteProvider)]
    assert [GPU_UUID] == [c.uuid for c in diff(fewer, actual, delete_gone=True) if isinstance(c, DeleteProvider)]


def test_an_x_at_an_end_of_a_name_is_a_letter_of_it():
    """Blanks and punctuation are taken off the ends, and nothing else."""
    assert 'CUSTOM_ACC_FN_XTS_X' == provider_names.function_class('-XTS X-')


def test_a_parent_that_is_not_there_counts_as_the_root():
    """A tree that somebody has torn still has an order."""
    torn = Provider(uuid=SLOT0, name='slot', parent_uuid=SLOT1)
    assert (torn,) == provider_hierarchy.parents_first([torn])
