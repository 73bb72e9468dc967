# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What is to be done to a target, how far it is, and how it ended."""

from dataclasses import dataclass, field, replace
from dataclasses import field as of_dataclass
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum

from baremetal_acc.model.codec import SPARSE, stored_as
from baremetal_acc.model.custody import NO_CUSTODY, Custody
from baremetal_acc.model.finding import Fact, FindingText
from baremetal_acc.model.firmware import ItemIdentity
from baremetal_acc.model.image import Progress
from baremetal_acc.model.inventory import Complaint, ManagerReading, Objection
from baremetal_acc.model.lock import Engagement, LockState, ResetKind, Scope, Undo, WritePath
from baremetal_acc.model.note import Note
from baremetal_acc.model.ref import AcceleratorId, BmcName, Ref
from baremetal_acc.model.refusal import Refusal
from baremetal_acc.model.subject import Subject
from baremetal_acc.model.waiver import Relaxation, Waived

FORMAT = 1
"""Version of the stored job. A job of another format is not resumed."""


# ---------------------------------------------------------------------------------------------------------------- actions


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdraw:
    """Take what is unclaimed of these devices out of placement, before anything is changed.

    :ivar whole: everything of the node is taken out, and nothing of it may be claimed by anybody but its own instance.
    """

    accelerators: tuple[AcceleratorId, ...]
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckImage:
    """Read an image and compare size and digest with the catalogue, and let those BMCs judge it that do so.

    :ivar content: as of :class:`Flash`.
    :ivar places: where it may be written by a BMC that says beforehand what speaks against that.
    """

    image: str
    content: str | None = None
    places: tuple[Ref, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Open a lock that stands in our own way.

    :ivar expects: the literal value the plan saw; another one refuses.
    :ivar scope: as in the reading: a lock of scope ``bmc`` is opened once for all devices, of which ``accelerator`` is one.
    :ivar wraps: as in the reading: it is opened before all others.
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
    :ivar expects: the version the plan saw; another one refuses.
    :ivar staged: what the plan saw waiting for a reset: staged before the write, it proves nothing of the write.
    :ivar content: ``Image.content`` of the image that was planned: another one of that name is not written. None in jobs that
        were stored before there was such a field.
    :ivar restore: name of the image to put back when this one fails; None where there is none. ``restore_content`` is its
        content.
    :ivar goes_back: what ran when it was planned is what would be put back, and is in no doubt: where this fails, a device that
        has kept it may go back to it.
    :ivar forced: the BMC is told to write it whatever version is there; the plan says why.
    :ivar installed: when the plan saw that it was written last, as the BMC says it.
    :ivar bundle: name of the bundle that the image is a component of: all writes of one bundle to one BMC are one upload.
    :ivar alone: of its bundle it alone is written, by its own URI as the target.
    :ivar retry: what has failed is sent once more.
    :ivar item: by what the SoftwareInventory is known again, should the update give it another URI. None in jobs that were
        stored before there was such a field.
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
        """What it shares with all that one upload writes; None: it is sent by itself."""
        return None if self.bundle is None or self.alone else (self.bundle, self.ref.bmc)


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Put a function into one slot.

    :ivar ref: the SoftwareInventory of the slot, the one Target of the update.
    :ivar expects: the version the item had when the plan was made; another one refuses.
    :ivar content: as of :class:`Flash`, as ``staged``, ``forced`` and ``installed`` are.
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
    """Why a System is reset: to keep the tenant's code off, to bring something in force, or to give the host back."""

    HOLD = 'hold'
    ENFORCE = 'enforce'
    RESUME = 'resume'


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """Reset a System, once for all that need it.

    ``hold`` powers it off before anything is released; ``resume`` powers it on again, which brings staged firmware in force.
    One that takes the standby power powers the System off first and leaves it off: another one gives it back.

    :ivar by: whose action does it, where that is not the System itself: a Chassis.
    :ivar manager: the Manager that restarts with it, whose restart shows that it came; None where none is known.
    """

    system: Ref
    purpose: ResetPurpose
    kind: ResetKind
    why: tuple[str, ...]
    by: Ref | None = field(default=None, metadata=SPARSE)
    manager: Ref | None = field(default=None, metadata=SPARSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Engage:
    """Close a lock, then read it back (the reading back is the verdict's business).

    :ivar blocks: what it blocks when it holds.
    :ivar scope: as in the reading: a lock of scope ``bmc`` is closed once for all devices, of which ``accelerator`` is one.
    :ivar wraps: as in the reading: it is closed after all others.
    :ivar again: it is closed once more after its BMC was restarted, which may have opened it, before anything starts the host.
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
    """Make placement agree with what was verified."""


Action = Withdraw | CheckImage | Release | Flash | Program | Reset | Engage | Publish


class Stage(IntEnum):
    """The order in which a job works. A stage begins when the one before it has ended."""

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
    """The stage an action belongs to. Locks are engaged before any reset: no tenant's code runs while one is open."""
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


# ------------------------------------------------------------------------------------------------------------------- plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Actions and refusals. The plan that is printed is the plan that is executed.

    :ivar parallel: how many updates each BMC takes at once.
    """

    target: str
    actions: tuple[Action, ...]
    parallel: tuple[tuple[BmcName, int], ...] = ()
    refusals: tuple[Refusal, ...] = ()
    notes: tuple[Note, ...] = ()


# ---------------------------------------------------------------------------------------------------------------- verdict


class Met(StrEnum):
    """Whether a demand holds. What could not be asked is ``no``."""

    YES = 'yes'
    NO = 'no'


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One demand of the baseline and what was found.

    :ivar rule: name of the rule that demands it.
    :ivar state: the weakest lock state that decided, for locks.
    :ivar shows_another: the device shows a version or a function, and not the one that is demanded: only a write mends that.
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
    """What a look says about the baseline.

    :ivar waived: paths that are open by a waiver: met, and told wherever the verdict is.
    :ivar relaxed: what is asked less of than of a tenant's machine by default.
    """

    target: str
    findings: tuple[Finding, ...]
    waived: tuple[Waived, ...] = ()
    relaxed: tuple[Relaxation, ...] = ()

    @property
    def met(self) -> bool:
        """Every demand holds."""
        return all(f.met is Met.YES for f in self.findings)

    @property
    def unmet(self) -> tuple[Finding, ...]:
        """The demands that do not hold."""
        return tuple(f for f in self.findings if f.met is not Met.YES)


# -------------------------------------------------------------------------------------------------------------------- job


class ItemState(StrEnum):
    """How far one action is.

    ``sent``: about to be written, or written without an answer seen: look before anything else; or on its way, in turns
    (:attr:`Item.progress`). ``staged``: written, takes
    effect with the reset. ``skipped``: an earlier failure made it pointless.
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
        """Nothing more happens in this item's own stage."""
        return self in (ItemState.STAGED, ItemState.DONE, ItemState.FAILED, ItemState.SKIPPED)

    @property
    def begun(self) -> bool:
        """Something of it was done, or may have been."""
        return self not in (ItemState.PLANNED, ItemState.SKIPPED)


class WriteEvidence(StrEnum):
    """What shows that a write reached the device, and not only the BMC.

    ``version``: the device shows another version than before. ``progress``: its task was seen to progress. ``blocks``: the
    controller has acknowledged every block of the image. ``outcome``: a message of its task says of the very component that it
    was written. ``installed``: the BMC shows another time of its last write than before. A task that says that it succeeded is
    none: a BMC may skip an image of a version that the device has already.
    """

    VERSION = 'version'
    PROGRESS = 'progress'
    BLOCKS = 'blocks'
    OUTCOME = 'outcome'
    INSTALLED = 'installed'


@dataclass(frozen=True, slots=True, kw_only=True)
class PartReading:
    """What a part of a bundle shows that is of no card: of a baseboard.

    :ivar component: the Id of its item; where the BMC shows none, as the catalogue has it.
    :ivar expected: the version that the bundle brings.
    :ivar ref: the item; None where there is none.
    :ivar shown: the version that it shows, or None.
    """

    component: str
    expected: str
    ref: Ref | None = None
    shown: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One action of a job.

    :ivar task: the BMC's task, when there is one.
    :ivar since: when it came into its state, UTC.
    :ivar percent: progress as the BMC gives it.
    :ivar before: what LastResetTime was before a reset, to tell that the reset came. Once it is set the reset may have been
        asked for, and is not asked for again. Of a change of a lock that the BMC carries out later, or has answered with an
        error of its own or not at all: the value of the lock before that.
    :ivar message: why it failed, or what the BMC last said.
    :ivar moved: when the progress of its task was last seen to move, UTC.
    :ivar stalled: its task claims to run and does not move any more; what the item is was judged by the device.
    :ivar silent: its BMC has been silent since a reset of the BMC was asked for.
    :ivar untouched: it failed before anything of it could reach the device.
    :ivar waiting: since when it is put off because its image is away, or its card is hidden, UTC.
    :ivar busy: since when its BMC answers nothing but that it is busy, UTC.
    :ivar restoring: it puts back what a failed write has left, or belongs to that: done although the job has failed.
    :ivar progress: how far its image is, while it is sent in turns.
    :ivar evidence: what of a write was seen besides the version that runs.
    :ivar unsure: it was given up, and whether the write has ended nobody knows: nothing more is sent to its device.
    :ivar follows: its task is followed to its end: that of a write after the restart of the host with which it goes on, that of
        a change of a lock from the moment in which the BMC has accepted the change.
    :ivar cancelled: when the BMC was asked to cancel its task, which does not move any more, UTC. ``uncancelled``: why it
        refused.
    :ivar waits: when its task was last seen to run, it had not begun, or waited for a restart of the host.
    :ivar unconditional: it was written without a condition, since the BMC refuses the ETag that it shows.
    :ivar objection: what the BMC said against it in the answer by which it took it. One that says that it failed proves nothing
        any more once anything of it was seen to go on.
    :ivar task_failed: its task has ended, and said that it failed.
    :ivar strayed: since it was sent its component showed something else than it ran before, or no version.
    :ivar shown: what a reset is to bring in force was shown as running before it: that it is shown proves no reset.
    :ivar pushed: when its image was about to be sent, UTC; ``managers``: what the Managers of its BMC said right before that of
        their last restart.
    :ivar task_started: when its task was started, as the BMC says it; known once the task was seen to run.
    :ivar started: its task was seen to wait for an action that starts it, which was asked for.
    :ivar complaints: what the task of its bundle has said against parts that no item of the job is about.
    :ivar others: what the parts of its bundle that are of no card show in the end; told by the first write of the upload.
    :ivar told_busy: since its task is gone its component or the update service has said that it writes.
    :ivar cut: the image was not sent to its end, so that the BMC cannot have the whole of it.
    :ivar rejected: how often the BMC has rejected it in a row. ``again``: it is not sent before then, UTC.
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
    progress: Progress | None = field(default=None, metadata=SPARSE)
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
        """The same item in another state."""
        return replace(self, state=state, since=now, message=message if message is not None else self.message)


class Right(StrEnum):
    """What a BMC may let an account do, and another not: log in and read; write; switch power and restart."""

    READ = 'read'
    WRITE = 'write'
    POWER = 'power'


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnedAway:
    """A BMC that refuses our credentials.

    :ivar right: what for.
    :ivar times: how often it was asked in a row.
    :ivar at: when it refused last, UTC.
    :ivar what: what it said; ``hint`` what can be done.
    """

    bmc: BmcName
    right: Right
    times: int
    at: datetime
    what: str
    hint: str | None = None


class InterferenceKind(StrEnum):
    """What a job has met that it did not make, by what shows it.

    ``host-on``: a host that it holds off is on. ``host-reset``: that host was reset since it was read off. ``ramdisk-reset``: a
    host that ran the operator's ramdisk was reset by somebody else, and nobody knows what it runs. ``firmware`` and
    ``function``: a card shows another version than the one that was planned with. ``lock``: a lock is open that was closed, on
    a host that may have run since.
    """

    HOST_ON = 'host-on'
    HOST_RESET = 'host-reset'
    RAMDISK_RESET = 'ramdisk-reset'
    FIRMWARE = 'firmware'
    FUNCTION = 'function'
    LOCK = 'lock'


@dataclass(frozen=True, slots=True, kw_only=True)
class Interference:
    """Cards that somebody else may have written while a job held them open: what it wrote to them before counts for nothing.

    :ivar accelerators: the cards that were not known to be closed then.
    :ivar ref: what showed it: the System, the lock, or what of a card has another version.
    :ivar expected: what the job had left or planned with, in the BMC's own words; ``found`` what it met.
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
    """A System that a job holds off, as it was first read off: what tells whether it has run since.

    :ivar last_reset: as of :class:`~baremetal_acc.model.inventory.HostReading`; None: only a read that finds it on tells.
    :ivar once: nobody has read it again to see whether its time of the last reset still changes by that very power-off.
    """

    system: Ref
    at: datetime
    last_reset: str | None = None
    once: bool = False


class Flow(StrEnum):
    """Who runs the job: one of Ironic's flows, or the command line."""

    CLEAN = 'clean'
    DEPLOY = 'deploy'
    SERVICE = 'service'
    CLI = 'cli'


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A plan under execution, as it is stored.

    :ivar node: UUID of the node, or the target's name on the command line.
    :ivar step: the step or verb that began it, with the position among the flow's steps where there is one.
    :ivar lifecycle: of the node when it began; a job of another lifecycle is never resumed.
    :ivar parallel: how many updates each BMC takes at once; 1 where nothing is said.
    :ivar requester: who asked for it, as far as it is known.
    :ivar demands_met: the final verdict must be met, else the job fails (``verify`` and everything that writes).
    :ivar deadline: past it the job fails, whatever it waits for.
    :ivar engagements: locks engaged so far, the evidence for the verdict.
    :ivar undos: what we have closed, in this job or before it, so that it can be opened again.
    :ivar reasons: why it failed; a job with reasons ends as Failed, after everything was locked again.
    :ivar second: its stages are gone through a second time, to put back what was found wrong only in the final look. There is
        no third time.
    :ivar quarantined: devices that nobody may use: a write failed, and what was there before could not be put back. The reasons
        name them.
    :ivar bmcs: where each BMC was when the job was turned first: at another address it is another machine. Empty in jobs that
        were stored before there was such a field.
    :ivar off_since: when the end of the job first asked for a host to be powered off that must not run, UTC.
    :ivar turned_away: BMCs that refuse our credentials: they are not asked again before their time.
    :ivar held_off: the hosts that it holds off, as they were first read off.
    :ivar left_on: the hosts that it leaves on, since they run the operator's ramdisk, with the time of their last reset.
    :ivar shut: cards whose demanded paths were proven closed when the job began, and were not found open since.
    :ivar interferences: what it met and did not make. A job with any of them has failed.
    :ivar custody: that of the machine's cards, as far as it reaches.
    :ivar wholly: cards of which it writes every part that the rules name, so that a new chain of custody can begin.
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
    undos: tuple[Undo, ...] = ()
    reasons: tuple[str, ...] = ()
    verdict: Verdict | None = None
    ended: bool = False
    second: bool = False
    quarantined: tuple[AcceleratorId, ...] = ()
    bmcs: tuple[tuple[BmcName, str], ...] = ()
    off_since: datetime | None = None
    turned_away: tuple[TurnedAway, ...] = ()
    held_off: tuple[HeldOff, ...] = ()
    left_on: tuple[tuple[Ref, str], ...] = ()
    shut: frozenset[AcceleratorId] = frozenset()
    interferences: tuple[Interference, ...] = ()
    custody: Custody = NO_CUSTODY
    wholly: frozenset[AcceleratorId] = frozenset()

    @property
    def suspect(self) -> frozenset[AcceleratorId]:
        """The cards that somebody else may have written meanwhile: nobody uses them before they are written again."""
        return frozenset(card for one in self.interferences for card in one.accelerators)

    @property
    def writing(self) -> bool:
        """Something was written or is about to be, and the job has not ended: nobody else may touch power or cards."""
        return not self.ended and any(
            i.state.begun and isinstance(i.action, Release | Flash | Program | Reset | Engage) for i in self.items
        )

    @property
    def opened(self) -> bool:
        """A lock was released or an image sent, or may have been."""
        return any(i.state.begun and isinstance(i.action, Release | Flash | Program) for i in self.items)

    @property
    def sent_to(self) -> frozenset[BmcName]:
        """The BMCs that an image was sent to, or may have been, also to put something back."""
        return frozenset(i.action.ref.bmc for i in self.items if i.state.begun and isinstance(i.action, Flash | Program))

    @property
    def devices(self) -> frozenset[AcceleratorId]:
        """The devices that its actions are for: they were there when the plan was made."""
        return frozenset(i.action.accelerator for i in self.items if isinstance(i.action, Release | Flash | Program | Engage))


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The job ended and every demand holds."""

    verdict: Verdict | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """The job goes on: come back after the delay.

    :ivar doing: one line for people: what is going on.
    """

    delay: timedelta
    doing: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The job ended and something does not hold.

    :ivar wrote: whether anything was written to a device.
    :ivar quarantined: devices that nobody may use: a write failed, and what was there before could not be put back.
    :ivar interferences: what it met and did not make.
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
    'TurnedAway',
    'Verdict',
    'Wait',
    'Withdraw',
    'WriteEvidence',
    'stage',
]
