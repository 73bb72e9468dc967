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
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from clock import Clock  # this environment is without our package

TRIES = 600
"""Ironic takes PoweringOff for off, and gives up where the BMC then refuses to power on: here it tries again every second."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--images', nargs='+', required=True, help='names of the images to write, one after the other')
    arguments = parser.parse_args()
    told = json.loads(sys.stdin.readline())

    from ironic import objects
    from ironic.common import context, exception, states
    from ironic.conductor import periodics
    from ironic.conductor import utils as conductor
    from ironic.conf import CONF
    from ironic.drivers.modules.redfish import firmware, power
    from ironic.drivers.modules.redfish import utils as redfish
    from ironic.objects import firmware as rows
    from ironic.objects import node as nodes
    from oslo_log import log
    from oslo_utils import timeutils

    log.register_options(CONF)
    CONF([], project='ironic', default_config_files=[], default_config_dirs=[])
    objects.register_all()
    clock = Clock(told['control'])
    admin = context.get_admin_context()
    interface = firmware.RedfishFirmware()
    began = datetime.datetime.now(datetime.UTC)
    fleet: dict[str, Any] = {}
    ended: dict[str, float] = {}
    failed: dict[str, str] = {}
    quiet: dict[str, float] = {}
    counted = {'derivations': 0, 'reboots': 0, 'longest': 0.0}
    derive = hashlib.pbkdf2_hmac

    def utcnow(with_timezone: bool = False) -> datetime.datetime:
        now = began + datetime.timedelta(seconds=clock.now())
        return now if with_timezone else now.replace(tzinfo=None)

    def seconds() -> float:
        return began.timestamp() + clock.now()

    def derived(name: str, password: bytes, salt: bytes, rounds: int) -> bytes:
        counted['derivations'] += 1
        return derive(name, password, salt, 1)

    def wait_for_power(task: Any, wanted: str, timeout: float | None = None) -> str:
        limit = clock.now() + (timeout or CONF.conductor.power_state_change_timeout)
        while task.driver.power.get_power_state(task) != wanted:
            if clock.now() > limit:
                raise RuntimeError(f'power did not become {wanted}')
            clock.skip(1.0)
        return wanted

    def power_action(task: Any, state: str, timeout: float | None = None) -> Any:
        assert state == states.REBOOT
        counted['reboots'] += 1
        # Without the decorator, which knows a task only by its class.
        reboot = power.RedfishPower.reboot.__wrapped__
        for _ in range(TRIES):
            try:
                return reboot(task.driver.power, task, timeout=timeout)
            except exception.RedfishError:
                clock.skip(1.0)
        raise RuntimeError('the host could not be restarted')

    def touch(node: Any) -> None:
        quiet[node.uuid] = max(quiet.get(node.uuid, 0.0), (utcnow(True) - node.provision_updated_at).total_seconds())
        node.provision_updated_at = utcnow(True)

    def resume(task: Any) -> None:
        ended[task.node.uuid] = clock.now()

    def went_wrong(task: Any, message: str, *_: object, **__: object) -> None:
        failed[task.node.uuid], ended[task.node.uuid] = message, clock.now()

    def task_of(node: Any) -> Any:
        driver = types.SimpleNamespace(power=power.RedfishPower(), management=mock.MagicMock(), firmware=interface)
        return types.SimpleNamespace(node=node, context=admin, driver=driver, shared=False, upgrade_lock=lambda: None, ports=[])

    @contextlib.contextmanager
    def acquire(_context: object, uuid: str, **_: object) -> Iterator[Any]:
        yield task_of(fleet[uuid])

    def waiting(**_: object) -> Iterator[tuple[Any, ...]]:
        for uuid in [uuid for uuid in fleet if uuid not in ended]:
            yield uuid, 'redfish', '', fleet[uuid].driver_internal_info

    patches = [
        mock.patch.object(time, 'sleep', clock.skip),
        mock.patch.object(time, 'time', seconds),
        mock.patch.object(timeutils, 'utcnow', utcnow),
        mock.patch.object(redfish.hashlib, 'pbkdf2_hmac', derived),
        mock.patch.object(nodes.Node, 'save'),
        mock.patch.object(nodes.Node, 'touch_provisioning', touch),
        mock.patch.object(conductor, 'node_wait_for_power_state', wait_for_power),
        mock.patch.object(conductor, 'node_power_action', power_action),
        mock.patch.object(conductor, 'notify_conductor_resume_clean', resume),
        mock.patch.object(conductor, 'cleaning_error_handler', went_wrong),
        mock.patch.object(periodics.task_manager, 'acquire', acquire),
        mock.patch.object(rows.FirmwareComponentList, 'sync_firmware_components', return_value=([], [], [])),
    ]
    with contextlib.ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        cpu = time.process_time()
        for number, bmc in enumerate(told['bmcs']):
            uuid = f'7b3c2b9e-5f6c-4a58-9a0d-{number:012x}'
            info = {'redfish_address': bmc['address'], 'redfish_username': bmc['username'], 'redfish_password': bmc['password']}
            fleet[uuid] = nodes.Node(
                admin,
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
                provision_updated_at=utcnow(True),
                firmware_interface='redfish',
            )
        for node in fleet.values():
            url = f'http://127.0.0.1:{told["control"]}/images'
            settings = [
                {'component': f'nic:{name.removesuffix("_FW")}', 'url': f'{url}/{name}.img'} for name in arguments.images
            ]
            interface.update(task_of(node), settings)
        manager = types.SimpleNamespace(iter_nodes=waiting)
        spacing = CONF.redfish.firmware_update_status_interval
        due = clock.now() + spacing
        while len(ended) < len(fleet):
            clock.skip(due - clock.now())
            started = clock.now()
            interface._query_update_status(manager, admin)
            counted['longest'] = max(counted['longest'], clock.now() - started)
            due = max(clock.now(), started + spacing)
        cpu = time.process_time() - cpu
    found = {
        'ended': [ended[uuid] for uuid in fleet],
        'failed': sorted(set(failed.values())),
        'failures': len(failed),
        'quiet': sum(1 for alone in quiet.values() if alone > CONF.conductor.clean_callback_timeout),
        'skipped': clock.skipped,
        'cpu': cpu,
        **counted,
    }
    print(json.dumps(found))


if __name__ == '__main__':
    sys.exit(main())
