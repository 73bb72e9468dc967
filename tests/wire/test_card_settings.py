# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""SR-IOV and the mode of a DPU as they are read and judged: recordings of real BMCs, and BMCs that answer badly."""

from collections.abc import Callable
from typing import Any

import pytest

from baremetal_acc.cli.output import documents
from baremetal_acc.execution.observation import check, observe
from baremetal_acc.model.card_setting import CardSetting, CardSettingResult
from baremetal_acc.model.finding import CardSettingFound
from baremetal_acc.model.verdict import Met
from baremetal_acc.policy import baseline
from baremetal_acc.policy.baseline_rules import Baseline
from tests.wire.recorded import NOW, target_of, tools_of
from tests.wire.test_card_locks import ADAPTER, BIOS, OEM, SYSTEM, _card

FUNCTIONS = f'{ADAPTER}/NetworkDeviceFunctions'
NO_MORE = 'block = []\nmeasure = "off"\ncustody = "reported"\n'
SRIOV = ('Controllers', 'ControllerCapabilities', 'VirtualizationOffload', 'SRIOV')


def rules(text: str) -> Baseline:
    """A baseline of one rule for every card."""
    return baseline.parse(f'format = 1\n[[rule]]\nname = "cards"\n{NO_MORE}{text}\n', 'baseline.toml')


def judged(bmc: Any, text: str, **address: Any) -> list[CardSettingFound]:
    """What a verification finds of the settings; whether the demand holds is what the result says."""
    _, verdict = check(target_of(**address), tools_of(bmc, rules(text), **address), (), NOW, lifecycle=1, measure=False)
    found = [(f.fact, f) for f in verdict.findings if isinstance(f.fact, CardSettingFound)]
    for fact, finding in found:
        assert (finding.met is Met.YES) is (fact.result is CardSettingResult.MATCHES)
        assert ('cards', f'setting {fact.setting}') == (finding.rule, str(finding.subject))
    return [fact for fact, _ in found]


def result(bmc: Any, text: str) -> CardSettingResult:
    """The result of the only card."""
    (fact,) = judged(bmc, text)
    return fact.result


MATCHES, DIFFERS, PENDING = CardSettingResult.MATCHES, CardSettingResult.DIFFERS, CardSettingResult.PENDING
NOT_SHOWN, UNREAD, NOT_READ = CardSettingResult.NOT_SHOWN, CardSettingResult.UNREAD, CardSettingResult.NOT_READ


@pytest.mark.parametrize(
    ('name', 'text', 'results'),
    [
        ('nvidia/bluefield3', 'dpu_mode = "dpu"', [MATCHES]),
        ('nvidia/bluefield3', 'dpu_mode = "nic"', [DIFFERS]),
        ('nvidia/bluefield3', 'sriov = "disabled"', [NOT_SHOWN]),
        ('dmtf/smartnic', 'sriov = "disabled"', [MATCHES, MATCHES]),
        ('dmtf/smartnic', 'sriov = "enabled"', [DIFFERS, DIFFERS]),
        ('dmtf/smartnic', 'dpu_mode = "dpu"', [NOT_SHOWN, NOT_SHOWN]),
        ('dmtf/rackmount', 'sriov = "disabled"', [DIFFERS]),
        ('dmtf/rackmount', 'sriov = "enabled"', [MATCHES]),
        ('dell/r750-h100-bluefield2', 'sriov = "disabled"\ndpu_mode = "dpu"', [NOT_SHOWN] * 4),
        ('lenovo/sr670v2-8xl40-bluefield2', 'dpu_mode = "dpu"', [NOT_SHOWN] * 9),
    ],
)
def test_a_recorded_card_is_judged(
    name: str, text: str, results: list[CardSettingResult], recording: Callable[[str], Any]
) -> None:
    """The BMC of a host does not show the mode of its DPU; a card's own BMC shows it twice."""
    assert results == [fact.result for fact in judged(recording(name), text)]


def test_both_properties_of_a_recorded_mode_are_read(recording: Callable[[str], Any]) -> None:
    """What is set, and what the last start has reported."""
    (fact,) = judged(recording('nvidia/bluefield3'), 'dpu_mode = "nic"')
    assert [(BIOS, 'Attributes/NicMode', 'dpu'), (OEM, 'Mode', 'dpu')] == [(r.ref.uri, r.field, r.value) for r in fact.readings]


def test_the_inventory_document_shows_what_was_read(recording: Callable[[str], Any]) -> None:
    """For each property, with its resource. A card that was not asked has no such key."""
    seen = observe(target_of(), tools_of(recording('nvidia/bluefield3'), rules('dpu_mode = "nic"')), NOW)
    (shown,) = [documents.accelerator(a)['settings'] for a in seen.accelerators]
    assert {
        'setting': 'dpu_mode',
        'bmc': 'host',
        'uri': OEM,
        'field': 'Mode',
        'value': 'dpu',
        'pending': None,
        'reason': None,
    } == shown[1]
    (plain,) = observe(target_of(), tools_of(recording('nvidia/bluefield3')), NOW).accelerators
    assert 'settings' not in documents.accelerator(plain)


@pytest.mark.parametrize('name', ['dell/r750-h100-bluefield2', 'nvidia/bluefield3', 'dmtf/smartnic'])
def test_a_baseline_without_such_rules_costs_no_request(name: str, recording: Callable[[str], Any]) -> None:
    """Nor does a card for which no rule demands a setting."""
    plain, other = recording(name), recording(name)
    observe(target_of(), tools_of(plain), NOW)
    seen = observe(target_of(), tools_of(other, rules('match = { kind = "ASIC" }\nsriov = "disabled"')), NOW)
    assert sorted(plain.seen) == sorted(other.seen)
    assert {None} == {a.settings for a in seen.accelerators}


def test_a_setting_that_no_inspection_has_read_is_not_met(bmc: Any) -> None:
    """A stored inventory of a baseline without the rule says nothing."""
    from baremetal_acc.planning.card_settings import compared
    from baremetal_acc.policy.baseline_rules import CardSettingDemand

    assert NOT_READ is compared(CardSettingDemand(setting=CardSetting.SRIOV, expected='disabled'), None).result


# ---- the mode of a DPU ----


def mode(bmc: Any, *, shown: object = ..., started: object = ..., pending: object = ...) -> None:
    """A BlueField: Mode of its extension, NicMode of its Bios and of the Settings; ``...``: not shown."""
    _card(bmc)
    del bmc.tree[BIOS]['Attributes']['NicMode']
    for uri, name, value in ((BIOS, 'NicMode', started), (f'{BIOS}/Settings', 'NicMode', pending)):
        if value is not ...:
            bmc.tree[uri]['Attributes'][name] = value
    if shown is not ...:
        bmc.tree[OEM]['Mode'] = shown


@pytest.mark.parametrize(
    ('shown', 'started', 'pending', 'expected'),
    [
        ('DpuMode', 'DpuMode', ..., MATCHES),
        ('DpuMode', 'DpuMode', 'DpuMode', MATCHES),
        ('DpuMode', ..., ..., MATCHES),
        (..., 'DpuMode', ..., MATCHES),
        ('NicMode', 'NicMode', ..., DIFFERS),
        ('NicMode', 'DpuMode', ..., DIFFERS),
        ('DpuMode', 'NicMode', ..., DIFFERS),
        ('DpuMode', 'NicMode', 'DpuMode', DIFFERS),
        ('DpuMode', 'DpuMode', 'NicMode', PENDING),
        ('Invaild', 'DpuMode', ..., DIFFERS),
        ('DpuMode', 'Separated', ..., DIFFERS),
        (..., ..., ..., NOT_SHOWN),
        (None, ..., ..., NOT_SHOWN),
        ('DpuMode', None, ..., NOT_SHOWN),
        ('DpuMode', 7, ..., UNREAD),
        (['DpuMode'], 'DpuMode', ..., UNREAD),
        ('DpuMode', 'DpuMode', 7, UNREAD),
        ('', 'DpuMode', ..., UNREAD),
        ('Dpu\x1b[2JMode', 'DpuMode', ..., UNREAD),
    ],
)
def test_a_mode_is_met_when_all_that_is_shown_of_it_says_so(
    bmc: Any, shown: object, started: object, pending: object, expected: CardSettingResult
) -> None:
    """A mode that is set and not in effect is not met, nor one that the next start ends."""
    mode(bmc, shown=shown, started=started, pending=pending)
    assert expected is result(bmc, 'dpu_mode = "dpu"')


@pytest.mark.parametrize('broken', [BIOS, f'{BIOS}/Settings', OEM])
def test_a_mode_that_cannot_be_read_everywhere_is_not_met(bmc: Any, reply: Callable[..., Any], broken: str) -> None:
    """The text says which resource it was. A difference that was read counts more."""
    mode(bmc, shown='DpuMode', started='DpuMode')
    bmc.replies['GET', broken] = reply(500)
    (fact,) = judged(bmc, 'dpu_mode = "dpu"')
    assert UNREAD is fact.result
    assert broken in {str(r.ref.uri) for r in fact.readings} | {(r.reason or '').partition(': ')[0] for r in fact.readings}
    assert DIFFERS is result(bmc, 'dpu_mode = "nic"')


def test_a_mode_next_to_an_error_message_is_not_met(bmc: Any) -> None:
    """A BMC may show what it has not read, and say so."""
    mode(bmc, shown='DpuMode', started='DpuMode')
    bmc.tree[OEM]['Mode@Message.ExtendedInfo'] = [{'MessageSeverity': 'Critical', 'Message': 'The card did not answer.'}]
    assert UNREAD is result(bmc, 'dpu_mode = "dpu"')


def test_a_system_without_the_extension_shows_no_mode(bmc: Any) -> None:
    """The attribute of another vendor's Bios may have the same name."""
    mode(bmc, shown='DpuMode', started='DpuMode')
    del bmc.tree[SYSTEM]['Oem']
    assert NOT_SHOWN is result(bmc, 'dpu_mode = "dpu"')


# ---- SR-IOV ----


def adapter(bmc: Any, *enabled: object, functions: tuple[object, ...] = (), pending: object = ...) -> None:
    """A card whose adapter shows SRIOVEnabled of each controller, and functions with VirtualFunctionsEnabled."""
    _card(bmc)

    def controllers(*values: object) -> list[Any]:
        shown = ({} if v is ... else {'SRIOVEnabled': v} for v in values)
        return [{SRIOV[1]: {SRIOV[2]: {SRIOV[3]: one}}} for one in shown]

    bmc.tree[ADAPTER]['Controllers'] = controllers(*enabled)
    if pending is not ...:
        bmc.tree[ADAPTER]['@Redfish.Settings'] = {'SettingsObject': {'@odata.id': f'{ADAPTER}/Settings'}}
        bmc.put(f'{ADAPTER}/Settings', Controllers=controllers(pending))
    if functions:
        bmc.tree[ADAPTER]['NetworkDeviceFunctions'] = {'@odata.id': FUNCTIONS}
        bmc.collection(FUNCTIONS, *map(str, range(len(functions))))
        for number, value in enumerate(functions):
            bmc.put(f'{FUNCTIONS}/{number}', **({} if value is ... else {'VirtualFunctionsEnabled': value}))


@pytest.mark.parametrize(
    ('enabled', 'functions', 'pending', 'expected'),
    [
        ((False,), (), ..., MATCHES),
        ((False, False), (False, False), ..., MATCHES),
        ((...,), (False, False), ..., MATCHES),
        ((False,), (..., ...), ..., MATCHES),
        ((False,), (), False, MATCHES),
        ((True,), (), ..., DIFFERS),
        ((False, True), (), ..., DIFFERS),
        ((False,), (False, True), ..., DIFFERS),
        ((True,), (), False, DIFFERS),
        ((False,), (), True, PENDING),
        ((...,), (..., ...), ..., NOT_SHOWN),
        ((), (), ..., NOT_SHOWN),
        ((None,), (), ..., NOT_SHOWN),
        ((False,), (False, ...), ..., NOT_SHOWN),
        (('false',), (), ..., UNREAD),
        ((0,), (), ..., UNREAD),
        ((False,), ('no',), ..., UNREAD),
        ((False,) * 257, (), ..., UNREAD),
    ],
)
def test_sriov_is_off_when_every_property_that_is_shown_says_so(
    bmc: Any, enabled: tuple[object, ...], functions: tuple[object, ...], pending: object, expected: CardSettingResult
) -> None:
    """What is not shown is never off."""
    adapter(bmc, *enabled, functions=functions, pending=pending)
    assert expected is result(bmc, 'sriov = "disabled"')


@pytest.mark.parametrize(
    ('broken', 'expected'),
    [(ADAPTER, NOT_SHOWN), (FUNCTIONS, UNREAD), (f'{FUNCTIONS}/1', UNREAD), (f'{ADAPTER}/Settings', UNREAD)],
)
def test_sriov_that_cannot_be_read_everywhere_is_not_met(
    bmc: Any, reply: Callable[..., Any], broken: str, expected: CardSettingResult
) -> None:
    """Each of the resources may say something else. An adapter that the inspection could not read belongs to no card."""
    adapter(bmc, False, functions=(False, False), pending=False)
    assert MATCHES is result(bmc, 'sriov = "disabled"')
    bmc.replies['GET', broken] = reply(503)
    assert expected is result(bmc, 'sriov = "disabled"')


def test_a_link_to_settings_that_are_not_there_is_no_error(bmc: Any) -> None:
    """Nothing can be pending where there is no resource for it."""
    adapter(bmc, False, pending=True)
    del bmc.tree[f'{ADAPTER}/Settings']
    assert MATCHES is result(bmc, 'sriov = "disabled"')


@pytest.mark.parametrize(('number', 'expected'), [(0, MATCHES), (4, DIFFERS), (-1, UNREAD), (True, UNREAD), (0.5, UNREAD)])
def test_an_fpga_without_virtual_functions_has_sriov_off(
    recording: Callable[[str], Any], number: object, expected: CardSettingResult
) -> None:
    """The Processor of an FPGA shows their number."""
    bmc = recording('dmtf/rackmount')
    place = '/redfish/v1/Systems/437XR1138R2/Processors/FPGA1'
    bmc.tree[place] = bmc.tree[place].replace('"PCIeVirtualFunctions": 1', f'"PCIeVirtualFunctions": {str(number).lower()}')
    assert expected is result(bmc, 'sriov = "disabled"')
