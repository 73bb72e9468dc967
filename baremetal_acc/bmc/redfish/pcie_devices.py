# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Discovery of PCIeDevices and their functions, also those that a System and a chassis both list."""

from collections.abc import Callable

from baremetal_acc.bmc.device_ids import Devices
from baremetal_acc.bmc.redfish.device_rows import named_kind, named_row
from baremetal_acc.bmc.redfish.parse import ResourceView, absent, last, parent
from baremetal_acc.bmc.redfish.pcie_function import COMPUTES, base_class, pci_ids
from baremetal_acc.bmc.redfish.read_ahead import ReadAhead
from baremetal_acc.bmc.redfish.tree_reader import RANK_DEEP, ReadStage, TreeReader
from baremetal_acc.model.accelerator import Kind

NETWORKED = frozenset({Kind.DPU, Kind.NIC, Kind.FPGA})
"""Accelerators that may also be network adapters."""


class PcieDevices:
    """Reads PCIeDevices and their functions, as few times as possible where a System and a chassis list the same devices.

    :ivar array: URIs of devices that a System lists one by one.
    :ivar named_by_chassis: ends when it is known which devices collections of chassis list.
    :ivar shown: ends when those were read.
    """

    def __init__(self, reads: TreeReader, devices: Devices, ahead: ReadAhead, networked: Callable[[], None]) -> None:
        """Begin; nothing is read.

        :param networked: called when a function is that of an accelerator that may also be a network adapter.
        """
        self._reads = reads
        self._tree = reads.tree
        self._devices = devices
        self._ahead = ahead
        self._networked = networked
        self.array: list[str] = []
        self.named_by_chassis = ReadStage(self._devices_of_arrays)
        self.shown = ReadStage(self._devices_listed_again)
        self._waiting: list[str] = []
        self._twice: set[str] = set()
        self._by_device: tuple[int, dict[str, frozenset[str]]] = (0, {})

    def device(self, view: ResourceView) -> None:
        """Read the functions of a device."""
        named = named_row(view, self._devices)
        if absent(view) or (named is not None and named.kind is None):
            return
        if named is not None:
            self._ahead.follow_leads()
        found: dict[str, ResourceView] = {}
        self._tree.function_tables[view.ref.uri] = found
        listed: tuple[str, ...] = ()
        if isinstance(view.body.get('PCIeFunctions'), dict):
            link = view.link('PCIeFunctions')
            listed = () if self._reads.expansion.expands else self._functions_listed(view)
            if link is not None and not listed:
                self._reads.members(link, found, self._function, hides=True, rank=RANK_DEEP)
        else:
            listed = view.links('Links', 'PCIeFunctions')
        self._reads.each(listed, found, self._function, hides=True, rank=RANK_DEEP)

    def _functions_listed(self, device: ResourceView) -> tuple[str, ...]:
        """All functions of a device, if the device or its System lists them: this saves the request for their collection.

        Empty if the list may be incomplete: the lists differ, a MultiFunction device has one function, or a function lies
        elsewhere.
        """
        uri = device.ref.uri
        quiet = ResourceView(device.ref, device.body, [])
        own = quiet.links('Links', 'PCIeFunctions')
        mine = {place for link in own if (place := self._reads.place(link)) is not None}
        of_system = self._functions_of_systems().get(uri, frozenset())
        found = mine or of_system
        links = quiet.part('Links')
        count = links.body.get('PCIeFunctions@odata.count') if links is not None else None
        if (mine and of_system and mine != of_system) or (mine and isinstance(count, int) and count != len(own)):
            return ()
        if len(found) == 1 and quiet.literal('DeviceType') == 'MultiFunction':
            return ()
        return tuple(sorted(found)) if all(device_of(place) == uri for place in found) else ()

    def _functions_of_systems(self) -> dict[str, frozenset[str]]:
        """The PCIeFunctions that Systems list, by the URI of their PCIeDevice."""
        if self._by_device[0] != len(self._tree.systems):
            found: dict[str, set[str]] = {}
            for system in self._tree.systems.values():
                quiet = ResourceView(system.ref, system.body, [])
                links = quiet.links('PCIeFunctions') if isinstance(system.body.get('PCIeFunctions'), list) else ()
                for place in filter(None, map(self._reads.place, links)):
                    device = device_of(place)
                    if device is not None:
                        found.setdefault(device, set()).add(place)
            self._by_device = (len(self._tree.systems), {uri: frozenset(places) for uri, places in found.items()})
        return self._by_device[1]

    def _function(self, view: ResourceView) -> None:
        ids = pci_ids(view)
        row = self._devices.by_pci(ids.vendor_id, ids.device_id, display=False)
        if row is not None and row.kind in NETWORKED:
            self._networked()
        if self._ahead.leads and self._may_compute(view):
            self._ahead.follow_leads()
        device = device_of(view.ref.uri)
        if device is not None and device in self._twice:
            self._functions_again(device)

    def _devices_of_arrays(self) -> None:
        """Read PCIeDevices that a System lists one by one, except those that a collection of a chassis lists too.

        Devices with the same Id as one of a chassis may be that device: they wait until it was read.
        """
        links = [uri for uri in self.array if parent(self._reads.place(uri) or uri) not in self._reads.offered]
        ids = {last(uri).casefold() for uri in self._reads.listed if parent(uri) in self._reads.offered}
        self._waiting = [uri for uri in links if last(self._reads.place(uri) or uri).casefold() in ids]
        waiting = set(self._waiting)
        self._reads.each((uri for uri in links if uri not in waiting), self._tree.pcie_devices, self.device, hides=True)
        self.shown.end()

    def _devices_listed_again(self) -> None:
        """Note devices that both a System and a chassis list: the functions of the chassis's are below the System's.

        They are not read again. Seen: recordings dell/r750-h100-bluefield2, where all are listed twice.
        """
        waiting, self._waiting = self._waiting, []
        places = {place for uri in waiting if (place := self._reads.place(uri)) is not None}
        claims: dict[str, list[str]] = {}
        for uri, view in self._tree.pcie_devices.items():
            functions = ResourceView(view.ref, view.body, []).links('Links', 'PCIeFunctions')
            above = {device and self._reads.place(device) for device in map(device_of, functions)}
            if len(above) == 1 and (other := above.pop()) is not None and other in places and _same_id(uri, other):
                claims.setdefault(other, []).append(uri)
        for other, mine in claims.items():
            if len(mine) == 1 and (id(self._tree.pcie_devices), other) not in self._reads.seen:
                self._tree.listed_again[other] = mine[0]
                self._twice.add(mine[0])
                self._reads.table.means(other, mine[0])
        for device in sorted(self._twice):
            self._functions_again(device)
        self._reads.each(waiting, self._tree.pcie_devices, self.device, hides=True)

    def _functions_again(self, device: str) -> None:
        """Read the functions of a device below its second URI if it may be an accelerator, as more may be listed there."""
        found, view = self._tree.function_tables.get(device), self._tree.pcie_devices[device]
        if found is not None and (named_kind(view, self._devices) is not None or any(map(self._may_compute, found.values()))):
            self._reads.each(view.links('Links', 'PCIeFunctions'), found, hides=True, rank=RANK_DEEP)

    def _may_compute(self, function: ResourceView) -> bool:
        ids = pci_ids(function)
        row = self._devices.by_pci(ids.vendor_id, ids.device_id, display=True)
        return row.kind is not None if row is not None else base_class(function) in COMPUTES


def device_of(function: str) -> str | None:
    """The URI of the PCIeDevice above a PCIeFunction, if the URI shows it. Source: DSP2043 2025.4, PCIeFunction, URIs."""
    head, mark, tail = function.rstrip('/').rpartition('/PCIeFunctions/')
    # Some BMCs list functions directly below a System, which is not a PCIeDevice (seen: Lenovo XCC).
    return head if mark and '/' not in tail and parent(head).endswith('/PCIeDevices') else None


def _same_id(one: str, other: str) -> bool:
    return one != other and last(one).casefold() == last(other).casefold()
