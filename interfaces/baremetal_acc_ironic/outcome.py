# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How does Ironic hear of what became of a job? Wait states, resumes, failures, and the node's history."""

from collections.abc import Iterable
from typing import Any

from ironic.common import states
from ironic.conductor import utils as manager_utils
from ironic.drivers.modules import deploy_utils
from oslo_context import context as oslo_context
from oslo_log import log

from baremetal_acc.model.job import Flow

LOG = log.getLogger(__name__)

EVENT = 'accelerator'
"""Type of our records in the node's history."""

FLOWS = {
    states.CLEANING: Flow.CLEAN,
    states.CLEANWAIT: Flow.CLEAN,
    states.DEPLOYING: Flow.DEPLOY,
    states.DEPLOYWAIT: Flow.DEPLOY,
    states.SERVICING: Flow.SERVICE,
    states.SERVICEWAIT: Flow.SERVICE,
}
"""By provision state, never by node.clean_step and its like: a stale one of these names the wrong flow."""

TENANT_STATES = frozenset(
    {
        states.ACTIVE,
        states.DEPLOYING,
        states.DEPLOYWAIT,
        states.DEPLOYFAIL,
        states.DEPLOYDONE,
        states.DEPLOYHOLD,
        states.SERVICING,
        states.SERVICEWAIT,
        states.SERVICEFAIL,
        states.SERVICEHOLD,
        states.RESCUE,
        states.RESCUING,
        states.RESCUEWAIT,
        states.RESCUEFAIL,
        states.UNRESCUING,
        states.UNRESCUEFAIL,
        states.ERROR,
    }
)
"""States in which the host may run somebody else's code once it is on."""

WAITS = {Flow.CLEAN: states.CLEANWAIT, Flow.DEPLOY: states.DEPLOYWAIT, Flow.SERVICE: states.SERVICEWAIT}

_STEPS_VALIDATED = 'steps_validated'
"""Ironic's key of driver_internal_info: it asks whether there is a value."""

_POSTPONED = 'postponed by baremetal_acc'

_RESUMES = {
    Flow.CLEAN: manager_utils.notify_conductor_resume_clean,
    Flow.DEPLOY: manager_utils.notify_conductor_resume_deploy,
    Flow.SERVICE: manager_utils.notify_conductor_resume_service,
}

_HISTORY_CHARACTERS = 8000
_USER_CHARACTERS = 64
"""Source: ironic/db/sqlalchemy/models.py, NodeHistory.user is String(64), 39.0.0; MySQL takes no longer one."""

_ERROR_CHARACTERS = 4000
_ERROR_REASONS = 8


def resume(task: Any, flow: Flow) -> None:
    """Let the flow go on with its next step. It releases the node: nothing may touch the task afterwards.

    A conductor that cannot be told now is told again by the next poll, for the job is kept until the next step begins.
    """
    node_uuid = task.node.uuid
    if flow is Flow.DEPLOY:
        _postpone_validation(task.node)
    try:
        _RESUMES[flow](task)
    except Exception:
        # Whatever the transport raises: the job itself has ended well.
        LOG.exception('Node %s: the conductor could not be told that a step is done', node_uuid)


def _postpone_validation(node: Any) -> None:
    """Keep Ironic from validating the steps of a deploy before its ramdisk can tell which ones it has.

    Whatever resumes a deploy for the first time is taken for the ramdisk; then steps of the ramdisk are unknown, or never run
    (ironic 39.0.0, conductor/deployments.py, continue_node_deploy).
    """
    info = node.driver_internal_info
    if not info.get(_STEPS_VALIDATED) and not info.get('agent_cached_deploy_steps'):
        node.set_driver_internal_info(_STEPS_VALIDATED, _POSTPONED)
        node.save()


def host_starts(node: Any) -> None:
    """A host is started in a deploy: what resumes it next may be the ramdisk. Ironic saves the node."""
    if node.driver_internal_info.get(_STEPS_VALIDATED) == _POSTPONED:
        node.del_driver_internal_info(_STEPS_VALIDATED)


def fail(task: Any, text: str) -> None:
    """End the flow: the node fails with this text as its last error."""
    deploy_utils.step_error_handler(task, text, errmsg=text)


def told(node: Any, event: str, *, user: str | None = None) -> None:
    """Leave a record in the node's history.

    :param user: whom it is for; None: whom the present request names, as Ironic does itself.
    """
    user = (user or getattr(oslo_context.get_current(), 'user_id', None) or '')[:_USER_CHARACTERS] or None
    manager_utils.node_history_record(node, event=event[:_HISTORY_CHARACTERS], event_type=EVENT, user=user)


def sentence(name: str, step: str, reasons: Iterable[str], hint: str | None = None) -> str:
    """A failure in one text: node, step, every reason up to a bound, and what to do."""
    reasons = list(reasons)
    shown = reasons[:_ERROR_REASONS]
    if len(reasons) > len(shown):
        shown.append(f'and {len(reasons) - len(shown)} more, see the node history')
    text = f'node {name}: {step}: {"; ".join(shown)}'
    if len(text) > _ERROR_CHARACTERS:
        text = text[:_ERROR_CHARACTERS] + '...'
    return text if hint is None else f'{text} ({hint})'
