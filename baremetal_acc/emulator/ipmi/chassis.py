# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The chassis commands of an emulated BMC: power status and control, identification, restart cause and power-on hours.

Source: IPMI 2.0 revision 1.1, sections 28.1 to 28.3, 28.5, 28.11 and 28.14.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from baremetal_acc.emulator.ipmi.controller import (
    CHASSIS,
    CommandRefusal,
    CommandRequest,
    EmulatedCode,
    EmulatedController,
    EmulatedPrivilege,
)
from baremetal_acc.emulator.ipmi.message import BMC

_ON_BY_COMMAND = 0x10

_IDENTIFY_SUPPORTED, _IDENTIFY_FOR_A_TIME, _IDENTIFY_ALWAYS = 0x40, 0x10, 0x20
_IDENTIFY_SECONDS = 15
"""How long the chassis identifies itself if the request does not say it."""


class Control(IntEnum):
    """The operations of Chassis Control."""

    OFF = 0
    ON = 1
    CYCLE = 2
    RESET = 3
    DIAGNOSE = 4
    SOFT_OFF = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The power history of the host as the BMC knows it.

    :ivar cause: the cause of the last start, as in Get System Restart Cause; ``channel`` the channel of its request.
    :ivar on_by_command: an IPMI command was the last to turn the power from off to on.
    :ivar on_seconds: how long the host has been on in total.
    """

    cause: int
    channel: int
    on_by_command: bool
    on_seconds: float


class EmulatedChassis:
    """The host as the BMC sees it.

    :param is_on: returns whether the host is on.
    :param control: carries out a Chassis Control operation.
    :param history: returns the power history; None: the BMC has no commands for it.
    :param minutes_per_count: the unit of the power-on hours counter.
    :param now: returns the seconds of the clock by which an identification ends.
    :ivar channel: the channel of the last Chassis Control request, while ``control`` is called.
    """

    def __init__(
        self,
        is_on: Callable[[], bool],
        control: Callable[[Control], None],
        history: Callable[[], History] | None = None,
        minutes_per_count: int = 60,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._now = now
        self._identifies_until = 0.0
        self._is_on = is_on
        self._control = control
        self._history = history
        self._minutes_per_count = minutes_per_count
        self.channel = 0

    def join(self, controller: EmulatedController) -> None:
        """Register the chassis commands at a controller."""
        controller.add(CHASSIS, 0x00, lambda _: bytes((0, BMC, BMC, BMC, BMC)), privilege=EmulatedPrivilege.USER)
        controller.add(CHASSIS, 0x01, self._status, privilege=EmulatedPrivilege.USER)
        controller.add(CHASSIS, 0x02, self._change, privilege=EmulatedPrivilege.OPERATOR, least=1)
        controller.add(CHASSIS, 0x04, self._identify, privilege=EmulatedPrivilege.OPERATOR, most=2)
        if self._history is not None:
            history = self._history
            controller.add(
                CHASSIS, 0x07, lambda _: bytes((history().cause, history().channel)), privilege=EmulatedPrivilege.USER
            )
            controller.add(CHASSIS, 0x0F, lambda _: self._hours(history()), privilege=EmulatedPrivilege.USER)

    def _status(self, _: CommandRequest) -> bytes:
        by_command = self._history is not None and self._history().on_by_command
        identifies = _IDENTIFY_SUPPORTED
        if self._identifies_until == math.inf:
            identifies |= _IDENTIFY_ALWAYS
        elif self._now() < self._identifies_until:
            identifies |= _IDENTIFY_FOR_A_TIME
        return bytes((0x60 | self._is_on(), _ON_BY_COMMAND if by_command else 0, identifies))

    def _identify(self, request: CommandRequest) -> bytes:
        seconds = request.data[0] if request.data else _IDENTIFY_SECONDS
        is_forced = len(request.data) > 1 and bool(request.data[1] & 1)
        self._identifies_until = math.inf if is_forced else self._now() + seconds
        return b''

    def _hours(self, history: History) -> bytes:
        count = int(history.on_seconds // (60 * self._minutes_per_count))
        return bytes((self._minutes_per_count,)) + count.to_bytes(4, 'little')

    def _change(self, request: CommandRequest) -> bytes:
        wanted = request.data[0] & 0xF
        if wanted not in tuple(Control):
            raise CommandRefusal(EmulatedCode.INVALID_FIELD)
        if wanted in (Control.CYCLE, Control.RESET) and not self._is_on():
            raise CommandRefusal(EmulatedCode.NOT_IN_STATE)
        self.channel = request.channel
        self._control(Control(wanted))
        return b''
