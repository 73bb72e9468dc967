# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""One action of a job with its progress, its state and the evidence of its write."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from baremetal_acc.model.action import Action
from baremetal_acc.model.codec import SPARSE
from baremetal_acc.model.image import UploadProgress
from baremetal_acc.model.inventory import Complaint, ManagerReading, Objection
from baremetal_acc.model.ref import Ref


class ItemState(StrEnum):
    """The state of one action of a job.

    ``sent``: about to be written, or written without an answer: the device is read before anything else is done. Also an image
    that is sent in several turns (:attr:`Item.progress`). ``staged``: written, takes effect with the reset. ``skipped``: an
    earlier failure made the action pointless.
    """

    PLANNED = 'planned'
    SENT = 'sent'
    RUNNING = 'running'
    STAGED = 'staged'
    DONE = 'done'
    FAILED = 'failed'
    SKIPPED = 'skipped'

    @property
    def ended(self) -> bool:
        """Whether nothing more happens to the item in its own stage."""
        return self in (ItemState.STAGED, ItemState.DONE, ItemState.FAILED, ItemState.SKIPPED)

    @property
    def begun(self) -> bool:
        """Whether a part of the action was done, or may have been."""
        return self not in (ItemState.PLANNED, ItemState.SKIPPED)


class WriteEvidence(StrEnum):
    """The evidence that a write reached the device, and not only the BMC.

    ``version``: the device shows another version than before. ``progress``: the task was seen to progress. ``blocks``: the
    controller has acknowledged every block of the image. ``outcome``: a message of the task names this very component as
    written. ``installed``: the BMC shows another time of the component's last write than before. A task that reports success is
    no evidence: a BMC may skip an image of a version that the device has already.
    """

    VERSION = 'version'
    PROGRESS = 'progress'
    BLOCKS = 'blocks'
    OUTCOME = 'outcome'
    INSTALLED = 'installed'


@dataclass(frozen=True, slots=True, kw_only=True)
class PartReading:
    """The version of a bundle's component that belongs to a baseboard and to no card.

    :ivar component: the Id of its SoftwareInventory; where the BMC shows none, the component as the catalogue names it.
    :ivar expected: the version in the bundle.
    :ivar ref: the SoftwareInventory; None where there is none.
    :ivar shown: the version that the BMC shows, or None.
    """

    component: str
    expected: str
    ref: Ref | None = None
    shown: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One action of a job.

    :ivar task: the BMC's task, when there is one.
    :ivar since: when the item entered its state, UTC.
    :ivar percent: progress as the BMC reports it.
    :ivar before: for a reset: LastResetTime before it, to tell that the reset happened. Once it is set the reset may have been
        requested, and is not requested again. For a change of a lock that the BMC carries out later, or has answered with a
        server error or not at all: the value of the lock before the change.
    :ivar message: why the action failed, or the last message of the BMC.
    :ivar moved: when the progress of its task was last seen to move, UTC.
    :ivar stalled: its task claims to run and makes no progress any more; the state of the item was decided by reading the
        device.
    :ivar silent: its BMC has not answered since a reset of the BMC was requested.
    :ivar untouched: the action failed before anything of it could reach the device.
    :ivar waiting: since when the item is postponed because its image is unavailable, or its card is hidden, UTC.
    :ivar busy: since when its BMC only answers that it is busy, UTC.
    :ivar restoring: the action restores what a failed write has left, or belongs to that: it is done although the job has
        failed.
    :ivar progress: progress of the image while it is sent in several turns.
    :ivar evidence: evidence of the write besides the running version.
    :ivar unsure: the item was given up, and it is unknown whether its write has ended: nothing more is sent to its device.
    :ivar follows: its task is followed to its end: the task of a write after the restart of the host with which it continues,
        the task of a change of a lock from the moment in which the BMC has accepted the change.
    :ivar cancelled: when the BMC was asked to cancel the stalled task, UTC. ``uncancelled``: why the BMC refused.
    :ivar waits: when its task was last seen to run, the task had not begun, or waited for a restart of the host.
    :ivar unconditional: the lock was changed by a request without If-Match, since the BMC refuses the ETag that it shows.
    :ivar objection: the BMC's objection in the answer that accepted the request. An objection that says that the request failed
        proves nothing any more once progress was seen.
    :ivar task_failed: its task has ended, and reported a failure.
    :ivar strayed: since the image was sent, the component showed another version than it ran before, or none.
    :ivar shown: the version that a reset is to activate was shown as running before the reset: showing it then proves no reset.
    :ivar pushed: when its image was about to be sent, UTC; ``managers``: what the Managers of its BMC reported of their last
        restart right before that.
    :ivar task_started: StartTime of its task, as the BMC writes it; known once the task was seen to run.
    :ivar started: its task was seen to wait for an action that starts it, and that action was requested.
    :ivar complaints: messages of its bundle's task that speak against parts for which the job has no item.
    :ivar others: the final versions of the bundle's parts that belong to no card; recorded in the first write of the upload.
    :ivar told_busy: since its task disappeared, the component or the update service has reported that it is writing.
    :ivar cut: the image was not sent to its end, so that the BMC cannot have all of it.
    :ivar rejected: how often in a row the BMC has rejected the request. ``again``: the request is not sent before that time,
        UTC.
    """

    action: Action
    since: datetime
    state: ItemState = ItemState.PLANNED
    task: Ref | None = field(default=None, metadata=SPARSE)
    percent: int | None = field(default=None, metadata=SPARSE)
    before: str | None = field(default=None, metadata=SPARSE)
    message: str | None = field(default=None, metadata=SPARSE)
    moved: datetime | None = field(default=None, metadata=SPARSE)
    stalled: bool = field(default=False, metadata=SPARSE)
    untouched: bool = field(default=False, metadata=SPARSE)
    waiting: datetime | None = field(default=None, metadata=SPARSE)
    busy: datetime | None = field(default=None, metadata=SPARSE)
    restoring: bool = field(default=False, metadata=SPARSE)
    silent: bool = field(default=False, metadata=SPARSE)
    progress: UploadProgress | None = field(default=None, metadata=SPARSE)
    evidence: WriteEvidence | None = field(default=None, metadata=SPARSE)
    unsure: bool = field(default=False, metadata=SPARSE)
    follows: bool = field(default=False, metadata=SPARSE)
    cancelled: datetime | None = field(default=None, metadata=SPARSE)
    uncancelled: str | None = field(default=None, metadata=SPARSE)
    waits: bool = field(default=False, metadata=SPARSE)
    unconditional: bool = field(default=False, metadata=SPARSE)
    objection: Objection | None = field(default=None, metadata=SPARSE)
    task_failed: bool = field(default=False, metadata=SPARSE)
    strayed: bool = field(default=False, metadata=SPARSE)
    shown: bool = field(default=False, metadata=SPARSE)
    pushed: datetime | None = field(default=None, metadata=SPARSE)
    managers: tuple[ManagerReading, ...] = field(default=(), metadata=SPARSE)
    told_busy: bool = field(default=False, metadata=SPARSE)
    cut: bool = field(default=False, metadata=SPARSE)
    rejected: int = field(default=0, metadata=SPARSE)
    again: datetime | None = field(default=None, metadata=SPARSE)
    task_started: str | None = field(default=None, metadata=SPARSE)
    started: bool = field(default=False, metadata=SPARSE)
    complaints: tuple[Complaint, ...] = field(default=(), metadata=SPARSE)
    others: tuple[PartReading, ...] = field(default=(), metadata=SPARSE)

    def to(self, state: ItemState, now: datetime, message: str | None = None) -> 'Item':
        """Return the item in another state."""
        return replace(self, state=state, since=now, message=message if message is not None else self.message)
