# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The locks of cards believe only what two sources agree on, and every write path is read."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from baremetal_acc.errors import BmcUnsupported
from baremetal_acc.locks.drive_configuration_lock import ConfigurationLock
from baremetal_acc.locks.fpga_programmable_from_host import ProgrammableFromHost
from baremetal_acc.locks.nvidia.bluefield_external_host_privilege import ExternalHostPrivilege
from baremetal_acc.locks.nvidia.bluefield_host_privilege import HostPrivilege
from baremetal_acc.locks.nvidia.bluefield_host_privilege_config import HostPrivilegeConfig
from baremetal_acc.locks.nvidia.inband_update_policy import InbandUpdatePolicy
from baremetal_acc.locks.nvidia.write_protect_domain import WriteProtectDomain
from baremetal_acc.locks.write_protected import WriteProtected
from baremetal_acc.model.lock import LockReading, LockState, ResetKind, Scope, WritePath

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)

SYSTEM = '/redfish/v1/Systems/Bluefield'
BIOS = f'{SYSTEM}/Bios'
OEM = f'{SYSTEM}/Oem/Nvidia'
PRIVILEGES = f'{OEM}/Connectx/ExternalHostPrivileges'
ADAPTER = '/redfish/v1/Chassis/Card1/NetworkAdapters/NvidiaNetworkAdapter'
CONFIG = f'{ADAPTER}/Oem/Nvidia/HostPrivilegeConfig'

EIGHT = (
    'HostPrivFlashAccess', 'HostPrivFwUpdate', 'HostPrivNicReset', 'HostPrivNvGlobal', 'HostPrivNvHost',
    'HostPrivNvInternalCpu', 'HostPrivNvPort', 'HostPrivPccUpdate',
)  # fmt: skip
"""As the recording nvidia/bluefield3 shows them."""

LOCKED, PARTIAL, OPEN = LockState.LOCKED_REPORTED, LockState.PARTIAL, LockState.UNLOCKED
UNKNOWN, PENDING = LockState.UNKNOWN, LockState.PENDING_RESET


def _read(bmc: Any, mechanism: Any) -> tuple[LockReading, ...]:
    with bmc.connect() as connection:
        look = connection.look(NOW)
        return tuple(r for a in look.accelerators for r in mechanism.read(a, [look.reader], NOW))


def _write(bmc: Any, mechanism: Any, verb: str, reading: LockReading) -> None:
    with bmc.connect() as connection:
        getattr(mechanism, verb)(connection.writer(), reading)


def _card(bmc: Any, *, level: str | None = 'Privileged', rshim: str | None = 'Enabled') -> None:
    """A BlueField with its own BMC; without a level its Bios shows none, without rshim its extension shows none."""
    bmc.collection('/redfish/v1/Systems', 'Bluefield')
    bmc.collection('/redfish/v1/Chassis', 'Card1')
    bmc.put('/redfish/v1/Chassis/Card1', ChassisType='Card', Model='BlueField-3 SmartNIC Main Card', SerialNumber='MT1',
            NetworkAdapters={'@odata.id': ADAPTER.rsplit('/', 1)[0]},
            Links={'ComputerSystems': [{'@odata.id': SYSTEM}]})  # fmt: skip
    bmc.collection(ADAPTER.rsplit('/', 1)[0], 'NvidiaNetworkAdapter')
    bmc.put(ADAPTER)
    bmc.put(SYSTEM, Model='BlueField-3 SmartNIC Main Card', SystemType='Physical', Bios={'@odata.id': BIOS},
            Oem={'Nvidia': {'@odata.id': OEM}}, Links={'Chassis': [{'@odata.id': '/redfish/v1/Chassis/Card1'}]})  # fmt: skip
    settings = {'SettingsObject': {'@odata.id': f'{BIOS}/Settings'}}
    attributes = {} if level is None else {'HostPrivilegeLevel': level}
    bmc.put(BIOS, Attributes={**attributes, 'NicMode': 'DpuMode'}, **{'@Redfish.Settings': settings})
    bmc.put(f'{BIOS}/Settings', Attributes={})
    bmc.put(OEM)
    if rshim is not None:
        bmc.tree[OEM] |= {'HostRshim': rshim, 'Actions': {'#HostRshim.Set': {'target': f'{OEM}/Actions/HostRshim.Set'}}}


def _privileges(bmc: Any, word: str = 'Default', **others: Any) -> dict[str, Any]:
    """Explicit privileges, all of them alike but for the others; without @odata.id, as the recording has it."""
    bmc.tree[OEM]['Connectx'] = {'ExternalHostPrivilege': {'@odata.id': PRIVILEGES}}
    shown = dict.fromkeys(EIGHT, word) | others
    bmc.tree[PRIVILEGES] = {
        'Actions': {'#ExternalHostPrivilege.Set': {'target': f'{PRIVILEGES}/Actions/ExternalHostPrivileges.Set'}},
        'ExternalHostPrivilege': shown,
    }
    return shown


def _preset(bmc: Any, mode: object, pending: object = ..., **settings: object) -> None:
    """A HostPrivilegeConfig of the adapter."""
    bmc.tree[ADAPTER]['Oem'] = {'Nvidia': {'HostPrivilegeConfig': {'@odata.id': CONFIG}}}
    link = {'SettingsObject': {'@odata.id': f'{CONFIG}/Settings'}}
    bmc.put(CONFIG, PrivilegeMode=mode, PrivilegeSettings=settings, **{'@Redfish.Settings': link})
    bmc.put(f'{CONFIG}/Settings', PrivilegeMode=mode if pending is ... else pending)


# ---- explicit privileges ----


@pytest.mark.parametrize(
    ('word', 'others', 'level', 'rshim', 'state'),
    [
        ('Disabled', {}, None, 'Disabled', LOCKED),
        ('Disabled', {}, 'Restricted', 'Disabled', LOCKED),
        ('Disabled', {'HostPrivNicReset': 'Enabled'}, None, 'Disabled', LOCKED),
        ('Disabled', {}, 'Privileged', 'Disabled', UNKNOWN),
        ('Disabled', {}, None, 'Enabled', PARTIAL),
        ('Disabled', {}, None, None, PARTIAL),
        ('Disabled', {}, None, 'Sometimes', UNKNOWN),
        ('Disabled', {'HostPrivPccUpdate': 'Default'}, None, 'Disabled', PARTIAL),
        ('Disabled', {'HostPrivNvGlobal': 'Enabled'}, None, 'Disabled', PARTIAL),
        ('Disabled', {'HostPrivFwUpdate': 'Enabled'}, None, 'Disabled', PARTIAL),
        ('Disabled', {'HostPrivFlashAccess': 'Default'}, None, 'Disabled', UNKNOWN),
        ('Disabled', {'HostPrivFwUpdate': 'Never'}, None, 'Disabled', UNKNOWN),
        ('Disabled', {'HostPrivFwUpdate': ['Disabled']}, 'Restricted', 'Disabled', UNKNOWN),
        ('Default', {}, 'Restricted', 'Disabled', UNKNOWN),
        ('Default', {}, 'Privileged', 'Enabled', OPEN),
        ('Enabled', {}, None, 'Enabled', OPEN),
    ],
)
def test_privileges_are_closed_when_every_one_that_writes_is_and_rshim_too(
    bmc: Any, word: str, others: dict[str, Any], level: str | None, rshim: str | None, state: LockState
) -> None:
    """Default is nothing that is known; a level that says the opposite makes it unknown; rshim is a way in on its own."""
    _card(bmc, level=level, rshim=rshim)
    _privileges(bmc, word, **others)
    (found,) = _read(bmc, ExternalHostPrivilege())
    assert (state, PRIVILEGES, ResetKind.POWER_CYCLE) == (found.state, found.ref.uri, found.needs)
    assert (found.reason is None) is (state in (LOCKED, OPEN))
    assert SYSTEM == (found.reset.uri if found.reset else None)


@pytest.mark.parametrize('missing', ['HostPrivFlashAccess', 'HostPrivFwUpdate'])
def test_a_card_that_does_not_show_both_ways_to_write_is_unknown_and_not_written(bmc: Any, missing: str) -> None:
    """What is not shown was not closed."""
    _card(bmc, level=None, rshim='Disabled')
    del _privileges(bmc, 'Disabled')[missing]
    (found,) = _read(bmc, ExternalHostPrivilege())
    assert (UNKNOWN, True) == (found.state, missing in (found.reason or ''))
    with pytest.raises(BmcUnsupported, match='HostPriv'):
        _write(bmc, ExternalHostPrivilege(), 'engage', found)
    assert 0 == bmc.count('POST')


@pytest.mark.parametrize('broken', [OEM, PRIVILEGES])
def test_privileges_that_cannot_be_read_are_unknown(bmc: Any, reply: Callable[..., Any], broken: str) -> None:
    """The privileges themselves leave a reading that says why; without the extension the other mechanism has one."""
    _card(bmc, level='Restricted', rshim='Disabled')
    _privileges(bmc, 'Disabled')
    bmc.replies['GET', broken] = reply(500)
    states = {r.mechanism: r.state for m in (ExternalHostPrivilege(), HostPrivilege()) for r in _read(bmc, m)}
    assert {UNKNOWN} == set(states.values())
    assert (broken == PRIVILEGES) is ('bluefield_external_host_privilege' in states)


@pytest.mark.parametrize(('verb', 'word', 'rshim'), [('engage', 'Disabled', 'Disabled'), ('release', 'Default', 'Enabled')])
def test_every_privilege_that_writes_is_set_in_one_action_and_then_rshim(bmc: Any, verb: str, word: str, rshim: str) -> None:
    """The reset of the card is left to its host as it was."""
    _card(bmc)
    _privileges(bmc)
    (reading,) = _read(bmc, ExternalHostPrivilege())
    _write(bmc, ExternalHostPrivilege(), verb, reading)
    writes = [(m, u) for m, u in bmc.seen if m != 'GET']
    assert [('POST', f'{PRIVILEGES}/Actions/ExternalHostPrivileges.Set'), ('POST', f'{OEM}/Actions/HostRshim.Set')] == writes
    wanted = {name: word for name in EIGHT if name != 'HostPrivNicReset'}
    assert [wanted, {'HostRshim': rshim}] == bmc.body_of('POST')


# ---- the preset ----


@pytest.mark.parametrize(
    ('mode', 'pending', 'settings', 'rshim', 'state'),
    [
        ('Restricted', ..., {}, 'Disabled', LOCKED),
        ('Restricted', ..., {'HostPrivilegeLevel': 'Restricted', 'FirmwareUpdate': 'Disabled'}, 'Disabled', LOCKED),
        ('Restricted', ..., {'HostPrivilegeLevel': 'Privileged'}, 'Disabled', UNKNOWN),
        ('Restricted', ..., {'FlashAccess': 'Enabled'}, 'Disabled', UNKNOWN),
        ('Restricted', ..., {}, 'Enabled', PARTIAL),
        ('Restricted', ..., {}, None, PARTIAL),
        ('Restricted', 'Privileged', {}, 'Disabled', PENDING),
        ('Restricted', 'Custom', {}, 'Disabled', PENDING),
        ('Privileged', 'Restricted', {}, 'Disabled', PENDING),
        ('Privileged', 'Restricted', {}, 'Enabled', PARTIAL),
        ('Privileged', ..., {}, 'Enabled', OPEN),
        ('Privileged', ..., {}, 'Disabled', PARTIAL),
        ('Custom', ..., {'FirmwareUpdate': 'Default'}, 'Enabled', PARTIAL),
        ('Custom', ..., {'FirmwareUpdate': 'Enabled'}, 'Enabled', OPEN),
        (None, ..., {}, 'Disabled', UNKNOWN),
        ('Locked', ..., {}, 'Disabled', UNKNOWN),
        ('Restricted', 7, {}, 'Disabled', UNKNOWN),
    ],
)
def test_a_preset_is_closed_when_it_is_in_force_and_rshim_is_closed(
    bmc: Any, mode: object, pending: object, settings: dict[str, object], rshim: str | None, state: LockState
) -> None:
    """Its own settings must not say the opposite; what waits for a reset is pending."""
    _card(bmc, level=None, rshim=rshim)
    _preset(bmc, mode, pending, **settings)
    (found,) = _read(bmc, HostPrivilegeConfig())
    assert (state, CONFIG, ResetKind.POWER_CYCLE) == (found.state, found.ref.uri, found.needs)
    assert (found.reason is None) is (state in (LOCKED, OPEN))


@pytest.mark.parametrize('broken', [CONFIG, f'{CONFIG}/Settings', SYSTEM, OEM])
def test_a_preset_of_which_a_part_cannot_be_read_proves_nothing(bmc: Any, reply: Callable[..., Any], broken: str) -> None:
    """Unknown, or no reading at all where its System is not seen; never closed."""
    _card(bmc, level=None, rshim='Disabled')
    _preset(bmc, 'Restricted')
    bmc.replies['GET', broken] = reply(500)
    assert {r.state for r in _read(bmc, HostPrivilegeConfig())} <= {UNKNOWN}


@pytest.mark.parametrize(
    ('verb', 'mode', 'rshim'), [('engage', 'Restricted', 'Disabled'), ('release', 'Privileged', 'Enabled')]
)
def test_a_preset_is_written_into_its_settings_alone_and_then_rshim(bmc: Any, verb: str, mode: str, rshim: str) -> None:
    """PrivilegeSettings must not be in the same request: NvidiaHostPrivilegeConfig v1_0_0, PrivilegeMode."""
    _card(bmc)
    _preset(bmc, 'Custom')
    (reading,) = _read(bmc, HostPrivilegeConfig())
    _write(bmc, HostPrivilegeConfig(), verb, reading)
    writes = [(m, u) for m, u in bmc.seen if m != 'GET']
    assert [('PATCH', f'{CONFIG}/Settings'), ('POST', f'{OEM}/Actions/HostRshim.Set')] == writes
    assert ([{'PrivilegeMode': mode}], [{'HostRshim': rshim}]) == (bmc.body_of('PATCH'), bmc.body_of('POST'))


def test_a_card_whose_rshim_cannot_be_set_is_refused_untouched(bmc: Any) -> None:
    """Half a lock is not begun."""
    _card(bmc)
    _preset(bmc, 'Privileged')
    _privileges(bmc)
    found = [(m, *_read(bmc, m)) for m in (HostPrivilegeConfig(), ExternalHostPrivilege())]
    del bmc.tree[OEM]['Actions']
    for mechanism, reading in found:
        with pytest.raises(BmcUnsupported, match='HostRshim'):
            _write(bmc, mechanism, 'engage', reading)
    assert (0, 0) == (bmc.count('PATCH'), bmc.count('POST'))


# ---- sources beside each other ----


@pytest.mark.parametrize(
    ('level', 'privileges', 'preset', 'states'),
    [
        ('Restricted', 'Disabled', 'Restricted', (LOCKED, LOCKED, LOCKED)),
        ('Restricted', 'Default', 'Restricted', (LOCKED, UNKNOWN, LOCKED)),
        ('Restricted', 'Enabled', 'Restricted', (UNKNOWN, PARTIAL, UNKNOWN)),
        ('Restricted', 'Disabled', 'Privileged', (UNKNOWN, UNKNOWN, PARTIAL)),
        ('Privileged', 'Disabled', 'Restricted', (PARTIAL, UNKNOWN, UNKNOWN)),
        ('Restricted', 'Disabled', 'Custom', (LOCKED, LOCKED, PARTIAL)),
    ],
)
def test_what_a_card_says_in_several_places_has_to_agree(
    bmc: Any, level: str, privileges: str, preset: str, states: tuple[LockState, ...]
) -> None:
    """Closed here and open there: nobody knows which of them holds, so nothing is closed."""
    _card(bmc, level=level, rshim='Disabled')
    _privileges(bmc, privileges)
    _preset(bmc, preset, HostPrivilegeLevel='Restricted' if preset == 'Custom' else preset)
    mechanisms = (HostPrivilege(), ExternalHostPrivilege(), HostPrivilegeConfig())
    assert states == tuple(_read(bmc, m)[0].state for m in mechanisms)


@pytest.mark.parametrize('other', [_privileges, lambda bmc: _preset(bmc, 'Privileged')])
def test_a_card_without_a_level_has_no_lock_of_the_level_beside_another(bmc: Any, other: Callable[[Any], object]) -> None:
    """It could not be engaged. Without the other one HostRshim alone is half a lock, and says so."""
    _card(bmc, level=None, rshim='Disabled')
    assert [PARTIAL] == [r.state for r in _read(bmc, HostPrivilege())]
    other(bmc)
    assert () == _read(bmc, HostPrivilege())


def test_another_source_that_cannot_be_read_makes_a_closed_one_unknown(bmc: Any, reply: Callable[..., Any]) -> None:
    """It may say the opposite."""
    _card(bmc, level='Restricted', rshim='Disabled')
    _preset(bmc, 'Restricted')
    assert [LOCKED] == [r.state for r in _read(bmc, HostPrivilege())]
    bmc.replies['GET', CONFIG] = reply(500)
    (found,) = _read(bmc, HostPrivilege())
    assert (UNKNOWN, True) == (found.state, CONFIG in (found.reason or ''))


@pytest.mark.parametrize('where', [SYSTEM, BIOS, f'{BIOS}/Settings', OEM, PRIVILEGES, CONFIG, f'{CONFIG}/Settings'])
def test_a_place_beside_which_the_bmc_says_that_something_went_wrong_proves_nothing(bmc: Any, where: str) -> None:
    """HTTP 200, the closed value, and a message: it could not be read. Where the message is mere information, it was."""
    _card(bmc, level='Restricted', rshim='Disabled')
    _privileges(bmc, 'Disabled')
    _preset(bmc, 'Restricted')
    mechanisms = (HostPrivilege(), ExternalHostPrivilege(), HostPrivilegeConfig())
    bmc.tree[where]['@Message.ExtendedInfo'] = [{'MessageId': 'Base.1.0.Success', 'MessageSeverity': 'OK'}]
    assert [LOCKED] * 3 == [_read(bmc, m)[0].state for m in mechanisms]
    bmc.tree[where]['@Message.ExtendedInfo'] = [{'MessageId': 'Base.1.0.InternalError', 'MessageSeverity': 'Critical'}]
    assert LOCKED not in {_read(bmc, m)[0].state for m in mechanisms} or where == SYSTEM


@pytest.mark.parametrize(
    ('where', 'path'),
    [
        (BIOS, 'Attributes/HostPrivilegeLevel'),
        (f'{BIOS}/Settings', 'Attributes/HostPrivilegeLevel'),
        (OEM, 'HostRshim'),
        (PRIVILEGES, 'ExternalHostPrivilege'),
        (PRIVILEGES, 'ExternalHostPrivilege/HostPrivFwUpdate'),
        (ADAPTER, 'Oem/Nvidia/HostPrivilegeConfig'),
        (CONFIG, 'PrivilegeMode'),
        (CONFIG, 'PrivilegeSettings/FirmwareUpdate'),
        (CONFIG, 'PrivilegeSettings/FlashAccess'),
        (f'{CONFIG}/Settings', 'PrivilegeMode'),
    ],
)
def test_a_value_beside_which_the_bmc_says_that_something_went_wrong_proves_nothing(bmc: Any, where: str, path: str) -> None:
    """As of a whole resource: the message stands beside the property itself."""
    _card(bmc, level='Restricted', rshim='Disabled')
    _privileges(bmc, 'Disabled')
    _preset(bmc, 'Restricted', FirmwareUpdate='Default', FlashAccess='Default')
    mechanisms = (HostPrivilege(), ExternalHostPrivilege(), HostPrivilegeConfig())
    assert [LOCKED] * 3 == [_read(bmc, m)[0].state for m in mechanisms]
    *outer, name = path.split('/')
    body = bmc.tree[where]
    for step in outer:
        body = body[step]
    body[f'{name}@Message.ExtendedInfo'] = [{'MessageId': 'Base.1.0.InternalError', 'MessageSeverity': 'Critical'}]
    readings = [_read(bmc, m)[0] for m in mechanisms]
    assert {UNKNOWN} == {r.state for r in readings}
    said = f'{where}: the BMC reports an error next to it (Critical: Base.1.0.InternalError)'
    assert all(said in (r.reason or '') for r in readings)


def test_a_console_port_that_the_system_itself_shows_is_heard_too(bmc: Any) -> None:
    """Older firmware has no resource of its own for the extension."""
    _card(bmc, level='Restricted')
    bmc.tree[SYSTEM]['Oem'] = {'Nvidia': {'HostRshim': 'Disabled'}}
    (found,) = _read(bmc, HostPrivilege())
    assert (LOCKED, None) == (found.state, found.reason)
    beside = {'HostRshim@Message.ExtendedInfo': [{'MessageId': 'X.1', 'MessageSeverity': 'Warning'}]}
    bmc.tree[SYSTEM]['Oem']['Nvidia'] |= beside
    (found,) = _read(bmc, HostPrivilege())
    expected = f'{SYSTEM}: the BMC reports an error next to it (Warning: X.1)'
    assert (UNKNOWN, expected) == (found.state, found.reason)


# ---- a second source for the policy of a root of trust ----

GPU = '/redfish/v1/Systems/1/Processors/GPU_0'
EROT = '/redfish/v1/Chassis/HGX_ERoT_GPU_0'
PARTS = f'{EROT}/Oem/NvidiaRoT/RoTProtectedComponents'
ITEMS = '/redfish/v1/UpdateService/FirmwareInventory'


def _board(bmc: Any, *, signs: bool = True) -> None:
    """A GPU behind a root of trust that says closed, and an item of each; without signs it shows nothing else."""
    processors = '/redfish/v1/Systems/1/Processors'
    bmc.tree['/redfish/v1/Systems/1']['Processors'] = {'@odata.id': processors}
    bmc.collection(processors, 'GPU_0')
    bmc.put(GPU, ProcessorType='GPU', Model='NVIDIA H100', SerialNumber='S1')
    bmc.collection('/redfish/v1/Chassis', 'HGX_ERoT_GPU_0')
    shown = {'AutomaticBackgroundCopyEnabled': True, 'BackgroundCopyStatus': 'Completed'} if signs else {}
    bmc.put(
        EROT,
        ChassisType='Component',
        Status={'State': 'Enabled', 'Health': 'OK'},
        Oem={'Nvidia': {'InbandUpdatePolicyEnabled': False, **shown}},
        Links={'Oem': {'Nvidia': {'ComponentsProtected': [{'@odata.id': GPU}]}}},
    )
    bmc.tree['/redfish/v1']['UpdateService'] = {'@odata.id': '/redfish/v1/UpdateService'}
    bmc.put('/redfish/v1/UpdateService', FirmwareInventory={'@odata.id': ITEMS})
    bmc.collection(ITEMS, 'GPU', 'ERoT', 'BMC')
    bmc.put(f'{ITEMS}/GPU', Version='1', Updateable=True, WriteProtected=False, RelatedItem=[{'@odata.id': GPU}])
    bmc.put(f'{ITEMS}/ERoT', Version='1', Updateable=True, RelatedItem=[{'@odata.id': EROT}])
    bmc.put(f'{ITEMS}/BMC', Version='1', Updateable=True, WriteProtected=False)


def _parts(bmc: Any, policies: dict[str, object], slots: dict[str, tuple[object, ...]] | None = None) -> None:
    """Components of the root of trust, each with its policy (... : it shows none), and what their slots show."""
    bmc.tree[EROT]['Oem']['Nvidia']['RoTProtectedComponents'] = {'@odata.id': PARTS}
    bmc.collection(PARTS, *policies)
    for name, policy in policies.items():
        body = bmc.put(f'{PARTS}/{name}', **({} if policy is ... else {'InbandUpdatePolicyEnabled': policy}))
        protected = (slots or {}).get(name)
        if protected is not None:
            body['ImageSlots'] = {'@odata.id': f'{PARTS}/{name}/ImageSlots'}
            bmc.collection(f'{PARTS}/{name}/ImageSlots', *(str(n) for n in range(len(protected))))
            for number, value in enumerate(protected):
                bmc.put(f'{PARTS}/{name}/ImageSlots/{number}', **({} if value is ... else {'WriteProtected': value}))


@pytest.mark.parametrize(
    ('signs', 'policies', 'slots', 'state'),
    [
        (True, {}, {}, LOCKED),
        (False, {}, {}, UNKNOWN),
        (False, {'Self': False, 'AP': False}, {}, LOCKED),
        (False, {'Self': ..., 'AP': ...}, {'AP': (True, True)}, LOCKED),
        (False, {'Self': ..., 'AP': ...}, {'AP': (True, ...)}, LOCKED),
        (False, {'Self': ..., 'AP': ...}, {'AP': (..., ...)}, UNKNOWN),
        (True, {'Self': ..., 'AP': ...}, {'AP': (..., ...)}, LOCKED),
        (True, {'Self': False, 'AP': True}, {}, UNKNOWN),
        (True, {'Self': True, 'AP': False}, {}, UNKNOWN),
        (True, {'Self': None, 'AP': False}, {}, UNKNOWN),
        (True, {'Self': False, 'AP': False}, {'AP': (True, False)}, UNKNOWN),
        (True, {'Self': False, 'AP': False}, {'Self': (None,)}, UNKNOWN),
        (True, {'Self': False, 'AP': False}, {'AP': ('true',)}, UNKNOWN),
        (True, {str(n): False for n in range(17)}, {}, UNKNOWN),
    ],
)
def test_a_second_source_for_the_policy_has_to_agree(
    bmc: Any, signs: bool, policies: dict[str, object], slots: dict[str, tuple[object, ...]], state: LockState
) -> None:
    """False alone may be a read error; a component or a slot that says otherwise, or says nothing that counts, is no proof."""
    _board(bmc, signs=signs)
    if policies:
        _parts(bmc, policies, slots)
    (found,) = _read(bmc, InbandUpdatePolicy())
    assert (state, EROT) == (found.state, found.ref.uri)
    assert (found.reason is None) is (state is LOCKED)


@pytest.mark.parametrize('broken', [PARTS, f'{PARTS}/AP', f'{PARTS}/AP/ImageSlots', f'{PARTS}/AP/ImageSlots/1'])
def test_a_second_source_that_cannot_be_read_is_no_second_source(bmc: Any, reply: Callable[..., Any], broken: str) -> None:
    """It may have said otherwise; the signs of the first one do not help then."""
    _board(bmc)
    _parts(bmc, {'Self': False, 'AP': False}, {'AP': (True, True)})
    assert [LOCKED] == [r.state for r in _read(bmc, InbandUpdatePolicy())]
    bmc.replies['GET', broken] = reply(500)
    (found,) = _read(bmc, InbandUpdatePolicy())
    assert (UNKNOWN, True) == (found.state, 'second source' in (found.reason or ''))


@pytest.mark.parametrize('where', [f'{PARTS}/AP', f'{PARTS}/AP/ImageSlots/0'])
def test_a_second_source_that_tells_of_trouble_is_none(bmc: Any, where: str) -> None:
    """It was not read, whatever value it shows."""
    _board(bmc)
    _parts(bmc, {'AP': False}, {'AP': (True,)})
    bmc.tree[where]['@Message.ExtendedInfo'] = [{'MessageId': 'Base.1.0.InternalError', 'MessageSeverity': 'Critical'}]
    assert [UNKNOWN] == [r.state for r in _read(bmc, InbandUpdatePolicy())]


def test_nobody_asks_for_a_second_source_of_open(bmc: Any) -> None:
    """Requests are dear."""
    _board(bmc)
    _parts(bmc, {'Self': False, 'AP': False})
    bmc.tree[EROT]['Oem']['Nvidia']['InbandUpdatePolicyEnabled'] = True
    assert [OPEN] == [r.state for r in _read(bmc, InbandUpdatePolicy())]
    assert 0 == bmc.count('GET', PARTS)


# ---- write-protect domains ----

BOARD = '/redfish/v1/Chassis/HGX_Chassis_0'
DOMAINS = f'{BOARD}/Oem/Nvidia/WriteProtectDomains'


def _domain(bmc: Any, value: object, *affected: str, number: int = 0) -> None:
    """A domain of the baseboard."""
    bmc.collection('/redfish/v1/Chassis', 'HGX_Chassis_0', 'HGX_ERoT_GPU_0')
    bmc.put(BOARD, ChassisType='Zone', Oem={'Nvidia': {'WriteProtectDomains': {'@odata.id': DOMAINS}}})
    bmc.collection(DOMAINS, *(str(n) for n in range(number + 1)))
    bmc.put(f'{DOMAINS}/{number}', WriteProtected=value, AffectedComponents=[{'@odata.id': uri} for uri in affected])


@pytest.mark.parametrize(
    ('value', 'item', 'state'),
    [
        (True, True, LOCKED),
        (True, False, UNKNOWN),
        (False, True, OPEN),
        (False, False, OPEN),
        (None, True, UNKNOWN),
        ('true', True, UNKNOWN),
        (1, True, UNKNOWN),
    ],
)
@pytest.mark.parametrize('affected', [GPU, f'{ITEMS}/GPU'])
def test_a_domain_and_the_item_that_follows_it_have_to_agree(
    bmc: Any, affected: str, value: object, item: bool, state: LockState
) -> None:
    """The one item that shows WriteProtected; that of the root of trust is not covered, and the item is no place of its own."""
    _board(bmc)
    _domain(bmc, value, affected)
    bmc.tree[f'{ITEMS}/GPU']['WriteProtected'] = item
    (found,) = _read(bmc, WriteProtectDomain())
    assert (state, Scope.COMPONENT, 'GPU', 'WriteProtected') == (found.state, found.scope, found.part, found.field)
    assert frozenset(WritePath) == found.blocks
    assert (found.reason is None) is (state in (LOCKED, OPEN))
    assert () == _read(bmc, WriteProtected())


def test_a_domain_of_somebody_else_is_not_ours(bmc: Any) -> None:
    """Then the item is a place of its own."""
    _board(bmc)
    _domain(bmc, True, '/redfish/v1/Systems/1/Processors/GPU_7')
    assert () == _read(bmc, WriteProtectDomain())
    assert [OPEN] == [r.state for r in _read(bmc, WriteProtected())]


def test_one_open_domain_of_two_is_seen(bmc: Any) -> None:
    """Both protect the device; each says for itself, and the worst of a mechanism counts."""
    _board(bmc)
    _domain(bmc, True, GPU)
    _domain(bmc, False, GPU, number=1)
    bmc.tree[f'{ITEMS}/GPU']['WriteProtected'] = True
    found = _read(bmc, WriteProtectDomain())
    assert {f'{DOMAINS}/0': LOCKED, f'{DOMAINS}/1': OPEN} == {r.ref.uri: r.state for r in found}


def test_an_item_of_a_domain_that_tells_of_trouble_proves_nothing(bmc: Any) -> None:
    """Beside its WriteProtected."""
    _board(bmc)
    _domain(bmc, True, GPU)
    item = bmc.tree[f'{ITEMS}/GPU']
    item |= {'WriteProtected': True, 'WriteProtected@Message.ExtendedInfo': [{'MessageId': 'x', 'MessageSeverity': 'Warning'}]}
    assert [UNKNOWN] == [r.state for r in _read(bmc, WriteProtectDomain())]


def test_an_item_of_a_domain_that_cannot_be_read_proves_nothing(bmc: Any, reply: Callable[..., Any]) -> None:
    """It is the second source."""
    _board(bmc)
    _domain(bmc, True, GPU)
    bmc.tree[f'{ITEMS}/GPU']['WriteProtected'] = True
    assert [LOCKED] == [r.state for r in _read(bmc, WriteProtectDomain())]
    bmc.replies['GET', f'{ITEMS}/GPU'] = reply(500)
    assert LOCKED not in {r.state for r in _read(bmc, WriteProtectDomain())}


@pytest.mark.parametrize('verb', ['engage', 'release'])
def test_the_domain_is_written_and_not_its_item(bmc: Any, verb: str) -> None:
    """A BMC refuses to write the item: it is an output."""
    _board(bmc)
    _domain(bmc, False, GPU)
    (reading,) = _read(bmc, WriteProtectDomain())
    _write(bmc, WriteProtectDomain(), verb, reading)
    assert [('PATCH', f'{DOMAINS}/0')] == [(m, u) for m, u in bmc.seen if m != 'GET']
    assert [{'WriteProtected': verb == 'engage'}] == bmc.body_of('PATCH')


# ---- drives ----

CSD = '/redfish/v1/Systems/1/Processors/FPGA_0'
CARD = '/redfish/v1/Chassis/1/PCIeDevices/CSD_0'
STORAGE = '/redfish/v1/Systems/1/Storage/1'
DRIVE = f'{STORAGE}/Drives/0'


def _computational_storage(bmc: Any, lock: object = 'Enabled', *, at: str = DRIVE, **states: object) -> None:
    """An FPGA with a drive, and an item of each. ``at`` shows the lock; commands that are not given are locked."""
    processors = '/redfish/v1/Systems/1/Processors'
    bmc.tree['/redfish/v1/Systems/1']['Processors'] = {'@odata.id': processors}
    bmc.collection(processors, 'FPGA_0')
    bmc.put(CSD, ProcessorType='FPGA', Model='Computational storage drive', SerialNumber='S1',
            FPGA={'FpgaType': 'Discrete', 'Model': 'KU15P'}, Links={'PCIeDevice': {'@odata.id': CARD}})  # fmt: skip
    bmc.collection('/redfish/v1/Chassis', '1')
    bmc.put('/redfish/v1/Chassis/1', ChassisType='RackMount', PCIeDevices={'@odata.id': CARD.rsplit('/', 1)[0]})
    bmc.collection(CARD.rsplit('/', 1)[0], 'CSD_0')
    bmc.put(CARD, SerialNumber='S1', PCIeFunctions={'@odata.id': f'{CARD}/PCIeFunctions'})
    bmc.collection(f'{CARD}/PCIeFunctions', '0')
    bmc.put(f'{CARD}/PCIeFunctions/0', VendorId='0x10ee', DeviceId='0x6987', ClassCode='0x010802',
            DeviceClass='MassStorageController', Links={'Drives': [{'@odata.id': DRIVE}]})  # fmt: skip
    bmc.put(STORAGE, Drives=[{'@odata.id': DRIVE}])
    bmc.put(DRIVE, SerialNumber='S1', MediaType='SSD', Protocol='NVMe')
    shown = dict.fromkeys(('FirmwareCommit', 'FirmwareImageDownload', 'Lockdown'), 'Locked') | states
    shown = {name: state for name, state in shown.items() if state is not ...}
    holder = 'NVMe' if at == DRIVE else 'NVMeSubsystemProperties'
    bmc.tree[at] |= {'ConfigurationLock': lock, holder: {'ConfigurationLockState': shown}}
    bmc.tree['/redfish/v1']['UpdateService'] = {'@odata.id': '/redfish/v1/UpdateService'}
    bmc.put('/redfish/v1/UpdateService', FirmwareInventory={'@odata.id': ITEMS})
    bmc.collection(ITEMS, 'CSD', 'FPGA')
    bmc.put(f'{ITEMS}/CSD', Version='1', Updateable=True, RelatedItem=[{'@odata.id': DRIVE}])
    bmc.put(f'{ITEMS}/FPGA', Version='1', Updateable=True, RelatedItem=[{'@odata.id': CSD}])


@pytest.mark.parametrize(
    ('lock', 'states', 'state'),
    [
        ('Enabled', {}, LOCKED),
        ('Enabled', {'Lockdown': 'CommandUnsupported'}, LOCKED),
        ('Enabled', {'Lockdown': 'Unlocked'}, PARTIAL),
        ('Enabled', {'Lockdown': 'LockdownUnsupported'}, PARTIAL),
        ('Enabled', {'FirmwareCommit': 'LockdownUnsupported'}, PARTIAL),
        ('Enabled', {'FirmwareImageDownload': 'Unlocked'}, UNKNOWN),
        ('Enabled', {'Lockdown': ...}, UNKNOWN),
        ('Enabled', {'FirmwareCommit': ...}, UNKNOWN),
        ('Enabled', {'FirmwareCommit': None}, UNKNOWN),
        ('Enabled', {'FirmwareCommit': ['Locked']}, UNKNOWN),
        ('Partial', {}, PARTIAL),
        ('Disabled', dict.fromkeys(('FirmwareCommit', 'FirmwareImageDownload', 'Lockdown'), 'Unlocked'), OPEN),
        ('Disabled', dict.fromkeys(('FirmwareCommit', 'FirmwareImageDownload', 'Lockdown'), ...), OPEN),
        ('Disabled', {}, UNKNOWN),
        (None, {}, UNKNOWN),
        (True, {}, UNKNOWN),
    ],
)
@pytest.mark.parametrize('at', [DRIVE, STORAGE])
def test_a_drive_is_closed_when_its_commands_are(
    bmc: Any, at: str, lock: object, states: dict[str, object], state: LockState
) -> None:
    """What its host may still send is a way in; a lock that its commands contradict is unknown. The FPGA's item is not its."""
    _computational_storage(bmc, lock, at=at, **states)
    (found,) = _read(bmc, ConfigurationLock())
    assert (state, at, Scope.COMPONENT, 'CSD') == (found.state, found.ref.uri, found.scope, found.part)
    assert frozenset({WritePath.HOST_DEVICE}) == found.blocks
    assert (found.reason is None) is (state in (LOCKED, OPEN))
    assert found.closable is ('LockdownUnsupported' not in states.values())


def test_a_drive_says_before_it_is_locked_what_it_cannot_lock(bmc: Any) -> None:
    """Whoever plans to lock it learns that this closes nothing, and which command stays."""
    _computational_storage(bmc, 'Disabled', FirmwareCommit='Unlocked', Lockdown='LockdownUnsupported')
    (found,) = _read(bmc, ConfigurationLock())
    assert (OPEN, False) == (found.state, found.closable)
    assert 'the drive shows that it cannot lock Lockdown (LockdownUnsupported)' == found.reason


def test_a_lock_level_that_is_not_known_proves_nothing(bmc: Any) -> None:
    """Baseline is the only one there is."""
    _computational_storage(bmc)
    bmc.tree[DRIVE]['TargetConfigurationLockLevel'] = 'Baseline'
    assert [LOCKED] == [r.state for r in _read(bmc, ConfigurationLock())]
    bmc.tree[DRIVE]['TargetConfigurationLockLevel'] = 'Relaxed'
    assert [UNKNOWN] == [r.state for r in _read(bmc, ConfigurationLock())]


def test_a_drive_that_cannot_be_read_is_unknown_and_one_without_the_property_is_nothing(
    bmc: Any, reply: Callable[..., Any]
) -> None:
    """Nor does the lock of a drive protect items of which nobody says that they are the drive's."""
    _computational_storage(bmc)
    bmc.replies['GET', DRIVE] = reply(500)
    assert [UNKNOWN] == [r.state for r in _read(bmc, ConfigurationLock())]
    del bmc.replies['GET', DRIVE]
    bmc.tree[f'{ITEMS}/CSD']['RelatedItem'] = [{'@odata.id': CSD}]
    assert () == _read(bmc, ConfigurationLock())
    bmc.tree[f'{ITEMS}/CSD']['RelatedItem'] = [{'@odata.id': DRIVE}]
    del bmc.tree[DRIVE]['ConfigurationLock']
    assert () == _read(bmc, ConfigurationLock())


def test_what_closes_the_fpga_does_not_close_the_drive_beside_it(bmc: Any) -> None:
    """Its host writes the drive's firmware as that of any drive."""
    _computational_storage(bmc)
    bmc.tree[CSD]['FPGA']['ProgrammableFromHost'] = False
    (found,) = _read(bmc, ProgrammableFromHost())
    assert (LOCKED, Scope.COMPONENT, 'FPGA') == (found.state, found.scope, found.part)
    _write(bmc, ProgrammableFromHost(), 'engage', found)
    assert [{'FPGA': {'ProgrammableFromHost': False}}] == bmc.body_of('PATCH')
    bmc.tree[f'{ITEMS}/FPGA']['RelatedItem'] = []
    assert () == _read(bmc, ProgrammableFromHost())


@pytest.mark.parametrize(('verb', 'word'), [('engage', 'Enabled'), ('release', 'Disabled')])
def test_the_lock_of_a_drive_is_written(bmc: Any, verb: str, word: str) -> None:
    """Partial is never written."""
    _computational_storage(bmc, 'Partial')
    (reading,) = _read(bmc, ConfigurationLock())
    _write(bmc, ConfigurationLock(), verb, reading)
    assert [('PATCH', DRIVE)] == [(m, u) for m, u in bmc.seen if m != 'GET']
    assert [{'ConfigurationLock': word}] == bmc.body_of('PATCH')
