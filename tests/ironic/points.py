# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How often is the node saved in each flow in which a crash is tried? A test of each flow counts anew."""

FLASH = 44
RESTORE = 46
SERVICE = 45
RECOVERY = 13
ATTACH = 71

TWICE = 2 * (FLASH - 1)
"""Tests of a second death that ``make test`` leaves out."""
