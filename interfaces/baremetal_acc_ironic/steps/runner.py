# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Plan the job of an Ironic step, store it, and advance it until it ends: the Ironic shell of
:func:`baremetal_acc.execution.tick`.

A step plans at once and writes nothing: what is wrong becomes the node's ``last_error`` before any card is changed. The job is
stored, the step waits, and a periodic advances the job until it ends. A conductor that was restarted loads the job and reads
the cards. A job whose step is gone is never resumed (:mod:`baremetal_acc_ironic.periodics.recovery` locks what it left open).
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from ironic.common import async_steps, exception
from oslo_log import log

from baremetal_acc import execution
from baremetal_acc.errors import AccError, StaleJob
from baremetal_acc.execution import custody_feed
from baremetal_acc.model.job import Done, Failed, Job, Wait
from baremetal_acc.model.plan import Plan
from baremetal_acc_ironic.authorization import rights
from baremetal_acc_ironic.periodics.workers import clock_of
from baremetal_acc_ironic.reporting import drift
from baremetal_acc_ironic.state import handover, node_store, provision_state
from baremetal_acc_ironic.state.node_state import NodeState
from baremetal_acc_ironic.state.target import target as target_of
from baremetal_acc_ironic.steps import attach, host_hold, wall_clock
from baremetal_acc_ironic.steps.definitions import Step
from baremetal_acc_ironic.steps.flow_steps import FLOW_STEPS, flow_of, step_identity, step_name
from baremetal_acc_ironic.steps.job_context import tools as tools_of
from baremetal_acc_ironic.steps.job_planning import new_job, plan_job, plan_late, under_way
from baremetal_acc_ironic.steps.job_result import Look, end_job, tell_flow
from baremetal_acc_ironic.steps.open_locks import touched
from baremetal_acc_ironic.steps.step_errors import WAY_BACK, told_by
from baremetal_acc_ironic.steps.step_preparation import done, refuse_interrupted, returned, settled

LOG = log.getLogger(__name__)

TURNS = 20
"""Ticks in one turn, while the job does not have to wait."""


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
        state = returned(task, node_store.load(task.node), flow, step)
        state = settled(task, state, step, flow)
        if not step.takes_over:
            refuse_interrupted(state)
        if state.writing and state.job is not None:
            provision_state.told(
                task.node, f'{step.name} takes over from {step_name(state.job)}, which was interrupted while it was writing'
            )
        tools = tools_of(task, state)
        host = host_hold.host_to_lock_out(task, state, flow)
        if host is not None and not handover.locked_out(task, tools, host):
            nothing = Plan(target=target_of(task).name, actions=())
            node_store.store(task.node, replace(state, job=new_job(task, step, nothing, state, flow), unplanned=True))
            provision_state.told(task.node, f"{step.name} waits for the host to be off: a tenant's code may still run on it")
            async_steps.set_node_flags(task.node, reboot=False, skip_current_step=True, polling=True, step_type=str(flow))
            return str(provision_state.WAITS[flow])
        inventory = execution.observe(
            target_of(task),
            tools,
            wall_clock.now(),
            tasks=step.writes_images,
            settings=step.reads_settings(tools.baseline),
        )
        state = drift.looked(task, state, inventory, step.name, done(state))
        state = handover.back(task, state, inventory, tools, step.name, flow)
        state = handover.meanwhile(task, state, inventory, tools, ramdisk=not host_hold.must_hold_host(task, flow))
        if step.writes_images and under_way(inventory):
            nothing = Plan(target=inventory.target, actions=())
            state = state.with_custody(custody_feed.with_foreign_writes(state.custody, inventory))
            state = replace(state, job=new_job(task, step, nothing, state, flow), unplanned=True)
            node_store.store(task.node, state)
            provision_state.told(task.node, f'{step.name} waits for tasks of the BMC: {", ".join(under_way(inventory))}')
        else:
            state, job = plan_job(task, state, step, arguments, flow, inventory)
            if not job.items and _turn(task, state, job, resume=False):
                return None
    async_steps.set_node_flags(task.node, reboot=False, skip_current_step=True, polling=True, step_type=str(flow))
    return str(provision_state.WAITS[flow])


def turn(task: Any) -> None:
    """Advance the job of a node that waits in one of our steps. The task holds the node exclusively.

    :raises NodeLocked: the task does not hold the node any more; nothing else is raised.
    """
    node = task.node
    try:
        state = node_store.load(node)
        job = state.job
        if job is None:
            return
        if not _is_current(task, job, state):
            if job.ended and job.reasons and _half_failed(task, job, state):
                provision_state.fail(task, job.reasons[0])
            elif job.ended:
                node_store.store(node, replace(state, job=None))
            return
        node.touch_provisioning()
        _turn(task, state, job, resume=True)
    except exception.NodeNotFound:
        LOG.info('Node %s was deleted while a job worked on its accelerators', node.uuid)
    except exception.NodeLocked:
        raise  # the conductor that holds the node now decides
    except StaleJob as exc:
        node_store.held(node)
        provision_state.fail(task, str(exc))
    except AccError as exc:
        _stumbled(task, exc)
    except Exception as exc:
        LOG.exception('Node %s: unexpected error in a job on its accelerators', node.uuid)
        _abandon(task, f'unexpected {type(exc).__name__}: {exc}; see the log of the conductor')


def _is_current(task: Any, job: Job, state: NodeState) -> bool:
    """Whether the node waits in the very step that began the job."""
    flow = provision_state.FLOWS.get(task.node.provision_state)
    current = flow is job.flow and job.lifecycle == state.lifecycle and job.node == task.node.uuid
    if current and flow is not None and job.step == step_identity(task.node, step_name(job), flow):
        return (getattr(task.node, FLOW_STEPS[flow][0]) or {}).get('step') == step_name(job)
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
    return waits and ours and not (getattr(node, FLOW_STEPS[job.flow][0]) or {})


def _stumbled(task: Any, exc: AccError) -> None:
    """Retry after an error of the tick itself, up to the job's deadline, while waiting can help.

    A job that has changed something is retried after any error. Its files are read again at each turn, and somebody may be
    writing them: half a catalogue for a second must not leave cards open that are being written.
    """
    job = node_store.load(task.node).job
    if job is not None and (exc.waiting_helps or touched(job)) and wall_clock.now() <= job.deadline:
        LOG.warning('Node %s: %s', task.node.uuid, exc)
    else:
        _abandon(task, str(exc))


def _abandon(task: Any, why: str) -> None:
    """End a job that cannot be continued. Recovery closes what the job has opened, and judges what it has written."""
    node = task.node
    state = node_store.load(node)
    job = state.job
    if job is None:
        return
    reasons = tuple(dict.fromkeys((*job.reasons, why)))
    if not touched(job):
        end_job(
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
    told = provision_state.sentence(node.name or node.uuid, step_name(job), reasons, WAY_BACK[job.flow])
    provision_state.told(node, told, user=rights.begun_by(task, state, job.flow).user)
    # Messages of BMCs may make the job too large to be stored; the recovery reads the cards anyway.
    items = tuple(replace(item, message=None, task=None) for item in job.items)
    node_store.store(node, handover.interfered(replace(state, job=replace(job, items=items)), job))
    provision_state.fail(task, told)


def _turn(task: Any, state: NodeState, job: Job, *, resume: bool) -> bool:
    """Advance a job until it waits or ends.

    :param resume: the flow waits; resume or fail it when the job has ended.
    :returns: the job has ended.
    :raises StepFailed: the job failed, and the flow does not wait.
    """
    if job.ended and job.verdict is None and not job.items:
        # The job had ended, and the conductor died before it could resume or fail the flow.
        tell_flow(task, job, resume=resume)
        return True
    clock = clock_of(task)
    if state.unplanned:
        planned = plan_late(task, state, job, clock)
        if planned is None:
            return False
        state, job = planned
    final: list[Look] = []
    tools = tools_of(
        task,
        state,
        clock=clock,
        save=lambda changed: node_store.store(task.node, handover.interfered(replace(state, job=changed), changed)),
        observed=lambda inventory, verdict: final.append((inventory, verdict)),
    )
    tools = replace(tools, ramdisk=not host_hold.must_hold_host(task, job.flow))
    target = target_of(task)
    for _ in range(TURNS):
        before = job.interferences
        job, came = execution.tick(job, target, tools, wall_clock.now())
        handover.tell_interference(task, before, job)
        match came:
            case Wait(delay=delay) if delay > timedelta(0):
                LOG.info('Node %s: %s: %s (until %s at the latest)', task.node.uuid, step_name(job), came.doing, job.deadline)
                return False
            case Wait():
                pass
            case Done() | Failed():
                look = final[-1] if final else execution.look_again(job, target, tools, wall_clock.now())
                if look is None and isinstance(came, Done) and wall_clock.now() <= job.deadline:
                    LOG.info('Node %s: %s: waits until the machine can be read again', task.node.uuid, step_name(job))
                    return False
                end_job(task, state, job, came, tools, look, resume=resume)
                return True
        if clock.over:
            break
    return False
