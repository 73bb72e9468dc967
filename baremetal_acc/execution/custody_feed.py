# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Update the chain of custody of a job's cards after each reading and write: the same for the command line and for Ironic.

The rules of custody are in :mod:`baremetal_acc.planning.custody`.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from baremetal_acc.execution.context import Target, Tools
from baremetal_acc.execution.host_polling import HostPoll
from baremetal_acc.execution.job_polling import stuck_tasks
from baremetal_acc.model.action import Flash, Program, Release, Reset, ResetPurpose
from baremetal_acc.model.custody import BreakCause, Custody
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import Job
from baremetal_acc.model.job_item import Item, ItemState, WriteEvidence
from baremetal_acc.model.lock import Engagement, Scope
from baremetal_acc.model.plan import Plan
from baremetal_acc.model.ref import AcceleratorId, BmcName, Ref
from baremetal_acc.model.verdict import Verdict
from baremetal_acc.planning import custody, custody_intervals, custody_readings, custody_rules, interference, updates
from baremetal_acc.planning.image_selection import same_version

_WRITTEN = (ItemState.STAGED, ItemState.DONE)


def begun_with(job: Job, kept: Custody, made: Plan, inventory: Inventory, target: Target, tools: Tools) -> Job:
    """Return the job with the custody that it continues.

    :param kept: the custody of the machine's cards, after the reading that the plan was made from.
    :param made: the job's plan; ``inventory`` that reading.
    """
    return replace(job, custody=kept, wholly=custody_rules.wholly_written(made, inventory, tools.baseline, target.node))


def looked(
    kept: Custody,
    inventory: Inventory,
    target: Target,
    tools: Tools,
    engagements: Iterable[Engagement],
    *,
    lifecycle: int,
    by: datetime,
    starting: Ref | None = None,
) -> Custody:
    """Return the custody after a whole reading of the machine while no job of ours runs.

    :param by: when the reading had ended, UTC.
    :param starting: as of :func:`after_reading`.
    """
    for card in kept.cards:
        if card.writing is not None:  # the job that wrote it was cut off
            kept = custody.write_failed(kept, card.accelerator, inventory.at, touched=True)
    # First break the chains of what somebody else has written since the last reading, then extend the others.
    kept = with_foreign_writes(kept, inventory)
    now = custody.read(
        kept,
        custody_readings.seen(
            inventory, tools.baseline, target.node, engagements, lifecycle=lifecycle, before=kept, starting=starting
        ),
        inventory.at,
        replace(_conditions(tools), ramdisk=False),
        absent_breaks=not _may_hide(inventory),
        by=by,
    )
    return custody_rules.measured(now, inventory, tools.baseline, target.node, tools.catalogue, tools.references)


def _conditions(tools: Tools) -> custody_intervals.Conditions:
    settles = interference.tail(tools.patience.poll)
    return custody_intervals.Conditions(blind_limit=tools.patience.blind, settles=settles, ramdisk=tools.ramdisk)


def _may_hide(inventory: Inventory) -> bool:
    """Whether a gap of the inventory may hide a card that is not shown: the next reading will tell."""
    return any(gap.hides for gap in inventory.gaps)


def after_reading(job: Job, inventory: Inventory, target: Target, tools: Tools, *, starting: Ref | None = None) -> Job:
    """Return the job after a whole reading of the machine.

    :param starting: a System that is about to be started: locks that take effect with its start count.
    """
    by = inventory.at if tools.polling is None else tools.polling.moment()
    job = after_polling(job, tools)
    cards = custody_readings.seen(
        inventory,
        tools.baseline,
        target.node,
        job.engagements,
        lifecycle=job.lifecycle,
        before=job.custody,
        starting=starting,
    )
    kept = custody.read(
        job.custody,
        cards,
        inventory.at,
        _conditions(tools),
        # A card that was just written or reset may take time to be shown again.
        absent_breaks=not job.writing and not _may_hide(inventory),
        by=by,
    )
    kept = custody_rules.measured(kept, inventory, tools.baseline, target.node, tools.catalogue, tools.references)
    # A BMC may have tasks of its own for what the job writes, so the updates are learnt and not judged here.
    return replace(job, custody=_with_updates_learnt(kept, inventory, stuck_tasks(job)))


def after_poll(job: Job, poll: HostPoll, tools: Tools) -> Job:
    """Return the job after the power of the hosts that it holds off was read."""
    kept = custody.polled(job.custody, poll.hosts, poll.at, _conditions(tools), opened=_opened(job), by=poll.by)
    return replace(job, custody=kept)


def after_polling(job: Job, tools: Tools) -> Job:
    """Return the job with the power readings that were taken of its hosts while its turn was busy."""
    settles = interference.tail(tools.patience.poll)
    for poll in () if tools.polling is None else tools.polling.taken():
        job = interference.watched(after_poll(job, poll, tools), poll.hosts, poll.at, settles)
    return job


def _opened(job: Job) -> frozenset[AcceleratorId]:
    """Return the cards whose locks the job has released, or may have. A lock of a whole machine opens all of them."""
    released = [i.action for i in job.items if isinstance(i.action, Release) and i.state.begun]
    if any(action.scope is Scope.BMC for action in released):
        return frozenset(card.accelerator for card in job.custody.cards) | job.devices
    return frozenset(action.accelerator for action in released)


def after_foreign_writes(job: Job, tasks: Mapping[BmcName, Ref], now: datetime) -> Job:
    """Return the job after BMCs were seen to run updates that are not ours.

    A BMC need not say for which card an update is, so the chains of all its cards are broken.

    :param tasks: by BMC, a task that may write firmware.
    """
    return replace(job, custody=_written_by_others(job.custody, tasks, now))


def with_foreign_writes(kept: Custody, inventory: Inventory) -> Custody:
    """Return the custody after a reading outside of a job, by the tasks of the BMCs: running ones, and ended updates."""
    ended = {facts.name: ref for facts in inventory.bmcs if (ref := updates.new(kept, facts)) is not None}
    running = {facts.name: ref for facts in inventory.bmcs if (ref := updates.running(kept, facts)) is not None}
    return _with_updates_learnt(_written_by_others(kept, ended | running, inventory.at), inventory)


def _with_updates_learnt(kept: Custody, inventory: Inventory, stuck: Collection[Ref] = ()) -> Custody:
    for facts in inventory.bmcs:
        kept = updates.learnt(kept, facts, stuck)
    return kept


def _written_by_others(kept: Custody, tasks: Mapping[BmcName, Ref], now: datetime) -> Custody:
    for name, task in tasks.items():
        cards = [c.accelerator for c in kept.cards if c.seen is not None and name in c.seen.bmcs]
        kept = custody.broken(kept, cards, BreakCause.FOREIGN_WRITE, now, task)
    return kept


def after_writes(before: Job, job: Job, now: datetime) -> Job:
    """Return the job after locks were about to be released, or writes have begun or were seen to end.

    The chain of a card begins with the last reading before the first of its writes, so that nothing between a write and its end
    is missed. It counts once everything that the rules name of the card is written. Written firmware may still wait for a
    reset: where another version is found in the end, the write has failed, and so has the chain.
    """
    kept = custody.broken(job.custody, sorted(job.suspect), BreakCause.EXPOSED, now)
    kept = custody.opened(kept, _opened(job) - _opened(before))
    kept = updates.forgotten(kept, _newly_written_to(before, job))
    for accelerator in sorted(job.devices):
        items, earlier = _writes(job, accelerator), _writes(before, accelerator)
        failed = [i for i in items if i.state is ItemState.FAILED]
        if (_begun(items) and not _begun(earlier)) or _begun(_retries(items)) > _begun(_retries(earlier)):
            images = [i.action.image for i in items if isinstance(i.action, Flash | Program)]
            kept = custody.write_begun(kept, accelerator, now, images=images)
        if failed and failed != [i for i in earlier if i.state is ItemState.FAILED]:
            touched = any(not i.untouched for i in items if i.state.begun)
            kept = custody.write_failed(kept, accelerator, now, touched=touched)
        elif _ended(items) and not _ended(earlier):
            if accelerator in job.wholly:
                evidenced = all(evidence_of(item) is not None for item in items)
                kept = custody.write_ended(kept, accelerator, now, evidenced=evidenced)
            else:
                kept = custody.write_failed(kept, accelerator, now, touched=False)  # the earlier chain continues
        if _ended(items) and _not_in_force(job) and not _not_in_force(before):
            kept = custody.write_failed(kept, accelerator, now, touched=True)
    return replace(job, custody=kept)


def _not_in_force(job: Job) -> bool:
    """Whether a reset that activates what was written did not come. Where the version is the same no reading can tell."""
    resets = [i for i in job.items if isinstance(i.action, Reset) and i.action.purpose is ResetPurpose.ENFORCE]
    return any(i.state in (ItemState.FAILED, ItemState.SKIPPED) for i in resets)


def _writes(job: Job, accelerator: AcceleratorId) -> tuple[Item, ...]:
    """Return what the job writes to a card, without what it restores after a failure.

    A retry counts in place of the write that failed.
    """
    mine = [i for i in job.items if isinstance(i.action, Flash | Program) and i.action.accelerator == accelerator]
    retries = _retries(mine)
    again = {i.action.ref for i in retries if isinstance(i.action, Flash)}
    first = [i for i in mine if not i.restoring and isinstance(i.action, Flash | Program) and i.action.ref not in again]
    return (*first, *retries)


def _retries(items: Iterable[Item]) -> tuple[Item, ...]:
    return tuple(i for i in items if isinstance(i.action, Flash) and i.action.retry)


def _newly_written_to(before: Job, job: Job) -> frozenset[BmcName]:
    """Return the BMCs that the job is about to send an image to, also to restore one."""
    begun = [item.state.begun for item in before.items]
    return frozenset(
        item.action.ref.bmc
        for position, item in enumerate(job.items)
        if isinstance(item.action, Flash | Program) and item.state.begun and not (position < len(begun) and begun[position])
    )


def _begun(items: tuple[Item, ...]) -> bool:
    return any(i.state.begun for i in items)


def _ended(items: tuple[Item, ...]) -> bool:
    return bool(items) and all(i.state in _WRITTEN for i in items)


def evidence_of(item: Item) -> WriteEvidence | None:
    """Return what shows that a write has reached the device; None: nothing does.

    A version that differs from the one before is read back at the end of the job, or the job fails.
    """
    action = item.action
    if not isinstance(action, Flash | Program):
        return None
    return item.evidence if same_version(action.expects, action.version) else WriteEvidence.VERSION


def judged(verdict: Verdict, kept: Custody, inventory: Inventory, target: Target, tools: Tools, now: datetime) -> Verdict:
    """Return the verdict with the custody findings of the rules, after the reading that the verdict is of."""
    found = custody_rules.findings(kept, inventory, tools.baseline, target.node, now)
    return replace(verdict, findings=(*verdict.findings, *found))


__all__ = [
    'after_foreign_writes',
    'after_poll',
    'after_polling',
    'after_reading',
    'after_writes',
    'begun_with',
    'evidence_of',
    'judged',
    'looked',
    'with_foreign_writes',
]
