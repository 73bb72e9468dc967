# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The page doc/source/reference/tenant_fields.rst: what owner and lessee of a node may write in Ironic, and which of our
modules read it.

Ironic itself says who may write what: its API code names the policy rule of a patch, its registry the rule of a request, and
its enforcer, with the default policy and the credentials of each role, whether the rule passes. Which of our modules read a
field, and why that is safe, is in :mod:`tests.ironic.tenant_readers`. ``nox -s tenant-fields`` writes the page.
"""

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from ironic.api.controllers.v1 import node as node_api
from ironic.common import context, exception, policy
from ironic.conf import CONF
from oslo_policy.policy import InvalidScope

from tests.ironic.tenant_readers import READERS, Reader

PAGE = Path(__file__).parents[2] / 'doc' / 'source' / 'reference' / 'tenant_fields.rst'

OWNER, LESSEE = 'a' * 32, 'b' * 32

IMPLIED: Mapping[str, tuple[str, ...]] = {
    'member': ('member', 'reader'),
    'manager': ('manager', 'member', 'reader'),
    'admin': ('admin', 'manager', 'member', 'reader'),
    'service': ('service',),
}
"""The roles of a token, by the one that was given: Keystone adds those that it implies."""

WRITES = frozenset({'POST', 'PUT', 'PATCH', 'DELETE'})
NODE = '/nodes/{node_ident}'

VALUES: Mapping[str, tuple[Any, ...]] = {'automated_clean': (True, False)}
"""Values of a field that need different rules; others need the same, whatever the value."""

PARTS: Mapping[str, tuple[str, ...]] = {
    'driver_info': (
        'acc_bmcs',
        'acc_exposure',
        'acc_parallel_updates',
        'redfish_address',
        'ipmi_address',
        'deploy_ramdisk',
        'kernel_append_params',
    ),
    'instance_info': ('traits', 'kernel_append_params', 'firmware_interface'),
    'properties': ('capabilities',),
}
"""Keys within a field that need a word of their own. The line of the field itself is for all others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """What somebody of the owner's or the lessee's project may write.

    :ivar what: a field as a JSON pointer, or requests.
    :ivar key: by which :data:`READERS` has it: the field's pointer, or the rule.
    :ivar owner: roles in the owner's project that may; ``lessee`` likewise.
    """

    what: str
    key: str
    rule: str
    owner: tuple[str, ...]
    lessee: tuple[str, ...]

    @property
    def anybodys(self) -> bool:
        """One of the two projects may."""
        return bool(self.owner or self.lessee)


def needed(path: str, value: Any) -> str:
    """The rule that Ironic's API asks for a patch of a field."""
    asked: list[str] = []
    with mock.patch.object(
        node_api.api_utils, 'check_multiple_node_policies_and_retrieve', side_effect=lambda rules, *_, **__: asked.extend(rules)
    ):
        node_api.NodesController._authorize_patch_and_get_node(None, 'node', [{'op': 'add', 'path': path, 'value': value}])
    [rule] = asked
    return rule


def may(rule: str, project: str, role: str) -> bool:
    """Whether a role in a project passes a rule, on a node of ours, or on an allocation or a runbook of its own."""
    who = context.RequestContext(user_id='c' * 32, project_id=project, roles=list(IMPLIED[role]))
    target = dict(who.to_policy_values()) | {
        'node.owner': OWNER,
        'node.lessee': LESSEE,
        'allocation.owner': project,
        'runbook.owner': project,
    }
    try:
        policy.authorize(rule, target, who)
    except (exception.HTTPForbidden, InvalidScope):
        return False
    return True


def right(what: str, key: str, rule: str) -> Right:
    """Who may."""
    owner, lessee = (tuple(role for role in IMPLIED if may(rule, project, role)) for project in (OWNER, LESSEE))
    return Right(what=what, key=key, rule=rule, owner=owner, lessee=lessee)


def fields() -> Iterator[Right]:
    """Every field of a node that a patch may name, whoever may write it."""
    for name in sorted(node_api.PATCH_ALLOWED_FIELDS):
        values = VALUES.get(name, ('x',))
        for value in values:
            pointer = f'/{name}' if len(values) == 1 else f'/{name} = {str(value).lower()}'
            yield right(pointer, pointer, needed(f'/{name}', value))
        for part in PARTS.get(name, ()):
            pointer = f'/{name}/{part}'
            yield right(pointer, pointer, needed(pointer, 'x'))


def requests() -> Iterator[Right]:
    """Every other rule of Ironic for a request that changes something."""
    for rule in policy.list_policies():
        asked = [f'{o["method"]} {o["path"]}' for o in getattr(rule, 'operations', ()) if o['method'] in WRITES]
        asked = [one for one in asked if one != f'PATCH {NODE}']
        if asked:
            yield right(', '.join(asked), rule.name, rule.name)


def rights() -> tuple[Right, ...]:
    """All lines of the table, and those that neither project may."""
    with fresh_policy():
        return (*fields(), *requests())


class fresh_policy:  # noqa: N801
    """Ironic's default policy, whatever was read before."""

    def __enter__(self) -> None:
        self._before = policy._ENFORCER
        policy._ENFORCER = None
        policy.init_enforcer()

    def __exit__(self, *_: object) -> None:
        policy._ENFORCER = self._before


# ---------------------------------------------------------------------------------------------------------------------- page


def page(found: tuple[Right, ...], readers: Mapping[str, Reader]) -> str:
    """The whole page."""
    ours = [r for r in found if r.anybodys]
    fields = [r for r in ours if r.what.startswith('/')]
    others = [r for r in ours if not r.what.startswith('/')]
    tables = (*_table('Fields of a node', fields, readers), '', *_table('Traits, sub-resources and requests', others, readers))
    return '\n'.join([*_top(found), *tables, ''])


_INTRODUCTION = (
    'What the projects that **own** or **lease** a node may change about it in Ironic 39, by the default policy, in'
    ' the roles member, manager, admin and service. For each field and request the page says what our code does '
    "with it, and why that is safe, or what is left to you. The roles are those that Ironic's own policy enforcer "
    "lets pass. Tests compare the page with the enforcer, with what Ironic's API accepts, and with what our code "
    'reads.'
)
_TAKEN = (
    '*Accepted* means that an operator has accepted the value. An operator is a user '
    'who belongs to neither of the two projects. An operator who runs ``reconcile_accelerators`` in manual cleaning'
    ' or service accepts all values that the node shows. That is meant by *by hand*. Some values are also accepted '
    'when an operator begins any other flow: class and traits by the first one, if no project owns or leases the '
    'node or did so before; ramdisk and BMC addresses by each one, while the node has no owner and never had one; '
    'BMC addresses by the first one in any case. The exposure is accepted by hand only. See :ref:`taken`.'
)


def _top(found: tuple[Right, ...]) -> Iterator[str]:
    yield ".. Written by nox -s tenant-fields, from Ironic's policy and tests/ironic/tenant_readers.py. Do not edit."
    yield ''
    yield 'What the owner and the lessee of a node may write in Ironic'
    yield '==========================================================='
    yield ''
    yield from _text(_INTRODUCTION)
    yield from _text(_TAKEN)
    closed = [f'``{r.what}``' for r in found if r.what.startswith('/') and not r.anybodys]
    yield from _text(
        f'Ironic has these further fields that can be changed, but by neither of the two projects: {", ".join(closed)}.'
    )


def _text(text: str) -> Iterator[str]:
    yield from textwrap.wrap(text, 127, break_long_words=False, break_on_hyphens=False)
    yield ''


def _table(title: str, rows: list[Right], readers: Mapping[str, Reader]) -> Iterator[str]:
    yield title
    yield '-' * len(title)
    yield ''
    yield '.. list-table::'
    yield '   :header-rows: 1'
    yield '   :widths: 22 20 13 13 32'
    yield ''
    yield from _row(
        ['field or request', 'rule of Ironic', 'owner', 'lessee', 'what our code does with it, and why that is safe']
    )
    for row in rows:
        reader = readers[row.key]
        yield from _row(
            [
                ', '.join(f'``{one}``' for one in row.what.split(', ')),
                f'``{row.rule}``',
                ', '.join(row.owner) or '–',
                ', '.join(row.lessee) or '–',
                reader.why,
            ]
        )


def _row(cells: list[str]) -> Iterator[str]:
    for number, cell in enumerate(cells):
        first, rest = ('   * - ', '       ') if number == 0 else ('     - ', '       ')
        lines = textwrap.wrap(cell, 120, break_long_words=False, break_on_hyphens=False)
        yield first + lines[0]
        yield from (rest + line for line in lines[1:])


def main() -> None:
    """Write the page."""
    CONF([], project='ironic', default_config_files=[], default_config_dirs=[])
    PAGE.write_text(page(rights(), READERS), encoding='utf-8')


if __name__ == '__main__':
    main()
