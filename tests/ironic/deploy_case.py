# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A node that Ironic deploys with a ramdisk, and a record of every start of its host.

Ironic's own conductor, deploy interfaces and agent client run. Stand-ins exist only for what boots: a boot and a management
interface that record what they were asked for, a ramdisk that answers the agent client over HTTP, and a web server with an
image. The machine tells each start of its host at the moment when its BMC takes it, whoever asked for it.
"""

import contextlib
import copy
import functools
import hashlib
import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import stevedore
import stevedore._cache
from ironic.common import boot_devices, states
from ironic.conductor import utils as manager_utils
from ironic.drivers import base
from ironic.drivers.modules import boot_mode_utils, deploy_utils, noop_mgmt
from ironic.drivers.modules.redfish import power as redfish_power

from baremetal_acc.emulator.parts import Power
from baremetal_acc_ironic import hardware
from baremetal_acc_ironic.authorization import bmc_source
from baremetal_acc_ironic.power import AccPower
from baremetal_acc_ironic.state import node_store
from tests.ironic import releases
from tests.ironic.case import NO_DEPLOY
from tests.ironic.test_api import SYSTEM_ADMIN, ApiCase

RECORDING = 'recording'
"""Name of the boot and of the management interface that record."""

RAMDISK, INSTANCE, NETWORK, DISK, NOWHERE = 'ramdisk', 'instance', 'pxe', 'disk', 'nowhere'
"""Boot sources: what the boot interface has prepared, and boot devices that the management interface was given."""

WAITS = frozenset(
    {
        states.CLEANWAIT,
        states.DEPLOYWAIT,
        states.SERVICEWAIT,
        states.RESCUEWAIT,
    }
)
FLOWS = frozenset({states.INSPECTING, states.CLEANING, states.DEPLOYING, states.RESCUING, states.UNRESCUING, states.SERVICING})
"""In which Ironic itself starts the host, and so has to choose what it boots."""

OPERATORS = frozenset({states.INSPECTING, states.CLEANING, states.CLEANWAIT})
"""Flows in which the operator's ramdisk may run while locks are open: nobody has the node."""

ROUNDS = 60
SECONDS = 20.0
GROUP = 'ironic.hardware.interfaces'
IMAGING = ('direct', 'ansible', 'ramdisk', 'anaconda', 'bootc', 'custom-agent', 'autodetect')


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One start or restart of a host, as its BMC took it.

    :ivar system: which host of the machine.
    :ivar source: the boot source that was set last.
    :ivar chosen: the flow that starts the host has set it.
    :ivar by_ironic: through Ironic's power interface; False: a job of ours, or somebody at the machine.
    :ivar state: provision state of the node, None unless by Ironic.
    :ivar step: the step that Ironic runs, None if none.
    :ivar open: demanded locks that were open at that moment.
    :ivar verified: the verification of this deployment had passed.
    """

    system: str
    source: str
    chosen: bool
    by_ironic: bool
    state: str | None
    step: str | None
    open: frozenset[str]
    verified: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What Ironic asks of the power interface now."""

    state: str
    step: str | None
    verified: bool


class Record:
    """What was set as the boot source, and which starts of the host followed."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.starts: list[Start] = []
        self.source = NOWHERE
        self.chosen = False
        self.runs: str | None = None
        self.boot_mode: str | None = None
        self.request: Request | None = None

    def begin(self) -> None:
        """A flow begins: it has not chosen a boot source yet."""
        self.chosen = False

    def choose(self, call: str, source: str) -> None:
        """A boot source is set."""
        self.calls.append(call)
        self.source, self.chosen = source, True


RECORD = Record()
"""Of the running test: interfaces are made by Ironic, once per process and test."""


class RecordingBoot(base.BootInterface):
    """A boot interface of Ironic that records, and touches neither PXE nor virtual media."""

    capabilities: ClassVar[list[str]] = ['ramdisk_boot', 'iscsi_volume_boot', 'ramdisk_boot_configdrive']
    ipxe_enabled = True
    manages_inspection: ClassVar[bool] = True

    def get_properties(self) -> dict[str, str]:
        """None."""
        return {}

    def validate(self, task: Any) -> None:
        """Whatever is asked for."""

    def validate_rescue(self, task: Any) -> None:
        """It can."""

    def validate_inspection(self, task: Any) -> None:
        """As it is set up."""
        if not self.manages_inspection:
            super().validate_inspection(task)

    def prepare_ramdisk(self, task: Any, ramdisk_params: Any) -> None:
        """The operator's ramdisk is next; as Ironic's own interfaces, it sees to the boot mode first."""
        boot_mode_utils.sync_boot_mode(task)
        RECORD.choose('prepare_ramdisk', RAMDISK)

    def clean_up_ramdisk(self, task: Any) -> None:
        """It is not any more."""
        RECORD.calls.append('clean_up_ramdisk')
        if RECORD.source == RAMDISK:
            RECORD.source = NOWHERE

    def prepare_instance(self, task: Any) -> None:
        """What was deployed is next."""
        RECORD.choose('prepare_instance', INSTANCE)

    def clean_up_instance(self, task: Any) -> None:
        """It is not any more."""
        RECORD.calls.append('clean_up_instance')
        if RECORD.source == INSTANCE:
            RECORD.source = NOWHERE


class RecordingManagement(noop_mgmt.NoopManagement):
    """A management interface of Ironic that records boot devices."""

    def get_supported_boot_devices(self, task: Any) -> list[str]:
        """Also the set-up of the firmware."""
        return [*super().get_supported_boot_devices(task), boot_devices.BIOS]

    def get_boot_mode(self, task: Any) -> str:
        """What the BMC says, if the test has it say something."""
        return RECORD.boot_mode or str(super().get_boot_mode(task))

    def set_boot_mode(self, task: Any, mode: str) -> None:
        """As over Redfish, where a BMC changes it at a restart of the host only."""
        if RECORD.boot_mode is None:
            super().set_boot_mode(task, mode)
        manager_utils.node_power_action(task, states.REBOOT)
        RECORD.boot_mode = mode

    @base.clean_step(priority=0, requires_ramdisk=False)
    @base.service_step(priority=0, requires_ramdisk=False)
    def apply_settings(self, task: Any) -> Any:
        """As settings of the BIOS are applied over Redfish: by a reboot, without a ramdisk."""
        return deploy_utils.reboot_to_finish_step(task)

    def set_boot_device(self, task: Any, device: str, persistent: bool = False) -> None:
        """A boot device is set."""
        super().set_boot_device(task, device, persistent=persistent)
        RECORD.choose(f'set_boot_device {device}', device)


class Ramdisk(http.server.BaseHTTPRequestHandler):
    """The agent of a ramdisk: takes every command and says that it succeeded. It answers only while it runs on the host."""

    protocol_version = 'HTTP/1.1'
    server: 'RamdiskServer'

    def log_message(self, *_: Any) -> None:
        """Nothing on the terminal."""

    def do_GET(self) -> None:
        """What became of the commands."""
        self._answer(lambda: {'commands': self.server.commands})
        self.server.is_locked_down = self.server.is_locking_down

    def do_POST(self) -> None:
        """A command."""
        body = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
        self._answer(lambda: self.server.run(body['name'], body.get('params') or {}))

    def _answer(self, answer: Callable[[], Any]) -> None:
        if not self.server.is_up():
            self.close_connection = True
            return
        document = answer()
        data = json.dumps(document).encode()
        self.send_response(200)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class RamdiskServer(http.server.ThreadingHTTPServer):
    """Where the agent listens.

    :ivar names: commands that it was given.
    :ivar executed: steps that it was given.
    :ivar steps: steps that it offers, by flow.
    """

    daemon_threads = True

    def __init__(self, is_booted: Callable[[], bool], power_off: Callable[[], None]) -> None:
        super().__init__(('127.0.0.1', 0), Ramdisk)
        self.is_booted = is_booted
        self.is_locking_down = self.is_locked_down = False
        self.power_off = power_off
        self.commands: list[dict[str, Any]] = []
        self.names: list[str] = []
        self.executed: list[str] = []
        self.steps: dict[str, list[dict[str, Any]]] = {
            'deploy': [{'interface': 'deploy', 'step': 'write_image', 'priority': 0}],
            'clean': [{'interface': 'deploy', 'step': 'erase_devices_metadata', 'priority': 10}],
            'service': [{'interface': 'deploy', 'step': 'burnin_cpu', 'priority': 0}],
        }

    def is_up(self) -> bool:
        """The ramdisk runs on the host, and takes commands."""
        return self.is_booted() and not self.is_locked_down

    def booted(self) -> None:
        """The ramdisk has just started: it remembers no command."""
        self.commands.clear()
        self.is_locking_down = self.is_locked_down = False

    def run(self, name: str, params: dict[str, Any]) -> dict[str, Any]:
        """Carry out a command."""
        command = name.rpartition('.')[2]
        result: dict[str, Any] = {}
        match command.split('_'):
            case ['get', flow, 'steps']:
                result = {f'{flow}_steps': {'Hardware': self.steps[flow]}, 'hardware_manager_version': {'Hardware': '1'}}
            case ['execute', flow, 'step']:
                result = {f'{flow}_step': params['step'], f'{flow}_result': None}
                self.executed.append(params['step']['step'])
            case ['power', 'off']:
                self.power_off()
            case ['lockdown']:
                self.is_locking_down = True
        done = {
            'id': str(len(self.names)),
            'command_name': command,
            'command_params': params,
            'command_status': 'SUCCEEDED',
            'command_error': None,
            'command_result': result,
        }
        self.names.append(command)
        self.commands.append(done)
        return done


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """What a cleaning has left.

    :ivar info: ``driver_internal_info`` of the node.
    :ivar demanded: the locks that it has closed.
    """

    info: dict[str, Any]
    demanded: frozenset[str]


class DeployCase(ApiCase):
    """An available node of an operator, which has a lessee, its cards locked; Ironic deploys it by ``direct``."""

    parameters: ClassVar[dict[str, Any]] = {'gpus': 1}
    baseline = 'format = 1\n[[rule]]\nname = "all"\nblock = ["host-device"]\n'
    deploy_interface = 'direct'
    rescue_interface = 'agent'
    inspect_interface = 'redfish-acc'
    storage_interface = 'noop'
    said = ''
    remembered: ClassVar[Cleaned | None] = None

    @pytest.fixture(autouse=True)
    def _stand_ins(self, monkeypatch: pytest.MonkeyPatch) -> None:
        RECORD.__init__()  # type: ignore[misc]
        self._monkeypatch = monkeypatch
        here = __name__
        added = {
            f'{GROUP}.boot': EntryPoint(RECORDING, f'{here}:RecordingBoot', f'{GROUP}.boot'),
            f'{GROUP}.management': EntryPoint(RECORDING, f'{here}:RecordingManagement', f'{GROUP}.management'),
        }
        monkeypatch.setattr(stevedore.ExtensionManager, 'ENTRY_POINT_CACHE', {})
        installed = stevedore._cache.get_group_all
        monkeypatch.setattr(
            stevedore._cache,
            'get_group_all',
            lambda group, **named: [*installed(group, **named), *((added[group],) if group in added else ())],
        )
        for kind, cls in (('boot', RecordingBoot), ('management', RecordingManagement)):
            supported = getattr(hardware.RedfishAccHardware, f'supported_{kind}_interfaces').fget
            monkeypatch.setattr(
                hardware.RedfishAccHardware,
                f'supported_{kind}_interfaces',
                property(lambda self, supported=supported, cls=cls: [*supported(self), cls]),
            )
        for name in ('set_power_state', 'reboot'):
            monkeypatch.setattr(AccPower, name, _told(getattr(AccPower, name)))
        # Ironic sleeps for 15 seconds while a host restarts that it may not power off.
        monkeypatch.setattr(redfish_power, 'time', SimpleNamespace(sleep=lambda _: time.sleep(0.1)))

    def _configure(self) -> None:
        super()._configure()
        for kind, names in {
            'boot': [RECORDING, 'fake'],
            'management': [RECORDING],
            'deploy': [*(name for name in IMAGING if name not in releases.LATER_DEPLOY_INTERFACES), NO_DEPLOY],
            'rescue': ['agent', 'no-rescue'],
            'storage': ['noop', 'external', 'cinder'],
        }.items():
            self.config(**{f'enabled_{kind}_interfaces': names, f'default_{kind}_interface': names[0]})
        self.config(group='service_catalog', endpoint_override='http://127.0.0.1:6385')
        self.config(
            group='agent', post_deploy_get_power_state_retry_interval=0.1, deploy_logs_collect='never', require_tls=False
        )
        self.config(group='ansible', post_deploy_get_power_state_retry_interval=0)
        self.config(group='deploy', http_url='http://127.0.0.1:1', http_root=str(self._folder / 'http'))

    def setUp(self) -> None:
        self.demanded = frozenset[str]()
        super().setUp()
        machine = self.machine._thread.emulator.product.machine
        machine.on_system_reset.append(functools.partial(self._power_changed, machine))
        self.agent = self._serve(RamdiskServer(self._ramdisk_runs, lambda: self.machine.power('ForceOff')))
        self.agent_url = f'http://127.0.0.1:{self.agent.server_address[1]}'
        self.node.provision_state = states.AVAILABLE
        self.node.save()
        self.prepare()

    def prepare(self) -> None:
        """The node was cleaned, and is available with its host off.

        The first test has it cleaned. The others begin with what was remembered then, before a machine of the same serials
        whose locks are open: as if its BMC had lost them since.
        """
        if DeployCase.remembered is None:
            self.edit(deploy_interface=NO_DEPLOY)
            self.clean()
            assert states.AVAILABLE == self.settle(), self.node.last_error
            demanded = frozenset(name for name, is_closed in self.locks().items() if is_closed)
            DeployCase.remembered = Cleaned(info=copy.deepcopy(self.node.driver_internal_info), demanded=demanded)
        self.demanded = DeployCase.remembered.demanded
        assert self.demanded
        self.press('ForceOff')
        self.edit(
            deploy_interface=self.deploy_interface,
            driver_internal_info=copy.deepcopy(DeployCase.remembered.info),
            instance_info=self.image(),
            power_state=states.POWER_OFF,
        )
        # It is another machine than that which was cleaned, at other addresses.
        node_store.store(self.node, replace(node_store.load(self.node), bmcs=bmc_source.digest(self.node)))
        self.forget()

    def edit(self, **values: Any) -> None:
        """As an operator, or the database, has the node."""
        self.node.refresh()
        for name, value in values.items():
            setattr(self.node, name, value)
        self.node.save()

    def forget(self) -> None:
        """What was recorded so far belongs to another way."""
        RECORD.starts.clear()
        RECORD.calls.clear()
        self.agent.names.clear()

    def make_node(self, **values: Any) -> Any:
        """A node that is deployed by a ramdisk."""
        return super().make_node(
            **{
                'boot_interface': RECORDING,
                'management_interface': RECORDING,
                'rescue_interface': self.rescue_interface,
                'inspect_interface': self.inspect_interface,
                'storage_interface': self.storage_interface,
            }
            | values
        )

    # ------------------------------------------------------------------------------------------------------ the machine

    def _power_changed(self, machine: Any, system: str, reset_type: str) -> None:
        """The machine tells a change of power; in its own thread."""
        starts = machine.systems[system].power is Power.POWERING_ON or machine.systems[system].booting
        if system != 'host':
            return
        if not starts:
            RECORD.runs = None
            return
        asked = RECORD.request
        RECORD.runs = RECORD.source
        RECORD.starts.append(
            Start(
                system=system,
                source=RECORD.source,
                chosen=RECORD.chosen,
                by_ironic=asked is not None,
                state=None if asked is None else asked.state,
                step=None if asked is None else asked.step,
                open=frozenset(k for k in self.demanded if not machine.truth()['locks'][k]['closed']),
                verified=asked is not None and asked.verified,
            )
        )
        self.agent.booted()

    def _ramdisk_runs(self) -> bool:
        return RECORD.runs == RAMDISK

    def open_locks(self) -> set[str]:
        """Demanded locks that are open: of those that the first cleaning has closed."""
        return {name for name, is_closed in self.locks().items() if not is_closed} & self.demanded

    def open_a_lock(self) -> None:
        """A BMC loses locks when its host is powered on and off, and nobody of Ironic sees it."""
        if self.open_locks():
            return
        self.machine.fault('lock-lost-on-reset')
        if self.host() == 'On':
            self.press('ForceRestart')
        else:
            self.press('ForceOn')
            self.press('ForceOff')
        self.machine.clear_faults()
        RECORD.starts.clear()
        assert self.open_locks()

    def press(self, reset_type: str) -> None:
        """Somebody presses the button of the host."""
        self.machine.power(reset_type)
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            host = self.machine.truth()['systems']['host']
            if host['power'] in ('On', 'Off') and not host['booting']:
                return
            time.sleep(0.02)

    def host(self) -> str:
        """The machine's truth: the power of the host."""
        return str(self.machine.truth()['systems']['host']['power'])

    # -------------------------------------------------------------------------------------------------------- stand-ins

    def _serve(self, server: Any) -> Any:
        threading.Thread(target=server.serve_forever, kwargs={'poll_interval': 0.02}, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return server

    def image(self) -> dict[str, Any]:
        """The instance_info of an image that a web server has."""
        folder = self._folder / 'www'
        folder.mkdir(exist_ok=True)
        data = b'an image' * 512
        (folder / 'x.img').write_bytes(data)
        handler = functools.partial(_Files, directory=str(folder))
        server = self._serve(http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler))
        self.images = f'http://127.0.0.1:{server.server_address[1]}'
        digest = hashlib.sha256(data).hexdigest()
        return {
            'image_source': f'{self.images}/x.img',
            'image_checksum': digest,
            'image_os_hash_algo': 'sha256',
            'image_os_hash_value': digest,
            'image_disk_format': 'raw',
            'root_gb': 1,
        }

    def heartbeat(self, **named: Any) -> None:
        """The ramdisk looks its node up, as its first act, and tells that it is there."""
        token = self.node.driver_internal_info.get('agent_secret_token')
        if token is None:
            token = self.service.get_node_with_token(self.context, self.node.uuid).driver_internal_info['agent_secret_token']
        self.service.heartbeat(self.context, self.node.uuid, self.agent_url, '11.0.0', token, **named)
        self.node.refresh()

    # ------------------------------------------------------------------------------------------------------------ verbs

    def ask(self, headers: dict[str, str], path: str, body: dict[str, Any]) -> int:
        """Ask Ironic's API for a change of state; the status of the answer."""
        RECORD.begin()
        answer = self.app.put_json(f'/v1/nodes/{self.node.uuid}/states/{path}', body, headers=headers, expect_errors=True)
        self.said = answer.text
        self.node.refresh()
        return int(answer.status_int)

    def provision(self, headers: dict[str, str], target: str, **more: Any) -> int:
        """Ask for a provision state."""
        return self.ask(headers, 'provision', {'target': target} | more)

    def switch(self, target: str, headers: dict[str, str] = SYSTEM_ADMIN) -> int:
        """Ask for a power state."""
        return self.ask(headers, 'power', {'target': target})

    def drive(self) -> str:
        """Let time pass until the node waits for nothing that would come: our periodics, and heartbeats of a ramdisk."""
        self.node.refresh()
        quiet = 0
        for _ in range(ROUNDS):
            if self.node.provision_state not in WAITS:
                return str(self.node.provision_state)
            before = (self.node.provision_state, str(self.node.driver_internal_info), len(RECORD.calls), len(self.agent.names))
            state = self.node_state
            if state.job is not None and not state.job.ended:
                self.settle_job()
            elif self._ramdisk_runs():
                self.heartbeat()
            now = (self.node.provision_state, str(self.node.driver_internal_info), len(RECORD.calls), len(self.agent.names))
            quiet = quiet + 1 if before == now else 0
            if quiet > 2:
                return str(self.node.provision_state)
        raise AssertionError(f'still {self.node.provision_state}: {self.node.deploy_step} {self.agent.names}')

    def settle_job(self) -> None:
        """Our periodics, until the job has ended."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            self.poll()
            if self.node_state.job is None or self.node_state.job.ended or self.node.provision_state not in WAITS:
                return
            time.sleep(0.02)

    # ------------------------------------------------------------------------------------------------------- properties

    def assert_safe(self) -> None:
        """No start of the host with anything but the operator's ramdisk while a demanded lock is open or unproven.

        And every flow of Ironic has set its own boot source before it started the host.
        """
        for start in RECORD.starts:
            if not (start.source == RAMDISK and start.state in OPERATORS):
                assert not start.open, start
                assert start.verified or not start.by_ironic, start
            if start.state in FLOWS:
                # A step of a service that restarts the host without a ramdisk restarts what ran.
                assert start.chosen or (start.state, start.source) == (states.SERVICING, INSTANCE), start
                assert start.source != NOWHERE, start

    def started(self) -> list[tuple[str, str | None]]:
        """What the host was started with, and in which step."""
        return [(s.source, s.step) for s in RECORD.starts]


class _Files(http.server.SimpleHTTPRequestHandler):
    """Files, without a word on the terminal."""

    def log_message(self, *_: Any) -> None:
        """Nothing."""


def _told(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def wrapped(self: Any, task: Any, *arguments: Any, **named: Any) -> Any:
        with _asking(task):
            return method(self, task, *arguments, **named)

    return wrapped


@contextlib.contextmanager
def _asking(task: Any) -> Iterator[None]:
    node = task.node
    flow = {
        states.DEPLOYING: 'deploy_step',
        states.CLEANING: 'clean_step',
        states.SERVICING: 'service_step',
        states.DEPLOYWAIT: 'deploy_step',
        states.CLEANWAIT: 'clean_step',
        states.SERVICEWAIT: 'service_step',
    }.get(node.provision_state)
    step = None if flow is None else (getattr(node, flow) or {}).get('step')
    outer = RECORD.request
    RECORD.request = Request(state=node.provision_state, step=step, verified=node_store.load(node).proven is not None)
    try:
        yield
    finally:
        RECORD.request = outer


__all__ = [
    'DISK',
    'INSTANCE',
    'NETWORK',
    'NOWHERE',
    'RAMDISK',
    'RECORD',
    'RECORDING',
    'DeployCase',
    'RecordingBoot',
    'Start',
]
