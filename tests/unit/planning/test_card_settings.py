# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Settings of cards: what rules may say, what is planned and followed, and what the watch reports."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from baremetal_acc.errors import DocumentError
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.action import Reset, ResetPurpose, SetCardSetting, Stage, Withdraw, stage
from baremetal_acc.model.card_setting import CardSetting, CardSettingReading, CardSettingResult
from baremetal_acc.model.finding import CardSettingFound
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import Flow, Job
from baremetal_acc.model.job_item import Item, ItemState
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.model.note import NotMended
from baremetal_acc.model.verdict import Met
from baremetal_acc.planning import card_settings, lock_changes, remediation
from baremetal_acc.planning.identical_cards import left_out
from baremetal_acc.planning.plan import EVERYTHING, Part, plan
from baremetal_acc.planning.retry_limits import RetryLimits
from baremetal_acc.planning.tenant_writes import objections
from baremetal_acc.planning.verify import verify
from baremetal_acc.planning.watch_alarms import TroubleKind
from baremetal_acc.policy import baseline
from baremetal_acc.policy.baseline_rules import Baseline, CardSettingDemand
from baremetal_acc.policy.device_demands import demands
from baremetal_acc.render import troubles
from tests.unit.planning import values as v

PLACE = v.ref('/redfish/v1/Chassis/1/NetworkAdapters/1')
SETTINGS = v.ref('/redfish/v1/Chassis/1/NetworkAdapters/1/Settings')
LIMITS = RetryLimits(settle=timedelta(minutes=1))
RESTORE = 'sriov = { expect = "disabled", restore = true }'


def rules(text: str) -> Baseline:
    """A baseline of one rule, which demands nothing else."""
    return baseline.parse(
        f'format = 1\n[[rule]]\nname = "r"\nblock = []\nmeasure = "off"\ncustody = "reported"\n{text}\n', 'b.toml'
    )


def reading(value: str | None = 'disabled', **more: Any) -> CardSettingReading:
    """SR-IOV of an adapter that can be set."""
    known: dict[str, Any] = {'setting': CardSetting.SRIOV, 'mechanism': 'sriov', 'ref': PLACE, 'field': 'SRIOVEnabled'}
    return CardSettingReading(**{**known, 'value': value, 'sets': ('enabled', 'disabled'), **more})


def staged(value: str, pending: str | None = None, **more: Any) -> CardSettingReading:
    """The same with Settings, which take effect with a reset."""
    needs = {'settings': SETTINGS, 'needs': ResetKind.SYSTEM_RESET, 'reset': v.SYSTEM}
    return reading(value, pending=pending, **{**needs, **more})


def card(*readings: CardSettingReading) -> Accelerator:
    """A card with these readings."""
    return v.gpu(settings=readings)


# ---- rules ----


def test_a_rule_has_a_value_or_a_table() -> None:
    """The first rule that has the key decides."""
    text = '[[rule]]\nmatch = { kind = "FPGA" }\nsriov = "enabled"\n[[rule]]\nname = "x"\nsriov = { expect = "disabled" }\n'
    wanted = demands(baseline.parse(f'format = 1\n{text}[[rule]]\ndpu_mode = "nic"\n', 'b.toml'), v.gpu(), v.NODE)
    sriov = CardSettingDemand(setting=CardSetting.SRIOV, expected='disabled')
    mode = CardSettingDemand(setting=CardSetting.DPU_MODE, expected='nic')
    assert ((sriov, 'x'), (mode, 'rule-3')) == wanted.settings
    restored = demands(rules(RESTORE), v.gpu(), v.NODE).settings
    assert ((replace(sriov, restores=True), 'r'),) == restored


@pytest.mark.parametrize(
    ('text', 'said'),
    [
        ('sriov = "on"', "rule[0].sriov: 'on' is none of enabled, disabled"),
        ('sriov = true', 'rule[0].sriov: text expected, a boolean found'),
        ('dpu_mode = "NicMode"', "rule[0].dpu_mode: 'NicMode' is none of dpu, nic"),
        ('dpu_mode = { restore = true }', 'rule[0].dpu_mode: expect is missing'),
        ('sriov = { expect = "disabled", restore = "yes" }', 'rule[0].sriov.restore: true or false expected, text found'),
        ('sriov = { expect = "disabled", restored = true }', 'rule[0].sriov.restored: no such key'),
    ],
)
def test_a_wrong_rule_is_an_error_at_its_line(text: str, said: str) -> None:
    """The line and the key are named."""
    with pytest.raises(DocumentError) as caught:
        rules(text)
    assert str(caught.value).startswith(f'b.toml, line 7: {said}')


def test_an_identical_card_without_the_demand_is_noted() -> None:
    """As for firmware: perhaps its author has forgotten it."""
    one, other = v.gpu(serial='1'), replace(v.gpu(serial='2'), id=v.FPGA)
    (found,) = left_out(rules('match = { serial = "1" }\nsriov = "disabled"'), (one, other), v.NODE)
    assert (v.FPGA, 'sriov') == (found.accelerator, found.note.keys[-1])


# ---- plans ----


def planned(accelerator: Accelerator, text: str = RESTORE, **how: Any) -> tuple[Any, ...]:
    """The actions of a plan."""
    made = plan(v.inventory(accelerator), rules(text), v.NODE, (), **how)
    assert () == made.refusals
    return made.actions


def test_a_value_that_differs_is_set_where_the_rule_says_so() -> None:
    """Not where a rule only judges, where the plan may not touch settings, or where it is as demanded."""
    (action,) = planned(card(reading('enabled')), parts=frozenset({Part.SETTINGS}))
    assert ('enabled', 'disabled', ResetKind.NONE) == (action.expects, action.value, action.needs)
    assert Stage.WRITE is stage(action)
    for accelerator, text, parts in (
        (card(reading('enabled')), 'sriov = "disabled"', EVERYTHING),
        (card(reading('enabled')), RESTORE, EVERYTHING - {Part.SETTINGS}),
        (card(reading()), RESTORE, EVERYTHING),
        (card(reading(None)), RESTORE, EVERYTHING),
        (card(reading('enabled', sets=())), RESTORE, EVERYTHING),
        (card(reading(reason='503')), RESTORE, EVERYTHING),
        (card(), RESTORE, EVERYTHING),
        (v.gpu(), RESTORE, EVERYTHING),
    ):
        assert [] == [a for a in planned(accelerator, text, parts=parts) if isinstance(a, SetCardSetting)]


def test_a_staged_value_has_its_reset_and_the_host_is_held() -> None:
    """The host of a tenant must not run while its card changes; the card is withdrawn from placement before."""
    actions = planned(card(staged('enabled')), hold=True)
    (action,) = [a for a in actions if isinstance(a, SetCardSetting)]
    assert ResetKind.SYSTEM_RESET is action.needs
    resets = [(a.purpose, a.kind) for a in actions if isinstance(a, Reset)]
    assert [(ResetPurpose.HOLD, ResetKind.NONE), (ResetPurpose.RESUME, ResetKind.SYSTEM_RESET)] == resets
    assert [(v.GPU,)] == [a.accelerators for a in actions if isinstance(a, Withdraw)]
    assert [] == [a for a in planned(card(staged('disabled')), hold=True) if isinstance(a, Reset)]


@pytest.mark.parametrize('shown', [staged('disabled', 'enabled'), staged('enabled', 'disabled')])
def test_a_value_that_is_about_to_change_is_set(shown: CardSettingReading) -> None:
    """One that is set already only needs its reset."""
    assert {SetCardSetting, Reset} <= {type(a) for a in planned(card(shown))}


def test_what_no_mechanism_can_set_is_left_to_the_operator() -> None:
    """The plan says so. A tenant may not have any of it done."""
    accelerator = card(reading('enabled'))
    seen = v.inventory(accelerator)
    verdict = verify(seen, rules(RESTORE), v.NODE, (), (), lifecycle=1)
    made = plan(seen, rules(RESTORE), v.NODE, ())
    assert () == tuple(remediation.left(verdict.unmet, made))
    none = card(reading('enabled', sets=()))
    other = verify(v.inventory(none), rules(RESTORE), v.NODE, (), (), lifecycle=1)
    (note,) = remediation.left(other.unmet, plan(v.inventory(none), rules(RESTORE), v.NODE, ()))
    assert isinstance(note.content, NotMended)
    assert (f'{accelerator.label}: only the operator may change its settings',) == objections(made, seen, rules(''), v.NODE)


# ---- following a job ----


def following(**item: Any) -> Job:
    """A job that has sent a setting."""
    action = SetCardSetting(
        accelerator=v.GPU,
        setting=CardSetting.SRIOV,
        mechanism='sriov',
        ref=PLACE,
        field='SRIOVEnabled',
        value='disabled',
        expects='enabled',
        needs=item.pop('needs', ResetKind.NONE),
    )
    return Job(
        id='j', target='t', node='n', flow=Flow.CLI, step='apply', lifecycle=1, created=v.NOW,
        deadline=v.NOW + timedelta(hours=1),
        items=(Item(action=action, since=v.NOW, **{'state': ItemState.RUNNING, **item}),),
    )  # fmt: skip


def read(job: Job, *readings: CardSettingReading, after: timedelta = timedelta(seconds=10)) -> Item:
    """The item after an inspection."""
    return lock_changes.read_back(job, v.inventory(card(*readings)), v.NOW + after, LIMITS).items[0]


@pytest.mark.parametrize(
    ('shown', 'needs', 'is_done'),
    [
        (reading('disabled'), ResetKind.NONE, True),
        (reading('enabled'), ResetKind.NONE, False),
        (staged('enabled', 'disabled'), ResetKind.SYSTEM_RESET, True),
        (staged('enabled'), ResetKind.SYSTEM_RESET, False),
        (staged('disabled', 'enabled'), ResetKind.SYSTEM_RESET, False),
        (reading('enabled'), ResetKind.POWER_CYCLE, True),
        (reading('disabled', reason='503'), ResetKind.NONE, False),
    ],
)
def test_a_setting_is_done_when_it_is_read_back(shown: CardSettingReading, needs: ResetKind, is_done: bool) -> None:
    """In its Settings, where it has any. What nothing shows before the reset is proven by the final inspection alone."""
    job = following(needs=needs)
    found = read(job, shown)
    assert (ItemState.DONE if is_done else ItemState.RUNNING) is found.state
    late = read(job, shown, after=timedelta(minutes=2))
    assert (ItemState.DONE if is_done else ItemState.FAILED) is late.state
    assert is_done or (late.message or '').startswith('the BMC accepted the change, but the setting ')


@pytest.mark.parametrize(
    ('readings', 'said'),
    [
        ((staged('disabled'),), None),
        ((reading('disabled'), reading('enabled', field='Other')), 'the BMC accepted it, but the setting is enabled'),
        ((staged('enabled'),), 'the BMC accepted it, but the setting is enabled'),
        (
            (staged('disabled', 'enabled'),),
            'the BMC accepted it, but the setting is disabled, and enabled is set for the next reset',
        ),
        ((reading('disabled', reason='503'),), 'the BMC accepted it, but the setting could not be read: 503'),
        ((), 'the BMC accepted it, but the setting is not shown'),
    ],
)
def test_a_setting_that_is_not_in_effect_in_the_end_has_failed(
    readings: tuple[CardSettingReading, ...], said: str | None
) -> None:
    """Whatever the BMC has answered."""
    job = following(state=ItemState.DONE)
    expected = {} if said is None else {0: said}
    assert expected == card_settings.not_in_effect(job, v.inventory(card(*readings)))
    assert {} == card_settings.not_in_effect(following(state=ItemState.FAILED), v.inventory(card(*readings)))


# ---- watch ----


@pytest.mark.parametrize(
    ('readings', 'kind', 'certain', 'said'),
    [
        ((reading('enabled'),), TroubleKind.SETTING, True, 'found enabled'),
        ((staged('disabled', 'enabled'),), TroubleKind.SETTING, True, 'with enabled set for the next reset'),
        ((), TroubleKind.UNREADABLE, False, 'found not shown by the BMC'),
        ((reading(reason='HTTP 503'),), TroubleKind.UNREADABLE, False, 'could not be read'),
    ],
)
def test_a_watched_card_with_another_setting_is_a_trouble(
    readings: tuple[CardSettingReading, ...], kind: TroubleKind, certain: bool, said: str
) -> None:
    """What was not read is one only if it stays so."""
    seen = v.inventory(card(*readings))
    (found,) = card_settings.troubles(seen, rules('sriov = "disabled"'), v.NODE)
    assert (kind, certain, v.GPU, 'setting sriov') == (found.kind, found.certain, found.device, found.subject)
    assert said in troubles.sentence(found)
    assert [] == list(card_settings.troubles(v.inventory(card(reading())), rules('sriov = "disabled"'), v.NODE))
    assert [] == list(card_settings.troubles(seen, rules(''), v.NODE))


def test_an_inventory_without_readings_does_not_meet_the_rule() -> None:
    """A stored one, of a time before the rule."""
    verdict = verify(v.inventory(v.gpu()), rules('sriov = "disabled"'), v.NODE, (), (), lifecycle=1)
    (finding,) = [f for f in verdict.findings if isinstance(f.fact, CardSettingFound)]
    assert (Met.NO, CardSettingResult.NOT_READ) == (finding.met, finding.fact.result)
    assert isinstance(v.inventory(v.gpu()), Inventory)
