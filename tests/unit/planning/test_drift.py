# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What counts as a change between two looks, what is only a gap, and what is remembered behind it."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from baremetal_acc.model.accelerator import Accelerator, IdentitySource, Kind, PciIds
from baremetal_acc.model.action import CheckImage, Engage, Flash, Program, Publish, Release, Reset, ResetPurpose, Withdraw
from baremetal_acc.model.codec import decode, encode
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.inventory import Accounts, BmcFacts, BmcUser, Gap, Inventory, PowerEvent, TaskReading, TaskState
from baremetal_acc.model.inventory_change import Change, ChangeKind
from baremetal_acc.model.lock import LockState, ResetKind
from baremetal_acc.model.ref import AcceleratorId, BmcName, Ref
from baremetal_acc.model.subject import Subject, SubjectKind
from baremetal_acc.planning import drift as decide
from baremetal_acc.planning.drift import beyond, shown
from baremetal_acc.planning.remembered_inventory import remembered
from baremetal_acc.render import changes as in_words
from tests.unit.planning import values as v

LATER = v.NOW + timedelta(days=1)
PROCESSORS = v.ref('Systems/1/Processors')
OTHER = AcceleratorId('uuid:gpu-9')


def look(*accelerators: Accelerator, gaps: tuple[Gap, ...] = ()) -> Inventory:
    """A later look; with no device, an empty one."""
    return replace(v.inventory(at=LATER), accelerators=accelerators, gaps=gaps)


def hole(ref: Ref = PROCESSORS, *, hides: bool = True, field: str | None = None) -> Gap:
    """A resource that could not be read."""
    return Gap(ref=ref, reason='HTTP 500', hides=hides, field=field)


def unreadable_item(**changes: object) -> Accelerator:
    """A GPU whose firmware item has no version this time."""
    return v.gpu(firmware=(v.component(version=None),), **changes)


TOLD: dict[Change, str] = {}
"""The sentence of each change that :func:`drift` has found, with what it holds in words."""


def drift(before: Inventory, now: Inventory) -> tuple[Change, ...]:
    """The changes with values and reasons in words, as people and notifications get them."""
    found = []
    for change in decide.drift(before, now):
        reason: Any = None if change.reason is None else in_words.reason(change.reason)
        words = replace(change, was=in_words.value(change.was), found=in_words.value(change.found), reason=reason)
        TOLD[words] = in_words.sentence(change)
        found.append(words)
    return tuple(found)


def sentence(change: Change) -> str:
    """The sentence of a change that was found."""
    return TOLD[change]


def kinds(changes: tuple[Change, ...]) -> list[str]:
    """What kinds of change there are."""
    return [str(c.kind) for c in changes]


def test_what_moves_by_itself_is_not_remembered_of_a_bmc():
    """When its host was last reset, what has started it, how long it has been on: each look would be another one by that."""
    moves = {
        'session': 's',
        'last_reset': 'monday',
        'boot_progress': 'None',
        'bmc_reset': 'sunday',
        'power_on_hours': 60,
        'restart_cause': 'power button',
        'power_event': frozenset({PowerEvent.FAULT}),
        'log_mark': '1 entries',
    }
    before = v.inventory(v.gpu())
    stays = {
        'firmware_version': '1.2',
        'accounts': Accounts(users=(BmcUser(number=2, name='root', privilege='administrator'),)),
    }
    now = replace(before, bmcs=tuple(replace(b, **moves, **stays) for b in before.bmcs))
    (kept,) = remembered(None, now).bmcs
    assert (before.bmcs[0].product, before.bmcs[0].power) == (kept.product, kept.power)
    assert stays == {name: getattr(kept, name) for name in stays}
    assert {name: getattr(BmcFacts(name=kept.name, address='', session=''), name) for name in moves} == {
        name: getattr(kept, name) for name in moves
    }
    assert kept == decode(BmcFacts, encode(kept))
    assert now == decode(Inventory, encode(now))


def test_two_equal_looks_differ_in_nothing():
    """Times and sessions are no change, and neither is a device's health or PCI address."""
    before = v.inventory(v.gpu(), v.fpga())
    again = look(
        v.gpu(
            health='Warning',
            pci=PciIds(vendor_id='0x10de', device_id='0x2330', address='0000:41:00.0'),
            locks=(v.reading(at=LATER, session='another'),),
        ),
        v.fpga(),
    )
    assert () == drift(before, again)
    assert () == drift(remembered(None, before), again)


def test_a_card_that_is_missing_is_gone():
    """It is named with its place; nothing hides it."""
    assert ['H100 GPU_0 (uuid:gpu-0) is gone, was at host:/redfish/v1/Systems/1/Processors/GPU_0'] == [
        sentence(c) for c in drift(v.inventory(v.gpu(), v.fpga()), look(v.fpga()))
    ]


NAMELESS = AcceleratorId('uri:host:/x')
WEAK = 'identified by its URI only: an identical card in its place would not be noticed'


@pytest.mark.parametrize(
    ('now', 'change', 'text'),
    [
        (
            look(v.fpga()),
            {'kind': ChangeKind.GONE, 'was': 'Slot 5', 'reason': WEAK},
            f'H100 GPU_0 (uri:host:/x) is gone, was at Slot 5 ({WEAK})',
        ),
        (
            look(gaps=(hole(),)),
            {'kind': ChangeKind.NOT_SEEN, 'was': 'Slot 5', 'reason': f'{PROCESSORS} could not be read: HTTP 500'},
            'H100 GPU_0 (uri:host:/x) could not be read, was at Slot 5 '
            '(host:/redfish/v1/Systems/1/Processors could not be read: HTTP 500)',
        ),
        (
            look(nameless := v.gpu(id=NAMELESS, identity=IdentitySource.URI, location='Slot 5', model='B200', serial='S9')),
            {
                'kind': ChangeKind.SWAPPED,
                'label': 'B200 GPU_0',
                'was': 'a card with model H100, serial S1',
                'found': 'Slot 5',
                'reason': WEAK,
            },
            f'B200 GPU_0 (uri:host:/x) is in the place of a card with model H100, serial S1 ({WEAK})',
        ),
        (
            look(replace(nameless, id=OTHER, identity=IdentitySource.UUID, model='H100', serial='S1', uuid='9')),
            {
                'kind': ChangeKind.IDENTITY,
                'accelerator': OTHER,
                'was': 'uri:host:/x',
                'found': 'uuid:gpu-9',
                'reason': 'it is the same card by its serial',
            },
            'H100 GPU_0 (uuid:gpu-9) was known as uri:host:/x before (it is the same card by its serial)',
        ),
        (
            look(replace(nameless, id=OTHER, identity=IdentitySource.UUID, model='H100', serial=None, uuid='9')),
            {
                'kind': ChangeKind.IDENTITY,
                'accelerator': OTHER,
                'was': 'uri:host:/x',
                'found': 'uuid:gpu-9',
                'reason': 'it is unknown whether it is the same card',
            },
            'H100 GPU_0 (uuid:gpu-9) was known as uri:host:/x before (it is unknown whether it is the same card)',
        ),
    ],
)
def test_what_has_become_of_a_card_is_told_with_all_that_has_to_be_known(now: Inventory, change: dict[str, Any], text: str):
    """As data and in words: which card, where it is or was, which resource shows it, and how sure that is."""
    before = v.inventory(v.gpu(id=NAMELESS, identity=IdentitySource.URI, location='Slot 5', serial='S1'))
    found = drift(before, now)[0]
    everything = {
        'accelerator': NAMELESS, 'label': 'H100 GPU_0', 'subject': Subject(kind=SubjectKind.CARD),
        'was': None, 'found': None, 'ref': v.gpu().primary,
    }  # fmt: skip
    assert (Change(**(everything | change)), text) == (found, sentence(found))


def test_a_card_that_may_be_hidden_is_not_seen():
    """The text says behind what; the gap of another BMC hides nothing of this one's."""
    before = v.inventory(v.gpu())
    found = drift(before, look(gaps=(hole(),)))
    assert ['not-seen'] == kinds(found)
    assert 'could not be read' in sentence(found[0])
    assert 'host:/redfish/v1/Systems/1/Processors could not be read: HTTP 500' in sentence(found[0])
    elsewhere = hole(Ref(bmc=BmcName('dpu'), uri='/redfish/v1/Chassis'))
    assert ['gone'] == kinds(drift(before, look(gaps=(elsewhere,))))
    assert ['gone'] == kinds(drift(before, look(gaps=(hole(hides=False),))))


def test_a_card_whose_bmc_was_not_asked_is_not_seen():
    """An operator who takes a BMC away from a node has removed no card."""
    dpu = Ref(bmc=BmcName('dpu'), uri='/redfish/v1/Chassis/Card1')
    found = drift(v.inventory(v.gpu(primary=dpu, refs=(dpu,))), look())
    assert 'not read: BMC dpu' == found[0].reason
    assert ['not-seen'] == kinds(found)
    both = replace(dpu, bmc=BmcName('dpu-2'))
    assert ['not read: BMC dpu, dpu-2'] == [c.reason for c in drift(v.inventory(v.gpu(primary=dpu, refs=(both, dpu))), look())]


def test_a_card_comes_back_from_behind_a_gap_as_it_was():
    """Not seen is remembered: neither the gap nor its end makes the card new."""
    kept = remembered(v.inventory(v.gpu()), look(gaps=(hole(),)))
    assert () == drift(kept, look(v.gpu()))
    assert ['gone'] == kinds(drift(kept, look()))
    assert () == remembered(v.inventory(v.gpu()), look()).accelerators


def test_a_change_behind_a_gap_is_told_when_the_gap_is_gone():
    """Version and function that could not be read are compared with what was known before."""
    before = v.inventory(v.gpu())
    gapped = look(unreadable_item(), gaps=(hole(v.ref('UpdateService/FirmwareInventory/GPU_0'), hides=False, field='Version'),))
    assert ['unreadable'] == kinds(drift(before, gapped))
    kept = remembered(before, gapped)
    assert () == drift(kept, look(v.gpu()))
    assert ['firmware'] == kinds(drift(kept, look(v.gpu(firmware=(v.component(version='6.6.6'),)))))


def test_a_version_that_could_not_be_read_has_not_changed():
    """The text says what was known, and why it does not come."""
    gap = hole(v.ref('UpdateService/FirmwareInventory/GPU_0'), hides=False, field='Version')
    (found,) = drift(v.inventory(v.gpu()), look(unreadable_item(), gaps=(gap,)))
    assert (
        'H100 GPU_0, firmware GPU_0: 1.0 before, could not be read now '
        '(host:/redfish/v1/UpdateService/FirmwareInventory/GPU_0: HTTP 500)'
    ) == sentence(found)
    assert found.certain is False


def test_what_was_never_known_has_not_changed():
    """A version, an id or a lock that is read for the first time."""
    bare = v.gpu(firmware=(v.component(version=None),), vendor=None, locks=(replace(v.reading(), value=None),))
    changed = drift(v.inventory(bare), look(v.gpu()))
    assert () == changed


def test_a_component_that_is_missing_behind_a_gap_is_not_removed():
    """Without the gap it is."""
    before, now = v.inventory(v.gpu()), v.gpu(firmware=())
    assert ['firmware'] == kinds(drift(before, look(now)))
    assert 'H100 GPU_0, firmware GPU_0: 1.0 before, absent now' == sentence(drift(before, look(now))[0])
    for ref in ('UpdateService/FirmwareInventory/GPU_0', 'UpdateService/FirmwareInventory', 'UpdateService', 'Chassis/RoT_0'):
        assert ['unreadable'] == kinds(drift(before, look(now, gaps=(hole(v.ref(ref)),)))), ref
    for ref in ('UpdateService/FirmwareInventory/GPU_0', 'UpdateService'):
        assert ['unreadable'] == kinds(drift(before, look(now, gaps=(hole(v.ref(ref), hides=False),)))), ref
    odd_field_above = hole(v.ref('UpdateService'), field='HttpPushUri', hides=False)
    assert ['firmware'] == kinds(drift(before, look(now, gaps=(odd_field_above,))))
    item = v.ref('UpdateService/FirmwareInventory/GPU_0')
    with_slash, begins_alike = v.ref('UpdateService/'), v.ref('UpdateServiceX')
    assert ['unreadable'] == kinds(drift(before, look(now, gaps=(hole(with_slash, hides=False),))))
    assert ['firmware'] == kinds(drift(before, look(now, gaps=(hole(begins_alike, hides=False),))))
    assert (
        Change(
            kind=ChangeKind.UNREADABLE,
            accelerator=v.GPU,
            label='H100 GPU_0',
            subject=Subject.from_text('firmware GPU_0'),
            was='1.0',
            found=None,
            ref=item,
            reason='host:/redfish/v1/Chassis/RoT_0: HTTP 500',
        ),
    ) == drift(before, look(now, gaps=(hole(v.ref('Chassis/RoT_0')),)))


def test_a_reason_of_a_bmc_is_shortened():
    """Also one that says why a card or a value could not be read."""
    endless = replace(hole(v.ref('Chassis')), reason='x' * 10**4)
    (card,) = drift(v.inventory(v.gpu()), look(gaps=(endless,)))
    (value,) = drift(v.inventory(v.gpu()), look(v.gpu(firmware=()), gaps=(endless,)))
    for found in (card, value):
        assert found.reason is not None
        assert (360, True) == (len(found.reason), found.reason.endswith('xxx...'))


def test_a_component_that_may_have_been_hidden_before_was_not_added():
    """The first look could not read what links it to its card."""
    before = replace(v.inventory(v.gpu()), gaps=(hole(v.ref('Chassis/RoT_0')),))
    after = look(v.gpu(firmware=(v.component(), v.component('RoT_0', '7'))))
    assert () == drift(before, after)
    assert ['firmware'] == kinds(drift(replace(before, gaps=()), after))
    elsewhere = hole(Ref(bmc=BmcName('dpu'), uri='/redfish/v1/Chassis'))
    for hides_nothing_here in (hole(v.ref('Chassis/RoT_0'), hides=False), elsewhere):
        assert ['firmware'] == kinds(drift(replace(before, gaps=(hides_nothing_here,)), after))
    opened = v.reading(LockState.UNLOCKED, session='later')
    more = replace(after.accelerators[0], locks=(replace(opened, value='true'),))
    assert ['lock', 'write-path'] == kinds(drift(before, look(more)))


def test_firmware_that_changed_is_told_with_both_versions():
    """Running, staged, added."""
    before = v.inventory(v.gpu())
    change = Change(
        kind=ChangeKind.FIRMWARE,
        accelerator=v.GPU,
        label='H100 GPU_0',
        subject=Subject.from_text('firmware GPU_0'),
        was='1.0',
        found='3.0',
        ref=v.component().ref,
    )
    assert (change,) == drift(before, look(v.gpu(firmware=(v.component(version='3.0'),))))
    for firmware, text in (
        ((v.component(version='3.0'),), 'firmware GPU_0: 1.0 before, 3.0 now'),
        ((v.component(staged='3.0'),), 'firmware GPU_0: 1.0 before, 1.0, with 3.0 staged for the next reset now'),
        ((v.component(), v.component('RoT_0', '7')), 'firmware RoT_0: absent before, 7 now'),
    ):
        assert [f'H100 GPU_0, {text}'] == [sentence(c) for c in drift(before, look(v.gpu(firmware=firmware)))]


def test_another_card_at_the_same_place_was_swapped():
    """By slot, by resource; nothing else is compared between two cards."""
    before = v.inventory(v.gpu(location='Slot 5'))
    by_slot = v.gpu(id=OTHER, location='Slot 5', primary=v.ref('X'), refs=(v.ref('X'),), uuid='9', firmware=())
    before = v.inventory(v.gpu(location='Slot 5', uuid='0'))
    (found,) = drift(before, look(by_slot))
    assert 'H100 X (uuid:gpu-9) is in the place of H100 GPU_0 (uuid:gpu-0)' == sentence(found)
    assert (ChangeKind.SWAPPED, OTHER, 'Slot 5') == (found.kind, found.accelerator, found.found)
    by_uri = v.gpu(id=OTHER, uuid='9')
    assert ['swapped'] == kinds(drift(v.inventory(v.gpu(uuid='0')), look(by_uri)))


def test_what_stands_in_another_slot_was_not_swapped():
    """A BMC may give the resource of a card that is gone to another one."""
    before = v.inventory(v.gpu(location='Slot 5', uuid='0'))
    assert ['gone', 'new'] == kinds(drift(before, look(v.gpu(id=OTHER, location='Slot 6', uuid='9'))))
    nowhere = v.gpu(id=OTHER, uuid='9', primary=v.ref('X'), refs=(v.ref('X'),))
    assert ['gone', 'new'] == kinds(drift(v.inventory(v.gpu(uuid='0')), look(nowhere)))


@pytest.mark.parametrize(
    ('better', 'worse'),
    [
        ({'location': 'Slot 5'}, {'primary': v.gpu().primary}),
        ({'location': 'Slot 5'}, {'refs': (v.ref('P'), v.ref('Shared'))}),
        ({'primary': v.gpu().primary}, {'refs': (v.ref('P'), v.ref('Shared'))}),
        ({'refs': (v.ref('P'), v.ref('Shared'))}, {}),
    ],
)
def test_of_several_cards_the_one_that_surely_stands_at_the_place_was_swapped(
    better: dict[str, object], worse: dict[str, object]
):
    """A location says more than the first resource, and that more than any other one; no card stands for two."""
    primary = v.gpu().primary
    before = v.inventory(v.gpu(location='Slot 5', uuid='0', refs=(primary, v.ref('Shared'))))
    first = v.gpu(**({'id': AcceleratorId('uuid:a'), 'uuid': 'a', 'primary': v.ref('P'), 'refs': (v.ref('P'),)} | worse))
    second = v.gpu(**({'id': AcceleratorId('uuid:b'), 'uuid': 'b', 'primary': v.ref('Q'), 'refs': (v.ref('Q'),)} | better))
    assert [('swapped', 'uuid:b'), ('new', 'uuid:a')] == [(c.kind, c.accelerator) for c in drift(before, look(first, second))]


def test_a_location_that_several_cards_have_tells_nothing():
    """Real machines give one text to all: then the resources decide."""
    first = v.gpu(location='Tray', uuid='0')
    second = v.gpu(id=AcceleratorId('uuid:gpu-1'), location='Tray', uuid='1', primary=v.ref('G1'), refs=(v.ref('G1'),))
    swapped = replace(second, id=OTHER, uuid='9')
    (found,) = drift(v.inventory(first, second), look(first, swapped))
    assert 'H100 G1 (uuid:gpu-9) is in the place of H100 G1 (uuid:gpu-1)' == sentence(found)


def test_the_same_card_at_another_place_has_moved():
    """Two cards that changed places: two moves, nothing gone, nothing new."""
    first = v.gpu(location='Slot 1')
    second = v.gpu(id=OTHER, location='Slot 2', primary=v.ref('G9'), refs=(v.ref('G9'),))
    crossed = (
        replace(first, location='Slot 2', primary=second.primary, refs=second.refs),
        replace(second, location='Slot 1', primary=first.primary, refs=first.refs),
    )
    assert ['moved', 'moved'] == kinds(drift(v.inventory(first, second), look(*crossed)))
    assert 'has moved: at Slot 1 before, at Slot 2 now' in sentence(drift(v.inventory(first), look(crossed[0]))[0])


def test_a_card_without_a_location_has_moved_when_none_of_its_resources_is_the_same():
    """One that is shown in one look only is no move."""
    before, elsewhere = v.gpu(), v.gpu(primary=v.ref('G9'), refs=(v.ref('G9'),))
    (found,) = drift(v.inventory(before), look(elsewhere))
    assert (
        'H100 G9 (uuid:gpu-0) has moved: at host:/redfish/v1/Systems/1/Processors/GPU_0 before, at host:/redfish/v1/G9 now'
    ) == sentence(found)
    assert () == drift(v.inventory(before), look(v.gpu(primary=v.ref('G9'), refs=(v.ref('G9'), before.primary))))
    assert () == drift(v.inventory(before), look(replace(before, location='Slot 1')))
    assert () == drift(v.inventory(replace(before, location='Slot 1')), look(before))


def test_a_card_known_by_another_identity_is_told_as_that():
    """A UUID that could not be read leaves a serial number: nothing says that it is another card, so none was swapped."""
    with_uuid = v.gpu(uuid='0', serial='S1')
    without = v.gpu(id=AcceleratorId('serial:S1'), identity=IdentitySource.SERIAL, serial='S1')
    identity, uuid = drift(v.inventory(with_uuid), look(without))
    assert 'was known as uuid:gpu-0 before (it is the same card by its serial)' in sentence(identity)
    assert (ChangeKind.UNREADABLE, 'uuid') == (uuid.kind, str(uuid.subject))
    nameless = v.gpu(id=AcceleratorId('uri:host:/x'), identity=IdentitySource.URI)
    told = drift(v.inventory(with_uuid), look(nameless))
    assert 'it is unknown whether it is the same card' in sentence(told[0])
    assert ['swapped'] == kinds(drift(v.inventory(with_uuid), look(replace(without, serial='S2'))))


def test_a_card_known_by_its_uri_only_is_swapped_when_it_says_other_things_of_itself():
    """The identity stays the same; and what is said of such a card says how little that is."""
    nameless = v.gpu(id=AcceleratorId('uri:host:/x'), identity=IdentitySource.URI)
    before = v.inventory(nameless)
    (found,) = drift(before, look(replace(nameless, model='B200')))
    assert (ChangeKind.SWAPPED, 'a card with model H100') == (found.kind, found.was)
    assert WEAK == found.reason == drift(before, look())[0].reason
    assert () == drift(before, look(nameless))
    # One BMC spells a vendor in several ways.
    spelt = drift(before, look(replace(nameless, vendor='NVIDIA Corporation')))
    assert [('device', 'vendor', 'NVIDIA', 'NVIDIA Corporation')] == [(c.kind, str(c.subject), c.was, c.found) for c in spelt]


@pytest.mark.parametrize(
    ('changes', 'subject', 'was', 'found'),
    [
        ({'kind': Kind.ASIC}, 'kind', 'GPU', 'ASIC'),
        ({'vendor': 'AMD'}, 'vendor', 'NVIDIA', 'AMD'),
        ({'part_number': 'P2'}, 'part number', 'P1', 'P2'),
        ({'serial': 'S2'}, 'serial', 'S1', 'S2'),
        ({'pci': PciIds(vendor_id='0x10de', device_id='0x2335')}, 'PCI device id', '0x2330', '0x2335'),
    ],
)
def test_a_property_that_changed_under_one_identity_is_told(changes: dict[str, object], subject: str, was: str, found: str):
    """A card with a UUID is the same card, but it says something else of itself."""
    before = v.gpu(part_number='P1', serial='S1')
    change = Change(
        kind=ChangeKind.DEVICE,
        accelerator=v.GPU,
        label='H100 GPU_0',
        subject=Subject(kind=SubjectKind.PROPERTY, name=subject),
        was=was,
        found=found,
        ref=v.gpu().primary,
    )
    assert (change,) == drift(v.inventory(before), look(replace(before, **changes)))
    assert f'H100 GPU_0, {subject}: {was} before, {found} now' == sentence(change)


def test_a_property_that_is_not_shown_any_more_could_not_be_read():
    """A serial number that is missing is no other serial number."""
    (found,) = drift(v.inventory(v.gpu(serial='S1')), look(v.gpu()))
    assert 'H100 GPU_0, serial: S1 before, could not be read now' == sentence(found)
    bare = v.gpu(pci=PciIds(vendor_id='0x10de'))
    (found,) = drift(v.inventory(v.gpu()), look(bare))
    assert 'H100 GPU_0, PCI device id: 0x2330 before, could not be read now' == sentence(found)
    assert () == drift(remembered(v.inventory(v.gpu()), look(bare)), look(v.gpu()))


GZIP = 'gzip 2.0 11111111-2222-3333-4444-555555555555'


@pytest.mark.parametrize(
    ('was', 'now', 'kind', 'one', 'other', 'ref'),
    [
        (v.slot(), v.slot(0, 'aes'), SubjectKind.FUNCTION, GZIP, GZIP.replace('gzip', 'aes'), None),
        (
            v.slot(),
            replace(v.slot(), function=v.slot(0, version='9').function),
            SubjectKind.FUNCTION,
            GZIP,
            GZIP.replace('2.0', '9'),
            None,
        ),
        (v.slot(), replace(v.slot(), function=None), SubjectKind.FUNCTION, GZIP, 'empty', None),
        (replace(v.slot(), function=None), v.slot(), SubjectKind.FUNCTION, 'empty', GZIP, v.fpga().primary),
        (v.slot(0, None, v.OLD), v.slot(0, None, v.NEW), SubjectKind.SLOT_IMAGE, '1.0', '2.0', v.slot().item.ref),
        (v.slot(0, None, v.OLD), replace(v.slot(0, None), item=None), SubjectKind.SLOT_IMAGE, '1.0', None, v.slot().item.ref),
        (replace(v.slot(0, None), item=None), v.slot(0, None, v.OLD), SubjectKind.SLOT_IMAGE, None, '1.0', v.slot().item.ref),
        (
            replace(v.slot(), programmable_from_host=False),
            replace(v.slot(), programmable_from_host=True),
            SubjectKind.HOST_ACCESS,
            'the host may not program it',
            'the host may program it',
            v.fpga().primary,
        ),
    ],
)
def test_a_function_that_changed_is_told(was, now, kind, one, other, ref):
    """What the slot holds, its image, and who may program it; with the resource that showed it, if one did."""
    change = Change(
        kind=ChangeKind.FUNCTION,
        accelerator=v.FPGA,
        label='Stratix FPGA1',
        subject=Subject(kind=kind, name='Slot0'),
        was=one,
        found=other,
        ref=ref or v.slot().function.ref,
    )
    assert (change,) == drift(v.inventory(v.fpga(slots=(was,))), look(v.fpga(slots=(now,))))


def test_a_slot_that_is_not_shown_any_more_is_told_unless_a_gap_may_hide_it():
    """A slot belongs to its device: what hides any resource of that may hide the slot."""
    before = v.inventory(v.fpga())
    fewer = v.fpga(slots=(v.slot(1, None, None),))
    found = drift(before, look(fewer))
    assert [
        ('function', 'function Slot0', GZIP, None),
        ('function', 'function Slot0 image', '2.0', None),
    ] == [(c.kind, str(c.subject), c.was, c.found) for c in found]
    for gap in (hole(v.fpga().primary, hides=False), hole(PROCESSORS, hides=False), hole(v.ref('Chassis'))):
        assert {'unreadable'} == set(kinds(drift(before, look(fewer, gaps=(gap,))))), gap
        assert () == drift(remembered(before, look(fewer, gaps=(gap,))), look(v.fpga()))
    elsewhere = hole(v.ref('Chassis'), hides=False)
    assert ['function', 'function'] == kinds(drift(before, look(fewer, gaps=(elsewhere,))))


def test_what_is_told_of_a_function_for_the_first_time_has_not_changed():
    """Its version or its UUID may come late; another function is another one, whatever of it is known."""
    known = v.slot(0).function
    for lacking in ({'version': None}, {'uuid': None}, {'version': None, 'uuid': None}):
        bare = v.fpga(slots=(replace(v.slot(0), function=replace(known, **lacking)),))
        full = v.fpga(slots=(v.slot(0),))
        assert () == drift(v.inventory(bare), look(full))
        assert {'unreadable'} == set(kinds(drift(v.inventory(full), look(bare))))
        kept = remembered(v.inventory(full), look(bare))
        assert ((known.version, known.uuid),) == tuple(
            (s.function.version, s.function.uuid) for a in kept.accelerators for s in a.slots
        )
        other = v.fpga(slots=(replace(v.slot(0), function=replace(known, id='aes', **lacking)),))
        assert [f'function Slot0: {GZIP} before'] == [
            sentence(c).partition(', ')[2].rpartition(', ')[0] for c in drift(v.inventory(full), look(other))
        ]
    more = v.fpga(slots=(v.slot(0), v.slot(1, 'aes')))
    bare = v.fpga(slots=(v.slot(0), replace(v.slot(1, 'aes'), function=replace(v.slot(1, 'aes').function, version=None))))
    assert () == drift(v.inventory(bare), look(more))


def test_a_function_behind_a_gap_has_not_changed():
    """The collection of functions could not be read: the slot only looks empty."""
    before = v.inventory(v.fpga())
    emptied = v.fpga(slots=(replace(v.slot(0), function=None), v.slot(1, None, None)))
    gap = hole(v.ref('Systems/1/Processors/FPGA1/AccelerationFunctions'))
    assert ['unreadable'] == kinds(drift(before, look(emptied, gaps=(gap,))))
    assert () == drift(remembered(before, look(emptied, gaps=(gap,))), look(v.fpga()))


def test_a_lock_that_changed_is_told_with_what_it_means():
    """The value at its place, and the write path that it left open."""
    opened = replace(v.reading(LockState.UNLOCKED), value='true')
    lock, path = drift(v.inventory(v.gpu()), look(v.gpu(locks=(opened,))))
    assert 'H100 GPU_0, lock rot Closed: false before, true now' == sentence(lock)
    assert 'H100 GPU_0, write path host-device: locked before, unlocked now' == sentence(path)


def test_our_own_records_are_no_change():
    """Verified, or only reported: the card is the same."""
    assert () == drift(v.inventory(v.gpu(locks=(v.reading(LockState.LOCKED_VERIFIED),))), look(v.gpu()))


def test_a_lock_that_could_not_be_read_opens_no_path():
    """Nothing is said of the path; a lock that is gone without a gap leaves it without a mechanism."""
    before = v.inventory(v.gpu())
    unknown = replace(v.reading(LockState.UNKNOWN), value=None)
    assert ['unreadable'] == kinds(drift(before, look(v.gpu(locks=(unknown,)))))
    assert ['unreadable'] == kinds(drift(before, look(v.gpu(locks=()), gaps=(hole(v.ref('Chassis/RoT_0')),))))
    lock, path = drift(before, look(v.gpu(locks=())))
    assert 'H100 GPU_0, lock rot Closed: false before, absent now' == sentence(lock)
    assert 'H100 GPU_0, write path host-device: locked before, unsupported now' == sentence(path)
    assert (v.reading().ref, v.gpu().primary) == (lock.ref, path.ref)


def test_a_new_card_is_new_and_says_when_it_may_only_have_been_hidden():
    """The look before could not see everything."""
    before = v.inventory(v.gpu())
    fresh = v.gpu(id=OTHER, primary=v.ref('G9'), refs=(v.ref('G9'),))
    assert ['H100 G9 (uuid:gpu-9) is new, at host:/redfish/v1/G9'] == [sentence(c) for c in drift(before, look(v.gpu(), fresh))]
    gapped = replace(before, gaps=(hole(),))
    assert 'or was hidden before' in sentence(drift(gapped, look(v.gpu(), fresh))[0])


def test_the_order_is_that_of_gravity_then_of_devices():
    """Whatever the order in which a BMC lists them."""
    a, b = v.gpu(id=AcceleratorId('uuid:a')), v.gpu(id=AcceleratorId('uuid:b'), primary=v.ref('B'), refs=(v.ref('B'),))
    new = v.gpu(id=OTHER, primary=v.ref('N'), refs=(v.ref('N'),))
    changed = replace(v.fpga(), firmware=(v.component('FPGA1', '9'),))
    before = v.inventory(b, v.fpga(), a)
    assert drift(before, look(new, changed)) == drift(before, look(changed, new))
    assert ['gone', 'gone', 'new', 'firmware'] == kinds(drift(before, look(changed, new)))
    assert ['uuid:a', 'uuid:b'] == [c.accelerator for c in drift(before, look(changed, new))[:2]]


def test_two_changes_of_one_name_come_in_the_order_of_their_resources():
    """Two items of a BMC may be called alike."""
    twins = replace(v.component(), ref=v.ref('Z')), replace(v.component(), ref=v.ref('A'))
    changed = tuple(replace(c, version='9') for c in twins)
    found = drift(v.inventory(v.gpu(firmware=twins)), look(v.gpu(firmware=changed)))
    assert [v.ref('A'), v.ref('Z')] == [c.ref for c in found]


def test_what_is_remembered_survives_being_stored():
    """As JSON and back, it compares like the look itself."""
    kept = remembered(None, v.inventory(v.gpu(), v.fpga()))
    again = decode(Inventory, encode(kept))
    assert kept == again
    assert () == drift(again, look(v.gpu(), v.fpga()))


def test_changes_of_one_kind_and_device_come_by_their_subjects():
    """Whatever the BMC calls the resources."""
    parts = [replace(v.component(name), ref=v.ref(place)) for name, place in (('A', 'z'), ('B', 'a'))]
    before = v.inventory(v.gpu(firmware=tuple(parts)))
    changes = drift(before, look(v.gpu(firmware=tuple(replace(part, version='9') for part in parts))))
    assert ['firmware A', 'firmware B'] == [str(c.subject) for c in changes]


def test_what_a_job_did_is_not_drift_and_the_rest_is():
    """A flash accounts for its own component of its own card, a programming for its slot, a lock's change for that lock."""
    opened = replace(v.reading(LockState.UNLOCKED), value='true')
    changes = drift(
        v.inventory(v.gpu(), v.fpga()),
        look(
            v.gpu(firmware=(v.component(version='3.0'), v.component('RoT_0', '7')), locks=(opened,)),
            v.fpga(
                slots=(v.slot(0, 'aes'), v.slot(1, None, None)), firmware=(v.component('FPGA1', '9'), v.component('Slot0', '9'))
            ),
        ),
    )
    lock = {'accelerator': v.GPU, 'mechanism': 'rot', 'ref': v.reading().ref, 'field': 'Closed'}
    flash = Flash(
        accelerator=v.GPU, component='GPU_0', ref=v.component().ref, image='i', version='3.0', expects='1.0'
    )  # fmt: skip
    program = Program(
        accelerator=v.FPGA, slot='Slot0', ref=v.ref('x'), image='i', function='aes', version='1', expects=None
    )  # fmt: skip
    for ours in (Release(**lock, expects='false'), Engage(**lock, blocks=v.HOST_DEVICE)):
        left = beyond(changes, (flash, program, ours))
        assert ['firmware FPGA1', 'firmware Slot0', 'firmware RoT_0'] == [str(c.subject) for c in left]
    assert changes == beyond(changes, ())
    others = replace(flash, accelerator=OTHER)
    reset = Reset(system=v.SYSTEM, purpose=ResetPurpose.RESUME, kind=ResetKind.POWER_CYCLE, why=())
    for accounts_for_nothing in (others, reset, CheckImage(image='i'), Withdraw(accelerators=(v.GPU, v.FPGA)), Publish()):
        assert changes == beyond(changes, (accounts_for_nothing,))


def test_nothing_of_a_bmc_breaks_a_line():
    """A model with a line break and no end does not forge a log line."""
    assert 'a?b' == shown('a\nb')
    assert 'x' * 120 == shown('x' * 120)
    assert 'x' * 117 + '...' == shown('x' * 121) == shown('x' * 10**6)
    hostile = v.gpu(model='H100\n2026-01-01 INFO all is well', id=OTHER, location='Slot\r\n1')
    for change in drift(v.inventory(v.gpu()), look(hostile)):
        assert sentence(change).isprintable()


def test_what_is_stored_of_a_look_is_what_is_compared_and_no_more():
    """A node has little room: texts of mechanisms, sessions, health and traits are left out; what identifies an image stays."""
    gpu = v.gpu(
        traits=frozenset({'CUSTOM_X'}),
        health='OK',
        health_rollup='OK',
        state='Enabled',
        system=v.SYSTEM,
        functions=(v.slot(0).function,),
        measurements=(),
        locks=(v.reading(reason='because', session='s1'),),
        firmware=(replace(v.component(), staged='3.0', write_protected=True, software_id='0x1'),),
    )
    holds = replace(v.slot(0).function, name='n', type='t', manufacturer='m', state='Enabled', health='OK')
    stands_for_it = replace(v.slot(0).item, updateable=True, software_id='0x2')
    slots = replace(v.slot(0), function=holds, item=stands_for_it), replace(v.slot(1), function=None, item=None)
    fpga = v.fpga(slots=slots)
    task = TaskReading(ref=v.ref('TaskService/Tasks/1'), state=TaskState.ACTIVE, raw='Running')
    gaps = (hole(), hole(v.ref('Chassis'), hides=False))
    whole = replace(look(gpu, fpga, gaps=gaps), bmcs=(v.facts(active_tasks=(task,), product='X'),), platform_locks=gpu.locks)
    kept = remembered(None, whole)
    bare = {
        'traits': frozenset(), 'health': None, 'health_rollup': None, 'state': None, 'system': None, 'functions': (),
        'measurements': None,
    }  # fmt: skip
    item = Component(id='GPU_0', ref=gpu.firmware[0].ref, version=v.OLD, staged='3.0', software_id='0x1')
    image = Component(id='Slot0', ref=v.slot(0).item.ref, version=v.NEW, software_id='0x2')
    lean_gpu = replace(gpu, **bare, firmware=(item,), locks=(replace(gpu.locks[0], session='', reason=None),))
    lean_fpga = replace(
        fpga,
        **bare,
        firmware=(Component(id='FPGA1', ref=fpga.firmware[0].ref, version=v.NEW, software_id=fpga.firmware[0].software_id),),
        slots=(
            replace(v.slot(0), item=image, function=replace(v.slot(0).function, name='n')),
            replace(v.slot(1), function=None, item=None),
        ),
        locks=tuple(replace(r, session='') for r in fpga.locks),
    )
    assert (
        Inventory(
            target='node-1',
            at=LATER,
            bmcs=(v.facts(session='', update=None, product='X'),),
            accelerators=(lean_fpga, lean_gpu),
            gaps=(hole(),),
        )
        == kept
    )
    # Comparing it with the whole look finds no difference, and with a changed one finds it.
    assert () == drift(kept, look(gpu, fpga))
    assert ['firmware'] == kinds(drift(kept, look(replace(gpu, firmware=(replace(gpu.firmware[0], staged=None),)), fpga)))


def test_what_of_a_slot_could_not_be_read_is_remembered_as_it_was():
    """What it holds, its image and the version of that, and whether its host may program it."""
    was = replace(v.slot(0), programmable_from_host=False, item=Component(id='Slot0', ref=v.slot(0).item.ref, version=v.NEW))
    before = remembered(None, look(v.fpga(slots=(was,))))
    behind = (hole(was.item.ref, hides=False), hole(was.function.ref, hides=False))
    for unread, gaps in (
        ({'function': None}, behind),
        ({'item': replace(was.item, version=None)}, ()),
        ({'item': None}, behind),
        ({'programmable_from_host': None}, ()),
        ({'function': None, 'item': None, 'programmable_from_host': None}, behind),
        ({'function': None, 'item': replace(was.item, version=None)}, behind),
    ):
        gapped = look(v.fpga(slots=(replace(was, **unread),)), gaps=gaps)
        assert (was,) == remembered(before, gapped).accelerators[0].slots
        assert {'unreadable'} == set(kinds(drift(before, gapped)))
    emptied = replace(was, function=None, item=None)
    assert (emptied,) == remembered(before, look(v.fpga(slots=(emptied,)))).accelerators[0].slots
    assert (was,) == remembered(look(v.fpga(slots=(emptied,))), look(v.fpga(slots=(was,)))).accelerators[0].slots


def test_what_waits_for_a_reset_is_remembered_with_the_version_that_could_not_be_read():
    """And what waits now is told, whatever runs."""
    before = v.inventory(v.gpu(firmware=(v.component(staged='3.0'),)))
    kept = remembered(before, look(unreadable_item()))
    assert [('1.0', '3.0')] == [(c.version, c.staged) for c in kept.accelerators[0].firmware]
    staged = look(v.gpu(firmware=(v.component(version=None, staged='4.0'),)))
    assert [('1.0', '4.0')] == [(c.version, c.staged) for c in remembered(before, staged).accelerators[0].firmware]


def test_two_items_of_one_name_are_told_apart_by_their_place():
    """A BMC may call two things alike; each is compared with itself."""
    twins = v.component(), replace(v.component(version=v.NEW), ref=v.ref('UpdateService/FirmwareInventory/Other'))
    before = look(v.gpu(firmware=twins))
    assert () == drift(before, look(v.gpu(firmware=twins)))
    for which, was in ((0, v.OLD), (1, v.NEW)):
        changed = tuple(replace(c, version='9') if c is twins[which] else c for c in twins)
        (change,) = drift(before, look(v.gpu(firmware=changed)))
        assert (was, '9', twins[which].ref) == (change.was, change.found, change.ref)
    nameless = replace(v.component(version=None), id=None, staged='6')
    (change,) = drift(look(v.gpu(firmware=(nameless,))), look(v.gpu(firmware=(replace(nameless, staged='7'),))))
    assert ('firmware of the device', 'no version, with 7 staged for the next reset') == (str(change.subject), change.found)


def test_an_item_is_known_by_its_id_and_one_without_by_its_resource():
    """A BMC may show an item at another place after an update of its own; the version of a device is that of this device."""
    moved = replace(v.component(), ref=v.ref('UpdateService/SoftwareInventory/GPU_0'))
    assert () == drift(v.inventory(v.gpu()), look(v.gpu(firmware=(moved,))))
    here = replace(v.component(), id=None)
    there = replace(here, ref=v.ref('Chassis/GPU_0'))
    found = drift(v.inventory(v.gpu(firmware=(here,))), look(v.gpu(firmware=(there,))))
    assert [(None, '1.0', there.ref), ('1.0', None, here.ref)] == [(c.was, c.found, c.ref) for c in found]


def test_a_slot_is_known_by_its_id_wherever_it_stands_in_the_list():
    """A BMC may list its slots in another order."""
    slots = v.slot(0), v.slot(1, 'aes')
    turned = replace(slots[1], index=0), replace(slots[0], index=1)
    assert () == drift(v.inventory(v.fpga(slots=slots)), look(v.fpga(slots=turned)))


def test_two_slots_of_one_id_are_told_apart_by_their_position():
    """As two items are."""
    slots = v.slot(0), replace(v.slot(0), index=1)
    before = look(v.fpga(slots=slots))
    assert () == drift(before, look(v.fpga(slots=slots)))
    assert () != drift(before, look(v.fpga(slots=slots[:1])))
