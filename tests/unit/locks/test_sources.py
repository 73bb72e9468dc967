# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How the readings of one card combine, one by one. Values and documents only, without HTTP."""

import json
from dataclasses import replace
from typing import Any

import pytest

from baremetal_acc.errors import BmcUnsupported
from baremetal_acc.locks.drive_configuration_lock import ConfigurationLock
from baremetal_acc.locks.fpga_programmable_from_host import WHOLE, ProgrammableFromHost
from baremetal_acc.locks.nvidia.bluefield import MISSING, Card, cards, rshim_target
from baremetal_acc.locks.nvidia.bluefield_external_host_privilege import ExternalHostPrivilege
from baremetal_acc.locks.nvidia.bluefield_host_privilege import HostPrivilege
from baremetal_acc.locks.nvidia.bluefield_host_privilege_config import HostPrivilegeConfig
from baremetal_acc.locks.nvidia.inband_update_policy import InbandUpdatePolicy
from baremetal_acc.locks.nvidia.write_protect_domain import WriteProtectDomain
from baremetal_acc.locks.write_protected import WriteProtected
from baremetal_acc.model.lock import LockReading, LockState, ResetKind, Scope
from baremetal_acc.model.ref import BmcName, Ref
from tests.unit.locks.documents import NOW, TOP, Tree, device, members
from tests.unit.planning import values

DPU = BmcName('dpu')
SYSTEM = '/redfish/v1/Systems/Bluefield'
OEM = f'{SYSTEM}/Oem/Nvidia'
ADAPTERS = '/redfish/v1/Chassis/Card1/NetworkAdapters'
CONFIG = f'{ADAPTERS}/A/Oem/Nvidia/HostPrivilegeConfig'


def _card(**said: Any) -> Card:
    return Card(system=Ref(bmc=DPU, uri=SYSTEM), **said)


def _preset(mode: str, **settings: str) -> Any:
    return {'PrivilegeMode': mode, 'PrivilegeSettings': settings}


# ---- what a card says ----


@pytest.mark.parametrize(
    ('said', 'is_open'),
    [
        ({}, False),
        ({'level': 'Privileged'}, True),
        ({'level': 'Privileged', 'pending': 'Privileged'}, True),
        ({'level': 'Privileged', 'pending': 'Restricted'}, False),
        ({'level': 'Restricted'}, False),
        ({'level': ['Privileged']}, False),
    ],
)
def test_a_level_is_open_when_it_stays_so(said: dict[str, Any], is_open: bool) -> None:
    """What is about to change says nothing for the time after it."""
    assert is_open is _card(**said).level_is_open


@pytest.mark.parametrize(
    ('privileges', 'is_open'),
    [
        (MISSING, False),
        ('Enabled', False),
        ({'HostPrivFwUpdate': 'Enabled', 'HostPrivFlashAccess': 'Disabled'}, True),
        ({'HostPrivFwUpdate': 'Disabled', 'HostPrivFlashAccess': 'Enabled'}, True),
        ({'HostPrivFwUpdate': 'Default', 'HostPrivNvHost': 'Enabled'}, False),
        ({'HostPrivFwUpdate': ['Enabled']}, False),
    ],
)
def test_privileges_are_open_when_one_to_write_firmware_is_given(privileges: Any, is_open: bool) -> None:
    """Default leaves it to the level; others write no firmware."""
    assert is_open is _card(privileges=privileges).privileges_are_open


@pytest.mark.parametrize(
    ('presets', 'is_open'),
    [
        ((), False),
        (((_preset('Privileged'), _preset('Privileged')),), True),
        (((_preset('Privileged'), None),), True),
        (((_preset('Privileged'), _preset('Restricted')),), False),
        (((_preset('Restricted'), _preset('Privileged')),), False),
        (((_preset('Custom'), _preset('Custom')),), False),
        (((_preset('Custom', FirmwareUpdate='Enabled'), None),), True),
        (((_preset('Custom', FlashAccess='Enabled'), None),), True),
        (((_preset('Custom', FlashAccess='Disabled'), None),), False),
        (((_preset('Restricted'), None), (_preset('Privileged'), None)), True),
    ],
)
def test_a_preset_is_open_when_that_of_one_adapter_is(presets: Any, is_open: bool) -> None:
    """By its mode or by a single setting to write firmware."""
    shown = [(Ref(bmc=DPU, uri=CONFIG), now, set_) for now, set_ in presets]
    assert is_open is _card(presets=shown).preset_is_open


def test_a_contradiction_names_the_place_and_one_that_was_not_read_is_told_of() -> None:
    """Never the place itself, however open it is."""
    card = _card(level='Privileged', privileges={'HostPrivFwUpdate': 'Enabled'}, unreadable={'preset': 'it is away'})
    assert 'the level of this card' in str(card.contradicts('privileges'))
    assert 'the privileges of this card' in str(card.contradicts('level'))
    quiet = _card(unreadable={'preset': 'it is away', 'level': 'so is this'})
    assert 'could not be read: it is away' in str(quiet.contradicts('level'))
    assert 'could not be read: so is this' in str(quiet.contradicts('preset'))
    assert None is _card(level='Privileged').contradicts('level')
    assert 'it is away; so is this' == quiet.why_not('preset', 'privileges', 'level')


@pytest.mark.parametrize(
    ('closed', 'rshim', 'state', 'reason'),
    [
        (True, 'Disabled', LockState.LOCKED_REPORTED, None),
        (True, 'Enabled', LockState.PARTIAL, 'HostRshim is open or not shown'),
        (True, MISSING, LockState.PARTIAL, 'HostRshim is open or not shown'),
        (True, 'Sometimes', LockState.UNKNOWN, 'unknown value: {"HostRshim": "Sometimes"}'),
        (False, None, LockState.UNKNOWN, 'unknown value: {"HostRshim": null}'),
        (False, 'Disabled', LockState.PARTIAL, 'only HostRshim is closed'),
        (False, 'Enabled', LockState.UNLOCKED, None),
        (False, MISSING, LockState.UNLOCKED, None),
    ],
)
def test_the_console_port_is_a_way_of_its_own(closed: bool, rshim: Any, state: LockState, reason: str | None) -> None:
    """Beside a closed interface, and beside an open one."""
    assert (state, reason) == _card(rshim=rshim).with_rshim(closed=closed)


# ---- where a card says it ----


def _tree(**more: Any) -> Tree:
    tree = Tree()
    tree[SYSTEM] = {'Bios': {'@odata.id': f'{SYSTEM}/Bios'}, 'Oem': {'Nvidia': {'@odata.id': OEM}}}
    tree[f'{SYSTEM}/Bios'] = {'Attributes': {'HostPrivilegeLevel': 'Restricted'}}
    tree[f'{SYSTEM}/Bios/Settings'] = {'Attributes': {}}
    tree[OEM] = {'HostRshim': 'Disabled', **more}
    for name in ('A', 'B'):
        tree[f'{ADAPTERS}/{name}'] = {'Oem': {'Nvidia': {'HostPrivilegeConfig': {'@odata.id': f'{CONFIG}/'}}}}
    tree[CONFIG] = {'PrivilegeMode': 'Restricted'}
    tree[f'{CONFIG}/Settings'] = {'PrivilegeMode': 'Restricted'}
    return tree


CARD = device(f'{ADAPTERS}/A', f'{ADAPTERS}/B', '/redfish/v1/Chassis/Card1', SYSTEM)


def test_an_adapter_that_is_linked_twice_has_one_preset() -> None:
    """Two Chassis of a BlueField-3 show one adapter; its Settings are found without a link, too."""
    tree = _tree()
    ((card, reader),) = cards(CARD, [tree])
    assert reader is tree
    assert ['Restricted', 'Restricted'] == [b['PrivilegeMode'] for _, now, set_ in card.presets for b in (now, set_ or {})]
    assert 1 == len(card.presets)
    assert (1, {}) == (tree.asked.count(CONFIG), card.unreadable)


def test_adapters_without_a_preset_and_of_other_bmcs_are_passed_over() -> None:
    """The next one may have it; a reader is never asked for what another BMC has."""
    tree, other = _tree(), Tree('host')
    tree[f'{ADAPTERS}/A'] = {}
    refs = (Ref(bmc=BmcName('host'), uri=f'{ADAPTERS}/C'), *CARD.refs)
    ((card, _),) = cards(replace(CARD, refs=refs), [tree, other])
    assert [CONFIG] == [ref.uri for ref, _, _ in card.presets]
    assert [] == other.asked
    assert f'{ADAPTERS}/C' not in tree.asked


@pytest.mark.parametrize('gone', [f'{ADAPTERS}/A', CONFIG, f'{CONFIG}/Settings'])
def test_a_preset_that_cannot_be_read_is_known_to_be_unread(gone: str) -> None:
    """By its place, with the resource and the reason; what can be read is, all the same."""
    tree = _tree()
    tree[gone] = 'the BMC is busy'
    ((card, _),) = cards(CARD, [tree])
    assert {'preset': f'{gone}: the BMC is busy'} == {
        k: v.replace(f'{CONFIG}/:', f'{CONFIG}:') for k, v in card.unreadable.items()
    }
    assert [(CONFIG, DPU)] == [(ref.uri, ref.bmc) for ref, _, _ in card.presets]
    assert {LockState.UNKNOWN} == {r.state for r in HostPrivilegeConfig().read(CARD, [tree], NOW)}
    assert {LockState.UNKNOWN} == {r.state for r in HostPrivilege().read(CARD, [tree], NOW)}


def test_what_is_set_is_read_and_written_where_the_bmc_says() -> None:
    """SettingsObject leads elsewhere on some BMCs; what stands at the usual place is not asked."""
    tree = _tree(Actions={'#HostRshim.Set': {'target': '/there'}})
    tree[CONFIG] = {'PrivilegeMode': 'Restricted', '@Redfish.Settings': {'SettingsObject': {'@odata.id': '/elsewhere'}}}
    tree['/elsewhere'] = {'PrivilegeMode': 'Privileged'}
    (found,) = HostPrivilegeConfig().read(CARD, [tree], NOW)
    assert (LockState.PENDING_RESET, 'Restricted now, Privileged after the next reset of the card') == (
        found.state,
        found.reason,
    )
    HostPrivilegeConfig().engage(tree, found)
    assert [('/elsewhere', {'PrivilegeMode': 'Restricted'}), ('/there', {'HostRshim': 'Disabled'})] == tree.wrote


def test_a_system_that_cannot_be_read_is_unknown_and_says_why() -> None:
    """Also for the preset, of which the console port is a part."""
    tree = _tree()
    tree[SYSTEM] = 'the BMC is busy'
    for mechanism in (HostPrivilege(), HostPrivilegeConfig()):
        (found,) = mechanism.read(CARD, [tree], NOW)
        assert (LockState.UNKNOWN, 'the BMC is busy') == (found.state, found.reason)
    assert () == ExternalHostPrivilege().read(CARD, [tree], NOW)


def test_privileges_are_read_where_the_extension_links_them() -> None:
    """Without a @odata.id of their own, as the recording has them; the place is that of the link."""
    link = f'{OEM}/Connectx/ExternalHostPrivileges'
    tree = _tree(Connectx={'ExternalHostPrivilege': {'@odata.id': f'{link}/'}})
    tree[f'{link}/'] = {'ExternalHostPrivilege': dict.fromkeys(('HostPrivFwUpdate', 'HostPrivFlashAccess'), 'Disabled')}
    (found,) = ExternalHostPrivilege().read(CARD, [tree], NOW)
    assert (LockState.LOCKED_REPORTED, Ref(bmc=DPU, uri=link)) == (found.state, found.ref)
    assert (Ref(bmc=DPU, uri=SYSTEM), 'reading-session', NOW) == (found.reset, found.session, found.at)
    shown = '{"HostPrivFlashAccess": "Disabled", "HostPrivFwUpdate": "Disabled"}'
    assert f'{{"ExternalHostPrivilege": {shown}, "HostRshim": "Disabled"}}' == found.value


def test_an_extension_that_stands_in_the_system_itself_is_read_there() -> None:
    """Some firmware has no resource of its own for it."""
    tree = _tree()
    tree[SYSTEM] |= {'Oem': {'Nvidia': {'HostRshim': 'Enabled', '@odata.id': OEM}}}
    ((card, _),) = cards(CARD, [tree])
    assert ('Enabled', 0) == (card.rshim, tree.asked.count(OEM))


def test_where_the_console_port_is_set() -> None:
    """Nowhere on a card that shows none; one that is shown and cannot be set is refused."""
    tree, system = _tree(), Ref(bmc=DPU, uri=SYSTEM)
    with pytest.raises(BmcUnsupported, match=r'BMC dpu, .*/Bluefield: it offers no action #HostRshim\.Set'):
        rshim_target(tree, system)
    tree[OEM] |= {'Actions': {'#HostRshim.Set': {'target': '/there'}}}
    assert '/there' == rshim_target(tree, system)
    tree[OEM] = {}
    assert None is rshim_target(tree, system)
    tree[SYSTEM] = {}
    assert None is rshim_target(tree, system)


# ---- domains ----

BOARD = f'{TOP}/Chassis/Board'
DOMAINS = f'{BOARD}/Oem/Nvidia/WriteProtectDomains'
GPU_0 = f'{TOP}/Systems/HGX/Processors/GPU_0'
ITEM = f'{TOP}/UpdateService/FirmwareInventory/GPU_0'


def _board(*domains: dict[str, Any]) -> Tree:
    tree = Tree('host')
    tree[TOP] = {'Chassis': {'@odata.id': f'{TOP}/Chassis'}}
    tree[f'{TOP}/Chassis'] = members(BOARD)
    tree[BOARD] = {'Oem': {'Nvidia': {'WriteProtectDomains': {'@odata.id': DOMAINS}}}}
    tree[DOMAINS] = members(*(f'{DOMAINS}/{n}' for n in range(len(domains))))
    for number, body in enumerate(domains):
        tree[f'{DOMAINS}/{number}'] = body
    for name in ('GPU_0', 'GPU_0b'):
        tree[f'{TOP}/UpdateService/FirmwareInventory/{name}'] = {'WriteProtected': True}
    return tree


def _domain(value: object = True, *affected: str) -> dict[str, Any]:
    return {'WriteProtected': value, 'AffectedComponents': [{'@odata.id': uri} for uri in affected]}


def _domains(tree: Tree, *items: str) -> tuple[LockReading, ...]:
    return WriteProtectDomain().read(device(GPU_0, bmc='host', items=items or (ITEM,)), [tree], NOW)


def test_several_items_that_follow_a_domain_are_several_places() -> None:
    """A place is engaged for one part; where a domain names one of them, only that one follows it."""
    found = _domains(_board(_domain(True, GPU_0)), ITEM, f'{ITEM}b')
    assert [('GPU_0', 'WriteProtected/GPU_0'), ('GPU_0b', 'WriteProtected/GPU_0b')] == [(r.part, r.field) for r in found]
    assert {LockState.LOCKED_REPORTED} == {r.state for r in found}
    (found_one,) = _domains(_board(_domain(True, GPU_0, f'{ITEM}/')), ITEM, f'{ITEM}b')
    assert ('GPU_0', 'WriteProtected', 'true') == (found_one.part, found_one.field, found_one.value)
    assert ('reading-session', NOW, None) == (found_one.session, found_one.at, found_one.reason)


def test_a_domain_or_a_chassis_that_cannot_be_read_hides_no_other() -> None:
    """Whom it protects is not known, so it protects nobody."""
    tree = _board(_domain(True, GPU_0), _domain(True, GPU_0))
    tree[f'{DOMAINS}/0'] = 'the BMC is busy'
    tree[f'{TOP}/Chassis'] = members(f'{TOP}/Chassis/Other', BOARD)
    assert [f'{DOMAINS}/1'] == [r.ref.uri for r in _domains(tree)]


@pytest.mark.parametrize('members', [None, {}, 7, [7], [{}], [{'@odata.id': 7}]])
def test_lists_that_are_none_have_no_domains(members: Any) -> None:
    """A BMC sends what it likes."""
    tree = _board(_domain(True, GPU_0))
    tree[DOMAINS] = {'Members': members}
    assert () == _domains(tree)
    strange = _board({'WriteProtected': True, 'AffectedComponents': members})
    assert () == _domains(strange)


def test_a_domain_that_no_longer_shows_the_property_is_not_written() -> None:
    """It is another resource now."""
    tree = _board(_domain(True, GPU_0))
    (found,) = _domains(tree)
    tree[f'{DOMAINS}/0'] = {}
    with pytest.raises(BmcUnsupported, match=r'BMC host, .*/WriteProtectDomains/0: it no longer shows WriteProtected'):
        WriteProtectDomain().release(tree, found)
    assert [] == tree.wrote


# ---- drives ----

STORAGE = f'{TOP}/Systems/1/Storage/1'
DRIVE = f'{STORAGE}/Drives/0'
CSD_ITEM = f'{TOP}/UpdateService/FirmwareInventory/CSD'
COMMANDS = dict.fromkeys(('FirmwareCommit', 'FirmwareImageDownload', 'Lockdown'), 'Locked')


def _drive(**more: Any) -> dict[str, Any]:
    return {'ConfigurationLock': 'Enabled', 'NVMe': {'ConfigurationLockState': COMMANDS}, **more}


def _locked(tree: Tree, *uris: str, items: tuple[str, ...] = (CSD_ITEM,)) -> tuple[LockReading, ...]:
    return ConfigurationLock().read(device(*uris, bmc='host', items=items), [tree], NOW)


def _csd(*related: str) -> Tree:
    tree = Tree('host')
    tree[DRIVE] = _drive()
    tree[STORAGE] = {}
    tree[CSD_ITEM] = {'RelatedItem': [{'@odata.id': uri} for uri in related or (DRIVE,)]}
    return tree


@pytest.mark.parametrize('related', [DRIVE, f'{DRIVE}/', STORAGE, f'{DRIVE}#/Firmware'])
def test_an_item_is_the_drives_by_its_drive_or_its_storage(related: str) -> None:
    """However the link is written."""
    (found,) = _locked(_csd(related), DRIVE)
    assert (LockState.LOCKED_REPORTED, 'CSD', DRIVE, 'reading-session') == (
        found.state,
        found.part,
        found.ref.uri,
        found.session,
    )


def test_a_drive_outside_of_a_storage_has_a_lock_too() -> None:
    """Chassis have Drives, and no Storage."""
    tree, place = _csd(f'{TOP}/Chassis/1/Drives/0'), f'{TOP}/Chassis/1/Drives/0'
    tree[place] = _drive()
    (found,) = _locked(tree, place)
    assert (LockState.LOCKED_REPORTED, place) == (found.state, found.ref.uri)


def test_a_controller_leads_to_the_lock_of_its_storage() -> None:
    """Only by its Storage: a controller has no such property."""
    tree, controller = _csd(STORAGE), f'{STORAGE}/Controllers/0'
    tree[STORAGE] = {'ConfigurationLock': 'Enabled', 'NVMeSubsystemProperties': {'ConfigurationLockState': COMMANDS}}
    (found,) = _locked(tree, controller)
    assert (LockState.LOCKED_REPORTED, STORAGE) == (found.state, found.ref.uri)
    assert controller not in tree.asked


def test_two_items_of_a_drive_are_two_places_and_an_unreadable_drive_has_no_value() -> None:
    """Each is engaged for itself."""
    tree = _csd()
    tree[f'{CSD_ITEM}2'] = {'RelatedItem': [{'@odata.id': STORAGE}, {'@odata.id': DRIVE}, 7]}
    found = _locked(tree, DRIVE, items=(CSD_ITEM, f'{CSD_ITEM}2'))
    assert {('CSD', 'ConfigurationLock/CSD'), ('CSD2', 'ConfigurationLock/CSD2')} == {(r.part, r.field) for r in found}
    tree[DRIVE] = 'the BMC is busy'
    found = _locked(tree, DRIVE)
    assert [(LockState.UNKNOWN, 'the BMC is busy', None)] == [(r.state, r.reason, r.value) for r in found]


def test_the_value_is_all_that_a_drive_says_of_its_lock() -> None:
    """For the evidence: the lock, the level and the commands by which firmware is written."""
    tree = _csd()
    tree[DRIVE] = _drive(TargetConfigurationLockLevel='Baseline', SerialNumber='S1')
    (found,) = _locked(tree, DRIVE)
    assert (
        '{"ConfigurationLock": "Enabled", "FirmwareCommit": "Locked", "FirmwareImageDownload": "Locked", "Lockdown": "Locked", '
        '"TargetConfigurationLockLevel": "Baseline"}'
    ) == found.value


@pytest.mark.parametrize(
    ('changed', 'reason'),
    [
        ({'ConfigurationLock': 'Disabled'}, 'Disabled, and FirmwareCommit is Locked'),
        ({'ConfigurationLock': 7}, 'unknown value: 7'),
        ({'ConfigurationLock': 'Partial'}, 'some of its commands are not locked'),
        ({'TargetConfigurationLockLevel': 'High'}, 'unknown level of the lock: "High"'),
        ({'NVMe': {}}, 'it does not show whether FirmwareCommit, FirmwareImageDownload, Lockdown is locked'),
        (
            {'FirmwareCommit': 'Unlocked', 'FirmwareImageDownload': 'Unlocked'},
            'Enabled, and FirmwareCommit, FirmwareImageDownload is Unlocked',
        ),
        (
            {'FirmwareCommit': 'Open'},
            'unknown state: {"FirmwareCommit": "Open", "FirmwareImageDownload": "Locked", "Lockdown": "Locked"}',
        ),
        (
            {'FirmwareCommit': 'LockdownUnsupported', 'Lockdown': 'Unlocked'},
            'the host may still send FirmwareCommit, Lockdown: '
            '{"FirmwareCommit": "LockdownUnsupported", "Lockdown": "Unlocked"}',
        ),
    ],
)
def test_a_drive_says_why_its_lock_is_none(changed: dict[str, Any], reason: str) -> None:
    """Which command, and what of it: an operator has to know what to ask the maker."""
    tree = _csd()
    body = _drive()
    states = {name: state for name, state in changed.items() if name in COMMANDS}
    tree[DRIVE] = (
        body | {'NVMe': {'ConfigurationLockState': COMMANDS | states}} | {n: v for n, v in changed.items() if n not in states}
    )
    (found,) = _locked(tree, DRIVE)
    assert reason == found.reason


def test_a_drive_that_no_longer_shows_the_lock_is_not_written() -> None:
    """It is another drive now."""
    tree = _csd()
    (found,) = _locked(tree, DRIVE)
    tree[DRIVE] = {}
    with pytest.raises(BmcUnsupported, match=r'BMC host, .*/Drives/0: it no longer shows ConfigurationLock'):
        ConfigurationLock().engage(tree, found)
    assert [] == tree.wrote


# ---- second sources of a root of trust ----

EROT = f'{TOP}/Chassis/ERoT_GPU_0'
PARTS = f'{EROT}/Oem/NvidiaRoT/RoTProtectedComponents'


def _root(parts: Any, *, under: str = 'Nvidia') -> Tree:
    tree = Tree('host')
    tree[TOP] = {'Chassis': {'@odata.id': f'{TOP}/Chassis'}}
    tree[f'{TOP}/Chassis'] = members(EROT)
    oem: dict[str, Any] = {'Nvidia': {'InbandUpdatePolicyEnabled': False}}
    oem.setdefault(under, {})['RoTProtectedComponents'] = {'@odata.id': PARTS}
    protected = {'Nvidia': {'ComponentsProtected': [{'@odata.id': GPU_0}]}}
    tree[EROT] = {'Status': {'State': 'Enabled', 'Health': 'OK'}, 'Oem': oem, 'Links': {'Oem': protected}}
    tree[PARTS] = parts
    tree[f'{PARTS}/AP'] = {'InbandUpdatePolicyEnabled': False}
    return tree


def _policy(tree: Tree) -> LockReading:
    (found,) = InbandUpdatePolicy().read(device(GPU_0, bmc='host'), [tree], NOW)
    return found


@pytest.mark.parametrize('under', ['Nvidia', 'NvidiaRoT'])
def test_components_are_found_under_either_name(under: str) -> None:
    """bmcweb has the link under Nvidia, and the resources under NvidiaRoT."""
    assert LockState.LOCKED_REPORTED is _policy(_root(members(f'{PARTS}/AP'), under=under)).state


@pytest.mark.parametrize(
    ('parts', 'words'),
    [
        ({}, 'is no list of up to 16 members'),
        ({'Members': None}, 'is no list of up to 16 members'),
        (members(*[f'{PARTS}/AP'] * 17), 'is no list of up to 16 members'),
        ({'Members': [7]}, 'has a member without a link'),
        ({'Members': [{'@odata.id': 7}]}, 'has a member without a link'),
        ('the BMC is busy', 'a second source for it could not be read: the BMC is busy'),
        (members(f'{PARTS}/gone'), 'a second source for it could not be read: it is not there'),
    ],
)
def test_components_that_are_none_prove_nothing(parts: Any, words: str) -> None:
    """They may have said otherwise."""
    found = _policy(_root(parts))
    assert (LockState.UNKNOWN, True) == (found.state, words in str(found.reason))


def test_sixteen_components_are_asked() -> None:
    """As many as there can be, and each."""
    assert LockState.LOCKED_REPORTED is _policy(_root(members(*[f'{PARTS}/AP'] * 16))).state


@pytest.mark.parametrize(
    ('status', 'signs', 'words'),
    [
        ({'State': 'Enabled', 'Health': 'OK'}, {}, 'AutomaticBackgroundCopyEnabled, BackgroundCopyStatus'),
        ({'State': 'Enabled'}, {'BackgroundCopyStatus': ''}, 'BackgroundCopyStatus, Status.Health OK'),
        ({'State': 'Disabled', 'Health': 'OK'}, {'BackgroundCopyStatus': 'Completed'}, 'Status.State Enabled'),
    ],
)
def test_a_root_of_trust_without_a_second_source_says_which_sign_is_missing(status: Any, signs: Any, words: str) -> None:
    """Of those that it was asked at all."""
    tree = _root({})
    oem = {'InbandUpdatePolicyEnabled': False, **({'AutomaticBackgroundCopyEnabled': True} if signs else {}), **signs}
    tree[EROT] = tree[EROT] | {'Status': status, 'Oem': {'Nvidia': oem}}
    found = _policy(tree)
    assert (LockState.UNKNOWN, True) == (found.state, str(found.reason).endswith(f': {words}'))


def _protects_manager(image: object, *items: str) -> tuple[LockReading, ...]:
    """A root of trust that says it protects the card's BMC, whose Manager runs that image."""
    manager = f'{TOP}/Managers/Card_BMC'
    tree = _root({})
    oem = {'InbandUpdatePolicyEnabled': True}
    protected = {'Nvidia': {'ComponentsProtected': [{'@odata.id': manager}]}}
    tree[EROT] = tree[EROT] | {'Oem': {'Nvidia': oem}, 'Links': {'Oem': protected}}
    tree[manager] = {'Links': {'ActiveSoftwareImage': {'@odata.id': image}}}
    return InbandUpdatePolicy().read(device(GPU_0, manager, bmc='host', items=items), [tree], NOW)


def test_a_root_of_trust_of_a_cards_bmc_protects_the_image_of_that_bmc_alone() -> None:
    """As on a BlueField-3: Manager, its active image, the item of the card."""
    (found,) = _protects_manager(f'{ITEM}/', f'{ITEM}b', ITEM)
    assert (LockState.UNLOCKED, Scope.COMPONENT, 'GPU_0') == (found.state, found.scope, found.part)
    assert () == _protects_manager(f'{ITEM}c', ITEM)
    assert () == _protects_manager(7, ITEM)


def test_two_roots_of_trust_of_a_device_are_two_ways_to_it() -> None:
    """The one that is open leaves the other one partial, and is named there."""
    tree, other = _root(members(f'{PARTS}/AP')), f'{TOP}/Chassis/IRoT_GPU_0'
    tree[f'{TOP}/Chassis'] = members(other, EROT)
    tree[other] = tree[EROT] | {'Oem': {'Nvidia': {'InbandUpdatePolicyEnabled': True}}}
    found = InbandUpdatePolicy().read(device(GPU_0, bmc='host'), [tree], NOW)
    states = {r.ref.uri: (r.state, r.reason) for r in found}
    assert {
        other: (LockState.UNLOCKED, None),
        EROT: (LockState.PARTIAL, f'{other} also protects it, and is unlocked'),
    } == states


def test_a_root_of_trust_that_is_found_by_its_name_proves_nothing_and_another_devices_is_not_ours() -> None:
    """Its name says which device it may be for; that it is closed needs the BMC's word."""
    tree = _root(members(f'{PARTS}/AP'))
    tree[EROT] = {name: value for name, value in tree[EROT].items() if name != 'Links'}
    assert LockState.UNKNOWN is _policy(tree).state
    assert () == InbandUpdatePolicy().read(device(f'{GPU_0}1', bmc='host'), [tree], NOW)
    tree[TOP] = {}
    assert [f'{TOP}/Chassis'] == [uri for uri in tree.asked if uri == f'{TOP}/Chassis'][:1]
    assert LockState.UNKNOWN is InbandUpdatePolicy().read(device(GPU_0, bmc='host'), [tree], NOW)[0].state


def test_a_root_of_trust_that_no_longer_shows_the_policy_is_not_written() -> None:
    """It is another chassis now."""
    tree = _root(members(f'{PARTS}/AP'))
    found = _policy(tree)
    tree[EROT] = {}
    with pytest.raises(BmcUnsupported, match=r'BMC host, .*/ERoT_GPU_0: it no longer shows InbandUpdatePolicyEnabled'):
        InbandUpdatePolicy().engage(tree, found)
    assert [] == tree.wrote


# ---- whole readings, and what is refused untouched ----

LINK = f'{OEM}/Connectx/ExternalHostPrivileges'


def _closed() -> Tree:
    """A card that is closed in all three places, and whose settings can be written."""
    actions = {'#HostRshim.Set': {'target': '/rshim'}}
    tree = _tree(Connectx={'ExternalHostPrivilege': {'@odata.id': LINK}}, Actions=actions)
    privileges = dict.fromkeys(('HostPrivFwUpdate', 'HostPrivFlashAccess'), 'Disabled')
    tree[LINK] = {'ExternalHostPrivilege': privileges, 'Actions': {'#ExternalHostPrivileges.Set': {'target': '/privileges'}}}
    return tree


@pytest.mark.parametrize(
    ('mechanism', 'uri', 'field', 'value'),
    [
        (
            HostPrivilege(),
            SYSTEM,
            'Bios/HostPrivilegeLevel+HostRshim',
            {'HostPrivilegeLevel': 'Restricted', 'HostRshim': 'Disabled'},
        ),
        (
            ExternalHostPrivilege(),
            LINK,
            'ExternalHostPrivilege+HostRshim',
            {
                'ExternalHostPrivilege': {'HostPrivFlashAccess': 'Disabled', 'HostPrivFwUpdate': 'Disabled'},
                'HostRshim': 'Disabled',
            },
        ),
        (
            HostPrivilegeConfig(),
            CONFIG,
            'PrivilegeMode+HostRshim',
            {'HostRshim': 'Disabled', 'PrivilegeMode': 'Restricted', 'PrivilegeMode pending': 'Restricted'},
        ),
    ],
)
def test_a_reading_says_all_that_evidence_needs(mechanism: Any, uri: str, field: str, value: Any) -> None:
    """Mechanism, card, place, value, session, time, and the System whose power cycle it needs."""
    (found,) = mechanism.read(CARD, [_closed()], NOW)
    assert found == LockReading(
        mechanism=mechanism.name,
        accelerator=CARD.id,
        blocks=values.HOST_DEVICE,
        ref=Ref(bmc=DPU, uri=uri),
        field=field,
        value=json.dumps(value, sort_keys=True),
        state=LockState.LOCKED_REPORTED,
        at=NOW,
        session='reading-session',
        needs=ResetKind.POWER_CYCLE,
        reset=Ref(bmc=DPU, uri=SYSTEM),
    )


@pytest.mark.parametrize(
    ('mechanism', 'uri', 'body', 'words'),
    [
        (HostPrivilege(), SYSTEM, {}, r'BMC dpu, .*/Bluefield: this System has no Bios'),
        (HostPrivilege(), f'{SYSTEM}/Bios', {}, r'BMC dpu, .*/Bios: has no attribute HostPrivilegeLevel'),
        (HostPrivilege(), OEM, {}, r'BMC dpu, .*/Bluefield: it offers no action #HostRshim\.Set'),
        (
            ExternalHostPrivilege(),
            LINK,
            {},
            r'BMC dpu, .*/ExternalHostPrivileges: it offers no action #ExternalHostPrivilege\.Set',
        ),
        (
            ExternalHostPrivilege(),
            LINK,
            {'Actions': {'#ExternalHostPrivilege.Set': {'target': '/there'}}},
            r'BMC dpu, .*/ExternalHostPrivileges: it does not show HostPrivFwUpdate and HostPrivFlashAccess',
        ),
        (HostPrivilegeConfig(), CONFIG, {}, r'BMC dpu, .*/HostPrivilegeConfig: it no longer shows PrivilegeMode'),
    ],
)
def test_a_card_that_lacks_a_part_is_refused_untouched(mechanism: Any, uri: str, body: Any, words: str) -> None:
    """It says which BMC, which resource, and what of it is missing."""
    tree = _closed()
    (found,) = mechanism.read(CARD, [tree], NOW)
    tree[uri] = body
    with pytest.raises(BmcUnsupported, match=words):
        mechanism.engage(tree, found)
    assert [] == tree.wrote


@pytest.mark.parametrize(
    ('mechanism', 'place'), [(ExternalHostPrivilege(), '/privileges'), (HostPrivilegeConfig(), f'{CONFIG}/Settings')]
)
def test_a_card_without_a_console_port_is_written_without_it(mechanism: Any, place: str) -> None:
    """Of a reading that knows no System, and of a System that shows no HostRshim."""
    for without in (True, False):
        tree = _closed()
        (found,) = mechanism.read(CARD, [tree], NOW)
        if without:
            tree[OEM] = {name: value for name, value in tree[OEM].items() if name != 'HostRshim'}
        mechanism.engage(tree, found if without else replace(found, reset=None))
        assert [place] == [uri for uri, _ in tree.wrote]


@pytest.mark.parametrize(
    ('mode', 'rshim', 'state', 'reason'),
    [
        ('Custom', 'Enabled', LockState.PARTIAL, 'Custom: put together by hand'),
        ('Custom', 'Disabled', LockState.PARTIAL, 'only HostRshim is closed'),
        ('Privileged', 'Enabled', LockState.UNLOCKED, None),
        (
            7,
            'Enabled',
            LockState.UNKNOWN,
            'unknown value: {"HostRshim": "Enabled", "PrivilegeMode": 7, "PrivilegeMode pending": 7}',
        ),
    ],
)
def test_a_preset_says_why_it_is_none(mode: object, rshim: str, state: LockState, reason: str | None) -> None:
    """An operator has to know what is left to do."""
    tree = _tree()
    tree[OEM] = {'HostRshim': rshim}
    tree[CONFIG] = tree[f'{CONFIG}/Settings'] = {'PrivilegeMode': mode}
    (found,) = HostPrivilegeConfig().read(CARD, [tree], NOW)
    assert (state, reason) == (found.state, found.reason)


def test_a_level_that_cannot_be_read_is_a_reading_even_beside_a_preset() -> None:
    """It may be there."""
    tree = _tree()
    tree[f'{SYSTEM}/Bios'] = 'the BMC is busy'
    (found,) = HostPrivilege().read(CARD, [tree], NOW)
    assert (LockState.UNKNOWN, f'{SYSTEM}/Bios: the BMC is busy') == (found.state, found.reason)


# ---- the FPGA of a drive ----


@pytest.mark.parametrize('other', [f'{TOP}/Chassis/1/Drives/0', f'{STORAGE}/Controllers/0', DRIVE])
def test_the_lock_of_an_fpga_is_for_the_items_of_its_processor_where_there_is_a_drive(other: str) -> None:
    """However the BMC shows the drive; two items are two places, and an FPGA alone is protected as a whole."""
    tree = Tree('host')
    tree[GPU_0] = {'FPGA': {'ProgrammableFromHost': False}}
    items = (ITEM, f'{ITEM}b')
    for item in items:
        tree[item] = {'RelatedItem': [{'@odata.id': GPU_0}]}
    lock = ProgrammableFromHost()
    found = lock.read(device(GPU_0, other, bmc='host', items=items), [tree], NOW)
    assert [('GPU_0', f'{WHOLE}/GPU_0'), ('GPU_0b', f'{WHOLE}/GPU_0b')] == [(r.part, r.field) for r in found]
    assert {(Scope.COMPONENT, lock.name, 'reading-session')} == {(r.scope, r.mechanism, r.session) for r in found}
    lock.release(tree, found[1])
    assert [(GPU_0, {'FPGA': {'ProgrammableFromHost': True}})] == tree.wrote
    (whole,) = lock.read(device(GPU_0, bmc='host', items=items), [tree], NOW)
    assert (Scope.FIRMWARE, None, WHOLE) == (whole.scope, whole.part, whole.field)


# ---- write protection that says nothing ----

ITEMS = f'{TOP}/UpdateService/FirmwareInventory'


def _items(*bodies: Any) -> Tree:
    tree = Tree('host')
    tree[TOP] = {'UpdateService': {'@odata.id': f'{TOP}/UpdateService'}}
    tree[f'{TOP}/UpdateService'] = {'FirmwareInventory': {'@odata.id': f'{ITEMS}/'}}
    tree[ITEMS] = members(*(f'{ITEMS}/{n}' for n in range(len(bodies))))
    for number, body in enumerate(bodies):
        tree[f'{ITEMS}/{number}'] = body
    return tree


_ON = {'WriteProtected': True, 'Updateable': True}


@pytest.mark.parametrize(
    ('bodies', 'says'),
    [
        ((_ON, _ON), True),
        ((_ON, _ON, _ON), False),
        ((_ON, _ON, {'WriteProtected': False}), True),
        ((_ON, {'WriteProtected': True}, {'WriteProtected': True}), False),
        ((_ON | {'Updateable': False}, {'WriteProtected': True}, {'WriteProtected': True}), True),
        ((_ON | {'Updateable': False}, {'WriteProtected': True}, 'the BMC is busy'), False),
    ],
)
def test_write_protection_of_every_item_says_nothing(bodies: tuple[Any, ...], says: bool) -> None:
    """Where one is open, or none is called Updateable, or there are but two, it says what it says."""
    (found,) = WriteProtected().read(device(GPU_0, bmc='host', items=(f'{ITEMS}/0',)), [_items(*bodies)], NOW)
    assert (LockState.LOCKED_REPORTED if says else LockState.UNKNOWN) is found.state
    assert says is (found.reason is None)


@pytest.mark.parametrize('value', [None, 'true', 1])
def test_what_is_neither_true_nor_false_is_no_write_protection(value: object) -> None:
    """And says so."""
    (found,) = WriteProtected().read(device(GPU_0, bmc='host', items=(f'{ITEMS}/0',)), [_items({'WriteProtected': value})], NOW)
    assert (LockState.UNKNOWN, 'neither true nor false') == (found.state, found.reason)
