# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Do the locks of cards believe only what two sources agree on, and is everything that is a way in asked for?"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from baremetal_acc.errors import BmcUnsupported
from baremetal_acc.locks.bluefield_external_host_privilege import ExternalHostPrivilege
from baremetal_acc.locks.bluefield_host_privilege import HostPrivilege
from baremetal_acc.locks.bluefield_host_privilege_config import HostPrivilegeConfig
from baremetal_acc.model.lock import LockReading, LockState, ResetKind

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


def test_another_source_that_cannot_be_read_makes_a_closed_one_unknown(bmc: Any, reply: Callable[..., Any]) -> None:
    """It may say the opposite."""
    _card(bmc, level='Restricted', rshim='Disabled')
    _preset(bmc, 'Restricted')
    assert [LOCKED] == [r.state for r in _read(bmc, HostPrivilege())]
    bmc.replies['GET', CONFIG] = reply(500)
    (found,) = _read(bmc, HostPrivilege())
    assert (UNKNOWN, True) == (found.state, CONFIG in (found.reason or ''))
