# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""An emulated Intel FPGA card with reconfiguration slots.

**Hardware:** shaped after a PAC D5005 (Stratix 10) and DMTF's invented rack server (recording ``dmtf/rackmount``): no recording
of a real machine shows ReconfigurationSlots or ProgrammableFromHost.
**Found by:** Systems/System_0/Processors/FPGA1 with ProcessorType FPGA and an FPGA object.
**Can do:** update of FPGA1_FW (in force after a restart of the host); programming of a slot at once, by an image of the kind
*function* sent to SoftwareInventory/FPGA1_Slot<n>. Firmware and functions are different kinds of images: each item refuses the
other kind.
**Locks:** FPGA.ProgrammableFromHost and that of each slot block the host's PCIe path only; WriteProtected of FPGA1_FW blocks
every path.
**Update:** an empty slot has an empty Version, no AccelerationFunction link and no resource.
**Tried on:** nothing real.
"""

from collections.abc import Mapping

from baremetal_acc.emulator.hw import board
from baremetal_acc.emulator.hw.parameters import MachineMaker
from baremetal_acc.emulator.image import ImageFormat
from baremetal_acc.emulator.ipmi.fru import EmulatedBoardArea
from baremetal_acc.emulator.parts import Bank, EmulatedComponent, Restart, WriteRoute
from baremetal_acc.emulator.redfish.pcie import add_pcie_device
from baremetal_acc.emulator.redfish.processor import (
    EmulatedSlot,
    add_acceleration_functions,
    add_processor,
    fpga_body,
    fpga_writable,
)
from baremetal_acc.emulator.redfish.update import FIRMWARE, SOFTWARE, add_item
from baremetal_acc.emulator.redfish.view import View

DEVICE = 'FPGA1'
IMAGE_MODEL = 'd5005'
MODEL = 'FPGA PAC D5005'
MANUFACTURER = 'Intel(R) Corporation'
VERSION = '2.0.0'

PCI_FUNCTION: Mapping[str, str] = {
    'VendorId': '0x8086',
    'DeviceId': '0x0b2b',
    'SubsystemVendorId': '0x8086',
    'SubsystemId': '0x0000',
    'ClassCode': '0x120000',
    'DeviceClass': 'ProcessingAccelerators',
    'SegmentNumber': '0x0000',
    'BusNumber': '0xe3',
    'DeviceNumber': '0x00',
    'RevisionId': '0x01',
}

PROCESSOR = f'{board.SYSTEM}/Processors/{DEVICE}'
PCIE_DEVICE = f'{board.CHASSIS}/PCIeDevices/{DEVICE}'
PCIE_FUNCTIONS = (f'{PCIE_DEVICE}/PCIeFunctions/0',)


def add_fpga(maker: MachineMaker, view: View) -> None:
    """Add the card: a Processor with its FPGA object, a PCIeDevice, functions, and inventory items."""
    machine, bmc = maker.machine, view.name
    lock = machine.add_lock(
        f'{DEVICE}/ProgrammableFromHost', True, locked=False, open=True, bmc=bmc, uri=PROCESSOR, device=DEVICE
    )
    item = f'{DEVICE}_FW'
    protect = machine.add_lock(
        f'{item}/WriteProtected',
        False,
        locked=True,
        open=False,
        bmc=bmc,
        uri=f'{FIRMWARE}/{item}',
        device=DEVICE,
    )
    firmware = machine.add_component(
        EmulatedComponent(
            key=f'{bmc}/{item}',
            bmc=bmc,
            uri=f'{FIRMWARE}/{item}',
            device=DEVICE,
            kind=ImageFormat.FIRMWARE,
            model=IMAGE_MODEL,
            component='fpga',
            active=Bank(version=VERSION),
            activates=Restart.WARM,
            write_protect=protect.key,
        )
    )
    machine.ways.append(
        WriteRoute(device=DEVICE, component='fpga', path='pcie', target=firmware.key, locks=(lock.key, protect.key))
    )
    slots = tuple(_slot(maker, bmc, number, lock.key) for number in range(maker.parameters.fpga_slots))
    serial, uuid = maker.serial(DEVICE, prefix='IN'), maker.uuid(DEVICE)
    maker.boards.setdefault(bmc, {})[DEVICE] = EmulatedBoardArea(
        manufacturer=MANUFACTURER, name=MODEL, serial=serial, part_number='BD-ACD-D5005'
    )
    add_processor(
        view,
        PROCESSOR,
        kind='FPGA',
        name='FPGA',
        manufacturer=MANUFACTURER,
        model=MODEL,
        serial=serial,
        part_number='BD-ACD-D5005',
        uuid=uuid,
        chassis=board.CHASSIS,
        component=firmware.key,
        pcie_device=PCIE_DEVICE,
        pcie_functions=PCIE_FUNCTIONS,
        device=DEVICE,
        watts=60.0,
        properties={
            'ProcessorArchitecture': 'OEM',
            'InstructionSet': 'OEM',
            'TDPWatts': 189,
            'SystemInterface': {
                'InterfaceType': 'PCIe',
                'PCIe': {'LanesInUse': 16, 'MaxLanes': 16, 'MaxPCIeType': 'Gen3', 'PCIeType': 'Gen3'},
            },
            'Location': {'PartLocation': {'LocationType': 'Slot', 'LocationOrdinalValue': 3, 'ServiceLabel': 'Slot 3'}},
        },
        fpga=fpga_body(
            view,
            PROCESSOR,
            slots,
            lock=lock.key,
            firmware_id='0x6400002fc614bb9',
            manufacturer=MANUFACTURER,
            model='Stratix10',
        ),
        writable=fpga_writable(view, slots, lock=lock.key),
    )
    add_acceleration_functions(view, PROCESSOR, slots, manufacturer=MANUFACTURER, device=DEVICE)
    add_pcie_device(
        view,
        PCIE_DEVICE,
        name='FPGA card',
        manufacturer=MANUFACTURER,
        model=MODEL,
        serial=serial,
        part_number='BD-ACD-D5005',
        uuid=uuid,
        chassis=board.CHASSIS,
        processor=PROCESSOR,
        component=firmware.key,
        device=DEVICE,
        slot={'SlotType': 'FullLength', 'Lanes': 16, 'PCIeType': 'Gen3', 'HotPluggable': False},
        functions=(PCI_FUNCTION,),
    )
    add_item(
        view,
        firmware.key,
        name='FPGA firmware',
        description='The firmware of the card, not a function',
        manufacturer=MANUFACTURER,
        related=[PROCESSOR],
        software_id='0x0b2b',
    )
    for number, slot in enumerate(slots):
        add_item(
            view,
            slot.component,
            name=f'FPGA function in {slot.slot_id}',
            description='The function that the slot holds; empty when it holds none',
            manufacturer=MANUFACTURER,
            related=[f'{PROCESSOR}#/FPGA/ReconfigurationSlots/{number}'],
            software_id=f'0x0b2b-{number}',
        )


def _slot(maker: MachineMaker, bmc: str, number: int, whole: str) -> EmulatedSlot:
    machine = maker.machine
    slot_id = f'Slot{number}'
    lock = machine.add_lock(
        f'{DEVICE}/{slot_id}/ProgrammableFromHost',
        True,
        locked=False,
        open=True,
        bmc=bmc,
        uri=PROCESSOR,
        device=DEVICE,
    )
    component = machine.add_component(
        EmulatedComponent(
            key=f'{bmc}/{DEVICE}_{slot_id}',
            bmc=bmc,
            uri=f'{SOFTWARE}/{DEVICE}_{slot_id}',
            device=DEVICE,
            kind=ImageFormat.FUNCTION,
            model=IMAGE_MODEL,
            component='slot',
            active=None,
        )
    )
    machine.ways.append(
        WriteRoute(
            device=DEVICE,
            component='slot',
            path='pcie',
            target=component.key,
            locks=(whole, lock.key),
            slot=number,
        )
    )
    return EmulatedSlot(slot_id=slot_id, uuid=maker.uuid(f'{DEVICE}/{slot_id}'), component=component.key, lock=lock.key)
