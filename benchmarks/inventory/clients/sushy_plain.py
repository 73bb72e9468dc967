# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""sushy as its documentation shows it: systems, processors, PCIe devices, chassis, adapters, firmware. One line of JSON."""

import argparse
import contextlib
import json
import sys
import time
from typing import Any


def members(holder: Any, name: str) -> list[Any]:
    """The members of a collection below a resource; none where sushy cannot read it."""
    import sushy

    try:
        collection = getattr(holder, name)
        return list(collection.get_members()) if collection is not None else []
    except (sushy.exceptions.SushyError, AttributeError, KeyError, TypeError, ValueError):
        return []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('address')
    parser.add_argument('username')
    parser.add_argument('password')
    arguments = parser.parse_args()

    import sushy
    import sushy.auth

    started, cpu = time.monotonic(), time.process_time()
    auth = sushy.auth.SessionAuth(arguments.username, arguments.password)
    service = sushy.Sushy(arguments.address, auth=auth)
    found = {'processors': 0, 'pcie_functions': 0, 'adapters': 0, 'firmware': 0}
    for system in service.get_system_collection().get_members():
        found['processors'] += len(members(system, 'processors'))
        for device in members(system, 'pcie_devices'):
            found['pcie_functions'] += len(members(device, 'pcie_functions'))
    for chassis in service.get_chassis_collection().get_members():
        found['adapters'] += len(members(chassis, 'network_adapters'))
    with contextlib.suppress(sushy.exceptions.SushyError):
        found['firmware'] = len(members(service.get_update_service(), 'firmware_inventory'))
    auth.close()
    print(json.dumps({'wall': time.monotonic() - started, 'cpu': time.process_time() - cpu, **found}))


if __name__ == '__main__':
    sys.exit(main())
