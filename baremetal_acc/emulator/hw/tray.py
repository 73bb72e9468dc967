# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Emulated trays that are updated by one PLDM package: their parts, the PLDM identity of each part, and the update behaviour.

**Hardware:** the baseboard of ``gpu.py`` with all its other parts that have firmware: its own BMC, switches, FPGA, CPLD,
retimers, InfoROMs, and their roots of trust. Ids, SoftwareIds and RelatedItems are those of the recordings
``supermicro/hgx-h100-8gpu`` and ``nvidia/gh200``, which name an item behind another BMC ``HGX_...``; the lists of a B200 and of
a GB200 are those of NVIDIA/open-nvfwupd, firmware_update_guide. **Found by:** the items of FirmwareInventory.
**Can do:** one package, by MultipartHttpPushUri, for the whole tray (the URI in Targets differs: DGX B200 and B300 firmware
update guides; open-nvfwupd, gb200NVL.rst), for single components (the same), or for the other tray (no Targets, or an empty
list). With the feature ``http-push-uri`` also by HttpPushUri with HttpPushUriTargets and HttpPushUriOptions (recording
``nvidia/gh200``; NVIDIA's nvfwupd guide, supplemental examples), with ``http-push-uri-busy`` also with the Busy flags by which
clients reserve them (recording ``lenovo/sr670v2-8xl40-bluefield2``), with ``simple-update`` by SimpleUpdate (openbmc/bmcweb).
**Update:** equal devices share a record and an image. An equal version is skipped and a lower one is refused, unless
ForceUpdate is set; when one device fails, the others are still updated (openbmc/pldm as NVIDIA ships it: fw-update,
error_handling.hpp, component_updater.cpp; gb200NVL.rst on downgrades). A task of which a part has failed is an Exception with
TaskStatus Warning (openbmc/bmcweb, update_service.hpp). One update at a time. A written image waits for its activation, and its
root of trust copies it in the background after that (habit ``background-copy``).
**Locks:** those of ``gpu.py`` and ``board.py``. **Tried on:** nothing real.
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from baremetal_acc.emulator.hw import board, gpu, gpu_root_of_trust, hgx_board
from baremetal_acc.emulator.hw.parameters import MachineMaker
from baremetal_acc.emulator.image import ImageFormat
from baremetal_acc.emulator.machine import Machine
from baremetal_acc.emulator.parts import Bank, DeviceIdentity, EmulatedComponent, Power, Restart
from baremetal_acc.emulator.pldm import UUID_DESCRIPTOR, vendor_descriptor
from baremetal_acc.emulator.redfish.chassis import CHASSIS, add_chassis
from baremetal_acc.emulator.redfish.errors import MessageForm, RedfishError
from baremetal_acc.emulator.redfish.processor import add_processor
from baremetal_acc.emulator.redfish.resource import Body, Outcome, Parameter, Resource, ResourceAction, refs, status
from baremetal_acc.emulator.redfish.update import FIRMWARE, add_item
from baremetal_acc.emulator.redfish.view import Options, Tray, View

IANA_DESCRIPTOR = 0x0001
NVIDIA = 5703
"""The IANA enterprise number of NVIDIA."""

ROOT_NUMBER = 0xFF00
"""SoftwareId and ComponentIdentifier of the firmware of a root of trust; the guarded part has that of its family."""

GPU_NUMBER, BMC_NUMBER, HOST_BMC_NUMBER, UEFI_NUMBER = 0x0020, 0x0010, 0x0010, 0x0011

BMC_CHASSIS = f'{CHASSIS}/BMC_0'

FORMS = {
    'skipped': MessageForm(id='NvidiaUpdate.1.0.ComponentUpdateSkipped', text='The update of %1 was skipped, since %2.'),
}
"""OEM messages. Source: NVIDIA/bmcweb, registries/nvidia_update_message_registry.hpp; the wording is ours."""

WRONG_TARGET = MessageForm(
    id='NvidiaUpdate.1.2.FirmwareUpdateTargetInvalid',
    text='%1 is not a resource whose firmware can be updated.',
    severity='Critical',
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Equal parts of a tray.

    :ivar number: their SoftwareId and the ComponentIdentifier of their firmware.
    :ivar has_root: each has a root of trust of its own, whose firmware is an inventory item, too.
    :ivar is_shown: each is a Chassis; else its item has no RelatedItem, as on real trees.
    :ivar is_processor: each is a Processor of the baseboard, too (recording ``nvidia/gh200``).
    :ivar shows_number: the item has a SoftwareId.
    :ivar activates: as in a Component; None: as for the tray.
    """

    name: str
    count: int
    number: int
    version: str
    has_root: bool = True
    is_shown: bool = True
    is_processor: bool = False
    shows_number: bool = True
    activates: Restart | None = None

    @property
    def word(self) -> str:
        """The name of the component in images."""
        return self.name.lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A tray: its generation of GPUs, its other parts, the target that names it, and the restart that activates its firmware.

    :ivar has_aux_reset: its standby power can be cycled by an action; else only by pulling the plug.
    :ivar task_prefix: the prefix of the Ids of tasks, where another BMC carries them out.
    """

    generation: hgx_board.Generation
    gpus: int
    target: str
    families: tuple[Family, ...]
    info_rom: str
    activates: Restart
    roots_activate: Restart
    has_aux_reset: bool = False
    task_prefix: str = ''


def add_tray(maker: MachineMaker, layout: Layout) -> View:
    """Add the server, the tray in it, and a BMC that takes packages for both."""
    _set_options(maker)
    view = board.add_board(maker, bmc='host', contains=[hgx_board.BASEBOARD, *([BMC_CHASSIS] if layout.has_aux_reset else [])])
    machine = maker.machine
    own = ('host/FW_BMC_0', 'host/UEFI')
    before = set(machine.components)
    gpus = layout.gpus if maker.parameters.gpus is None else maker.parameters.gpus
    places = [place for family in layout.families for place in _chassis(family)]
    gpu.add_baseboard(maker, view, gpus=gpus, generation=layout.generation, contains=places)
    for family in layout.families:
        for number in range(family.count):
            _add_part(view, layout, family, number)
    _add_root_item(view, layout, 'BMC_0', device='', related=[hgx_board.BASEBOARD])
    for number in range(gpus):
        module = f'{CHASSIS}/HGX_GPU_{number}'
        _add_info_rom(view, f'HGX_InfoROM_GPU_{number}', f'GPU_{number}', layout.info_rom, related=[module])
    members = tuple(key for key in machine.components if key not in before and machine.components[key].updateable)
    for key in members:
        _identify(machine.components[key], layout)
    for key, number in zip(own, (HOST_BMC_NUMBER, UEFI_NUMBER), strict=True):
        component = machine.components[key]
        component.activates = layout.activates
        component.identity = _identity(f'board {component.component}', number, layout)
    view.trays = (
        Tray(target=layout.target, keys=members),
        Tray(target=None, keys=own),
    )
    view.forms, view.wrong_target, view.task_prefix = FORMS, WRONG_TARGET, layout.task_prefix
    machine.bmcs['host'].parallel_updates = 1
    if layout.target.startswith(f'{FIRMWARE}/'):
        _add_target_item(view, layout.target)
    if layout.has_aux_reset:
        _add_aux_reset(view, machine)
    return view


def _set_options(maker: MachineMaker) -> None:
    """Offer SimpleUpdate only with its feature, and HttpPushUri and its Busy flags also by their features."""
    pulls, pushes, locks = (maker.feature(name) for name in ('simple-update', 'http-push-uri', 'http-push-uri-busy'))
    given = {'*': Options()} | dict(maker.parameters.options)
    options = {
        name: replace(
            one,
            pull=one.pull and pulls,
            plain_push=one.plain_push or pushes or locks,
            plain_lock=one.plain_lock or locks,
        )
        for name, one in given.items()
    }
    maker.parameters = replace(maker.parameters, options=options)


def _chassis(family: Family) -> list[str]:
    """The Chassis of the parts of a family."""
    numbers = range(family.count)
    shown = [f'{CHASSIS}/HGX_{family.name}_{number}' for number in numbers if family.is_shown]
    return shown + [f'{CHASSIS}/HGX_ERoT_{family.name}_{number}' for number in numbers if family.has_root]


def _add_part(view: View, layout: Layout, family: Family, number: int) -> None:
    """Add one part: its firmware, its Chassis, and its root of trust."""
    name = f'{family.name}_{number}'
    place = f'{CHASSIS}/HGX_{name}'
    key = f'{view.name}/HGX_FW_{name}'
    view.machine.add_component(
        EmulatedComponent(
            key=key,
            bmc=view.name,
            uri=f'{FIRMWARE}/HGX_FW_{name}',
            device=name,
            kind=ImageFormat.FIRMWARE,
            model=hgx_board.BASEBOARD_MODEL,
            component=family.word,
            active=Bank(version=family.version),
            activates=family.activates or layout.activates,
        )
    )
    if family.is_shown:
        _add_place(view, f'HGX_{name}', name, kind='Component')
    add_item(
        view,
        key,
        name='Software Inventory',
        description='Other image',
        manufacturer='NVIDIA',
        related=[place] if family.is_shown else [],
        software_id=f'0x{family.number:04X}' if family.shows_number else '',
    )
    if family.is_processor:
        add_processor(
            view,
            f'{hgx_board.SYSTEM}/Processors/{name}',
            kind=family.name,
            name='Processor',
            manufacturer='NVIDIA',
            model='',
            serial='',
            part_number='',
            uuid=None,
            chassis=place,
            component=key,
            properties={'FPGA': {'FpgaType': 'Discrete'}, 'Location': {'PartLocation': {'LocationType': 'Embedded'}}},
        )
    if family.has_root:
        root = f'HGX_ERoT_{name}'
        _add_place(view, root, name, kind='Component', oem=gpu_root_of_trust.copy_oem(view.machine, name))
        _add_root_item(view, layout, name, device=name, related=[f'{CHASSIS}/{root}'])


def _add_place(view: View, name: str, device: str, *, kind: str, oem: Callable[[], Body] | None = None) -> None:
    add_chassis(
        view,
        name,
        kind=kind,
        manufacturer='NVIDIA',
        managers=[hgx_board.MANAGER],
        systems=[hgx_board.SYSTEM],
        contained_by=hgx_board.BASEBOARD,
        device=device,
        properties={'Location': {'PartLocation': {'LocationType': 'Embedded'}}},
        oem=oem,
    )


def _add_root_item(view: View, layout: Layout, name: str, *, device: str, related: Sequence[str]) -> None:
    """Add the inventory item of the firmware of the root of trust of a part."""
    item = f'HGX_FW_ERoT_{name}'
    view.machine.add_component(
        EmulatedComponent(
            key=f'{view.name}/{item}',
            bmc=view.name,
            uri=f'{FIRMWARE}/{item}',
            device=device,
            kind=ImageFormat.FIRMWARE,
            model=hgx_board.BASEBOARD_MODEL,
            component='erot',
            active=Bank(version=layout.generation.erot_version),
            activates=layout.roots_activate,
        )
    )
    add_item(
        view,
        f'{view.name}/{item}',
        name='Software Inventory',
        description='Other image',
        manufacturer='NVIDIA',
        related=related,
        software_id=f'0x{ROOT_NUMBER:04X}',
    )


def _add_info_rom(view: View, item: str, device: str, version: str, *, related: Sequence[str]) -> None:
    """Add the inventory item of an InfoROM, which cannot be updated."""
    view.machine.add_component(
        EmulatedComponent(
            key=f'{view.name}/{item}',
            bmc=view.name,
            uri=f'{FIRMWARE}/{item}',
            device=device,
            kind=ImageFormat.FIRMWARE,
            model=hgx_board.BASEBOARD_MODEL,
            component='inforom',
            active=Bank(version=version),
            updateable=False,
        )
    )
    add_item(
        view,
        f'{view.name}/{item}',
        name='Software Inventory',
        description='Other image',
        manufacturer='NVIDIA',
        related=related,
        software_id='',
    )


def _identify(component: EmulatedComponent, layout: Layout) -> None:
    """Set the PLDM identity of a component of the tray, and the activation of roots of trust, GPUs and the BMC.

    The firmware device is the root of trust, which has one component for itself and one for the part that it guards.
    """
    item = component.item.removeprefix('HGX_FW_')
    name = item.removeprefix('ERoT_')
    family = next((one for one in layout.families if name.startswith(f'{one.name}_')), None)
    if item != name:
        number, component.activates = ROOT_NUMBER, layout.roots_activate
    elif family is not None:
        number = family.number
    else:
        number, component.activates = GPU_NUMBER if name.startswith('GPU_') else BMC_NUMBER, layout.activates
    component.identity = _identity(name, number, layout)


def _identity(endpoint: str, number: int, layout: Layout) -> DeviceIdentity:
    """The PLDM identity of a part. Equal parts of a tray have equal descriptors; those of another tray have others.

    Source: NVIDIA/open-nvfwupd, deps/fwpkg_unpack.py, for the titles.
    """
    kind = endpoint.rpartition('_')[0] or endpoint
    strap = zlib.crc32(f'{layout.generation.board} {kind}'.encode()).to_bytes(4, 'little')
    sku = bytes.fromhex(gpu.EROT_SKU.removeprefix('0x')) if endpoint.startswith('GPU_') else strap
    return DeviceIdentity(
        endpoint=endpoint,
        descriptors=frozenset(
            {
                (IANA_DESCRIPTOR, NVIDIA.to_bytes(4, 'little')),
                (UUID_DESCRIPTOR, UUID(gpu.EROT_UUID).bytes),
                vendor_descriptor('GLACIERDSD', b'\x00'),
                vendor_descriptor('ECSKU', bytes.fromhex('36810000')),
                vendor_descriptor('APSKU', sku + strap),
            }
        ),
        number=number,
    )


def _add_target_item(view: View, uri: str) -> None:
    """Add the inventory item that names the tray as a target, without a version: public sources name it, and none shows it."""
    view.tree.add(
        Resource(
            uri=uri,
            type='#SoftwareInventory.v1_12_0.SoftwareInventory',
            render=lambda: {
                'Id': uri.rsplit('/', 1)[-1],
                'Name': 'Software Inventory',
                'Description': 'Bundle of the baseboard',
                'Manufacturer': 'NVIDIA',
                'Updateable': True,
                'RelatedItem': refs([hgx_board.BASEBOARD]),
                'RelatedItem@odata.count': 1,
                'Status': status(),
            },
        )
    )
    view.tree.join(FIRMWARE, uri)


def _add_aux_reset(view: View, machine: Machine) -> None:
    """Add the action that cycles the standby power. Without Force the host has to be off.

    Source: recording ``nvidia/gh200``; DGX GB200 user guide, Redfish commands for the compute tray; NVIDIA/bmcweb, for the
    condition.
    """

    def cycle(_: object, body: Body) -> Outcome:
        if body['ResetType'] == 'AuxPowerCycle' and machine.systems['host'].power is not Power.OFF:
            raise RedfishError(409, 'ResourceInUse', text='The host is on.')
        machine.cycle_mains()
        return Outcome()

    add_chassis(
        view,
        'BMC_0',
        kind='Component',
        manufacturer='NVIDIA',
        managers=[board.MANAGER],
        systems=[board.SYSTEM],
        contained_by=board.CHASSIS,
        properties={'Location': {'PartLocation': {'LocationType': 'Embedded'}}},
        actions=(
            ResourceAction(
                name='#NvidiaChassis.AuxPowerReset',
                target=f'{BMC_CHASSIS}/Actions/Oem/NvidiaChassis.AuxPowerReset',
                parameters=(Parameter(name='ResetType', required=True, allowed=('AuxPowerCycle', 'AuxPowerCycleForce')),),
                invoke=cycle,
                is_oem=True,
            ),
        ),
    )
