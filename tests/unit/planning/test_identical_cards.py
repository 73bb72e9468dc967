# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Rules for one slot, serial number or address tell identical cards of a machine from each other."""

from dataclasses import replace

import pytest

from baremetal_acc.errors import DocumentError
from baremetal_acc.model.accelerator import Kind, PciIds
from baremetal_acc.model.action import Flash
from baremetal_acc.model.custody import CustodyDemand
from baremetal_acc.model.lock import WritePath
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.planning.plan import Part, plan
from baremetal_acc.policy import baseline as rules_of
from baremetal_acc.policy import baseline_rules
from baremetal_acc.policy.baseline_rules import Baseline, Hideable, Match, Rule
from baremetal_acc.policy.device_demands import Undecided, demands
from tests.unit.planning import refusal_words
from tests.unit.planning import values as v
from tests.unit.planning.finding_words import verify

IDS = {'vendor_id': '0x10de', 'device_id': '0x2330'}
FIRST, SECOND = AcceleratorId('uuid:gpu-0'), AcceleratorId('uuid:gpu-1')
OTHER = '3.0'


def card(number: int, version: str = v.OLD, **changes):
    identity = AcceleratorId(f'uuid:gpu-{number}')
    place = v.ref(f'Systems/1/Processors/GPU_{number}')
    values = {
        'id': identity,
        'primary': place,
        'refs': (place,),
        'location': f'Slot {number}',
        'serial': f'SN-{number}A',
        'pci': PciIds(**IDS, address=f'0000:{0x17 + number:02x}:00.0'),
        'firmware': (v.component(f'GPU_{number}', version),),
        'locks': (v.reading(accelerator=identity, place=f'Chassis/RoT_{number}'),),
    }
    return v.gpu(**(values | changes))


def rule(name: str, version: str | None = None, *, custody: CustodyDemand = CustodyDemand.REPORTED, **match) -> Rule:
    firmware = None if version is None else (('GPU_*', version),)
    return Rule(name=name, match=Match(**match), firmware=firmware, custody=custody)


ALL = Rule(name='all', match=Match(), block=v.HOST_DEVICE)

TWO = Baseline(rules=(rule('first', v.NEW, location='slot 0'), rule('second', OTHER, location='Slot 1'), ALL))

CATALOGUE = (v.image('new', restore='old'), v.image('other', version=OTHER, restore='old'), v.image('old', version=v.OLD))


def parse(match: str):
    return rules_of.parse(f'format = 1\n[[rule]]\n[rule.match]\n{match}\n', 'b').rules[0].match


@pytest.mark.parametrize(
    ('asked', 'expected'),
    [
        ('location = "Slot 0"', True),
        ('location = "SLOT ?"', True),
        ('location = "Slot 1"', False),
        ('location = "Slot"', False),
        ('serial = "sn-0a"', True),
        ('serial = "SN-0*"', True),
        ('serial = "SN-0"', False),
        ('pci_address = "0000:17:00.0"', True),
        ('pci_address = "17:00.0"', True),
        ('pci_address = "00000000:17:0.0"', True),
        ('pci_address = "17:00.*"', True),
        ('pci_address = "0001:17:00.0"', False),
        ('pci_address = "17:00.1"', False),
        ('location = "Slot 0"\nserial = "SN-0A"\npci_address = "17:00.0"\nmodel = "H*"', True),
        ('location = "Slot 0"\nserial = "SN-1A"', False),
    ],
)
def test_a_card_is_matched_by_its_place_serial_number_and_address(asked, expected):
    """Shell patterns, case ignored; of an address the normal form counts; all that is named must hold."""
    assert expected is parse(asked).device(card(0), v.NODE)


def test_a_label_with_brackets_is_matched_by_itself():
    """As the inventory shows it, and as the pattern that it is."""
    match = parse('location = "GPU[3]"')
    assert [True, True, False] == [match.device(card(0, location=place), v.NODE) for place in ('gpu[3]', 'GPU3', 'GPU[4]')]


@pytest.mark.parametrize(
    ('asked', 'says'),
    [
        ('location = 3', 'rule[0].match.location: text expected'),
        ('location = ""', 'rule[0].match.location: text expected'),
        ('serial = ["a", "b"]', 'rule[0].match.serial: text expected'),
        ('pci_address = 23', 'rule[0].match.pci_address: text expected'),
        *(
            (
                f'pci_address = "{text}"',
                f"rule[0].match.pci_address: '{text}' is neither a PCI address nor a pattern that can match one",
            )
            for text in ('17', '0x10de:0x2330', '17:00', '17:20.0', '17:3?.*', '1:17:00*:0', '*', '17:00.???', '12345:17:00.*')
        ),
        ('slot = "Slot 0"', 'rule[0].match.slot: no such key (write location)'),
        ('serial_number = "1"', 'rule[0].match.serial_number: no such key (write serial)'),
        ('address = "17:00.0"', 'rule[0].match.address: no such key (write pci_address)'),
        ('locaton = "Slot 0"', 'rule[0].match.locaton: no such key (did you mean location?)'),
    ],
)
def test_a_value_that_could_match_nothing_is_an_error(asked, says):
    """File, line, rule, key, and what to write."""
    with pytest.raises(DocumentError) as caught:
        parse(asked)
    assert str(caught.value).startswith(f'b, line 4: {says}')


def test_two_identical_cards_in_two_slots_get_two_images():
    """Each the one that the rule for its slot demands."""
    made = plan(v.inventory(card(0), card(1)), TWO, v.NODE, CATALOGUE, parts=frozenset({Part.FIRMWARE}))
    flashes = {a.accelerator: a.image for a in made.actions if isinstance(a, Flash)}
    assert () == made.refusals
    assert {FIRST: 'new', SECOND: 'other'} == flashes


def judged(*cards, rules: Baseline = TWO):
    return verify(v.inventory(*cards), rules, v.NODE, (), (), lifecycle=v.LIFECYCLE)


def unmet(*cards, rules: Baseline = TWO) -> list[tuple[str, str, str, str]]:
    found = judged(*cards, rules=rules).unmet
    return [(str(f.subject), f.fact.expected, f.fact.found, f.rule) for f in found if not str(f.subject).startswith('lock ')]


def test_cards_that_hold_the_image_of_each_other_are_not_met():
    """Both versions are there, and both are wrong; each is in its place otherwise."""
    assert [] == unmet(card(0, v.NEW), card(1, OTHER))
    assert [
        ('firmware GPU_0', v.NEW, OTHER, 'first'),
        ('firmware GPU_1', OTHER, v.NEW, 'second'),
    ] == unmet(card(0, OTHER), card(1, v.NEW))


def test_cards_that_have_changed_their_slots_go_by_the_new_ones():
    """The card does not take its rule along where the rule is for the slot; where it is for the serial number it does."""
    moved = (card(0, v.NEW, location='Slot 1'), card(1, OTHER, location='Slot 0'))
    assert ['firmware GPU_0', 'firmware GPU_1'] == [subject for subject, *_ in unmet(*moved)]
    by_serial = Baseline(rules=(rule('first', v.NEW, serial='SN-0A'), rule('second', OTHER, serial='SN-1A'), ALL))
    assert [] == unmet(*moved, rules=by_serial)


def test_rules_for_a_slot_and_for_a_model_combine_key_by_key():
    """The first that matches and has the key decides, whichever it is by."""
    narrow = Rule(name='slot', match=Match(location='Slot 0'), firmware=(('*', OTHER),), security_floor=2)
    wide = Rule(name='model', match=Match(model='H100'), firmware=(('*', v.NEW),), security_floor=1, block=v.HOST_DEVICE)
    found = [demands(Baseline(rules=r), card(n), v.NODE) for r in ((narrow, wide), (wide, narrow)) for n in (0, 1)]
    assert ['slot', 'model', 'model', 'model'] == [f.firmware_rule for f in found]
    assert [2, 1, 1, 1] == [f.security_floor for f in found]
    assert ['model'] * 4 == [f.block_rule for f in found]


HIDDEN = [
    ({'location': None}, Match(location='Slot 0'), (Hideable.LOCATION,)),
    ({'serial': None}, Match(serial='SN-*'), (Hideable.SERIAL,)),
    ({'pci': PciIds(**IDS)}, Match(pci_address='0000:17:00.0', pci='0x10de:*'), (Hideable.PCI_ADDRESS,)),
    ({'serial': None, 'location': None}, Match(serial='*', location='*', model='H*'), (Hideable.LOCATION, Hideable.SERIAL)),
    ({'location': None}, Match(location='*', model='B*'), ()),
    ({'location': None}, Match(location='*', serial='other'), ()),
    ({'location': None}, Match(location='*', kind=Kind.FPGA), ()),
]


@pytest.mark.parametrize(('shows', 'match', 'expected'), HIDDEN)
def test_a_card_that_hides_what_a_rule_asks_for_is_refused_and_not_met(shows, match, expected):
    """Whatever later rules say of its model; unless what it does show is none of the rule."""
    rules = Baseline(
        rules=(Rule(name='narrow', match=match, firmware=(('GPU_*', OTHER),)), rule('wide', v.OLD, model='H100'), ALL)
    )
    one = card(0, **shows)
    assert (tuple([Undecided(rule='narrow', hidden=expected)] if expected else [])) == demands(rules, one, v.NODE).undecided
    words = ' and the '.join(expected)
    text = f'the BMC does not show the {words} that the rule matches on, so the rule may apply to this device'
    refused = refusal_words.refused(plan(v.inventory(one, card(1)), rules, v.NODE, CATALOGUE, parts=frozenset({Part.FIRMWARE})))
    assert ([(FIRST, 'rule narrow', text)] if expected else []) == [
        (r.accelerator, r.subject, r.reason) for r in refused if r.subject == 'rule narrow'
    ]
    told = [f for f in unmet(one, card(1, v.OLD), rules=rules) if f[0] == 'rule narrow']
    assert (
        [('rule narrow', f'the {words} that the rule matches on', 'not shown by the BMC', 'narrow')] if expected else []
    ) == told


def test_a_rule_that_was_decided_before_asks_a_hidden_card_nothing():
    """Key by key: whichever rule it is, it would have decided nothing."""
    rules = Baseline(rules=(rule('wide', v.NEW, model='H100'), rule('narrow', OTHER, location='Slot 0'), ALL))
    assert () == demands(rules, card(0, location=None), v.NODE).undecided


def test_what_a_hidden_card_has_to_block_and_its_floor_are_no_less_than_any_rule_says():
    """It may be the card of the stricter rule."""
    strict = Rule(name='strict', match=Match(location='Slot 0'), block=v.ALL_PATHS, security_floor=7)
    lax = Rule(name='lax', match=Match(), block=frozenset({WritePath.HOST_DEVICE}), security_floor=1)
    rules = Baseline(rules=(strict, lax))
    hidden = demands(rules, card(0, location=None), v.NODE)
    assert (v.ALL_PATHS, 1, 7) == (hidden.block, hidden.security_floor, hidden.highest_floor)
    shown = demands(rules, card(1), v.NODE)
    assert (v.HOST_DEVICE, 1, 1) == (shown.block, shown.security_floor, shown.highest_floor)
    after = demands(Baseline(rules=(lax, strict)), card(0, location=None), v.NODE)
    assert (v.HOST_DEVICE, 1) == (after.block, after.highest_floor)


WHY = ': the BMC does not show every property that the rule matches on'


@pytest.mark.parametrize('count', [0, 1, 2])
def test_a_count_does_not_hold_while_another_card_may_be_meant(count):
    """One card matches, and one hides its place: whatever number is asked for, nobody can tell."""
    rules = Baseline(rules=(Rule(name='counted', match=Match(location='Slot *'), count=count), ALL))
    refused = refusal_words.refused(
        plan(v.inventory(card(0), card(1, location=None)), rules, v.NODE, (), parts=frozenset({Part.LOCK}))
    )
    assert f'expected {count} matching device{"" if count == 1 else "s"}, found 1 to 2{WHY}' in [r.reason for r in refused]
    found = unmet(card(0), card(1, location=None), rules=rules)
    assert [('present', f'{count} device{"" if count == 1 else "s"}', f'1 to 2 devices{WHY}', 'counted')] == found


def left_out(*cards, rules: Baseline) -> list[str]:
    """What the plan notes, and the verdict tells without being worse for it."""
    notes = refusal_words.notes(plan(v.inventory(*cards), rules, v.NODE, CATALOGUE, parts=frozenset({Part.LOCK})).notes)
    found = [f'{n.label}: {n.text}' for n in notes if n.text.startswith('no rule sets ')]
    told = [f for f in judged(*cards, rules=rules).findings if f.fact.found.startswith('no rule sets ')]
    assert sorted(found) == sorted(f'{f.label}: {f.fact.found}' for f in told)
    assert all(f.met.value == 'yes' and str(f.subject) == f'rule {f.rule}' for f in told)
    return found


def test_an_identical_card_in_a_slot_that_no_rule_names_is_told():
    """What the rules for the other slots demand, and nothing demands of it; by the name of each rule."""
    text = 'H100 GPU_2: no rule sets firmware for this card, but rule {} does for an identical card with another location'
    assert [text.format('first'), text.format('second')] == left_out(card(0), card(1), card(2), rules=TWO)
    wide = Baseline(rules=(*TWO.rules, rule('rest', v.OLD, model='H100')))
    assert [] == left_out(card(0), card(1), card(2), rules=wide)
    assert [] == left_out(card(0), card(1), card(2, model='A100'), rules=TWO)
    assert [] == left_out(card(2), rules=TWO)


def test_a_card_that_the_default_locks_as_much_is_not_told():
    """On a tenant's machine every path of the host is closed where no rule says anything; on ours none is."""
    rules = Baseline(rules=(Rule(name='one', match=Match(location='Slot 0'), block=v.HOST_DEVICE),))
    assert [] == left_out(card(0), card(1), rules=rules)
    ours = replace(v.NODE, exposure=baseline_rules.Exposure.SERVICE)
    notes = refusal_words.notes(plan(v.inventory(card(0), card(1)), rules, ours, (), parts=frozenset({Part.LOCK})).notes)
    assert ['no rule sets block for this card, but rule one does for an identical card with another location'] == [
        n.text for n in notes if n.text.startswith('no rule sets ')
    ]
