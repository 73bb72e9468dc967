# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What an emulated HPM.1 controller is able to do, how long it takes, and its habits that differ from the standard."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from baremetal_acc.emulator.ipmi.controller import IPMB, LAN, SYSTEM, EmulatedCode
from baremetal_acc.emulator.ipmi.hpm_commands import IN_PROGRESS, SELF_TEST_FAILED

_GENERAL_FAILURE = 0x02


class Backup(IntEnum):
    """How a component is backed up, as bits 0 and 1 of its general properties say."""

    NONE = 0
    BY_COMMAND = 1
    BY_ITSELF = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class HpmPart:
    """A component of HPM.1.

    :ivar key: the key of the component of the machine.
    :ivar prepares: the component has to be erased before an upload.
    :ivar deferred: an uploaded image survives a restart of the controller, and its version is reported.
    :ivar restarts: the controller restarts when the component is activated.
    :ivar flash_bytes: the longest image.
    :ivar oem: further properties, by selector from C0h on.
    :ivar sections: positions in the image (bytes received so far) at which the controller requests a section, by offset and
        length.
    """

    key: str
    name: str
    backup: Backup = Backup.BY_ITSELF
    prepares: bool = True
    compares: bool = True
    deferred: bool = False
    restarts: bool = False
    flash_bytes: int = 64 * 1024 * 1024
    oem: Mapping[int, bytes] = field(default_factory=dict)
    sections: Mapping[int, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """How many seconds actions take; an action that takes none is finished when it is answered."""

    back_up: float = 0.0
    erase: float = 0.0
    block: float = 0.0
    finish: float = 0.0
    activate: float = 0.0
    self_test: float = 0.0
    roll_back: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ability:
    """The abilities and deviations of a controller.

    :ivar override: the automatic rollback can be overridden by Activate Firmware.
    :ivar undesirable: the controller reports that an upgrade is undesirable now, and refuses Initiate Upgrade Action with D5h.
    :ivar block_bytes: the longest block, by the channel that it comes through.
    :ivar too_long: the code by which longer blocks are refused.
    :ivar while_uploading: the code by which Initiate Upgrade Action is refused while an upload is open; None: a new upload
        begins.
    :ivar tells_percent: Get Upgrade Status and Query Rollback Status have a percentage.
    :ivar counts_in_a_byte: no block is too long: of a block of 300 bytes 44 are taken, and the error shows only at Finish.
    :ivar repeated: the code by which a repeated block is refused; None: the block is recognised as a repetition.
    :ivar page_bytes: a block that fills a page of the flash is answered with 80h, though it is already written; None: no block
        is.
    :ivar activates_at_finish: the uploaded image comes in force when Finish is answered, for which the controller restarts.
    :ivar untested: the answer of Query Self-test Results where there is no self-test; None: it is refused with D5h.
    :ivar busy_when_done: the controller executes Activate and Manual Rollback and answers C0h: its BMC repeated the command on
        the bus, and the client gets the answer to the repetition.
    :ivar refuses_backup: a backup of a component that is backed up automatically is refused: CCh for Initiate Upgrade Action.
    """

    self_test: bool = True
    automatic_rollback: bool = False
    manual_rollback: bool = True
    services_affected: bool = False
    degraded: bool = False
    override: bool = False
    undesirable: bool = False
    block_bytes: Mapping[int, int] = field(default_factory=lambda: {LAN: 200, IPMB: 23, SYSTEM: 64})
    too_long: int = EmulatedCode.LENGTH_INVALID
    while_uploading: int | None = IN_PROGRESS
    tells_percent: bool = True
    counts_in_a_byte: bool = False
    repeated: int | None = None
    page_bytes: int | None = None
    activates_at_finish: bool = False
    untested: bytes | None = None
    busy_when_done: bool = False
    refuses_backup: bool = False


HABITS: Mapping[str, Mapping[str, Any]] = {
    'length-modulo-256': {'counts_in_a_byte': True},
    'refuses-repeats': {'repeated': EmulatedCode.INVALID_FIELD},
    'pages-in-progress': {'page_bytes': 256},
    'activates-at-finish': {'activates_at_finish': True},
    'undesirable': {'undesirable': True},
    'untested': {'self_test': False, 'untested': bytes((SELF_TEST_FAILED, _GENERAL_FAILURE))},
    'busy-when-done': {'busy_when_done': True},
    'refuses-backup': {'refuses_backup': True},
}
"""Deviations of controllers from the standard, or from what clients expect: fields of :class:`Ability`, by name."""
