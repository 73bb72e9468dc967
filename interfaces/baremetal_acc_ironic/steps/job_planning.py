# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Plan the job of a step, and store it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from oslo_log import log
from oslo_utils import uuidutils

from baremetal_acc import execution
from baremetal_acc.errors import StaleJob
from baremetal_acc.execution import custody_feed, lifecycle
from baremetal_acc.model.action import RestoreSetting
from baremetal_acc.model.attach import FunctionAssignment
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import Flow, Job
from baremetal_acc.model.plan import Plan
from baremetal_acc.planning import attach as decide_attach
from baremetal_acc.planning import custody_rules, interference
from baremetal_acc.planning.job_transitions import begin
from baremetal_acc.planning.plan import Part
from baremetal_acc.render import notes
from baremetal_acc.render.action_rows import RESTORE_SETTING
from baremetal_acc.render.refusals import raise_if_unsafe, refuse_several_hosts
from baremetal_acc.scheduling.schedulable import removed
from baremetal_acc_ironic import settings
from baremetal_acc_ironic.authorization import rights
from baremetal_acc_ironic.periodics import availability
from baremetal_acc_ironic.periodics.workers import TurnClock
from baremetal_acc_ironic.reporting import drift
from baremetal_acc_ironic.state import handover, node_store, provision_state
from baremetal_acc_ironic.state.node_state import NodeState, Opened
from baremetal_acc_ironic.state.target import target as target_of
from baremetal_acc_ironic.steps import attach, claimed_regions, definitions, host_hold, wall_clock
from baremetal_acc_ironic.steps.custody_reading import evidence, keep_custody
from baremetal_acc_ironic.steps.definitions import Step
from baremetal_acc_ironic.steps.flow_steps import step_arguments, step_identity, step_name, verify_follows
from baremetal_acc_ironic.steps.job_context import tools as tools_of

LOG = log.getLogger(__name__)


def under_way(inventory: Inventory) -> tuple[str, ...]:
    """Return the tasks that the BMCs still run."""
    return tuple(f'{t.ref} {t.raw}' for b in inventory.bmcs for t in b.active_tasks)


def plan_job(
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
    hold = host_hold.must_hold_host(task, flow)
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
        ramdisk=host_hold.may_boot_ramdisk(task, flow),
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
    job = replace(new_job(task, step, made, state, flow), held_off=left, left_on=on)
    job = lifecycle.begun(job, state.custody, made, inventory, target, tools)
    if arguments.get('claimed') and not back:
        state = attach.begun(state, made, job)
    elif back or (step is definitions.RECONCILE and flow is Flow.CLEAN):
        state = attach.worked_on(state, job)
    if step is definitions.UNLOCK and made.actions:
        before = state.opened or Opened(since=wall_clock.now(), why='')
        state = replace(state, opened=replace(before, since=wall_clock.now(), why=f'{step.name} by {who.by}'))
    availability.close(task, state, made)
    state = replace(availability.begun(state, made), job=job, unplanned=False)
    node_store.store(task.node, state)
    provision_state.told(task.node, f'{step.name} begins: {summary(job)}, requested by {who.by}', user=who.user)
    return state, job


def summary(job: Job) -> str:
    """Return how many actions of each kind a job has, for the history."""
    counts: dict[str, int] = {}
    for item in job.items:
        name = RESTORE_SETTING if isinstance(item.action, RestoreSetting) else type(item.action).__name__.lower()
        counts[name] = counts.get(name, 0) + 1
    return ', '.join(f'{n} {name}' for name, n in counts.items()) or 'nothing to do'


def new_job(task: Any, step: Step, made: Plan, state: NodeState, flow: Flow) -> Job:
    """Return the job of a plan, bound to the step and to the addresses of the node's BMCs."""
    job = begin(
        made,
        identity=uuidutils.generate_uuid(),
        node=task.node.uuid,
        flow=flow,
        step=step_identity(task.node, step.name, flow),
        lifecycle=state.lifecycle,
        now=wall_clock.now(),
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


def plan_late(task: Any, state: NodeState, job: Job, clock: TurnClock) -> tuple[NodeState, Job] | None:
    """Plan a job that had to wait for the host or the BMC; None if it still has to.

    :raises AccError: the job is refused, or the wait took too long.
    """
    step = definitions.STEPS[step_name(job)]
    tools = tools_of(task, state, clock=clock)
    host = host_hold.host_to_lock_out(task, state, job.flow)
    if host is not None and not handover.locked_out(task, tools, host):
        if wall_clock.now() > job.created + tools.patience.reset:
            raise StaleJob("the host, on which a tenant's code may still run, cannot be powered off")
        return None
    inventory = execution.observe(
        target_of(task), tools, wall_clock.now(), tasks=True, settings=step.reads_settings(tools.baseline)
    )
    tasks = under_way(inventory)
    if tasks and wall_clock.now() > job.deadline:
        raise StaleJob(f'the BMC is still busy with earlier tasks: {", ".join(tasks)}')
    if tasks:
        kept = custody_feed.with_foreign_writes(state.custody, inventory)
        if kept != state.custody:
            node_store.store(task.node, state.with_custody(kept))
        return None
    state = drift.looked(task, state, inventory, step.name)
    state = handover.back(task, state, inventory, tools, step.name, job.flow)
    state = handover.meanwhile(task, state, inventory, tools, ramdisk=not host_hold.must_hold_host(task, job.flow))
    return plan_job(task, state, step, step_arguments(task, job.flow), job.flow, inventory, back=attach.is_going_back(state))
