# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""DMTF's redfish_utilities: its system inventory and its firmware list, as rf_sys_inventory and rf_firmware_inventory do."""

import argparse
import json
import sys
import time


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('address')
    parser.add_argument('username')
    parser.add_argument('password')
    arguments = parser.parse_args()

    import redfish
    import redfish_utilities

    started, cpu = time.monotonic(), time.process_time()
    service = redfish.redfish_client(base_url=arguments.address, username=arguments.username, password=arguments.password)
    service.login(auth='session')
    inventory = redfish_utilities.get_system_inventory(service)
    software = redfish_utilities.get_firmware_inventory(service)
    service.logout()
    devices = sum(len(group) for chassis in inventory for group in chassis.values() if isinstance(group, list))
    firmware = len(software)
    print(
        json.dumps(
            {'wall': time.monotonic() - started, 'cpu': time.process_time() - cpu, 'devices': devices, 'firmware': firmware}
        )
    )


if __name__ == '__main__':
    sys.exit(main())
