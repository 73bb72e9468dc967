# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Each device is reported as available in placement or not, with the rule or the finding that is the reason."""

from dataclasses import replace

from baremetal_acc.model.finding import FindingText
from baremetal_acc.model.subject import Subject
from baremetal_acc.model.verdict import Finding, Met, Verdict
from baremetal_acc.policy.baseline import parse
from baremetal_acc.render.standing import why
from baremetal_acc.scheduling import provider_names, provider_traits, providers
from baremetal_acc.scheduling.offer_report import standing
from baremetal_acc.scheduling.schedulable import Supply, supply
from tests.unit.planning import values as v

ROOT = '11111111-aaaa-4bbb-8ccc-222222222222'
GZIP = v.function_image(name='img-gzip', function='gzip')
GPU, FPGA = v.gpu().label, v.fpga().label


def told(*lines: str, cards=None, unmet=(), catalogue=(GZIP,)) -> list[tuple[str, str, str]]:
    """Label, offer and reason of everything, under a rule."""
    findings = tuple(
        Finding(
            accelerator=a,
            label='x',
            subject=Subject.from_text(s),
            fact=FindingText(expected='2', found='1'),
            met=Met.NO,
            rule='fw',
        )
        for a, s in unmet
    )
    met = Finding(
        accelerator=v.GPU,
        label='x',
        subject=Subject.from_text('present'),
        fact=FindingText(expected='yes', found='yes'),
        met=Met.YES,
        rule='r',
    )
    verdict = Verdict(target='node-1', findings=(met, *findings))
    rules = parse('format = 1\n[[rule]]\nname = "r"\n' + '\n'.join(lines) + '\n', 'baseline.toml')
    seen = v.inventory(*(cards or (v.gpu(), v.fpga())))
    made = supply(seen, verdict, rules, v.NODE, catalogue)
    found = standing(seen, verdict, rules, v.NODE, ROOT, made)
    tree = providers.tree(seen, verdict, ROOT, made.functions, made.offers)
    assert {s.provider for s in found} <= {p.uuid for p in tree.providers}
    return [(s.label, ', '.join(f'{i.resource_class} {i.total}' for i in s.offers), why(s.why)) for s in found]


def test_what_is_offered_is_told_with_the_rule_that_says_so():
    """The device itself, and each slot by what it holds."""
    usual = 'offer = "function" of rule default'
    assert [
        (GPU, 'PGPU 1', 'offer = "device" of rule default'),
        (FPGA, '', f'its slots are offered: {usual}'),
        (f'Slot0 of {FPGA}', 'CUSTOM_ACC_FN_GZIP 1', f'it holds gzip: {usual}'),
        (f'Slot1 of {FPGA}', '', f'it is empty: {usual}'),
    ] == told('count = 0')
    region = 'offer = "region" of rule r'
    assert [
        (FPGA, '', f'its slots are offered: {region}'),
        (f'Slot0 of {FPGA}', 'FPGA 1', f'it holds gzip: {region}'),
        (f'Slot1 of {FPGA}', 'FPGA 1', f'it is empty: {region}'),
    ] == told('offer = "region"', cards=(v.fpga(),))


def test_what_another_machine_has_too_is_not_offered_and_that_is_told():
    """Neither the device nor its slots, whatever else is said of it; the traits of the node say nothing of it."""
    seen = v.inventory(v.gpu(), v.fpga(), shared=(v.fpga().primary,))
    verdict = Verdict(target='node-1', findings=())
    rules = parse('format = 1\n[[rule]]\nname = "r"\ncount = 0\n', 'baseline.toml')
    made = supply(seen, verdict, rules, v.NODE, (GZIP,))
    found = standing(seen, verdict, rules, v.NODE, ROOT, made)
    assert [
        (GPU, ['PGPU'], 'offer = "device" of rule default'),
        (FPGA, [], 'another machine of its BMC also shows it, and both would offer it'),
        (f'Slot0 of {FPGA}', [], 'its card does not meet the rules'),
        (f'Slot1 of {FPGA}', [], 'its card does not meet the rules'),
    ] == [(s.label, [i.resource_class for i in s.offers], why(s.why)) for s in found]
    assert not [
        t for t in provider_traits.node_traits(seen, verdict, made.functions, made.offers) if 'FPGA' in t or 'GZIP' in t
    ]


def test_what_is_not_met_keeps_a_device_from_being_offered_and_is_told_whole():
    """With all of its findings and their rules; of another device nothing is said."""
    assert [
        (GPU, 'PGPU 1', 'offer = "device" of rule default'),
        (FPGA, '', 'firmware A: expected 2, found 1 (rule fw); lock B: expected 2, found 1 (rule fw)'),
        (f'Slot0 of {FPGA}', '', 'its card does not meet the rules'),
        (f'Slot1 of {FPGA}', '', 'its card does not meet the rules'),
    ] == told('count = 0', unmet=((v.FPGA, 'firmware A'), (v.FPGA, 'lock B')))


def test_a_function_that_nobody_knows_is_told_by_what_the_bmc_calls_it():
    """Nobody put it there by our catalogue."""
    [_, slot, _] = told('count = 0', cards=(v.fpga(),), catalogue=())
    reason = 'it holds gzip, which no function of the catalogue certainly is: offer = "function" of rule default'
    assert (f'Slot0 of {FPGA}', '', reason) == slot


def test_what_a_rule_withholds_or_counts_is_told_by_that_rule():
    """A card that is offered whole, or not at all, has no slots to speak of."""
    assert [(FPGA, '', 'offer = "nothing" of rule r')] == told('offer = "nothing"', cards=(v.fpga(),))
    assert [(FPGA, 'FPGA 1', 'offer = "device" of rule r')] == told('offer = "device"', cards=(v.fpga(),))
    assert [(FPGA, 'FPGA 1', 'offer = "region" of rule r')] == told('offer = "region"', cards=(v.fpga(slots=()),))
    two = (v.gpu(), v.gpu(id='uuid:other'))
    counted = 'counted together with all identical devices: offer = "together" of rule r'
    assert 2 * [(GPU, 'PGPU 2', counted)] == told('offer = "together"', cards=two)
    bad = 'firmware A: expected 2, found 1 (rule fw)'
    assert [(GPU, 'PGPU 1', bad), (GPU, 'PGPU 1', counted)] == told(
        'offer = "together"', cards=two, unmet=((v.GPU, 'firmware A'),)
    )


def test_two_slots_of_one_name_are_told():
    """Nobody can say which of them is claimed."""
    card = v.fpga(slots=(v.slot(0), replace(v.slot(0), index=1)))
    assert 2 * [(f'Slot0 of {FPGA}', '', 'the BMC shows two slots with this id')] == told('count = 0', cards=(card,))[1:]


def test_a_device_of_which_no_offer_is_known_is_offered_as_usual():
    """Whoever made the supply has not seen it."""
    seen, verdict = v.inventory(v.gpu()), Verdict(target='node-1', findings=())
    rules = parse('format = 1\n[[rule]]\nname = "r"\n', 'baseline.toml')
    [found] = standing(seen, verdict, rules, v.NODE, ROOT.upper(), Supply(functions={}, offers={}))
    assert ('PGPU', provider_names.card_uuid(ROOT, v.GPU)) == (found.offers[0].resource_class, found.provider)
