# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The emulator is a Redfish service: sessions, roles, ETags, queries, errors, TLS."""

import os
import stat
import threading

import pytest
import requests

from baremetal_acc.emulator.access import CurrentUser
from tests import collected

ROOT = '/redfish/v1'
HOST = f'{ROOT}/Systems/System_0'
SESSIONS = f'{ROOT}/SessionService/Sessions'
EROT = f'{ROOT}/Chassis/HGX_ERoT_GPU_0'
ITEM = f'{ROOT}/UpdateService/FirmwareInventory/HGX_FW_GPU_0'
USERS = {
    'host': (
        CurrentUser(name='root', password='root-password'),
        CurrentUser(name='oper', password='oper-password', role='Operator'),
        CurrentUser(name='reader', password='reader-password', role='ReadOnly'),
    )
}


def test_the_root_is_open_and_everything_else_needs_a_login(fast, client):
    """401 with a challenge; a wrong password, an unknown user and a made-up token too."""
    machine = fast('gpu-server')
    bmc = client(machine.bmcs['host'])
    bmc.http.auth = None
    for path in ('/redfish', ROOT, f'{ROOT}/', f'{ROOT}/odata', f'{ROOT}/$metadata'):
        assert 200 == bmc.call('GET', path).status_code, path
    answer = bmc.call('GET', HOST)
    assert (401, True) == (answer.status_code, 'WWW-Authenticate' in answer.headers)
    assert 401 == bmc.call('GET', HOST, headers={'X-Auth-Token': 'x'}).status_code
    for auth in ((machine.bmcs['host'].username, 'wrong'), ('nobody', 'wrong')):
        assert 401 == bmc.call('GET', HOST, auth=auth).status_code
    # Nothing of that was a write, so the log of writes is empty.
    assert [] == machine.log()


def test_a_session_lets_in_until_it_is_deleted_or_the_bmc_restarts(fast, client, wait):
    """POST gives X-Auth-Token and Location; a restart of the BMC forgets it."""
    machine = fast('gpu-server', bmc_reset_seconds=0.1)
    bmc = client(machine.bmcs['host'])
    account = {'UserName': machine.bmcs['host'].username, 'Password': machine.bmcs['host'].password}
    bmc.http.auth = None
    assert 401 == bmc.post(SESSIONS, account | {'Password': 'wrong-password'}).status_code
    assert 400 == bmc.post(SESSIONS, {'UserName': 'x'}).status_code

    def log_in():
        answer = bmc.post(SESSIONS, account)
        assert 201 == answer.status_code
        return {'X-Auth-Token': answer.headers['X-Auth-Token']}, answer.headers['Location']

    token, session = log_in()
    assert account['UserName'] == bmc.get(session, headers=token)['UserName']
    assert 204 == bmc.call('DELETE', session, headers=token).status_code
    assert 401 == bmc.call('GET', HOST, headers=token).status_code
    token, _ = log_in()
    assert 204 == bmc.post(f'{ROOT}/Managers/BMC_0/Actions/Manager.Reset', {}, headers=token).status_code

    def answers():
        try:
            return bmc.call('GET', ROOT).status_code == 200
        except requests.ConnectionError:
            return False

    assert not answers()
    wait(answers)
    assert 401 == bmc.call('GET', HOST, headers=token).status_code
    assert ['Manager.Reset'] == [entry['path'].rsplit('/', 1)[-1] for entry in machine.log()]
    shown = machine.log(sessions=True)
    assert account['Password'] not in str(shown)
    assert '******' == shown[0]['body']['Password']


def test_roles_may_what_the_standard_gives_them(fast, client, gpu_image):
    """An Operator locks a card and resets the host, but writes no firmware; a ReadOnly only reads; 403 says so."""
    machine = fast('gpu-server', users=USERS)
    lock = {'Oem': {'Nvidia': {'InbandUpdatePolicyEnabled': False}}}
    reset = f'{HOST}/Actions/ComputerSystem.Reset'
    expected = {'root': (204, 204, 202, 204), 'oper': (204, 204, 403, 403), 'reader': (403, 403, 403, 403)}
    for user, statuses in expected.items():
        bmc = client(machine.bmcs['host'], user, f'{user}-password')
        assert 'GPU' == bmc.get(f'{ROOT}/Systems/HGX_Baseboard_0/Processors/GPU_0')['ProcessorType']
        found = (
            bmc.patch(EROT, lock).status_code,
            bmc.post(reset, {'ResetType': 'On'}).status_code,
            bmc.push(ITEM.replace('GPU_0', f'GPU_{len(user) % 4}'), gpu_image()).status_code,
            bmc.patch(ITEM, {'WriteProtected': False}).status_code,
        )
        assert statuses == found, user


def test_accounts_are_managed_by_who_may_and_everybody_changes_the_own_password(fast, client):
    """Passwords are never shown; another's account is not readable either."""
    machine = fast('gpu-server', users=USERS)
    root = client(machine.bmcs['host'], 'root', 'root-password')
    reader = client(machine.bmcs['host'], 'reader', 'reader-password')
    accounts = f'{ROOT}/AccountService/Accounts'
    new = {'UserName': 'fresh', 'Password': 'fresh-password', 'RoleId': 'Operator'}
    assert 403 == reader.post(accounts, new).status_code
    assert 201 == root.post(accounts, new).status_code
    assert 400 == root.post(accounts, new).status_code
    assert 400 == root.post(accounts, new | {'UserName': 'x', 'Password': 'short'}).status_code
    assert 400 == root.post(accounts, new | {'UserName': 'x', 'RoleId': 'King'}).status_code
    assert None is root.get(f'{accounts}/fresh')['Password']
    assert 403 == reader.call('GET', f'{accounts}/root').status_code
    assert 403 == reader.patch(f'{accounts}/root', {'Password': 'hijacked-password'}).status_code
    assert 400 == reader.patch(f'{accounts}/reader', {'RoleId': 'Administrator'}).status_code
    assert 204 == reader.patch(f'{accounts}/reader', {'Password': 'another-password'}).status_code
    assert 401 == reader.call('GET', HOST).status_code
    assert 204 == root.call('DELETE', f'{accounts}/fresh').status_code
    assert 401 == client(machine.bmcs['host'], 'fresh', 'fresh-password').call('GET', HOST).status_code


def test_an_etag_protects_against_a_lost_update(fast, client):
    """ETag on every GET, the same in the body; If-Match with an old one is 412 and changes nothing; 304 when nothing is new."""
    bmc = client(fast('gpu-server').bmcs['host'])
    answer = bmc.call('GET', EROT)
    old = answer.headers['ETag']
    assert old == answer.json()['@odata.etag']
    assert 304 == bmc.call('GET', EROT, headers={'If-None-Match': old}).status_code
    lock, release = ({'Oem': {'Nvidia': {'InbandUpdatePolicyEnabled': value}}} for value in (False, True))
    answer = bmc.patch(EROT, lock, headers={'If-Match': old})
    assert 204 == answer.status_code
    assert answer.headers['ETag'] == bmc.call('GET', EROT).headers['ETag'] != old
    assert 412 == bmc.patch(EROT, release, headers={'If-Match': old}).status_code
    assert False is bmc.get(EROT)['Oem']['Nvidia']['InbandUpdatePolicyEnabled']
    assert 200 == bmc.call('GET', EROT, headers={'If-None-Match': old}).status_code
    assert 204 == bmc.patch(EROT, release, headers={'If-Match': '*'}).status_code


def test_the_etag_of_the_manager_does_not_change_with_its_clock(fast, client):
    """DateTime moves by itself: an ETag over it could never match."""
    machine = fast('dpu', virtual_clock=True)
    bmc = client(machine.bmcs['dpu'])
    first = bmc.get(f'{ROOT}/Managers/Bluefield_BMC')
    machine.advance(100)
    second = bmc.get(f'{ROOT}/Managers/Bluefield_BMC')
    assert first['DateTime'] != second['DateTime']
    assert first['@odata.etag'] == second['@odata.etag']


def test_expand_puts_members_in_and_levels_go_deeper(fast, client):
    """Period leaves out Links, tilde takes only them, asterisk takes both; expanded members carry their own ETag."""
    bmc = client(fast('gpu-server').bmcs['host'])
    systems = bmc.get(f'{ROOT}/Systems?$expand=.($levels=1)')['Members']
    assert ['System_0', 'HGX_Baseboard_0'] == [one['Id'] for one in systems]
    assert {'@odata.id'} == set(systems[0]['Processors'])
    assert systems[0]['@odata.etag'] == bmc.call('GET', HOST).headers['ETag']

    deep = bmc.get(f'{ROOT}/Systems?$expand=.($levels=3)')['Members'][1]
    assert ['GPU'] * 4 == [one['ProcessorType'] for one in deep['Processors']['Members']]
    assert {'@odata.id'} == set(deep['Links']['Chassis'][0])
    assert 'Id' in bmc.get(f'{HOST}?$expand=~')['Links']['Chassis'][0]
    assert {'@odata.id'} == set(bmc.get(f'{HOST}?$expand=~')['Processors'])
    everything = bmc.get(f'{HOST}?$expand=*')
    assert 'Id' in everything['Links']['Chassis'][0]
    assert 'Members' in everything['Processors']
    for wrong in ('x', '.($levels=0)', '.($levels=7)', '.($levels=a)'):
        assert 400 == bmc.call('GET', f'{ROOT}/Systems?$expand={wrong}').status_code, wrong


def test_collections_come_in_pages_and_other_queries_are_answered(fast, client):
    """$top and $skip, nextLink where a BMC pages by itself, $select, only; what is not supported is 501."""
    from baremetal_acc.emulator.redfish.view import Options

    paged = client(fast('gpu-server', options={'*': Options(page_size=3)}).bmcs['host'])
    seen, uri = [], f'{ROOT}/Chassis'
    while uri:
        page = paged.get(uri)
        assert page['Members@odata.count'] == 10
        seen += page['Members']
        uri = page.get('Members@odata.nextLink')
    assert 10 == len({one['@odata.id'] for one in seen})

    bmc = client(fast('gpu-server', options={'*': Options(expand=False)}).bmcs['host'])
    assert 2 == len(bmc.get(f'{ROOT}/Chassis?$top=2&$skip=1')['Members'])
    assert {'@odata.id', '@odata.type', '@odata.etag', 'Model'} == set(bmc.get(f'{HOST}?$select=Model'))
    assert 'BMC' == client(fast('dpu').bmcs['dpu']).get(f'{ROOT}/Managers?only')['ManagerType']
    assert 501 == bmc.call('GET', f'{ROOT}/Systems?$expand=.').status_code
    assert 501 == bmc.call('GET', f'{ROOT}/Systems?$filter=x').status_code
    assert 400 == bmc.call('GET', f'{ROOT}/Systems?$top=x').status_code
    assert 'Members' in bmc.get(f'{ROOT}/Systems?unknown=1')
    assert False is bmc.get(ROOT)['ProtocolFeaturesSupported']['ExpandQuery']['ExpandAll']


def test_errors_are_redfish_errors(fast, client):
    """404, 405 with Allow, 400 for what is no JSON: each with a message of the Base registry."""
    bmc = client(fast('gpu-server').bmcs['host'])
    for answer, status in (
        (bmc.call('GET', f'{ROOT}/Nothing'), 404),
        (bmc.call('GET', f'{ROOT}/systems'), 404),
        (bmc.call('DELETE', HOST), 405),
        (bmc.post(f'{ROOT}/Systems', {}), 405),
        (bmc.call('PATCH', HOST, data=b'[1]'), 400),
        (bmc.post(f'{HOST}/Actions/ComputerSystem.Reset', {'ResetType': 'Explode'}), 400),
        (bmc.post(f'{HOST}/Actions/ComputerSystem.Reset', {'Type': 'On'}), 400),
        (bmc.call('PATCH', HOST, data=b'x' * 2_000_000), 413),
    ):
        assert status == answer.status_code
        info = answer.json()['error']['@Message.ExtendedInfo'][0]
        assert info['MessageId'].startswith('Base.')
        assert '%' not in info['Message']
    assert 'PATCH' in bmc.call('DELETE', HOST).headers['Allow']
    head = bmc.call('HEAD', HOST)
    assert (200, b'') == (head.status_code, head.content)


def test_the_connection_is_kept_and_closed_as_asked(fast, client):
    """Connection: close is echoed (a client that re-uses a dead socket fails otherwise); else one connection serves all."""
    machine = fast('gpu-server')
    bmc = client(machine.bmcs['host'])
    machine.reset_log()
    for _ in range(5):
        bmc.get(HOST)
    counters = machine.counters()['host']
    assert (5, 4, 1) == (counters['total'], counters['repeated'], counters['connections'])
    assert 'close' == bmc.call('GET', HOST, headers={'Connection': 'close'}).headers['Connection'].lower()
    bmc.get(HOST)
    assert 2 == machine.counters()['host']['connections']


def test_tls_is_verified_by_the_authority_of_that_bmc_and_by_no_other(fast, client):
    """Each BMC has its own; its files are for their owner only; without it the certificate is not trusted."""
    machine = fast('acc-server')
    host, dpu = machine.bmcs['host'], machine.bmcs['dpu']
    assert 200 == client(host).call('GET', ROOT).status_code
    stranger = client(host)
    stranger.http.verify = dpu.verify_ca
    with pytest.raises(requests.exceptions.SSLError):
        stranger.call('GET', ROOT)
    named = client(host)
    named.base = host.address.replace('127.0.0.1', 'localhost')
    assert 200 == named.call('GET', ROOT).status_code
    assert 0o600 == stat.S_IMODE(os.stat(host.verify_ca).st_mode)
    assert [] == machine.log(sessions=True)


def test_plain_http_and_no_authentication_are_knobs(fast, client):
    """For tools that can do neither."""
    bmc = client(fast('dpu', tls=False, no_auth=True).bmcs['dpu'])
    bmc.http.auth = None
    assert bmc.base.startswith('http://')
    assert 204 == bmc.patch(f'{ROOT}/Systems/Bluefield/Bios/Settings', {'Attributes': {'NicMode': 'NicMode'}}).status_code


def test_no_connection_of_sushy_ends_in_the_thread_of_an_emulated_bmc(fast):
    """It would log out at the BMC that this thread plays, and wait for its own answer."""
    import sushy

    collected.never_by_an_emulated_bmc()
    fast('gpu-server', gpus=1)
    assert collected.EMULATOR in {thread.name for thread in threading.enumerate()}
    ended = []

    class Auth:
        def close(self):
            ended.append(threading.current_thread().name)

    for name in (collected.EMULATOR, 'worker'):
        connection = sushy.Sushy.__new__(sushy.Sushy)
        connection._auth = Auth()
        thread = threading.Thread(target=connection.__del__, name=name)
        thread.start()
        thread.join()
        connection._auth = None
    assert ['worker'] == ended


def test_sushy_manages_power_and_boot_as_ironic_does(fast, monkeypatch):
    """Ironic's Redfish interfaces speak through sushy: power, boot device, BIOS, memory, NICs, PCIe, virtual media."""
    import sushy
    from sushy import auth

    collected.never_by_an_emulated_bmc()
    # sushy's requests would take this bundle instead of the BMC's own authority.
    monkeypatch.delenv('REQUESTS_CA_BUNDLE', raising=False)
    monkeypatch.delenv('CURL_CA_BUNDLE', raising=False)
    machine = fast('acc-server')

    def connect(name):
        bmc = machine.bmcs[name]
        login = auth.SessionOrBasicAuth(bmc.username, bmc.password)
        return sushy.Sushy(bmc.address, verify=bmc.verify_ca, auth=login)

    for name in machine.bmcs:
        system = connect(name).get_system(machine.bmcs[name].system)
        assert sushy.PowerState.ON == system.power_state
        system.set_system_boot_options(sushy.BootSource.PXE, enabled=sushy.BootSourceOverrideEnabled.ONCE)
        system.refresh(force=True)
        assert (sushy.BootSource.PXE, sushy.BootSourceOverrideEnabled.ONCE) == (system.boot.target, system.boot.enabled)
        assert system.ethernet_interfaces.summary
        assert system.bios.attributes
        assert system.managers[0].firmware_version
    host = connect('host')
    system = host.get_system(HOST)
    assert 128 == system.memory_summary.size_gib
    fpga = next(one for one in system.pcie_devices.get_members() if one.identity == 'FPGA1')
    assert ['0x8086'] == [one.vendor_id for one in fpga.pcie_functions.get_members()]
    assert system.managers[0].virtual_media.get_members()[0].media_types
    assert {'FW_BMC_0', 'FPGA1_FW'} <= {one.identity for one in host.get_update_service().firmware_inventory.get_members()}
    system.reset_system(sushy.ResetType.FORCE_OFF)
    assert 'Off' == machine.truth()['systems']['host']['power'].removeprefix('Powering')
