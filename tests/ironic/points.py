# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The number of times that the node is saved in each flow of the crash tests. A test of each flow counts the saves again."""

import os

FLASH = 45
RESTORE = 48
SERVICE = 46
RECOVERY = 13
ATTACH = 75

STEPS = {FLASH: 3, RESTORE: 4, SERVICE: 4, RECOVERY: 2}
"""Of each flow ``make test`` takes every second to fourth save: what the others have is much the same as what a flash has."""


def step_of(points: int) -> int:
    """How far apart the saves are at which a crash is tried."""
    return 1 if os.environ.get('BAREMETAL_ACC_SOAK') else STEPS[points]


LEFT = sum(2 * (points - len(range(1, points + 1, step))) for points, step in STEPS.items()) + 2 * (ATTACH - 1)
"""Crashes that are left out so, and those of an instance's regions, of which the one in the middle is tried."""

TWICE = 2 * (FLASH - 1)
"""Tests of a second death that ``make test`` leaves out."""
