# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Emulated NVIDIA HGX GPUs, each behind an external root of trust (ERoT).

**Hardware:** H100 SXM on an HGX baseboard, shaped after the recordings ``nvidia/gh200`` and ``supermicro/hgx-h100-8gpu``.
**Found by:** Systems/HGX_Baseboard_0/Processors/GPU_n with ProcessorType GPU; Chassis/HGX_ERoT_GPU_n names the Processor that
it protects in Links.Oem.Nvidia.ComponentsProtected.
**Can do:** update of HGX_FW_GPU_n (in force after a restart of the host) and HGX_FW_ERoT_GPU_n (at once); with the feature
``spdm`` each root of trust signs measurements of its own firmware and of its GPU's.
**Locks:** Oem.Nvidia.InbandUpdatePolicyEnabled of the ERoT blocks the host's PCIe path to its GPU and to the ERoT itself;
SoftwareInventory.WriteProtected of HGX_FW_GPU_n blocks every path to the GPU, including that of the BMC.
**Features:** ``rot-protected-components``: the ERoT shows itself and its GPU as RoTProtectedComponents, each with the policy
that is really in force and with the write protection of its image slots. ``write-protect-domains``: HGX_Domain_n protects the
images of two GPUs; their WriteProtected shows the value of the domain and cannot be written.
**Update:** a version is padded to 16 characters in FirmwareInventory and unpadded in the Processor; RelatedItem is the Chassis.
**Tried on:** nothing real; the shapes are those of the recordings.
"""

from collections.abc import Callable, Sequence

from baremetal_acc.emulator.hw.gpu_root_of_trust import (
    COMPONENTS,
    add_protected_components,
    measured,
    named_version,
    root_oem,
    root_writable,
)
from baremetal_acc.emulator.hw.hgx_board import BASEBOARD_MODEL, FIRST, GPUS_OF_DOMAIN, H100, Baseboard, Generation
from baremetal_acc.emulator.hw.parameters import MachineMaker
from baremetal_acc.emulator.image import ImageFormat
from baremetal_acc.emulator.parts import Bank, EmulatedComponent, Restart, WriteRoute
from baremetal_acc.emulator.redfish.chassis import CHASSIS, Reading, add_chassis
from baremetal_acc.emulator.redfish.integrity import add_integrity
from baremetal_acc.emulator.redfish.manager import add_manager
from baremetal_acc.emulator.redfish.pcie import add_pcie_device
from baremetal_acc.emulator.redfish.processor import add_processor
from baremetal_acc.emulator.redfish.resource import Body, Resource, Writables, collection, ref, refs
from baremetal_acc.emulator.redfish.system import add_log, add_system
from baremetal_acc.emulator.redfish.update import FIRMWARE, add_item
from baremetal_acc.emulator.redfish.view import View

# Equal on every card: a constant of the product, not an identity (recording nvidia/gh200).
EROT_UUID = 'f72d6f70-5675-11ed-9b6a-0242ac120002'
EROT_SKU = '0x4A353681'


def add_baseboard(
    maker: MachineMaker,
    view: View,
    *,
    gpus: int,
    generation: Generation = H100,
    contains: Sequence[str] = (),
    baseboard: Baseboard = FIRST,
) -> None:
    """Add an HGX baseboard: its System, its Chassis, its own BMC behind the host's, and the GPUs.

    :param contains: further Chassis on it, which are added by other functions.
    """
    bmc = view.name
    machine = maker.machine
    has_domains = maker.feature('write-protect-domains')
    has_components = maker.feature('rot-protected-components')
    numbers = range(baseboard.first_gpu, baseboard.first_gpu + gpus)
    modules = [f'{CHASSIS}/HGX_GPU_{number}' for number in numbers]
    roots = [f'{CHASSIS}/HGX_ERoT_GPU_{number}' for number in numbers]
    add_system(
        view,
        baseboard.system.rpartition('/')[2],
        system=baseboard.host,
        manufacturer='NVIDIA',
        model=generation.board,
        serial=maker.serial(baseboard.part('baseboard')),
        part_number=generation.board_part_number,
        uuid=maker.uuid(baseboard.part('baseboard')),
        chassis=[baseboard.chassis],
        managers=[baseboard.manager],
        resets=(),
        parts=('LogServices',),
        properties={
            'Oem': {'Nvidia': {'@odata.type': '#NvidiaComputerSystem.v1_0_0.NvidiaComputerSystem', 'ISTModeEnabled': False}}
        },
    )
    add_log(view, baseboard.system, 'EventLog', kind='Event', entries=('The baseboard is ready.',))
    add_chassis(
        view,
        baseboard.chassis.rpartition('/')[2],
        kind='Zone',
        manufacturer='NVIDIA',
        managers=[baseboard.manager],
        systems=[baseboard.system],
        contained_by=baseboard.in_chassis,
        contains=[*modules, *roots, *contains],
        serial=maker.serial(baseboard.part('baseboard')),
        part_number=generation.board_part_number,
        sensors=(Reading(id='Baseboard_Temp', kind='Temperature', units='Cel', reading=36.0, context='SystemBoard'),),
        oem=lambda: {
            'Nvidia': {
                '@odata.type': '#NvidiaChassis.v1_0_0.NvidiaChassis',
                'HardwareWriteProtected': False,
                'HardwareWriteProtectedControl': False,
                **({'WriteProtectDomains': ref(baseboard.domains)} if has_domains else {}),
            }
        },
    )
    if has_domains:
        _add_domains(view, baseboard, gpus)
    machine.add_component(
        EmulatedComponent(
            key=f'{bmc}/{baseboard.item}',
            bmc=bmc,
            uri=f'{FIRMWARE}/{baseboard.item}',
            device='',
            kind=ImageFormat.FIRMWARE,
            model=BASEBOARD_MODEL,
            component='bmc',
            active=Bank(version=generation.board_bmc_version),
            system=baseboard.host,
        )
    )
    add_manager(
        view,
        baseboard.manager.rpartition('/')[2],
        model='HGX BMC',
        manufacturer='NVIDIA',
        uuid=maker.uuid(baseboard.part('hgx-bmc')),
        component=f'{bmc}/{baseboard.item}',
        systems=[baseboard.system],
        chassis=[baseboard.chassis],
        in_chassis=baseboard.chassis,
        mac=maker.mac(baseboard.part('hgx-bmc')),
        is_self=False,
    )
    add_item(
        view,
        f'{bmc}/{baseboard.item}',
        name='Software Inventory',
        description='BMC image',
        manufacturer='NVIDIA',
        related=[baseboard.chassis],
        software_id='0x0010',
    )
    for number in numbers:
        _add_gpu(maker, view, number, generation, baseboard, has_domains=has_domains, has_components=has_components)


def _add_domains(view: View, baseboard: Baseboard, gpus: int) -> None:
    """Add the write-protect domains of a board."""
    machine = view.machine
    end = baseboard.first_gpu + gpus
    uris = [f'{baseboard.domains}/{number}' for number in range(-(-gpus // GPUS_OF_DOMAIN))]
    view.tree.add(collection(baseboard.domains, 'NvidiaWriteProtectDomain', uris))
    for number, uri in enumerate(uris):
        first = baseboard.first_gpu + number * GPUS_OF_DOMAIN
        affected = [f'{baseboard.system}/Processors/GPU_{one}' for one in range(first, min(first + GPUS_OF_DOMAIN, end))]
        key = machine.add_lock(
            baseboard.domain(first), False, locked=True, open=False, bmc=view.name, uri=uri, system=baseboard.host
        ).key
        view.tree.add(
            Resource(
                uri=uri,
                type='#NvidiaWriteProtectDomain.v1_0_0.NvidiaWriteProtectDomain',
                render=_render_domain(view, number, key, affected),
                writable=_domain_writable(view, key),
            )
        )


def _render_domain(view: View, number: int, key: str, affected: list[str]) -> Callable[[], Body]:
    return lambda: {
        'Id': str(number),
        'Name': f'Write Protect Domain {number}',
        'WriteProtected': view.machine.shown(key),
        'AffectedComponents': refs(affected),
    }


def _domain_writable(view: View, key: str) -> Callable[[], Writables]:
    return lambda: {'WriteProtected': view.setting(key, (bool,))}


def _add_gpu(
    maker: MachineMaker,
    view: View,
    number: int,
    generation: Generation,
    baseboard: Baseboard,
    *,
    has_domains: bool,
    has_components: bool,
) -> None:
    machine, bmc = maker.machine, view.name
    device = f'GPU_{number}'
    processor = f'{baseboard.system}/Processors/{device}'
    module = f'{CHASSIS}/HGX_{device}'
    root = f'{CHASSIS}/HGX_ERoT_{device}'
    item, root_item = f'HGX_FW_{device}', f'HGX_FW_ERoT_{device}'
    pcie = f'{module}/PCIeDevices/{device}'
    policy = machine.add_lock(
        f'HGX_ERoT_{device}/InbandUpdatePolicyEnabled',
        True,
        locked=False,
        open=True,
        bmc=bmc,
        uri=root,
        device=device,
        system=baseboard.host,
    )
    protect = (
        machine.settings[baseboard.domain(number)]
        if has_domains
        else machine.add_lock(
            f'{item}/WriteProtected',
            False,
            locked=True,
            open=False,
            bmc=bmc,
            uri=f'{FIRMWARE}/{item}',
            device=device,
            system=baseboard.host,
        )
    )
    gpu = machine.add_component(
        EmulatedComponent(
            key=f'{bmc}/{item}',
            bmc=bmc,
            uri=f'{FIRMWARE}/{item}',
            device=device,
            kind=ImageFormat.FIRMWARE,
            model=generation.image_model,
            component='gpu',
            active=Bank(version=generation.gpu_version),
            activates=Restart.WARM,
            write_protect=protect.key,
            system=baseboard.host,
        )
    )
    erot = machine.add_component(
        EmulatedComponent(
            key=f'{bmc}/{root_item}',
            bmc=bmc,
            uri=f'{FIRMWARE}/{root_item}',
            device=device,
            kind=ImageFormat.FIRMWARE,
            model=generation.image_model,
            component='erot',
            active=Bank(version=generation.erot_version),
            system=baseboard.host,
        )
    )
    machine.ways += [
        WriteRoute(
            device=device, component='gpu', path='pcie', target=gpu.key, locks=(policy.key, protect.key), host=baseboard.host
        ),
        WriteRoute(device=device, component='erot', path='pcie', target=erot.key, locks=(policy.key,), host=baseboard.host),
    ]
    serial, uuid = maker.serial(device, prefix='16'), maker.uuid(device)
    add_processor(
        view,
        processor,
        kind='GPU',
        name='Processor',
        manufacturer='NVIDIA',
        model=generation.model,
        serial=serial,
        part_number=generation.part_number,
        uuid=uuid,
        chassis=module,
        component=gpu.key,
        pcie_device=pcie,
        pcie_functions=[f'{pcie}/PCIeFunctions/0'],
        device=device,
        memory_mib=81920,
        watts=75.0,
        properties={
            'MaxSpeedMHz': 1980,
            'MinSpeedMHz': 345,
            'OperatingSpeedMHz': 345,
            'Version': 'A1',
            'SystemInterface': {
                'InterfaceType': 'PCIe',
                'PCIe': {'LanesInUse': 16, 'MaxLanes': 16, 'MaxPCIeType': 'Gen5', 'PCIeType': 'Gen5'},
            },
            'Location': {'PartLocation': {'LocationType': 'Embedded', 'ServiceLabel': f'GPU{number}'}},
        },
        oem=lambda: {'Nvidia': {'@odata.type': '#NvidiaProcessor.v1_0_0.NvidiaProcessor', 'MIGModeEnabled': False}},
    )
    add_chassis(
        view,
        f'HGX_{device}',
        kind='Module',
        manufacturer='NVIDIA',
        model=generation.model,
        serial=serial,
        part_number=generation.part_number,
        uuid=uuid,
        managers=[baseboard.manager],
        systems=[baseboard.system],
        contained_by=baseboard.chassis,
        processors=[processor],
        pcie_devices=[pcie],
        device=device,
        sensors=(
            Reading(id=f'{device}_Temp', kind='Temperature', units='Cel', reading=41.0, context='GPU'),
            Reading(id=f'{device}_Power', kind='Power', units='W', reading=75.0, context='GPU'),
        ),
    )
    add_pcie_device(
        view,
        pcie,
        name='PCIe Device',
        manufacturer='NVIDIA',
        model=generation.model,
        serial=serial,
        part_number=generation.part_number,
        uuid=uuid,
        chassis=module,
        processor=processor,
        component=gpu.key,
        device=device,
        functions=(pci_function(number, generation.device_id),),
    )
    add_chassis(
        view,
        f'HGX_ERoT_{device}',
        kind='Component',
        manufacturer='NVIDIA',
        managers=[baseboard.manager],
        systems=[baseboard.system],
        contained_by=baseboard.chassis,
        serial='',
        uuid=EROT_UUID,
        device=device,
        properties={'SKU': EROT_SKU, 'Location': {'PartLocation': {'LocationType': 'Embedded'}}},
        links_oem={
            'Nvidia': {
                '@odata.type': '#NvidiaChassis.v1_0_0.NvidiaChassis',
                'ComponentsProtected': [{'@odata.id': processor}],
            }
        },
        oem=root_oem(view, policy.key, components=f'{root}/{COMPONENTS}' if has_components else None),
        writable=root_writable(view, policy.key),
    )
    if has_components:
        add_protected_components(view, root, device, policy.key)
    add_item(
        view,
        gpu.key,
        name='Software Inventory',
        description='Other image',
        manufacturer='NVIDIA',
        related=[module],
        software_id='0x0020',
        pad_to=generation.version_width,
        oem=_slots(view, gpu),
        follows=has_domains,
    )
    add_item(
        view,
        erot.key,
        name='Software Inventory',
        description='Other image',
        manufacturer='NVIDIA',
        related=[root],
        software_id='0xFF00',
    )
    authority = maker.signs()
    if authority is not None:
        add_integrity(
            view,
            f'HGX_ERoT_{device}',
            authority=authority,
            target=root,
            protects=[processor],
            requester=baseboard.manager,
            device=device,
            blocks=lambda: measured(gpu, erot),
            opaque=lambda: named_version(gpu),
        )


def pci_function(number: int, device_id: str = H100.device_id) -> dict[str, str]:
    """The PCI function of a GPU."""
    return {
        'VendorId': '0x10de',
        'DeviceId': device_id,
        'SubsystemVendorId': '0x10de',
        'SubsystemId': '0x16c1',
        'ClassCode': '0x030200',
        'DeviceClass': 'DisplayController',
        'SegmentNumber': '0x0000',
        'BusNumber': f'0x{0x1B + number * 0x10:02x}',
        'DeviceNumber': '0x00',
        'RevisionId': '0xa1',
    }


def _slots(view: View, component: EmulatedComponent) -> Callable[[], Body]:
    def render() -> Body:
        inactive = component.staged or component.previous
        return {
            'Nvidia': {
                '@odata.type': '#NvidiaSoftwareInventory.v1_2_0.NvidiaSoftwareInventory',
                'ActiveFirmwareSlot': {
                    'SlotId': 0,
                    'FirmwareState': 'Activated',
                    'Version': view.machine.shown_version(component.key),
                },
                'InactiveFirmwareSlot': {
                    'SlotId': 1,
                    'FirmwareState': 'Staged' if component.staged else 'Inactive',
                    'Version': inactive.version if inactive else '',
                },
            }
        }

    return render
