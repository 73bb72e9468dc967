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

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from baremetal_acc.emulator.hw import board
from baremetal_acc.emulator.hw.parameters import MachineMaker
from baremetal_acc.emulator.image import ImageFormat
from baremetal_acc.emulator.machine import Machine
from baremetal_acc.emulator.parts import Bank, EmulatedComponent, Restart, WriteRoute
from baremetal_acc.emulator.redfish.chassis import CHASSIS, Reading, add_chassis
from baremetal_acc.emulator.redfish.integrity import add_integrity
from baremetal_acc.emulator.redfish.manager import MANAGERS, add_manager
from baremetal_acc.emulator.redfish.pcie import add_pcie_device
from baremetal_acc.emulator.redfish.processor import add_processor
from baremetal_acc.emulator.redfish.resource import Body, Resource, Writables, collection, ref, refs
from baremetal_acc.emulator.redfish.system import SYSTEMS, add_log, add_system
from baremetal_acc.emulator.redfish.update import FIRMWARE, add_item
from baremetal_acc.emulator.redfish.view import View
from baremetal_acc.emulator.spdm import FIRMWARE as MUTABLE_FIRMWARE
from baremetal_acc.emulator.spdm import HARDWARE, ROM, MeasurementBlock

IMAGE_MODEL = 'h100'
MODEL = 'NVIDIA H100 80GB HBM3'
PART_NUMBER = '2330-885-A1'
GPU_VERSION = '96.00.30.00.01'
EROT_VERSION = '01.02.0060.0000_n00'
BASEBOARD_MODEL = 'hgx-baseboard'
BASEBOARD_BMC_VERSION = 'HGX-22.10-1'
# The width of the version field that GH200 shows: "96.00.A6.00.01  ".
VERSION_WIDTH = 16
# Equal on every card: a constant of the product, not an identity (recording nvidia/gh200).
EROT_UUID = 'f72d6f70-5675-11ed-9b6a-0242ac120002'
EROT_SKU = '0x4A353681'


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """The differences between baseboards: names and part numbers of the board and its GPUs, and their versions.

    :ivar version_width: the width that a version is padded to in FirmwareInventory.
    :ivar image_model: the model that images are for.
    """

    image_model: str = IMAGE_MODEL
    model: str = MODEL
    part_number: str = PART_NUMBER
    gpu_version: str = GPU_VERSION
    erot_version: str = EROT_VERSION
    version_width: int = VERSION_WIDTH
    device_id: str = '0x2330'
    board: str = 'HGX H100'
    board_part_number: str = '965-24387-0002-000'
    board_bmc_version: str = BASEBOARD_BMC_VERSION


H100 = Generation()

COMPONENTS = 'Oem/NvidiaRoT/RoTProtectedComponents'
GPUS_OF_DOMAIN = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseboard:
    """One of the baseboards of a machine, by its number: its host, and the names of its resources.

    :ivar first_gpu: the number of its first GPU; the GPUs of a machine have different numbers.
    :ivar in_chassis: the Chassis of its host.
    """

    number: int = 0
    first_gpu: int = 0
    host: str = 'host'
    in_chassis: str = board.CHASSIS

    @property
    def system(self) -> str:
        """The URI of its System, which is not a host."""
        return f'{SYSTEMS}/HGX_Baseboard_{self.number}'

    @property
    def chassis(self) -> str:
        """The URI of its Chassis."""
        return f'{CHASSIS}/HGX_Chassis_{self.number}'

    @property
    def manager(self) -> str:
        """The URI of its own BMC."""
        return f'{MANAGERS}/HGX_BMC_{self.number}'

    @property
    def item(self) -> str:
        """The Id of the inventory item of its own BMC."""
        return f'HGX_FW_BMC_{self.number}'

    @property
    def domains(self) -> str:
        """The URI of its write-protect domains."""
        return f'{self.chassis}/Oem/Nvidia/WriteProtectDomains'

    def domain(self, gpu: int) -> str:
        """The key of the write-protect domain of a GPU."""
        return f'HGX_Domain_{self.first_gpu + (gpu - self.first_gpu) // GPUS_OF_DOMAIN}/WriteProtected'

    def part(self, name: str) -> str:
        """A name for a part that is unique among the baseboards of the machine."""
        return f'{name}/{self.number}' if self.number else name


FIRST = Baseboard()
SYSTEM, BASEBOARD, MANAGER, DOMAINS = FIRST.system, FIRST.chassis, FIRST.manager, FIRST.domains


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


def _add_components(view: View, root: str, device: str, policy: str) -> None:
    """Add the RoTProtectedComponents of a root of trust, which show the policy in force, whatever its Chassis shows."""
    machine = view.machine
    base = f'{root}/{COMPONENTS}'
    parts = {'Self': 'Self', 'AP': 'AP'}

    def component(name: str, kind: str) -> Callable[[], Body]:
        return lambda: {
            'Id': name,
            'Name': f'RoT protected component {name}',
            'RoTProtectedComponentType': kind,
            'InbandUpdatePolicyEnabled': not machine.is_closed(policy),
            'AutomaticBackgroundCopyEnabled': True,
            'BackgroundCopyStatus': _copy_state(machine, device),
            'ImageSlots': ref(f'{base}/{name}/ImageSlots'),
        }

    def slot(number: int) -> Callable[[], Body]:
        return lambda: {
            'Id': str(number),
            'Name': f'Image slot {number}',
            'SlotId': number,
            'WriteProtected': machine.is_closed(policy),
        }

    view.tree.add(collection(base, 'NvidiaRoTProtectedComponent', [f'{base}/{name}' for name in parts], device=device))
    for name, kind in parts.items():
        slots = [f'{base}/{name}/ImageSlots/{number}' for number in range(2)]
        view.tree.add(
            Resource(
                uri=f'{base}/{name}',
                type='#NvidiaRoTProtectedComponent.v1_0_0.NvidiaRoTProtectedComponent',
                render=component(name, kind),
                device=device,
            ),
            collection(f'{base}/{name}/ImageSlots', 'NvidiaRoTImageSlot', slots, device=device),
            *(
                Resource(uri=uri, type='#NvidiaRoTImageSlot.v1_0_0.NvidiaRoTImageSlot', render=slot(number), device=device)
                for number, uri in enumerate(slots)
            ),
        )


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
        _add_components(view, root, device, policy.key)
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
        )


def measured(gpu: EmulatedComponent, erot: EmulatedComponent) -> tuple[MeasurementBlock, ...]:
    """The measurement blocks of a root of trust: its ROM, the firmware of its GPU, its own firmware, the hardware straps."""
    return (
        MeasurementBlock(index=1, kind=ROM, value=hashlib.sha256(b'rom of an emulated root of trust').digest()),
        MeasurementBlock(index=2, kind=MUTABLE_FIRMWARE, value=measurement(gpu)),
        MeasurementBlock(index=3, kind=MUTABLE_FIRMWARE, value=measurement(erot)),
        MeasurementBlock(index=4, kind=HARDWARE, value=hashlib.sha256(b'straps').digest()),
    )


def measurement(component: EmulatedComponent) -> bytes:
    """The digest of the image in the active bank, or a digest that stands for the factory image."""
    bank = component.active
    if bank is not None and bank.digest is not None:
        return bytes.fromhex(bank.digest.removeprefix('sha256:'))
    version = bank.version if bank is not None else ''
    return hashlib.sha256(f'factory {component.model} {component.component} {version}'.encode()).digest()


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


def root_oem(view: View, policy: str, *, components: str | None = None) -> Callable[[], Body]:
    """A function that renders the Oem object of an ERoT Chassis.

    With the fault ``lock-read-error`` it shows a closed lock, and nothing about the background copy.
    """

    def render() -> Body:
        lock = view.machine.settings[policy]
        mute = view.machine.faults.find('lock-read-error', bmc=lock.bmc, device=lock.device, uri=lock.uri, use=False)
        return {
            'Nvidia': {
                '@odata.type': '#NvidiaChassis.v1_0_0.NvidiaChassis',
                **(_copy(view.machine, lock.device or '') if mute is None else {}),
                'InbandUpdatePolicyEnabled': view.machine.shown(policy) if mute is None else lock.locked,
                **({'RoTProtectedComponents': ref(components)} if components is not None else {}),
            }
        }

    return render


def copy_oem(machine: Machine, device: str) -> Callable[[], Body]:
    """A function that renders the Oem object of a root-of-trust Chassis whose part the host has no path to."""
    return lambda: {'Nvidia': {'@odata.type': '#NvidiaChassis.v1_0_0.NvidiaChassis', **_copy(machine, device)}}


def _copy(machine: Machine, device: str) -> Body:
    state = _copy_state(machine, device)
    return {'AutomaticBackgroundCopyEnabled': True, 'BackgroundCopyStatus': state, 'ManualBootModeEnabled': False}


def _copy_state(machine: Machine, device: str) -> str:
    """The BackgroundCopyStatus of the root of trust of a card."""
    return 'InProgress' if machine.copy_seconds(device) else 'Completed'


def root_writable(view: View, policy: str) -> Callable[[], Writables]:
    """The writable properties of an ERoT Chassis."""
    return lambda: {'Oem': {'Nvidia': {'InbandUpdatePolicyEnabled': view.setting(policy, (bool,))}}}


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
