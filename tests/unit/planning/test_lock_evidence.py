# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Only our own engagement, of this card, here and now, makes a reading verified."""

from dataclasses import replace
from datetime import timedelta

import pytest

from baremetal_acc.model.job import Flow
from baremetal_acc.model.lock import LockState, ResetKind, Scope, WritePath
from baremetal_acc.model.ref import HOST, BmcName, Ref
from baremetal_acc.planning.lock_evidence import Coverage, WritablePart, coverage, covers, in_the_way, judge, subjects, weakest
from tests.unit.planning import values as v

FOUND_CLOSED = LockState.LOCKED_REPORTED


def state(reading=None, engagements=None, **how):
    reading = reading or v.reading()
    records = [v.engagement(reading)] if engagements is None else engagements
    return judge(reading, records, lifecycle=how.pop('lifecycle', v.LIFECYCLE), **how).state


def test_engaged_by_us_and_read_back_is_verified():
    """The one way to locked-verified."""
    assert LockState.LOCKED_VERIFIED == state()


def test_found_closed_is_only_reported():
    """A lock that nobody of us engaged may have been set by anybody."""
    assert FOUND_CLOSED == state(engagements=[])


def test_an_earlier_lifecycle_counts_for_nothing():
    """What an earlier tenant's cleaning proved says nothing now."""
    assert FOUND_CLOSED == state(engagements=[v.engagement(lifecycle=v.LIFECYCLE - 1)])
    assert FOUND_CLOSED == state(lifecycle=v.LIFECYCLE + 1)


def test_another_card_in_the_same_place_counts_for_nothing():
    """Evidence is bound to the identity of the card."""
    assert FOUND_CLOSED == state(engagements=[v.engagement(accelerator=v.FPGA)])


def test_another_place_counts_for_nothing():
    """An engagement of one mechanism proves nothing for another."""
    assert FOUND_CLOSED == state(engagements=[v.engagement(mechanism='other')])
    assert FOUND_CLOSED == state(engagements=[v.engagement(ref=v.ref('Chassis/RoT_9'))])
    assert FOUND_CLOSED == state(engagements=[v.engagement(field='Other')])


def test_a_deploy_takes_only_its_own_evidence():
    """Cleaning's engagement is no evidence in a deploy, and counts where no flow is asked for."""
    in_cleaning = [v.engagement(flow='clean')]
    assert FOUND_CLOSED == state(engagements=in_cleaning, flow=Flow.DEPLOY)
    assert LockState.LOCKED_VERIFIED == state(engagements=in_cleaning)


def test_a_reading_before_the_engagement_proves_nothing():
    """Neither does one of the same moment."""
    for at in (v.NOW, v.NOW + timedelta(seconds=1)):
        assert FOUND_CLOSED == state(engagements=[v.engagement(at=at)])


def test_reading_back_needs_another_session():
    """A service may answer a session with what that session wrote."""
    assert FOUND_CLOSED == state(engagements=[v.engagement(session='reading-session')])


def test_a_lock_that_needs_a_reset_is_pending_until_the_reset_was_seen():
    """The value read back is not yet the value in force."""
    reading = v.reading(needs=ResetKind.POWER_CYCLE)
    assert LockState.LOCKED_VERIFIED == state(reading)
    assert LockState.PENDING_RESET == state(reading, [v.engagement(reading, reset_at=None)])
    assert LockState.PENDING_RESET == state(reading, [v.engagement(reading, reset_at=v.NOW)])


def test_what_it_leaves_open_has_to_be_what_it_left_open_when_it_was_engaged():
    """Else something that was closed then may be open, and not be closed any more. Records of earlier versions do not tell."""
    left = replace(v.reading(), leaves='a1b2')
    none = replace(v.reading(), leaves='')
    assert LockState.LOCKED_VERIFIED == state(left, [v.engagement(left, leaves='a1b2')])
    assert LockState.LOCKED_VERIFIED == state(left, [v.engagement(left)])
    for now, then in ((left, ''), (none, 'a1b2'), (v.reading(), ''), (left, 'c3d4')):
        assert LockState.PARTIAL == state(now, [v.engagement(now, leaves=then)])


def test_the_latest_engagement_decides():
    """An older one that was in force does not excuse a newer one that is not."""
    reading = v.reading(needs=ResetKind.POWER_CYCLE)
    newer = v.engagement(reading, at=v.EARLIER + timedelta(seconds=40), reset_at=None)
    assert LockState.PENDING_RESET == state(reading, [v.engagement(reading), newer])


@pytest.mark.parametrize(
    'seen',
    [
        LockState.PENDING_RESET,
        LockState.PARTIAL,
        LockState.UNLOCKED,
        LockState.UNSUPPORTED,
        LockState.UNKNOWN,
    ],
)
def test_no_record_makes_a_bad_reading_good(seen):
    """What was read as open, partial or unknown stays so, whatever we engaged."""
    assert seen == state(v.reading(seen))


def test_a_mechanism_that_calls_itself_verified_is_not_believed():
    """Only evidence says verified."""
    assert LockState.UNKNOWN == state(v.reading(LockState.LOCKED_VERIFIED), [])


def test_a_firmware_lock_does_not_cover_slots():
    """ProgrammableFromHost of the device speaks of firmware; each slot speaks for itself."""
    found = coverage(v.fpga(locks=v.fpga().locks[:2]), WritePath.HOST_DEVICE, v.fpga().locks[:2])
    assert [
        (WritablePart(scope=Scope.COMPONENT, part='FPGA1'), FOUND_CLOSED),
        (WritablePart(scope=Scope.SLOT, part='Slot0'), FOUND_CLOSED),
        (WritablePart(scope=Scope.SLOT, part='Slot1'), LockState.UNSUPPORTED),
    ] == [(c.subject, c.state) for c in found]


def test_a_component_lock_covers_its_component_alone():
    """A GPU with two images and one protected image is open."""
    two = v.gpu(
        firmware=(v.component('GPU_0'), v.component('RoT_0')),
        locks=(v.reading(scope=Scope.COMPONENT, part='GPU_0'),),
    )
    assert [FOUND_CLOSED, LockState.UNSUPPORTED] == [c.state for c in coverage(two, WritePath.HOST_DEVICE, two.locks)]


def test_a_lock_of_another_path_or_card_covers_nothing():
    """Locks are set arithmetic."""
    other_path = v.reading(blocks=frozenset({WritePath.HOST_BMC_IPMI}))
    other_card = v.reading(accelerator=v.FPGA)
    found = coverage(v.gpu(), WritePath.HOST_DEVICE, [other_path, other_card])
    assert [LockState.UNSUPPORTED] == [c.state for c in found]


def test_a_device_without_items_is_a_subject_itself():
    """Nothing to list does not mean nothing to protect."""
    bare = v.gpu(firmware=(), locks=())
    assert [LockState.UNSUPPORTED] == [c.state for c in coverage(bare, WritePath.HOST_DEVICE, ())]


def test_the_best_of_several_locks_of_one_path_decides():
    """One closed lock on the only way is enough."""
    locks = (v.reading(LockState.UNLOCKED, mechanism='a'), v.reading(mechanism='b'))
    assert [FOUND_CLOSED] == [c.state for c in coverage(v.gpu(), WritePath.HOST_DEVICE, locks)]


def test_what_is_open_beside_what_nobody_knows_is_not_known():
    """The other lock may be closed, and one is enough. An open place of the same mechanism stays open."""
    locks = (v.reading(LockState.UNLOCKED, mechanism='a'), v.reading(LockState.UNKNOWN, mechanism='b'))
    assert [LockState.UNKNOWN] == [c.state for c in coverage(v.gpu(), WritePath.HOST_DEVICE, locks)]
    closed = (*locks, v.reading(mechanism='c'))
    assert [FOUND_CLOSED] == [c.state for c in coverage(v.gpu(), WritePath.HOST_DEVICE, closed)]


FIRMWARE = WritablePart(scope=Scope.FIRMWARE)
GPU_0, OTHER = (WritablePart(scope=Scope.COMPONENT, part=name) for name in ('GPU_0', 'Other'))
SLOT, SECOND = (WritablePart(scope=Scope.SLOT, part=name) for name in ('Slot0', 'Slot1'))
BY_HOST, BY_DPU = (WritablePart(scope=Scope.BMC, part=name) for name in (HOST, 'dpu'))
SAME_NAME = WritablePart(scope=Scope.SLOT, part='GPU_0')


@pytest.mark.parametrize(
    ('scope', 'part', 'expected'),
    [
        (Scope.DEVICE, None, {FIRMWARE, GPU_0, OTHER, SLOT, SECOND, BY_HOST, BY_DPU, SAME_NAME}),
        (Scope.FIRMWARE, None, {FIRMWARE, GPU_0, OTHER}),
        (Scope.COMPONENT, 'GPU_0', {GPU_0}),
        (Scope.SLOT, 'Slot0', {SLOT}),
        (Scope.SLOT, 'GPU_0', {SAME_NAME}),
        (Scope.BMC, None, {BY_HOST}),
        (Scope.BMC, 'GPU_0', {BY_HOST}),
    ],
)
def test_a_lock_covers_what_is_of_its_scope_and_part(scope, part, expected):
    """That of a BMC what is reached by way of that BMC."""
    everything = (FIRMWARE, GPU_0, OTHER, SLOT, SECOND, BY_HOST, BY_DPU, SAME_NAME)
    assert expected == {s for s in everything if covers(v.reading(scope=scope, part=part), s)}


def test_a_lock_of_a_card_is_in_the_way_on_whichever_bmc_it_is_shown():
    """Only one of a whole machine is in the way of nothing but its own BMC."""
    here, there = (Ref(bmc=bmc, uri='/redfish/v1/x') for bmc in (HOST, BmcName('dpu')))
    card = v.reading(blocks=v.ALL_PATHS)
    whole = replace(card, scope=Scope.BMC)
    assert [True, True] == [in_the_way(card, GPU_0, ref) for ref in (here, there)]
    assert [True, False] == [in_the_way(whole, GPU_0, ref) for ref in (here, there)]
    assert not in_the_way(replace(card, scope=Scope.COMPONENT, part='Other'), GPU_0, here)
    assert not in_the_way(v.reading(blocks=v.ALL_PATHS - {WritePath.BMC_NETWORK}), GPU_0, here)
    assert not in_the_way(replace(card, state=LockState.UNSUPPORTED), GPU_0, here)


def test_the_subjects_of_a_device_are_its_components_and_slots():
    """And its firmware as a whole, first, where it names no component of it."""
    nameless = replace(v.component(), id=None)
    assert (WritablePart(scope=Scope.COMPONENT, part='FPGA1'), SLOT, SECOND) == subjects(v.fpga())
    assert (FIRMWARE, SLOT, SECOND) == subjects(v.fpga(firmware=(nameless,)))
    assert (FIRMWARE,) == subjects(v.gpu(firmware=()))


def test_coverage_shows_the_reading_that_decides():
    """Of a mechanism its worst place, the first of equals; of several mechanisms the best."""
    weak = v.reading(LockState.PARTIAL, mechanism='a', place='A/0')
    again = replace(weak, ref=v.ref('A/1'))
    best = v.reading(mechanism='a', place='A/2')
    worse = v.reading(LockState.UNLOCKED, mechanism='b')
    for readings in ([best, weak, again, worse], [worse, weak, best, again]):
        assert (Coverage(subject=GPU_0, state=LockState.PARTIAL, reading=weak),) == coverage(
            v.gpu(), WritePath.HOST_DEVICE, readings
        )
    nothing = Coverage(subject=GPU_0, state=LockState.UNSUPPORTED, reading=None)
    assert (nothing,) == coverage(v.gpu(), WritePath.HOST_DEVICE, [])


def test_coverage_by_way_of_a_bmc_shows_the_reading_that_decides():
    """The worst of its ways, or the lockdown that closes them all."""
    path = WritePath.HOST_BMC_REDFISH
    of = {'blocks': frozenset({path}), 'scope': Scope.BMC}
    way, other = v.reading(LockState.UNLOCKED, mechanism='a', **of), v.reading(mechanism='b', **of)
    lockdown = v.reading(LockState.PENDING_RESET, mechanism='c', wraps=True, **of)
    weaker, hole = replace(lockdown, mechanism='d', state=LockState.UNLOCKED), replace(lockdown, state=LockState.PARTIAL)
    for readings, decides in (
        ([way, other], way),
        ([other], other),
        ([way, other, lockdown], lockdown),
        ([lockdown, weaker], lockdown),
        ([lockdown, hole, weaker], hole),
    ):
        assert (Coverage(subject=BY_HOST, state=decides.state, reading=decides),) == coverage(v.gpu(), path, readings)


def test_parts_that_a_bmc_calls_by_one_name_are_covered_by_no_lock_of_that_name():
    """Nobody can tell which of them it is; a lock of all the device covers them."""
    twice = v.gpu(firmware=(v.component(), v.component()))
    lock = v.reading(scope=Scope.COMPONENT, part='GPU_0')
    unknown = replace(lock, state=LockState.UNKNOWN, reason='the BMC shows several parts of the device with the id GPU_0')
    expected = Coverage(subject=GPU_0, state=LockState.UNKNOWN, reading=unknown)
    assert (expected, expected) == coverage(twice, WritePath.HOST_DEVICE, [lock])
    whole = Coverage(subject=GPU_0, state=FOUND_CLOSED, reading=v.reading())
    assert (whole, whole) == coverage(twice, WritePath.HOST_DEVICE, [v.reading()])


def test_the_weakest_is_the_one_that_is_protected_worst():
    """From not at all to proven."""
    states = [
        LockState.UNSUPPORTED,
        LockState.UNKNOWN,
        LockState.UNLOCKED,
        LockState.PARTIAL,
        LockState.PENDING_RESET,
        LockState.LOCKED_REPORTED,
        LockState.LOCKED_VERIFIED,
    ]
    found = [Coverage(subject=GPU_0, state=state, reading=None) for state in states]
    for n in range(len(found)):
        assert found[n] == weakest(found[n:][::-1])
