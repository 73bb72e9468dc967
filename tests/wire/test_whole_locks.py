# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The locks of whole machines read what a BMC says, read unknown without proof, and write where they have read."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from baremetal_acc.errors import BmcUnsupported
from baremetal_acc.locks.ami.kcs import KcsPolicy
from baremetal_acc.locks.dell.system_lockdown import SystemLockdown
from baremetal_acc.locks.host_interface import HostInterface
from baremetal_acc.locks.hpe.host_authentication import HostAuthentication
from baremetal_acc.locks.hpe.kcs import HpeKcs as HpeKcs
from baremetal_acc.locks.hpe.virtual_nic import VirtualNic
from baremetal_acc.locks.lenovo.kcs import LenovoKcs as LenovoKcs
from baremetal_acc.locks.supermicro.kcs import KcsPrivilege
from baremetal_acc.locks.supermicro.sys_lockdown import SysLockdown
from baremetal_acc.model.lock import LockReading, LockState, ResetKind, Scope

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
GPUS = '/redfish/v1/Systems/1/Processors'
SYSTEM = '/redfish/v1/Systems/1'
MANAGER = '/redfish/v1/Managers/1'
LOCKED, OPEN, UNKNOWN = LockState.LOCKED_REPORTED, LockState.UNLOCKED, LockState.UNKNOWN


def _read(bmc: Any, mechanism: Any) -> tuple[LockReading, ...]:
    with bmc.connect() as connection:
        look = connection.look(NOW)
        return tuple(r for a in look.accelerators for r in mechanism.read(a, [look.reader], NOW))


def _write(bmc: Any, mechanism: Any, verb: str, reading: LockReading) -> list[Any]:
    with bmc.connect() as connection:
        getattr(mechanism, verb)(connection.writer(), reading)
    (sent,) = bmc.body_of('PATCH')
    bmc.requests.clear()
    return [bmc.seen[-1][1], sent]


@pytest.fixture
def machine(bmc: Any) -> Any:
    """A GPU, a Manager, and nothing that locks."""
    bmc.tree[SYSTEM]['Processors'] = {'@odata.id': GPUS}
    bmc.collection(GPUS, 'GPU_0')
    bmc.put(f'{GPUS}/GPU_0', ProcessorType='GPU', Model='NVIDIA H100', SerialNumber='S1')
    bmc.collection('/redfish/v1/Managers', '1')
    bmc.put(MANAGER, ManagerType='BMC')
    return bmc


def _interface(bmc: Any, value: Any = True) -> str:
    uri = f'{MANAGER}/HostInterfaces'
    bmc.tree[MANAGER]['HostInterfaces'] = {'@odata.id': uri}
    bmc.collection(uri, '1')
    bmc.put(f'{uri}/1', InterfaceEnabled=value)
    return f'{uri}/1'


def _dell(bmc: Any, value: Any = 'Disabled') -> str:
    attributes = [f'{MANAGER}/Oem/Dell/DellAttributes/{name}' for name in ('System.Embedded.1', '1')]
    bmc.tree[MANAGER]['Links'] = {'Oem': {'Dell': {'DellAttributes': [{'@odata.id': uri} for uri in attributes]}}}
    bmc.put(attributes[1], Attributes={'Lockdown.1.SystemLockdown': value})
    return attributes[1]


def _supermicro(name: str, field: str, opened: Any) -> Callable[..., str]:
    def put(bmc: Any, value: Any = opened) -> str:
        uri = f'{MANAGER}/Oem/Supermicro/{name}'
        bmc.tree[MANAGER].setdefault('Oem', {}).setdefault('Supermicro', {})[name] = {'@odata.id': uri}
        bmc.put(uri, **{field: value})
        return uri

    return put


def _manager(vendor: str, field: str, opened: Any) -> Callable[..., str]:
    def put(bmc: Any, value: Any = opened) -> str:
        bmc.tree[MANAGER].setdefault('Oem', {}).setdefault(vendor, {})[field] = value
        return MANAGER

    return put


def _hpe_kcs(bmc: Any, value: Any = True) -> str:
    uri = f'{MANAGER}/NetworkProtocol'
    bmc.tree[MANAGER] |= {'Oem': {'Hpe': {}}, 'NetworkProtocol': {'@odata.id': uri}}
    bmc.put(uri, Oem={'Hpe': {'KcsEnabled': value}})
    return uri


TABLE: dict[str, tuple[Any, Callable[..., str], Any, Any, Any]] = {
    'host_interface': (HostInterface, _interface, False, True, {'InterfaceEnabled': False}),
    'dell': (SystemLockdown, _dell, 'Enabled', 'Disabled', {'Attributes': {'Lockdown.1.SystemLockdown': 'Enabled'}}),
    'supermicro_kcs': (
        KcsPrivilege, _supermicro('KCSInterface', 'Privilege', 'Administrator'), 'Callback', 'Administrator',
        {'Privilege': 'Callback'},
    ),
    'supermicro_lockdown': (
        SysLockdown, _supermicro('SysLockdown', 'SysLockdownEnabled', False), True, False, {'SysLockdownEnabled': True}
    ),
    'hpe_kcs': (HpeKcs, _hpe_kcs, False, True, {'Oem': {'Hpe': {'KcsEnabled': False}}}),
    'hpe_nic': (
        VirtualNic, _manager('Hpe', 'VirtualNICEnabled', True), False, True, {'Oem': {'Hpe': {'VirtualNICEnabled': False}}}
    ),
    'hpe_authentication': (
        HostAuthentication, _manager('Hpe', 'RequireHostAuthentication', False), True, False,
        {'Oem': {'Hpe': {'RequireHostAuthentication': True}}},
    ),
    'lenovo': (LenovoKcs, _manager('Lenovo', 'KCSEnabled', True), False, True, {'Oem': {'Lenovo': {'KCSEnabled': False}}}),
    'lenovo_text': (
        LenovoKcs, _manager('Lenovo', 'KCSEnabled', 'Enabled'), 'Disabled', 'Enabled',
        {'Oem': {'Lenovo': {'KCSEnabled': 'Disabled'}}},
    ),
}  # fmt: skip


@pytest.mark.parametrize('name', TABLE)
def test_a_switch_is_read_and_written_where_it_stands(machine: Any, name: str) -> None:
    """Closed, open, neither; closed is written as the kind of value that is there, opened as well; nothing where it is not."""
    kind, put, closed, opened, sent = TABLE[name]
    assert () == _read(machine, kind())
    uri = put(machine)
    (found,) = _read(machine, kind())
    assert (OPEN, uri, Scope.BMC, kind.about.wraps) == (found.state, found.ref.uri, found.scope, found.wraps)
    assert kind.about.blocks == found.blocks
    assert [uri, sent] == _write(machine, kind(), 'engage', found)
    put(machine, closed)
    (found,) = _read(machine, kind())
    assert LOCKED is found.state
    (*_, last) = sent
    assert [uri, _with(sent, opened)] == _write(machine, kind(), 'release', found)
    for odd in (None, 7, 'whatever', [], {}):
        put(machine, odd)
        (found,) = _read(machine, kind())
        assert UNKNOWN is found.state, odd
        assert found.reason
    assert last


def _with(body: Any, value: Any) -> Any:
    ((name, inner),) = body.items()
    return {name: _with(inner, value) if isinstance(inner, dict) else value}


@pytest.mark.parametrize('name', TABLE)
def test_a_switch_that_has_gone_is_not_written(machine: Any, name: str) -> None:
    """What is not there any more is not made up."""
    kind, put, *_ = TABLE[name]
    uri = put(machine)
    (found,) = _read(machine, kind())
    machine.put(uri)
    with machine.connect() as connection, pytest.raises(BmcUnsupported, match='no longer'):
        kind().engage(connection.writer(), found)
    assert [] == machine.body_of('PATCH')


@pytest.mark.parametrize('name', ['host_interface', 'dell', 'supermicro_kcs', 'supermicro_lockdown', 'hpe_kcs'])
def test_a_switch_that_cannot_be_read_is_unknown_and_one_that_is_gone_is_none(
    machine: Any, name: str, reply: Callable[..., Any]
) -> None:
    """A link that leads to an error may lead to a lock; a link that leads nowhere leads to none."""
    kind, put, *_ = TABLE[name]
    uri = put(machine)
    machine.replies['GET', uri] = reply(500)
    (found,) = _read(machine, kind())
    assert (UNKNOWN, uri, None) == (found.state, found.ref.uri, found.value)
    machine.replies.clear()
    del machine.tree[uri]
    assert () == _read(machine, kind())


def test_a_manager_that_cannot_be_read_may_have_a_host_interface(machine: Any, reply: Callable[..., Any]) -> None:
    """Of a vendor's switch that only stands where another Manager has one, too."""
    _manager('Hpe', 'RequireHostAuthentication', True)(machine)
    machine.collection('/redfish/v1/Managers', '1', '2')
    machine.replies['GET', '/redfish/v1/Managers/2'] = reply(500)
    assert [UNKNOWN] == [r.state for r in _read(machine, HostInterface())]
    assert [LOCKED, UNKNOWN] == [r.state for r in _read(machine, HostAuthentication())]
    assert () == _read(machine, LenovoKcs())
    machine.replies['GET', '/redfish/v1/Managers'] = reply(500)
    assert [UNKNOWN] == [r.state for r in _read(machine, HostInterface())]


def test_a_virtual_card_is_off_when_the_ilo_says_that_all_that_is_set_is_in_force(machine: Any) -> None:
    """Set and not in force is pending; where nobody says so each engagement needs a reset of the Manager."""
    oem = machine.tree[MANAGER].setdefault('Oem', {}).setdefault('Hpe', {'VirtualNICEnabled': False})
    found = {}
    for said in ('Current', 'SomePendingReset', None):
        oem['ConfigurationSettings'] = said
        (reading,) = _read(machine, VirtualNic())
        found[said] = (reading.state, reading.to_close)
        assert (ResetKind.BMC_RESET, MANAGER) == (reading.needs, reading.reset.uri)
    assert {
        'Current': (LOCKED, ResetKind.NONE),
        'SomePendingReset': (LockState.PENDING_RESET, ResetKind.BMC_RESET),
        None: (LOCKED, ResetKind.BMC_RESET),
    } == found


@pytest.mark.parametrize(
    ('now', 'pending', 'state'),
    [
        ('Deny All', None, LOCKED),
        ('Deny All', 'Deny All', LOCKED),
        ('Allow All', None, OPEN),
        ('Allow All', 'Allow All', OPEN),
        ('Allow All', 'Deny All', LockState.PENDING_RESET),
        ('Deny All', 'Allow All', LockState.PARTIAL),
        ('Deny Some', None, UNKNOWN),
        ('Allow All', 'Deny Some', UNKNOWN),
        (None, None, UNKNOWN),
    ],
)
def test_a_setting_of_the_bios_is_what_is_in_force_and_what_is_pending(
    machine: Any, now: Any, pending: Any, state: Any
) -> None:
    """Closed now, and open with the next start, is no more closed than the other way round."""
    machine.tree['/redfish/v1']['Vendor'] = 'AMI'
    bios = f'{SYSTEM}/Bios'
    machine.tree[SYSTEM]['Bios'] = {'@odata.id': bios}
    settings = {'SettingsObject': {'@odata.id': f'{bios}/SD'}}
    machine.put(bios, Attributes={'KCSACP': now}, **{'@Redfish.Settings': settings})
    machine.put(f'{bios}/SD', Attributes={} if pending is None else {'KCSACP': pending})
    (found,) = _read(machine, KcsPolicy())
    assert (state, ResetKind.SYSTEM_RESET, SYSTEM) == (found.state, found.needs, found.reset.uri)
    assert (found.with_start is not None) is (state is LockState.PENDING_RESET)
    assert found.in_force is (state is LOCKED)
    assert [f'{bios}/SD', {'Attributes': {'KCSACP': 'Deny All'}}] == _write(machine, KcsPolicy(), 'engage', found)
    assert [f'{bios}/SD', {'Attributes': {'KCSACP': 'Allow All'}}] == _write(machine, KcsPolicy(), 'release', found)


def test_the_bios_of_another_vendor_is_not_asked(machine: Any, reply: Callable[..., Any]) -> None:
    """It costs two requests, and there is nothing in it; of this vendor one that cannot be read is unknown."""
    bios = f'{SYSTEM}/Bios'
    machine.tree[SYSTEM]['Bios'] = {'@odata.id': bios}
    machine.put(bios, Attributes={'KCSACP': 'Deny All'})
    assert () == _read(machine, KcsPolicy())
    assert 0 == machine.count('GET', bios)
    machine.tree[SYSTEM]['Oem'] = {'Ami': {}}
    machine.replies['GET', f'{bios}/Settings'] = reply(500)
    assert [UNKNOWN] == [r.state for r in _read(machine, KcsPolicy())]
    machine.replies['GET', bios] = reply(500)
    assert [UNKNOWN] == [r.state for r in _read(machine, KcsPolicy())]


@pytest.mark.parametrize(
    'odd', [None, 7, 'x', [], {}, {'@odata.id': 7}, {'@odata.id': 'https://192.0.2.9/x'}, [{'@odata.id': []}]]
)
def test_odd_links_lead_to_no_lock_and_to_no_crash(machine: Any, odd: Any) -> None:
    """Whatever a BMC puts where a link should stand."""
    machine.tree[MANAGER] |= {
        'HostInterfaces': odd,
        'NetworkProtocol': odd,
        'Links': {'Oem': {'Dell': {'DellAttributes': odd}}},
        'Oem': {'Supermicro': {'KCSInterface': odd, 'SysLockdown': odd}, 'Hpe': odd, 'Lenovo': odd},
    }
    for kind, *_ in TABLE.values():
        assert {UNKNOWN} >= {r.state for r in _read(machine, kind())}
    machine.tree['/redfish/v1']['Managers'] = odd
    for kind, *_ in TABLE.values():
        assert {UNKNOWN} >= {r.state for r in _read(machine, kind())}
