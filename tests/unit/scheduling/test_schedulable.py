# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The rules say how a device can be claimed, and what placement is told follows from that."""

from dataclasses import replace

import pytest

from baremetal_acc.errors import DocumentError, UsageError
from baremetal_acc.model.accelerator import Kind, PciIds
from baremetal_acc.model.finding import FindingText
from baremetal_acc.model.image import Fit, ImageKind
from baremetal_acc.model.provider import Provider, ProviderInventory
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.model.subject import Subject
from baremetal_acc.model.verdict import Finding, Met, Verdict
from baremetal_acc.policy.baseline import parse
from baremetal_acc.policy.baseline_rules import NodeFacts, Offering
from baremetal_acc.policy.device_demands import demands
from baremetal_acc.scheduling import provider_names, provider_traits
from baremetal_acc.scheduling.provider_names import CLASSES, OWNER, TOGETHER
from baremetal_acc.scheduling.providers import tree, withdrawn
from baremetal_acc.scheduling.schedulable import Offer, able, offer, single, supply, unknown, usual
from tests.unit.planning import values as v

ROOT = '11111111-aaaa-4bbb-8ccc-222222222222'
SLOT0 = provider_names.slot_uuid(ROOT, v.FPGA, 'Slot0')
SLOT1 = provider_names.slot_uuid(ROOT, v.FPGA, 'Slot1')
CARD = provider_names.card_uuid(ROOT, v.FPGA)
GZIP = v.function_image(name='img-gzip', function='gzip')
AES = v.function_image(name='img-aes', function='aes', uuid='99999999-2222-3333-4444-555555555555')


def rules(*lines: str):
    return parse('format = 1\n[[rule]]\nname = "r"\n' + '\n'.join(lines) + '\n', 'baseline.toml')


def verdict(*unmet):
    found = [
        Finding(
            accelerator=a,
            label='x',
            subject=Subject.from_text('s'),
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
    return Verdict(target='node-1', findings=(good, *found))


def published(*lines: str, cards=None, unmet=(), node: NodeFacts = v.NODE, catalogue=(GZIP, AES)) -> dict[str, Provider]:
    """What placement is told of the FPGA with two slots, the first with gzip, under a rule."""
    seen = v.inventory(*(cards or (v.fpga(),)))
    made = supply(seen, verdict(*unmet), rules(*lines), node, catalogue)
    return {p.uuid: p for p in tree(seen, verdict(*unmet), ROOT, made.functions, made.offers).providers}


def inventories(of: dict[str, Provider]) -> dict[str, dict[str, int]]:
    return {uuid: {i.resource_class: i.total for i in p.inventories} for uuid, p in of.items()}


def gpus(count: int, **changes):
    return tuple(v.gpu(id=AcceleratorId(f'uuid:gpu-{n}'), **changes) for n in range(count))


# ------------------------------------------------------------------------------------------------------------- the rules


def test_without_a_rule_an_fpga_is_offered_by_its_functions_and_all_else_whole():
    """So it was before there were rules for it."""
    plain = rules('count = 0')
    cards = (v.fpga(), v.gpu(), v.fpga(slots=()))
    found = [offer(a, demands(plain, a, v.NODE), v.NODE, (GZIP,), {}) for a in cards]
    assert [Offer(how=how) for how in (Offering.FUNCTION, Offering.DEVICE, Offering.DEVICE)] == found
    assert Offering.FUNCTION is usual(v.fpga())
    assert inventories(published('count = 0')) == {CARD: {}, SLOT0: {'CUSTOM_ACC_FN_GZIP': 1}, SLOT1: {}}


@pytest.mark.parametrize(
    ('lines', 'expected'),
    [
        (['count = 0'], {'gzip', 'aes'}),
        (['offer = "function"'], {'gzip', 'aes'}),
        (['offer = "region"', 'takes = ["aes", "unheard-of"]'], {'aes'}),
        (['takes = ["gzip"]', 'functions = { "*" = "aes" }'], {'gzip'}),
        (['offer = "device"'], None),
        (['offer = "nothing"'], None),
    ],
)
def test_what_slots_take_is_known_where_they_are_claimed_one_by_one(lines, expected):
    """However that is; a card that is offered whole, or not at all, has none that a pool could count."""
    found = able(v.inventory(v.fpga(), v.gpu()), rules(*lines), v.NODE, iter((GZIP, AES)))
    assert found == ({} if expected is None else {(v.FPGA, s): frozenset(expected) for s in ('Slot0', 'Slot1')})


@pytest.mark.parametrize('lines', [['count = 0'], ['offer = "function"'], ['functions = { "*" = "aes" }']])
def test_a_slot_that_is_offered_as_its_function_has_it_whatever_the_rules_want_next(lines):
    """By what the BMC says and the catalogue knows, as its tenant has it in hands; an empty slot has none."""
    assert {(v.FPGA, 'Slot0'): 'gzip'} == single(v.inventory(v.fpga(), v.gpu()), rules(*lines), v.NODE, iter((GZIP, AES)))
    assert {} == single(v.inventory(v.fpga()), rules(*lines), v.NODE, (AES,)), 'what nobody knows promises nothing'


@pytest.mark.parametrize('how', ['region', 'device', 'nothing'])
def test_what_is_not_claimed_as_its_function_is_bound_to_none(how):
    """Its next tenant chooses, or nobody claims it."""
    assert {} == single(v.inventory(v.fpga()), rules(f'offer = "{how}"'), v.NODE, (GZIP, AES))


@pytest.mark.parametrize(
    ('lines', 'what'),
    [
        (['offer = "slot"'], "offer: 'slot'"),
        (['offer_class = "VCPU"'], "offer_class: 'VCPU' is not a resource class that can be published"),
        (['offer_class = "CUSTOM_gold"'], "'CUSTOM_gold' is not a resource class"),
        (['offer_class = "FPGA_X"'], "'FPGA_X' is not a resource class"),
        (['offer_class = "CUSTOM_ACC_FN_GZIP"'], 'is the resource class of the function of that name'),
        (
            ['offer = "function"', 'offer_class = "FPGA"'],
            'has no effect with offer = "function": the class is that of the function',
        ),
        (['offer = "nothing"', 'offer_class = "FPGA"'], 'has no effect with offer = "nothing": nothing is published'),
        (['takes = "gzip"'], 'takes: list of texts expected'),
    ],
)
def test_what_a_rule_cannot_mean_is_refused_with_its_line(lines, what):
    """A resource class that others count would give a tenant's flavor a card for a processor."""
    with pytest.raises(DocumentError) as failed:
        rules(*lines)
    assert what in str(failed.value)
    assert 'baseline.toml' in str(failed.value)


def test_what_is_wrong_with_a_class_is_said_with_what_to_do():
    """Word by word: file, line, key, what, and the way out."""

    def said(*lines: str) -> str:
        with pytest.raises(DocumentError) as failed:
            rules(*lines)
        return str(failed.value)

    assert (
        "baseline.toml, line 4: rule[0].offer_class: 'VCPU' is not a resource class that can be published (FPGA, PGPU, "
        'or CUSTOM_ followed by capital letters, digits and underscores)'
    ) == said('offer_class = "VCPU"')
    assert (
        "baseline.toml, line 4: rule[0].offer_class: 'CUSTOM_ACC_FN_X' is the resource class of the function of that name "
        '(choose another name)'
    ) == said('offer_class = "CUSTOM_ACC_FN_X"')
    assert (
        'baseline.toml, line 5: rule[0].offer_class: has no effect with offer = "nothing": nothing is published (remove it)'
    ) == said('offer = "nothing"', 'offer_class = "FPGA"')


def test_each_key_is_decided_by_the_first_rule_that_has_it():
    """And told in its name."""
    text = 'format = 1\n' + '\n'.join(
        f'[[rule]]\nname = "{key}"\n{line}'
        for key, line in (('a', 'offer = "region"'), ('b', 'offer = "device"\noffer_class = "FPGA"'), ('c', 'takes = ["aes"]'))
    )
    found = demands(parse(text, 'baseline.toml'), v.fpga(), v.NODE)
    assert (Offering.REGION, 'a') == (found.offer, found.offer_rule)
    assert ('FPGA', 'b') == (found.offer_class, found.offer_class_rule)
    assert (('aes',), 'c') == (found.takes, found.takes_rule)
    nothing = demands(rules(), v.fpga(), v.NODE)
    assert (None, 'default', None, 'default', None, 'default') == (
        nothing.offer, nothing.offer_rule, nothing.offer_class, nothing.offer_class_rule, nothing.takes, nothing.takes_rule,
    )  # fmt: skip


def test_the_class_of_the_machine_is_no_class_of_a_card():
    """A flavor for machines would get the card: nova calls CUSTOM_BARE_METAL_1 what Ironic calls bare-metal.1."""
    with pytest.raises(UsageError) as failed:
        published('offer_class = "CUSTOM_BARE_METAL_1"', node=replace(v.NODE, resource_class='bare-metal.1'))
    assert (
        f'offer_class of rule r for {v.fpga().label}: CUSTOM_BARE_METAL_1 is the resource class of the node itself: a flavor '
        'for nodes would claim the card (choose another resource class)'
    ) == str(failed.value)
    assert {'CUSTOM_BARE_METAL_1': 1} == inventories(published('offer = "device"', 'offer_class = "CUSTOM_BARE_METAL_1"'))[CARD]


# -------------------------------------------------------------------------------------------------------------- a region


def test_a_region_is_offered_with_its_function_and_without_one():
    """Its class is generic; the empty slot can be claimed, too."""
    assert {CARD: {}, SLOT0: {'FPGA': 1}, SLOT1: {'FPGA': 1}} == inventories(published('offer = "region"'))
    assert {'CUSTOM_REGION': 1} == inventories(published('offer = "region"', 'offer_class = "CUSTOM_REGION"'))[SLOT1]


def test_traits_say_which_function_is_in_play_and_which_ones_a_region_can_be_given():
    """Beside those of its card, and only of the region that it is true of."""
    found = published('offer = "region"')
    card = found[CARD].traits
    can = {'CUSTOM_ACC_CAN_GZIP', 'CUSTOM_ACC_CAN_AES', 'CUSTOM_PROGRAMMABLE'}
    assert {'CUSTOM_ACC_FN_GZIP'} | can == found[SLOT0].traits - card
    assert can == found[SLOT1].traits - card
    assert not {t for t in card if 'CAN' in t}


def test_a_rule_narrows_what_a_region_can_be_given():
    """The catalogue may hold functions that are not for tenants."""
    found = published('offer = "region"', 'takes = ["aes", "unheard-of"]')
    assert {'CUSTOM_ACC_CAN_AES', 'CUSTOM_PROGRAMMABLE'} == found[SLOT1].traits - found[CARD].traits


@pytest.mark.parametrize(
    'catalogue',
    [
        (replace(AES, denied='broken'),),
        (AES, replace(AES, name='twin')),
        (AES, replace(AES, name='denied', denied='broken')),
        (replace(AES, component='Slot[7-9]'),),
        (replace(AES, kind=ImageKind.FIRMWARE),),
        (),
    ],
    ids=['denied', 'ambiguous', 'same version denied', 'another slot', 'firmware', 'none'],
)
def test_what_no_plan_would_write_is_not_promised(catalogue):
    """Else a tenant is sent to a machine whose deployment is refused."""
    found = published('offer = "region"', catalogue=catalogue)
    assert set() == found[SLOT1].traits - found[CARD].traits


def test_an_id_of_the_slots_image_is_an_id():
    """One of the ids that an image is for is enough to be certain, that of the slot's own SoftwareInventory, too."""
    by_model, by_slot = Fit(model=v.fpga().model), Fit(software_id='0x77')
    empty = v.slot(1, None, None)
    card = v.fpga(slots=(v.slot(0), replace(empty, item=replace(empty.item, software_id='0x77'))))
    promised = {}
    for fits in ((by_model,), (by_slot,), (by_model, by_slot)):
        found = published('offer = "region"', cards=(card,), catalogue=(replace(AES, fits=fits),))
        promised[fits] = found[SLOT1].traits - found[CARD].traits
    can = {'CUSTOM_ACC_CAN_AES', 'CUSTOM_PROGRAMMABLE'}
    assert [set(), can, can] == list(promised.values())


def test_a_slot_that_cannot_be_written_promises_nothing():
    """The BMC shows nothing that stands for its image."""
    found = published('offer = "region"', cards=(v.fpga(slots=(replace(v.slot(0), item=None),)),))
    assert {'CUSTOM_ACC_FN_GZIP'} >= found[SLOT0].traits - found[CARD].traits


def test_a_region_of_which_nobody_says_what_it_takes_promises_nothing():
    """It is offered for what it holds, if that is certain."""
    seen = v.inventory(v.fpga())
    made = {v.FPGA: Offer(how=Offering.REGION, known=frozenset({'Slot1'}))}
    found = {p.uuid: p for p in tree(seen, verdict(), ROOT, {}, made).providers}
    assert {CARD: {}, SLOT0: {}, SLOT1: {'FPGA': 1}} == inventories(found)
    assert found[CARD].traits == found[SLOT1].traits


def test_a_function_that_nobody_knows_is_handed_to_nobody():
    """Some tenant may have left it there."""
    strange = replace(v.slot(0), function=replace(v.slot(0).function, name='miner', uuid=None, version='9'))
    found = published('offer = "region"', cards=(v.fpga(slots=(strange, v.slot(1))),))
    assert {CARD: {}, SLOT0: {}, SLOT1: {'FPGA': 1}} == inventories(found)


def test_a_region_of_a_card_that_does_not_hold_up_is_not_offered():
    """Neither of its slots is; the traits stay."""
    found = published('offer = "region"', unmet=(v.FPGA,))
    assert {CARD: {}, SLOT0: {}, SLOT1: {}} == inventories(found)


def test_a_card_without_slots_is_one_region():
    """It is claimed whole."""
    assert {CARD: {'FPGA': 1}} == inventories(published('offer = "region"', cards=(v.fpga(slots=()),)))


def test_the_node_has_the_traits_of_its_regions():
    """Nova hands those that a flavor requires to Ironic, which refuses the deploy unless the node has them."""
    seen = v.inventory(v.fpga())
    made = supply(seen, verdict(), rules('offer = "region"'), v.NODE, (GZIP, AES))
    traits = provider_traits.node_traits(seen, verdict(), made.functions, made.offers)
    own = {'CUSTOM_ACC_FN_GZIP', 'CUSTOM_ACC_CAN_GZIP', 'CUSTOM_ACC_CAN_AES', 'CUSTOM_ACC_PROGRAM', 'CUSTOM_PROGRAMMABLE'}
    assert own == traits - provider_traits.device_traits(v.fpga())
    assert provider_traits.device_traits(v.fpga()) < traits
    bare = supply(seen, verdict(), rules('offer = "region"', 'takes = []'), v.NODE, (GZIP, AES))
    kept = provider_traits.node_traits(seen, verdict(), bare.functions, bare.offers)
    assert {'CUSTOM_ACC_FN_GZIP'} == kept - provider_traits.device_traits(v.fpga())


def test_functions_that_a_region_could_be_given_may_not_share_a_name():
    """Nobody could tell which one a flavor means."""
    with pytest.raises(UsageError, match=r"'a-b' and 'a_b'.*CUSTOM_ACC_FN_A_B"):
        published('offer = "region"', catalogue=(replace(AES, function='a-b'), replace(GZIP, function='a_b')))


# ------------------------------------------------------------------------------------------------------ whole and together


def test_a_whole_card_offers_none_of_its_slots():
    """Else it would be promised twice."""
    assert {CARD: {'FPGA': 1}, SLOT0: {}, SLOT1: {}} == inventories(published('offer = "device"'))


def test_what_is_not_to_be_offered_is_not():
    """Its providers stay, with their traits."""
    assert {CARD: {}, SLOT0: {}, SLOT1: {}} == inventories(published('offer = "nothing"'))


def test_devices_of_one_make_are_one_number():
    """One provider, below the root, for eight; no one of them has one of its own."""
    (found,) = published('offer = "together"', cards=gpus(8)).values()
    assert (ProviderInventory(resource_class='PGPU', total=8),) == found.inventories
    assert (ROOT, f'{ROOT}_ACC_{found.uuid.replace("-", "")[:12]}') == (found.parent_uuid, found.name)
    assert provider_traits.device_traits(v.gpu()) | {OWNER, TOGETHER} == found.traits


def test_a_device_that_does_not_hold_up_is_not_counted():
    """The others are; none left is no inventory."""
    cards = gpus(3)
    (found,) = published('offer = "together"', cards=cards, unmet=(cards[0].id,)).values()
    assert (ProviderInventory(resource_class='PGPU', total=2),) == found.inventories
    (none,) = published('offer = "together"', cards=cards, unmet=tuple(c.id for c in cards)).values()
    assert () == none.inventories
    assert (found.uuid, found.name, found.traits) == (none.uuid, none.name, none.traits)


def test_devices_of_two_makes_are_two_numbers():
    """A flavor asks for one of them by its model's trait."""
    cards = (*gpus(2), v.gpu(id=AcceleratorId('uuid:other'), model='A100'))
    found = published('offer = "together"', cards=cards)
    assert [{'PGPU': 1}, {'PGPU': 2}] == sorted(inventories(found).values(), key=str)
    assert 2 == len(found)


def test_makes_with_names_that_no_trait_can_say_are_two_numbers():
    """Of other letters than Latin ones; one and the same name, in whatever form Unicode has it, is one."""
    names = (
        '加速卡甲',
        '加速卡乙',
        'Beschleunigerkärtchen',
        'Beschleunigerk\N{LATIN SMALL LETTER A}\N{COMBINING DIAERESIS}rtchen',
    )
    cards = tuple(v.gpu(id=AcceleratorId(f'uuid:{n}'), model=name) for n, name in enumerate(names))
    found = published('offer = "together"', cards=cards)
    assert [{'PGPU': 1}, {'PGPU': 1}, {'PGPU': 2}] == sorted(inventories(found).values(), key=str)


def test_a_make_that_a_trait_can_say_has_the_provider_that_it_always_had():
    """Somebody may hold some of it."""
    made = provider_names.together_uuid(ROOT, v.gpu(vendor='NVIDIA', model='H100 80GB HBM3'))
    for model in ('h100-80gb-hbm3', 'H100™ 80GB HBM3®'):
        assert made == provider_names.together_uuid(ROOT, v.gpu(vendor='nvidia', model=model))
    assert 'fd7a92bf-f1ba-50c0-b244-c41240b2001d' == made


def test_what_does_not_hold_for_each_is_no_trait_of_all():
    """The flavor that asks for it could get the other one."""
    cards = tuple(v.gpu(id=AcceleratorId(f'uuid:gpu-{n}'), traits=frozenset({'CUSTOM_ALL', f'CUSTOM_{n}'})) for n in range(2))
    (found,) = published('offer = "together"', cards=cards).values()
    assert 'CUSTOM_ALL' in found.traits
    assert not {'CUSTOM_0', 'CUSTOM_1'} & found.traits


def test_the_number_stays_the_same_provider_whatever_the_bmc_shows_besides():
    """PCI ids are seen only while the host runs, and cards come and go."""
    one = provider_names.together_uuid(ROOT, v.gpu())
    assert one == provider_names.together_uuid(ROOT, v.gpu(pci=PciIds(), id=AcceleratorId('uuid:next')))
    others = [v.gpu(kind=Kind.ASIC), v.gpu(vendor='AMD'), v.gpu(model='H200'), v.gpu(model=None)]
    assert 5 == len({one, *(provider_names.together_uuid(ROOT, other) for other in others)})
    bare = v.gpu(model=None, pci=PciIds(vendor_id='0x10de', device_id='0x2331'))
    assert provider_names.together_uuid(ROOT, v.gpu(model=None)) != provider_names.together_uuid(ROOT, bare)
    assert 'f75af322-afab-55f6-8f9e-1c51412b2a71' == one
    assert '915e9448-b2d4-57b0-a56f-10c5d42c33e1' == provider_names.together_uuid(ROOT, v.gpu(vendor=None))


def test_a_card_with_slots_is_like_no_other_one():
    """Its functions cannot be counted together: the rule and the card are named."""
    with pytest.raises(UsageError) as failed:
        published('offer = "together"')
    assert (
        f'offer = "together" of rule r for {v.fpga().label}: a device with slots cannot be offered together with others '
        '(offer it as "function", "region" or "device")'
    ) == str(failed.value)


def test_to_touch_one_device_withdraws_the_number_whole():
    """Which of them a tenant would get, nobody can say; nor whether the rules were the same when it was published."""
    cards = (*gpus(2), v.fpga())
    made = {a.id: Offer(how=Offering.TOGETHER) for a in cards[:2]}
    whole = tree(v.inventory(*cards), verdict(), ROOT, {(v.FPGA, 'Slot0'): 'gzip'}, made)
    several = provider_names.together_uuid(ROOT, cards[0])
    after = {
        p.uuid: p.inventories for p in withdrawn(whole, frozenset({provider_names.card_uuid(ROOT, cards[1].id)})).providers
    }
    assert () == after[several]
    assert after[SLOT0]
    assert whole == withdrawn(whole, frozenset())


def test_every_kind_can_be_counted_together():
    """Each as its own class."""
    for kind, resource_class in CLASSES.items():
        (found,) = published('offer = "together"', cards=gpus(2, kind=kind)).values()
        assert (ProviderInventory(resource_class=resource_class, total=2),) == found.inventories


def test_names_of_functions_that_no_image_is_are_told():
    """A name that is misspelt promises nothing; its rule is told with it. What a plan demands is refused elsewhere."""
    baseline = parse(
        'format = 1\n[[rule]]\nname = "a"\ntakes = ["gzip", "zgip"]\n'
        '[[rule]]\nname = "b"\nfunctions = { "*" = "else" }\n[[rule]]\nname = "c"\ntakes = ["sea", "GZIP"]\n',
        'baseline.toml',
    )
    firmware = replace(GZIP, name='other', kind=ImageKind.FIRMWARE, function='sea')
    assert (('a', 'zgip'), ('c', 'sea'), ('c', 'GZIP')) == unknown(baseline, (GZIP, AES, firmware))
    assert () == unknown(parse('format = 1\n', 'baseline.toml'), ())
