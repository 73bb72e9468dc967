# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What Ironic's API lets each role do with our steps, and what it shows; the real application, with our middleware."""

from typing import Any

import pytest
from ironic.common import states
from keystonemiddleware import auth_token

from baremetal_acc_ironic import compat
from tests.ironic.api import LESSEE, OWNER, REFUSAL, VERSION, configure_middleware, is_refused, with_api
from tests.ironic.case import IronicCase


def who(roles: str, *, project: str | None = None) -> dict[str, str]:
    """Headers as keystonemiddleware would set them: of the whole system, or of a project."""
    scope = {'OpenStack-System-Scope': 'all'} if project is None else {'X-Project-ID': project, 'X-Project-Name': 'p'}
    return VERSION | {'X-Roles': roles, 'X-User-Id': 'c' * 32, 'X-User-Name': 'someone', 'X-Auth-Token': 't'} | scope


SYSTEM_ADMIN = who('admin,member,reader')
SYSTEM_MEMBER = who('member,reader')
OWNER_ADMIN = who('admin,manager,member,reader', project=OWNER)
OWNER_MEMBER = who('member,reader', project=OWNER)
LESSEE_ADMIN = who('admin,manager,member,reader', project=LESSEE)
LESSEE_MEMBER = who('member,reader', project=LESSEE)


class ApiCase(IronicCase):
    """An active node with owner and lessee, and the API in front of the conductor."""

    middleware = ['baremetal-acc-policy']  # noqa: RUF012

    @pytest.fixture(autouse=True)
    def _no_keystone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def vouch(_: Any, request: Any) -> None:
            request.environ['keystone.token_info'] = {'token': {}}

        monkeypatch.setattr(auth_token.AuthProtocol, 'process_request', vouch)

    def setUp(self) -> None:
        super().setUp()
        self.config(auth_strategy='keystone')
        # What the tests ask the conductor for directly, the operator asks for.
        self.context.user_id, self.context.system_scope, self.context.auth_token_info = 'operator', 'all', {'token': {}}
        self.context.roles = ['admin', 'manager', 'member', 'reader']
        configure_middleware(self, self.middleware)
        self.app = with_api(self)

    def cleaned_first(self) -> None:
        """An operator enrols the node and has it cleaned before any project owns or leases it."""
        node = self.node
        projects, state = (node.owner, node.lessee), node.provision_state
        node.owner = node.lessee = None
        node.save()
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        (node.owner, node.lessee), node.provision_state = projects, state
        node.save()

    def cleaned(self, *steps: str) -> str:
        """The state after cleaning, whatever there was before."""
        self.clear()
        self.clean(*steps)
        return self.settle()

    def serve_as(self, headers: dict[str, str], step: str, args: dict[str, Any] | None = None) -> int:
        """Ask for a service step; the status of the answer, or 403 where the conductor has refused it instead of the API."""
        wanted = {'interface': 'firmware', 'step': step} | ({'args': args} if args else {})
        url = f'/v1/nodes/{self.node.uuid}/states/provision'
        body = {'target': 'service', 'service_steps': [wanted]}
        answer = self.app.put_json(url, body, headers=headers, expect_errors=True)
        self.said, status = answer.text, answer.status_int
        self.node.refresh()
        last_error = self.node.last_error
        if is_refused(self, status):
            self.said, status = self.said or last_error, 403
        self.node.provision_state, self.node.maintenance, self.node.fault = states.ACTIVE, False, None
        self.node.driver_internal_info = {}
        self.node.save()
        return int(status)


class TestRights(ApiCase):
    """Only the operator's role releases a lock or writes firmware; programming is a right of its own, and so is reading."""

    def test_a_tenants_admin_may_not_touch_firmware_or_locks(self) -> None:
        """Ironic alone would let the admin of the project that leases the node run any service step."""
        for step in ('unlock_accelerators', 'lock_accelerators', 'update_accelerator_firmware', 'reconcile_accelerators'):
            assert 403 == self.serve_as(LESSEE_ADMIN, step), step
            assert REFUSAL.format(step) in self.said
            assert 403 == self.serve_as(OWNER_ADMIN, step), step
            assert 403 == self.serve_as(SYSTEM_MEMBER, step), step
        assert [] == self.machine.log()

    def test_ironics_own_firmware_steps_are_closed_too(self) -> None:
        """They would go round our locks and rules."""
        assert 403 == self.serve_as(LESSEE_ADMIN, 'update', {'settings': [{'component': 'bmc', 'url': 'http://x'}]})
        assert REFUSAL.format('update') in self.said

    def test_so_are_its_raw_commands_of_ipmi(self) -> None:
        """Ironic disallows that step by default, to everybody; who allows it allows it to the operator."""
        self.config(group='api', disallow_service_steps=[])
        wanted = {'interface': 'vendor', 'step': 'send_raw', 'args': {'raw_bytes': '0x06 0x02'}}
        body = {'target': 'service', 'service_steps': [wanted]}
        for who_asks, allowed in ((LESSEE_ADMIN, False), (OWNER_ADMIN, False), (SYSTEM_MEMBER, False), (SYSTEM_ADMIN, True)):
            answer = self.app.put_json(
                f'/v1/nodes/{self.node.uuid}/states/provision', body, headers=who_asks, expect_errors=True
            )
            assert allowed is not is_refused(self, answer.status_int), answer.text
            assert answer.status_int == 202 or not allowed

    def test_the_system_admin_may(self) -> None:
        """And the job says who it was."""
        assert 202 == self.serve_as(SYSTEM_ADMIN, 'verify_accelerators')
        assert 202 == self.serve_as(SYSTEM_ADMIN, 'lock_accelerators')

    def test_programming_is_a_right_of_its_own(self) -> None:
        """The owner's admin has it, the owner's member has not. Of the tenant's admin the conductor asks the baseline."""
        assert 202 == self.serve_as(OWNER_ADMIN, 'program_accelerators')
        assert 202 == self.serve_as(SYSTEM_MEMBER, 'program_accelerators')
        assert 403 == self.serve_as(OWNER_MEMBER, 'program_accelerators')
        assert 202 == self.serve_as(LESSEE_ADMIN, 'program_accelerators')
        assert 403 == self.serve_as(LESSEE_MEMBER, 'program_accelerators')

    def test_reading_is_a_right_of_its_own(self) -> None:
        """Whoever may set the state of a node of theirs may take stock of it; a tenant may not."""
        assert 202 == self.serve_as(OWNER_MEMBER, 'inventory_accelerators')
        assert 403 == self.serve_as(LESSEE_ADMIN, 'inventory_accelerators')


class TestWithoutTheMiddleware(ApiCase):
    """The trap that the warning at start is about, where the API checks the rules of steps."""

    middleware = []  # noqa: RUF012

    def test_a_tenants_admin_may_release_locks(self) -> None:
        """So the line in [api] middleware is not optional."""
        assert (202 if compat.api_checks_steps() else 403) == self.serve_as(LESSEE_ADMIN, 'unlock_accelerators')


class TestSecrets(ApiCase):
    """Nothing that the API shows holds a password."""

    product = 'acc-server'

    def test_passwords_of_further_bmcs_are_masked(self) -> None:
        """acc_bmcs is a dictionary, so Ironic masks what lies in it."""
        secret = self.machine.bmcs['dpu'].password
        shown = self.app.get(f'/v1/nodes/{self.node.uuid}', headers=SYSTEM_ADMIN).json
        assert '******' == shown['driver_info']['acc_bmcs']['dpu']['password']
        assert self.machine.bmcs['dpu'].username == shown['driver_info']['acc_bmcs']['dpu']['username']
        assert secret not in str(shown)

    def test_the_key_of_a_further_bmc_that_speaks_ipmi_is_masked_too(self) -> None:
        """By its name. Of a host's ipmi_hex_kg_key Ironic shows all: that name is Ironic's own."""
        login = {'username': 'acc', 'password': 'hunter2hunter2'}
        other = {'address': 'ipmi://192.0.2.1', 'secret_hex_kg_key': '0b' * 20} | login
        self.node.driver_info = self.node.driver_info | {'acc_bmcs': {'other': other}}
        self.node.save()
        shown = self.app.get(f'/v1/nodes/{self.node.uuid}', headers=SYSTEM_ADMIN).json
        assert '******' == shown['driver_info']['acc_bmcs']['other']['secret_hex_kg_key']
        assert '0b0b' not in str(shown)

    def test_what_a_job_leaves_behind_holds_no_password(self) -> None:
        """Neither the key that we keep, nor the history, nor the inventory."""
        self.node.provision_state = states.AVAILABLE
        self.node.save()
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        text = str(self.node.driver_internal_info) + str(self.history()) + str(self.node.last_error)
        with_inventory = text + self.app.get(f'/v1/nodes/{self.node.uuid}/inventory', headers=SYSTEM_ADMIN).text
        for bmc in self.machine.bmcs.values():
            assert bmc.password not in with_inventory
