# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""An emulated computational storage drive: an FPGA and an NVMe drive on one card.

**Hardware:** invented, similar to a SmartSSD; no recording of a real one shows ConfigurationLock.
**Found by:** Systems/System_0/Processors/CSD_0 with ProcessorType FPGA; its PCIeDevice has two functions, the first of which
links the Drive.
**Can do:** update of CSD_0_Drive (at once) and CSD_0_FPGA (in force after a restart of the host).
**Locks:** Drive.ConfigurationLock blocks the host's NVMe commands that write the drive's firmware; NVMe.ConfigurationLockState
shows the state of each command as the drive reports it. FPGA.ProgrammableFromHost blocks the host's PCIe path to the FPGA.
**Features:** ``open-lockdown``: the drive cannot lock its Lockdown command, so the host can unlock the firmware commands and
write. ``unlocked-fpga``: the card has no lock of its FPGA.
**Update:** nothing special. **Tried on:** nothing real.
"""

from baremetal_acc.emulator.hw import board
from baremetal_acc.emulator.hw.parameters import MachineMaker
from baremetal_acc.emulator.image import ImageFormat
from baremetal_acc.emulator.parts import Bank, EmulatedComponent, Restart, WriteRoute
from baremetal_acc.emulator.redfish.pcie import add_pcie_device
from baremetal_acc.emulator.redfish.processor import add_acceleration_functions, add_processor, fpga_body, fpga_writable
from baremetal_acc.emulator.redfish.resource import Body, Resource, collection, ref, refs, status
from baremetal_acc.emulator.redfish.update import FIRMWARE, add_item
from baremetal_acc.emulator.redfish.view import View

DEVICE = 'CSD_0'
IMAGE_MODEL = 'csd100'
MODEL = 'Computational Storage CSD-100'
MANUFACTURER = 'Example Storage'
PART_NUMBER = 'CSD-100-3840'
DRIVE_VERSION = 'CS1.0'
FPGA_VERSION = '1.1.0'
BYTES = 3840 * 1000**3

PROCESSOR = f'{board.SYSTEM}/Processors/{DEVICE}'
PCIE_DEVICE = f'{board.CHASSIS}/PCIeDevices/{DEVICE}'
PCIE_FUNCTIONS = (f'{PCIE_DEVICE}/PCIeFunctions/0', f'{PCIE_DEVICE}/PCIeFunctions/1')
STORAGE = f'{board.SYSTEM}/Storage/{DEVICE}'
DRIVE = f'{STORAGE}/Drives/0'

LOCK = f'{DEVICE}/ConfigurationLock'


def add_csd(maker: MachineMaker, view: View) -> None:
    """Add the card: a Processor, a PCIeDevice with two functions, Storage with its Drive, and two inventory items."""
    machine, bmc = maker.machine, view.name
    open_lockdown = maker.feature('open-lockdown')
    has_fpga_lock = not maker.feature('unlocked-fpga')
    machine.add_lock(LOCK, 'Disabled', locked='Enabled', open='Disabled', bmc=bmc, uri=DRIVE, device=DEVICE)
    fpga = machine.add_lock(
        f'{DEVICE}/ProgrammableFromHost', True, locked=False, open=True, bmc=bmc, uri=PROCESSOR, device=DEVICE
    )
    for name, component, version, activates in (
        ('Drive', 'drive', DRIVE_VERSION, None),
        ('FPGA', 'fpga', FPGA_VERSION, Restart.WARM),
    ):
        machine.add_component(
            EmulatedComponent(
                key=f'{bmc}/{DEVICE}_{name}',
                bmc=bmc,
                uri=f'{FIRMWARE}/{DEVICE}_{name}',
                device=DEVICE,
                kind=ImageFormat.FIRMWARE,
                model=IMAGE_MODEL,
                component=component,
                active=Bank(version=version),
                activates=activates,
            )
        )
    machine.ways += [
        # A host that may send Lockdown can unlock the commands that were locked.
        WriteRoute(
            device=DEVICE,
            component='drive',
            path='nvme',
            target=f'{bmc}/{DEVICE}_Drive',
            locks=() if open_lockdown else (LOCK,),
        ),
        WriteRoute(
            device=DEVICE,
            component='fpga',
            path='pcie',
            target=f'{bmc}/{DEVICE}_FPGA',
            locks=(fpga.key,) if has_fpga_lock else (),
        ),
    ]
    serial, uuid = maker.serial(DEVICE, prefix='CS'), maker.uuid(DEVICE)
    shown = fpga_body(view, PROCESSOR, (), lock=fpga.key, firmware_id='0x1', manufacturer=MANUFACTURER, model='KU15P')

    def fpga_shown() -> Body:
        body = shown()
        return body if has_fpga_lock else {name: value for name, value in body.items() if name != 'ProgrammableFromHost'}

    add_processor(
        view,
        PROCESSOR,
        kind='FPGA',
        name='Computational storage',
        manufacturer=MANUFACTURER,
        model=MODEL,
        serial=serial,
        part_number=PART_NUMBER,
        uuid=uuid,
        chassis=board.CHASSIS,
        component=f'{bmc}/{DEVICE}_FPGA',
        pcie_device=PCIE_DEVICE,
        pcie_functions=PCIE_FUNCTIONS,
        device=DEVICE,
        watts=20.0,
        properties={
            'ProcessorArchitecture': 'OEM',
            'InstructionSet': 'OEM',
            'Location': {'PartLocation': {'LocationType': 'Bay', 'LocationOrdinalValue': 4, 'ServiceLabel': 'Bay 4'}},
        },
        fpga=fpga_shown,
        writable=fpga_writable(view, (), lock=fpga.key) if has_fpga_lock else None,
    )
    add_acceleration_functions(view, PROCESSOR, (), manufacturer=MANUFACTURER, device=DEVICE)
    _add_pcie(maker, view, serial, uuid)
    _add_drive(view, serial, open_lockdown=open_lockdown)
    for name, related, software_id in (('Drive', DRIVE, 'CSD-100'), ('FPGA', PROCESSOR, 'CSD-100-KU15P')):
        add_item(
            view,
            f'{bmc}/{DEVICE}_{name}',
            name=f'{name} firmware',
            description=f'The firmware of the {name} of the card',
            manufacturer=MANUFACTURER,
            related=[related],
            software_id=software_id,
        )


def _add_pcie(maker: MachineMaker, view: View, serial: str, uuid: str) -> None:
    common = {
        'SubsystemVendorId': '0x10ee',
        'SubsystemId': '0x0001',
        'SegmentNumber': '0x0000',
        'BusNumber': '0x5e',
        'DeviceNumber': '0x00',
        'RevisionId': '0x01',
    }
    nvme = {'VendorId': '0x144d', 'DeviceId': '0xa824', 'ClassCode': '0x010802', 'DeviceClass': 'MassStorageController'}
    fpga = {'VendorId': '0x10ee', 'DeviceId': '0x6988', 'ClassCode': '0x120000', 'DeviceClass': 'ProcessingAccelerators'}
    links = {'Drives': refs([DRIVE])}
    add_pcie_device(
        view,
        PCIE_DEVICE,
        name='Computational storage',
        manufacturer=MANUFACTURER,
        model=MODEL,
        serial=serial,
        part_number=PART_NUMBER,
        uuid=uuid,
        chassis=board.CHASSIS,
        processor=PROCESSOR,
        component=f'{view.name}/{DEVICE}_FPGA',
        device=DEVICE,
        lanes=4,
        functions=({**common, **nvme, 'Links': links}, {**common, **fpga}),
    )


def _add_drive(view: View, serial: str, *, open_lockdown: bool) -> None:
    machine = view.machine

    def drive() -> Body:
        # The drive itself reports the state of the commands: a fault that makes the BMC invent the lock does not change it.
        state = 'Locked' if machine.is_closed(LOCK) else 'Unlocked'
        return {
            'Id': '0',
            'Name': 'Computational storage drive',
            'MediaType': 'SSD',
            'Protocol': 'NVMe',
            'CapacityBytes': BYTES,
            'BlockSizeBytes': 4096,
            'Manufacturer': MANUFACTURER,
            'Model': MODEL,
            'SerialNumber': serial,
            'PartNumber': PART_NUMBER,
            'FirmwareVersion': machine.shown_version(f'{view.name}/{DEVICE}_Drive'),
            'ConfigurationLock': machine.shown(LOCK),
            'TargetConfigurationLockLevel': 'Baseline',
            'NVMe': {
                'ConfigurationLockState': {
                    'FirmwareCommit': state,
                    'FirmwareImageDownload': state,
                    'Lockdown': 'LockdownUnsupported' if open_lockdown else state,
                    'SecuritySend': state,
                    'VPDWrite': 'CommandUnsupported',
                }
            },
            'Status': status(),
            'Links': {'Chassis': ref(board.CHASSIS), 'PCIeFunctions': refs(PCIE_FUNCTIONS[:1])},
        }

    controllers = f'{STORAGE}/Controllers'
    view.tree.add(
        Resource(
            uri=STORAGE,
            type='#Storage.v1_17_1.Storage',
            render=lambda: {
                'Id': DEVICE,
                'Name': 'Computational storage',
                'Controllers': ref(controllers),
                'Drives': refs([DRIVE]),
                'Drives@odata.count': 1,
                'Status': status(),
            },
            device=DEVICE,
        ),
        collection(controllers, 'StorageController', [f'{controllers}/0'], device=DEVICE),
        Resource(
            uri=f'{controllers}/0',
            type='#StorageController.v1_9_0.StorageController',
            render=lambda: {
                'Id': '0',
                'Name': 'NVMe Controller',
                'SupportedControllerProtocols': ['PCIe'],
                'SupportedDeviceProtocols': ['NVMe'],
                'Status': status(),
            },
            device=DEVICE,
        ),
        Resource(
            uri=DRIVE,
            type='#Drive.v1_20_0.Drive',
            render=drive,
            writable=lambda: {'ConfigurationLock': view.setting(LOCK, (str,), ('Enabled', 'Disabled'))},
            device=DEVICE,
        ),
    )
    view.tree.join(f'{board.SYSTEM}/Storage', STORAGE)
