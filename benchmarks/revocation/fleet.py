# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A real conductor with as many nodes as wanted, all like one that our steps have cleaned, and a placement that offers them."""

import contextlib
import copy
import hashlib
import os
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from unittest import mock

import requests
from futurist import periodics
from ironic import objects
from ironic.common import context, rpc, states
from ironic.conductor import manager, task_manager
from ironic.conf import CONF
from ironic.db import migration
from ironic.drivers.modules import inspect_utils
from keystoneauth1 import loading
from oslo_log import log

from baremetal_acc.config.options import GROUP
from baremetal_acc.emulator.http_frontend import Knobs
from baremetal_acc.emulator.hw import build
from baremetal_acc.emulator.hw.parameters import Parameters
from baremetal_acc.emulator.image import build_image
from baremetal_acc.emulator.remote import Remote
from baremetal_acc.emulator.server import Emulator, EmulatorThread, Serving
from baremetal_acc.scheduling.provider_names import OWNER, card_uuid
from baremetal_acc_ironic import compat, hardware, opts
from baremetal_acc_ironic.periodics import deny_list
from baremetal_acc_ironic.state import node_store
from benchmarks.placement.run import Placement

RUNS = '96.00.30.00.01'
"""The version that the emulated GPUs run."""

ROOT_CLASS, GPU_CLASS = 'CUSTOM_BENCH', 'PGPU'

BASELINE = f"""\
format = 1

[[rule]]
name = "gpus"
match = {{ kind = "GPU" }}
firmware = {{ "HGX_FW_GPU_*" = "{RUNS}" }}
block = ["host-device"]
custody = "reported"
"""

DENY = f"""
[[deny]]
reason = "a benchmark denies it"
component = "HGX_FW_GPU_*"
version = "{RUNS}"
"""

LIMIT = 3 * 3600.0
"""Seconds after which nothing is waited for any longer."""


class Fleet:
    """The nodes of one conductor."""

    def __init__(self, folder: Path, placement: Placement, *, gpus: int) -> None:
        self._folder = folder
        self._placement = placement
        self._stack = contextlib.ExitStack()
        self._gpus = gpus
        self._uuids: list[str] = []
        self._claims: dict[str, str] = {}
        self._reserved: list[str] = []
        self._cards: list[Any] = []
        self._local = threading.local()

    def __enter__(self) -> Self:
        parameters = Parameters(gpus=self._gpus, flash_seconds=0.1, reset_seconds=0.05)
        emulator = Emulator(Serving(knobs=Knobs()), product=build('gpu-server', parameters))
        thread = EmulatorThread(emulator)
        thread.start()
        self._stack.callback(thread.stop)
        self._bmc = emulator.bmcs['host']
        self._remote = Remote(emulator.door, emulator.control)
        self._write_documents()
        self._configure()
        objects.register_all()
        migration.create_schema()
        rpc.init(CONF)
        self.context = context.get_admin_context()
        self.service = manager.ConductorManager(CONF.host, 'bench')
        # The periodic that is measured is called as its spacing says; no other one disturbs it.
        with mock.patch.object(periodics.PeriodicWorker, 'start', autospec=True):
            self.service.init_host(start_consoles=False, start_allocations=False)
        self.service._periodic_tasks = mock.Mock()  # else the end of those that were not started would be waited for
        rpc.set_global_manager(self.service)
        self._stack.callback(self.service.del_host)
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    def _write_documents(self) -> None:
        (self._folder / 'baseline.toml').write_text(BASELINE, encoding='utf-8')
        data = build_image(model='h100', component='gpu', version=RUNS)
        (self._folder / 'image').write_bytes(data)
        self._catalogue = self._folder / 'catalogue.toml'
        self._allowed = (
            'format = 1\n\n[[image]]\nname = "gpu"\nkind = "firmware"\nfits = [{ pci = "0x10de:0x2330" }]\n'
            f'component = "HGX_FW_GPU_*"\nversion = "{RUNS}"\nsecurity_version = 1\nsource = "image"\nsize = {len(data)}\n'
            f'digest = "sha256:{hashlib.sha256(data).hexdigest()}"\nrestore = "none"\n'
        )
        self._catalogue.write_text(self._allowed, encoding='utf-8')

    def _configure(self) -> None:
        log.register_options(CONF)
        CONF([], project='ironic', default_config_files=[], default_config_dirs=[])
        CONF.register_opts(loading.get_auth_plugin_conf_options('admin_token'), group='placement')
        name = opts.REDFISH_ACC
        no_deploy = 'noop' if compat.NO_DEPLOY.__module__.endswith('noop') else 'fake'
        interfaces = {
            'bios': 'no-bios', 'boot': 'fake', 'console': 'no-console', 'deploy': no_deploy, 'firmware': name,
            'inspect': name, 'management': 'noop', 'network': 'noop', 'power': name, 'raid': 'no-raid',
            'rescue': 'no-rescue', 'storage': 'noop', 'vendor': 'no-vendor',
        }  # fmt: skip
        values: dict[str, dict[str, Any]] = {
            'DEFAULT': {
                'host': 'bench', 'rpc_transport': 'none', 'auth_strategy': 'noauth', 'state_path': str(self._folder),
                'enabled_hardware_types': [name],
                **{f'enabled_{kind}_interfaces': [value] for kind, value in interfaces.items()},
                **{f'default_{kind}_interface': value for kind, value in interfaces.items()},
            },
            'database': {'connection': f'sqlite:///{self._folder}/ironic.sqlite'},
            'placement': {
                'auth_type': 'admin_token', 'endpoint': self._placement.url, 'token': 'admin',
                'endpoint_override': self._placement.url,
            },
            GROUP: {
                'baseline': str(self._folder / 'baseline.toml'), 'catalogue': str(self._folder / 'catalogue.toml'),
                'publish': True, 'poll_interval': 0.2, 'accepted_misconfigurations': ['middleware', 'no_api_guard'],
            },
        }  # fmt: skip
        for group, options in values.items():
            for option, value in options.items():
                CONF.set_override(option, value, None if group == 'DEFAULT' else group)
        self._interfaces = interfaces
        assert hardware.RedfishAccHardware

    # ------------------------------------------------------------------------------------------------------------ set up

    def grow(self, number: int, claimed: float, reserved: float, pool: ThreadPoolExecutor) -> None:
        """Clean one node by our steps, and make all others of it.

        :param claimed: the share of the nodes of which a card is claimed, and ``reserved`` of which an operator reserves one.
        """
        self._ask('PUT', f'/resource_classes/{ROOT_CLASS}')
        first = self._node('node-0', str(uuid.uuid4()), {}, states.MANAGEABLE)
        self._roots([first.uuid])
        self._clean(first)
        look = node_store.last_look(first, node_store.load(first))
        assert look is not None
        self._cards = [a.id for a in look.accelerators]
        traits = {card: self._ask('GET', f'/resource_providers/{card_uuid(first.uuid, card)}/traits') for card in self._cards}
        with task_manager.acquire(self.context, first.uuid, shared=True) as task:
            data = inspect_utils.get_inspection_data(task.node, task.context)
        uuids = [str(uuid.uuid4()) for _ in range(number - 1)]
        parts = [uuids[start : start + 50] for start in range(0, len(uuids), 50)]
        published = [pool.submit(self._publish, part, traits) for part in parts]
        for position, own in enumerate(uuids, 1):
            info = copy.deepcopy(dict(first.driver_internal_info))
            node = self._node(f'node-{position}', own, info, states.AVAILABLE)
            inspect_utils.store_inspection_data(node, data['inventory'] or {}, data['plugin_data'], self.context)
        for one in published:
            one.result()
        self._uuids = [first.uuid, *uuids]
        for own in self._uuids[:: max(1, round(1 / claimed))] if claimed else ():
            self._claims[own] = self._claim(own)
        for own in self._uuids[:: max(1, round(1 / reserved))] if reserved else ():
            self._reserved.append(self._reserve(own))

    def _node(self, name: str, own: str, info: dict[str, Any], state: str) -> Any:
        bmc = self._bmc
        node = objects.Node(
            self.context,
            uuid=own,
            name=name,
            driver=opts.REDFISH_ACC,
            driver_info={
                'redfish_address': bmc.address,
                'redfish_username': bmc.username,
                'redfish_password': bmc.password,
                'redfish_verify_ca': bmc.verify_ca,
                'redfish_system_id': bmc.system,
            },
            driver_internal_info=info,
            properties={},
            resource_class='bench',
            provision_state=state,
            power_state=states.POWER_OFF,
            **{f'{kind}_interface': value for kind, value in self._interfaces.items()},
        )
        node.create()
        return node

    def _clean(self, node: Any) -> None:
        self.service.do_provisioning_action(self.context, node.uuid, 'provide')
        with task_manager.acquire(self.context, node.uuid, shared=True) as task:
            firmware = task.driver.firmware
        end = time.monotonic() + 120
        while time.monotonic() < end:
            firmware.turn_jobs(self.service, self.context)
            firmware.recover_jobs(self.service, self.context)
            time.sleep(0.1)
            node.refresh()
            is_over = node.provision_state in (states.AVAILABLE, states.CLEANFAIL)
            if is_over and node.reservation is None and not node_store.busy(node.driver_internal_info):
                break
        if node.provision_state != states.AVAILABLE or not self._allocatable():
            raise SystemExit(f'the first node is {node.provision_state}: {node.last_error}')

    def _roots(self, uuids: list[str]) -> None:
        for own in uuids:
            self._ask('POST', '/resource_providers', {'uuid': own, 'name': own})
        self._offer(dict.fromkeys(uuids, ROOT_CLASS), 0)

    def _publish(self, uuids: list[str], traits: dict[Any, Any]) -> None:
        """What our publisher makes of a node that is published the first time, in fewer requests."""
        self._roots(uuids)
        for own in uuids:
            for card in self._cards:
                provider = card_uuid(own, card)
                name = f'{own}_ACC_{provider.replace("-", "")[:12]}'
                body = {'uuid': provider, 'name': name, 'parent_provider_uuid': own}
                self._ask('POST', '/resource_providers', body)
                assert OWNER in traits[card]['traits']
                body = {'resource_provider_generation': 0, 'traits': traits[card]['traits']}
                self._ask('PUT', f'/resource_providers/{provider}/traits', body)
        self._offer({card_uuid(own, card): GPU_CLASS for own in uuids for card in self._cards}, 1)

    def _offer(self, classes: dict[str, str], generation: int) -> None:
        body = {
            'inventories': {
                provider: {'resource_provider_generation': generation, 'inventories': {name: {'total': 1, 'max_unit': 1}}}
                for provider, name in classes.items()
            },
            'allocations': {},
        }
        self._ask('POST', '/reshaper', body)

    def _claim(self, own: str) -> str:
        """Nova claims the node and one of its cards: Ironic does not know of it yet."""
        consumer = str(uuid.uuid4())
        claims = {own: {'resources': {ROOT_CLASS: 1}}, card_uuid(own, self._cards[0]): {'resources': {GPU_CLASS: 1}}}
        body = {'allocations': claims, 'project_id': 'p', 'user_id': 'u', 'consumer_generation': None}
        self._ask('PUT', f'/allocations/{consumer}', body)
        return consumer

    def _reserve(self, own: str) -> str:
        """An operator reserves the last card of a node by hand; its provider."""
        provider = card_uuid(own, self._cards[-1])
        path = f'/resource_providers/{provider}/inventories'
        body = self._ask('GET', path)
        body['inventories'][GPU_CLASS]['reserved'] = 1
        self._ask('PUT', path, body)
        return provider

    # ----------------------------------------------------------------------------------------------------------- measure

    def measure(self) -> dict[str, Any]:
        """Deny what all cards run, and then allow it again."""
        rounds = deny_list.rounds_of(self.service)
        with self._periodic():
            self._wait(lambda: rounds.images is not None and not rounds.scanning.locked(), 'the first round')
            all_of_them = self._allocatable()
            asked = self._bmc_requests()
            self._placement.counts()
            cpu, began = time.process_time(), time.monotonic()
            self._write(self._allowed + DENY)
            while self._allocatable():
                self._wait(lambda: not rounds.scanning.locked(), 'the withdrawal')
                time.sleep(0.25)
                if time.monotonic() - began > LIMIT:
                    break
            withdrawn = time.monotonic() - began
            cpu = time.process_time() - cpu
            counted = self._placement.counts()
            print(f'  nothing can be allocated after {withdrawn:.1f} s', file=sys.stderr)
            self._wait(lambda: self._is_settled(rounds), 'the nodes to be settled')
            settled = time.monotonic() - began
            print(f'  every node is settled after {settled:.0f} s', file=sys.stderr)
            allocatable, unreserved, lost = self._allocatable(), self._unreserved(), self._lost()
            began = time.monotonic()
            self._write(self._allowed)
            time.sleep(float(CONF[GROUP].deny_list_interval) + 1)
            self._wait(lambda: self._is_settled(rounds), 'the nodes to be settled')
            back = time.monotonic() - began
            not_back = all_of_them - self._allocatable()
            kept = [self._ask('GET', f'/resource_providers/{one}/inventories')['inventories'] for one in self._reserved]
            return {
                'nodes': len(self._uuids),
                'accelerators': len(self._uuids) * len(self._cards),
                'claimed': len(self._claims),
                'withdrawn': withdrawn,
                'settled': settled,
                'back': back,
                'placement_requests': sum(counted['asked'].values()),
                'bmc_requests': self._bmc_requests() - asked,
                'cpu': cpu,
                'placement_cpu': counted['cpu'],
                'allocatable': allocatable,
                'unreserved': unreserved,
                'claims_lost': lost,
                'not_back': not_back,
                'reserved': len(kept),
                'reservations_lost': sum(one.get(GPU_CLASS, {}).get('reserved') != 1 for one in kept),
            }

    @contextlib.contextmanager
    def _periodic(self) -> Iterator[None]:
        """Call the periodic as Ironic does, every ``deny_list_interval`` seconds."""
        ended = threading.Event()

        def run() -> None:
            while not ended.wait(float(CONF[GROUP].deny_list_interval)):
                deny_list.hand_out(self.service, self.context)

        thread = threading.Thread(target=run)
        deny_list.hand_out(self.service, self.context)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _write(self, text: str) -> None:
        """As an operator replaces the file."""
        new = self._catalogue.with_suffix('.new')
        new.write_text(text, encoding='utf-8')
        os.replace(new, self._catalogue)

    def _wait(self, is_so: Any, what: str) -> None:
        end = time.monotonic() + LIMIT
        while not is_so():
            if time.monotonic() > end:
                raise SystemExit(f'{what}: not within {LIMIT:.0f} s')
            time.sleep(0.1)

    def _is_settled(self, rounds: deny_list.DenyListRounds) -> bool:
        return not rounds.scanning.locked() and not rounds.waiting and not rounds.lanes

    def _allocatable(self) -> int:
        """How many providers have an accelerator that can be allocated now, as placement says."""
        return len(self._ask('GET', f'/resource_providers?resources={GPU_CLASS}:1')['resource_providers'])

    def _unreserved(self) -> int:
        """How many cards that are in use could be allocated again at once if their consumer left."""
        found = 0
        for own in self._claims:
            body = self._ask('GET', f'/resource_providers/{card_uuid(own, self._cards[0])}/inventories')
            found += body['inventories'][GPU_CLASS]['reserved'] < body['inventories'][GPU_CLASS]['total']
        return found

    def _lost(self) -> int:
        return sum(len(self._ask('GET', f'/allocations/{c}')['allocations']) != 2 for c in self._claims.values())

    def _bmc_requests(self) -> int:
        return sum(sum(bmc['requests'].values()) for bmc in self._remote.counters().values())

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        session = getattr(self._local, 'session', None)
        if session is None:
            session = self._local.session = requests.Session()
            session.trust_env = False
            session.headers.update(
                {'X-Auth-Token': 'admin', 'X-Roles': 'admin,service', 'OpenStack-API-Version': 'placement 1.37'}
            )
        answer = session.request(method, f'{self._placement.url}{path}', json=body, timeout=600)
        if answer.status_code >= 400:
            raise SystemExit(f'{method} {path}: {answer.status_code} {answer.text[:500]}')
        return answer.json() if answer.content else None
