# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""HPM.1 firmware upgrade of an emulated controller: the commands under NetFn 2Ch, and what a restart does to them.

A written image goes into a component of the machine, which Redfish shows too. An uploaded image is held until Activate
Firmware; a component with deferred activation keeps it over a restart of the controller. Actions that take time are answered
with 80h, and Get Upgrade Status reports their progress; all times come from the clock of the machine.

Where HPM.1 leaves the behaviour of a controller open, this one is strict: a command out of turn is refused. Deviations of real
controllers are habits, fields of :class:`~baremetal_acc.emulator.ipmi.hpm_ability.Ability`;
:data:`~baremetal_acc.emulator.ipmi.hpm_ability.HABITS` names each.

Source: PICMG HPM.1 R1.0, section 3; PICMG HPM.2 R1.0, section 3; doc/source/reference/ipmi_notes.rst, "Commands of HPM.1".
"""

from collections.abc import Callable, Mapping

from baremetal_acc.emulator.ipmi.controller import (
    GROUP,
    MANY,
    CommandAnswer,
    CommandRefusal,
    CommandRequest,
    EmulatedCode,
    EmulatedController,
    EmulatedPrivilege,
)
from baremetal_acc.emulator.ipmi.hpm_ability import Ability, HpmPart, Times
from baremetal_acc.emulator.ipmi.hpm_activation import FirmwareActivation
from baremetal_acc.emulator.ipmi.hpm_commands import (
    ABORT,
    ACTIVATE,
    BLOCK,
    CAPABILITIES,
    EVENT_RESTART,
    EVENT_ROLLBACK,
    FINISH,
    INITIATE,
    PICMG_BODY,
    PROPERTIES,
    ROLL_BACK,
    ROLLBACK_STATUS,
    SELF_TEST,
    STATUS,
)
from baremetal_acc.emulator.ipmi.hpm_progress import UpgradeProgress
from baremetal_acc.emulator.ipmi.hpm_target import UpgradeTarget, numbers_of
from baremetal_acc.emulator.ipmi.hpm_upload import UploadReceiver
from baremetal_acc.emulator.ipmi.presence import Presence
from baremetal_acc.emulator.machine import Machine

_CANNOT_ABORT = 0x80


class Upgrades:
    """HPM.1 of one controller.

    :param parts: its components, by number.
    :param presence: carries out its restarts.
    :raises ValueError: a part is not a component of the machine, or has a version or a name that HPM.1 cannot express.
    """

    def __init__(
        self,
        machine: Machine,
        parts: Mapping[int, HpmPart],
        presence: Presence,
        *,
        times: Times | None = None,
        ability: Ability | None = None,
    ) -> None:
        self._machine = machine
        self._target = UpgradeTarget(machine, parts, times or Times(), ability or Ability())
        self._progress = UpgradeProgress(self._target)
        self._receiver = UploadReceiver(self._target, self._progress)
        self._activation = FirmwareActivation(self._target, self._progress, self._receiver, presence)
        machine.elsewhere[self._target.name] = self._happen

    @property
    def parts(self) -> Mapping[int, HpmPart]:
        """The components, by number."""
        return self._target.parts

    @property
    def times(self) -> Times:
        """How many seconds actions take; they may be replaced."""
        return self._target.times

    @times.setter
    def times(self, times: Times) -> None:
        self._target.times = times

    @property
    def ability(self) -> Ability:
        """What the controller is able to do; it may be replaced."""
        return self._target.ability

    @ability.setter
    def ability(self, ability: Ability) -> None:
        self._target.ability = ability

    @property
    def activations(self) -> int:
        """How often Activate Firmware was executed."""
        return self._activation.activations

    @property
    def rollbacks(self) -> int:
        """How often Manual Firmware Rollback was executed."""
        return self._activation.rollbacks

    @property
    def repeated(self) -> int:
        """The number of repeated blocks."""
        return self._receiver.repeated

    def join(self, controller: EmulatedController) -> None:
        """Register the HPM.1 commands at a controller."""
        user, administrator = EmulatedPrivilege.USER, EmulatedPrivilege.ADMINISTRATOR

        def add(
            command: int, serve: Callable[[CommandRequest], bytes | CommandAnswer], privilege: EmulatedPrivilege, *sizes: int
        ) -> None:
            least, most = sizes if sizes else (0, 0)
            controller.add(GROUP, command, serve, privilege=privilege, least=least, most=most, qualifier=PICMG_BODY)

        add(CAPABILITIES, lambda _: self._target.capabilities(), user)
        add(PROPERTIES, self._properties, user, 2, 2)
        add(ABORT, self._abort, administrator)
        add(INITIATE, self._in_turn(self._receiver.initiate), administrator, 2, 2)
        add(BLOCK, self._in_turn(self._receiver.block), administrator, 2, MANY)
        add(FINISH, self._in_turn(self._receiver.finish), administrator, 5, 5)
        add(STATUS, self._status, user)
        add(ACTIVATE, self._in_turn(self._repeated_on_the_bus(self._activation.activate)), administrator, 0, 1)
        add(SELF_TEST, self._self_test, user)
        add(ROLLBACK_STATUS, self._rollback_status, user)
        add(ROLL_BACK, self._in_turn(self._repeated_on_the_bus(self._activation.roll_back)), administrator)
        controller.on_reset.append(self._restarted)

    def _in_turn(
        self, serve: Callable[[CommandRequest], bytes | CommandAnswer]
    ) -> Callable[[CommandRequest], bytes | CommandAnswer]:
        def served(request: CommandRequest) -> bytes | CommandAnswer:
            self._machine.settle()
            if self._progress.is_busy or self._activation.is_undoing:
                raise CommandRefusal(EmulatedCode.BUSY)
            return serve(request)

        return served

    def _repeated_on_the_bus(self, serve: Callable[[CommandRequest], bytes]) -> Callable[[CommandRequest], bytes]:
        """Answer C0h after the command was executed, where the controller has the habit ``busy-when-done``."""

        def served(request: CommandRequest) -> bytes:
            before = self.activations, self.rollbacks
            try:
                return serve(request)
            finally:
                if self.ability.busy_when_done and before != (self.activations, self.rollbacks):
                    raise CommandRefusal(EmulatedCode.BUSY)

        return served

    def _happen(self, detail: str) -> None:
        what, number = detail.split()
        if what == EVENT_ROLLBACK:
            self._activation.undo(int(number))
        elif what == EVENT_RESTART:
            self._activation.activate_by_itself(numbers_of(int(number)))
        else:
            self._progress.end(int(number))

    def _restarted(self) -> None:
        """Reset the upgrade state on a restart of the controller, except for the activation or rollback that causes it."""
        self._receiver.reset()
        if self._activation.is_leaving:
            return
        self._progress.stop()
        self._activation.forget_test()
        self._target.drop_held()

    def _properties(self, request: CommandRequest) -> bytes:
        self._machine.settle()
        number, selector = request.data
        return self._target.component_property(number, selector)

    def _abort(self, _: CommandRequest) -> bytes:
        self._machine.settle()
        if self._activation.is_undoing or self._progress.is_running(ACTIVATE, ROLL_BACK):
            raise CommandRefusal(_CANNOT_ABORT)
        self._receiver.reset()
        self._progress.stop(ABORT)
        return b''

    def _status(self, _: CommandRequest) -> bytes:
        self._machine.settle()
        return self._progress.status()

    def _self_test(self, _: CommandRequest) -> bytes:
        self._machine.settle()
        return self._activation.self_test()

    def _rollback_status(self, _: CommandRequest) -> CommandAnswer:
        self._machine.settle()
        return self._activation.rollback_status()
