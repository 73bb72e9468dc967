# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Feed the custody of a job with what its turns read and write: the same for the command line and Ironic."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from baremetal_acc.decide import interference
from baremetal_acc.decide.images import same_version
from baremetal_acc.model.custody import BreakCause, Custody
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import (
    Flash,
    Item,
    ItemState,
    Job,
    Plan,
    Program,
    Release,
    Reset,
    ResetPurpose,
    Verdict,
    WriteEvidence,
)
from baremetal_acc.model.lock import Engagement, Scope
from baremetal_acc.model.ref import AcceleratorId, BmcName, Ref
from baremetal_acc.planning import custody, custody_rules, updates
from baremetal_acc.run.host_polling import HostPoll
from baremetal_acc.run.sighting import stuck_tasks
from baremetal_acc.run.tools import Target, Tools

_WRITTEN = (ItemState.STAGED, ItemState.DONE)


def begun_with(job: Job, kept: Custody, made: Plan, inventory: Inventory, target: Target, tools: Tools) -> Job:
    """The job with the custody that it goes on with.

    :param kept: the custody of the machine's cards, after the reading that the plan was made from.
    :param made: its plan; ``inventory`` that reading.
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
) -> Custody:
    """The custody after a whole reading of the machine while no job of ours works.

    :param by: when the reading had ended, UTC.
    """
    for card in kept.cards:
        if card.writing is not None:  # whoever wrote it was cut off
            kept = custody.write_failed(kept, card.accelerator, inventory.at, touched=True)
    # Before what is read goes on from the last reading: somebody has written since then.
    kept = with_foreign_writes(kept, inventory)
    now = custody.read(
        kept,
        custody.seen(inventory, tools.baseline, target.node, engagements, lifecycle=lifecycle, before=kept),
        inventory.at,
        replace(_conditions(tools), ramdisk=False),
        absent_breaks=not _may_hide(inventory),
        by=by,
    )
    return custody_rules.measured(now, inventory, tools.baseline, target.node, tools.catalogue)


def _conditions(tools: Tools) -> custody.Conditions:
    settles = interference.tail(tools.patience.poll)
    return custody.Conditions(blind_limit=tools.patience.blind, settles=settles, ramdisk=tools.ramdisk)


def _may_hide(inventory: Inventory) -> bool:
    """A card that is not shown may lie behind what could not be read: the next reading says."""
    return any(gap.hides for gap in inventory.gaps)


def after_reading(job: Job, inventory: Inventory, target: Target, tools: Tools, *, starting: Ref | None = None) -> Job:
    """The job after a whole reading of the machine.

    :param starting: a System that is about to be started: what comes in force with that counts.
    """
    by = inventory.at if tools.polling is None else tools.polling.moment()
    job = after_polling(job, tools)
    cards = custody.seen(
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
        # What was just written or reset may take its time to show itself again.
        absent_breaks=not job.writing and not _may_hide(inventory),
        by=by,
    )
    kept = custody_rules.measured(kept, inventory, tools.baseline, target.node, tools.catalogue)
    # A BMC may have tasks of its own for what we write to it, so that here nothing is judged.
    return replace(job, custody=_with_updates_learnt(kept, inventory, stuck_tasks(job)))


def after_poll(job: Job, poll: HostPoll, tools: Tools) -> Job:
    """The job after the hosts that it holds off were read."""
    kept = custody.polled(job.custody, poll.hosts, poll.at, _conditions(tools), opened=_opened(job), by=poll.by)
    return replace(job, custody=kept)


def after_polling(job: Job, tools: Tools) -> Job:
    """The job with what was read of the hosts that it holds off while its turn was busy."""
    settles = interference.tail(tools.patience.poll)
    for poll in () if tools.polling is None else tools.polling.taken():
        job = interference.watched(after_poll(job, poll, tools), poll.hosts, poll.at, settles)
    return job


def _opened(job: Job) -> frozenset[AcceleratorId]:
    """The cards whose locks the job has opened, or may have. A lock of a whole machine opens all of them."""
    released = [i.action for i in job.items if isinstance(i.action, Release) and i.state.begun]
    if any(action.scope is Scope.BMC for action in released):
        return frozenset(card.accelerator for card in job.custody.cards) | job.devices
    return frozenset(action.accelerator for action in released)


def after_foreign_writes(job: Job, tasks: Mapping[BmcName, Ref], now: datetime) -> Job:
    """The job after BMCs were seen to work on what is not ours: which card that is for they need not say, so it may be any.

    :param tasks: by BMC one that may write firmware.
    """
    return replace(job, custody=_written_by_others(job.custody, tasks, now))


def with_foreign_writes(kept: Custody, inventory: Inventory) -> Custody:
    """The custody after a reading, by no job of ours, of the tasks of the BMCs: those that run, and updates that have ended."""
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
    """The job after locks were about to be opened, or writes have begun or were seen to end.

    The chain of a card begins with the last reading before the first of its writes, so that nothing between a write and its
    end is missed, and counts once all that the rules name of the card is written. What was written may still wait for a reset:
    where another version is found in the end, the write has failed, and so has the chain.
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
                kept = custody.write_failed(kept, accelerator, now, touched=False)  # the chain before it goes on
        if _ended(items) and _not_in_force(job) and not _not_in_force(before):
            kept = custody.write_failed(kept, accelerator, now, touched=True)
    return replace(job, custody=kept)


def _not_in_force(job: Job) -> bool:
    """A reset that brings what was written in force did not come. At an equal version no reading of the card tells."""
    resets = [i for i in job.items if isinstance(i.action, Reset) and i.action.purpose is ResetPurpose.ENFORCE]
    return any(i.state in (ItemState.FAILED, ItemState.SKIPPED) for i in resets)


def _writes(job: Job, accelerator: AcceleratorId) -> tuple[Item, ...]:
    """What the job writes to a card, without what it puts back after a failure. What is sent once more counts in place of what
    has failed.
    """
    mine = [i for i in job.items if isinstance(i.action, Flash | Program) and i.action.accelerator == accelerator]
    retries = _retries(mine)
    again = {i.action.ref for i in retries if isinstance(i.action, Flash)}
    first = [i for i in mine if not i.restoring and isinstance(i.action, Flash | Program) and i.action.ref not in again]
    return (*first, *retries)


def _retries(items: Iterable[Item]) -> tuple[Item, ...]:
    return tuple(i for i in items if isinstance(i.action, Flash) and i.action.retry)


def _newly_written_to(before: Job, job: Job) -> frozenset[BmcName]:
    """The BMCs that the job is about to send an image to, also to put something back."""
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
    """What shows that a write has reached the device; None: nothing does.

    That the version has moved is seen in the end, or the job fails.
    """
    action = item.action
    if not isinstance(action, Flash | Program):
        return None
    return item.evidence if same_version(action.expects, action.version) else WriteEvidence.VERSION


def judged(verdict: Verdict, kept: Custody, inventory: Inventory, target: Target, tools: Tools, now: datetime) -> Verdict:
    """The verdict with what the rules make of the custody of the cards, after the reading that it is of."""
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
