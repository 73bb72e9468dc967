# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How does the emulated BMC answer for the chassis: is the host on, what has started it, and what changes that?

Source: IPMI 2.0 revision 1.1, sections 28.1 to 28.3, 28.11 and 28.14.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from baremetal_acc.emulator.ipmi.controller import CHASSIS, Code, Controller, Privilege, Refusal, Request
from baremetal_acc.emulator.ipmi.message import BMC

_ON_BY_COMMAND = 0x10


class Control(IntEnum):
    """What Chassis Control asks for."""

    OFF = 0
    ON = 1
    CYCLE = 2
    RESET = 3
    DIAGNOSE = 4
    SOFT_OFF = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What the BMC knows of the power of the host.

    :ivar cause: what has started it last, as Get System Restart Cause has it; ``channel`` by which that was asked for.
    :ivar on_by_command: a command over IPMI has last brought it from off to on.
    :ivar on_seconds: how long it has been on in all.
    """

    cause: int
    channel: int
    on_by_command: bool
    on_seconds: float


class Chassis:
    """The host as the BMC sees it.

    :param is_on: asks whoever holds the truth.
    :param control: tells them.
    :param history: what they know of its power; None: the BMC has no commands for that.
    :param minutes_per_count: in which steps it counts how long the host has been on.
    :ivar channel: by which the power was asked for last, while ``control`` is told.
    """

    def __init__(
        self,
        is_on: Callable[[], bool],
        control: Callable[[Control], None],
        history: Callable[[], History] | None = None,
        minutes_per_count: int = 60,
    ) -> None:
        self._is_on = is_on
        self._control = control
        self._history = history
        self._minutes_per_count = minutes_per_count
        self.channel = 0

    def join(self, controller: Controller) -> None:
        """Let a controller answer for this host."""
        controller.add(CHASSIS, 0x00, lambda _: bytes((0, BMC, BMC, BMC, BMC)), privilege=Privilege.USER)
        controller.add(CHASSIS, 0x01, self._status, privilege=Privilege.USER)
        controller.add(CHASSIS, 0x02, self._change, privilege=Privilege.OPERATOR, least=1)
        if self._history is not None:
            history = self._history
            controller.add(CHASSIS, 0x07, lambda _: bytes((history().cause, history().channel)), privilege=Privilege.USER)
            controller.add(CHASSIS, 0x0F, lambda _: self._hours(history()), privilege=Privilege.USER)

    def _status(self, _: Request) -> bytes:
        by_command = self._history is not None and self._history().on_by_command
        return bytes((0x60 | self._is_on(), _ON_BY_COMMAND if by_command else 0, 0))

    def _hours(self, history: History) -> bytes:
        count = int(history.on_seconds // (60 * self._minutes_per_count))
        return bytes((self._minutes_per_count,)) + count.to_bytes(4, 'little')

    def _change(self, request: Request) -> bytes:
        wanted = request.data[0] & 0xF
        if wanted not in tuple(Control):
            raise Refusal(Code.INVALID_FIELD)
        if wanted in (Control.CYCLE, Control.RESET) and not self._is_on():
            raise Refusal(Code.NOT_IN_STATE)
        self.channel = request.channel
        self._control(Control(wanted))
        return b''
