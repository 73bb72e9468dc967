# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What was proven, waived and asked for ends with the deployment, also of a node that is adopted or that stays ``active``."""

import time
from unittest import mock

import pytest
from ironic.common import exception, states
from ironic.conductor import task_manager
from ironic.conductor import utils as conductor_utils
from oslo_messaging.rpc.dispatcher import ExpectedException

from baremetal_acc.errors import CertificateInvalid
from baremetal_acc_ironic.power import PowerRefused
from baremetal_acc_ironic.state import certificate, node_store
from tests.ironic.test_api import LESSEE_MEMBER
from tests.ironic.test_host_start import StartCase


class TestUndeployed(StartCase):
    """The deployment is over, and no step of ours has run since."""

    def undeployed(self) -> None:
        """Without cleaning, and no periodic has come by since."""
        self.deployed()
        self.config(automated_clean=False, group='conductor')
        self.service.do_node_tear_down(self.context, self.node.uuid)
        assert self.node_state.proven is not None
        assert states.AVAILABLE == self.node.provision_state

    def adopted_past_the_api(self) -> None:
        """By the conductor, in which an adoption calls nothing of ours."""
        for verb, reached in (('manage', states.MANAGEABLE), ('adopt', states.ACTIVE)):
            self.service.do_provisioning_action(self.context, self.node.uuid, verb)
            self.node.refresh()
            assert reached == self.node.provision_state, self.node.last_error

    def start_is_refused(self) -> None:
        """By the API, and by the conductor."""
        assert self.power(LESSEE_MEMBER, states.POWER_ON) in (400, 409)
        with (
            task_manager.acquire(self.context, self.node.uuid, shared=False) as task,
            pytest.raises(PowerRefused, match='no verification has proven'),
        ):
            conductor_utils.node_power_action(task, states.POWER_ON)
        self.node.refresh()
        assert 'Off' == self.host

    def test_whoever_adopts_an_undeployed_node_at_once_finds_nothing_proven(self) -> None:
        """The proof, the certificate and the waivers are still stored, and do not count. A service proves the node anew."""
        self.undeployed()
        before = self.node_state
        self.adopted_past_the_api()
        assert (True, before.proven) == (self.node_state.ending, self.node_state.proven)
        self.start_is_refused()
        with pytest.raises(CertificateInvalid, match='an undeploy of the node has begun'):
            certificate.of(self.node)
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            task.driver.firmware.end_proofs(self.service, self.context)
        found = self.node_state
        assert (None, True) == (found.proven, found.certificate is not None and found.certificate.superseded)
        assert not node_store.of_deployment(self.node.driver_internal_info)
        self.start_is_refused()
        self.serve('verify_accelerators')
        assert states.SERVICEFAIL == self.settle()
        self.start_is_refused()
        self.be(states.ACTIVE, maintenance=False, fault=None)
        self.serve('lock_accelerators')
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert (before.lifecycle + 1, False) == (self.node_state.lifecycle, self.node_state.ending)
        assert 202 == self.power(LESSEE_MEMBER, states.POWER_ON), self.said
        assert 'On' == self.host

    def test_an_undeploy_that_is_refused_takes_nothing_away(self) -> None:
        """The node is protected, or in a state from which Ironic does not undeploy."""
        self.deployed()
        for state, values in ((states.ACTIVE, {'protected': True}), (states.RESCUING, {'protected': False})):
            self.be(state, **values)
            with pytest.raises(ExpectedException) as refused:
                self.service.do_node_tear_down(self.context, self.node.uuid)
            assert refused.value.exc_info[0] in (exception.NodeProtected, exception.InvalidStateRequested)
            assert not self.node_state.ending
        self.be(states.ACTIVE)
        certificate.of(self.node)
        assert 202 == self.power(LESSEE_MEMBER, states.POWER_ON), self.said

    def test_an_undeploy_for_which_no_worker_is_free_has_begun_all_the_same(self) -> None:
        """The node is active again, as an adopted one is; a service proves it."""
        self.deployed()
        busy = exception.NoFreeConductorWorker()
        with (
            mock.patch.object(self.service, '_spawn_worker', side_effect=busy),
            pytest.raises(ExpectedException),
        ):
            self.service.do_node_tear_down(self.context, self.node.uuid)
        assert self.node_state.ending
        assert states.ACTIVE == self.node.provision_state
        self.start_is_refused()
        self.serve('lock_accelerators')
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert 202 == self.power(LESSEE_MEMBER, states.POWER_ON), self.said


class TestRebuild(StartCase):
    """Through a deploy interface that images nothing; the tenant's code runs while the node is rebuilt."""

    def lose_locks(self) -> None:
        """Somebody restarts the host at its button."""
        self.machine.fault('lock-lost-on-reset')
        self.machine.power('ForceRestart')
        end = time.monotonic() + 10
        while all(self.locks().values()) or self.machine.truth()['systems']['host']['booting']:
            assert time.monotonic() < end, self.locks()
            time.sleep(0.02)
        self.machine.clear_faults()

    def test_one_that_is_refused_leaves_the_host_on_and_lets_nobody_have_its_cards(self) -> None:
        """The host is as before the request; it may go off and then stays off. Cleaning writes the cards again."""
        self.deployed()
        assert 202 == self.power(LESSEE_MEMBER, states.POWER_ON), self.said
        self.lose_locks()
        self.machine.fault('lock-ignored')
        before = len(self.resets())
        self.node.refresh()
        self.node.instance_info = {'image_source': 'http://192.0.2.1/x'}  # without it Ironic's rebuild fails by itself
        self.node.save()
        self.service.do_node_deploy(self.context, self.node.uuid, rebuild=True)
        assert states.DEPLOYFAIL == self.settle()
        assert 'lock_accelerators' in self.node.last_error
        assert ('On', before) == (self.host, len(self.resets()))
        gpus = frozenset({self.gpu(0), self.gpu(1)})
        assert gpus <= self.node_state.exposed
        assert self.power(LESSEE_MEMBER, states.REBOOT) in (400, 409)
        assert 202 == self.power(LESSEE_MEMBER, states.POWER_OFF), self.said
        assert self.power(LESSEE_MEMBER, states.POWER_ON) in (400, 409)
        assert 'Off' == self.host
        self.machine.clear_faults()
        self.service.do_node_deploy(self.context, self.node.uuid, rebuild=True)
        assert states.DEPLOYFAIL == self.settle()
        assert 'was not written again' in self.node.last_error
        uploads = self.uploads()
        self.service.do_node_tear_down(self.context, self.node.uuid)
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert (uploads + len(gpus), frozenset()) == (self.uploads(), self.node_state.exposed)

    def uploads(self) -> int:
        """Images that were sent to the machine."""
        return sum(1 for e in self.machine.log() if e['method'] == 'POST' and 'update' in e['path'].lower())

    def test_what_the_host_does_after_the_refusal_is_compared_when_the_node_comes_back(self) -> None:
        """It goes on running, so its locks may be lost later: the cards are written again, too."""
        self.deployed()
        assert 202 == self.power(LESSEE_MEMBER, states.POWER_ON), self.said
        good = (self._folder / 'baseline.toml').read_text()
        (self._folder / 'baseline.toml').write_text(good.replace('block = ["host-device"]', 'block = ["host-bmc-ipmi"]'))
        self.node.refresh()
        self.node.instance_info = {'image_source': 'http://192.0.2.1/x'}
        self.node.save()
        for _ in range(2):
            self.service.do_node_deploy(self.context, self.node.uuid, rebuild=True)
            assert states.DEPLOYFAIL == self.settle()
            assert 'no mechanism blocks this path' in self.node.last_error
            assert frozenset() == self.node_state.exposed
        told = [e for e in self.history() if 'differences from how the node was handed over: none' in e]
        assert 1 == len(told)
        (self._folder / 'baseline.toml').write_text(good)
        self.lose_locks()
        uploads = self.uploads()
        self.service.do_node_tear_down(self.context, self.node.uuid)
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert (uploads + 2, frozenset()) == (self.uploads(), self.node_state.exposed)
        assert any('differences from how the node was handed over: ' in e and 'none' not in e for e in self.history())
