# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Settings of BMCs as they are read: from recordings of real BMCs, and from BMCs that answer badly."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from baremetal_acc.bmc.redfish.bmc_settings import MOST
from baremetal_acc.execution.observation import observe
from baremetal_acc.model.bmc_state import BmcSetting, BmcState
from baremetal_acc.policy.baseline_rules import Baseline, BmcDemand, BmcMatch, BmcRule
from tests.wire.recorded import NOW, target_of, tools_of

ROOT = '/redfish/v1'
ALL = frozenset(BmcSetting)
S = BmcSetting


def rules(*settings: BmcSetting) -> Baseline:
    """A baseline that names these settings."""
    named = tuple(BmcDemand(setting=one, expected=('disabled',)) for one in settings)
    return Baseline(rules=(), bmc=(BmcRule(name='b', match=BmcMatch(), demands=named),))


def state_of(bmc: Any, *settings: BmcSetting, **address: Any) -> BmcState:
    """What an inspection reads of these settings."""
    seen = observe(target_of(**address), tools_of(bmc, rules(*settings or ALL), **address), NOW, settings=True)
    state = seen.bmcs[0].state
    assert state is not None
    return state


def values(state: BmcState) -> dict[str, list[str | None]]:
    """The values by setting."""
    return {one.value: [v.value for v in state.values if v.setting is one] for one in BmcSetting if one in state.present}


RECORDED: dict[str, dict[str, Any]] = {
    'dell/r750-h100-bluefield2': {
        'firmware_version': ['6.00.30.00'],
        'ipmi_over_lan': ['enabled'],
        'host_interfaces': ['disabled'],
        'bootstrap_accounts': [None],
        'boot_override': ['None'],
        'serial_over_lan': ['disabled'],
    },
    'dmtf/rackmount': {
        'firmware_version': ['1.45.455b66-rev4'],
        'ipmi_over_lan': ['enabled'],
        'host_interfaces': ['enabled'],
        'bootstrap_accounts': ['enabled'],
        'boot_override': ['Pxe'],
        'serial_over_lan': ['enabled'],
    },
    'hpe/dl380a-gen11-2xh100nvl': {
        'firmware_version': ['iLO 6 v1.66'],
        'ipmi_over_lan': ['disabled'],
        'host_interfaces': ['disabled'],
        'bootstrap_accounts': [None],
        'boot_override': ['None'],
        'serial_over_lan': ['enabled'],
    },
    'lenovo/sr670v2-8xl40-bluefield2': {
        'firmware_version': ['TGBT42S 2.83 2023-07-05'],
        'ipmi_over_lan': ['disabled'],
        'host_interfaces': ['disabled'],
        'bootstrap_accounts': ['enabled'],
        'boot_override': ['None'],
        'serial_over_lan': ['enabled'],
    },
    'nvidia/bluefield3': {
        'firmware_version': ['BF-24.10-10'],
        'ipmi_over_lan': ['enabled'],
        'boot_override': ['None'],
        'serial_over_lan': ['enabled', 'enabled'],
    },
    'nvidia/gh200': {
        'firmware_version': ['GH200-24.05-2'],
        'ipmi_over_lan': ['enabled'],
        'host_interfaces': ['enabled'],
        'bootstrap_accounts': ['disabled'],
        'boot_override': ['Hdd'],
        'serial_over_lan': ['enabled', 'enabled'],
    },
    'supermicro/hgx-h100-8gpu': {
        'firmware_version': ['11.01.01'],
        'ipmi_over_lan': ['enabled'],
        'host_interfaces': ['enabled'],
        'bootstrap_accounts': ['enabled'],
        'boot_override': ['None'],
        'serial_over_lan': ['enabled', 'enabled'],
    },
}
"""What each recording shows. Accounts, certificates, virtual media and subscriptions were dropped from the recordings."""


@pytest.mark.parametrize('name', sorted(RECORDED))
def test_a_recorded_bmc_shows_these_settings(name: str, recording: Callable[[str], Any]) -> None:
    """Links that lead to nothing are not shown, and no error."""
    state = state_of(recording(name))
    assert RECORDED[name] == values(state)
    assert () == state.unread


@pytest.mark.parametrize('name', ['dell/r750-h100-bluefield2', 'nvidia/gh200'])
def test_a_baseline_without_such_rules_costs_no_request(name: str, recording: Callable[[str], Any]) -> None:
    """Nor does a BMC of which no rule names a setting, or an inspection that does not ask for them."""
    plain, asked, other = recording(name), recording(name), recording(name)
    observe(target_of(), tools_of(plain), NOW)
    observe(target_of(), tools_of(asked), NOW, settings=True)
    observe(target_of(), tools_of(other, rules(*ALL)), NOW)
    assert sorted(plain.seen) == sorted(asked.seen) == sorted(other.seen)


def test_only_what_a_rule_names_is_read(bmc: Any) -> None:
    """A rule for accounts asks for no Manager."""
    full(bmc)
    state_of(bmc, S.ACCOUNTS)
    read = {uri for _, uri in bmc.seen}
    assert f'{ROOT}/AccountService/Accounts/1' in read
    assert not {uri for uri in read if 'EventService' in uri or 'NetworkProtocol' in uri or 'VirtualMedia' in uri}


def full(bmc: Any) -> None:
    """A BMC that shows every setting."""
    link = lambda place: {'@odata.id': f'{ROOT}/{place}'}  # noqa: E731
    bmc.tree[ROOT] |= {
        'AccountService': link('AccountService'),
        'EventService': link('EventService'),
        'Links': {'ManagerProvidingService': link('Managers/BMC')},
    }
    bmc.put(f'{ROOT}/AccountService', Accounts=link('AccountService/Accounts'))
    bmc.collection(f'{ROOT}/AccountService/Accounts', '1', '2', '3')
    accounts = f'{ROOT}/AccountService/Accounts'
    bmc.put(f'{accounts}/1', UserName='admin', RoleId='Administrator', Enabled=True)
    bmc.put(f'{accounts}/2', UserName='', RoleId='', Enabled=False)
    bmc.put(f'{accounts}/3', UserName='unknown', RoleId='ReadOnly', HostBootstrapAccount=True)
    bmc.put(f'{ROOT}/EventService', Subscriptions=link('EventService/Subscriptions'))
    bmc.collection(f'{ROOT}/EventService/Subscriptions', '1')
    bmc.put(f'{ROOT}/EventService/Subscriptions/1', Destination='https://me:secret@[2001:db8::1]:8443/hook/token?key=secret')
    manager = f'{ROOT}/Managers/BMC'
    bmc.collection(f'{ROOT}/Managers', 'BMC')
    bmc.put(
        manager,
        FirmwareVersion='1.2',
        NetworkProtocol=link('Managers/BMC/NetworkProtocol'),
        HostInterfaces=link('Managers/BMC/HostInterfaces'),
        VirtualMedia=link('Managers/BMC/VirtualMedia'),
        SerialConsole={'ServiceEnabled': True},
    )
    bmc.put(
        f'{manager}/NetworkProtocol',
        IPMI={'ProtocolEnabled': False},
        HTTPS={'Certificates': link('Managers/BMC/NetworkProtocol/HTTPS/Certificates')},
    )
    bmc.collection(f'{manager}/NetworkProtocol/HTTPS/Certificates', '1')
    bmc.put(
        f'{manager}/NetworkProtocol/HTTPS/Certificates/1',
        Issuer={'CommonName': 'CA 1'},
        ValidNotAfter='2027-01-01T00:00:00+01:00',
    )
    bmc.collection(f'{manager}/HostInterfaces', '1')
    bmc.put(f'{manager}/HostInterfaces/1', InterfaceEnabled=False, CredentialBootstrapping={'Enabled': False})
    bmc.collection(f'{manager}/VirtualMedia', 'Cd', 'Usb')
    bmc.put(f'{manager}/VirtualMedia/Cd', Inserted=True, Image='https://me:secret@host/image')
    bmc.put(f'{manager}/VirtualMedia/Usb', Inserted=False)
    bmc.tree[f'{ROOT}/Systems/1'] |= {
        'Boot': {'BootSourceOverrideEnabled': 'Once', 'BootSourceOverrideTarget': 'Cd'},
        'SerialConsole': {'IPMI': {'ServiceEnabled': False}},
        'VirtualMedia': link('Managers/BMC/VirtualMedia'),
    }


def test_every_setting_is_read(bmc: Any) -> None:
    """And no credentials with it."""
    full(bmc)
    state = state_of(bmc, username='admin', password='pass-word')
    assert {
        'firmware_version': ['1.2'],
        'accounts': [],
        'bootstrap_accounts': ['disabled'],
        'ipmi_over_lan': ['disabled'],
        'host_interfaces': ['disabled'],
        'virtual_media': ['inserted', 'ejected'],
        'event_subscriptions': ['https://[2001:db8::1]:8443'],
        'boot_override': ['Cd'],
        'serial_over_lan': ['disabled'],
        'tls_certificate': [],
    } == values(state)
    assert [('admin', 'Administrator', True, False), ('unknown', 'ReadOnly', False, True)] == [
        (a.name, a.role, a.is_own, a.is_bootstrap) for a in state.accounts
    ]
    assert [('CA 1', datetime(2026, 12, 31, 23, tzinfo=UTC))] == [(c.issuer, c.not_after) for c in state.certificates]
    assert () == state.unread
    assert 'secret' not in repr(state)


ODD: list[tuple[str, Any, set[BmcSetting]]] = [
    ('AccountService/Accounts/1', None, {S.ACCOUNTS}),
    ('AccountService/Accounts', {'Members': {}}, {S.ACCOUNTS}),
    ('AccountService/Accounts', {'Members': [None, 4]}, {S.ACCOUNTS}),
    ('AccountService/Accounts', {'Members': [{'@odata.id': 'https://elsewhere.test/x'}]}, {S.ACCOUNTS}),
    ('AccountService/Accounts/1', {'UserName': ['admin']}, {S.ACCOUNTS}),
    ('AccountService/Accounts/1', {'UserName': 'a' * 300}, {S.ACCOUNTS}),
    ('AccountService/Accounts/1', {'UserName': 'a', 'Enabled': 'no'}, {S.ACCOUNTS}),
    ('AccountService/Accounts/1', {'UserName': 'a', 'RoleId': 7}, {S.ACCOUNTS}),
    ('AccountService', {'Accounts': 'none'}, {S.ACCOUNTS}),
    ('EventService/Subscriptions/1', {'Destination': None}, {S.EVENT_SUBSCRIPTIONS}),
    ('EventService/Subscriptions/1', {'Destination': 'https://[x'}, {S.EVENT_SUBSCRIPTIONS}),
    ('EventService/Subscriptions/1', {'Destination': 'nowhere'}, {S.EVENT_SUBSCRIPTIONS}),
    ('Managers/BMC/NetworkProtocol', {'IPMI': {'ProtocolEnabled': 'false'}}, {S.IPMI_OVER_LAN, S.TLS_CERTIFICATE}),
    ('Managers/BMC/NetworkProtocol', {'IPMI': []}, {S.IPMI_OVER_LAN, S.TLS_CERTIFICATE}),
    ('Managers/BMC/HostInterfaces/1', {'InterfaceEnabled': 0}, {S.HOST_INTERFACES, S.BOOTSTRAP_ACCOUNTS}),
    ('Managers/BMC/HostInterfaces/1', None, {S.HOST_INTERFACES, S.BOOTSTRAP_ACCOUNTS}),
    ('Managers/BMC/VirtualMedia/Cd', {'Inserted': 'yes'}, {S.VIRTUAL_MEDIA}),
    (
        'Managers/BMC/NetworkProtocol/HTTPS/Certificates/1',
        {'ValidNotAfter': 3, 'Issuer': {'CommonName': 'CA'}},
        {S.TLS_CERTIFICATE},
    ),
    ('Systems/1', {'Boot': {'BootSourceOverrideEnabled': 'Perhaps', 'BootSourceOverrideTarget': 'Cd'}}, {S.BOOT_OVERRIDE}),
    ('Systems/1', {'Boot': {'BootSourceOverrideEnabled': 'Once'}}, {S.BOOT_OVERRIDE}),
]


@pytest.mark.parametrize(('place', 'body', 'unread'), ODD)
def test_what_a_bmc_answers_badly_is_unread(bmc: Any, place: str, body: Any, unread: set[BmcSetting]) -> None:
    """A listed resource that is gone, members that are no links, and values of a wrong type; all else is read as before."""
    full(bmc)
    before = values(state_of(bmc))
    if body is None:
        del bmc.tree[f'{ROOT}/{place}']
    elif place == 'Systems/1':
        bmc.tree[f'{ROOT}/{place}'] |= body
    else:
        bmc.put(f'{ROOT}/{place}', **body)
    state = state_of(bmc)
    assert unread == {u.setting for u in state.unread}
    others = {one.value for one in BmcSetting} - {one.value for one in unread}
    assert {k: v for k, v in before.items() if k in others} == {k: v for k, v in values(state).items() if k in others}


def test_a_service_that_may_not_be_read_is_unread(bmc: Any) -> None:
    """An account without the privilege sees no accounts: that does not mean that there are none."""
    full(bmc)

    def forbidden(request: Any, context: Any) -> bytes:
        context.status_code = 403
        return b'{}'

    bmc.replies['GET', f'{ROOT}/AccountService/Accounts'] = forbidden
    state = state_of(bmc, S.ACCOUNTS)
    assert ({S.ACCOUNTS}, frozenset()) == ({u.setting for u in state.unread}, state.present)


def test_a_list_of_a_million_accounts_is_not_read(bmc: Any) -> None:
    """It ends with the limit of a collection, or of the accounts that are read; a member that is the list itself ends, too."""
    full(bmc)
    accounts = f'{ROOT}/AccountService/Accounts'
    bmc.collection(accounts, *map(str, range(5000)))
    assert {S.ACCOUNTS} == {u.setting for u in state_of(bmc, S.ACCOUNTS).unread}
    assert bmc.count('GET', f'{accounts}/4') == 0
    bmc.collection(accounts, *map(str, range(MOST + 1)))
    for n in range(MOST + 1):
        bmc.put(f'{accounts}/{n}', UserName=f'u{n}', Enabled=True)
    state = state_of(bmc, S.ACCOUNTS)
    assert (MOST, {S.ACCOUNTS}) == (len(state.accounts), {u.setting for u in state.unread})
    bmc.collection(accounts, '1')
    bmc.tree[accounts]['Members'] = [{'@odata.id': accounts}] * 3
    assert [''] == [a.name for a in state_of(bmc, S.ACCOUNTS).accounts]


def test_a_bmc_without_a_system_of_its_own_says_so(bmc: Any) -> None:
    """Which System a boot override would be of is unknown."""
    full(bmc)
    bmc.collection(f'{ROOT}/Systems', '1', '2')
    for name in ('1', '2'):
        bmc.put(
            f'{ROOT}/Systems/{name}', SystemType='Physical', Actions={'#ComputerSystem.Reset': {'target': f'{ROOT}/r{name}'}}
        )
    assert {S.BOOT_OVERRIDE} == {u.setting for u in state_of(bmc, S.BOOT_OVERRIDE).unread}
