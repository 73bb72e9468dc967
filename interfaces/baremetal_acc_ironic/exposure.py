# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Whose code is said to run on a node, and who may say so? What ``driver_info`` says counts when an operator has had it taken.

Where nobody's code is said to run, the default rules ask for no lock. Ironic lets every member of the project that owns a node
change its ``driver_info`` (rule ``baremetal:node:update:driver_info``), so what stands there lets go of nothing by itself.
"""

from dataclasses import replace
from typing import Any

from baremetal_acc.model.job import Flow
from baremetal_acc_ironic import bmc_source, outcome, rights, steps
from baremetal_acc_ironic import node as memory
from baremetal_acc_ironic.node import Memory
from baremetal_acc_ironic.steps import Step
from baremetal_acc_ironic.target import EXPOSURE
from baremetal_acc_ironic.target import exposure as goes_by
from baremetal_acc_ironic.target import shown_exposure as shown


def settled(task: Any, mind: Memory, step: Step, flow: Flow) -> Memory:
    """What is remembered, with the exposure that rules go by from this step on; stored at once if it is another one.

    :raises InvalidParameterValue: driver_info has none that there is.
    """
    node = task.node
    says, was = shown(node), goes_by(node, mind)
    if says is was or not by_hand_of_an_operator(task, mind, step, flow):
        return mind
    outcome.told(
        node, f'rules go by exposure {says} from now on, by {was} no more', user=rights.begun_by(task, mind, flow).user
    )
    memory.store(node, replace(memory.load(node), exposure=says))
    return replace(mind, exposure=says)


def by_hand_of_an_operator(task: Any, mind: Memory, step: Step, flow: Flow) -> bool:
    """An operator has asked for reconciling: what a node says of itself is taken by that."""
    return step is steps.RECONCILE and rights.by_hand(task.node, flow) and operator(task, mind, flow)


def operator(task: Any, mind: Memory, flow: Flow) -> bool:
    """Nobody of the projects that own or lease the node has begun the flow, by whatever runbook."""
    return rights.operators(rights.begun_by(task, mind, flow).requester, task.node)


def contested(node: Any, mind: Memory) -> tuple[str, ...]:
    """Why the node is not as it should be though every rule holds: it says another exposure than the one that rules go by.

    Or it was read at other BMCs than those that an operator has taken.
    """
    says, goes = shown(node), goes_by(node, mind)
    others = bmc_source.contested(node, mind)
    if says is goes:
        return others
    return (
        *others,
        f"driver_info['{EXPOSURE}'] makes the exposure {says}, and rules go by {goes} (if the new one is right, let a system "
        f'administrator run {steps.RECONCILE.name} in manual cleaning or service, which takes it; else set it back)',
    )
