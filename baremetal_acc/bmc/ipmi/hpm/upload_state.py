# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""State of the upload of one component: its stages and positions, and the text by which it is stored.

Source: PICMG HPM.1 R1.0, section 3; doc/source/reference/ipmi_notes.rst, "Upload by HPM.1".
"""

import json
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from baremetal_acc.bmc.ipmi.hpm.commands import LEAST_PATIENCE, Capabilities, Properties
from baremetal_acc.bmc.ipmi.hpm.image import ActionKind, HpmImage, ImageUpload
from baremetal_acc.bmc.ipmi.hpm.upload_block import FirmwareBlock


class UploadStage(StrEnum):
    """Next stage of an upload, in this order."""

    ABORT = 'abort'
    BACKUP = 'backup'
    PREPARE = 'prepare'
    OPEN = 'open'
    SEND = 'send'
    FINISH = 'finish'
    STAGED = 'staged'


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """State of the upload of one component, kept in memory only: :func:`paused` encodes the part that is stored.

    :ivar patience: how long one command may be retried or polled.
    :ivar stages: the stages after ``stage``.
    :ivar course: all stages to do when the upload restarts.
    :ivar size: bytes of the next block.
    :ivar taken: the largest block size that was accepted.
    :ivar refused: the smallest block size that was too long.
    :ivar offset: of the next block in the firmware.
    :ivar end: end of the section to send now.
    :ivar number: of the next block; its lower eight bits are sent.
    :ivar sent: bytes that were accepted.
    :ivar looking: Get Upgrade Status is sent next.
    :ivar doubt: it is not known whether the last command arrived.
    :ivar wanted: offset and length of the section that the controller requested in its answer to a block in progress.
    :ivar anew: how often the upload has restarted by itself.
    :ivar taken_up: it was resumed, and no command has succeeded since: the controller may have lost the upload by now.
    :ivar since: when waiting began, by the caller's clock.
    :ivar pause: how long to wait before the next step.
    """

    upload: ImageUpload
    patience: timedelta
    size: int
    stage: UploadStage
    stages: tuple[UploadStage, ...]
    course: tuple[UploadStage, ...]
    taken: int = 0
    refused: int | None = None
    offset: int = 0
    end: int = 0
    number: int = 0
    sent: int = 0
    looking: bool = False
    doubt: bool = False
    wanted: tuple[int, int] | None = None
    anew: int = 0
    taken_up: bool = False
    since: float | None = None
    pause: timedelta = timedelta(0)

    @property
    def staged(self) -> bool:
        """Whether the controller has all of the firmware, and has accepted it as valid."""
        return self.stage is UploadStage.STAGED

    @property
    def percent(self) -> int:
        """Percentage of the firmware's bytes that were sent."""
        return 100 if self.staged else min(99, self.sent * 100 // len(self.upload.firmware))


def begin(
    image: HpmImage,
    upload: ImageUpload,
    target: Capabilities,
    properties: Properties,
    block: FirmwareBlock,
    *,
    further: bool = False,
) -> Transfer:
    """Create the upload of one component, before its first command.

    The image's backup and prepare actions are done if the component supports them.

    :param block: from :func:`~baremetal_acc.bmc.ipmi.hpm.upload_block.block_size`. No block is larger than a maximum that
        the controller has reported.
    :param further: this process has already staged other components of the image for the same activation: the upload then does
        not begin with Abort Firmware Upgrade, which would discard them.
    """
    stages = [UploadStage.OPEN, UploadStage.SEND, UploadStage.FINISH, UploadStage.STAGED]
    if properties.prepare and image.asks(ActionKind.PREPARE, upload.component):
        stages.insert(0, UploadStage.PREPARE)
    course = tuple(stages) if further else (UploadStage.ABORT, *stages)
    if properties.backup and image.asks(ActionKind.BACKUP, upload.component):
        stages.insert(0, UploadStage.BACKUP)
    if not further:
        stages.insert(0, UploadStage.ABORT)
    return Transfer(
        upload=upload,
        patience=max(target.upgrade, target.inaccessible, LEAST_PATIENCE),
        size=block.size,
        refused=block.size + 1 if block.told else None,
        stage=stages[0],
        stages=tuple(stages[1:]),
        course=course,
        end=len(upload.firmware),
    )


def paused(transfer: Transfer, now: float) -> str:
    """Encode an upload as text; to resume it, the same firmware is needed, and nothing else.

    :param now: by the clock of :func:`~baremetal_acc.bmc.ipmi.hpm.upload.turn`. The wait so far is kept;
        the time until the upload is resumed does not count.
    """
    told = {name: getattr(transfer, name) for name in _KEPT}
    told['patience'] = transfer.patience.total_seconds()
    told['waited'] = None if transfer.since is None else now - transfer.since
    return json.dumps(told, separators=(',', ':'))


def resumed(upload: ImageUpload, text: str, now: float) -> Transfer | None:
    """The upload that :func:`paused` has encoded; None where the text cannot be parsed, and the upload has to begin again."""
    try:
        told = json.loads(text)
        waited, wanted = told['waited'], told['wanted']
        return Transfer(
            upload=upload,
            patience=timedelta(seconds=told['patience']),
            stage=UploadStage(told['stage']),
            stages=tuple(UploadStage(stage) for stage in told['stages']),
            course=tuple(UploadStage(stage) for stage in told['course']),
            taken_up=True,
            wanted=None if wanted is None else (int(wanted[0]), int(wanted[1])),
            since=None if waited is None else now - float(waited),
            **{name: told[name] for name in _KEPT if name not in ('stage', 'stages', 'course', 'wanted')},
        )
    except (ValueError, KeyError, TypeError, IndexError):
        return None


_KEPT = (
    'stage',
    'stages',
    'course',
    'size',
    'taken',
    'refused',
    'offset',
    'end',
    'number',
    'sent',
    'looking',
    'doubt',
    'wanted',
    'anew',
)
