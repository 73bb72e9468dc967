# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Describe a physical device of a Redfish tree as an accelerator of the inventory."""

from baremetal_acc.bmc.device_ids import Devices
from baremetal_acc.bmc.redfish import firmware
from baremetal_acc.bmc.redfish.device import Device, functions_of
from baremetal_acc.bmc.redfish.discovery import Discovery
from baremetal_acc.model.accelerator import Accelerator, IdentitySource, MergeEvidence
from baremetal_acc.model.ref import AcceleratorId, Ref


def accelerator_of(
    walk: Discovery,
    device: Device,
    items: firmware.Items,
    home: Ref | None,
    identity: tuple[AcceleratorId, IdentitySource],
    devices: Devices,
) -> Accelerator:
    """The accelerator that a device of a kind is.

    :param home: the System of the machine.
    """
    kind = device.kind
    if kind is None:
        raise AssertionError('a device without a kind is no accelerator')
    primary = device.primary
    return Accelerator(
        id=identity[0],
        kind=kind,
        identity=identity[1],
        primary=primary.ref,
        refs=tuple(sorted(Ref(bmc=primary.ref.bmc, uri=uri) for uri in device.uris())),
        vendor=device.vendor(devices),
        model=device.model(devices),
        part_number=device.part_number,
        serial=device.serial,
        uuid=device.uuid,
        location=device.location,
        pci=device.pci,
        firmware=tuple(sorted(items.components, key=lambda c: (c.id or '', c.ref))),
        slots=firmware.slots(device, items, walk),
        functions=tuple(sorted(functions_of(device, walk.tree), key=lambda f: f.ref)),
        traits=device.traits(devices),
        system=home,
        health=device.health,
        health_rollup=device.health_rollup,
        state=device.state,
        merged_by=tuple(
            sorted(
                MergeEvidence(basis=by.basis, refs=tuple(Ref(bmc=primary.ref.bmc, uri=uri) for uri in sorted(by.uris)))
                for by in device.joints
            )
        ),
    )
