# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The oslo.policy rules of this plugin, registered in Ironic's API process by ``[api] middleware = baremetal-acc-policy``.

Since Ironic 39 the API checks ``baremetal:step:execute:<interface>.<step>`` where a rule of that name is registered. It does
not import hardware types, and a rule that is only in a policy file makes it answer 500; so the middleware registers the rules.
Where an API does not check them, the conductor does (:mod:`baremetal_acc_ironic.authorization.step_rules`). Requests for which
Ironic has no rule, or one that too many users pass, are checked by :mod:`baremetal_acc_ironic.authorization.api_guard`.
"""

from collections.abc import Iterator
from typing import Any

from ironic.common import policy
from oslo_log import log
from oslo_policy import policy as oslo_policy

from baremetal_acc_ironic import compat, ramdisk, settings

LOG = log.getLogger(__name__)

NAME = 'baremetal-acc-policy'
"""Entry point of :func:`middleware`."""

PREFIX = 'baremetal:step:execute:'
"""Of the names of Ironic's rules for steps."""

_OPERATIONS: list[Any] = [
    {'path': '/nodes/{node_ident}/states/provision', 'method': 'PUT'},
    {'path': '/runbooks', 'method': 'POST'},
    {'path': '/runbooks/{runbook_ident}', 'method': 'PATCH'},
]

_READ = f'({policy.SYSTEM_READER}) or ({policy.PROJECT_OWNER_READER}) or ({policy.PROJECT_SERVICE})'
_PROGRAM = policy.SYSTEM_MEMBER_OR_OWNER_LESSEE_ADMIN
"""For a lessee the conductor then asks the baseline (``tenants_program``), which Ironic's API does not know."""

_WRITE = policy.SYSTEM_ADMIN

ATTACH_RULE = 'baremetal_acc:node:attach_virtual_media'
DETACH_RULE = 'baremetal_acc:node:detach_virtual_media'
PASSTHRU_RULE = 'baremetal_acc:node:vendor_passthru'

_SYSTEM_MEMBER = 'role:member and system_scope:all'
"""Ironic's ``SYSTEM_MEMBER`` without services of a project (``rbac_service_role_elevated_access``)."""

NO_API_GUARD = 'no_api_guard'
"""Name under which the administrator accepts an API that takes no middleware."""

_WITHOUT_RULES = (
    'no policy rule on accelerator steps is in force, and any user who may set the provision state of a node, such as a member '
    'of the project that owns it, may release locks'
)
_WITHOUT_GUARD = (
    'members of the projects that own or lease a node may attach virtual media, and managers of them may write keys of '
    'instance_info that replace its interfaces'
)

_OF_OUR_NODES = 'Checked in addition to {}, for nodes of the hardware types redfish-acc and ipmi-acc only.'

_NODE_RULES: tuple[tuple[str, str, str, list[Any]], ...] = (
    (
        ATTACH_RULE,
        _SYSTEM_MEMBER,
        f'Attach virtual media to a node. {_OF_OUR_NODES.format("baremetal:node:vmedia:attach")}',
        [{'path': '/nodes/{node_ident}/vmedia', 'method': 'POST'}],
    ),
    (
        DETACH_RULE,
        _SYSTEM_MEMBER,
        f'Detach virtual media from a node. {_OF_OUR_NODES.format("baremetal:node:vmedia:detach")}',
        [{'path': '/nodes/{node_ident}/vmedia', 'method': 'DELETE'}],
    ),
    (
        PASSTHRU_RULE,
        _WRITE,
        'Call a method of the vendor interface of a node, such as raw commands over IPMI. '
        f'{_OF_OUR_NODES.format("baremetal:node:vendor_passthru")}',
        [
            {'path': '/nodes/{node_ident}/vendor_passthru?method={method_name}', 'method': m}
            for m in ('GET', 'POST', 'PUT', 'PATCH', 'DELETE')
        ],
    ),
)

_OUR_STEPS = (
    ('firmware.reconcile_accelerators', _WRITE, 'Bring firmware, functions, locks and placement of a node to the baseline.'),
    ('firmware.inventory_accelerators', _READ, 'Read the inventory of the accelerators of a node.'),
    ('firmware.verify_accelerators', _READ, 'Compare the accelerators of a node with the baseline.'),
    ('firmware.unlock_accelerators', _WRITE, 'Release the locks that block write paths to accelerators.'),
    ('firmware.lock_accelerators', _WRITE, 'Engage the locks that block write paths to accelerators.'),
    ('firmware.update_accelerator_firmware', _WRITE, 'Write firmware of accelerators, then engage their locks.'),
    (
        'firmware.program_accelerators',
        _PROGRAM,
        'Program functions of the catalogue into slots of accelerators. For the project that leases the node, the conductor '
        'also requires a rule of the baseline that lets tenants program (tenants_program).',
    ),
    ('firmware.publish_accelerators', _WRITE, 'Update placement to what is verified on a node.'),
    (
        'firmware.waive_accelerator_locks',
        _WRITE,
        'Waive, until a given time, write paths of accelerators that no mechanism blocks. The requester is recorded.',
    ),
    (
        'firmware.allow_host_start',
        _WRITE,
        'Allow, until a given time, the host of an unused node to be started although its locks are not proven.',
    ),
    (
        'firmware.accept_accelerator_custody',
        _WRITE,
        'Accept, until a given time, the firmware that accelerators of an unused node run, without a proven write.',
    ),
)

_RULES = (
    *_OUR_STEPS,
    ('firmware.update', _WRITE, "Update firmware by Ironic's own step. It bypasses the rules of the baseline."),
    (
        'management.update_firmware',
        _WRITE,
        'Update firmware by an older step of Ironic. It bypasses the rules of the baseline.',
    ),
    ('vendor.send_raw', _WRITE, "Send raw commands over IPMI by Ironic's own step. They can write firmware and open locks."),
    *((f'{interface}.{step}', _WRITE, what) for interface, step, what in ramdisk.STEPS),
)


def list_policies() -> Iterator[Any]:
    """Yield the rules with their defaults, for oslo.policy."""
    for step, check, description in _RULES:
        yield oslo_policy.DocumentedRuleDefault(
            name=f'{PREFIX}{step}',
            check_str=check,
            scope_types=['system', 'project'],
            description=description,
            operations=_OPERATIONS,
        )
    for name, check, description, operations in _NODE_RULES:
        yield oslo_policy.DocumentedRuleDefault(
            name=name, check_str=check, scope_types=['system', 'project'], description=description, operations=operations
        )


def middleware(app: Any) -> Any:
    """Register the rules in Ironic's API process, and install the guard that checks further requests.

    :raises DocumentError: an option of this plugin has no value.
    :raises RuntimeError: the application is not built as expected: without the guard the API must not start.
    """
    from baremetal_acc_ironic.authorization import (
        api_guard,
    )  # it imports Ironic's API, which conductors and generators of samples do not need

    settings.check_values()
    enforcer()
    api_guard.install(app)
    return app


def enforcer() -> Any:
    """Return the enforcer of Ironic's policy in this process, with the rules of this package registered."""
    found = policy.get_enforcer()
    for rule in list_policies():
        try:
            found.register_default(rule)
        except oslo_policy.DuplicatePolicyError:
            LOG.debug('%s is registered already', rule.name)
    return found


def as_lessee(task: Any) -> bool:
    """Whether the requester belongs to the project that leases the node, and not to the project that owns it."""
    project = task.context.project_id
    return project is not None and project == task.node.lessee and project != task.node.owner


def is_accepted(shortcoming: str) -> bool:
    """Whether the administrator has named one of :func:`shortcomings` in ``accepted_misconfigurations``."""
    return shortcoming in settings.guest().accepted_misconfigurations


def shortcomings() -> Iterator[tuple[str, str]]:
    """Yield settings of Ironic that disable protections of this package: a name, and a sentence that says what to do.

    A conductor does not start with one, unless the administrator has named it in ``accepted_misconfigurations``.
    """
    theirs = settings.ironic()
    if theirs.middleware is None:
        yield (
            NO_API_GUARD,
            "this Ironic's API has no option [api] middleware, so nothing of this package checks its requests: members of the "
            'projects that own or lease a node may attach virtual media, and managers of them may write keys of instance_info '
            'that replace its interfaces, until this conductor removes the keys. Use Ironic 35 (2026.1) or later',
        )
    elif NAME not in theirs.middleware:
        yield (
            'middleware',
            f'[api] middleware does not name {NAME}: {_WITHOUT_RULES if compat.api_checks_steps() else _WITHOUT_GUARD}. Add it '
            'to the configuration of the API, and to that of this conductor, which cannot read the other one',
        )
    ours = {step for step, _, _ in _OUR_STEPS}
    for flow, disallowed in theirs.disallowed_steps.items():
        banned = sorted(ours & disallowed)
        if banned:
            yield (
                f'disallow_{flow}_steps',
                f'[api] disallow_{flow}_steps names {", ".join(banned)}: Ironic leaves these steps out without a message, even '
                'those that engage or verify locks. Remove them from the option: policy rules decide who may run a step',
            )
