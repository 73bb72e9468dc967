# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""ipmitool flashes the emulated machine over HPM.1: its BMC, and the card behind it. The machine says what became of it."""

import dataclasses
import hashlib

import pytest

from baremetal_acc.emulator.ipmi.controller import LAN, EmulatedPrivilege
from baremetal_acc.emulator.ipmi.hpm2_lan import ExtendedLan
from baremetal_acc.emulator.ipmi.hpm_ability import Ability, Times
from baremetal_acc.emulator.ipmi.session import SessionEndpoint
from baremetal_acc.emulator.ipmi.users import Users
from tests.emulator_ipmi.programs import Ipmitool
from tests.unit.emulator.ipmi.machines import BMC_KEY, FPGA_KEY, FPGA_PART, IDENTITY, LATER_KEY, Rig, image, upgrade

PASSWORD = 'sixteen is it 16'
OLD, NEW = '1.2.0.7', '2.15.0.9'
CARD = ('-t', '0x72', '-b', '0')


class Site(Rig):
    """The rig on the network, with an ipmitool for it and files with upgrade images."""

    def __init__(self, lan, folder, **more):
        super().__init__(virtual=False, **more)
        users = Users()
        users.put(2, 'admin', PASSWORD.encode(), EmulatedPrivilege.ADMINISTRATOR)
        users.join(self.bmc)
        self.endpoint = SessionEndpoint(self.bmc, users, clock=self.clock, reset_seconds=0)
        self.folder = folder
        self.ipmitool = Ipmitool(lan.add(self.endpoint), folder, password=PASSWORD)

    def file(self, content):
        path = self.folder / hashlib.sha256(content).hexdigest()
        path.write_bytes(content)
        return str(path)


@pytest.fixture
def site(lan, tmp_path):
    """Makes one."""
    return lambda **more: Site(lan, tmp_path, **more)


def rows(said):
    """Component to the versions that ipmitool shows, those of an image in the last column."""
    lines = [line.split('|')[1:] for line in said.out.splitlines() if line.startswith('|')]
    return {cells[0].strip(' *^'): [cell.strip() for cell in cells[1:5]] for cells in lines if cells[0].strip(' *^').isdigit()}


def test_ipmitool_sees_the_components_of_the_bmc_and_of_the_card(site):
    """hpm check, direct and over the bridge: names and versions."""
    one = site()
    none = '---.-- --------'
    assert {'0': ['BMC', '1.04 00000000', none, none]} == rows(one.ipmitool.right('hpm', 'check'))
    assert {'0': ['FPGA', '1.02 00070000', none, none], '1': ['FPGA 1', '1.02 00070000', none, none]} == rows(
        one.ipmitool.right(*CARD, 'hpm', 'check')
    )
    file = one.file(upgrade(NEW))
    checked = one.ipmitool.right(*CARD, 'hpm', 'check', file)
    assert {'0': ['FPGA', '1.02 00070000', none, '2.15 00090000']} == rows(checked)
    assert '(^) Indicates component would be upgraded' in checked.err


def test_ipmitool_reads_capabilities_and_properties(site):
    """hpm targetcap and compprop with all of their words."""
    one = site(times=Times(activate=20, self_test=11), ability=Ability(automatic_rollback=True))
    told = one.ipmitool.right('-v', *CARD, 'hpm', 'targetcap').err
    for line in (
        'HPM.1 version............0',
        'Component 1 presence....[y]',
        'Component 2 presence....[n]',
        'Deferred activation.....[y]',
        'Aut rollback override...[n]',
        'Automatic rollback......[y]',
        'Upgrade timeout.........[20 sec]',
        'Self test timeout.......[15 sec]',
        'Rollback timeout........[5 sec]',
        'Inaccessibility timeout.[20 sec]',
    ):
        assert line in told
    told = one.ipmitool.right('-v', *CARD, 'hpm', 'compprop', '1', '0').err
    for line in (
        'cold reset req....[y]',
        'activation supported.[y]',
        'Preparation supported.....[y]',
        'Rollback supported........[y]',
    ):
        assert line in told
    assert 'Description string: FPGA 1' in one.ipmitool.right('-v', *CARD, 'hpm', 'compprop', '1', '2').err
    assert 'compcode=0x82' in one.ipmitool(*CARD, 'hpm', 'compprop', '2', '0').err


def test_ipmitool_flashes_the_card_over_the_bridge_and_takes_it_back(site):
    """Erase, 52 blocks, Finish and activation, of which three take time; then rollback, and what is said of it."""
    one = site(times=Times(erase=0.4, finish=0.3, activate=0.5, roll_back=0.3))
    content = image(NEW)
    file = one.file(upgrade(NEW))
    said = one.ipmitool.right(*CARD, 'hpm', 'upgrade', file, 'force', 'activate')
    assert 'Firmware upgrade procedure successful' in said.err
    assert (NEW, OLD, None, None) == one.versions()
    assert f'sha256:{hashlib.sha256(content).hexdigest()}' == one.machine.components[FPGA_KEY].active.digest
    assert 'No Firmware rollback occurred' in one.ipmitool.right(*CARD, 'hpm', 'rollbackstatus').err
    assert 'Result1 = 55' in one.ipmitool.right(*CARD, 'hpm', 'selftestresult').err
    assert 'Rollback occurred on component mask: 0x01' in one.ipmitool.right(*CARD, 'hpm', 'rollback').err
    assert (OLD, NEW, None, None) == one.versions()
    assert (1, 1) == (one.amc_upgrades.activations, one.amc_upgrades.rollbacks)
    status = one.ipmitool.right(*CARD, 'hpm', 'upgstatus').err
    assert ('Command in progress:          38' in status, 'completion code: 0' in status) == (True, True)


def test_ipmitool_compares(site):
    """The image that runs passes, another one does not; nothing is written."""
    one = site()
    assert 'Comparison passed' in one.ipmitool.right(*CARD, 'hpm', 'compare', one.file(upgrade(OLD))).out
    other = one.ipmitool.right(*CARD, 'hpm', 'compare', one.file(upgrade(NEW)))
    assert "Component's active copy doesn't match the upgrade image" in other.out
    assert (OLD, None, None, None) == one.versions()


def test_ipmitool_flashes_the_bmc_which_is_away_meanwhile(site):
    """Directly, with blocks that have to become smaller; the session is lost, and a new one finds the new version."""
    one = site(times=Times(activate=1.0))
    data = image('1.5', model='es2000', component='bmc')
    file = one.file(upgrade('1.5', identity=IDENTITY, data=data))
    said = one.ipmitool.right('-z', '255', 'hpm', 'upgrade', file, 'force', 'activate')
    assert 'Firmware upgrade procedure successful' in said.err
    assert ('1.5', '1.4', None, None) == one.versions(BMC_KEY)
    assert 1 == one.upgrades.activations
    assert '1.05 00000000' == rows(one.ipmitool.right('hpm', 'check'))['0'][1]


def test_ipmitool_leaves_an_image_that_waits(site):
    """Without the word activate: held, shown as deferred, and activated later; then the host has to be power cycled."""
    one = site()
    file = one.file(upgrade(NEW, number=1, data=image(NEW)))
    one.ipmitool.right(*CARD, 'hpm', 'upgrade', file, 'force')
    assert (OLD, None, None, NEW) == one.versions(LATER_KEY)
    assert '2.15 00090000' == rows(one.ipmitool.right(*CARD, 'hpm', 'check'))['1'][3]
    one.ipmitool.right(*CARD, 'hpm', 'activate')
    assert (OLD, None, NEW, None) == one.versions(LATER_KEY)


def test_ipmitool_uploads_long_blocks_where_hpm_2_says_so(site):
    """It asks by itself; blocks of a thousand bytes arrive, and the capabilities bound them."""
    one = site()
    extended = ExtendedLan(one.endpoint.channel, inbound_bytes=1024)
    extended.join(one.bmc)
    one.upgrades.ability = dataclasses.replace(one.upgrades.ability, block_bytes={LAN: extended.block_bytes})
    sizes = []

    def seen(request):
        if request.netfn == 0x2C and request.command == 0x32:
            sizes.append(len(request.data) - 1)

    one.bmc.guards.append(seen)
    data = image('1.5', model='es2000', component='bmc', size_bytes=5000)
    one.ipmitool.right('hpm', 'upgrade', one.file(upgrade('1.5', identity=IDENTITY, data=data)), 'force')
    assert ('1.4', None, None, '1.5') == one.versions(BMC_KEY)
    assert 1015 == max(sizes) == extended.block_bytes


@pytest.mark.parametrize(
    ('fault', 'versions'),
    [
        ({'name': 'ipmi-code', 'method': '2C/32', 'uri': '00 03 *', 'code': 0x82}, (OLD, None, None, None)),
        ({'name': 'ipmi-code', 'method': '2C/35', 'code': 0xD5}, (OLD, None, None, NEW)),
        ({'name': 'image-damaged', 'method': '2C/32', 'after_bytes': 700}, (OLD, None, None, None)),
        ({'name': 'activation-refused', 'leaves': '1.9'}, ('1.9', OLD, None, None)),
    ],
)
def test_what_goes_wrong_is_seen_by_ipmitool_or_in_the_end(site, fault, versions):
    """Block 3 is refused; Activate is; a bit turns: exit code 1. Another version than was sent: only the versions tell."""
    one = site()
    one.machine.add_fault({'device': 'AMC_1', **fault})
    said = one.ipmitool(*CARD, 'hpm', 'upgrade', one.file(upgrade(NEW)), 'force', 'activate')
    assert versions == one.versions()
    assert (versions[0] == OLD) is (said.code == 1)


def test_ipmitool_goes_on_where_the_card_was_busy(site):
    """C0h and D3h once each, at block 4; the answer to block 9 is lost once: sent again, and executed once."""
    one = site()
    rules = [
        one.machine.add_fault(
            {'name': 'ipmi-code', 'device': 'AMC_1', 'method': '2C/32', 'uri': '00 04 *', 'code': code, 'count': 1}
        )
        for code in (0xC0, 0xD3)
    ]
    rules.append(
        one.machine.add_fault({'name': 'hang', 'method': '06/34', 'uri': '40 72 b0 * 00 09 *', 'count': 1, 'after': True})
    )
    one.ipmitool.right(*CARD, 'hpm', 'upgrade', one.file(upgrade(NEW)), 'force')
    assert (OLD, None, None, NEW) == one.versions()
    assert [1, 1, 1] == [rule.hits for rule in rules]


def test_a_self_test_that_fails_is_told_and_rolled_back(site):
    """ipmitool asks for the self test, then for the rollback."""
    one = site(ability=Ability(automatic_rollback=True), times=Times(roll_back=0.3))
    one.machine.add_fault({'name': 'self-test-fails', 'device': 'AMC_1', 'bits': 2})
    said = one.ipmitool(*CARD, 'hpm', 'upgrade', one.file(upgrade(NEW)), 'force', 'activate')
    assert ('Result1 = 57' in said.err, 'Rollback occurred on component mask: 0x01' in said.err) == (True, True), said
    assert (OLD, NEW) == one.versions()[:2]


def test_ipmitool_takes_both_readings_of_the_checksum_and_finds_a_wrong_one(site):
    """3 bytes or 34; and it rejects an image whose MD5 or header is wrong: ours are right where it takes them."""
    one = site()
    one.ipmitool.right(*CARD, 'hpm', 'check', one.file(upgrade(NEW, long_checksum=True, oem=b'more', back_up=1)))
    good = upgrade(NEW)
    wrong_end = good[:-1] + bytes((good[-1] ^ 1,))
    head = bytearray(good[:-16])
    head[20] ^= 2
    wrong_head = bytes(head) + hashlib.md5(bytes(head)).digest()
    for wrong in (wrong_end, wrong_head, upgrade(NEW, identity=IDENTITY)):
        assert 1 == one.ipmitool(*CARD, 'hpm', 'check', one.file(wrong)).code


def test_a_section_that_is_asked_for_again_is_sent_again(lan, tmp_path):
    """Offset and length in the answer to a block; ipmitool continues there, and Finish has all that it sent."""
    content = image(NEW)
    part = dataclasses.replace(FPGA_PART, sections={46: (23, len(content) - 23)})
    one = Site(lan, tmp_path, amc_parts={0: part})
    one.ipmitool.right(*CARD, 'hpm', 'upgrade', one.file(upgrade(NEW)), 'force')
    assert f'sha256:{hashlib.sha256(content).hexdigest()}' == one.machine.components[FPGA_KEY].held.digest
