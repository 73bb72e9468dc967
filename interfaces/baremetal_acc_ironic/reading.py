# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The read-only steps ``inventory_accelerators`` and ``verify_accelerators``, and a check that deploys run the latter first."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ironic import objects

from baremetal_acc import run
from baremetal_acc.decide.offer import supply
from baremetal_acc.errors import NotMet
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import Flow
from baremetal_acc.render import findings
from baremetal_acc.run import custody_feed
from baremetal_acc_ironic import (
    attach,
    certificate,
    drift,
    exposure,
    handed,
    outcome,
    quarantine,
    resource_class,
    settings,
    steps,
    traits,
    waivers,
    work,
)
from baremetal_acc_ironic import node as memory
from baremetal_acc_ironic.node import Memory
from baremetal_acc_ironic.target import target as target_of
from baremetal_acc_ironic.tools import counted, seen, show
from baremetal_acc_ironic.tools import tools as tools_of


def take_stock(task: Any, by: str) -> Inventory:
    """Read a node's inventory, report what has changed since the previous read, and store the inventory in Ironic.

    Which devices have to be present (:attr:`Memory.known`) does not change: a card that was swapped still counts as missing.

    :param by: the step or inspection that reads, for reports.
    :returns: the inventory completed with what this read could not see.
    :raises StepFailed: the node could not be read.
    """
    with work.told_by(task, steps.INVENTORY):
        mind = memory.load(task.node)
        tools = tools_of(task, mind, rules=False)
        evidence = work.evidence(mind, Flow.SERVICE)
        # Only a verification reads signed measurements: this step has to be quick.
        inventory, verdict = run.check(target_of(task), tools, evidence, work.now(), lifecycle=mind.lifecycle, measure=False)
        mind, known = drift.tell(task, mind, inventory, by, work.done(mind))
        mind = work.with_custody(mind, inventory, target_of(task), tools, evidence)
        memory.store(task.node, mind)
        mind = counted(task, mind, tools, inventory, verdict)
        memory.store(task.node, show(task, mind, tools, inventory, known, verdict, evidence))
    return known


def left_out(task: Any) -> str | None:
    """Return what leaves the verification out of the deploy that begins; None if nothing does.

    Arguments take precedence over templates, and both over our own default; disallowed steps are dropped without a message
    (ironic 39.0.0, conductor/steps.py, _get_all_deployment_steps and set_node_deployment_steps).
    """
    if f'firmware.{steps.VERIFY.name}' in settings.ironic().disallowed_steps['deploy']:
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
            if s['priority'] >= verification and not (s['interface'] == 'firmware' and s['step'] in steps.STEPS)
        )
    )


def _priorities(given: Iterable[Mapping[str, Any]]) -> list[int]:
    """Return the priorities that deploy steps give to the verification."""
    return [s['priority'] for s in given if (s['interface'], s['step']) == ('firmware', steps.VERIFY.name)]


def verify(task: Any) -> None:
    """Compare a node with the baseline; a deploy passes only if every lock was engaged and read back in this very deploy.

    :raises StepFailed: something is not met, or could not be read.
    """
    with work.told_by(task, steps.VERIFY):
        flow = work.flow_of(task)
        mind = work.returned(task, memory.load(task.node), flow, steps.VERIFY)
        mind = work.settled(task, mind, steps.VERIFY, flow)
        try:
            mind = _verify(task, mind, flow)
        except Exception:
            # A second attempt to deploy has to collect its own evidence.
            mind = certificate.attempted(task.node, drift.with_told(task.node, mind))
            stored = memory.load(task.node)
            mind = replace(mind, opened=stored.opened, exposed=mind.exposed | stored.exposed, custody=stored.custody)
            memory.store(task.node, mind.without_evidence_of(Flow.DEPLOY) if flow is Flow.DEPLOY else mind)
            raise
        if flow is Flow.DEPLOY:
            outcome.told(task.node, 'accelerators are as they should be, and every lock was read back: ready to be handed over')
            mind = replace(mind.given_away(work.now()), job=None)
        elif flow is Flow.SERVICE:
            mind = handed.proven(mind, work.now())
        memory.store(task.node, mind)


def _verify(task: Any, mind: Memory, flow: Flow) -> Memory:
    work.refuse_interrupted(mind)
    target = target_of(task)
    tools = tools_of(task, mind)
    evidence = work.evidence(mind, flow)
    inventory, verdict = run.check(
        target,
        tools,
        evidence,
        work.now(),
        lifecycle=mind.lifecycle,
        flow=Flow.DEPLOY if flow is Flow.DEPLOY else None,
        tasks=flow is Flow.DEPLOY,
    )
    mind = drift.looked(task, mind, inventory, steps.VERIFY.name, work.done(mind))
    mind = work.keep_custody(task, mind, inventory, target, tools, evidence)
    verdict = custody_feed.judged(verdict, mind.custody, inventory, target, tools, inventory.at)
    reasons = [findings.sentence(finding) for finding in verdict.unmet]
    if mind.opened is not None:
        reasons.append(f'locks were opened at {mind.opened.since:%Y-%m-%d %H:%M:%S} UTC ({mind.opened.why})')
    reasons += quarantine.reasons(mind)
    reasons += handed.unwritten(mind)
    reasons += resource_class.contested(task.node, target.node, tools.baseline)
    reasons += (*exposure.contested(task.node, mind), *traits.contested(task.node, mind, tools.baseline))
    if flow is Flow.DEPLOY:
        mind, wrong = attach.plugged(task, mind, inventory, verdict)
        reasons += wrong
    if reasons:
        if flow is not Flow.CLEAN:
            left = handed.found_open(mind, flow, steps.VERIFY.name, inventory, verdict, work.now())
            memory.store(task.node, replace(memory.load(task.node), opened=left.opened, exposed=left.exposed))
        raise NotMet(reasons, hint=f'{steps.LOCK.name} closes locks, {steps.RECONCILE.name} brings everything to the baseline')
    if flow is Flow.DEPLOY:
        if tools.placement is not None:
            # The last chance to publish: the step that engages the locks publishes too, but can be left out of a deploy.
            made = supply(inventory, verdict, tools.baseline, target.node, tools.catalogue)
            tools.placement.publish(inventory, verdict, made)
        attach.tell(task, mind)
        mind = certificate.issue(task, mind, tools, target.node, inventory, verdict, evidence)
    waivers.tell(task, verdict, steps.VERIFY.name)
    mind = mind.shown(inventory.accelerators)
    mind = seen(task, mind, tools, inventory, verdict, evidence, by=steps.VERIFY.name)
    return handed.over(task, mind, inventory, evidence, flow) if flow is Flow.DEPLOY else mind
