# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The table of what tenants may write is complete, agrees with Ironic's API and with our code, and changes no rule."""

import ast
from collections import defaultdict
from dataclasses import replace
from typing import Any

from ironic.api.controllers.v1 import node as node_api
from ironic.common import policy, states
from ironic.conductor import task_manager

from baremetal_acc.policy.baseline_rules import NodeFacts
from baremetal_acc.pools import ironic as fleet
from baremetal_acc_ironic.state.target import target
from tests.conftest import TREE
from tests.ironic import tenant_fields
from tests.ironic.api import LESSEE, OWNER
from tests.ironic.roles_case import STRANGER
from tests.ironic.tenant_fields import Right
from tests.ironic.tenant_readers import READERS, UNMOVED
from tests.ironic.test_api import LESSEE_ADMIN, OWNER_ADMIN, ApiCase
from tests.ironic.test_roles import TableCase, edit

UUID = '5d7cd2ca-9b0f-4f9e-a5b4-3c1f8e0d2b6a'
VALID: dict[str, Any] = {
    'automated_clean = true': True,
    'automated_clean = false': False,
    'chassis_uuid': UUID,
    'disable_power_off': True,
    'driver': 'redfish-acc',
    'driver_info': {},
    'driver_info/acc_bmcs': {},
    'driver_info/acc_parallel_updates': 2,
    'extra': {'resource_class': 'lab'},
    'instance_info': {'x': 'y'},
    'instance_info/traits': ['CUSTOM_X'],
    'instance_uuid': UUID,
    'lessee': STRANGER,
    'maintenance': True,
    'name': 'node-2',
    'network_data': {'links': [], 'networks': [], 'services': []},
    'owner': STRANGER,
    'parent_node': UUID,
    'properties': {'cpu_arch': 'aarch64'},
    'properties/capabilities': 'accelerators:9',
    'protected': True,
    'retired': True,
    **{f'{kind}_interface': 'redfish-acc' for kind in ('firmware', 'inspect', 'power')},
    **{f'{kind}_interface': f'no-{kind}' for kind in ('bios', 'console', 'raid', 'rescue', 'vendor')},
    **{f'{kind}_interface': 'noop' for kind in ('deploy', 'management', 'network', 'storage')},
    'boot_interface': 'fake',
}
"""A value that Ironic takes, of fields that take no text."""

STATES = {'/protected': states.ACTIVE, '/retired': states.MANAGEABLE, '': states.AVAILABLE}
"""In which a node may be given a field, by what the field begins with."""

REFUSED_BY_US = {'/instance_info/firmware_interface'}
"""What our API middleware lets only the system scope write, whatever Ironic's policy says."""


def request(right: Right) -> tuple[str, str, Any]:
    """A patch of the field that a line of the table is about."""
    return edit(right.what.split(' ')[0], VALID.get(right.what[1:], 'x'))


class TestFields(TableCase):
    """The table itself."""

    def rights(self) -> tuple[Right, ...]:
        """All lines, and those that neither project may."""
        return tenant_fields.rights()

    def test_the_page_says_what_was_found(self) -> None:
        """Run nox -s tenant-fields and look at the difference."""
        assert tenant_fields.page(self.rights(), READERS) == tenant_fields.PAGE.read_text(encoding='utf-8')

    def test_every_line_has_a_reader_and_every_reader_a_line(self) -> None:
        """A field or rule that a release of Ironic adds has to be thought about."""
        assert {r.key for r in self.rights() if r.anybodys} == set(READERS)

    def test_no_field_and_no_rule_is_left_out(self) -> None:
        """Of the fields that a patch may name, and of the rules that Ironic has for changes."""
        found = self.rights()
        assert {r.what[1:].split(' ')[0].split('/')[0] for r in found if r.what[0] == '/'} == set(node_api.PATCH_ALLOWED_FIELDS)
        writes = {
            rule.name
            for rule in policy.list_policies()
            if any(o['method'] in tenant_fields.WRITES for o in getattr(rule, 'operations', ()))
        }
        # Asked beside the rule for owner, of an active node; it is narrower than that.
        assert {'baremetal:node:update_owner_provisioned'} == writes - {r.rule for r in found}

    def test_ironics_api_lets_through_what_the_table_says(self) -> None:
        """Every role tries every field behind the real keystonemiddleware; what passes ends at the conductor's door."""
        self.in_state(states.MANAGEABLE)
        told = {}
        for right in (r for r in self.rights() if r.what[0] == '/' and r.what not in REFUSED_BY_US):
            for project, roles in ((OWNER, right.owner), (LESSEE, right.lessee)):
                let = tuple(role for role in tenant_fields.IMPLIED if self.let(f'{project}:{role}', request(right)) == 'yes')
                if let != roles:
                    told[right.what, project] = let, roles
        assert {} == told

    def test_our_code_reads_no_other_field(self) -> None:
        """Whoever reads a field of a node in a further module says in the table why that is safe."""
        wanted = set(node_api.PATCH_ALLOWED_FIELDS)
        found = defaultdict(set)
        for path in (TREE / 'interfaces').rglob('*.py'):
            for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
                if (
                    isinstance(node, ast.Attribute)
                    and node.attr in wanted
                    and ast.unparse(node.value).endswith(('node', 'child'))
                ):
                    found[node.attr].add(path.stem)
        for name in wanted & set(fleet.FIELDS):
            found[name].add('pools')
        declared = {
            key[1:].split(' ')[0].split('/')[0]: set(reader.modules) for key, reader in READERS.items() if key[0] == '/'
        }
        ours = {'owner', 'parent_node', 'disable_power_off'}
        assert declared == {name: found[name] for name in declared}
        assert ours == {name for name in found if name not in declared}, 'what neither project may write'

    def test_the_tests_that_show_it_are_there(self) -> None:
        """By file, class and name."""
        missing = [(key, shown) for key, reader in READERS.items() for shown in reader.shown if not _is_there(shown)]
        assert [] == missing


def _is_there(shown: str) -> bool:
    file, *names = shown.split('::')
    body: list[Any] = ast.parse((TREE / file).read_text(encoding='utf-8')).body
    for name in names:
        found = [n for n in body if isinstance(n, ast.ClassDef | ast.FunctionDef) and n.name == name]
        if not found:
            return False
        body = found[0].body
    return True


class TestUnmoved(ApiCase):
    """A node that an operator has cleaned before it had owner and lessee."""

    parameters = {'gpus': 1}  # noqa: RUF012

    def setUp(self) -> None:
        super().setUp()
        self.cleaned_first()
        self.node.provision_state = states.AVAILABLE
        self.node.save()

    def goes_by(self) -> tuple[NodeFacts, Any]:
        """What rules can ask of the node, and where its BMCs are."""
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            found = target(task)
        return found.node, [(b.name, b.address, b.system, b.verify_ca) for b in found.bmcs]

    def test_what_rules_go_by_stays(self) -> None:
        """Whatever admins of the two projects write, by the API and the conductor. A name is told, and no rule asks for it."""
        facts, bmcs = self.goes_by()
        tried = 0
        for right in (r for r in tenant_fields.rights() if r.anybodys and UNMOVED in READERS[r.key].shown):
            if right.what == '/driver_info':
                continue  # without it there is no BMC at all; its parts are tried one by one
            for headers in [OWNER_ADMIN] * bool(right.owner) + [LESSEE_ADMIN] * bool(right.lessee):
                before = {name: getattr(self.node, name) for name in node_api.PATCH_ALLOWED_FIELDS if name != 'chassis_uuid'}
                [self.node.provision_state] = [s for what, s in STATES.items() if right.what.startswith(what)][:1]
                self.node.protected, self.node.retired = (right.what == f'/{name}_reason' for name in ('protected', 'retired'))
                self.node.save()
                _, url, body = request(right)
                answer = self.app.patch_json(url.format(node=self.node.uuid), body, headers=headers, expect_errors=True)
                assert 200 == answer.status_int, f'{right.what}: {answer.text}'
                expected = replace(facts, name='node-2') if right.what == '/name' else facts
                assert (expected, bmcs) == self.goes_by(), right.what
                tried += 1
                self.node.refresh()
                for name, value in before.items():
                    setattr(self.node, name, value)
                self.node.save()
        assert tried > 20
