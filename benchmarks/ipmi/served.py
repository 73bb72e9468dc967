# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""BMCs over RMCP+ in a process of its own: one takes blocks of 36 bytes, one of 900, and one says by HPM.2 what it takes.

Each has a board, four cards, and firmware by HPM.1, and does at once what it is told. Prints its ports as a line of JSON,
answers each line that comes in with what was counted since the last one, and ends with its input.
"""

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path

from baremetal_acc.emulator.clock import EmulatedClock
from baremetal_acc.emulator.image import ImageFormat, build_image, read_image
from baremetal_acc.emulator.ipmi.controller import (
    LAN,
    CommandAnswer,
    CommandRequest,
    ControllerIdentity,
    EmulatedController,
    EmulatedPrivilege,
)
from baremetal_acc.emulator.ipmi.fru import EmulatedBoardArea, EmulatedProductArea, FruDevices, inventory
from baremetal_acc.emulator.ipmi.hpm import Upgrades
from baremetal_acc.emulator.ipmi.hpm2_lan import ExtendedLan
from baremetal_acc.emulator.ipmi.hpm_ability import Ability, HpmPart
from baremetal_acc.emulator.ipmi.lan import LanLine, LanThread
from baremetal_acc.emulator.ipmi.presence import Presence
from baremetal_acc.emulator.ipmi.sdr import EmulatedFruLocator, Repository
from baremetal_acc.emulator.ipmi.session import SessionEndpoint
from baremetal_acc.emulator.ipmi.upgrade_image import UploadAction, build_upgrade_image
from baremetal_acc.emulator.ipmi.users import Users
from baremetal_acc.emulator.machine import Machine
from baremetal_acc.emulator.parts import Bank, EmulatedBmc, EmulatedComponent, System

USER, PASSWORD = 'admin', 'Sixteen is it 16'
SMALL, LARGE, TOLD = 'blocks of 36', 'blocks of 900', 'HPM.2'
BLOCKS = {SMALL: 36, LARGE: 900, TOLD: 0}
INBOUND_BYTES = 1024
CARDS = 4
IDENTITY = ControllerIdentity(device_id=0x21, firmware=(1, 4), manufacturer=7154, product=0x0BAD)
ADD_IN = 0x0B
KEY = 'host/FPGA_0'


class Counted(EmulatedController):
    """Counts what it is asked."""

    def __init__(self) -> None:
        super().__init__(identity=IDENTITY)
        self.asked: Counter[str] = Counter()

    def answer(self, request: CommandRequest) -> CommandAnswer:
        """As any other."""
        self.asked[f'{request.netfn:02X}/{request.command:02X}'] += 1
        return super().answer(request)


def bmc(kind: str) -> tuple[Counted, SessionEndpoint]:
    """One BMC of its own machine."""
    clock = EmulatedClock(virtual=False)
    machine = Machine(product='bench', clock=clock)
    machine.systems['host'] = System(name='host', bmc='host', uri='/host')
    machine.bmcs['host'] = EmulatedBmc(name='host', manager_uri='/bmc')
    factory = read_image(build_image(model='fx1', component='fpga', version='1.2', size_bytes=1000))
    machine.add_component(
        EmulatedComponent(
            key=KEY,
            bmc='host',
            uri=f'/{KEY}',
            device='',
            kind=ImageFormat.FIRMWARE,
            model='fx1',
            component='fpga',
            active=Bank(version='1.2', digest=factory.digest),
        )
    )
    controller, users = Counted(), Users()
    users.put(2, USER, PASSWORD.encode(), EmulatedPrivilege.ADMINISTRATOR)
    users.join(controller)
    boards = {0: ('Server 9', 'S-1')} | {3 + n: ('Alveo U250', f'A-{n}') for n in range(CARDS)}
    FruDevices(
        {
            number: inventory(
                board=EmulatedBoardArea(manufacturer='Maker', name=name, serial=f'B{serial}', part_number='BP-1'),
                product=EmulatedProductArea(manufacturer='Xilinx', name=name, part_number='PN-1', version='R1', serial=serial),
            )
            for number, (name, serial) in boards.items()
        }
    ).join(controller)
    locators = (EmulatedFruLocator(name=f'Card {n}', fru_id=3 + n, entity=ADD_IN, instance=n + 1) for n in range(CARDS))
    Repository(tuple(locators)).join(controller)
    endpoint = SessionEndpoint(controller, users, clock=clock, reset_seconds=0)
    block = BLOCKS[kind]
    if kind == TOLD:
        extended = ExtendedLan(endpoint.channel, inbound_bytes=INBOUND_BYTES)
        extended.join(controller)
        block = extended.block_bytes
    presence = Presence(controller, machine, 'host')
    part = HpmPart(key=KEY, name='FPGA')
    Upgrades(machine, {0: part}, presence, ability=Ability(block_bytes={LAN: block})).join(controller)
    return controller, endpoint


def write_image(path: Path, version: str, size_bytes: int) -> None:
    """An upgrade image of HPM.1 for these BMCs."""
    data = build_image(model='fx1', component='fpga', version=version, size_bytes=size_bytes)
    upload = UploadAction(component=0, version=version, data=data, description='FPGA')
    path.write_bytes(
        build_upgrade_image(
            [upload], device_id=IDENTITY.device_id, manufacturer=IDENTITY.manufacturer, product=IDENTITY.product
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--delay', type=float, default=0.0, help='delay of each answer in seconds')
    arguments = parser.parse_args()
    with LanThread() as lan:
        ports, controllers = {}, {}
        for kind in BLOCKS:
            controllers[kind], endpoint = bmc(kind)
            ports[kind] = lan.add(endpoint, line=LanLine(delay_seconds=arguments.delay))
        print(json.dumps(ports), flush=True)
        for _ in sys.stdin:
            counts = {kind: dict(one.asked) for kind, one in controllers.items()}
            for one in controllers.values():
                one.asked.clear()
            print(json.dumps({'counts': counts, 'cpu': time.process_time()}), flush=True)


if __name__ == '__main__':
    main()
