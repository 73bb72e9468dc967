# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The three properties of a BlueField card combine to one lock state, word by word. Documents only, without HTTP."""

import json
from typing import Any

import pytest

from baremetal_acc.locks.nvidia.bluefield import cards
from baremetal_acc.locks.nvidia.bluefield_external_host_privilege import ExternalHostPrivilege
from baremetal_acc.locks.nvidia.bluefield_host_privilege import HostPrivilege
from baremetal_acc.locks.nvidia.bluefield_host_privilege_config import HostPrivilegeConfig
from baremetal_acc.model.lock import LockState
from tests.unit.locks.documents import NOW, Tree, device

SYSTEM = '/redfish/v1/Systems/Bluefield'
OEM = f'{SYSTEM}/Oem/Nvidia'
PRIVILEGES = f'{OEM}/Connectx/ExternalHostPrivileges'
ADAPTERS = '/redfish/v1/Chassis/Card1/NetworkAdapters'
LOCKED, OPEN, PARTIAL = LockState.LOCKED_REPORTED, LockState.UNLOCKED, LockState.PARTIAL
PENDING, UNKNOWN = LockState.PENDING_RESET, LockState.UNKNOWN
CARD = device(f'{ADAPTERS}/A', f'{ADAPTERS}/B', SYSTEM)

FW, FLASH = 'HostPrivFwUpdate', 'HostPrivFlashAccess'
RSHIM_OPEN = 'HostRshim is open or not shown'
HOLDS = 'of this card shows that its host is not restricted, and it is unknown which of them is in effect'


def _shown(name: str, value: object) -> dict[str, Any]:
    return {} if value is ... else {name: value}


def _card(level: object = ..., pending: object = ..., rshim: object = 'Disabled', privileges: object = ...) -> Tree:
    """What is ``...`` is not shown."""
    tree = Tree()
    tree[SYSTEM] = {'Bios': {'@odata.id': f'{SYSTEM}/Bios'}, 'Oem': {'Nvidia': {'@odata.id': OEM}}}
    tree[f'{SYSTEM}/Bios'] = {'Attributes': _shown('HostPrivilegeLevel', level)}
    tree[f'{SYSTEM}/Bios/Settings'] = {'Attributes': _shown('HostPrivilegeLevel', pending)}
    tree[OEM] = _shown('HostRshim', rshim)
    if privileges is not ...:
        tree[OEM] |= {'Connectx': {'ExternalHostPrivilege': {'@odata.id': PRIVILEGES}}}
        tree[PRIVILEGES] = {} if privileges is None else {'ExternalHostPrivilege': privileges}
    for name in ('A', 'B'):
        tree[f'{ADAPTERS}/{name}'] = {}
    return tree


def _preset(tree: Tree, name: str, mode: object, pending: object = ..., **more: dict[str, object]) -> str:
    """Of one of the adapters; ``now`` and ``then`` are its single settings, in force and to come."""
    uri = f'{ADAPTERS}/{name}/Oem/Nvidia/HostPrivilegeConfig'
    tree[f'{ADAPTERS}/{name}'] = {'Oem': {'Nvidia': {'HostPrivilegeConfig': {'@odata.id': uri}}}}
    tree[uri] = {'PrivilegeMode': mode, 'PrivilegeSettings': more.get('now', {})}
    tree[f'{uri}/Settings'] = {
        **_shown('PrivilegeMode', mode if pending is ... else pending),
        'PrivilegeSettings': more.get('then', {}),
    }
    return uri


def _said(mechanism: Any, tree: Tree) -> list[tuple[str, LockState, str | None]]:
    return [(r.value, r.state, r.reason) for r in mechanism.read(CARD, [tree], NOW)]


@pytest.mark.parametrize(
    ('level', 'pending', 'rshim', 'state', 'reason'),
    [
        ('Restricted', ..., 'Disabled', LOCKED, None),
        ('Restricted', 'Restricted', 'Disabled', LOCKED, None),
        ('Privileged', ..., 'Enabled', OPEN, None),
        ('Privileged', 'Privileged', 'Enabled', OPEN, None),
        (
            'Privileged',
            'Restricted',
            'Disabled',
            PENDING,
            'Restricted is set, but takes effect only after the next reset of the card',
        ),
        (
            'Restricted',
            'Privileged',
            'Disabled',
            PENDING,
            'locked now, but Privileged is set and takes effect after the next reset of the card',
        ),
        ('Restricted', ..., 'Enabled', PARTIAL, RSHIM_OPEN),
        ('Restricted', 'Privileged', 'Enabled', PARTIAL, RSHIM_OPEN),
        ('Restricted', ..., ..., PARTIAL, RSHIM_OPEN),
        ('Privileged', 'Restricted', 'Enabled', PARTIAL, RSHIM_OPEN),
        ('Privileged', ..., 'Disabled', PARTIAL, 'HostPrivilegeLevel is open or not shown'),
        ('Privileged', 'Sometimes', 'Disabled', PARTIAL, 'HostPrivilegeLevel is open or not shown'),
        (..., ..., 'Disabled', PARTIAL, 'HostPrivilegeLevel is open or not shown'),
    ],
)
def test_what_a_level_and_the_console_port_amount_to(
    level: object, pending: object, rshim: object, state: LockState, reason: str | None
) -> None:
    """And what is shown of the two, of what is in force and what is set."""
    value = {
        **_shown('HostPrivilegeLevel', level),
        **_shown('HostPrivilegeLevel pending', pending),
        **_shown('HostRshim', rshim),
    }
    assert [(json.dumps(value, sort_keys=True), state, reason)] == _said(HostPrivilege(), _card(level, pending, rshim))


@pytest.mark.parametrize(
    ('level', 'rshim'), [(['Privileged'], 'Disabled'), ('Restricted', ['Disabled']), ({}, {}), ('restricted', None)]
)
def test_words_that_are_not_known_are_shown(level: object, rshim: object) -> None:
    """Whatever kind of value they are."""
    value = json.dumps({'HostPrivilegeLevel': level, 'HostRshim': rshim})
    assert [(value, UNKNOWN, f'unknown value: {value}')] == _said(HostPrivilege(), _card(level, ..., rshim))


def test_a_console_port_that_cannot_be_read_is_a_reading_even_of_a_card_without_a_level() -> None:
    """It may be open."""
    tree = _card()
    tree[OEM] = 'the BMC is busy'
    assert [('{}', UNKNOWN, f'{OEM}: the BMC is busy')] == _said(HostPrivilege(), tree)


OFF = {FW: 'Disabled', FLASH: 'Disabled'}


@pytest.mark.parametrize(
    ('privileges', 'rshim', 'level', 'state', 'reason'),
    [
        (OFF, 'Disabled', ..., LOCKED, None),
        (OFF, 'Disabled', 'Privileged', UNKNOWN, f'the level {HOLDS}'),
        (OFF, 'Enabled', 'Privileged', PARTIAL, RSHIM_OPEN),
        (
            OFF | {'HostPrivPccUpdate': 'Default', 'HostPrivNvGlobal': 'Enabled', 'NicReset': 'Enabled'},
            'Disabled',
            ...,
            PARTIAL,
            'HostPrivNvGlobal, HostPrivPccUpdate not Disabled',
        ),
        ({FW: 'Enabled', FLASH: 'Disabled'}, 'Disabled', ..., PARTIAL, 'only HostRshim is closed'),
        ({FW: 'Disabled', FLASH: 'Enabled'}, 'Enabled', ..., OPEN, None),
        (
            OFF | {FLASH: 'Default'},
            'Disabled',
            'Restricted',
            UNKNOWN,
            f'{FLASH} Default: what that means is unknown',
        ),
        (
            {FW: 'Default', FLASH: 'Default'},
            'Disabled',
            ...,
            UNKNOWN,
            f'{FW}, {FLASH} Default: what that means is unknown',
        ),
        ({FW: 'Default', FLASH: 'Default'}, 'Enabled', 'Privileged', OPEN, None),
        (None, 'Disabled', ..., UNKNOWN, 'it shows no ExternalHostPrivilege'),
        ({}, 'Disabled', ..., UNKNOWN, f'it does not show {FW}, {FLASH}'),
        ({FW: 'Disabled'}, 'Disabled', ..., UNKNOWN, f'it does not show {FLASH}'),
        (OFF | {FW: 7}, 'Disabled', ..., UNKNOWN, f'unknown value: {{"{FLASH}": "Disabled", "{FW}": 7}}'),
    ],
)
def test_what_privileges_and_the_console_port_amount_to(
    privileges: Any, rshim: object, level: object, state: LockState, reason: str | None
) -> None:
    """A reason names what is left to do, and what contradicts it."""
    tree = _card(level, ..., rshim, privileges)
    assert [(state, reason)] == [(s, why) for _, s, why in _said(ExternalHostPrivilege(), tree)]


@pytest.mark.parametrize(
    ('mode', 'pending', 'more', 'rshim', 'state', 'reason'),
    [
        ('Restricted', ..., {}, 'Disabled', LOCKED, None),
        ('Restricted', ..., {}, ..., PARTIAL, RSHIM_OPEN),
        ('Privileged', 'Restricted', {}, 'Disabled', PENDING, 'Privileged now, Restricted after the next reset of the card'),
        ('Restricted', 'Custom', {}, 'Enabled', PARTIAL, RSHIM_OPEN),
        ('Privileged', 'Custom', {}, 'Enabled', OPEN, None),
        ('Privileged', ..., {}, 'Disabled', PARTIAL, 'only HostRshim is closed'),
        ('Custom', ..., {}, 'Enabled', PARTIAL, 'Custom: put together by hand'),
        ('Custom', ..., {'now': {'FlashAccess': 'Enabled'}}, 'Enabled', OPEN, None),
        (
            'Restricted',
            ...,
            {'now': {'HostPrivilegeLevel': 'Privileged'}},
            'Disabled',
            UNKNOWN,
            'HostPrivilegeLevel is Privileged under a PrivilegeMode of "Restricted"',
        ),
        (
            'Restricted',
            ...,
            {'then': {'FirmwareUpdate': 'Enabled'}},
            'Disabled',
            UNKNOWN,
            'FirmwareUpdate is Enabled under a PrivilegeMode of "Restricted"',
        ),
        ('Restricted', ..., {'now': {'FlashAccess': 'Enabled'}}, 'Enabled', PARTIAL, RSHIM_OPEN),
    ],
)
def test_what_a_preset_and_the_console_port_amount_to(
    mode: str, pending: object, more: Any, rshim: object, state: LockState, reason: str | None
) -> None:
    """With its single settings, those in force and those to come."""
    tree = _card(..., ..., rshim)
    _preset(tree, 'A', mode, pending, **more)
    assert [(state, reason)] == [(s, why) for _, s, why in _said(HostPrivilegeConfig(), tree)]


def test_each_adapter_has_a_preset_of_its_own() -> None:
    """One that is open is no contradiction of another's: each has a reading, and the worst one counts."""
    tree = _card()
    first = _preset(tree, 'A', 'Restricted')
    _preset(tree, 'B', 'Privileged')
    assert [(LOCKED, None), (PARTIAL, 'only HostRshim is closed')] == [
        (state, why) for _, state, why in _said(HostPrivilegeConfig(), tree)
    ]
    tree[first] = 'the BMC is busy'
    ((card, _),) = cards(CARD, [tree])
    assert [{}, 'Privileged'] == [now.get('PrivilegeMode', now) for _, now, _ in card.presets]
    assert [(UNKNOWN, f'{first}: the BMC is busy')] * 2 == [
        (state, why) for _, state, why in _said(HostPrivilegeConfig(), tree)
    ]
