# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""ipmitool and FreeIPMI find the cards of an emulated machine: on the BMC, on a controller behind it, and two levels deep."""

from datetime import UTC, datetime

import pytest

from baremetal_acc.emulator.ipmi.controller import IPMB, ControllerIdentity, EmulatedController, EmulatedPrivilege
from baremetal_acc.emulator.ipmi.fru import (
    ChassisInfo,
    EmulatedBoardArea,
    EmulatedProductArea,
    FruDevices,
    inventory,
    picmg_record,
)
from baremetal_acc.emulator.ipmi.sdr import AMC, EmulatedControllerLocator, EmulatedFruLocator, Repository
from baremetal_acc.emulator.ipmi.session import SessionEndpoint
from baremetal_acc.emulator.ipmi.users import Users
from tests.emulator_ipmi.programs import Ipmitool, program, run

PASSWORD = 'sixteen is it 16'
HOST = inventory(
    chassis=ChassisInfo(part_number='CH-1', serial='CHS-1'),
    board=EmulatedBoardArea(
        manufacturer='ACME', name='Main board', serial='MB-1', part_number='PN-1', made=datetime(2024, 5, 6, 7, 8, tzinfo=UTC)
    ),
    product=EmulatedProductArea(
        manufacturer='ACME', name='Server', part_number='S-1', version='R1', serial='SER-1', asset_tag='tag'
    ),
)
CARD = inventory(
    board=EmulatedBoardArea(manufacturer='ACME', name='FPGA card', serial='CARD-1', part_number='FP-1'),
    records=(picmg_record(0x16, b'\x20'),),
)
MODULE = inventory(board=EmulatedBoardArea(manufacturer='ACME', name='AMC card', serial='AMC-9', part_number='AM-9'))


@pytest.fixture
def port(lan):
    """A BMC with a card of its own, an AMC at 72h, and one more behind the controller at 82h."""
    users = Users()
    users.put(2, 'admin', PASSWORD.encode(), EmulatedPrivilege.ADMINISTRATOR)
    bmc = EmulatedController(identity=ControllerIdentity(device_id=0x20))
    near = EmulatedController(identity=ControllerIdentity(device_id=0x11, support=0x08), address=0x72)
    between = EmulatedController(identity=ControllerIdentity(device_id=0x12), address=0x82)
    far = EmulatedController(identity=ControllerIdentity(device_id=0x13), address=0x74)
    bmc.behind = {(IPMB, 0x72): near, (IPMB, 0x82): between}
    between.behind[7, 0x74] = far
    users.join(bmc)
    FruDevices({0: HOST, 3: CARD}).join(bmc)
    FruDevices({0: MODULE}, longest=20).join(near)
    Repository(
        (
            EmulatedFruLocator(name='Card 3', fru_id=3, entity=0x0B, instance=1),
            EmulatedControllerLocator(name='AMC 1', address=0x72, instance=0x61),
            EmulatedFruLocator(name='AMC FRU', fru_id=0, address=0x72, entity=AMC, instance=0x61),
        ),
        longest=20,
    ).join(bmc)
    return lan.add(SessionEndpoint(bmc, users))


@pytest.fixture
def ipmitool(port, tmp_path):
    """It, logged in as administrator."""
    return Ipmitool(port, tmp_path, password=PASSWORD)


def boards(out):
    """Description to board serial."""
    parts = [part.splitlines() for part in out.split('FRU Device Description')[1:]]
    pairs = [[line.split(':', 1)[1].strip() for line in part if line.startswith((' :', ' Board Serial'))] for part in parts]
    return dict(pairs)


def test_ipmitool_prints_each_board_from_where_it_is(ipmitool):
    """FRU 0 at 72h is not FRU 0 of the BMC."""
    out = ipmitool.right('fru', 'print').out
    expected = {'Builtin FRU Device (ID 0)': 'MB-1', 'Card 3 (ID 3)': 'CARD-1', 'AMC 1': 'AMC-9', 'AMC FRU (ID 0)': 'AMC-9'}
    assert expected == boards(out)
    for line in (
        'Board Mfg Date        : Mon May  6 07:08:00 2024',
        'Chassis Serial        : CHS-1',
        'Product Asset Tag     : tag',
        'Product Version       : R1',
    ):
        assert line in out


def test_ipmitool_lists_the_locators(ipmitool):
    """In parts of at most 20 bytes, under a reservation."""
    lines = [[word.strip() for word in line.split('|')] for line in ipmitool.right('sdr', 'elist', 'all').out.splitlines()]
    expected = [
        ['Card 3', '00h', 'ns', '11.1', 'Logical FRU @03h'],
        ['AMC 1', '00h', 'ok', '193.97', 'Dynamic MC @ 72h'],
        ['AMC FRU', '00h', 'ns', '193.97', 'Logical FRU @00h'],
    ]
    assert expected == lines


def test_ipmitool_reaches_a_controller_behind_and_one_further(ipmitool):
    """-t is one level, -T and -t are two; who is not there is not there."""
    assert '17' == ipmitool.right('-t', '0x72', '-b', '0', 'mc', 'info').fields['Device ID']
    assert '19' == ipmitool.right('-T', '0x82', '-B', '0', '-t', '0x74', '-b', '7', 'mc', 'info').fields['Device ID']
    assert 'AMC-9' in ipmitool.right('-t', '0x72', '-b', '0', 'fru', 'print', '0').out
    absent = ipmitool('-t', '0x76', '-b', '0', 'mc', 'info')
    assert (1, True) == (absent.code, '0x83' in absent.err)


def test_ipmitool_reads_and_writes_a_whole_inventory(ipmitool, tmp_path):
    """What it wrote is there, byte for byte."""
    file = tmp_path / 'fru'
    ipmitool.right('fru', 'read', '3', str(file))
    assert CARD == file.read_bytes()
    other = CARD.replace(b'CARD-1', b'CARD-2').replace(b'FP-1', b'FP-0')
    file.write_bytes(other)
    ipmitool.right('fru', 'write', '3', str(file))
    ipmitool.right('fru', 'read', '3', str(tmp_path / 'again'))
    assert other == (tmp_path / 'again').read_bytes()


@pytest.mark.parametrize('suite', [3, 17])
def test_freeipmi_prints_the_boards(port, suite, tmp_path):
    """ipmi-fru with bridging: three serials, and the record of PICMG."""
    config = tmp_path / 'freeipmi.conf'
    config.touch(mode=0o600)
    config.write_text(f'username admin\npassword "{PASSWORD}"\ndriver-type LAN_2_0\ncipher-suite-id {suite}\n')
    cache = ['--sdr-cache-directory', str(tmp_path), '--quiet-cache']
    said = run(program('ipmi-fru'), '--config-file', str(config), '-h', f'127.0.0.1:{port}', '--bridge-fru', *cache)
    assert 0 == said.code, said
    serials = [line.split(':')[1].strip() for line in said.out.splitlines() if 'Board Serial' in line]
    assert ['MB-1', 'CARD-1', 'AMC-9'] == serials
    assert 'FRU OEM Manufacturer ID: PICMG (315Ah)' in said.out
    assert 'FRU OEM Data: 16h 00h 20h' in said.out
