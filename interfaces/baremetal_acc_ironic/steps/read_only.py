# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The read-only steps ``inventory_accelerators`` and ``verify_accelerators``, and a check that deploys run the latter first."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from ironic import objects

from baremetal_acc import execution
from baremetal_acc.errors import NotMet
from baremetal_acc.execution import custody_feed
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import Flow
from baremetal_acc.model.verdict import VerdictEnd
from baremetal_acc.render import findings
from baremetal_acc.scheduling.schedulable import supply
from baremetal_acc_ironic import settings
from baremetal_acc_ironic.reporting import drift
from baremetal_acc_ironic.state import certificate, config_drive, handover, node_store, provision_state
from baremetal_acc_ironic.state.node_state import NodeState
from baremetal_acc_ironic.state.target import target as target_of
from baremetal_acc_ironic.steps import (
    attach,
    custody_reading,
    definitions,
    flow_steps,
    step_errors,
    step_preparation,
    verdict_record,
    waivers,
    wall_clock,
)
from baremetal_acc_ironic.steps.job_context import counted, seen, show
from baremetal_acc_ironic.steps.job_context import tools as tools_of
from baremetal_acc_ironic.steps.verdict_record import StepVerdict


def take_stock(task: Any, by: str) -> Inventory:
    """Read a node's inventory, report what has changed since the previous read, and store the inventory in Ironic.

    Which devices have to be present (:attr:`NodeState.known`) does not change: a card that was swapped still counts as missing.

    :param by: the step or inspection that reads, for reports.
    :returns: the inventory completed with what this read could not see.
    :raises StepFailed: the node could not be read.
    """
    with step_errors.told_by(task, definitions.INVENTORY):
        state = node_store.load(task.node)
        tools = tools_of(task, state, rules=False)
        evidence = custody_reading.evidence(state, Flow.SERVICE)
        # Only a verification reads signed measurements: this step has to be quick.
        inventory, verdict = execution.check(
            target_of(task), tools, evidence, wall_clock.now(), lifecycle=state.lifecycle, measure=False
        )
        state, known = drift.tell(task, state, inventory, by, step_preparation.done(state))
        state = custody_reading.with_custody(state, inventory, target_of(task), tools, evidence)
        node_store.store(task.node, state)
        state = counted(task, state, tools, inventory, verdict)
        state = show(task, state, tools, inventory, known, verdict)
        verdict = custody_feed.judged(verdict, state.custody, inventory, target_of(task), tools, inventory.at)
        flow = provision_state.FLOWS.get(task.node.provision_state)
        made = StepVerdict(inventory=inventory, verdict=verdict, proof=evidence, by=by, flow=flow)
        node_store.store(task.node, verdict_record.keep(task, state, tools, made))
    return known


def left_out(task: Any) -> str | None:
    """Return what leaves the verification out of the deploy that begins; None if nothing does.

    Arguments take precedence over templates, and both over our own default; disallowed steps are dropped without a message
    (ironic 39.0.0, conductor/steps.py, _get_all_deployment_steps and set_node_deployment_steps).
    """
    if f'firmware.{definitions.VERIFY.name}' in settings.ironic().disallowed_steps['deploy']:
        return '[api] disallow_deploy_steps'
    node = task.node
    asked = _priorities(node.driver_internal_info.get('user_deploy_steps') or [])
    if asked:
        return None if max(asked) > 0 else 'the priority 0 in its deploy steps'
    traits = node.instance_info.get('traits') or []
    templates = objects.DeployTemplate.list_by_names(task.context, traits) if traits else []
    asked = [priority for template in templates for priority in _priorities(template.steps)]
    return 'the priority 0 in a deploy template' if asked and max(asked) <= 0 else None


def before_verification(task: Any, first: int) -> tuple[str, ...]:
    """Return the steps that would run before the verification of the deploy that begins, and that are not ours.

    Such a step can start the host while nothing is proven. At equal priority the interface decides, so an equal priority is
    refused as well.

    :param first: the default priority of the verification.
    """
    node = task.node
    asked = list(node.driver_internal_info.get('user_deploy_steps') or [])
    traits = node.instance_info.get('traits') or []
    for template in objects.DeployTemplate.list_by_names(task.context, traits) if traits else []:
        asked += template.steps
    verification = min((p for p in _priorities(asked) if p > 0), default=first)
    return tuple(
        dict.fromkeys(
            f'{s["interface"]}.{s["step"]} (priority {s["priority"]})'
            for s in asked
            if s['priority'] >= verification and not (s['interface'] == 'firmware' and s['step'] in definitions.STEPS)
        )
    )


def _priorities(given: Iterable[Mapping[str, Any]]) -> list[int]:
    """Return the priorities that deploy steps give to the verification."""
    return [s['priority'] for s in given if (s['interface'], s['step']) == ('firmware', definitions.VERIFY.name)]


def verify(task: Any) -> None:
    """Compare a node with the baseline; a deploy passes only if every lock was engaged and read back in this very deploy.

    :raises StepFailed: something is not met, or could not be read.
    """
    with step_errors.told_by(task, definitions.VERIFY):
        flow = flow_steps.flow_of(task)
        state = step_preparation.returned(task, node_store.load(task.node), flow, definitions.VERIFY)
        state = step_preparation.settled(task, state, definitions.VERIFY, flow)
        failed: list[NodeState] = []
        try:
            state = _verify(task, state, flow, failed.append)
        except Exception:
            # A second attempt to deploy has to collect its own evidence.
            state = certificate.attempted(task.node, drift.with_told(task.node, state))
            stored = node_store.load(task.node)
            told = failed[-1] if failed else verdict_record.ended(state, VerdictEnd.UNREAD)
            state = replace(state, opened=stored.opened, exposed=state.exposed | stored.exposed, custody=stored.custody)
            state = replace(state, verdict=told.verdict, digest=told.digest)
            node_store.store(task.node, state.without_evidence_of(Flow.DEPLOY) if flow is Flow.DEPLOY else state)
            raise
        if flow is Flow.DEPLOY:
            provision_state.told(
                task.node, 'accelerators are at the baseline, and every lock was read back: the node can be handed over'
            )
            state = replace(state.given_away(wall_clock.now()), job=None)
        elif flow is Flow.SERVICE:
            state = handover.proven(state, wall_clock.now())
        node_store.store(task.node, state)


def _verify(task: Any, state: NodeState, flow: Flow, failed: Callable[[NodeState], None]) -> NodeState:
    """Read and judge a node.

    :param failed: called with the node state that knows of the stored verdict, before the verification fails by it.
    :raises NotMet: a demand is not met.
    """
    step_preparation.refuse_interrupted(state)
    target = target_of(task)
    tools = tools_of(task, state)
    evidence = custody_reading.evidence(state, flow)
    inventory, verdict = execution.check(
        target,
        tools,
        evidence,
        wall_clock.now(),
        lifecycle=state.lifecycle,
        flow=Flow.DEPLOY if flow is Flow.DEPLOY else None,
        tasks=flow is Flow.DEPLOY,
        settings=True,
    )
    state = drift.looked(task, state, inventory, definitions.VERIFY.name, step_preparation.done(state))
    state = custody_reading.keep_custody(task, state, inventory, target, tools, evidence)
    verdict = custody_feed.judged(verdict, state.custody, inventory, target, tools, inventory.at)
    whole = verdict_record.reasons(task, state, tools)
    if flow is Flow.DEPLOY:
        state, wrong = attach.plugged(task, state, inventory, verdict)
        whole += wrong
    judged = StepVerdict(
        inventory=inventory, verdict=verdict, proof=evidence, by=definitions.VERIFY.name, flow=flow, whole=tuple(whole)
    )
    reasons = [*(findings.sentence(finding) for finding in verdict.unmet), *whole]
    if reasons:
        if flow is not Flow.CLEAN:
            left = handover.found_open(state, flow, definitions.VERIFY.name, inventory, verdict, wall_clock.now())
            state = replace(state, opened=left.opened, exposed=left.exposed)
            node_store.store(task.node, replace(node_store.load(task.node), opened=left.opened, exposed=left.exposed))
        failed(verdict_record.kept(task, state, tools, judged))
        raise NotMet(
            reasons,
            hint=f'{definitions.LOCK.name} engages locks, {definitions.RECONCILE.name} brings everything to the baseline',
        )
    if flow is Flow.DEPLOY:
        if tools.placement is not None:
            # The last chance to publish: the step that engages the locks publishes too, but can be left out of a deploy.
            made = supply(inventory, verdict, tools.baseline, target.node, tools.catalogue)
            tools.placement.publish(inventory, verdict, made)
        attach.tell(task, state)
        state = certificate.issue(task, state, tools, target.node, inventory, verdict, evidence)
        if state.certificate is not None:
            config_drive.hand_over(task.node, certificate.text(task.node, state.certificate))
    waivers.tell(task, verdict, definitions.VERIFY.name)
    state = state.shown(inventory.accelerators)
    state = seen(task, state, tools, inventory, verdict, by=definitions.VERIFY.name)
    state = verdict_record.kept(task, state, tools, judged)
    return handover.over(task, state, inventory, evidence, flow) if flow is Flow.DEPLOY else state
