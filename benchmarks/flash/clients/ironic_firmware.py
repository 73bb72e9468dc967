# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Ironic's own way: the step ``firmware.update`` and the periodic that follows it. One line of JSON at the end.

The classes are Ironic's, the periodic is its own with its decorator, and everything between them and the BMCs is real. Replaced
is what needs Ironic's database (nodes, their locks, rows of firmware components), telling the conductor, and time: pauses are
jumped over. Three things are left out in Ironic's favour: the 600,000 rounds of key derivation for every look-up of a session
(they are counted), a power-on that comes too early (it is tried again), and that a conductor gives up on nodes that nobody has
touched for longer than ``[conductor] clean_callback_timeout`` (they are counted as quiet).
"""

import argparse
import contextlib
import datetime
import hashlib
import json
import sys
import time
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from ironic import objects
from ironic.common import context, exception, states
from ironic.conductor import periodics
from ironic.conductor import utils as conductor_utils
from ironic.conf import CONF
from ironic.drivers.modules.redfish import firmware, power
from ironic.drivers.modules.redfish import utils as redfish
from ironic.objects import firmware as rows
from ironic.objects import node as nodes
from oslo_log import log
from oslo_utils import timeutils

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from clock import Clock  # this environment is without our package

TRIES = 600
"""Ironic takes PoweringOff for off, and gives up where the BMC then refuses to power on: here it tries again every second."""


class Conductor:
    """As much of one as Ironic's periodic needs: nodes, and what is told to it about them.

    :ivar ended: when a node's step was over. ``failed``: with what. ``quiet``: the longest that nobody touched it, in seconds.
    :ivar counted: key derivations, reboots, and how long the longest round of the periodic took.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.interface = firmware.RedfishFirmware()
        self.nodes: dict[str, Any] = {}
        self.ended: dict[str, float] = {}
        self.failed: dict[str, str] = {}
        self.quiet: dict[str, float] = {}
        self.counted = {'derivations': 0, 'reboots': 0, 'longest': 0.0}
        self._admin = context.get_admin_context()
        self._began = datetime.datetime.now(datetime.UTC)
        self._derive = hashlib.pbkdf2_hmac

    # ------------------------------------------------------------------------------------------ what stands for Ironic's own

    def replaced(self) -> list[Any]:
        """Everything of Ironic's, and of time, that is another one while it runs."""
        return [
            mock.patch.object(time, 'sleep', self.clock.skip),
            mock.patch.object(time, 'time', self._seconds),
            mock.patch.object(timeutils, 'utcnow', self._utcnow),
            mock.patch.object(redfish.hashlib, 'pbkdf2_hmac', self._derived),
            mock.patch.object(nodes.Node, 'save'),
            mock.patch.object(nodes.Node, 'touch_provisioning', lambda node: self._touched(node)),
            mock.patch.object(conductor_utils, 'node_wait_for_power_state', self._wait_for_power),
            mock.patch.object(conductor_utils, 'node_power_action', self._power_action),
            mock.patch.object(conductor_utils, 'notify_conductor_resume_clean', self._resumed),
            mock.patch.object(conductor_utils, 'cleaning_error_handler', self._went_wrong),
            mock.patch.object(periodics.task_manager, 'acquire', self._acquire),
            mock.patch.object(rows.FirmwareComponentList, 'sync_firmware_components', return_value=([], [], [])),
        ]

    def _utcnow(self, with_timezone: bool = False) -> datetime.datetime:
        now = self._began + datetime.timedelta(seconds=self.clock.now())
        return now if with_timezone else now.replace(tzinfo=None)

    def _seconds(self) -> float:
        return self._began.timestamp() + self.clock.now()

    def _derived(self, name: str, password: bytes, salt: bytes, rounds: int) -> bytes:
        self.counted['derivations'] += 1
        return self._derive(name, password, salt, 1)

    def _wait_for_power(self, task: Any, wanted: str, timeout: float | None = None) -> str:
        limit = self.clock.now() + (timeout or CONF.conductor.power_state_change_timeout)
        while task.driver.power.get_power_state(task) != wanted:
            if self.clock.now() > limit:
                raise RuntimeError(f'power did not become {wanted}')
            self.clock.skip(1.0)
        return wanted

    def _power_action(self, task: Any, state: str, timeout: float | None = None) -> Any:
        assert state == states.REBOOT
        self.counted['reboots'] += 1
        # Without the decorator, which knows a task only by its class.
        reboot = power.RedfishPower.reboot.__wrapped__
        for _ in range(TRIES):
            try:
                return reboot(task.driver.power, task, timeout=timeout)
            except exception.RedfishError:
                self.clock.skip(1.0)
        raise RuntimeError('the host could not be restarted')

    def _touched(self, node: Any) -> None:
        alone = (self._utcnow(True) - node.provision_updated_at).total_seconds()
        self.quiet[node.uuid] = max(self.quiet.get(node.uuid, 0.0), alone)
        node.provision_updated_at = self._utcnow(True)

    def _resumed(self, task: Any) -> None:
        self.ended[task.node.uuid] = self.clock.now()

    def _went_wrong(self, task: Any, message: str, *_: object, **__: object) -> None:
        self.failed[task.node.uuid], self.ended[task.node.uuid] = message, self.clock.now()

    @contextlib.contextmanager
    def _acquire(self, _context: object, uuid: str, **_: object) -> Iterator[Any]:
        yield self._task(uuid)

    def _task(self, uuid: str) -> Any:
        driver = types.SimpleNamespace(power=power.RedfishPower(), management=mock.MagicMock(), firmware=self.interface)
        return types.SimpleNamespace(
            node=self.nodes[uuid], context=self._admin, driver=driver, shared=False, upgrade_lock=lambda: None, ports=[]
        )

    # -------------------------------------------------------------------------------------------------------- the benchmark

    def enrol(self, number: int, bmc: dict[str, Any]) -> None:
        """A node that waits in the step."""
        uuid = f'7b3c2b9e-5f6c-4a58-9a0d-{number:012x}'
        info = {f'redfish_{name}': bmc[name] for name in ('address', 'username', 'password')}
        self.nodes[uuid] = nodes.Node(
            self._admin,
            id=number + 1,
            uuid=uuid,
            name=f'node-{number}',
            driver='redfish',
            driver_info=info | {'redfish_auth_type': 'session', 'redfish_system_id': bmc['system']},
            driver_internal_info={},
            properties={},
            extra={},
            provision_state=states.CLEANWAIT,
            clean_step={'interface': 'firmware', 'step': 'update', 'priority': 0},
            disable_power_off=False,
            provision_updated_at=self._utcnow(True),
            firmware_interface='redfish',
        )

    def begin(self, images: Sequence[tuple[str, str]]) -> None:
        """The step of every node, one after the other.

        :param images: component and URL of each.
        """
        for uuid in self.nodes:
            self.interface.update(self._task(uuid), [{'component': component, 'url': url} for component, url in images])

    def iter_nodes(self, **_: object) -> Iterator[tuple[Any, ...]]:
        """Those whose step goes on."""
        for uuid in [uuid for uuid in self.nodes if uuid not in self.ended]:
            yield uuid, 'redfish', '', self.nodes[uuid].driver_internal_info

    def run(self) -> None:
        """Ironic's periodic, until all steps have ended."""
        spacing = CONF.redfish.firmware_update_status_interval
        due = self.clock.now() + spacing
        while len(self.ended) < len(self.nodes):
            self.clock.skip(due - self.clock.now())
            started = self.clock.now()
            self.interface._query_update_status(self, self._admin)
            self.counted['longest'] = max(self.counted['longest'], self.clock.now() - started)
            due = max(self.clock.now(), started + spacing)

    def told(self) -> dict[str, Any]:
        """What came of it."""
        return {
            'ended': [self.ended[uuid] for uuid in self.nodes],
            'failed': sorted(set(self.failed.values())),
            'failures': len(self.failed),
            'quiet': sum(1 for alone in self.quiet.values() if alone > CONF.conductor.clean_callback_timeout),
            'skipped': self.clock.skipped,
            **self.counted,
        }


def main() -> None:
    """Flash."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--images', nargs='+', required=True, help='names of the images to write, one after the other')
    arguments = parser.parse_args()
    told = json.loads(sys.stdin.readline())
    log.register_options(CONF)
    CONF([], project='ironic', default_config_files=[], default_config_dirs=[])
    objects.register_all()
    served = f'http://127.0.0.1:{told["control"]}/images'
    conductor = Conductor(Clock(told['control']))
    with contextlib.ExitStack() as stack:
        for patch in conductor.replaced():
            stack.enter_context(patch)
        cpu = time.process_time()
        for number, bmc in enumerate(told['bmcs']):
            conductor.enrol(number, bmc)
        conductor.begin([(f'nic:{name.removesuffix("_FW")}', f'{served}/{name}.img') for name in arguments.images])
        conductor.run()
        cpu = time.process_time() - cpu
    print(json.dumps(conductor.told() | {'cpu': cpu}))


if __name__ == '__main__':
    sys.exit(main())
