# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The base of the tests of the Ironic guest: Ironic's own conductor and database code, and an emulated machine over HTTPS.

A real ConductorManager runs the flows; only its threads are gone: workers run at once, and periodics when a test says so.
"""

import hashlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from ironic.common import rpc, states
from ironic.conductor import task_manager
from ironic.conf import CONF
from ironic.drivers.modules.redfish import utils as redfish_utils
from ironic.tests.unit.conductor import mgr_utils
from ironic.tests.unit.db import base as db_base
from ironic.tests.unit.objects import utils as obj_utils
from oslo_messaging.notify import _impl_test
from oslo_service import loopingcall

from baremetal_acc.demo.service_files import write_certificate_key
from baremetal_acc.emulator.image import build_image
from baremetal_acc_ironic import compat
from baremetal_acc_ironic.reporting import record
from baremetal_acc_ironic.state import node_state, node_store

TYPE = 'redfish-acc'
NO_DEPLOY = compat.NO_DEPLOY_NAME
"""Deploy interface that images nothing."""

GPU_OLD, GPU_NEW = '96.00.30.00.01', '96.00.74.00.01'
CURRENT = {f'host/HGX_FW_GPU_{number}': GPU_NEW for number in (0, 1)}
"""Versions of a machine that is at the baseline from the start: its cleaning, which is not the subject, writes nothing."""

POLLS = 400

RULES = """\
format = 1

[[rule]]
name = "gpus"
match = { kind = "GPU" }
firmware = { "HGX_FW_GPU_*" = "96.00.74.00.01" }
block = ["host-device"]

[[rule]]
name = "fpgas"
match = { kind = "FPGA" }
functions = { "Slot0" = "gzip", "Slot1" = "aes" }
block = ["host-device"]

[[rule]]
name = "others"
block = ["host-device"]
"""
"""What custody is made of is left to the default."""

BASELINE = f"""{RULES}
[[rule]]
name = "custody"
custody = "reported"
"""
"""Of tests whose subject is something else: a node is deployed without having been cleaned."""


class IronicCase(mgr_utils.ServiceSetUpMixin, db_base.DbTestCase):
    """One conductor, one node, one emulated machine."""

    hardware_type = TYPE
    product = 'gpu-server'
    parameters: Mapping[str, Any] = {'gpus': 2}
    baseline = BASELINE

    @pytest.fixture(autouse=True)
    def _surroundings(self, emulated_machine: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._start_machine = emulated_machine
        self._folder = tmp_path
        # Ironic's own Redfish code hashes the password 600000 times for every look-up of a session (ironic 39.0.0,
        # drivers/modules/redfish/utils.py, SessionCache).
        slow = hashlib.pbkdf2_hmac
        monkeypatch.setattr(
            redfish_utils.hashlib, 'pbkdf2_hmac', lambda name, password, salt, _rounds: slow(name, password, salt, 1)
        )
        # Ironic waits for a second before it first asks whether a host has changed its power.
        start = loopingcall.BackOffLoopingCall.start
        monkeypatch.setattr(
            loopingcall.BackOffLoopingCall,
            'start',
            lambda self, initial_delay=None, **named: start(self, initial_delay=0.1, starting_interval=0.1, **named),
        )

    def setUp(self) -> None:
        super().setUp()
        self.set_defaults(host='test-host')
        self._configure()
        self.hostname = CONF.host
        self._start_service()
        rpc.set_global_manager(self.service)
        self.addCleanup(rpc.set_global_manager, None)
        self.machine = self._start_machine(self.product, **({'flash_seconds': 0.1, 'reset_seconds': 0.05} | self.parameters))
        self.node = self.make_node()

    def _clear_attrs(self) -> None:
        """As Ironic's, but pytest needs the name of the test to the end."""
        for key in [k for k in self.__dict__ if not k.startswith('_') and k != self._testMethodName]:
            del self.__dict__[key]

    def _configure(self) -> None:
        interfaces = {
            'bios': ['no-bios'],
            'boot': ['fake'],
            'console': ['no-console'],
            'deploy': [NO_DEPLOY, 'direct'],
            'firmware': [TYPE, 'no-firmware'],
            'inspect': [TYPE, 'agent', 'redfish', 'no-inspect'],
            'management': ['redfish', 'noop'],
            'network': ['noop'],
            'power': [TYPE],
            'raid': ['no-raid'],
            'rescue': ['no-rescue'],
            'storage': ['noop'],
            'vendor': ['no-vendor'],
        }
        self.config(enabled_hardware_types=[TYPE], rpc_transport='none', auth_strategy='noauth')
        for name, values in interfaces.items():
            self.config(**{f'enabled_{name}_interfaces': values, f'default_{name}_interface': values[0]})
        self.config(group='redfish', connection_attempts=1, connection_retry_interval=1)
        self.config(group='inventory', data_backend='database')
        catalogue, baseline = self._folder / 'catalogue.toml', self._folder / 'baseline.toml'
        baseline.write_text(self.baseline)
        catalogue.write_text(write_catalogue(self._folder))
        self.config(
            group='baremetal_acc',
            baseline=str(baseline),
            catalogue=str(catalogue),
            certificate_key=str(write_certificate_key(self._folder)),
            publish=False,
            accepted_misconfigurations=['middleware', 'no_api_guard'],
            poll_interval=0.1,
            settle_timeout=1.5,
            reset_timeout=20,
        )

    def driver_info(self, machine: Any) -> dict[str, Any]:
        """How a node reaches the BMCs of a machine."""
        host = machine.bmcs['host']
        further = {
            name: {k: getattr(b, k) for k in ('address', 'username', 'password', 'verify_ca', 'system')}
            for name, b in machine.bmcs.items()
            if name != 'host'
        }
        info = {
            'redfish_address': host.address,
            'redfish_username': host.username,
            'redfish_password': host.password,
            'redfish_verify_ca': host.verify_ca,
            'redfish_system_id': host.system,
        }
        return info | ({'acc_bmcs': further} if further else {})

    def make_node(self, **values: Any) -> Any:
        """A node of the machine, as an operator enrols it."""
        defaults = {
            'name': 'node-1',
            'driver': self.hardware_type,
            'driver_info': self.driver_info(self.machine),
            'resource_class': 'gold',
            'provision_state': states.AVAILABLE,
            'power_state': states.POWER_ON,
            'management_interface': 'noop',
            'properties': {},
            'driver_internal_info': {},
            'instance_uuid': None,
            'instance_info': {},
        }
        for name in ('firmware', 'inspect', 'power'):
            defaults[f'{name}_interface'] = self.hardware_type
        for name in ('bios', 'console', 'raid', 'rescue', 'vendor'):
            defaults[f'{name}_interface'] = f'no-{name}'
        defaults |= {
            'boot_interface': 'fake',
            'deploy_interface': NO_DEPLOY,
            'network_interface': 'noop',
            'storage_interface': 'noop',
        }
        return obj_utils.create_test_node(self.context, **(defaults | values))

    # ------------------------------------------------------------------------------------------------------------ verbs

    def clean(self, *steps: str | dict[str, Any]) -> None:
        """Automated cleaning, or manual cleaning with steps; until it ends."""
        if steps:
            self.node.provision_state = states.MANAGEABLE
            self.node.save()
            self.service.do_node_clean(self.context, self.node.uuid, [_step(s) for s in steps])
        else:
            self.node.provision_state = states.MANAGEABLE
            self.node.save()
            self.service.do_provisioning_action(self.context, self.node.uuid, 'provide')

    def deploy(self) -> None:
        """Deploy, not waiting for the end."""
        self.service.do_node_deploy(self.context, self.node.uuid)

    def serve(self, *steps: str | dict[str, Any]) -> None:
        """Service, not waiting for the end."""
        self.service.do_node_service(self.context, self.node.uuid, [_step(s) for s in steps])

    def poll(self) -> None:
        """One round of both periodics."""
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            interface = task.driver.firmware
        interface.turn_jobs(self.service, self.context)
        interface.recover_jobs(self.service, self.context)
        self.node.refresh()

    def settle(self) -> str:
        """Poll until no step of the node waits any more."""
        self.node.refresh()
        for _ in range(POLLS):
            waits = self.node.provision_state in (states.CLEANWAIT, states.DEPLOYWAIT, states.SERVICEWAIT)
            state = node_store.load(self.node)
            if not waits and (state.job is None or state.job.ended):
                return str(self.node.provision_state)
            self.poll()
            time.sleep(0.02)  # the machine needs the interpreter, too
        raise AssertionError(f'still {self.node.provision_state}: {self.node_state}')

    def to_active(self) -> None:
        """Cleaned and deployed."""
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        self.deploy()
        assert states.ACTIVE == self.settle(), self.node.last_error

    def listen(self) -> None:
        """Have notifications sent, through oslo.messaging's notifier to its driver for tests."""
        self.config(notification_level='info', transport_url='fake:/')
        self.config(group='oslo_messaging_notifications', driver=['test'])
        rpc.init(CONF)
        self.addCleanup(rpc.cleanup)
        self.addCleanup(_impl_test.reset)

    def gpu(self, number: int) -> str:
        """Identity of a GPU."""
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            found = record.stored(task)
        assert found is not None, 'no inventory yet'
        return next(str(a.id) for a in found.accelerators if a.label.endswith(f'GPU_{number}'))

    def clear(self) -> None:
        """An operator clears maintenance and goes back to manageable."""
        self.node.refresh()
        self.node.maintenance, self.node.fault, self.node.provision_state = False, None, states.MANAGEABLE
        self.node.save()

    @property
    def node_state(self) -> node_state.NodeState:
        """What we remember of the node."""
        self.node.refresh()
        return node_store.load(self.node)

    def history(self) -> list[str]:
        """Our records in the node's history, oldest first."""
        entries = self.dbapi.get_node_history_by_node_id(self.node.id)
        return [e['event'] for e in sorted(entries, key=lambda e: e['id']) if e['event_type'] == 'accelerator']

    def locks(self) -> dict[str, bool]:
        """The machine's truth: which locks are closed."""
        return {name: lock['closed'] for name, lock in self.machine.truth()['locks'].items()}

    def version(self, component: str) -> str | None:
        """The machine's truth: what a component runs."""
        active = self.machine.truth()['components'][component]['active']
        return None if active is None else active['version']


def _step(step: str | dict[str, Any]) -> dict[str, Any]:
    if isinstance(step, str):
        return {'interface': 'firmware', 'step': step}
    return {'interface': 'firmware'} | step


def write_catalogue(folder: Path) -> str:
    """Images for the emulator's devices, and the catalogue that lists them."""
    text = ['format = 1']
    for version in (GPU_OLD, GPU_NEW):
        data = build_image(model='h100', component='gpu', version=version)
        other = GPU_OLD if version == GPU_NEW else GPU_NEW
        text.append(
            _image(
                folder,
                f'gpu-{version}',
                data,
                kind='firmware',
                pci='0x10de:0x2330',
                component='HGX_FW_GPU_*',
                version=version,
                restore=f'gpu-{other}',
                apply='{ reset = "power-cycle" }',
            )
        )
    text += (write_function(folder, function) for function in ('gzip', 'aes'))
    return '\n\n'.join(text)


def write_function(folder: Path, function: str) -> str:
    """An image of a function for the emulator's FPGA, and its entry in the catalogue."""
    data = build_image(kind='function', model='d5005', component='slot', version='1.0.0', function=function)
    return _image(
        folder,
        function,
        data,
        kind='function',
        pci='0x8086:0x0b2b',
        component='Slot*',
        version='1.0.0',
        function=function,
    )


def _image(folder: Path, name: str, data: bytes, *, pci: str, apply: str = '{}', **values: str) -> str:
    (folder / name).write_bytes(data)
    keys = ''.join(f'{key} = "{value}"\n' for key, value in values.items())
    return (
        f'[[image]]\nname = "{name}"\nfits = [{{ pci = "{pci}" }}]\nsecurity_version = 1\nsource = "{name}"\n'
        f'size = {len(data)}\ndigest = "sha256:{hashlib.sha256(data).hexdigest()}"\napply = {apply}\n{keys}'
    )


__all__ = ['BASELINE', 'GPU_NEW', 'GPU_OLD', 'RULES', 'TYPE', 'IronicCase', 'write_catalogue', 'write_function']
