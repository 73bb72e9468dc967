# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A plan says what will be done, in which order, and refuses what is not safe."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from fnmatch import fnmatchcase
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baremetal_acc.errors import Refused
from baremetal_acc.model.accelerator import PciIds, ReconfigurationSlot
from baremetal_acc.model.action import (
    CheckImage,
    Engage,
    Flash,
    Program,
    Publish,
    Release,
    Reset,
    ResetPurpose,
    Stage,
    Withdraw,
    stage,
)
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.image import Fit, ImageKind
from baremetal_acc.model.inventory import Gap, PowerState, Sending, UpdateFacts, UploadWay
from baremetal_acc.model.lock import LockState, ResetKind, Scope, WritePath
from baremetal_acc.model.ref import HOST, BmcName, Ref
from baremetal_acc.planning import waivers
from baremetal_acc.planning.image_selection import same_version
from baremetal_acc.planning.plan import EVERYTHING, Part, plan
from baremetal_acc.policy.baseline_rules import Baseline, Downgrade, Match, Offering, OnMissing
from baremetal_acc.render.refusals import raise_if_unsafe
from tests.unit.planning import refusal_words
from tests.unit.planning import values as v

FUNCTIONS = v.baseline(firmware=None, functions=(('Slot*', 'gzip'),))


def made(inventory=None, baseline=None, catalogue=None, **how):
    catalogue = (v.image(), v.function_image()) if catalogue is None else catalogue
    return plan(inventory or v.inventory(), baseline or v.baseline(), v.NODE, catalogue, **how)


def reasons(*args, **how):
    return refusal_words.reasons(made(*args, **how))


def kinds(result):
    return [type(a).__name__ for a in result.actions]


def test_an_old_component_is_flashed_locked_and_published():
    """Withdraw first, check the image, flash, engage, reset once, publish."""
    result = made()
    assert ['Withdraw', 'CheckImage', 'Flash', 'Engage', 'Reset', 'Publish'] == kinds(result)
    assert () == result.refusals
    flash = result.actions[2]
    assert (v.GPU, 'GPU_0', 'gpu-new', v.NEW, v.OLD) == (
        flash.accelerator,
        flash.component,
        flash.image,
        flash.version,
        flash.expects,
    )


def test_the_same_values_give_the_same_plan():
    """Whatever order the devices and images come in."""
    devices = (v.gpu(), v.fpga())
    forward = made(v.inventory(*devices))
    backward = made(v.inventory(*devices[::-1]), catalogue=(v.function_image(), v.image()))
    assert forward.actions == backward.actions


def test_locks_are_engaged_before_any_reset():
    """No tenant's code runs while a lock is open."""
    order = [stage(a) for a in made(hold=True).actions]
    assert order == sorted(order)
    assert Stage.ENGAGE < Stage.RESET


def test_what_is_as_demanded_is_not_written():
    """Only the locks are engaged again: a lock that was found closed is no evidence."""
    device = v.gpu(firmware=(v.component(version=v.NEW),))
    assert ['Engage', 'Publish'] == kinds(made(v.inventory(device)))


def test_a_staged_stranger_is_written_over():
    """The right version runs, and something else waits for the reset."""
    device = v.gpu(firmware=(v.component(version=v.NEW, staged='6.6.6'),))
    assert 'Flash' in kinds(made(v.inventory(device)))


def test_only_what_was_asked_for_is_touched():
    """Firmware and functions are two things, with different rights."""
    devices = v.inventory(v.gpu(), v.fpga())
    rules = v.baseline(functions=(('Slot*', 'gzip'),), firmware=(('GPU_*', v.NEW), ('FPGA1', v.NEW)))
    # Each device has only some of what the one rule names: the rest is refused, and is not what this test is about.
    writes = {
        part: {type(a) for a in made(devices, rules, parts=frozenset({part})).actions} & {Flash, Program}
        for part in (Part.FIRMWARE, Part.FUNCTIONS, Part.LOCK)
    }
    assert {Part.FIRMWARE: {Flash}, Part.FUNCTIONS: {Program}, Part.LOCK: set()} == writes


def test_one_reset_serves_all_that_need_one():
    """At most one reboot of the node."""
    two = (v.gpu(), v.gpu(id='uuid:gpu-1', firmware=(v.component('GPU_1'),), locks=()))
    result = made(v.inventory(*two), v.baseline(block=frozenset()))
    resets = [a for a in result.actions if isinstance(a, Reset)]
    assert 2 == sum(isinstance(a, Flash) for a in result.actions)
    assert [(v.SYSTEM, ResetKind.POWER_CYCLE, ResetPurpose.ENFORCE)] == [(r.system, r.kind, r.purpose) for r in resets]


def test_a_held_host_goes_off_before_and_comes_back_after_everything():
    """The power cycle of the holding is the reset that the firmware needs."""
    resets = [a for a in made(hold=True).actions if isinstance(a, Reset)]
    assert [ResetPurpose.HOLD, ResetPurpose.RESUME] == [r.purpose for r in resets]
    assert [Stage.HOLD, Stage.RESET] == [stage(r) for r in resets]


def test_a_host_that_was_off_is_not_given_back_for_nothing():
    """A host found off stays off, unless firmware needs it on to take effect."""
    off = v.inventory(bmcs=(v.facts(power=PowerState.OFF),))
    immediate = (v.image(reset=ResetKind.NONE),)
    purposes = [a.purpose for a in made(off, catalogue=immediate, hold=True).actions if isinstance(a, Reset)]
    assert [ResetPurpose.HOLD] == purposes


def test_a_host_is_not_held_when_nothing_is_opened_or_written():
    """Engaging a lock needs no outage."""
    device = v.gpu(firmware=(v.component(version=v.NEW),))
    assert [] == [a for a in made(v.inventory(device), hold=True).actions if isinstance(a, Reset)]


def test_what_is_unlocked_on_purpose_keeps_the_host_off():
    """Otherwise the tenant's code would run at open locks."""
    result = made(parts=frozenset({Part.UNLOCK}), hold=True)
    assert [ResetPurpose.HOLD] == [a.purpose for a in result.actions if isinstance(a, Reset)]
    assert 'Release' in kinds(result)
    assert 'Engage' not in kinds(result)


def test_an_unlock_says_which_locks_it_leaves_closed():
    """It opens the card's own way to the host, and what the rules want closed; who wants the rest open has to know of it."""
    kcs = v.reading(mechanism='kcs', blocks=frozenset({WritePath.HOST_BMC_IPMI}), place='Managers/1', scope=Scope.BMC)
    open_one = replace(kcs, mechanism='nic', state=LockState.UNLOCKED)
    two = (v.gpu(locks=(v.reading(), kcs, open_one)), v.gpu(id='uuid:gpu-1', locks=(replace(kcs, accelerator='uuid:gpu-1'),)))
    result = made(v.inventory(*two), parts=frozenset({Part.UNLOCK}))
    assert ['rot'] == [a.mechanism for a in result.actions if isinstance(a, Release)]
    text = 'left engaged: kcs at host:/redfish/v1/Managers/1, since no rule requires host-bmc-ipmi to be blocked'
    assert [('BMC host', text)] == [(n.label, n.text) for n in in_words(result.notes)]
    all_paths = made(v.inventory(*two), v.baseline(block=v.ALL_PATHS), parts=frozenset({Part.UNLOCK}))
    assert {'rot', 'kcs'} == {a.mechanism for a in all_paths.actions if isinstance(a, Release)}
    assert () == all_paths.notes


def test_a_lock_on_our_own_way_is_released_for_the_flash_and_engaged_again():
    """WriteProtected blocks the BMC's path too; a lock of the host's path stays closed all the while."""
    protected = v.reading(mechanism='wp', blocks=v.ALL_PATHS, scope=Scope.COMPONENT, part='GPU_0', place='GPU_0')
    host_only = v.reading()
    result = made(v.inventory(v.gpu(locks=(protected, host_only))))
    assert ['wp'] == [a.mechanism for a in result.actions if isinstance(a, Release)]
    assert ['rot', 'wp'] == sorted(a.mechanism for a in result.actions if isinstance(a, Engage))


def test_a_lock_that_the_device_cannot_close_is_refused_before_anything_is_engaged():
    """Engaging it would leave the way in. Where another lock closes the same path, nothing is missed."""
    hollow = v.reading(LockState.UNLOCKED, mechanism='hollow', place='Drives/0', closable=False, reason='it cannot lock x')
    reasons = refusal_words.sentences(made(v.inventory(v.gpu(locks=(hollow,)))))
    why = 'it cannot lock x (rule all requires it)'
    assert [f'H100 GPU_0, lock host-device: GPU_0 cannot be locked by hollow at host:/redfish/v1/Drives/0: {why}'] == reasons
    open_one = v.reading(LockState.UNLOCKED)
    assert () == made(v.inventory(v.gpu(locks=(hollow, open_one)))).refusals
    enabled = replace(hollow, state=LockState.PARTIAL)
    assert () == made(v.inventory(v.gpu(locks=(enabled, open_one)))).refusals
    assert () == made(v.inventory(v.gpu(locks=(hollow,))), v.baseline(block=frozenset())).refusals


def test_a_lock_of_another_component_is_not_released():
    """Only what stands in the way of this very write."""
    other = v.reading(mechanism='wp', blocks=v.ALL_PATHS, scope=Scope.COMPONENT, part='Other', place='Other')
    device = v.gpu(firmware=(v.component(), v.component('Other')), locks=(other, v.reading()))
    assert 'Release' not in kinds(made(v.inventory(device)))


@pytest.mark.parametrize('state', [LockState.UNKNOWN, LockState.PARTIAL, LockState.PENDING_RESET])
def test_a_lock_that_may_stand_in_the_way_is_released(state):
    """Unknown is not open."""
    protected = v.reading(state, mechanism='wp', blocks=v.ALL_PATHS, scope=Scope.COMPONENT, part='GPU_0', place='GPU_0')
    assert 'Release' in kinds(made(v.inventory(v.gpu(locks=(protected,)))))


@pytest.mark.parametrize(
    ('slot', 'offer', 'wants', 'whole'),
    [
        (v.slot(0), None, 'aes', True),
        (v.slot(0), Offering.FUNCTION, 'aes', True),
        (v.slot(0), Offering.REGION, 'aes', False),
        (v.slot(0), Offering.DEVICE, 'aes', False),
        (v.slot(0), None, 'gzip', False),
        (v.slot(0, None, None), None, 'aes', False),
    ],
)
def test_all_of_a_node_is_withdrawn_where_what_is_claimed_as_its_function_gets_another(slot, offer, wants, whole):
    """A slot that holds nothing, or what it is given again, promises nobody anything else."""
    aes = v.function_image('aes-1', function='aes', uuid=None)
    rules = v.baseline(firmware=None, functions=(('Slot0', wants),), offer=offer, block=frozenset())
    card = v.fpga(slots=(slot,), locks=())
    result = made(v.inventory(card), rules, (v.function_image(), aes), anew=frozenset({(v.FPGA, 'Slot0')}))
    assert () == result.refusals
    assert [(wants, whole)] == [
        (program.function, withdraw.whole)
        for withdraw in result.actions
        if isinstance(withdraw, Withdraw)
        for program in result.actions
        if isinstance(program, Program)
    ]


def test_a_programmed_slot_is_left_alone_and_an_empty_one_is_programmed():
    """Slot0 holds gzip already."""
    result = made(v.inventory(v.fpga()), FUNCTIONS)
    assert ['Slot1'] == [a.slot for a in result.actions if isinstance(a, Program)]
    assert () == result.refusals


def test_locks_that_need_a_reset_bring_it():
    """Otherwise they would be pending for ever."""
    dpu_system = v.ref('Systems/Bluefield')
    lock = v.reading(needs=ResetKind.POWER_CYCLE, reset=dpu_system)
    device = v.gpu(firmware=(v.component(version=v.NEW),), locks=(lock,))
    result = made(v.inventory(device))
    assert [(dpu_system, ResetKind.POWER_CYCLE)] == [(a.system, a.kind) for a in result.actions if isinstance(a, Reset)]


def test_restore_images_are_checked_too():
    """The way back must be at hand before the way forth is taken."""
    back = v.image('gpu-old', version=v.OLD, security_version=5)
    result = made(catalogue=(v.image(restore='gpu-old'), back))
    assert ['gpu-new', 'gpu-old'] == [a.image for a in result.actions if isinstance(a, CheckImage)]


def test_nothing_is_published_that_was_not_asked_for():
    """publish is a part of its own."""
    result = made(parts=EVERYTHING - {Part.PUBLISH})
    assert not [a for a in result.actions if isinstance(a, Withdraw | Publish)]


@pytest.mark.parametrize(
    ('change', 'reason'),
    [
        ({'firmware': ()}, 'the BMC reports no such component'),
        ({'firmware': (v.component(version=None),)}, 'its version could not be read'),
        ({'firmware': (v.component(certain=False),)}, 'the BMC does not say that GPU_0 belongs to this device'),
        ({'firmware': (v.component(updateable=False),)}, 'the BMC says that it is not updateable'),
        ({'model': 'H200'}, 'the catalogue has no image of version 2.0 that fits'),
        ({'vendor': None}, 'the catalogue has no image of version 2.0 that fits'),
        ({'locks': ()}, 'no mechanism blocks this path for GPU_0'),
    ],
)
def test_a_device_that_is_not_safe_to_write_is_refused(change, reason):
    """Each with its reason."""
    found = reasons(v.inventory(v.gpu(**change)))
    assert 1 == len(found)
    assert reason in found[0]


@pytest.mark.parametrize(
    ('update', 'reason'),
    [
        (None, v.NO_FIRMWARE),
        (UpdateFacts(push=False, pull=True), 'can only fetch images itself (SimpleUpdate)'),
        (UpdateFacts(push=False, pull=True), 'set option [baremetal_acc] image_server_host, in the configuration of'),
        (UpdateFacts(push=False, pull=False), 'offers no way to send an image'),
        (UpdateFacts(push=True, pull=True, max_size=999), 'image gpu-new has 1000 bytes, BMC host accepts at most 999'),
        (
            UpdateFacts(
                push=True,
                pull=False,
                sending=Sending(
                    way=UploadWay.MULTIPART_PUSH,
                    apply_time=None,
                    obstacle='images are applied only at night (OperationApplyTime)',
                ),
            ),
            'BMC host accepts no image: images are applied only at night (OperationApplyTime)',
        ),
    ],
)
def test_a_bmc_that_cannot_take_the_image_is_refused(update, reason):
    """Each with its reason."""
    (found,) = reasons(v.inventory(bmcs=(v.facts(update=update),)))
    assert reason in found


def test_a_lower_security_version_is_refused():
    """The floor is what runs now, as the catalogue knows it, or what the rules say."""
    running = v.image('gpu-old', version=v.OLD, security_version=6)
    (found,) = reasons(catalogue=(v.image(), running))
    assert 'security version 5, the floor is 6' in found
    (found,) = reasons(baseline=v.baseline(security_floor=9))
    assert 'the floor is 9' in found
    assert [] == reasons(catalogue=(v.image(), replace(running, security_version=5)))


def test_several_images_that_fit_are_refused():
    """The plan does not choose."""
    (found,) = reasons(catalogue=(v.image(), v.image('gpu-other')))
    assert 'several images of the catalogue fit version 2.0: gpu-new, gpu-other' in found


def test_a_function_image_never_goes_to_firmware_nor_the_reverse():
    """Firmware and function are two things."""
    (found,) = reasons(catalogue=(v.function_image(fits=v.image().fits, component='GPU_*'),))
    assert 'no image' in found
    as_firmware = v.image('gzip', fits=v.function_image().fits, component='Slot*')
    found = reasons(v.inventory(v.fpga()), FUNCTIONS, catalogue=(as_firmware,))
    assert ['no image' in reason for reason in found] == [True, True]


def test_a_restore_image_that_fits_another_card_is_refused():
    """A way back that leads elsewhere is none."""
    back = v.image('other', fits=v.function_image().fits, version='9')
    (found,) = reasons(catalogue=(v.image(restore='other'), back))
    assert 'does not fit this device' in found
    (found,) = reasons(catalogue=(v.image(restore='lost'),))
    assert 'restore image lost is not in the catalogue' in found


def test_a_machine_that_may_hide_devices_is_refused():
    """So is one with none, or with too few."""
    gap = Gap(ref=v.ref('Chassis'), reason='HTTP 500', hides=True)
    assert ['devices may be hidden by what could not be read: HTTP 500'] == reasons(v.inventory(v.gpu(), gaps=(gap,)))
    assert ['none was found'] == reasons(replace(v.inventory(), accelerators=()))
    assert ['expected 4 matching devices, found 1'] == reasons(baseline=v.baseline(count=4))


def test_a_waived_open_path_is_said_out_loud():
    """What stays open, of which part, until when, by whom, by which rule, and why."""
    rules = v.waiving(WritePath.HOST_BMC_IPMI, block=frozenset({WritePath.HOST_BMC_IPMI}))
    result = made(baseline=rules)
    assert () == result.refusals
    said = (
        'host-bmc-ipmi of GPU_0 stays open: no mechanism blocks it, waived until 2026-12-21 12:00:00 UTC by security '
        '(rule all): the rack is locked'
    )
    assert ('H100 GPU_0', said) in in_words(result.notes)


def test_a_waiver_that_has_ended_refuses_and_says_so():
    """From the very moment; and one that would hold for more than a year has never begun."""
    paths = {'block': frozenset({WritePath.HOST_BMC_IPMI})}
    asked = 'no mechanism blocks this path for GPU_0 (rule all requires it); the waiver of rule all by security '
    for expires, why in (
        (v.NOW, 'expired 2026-11-21 12:00:00 UTC'),
        (
            v.NOW + timedelta(days=366, seconds=1),
            'runs until 2027-11-22 12:00:01 UTC, but no waiver may run for more than 366 days',
        ),
    ):
        rules = v.waiving(waiver=v.waiver(WritePath.HOST_BMC_IPMI, expires=expires), **paths)
        assert [asked + why] == reasons(baseline=rules)
    for expires in (v.NOW + timedelta(microseconds=1), v.NOW + timedelta(days=366)):
        assert [] == reasons(baseline=v.waiving(waiver=v.waiver(WritePath.HOST_BMC_IPMI, expires=expires), **paths))


def test_a_waiver_of_another_path_waives_nothing():
    """Each path is waived by its name."""
    rules = v.waiving(WritePath.HOST_BMC_REDFISH, block=frozenset({WritePath.HOST_BMC_IPMI}))
    assert ['no mechanism blocks this path for GPU_0 (rule all requires it)'] == reasons(baseline=rules)


def test_a_waiver_is_for_no_mechanism_that_has_vanished():
    """The plan refuses as the verdict does."""
    seen, before = v.inventory(v.gpu(locks=())), frozenset({(v.GPU, WritePath.HOST_DEVICE, 'GPU_0')})
    assert [] == reasons(seen, v.waiving())
    (found,) = reasons(seen, v.waiving(), blockable=before)
    assert found.endswith(waivers.HIDDEN)
    ipmi = frozenset({WritePath.HOST_BMC_IPMI})
    before = frozenset({(v.GPU, WritePath.HOST_BMC_IPMI, 'all by way of BMC host')})
    (found,) = reasons(baseline=v.waiving(*ipmi, block=ipmi), blockable=before)
    assert found.endswith(waivers.HIDDEN)


def test_what_is_asked_less_of_is_said_once_for_all_devices():
    """The rule, and what it lets go; also where nothing has to be done."""
    rules = v.baseline(custody=None)
    (first,) = [n for n in in_words(made(catalogue=(v.image(),), baseline=rules).notes) if 'less than the default' in n.text]
    assert ('node-1', 'less than the default: rule all: host-bmc-ipmi, host-bmc-redfish need not be blocked') == first
    assert [] == [
        n for n in in_words(made(baseline=v.baseline(block=None, custody=None)).notes) if 'less than the default' in n.text
    ]


def test_a_plan_with_refusals_does_not_pass():
    """And says every reason."""
    result = made(v.inventory(v.gpu(firmware=(), locks=())))
    with pytest.raises(Refused) as caught:
        raise_if_unsafe(result)
    assert 2 == len(caught.value.reasons)
    assert all('H100 GPU_0' in reason for reason in caught.value.reasons)
    raise_if_unsafe(made())


def test_on_a_held_host_the_locks_of_untouched_devices_are_engaged_too():
    """The host is given back only when every lock is proven; without the hold a device that is not meant is left alone."""
    both = v.inventory(v.gpu(), v.fpga())
    held = made(both, only=frozenset({v.GPU}), hold=True)
    assert {v.GPU, v.FPGA} == {a.accelerator for a in held.actions if isinstance(a, Engage)}
    assert {v.GPU} == {a.accelerator for a in held.actions if isinstance(a, Flash)}
    assert {v.GPU} == {a.accelerator for a in made(both, only=frozenset({v.GPU})).actions if isinstance(a, Engage)}


def test_a_rule_of_a_job_can_name_one_device():
    """A step argument asks for a function of one card; its twin keeps what the baseline asks for."""
    twin = v.fpga(id='uuid:fpga-2', slots=(v.slot(0, None, None),), locks=())
    rule = replace(FUNCTIONS.rules[0], match=Match(ids=frozenset({v.FPGA})), block=frozenset())
    result = made(v.inventory(v.fpga(locks=()), twin), Baseline(rules=(rule,)))
    assert {v.FPGA} == {a.accelerator for a in result.actions if isinstance(a, Program)}


def test_a_bmc_without_an_update_service_is_named():
    """It shows no component either, and that is why."""
    blind = v.inventory(v.gpu(firmware=()), bmcs=(v.facts(update=None),))
    assert [v.NO_FIRMWARE] == reasons(blind)


def flashes(*args, **how):
    return [a for a in made(*args, **how).actions if isinstance(a, Flash)]


def in_words(found):
    return refusal_words.notes(found)


def notes(*args, **how):
    return [n.text for n in in_words(made(*args, **how).notes)]


# ------------------------------------------------------------------------------------------------------------- right card


@pytest.mark.parametrize('fit', [Fit(model='H100'), Fit(vendor='NVIDIA'), Fit(vendor='NVIDIA', model='H100')])
def test_an_image_for_a_name_is_refused(fit):
    """Boards of one name take different firmware; the card is known by its ids."""
    assert ['image gpu-new fits by vendor and model only; name pci, part_number or software_id in its fits'] == reasons(
        catalogue=(v.image(fits=(fit,)),)
    )


def test_a_function_for_a_name_is_refused():
    """A slot takes what the FPGA around it takes."""
    (found,) = reasons(v.inventory(v.fpga()), FUNCTIONS, catalogue=(v.function_image(fits=(Fit(model='Stratix'),)),))
    assert 'fits by vendor and model only' in found


def test_a_card_that_does_not_show_the_id_is_refused():
    """What is not shown is not the same."""
    (found,) = reasons(v.inventory(v.gpu(pci=PciIds())))
    assert 'no image of version 2.0 that fits' in found


def test_an_item_of_two_devices_is_refused():
    """Nobody can tell which of them would get the image; so it is with one that stands for all that lies below it."""
    twin = v.gpu(id='uuid:gpu-1', refs=(v.ref('Systems/1/Processors/GPU_1'),), locks=())
    found = reasons(v.inventory(v.gpu(), twin), v.baseline(block=frozenset()))
    assert 2 == len(found)
    assert all('represents several parts: GPU_0 of H100 GPU_0 (uuid:gpu-0), GPU_0 of' in reason for reason in found)
    above = replace(v.component(), ref=v.ref('UpdateService/FirmwareInventory/'))
    other = v.gpu(firmware=(above, v.component('Other')))
    assert any('represents several parts' in reason for reason in reasons(v.inventory(other)))


def test_two_slots_of_one_item_are_refused():
    """One write would go to both."""
    slot = v.slot(1, None, None)
    shared = replace(slot, item=v.slot(0).item)
    found = reasons(v.inventory(v.fpga(slots=(v.slot(0), shared))), FUNCTIONS)
    assert any('represents several parts: slot Slot0 of' in reason for reason in found)


def test_a_slot_whose_item_is_a_guess_is_refused():
    """As a component is."""
    slot = v.slot(1, None, None)
    for change, why in (({'certain': False}, 'does not say that Slot1 belongs'), ({'updateable': False}, 'not updateable')):
        odd = replace(slot, item=replace(slot.item, **change))
        (found,) = reasons(v.inventory(v.fpga(slots=(v.slot(0), odd))), FUNCTIONS)
        assert why in found


def test_two_devices_of_one_identity_are_refused():
    """What is expected of one of them would be looked for in the other."""
    twin = v.gpu(firmware=(v.component('GPU_1'),), refs=(v.ref('Systems/1/Processors/GPU_1'),))
    assert '2 devices have this identity, so it is unknown which one is meant' in reasons(v.inventory(v.gpu(), twin))


# ------------------------------------------------------------------------------------------------------ down, and denied


def test_a_rule_allows_a_downgrade_and_the_plan_says_so():
    """Only of what that rule demands, and never below the floor."""
    running = v.image('gpu-old', version=v.OLD, security_version=6)
    rules = v.baseline(downgrade=Downgrade.ALLOW)
    assert [] == reasons(baseline=rules, catalogue=(v.image(), running))
    assert 'firmware GPU_0 goes down from security version 6 to 5: rule all allows it' in notes(
        baseline=rules, catalogue=(v.image(), running)
    )
    (found,) = reasons(baseline=v.baseline(downgrade=Downgrade.ALLOW, security_floor=6), catalogue=(v.image(), running))
    assert 'security version 5, the floor is 6' in found
    assert not any('goes down' in text for text in notes(baseline=rules))


def test_a_function_below_the_floor_is_refused():
    """The floor speaks of every image."""
    rules = v.baseline(firmware=None, functions=(('Slot*', 'gzip'),), security_floor=6)
    (found,) = reasons(v.inventory(v.fpga()), rules)
    assert found.startswith('image gzip-2 has security version 5, the floor is 6, which security_floor of rule all sets: ')


def test_a_denied_image_is_refused_with_its_reason():
    """Also where it runs already, and where another image of that version is not denied."""
    denied = v.image(denied='CVE-2026-1')
    for version in (v.OLD, v.NEW):
        device = v.inventory(v.gpu(firmware=(v.component(version=version),)))
        assert ['version 2.0 is denied: CVE-2026-1'] == reasons(device, catalogue=(denied,))
        assert [] == flashes(device, catalogue=(denied,))
    assert ['version 2.0 is denied: CVE-2026-1'] == reasons(catalogue=(denied, v.image('other')))


def test_a_denied_version_that_runs_is_written_over_or_refused():
    """It goes where a rule says what has to run instead; where none does, nothing can be made good."""
    running = v.image('gpu-old', version=v.OLD, denied='CVE-2026-1')
    assert [] == reasons(catalogue=(v.image(), running))
    (found,) = reasons(baseline=v.baseline(firmware=None), catalogue=(running,))
    assert 'version 1.0 is denied (CVE-2026-1), and no rule says which version to run instead' == found
    assert [] == reasons(baseline=v.baseline(firmware=None), catalogue=(running,), parts=frozenset({Part.LOCK}))


def test_a_denied_function_is_refused_and_written_over():
    """By the one of the same name that is not denied."""
    denied = v.function_image(denied='it leaks')
    found = reasons(v.inventory(v.fpga()), FUNCTIONS, catalogue=(denied,))
    assert {'image gzip-2 is denied: it leaks'} == set(found)
    newer = v.function_image('gzip-3', version='3.0')
    result = made(v.inventory(v.fpga()), FUNCTIONS, catalogue=(denied, newer))
    assert () == result.refusals
    assert [('Slot0', 'gzip-3'), ('Slot1', 'gzip-3')] == [(a.slot, a.image) for a in result.actions if isinstance(a, Program)]


def test_a_function_of_a_denied_version_is_refused_whichever_image_brings_it():
    """Nobody could tell them apart afterwards."""
    denied = v.function_image(denied='it leaks')
    found = reasons(v.inventory(v.fpga()), FUNCTIONS, catalogue=(denied, v.function_image('other')))
    assert {'version 2.0 is denied: it leaks'} == set(found)


def test_a_denied_function_that_no_rule_speaks_of_is_refused():
    """Nothing that the plan could do would make the machine good."""
    denied = v.function_image(denied='it leaks')
    (found,) = reasons(v.inventory(v.fpga()), v.baseline(firmware=None), catalogue=(denied,))
    assert 'holds gzip-2, which is denied (it leaks), and no rule says what the slot has to hold instead' == found


# -------------------------------------------------------------------------------------------------------------- the way back


def test_every_flash_carries_its_way_back():
    """None only where the catalogue says that there is none."""
    back = v.image('gpu-old', version=v.OLD)
    assert ['gpu-old'] == [a.restore for a in flashes(catalogue=(v.image(restore='gpu-old'), back))]
    assert [None] == [a.restore for a in flashes()]


@pytest.mark.parametrize(
    ('change', 'reason'),
    [
        ({'denied': 'CVE-1'}, 'restore image back is denied: CVE-1'),
        (
            {'security_version': 4},
            'restore image back has security version 4, the floor is 5, that of 1.0, which runs (security_version of image '
            'running in the catalogue): only downgrade = "allow" in rule all permits a lower one',
        ),
        ({'component': 'HGX_ERoT_*'}, 'restore image back does not fit this device'),
        ({'fits': (Fit(model='H100'),)}, 'restore image back fits this device by vendor and model only'),
        ({'kind': ImageKind.REVOCATION}, 'restore image back is not a firmware image'),
        ({'size_bytes': 5000}, 'restore image back has 5000 bytes, its BMC accepts at most 4000'),
    ],
)
def test_a_way_back_that_is_none_is_refused(change, reason):
    """Whoever can make an update fail would choose it: it must be as good as the way forth."""
    there = v.inventory(bmcs=(v.facts(update=UpdateFacts(push=True, pull=True, max_size=4000)),))
    running = v.image('running', version=v.OLD, security_version=5)
    back = v.image('back', version='0.9')
    assert [] == reasons(there, catalogue=(v.image(restore='back'), running, back))
    assert reason in reasons(there, catalogue=(v.image(restore='back'), running, replace(back, **change)))


def test_what_runs_already_is_its_own_way_back():
    """To get rid of what a tenant staged, nothing older is ever put in its place."""
    device = v.gpu(firmware=(v.component(version=v.NEW, staged='6.6.6'),))
    older = v.image('gpu-old', version=v.OLD, security_version=1)
    result = made(v.inventory(device), catalogue=(v.image(restore='gpu-old'), older))
    assert () == result.refusals
    assert [('gpu-new', 'gpu-new')] == [(a.image, a.restore) for a in result.actions if isinstance(a, Flash)]


# ------------------------------------------------------------------------------------------------------------------ steps


STEPS = (
    v.image(via=('1.5', '1.6'), order=10, restore='gpu-1.5'),
    v.image('gpu-1.5', version='1.5', via=('1.2',), reset=ResetKind.NONE, order=10),
    v.image('gpu-1.2', version='1.2', via=('v1.0',), reset=ResetKind.NONE, order=5),
)


def test_versions_are_stepped_over_one_after_the_other():
    """Each write expects what the one before has left, comes after it, and one reset brings the last one in force."""
    result = made(catalogue=STEPS)
    assert () == result.refusals
    found = [a for a in result.actions if isinstance(a, Flash)]
    assert [('1.0', '1.2'), ('1.2', '1.5'), ('1.5', '2.0')] == [(a.expects, a.version) for a in found]
    assert [None, None, 'gpu-1.5'] == [a.restore for a in found]
    orders = [a.order for a in found]
    assert sorted(set(orders)) == orders
    assert 1 == sum(isinstance(a, Reset) for a in result.actions)
    assert 'firmware GPU_0 to 1.2 first: image gpu-1.5 may not be written over 1.0' in [n.text for n in in_words(result.notes)]


def test_steps_of_one_card_do_not_come_before_lower_orders_of_another():
    """What is to be written after an image of order 10 comes after its steps too."""
    late = v.component('Late')
    device = v.gpu(firmware=(v.component(), late))
    rules = v.baseline(firmware=(('GPU_*', v.NEW), ('Late', v.NEW)))
    found = flashes(v.inventory(device), rules, catalogue=(*STEPS, v.image('late', component='Late', order=11)))
    assert ['1.2', '1.5', '2.0', '2.0'] == [a.version for a in sorted(found, key=lambda a: a.order)]
    assert 'Late' == max(found, key=lambda a: a.order).component
    assert 4 == len({a.order for a in found})


def test_without_steps_orders_are_those_of_the_catalogue():
    """And equal ones may run together."""
    two = v.inventory(v.gpu(), v.gpu(id='uuid:gpu-1', refs=(v.ref('P/1'),), firmware=(v.component('GPU_1'),), locks=()))
    assert [7, 7] == [a.order for a in flashes(two, v.baseline(block=frozenset()), catalogue=(v.image(order=7),))]


def test_a_reset_between_two_steps_is_refused_and_the_first_one_named():
    """What needs a reset does not run when the next one is written."""
    between = replace(STEPS[1], reset=ResetKind.SYSTEM_RESET)
    result = made(catalogue=(STEPS[0], between, STEPS[2]))
    (found,) = refusal_words.reasons(result)
    assert 'require version 1.5 first (image gpu-1.5, in effect after a system-reset)' in found
    assert [] == [a for a in result.actions if isinstance(a, Flash)]
    step = made(baseline=v.baseline(firmware=(('GPU_*', '1.5'),)), catalogue=(STEPS[0], between, STEPS[2]))
    assert () == step.refusals
    assert ['1.2', '1.5'] == [a.version for a in step.actions if isinstance(a, Flash)]


def test_a_version_from_which_no_way_leads_is_refused():
    """The plan does not write what the catalogue does not allow."""
    (found,) = reasons(catalogue=(v.image(via=('1.9',)),))
    assert (
        'image gpu-new may be written over 1.9 only, and 1.0 runs; the catalogue has no chain of images that leads there'
        in found
    )


@pytest.mark.parametrize(
    ('change', 'reason'),
    [
        ({'security_version': 4}, 'image gpu-1.2 has security version 4, the floor is 5'),
        ({'fits': (Fit(model='H100'),)}, 'image gpu-1.2 fits by vendor and model only'),
        ({'size_bytes': 5000}, 'image gpu-1.2 has 5000 bytes, BMC host accepts at most 4000'),
        ({'restore': 'lost'}, 'restore image lost is not in the catalogue'),
        ({'denied': 'CVE-1'}, 'the catalogue has no chain of images that leads there'),
    ],
)
def test_a_step_is_as_safe_as_what_it_leads_to(change, reason):
    """It runs, if only for minutes, and stays where the next write fails."""
    there = v.inventory(bmcs=(v.facts(update=UpdateFacts(push=True, pull=True, max_size=4000)),))
    catalogue = (*STEPS[:2], replace(STEPS[2], **change), v.image('running', version=v.OLD, security_version=5))
    assert any(reason in found for found in reasons(there, catalogue=catalogue))


FORCES = (v.facts(update=UpdateFacts(push=True, pull=True, forces=True)),)
EQUAL = 'is sent with ForceUpdate: this version is already installed, and a BMC may skip an image of the same version'


@pytest.mark.parametrize('forces', [True, False])
def test_what_is_written_at_the_version_that_is_there_is_forced_where_the_bmc_can_be_told(forces):
    """Firmware and functions whose bytes are in doubt; and the plan says so."""
    bmcs = FORCES if forces else (v.facts(),)
    gpu, fpga = v.gpu(firmware=(v.component(version=v.NEW),)), v.fpga()
    for card, rules, subject in ((gpu, v.baseline(), 'firmware GPU_0'), (fpga, FUNCTIONS, 'function Slot0')):
        how = {'inventory': v.inventory(card, bmcs=bmcs), 'baseline': rules, 'again': frozenset({card.id})}
        written = [a for a in made(**how).actions if isinstance(a, Flash | Program)]
        same = [a for a in written if a.expects == a.version]
        assert [forces] == [a.forced for a in same]
        assert not any(a.forced for a in written if a not in same)
        assert forces is (f'{subject} {EQUAL}' in notes(**how))


def test_a_downgrade_that_a_rule_allows_is_forced_and_an_update_is_not():
    """Some BMCs refuse a lower version, unless they are told to write it."""
    running = v.image('gpu-old', version=v.OLD, security_version=6)
    how = {'inventory': v.inventory(v.gpu(), bmcs=FORCES), 'baseline': v.baseline(downgrade=Downgrade.ALLOW)}
    lower, higher = made(**how, catalogue=(v.image(), running)), made(**how)
    told = 'firmware GPU_0 is sent with ForceUpdate: a BMC may refuse an image of a lower version'
    assert [True, False] == [a.forced for plan in (lower, higher) for a in plan.actions if isinstance(a, Flash)]
    assert [True, False] == [told in [n.text for n in in_words(plan.notes)] for plan in (lower, higher)]


def test_steps_that_go_down_in_between_are_refused():
    """Up to a version, down, and up again is a downgrade for a while."""
    down = (STEPS[0], replace(STEPS[1], security_version=3), STEPS[2])
    assert any('image gpu-1.5 has security version 3, the floor is 5' in found for found in reasons(catalogue=down))


# ------------------------------------------------------------------------------------------------------------- revocations

REVOKE = v.image('revoke-1', kind=ImageKind.REVOCATION, component='Keys', version='7')
CARD = v.gpu(firmware=(v.component(version=v.NEW), v.component('Keys', '6')))
REVOKED = v.baseline(revocations=('revoke-1',))


def test_a_revocation_is_planned_where_a_rule_names_it():
    """With no way back, and said out loud."""
    result = made(v.inventory(CARD), REVOKED, catalogue=(v.image(), REVOKE))
    assert () == result.refusals
    assert [('Keys', 'revoke-1', '6', None)] == [
        (a.component, a.image, a.expects, a.restore) for a in result.actions if isinstance(a, Flash)
    ]
    assert 'revocation revoke-1 of Keys, which cannot be undone: rule all' in [n.text for n in in_words(result.notes)]


def test_a_revocation_is_never_chosen_by_its_version():
    """A rule that demands version 7 gets a firmware image or nothing."""
    (found,) = reasons(v.inventory(CARD), v.baseline(firmware=(('Keys', '7'),)), catalogue=(v.image(), REVOKE))
    assert 'the catalogue has no image of version 7 that fits' in found
    assert [] == flashes(v.inventory(CARD), catalogue=(v.image(), REVOKE))


def test_a_revocation_that_holds_is_not_written_again():
    """It is seen in what the card reports."""
    done = v.gpu(firmware=(v.component(version=v.NEW), v.component('Keys', 'v7')))
    assert [] == flashes(v.inventory(done), REVOKED, catalogue=(v.image(), REVOKE))


@pytest.mark.parametrize(
    'firmware',
    [
        (v.component(), v.component('Keys', '6')),
        (v.component(version=v.NEW, staged=v.NEW), v.component('Keys', '6')),
        (v.component(version=v.NEW), v.component('Keys', '6'), v.component('Other', '1', staged='2')),
    ],
)
def test_a_revocation_waits_until_all_firmware_of_the_card_runs(firmware):
    """After it the card takes nothing older: whatever might have to be put back must be out of the way."""
    result = made(v.inventory(v.gpu(firmware=firmware)), REVOKED, catalogue=(v.image(), REVOKE))
    (found,) = refusal_words.reasons(result)
    assert 'cannot be undone, so all other firmware has to run first' in found
    assert 'revoke-1' not in [a.image for a in result.actions if isinstance(a, Flash | CheckImage)]


def test_two_revocations_of_a_card_may_come_together():
    """Neither is in the way of the other, unless both want something else of one component."""
    other = v.image('revoke-2', kind=ImageKind.REVOCATION, component='Root', version='3')
    card = v.gpu(firmware=(*CARD.firmware, v.component('Root', '2')))
    rules = v.baseline(revocations=('revoke-1', 'revoke-2'))
    assert ['Keys', 'Root'] == sorted(a.component for a in flashes(v.inventory(card), rules, catalogue=(REVOKE, other)))
    (found,) = reasons(v.inventory(card), rules, catalogue=(REVOKE, replace(other, component='Keys')))
    assert 'version 7 is already required of Keys' == found


@pytest.mark.parametrize(
    ('image', 'reason'),
    [
        (v.image('other'), 'the catalogue has no such image'),
        (v.image('revoke-1'), 'the image is of kind firmware'),
        (replace(REVOKE, component='Nothing'), 'no component of the device fits'),
        (replace(REVOKE, fits=(Fit(pci='0x8086:0x0b2b'),)), 'no component of the device fits'),
        (replace(REVOKE, fits=(Fit(model='H100'),)), 'image revoke-1 fits by vendor and model only'),
        (replace(REVOKE, denied='wrong key'), 'image revoke-1 is denied: wrong key'),
        (replace(REVOKE, restore='gpu-new'), 'restore image gpu-new is not a firmware image'),
    ],
)
def test_a_revocation_that_is_not_safe_is_refused(image, reason):
    """It is as much a write as any other, and worse."""
    found = reasons(v.inventory(CARD), REVOKED, catalogue=(v.image(), image))
    assert any(reason in text for text in found)


# ---------------------------------------------------------------------------------------------------------- many at once


def test_a_reset_that_a_lock_needs_powers_no_host_on_that_is_not_held():
    """A lock that waits for a power cycle, on a tenant's host that is off: it is given back with everything proven, or not."""
    lock = v.reading(needs=ResetKind.POWER_CYCLE, reset=v.SYSTEM)
    off = v.inventory(v.gpu(locks=(lock,)), bmcs=(v.facts(power=PowerState.OFF),))
    only = {'parts': frozenset({Part.LOCK}), 'hold': True}
    assert [ResetPurpose.HOLD, ResetPurpose.RESUME] == [a.purpose for a in made(off, **only).actions if isinstance(a, Reset)]
    on = v.inventory(v.gpu(locks=(lock,)))
    assert [ResetPurpose.ENFORCE] == [a.purpose for a in made(on, **only).actions if isinstance(a, Reset)]


def test_a_held_host_is_not_given_back_with_a_quarantined_card_that_is_not_written():
    """It stays off, which is told; what needs it to start is refused, unless the card is written with it."""
    spoilt = v.gpu(id='uuid:gpu-1', firmware=(v.component('GPU_1', v.NEW),), locks=())
    both = v.inventory(v.gpu(), spoilt)
    how = {'hold': True, 'spoilt': frozenset({spoilt.id})}
    immediate = made(both, v.baseline(block=frozenset()), catalogue=(v.image(reset=ResetKind.NONE),), **how)
    assert [ResetPurpose.HOLD] == [a.purpose for a in immediate.actions if isinstance(a, Reset)]
    assert any('the host is left powered off' in n.text and 'uuid:gpu-1' in n.text for n in in_words(immediate.notes))
    assert any('write the quarantined cards in the same job' in r for r in reasons(both, v.baseline(block=frozenset()), **how))
    together = made(both, v.baseline(block=frozenset()), again=how['spoilt'], **how)
    assert ([], 2) == (list(together.refusals), sum(isinstance(a, Flash) for a in together.actions))
    assert [ResetPurpose.HOLD, ResetPurpose.RESUME] == [a.purpose for a in together.actions if isinstance(a, Reset)]
    gone = made(v.inventory(v.gpu()), v.baseline(block=frozenset()), **how)
    assert [ResetPurpose.HOLD, ResetPurpose.RESUME] == [a.purpose for a in gone.actions if isinstance(a, Reset)]


def test_a_system_that_is_written_in_two_ways_is_reset_once():
    """Some BMCs write one URI with a slash at its end, or in other letters."""
    lock = v.reading(needs=ResetKind.SYSTEM_RESET, reset=v.ref('systems/1/'))
    for hold, expected in ((False, [ResetPurpose.ENFORCE]), (True, [ResetPurpose.HOLD, ResetPurpose.RESUME])):
        resets = [a for a in made(v.inventory(v.gpu(locks=(lock,))), hold=hold).actions if isinstance(a, Reset)]
        assert expected == [r.purpose for r in resets]
        assert ResetKind.POWER_CYCLE is resets[-1].kind


def test_a_dpu_of_its_own_bmc_is_written_beside_the_host():
    """Each BMC takes what it takes, and each System is reset once."""
    dpu = BmcName('dpu')
    system = Ref(bmc=dpu, uri='/redfish/v1/Systems/Bluefield')
    item = replace(v.component('DPU_NIC'), ref=Ref(bmc=dpu, uri='/redfish/v1/UpdateService/FirmwareInventory/DPU_NIC'))
    card = v.gpu(id='uuid:dpu', refs=(system,), primary=system, firmware=(item,), locks=())
    both = v.inventory(v.gpu(), card, bmcs=(v.facts(), v.facts(name=dpu, system=system)))
    rules = v.baseline(firmware=(('*', v.NEW),), block=frozenset())
    result = made(both, rules, catalogue=(v.image(component='*'),))
    assert () == result.refusals
    assert {('host', 0), ('dpu', 0)} == {(a.ref.bmc, a.order) for a in result.actions if isinstance(a, Flash)}
    assert {('host', 1), ('dpu', 1)} == set(result.parallel)
    assert [system, v.SYSTEM] == sorted(a.system for a in result.actions if isinstance(a, Reset))


# ------------------------------------------------------------------------------------------------- whatever a BMC reports


VERSIONS = ('1.0', '1.2', '1.5', '2.0')
BMCS = (HOST, BmcName('dpu'))
WAYS_BACK = (None, 'back', 'to-1.5')


class Scene:
    """A machine, a baseline and a catalogue, mostly sane, with some of what a BMC may say and an operator may write."""

    def __init__(self, seed):
        self.random = Random(seed)
        self.oddity = self.random.choice([0, 0.01, 0.05, 0.2])
        self.cards = tuple(self.card(number) for number in range(self.odd(0, self.random.randint(1, 3))))
        self.catalogue = tuple(self.images())
        gap = Gap(ref=v.ref('Chassis'), reason='HTTP 500', hides=True)
        bmcs = tuple(v.facts(name=name, system=self.odd(None, Ref(bmc=name, uri='/redfish/v1/Systems/1'))) for name in BMCS)
        seen = v.inventory(bmcs=bmcs, gaps=self.odd((gap,), ()))
        self.seen = replace(seen, accelerators=self.cards)
        self.rules = self.baseline()
        self.how = {'parts': self.odd(frozenset({Part.UNLOCK}), EVERYTHING), 'hold': self.random.choice([True, False])}

    def odd(self, strange, usual):
        return strange if self.random.random() < self.oddity else usual

    def card(self, number):
        bmc = self.random.choice(BMCS)
        uri = Ref(bmc=bmc, uri=f'/redfish/v1/Systems/1/Processors/{number}')

        def item(name):
            return Component(
                id=name,
                ref=Ref(bmc=bmc, uri=f'/redfish/v1/UpdateService/FirmwareInventory/{name}-{self.odd(0, number)}'),
                version=self.odd(None, self.random.choice((*VERSIONS, 'v1.0 '))),
                staged=self.odd(self.random.choice(VERSIONS), None),
                updateable=self.odd(False, True),
                certain=self.odd(False, True),
            )

        def lock(system):
            return v.reading(
                self.random.choice(list(LockState)),
                accelerator=f'uuid:{number}',
                blocks=self.random.choice([v.HOST_DEVICE, v.ALL_PATHS]),
                place=f'Chassis/{number}',
                needs=self.random.choice(list(ResetKind)),
                reset=self.odd(None, Ref(bmc=bmc, uri=system)),
            )

        slot = ReconfigurationSlot(slot_id='Slot0', index=0, item=self.odd(None, item('Slot0-item')))
        return v.gpu(
            id=f'uuid:{number}',
            primary=uri,
            refs=(uri,),
            model=self.odd(None, 'H100'),
            pci=self.odd(PciIds(), v.gpu().pci),
            firmware=tuple(item(name) for name in ('GPU_0', 'GPU_1', self.odd('GPU_0', 'Keys'))),
            slots=self.odd((slot, slot), (slot,)),
            locks=self.odd((), (lock(self.random.choice(['/redfish/v1/Systems/1', '/redfish/v1/systems/1/'])),)),
        )

    def images(self):
        found = [
            self.image('to-2.0', '2.0', via=self.random.choice([(), ('1.5',), ('1.0', '1.5')]), reset=ResetKind.POWER_CYCLE),
            self.image('to-1.5', '1.5', via=self.random.choice([(), ('1.2',), ('V1.0', '1.2')])),
            self.image('to-1.2', '1.2', via=self.random.choice([(), ('1.0',)])),
            self.image('back', '0.9'),
            self.image('gzip', '3', kind=ImageKind.FUNCTION, component='Slot*', function='gzip'),
            self.image('revoke', '7', kind=ImageKind.REVOCATION, component='Keys'),
        ]
        return [image for image in found if self.odd(False, True)]

    def image(self, name, version, **how):
        firmware = how.get('kind', ImageKind.FIRMWARE) is ImageKind.FIRMWARE
        values = {
            'reset': self.odd(ResetKind.SYSTEM_RESET, ResetKind.NONE),
            'fits': (Fit(model='H100', pci=self.odd(None, '0x10de:0x2330')),),
            'security_version': self.odd(self.random.randint(1, 3), 2),
            'order': self.random.randint(0, 2),
            'restore': self.random.choice(WAYS_BACK) if firmware and name != 'back' else self.odd('back', None),
            'denied': self.odd('CVE-1', None),
        }
        return v.image(name, version=version, **(values | how))

    def baseline(self):
        return v.baseline(
            firmware=self.random.choice([None, (('GPU_*', '2.0'),), (('GPU_0', '1.5'), ('GPU_*', 'v2.0'))]),
            functions=self.random.choice([None, (('Slot0', 'gzip'),)]),
            revocations=self.random.choice([None, None, ('revoke',)]),
            downgrade=self.odd(Downgrade.ALLOW, None),
            security_floor=self.odd(3, None),
            block=self.random.choice([frozenset(), v.HOST_DEVICE]),
            on_missing=OnMissing.WAIVE,
            waiver=v.waiver(),
        )

    def plan(self):
        return made(self.seen, self.rules, self.catalogue, **self.how)


SCENES = st.integers(0, 2**32).map(Scene)


def shuffled(seen, random):
    """The same machine, told in another order."""

    def mixed(values):
        return tuple(random.sample(values, len(values)))

    cards = [replace(a, firmware=mixed(a.firmware), slots=mixed(a.slots), locks=mixed(a.locks)) for a in seen.accelerators]
    return replace(seen, accelerators=mixed(cards), bmcs=mixed(seen.bmcs), gaps=mixed(seen.gaps))


@settings(max_examples=200, deadline=None)
@given(SCENES)
def test_the_order_of_what_is_told_changes_nothing(scene):
    """Actions, refusals, notes: the plan is the same value."""
    catalogue = tuple(scene.random.sample(scene.catalogue, len(scene.catalogue)))
    assert scene.plan() == made(shuffled(scene.seen, scene.random), scene.rules, catalogue, **scene.how)


@settings(max_examples=300, deadline=None)
@given(SCENES)
def test_no_plan_that_passes_does_what_must_not_be_done(scene):
    """Whatever the BMC reports and the documents say."""
    result = scene.plan()
    if result.refusals:
        with pytest.raises(Refused):
            raise_if_unsafe(result)
        return
    raise_if_unsafe(result)
    check_resets(result)
    images = {i.name: i for i in scene.catalogue}
    writes = [a for a in result.actions if isinstance(a, Flash | Program)]
    for action in writes:
        image, card = images[action.image], scene.seen.accelerator(action.accelerator)
        assert image.denied is None
        assert image.fits[0].pci == f'{card.pci.vendor_id}:{card.pci.device_id}'
        assert image.security_version >= (scene.rules.rules[0].security_floor or 0)
        assert CheckImage(image=image.name, content=image.content) in result.actions
    check_flashes(scene, images, [a for a in writes if isinstance(a, Flash)])
    assert {ImageKind.FUNCTION} >= {images[a.image].kind for a in writes if isinstance(a, Program)}


def check_resets(result):
    """The host is held once at most, each System comes back once at most, and its standby power goes once at most."""
    resets = [a for a in result.actions if isinstance(a, Reset)]
    for purposes in ({ResetPurpose.HOLD}, {ResetPurpose.ENFORCE, ResetPurpose.RESUME}):
        places = [(a.system.bmc, a.system.uri.rstrip('/').lower(), a.kind.is_standby) for a in resets if a.purpose in purposes]
        assert len(set(places)) == len(places)


def check_flashes(scene, images, flashes):
    """What each write goes over, what it leaves, and what is put back if it fails."""
    rule = scene.rules.rules[0]
    there = {}
    for action in sorted(flashes, key=lambda a: a.order):
        image, card = images[action.image], scene.seen.accelerator(action.accelerator)
        (item,) = [c for a in scene.seen.accelerators for c in a.firmware if c.ref == action.ref]
        assert item in card.firmware
        runs, order, reset, least = there.get(item.ref, (item.version, -1, ResetKind.NONE, security(scene, item)))
        assert runs is not None
        assert runs == action.expects
        assert order < action.order
        assert ResetKind.NONE is reset
        assert not image.via or any(same_version(runs, x) for x in (image.version, *image.via))
        assert rule.downgrade or image.security_version >= least
        assert ImageKind.FIRMWARE is image.kind or (image.name in rule.revocations and action.restore is None)
        assert (image.restore is None) == (action.restore is None)
        if action.restore is not None:
            assert images[action.restore].denied is None
            assert ImageKind.FIRMWARE is images[action.restore].kind
            assert rule.downgrade or images[action.restore].security_version >= least
            assert not any(a.accelerator == card.id and images[a.image].kind is ImageKind.REVOCATION for a in flashes)
        there[item.ref] = (image.version, action.order, image.reset, max(least, image.security_version))


def security(scene, item):
    """What the catalogue knows of the version that a component runs."""
    of_it = [i for i in scene.catalogue if i.kind is ImageKind.FIRMWARE and fnmatchcase(item.id, i.component)]
    return max((i.security_version for i in of_it if same_version(i.version, item.version)), default=0)


def test_the_scenes_hold_what_they_are_for():
    """Plans that pass and write, in steps, with ways back, revocations, functions and resets; and many that are refused."""
    found = Counter()
    for seed in range(400):
        scene = Scene(seed)
        result = scene.plan()
        found[bool(result.refusals)] += 1
        if not result.refusals:
            flashed = [a for a in result.actions if isinstance(a, Flash)]
            found['flash'] += bool(flashed)
            found['steps'] += len({a.ref for a in flashed}) < len(flashed)
            found['restore'] += any(a.restore for a in flashed)
            found['revoke'] += any(a.image == 'revoke' for a in flashed)
            found['program'] += any(isinstance(a, Program) for a in result.actions)
            found['reset'] += any(isinstance(a, Reset) for a in result.actions)
    assert min(found[what] for what in (True, False, 'flash', 'steps', 'restore', 'revoke', 'program', 'reset')) >= 10, found


def test_what_makes_the_floor_and_what_lifts_it_is_told():
    """Whoever has to go down reads which version is in the way, and which word of which rule lets it; a floor stays a floor."""
    running = v.image('gpu-old', version=v.OLD, security_version=6)
    (found,) = reasons(catalogue=(v.image(), running))
    assert found.endswith(
        'the floor is 6, that of 1.0, which runs (security_version of image gpu-old in the catalogue): '
        'only downgrade = "allow" in rule all permits a lower one'
    )
    (found,) = reasons(catalogue=(v.image(), running), baseline=v.baseline(security_floor=9))
    assert found.endswith(
        'the floor is 9, which security_floor of rule all sets: select a later image, or lower the floor in that rule'
    )


def test_an_image_of_that_version_for_other_ids_is_named():
    """Not "the catalogue has none", which sends its author looking for a version that is there."""
    (found,) = reasons(catalogue=(v.image(fits=(Fit(vendor='NVIDIA', model='H100 PCIe'),)),))
    assert (
        'no image of version 2.0 that fits: the ids that the device shows differ from the fits of gpu-new, or are hidden'
        in found
    )
    (found,) = reasons(catalogue=())
    assert 'the catalogue has no image of version 2.0 that fits (rule all)' in found


def test_an_image_without_a_way_back_is_noted():
    """Whoever lets it be written knows before that nothing brings the device back."""
    made = plan(v.inventory(), v.baseline(), v.NODE, (v.image(restore=None),))
    assert [
        n for n in in_words(made.notes) if 'firmware GPU_0 has no restore image: image gpu-new says restore = "none"' in n.text
    ]
    back = v.image('back', version=v.OLD)
    made = plan(v.inventory(), v.baseline(), v.NODE, (v.image(restore='back'), back))
    assert [] == [n for n in in_words(made.notes) if 'no restore image' in n.text]
