# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Interference by somebody else with a job, and the hosts that a job holds off."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from baremetal_acc.model.ref import AcceleratorId, Ref


class InterferenceKind(StrEnum):
    """What shows that somebody else interfered with a job.

    ``host-on``: a host that the job holds off is on. ``host-reset``: that host was reset since it was read off.
    ``ramdisk-reset``: a host that ran the operator's ramdisk was reset by somebody else, and it is unknown what it runs.
    ``firmware`` and ``function``: a card shows another version than the one that the plan expects. ``lock``: a lock is open
    that was closed, on a host that may have run since.
    """

    HOST_ON = 'host-on'
    HOST_RESET = 'host-reset'
    RAMDISK_RESET = 'ramdisk-reset'
    FIRMWARE = 'firmware'
    FUNCTION = 'function'
    LOCK = 'lock'


@dataclass(frozen=True, slots=True, kw_only=True)
class Interference:
    """Cards that somebody else may have written while a job held them open. Earlier writes to them count for nothing.

    :ivar accelerators: the cards that were not known to be closed then.
    :ivar ref: the resource that showed it: the System, the lock, or the component of a card that has another version.
    :ivar expected: what the job had left or expected, as the BMC wrote it; ``found`` what was found.
    """

    kind: InterferenceKind
    accelerators: frozenset[AcceleratorId]
    at: datetime
    ref: Ref
    expected: str | None = None
    found: str | None = None

    def __str__(self) -> str:
        what = {
            InterferenceKind.HOST_ON: f'the host must stay off, but {self.ref} is {self.found}',
            InterferenceKind.HOST_RESET: (
                f'the host must stay off, but has run: the last reset of {self.ref} was at {self.expected}, and is at '
                f'{self.found} now'
            ),
            InterferenceKind.RAMDISK_RESET: (
                f"the host ran the operator's ramdisk, but was reset: the last reset of {self.ref} was at {self.expected}, and "
                f'is at {self.found} now'
            ),
            InterferenceKind.FIRMWARE: f'{self.ref} has version {self.found}, but {self.expected} is expected',
            InterferenceKind.FUNCTION: f'{self.ref} has version {self.found}, but {self.expected} is expected',
            InterferenceKind.LOCK: f'the lock at {self.ref} is {self.found}, and the host may have run since it was engaged',
        }[self.kind]
        cards = ', '.join(sorted(self.accelerators)) or 'no card'
        return f'somebody else may have written {cards} during the job: {what}'


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOff:
    """A System that a job holds off, with its first reading as off, which later shows whether the System has run since.

    :ivar last_reset: see :class:`~baremetal_acc.model.inventory.HostReading`; None: only a reading that finds the System on
        shows it.
    :ivar once: the System was read only once, so that its time of the last reset may still change by that very power-off.
    """

    system: Ref
    at: datetime
    last_reset: str | None = None
    once: bool = False
