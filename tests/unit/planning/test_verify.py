# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A verdict is met only by what was read."""

import itertools
from dataclasses import replace
from datetime import timedelta

import pytest

from baremetal_acc.model.accelerator import Kind, PciIds
from baremetal_acc.model.image import Fit, ImageKind
from baremetal_acc.model.inventory import Gap
from baremetal_acc.model.job import Flow
from baremetal_acc.model.lock import LockState, Scope, WritePath
from baremetal_acc.model.ref import AcceleratorId, BmcName
from baremetal_acc.model.subject import Subject
from baremetal_acc.model.verdict import Met, Verdict
from baremetal_acc.planning import waivers
from baremetal_acc.planning.plan import plan
from baremetal_acc.planning.verify import functions_in_play, judged
from baremetal_acc.policy.baseline_rules import Baseline, Exposure, Match, Measure, Rule
from baremetal_acc.render import findings
from tests.unit.planning import refusal_words
from tests.unit.planning import values as v
from tests.unit.planning.finding_words import finding, verify

GOOD = v.gpu(firmware=(v.component(version=v.NEW),))


def verdict(inventory=None, baseline=None, node=v.NODE, catalogue=(), engagements=None, **how):
    records = [v.engagement()] if engagements is None else engagements
    how = {'lifecycle': v.LIFECYCLE} | how
    return verify(inventory or v.inventory(GOOD), baseline or v.baseline(), node, catalogue, records, **how)


def unmet(*args, **kwargs):
    return [(str(f.subject), f.fact.found) for f in verdict(*args, **kwargs).unmet]


def test_everything_as_demanded_is_met():
    """The version runs and the path is verifiably blocked."""
    result = verdict()
    assert result.met
    assert ['firmware GPU_0', 'lock host-device'] == [str(f.subject) for f in result.findings]


def test_another_version_is_not_met():
    """Versions are equal or not, never ordered: a newer one is another one."""
    for version in ('1.9', '2.0.1', '3.0'):
        device = v.gpu(firmware=(v.component(version=version),))
        assert [('firmware GPU_0', version)] == unmet(v.inventory(device))


ITEM = v.component().ref
NOBODYS = replace(v.NODE, exposure=Exposure.NONE)
OPEN = v.reading(LockState.UNLOCKED)
DENIES = 'that the catalogue does not deny'


def told(subject='present', **says):
    """A finding, by default of the GPU and of the rule."""
    return finding(
        **(
            {'accelerator': v.GPU, 'label': 'H100 GPU_0', 'subject': Subject.from_text(subject), 'met': Met.NO, 'rule': 'all'}
            | says
        )
    )


def of_fpga(*functions, **changes):
    """How an FPGA of the operator's own is asked for functions."""
    return {
        'inventory': v.inventory(v.fpga(**changes)),
        'baseline': v.baseline(firmware=None, block=None, functions=functions or None),
        'node': NOBODYS,
        'engagements': (),
    }


def gpu_with(*firmware, **how):
    """How a GPU is asked, with other firmware than the demanded one."""
    return {'inventory': v.inventory(replace(GOOD, firmware=firmware))} | how


@pytest.mark.parametrize(
    ('asked', 'expected'),
    [
        (
            {'inventory': replace(v.inventory(), accelerators=())},
            told(accelerator=None, label='node-1', expected='accelerators', found='none', rule='default'),
        ),
        (
            {'inventory': v.inventory(GOOD, GOOD)},
            told(label='uuid:gpu-0', expected='one card', found='2 devices with this identity', rule='default'),
        ),
        (
            {'known': frozenset({v.GPU, v.FPGA})},
            told(accelerator=v.FPGA, label=v.FPGA, expected='the card seen before', found='absent', rule='default'),
        ),
        (
            {
                'inventory': v.inventory(
                    GOOD, gaps=(Gap(ref=v.ref('Chassis'), reason='HTTP 500', accelerator=v.FPGA, hides=True),)
                )
            },
            told(accelerator=v.FPGA, label='host:/redfish/v1/Chassis', expected='readable', found='HTTP 500', rule='default'),
        ),
        (
            {'baseline': v.baseline(count=2, match=Match(kind=Kind.GPU))},
            told(accelerator=None, label='node-1', expected='2 devices', found='1 device'),
        ),
        (
            {
                'inventory': v.inventory(replace(GOOD, vendor=None)),
                'baseline': Baseline(
                    rules=(Rule(name='of NVIDIA', match=Match(vendor='NVIDIA'), firmware=(('*', '1'),)), *v.baseline().rules)
                ),
            },
            told(
                'rule of NVIDIA',
                expected='the vendor that the rule matches on',
                found='not shown by the BMC',
                rule='of NVIDIA',
            ),
        ),
        (gpu_with(v.component('X')), told('firmware GPU_*', expected='2.0', found='absent')),
        (gpu_with(v.component()), told('firmware GPU_0', expected='2.0', found='1.0', shows_another=True)),
        (gpu_with(v.component(version=None)), told('firmware GPU_0', expected='2.0', found='unknown')),
        (
            gpu_with(v.component(version=v.NEW, staged='6')),
            told('firmware GPU_0', expected='2.0', found='2.0, with 6 staged for the next reset', shows_another=True),
        ),
        (
            gpu_with(v.component(staged=v.NEW), catalogue=(v.image(version=v.OLD, denied='it bricks'),))
            | {'baseline': v.baseline(firmware=None)},
            told(
                'firmware GPU_0',
                expected=f'a version {DENIES}',
                found='1.0, denied: it bricks',
                rule='default',
                shows_another=True,
            ),
        ),
        (
            gpu_with(v.component(version='X')) | {'baseline': v.baseline(firmware=None, revocations=('revoke-1',))},
            told(
                'firmware revoke-1',
                expected='revocation revoke-1',
                found='the catalogue has no such revocation',
                shows_another=True,
            ),
        ),
        (
            of_fpga(('Slot7', 'gzip')),
            told('function', accelerator=v.FPGA, label='Stratix FPGA1', expected='gzip', found='no such slot'),
        ),
        (
            of_fpga(('Slot1', 'gzip')) | {'catalogue': (v.function_image(),)},
            told(
                'function Slot1', accelerator=v.FPGA, label='Stratix FPGA1', expected='gzip', found='empty', shows_another=True
            ),
        ),
        (
            of_fpga(('Slot0', 'gzip')),
            told(
                'function Slot0',
                shows_another=True,
                accelerator=v.FPGA,
                label='Stratix FPGA1',
                expected='gzip',
                found='gzip 2.0; the catalogue has no image of gzip for this slot',
            ),
        ),
        (
            of_fpga(('Slot0', 'gzip'), slots=(replace(v.slot(), item=replace(v.slot().item, staged='9')),))
            | {'catalogue': (v.function_image(),)},
            told(
                'function Slot0',
                shows_another=True,
                accelerator=v.FPGA,
                label='Stratix FPGA1',
                expected='gzip',
                found='gzip 2.0, with 9 staged for the next reset',
            ),
        ),
        (
            of_fpga() | {'catalogue': (v.function_image(denied='it leaks'),)},
            told(
                'function Slot0',
                shows_another=True,
                accelerator=v.FPGA,
                label='Stratix FPGA1',
                expected=f'a function {DENIES}',
                found='gzip-2, denied: it leaks',
                rule='default',
            ),
        ),
        (
            {'inventory': v.inventory(replace(GOOD, locks=(OPEN,)))},
            told(
                'lock host-device',
                expected='locked-verified',
                found='GPU_0 unlocked (rot at host:/redfish/v1/Chassis/RoT_0 Closed = false)',
                state=LockState.UNLOCKED,
            ),
        ),
        (
            {'inventory': v.inventory(replace(GOOD, locks=())), 'engagements': ()},
            told(
                'lock host-device',
                expected='locked-verified',
                found='GPU_0 unsupported (no mechanism blocks this path)',
                state=LockState.UNSUPPORTED,
            ),
        ),
        (
            {
                'inventory': v.inventory(
                    replace(GOOD, locks=(replace(v.reading(LockState.UNKNOWN, reason='HTTP 500'), value=None),))
                ),
                'baseline': v.baseline(accept=frozenset({LockState.LOCKED_REPORTED, LockState.LOCKED_VERIFIED})),
            },
            told(
                'lock host-device',
                expected='locked-reported or locked-verified',
                found='GPU_0 unknown (rot at host:/redfish/v1/Chassis/RoT_0 Closed, HTTP 500)',
                state=LockState.UNKNOWN,
            ),
        ),
        (
            {'baseline': v.baseline(accept=frozenset({LockState.LOCKED_REPORTED})), 'flow': Flow.DEPLOY},
            told(
                'lock host-device',
                expected='an accepted lock state (the rule accepts none)',
                found='GPU_0 locked-verified (rot at host:/redfish/v1/Chassis/RoT_0 Closed = false)',
                state=LockState.LOCKED_VERIFIED,
            ),
        ),
        (
            {'inventory': v.inventory(replace(GOOD, locks=(replace(OPEN, value='x' * 120),)))},
            told(
                'lock host-device',
                expected='locked-verified',
                found=f'GPU_0 unlocked (rot at host:/redfish/v1/Chassis/RoT_0 Closed = {"x" * 120})',
                state=LockState.UNLOCKED,
            ),
        ),
        *(
            (
                {'inventory': v.inventory(replace(GOOD, locks=(replace(OPEN, value=value, reason='open: a, b'),)))},
                told(
                    'lock host-device',
                    expected='locked-verified',
                    found=f'GPU_0 unlocked (rot at host:/redfish/v1/Chassis/RoT_0 Closed = {shown}, open: a, b)',
                    state=LockState.UNLOCKED,
                ),
            )
            for value, shown in (
                ('["partial", "a", "b"]', '"partial"'),
                ('["partial", "a', '"partial"'),
                ('["part', '["part'),
                ('[]', '[]'),
            )
        ),
        (
            {'inventory': v.inventory(replace(GOOD, locks=(replace(OPEN, value='x' * 10**6),)))},
            told(
                'lock host-device',
                expected='locked-verified',
                found=f'GPU_0 unlocked (rot at host:/redfish/v1/Chassis/RoT_0 Closed = {"x" * 120}...)',
                state=LockState.UNLOCKED,
            ),
        ),
    ],
)
def test_what_is_not_met_is_told_whole(asked, expected):
    """Which device, what was expected of it, what was found, and which rule asks: all that an operator has."""
    assert (expected,) == verdict(**asked).unmet


def test_what_is_met_is_told_as_well():
    """Versions, counts, locks, and rules that match nothing here: whoever reads the verdict sees what was looked at."""
    rules = Baseline(
        rules=(
            *v.baseline(count=1).rules,
            Rule(name='misspelt', match=Match(vendor='NVDIA')),
            Rule(name='of other machines', match=Match(resource_class='silver'), count=8),
        )
    )
    result = verdict(baseline=rules)
    assert (
        told(accelerator=None, label='node-1', expected='1 device', found='1 device', met=Met.YES),
        told(
            'rule misspelt',
            accelerator=None,
            label='node-1',
            expected='the devices that it matches, if any',
            found='no device matches',
            met=Met.YES,
            rule='misspelt',
        ),
        told('firmware GPU_0', expected='2.0', found='2.0', met=Met.YES),
        told(
            'lock host-device',
            expected='locked-verified',
            found='locked-verified',
            met=Met.YES,
            state=LockState.LOCKED_VERIFIED,
        ),
    ) == result.findings
    assert ('node-1', True) == (result.target, result.met)


def test_a_machine_without_devices_is_told_once():
    """No rule matches anything there: that each of them does not says nothing more."""
    empty = replace(v.inventory(), accelerators=())
    assert ['present'] == [str(f.subject) for f in verdict(empty, v.baseline(match=Match(vendor='NVIDIA'))).findings]


@pytest.mark.parametrize('parts', [2, 3, 4, 5])
def test_the_open_parts_of_a_card_are_told_up_to_three(parts):
    """The state is that of the worst of them; the others are counted."""
    names = [f'GPU_{n}' for n in range(parts)]
    locks = [v.reading(LockState.UNLOCKED, scope=Scope.COMPONENT, part=name) for name in names[1:]]
    device = replace(GOOD, firmware=tuple(v.component(n, v.NEW) for n in names), locks=tuple(locks))
    (finding,) = verdict(v.inventory(device), engagements=()).unmet
    where = '(rot at host:/redfish/v1/Chassis/RoT_0 Closed = false)'
    all_parts = ['GPU_0 unsupported (no mechanism blocks this path)'] + [f'{name} unlocked {where}' for name in names[1:]]
    more = [f'and {parts - 3} more'] if parts > 3 else []
    assert '; '.join(all_parts[:3] + more) == finding.fact.found
    assert LockState.UNSUPPORTED is finding.state


def test_an_unreadable_version_is_not_met():
    """Nothing passes because it could not be asked."""
    assert [('firmware GPU_0', 'unknown')] == unmet(v.inventory(v.gpu(firmware=(v.component(version=None),))))


def test_why_a_version_is_not_known_is_said():
    """Whoever has to repair it reads which fact is missing, and why."""
    component = v.component(version=None)
    gap = Gap(ref=component.ref, field='Version', reason='text expected, a number found')
    ((subject, found),) = unmet(replace(v.inventory(v.gpu(firmware=(component,))), gaps=(gap,)))
    assert 'firmware GPU_0' == subject
    assert f'unknown: {component.ref} Version: text expected, a number found' == found


def test_an_absent_component_is_not_met():
    """A component the baseline names and the BMC does not report fails."""
    device = v.gpu(firmware=(v.component('Other', v.NEW),))
    assert [('firmware GPU_*', 'absent')] == unmet(v.inventory(device))


def test_one_pattern_that_fits_nothing_keeps_no_other_from_being_asked():
    """Of components as of slots."""
    device = replace(GOOD, firmware=(v.component(), v.component('RoT_0', '7')))
    rules = v.baseline(firmware=(('Keys', '1'), ('GPU_0', v.NEW), ('RoT_0', '8')))
    assert [('firmware Keys', 'absent'), ('firmware GPU_0', '1.0'), ('firmware RoT_0', '7')] == unmet(
        v.inventory(device), rules
    )
    assert [
        ('function', 'no such slot'),
        ('function Slot0', 'gzip 2.0; the catalogue has no image of gzip for this slot'),
        ('function Slot1', 'empty; the catalogue has no image of gzip for this slot'),
    ] == unmet(**of_fpga(('Slot7', 'gzip'), ('Slot?', 'gzip')))


def test_a_staged_stranger_is_not_met():
    """The right version runs, and another one waits for the next reset: that is what a tenant would leave."""
    device = v.gpu(firmware=(v.component(version=v.NEW, staged='6.6.6'),))
    assert [('firmware GPU_0', '2.0, with 6.6.6 staged for the next reset')] == unmet(v.inventory(device))


def test_no_accelerator_at_all_is_not_met():
    """Zero devices are never OK."""
    assert [('present', 'none')] == unmet(replace(v.inventory(), accelerators=()))


def test_a_vanished_card_is_not_met():
    """A card that was there before and is not there now fails."""
    assert [('present', 'absent')] == unmet(known=frozenset({v.GPU, v.FPGA}))


def test_fewer_cards_than_the_rule_says_are_not_met():
    """A rule may count its devices; more is as wrong as fewer."""
    two = v.baseline(count=2, match=Match(kind=Kind.GPU))
    assert [('present', '1 device')] == unmet(baseline=two)
    none = v.baseline(count=0, match=Match(kind=Kind.GPU))
    assert [('present', '1 device')] == unmet(baseline=none)


def test_what_may_hide_devices_is_not_met():
    """A collection that could not be read may hold a card that nobody sees."""
    hiding = Gap(ref=v.ref('Chassis'), reason='HTTP 500', hides=True)
    assert [('present', 'HTTP 500')] == unmet(v.inventory(GOOD, gaps=(hiding,)))
    harmless = replace(hiding, hides=False)
    assert [] == unmet(v.inventory(GOOD, gaps=(harmless,)))


@pytest.mark.parametrize('state', [s for s in LockState if s not in (LockState.LOCKED_REPORTED, LockState.UNSUPPORTED)])
def test_no_other_state_of_a_lock_is_met(state):
    """Partial, pending, unknown and open are all open; so is a mechanism that calls itself verified."""
    device = replace(GOOD, locks=(v.reading(state),))
    assert ['lock host-device'] == [subject for subject, _ in unmet(v.inventory(device))]


def test_a_lock_found_closed_is_not_met_unless_a_rule_accepts_it():
    """And in a deploy no rule can accept it."""
    accepting = v.baseline(accept=frozenset({LockState.LOCKED_REPORTED, LockState.LOCKED_VERIFIED}))
    assert ['lock host-device'] == [s for s, _ in unmet(engagements=[])]
    assert [] == unmet(engagements=[], baseline=accepting)
    assert ['lock host-device'] == [s for s, _ in unmet(engagements=[], baseline=accepting, flow=Flow.DEPLOY)]


def test_an_earlier_lifecycle_is_not_met():
    """The same reading, the same record, the node's next life."""
    assert ['lock host-device'] == [s for s, _ in unmet(lifecycle=v.LIFECYCLE + 1)]


def test_a_path_without_mechanism_is_not_met():
    """The baseline demands more than the mechanisms give."""
    demanding = v.baseline(block=frozenset({WritePath.HOST_DEVICE, WritePath.HOST_BMC_IPMI}))
    found = unmet(baseline=demanding)
    assert [('lock host-bmc-ipmi', 'GPU_0 unsupported (no mechanism blocks this path)')] == found


IPMI = WritePath.HOST_BMC_IPMI


def test_a_rule_may_waive_a_missing_mechanism_and_nothing_else():
    """A waiver is for paths without mechanism; one that is open, unreadable or not yet in force stays not met."""
    assert [] == unmet(baseline=v.waiving(IPMI, block=frozenset({IPMI})))
    for state in set(LockState) - {LockState.UNSUPPORTED, LockState.LOCKED_REPORTED, LockState.LOCKED_VERIFIED}:
        device = replace(GOOD, locks=(v.reading(state),))
        result = verdict(v.inventory(device), v.waiving())
        assert ('lock host-device', ()) == (str(result.unmet[0].subject), result.waived), state


def test_a_part_that_a_mechanism_leaves_open_beside_one_that_has_none_is_not_waived():
    """Of two parts one has no mechanism and one has an open one: the path is not met as a whole."""
    parts = (v.component(version=v.NEW), v.component('GPU_X', v.NEW))
    lock = v.reading(LockState.UNLOCKED, scope=Scope.COMPONENT, part='GPU_X')
    result = verdict(v.inventory(replace(GOOD, firmware=parts, locks=(lock,))), v.waiving())
    assert (['lock host-device'], ()) == ([str(f.subject) for f in result.unmet], result.waived)


def test_a_waiver_in_use_is_told_as_data_and_in_words():
    """Also for a deploy. What is blocked anyway uses none."""
    rules = v.waiving(IPMI, WritePath.HOST_DEVICE, block=frozenset({IPMI, WritePath.HOST_DEVICE}))
    for flow in (None, Flow.DEPLOY):
        result = verdict(baseline=rules, flow=flow)
        assert result.met
        used = v.waiver()
        (waived,) = result.waived
        assert (GOOD.id, IPMI, ('GPU_0',), 'all') == (waived.accelerator, waived.path, waived.parts, waived.rule)
        assert (used.role, used.reason, used.expires) == (waived.role, waived.reason, waived.expires)
        (finding,) = [f for f in result.findings if str(f.subject) == 'lock host-bmc-ipmi']
        assert (
            told(
                'lock host-bmc-ipmi',
                expected='locked-verified',
                found='no mechanism, waived until 2026-12-21 12:00:00 UTC by security (rule all): the rack is locked',
                met=Met.YES,
                state=LockState.UNSUPPORTED,
            )
            == finding
        )


def test_a_waiver_is_for_no_mechanism_that_has_vanished():
    """Whose code makes a BMC hide a lock gains no waiver by it; what another device or path had is no reason."""
    rules, seen = v.waiving(block=v.HOST_DEVICE), v.inventory(replace(GOOD, locks=()))
    before = waivers.blockable((GOOD,))
    assert {(GOOD.id, WritePath.HOST_DEVICE, 'GPU_0')} == before
    result = verdict(seen, rules, engagements=[], blockable=before)
    ((subject, found),) = [(str(f.subject), f.fact.found) for f in result.unmet]
    says = f'GPU_0 unsupported (no mechanism blocks this path); {waivers.HIDDEN}'
    assert ('lock host-device', says, ()) == (subject, found, result.waived)
    for other in (
        (GOOD.id, IPMI, 'GPU_0'),
        (v.FPGA, WritePath.HOST_DEVICE, 'GPU_0'),
        (GOOD.id, WritePath.HOST_DEVICE, 'GPU_9'),
    ):
        assert verdict(seen, rules, engagements=[], blockable=frozenset({other})).met


def test_a_waiver_is_for_no_lock_of_a_machine_that_has_vanished():
    """With it the device is judged by way of its BMC, without it part by part: the same path, and no waiver for either."""
    kcs = v.reading(LockState.UNLOCKED, mechanism='kcs', blocks=frozenset({IPMI}), place='Managers/1', scope=Scope.BMC)
    rules = v.waiving(IPMI, block=frozenset({IPMI}))
    before = waivers.blockable((replace(GOOD, locks=(*GOOD.locks, kcs)),))
    result = verdict(baseline=rules, blockable=before)
    ((subject, found),) = [(str(f.subject), f.fact.found) for f in result.unmet]
    assert ('lock host-bmc-ipmi', True, ()) == (subject, found.endswith(waivers.HIDDEN), result.waived)
    assert verdict(baseline=rules, blockable=waivers.blockable((GOOD,))).met


def test_a_waiver_ends():
    """A verdict of a look that begins at that moment refuses, and says whose waiver it was."""
    rules = v.waiving(waiver=v.waiver(IPMI, expires=v.NOW), block=frozenset({IPMI}))
    said = (
        'GPU_0 unsupported (no mechanism blocks this path); the waiver of rule all by security expired 2026-11-21 12:00:00 UTC'
    )
    assert [('lock host-bmc-ipmi', said)] == unmet(baseline=rules)
    earlier = replace(v.inventory(GOOD), at=v.NOW - timedelta(microseconds=1))
    assert [] == [s for s, _ in unmet(earlier, rules) if 'ipmi' in s]


def test_what_is_asked_less_of_is_data_of_the_verdict():
    """By rule, with the devices; of the default nothing."""
    (paths,) = verdict(baseline=v.baseline(custody=None)).relaxed
    assert ('all', (GOOD.id,)) == (paths.rule, paths.accelerators)
    assert () == verdict(baseline=v.baseline(block=None, custody=None)).relaxed


def test_without_a_rule_a_tenants_node_must_have_every_host_path_blocked():
    """The default is the strictest; nodes of the operator's own are not exposed."""
    silent = v.baseline(block=None)
    subjects = [s for s, _ in unmet(baseline=silent)]
    assert ['lock host-bmc-ipmi', 'lock host-bmc-redfish'] == subjects
    service = replace(v.NODE, exposure=Exposure.SERVICE)
    assert [] == unmet(baseline=silent, node=service)


def test_a_deploy_takes_what_was_engaged_in_it_and_nothing_else():
    """A lock that a cleaning engaged holds, and nobody knows for whom: outside of a deploy that is enough."""
    records = [replace(v.engagement(), flow=Flow.CLEAN)]
    assert verdict(engagements=records).met
    (finding,) = verdict(engagements=records, flow=Flow.DEPLOY).unmet
    assert (LockState.LOCKED_REPORTED, True) == (finding.state, 'not engaged in this deploy' in finding.fact.found)
    assert verdict(engagements=[*records, v.engagement()], flow=Flow.DEPLOY).met


def test_a_lock_that_comes_in_force_with_the_start_counts_where_that_system_is_to_be_started():
    """Before any code of its host runs."""
    waits = v.reading(LockState.PENDING_RESET, with_start=v.SYSTEM)
    seen = v.inventory(replace(GOOD, locks=(waits,)))
    assert verdict(seen, engagements=[v.engagement(waits)], starting=v.SYSTEM).met
    for other in (None, v.ref('Systems/2')):
        assert ['lock host-device'] == [s for s, _ in unmet(seen, engagements=[v.engagement(waits)], starting=other)]


@pytest.mark.parametrize(
    ('engaged', 'how', 'is_told'),
    [
        ({}, {}, True),
        ({'lifecycle': v.LIFECYCLE + 1}, {}, False),
        ({'flow': Flow.CLEAN}, {}, True),
        ({'flow': Flow.CLEAN}, {'flow': Flow.DEPLOY}, False),
        ({'flow': Flow.DEPLOY}, {'flow': Flow.DEPLOY}, True),
        ({'accelerator': v.FPGA}, {}, False),
        ({'accelerator': v.FPGA, 'scope': Scope.BMC}, {}, True),
        ({'accelerator': v.FPGA, 'scope': Scope.BMC, 'blocks': frozenset()}, {}, True),
        ({'accelerator': v.FPGA, 'scope': Scope.BMC, 'blocks': frozenset({WritePath.BMC_NETWORK})}, {}, False),
        ({'scope': Scope.BMC, 'ref': replace(ITEM, bmc=BmcName('dpu'))}, {}, False),
        ({'field': 'Closed'}, {'baseline': v.baseline(block=frozenset())}, False),
        ({'scope': Scope.BMC}, {'baseline': v.baseline(block=frozenset())}, False),
    ],
)
def test_a_lock_that_we_engaged_and_that_is_not_shown_is_told_of_whom_it_protects(engaged, how, is_told):
    """In this lifecycle and flow; of every device of a BMC where it is of the machine. Nothing is where nothing has to hold."""
    gone = replace(v.engagement(), **({'mechanism': 'kcs', 'ref': v.ref('Managers/1'), 'field': 'Open'} | engaged))
    whole = told(
        'lock kcs',
        expected=f'{gone.field} at host:/redfish/v1/Managers/1, as engaged',
        found='the BMC no longer shows it',
        state=LockState.UNKNOWN,
    )
    assert ((whole,) if is_told else ()) == verdict(engagements=[v.engagement(), gone], **how).unmet


def test_the_message_names_card_path_mechanism_place_and_value():
    """What an operator needs to find the card and the setting."""
    device = replace(GOOD, locks=(v.reading(LockState.UNLOCKED),))
    (found,) = verdict(v.inventory(device)).unmet
    for part in ('H100 GPU_0', 'host-device', 'rot', '/redfish/v1/Chassis/RoT_0', 'Closed = false', 'unlocked', 'rule all'):
        assert part in findings.sentence(found)


def test_a_function_is_in_play_when_the_slot_reports_its_uuid_and_version():
    """A function is known by what the BMC reports, not by what we sent."""
    rules = v.baseline(firmware=None, functions=(('Slot0', 'gzip'),))
    device = v.fpga()
    locks = [v.engagement(r) for r in device.locks]
    catalogue = (v.function_image(),)
    seen = v.inventory(device)
    result = verdict(seen, rules, catalogue=catalogue, engagements=locks)
    assert result.met
    assert {(v.FPGA, 'Slot0'): 'gzip'} == functions_in_play(seen, result, rules, v.NODE, catalogue)


@pytest.mark.parametrize(
    ('change', 'found'),
    [
        ({'slots': (v.slot(0, None, None),)}, 'empty'),
        ({'slots': (v.slot(0, 'gzip', v.OLD),)}, 'gzip 1.0'),
        ({'slots': (v.slot(5),)}, 'no such slot'),
    ],
)
def test_another_function_or_version_or_an_empty_slot_is_not_met(change, found):
    """Empty, another version, or no such slot: each is not met."""
    rules = v.baseline(firmware=None, block=frozenset(), functions=(('Slot0', 'gzip'),))
    seen = v.inventory(v.fpga(**change))
    result = verdict(seen, rules, catalogue=(v.function_image(),))
    assert [found] == [f.fact.found for f in result.unmet]
    assert {} == functions_in_play(seen, result, rules, v.NODE, (v.function_image(),))


def test_the_first_pattern_that_matches_a_slot_or_a_component_decides():
    """A rule may name one, and have a word for all others."""
    slots = (v.slot(0), replace(v.slot(1, 'aes'), function=replace(v.slot(1, 'aes').function, uuid='2')))
    catalogue = (v.function_image(), v.function_image('aes-2', function='aes', uuid='2'))
    rules = v.baseline(firmware=None, block=frozenset(), functions=(('Slot0', 'gzip'), ('*', 'aes')))
    seen = v.inventory(v.fpga(slots=slots))
    result = verdict(seen, rules, catalogue=catalogue)
    assert [('function Slot0', 'gzip'), ('function Slot1', 'aes')] == [
        (str(f.subject), f.fact.expected) for f in result.findings
    ]
    assert result.met
    assert {(v.FPGA, 'Slot0'): 'gzip', (v.FPGA, 'Slot1'): 'aes'} == functions_in_play(seen, result, rules, v.NODE, catalogue)
    both = replace(GOOD, firmware=(v.component(version=v.NEW), v.component('RoT_0', '7')))
    result = verdict(v.inventory(both), v.baseline(firmware=(('GPU_0', v.NEW), ('*', '7'))))
    assert [('firmware GPU_0', '2.0', Met.YES), ('firmware RoT_0', '7', Met.YES)] == [
        (str(f.subject), f.fact.expected, f.met) for f in result.findings if str(f.subject).startswith('firmware')
    ]


def test_a_slot_that_holds_something_else_than_is_demanded_offers_nothing():
    """Even if the verdict does not speak of it, as one of an earlier look."""
    rules = v.baseline(firmware=None, block=frozenset(), functions=(('Slot0', 'gzip'),))
    catalogue = (v.function_image(), v.function_image('aes-2', function='aes', uuid='2'))
    silent = Verdict(target='node-1', findings=())
    aes = replace(v.slot(0, 'aes'), function=replace(v.slot(0, 'aes').function, uuid='2'))
    for slot in (aes, v.slot(0, 'gzip', v.OLD), v.slot(0, None)):
        assert {} == functions_in_play(v.inventory(v.fpga(slots=(slot,))), silent, rules, v.NODE, catalogue)


def test_a_device_with_anything_unmet_offers_nothing_and_the_others_do():
    """Whichever comes first."""
    rules = v.baseline(firmware=None, block=frozenset())
    other = v.fpga(id=AcceleratorId('uuid:a'))
    seen, catalogue = v.inventory(other, v.fpga()), (v.function_image(),)
    for bad, good in ((other.id, v.FPGA), (v.FPGA, other.id)):
        verdict_of_both = Verdict(target='node-1', findings=(told(accelerator=bad, expected='x', found='y'),))
        assert {(good, 'Slot0'): 'gzip'} == functions_in_play(seen, verdict_of_both, rules, v.NODE, catalogue)


def test_a_function_with_another_uuid_is_another_function():
    """The name alone does not make it."""
    rules = v.baseline(firmware=None, block=frozenset(), functions=(('Slot0', 'gzip'),))
    other = v.function_image(uuid='99999999-2222-3333-4444-555555555555')
    assert not verdict(v.inventory(v.fpga()), rules, catalogue=(other,)).met


def test_a_function_the_catalogue_does_not_know_is_not_met():
    """Nobody can say what it is."""
    rules = v.baseline(firmware=None, block=frozenset(), functions=(('Slot0', 'gzip'),))
    (finding,) = verdict(v.inventory(v.fpga()), rules).unmet
    assert 'catalogue has no image' in finding.fact.found


# ------------------------------------------------------------------------------------------------------------- what is denied


def test_a_version_that_is_written_otherwise_is_met():
    """Running, staged, and as a function: a BMC may pad it or put a v before it."""
    device = replace(GOOD, firmware=(v.component(version='V2.0 ', staged='2.0'),))
    assert [] == unmet(v.inventory(device))
    slot = v.slot(0, version='v2.0')
    rules = v.baseline(firmware=None, block=None, functions=(('Slot0', 'gzip'),), match=Match(kind=Kind.FPGA))
    found = unmet(
        v.inventory(v.fpga(slots=(slot,))), rules, catalogue=(v.function_image(),), node=replace(v.NODE, exposure=Exposure.NONE)
    )
    assert [] == found


@pytest.mark.parametrize('firmware', [(('GPU_*', v.NEW),), None])
def test_a_denied_version_that_runs_is_not_met(firmware):
    """Whether a rule demands that very version or none."""
    denied = v.image(denied='CVE-2026-1')
    found = unmet(baseline=v.baseline(firmware=firmware), catalogue=(denied,))
    assert [('firmware GPU_0', '2.0, denied: CVE-2026-1')] == found


def test_a_denied_version_that_waits_for_the_reset_is_not_met():
    """It is what a tenant would leave."""
    device = replace(GOOD, firmware=(v.component(version='3.0', staged=v.NEW),))
    found = unmet(v.inventory(device), v.baseline(firmware=None), catalogue=(v.image(denied='CVE-2026-1'),))
    assert [('firmware GPU_0', '2.0 staged for the next reset, denied: CVE-2026-1')] == found


def test_a_denied_version_of_a_device_without_an_item_is_not_met():
    """Some BMCs show a version at the device alone."""
    device = replace(
        GOOD, firmware=(v.component(version=v.NEW, software_id=None), replace(v.component(version='6.6'), id=None))
    )
    found = unmet(v.inventory(device), catalogue=(v.image(version='6.6', denied='CVE-2026-1'),))
    assert [('firmware of the device', '6.6, denied: CVE-2026-1')] == found


def test_a_denied_function_in_a_slot_is_not_met():
    """Also where no rule speaks of the slot."""
    denied = v.function_image(denied='it leaks')
    service = replace(v.NODE, exposure=Exposure.NONE)
    for functions, card in itertools.product(
        (None, (('Slot0', 'gzip'),)), (v.fpga(), v.fpga(pci=PciIds()), v.fpga(model=None))
    ):
        rules = v.baseline(firmware=None, block=None, functions=functions)
        found = unmet(v.inventory(card), rules, node=service, catalogue=(denied,))
        assert ('function Slot0', 'gzip-2, denied: it leaks') in found
    assert [] == unmet(
        v.inventory(v.fpga()), v.baseline(firmware=None, block=None), node=service, catalogue=(v.function_image(),)
    )


# ------------------------------------------------------------------------------------------------------------- revocations


def test_a_quick_look_asks_no_device_to_sign_what_it_runs():
    """It stands beside one that did."""
    rules = v.baseline(measure=Measure.REQUIRED)
    assert verdict(baseline=rules, measured=False).met
    assert not verdict(baseline=rules).met


def test_every_reading_is_shown_in_the_state_that_our_records_allow_it():
    """Those of the machine as those of its devices; of a flow only what was engaged in it."""
    kcs = v.reading(mechanism='kcs', place='Managers/1', scope=Scope.BMC)
    seen = v.inventory(GOOD, v.fpga(), platform_locks=(kcs,))
    records = [v.engagement(), v.engagement(kcs)]

    def shows(state, reason, **how):
        device, machine = (replace(r, state=state, reason=reason) for r in (*GOOD.locks, kcs))
        strange = tuple(replace(r, reason='found locked, but not engaged by us') for r in v.fpga().locks)
        expected = v.inventory(replace(GOOD, locks=(device,)), v.fpga(locks=strange), platform_locks=(machine,))
        assert expected == judged(seen, iter(records), **how)

    shows(LockState.LOCKED_VERIFIED, None, lifecycle=v.LIFECYCLE)
    shows(LockState.LOCKED_VERIFIED, None, lifecycle=v.LIFECYCLE, flow=Flow.DEPLOY)
    shows(LockState.LOCKED_REPORTED, 'not engaged in this clean', lifecycle=v.LIFECYCLE, flow=Flow.CLEAN)
    shows(LockState.LOCKED_REPORTED, 'engaged in an earlier lifecycle of the node', lifecycle=v.LIFECYCLE + 1)


REVOKE = v.image('revoke-1', kind=ImageKind.REVOCATION, component='Keys', version='7')
REVOKED = v.baseline(firmware=None, revocations=('revoke-1',))


@pytest.mark.parametrize(
    ('keys', 'expected'),
    [
        ((v.component('Keys', '7'),), []),
        ((v.component('Keys', 'v7 '),), []),
        ((v.component('Keys', '7', staged='v7'),), []),
        ((v.component('Keys', '6'),), [('firmware Keys', '6')]),
        ((v.component('Keys', None),), [('firmware Keys', 'unknown')]),
        ((v.component('Keys', '7', staged='6'),), [('firmware Keys', '7, with 6 staged for the next reset')]),
        ((), [('firmware revoke-1', 'no component that the revocation fits')]),
    ],
)
def test_a_demanded_revocation_is_met_by_what_the_card_reports(keys, expected):
    """Not by our having written it."""
    device = replace(GOOD, firmware=(v.component(version=v.NEW), *keys))
    assert expected == unmet(v.inventory(device), REVOKED, catalogue=(REVOKE,))
    (said,) = [f for f in verdict(v.inventory(device), REVOKED, catalogue=(REVOKE,)).findings if 'lock' not in str(f.subject)]
    wanted = '7 (revocation revoke-1)' if keys else 'revocation revoke-1'
    assert (v.GPU, wanted, 'all', None) == (said.accelerator, said.fact.expected, said.rule, said.state)


def test_each_of_several_revocations_is_asked_of_each_component_that_it_is_for():
    """One that the catalogue does not have keeps none of the others from being asked."""
    device = replace(GOOD, firmware=(v.component('Keys', '6'), v.component('Keys2', '7'), v.component('Keys3', None)))
    wide = replace(REVOKE, component='Keys*')
    rules = v.baseline(firmware=None, revocations=('revoke-0', 'revoke-1'))
    assert [
        ('firmware revoke-0', 'the catalogue has no such revocation', Met.NO),
        ('firmware Keys', '6', Met.NO),
        ('firmware Keys2', '7', Met.YES),
        ('firmware Keys3', 'unknown', Met.NO),
    ] == [
        (str(f.subject), f.fact.found, f.met)
        for f in verdict(v.inventory(device), rules, catalogue=(wide,)).findings
        if 'lock' not in str(f.subject)
    ]


@pytest.mark.parametrize('catalogue', [(), (v.image('revoke-1'),)])
def test_a_revocation_that_the_catalogue_does_not_have_is_not_met(catalogue):
    """An image of that name and of another kind is none."""
    assert [('firmware revoke-1', 'the catalogue has no such revocation')] == unmet(baseline=REVOKED, catalogue=catalogue)


def test_a_rule_that_matches_nothing_here_is_told_and_is_no_fault():
    """A baseline is for many machines; but who misspelt a vendor sees it in the plan and in the verdict."""
    rules = v.baseline(name='misspelt', match=Match(vendor='NVDIA'))
    found = [
        f for f in verify(v.inventory(v.gpu()), rules, v.NODE, (), (), lifecycle=v.LIFECYCLE).findings if not f.accelerator
    ]
    assert [('rule misspelt', 'no device matches', Met.YES)] == [(str(f.subject), f.fact.found, f.met) for f in found]
    notes = plan(v.inventory(v.gpu()), rules, v.NODE, ()).notes
    assert ('node-1', 'rule misspelt matches no device here') in refusal_words.notes(notes)


def test_a_function_that_no_rule_demands_is_in_play_where_the_catalogue_knows_it():
    """What ``program`` put there and offered is not withdrawn by the next who publishes."""
    rules = v.baseline(firmware=None, block=frozenset())
    seen = v.inventory(v.fpga())

    def in_play(*catalogue, inventory=seen):
        found = verdict(inventory, rules, catalogue=catalogue, engagements=())
        return functions_in_play(inventory, found, rules, v.NODE, catalogue)

    assert {(v.FPGA, 'Slot0'): 'gzip'} == in_play(v.function_image())
    assert {} == in_play()
    assert {} == in_play(v.function_image(version='9'))
    assert {} == in_play(v.function_image(fits=(Fit(model='Stratix'),)))
    assert {} == in_play(v.function_image(denied='it leaks'))
    assert {} == in_play(v.function_image(), v.function_image('aes', function='aes'))
    staged = replace(v.slot(0), item=replace(v.slot(0).item, staged='9'))
    assert {} == in_play(v.function_image(), inventory=v.inventory(v.fpga(slots=(staged,))))


def test_a_function_is_told_by_its_name():
    """The Id of the resource is that of the slot on real cards: "found Slot0" said nothing about what is in it."""
    rules = v.baseline(firmware=None, block=frozenset(), functions=(('Slot0', 'gzip'),))
    slot = v.slot(0)
    named = replace(slot, function=replace(slot.function, id='Slot0', name='aes', version='1.2'))
    assert ['aes 1.2'] == [
        f.fact.found for f in verdict(v.inventory(v.fpga(slots=(named,))), rules, catalogue=(v.function_image(),)).unmet
    ]


@pytest.mark.parametrize('version', ['absent', 'unknown', 'unknown-2.1', 'no such slot'])
def test_a_version_that_reads_like_nothing_is_a_version(version):
    """Whatever a card calls what it runs, only a write mends that; what shows no version may still come."""
    (shown,) = [f for f in verdict(v.inventory(v.gpu(firmware=(v.component(version=version),)))).unmet if f.shows_another]
    assert ('firmware GPU_0', version) == (str(shown.subject), shown.fact.found)
    assert not [f for f in verdict(v.inventory(v.gpu(firmware=(v.component(version=None),)))).unmet if f.shows_another]
