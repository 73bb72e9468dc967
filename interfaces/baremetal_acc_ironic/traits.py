# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which traits of a node do rules go by? Ours, and those that an operator has had taken.

Ironic lets admins of the project that owns a node set its traits (rule ``baremetal:node:traits:set``), and rules may be for a
trait only. So the traits that a node shows choose no rule by themselves.
"""

from dataclasses import replace
from typing import Any

from baremetal_acc.decide.baseline import Baseline
from baremetal_acc.model.job import Flow
from baremetal_acc_ironic import exposure, outcome, rights, steps
from baremetal_acc_ironic import node as memory
from baremetal_acc_ironic.node import Memory
from baremetal_acc_ironic.steps import Step
from baremetal_acc_ironic.target import shown_traits as shown
from baremetal_acc_ironic.target import traits as goes_by


def settled(task: Any, mind: Memory, step: Step, flow: Flow) -> Memory:
    """What is remembered, with the traits that rules go by from this step on; stored at once if they are others.

    The first step of all takes those that there are if an operator has asked for it, and none otherwise. One that came from an
    earlier version was reconciled by those that it has.
    """
    node = task.node
    now, was = shown(node, mind), goes_by(node, mind)
    if mind.taken is None:
        if not memory.settled_before(mind) and exposure.operator(task, mind, flow):
            was = now
    elif now != was and step is steps.RECONCILE and exposure.by_hand_of_an_operator(task, mind, step, flow):
        told = f'rules go by traits {_listed(now)} from now on, by {_listed(was)} no more'
        outcome.told(node, told, user=rights.begun_by(task, mind, flow).user)
        was = now
    if was == mind.taken:
        return mind
    memory.store(node, replace(memory.load(node), taken=was))
    return replace(mind, taken=was)


def contested(node: Any, mind: Memory, baseline: Baseline) -> tuple[str, ...]:
    """Why the node is not as it should be though every rule holds: its traits would choose other rules."""
    now, goes = shown(node, mind), goes_by(node, mind)
    rules = [r.name for r in baseline.rules if r.match.traits & (now ^ goes)]
    if not rules:
        return ()
    return (
        f'the node has traits {_listed(now)}, rules go by {_listed(goes)}, and these rules ask for them: {", ".join(rules)} '
        f'(if the new ones are right, let a system administrator run {steps.RECONCILE.name} in manual cleaning or service, '
        'which takes them; else set them back)',
    )


def _listed(traits: frozenset[str]) -> str:
    return ', '.join(sorted(traits)) or 'none'
