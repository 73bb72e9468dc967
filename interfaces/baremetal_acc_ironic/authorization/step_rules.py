# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Check the policy rules of steps in the conductor, where Ironic's API does not check them: before Ironic 39.

The rules and their names are the same, and so are the overrides in policy files, which the conductor reads from its own
``[oslo_policy]``. The API has accepted the request (202) by then, so that a refusal fails the flow. The rules are checked for
whoever has begun the flow (:mod:`baremetal_acc_ironic.authorization.requester`). A rule may ask for roles, user, project and
scope of that user, and for owner and lessee of the node; nothing else of the token is known later.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from baremetal_acc_ironic import compat, settings
from baremetal_acc_ironic.authorization import policy, requester
from baremetal_acc_ironic.authorization.requester import RequestContext, Requester


def checked_here() -> bool:
    """Whether the conductor checks the rules: Ironic authenticates users, and its API may not check them.

    In a rolling upgrade the API is upgraded after the conductors, so that it may still be an older one.
    """
    return requester.checked() and (not compat.api_checks_steps() or settings.ironic().pinned)


def refused(steps: Iterable[Mapping[str, Any]], who: Requester | None, node: Any) -> tuple[str, ...]:
    """Return the names of the policy rules that forbid steps on a node, sorted.

    As in Ironic's API, a step without a rule is not restricted.

    :param who: the requester; None: nobody that Keystone has authenticated, to whom no rule allows anything.
    """
    enforcer = policy.enforcer()
    enforcer.load_rules()
    names = {f'{policy.PREFIX}{s["interface"]}.{s["step"]}' for s in steps}
    ruled = {name for name in names if name in enforcer.rules or name in enforcer.registered_rules}
    return tuple(sorted(name for name in ruled if who is None or not _allows(enforcer, name, who, node)))


def _allows(enforcer: Any, rule: str, who: Requester, node: Any) -> bool:
    if len(who.roles) >= requester.MOST_ROLES:
        return False  # not all roles were stored, and a rule may forbid one of them
    credentials = {
        'user_id': who.user,
        'project_id': who.project,
        'project_name': who.project_name,
        'roles': list(who.roles),
        'system_scope': who.system_scope,
    }
    target = {**credentials, 'node.owner': node.owner, 'node.lessee': node.lessee}
    elevated = settings.ironic().elevated_project
    if elevated is not None:
        target['config.service_project_name'] = elevated
    return bool(enforcer.enforce(rule, target, credentials))


def text(rules: tuple[str, ...], who: RequestContext) -> str:
    """Return a text that says which rules forbid the steps, and to whom."""
    steps = ', '.join(rule.removeprefix(policy.PREFIX) for rule in rules)
    named = 'the policy rule' if len(rules) == 1 else 'the policy rules'
    if who.requester is None:
        by, do = f'it is unknown who has begun this {who.flow}: {who.by}', 'let a user request it whom the rules allow'
    elif len(who.requester.roles) >= requester.MOST_ROLES:
        by, do = f'{who.by} has too many roles to be checked', f'request it with fewer than {requester.MOST_ROLES} roles'
    else:
        by, do = f'{who.by} has begun this {who.flow}', 'let a user request it whom the rules allow'
    return (
        f'{steps} refused: {by}, and {named} {", ".join(rules)} must allow it ({do}, or change the rules in the policy files '
        'of the conductors)'
    )


def who_checks() -> str:
    """Return a text for the log that says which service checks the rules of steps."""
    if not requester.checked():
        return 'Policy rules of steps: checked by no service, since [DEFAULT] auth_strategy is not keystone'
    if checked_here():
        return (
            'Policy rules of steps: checked by this conductor, since the API may not check them. The API accepts a forbidden '
            'step (202), and the flow fails. Keep the policy files of [oslo_policy] on the hosts of the conductors, too'
        )
    return "Policy rules of steps: checked by Ironic's API"
