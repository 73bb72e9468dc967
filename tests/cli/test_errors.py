# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Each mistake of an operator gives one clear line and its exit code, and nothing is written to a BMC."""

import json
import re
import socket

import pytest

from tests.cli.desk import CONF, Desk, target_of

PASSWORD = 'wrong-Password-4711'


def unreachable(desk: Desk, machine) -> tuple[str, ...]:
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        desk.bmcs({'node-1': target_of(machine, address=f'https://127.0.0.1:{free.getsockname()[1]}')})
    return ('apply', '--execute', *desk.options)


def wrong_password(desk: Desk, machine) -> tuple[str, ...]:
    desk.bmcs({'node-1': target_of(machine, password=PASSWORD)})
    return ('apply', '--execute', *desk.options)


def untrusted(desk: Desk, machine) -> tuple[str, ...]:
    desk.bmcs({'node-1': target_of(machine, verify_ca=True)})
    return ('apply', '--execute', *desk.options)


def wrong_digest(desk: Desk, machine) -> tuple[str, ...]:
    path = desk.folder / 'gpu-new.img'
    image = bytearray(path.read_bytes())
    image[1000] ^= 1
    path.write_bytes(image)
    return ('apply', '--execute', *desk.options)


def catalogue_typo(desk: Desk, machine) -> tuple[str, ...]:
    text = (desk.folder / 'catalogue.toml').read_text()
    desk.write('catalogue.toml', text.replace('security_version', 'securty_version', 1))
    return ('apply', '--execute', *desk.options)


def baseline_typo(desk: Desk, machine) -> tuple[str, ...]:
    desk.write('baseline.toml', (desk.folder / 'baseline.toml').read_text().replace('host-device', 'host-devise'))
    return ('apply', '--execute', *desk.options)


def bmcs_typo(desk: Desk, machine) -> tuple[str, ...]:
    desk.write('bmcs.yaml', (desk.folder / 'bmcs.yaml').read_text().replace('username', 'user_name', 1))
    return ('apply', '--execute', *desk.options)


def open_password(desk: Desk, machine) -> tuple[str, ...]:
    (desk.folder / 'bmcs.yaml').chmod(0o644)
    return ('apply', '--execute', *desk.options)


def unknown_argument(desk: Desk, machine) -> tuple[str, ...]:
    return ('apply', '--exekute', *desk.options)


def password_argument(desk: Desk, machine) -> tuple[str, ...]:
    return ('apply', '--execute', f'--password={PASSWORD}', *desk.options)


def abbreviated_argument(desk: Desk, machine) -> tuple[str, ...]:
    return ('apply', '--exec', *desk.options)


def unknown_verb(desk: Desk, machine) -> tuple[str, ...]:
    return ('aply', '--execute')


def unknown_target(desk: Desk, machine) -> tuple[str, ...]:
    return ('apply', '--execute', '--target', 'nod-1', *desk.options)


def unknown_device(desk: Desk, machine) -> tuple[str, ...]:
    return ('lock', '--execute', '--device', 'MT1', *desk.options)


def unknown_slot(desk: Desk, machine) -> tuple[str, ...]:
    return ('program', '--execute', '--slot', 'Slot9=gzip', *desk.options)


def firmware_as_function(desk: Desk, machine) -> tuple[str, ...]:
    return ('program', '--execute', '--slot', 'Slot0=fpga-new', *desk.options)


def no_config(desk: Desk, machine) -> tuple[str, ...]:
    return ('apply', '--execute', '--config-file', 'none.conf')


def wrong_config(desk: Desk, machine) -> tuple[str, ...]:
    desk.write('acc.conf', '[baremetal_acc]\npoll_interval = soon\n')
    return ('apply', '--execute', *desk.options)


def config_that_is_a_folder(desk: Desk, machine) -> tuple[str, ...]:
    return ('apply', '--execute', '--config-file', '.')


def config_of_bytes(desk: Desk, machine) -> tuple[str, ...]:
    (desk.folder / 'acc.conf').write_bytes(b'[baremetal_acc]\nbaseline = \xff\n')
    return ('apply', '--execute', '--config-file', 'acc.conf')


def no_such_port(desk: Desk, machine) -> tuple[str, ...]:
    return ('emulate', 'acc-server', '--port', '99999')


def help_of_no_command(desk: Desk, machine) -> tuple[str, ...]:
    return ('help', 'nope')


def no_room_for_the_second_port(desk: Desk, machine) -> tuple[str, ...]:
    return ('emulate', 'acc-server', '--port', '65535')


def no_ca(desk: Desk, machine) -> tuple[str, ...]:
    desk.bmcs({'node-1': target_of(machine, verify_ca='none.pem')})
    return ('apply', '--execute', *desk.options)


def ca_without_certificates(desk: Desk, machine) -> tuple[str, ...]:
    desk.bmcs({'node-1': target_of(machine, verify_ca='baseline.toml')})
    return ('apply', '--execute', *desk.options)


def ca_argument_without_certificates(desk: Desk, machine) -> tuple[str, ...]:
    address = machine.bmcs['host'].address
    return ('inventory', '--address', address, '--username', 'admin', '--verify-ca', 'baseline.toml')


def insecure_over_ipmi(desk: Desk, machine) -> tuple[str, ...]:
    return ('inventory', '--address', 'ipmi://127.0.0.1', '--username', 'admin', '--insecure')


def ca_over_ipmi(desk: Desk, machine) -> tuple[str, ...]:
    return ('inventory', '--address', 'ipmi://127.0.0.1', '--username', 'admin', '--verify-ca', 'baseline.toml')


def system_over_ipmi(desk: Desk, machine) -> tuple[str, ...]:
    return ('inventory', '--address', 'ipmi://127.0.0.1', '--username', 'admin', '--system', '/redfish/v1/Systems/1')


def suite_over_redfish(desk: Desk, machine) -> tuple[str, ...]:
    return ('inventory', '--address', machine.bmcs['host'].address, '--username', 'admin', '--cipher-suite', '3')


def suite_of_a_list(desk: Desk, machine) -> tuple[str, ...]:
    return ('apply', '--execute', '--cipher-suite', '3', *desk.options)


def no_port_of_ipmi(desk: Desk, machine) -> tuple[str, ...]:
    return ('inventory', '--address', 'ipmi://127.0.0.1:70000', '--username', 'admin')


def no_address_of_ipmi(desk: Desk, machine) -> tuple[str, ...]:
    return ('inventory', '--address', 'ipmi://', '--username', 'admin')


def one_machine_twice(desk: Desk, machine) -> tuple[str, ...]:
    desk.bmcs({'node-1': target_of(machine), 'node-2': target_of(machine)})
    return ('apply', '--execute', '--target', 'node-1', *desk.options)


def no_baseline(desk: Desk, machine) -> tuple[str, ...]:
    return ('apply', '--execute', '--config-file', 'acc.conf', '--catalogue', 'catalogue.toml', '--baseline', 'none.toml')


def no_baseline_of_an_option(desk: Desk, machine) -> tuple[str, ...]:
    desk.write('acc.conf', '[baremetal_acc]\nbaseline = none.toml\ncatalogue = catalogue.toml\n')
    return ('verify', '--config-file', 'acc.conf')


def no_catalogue(desk: Desk, machine) -> tuple[str, ...]:
    return ('verify', '--config-file', 'acc.conf', '--baseline', 'baseline.toml', '--catalogue', 'none.toml')


def no_catalogue_of_an_option(desk: Desk, machine) -> tuple[str, ...]:
    desk.write('acc.conf', '[baremetal_acc]\nbaseline = baseline.toml\ncatalogue = none.toml\n')
    return ('verify', '--config-file', 'acc.conf')


def no_scheme(desk: Desk, machine) -> tuple[str, ...]:
    return ('inventory', '--address', '127.0.0.1:8450', '--username', 'admin')


def recorded_by_ipmi(desk: Desk, machine) -> tuple[str, ...]:
    (desk.folder / 'pw').write_text('hunter2hunter2')
    (desk.folder / 'pw').chmod(0o600)
    return ('record', '--address', 'ipmi://127.0.0.1:9', '--username', 'admin', '--password-file', 'pw', '--output', 'new')


def no_placement(desk: Desk, machine) -> tuple[str, ...]:
    return ('publish', '--execute', *desk.options)


def missing_password(desk: Desk, machine) -> tuple[str, ...]:
    target = target_of(machine)
    for bmc in target['bmcs'].values():
        del bmc['password']
    desk.bmcs({'node-1': target})
    return ('apply', '--execute', *desk.options)


def state_that_others_may_write(desk: Desk, machine) -> tuple[str, ...]:
    folder = desk.folder / 'state' / 'baremetal-acc'
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o777)
    return ('verify', *desk.options)


TABLE = (
    (state_that_others_may_write, 2, ('baremetal-acc: other users may write there', 'chmod 700')),
    (unreachable, 5, ('node-1', 'https://127.0.0.1:')),
    (wrong_password, 5, ('node-1', 'BMC host', 'https://127.0.0.1:')),
    (untrusted, 5, ('node-1', 'BMC host', 'set verify_ca in ', 'bmcs.yaml to the file of the CA that signed the certificate')),
    (wrong_digest, 4, ('node-1', 'image gpu-new', 'gpu-new.img', 'sha256', 'the catalogue says')),
    (catalogue_typo, 2, ('catalogue.toml, line 9', 'image[0].securty_version', 'did you mean security_version?')),
    (baseline_typo, 2, ('baseline.toml, line 18', 'host-devise', 'did you mean host-device?')),
    (bmcs_typo, 2, ('bmcs.yaml, line 8', 'targets.node-1.bmcs.host.user_name', 'did you mean username?')),
    (open_password, 2, ('bmcs.yaml, line 9', 'mode 0644', 'chmod 600')),
    (unknown_argument, 2, ('--exekute', 'did you mean --execute?')),
    (password_argument, 2, ('--password', 'no such argument')),
    (abbreviated_argument, 2, ('--exec', 'no such argument')),
    (unknown_verb, 2, ('aply', 'did you mean apply?')),
    (unknown_target, 2, ("'nod-1'", 'did you mean node-1?')),
    (unknown_device, 2, ('node-1', "'MT1'")),
    (unknown_slot, 2, ('node-1', "'Slot9'", 'Slot0')),
    (firmware_as_function, 2, ("'fpga-new' is a firmware image",)),
    (no_config, 2, ('none.conf',)),
    (wrong_config, 2, ('acc.conf', 'poll_interval')),
    (config_that_is_a_folder, 2, ('error: .: cannot be read: Is a directory', '--config-file')),
    (config_of_bytes, 2, ('acc.conf: is not UTF-8',)),
    (no_such_port, 2, ('--port', '99999 is not a port')),
    (help_of_no_command, 2, ('nope: no such command', 'see baremetal-acc --help')),
    (no_room_for_the_second_port, 2, ('--port', '65535 is out of range', 'the port after it')),
    (no_ca, 2, ('bmcs.yaml, line 10', 'none.pem cannot be read: No such file or directory')),
    (ca_without_certificates, 2, ('bmcs.yaml, line 10', 'baseline.toml holds no certificates')),
    (ca_argument_without_certificates, 2, ('--verify-ca', 'baseline.toml holds no certificates')),
    (insecure_over_ipmi, 2, ('--insecure: does not apply to a BMC that is used over IPMI', 'no certificates')),
    (ca_over_ipmi, 2, ('--verify-ca: does not apply to a BMC that is used over IPMI', 'no certificates')),
    (system_over_ipmi, 2, ('--system: does not apply to a BMC that is used over IPMI',)),
    (suite_over_redfish, 2, ('--cipher-suite: does not apply to a BMC that is used over Redfish',)),
    (suite_of_a_list, 2, ('--cipher-suite: applies only with --address', 'set cipher_suite of the BMC in bmcs.yaml')),
    (no_port_of_ipmi, 2, ('--address: has an invalid port', '1 to 65535')),
    (no_address_of_ipmi, 2, ('--address: is not a URL such as ipmi://192.0.2.1',)),
    (one_machine_twice, 2, ('bmcs.yaml, line 18', 'target node-2: its BMC host (https://127.0.0.1:', 'target node-1 (line 3)')),
    (no_baseline, 2, ('none.toml', 'cannot be read', '(--baseline names it)')),
    (no_baseline_of_an_option, 2, ('none.toml', '(option [baremetal_acc] baseline names it; use --baseline for another file')),
    (no_catalogue, 2, ('none.toml', 'cannot be read', '(--catalogue names it)')),
    (
        no_catalogue_of_an_option,
        2,
        ('none.toml', '(option [baremetal_acc] catalogue names it; use --catalogue for another file'),
    ),
    (
        no_scheme,
        2,
        (
            '--address: is not a URL such as https://192.0.2.1 or ipmi://192.0.2.1 (https://HOST[:PORT] for Redfish, '
            'ipmi://HOST[:PORT] for IPMI)',
        ),
    ),
    (recorded_by_ipmi, 2, ('ipmi://127.0.0.1:9', 'inventory -f json -vv', 'ipmitool fru print', 'hpm check')),
    (no_placement, 2, ('[placement]', 'auth_type')),
    (missing_password, 2, ('password of admin is missing', 'password_env')),
)


@pytest.mark.parametrize(('make', 'code', 'says'), TABLE, ids=[row[0].__name__ for row in TABLE])
def test_one_clear_line_and_nothing_written(make, code, says, desk, served):
    """What, where and what to do, in one line; no traceback, no secret, and the machine's log of writes is empty."""
    machine = served
    desk.prepare(machine)
    done = desk.run(*make(desk, machine))
    assert code == done.code, done.err
    assert 1 == len(done.errors), done.err
    for text in says:
        assert text in done.errors[0]
    assert re.search(r'\(.+\)$', done.errors[0]), f'no hint: {done.errors[0]}'
    secrets = {PASSWORD, *(b.password for b in machine.bmcs.values())}
    for secret in secrets:
        assert secret not in done.err + done.out
    assert 'Traceback' not in done.err
    assert [] == machine.log()


def test_a_bmc_without_update_service_is_refused(desk, emulated_machine):
    """The plan says which BMC lacks what, for the very components; nothing is written."""
    from baremetal_acc.emulator.redfish.view import Options

    machine = emulated_machine('acc-server', options={'host': Options(update_service=False)})
    desk.prepare(machine)
    done = desk.run('apply', '--execute', *desk.options)
    assert 4 == done.code, done.err
    assert 1 == len(done.errors)
    assert 'firmware HGX_FW_GPU_*: BMC host accepts no firmware: it has no UpdateService (Redfish), or' in done.errors[0]
    assert [] == machine.log()


def test_a_bmc_without_hpm_1_is_refused(desk, emulated_machine):
    """By IPMI: its card is found, and nothing that could be written; the words are right for it, too."""
    from baremetal_acc.emulator.ipmi.site import IpmiOptions

    bmc = emulated_machine('fpga-server', ipmi=IpmiOptions(hpm=False)).bmcs['host']
    desk.prepare(emulated_machine('fpga-server'))
    keys = {'address': f'ipmi://127.0.0.1:{bmc.ipmi_port}', 'username': bmc.username, 'password': bmc.password}
    desk.bmcs({'node-1': {'resource_class': 'gold', 'bmcs': {'host': keys}}})
    (desk.folder / 'devices.d').mkdir()
    devices = 'format = 1\n[[device]]\nkind = "FPGA"\nnames = ["FPGA PAC *"]\nvendor = "Intel"\n'
    desk.write('devices.d/10-ours.toml', devices)
    desk.write('acc.conf', f'{CONF}devices = {desk.folder}/devices.d\n')
    desk.write('baseline.toml', 'format = 1\n[[rule]]\nmatch = { kind = "FPGA" }\nfirmware = { "*" = "2.1" }\nblock = []\n')
    done = desk.run('plan', *desk.options)
    assert 4 == done.code, done
    (error,) = done.errors
    assert (
        'firmware *: BMC host accepts no firmware: it has no UpdateService (Redfish), or no controller that speaks '
        'HPM.1 (IPMI); update the device in another way, and remove its firmware from the rules of the baseline' in error
    )


def test_a_hint_about_waivers_says_which_refusals_it_is_for(desk, emulated_machine):
    """A rule by PCI ids, which nobody tells over IPMI, is refused in the same line, and no waiver helps it."""
    from baremetal_acc.emulator.ipmi.site import IpmiOptions

    bmc = emulated_machine('fpga-server', ipmi=IpmiOptions()).bmcs['host']
    keys = {'address': f'ipmi://127.0.0.1:{bmc.ipmi_port}', 'username': bmc.username, 'password': bmc.password}
    desk.bmcs({'node-1': {'resource_class': 'gold', 'bmcs': {'host': keys}}})
    (desk.folder / 'devices.d').mkdir()
    devices = 'format = 1\n[[device]]\nkind = "FPGA"\nnames = ["FPGA PAC *"]\nvendor = "Intel"\n'
    desk.write('devices.d/10-ours.toml', devices)
    desk.write('acc.conf', f'{CONF}devices = {desk.folder}/devices.d\n')
    rules = '[[rule]]\nname = "by-pci"\nmatch = { pci = "0x8086:*" }\nfirmware = { "*" = "2.1" }\n'
    desk.write('baseline.toml', f'format = 1\n{rules}')
    desk.images()
    done = desk.run('lock', *desk.options)
    assert 4 == done.code, done
    (error,) = done.errors
    assert 'rule by-pci: the BMC does not show' in error
    hint = error.rpartition(' (')[2]
    assert hint.startswith(
        'rule by-pci: match by properties that inventory shows of the device, such as its kind; lock host-bmc-redfish, lock '
    )
    assert hint.endswith(': a rule can leave the path out of block, or waive it with on_missing and waiver)')


def test_a_bmc_that_only_pulls_is_refused(desk, emulated_machine):
    """It is said what the BMC offers, which option is to be set, and where; nothing is written."""
    from baremetal_acc.emulator.redfish.view import Options

    machine = emulated_machine('acc-server', options={'host': Options(push=False)})
    desk.prepare(machine)
    done = desk.run('apply', '--execute', *desk.options)
    assert 4 == done.code, done.err
    assert 1 == len(done.errors)
    assert 'BMC host can only fetch images itself (SimpleUpdate)' in done.errors[0]
    assert 'set option [baremetal_acc] image_server_host, in the configuration of the machine' in done.errors[0]
    assert [] == machine.log()


def test_a_target_that_fails_does_not_stop_the_others(desk, emulated_machine):
    """Two targets, one unreachable: the other's inventory is whole, the document says what failed, and the worst code wins."""
    machine = emulated_machine('fpga-server')
    desk.prepare(machine)
    good = target_of(machine)
    bad = target_of(machine, address='https://127.0.0.1:9')
    desk.bmcs({'bad': bad, 'good': good})
    done = desk.run('inventory', '-f', 'json')
    assert 5 == done.code
    first, second = done.document['targets']
    assert ('bad', 'BmcUnreachable', []) == (first['target'], first['error']['type'], first['accelerators'])
    assert ('good', None, 1) == (second['target'], second['error'], len(second['accelerators']))
    assert ['bad'] == [line.split()[2].rstrip(':') for line in done.errors]
    streamed = desk.run('inventory', '--stream')
    assert {'bad', 'good'} == {json.loads(line)['target'] for line in streamed.out.splitlines()}


def test_a_writing_verb_wants_one_target_or_all(desk, emulated_machine):
    """With two targets in the list nothing is guessed."""
    machine = emulated_machine('fpga-server')
    desk.prepare(machine)
    desk.bmcs({'a': target_of(machine), 'b': target_of(emulated_machine('fpga-server', seed='2'))})
    done = desk.run('apply', *desk.options)
    assert 2 == done.code
    assert 'lists 2 targets, and none is selected (name targets, or use --all)' in done.errors[0]
    assert 0 == desk.run('inventory').code


def test_passwords_come_from_environment_and_file(desk, emulated_machine):
    """An ad-hoc target takes its password from $BAREMETAL_ACC_PASSWORD or a file; a file that others read is refused."""
    machine = emulated_machine('fpga-server')
    bmc = machine.bmcs['host']
    arguments = (
        'inventory',
        '--address',
        bmc.address,
        '--username',
        bmc.username,
        '--verify-ca',
        str(bmc.verify_ca),
        '-f',
        'json',
    )
    none = desk.run(*arguments)
    assert 2 == none.code
    assert f'the password of {bmc.username} is missing' in none.errors[0]
    desk.environ['BAREMETAL_ACC_PASSWORD'] = bmc.password
    found = desk.run(*arguments)
    assert 0 == found.code, found.err
    assert ['FPGA'] == [a['kind'] for a in found.document['targets'][0]['accelerators']]
    del desk.environ['BAREMETAL_ACC_PASSWORD']
    path = desk.write('pw', f'{bmc.password}\n', 0o640)
    refused = desk.run(*arguments, '--password-file', 'pw')
    assert 2 == refused.code
    assert 'mode 0640' in refused.errors[0]
    path.chmod(0o600)
    assert 0 == desk.run(*arguments, '--password-file', 'pw').code
