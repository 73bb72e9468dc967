# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""ComputerSystem resources: power, boot override, BIOS settings, memory, storage, Ethernet interfaces, SecureBoot and logs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from baremetal_acc.emulator.machine import Machine
from baremetal_acc.emulator.parts import Cause, Power, Restart, System, Value, WriteRefused
from baremetal_acc.emulator.redfish.bmc_services import add_console, console, console_writable
from baremetal_acc.emulator.redfish.errors import RedfishError
from baremetal_acc.emulator.redfish.resource import (
    ROOT,
    Body,
    Outcome,
    Parameter,
    Resource,
    ResourceAction,
    Writables,
    body_of,
    collection,
    ref,
    refs,
    status,
)
from baremetal_acc.emulator.redfish.view import View

SYSTEMS = f'{ROOT}/Systems'
RESETS = ('On', 'ForceOff', 'GracefulShutdown', 'GracefulRestart', 'ForceRestart', 'PowerCycle')
BOOT_TARGETS = ('None', 'Pxe', 'Hdd', 'Cd', 'Usb', 'UefiHttp', 'BiosSetup')
BOOT_ENABLED = ('Disabled', 'Once', 'Continuous')
BOOT_MODES = ('UEFI', 'Legacy')


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """A BIOS attribute, its values, and the key of its setting if it has one of its own."""

    name: str
    default: Value
    allowed: tuple[Any, ...] | None = None
    locked: Value = None
    is_lock: bool = False
    key: str | None = None

    def setting(self, bios: str) -> str:
        """The key of its setting."""
        return self.key or f'{bios}/{self.name}'


def add_systems_collection(view: View) -> None:
    """Add the collection; each ComputerSystem joins it."""
    view.tree.add(collection(SYSTEMS, 'ComputerSystem', view.tree.joined(SYSTEMS), name='Computer System Collection'))


def add_system(
    view: View,
    name: str,
    *,
    system: str,
    manufacturer: str,
    model: str,
    serial: str,
    part_number: str | None = None,
    uuid: str | None = None,
    chassis: Sequence[str],
    managers: Sequence[str],
    resets: Sequence[str] = RESETS,
    properties: Mapping[str, Any] | None = None,
    processors: bool = True,
    memory_gib: int | None = None,
    pcie_devices: Sequence[str] = (),
    pcie_functions: Sequence[str] = (),
    bios_component: str | None = None,
    parts: Sequence[str] = (),
    oem: Callable[[], Body] | None = None,
    description: str | None = None,
) -> str:
    """Add a ComputerSystem; return its URI.

    :param system: the system of the machine whose power it shows.
    :param resets: the values of ResetType; empty: it has no Reset action and no boot settings.
    :param parts: names of linked resources below it: Memory, Storage, EthernetInterfaces, Bios, SecureBoot, LogServices.
    """
    machine = view.machine
    uri = f'{SYSTEMS}/{name}'
    if resets:
        _add_boot_settings(view, uri, system)
        add_console(view, uri)

    def render() -> Body:
        state = machine.systems[system]
        is_on = state.power is Power.ON
        body: Body = {
            'Id': name,
            'Name': name,
            'SystemType': 'Physical',
            'Manufacturer': manufacturer,
            'Model': model,
            'SerialNumber': serial,
            'PowerState': state.power.value,
            'Status': status('Enabled' if is_on else 'StandbyOffline'),
            'Links': {'Chassis': refs(chassis), 'ManagedBy': refs(managers)},
            **(properties or {}),
        }
        given = {'PartNumber': part_number, 'UUID': uuid, 'Description': description}
        body.update({key: value for key, value in given.items() if value is not None})
        if view.options.host_history:
            body['LastResetTime'] = machine.clock.wall(state.last_reset)
        if resets:
            if view.options.host_history:
                body['BootProgress'] = {
                    'LastState': _boot_state(state),
                    'LastStateTime': machine.clock.wall(state.state_since),
                }
            body['Boot'] = _boot(machine, uri)
            body['SerialConsole'] = console(view, uri)
            body['AssetTag'] = machine.shown(f'{uri}/AssetTag')
            body['LocationIndicatorActive'] = machine.shown(f'{uri}/LocationIndicatorActive')
        if processors:
            body['Processors'] = ref(f'{uri}/Processors')
        if memory_gib is not None:
            body['MemorySummary'] = {'TotalSystemMemoryGiB': memory_gib, 'Status': status()}
        if bios_component is not None:
            body['BiosVersion'] = machine.shown_version(bios_component)
        if pcie_devices:
            body['PCIeDevices'] = refs(pcie_devices)
            body['PCIeDevices@odata.count'] = len(pcie_devices)
        if pcie_functions:
            body['PCIeFunctions'] = refs(pcie_functions)
            body['PCIeFunctions@odata.count'] = len(pcie_functions)
        for part in parts:
            body[part] = ref(f'{uri}/{part}')
        if oem is not None:
            body['Oem'] = oem()
        return body

    actions: tuple[ResourceAction, ...] = ()
    if resets:
        actions = (
            ResourceAction(
                name='#ComputerSystem.Reset',
                target=f'{uri}/Actions/ComputerSystem.Reset',
                parameters=(Parameter(name='ResetType', allowed=tuple(resets), refused=lambda: _refused_resets(view, uri)),),
                invoke=lambda caller, body: reset(machine, system, str(body.get('ResetType', 'On'))),
            ),
        )
    view.tree.add(
        Resource(
            uri=uri,
            type='#ComputerSystem.v1_22_2.ComputerSystem',
            render=render,
            writable=(lambda: _boot_writable(view, uri)) if resets else None,
            actions=actions,
        )
    )
    view.tree.join(SYSTEMS, uri)
    if processors:
        view.tree.add(collection(f'{uri}/Processors', 'Processor', view.tree.joined(f'{uri}/Processors')))
    return uri


def _boot_state(state: System) -> str:
    """The value of BootProgress.LastState."""
    if state.power is Power.OFF:
        return 'None'
    starts = state.booting or state.power is Power.POWERING_ON
    return 'PrimaryProcessorInitializationStarted' if starts else 'OSRunning'


def _refused_resets(view: View, uri: str) -> frozenset[str]:
    """The reset types that a fault has removed."""
    rule = view.machine.faults.find('reset-types-missing', bmc=view.name, uri=uri, use=False)
    return frozenset() if rule is None else frozenset(str(rule.parameters['types']).split(','))


def reset(machine: Machine, system: str, reset_type: str) -> Outcome:
    """Carry out a Reset action.

    :raises RedfishError: 409 while the power is changing, or for a graceful restart of a system that is off.
    """
    try:
        machine.reset_system(system, reset_type, cause=Cause.COMMAND)
    except WriteRefused as why:
        raise RedfishError(409, 'ResourceInStandby' if why.reason == 'host-off' else 'ResourceInUse', text=str(why)) from why
    return Outcome()


def _add_boot_settings(view: View, uri: str, system: str) -> None:
    machine, bmc = view.machine, view.name
    once = ('Once', 'Disabled')
    machine.add_setting(f'{uri}/BootSourceOverrideEnabled', 'Disabled', bmc=bmc, uri=uri, system=system, once=once)
    machine.add_setting(f'{uri}/BootSourceOverrideTarget', 'None', bmc=bmc, uri=uri, system=system)
    machine.add_setting(f'{uri}/BootSourceOverrideMode', 'UEFI', bmc=bmc, uri=uri, system=system)
    machine.add_setting(f'{uri}/UefiTargetBootSourceOverride', None, bmc=bmc, uri=uri, system=system)
    machine.add_setting(f'{uri}/HttpBootUri', None, bmc=bmc, uri=uri, system=system)
    machine.add_setting(f'{uri}/AssetTag', '', bmc=bmc, uri=uri, system=system)
    machine.add_setting(f'{uri}/LocationIndicatorActive', False, bmc=bmc, uri=uri, system=system)


def _boot(machine: Machine, uri: str) -> Body:
    return {
        'BootSourceOverrideEnabled': machine.shown(f'{uri}/BootSourceOverrideEnabled'),
        'BootSourceOverrideEnabled@Redfish.AllowableValues': list(BOOT_ENABLED),
        'BootSourceOverrideTarget': machine.shown(f'{uri}/BootSourceOverrideTarget'),
        'BootSourceOverrideTarget@Redfish.AllowableValues': list(BOOT_TARGETS),
        'BootSourceOverrideMode': machine.shown(f'{uri}/BootSourceOverrideMode'),
        'BootSourceOverrideMode@Redfish.AllowableValues': list(BOOT_MODES),
        'UefiTargetBootSourceOverride': machine.shown(f'{uri}/UefiTargetBootSourceOverride'),
        'HttpBootUri': machine.shown(f'{uri}/HttpBootUri'),
    }


def _boot_writable(view: View, uri: str) -> Writables:
    text = (str, type(None))
    return {
        'Boot': {
            'BootSourceOverrideEnabled': view.setting(f'{uri}/BootSourceOverrideEnabled', (str,), BOOT_ENABLED),
            'BootSourceOverrideTarget': view.setting(f'{uri}/BootSourceOverrideTarget', (str,), BOOT_TARGETS),
            'BootSourceOverrideMode': view.setting(f'{uri}/BootSourceOverrideMode', (str,), BOOT_MODES),
            'UefiTargetBootSourceOverride': view.setting(f'{uri}/UefiTargetBootSourceOverride', text),
            'HttpBootUri': view.setting(f'{uri}/HttpBootUri', text),
        },
        'SerialConsole': console_writable(view, uri),
        'AssetTag': view.setting(f'{uri}/AssetTag', (str,)),
        'LocationIndicatorActive': view.setting(f'{uri}/LocationIndicatorActive', (bool,)),
    }


def add_bios(
    view: View,
    system_uri: str,
    attributes: Sequence[Attribute],
    *,
    system: str,
    takes_force: Restart = Restart.WARM,
    device: str | None = None,
    software: Sequence[str] = (),
) -> None:
    """Add Bios, which shows the values in force, and Bios/Settings, which shows those pending until the system restarts."""
    machine = view.machine
    uri = f'{system_uri}/Bios'
    settings = f'{uri}/Settings'
    for one in attributes:
        machine.add_setting(
            one.setting(uri),
            one.default,
            bmc=view.name,
            uri=uri,
            device=device,
            locked=one.locked,
            is_lock=one.is_lock,
            open=one.default,
            takes_force=takes_force,
            system=system,
        )

    def in_force() -> Body:
        links: Body = {'ActiveSoftwareImage': ref(software[0]), 'SoftwareImages': refs(software)} if software else {}
        return {
            'Id': 'Bios',
            'Name': 'BIOS Configuration',
            'Attributes': {one.name: machine.shown_in_force(one.setting(uri)) for one in attributes},
            **({'Links': links} if links else {}),
            '@Redfish.Settings': {
                '@odata.type': '#Settings.v1_4_0.Settings',
                'SettingsObject': ref(settings),
                'SupportedApplyTimes': ['OnReset'],
            },
        }

    def pending() -> Body:
        waiting = [one for one in attributes if machine.is_pending(one.setting(uri))]
        return {
            'Id': 'Settings',
            'Name': 'BIOS Configuration Pending Settings',
            'Attributes': {one.name: machine.shown(one.setting(uri)) for one in waiting},
        }

    def writable() -> Writables:
        return {
            'Attributes': {one.name: view.setting(one.setting(uri), (type(one.default),), one.allowed) for one in attributes}
        }

    view.tree.add(
        Resource(uri=uri, type='#Bios.v1_2_2.Bios', render=in_force, device=device),
        Resource(uri=settings, type='#Bios.v1_2_2.Bios', render=pending, writable=writable, device=device),
    )


def add_memory(view: View, system_uri: str, *, dimms: int, gib: int, manufacturer: str) -> None:
    """Add Memory with a number of equal DIMMs."""
    base = f'{system_uri}/Memory'

    def dimm(number: int) -> Callable[[], Body]:
        return lambda: {
            'Id': f'DIMM_{number}',
            'Name': f'DIMM {number}',
            'MemoryType': 'DRAM',
            'MemoryDeviceType': 'DDR5',
            'BaseModuleType': 'RDIMM',
            'CapacityMiB': gib * 1024,
            'DataWidthBits': 64,
            'BusWidthBits': 80,
            'OperatingSpeedMhz': 4800,
            'AllowedSpeedsMHz': [4800],
            'ErrorCorrection': 'MultiBitECC',
            'RankCount': 2,
            'Manufacturer': manufacturer,
            'SerialNumber': f'DM{number:06}',
            'PartNumber': f'DDR5-{gib}G',
            'Status': status(),
        }

    uris = [f'{base}/DIMM_{number}' for number in range(dimms)]
    view.tree.add(
        collection(base, 'Memory', uris),
        *(Resource(uri=uri, type='#Memory.v1_19_0.Memory', render=dimm(number)) for number, uri in enumerate(uris)),
    )


def add_storage(view: View, system_uri: str, *, drives: int, gib: int, manufacturer: str, chassis: str) -> None:
    """Add Storage with one NVMe controller and its drives."""
    base = f'{system_uri}/Storage'
    uri = f'{base}/1'
    controllers = f'{uri}/Controllers'
    drive_uris = [f'{uri}/Drives/{number}' for number in range(drives)]
    view.tree.join(base, uri)

    def drive(number: int) -> Callable[[], Body]:
        return lambda: {
            'Id': str(number),
            'Name': f'Drive {number}',
            'MediaType': 'SSD',
            'Protocol': 'NVMe',
            'CapacityBytes': gib * 1024**3,
            'BlockSizeBytes': 512,
            'Manufacturer': manufacturer,
            'Model': f'NVME-{gib}',
            'SerialNumber': f'DR{number:06}',
            'PartNumber': f'NVME-{gib}-A',
            'PredictedMediaLifeLeftPercent': 100.0,
            'FailurePredicted': False,
            'Status': status(),
            'Links': {'Chassis': ref(chassis)},
        }

    view.tree.add(
        collection(base, 'Storage', view.tree.joined(base)),
        Resource(
            uri=uri,
            type='#Storage.v1_17_1.Storage',
            render=lambda: {
                'Id': '1',
                'Name': 'NVMe Storage',
                'Controllers': ref(controllers),
                'Drives': refs(drive_uris),
                'Drives@odata.count': len(drive_uris),
                'Status': status(),
            },
        ),
        collection(controllers, 'StorageController', [f'{controllers}/0']),
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
        ),
        *(
            Resource(uri=drive_uri, type='#Drive.v1_20_0.Drive', render=drive(number))
            for number, drive_uri in enumerate(drive_uris)
        ),
    )


def add_ethernet(view: View, owner_uri: str, interfaces: Mapping[str, str], *, address: str | None = None) -> None:
    """Add EthernetInterfaces of a system or a manager: Id -> MAC address.

    :param address: of a manager, whose interfaces have names, too.
    """
    base = f'{owner_uri}/EthernetInterfaces'
    names = {'HostName': 'bmc', 'FQDN': 'bmc.example.org'}

    def interface(name: str, mac: str) -> Resource:
        uri = f'{base}/{name}'
        if address is not None:
            for key, value in names.items():
                view.machine.add_setting(f'{uri}/{key}', value, bmc=view.name, uri=uri)

        def render() -> Body:
            body: Body = {
                'Id': name,
                'Name': f'Interface {name}',
                'InterfaceEnabled': True,
                'LinkStatus': 'LinkUp',
                'MACAddress': mac,
                'PermanentMACAddress': mac,
                'SpeedMbps': 1000,
                'FullDuplex': True,
                'MTUSize': 1500,
                'Status': status(),
            }
            if address is not None:
                ipv4 = {'Address': address, 'SubnetMask': '255.255.255.0', 'AddressOrigin': 'Static', 'Gateway': None}
                body |= {'IPv4Addresses': [ipv4], 'NameServers': ['192.0.2.53']}
                body |= {key: view.machine.shown(f'{uri}/{key}') for key in names}
            return body

        def writable() -> Writables:
            return {key: view.setting(f'{uri}/{key}', (str,)) for key in names}

        kind, takes = '#EthernetInterface.v1_12_0.EthernetInterface', None if address is None else writable
        return Resource(uri=uri, type=kind, render=render, writable=takes)

    view.tree.add(
        collection(base, 'EthernetInterface', [f'{base}/{name}' for name in interfaces]),
        *(interface(name, mac) for name, mac in interfaces.items()),
    )


def add_secure_boot(view: View, system_uri: str) -> None:
    """Add SecureBoot, disabled."""
    uri = f'{system_uri}/SecureBoot'
    view.machine.add_setting(f'{uri}/SecureBootEnable', False, bmc=view.name, uri=uri)
    view.tree.add(
        Resource(
            uri=uri,
            type='#SecureBoot.v1_1_1.SecureBoot',
            render=lambda: {
                'Id': 'SecureBoot',
                'Name': 'UEFI Secure Boot',
                'SecureBootEnable': view.machine.shown(f'{uri}/SecureBootEnable'),
                'SecureBootCurrentBoot': 'Disabled',
                'SecureBootMode': 'UserMode',
            },
            writable=lambda: {'SecureBootEnable': view.setting(f'{uri}/SecureBootEnable', (bool,))},
        )
    )


def add_log(view: View, owner_uri: str, name: str, *, kind: str, entries: Sequence[str]) -> None:
    """Add LogServices with one log."""
    base = f'{owner_uri}/LogServices'
    log = f'{base}/{name}'
    created = view.machine.clock.wall(0.0)

    def entry(number: int, text: str) -> Callable[[], Body]:
        return lambda: {
            'Id': str(number),
            'Name': f'Log Entry {number}',
            'EntryType': 'Event',
            'Severity': 'OK',
            'Created': created,
            'Message': text,
        }

    resources = [
        Resource(uri=f'{log}/Entries/{number}', type='#LogEntry.v1_17_0.LogEntry', render=entry(number, text))
        for number, text in enumerate(entries, start=1)
    ]
    view.tree.add(
        collection(base, 'LogService', [log]),
        Resource(
            uri=log,
            type='#LogService.v1_7_0.LogService',
            render=lambda: {
                'Id': name,
                'Name': f'{name} Log Service',
                'LogEntryType': kind,
                'ServiceEnabled': True,
                'MaxNumberOfRecords': 1000,
                'OverWritePolicy': 'WrapsWhenFull',
                'DateTime': view.machine.clock.wall(),
                'Entries': ref(f'{log}/Entries'),
                'Status': status(),
            },
            volatile=frozenset({'DateTime'}),
        ),
        Resource(
            uri=f'{log}/Entries',
            type='#LogEntryCollection.LogEntryCollection',
            render=lambda: {
                'Name': f'{name} Log Entries',
                'Members@odata.count': len(resources),
                # Source: DSP8010 LogEntryCollection: its members are always expanded.
                'Members': [body_of(one) for one in resources],
            },
        ),
        *resources,
    )
