# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How does the emulated BMC answer for the chassis: is the host on, and what changes that?

Source: IPMI 2.0 revision 1.1, sections 28.1 to 28.3.
"""

from collections.abc import Callable
from enum import IntEnum

from baremetal_acc.emulator.ipmi.controller import CHASSIS, Code, Controller, Privilege, Refusal, Request
from baremetal_acc.emulator.ipmi.message import BMC


class Control(IntEnum):
    """What Chassis Control asks for."""

    OFF = 0
    ON = 1
    CYCLE = 2
    RESET = 3
    DIAGNOSE = 4
    SOFT_OFF = 5


class Chassis:
    """The host as the BMC sees it.

    :param is_on: asks whoever holds the truth.
    :param control: tells them.
    """

    def __init__(self, is_on: Callable[[], bool], control: Callable[[Control], None]) -> None:
        self._is_on = is_on
        self._control = control

    def join(self, controller: Controller) -> None:
        """Let a controller answer for this host."""
        controller.add(CHASSIS, 0x00, lambda _: bytes((0, BMC, BMC, BMC, BMC)), privilege=Privilege.USER)
        controller.add(CHASSIS, 0x01, lambda _: bytes((0x60 | self._is_on(), 0, 0)), privilege=Privilege.USER)
        controller.add(CHASSIS, 0x02, self._change, privilege=Privilege.OPERATOR, least=1)

    def _change(self, request: Request) -> bytes:
        wanted = request.data[0] & 0xF
        if wanted not in tuple(Control):
            raise Refusal(Code.INVALID_FIELD)
        if wanted in (Control.CYCLE, Control.RESET) and not self._is_on():
            raise Refusal(Code.NOT_IN_STATE)
        self._control(Control(wanted))
        return b''
