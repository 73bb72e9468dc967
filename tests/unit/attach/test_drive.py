# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Drivers are somebody else's code: each is asked once for all that is its own, and believed as far as that goes."""

from dataclasses import replace

import pytest

from baremetal_acc.attach import drive
from baremetal_acc.attach.api import Around, AttachUndo, PreparedAttachment
from baremetal_acc.attach.device import DeviceAttachDriver
from baremetal_acc.attach.dpu import DpuAttachDriver
from baremetal_acc.attach.drive import AttachDriverBroken
from baremetal_acc.attach.find import FoundDriver
from baremetal_acc.attach.region import RegionAttachDriver
from baremetal_acc.errors import AccError, UsageError
from baremetal_acc.model.accelerator import Kind, PciIds
from baremetal_acc.model.attach import AttachHandle, AttachState, Claim, FunctionAssignment, HandleType
from baremetal_acc.policy.baseline_rules import Offering
from baremetal_acc.scheduling.schedulable import Offer, Supply
from tests.unit.planning import values as v

INSTANCE = '11111111-aaaa-4bbb-8ccc-222222222222'
GPU = v.gpu(pci=PciIds(vendor_id='0x10de', device_id='0x2330', address='0000:3b:00.0'), location='PCIe Slot 4')
FPGA = v.fpga(pci=PciIds(vendor_id='0x8086', device_id='0x09c4', address='0000:e3:00.0'))
DPU = v.gpu(id='uuid:dpu-0', kind=Kind.DPU, model='DPU', pci=PciIds(address='0000:17:00.0'))
OURS = FoundDriver(drivers=(DeviceAttachDriver(), DpuAttachDriver(), RegionAttachDriver()))

CARD = Claim(provider='p-gpu', classes=frozenset({'PGPU'}), accelerator=v.GPU, kind=Kind.GPU)
DPU_CLAIM = Claim(provider='p-dpu', classes=frozenset({'CUSTOM_ACC_DPU'}), accelerator=DPU.id, kind=Kind.DPU)
SLOTS = tuple(
    Claim(provider=f'p-{n}', classes=frozenset({'FPGA'}), accelerator=v.FPGA, kind=Kind.FPGA, slot=f'Slot{n}') for n in (0, 1)
)


def around(*accelerators, holds=None, functions=None, takes=('gzip', 'aes', 'zstd'), asked=()):
    """A machine with a GPU, a DPU and an FPGA; its slots can be given three functions."""
    made = Offer(how=Offering.REGION, takes={f'Slot{n}': frozenset(takes) for n in (0, 1)})
    by_place = {(v.FPGA, slot): name for slot, name in (holds or {}).items()}
    in_play = by_place if functions is None else {(v.FPGA, slot): name for slot, name in functions.items()}
    return Around(
        instance=INSTANCE,
        inventory=v.inventory(*(accelerators or (GPU, DPU, FPGA))),
        supply=Supply(functions=in_play, offers={v.FPGA: made}),
        holds=by_place,
        asked=asked,
    )


def prepared(claims=SLOTS, **known):
    found = drive.devices(OURS, claims, around(**known))
    return drive.prepare(OURS, found, around(**known))


def written(**known):
    """Both slots as they are when they have to go back."""
    return tuple(replace(a, written=True, state=AttachState.UNPREPARING) for a in prepared(**known).attachments)


# ------------------------------------------------------------------------------------------------------------- our own


def test_each_has_the_handle_by_which_the_instance_finds_it():
    """A device its PCI address, a slot its name and that of its card, a DPU the function that it shows to the host."""
    found = drive.devices(OURS, (*SLOTS, DPU_CLAIM, CARD), around())
    assert [
        ('dpu', AttachHandle(handle=HandleType.DPU_FUNCTION, address='0000:17:00.0')),
        ('region', AttachHandle(handle=HandleType.SLOT, address='0000:e3:00.0', slot='Slot0')),
        ('region', AttachHandle(handle=HandleType.SLOT, address='0000:e3:00.0', slot='Slot1')),
        ('device', AttachHandle(handle=HandleType.PCI, address='0000:3b:00.0', location='PCIe Slot 4')),
    ] == [(a.driver, a.handle) for a in found]


def test_what_was_asked_for_is_given_and_what_was_there_is_remembered():
    """A slot that holds it already gets it; devices need nothing."""
    made = prepared((*SLOTS, CARD), holds={'Slot0': 'zstd', 'Slot1': 'gzip'}, asked=('aes', 'gzip'))
    assert [('Slot0', 'aes', 'zstd'), ('Slot1', 'gzip', 'gzip'), (None, None, None)] == [
        (a.slot, a.function, a.previous) for a in made.attachments
    ]
    gives = {
        FunctionAssignment(accelerator=v.FPGA, slot='Slot0', function='aes'),
        FunctionAssignment(accelerator=v.FPGA, slot='Slot1', function='gzip'),
    }
    assert gives == set(made.gives)


def test_a_slot_for_which_nothing_was_asked_keeps_what_it_holds():
    """And is to hold that until it is handed over."""
    made = prepared(holds={'Slot0': 'zstd'})
    assert [('zstd', ()), (None, ())] == [(a.function, made.gives) for a in made.attachments]


def test_what_cannot_be_done_is_refused_before_anything_is():
    """In the words of the driver."""
    with pytest.raises(UsageError, match='no region is left for zstd'):
        prepared(asked=('aes', 'gzip', 'zstd'))


def test_all_is_as_it_was_promised():
    """The function is in play, and nothing has moved."""
    made = prepared((*SLOTS, CARD, DPU_CLAIM), asked=('aes', 'gzip'))
    items = [replace(a, written=True) for a in made.attachments]
    now = around(holds={'Slot0': 'gzip', 'Slot1': 'aes'})
    assert () == drive.post_plug(OURS, items, now)


def test_what_is_not_as_it_was_promised_is_said_by_name():
    """Another function, a slot that has gone, a card that has gone, another address."""
    items = [replace(a, written=True) for a in prepared((*SLOTS, CARD, DPU_CLAIM), asked=('aes', 'gzip')).attachments]
    moved = replace(DPU, pci=PciIds(address='0000:99:00.0'))
    one = replace(FPGA, slots=FPGA.slots[:1], pci=PciIds(address='0000:e4:00.0'))
    told = ' | '.join(drive.post_plug(OURS, items, around(moved, one, holds={'Slot0': 'aes'})))
    assert 'programmed with gzip, but holds aes' in told
    assert 'PCI address changed from 0000:e3:00.0 to 0000:e4:00.0 since it was attached' in told
    assert 'Slot1 of Stratix FPGA1 (uuid:fpga-1): claimed by the instance, but no longer reported by its BMC' in told
    assert 'H100 GPU_0 (uuid:gpu-0): claimed by the instance' in told
    assert 'PCI address changed from 0000:17:00.0 to 0000:99:00.0 since it was attached' in told


def test_an_address_that_is_not_shown_proves_nothing():
    """Many BMCs show it only while the host runs."""
    [item] = drive.devices(OURS, (CARD,), around())
    assert () == drive.post_plug(OURS, [item], around(replace(GPU, pci=PciIds())))
    [unknown] = drive.devices(OURS, (CARD,), around(replace(GPU, pci=PciIds())))
    assert () == drive.post_plug(OURS, [unknown], around())


def test_what_was_claimed_as_a_function_has_to_be_that_function():
    """Though nobody has programmed it for the instance."""
    claim = replace(SLOTS[0], classes=frozenset({'CUSTOM_ACC_FN_AES'}))
    items = drive.devices(OURS, (claim,), around(holds={'Slot0': 'gzip'}))
    [told] = drive.post_plug(OURS, items, around(holds={'Slot0': 'gzip'}))
    assert 'the instance has claimed CUSTOM_ACC_FN_AES, but the region holds gzip' in told


def test_what_was_there_before_comes_back():
    """In the order in which it was asked for."""
    items = written(holds={'Slot0': 'zstd', 'Slot1': 'aes'}, asked=('gzip',))
    way = drive.unprepare(OURS, items[::-1], around(holds={'Slot0': 'gzip', 'Slot1': 'gzip'}))
    assert [('Slot1', 'aes'), ('Slot0', 'zstd')] == [(g.slot, g.function) for g in way.undo.gives]
    assert {} == way.failed


@pytest.mark.parametrize(
    ('doubtful', 'holds', 'takes', 'given', 'kept'),
    [
        (False, 'gzip', ('gzip', 'aes'), [], 'no BMC can empty a slot, so it keeps gzip'),
        (True, 'gzip', ('gzip', 'aes'), ['gzip'], None),
        (True, None, ('gzip', 'aes'), ['aes'], None),
        (False, None, ('gzip', 'aes'), ['aes'], None),
        (True, 'gzip', (), [], 'no rule allows a function for it any more'),
    ],
)
def test_a_slot_that_held_nothing_is_made_known(doubtful, holds, takes, given, kept):
    """No BMC can empty it; what nobody can tell is overwritten by what its rules let it take."""
    first = replace(written(asked=('gzip',))[0], doubtful=doubtful)
    way = drive.unprepare(OURS, [first], around(holds={'Slot0': holds} if holds else {}, takes=takes))
    assert given == [g.function for g in way.undo.gives]
    assert (kept is None) == (way.undo.kept == {})
    assert kept is None or kept in way.undo.kept['p-0']


def test_what_cannot_be_had_any_more_does_not_come_back():
    """Its image was denied, or taken out of the catalogue."""
    items = written(holds={'Slot0': 'ipsec', 'Slot1': 'zstd'}, asked=('gzip',))
    way = drive.unprepare(OURS, items, around(holds={'Slot0': 'gzip', 'Slot1': 'gzip'}))
    assert ['zstd'] == [g.function for g in way.undo.gives]
    assert 'its previous function ipsec is not available' in way.undo.kept['p-0']


def test_a_card_that_is_gone_has_nothing_to_bring_back():
    """Whoever has taken it out has taken it with what it held."""
    way = drive.unprepare(OURS, written(asked=('gzip',)), around(GPU, takes=()))
    assert {'p-0': 'its card is no longer reported', 'p-1': 'its card is no longer reported'} == way.undo.kept


# ------------------------------------------------------------------------------------------------------ somebody else's


class Bad(RegionAttachDriver):
    """Somebody else's, for slots, that raises where it is told to, or answers what it is told to."""

    name = 'bad'

    def __init__(self, method: str, answer: object = None) -> None:
        self._method = method
        self._answer = answer
        for known in ('can_handle', 'get_devices', 'prepare', 'post_plug', 'unprepare'):
            if known == method:
                setattr(self, known, self._spoilt)

    def _spoilt(self, *arguments: object) -> object:
        if self._answer is None:
            raise RuntimeError('out of order')
        return self._answer


def with_bad(method: str, answer: object = None) -> FoundDriver:
    return FoundDriver(drivers=(Bad(method, answer), DeviceAttachDriver(), DpuAttachDriver()))


def theirs(**changes):
    """The slots as somebody else's driver has them."""
    return tuple(replace(a, driver='bad', **changes) for a in drive.devices(OURS, SLOTS, around()))


def test_who_cannot_say_what_it_looks_after_is_passed_over():
    """Another one looks after it; where there is none, who has failed is named."""
    found = with_bad('can_handle')
    assert ['device'] == [a.driver for a in drive.devices(found, (CARD,), around())]
    with pytest.raises(
        AttachDriverBroken,
        match=r'^attach driver bad \(baremetal_acc.attach\): can_handle: .*out of order; and no other driver accepts Slot0',
    ):
        drive.devices(found, SLOTS, around())
    broken = FoundDriver(drivers=(DeviceAttachDriver(),), broken=(('acme', 'it cannot be loaded: ImportError: x'),))
    with pytest.raises(AttachDriverBroken, match=r'attach driver acme .*cannot be loaded'):
        drive.devices(broken, SLOTS, around())
    with pytest.raises(AccError, match='no attach driver accepts Slot0'):
        drive.devices(FoundDriver(drivers=(DeviceAttachDriver(),)), SLOTS, around())


@pytest.mark.parametrize('answer', [None, (), 'text', 7, (1, 2), 'gpu'])
def test_get_devices_has_to_answer_for_what_it_was_asked(answer):
    """Else an instance would get what it has not claimed, or not what it has."""
    answer = drive.devices(OURS, (CARD,), around()) if answer == 'gpu' else answer
    with pytest.raises(AttachDriverBroken, match=r'attach driver bad .*get_devices'):
        drive.devices(with_bad('get_devices', answer), (*SLOTS, CARD), around())


@pytest.mark.parametrize('answer', [None, (), PreparedAttachment(attachments=()), PreparedAttachment(attachments=7)])
def test_prepare_that_fails_is_named(answer):
    """Nothing was done of any of them then."""
    with pytest.raises(AttachDriverBroken, match=r'attach driver bad .*prepare'):
        drive.prepare(with_bad('prepare', answer), theirs(), around())


@pytest.mark.parametrize('place', [(v.GPU, 'Slot0'), (v.FPGA, 'Slot7')])
def test_nobody_writes_to_what_it_does_not_look_after(place):
    """Another instance's slot, for one."""
    give = FunctionAssignment(accelerator=place[0], slot=place[1], function='gzip')
    with pytest.raises(AttachDriverBroken, match='prepare: ValueError: it requests a change of a slot that it was not given'):
        drive.prepare(with_bad('prepare', PreparedAttachment(attachments=theirs(), gives=(give,))), theirs(), around())
    way = drive.unprepare(with_bad('unprepare', AttachUndo(gives=(give,))), theirs(), around())
    assert (2, ()) == (len(way.failed), way.undo.gives)


def test_nobody_passes_its_work_on_to_another_driver():
    """What it answers stays its own."""
    stolen = PreparedAttachment(attachments=tuple(replace(a, driver='device') for a in theirs()))
    made = drive.prepare(with_bad('prepare', stolen), theirs(), around())
    assert ['bad', 'bad'] == [a.driver for a in made.attachments]


def test_what_cannot_be_looked_at_is_not_as_promised():
    """The others are looked at all the same."""
    items = (*theirs(), *drive.devices(OURS, (CARD,), around()))
    told = drive.post_plug(with_bad('post_plug'), items, around(FPGA))
    assert 2 == len(told)
    assert 'attach driver bad' in told[0]
    assert 'H100 GPU_0' in told[1]
    assert ('x' * 500,) == drive.post_plug(with_bad('post_plug', ('x' * 501,)), theirs(), around())
    assert 'not a tuple' in drive.post_plug(with_bad('post_plug', 'text'), theirs(), around())[0]


def test_who_cannot_bring_back_keeps_no_other_from_it():
    """Its own are named; those of the others are brought back."""
    others = tuple(
        replace(a, accelerator=v.FPGA, provider=f'{a.provider}-x', driver='region') for a in written(asked=('gzip',))
    )
    found = FoundDriver(drivers=(Bad('unprepare'), DeviceAttachDriver(), DpuAttachDriver(), RegionAttachDriver()))
    way = drive.unprepare(found, (*theirs(), *others), around(holds={'Slot0': 'gzip', 'Slot1': 'gzip'}))
    assert {'p-0', 'p-1'} == set(way.failed)
    assert all('attach driver bad' in why and 'out of order' in why for why in way.failed.values())
    assert {'p-0-x', 'p-1-x'} == set(way.undo.kept)


def test_what_an_uninstalled_driver_had_is_brought_back_by_ours():
    """And is not prepared or taken for plugged by anybody else."""
    items = theirs(previous='aes', written=True)
    way = drive.unprepare(OURS, items, around(holds={'Slot0': 'gzip', 'Slot1': 'gzip'}))
    assert ['aes', 'aes'] == [g.function for g in way.undo.gives]
    assert 'it is no longer installed' in drive.post_plug(OURS, items, around())[0]
    with pytest.raises(AttachDriverBroken, match=r'attach driver bad .*no longer installed'):
        drive.prepare(OURS, items, around())
    broken = replace(OURS, broken=(('bad', 'it cannot be loaded: ImportError: x'),))
    assert 2 == len(drive.unprepare(broken, items, around()).failed), 'who is broken may come back'
