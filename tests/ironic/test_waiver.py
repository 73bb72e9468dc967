# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A node with a write path that nothing blocks is refused, or handed over under a waiver that is reported and expires."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from ironic.common import states
from ironic.conductor import task_manager
from oslo_messaging.notify import _impl_test

from baremetal_acc.model.lock import WritePath
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc_ironic.state import node_state, node_store
from baremetal_acc_ironic.steps import step_errors, waivers, wall_clock
from tests.ironic.test_api import LESSEE_ADMIN, OWNER_ADMIN, SYSTEM_ADMIN, SYSTEM_MEMBER, ApiCase

WAIVE = 'waive_accelerator_locks'
RULES = '[[rule]]\nname = "all"\nblock = ["host-device", "host-bmc-ipmi"]\n'
OPEN = 'no mechanism blocks this path'


def until(days: float) -> str:
    return (wall_clock.now() + timedelta(days=days)).isoformat(timespec='seconds')


class WaiverCase(ApiCase):
    """A node whose baseline demands a path that its mechanisms do not block; somebody listens for notifications."""

    parameters = {'gpus': 1}  # noqa: RUF012
    baseline = f'format = 1\n{RULES}'

    def setUp(self) -> None:
        super().setUp()
        self.listen()
        self.node.provision_state, self.node.lessee = states.AVAILABLE, None
        self.node.save()

    def notified(self) -> list[dict[str, Any]]:
        """Payloads of the notifications of waivers, with their level."""
        return [
            {'level': level, **message['payload']['ironic_object.data']}
            for _, message, level, _ in _impl_test.NOTIFICATIONS
            if message['event_type'] == 'baremetal.accelerator.waiver.success'
        ]

    def waive(self, **arguments: Any) -> str:
        """The step in manual cleaning, and the state that comes of it."""
        self.clear()
        self.clean({'step': WAIVE, 'args': arguments})
        return self.settle()


class TestByRule(WaiverCase):
    """A rule of the baseline waives the path."""

    def waiving(self, days: float) -> None:
        given = f'{{ role = "security", reason = "old boards", expires = {until(days)}, paths = ["host-bmc-ipmi"] }}'
        text = f'{self.baseline}on_missing = "waive"\nwaiver = {given}\n'
        (self._folder / 'baseline.toml').write_text(text)

    def test_a_deploy_passes_and_says_so_and_the_next_one_after_its_end_does_not(self) -> None:
        """History and notification name path, rule, role, reason and end; so does the error of the one that comes too late."""
        self.waiving(30)
        self.to_active()
        (line,) = [e for e in self.history() if e.startswith('verify_accelerators: host-bmc-ipmi of ')]
        assert 'by a waiver of security (rule all): old boards' in line
        assert 'less than the default: rule all: host-bmc-redfish need not be blocked' in line
        (sent,) = self.notified()
        assert ('WARN', 'verify_accelerators', True) == (sent['level'], sent['by'], sent['in_use'])
        (waiver,) = [w['ironic_object.data'] for w in sent['waivers']]
        assert (['host-bmc-ipmi'], 'all', 'security') == (waiver['paths'], waiver['rule'], waiver['role'])
        self.waiving(-0.01)
        self.node.provision_state = states.AVAILABLE
        self.node.save()
        self.deploy()
        assert states.DEPLOYFAIL == self.settle()
        assert 'the waiver of rule all by security expired 20' in self.node.last_error
        assert 1 == len(self.notified())


class TestByStep(WaiverCase):
    """An administrator waives it for one node."""

    def test_it_holds_for_the_next_deployment_and_ends_when_the_node_comes_back(self) -> None:
        """Refused before, handed over with it, and refused again after the tenant. Who asked for it answers for it."""
        assert states.CLEANFAIL == self.cleaned()
        assert OPEN in self.node.last_error
        reached = self.waive(paths=['host-bmc-ipmi'], reason='until the boards are changed', expires=until(30))
        assert states.MANAGEABLE == reached, self.node.last_error
        assert any('host-bmc-ipmi of all devices may stay open' in e and 'by operator (system)' in e for e in self.history())
        assert [(False, WAIVE)] == [(n['in_use'], n['by']) for n in self.notified()]
        assert states.AVAILABLE == self.cleaned(), self.node.last_error
        self.deploy()
        assert states.ACTIVE == self.settle(), self.node.last_error
        (line,) = [e for e in self.history() if e.startswith('verify_accelerators: host-bmc-ipmi of ')]
        assert f'by a waiver of operator (system) (rule {WAIVE} of 20' in line
        assert 1 == len(self.node_state.waivers)
        assert states.CLEANFAIL == self.cleaned()
        assert OPEN in self.node.last_error
        assert states.MANAGEABLE == self.waive(paths=['bmc-network'], reason='another', expires=until(1))
        assert ['another'] == [g.waiver.reason for g in self.node_state.waivers]

    def test_it_ends_where_the_cleaning_after_the_tenant_is_refused_before_it_waits(self) -> None:
        """The host is off already, so the step plans at once, and what it plans is refused."""
        assert states.MANAGEABLE == self.waive(paths=['host-bmc-ipmi'], reason='r', expires=until(30)), self.node.last_error
        self.to_active()
        assert ['r'] == [g.waiver.reason for g in self.node_state.waivers]
        handed_over = self.node_state
        functions = node_state.Override(device=AcceleratorId(self.gpu(0)), functions=(('Slot0', 'aes'),))
        node_store.store(self.node, replace(handed_over, overrides=(functions,)))
        with task_manager.acquire(self.context, self.node.uuid, shared=False) as task:
            task.driver.power.set_power_state(task, states.POWER_OFF)
        for _ in range(2):
            assert states.CLEANFAIL == self.cleaned()
            assert OPEN in self.node.last_error
            found = self.node_state
            assert ((), (), (), None) == (found.waivers, found.overrides, found.evidence, found.proven)
            assert (handed_over.lifecycle + 1, False) == (found.lifecycle, found.handed_over)
            assert found.certificate is not None
            assert found.certificate.superseded

    def test_it_is_not_for_whoever_adopts_the_node_next(self) -> None:
        """The node is undeployed without cleaning and adopted at once, so no step of ours has ended it."""
        assert states.MANAGEABLE == self.waive(paths=['host-bmc-ipmi'], reason='r', expires=until(30)), self.node.last_error
        self.to_active()
        self.config(automated_clean=False, group='conductor')
        self.service.do_node_tear_down(self.context, self.node.uuid)
        for verb in ('manage', 'adopt'):
            self.service.do_provisioning_action(self.context, self.node.uuid, verb)
        assert ['r'] == [g.waiver.reason for g in self.node_state.waivers]
        self.serve('lock_accelerators')
        assert states.SERVICEFAIL == self.settle()
        assert OPEN in self.node.last_error
        assert [] == self.left()

    def left(self) -> list[str]:
        """Reasons of the waivers that the periodic leaves."""
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            task.driver.firmware.end_proofs(self.service, self.context)
        return [g.waiver.reason for g in self.node_state.waivers]

    def test_a_periodic_ends_it_with_the_deployment_and_keeps_one_for_the_next(self) -> None:
        """One is given before the node is handed over; the other was in force in a deployment that is over."""
        assert states.MANAGEABLE == self.waive(paths=['host-bmc-ipmi'], reason='r', expires=until(30)), self.node.last_error
        assert ['r'] == self.left()
        self.to_active()
        assert ['r'] == self.left()
        self.config(automated_clean=False, group='conductor')
        self.service.do_node_tear_down(self.context, self.node.uuid)
        assert [] == self.left()

    def test_it_is_for_no_mechanism_that_has_vanished(self) -> None:
        """One was seen for that path: its BMC was changed, or made to hide it. An operator's inspection forgets it."""
        self.clean('inventory_accelerators')
        gpu = AcceleratorId(self.gpu(0))
        assert states.MANAGEABLE == self.waive(paths=['host-bmc-ipmi'], reason='r', expires=until(1)), self.node.last_error
        hidden = (gpu, WritePath.HOST_BMC_IPMI, 'HGX_FW_ERoT_GPU_0')
        node_store.store(self.node, replace(self.node_state, blockable=(hidden,), known=frozenset({gpu})))
        assert states.CLEANFAIL == self.cleaned()
        assert 'a lock mechanism for it was shown before, so no waiver covers it' in self.node.last_error
        self.clear()
        self.service.inspect_hardware(self.context, self.node.uuid)
        assert states.MANAGEABLE == self.settle(), self.node.last_error
        assert (gpu, WritePath.HOST_BMC_IPMI, 'HGX_FW_GPU_0') in self.node_state.blockable
        assert hidden not in self.node_state.blockable
        assert states.AVAILABLE == self.cleaned(), self.node.last_error

    def test_from_its_end_on_a_deploy_fails_and_names_it(self) -> None:
        """Between cleaning and deploy its time has run out."""
        assert states.MANAGEABLE == self.waive(paths=['host-bmc-ipmi'], reason='r', expires=until(1)), self.node.last_error
        assert states.AVAILABLE == self.cleaned(), self.node.last_error
        (given,) = self.node_state.waivers
        ended = replace(given, waiver=replace(given.waiver, expires=wall_clock.now() - timedelta(seconds=1)))
        node_store.store(self.node, replace(self.node_state, waivers=(ended,)))
        self.deploy()
        assert states.DEPLOYFAIL == self.settle()
        assert f'the waiver of rule {WAIVE} of 20' in self.node.last_error
        assert 'by operator (system) expired 20' in self.node.last_error

    def test_it_is_for_the_devices_that_are_named_and_can_be_taken_back(self) -> None:
        """What is given anew replaces what was given; an empty list takes it back, of one device or all."""
        self.clean('inventory_accelerators')
        gpu = self.gpu(0)
        assert states.MANAGEABLE == self.waive(
            paths=['host-bmc-ipmi'], reason='a', expires=until(1), devices=['GPU_9', gpu][1:]
        )
        assert states.MANAGEABLE == self.waive(paths=['host-device'], reason='b', expires=until(1)), self.node.last_error
        assert states.MANAGEABLE == self.waive(paths=['host-device', 'bmc-network'], reason='c', expires='2027-01-31')
        found = [(g.waiver.reason, {*g.waiver.paths}, {*g.devices}) for g in self.node_state.waivers]
        both = {WritePath.HOST_DEVICE, WritePath.BMC_NETWORK}
        assert [('c', both, set()), ('a', {WritePath.HOST_BMC_IPMI}, {gpu})] == found
        assert states.MANAGEABLE == self.waive(paths=[], devices=[gpu])
        assert ['c'] == [g.waiver.reason for g in self.node_state.waivers]
        assert states.MANAGEABLE == self.waive(paths=[])
        assert () == self.node_state.waivers
        assert states.CLEANFAIL == self.waive(paths=['host-device'], reason='b', expires=until(1), devices=['GPU_9'])
        assert "'GPU_9' matches no device of this node" in self.node.last_error
        assert [] == self.machine.log()

    def test_what_is_no_waiver_is_refused_by_its_argument(self) -> None:
        """Nothing is remembered of it."""
        good = {'paths': ['host-bmc-ipmi'], 'reason': 'r', 'expires': until(1)}
        for wrong, says in (
            ({'paths': ['pcie']}, 'argument paths[0]'),
            ({'paths': []}, 'argument reason: is only allowed if paths is not empty'),
            ({'reason': ' '}, 'argument reason: is missing'),
            ({'reason': 'a\x1b[2J'}, 'argument reason: contains characters that cannot be printed'),
            ({'reason': 'r' * 501}, 'argument reason'),
            ({'expires': 'soon'}, "argument expires: 'soon' is neither a date"),
            ({'expires': '2027-01-31T00:00:00'}, 'nor a date and time with an offset'),
            ({'expires': '9999-12-31T23:59:59-12:00'}, 'argument expires: '),
            ({'expires': until(-1)}, 'is over'),
            ({'expires': until(367)}, 'is too far ahead (at most 366 days from now'),
        ):
            assert states.CLEANFAIL == self.waive(**(good | wrong)), wrong
            assert f'{WAIVE}: ' in self.node.last_error
            assert says in self.node.last_error, self.node.last_error
        for key, says in (('reason', 'argument reason: is missing'), ('expires', 'argument expires: is missing')):
            assert states.CLEANFAIL == self.waive(**{k: v for k, v in good.items() if k != key})
            assert says in self.node.last_error
        assert () == self.node_state.waivers

    def test_no_automated_flow_gives_one(self) -> None:
        """An automated runbook, or a priority that somebody has set, names the step; nobody has asked for it."""
        self.node.provision_state, self.node.target_provision_state = states.CLEANING, states.AVAILABLE
        self.node.save()
        with task_manager.acquire(self.context, self.node.uuid, shared=False) as task:
            with pytest.raises(step_errors.StepFailed, match='an automated flow cannot give a waiver'):
                task.driver.firmware.waive_accelerator_locks(task, paths=['host-device'], reason='r', expires=until(1))
            assert () == node_store.load(task.node).waivers

    def test_there_is_a_bound(self) -> None:
        """They share the room that Ironic has for what is remembered of the node."""
        given = node_state.Granted(
            waiver=waivers._waiver({'paths': ['host-device'], 'reason': 'r', 'expires': until(1)}, 'r', wall_clock.now()),
            since=wall_clock.now(),
        )
        node_store.store(
            self.node, replace(self.node_state, waivers=(replace(given, devices=frozenset({'uuid:x'})),) * waivers.MOST)
        )
        assert states.CLEANFAIL == self.waive(paths=['host-device'], reason='r', expires=until(1))
        assert 'the node has 16 waivers already' in self.node.last_error

    def test_waiving_is_the_operators_right(self) -> None:
        """Not of the project that owns the node, of the one that leases it, or of the system's members."""
        arguments = {'paths': ['host-device'], 'reason': 'r', 'expires': until(1)}
        self.node.provision_state, self.node.lessee = states.ACTIVE, 'b' * 32
        self.node.save()
        for headers in (LESSEE_ADMIN, OWNER_ADMIN, SYSTEM_MEMBER):
            assert 403 == self.serve_as(headers, WAIVE, arguments)
        assert 202 == self.serve_as(SYSTEM_ADMIN, WAIVE, arguments)
