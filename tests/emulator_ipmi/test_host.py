# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The operator comes over the LAN with ipmitool, the tenant over the system interface: one BMC, and a lock between them."""

import concurrent.futures
import socket

import pytest

from baremetal_acc.emulator.ipmi.controller import APP, EmulatedPrivilege
from baremetal_acc.emulator.ipmi.fru import EmulatedBoardArea, FruDevices, inventory
from baremetal_acc.emulator.ipmi.i2c import Buses, Eeprom
from baremetal_acc.emulator.ipmi.messaging import Messages
from baremetal_acc.emulator.ipmi.sdr import EmulatedFruLocator, Repository
from baremetal_acc.emulator.ipmi.session import SessionEndpoint
from baremetal_acc.emulator.ipmi.system import SystemDoor, SystemInterface
from tests.emulator_ipmi.programs import Ipmitool
from tests.unit.emulator.ipmi.machines import BMC_KEY, IDENTITY, image, upgrade
from tests.unit.emulator.ipmi.test_firewall import GROUP, HPM, Walled, mask
from tests.unit.emulator.ipmi.test_system import Host

PASSWORD = 'sixteen is it 16'
CARD = inventory(board=EmulatedBoardArea(manufacturer='ACME', name='FPGA card', serial='CARD-1', part_number='FP-1'))


class Site(Walled):
    """The walled rig with both ways in: ``ipmitool`` is the operator, ``host`` the tenant."""

    def __init__(self, lan, folder, **more):
        super().__init__(**more)
        self.folder = folder
        self.users.put(2, 'admin', PASSWORD.encode(), EmulatedPrivilege.ADMINISTRATOR)
        self.ipmitool = Ipmitool(lan.add(SessionEndpoint(self.bmc, self.users, clock=self.clock)), folder, password=PASSWORD)
        devices = FruDevices({0: CARD})
        devices.join(self.bmc)
        Buses({(0x03, 0xA0): Eeprom(devices.contents[0], address_bytes=1)}).join(self.bmc)
        Repository((EmulatedFruLocator(name='Card', fru_id=0, entity=0x0B, instance=1),), writable=True).join(self.bmc)
        messages = Messages()
        messages.join(self.bmc)
        door = SystemDoor(SystemInterface(self.bmc, messages), messages)
        self.host = Host(socket.create_connection(('127.0.0.1', lan.add_door(door)), 10))
        self.host.frame()

    def raw(self, *data):
        """A command of the operator."""
        self.ipmitool.right('raw', *(str(byte) for byte in data))


@pytest.fixture
def site(lan, tmp_path):
    """One."""
    one = Site(lan, tmp_path)
    yield one
    one.host.socket.close()


def test_the_tenant_is_locked_out_over_the_lan_and_the_operator_flashes(site):
    """Before: the tenant erases and writes. Locked by ipmitool: D4h for each; ipmitool's upgrade is taken."""
    fru = b'\0\0\0\1'
    attacks = {
        'erase': lambda: site.host.hpm(0x31, b'\1\1')[:1],
        'abort': lambda: site.host.hpm(0x30)[:1],
        'password': lambda: site.host.ask(APP, 0x47, b'\2\2' + PASSWORD.encode())[:1],
        'bus': lambda: site.host.ask(APP, 0x52, b'\3\xa0\0\0\1')[:1],
        'fru': lambda: site.host.ask(0x0A, 0x12, fru)[:1],
        'sdr': lambda: site.host.ask(0x0A, 0x24, b'\0\0\x51\x11\0')[:1],
        'manufacturing': lambda: site.host.ask(APP, 0x05)[:1],
        'firewall': lambda: site.host.ask(APP, 0x60, bytes((0x0E, GROUP, 0)) + mask(HPM) + b'\0')[:1],
    }
    assert {b'\0'} == {attack() for attack in attacks.values()}
    keep = {GROUP: HPM & {0x2E, 0x2F, 0x34, 0x36, 0x37}}
    site.raw(APP, 0x60, 0x0F, GROUP, 0, *mask(keep[GROUP]), 0)
    site.raw(APP, 0x60, 0x0F, 0x0A, 0, *mask({0x10, 0x11, 0x20, 0x22, 0x23}))
    on = site.get(0x61, APP)
    site.raw(APP, 0x60, 0x0F, APP, 0, *mask(on - {0x02, 0x03, 0x05, 0x34, 0x43, 0x45, 0x47, 0x52, 0x60, 0x62}))
    assert dict.fromkeys(attacks, b'\xd4') == {name: attack() for name, attack in attacks.items()}
    assert b'\0' == site.host.hpm(0x2E)[:1]
    file = site.folder / 'image'
    file.write_bytes(upgrade('1.5', identity=IDENTITY, data=image('1.5', model='es2000', component='bmc')))
    site.ipmitool.right('hpm', 'upgrade', str(file), 'force')
    assert ('1.5', 'bmc') == (site.machine.components[BMC_KEY].held.version, site.machine.components[BMC_KEY].held.writer)


def test_a_password_that_the_tenant_sets_is_the_operators_no_more(site):
    """Over the system interface; ipmitool is refused with the old one, and let in with the new one."""
    assert b'\0' == site.host.ask(APP, 0x47, b'\2\2' + b'of the tenant'.ljust(16, b'\0'))
    assert 'HMAC is invalid' in site.ipmitool('-v', 'mc', 'info').err
    site.ipmitool.file.write_text('of the tenant')
    site.ipmitool.right('mc', 'info')


def test_both_are_served_at_once(site):
    """A thousand commands of the host while ipmitool speaks; each is answered to who asked."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        operator = pool.submit(lambda: [site.ipmitool.right('mc', 'guid').code for _ in range(5)])
        assert {b'\0'} == {site.host.ask(APP, 0x01)[:1] for _ in range(1000)}
        assert [0] * 5 == operator.result(60)


def test_ipmitool_reads_and_writes_over_the_bus(site):
    """Its i2c words, and its fru words, on the same bytes."""
    shown = site.ipmitool.right('i2c', 'bus=1', '0xa0', '8', '0x00').out
    assert CARD[:8] == bytes.fromhex(''.join(shown.split()))
    site.ipmitool.right('i2c', 'bus=1', '0xa0', '0', str(CARD.index(b'CARD-1')), *(str(byte) for byte in b'CARD-2'))
    assert b'CARD-2' in site.host.ask(APP, 0x52, b'\3\xa0\x40\0')
    assert 1 == site.ipmitool('i2c', 'bus=1', '0xa4', '8', '0x00').code


def test_ipmitool_fills_the_repository_anew(site):
    """sdr dump and sdr fill: cleared, and added in pieces; what it lists then is what it listed before."""
    before = site.ipmitool.right('sdr', 'elist', 'all').out
    assert 'Card' in before
    file = str(site.folder / 'sdr')
    site.ipmitool.right('sdr', 'dump', file)
    site.ipmitool.right('sdr', 'fill', 'file', file)
    info = site.ipmitool.right('sdr', 'info').fields
    assert ('1', before) == (info['Record Count'], site.ipmitool.right('sdr', 'elist', 'all').out)


def test_ipmitool_shows_the_global_enables(site):
    """mc getenables says what the host set; its setenables says that there was nothing to change, whatever is asked."""
    assert b'\0' == site.host.ask(APP, 0x2E, b'\5')
    shown = site.ipmitool.right('mc', 'getenables').fields
    words = (
        'Receive Message Queue Interrupt',
        'Event Message Buffer Full Interrupt',
        'Event Message Buffer',
        'System Event Logging',
    )
    assert ['enabled', 'disabled', 'enabled', 'disabled'] == [shown[word] for word in words]
