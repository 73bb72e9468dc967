# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Every flow of Ironic that can lead to a deploy ends as the table says, and starts no host unproven.

The rows are in ``deploy_ways.py``, with what each of them means; a test is named after the key of its row.
"""

import ast
import time
from dataclasses import replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from ironic import objects
from ironic.common import cinder, states, utils
from ironic.conductor import manager as conductor_manager
from ironic.conductor import task_manager
from ironic.conductor import utils as manager_utils
from ironic.drivers.modules.network.noop import NoopNetwork

from baremetal_acc_ironic.power import PowerRefused
from baremetal_acc_ironic.state import node_store
from tests.ironic import deploy_ways, releases
from tests.ironic.api import is_refused
from tests.ironic.case import NO_DEPLOY
from tests.ironic.deploy_case import GROUP, INSTANCE, NETWORK, RAMDISK, RECORD, DeployCase, RecordingBoot
from tests.ironic.deploy_ways import TABLES, WAYS, Kind
from tests.ironic.test_api import LESSEE_ADMIN, LESSEE_MEMBER, OWNER_MEMBER, SYSTEM_ADMIN

INVENTORY = {
    'interfaces': [{'name': 'em0', 'mac_address': '52:54:00:00:00:01', 'ipv4_address': '192.0.2.7', 'has_carrier': True}],
    'cpu': {'count': 1, 'architecture': 'x86_64'},
    'memory': {'physical_mb': 1024},
    'disks': [{'name': '/dev/sda', 'size': 10**11}],
    'boot': {'current_boot_mode': 'uefi', 'pxe_interface': '52:54:00:00:00:01'},
    'bmc_address': '192.0.2.1',
}
BOOT = {'interface': 'deploy', 'step': 'boot_instance', 'args': {}}
VERIFY = {'interface': 'firmware', 'step': 'verify_accelerators', 'args': {}}
LOCK = {'interface': 'firmware', 'step': 'lock_accelerators', 'args': {}}
HOLD = {'interface': 'deploy', 'step': 'hold', 'args': {}}
TRAIT = 'CUSTOM_WAY'


class WayCase(DeployCase):
    """Asserts what the row of a way says."""

    def ends(self, key: str) -> None:
        """The node, the host and what is said are as the row has it; and no start of the host was unsafe."""
        end = WAYS[key].end
        said = f'{self.node.last_error} {self.said}'
        assert end.state == self.node.provision_state, said
        for words in end.says:
            assert words in said.replace('\\', '')
        assert end.host == self.host()
        match end.kind:
            case Kind.DEPLOYED:
                assert set() == self.open_locks()
                assert self.node_state.proven is not None
                assert all(s.verified for s in RECORD.starts), RECORD.starts
            case Kind.REFUSED if end.host == 'Off':
                assert [] == [s for s in RECORD.starts if s.source != RAMDISK]
        self.assert_safe()

    def deployed(self) -> None:
        """A tenant has the node, and its instance runs."""
        assert 202 == self.provision(LESSEE_ADMIN, 'active'), self.said
        assert states.ACTIVE == self.drive(), self.node.last_error
        assert 'On' == self.host()
        self.forget()

    def power_on_is_refused(self) -> None:
        """To a member of the tenant's project, by the API; and to whatever comes to the conductor all the same."""
        assert self.switch('power on', LESSEE_MEMBER) in (400, 409), self.said
        with (
            task_manager.acquire(self.context, self.node.uuid, shared=False) as task,
            pytest.raises(PowerRefused),
        ):
            manager_utils.node_power_action(task, states.POWER_ON)
        self.node.refresh()
        assert [] == RECORD.starts

    def unlock(self) -> None:
        """An operator releases the locks of a node in service, and does not engage them again."""
        steps = [{'interface': 'firmware', 'step': 'unlock_accelerators'}]
        assert 202 == self.provision(SYSTEM_ADMIN, 'service', service_steps=steps), self.said
        self.service_has_ended()
        assert self.open_locks()
        self.forget()

    def service_has_ended(self) -> None:
        """By steps that leave the host unproven: an Ironic that starts the host at the end of each service cannot."""
        ended = self.drive()
        if not releases.RAMDISK_IN_EACH_FLOW:
            assert states.ACTIVE == ended, self.node.last_error
            return
        assert (states.SERVICEFAIL, 'Off') == (ended, self.host()), self.node.last_error
        assert 'power on is refused' in self.node.last_error
        self.edit(provision_state=states.ACTIVE, maintenance=False, fault=None)


class TestDeployInterfaces(WayCase):
    """Each deploy begins with a lock that the BMC has lost, which nobody of Ironic has seen."""

    def deploy_by(self, name: str, steps: list[dict[str, Any]] | None = None, **info: Any) -> None:
        self.edit(deploy_interface=name, instance_info=self.node.instance_info | info)
        self.open_a_lock()
        assert 202 == self.provision(LESSEE_ADMIN, 'active', **({'deploy_steps': steps} if steps else {})), self.said
        self.drive()

    def test_direct(self) -> None:
        self.deploy_by('direct')
        self.ends('direct')
        assert [(RAMDISK, 'deploy'), (INSTANCE, 'boot_instance')] == self.started()

    def test_ansible(self) -> None:
        """The playbook is a program that Ironic starts; here one that does nothing but end."""

        def play(*words: str, **_: Any) -> tuple[str, str]:
            if any('shutdown' in word for word in words):
                self.press('ForceOff')
            return '', ''

        with mock.patch.object(utils, 'execute', autospec=True, side_effect=play) as execute:
            self.deploy_by('ansible', image_type='whole-disk')
        self.ends('ansible')
        assert 'ansible-playbook' in execute.call_args_list[0].args
        assert [(RAMDISK, 'deploy'), ('disk', 'boot_instance')] == self.started()

    def test_custom_agent(self) -> None:
        """Steps of the ramdisk run, those of whoever asks too, although a step of ours has waited before it was there."""
        install = {'interface': 'deploy', 'step': 'install_os', 'priority': 80}
        tune = {'interface': 'deploy', 'step': 'tune', 'args': {}, 'priority': 70}
        self.agent.steps['deploy'] += [install, tune | {'priority': 0}]
        self.deploy_by('custom-agent', steps=[tune])
        self.ends('custom_agent')
        assert ['install_os', 'tune'] == self.agent.executed
        assert [(RAMDISK, 'deploy'), (INSTANCE, 'boot_instance')] == self.started()

    def test_bootc(self) -> None:
        self.deploy_by('bootc', image_source='oci://127.0.0.1:1/an/image:latest')
        self.ends('bootc')
        assert [(RAMDISK, 'deploy'), ('disk', 'boot_instance')] == self.started()

    def test_ramdisk(self) -> None:
        self.deploy_by('ramdisk', boot_iso=f'{self.images}/x.img')
        self.ends('ramdisk')
        assert [(INSTANCE, 'deploy')] == self.started()

    def test_anaconda(self) -> None:
        """The installer is no agent: it tells its beginning and its end."""
        self.deploy_by('anaconda')
        assert states.DEPLOYWAIT == self.node.provision_state
        for status in ('start', 'end'):
            self.heartbeat(agent_status=status)
        self.ends('anaconda')
        assert [INSTANCE, 'disk'] == [s.source for s in RECORD.starts]

    def test_noop(self) -> None:
        """Nova, or whoever has it deployed, powers the node on."""
        self.deploy_by(NO_DEPLOY)
        assert [] == RECORD.starts
        assert 202 == self.switch('power on', LESSEE_MEMBER)
        self.ends('noop')
        assert 1 == len(RECORD.starts)

    def test_autodetect(self) -> None:
        self.deploy_by('autodetect')
        self.ends('autodetect')
        assert 'direct' == self.node.deploy_interface
        assert [(RAMDISK, 'deploy'), (INSTANCE, 'boot_instance')] == self.started()

    def test_autodetect_ramdisk(self) -> None:
        self.deploy_by('autodetect', boot_iso=f'{self.images}/x.img', ironic_ramdisk_deploy=True)
        self.ends('autodetect_ramdisk')
        assert 'ramdisk' == self.node.deploy_interface
        assert [(INSTANCE, 'deploy')] == self.started()

    def test_fake(self) -> None:
        patch = [{'op': 'replace', 'path': '/deploy_interface', 'value': 'fake'}]
        answer = self.app.patch_json(f'/v1/nodes/{self.node.uuid}', patch, headers=SYSTEM_ADMIN, expect_errors=True)
        self.said = answer.text
        assert 400 == answer.status_int
        self.ends('fake')

    def test_deploy_never_off(self) -> None:
        self.edit(disable_power_off=True)
        self.deploy_by('direct')
        self.ends('deploy_never_off')
        assert [(RAMDISK, 'deploy'), (INSTANCE, 'boot_instance')] == self.started()

    def test_deploy_smart_nic(self) -> None:
        self._monkeypatch.setattr(NoopNetwork, 'need_power_on', lambda _self, _task: True)
        self.deploy_by('direct')
        self.ends('deploy_smart_nic')
        assert 'bios' == RECORD.source
        assert [] == RECORD.starts

    def test_deploy_boot_mode(self) -> None:
        RECORD.boot_mode = 'uefi'
        self.edit(properties={'capabilities': 'boot_mode:bios'})
        self.deploy_by('direct')
        self.ends('deploy_boot_mode')
        assert [] == RECORD.starts


class TestImages(WayCase):
    """Where the system comes from."""

    def boot_from_volume(self, storage: str) -> None:
        self.edit(storage_interface=storage, properties={'capabilities': 'iscsi_boot:true'}, instance_info={})
        values = {'volume_type': 'iscsi', 'boot_index': 0, 'volume_id': 'v', 'properties': {}}
        uuid = '11111111-2222-3333-4444-555555555555'
        objects.VolumeTarget(self.context, node_id=self.node.id, uuid=uuid, **values).create()
        connector = {'type': 'iqn', 'connector_id': 'iqn.2026-11.test:a'}
        objects.VolumeConnector(self.context, node_id=self.node.id, uuid=uuid, **connector).create()
        self.open_a_lock()
        assert 202 == self.provision(LESSEE_ADMIN, 'active'), self.said
        self.drive()

    def test_volume_external(self) -> None:
        self.boot_from_volume('external')
        self.ends('volume_external')
        assert [(INSTANCE, 'boot_instance')] == self.started()

    def test_volume_cinder(self) -> None:
        """Cinder attaches the volume; here nothing does."""
        patched = {'attach_volumes': mock.Mock(return_value=[{'already_attached': True}]), 'detach_volumes': mock.Mock()}
        with mock.patch.multiple(cinder, **patched):
            self.boot_from_volume('cinder')
        self.ends('volume_cinder')
        assert patched['attach_volumes'].called
        assert [(INSTANCE, 'boot_instance')] == self.started()

    def test_fast_track(self) -> None:
        self.config(group='deploy', fast_track=True)
        self.open_a_lock()
        RECORD.choose('prepare_ramdisk', RAMDISK)
        self.press('On')
        self.edit(power_state=states.POWER_ON)
        self.heartbeat()
        self.forget()
        assert 202 == self.provision(LESSEE_ADMIN, 'active'), self.said
        self.drive()
        self.ends('fast_track')
        assert [(INSTANCE, 'boot_instance')] == self.started()

    def test_rebuild_same(self) -> None:
        self.deployed()
        assert 202 == self.provision(LESSEE_ADMIN, 'rebuild'), self.said
        self.drive()
        self.ends('rebuild_same')
        assert [(RAMDISK, 'deploy'), (INSTANCE, 'boot_instance')] == self.started()

    def test_rebuild_lost(self) -> None:
        self.deployed()
        self.open_a_lock()
        assert 202 == self.provision(LESSEE_ADMIN, 'rebuild'), self.said
        self.drive()
        self.ends('rebuild_lost')
        assert [] == RECORD.starts

    def test_rebuild_other(self) -> None:
        self.deployed()
        self.edit(instance_info=self.node.instance_info | {'image_type': 'partition'} | self.image())
        assert 202 == self.provision(LESSEE_ADMIN, 'rebuild'), self.said
        self.drive()
        self.ends('rebuild_other')
        assert [(RAMDISK, 'deploy'), (INSTANCE, 'boot_instance')] == self.started()

    def test_rebuild_unreachable(self) -> None:
        self.deployed()
        self.edit(instance_info=self.node.instance_info | {'image_source': f'{self.images}/gone.img'})
        assert 202 == self.provision(LESSEE_ADMIN, 'rebuild'), self.said
        self.drive()
        self.ends('rebuild_unreachable')

    def test_rebuild_unresolved(self) -> None:
        self.deployed()
        self.edit(instance_info={})
        assert 500 == self.provision(LESSEE_ADMIN, 'rebuild')
        self.ends('rebuild_unresolved')
        assert [] == RECORD.starts


class TestSteps(WayCase):
    """What whoever asks for a flow puts into it."""

    def deploy_with(self, headers: dict[str, str], *steps: dict[str, Any]) -> None:
        self.open_a_lock()
        assert 202 == self.provision(headers, 'active', deploy_steps=list(steps)), self.said
        self.drive()

    def deploy_with_template(self, *steps: dict[str, Any]) -> None:
        objects.TraitList.create(self.context, self.node.id, [TRAIT])
        self.edit(instance_info=self.node.instance_info | {'traits': [TRAIT]})
        uuid = '11111111-2222-3333-4444-555555555555'
        objects.DeployTemplate(self.context, name=TRAIT, uuid=uuid, steps=list(steps), extra={}).create()
        self.open_a_lock()
        assert 202 == self.provision(LESSEE_ADMIN, 'active'), self.said
        self.drive()

    def runbook(self, name: str, *steps: dict[str, Any]) -> None:
        """A tenant's own runbook, for which the operator has approved the node."""
        body = {'name': name, 'steps': [step | {'order': n} for n, step in enumerate(steps)]}
        assert 201 == self.app.post_json('/v1/runbooks', body, headers=LESSEE_ADMIN).status_int
        if releases.RUNBOOKS_HAVE_TRAITS:
            self.app.put_json(f'/v1/runbooks/{name}/traits', {'traits': [name]}, headers=LESSEE_ADMIN)
        objects.TraitList.create(self.context, self.node.id, [name])

    def test_step_in_front(self) -> None:
        self.deploy_with(LESSEE_ADMIN, BOOT | {'priority': 130})
        self.ends('step_in_front')
        assert [] == RECORD.starts

    def test_step_at_110(self) -> None:
        self.deploy_with(LESSEE_ADMIN, BOOT | {'priority': 110})
        self.ends('step_at_110')
        assert [] == RECORD.starts

    def test_template_in_front(self) -> None:
        self.deploy_with_template(BOOT | {'priority': 130})
        self.ends('template_in_front')
        assert [] == RECORD.starts

    def test_verify_left_out(self) -> None:
        """The owner's member may name the step, the lessee's admin may not."""
        assert is_refused(self, self.provision(LESSEE_ADMIN, 'active', deploy_steps=[VERIFY | {'priority': 0}]))
        self.deploy_with(OWNER_MEMBER, VERIFY | {'priority': 0})
        self.ends('verify_left_out')

    def test_verify_late(self) -> None:
        self.edit(deploy_interface='ramdisk', instance_info={'boot_iso': f'{self.images}/x.img'})
        self.deploy_with(OWNER_MEMBER, VERIFY | {'priority': 50})
        self.ends('verify_late')
        assert [] == RECORD.starts

    def test_template_leaves_out(self) -> None:
        self.deploy_with_template(VERIFY | {'priority': 0})
        self.ends('template_leaves_out')

    def test_lock_left_out(self) -> None:
        self.deploy_with_template(LOCK | {'priority': 0})
        self.ends('lock_left_out')
        assert [] == RECORD.starts

    def test_deploy_by_runbook(self) -> None:
        self.runbook(TRAIT, BOOT)
        assert 400 == self.provision(LESSEE_ADMIN, 'active', runbook=TRAIT)
        self.ends('deploy_by_runbook')

    def test_clean_by_runbook(self) -> None:
        self.runbook(TRAIT, BOOT | {'interface': 'power', 'step': 'power_on'}, HOLD)
        self.edit(provision_state=states.MANAGEABLE)
        self.open_a_lock()
        assert 202 == self.provision(LESSEE_ADMIN, 'clean', runbook=TRAIT), self.said
        self.drive()
        self.ends('clean_by_runbook')

    def test_deploy_hold(self) -> None:
        """Ironic knows the step, and runs it nowhere; a name that it did run would be in front of ours."""
        for step in ('hold', 'wait'):
            self.deploy_with(LESSEE_ADMIN, HOLD | {'step': step, 'priority': 130})
            assert [] == RECORD.starts, step
            assert f'deploy.{step} (priority 130)' in self.node.last_error
            self.edit(provision_state=states.AVAILABLE, instance_info=self.image())
        self.deploy_with(LESSEE_ADMIN, HOLD | {'priority': 105})
        assert states.ACTIVE == self.node.provision_state
        self.assert_safe()
        self.edit(provision_state=states.AVAILABLE, instance_info=self.image())
        self.switch('power off')
        self.forget()
        self.deploy_with(LESSEE_ADMIN, HOLD | {'priority': 130})
        self.ends('deploy_hold')

    def test_power_on_in_deploy_hold(self) -> None:
        """Ironic 39 never comes there by itself."""
        self.open_a_lock()
        self.edit(provision_state=states.DEPLOYHOLD)
        self.power_on_is_refused()
        self.ends('power_on_in_deploy_hold')

    def test_service_hold(self) -> None:
        self.deployed()
        steps = [HOLD, HOLD | {'interface': 'power', 'step': 'reboot'}]
        assert 202 == self.provision(LESSEE_ADMIN, 'service', service_steps=steps, disable_ramdisk=True), self.said
        self.drive()
        self.ends('service_hold')

    def test_power_on_in_service_hold(self) -> None:
        """Ironic 39 never comes there by itself."""
        self.deployed()
        self.unlock()
        self.edit(provision_state=states.SERVICEHOLD)
        self.power_on_is_refused()
        self.ends('power_on_in_service_hold')

    def test_clean_hold(self) -> None:
        """Ironic 39 never comes there by itself."""
        self.open_a_lock()
        self.edit(provision_state=states.CLEANHOLD)
        self.power_on_is_refused()
        self.ends('clean_hold')


class TestTenantsFlows(WayCase):
    """Flows of a node that a tenant has."""

    def test_adopt(self) -> None:
        self.open_a_lock()
        self.edit(provision_state=states.MANAGEABLE)
        assert 202 == self.provision(OWNER_MEMBER, 'adopt'), self.said
        assert states.ACTIVE == self.drive(), self.node.last_error
        self.power_on_is_refused()
        self.ends('adopt')
        steps = [{'interface': 'firmware', 'step': 'lock_accelerators'}]
        assert 202 == self.provision(SYSTEM_ADMIN, 'service', service_steps=steps), self.said
        assert states.ACTIVE == self.drive(), self.node.last_error
        assert 202 == self.switch('power on', LESSEE_MEMBER), self.said
        assert ('On', set()) == (self.host(), self.open_locks())

    def test_adopt_unwritten(self) -> None:
        """Steps that tenants may have would prove the locks closed."""
        cards = self.node_state.known
        node_store.store(self.node, replace(self.node_state, exposed=cards))
        self.edit(provision_state=states.MANAGEABLE)
        assert 202 == self.provision(LESSEE_ADMIN, 'adopt'), self.said
        assert states.ACTIVE == self.drive(), self.node.last_error
        asked = ((LESSEE_ADMIN, 'program'), (OWNER_MEMBER, 'verify'), (SYSTEM_ADMIN, 'lock'))
        for who_asks, step in asked:
            steps = [{'interface': 'firmware', 'step': f'{step}_accelerators'}]
            assert 202 == self.provision(who_asks, 'service', service_steps=steps), self.said
            self.service_has_ended()
            assert (None, cards) == (self.node_state.proven, self.node_state.exposed)
        self.power_on_is_refused()
        self.ends('adopt_unwritten')

    def test_rescue(self) -> None:
        self.deployed()
        assert 202 == self.provision(LESSEE_ADMIN, 'rescue', rescue_password='x'), self.said
        assert states.RESCUE == self.drive(), self.node.last_error
        assert 'finalize_rescue' in self.agent.names
        assert 202 == self.provision(LESSEE_ADMIN, 'unrescue'), self.said
        self.drive()
        self.ends('rescue')
        assert [RAMDISK, INSTANCE] == [s.source for s in RECORD.starts]

    def test_rescue_opened(self) -> None:
        self.deployed()
        self.unlock()
        assert 202 == self.provision(LESSEE_ADMIN, 'rescue', rescue_password='x'), self.said
        self.drive()
        self.ends('rescue_opened')
        assert [] == RECORD.starts

    def serve(self) -> None:  # type: ignore[override]
        steps = [{'interface': 'deploy', 'step': 'burnin_cpu', 'args': {}}]
        assert 202 == self.provision(LESSEE_ADMIN, 'service', service_steps=steps), self.said
        self.drive()

    def test_service_in_band(self) -> None:
        self.deployed()
        self.serve()
        self.ends('service_in_band')
        assert [RAMDISK, INSTANCE] == [s.source for s in RECORD.starts]

    def test_service_opened(self) -> None:
        self.deployed()
        self.unlock()
        self.serve()
        self.ends('service_opened')
        assert [] == RECORD.starts

    def test_service_lock_fails(self) -> None:
        """The host was proven for this deployment; what a step of ours has found open since counts before that."""
        self.deployed()
        assert 202 == self.switch('power off', LESSEE_MEMBER), self.said
        self.open_a_lock()
        self.machine.fault('lock-ignored')
        steps = [{'interface': 'firmware', 'step': 'lock_accelerators'}]
        assert 202 == self.provision(SYSTEM_ADMIN, 'service', service_steps=steps), self.said
        assert states.SERVICEFAIL == self.drive()
        self.forget()
        self.power_on_is_refused()
        self.ends('service_lock_fails')

    def test_service_verify_fails(self) -> None:
        self.deployed()
        assert 202 == self.switch('power off', LESSEE_MEMBER), self.said
        self.open_a_lock()
        steps = [{'interface': 'firmware', 'step': 'verify_accelerators'}]
        assert 202 == self.provision(SYSTEM_ADMIN, 'service', service_steps=steps), self.said
        assert states.SERVICEFAIL == self.drive()
        self.forget()
        self.power_on_is_refused()
        self.ends('service_verify_fails')
        self.edit(maintenance=False, fault=None)
        steps = [{'interface': 'firmware', 'step': 'lock_accelerators'}]
        assert 202 == self.provision(SYSTEM_ADMIN, 'service', service_steps=steps), self.said
        assert states.ACTIVE == self.drive(), self.node.last_error
        assert 202 == self.switch('power on', LESSEE_MEMBER), self.said
        assert ('On', set()) == (self.host(), self.open_locks())

    def test_service_aborted(self) -> None:
        self.deployed()
        steps = [{'interface': 'deploy', 'step': 'burnin_cpu', 'args': {}}]
        assert 202 == self.provision(LESSEE_ADMIN, 'service', service_steps=steps), self.said
        assert states.SERVICEWAIT == self.node.provision_state
        assert 202 == self.provision(LESSEE_ADMIN, 'abort'), self.said
        self.ends('service_aborted')
        assert INSTANCE == RECORD.starts[-1].source

    def test_service_settings(self) -> None:
        self.deployed()
        steps = [{'interface': 'management', 'step': 'apply_settings', 'args': {}}]
        assert 202 == self.provision(OWNER_MEMBER, 'service', service_steps=steps), self.said
        self.ends('service_settings')
        source = RAMDISK if releases.RAMDISK_IN_EACH_FLOW else INSTANCE
        assert [(source, 'apply_settings')] == self.started()

    def test_undeploy_never_off(self) -> None:
        self.deployed()
        self.edit(disable_power_off=True)
        assert 202 == self.provision(LESSEE_ADMIN, 'deleted'), self.said
        self.drive()
        self.ends('undeploy_never_off')
        assert [states.DELETING] == [start.state for start in RECORD.starts]

    def test_service_unknown_step(self) -> None:
        self.deployed()
        steps = [{'interface': 'deploy', 'step': 'burnin_cpu', 'args': {}}]
        assert 202 == self.provision(LESSEE_ADMIN, 'service', service_steps=steps, disable_ramdisk=True), self.said
        self.drive()
        self.ends('service_unknown_step')

    def test_undeploy(self) -> None:
        self.deployed()
        assert 202 == self.provision(LESSEE_ADMIN, 'deleted'), self.said
        self.drive()
        self.ends('undeploy')
        assert [RAMDISK] == [s.source for s in RECORD.starts]

    def test_automated_clean_off(self) -> None:
        self.config(group='conductor', automated_clean=False)
        self.deployed()
        assert 202 == self.provision(LESSEE_ADMIN, 'deleted'), self.said
        assert states.AVAILABLE == self.drive(), self.node.last_error
        self.edit(instance_info=self.image())
        self.deployed()
        self.ends('automated_clean_off')

    def test_automated_clean_off_lost(self) -> None:
        self.config(group='conductor', automated_clean=False)
        self.deployed()
        self.open_a_lock()
        assert 202 == self.provision(LESSEE_ADMIN, 'deleted'), self.said
        assert states.AVAILABLE == self.drive(), self.node.last_error
        self.edit(instance_info=self.image())
        assert 202 == self.provision(LESSEE_ADMIN, 'active'), self.said
        self.drive()
        self.ends('automated_clean_off_lost')
        assert [] == RECORD.starts

    def refused_and_undeployed(self, meanwhile: str | None = None) -> None:
        self.open_a_lock()
        self.machine.fault('lock-ignored')
        assert 202 == self.provision(LESSEE_ADMIN, 'active'), self.said
        assert states.DEPLOYFAIL == self.drive()
        self.machine.clear_faults()
        if meanwhile is not None:
            time.sleep(1.5)  # what a BMC says of the host's last reset is in whole seconds
            self.press(meanwhile)
            self.press('ForceOff')
        self.forget()
        assert 202 == self.provision(LESSEE_ADMIN, 'deleted'), self.said
        self.drive()
        assert [RAMDISK] == [s.source for s in RECORD.starts]

    def test_undeploy_refused(self) -> None:
        """The ramdisk of the cleaning is no start that nobody knows of."""
        self.refused_and_undeployed()
        assert (frozenset(), None, ()) == (self.node_state.exposed, self.node_state.opened, self.node_state.quarantined)
        self.ends('undeploy_refused')

    def test_undeploy_refused_woke(self) -> None:
        """Before the ramdisk was started; no rule says what the card has to run."""
        self.refused_and_undeployed(meanwhile='ForceOn')
        assert self.node_state.known == {q.device for q in self.node_state.quarantined} != frozenset()
        self.ends('undeploy_refused_woke')

    def undeployed_with_an_open_lock(self) -> None:
        """Without cleaning, and before the periodic has come by that forgets what was proven."""
        self.config(group='conductor', automated_clean=False)
        self.deployed()
        assert 202 == self.provision(LESSEE_ADMIN, 'deleted'), self.said
        assert states.AVAILABLE == self.drive(), self.node.last_error
        assert self.node_state.proven is not None
        self.open_a_lock()

    def test_automated_clean_off_failed(self) -> None:
        """The image cannot be had, so the deploy fails before our steps are asked for."""
        self.undeployed_with_an_open_lock()
        self.edit(instance_info=self.image() | {'image_source': f'{self.images}/gone.img'})
        assert 202 == self.provision(LESSEE_ADMIN, 'active'), self.said
        assert states.DEPLOYFAIL == self.drive()
        assert 'Failed to prepare to deploy' in self.node.last_error
        self.power_on_is_refused()
        self.ends('automated_clean_off_failed')

    def test_automated_clean_off_adopt(self) -> None:
        """The next one adopts the node at once."""
        self.undeployed_with_an_open_lock()
        self.edit(instance_info=self.image())
        assert 202 == self.provision(LESSEE_ADMIN, 'manage'), self.said
        assert 409 == self.provision(LESSEE_ADMIN, 'adopt')
        self.ends('automated_clean_off_adopt')
        self.node.refresh()
        node_store.store(self.node, replace(node_store.load(self.node), proven=None))
        assert 409 == self.provision(LESSEE_ADMIN, 'adopt'), 'the certificate of its last deployment still holds'
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            task.driver.firmware.end_proofs(self.service, self.context)
        assert 202 == self.provision(LESSEE_ADMIN, 'adopt'), self.said
        assert states.ACTIVE == self.drive(), self.node.last_error
        self.power_on_is_refused()

    def test_automated_clean_off_node(self) -> None:
        self.edit(automated_clean=False)
        self.deployed()
        assert 202 == self.provision(LESSEE_ADMIN, 'deleted'), self.said
        assert states.AVAILABLE == self.drive(), self.node.last_error
        self.open_a_lock()
        self.power_on_is_refused()
        self.ends('automated_clean_off_node')

    def sync(self) -> None:
        self.press('ForceOff')
        self.forget()
        RECORD.begin()
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            conductor_manager.do_sync_power_state(task, 0)
        self.node.refresh()

    def test_power_sync(self) -> None:
        self.deployed()
        self.sync()
        self.ends('power_sync')
        assert states.POWER_ON == self.node.power_state
        assert 1 == len(RECORD.starts)

    def test_power_sync_unproven(self) -> None:
        self.edit(provision_state=states.ACTIVE, power_state=states.POWER_ON)
        self.open_a_lock()
        self.sync()
        self.ends('power_sync_unproven')
        assert (states.POWER_OFF, []) == (self.node.power_state, RECORD.starts)

    def test_takeover(self) -> None:
        self.deployed()
        with task_manager.acquire(self.context, self.node.uuid, shared=False) as task:
            self.service._do_takeover(task)
        self.node.refresh()
        self.ends('takeover')
        assert ['prepare_instance'] == RECORD.calls
        assert [] == RECORD.starts


class TestOperatorsFlows(WayCase):
    """Flows of a node that nobody has."""

    def setUp(self) -> None:
        super().setUp()
        self.open_a_lock()
        self.edit(provision_state=states.MANAGEABLE)

    def test_clean_in_band(self) -> None:
        assert 202 == self.provision(OWNER_MEMBER, 'provide'), self.said
        self.drive()
        self.ends('clean_in_band')
        assert [RAMDISK] == [s.source for s in RECORD.starts]
        assert set() == self.open_locks()

    def test_clean_without_ramdisk(self) -> None:
        steps = [HOLD | {'interface': 'power', 'step': 'power_on'}, HOLD | {'interface': 'power', 'step': 'reboot'}, HOLD]
        assert 202 == self.provision(LESSEE_ADMIN, 'clean', clean_steps=steps, disable_ramdisk=True), self.said
        self.drive()
        self.ends('clean_without_ramdisk')
        assert [] == RECORD.starts

    def unlock_in_ramdisk(self) -> None:
        """An operator's cleaning in the ramdisk, which leaves locks open; then Ironic powers the host off."""
        steps = [
            {'interface': 'firmware', 'step': 'lock_accelerators'},
            {'interface': 'firmware', 'step': 'unlock_accelerators'},
            {'interface': 'deploy', 'step': 'erase_devices_metadata', 'args': {}},
        ]
        assert 202 == self.provision(SYSTEM_ADMIN, 'clean', clean_steps=steps), self.said
        assert states.MANAGEABLE == self.drive(), self.node.last_error
        assert self.open_locks()
        assert [(RAMDISK, None)] == self.started()

    def lock(self) -> None:
        steps = [{'interface': 'firmware', 'step': 'lock_accelerators'}]
        assert 202 == self.provision(SYSTEM_ADMIN, 'clean', clean_steps=steps, disable_ramdisk=True), self.said
        assert states.MANAGEABLE == self.drive(), self.node.last_error

    def test_unlocked_in_ramdisk(self) -> None:
        """It stays off until the locks are closed; then another time it does not."""
        self.unlock_in_ramdisk()
        self.lock()
        assert frozenset() == self.node_state.exposed
        self.forget()
        self.unlock_in_ramdisk()
        time.sleep(1.5)  # what a BMC says of the host's last reset is in whole seconds
        self.press('ForceOn')
        self.press('ForceOff')
        self.forget()
        self.lock()
        assert self.node_state.known == self.node_state.exposed != frozenset()
        self.edit(provision_state=states.AVAILABLE)
        assert 202 == self.provision(LESSEE_ADMIN, 'active'), self.said
        self.drive()
        self.ends('unlocked_in_ramdisk')

    def test_clean_settings(self) -> None:
        steps = [{'interface': 'management', 'step': 'apply_settings', 'args': {}}]
        assert 202 == self.provision(OWNER_MEMBER, 'clean', clean_steps=steps), self.said
        self.drive()
        if releases.RAMDISK_IN_EACH_FLOW:
            self.ends('clean_settings_ramdisk')
            assert [RAMDISK, RAMDISK] == [s.source for s in RECORD.starts]
        else:
            self.ends('clean_settings')
            assert [] == RECORD.starts

    def test_clean_settings_ramdisk(self) -> None:
        """The step waits until its restart has brought the ramdisk back."""
        names = (('management', 'apply_settings'), ('deploy', 'erase_devices_metadata'))
        steps = [{'interface': interface, 'step': step, 'args': {}} for interface, step in names]
        assert 202 == self.provision(OWNER_MEMBER, 'clean', clean_steps=steps), self.said
        self.drive()
        self.ends('clean_settings_ramdisk')
        assert [RAMDISK, RAMDISK] == [s.source for s in RECORD.starts]
        assert ['erase_devices_metadata'] == self.agent.executed

    def test_clean_unmanaged_boot(self) -> None:
        self.config(group='agent', manage_agent_boot=False)
        assert 202 == self.provision(OWNER_MEMBER, 'provide'), self.said
        self.drive()
        self.ends('clean_unmanaged_boot')
        assert [] == RECORD.starts

    def test_clean_never_off(self) -> None:
        self.edit(disable_power_off=True)
        steps = [{'interface': 'deploy', 'step': 'erase_devices_metadata', 'args': {}}]
        assert 202 == self.provision(OWNER_MEMBER, 'clean', clean_steps=steps), self.said
        self.drive()
        self.ends('clean_never_off')
        assert [] == RECORD.starts

    def test_clean_boot_mode(self) -> None:
        RECORD.boot_mode = 'uefi'
        self.edit(properties={'capabilities': 'boot_mode:bios'})
        assert 202 == self.provision(OWNER_MEMBER, 'provide'), self.said
        self.drive()
        self.ends('clean_boot_mode')
        assert [] == RECORD.starts

    def test_clean_smart_nic(self) -> None:
        self._monkeypatch.setattr(NoopNetwork, 'need_power_on', lambda _self, _task: True)
        assert 202 == self.provision(OWNER_MEMBER, 'provide'), self.said
        self.drive()
        self.ends('clean_smart_nic')
        assert 'bios' == RECORD.source
        assert [] == RECORD.starts

    def test_inspect_out_of_band(self) -> None:
        assert 202 == self.provision(OWNER_MEMBER, 'inspect'), self.said
        self.drive()
        self.ends('inspect_out_of_band')
        assert [] == RECORD.starts

    def test_inspect_managed(self) -> None:
        self.edit(inspect_interface='agent')
        assert 202 == self.provision(OWNER_MEMBER, 'inspect'), self.said
        assert states.INSPECTWAIT == self.node.provision_state, self.node.last_error
        self.service.continue_inspection(self.context, self.node.uuid, INVENTORY, {})
        self.node.refresh()
        self.ends('inspect_managed')
        assert [RAMDISK] == [s.source for s in RECORD.starts]

    def test_inspect_boot_mode(self) -> None:
        RECORD.boot_mode = 'uefi'
        self.edit(inspect_interface='agent', properties={'capabilities': 'boot_mode:bios'})
        assert 202 == self.provision(OWNER_MEMBER, 'inspect'), self.said
        self.ends('inspect_boot_mode')
        assert [] == RECORD.starts

    def test_inspect_unmanaged(self) -> None:
        self.config(group='inspector', require_managed_boot=False)
        self._monkeypatch.setattr(RecordingBoot, 'manages_inspection', False)
        self.edit(inspect_interface='agent')
        assert 202 == self.provision(OWNER_MEMBER, 'inspect'), self.said
        self.ends('inspect_unmanaged')
        assert NETWORK == RECORD.source
        assert [] == RECORD.starts

    def child(self) -> Any:
        """A node within the node, with a BMC of its own, that a tenant has; its own locks are proven."""
        machine = self._start_machine('gpu-server', gpus=1, reset_seconds=0.05)
        child = self.make_node(
            name='child',
            uuid='11111111-2222-3333-4444-555555555555',
            driver_info=self.driver_info(machine),
            parent_node=self.node.uuid,
            provision_state=states.ACTIVE,
            power_state=states.POWER_OFF,
            owner=self.node.owner,
            lessee=self.node.lessee,
        )
        machine.power('ForceOff')
        node_store.store(child, replace(node_store.load(child), proven=datetime.now(UTC)))
        self.childs_machine = machine
        return child

    def test_child_power_on(self) -> None:
        child = self.child()
        self.edit(provision_state=states.AVAILABLE)
        body = {'target': 'power on'}
        self.app.put_json(f'/v1/nodes/{child.uuid}/states/power', body, headers=LESSEE_MEMBER, expect_errors=True)
        self.node.refresh()
        child.refresh()
        assert 'Off' == self.childs_machine.truth()['systems']['host']['power']
        assert 'Failed to change power state' in child.last_error
        self.ends('child_power_on')
        assert [] == RECORD.starts

    def test_child_steps(self) -> None:
        self.child()
        steps = [HOLD | {'interface': 'power', 'step': 'power_on', 'execute_on_child_nodes': True}]
        assert 202 == self.provision(OWNER_MEMBER, 'clean', clean_steps=steps, disable_ramdisk=True), self.said
        self.drive()
        self.ends('child_steps')
        assert 'Off' == self.childs_machine.truth()['systems']['host']['power']


# ------------------------------------------------------------------------------------------------------------------- tables


def test_every_way_has_a_test_and_every_test_of_a_way_has_a_row() -> None:
    """A row that was not walked would be a lie."""
    tree = ast.parse(Path(__file__).read_text())
    methods = [n for c in tree.body if isinstance(c, ast.ClassDef) for n in c.body if isinstance(n, ast.FunctionDef)]
    assert {f'test_{key}' for key in WAYS} == {m.name for m in methods if m.name.startswith('test_')}
    assert len(WAYS) == sum(map(len, TABLES.values()))


def test_every_deploy_interface_of_ironic_is_there() -> None:
    """One that a new release of Ironic brings has to be walked first."""
    installed = {e.name for e in metadata.entry_points(group=f'{GROUP}.deploy')}
    assert installed == {way.deploy for way in WAYS.values() if way.deploy is not None} - releases.LATER_DEPLOY_INTERFACES


def test_the_page_is_as_the_tables_make_it(tree: Path) -> None:
    """Write it with ``python -m tests.ironic.deploy_ways > doc/source/reference/ways_to_deploy.rst``."""
    assert deploy_ways.page() == (tree / 'doc' / 'source' / 'reference' / 'ways_to_deploy.rst').read_text(encoding='utf-8')
