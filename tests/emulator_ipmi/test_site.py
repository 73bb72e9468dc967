# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A product of the emulator speaks IPMI beside Redfish: one machine, and what one way changes the other one shows."""

import concurrent.futures
import json
import signal
import socket
import subprocess
import sys
import time

import pytest
import requests

from baremetal_acc.emulator.hw import PRODUCTS, build
from baremetal_acc.emulator.hw.parameters import Parameters
from baremetal_acc.emulator.image import build_image
from baremetal_acc.emulator.ipmi.hpm_ability import Times
from baremetal_acc.emulator.ipmi.site import BMC_BOARD, IpmiOptions, IpmiSite
from baremetal_acc.emulator.ipmi.upgrade_image import UploadAction, build_upgrade_image
from tests.emulator_ipmi.programs import Ipmitool
from tests.unit.emulator.ipmi.test_system import Host

CARD = ('-t', '0x72', '-b', '0')
ITEM = '/redfish/v1/UpdateService/FirmwareInventory/FPGA1_FW'
FAST = IpmiOptions(times=Times(erase=0.2, activate=0.2))
APP, GROUP = 0x06, 0x2C


def new_firmware(model, component, version, *, number=0, device_id=0x31):
    """An upgrade image with an image of the emulator."""
    data = build_image(model=model, component=component, version=version, size_bytes=2000)
    uploads = [UploadAction(component=number, version=version, data=data, description=component)]
    return build_upgrade_image(uploads, device_id=device_id, manufacturer=0, product=0)


class Both:
    """A running product with a client for each way."""

    def __init__(self, machine, folder, bmc='host'):
        self.machine = machine
        self.bmc = machine.bmcs[bmc]
        self.folder = folder
        self.ipmitool = Ipmitool(self.bmc.ipmi_port, folder, user=self.bmc.username, password=self.bmc.password)
        self.http = requests.Session()
        self.http.trust_env = False
        self.http.auth = (self.bmc.username, self.bmc.password)
        self.http.verify = self.bmc.verify_ca

    def get(self, path):
        answer = self.http.get(self.bmc.address + path, timeout=20)
        assert 200 == answer.status_code
        return answer.json()

    def post(self, path, document):
        assert self.http.post(self.bmc.address + path, json=document, timeout=20).status_code < 300

    def file(self, content):
        path = self.folder / 'image.hpm'
        path.write_bytes(content)
        return str(path)


@pytest.fixture
def both(emulated_machine, tmp_path):
    """Makes one."""
    return lambda product, **more: Both(emulated_machine(product, **{'ipmi': FAST} | more), tmp_path)


def wait(told, seconds=20):
    """Until it is true."""
    end = time.monotonic() + seconds
    while not (found := told()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


def test_boards_and_cards_are_found_by_ipmitool_as_redfish_shows_them(both):
    """The same serial numbers; the card is a controller behind the BMC; versions of firmware in Get Device ID and HPM.1."""
    one = both('fpga-server')
    out = one.ipmitool.right('fru', 'print').out
    serials = [line.split(':')[1].strip() for line in out.splitlines() if 'Board Serial' in line]
    processor = one.get('/redfish/v1/Systems/System_0/Processors/FPGA1')
    chassis = one.get('/redfish/v1/Chassis/Chassis_0')
    assert {chassis['SerialNumber'], processor['SerialNumber']} == set(serials)
    assert '1.04' == one.ipmitool.right('mc', 'info').fields['Firmware Revision']
    assert 'FPGA1_FW' in one.ipmitool.right(*CARD, 'hpm', 'check').out
    assert 'UEFI' in one.ipmitool.right('hpm', 'check').out


def test_firmware_that_ipmi_writes_is_what_redfish_shows(both):
    """Uploaded and activated over the bridge, in force after a restart of the host, which IPMI asks for."""
    one = both('fpga-server')
    assert '2.0.0' == one.get(ITEM)['Version']
    one.ipmitool.right(*CARD, 'hpm', 'upgrade', one.file(new_firmware('d5005', 'fpga', '2.1.0')), 'force', 'activate')
    assert ('2.0.0', '2.1.0') == (
        one.get(ITEM)['Version'],
        one.machine.truth()['components']['host/FPGA1_FW']['staged']['version'],
    )
    one.ipmitool.right('chassis', 'power', 'reset')
    assert wait(lambda: '2.1.0' == one.get(ITEM)['Version'])
    told = one.machine.truth()['ipmi']['host']['upgrades']['FPGA1']
    assert (1, 0, {'0': 'host/FPGA1_FW'}) == (told['activations'], told['rollbacks'], told['components'])


def test_the_card_goes_back_by_ipmitool_with_a_restart_of_the_host(both):
    """Rollback is taken as the activation is: armed at once, in force after the host's restart, for Redfish as for IPMI."""
    one = both('fpga-server')
    one.ipmitool.right(*CARD, 'hpm', 'upgrade', one.file(new_firmware('d5005', 'fpga', '2.1.0')), 'force', 'activate')
    one.ipmitool.right('chassis', 'power', 'reset')
    wait(lambda: '2.1.0' == one.get(ITEM)['Version'])
    assert 'Rollback occurred on component mask: 0x01' in one.ipmitool.right(*CARD, 'hpm', 'rollback').err
    assert '2.1.0' == one.get(ITEM)['Version']
    one.ipmitool.right('chassis', 'power', 'reset')
    assert wait(lambda: '2.0.0' == one.get(ITEM)['Version'])
    assert 1 == one.machine.truth()['ipmi']['host']['upgrades']['FPGA1']['rollbacks']


def test_the_bmc_that_ipmi_flashes_restarts_for_redfish_too(both):
    """It is silent on both ways, and then has the new version on both."""
    one = both('fpga-server', ipmi=IpmiOptions(times=Times(activate=1.5)))
    image = new_firmware('es2000', 'bmc', '1.5.0', device_id=0x20)
    one.ipmitool.right('hpm', 'upgrade', one.file(image), 'force', 'activate')
    assert '1.05' == one.ipmitool.right('mc', 'info').fields['Firmware Revision']
    assert '1.5.0' == one.get('/redfish/v1/UpdateService/FirmwareInventory/FW_BMC_0')['Version']


def test_a_bmc_that_redfish_restarts_is_silent_over_ipmi(both):
    """Manager.Reset: no answer for that time, then a new session."""
    one = both('fpga-server', bmc_reset_seconds=1.5)
    one.post('/redfish/v1/Managers/BMC_0/Actions/Manager.Reset', {'ResetType': 'GracefulRestart'})
    assert 1 == one.ipmitool('mc', 'guid', tries=('1', '1')).code
    wait(lambda: 0 == one.ipmitool('mc', 'guid', tries=('1', '1')).code)


def test_power_is_one(both):
    """Off over IPMI is Off over Redfish, and the other way round."""
    one = both('fpga-server')
    one.ipmitool.right('chassis', 'power', 'off')
    assert wait(lambda: 'Off' == one.get(one.bmc.system)['PowerState'])
    one.post(f'{one.bmc.system}/Actions/ComputerSystem.Reset', {'ResetType': 'On'})
    assert wait(lambda: 'on' == one.ipmitool.right('chassis', 'status').fields['System Power'])


RESET, OFF, SHUT_DOWN, DIAGNOSE = (0xA1, b'\4'), (0xA1, b'\3'), (0xA1, b'\x09'), (0xA1, b'\7')
"""What ipmi-bmc-extern of QEMU 7.2 understands: 09h asks the guest, and is not answered by one that does not listen."""


@pytest.mark.parametrize(
    ('words', 'reset_type', 'told', 'power'),
    [
        ('reset', 'ForceRestart', RESET, 'On'),
        ('cycle', 'PowerCycle', RESET, 'On'),
        ('off', 'ForceOff', OFF, 'Off'),
        ('soft', 'GracefulShutdown', SHUT_DOWN, 'Off'),
    ],
)
def test_a_machine_at_the_system_interface_is_told_of_power_either_way(both, words, reset_type, told, power):
    """By Chassis Control and by ComputerSystem.Reset; NMI by IPMI alone. What it restarts by itself is not told back to it."""
    one = both('fpga-server')
    reset = {'ResetType': reset_type}
    ways = {
        'ipmi': lambda: one.ipmitool.right('chassis', 'power', words),
        'redfish': lambda: one.post(f'{one.bmc.system}/Actions/ComputerSystem.Reset', reset),
    }

    def settled(power):
        system = one.machine.truth()['systems']['host']
        return (power, False) == (system['power'], system['booting'])

    with socket.create_connection(('127.0.0.1', one.bmc.system_interface_port), 20) as connected:
        host = Host(connected)
        assert (0xA1, b'\xff\1') == host.frame()
        for way, ask in ways.items():
            ask()
            assert told == host.frame(), way
            wait(lambda: settled(power))
            one.ipmitool.right('chassis', 'power', 'on')
            wait(lambda: settled('On'))
        connected.sendall(b'\x04\xa1')
        assert b'\0' == host.ask(APP, 0x01)[:1]
        one.ipmitool.right('chassis', 'power', 'diag')
        assert DIAGNOSE == host.frame()


def test_a_lock_over_the_lan_stops_the_host_of_the_product(both):
    """System interface of the product; the truth tells what is disabled there."""
    one = both('fpga-server')
    with socket.create_connection(('127.0.0.1', one.bmc.system_interface_port), 10) as connected:
        host = Host(connected)
        host.frame()
        assert b'\x80' == host.hpm(0x31, b'\1\1')
        enabled = one.ipmitool.right('raw', str(APP), '0x61', '0x0f', str(GROUP), '0', '0').out
        mask = bytearray(bytes.fromhex(enabled))
        for command in (0x30, 0x31, 0x32, 0x33, 0x35, 0x38):
            mask[command // 8] &= ~(1 << command % 8)
        one.ipmitool.right('raw', str(APP), '0x60', '0x0f', str(GROUP), '0', *(str(byte) for byte in mask), '0')
        assert b'\xd4' == host.hpm(0x31, b'\1\1')
    disabled = one.machine.truth()['ipmi']['host']['disabled']
    assert (['2C/30', '2C/31', '2C/32', '2C/33', '2C/35', '2C/38'], []) == (disabled['host']['F'], disabled['FPGA1']['0'])


def test_the_host_reaches_the_eeproms_of_board_and_card_by_master_write_read(both):
    """Round the commands for FRU data, and round the controller of the card; what it writes the FRU commands show."""
    one = both('fpga-server')
    with socket.create_connection(('127.0.0.1', one.bmc.system_interface_port), 10) as connected:
        host = Host(connected)
        host.frame()
        for bus, address, way in ((1, 0xA0, ()), (3, 0xA0, CARD)):
            assert b'\0' == host.ask(APP, 0x52, bytes((bus, address, 0, 0, 0xF0)) + b'mine')
            assert '04 6d 69 6e 65' == one.ipmitool.right(*way, 'raw', '0x0a', '0x11', '0', '0xf0', '0', '4').out.strip()
        assert b'\x83' == host.ask(APP, 0x52, bytes((3, 0xA2, 0, 0, 0xF0)) + b'mine')


def test_faults_are_set_over_the_control_of_the_emulator(both):
    """A command of the card is refused once; a card that is gone is gone for IPMI."""
    one = both('fpga-server')
    one.machine.fault('ipmi-code', device='FPGA1', method='2C/2E', count=1, code=0xC9)
    first, second = (one.ipmitool(*CARD, 'hpm', 'targetcap') for _ in range(2))
    assert (1, 'ccode: 0xc9' in first.err, 0) == (first.code, True, second.code)
    one.machine.fault('device-absent', device='FPGA1')
    assert 1 == one.ipmitool(*CARD, 'mc', 'info').code
    one.machine.clear_faults()
    one.ipmitool.right(*CARD, 'mc', 'info')


@pytest.mark.parametrize('product', PRODUCTS)
def test_every_product_can_speak_ipmi(emulated_machine, tmp_path, product):
    """Each BMC of it answers to its own account."""
    for bmc in emulated_machine(product, ipmi=FAST).bmcs.values():
        Ipmitool(bmc.ipmi_port, tmp_path, user=bmc.username, password=bmc.password).right('mc', 'info')


def test_without_ipmi_there_is_none(emulated_machine):
    """As before."""
    machine = emulated_machine('fpga-server')
    assert (None, None, False) == (
        machine.bmcs['host'].ipmi_port,
        machine.bmcs['host'].system_interface_port,
        'ipmi' in machine.truth(),
    )


def test_a_host_is_on_until_it_is_off(lan, tmp_path):
    """While it is being powered off it is not off yet, and takes no other order: D5h."""
    product = build('fpga-server', Parameters(reset_seconds=1.0))
    account = next(iter(product.views['host'].access.accounts.values()))
    site = IpmiSite(product.machine, 'host', users=[], boards=product.boards['host'], options=FAST)
    site.users.put(2, account.name, account.secret.encode(), 4)
    tool = Ipmitool(lan.add(site.endpoint), tmp_path, password=account.secret)
    tool.right('chassis', 'power', 'off')
    assert 'on' in tool.right('chassis', 'power', 'status').out
    assert 'off' not in tool.right('chassis', 'power', 'status').out
    wait(lambda: 'off' in tool.right('chassis', 'power', 'status').out)


def test_a_hundred_machines_live_in_one_process(lan, tmp_path):
    """Each with its own serial numbers, firmware and ports; flashing one changes no other."""
    sites = []
    for number in range(100):
        product = build('fpga-server', Parameters(seed=str(number)))
        view = product.views['host']
        account = next(iter(view.access.accounts.values()))
        site = IpmiSite(product.machine, 'host', users=[], boards=product.boards['host'], options=FAST)
        site.users.put(2, account.name, account.secret.encode(), 4)
        site.port = lan.add(site.endpoint)
        site.secret, site.machine, site.serial = account.secret, product.machine, product.boards['host'][BMC_BOARD].serial
        sites.append(site)
    tools = [Ipmitool(site.port, tmp_path, password=site.secret) for site in sites]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda tool: tool.right('fru', 'print', '0').fields['Board Serial'], tools))
    assert [site.serial for site in sites] == found
    assert 100 == len(set(found))
    file = tmp_path / 'image'
    file.write_bytes(new_firmware('d5005', 'fpga', '2.1.0'))
    tools[42].right(*CARD, 'hpm', 'upgrade', str(file), 'force')
    held = [site.machine.components['host/FPGA1_FW'].held for site in sites]
    assert [42] == [number for number, bank in enumerate(held) if bank is not None]


def test_the_program_says_where_ipmi_is(tmp_path):
    """--ipmi: ports on stdout and in the ready file, where the password is; SIGTERM ends it all."""
    ready = tmp_path / 'ready.json'
    with subprocess.Popen(
        [sys.executable, '-m', 'baremetal_acc.emulator', 'fpga-server', '--ipmi', '--ready-file', str(ready)],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            wait(lambda: ready.exists() and ready.read_text())
            bmc = json.loads(ready.read_text())['bmcs']['host']
            Ipmitool(bmc['ipmi_port'], tmp_path, user=bmc['username'], password=bmc['password']).right('mc', 'info')
        finally:
            process.send_signal(signal.SIGTERM)
        out = process.communicate(timeout=20)[0]
    assert 0 == process.returncode
    wanted = f'host: IPMI on UDP port {bmc["ipmi_port"]}, system interface for QEMU on TCP port {bmc["system_interface_port"]}'
    assert wanted in out
    assert bmc['password'] not in out


@pytest.mark.parametrize(
    ('arguments', 'reason'),
    [(['--recording', '/nowhere'], 'a recorded tree has no IPMI'), (['--users'], 'more than 20 bytes')],
)
def test_the_program_refuses_what_ipmi_cannot_have(tmp_path, arguments, reason):
    """Exit code 2, and why; the password is not told."""
    users = tmp_path / 'users.json'
    users.write_text(json.dumps({'*': [{'username': 'admin', 'password': 'x' * 21}]}))
    given = [*arguments, str(users)] if arguments == ['--users'] else arguments
    done = subprocess.run(
        [sys.executable, '-m', 'baremetal_acc.emulator', 'fpga-server', '--ipmi', *given],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (2, True, False) == (done.returncode, reason in done.stderr, 'x' * 21 in done.stderr)
