# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The step ``allow_host_start``: an operator allows the host of a free node to be powered on although nothing is proven.

It is meant for examining a machine by hand. The permission holds only for a node without instance and lessee, only for requests
of system scope, until the given time, and no longer than until the next automated cleaning or deploy.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from oslo_log import log

from baremetal_acc.model.waiver import moment
from baremetal_acc_ironic.state import node_store, provision_state
from baremetal_acc_ironic.state.node_state import StartAllowed
from baremetal_acc_ironic.steps import definitions, flow_steps, statement, step_errors, step_preparation, wall_clock

LOG = log.getLogger(__name__)


def allow(task: Any, given: Mapping[str, Any]) -> None:
    """Store the permission to start the host, or end it where the step has no arguments. Nothing is written to a BMC.

    :raises StepFailed: an argument is wrong, or no operator has asked for the step by hand.
    """
    step = definitions.ALLOW_START
    with step_errors.told_by(task, step):
        flow = flow_steps.flow_of(task)
        arguments = step.arguments(given)
        state = step_preparation.returned(task, node_store.load(task.node), flow, step)
        who = statement.made_by(task, state, flow, step)
        allowed = _allowed(arguments, who.by)
        if allowed is None:
            text = f'{step.name}: {who.by} ends the permission to start the host'
        else:
            text = (
                f'{step.name}: {who.by} allows the host to be started until {moment(allowed.until)}, and '
                f'{"vouches" if allowed.vouched else "does not vouch"} for what boots: {allowed.why}'
            )
        node_store.store(task.node, replace(state, start_allowed=allowed))
        LOG.warning('Node %s: %s', task.node.uuid, text)
        provision_state.told(task.node, text, user=who.user)


def _allowed(arguments: Mapping[str, Any], by: str) -> StartAllowed | None:
    """Return the permission that the arguments ask for; None: the present one ends.

    :raises UsageError: an argument is missing, or wrong.
    """
    if not arguments:
        return None
    now = wall_clock.now()
    reason, until = statement.reason_and_end(arguments, definitions.ALLOW_START, now, end='expires')
    return StartAllowed(since=now, until=until, by=by, why=reason, vouched=bool(arguments.get('vouched')))
