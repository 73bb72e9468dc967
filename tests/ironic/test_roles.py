# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Every role tries every verb at Ironic's real API, behind the real keystonemiddleware.

The results are in doc/source/reference/roles.csv and doc/source/reference/rights.csv; ``BAREMETAL_ACC_ROLES=write`` writes
these files again. An Ironic whose results differ has files of its own, such as rights-2026.1.csv. A permitted request ends
where the conductor would be called, so nothing is done: what the conductor itself refuses is in test_ways_round.py. Where the
API does not check the rules of steps, the conductor's check of these counts as well.
"""

import csv
import inspect
import io
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from ironic import objects
from ironic.common import exception, states
from ironic.conductor import rpcapi, task_manager
from ironic.drivers.modules import inspect_utils

from baremetal_acc_ironic import compat
from baremetal_acc_ironic.authorization.rights import StepRefused
from baremetal_acc_ironic.steps import definitions
from tests.ironic import releases
from tests.ironic.api import LESSEE, OWNER
from tests.ironic.keystone import IMPLIED, SERVICE
from tests.ironic.roles_case import STRANGER, RolesCase

SCOPES = {
    'system': [f'system:{role}' for role in IMPLIED],
    'owner': [f'{OWNER}:{role}' for role in IMPLIED],
    'lessee': [f'{LESSEE}:{role}' for role in IMPLIED],
    'others': [f'{STRANGER}:admin', f'{SERVICE}:service'],
}
NAMES = {f'{STRANGER}:admin': 'admin of another project', f'{SERVICE}:service': "Nova's"}

IN_TREE = (
    ('firmware', 'update'),
    ('management', 'update_firmware'),
    ('deploy', 'update_nvidia_nic_firmware_image'),
    ('deploy', 'update_nvidia_nic_firmware_settings'),
)
WRITES = [*(('firmware', name) for name, step in definitions.STEPS.items() if step.operators), *IN_TREE]
PROVISION = '/v1/nodes/{node}/states/provision'
CALLS = (
    'do_node_service',
    'do_node_clean',
    'do_node_deploy',
    'do_node_tear_down',
    'do_node_rescue',
    'do_provisioning_action',
    'inspect_hardware',
    'change_node_power_state',
    'vendor_passthru',
    'update_node',
    'destroy_node',
    'set_boot_device',
    'set_console_mode',
    'set_target_raid_config',
    'attach_virtual_media',
    'change_node_boot_mode',
    'add_node_traits',
)
"""Where the API calls the conductor."""

Verb = tuple[str, str, Any]


def flow_steps(interface: str, step: str, flow: str) -> Verb:
    """A request for one step."""
    wanted: dict[str, Any] = {'interface': interface, 'step': step, 'args': {}}
    if flow == 'deploy':
        return 'PUT', PROVISION, {'target': 'active', 'deploy_steps': [wanted | {'priority': 105}]}
    return 'PUT', PROVISION, {'target': flow, f'{flow}_steps': [wanted]}


def edit(path: str, value: Any) -> Verb:
    """A request to change a field of the node."""
    return 'PATCH', '/v1/nodes/{node}', [{'op': 'add', 'path': path, 'value': value}]


VIEWS: dict[str, Verb] = {
    'see the node': ('GET', '/v1/nodes/{node}', None),
    'see its inventory': ('GET', '/v1/nodes/{node}/inventory', None),
    'see its firmware versions': ('GET', '/v1/nodes/{node}/firmware', None),
    'see its history': ('GET', '/v1/nodes/{node}/history', None),
}

STEPS = [*(('firmware', name) for name in definitions.STEPS), *IN_TREE]

STATE = {'service': states.ACTIVE, 'clean': states.MANAGEABLE, 'deploy': states.AVAILABLE}

UNLOCK = [{'interface': 'firmware', 'step': 'unlock_accelerators', 'args': {}, 'order': 1}]

RIGHTS: dict[str, tuple[str, Verb]] = {
    'change the hardware type': (states.MANAGEABLE, edit('/driver', 'redfish-acc')),
    'change firmware_interface': (states.MANAGEABLE, edit('/firmware_interface', 'no-firmware')),
    'change power_interface': (states.MANAGEABLE, edit('/power_interface', 'redfish-acc')),
    'change driver_info (BMC, acc_exposure)': (states.MANAGEABLE, edit('/driver_info/acc_exposure', 'none')),
    'change what we remember (driver_internal_info)': (states.MANAGEABLE, edit('/driver_internal_info/baremetal_acc', {})),
    'change owner': (states.MANAGEABLE, edit('/owner', STRANGER)),
    'change lessee': (states.MANAGEABLE, edit('/lessee', STRANGER)),
    'change resource_class': (states.MANAGEABLE, edit('/resource_class', 'lab')),
    'change properties': (states.MANAGEABLE, edit('/properties/x', 'y')),
    'change instance_info (deploy templates by traits)': (states.ACTIVE, edit('/instance_info/traits', ['CUSTOM_X'])),
    'change instance_info (kernel_append_params of ramdisks)': (
        states.MANAGEABLE,
        edit('/instance_info/kernel_append_params', 'ipa-api-url=https://192.0.2.66'),
    ),
    'attach virtual media': (
        states.ACTIVE,
        ('POST', '/v1/nodes/{node}/vmedia', {'device_type': 'cdrom', 'image_url': 'http://192.0.2.66/x.iso'}),
    ),
    'set the boot mode': (states.ACTIVE, ('PUT', '/v1/nodes/{node}/states/boot_mode', {'target': 'uefi'})),
    'switch automated cleaning off': (states.MANAGEABLE, edit('/automated_clean', False)),
    'set traits of the node': (states.MANAGEABLE, ('PUT', '/v1/nodes/{node}/traits', {'traits': ['CUSTOM_X']})),
    'set maintenance': (states.ACTIVE, ('PUT', '/v1/nodes/{node}/maintenance', {'reason': 'x'})),
    'clear maintenance': (states.ACTIVE, ('DELETE', '/v1/nodes/{node}/maintenance', None)),
    'switch the host': (states.ACTIVE, ('PUT', '/v1/nodes/{node}/states/power', {'target': 'power off'})),
    'set the boot device': (
        states.ACTIVE,
        ('PUT', '/v1/nodes/{node}/management/boot_device', {'boot_device': 'pxe', 'persistent': False}),
    ),
    'switch the console on': (states.ACTIVE, ('PUT', '/v1/nodes/{node}/states/console', {'enabled': True})),
    'set the RAID configuration': (states.MANAGEABLE, ('PUT', '/v1/nodes/{node}/states/raid', {'logical_disks': []})),
    'change BIOS settings (service step)': (states.ACTIVE, flow_steps('bios', 'apply_configuration', 'service')),
    'call vendor passthru': (states.ACTIVE, ('POST', '/v1/nodes/{node}/vendor_passthru?method=eject_vmedia', {})),
    'deploy': (states.AVAILABLE, ('PUT', PROVISION, {'target': 'active'})),
    'rebuild': (states.ACTIVE, ('PUT', PROVISION, {'target': 'rebuild'})),
    'undeploy': (states.ACTIVE, ('PUT', PROVISION, {'target': 'deleted'})),
    'rescue': (states.ACTIVE, ('PUT', PROVISION, {'target': 'rescue', 'rescue_password': 'x'})),
    'inspect': (states.MANAGEABLE, ('PUT', PROVISION, {'target': 'inspect'})),
    'clean by automated cleaning': (states.MANAGEABLE, ('PUT', PROVISION, {'target': 'provide'})),
    'adopt': (states.MANAGEABLE, ('PUT', PROVISION, {'target': 'adopt'})),
    'delete the node': (states.MANAGEABLE, ('DELETE', '/v1/nodes/{node}', None)),
    'make a runbook with unlock_accelerators': (
        states.ACTIVE,
        ('POST', '/v1/runbooks', {'name': 'CUSTOM_OPEN', 'steps': UNLOCK}),
    ),
    'make a deploy template': (
        states.ACTIVE,
        (
            'POST',
            '/v1/deploy_templates',
            {
                'name': 'CUSTOM_T',
                'steps': [{'interface': 'firmware', 'step': 'verify_accelerators', 'args': {}, 'priority': 0}],
            },
        ),
    ),
}
"""What of Ironic's own rights touches cards, with the state in which the node is asked."""


class TableCase(RolesCase):
    """The API alone: whatever it lets through ends at the conductor's door."""

    @pytest.fixture(autouse=True)
    def _at_the_door(self, monkeypatch: pytest.MonkeyPatch, tree: Path) -> None:
        self._tree = tree
        self._passed: list[dict[str, Any]] = []

        def stop(name: str) -> Any:
            signature = inspect.signature(getattr(rpcapi.ConductorAPI, name))

            def stopped(*args: Any, **given: Any) -> Any:
                self._passed.append(dict(signature.bind(*args, **given).arguments))
                raise Passed

            return stopped

        for name in CALLS:
            monkeypatch.setattr(rpcapi.ConductorAPI, name, stop(name))

    def setUp(self) -> None:
        super().setUp()
        inspect_utils.store_inspection_data(self.node, {}, {}, self.context)

    def in_state(self, state: str) -> None:
        """The node, as the request needs it."""
        self.node.provision_state = state
        self.node.save()

    def let(self, who: str | None, verb: Verb) -> str:
        """What came of a request: ``yes``, ``no`` (403), ``hidden`` (404, as if there were no such node), ``401``."""
        method, path, body = verb
        self._passed.clear()
        answer = self.ask(who, method, path.format(node=self.node.uuid), body)
        passed = bool(self._passed)
        if answer.status_int in (401, 403, 404) or 'Cannot patch' in answer.text:
            assert not passed
            return {401: '401', 404: 'hidden'}.get(answer.status_int, 'no')
        if answer.status_int == 201 and path == '/v1/runbooks':
            objects.Runbook.get_by_name(self.context, body['name']).destroy()
        # A change that stops at the door is an error to the API, and no refusal.
        assert passed or answer.status_int < 300, f'{who} {verb}: {answer.status_int} {answer.text}'
        return 'yes'

    def let_step(self, who: str | None, verb: Verb) -> str:
        """As :meth:`let`; where the API does not check the rules of steps, what the conductor's check says next."""
        answer = self.let(who, verb)
        if answer != 'yes' or compat.api_checks_steps():
            return answer
        return 'yes' if self.conductor_permits(self._passed[-1]) else 'no'

    def conductor_permits(self, call: dict[str, Any]) -> bool:
        """Whether a flow begins in the conductor as it does in Ironic's, up to the first list of its steps."""
        [flow] = [name for name in STATE if f'{name}_steps' in call]
        before = self.node.provision_state
        doing = {'service': states.SERVICING, 'clean': states.CLEANING, 'deploy': states.DEPLOYING}[flow]
        with task_manager.acquire(call['context'], self.node.uuid, shared=False) as task:
            firmware = task.driver.firmware
            steps = getattr(firmware, f'get_{flow}_steps')
            if flow == 'deploy':
                steps(task)
            task.node.provision_state, task.node.target_provision_state = doing, states.MANAGEABLE
            task.node.set_driver_internal_info(
                'user_deploy_steps' if flow == 'deploy' else f'{flow}_steps', call[f'{flow}_steps']
            )
            try:
                firmware.validate(task)
                steps(task)
            except (StepRefused, exception.InstanceDeployFailure):
                return False
            finally:
                task.node.driver_internal_info = {}
                task.node.provision_state, task.node.target_provision_state = before, None
                task.node.save()
        return True

    def row(self, name: str, verb: Verb, *, step: bool = False) -> list[str]:
        """One line of the table."""
        cells = []
        let = self.let_step if step else self.let
        for tokens in SCOPES.values():
            allowed = [NAMES.get(t, t.rpartition(':')[2]) for t in tokens if let(t, verb) == 'yes']
            cells.append(', '.join(allowed) or '–')
        assert '401' == self.let(None, verb) == self.let('forged', verb)
        return [name, *cells]

    def agrees(self, file: str, first: str, rows: Iterable[list[str]]) -> None:
        """The document says what was found."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator='\n')
        writer.writerow([first, *SCOPES])
        writer.writerows(rows)
        path = releases.file_of(self._tree / 'doc/source/reference' / file, text.getvalue())
        if os.environ.get('BAREMETAL_ACC_ROLES') == 'write':
            path.write_text(text.getvalue())
        assert path.read_text() == text.getvalue(), 'look at it, then run with BAREMETAL_ACC_ROLES=write'


class Passed(Exception):
    """The conductor would have been called."""


class TestRoles(TableCase):
    """The steps of this package, and those of Ironic that write firmware."""

    def test_every_role_tries_every_step(self) -> None:
        """In service, manual cleaning and a deploy alike. Nobody but the system's admin writes firmware or touches a lock."""
        rows = [self.row(name, verb) for name, verb in VIEWS.items()]
        for interface, step in STEPS:
            found = {}
            for flow in ('service', 'clean', 'deploy'):
                self.in_state(STATE[flow])
                found[flow] = self.row(f'{interface}.{step}', flow_steps(interface, step, flow), step=True)
            assert found['service'] == found['clean'] == found['deploy']
            rows.append(found['service'])
        only_admin = ['admin', '–', '–', '–']
        assert {tuple(only_admin)} == {tuple(r[1:]) for r in rows if tuple(r[0].split('.', 1)) in WRITES}
        assert '–' not in next(r[3] for r in rows if r[0] == 'firmware.program_accelerators')
        self.agrees('roles.csv', 'verb', rows)

    def test_nova_may_deploy_and_touches_no_lock(self) -> None:
        """Its user, where Ironic is told that services of that project are as good as a member of the system."""
        self.config(rbac_service_role_elevated_access=True, rbac_service_project_name=SERVICE)
        nova = f'{SERVICE}:service'
        self.in_state(states.AVAILABLE)
        assert 'yes' == self.let(nova, RIGHTS['deploy'][1])
        self.in_state(states.ACTIVE)
        let = {(i, s): self.let_step(nova, flow_steps(i, s, 'service')) for i, s in STEPS}
        others = {('firmware', f'{verb}_accelerators') for verb in ('inventory', 'verify', 'program')}
        assert others == {step for step, answer in let.items() if answer == 'yes'}


class TestRights(TableCase):
    """What Ironic's own policy lets whom do, of that by which somebody might come round ours."""

    def test_every_role_tries_every_way(self) -> None:
        """The lessee changes neither where a step would run nor what it would be."""
        rows = []
        for name, (state, verb) in RIGHTS.items():
            self.in_state(state)
            rows.append(self.row(name, verb))
        lessee = {row[0]: row[3] for row in rows}
        for name in lessee:
            if name.startswith(('change the hardware', 'change firmware', 'change power', 'change driver', 'change what')):
                assert '–' == lessee[name], name
        for name in ('change owner', 'change lessee', 'set traits of the node', 'call vendor passthru', 'delete the node'):
            assert '–' == lessee[name], name
        made = ['make a runbook with unlock_accelerators'] if compat.api_checks_steps() else []
        for name in (*made, 'make a deploy template'):
            assert ('–', '–') == (lessee[name], next(r[2] for r in rows if r[0] == name)), name
        self.agrees('rights.csv', 'to', rows)
