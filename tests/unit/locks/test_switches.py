# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How and where the locks of whole machines are read, word by word. Documents only, without HTTP."""

from typing import Any

import pytest

from baremetal_acc.errors import BmcUnsupported
from baremetal_acc.locks.ami.kcs import KcsPolicy
from baremetal_acc.locks.dell.system_lockdown import SystemLockdown
from baremetal_acc.locks.host_interface import HostInterface
from baremetal_acc.locks.hpe.virtual_nic import VirtualNic
from baremetal_acc.locks.ipmi_host_interface import IpmiHostInterface
from baremetal_acc.locks.supermicro.sys_lockdown import SysLockdown
from baremetal_acc.model.lock import LockReading, LockState, ResetKind, Scope, WritePath
from baremetal_acc.model.ref import HOST, Ref
from tests.mechanisms.switch import Switch, switches
from tests.unit.locks.documents import NOW, TOP, Tree, device, members
from tests.unit.planning import values

MANAGER = f'{TOP}/Managers/BMC'
INTERFACES = f'{MANAGER}/HostInterfaces'
KCS, LOCKDOWN = f'{MANAGER}/Oem/Supermicro/KCSInterface', f'{MANAGER}/Oem/Supermicro/SysLockdown'
DELL = f'{MANAGER}/Oem/Dell/DellAttributes/BMC'
PROTOCOL = f'{MANAGER}/NetworkProtocol'
SYSTEM = f'{TOP}/Systems/1'
BIOS = f'{SYSTEM}/Bios'
SETTINGS = f'{BIOS}/Settings'

IPMI, REDFISH = frozenset({WritePath.HOST_BMC_IPMI}), frozenset({WritePath.HOST_BMC_REDFISH})
WHOLE = IPMI | REDFISH | {WritePath.BMC_NETWORK}
LOCKED, OPEN, UNKNOWN = LockState.LOCKED_REPORTED, LockState.UNLOCKED, LockState.UNKNOWN
BUSY = 'the BMC is busy'


def _link(uri: str) -> dict[str, str]:
    return {'@odata.id': uri}


def _tree(manager: Any = None, **bodies: Any) -> Tree:
    """A BMC with one Manager and one System."""
    tree = Tree('host')
    tree[TOP] = {'Managers': _link(f'{TOP}/Managers'), 'Systems': _link(f'{TOP}/Systems')}
    tree[f'{TOP}/Managers'], tree[f'{TOP}/Systems'] = members(MANAGER), members(SYSTEM)
    tree[MANAGER], tree[SYSTEM] = {} if manager is None else manager, {}
    for uri, body in bodies.items():
        tree[uri] = body
    return tree


def _interface(value: Any) -> Tree:
    tree = _tree({'HostInterfaces': _link(INTERFACES)}, **{INTERFACES: members(f'{INTERFACES}/1')})
    tree[f'{INTERFACES}/1'] = {'InterfaceEnabled': value}
    return tree


def _dell(value: Any) -> Tree:
    links = [_link(f'{DELL.removesuffix("BMC")}System.Embedded.1'), _link(f'{DELL}/')]
    manager = {'Links': {'Oem': {'Dell': {'DellAttributes': links}}}}
    return _tree(manager, **{DELL: {'Attributes': {'Lockdown.1.SystemLockdown': value}}})


def _supermicro(uri: str, name: str, value: Any) -> Tree:
    return _tree({'Oem': {'Supermicro': {uri.rpartition('/')[2]: _link(uri)}}}, **{uri: {name: value}})


def _oem(vendor: str, name: str, value: Any) -> Tree:
    return _tree({'Oem': {vendor: {name: value}}})


def _of_system(part: str, name: str, value: Any) -> Tree:
    return _tree(**{SYSTEM: {part: {name: value}}})


def _of(one: Switch) -> tuple[Any, Any, str, str, frozenset[WritePath], list[Any], list[Any], dict[str, Any]]:
    """A row of what stands in tests/mechanisms."""

    def made(value: Any) -> Tree:
        shown = dict(one.shown(MANAGER, value))
        return _tree(shown.pop(MANAGER), **shown)

    return one.kind, made, one.at(MANAGER), one.field, frozenset({one.blocks}), [*one.closed], [*one.open], {}


NIC = {'needs': ResetKind.BMC_RESET, 'reset': Ref(bmc=HOST, uri=MANAGER)}

SWITCHES: dict[str, tuple[Any, Any, str, str, frozenset[WritePath], list[Any], list[Any], dict[str, Any]]] = {
    'dell_system_lockdown': (
        SystemLockdown, _dell, DELL, 'Attributes/Lockdown.1.SystemLockdown', WHOLE, ['Enabled'], ['Disabled'], {'wraps': True},
    ),
    'supermicro_sys_lockdown': (
        SysLockdown, lambda v: _supermicro(LOCKDOWN, 'SysLockdownEnabled', v), LOCKDOWN, 'SysLockdownEnabled', WHOLE,
        [True], [False], {'wraps': True},
    ),
    'hpe_virtual_nic': (
        VirtualNic, lambda v: _oem('Hpe', 'VirtualNICEnabled', v), MANAGER, 'Oem/Hpe/VirtualNICEnabled', REDFISH,
        [False], [True], NIC,
    ),
    'ipmi_host_interface': (
        IpmiHostInterface, lambda v: _of_system('IPMIHostInterface', 'ServiceEnabled', v), SYSTEM,
        'IPMIHostInterface/ServiceEnabled', IPMI, [False], [True], {},
    ),
} | {name: _of(switch) for name, switch in switches().items()}  # fmt: skip
"""By name: kind, documents for a value, where, the field, what it blocks, closed and open values, what else a reading has."""


def _read(mechanism: Any, tree: Tree) -> tuple[LockReading, ...]:
    found: tuple[LockReading, ...] = mechanism.read(device(f'{SYSTEM}/Processors/GPU_0', bmc='host'), [tree], NOW)
    return found


def _said(mechanism: Any, tree: Tree) -> list[tuple[str, str, str | None, LockState, str | None]]:
    return [(r.ref.uri, r.field, r.value, r.state, r.reason) for r in _read(mechanism, tree)]


@pytest.mark.parametrize('name', SWITCHES)
def test_a_reading_of_a_switch_says_all_that_evidence_needs(name: str) -> None:
    """For each value that is closed, open, or neither: then it says which ones are known."""
    kind, made, uri, field, blocks, closed, opened, more = SWITCHES[name]
    known = ', '.join(str(value) for value in (*closed, *opened))
    table: list[tuple[Any, str, LockState, str | None]] = [
        *((value, _json(value), LOCKED, None) for value in closed),
        *((value, _json(value), OPEN, None) for value in opened),
        (None, 'null', UNKNOWN, f'none of the known values: {known}'),
        (1, '1', UNKNOWN, f'none of the known values: {known}'),
        ('Sometimes', '"Sometimes"', UNKNOWN, f'none of the known values: {known}'),
    ]
    for value, shown, state, reason in table:
        wanted = LockReading(
            mechanism=name,
            accelerator=values.GPU,
            blocks=blocks,
            ref=Ref(bmc=HOST, uri=uri),
            field=field,
            value=shown,
            state=state,
            at=NOW,
            session='reading-session',
            scope=Scope.BMC,
            reason=reason,
            **more,
        )
        assert (wanted,) == _read(kind(), made(value))


def _json(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower()


@pytest.mark.parametrize('name', SWITCHES)
def test_a_switch_is_written_as_the_kind_of_value_that_it_shows(name: str) -> None:
    """Where it shows none of a known kind, as the first of those that are known; where it shows none, not at all."""
    kind, made, uri, field, _, closed, opened, _ = SWITCHES[name]
    for now in (*closed, *opened, None):
        tree = made(now)
        (found,) = _read(kind(), tree)
        kind().engage(tree, found)
        kind().release(tree, found)
        words = [next((w for w in words if type(w) is type(now)), words[0]) for words in (closed, opened)]
        assert [(uri, word) for word in words] == [(at, _inner(body)) for at, body in tree.wrote]
        assert [field] * 2 == [_path(body) for _, body in tree.wrote]
        tree.wrote.clear()
        tree[uri] = {'Oem': {'Hpe': {}, 'Lenovo': {}}, 'Attributes': {}}
        for verb in (kind().engage, kind().release):
            with pytest.raises(BmcUnsupported) as refused:
                verb(tree, found)
            assert f'BMC host, {uri}: it no longer shows {field}' == str(refused.value)
        assert [] == tree.wrote


def _inner(body: Any) -> Any:
    return _inner(*body.values()) if isinstance(body, dict) else body


def _path(body: Any) -> str:
    (name,) = body
    return f'{name}/{_path(body[name])}' if isinstance(body[name], dict) else name


@pytest.mark.parametrize(
    ('name', 'uri'),
    [
        ('host_interface', f'{INTERFACES}/1'),
        ('host_interface', INTERFACES),
        ('host_interface', MANAGER),
        ('host_interface', f'{TOP}/Managers'),
        ('dell_system_lockdown', DELL),
        ('supermicro_kcs', KCS),
        ('supermicro_sys_lockdown', LOCKDOWN),
        ('hpe_kcs', PROTOCOL),
    ],
)
def test_what_cannot_be_read_is_unknown_and_says_where_and_why(name: str, uri: str) -> None:
    """It may be a lock. What is not there (404) is none."""
    kind, made, _, field, _, closed, *_ = SWITCHES[name]
    tree = made(closed[0])
    tree[uri] = BUSY
    (found,) = _read(kind(), tree)
    assert (Ref(bmc=HOST, uri=uri), field, None, UNKNOWN, BUSY) == (
        found.ref,
        found.field,
        found.value,
        found.state,
        found.reason,
    )
    tree[uri] = 500
    assert ['HTTP 500'] == [r.reason for r in _read(kind(), tree)]
    tree[uri] = 404
    assert () == _read(kind(), tree)


@pytest.mark.parametrize('name', ['dell_system_lockdown', 'supermicro_kcs', 'supermicro_sys_lockdown', 'hpe_kcs'])
def test_a_manager_that_cannot_be_read_links_no_lock_of_a_vendor_and_hides_none_of_another(name: str) -> None:
    """Nobody knows its vendor; the next Manager is asked all the same."""
    kind, made, uri, field, _, closed, *_ = SWITCHES[name]
    tree = made(closed[0])
    tree[f'{TOP}/Managers'] = members(f'{TOP}/Managers/Other', f'{TOP}/Managers/Third', MANAGER)
    tree[f'{TOP}/Managers/Other'] = BUSY
    tree[f'{TOP}/Managers/Third'] = {'NetworkProtocol': _link('/of/no/vendor')}
    assert [(uri, field, _json(closed[0]), LOCKED, None)] == _said(kind(), tree)
    assert '/of/no/vendor' not in tree.asked


@pytest.mark.parametrize('name', ['hpe_virtual_nic', 'hpe_host_authentication', 'lenovo_kcs'])
def test_a_switch_in_a_manager_is_told_of_an_unreadable_one_only_where_another_manager_has_it(name: str) -> None:
    """Every BMC has Managers: that one cannot be read says nothing of its vendor."""
    kind, made, uri, field, _, closed, *_ = SWITCHES[name]
    tree = made(closed[0])
    other = f'{TOP}/Managers/Other'
    tree[f'{TOP}/Managers'] = members(other, MANAGER)
    tree[other] = BUSY
    assert [(uri, field, _json(closed[0]), LOCKED, None), (other, field, None, UNKNOWN, BUSY)] == _said(kind(), tree)
    tree[MANAGER] = {}
    assert [] == _said(kind(), tree)


@pytest.mark.parametrize('listed', [None, 7, [7], [None], [{}], [{'@odata.id': 7}]])
def test_a_list_of_managers_that_is_none_has_none(listed: Any) -> None:
    """A BMC sends what it likes."""
    tree = _interface(False)
    tree[f'{TOP}/Managers'] = {'Members': listed}
    assert [] == _said(HostInterface(), tree)


@pytest.mark.parametrize('root', [{}, BUSY, 404, {'Managers': _link(f'{TOP}/Managers/')}])
def test_managers_are_at_the_usual_place_where_the_root_says_nothing_else(root: Any) -> None:
    """Some BMCs show a root without links until they are reset."""
    tree = _interface(False)
    tree[TOP] = root
    assert [LOCKED] == [r.state for r in _read(HostInterface(), tree)]


def test_managers_are_where_the_root_links_them() -> None:
    """What stands at the usual place is not asked then."""
    tree = _interface(False)
    tree[TOP] = {'Managers': _link('/elsewhere')}
    tree['/elsewhere'] = members(f'{TOP}/Managers/Other')
    tree[f'{TOP}/Managers/Other'] = {}
    assert [] == _said(HostInterface(), tree)
    tree['/elsewhere'] = members(f'{TOP}/Managers/Other', MANAGER)
    assert [LOCKED] == [r.state for r in _read(HostInterface(), tree)]
    assert f'{TOP}/Managers' not in tree.asked


def test_attributes_of_an_idrac_are_those_of_its_manager() -> None:
    """Those of the chassis and of its jobs are not asked; odd links hide none."""
    tree = _dell('Enabled')
    links = tree[MANAGER]['Links']['Oem']['Dell']['DellAttributes']
    links[:0] = [7, {}, _link(f'{MANAGER}/Oem/Dell/DellAttributes/Gone/BMC')]
    tree[f'{MANAGER}/Oem/Dell/DellAttributes/Gone/BMC'] = 404
    assert [LOCKED] == [r.state for r in _read(SystemLockdown(), tree)]
    assert f'{MANAGER}/Oem/Dell/DellAttributes/System.Embedded.1' not in tree.asked
    tree[MANAGER] = {'Links': {'Oem': {'Dell': {'DellAttributes': 7}}}}
    assert [] == _said(SystemLockdown(), tree)


@pytest.mark.parametrize(
    ('value', 'settings', 'state', 'in_force', 'reason'),
    [
        (False, 'Current', LOCKED, True, None),
        (False, None, LOCKED, False, None),
        (True, 'Current', OPEN, False, None),
        (True, 'SomePendingReset', OPEN, False, None),
        (
            False,
            'SomePendingReset',
            LockState.PENDING_RESET,
            False,
            'set, but the iLO reports that a setting takes effect only after its next reset',
        ),
    ],
)
def test_a_virtual_card_is_off_when_nothing_waits_for_a_reset_of_the_ilo(
    value: bool, settings: str | None, state: LockState, in_force: bool, reason: str | None
) -> None:
    """What is open is open, whatever waits."""
    tree = _tree({'Oem': {'Hpe': {'VirtualNICEnabled': value, 'ConfigurationSettings': settings}}})
    (found,) = _read(VirtualNic(), tree)
    assert (state, in_force, reason) == (found.state, found.in_force, found.reason)
    assert (ResetKind.BMC_RESET, Ref(bmc=HOST, uri=MANAGER)) == (found.needs, found.reset)


# ---- the BIOS of an AMI board ----


def _ami(now: Any, pending: Any = ..., **root: Any) -> Tree:
    tree = _tree()
    tree[TOP] |= root or {'Vendor': 'AMI'}
    tree[SYSTEM] = {'Bios': _link(BIOS)}
    tree[BIOS] = {'Attributes': {'KCSACP': now}}
    tree[SETTINGS] = {'Attributes': {} if pending is ... else {'KCSACP': pending}}
    return tree


LATER = 'takes effect with the next start of the host'
KNOWN = 'none of the known values: Deny All, Allow All'


@pytest.mark.parametrize(
    ('now', 'pending', 'value', 'state', 'reason'),
    [
        ('Deny All', ..., '"Deny All"', LOCKED, None),
        ('Deny All', 'Deny All', '"Deny All"', LOCKED, None),
        ('Allow All', ..., '"Allow All"', OPEN, None),
        ('Allow All', 'Allow All', '"Allow All"', OPEN, None),
        (
            'Allow All',
            'Deny All',
            '"Allow All, Deny All after the next start"',
            LockState.PENDING_RESET,
            f'Deny All is set and {LATER}',
        ),
        (
            'Deny All',
            'Allow All',
            '"Deny All, Allow All after the next start"',
            LockState.PARTIAL,
            f'locked now, but Allow All is set and {LATER}',
        ),
        ('Deny Some', ..., '"Deny Some"', UNKNOWN, KNOWN),
        ('Allow All', 'Deny Some', '"Allow All, Deny Some after the next start"', UNKNOWN, KNOWN),
        (None, None, 'null', UNKNOWN, KNOWN),
    ],
)
def test_a_reading_of_a_setting_of_the_bios_says_all_that_evidence_needs(
    now: Any, pending: Any, value: str, state: LockState, reason: str | None
) -> None:
    """What is in force, what is pending, and what it comes to with the next start of which System."""
    system = Ref(bmc=HOST, uri=SYSTEM)
    wanted = LockReading(
        mechanism='ami_kcs',
        accelerator=values.GPU,
        blocks=IPMI,
        ref=Ref(bmc=HOST, uri=BIOS),
        field='Attributes/KCSACP',
        value=value,
        state=state,
        at=NOW,
        session='reading-session',
        scope=Scope.BMC,
        needs=ResetKind.SYSTEM_RESET,
        reset=system,
        with_start=system if state is LockState.PENDING_RESET else None,
        in_force=state is LOCKED,
        reason=reason,
    )
    assert (wanted,) == _read(KcsPolicy(), _ami(now, pending))


def test_a_bios_of_which_a_part_cannot_be_read_is_unknown_and_says_which() -> None:
    """Settings that are not there wait for nothing."""
    tree = _ami('Deny All')
    tree[SETTINGS] = BUSY
    reason = 'what is pending could not be read: the BMC is busy'
    assert [(BIOS, 'Attributes/KCSACP', '"Deny All"', UNKNOWN, reason)] == _said(KcsPolicy(), tree)
    tree[SETTINGS] = 404
    assert [(BIOS, 'Attributes/KCSACP', '"Deny All"', LOCKED, None)] == _said(KcsPolicy(), tree)
    tree[BIOS] = BUSY
    assert [(BIOS, 'Attributes/KCSACP', None, UNKNOWN, BUSY)] == _said(KcsPolicy(), tree)
    tree[BIOS] = 404
    assert [] == _said(KcsPolicy(), tree)


@pytest.mark.parametrize(
    ('root', 'is_ami'),
    [
        ({'Vendor': 'AMI'}, True),
        ({'Vendor': 'ami, Inc.'}, True),
        ({'Vendor': 'American Megatrends International'}, True),
        ({'Vendor': 'Contoso AMI'}, False),
        ({'Vendor': 7}, False),
        ({'Oem': {'Ami': {}}}, True),
        ({'Oem': {'Ami': None}}, False),
        ({'Oem': {'Dell': {}}}, False),
    ],
)
def test_a_board_is_amis_by_its_root_or_its_system(root: Any, is_ami: bool) -> None:
    """The Bios of any other costs a request, and is not asked."""
    assert is_ami is bool(_read(KcsPolicy(), _ami('Deny All', **root)))
    tree = _ami('Deny All', Vendor='Contoso')
    tree[SYSTEM] |= root
    assert is_ami is bool(_read(KcsPolicy(), tree))
    assert is_ami is (BIOS in tree.asked)


def test_systems_without_the_setting_hide_no_other() -> None:
    """One that cannot be read, one of another vendor, one without a Bios, one whose Bios cannot be read or lacks it."""
    tree = _ami('Deny All')
    others = [f'{TOP}/Systems/{name}' for name in ('Away', 'Bare', 'Busy', 'Plain')]
    tree[f'{TOP}/Systems'] = members(*others, SYSTEM)
    tree[others[0]], tree[others[1]] = BUSY, {}
    tree[others[2]], tree[f'{others[2]}/Bios'] = {'Bios': _link(f'{others[2]}/Bios')}, BUSY
    tree[others[3]], tree[f'{others[3]}/Bios'] = {'Bios': _link(f'{others[3]}/Bios')}, {'Attributes': {}}
    assert [(f'{others[2]}/Bios', UNKNOWN), (BIOS, LOCKED)] == [(r.ref.uri, r.state) for r in _read(KcsPolicy(), tree)]
    tree[TOP] = {'Systems': _link(f'{TOP}/Systems')}
    tree[SYSTEM] |= {'Vendor': 'AMI'}
    assert [(BIOS, LOCKED)] == [(r.ref.uri, r.state) for r in _read(KcsPolicy(), tree)]


@pytest.mark.parametrize('link', [None, '/elsewhere'])
def test_a_setting_of_the_bios_is_written_where_the_bmc_says(link: str | None) -> None:
    """At the usual place where it says nothing; not at all where the Bios has no such setting any more."""
    tree = _ami('Deny All')
    if link is not None:
        tree[BIOS] |= {'@Redfish.Settings': {'SettingsObject': _link(link)}}
        tree[link] = tree[SETTINGS]
    (found,) = _read(KcsPolicy(), tree)
    KcsPolicy().engage(tree, found)
    KcsPolicy().release(tree, found)
    place = link or SETTINGS
    assert [(place, {'Attributes': {'KCSACP': word}}) for word in ('Deny All', 'Allow All')] == tree.wrote
    tree.wrote.clear()
    tree[BIOS] |= {'Attributes': {}}
    with pytest.raises(BmcUnsupported) as refused:
        KcsPolicy().engage(tree, found)
    assert f'BMC host, {BIOS}: it no longer shows KCSACP' == str(refused.value)
    assert [] == tree.wrote


def test_the_setting_of_the_bios_goes_by_two_names() -> None:
    """Each that is there is a way, and is written under its own name."""
    tree = _ami('Deny All')
    tree[BIOS]['Attributes']['KcsInterfaceDisable'] = 'Allow All'
    found = {r.field: r for r in _read(KcsPolicy(), tree)}
    assert {'Attributes/KCSACP': LOCKED, 'Attributes/KcsInterfaceDisable': OPEN} == {f: r.state for f, r in found.items()}
    KcsPolicy().engage(tree, found['Attributes/KcsInterfaceDisable'])
    assert [(SETTINGS, {'Attributes': {'KcsInterfaceDisable': 'Deny All'}})] == tree.wrote
