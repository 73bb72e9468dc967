# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What a locator says that its FRU or its controller is, and whether that can be a card.

What is not named here may be one: a processor, a module, a bay or an OEM's entity may be a GPU or an FPGA.

Source: IPMI 2.0 revision 1.1, tables 43-12 (device types and their modifiers) and 43-13 (entities); AMC.0 R2.0 (C1h).
"""

CARDS = frozenset({0x0B, 0xC1})
"""Add-in card, AMC."""

_POWER_AND_COOLING = frozenset({0x0A, 0x0E, 0x13, 0x14, 0x15, 0x1D, 0x1E, 0x28})
"""Power supply, power system board, power unit, power module, power management board, fan, cooling unit, battery."""

_STORAGE = frozenset({0x04, 0x0F, 0x1A})
"""Disk, drive backplane, drive bay."""

_MEMORY = frozenset({0x08, 0x20})
"""Memory module, memory device."""

_BOARDS = frozenset({0x07, 0x0C, 0x0D, 0x16, 0x17, 0x42})
"""Of the server itself: system board, front panel, back panel, chassis back panel, chassis, baseboard by DCMI."""

_NOT_BOARDS = frozenset({0x1F, 0x21, 0x22, 0x23, 0x24, 0x27, 0x35, 0x37, 0x40})
"""Cable, software, firmware, operating system, bus, environment, clock, air inlet."""

_WITHOUT_CARDS = _POWER_AND_COOLING | _STORAGE | _MEMORY
_NO_CARDS = _WITHOUT_CARDS | _BOARDS | _NOT_BOARDS

_EEPROMS = range(0x08, 0x11)
"""Device types: serial EEPROMs, and FRU devices behind a controller (10h)."""

_NO_FRU_DATA = frozenset({0x01, 0x03})
"""Modifiers of those: the SPD of a DIMM, and the information ROM of a processor."""


def may_be_card(entity: int | None, device_type: int | None = None, modifier: int | None = None) -> bool:
    """Whether an FRU may be that of a card.

    :param entity: None: nobody says.
    """
    if entity in CARDS:
        return True  # even where the modifier says otherwise: one of the two is wrong
    if device_type in _EEPROMS and modifier in _NO_FRU_DATA:
        return False
    return entity not in _NO_CARDS


def may_know_cards(entity: int | None) -> bool:
    """Whether a controller may have cards, or speak of some. That of a system board may."""
    return entity not in _WITHOUT_CARDS
