# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Prepare the stored state of a node when a step begins: its lifecycle, and the values that rules go by."""

from dataclasses import replace
from typing import Any

from baremetal_acc.errors import StaleJob
from baremetal_acc.model.job import Flow
from baremetal_acc.model.job_item import Item
from baremetal_acc_ironic.authorization import accepted_values, exposure, resource_class, traits
from baremetal_acc_ironic.state import certificate
from baremetal_acc_ironic.state.node_state import NodeState
from baremetal_acc_ironic.steps import definitions
from baremetal_acc_ironic.steps.definitions import Step
from baremetal_acc_ironic.steps.flow_steps import step_name, verify_follows


def settled(task: Any, state: NodeState, step: Step, flow: Flow) -> NodeState:
    """Return the node state with what rules go by from this step on.

    Traits come first: they depend on whether a class was accepted before.

    :raises InvalidParameterValue: driver_info is wrong.
    """
    for what in (traits, resource_class, exposure):
        state = what.settled(task, state, step, flow)
    for takes in (accepted_values.with_ramdisk, accepted_values.with_bmcs):
        state = takes(task, state, step, flow)
    return accepted_values.noted(task.node, state)


def returned(task: Any, state: NodeState, flow: Flow, step: Step) -> NodeState:
    """Return the node state, with a new lifecycle if the node was deployed and has come back.

    In a service the node is deployed; it may have been undeployed without cleaning, and adopted. In a deploy without a cleaning
    before it, the node counts as returned until it is verified; steps after the verification begin no new lifecycle.
    """
    ours = flow is Flow.CLEAN or (flow is not Flow.SERVICE and (step is definitions.VERIFY or verify_follows(task.node)))
    if state.ending or (state.handed_over and ours):
        state = certificate.over(task, state.came_back())
    return replace(state, handed_over=True) if flow is Flow.SERVICE else state


def refuse_interrupted(state: NodeState) -> None:
    """Refuse to work on a node that an interrupted job has left half written.

    :raises StaleJob: there is such a job.
    """
    if state.job is not None and state.writing:
        raise StaleJob(
            f'{step_name(state.job)} ({state.job.flow}) was interrupted while it was writing',
            hint=f'run {definitions.LOCK.name} or {definitions.RECONCILE.name} first',
        )


def done(state: NodeState) -> tuple[Item, ...]:
    """Return the items of the stored job, which may explain what is read now."""
    return () if state.job is None else state.job.items
