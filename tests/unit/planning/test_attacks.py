# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Hostile values and hostile documents do not make an unproven device pass."""

import time
from dataclasses import replace
from datetime import timedelta

import pytest

from baremetal_acc.errors import DocumentError, StaleJob
from baremetal_acc.images import catalogue
from baremetal_acc.locks.property_reading import literal
from baremetal_acc.model.accelerator import Kind, PciIds
from baremetal_acc.model.action import Flash, Reset, ResetPurpose
from baremetal_acc.model.codec import decode, encode
from baremetal_acc.model.image import Fit, ImageKind
from baremetal_acc.model.job import Flow, Job
from baremetal_acc.model.job_item import Item, ItemState
from baremetal_acc.model.lock import Engagement, LockState, ResetKind, Scope, WritePath
from baremetal_acc.model.ref import BmcName, Ref
from baremetal_acc.model.verdict import Met
from baremetal_acc.planning.job_readings import Sight
from baremetal_acc.planning.job_transitions import advance
from baremetal_acc.planning.lock_evidence import coverage, judge
from baremetal_acc.planning.merge import merge
from baremetal_acc.planning.plan import plan
from baremetal_acc.planning.retry_limits import RetryLimits
from baremetal_acc.policy import baseline, baseline_rules
from baremetal_acc.policy.baseline_rules import Match
from tests.unit.planning import refusal_words
from tests.unit.planning import values as v
from tests.unit.planning.finding_words import verify

IMAGES = (v.image(), v.function_image())


def verdict(*devices, rules=None, engaged=None):
    seen = v.inventory(*devices)
    records = [v.engagement(r) for d in devices for r in d.locks] if engaged is None else engaged
    return verify(seen, rules or v.baseline(), v.NODE, IMAGES, records, lifecycle=v.LIFECYCLE, flow=Flow.DEPLOY)


def refusals(device, rules=None):
    return refusal_words.sentences(plan(v.inventory(device), rules or v.baseline(), v.NODE, IMAGES))


# ------------------------------------------------------------------------------------------------------------ what is named


def test_a_lock_of_one_slot_is_none_of_another_of_the_same_name():
    """A BMC that calls both slots Slot0 shows the lock of one of them."""
    twin = replace(v.slot(1), slot_id='Slot0')
    device = v.fpga(slots=(v.slot(0), twin), locks=v.fpga().locks[:2])
    rules = v.baseline(firmware=None, functions=None)
    assert not verdict(device, rules=rules).met
    assert LockState.UNKNOWN is coverage(device, WritePath.HOST_DEVICE, device.locks)[1].state


def test_a_lock_of_one_item_is_none_of_another_of_the_same_name():
    """Two BMCs of one card may each have an item of that name."""
    other = replace(v.component(version=v.NEW), ref=v.ref('UpdateService/SoftwareInventory/GPU_0'))
    device = v.gpu(firmware=(v.component(version=v.NEW), other), locks=(v.reading(scope=Scope.COMPONENT, part='GPU_0'),))
    assert not verdict(device).met


def test_every_item_of_a_name_has_to_run_the_version():
    """The second one is as much of the device as the first."""
    other = replace(v.component(), ref=v.ref('UpdateService/SoftwareInventory/GPU_0'))
    device = v.gpu(firmware=(v.component(version=v.NEW), other))
    assert ['firmware GPU_0'] == [str(f.subject) for f in verdict(device).unmet]
    assert any('several firmware items' in r for r in refusals(device))


def test_one_resource_that_is_told_in_two_ways_has_to_be_right_in_both():
    """A BMC that gives one item twice, as it should be and as it is, is not believed the first."""
    item = v.component(version=v.NEW)
    for firmware in ((item, replace(item, version='6.6.6')), (replace(item, version='6.6.6'), item)):
        device = v.gpu(firmware=firmware)
        assert not verdict(device).met
        assert any('several firmware items' in r for r in refusals(device))


def test_every_slot_of_a_name_has_to_hold_the_function():
    """And nothing is written to a slot that cannot be named."""
    empty = replace(v.slot(1, None, None), slot_id='Slot0')
    wide = (v.reading(mechanism='fpga', accelerator=v.FPGA),)
    device = v.fpga(slots=(v.slot(0), empty), locks=wide)
    rules = v.baseline(firmware=None, functions=(('Slot*', 'gzip'),))
    assert ['function Slot0'] == [str(f.subject) for f in verdict(device, rules=rules).unmet]
    assert any('several slots' in r for r in refusals(device, rules))


def test_of_two_places_of_one_mechanism_the_open_one_is_a_way_in():
    """Two roots of trust say whether the host may update; one says that it may."""
    closed = v.reading()
    other = v.reading(LockState.UNLOCKED, place='Chassis/RoT_1')
    device = v.gpu(firmware=(v.component(version=v.NEW),), locks=(closed, other))
    assert not verdict(device, engaged=[v.engagement(closed), v.engagement(other)]).met


def test_an_engagement_of_another_slot_at_the_same_position_proves_nothing():
    """Places of slots are positions in an array, which a BMC may renumber."""
    reading = v.reading(scope=Scope.SLOT, part='Slot1')
    record = v.engagement(replace(reading, part='Slot0'))
    assert LockState.LOCKED_REPORTED is judge(reading, [record], lifecycle=v.LIFECYCLE).state


def test_a_stranger_staged_for_a_slot_is_not_met():
    """The function that is demanded runs until the next reset only."""
    held = v.slot(0)
    device = v.fpga(slots=(replace(held, item=replace(held.item, staged='6.6')),), locks=v.fpga().locks[:2])
    rules = v.baseline(firmware=None, functions=(('Slot0', 'gzip'),))
    assert ['function Slot0'] == [str(f.subject) for f in verdict(device, rules=rules).unmet]
    made = plan(v.inventory(device), rules, v.NODE, [v.function_image()])
    assert ['Program'] == [type(a).__name__ for a in made.actions if hasattr(a, 'slot')]


@pytest.mark.parametrize('unsaid', [{'model': None}, {'vendor': None}, {'pci': PciIds()}])
def test_a_device_that_does_not_say_what_it_is_does_not_slip_out_of_its_rule(unsaid):
    """The rule names a model, and the BMC just does not show it: nobody can tell that the firmware is right."""
    match = Match(kind=Kind.GPU, vendor='nvidia', model='H100*', pci='0x10de:*')
    rules = v.baseline(match=match, block=None)
    device = v.gpu(**unsaid)
    assert 'rule all' in [str(f.subject) for f in verdict(device, rules=rules).unmet]
    assert any('rule all' in r for r in refusals(device, rules))


@pytest.mark.parametrize('other', [{'kind': Kind.NIC}, {'vendor': 'AMD'}])
def test_a_rule_that_is_surely_for_other_devices_asks_nothing_of_one_without_a_model(other):
    """What is known and different decides."""
    rules = v.baseline(match=Match(kind=Kind.GPU, vendor='nvidia', model='H100*'))
    found = verdict(v.gpu(**({'model': None} | other)), rules=rules).findings
    assert [('rule all', Met.YES)] == [(str(f.subject), f.met) for f in found if f.accelerator is None]
    subjects = [str(f.subject) for f in found if f.accelerator is not None]
    assert subjects
    assert all(s.startswith('lock ') for s in subjects)


def test_a_rule_after_the_one_that_decides_asks_nothing():
    """The first rule that matches wins; what comes later need not be decided."""
    first = v.baseline().rules[0]
    later = replace(first, name='later', match=Match(model='H100*'))
    device = v.gpu(model=None, firmware=(v.component(version=v.NEW),))
    assert verdict(device, rules=baseline_rules.Baseline(rules=(first, later))).met


def test_a_lock_that_we_engaged_and_that_is_not_shown_any_more_is_not_met():
    """It is no lock that never was, so a waiver of a missing one does not speak of it."""
    gone = v.reading()
    device = v.gpu(firmware=(v.component(version=v.NEW),), locks=())
    rules = v.waiving()
    assert verdict(device, rules=rules, engaged=[]).met
    assert ['lock rot'] == [
        str(f.subject) for f in verdict(device, rules=rules, engaged=[v.engagement(gone, flow='deploy')]).unmet
    ]
    assert verdict(device, rules=rules, engaged=[v.engagement(gone, lifecycle=v.LIFECYCLE - 1)]).met


def test_a_reset_of_one_system_brings_nothing_of_another_in_force():
    """A card's own System may be behind the same BMC as the host's."""
    card = v.ref('Systems/Card')
    lock = v.reading(needs=ResetKind.POWER_CYCLE, reset=card)

    def after(system):
        reset = Reset(system=system, purpose=ResetPurpose.ENFORCE, kind=ResetKind.POWER_CYCLE, why=('x',))
        job = Job(
            id='j', target='t', node='n', flow=Flow.CLEAN, step='s', lifecycle=v.LIFECYCLE, created=v.EARLIER,
            deadline=v.NOW + timedelta(hours=1), items=(Item(action=reset, since=v.EARLIER, state=ItemState.RUNNING),),
            engagements=(v.engagement(lock, reset_at=None),),
        )  # fmt: skip
        return advance(job, Sight(resets={0: True}), v.NOW, RetryLimits()).job.engagements[0].reset_at

    assert (None, v.NOW) == (after(v.SYSTEM), after(card))


# ----------------------------------------------------------------------------------------------------- what is told of versions


@pytest.mark.parametrize('told', ['\uff12.0', '2.0\u200b', '2\u2024\u0030', 'vv2.0', '2.0.', '\u00a02.0'])
def test_a_version_that_looks_like_the_demanded_one_is_another_one(told):
    """The card runs something else, and its BMC wants us to see what we look for."""
    device = v.gpu(firmware=(v.component(version=told),))
    assert not verdict(device).met
    assert 1 == sum(isinstance(a, Flash) for a in plan(v.inventory(device), v.baseline(), v.NODE, IMAGES).actions)


@pytest.mark.parametrize('hides', [{'pci': PciIds()}, {'model': None}, {'vendor': None}])
def test_a_card_that_hides_what_it_is_does_not_keep_a_denied_version(hides):
    """No rule asks for its firmware, and no image fits it any more: what it runs is denied all the same."""
    catalogue = (v.image(version=v.OLD, denied='CVE-2026-1'),)
    seen, rules = v.inventory(v.gpu(**hides)), v.baseline(firmware=None)
    found = verify(seen, rules, v.NODE, catalogue, [v.engagement()], lifecycle=v.LIFECYCLE)
    assert ['firmware GPU_0'] == [str(f.subject) for f in found.unmet]
    assert any('CVE-2026-1' in why for why in refusal_words.reasons(plan(seen, rules, v.NODE, catalogue)))


def test_a_card_that_hides_an_id_does_not_get_a_denied_version():
    """One of two images of a version is denied, that for the id that the BMC hides: nobody can tell them apart afterwards."""
    hidden = (Fit(pci='0x10de:0x2330', software_id='0x0020'),)
    device = v.inventory(v.gpu(firmware=(v.component(software_id=None),)))
    bad = v.image('bad', fits=hidden, denied='CVE-2026-1')
    assert ['version 2.0 is denied: CVE-2026-1'] == refusal_words.reasons(plan(device, v.baseline(), v.NODE, (v.image(), bad)))
    over = (v.image(via=('1.5',)), v.image('step', version='1.5', reset=ResetKind.NONE), replace(bad, version='1.5'))
    assert ['version 1.5 is denied: CVE-2026-1'] == refusal_words.reasons(plan(device, v.baseline(), v.NODE, over))
    back = (v.image(restore='back'), v.image('back', version='0.9'), replace(bad, version='0.9'))
    found = refusal_words.reasons(plan(device, v.baseline(), v.NODE, back))
    assert ['restore image back is denied: CVE-2026-1'] == found


def test_an_item_that_stands_above_all_others_is_refused_in_a_few_words():
    """A BMC that calls the collection of all items an item of each of its many cards does not fill the log."""

    def card(number):
        items = (
            replace(v.component(f'GPU_{number}'), ref=v.ref('UpdateService/FirmwareInventory')),
            v.component(f'GPU_x{number}', version='6.6'),
        )
        locks = (v.reading(accelerator=f'uuid:{number}', place=f'Chassis/{number}', blocks=v.ALL_PATHS),)
        return v.gpu(id=f'uuid:{number}', refs=(v.ref(f'P/{number}'),), firmware=items, locks=locks)

    seen = v.inventory(*(card(number) for number in range(300)))
    made = plan(seen, v.baseline(), v.NODE, IMAGES)
    assert 300 == sum('represents several parts' in why for why in refusal_words.reasons(made))
    assert 1000 > max(map(len, refusal_words.reasons(made)))


def test_a_card_that_hides_an_id_is_not_taken_below_what_it_runs():
    """The image of the old version has one id less than that of the running one, which the BMC does not show any more."""
    running = v.image('running', version=v.OLD, security_version=9, fits=(Fit(pci='0x10de:0x2330', software_id='0x0020'),))
    device = v.gpu(firmware=(v.component(software_id=None),))
    reasons = refusal_words.reasons(plan(v.inventory(device), v.baseline(), v.NODE, (v.image(), running)))
    (reason,) = reasons
    assert reason.startswith(
        'image gpu-new has security version 5, the floor is 9, that of 1.0, which runs (security_version of image running '
    )


def test_a_bmc_that_makes_an_update_fail_gets_nothing_older_back():
    """Neither by failing one, nor by staging something that has to be written over."""
    old = v.image('old', version='0.5', security_version=1)
    rules = v.baseline(block=frozenset())
    runs = v.image('runs', version=v.OLD, security_version=5)
    failing = plan(v.inventory(), rules, v.NODE, (v.image(restore='old'), runs, old))
    (reason,) = refusal_words.reasons(failing)
    assert reason.startswith('restore image old has security version 1, the floor is 5, that of 1.0, which runs (')
    staged = v.inventory(v.gpu(firmware=(v.component(version=v.NEW, staged='0.5'),)))
    again = plan(staged, rules, v.NODE, (v.image(restore='old'), old))
    assert ['gpu-new'] == [a.restore for a in again.actions if isinstance(a, Flash)]
    assert () == again.refusals


def test_a_bmc_cannot_ask_for_what_cannot_be_undone():
    """Whatever version a component shows, a revocation comes from a rule that names it."""
    revoke = v.image('revoke', kind=ImageKind.REVOCATION, component='*')
    for version in (v.OLD, v.NEW, None):
        device = v.inventory(v.gpu(firmware=(v.component(version=version),)))
        made = plan(device, v.baseline(), v.NODE, (revoke,))
        assert not [a for a in made.actions if isinstance(a, Flash)]


# -------------------------------------------------------------------------------------------------------------- two BMCs


def behind(bmc, **changes):
    uri = Ref(bmc=BmcName(bmc), uri=f'/redfish/v1/Systems/1/Processors/{changes.pop("at", "0")}')
    return v.gpu(primary=uri, refs=(uri,), **changes)


def test_no_device_hides_another_kind_of_device_by_its_uuid():
    """A DPU's BMC that gives the UUID of a GPU does not make the GPU a part of the DPU, where no rule of GPUs holds."""
    gpu = behind('host', uuid='11111111-1111-1111-1111-111111111111')
    dpu = behind('dpu', uuid='11111111-1111-1111-1111-111111111111', kind=Kind.DPU)
    assert {Kind.GPU, Kind.DPU} == {a.kind for a in merge([gpu, dpu])}


UUID = '11111111-1111-1111-1111-111111111111'

RULES = """
format = 1
[[rule]]
name = "h100"
match = { %s }
firmware = { "HGX_FW_GPU_*" = "96.00.74.00.01" }
block = []
[[rule]]
name = "rest"
block = []
"""


@pytest.mark.parametrize('match', ['pci = "0x10de:0x2330"', 'model = "*H100*"', 'kind = "GPU"'])
@pytest.mark.parametrize('kind', [Kind.GPU, Kind.DPU])
def test_a_further_bmc_takes_no_card_of_the_host_out_of_its_rules(match, kind):
    """It gives the UUID of the host's GPU, whose firmware was rewritten, with other ids: the GPU is judged all the same."""
    host = behind('host', uuid=UUID, firmware=(v.component('HGX_FW_GPU_0', version='66.6'),), locks=())
    ids = {'vendor': 'Lab', 'model': 'Lab', 'part_number': '1', 'pci': PciIds(vendor_id='0x1234', device_id='0x0001')}
    claimed = behind('dpu', uuid=UUID, kind=kind, firmware=(), locks=(), **ids)
    rules = baseline.parse(RULES % match, 'b')
    verdict = verify(v.inventory(*merge([host, claimed])), rules, v.NODE, (), (), lifecycle=1)
    assert [host.id] == [f.accelerator for f in verdict.unmet if str(f.subject) == 'firmware HGX_FW_GPU_0']


@pytest.mark.parametrize('kind', [Kind.GPU, Kind.DPU])
def test_a_further_bmc_does_not_stand_for_a_card_of_the_host_that_is_gone(kind):
    """Whatever it shows of it."""
    host = behind('host', uuid=UUID, locks=())
    claimed = behind('dpu', uuid=UUID, kind=kind, locks=())
    (there,) = merge([claimed])
    assert (host.id, f'{host.id}@dpu') == (claimed.id, there.id)
    rules = baseline.parse(RULES % 'kind = "FPGA"', 'b')
    verdict = verify(v.inventory(there), rules, v.NODE, (), (), lifecycle=1, known=frozenset({host.id}))
    assert [(host.id, 'present')] == [(f.accelerator, str(f.subject)) for f in verdict.unmet]


def test_two_devices_of_one_identity_are_met_by_nothing():
    """Nobody can tell which one is meant."""
    twins = v.inventory(behind('host', locks=()), behind('host', locks=(), at='1'))
    verdict = verify(twins, baseline.parse(RULES % 'kind = "FPGA"', 'b'), v.NODE, (), (), lifecycle=1)
    assert ['2 devices with this identity'] == [f.fact.found for f in verdict.unmet]


def test_the_host_may_see_a_dpu_as_the_nic_that_it_is():
    """One device."""
    nic = behind('host', uuid='11111111-1111-1111-1111-111111111111', kind=Kind.NIC)
    dpu = behind('dpu', uuid='11111111-1111-1111-1111-111111111111', kind=Kind.DPU)
    assert [Kind.DPU] == [a.kind for a in merge([nic, dpu])]


def test_a_uuid_that_repeats_identifies_nothing():
    """Two cards of one BMC are two cards, whatever another BMC says."""
    same = '11111111-1111-1111-1111-111111111111'
    cards = [behind('host', uuid=same, id='uri:a', at='a'), behind('host', uuid=same, id='uri:b', at='b')]
    assert 3 == len(merge([*cards, behind('other', uuid=same)]))


def test_two_thousand_devices_are_merged_in_no_time():
    """As many as a hostile collection may have."""
    many = [behind('host', id=f'uri:{n}', serial=f's{n}', at=str(n)) for n in range(2000)]
    began = time.process_time()
    assert 2000 == len(merge(many))
    assert 20 > time.process_time() - began


# ------------------------------------------------------------------------------------------------------------- documents


IMAGE = """
[[image]]
name = "a"
kind = "firmware"
fits = [{model = "x"}]
component = "x"
version = "1"
security_version = 1
source = "%s"
size = 1
digest = "sha256:%s"
restore = "none"
"""


@pytest.mark.parametrize(
    'text', [f'format = {"9" * 5000}', f'format = 1\n[[rule]]\ncount = {"9" * 5000}', 'format = 1\nx = ' + '[' * 9999]
)
def test_a_document_that_python_cannot_read_is_a_wrong_document(text):
    """A number of 5000 digits is a ValueError of its own."""
    with pytest.raises(DocumentError):
        baseline.parse(text, 'baseline.toml')


@pytest.mark.parametrize('source', ['a\\u0000b', 'a\\nb', 'a\\u001b[2Jb', 'a\\u202eb'])
def test_text_that_cannot_be_printed_is_refused(source):
    """It would be a path that no file can have, or a line of its own in a log."""
    with pytest.raises(DocumentError, match=r'line 9.*cannot be printed'):
        catalogue.parse('format = 1' + IMAGE % (source, '0' * 64), 'catalogue.toml')


def test_many_rules_are_read_in_no_time():
    """Twenty thousand empty rules took 45 seconds."""
    began = time.process_time()
    assert 20000 == len(baseline.parse('format = 1\n' + '[[rule]]\n' * 20000, 'baseline.toml').rules)
    assert 15 > time.process_time() - began


def test_a_value_that_is_nested_too_deeply_has_a_literal():
    """It could be read where the stack was not as deep."""
    deep = []
    for _ in range(100_000):
        deep = [deep]
    assert '"nested too deeply"' == literal(deep)
    assert '[[1]]' == literal([[1]])


def test_a_value_that_is_cut_says_so():
    """Who reads the record of it does not take the beginning for all of it; what fits is whole."""
    assert f'"{"x" * 398}"' == literal('x' * 398)
    assert f'"{"x" * 399}... (cut, of 401 characters)' == literal('x' * 399)


@pytest.mark.parametrize(('kind', 'field', 'value'), [
    (Engagement, 'at', '2026-11-21T12:00:00'),
    (RetryLimits, 'poll', 1e300),
])  # fmt: skip
def test_a_stored_time_that_is_none_is_a_stale_job(kind, field, value):
    """A time without a zone cannot be compared, a span of 1e300 seconds cannot be held."""
    good = encode(v.engagement() if kind is Engagement else RetryLimits())
    assert decode(kind, good)
    with pytest.raises(StaleJob):
        decode(kind, good | {field: value})
