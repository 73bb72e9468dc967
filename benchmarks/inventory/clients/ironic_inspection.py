# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Ironic's own way: the redfish inspect interface and its firmware cache, with a fake task. One line of JSON at the end.

The classes are Ironic's, and everything between them and the BMC is real. Replaced is only what needs Ironic's database: the
node's save, the stored inspection data, the ports, the rules, the rows of firmware components.
"""

import argparse
import json
import sys
import time
import types
from unittest import mock


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('address')
    parser.add_argument('username')
    parser.add_argument('password')
    parser.add_argument('--system', help='URI of the System; needed where there are several')
    arguments = parser.parse_args()

    from ironic import objects
    from ironic.common import context, exception, inspection_rules
    from ironic.conf import CONF
    from ironic.drivers.modules import inspect_utils
    from ironic.drivers.modules.redfish import firmware, inspect
    from ironic.objects import firmware as rows
    from ironic.objects import node as nodes
    from oslo_log import log

    log.register_options(CONF)
    CONF([], project='ironic', default_config_files=[], default_config_dirs=[])
    objects.register_all()
    info = {
        'redfish_address': arguments.address,
        'redfish_username': arguments.username,
        'redfish_password': arguments.password,
        'redfish_auth_type': 'session',
    }
    if arguments.system:
        info['redfish_system_id'] = arguments.system
    node = nodes.Node(
        context.get_admin_context(),
        id=1,
        uuid='7b3c2b9e-5f6c-4a58-9a0d-0d9e4c9f0001',
        name='bench',
        driver='redfish',
        driver_info=info,
        driver_internal_info={},
        properties={},
        extra={},
        inspect_interface='redfish',
        firmware_interface='redfish',
    )
    task = types.SimpleNamespace(node=node, context=node._context, ports=[], portgroups=[], driver=mock.MagicMock())
    stored: dict[str, object] = {}
    components: list[object] = []

    def keep(_node: object, inventory: object, plugin_data: object, _context: object) -> None:
        stored['inventory'] = inventory

    def sync(_context: object, _node: object, settings: list[object]) -> tuple[list[object], list[object], list[object]]:
        components.extend(settings)
        return [], [], settings

    with (
        mock.patch.object(nodes.Node, 'save'),
        mock.patch.object(inspect_utils, 'store_inspection_data', keep),
        mock.patch.object(objects.Port, 'create'),
        mock.patch.object(objects.Port, 'list_by_node_id', return_value=[]),
        mock.patch.object(objects.Port, 'get_by_address', side_effect=exception.PortNotFound(port='none')),
        mock.patch.object(inspection_rules.engine, 'apply_rules'),
        mock.patch.object(rows.FirmwareComponentList, 'sync_firmware_components', sync),
    ):
        inspector = inspect.RedfishInspect()
        cache = firmware.RedfishFirmware()
        started, cpu = time.monotonic(), time.process_time()
        inspector.inspect_hardware(task)
        cache.cache_firmware_components(task)
        found = {'wall': time.monotonic() - started, 'cpu': time.process_time() - cpu}
    inventory = stored['inventory']
    assert isinstance(inventory, dict)
    print(json.dumps({**found, 'pci_devices': len(inventory.get('pci_devices') or ()), 'firmware': len(components)}))


if __name__ == '__main__':
    sys.exit(main())
