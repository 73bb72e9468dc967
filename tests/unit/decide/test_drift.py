# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What counts as a change between two looks, what is only a gap, and what is remembered behind it."""

from dataclasses import replace
from datetime import timedelta

import pytest

from baremetal_acc.decide.drift import Change, ChangeKind, beyond, drift, remembered, shown
from baremetal_acc.model.accelerator import Accelerator, IdentitySource, Kind, PciIds
from baremetal_acc.model.codec import decode, encode
from baremetal_acc.model.inventory import Gap, Inventory
from baremetal_acc.model.job import Engage, Flash, Program, Release
from baremetal_acc.model.lock import LockState
from baremetal_acc.model.ref import AcceleratorId, BmcName, Ref
from tests.unit.decide import values as v

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


def kinds(changes: tuple[Change, ...]) -> list[str]:
    """What kinds of change there are."""
    return [str(c.kind) for c in changes]


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
        str(c) for c in drift(v.inventory(v.gpu(), v.fpga()), look(v.fpga()))
    ]


def test_a_card_that_may_be_hidden_is_not_seen():
    """The text says behind what; the gap of another BMC hides nothing of this one's."""
    before = v.inventory(v.gpu())
    found = drift(before, look(gaps=(hole(),)))
    assert ['not-seen'] == kinds(found)
    assert 'could not be seen' in str(found[0])
    assert 'host:/redfish/v1/Systems/1/Processors could not be read: HTTP 500' in str(found[0])
    elsewhere = hole(Ref(bmc=BmcName('dpu'), uri='/redfish/v1/Chassis'))
    assert ['gone'] == kinds(drift(before, look(gaps=(elsewhere,))))
    assert ['gone'] == kinds(drift(before, look(gaps=(hole(hides=False),))))


def test_a_card_whose_bmc_was_not_asked_is_not_seen():
    """An operator who takes a BMC away from a node has removed no card."""
    dpu = Ref(bmc=BmcName('dpu'), uri='/redfish/v1/Chassis/Card1')
    found = drift(v.inventory(v.gpu(primary=dpu, refs=(dpu,))), look())
    assert 'BMC dpu was not asked' in str(found[0])
    assert ['not-seen'] == kinds(found)


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
    ) == str(found)
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
    assert 'H100 GPU_0, firmware GPU_0: 1.0 before, absent now' == str(drift(before, look(now))[0])
    for ref in ('UpdateService/FirmwareInventory/GPU_0', 'UpdateService/FirmwareInventory', 'UpdateService', 'Chassis/RoT_0'):
        assert ['unreadable'] == kinds(drift(before, look(now, gaps=(hole(v.ref(ref)),)))), ref
    for ref in ('UpdateService/FirmwareInventory/GPU_0', 'UpdateService'):
        assert ['unreadable'] == kinds(drift(before, look(now, gaps=(hole(v.ref(ref), hides=False),)))), ref
    odd_field_above = hole(v.ref('UpdateService'), field='HttpPushUri', hides=False)
    assert ['firmware'] == kinds(drift(before, look(now, gaps=(odd_field_above,))))


def test_a_component_that_may_have_been_hidden_before_was_not_added():
    """The first look could not read what links it to its card."""
    before = replace(v.inventory(v.gpu()), gaps=(hole(v.ref('Chassis/RoT_0')),))
    after = look(v.gpu(firmware=(v.component(), v.component('RoT_0', '7'))))
    assert () == drift(before, after)
    assert ['firmware'] == kinds(drift(replace(before, gaps=()), after))


def test_firmware_that_changed_is_told_with_both_versions():
    """Running, staged, added."""
    before = v.inventory(v.gpu())
    for firmware, text in (
        ((v.component(version='3.0'),), 'firmware GPU_0: 1.0 before, 3.0 now'),
        ((v.component(staged='3.0'),), 'firmware GPU_0: 1.0 before, 1.0, with 3.0 staged for the next reset now'),
        ((v.component(), v.component('RoT_0', '7')), 'firmware RoT_0: absent before, 7 now'),
    ):
        assert [f'H100 GPU_0, {text}'] == [str(c) for c in drift(before, look(v.gpu(firmware=firmware)))]


def test_another_card_at_the_same_place_was_swapped():
    """By slot, by resource; nothing else is compared between two cards."""
    before = v.inventory(v.gpu(location='Slot 5'))
    by_slot = v.gpu(id=OTHER, location='Slot 5', primary=v.ref('X'), refs=(v.ref('X'),), uuid='9', firmware=())
    before = v.inventory(v.gpu(location='Slot 5', uuid='0'))
    (found,) = drift(before, look(by_slot))
    assert 'H100 X (uuid:gpu-9) stands where H100 GPU_0 (uuid:gpu-0) was' == str(found)
    assert (ChangeKind.SWAPPED, OTHER, 'Slot 5') == (found.kind, found.accelerator, found.found)
    by_uri = v.gpu(id=OTHER, uuid='9')
    assert ['swapped'] == kinds(drift(v.inventory(v.gpu(uuid='0')), look(by_uri)))


def test_what_stands_in_another_slot_was_not_swapped():
    """A BMC may give the resource of a card that is gone to another one."""
    before = v.inventory(v.gpu(location='Slot 5', uuid='0'))
    assert ['gone', 'new'] == kinds(drift(before, look(v.gpu(id=OTHER, location='Slot 6', uuid='9'))))


def test_a_location_that_several_cards_have_tells_nothing():
    """Real machines give one text to all: then the resources decide."""
    first = v.gpu(location='Tray', uuid='0')
    second = v.gpu(id=AcceleratorId('uuid:gpu-1'), location='Tray', uuid='1', primary=v.ref('G1'), refs=(v.ref('G1'),))
    swapped = replace(second, id=OTHER, uuid='9')
    (found,) = drift(v.inventory(first, second), look(first, swapped))
    assert 'H100 G1 (uuid:gpu-9) stands where H100 G1 (uuid:gpu-1) was' == str(found)


def test_the_same_card_at_another_place_has_moved():
    """Two cards that changed places: two moves, nothing gone, nothing new."""
    first = v.gpu(location='Slot 1')
    second = v.gpu(id=OTHER, location='Slot 2', primary=v.ref('G9'), refs=(v.ref('G9'),))
    crossed = (
        replace(first, location='Slot 2', primary=second.primary, refs=second.refs),
        replace(second, location='Slot 1', primary=first.primary, refs=first.refs),
    )
    assert ['moved', 'moved'] == kinds(drift(v.inventory(first, second), look(*crossed)))
    assert 'has moved: at Slot 1 before, at Slot 2 now' in str(drift(v.inventory(first), look(crossed[0]))[0])


def test_a_card_known_by_another_identity_is_told_as_that():
    """A UUID that could not be read leaves a serial number: nothing says that it is another card, so none was swapped."""
    with_uuid = v.gpu(uuid='0', serial='S1')
    without = v.gpu(id=AcceleratorId('serial:S1'), identity=IdentitySource.SERIAL, serial='S1')
    identity, uuid = drift(v.inventory(with_uuid), look(without))
    assert 'was known as uuid:gpu-0 before (it is the same card by its serial)' in str(identity)
    assert (ChangeKind.UNREADABLE, 'uuid') == (uuid.kind, uuid.subject)
    nameless = v.gpu(id=AcceleratorId('uri:host:/x'), identity=IdentitySource.URI)
    told = drift(v.inventory(with_uuid), look(nameless))
    assert 'whether it is the same card cannot be told' in str(told[0])
    assert ['swapped'] == kinds(drift(v.inventory(with_uuid), look(replace(without, serial='S2'))))


def test_a_card_known_by_its_uri_only_is_swapped_when_it_says_other_things_of_itself():
    """The identity stays the same; and what is said of such a card says how little that is."""
    nameless = v.gpu(id=AcceleratorId('uri:host:/x'), identity=IdentitySource.URI)
    before = v.inventory(nameless)
    (found,) = drift(before, look(replace(nameless, model='B200')))
    assert (ChangeKind.SWAPPED, 'a card with model H100') == (found.kind, found.was)
    assert 'known by its URI only: its like in its place would not be noticed' in str(found)
    assert 'known by its URI only' in str(drift(before, look())[0])
    assert () == drift(before, look(nameless))


@pytest.mark.parametrize(
    ('changes', 'text'),
    [
        ({'kind': Kind.ASIC}, 'kind: GPU before, ASIC now'),
        ({'model': 'H200'}, 'model: H100 before, H200 now'),
        ({'pci': PciIds(vendor_id='0x10de', device_id='0x2335')}, 'PCI device id: 0x2330 before, 0x2335 now'),
    ],
)
def test_a_property_that_changed_under_one_identity_is_told(changes: dict[str, object], text: str):
    """A card with a UUID is the same card, but it says something else of itself."""
    (found,) = drift(v.inventory(v.gpu()), look(v.gpu(**changes)))
    assert ChangeKind.DEVICE is found.kind
    assert text in str(found)


def test_a_property_that_is_not_shown_any_more_could_not_be_read():
    """A serial number that is missing is no other serial number."""
    (found,) = drift(v.inventory(v.gpu(serial='S1')), look(v.gpu()))
    assert 'H100 GPU_0, serial: S1 before, could not be read now' == str(found)


def test_a_function_that_changed_is_told():
    """Another one, another version, none; and who may program the slot."""
    before = v.inventory(v.fpga())
    for slot, text in (
        (v.slot(0, 'aes'), 'function Slot0: gzip 2.0 11111111-2222-3333-4444-555555555555 before, aes 2.0'),
        (v.slot(0, 'gzip', '9'), 'function Slot0: gzip 2.0'),
        (v.slot(0, None, v.NEW), 'function Slot0: gzip 2.0 11111111-2222-3333-4444-555555555555 before, empty now'),
    ):
        found = drift(before, look(v.fpga(slots=(slot, v.slot(1, None, None)))))
        assert ChangeKind.FUNCTION is found[0].kind
        assert text in str(found[0])
    closed, opened = (replace(v.slot(), programmable_from_host=open_) for open_ in (False, True))
    (told,) = drift(v.inventory(v.fpga(slots=(closed,))), look(v.fpga(slots=(opened,))))
    assert 'function Slot0 host access: the host may not program it before, the host may program it now' in str(told)


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
    assert 'H100 GPU_0, lock rot Closed: false before, true now' == str(lock)
    assert 'H100 GPU_0, write path host-device: locked before, unlocked now' == str(path)


def test_our_own_records_are_no_change():
    """Verified, or only reported: the card is the same."""
    assert () == drift(v.inventory(v.gpu(locks=(v.reading(LockState.LOCKED_VERIFIED),))), look(v.gpu()))


def test_a_lock_that_could_not_be_read_opens_no_path():
    """Nothing is said of the path; a lock that is gone without a gap leaves it without a mechanism."""
    before = v.inventory(v.gpu())
    unknown = replace(v.reading(LockState.UNKNOWN), value=None)
    assert ['unreadable'] == kinds(drift(before, look(v.gpu(locks=(unknown,)))))
    assert ['unreadable'] == kinds(drift(before, look(v.gpu(locks=()), gaps=(hole(v.ref('Chassis/RoT_0')),))))
    assert ['lock', 'write-path'] == kinds(drift(before, look(v.gpu(locks=()))))


def test_a_new_card_is_new_and_says_when_it_may_only_have_been_hidden():
    """The look before could not see everything."""
    before = v.inventory(v.gpu())
    fresh = v.gpu(id=OTHER, primary=v.ref('G9'), refs=(v.ref('G9'),))
    assert ['H100 G9 (uuid:gpu-9) is new, at host:/redfish/v1/G9'] == [str(c) for c in drift(before, look(v.gpu(), fresh))]
    gapped = replace(before, gaps=(hole(),))
    assert 'or was hidden before' in str(drift(gapped, look(v.gpu(), fresh))[0])


def test_the_order_is_that_of_gravity_then_of_devices():
    """Whatever the order in which a BMC lists them."""
    a, b = v.gpu(id=AcceleratorId('uuid:a')), v.gpu(id=AcceleratorId('uuid:b'), primary=v.ref('B'), refs=(v.ref('B'),))
    new = v.gpu(id=OTHER, primary=v.ref('N'), refs=(v.ref('N'),))
    changed = replace(v.fpga(), firmware=(v.component('FPGA1', '9'),))
    before = v.inventory(b, v.fpga(), a)
    assert drift(before, look(new, changed)) == drift(before, look(changed, new))
    assert ['gone', 'gone', 'new', 'firmware'] == kinds(drift(before, look(changed, new)))
    assert ['uuid:a', 'uuid:b'] == [c.accelerator for c in drift(before, look(changed, new))[:2]]


def test_what_is_remembered_survives_being_stored():
    """As JSON and back, it compares like the look itself."""
    kept = remembered(None, v.inventory(v.gpu(), v.fpga()))
    again = decode(Inventory, encode(kept))
    assert kept == again
    assert () == drift(again, look(v.gpu(), v.fpga()))


def test_what_a_job_did_is_not_drift_and_the_rest_is():
    """A flash accounts for its own component of its own card, a programming for its slot, a lock's change for that lock."""
    opened = replace(v.reading(LockState.UNLOCKED), value='true')
    changes = drift(
        v.inventory(v.gpu(), v.fpga()),
        look(
            v.gpu(firmware=(v.component(version='3.0'), v.component('RoT_0', '7')), locks=(opened,)),
            v.fpga(slots=(v.slot(0, 'aes'), v.slot(1, None, None)), firmware=(v.component('FPGA1', '9'),)),
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
        assert ['firmware FPGA1', 'firmware RoT_0'] == [c.subject for c in left]
    assert changes == beyond(changes, ())
    others = replace(flash, accelerator=OTHER)
    assert changes == beyond(changes, (others,))


def test_nothing_of_a_bmc_breaks_a_line():
    """A model with a line break and no end does not forge a log line."""
    assert 'a?b' == shown('a\nb')
    assert 120 == len(shown('x' * 10**6))
    hostile = v.gpu(model='H100\n2026-01-01 INFO all is well', id=OTHER, location='Slot\r\n1')
    for change in drift(v.inventory(v.gpu()), look(hostile)):
        assert str(change).isprintable()


def test_what_is_stored_of_a_look_is_what_is_compared_and_no_more():
    """A node has little room for it: texts of mechanisms, sessions, health and traits are left out."""
    gpu = v.gpu(
        traits=frozenset({'CUSTOM_X'}),
        health='OK',
        health_rollup='OK',
        state='Enabled',
        system=v.SYSTEM,
        functions=(v.slot(0).function,),
        locks=(v.reading(reason='because', session='s1'),),
        firmware=(replace(v.component(), staged='3.0', write_protected=True, software_id='0x1'),),
    )
    holds = replace(v.slot(0).function, name='n', type='t', manufacturer='m', state='Enabled', health='OK')
    fpga = v.fpga(slots=(replace(v.slot(0), function=holds),))
    kept = remembered(None, look(gpu, fpga))
    found = {a.id: a for a in kept.accelerators}
    lean = found[v.GPU]
    assert (frozenset(), None, None, ()) == (lean.traits, lean.health, lean.system, lean.functions)
    assert [('', None)] == [(r.session, r.reason) for r in lean.locks]
    assert [('GPU_0', v.OLD, '3.0', None, None)] == [
        (c.id, c.version, c.staged, c.write_protected, c.software_id) for c in lean.firmware
    ]
    (slot,) = found[v.FPGA].slots
    assert ('gzip', v.NEW, v.SLOT_UUID) == (slot.function.id, slot.function.version, slot.function.uuid)
    assert (None, None, None) == (slot.function.name, slot.function.type, slot.function.manufacturer)
    assert ('Slot0', v.NEW) == (slot.item.id, slot.item.version)
    assert [('', None, ())] == [(b.session, b.update, b.active_tasks) for b in kept.bmcs]
    # Comparing it with the whole look finds no difference, and with a changed one finds it.
    assert () == drift(kept, look(gpu, fpga))
    assert ['firmware'] == kinds(drift(kept, look(replace(gpu, firmware=(replace(gpu.firmware[0], staged=None),)), fpga)))


def test_what_of_a_slot_could_not_be_read_is_remembered_as_it_was():
    """What it holds, the version of that, and whether its host may program it."""
    before = remembered(None, look(v.fpga(slots=(replace(v.slot(0), programmable_from_host=False),))))
    (was,) = before.accelerators[0].slots
    unread = replace(v.slot(0), function=None, item=replace(was.item, version=None), programmable_from_host=None)
    gaps = (hole(was.item.ref, hides=False, field='Version'), hole(was.function.ref, hides=False))
    (now,) = remembered(before, look(v.fpga(slots=(unread,)), gaps=gaps)).accelerators[0].slots
    assert (False, v.NEW) == (now.programmable_from_host, now.item.version)


def test_two_items_of_one_name_are_told_apart_by_their_place():
    """A BMC may call two things alike; each is compared with itself."""
    twins = v.component(), replace(v.component(version=v.NEW), ref=v.ref('UpdateService/FirmwareInventory/Other'))
    before = look(v.gpu(firmware=twins))
    assert () == drift(before, look(v.gpu(firmware=twins)))
    changed = (twins[0], replace(twins[1], version='9'))
    (change,) = drift(before, look(v.gpu(firmware=changed)))
    assert (v.NEW, '9', twins[1].ref) == (change.was, change.found, change.ref)
    nameless = replace(v.component(version=None), id=None, staged='6')
    (change,) = drift(look(v.gpu(firmware=(nameless,))), look(v.gpu(firmware=(replace(nameless, staged='7'),))))
    assert ('firmware of the device', 'no version, with 7 staged for the next reset') == (change.subject, change.found)


def test_two_slots_of_one_id_are_told_apart_by_their_position():
    """As two items are."""
    slots = v.slot(0), replace(v.slot(0), index=1)
    before = look(v.fpga(slots=slots))
    assert () == drift(before, look(v.fpga(slots=slots)))
    assert () != drift(before, look(v.fpga(slots=slots[:1])))
