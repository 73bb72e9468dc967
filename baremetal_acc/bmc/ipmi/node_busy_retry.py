# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Retry IPMI reads that a controller refuses because it is busy (node busy), with a time limit for a whole inspection.

An inspection sends hundreds of commands, and its result decides whether a machine is handed over: one "busy" must not count as
a card that cannot be read. Commands that may be sent only once are not retried. All retries of one inspection together have a
short time limit.

Source: IPMI 2.0 revision 1.1, table 5-2 (C0h, node busy; C3h, timeout while processing the command; D0h, SDRs are being
updated; D2h, initialisation in progress), tables 34-2 and 34-3 (81h, FRU device busy).
"""

import time
from collections.abc import Callable
from datetime import timedelta

from baremetal_acc import wait
from baremetal_acc.bmc.ipmi.command import FRU_BUSY, FRU_INFO, FRU_READ, CommandReply, CompletionCode, NetFn, Raw

MOST = timedelta(seconds=5)
"""Maximum wait of one inspection. Controllers that are busy with something else answer so for a second or two."""

_FIRST, _LAST = 0.1, 1.0
"""First and longest pause between two attempts, in seconds."""

_LATER = frozenset({CompletionCode.BUSY, CompletionCode.TIMEOUT, CompletionCode.SDR_UPDATE_MODE, CompletionCode.INITIALISING})
_FRU_COMMANDS = frozenset({FRU_INFO, FRU_READ})


def later(netfn: int, command: int, code: int) -> bool:
    """Whether a completion code refuses a command for the moment only."""
    return code in _LATER or (code == FRU_BUSY and netfn == NetFn.STORAGE and command in _FRU_COMMANDS)


class NodeBusyRetry:
    """Time that all reads of one inspection may still spend waiting for busy controllers.

    :ivar left: seconds.
    """

    def __init__(
        self,
        most: timedelta = MOST,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = wait.sleep,
    ) -> None:
        self.left = most.total_seconds()
        self._clock = clock
        self._sleep = sleep

    def wait(self, seconds: float) -> bool:
        """Wait that long, or for the time that is left; False if no time was left."""
        if self.left <= 0:
            return False
        began = self._clock()
        self._sleep(min(seconds, self.left))
        self.left -= max(self._clock() - began, 0.001)
        return True


class RetryingCommands:
    """A :class:`~baremetal_acc.bmc.ipmi.command.Raw` that retries commands while the controller is busy."""

    def __init__(self, raw: Raw, patience: NodeBusyRetry) -> None:
        self.label = raw.label
        self.longest = raw.longest
        self._raw = raw
        self._patience = patience

    def __call__(
        self, netfn: int, command: int, data: bytes = b'', *, lun: int = 0, once: bool = False, within: timedelta | None = None
    ) -> CommandReply:
        """Send a command; retry it while the controller is busy and time is left, unless it may be sent only once.

        :raises BmcError: as by :class:`~baremetal_acc.bmc.ipmi.command.Raw`.
        """
        pause = _FIRST
        while True:
            reply = self._raw(netfn, command, data, lun=lun, once=once, within=within)
            if once or not later(netfn, command, reply.code) or not self._patience.wait(pause):
                return reply
            pause = min(2 * pause, _LAST)
