# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""No runbook, template, step of Ironic's own, forged name or later step lets a tenant evade the rules.

The real API runs behind the real keystonemiddleware, with a real conductor. Each attempt begins with a request that Ironic
permits the tenant.
"""

from typing import Any

import pytest
from ironic import objects
from ironic.common import states
from ironic.conductor import rpcapi, task_manager

from baremetal_acc_ironic import compat
from baremetal_acc_ironic.authorization import requester
from baremetal_acc_ironic.state import certificate
from baremetal_acc_ironic.steps.step_errors import StepFailed
from tests.ironic import releases
from tests.ironic.api import LESSEE, OWNER, VERSION, is_refused
from tests.ironic.case import GPU_OLD
from tests.ironic.roles_case import RolesCase

ADMIN, TENANT, TENANTS_MEMBER, OWNERS = 'system:admin', f'{LESSEE}:manager', f'{LESSEE}:member', f'{OWNER}:manager'
TRAIT = 'CUSTOM_ROUND'
UUID = '6b3a1f2e-0c4d-4e8f-9a5b-7c6d8e9f0a1b'
FORGED = VERSION | {
    'X-User-Id': 'f' * 32,
    'X-User-Name': 'root',
    'X-Roles': 'admin,member,reader',
    'OpenStack-System-Scope': 'all',
    'X-Identity-Status': 'Confirmed',
}

OPERATORS: tuple[dict[str, Any], ...] = (
    {'interface': 'firmware', 'step': 'unlock_accelerators', 'args': {}},
    {'interface': 'firmware', 'step': 'lock_accelerators', 'args': {}},
    {'interface': 'firmware', 'step': 'update_accelerator_firmware', 'args': {}},
    {'interface': 'firmware', 'step': 'reconcile_accelerators', 'args': {}},
    {'interface': 'firmware', 'step': 'publish_accelerators', 'args': {}},
    {'interface': 'firmware', 'step': 'update', 'args': {'settings': [{'component': 'bmc', 'url': 'http://192.0.2.1/x'}]}},
    {'interface': 'management', 'step': 'update_firmware', 'args': {'firmware_images': []}},
    {'interface': 'deploy', 'step': 'update_nvidia_nic_firmware_image', 'args': {'images': []}},
    {'interface': 'deploy', 'step': 'update_nvidia_nic_firmware_settings', 'args': {'settings': []}},
    {'interface': 'bios', 'step': 'apply_configuration', 'args': {'settings': [{'name': 'a', 'value': 'b'}]}},
)


class RoundCase(RolesCase):
    """A leased node whose cards are locked."""

    def setUp(self) -> None:
        super().setUp()
        self.lend(states.AVAILABLE)
        self.ask(ADMIN, 'PUT', self.provision, {'target': 'active'})
        assert states.ACTIVE == self.settle(), self.node.last_error
        self.machine.reset_log()

    def lend(self, state: str) -> None:
        """The node in a state, as good as new."""
        self.node.refresh()
        self.node.provision_state, self.node.target_provision_state = state, None
        self.node.maintenance, self.node.fault, self.node.last_error = False, None, None
        self.node.save()

    @property
    def provision(self) -> str:
        """Where a change of state is asked for."""
        return f'/v1/nodes/{self.node.uuid}/states/provision'

    def runbook(self, *steps: dict[str, Any], owner: str | None = LESSEE, public: bool = True) -> str:
        """A runbook that the operator has made, and has let this project use."""
        ordered = [{'order': n, **step} for n, step in enumerate(steps)]
        made = objects.Runbook(
            self.context,
            uuid=numbered_uuid(len(self.made)),
            name=f'CUSTOM_R{len(self.made)}',
            steps=ordered,
            owner=owner,
            public=public,
            disable_ramdisk=True,
            extra={},
            traits=[TRAIT],
        )
        made.create()
        self.made.append(made)
        return str(made.uuid)

    @property
    def made(self) -> list[Any]:
        """Runbooks so far."""
        return self.__dict__.setdefault('_made', [])

    def by_runbook(self, who: str, target: str, runbook: str) -> Any:
        """Let somebody run it."""
        # Before Ironic 39 a runbook is for the nodes with a trait of its name.
        objects.TraitList.create(self.context, self.node.id, [TRAIT, *(made.name for made in self.made)])
        return self.ask(who, 'PUT', self.provision, {'target': target, 'runbook': runbook})

    def untouched(self) -> bool:
        """No BMC was written to, every lock is as closed as before, and all firmware is what it was."""
        rot = [closed for name, closed in self.locks().items() if 'InbandUpdatePolicy' in name]
        return [] == self.machine.log() and rot == [True] * len(rot) and self.version('host/HGX_FW_GPU_0') == self.runs

    @property
    def runs(self) -> str:
        """What the cards run."""
        return GPU_OLD

    def users(self) -> list[tuple[str, str | None]]:
        """Event and user of our records, oldest first."""
        entries = self.dbapi.get_node_history_by_node_id(self.node.id)
        return [(e['event'], e['user']) for e in sorted(entries, key=lambda e: e['id']) if e['event_type'] == 'accelerator']


def operators_context(like: Any) -> Any:
    """As a request of the system's admin has it."""
    like.user_id, like.system_scope, like.auth_token_info = 'operator', 'all', {'token': {}}
    like.roles = ['admin', 'manager', 'member', 'reader']
    return like


def numbered_uuid(number: int) -> str:
    """Of a runbook."""
    return f'{UUID[:-2]}{number:02d}'


NO_FIRMWARE = 'format = 1\n\n[[rule]]\nname = "closed"\nblock = ["host-device"]\n'


class TestRunbooks(RoundCase):
    """Ironic asks no rule for the steps of a public runbook, whoever uses it."""

    baseline = NO_FIRMWARE

    def test_no_step_of_the_operators_comes_by_a_public_runbook(self) -> None:
        """In a service as in manual cleaning. A step that the tenant may have, before it, does not run either."""
        self.node.management_interface = 'redfish'
        self.node.save()
        harmless = {'interface': 'firmware', 'step': 'inventory_accelerators', 'args': {}}
        for step in OPERATORS:
            for target in releases.RUNBOOKS_BEGIN:
                state, failed = {
                    'service': (states.ACTIVE, states.SERVICEFAIL), 'clean': (states.MANAGEABLE, states.CLEANFAIL),
                }[target]  # fmt: skip
                self.lend(state)
                before = self.node_state.looked
                answer = self.by_runbook(TENANT, target, self.runbook(harmless, step))
                assert 202 == answer.status_int, (step, answer.text)
                self.node.refresh()
                assert failed == self.node.provision_state, step
                said = f'{step["interface"]}.{step["step"]} refused: manager-of-bbbbbbbb (project-bbbbbbbb) leases the node'
                assert said in self.node.last_error, self.node.last_error
                assert self.untouched()
                assert before == self.node_state.looked or target == 'clean'

    def test_the_operator_runs_the_same_one(self) -> None:
        """It is not the runbook that is refused."""
        runbook = self.runbook(OPERATORS[1])
        self.lend(states.MANAGEABLE)
        assert 202 == self.by_runbook(ADMIN, 'clean', runbook).status_int
        assert states.MANAGEABLE == self.settle(), self.node.last_error

    def test_a_projects_own_runbook_is_asked_for_by_the_api(self) -> None:
        """One that was made while no rule was in force, or that changed hands."""
        self.lend(states.MANAGEABLE)
        answer = self.by_runbook(TENANT, 'clean', self.runbook(OPERATORS[0], public=False))
        assert is_refused(self, answer.status_int)
        if compat.api_checks_steps():
            assert 'insufficient privileges to execute step unlock_accelerators' in answer.text
        assert self.untouched()

    def test_a_runbook_of_nobodys_is_the_operators(self) -> None:
        """Public and without an owner: Ironic lets no project use it."""
        for who in (TENANT, OWNERS):
            assert 403 == self.by_runbook(who, 'service', self.runbook(OPERATORS[0], owner=None)).status_int
        assert self.untouched()


class TestChildren(RoundCase):
    """Ironic lets a step of one node run on its child nodes, such as a DPU, and asks for the rights on the parent."""

    baseline = NO_FIRMWARE

    def test_a_step_reaches_no_child_that_is_in_no_flow(self) -> None:
        """Not even the operator's: nothing would lead the child's job to its end. The API asks our rules for it, too."""
        step = OPERATORS[0] | {'execute_on_child_nodes': True}
        body = {'target': 'service', 'service_steps': [step]}
        assert is_refused(self, self.ask(TENANT, 'PUT', self.provision, body).status_int)
        child = self.make_node(uuid=numbered_uuid(90), name='child', parent_node=self.node.uuid, provision_state=states.ACTIVE)
        operator = operators_context(self.context)
        # As Ironic's execute_step_on_child_nodes does; 39.0.0 drops such steps before it comes to that.
        said = r'node child: unlock_accelerators: .*no flow runs steps in active'
        with task_manager.acquire(operator, child.uuid, shared=False) as task, pytest.raises(StepFailed, match=said):
            task.driver.firmware.execute_service_step(task, step)
        assert self.untouched()


class TestTemplates(RoundCase):
    """Ironic asks no rule for the steps of a deploy template; the instance's traits choose it, and its admins set those."""

    baseline = NO_FIRMWARE

    def test_no_step_of_the_operators_comes_by_a_template(self) -> None:
        """Nor do locks by half: only what a deploy does by itself is done for whoever deploys."""
        by_half = {'interface': 'firmware', 'step': 'lock_accelerators', 'args': {'devices': ['GPU_0']}}
        for number, step in enumerate((OPERATORS[2], OPERATORS[5], by_half)):
            name = f'CUSTOM_T{number}'
            template = objects.DeployTemplate(
                self.context, uuid=numbered_uuid(number), name=name, steps=[step | {'priority': 115}], extra={}
            )
            template.create()
            self.lend(states.AVAILABLE)
            objects.TraitList.create(self.context, self.node.id, [name])
            changes = [{'op': 'add', 'path': '/instance_info/traits', 'value': [name]}]
            assert 200 == self.ask(TENANT, 'PATCH', f'/v1/nodes/{self.node.uuid}', changes).status_int
            answer = self.ask(TENANT, 'PUT', self.provision, {'target': 'active'})
            assert 202 == answer.status_int, answer.text
            assert states.DEPLOYFAIL == self.settle()
            assert f'firmware.{step["step"]} refused: ' in self.node.last_error
            assert self.untouched()

    def test_a_deploy_and_a_cleaning_of_their_own_lock_as_ever(self) -> None:
        """What Ironic does by itself is done for everybody; records and certificate name whose flow it was."""
        self.lend(states.AVAILABLE)
        assert 202 == self.ask(TENANT, 'PUT', self.provision, {'target': 'active'}).status_int
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert 'manager-of-bbbbbbbb (project-bbbbbbbb)' == certificate.of(self.node).requester
        assert 202 == self.ask(TENANT, 'PUT', self.provision, {'target': 'deleted'}).status_int
        assert states.AVAILABLE == self.settle(), self.node.last_error
        who = self._stand_in.token(TENANT)
        assert who is not None
        begun = [(event, user) for event, user in self.users() if ' begins: ' in event]
        assert [who['user']['id']] * 2 == [user for _, user in begun[-2:]]
        assert all('requested by manager-of-bbbbbbbb (project-bbbbbbbb)' in event for event, _ in begun[-2:])


class TestBios(RoundCase):
    """Some locks of whole machines are settings of the BIOS, and Ironic lets the tenant's admins change these in a service."""

    baseline = NO_FIRMWARE

    def test_the_tenant_changes_no_setting_by_the_bmc(self) -> None:
        """Ironic's API lets it through; its node is not asked."""
        body = {'target': 'service', 'service_steps': [OPERATORS[-1]]}
        assert 202 == self.ask(TENANT, 'PUT', self.provision, body).status_int
        assert states.SERVICEFAIL == self.settle()
        assert 'bios.apply_configuration refused: ' in self.node.last_error
        assert self.untouched()


class TestNames(RoundCase):
    """Whoever is not vouched for is nobody."""

    baseline = NO_FIRMWARE

    @pytest.fixture(autouse=True)
    def _heartbeats(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._contexts: list[Any] = []
        monkeypatch.setattr(
            rpcapi.ConductorAPI, 'heartbeat', lambda _self, context, *_args, **_given: self._contexts.append(context)
        )

    def test_a_forged_name_on_a_public_path_is_nobodys(self) -> None:
        """Ironic takes it for the user of the request, and hands it to the conductor. Nothing of it is believed."""
        body = {'callback_url': 'https://192.0.2.1', 'agent_version': '9.9', 'agent_token': 'x'}
        self.app.post_json(f'/v1/heartbeat/{self.node.uuid}', body, headers=FORGED, status=202)
        [context] = self._contexts
        assert ('f' * 32, 'all') == (context.user_id, context.system_scope)
        assert requester.of(context) is None
        asked = requester.asked(context, requester.Flow.SERVICE, 'service')
        assert 'unknown (service, requested without a token)' == asked.by
        assert 'unknown' == asked.user

    def test_forged_headers_beside_a_token_count_for_nothing(self) -> None:
        """keystonemiddleware takes them away."""
        body = {'target': 'service', 'service_steps': [OPERATORS[0]]}
        for token in (TENANT, TENANTS_MEMBER, 'nobody'):
            headers = FORGED | {'X-Auth-Token': token}
            status = self.app.put_json(self.provision, body, headers=headers, expect_errors=True).status_int
            assert 401 == status if token == 'nobody' else status == 403 or is_refused(self, status)
        assert self.untouched()

    def test_what_nobody_can_be_named_for_is_refused(self) -> None:
        """The conductor is asked without the API, or by one that asks no Keystone."""
        self.context.user_id, self.context.system_scope = 'f' * 32, 'all'
        self.serve('unlock_accelerators')
        assert states.SERVICEFAIL == self.settle()
        assert 'it is unknown who has begun this service: unknown (' in self.node.last_error
        assert 'auth_strategy' in self.node.last_error
        assert self.untouched()

    def test_a_later_step_is_still_the_operators(self) -> None:
        """It runs in a periodic, which has no user; records and job name who asked, and it is not refused."""
        again = OPERATORS[1] | {'args': {'devices': [self.gpu(0)]}}
        body = {'target': 'service', 'service_steps': [OPERATORS[1], again]}
        assert 202 == self.ask(ADMIN, 'PUT', self.provision, body).status_int
        assert states.ACTIVE == self.settle(), self.node.last_error
        begun = [event for event, _ in self.users() if 'lock_accelerators begins' in event][-2:]
        assert ['requested by admin-of-system (system)'] * 2 == [event.rsplit(', ', 1)[1] for event in begun]


class TestWithoutTheMiddleware(RoundCase):
    """The line in [api] middleware was forgotten: the API asks no rule of ours."""

    baseline = NO_FIRMWARE
    middleware = []  # noqa: RUF012

    def test_the_conductor_refuses_the_tenant_still(self) -> None:
        """But not the owner: that is what the line is for, where the API checks the rules."""
        body = {'target': 'service', 'service_steps': [OPERATORS[0]]}
        assert 202 == self.ask(TENANT, 'PUT', self.provision, body).status_int
        assert states.SERVICEFAIL == self.settle()
        assert self.untouched()
        self.lend(states.ACTIVE)
        assert 202 == self.ask(OWNERS, 'PUT', self.provision, body).status_int
        if compat.api_checks_steps():
            assert states.ACTIVE == self.settle(), self.node.last_error
            assert not self.untouched()
        else:
            assert states.SERVICEFAIL == self.settle()
            assert self.untouched()


class TestTenantsProgram(RoundCase):
    """Functions are the tenant's where a rule says so."""

    product = 'acc-server'
    parameters = {}  # noqa: RUF012
    baseline = NO_FIRMWARE.replace('block', 'tenants_program = true\nblock')

    def program(self, who: str, **functions: str) -> str:
        """The state after somebody has asked for functions."""
        step = {'interface': 'firmware', 'step': 'program_accelerators', 'args': {'functions': functions}}
        answer = self.ask(who, 'PUT', self.provision, {'target': 'service', 'service_steps': [step]})
        assert 202 == answer.status_int, answer.text
        return self.settle()

    def test_a_tenant_programs_where_a_rule_says_so_and_nowhere_else(self) -> None:
        """The slot holds what was asked for; without the rule nothing is written, and the answer names the rule."""
        assert states.ACTIVE == self.program(TENANT, Slot0='aes'), self.node.last_error
        assert self.machine.log()
        begun = next(event for event, _ in self.users() if 'program_accelerators begins' in event)
        assert 'requested by manager-of-bbbbbbbb (project-bbbbbbbb)' in begun
        path = self._folder / 'baseline.toml'
        path.write_text(path.read_text().replace('= true', '= false'))
        self.machine.reset_log()
        assert states.SERVICEFAIL == self.program(TENANT, Slot0='gzip')
        assert 'tenants may not program it (tenants_program, rule closed)' in self.node.last_error
        assert [] == self.machine.log()
        self.lend(states.ACTIVE)
        assert states.ACTIVE == self.program(OWNERS, Slot0='gzip'), self.node.last_error
