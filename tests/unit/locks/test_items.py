# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How the locks of items, slots and drives are read, word by word, and what is written. Documents only, without HTTP."""

from dataclasses import replace
from typing import Any

import pytest

from baremetal_acc.errors import BmcConflict
from baremetal_acc.locks.drive_configuration_lock import ConfigurationLock
from baremetal_acc.locks.fpga_programmable_from_host import WHOLE, ProgrammableFromHost
from baremetal_acc.locks.nvidia.write_protect_domain import WriteProtectDomain
from baremetal_acc.locks.property_reading import LONGEST, Readers, literal, related, where
from baremetal_acc.locks.write_protected import CONSTANT, WriteProtected
from baremetal_acc.model.accelerator import Accelerator, ReconfigurationSlot
from baremetal_acc.model.lock import LockReading, LockState, Scope, WritePath
from baremetal_acc.model.ref import HOST, BmcName, Ref
from tests.unit.locks.documents import NOW, TOP, Tree, device, members
from tests.unit.planning import values

FPGA = f'{TOP}/Systems/1/Processors/FPGA_0'
DRIVE = f'{TOP}/Systems/1/Storage/1/Drives/0'
ITEMS = f'{TOP}/UpdateService/FirmwareInventory'
ITEM = f'{ITEMS}/Card'
LOCKED, OPEN, UNKNOWN = LockState.LOCKED_REPORTED, LockState.UNLOCKED, LockState.UNKNOWN
BUSY = 'the BMC is busy'
AWAY = BmcName('away')


def _reading(**said: Any) -> LockReading:
    shared: dict[str, Any] = {'accelerator': values.GPU, 'at': NOW, 'session': 'reading-session', 'state': LOCKED}
    return LockReading(**shared | said)


def _ref(uri: str, bmc: BmcName = HOST) -> Ref:
    return Ref(bmc=bmc, uri=uri)


def _said(found: tuple[LockReading, ...]) -> list[tuple[str | None, str | None, LockState, str | None]]:
    return [(r.part, r.value, r.state, r.reason) for r in found]


# ---- drives ----


def _drive() -> Tree:
    tree = Tree('host')
    commands = dict.fromkeys(('FirmwareCommit', 'FirmwareImageDownload', 'Lockdown'), 'Locked')
    tree[DRIVE] = {'ConfigurationLock': 'Enabled', 'NVMe': {'ConfigurationLockState': commands}}
    tree[ITEM] = {'RelatedItem': [{'@odata.id': DRIVE}]}
    return tree


def test_a_reading_of_a_drive_says_all_that_evidence_needs() -> None:
    """Behind resources that are none of a drive; a drive of a BMC that was not looked at has none."""
    accelerator = device(FPGA, DRIVE, bmc='host', items=(ITEM,))
    accelerator = replace(accelerator, refs=(_ref(DRIVE, AWAY), *accelerator.refs))
    wanted = _reading(
        mechanism='drive_configuration_lock',
        blocks=values.HOST_DEVICE,
        ref=_ref(DRIVE),
        field='ConfigurationLock',
        value='{"ConfigurationLock": "Enabled", "FirmwareCommit": "Locked", "FirmwareImageDownload": "Locked", '
        '"Lockdown": "Locked"}',
        scope=Scope.COMPONENT,
        part='Card',
    )
    assert (wanted,) == ConfigurationLock().read(accelerator, [_drive()], NOW)


@pytest.mark.parametrize('level', ['Baseline', None])
def test_the_one_level_of_a_lock_is_baseline(level: object) -> None:
    """Null is no other one."""
    tree = _drive()
    tree[DRIVE] |= {'TargetConfigurationLockLevel': level}
    assert [LOCKED] == [r.state for r in ConfigurationLock().read(device(DRIVE, bmc='host', items=(ITEM,)), [tree], NOW)]


@pytest.mark.parametrize(
    ('lock', 'state', 'reason'),
    [
        (
            'Disabled',
            OPEN,
            'the drive shows that it cannot lock FirmwareCommit, Lockdown (LockdownUnsupported)',
        ),
        (
            'Enabled',
            LockState.PARTIAL,
            'the host may still send FirmwareCommit, Lockdown: '
            '{"FirmwareCommit": "LockdownUnsupported", "Lockdown": "LockdownUnsupported"}',
        ),
    ],
)
def test_a_drive_that_cannot_lock_some_commands_is_not_closable(lock: str, state: LockState, reason: str) -> None:
    """Whether its lock is set or not; they are named."""
    tree = _drive()
    beyond = dict.fromkeys(('FirmwareCommit', 'Lockdown'), 'LockdownUnsupported')
    commands = tree[DRIVE]['NVMe']['ConfigurationLockState'] | beyond
    tree[DRIVE] = {'ConfigurationLock': lock, 'NVMe': {'ConfigurationLockState': commands}}
    (found,) = ConfigurationLock().read(device(DRIVE, bmc='host', items=(ITEM,)), [tree], NOW)
    assert (state, False, reason) == (found.state, found.closable, found.reason)


# ---- FPGAs and their slots ----


def _fpga(*slots: Any, whole: object = ...) -> Tree:
    tree = Tree('host')
    shown = {} if whole is ... else {'ProgrammableFromHost': whole}
    tree[FPGA] = {'FPGA': {**shown, 'ReconfigurationSlots': list(slots)}}
    return tree


def _with_slots(*names: str, uris: tuple[str, ...] = (FPGA,), **more: Any) -> Accelerator:
    slots = tuple(ReconfigurationSlot(slot_id=name, index=index, **more) for index, name in enumerate(names))
    return replace(device(*uris, bmc='host'), slots=slots)


def test_a_reading_of_an_fpga_says_all_that_evidence_needs() -> None:
    """The whole of it for its firmware, and each slot for itself."""
    tree = _fpga({'ProgrammableFromHost': False}, whole=False)
    said = {'mechanism': 'fpga_programmable_from_host', 'blocks': values.HOST_DEVICE, 'ref': _ref(FPGA), 'value': 'false'}
    assert (
        _reading(**said, field='FPGA/ProgrammableFromHost', scope=Scope.FIRMWARE),
        _reading(**said, field='FPGA/ReconfigurationSlots/0/ProgrammableFromHost', scope=Scope.SLOT, part='First'),
    ) == ProgrammableFromHost().read(_with_slots('First'), [tree], NOW)


@pytest.mark.parametrize(
    ('value', 'shown', 'state', 'reason'),
    [
        (False, 'false', LOCKED, None),
        (True, 'true', OPEN, None),
        (None, 'null', UNKNOWN, 'the BMC shows null'),
        (0, '0', UNKNOWN, 'neither true nor false'),
        ('no', '"no"', UNKNOWN, 'neither true nor false'),
    ],
)
def test_what_an_fpga_says(value: object, shown: str, state: LockState, reason: str | None) -> None:
    """False alone is closed."""
    found = ProgrammableFromHost().read(_with_slots(), [_fpga(whole=value)], NOW)
    assert [(None, shown, state, reason)] == _said(found)


def test_an_fpga_that_cannot_be_read_leaves_the_slots_that_were_known_to_show_it() -> None:
    """Each says why it is unknown; of a BMC that was not looked at nothing is said, nor of what is no Processor."""
    tree = _fpga()
    tree[FPGA] = BUSY
    found = ProgrammableFromHost().read(_with_slots('First', 'Second', programmable_from_host=False), [tree], NOW)
    assert [('First', None, UNKNOWN, BUSY), ('Second', None, UNKNOWN, BUSY)] == _said(found)
    assert [f'FPGA/ReconfigurationSlots/{n}/ProgrammableFromHost' for n in (0, 1)] == [r.field for r in found]
    assert () == ProgrammableFromHost().read(_with_slots('First'), [tree], NOW)
    elsewhere = replace(_with_slots('First', programmable_from_host=False), refs=(_ref(FPGA, AWAY),))
    assert () == ProgrammableFromHost().read(elsewhere, [tree], NOW)
    tree[DRIVE] = {'FPGA': {'ProgrammableFromHost': False}}
    assert () == ProgrammableFromHost().read(device(DRIVE, bmc='host'), [tree], NOW)


def test_slots_are_those_of_the_inventory_by_their_position() -> None:
    """One that the inventory lacks, and what is none, is passed over; a name counts where two have one position."""
    closed = {'ProgrammableFromHost': False}
    first = closed | {'SlotId': 'Another  name'}
    found = ProgrammableFromHost().read(_with_slots('A', 'B', 'C'), [_fpga(first, 7, closed, closed)], NOW)
    assert [('A', LOCKED), ('C', LOCKED)] == [(r.part, r.state) for r in found]
    both = tuple(ReconfigurationSlot(slot_id=name, index=1) for name in ('A name', '1', 'Other'))
    for said, part in (({'SlotId': ' A  name '}, 'A name'), ({'SlotId': ' '}, '1'), ({'SlotId': 7}, '1'), ({}, '1')):
        accelerator = replace(_with_slots(), slots=both)
        found = ProgrammableFromHost().read(accelerator, [_fpga({}, closed | said)], NOW)
        assert [part] == [r.part for r in found]
    twice = replace(_with_slots(), slots=both[::2])
    assert () == ProgrammableFromHost().read(twice, [_fpga({}, closed | {'SlotId': 'Unknown'})], NOW)


@pytest.mark.parametrize('item', [f'{ITEMS}/A', f'{ITEMS}/B'])
def test_the_lock_of_an_fpga_beside_a_drive_is_for_the_one_item_of_its_processor(item: str) -> None:
    """Without the item's name in its field: it is the only one there."""
    tree = _fpga(whole=False)
    tree[item] = {'RelatedItem': [{'@odata.id': FPGA}]}
    accelerator = device(FPGA, DRIVE, bmc='host', items=(f'{ITEMS}/A', f'{ITEMS}/B'))
    (found,) = ProgrammableFromHost().read(accelerator, [tree], NOW)
    assert (WHOLE, item.rpartition('/')[2]) == (found.field, found.part)


@pytest.mark.parametrize('slots', [None, 7, [], [{}], [{}, 7], [{}, {'SlotId': 'Other'}]])
def test_a_slot_that_is_no_longer_there_is_a_conflict(slots: Any) -> None:
    """Its position may be another's now: nothing is written, and the error says what to do."""
    tree = _fpga({}, {'ProgrammableFromHost': True, 'SlotId': 'Second'})
    (found,) = ProgrammableFromHost().read(_with_slots('First', 'Second'), [tree], NOW)
    tree[FPGA] = {'FPGA': {'ReconfigurationSlots': slots}}
    with pytest.raises(BmcConflict) as refused:
        ProgrammableFromHost().engage(tree, found)
    assert f'BMC host, {FPGA}: slot 1 is no longer Second (inspect again, then plan again)' == str(refused.value)
    assert [] == tree.wrote


def test_a_slot_without_a_name_is_written_by_its_position() -> None:
    """The inventory calls it by that."""
    tree = _fpga({}, {'ProgrammableFromHost': True, 'SlotId': ' '})
    (found,) = ProgrammableFromHost().read(_with_slots('0', '1'), [tree], NOW)
    ProgrammableFromHost().engage(tree, found)
    assert [(FPGA, {'FPGA': {'ReconfigurationSlots': [{}, {'ProgrammableFromHost': False}]}})] == tree.wrote


# ---- domains ----

DOMAINS = f'{TOP}/Chassis/Board/Oem/Nvidia/WriteProtectDomains'


def _domain(value: object, *affected: str) -> Tree:
    tree = Tree('host')
    tree[TOP] = {'Chassis': {'@odata.id': f'{TOP}/Chassis'}}
    tree[f'{TOP}/Chassis'] = members(f'{TOP}/Chassis/Board')
    tree[f'{TOP}/Chassis/Board'] = {'Oem': {'Nvidia': {'WriteProtectDomains': {'@odata.id': DOMAINS}}}}
    tree[DOMAINS] = members(f'{DOMAINS}/0/')
    tree[f'{DOMAINS}/0/'] = {'WriteProtected': value, 'AffectedComponents': [{'@odata.id': uri} for uri in affected]}
    tree[ITEM] = {'WriteProtected': True}
    return tree


def test_a_reading_of_a_domain_says_all_that_evidence_needs() -> None:
    """Its place is written without the slash that the link may have."""
    wanted = _reading(
        mechanism='nvidia_write_protect_domain',
        blocks=frozenset(WritePath),
        ref=_ref(f'{DOMAINS}/0'),
        field='WriteProtected',
        value='true',
        scope=Scope.COMPONENT,
        part='Card',
    )
    accelerator = device(FPGA, bmc='host', items=(ITEM,))
    assert (wanted,) == WriteProtectDomain().read(accelerator, [_domain(True, FPGA)], NOW)
    assert frozenset({_ref(ITEM)}) == WriteProtectDomain().followers(accelerator, [_domain(True, FPGA)])


@pytest.mark.parametrize(
    ('value', 'item', 'state', 'reason'),
    [
        (False, {}, OPEN, None),
        (None, {'WriteProtected': True}, UNKNOWN, 'neither true nor false'),
        (1, {'WriteProtected': True}, UNKNOWN, 'neither true nor false'),
        (True, {'WriteProtected': False}, UNKNOWN, f'the domain is protected, but {ITEM} does not show that for itself'),
        (True, BUSY, UNKNOWN, f'the item that should follow it could not be read: {BUSY}'),
    ],
)
def test_what_a_domain_and_its_item_amount_to(value: object, item: Any, state: LockState, reason: str | None) -> None:
    """The item is the second source."""
    tree = _domain(value, ITEM)
    tree[ITEM] = item
    found = WriteProtectDomain().read(device(FPGA, bmc='host', items=(ITEM,)), [tree], NOW)
    assert [('Card', literal(value), state, reason)] == _said(found)


def test_items_without_an_id_and_of_another_bmc_follow_no_domain() -> None:
    """Even one that has the very URI that a domain names."""
    accelerator = device(FPGA, bmc='host', items=(ITEM,))
    (item,) = accelerator.firmware
    for other in (replace(item, id=None), replace(item, ref=_ref(ITEM, AWAY))):
        assert () == WriteProtectDomain().read(replace(accelerator, firmware=(other,)), [_domain(True, ITEM, FPGA)], NOW)


# ---- items ----


def _inventory(*bodies: Any) -> Tree:
    tree = Tree('host')
    tree[TOP] = {'UpdateService': {'@odata.id': f'{TOP}/UpdateService'}}
    tree[f'{TOP}/UpdateService'] = {'FirmwareInventory': {'@odata.id': ITEMS}}
    tree[ITEMS] = members(*(f'{ITEMS}/{n}' for n in range(len(bodies))))
    for number, body in enumerate(bodies):
        tree[f'{ITEMS}/{number}'] = body
    return tree


def test_a_reading_of_an_item_says_all_that_evidence_needs() -> None:
    """Of firmware, and of a slot that has one."""
    accelerator = device(FPGA, bmc='host', items=(f'{ITEMS}/0', f'{ITEMS}/1'))
    first, second = accelerator.firmware
    accelerator = replace(accelerator, firmware=(first,), slots=(ReconfigurationSlot(slot_id='S', index=0, item=second),))
    said = {'mechanism': 'write_protected', 'blocks': frozenset(WritePath), 'field': 'WriteProtected'}
    tree = _inventory({'WriteProtected': True}, {'WriteProtected': False})
    assert (
        _reading(**said, ref=_ref(f'{ITEMS}/0'), value='true', scope=Scope.COMPONENT, part='0'),
        _reading(**said, ref=_ref(f'{ITEMS}/1'), value='false', state=OPEN, scope=Scope.SLOT, part='S'),
    ) == WriteProtected().read(accelerator, [tree], NOW)


def test_items_that_say_nothing_hide_no_other() -> None:
    """One that shows none, one without an id, one that follows a domain; what cannot be read counts where it was shown."""
    uris = tuple(f'{ITEMS}/{n}' for n in range(6))
    accelerator = device(FPGA, bmc='host', items=uris)
    items = list(accelerator.firmware)
    items[1] = replace(items[1], id=None)
    items[3] = replace(items[3], write_protected=None)
    accelerator = replace(accelerator, firmware=(*items, replace(items[5], ref=_ref(uris[5], AWAY))))
    tree = _domain(True, uris[2])
    on, off = {'WriteProtected': True}, {'WriteProtected': False}
    for uri, body in zip(uris, ({}, on, on, BUSY, BUSY, off), strict=True):
        tree[uri] = body
    found = WriteProtected().read(accelerator, [tree], NOW)
    assert [
        (_ref(uris[4]), None, 'reading-session', UNKNOWN, BUSY),
        (_ref(uris[5]), 'false', 'reading-session', OPEN, None),
        (_ref(uris[5], AWAY), None, '', UNKNOWN, 'its BMC was not read'),
    ] == [(r.ref, r.value, r.session, r.state, r.reason) for r in found]


@pytest.mark.parametrize(
    ('value', 'state', 'reason'),
    [(True, UNKNOWN, CONSTANT), (False, OPEN, None), (None, UNKNOWN, 'neither true nor false')],
)
def test_what_an_item_of_a_bmc_that_says_true_of_everything_says(value: object, state: LockState, reason: str | None) -> None:
    """True is nothing there; false would be."""
    others = {'WriteProtected': True, 'Updateable': True}
    tree = _inventory({'WriteProtected': value}, others, others)
    found = WriteProtected().read(device(FPGA, bmc='host', items=(f'{ITEMS}/0',)), [tree], NOW)
    assert [('0', literal(value), state, reason)] == _said(found)


ON, OFF = {'WriteProtected': True}, {'WriteProtected': False}
ANY = ON | {'Updateable': True}


@pytest.mark.parametrize(
    ('bodies', 'first', 'state'),
    [
        ((ON, ON, ON), None, LOCKED),
        ((ON, ON, ON), 7, UNKNOWN),
        ((ON, ON, ON), {'@odata.id': 7}, UNKNOWN),
        ((ON, ON, OFF), 7, LOCKED),
        ((ON, ON, 404), None, LOCKED),
        ((ON, 404, ANY), None, UNKNOWN),
        ((ON, 404, OFF), None, LOCKED),
        ((ON, ON, 500), None, UNKNOWN),
        ((ON, 500, OFF), None, LOCKED),
        ((ON, ANY), None, LOCKED),
        ((ON, ANY), 7, UNKNOWN),
    ],
)
def test_true_counts_where_the_bmc_tells_items_apart(bodies: tuple[Any, ...], first: object, state: LockState) -> None:
    """What cannot be asked may be an item that could be written; what is not there is none. One that is open settles it."""
    tree = _inventory(*bodies)
    if first is not None:
        tree[ITEMS]['Members'].insert(0, first)
    found = WriteProtected().read(device(FPGA, bmc='host', items=(f'{ITEMS}/0',)), [tree], NOW)
    assert [state] == [r.state for r in found]


@pytest.mark.parametrize('body', [OFF, ANY])
def test_the_items_beside_it_are_asked_as_well_as_the_bmcs_own(body: dict[str, Any]) -> None:
    """A BMC has its own images in FirmwareInventory, and may have an item in another collection."""
    tree = _inventory(ANY, ANY, ANY)
    software = f'{TOP}/UpdateService/SoftwareInventory'
    tree[software] = members(f'{software}/A', f'{software}/B')
    tree[f'{software}/A'], tree[f'{software}/B'] = ON, body
    accelerator = device(FPGA, bmc='host', items=(f'{software}/A',))
    assert [LOCKED if body is OFF else UNKNOWN] == [r.state for r in WriteProtected().read(accelerator, [tree], NOW)]
    assert tree.asked.count(ITEMS) == tree.asked.count(software) == 1


@pytest.mark.parametrize(
    ('uri', 'body', 'state'),
    [
        (TOP, {}, LOCKED),
        (TOP, {'UpdateService': {'@odata.id': 7}}, LOCKED),
        (TOP, BUSY, UNKNOWN),
        (f'{TOP}/UpdateService', {}, LOCKED),
        (f'{TOP}/UpdateService', BUSY, UNKNOWN),
        (f'{TOP}/UpdateService', {'FirmwareInventory': {'@odata.id': f'{ITEMS}/'}}, UNKNOWN),
        (ITEMS, BUSY, UNKNOWN),
        (ITEMS, {}, LOCKED),
        (ITEMS, {'Members': 7}, LOCKED),
    ],
)
def test_the_bmcs_own_images_are_asked_where_they_are_linked(uri: str, body: Any, state: LockState) -> None:
    """Where nothing links them the items beside it have to do; where they cannot be asked, true is nothing."""
    tree = _inventory(ANY, ON, ON)
    software = f'{TOP}/UpdateService/SoftwareInventory'
    tree[software] = members(*(f'{software}/{name}' for name in 'ABC'))
    for name in 'ABC':
        tree[f'{software}/{name}'] = ON
    tree[uri] = body
    accelerator = device(FPGA, bmc='host', items=(f'{software}/A',))
    assert [state] == [r.state for r in WriteProtected().read(accelerator, [tree], NOW)]


# ---- what all of them share ----


@pytest.mark.parametrize(
    ('link', 'place'),
    [
        ('/a/X', '/a/X'),
        ('/a/X/', '/a/X'),
        ('/a//X//', '/a/X'),
        ('/a///X', '/a/X'),
        ('/a/X/#/FPGA/0', '/a/X'),
        ('/a/X?one=1#two', '/a/X'),
        ('', ''),
        (None, None),
        (7, None),
        ({'@odata.id': '/a'}, None),
    ],
)
def test_a_link_leads_to_one_place_however_it_is_written(link: object, place: str | None) -> None:
    """As references have it."""
    assert place == where(link)


def test_items_are_a_resources_by_what_they_say_themselves() -> None:
    """One that cannot be read, has no id or lists nothing is nobody's; a link that stands twice counts once."""
    tree = Tree('host')
    uris = tuple(f'{ITEMS}/{n}' for n in range(5))
    for uri, links in zip(uris, ([7, {}, DRIVE, f'{DRIVE}/', FPGA], [DRIVE], 7, None, [DRIVE]), strict=True):
        shown = [{'@odata.id': one} if isinstance(one, str) else one for one in links] if isinstance(links, list) else links
        tree[uri] = {'RelatedItem': shown}
    tree[uris[1]] = BUSY
    accelerator = device(FPGA, DRIVE, bmc='host', items=uris)
    nameless = (*accelerator.firmware[:4], replace(accelerator.firmware[4], id=None))
    first = accelerator.firmware[0]
    found = related(replace(accelerator, firmware=nameless), Readers([tree]))
    assert {_ref(DRIVE): [first], _ref(FPGA): [first]} == found


def test_a_resource_of_a_bmc_that_was_not_looked_at_is_said_to_be_so() -> None:
    """It has no session either."""
    readers = Readers([Tree('host', **{FPGA: {}})])
    assert (None, 'its BMC was not read') == readers.document(_ref(FPGA, AWAY))
    assert (None, '', 'reading-session') == (readers.of(AWAY), readers.session(AWAY), readers.session(HOST))


def test_a_value_is_kept_as_json_of_a_bounded_length() -> None:
    """In letters that every reader takes; what is cut says of how many, and what is no JSON says so."""
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert '"\\u00e9"' == literal('é')
    assert '{"a": [1, null], "b": true}' == literal({'b': True, 'a': [1, None]})
    assert f'"{"x" * (LONGEST - 2)}"' == literal('x' * (LONGEST - 2))
    assert f'"{"x" * (LONGEST - 1)}... (cut, of {LONGEST + 1} characters)' == literal('x' * (LONGEST - 1))
    assert '"a number that JSON does not have"' == literal(float('nan'))
    assert '"nested too deeply"' == literal(deep)
