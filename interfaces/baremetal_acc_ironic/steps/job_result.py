# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Store what a job has proven and what was read, and resume or fail its flow."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from baremetal_acc.errors import UsageError
from baremetal_acc.execution import Tools
from baremetal_acc.model.action import Engage, Flash, Program, Release, SetCardSetting
from baremetal_acc.model.custody import NO_CUSTODY
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import Done, Failed, Flow, Job
from baremetal_acc.model.job_item import Item, ItemState
from baremetal_acc.model.plan import Plan
from baremetal_acc.model.verdict import Verdict
from baremetal_acc.planning import relevance
from baremetal_acc.planning.plan import Part
from baremetal_acc.render import findings
from baremetal_acc.scheduling import regions
from baremetal_acc.scheduling.schedulable import programmed
from baremetal_acc_ironic.authorization import exposure, resource_class, rights, traits
from baremetal_acc_ironic.periodics import availability
from baremetal_acc_ironic.state import handover, node_store, provision_state, quarantine
from baremetal_acc_ironic.state.node_state import NodeState
from baremetal_acc_ironic.state.target import target as target_of
from baremetal_acc_ironic.steps import attach, definitions, verdict_record, wall_clock
from baremetal_acc_ironic.steps.custody_reading import evidence
from baremetal_acc_ironic.steps.definitions import Step
from baremetal_acc_ironic.steps.flow_steps import step_arguments, step_name, verify_follows
from baremetal_acc_ironic.steps.job_context import seen as show
from baremetal_acc_ironic.steps.job_planning import new_job
from baremetal_acc_ironic.steps.open_locks import open_locks, opened
from baremetal_acc_ironic.steps.step_errors import WAY_BACK, StepFailed
from baremetal_acc_ironic.steps.verdict_record import StepVerdict

Look = tuple[Inventory, Verdict]


def end_job(
    task: Any, state: NodeState, job: Job, came: Done | Failed, tools: Tools | None, look: Look | None, *, resume: bool
) -> None:
    """Store what a job proved and what was read, then resume or fail the flow.

    :param resume: the flow waits.
    :raises StepFailed: the job failed, and the flow does not wait.
    """
    node_store.held(task.node)
    state = replace(state, undos=job.undos, custody=job.custody)
    state = handover.interfered(state, job)
    step = definitions.STEPS[step_name(job)]
    reasons = came.reasons if isinstance(came, Failed) else tuple(_unmet(task, step, job, look))
    if step is definitions.RECONCILE and not reasons and look is None:
        reasons = ('the machine could not be read again after its accelerators had been published',)
    whole = step is definitions.RECONCILE and not reasons
    state = state.after(job, None if look is None else look[0], wall_clock.now(), met=whole, whole=whole)
    if whole and look is not None:
        left = handover.not_written(state, job, look[0], wall_clock.now())
        state = replace(state, quarantined=(*state.quarantined, *left), exposed=job.suspect)
        if job.flow is not Flow.SERVICE:
            state = replace(state, anew=frozenset())
        if left:
            quarantine.maintain(task.node, left, job.flow)
    if look is not None and (job.flow is Flow.SERVICE or (job.flow is Flow.DEPLOY and handover.came_back(state))):
        state = handover.accepted(task, state, look[0], evidence(state.proven_by(job.engagements), job.flow), job.items)
    if whole and tools is not None:
        # No rule names firmware for a device that is still quarantined, so nothing was written to it.
        reasons = (*quarantine.reasons(state), *resource_class.contested(task.node, target_of(task).node, tools.baseline))
        reasons += (*exposure.contested(task.node, state), *traits.contested(task.node, state, tools.baseline))
    state, reasons = attach.ended(task, state, job, None if look is None else look[0], reasons)
    state = availability.ended(task, state, job)
    if job.flow is not Flow.SERVICE:
        state = replace(state, shelf=replace(state.shelf, used=state.shelf.used - programmed(job)))
    proof = evidence(state.proven_by(job.engagements), job.flow)
    if look is not None and tools is not None:
        state = _changed(show(task, state, tools, *look, by=step.name, done=job.items), job, step)
    state = replace(
        proven(state, job, failed=bool(reasons), lasting=_lasts(task, job)),
        opened=opened(state, job, step, None if look is None else look[0], failed=bool(reasons)),
    )
    if look is not None and job.verdict is not None and reasons and step.parts & {Part.LOCK}:
        state = handover.found_open(state, job.flow, step.name, look[0], job.verdict, wall_clock.now())
    if job.flow is Flow.SERVICE and look is not None and not reasons and not open_locks(job) and step.parts & {Part.LOCK}:
        state = handover.proven(state, wall_clock.now())
    if attach.must_go_back(state, job):
        _go_back(task, state, job, step, reasons)
        return
    if look is not None and tools is not None:
        made = StepVerdict(inventory=look[0], verdict=look[1], proof=proof, by=step.name, flow=job.flow)
        state = verdict_record.kept(task, state, tools, made)
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
    node_store.store(task.node, replace(state, job=small))
    tell_flow(task, small, resume=resume)


def _go_back(task: Any, state: NodeState, job: Job, step: Step, reasons: Iterable[str]) -> None:
    """Continue the step with a job that restores what it has prepared, since not all of it could be prepared.

    The job is stored together with what has to be restored: a conductor that dies here leaves the failed job, or this one. The
    next turn plans it.
    """
    node = task.node
    new = new_job(task, step, Plan(target=job.target, actions=()), state, job.flow)
    text = provision_state.sentence(node.name or node.uuid, step.name, reasons)
    provision_state.told(node, f'{text}; what it has prepared is restored', user=rights.begun_by(task, state, job.flow).user)
    node_store.store(node, replace(attach.worked_on(state, new), job=new, unplanned=True))


def tell_flow(task: Any, job: Job, *, resume: bool) -> None:
    """Resume or fail the flow of a job that has ended and is stored so.

    :param resume: the flow waits.
    :raises StepFailed: the job failed, and the flow does not wait.
    """
    if job.reasons and not resume:
        raise StepFailed(job.reasons[0])
    node_store.held(task.node)
    if job.reasons:
        provision_state.fail(task, job.reasons[0])
    elif resume:
        provision_state.resume(task, job.flow)


def _unmet(task: Any, step: Step, job: Job, look: Look | None) -> Iterator[str]:
    """Yield the unmet findings that the step is responsible for."""
    if job.verdict is None:
        return
    named = step_arguments(task, job.flow).get('devices')
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
    return replace(state, regions=regions.changed(state.regions, places, wall_clock.now()))


def _results(job: Job) -> str:
    """Return what was done, as a text for the history: every write by name, the rest by number."""
    writes = [_result(i) for i in job.items if isinstance(i.action, Flash | Program | SetCardSetting)]
    engaged = sum(1 for i in job.items if isinstance(i.action, Engage) and i.state is ItemState.DONE)
    return '; '.join([*writes, f'{engaged} {"lock" if engaged == 1 else "locks"} engaged and read back'])


def _result(item: Item) -> str:
    match item.action:
        case Flash() as flash:
            return f'{flash.component} of {flash.accelerator} from {flash.expects} to {flash.version}'
        case Program() as program:
            return f'{program.slot} of {program.accelerator} programmed with {program.function} {program.version}'
        case SetCardSetting() as setting:
            return f'{setting.setting} of {setting.accelerator} set from {setting.expects} to {setting.value}'
        case _:
            return ''
