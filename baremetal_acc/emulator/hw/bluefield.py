# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""An emulated NVIDIA BlueField-3 DPU with its own BMC.

**Hardware:** shaped after the recording ``nvidia/bluefield3``.
**Found by:** Systems/Bluefield, Chassis/Card1 and its NetworkAdapter.
**Can do:** update of DPU_NIC and DPU_BSP (in force after a restart of the DPU), BMC_Firmware and the ERoT (at once).
**Locks:** HostPrivilegeLevel Restricted blocks the host's PCIe path; it is set in Bios/Settings and in force after any restart
of the DPU. HostRshim Disabled blocks the host's rshim path; it is set by the action HostRshim.Set, shown at once and in force
only after a power cycle. The card is closed when both are in force. WriteProtected of BMC_Firmware blocks the BMC's own image
only.
**Features:** ``external-host-privileges`` (a BMC up to 25.07): eight privileges, set by an action, shown at once and in force
after any restart; without HostPrivFlashAccess the host cannot write the flash directly, without HostPrivFwUpdate it cannot
update. ``host-privilege-config`` (since 25.10): PrivilegeMode, written into its Settings, closes both.
``no-host-privilege-level``: the Bios has no such attribute. ``sriov``: the NetworkAdapter shows whether it has virtual
functions; that is written into its Settings, and in force after any restart of the DPU.
**Mode:** ``Mode`` of the extension is what is set by the action Mode.Set, or by NicMode in Bios/Settings; NicMode of Bios is
what is in force, after any restart of the DPU.
**Update:** a cold start of the host is a cold start of the DPU. While the host is off, the DPU runs on standby power.
**Tried on:** nothing real. Unlike in the recording, DPU_NIC is Updateable, so that its update can be tested.
"""

from baremetal_acc.emulator.hw import board
from baremetal_acc.emulator.hw.gpu_root_of_trust import root_oem, root_writable
from baremetal_acc.emulator.hw.parameters import MachineMaker
from baremetal_acc.emulator.image import ImageFormat
from baremetal_acc.emulator.parts import Bank, EmulatedComponent, Restart, System, WriteRoute
from baremetal_acc.emulator.redfish.chassis import CHASSIS, Reading, add_chassis, add_network_adapter
from baremetal_acc.emulator.redfish.manager import MANAGERS, add_manager
from baremetal_acc.emulator.redfish.resource import Body, Caller, Outcome, Parameter, Resource, ResourceAction, ref
from baremetal_acc.emulator.redfish.system import SYSTEMS, Attribute, add_bios, add_ethernet, add_log, add_system
from baremetal_acc.emulator.redfish.update import FIRMWARE, add_item
from baremetal_acc.emulator.redfish.view import View

DEVICE = 'DPU'
IMAGE_MODEL = 'bluefield3'
MANUFACTURER = 'https://www.mellanox.com'
MODEL = 'BlueField-3 SmartNIC Main Card'
PART_NUMBER = '900-9D3B6-00CV-AA0'
DESCRIPTION = 'NVIDIA BlueField-3 B3220 P-Series FHHL DPU; 200GbE; Dual-port QSFP112; integrated BMC; Crypto Enabled'
EROT_UUID = 'ad4c836b-c54c-11eb-8529-0242ac130003'

SYSTEM = f'{SYSTEMS}/Bluefield'
OEM = f'{SYSTEM}/Oem/Nvidia'
CARD = f'{CHASSIS}/Card1'
BMC_CHASSIS = f'{CHASSIS}/Bluefield_BMC'
EROT = f'{CHASSIS}/Bluefield_ERoT'
MANAGER = f'{MANAGERS}/Bluefield_BMC'

PRIVILEGES = f'{OEM}/Connectx/ExternalHostPrivileges'
ADAPTER = f'{CARD}/NetworkAdapters/NvidiaNetworkAdapter'
CONFIG = f'{ADAPTER}/Oem/Nvidia/HostPrivilegeConfig'

PRIVILEGE = 'Bluefield/HostPrivilegeLevel'
MODE = 'Bluefield/PrivilegeMode'
SRIOV = 'Bluefield/SRIOVEnabled'
NIC_MODE = f'{SYSTEM}/Bios/NicMode'
MODES = ('DpuMode', 'NicMode')
RSHIM = 'Bluefield/HostRshim'

ADAPTER_TYPE = '#NvidiaNetworkAdapter.v1_2_0.NvidiaNetworkAdapter'

_LEVEL = Attribute(
    name='HostPrivilegeLevel',
    default='Privileged',
    allowed=('Privileged', 'Restricted'),
    locked='Restricted',
    is_lock=True,
    key=PRIVILEGE,
)

# Those of the recording. HostPrivNicReset closes no path, since a reset of the NIC writes nothing.
_EXTERNAL = (
    'HostPrivFlashAccess',
    'HostPrivFwUpdate',
    'HostPrivNicReset',
    'HostPrivNvGlobal',
    'HostPrivNvHost',
    'HostPrivNvInternalCpu',
    'HostPrivNvPort',
    'HostPrivPccUpdate',
)

# item, component, version, updateable, restart that activates it, SoftwareId, related
_ITEMS = (
    ('DPU_NIC', 'nic', '32.39.2048', True, Restart.WARM, 'DPU_NIC', (f'{SYSTEM}/Bios',)),
    ('DPU_BSP', 'bsp', '4.5.0.12984', True, Restart.WARM, 'DPU_BSP', (f'{SYSTEM}/Bios',)),
    ('DPU_UEFI', 'uefi', '4.5.0-43-gabc1234567', False, Restart.WARM, 'DPU_UEFI', (f'{SYSTEM}/Bios',)),
    ('BMC_Firmware', 'bmc', 'BF-23.10-5', True, None, '0x0018', ()),
    ('Bluefield_FW_ERoT', 'erot', '00.02.0152.0000_n02', True, None, '0x0030', (EROT,)),
)


def add_dpu(maker: MachineMaker, *, bmc: str) -> View:
    """Add the card and its BMC."""
    machine = maker.machine
    machine.systems['dpu'] = System(name='dpu', bmc=bmc, uri=SYSTEM, powered_by='host')
    view = board.new_view(maker, bmc, MANAGER, product='BlueField BMC', vendor='Nvidia')
    rshim = machine.add_lock(
        RSHIM,
        'Enabled',
        locked='Disabled',
        open='Enabled',
        bmc=bmc,
        uri=OEM,
        device=DEVICE,
        takes_force=Restart.COLD,
        system='dpu',
    )
    policy = machine.add_lock(
        'Bluefield_ERoT/InbandUpdatePolicyEnabled', True, locked=False, open=True, bmc=bmc, uri=EROT, device=DEVICE
    )
    protect = machine.add_lock(
        'BMC_Firmware/WriteProtected',
        False,
        locked=True,
        open=False,
        bmc=bmc,
        uri=f'{FIRMWARE}/BMC_Firmware',
        device=DEVICE,
    )
    has_level = not maker.feature('no-host-privilege-level')
    has_external = maker.feature('external-host-privileges')
    has_preset = maker.feature('host-privilege-config')
    has_sriov = maker.feature('sriov')
    for item, component, version, updateable, activates, _, _ in _ITEMS:
        machine.add_component(
            EmulatedComponent(
                key=f'{bmc}/{item}',
                bmc=bmc,
                uri=f'{FIRMWARE}/{item}',
                device=DEVICE,
                kind=ImageFormat.FIRMWARE,
                model=IMAGE_MODEL,
                component=component,
                active=Bank(version=version),
                updateable=updateable,
                activates=activates,
                system='dpu',
                write_protect=protect.key if item == 'BMC_Firmware' else None,
            )
        )
    serial = maker.serial(DEVICE, prefix='MT')
    macs = [maker.mac('dpu/0'), maker.mac('dpu/1')]
    items = [f'{FIRMWARE}/{item}' for item, _, _, _, _, _, related in _ITEMS if f'{SYSTEM}/Bios' in related]
    add_system(
        view,
        'Bluefield',
        system='dpu',
        manufacturer=MANUFACTURER,
        model=MODEL,
        serial=serial,
        chassis=[CARD],
        managers=[MANAGER],
        memory_gib=32,
        parts=('Bios', 'EthernetInterfaces', 'LogServices'),
        description='The SoC of the DPU found in Card1',
        oem=lambda: {'Nvidia': ref(OEM)},
    )
    add_bios(
        view,
        SYSTEM,
        (
            *((_LEVEL,) if has_level else ()),
            Attribute(name='NicMode', default='DpuMode', allowed=MODES),
            Attribute(name='InternalCPUModel', default='Embedded', allowed=('Embedded', 'Separated')),
            Attribute(name='BootPartitionProtection', default=False),
            Attribute(name='EnableSMMU', default=True),
        ),
        system='dpu',
        device=DEVICE,
        software=items if view.options.update_service else (),
    )
    if has_external:
        _add_privileges(view)
    if has_preset:
        _add_preset(view)
    if has_sriov:
        machine.add_setting(SRIOV, False, bmc=bmc, uri=ADAPTER, device=DEVICE, takes_force=Restart.WARM, system='dpu')
    whole = (*((PRIVILEGE,) if has_level else ()), *((MODE,) if has_preset else ()))
    if has_external or has_preset:
        raw = (*whole, *((_external('HostPrivFlashAccess'),) if has_external else ()))
        machine.ways.append(WriteRoute(device=DEVICE, component='nic', path='flash', target=f'{bmc}/DPU_NIC', locks=raw))
    update = (*whole, *((_external('HostPrivFwUpdate'),) if has_external else ()))
    machine.ways += [
        WriteRoute(device=DEVICE, component='nic', path='pcie', target=f'{bmc}/DPU_NIC', locks=update),
        WriteRoute(device=DEVICE, component='nic', path='rshim', target=f'{bmc}/DPU_NIC', locks=(rshim.key,)),
        WriteRoute(device=DEVICE, component='bsp', path='rshim', target=f'{bmc}/DPU_BSP', locks=(rshim.key,)),
    ]
    add_ethernet(view, SYSTEM, {'oob0': maker.mac('dpu/oob')})
    add_log(view, SYSTEM, 'EventLog', kind='Event', entries=('The DPU has booted.',))
    _add_oem(maker, view, rshim.key, has_external=has_external)
    _add_chassis(view, serial, macs, bmc, policy.key, has_preset=has_preset, has_sriov=has_sriov)
    add_manager(
        view,
        'Bluefield_BMC',
        model='OpenBmc',
        manufacturer=MANUFACTURER,
        uuid=maker.uuid('dpu-bmc'),
        component=f'{bmc}/BMC_Firmware',
        systems=[SYSTEM],
        chassis=[CARD, BMC_CHASSIS, EROT],
        in_chassis=BMC_CHASSIS,
        mac=maker.mac('dpu-bmc'),
    )
    for item, component, _, _, _, software_id, related in _ITEMS:
        add_item(
            view,
            f'{bmc}/{item}',
            name='Software Inventory',
            description=f'The {component} image',
            manufacturer='NVIDIA' if component == 'erot' else MANUFACTURER,
            related=related,
            software_id=software_id,
        )
    maker.systems[bmc] = SYSTEM
    return view


def _external(name: str) -> str:
    return f'Bluefield/{name}'


def _add_privileges(view: View) -> None:
    """Add the external host privileges. A change is shown at once, and in force after a restart of the DPU."""
    machine = view.machine
    words = ('Disabled', 'Enabled', 'Default')
    for name in _EXTERNAL:
        machine.add_setting(
            _external(name),
            'Default',
            bmc=view.name,
            uri=PRIVILEGES,
            device=DEVICE,
            locked='Disabled',
            open='Default',
            is_lock=name != 'HostPrivNicReset',
            takes_force=Restart.WARM,
            system='dpu',
        )

    def set_them(caller: Caller, body: Body) -> Outcome:
        for name, word in body.items():
            machine.configure(_external(name), str(word))
        return Outcome()

    view.tree.add(
        Resource(
            uri=PRIVILEGES,
            type='#NvidiaExternalHostPrivilege.v1_0_0.NvidiaExternalHostPrivilege',
            render=lambda: {
                'Id': 'ExternalHostPrivileges',
                'Name': 'External Host Privileges',
                'ExternalHostPrivilege': {name: machine.shown(_external(name)) for name in _EXTERNAL},
            },
            device=DEVICE,
            actions=(
                ResourceAction(
                    name='#ExternalHostPrivilege.Set',
                    target=f'{PRIVILEGES}/Actions/ExternalHostPrivileges.Set',
                    parameters=tuple(Parameter(name=name, allowed=words, show_allowed=False) for name in _EXTERNAL),
                    invoke=set_them,
                ),
            ),
        )
    )


def _add_preset(view: View) -> None:
    """Add the HostPrivilegeConfig, which shows the value in force, and its Settings. The card reports PrivilegeSettings."""
    machine = view.machine
    modes = ('Privileged', 'Restricted')
    lock = machine.add_lock(
        MODE,
        'Privileged',
        locked='Restricted',
        open='Privileged',
        bmc=view.name,
        uri=CONFIG,
        device=DEVICE,
        takes_force=Restart.WARM,
        system='dpu',
    )

    def config(name: str, mode: object, real: object) -> Body:
        word = 'Disabled' if real == 'Restricted' else 'Enabled'
        return {
            'Id': name,
            'Name': 'Host Privilege Configuration',
            'PrivilegeMode': mode,
            'PrivilegeSettings': {
                'HostPrivilegeLevel': real,
                'ManagementInterfaceEnabled': real != 'Restricted',
                **dict.fromkeys(('FirmwareUpdate', 'FlashAccess', 'GlobalParametersAccess', 'PccUpdate'), word),
            },
        }

    kind = '#NvidiaHostPrivilegeConfig.v1_0_0.NvidiaHostPrivilegeConfig'
    view.tree.add(
        Resource(
            uri=CONFIG,
            type=kind,
            render=lambda: {
                **config('HostPrivilegeConfig', machine.shown_in_force(MODE), modes[machine.is_closed(MODE)]),
                '@Redfish.Settings': {'@odata.type': '#Settings.v1_4_0.Settings', 'SettingsObject': ref(f'{CONFIG}/Settings')},
            },
            device=DEVICE,
        ),
        Resource(
            uri=f'{CONFIG}/Settings',
            type=kind,
            render=lambda: config('Settings', machine.shown(MODE), lock.value),
            writable=lambda: {'PrivilegeMode': view.setting(MODE, (str,), modes)},
            device=DEVICE,
        ),
    )


def _add_oem(maker: MachineMaker, view: View, rshim: str, *, has_external: bool) -> None:
    machine = maker.machine
    mac = maker.mac('dpu/0').replace(':', '')

    def set_rshim(caller: Caller, body: Body) -> Outcome:
        machine.configure(rshim, str(body['HostRshim']))
        return Outcome()

    def set_mode(caller: Caller, body: Body) -> Outcome:
        machine.configure(NIC_MODE, str(body['Mode']))
        return Outcome()

    def described(name: str, values: tuple[str, ...]) -> Body:
        shown = {'Name': name, 'DataType': 'String', 'Required': True, 'AllowableValues': list(values)}
        return {'Parameters': [shown]}

    values = ('Disabled', 'Enabled')
    view.tree.add(
        Resource(
            uri=OEM,
            type='#NvidiaComputerSystem.v1_0_0.NvidiaComputerSystem',
            render=lambda: {
                'BaseGUID': f'{mac[:6]}0300{mac[6:]}',
                'BaseMAC': mac,
                'Description': DESCRIPTION,
                'HostRshim': machine.shown(rshim),
                'Mode': machine.shown(NIC_MODE),
                **({'Connectx': {'ExternalHostPrivilege': ref(PRIVILEGES)}} if has_external else {}),
            },
            device=DEVICE,
            actions=(
                ResourceAction(
                    name='#HostRshim.Set',
                    target=f'{OEM}/Actions/HostRshim.Set',
                    parameters=(Parameter(name='HostRshim', required=True, allowed=values, show_allowed=False),),
                    extra=described('HostRshim', values),
                    invoke=set_rshim,
                ),
                ResourceAction(
                    name='#Mode.Set',
                    target=f'{OEM}/Actions/Mode.Set',
                    parameters=(Parameter(name='Mode', required=True, allowed=MODES, show_allowed=False),),
                    extra=described('Mode', MODES),
                    invoke=set_mode,
                ),
            ),
        )
    )


def _add_chassis(view: View, serial: str, macs: list[str], bmc: str, policy: str, *, has_preset: bool, has_sriov: bool) -> None:
    add_chassis(
        view,
        'Card1',
        kind='Card',
        manufacturer=MANUFACTURER,
        model=MODEL,
        serial=serial,
        part_number=PART_NUMBER,
        managers=[MANAGER],
        systems=[SYSTEM],
        contains=[BMC_CHASSIS, EROT],
        adapters=['NvidiaNetworkAdapter'],
        system='dpu',
        device=DEVICE,
        sensors=(
            Reading(id='Bluefield_Temp', kind='Temperature', units='Cel', reading=52.0, context='NetworkingDevice'),
            Reading(id='Card_Power', kind='Power', units='W', reading=58.0, context='NetworkingDevice'),
        ),
        oem=lambda: {'Nvidia': {'@odata.type': '#NvidiaChassis.v1_4_0.NvidiaChassis'}},
    )
    add_network_adapter(
        view,
        CARD,
        'NvidiaNetworkAdapter',
        manufacturer='Nvidia',
        macs=macs,
        component=f'{bmc}/DPU_NIC',
        device=DEVICE,
        oem=(lambda: {'Nvidia': {'@odata.type': ADAPTER_TYPE, 'HostPrivilegeConfig': ref(CONFIG)}}) if has_preset else None,
        sriov=SRIOV if has_sriov else None,
    )
    add_chassis(
        view,
        'Bluefield_BMC',
        kind='Component',
        manufacturer=MANUFACTURER,
        model='BlueField-3 BMC',
        serial=serial,
        part_number=PART_NUMBER,
        managers=[MANAGER],
        contained_by=CARD,
    )
    add_chassis(
        view,
        'Bluefield_ERoT',
        kind='Component',
        manufacturer='NVIDIA',
        managers=[MANAGER],
        systems=[SYSTEM],
        contained_by=CARD,
        serial='',
        uuid=EROT_UUID,
        device=DEVICE,
        properties={'SKU': '0x4B353681', 'Location': {'PartLocation': {'LocationType': 'Embedded'}}},
        links_oem={
            'Nvidia': {
                '@odata.type': '#NvidiaChassis.v1_3_0.NvidiaChassis',
                'ComponentsProtected': [{'@odata.id': MANAGER}],
            }
        },
        oem=root_oem(view, policy),
        writable=root_writable(view, policy),
    )
