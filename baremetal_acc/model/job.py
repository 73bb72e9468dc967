# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A job: a plan under execution as it is stored between turns, and the outcome of a turn."""

from dataclasses import dataclass, field, replace
from dataclasses import field as of_dataclass
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum
from typing import ClassVar

from baremetal_acc.model.codec import SPARSE, stored_as
from baremetal_acc.model.custody import NO_CUSTODY, Custody
from baremetal_acc.model.finding import Fact, FindingText
from baremetal_acc.model.firmware import ItemIdentity
from baremetal_acc.model.image import UploadProgress
from baremetal_acc.model.inventory import Complaint, ManagerReading, Objection
from baremetal_acc.model.lock import Engagement, LockState, LockUndoRecord, ResetKind, Scope, WritePath
from baremetal_acc.model.note import Note
from baremetal_acc.model.ref import AcceleratorId, BmcName, Ref
from baremetal_acc.model.refusal import Refusal
from baremetal_acc.model.subject import Subject
from baremetal_acc.model.waiver import Relaxation, Waived

FORMAT = 1
"""Format version of a stored job. A job of another format is not resumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdraw:
    """Withdraw the unclaimed inventory of these devices from placement, before anything is changed.

    :ivar whole: withdraw everything of the node; nobody but the node's own instance may have a claim on any of it.
    """

    accelerators: tuple[AcceleratorId, ...]
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckImage:
    """Read an image, compare its size and digest with the catalogue, and let the BMCs judge it that can.

    :ivar content: see :class:`Flash`.
    :ivar places: components that the image may be written to by a BMC that says beforehand what speaks against an image.
    """

    image: str
    content: str | None = None
    places: tuple[Ref, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Open a lock that blocks our own write.

    :ivar expects: the literal value that the plan saw; any other value refuses the action.
    :ivar scope: as in the reading: a lock of scope ``bmc`` is opened once for all devices, of which ``accelerator`` is one.
    :ivar wraps: as in the reading: such a lock is opened before all others.
    """

    accelerator: AcceleratorId
    mechanism: str
    ref: Ref
    field: str
    expects: str | None
    scope: Scope = Scope.DEVICE
    wraps: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Flash:
    """Write a firmware image to one component.

    :ivar ref: the SoftwareInventory, the one Target of the update.
    :ivar expects: the version that the plan saw; any other version refuses the action.
    :ivar staged: the version that the plan saw waiting for a reset: since it was staged before the write, it is no evidence of
        the write.
    :ivar content: ``Image.content`` of the planned image: another image of that name is not written. None in jobs that were
        stored by releases without this field.
    :ivar restore: name of the image to restore when this write fails; None where there is none. ``restore_content`` is its
        content.
    :ivar goes_back: the version that ran when the write was planned is the one that would be restored, and is not in doubt:
        where the write fails, a device that has kept that version may roll back to it.
    :ivar forced: the BMC is told to write the image whatever version is there (ForceUpdate); the plan says why.
    :ivar installed: the time of the component's last write that the plan saw, as the BMC writes it.
    :ivar bundle: name of the bundle that the image is a component of: all writes of one bundle to one BMC are one upload.
    :ivar alone: only this component of the bundle is written, by its own URI as the target.
    :ivar retry: the image is sent once more after a failure.
    :ivar item: the properties by which the SoftwareInventory is found again if the update gives it another URI. None in jobs
        that were stored by releases without this field.
    """

    accelerator: AcceleratorId
    component: str
    ref: Ref
    image: str
    version: str
    expects: str | None
    reset: ResetKind = ResetKind.NONE
    order: int = 0
    content: str | None = None
    restore: str | None = None
    staged: str | None = None
    restore_content: str | None = None
    goes_back: bool = False
    forced: bool = field(default=False, metadata=SPARSE)
    installed: str | None = field(default=None, metadata=SPARSE)
    bundle: str | None = field(default=None, metadata=SPARSE)
    alone: bool = field(default=False, metadata=SPARSE)
    retry: bool = field(default=False, metadata=SPARSE)
    item: ItemIdentity | None = field(default=None, metadata=SPARSE)

    @property
    def upload(self) -> tuple[str, BmcName] | None:
        """The key that all writes of one upload share: bundle and BMC; None where the image is sent by itself."""
        return None if self.bundle is None or self.alone else (self.bundle, self.ref.bmc)


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Put a function into one slot.

    :ivar ref: the SoftwareInventory of the slot, the one Target of the update.
    :ivar expects: the version of the SoftwareInventory when the plan was made; any other version refuses the action.
    :ivar content: see :class:`Flash`, as for ``staged``, ``forced`` and ``installed``.
    """

    accelerator: AcceleratorId
    slot: str
    ref: Ref
    image: str
    function: str
    version: str
    expects: str | None
    order: int = 0
    content: str | None = None
    staged: str | None = None
    forced: bool = field(default=False, metadata=SPARSE)
    installed: str | None = field(default=None, metadata=SPARSE)


class ResetPurpose(StrEnum):
    """Why a System is reset.

    ``hold``: keep the tenant's code from running. ``enforce``: let settings or firmware take effect. ``resume``: let the host
    run again.
    """

    HOLD = 'hold'
    ENFORCE = 'enforce'
    RESUME = 'resume'


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """Reset a System, once for all actions that need it.

    ``hold`` powers the System off before anything is released; ``resume`` powers it on again, with which staged firmware takes
    effect. A reset that removes the standby power powers the System off first and leaves it off: another reset powers it on.

    :ivar by: the resource whose action resets it, where that is not the System itself: a Chassis.
    :ivar manager: the Manager that restarts with the reset, and whose restart shows that the reset happened; None where none is
        known.
    """

    system: Ref
    purpose: ResetPurpose
    kind: ResetKind
    why: tuple[str, ...]
    by: Ref | None = field(default=None, metadata=SPARSE)
    manager: Ref | None = field(default=None, metadata=SPARSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Engage:
    """Close a lock. The reading that proves the lock is part of the verdict.

    :ivar blocks: the write paths that the lock blocks when it holds.
    :ivar scope: as in the reading: a lock of scope ``bmc`` is closed once for all devices, of which ``accelerator`` is one.
    :ivar wraps: as in the reading: such a lock is closed after all others.
    :ivar again: the lock is closed once more after a restart of its BMC, which may have opened it, before anything starts the
        host.
    """

    accelerator: AcceleratorId
    mechanism: str
    ref: Ref
    field: str
    blocks: frozenset[WritePath]
    needs: ResetKind = ResetKind.NONE
    scope: Scope = Scope.DEVICE
    wraps: bool = False
    again: bool = of_dataclass(default=False, metadata=SPARSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """Publish to placement what was verified."""


Action = Withdraw | CheckImage | Release | Flash | Program | Reset | Engage | Publish


class Stage(IntEnum):
    """The stages of a job in their order. A stage begins when the one before it has ended."""

    WITHDRAW = 1
    CHECK = 2
    HOLD = 3
    RELEASE = 4
    WRITE = 5
    ENGAGE = 6
    RESTART_BMC = 7
    REENGAGE = 8
    RESET = 9
    VERIFY = 10
    PUBLISH = 11


def stage(action: Action) -> Stage:
    """Return the stage of an action. Locks are engaged before any reset: no tenant's code runs while a lock is open."""
    match action:
        case Withdraw():
            return Stage.WITHDRAW
        case CheckImage():
            return Stage.CHECK
        case Release():
            return Stage.RELEASE
        case Flash() | Program():
            return Stage.WRITE
        case Engage():
            return Stage.REENGAGE if action.again else Stage.ENGAGE
        case Reset(purpose=ResetPurpose.HOLD):
            return Stage.HOLD
        case Reset() if action.kind.restarts_bmc:
            return Stage.RESTART_BMC
        case Reset():
            return Stage.RESET
        case Publish():
            return Stage.PUBLISH


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The actions and refusals for a target. The plan that is printed is the plan that is executed.

    :ivar parallel: how many updates each BMC takes at once.
    """

    target: str
    actions: tuple[Action, ...]
    parallel: tuple[tuple[BmcName, int], ...] = ()
    refusals: tuple[Refusal, ...] = ()
    notes: tuple[Note, ...] = ()


class Met(StrEnum):
    """Whether a demand holds. A demand that could not be checked is ``no``."""

    YES = 'yes'
    NO = 'no'


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One demand of the baseline, and what was found.

    :ivar rule: name of the rule that demands it.
    :ivar state: for locks: the weakest lock state, which decided.
    :ivar shows_another: the device shows a version or a function, and not the demanded one: only a write mends that.
    """

    accelerator: AcceleratorId | None
    label: str
    subject: Subject
    fact: Fact = field(metadata=stored_as(FindingText))
    met: Met
    rule: str
    state: LockState | None = None
    shows_another: bool = field(default=False, metadata=SPARSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of comparing an inventory with the baseline.

    :ivar waived: paths that are open by a waiver: their demands are met, and they are reported with every verdict.
    :ivar relaxed: demands that are weaker than the default for a tenant's machine.
    """

    target: str
    findings: tuple[Finding, ...]
    waived: tuple[Waived, ...] = ()
    relaxed: tuple[Relaxation, ...] = ()

    @property
    def met(self) -> bool:
        """Whether every demand holds."""
        return all(f.met is Met.YES for f in self.findings)

    @property
    def unmet(self) -> tuple[Finding, ...]:
        """The demands that do not hold."""
        return tuple(f for f in self.findings if f.met is not Met.YES)


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


class Right(StrEnum):
    """A right of an account on a BMC: log in and read; write; switch power and restart."""

    READ = 'read'
    WRITE = 'write'
    POWER = 'power'


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginRefusal:
    """A BMC that refuses our credentials.

    :ivar right: the right that was refused.
    :ivar times: how often in a row the BMC has refused.
    :ivar at: when the BMC refused last, UTC.
    :ivar what: the BMC's message; ``hint`` is a remedy.
    """

    STORED_NAME: ClassVar = 'TurnedAway'

    bmc: BmcName
    right: Right
    times: int
    at: datetime
    what: str
    hint: str | None = None


class InterferenceKind(StrEnum):
    """What shows that somebody else interfered with a job.

    ``host-on``: a host that the job holds off is on. ``host-reset``: that host was reset since it was read off.
    ``ramdisk-reset``: a host that ran the operator's ramdisk was reset by somebody else, and it is unknown what it runs.
    ``firmware`` and ``function``: a card shows another version than the one that the plan expects. ``lock``: a lock is open
    that was closed, on a host that may have run since.
    """

    HOST_ON = 'host-on'
    HOST_RESET = 'host-reset'
    RAMDISK_RESET = 'ramdisk-reset'
    FIRMWARE = 'firmware'
    FUNCTION = 'function'
    LOCK = 'lock'


@dataclass(frozen=True, slots=True, kw_only=True)
class Interference:
    """Cards that somebody else may have written while a job held them open. Earlier writes to them count for nothing.

    :ivar accelerators: the cards that were not known to be closed then.
    :ivar ref: the resource that showed it: the System, the lock, or the component of a card that has another version.
    :ivar expected: what the job had left or expected, as the BMC wrote it; ``found`` what was found.
    """

    kind: InterferenceKind
    accelerators: frozenset[AcceleratorId]
    at: datetime
    ref: Ref
    expected: str | None = None
    found: str | None = None

    def __str__(self) -> str:
        what = {
            InterferenceKind.HOST_ON: f'the host was held off, and {self.ref} is {self.found}',
            InterferenceKind.HOST_RESET: (
                f'the host was held off, and has run: the last reset of {self.ref} was at {self.expected}, and is at '
                f'{self.found} now'
            ),
            InterferenceKind.RAMDISK_RESET: (
                f"the host ran the operator's ramdisk, and was reset: the last reset of {self.ref} was at {self.expected}, and "
                f'is at {self.found} now'
            ),
            InterferenceKind.FIRMWARE: f'{self.ref} shows version {self.found}, and {self.expected} was planned with',
            InterferenceKind.FUNCTION: f'{self.ref} shows version {self.found}, and {self.expected} was planned with',
            InterferenceKind.LOCK: f'the lock at {self.ref} is {self.found}, and the host may have run since it was closed',
        }[self.kind]
        cards = ', '.join(sorted(self.accelerators)) or 'no card'
        return f'somebody else may have written {cards} meanwhile: {what}'


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOff:
    """A System that a job holds off, with its first reading as off, which later shows whether the System has run since.

    :ivar last_reset: see :class:`~baremetal_acc.model.inventory.HostReading`; None: only a reading that finds the System on
        shows it.
    :ivar once: the System was read only once, so that its time of the last reset may still change by that very power-off.
    """

    system: Ref
    at: datetime
    last_reset: str | None = None
    once: bool = False


class Flow(StrEnum):
    """The flow that runs a job: one of Ironic's flows, or the command line."""

    CLEAN = 'clean'
    DEPLOY = 'deploy'
    SERVICE = 'service'
    CLI = 'cli'


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A plan under execution, as it is stored between turns.

    :ivar node: UUID of the node; on the command line the name of the target.
    :ivar step: the step or verb that began the job, with its position among the flow's steps where there is one.
    :ivar lifecycle: lifecycle of the node when the job began; a job of another lifecycle is never resumed.
    :ivar parallel: how many updates each BMC takes at once; 1 where a BMC is not named.
    :ivar requester: who requested the job, as far as it is known.
    :ivar demands_met: the final verdict must be met, or else the job fails (``verify`` and everything that writes).
    :ivar deadline: after it the job fails, whatever it waits for.
    :ivar engagements: locks engaged so far, the evidence for the verdict.
    :ivar undos: what we have closed, in this job or before it, so that it can be opened again.
    :ivar reasons: why the job failed; a job with reasons ends as Failed, after everything was locked again.
    :ivar second: the stages run a second time, to restore what only the final read found wrong. There is no third time.
    :ivar quarantined: devices that nobody may use: a write failed, and the earlier firmware or function could not be restored.
        ``reasons`` names them.
    :ivar bmcs: the address of each BMC at the first turn of the job: at another address it is another machine. Empty in jobs
        that were stored by releases without this field.
    :ivar off_since: when the end of the job first requested that a host that must not run is powered off, UTC.
    :ivar turned_away: BMCs that refuse our credentials, and that are not asked again before their back-off has ended.
    :ivar held_off: the hosts that the job holds off, as they were first read off.
    :ivar left_on: the hosts that the job leaves on, since they run the operator's ramdisk, with the time of their last reset.
    :ivar shut: cards whose demanded paths were proven closed when the job began, and were not found open since then.
    :ivar interferences: interference by somebody else that the job has met. A job with any of them has failed.
    :ivar custody: the custody of the machine's cards, up to the job's last reading.
    :ivar wholly: cards of which the job writes every part that the rules name, so that a new chain of custody can begin.
    """

    id: str
    target: str
    node: str
    flow: Flow
    step: str
    lifecycle: int
    created: datetime
    deadline: datetime
    items: tuple[Item, ...]
    parallel: tuple[tuple[BmcName, int], ...] = ()
    demands_met: bool = True
    requester: str | None = None
    format: int = FORMAT
    engagements: tuple[Engagement, ...] = ()
    undos: tuple[LockUndoRecord, ...] = ()
    reasons: tuple[str, ...] = ()
    verdict: Verdict | None = None
    ended: bool = False
    second: bool = False
    quarantined: tuple[AcceleratorId, ...] = ()
    bmcs: tuple[tuple[BmcName, str], ...] = ()
    off_since: datetime | None = None
    turned_away: tuple[LoginRefusal, ...] = ()
    held_off: tuple[HeldOff, ...] = ()
    left_on: tuple[tuple[Ref, str], ...] = ()
    shut: frozenset[AcceleratorId] = frozenset()
    interferences: tuple[Interference, ...] = ()
    custody: Custody = NO_CUSTODY
    wholly: frozenset[AcceleratorId] = frozenset()

    @property
    def suspect(self) -> frozenset[AcceleratorId]:
        """The cards that somebody else may have written during the job: they must be written again before anybody uses them."""
        return frozenset(card for one in self.interferences for card in one.accelerators)

    @property
    def writing(self) -> bool:
        """Whether something was written or is about to be, and the job has not ended: nobody else may change power or cards."""
        return not self.ended and any(
            i.state.begun and isinstance(i.action, Release | Flash | Program | Reset | Engage) for i in self.items
        )

    @property
    def opened(self) -> bool:
        """Whether a lock was released or an image sent, or may have been."""
        return any(i.state.begun and isinstance(i.action, Release | Flash | Program) for i in self.items)

    @property
    def sent_to(self) -> frozenset[BmcName]:
        """The BMCs that an image was sent to, or may have been, including restore images."""
        return frozenset(i.action.ref.bmc for i in self.items if i.state.begun and isinstance(i.action, Flash | Program))

    @property
    def devices(self) -> frozenset[AcceleratorId]:
        """The devices that the job's actions are for: they were there when the plan was made."""
        return frozenset(i.action.accelerator for i in self.items if isinstance(i.action, Release | Flash | Program | Engage))


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The job has ended, and every demand holds."""

    verdict: Verdict | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """The job has not ended: run its next turn after the delay.

    :ivar doing: one line for people: the present activity.
    """

    delay: timedelta
    doing: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The job has ended, and a demand does not hold.

    :ivar wrote: whether anything was written to a device.
    :ivar quarantined: devices that nobody may use: a write failed, and the earlier firmware or function could not be restored.
    :ivar interferences: interference by somebody else that the job has met.
    """

    reasons: tuple[str, ...]
    wrote: bool
    verdict: Verdict | None = None
    quarantined: tuple[AcceleratorId, ...] = ()
    interferences: tuple[Interference, ...] = ()


Outcome = Done | Wait | Failed

__all__ = [
    'FORMAT',
    'Action',
    'CheckImage',
    'Done',
    'Engage',
    'Failed',
    'Finding',
    'Flash',
    'Flow',
    'HeldOff',
    'Interference',
    'InterferenceKind',
    'Item',
    'ItemState',
    'Job',
    'LoginRefusal',
    'Met',
    'Outcome',
    'PartReading',
    'Plan',
    'Program',
    'Publish',
    'Release',
    'Reset',
    'ResetPurpose',
    'Right',
    'Stage',
    'Verdict',
    'Wait',
    'Withdraw',
    'WriteEvidence',
    'stage',
]
