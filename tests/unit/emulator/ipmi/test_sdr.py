# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Locators have the layout of IPMI 2.0, section 43, written by hand here, and are read in parts under a reservation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baremetal_acc.emulator.ipmi.controller import LAN, STORAGE, CommandRequest, EmulatedController
from baremetal_acc.emulator.ipmi.sdr import AMC, EmulatedControllerLocator, EmulatedFruLocator, Repository

FRU = bytes.fromhex('0100 51 11 11 20 03 80 00 00 10 00 0b 01 00 c6') + b'Card 3'
MC = bytes.fromhex('0200 51 12 10 72 00 00 08 000000 c1 61 00 c5') + b'AMC 1'
BEHIND = bytes.fromhex('0300 51 11 0b 72 00 80 70 00 10 00 c1 61 00 c0')


def ask(controller, command, data=b''):
    """Completion code and data, as one."""
    return controller.answer(CommandRequest(channel=LAN, netfn=STORAGE, command=command, data=data)).wire


def bmc(longest=64):
    controller = EmulatedController()
    Repository(
        (
            EmulatedFruLocator(name='Card 3', fru_id=3, entity=0x0B, instance=1),
            EmulatedControllerLocator(name='AMC 1', address=0x72, instance=0x61),
            EmulatedFruLocator(name='', fru_id=0, address=0x72, channel=7, entity=AMC, instance=0x61),
        ),
        longest=longest,
    ).join(controller)
    return controller


def wanted(record, start=0, count=0xFF, reservation=0):
    return reservation.to_bytes(2, 'little') + record.to_bytes(2, 'little') + bytes((start, count))


def test_the_records_are_read_one_after_the_other():
    """0 is the first, FFFFh the last and also what follows it."""
    controller = bmc()
    assert b'\0\2\0' + FRU == ask(controller, 0x23, wanted(0))
    assert b'\0\3\0' + MC == ask(controller, 0x23, wanted(2))
    assert b'\0\xff\xff' + BEHIND == ask(controller, 0x23, wanted(3))
    assert b'\0\xff\xff' + BEHIND == ask(controller, 0x23, wanted(0xFFFF))
    assert b'\xcb' == ask(controller, 0x23, wanted(4))
    assert bytes.fromhex('00 51 0300 0000 00000000 00000000 02') == ask(controller, 0x20)


def test_a_part_needs_a_reservation_and_the_latest_counts():
    """The header does not; C5h cancels, CAh is too much at once, C9h beyond the end. A reset cancels."""
    controller = bmc(longest=16)
    assert b'\0\2\0' + FRU[:5] == ask(controller, 0x23, wanted(1, 0, 5))
    assert b'\xc5' == ask(controller, 0x23, wanted(1, 5, 5))
    assert b'\0\1\0' == ask(controller, 0x22)
    assert b'\0\2\0' + FRU[5:21] == ask(controller, 0x23, wanted(1, 5, 16, 1))
    assert b'\0\2\0' + FRU[20:] == ask(controller, 0x23, wanted(1, 20, 16, 1))
    assert b'\xca' == ask(controller, 0x23, wanted(1, 0, 17, 1))
    assert b'\xca' == ask(controller, 0x23, wanted(1))
    assert b'\xc9' == ask(controller, 0x23, wanted(1, 22, 1, 1))
    assert b'\0\2\0' == ask(controller, 0x22)
    assert b'\xc5' == ask(controller, 0x23, wanted(1, 0, 5, 1))
    controller.answer(CommandRequest(channel=LAN, netfn=6, command=2))
    assert b'\xc5' == ask(controller, 0x23, wanted(1, 5, 5, 2))
    assert b'\0\3\0' == ask(controller, 0x22)


def test_a_name_that_no_record_holds_is_said():
    """Sixteen bytes."""
    controller = EmulatedController()
    with pytest.raises(ValueError, match='16 bytes'):
        assert EmulatedFruLocator(name='x' * 17, fru_id=0, entity=1, instance=1).body
    Repository(()).join(controller)
    assert b'\xcb' == ask(controller, 0x23, wanted(0))
    assert b'\xcb' == ask(controller, 0x23, wanted(0xFFFF))


@given(command=st.sampled_from([0x20, 0x22, 0x23]), data=st.binary(max_size=8))
def test_any_request_is_answered(command, data):
    """With one of the codes there are."""
    assert ask(bmc(), command, data)[0] in {0, 0xC5, 0xC7, 0xC9, 0xCA, 0xCB}


def writable():
    controller = EmulatedController()
    Repository((EmulatedFruLocator(name='Card 3', fru_id=3, entity=0x0B, instance=1),), writable=True).join(controller)
    return controller


def test_records_are_added_in_one_piece_or_in_several():
    """The repository numbers them; what is read is what was written; a reservation ends with each."""
    controller = writable()
    assert bytes.fromhex('00 51 0100 0040 00000000 00000000 0e') == ask(controller, 0x20)
    assert b'\0\2\0' == ask(controller, 0x24, b'\0\0' + MC[2:])
    assert b'\0\xff\xff' + MC == ask(controller, 0x23, wanted(2))
    assert b'\xc5' == ask(controller, 0x25, b'\0\0\0\0\0\0' + BEHIND)
    ask(controller, 0x22)
    assert b'\0\3\0' == ask(controller, 0x25, b'\1\0\0\0\0\0' + BEHIND[:7])
    assert b'\xc9' == ask(controller, 0x25, b'\1\0\3\0\x06\0' + BEHIND[6:])
    assert b'\0\3\0' == ask(controller, 0x25, b'\1\0\3\0\x07\1' + BEHIND[7:])
    assert b'\0\xff\xff' + BEHIND == ask(controller, 0x23, wanted(3))
    assert bytes.fromhex('00 51 0300 0040 02000000 00000000 0e') == ask(controller, 0x20)
    assert b'\xc5' == ask(controller, 0x25, b'\1\0\0\0\0\0' + BEHIND)


def test_a_record_whose_length_is_wrong_is_refused():
    """80h, in both ways; nothing is added."""
    controller = writable()
    assert [b'\x80', b'\x80'] == [ask(controller, 0x24, b'\0\0' + record) for record in (MC[2:-1], MC[2:] + b'x')]
    ask(controller, 0x22)
    assert b'\x80' == ask(controller, 0x25, b'\1\0\0\0\0\1' + MC[:-1])
    assert 1 == ask(controller, 0x20)[2]


def test_records_are_deleted_and_cleared():
    """Under a reservation; the locator of a card is gone then, for everybody."""
    controller = writable()
    ask(controller, 0x24, b'\0\0' + MC[2:])
    assert [b'\xc5', b'\xc5'] == [ask(controller, 0x26, b'\1\0\1\0'), ask(controller, 0x27, b'\1\0CLR\xaa')]
    ask(controller, 0x22)
    assert [b'\xcb', b'\0\1\0', b'\xc5'] == [ask(controller, 0x26, b'\1\0' + which) for which in (b'\x09\0', b'\1\0', b'\2\0')]
    assert b'\0\xff\xff' + MC == ask(controller, 0x23, wanted(0))
    assert b'\0\2\0' == ask(controller, 0x22)
    assert [b'\xcc', b'\xcc'] == [ask(controller, 0x27, b'\2\0' + what) for what in (b'CLX\xaa', b'CLR\x01')]
    assert [b'\0\1', b'\0\1'] == [ask(controller, 0x27, b'\2\0CLR' + what) for what in (b'\xaa', b'\0')]
    assert b'\xcb' == ask(controller, 0x23, wanted(0))


def test_a_repository_that_is_not_writable_has_no_such_commands():
    """C1h."""
    assert {b'\xc1'} == {ask(bmc(), command, bytes(8)) for command in (0x24, 0x25, 0x26, 0x27)}


@given(command=st.sampled_from([0x22, 0x24, 0x25, 0x26, 0x27]), data=st.binary(max_size=300))
def test_any_write_is_answered(command, data):
    """With one of the codes there are."""
    assert ask(writable(), command, data)[0] in {0, 0x80, 0xC5, 0xC7, 0xC9, 0xCB, 0xCC}
