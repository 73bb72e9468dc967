# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The resources that discovery has read, and which of its Systems and Managers are the machine's."""

from dataclasses import dataclass, field

from baremetal_acc.bmc.redfish.parse import ResourceView
from baremetal_acc.bmc.redfish.system import resettable
from baremetal_acc.model.inventory import Gap


@dataclass(slots=True, kw_only=True)
class DiscoveredTree:
    """The resources that discovery has read, by URI.

    :ivar gaps: what could not be read, or is malformed.
    :ivar root: the service root.
    :ivar functions: PCIeFunctions by the URI of their PCIeDevice; ``function_tables`` while they are being read.
    :ivar acceleration: AccelerationFunctions by the URI of their Processor; ``acceleration_tables`` while they are being read.
    :ivar graphics: GraphicsControllers of Systems.
    :ivar offload: URI of the NetworkAdapter, by the URI of a Processor below it.
    :ivar update: the UpdateService.
    :ivar items: members of FirmwareInventory and SoftwareInventory.
    :ivar absent: Processors, PCIeDevices and NetworkAdapters whose Status.State is Absent.
    :ivar extensions: OEM resources of devices; ``instances`` OEM resources that show which PCI functions these are.
    :ivar listed_again: second URIs under which a System lists a device of ``pcie_devices``, with the device's own URI.
    """

    gaps: list[Gap]
    root: ResourceView
    systems: dict[str, ResourceView] = field(default_factory=dict)
    chassis: dict[str, ResourceView] = field(default_factory=dict)
    managers: dict[str, ResourceView] = field(default_factory=dict)
    processors: dict[str, ResourceView] = field(default_factory=dict)
    pcie_devices: dict[str, ResourceView] = field(default_factory=dict)
    functions: dict[str, tuple[ResourceView, ...]] = field(default_factory=dict)
    adapters: dict[str, ResourceView] = field(default_factory=dict)
    interfaces: dict[str, ResourceView] = field(default_factory=dict)
    graphics: dict[str, ResourceView] = field(default_factory=dict)
    function_tables: dict[str, dict[str, ResourceView]] = field(default_factory=dict)
    acceleration_tables: dict[str, dict[str, ResourceView]] = field(default_factory=dict)
    acceleration: dict[str, tuple[ResourceView, ...]] = field(default_factory=dict)
    offload: dict[str, str] = field(default_factory=dict)
    update: ResourceView | None = None
    items: dict[str, ResourceView] = field(default_factory=dict)
    absent: dict[str, ResourceView] = field(default_factory=dict)
    extensions: dict[str, ResourceView] = field(default_factory=dict)
    instances: dict[str, ResourceView] = field(default_factory=dict)
    listed_again: dict[str, str] = field(default_factory=dict)


def handed_out(tree: DiscoveredTree) -> list[ResourceView]:
    """The Systems that may be a machine for a tenant: of several, those that can be reset and are no card's own."""
    found = list(tree.systems.values())
    for narrower in (lambda v: v.literal('SystemType') in (None, 'Physical', 'Composed'), resettable):
        if len(found) > 1:
            found = [view for view in found if narrower(view)]
    return found


def own_manager(root: ResourceView, home: ResourceView | None) -> str | None:
    """The URI of the Manager that we talk to: ManagerProvidingService, else the only Manager that manages the System."""
    links = ResourceView(root.ref, root.body, []).links('Links', 'ManagerProvidingService')
    if not links and home is not None:
        links = ResourceView(home.ref, home.body, []).links('Links', 'ManagedBy')
    return links[0] if len(links) == 1 else None


def within(uri: str, outer: str) -> bool:
    """Whether a URI is another one, or below it."""
    return uri == outer or uri.startswith(outer + '/')
