# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which resources of a BMC are needed to know its accelerators, and which of them could not be read?

Breadth first, several requests at a time. A resource that fails is a Gap; the walk goes on.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from baremetal_acc.bmc.api import Document
from baremetal_acc.bmc.quirks import Quirks
from baremetal_acc.bmc.redfish.message import short
from baremetal_acc.bmc.redfish.parse import View, absent, parent
from baremetal_acc.bmc.redfish.reader import Reader, members
from baremetal_acc.errors import BmcAnswerInvalid, BmcError, BmcRefused
from baremetal_acc.model.inventory import Gap
from baremetal_acc.model.ref import Ref

ROOT = '/redfish/v1'

MAX_TASKS = 100


@dataclass(slots=True, kw_only=True)
class Tree:
    """What was read, by URI.

    :ivar functions: PCIeFunctions by the URI of their PCIeDevice.
    :ivar acceleration: AccelerationFunctions by the URI of their Processor.
    :ivar offload: URI of the NetworkAdapter, by the URI of a Processor below it.
    :ivar items: of FirmwareInventory, then of SoftwareInventory.
    :ivar extensions: a vendor's own resources that are devices too.
    """

    gaps: list[Gap]
    root: View
    systems: dict[str, View] = field(default_factory=dict)
    chassis: dict[str, View] = field(default_factory=dict)
    managers: dict[str, View] = field(default_factory=dict)
    processors: dict[str, View] = field(default_factory=dict)
    pcie_devices: dict[str, View] = field(default_factory=dict)
    functions: dict[str, tuple[View, ...]] = field(default_factory=dict)
    adapters: dict[str, View] = field(default_factory=dict)
    interfaces: dict[str, View] = field(default_factory=dict)
    acceleration: dict[str, tuple[View, ...]] = field(default_factory=dict)
    offload: dict[str, str] = field(default_factory=dict)
    update: View | None = None
    items: dict[str, View] = field(default_factory=dict)
    extensions: dict[str, View] = field(default_factory=dict)
    tasks: list[View] = field(default_factory=list)


class Walk:
    """One walk through a BMC."""

    def __init__(self, reader: Reader, root: Document, quirks: Quirks) -> None:
        self._reader = reader
        self._quirks = quirks
        self.gaps: list[Gap] = []
        self.tree = Tree(gaps=self.gaps, root=View.of(root, self.gaps))

    def run(self) -> Tree:
        """Read everything.

        :raises BmcError: neither Systems nor Chassis could be read: that is no answer.
        """
        self._top()
        self._parts()
        self._details()
        self._extensions()
        self._updates()
        return self.tree

    def _top(self) -> None:
        tree, root = self.tree, self.tree.root
        wanted = [root.link(name) or f'{ROOT}/{name}' for name in ('Systems', 'Chassis', 'Managers')]
        errors: dict[str, BmcError] = {}
        found = self._reader.map(lambda uri: self._members(uri, errors=errors, hides=True), wanted)
        if wanted[0] in errors and wanted[1] in errors:
            raise errors[wanted[0]]
        tree.systems, tree.chassis, tree.managers = found
        # A chassis may be reached by a link alone (recordings/dmtf/smartnic, Card2).
        for _ in range(4):
            inside = [uri for view in tree.chassis.values() for uri in view.links('Links', 'Contains')]
            more = [uri for uri in dict.fromkeys(map(self.place, inside)) if uri is not None and uri not in tree.chassis]
            if not more:
                break
            tree.chassis.update(self._views(more, hides=True))

    def _parts(self) -> None:
        tree = self.tree
        collections: list[tuple[dict[str, View], str]] = []
        single: list[str] = []
        for system in tree.systems.values():
            collections += self._collection(system, 'Processors', tree.processors)
            collections += self._collection(system, 'NetworkInterfaces', tree.interfaces)
            single += system.links('PCIeDevices')
        for chassis in tree.chassis.values():
            collections += self._collection(chassis, 'PCIeDevices', tree.pcie_devices)
            collections += self._collection(chassis, 'NetworkAdapters', tree.adapters)
        for (into, _), views in zip(
            collections,
            self._reader.map(lambda c: self._members(c[1], hides=c[0] is not tree.interfaces), collections),
            strict=True,
        ):
            into.update(views)
        tree.pcie_devices.update(self._views(single, hides=True))
        linked = [uri for view in tree.interfaces.values() if (uri := view.link('Links', 'NetworkAdapter'))]
        tree.adapters.update(self._views([u for u in linked if self.place(u) not in tree.adapters], hides=True))
        linked = [uri for view in tree.processors.values() if (uri := view.link('Links', 'PCIeDevice'))]
        for adapter in tree.adapters.values():
            for controller in adapter.parts('Controllers'):
                linked += controller.links('Links', 'PCIeDevices') if controller is not None else ()
        tree.pcie_devices.update(self._views([u for u in linked if self.place(u) not in tree.pcie_devices], hides=False))
        for table in (tree.processors, tree.pcie_devices, tree.adapters):
            for uri in [uri for uri, view in table.items() if absent(view)]:
                del table[uri]

    def _details(self) -> None:
        tree = self.tree
        below = [(uri, link) for uri, view in tree.adapters.items() if (link := view.link('Processors'))]
        for (adapter, _), views in zip(below, self._reader.map(lambda b: self._members(b[1], hides=True), below), strict=True):
            tree.processors.update(views)
            tree.offload.update(dict.fromkeys(views, adapter))
        devices = list(tree.pcie_devices.values())
        for device, functions in zip(devices, self._reader.map(self._functions, devices), strict=True):
            tree.functions[device.ref.uri] = functions
        programmable = [(uri, link) for uri, view in tree.processors.items() if (link := view.link('AccelerationFunctions'))]
        found = self._reader.map(lambda p: self._members(p[1], hides=True), programmable)
        for (processor, _), views in zip(programmable, found, strict=True):
            tree.acceleration[processor] = tuple(views.values())

    def _functions(self, device: View) -> tuple[View, ...]:
        collection = device.body.get('PCIeFunctions')
        if isinstance(collection, dict):
            link = device.link('PCIeFunctions')
            return tuple(self._members(link, hides=True).values()) if link else ()
        return tuple(self._views(device.links('Links', 'PCIeFunctions'), hides=True).values())

    def _extensions(self) -> None:
        """A vendor's own resources; they tell more of devices that are known, so that nothing hides behind them."""
        tree = self.tree
        tables = {'systems': tree.systems, 'chassis': tree.chassis}
        for table, path in self._quirks.device_extensions():
            for view in tables[table].values():
                link = view.link(*path)
                if link is not None:
                    tree.extensions.update(self._members(link, hides=False))

    def _updates(self) -> None:
        """What is installed, and tasks. An item that cannot be read may be firmware that nobody protects."""
        tree, root = self.tree, self.tree.root
        link = root.link('UpdateService')
        if link is not None:
            tree.update = next(iter(self._views([link], hides=True).values()), None)
        if tree.update is not None:
            for name in ('FirmwareInventory', 'SoftwareInventory'):
                collection = tree.update.link(name)
                if collection is not None:
                    tree.items.update(self._members(collection, hides=True))
        service = root.link('Tasks') or root.link('TaskService')
        if service is not None:
            for view in self._views([service], hides=False).values():
                tasks = view.link('Tasks')
                if tasks is not None:
                    tree.tasks = list(self._members(tasks, hides=False, newest=MAX_TASKS).values())

    def _collection(self, view: View, name: str, into: dict[str, View]) -> list[tuple[dict[str, View], str]]:
        """A collection below a resource. An array of links in its place is read by :meth:`_views`."""
        if isinstance(view.body.get(name), list):
            into.update(self._views(view.links(name), hides=True))
            return []
        link = view.link(name)
        return [(into, link)] if link else []

    def _members(
        self, uri: str, *, hides: bool, errors: dict[str, BmcError] | None = None, newest: int | None = None
    ) -> dict[str, View]:
        """The members of a collection that could be read."""
        try:
            found = self._reader.collection(uri)
        except BmcError as exc:
            if errors is not None:
                errors[uri] = exc
            self.gap(uri, exc, hides=hides)
            return {}
        links = [link for member in members(found.body) if isinstance(link := member.get('@odata.id'), str)]
        if newest is not None:
            links = links[-newest:]
        return self._views(links, hides=hides)

    def _views(self, uris: Iterable[str], *, hides: bool) -> dict[str, View]:
        """The resources of URIs that could be read, by their URI, in order."""

        def read(uri: str) -> View | None:
            try:
                return View.of(self._reader.get(uri), self.gaps)
            except BmcError as exc:
                self.gap(uri, exc, hides=hides)
                return None

        found = self._reader.map(read, dict.fromkeys(uris))
        return {view.ref.uri: view for view in found if view is not None}

    def place(self, uri: str) -> str | None:
        """A URI as the tree's keys are; None when it leads off the BMC."""
        try:
            return self._reader.ref(uri).uri
        except BmcAnswerInvalid:
            return None

    def gap(self, uri: str, exc: BmcError, *, hides: bool) -> None:
        """Note what could not be read. A dangling link (404) hides nothing: nothing is there."""
        gone = isinstance(exc, BmcRefused) and exc.status == 404
        place = self.place(uri)
        ref = Ref(bmc=self._reader.name, uri=place if place is not None else short(uri))
        reason = 'a link leads to nothing (HTTP 404)' if gone else exc.what
        found = Gap(ref=ref, reason=reason, hides=hides and not gone)
        if found not in self.gaps:
            self.gaps.append(found)


def within(uri: str, outer: str) -> bool:
    """The URI is the other, or lies below it."""
    return uri == outer or uri.startswith(outer + '/')


def siblings(one: str, other: str) -> bool:
    """Two members of one collection."""
    return one != other and parent(one) == parent(other)
