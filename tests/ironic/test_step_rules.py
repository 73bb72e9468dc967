# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Where Ironic's API does not check the policy rules of steps, the conductor does, for whoever has begun the flow.

The real API runs behind the real keystonemiddleware, with a real conductor and an emulated machine. On an Ironic whose API
checks the rules, the rules are taken out of the API, and the conductor is told that its API does not check them.
"""

from pathlib import Path
from typing import Any

import pytest
from ironic import objects
from ironic.common import exception, release_mappings, states
from ironic.conductor import rpcapi, task_manager
from oslo_config import cfg
from oslo_upgradecheck.upgradecheck import Code

from baremetal_acc_ironic import compat, status
from baremetal_acc_ironic.authorization import policy, requester, step_rules
from baremetal_acc_ironic.authorization.requester import Requester
from baremetal_acc_ironic.firmware import RedfishAccFirmware
from tests.ironic.api import LESSEE, OWNER
from tests.ironic.keystone import SERVICE
from tests.ironic.test_ways_round import FORGED, NO_FIRMWARE, OPERATORS, TRAIT, RoundCase, numbered_uuid

ADMIN, MEMBER, OWNERS = 'system:admin', 'system:member', f'{OWNER}:manager'
TENANT = f'{LESSEE}:manager'
UNLOCK, LOCK = OPERATORS[:2]
VERIFY: dict[str, Any] = {'interface': 'firmware', 'step': 'verify_accelerators', 'args': {}}
INVENTORY: dict[str, Any] = {'interface': 'firmware', 'step': 'inventory_accelerators', 'args': {}}
RULE = 'baremetal:step:execute:firmware.unlock_accelerators'


class AskingCase(RoundCase):
    """A leased node, in front of it an API that checks no rule of a step."""

    baseline = NO_FIRMWARE
    middleware = []  # noqa: RUF012

    @pytest.fixture(autouse=True)
    def _api_checks_no_step(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(compat, 'api_checks_steps', lambda: False)
        self._monkeypatch = monkeypatch
        # Ironic has one enforcer in a process, and finds its rules there: an older API does not look for them.
        monkeypatch.setattr('ironic.conductor.steps.validate_user_steps_policy', lambda *_, **__: None, raising=False)

    def setUp(self) -> None:
        """Not deployed: nothing is to be done on the machine, whatever the state of its locks."""
        super(RoundCase, self).setUp()
        self.machine.reset_log()

    def untouched(self) -> bool:
        """No BMC was written to."""
        return [] == self.machine.log()

    def begin(self, who: str, flow: str, *steps: dict[str, Any]) -> str:
        """The state after somebody has asked for steps, which the API has accepted."""
        start = {'service': states.ACTIVE, 'clean': states.MANAGEABLE, 'active': states.AVAILABLE, 'rebuild': states.ACTIVE}
        self.lend(start[flow])
        self.node.instance_info = {'image_source': 'http://192.0.2.1/x'}  # without it Ironic's rebuild fails by itself
        self.node.save()
        self.machine.reset_log()
        name = 'deploy_steps' if flow in ('active', 'rebuild') else f'{flow}_steps'
        answer = self.ask(who, 'PUT', self.provision, {'target': flow, name: list(steps)})
        assert 202 == answer.status_int, answer.text
        return self.settle()

    def is_refused(self, step: str = 'firmware.unlock_accelerators') -> bool:
        """The reason is in the last error and in the history; nothing was done."""
        said = f'{step} refused: '
        event = self.history()[-1]
        return said in self.node.last_error and said in event and self.untouched()


class TestRequests(AskingCase):
    """Steps that a request names."""

    def test_a_system_member_opens_no_lock_in_any_flow(self) -> None:
        """Nor does a manager of the owner. The answer is 202, and the flow fails before its first step."""
        failed = {
            'service': states.SERVICEFAIL, 'clean': states.CLEANFAIL, 'active': states.DEPLOYFAIL, 'rebuild': states.DEPLOYFAIL,
        }  # fmt: skip
        for who, flow in (*((MEMBER, flow) for flow in failed), (OWNERS, 'service')):
            more = {'priority': 105} if flow in ('active', 'rebuild') else {}
            assert failed[flow] == self.begin(who, flow, INVENTORY | more, UNLOCK | more), (who, flow)
            assert self.is_refused(), (who, flow, self.node.last_error)
            assert RULE in self.node.last_error

    def test_whoever_the_rule_allows_runs_the_step(self) -> None:
        """The operator's admin; and a member of the owner's project what its rule gives it."""
        assert states.ACTIVE == self.begin(ADMIN, 'service', LOCK), self.node.last_error
        assert not self.untouched()
        assert states.ACTIVE == self.begin(f'{OWNER}:member', 'service', INVENTORY), self.node.last_error

    def test_ironics_own_steps_that_write_firmware_are_refused_too(self) -> None:
        """Whatever interface has them."""
        self.node.management_interface = 'redfish'
        self.node.save()
        assert states.SERVICEFAIL == self.begin(MEMBER, 'service', INVENTORY, *OPERATORS[5:9])
        names = sorted(f'{step["interface"]}.{step["step"]}' for step in OPERATORS[5:9])
        assert self.is_refused(', '.join(names)), self.node.last_error

    def test_no_lock_is_left_out_of_a_deploy_by_a_priority_of_0(self) -> None:
        """The API of Ironic 39 checks the rule of such a step as well."""
        assert states.DEPLOYFAIL == self.begin(MEMBER, 'active', LOCK | {'priority': 0})
        assert self.is_refused('firmware.lock_accelerators')

    def test_the_project_that_leases_the_node_is_refused_as_before(self) -> None:
        """Whatever a policy file of the conductor says."""
        self.rule_of_the_operator(RULE, '@')
        assert states.SERVICEFAIL == self.begin(TENANT, 'service', UNLOCK)
        assert 'leases the node' in self.node.last_error
        assert self.is_refused()

    def test_a_policy_file_counts_at_once(self) -> None:
        """It opens a step to others, with the node as target, and closes a step that others had."""
        rule = RULE.replace('unlock', 'lock')
        assert states.SERVICEFAIL == self.begin(OWNERS, 'service', LOCK)
        self.rule_of_the_operator(rule, 'role:manager and project_id:%(node.owner)s')
        assert states.ACTIVE == self.begin(OWNERS, 'service', LOCK), self.node.last_error
        assert not self.untouched()
        assert states.SERVICEFAIL == self.begin(ADMIN, 'service', LOCK)
        assert self.is_refused('firmware.lock_accelerators')

    def test_a_service_counts_as_a_member_of_the_system_where_ironic_says_so(self) -> None:
        """Nova verifies and reads, and opens no lock."""
        self.config(rbac_service_role_elevated_access=True, rbac_service_project_name=SERVICE)
        nova = f'{SERVICE}:service'
        assert states.ACTIVE == self.begin(nova, 'service', INVENTORY), self.node.last_error
        assert states.SERVICEFAIL == self.begin(nova, 'service', UNLOCK)
        assert self.is_refused()

    def rule_of_the_operator(self, rule: str, check: str) -> None:
        """Write a policy file of the conductor."""
        folder = Path(self._folder) / 'policy.d'
        folder.mkdir(exist_ok=True)
        (folder / 'ours.yaml').write_text(f'"{rule}": "{check}"\n')
        self.config(group='oslo_policy', policy_dirs=[str(folder)])


class TestWaysRound(AskingCase):
    """Attempts to have a forbidden step run without its rule being checked."""

    def test_a_runbook_is_a_request(self) -> None:
        """Public or a project's own: an older API checks neither."""
        for who, public in ((MEMBER, True), (OWNERS, False)):
            runbook = self.runbook(INVENTORY, UNLOCK, owner=OWNER, public=public)
            self.lend(states.MANAGEABLE)
            assert 202 == self.by_runbook(who, 'clean', runbook).status_int
            assert states.CLEANFAIL == self.settle()
            assert self.is_refused(), self.node.last_error

    def test_who_began_an_earlier_flow_does_not_count(self) -> None:
        """Each flow is that of its own requester, also after one that failed or was aborted."""
        for flow, failed in (('service', states.SERVICEFAIL), ('clean', states.CLEANFAIL), ('active', states.DEPLOYFAIL)):
            more = {'priority': 105} if flow == 'active' else {}
            assert failed == self.begin(ADMIN, flow, OPERATORS[2] | more | {'args': {'devices': ['no such card']}})
            asked = self.node_state.asked
            assert asked is not None
            assert 'admin-of-system (system)' == asked.by
            assert failed == self.begin(MEMBER, flow, UNLOCK | more), flow
            assert 'member-of-system (system)' in self.node.last_error
            assert self.is_refused()

    def test_a_failed_service_is_not_continued_by_somebody_else(self) -> None:
        """An abort only ends it, and its steps are not run by the next request."""
        assert states.SERVICEFAIL == self.begin(MEMBER, 'service', UNLOCK)
        self.node.maintenance, self.node.fault = False, None
        self.node.save()
        assert 202 == self.ask(MEMBER, 'PUT', self.provision, {'target': 'abort'}).status_int
        assert states.ACTIVE == self.settle()
        assert self.untouched()

    def test_a_forged_heartbeat_is_nobody(self) -> None:
        """Where a ramdisk resumes a flow, the context is what its client says; who has begun the flow was stored before."""
        body = {'callback_url': 'https://192.0.2.1', 'agent_version': '9.9', 'agent_token': 'x'}
        contexts: list[Any] = []
        self._monkeypatch.setattr(rpcapi.ConductorAPI, 'heartbeat', lambda _self, context, *_, **__: contexts.append(context))
        self.app.post_json(f'/v1/heartbeat/{self.node.uuid}', body, headers=FORGED, status=202)
        self.node.provision_state = states.SERVICING
        self.node.save()
        with task_manager.acquire(contexts[0], self.node.uuid, shared=False) as task:
            with pytest.raises(Exception, match='it is unknown who has begun this service'):
                task.driver.firmware.execute_service_step(task, INVENTORY)
            member = Requester(
                user='m', user_name='m', project=None, project_name=None, roles=('member', 'reader'), system_scope='all',
                request_id=None,
            )  # fmt: skip
            self._monkeypatch.setattr(
                'baremetal_acc_ironic.authorization.rights.begun_by',
                lambda *_: requester.RequestContext(flow=requester.Flow.SERVICE, requester=member, by='m (system)'),
            )
            with pytest.raises(Exception, match=r'unlock_accelerators refused: m \(system\) has begun'):
                task.driver.firmware.execute_service_step(task, UNLOCK)
        assert self.untouched()

    def test_automated_cleaning_and_templates_are_the_operators(self) -> None:
        """Whoever triggers the one, and whoever is deployed by the other: as with an API that checks the rules."""
        objects.DeployTemplate(
            self.context, uuid=numbered_uuid(1), name=TRAIT, steps=[LOCK | {'priority': 115}], extra={}
        ).create()
        objects.TraitList.create(self.context, self.node.id, [TRAIT])
        self.lend(states.MANAGEABLE)
        assert 202 == self.ask(OWNERS, 'PUT', self.provision, {'target': 'provide'}).status_int
        assert states.AVAILABLE == self.settle(), self.node.last_error
        self.node.instance_info = {'traits': [TRAIT]}
        self.node.save()
        body = {'target': 'active', 'deploy_steps': [VERIFY | {'priority': 110}]}
        assert 202 == self.ask(OWNERS, 'PUT', self.provision, body).status_int
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert all(closed for name, closed in self.locks().items() if 'InbandUpdatePolicy' in name)

    def test_a_child_node_is_no_way_round(self) -> None:
        """The steps of the request are checked, on whatever node they would run."""
        assert states.SERVICEFAIL == self.begin(MEMBER, 'service', UNLOCK | {'execute_on_child_nodes': True})
        assert self.is_refused()


class TestCapability(AskingCase):
    """When the conductor checks the rules."""

    def test_an_api_of_an_older_release_may_run_during_a_rolling_upgrade(self) -> None:
        """Ironic upgrades its conductors first."""
        self._monkeypatch.setattr(compat, 'api_checks_steps', lambda: True)
        assert not step_rules.checked_here()
        oldest_first = sorted(
            (v for v in release_mappings.RELEASE_VERSIONS if v[0].isdigit()), key=lambda v: [*map(int, v.split('.'))]
        )
        self.config(pin_release_version=oldest_first[-1])
        assert step_rules.checked_here()
        assert states.SERVICEFAIL == self.begin(MEMBER, 'service', UNLOCK)
        assert self.is_refused()

    def test_log_and_upgrade_check_say_who_checks(self) -> None:
        """A conductor that checks is no failure."""
        assert 'checked by this conductor' in step_rules.who_checks()
        result = status.Checks()._check_rules()
        assert (Code.SUCCESS, step_rules.who_checks()) == (result.code, result.details)
        self._monkeypatch.setattr(compat, 'api_checks_steps', lambda: True)
        assert "checked by Ironic's API" in step_rules.who_checks()
        assert status.Checks()._check_rules().details is None
        self.config(auth_strategy='noauth')
        assert 'checked by no service' in step_rules.who_checks()

    def test_a_conductor_does_not_start_where_no_guard_can_be_had_unless_it_is_accepted_by_name(self) -> None:
        """Ironic 32; the upgrade check says it, too. That a missing middleware is accepted does not count for this."""
        found = compat.names
        self._monkeypatch.setattr(compat, 'names', lambda group, name: None if name == 'middleware' else found(group, name))
        self.config(group='baremetal_acc', accepted_misconfigurations=['middleware'])
        with pytest.raises(exception.DriverLoadError, match=r'no option \[api\] middleware, so nothing') as caught:
            RedfishAccFirmware()
        assert 'or add no_api_guard to [baremetal_acc] accepted_misconfigurations' in str(caught.value)
        assert Code.FAILURE == status.Checks()._check_guard().code
        self.config(group='baremetal_acc', accepted_misconfigurations=['no_api_guard'])
        RedfishAccFirmware()
        assert Code.WARNING == status.Checks()._check_guard().code

    def test_a_missing_middleware_is_no_lack_of_rules_where_the_conductor_checks_them(self) -> None:
        """The reason says what is open."""
        [(name, text)] = policy.shortcomings()
        assert 'middleware' == name
        assert 'may attach virtual media' in text
        assert 'release locks' not in text
        self._monkeypatch.setattr(compat, 'api_checks_steps', lambda: True)
        assert ['release locks' in text for _, text in policy.shortcomings()] == [True]

    def test_a_requester_with_more_roles_than_are_stored_is_refused(self) -> None:
        """A rule might forbid one that was left out."""
        roles = ('admin', *(f'r{n}' for n in range(requester.MOST_ROLES - 1)))
        many = Requester(
            user='u', user_name='u', project=None, project_name=None, roles=roles, system_scope='all', request_id=None
        )
        assert (RULE,) == step_rules.refused([UNLOCK], many, self.node)
        few = Requester(
            user='u', user_name='u', project=None, project_name=None, roles=roles[:-1], system_scope='all', request_id=None
        )
        assert () == step_rules.refused([UNLOCK], few, self.node)


def test_an_option_that_this_ironic_lacks_is_told_from_one_without_a_value() -> None:
    """No middleware is named; or none can be."""
    conf = cfg.ConfigOpts()
    conf.register_opts([cfg.ListOpt('middleware'), cfg.ListOpt('other', default=['a'])], group='api')
    conf([])
    found = [compat.names(conf.api, name) for name in ('middleware', 'other', 'neither')]
    assert [frozenset(), {'a'}, None] == found
