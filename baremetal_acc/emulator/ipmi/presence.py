# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The presence of an emulated controller: restarts and absence, and the faults of single IPMI commands.

A BMC that restarts is silent through every interface, whether IPMI or Redfish made it restart. A controller behind the BMC
restarts by itself, and is gone when its card is gone.

Faults of the machine select commands by ``method``, NetFn and command in hexadecimal digits (``2C/32``), and by ``uri``, the
data in hexadecimal digits with blanks between the bytes (``00 07 *``).
"""

from collections.abc import Callable
from dataclasses import replace

from baremetal_acc.emulator.ipmi.controller import (
    QUALIFIER_BYTES,
    CommandAnswer,
    CommandRequest,
    EmulatedCode,
    EmulatedController,
    Reach,
)
from baremetal_acc.emulator.machine import Machine


class Presence:
    """Whether one controller is present, and its command faults.

    :param bmc: the BMC of the machine that the controller is, or that it is behind.
    :param device: the card of the controller; None: the controller is the BMC itself.
    """

    def __init__(self, controller: EmulatedController, machine: Machine, bmc: str, device: str | None = None) -> None:
        self._controller = controller
        self._machine = machine
        self._bmc = bmc
        self._device = device
        self._back = 0.0
        controller.away.append(self._is_away)
        controller.around = self._around
        controller.restarting = self.restart
        if device is None:
            machine.on_bmc_down.append(self._fell)

    def restart(self, seconds: float | None = None) -> None:
        """Restart the controller: it drops the state in memory, and is absent for some time.

        :param seconds: how long; the restart time of the machine's BMC when None.
        """
        if self._device is None:
            self._machine.reset_bmc(self._bmc, seconds)
            return
        self._back = self._machine.now() + (self._machine.bmc_reset_seconds if seconds is None else seconds)
        self._controller.restarted()

    def _fell(self, bmc: str) -> None:
        if bmc == self._bmc:
            self._controller.restarted()

    def _is_away(self) -> bool:
        self._machine.settle()
        if self._device is None:
            return self._machine.is_bmc_down(self._bmc)
        gone = self._machine.faults.find('device-absent', bmc=self._bmc, device=self._device, use=False)
        return gone is not None or self._machine.now() < self._back

    def _around(self, request: CommandRequest, execute: Callable[[CommandRequest], CommandAnswer]) -> CommandAnswer:
        """Execute a command with the faults that concern commands."""
        self._machine.settle()
        faults, method, data = self._machine.faults, f'{request.netfn:02X}/{request.command:02X}', request.data.hex(' ')
        if (
            rule := faults.find('bmc-restart-on-request', bmc=self._bmc, device=self._device, uri=data, method=method)
        ) is not None:
            self.restart(rule.parameters['seconds'])
            return CommandAnswer(EmulatedCode.OK, reach=Reach.UNHEARD)
        slow = faults.find('slow', bmc=self._bmc, device=self._device, uri=data, method=method)
        answer = self._spoilt(request, execute, method, data)
        return answer if slow is None else replace(answer, late=answer.late + float(slow.parameters['seconds']))

    def _spoilt(
        self, request: CommandRequest, execute: Callable[[CommandRequest], CommandAnswer], method: str, data: str
    ) -> CommandAnswer:
        """Execute a command with the faults that concern its answer; delays are added by the caller."""
        faults = self._machine.faults
        if request.session is not None and faults.find('ipmi-session-lost', bmc=self._bmc, uri=data, method=method) is not None:
            request.session.forget()
            return CommandAnswer(EmulatedCode.OK, reach=Reach.UNHEARD)
        if (rule := faults.find('hang', bmc=self._bmc, device=self._device, uri=data, method=method)) is not None:
            return (
                replace(execute(request), reach=Reach.LOST)
                if rule.parameters['after']
                else CommandAnswer(0, reach=Reach.UNHEARD)
            )
        if (rule := faults.find('ipmi-code', bmc=self._bmc, device=self._device, uri=data, method=method)) is not None:
            if rule.parameters['after']:
                execute(request)
            return CommandAnswer(int(rule.parameters['code']) & 0xFF, request.data[: QUALIFIER_BYTES.get(request.netfn, 0)])
        return execute(request)
