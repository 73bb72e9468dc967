# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Finish a job: final inspection, verdict, hosts that stay powered off, and publication to placement."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime

from baremetal_acc.bmc.driver import Look
from baremetal_acc.errors import AccError, BmcError, BmcLockedOut
from baremetal_acc.execution import custody_feed
from baremetal_acc.execution.context import PlacementShell, Target, Tools
from baremetal_acc.execution.job_polling import read_tasks
from baremetal_acc.execution.observation import check, sessions, unprotected
from baremetal_acc.execution.power import held, off_again
from baremetal_acc.execution.step_context import StepContext
from baremetal_acc.model.action import (
    Engage,
    Flash,
    Program,
    Release,
    Reset,
    ResetPurpose,
    RestoreSetting,
    SetCardSetting,
    Stage,
    stage,
)
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.interference import InterferenceKind
from baremetal_acc.model.inventory import Inventory, PowerState, TaskReading
from baremetal_acc.model.job import Done, Failed, Flow, Job, Outcome
from baremetal_acc.model.job_item import Item, ItemState
from baremetal_acc.model.lock import LockState
from baremetal_acc.model.ref import BmcName, Ref
from baremetal_acc.model.subject import CUSTODY, SubjectKind
from baremetal_acc.model.verdict import Finding, Verdict
from baremetal_acc.planning import bundle_parts, card_settings, interference, lock_changes, rollback, succession, write_outcomes
from baremetal_acc.planning.action_descriptions import describe
from baremetal_acc.planning.followed_tasks import followed, to_follow
from baremetal_acc.planning.job_items import ended
from baremetal_acc.render import findings
from baremetal_acc.scheduling.schedulable import programmed, supply

LOG = logging.getLogger(__name__)


def final_look(job: Job, target: Target, tools: Tools, now: datetime) -> Job:
    """Inspect the machine for the last time, and give the job its verdict.

    A device that has just been written or reset may take time to be shown again: until then there is no verdict. A component
    that shows something else than was written is restored, if that is possible and was not done before: then there is no
    verdict yet either.
    """
    job, goes_on = followed(job, _tasks(job, target, tools), now, tools.patience.stall)
    if goes_on and now <= job.deadline:
        return job
    if not job.second and rollback.due(job, now):
        return replace(job, second=True)  # a task has failed after the restart
    last = max((i.since for i in job.items), default=job.created)
    patient = now - last <= tools.patience.settle and now <= job.deadline
    others: dict[BmcName, tuple[Component, ...]] = {}

    def looked(looks: tuple[Look, ...], _: Inventory) -> None:
        others.update({one.facts.name: one.others() for one in looks if one.others is not None})

    try:
        inventory, verdict = check(
            target,
            tools,
            job.engagements,
            now,
            lifecycle=job.lifecycle,
            flow=_strict(job),
            measure=_measures(job),
            settings=job.demands_met,
            tasks=bool(job.sent_to),
            looked=looked,
        )
    except AccError as exc:
        ride_out = job.writing and isinstance(exc, BmcError) and now <= job.deadline
        if ride_out or (patient and exc.waiting_helps):
            return job
        return _unseen(job, target, tools, exc, now)
    job = succession.followed(job, inventory)
    job = custody_feed.after_reading(job, inventory, target, tools)
    verdict = custody_feed.judged(verdict, job.custody, inventory, target, tools, now)
    job = interference.looked(job, inventory, tools.baseline, target.node, now, interference.tail(tools.patience.poll))
    changed = any(map(_changes, job.items))
    still_open = unprotected(verdict)
    # A job that has failed has its reasons: only open locks are added, as other findings would repeat the cause.
    unmet = verdict.unmet if not job.reasons else still_open if job.writing else ()
    wrong = write_outcomes.wrong(job, inventory) | card_settings.not_in_effect(job, inventory)
    if patient and changed and (wrong or any(_may_settle(f, job, tools) for f in unmet)):
        return job
    told = bundle_parts.read_back(job, tools.catalogue, inventory, others)
    if patient and changed and bundle_parts.is_awaited(told):
        return job
    for position, found in wrong.items():
        job = ended(job, position, ItemState.FAILED, now, found, unsure=job.items[position].unsure)
    if wrong and not job.second and rollback.due(job, now):
        return replace(job, second=True)
    for position in write_outcomes.in_force(job, inventory):
        job = ended(job, position, ItemState.DONE, now)
    if not wrong:
        pardoned = write_outcomes.forgiven(job, inventory)
        if pardoned != job and not pardoned.reasons:
            unmet = verdict.unmet
        job = pardoned
    job = bundle_parts.read_back(job, tools.catalogue, inventory, others)
    job = interference.lost_locks(job, inventory, verdict, now)
    reasons = [findings.sentence(f) for f in unmet] if job.demands_met else []
    reasons = [*_not_restored(job), *reasons]
    reasons += _left_open(job, inventory, still_open if job.demands_met else ())
    if job.reasons or reasons:
        reasons += lock_changes.objected(job, inventory)
    end = write_outcomes.judge(job, inventory)
    stays_off = bool(job.interferences) or job.off_since is not None
    if still_open or end.quarantined or tools.unusable(job, inventory) or stays_off:
        job, off = _kept_off(job, inventory, target, tools, now)
        if off is None:
            return job
        reasons += off
    tools.observed(inventory, verdict)
    _tell_other_parts(job)
    return replace(
        job,
        verdict=findings.recorded(verdict),
        # The consequences of a lost lock come after the lock itself.
        reasons=tuple(
            dict.fromkeys((*job.reasons, *reasons, *end.restored, *end.why, *end.held, *map(str, job.interferences)))
        ),
        quarantined=end.quarantined,
    )


def _not_restored(job: Job) -> Iterator[str]:
    """List the settings of BMCs that could not be restored. Nothing else of the job rests on them, so it went on."""
    for item in job.items:
        if isinstance(item.action, RestoreSetting) and item.state is ItemState.FAILED:
            yield f'{describe(item.action)}: {item.message or "failed"}'


def look_again(job: Job, target: Target, tools: Tools, now: datetime) -> tuple[Inventory, Verdict] | None:
    """Inspect a machine whose job has ended, for a shell that no longer has the final inspection.

    A publication is tried again in later turns, which another process may make; the inspection is stored nowhere.

    :returns: what was read, judged as by the final inspection; None: the job had none, or the machine cannot be read now.
    """
    if job.verdict is None or (job.reasons and not job.verdict.findings):
        return None  # the machine could not be read then either, or its BMC refuses our credentials
    try:
        inventory, verdict = check(
            target, tools, job.engagements, now, lifecycle=job.lifecycle, flow=_strict(job), measure=_measures(job)
        )
        return inventory, custody_feed.judged(verdict, job.custody, inventory, target, tools, now)
    except AccError as exc:
        LOG.warning(
            '%s: nothing is stored of the final inspection, since the machine cannot be read again: %s', job.target, exc
        )
        return None


def _tell_other_parts(job: Job) -> None:
    """Log which parts of bundles that belong to no card do not show what was sent."""
    for item in job.items:
        for line in bundle_parts.told(one for one in item.others if not bundle_parts.is_as_sent(one)):
            LOG.warning('%s: %s: parts of its bundle: %s', job.target, describe(item.action), line)


def _tasks(job: Job, target: Target, tools: Tools) -> dict[Ref, TaskReading]:
    """Read the tasks that continue with a restart of the host; one that cannot be read is missing."""
    refs = tuple(to_follow(job))
    if not refs:
        return {}
    with sessions(target, tools) as bmcs:
        return read_tasks(refs, bmcs)


def _measures(job: Job) -> bool:
    """Whether devices have to sign what they run: where everything has to be met, or their firmware was written. It is slow."""
    return job.demands_met or any(isinstance(i.action, Flash) and i.state.begun for i in job.items)


def _unseen(job: Job, target: Target, tools: Tools, exc: AccError, now: datetime) -> Job:
    """Return the job with a verdict where the machine cannot be read: nothing that was written or released counts as proven."""
    end = write_outcomes.judge(job, None)
    open_ones = [f'{describe(a)}: it could not be read whether the lock is engaged again' for a in _to_be_closed(job)]
    off: tuple[str, ...] | None = ()
    if open_ones or end.quarantined or end.held:
        job, off = _kept_off(job, None, target, tools, now)
        if off is None:
            return job
    reasons = (*job.reasons, f'the final inspection failed: {exc}', *open_ones, *(off or ()), *end.why, *end.held)
    lost = Verdict(target=job.target, findings=())
    return replace(job, verdict=lost, reasons=tuple(dict.fromkeys(reasons)), quarantined=end.quarantined)


def shut_out(job: Job, exc: BmcLockedOut, now: datetime) -> Job:
    """End a job because a BMC refuses our credentials for good: nothing under way is known, and no lock can be engaged."""
    for position, item in enumerate(job.items):
        if not item.state.ended and stage(item.action) < Stage.VERIFY:
            state = ItemState.FAILED if item.state.begun else ItemState.SKIPPED
            unsure = item.state.begun and isinstance(item.action, Flash | Program)
            job = ended(job, position, state, now, 'its result is unknown', unsure=unsure)
    end = write_outcomes.judge(job, None)
    open_ones = [f'{describe(a)}: it could not be read whether the lock is engaged again' for a in _to_be_closed(job)]
    kept_off = [
        f'{system} was powered off, and not powered on again by us; the host may run if others powered it on'
        for system in held(job)
    ]
    reasons = (str(exc), *job.reasons, *open_ones, *kept_off, *end.why, *end.held)
    lost = Verdict(target=job.target, findings=())
    return replace(job, verdict=lost, reasons=tuple(dict.fromkeys(reasons)), quarantined=end.quarantined)


def _to_be_closed(job: Job) -> tuple[Release, ...]:
    """Return the locks that this job released, or may have, and was to engage again.

    These include locks that the baseline does not demand.
    """
    engaged = {(a.mechanism, a.ref, a.field) for i in job.items if isinstance(a := i.action, Engage)}
    released = (i.action for i in job.items if isinstance(i.action, Release) and i.state.begun)
    return tuple(dict.fromkeys(a for a in released if (a.mechanism, a.ref, a.field) in engaged))


def _left_open(job: Job, inventory: Inventory, told: Iterable[Finding]) -> Iterator[str]:
    """List the locks that this job released, was to engage again, and left open.

    :param told: findings about open locks that are among the reasons anyway.
    """
    known = {f.accelerator for f in told}
    for action in _to_be_closed(job):
        if action.accelerator in known:
            continue
        place = (action.mechanism, action.ref, action.field)
        accelerator = inventory.accelerator(action.accelerator)
        states = {r.state for r in accelerator.locks if r.place == place} if accelerator is not None else set()
        if states != {LockState.LOCKED_REPORTED}:
            yield f'{describe(action)}: the lock is not engaged again: {", ".join(sorted(states)) or "no longer shown"}'


def _kept_off(
    job: Job, inventory: Inventory | None, target: Target, tools: Tools, now: datetime
) -> tuple[Job, tuple[str, ...] | None]:
    """Make sure that the host which the job has held is off: its code must not reach an open lock or a spoilt card.

    The host was given back and lost a lock or a card by that, or somebody has powered it on.

    :param inventory: of the final inspection, which is reported to the shell; None: there was none. An inspection that does not
        show the host off yet is not the final one.
    :returns: the job, and what to report; None: inspect again before the job ends, as a host takes time to power off.
    """
    told: list[str] = []
    for system in held(job):
        try:
            with sessions(target, tools) as bmcs:
                why_not = off_again(bmcs[system.bmc], system, tools)
        except AccError as exc:
            why_not = str(exc)
        facts = None if inventory is None else inventory.bmc(system.bmc)
        is_shown = facts is None or facts.power is PowerState.OFF
        first = job.off_since or now
        waits = now - first <= tools.patience.reset and now <= job.deadline + tools.patience.reset
        if waits and (why_not is not None or not is_shown):
            return replace(job, off_since=first), None
        if why_not is None:
            woke = any(one.kind is InterferenceKind.HOST_ON and one.ref == system for one in job.interferences)
            told += ['the host was powered off again'] if woke or job.off_since is not None else []
            continue
        told.append(f'the host may run, since it could not be powered off: {why_not}')
    return job, tuple(told)


def _changes(item: Item) -> bool:
    """Whether a device may take time to be shown again after this item.

    Powering a host off brings nothing back, however long the job waits.
    """
    match item.action:
        case Flash() | Program() | SetCardSetting():
            return item.state is not ItemState.SKIPPED
        case Reset() as reset:
            return item.state is not ItemState.SKIPPED and reset.purpose is not ResetPurpose.HOLD
        case _:
            return False


def _may_settle(finding: Finding, job: Job, tools: Tools) -> bool:
    """Whether a finding may still change by itself: a version or card that is not back yet, a lock that could not be read."""
    if not job.demands_met and finding.shows_another and not _written(finding, job):
        return False
    if finding.subject == CUSTODY and (tools.attestor is None or not _written(finding, job)):
        return False  # only a measurement signed by a card that was just written mends a chain
    if finding.subject.kind is SubjectKind.MEASUREMENT and tools.attestor is None:
        return False  # no root gets pinned during the job
    if finding.subject.kind is SubjectKind.BMC_SETTING:
        return False  # no write or reset of a card changes it
    if finding.subject.kind is SubjectKind.CARD_SETTING and not _is_set(finding, job):
        return False
    return finding.state in (None, LockState.UNKNOWN, LockState.UNSUPPORTED)


def _written(finding: Finding, job: Job) -> bool:
    """Whether the job has written the device that a finding is about."""
    written = (i.action for i in job.items if i.state is not ItemState.SKIPPED and isinstance(i.action, Flash | Program))
    return finding.accelerator in {a.accelerator for a in written}


def _is_set(finding: Finding, job: Job) -> bool:
    """Whether the job has set a setting of the device that a finding is about."""
    done = (i.action for i in job.items if i.state is ItemState.DONE and isinstance(i.action, SetCardSetting))
    return finding.accelerator in {action.accelerator for action in done}


def publish(at: StepContext) -> Job:
    """Publish a reading of now to placement; after a failure withdraw the node instead."""
    job, target, tools = at.job, at.target, at.tools
    if tools.placement is None:
        return at.done()
    if job.reasons:
        return _offer_nothing(at, tools.placement)
    # Nothing was written since the final inspection, which may have measured the devices already.
    again = not _measures(job)
    inventory, verdict = check(
        target, tools, job.engagements, at.now, lifecycle=job.lifecycle, flow=_strict(job), measure=again
    )
    left = tools.left - programmed(job)
    made = supply(inventory, verdict, tools.baseline, target.node, tools.catalogue, left=left)
    tools.placement.publish(inventory, verdict, made)
    if job.demands_met and verdict.unmet:
        unmet = '; '.join(map(findings.sentence, verdict.unmet))
        return at.failed(f'the node has changed since the final inspection: {unmet}')
    return at.done()


def _offer_nothing(at: StepContext, placement: PlacementShell) -> Job:
    """Withdraw the whole node after a failure: the cards that failed, and also those that have vanished since."""
    try:
        placement.withdraw(None)
    except AccError as exc:
        return at.failed(str(exc))
    return at.done()


def _strict(job: Job) -> Flow | None:
    """Return the flow whose evidence alone counts: a deploy accepts only evidence of its own flow."""
    return Flow.DEPLOY if job.flow is Flow.DEPLOY else None


def outcome_of(job: Job) -> Outcome:
    """Return the outcome of a job that has ended, for the shell."""
    if job.reasons:
        wrote = any(i.state.begun and not i.untouched and isinstance(i.action, Flash | Program) for i in job.items)
        return Failed(
            reasons=job.reasons,
            wrote=wrote,
            verdict=job.verdict,
            quarantined=job.quarantined,
            interferences=job.interferences,
        )
    return Done(verdict=job.verdict)
