# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Authorize the steps of a flow in the conductor, where Ironic's API checks no rule: public runbooks and deploy templates.

The API checks a rule for every step that a request names, and for those of a project's own runbook. It checks none for public
runbooks, deploy templates and automated steps (ironic 39.0.0, api/controllers/v1/node.py, ``_handle_runbook``). So the project
that leases a node is refused here, whichever way it came: it writes no firmware, and changes no lock. Other projects and roles
are left to the API: whoever wrote the runbook has decided for them. An API that checks no rules of steps is older than Ironic
39: there the rules are checked here, too, for everybody (:mod:`baremetal_acc_ironic.authorization.step_rules`).

Who has begun a flow is stored when the flow begins, for only its first step still has the context of the request: later steps
have that of a periodic, or of a heartbeat, where a client can claim any identity
(:mod:`baremetal_acc_ironic.authorization.requester`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from ironic import objects
from ironic.common import exception, states
from oslo_log import log

from baremetal_acc.errors import Refused, StaleJob
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import Flow
from baremetal_acc.model.plan import Plan
from baremetal_acc.planning import tenant_writes
from baremetal_acc.policy.baseline_rules import Baseline, NodeFacts
from baremetal_acc_ironic import ramdisk
from baremetal_acc_ironic.authorization import bmc_source, ramdisk_source, requester, step_rules
from baremetal_acc_ironic.authorization.requester import RequestContext, Requester
from baremetal_acc_ironic.host_power import gate
from baremetal_acc_ironic.host_power.gate import Reason
from baremetal_acc_ironic.state import node_store, provision_state
from baremetal_acc_ironic.state.node_state import NodeState
from baremetal_acc_ironic.steps import definitions

LOG = log.getLogger(__name__)

FIRMWARE = 'firmware'

IN_TREE = frozenset(
    {
        (FIRMWARE, 'update'),
        ('management', 'update_firmware'),
        ('vendor', 'send_raw'),
        *((interface, step) for interface, step, _ in ramdisk.STEPS),
        ('deploy', 'container_clean_step'),
        ('bios', 'apply_configuration'),
        ('bios', 'factory_reset'),
    }
)
"""Ironic's own steps that only the operator may run: those that write firmware and so bypass the baseline, its ramdisk's among
them; the one that sends a BMC any IPMI command; the one that runs any program in the ramdisk; and those that change BIOS
settings by the BMC, since some locks of whole machines are such settings.

Source: ironic-python-agent, hardware_managers/container.py."""

_INDEX = {Flow.CLEAN: 'clean_step_index', Flow.SERVICE: 'service_step_index'}
_STEPS = {Flow.CLEAN: 'clean_steps', Flow.SERVICE: 'service_steps'}


class StepRefused(exception.IronicException):
    """Whoever has begun the flow may not run this step."""

    code = HTTPStatus.FORBIDDEN


# -------------------------------------------------------------------------------------------------- who has begun a flow


def noted(task: Any) -> None:
    """Store who begins a cleaning or a service: Ironic validates our interface then, and no step of the flow is current yet."""
    flow = provision_state.FLOWS.get(task.node.provision_state)
    if flow in _INDEX and task.node.driver_internal_info.get(_INDEX[flow]) is None:
        _keep(task, flow)


def noted_deploy(task: Any) -> None:
    """Store who begins a deploy: Ironic asks for our deploy steps then, before the node's state changes."""
    if task.node.provision_state not in provision_state.FLOWS:
        _keep(task, Flow.DEPLOY)


def forget_proof(task: Any) -> None:
    """Forget what was proven for an earlier deploy when a new one gathers its steps.

    The host may not be started by it any more.
    """
    if task.shared or task.node.driver_internal_info.get('deploy_step_index') is not None:
        return
    state = node_store.load(task.node)
    if state.proven is not None or state.start_allowed is not None:
        node_store.store(task.node, replace(state, proven=None, start_allowed=None))


def _keep(task: Any, flow: Flow) -> None:
    if task.shared:
        return  # a request to validate the node; no flow begins
    try:
        state = node_store.load(task.node)
    except StaleJob as exc:
        LOG.warning('%s', exc)  # no step can begin then, either
        return
    if flow is Flow.CLEAN and not by_hand(task.node, flow):
        state = replace(state, start_allowed=None)
    if not gate.counts(Reason.PROVEN, task.node.provision_state):
        # The deployment that this was proven for is over, however this flow ends.
        state = replace(state, proven=None)
    asked = requester.asked(task.context, flow, _what(task.node, flow))
    begun = _with_sources(task.node, replace(_anew(state, flow), asked=asked), flow)
    if begun != state:
        node_store.store(task.node, begun)


def _with_sources(node: Any, state: NodeState, flow: Flow) -> NodeState:
    """Accept the ramdisk and the BMCs where an operator begins a flow: Ironic boots the ramdisk before our first step.

    On a node that has or had an owner this takes a flow with reconciling, asked for by hand; for the BMCs also the first flow.
    """
    state = replace(state, owned=state.owned or node.owner is not None, leased=state.leased or node.lessee is not None)
    named = node.driver_internal_info.get(_STEPS[flow]) or [] if flow in _STEPS and by_hand(node, flow) else []
    reconciles = any((s['interface'], s['step']) == (FIRMWARE, definitions.RECONCILE.name) for s in named)
    if state.asked is None or not operators(state.asked.requester, node):
        return state
    if reconciles or not state.owned:
        return replace(state, ramdisk=ramdisk_source.digest(node), bmcs=bmc_source.digest(node))
    return state if state.bmcs is not None else replace(state, bmcs=bmc_source.digest(node))


def _anew(state: NodeState, flow: Flow) -> NodeState:
    """Return the state without the evidence of an interrupted deploy.

    The next deploy may leave out the step that engages the locks.
    """
    if flow is not Flow.DEPLOY:
        return state
    # Evidence of earlier lifecycles stays: the watch compares a deployed node with it.
    return replace(state, evidence=tuple(e for e in state.evidence if (e.flow, e.lifecycle) != (flow, state.lifecycle)))


def _what(node: Any, flow: Flow) -> str:
    """Return what begins, as a text for people."""
    if flow is Flow.CLEAN:
        return 'manual cleaning' if by_hand(node, flow) else 'automated cleaning'
    return str(flow)


def begun_by(task: Any, state: NodeState, flow: Flow) -> RequestContext:
    """Return who has begun the flow that a node is in."""
    if state.asked is not None and state.asked.flow is flow:
        return state.asked
    return requester.asked(task.context, flow, _what(task.node, flow))


# ----------------------------------------------------------------------------------------------- what a requester may run


def tenants_own(who: Requester | None, node: Any) -> bool:
    """Whether the project that leases a node asks, or it is unknown who asks.

    An owner that leases its own node counts as the owner.
    """
    if who is None:
        return requester.checked()
    return who.system_scope is None and who.project is not None and who.project == node.lessee and who.project != node.owner


def operators(who: Requester | None, node: Any) -> bool:
    """Whether the requester belongs to neither the project that owns the node nor the one that leases it."""
    if who is None:
        return not tenants_own(who, node)
    return who.system_scope is not None or who.project is None or who.project not in (node.owner, node.lessee)


def by_hand(node: Any, flow: Flow) -> bool:
    """Whether the requester has named the steps of the flow: a service, or a cleaning that does not end in ``available``."""
    return flow is Flow.SERVICE or (flow is Flow.CLEAN and node.target_provision_state == states.MANAGEABLE)


def permit(task: Any, flow: Flow, wanted: Iterable[Mapping[str, Any]]) -> None:
    """Check that whoever has begun a flow may run these steps of it.

    :raises StepRefused: one of them is for the operator only, and a tenant has asked, or it is unknown who has; or its policy
        rule is checked here, and forbids it.
    """
    wanted = tuple(wanted)
    _permit_by_lease(task, flow, [s for s in wanted if operators_own(s, flow, by_hand=by_hand(task.node, flow))])
    _permit_by_rules(task, flow, [s for s in wanted if _is_named(task.node, flow, s)])


def _permit_by_lease(task: Any, flow: Flow, operators: Sequence[Mapping[str, Any]]) -> None:
    if not operators:
        return
    found = begun_by(task, node_store.load(task.node), flow)
    if not tenants_own(found.requester, task.node):
        return
    names = ', '.join(sorted({f'{s["interface"]}.{s["step"]}' for s in operators}))
    if found.requester is None:
        who = f'it is unknown who has begun this {flow}: {found.by}'
        hint = (
            'let an operator request it; if an operator did, [DEFAULT] auth_strategy of the API differs from that of this '
            'conductor'
        )
    else:
        who = f'{found.by} leases the node'
        hint = 'let an operator request it; no runbook, deploy template or policy allows it to the project that leases a node'
    text = f'node {task.node.name or task.node.uuid}: {names} refused: {who}, and only an operator may run this ({hint})'
    provision_state.told(task.node, text, user=found.user)
    raise StepRefused(text)


def _permit_by_rules(task: Any, flow: Flow, named: Sequence[Mapping[str, Any]]) -> None:
    """Check the policy rules of steps that a request has named, if the API has not done so."""
    if not named or not step_rules.checked_here():
        return
    found = begun_by(task, node_store.load(task.node), flow)
    refused = step_rules.refused(named, found.requester, task.node)
    if refused:
        text = f'node {task.node.name or task.node.uuid}: {step_rules.text(refused, found)}'
        provision_state.told(task.node, text, user=found.user)
        raise StepRefused(text)


def _named(node: Any, flow: Flow) -> list[dict[str, Any]]:
    """Return the steps that a request, or a runbook that it names, has chosen for the flow; those of priority 0 as well."""
    if flow is Flow.DEPLOY:
        return node.driver_internal_info.get('user_deploy_steps') or []
    return (node.driver_internal_info.get(_STEPS[flow]) or []) if by_hand(node, flow) else []


def _is_named(node: Any, flow: Flow, step: Mapping[str, Any]) -> bool:
    """Whether a request has chosen the step, which is about to run: in a flow by hand it has chosen them all."""
    if flow is not Flow.DEPLOY:
        return by_hand(node, flow)
    return (step['interface'], step['step']) in {(s['interface'], s['step']) for s in _named(node, flow)}


def operators_own(step: Mapping[str, Any], flow: Flow, *, by_hand: bool) -> bool:
    """Whether a step, as it is asked for here, is for the operator only.

    Automated cleaning is the operator's configuration, whoever triggers it: its runbook is named in ``ironic.conf``, or in
    ``driver_info`` where that allows it. In a deploy the requester has chosen all arguments, and every step that is not
    automatic.
    """
    automated = flow is Flow.CLEAN and not by_hand
    if (step['interface'], step['step']) in IN_TREE:
        return not automated
    ours = definitions.STEPS.get(step['step']) if step['interface'] == FIRMWARE else None
    if ours is None or not ours.operators:
        return False
    return by_hand or flow not in ours.automatic or not (automated or not step.get('args'))


def permit_all(task: Any, flow: Flow) -> None:
    """Check that whoever has begun a flow may run all of its steps, before the first one runs and before a ramdisk is booted.

    :raises StepRefused: as :func:`permit`.
    """
    info = task.node.driver_internal_info
    if flow is Flow.DEPLOY:
        _permit_by_rules(task, flow, _named(task.node, flow))
        given = [*(info.get('user_deploy_steps') or []), *_of_templates(task)]
        permit(task, flow, [s for s in given if s.get('priority') != 0])
    elif flow in _STEPS and flow is provision_state.FLOWS.get(task.node.provision_state):
        permit(task, flow, info.get(_STEPS[flow]) or [])


def _of_templates(task: Any) -> list[dict[str, Any]]:
    """Return the steps of the deploy templates that match the instance's traits."""
    traits = task.node.instance_info.get('traits') or []
    found = objects.DeployTemplate.list_by_names(task.context, traits) if traits else []
    return [step for template in found for step in template.steps]


def permit_plan(task: Any, who: RequestContext, made: Plan, inventory: Inventory, baseline: Baseline, node: NodeFacts) -> None:
    """Check that a tenant who programs functions gets no more than the rules allow.

    :raises Refused: names a card, and the rule that refuses it.
    """
    if not tenants_own(who.requester, task.node):
        return
    reasons = tenant_writes.objections(made, inventory, baseline, node)
    if reasons:
        raise Refused(
            (f'{who.by} leases the node', *reasons), hint='a rule of the baseline with tenants_program = true allows it'
        )
