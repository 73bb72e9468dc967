# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which machine is flashed? One server, one System, cards whose firmware comes into force with the host's next start.

Every card has firmware of its own that no image of another card fits, and a lock over it. The BMC takes as many updates at once
as there are cards.
"""

from baremetal_acc.emulator.hw import board, gpu
from baremetal_acc.emulator.hw.parameters import Maker, Parameters, Product
from baremetal_acc.emulator.image import Kind
from baremetal_acc.emulator.parts import Bank, Component, Restart, Way
from baremetal_acc.emulator.redfish.pcie import add_pcie_device
from baremetal_acc.emulator.redfish.processor import add_processor
from baremetal_acc.emulator.redfish.update import FIRMWARE, add_item
from baremetal_acc.emulator.redfish.view import View

BMC = 'host'
OLD, NEW = '1.0.0', '2.0.0'
IMAGE_MODEL = 'card'


def item(number: int) -> str:
    """The Id of a card's firmware item."""
    return f'GPU_{number}_FW'


def item_pattern() -> str:
    """What the Ids of all of them look like."""
    return 'GPU_*_FW'


def component(number: int) -> str:
    """What an image says that it is for."""
    return f'gpu{number}'


def build(parameters: Parameters, *, cards: int) -> Product:
    """The product."""
    maker = Maker('bench-server', parameters)
    places = [f'{board.CHASSIS}/PCIeDevices/GPU_{n}' for n in range(cards)]
    functions = [f'{place}/PCIeFunctions/0' for place in places]
    view = board.add_board(maker, bmc=BMC, pcie_devices=places, pcie_functions=functions)
    for number, place in enumerate(places):
        _add_card(maker, view, number, place)
    return maker.finish()


def _add_card(maker: Maker, view: View, number: int, place: str) -> None:
    machine, device, uri = maker.machine, f'GPU_{number}', f'{FIRMWARE}/{item(number)}'
    processor = f'{board.SYSTEM}/Processors/{device}'
    lock = machine.add_lock(f'{device}/WriteProtected', False, locked=True, open=False, bmc=BMC, uri=uri, device=device)
    firmware = machine.add_component(
        Component(
            key=f'{BMC}/{item(number)}',
            bmc=BMC,
            uri=uri,
            device=device,
            kind=Kind.FIRMWARE,
            model=IMAGE_MODEL,
            component=component(number),
            active=Bank(version=OLD),
            activates=Restart.WARM,
            write_protect=lock.key,
        )
    )
    machine.ways.append(Way(device=device, component='gpu', path='pcie', target=firmware.key, locks=(lock.key,)))
    serial, uuid = maker.serial(device, prefix='16'), maker.uuid(device)
    add_processor(
        view,
        processor,
        kind='GPU',
        name='Processor',
        manufacturer='NVIDIA',
        model=gpu.MODEL,
        serial=serial,
        part_number=gpu.PART_NUMBER,
        uuid=uuid,
        chassis=board.CHASSIS,
        component=firmware.key,
        pcie_device=place,
        pcie_functions=[f'{place}/PCIeFunctions/0'],
        device=device,
    )
    add_pcie_device(
        view,
        place,
        name='PCIe Device',
        manufacturer='NVIDIA',
        model=gpu.MODEL,
        serial=serial,
        part_number=gpu.PART_NUMBER,
        uuid=uuid,
        chassis=board.CHASSIS,
        processor=processor,
        component=firmware.key,
        device=device,
        functions=(
            {
                'VendorId': '0x10de',
                'DeviceId': '0x2330',
                'SubsystemVendorId': '0x10de',
                'SubsystemId': '0x16c1',
                'ClassCode': '0x030200',
                'DeviceClass': 'DisplayController',
                'SegmentNumber': '0x0000',
                'BusNumber': f'0x{0x1B + number * 0x10:02x}',
                'DeviceNumber': '0x00',
                'RevisionId': '0xa1',
            },
        ),
    )
    add_item(
        view,
        firmware.key,
        name='GPU firmware',
        description='The firmware of one card',
        manufacturer='NVIDIA',
        related=[processor],
        software_id='0x0020',
    )
