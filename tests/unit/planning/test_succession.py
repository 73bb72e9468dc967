# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The item of a component that has another URI since its update is found by evidence, or not at all."""

from dataclasses import replace
from datetime import timedelta

import pytest

from baremetal_acc.model.action import Engage, Flash, Program
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.inventory import Gap
from baremetal_acc.model.job import Flow, Job
from baremetal_acc.model.job_item import Item, ItemState
from baremetal_acc.model.lock import WritePath
from baremetal_acc.model.plan import Plan
from baremetal_acc.model.ref import Ref
from baremetal_acc.planning import succession
from baremetal_acc.planning.job_transitions import begin
from tests.unit.planning import values as v

ITEMS = 'UpdateService/FirmwareInventory'
OLD_ID, NEW_ID = 'Installed-108255-1.0__GPU.1-1', 'Installed-108255-2.0__GPU.1-1'


def item(named: str, version: str | None, software_id: str | None = '108255', **more) -> Component:
    return Component(id=named, ref=v.ref(f'{ITEMS}/{named}'), version=version, software_id=software_id, **more)


OLD, NEW = item(OLD_ID, '1.0'), item(NEW_ID, '2.0')


def flash(before=(OLD,), **more) -> Flash:
    """The flash of the first of a card's items."""
    card = v.gpu(firmware=tuple(before))
    named = before[0]
    return Flash(
        accelerator=card.id,
        component=named.id or '?',
        ref=named.ref,
        image='new',
        version='2.0',
        expects=named.version,
        item=succession.identity(card, named),
        **more,
    )


def job(*actions, state=ItemState.RUNNING) -> Job:
    made = begin(
        Plan(target='node-1', actions=actions),
        identity='j',
        node='node-1',
        flow=Flow.CLI,
        step='apply',
        lifecycle=1,
        now=v.NOW,
        timeout=timedelta(hours=1),
    )
    return replace(made, items=tuple(Item(action=i.action, since=v.NOW, state=state) for i in made.items))


def found(*after, before=(OLD,), action=None) -> Component | None:
    action = action or flash(before)
    return succession.successor(job(action), action, v.gpu(firmware=after))


@pytest.mark.parametrize(
    'after',
    [
        (NEW,),
        (item('A', '2.0'),),
        (item('Previous-108255-1.0__GPU.1-1', '1.0'), NEW),
        (NEW, item('Installed-0-7__NIC.1', '2.0', '0')),
        (item(NEW_ID, 'v2.0 '),),
    ],
)
def test_the_one_new_item_of_the_same_software_id_that_shows_what_was_sent_is_the_successor(after):
    """Whatever it is called, and whatever the old one is called by now."""
    told = found(*after)
    assert told is not None
    assert ('108255', True) == (told.software_id, told in after)


@pytest.mark.parametrize(
    'after',
    [
        (),
        (OLD,),
        (OLD, NEW),
        (NEW, item('Installed-108255-2.0__GPU.1-1-b', '2.0')),
        (item(NEW_ID, '3.0'),),
        (item(NEW_ID, None),),
        (item(NEW_ID, '2.0', '999'),),
        (replace(NEW, certain=False),),
        (replace(NEW, ref=Ref(bmc='other', uri=NEW.ref.uri)),),
        (Component(id=None, ref=v.ref('Chassis/1'), version='2.0', software_id='108255'),),
    ],
    ids=str,
)
def test_nothing_else_is_a_successor(after):
    """No item, the old one itself, two that can be it, another version, another image, a guess, another BMC, the card."""
    assert found(*after) is None


def test_an_item_that_was_there_before_is_no_successor():
    """A card may have two components of one SoftwareId, of which the other one ran what was sent all the time."""
    other = item('Installed-108255-2.0__GPU.1-2', '2.0')
    assert found(other, before=(OLD, other)) is None
    assert NEW == found(other, NEW, before=(OLD, other))


def test_an_item_that_another_write_of_the_job_goes_to_is_no_successor():
    """That write may have given it its name a moment ago."""
    mine, other = flash(), replace(flash(), component=NEW_ID, ref=NEW.ref)
    assert succession.successor(job(mine, other), mine, v.gpu(firmware=(NEW,))) is None


@pytest.mark.parametrize(
    ('old', 'before', 'new', 'after', 'same'),
    [
        ('Installed-1-1.0__GPU', '1.0', 'Installed-1-2.0__GPU', '2.0', True),
        ('GPU_1_0', '1.0', 'GPU_2_0', '2.0', True),
        ('fw-V1', 'v1', 'fw-v2.0', 'V2.0', True),
        ('Installed-1-1__GPU.1', '1', 'Installed-1-2.0__GPU.1', '2.0', True),
        ('Installed-1-1.0__GPU', '1.0', 'Available-1-2.0__GPU', '2.0', False),
        ('Installed-1-1.0__GPU.1', '1.0', 'Installed-1-2.0__GPU.2', '2.0', False),
        ('GPU', '1.0', 'GPU_1', '2.0', False),
        ('7', '1.0', '8', '2.0', False),
        ('fw', None, 'fw-2.0', '2.0', False),
    ],
)
def test_without_a_software_id_the_ids_have_to_be_the_same_but_for_the_version(old, before, new, after, same):
    """A Name is no evidence: BMCs have one for many."""
    was = item(old, before, None, name='Firmware')
    action = replace(flash((was,)), version=after)
    assert same is (found(item(new, after, None, name='Firmware'), action=action) is not None)


def test_a_job_that_was_stored_by_an_older_release_goes_by_the_id():
    """It has kept no SoftwareId."""
    assert NEW == found(NEW, action=replace(flash(), item=None))
    assert found(item('A', '2.0'), action=replace(flash(), item=None)) is None


def test_the_item_of_a_slot_is_known_by_its_slot():
    """Whatever it is called."""
    before = item('Slot0-old', '1')
    action = Program(accelerator=v.FPGA, slot='0', ref=before.ref, image='f', function='crypto', version='2.0', expects='1')
    card = v.fpga()
    slot = replace(card.slots[0], slot_id='0', item=item('Slot0-new', '2.0', None))
    other = replace(slot, slot_id='1', item=item('Slot1', '2.0', None))
    told = succession.successor(job(action), action, replace(card, slots=(slot, other)))
    assert slot.item == told
    unwritten = replace(slot, item=item('Slot0-new', '1.5', None))
    assert succession.successor(job(action), action, replace(card, slots=(unwritten, other))) is None


def test_all_that_names_the_item_follows_it():
    """What is written to it later, its locks that are still to be closed, and the records of them; nothing of another card."""
    mine, later = flash(), replace(flash(), image='newer', version='3.0', expects='2.0')
    lock = Engage(
        accelerator=mine.accelerator, mechanism='wp', ref=OLD.ref, field='W', blocks=frozenset({WritePath.HOST_DEVICE})
    )
    foreign = replace(mine, accelerator=v.FPGA)
    moved = succession.moved(job(mine, later, lock, foreign), mine, NEW)
    assert [NEW.ref, NEW.ref, NEW.ref, OLD.ref] == [i.action.ref for i in moved.items]
    assert [NEW_ID, NEW_ID, OLD_ID] == [i.action.component for i in moved.items if isinstance(i.action, Flash)]


@pytest.mark.parametrize('state', [ItemState.RUNNING, ItemState.STAGED, ItemState.DONE, ItemState.FAILED])
def test_a_whole_look_shows_where_a_write_is_now(state):
    """Also after it has ended: what waits for a restart is renamed by that, and what has failed may be there all the same."""
    look = v.inventory(v.gpu(firmware=(NEW,)))
    (one,) = succession.followed(job(flash(), state=state), look).items
    assert NEW.ref == one.action.ref


def test_what_was_not_written_or_may_be_hidden_stays_where_it_is():
    """A write that was not begun has renamed nothing; an old item that could not be read may still be there."""
    look = v.inventory(v.gpu(firmware=(NEW,)))
    planned = job(flash(), state=ItemState.PLANNED)
    assert planned == succession.followed(planned, look)
    gap = Gap(ref=v.ref(ITEMS), reason='HTTP 500', hides=True)
    running = job(flash())
    assert running == succession.followed(running, replace(look, gaps=(gap,)))
