# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What a tenant may have done: functions, where a rule says so; never firmware, never a lock for its own sake."""

from dataclasses import replace

import pytest

from baremetal_acc.errors import DocumentError
from baremetal_acc.model.action import Engage, Flash, Program, Publish, Release, Reset, ResetPurpose, Withdraw
from baremetal_acc.model.lock import ResetKind, Scope, WritePath
from baremetal_acc.model.plan import Plan
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.planning.plan import Part, plan
from baremetal_acc.planning.tenant_writes import objections
from baremetal_acc.policy import baseline as rules
from baremetal_acc.policy.baseline_rules import Baseline, Match, Rule
from baremetal_acc.policy.device_demands import demands
from tests.unit.planning import values as v

LABEL, GPU_LABEL = v.fpga().label, v.gpu().label


def program(device: AcceleratorId = v.FPGA) -> Program:
    return Program(
        accelerator=device, slot='Slot0', ref=v.ref('Slot0'), image='gzip-2', function='gzip', version=v.NEW, expects=v.OLD
    )


def release(device: AcceleratorId = v.FPGA) -> Release:
    return Release(accelerator=device, mechanism='fpga', ref=v.ref('Processors/FPGA1'), field='Closed', expects='true')


def flash() -> Flash:
    return Flash(
        accelerator=v.GPU, component='GPU_0', ref=v.ref('x'), image='gpu-new', version=v.NEW, expects=v.OLD, restore=None
    )


def why(*actions, tenants_program: bool | None = True, **changes) -> tuple[str, ...]:
    allowed = Baseline(rules=(Rule(name='theirs', match=Match(**changes), tenants_program=tenants_program),))
    return objections(Plan(target='node-1', actions=actions), v.inventory(v.gpu(), v.fpga()), allowed, v.NODE)


def test_a_function_goes_where_a_rule_lets_it():
    """With what belongs to it: the lock of that card is opened by the same job, and closed again."""
    engage = Engage(
        accelerator=v.FPGA, mechanism='fpga', ref=v.ref('x'), field='Closed', blocks=v.HOST_DEVICE, needs=ResetKind.NONE
    )
    hold = Reset(system=v.SYSTEM, purpose=ResetPurpose.HOLD, kind=ResetKind.NONE, why=('x',))
    assert () == why(Withdraw(accelerators=(v.FPGA,)), release(), program(), engage, hold, Publish())


@pytest.mark.parametrize('said', [False, None])
def test_a_function_goes_nowhere_without_such_a_rule(said):
    """Neither where a rule forbids it nor where none says anything. The rule that decided is named."""
    rule = 'theirs' if said is False else 'default'
    assert (f'{LABEL}: tenants may not program it (tenants_program, rule {rule})',) == why(program(), tenants_program=said)


def test_a_tenant_gets_no_function_but_those_that_slots_can_be_given():
    """What the rules offer tenants is all that they may have, whichever way they ask for it. Without such a rule all fit."""

    def said(takes: tuple[str, ...] | None) -> tuple[str, ...]:
        rule = Rule(name='theirs', match=Match(), tenants_program=True)
        narrow = Rule(name='narrow', match=Match(), takes=takes)
        made = Plan(target='node-1', actions=(program(),))
        return objections(made, v.inventory(v.gpu(), v.fpga()), Baseline(rules=(rule, narrow)), v.NODE)

    assert () == said(None)
    assert () == said(('aes', 'gzip'))
    expected = (f'{LABEL}: tenants may not program gzip into it (takes, rule narrow)',)
    assert expected == said(('aes',))
    assert expected == said(())
    assert expected == said(('GZIP',))


def test_a_rule_for_other_cards_lets_nothing_in_here():
    """And what is said once of one card is said once."""
    [said] = why(program(), program(), kind=v.gpu().kind)
    assert 'rule default' in said


def test_a_rule_that_cannot_be_decided_lets_nothing_in():
    """The BMC hides the vendor, so nobody can tell whether the rule above forbids it."""
    card = v.fpga(vendor=None)
    both = Baseline(
        rules=(
            Rule(name='not-intels', match=Match(vendor='Intel'), tenants_program=False),
            Rule(name='nor-these', match=Match(vendor='I*'), tenants_program=False),
            Rule(name='all', match=Match(), tenants_program=True),
        )
    )
    made = Plan(target='node-1', actions=(program(),))
    assert (f'{card.label}: it is unknown whether these rules apply to it: not-intels, nor-these',) == objections(
        made, v.inventory(card), both, v.NODE
    )


def test_firmware_is_never_a_tenants():
    """Whatever a rule says of functions."""
    assert (f'{GPU_LABEL}: only the operator may write its firmware',) == why(flash(), release(v.GPU), program())[:1]


def test_a_lock_is_never_a_tenants():
    """One that is opened on a card which is not programmed; also beside another card that is."""
    assert (f'{LABEL}: only the operator may release its locks',) == why(release())
    assert (f'{GPU_LABEL}: only the operator may release its locks',) == why(release(v.GPU), program())


@pytest.mark.parametrize('gpu', ['uuid:aaa', 'uuid:zzz'])
def test_a_lock_of_the_machine_is_never_a_tenants(gpu):
    """A lockdown that is in the way of the slot stands before all devices, and is opened in the name of any of them."""
    lockdown = v.reading(
        mechanism='lockdown', blocks=frozenset(WritePath), place='Managers/1/Lockdown', scope=Scope.BMC, wraps=True
    )
    other = v.gpu(id=AcceleratorId(gpu), locks=(replace(lockdown, accelerator=AcceleratorId(gpu)),))
    card = v.fpga(slots=(v.slot(0, None, v.OLD),), locks=(replace(lockdown, accelerator=v.FPGA),))
    seen = v.inventory(other, card)
    rule = Rule(name='theirs', match=Match(), functions=(('Slot0', 'gzip'),), tenants_program=True, block=frozenset())
    allowed, parts = Baseline(rules=(rule,)), frozenset({Part.FUNCTIONS, Part.LOCK})
    made = plan(seen, allowed, v.NODE, (v.function_image(),), parts=parts, only=frozenset({v.FPGA}), hold=True)
    assert [min(v.FPGA, gpu)] == [a.accelerator for a in made.actions if isinstance(a, Release)]
    assert [v.FPGA] == [a.accelerator for a in made.actions if isinstance(a, Program)]
    assert ('BMC host: lockdown has to be released, but only the operator may release locks of a whole machine',) == objections(
        made, seen, allowed, v.NODE
    )


def test_a_card_that_is_not_there_is_nobodys():
    """Fail closed: no rule can be found for it."""
    assert ('uuid:gone: it is unknown which rule applies to it',) == why(program(AcceleratorId('uuid:gone')))
    assert ('uuid:gone: only the operator may release its locks',) == why(release(AcceleratorId('uuid:gone')))


def test_the_key_is_read_and_the_first_rule_that_has_it_decides():
    """And text in place of a boolean is an error with its line."""
    found = rules.parse(
        'format = 1\n[[rule]]\nname = "a"\nblock = []\n[[rule]]\nname = "b"\ntenants_program = true\n'
        '[[rule]]\ntenants_program = false\n',
        'baseline.toml',
    )
    wanted = demands(found, v.fpga(), v.NODE)
    assert (True, 'b') == (wanted.tenants_program, wanted.tenants_program_rule)
    with pytest.raises(DocumentError, match=r'baseline.toml, line 3.*tenants_program.*true or false expected, text found'):
        rules.parse('format = 1\n[[rule]]\ntenants_program = "yes"\n', 'baseline.toml')
