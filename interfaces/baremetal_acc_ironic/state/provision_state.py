# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Report the outcome of a job to Ironic: wait states, resume, failure and the node's history; tables of provision states."""

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
"""Event type of our records in the node's history."""

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
"""Ironic's key of driver_internal_info: Ironic only asks whether it has a value."""

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
_IN_LOG = 'which the log of the conductor lists'


def resume(task: Any, flow: Flow) -> None:
    """Resume the flow with its next step. This releases the node: nothing may use the task afterwards.

    A conductor that cannot be notified now is notified again by the next poll, for the job is stored until the next step
    begins.
    """
    node_uuid = task.node.uuid
    if flow is Flow.DEPLOY:
        _postpone_validation(task.node)
    try:
        _RESUMES[flow](task)
    except Exception:
        # Any error of the transport: the job itself has ended well.
        LOG.exception('Node %s: the conductor could not be notified that a step is done', node_uuid)


def _postpone_validation(node: Any) -> None:
    """Keep Ironic from validating the steps of a deploy before its ramdisk can report which ones it has.

    Ironic takes whatever resumes a deploy for the first time for the ramdisk; then steps of the ramdisk are unknown, or never
    run (ironic 39.0.0, conductor/deployments.py, continue_node_deploy).
    """
    info = node.driver_internal_info
    if not info.get(_STEPS_VALIDATED) and not info.get('agent_cached_deploy_steps'):
        node.set_driver_internal_info(_STEPS_VALIDATED, _POSTPONED)
        node.save()


def host_starts(node: Any) -> None:
    """Let Ironic validate the steps of a deploy again: its host starts, and the ramdisk may resume it next.

    Ironic saves the node.
    """
    if node.driver_internal_info.get(_STEPS_VALIDATED) == _POSTPONED:
        node.del_driver_internal_info(_STEPS_VALIDATED)


def fail(task: Any, text: str) -> None:
    """Fail the flow: the text becomes the node's last error."""
    deploy_utils.step_error_handler(task, text, errmsg=text)


def told(node: Any, event: str, *, user: str | None = None) -> None:
    """Add a record to the node's history.

    :param user: id of the user on whose behalf; None: the user of the present request, as Ironic does itself.
    """
    user = (user or getattr(oslo_context.get_current(), 'user_id', None) or '')[:_USER_CHARACTERS] or None
    manager_utils.node_history_record(node, event=event[:_HISTORY_CHARACTERS], event_type=EVENT, user=user)


def sentence(name: str, step: str, reasons: Iterable[str], hint: str | None = None) -> str:
    """Return the text of a failure: node, step, every reason up to a bound, and what to do.

    If there are more reasons than the text may hold, all of them are logged, and the text says so.
    """
    reasons = list(reasons)
    shown = reasons[:_ERROR_REASONS]
    if len(reasons) > len(shown):
        shown.append(f'and {len(reasons) - len(shown)} more, {_IN_LOG}')
    text = f'node {name}: {step}: {"; ".join(shown)}'
    is_long = len(text) > _ERROR_CHARACTERS
    if is_long:
        text = f'{text[:_ERROR_CHARACTERS]}... (cut: the log of the conductor has all of it)'
    if is_long or len(reasons) > _ERROR_REASONS:
        for number, reason in enumerate(reasons, 1):
            LOG.warning('Node %s: %s: reason %d of %d: %s', name, step, number, len(reasons), reason)
    return text if hint is None else f'{text} ({hint})'
