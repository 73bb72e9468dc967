# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Decide which resource class of a node baseline rules go by: only one that an operator has accepted.

Ironic lets every member of the project that leases a node change its ``resource_class`` (rule ``baremetal:node:update``), and a
rule may apply to one class only. So the class that a node has now selects no rule by itself;
:mod:`baremetal_acc_ironic.authorization.accepted_values` says when a class is accepted.
"""

from dataclasses import replace
from typing import Any

from baremetal_acc.model.job import Flow
from baremetal_acc.policy.baseline_rules import Baseline, BmcRule, NodeFacts, Rule
from baremetal_acc_ironic.authorization import accepted_values, rights
from baremetal_acc_ironic.state import node_store, provision_state
from baremetal_acc_ironic.state.node_state import NodeState
from baremetal_acc_ironic.steps import definitions
from baremetal_acc_ironic.steps.definitions import Step


def settled(task: Any, state: NodeState, step: Step, flow: Flow) -> NodeState:
    """Return the node state with the class that rules go by from this step on; a new one is stored at once.

    Automated cleaning accepts the first class only, since whoever may have a node cleaned, such as an admin of the project that
    leases it, would select the rules by that; the same holds for a public runbook that the owner's project asks for.
    """
    node = task.node
    shown, was = node.resource_class or '', state.resource_class
    if shown == was or not accepted_values.takes(task, state, step, flow, known=was is not None):
        return state
    if was is not None or accepted_values.tenants_met(node, state):
        told = f'resource_class {shown!r} is accepted: rules match by it from now on, no longer by {was or None!r}'
        provision_state.told(node, told, user=rights.begun_by(task, state, flow).user)
    node_store.store(node, replace(node_store.load(node), resource_class=shown))
    return replace(state, resource_class=shown)


def contested(node: Any, facts: NodeFacts, baseline: Baseline) -> tuple[str, ...]:
    """Return why the node fails although every rule is met: the class that it has now would select other rules.

    While no class was accepted, the operator may have meant another class than the node has: any rule for a class that asks for
    something may have been meant for the node.

    :param facts: with the class that rules go by.
    """
    shown = replace(facts, resource_class=node.resource_class or None)
    every: tuple[Rule | BmcRule, ...] = (*baseline.rules, *baseline.bmc)
    apart = {r.name for r in every if r.match.node(facts) is not r.match.node(shown)}
    if node_store.load(node).resource_class is not None:
        rules = [r.name for r in every if r.name in apart]
        if not rules:
            return ()
        return (
            f'resource_class is {shown.resource_class!r}, but rules match by the accepted one, {facts.resource_class!r}, and '
            f'these rules differ by it: {", ".join(rules)} (if the present one is right, let a system administrator run '
            f'{definitions.RECONCILE.name} in manual cleaning or service, which accepts it; otherwise restore the accepted '
            'one)',
        )
    meant = {r.name for r in every if r.match.resource_class is not None and accepted_values.asks_for_more(r)}
    rules = [r.name for r in every if r.name in apart | meant]
    if not rules:
        return ()
    return (
        f'resource_class is {shown.resource_class!r}, but no operator has accepted it, so rules match by none, and these rules '
        f'depend on one: {", ".join(rules)} (if it is right, let a system administrator run {definitions.RECONCILE.name} in '
        'manual cleaning or service, which accepts it)',
    )
