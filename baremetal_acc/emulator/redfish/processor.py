# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Processor resources: CPUs, GPUs, and FPGAs with their reconfiguration slots and acceleration functions.

Source: DSP8010 Processor v1_20, AccelerationFunction v1_0.
"""

import uuid as uuids
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from baremetal_acc.emulator.machine import Machine
from baremetal_acc.emulator.redfish.resource import Body, Resource, Writables, collection, ref, refs, status
from baremetal_acc.emulator.redfish.view import View

PROCESSOR = '#Processor.v1_20_0.Processor'


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatedSlot:
    """A reconfiguration slot: its SlotId, the component that holds its function, and its lock."""

    slot_id: str
    uuid: str
    component: str
    lock: str


def add_processor(
    view: View,
    uri: str,
    *,
    kind: str,
    name: str,
    manufacturer: str,
    model: str,
    serial: str,
    part_number: str,
    uuid: str | None,
    chassis: str,
    properties: Mapping[str, Any] | None = None,
    component: str | None = None,
    pcie_device: str | None = None,
    pcie_functions: Sequence[str] = (),
    device: str | None = None,
    fpga: Callable[[], Body] | None = None,
    writable: Callable[[], Writables] | None = None,
    is_host_powered: bool = True,
    oem: Callable[[], Body] | None = None,
    memory_mib: int | None = None,
    watts: float | None = None,
) -> None:
    """Add a Processor with its metrics and environment metrics. ``fpga`` renders the FPGA object of an FPGA."""
    machine = view.machine

    def render() -> Body:
        links: Body = {'Chassis': ref(chassis)}
        if pcie_device is not None:
            links['PCIeDevice'] = ref(pcie_device)
            links['PCIeFunctions'] = refs(pcie_functions)
        body: Body = {
            'Id': uri.rsplit('/', 1)[-1],
            'Name': name,
            'ProcessorType': kind,
            'Manufacturer': manufacturer,
            'Model': model,
            'SerialNumber': serial,
            'PartNumber': part_number,
            'Status': status(),
            'Links': links,
            **(properties or {}),
        }
        if uuid is not None:
            body['UUID'] = uuid
        if component is not None:
            body['FirmwareVersion'] = machine.shown_version(component)
        if memory_mib is not None:
            body['MemorySummary'] = {'TotalMemorySizeMiB': memory_mib, 'ECCModeEnabled': True}
        if watts is not None:
            body['EnvironmentMetrics'] = ref(f'{uri}/EnvironmentMetrics')
            body['Metrics'] = ref(f'{uri}/ProcessorMetrics')
        if fpga is not None:
            body['FPGA'] = fpga()
            body['AccelerationFunctions'] = ref(f'{uri}/AccelerationFunctions')
        if oem is not None:
            body['Oem'] = oem()
        return body

    view.tree.add(Resource(uri=uri, type=PROCESSOR, render=render, writable=writable, device=device))
    view.tree.join(uri.rsplit('/', 1)[0], uri)
    if watts is not None:
        view.tree.add(
            Resource(
                uri=f'{uri}/EnvironmentMetrics',
                type='#EnvironmentMetrics.v1_4_0.EnvironmentMetrics',
                render=lambda: {
                    'Id': 'EnvironmentMetrics',
                    'Name': f'{name} Environment Metrics',
                    'TemperatureCelsius': {'Reading': 41.0},
                    'PowerWatts': {'Reading': watts},
                },
                device=device,
            ),
            Resource(
                uri=f'{uri}/ProcessorMetrics',
                type='#ProcessorMetrics.v1_6_2.ProcessorMetrics',
                render=lambda: {
                    'Id': 'ProcessorMetrics',
                    'Name': f'{name} Metrics',
                    'BandwidthPercent': 0.0,
                    'OperatingSpeedMHz': 345,
                    'CoreVoltage': {'Reading': 0.7},
                },
                device=device,
            ),
        )


def fpga_body(
    view: View,
    uri: str,
    slots: Sequence[EmulatedSlot],
    *,
    lock: str,
    firmware_id: str,
    manufacturer: str,
    model: str,
) -> Callable[[], Body]:
    """Return a function that renders the FPGA object. An empty slot has no AccelerationFunction."""
    machine = view.machine

    def render() -> Body:
        return {
            'FpgaType': 'Discrete',
            'Model': model,
            'FirmwareId': firmware_id,
            'FirmwareManufacturer': manufacturer,
            'ExternalInterfaces': [{'InterfaceType': 'Ethernet', 'Ethernet': {'MaxSpeedMbps': 100000, 'MaxLanes': 4}}],
            'PCIeVirtualFunctions': 0,
            'ProgrammableFromHost': machine.shown(lock),
            'ReconfigurationSlots': [_slot(machine, uri, slot) for slot in slots],
        }

    return render


def _slot(machine: Machine, uri: str, slot: EmulatedSlot) -> Body:
    shown: Body = {'SlotId': slot.slot_id, 'UUID': slot.uuid, 'ProgrammableFromHost': machine.shown(slot.lock)}
    if machine.components[slot.component].active is not None:
        shown['AccelerationFunction'] = ref(f'{uri}/AccelerationFunctions/{slot.slot_id}')
    return shown


def fpga_writable(view: View, slots: Sequence[EmulatedSlot], *, lock: str) -> Callable[[], Writables]:
    """The writable properties of the FPGA: its lock, and the lock of each slot."""
    return lambda: {
        'FPGA': {
            'ProgrammableFromHost': view.setting(lock, (bool,)),
            'ReconfigurationSlots': tuple({'ProgrammableFromHost': view.setting(slot.lock, (bool,))} for slot in slots),
        }
    }


def add_acceleration_functions(
    view: View, uri: str, slots: Sequence[EmulatedSlot], *, manufacturer: str, device: str | None = None
) -> None:
    """Add the collection of an FPGA's functions: one resource for each slot that holds a function."""
    machine = view.machine
    base = f'{uri}/AccelerationFunctions'

    def held() -> list[EmulatedSlot]:
        return [slot for slot in slots if machine.components[slot.component].active is not None]

    def functions() -> Iterable[Resource]:
        return [_function(view, base, slot, manufacturer, device) for slot in held()]

    view.tree.add(
        collection(base, 'AccelerationFunction', lambda: [f'{base}/{slot.slot_id}' for slot in held()], device=device)
    )
    view.tree.add_source(functions)


def _function(view: View, base: str, slot: EmulatedSlot, manufacturer: str, device: str | None) -> Resource:
    machine = view.machine

    def render() -> Body:
        bank = machine.components[slot.component].active
        if bank is None:
            return {'Id': slot.slot_id, 'Name': slot.slot_id}
        fallback = str(uuids.uuid5(uuids.NAMESPACE_URL, f'{slot.uuid}/{bank.version}'))
        return {
            'Id': slot.slot_id,
            'Name': bank.function or 'Acceleration Function',
            'Description': f'The function in {slot.slot_id}',
            'AccelerationFunctionType': bank.function_type or 'OEM',
            'FpgaReconfigurationSlots': [slot.slot_id],
            'Manufacturer': manufacturer,
            'Version': machine.shown_version(slot.component),
            'UUID': bank.function_uuid or fallback,
            'PowerWatts': 15,
            'Status': status(),
        }

    return Resource(
        uri=f'{base}/{slot.slot_id}',
        type='#AccelerationFunction.v1_0_5.AccelerationFunction',
        render=render,
        device=device,
    )
