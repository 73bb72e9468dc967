# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""PCIeDevice resources with their PCIeFunctions."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from baremetal_acc.emulator.parts import EmulatedComponent
from baremetal_acc.emulator.redfish.resource import Body, Resource, collection, ref, refs, status
from baremetal_acc.emulator.redfish.view import View


def add_pcie_device(
    view: View,
    uri: str,
    *,
    name: str,
    manufacturer: str,
    model: str,
    serial: str,
    part_number: str,
    uuid: str | None,
    functions: Sequence[Mapping[str, Any]],
    chassis: str,
    processor: str | None = None,
    component: str | None = None,
    device: str | None = None,
    lanes: int = 16,
    slot: Mapping[str, Any] | None = None,
) -> None:
    """Add a PCIeDevice, its functions, and the collection of its functions.

    :param functions: properties of each function: VendorId, DeviceId, ClassCode, DeviceClass, ...
    :param component: the component whose firmware the device runs; its staged image is shown as StagedVersion.
    """
    machine = view.machine

    def firmware() -> EmulatedComponent | None:
        return machine.components.get(component) if component is not None else None

    def render() -> Body:
        links: Body = {'Chassis': refs([chassis])}
        if processor is not None:
            links['Processors'] = refs([processor])
        body: Body = {
            'Id': uri.rsplit('/', 1)[-1],
            'Name': name,
            'DeviceType': 'MultiFunction' if len(functions) > 1 else 'SingleFunction',
            'Manufacturer': manufacturer,
            'Model': model,
            'SerialNumber': serial,
            'PartNumber': part_number,
            'PCIeInterface': {
                'PCIeType': 'Gen5',
                'MaxPCIeType': 'Gen5',
                'LanesInUse': lanes,
                'MaxLanes': lanes,
            },
            'PCIeFunctions': ref(f'{uri}/PCIeFunctions'),
            'Status': status(),
            'Links': links,
        }
        if uuid is not None:
            body['UUID'] = uuid
        if slot is not None:
            body['Slot'] = dict(slot)
        held = firmware()
        if held is not None:
            body['FirmwareVersion'] = machine.shown_version(held.key)
            if held.staged is not None:
                body['StagedVersion'] = held.staged.version
        return body

    function_uris = [f'{uri}/PCIeFunctions/{number}' for number in range(len(functions))]
    view.tree.add(
        Resource(uri=uri, type='#PCIeDevice.v1_15_0.PCIeDevice', render=render, device=device),
        collection(f'{uri}/PCIeFunctions', 'PCIeFunction', function_uris, device=device),
        *(
            Resource(
                uri=function_uri,
                type='#PCIeFunction.v1_6_0.PCIeFunction',
                render=_function(number, function, function_uri, uri, processor),
                device=device,
            )
            for number, (function, function_uri) in enumerate(zip(functions, function_uris, strict=True))
        ),
    )


def _function(number: int, given: Mapping[str, Any], uri: str, device_uri: str, processor: str | None) -> Callable[[], Body]:
    links: Body = {'PCIeDevice': ref(device_uri)}
    if processor is not None:
        links['Processor'] = ref(processor)

    def render() -> Body:
        return {
            'Id': uri.rsplit('/', 1)[-1],
            'Name': f'PCIe Function {number}',
            'FunctionId': number,
            'FunctionNumber': f'0x{number:x}',
            'FunctionType': 'Physical',
            'FunctionProtocol': 'PCIe',
            'Enabled': True,
            **given,
            'Status': status(),
            'Links': links | given.get('Links', {}),
        }

    return render
