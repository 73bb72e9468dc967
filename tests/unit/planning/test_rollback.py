# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What is added to a job to put back what a failed write has left, and what is told of devices that nobody may use."""

import itertools
from dataclasses import replace
from datetime import timedelta

import pytest

from baremetal_acc.model.action import Engage, Flash, Program, Release, Reset, ResetPurpose, Withdraw
from baremetal_acc.model.image import ImageKind
from baremetal_acc.model.inventory import UpdateFacts
from baremetal_acc.model.job import Flow
from baremetal_acc.model.job_item import Item, ItemState, WriteEvidence
from baremetal_acc.model.lock import LockState, ResetKind, Scope
from baremetal_acc.model.plan import Plan
from baremetal_acc.model.ref import AcceleratorId, BmcName, Ref
from baremetal_acc.planning import quarantine_writes, rollback, write_outcomes, written_places
from baremetal_acc.planning.action_descriptions import describe
from baremetal_acc.planning.job_transitions import begin
from baremetal_acc.planning.plan import plan
from tests.unit.planning import values as v

SETTLE = timedelta(minutes=1)
LATER = v.NOW + timedelta(minutes=2)
OLD_IMAGE = v.image('gpu-old', version=v.OLD, reset=ResetKind.NONE)
OTHER = AcceleratorId('uuid:gpu-1')
GONE = AcceleratorId('uuid:gone')
BROKEN = v.component(version='broken')
WHY = ('restore uuid:gpu-0',)
LOCK = v.reading(blocks=v.ALL_PATHS)
"""A lock that stands in our own way, too."""


def flash(name='GPU_0', card=v.GPU, **changes) -> Flash:
    values = {'image': 'gpu-new', 'version': v.NEW, 'expects': v.OLD, 'restore': 'gpu-old'}
    return Flash(accelerator=card, component=name, ref=v.component(name).ref, **(values | changes))


def program(card=v.FPGA, slot=0) -> Program:
    ref = v.slot(slot).item.ref
    return Program(
        accelerator=card, slot=f'Slot{slot}', ref=ref, image='f', function='gzip', version=v.NEW, expects=None
    )  # fmt: skip


def engage(reading=LOCK, card=v.GPU, **changes) -> Engage:
    place = {'mechanism': reading.mechanism, 'ref': reading.ref, 'field': reading.field}
    values = {'blocks': reading.blocks, 'needs': reading.needs, 'scope': reading.scope, 'wraps': reading.wraps}
    return Engage(accelerator=card, **(place | values | changes))


def release(reading=LOCK, card=v.GPU) -> Release:
    return Release(
        accelerator=card,
        mechanism=reading.mechanism,
        ref=reading.ref,
        field=reading.field,
        expects=reading.value,
        scope=reading.scope,
        wraps=reading.wraps,
    )


def reset(purpose='enforce', kind=ResetKind.POWER_CYCLE, system=v.SYSTEM, why=()) -> Reset:
    return Reset(system=system, purpose=ResetPurpose(purpose), kind=kind, why=why)


def job(*items, **changes):
    """A job of actions, each with its state: ``(flash(), 'failed')``, or more of its item."""
    made = Plan(target='n', actions=tuple(action for action, *_ in items))
    value = begin(made, identity='j', node='n', flow=Flow.CLEAN, step='s', lifecycle=1, now=v.NOW, timeout=timedelta(hours=1))
    found = []
    for item, (_, state, *more) in zip(value.items, items, strict=True):
        found.append(replace(item, state=ItemState(state), **(more[0] if more else {})))
    return replace(value, items=tuple(found), **changes)


FAILED = (flash(), 'failed')


def spoilt(**changes):
    """The card after a write that went wrong."""
    return v.inventory(v.gpu(**({'firmware': (BROKEN,), 'locks': ()} | changes)))


def put_back(value, inventory=None, catalogue=(OLD_IMAGE,), now=LATER):
    """By what an item is known again is the subject of tests/unit/planning/test_succession.py."""
    after = rollback.put_back(value, inventory or spoilt(), catalogue, now, SETTLE)
    items = (replace(i, action=replace(i.action, item=None)) if isinstance(i.action, Flash) else i for i in after.items)
    return replace(after, items=tuple(items))


def added(value, inventory=None, catalogue=(OLD_IMAGE,)):
    """The actions that come to a job, but for the write itself."""
    after = put_back(value, inventory, catalogue)
    new = after.items[len(value.items) :]
    assert {(LATER, ItemState.PLANNED, True)} == {(i.since, i.state, i.restoring) for i in new}
    assert isinstance(new[0].action, Flash)
    return [i.action for i in new[1:]]


@pytest.mark.parametrize('forces', [True, False])
def test_what_is_put_back_is_forced_where_the_bmc_can_be_told(forces):
    """It is older than what was sent, as a rule."""
    bmcs = (v.facts(update=UpdateFacts(push=True, pull=True, forces=forces)),)
    after = put_back(job(FAILED), replace(spoilt(), bmcs=bmcs))
    assert [False, forces] == [i.action.forced for i in after.items if isinstance(i.action, Flash)]


# ------------------------------------------------------------------------------------------------------------------ which


@pytest.mark.parametrize(
    ('items', 'expected'),
    [
        ([(flash(), 'done'), FAILED], (1,)),
        ([(flash('A'), 'failed'), (flash('B'), 'failed'), (flash('A', OTHER), 'failed')], (0, 1, 2)),
        ([FAILED, (flash('B'), 'failed'), FAILED], (1, 2)),
        ([(flash(), 'running'), (flash('B'), 'skipped'), (flash('C'), 'staged')], ()),
        ([(flash(restore=None), 'failed'), (flash('B'), 'failed')], (1,)),
        ([(*FAILED, {'untouched': True}), (flash('B'), 'failed')], (1,)),
        ([(program(), 'failed'), (engage(), 'failed')], ()),
        ([FAILED, (*FAILED, {'restoring': True})], ()),
        ([FAILED, (flash(), 'planned', {'restoring': True}), (flash('B'), 'failed')], (2,)),
        ([FAILED, (engage(), 'failed', {'restoring': True})], (0,)),
    ],
)
def test_a_flash_that_failed_after_it_was_begun_is_put_back_once(items, expected):
    """Each place once, by its last write; what has not reached the device, or has no image to go back to, is not."""
    assert expected == rollback.due(job(*items), v.NOW)


def test_nothing_is_begun_past_the_deadline():
    """Up to it, it is."""
    value = job(FAILED)
    assert (0,) == rollback.due(value, value.deadline)
    assert () == rollback.due(value, value.deadline + timedelta(seconds=1))


# ----------------------------------------------------------------------------------------------------------- what is written


def test_what_is_put_back_is_written_over_what_is_there_now():
    """By the image that the plan named, with the content it had then; the rest of the job stays as it is."""
    value = job((Withdraw(accelerators=()), 'done'), (flash(restore_content='sha', content='new', order=7), 'failed'))
    value = replace(value, reasons=('broken',))
    image = replace(OLD_IMAGE, order=3, digest=replace(OLD_IMAGE.digest, value='1' * 64))
    value = replace(value, items=(value.items[0], replace(value.items[1], action=flash(restore_content=image.content))))
    staged = spoilt(firmware=(replace(BROKEN, staged='other'),))
    back = Flash(
        accelerator=v.GPU,
        component='GPU_0',
        ref=v.component().ref,
        image='gpu-old',
        version=v.OLD,
        expects='broken',
        order=3,
        content=image.content,
        staged='other',
    )
    after = put_back(value, staged, (v.image(), image))
    assert replace(value, items=(*value.items, Item(action=back, since=LATER, restoring=True))) == after


@pytest.mark.parametrize(
    ('catalogue', 'inventory', 'why'),
    [
        ((), spoilt(), 'this image is no longer in the catalogue'),
        ((replace(OLD_IMAGE, denied='it bricks'),), spoilt(), 'the catalogue denies the image: it bricks'),
        ((OLD_IMAGE,), v.inventory(v.fpga()), 'the BMC no longer shows the card'),
        ((OLD_IMAGE,), spoilt(firmware=()), 'the component no longer belongs to this card'),
        (
            (OLD_IMAGE,),
            spoilt(model='A100'),
            'image gpu-old does not fit this device, as catalogue and BMC are now: plan again',
        ),
        (
            (OLD_IMAGE, replace(OLD_IMAGE, name='same', denied='it bricks')),
            spoilt(),
            'version 1.0 is denied: it bricks',
        ),
        (
            (replace(OLD_IMAGE, reset=ResetKind.POWER_CYCLE),),
            replace(spoilt(), bmcs=(v.facts(system=None),)),
            'it needs a power-cycle, and the BMC shows no System to reset',
        ),
        (
            (replace(OLD_IMAGE, reset=ResetKind.POWER_CYCLE),),
            replace(spoilt(), bmcs=(v.facts(name=BmcName('dpu')),)),
            'it needs a power-cycle, and the BMC shows no System to reset',
        ),
    ],
    ids=['gone', 'denied', 'no card', 'no component', 'another card', 'denied version', 'no System', 'no facts'],
)
def test_what_cannot_be_put_back_has_failed_without_touching_the_device(catalogue, inventory, why):
    """The reason says why, and nothing is opened for it."""
    value = job(FAILED, reasons=('broken',))
    known = inventory.accelerator(v.GPU)
    component = next(iter(known.firmware), None) if known else None
    image = next(iter(catalogue), None)
    back = flash(
        image='gpu-old',
        version=v.OLD if image else '',
        expects=component.version if component else None,
        reset=image.reset if image else ResetKind.NONE,
        restore=None,
    )
    item = Item(action=back, since=LATER, state=ItemState.FAILED, message=why, restoring=True, untouched=True)
    expected = replace(value, items=(*value.items, item), reasons=('broken', f'restore: {describe(back)}: {why}'))
    assert expected == put_back(value, inventory, catalogue)
    given_back = job(FAILED, (reset('hold', ResetKind.NONE), 'done'), (reset('resume'), 'done'))
    after = put_back(given_back, inventory, catalogue)
    assert (*given_back.items, item) == after.items, 'the host is not held again for that'


@pytest.mark.parametrize('inventory', [v.inventory(v.fpga()), spoilt(firmware=())], ids=['card', 'component'])
def test_a_device_that_is_not_shown_is_waited_for_as_long_as_it_may_take_to_settle(inventory):
    """From its failure on; another one is put back meanwhile."""
    value = job(FAILED)
    assert value == put_back(value, inventory, now=v.NOW + SETTLE)
    assert 2 == len(put_back(value, inventory, now=v.NOW + SETTLE + timedelta(seconds=1)).items)
    both = job((flash(card=GONE), 'failed'), FAILED)
    after = put_back(both, now=v.NOW + SETTLE)
    assert [v.GPU] == [i.action.accelerator for i in after.items[2:]]


def test_an_image_without_conditions_is_put_back_over_anything():
    """Neither the floor of new images nor the versions that it may follow count for the way back."""
    image = replace(OLD_IMAGE, security_version=0, via=('9.9',))
    after = put_back(job(FAILED), catalogue=(image,))
    assert ([ItemState.PLANNED], ()) == ([i.state for i in after.items[1:]], after.reasons)


# --------------------------------------------------------------------------------------------------------------- its locks


def test_a_lock_in_the_way_is_opened_and_closed_again():
    """With everything the reading says of it; one that stands in nobody's way is left alone."""
    wide = replace(LOCK, wraps=True, needs=ResetKind.SYSTEM_RESET, reset=v.SYSTEM)
    beside = v.reading(mechanism='beside', place='Chassis/Beside')
    unlocked = v.reading(LockState.UNLOCKED, mechanism='open', place='Chassis/Open', blocks=v.ALL_PATHS)
    expected = [release(wide), engage(wide), reset(kind=ResetKind.SYSTEM_RESET, why=WHY)]
    assert expected == added(job(FAILED), spoilt(locks=(beside, wide, unlocked)))
    assert [] == added(job(FAILED), spoilt(locks=(beside, unlocked)))
    two = (LOCK, replace(LOCK, field='Sealed'))
    assert [*map(release, two), *map(engage, two)] == added(job(FAILED), spoilt(locks=two))


def test_a_lock_of_another_part_of_the_card_is_left_alone():
    """Of several parts that are put back each lock is opened once."""
    parts = [replace(LOCK, scope=Scope.COMPONENT, part=p, ref=v.ref(p)) for p in ('GPU_0', 'ROT')]
    firmware = (BROKEN, v.component('ROT', version='broken'))
    assert [release(parts[0]), engage(parts[0])] == added(job(FAILED), spoilt(locks=tuple(parts), firmware=firmware))
    one_lock = spoilt(locks=(LOCK,), firmware=firmware)
    image = replace(OLD_IMAGE, component='*')
    after = put_back(job(FAILED, (flash('ROT'), 'failed')), one_lock, (image,))
    assert ['GPU_0', 'ROT'] == [i.action.component for i in after.items[2:4]]
    assert [release(), engage()] == [i.action for i in after.items[4:]]


def test_every_lock_that_the_job_engages_on_the_card_is_engaged_again():
    """Its evidence is older than the write; what is still to be done is not asked for twice."""
    other = v.reading(mechanism='other', place='Chassis/Other')
    foreign = engage(v.reading(place='Chassis/Foreign'), OTHER)
    value = job(FAILED, (engage(other), 'done'), (foreign, 'done'))
    assert [engage(other)] == added(value)
    assert [] == added(job(FAILED, (engage(other), 'planned')))
    assert [engage(other)] == added(job(FAILED, (engage(other), 'failed')))
    waiting = job(FAILED, (release(), 'planned'), (engage(), 'planned'))
    assert [] == added(waiting, spoilt(locks=(LOCK,)))
    assert [release()] == added(job(FAILED, (engage(), 'planned')), spoilt(locks=(LOCK,))), 'to close it opens nothing'
    planned_otherwise = engage(needs=ResetKind.POWER_CYCLE)
    assert [release(), planned_otherwise] == added(job(FAILED, (planned_otherwise, 'done')), spoilt(locks=(LOCK,)))


def test_whoever_shares_a_lock_that_is_opened_has_it_closed_again():
    """Be it a card that is not shown any more; a card that is not written and does not engage it has no part in it."""
    theirs = replace(LOCK, accelerator=OTHER)
    inventory = v.inventory(
        v.gpu(firmware=(BROKEN,), locks=(LOCK,)), v.gpu(id=OTHER, firmware=(v.component('GPU_1'),), locks=(theirs,))
    )
    assert [release(), engage()] == added(job(FAILED), inventory)
    value = job(FAILED, (engage(card=OTHER), 'done'), (engage(card=GONE), 'done'))
    assert [release(), engage(card=OTHER), engage(card=GONE), engage()] == added(value, inventory)


def test_a_lock_of_the_whole_machine_is_opened_once_and_closed_once():
    """However many cards are put back; where it is not in the way it is not touched."""
    whole = replace(LOCK, scope=Scope.BMC, mechanism='down', wraps=True)
    cards = [v.gpu(firmware=(BROKEN,), locks=(whole,))]
    cards += [
        v.gpu(id=OTHER, firmware=(v.component('GPU_1', 'broken'),), locks=(replace(whole, accelerator=OTHER),)),
    ]
    value = job(FAILED, (flash('GPU_1', OTHER), 'failed'), (engage(whole, card=OTHER), 'done'))
    after = put_back(value, v.inventory(*cards))
    assert [release(whole, OTHER), engage(whole, card=OTHER)] == [i.action for i in after.items[5:]]
    free = v.inventory(*(replace(c, locks=(replace(c.locks[0], state=LockState.UNLOCKED),)) for c in cards))
    assert [] == [i.action for i in put_back(value, free).items[5:]]
    waiting = job(FAILED, (release(whole, OTHER), 'planned'), (engage(whole, card=OTHER), 'planned'))
    assert [] == added(waiting, v.inventory(*cards)), 'another card asks for it already'
    another_bmc = replace(whole, ref=Ref(bmc=BmcName('dpu'), uri='/redfish/v1/Managers/1'))
    assert [] == added(job(FAILED), spoilt(locks=(another_bmc,)))


def test_what_was_proven_of_the_card_before_counts_for_nothing():
    """Of other cards it does, and of locks of the whole machine."""
    records = (
        v.engagement(),
        v.engagement(accelerator=OTHER),
        v.engagement(scope=Scope.BMC, mechanism='down'),
    )
    assert records[1:] == put_back(job(FAILED, engagements=records)).engagements
    assert records == put_back(job(FAILED, engagements=records), catalogue=()).engagements


# -------------------------------------------------------------------------------------------------------------- its resets


NONE, BMC, START, CYCLE = ResetKind.NONE, ResetKind.BMC_RESET, ResetKind.SYSTEM_RESET, ResetKind.POWER_CYCLE
MANAGER = v.ref('Managers/1')
ELSEWHERE = v.ref('Systems/2')


@pytest.mark.parametrize(
    ('resets', 'image', 'waiting', 'expected'),
    [
        ([], NONE, [], []),
        ([], CYCLE, [], [reset(why=WHY)]),
        ([(reset(kind=START), 'planned')], CYCLE, [reset(kind=CYCLE)], []),
        ([(reset(kind=CYCLE), 'planned')], START, [reset(kind=CYCLE)], []),
        ([(reset(kind=CYCLE), 'done')], START, [reset(kind=CYCLE)], [reset(kind=START, why=WHY)]),
        ([(reset(kind=CYCLE), 'running')], START, [reset(kind=CYCLE)], [reset(kind=START, why=WHY)]),
        (
            [(reset(system=ELSEWHERE, kind=START), 'planned'), (reset(kind=START), 'planned')],
            CYCLE,
            [reset(system=ELSEWHERE, kind=START), reset(kind=CYCLE)],
            [],
        ),
        ([(reset(system=ELSEWHERE), 'planned')], START, [reset(system=ELSEWHERE)], [reset(kind=START, why=WHY)]),
        (
            [(reset('hold', NONE), 'done'), (reset('resume', NONE), 'planned')],
            CYCLE,
            [reset('hold', NONE), reset('resume', CYCLE)],
            [],
        ),
        (
            [(reset('hold', NONE), 'done'), (reset('resume', START), 'planned')],
            NONE,
            [reset('hold', NONE), reset('resume', START)],
            [],
        ),
        (
            [(reset('hold', NONE), 'done'), (reset('resume', START), 'done')],
            CYCLE,
            [reset('hold', NONE), reset('resume', START)],
            [reset('hold', NONE, why=WHY), reset('resume', CYCLE, why=WHY)],
        ),
        (
            [(reset('hold', NONE), 'done'), (reset('resume', START), 'failed')],
            NONE,
            [reset('hold', NONE), reset('resume', START)],
            [reset('hold', NONE, why=WHY), reset('resume', NONE, why=WHY)],
        ),
        (
            [(reset('hold', NONE), 'done'), (reset('resume', START), 'skipped')],
            CYCLE,
            [reset('hold', NONE), reset('resume', START)],
            [reset('resume', CYCLE, why=WHY)],
        ),
        ([(reset('hold', NONE), 'done')], NONE, [reset('hold', NONE)], []),
        (
            [(reset('hold', NONE, ELSEWHERE), 'done')],
            CYCLE,
            [reset('hold', NONE, ELSEWHERE)],
            [reset(kind=CYCLE, why=WHY)],
        ),
    ],
)
def test_a_reset_is_added_where_none_is_to_come_that_serves(resets, image, waiting, expected):
    """One that is still to come is made as strong as it has to be; a host that was given back is held and given back again."""
    value = job(FAILED, *resets)
    catalogue = (replace(OLD_IMAGE, reset=image),)
    assert expected == added(value, catalogue=catalogue)
    after = put_back(value, catalogue=catalogue)
    assert waiting == [i.action for i in after.items[1 : 1 + len(resets)]]
    assert [(v.NOW, s) for _, s in resets] == [(i.since, str(i.state)) for i in after.items[1 : 1 + len(resets)]]


@pytest.mark.parametrize(
    ('needs', 'image', 'expected'),
    [
        ({'needs': NONE, 'reset': v.SYSTEM}, NONE, []),
        ({'needs': START, 'reset': None}, NONE, []),
        ({'needs': START, 'reset': v.SYSTEM}, NONE, [reset(kind=START, why=WHY)]),
        ({'needs': START, 'reset': v.SYSTEM}, CYCLE, [reset(kind=CYCLE, why=WHY)]),
        ({'needs': CYCLE, 'reset': v.SYSTEM}, START, [reset(kind=CYCLE, why=WHY)]),
        ({'needs': BMC, 'reset': MANAGER}, NONE, [reset(kind=BMC, system=MANAGER, why=WHY)]),
        ({'needs': BMC, 'reset': MANAGER}, START, [reset(kind=START, why=WHY), reset(kind=BMC, system=MANAGER, why=WHY)]),
    ],
)
def test_the_locks_that_are_closed_again_have_their_resets(needs, image, expected):
    """Each System once, by the strongest that anything needs; of other locks of the card none counts."""
    lock = replace(LOCK, **needs)
    unlocked = replace(LOCK, mechanism='open', state=LockState.UNLOCKED, needs=CYCLE, reset=ELSEWHERE)
    inventory = spoilt(locks=(unlocked, lock))
    assert [release(lock), engage(lock), *expected] == added(job(FAILED), inventory, (replace(OLD_IMAGE, reset=image),))


def test_a_reset_says_for_which_devices_it_is():
    """In order."""
    inventory = v.inventory(
        v.gpu(id=OTHER, firmware=(v.component('GPU_1', 'broken'),), locks=()), v.gpu(firmware=(BROKEN,), locks=())
    )
    value = job((flash('GPU_1', OTHER), 'failed'), FAILED)
    after = put_back(value, inventory, (replace(OLD_IMAGE, reset=CYCLE),))
    assert ('restore uuid:gpu-0, uuid:gpu-1',) == after.items[-1].action.why


# ------------------------------------------------------------------------------------------------------------- how it ended


@pytest.mark.parametrize(
    ('component', 'found'),
    [
        (v.component(version=v.NEW), None),
        (v.component(version=v.NEW, staged=v.NEW), None),
        (v.component(version=v.NEW, staged=v.OLD), 'ran 2.0, with 1.0 staged'),
        (v.component(version=v.OLD), 'ran 1.0'),
        (v.component(version=v.OLD, staged=v.NEW), 'ran 1.0, with 2.0 staged'),
        (v.component(version=None), 'showed no version'),
        (v.component(version=None, staged=v.NEW), 'showed no version, with 2.0 staged'),
        (v.component('ROT', '3'), 'was no longer shown; the card showed ROT 3'),
        (None, 'was no longer shown'),
    ],
)
@pytest.mark.parametrize('state', ['done', 'staged'])
def test_a_flash_that_ended_well_is_wrong_when_its_device_shows_something_else(component, found, state):
    """Running, with nothing else waiting for the next reset."""
    inventory = v.inventory(v.fpga()) if component is None else spoilt(firmware=(component,))
    value = job((Withdraw(accelerators=()), 'done'), (flash(), state), (program(), 'done'))
    assert ({} if found is None else {1: f'in the end it {found}, expected 2.0'}) == write_outcomes.wrong(value, inventory)


def test_the_last_write_of_a_place_is_the_one_that_counts():
    """What was put back among them; what never reached the device does not count."""
    back = flash(image='gpu-old', version=v.OLD, restore=None)
    value = job(FAILED, (back, 'done', {'restoring': True}), (flash(), 'failed', {'untouched': True}))
    assert {} == write_outcomes.wrong(value, spoilt(firmware=(v.component(),)))
    assert {1: 'in the end it ran broken, expected 1.0'} == write_outcomes.wrong(value, spoilt())
    assert {} == write_outcomes.wrong(job((flash(), 'done'), FAILED), spoilt())
    assert {} == write_outcomes.wrong(job((flash(), 'planned'), (flash('B'), 'skipped')), spoilt())


NAME = 'H100 GPU_0 (uuid:gpu-0)'
GO_ON = (
    'To resume, run apply --execute, or the step, again: that reads the card first, and writes once its BMC works on '
    'no update. '
    'If the BMC no longer shows the update, or never ends it, restart the BMC before that'
)
TO_DO = 'Write a good image to it, or replace the card, before the card is used'
BACK = flash(image='gpu-old', version=v.OLD, restore=None)


@pytest.mark.parametrize(
    ('items', 'inventory', 'why'),
    [
        ([FAILED], spoilt(), 'GPU_0 ran broken; image gpu-new was written, and there was no time left to restore gpu-old'),
        (
            [(flash(restore=None), 'failed')],
            spoilt(),
            'GPU_0 ran broken; image gpu-new was written, and it has no restore image',
        ),
        (
            [FAILED, (BACK, 'failed', {'restoring': True, 'message': 'no space'})],
            spoilt(),
            'GPU_0 ran broken; image gpu-old was to be restored: no space',
        ),
        (
            [FAILED, (BACK, 'skipped', {'restoring': True})],
            spoilt(),
            'GPU_0 ran broken; image gpu-old was to be restored: skipped',
        ),
        (
            [FAILED, (BACK, 'failed', {'restoring': True, 'untouched': True})],
            spoilt(firmware=(v.component(),)),
            'GPU_0 ran 1.0; image gpu-old was to be restored: failed',
        ),
        (
            [(flash(), 'staged')],
            spoilt(firmware=()),
            'GPU_0 was no longer shown; the card showed no firmware; image gpu-new was written, and there was no time left '
            'to restore gpu-old',
        ),
    ],
)
def test_a_device_whose_last_write_it_does_not_show_is_quarantined_word_by_word(items, inventory, why):
    """Which card, which part, what it shows, why nothing better is there, and what to do."""
    expected = write_outcomes.End(restored=(), unusable=((v.GPU, f'{NAME} is quarantined: {why}. {TO_DO}'),))
    assert expected == write_outcomes.judge(job(*items), inventory)


def test_a_second_time_that_came_too_late_is_told_as_that():
    """There is no third."""
    end = write_outcomes.judge(job(FAILED, second=True), spoilt())
    why = 'GPU_0 ran broken; image gpu-new was written, and it was too late to restore gpu-old'
    assert (f'{NAME} is quarantined: {why}. {TO_DO}',) == end.why


def test_what_nobody_could_look_at_is_not_known_to_be_good():
    """Neither firmware that ended well nor a function; the card is told by its identity."""
    held = (
        'uuid:gpu-0 is held: whether GPU_0 still is as it was written is not known, as the final inspection failed. '
        'Nothing '
        f'more is sent to it. {GO_ON}',
        'uuid:fpga-1 is held: whether Slot0 still is as it was written is not known, as the final inspection failed. '
        'Nothing '
        f'more is sent to it. {GO_ON}',
    )
    value = job((flash(), 'done'), (program(), 'done'))
    assert write_outcomes.End(restored=(), unusable=(), held=held) == write_outcomes.judge(value, None)


@pytest.mark.parametrize(
    ('items', 'held'),
    [
        ([(flash(), 'failed', {'unsure': True})], True),
        ([(flash(), 'staged')], True),
        ([FAILED, (BACK, 'done', {'restoring': True})], True),
        ([FAILED, (BACK, 'failed', {'restoring': True, 'unsure': True})], True),
        ([FAILED], False),
        ([FAILED, (BACK, 'failed', {'restoring': True})], False),
        ([FAILED, (BACK, 'failed', {'restoring': True, 'untouched': True})], False),
    ],
)
def test_a_card_that_nobody_can_look_at_is_quarantined_only_where_its_last_write_is_known_to_have_failed(items, held):
    """Of what was given up, or has ended well, nobody knows more than before: the next job reads it."""
    end = write_outcomes.judge(job(*items), None)
    assert ((), (v.GPU,))[not held] == end.quarantined
    assert ((1, 0) if held else (0, 1)) == (len(end.held), len(end.why))


def test_nothing_is_put_back_beside_a_write_that_may_go_on():
    """A BMC writes one image at a time, and nobody knows whether it still does."""
    other = flash('B', restore=None)
    value = job((flash(), 'failed'), (other, 'failed', {'unsure': True}))
    assert () == rollback.due(value, v.NOW)
    assert (0,) == rollback.due(job((flash(), 'failed'), (other, 'failed')), v.NOW)
    elsewhere = replace(other, ref=replace(other.ref, bmc='dpu'))
    assert (0,) == rollback.due(job((flash(), 'failed'), (elsewhere, 'failed', {'unsure': True})), v.NOW)
    firmware = (v.component(version='broken'), v.component('B'))
    told = write_outcomes.judge(value, v.inventory(v.gpu(firmware=firmware)))
    assert any('gpu-old is not restored while its BMC may still write another card' in why for why in told.why), told.why


def test_of_a_write_that_was_given_up_its_task_is_named_where_nobody_can_look():
    """It is what an operator looks for on the BMC."""
    task = v.ref('TaskService/Tasks/9')
    (told,) = write_outcomes.judge(job((flash(), 'failed', {'unsure': True, 'task': task})), None).held
    assert (
        f'whether the write of image gpu-new to GPU_0 has ended is not known (task {task}), as the final inspection failed'
        in told
    )


def test_what_was_put_back_and_shows_is_restored_and_what_was_written_well_is_not_told():
    """Whatever comes before it in the job."""
    value = job(
        (program(), 'failed'),
        (flash('ROT'), 'done'),
        FAILED,
        (BACK, 'done', {'restoring': True}),
        (flash('B', restore=None), 'failed'),
        (flash('C', restore=None), 'failed'),
    )
    firmware = (v.component(), v.component('ROT', v.NEW), v.component('B', 'x'), v.component('C', 'y'))
    end = write_outcomes.judge(value, v.inventory(v.gpu(firmware=firmware), v.fpga()))
    assert (f'{NAME}: GPU_0 is restored to 1.0 (image gpu-old)',) == end.restored
    assert 3 == len(end.why)
    # The slot is there: it is not told as one that has vanished.
    assert end.why[0].startswith('Stratix FPGA1 (uuid:fpga-1) is quarantined: Slot0 ran 2.0; gzip was to be programmed')
    assert (v.FPGA, v.GPU) == end.quarantined
    good = write_outcomes.judge(job((program(), 'done'), (flash('ROT'), 'staged')), v.inventory(v.gpu(firmware=firmware)))
    assert write_outcomes.End(restored=(), unusable=()) == good


def test_devices_whose_last_write_failed_are_lost_before_anybody_looks():
    """In order; one whose last write ended well is not."""
    failed_then_done = [FAILED, (BACK, 'staged', {'restoring': True})]
    assert () == write_outcomes.lost(job(*failed_then_done, (flash('B', OTHER), 'done')))
    value = job((flash(), 'running'), (program(), 'failed'), (flash('B', OTHER), 'done'), (flash('C', GONE), 'planned'))
    assert (v.FPGA, v.GPU) == write_outcomes.lost(value)
    assert (v.GPU,) == write_outcomes.lost(job((flash(), 'done'), (BACK, 'planned', {'restoring': True})))


# --------------------------------------------------------------------------------------------------------------- afterwards


def test_a_device_is_found_by_where_it_is_written_whatever_it_calls_itself():
    """By its firmware or by what a slot holds."""
    inventory = v.inventory(v.gpu(id=OTHER), v.fpga())
    assert {OTHER} == quarantine_writes.standing(inventory, [v.component().ref])
    assert {v.FPGA} == quarantine_writes.standing(inventory, [v.slot(0).item.ref, v.ref('elsewhere')])
    assert frozenset() == quarantine_writes.standing(inventory, [v.ref('elsewhere')])
    empty = v.fpga(slots=(replace(v.slot(0), item=None), v.slot(1)))
    assert {v.FPGA} == quarantine_writes.standing(v.inventory(empty), [v.slot(1).item.ref])


def test_what_a_job_has_written_to_a_device_is_told_with_its_places():
    """Each once, in order; what was not begun does not count, but what was to be put back does."""
    refs = {name: v.component(name).ref for name in ('GPU_0', 'B')}
    value = job((flash(), 'failed'), (flash(), 'done'), (flash('B'), 'skipped'), (flash('D', OTHER), 'done'))
    assert (True, (refs['GPU_0'],)) == told(quarantine_writes.spoilt(value, v.GPU, None))
    value = job((flash(), 'failed'), (flash('B'), 'planned', {'restoring': True}))
    assert (True, (refs['B'], refs['GPU_0'])) == told(quarantine_writes.spoilt(value, v.GPU, None))
    assert (False, (program().ref,)) == told(
        quarantine_writes.spoilt(job((program(), 'failed'), (flash(), 'done')), v.FPGA, None)
    )
    assert (False, ()) == told(quarantine_writes.spoilt(job((engage(), 'done'), (flash(), 'planned')), v.GPU, None))


def told(spoilt):
    return spoilt.firmware, spoilt.places


@pytest.mark.parametrize(
    ('items', 'card', 'expected'),
    [
        ([(flash(), 'failed'), (flash('B'), 'done')], v.gpu(firmware=(BROKEN, v.component('B', v.NEW))), ('GPU_0',)),
        ([(flash(), 'done'), (flash('B'), 'done')], v.gpu(firmware=(BROKEN, v.component('B', v.NEW))), ('GPU_0',)),
        ([(flash(), 'failed'), (flash(), 'done')], v.gpu(firmware=(v.component(version=v.NEW),)), ()),
        ([(flash(), 'done'), (flash('B'), 'staged')], v.gpu(firmware=(v.component(version=v.NEW),)), ('B',)),
        ([(flash(), 'done'), (flash('B'), 'done')], None, ('B', 'GPU_0')),
        ([(flash(), 'failed', {'untouched': True}), (flash('B'), 'failed')], v.gpu(), ('B',)),
        ([(flash('B', OTHER), 'failed')], v.gpu(), ()),
    ],
)
def test_what_has_to_be_written_anew_is_what_does_not_show_what_was_written_last(items, card, expected):
    """Of a device of which nobody has seen the end it is all."""
    inventory = None if card is None else v.inventory(card)
    assert tuple(v.component(n).ref for n in expected) == quarantine_writes.spoilt(job(*items), v.GPU, inventory).anew


def test_a_slot_that_was_written_well_is_not_to_be_written_anew_and_its_neighbour_is():
    """What it holds is the verdict's business; where nobody has looked, both are."""
    slots = [program(slot=n) for n in (0, 1)]
    value = job((slots[0], 'done'), (slots[1], 'failed'))
    both = tuple(s.ref for s in slots)
    left = quarantine_writes.spoilt(value, v.FPGA, v.inventory(v.fpga()))
    assert (False, both, both[1:]) == (left.firmware, left.places, left.anew)
    assert both == quarantine_writes.spoilt(value, v.FPGA, None).anew


@pytest.mark.parametrize(
    ('items', 'looked', 'expected'),
    [
        ([(program(slot=1), 'done'), (program(slot=0), 'failed')], True, [0]),
        ([(program(slot=1), 'done'), (program(slot=0), 'failed')], False, [0, 1]),
        ([(program(slot=1), 'sent'), (program(slot=0), 'failed')], True, [0, 1]),
        ([(program(slot=1), 'failed'), (program(slot=1), 'done')], True, [0]),
        ([(program(slot=1), 'done'), (program(slot=1), 'failed')], True, [0, 1]),
        ([(program(slot=0), 'done'), (program(slot=1), 'done')], True, []),
    ],
)
def test_a_slot_that_was_spoilt_before_and_written_well_since_is_not_written_for_ever(items, looked, expected):
    """Another one of its card was spoilt by the same job. Firmware is not among what this is about."""
    both = tuple(program(slot=n).ref for n in (0, 1))
    inventory = v.inventory(v.fpga()) if looked else None
    assert tuple(both[n] for n in expected) == quarantine_writes.still_to_write(both, job(*items), inventory, firmware=False)
    assert both == quarantine_writes.still_to_write(both, job(*items), inventory, firmware=True), 'by way of what is spoilt'
    firmware = (flash().ref,)
    assert firmware == quarantine_writes.still_to_write(firmware, job((flash(), 'done')), v.inventory(v.gpu()), firmware=False)


@pytest.mark.parametrize(
    ('items', 'firmware', 'expected'),
    [
        ([(flash(), 'done')], True, {v.GPU}),
        ([(flash(), 'staged')], True, {v.GPU}),
        ([(flash(), 'failed')], True, set()),
        ([(flash(), 'done', {'restoring': True})], True, set()),
        ([(program(v.GPU), 'done')], True, set()),
        ([(program(v.GPU), 'done')], False, {v.GPU}),
        ([(flash(), 'done')], False, {v.GPU}),
        ([(engage(), 'done')], False, set()),
        ([(flash('B', OTHER), 'done')], True, set()),
        ([(flash('PLACE', OTHER), 'done')], True, {OTHER}),
        ([(flash('PLACE', OTHER), 'done'), (flash(), 'done')], True, {OTHER, v.GPU}),
    ],
)
def test_a_device_is_written_anew_by_what_a_job_wrote_well_itself(items, firmware, expected):
    """By its identity or its place; where firmware was spoilt a function alone mends nothing."""
    places = [v.component('PLACE').ref]
    assert expected == quarantine_writes.written_anew(job(*items), v.GPU, firmware=firmware, places=places)


SLOTS = tuple(v.slot(n).item.ref for n in (0, 1))


@pytest.mark.parametrize(
    ('items', 'anew', 'card', 'expected'),
    [
        (['Slot0'], SLOTS[1:], v.fpga(), False),
        (['Slot1'], SLOTS[1:], v.fpga(), True),
        (['Slot0', 'Slot1'], SLOTS[1:], v.fpga(), True),
        (['Slot0'], SLOTS, v.fpga(), False),
        (['Slot0', 'Slot1'], SLOTS, v.fpga(), True),
        (['Slot0'], SLOTS[1:], None, False),
        (['Slot1'], SLOTS[1:], None, True),
        (['Slot0'], SLOTS[1:], v.fpga(slots=(v.slot(0),)), True),
        (['Slot0', 'Slot1'], SLOTS[1:], v.gpu(), False),
        (['Slot0'], (), v.fpga(), True),
    ],
)
def test_a_slot_that_was_spoilt_is_mended_by_no_other_slot(items, anew, card, expected):
    """It has to be written itself, unless the card shows it no more. Of a card that is gone nobody can tell."""
    value = job(*((program(slot=int(name[-1])), 'done') for name in items))
    inventory = None if card is None else v.inventory(card)
    found = quarantine_writes.written_anew(value, v.FPGA, firmware=False, places=SLOTS, anew=anew, inventory=inventory)
    assert ({v.FPGA} if expected else set()) == found


def test_firmware_that_was_spoilt_is_mended_by_no_other_firmware():
    """Nor is a slot that was spoilt beside it left."""
    card = v.gpu(firmware=(v.component(), v.component('B')))
    anew = [v.component('B').ref]

    def written(*names):
        value = job(*((flash(n), 'done') for n in names))
        return quarantine_writes.written_anew(value, v.GPU, firmware=True, places=anew, anew=anew, inventory=v.inventory(card))

    assert (set(), {v.GPU}) == (written('GPU_0'), written('GPU_0', 'B'))
    assert {v.GPU} == written('B')


def test_where_two_cards_may_be_the_one_that_was_spoilt_both_are_written():
    """They have changed their names since: one stands in the place, the other one has the identity."""
    first, second = v.component(), v.component('GPU_1')
    swapped = v.inventory(v.gpu(firmware=(second,)), v.gpu(id=OTHER, firmware=(first,)))

    def ended(*written, inventory=swapped):
        value = job(*((flash(name, card=card), 'done') for name, card in written))
        mark = {'firmware': True, 'places': [first.ref], 'anew': [first.ref]}
        return quarantine_writes.written_anew(value, v.GPU, **mark, inventory=inventory)

    both = (('GPU_1', v.GPU), ('GPU_0', OTHER))
    assert (set(), set(), {v.GPU, OTHER}) == (ended(both[0]), ended(both[1]), ended(*both))
    exchanged = v.inventory(v.gpu(id=OTHER, firmware=(first,)))
    assert {OTHER} == ended(both[1], inventory=exchanged)


A, B, S = v.component('A').ref, v.component('B').ref, SLOTS[0]


def card_with(identity, parts):
    slots = (v.slot(0),) if S in parts else ()
    return v.fpga(id=identity, firmware=tuple(v.component(r.uri[-1]) for r in parts if r != S), slots=slots)


def written_to(identity, part):
    return program(identity) if part == S else flash(part.uri[-1], identity)


@pytest.mark.parametrize('firmware', [True, False])
@pytest.mark.parametrize('owners', list(itertools.product([v.GPU, OTHER, None], repeat=3)))
def test_a_quarantine_ends_once_all_that_may_have_been_spoilt_is_written_and_not_before(firmware, owners):
    """All marks over three parts, with all writes: each suspect gets something of the kind, and what it shows of it."""
    parts = (A, B, S)
    holds = {card: {p for p, o in zip(parts, owners, strict=True) if o == card} for card in (v.GPU, OTHER)}
    inventory = v.inventory(*(card_with(card, holds[card]) for card in holds))
    possible = [(card, part) for card in holds for part in sorted(holds[card])]
    kinds = {A, B} if firmware else {A, B, S}
    for marks in itertools.product(['good', 'was written', 'spoilt'], repeat=3):
        places = {p for p, m in zip(parts, marks, strict=True) if m != 'good'}
        anew = {p for p, m in zip(parts, marks, strict=True) if m == 'spoilt'}
        suspects = {v.GPU} | {card for card in holds if holds[card] & places}
        for chosen in itertools.product([False, True], repeat=len(possible)):
            writes = list(itertools.compress(possible, chosen))
            found = quarantine_writes.mended(
                [written_to(*w) for w in writes], v.GPU, firmware=firmware, places=places, anew=anew, inventory=inventory
            )
            left = [w for w in possible if w[0] in suspects and w[1] in anew and w not in writes]
            untouched = [card for card in suspects if not any(w[0] == card and w[1] in kinds for w in writes)]
            assert (suspects if not left and not untouched else set()) == found, (marks, writes)


TOLD = {'task_failed': True}
RESTORING = {'restoring': True, 'task_failed': True, 'message': 'refused'}
ALL = 'as sent and unlike before, although the BMC says that the write failed'
NOTHING = 'as before, and nothing shows that anything was written'


def back(**changes):
    """The flash that puts back, begun on what the component showed then."""
    return replace(BACK, **changes)


@pytest.mark.parametrize(
    ('items', 'shown', 'held'),
    [
        # Nothing of either was seen to go on, and the component is as it was.
        ([(flash(), 'failed', TOLD), (BACK, 'failed', RESTORING)], {}, NOTHING),
        ([(flash(), 'failed', TOLD | {'percent': 0}), (BACK, 'failed', RESTORING | {'percent': 0})], {}, NOTHING),
        (
            [(flash(), 'failed', TOLD), (BACK, 'failed', {'restoring': True, 'untouched': True, 'message': 'refused'})],
            {},
            NOTHING,
        ),
        ([(flash(), 'failed', TOLD), (BACK, 'skipped', {'restoring': True, 'message': 'refused'})], {}, NOTHING),
        # Each sign of a write, of the first or of the second.
        ([(flash(), 'failed', TOLD | {'percent': 1}), (BACK, 'failed', RESTORING)], {}, None),
        ([(flash(), 'failed', TOLD | {'percent': 100}), (BACK, 'failed', RESTORING)], {}, None),
        ([(flash(), 'failed', TOLD | {'evidence': WriteEvidence.PROGRESS}), (BACK, 'failed', RESTORING)], {}, None),
        ([(flash(), 'failed', TOLD | {'evidence': WriteEvidence.BLOCKS}), (BACK, 'failed', RESTORING)], {}, None),
        ([(flash(), 'failed', TOLD | {'strayed': True}), (BACK, 'failed', RESTORING)], {}, None),
        ([(flash(), 'failed', TOLD), (BACK, 'failed', RESTORING | {'percent': 40})], {}, None),
        ([(flash(), 'failed', TOLD), (BACK, 'failed', RESTORING | {'strayed': True})], {}, None),
        ([(flash(), 'failed', TOLD), (BACK, 'failed', RESTORING)], {'version': None}, None),
        ([(flash(), 'failed', TOLD), (BACK, 'failed', RESTORING)], {'version': 'recovery'}, None),
        ([(flash(), 'failed', TOLD), (BACK, 'failed', RESTORING)], {'staged': '7'}, None),
        ([(flash(), 'failed', TOLD), (back(staged='7'), 'failed', RESTORING)], {}, None),
        # No task has said that it failed.
        ([(flash(), 'failed'), (BACK, 'failed', RESTORING)], {}, None),
        ([(flash(), 'failed', TOLD), (BACK, 'failed', {'restoring': True, 'message': 'refused'})], {}, None),
        # It showed another version, or none, and shows what was put back.
        ([(flash(), 'failed', TOLD), (back(expects='broken'), 'failed', RESTORING)], {}, ALL),
        ([(flash(), 'failed', TOLD | {'percent': 60}), (back(expects='broken'), 'failed', RESTORING)], {}, ALL),
        ([(flash(), 'failed'), (back(expects=None), 'failed', RESTORING | {'strayed': True})], {}, ALL),
        ([(flash(), 'failed', TOLD), (back(expects='broken'), 'failed', RESTORING | {'percent': 100})], {'staged': v.OLD}, ALL),
        ([(flash(), 'failed', TOLD), (back(expects='broken'), 'failed', RESTORING | {'percent': 60})], {}, None),
        (
            [
                (flash(), 'failed', TOLD),
                (back(expects='broken'), 'failed', RESTORING | {'evidence': WriteEvidence.PROGRESS}),
            ],
            {},
            None,
        ),
        ([(flash(), 'failed', TOLD), (back(expects='broken'), 'failed', RESTORING)], {'staged': '7'}, None),
        ([(flash(), 'failed', TOLD), (back(expects='broken'), 'failed', {'restoring': True, 'message': 'refused'})], {}, None),
        # The new one runs, whatever its task said, and nothing of the other was written.
        ([(flash(), 'failed', TOLD), (back(expects=v.NEW), 'failed', RESTORING)], {'version': v.NEW}, ALL),
        ([(flash(), 'failed', TOLD), (back(expects=v.NEW), 'failed', RESTORING | {'percent': 5})], {'version': v.NEW}, None),
    ],
)
def test_a_card_that_proves_what_it_runs_though_each_task_has_failed_is_held_and_not_quarantined(items, shown, held):
    """One that may have been written for a part is not to be trusted, whatever version it shows."""
    end = write_outcomes.judge(job(*items), v.inventory(v.gpu(firmware=(v.component(**shown),))))
    assert (() if held else (v.GPU,)) == end.quarantined
    runs = shown.get('version', v.OLD)
    staged = f', with {v.OLD} staged' if shown.get('staged') == v.OLD else ''
    words = (
        f'{NAME} is held: GPU_0 ran {runs}{staged}, {held}; image gpu-old was to be restored: refused. The next job writes it'
    )
    assert (1 if held else 0) == len(end.held)
    assert all(sentence.startswith(words) for sentence in end.held), end.held


REVOKE = v.image('revoke-1', kind=ImageKind.REVOCATION, component='Keys', version='7')
REVOKING = v.baseline(revocations=('revoke-1',), block=frozenset())


def revoking(keys, rules=REVOKING, again=frozenset()):
    """A card with good firmware and these keys, and the plan for it."""
    inventory = v.inventory(v.gpu(firmware=(v.component(version=v.NEW), v.component('Keys', keys))))
    return inventory, plan(inventory, rules, v.NODE, (v.image(), REVOKE), again=again, spoilt=again)


def ended(made, state):
    """The job of a plan, every write of it in this state."""
    return job(*((a, state if isinstance(a, Flash) else 'done') for a in made.actions))


@pytest.mark.parametrize(('state', 'look'), [('failed', True), ('failed', False)])
@pytest.mark.parametrize(
    ('keys', 'rules'),
    [('7', REVOKING), ('7', v.baseline(block=frozenset())), ('6', v.baseline(block=frozenset()))],
)
def test_what_a_revocation_has_spoilt_is_mended_by_the_firmware(state, look, keys, rules):
    """A plan that writes all firmware anew writes no revocation, whether the rules ask for one that is there or for none."""
    inventory, made = revoking('6')
    first = ended(made, state)
    seen = inventory if look else None
    assert (v.GPU,) == write_outcomes.judge(first, seen).quarantined
    left = quarantine_writes.spoilt(first, v.GPU, seen)
    assert (True, (v.component('Keys').ref,), ()) == (left.firmware, left.places, left.anew)
    inventory, made = revoking(keys, rules, again=frozenset({v.GPU}))
    assert ((), ['gpu-new']) == (made.refusals, [a.image for a in made.actions if isinstance(a, Flash)])
    mark = {'firmware': left.firmware, 'places': left.places, 'anew': left.anew}
    assert {v.GPU} == quarantine_writes.written_anew(ended(made, 'done'), v.GPU, **mark, inventory=inventory)
    assert set() == quarantine_writes.written_anew(ended(made, 'failed'), v.GPU, **mark, inventory=inventory)
    stranger = v.inventory(replace(inventory.accelerators[0], id=OTHER))
    theirs = [replace(a, accelerator=OTHER) for a in made.actions if isinstance(a, Flash)]
    assert {OTHER} == quarantine_writes.mended(theirs, v.GPU, **mark, inventory=stranger), 'a card that was put in for it'


def test_a_part_of_a_card_is_found_by_the_item_that_is_written():
    """Firmware or slot; None for an item of another card."""
    card = v.fpga(slots=(replace(v.slot(0), item=None), v.slot(1)))
    assert card.firmware[0] == written_places.part_of(card, card.firmware[0].ref)
    assert card.slots[1].item == written_places.part_of(card, v.slot(1).item.ref)
    assert None is written_places.part_of(card, v.component().ref)


def test_what_a_card_shows_is_told_in_order_and_in_short():
    """Six parts at most, each with its version."""
    parts = tuple(v.component(name, version) for name, version in (('C', '3'), ('A', None), ('B', '2')))
    itself = replace(v.component(version='9'), id=None)
    told = 'was no longer shown; the card showed A without a version, B 2, C 3, the card itself 9'
    assert told == written_places.found_in(v.gpu(firmware=(*parts, itself)), None)
    names = [v.component(f'{n:x<99}', 'y' * 99) for n in range(7)]
    listed = ', '.join(f'{n:x<60} {"y" * 60}' for n in range(6))
    assert f'was no longer shown; the card showed {listed}' == written_places.found_in(v.gpu(firmware=tuple(names[:6])), None)
    assert f'was no longer shown; the card showed {listed} and 1 more' == written_places.found_in(
        v.gpu(firmware=tuple(names)), None
    )
