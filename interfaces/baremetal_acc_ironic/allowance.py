# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The step ``allow_host_start``: an operator allows the host of a free node to be started though nothing is proven.

It is for looking at a machine by hand. It holds for a node without instance and lessee, for requests of system scope, until the
moment that it names, and no longer than until the next automated cleaning or deploy.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from oslo_log import log

from baremetal_acc.errors import UsageError
from baremetal_acc.model.waiver import LONGEST, moment
from baremetal_acc_ironic import node as memory
from baremetal_acc_ironic import outcome, requester, rights, steps, waivers, work
from baremetal_acc_ironic.node import StartAllowed

LOG = log.getLogger(__name__)


def allow(task: Any, given: Mapping[str, Any]) -> None:
    """Allow it, or end what was allowed. Nothing is written to a BMC.

    :raises StepFailed: an argument is wrong, or no operator has asked for it by hand.
    """
    step = steps.ALLOW_START
    with work.told_by(task, step):
        flow = work.flow_of(task)
        arguments = step.arguments(given)
        mind = work.returned(task, memory.load(task.node), flow, step)
        who = rights.begun_by(task, mind, flow)
        if not rights.by_hand(task.node, flow) or not requester.is_operator(who.requester):
            raise UsageError(
                argument=step.name,
                what=f'{who.by} may not give it',
                hint='let an administrator with the scope of the system run it in manual cleaning',
            )
        allowed = _allowed(arguments, who.by)
        if allowed is None:
            text = f'{step.name}: what was allowed ends now, by {who.by}'
        else:
            text = (
                f'{step.name}: the host may be started until {moment(allowed.until)}, by {who.by}, who '
                f'{"answers" if allowed.vouched else "does not answer"} for what boots: {allowed.why}'
            )
        memory.store(task.node, replace(mind, start_allowed=allowed))
        LOG.warning('Node %s: %s', task.node.uuid, text)
        outcome.told(task.node, text, user=who.user)


def _allowed(arguments: Mapping[str, Any], by: str) -> StartAllowed | None:
    """What is to be allowed; None: nothing any more.

    :raises UsageError: an argument is missing, or wrong.
    """
    if not arguments:
        return None
    name = steps.ALLOW_START.name
    for key in ('reason', 'expires'):
        if not str(arguments.get(key, '')).strip():
            raise UsageError(argument=f'argument {key}', what='is missing', hint=f'{name} needs reason and expires')
    reason = str(arguments['reason']).strip()
    if not reason.isprintable():
        raise UsageError(argument='argument reason', what='holds characters that cannot be printed')
    now, until = work.now(), waivers.end(arguments['expires'])
    if until <= now or until - now > LONGEST:
        what = f'{moment(until)} is {"over" if until <= now else "too far ahead"}'
        raise UsageError(argument='argument expires', what=what, hint=f'at most {LONGEST.days} days from now')
    return StartAllowed(since=now, until=until, by=by, why=reason, vouched=bool(arguments.get('vouched')))
