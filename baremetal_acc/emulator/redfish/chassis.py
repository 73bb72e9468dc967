# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Chassis resources of an emulated BMC: sensors, PowerSubsystem, ThermalSubsystem and network adapters."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from baremetal_acc.emulator.redfish.resource import (
    ROOT,
    Body,
    Resource,
    ResourceAction,
    Writables,
    collection,
    ref,
    refs,
    status,
)
from baremetal_acc.emulator.redfish.view import View

CHASSIS = f'{ROOT}/Chassis'
SENSOR = '#Sensor.v1_10_1.Sensor'


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A sensor reading: Id, ReadingType, unit, value and PhysicalContext."""

    id: str
    kind: str
    units: str
    reading: float
    context: str


def add_chassis_collection(view: View) -> None:
    """Add the collection; each Chassis joins it."""
    view.tree.add(collection(CHASSIS, 'Chassis', view.tree.joined(CHASSIS)))


def add_chassis(
    view: View,
    name: str,
    *,
    kind: str,
    manufacturer: str,
    managers: Sequence[str],
    systems: Sequence[str] = (),
    model: str | None = None,
    serial: str | None = None,
    part_number: str | None = None,
    uuid: str | None = None,
    contained_by: str | None = None,
    contains: Sequence[str] = (),
    processors: Sequence[str] = (),
    pcie_devices: Sequence[str] = (),
    sensors: Sequence[Reading] = (),
    properties: Mapping[str, Any] | None = None,
    adapters: Sequence[str] = (),
    oem: Callable[[], Body] | None = None,
    links_oem: Mapping[str, Any] | None = None,
    writable: Callable[[], Writables] | None = None,
    actions: tuple[ResourceAction, ...] = (),
    device: str | None = None,
    system: str | None = None,
    has_lamp: bool = False,
) -> str:
    """Add a Chassis with its sensors and collections; return its URI.

    :param adapters: Ids of NetworkAdapters that :func:`add_network_adapter` adds.
    :param has_lamp: the Chassis has a lamp by which it is found in its rack.
    :param system: the system of the machine whose power the Chassis follows.
    """
    uri = f'{CHASSIS}/{name}'
    pcie = tuple(pcie_devices)
    lamp = f'{uri}/LocationIndicatorActive'
    if has_lamp:
        view.machine.add_setting(lamp, False, bmc=view.name, uri=uri)

    def writable_properties() -> Writables:
        own: Writables = {'LocationIndicatorActive': view.setting(lamp, (bool,))} if has_lamp else {}
        return own if writable is None else {**writable(), **own}

    def render() -> Body:
        links: Body = {'ManagedBy': refs(managers), 'ComputerSystems': refs(systems)}
        if contained_by is not None:
            links['ContainedBy'] = ref(contained_by)
        if contains:
            links['Contains'] = refs(contains)
        if processors:
            links['Processors'] = refs(processors)
        if links_oem is not None:
            links['Oem'] = dict(links_oem)
        body: Body = {
            'Id': name,
            'Name': name,
            'ChassisType': kind,
            'Manufacturer': manufacturer,
            'Status': status(),
            'Links': links,
            **(properties or {}),
        }
        given = {'Model': model, 'SerialNumber': serial, 'PartNumber': part_number, 'UUID': uuid}
        body.update({key: value for key, value in given.items() if value is not None})
        if system is not None:
            body['PowerState'] = view.machine.systems[system].power.value
        if has_lamp:
            body['LocationIndicatorActive'] = view.machine.shown(lamp)
        if sensors:
            body['Sensors'] = ref(f'{uri}/Sensors')
            body['EnvironmentMetrics'] = ref(f'{uri}/EnvironmentMetrics')
        if pcie:
            body['PCIeDevices'] = ref(f'{uri}/PCIeDevices')
        if adapters:
            body['NetworkAdapters'] = ref(f'{uri}/NetworkAdapters')
        for part in ('PowerSubsystem', 'ThermalSubsystem', 'Controls'):
            if view.tree.has(f'{uri}/{part}'):
                body[part] = ref(f'{uri}/{part}')
        if oem is not None:
            body['Oem'] = oem()
        return body

    view.tree.add(
        Resource(
            uri=uri,
            type='#Chassis.v1_26_0.Chassis',
            render=render,
            writable=writable_properties if has_lamp else writable,
            actions=actions,
            device=device,
        )
    )
    view.tree.join(CHASSIS, uri)
    if sensors:
        _add_sensors(view, uri, sensors, device)
    if pcie:
        view.tree.add(collection(f'{uri}/PCIeDevices', 'PCIeDevice', pcie, device=device))
    if adapters:
        members = [f'{uri}/NetworkAdapters/{one}' for one in adapters]
        view.tree.add(collection(f'{uri}/NetworkAdapters', 'NetworkAdapter', members, device=device))
    return uri


def _add_sensors(view: View, uri: str, sensors: Sequence[Reading], device: str | None) -> None:
    def metrics() -> Body:
        body: Body = {'Id': 'EnvironmentMetrics', 'Name': 'Environment Metrics'}
        for sensor in sensors:
            link = {'DataSourceUri': f'{uri}/Sensors/{sensor.id}', 'Reading': sensor.reading}
            if sensor.kind == 'Temperature' and 'TemperatureCelsius' not in body:
                body['TemperatureCelsius'] = link
            if sensor.kind == 'Power' and 'PowerWatts' not in body:
                body['PowerWatts'] = link
        return body

    view.tree.add(
        collection(f'{uri}/Sensors', 'Sensor', [f'{uri}/Sensors/{one.id}' for one in sensors], device=device),
        Resource(
            uri=f'{uri}/EnvironmentMetrics',
            type='#EnvironmentMetrics.v1_4_0.EnvironmentMetrics',
            render=metrics,
            device=device,
        ),
        *(Resource(uri=f'{uri}/Sensors/{one.id}', type=SENSOR, render=_sensor(one), device=device) for one in sensors),
    )


def _sensor(sensor: Reading) -> Callable[[], Body]:
    return lambda: {
        'Id': sensor.id,
        'Name': sensor.id.replace('_', ' '),
        'ReadingType': sensor.kind,
        'ReadingUnits': sensor.units,
        'Reading': sensor.reading,
        'PhysicalContext': sensor.context,
        'Status': status(),
    }


def add_power(view: View, chassis: str, *, supplies: int, watts: int, manufacturer: str) -> None:
    """Add a PowerSubsystem with its power supplies, and the collection of Controls, which is empty."""
    base = f'{chassis}/PowerSubsystem'
    uris = [f'{base}/PowerSupplies/{number}' for number in range(supplies)]

    def supply(number: int) -> Callable[[], Body]:
        return lambda: {
            'Id': str(number),
            'Name': f'Power Supply {number}',
            'PowerSupplyType': 'AC',
            'Manufacturer': manufacturer,
            'Model': f'PSU-{watts}',
            'SerialNumber': f'PS{watts}{number:04}',
            'PartNumber': f'PSU-{watts}-A',
            'PowerCapacityWatts': watts,
            'LineInputStatus': 'Normal',
            'HotPluggable': True,
            'Status': status(),
        }

    view.tree.add(
        Resource(
            uri=base,
            type='#PowerSubsystem.v1_1_3.PowerSubsystem',
            render=lambda: {
                'Id': 'PowerSubsystem',
                'Name': 'Power Subsystem',
                'CapacityWatts': supplies * watts,
                'PowerSupplies': ref(f'{base}/PowerSupplies'),
                'Status': status(),
            },
        ),
        collection(f'{base}/PowerSupplies', 'PowerSupply', uris),
        collection(f'{chassis}/Controls', 'Control', []),
        *(Resource(uri=uri, type='#PowerSupply.v1_6_0.PowerSupply', render=supply(number)) for number, uri in enumerate(uris)),
    )


def add_cooling(view: View, chassis: str, *, fans: int) -> None:
    """Add a ThermalSubsystem with its fans and metrics."""
    base = f'{chassis}/ThermalSubsystem'
    uris = [f'{base}/Fans/{number}' for number in range(fans)]

    def fan(number: int) -> Callable[[], Body]:
        return lambda: {
            'Id': str(number),
            'Name': f'Fan {number}',
            'PhysicalContext': 'Fan',
            'HotPluggable': True,
            'SpeedPercent': {'Reading': 35.0, 'SpeedRPM': 5400.0},
            'Status': status(),
        }

    view.tree.add(
        Resource(
            uri=base,
            type='#ThermalSubsystem.v1_3_3.ThermalSubsystem',
            render=lambda: {
                'Id': 'ThermalSubsystem',
                'Name': 'Thermal Subsystem',
                'Fans': ref(f'{base}/Fans'),
                'ThermalMetrics': ref(f'{base}/ThermalMetrics'),
                'Status': status(),
            },
        ),
        collection(f'{base}/Fans', 'Fan', uris),
        *(Resource(uri=uri, type='#Fan.v1_5_2.Fan', render=fan(number)) for number, uri in enumerate(uris)),
        Resource(
            uri=f'{base}/ThermalMetrics',
            type='#ThermalMetrics.v1_3_2.ThermalMetrics',
            render=lambda: {
                'Id': 'ThermalMetrics',
                'Name': 'Thermal Metrics',
                'TemperatureSummaryCelsius': {'Internal': {'Reading': 39.0}, 'Intake': {'Reading': 24.8}},
            },
        ),
    )


def add_network_adapter(
    view: View,
    chassis: str,
    name: str,
    *,
    manufacturer: str,
    macs: Sequence[str],
    component: str | None = None,
    model: str | None = None,
    serial: str | None = None,
    part_number: str | None = None,
    device: str | None = None,
    oem: Callable[[], Body] | None = None,
    sriov: str | None = None,
) -> None:
    """Add a NetworkAdapter with a port and a function for each MAC address.

    :param sriov: key of the setting that enables virtual functions, which is written into the Settings of the adapter.
    """
    uri = f'{chassis}/NetworkAdapters/{name}'
    ports = [f'{uri}/Ports/{number}' for number in range(len(macs))]
    functions = [f'{uri}/NetworkDeviceFunctions/{number}' for number in range(len(macs))]

    def render() -> Body:
        controller: Body = {
            'Links': {'Ports': refs(ports), 'NetworkDeviceFunctions': refs(functions)},
            'ControllerCapabilities': {'NetworkPortCount': len(macs), 'NetworkDeviceFunctionCount': len(macs)},
        }
        if sriov is not None:
            controller['ControllerCapabilities'] |= virtualization(view.machine.shown_in_force(sriov))
        if component is not None:
            controller['FirmwarePackageVersion'] = view.machine.shown_version(component)
        body: Body = {
            'Id': name,
            'Name': name,
            'Manufacturer': manufacturer,
            'Controllers': [controller],
            'Ports': ref(f'{uri}/Ports'),
            'NetworkDeviceFunctions': ref(f'{uri}/NetworkDeviceFunctions'),
            'Status': status(),
        }
        given = {'Model': model, 'SerialNumber': serial, 'PartNumber': part_number}
        if oem is not None:
            body['Oem'] = oem()
        if sriov is not None:
            body['@Redfish.Settings'] = {'@odata.type': '#Settings.v1_4_0.Settings', 'SettingsObject': ref(f'{uri}/Settings')}
        return body | {key: value for key, value in given.items() if value is not None}

    def port(number: int) -> Callable[[], Body]:
        return lambda: {
            'Id': str(number),
            'Name': f'Port {number}',
            'PortId': str(number),
            'LinkStatus': 'LinkUp',
            'LinkState': 'Enabled',
            'CurrentSpeedGbps': 100,
            'LinkNetworkTechnology': 'Ethernet',
            'Ethernet': {'AssociatedMACAddresses': [macs[number]]},
            'Status': status(),
        }

    def function(number: int) -> Callable[[], Body]:
        return lambda: {
            'Id': str(number),
            'Name': f'Function {number}',
            'NetDevFuncType': 'Ethernet',
            'NetDevFuncCapabilities': ['Ethernet'],
            'DeviceEnabled': True,
            'Ethernet': {'MACAddress': macs[number], 'PermanentMACAddress': macs[number], 'MTUSize': 1500},
            'AssignablePhysicalNetworkPorts': refs([ports[number]]),
            'Status': status(),
            **({} if sriov is None else {'VirtualFunctionsEnabled': view.machine.shown_in_force(sriov)}),
        }

    def virtualization(enabled: object) -> Body:
        return {'VirtualizationOffload': {'SRIOV': {'SRIOVVEPACapable': True, 'SRIOVEnabled': enabled}}}

    view.tree.add(
        Resource(uri=uri, type='#NetworkAdapter.v1_12_0.NetworkAdapter', render=render, device=device),
        collection(f'{uri}/Ports', 'Port', ports, device=device),
        collection(f'{uri}/NetworkDeviceFunctions', 'NetworkDeviceFunction', functions, device=device),
    )
    if sriov is not None:
        key = sriov
        writable = {'SRIOVEnabled': view.setting(key, (bool,))}
        view.tree.add(
            Resource(
                uri=f'{uri}/Settings',
                type='#NetworkAdapter.v1_12_0.NetworkAdapter',
                render=lambda: {
                    'Id': 'Settings',
                    'Name': f'{name} Settings',
                    'Controllers': [{'ControllerCapabilities': virtualization(view.machine.shown(key))}],
                },
                writable=lambda: {'Controllers': ({'ControllerCapabilities': {'VirtualizationOffload': {'SRIOV': writable}}},)},
                device=device,
            )
        )
    for number in range(len(macs)):
        view.tree.add(
            Resource(uri=ports[number], type='#Port.v1_15_0.Port', render=port(number), device=device),
            Resource(
                uri=functions[number],
                type='#NetworkDeviceFunction.v1_10_0.NetworkDeviceFunction',
                render=function(number),
                device=device,
            ),
        )
