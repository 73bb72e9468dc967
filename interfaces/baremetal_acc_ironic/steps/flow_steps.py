# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The step that runs in a node's flow: its flow, its arguments, its identity, and what follows it."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from baremetal_acc.errors import UsageError
from baremetal_acc.model.job import Flow, Job
from baremetal_acc_ironic.state import provision_state
from baremetal_acc_ironic.steps import definitions

FLOW_STEPS = {
    Flow.CLEAN: ('clean_step', 'clean_step_index'),
    Flow.DEPLOY: ('deploy_step', 'deploy_step_index'),
    Flow.SERVICE: ('service_step', 'service_step_index'),
}


def flow_of(task: Any) -> Flow:
    """Return the flow that a node is in.

    :raises UsageError: no flow has steps in the node's provision state.
    """
    flow = provision_state.FLOWS.get(task.node.provision_state)
    if flow is None:
        raise UsageError(argument='provision state', what=f'no flow runs steps in {task.node.provision_state}')
    return flow


def verify_follows(node: Any) -> bool:
    """Whether the deploy's verification is still to come."""
    info = node.driver_internal_info
    rest = (info.get('deploy_steps') or [])[(info.get('deploy_step_index') or 0) + 1 :]
    return any(s.get('interface') == 'firmware' and s.get('step') == definitions.VERIFY.name for s in rest)


def step_identity(node: Any, name: str, flow: Flow) -> str:
    """Return the name of a step with its position and a digest of its arguments, to tell it from other runs of the step."""
    field, index = FLOW_STEPS[flow]
    arguments = json.dumps((getattr(node, field) or {}).get('args') or {}, sort_keys=True)
    digest = hashlib.sha256(arguments.encode()).hexdigest()[:8]
    return f'{name}#{node.driver_internal_info.get(index)}:{digest}'


def step_name(job: Job) -> str:
    """Return the name of the step or verb that began a job."""
    return job.step.split('#', 1)[0]


def step_arguments(task: Any, flow: Flow) -> Mapping[str, Any]:
    """Return the arguments of the step that the node is in."""
    found: Mapping[str, Any] = (getattr(task.node, FLOW_STEPS[flow][0]) or {}).get('args') or {}
    return found
