# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The emulated machine of the flash benchmark: one System, and cards whose firmware comes into force with the next host start.

Every card has firmware of its own that no image of another card fits, and a lock over it. The BMC takes as many updates at once
as there are cards.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from baremetal_acc.emulator.hw import board, gpu, hgx_board
from baremetal_acc.emulator.hw.parameters import MachineMaker, Parameters, ProductParameters
from baremetal_acc.emulator.image import ImageFormat
from baremetal_acc.emulator.parts import Bank, EmulatedComponent, Restart, Value, WriteRoute
from baremetal_acc.emulator.redfish.pcie import add_pcie_device
from baremetal_acc.emulator.redfish.processor import add_processor
from baremetal_acc.emulator.redfish.update import FIRMWARE, add_item
from baremetal_acc.emulator.redfish.view import Options, View

BMC = 'host'
OLD, NEW = '1.0.0', '2.0.0'
IMAGE_MODEL = 'card'


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """A kind of machine, and what of it is flashed.

    :ivar build: the product, from its parameters and the number of its cards.
    :ivar item: the Id of a card's firmware item, by the card's number.
    :ivar locks: the settings of a card's locks by their keys, closed or open.
    """

    build: Callable[[Parameters, int], ProductParameters]
    item: Callable[[int], str]
    locks: Callable[[int, bool], dict[str, Value]]
    new: str
    options: Options


def item(number: int) -> str:
    """The Id of a card's firmware item."""
    return f'GPU_{number}_FW'


def item_pattern() -> str:
    """What the Ids of all of them look like."""
    return 'GPU_*_FW'


def component(number: int) -> str:
    """What an image says that it is for."""
    return f'gpu{number}'


def locks(number: int, closed: bool) -> dict[str, Value]:
    """The lock of a card."""
    return {f'GPU_{number}/WriteProtected': closed}


def build(parameters: Parameters, cards: int) -> ProductParameters:
    """The product."""
    maker = MachineMaker('bench-server', parameters)
    places = [f'{board.CHASSIS}/PCIeDevices/GPU_{n}' for n in range(cards)]
    functions = [f'{place}/PCIeFunctions/0' for place in places]
    view = board.add_board(maker, bmc=BMC, pcie_devices=places, pcie_functions=functions)
    for number, place in enumerate(places):
        _add_card(maker, view, number, place)
    return maker.finish()


def _add_card(maker: MachineMaker, view: View, number: int, place: str) -> None:
    machine, device, uri = maker.machine, f'GPU_{number}', f'{FIRMWARE}/{item(number)}'
    processor = f'{board.SYSTEM}/Processors/{device}'
    lock = machine.add_lock(f'{device}/WriteProtected', False, locked=True, open=False, bmc=BMC, uri=uri, device=device)
    firmware = machine.add_component(
        EmulatedComponent(
            key=f'{BMC}/{item(number)}',
            bmc=BMC,
            uri=uri,
            device=device,
            kind=ImageFormat.FIRMWARE,
            model=IMAGE_MODEL,
            component=component(number),
            active=Bank(version=OLD),
            activates=Restart.WARM,
            write_protect=lock.key,
        )
    )
    machine.ways.append(WriteRoute(device=device, component='gpu', path='pcie', target=firmware.key, locks=(lock.key,)))
    card: dict[str, Any] = {
        'manufacturer': 'NVIDIA',
        'model': hgx_board.MODEL,
        'serial': maker.serial(device, prefix='16'),
        'part_number': hgx_board.PART_NUMBER,
        'uuid': maker.uuid(device),
        'chassis': board.CHASSIS,
        'component': firmware.key,
        'device': device,
    }
    add_processor(
        view,
        processor,
        kind='GPU',
        name='Processor',
        **card,
        pcie_device=place,
        pcie_functions=[f'{place}/PCIeFunctions/0'],
    )
    add_pcie_device(
        view,
        place,
        name='PCIe Device',
        **card,
        processor=processor,
        functions=(gpu.pci_function(number),),
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


# Ironic's own client names no target.
SERVER = Hardware(build=build, item=item, locks=locks, new=NEW, options=Options(strict_targets=False))
