# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Find a resource in the table of devices by its Model or Name."""

from baremetal_acc.bmc.device_ids import DeviceRow, Devices
from baremetal_acc.bmc.redfish.parse import ResourceView
from baremetal_acc.model.accelerator import Kind


def named_row(view: ResourceView, devices: Devices) -> DeviceRow | None:
    """The row of the table of devices for a resource's Model or Name."""
    rows = [row for name in ('Model', 'Name') if (row := devices.by_name(view.text(name))) is not None]
    return next((row for row in rows if row.kind is not None), rows[0] if rows else None)


def named_kind(view: ResourceView, devices: Devices) -> Kind | None:
    """The kind of accelerator for a resource's Model or Name."""
    row = named_row(view, devices)
    return None if row is None else row.kind
