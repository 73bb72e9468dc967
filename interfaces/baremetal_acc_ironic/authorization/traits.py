# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Decide which traits of a node baseline rules go by: our own, and those that an operator has accepted.

Ironic lets admins of the project that owns a node set its traits (rule ``baremetal:node:traits:set``), and a rule may apply to
nodes with a trait only. So the traits that a node has now select no rule by themselves;
:mod:`baremetal_acc_ironic.authorization.accepted_values` says when traits are accepted.
"""

from dataclasses import replace
from typing import Any

from baremetal_acc.model.job import Flow
from baremetal_acc.policy.baseline_rules import Baseline
from baremetal_acc.scheduling.provider_names import PREFIX
from baremetal_acc_ironic.authorization import accepted_values, rights
from baremetal_acc_ironic.state import node_state, node_store, provision_state
from baremetal_acc_ironic.state.node_state import NodeState
from baremetal_acc_ironic.state.target import shown_traits as shown
from baremetal_acc_ironic.state.target import traits as goes_by
from baremetal_acc_ironic.steps import definitions
from baremetal_acc_ironic.steps.definitions import Step


def settled(task: Any, state: NodeState, step: Step, flow: Flow) -> NodeState:
    """Return the node state with the traits that rules go by from this step on; new ones are stored at once.

    A node of an earlier version was reconciled by the traits that it has, and keeps them.
    """
    node = task.node
    now, was = shown(node, state), goes_by(node, state)
    before = node_state.settled_before(state)
    if state.taken is not None and now == was:
        return state
    known = state.taken is not None or before
    if accepted_values.takes(task, state, step, flow, known=known):
        if now != was and (known or accepted_values.tenants_met(node, state)):
            told = f'traits {_listed(now)} are accepted: rules match by them from now on, no longer by {_listed(was)}'
            provision_state.told(node, told, user=rights.begun_by(task, state, flow).user)
        was = now
    elif state.taken is not None or not before:
        return state
    node_store.store(node, replace(node_store.load(node), taken=was))
    return replace(state, taken=was)


def contested(node: Any, state: NodeState, baseline: Baseline) -> tuple[str, ...]:
    """Return why the node fails although every rule is met: its traits would select other rules.

    While none were accepted, the operator may have set other traits than the node has: any rule for a trait that asks for
    something may have been meant for the node, unless the trait is one that we set.
    """
    now, goes = shown(node, state), goes_by(node, state)
    apart = {r.name for r in baseline.rules if r.match.traits & (now ^ goes)}
    if state.taken is not None or node_state.settled_before(state):
        rules = [r.name for r in baseline.rules if r.name in apart]
        if not rules:
            return ()
        return (
            f'the node has traits {_listed(now)}, but rules match by the accepted ones, {_listed(goes)}, and these rules '
            f'differ by them: {", ".join(rules)} (if the present ones are right, let a system administrator run '
            f'{definitions.RECONCILE.name} in manual cleaning or service, which accepts them; otherwise restore the accepted '
            'ones)',
        )
    meant = {
        r.name
        for r in baseline.rules
        if accepted_values.asks_for_more(r) and any(t not in state.traits and not t.startswith(PREFIX) for t in r.match.traits)
    }
    rules = [r.name for r in baseline.rules if r.name in apart | meant]
    if not rules:
        return ()
    return (
        f'the node has traits {_listed(now)}, but no operator has accepted them, so rules match by none, and these rules '
        f'depend on some: {", ".join(rules)} (if they are right, let a system administrator run {definitions.RECONCILE.name} '
        'in manual cleaning or service, which accepts them)',
    )


def _listed(traits: frozenset[str]) -> str:
    return ', '.join(sorted(traits)) or 'none'
