# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What cannot be a card, by what its locator says, hides none. What nobody thought of may be one."""

import pytest

from baremetal_acc.bmc.ipmi.controller_inventory import Fru
from baremetal_acc.bmc.ipmi.controller_path import Hop
from baremetal_acc.bmc.ipmi.entities import may_be_card, may_know_cards

DIMM, PLAIN, ROM = 1, 0, 3


@pytest.mark.parametrize(
    ('entity', 'device_type', 'modifier', 'may'),
    [
        (0x0B, 0x10, PLAIN, True),  # add-in card
        (0xC1, 0x10, PLAIN, True),  # AMC
        (0x0B, 0x10, DIMM, True),  # it contradicts itself
        (0x20, 0x10, DIMM, False),  # memory device
        (0x20, 0x10, PLAIN, False),
        (0x08, 0x10, PLAIN, False),  # memory module
        (0x00, 0x10, DIMM, False),  # by the modifier alone
        (0x00, 0x0C, DIMM, False),  # an EEPROM
        (0x03, 0x10, ROM, False),  # of a processor
        (0x03, 0x10, PLAIN, True),  # a processor may be a GPU
        (0x00, 0x10, 2, True),
        (0x00, 0x20, DIMM, True),  # another device type: the modifier means something else
        (0x00, 0x10, PLAIN, True),
        (None, None, None, True),
        (0x0A, 0x10, PLAIN, False),  # power supply
        (0x0F, 0x10, PLAIN, False),  # drive backplane
        (0x04, 0x10, PLAIN, False),  # disk
        (0x1A, 0x10, PLAIN, False),  # drive bay
        (0x1D, 0x10, PLAIN, False),  # fan
        (0x07, 0x10, PLAIN, False),  # system board
        (0x0C, 0x10, PLAIN, False),  # front panel
        (0x17, 0x10, PLAIN, False),  # chassis
        (0x05, 0x10, PLAIN, True),  # peripheral bay
        (0x10, 0x10, PLAIN, True),  # expansion board
        (0x1C, 0x10, PLAIN, True),  # device bay
        (0x2C, 0x10, PLAIN, True),  # I/O module
        (0xD0, 0x10, PLAIN, True),  # a maker's own
    ],
)
def test_an_fru_is_judged_by_its_locator(entity, device_type, modifier, may):
    """Entity, and of EEPROMs and logical FRU devices the modifier."""
    assert may == may_be_card(entity, device_type, modifier)


def test_fru_0_of_the_bmc_is_the_board_that_the_bmc_is_on():
    """Unless its locator calls it a card; FRU 0 of another controller, and on another LUN, may be one."""
    assert not Fru(path=(), number=0).may_be_card
    assert not Fru(path=(), number=0, entity=0).may_be_card
    assert Fru(path=(), number=0, entity=0xC1).may_be_card
    assert Fru(path=(), number=0, lun=1).may_be_card
    assert Fru(path=(Hop(channel=0, address=0x72),), number=0).may_be_card


def test_controllers_of_power_storage_and_memory_know_no_cards():
    """That of a system board may, and one of which nobody says what it is."""
    assert not any(may_know_cards(entity) for entity in (0x0A, 0x0F, 0x1D, 0x20))
    assert all(may_know_cards(entity) for entity in (None, 0, 0x07, 0x0B, 0x2E, 0xA0, 0xC1, 0xC2))
