# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The four mechanisms read, engage and release what they say, and read unknown where nothing is proven."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from baremetal_acc.errors import BmcConflict, BmcRefused, BmcUnsupported
from baremetal_acc.locks.fpga_programmable_from_host import ProgrammableFromHost
from baremetal_acc.locks.nvidia.bluefield_host_privilege import HostPrivilege
from baremetal_acc.locks.nvidia.inband_update_policy import InbandUpdatePolicy
from baremetal_acc.locks.registry import mechanisms
from baremetal_acc.locks.write_protected import WriteProtected
from baremetal_acc.model.lock import LockReading, LockState, ResetKind, Scope, WritePath

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
GPU = '/redfish/v1/Systems/1/Processors/GPU_0'
FPGA = '/redfish/v1/Systems/1/Processors/FPGA1'
ITEMS = '/redfish/v1/UpdateService/FirmwareInventory'
EROT = '/redfish/v1/Chassis/HGX_ERoT_GPU_0'


def _read(bmc: Any, mechanism: Any) -> tuple[LockReading, ...]:
    with bmc.connect() as connection:
        look = connection.look(NOW)
        return tuple(r for a in look.accelerators for r in mechanism.read(a, [look.reader], NOW))


def _write(bmc: Any, mechanism: Any, verb: str, reading: LockReading) -> None:
    with bmc.connect() as connection:
        getattr(mechanism, verb)(connection.writer(), reading)


def _machine(bmc: Any) -> None:
    """A GPU behind a root of trust, an FPGA with three slots, and an item for each."""
    processors = '/redfish/v1/Systems/1/Processors'
    bmc.tree['/redfish/v1/Systems/1']['Processors'] = {'@odata.id': processors}
    bmc.collection(processors, 'GPU_0', 'FPGA1')
    bmc.put(GPU, ProcessorType='GPU', Model='NVIDIA H100', SerialNumber='S1')
    slots = [{'SlotId': f'Slot{n}', 'ProgrammableFromHost': True} for n in range(3)]
    bmc.put(
        FPGA,
        ProcessorType='FPGA',
        Model='F1',
        SerialNumber='S2',
        FPGA={'ProgrammableFromHost': True, 'ReconfigurationSlots': slots},
    )
    bmc.collection('/redfish/v1/Chassis', 'HGX_ERoT_GPU_0')
    oem = {'InbandUpdatePolicyEnabled': True, 'AutomaticBackgroundCopyEnabled': True, 'BackgroundCopyStatus': 'Completed'}
    protected = {'Nvidia': {'ComponentsProtected': [{'@odata.id': GPU}]}}
    bmc.put(
        EROT,
        ChassisType='Component',
        Status={'State': 'Enabled', 'Health': 'OK'},
        Oem={'Nvidia': oem},
        Links={'Oem': protected},
    )
    bmc.tree['/redfish/v1']['UpdateService'] = {'@odata.id': '/redfish/v1/UpdateService'}
    bmc.put('/redfish/v1/UpdateService', FirmwareInventory={'@odata.id': ITEMS})
    bmc.collection(ITEMS, 'GPU', 'FPGA', 'BMC')
    bmc.put(f'{ITEMS}/GPU', Version='1', Updateable=True, WriteProtected=False, RelatedItem=[{'@odata.id': GPU}])
    bmc.put(f'{ITEMS}/FPGA', Version='1', Updateable=True, RelatedItem=[{'@odata.id': FPGA}])
    bmc.put(f'{ITEMS}/BMC', Version='1', Updateable=True)


def _card(bmc: Any) -> None:
    """A BlueField with its own BMC, open."""
    bmc.collection('/redfish/v1/Systems', 'Bluefield')
    bmc.collection('/redfish/v1/Chassis', 'Card1')
    bmc.put('/redfish/v1/Chassis/Card1', ChassisType='Card', Model='BlueField-3 SmartNIC Main Card', SerialNumber='MT1',
            Links={'ComputerSystems': [{'@odata.id': '/redfish/v1/Systems/Bluefield'}]})  # fmt: skip
    system = '/redfish/v1/Systems/Bluefield'
    links = {'Chassis': [{'@odata.id': '/redfish/v1/Chassis/Card1'}]}
    oem = {'Nvidia': {'@odata.id': f'{system}/Oem/Nvidia'}}
    bios = {'@odata.id': f'{system}/Bios'}
    bmc.put(system, Model='BlueField-3 SmartNIC Main Card', SystemType='Physical', Bios=bios, Oem=oem, Links=links)
    settings = {'SettingsObject': {'@odata.id': f'{system}/Bios/Settings'}}
    bmc.put(
        f'{system}/Bios',
        Attributes={'HostPrivilegeLevel': 'Privileged', 'NicMode': 'DpuMode'},
        **{'@Redfish.Settings': settings},
    )
    bmc.put(f'{system}/Bios/Settings', Attributes={})
    actions = {'#HostRshim.Set': {'target': f'{system}/Oem/Nvidia/Actions/HostRshim.Set'}}
    bmc.put(f'{system}/Oem/Nvidia', HostRshim='Enabled', Actions=actions)


def test_all_four_are_installed() -> None:
    """Found by their entry points, sorted, each named as its entry point."""
    names = {'bluefield_host_privilege', 'fpga_programmable_from_host', 'nvidia_inband_update_policy', 'write_protected'}
    found = [m.name for m in mechanisms()]
    assert names <= set(found)
    assert sorted(found) == found


def test_only_write_protection_blocks_the_operators_own_way_to_a_card() -> None:
    """It is released for our own flash, as a lockdown of the whole machine is; the others stay."""
    ours = {'write_protected', 'nvidia_write_protect_domain'}
    assert ours == {m.name for m in mechanisms() if WritePath.BMC_NETWORK in m.about.blocks and not m.about.wraps}
    assert all((WritePath.HOST_DEVICE in m.about.blocks) is (Scope.BMC not in m.about.protects) for m in mechanisms())


def test_no_mechanism_ever_says_verified(bmc: Any) -> None:
    """Only our own record of engaging it makes a reading proof."""
    _machine(bmc)
    bmc.tree[FPGA]['FPGA']['ProgrammableFromHost'] = False
    bmc.tree[EROT]['Oem']['Nvidia']['InbandUpdatePolicyEnabled'] = False
    bmc.tree[f'{ITEMS}/GPU']['WriteProtected'] = True
    states = [r.state for m in mechanisms() for r in _read(bmc, m)]
    assert LockState.LOCKED_REPORTED in states
    assert LockState.LOCKED_VERIFIED not in states


# ---- WriteProtected ----


@pytest.mark.parametrize(
    ('value', 'state'),
    [
        (False, LockState.UNLOCKED),
        (True, LockState.LOCKED_REPORTED),
        (None, LockState.UNKNOWN),
        ('true', LockState.UNKNOWN),
        (1, LockState.UNKNOWN),
    ],
)
def test_write_protected_is_read(bmc: Any, value: Any, state: LockState) -> None:
    """Per item that shows it; what is neither true nor false is unknown."""
    _machine(bmc)
    bmc.tree[f'{ITEMS}/GPU']['WriteProtected'] = value
    (found,) = _read(bmc, WriteProtected())
    assert (state, Scope.COMPONENT, 'GPU', 'WriteProtected', json.dumps(value)) == (
        found.state,
        found.scope,
        found.part,
        found.field,
        found.value,
    )
    assert frozenset(WritePath) == found.blocks


def test_write_protected_everywhere_is_unknown(bmc: Any) -> None:
    """True on every item, also on Updateable ones of the BMC itself: seen on a real BMC, and no evidence."""
    _machine(bmc)
    for name in ('GPU', 'FPGA', 'BMC'):
        bmc.tree[f'{ITEMS}/{name}']['WriteProtected'] = True
    assert {LockState.UNKNOWN} == {r.state for r in _read(bmc, WriteProtected())}
    bmc.tree[f'{ITEMS}/BMC']['WriteProtected'] = False
    assert {LockState.LOCKED_REPORTED} == {r.state for r in _read(bmc, WriteProtected())}


def test_write_protected_says_nothing_where_the_other_items_cannot_be_asked(bmc: Any) -> None:
    """Whether it is true of everything cannot be told, so true is not taken for closed."""
    _machine(bmc)
    bmc.tree[f'{ITEMS}/GPU']['WriteProtected'] = True
    assert {LockState.LOCKED_REPORTED} == {r.state for r in _read(bmc, WriteProtected())}
    with bmc.connect() as connection:
        look = connection.look(NOW)
        reader = look.reader
        refused = BmcRefused(bmc='host', what='HTTP 500')

        class Deaf:
            """The reader, but for the collection."""

            name, session, peek = reader.name, reader.session, reader.peek

            def get(self, uri: str) -> Any:
                """Read."""
                if uri.rstrip('/') == ITEMS:
                    raise refused
                return reader.get(uri)

        readings = [r for a in look.accelerators for r in WriteProtected().read(a, [Deaf()], NOW)]
    assert {LockState.UNKNOWN} == {r.state for r in readings}


def test_slots_that_are_all_write_protected_are_not_a_bmc_that_says_true_of_everything(bmc: Any) -> None:
    """Three slots that we closed, in a collection of their own: the BMC's own images still say otherwise."""
    _machine(bmc)
    items = '/redfish/v1/UpdateService/SoftwareInventory'
    bmc.tree['/redfish/v1/UpdateService']['SoftwareInventory'] = {'@odata.id': items}
    bmc.collection(items, 'S0', 'S1', 'S2')
    for n in range(3):
        pointer = [{'@odata.id': f'{FPGA}#/FPGA/ReconfigurationSlots/{n}'}]
        bmc.put(f'{items}/S{n}', Updateable=True, WriteProtected=True, RelatedItem=pointer)
    found = {r.part: (r.scope, r.state) for r in _read(bmc, WriteProtected()) if r.scope is Scope.SLOT}
    assert {f'Slot{n}': (Scope.SLOT, LockState.LOCKED_REPORTED) for n in range(3)} == found


@pytest.mark.parametrize(('verb', 'sent'), [('engage', True), ('release', False)])
def test_write_protected_is_written_with_the_etag_that_was_read(bmc: Any, verb: str, sent: bool) -> None:
    """A PATCH of the one property."""
    _machine(bmc)
    bmc.etags[f'{ITEMS}/GPU'] = '"7"'
    (reading,) = _read(bmc, WriteProtected())
    _write(bmc, WriteProtected(), verb, reading)
    assert [{'WriteProtected': sent}] == bmc.body_of('PATCH')
    assert [(f'{ITEMS}/GPU', '"7"')] == [(r.path_url, r.headers['If-Match']) for r in bmc.requests if r.method == 'PATCH']


@pytest.mark.parametrize(('code', 'error'), [(409, BmcRefused), (400, BmcRefused), (405, BmcRefused)])
def test_a_refused_engagement_is_an_error(bmc: Any, reply: Callable[..., Any], code: int, error: type[Exception]) -> None:
    """It is sent once."""
    _machine(bmc)
    (reading,) = _read(bmc, WriteProtected())
    bmc.replies['PATCH', f'{ITEMS}/GPU'] = reply(code)
    with pytest.raises(error):
        _write(bmc, WriteProtected(), 'engage', reading)
    assert 1 == bmc.count('PATCH')


def test_a_success_with_a_message_per_property_is_only_an_answer(bmc: Any, reply: Callable[..., Any]) -> None:
    """200 with WriteProtected@Message.ExtendedInfo: whether it took effect is seen by reading."""
    _machine(bmc)
    (reading,) = _read(bmc, WriteProtected())
    bmc.replies['PATCH', f'{ITEMS}/GPU'] = reply(
        200, {'WriteProtected@Message.ExtendedInfo': [{'MessageId': 'Base.1.0.PropertyNotWritable'}]}
    )
    _write(bmc, WriteProtected(), 'engage', reading)
    (again,) = _read(bmc, WriteProtected())
    assert LockState.UNLOCKED == again.state


# ---- ProgrammableFromHost ----


def test_the_fpga_and_each_slot_have_a_reading_of_their_own(bmc: Any) -> None:
    """The whole protects the firmware, each slot itself."""
    _machine(bmc)
    found = {r.field: (r.scope, r.part, r.state) for r in _read(bmc, ProgrammableFromHost())}
    assert (Scope.FIRMWARE, None, LockState.UNLOCKED) == found.pop('FPGA/ProgrammableFromHost')
    slots = {
        f'FPGA/ReconfigurationSlots/{n}/ProgrammableFromHost': (Scope.SLOT, f'Slot{n}', LockState.UNLOCKED) for n in range(3)
    }
    assert slots == found


@pytest.mark.parametrize(
    ('value', 'state'),
    [(False, LockState.LOCKED_REPORTED), (None, LockState.UNKNOWN), ('no', LockState.UNKNOWN), (0, LockState.UNKNOWN)],
)
def test_a_slot_is_closed_by_false_alone(bmc: Any, value: Any, state: LockState) -> None:
    """Null and anything else is unknown; 0 is not false."""
    _machine(bmc)
    bmc.tree[FPGA]['FPGA']['ReconfigurationSlots'][1]['ProgrammableFromHost'] = value
    assert state == {r.part: r.state for r in _read(bmc, ProgrammableFromHost())}['Slot1']


def test_a_slot_that_does_not_show_it_has_no_reading(bmc: Any) -> None:
    """What has no mechanism has no reading: the slot stays uncovered, which is not met."""
    _machine(bmc)
    del bmc.tree[FPGA]['FPGA']['ReconfigurationSlots'][1]['ProgrammableFromHost']
    assert {None, 'Slot0', 'Slot2'} == {r.part for r in _read(bmc, ProgrammableFromHost())}


@pytest.mark.parametrize(('verb', 'sent'), [('engage', False), ('release', True)])
def test_a_slot_is_written_by_its_position(bmc: Any, verb: str, sent: bool) -> None:
    """Array PATCH: an empty object for each element that stays."""
    _machine(bmc)
    reading = next(r for r in _read(bmc, ProgrammableFromHost()) if r.part == 'Slot1')
    _write(bmc, ProgrammableFromHost(), verb, reading)
    assert [{'FPGA': {'ReconfigurationSlots': [{}, {'ProgrammableFromHost': sent}, {}]}}] == bmc.body_of('PATCH')


def test_the_whole_is_written_without_touching_slots(bmc: Any) -> None:
    """One property."""
    _machine(bmc)
    reading = next(r for r in _read(bmc, ProgrammableFromHost()) if r.part is None)
    _write(bmc, ProgrammableFromHost(), 'engage', reading)
    assert [{'FPGA': {'ProgrammableFromHost': False}}] == bmc.body_of('PATCH')


def test_slots_that_moved_are_a_conflict(bmc: Any) -> None:
    """The position now holds another slot: nothing is written."""
    _machine(bmc)
    reading = next(r for r in _read(bmc, ProgrammableFromHost()) if r.part == 'Slot1')
    bmc.tree[FPGA]['FPGA']['ReconfigurationSlots'].reverse()
    bmc.tree[FPGA]['FPGA']['ReconfigurationSlots'].pop()
    with pytest.raises(BmcConflict, match='no longer Slot1'):
        _write(
            bmc,
            ProgrammableFromHost(),
            'engage',
            reading.__class__(**{**_fields(reading), 'field': 'FPGA/ReconfigurationSlots/0/ProgrammableFromHost'}),
        )
    assert 0 == bmc.count('PATCH')


def _fields(reading: LockReading) -> dict[str, Any]:
    return {name: getattr(reading, name) for name in LockReading.__dataclass_fields__}


# ---- in-band update policy ----


def test_the_root_of_trust_protects_the_device_that_it_names(bmc: Any) -> None:
    """And no other: the FPGA has no reading."""
    _machine(bmc)
    (found,) = _read(bmc, InbandUpdatePolicy())
    assert ('serial:S1', LockState.UNLOCKED, Scope.DEVICE, EROT) == (found.accelerator, found.state, found.scope, found.ref.uri)


@pytest.mark.parametrize(
    ('change', 'state'),
    [
        ({}, LockState.LOCKED_REPORTED),
        ({'BackgroundCopyStatus': None}, LockState.UNKNOWN),
        ({'AutomaticBackgroundCopyEnabled': ...}, LockState.UNKNOWN),
        ({'Health': 'Critical'}, LockState.UNKNOWN),
        ({'State': 'UnavailableOffline'}, LockState.UNKNOWN),
        ({'State': None}, LockState.UNKNOWN),
        ({'InbandUpdatePolicyEnabled': 'false'}, LockState.UNKNOWN),
        ({'InbandUpdatePolicyEnabled': None}, LockState.UNKNOWN),
    ],
)
def test_false_counts_only_from_a_root_of_trust_that_answers(bmc: Any, change: dict[str, Any], state: LockState) -> None:
    """bmcweb says false also when it could not ask; then the rest of the answer is missing."""
    _machine(bmc)
    body = bmc.tree[EROT]
    body['Oem']['Nvidia']['InbandUpdatePolicyEnabled'] = False
    for name, value in change.items():
        place = body['Status'] if name in ('State', 'Health') else body['Oem']['Nvidia']
        place.pop(name)
        if value is not ...:
            place[name] = value
    (found,) = _read(bmc, InbandUpdatePolicy())
    assert state == found.state
    assert (found.reason is None) == (state is LockState.LOCKED_REPORTED)


def test_two_roots_of_trust_of_one_device_are_closed_together_or_not(bmc: Any) -> None:
    """One that is open leaves a way in."""
    _machine(bmc)
    second = '/redfish/v1/Chassis/HGX_IRoT_GPU_0'
    bmc.tree['/redfish/v1/Chassis']['Members'].append({'@odata.id': second})
    bmc.tree[second] = json.loads(json.dumps(bmc.tree[EROT]))
    bmc.tree[EROT]['Oem']['Nvidia']['InbandUpdatePolicyEnabled'] = False
    assert {EROT: LockState.PARTIAL, second: LockState.UNLOCKED} == {
        r.ref.uri: r.state for r in _read(bmc, InbandUpdatePolicy())
    }
    bmc.tree[second]['Oem']['Nvidia']['InbandUpdatePolicyEnabled'] = False
    assert [LockState.LOCKED_REPORTED] * 2 == [r.state for r in _read(bmc, InbandUpdatePolicy())]


def test_a_root_of_trust_known_by_its_name_alone_never_proves(bmc: Any) -> None:
    """ComponentsProtected is missing: true is unlocked, false is unknown."""
    _machine(bmc)
    del bmc.tree[EROT]['Links']
    assert [LockState.UNLOCKED] == [r.state for r in _read(bmc, InbandUpdatePolicy())]
    bmc.tree[EROT]['Oem']['Nvidia']['InbandUpdatePolicyEnabled'] = False
    assert [LockState.UNKNOWN] == [r.state for r in _read(bmc, InbandUpdatePolicy())]


def test_a_root_of_trust_that_cannot_be_read_is_unknown(bmc: Any, reply: Callable[..., Any]) -> None:
    """Its name says whose it is; its state cannot be told."""
    _machine(bmc)
    bmc.replies['GET', EROT] = reply(500)
    (found,) = _read(bmc, InbandUpdatePolicy())
    assert (LockState.UNKNOWN, None) == (found.state, found.value)
    assert 'HTTP 500' in (found.reason or '')


@pytest.mark.parametrize(('verb', 'sent'), [('engage', False), ('release', True)])
def test_the_policy_is_written(bmc: Any, verb: str, sent: bool) -> None:
    """A PATCH of the chassis."""
    _machine(bmc)
    (reading,) = _read(bmc, InbandUpdatePolicy())
    _write(bmc, InbandUpdatePolicy(), verb, reading)
    assert [{'Oem': {'Nvidia': {'InbandUpdatePolicyEnabled': sent}}}] == bmc.body_of('PATCH')


# ---- host privilege and rshim ----

BIOS = '/redfish/v1/Systems/Bluefield/Bios'
OEM = '/redfish/v1/Systems/Bluefield/Oem/Nvidia'


@pytest.mark.parametrize(
    ('level', 'pending', 'rshim', 'state'),
    [
        ('Privileged', ..., 'Enabled', LockState.UNLOCKED),
        ('Restricted', ..., 'Disabled', LockState.LOCKED_REPORTED),
        ('Restricted', 'Restricted', 'Disabled', LockState.LOCKED_REPORTED),
        ('Restricted', ..., 'Enabled', LockState.PARTIAL),
        ('Privileged', ..., 'Disabled', LockState.PARTIAL),
        ('Privileged', 'Restricted', 'Enabled', LockState.PARTIAL),
        ('Privileged', 'Restricted', 'Disabled', LockState.PENDING_RESET),
        ('Restricted', 'Privileged', 'Disabled', LockState.PENDING_RESET),
        ('Restricted', ..., ..., LockState.PARTIAL),
        (..., ..., 'Disabled', LockState.PARTIAL),
        ('restricted', ..., 'Disabled', LockState.UNKNOWN),
        ('Restricted', ..., None, LockState.UNKNOWN),
        (7, ..., 'Disabled', LockState.UNKNOWN),
    ],
)
def test_a_card_is_closed_when_both_are_and_nothing_waits(
    bmc: Any, level: Any, pending: Any, rshim: Any, state: LockState
) -> None:
    """One alone leaves the other way open; what is pending is not in force, or will not stay."""
    _card(bmc)
    for place, name, value in (
        (bmc.tree[BIOS]['Attributes'], 'HostPrivilegeLevel', level),
        (bmc.tree[OEM], 'HostRshim', rshim),
    ):
        place.pop(name)
        if value is not ...:
            place[name] = value
    if pending is not ...:
        bmc.tree[f'{BIOS}/Settings']['Attributes'] = {'HostPrivilegeLevel': pending}
    (found,) = _read(bmc, HostPrivilege())
    assert (state, ResetKind.POWER_CYCLE, '/redfish/v1/Systems/Bluefield') == (
        found.state,
        found.needs,
        found.reset.uri if found.reset else None,
    )


def test_older_firmware_writes_the_name_with_blanks(bmc: Any) -> None:
    """Read and written under the name that the card has."""
    _card(bmc)
    bmc.tree[BIOS]['Attributes'] = {'Host Privilege Level': 'Privileged'}
    (reading,) = _read(bmc, HostPrivilege())
    assert LockState.UNLOCKED == reading.state
    _write(bmc, HostPrivilege(), 'engage', reading)
    assert [{'Attributes': {'Host Privilege Level': 'Restricted'}}] == bmc.body_of('PATCH')


@pytest.mark.parametrize('broken', [BIOS, f'{BIOS}/Settings', OEM])
def test_a_part_that_cannot_be_read_makes_the_card_unknown(bmc: Any, reply: Callable[..., Any], broken: str) -> None:
    """Whatever the other parts say."""
    _card(bmc)
    bmc.tree[BIOS]['Attributes']['HostPrivilegeLevel'] = 'Restricted'
    bmc.tree[OEM]['HostRshim'] = 'Disabled'
    bmc.replies['GET', broken] = reply(500)
    (found,) = _read(bmc, HostPrivilege())
    assert LockState.UNKNOWN == found.state
    assert broken in (found.reason or '')


def test_a_system_without_the_mechanism_has_no_reading(bmc: Any) -> None:
    """A Bios of some other make, even one that cannot be read, says nothing."""
    _card(bmc)
    bmc.tree[BIOS]['Attributes'] = {'NicMode': 'DpuMode'}
    del bmc.tree['/redfish/v1/Systems/Bluefield']['Oem']
    assert () == _read(bmc, HostPrivilege())
    del bmc.tree[BIOS]
    assert () == _read(bmc, HostPrivilege())


@pytest.mark.parametrize(
    ('verb', 'level', 'rshim'), [('engage', 'Restricted', 'Disabled'), ('release', 'Privileged', 'Enabled')]
)
def test_both_settings_are_written(bmc: Any, verb: str, level: str, rshim: str) -> None:
    """The level into the settings, rshim by its action."""
    _card(bmc)
    (reading,) = _read(bmc, HostPrivilege())
    _write(bmc, HostPrivilege(), verb, reading)
    assert [{'Attributes': {'HostPrivilegeLevel': level}}] == bmc.body_of('PATCH')
    assert [{'HostRshim': rshim}] == bmc.body_of('POST')
    writes = [(m, u) for m, u in bmc.seen if m != 'GET']
    assert [('PATCH', f'{BIOS}/Settings'), ('POST', f'{OEM}/Actions/HostRshim.Set')] == writes


def test_a_card_that_lacks_one_of_them_is_refused_untouched(bmc: Any) -> None:
    """Half a lock is not begun."""
    _card(bmc)
    (reading,) = _read(bmc, HostPrivilege())
    del bmc.tree[OEM]['Actions']
    with pytest.raises(BmcUnsupported, match='HostRshim'):
        _write(bmc, HostPrivilege(), 'engage', reading)
    assert (0, 0) == (bmc.count('PATCH'), bmc.count('POST'))
