# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The gate for host starts in Ironic: neither a tenant's request nor Ironic itself starts a host while nothing is proven."""

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest import mock

import pytest
from ironic import objects
from ironic.common import exception, states
from ironic.conductor import manager as conductor_manager
from ironic.conductor import task_manager
from ironic.conductor import utils as conductor_utils

from baremetal_acc_ironic.authorization import interface_overrides
from baremetal_acc_ironic.host_power import host_start
from baremetal_acc_ironic.host_power.gate import MAY_START, Reason, lasts
from baremetal_acc_ironic.power import PowerRefused
from baremetal_acc_ironic.state import node_store
from baremetal_acc_ironic.steps import read_only, wall_clock
from tests.ironic.api import LESSEE, is_refused
from tests.ironic.case import NO_DEPLOY, TYPE
from tests.ironic.test_api import (
    LESSEE_ADMIN,
    LESSEE_MEMBER,
    OWNER_ADMIN,
    OWNER_MEMBER,
    SYSTEM_ADMIN,
    ApiCase,
    who,
)

STARTS = (states.POWER_ON, states.REBOOT, states.SOFT_REBOOT)
LESSEE_MANAGER = who('manager,member,reader', project=LESSEE)


class StartCase(ApiCase):
    """A machine whose host is off and whose cards are open, and the API before it."""

    parameters = {'gpus': 2}  # noqa: RUF012

    def setUp(self) -> None:
        super().setUp()
        self.press('ForceOff')
        self.be(states.AVAILABLE, power_state=states.POWER_OFF)

    def be(self, state: str, **values: Any) -> None:
        """The node in a state, whatever led there."""
        self.node.refresh()
        self.node.provision_state = state
        self.node.last_error = None
        for name, value in values.items():
            setattr(self.node, name, value)
        self.node.save()

    def power(self, headers: dict[str, str], target: str, **body: Any) -> int:
        """Ask for a power state; the status of the answer."""
        url = f'/v1/nodes/{self.node.uuid}/states/power'
        answer = self.app.put_json(url, {'target': target} | body, headers=headers, expect_errors=True)
        self.said = answer.text
        self.node.refresh()
        return int(answer.status_int)

    def provision(self, headers: dict[str, str], target: str, **body: Any) -> int:
        """Ask for a provision state; the status of the answer."""
        url = f'/v1/nodes/{self.node.uuid}/states/provision'
        answer = self.app.put_json(url, {'target': target} | body, headers=headers, expect_errors=True)
        self.said = answer.text
        self.node.refresh()
        return int(answer.status_int)

    @property
    def host(self) -> str:
        """The machine's truth: the power of its host."""
        return str(self.machine.truth()['systems']['host']['power'])

    def press(self, reset: str) -> None:
        """Somebody presses the button of the machine; until the host has got there."""
        self.machine.power(reset)
        wanted = 'On' if reset == 'On' else 'Off'
        deadline = time.monotonic() + 10
        while self.host != wanted:
            assert time.monotonic() < deadline, self.host
            time.sleep(0.02)

    def resets(self) -> list[str]:
        """What was sent to the BMC to reset the host."""
        return [e['path'] for e in self.machine.log() if e['method'] == 'POST' and 'Reset' in e['path']]

    def remembered(self, **values: Any) -> None:
        """What is remembered of the node, changed."""
        self.node.refresh()
        node_store.store(self.node, replace(node_store.load(self.node), **values))

    def deployed(self) -> None:
        """Cleaned and deployed, with the host off."""
        self.be(states.AVAILABLE)
        self.to_active()
        with task_manager.acquire(self.context, self.node.uuid, shared=False) as task:
            conductor_utils.node_power_action(task, states.POWER_OFF)
        self.node.refresh()
        assert 'Off' == self.host


class TestRequests(StartCase):
    """Power requests through the API."""

    def test_no_state_starts_the_host_of_a_node_of_which_nothing_is_proven(self) -> None:
        """Whoever asks for whatever start, with and without a timeout; the answer or ``last_error`` names the reason."""
        for state in MAY_START:
            for headers in (LESSEE_MEMBER, LESSEE_ADMIN, OWNER_MEMBER, SYSTEM_ADMIN):
                for target in STARTS:
                    self.be(state)
                    code = self.power(headers, target, **({'timeout': 5} if headers is LESSEE_ADMIN else {}))
                    assert code in (400, 409) or 'is refused: ' in str(self.node.last_error), (state, target, code)
                    assert 'Off' == self.host, (state, target)
        assert [] == self.resets()

    def test_power_off_is_never_refused(self) -> None:
        """In no state in which Ironic takes it."""
        for state in set(MAY_START) - {states.CLEANING, states.CLEANWAIT}:
            self.press('On')
            self.be(state, power_state=states.POWER_ON)
            assert 202 == self.power(LESSEE_MEMBER, states.POWER_OFF), state
            assert 'Off' == self.host, state

    def test_a_tenant_has_its_node_while_it_is_proven(self) -> None:
        """On, off, restarts, as before."""
        self.deployed()
        for target, came in (
            (states.POWER_ON, 'On'),
            (states.REBOOT, 'On'),
            (states.SOFT_REBOOT, 'On'),
            (states.SOFT_POWER_OFF, 'Off'),
            (states.POWER_ON, 'On'),
            (states.POWER_OFF, 'Off'),
            (states.REBOOT, 'On'),
        ):
            assert 202 == self.power(LESSEE_MEMBER, target), self.said
            assert (None, came) == (self.node.last_error, self.host), target

    def test_a_refused_deploy_is_not_started_by_hand(self) -> None:
        """The BMC takes locks and does not do them: the deploy fails, and a member powers the host on."""
        self.machine.fault('lock-ignored')
        self.deploy()
        assert states.DEPLOYFAIL == self.settle()
        failed_with = self.node.last_error
        assert self.power(LESSEE_MEMBER, states.POWER_ON) in (400, 409)
        assert ('Off', failed_with) == (self.host, self.node.last_error)

    def test_what_an_earlier_deploy_has_proven_lets_nobody_start_a_later_one(self) -> None:
        """It was undeployed without cleaning: what fails before its verification is not started."""
        self.deployed()
        self.remembered(exposed=self.node_state.known)
        self.be(states.AVAILABLE)
        self.deploy()
        assert states.DEPLOYFAIL == self.settle()
        self.remembered(exposed=frozenset())
        assert self.power(LESSEE_MEMBER, states.POWER_ON) in (400, 409)
        assert 'Off' == self.host

    def test_held_in_cleaning_it_stays_off(self) -> None:
        """Ironic's reserved steps need no right; the lessee's admin holds the node, and a member powers it on."""
        for name in ('hold', 'power_on', 'reboot'):
            self.be(states.MANAGEABLE)
            steps = [{'interface': 'power', 'step': name}]
            self.provision(LESSEE_ADMIN, 'clean', clean_steps=steps, disable_ramdisk=True)
            self.power(LESSEE_MEMBER, states.POWER_ON)
            assert 'Off' == self.host, name
        assert [] == self.resets()

    def test_the_text_has_the_reason_and_the_way_back(self) -> None:
        """As the conductor says it where the API is not asked."""
        self.be(states.DEPLOYFAIL)
        for state, said in (
            (
                states.DEPLOYFAIL,
                'proven the locks of its accelerators closed for this deployment .deploy the node again, or undeploy',
            ),
            (states.ACTIVE, 'proven the locks .* .service the node with lock_accelerators first'),
            (states.AVAILABLE, 'the node is available, its locks are not proven, .*allow_host_start in manual cleaning'),
            (states.INSPECTWAIT, 'no host is started while its node is inspect wait'),
            (states.CLEANING, "the node is cleaning, and Ironic does not boot the operator's ramdisk"),
        ):
            self.be(state)
            with (
                task_manager.acquire(self.context, self.node.uuid, shared=False) as task,
                pytest.raises(PowerRefused, match=f'node node-1: power on is refused: .*{said}'),
            ):
                conductor_utils.node_power_action(task, states.POWER_ON)
            self.node.refresh()
            assert 'is refused: ' in self.node.last_error
        events = [e['event'] for e in self.dbapi.get_node_history_by_node_id(self.node.id)]
        assert 5 == sum('is refused: ' in event for event in events)


class TestByItself(StartCase):
    """What Ironic does without being asked."""

    def sync(self) -> int:
        """One round of the power synchronisation."""
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            found = conductor_manager.do_sync_power_state(task, 0)
        self.node.refresh()
        return int(found)

    def test_the_power_sync_records_what_it_may_not_force(self) -> None:
        """A host that is off stays off; the node neither fails nor goes to maintenance for it."""
        for state in (states.AVAILABLE, states.MANAGEABLE, states.DEPLOYFAIL, states.ACTIVE):
            self.be(state, power_state=states.POWER_ON)
            for _ in range(5):
                self.sync()
            assert ('Off', states.POWER_OFF, False, None) == (
                self.host,
                self.node.power_state,
                self.node.maintenance,
                self.node.last_error,
            )
        assert [] == self.resets()

    def test_the_power_sync_gives_a_tenant_its_host_back(self) -> None:
        """As Ironic does for every node."""
        self.deployed()
        self.be(states.ACTIVE, power_state=states.POWER_ON)
        self.sync()
        assert 'On' == self.host

    def test_the_power_sync_powers_off_what_woke(self) -> None:
        """That is no start."""
        self.press('On')
        self.sync()
        assert 'Off' == self.host

    def test_what_was_proven_ends_with_the_deployment(self) -> None:
        """Undeployed without cleaning, and adopted: nothing is proven of what stands there now."""
        self.deployed()
        assert self.node_state.proven is not None
        self.config(automated_clean=False, group='conductor')
        self.service.do_node_tear_down(self.context, self.node.uuid)
        self.node.refresh()
        assert states.AVAILABLE == self.node.provision_state
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            task.driver.firmware.end_proofs(self.service, self.context)
        assert self.node_state.proven is None
        self.be(states.ACTIVE)
        assert self.power(LESSEE_MEMBER, states.POWER_ON) in (400, 409)
        assert 'Off' == self.host

    def test_a_proof_lasts_as_long_as_the_node_is_somebodys(self) -> None:
        """The states are those in which it counts."""
        assert {states.DELETING} == {s for s in MAY_START if lasts(s, ending=True)}
        counts = {s for s, reasons in MAY_START.items() if Reason.PROVEN in reasons}
        assert counts == {s for s in MAY_START if lasts(s, ending=False)}
        self.deployed()
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            task.driver.firmware.end_proofs(self.service, self.context)
        assert self.node_state.proven is not None


class TestAllowed(StartCase):
    """The step ``allow_host_start``."""

    def setUp(self) -> None:
        super().setUp()
        self.be(states.MANAGEABLE, lessee=None)

    def allow(self, headers: dict[str, str] = SYSTEM_ADMIN, **args: Any) -> int:
        """Ask for the step."""
        self.be(states.MANAGEABLE)
        given = {'reason': 'to look at its console', 'expires': (wall_clock.now() + timedelta(hours=1)).isoformat()} | args
        step = {'interface': 'firmware', 'step': 'allow_host_start', 'args': {k: v for k, v in given.items() if v is not None}}
        code = self.provision(headers, 'clean', clean_steps=[step], disable_ramdisk=True)
        if code == 202:
            self.settle()
        self.node.maintenance, self.node.fault = False, None
        self.node.save()
        return code

    def test_an_operator_allows_a_start_and_the_cards_are_written_again(self) -> None:
        """By requests of system scope, until its end; whoever vouches for what boots has no card written again."""
        self.be(states.AVAILABLE)
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        self.press('ForceOff')
        assert 202 == self.allow(), self.said
        assert states.MANAGEABLE == self.node.provision_state, self.node.last_error
        assert self.power(OWNER_ADMIN, states.POWER_ON) in (400, 409)
        assert 'Off' == self.host
        assert 202 == self.power(SYSTEM_ADMIN, states.POWER_ON), self.said
        assert ('On', None) == (self.host, self.node.last_error)
        assert self.node_state.known == self.node_state.exposed != frozenset()
        assert any('power on: allowed until' in event and 'does not vouch' in event for event in self.history())
        assert 202 == self.power(SYSTEM_ADMIN, states.POWER_OFF)
        self.remembered(exposed=frozenset())
        assert 202 == self.allow(vouched=True), self.said
        assert 202 == self.power(SYSTEM_ADMIN, states.POWER_ON), self.said
        assert ('On', frozenset()) == (self.host, self.node_state.exposed)

    def test_it_ends(self) -> None:
        """At its moment, by the step without arguments, with the next automated cleaning, and with a lessee."""
        assert 202 == self.allow(), self.said
        given = self.node_state.start_allowed
        assert given is not None
        self.remembered(start_allowed=replace(given, until=wall_clock.now()))
        assert self.power(SYSTEM_ADMIN, states.POWER_ON) in (400, 409)
        self.remembered(start_allowed=given)
        self.be(states.MANAGEABLE, lessee=LESSEE)
        assert self.power(SYSTEM_ADMIN, states.POWER_ON) in (400, 409)
        self.be(states.MANAGEABLE, lessee=None, instance_uuid='11111111-0000-4000-8000-000000000000')
        assert self.power(SYSTEM_ADMIN, states.POWER_ON) in (400, 409)
        self.be(states.MANAGEABLE, instance_uuid=None)
        assert 202 == self.allow(reason=None, expires=None), self.said
        assert self.node_state.start_allowed is None
        assert 202 == self.allow(), self.said
        self.clean()
        self.settle()
        assert self.node_state.start_allowed is None

    def test_nobody_else_gives_it_and_never_without_an_end(self) -> None:
        """Nor a project that owns or leases the node, whatever its role; nor an automated flow."""
        for headers in (OWNER_ADMIN, LESSEE_ADMIN, LESSEE_MANAGER, who('member,reader')):
            self.be(states.MANAGEABLE, lessee=LESSEE)
            assert is_refused(self, self.allow(headers)), self.said
        self.be(states.MANAGEABLE, lessee=None)
        for args, said in (
            ({'expires': None}, 'argument expires: is missing'),
            ({'reason': None}, 'argument reason: is missing'),
            ({'expires': '2026-01-01'}, 'is over'),
            ({'expires': '2099-01-01'}, 'too far ahead'),
            ({'expires': 'soon'}, 'is neither a date nor'),
            ({'reason': 'a\x1b[2J'}, 'cannot be printed'),
            ({'until': 'x'}, 'unexpected arguments: until'),
        ):
            assert 202 == self.allow(**args), self.said
            assert said in str(self.node.last_error), args
            assert self.node_state.start_allowed is None


class TestOverrides(StartCase):
    """Interfaces in ``instance_info`` that stand in the database all the same."""

    def standing(self, key: str, value: str, **more: Any) -> None:
        """It was written by whoever could."""
        self.node.refresh()
        self.node.instance_info = {key: value} | more
        self.node.save()

    def keys(self) -> Iterator[str]:
        """Those that are known, which are all of Ironic's."""
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            assert interface_overrides.KEYS == {f'{name}_interface' for name in task.driver.all_interfaces}
        yield from sorted(interface_overrides.KEYS)

    def test_no_flow_begins_while_one_stands(self) -> None:
        """Whichever interface it is, also with a value that the operator has enabled."""
        for key in list(self.keys()):
            same = getattr(self.node, key) or TYPE
            self.standing(key, same)
            for state, target in (
                (states.AVAILABLE, 'active'),
                (states.MANAGEABLE, 'provide'),
                (states.MANAGEABLE, 'inspect'),
                (states.ACTIVE, 'rebuild'),
                (states.ACTIVE, 'deleted'),
            ):
                self.be(state)
                code = self.provision(LESSEE_ADMIN, target)
                now = self.node.provision_state
                assert code >= 400 or now in (states.CLEANFAIL, states.INSPECTFAIL), (key, target, code, now)
                assert states.ACTIVE != now or state == states.ACTIVE
            self.be(states.ACTIVE)
            assert self.power(LESSEE_MEMBER, states.POWER_ON) in (400, 409), key
            assert 'Off' == self.host

    def test_a_host_is_powered_off_while_one_stands(self) -> None:
        """Whoever has to stop something must not wait for it to be removed."""
        self.press('On')
        self.standing('deploy_interface', 'direct')
        self.be(states.ACTIVE, power_state=states.POWER_ON)
        assert 202 == self.power(LESSEE_MEMBER, states.POWER_OFF), self.said
        assert 'Off' == self.host

    def test_it_is_removed_and_the_node_counts_as_exposed(self) -> None:
        """Also from a node that cannot be loaded with it; all else in instance_info stays. Cleaning writes its cards again."""
        self.be(states.AVAILABLE)
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        self.standing('firmware_interface', 'no-firmware', image_source='x', configdrive='y' * 1000)
        with pytest.raises(exception.IncompatibleInterface):
            task_manager.acquire(self.context, self.node.uuid, shared=True)
        interface_overrides.remove_from_nodes(self.service, self.context)
        self.node.refresh()
        assert {'image_source': 'x', 'configdrive': 'y' * 1000} == self.node.instance_info
        assert self.node_state.known == self.node_state.exposed != frozenset()
        assert any('instance_info contained firmware_interface, ' in event for event in self.history())
        self.node.instance_info = {}
        self.node.save()
        self.deploy()
        assert states.DEPLOYFAIL == self.settle()
        assert 'was not written again' in self.node.last_error
        self.be(states.AVAILABLE)
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert frozenset() == self.node_state.exposed

    def test_what_was_changed_meanwhile_is_not_overwritten(self) -> None:
        """It is removed in the next round."""
        self.standing('deploy_interface', 'direct', image_source='old')
        read = dict(interface_overrides._with_a_key())
        self.standing('deploy_interface', 'direct', image_source='new')
        assert () == interface_overrides._remove(self.node.uuid, read[self.node.uuid])
        self.node.refresh()
        assert 'new' == self.node.instance_info['image_source']
        interface_overrides.remove_from_nodes(self.service, self.context)
        self.node.refresh()
        assert {'image_source': 'new'} == self.node.instance_info

    def test_it_is_removed_while_somebody_holds_the_node_and_marked_later(self) -> None:
        """The flow that holds it is the one that must not go on with it."""
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        self.standing('boot_interface', 'fake')
        with task_manager.acquire(self.context, self.node.uuid, shared=False):
            interface_overrides.remove_from_nodes(self.service, self.context)
        self.node.refresh()
        assert ({}, frozenset()) == (self.node.instance_info, self.node_state.exposed)
        interface_overrides.remove_from_nodes(self.service, self.context)
        assert self.node_state.known == self.node_state.exposed != frozenset()

    def test_nodes_without_one_and_those_of_others_are_left_alone(self) -> None:
        """Also where another key or value merely looks like one."""
        innocent = {'image_source': 'boot_interface', 'my_interface': 'x', 'xboot_interface': 1}
        self.node.instance_info = innocent
        self.node.save()
        with mock.patch.object(interface_overrides, '_mark') as marked:
            interface_overrides.remove_from_nodes(self.service, self.context)
        self.node.refresh()
        assert (innocent, 0) == (self.node.instance_info, marked.call_count)

    def test_a_deploy_interface_that_tenants_may_choose_is_none(self) -> None:
        """By name; any other one, and any other interface of that name, is."""
        self.config(group='baremetal_acc', tenant_deploy_interfaces=[NO_DEPLOY])
        assert () == interface_overrides.standing({'deploy_interface': NO_DEPLOY})
        assert ('deploy_interface',) == interface_overrides.standing({'deploy_interface': 'direct'})
        assert ('boot_interface',) == interface_overrides.standing({'boot_interface': NO_DEPLOY, 'deploy_interface': NO_DEPLOY})
        self.standing('deploy_interface', NO_DEPLOY)
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            task.driver.power.validate(task)
            task.driver.firmware.validate(task)
        self.config(group='baremetal_acc', tenant_deploy_interfaces=[])
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            for interface in (task.driver.power, task.driver.firmware):
                with pytest.raises(exception.InvalidParameterValue, match=r'instance_info.*deploy_interface.* replaces'):
                    interface.validate(task)


class TestOrder(StartCase):
    """Steps of whoever deploys, and of templates, in front of the verification."""

    baseline = 'format = 1\n\n[[rule]]\nname = "closed"\nblock = ["host-device"]\n'

    def setUp(self) -> None:
        super().setUp()
        self.be(states.AVAILABLE, bios_interface='redfish')

    def _configure(self) -> None:
        super()._configure()
        self.config(enabled_bios_interfaces=['no-bios', 'redfish'])

    def bios(self, priority: int) -> dict[str, Any]:
        """A step of Ironic's own, which operators give in templates."""
        args = {'settings': [{'name': 'BootMode', 'value': 'Uefi'}]}
        return {'interface': 'bios', 'step': 'apply_configuration', 'args': args, 'priority': priority}

    def ours(self, name: str, priority: int) -> dict[str, Any]:
        """A step of ours."""
        return {'interface': 'firmware', 'step': name, 'args': {}, 'priority': priority}

    def test_none_that_is_not_ours_comes_before_it(self) -> None:
        """Above it and at its own priority, also where it was given a lower one; ours may, and what comes after it may."""
        for steps, early in (
            ([self.bios(130)], 'bios.apply_configuration (priority 130)'),
            ([self.bios(110)], 'bios.apply_configuration (priority 110)'),
            ([self.ours('verify_accelerators', 105), self.bios(106)], 'bios.apply_configuration (priority 106)'),
            ([self.ours('lock_accelerators', 150), self.bios(111)], 'bios.apply_configuration (priority 111)'),
        ):
            self.be(states.AVAILABLE)
            self.service.do_node_deploy(self.context, self.node.uuid, deploy_steps=steps)
            assert states.DEPLOYFAIL == self.settle()
            assert f'{early} would run before verify_accelerators, while no lock is proven' in self.node.last_error
            assert 'Off' == self.host
        with task_manager.acquire(self.context, self.node.uuid, shared=False) as task:
            task.node.set_driver_internal_info(
                'user_deploy_steps', [self.ours('lock_accelerators', 150), self.bios(109), self.bios(0)]
            )
            assert () == read_only.before_verification(task, 110)

    def test_a_template_is_no_way_either(self) -> None:
        """An operator wrote it; whoever deploys has chosen it by a trait."""
        template = objects.DeployTemplate(
            self.context, uuid='b5a9f3a0-5f0d-4f6e-9d58-0a9a4b1c2d3f', name='CUSTOM_EARLY', steps=[self.bios(130)], extra={}
        )
        template.create()
        objects.TraitList.create(self.context, self.node.id, ['CUSTOM_EARLY'])
        self.be(states.AVAILABLE, instance_info={'traits': ['CUSTOM_EARLY']})
        self.deploy()
        assert states.DEPLOYFAIL == self.settle()
        assert 'bios.apply_configuration (priority 130) would run before verify_accelerators' in self.node.last_error


class TestReading(StartCase):
    """What the gate goes by."""

    def test_a_start_is_refused_where_nothing_can_be_read_of_the_node(self) -> None:
        """Another version wrote it, or somebody changed it."""
        self.deployed()
        self.node.driver_internal_info = self.node.driver_internal_info | {node_store.KEY: {'format': 99}}
        self.node.save()
        refused = host_start.refusal(self.node, states.POWER_ON, None)
        assert refused is not None
        assert 'it is unknown whether a job works on its accelerators' in refused
        assert host_start.refusal(self.node, states.POWER_OFF, None) is None
