# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""ipmitool reads and sets the firmware firewall over RMCP+, with those of its words that work.

``firewall`` of ipmitool 1.8.19 sends no body code, so NetFn 2Ch is set by ``raw`` here; its ``reset`` cannot be called at all.
"""

import pytest

from baremetal_acc.emulator.ipmi.controller import APP, LAN, SYSTEM, EmulatedPrivilege
from baremetal_acc.emulator.ipmi.session import SessionEndpoint
from tests.emulator_ipmi.programs import Ipmitool
from tests.unit.emulator.ipmi.machines import ask, hpm
from tests.unit.emulator.ipmi.test_firewall import GROUP, HPM, Walled, bits, mask

PASSWORD = 'sixteen is it 16'
HOST = ('firewall', 'info', 'channel', '15', 'lun', '0', 'netfn')


class Site(Walled):
    """The walled rig on the network."""

    def __init__(self, lan, folder, **more):
        super().__init__(**more)
        self.users.put(2, 'admin', PASSWORD.encode(), EmulatedPrivilege.ADMINISTRATOR)
        self.ipmitool = Ipmitool(lan.add(SessionEndpoint(self.bmc, self.users, clock=self.clock)), folder, password=PASSWORD)

    def masks(self, netfn):
        """Support, configurable and enabled as ipmitool shows them, as numbers of bits."""
        fields = self.ipmitool.right(*HOST, str(netfn)).fields
        return tuple(bits(bytes.fromhex(fields[name])) for name in ('support', 'configurable', 'enabled'))

    def raw(self, *data):
        """A command by its bytes; gives the answer's."""
        return bytes.fromhex(self.ipmitool.right('raw', *(str(byte) for byte in data)).out)


@pytest.fixture
def site(lan, tmp_path):
    """One."""
    return Site(lan, tmp_path)


def test_ipmitool_shows_what_there_is_and_what_can_be_changed(site):
    """It turns the support mask round, as IPMI has it: what it shows is what the controller has."""
    support, configurable, enabled = site.masks(APP)
    there = {place.command for place in site.bmc.commands if (place.netfn, place.lun) == (APP, 0)}
    assert (there, there) == (support, enabled)
    assert {0x02, 0x03, 0x34, 0x43, 0x45, 0x47, 0x60, 0x62} <= configurable
    assert not {0x01, 0x09, 0x61} & configurable
    everything = site.ipmitool.right('firewall', 'info', 'channel', '15').out
    assert '00,06 support:' in everything
    assert '01,30 enabled:' in everything


def test_ipmitool_disables_a_command_for_the_host_and_enables_it_again(site):
    """With force; the LAN goes on, the host is told D4h."""
    command = ('channel', '15', 'lun', '0', 'netfn', '6', 'command', '69')
    name = b'\2' + b'x'.ljust(16, b'\0')
    site.ipmitool.right('firewall', 'disable', *command, 'force')
    assert 0x45 not in site.masks(APP)[2]
    assert (b'\xd4', b'\0') == tuple(ask(site.bmc, APP, 0x45, name, channel=channel) for channel in (SYSTEM, LAN))
    site.users.put(2, 'admin', PASSWORD.encode(), EmulatedPrivilege.ADMINISTRATOR)
    site.ipmitool.right('firewall', 'enable', *command, 'force')
    assert 0x45 in site.masks(APP)[2]
    assert b'\0' == ask(site.bmc, APP, 0x45, name, channel=SYSTEM)


def test_ipmitool_disables_a_sub_function(site):
    """Setting a password; testing one is left."""
    command = ('channel', '15', 'lun', '0', 'netfn', '6', 'command', '71')
    site.ipmitool.right('firewall', 'disable', *command, 'subfn', '2')
    shown = site.ipmitool.right('firewall', 'info', *command).out
    lines = {int(line[13:17], 16): line[41:].split('|') for line in shown.splitlines() if line.startswith('sub-function')}
    assert ['X', 'X', '', 'X'] == [lines[number][2].strip() for number in range(4)]
    test = PASSWORD.encode().ljust(16, b'\0')
    assert [b'\xd6', b'\0'] == [ask(site.bmc, APP, 0x47, bytes((2, how)) + test, channel=SYSTEM) for how in (2, 3)]


def test_the_lock_of_firmware_is_set_by_raw_commands(site):
    """2C/31 to 38 off for the host; ipmitool's own hpm goes on over the LAN; the masks are read back."""
    writing = {0x30, 0x31, 0x32, 0x33, 0x35, 0x38}
    assert HPM == bits(site.raw(APP, 0x61, 0x0F, GROUP, 0, 0))
    assert b'' == site.raw(APP, 0x60, 0x0F, GROUP, 0, *mask(HPM - writing), 0)
    assert HPM - writing == bits(site.raw(APP, 0x61, 0x0F, GROUP, 0, 0))
    assert {b'\xd4'} == {hpm(site.bmc, command, channel=SYSTEM) for command in writing}
    assert b'\0' == hpm(site.bmc, 0x2E, channel=SYSTEM)[:1]
    site.ipmitool.right('hpm', 'check')
    site.ipmitool.right('hpm', 'abort')
    refused = site.ipmitool('raw', *(str(byte) for byte in (APP, 0x60, 0x0F, GROUP, 0, *b'\xff' * 16, 0)))
    assert (1, True) == (refused.code, 'rsp=0x80' in refused.err)
    assert HPM - writing == bits(site.raw(APP, 0x61, 0x0F, GROUP, 0, 0))


def test_who_shuts_himself_out_of_the_lan_is_out(site):
    """Set Command Enables off on channel 1: ipmitool is told so, as of an insufficient privilege."""
    on = bits(site.raw(APP, 0x61, 0x0E, APP, 0))
    site.raw(APP, 0x60, 0x0E, APP, 0, *mask(on - {0x60}))
    refused = site.ipmitool('raw', *(str(byte) for byte in (APP, 0x60, 0x0E, APP, 0, *mask(on))))
    assert (1, True) == (refused.code, 'rsp=0xd4' in refused.err)
