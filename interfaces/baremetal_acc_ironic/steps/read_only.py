# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The read-only steps ``inventory_accelerators`` and ``verify_accelerators``, and a check that deploys run the latter first."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ironic import objects

from baremetal_acc import execution
from baremetal_acc.errors import NotMet
from baremetal_acc.execution import custody_feed
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import Flow
from baremetal_acc.render import findings
from baremetal_acc.scheduling.schedulable import supply
from baremetal_acc_ironic import settings
from baremetal_acc_ironic.authorization import exposure, resource_class, traits
from baremetal_acc_ironic.reporting import drift
from baremetal_acc_ironic.state import certificate, handover, node_state, provision_state, quarantine
from baremetal_acc_ironic.state.node_state import Memory
from baremetal_acc_ironic.state.target import target as target_of
from baremetal_acc_ironic.steps import attach, definitions, runner, waivers
from baremetal_acc_ironic.steps.job_context import counted, seen, show
from baremetal_acc_ironic.steps.job_context import tools as tools_of


def take_stock(task: Any, by: str) -> Inventory:
    """Read a node's inventory, report what has changed since the previous read, and store the inventory in Ironic.

    Which devices have to be present (:attr:`Memory.known`) does not change: a card that was swapped still counts as missing.

    :param by: the step or inspection that reads, for reports.
    :returns: the inventory completed with what this read could not see.
    :raises StepFailed: the node could not be read.
    """
    with runner.told_by(task, definitions.INVENTORY):
        mind = node_state.load(task.node)
        tools = tools_of(task, mind, rules=False)
        evidence = runner.evidence(mind, Flow.SERVICE)
        # Only a verification reads signed measurements: this step has to be quick.
        inventory, verdict = execution.check(
            target_of(task), tools, evidence, runner.now(), lifecycle=mind.lifecycle, measure=False
        )
        mind, known = drift.tell(task, mind, inventory, by, runner.done(mind))
        mind = runner.with_custody(mind, inventory, target_of(task), tools, evidence)
        node_state.store(task.node, mind)
        mind = counted(task, mind, tools, inventory, verdict)
        node_state.store(task.node, show(task, mind, tools, inventory, known, verdict, evidence))
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
    with runner.told_by(task, definitions.VERIFY):
        flow = runner.flow_of(task)
        mind = runner.returned(task, node_state.load(task.node), flow, definitions.VERIFY)
        mind = runner.settled(task, mind, definitions.VERIFY, flow)
        try:
            mind = _verify(task, mind, flow)
        except Exception:
            # A second attempt to deploy has to collect its own evidence.
            mind = certificate.attempted(task.node, drift.with_told(task.node, mind))
            stored = node_state.load(task.node)
            mind = replace(mind, opened=stored.opened, exposed=mind.exposed | stored.exposed, custody=stored.custody)
            node_state.store(task.node, mind.without_evidence_of(Flow.DEPLOY) if flow is Flow.DEPLOY else mind)
            raise
        if flow is Flow.DEPLOY:
            provision_state.told(
                task.node, 'accelerators are as they should be, and every lock was read back: ready to be handed over'
            )
            mind = replace(mind.given_away(runner.now()), job=None)
        elif flow is Flow.SERVICE:
            mind = handover.proven(mind, runner.now())
        node_state.store(task.node, mind)


def _verify(task: Any, mind: Memory, flow: Flow) -> Memory:
    runner.refuse_interrupted(mind)
    target = target_of(task)
    tools = tools_of(task, mind)
    evidence = runner.evidence(mind, flow)
    inventory, verdict = execution.check(
        target,
        tools,
        evidence,
        runner.now(),
        lifecycle=mind.lifecycle,
        flow=Flow.DEPLOY if flow is Flow.DEPLOY else None,
        tasks=flow is Flow.DEPLOY,
    )
    mind = drift.looked(task, mind, inventory, definitions.VERIFY.name, runner.done(mind))
    mind = runner.keep_custody(task, mind, inventory, target, tools, evidence)
    verdict = custody_feed.judged(verdict, mind.custody, inventory, target, tools, inventory.at)
    reasons = [findings.sentence(finding) for finding in verdict.unmet]
    if mind.opened is not None:
        reasons.append(f'locks were opened at {mind.opened.since:%Y-%m-%d %H:%M:%S} UTC ({mind.opened.why})')
    reasons += quarantine.reasons(mind)
    reasons += handover.unwritten(mind)
    reasons += resource_class.contested(task.node, target.node, tools.baseline)
    reasons += (*exposure.contested(task.node, mind), *traits.contested(task.node, mind, tools.baseline))
    if flow is Flow.DEPLOY:
        mind, wrong = attach.plugged(task, mind, inventory, verdict)
        reasons += wrong
    if reasons:
        if flow is not Flow.CLEAN:
            left = handover.found_open(mind, flow, definitions.VERIFY.name, inventory, verdict, runner.now())
            node_state.store(task.node, replace(node_state.load(task.node), opened=left.opened, exposed=left.exposed))
        raise NotMet(
            reasons,
            hint=f'{definitions.LOCK.name} closes locks, {definitions.RECONCILE.name} brings everything to the baseline',
        )
    if flow is Flow.DEPLOY:
        if tools.placement is not None:
            # The last chance to publish: the step that engages the locks publishes too, but can be left out of a deploy.
            made = supply(inventory, verdict, tools.baseline, target.node, tools.catalogue)
            tools.placement.publish(inventory, verdict, made)
        attach.tell(task, mind)
        mind = certificate.issue(task, mind, tools, target.node, inventory, verdict, evidence)
    waivers.tell(task, verdict, definitions.VERIFY.name)
    mind = mind.shown(inventory.accelerators)
    mind = seen(task, mind, tools, inventory, verdict, evidence, by=definitions.VERIFY.name)
    return handover.over(task, mind, inventory, evidence, flow) if flow is Flow.DEPLOY else mind
