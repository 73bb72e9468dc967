# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Plan the job of an Ironic step, store it, and advance it until it ends: the Ironic shell of
:func:`baremetal_acc.execution.tick`.

A step plans at once and writes nothing: what is wrong becomes the node's ``last_error`` before any card is changed. The job is
stored, the step waits, and a periodic advances the job until it ends. A conductor that was restarted loads the job and reads
the cards. A job whose step is gone is never resumed (:mod:`baremetal_acc_ironic.periodics.recovery` locks what it left open).
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from ironic.common import async_steps, exception
from oslo_log import log
from oslo_utils import uuidutils

from baremetal_acc import execution
from baremetal_acc.errors import AccError, StaleJob, UsageError
from baremetal_acc.execution import Target, Tools, custody_feed, lifecycle
from baremetal_acc.model.attach import FunctionAssignment
from baremetal_acc.model.custody import NO_CUSTODY
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import (
    Done,
    Engage,
    Failed,
    Flash,
    Flow,
    Item,
    ItemState,
    Job,
    Plan,
    Program,
    Release,
    Reset,
    Verdict,
    Wait,
)
from baremetal_acc.model.lock import Engagement
from baremetal_acc.model.ref import Ref
from baremetal_acc.planning import attach as decide_attach
from baremetal_acc.planning import custody, custody_rules, interference, relevance
from baremetal_acc.planning.job_transitions import begin
from baremetal_acc.planning.plan import Part
from baremetal_acc.render import findings, notes
from baremetal_acc.render.refusals import raise_if_unsafe, refuse_several_hosts
from baremetal_acc.scheduling import regions
from baremetal_acc.scheduling.schedulable import programmed, removed
from baremetal_acc_ironic import settings
from baremetal_acc_ironic.authorization import accepted_values, exposure, ramdisk_source, resource_class, rights, traits
from baremetal_acc_ironic.periodics import availability
from baremetal_acc_ironic.periodics.workers import TurnClock, clock_of
from baremetal_acc_ironic.reporting import drift, record
from baremetal_acc_ironic.state import certificate, handover, node_state, provision_state, quarantine
from baremetal_acc_ironic.state.node_state import NodeState, Opened
from baremetal_acc_ironic.state.target import target as target_of
from baremetal_acc_ironic.steps import attach, claimed_regions, definitions
from baremetal_acc_ironic.steps.definitions import Step
from baremetal_acc_ironic.steps.job_context import seen as show
from baremetal_acc_ironic.steps.job_context import tools as tools_of

LOG = log.getLogger(__name__)

TURNS = 20
"""Ticks in one turn, while the job does not have to wait."""

WAY_BACK = {
    Flow.CLEAN: 'repair the cause, clear maintenance, then manage and provide or clean the node again',
    Flow.DEPLOY: 'repair the cause and deploy again, or undeploy: cleaning brings the cards back to the baseline',
    Flow.SERVICE: 'repair the cause, clear maintenance, then service the node again, or abort to leave it as it is',
}

_FLOW_STEPS = {
    Flow.CLEAN: ('clean_step', 'clean_step_index'),
    Flow.DEPLOY: ('deploy_step', 'deploy_step_index'),
    Flow.SERVICE: ('service_step', 'service_step_index'),
}

Look = tuple[Inventory, Verdict]


class StepFailed(AccError):
    """Why a step failed, in one text that names the node and the step."""


def start(task: Any, step: Step, given: Mapping[str, Any]) -> str | None:
    """Begin a step that writes: plan, store the job, and wait.

    Where the host has to be powered off first, or a BMC still works on what an earlier lifecycle of the node began, the plan is
    made after that.

    :returns: the wait state of the flow, or None when there was nothing to do.
    :raises StepFailed: the step is refused, or could not be planned. No card was written.
    """
    with told_by(task, step):
        flow = flow_of(task)
        arguments = step.arguments(given)
        state = returned(task, node_state.load(task.node), flow, step)
        state = settled(task, state, step, flow)
        if not step.takes_over:
            refuse_interrupted(state)
        if state.writing and state.job is not None:
            provision_state.told(
                task.node, f'{step.name} takes over from {state.job.step}, which was interrupted while it was writing'
            )
        tools = tools_of(task, state)
        host = _host_to_lock_out(task, state, flow)
        if host is not None and not handover.locked_out(task, tools, host):
            nothing = Plan(target=target_of(task).name, actions=())
            node_state.store(task.node, replace(state, job=_job(task, step, nothing, state, flow), unplanned=True))
            provision_state.told(
                task.node, f'{step.name} waits for the host to be off: code of somebody else may still run on it'
            )
            async_steps.set_node_flags(task.node, reboot=False, skip_current_step=True, polling=True, step_type=str(flow))
            return str(provision_state.WAITS[flow])
        inventory = execution.observe(target_of(task), tools, now(), tasks=step.writes_images)
        state = drift.looked(task, state, inventory, step.name, done(state))
        state = handover.back(task, state, inventory, tools, step.name)
        state = handover.meanwhile(task, state, inventory, tools, ramdisk=not _hold(task, flow))
        if step.writes_images and under_way(inventory):
            nothing = Plan(target=inventory.target, actions=())
            state = state.with_custody(custody_feed.with_foreign_writes(state.custody, inventory))
            state = replace(state, job=_job(task, step, nothing, state, flow), unplanned=True)
            node_state.store(task.node, state)
            provision_state.told(task.node, f'{step.name} waits for what the BMC is doing: {", ".join(under_way(inventory))}')
        else:
            state, job = _planned(task, state, step, arguments, flow, inventory)
            if not job.items and _turn(task, state, job, resume=False):
                return None
    async_steps.set_node_flags(task.node, reboot=False, skip_current_step=True, polling=True, step_type=str(flow))
    return str(provision_state.WAITS[flow])


def settled(task: Any, state: NodeState, step: Step, flow: Flow) -> NodeState:
    """Return the node state with what rules go by from this step on.

    Traits come first: they depend on whether a class was accepted before.

    :raises InvalidParameterValue: driver_info is wrong.
    """
    for what in (traits, resource_class, exposure):
        state = what.settled(task, state, step, flow)
    for takes in (accepted_values.with_ramdisk, accepted_values.with_bmcs):
        state = takes(task, state, step, flow)
    return accepted_values.noted(task.node, state)


def under_way(inventory: Inventory) -> tuple[str, ...]:
    """Return the tasks that the BMCs still run."""
    return tuple(f'{t.ref} {t.raw}' for b in inventory.bmcs for t in b.active_tasks)


def _planned(
    task: Any,
    state: NodeState,
    step: Step,
    arguments: Mapping[str, Any],
    flow: Flow,
    inventory: Inventory,
    *,
    back: bool = False,
) -> tuple[NodeState, Job]:
    """Plan a job and store it.

    :param back: the job restores what the step has prepared for an instance, since not all of it could be prepared.
    :raises AccError: the job is refused.
    """
    target = target_of(task)
    tools = tools_of(task, state)
    only = definitions.chosen(inventory, arguments.get('devices'))
    asked = definitions.overrides(arguments.get('functions'), only, inventory, tools.baseline, target.node, tools.catalogue)
    gives: tuple[FunctionAssignment, ...] = ()
    if back:
        state, gives = attach.going_back(task, state, inventory)
        only = frozenset(g.accelerator for g in gives)
        tools = tools_of(task, state)
    elif arguments.get('claimed'):
        definitions.refuse_beside_claimed(arguments, flow)
        state = attach.prepare(task, state, inventory)
        only = attach.devices(state)
        tools = tools_of(task, state)
    elif step is definitions.RECONCILE and flow is Flow.CLEAN:
        state = attach.left(task, state, inventory)
        tools = tools_of(task, state)
    if asked:
        others = tuple(o for o in state.overrides if o.device not in {new.device for new in asked})
        state = replace(state, overrides=(*asked, *others))
        tools = tools_of(task, state)
    hold = _hold(task, flow)
    refuse_several_hosts(inventory)
    state = keep_custody(task, state, inventory, target, tools, evidence(state, flow))
    proposal = lifecycle.propose(
        state,
        state.custody,
        inventory,
        target,
        tools,
        state.undos,
        # From a deployment on nothing of the node is available but what its instance has claimed.
        parts=step.parts | {Part.PUBLISH} if flow is Flow.DEPLOY and step.parts else step.parts,
        hold=hold,
        only=only,
        again=state.exposed | (frozenset() if flow is Flow.SERVICE else state.anew),
        slots_anew=attach.doubtful(state)
        | (removed(inventory, tools.baseline, target.node, tools.left) if flow is Flow.CLEAN else frozenset()),
    )
    made = proposal.made
    if back:
        state, made, gives = attach.without_refused(state, made, gives, inventory)
        made = decide_attach.in_turn(made, gives) if gives else Plan(target=inventory.target, actions=())
    raise_if_unsafe(made)
    claimed_regions.keep(task, made, inventory, tools.baseline, target.node, tools.catalogue)
    for note in (*made.notes, *custody_rules.reasons_to_write(proposal.doubted, made, state.custody, inventory, inventory.at)):
        LOG.info('Node %s: %s: %s: %s', task.node.uuid, step.name, note.label, notes.text(note.content))
    who = rights.begun_by(task, state, flow)
    if not step.operators and not back:  # the requester has not asked for the restoring
        rights.permit_plan(task, who, made, inventory, tools.baseline, target.node)
    left = () if state.opened is None else tuple(mark for mark in state.opened.held_off if not mark.once)
    on = interference.on_now(inventory) if flow is Flow.CLEAN and not hold else ()
    job = replace(_job(task, step, made, state, flow), held_off=left, left_on=on)
    job = lifecycle.begun(job, state.custody, made, inventory, target, tools)
    if arguments.get('claimed') and not back:
        state = attach.begun(state, made, job)
    elif back or (step is definitions.RECONCILE and flow is Flow.CLEAN):
        state = attach.worked_on(state, job)
    if step is definitions.UNLOCK and made.actions:
        before = state.opened or Opened(since=now(), why='')
        state = replace(state, opened=replace(before, since=now(), why=f'{step.name} by {who.by}'))
    availability.close(task, state, made)
    state = replace(availability.begun(state, made), job=job, unplanned=False)
    node_state.store(task.node, state)
    provision_state.told(task.node, f'{step.name} begins: {summary(job)}, asked for by {who.by}', user=who.user)
    return state, job


def flow_of(task: Any) -> Flow:
    """Return the flow that a node is in.

    :raises UsageError: no flow has steps in the node's provision state.
    """
    flow = provision_state.FLOWS.get(task.node.provision_state)
    if flow is None:
        raise UsageError(argument='provision state', what=f'{task.node.provision_state}: no flow has steps in it')
    return flow


def now() -> datetime:
    """Return the present time, in UTC."""
    return datetime.now(UTC)


def returned(task: Any, state: NodeState, flow: Flow, step: Step) -> NodeState:
    """Return the node state, with a new lifecycle if the node was deployed and has come back.

    In a service the node is deployed. In a deploy without a cleaning before it, the node counts as returned until it is
    verified; steps after the verification begin no new lifecycle.
    """
    if flow is Flow.SERVICE:
        return replace(state, handed_over=True)
    ours = flow is Flow.CLEAN or step is definitions.VERIFY or verify_follows(task.node)
    return certificate.over(task, state.came_back()) if state.handed_over and ours else state


def verify_follows(node: Any) -> bool:
    """Whether the deploy's verification is still to come."""
    info = node.driver_internal_info
    rest = (info.get('deploy_steps') or [])[(info.get('deploy_step_index') or 0) + 1 :]
    return any(s.get('interface') == 'firmware' and s.get('step') == definitions.VERIFY.name for s in rest)


def refuse_interrupted(state: NodeState) -> None:
    """Refuse to work on a node that an interrupted job has left half written.

    :raises StaleJob: there is such a job.
    """
    if state.job is not None and state.writing:
        raise StaleJob(
            f'{state.job.step} ({state.job.flow}) was interrupted while it was writing',
            hint=f'run {definitions.LOCK.name} or {definitions.RECONCILE.name} first',
        )


@contextmanager
def told_by(task: Any, step: Step) -> Iterator[None]:
    """Turn errors of the core into one that names node and step, and record it in the node's history.

    :raises StepFailed: in place of any error of the core.
    """
    name = task.node.name or task.node.uuid
    try:
        yield
    except StepFailed:
        raise
    except AccError as exc:
        reasons = getattr(exc, 'reasons', None) or (exc.message,)
        hint = exc.hint or WAY_BACK.get(provision_state.FLOWS.get(task.node.provision_state, Flow.CLI))
        text = provision_state.sentence(name, step.name, reasons, hint)
        provision_state.told(task.node, text)
        raise StepFailed(text) from exc


def summary(job: Job) -> str:
    """Return how many actions of each kind a job has, for the history."""
    counts: dict[str, int] = {}
    for item in job.items:
        name = type(item.action).__name__.lower()
        counts[name] = counts.get(name, 0) + 1
    return ', '.join(f'{n} {name}' for name, n in counts.items()) or 'nothing to do'


def _hold(task: Any, flow: Flow) -> bool:
    """Whether the host must be off while locks are open: always, except in the operator's own ramdisk.

    Ironic takes the first client that asks with the node's MAC, while it waits for a ramdisk, for the ramdisk. A ramdisk that
    somebody else has chosen, or whose kernel parameters somebody else has set, is not the operator's own
    (:mod:`baremetal_acc_ironic.authorization.ramdisk_source`). Ironic refuses to change these while the node is cleaned.
    """
    info = task.node.driver_internal_info
    in_ramdisk = bool(info.get('agent_url')) and not info.get('cleaning_disable_ramdisk')
    in_ramdisk = in_ramdisk and ramdisk_source.trusted(task.node, node_state.load(task.node))
    return not (flow is Flow.CLEAN and in_ramdisk and settings.guest().trust_ramdisk)


def _job(task: Any, step: Step, made: Plan, state: NodeState, flow: Flow) -> Job:
    """Return the job of a plan, bound to the step and to the addresses of the node's BMCs."""
    job = begin(
        made,
        identity=uuidutils.generate_uuid(),
        node=task.node.uuid,
        flow=flow,
        step=_identity(task.node, step.name, flow),
        lifecycle=state.lifecycle,
        now=now(),
        timeout=settings.core().job_timeout,
        requester=rights.begun_by(task, state, flow).by,
        demands_met=_demands(task, step, flow),
    )
    job = execution.bound(job, target_of(task))  # before anybody can edit the addresses of its BMCs
    proof = evidence(state, flow) if step is definitions.PUBLISH else ()
    return replace(job, engagements=proof, undos=state.undos, custody=state.custody)


def _demands(task: Any, step: Step, flow: Flow) -> bool:
    """Whether all findings must be met at the end: of the whole path, and of any step after a deploy's verification."""
    return step.concerns is None or (flow is Flow.DEPLOY and not verify_follows(task.node))


def evidence(state: NodeState, flow: Flow) -> tuple[Engagement, ...]:
    """Return our lock records as a flow may count them.

    While a node is deployed, its locks are compared with how they were handed over, so records of that hand-over count.
    """
    if flow is not Flow.SERVICE:
        return state.evidence
    return tuple(replace(e, lifecycle=state.lifecycle) for e in state.evidence)


def with_custody(
    state: NodeState, inventory: Inventory, target: Target, with_tools: Tools, proof: Iterable[Engagement]
) -> NodeState:
    """Return the node state with the custody of the cards after a full inventory read outside of a job.

    While a job runs, its own reads count.
    """
    if state.job is not None and not state.job.ended:
        return state
    kept = custody_feed.looked(state.custody, inventory, target, with_tools, proof, lifecycle=state.lifecycle, by=now())
    return replace(state, custody=kept)


def keep_custody(
    task: Any, state: NodeState, inventory: Inventory, target: Target, with_tools: Tools, proof: Iterable[Engagement]
) -> NodeState:
    """Return the node state with the custody after the full inventory read before a job, or of a verification.

    If the read breaks a chain, this is stored at once, whatever becomes of the step.
    """
    kept = with_custody(replace(state, job=None), inventory, target, with_tools, proof).custody
    if custody.breaks(state.custody, kept):
        node_state.store(task.node, node_state.load(task.node).with_custody(kept))
    return replace(state, custody=kept)


def _identity(node: Any, name: str, flow: Flow) -> str:
    """Return the name of a step with its position and a digest of its arguments, to tell it from other runs of the step."""
    field, index = _FLOW_STEPS[flow]
    arguments = json.dumps((getattr(node, field) or {}).get('args') or {}, sort_keys=True)
    digest = hashlib.sha256(arguments.encode()).hexdigest()[:8]
    return f'{name}#{node.driver_internal_info.get(index)}:{digest}'


def _name(job: Job) -> str:
    """Return the name of the step or verb that began a job."""
    return job.step.split('#', 1)[0]


def turn(task: Any) -> None:
    """Advance the job of a node that waits in one of our steps. The task holds the node exclusively.

    :raises NodeLocked: the task does not hold the node any more; nothing else is raised.
    """
    node = task.node
    try:
        state = node_state.load(node)
        job = state.job
        if job is None:
            return
        if not _is_current(task, job, state):
            if job.ended and job.reasons and _half_failed(task, job, state):
                provision_state.fail(task, job.reasons[0])
            elif job.ended:
                node_state.store(node, replace(state, job=None))
            return
        node.touch_provisioning()
        _turn(task, state, job, resume=True)
    except exception.NodeNotFound:
        LOG.info('A node was deleted while its accelerators were worked on')
    except exception.NodeLocked:
        raise  # the conductor that holds the node now decides
    except StaleJob as exc:
        node_state.held(node)
        provision_state.fail(task, str(exc))
    except AccError as exc:
        _stumbled(task, exc)
    except Exception as exc:
        LOG.exception('Node %s: a job on accelerators met an unexpected error', node.uuid)
        _abandon(task, f'unexpected {type(exc).__name__}: {exc}; the log of the conductor says more')


def _is_current(task: Any, job: Job, state: NodeState) -> bool:
    """Whether the node waits in the very step that began the job."""
    flow = provision_state.FLOWS.get(task.node.provision_state)
    current = flow is job.flow and job.lifecycle == state.lifecycle and job.node == task.node.uuid
    if current and flow is not None and job.step == _identity(task.node, _name(job), flow):
        return (getattr(task.node, _FLOW_STEPS[flow][0]) or {}).get('step') == _name(job)
    if not job.ended:
        LOG.warning('Node %s: %s is not resumed: its step, flow or lifecycle is over', task.node.uuid, job.step)
    return False


def _half_failed(task: Any, job: Job, state: NodeState) -> bool:
    """Whether the conductor died while it failed the step.

    Ironic clears the step first, the state later, and never checks again. A restarted flow that waits for its ramdisk has no
    step either, but no error of ours: the restart clears that.
    """
    node = task.node
    waits = provision_state.FLOWS.get(node.provision_state) is job.flow and job.lifecycle == state.lifecycle
    ours = job.reasons[0] in (node.last_error or '')
    return waits and ours and not (getattr(node, _FLOW_STEPS[job.flow][0]) or {})


def _stumbled(task: Any, exc: AccError) -> None:
    """Retry after an error of the tick itself, up to the job's deadline, while waiting can help.

    A job that has changed something is retried after any error. Its files are read again at each turn, and somebody may be
    writing them: half a catalogue for a second must not leave cards open that are being written.
    """
    job = node_state.load(task.node).job
    if job is not None and (exc.waiting_helps or touched(job)) and now() <= job.deadline:
        LOG.warning('Node %s: %s', task.node.uuid, exc)
    else:
        _abandon(task, str(exc))


def _abandon(task: Any, why: str) -> None:
    """End a job that cannot be continued. Recovery closes what the job has opened, and judges what it has written."""
    node = task.node
    state = node_state.load(node)
    job = state.job
    if job is None:
        return
    reasons = tuple(dict.fromkeys((*job.reasons, why)))
    if not touched(job):
        _end(
            task,
            state,
            replace(job, reasons=reasons, ended=True),
            Failed(reasons=reasons, wrote=False),
            None,
            None,
            resume=True,
        )
        return
    reasons = (*reasons, *attach.unsaid(state, job))
    told = provision_state.sentence(node.name or node.uuid, _name(job), reasons, WAY_BACK[job.flow])
    provision_state.told(node, told, user=rights.begun_by(task, state, job.flow).user)
    # Messages of BMCs may make the job too large to be stored; the recovery reads the cards anyway.
    items = tuple(replace(item, message=None, task=None) for item in job.items)
    node_state.store(node, handover.interfered(replace(state, job=replace(job, items=items)), job))
    provision_state.fail(task, told)


def _turn(task: Any, state: NodeState, job: Job, *, resume: bool) -> bool:
    """Advance a job until it waits or ends.

    :param resume: the flow waits; resume or fail it when the job has ended.
    :returns: the job has ended.
    :raises StepFailed: the job failed, and the flow does not wait.
    """
    if job.ended and job.verdict is None and not job.items:
        # The job had ended, and the conductor died before it could resume or fail the flow.
        _say(task, job, resume=resume)
        return True
    clock = clock_of(task)
    if state.unplanned:
        planned = _plan_late(task, state, job, clock)
        if planned is None:
            return False
        state, job = planned
    final: list[Look] = []
    tools = tools_of(
        task,
        state,
        clock=clock,
        save=lambda changed: node_state.store(task.node, handover.interfered(replace(state, job=changed), changed)),
        observed=lambda inventory, verdict: final.append((inventory, verdict)),
    )
    tools = replace(tools, ramdisk=not _hold(task, job.flow))
    target = target_of(task)
    for _ in range(TURNS):
        before = job.interferences
        job, came = execution.tick(job, target, tools, now())
        handover.tell_interference(task, before, job)
        match came:
            case Wait(delay=delay) if delay > timedelta(0):
                LOG.info('Node %s: %s: %s (until %s at the latest)', task.node.uuid, _name(job), came.doing, job.deadline)
                return False
            case Wait():
                pass
            case Done() | Failed():
                _end(task, state, job, came, tools, final[-1] if final else None, resume=resume)
                return True
        if clock.over:
            break
    return False


def _plan_late(task: Any, state: NodeState, job: Job, clock: TurnClock) -> tuple[NodeState, Job] | None:
    """Plan a job that had to wait for the host or the BMC; None if it still has to.

    :raises AccError: the job is refused, or the wait took too long.
    """
    step = definitions.STEPS[_name(job)]
    tools = tools_of(task, state, clock=clock)
    host = _host_to_lock_out(task, state, job.flow)
    if host is not None and not handover.locked_out(task, tools, host):
        if now() > job.created + tools.patience.reset:
            raise StaleJob('the host, on which code of somebody else may still run, cannot be powered off')
        return None
    inventory = execution.observe(target_of(task), tools, now(), tasks=True)
    tasks = under_way(inventory)
    if tasks and now() > job.deadline:
        raise StaleJob(f'the BMC is still busy with what was begun earlier: {", ".join(tasks)}')
    if tasks:
        kept = custody_feed.with_foreign_writes(state.custody, inventory)
        if kept != state.custody:
            node_state.store(task.node, state.with_custody(kept))
        return None
    state = drift.looked(task, state, inventory, step.name)
    state = handover.back(task, state, inventory, tools, step.name)
    state = handover.meanwhile(task, state, inventory, tools, ramdisk=not _hold(task, job.flow))
    return _planned(task, state, step, _arguments(task, job.flow), job.flow, inventory, back=attach.is_going_back(state))


def _host_to_lock_out(task: Any, state: NodeState, flow: Flow) -> Ref | None:
    """Return the host of a node that has just come back, unless the operator's own ramdisk runs there."""
    wanted = flow is Flow.CLEAN and settings.guest().power_off_tenant_host and _hold(task, flow)
    return handover.host_of(task, state) if wanted else None


def _arguments(task: Any, flow: Flow) -> Mapping[str, Any]:
    """Return the arguments of the step that the node is in."""
    found: Mapping[str, Any] = (getattr(task.node, _FLOW_STEPS[flow][0]) or {}).get('args') or {}
    return found


def _end(
    task: Any, state: NodeState, job: Job, came: Done | Failed, tools: Tools | None, look: Look | None, *, resume: bool
) -> None:
    """Store what a job proved and what was read, then resume or fail the flow.

    :param resume: the flow waits.
    :raises StepFailed: the job failed, and the flow does not wait.
    """
    node_state.held(task.node)
    state = replace(state, undos=job.undos, custody=job.custody)
    state = handover.interfered(state, job)
    step = definitions.STEPS[_name(job)]
    reasons = came.reasons if isinstance(came, Failed) else tuple(_unmet(task, step, job, look))
    whole = step is definitions.RECONCILE and not reasons and look is not None
    state = state.after(job, None if look is None else look[0], now(), met=whole, whole=whole)
    if whole and look is not None:
        left = handover.not_written(state, job, look[0], now())
        state = replace(state, quarantined=(*state.quarantined, *left), exposed=job.suspect)
        if job.flow is not Flow.SERVICE:
            state = replace(state, anew=frozenset())
        if left:
            quarantine.maintain(task.node, left, job.flow)
    if job.flow is Flow.SERVICE and look is not None:
        state = handover.accepted(task, state, look[0], evidence(state.proven_by(job.engagements), job.flow), job.items)
    if whole and tools is not None:
        # No rule names firmware for a device that is still quarantined, so nothing was written to it.
        reasons = (*quarantine.reasons(state), *resource_class.contested(task.node, target_of(task).node, tools.baseline))
        reasons += (*exposure.contested(task.node, state), *traits.contested(task.node, state, tools.baseline))
    state, reasons = attach.ended(task, state, job, None if look is None else look[0], reasons)
    state = availability.ended(task, state, job)
    if job.flow is not Flow.SERVICE:
        state = replace(state, shelf=replace(state.shelf, used=state.shelf.used - programmed(job)))
    if look is not None and tools is not None:
        proof = state.proven_by(job.engagements).evidence
        state = _changed(show(task, state, tools, *look, proof, by=step.name, done=job.items), job, step)
    state = replace(
        proven(state, job, failed=bool(reasons), lasting=_lasts(task, job)),
        opened=opened(state, job, step, None if look is None else look[0], failed=bool(reasons)),
        digest=state.digest if look is None else record.digest(look[0]),
    )
    if look is not None and job.verdict is not None and reasons and step.parts & {Part.LOCK}:
        state = handover.found_open(state, job.flow, step.name, look[0], job.verdict, now())
    if job.flow is Flow.SERVICE and look is not None and not reasons and not open_locks(job) and step.parts & {Part.LOCK}:
        state = handover.proven(state, now())
    if attach.must_go_back(state, job):
        _go_back(task, state, job, step, reasons)
        return
    if isinstance(came, Failed) and came.quarantined:
        quarantine.maintain(task.node, [q for q in state.quarantined if q.device in came.quarantined], job.flow)
    told = provision_state.sentence(task.node.name or task.node.uuid, step.name, reasons, WAY_BACK[job.flow])
    provision_state.told(
        task.node,
        told if reasons else f'{step.name} is done: {_results(job)}',
        user=rights.begun_by(task, state, job.flow).user,
    )
    # The job stays until the next step begins: if the conductor dies before it resumes the flow, the next turn does.
    small = replace(
        job, items=(), custody=NO_CUSTODY, verdict=None, engagements=(), ended=True, reasons=(told,) if reasons else ()
    )
    node_state.store(task.node, replace(state, job=small))
    _say(task, small, resume=resume)


def _go_back(task: Any, state: NodeState, job: Job, step: Step, reasons: Iterable[str]) -> None:
    """Continue the step with a job that restores what it has prepared, since not all of it could be prepared.

    The job is stored together with what has to be restored: a conductor that dies here leaves the failed job, or this one. The
    next turn plans it.
    """
    node = task.node
    new = _job(task, step, Plan(target=job.target, actions=()), state, job.flow)
    text = provision_state.sentence(node.name or node.uuid, step.name, reasons)
    provision_state.told(
        node, f'{text}; what it has prepared is brought back', user=rights.begun_by(task, state, job.flow).user
    )
    node_state.store(node, replace(attach.worked_on(state, new), job=new, unplanned=True))


def _say(task: Any, job: Job, *, resume: bool) -> None:
    """Resume or fail the flow of a job that has ended and is stored so.

    :param resume: the flow waits.
    :raises StepFailed: the job failed, and the flow does not wait.
    """
    if job.reasons and not resume:
        raise StepFailed(job.reasons[0])
    node_state.held(task.node)
    if job.reasons:
        provision_state.fail(task, job.reasons[0])
    elif resume:
        provision_state.resume(task, job.flow)


def _unmet(task: Any, step: Step, job: Job, look: Look | None) -> Iterator[str]:
    """Yield the unmet findings that the step is responsible for."""
    if job.verdict is None:
        return
    named = _arguments(task, job.flow).get('devices')
    try:
        only = None if look is None else definitions.chosen(look[0], named)
    except UsageError:
        only = None  # a named device has vanished: then every finding counts, its absence too
    yield from map(findings.sentence, relevance.relevant(job.verdict.unmet, step.concerns, only))


def _lasts(task: Any, job: Job) -> bool:
    """Whether evidence of the job is kept: not that of a step after a deploy's verification."""
    return job.flow is not Flow.DEPLOY or verify_follows(task.node)


def proven(state: NodeState, job: Job, *, failed: bool, lasting: bool) -> NodeState:
    """Return the node state with what a job proved and without what it released."""
    released = {(a.mechanism, a.ref, a.field) for i in job.items if isinstance(a := i.action, Release) and i.state.begun}
    state = replace(state, evidence=tuple(e for e in state.evidence if e.place not in released))
    if failed and job.flow is Flow.DEPLOY:
        return state.without_evidence_of(Flow.DEPLOY)
    return state.proven_by(job.engagements) if lasting else state


def _changed(state: NodeState, job: Job, step: Step) -> NodeState:
    """Return the state with the regions that were reprogrammed while the node was free: pools leave those alone for a time."""
    if state.regions is None or step is not definitions.PROGRAM or job.flow is not Flow.CLEAN:
        return state
    places = {(a.accelerator, a.slot) for i in job.items if isinstance(a := i.action, Program) and i.state.begun}
    return replace(state, regions=regions.changed(state.regions, places, now()))


def opened(state: NodeState, job: Job, step: Step, inventory: Inventory | None, *, failed: bool) -> Opened | None:
    """Return the mark that locks are open, after a job.

    :param inventory: the job's final inventory read; None if there was none.
    """
    left = _left_open(state, job, step, failed=failed)
    if left is None or left.found:
        return left
    if job.held_off:
        cards = left.accelerators | interference.open_cards(job)
        return replace(left, held_off=job.held_off, accelerators=cards, started=False)
    if inventory is None or job.verdict is None:
        return left
    off = left.held_off or interference.off_now(inventory, now())
    cards = left.accelerators | interference.not_closed(job.verdict)
    # If the host is on, the operator's ramdisk runs there.
    return replace(left, held_off=off, accelerators=cards, started=not off)


def _left_open(state: NodeState, job: Job, step: Step, *, failed: bool) -> Opened | None:
    if step is definitions.UNLOCK:
        # An unlock step that found nothing to open leaves the mark of an earlier one.
        earlier = state.opened is not None and bool(state.opened.accelerators)
        return state.opened if touched(job) or earlier else None
    looked = job.verdict is not None and (bool(job.verdict.findings) or not failed)
    if step is not definitions.PUBLISH and looked and not open_locks(job):
        return None
    if failed and state.opened is None and wrote(job):
        return Opened(since=now(), why=f'{step.name} failed and left locks open')
    return state.opened


def open_locks(job: Job) -> bool:
    """Whether the final read found a lock that is not closed as demanded, or a device that could not be read."""
    return job.verdict is not None and bool(execution.unprotected(job.verdict))


def done(state: NodeState) -> tuple[Item, ...]:
    """Return the items of the stored job, which may explain what is read now."""
    return () if state.job is None else state.job.items


def touched(job: Job) -> bool:
    """Whether the job has begun to change something."""
    return any(i.state.begun and isinstance(i.action, Release | Flash | Program | Reset | Engage) for i in job.items)


def wrote(job: Job) -> bool:
    """Whether the job has begun to release a lock or to write an image."""
    return any(i.state.begun and isinstance(i.action, Release | Flash | Program) for i in job.items)


def _results(job: Job) -> str:
    """Return what was done, as a text for the history: every write by name, the rest by number."""
    writes = [_result(i) for i in job.items if isinstance(i.action, Flash | Program)]
    engaged = sum(1 for i in job.items if isinstance(i.action, Engage) and i.state is ItemState.DONE)
    return '; '.join([*writes, f'{engaged} locks engaged and read back'])


def _result(item: Item) -> str:
    match item.action:
        case Flash() as flash:
            return f'{flash.component} of {flash.accelerator} from {flash.expects} to {flash.version}'
        case Program() as program:
            return f'{program.slot} of {program.accelerator} programmed with {program.function} {program.version}'
        case _:
            return ''
