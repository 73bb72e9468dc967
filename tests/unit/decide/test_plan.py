# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A plan says what will be done, in which order, and refuses what is not safe."""

from dataclasses import replace

import pytest

from baremetal_acc.decide.baseline import Baseline, Match, OnMissing
from baremetal_acc.decide.plan import EVERYTHING, Part, plan, raise_if_unsafe
from baremetal_acc.errors import Refused
from baremetal_acc.model.inventory import Gap, PowerState, UpdateFacts
from baremetal_acc.model.job import (
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
from baremetal_acc.model.lock import LockState, ResetKind, Scope, WritePath
from tests.unit.decide import values as v

FUNCTIONS = v.baseline(firmware=None, functions=(('Slot*', 'gzip'),))


def made(inventory=None, baseline=None, catalogue=None, **how):
    catalogue = (v.image(), v.function_image()) if catalogue is None else catalogue
    return plan(inventory or v.inventory(), baseline or v.baseline(), v.NODE, catalogue, **how)


def reasons(*args, **how):
    return [r.reason for r in made(*args, **how).refusals]


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


def test_a_lock_on_our_own_way_is_released_for_the_flash_and_engaged_again():
    """WriteProtected blocks the BMC's path too; a lock of the host's path stays closed all the while."""
    protected = v.reading(mechanism='wp', blocks=v.ALL_PATHS, scope=Scope.COMPONENT, part='GPU_0', place='GPU_0')
    host_only = v.reading()
    result = made(v.inventory(v.gpu(locks=(protected, host_only))))
    assert ['wp'] == [a.mechanism for a in result.actions if isinstance(a, Release)]
    assert ['rot', 'wp'] == sorted(a.mechanism for a in result.actions if isinstance(a, Engage))


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
        (None, 'has no UpdateService'),
        (UpdateFacts(push=False, pull=True), 'can only fetch images itself (SimpleUpdate)'),
        (UpdateFacts(push=False, pull=False), 'offers no way to send an image'),
        (UpdateFacts(push=True, pull=True, max_size=999), 'image gpu-new has 1000 bytes, BMC host takes 999'),
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
    assert ['devices may lie behind what could not be read: HTTP 500'] == reasons(v.inventory(v.gpu(), gaps=(gap,)))
    assert ['none was found'] == reasons(replace(v.inventory(), accelerators=()))
    assert ['4 devices must match, 1 do'] == reasons(baseline=v.baseline(count=4))


def test_an_allowed_open_path_is_said_out_loud():
    """A relaxed rule shows in the plan."""
    rules = v.baseline(block=frozenset({WritePath.HOST_BMC_IPMI}), on_missing=OnMissing.ALLOW)
    result = made(baseline=rules)
    assert () == result.refusals
    assert any('host-bmc-ipmi' in n.text and 'stays open' in n.text for n in result.notes)


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
    assert ['BMC host has no UpdateService'] == reasons(blind)
