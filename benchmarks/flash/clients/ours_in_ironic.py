# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Our step ``reconcile_accelerators`` in Ironic: our periodic hands out turns to workers. One line of JSON at the end.

The interface, its periodic, the turns and everything between them and the BMCs are real. Replaced is what needs Ironic's
database (nodes, their locks, history, rows of firmware components and traits, the inspection store), telling the conductor, and
time: pauses are jumped over while no worker is at work.
"""

import argparse
import contextlib
import json
import sys
import threading
import time
import traceback
import types
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from ironic import objects
from ironic.common import context, exception, states
from ironic.conductor import task_manager
from ironic.conf import CONF
from ironic.drivers.modules import inspect_utils
from ironic.objects import node as nodes
from ironic.objects import trait
from oslo_log import log

from baremetal_acc.config.options import GROUP
from baremetal_acc_ironic import firmware
from baremetal_acc_ironic.reporting import record
from baremetal_acc_ironic.state import provision_state
from baremetal_acc_ironic.steps import wall_clock
from benchmarks.flash.clock import Clock


class Conductor:
    """As much of one as our periodic needs: nodes with their locks, and a pool of workers.

    :ivar ended: when a node's step was over. ``failed``: with what.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.start = datetime.now(UTC)
        self.admin = context.get_admin_context()
        CONF.set_override('accepted_misconfigurations', ['middleware'], 'baremetal_acc')  # there is no API here
        self.interface = firmware.RedfishAccFirmware()
        self.nodes: dict[str, Any] = {}
        self.ended: dict[str, float] = {}
        self.failed: dict[str, str] = {}
        self.turns = 0
        self._locked: set[str] = set()
        self._idle = threading.Condition()
        self._pool = ThreadPoolExecutor(CONF.conductor.workers_pool_size)

    def now(self) -> datetime:
        """The time by our clock."""
        return self.start + timedelta(seconds=self.clock.now())

    def task(self, uuid: str) -> Any:
        """What a step or a turn works with."""
        driver = types.SimpleNamespace(firmware=self.interface)
        return types.SimpleNamespace(node=self.nodes[uuid], context=self.admin, driver=driver, shared=False)

    # -------------------------------------------------------------------------------------------- what the periodic asks for

    def iter_nodes(self, *, filters: dict[str, Any], fields: list[str]) -> Iterator[tuple[Any, ...]]:
        """Those that wait and that nobody holds."""
        for uuid, node in self.nodes.items():
            if node.provision_state in filters['provision_state_in'] and uuid not in self._locked and uuid not in self.ended:
                yield uuid, 'redfish-acc', '', node.driver_internal_info

    @contextlib.contextmanager
    def acquire(self, _context: object, uuid: str, **_: object) -> Iterator[Any]:
        """A task that begins its worker when it is left, and then keeps its lock until the worker is done."""
        found = self.task(uuid)
        spawned: list[Callable[[], None]] = []

        def lock(*, retry: bool = True) -> None:
            with self._idle:
                if uuid in self._locked:
                    raise exception.NodeLocked(node=uuid, host='bench')
                self._locked.add(uuid)

        def spawn_after(spawn: Callable[..., None], *arguments: Any, _allow_reserved_pool: bool = True) -> None:
            spawned.append(lambda: spawn(uuid, *arguments))

        found.upgrade_lock, found.spawn_after = lock, spawn_after
        yield found
        for begin in spawned:
            begin()

    def _spawn_worker(self, uuid: str, call: Callable[..., None], *arguments: Any) -> None:
        self._pool.submit(self._in_worker, uuid, call, *arguments)

    def _in_worker(self, uuid: str, call: Callable[..., None], *arguments: Any) -> None:
        self.turns += 1
        try:
            call(*arguments)
        except Exception as exc:  # noqa: BLE001 - the others go on
            frame = traceback.extract_tb(exc.__traceback__)[-1]
            self.over(uuid, f'{type(exc).__name__}: {exc} ({Path(frame.filename).name}:{frame.lineno})')
        finally:
            with self._idle:
                self._locked.discard(uuid)
                self._idle.notify_all()

    # -------------------------------------------------------------------------------------------------------- the benchmark

    def over(self, uuid: str, why: str | None = None) -> None:
        """A step has ended."""
        self.ended[uuid] = self.clock.now()
        if why is not None:
            self.failed[uuid] = why

    def begin(self) -> None:
        """The step of every node, each in a worker, as it is when they all begin to be cleaned."""
        for uuid in self.nodes:
            with self._idle:
                self._locked.add(uuid)
            self._spawn_worker(uuid, self._step, uuid)

    def _step(self, uuid: str) -> None:
        waits = self.interface.reconcile_accelerators(self.task(uuid))
        self.nodes[uuid].provision_state = waits or states.CLEANING
        if waits is None:
            self.over(uuid)

    def run(self) -> None:
        """Until all steps have ended."""
        due = 0.0
        while len(self.ended) < len(self.nodes):
            if self.clock.now() >= due:
                due = self.clock.now() + float(CONF[GROUP].poll_interval)
                self.interface.turn_jobs(self, self.admin)
            with self._idle:
                if self._locked:
                    self._idle.wait(max(0.0, due - self.clock.now()))
                    continue
            self.clock.skip(due - self.clock.now())
        self._pool.shutdown()


def main() -> None:
    """Flash."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('documents', type=Path, help='folder of baseline.toml and catalogue.toml')
    parser.add_argument('--parallel', type=int, default=1, help='updates that a BMC takes at once, as its operator says')
    parser.add_argument('--poll', type=float, default=5.0)
    arguments = parser.parse_args()
    told = json.loads(sys.stdin.readline())
    log.register_options(CONF)
    CONF([], project='ironic', default_config_files=[], default_config_dirs=[])
    objects.register_all()
    settings: dict[str, Any] = {
        'baseline': str(arguments.documents / 'baseline.toml'),
        'catalogue': str(arguments.documents / 'catalogue.toml'),
        'poll_interval': arguments.poll,
        'publish': False,
    }
    for name, value in settings.items():
        CONF.set_override(name, value, group=GROUP)
    conductor = Conductor(Clock(told['control']))
    for number, bmc in enumerate(told['bmcs']):
        node = _node(conductor, number, bmc, arguments.parallel)
        conductor.nodes[node.uuid] = node

    def rows(columns: list[str], filters: dict[str, str], limit: int) -> list[tuple[Any, ...]]:
        return [tuple(getattr(conductor.nodes[filters['uuid']], column) for column in columns)][:limit]

    def resume(task: Any, _flow: object) -> None:
        conductor.over(task.node.uuid)

    def fail(task: Any, text: str) -> None:
        conductor.over(task.node.uuid, text)

    patches: list[Any] = [
        mock.patch.object(nodes.Node, 'save'),
        mock.patch.object(nodes.Node, 'dbapi', SimpleNamespace(get_nodeinfo_list=rows)),
        mock.patch.object(nodes.Node, 'touch_provisioning'),
        mock.patch.object(task_manager, 'acquire', conductor.acquire),
        mock.patch.object(inspect_utils, 'get_inspection_data', return_value={'inventory': {}, 'plugin_data': {}}),
        mock.patch.object(inspect_utils, 'store_inspection_data'),
        mock.patch.object(record, 'sync_firmware'),
        mock.patch.object(record, 'sync_traits', return_value=frozenset()),
        mock.patch.object(provision_state, 'told'),
        mock.patch.object(provision_state, 'resume', resume),
        mock.patch.object(provision_state, 'fail', fail),
        mock.patch.object(wall_clock, 'now', conductor.now),
    ]
    with contextlib.ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        cpu = time.process_time()
        conductor.begin()
        conductor.run()
        cpu = time.process_time() - cpu
    found = {
        'ended': [conductor.ended[uuid] for uuid in conductor.nodes],
        'failed': sorted(set(conductor.failed.values())),
        'failures': len(conductor.failed),
        'turns': conductor.turns,
        'skipped': conductor.clock.skipped,
        'cpu': cpu,
    }
    print(json.dumps(found))


def _node(conductor: Conductor, number: int, bmc: dict[str, Any], parallel: int) -> Any:
    info = {f'redfish_{name}': bmc[name] for name in ('address', 'username', 'password')}
    return nodes.Node(
        conductor.admin,
        id=number + 1,
        uuid=f'7b3c2b9e-5f6c-4a58-9a0d-{number:012x}',
        name=f'node-{number}',
        driver='redfish-acc',
        driver_info=info | {'redfish_system_id': bmc['system'], 'acc_parallel_updates': parallel},
        driver_internal_info={},
        properties={},
        extra={},
        instance_uuid=None,
        reservation='bench',
        owner=None,
        lessee=None,
        maintenance=False,
        fault=None,
        parent_node=None,
        instance_info={},
        network_data={},
        deploy_step={},
        service_step={},
        resource_class='bench',
        traits=trait.TraitList(objects=[]),
        power_state=states.POWER_ON,
        provision_state=states.CLEANING,
        target_provision_state=states.AVAILABLE,
        clean_step={'interface': 'firmware', 'step': 'reconcile_accelerators', 'priority': 90},
        console_interface='no-console',
        firmware_interface='redfish-acc',
        management_interface='redfish',
        power_interface='redfish',
        raid_interface='no-raid',
        vendor_interface='no-vendor',
    )


if __name__ == '__main__':
    main()
