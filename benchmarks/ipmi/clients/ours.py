# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The driver of this project at one BMC. One line of JSON."""

import argparse
import json
import time
from datetime import UTC, datetime
from pathlib import Path

from baremetal_acc.bmc.driver import BmcAddress
from baremetal_acc.bmc.ipmi.driver import IpmiDriver, place_of
from baremetal_acc.bmc.ipmi.session import RmcpSession
from baremetal_acc.model.image import Upload, UploadProgress
from baremetal_acc.model.inventory import TaskState
from baremetal_acc.model.ref import HOST, Ref


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('what', choices=('commands', 'inventory', 'upload'))
    parser.add_argument('port', type=int)
    parser.add_argument('username')
    parser.add_argument('password_file', type=Path)
    parser.add_argument('--number', type=int, default=0, help='of commands')
    parser.add_argument('--image', type=Path)
    parser.add_argument('--version')
    arguments = parser.parse_args()
    address = BmcAddress(
        name=HOST,
        address=f'ipmi://127.0.0.1:{arguments.port}',
        username=arguments.username,
        password=arguments.password_file.read_text(),
    )
    started, cpu = time.monotonic(), time.process_time()
    found: dict[str, object] = {}
    if arguments.what == 'commands':
        with RmcpSession(place_of(address)) as raw:
            began = time.monotonic()
            good = 0
            for number in range(arguments.number):
                good += raw(0x06, 0x01 if number % 2 else 0x37).ok
            found = {'good': good, 'rate': arguments.number / (time.monotonic() - began)}
    elif arguments.what == 'inventory':
        with IpmiDriver().connect(address) as connection:
            look = connection.look(datetime.now(UTC))
        found = {'cards': len(look.accelerators), 'gaps': len(look.gaps)}
    else:
        content = arguments.image.read_bytes()
        upload = Upload(file=arguments.image.name, size_bytes=len(content), open=lambda: arguments.image.open('rb'))
        ref = Ref(bmc=HOST, uri='/ipmi/hpm/0')
        with IpmiDriver().connect(address) as connection:
            task = connection.push(ref, upload)
            while isinstance(task, UploadProgress):
                task = connection.go_on(ref, upload, task)
            while task is not None and task.state is TaskState.ACTIVE:
                task = connection.task(ref)
            done, used = time.monotonic(), time.process_time()
            found = {'version': connection.component(ref).version}
            started, cpu = started + time.monotonic() - done, cpu + time.process_time() - used
    print(json.dumps({'wall': time.monotonic() - started, 'cpu': time.process_time() - cpu, **found}))


if __name__ == '__main__':
    main()
