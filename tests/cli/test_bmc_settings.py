# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What the command says of the settings of a BMC that rules of [bmc] name, with an emulated BMC over HTTPS."""

from typing import Any

import requests

ROOT = '/redfish/v1'
RULES = """format = 1
[bmc]
name = "bmcs"
firmware_version = "1.04.2"
accounts = ["{user}=Administrator"]
bootstrap_accounts = "disabled"
ipmi_over_lan = "disabled"
host_interfaces = "enabled"
virtual_media = "ejected"
event_subscriptions = ["https://events.example.org"]
boot_override = "None"
serial_over_lan = "disabled"
tls_certificate = {{ expect = "Example Issuing CA *", days_left = 30 }}
[[rule]]
name = "all"
block = []
measure = "off"
custody = "reported"
"""


def found(desk) -> tuple[int, dict[str, dict[str, Any]]]:
    """How verify ended, and its findings about settings."""
    done = desk.run('verify', '-f', 'json', *desk.options)
    [target] = done.document['targets']
    about = 'BMC setting '
    return done.code, {f['subject'].removeprefix(about): f for f in target['findings'] if f['subject'].startswith(about)}


def test_what_others_changed_on_a_bmc_is_found_by_verify(desk, emulated_machine):
    """Each change of another client is a finding of its own, and apply says so too; once all is put back, the rule is met."""
    machine = emulated_machine('gpu-server', gpus=1)
    desk.prepare(machine)
    bmc = machine.bmcs['host']
    desk.write('baseline.toml', RULES.format(user=bmc.username))
    code, before = found(desk)
    assert (0, 10) == (code, len(before))
    assert {True} == {f['met'] for f in before.values()}

    client = requests.Session()
    client.auth = (bmc.username, bmc.password)

    def write(method: str, place: str, body: Any = None) -> None:
        answer = client.request(method, f'{bmc.address}{ROOT}/{place}', json=body, verify=str(bmc.verify_ca), timeout=10)
        assert answer.ok, answer.text

    host, manager, media = 'Systems/System_0', 'Managers/BMC_0', 'Managers/BMC_0/VirtualMedia/Cd/Actions/VirtualMedia'
    write('POST', 'AccountService/Accounts', {'UserName': 'mallory', 'Password': 'mallory-9876', 'RoleId': 'ReadOnly'})
    write('PATCH', f'{manager}/NetworkProtocol', {'IPMI': {'ProtocolEnabled': True}})
    write('PATCH', f'{manager}/HostInterfaces/hostusb0', {'CredentialBootstrapping': {'Enabled': True}})
    write('POST', f'{media}.InsertMedia', {'Image': 'https://mallory:image-secret@images.test/x.iso'})
    write(
        'POST', 'EventService/Subscriptions', {'Destination': 'https://mallory:hook-secret@[::1]:8443/x', 'Protocol': 'Redfish'}
    )
    write('PATCH', host, {'Boot': {'BootSourceOverrideEnabled': 'Continuous', 'BootSourceOverrideTarget': 'Cd'}})
    write('PATCH', host, {'SerialConsole': {'SSH': {'ServiceEnabled': True}}})
    code, after = found(desk)
    assert 3 == code
    assert {
        'accounts of host': "'mallory' (ReadOnly)",
        'bootstrap_accounts of host': (
            f'enabled (host:{ROOT}/{manager}/HostInterfaces/hostusb0 CredentialBootstrapping/Enabled)'
        ),
        'boot_override of host': f'Cd (host:{ROOT}/{host} Boot/BootSourceOverrideTarget)',
        'event_subscriptions of host': f'https://[::1]:8443 (host:{ROOT}/EventService/Subscriptions/1 Destination)',
        'ipmi_over_lan of host': f'enabled (host:{ROOT}/{manager}/NetworkProtocol IPMI/ProtocolEnabled)',
        'serial_over_lan of host': f'enabled (host:{ROOT}/{host} SerialConsole/SSH/ServiceEnabled)',
        'virtual_media of host': f'inserted (host:{ROOT}/{manager}/VirtualMedia/Cd Inserted)',
    } == {name: f['found'] for name, f in after.items() if not f['met']}

    said = desk.run('verify', '--unmet', *desk.options)
    assert 'node-1, BMC setting accounts of host: expected no accounts but ' in said.out
    assert 'secret' not in said.out + said.err
    applied = desk.run('apply', *desk.options)
    assert 'BMC setting ipmi_over_lan of host' in applied.out + applied.err
    assert 0 != applied.code

    write('DELETE', 'AccountService/Accounts/mallory')
    write('PATCH', f'{manager}/NetworkProtocol', {'IPMI': {'ProtocolEnabled': False}})
    write('PATCH', f'{manager}/HostInterfaces/hostusb0', {'CredentialBootstrapping': {'Enabled': False}})
    write('POST', f'{media}.EjectMedia', {})
    write('DELETE', 'EventService/Subscriptions/1')
    write('PATCH', host, {'Boot': {'BootSourceOverrideEnabled': 'Disabled'}})
    write('PATCH', host, {'SerialConsole': {'SSH': {'ServiceEnabled': False}}})
    code, again = found(desk)
    assert (0, before) == (code, again)


def test_a_job_reads_the_settings_once_and_fails_by_them(desk, emulated_machine):
    """The job does its work, reads the settings with its final inspection, and says what they are instead."""
    machine = emulated_machine('gpu-server', gpus=1)
    desk.prepare(machine)
    rule = '[bmc]\nipmi_over_lan = "enabled"\n[[rule]]\nblock = ["host-device"]\ncustody = "reported"\n'
    desk.write('baseline.toml', f'format = 1\n{rule}')
    machine.remote.reset_log()
    done = desk.run('apply', '--execute', *desk.options)
    assert 3 == done.code, done.err
    assert 'BMC setting ipmi_over_lan of host: expected enabled, found disabled' in done.out + done.err
    read = [one['path'] for one in machine.remote.log(reads=True) if one['path'].endswith('/NetworkProtocol')]
    assert [f'{ROOT}/Managers/BMC_0/NetworkProtocol', f'{ROOT}/Managers/HGX_BMC_0/NetworkProtocol'] == sorted(read)


def test_plan_shows_what_apply_restores_and_writes_nothing(desk, emulated_machine):
    """The row names the rule, the last line counts it, and the job ends with the setting as demanded."""
    machine = emulated_machine('gpu-server', gpus=1)
    desk.prepare(machine)
    rule = '[bmc]\nboot_override = "None"\nrestore = ["boot_override"]\n[[rule]]\nblock = []\nmeasure = "off"\n'
    desk.write('baseline.toml', f'format = 1\n{rule}custody = "reported"\n')
    bmc, host = machine.bmcs['host'], f'{ROOT}/Systems/System_0'
    boot = {'Boot': {'BootSourceOverrideEnabled': 'Once', 'BootSourceOverrideTarget': 'Pxe'}}
    answer = requests.patch(
        f'{bmc.address}{host}', json=boot, auth=(bmc.username, bmc.password), verify=str(bmc.verify_ca), timeout=10
    )
    assert answer.ok, answer.text
    machine.remote.reset_log()
    planned = desk.run('plan', *desk.options)
    assert 3 == planned.code, planned.err
    rows = [[cell.strip() for cell in line.split('|')] for line in planned.out.splitlines()]
    assert ['', 'BMC host', 'restore setting', 'boot_override Pxe -> None', 'bmc', ''] in rows
    assert 'node-1: 1 restore setting; ' in planned.out
    assert [] == [one for one in machine.remote.log() if 'SessionService' not in one['path']]
    done = desk.run('apply', '--execute', '-f', 'json', *desk.options)
    assert 0 == done.code, done.err
    assert [host] == [one['path'] for one in machine.remote.log() if 'SessionService' not in one['path']]
    [action] = done.document['targets'][0]['actions']
    assert ('restore-setting', 'boot_override', 'Pxe', 'None') == tuple(action[k] for k in ('action', 'subject', 'from', 'to'))
