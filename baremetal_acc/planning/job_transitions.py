# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Advance a job: record what was read of its writes and resets, and select the actions that are due.

The job is a value, and no action is performed here. Stages follow one another (:class:`~baremetal_acc.model.job.Stage`). After
a failure no further action up to the writes is started. If by then the host was held off, a lock released or an image sent,
failed flashes are rolled back (:mod:`~baremetal_acc.planning.rollback`) and the locks are still engaged, and then the job ends
as failed: no lock stays open because something else went wrong. Otherwise only the publication is left.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from baremetal_acc.model.firmware import Component
from baremetal_acc.model.image import UploadProgress
from baremetal_acc.model.inventory import Complaint, HostReading, TaskReading
from baremetal_acc.model.job import (
    Action,
    CheckImage,
    Engage,
    Flash,
    Flow,
    Item,
    ItemState,
    Job,
    Plan,
    Program,
    Publish,
    Release,
    Reset,
    ResetPurpose,
    Stage,
    Withdraw,
    WriteEvidence,
    stage,
)
from baremetal_acc.model.lock import ResetKind, Scope
from baremetal_acc.model.ref import BmcName, Ref
from baremetal_acc.planning import activation, interference, succession
from baremetal_acc.planning.image_selection import same_version
from baremetal_acc.planning.update_states import Effect, Next, UpdateObservation, following
from baremetal_acc.planning.waiting_tasks import UNPLANNED, shut_out

UNASKED = 1_000_000
"""Stands for the number of running updates when the BMC could not be asked: it gets no further update."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryLimits:
    """How long a job waits for what.

    :ivar poll: between two polls.
    :ivar settle: a device may take this long to report the version after its task has ended.
    :ivar reset: a System may take this long to come back.
    :ivar stall: a task may claim to run this long without progress; then the device is read instead. The slowest known write
        takes 40 minutes (Intel FPGA PAC N3000: openshift/openshift-docs#32785), and nobody knows whether its task reports
        progress meanwhile.
    :ivar claims: an instance may take this long to release what it has claimed.
    :ivar person: a person may take this long to do by hand what no BMC can.
    :ivar blind: a host that was read off at both ends of this interval has not run code of its own in between: no machine that
        carries accelerators gets through its firmware and a boot loader in this time.
    """

    poll: timedelta = timedelta(seconds=5)
    settle: timedelta = timedelta(seconds=120)
    reset: timedelta = timedelta(minutes=15)
    stall: timedelta = timedelta(minutes=45)
    claims: timedelta = timedelta(minutes=5)
    person: timedelta = timedelta(hours=8)
    blind: timedelta = timedelta(seconds=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSight:
    """What was read about one write.

    :ivar stalled: the device was read, because the task makes no progress any more.
    :ivar shown: the version that runs; None if it was not read, or if the device does not report it.
    :ivar task: the BMC's task for the write, if the answer to the upload named none, or named a monitor that does not say that
        it waits for a restart, and only one task can be it.
    :ivar waits: its task has not started, or waits for a restart of the host.
    :ivar lost: its task was gone before it was ever seen running: what it was is not known.
    :ivar wrote_nothing: its task was cancelled before it wrote anything.
    :ivar told_written: its task reports that this very component was written.
    :ivar installed: when the component was last written, as the BMC reports it.
    :ivar successor: the item that represents the component now, where the update has given it another URI.
    :ivar told_busy: the component or the update service reports a write in progress, and the BMC has no task for it (any more).
    :ivar complaints: what the task of a bundle reports against components that no item of the job is about.
    :ivar start: the turn that starts the task, where the task waits for that.
    :ivar task_started: StartTime of its task as the BMC reports it, while the task runs and waits for nothing.
    """

    seen: UpdateObservation
    percent: int | None = None
    message: str | None = None
    stalled: bool = False
    shown: str | None = None
    task: Ref | None = None
    waits: bool = False
    lost: bool = False
    wrote_nothing: bool = False
    told_written: bool = False
    installed: str | None = None
    successor: Component | None = None
    told_busy: bool = False
    task_started: str | None = None
    complaints: tuple[Complaint, ...] = ()
    start: UploadProgress | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What was read about the writes and resets that the job has started, and about the BMCs and hosts that it uses.

    :ivar writes: by position of the item.
    :ivar resets: True: the reset took place; False: not yet; None: the BMC does not answer.
    :ivar foreign: number of running updates that are not the job's, or that the job has given up, by BMC; :data:`UNASKED` where
        the BMC does not report it.
    :ivar hosts: power readings of the Systems that the job holds off; one that could not be read is missing.
    :ivar foreign_writes: a task of somebody else that may write firmware, by BMC to which the job has not written yet.
    :ivar changes: the tasks by which BMCs carry out changes of locks; one that could not be read is missing.
    """

    writes: Mapping[int, WriteSight] = field(default_factory=dict)
    resets: Mapping[int, bool | None] = field(default_factory=dict)
    foreign: Mapping[BmcName, int] = field(default_factory=dict)
    hosts: Mapping[Ref, HostReading] = field(default_factory=dict)
    foreign_writes: Mapping[BmcName, Ref] = field(default_factory=dict)
    changes: Mapping[Ref, TaskReading] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DueActions:
    """The job after a poll, and the positions of the items that are due.

    Mark these items by :func:`sent` and store the job before performing them.
    """

    job: Job
    perform: tuple[int, ...] = ()


def begin(
    made: Plan,
    *,
    identity: str,
    node: str,
    flow: Flow,
    step: str,
    lifecycle: int,
    now: datetime,
    timeout: timedelta,
    requester: str | None = None,
    demands_met: bool = True,
) -> Job:
    """Create the job that executes a plan."""
    return Job(
        id=identity,
        target=made.target,
        node=node,
        flow=flow,
        step=step,
        lifecycle=lifecycle,
        created=now,
        deadline=now + timeout,
        items=tuple(Item(action=action, since=now) for action in made.actions),
        parallel=made.parallel,
        requester=requester,
        demands_met=demands_met,
    )


def current(job: Job) -> Stage | None:
    """Return the current stage of the job; None when all stages have ended.

    VERIFY is due once all stages before PUBLISH have ended.
    """
    open_stages = [stage(i.action) for i in job.items if not i.state.ended]
    first = min(open_stages, default=None)
    if first in (None, Stage.PUBLISH) and job.verdict is None and not job.ended:
        return Stage.VERIFY
    return first


def advance(job: Job, sight: Sight, now: datetime, patience: RetryLimits) -> DueActions:
    """Update the job from what was read, and select the items that are due."""
    under_way = [n for n, i, _ in _open_writes(job) if i.state is not ItemState.PLANNED]
    # A job whose stages had all ended before the deadline is not expired, although its end was not reported yet.
    if now > job.deadline and current(job) is not None:
        job = expire(job, now)
    job = _writes_seen(job, sight, now, patience)
    job = _resets_seen(job, sight, now, patience)
    job = interference.watched(job, sight.hosts, now, interference.tail(patience.poll))
    job = _busy_for_too_long(job, sight, now, patience)
    job = _not_beside_what_may_go_on(job, now)
    job = _give_up_what_is_pointless(job, now)
    match current(job):
        case None | Stage.VERIFY:
            return DueActions(job=job)
        case Stage.WRITE if any(job.items[n].state is ItemState.FAILED for n in under_way):
            # A write that was given up just now may still run, and was not counted in sight.foreign: poll again first.
            return DueActions(job=job)
        case Stage.WRITE:
            return _due(job, _next_writes(job, sight))
        case Stage.RESTART_BMC | Stage.RESET as at:
            return _due(job, _next_resets(job, at))
        case Stage.RELEASE | Stage.ENGAGE | Stage.REENGAGE as at:
            return _due(job, _next_locks(job, at, now))
        case Stage() as at:
            return _due(job, [n for n, i in enumerate(job.items) if stage(i.action) is at and not i.state.ended])


def sent(job: Job, positions: Iterable[int], now: datetime) -> Job:
    """Mark items as about to be performed. The job is stored with these marks before the actions are performed."""
    items = list(job.items)
    for position in positions:
        item = items[position]
        if item.progress is not None:
            items[position] = replace(item, progress=replace(item.progress, turning=True))
        elif item.state is not ItemState.SENT:
            items[position] = item.to(ItemState.SENT, now)
    return replace(job, items=tuple(items))


def taken_up(job: Job) -> Job:
    """Return the job as it is resumed after it was stored, whichever process stopped meanwhile.

    If a turn of an image that is sent in several turns had begun, the image is sent again from the beginning: nothing of it is
    in force, and nobody knows how much of it has arrived. If that turn may have activated the image, the write is polled like
    any write that was sent.
    """
    return replace(job, items=tuple(_taken_up(item) for item in job.items))


def _taken_up(item: Item) -> Item:
    if item.progress is None or not item.progress.turning:
        return item
    if item.progress.whole:
        return replace(item, progress=None)
    return replace(item, progress=replace(item.progress, so_far=None, turning=False))


def expire(job: Job, now: datetime) -> Job:
    """Fail the actions up to the writes that have started and not ended by the deadline, and the planned rollbacks.

    Locks, and the return of the host, are still tried past the deadline. Other planned actions are not failed; the reason that
    is added to the job has them skipped.
    """

    def late(item: Item) -> Item:
        if stage(item.action) > Stage.WRITE or item.state.ended:
            return item
        last = (f' ({item.message})' if item.message else '') + objected(item)
        failed = replace(item.to(ItemState.FAILED, now, f'not done by the deadline{last}'), progress=None)
        if item.state is not ItemState.PLANNED:
            return replace(failed, unsure=isinstance(item.action, Flash | Program))
        return replace(failed, untouched=True) if item.restoring else item

    both = [(item, late(item)) for item in job.items]
    reasons = job.reasons if 'the deadline has passed' in job.reasons else (*job.reasons, 'the deadline has passed')
    # The reasons also name what took so long.
    causes = (
        f'{describe(item.action)}: {item.message}'
        for before, item in both
        if not before.state.ended
        and stage(item.action) <= Stage.WRITE
        and (before.message or before.state is not ItemState.PLANNED)
    )
    return replace(job, items=tuple(item for _, item in both), reasons=(*reasons, *causes))


def ended(
    job: Job,
    position: int,
    state: ItemState,
    now: datetime,
    message: str | None = None,
    *,
    untouched: bool = False,
    unsure: bool = False,
) -> Job:
    """Return the job with one item in another state.

    The failure of an action up to the writes, of a reset, or of a publication is added to the reasons of the job.

    :param untouched: the action failed before anything of it could reach the device.
    :param unsure: the write was given up, and nobody knows whether it has ended.
    """
    item = replace(job.items[position].to(state, now, message), untouched=untouched, unsure=unsure, progress=None)
    if state.ended:
        item = replace(item, managers=(), task_started=None)  # not needed any more, and the size of a stored job is limited
    items = (*job.items[:position], item, *job.items[position + 1 :])
    reasons = job.reasons
    counts = stage(item.action) <= Stage.WRITE or isinstance(item.action, Reset) or stage(item.action) is Stage.PUBLISH
    if state is ItemState.FAILED and counts:
        what = f'{_again(item)}{describe(item.action)}'
        reasons = (*reasons, f'{what}: {message or "failed"}')
    return replace(job, items=items, reasons=reasons)


def _again(item: Item) -> str:
    """Prefix for the reason of a failed retry or rollback."""
    if isinstance(item.action, Flash) and item.action.retry:
        return 'sent once more: '
    return 'put back: ' if item.restoring else ''


def with_item(job: Job, position: int, item: Item) -> Job:
    """Return the job with one of its items replaced."""
    return replace(job, items=(*job.items[:position], item, *job.items[position + 1 :]))


def objected(item: Item) -> str:
    """Return the objection with which a BMC accepted a request, as the end of a sentence; empty if it made none."""
    return '' if item.objection is None else f' (the BMC took it, and said: {item.objection.text})'


def complained(complaint: Complaint) -> str:
    """Return what a task reports against a component, with the names of the component where the text lacks them."""
    named = any(name in complaint.text for name in complaint.names)
    return complaint.text if named else f'{", ".join(complaint.names)}: {complaint.text}'


def stalls(item: Item, now: datetime, patience: RetryLimits) -> bool:
    """Whether the task of a write has made no progress for longer than any write takes."""
    return item.moved is not None and now - item.moved > patience.stall


def describe(action: Action) -> str:
    """Describe an action in a few words, for logs and errors."""
    match action:
        case Flash():
            return f'flash {action.component} of {action.accelerator} with {action.image}'
        case Program():
            return f'program {action.slot} of {action.accelerator} with {action.function}'
        case Reset():
            if action.kind is ResetKind.AUX_POWER_CYCLE:
                return f'cycle the standby power of {action.system}'
            if action.kind is activation.BY_HAND:
                return f'wait for somebody to pull the power cord of {action.system} and to plug it in again'
            verb = {ResetPurpose.HOLD: 'power off', ResetPurpose.RESUME: 'power on', ResetPurpose.ENFORCE: 'reset'}
            return f'{verb[action.purpose]} {action.system}'
        case Release():
            return f'release {action.mechanism} of {_protected(action)} at {action.ref}'
        case Engage():
            return f'engage {action.mechanism} of {_protected(action)} at {action.ref}'
        case CheckImage():
            return f'check image {action.image}'
        case Withdraw():
            return 'withdraw from placement'
        case Publish():
            return 'publish to placement'


def _protected(action: Release | Engage) -> str:
    """Name what a lock protects: a lock of a whole machine protects its BMC, though it is engaged in the name of one card."""
    return f'BMC {action.ref.bmc}' if action.scope is Scope.BMC else action.accelerator


def _writes_seen(job: Job, sight: Sight, now: datetime, patience: RetryLimits) -> Job:
    """Return the job after a poll of its writes."""
    for position, seen in sight.writes.items():
        item = job.items[position]
        if seen.successor is not None and isinstance(item.action, Flash | Program):
            job = succession.moved(job, item.action, seen.successor)
            item = job.items[position]
        if item.state.ended or item.state is ItemState.PLANNED or not isinstance(item.action, Flash | Program):
            continue
        action = item.action
        follows = _next(job, item, action, seen.seen)
        # Where nothing better is known, report also why the upload got no answer.
        asks = follows.effect is Effect.ASK
        said = seen.message or (item.message if item.state is ItemState.SENT and not asks else None)
        told = '; '.join(filter(None, (said, _answered(item))))
        says = ' '.join(filter(None, (follows.why and follows.why + _instead(item.action, seen), told and f'({told})')))
        # A process that was killed while it waited for the answer polls late: the time to settle begins with the first poll.
        unseen = item.state is ItemState.SENT and item.task is None and item.moved is None
        too_long = not unseen and _too_long(follows.effect, item, now, patience)
        if seen.lost or (seen.seen is UpdateObservation.AWAITS and seen.task is not None):
            item = replace(item, task=seen.task, task_started=None)
            job = with_item(job, position, item)
        if follows.effect is Effect.GIVE_UP and _may_be_cancelled(item, now, patience):
            asked = replace(item, cancelled=item.cancelled or now, message=f'{says}; the BMC was asked to cancel it')
            job = with_item(job, position, replace(asked, waits=item.waits or seen.waits))
            continue
        if too_long or follows.effect in (Effect.FAIL, Effect.GIVE_UP):
            says += _not_cancelled(item) if follows.effect is Effect.GIVE_UP else ''
            if seen.wrote_nothing:
                says = f'{shut_out(job, action) or UNPLANNED} (the BMC has cancelled it, and nothing was written)'
            unsure = follows.effect in (Effect.ASK, Effect.GIVE_UP)
            nothing = seen.wrote_nothing or seen.seen is UpdateObservation.REFUSED
            job = ended(job, position, ItemState.FAILED, now, says, unsure=unsure, untouched=nothing)
        elif follows.state is not item.state:
            job = ended(job, position, follows.state, now, seen.message)
        if job.items[position].state in (ItemState.STAGED, ItemState.DONE):
            ended_by = item.evidence or _ended_by(action, seen)
            over = replace(job.items[position], evidence=ended_by, complaints=item.complaints or seen.complaints)
            job = with_item(job, position, over)
        item = replace(job.items[position], stalled=seen.stalled, strayed=item.strayed or _strays(action, seen))
        item = replace(item, told_busy=item.told_busy or seen.told_busy)
        if item.state is ItemState.FAILED:
            percent = item.percent if seen.percent is None else seen.percent
            item = replace(item, task_failed=seen.seen is UpdateObservation.FAILED, percent=percent)
        if item.objection is not None and not _stands_still(action, seen):
            item = replace(item, objection=replace(item.objection, fails=False))
        if item.state is ItemState.STAGED and seen.seen is UpdateObservation.AWAITS:
            # The stall is counted from the first poll after the restart.
            item = replace(item, follows=True, moved=None)
        if (unseen or (item.moved is None and asks)) and not item.state.ended:
            item = replace(item, moved=now)
        if asks and not item.state.ended:
            item = replace(item, message=f'{says}; waiting for it until {_by(item, now, patience)}')
        if seen.task is not None and item.task is None and not item.state.ended:
            item = replace(item, task=seen.task)
        # The time to settle begins when progress ends; a task that only claims to run has its own limit (stall).
        if not item.state.ended and follows.effect is Effect.WAIT:
            item = replace(item, since=now, moved=now if _moved(item, seen) else item.moved, message=seen.message)
            if seen.seen in (UpdateObservation.WORKING, UpdateObservation.AWAITS):
                evidence = item.evidence or _progressed(action, seen)
                # A task that waited may be started again, and then reports another StartTime.
                started = None if seen.waits else item.task_started or seen.task_started
                item = replace(item, percent=seen.percent, waits=seen.waits, evidence=evidence, task_started=started)
            if seen.start is not None and not item.started:
                item = replace(item, state=ItemState.SENT, progress=seen.start, started=True)
        job = replace(job, items=(*job.items[:position], item, *job.items[position + 1 :]))
    return job


def _answered(item: Item) -> str:
    """Return the objection in the BMC's answer to the upload, as part of a message; empty if there was none."""
    return '' if item.objection is None else f'it answered the upload with: {item.objection.text}'


def _strays(action: Flash | Program, seen: WriteSight) -> bool:
    """Whether the component was read and shows another version than before the write, or none."""
    if seen.shown is None:
        return (
            seen.seen in (UpdateObservation.UNTOLD, UpdateObservation.UNSHOWN, UpdateObservation.MISSING)
            and action.expects is not None
        )
    return seen.shown != action.expects and not same_version(seen.shown, action.expects)


def _stands_still(action: Flash | Program, seen: WriteSight) -> bool:
    """Whether nothing is seen in progress that may be the write, and the component is as before; or nothing can be read."""
    if seen.seen is UpdateObservation.SILENT:
        return True
    as_before = seen.shown == action.expects or same_version(seen.shown, action.expects)
    return as_before and seen.seen in (UpdateObservation.REFUSED, UpdateObservation.NOTHING, UpdateObservation.UNTOLD)


def _next(job: Job, item: Item, action: Flash | Program, seen: UpdateObservation) -> Next:
    """Return the next state of a write.

    A write that waits for a restart of the host is given up if that restart cannot help it, or does not come.
    """
    follows = following(item.state, seen, _reset_of(action))
    if seen is UpdateObservation.AWAITS and (why := shut_out(job, action)) is not None:
        return Next(state=ItemState.FAILED, effect=Effect.GIVE_UP, why=why)
    if follows.effect is Effect.GIVE_UP and item.waits:
        return replace(follows, why=shut_out(job, action) or UNPLANNED)
    return follows


def _may_be_cancelled(item: Item, now: datetime, patience: RetryLimits) -> bool:
    """Whether a task that is to be given up can still be cancelled, or may still end because it was."""
    if item.task is None or item.uncancelled is not None:
        return False
    return item.cancelled is None or now - item.cancelled <= patience.settle


def _not_cancelled(item: Item) -> str:
    """Return what became of the attempt to cancel a task that is given up, as the end of a message."""
    if item.cancelled is None:
        return ''
    return f'; task {item.task} ' + (
        'goes on though it was to be cancelled' if item.uncancelled is None else f'could not be cancelled: {item.uncancelled}'
    )


def _too_long(effect: Effect, item: Item, now: datetime, patience: RetryLimits) -> bool:
    """Whether nothing has changed for as long as this effect may take."""
    limit = {Effect.SETTLE: patience.settle, Effect.ASK: patience.stall}.get(effect)
    # A write that is polled by its device made its last progress when it was sent, or when its task last reported some.
    since = item.moved or item.since if effect is Effect.ASK else max(item.since, item.moved or item.since)
    return limit is not None and now - since > limit


def _by(item: Item, now: datetime, patience: RetryLimits) -> str:
    return f'{(item.moved or now) + patience.stall:%H:%M:%S}Z'


def _progressed(action: Flash | Program, seen: WriteSight) -> WriteEvidence | None:
    """Return PROGRESS as evidence if the task is between 0 and 100 percent: a skipped task goes from 0 to 100 at once.

    The task of a bundle says nothing about a single component, which may be skipped while others are written.
    """
    if isinstance(action, Flash) and action.upload is not None:
        return None
    return WriteEvidence.PROGRESS if seen.percent is not None and 0 < seen.percent < 100 else None


def _ended_by(action: Flash | Program, seen: WriteSight) -> WriteEvidence | None:
    """Return the evidence that a write that ended well, and was not seen in progress, has reached its component."""
    if seen.told_written:
        return WriteEvidence.OUTCOME
    is_later = None not in (action.installed, seen.installed) and seen.installed != action.installed
    return WriteEvidence.INSTALLED if is_later else None


def _instead(action: Flash | Program, seen: WriteSight) -> str:
    """Say which version runs instead of the one that was sent; and if nothing else is wrong, what the catalogue may lack."""
    if seen.shown is None or same_version(seen.shown, action.version):
        return ''
    found = f': {seen.shown} runs, {action.version} was sent'
    if seen.seen is not UpdateObservation.SUCCEEDED or not isinstance(action, Flash):
        return found
    return f'{found}; apply.reset of image {action.image} is {action.reset}: name the reset there if it runs only after one'


def _moved(item: Item, seen: WriteSight) -> bool:
    """Whether a task makes progress: by its percentage, or without one by its message. An unread task counts as moving."""
    if seen.seen not in (UpdateObservation.WORKING, UpdateObservation.AWAITS) or item.moved is None:
        return True
    return seen.percent != item.percent if seen.percent is not None else seen.message != item.message


def _busy_for_too_long(job: Job, sight: Sight, now: datetime, patience: RetryLimits) -> Job:
    """Fail rollbacks that wait for longer than the stall limit for a BMC that a foreign, or the failed, update keeps busy."""
    under_way = {a.ref.bmc for _, i, a in _open_writes(job) if i.state is not ItemState.PLANNED}
    for position, item, action in tuple(_open_writes(job)):
        bmc = action.ref.bmc
        if not item.restoring or item.state is not ItemState.PLANNED:
            continue
        if bmc in under_way:
            job = with_item(job, position, replace(item, since=now))  # it waits for a write of this job, not for the BMC
        elif 0 < sight.foreign.get(bmc, 0) < UNASKED and now - item.since > patience.stall:
            why = f'an update keeps BMC {bmc} busy, and did so for {patience.stall}'
            job = ended(job, position, ItemState.FAILED, now, why, untouched=True)
    return job


def given_up(job: Job) -> Iterator[Flash | Program]:
    """Yield the writes that may continue unseen: they were given up, nothing proves that they ended, and no task reports them.

    A write whose task claims to run keeps its BMC busy, as the task of somebody else does.
    """
    items = (i for i in job.items if i.unsure and i.state.ended and not i.stalled)
    return (a for i in items if isinstance(a := i.action, Flash | Program))


def _not_beside_what_may_go_on(job: Job, now: datetime) -> Job:
    """Fail rollbacks through a BMC that may still carry out a write which the job has given up."""
    writing = {a.ref.bmc: a for a in given_up(job)}
    for position, item, action in tuple(_open_writes(job)):
        other = writing.get(action.ref.bmc)
        if other is not None and item.restoring and item.state is ItemState.PLANNED:
            why = f'whether its BMC has ended to {describe(other)} is not known'
            job = ended(job, position, ItemState.FAILED, now, why, untouched=True)
    return job


def _resets_seen(job: Job, sight: Sight, now: datetime, patience: RetryLimits) -> Job:
    """Return the job after a poll of its resets."""
    for position, came in sight.resets.items():
        item = job.items[position]
        if item.state is not ItemState.RUNNING or not isinstance(item.action, Reset):
            continue
        by_hand = item.action.kind is activation.BY_HAND
        if came:
            job = _waited(job, item, now, patience) if by_hand else job
            job = ended(job, position, ItemState.DONE, now)
            job = _in_force(job, position, item.action, now)
        elif came is None and item.action.kind.restarts_bmc and not item.silent:
            job = with_item(job, position, replace(item, silent=True))
        elif by_hand:
            if now - item.since > patience.person:
                job = ended(
                    _waited(job, item, now, patience), position, ItemState.FAILED, now, _nobody_came(job, item, patience)
                )
        elif came is False and item.again is not None and now >= item.again and now <= job.deadline:
            # The BMC has answered with an error of its own, and nothing shows that the reset took place: it is read once more,
            # and requested once more if it has not.
            job = with_item(job, position, replace(item, state=ItemState.PLANNED, rejected=2, again=None))
        elif (came is False and now - item.since > patience.reset) or now > job.deadline + patience.reset:
            is_hold = _is(item.action, ResetPurpose.HOLD)
            what = f'{item.message}, and was not seen off' if is_hold and item.message else 'did not come'
            said = f' ({item.message})' if item.rejected and item.message and not is_hold else ''
            job = ended(job, position, ItemState.FAILED, now, f'{what} within {patience.reset}{objected(item)}{said}')
    return job


def _waited(job: Job, item: Item, now: datetime, patience: RetryLimits) -> Job:
    """Extend the deadline of a job that has waited for a person by the time that was waited."""
    return replace(job, deadline=job.deadline - patience.person + (now - item.since))


def _nobody_came(job: Job, item: Item, patience: RetryLimits) -> str:
    """Return what is left to do if nobody has done the manual reset in time."""
    if not isinstance(item.action, Reset):
        raise TypeError('a person is waited for by a reset')
    flashes = activation.brought_in_force(job, item.action)
    parts = ', '.join(f'{a.component} of {a.accelerator} ({a.version})' for a in flashes) or 'what was written'
    return (
        f'nobody has done it by {item.since + patience.person:%Y-%m-%d %H:%M:%S}Z; {parts} is written and waits for it: pull '
        'the power cord of the powered-off machine, plug it in again, and run this again'
    )


def _in_force(job: Job, position: int, reset: Reset, now: datetime) -> Job:
    """Record the reset at the locks that needed it. Powering on counts as a reset of a host that was off before.

    A loss of standby power restarts the BMC; locks that need a start of the host take effect with that start.
    """
    if reset.kind.is_standby:
        restarted = (
            replace(e, reset_at=now)
            if e.needs is ResetKind.BMC_RESET and e.reset_at is None and e.reset is not None and e.reset.bmc == reset.system.bmc
            else e
            for e in job.engagements
        )
        return replace(job, engagements=tuple(restarted))
    if reset.purpose is ResetPurpose.HOLD or (reset.purpose is ResetPurpose.RESUME and not _was_off(job, position, reset)):
        return job
    engagements = tuple(
        replace(e, reset_at=now)
        if e.needs is not ResetKind.NONE
        and e.reset_at is None
        and _strong_enough(reset.kind, e.needs)
        and e.reset == reset.system
        else e
        for e in job.engagements
    )  # fmt: skip
    return replace(job, engagements=engagements)


def _was_off(job: Job, position: int, resume: Reset) -> bool:
    """Whether the last hold of this System before the given item has succeeded."""
    before = (i for i in reversed(job.items[:position]) if _is(i.action, ResetPurpose.HOLD))
    last = next((i for i in before if isinstance(i.action, Reset) and i.action.system == resume.system), None)
    return last is not None and last.state is ItemState.DONE


def _strong_enough(done: ResetKind, needed: ResetKind) -> bool:
    return done is needed or (done is ResetKind.POWER_CYCLE and needed is ResetKind.SYSTEM_RESET)


def _give_up_what_is_pointless(job: Job, now: datetime) -> Job:
    if not job.reasons:
        return job
    held = any(i.state.begun and _is(i.action, ResetPurpose.HOLD) for i in job.items)
    closed = [i.action for i in job.items if i.restoring and i.state is ItemState.FAILED and stage(i.action) < Stage.WRITE]

    def pointless(item: Item) -> bool:
        if item.state is not ItemState.PLANNED:
            return False
        if item.restoring:
            # A failure does not prevent its own rollback, unless the host could not be held or a lock could not be released.
            return stage(item.action) <= Stage.WRITE and any(_stands_in_the_way(c, item.action) for c in closed)
        if _is(item.action, ResetPurpose.RESUME):
            return not held
        if isinstance(item.action, Reset) and item.action.purpose is ResetPurpose.ENFORCE and not _needed(job, item.action):
            return True
        at = stage(item.action)
        if at is Stage.PUBLISH:
            return False  # a device whose write failed must not stay available in placement
        # A held host is given back only with proven locks, so locks are engaged for that alone.
        return at <= Stage.WRITE or not (job.opened or (held and at in (Stage.ENGAGE, Stage.REENGAGE)))

    items = tuple(i.to(ItemState.SKIPPED, now) if pointless(i) else i for i in job.items)
    return replace(job, items=items)


def _needed(job: Job, reset: Reset) -> bool:
    """Whether a reset activates an image that may have been written, or a lock. A rejected image is no reason for one."""

    def takes(item: Item) -> bool:
        match item.action:
            case Flash() as flash:
                written = item.state.begun and not item.untouched and flash.ref.bmc == reset.system.bmc
                is_enough = flash.reset.is_standby or not reset.kind.is_standby
                return written and flash.reset is not ResetKind.NONE and is_enough
            case Reset() as cycle:
                # A System that was powered off for the standby cycle starts again.
                return item.state.begun and cycle.kind.is_standby and cycle != reset and cycle.system == reset.system
            case _ if reset.kind.is_standby:
                return False
            case Engage() as engage:
                return engage.needs is not ResetKind.NONE and item.state is not ItemState.SKIPPED
            case Release():
                return item.state.begun
            case _:
                return False

    return any(map(takes, job.items))


def _stands_in_the_way(failed: Action, action: Action) -> bool:
    """Whether a failed action prevents another one: a host that is not off prevents all, a lock all changes to its card."""
    if isinstance(failed, Release) and isinstance(action, Release | Flash | Program):
        return failed.ref.bmc == action.ref.bmc if failed.scope is Scope.BMC else failed.accelerator == action.accelerator
    return True


def _next_writes(job: Job, sight: Sight) -> list[int]:
    """Return the positions of the writes that may start now.

    Lower orders go first, on whichever BMC; each card gets one write at a time, and each BMC no more than it takes. An image
    that is sent in turns continues.

    A BMC with something to roll back gets one write at a time, and none while an update runs there that is not ours: that
    update may be of the same card.
    """
    open_writes = list(_open_writes(job))
    under_way = [a for _, i, a in open_writes if i.state is not ItemState.PLANNED]
    load = Counter(a.ref.bmc for a in under_way)
    cards = {a.accelerator for a in under_way}
    # A write may have failed because the BMC had several: a BMC with something to roll back gets one at a time.
    # Another update that it runs may be the very write that has failed, under another name.
    careful = {a.ref.bmc for _, i, a in open_writes if i.restoring}
    lowest = min((a.order for _, _, a in open_writes), default=0)
    due = []
    for position, item, action in open_writes:
        if item.progress is not None:
            due.append(position)
            continue
        bmc = action.ref.bmc
        takes = 1 if bmc in careful else dict(job.parallel).get(bmc, 1)
        free = 0 if sight.foreign.get(bmc, 0) else takes - load[bmc]
        if position in due or item.state is not ItemState.PLANNED or action.order != lowest or free <= 0:
            continue
        together = sharing_upload(job, position)
        theirs = {action.accelerator, *(f.accelerator for n in together if isinstance(f := job.items[n].action, Flash))}
        if not theirs & cards:
            load[bmc] += 1
            cards |= theirs
            due += together
    return due


def sharing_upload(job: Job, position: int) -> tuple[int, ...]:
    """Return the positions of the writes of one upload: the parts of a bundle that are in the same state as the given one."""
    item = job.items[position]
    first = item.action
    if not isinstance(first, Flash) or first.upload is None:
        return (position,)
    return tuple(
        n
        for n, i in enumerate(job.items)
        if isinstance(i.action, Flash)
        and (i.action.upload, i.action.order) == (first.upload, first.order)
        and (i.state, i.restoring) == (item.state, item.restoring)
    )


def _open_writes(job: Job) -> Iterator[tuple[int, Item, Flash | Program]]:
    """Yield the writes that have not ended, with position and item."""
    for position, item in enumerate(job.items):
        if isinstance(item.action, Flash | Program) and not item.state.ended:
            yield position, item, item.action


def _next_locks(job: Job, at: Stage, now: datetime) -> list[int]:
    """Return the positions of the lock changes that may start now.

    A lockdown is released before the other locks and engaged after them: under a lockdown the BMC changes no other setting. A
    BMC that still carries out one change gets no other, and a change that it has rejected waits for its retry time.
    """
    open_ones = [(n, i) for n, i in enumerate(job.items) if stage(i.action) is at and not i.state.ended]
    lockdowns = [n for n, i in open_ones if isinstance(i.action, Release | Engage) and i.action.wraps]
    others = [n for n, _ in open_ones if n not in lockdowns]
    following = (lockdowns or others) if at is Stage.RELEASE else (others or lockdowns)
    return [n for n in following if not waits_for_lock(job, n) and (job.items[n].again or now) <= now]


def waits_for_lock(job: Job, position: int) -> bool:
    """Whether a lock change that was not sent yet waits for another one that its BMC still carries out."""
    action = job.items[position].action
    return isinstance(action, Release | Engage) and any(
        item.state is ItemState.RUNNING and isinstance(item.action, Release | Engage) and item.action.ref.bmc == action.ref.bmc
        for item in job.items
    )


def _next_resets(job: Job, at: Stage) -> list[int]:
    """Return the positions of the resets that may start now.

    Resets that enforce a change go together, but those of BMCs go before standby power is cut; the host is given back after
    all.
    """
    resets = [(n, i) for n, i in enumerate(job.items) if stage(i.action) is at and not i.state.ended]
    enforcing = [(n, i) for n, i in resets if _is(i.action, ResetPurpose.ENFORCE)]
    of_bmcs = [(n, i) for n, i in enforcing if isinstance(i.action, Reset) and i.action.kind is ResetKind.BMC_RESET]
    return [n for n, i in (of_bmcs or enforcing or resets) if i.state in (ItemState.PLANNED, ItemState.SENT)]


def _due(job: Job, positions: list[int]) -> DueActions:
    """Select the items that can be performed now. A write that was sent is only polled, unless its image is sent in turns."""

    def can(item: Item) -> bool:
        if item.state is ItemState.SENT:
            return item.progress is not None or not isinstance(item.action, Flash | Program)
        return item.state is ItemState.PLANNED

    return DueActions(job=job, perform=tuple(n for n in positions if can(job.items[n])))


def _is(action: Action, purpose: ResetPurpose) -> bool:
    """Whether an action is a reset of this purpose."""
    return isinstance(action, Reset) and action.purpose is purpose


def _reset_of(action: Flash | Program) -> ResetKind:
    return action.reset if isinstance(action, Flash) else ResetKind.NONE
