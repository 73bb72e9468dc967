# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which waiver covers an open path, what is asked less of than by default, and how both are told."""

from dataclasses import replace
from datetime import timedelta

import pytest

from baremetal_acc.model.accelerator import Kind
from baremetal_acc.model.codec import decode, encode
from baremetal_acc.model.custody import CustodyDemand
from baremetal_acc.model.lock import LockState, Scope, WritePath
from baremetal_acc.model.ref import HOST, AcceleratorId, BmcName
from baremetal_acc.model.verdict import Verdict
from baremetal_acc.model.waiver import LONGEST, Relaxation, Relaxed
from baremetal_acc.planning import waivers
from baremetal_acc.policy.baseline_rules import DEFAULT_RULE, Baseline, Downgrade, DriftAction, Exposure, Match, Measure, Rule
from baremetal_acc.policy.device_demands import demands
from tests.unit.planning import refusal_words
from tests.unit.planning import values as v

IPMI = WritePath.HOST_BMC_IPMI


def test_the_first_waiver_that_covers_the_path_now_counts():
    """Those that have ended, that hold for too long, or that are of other paths are passed over."""
    ended = ('ended', v.waiver(IPMI, expires=v.NOW))
    endless = ('endless', v.waiver(IPMI, expires=v.NOW + LONGEST + timedelta(microseconds=1)))
    other = ('other', v.waiver(WritePath.HOST_DEVICE))
    good, second = ('good', v.waiver(IPMI)), ('second', v.waiver(IPMI))
    assert good == waivers.in_force((ended, endless, other, good, second), IPMI, v.NOW)
    assert waivers.in_force((ended, endless, other), IPMI, v.NOW) is None
    assert waivers.in_force((), IPMI, v.NOW) is None


def test_why_none_covers_it_is_told_of_all_that_name_the_path():
    """Not of those of other paths."""
    ended = ('a', v.waiver(IPMI, expires=v.NOW))
    endless = ('b', v.waiver(IPMI, expires=v.NOW + timedelta(days=400), role='ops'))
    said = waivers.ended_text(waivers.shortfall((ended, ('c', v.waiver()), endless), IPMI, v.NOW))
    assert (
        '; the waiver of rule a by security expired 2026-11-21 12:00:00 UTC; the waiver of rule b by ops runs until '
        '2027-12-26 12:00:00 UTC, but no waiver may run for more than 366 days'
    ) == said
    assert () == waivers.shortfall((('c', v.waiver()), ('d', v.waiver(IPMI))), IPMI, v.NOW)


def whole(state=LockState.UNLOCKED, bmc=HOST, path=IPMI):
    found = v.reading(state, mechanism='kcs', blocks=frozenset({path}), place='Managers/1', scope=Scope.BMC)
    return replace(found, ref=replace(found.ref, bmc=bmc))


def test_what_could_be_blocked_is_known_part_by_part_and_bmc_by_bmc():
    """Whatever else is shown: a lock of the machine hides none of the card's own, nor the other way round."""
    own = v.reading(blocks=frozenset({IPMI}))
    part, by_bmc = (v.GPU, IPMI, 'GPU_0'), (v.GPU, IPMI, 'all by way of BMC host')
    for locks, known in (((own,), {part}), ((whole(),), {by_bmc}), ((own, whole()), {part, by_bmc})):
        assert known == waivers.blockable([v.gpu(locks=locks)])
    for locks in (
        (whole(LockState.UNSUPPORTED),),
        (whole(bmc=BmcName('dpu')),),
        (whole(path=WritePath.HOST_DEVICE),),
        (replace(own, accelerator=v.FPGA),),
    ):
        assert frozenset() == waivers.blockable([v.gpu(locks=locks)])


def test_hidden_is_what_was_known_of_something_that_is_there_still():
    """Of the machine's lock as of the card's own; a lock that cannot be read is there."""
    own = v.reading(blocks=frozenset({IPMI}))
    before = waivers.blockable([v.gpu(locks=(own, whole()))])
    for locks, gone in (((own,), True), ((whole(),), True), ((), True), ((own, whole(LockState.UNKNOWN)), False)):
        assert gone is waivers.hidden(v.gpu(locks=locks), IPMI, before)
    assert not waivers.hidden(v.gpu(locks=()), WritePath.HOST_BMC_REDFISH, before)
    assert not waivers.hidden(v.fpga(locks=()), IPMI, before)
    assert not waivers.hidden(v.gpu(locks=(whole(),), firmware=(v.component('GPU_9'),)), IPMI, before)


DEVICES = (v.gpu(), v.fpga())


def relaxed(*rules, node=v.NODE, devices=DEVICES):
    baseline = Baseline(rules=rules)
    return waivers.relaxations(node, [(d, demands(baseline, d, node)) for d in devices])


def test_the_default_relaxes_nothing():
    """Nor does a rule that asks for more of a tenant's machine."""
    assert () == relaxed()
    assert () == relaxed(Rule(name='more', match=Match(), block=frozenset(WritePath)))


@pytest.mark.parametrize(
    ('rule', 'kind', 'says'),
    [
        ({'block': frozenset({IPMI})}, Relaxed.PATHS, 'host-bmc-redfish, host-device need not be blocked'),
        ({'block': frozenset()}, Relaxed.PATHS, 'host-bmc-ipmi, host-bmc-redfish, host-device need not be blocked'),
        (
            {'accept': frozenset({LockState.LOCKED_VERIFIED, LockState.LOCKED_REPORTED})},
            Relaxed.ACCEPT,
            'outside of a deploy locked-reported is accepted',
        ),
        (
            {'firmware': (('*', '1'),), 'downgrade': Downgrade.ALLOW},
            Relaxed.DOWNGRADE,
            'versions with a lower security_version than the running one may be written',
        ),
        ({'tenants_program': True}, Relaxed.TENANTS_PROGRAM, 'the lessee of the node may program its functions'),
        (
            {'on_drift': frozenset({DriftAction.NOTIFY, DriftAction.MAINTENANCE})},
            Relaxed.ON_DRIFT,
            'without reengage when an active node differs from its state at hand-over',
        ),
        ({'measure': Measure.OFF}, Relaxed.MEASURE, 'its devices are not asked to sign measurements (measure = "off")'),
        (
            {'firmware': (('*', '1'),), 'custody': CustodyDemand.REPORTED},
            Relaxed.CUSTODY,
            'no chain of custody is required of its devices (custody = "reported")',
        ),
    ],
)
def test_what_a_rule_asks_less_of_is_told_with_its_devices(rule, kind, says):
    """Of those that it decides for, and of no others."""
    (found,) = relaxed(Rule(name='lax', match=Match(kind=Kind.FPGA), **rule))
    assert (kind, 'lax', says, (v.FPGA,)) == (found.kind, found.rule, found.text, found.accelerators)


def test_custody_that_is_required_by_no_default_is_not_relaxed_by_a_rule_that_says_so():
    """Without firmware that a rule names, or without a path that has to be blocked, reported is the default."""
    for rule in ({}, {'firmware': (('*', '1'),), 'block': frozenset({WritePath.BMC_NETWORK})}):
        found = relaxed(Rule(name='lax', match=Match(), custody=CustodyDemand.REPORTED, **rule))
        assert Relaxed.CUSTODY not in {one.kind for one in found}


def test_every_kind_of_relaxation_is_reached():
    """By a rule, or by the exposure of the node."""
    lax = Rule(
        name='lax',
        match=Match(),
        block=frozenset({IPMI}),
        accept=frozenset(LockState),
        firmware=(('*', '1'),),
        downgrade=Downgrade.ALLOW,
        tenants_program=True,
        measure=Measure.OFF,
        custody=CustodyDemand.REPORTED,
        on_drift=frozenset(),
    )
    assert set(Relaxed) == {r.kind for r in relaxed(lax, node=replace(v.NODE, exposure=Exposure.NONE))}


@pytest.mark.parametrize(('exposure', 'whose'), [(Exposure.SERVICE, "the operator's own code"), (Exposure.NONE, 'no code')])
def test_an_exposure_that_asks_for_nothing_is_told_of_the_node(exposure, whose):
    """Also of a machine in which nothing was found."""
    for devices in ((), (v.gpu(),)):
        (found,) = relaxed(node=replace(v.NODE, exposure=exposure), devices=devices)
        text = (
            f'exposure {exposure}: {whose} is declared to run on the host, so no path has to be blocked unless a rule says so'
        )
        assert Relaxation(kind=Relaxed.EXPOSURE, rule=DEFAULT_RULE, text=text) == found


@pytest.mark.parametrize(
    ('count', 'which'),
    [
        (0, ''),
        (1, ' (GPU_0)'),
        (4, ' (GPU_0, GPU_1, GPU_2, GPU_3)'),
        (6, ' (GPU_0, GPU_1, GPU_2, GPU_3 and 2 more)'),
        (7, ''),
    ],
)
def test_notes_name_the_devices_where_it_is_not_all_of_them(count, which):
    """Up to four of them by name; none where it is of the node, or of all that it has."""
    labels = {AcceleratorId(f'uuid:{n}'): f'GPU_{n}' for n in range(7)}
    devices = tuple(labels)[:count]
    lax = Relaxation(kind=Relaxed.TENANTS_PROGRAM, rule='lax', text='tenants may program it', accelerators=devices)
    text = f'less than the default: rule lax: tenants may program it{which}'
    assert [('node-1', text)] == refusal_words.notes(waivers.told('node-1', (), (lax,), labels))


def test_a_note_of_a_device_without_a_label_names_its_identity():
    """As of one that has vanished since; and what no rule but the exposure relaxes names no rule."""
    (exposed,) = relaxed(node=replace(v.NODE, exposure=Exposure.NONE), devices=())
    gone = Relaxation(kind=Relaxed.PATHS, rule='lax', text='all is open', accelerators=(AcceleratorId('uuid:gone'),))
    assert [
        ('node-1', f'less than the default: {exposed.text}'),
        ('node-1', 'less than the default: rule lax: all is open (uuid:gone)'),
    ] == refusal_words.notes(waivers.told('node-1', (), (exposed, gone), {v.GPU: 'GPU_0', v.FPGA: 'FPGA1'}))


def test_an_open_path_is_told_with_its_parts_and_who_answers_for_it():
    """One sentence that a plan, a verdict and a certificate have in common; each part once, sorted."""
    used = waivers.used(v.gpu(), IPMI, ['RoT_0', 'GPU_0', 'RoT_0'], [('r', v.waiver(IPMI))], v.NOW)
    assert (
        'host-bmc-ipmi of GPU_0, RoT_0 stays open: no mechanism blocks it, waived until 2026-12-21 12:00:00 UTC '
        'by security (rule r): the rack is locked'
    ) == waivers.open_by(used)


def test_waivers_in_use_are_summed_up_by_path_and_waiver():
    """One line for each, by name where it is for one device; eight cards of one rule do not fill a screen."""
    ipmi = waivers.used(v.gpu(), IPMI, ['GPU_0'], [('r', v.waiver(IPMI))], v.NOW)
    redfish = replace(ipmi, path=WritePath.HOST_BMC_REDFISH)
    other = replace(ipmi, role='ops', rule='s', reason='until the spare comes', expires=v.NOW)
    fpga = replace(ipmi, accelerator=v.FPGA, label='Stratix FPGA1')
    until = 'is open until 2026-12-21 12:00:00 UTC by a waiver of security (rule r): the rack is locked'
    assert (
        f'host-bmc-ipmi of 2 devices {until}',
        'host-bmc-ipmi of H100 GPU_0 is open until 2026-11-21 12:00:00 UTC by a waiver of ops (rule s): until the spare comes',
        f'host-bmc-redfish of H100 GPU_0 {until}',
    ) == waivers.summary((other, redfish, ipmi, fpga))
    assert () == waivers.summary(())


def test_a_verdict_with_waivers_and_relaxations_can_be_stored():
    """Jobs keep verdicts; those of earlier versions have neither."""
    used = waivers.used(v.gpu(), IPMI, ['GPU_0', 'GPU_0'], [('r', v.waiver(IPMI))], v.NOW)
    found = Verdict(target='t', findings=(), waived=(used,), relaxed=relaxed(Rule(name='x', match=Match(), block=frozenset())))
    assert found == decode(Verdict, encode(found))
    assert Verdict(target='t', findings=()) == decode(Verdict, {'target': 't', 'findings': []})
    assert [('H100 GPU_0', waivers.open_by(used))] == refusal_words.notes(waivers.told('t', (used,), (), {}))
