# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""IPMI entity ids and device types of SDR locators, and which of them can be an accelerator card.

An entity that is not listed here may be a card: a processor, a module, a bay or an OEM entity may be a GPU or an FPGA.

Source: IPMI 2.0 revision 1.1, tables 43-12 (device types and their modifiers) and 43-13 (entities); AMC.0 R2.0 (C1h).
"""

CARDS = frozenset({0x0B, 0xC1})
"""Entity ids: add-in card, AMC."""

_POWER_AND_COOLING = frozenset({0x0A, 0x0E, 0x13, 0x14, 0x15, 0x1D, 0x1E, 0x28})
"""Entity ids: power supply, power system board, power unit, power module, power management board, fan,
cooling unit, battery.
"""

_STORAGE = frozenset({0x04, 0x0F, 0x1A})
"""Entity ids: disk, drive backplane, drive bay."""

_MEMORY = frozenset({0x08, 0x20})
"""Entity ids: memory module, memory device."""

_BOARDS = frozenset({0x07, 0x0C, 0x0D, 0x16, 0x17, 0x42})
"""Entity ids of the server itself: system board, front panel, back panel, chassis back panel, chassis, baseboard by DCMI."""

_NOT_BOARDS = frozenset({0x1F, 0x21, 0x22, 0x23, 0x24, 0x27, 0x35, 0x37, 0x40})
"""Entity ids: cable, software, firmware, operating system, bus, environment, clock, air inlet."""

_WITHOUT_CARDS = _POWER_AND_COOLING | _STORAGE | _MEMORY
_NO_CARDS = _WITHOUT_CARDS | _BOARDS | _NOT_BOARDS

_EEPROMS = range(0x08, 0x11)
"""Device types: serial EEPROMs, and FRU devices behind a controller (10h)."""

_NO_FRU_DATA = frozenset({0x01, 0x03})
"""Device type modifiers of these: the SPD of a DIMM, and the information ROM of a processor."""


def may_be_card(entity: int | None, device_type: int | None = None, modifier: int | None = None) -> bool:
    """Whether an FRU may be that of a card.

    :param entity: entity id; None: not reported.
    """
    if entity in CARDS:
        return True  # even where the modifier says otherwise: one of the two is wrong
    if device_type in _EEPROMS and modifier in _NO_FRU_DATA:
        return False
    return entity not in _NO_CARDS


def may_know_cards(entity: int | None) -> bool:
    """Whether a controller may have cards, or refer to some. A controller on a system board may."""
    return entity not in _WITHOUT_CARDS
