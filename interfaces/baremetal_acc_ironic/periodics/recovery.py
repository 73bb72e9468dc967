# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Periodic: engage all locks again after a job whose step is gone: aborted, undeployed, timed out, or cut off by a crash.

The job is never resumed. If it had released or written anything, the host is kept off where somebody else's code could run, all
locks are engaged again and read back, and the node goes to maintenance with the reason. Cleaning then restores everything else.
A host that was powered off for that is not powered on again with a quarantined card.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from ironic.common import exception, states
from oslo_log import log
from oslo_utils import uuidutils

from baremetal_acc import execution
from baremetal_acc.errors import AccError, StaleJob
from baremetal_acc.execution import Tools, custody_feed, lifecycle
from baremetal_acc.execution.login_tracker import Credentials
from baremetal_acc.model.action import Action, Engage, Reset, ResetPurpose
from baremetal_acc.model.inventory import Inventory, PowerState
from baremetal_acc.model.job import Flow, Job, Wait
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.model.plan import Plan
from baremetal_acc.model.ref import HOST
from baremetal_acc.planning import interference
from baremetal_acc.planning.activation import GIVE_BACK
from baremetal_acc.planning.job_transitions import begin
from baremetal_acc.planning.plan import Part, plan
from baremetal_acc.render import findings
from baremetal_acc_ironic import settings
from baremetal_acc_ironic.periodics.workers import clock_of
from baremetal_acc_ironic.reporting import drift
from baremetal_acc_ironic.state import handover, node_store, provision_state
from baremetal_acc_ironic.state.node_state import NodeState, Opened
from baremetal_acc_ironic.state.target import target as target_of
from baremetal_acc_ironic.steps import custody_reading, definitions, job_result, open_locks, runner, wall_clock
from baremetal_acc_ironic.steps.flow_steps import step_name
from baremetal_acc_ironic.steps.job_context import tools as tools_of

LOG = log.getLogger(__name__)

NAME = 'recovery'
"""Name of a recovery job."""

STATES = (
    states.CLEANFAIL,
    states.DEPLOYFAIL,
    states.SERVICEFAIL,
    states.INSPECTFAIL,
    states.ADOPTFAIL,
    states.RESCUEFAIL,
    states.UNRESCUEFAIL,
    states.ERROR,
    states.ACTIVE,
    states.RESCUE,
    states.AVAILABLE,
    states.MANAGEABLE,
)
"""Provision states in which a node stays and none of our steps can run."""


def recover(task: Any) -> None:
    """Run one turn of the recovery of a node. The task holds the node exclusively.

    :raises NodeLocked: the task does not hold the node any more; nothing else is raised.
    """
    node = task.node
    if node.provision_state not in STATES:
        return
    try:
        state = node_store.load(node)
        job = state.job
        if job is None:
            return
        if job.step != NAME and (job.ended or not open_locks.touched(job)):
            if not job.ended:
                provision_state.told(node, f'{step_name(job)} was interrupted before it changed anything')
            node_store.store(node, replace(state, job=None, unplanned=False))
        elif _elsewhere(task, state, job):
            LOG.debug('Node %s: its job was begun at other BMC addresses', node.uuid)
        elif job.step == NAME:
            _turn(task, state, job)
        else:
            _begin(task, state, job)
    except exception.NodeNotFound:
        LOG.info('Node %s was deleted while a job of its accelerators was recovered', node.uuid)
    except exception.NodeLocked:
        raise  # the conductor that holds the node now decides
    except Exception as exc:
        LOG.warning('Node %s: locks are not engaged again yet: %s', node.uuid, exc, exc_info=not isinstance(exc, AccError))
        _maintain(node, f'a job on accelerators was interrupted, and its locks are not engaged again yet: {exc}')


def _elsewhere(task: Any, state: NodeState, job: Job) -> bool:
    """Whether the node's BMCs have other addresses than when the job was begun.

    Nothing is done then, and that is reported once. The job stays: with the old address back it is recovered. A step that takes
    over begins again at the present addresses.
    """
    try:
        execution.bound(job, target_of(task))
    except StaleJob as exc:
        why = exc.message
        if state.opened is None or state.opened.why != why:
            hint = (
                f'set the old address in driver_info again, or run {definitions.LOCK.name} or {definitions.RECONCILE.name}, '
                'which begin again at the present address'
            )
            provision_state.told(task.node, why)
            _maintain(task.node, f'{why} ({hint})')
            node_store.store(task.node, replace(state, opened=Opened(since=wall_clock.now(), why=why)))
        return True
    return False


def _begin(task: Any, state: NodeState, job: Job) -> None:
    """Plan to engage all locks, with the host off where somebody else's code could run."""
    node = task.node
    why = f'{step_name(job)} ({job.flow}) was interrupted while it was writing'
    marked = handover.interfered(replace(state, opened=state.opened or Opened(since=wall_clock.now(), why=why)), job)
    node_store.store(node, marked)
    target = target_of(task)
    tools = tools_of(task, marked, images=False)  # no catalogue: a wrong one must not keep a lock open
    inventory = _seen(task, marked, job, tools)
    marked = drift.looked(task, marked, inventory, NAME, job.items)
    marked = handover.meanwhile(task, marked, inventory, tools)
    met = interference.looked(
        job, inventory, tools.baseline, target.node, wall_clock.now(), interference.tail(tools.patience.poll)
    )
    marked = handover.interfered(marked, met)
    handover.tell_interference(task, job.interferences, met)
    before = marked.quarantined
    marked = marked.after(job, inventory, wall_clock.now(), met=False, whole=False)
    made = plan(inventory, tools.baseline, target.node, tools.catalogue, parts=frozenset({Part.LOCK}), hold=True)
    host = inventory.bmc(HOST)
    actions: list[Action] = list(made.actions)
    suspect = bool(met.suspect) or marked.exposed != state.exposed
    if (node.provision_state in provision_state.TENANT_STATES or suspect) and host is not None and host.system is not None:
        actions = [a for a in actions if not (isinstance(a, Reset) and a.system == host.system)]
        off = Reset(system=host.system, purpose=ResetPurpose.HOLD, kind=ResetKind.NONE, why=(why,))
        actions.insert(0, off)
        if host.power is PowerState.ON or _owes_power(job):
            kind = max((a.needs for a in actions if isinstance(a, Engage)), key=list(ResetKind).index, default=ResetKind.NONE)
            actions.append(Reset(system=host.system, purpose=ResetPurpose.RESUME, kind=kind, why=(GIVE_BACK,)))
    if suspect:
        actions = [a for a in actions if not (isinstance(a, Reset) and a.purpose is ResetPurpose.RESUME)]
    if marked.quarantined:
        actions = [a for a in actions if not (isinstance(a, Reset) and a.purpose is ResetPurpose.RESUME)]
    new = begin(
        Plan(target=made.target, actions=tuple(actions), parallel=made.parallel),
        identity=uuidutils.generate_uuid(),
        node=node.uuid,
        flow=Flow.SERVICE if node.provision_state in provision_state.TENANT_STATES else Flow.CLEAN,
        step=NAME,
        lifecycle=state.lifecycle,
        now=wall_clock.now(),
        timeout=settings.core().job_timeout,
        requester=job.requester,
        demands_met=False,
    )
    provision_state.told(node, f'{why}: a recovery engages all locks again')
    new_ones = [q for q in marked.quarantined if q not in before]
    _maintain(node, ' '.join([f'{why}; a recovery is engaging its locks again', *(q.why for q in new_ones)]))
    # A host that has run is read again once it is off.
    held_off = () if met.interferences else job.held_off
    new = replace(new, held_off=held_off)
    proof = custody_reading.evidence(marked, new.flow)
    kept = custody_feed.looked(job.custody, inventory, target, tools, proof, lifecycle=state.lifecycle, by=wall_clock.now())
    new = lifecycle.begun(new, kept, made, inventory, target, tools)
    node_store.store(node, replace(marked, job=replace(new, undos=job.undos)))


def _seen(task: Any, state: NodeState, job: Job, tools: Tools) -> Inventory:
    """Read the inventory.

    A BMC that refuses our credentials is tried again without end, at growing intervals: what is open there stays open until
    then.

    :raises AccError: a BMC cannot be read.
    """
    credentials = Credentials(job.turned_away, tools.connect, wall_clock.now(), most=None)
    try:
        return execution.observe(target_of(task), replace(tools, connect=credentials.connect), wall_clock.now())
    finally:
        if credentials.noted() != job.turned_away:
            node_store.store(task.node, replace(state, job=replace(job, turned_away=credentials.noted())))


def _owes_power(job: Job) -> bool:
    """Whether the job powered the host off and would have powered it on again."""
    done = {a.purpose for i in job.items if isinstance(a := i.action, Reset) and i.state is ItemState.DONE}
    planned = {a.purpose for i in job.items if isinstance(a := i.action, Reset)}
    return ResetPurpose.HOLD in done and ResetPurpose.RESUME in planned - done


def _turn(task: Any, state: NodeState, job: Job) -> None:
    final: list[Inventory] = []
    clock = clock_of(task)
    tools = tools_of(
        task,
        state,
        clock=clock,
        images=False,
        save=lambda changed: node_store.store(task.node, handover.interfered(replace(state, job=changed), changed)),
        observed=lambda inventory, _: final.append(inventory),
    )
    target = target_of(task)
    for _ in range(runner.TURNS):
        before = job.interferences
        job, came = execution.tick(job, target, tools, wall_clock.now())
        handover.tell_interference(task, before, job)
        if not isinstance(came, Wait):
            for inventory in final[-1:]:
                state = drift.looked(task, state, inventory, NAME, job.items)
            _end(task, state, job)
            return
        if came.delay > timedelta(0) or clock.over:
            return


def _end(task: Any, state: NodeState, job: Job) -> None:
    node = task.node
    state = handover.interfered(state, job)
    unmet = [] if job.verdict is None else [findings.sentence(f) for f in execution.unprotected(job.verdict)]
    reasons = list(dict.fromkeys((*job.reasons, *unmet)))
    if reasons or job.verdict is None:
        text = 'locks could not be engaged again: ' + '; '.join(reasons)
        hint = f'the host must stay off; clear maintenance, then {_locked_again(node)}'
        provision_state.told(node, text)
        _maintain(node, f'{text[:2000]} ({hint})')
        node_store.store(node, replace(state, job=None, undos=job.undos, custody=job.custody))
        return
    provision_state.told(node, 'all locks are engaged again and were read back')
    _maintain(
        node,
        'a job on accelerators was interrupted; all locks are engaged again. See the node history, clear maintenance, then run '
        f'the step again, or {_cleaned(node)}' + ''.join(f'. {q.why}' for q in state.quarantined) + _off(job),
    )
    proven = job_result.proven(state, job, failed=False, lasting=True)
    node_store.store(node, replace(proven, job=None, opened=None, undos=job.undos, custody=job.custody))


def _cleaned(node: Any) -> str:
    """Return how the node is cleaned, for hints: a deployed one has to be undeployed first."""
    return 'undeploy and clean the node' if node.provision_state in provision_state.TENANT_STATES else 'clean the node'


def _locked_again(node: Any) -> str:
    """Return how the locks of the node are engaged again, for hints: only a deployed node can be serviced."""
    theirs = node.provision_state in provision_state.TENANT_STATES
    return f'service the node with lock_accelerators, or {_cleaned(node)}' if theirs else _cleaned(node)


def _off(job: Job) -> str:
    """Return a sentence that says that the job leaves the host off; empty if it does not."""
    purposes = {i.action.purpose for i in job.items if isinstance(i.action, Reset)}
    return '. The host is powered off' if ResetPurpose.HOLD in purposes and ResetPurpose.RESUME not in purposes else ''


def _maintain(node: Any, reason: str) -> None:
    """Put the node into maintenance until somebody has examined it."""
    if node.maintenance and node.maintenance_reason == reason:
        return
    node_store.held(node)
    node.maintenance = True
    node.maintenance_reason = reason
    node.save()
