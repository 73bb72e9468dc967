# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Product ``twin-server``: two hosts in one enclosure behind one BMC, ``host``, each with its GPUs, and a shared FPGA card.

**Hardware:** invented; two boards of ``board.py`` as sleds of an enclosure, each with the baseboard of ``gpu.py``.
**Found by:** Systems/Node0 and Systems/Node1; Chassis/Enclosure contains Chassis/Node0 and Chassis/Node1. The FPGA card is a
PCIeDevice of the enclosure with a function for each host, which both Systems list.
**Can do:** each System has its own power, restarts and boot settings (``node0`` and ``node1`` in the machine); an image that
waits for a restart waits for that of its own host. The firmware of the FPGA card comes in force at once. IPMI knows one host:
``node0``.
**Locks:** those of ``gpu.py``, of UEFI_n and of the FPGA card (SoftwareInventory.WriteProtected blocks the paths of both
hosts); those of the BMC and its host interface apply to both hosts.
**Update:** both hosts share the one UpdateService. **Tried on:** nothing real.
"""

from baremetal_acc.emulator.hw import board, fpga, gpu, hgx_board
from baremetal_acc.emulator.hw.parameters import MachineMaker, Parameters, ProductParameters
from baremetal_acc.emulator.image import ImageFormat
from baremetal_acc.emulator.parts import Bank, EmulatedComponent, Restart, System, WriteRoute
from baremetal_acc.emulator.redfish.chassis import CHASSIS, Reading, add_chassis, add_cooling, add_power
from baremetal_acc.emulator.redfish.pcie import add_pcie_device
from baremetal_acc.emulator.redfish.update import FIRMWARE, add_item
from baremetal_acc.emulator.redfish.view import View

GPUS = 2
"""GPUs of each host."""

ENCLOSURE = f'{CHASSIS}/Enclosure'
SHELF = 'shelf'
"""The system of the parts that are powered as long as the enclosure is."""

CARD = 'SharedFPGA'
CARD_URI = f'{ENCLOSURE}/PCIeDevices/{CARD}'
CARD_ITEM = f'{CARD}_FW'

HOSTS = tuple(
    board.HostBoard(
        name=f'node{number}',
        system_id=f'Node{number}',
        chassis_id=f'Node{number}',
        nic_id=f'NIC_{number}',
        uefi_id=f'UEFI_{number}',
        part=f'node{number}/',
        kind='Sled',
        contained_by=ENCLOSURE,
    )
    for number in range(2)
)


def build(parameters: Parameters) -> ProductParameters:
    """Build the product."""
    maker = MachineMaker('twin-server', parameters)
    machine = maker.machine
    for host in HOSTS:
        machine.systems[host.name] = System(name=host.name, bmc='host', uri=host.system)
    machine.systems[SHELF] = System(name=SHELF, bmc='', uri='')
    view = board.new_view(maker, 'host', board.MANAGER, product=board.MODEL, vendor=board.MANUFACTURER)
    board.add_component(maker, view, 'FW_BMC_0', 'bmc', board.BMC_VERSION, system=SHELF)
    board.add_bmc_board(maker, view.name)
    gpus = GPUS if parameters.gpus is None else parameters.gpus
    for number, host in enumerate(HOSTS):
        baseboard = hgx_board.Baseboard(number=number, first_gpu=number * gpus, host=host.name, in_chassis=host.chassis)
        board.add_component(maker, view, host.uefi_id, 'uefi', board.UEFI_VERSION, system=host.name, activates=Restart.WARM)
        board.add_host(
            maker,
            view,
            host,
            contains=[baseboard.chassis],
            pcie_functions=[f'{CARD_URI}/PCIeFunctions/{number}'],
            elsewhere=[CARD_URI],
        )
        board.add_uefi_item(view, host)
        gpu.add_baseboard(maker, view, gpus=gpus, baseboard=baseboard)
    systems = [host.system for host in HOSTS]
    board.add_bmc(maker, view, systems=systems, chassis=ENCLOSURE)
    _add_enclosure(maker, view, systems)
    _add_card(maker, view)
    maker.systems[view.name] = systems[0]
    return maker.finish()


def _add_enclosure(maker: MachineMaker, view: View, systems: list[str]) -> None:
    add_chassis(
        view,
        'Enclosure',
        kind='Enclosure',
        manufacturer=board.MANUFACTURER,
        model='ES-2000-TWIN',
        serial=maker.serial('enclosure', prefix='ES'),
        part_number='ES-2000-T',
        uuid=maker.uuid('enclosure'),
        managers=[board.MANAGER],
        systems=systems,
        contains=[host.chassis for host in HOSTS],
        pcie_devices=[CARD_URI],
        system=SHELF,
        sensors=(Reading(id='Shelf_Temp', kind='Temperature', units='Cel', reading=25.0, context='Intake'),),
    )
    add_power(view, ENCLOSURE, supplies=4, watts=2400, manufacturer=board.MANUFACTURER)
    add_cooling(view, ENCLOSURE, fans=8)


def _add_card(maker: MachineMaker, view: View) -> None:
    """Add the shared FPGA card: a PCIeDevice, and the inventory item of its firmware."""
    machine = maker.machine
    uri = f'{FIRMWARE}/{CARD_ITEM}'
    lock = machine.add_lock(
        f'{CARD_ITEM}/WriteProtected',
        False,
        locked=True,
        open=False,
        bmc=view.name,
        uri=uri,
        device=CARD,
        system=SHELF,
    )
    firmware = machine.add_component(
        EmulatedComponent(
            key=f'{view.name}/{CARD_ITEM}',
            bmc=view.name,
            uri=uri,
            device=CARD,
            kind=ImageFormat.FIRMWARE,
            model=fpga.IMAGE_MODEL,
            component='fpga',
            active=Bank(version=fpga.VERSION),
            system=SHELF,
            write_protect=lock.key,
        )
    )
    machine.ways += [
        WriteRoute(device=CARD, component='fpga', path='pcie', target=firmware.key, locks=(lock.key,), host=host.name)
        for host in HOSTS
    ]
    add_pcie_device(
        view,
        CARD_URI,
        name=fpga.MODEL,
        manufacturer=fpga.MANUFACTURER,
        model=fpga.MODEL,
        serial=maker.serial(CARD, prefix='IN'),
        part_number='BD-ACD-D5005',
        uuid=maker.uuid(CARD),
        chassis=ENCLOSURE,
        component=firmware.key,
        device=CARD,
        functions=[fpga.PCI_FUNCTION for _ in HOSTS],
    )
    add_item(
        view,
        firmware.key,
        name='FPGA card firmware',
        description='The firmware of the card of both hosts',
        manufacturer=fpga.MANUFACTURER,
        related=[CARD_URI],
        software_id='0x0b2b',
    )
