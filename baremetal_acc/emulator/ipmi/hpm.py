# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""HPM.1 firmware upgrade of an emulated controller (the commands under NetFn 2Ch), and the LAN payload sizes of HPM.2.

A written image goes into a component of the machine, which Redfish shows too. An uploaded image is held until Activate
Firmware; a component with deferred activation keeps it over a restart of the controller. Actions that take time are answered
with 80h, and Get Upgrade Status reports their progress; all times come from the clock of the machine.

Where HPM.1 leaves the behaviour of a controller open, this one is strict: a command out of turn is refused. Deviations of real
controllers are habits, fields of :class:`Ability`; :data:`HABITS` names each.

Source: PICMG HPM.1 R1.0, section 3; PICMG HPM.2 R1.0, section 3; doc/source/reference/ipmi_notes.rst, "Commands of HPM.1".
"""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from baremetal_acc.emulator.fault import Fault
from baremetal_acc.emulator.image import BadImage, read_image
from baremetal_acc.emulator.ipmi.channel import LanChannel
from baremetal_acc.emulator.ipmi.controller import (
    GROUP,
    IPMB,
    LAN,
    MANY,
    SYSTEM,
    CommandAnswer,
    CommandRefusal,
    CommandRequest,
    EmulatedCode,
    EmulatedController,
    EmulatedPrivilege,
)
from baremetal_acc.emulator.ipmi.presence import Presence
from baremetal_acc.emulator.ipmi.upgrade_image import MOST_COMPONENTS, NO_VERSION, version_bytes
from baremetal_acc.emulator.machine import Machine
from baremetal_acc.emulator.parts import Bank, EmulatedComponent, WriteRefused
from baremetal_acc.emulator.response_faults import flipped

PICMG_BODY = b'\0'
"""The body code of PICMG."""

CAPABILITIES, PROPERTIES, ABORT, INITIATE, BLOCK, FINISH, STATUS = 0x2E, 0x2F, 0x30, 0x31, 0x32, 0x33, 0x34
ACTIVATE, SELF_TEST, ROLLBACK_STATUS, ROLL_BACK, HPM_X = 0x35, 0x36, 0x37, 0x38, 0x3E

UNIT_SECONDS = 5
NAME_BYTES = 12

_VERSION = 0
_IN_PROGRESS = 0x80
_NO_COMPONENT = 0x81
_CANNOT_ABORT = 0x80
_UNKNOWN_COMPONENT, _UNKNOWN_SELECTOR = 0x82, 0x83
_WRONG_LENGTH, _WRONG_CONTENT, _DIFFERENT = 0x81, 0x82, 0x83
_FULL = 0x81
_ROLLBACK_OVERRIDDEN = 0x82
_OEM_FROM = 0xC0
_BACK_UP, _PREPARE, _UPLOAD, _COMPARE = range(4)
_PASSED, _FAILED = 0x55, 0x57
_HPM_2, _REVISION = 2, 1
_PAYLOAD_OVERHEAD = 7
_GENERAL_FAILURE = 0x02
_END, _UNDONE, _RESTART = 'end', 'undone', 'restart'


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
    while_uploading: int | None = _IN_PROGRESS
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
    'untested': {'self_test': False, 'untested': bytes((_FAILED, _GENERAL_FAILURE))},
    'busy-when-done': {'busy_when_done': True},
    'refuses-backup': {'refuses_backup': True},
}
"""Deviations of controllers from the standard, or from what clients expect: fields of :class:`Ability`, by name."""


@dataclass(slots=True, kw_only=True)
class _Upload:
    """An open upload: ``position`` is the offset of the next byte, ``sent`` the number of bytes received."""

    number: int
    action: int
    content: bytearray = field(default_factory=bytearray)
    position: int = 0
    sent: int = 0
    blocks: int = 0
    last: bytes = b''
    answered: bytes = b''


@dataclass(slots=True, kw_only=True)
class _Running:
    """A command that is in progress."""

    id: int
    command: int
    since: float
    seconds: float
    effect: Callable[[], int]


class UpgradeTarget:
    """The components of an HPM.1 controller in their machine, with what the controller is able to do.

    :param parts: its components, by number.
    :raises ValueError: a part is not a component of the machine, or has a version or a name that HPM.1 cannot express.
    :ivar name: the name by which the machine knows what is due later.
    """

    def __init__(self, machine: Machine, parts: Mapping[int, HpmPart], times: Times, ability: Ability) -> None:
        for number, part in parts.items():
            if not 0 <= number < MOST_COMPONENTS or part.key not in machine.components:
                raise ValueError(f'component {number}: 0 to {MOST_COMPONENTS - 1}, and one of the machine, not {part.key!r}')
            if not part.name.isascii() or len(part.name) >= NAME_BYTES:
                raise ValueError(f'component {number}: {part.name!r} has more than {NAME_BYTES - 1} ASCII characters')
            for bank in (machine.components[part.key].active, machine.components[part.key].previous):
                if bank is not None:
                    version_bytes(bank.version)
        self.machine = machine
        self.parts = dict(parts)
        self.times = times
        self.ability = ability
        self.name = f'hpm/{"/".join(part.key for part in self.parts.values())}'

    def component(self, number: int) -> EmulatedComponent:
        """The component of the machine with that number."""
        return self.machine.components[self.parts[number].key]

    def defers(self, part: HpmPart) -> bool:
        """Whether a component keeps an uploaded image over restarts until it is activated."""
        return part.deferred and not self.ability.activates_at_finish

    def drop_held(self) -> None:
        """Drop held images, as a restart of the controller does, except those of components with deferred activation."""
        for part in self.parts.values():
            if not self.defers(part):
                self.machine.drop_held(part.key)

    def find_fault(self, name: str, component: EmulatedComponent, command: int, *, use: bool = False) -> Fault | None:
        """The fault rule of that name for a component and a command."""
        return self.machine.faults.find(
            name,
            bmc=component.bmc,
            device=component.device,
            uri=component.uri,
            method=f'{GROUP:02X}/{command:02X}',
            use=use,
        )

    def capabilities(self) -> bytes:
        """The answer to Get Target Upgrade Capabilities."""
        can, times = self.ability, self.times
        bits = (
            can.self_test,
            can.automatic_rollback,
            can.manual_rollback,
            can.services_affected,
            any(self.defers(part) for part in self.parts.values()),
            can.degraded,
            can.override,
            can.undesirable,
        )
        upgrade = max(times.back_up, times.erase, times.block, times.finish, times.activate)
        units = (_units(upgrade), _units(times.self_test), _units(times.roll_back), _units(times.activate))
        return bytes((_VERSION, mask_of(n for n, bit in enumerate(bits) if bit), *units, mask_of(self.parts)))

    def component_property(self, number: int, selector: int) -> bytes:
        """The answer to Get Component Properties.

        :raises CommandRefusal: there is no such component, or it has no such property.
        """
        if number not in self.parts:
            raise CommandRefusal(_UNKNOWN_COMPONENT)
        part, component = self.parts[number], self.component(number)
        match selector:
            case 0:
                payload = component.activates is not None
                bits = part.prepares << 2 | part.compares << 3 | self.defers(part) << 4 | payload << 5
                return bytes((part.backup | bits,))
            case 1:
                return _told(self.machine.shown_version(part.key))
            case 2:
                return part.name.encode('ascii').ljust(NAME_BYTES, b'\0')
            case 3 if part.backup:
                return _told(_version(component.previous))
            case 4 if self.defers(part):
                return _told(_version(component.held or component.staged))
            case _ if selector >= _OEM_FROM and selector in part.oem:
                return part.oem[selector]
        raise CommandRefusal(_UNKNOWN_SELECTOR)


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
        target.machine.later(seconds, target.name, f'{_END} {self._running.id}')
        raise CommandRefusal(_IN_PROGRESS)

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
        return bytes((running.command, _IN_PROGRESS)) + (bytes((percent,)) if self._target.ability.tells_percent else b'')


class UploadReceiver:
    """Receives the images that are uploaded to the components of an HPM.1 controller.

    :ivar repeated: the number of repeated blocks.
    """

    def __init__(self, target: UpgradeTarget, progress: UpgradeProgress) -> None:
        self.repeated = 0
        self._target = target
        self._progress = progress
        self._upload: _Upload | None = None
        self._prepared: set[int] = set()

    @property
    def is_open(self) -> bool:
        """Whether an upload has begun, and has not ended."""
        return self._upload is not None

    def reset(self) -> None:
        """End the upload, if there is one, and forget which components are erased."""
        self._close()
        self._prepared.clear()

    def initiate(self, request: CommandRequest) -> bytes:
        """Initiate Upgrade Action."""
        target, ability = self._target, self._target.ability
        mask, action = request.data
        if self._upload is not None and ability.while_uploading is not None:
            raise CommandRefusal(ability.while_uploading)
        numbers = numbers_of(mask)
        if not numbers or any(number not in target.parts for number in numbers):
            raise CommandRefusal(_NO_COMPONENT)
        if action in (_UPLOAD, _COMPARE) and len(numbers) != 1:
            raise CommandRefusal(_NO_COMPONENT)
        if action > _COMPARE:
            raise CommandRefusal(EmulatedCode.INVALID_FIELD)
        if ability.undesirable:
            raise CommandRefusal(EmulatedCode.NOT_IN_STATE)
        by_itself = any(target.parts[number].backup is Backup.BY_ITSELF for number in numbers)
        if action == _BACK_UP and by_itself and ability.refuses_backup:
            raise CommandRefusal(EmulatedCode.INVALID_FIELD)
        if not all(self._takes(number, action) for number in numbers):
            raise CommandRefusal(EmulatedCode.NOT_IN_STATE)
        self._close()
        if action == _UPLOAD and target.machine.busy(self._bmc_of(numbers[0]), [target.parts[numbers[0]].key]) is not None:
            raise CommandRefusal(EmulatedCode.BUSY)
        if action == _BACK_UP:
            return self._progress.begin(INITIATE, target.times.back_up, lambda: self._backed_up(numbers))
        if action == _PREPARE:
            return self._progress.begin(INITIATE, target.times.erase, lambda: self._erased(numbers))
        self._upload = _Upload(number=numbers[0], action=action)
        if action == _UPLOAD:
            target.machine.bmcs[self._bmc_of(numbers[0])].reserved.add(target.parts[numbers[0]].key)
        self._progress.record(INITIATE)
        return b''

    def _bmc_of(self, number: int) -> str:
        return self._target.component(number).bmc

    def _close(self) -> None:
        """End the upload, if there is one, and release its component for other writers."""
        upload, self._upload = self._upload, None
        if upload is not None and upload.action == _UPLOAD:
            self._target.machine.bmcs[self._bmc_of(upload.number)].reserved.discard(self._target.parts[upload.number].key)

    def _takes(self, number: int, action: int) -> bool:
        """Whether a component supports this action, and can be written where the action leads to a write."""
        part = self._target.parts[number]
        match action:
            case 0:
                return part.backup is not Backup.NONE
            case 1 if not part.prepares:
                return False
            case 2 if part.prepares and number not in self._prepared:
                return False
            case 3:
                return part.compares
        try:
            self._target.machine.judge(part.key)
        except WriteRefused:
            return False
        return True

    def _backed_up(self, numbers: tuple[int, ...]) -> int:
        target = self._target
        for number in numbers:
            if target.parts[number].backup is Backup.BY_COMMAND:
                target.machine.back_up(target.parts[number].key)
        return EmulatedCode.OK

    def _erased(self, numbers: tuple[int, ...]) -> int:
        for number in numbers:
            self._target.machine.drop_held(self._target.parts[number].key)
        self._prepared.update(numbers)
        return EmulatedCode.OK

    def block(self, request: CommandRequest) -> bytes:
        """Upload Firmware Block."""
        target, ability = self._target, self._target.ability
        number, data, upload = request.data[0], request.data[1:], self._upload
        if ability.counts_in_a_byte:
            data = data[: len(data) & 0xFF]
        elif len(data) > ability.block_bytes.get(request.channel, 0):
            raise CommandRefusal(ability.too_long)
        if upload is None:
            raise CommandRefusal(EmulatedCode.NOT_IN_STATE)
        if upload.blocks and number == upload.blocks - 1 & 0xFF and data == upload.last:
            if ability.repeated is not None:
                raise CommandRefusal(ability.repeated)
            self.repeated += 1
            return upload.answered
        if number != upload.blocks & 0xFF:
            raise CommandRefusal(EmulatedCode.INVALID_FIELD)
        part, component = target.parts[upload.number], target.component(upload.number)
        if upload.position + len(data) > part.flash_bytes:
            raise CommandRefusal(_FULL)
        upload.last = data
        damage = target.find_fault('image-damaged', component, BLOCK)
        if damage is not None:
            data = flipped(data, int(damage.parameters['after_bytes']) - upload.position)
        upload.content[upload.position : upload.position + len(data)] = data
        upload.position += len(data)
        upload.sent += len(data)
        upload.blocks += 1
        upload.answered = b''
        if (section := part.sections.get(upload.sent)) is not None:
            upload.position = section[0]
            upload.answered = b''.join(value.to_bytes(4, 'little') for value in section)
        self._progress.begin(BLOCK, target.times.block, lambda: EmulatedCode.OK)
        page = ability.page_bytes
        if page is not None and not upload.answered and upload.position // page > (upload.position - len(data)) // page:
            raise CommandRefusal(_IN_PROGRESS)
        return upload.answered

    def finish(self, request: CommandRequest) -> bytes:
        """Finish Firmware Upload."""
        upload = self._upload
        if upload is None:
            raise CommandRefusal(EmulatedCode.NOT_IN_STATE)
        if request.data[0] != upload.number:
            raise CommandRefusal(EmulatedCode.INVALID_FIELD)
        if int.from_bytes(request.data[1:], 'little') != upload.sent:
            raise CommandRefusal(_WRONG_LENGTH)
        self._close()
        writer = 'host' if request.is_hosts else 'bmc'
        return self._progress.begin(FINISH, self._target.times.finish, lambda: self._finished(upload, writer))

    def _finished(self, upload: _Upload, writer: str) -> int:
        target = self._target
        part, component = target.parts[upload.number], target.component(upload.number)
        self._prepared.discard(upload.number)
        try:
            image = read_image(bytes(upload.content))
            version_bytes(image.version)
            if upload.action == _COMPARE:
                same = component.active is not None and component.active.digest == image.digest
                return EmulatedCode.OK if same else _DIFFERENT
            target.machine.judge(part.key, image)
        except (BadImage, WriteRefused, ValueError):
            return _DIFFERENT if upload.action == _COMPARE else _WRONG_CONTENT
        target.machine.hold(part.key, image, writer)
        if target.ability.activates_at_finish:
            # The restart happens after Finish was answered.
            target.machine.later(0, target.name, f'{_RESTART} {1 << upload.number}')
        return EmulatedCode.OK


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
        self._test = (_PASSED, 0)
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
        self._test, self._tested_at = (_PASSED, 0), target.machine.now() + target.times.self_test
        failed = False
        for number in numbers:
            part, component = target.parts[number], target.component(number)
            target.machine.activate_held(part.key, keeps_previous=part.backup is Backup.BY_COMMAND)
            rule = target.find_fault('self-test-fails', component, ACTIVATE, use=True)
            if rule is not None:
                self._test, failed = (_FAILED, int(rule.parameters['bits']) & 0xFF), True
        back = self._with_a_way_back(numbers)
        if failed and target.ability.automatic_rollback and not override and back:
            seconds = target.times.self_test + target.times.roll_back
            self._undoing = (target.machine.now(), back)
            target.machine.later(seconds, target.name, f'{_UNDONE} {mask_of(back)}')
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
            raise CommandRefusal(_IN_PROGRESS)
        return bytes(self._test)

    def rollback_status(self) -> CommandAnswer:
        """The answer to Query Rollback Status."""
        if self._undoing is not None or self._progress.is_running(ROLL_BACK):
            raise CommandRefusal(_IN_PROGRESS)
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
        if what == _UNDONE:
            self._activation.undo(int(number))
        elif what == _RESTART:
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


class ExtendedLan:
    """HPM.2 of a BMC: the payload sizes of its LAN channel.

    :param inbound_bytes: of the payload of a request, and ``outbound_bytes`` of an answer.
    :param start: the first of the LAN configuration parameters that HPM.2 adds.
    """

    def __init__(
        self, channel: LanChannel, *, inbound_bytes: int = 1024, outbound_bytes: int = 1024, start: int = 0xC0
    ) -> None:
        if start < _OEM_FROM or not _PAYLOAD_OVERHEAD < inbound_bytes <= 0xFFFF or not 0 < outbound_bytes <= 0xFFFF:
            raise ValueError('HPM.2: parameters from C0h on, payloads of at most 65535 bytes')
        self._start = start
        self.inbound_bytes = inbound_bytes
        sizes = inbound_bytes.to_bytes(2, 'little') + outbound_bytes.to_bytes(2, 'little')
        channel.parameters[start] = bytes((0, 0, 0)) + sizes
        channel.read_only.add(start)

    def join(self, controller: EmulatedController) -> None:
        """Register Get HPM.x Capabilities at a controller."""
        controller.add(GROUP, HPM_X, self._capabilities, privilege=EmulatedPrivilege.USER, least=1, qualifier=PICMG_BODY)

    @property
    def block_bytes(self) -> int:
        """The longest block of an upload over this LAN: a payload without the message, body code and block number."""
        return self.inbound_bytes - _PAYLOAD_OVERHEAD - 2

    def _capabilities(self, request: CommandRequest) -> bytes:
        if request.data[0] != _HPM_2:
            raise CommandRefusal(EmulatedCode.INVALID_FIELD)
        return bytes((_HPM_2, _REVISION)) + (1 << LAN).to_bytes(2, 'little') + bytes((0, self._start, _REVISION, 0, 0))


def _version(bank: Bank | None) -> str:
    return bank.version if bank is not None else ''


def _told(version: str) -> bytes:
    """The version bytes that the controller reports; FFh bytes where HPM.1 cannot express the version."""
    try:
        return version_bytes(version)
    except ValueError:
        return NO_VERSION


def _units(seconds: float) -> int:
    return min(0xFF, max(1, math.ceil(seconds / UNIT_SECONDS)))


def mask_of(numbers: Iterable[int]) -> int:
    """The bits of component numbers."""
    return sum(1 << number for number in set(numbers))


def numbers_of(mask: int) -> tuple[int, ...]:
    """The component numbers of bits."""
    return tuple(number for number in range(MOST_COMPONENTS) if mask >> number & 1)
