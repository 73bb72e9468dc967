# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""python-ipmi by its own RMCP+ interface, as its documentation shows it. One line of JSON.

With cipher suite 3: 0.6.1 makes the keys of 17 from constants of 32 bytes, and BMCs and other clients from 20.
"""

import argparse
import json
import time
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('what', choices=('commands', 'inventory', 'upload'))
    parser.add_argument('port', type=int)
    parser.add_argument('username')
    parser.add_argument('password_file', type=Path)
    parser.add_argument('--number', type=int, default=0)
    parser.add_argument('--image', type=Path)
    parser.add_argument('--version')
    arguments = parser.parse_args()

    import pyipmi
    import pyipmi.interfaces

    started, cpu = time.monotonic(), time.process_time()
    interface = pyipmi.interfaces.create_interface('rmcpplus', cipher_suite=3, keep_alive_interval=0, max_retries=3)
    connection = pyipmi.create_connection(interface)
    connection.session.set_session_type_rmcp('127.0.0.1', port=arguments.port)
    connection.session.set_auth_type_user(arguments.username, arguments.password_file.read_text())
    connection.target = pyipmi.Target(ipmb_address=0x20)
    found: dict[str, object] = {}
    connection.open()
    try:
        if arguments.what == 'commands':
            began = time.monotonic()
            good = 0
            for number in range(arguments.number):
                (connection.get_device_id if number % 2 else connection.get_device_guid)()
                good += 1
            found = {'good': good, 'rate': arguments.number / (time.monotonic() - began)}
        elif arguments.what == 'inventory':
            locators = [e for e in connection.sdr_repository_entries() if hasattr(e, 'fru_device_id')]
            connection.get_device_id()
            boards = [connection.get_fru_inventory(n) for n in (0, *(e.fru_device_id for e in locators))]
            found = {'cards': len(boards) - 1}
        else:
            connection.install_component_from_file(str(arguments.image), 0)
            done, used = time.monotonic(), time.process_time()
            found = {'version': str(connection.get_component_property(0, 1).version)}
            started, cpu = started + time.monotonic() - done, cpu + time.process_time() - used
    finally:
        connection.close()
    print(json.dumps({'wall': time.monotonic() - started, 'cpu': time.process_time() - cpu, **found}))


if __name__ == '__main__':
    main()
