# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Command numbers and codes of HPM.1 and HPM.2, and the events of an emulated controller.

Source: PICMG HPM.1 R1.0, section 3.
"""

PICMG_BODY = b'\0'
"""The body code of PICMG."""

CAPABILITIES, PROPERTIES, ABORT, INITIATE, BLOCK, FINISH, STATUS = 0x2E, 0x2F, 0x30, 0x31, 0x32, 0x33, 0x34
ACTIVATE, SELF_TEST, ROLLBACK_STATUS, ROLL_BACK, HPM_X = 0x35, 0x36, 0x37, 0x38, 0x3E

IN_PROGRESS = 0x80
"""Completion code of a command that takes time."""

OEM_FROM = 0xC0
"""The first OEM selector of component properties, and the first OEM parameter of a LAN."""

SELF_TEST_PASSED, SELF_TEST_FAILED = 0x55, 0x57
"""Results of a self-test."""

EVENT_END, EVENT_ROLLBACK, EVENT_RESTART = 'end', 'undone', 'restart'
"""What the machine carries out later: the end of a command, an automatic rollback, and a restart after Finish."""
