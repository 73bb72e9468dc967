# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What is every server made of? A board with CPUs, memory, drives, power, fans, a network adapter and a BMC.

**Hardware:** an invented two-socket server, of no vendor. **Found by:** Systems/System_0, Chassis/Chassis_0, Managers/BMC_0.
**Can do:** power and restart, boot override, virtual media, BMC firmware (at once) and UEFI firmware (after a restart of
the host). **Locks:** WriteProtected of both items, InterfaceEnabled of the host interface. **Tried on:** nothing real.
"""

from collections.abc import Sequence

from baremetal_acc.emulator.hw.parameters import Maker
from baremetal_acc.emulator.image import Kind
from baremetal_acc.emulator.ipmi.fru import Board
from baremetal_acc.emulator.ipmi.site import BMC_BOARD
from baremetal_acc.emulator.parts import Bank, Component, Restart, System
from baremetal_acc.emulator.redfish import chassis as chassis_resources
from baremetal_acc.emulator.redfish.accounts import add_accounts
from baremetal_acc.emulator.redfish.chassis import (
    Reading,
    add_chassis,
    add_chassis_collection,
    add_cooling,
    add_network_adapter,
    add_power,
)
from baremetal_acc.emulator.redfish.manager import MANAGERS, add_manager, add_managers_collection
from baremetal_acc.emulator.redfish.pcie import add_pcie_device
from baremetal_acc.emulator.redfish.processor import add_processor
from baremetal_acc.emulator.redfish.root import add_root
from baremetal_acc.emulator.redfish.system import (
    SYSTEMS,
    Attribute,
    add_bios,
    add_ethernet,
    add_log,
    add_memory,
    add_secure_boot,
    add_storage,
    add_system,
    add_systems_collection,
)
from baremetal_acc.emulator.redfish.tasks import add_tasks
from baremetal_acc.emulator.redfish.update import FIRMWARE, add_item, add_update_service
from baremetal_acc.emulator.redfish.view import View

MANUFACTURER = 'Example Systems'
MODEL = 'ES-2000'
IMAGE_MODEL = 'es2000'
BMC_VERSION = '1.04.2'
UEFI_VERSION = '1.2.0'
SYSTEM = f'{SYSTEMS}/System_0'
CHASSIS = f'{chassis_resources.CHASSIS}/Chassis_0'
MANAGER = f'{MANAGERS}/BMC_0'
CPUS = 2
DIMMS = 4
DIMM_GIB = 32


def new_view(maker: Maker, name: str, manager: str, *, product: str, vendor: str) -> View:
    """A BMC with the services that every BMC has: root, accounts, sessions, tasks, updates, empty collections."""
    view = maker.add_bmc(name, manager)
    add_root(view, product=product, vendor=vendor, manager=manager, seed=maker.parameters.seed)
    add_accounts(view)
    add_tasks(view)
    add_update_service(view)
    add_systems_collection(view)
    add_chassis_collection(view)
    add_managers_collection(view)
    return view


def add_board(
    maker: Maker,
    *,
    bmc: str,
    contains: Sequence[str] = (),
    pcie_devices: Sequence[str] = (),
    pcie_functions: Sequence[str] = (),
    managers: Sequence[str] = (),
) -> View:
    """The server and its BMC. What sits in it is named here and added by others.

    :param contains: further Chassis inside this one.
    :param pcie_devices: PCIeDevices of this chassis that belong to the host's System.
    """
    machine = maker.machine
    machine.systems['host'] = System(name='host', bmc=bmc, uri=SYSTEM)
    view = new_view(maker, bmc, MANAGER, product=MODEL, vendor=MANUFACTURER)
    bmc_item, uefi_item = f'{FIRMWARE}/FW_BMC_0', f'{FIRMWARE}/UEFI'
    for item, uri, component, version, activates in (
        ('FW_BMC_0', bmc_item, 'bmc', BMC_VERSION, None),
        ('UEFI', uefi_item, 'uefi', UEFI_VERSION, Restart.WARM),
    ):
        lock = machine.add_lock(f'{item}/WriteProtected', False, locked=True, open=False, bmc=bmc, uri=uri)
        machine.add_component(
            Component(
                key=f'{bmc}/{item}',
                bmc=bmc,
                uri=uri,
                device='',
                kind=Kind.FIRMWARE,
                model=IMAGE_MODEL,
                component=component,
                active=Bank(version=version),
                activates=activates,
                write_protect=lock.key,
            )
        )
    maker.boards.setdefault(bmc, {})[BMC_BOARD] = Board(
        manufacturer=MANUFACTURER, name=MODEL, serial=maker.serial('board', prefix='ES'), part_number='ES-2000-A'
    )
    nic = f'{CHASSIS}/PCIeDevices/NIC_0'
    add_system(
        view,
        'System_0',
        system='host',
        manufacturer=MANUFACTURER,
        model=MODEL,
        serial=maker.serial('board', prefix='ES'),
        part_number='ES-2000-A',
        uuid=maker.uuid('board'),
        chassis=[CHASSIS],
        managers=[MANAGER],
        memory_gib=DIMMS * DIMM_GIB,
        pcie_devices=[nic, *pcie_devices],
        pcie_functions=[f'{nic}/PCIeFunctions/0', *pcie_functions],
        bios_component=f'{bmc}/UEFI',
        parts=('Memory', 'Storage', 'EthernetInterfaces', 'Bios', 'SecureBoot', 'LogServices'),
        properties={
            'ProcessorSummary': {'Count': CPUS, 'CoreCount': 64, 'Model': 'EX-9300', 'Status': {'State': 'Enabled'}},
            'PowerRestorePolicy': 'LastState',
        },
    )
    macs = [maker.mac('nic/0'), maker.mac('nic/1')]
    for number in range(CPUS):
        add_processor(
            view,
            f'{SYSTEM}/Processors/CPU_{number}',
            kind='CPU',
            name=f'CPU {number}',
            manufacturer='Example Silicon',
            model='EX-9300',
            serial=maker.serial(f'cpu/{number}'),
            part_number='EX-9300-32',
            uuid=None,
            chassis=CHASSIS,
            properties={
                'ProcessorArchitecture': 'x86',
                'InstructionSet': 'x86-64',
                'Socket': f'CPU{number}',
                'TotalCores': 32,
                'TotalThreads': 64,
                'MaxSpeedMHz': 3600,
            },
            watts=180.0,
        )
    add_memory(view, SYSTEM, dimms=DIMMS, gib=DIMM_GIB, manufacturer='Example Memory')
    add_storage(view, SYSTEM, drives=2, gib=960, manufacturer='Example Storage', chassis=CHASSIS)
    add_ethernet(view, SYSTEM, {'nic0': macs[0], 'nic1': macs[1]})
    add_bios(
        view,
        SYSTEM,
        (
            Attribute(name='BootMode', default='Uefi', allowed=('Uefi', 'Legacy')),
            Attribute(name='SriovGlobalEnable', default=True),
            Attribute(name='ProcVirtualization', default='Enabled', allowed=('Enabled', 'Disabled')),
        ),
        system='host',
        software=(uefi_item,) if view.options.update_service else (),
    )
    add_secure_boot(view, SYSTEM)
    add_log(view, SYSTEM, 'SEL', kind='SEL', entries=('The system was powered on.', 'The boot has finished.'))
    add_chassis(
        view,
        'Chassis_0',
        kind='RackMount',
        manufacturer=MANUFACTURER,
        model=MODEL,
        serial=maker.serial('board', prefix='ES'),
        part_number='ES-2000-A',
        uuid=maker.uuid('chassis'),
        managers=[MANAGER],
        systems=[SYSTEM],
        contains=contains,
        pcie_devices=[nic, *pcie_devices],
        adapters=['NIC_0'],
        system='host',
        sensors=(
            Reading(id='Inlet_Temp', kind='Temperature', units='Cel', reading=24.5, context='Intake'),
            Reading(id='Outlet_Temp', kind='Temperature', units='Cel', reading=38.0, context='Exhaust'),
            Reading(id='Total_Power', kind='Power', units='W', reading=812.0, context='PowerSupply'),
        ),
    )
    add_power(view, CHASSIS, supplies=2, watts=2400, manufacturer=MANUFACTURER)
    add_cooling(view, CHASSIS, fans=4)
    add_pcie_device(
        view,
        nic,
        name='Network Adapter',
        manufacturer='Example Networks',
        model='EN-25',
        serial=maker.serial('nic', prefix='EN'),
        part_number='EN-25-2P',
        uuid=maker.uuid('nic'),
        chassis=CHASSIS,
        lanes=8,
        functions=(
            {
                'VendorId': '0x1af4',
                'DeviceId': '0x1000',
                'SubsystemVendorId': '0x1af4',
                'SubsystemId': '0x0001',
                'ClassCode': '0x020000',
                'DeviceClass': 'NetworkController',
                'SegmentNumber': '0x0000',
                'BusNumber': '0x04',
                'DeviceNumber': '0x00',
                'RevisionId': '0x00',
            },
        ),
    )
    add_network_adapter(
        view,
        CHASSIS,
        'NIC_0',
        manufacturer='Example Networks',
        model='EN-25',
        serial=maker.serial('nic', prefix='EN'),
        part_number='EN-25-2P',
        macs=macs,
    )
    add_manager(
        view,
        'BMC_0',
        model='ES-BMC',
        manufacturer=MANUFACTURER,
        uuid=maker.uuid('bmc'),
        component=f'{bmc}/FW_BMC_0',
        systems=[SYSTEM],
        chassis=[CHASSIS],
        in_chassis=CHASSIS,
        mac=maker.mac('bmc'),
        host_interface=True,
        virtual_media=True,
    )
    add_item(
        view,
        f'{bmc}/FW_BMC_0',
        name='BMC firmware',
        description='BMC image',
        manufacturer=MANUFACTURER,
        related=[MANAGER],
        software_id='0x0010',
    )
    add_item(
        view,
        f'{bmc}/UEFI',
        name='UEFI firmware',
        description='Host image',
        manufacturer=MANUFACTURER,
        related=[f'{SYSTEM}/Bios'],
        software_id='0x0011',
    )
    maker.systems[bmc] = SYSTEM
    return view
