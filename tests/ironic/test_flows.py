# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Our steps in less common flows: deploy templates, Ironic's ramdisk, nodes that no tenant gets, and adoption."""

from pathlib import Path
from typing import Any

import pytest
from ironic.common import states
from ironic.common.exception import InvalidParameterValue
from ironic.conductor import task_manager
from ironic.conf import CONF

from baremetal_acc.model.job import Flow
from baremetal_acc_ironic.steps import host_hold
from tests.ironic.case import GPU_NEW, GPU_OLD, IronicCase


class FpgaCase(IronicCase):
    """A cleaned machine with an FPGA."""

    product = 'fpga-server'
    parameters = {}  # noqa: RUF012

    def setUp(self) -> None:
        super().setUp()
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error

    def function(self, slot: int) -> str:
        """The machine's truth."""
        slots = {k: c for k, c in self.machine.truth()['components'].items() if k.endswith(f'Slot{slot}')}
        return str(next(iter(slots.values()))['active']['function'])

    def deploy_with(self, priority: int, **functions: str) -> None:
        """Deploy with a program step, as a deploy template would add it."""
        step = {
            'interface': 'firmware',
            'step': 'program_accelerators',
            'priority': priority,
            'args': {'functions': functions},
        }
        self.service.do_node_deploy(self.context, self.node.uuid, deploy_steps=[step])


class TestTenantsFunction(FpgaCase):
    """A function that is programmed for one deployment."""

    def test_it_comes_before_the_baselines_until_the_node_is_cleaned(self) -> None:
        """Programmed before the locks are engaged, verified as it was asked for, and gone with the next cleaning."""
        assert ('gzip', 'aes') == (self.function(0), self.function(1))
        self.deploy_with(130, Slot1='gzip')
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert ('gzip', 'gzip') == (self.function(0), self.function(1))
        self.serve('verify_accelerators')
        assert states.ACTIVE == self.settle(), self.node.last_error
        self.service.do_node_tear_down(self.context, self.node.uuid)
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert ('gzip', 'aes') == (self.function(0), self.function(1))

    def test_programmed_after_the_verification_it_verifies_by_itself(self) -> None:
        """The template put it below 110: its own end demands everything, and its evidence serves no later deploy."""
        self.deploy_with(105, Slot0='aes')
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert 'aes' == self.function(0)
        assert True is self.node_state.handed_over
        evidence, life = self.node_state.evidence, self.node_state.lifecycle
        assert all(e.lifecycle < life for e in evidence)

    def test_programmed_after_the_verification_with_a_lock_open_the_deploy_fails(self) -> None:
        """A lock that opens meanwhile is found by the last step that touches the card."""
        self.machine.fault('lock-lost-on-reset')
        self.machine.fault('lock-ignored')
        self.deploy_with(105, Slot0='aes')
        assert states.DEPLOYFAIL == self.settle()
        assert 'program_accelerators: FPGA PAC D5005 FPGA1, lock host-device' in self.node.last_error


class TestRamdisk(IronicCase):
    """Ironic's own ramdisk runs on the host."""

    def held(self, flow: Flow, **info: Any) -> bool:
        """Whether the host is powered off before anything is opened."""
        self.node.driver_internal_info = info
        self.node.save()
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            return host_hold.must_hold_host(task, flow)

    def test_only_in_cleaning_and_only_while_it_runs_the_host_stays_on(self) -> None:
        """Everywhere else somebody else's code may run."""
        agent = 'https://192.0.2.1:9999'
        assert False is self.held(Flow.CLEAN, agent_url=agent)
        assert True is self.held(Flow.CLEAN)
        assert True is self.held(Flow.CLEAN, agent_url=agent, cleaning_disable_ramdisk=True)
        assert True is self.held(Flow.SERVICE, agent_url=agent)
        assert True is self.held(Flow.DEPLOY, agent_url=agent)

    def test_a_ramdisk_that_a_tenant_had_a_word_in_is_none(self) -> None:
        """Its kernel takes an address of another agent, or a shell, from instance_info, which the tenant's admins write."""
        self.node.instance_info = {'kernel_append_params': 'ipa-api-url=https://192.0.2.66'}
        assert True is self.held(Flow.CLEAN, agent_url='https://192.0.2.1:9999')

    def test_with_trust_ramdisk_off_whatever_answers_as_the_ramdisk_is_powered_off(self) -> None:
        """Ironic takes for its ramdisk what asks first with the node's MAC: that may be what a tenant left to be booted."""
        self.config(group='baremetal_acc', trust_ramdisk=False)
        step = {'interface': 'firmware', 'step': 'update_accelerator_firmware', 'priority': 0, 'requires_ramdisk': False}
        self.node.driver_internal_info = {'agent_url': 'https://192.0.2.1:9999', 'clean_steps': [step]}
        self.node.provision_state, self.node.target_provision_state = states.CLEANWAIT, states.MANAGEABLE
        self.node.save()
        self.service.continue_node_clean(self.context, self.node.uuid)  # as it does when the ramdisk has called
        assert states.MANAGEABLE == self.settle(), self.node.last_error
        asked = [(e['path'].rsplit('/', 1)[-1], (e['body'] or {}).get('ResetType')) for e in self.machine.log()]
        off = asked.index(('ComputerSystem.Reset', 'ForceOff'))
        wrote = [n for n, (path, _) in enumerate(asked) if 'Reset' not in path]
        assert off < min(wrote), asked


class TestOperatorsOwn(IronicCase):
    """Nodes that no tenant gets."""

    baseline = 'format = 1\n'

    def test_a_node_that_nobody_is_exposed_on_needs_no_lock(self) -> None:
        """There is nothing to do, and the step ends at once, having looked. Reconciling has had the exposure taken."""
        self.node.driver_info = self.node.driver_info | {'acc_exposure': 'none'}
        self.node.save()
        self.clean('reconcile_accelerators')
        assert states.MANAGEABLE == self.settle(), self.node.last_error
        self.clean('lock_accelerators')
        self.node.refresh()
        assert states.MANAGEABLE == self.node.provision_state, self.node.last_error
        assert [] == self.machine.log()
        assert GPU_OLD == self.version('host/HGX_FW_GPU_0')


class TestAdopted(IronicCase):
    """A node that was running before Ironic had it."""

    def test_a_service_step_for_one_card_locks_all_and_gives_the_host_back(self) -> None:
        """No deploy step ever ran on it; the other card's lock is proven too before the host may run."""
        self.node.provision_state = states.ACTIVE
        self.node.save()
        with task_manager.acquire(self.context, self.node.uuid, shared=False) as task:
            task.driver.inspect.inspect_hardware(task)
        self.node.refresh()
        self.serve({'step': 'update_accelerator_firmware', 'args': {'devices': [self.gpu(1)]}})
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert (GPU_OLD, GPU_NEW) == (self.version('host/HGX_FW_GPU_0'), self.version('host/HGX_FW_GPU_1'))
        locks = self.locks()
        assert all(locks[f'HGX_ERoT_GPU_{n}/InbandUpdatePolicyEnabled'] for n in (0, 1))
        assert 'On' == self.machine.truth()['systems']['host']['power']
        assert 'HGX_FW_GPU_1 of uuid' in self.history()[-1]


class TestWithoutRules(IronicCase):
    """Nobody has written a baseline yet."""

    def test_a_read_needs_none(self) -> None:
        """Inspection and the inventory step tell what is there; whether steps may run that judge is told as before."""
        Path(CONF.baremetal_acc.baseline).unlink()
        with task_manager.acquire(self.context, self.node.uuid, shared=False) as task:
            task.driver.inspect.inspect_hardware(task)
            task.driver.firmware.inventory_accelerators(task)
            with pytest.raises(InvalidParameterValue, match='cannot be read'):
                task.driver.firmware.validate(task)
        self.node.refresh()
        assert self.gpu(0)
