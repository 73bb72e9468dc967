# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The emulated server board: CPUs, memory, drives, power supplies, fans, a network adapter and a BMC.

**Hardware:** an invented two-socket server, of no vendor. **Found by:** Systems/System_0, Chassis/Chassis_0, Managers/BMC_0.
**Can do:** power and restart, boot override, virtual media, BMC firmware (at once) and UEFI firmware (after a restart of the
host). **Locks:** WriteProtected of both inventory items, InterfaceEnabled of the host interface. **Tried on:** nothing real.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from baremetal_acc.emulator.hw.parameters import MachineMaker
from baremetal_acc.emulator.image import ImageFormat
from baremetal_acc.emulator.ipmi.fru import EmulatedBoardArea
from baremetal_acc.emulator.ipmi.site import BMC_BOARD
from baremetal_acc.emulator.parts import Bank, EmulatedComponent, Restart, System
from baremetal_acc.emulator.redfish import chassis as chassis_resources
from baremetal_acc.emulator.redfish.accounts import add_accounts
from baremetal_acc.emulator.redfish.bmc_services import add_events
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


@dataclass(frozen=True, slots=True, kw_only=True)
class HostBoard:
    """The names of one host of a machine: in the machine, and in the resources and inventory items of its BMC.

    :ivar part: the prefix of the names from which its serial numbers, UUIDs and MAC addresses are made.
    :ivar contained_by: the Chassis that contains the host's Chassis.
    """

    name: str = 'host'
    system_id: str = 'System_0'
    chassis_id: str = 'Chassis_0'
    nic_id: str = 'NIC_0'
    uefi_id: str = 'UEFI'
    part: str = ''
    kind: str = 'RackMount'
    contained_by: str | None = None

    @property
    def system(self) -> str:
        """The URI of its System."""
        return f'{SYSTEMS}/{self.system_id}'

    @property
    def chassis(self) -> str:
        """The URI of its Chassis."""
        return f'{chassis_resources.CHASSIS}/{self.chassis_id}'


HOST = HostBoard()


def new_view(maker: MachineMaker, name: str, manager: str, *, product: str, vendor: str) -> View:
    """Add a BMC with the services that every BMC has: root, accounts, sessions, tasks, updates, empty collections."""
    view = maker.add_bmc(name, manager)
    add_root(view, product=product, vendor=vendor, manager=manager, seed=maker.parameters.seed)
    add_accounts(view)
    add_events(view)
    add_tasks(view)
    add_update_service(view)
    add_systems_collection(view)
    add_chassis_collection(view)
    add_managers_collection(view)
    return view


def add_board(
    maker: MachineMaker,
    *,
    bmc: str,
    contains: Sequence[str] = (),
    pcie_devices: Sequence[str] = (),
    pcie_functions: Sequence[str] = (),
    managers: Sequence[str] = (),
) -> View:
    """Add the server and its BMC. Parts inside the server are named here and added by other functions.

    :param contains: further Chassis inside this one.
    :param pcie_devices: PCIeDevices of this chassis that belong to the host's System.
    """
    maker.machine.systems[HOST.name] = System(name=HOST.name, bmc=bmc, uri=SYSTEM)
    view = new_view(maker, bmc, MANAGER, product=MODEL, vendor=MANUFACTURER)
    add_component(maker, view, 'FW_BMC_0', 'bmc', BMC_VERSION)
    add_component(maker, view, HOST.uefi_id, 'uefi', UEFI_VERSION, activates=Restart.WARM)
    add_bmc_board(maker, bmc)
    add_host(maker, view, HOST, contains=contains, pcie_devices=pcie_devices, pcie_functions=pcie_functions)
    add_power(view, CHASSIS, supplies=2, watts=2400, manufacturer=MANUFACTURER)
    add_cooling(view, CHASSIS, fans=4)
    add_bmc(maker, view, systems=[SYSTEM], chassis=CHASSIS)
    add_uefi_item(view, HOST)
    maker.systems[bmc] = SYSTEM
    return view


def add_component(
    maker: MachineMaker,
    view: View,
    item: str,
    component: str,
    version: str,
    *,
    system: str = HOST.name,
    activates: Restart | None = None,
) -> None:
    """Add firmware of the board with its write protection.

    :param system: the system that powers it, and whose restart ``activates`` is.
    """
    uri = f'{FIRMWARE}/{item}'
    lock = maker.machine.add_lock(
        f'{item}/WriteProtected', False, locked=True, open=False, bmc=view.name, uri=uri, system=system
    )
    maker.machine.add_component(
        EmulatedComponent(
            key=f'{view.name}/{item}',
            bmc=view.name,
            uri=uri,
            device='',
            kind=ImageFormat.FIRMWARE,
            model=IMAGE_MODEL,
            component=component,
            active=Bank(version=version),
            activates=activates,
            system=system,
            write_protect=lock.key,
        )
    )


def add_bmc_board(maker: MachineMaker, bmc: str) -> None:
    """Add the board of the BMC, as the FRU inventory of IPMI describes it."""
    maker.boards.setdefault(bmc, {})[BMC_BOARD] = EmulatedBoardArea(
        manufacturer=MANUFACTURER, name=MODEL, serial=maker.serial('board', prefix='ES'), part_number='ES-2000-A'
    )


def add_host(
    maker: MachineMaker,
    view: View,
    host: HostBoard,
    *,
    contains: Sequence[str] = (),
    pcie_devices: Sequence[str] = (),
    pcie_functions: Sequence[str] = (),
    elsewhere: Sequence[str] = (),
) -> None:
    """Add a host: its System with all resources below it, its Chassis and its network adapter. Its firmware is added elsewhere.

    :param elsewhere: PCIeDevices of another Chassis that its System lists, too.
    """
    nic = f'{host.chassis}/PCIeDevices/{host.nic_id}'
    add_system(
        view,
        host.system_id,
        system=host.name,
        manufacturer=MANUFACTURER,
        model=MODEL,
        serial=maker.serial(f'{host.part}board', prefix='ES'),
        part_number='ES-2000-A',
        uuid=maker.uuid(f'{host.part}board'),
        chassis=[host.chassis],
        managers=[MANAGER],
        memory_gib=DIMMS * DIMM_GIB,
        pcie_devices=[nic, *pcie_devices, *elsewhere],
        pcie_functions=[f'{nic}/PCIeFunctions/0', *pcie_functions],
        bios_component=f'{view.name}/{host.uefi_id}',
        parts=('Memory', 'Storage', 'EthernetInterfaces', 'Bios', 'SecureBoot', 'LogServices'),
        properties={
            'ProcessorSummary': {'Count': CPUS, 'CoreCount': 64, 'Model': 'EX-9300', 'Status': {'State': 'Enabled'}},
            'PowerRestorePolicy': 'LastState',
        },
    )
    macs = [maker.mac(f'{host.part}nic/0'), maker.mac(f'{host.part}nic/1')]
    for number in range(CPUS):
        add_processor(
            view,
            f'{host.system}/Processors/CPU_{number}',
            kind='CPU',
            name=f'CPU {number}',
            manufacturer='Example Silicon',
            model='EX-9300',
            serial=maker.serial(f'{host.part}cpu/{number}'),
            part_number='EX-9300-32',
            uuid=None,
            chassis=host.chassis,
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
    add_memory(view, host.system, dimms=DIMMS, gib=DIMM_GIB, manufacturer='Example Memory')
    add_storage(view, host.system, drives=2, gib=960, manufacturer='Example Storage', chassis=host.chassis)
    add_ethernet(view, host.system, {'nic0': macs[0], 'nic1': macs[1]})
    add_bios(
        view,
        host.system,
        (
            Attribute(name='BootMode', default='Uefi', allowed=('Uefi', 'Legacy')),
            Attribute(name='SriovGlobalEnable', default=True),
            Attribute(name='ProcVirtualization', default='Enabled', allowed=('Enabled', 'Disabled')),
        ),
        system=host.name,
        software=(f'{FIRMWARE}/{host.uefi_id}',) if view.options.update_service else (),
    )
    add_secure_boot(view, host.system)
    add_log(view, host.system, 'SEL', kind='SEL', entries=('The system was powered on.', 'The boot has finished.'))
    add_chassis(
        view,
        host.chassis_id,
        kind=host.kind,
        manufacturer=MANUFACTURER,
        model=MODEL,
        serial=maker.serial(f'{host.part}board', prefix='ES'),
        part_number='ES-2000-A',
        uuid=maker.uuid(f'{host.part}chassis'),
        managers=[MANAGER],
        systems=[host.system],
        contained_by=host.contained_by,
        contains=contains,
        pcie_devices=[nic, *pcie_devices],
        adapters=[host.nic_id],
        system=host.name,
        has_lamp=True,
        sensors=(
            Reading(id='Inlet_Temp', kind='Temperature', units='Cel', reading=24.5, context='Intake'),
            Reading(id='Outlet_Temp', kind='Temperature', units='Cel', reading=38.0, context='Exhaust'),
            Reading(id='Total_Power', kind='Power', units='W', reading=812.0, context='PowerSupply'),
        ),
    )
    add_pcie_device(
        view,
        nic,
        name='Network Adapter',
        manufacturer='Example Networks',
        model='EN-25',
        serial=maker.serial(f'{host.part}nic', prefix='EN'),
        part_number='EN-25-2P',
        uuid=maker.uuid(f'{host.part}nic'),
        chassis=host.chassis,
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
        host.chassis,
        host.nic_id,
        manufacturer='Example Networks',
        model='EN-25',
        serial=maker.serial(f'{host.part}nic', prefix='EN'),
        part_number='EN-25-2P',
        macs=macs,
    )


def add_bmc(maker: MachineMaker, view: View, *, systems: Sequence[str], chassis: str) -> None:
    """Add the BMC: its Manager and the inventory item of its firmware."""
    add_manager(
        view,
        'BMC_0',
        model='ES-BMC',
        manufacturer=MANUFACTURER,
        uuid=maker.uuid('bmc'),
        component=f'{view.name}/FW_BMC_0',
        systems=systems,
        chassis=[chassis],
        in_chassis=chassis,
        mac=maker.mac('bmc'),
        host_interface=True,
        virtual_media=True,
    )
    add_item(
        view,
        f'{view.name}/FW_BMC_0',
        name='BMC firmware',
        description='BMC image',
        manufacturer=MANUFACTURER,
        related=[MANAGER],
        software_id='0x0010',
    )


def add_uefi_item(view: View, host: HostBoard) -> None:
    """Add the inventory item of the UEFI firmware of a host."""
    add_item(
        view,
        f'{view.name}/{host.uefi_id}',
        name='UEFI firmware',
        description='Host image',
        manufacturer=MANUFACTURER,
        related=[f'{host.system}/Bios'],
        software_id='0x0011',
    )
