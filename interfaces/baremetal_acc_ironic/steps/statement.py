# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read the reason and the end from the arguments of a step by which an operator answers for something."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from baremetal_acc.errors import UsageError
from baremetal_acc.model.job import Flow
from baremetal_acc.model.waiver import END_HINT, END_LIMIT, end_flaw, read_end
from baremetal_acc_ironic.authorization import requester, rights
from baremetal_acc_ironic.authorization.requester import RequestContext
from baremetal_acc_ironic.state.node_state import NodeState
from baremetal_acc_ironic.steps.definitions import Step


def made_by(task: Any, state: NodeState, flow: Flow, step: Step) -> RequestContext:
    """Return the operator who has asked for a step by hand.

    :raises UsageError: nobody has asked for it by hand with system scope.
    """
    who = rights.begun_by(task, state, flow)
    if not rights.by_hand(task.node, flow) or not requester.is_operator(who.requester):
        raise UsageError(
            argument=step.name,
            what=f'{who.by} may not run it here',
            hint='let an administrator with system scope run it in manual cleaning',
        )
    return who


def reason_and_end(
    arguments: Mapping[str, Any], step: Step, now: datetime, *, end: str, beside: str = ''
) -> tuple[str, datetime]:
    """Return the reason and the end, in UTC.

    :param end: name of the argument that holds the end.
    :param beside: what the two are needed with, for errors.
    :raises UsageError: an argument is missing, or wrong; or the end is over, or too far ahead.
    """
    for key in ('reason', end):
        if not str(arguments.get(key, '')).strip():
            raise UsageError(argument=f'argument {key}', what='is missing', hint=f'{step.name} needs reason and {end}{beside}')
    reason = str(arguments['reason']).strip()
    if not reason.isprintable():
        raise UsageError(argument='argument reason', what='contains characters that cannot be printed')
    until = read_end(arguments[end])
    if until is None:
        what = f'{arguments[end]!r} is neither a date nor a date and time with an offset'
        raise UsageError(argument=f'argument {end}', what=what, hint=END_HINT)
    flaw = end_flaw(until, now)
    if flaw is not None:
        raise UsageError(argument=f'argument {end}', what=flaw, hint=END_LIMIT)
    return reason, until


__all__ = ['made_by', 'reason_and_end']
