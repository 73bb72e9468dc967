# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Uploads to an emulated HPM.1 controller: backup, erase, blocks, and the check of the whole image."""

from dataclasses import dataclass, field

from baremetal_acc.emulator.image import BadImage, read_image
from baremetal_acc.emulator.ipmi.controller import CommandRefusal, CommandRequest, EmulatedCode
from baremetal_acc.emulator.ipmi.hpm_ability import Backup
from baremetal_acc.emulator.ipmi.hpm_commands import BLOCK, EVENT_RESTART, FINISH, IN_PROGRESS, INITIATE
from baremetal_acc.emulator.ipmi.hpm_progress import UpgradeProgress
from baremetal_acc.emulator.ipmi.hpm_target import UpgradeTarget, numbers_of
from baremetal_acc.emulator.ipmi.upgrade_image import version_bytes
from baremetal_acc.emulator.parts import WriteRefused
from baremetal_acc.emulator.response_faults import flipped

_NO_COMPONENT = 0x81
_WRONG_LENGTH, _WRONG_CONTENT, _DIFFERENT = 0x81, 0x82, 0x83
_FULL = 0x81
_BACK_UP, _PREPARE, _UPLOAD, _COMPARE = range(4)


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
            raise CommandRefusal(IN_PROGRESS)
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
            target.machine.later(0, target.name, f'{EVENT_RESTART} {1 << upload.number}')
        return EmulatedCode.OK
