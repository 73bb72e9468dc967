# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Decide which exposure (whose code runs on a node, ``acc_exposure``) baseline rules go by: one that an operator has accepted.

Where nobody's code is said to run, the default rules ask for no lock. Ironic lets every member of the project that owns a node
change its ``driver_info`` (rule ``baremetal:node:update:driver_info``), so its value alone drops no lock.
"""

from dataclasses import replace
from typing import Any

from baremetal_acc.model.job import Flow
from baremetal_acc_ironic.authorization import bmc_source, rights
from baremetal_acc_ironic.state import node_store, provision_state
from baremetal_acc_ironic.state.node_state import NodeState
from baremetal_acc_ironic.state.target import EXPOSURE
from baremetal_acc_ironic.state.target import exposure as goes_by
from baremetal_acc_ironic.state.target import shown_exposure as shown
from baremetal_acc_ironic.steps import definitions
from baremetal_acc_ironic.steps.definitions import Step


def settled(task: Any, state: NodeState, step: Step, flow: Flow) -> NodeState:
    """Return the node state with the exposure that rules go by from this step on; a new one is stored at once.

    :raises InvalidParameterValue: ``driver_info`` names an unknown exposure.
    """
    node = task.node
    says, was = shown(node), goes_by(node, state)
    if says is was or not by_hand_of_an_operator(task, state, step, flow):
        return state
    provision_state.told(
        node,
        f'exposure {says} is accepted: rules match by it from now on, no longer by {was}',
        user=rights.begun_by(task, state, flow).user,
    )
    node_store.store(node, replace(node_store.load(node), exposure=says))
    return replace(state, exposure=says)


def by_hand_of_an_operator(task: Any, state: NodeState, step: Step, flow: Flow) -> bool:
    """Whether an operator has asked for reconciling by hand, which accepts what the node shows."""
    return step is definitions.RECONCILE and rights.by_hand(task.node, flow) and operator(task, state, flow)


def operator(task: Any, state: NodeState, flow: Flow) -> bool:
    """Whether the flow was begun, by whatever runbook, by somebody outside of the projects that own or lease the node."""
    return rights.operators(rights.begun_by(task, state, flow).requester, task.node)


def contested(node: Any, state: NodeState) -> tuple[str, ...]:
    """Return why the node fails although every rule is met: it shows another exposure than the one that rules go by.

    Or it was read at other BMCs than those that an operator has accepted.
    """
    says, goes = shown(node), goes_by(node, state)
    others = bmc_source.contested(node, state)
    if says is goes:
        return others
    return (
        *others,
        f"driver_info['{EXPOSURE}'] makes the exposure {says}, but rules match by the accepted one, {goes} (if {says} is "
        f'right, let a system administrator run {definitions.RECONCILE.name} in manual cleaning or service, which accepts it; '
        f'otherwise set {EXPOSURE} to {goes})',
    )
