# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The command of an emulated HPM.1 controller that is in progress, and Get Upgrade Status."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

from baremetal_acc.emulator.ipmi.controller import CommandRefusal, EmulatedCode
from baremetal_acc.emulator.ipmi.hpm_commands import EVENT_END, IN_PROGRESS
from baremetal_acc.emulator.ipmi.hpm_target import UpgradeTarget


@dataclass(slots=True, kw_only=True)
class _Running:
    """A command that is in progress."""

    id: int
    command: int
    since: float
    seconds: float
    effect: Callable[[], int]


class UpgradeProgress:
    """The command of an HPM.1 controller that is in progress, and the outcome of the last one."""

    def __init__(self, target: UpgradeTarget) -> None:
        self._target = target
        self._ids = itertools.count(1)
        self._running: _Running | None = None
        self._last = (0, 0)

    @property
    def is_busy(self) -> bool:
        """Whether a command is in progress."""
        return self._running is not None

    def is_running(self, *commands: int) -> bool:
        """Whether one of these commands is in progress."""
        return self._running is not None and self._running.command in commands

    def begin(self, command: int, seconds: float, effect: Callable[[], int]) -> bytes:
        """Execute an action at once, or begin it.

        :raises CommandRefusal: 80h where it takes time, or its own code where it has failed at once.
        """
        target = self._target
        if seconds <= 0:
            code = effect()
            self._last = (command, code)
            if code:
                raise CommandRefusal(code)
            return b''
        self._running = _Running(
            id=next(self._ids), command=command, since=target.machine.now(), seconds=seconds, effect=effect
        )
        target.machine.later(seconds, target.name, f'{EVENT_END} {self._running.id}')
        raise CommandRefusal(IN_PROGRESS)

    def end(self, number: int) -> None:
        """Execute the command in progress, if it is still that one."""
        running = self._running
        if running is None or running.id != number:
            return
        self._running = None
        self._last = (running.command, running.effect())

    def stop(self, command: int = 0) -> None:
        """Drop the command in progress; the last one is then ``command``, which has ended well, or none."""
        self._running = None
        self.record(command)

    def record(self, command: int) -> None:
        """Make a command that has ended well the last one."""
        self._last = (command, EmulatedCode.OK)

    def status(self) -> bytes:
        """The answer to Get Upgrade Status."""
        running = self._running
        if running is None:
            return bytes(self._last)
        percent = min(99, int(100 * (self._target.machine.now() - running.since) / running.seconds))
        return bytes((running.command, IN_PROGRESS)) + (bytes((percent,)) if self._target.ability.tells_percent else b'')
