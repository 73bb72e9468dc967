# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""DMTF's redfish package alone: its client, and a plain walk through everything that an inventory needs. One line of JSON.

The package has no inventory of its own; this is what its examples do, in the order of the links.
"""

import argparse
import json
import sys
import time
from typing import Any


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('address')
    parser.add_argument('username')
    parser.add_argument('password')
    arguments = parser.parse_args()

    import redfish

    started, cpu = time.monotonic(), time.process_time()
    service = redfish.redfish_client(base_url=arguments.address, username=arguments.username, password=arguments.password)
    service.login(auth='session')
    read = 0

    def get(holder: Any, *names: str) -> dict[str, Any]:
        nonlocal read
        for name in names:
            holder = holder.get(name) if isinstance(holder, dict) else None
        link = holder.get('@odata.id') if isinstance(holder, dict) else None
        if not isinstance(link, str):
            return {}
        read += 1
        answer = service.get(link)
        return answer.dict if answer.status == 200 and isinstance(answer.dict, dict) else {}

    def members(collection: dict[str, Any]) -> list[dict[str, Any]]:
        return [get({'member': member}, 'member') for member in collection.get('Members') or ()]

    root = service.root
    for system in members(get(root, 'Systems')):
        members(get(system, 'Processors'))
        members(get(system, 'NetworkInterfaces'))
        for link in system.get('PCIeDevices') or ():
            members(get(get({'device': link}, 'device'), 'PCIeFunctions'))
    for chassis in members(get(root, 'Chassis')):
        members(get(chassis, 'NetworkAdapters'))
        for device in members(get(chassis, 'PCIeDevices')):
            members(get(device, 'PCIeFunctions'))
    members(get(root, 'Managers'))
    update = get(root, 'UpdateService')
    firmware = len(members(get(update, 'FirmwareInventory'))) + len(members(get(update, 'SoftwareInventory')))
    service.logout()
    found = {'wall': time.monotonic() - started, 'cpu': time.process_time() - cpu}
    print(json.dumps({**found, 'read': read, 'firmware': firmware}))


if __name__ == '__main__':
    sys.exit(main())
