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


class Upgrades:
    """HPM.1 of one controller.

    :param parts: its components, by number.
    :param presence: carries out its restarts.
    :raises ValueError: a part is not a component of the machine, or has a version or a name that HPM.1 cannot express.
    :ivar activations: how often Activate Firmware was executed, and ``rollbacks`` Manual Firmware Rollback.
    :ivar repeated: the number of repeated blocks.
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
        for number, part in parts.items():
            if not 0 <= number < MOST_COMPONENTS or part.key not in machine.components:
                raise ValueError(f'component {number}: 0 to {MOST_COMPONENTS - 1}, and one of the machine, not {part.key!r}')
            if not part.name.isascii() or len(part.name) >= NAME_BYTES:
                raise ValueError(f'component {number}: {part.name!r} has more than {NAME_BYTES - 1} ASCII characters')
            for bank in (machine.components[part.key].active, machine.components[part.key].previous):
                if bank is not None:
                    version_bytes(bank.version)
        self._machine = machine
        self.parts = dict(parts)
        self._presence = presence
        self.times = times or Times()
        self.ability = ability or Ability()
        self.activations = self.rollbacks = self.repeated = 0
        self._ids = itertools.count(1)
        self._upload: _Upload | None = None
        self._running: _Running | None = None
        self._is_leaving = False
        self._last = (0, 0)
        self._prepared: set[int] = set()
        self._activated: tuple[int, ...] = ()
        self._tested_at: float | None = None
        self._test = (_PASSED, 0)
        self._undoing: tuple[float, tuple[int, ...]] | None = None
        self._rolled_back: tuple[int, int] = (EmulatedCode.OK, 0)
        self._who = f'hpm/{"/".join(part.key for part in self.parts.values())}'
        machine.elsewhere[self._who] = self._happen

    def join(self, controller: EmulatedController) -> None:
        """Register the HPM.1 commands at a controller."""
        user, administrator = EmulatedPrivilege.USER, EmulatedPrivilege.ADMINISTRATOR

        def add(
            command: int, serve: Callable[[CommandRequest], bytes | CommandAnswer], privilege: EmulatedPrivilege, *sizes: int
        ) -> None:
            least, most = sizes if sizes else (0, 0)
            controller.add(GROUP, command, serve, privilege=privilege, least=least, most=most, qualifier=PICMG_BODY)

        add(CAPABILITIES, self._capabilities, user)
        add(PROPERTIES, self._properties, user, 2, 2)
        add(ABORT, self._abort, administrator)
        add(INITIATE, self._in_turn(self._initiate), administrator, 2, 2)
        add(BLOCK, self._in_turn(self._block), administrator, 2, MANY)
        add(FINISH, self._in_turn(self._finish), administrator, 5, 5)
        add(STATUS, self._status, user)
        add(ACTIVATE, self._in_turn(self._repeated_on_the_bus(self._activate)), administrator, 0, 1)
        add(SELF_TEST, self._self_test, user)
        add(ROLLBACK_STATUS, self._rollback_status, user)
        add(ROLL_BACK, self._in_turn(self._repeated_on_the_bus(self._roll_back)), administrator)
        controller.on_reset.append(self._restarted)

    # -- commands in progress -----------------------------------------------------------------------------------------

    def _in_turn(
        self, serve: Callable[[CommandRequest], bytes | CommandAnswer]
    ) -> Callable[[CommandRequest], bytes | CommandAnswer]:
        def served(request: CommandRequest) -> bytes | CommandAnswer:
            self._machine.settle()
            if self._running is not None or self._undoing is not None:
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

    def _begin(self, command: int, seconds: float, effect: Callable[[], int]) -> bytes:
        """Execute an action at once, or begin it.

        :raises Refusal: 80h where it takes time, or its own code where it has failed at once.
        """
        if seconds <= 0:
            code = effect()
            self._last = (command, code)
            if code:
                raise CommandRefusal(code)
            return b''
        self._running = _Running(id=next(self._ids), command=command, since=self._machine.now(), seconds=seconds, effect=effect)
        self._machine.later(seconds, self._who, f'{_END} {self._running.id}')
        raise CommandRefusal(_IN_PROGRESS)

    def _happen(self, detail: str) -> None:
        what, number = detail.split()
        if what == _UNDONE:
            self._undo(int(number))
            return
        if what == _RESTART:
            self._activated_now(_numbers(int(number)), False)
            self._presence.restart(self.times.activate or None)
            return
        running = self._running
        if running is None or running.id != int(number):
            return
        self._running = None
        self._last = (running.command, running.effect())

    def _restarted(self) -> None:
        """Reset the upgrade state on a restart of the controller, except for the activation or rollback that causes it."""
        self._close()
        self._prepared.clear()
        if self._is_leaving:
            return
        self._running = None
        self._last = (0, 0)
        self._tested_at = None
        for part in self.parts.values():
            if not self._defers(part):
                self._machine.drop_held(part.key)

    # -- capabilities and properties ----------------------------------------------------------------------------------

    def _component(self, number: int) -> EmulatedComponent:
        return self._machine.components[self.parts[number].key]

    def _defers(self, part: HpmPart) -> bool:
        """Whether a component keeps an uploaded image over restarts until it is activated."""
        return part.deferred and not self.ability.activates_at_finish

    def _fault(self, name: str, component: EmulatedComponent, command: int, *, use: bool = False) -> Fault | None:
        return self._machine.faults.find(
            name,
            bmc=component.bmc,
            device=component.device,
            uri=component.uri,
            method=f'{GROUP:02X}/{command:02X}',
            use=use,
        )

    def _capabilities(self, _: CommandRequest) -> bytes:
        can, times = self.ability, self.times
        bits = (
            can.self_test,
            can.automatic_rollback,
            can.manual_rollback,
            can.services_affected,
            any(self._defers(part) for part in self.parts.values()),
            can.degraded,
            can.override,
            can.undesirable,
        )
        upgrade = max(times.back_up, times.erase, times.block, times.finish, times.activate)
        units = (_units(upgrade), _units(times.self_test), _units(times.roll_back), _units(times.activate))
        return bytes((_VERSION, _mask(n for n, bit in enumerate(bits) if bit), *units, _mask(self.parts)))

    def _properties(self, request: CommandRequest) -> bytes:
        self._machine.settle()
        number, selector = request.data
        if number not in self.parts:
            raise CommandRefusal(_UNKNOWN_COMPONENT)
        part, component = self.parts[number], self._component(number)
        match selector:
            case 0:
                payload = component.activates is not None
                bits = part.prepares << 2 | part.compares << 3 | self._defers(part) << 4 | payload << 5
                return bytes((part.backup | bits,))
            case 1:
                return _told(self._machine.shown_version(part.key))
            case 2:
                return part.name.encode('ascii').ljust(NAME_BYTES, b'\0')
            case 3 if part.backup:
                return _told(_version(component.previous))
            case 4 if self._defers(part):
                return _told(_version(component.held or component.staged))
            case _ if selector >= _OEM_FROM and selector in part.oem:
                return part.oem[selector]
        raise CommandRefusal(_UNKNOWN_SELECTOR)

    # -- upgrade actions ----------------------------------------------------------------------------------------------

    def _abort(self, _: CommandRequest) -> bytes:
        self._machine.settle()
        running = self._running
        if self._undoing is not None or (running is not None and running.command in (ACTIVATE, ROLL_BACK)):
            raise CommandRefusal(_CANNOT_ABORT)
        self._running = None
        self._close()
        self._prepared.clear()
        self._last = (ABORT, EmulatedCode.OK)
        return b''

    def _initiate(self, request: CommandRequest) -> bytes:
        mask, action = request.data
        if self._upload is not None and self.ability.while_uploading is not None:
            raise CommandRefusal(self.ability.while_uploading)
        numbers = _numbers(mask)
        if not numbers or any(number not in self.parts for number in numbers):
            raise CommandRefusal(_NO_COMPONENT)
        if action in (_UPLOAD, _COMPARE) and len(numbers) != 1:
            raise CommandRefusal(_NO_COMPONENT)
        if action > _COMPARE:
            raise CommandRefusal(EmulatedCode.INVALID_FIELD)
        if self.ability.undesirable:
            raise CommandRefusal(EmulatedCode.NOT_IN_STATE)
        by_itself = any(self.parts[number].backup is Backup.BY_ITSELF for number in numbers)
        if action == _BACK_UP and by_itself and self.ability.refuses_backup:
            raise CommandRefusal(EmulatedCode.INVALID_FIELD)
        if not all(self._takes(number, action) for number in numbers):
            raise CommandRefusal(EmulatedCode.NOT_IN_STATE)
        self._close()
        if action == _UPLOAD and self._machine.busy(self._bmc_of(numbers[0]), [self.parts[numbers[0]].key]) is not None:
            raise CommandRefusal(EmulatedCode.BUSY)
        if action == _BACK_UP:
            return self._begin(INITIATE, self.times.back_up, lambda: self._backed_up(numbers))
        if action == _PREPARE:
            return self._begin(INITIATE, self.times.erase, lambda: self._erased(numbers))
        self._upload = _Upload(number=numbers[0], action=action)
        if action == _UPLOAD:
            self._machine.bmcs[self._bmc_of(numbers[0])].reserved.add(self.parts[numbers[0]].key)
        self._last = (INITIATE, EmulatedCode.OK)
        return b''

    def _bmc_of(self, number: int) -> str:
        return self._component(number).bmc

    def _close(self) -> None:
        """End the upload, if there is one, and release its component for other writers."""
        upload, self._upload = self._upload, None
        if upload is not None and upload.action == _UPLOAD:
            self._machine.bmcs[self._bmc_of(upload.number)].reserved.discard(self.parts[upload.number].key)

    def _takes(self, number: int, action: int) -> bool:
        """Whether a component supports this action, and can be written where the action leads to a write."""
        part = self.parts[number]
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
            self._machine.judge(part.key)
        except WriteRefused:
            return False
        return True

    def _backed_up(self, numbers: tuple[int, ...]) -> int:
        for number in numbers:
            if self.parts[number].backup is Backup.BY_COMMAND:
                self._machine.back_up(self.parts[number].key)
        return EmulatedCode.OK

    def _erased(self, numbers: tuple[int, ...]) -> int:
        for number in numbers:
            self._machine.drop_held(self.parts[number].key)
        self._prepared.update(numbers)
        return EmulatedCode.OK

    def _block(self, request: CommandRequest) -> bytes:
        number, data, upload = request.data[0], request.data[1:], self._upload
        if self.ability.counts_in_a_byte:
            data = data[: len(data) & 0xFF]
        elif len(data) > self.ability.block_bytes.get(request.channel, 0):
            raise CommandRefusal(self.ability.too_long)
        if upload is None:
            raise CommandRefusal(EmulatedCode.NOT_IN_STATE)
        if upload.blocks and number == upload.blocks - 1 & 0xFF and data == upload.last:
            if self.ability.repeated is not None:
                raise CommandRefusal(self.ability.repeated)
            self.repeated += 1
            return upload.answered
        if number != upload.blocks & 0xFF:
            raise CommandRefusal(EmulatedCode.INVALID_FIELD)
        part, component = self.parts[upload.number], self._component(upload.number)
        if upload.position + len(data) > part.flash_bytes:
            raise CommandRefusal(_FULL)
        upload.last = data
        damage = self._fault('image-damaged', component, BLOCK)
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
        self._begin(BLOCK, self.times.block, lambda: EmulatedCode.OK)
        page = self.ability.page_bytes
        if page is not None and not upload.answered and upload.position // page > (upload.position - len(data)) // page:
            raise CommandRefusal(_IN_PROGRESS)
        return upload.answered

    def _finish(self, request: CommandRequest) -> bytes:
        upload = self._upload
        if upload is None:
            raise CommandRefusal(EmulatedCode.NOT_IN_STATE)
        if request.data[0] != upload.number:
            raise CommandRefusal(EmulatedCode.INVALID_FIELD)
        if int.from_bytes(request.data[1:], 'little') != upload.sent:
            raise CommandRefusal(_WRONG_LENGTH)
        self._close()
        writer = 'host' if request.is_hosts else 'bmc'
        return self._begin(FINISH, self.times.finish, lambda: self._finished(upload, writer))

    def _finished(self, upload: _Upload, writer: str) -> int:
        part, component = self.parts[upload.number], self._component(upload.number)
        self._prepared.discard(upload.number)
        try:
            image = read_image(bytes(upload.content))
            version_bytes(image.version)
            if upload.action == _COMPARE:
                same = component.active is not None and component.active.digest == image.digest
                return EmulatedCode.OK if same else _DIFFERENT
            self._machine.judge(part.key, image)
        except (BadImage, WriteRefused, ValueError):
            return _DIFFERENT if upload.action == _COMPARE else _WRONG_CONTENT
        self._machine.hold(part.key, image, writer)
        if self.ability.activates_at_finish:
            # The restart happens after Finish was answered.
            self._machine.later(0, self._who, f'{_RESTART} {1 << upload.number}')
        return EmulatedCode.OK

    def _status(self, _: CommandRequest) -> bytes:
        self._machine.settle()
        running = self._running
        if running is None:
            return bytes(self._last)
        percent = min(99, int(100 * (self._machine.now() - running.since) / running.seconds))
        return bytes((running.command, _IN_PROGRESS)) + (bytes((percent,)) if self.ability.tells_percent else b'')

    # -- activation and rollback --------------------------------------------------------------------------------------

    def _activate(self, request: CommandRequest) -> bytes:
        override = request.data[:1] == b'\1'
        if request.data not in (b'', b'\0', b'\1') or (override and not self.ability.override):
            raise CommandRefusal(EmulatedCode.INVALID_FIELD)
        held = tuple(number for number in self.parts if self._component(number).held is not None)
        if self._upload is not None or not held:
            raise CommandRefusal(EmulatedCode.NOT_IN_STATE)
        self.activations += 1
        parts = [self.parts[number] for number in held]
        seconds = self.times.activate
        for number in held:
            rule = self._fault('bmc-restart', self._component(number), ACTIVATE, use=True)
            if rule is not None:
                effect = (lambda: self._activated_now(held, override)) if rule.parameters['completes'] else self._fallen_back
                return self._away(ACTIVATE, rule.parameters['seconds'], effect)
        if any(part.restarts for part in parts):
            return self._away(ACTIVATE, seconds, lambda: self._activated_now(held, override))
        return self._begin(ACTIVATE, seconds, lambda: self._activated_now(held, override))

    def _away(self, command: int, seconds: float | None, effect: Callable[[], int]) -> bytes:
        """Restart the controller, and execute the action when it is back."""
        silent = self._machine.bmc_reset_seconds if seconds is None else seconds
        self._is_leaving = True
        self._presence.restart(silent)
        self._is_leaving = False
        return self._begin(command, silent, effect)

    def _fallen_back(self) -> int:
        """Drop held images after a restart cut the activation short, except those of components with deferred activation."""
        for part in self.parts.values():
            if not self._defers(part):
                self._machine.drop_held(part.key)
        return EmulatedCode.OK

    def _activated_now(self, numbers: tuple[int, ...], override: bool) -> int:
        self._rolled_back = (_ROLLBACK_OVERRIDDEN if override else EmulatedCode.OK, 0)
        self._activated = numbers
        self._test, self._tested_at = (_PASSED, 0), self._machine.now() + self.times.self_test
        failed = False
        for number in numbers:
            part, component = self.parts[number], self._component(number)
            self._machine.activate_held(part.key, keeps_previous=part.backup is Backup.BY_COMMAND)
            rule = self._fault('self-test-fails', component, ACTIVATE, use=True)
            if rule is not None:
                self._test, failed = (_FAILED, int(rule.parameters['bits']) & 0xFF), True
        back = self._with_a_way_back(numbers)
        if failed and self.ability.automatic_rollback and not override and back:
            seconds = self.times.self_test + self.times.roll_back
            self._undoing = (self._machine.now(), back)
            self._machine.later(seconds, self._who, f'{_UNDONE} {_mask(back)}')
        return EmulatedCode.OK

    def _with_a_way_back(self, numbers: tuple[int, ...]) -> tuple[int, ...]:
        """The components that have a backup, or an image that waits for a restart of the payload and can be dropped."""

        def has_one(component: EmulatedComponent) -> bool:
            return component.previous is not None or component.staged is not None

        return tuple(n for n in numbers if self.parts[n].backup is not Backup.NONE and has_one(self._component(n)))

    def _undo(self, mask: int) -> None:
        self._undoing = None
        for number in _numbers(mask):
            self._machine.roll_back(self.parts[number].key)
        self._rolled_back = (EmulatedCode.OK, mask)

    def _self_test(self, _: CommandRequest) -> bytes:
        self._machine.settle()
        if not self.ability.self_test and self.ability.untested is not None:
            return self.ability.untested
        if self._tested_at is None or not self.ability.self_test:
            raise CommandRefusal(EmulatedCode.NOT_IN_STATE)
        if self._machine.now() < self._tested_at:
            raise CommandRefusal(_IN_PROGRESS)
        return bytes(self._test)

    def _rollback_status(self, _: CommandRequest) -> bytes | CommandAnswer:
        self._machine.settle()
        running = self._running
        if self._undoing is not None or (running is not None and running.command == ROLL_BACK):
            raise CommandRefusal(_IN_PROGRESS)
        code, mask = self._rolled_back
        percent = b'\x64' if self.ability.tells_percent and mask else b''
        return CommandAnswer(code, bytes((mask,)) + percent)

    def _roll_back(self, _: CommandRequest) -> bytes:
        back = self._with_a_way_back(self._activated or tuple(self.parts))
        if not self.ability.manual_rollback or self._upload is not None or not back:
            raise CommandRefusal(EmulatedCode.NOT_IN_STATE)
        self.rollbacks += 1

        def done() -> int:
            self._undo(_mask(back))
            return EmulatedCode.OK

        if any(self.parts[number].restarts for number in back):
            return self._away(ROLL_BACK, self.times.roll_back, done)
        return self._begin(ROLL_BACK, self.times.roll_back, done)


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


def _mask(numbers: Iterable[int]) -> int:
    return sum(1 << number for number in set(numbers))


def _numbers(mask: int) -> tuple[int, ...]:
    return tuple(number for number in range(MOST_COMPONENTS) if mask >> number & 1)
