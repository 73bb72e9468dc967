# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Activation, self-test and rollback of the firmware of an emulated HPM.1 controller."""

from collections.abc import Callable

from baremetal_acc.emulator.ipmi.controller import CommandAnswer, CommandRefusal, CommandRequest, EmulatedCode
from baremetal_acc.emulator.ipmi.hpm_ability import Backup
from baremetal_acc.emulator.ipmi.hpm_commands import (
    ACTIVATE,
    EVENT_ROLLBACK,
    IN_PROGRESS,
    ROLL_BACK,
    SELF_TEST_FAILED,
    SELF_TEST_PASSED,
)
from baremetal_acc.emulator.ipmi.hpm_progress import UpgradeProgress
from baremetal_acc.emulator.ipmi.hpm_target import UpgradeTarget, mask_of, numbers_of
from baremetal_acc.emulator.ipmi.hpm_upload import UploadReceiver
from baremetal_acc.emulator.ipmi.presence import Presence
from baremetal_acc.emulator.parts import EmulatedComponent

_ROLLBACK_OVERRIDDEN = 0x82


class FirmwareActivation:
    """Activates and rolls back the components of an HPM.1 controller, and tests them.

    :ivar activations: how often Activate Firmware was executed, and ``rollbacks`` Manual Firmware Rollback.
    :ivar is_leaving: the controller is restarting for an activation or a rollback.
    """

    def __init__(self, target: UpgradeTarget, progress: UpgradeProgress, receiver: UploadReceiver, presence: Presence) -> None:
        self.activations = self.rollbacks = 0
        self.is_leaving = False
        self._target = target
        self._progress = progress
        self._receiver = receiver
        self._presence = presence
        self._activated: tuple[int, ...] = ()
        self._tested_at: float | None = None
        self._test = (SELF_TEST_PASSED, 0)
        self._undoing: tuple[float, tuple[int, ...]] | None = None
        self._rolled_back: tuple[int, int] = (EmulatedCode.OK, 0)

    @property
    def is_undoing(self) -> bool:
        """Whether an automatic rollback is in progress."""
        return self._undoing is not None

    def forget_test(self) -> None:
        """Have no result of a self-test."""
        self._tested_at = None

    def activate(self, request: CommandRequest) -> bytes:
        """Activate Firmware."""
        target = self._target
        override = request.data[:1] == b'\1'
        if request.data not in (b'', b'\0', b'\1') or (override and not target.ability.override):
            raise CommandRefusal(EmulatedCode.INVALID_FIELD)
        held = tuple(number for number in target.parts if target.component(number).held is not None)
        if self._receiver.is_open or not held:
            raise CommandRefusal(EmulatedCode.NOT_IN_STATE)
        self.activations += 1
        parts = [target.parts[number] for number in held]
        seconds = target.times.activate
        for number in held:
            rule = target.find_fault('bmc-restart', target.component(number), ACTIVATE, use=True)
            if rule is not None:
                effect = (lambda: self._activated_now(held, override)) if rule.parameters['completes'] else self._fallen_back
                return self._away(ACTIVATE, rule.parameters['seconds'], effect)
        if any(part.restarts for part in parts):
            return self._away(ACTIVATE, seconds, lambda: self._activated_now(held, override))
        return self._progress.begin(ACTIVATE, seconds, lambda: self._activated_now(held, override))

    def _away(self, command: int, seconds: float | None, effect: Callable[[], int]) -> bytes:
        """Restart the controller, and execute the action when it is back."""
        silent = self._target.machine.bmc_reset_seconds if seconds is None else seconds
        self.is_leaving = True
        self._presence.restart(silent)
        self.is_leaving = False
        return self._progress.begin(command, silent, effect)

    def _fallen_back(self) -> int:
        """Drop held images after a restart cut the activation short."""
        self._target.drop_held()
        return EmulatedCode.OK

    def activate_by_itself(self, numbers: tuple[int, ...]) -> None:
        """Activate images that were just uploaded, for which the controller restarts."""
        self._activated_now(numbers, False)
        self._presence.restart(self._target.times.activate or None)

    def _activated_now(self, numbers: tuple[int, ...], override: bool) -> int:
        target = self._target
        self._rolled_back = (_ROLLBACK_OVERRIDDEN if override else EmulatedCode.OK, 0)
        self._activated = numbers
        self._test, self._tested_at = (SELF_TEST_PASSED, 0), target.machine.now() + target.times.self_test
        failed = False
        for number in numbers:
            part, component = target.parts[number], target.component(number)
            target.machine.activate_held(part.key, keeps_previous=part.backup is Backup.BY_COMMAND)
            rule = target.find_fault('self-test-fails', component, ACTIVATE, use=True)
            if rule is not None:
                self._test, failed = (SELF_TEST_FAILED, int(rule.parameters['bits']) & 0xFF), True
        back = self._with_a_way_back(numbers)
        if failed and target.ability.automatic_rollback and not override and back:
            seconds = target.times.self_test + target.times.roll_back
            self._undoing = (target.machine.now(), back)
            target.machine.later(seconds, target.name, f'{EVENT_ROLLBACK} {mask_of(back)}')
        return EmulatedCode.OK

    def _with_a_way_back(self, numbers: tuple[int, ...]) -> tuple[int, ...]:
        """The components that have a backup, or an image that waits for a restart of the payload and can be dropped."""

        def has_one(component: EmulatedComponent) -> bool:
            return component.previous is not None or component.staged is not None

        return tuple(
            n for n in numbers if self._target.parts[n].backup is not Backup.NONE and has_one(self._target.component(n))
        )

    def undo(self, mask: int) -> None:
        """Roll components back."""
        self._undoing = None
        for number in numbers_of(mask):
            self._target.machine.roll_back(self._target.parts[number].key)
        self._rolled_back = (EmulatedCode.OK, mask)

    def self_test(self) -> bytes:
        """The answer to Query Self-test Results."""
        target, ability = self._target, self._target.ability
        if not ability.self_test and ability.untested is not None:
            return ability.untested
        if self._tested_at is None or not ability.self_test:
            raise CommandRefusal(EmulatedCode.NOT_IN_STATE)
        if target.machine.now() < self._tested_at:
            raise CommandRefusal(IN_PROGRESS)
        return bytes(self._test)

    def rollback_status(self) -> CommandAnswer:
        """The answer to Query Rollback Status."""
        if self._undoing is not None or self._progress.is_running(ROLL_BACK):
            raise CommandRefusal(IN_PROGRESS)
        code, mask = self._rolled_back
        percent = b'\x64' if self._target.ability.tells_percent and mask else b''
        return CommandAnswer(code, bytes((mask,)) + percent)

    def roll_back(self, _: CommandRequest) -> bytes:
        """Manual Firmware Rollback."""
        target = self._target
        back = self._with_a_way_back(self._activated or tuple(target.parts))
        if not target.ability.manual_rollback or self._receiver.is_open or not back:
            raise CommandRefusal(EmulatedCode.NOT_IN_STATE)
        self.rollbacks += 1

        def done() -> int:
            self.undo(mask_of(back))
            return EmulatedCode.OK

        if any(target.parts[number].restarts for number in back):
            return self._away(ROLL_BACK, target.times.roll_back, done)
        return self._progress.begin(ROLL_BACK, target.times.roll_back, done)
