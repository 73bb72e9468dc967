# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Ironic finds our steps, runs them in the order of their priorities, and checks their arguments."""

from pathlib import Path
from unittest import mock

import fixtures
import pytest
from ironic.common import exception, states
from ironic.conductor import steps as conductor_steps
from ironic.conductor import task_manager
from oslo_config import cfg

from baremetal_acc.errors import UsageError
from baremetal_acc_ironic import opts, settings
from baremetal_acc_ironic.authorization import policy
from baremetal_acc_ironic.firmware import RedfishAccFirmware
from baremetal_acc_ironic.steps import definitions
from tests.ironic.case import IronicCase

NAMES = {
    'reconcile_accelerators',
    'inventory_accelerators',
    'verify_accelerators',
    'unlock_accelerators',
    'lock_accelerators',
    'update_accelerator_firmware',
    'program_accelerators',
    'publish_accelerators',
    'waive_accelerator_locks',
    'allow_host_start',
    'accept_accelerator_custody',
}


class TestDiscovery(IronicCase):
    """As Ironic's conductor finds them."""

    def test_the_steps_and_their_priorities(self) -> None:
        """Automated cleaning reconciles; a deploy locks, then verifies, before anything is imaged; all else is asked for."""
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            clean = {s['step']: s['priority'] for s in task.driver.firmware.get_clean_steps(task)}
            deploy = {s['step']: s['priority'] for s in task.driver.firmware.get_deploy_steps(task)}
            service = {s['step']: s['priority'] for s in task.driver.firmware.get_service_steps(task)}
            in_order = [s['step'] for s in conductor_steps._get_deployment_steps(task, enabled=True)]
        assert {'reconcile_accelerators': 90} == {n: p for n, p in clean.items() if n in NAMES and p}
        assert {'lock_accelerators': 120, 'verify_accelerators': 110} == {n: p for n, p in deploy.items() if n in NAMES and p}
        assert (NAMES, NAMES - {'allow_host_start', 'accept_accelerator_custody'}) == (
            NAMES & clean.keys(),
            NAMES & service.keys(),
        )
        assert {'update_accelerator_firmware', 'program_accelerators'} == (NAMES & deploy.keys()) - {
            'lock_accelerators',
            'verify_accelerators',
        }
        assert ['lock_accelerators', 'verify_accelerators', 'deploy'] == in_order

    def test_no_step_needs_a_ramdisk_and_none_can_be_cut_off(self) -> None:
        """Everything is out of band, and a flash that is aborted half way is a broken card."""
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            found = [s for s in task.driver.firmware.get_clean_steps(task) if s['step'] in NAMES]
            found += [s for s in task.driver.firmware.get_service_steps(task) if s['step'] in NAMES]
        assert 2 * len(NAMES) - 2 == len(found)
        assert {(False, False)} == {(s['requires_ramdisk'], s['abortable']) for s in found}

    def test_every_step_has_a_rule(self) -> None:
        """A step without a rule may be run by the admin of a tenant's project."""
        ruled = {r.name.removeprefix('baremetal:step:execute:firmware.') for r in policy.list_policies()}
        assert NAMES <= ruled

    def test_the_table_of_steps_is_the_interface(self) -> None:
        """Steps, table and class name the same ones."""
        assert NAMES == set(definitions.STEPS)

    def test_validation_reads_the_operators_documents(self) -> None:
        """``baremetal node validate`` says what a step would fail with."""
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            task.driver.firmware.validate(task)
            path = self._folder / 'baseline.toml'
            path.write_text('format = 1\n[[rule]]\nnmae = "x"\n')
            with pytest.raises(exception.InvalidParameterValue, match=f'{path}, line 3'):
                task.driver.firmware.validate(task)

    def test_a_configuration_that_undoes_what_this_is_for_is_told_at_start(self) -> None:
        """Both are silent in Ironic itself."""
        self.config(group='api', middleware=['baremetal-acc-policy'])
        assert [] == list(policy.shortcomings())
        self.config(group='api', middleware=[], disallow_deploy_steps=['firmware.verify_accelerators', 'vendor.send_raw'])
        (one, first), (two, second) = policy.shortcomings()
        assert ('middleware', 'disallow_deploy_steps') == (one, two)
        assert '[api] middleware does not name baremetal-acc-policy' in first
        assert '[api] disallow_deploy_steps names firmware.verify_accelerators' in second
        self.config(group='api', middleware=['baremetal-acc-policy'], disallow_deploy_steps=[])
        for name in NAMES:
            self.config(group='api', disallow_service_steps=[f'firmware.{name}'])
            assert ['disallow_service_steps'] == [found for found, _ in policy.shortcomings()], name

    def test_a_conductor_does_not_start_with_a_shortcoming_that_nobody_has_accepted_by_name(self) -> None:
        """The error names the option and what to do; one that is accepted is told at every start."""
        self.config(group='api', middleware=['baremetal-acc-policy'], disallow_deploy_steps=['firmware.lock_accelerators'])
        self.config(group='baremetal_acc', accepted_misconfigurations=['middleware', 'disallow_clean_steps'])
        with pytest.raises(exception.DriverLoadError, match=r'\[api\] disallow_deploy_steps names firmware.lock_acc') as caught:
            RedfishAccFirmware()
        assert 'add disallow_deploy_steps to [baremetal_acc] accepted_misconfigurations' in str(caught.value)
        self.config(group='baremetal_acc', accepted_misconfigurations=['disallow_deploy_steps'])
        RedfishAccFirmware()
        self.config(group='api', middleware=[])
        with pytest.raises(exception.DriverLoadError, match=r'\[api\] middleware does not name baremetal-acc-policy'):
            RedfishAccFirmware()

    def test_a_conductor_does_not_start_with_an_option_that_has_no_value(self) -> None:
        """Nor with one of its own options: the watch would fail on it hours later."""
        for name, value, said in (
            ('watch_interval', 'nan', r'\[baremetal_acc\] watch_interval: nan is not finite'),
            ('power_off_untended_host', 'maybe', r'\[baremetal_acc\] power_off_untended_host: Unexpected boolean value'),
            ('poll_interval', '', r'\[baremetal_acc\] poll_interval: is empty'),
        ):
            wrong = cfg.ConfigOpts()
            opts.register(wrong)
            path = Path(self.useFixture(fixtures.TempDir()).path) / 'ironic.conf'
            path.write_text(f'[baremetal_acc]\n{name} = {value}\n')
            wrong(args=[], project='ironic', default_config_files=[str(path)], default_config_dirs=[])
            with mock.patch.object(settings, 'CONF', wrong), pytest.raises(exception.DriverLoadError, match=said):
                RedfishAccFirmware()

    def test_a_conductor_does_not_start_with_a_deploy_interface_for_tenants_that_ironic_does_not_have(self) -> None:
        """The error names the option, what is wrong in it, and what there is; one that is not enabled here may be."""
        self.config(group='baremetal_acc', tenant_deploy_interfaces=['ansible', 'drect'])
        with pytest.raises(
            exception.DriverLoadError,
            match=r"\[baremetal_acc\] tenant_deploy_interfaces: Ironic has no deploy interface 'drect'",
        ) as caught:
            RedfishAccFirmware()
        assert 'direct' in str(caught.value).partition('installed: ')[2]
        self.config(group='baremetal_acc', tenant_deploy_interfaces=['ansible', 'direct'])
        RedfishAccFirmware()

    def test_a_wrong_argument_fails_the_step_before_any_bmc_is_asked(self) -> None:
        """The node's error names step, argument, value and what to do."""
        self.machine.reset_log()
        self.clean({'step': 'program_accelerators', 'args': {'functions': {'Slot0': 7}}})
        assert states.CLEANFAIL == self.settle()
        assert "argument functions[Slot0]: 7 is not of type 'string'" in self.node.last_error
        assert [] == self.machine.log()

    def test_a_function_that_the_catalogue_lacks_is_refused_by_name(self) -> None:
        """Arguments name what the operator wrote down, nothing else."""
        self.clean({'step': 'program_accelerators', 'args': {'functions': {'Slot0': 'bitcoin'}}})
        assert states.CLEANFAIL == self.settle()
        assert (
            "argument functions[Slot0]: the catalogue has no function 'bitcoin' (functions: aes, gzip)" in self.node.last_error
        )

    def test_a_device_that_is_not_there_is_refused_with_those_that_are(self) -> None:
        """Nobody has to guess what a device is called."""
        self.clean({'step': 'update_accelerator_firmware', 'args': {'devices': ['GPU_9']}})
        assert states.CLEANFAIL == self.settle()
        assert "'GPU_9' matches no device of this node" in self.node.last_error
        assert 'NVIDIA H100 80GB HBM3 GPU_0 (uuid:' in self.node.last_error
        assert [] == self.machine.log()


@pytest.mark.parametrize(
    ('step', 'given', 'where'),
    [
        (definitions.UPDATE, {'devices': 'GPU_0'}, "argument devices: 'GPU_0' is not of type 'array'"),
        (definitions.UPDATE, {'devices': ['GPU_0', 5]}, "argument devices[1]: 5 is not of type 'string'"),
        (definitions.UPDATE, {'devices': []}, 'argument devices: [] should be non-empty'),
        (definitions.PROGRAM, {'functions': {'Slot0': ''}}, "argument functions[Slot0]: '' should be non-empty"),
        (definitions.LOCK, {'url': 'https://a:b@c'}, 'arguments: Additional properties are not allowed'),
        (definitions.RECONCILE, {'devices': ['GPU_0']}, 'arguments: Additional properties are not allowed'),
    ],
)
def test_arguments_are_refused_by_name_and_value(step: definitions.Step, given: dict[str, object], where: str) -> None:
    """Ironic checks names only, and what it stores is not changed by us."""
    kept = dict(given)
    with pytest.raises(UsageError) as caught:
        step.arguments(given)
    assert str(caught.value).startswith(where)
    assert kept == given


class TestAConductorWithoutOurSteps(IronicCase):
    """Its configuration takes away a step that a deploy needs."""

    def setUp(self) -> None:
        """Nothing of it comes up."""
        with pytest.raises(exception.DriverLoadError) as caught:
            super().setUp()
        self.why = str(caught.value)

    def _configure(self) -> None:
        super()._configure()
        self.config(group='api', disallow_deploy_steps=['firmware.verify_accelerators'])

    def test_it_does_not_start_and_says_what_to_do(self) -> None:
        """By the error that Ironic's conductor ends with."""
        assert 'Driver, hardware type or interface redfish-acc could not be loaded' in self.why
        assert '[api] disallow_deploy_steps names firmware.verify_accelerators' in self.why
        assert 'add disallow_deploy_steps to [baremetal_acc] accepted_misconfigurations' in self.why
