# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The node of an emulated machine as Ironic's API accepts it, for the demo, and as a file for ``baremetal create``."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from baremetal_acc.demo.service_files import no_deploy_interface, write_private

NODE_NAME = 'gold-1'
NODE_CLASS = 'baremetal.gold'
PARALLEL_UPDATES = 4
"""Updates that an emulated BMC runs at a time (``baremetal-acc emulate --parallel-updates``)."""

HOST = 'host'


def describe_node(bmcs: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the fields of the node.

    :param bmcs: ``bmcs`` of the emulator's ready file. The first one is the host's if none is called ``host``.
    """
    first = HOST if HOST in bmcs else next(iter(bmcs))
    host = bmcs[first]
    keys = ('address', 'username', 'password', 'verify_ca')
    further = {name: {key: bmc[key] for key in keys} for name, bmc in bmcs.items() if name != first}
    return {
        'name': NODE_NAME,
        'driver': 'redfish-acc',
        'resource_class': NODE_CLASS,
        # Nothing is imaged and no BIOS is set: all steps are out of band, without a ramdisk.
        'deploy_interface': no_deploy_interface(),
        'boot_interface': 'fake',
        'network_interface': 'noop',
        'management_interface': 'noop',
        'bios_interface': 'no-bios',
        'driver_info': {
            'redfish_address': host['address'],
            'redfish_username': host['username'],
            'redfish_password': host['password'],
            'redfish_verify_ca': host['verify_ca'],
            'redfish_system_id': host['system'],
            'acc_parallel_updates': PARALLEL_UPDATES,
            **({'acc_bmcs': further} if further else {}),
        },
    }


def write_nodes(ready: Path) -> Path:
    """Write ``nodes.json`` next to the emulator's ready file, for ``baremetal create``; only its owner can read it."""
    path = ready.with_name('nodes.json')
    node = describe_node(json.loads(ready.read_text())['bmcs'])
    write_private(path, json.dumps({'nodes': [node]}, indent=1) + '\n')
    return path
