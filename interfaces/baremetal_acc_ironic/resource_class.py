# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which resource class do rules go by? That of the first step, until an operator who reconciles the node says otherwise.

Ironic lets every member of the project that leases a node change its ``resource_class`` (rule ``baremetal:node:update``), and
rules may be for one class only. So the class that a node shows chooses no rule by itself.
"""

from dataclasses import replace
from typing import Any

from baremetal_acc.decide.baseline import Baseline, NodeFacts
from baremetal_acc.model.job import Flow
from baremetal_acc_ironic import exposure, outcome, steps
from baremetal_acc_ironic import node as memory
from baremetal_acc_ironic.node import Memory
from baremetal_acc_ironic.steps import Step


def settled(task: Any, mind: Memory, step: Step, flow: Flow) -> Memory:
    """What is remembered, with the class that rules go by from this step on; stored at once if it is another one.

    Reconciling that an operator asked for takes the present class. Automated cleaning takes none, for whoever may have a node
    cleaned, such as an admin of the project that leases it, would choose the rules by that; and neither does what the project
    that owns the node asks for by a public runbook.
    """
    node = task.node
    shown = node.resource_class
    known = mind.resource_class is not None
    if shown == mind.resource_class or (known and not exposure.by_hand_of_an_operator(task, mind, step, flow)):
        return mind
    if mind.resource_class is not None:
        outcome.told(node, f'rules go by resource_class {shown!r} from now on, by {mind.resource_class!r} no more')
    memory.store(node, replace(memory.load(node), resource_class=shown))
    return replace(mind, resource_class=shown)


def contested(node: Any, facts: NodeFacts, baseline: Baseline) -> tuple[str, ...]:
    """Why the node is not as it should be though every rule holds: the class that it shows now would choose other rules.

    :param facts: with the class that rules go by.
    """
    shown = replace(facts, resource_class=node.resource_class)
    rules = [r.name for r in baseline.rules if r.match.node(facts) is not r.match.node(shown)]
    if not rules:
        return ()
    return (
        f'resource_class is {shown.resource_class!r}, rules go by {facts.resource_class!r}, and these tell them apart: '
        f'{", ".join(rules)} (if the new one is right, run {steps.RECONCILE.name} in manual cleaning, which takes it; else '
        f'set it back)',
    )
