# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Extend the custody of the cards by an inventory read of a step, with the lock records that count in its flow."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from baremetal_acc.execution import Target, Tools, custody_feed
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import Flow
from baremetal_acc.model.lock import Engagement
from baremetal_acc.planning import custody
from baremetal_acc_ironic.state import node_store
from baremetal_acc_ironic.state.node_state import NodeState
from baremetal_acc_ironic.steps import wall_clock


def evidence(state: NodeState, flow: Flow) -> tuple[Engagement, ...]:
    """Return our lock records as a flow may count them.

    While a node is deployed, its locks are compared with how they were handed over, so records of that hand-over count.
    """
    if flow is not Flow.SERVICE:
        return state.evidence
    return tuple(replace(e, lifecycle=state.lifecycle) for e in state.evidence)


def with_custody(
    state: NodeState, inventory: Inventory, target: Target, with_tools: Tools, proof: Iterable[Engagement]
) -> NodeState:
    """Return the node state with the custody of the cards after a full inventory read outside of a job.

    While a job runs, its own reads count.
    """
    if state.job is not None and not state.job.ended:
        return state
    kept = custody_feed.looked(
        state.custody, inventory, target, with_tools, proof, lifecycle=state.lifecycle, by=wall_clock.now()
    )
    return replace(state, custody=kept)


def keep_custody(
    task: Any, state: NodeState, inventory: Inventory, target: Target, with_tools: Tools, proof: Iterable[Engagement]
) -> NodeState:
    """Return the node state with the custody after the full inventory read before a job, or of a verification.

    If the read breaks a chain, this is stored at once, whatever becomes of the step.
    """
    kept = with_custody(replace(state, job=None), inventory, target, with_tools, proof).custody
    if custody.breaks(state.custody, kept):
        node_store.store(task.node, node_store.load(task.node).with_custody(kept))
    return replace(state, custody=kept)
