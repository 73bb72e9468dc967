# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""FRU inventories have the layout of the standard, written by hand here, and are read and written piece by piece."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baremetal_acc.emulator.ipmi.controller import LAN, STORAGE, CommandRequest, EmulatedController, EmulatedPrivilege
from baremetal_acc.emulator.ipmi.fru import (
    ChassisInfo,
    EmulatedBoardArea,
    EmulatedProductArea,
    FruDevices,
    inventory,
    picmg_record,
)


def ask(controller, command, data=b'', **more):
    """Completion code and data, as one."""
    return controller.answer(CommandRequest(channel=LAN, netfn=STORAGE, command=command, data=data, **more)).wire


def bmc(**more):
    controller = EmulatedController()
    devices = FruDevices({0: bytes(range(100)), 7: b'x' * 300}, **more)
    devices.join(controller)
    return controller, devices


BOARD = EmulatedBoardArea(
    manufacturer='ACME', name='Card', serial='S1', part_number='P-1', made=datetime(1996, 1, 1, 1, 1, tzinfo=UTC), custom=('v',)
)
BOARD_BYTES = bytes.fromhex('01 04 19 3d0000 c4 41434d45 c4 43617264 c2 5331 c3 502d31 c0 c2 7620 c1 000000')


def summed(data):
    return data + bytes((-sum(data) % 256,))


def test_a_board_alone():
    """Header, board area at 8, padded to a multiple of 8; 61 minutes after 1996; a single character gets a blank."""
    assert 0 == (len(BOARD_BYTES) + 1) % 8
    expected = summed(bytes.fromhex('01 00 00 01 00 00 00')) + summed(BOARD_BYTES)
    assert expected == inventory(board=BOARD, size_bytes=0)
    assert expected.ljust(128, b'\xff') == inventory(board=BOARD, size_bytes=128)


def test_all_areas_one_behind_the_other():
    """Offsets count in units of 8 bytes; the last record says so."""
    chassis = summed(bytes.fromhex('01 02 17 c2 4331 c2 4332 c1 00 00 00 00 00'))
    product = summed(bytes.fromhex('01 03 19 c2 4d4d c2 4e4e c2 5050 c2 5656 c2 5353 c0 c0 c1 0000'))
    first = summed(bytes.fromhex('c0 02 06') + bytes((-(0x5A + 0x31 + 0x16 + 0x20) % 256,))) + bytes.fromhex('5a3100 16 00 20')
    last = summed(bytes.fromhex('c0 82 05') + bytes((-(0x5A + 0x31 + 0x2D) % 256,))) + bytes.fromhex('5a3100 2d 00')
    assert [16, 24] == [len(chassis), len(product)]
    made = inventory(
        chassis=ChassisInfo(part_number='C1', serial='C2'),
        board=BOARD,
        product=EmulatedProductArea(manufacturer='MM', name='NN', part_number='PP', version='VV', serial='SS'),
        records=(picmg_record(0x16, b'\x20'), picmg_record(0x2D, b'')),
        size_bytes=0,
    )
    header = summed(bytes((1, 0, 1, 3, 7, 10, 0)))
    assert header + chassis + summed(BOARD_BYTES) + product + first + last == made


@pytest.mark.parametrize(
    'what',
    [
        lambda: inventory(board=EmulatedBoardArea(manufacturer='x' * 64, name='', serial='', part_number='')),
        lambda: inventory(
            board=EmulatedBoardArea(manufacturer='', name='', serial='', part_number='', custom=('x' * 60,) * 40)
        ),
        lambda: inventory(records=((0xC0, bytes(256)),)),
        lambda: inventory(
            chassis=ChassisInfo(part_number='', serial='', custom=('x' * 60,) * 32),
            board=EmulatedBoardArea(manufacturer='', name='', serial='', part_number='', custom=('x' * 60,) * 32),
            product=EmulatedProductArea(manufacturer='', name='', part_number='', version='', serial=''),
        ),
        lambda: FruDevices({0: bytes(65536)}),
    ],
)
def test_what_does_not_fit_is_said(what):
    """To whoever makes an emulated machine."""
    with pytest.raises(ValueError, match='bytes'):
        what()


def test_it_is_read_piece_by_piece():
    """Size, bytes counted; the end is cut, beyond is C9h, more than one answer holds is CAh."""
    controller, _ = bmc(longest=32)
    assert bytes((0, 100, 0, 0)) == ask(controller, 0x10, b'\0')
    assert bytes((0, 0x2C, 1, 0)) == ask(controller, 0x10, b'\7')
    assert bytes((0, 3, 10, 11, 12)) == ask(controller, 0x11, bytes((0, 10, 0, 3)))
    assert bytes((0, 1, 99)) == ask(controller, 0x11, bytes((0, 99, 0, 32)))
    assert b'\0\1x' == ask(controller, 0x11, bytes((7, 0x2B, 1, 5)))
    assert b'\xc9' == ask(controller, 0x11, bytes((0, 100, 0, 1)))
    assert b'\xca' == ask(controller, 0x11, bytes((0, 0, 0, 33)))
    assert b'\xcb' == ask(controller, 0x11, bytes((1, 0, 0, 1)))
    assert b'\xcb' == ask(controller, 0x10, b'\1')


def test_what_is_written_stands_there():
    """Whole or not at all; protected is 80h; only an administrator may."""
    controller, devices = bmc()
    assert b'\0\2' == ask(controller, 0x12, bytes((0, 98, 0)) + b'ab')
    assert b'\0\2ab' == ask(controller, 0x11, bytes((0, 98, 0, 2)))
    assert b'\xc9' == ask(controller, 0x12, bytes((0, 99, 0)) + b'cd')
    assert b'\xd4' == ask(controller, 0x12, bytes((0, 0, 0)) + b'ef', privilege=EmulatedPrivilege.OPERATOR)
    assert b'\xc8' == ask(controller, 0x12, bytes((7, 0, 0)) + bytes(256))
    devices.protected.add(0)
    assert b'\x80' == ask(controller, 0x12, bytes((0, 0, 0)) + b'gh')
    assert bytes(range(98)) + b'ab' == devices.contents[0]
    assert b'x' * 300 == devices.contents[7]


@given(command=st.sampled_from([0x10, 0x11, 0x12]), data=st.binary(max_size=12))
def test_any_request_is_answered(command, data):
    """With one of the codes there are, and the size never changes."""
    controller, devices = bmc()
    assert ask(controller, command, data)[0] in {0, 0xC7, 0xC9, 0xCA, 0xCB}
    assert [100, 300] == [len(content) for content in devices.contents.values()]
