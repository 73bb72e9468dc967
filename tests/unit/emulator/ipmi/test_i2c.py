# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Master Write-Read reaches what is on a bus, and no more of it than there is."""

import pytest

from baremetal_acc.emulator.ipmi.controller import APP, EmulatedController, EmulatedPrivilege
from baremetal_acc.emulator.ipmi.i2c import Buses, Eeprom
from tests.unit.emulator.ipmi.machines import ask


@pytest.fixture
def bmc():
    controller = EmulatedController()
    controller.content = bytearray(range(200))
    controller.eeprom = Eeprom(controller.content)
    Buses({(0x03, 0xA0): controller.eeprom, (0x03, 0xA4): Eeprom(bytearray(b'abcd'), address_bytes=1)}).join(controller)
    return controller


def test_an_eeprom_is_written_and_read_from_a_place_on(bmc):
    """Two address bytes, or one; a read without a place goes on where the last one ended, and round at the end."""
    assert b'\0\x10\x11' == ask(bmc, APP, 0x52, bytes((3, 0xA0, 2, 0, 0x10)))
    assert b'\0\x12' == ask(bmc, APP, 0x52, bytes((3, 0xA0, 1)))
    assert b'\0' == ask(bmc, APP, 0x52, bytes((3, 0xA0, 0, 0, 198)) + b'xyz')
    assert (b'xy', b'z\1') == (bytes(bmc.content[198:]), bytes(bmc.content[:2]))
    assert b'\0cdab' == ask(bmc, APP, 0x52, bytes((3, 0xA4, 4, 2)))


@pytest.mark.parametrize(
    ('data', 'code'),
    [
        (bytes((3, 0xA2, 1)), 0x83),
        (bytes((1, 0xA0, 1)), 0x83),
        (bytes((3, 0xA1, 1)), 0xCC),
        (bytes((3, 0xA0, 65)), 0xCA),
        (bytes((3, 0xA0, 0)) + bytes(65), 0xC8),
        (bytes((3, 0xA0)), 0xC7),
    ],
)
def test_what_cannot_be_transferred_is_refused(bmc, data, code):
    """Nobody there, no address, too much at once."""
    before = bytes(bmc.content)
    assert bytes((code,)) == ask(bmc, APP, 0x52, data)
    assert before == bmc.content


def test_a_protected_eeprom_takes_nothing(bmc):
    """It can be read."""
    bmc.eeprom.protected = True
    assert [b'\x83', b'\0\5'] == [ask(bmc, APP, 0x52, bytes((3, 0xA0)) + rest) for rest in (b'\0\0\5x', b'\1\0\5')]


def test_only_administrators_reach_the_buses(bmc):
    """D4h below."""
    assert b'\xd4' == ask(bmc, APP, 0x52, bytes((3, 0xA0, 1)), privilege=EmulatedPrivilege.OPERATOR)


@pytest.mark.parametrize(('content', 'address'), [(b'', 1), (bytes(257), 1), (b'x', 3)])
def test_no_eeprom_is_made_that_could_not_be_addressed(content, address):
    """A mistake of whoever sets the emulator up."""
    with pytest.raises(ValueError, match='EEPROM'):
        Eeprom(bytearray(content), address_bytes=address)
