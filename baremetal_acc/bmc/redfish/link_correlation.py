# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Join the Redfish resources of one physical device by their links, and by the chassis and BMC of a card."""

from collections import Counter
from collections.abc import Iterable, Iterator

from baremetal_acc.bmc.device_ids import Devices
from baremetal_acc.bmc.redfish.device import OWN_CHASSIS, TABLES, Device, Joint, is_dpu, label_of, link_of, links_of, ordinal
from baremetal_acc.bmc.redfish.discovered_tree import DiscoveredTree
from baremetal_acc.bmc.redfish.discovery import CARRIER, Discovery
from baremetal_acc.bmc.redfish.parse import ResourceView, absent, last, parent, serial_of, uuid_of
from baremetal_acc.bmc.redfish.tree_reader import NOTHING
from baremetal_acc.model.accelerator import Kind, MergeBasis
from baremetal_acc.model.inventory import Gap

NO_DEVICE = frozenset({'CPU', 'Core', 'Thread', 'Partition'})
"""ProcessorTypes of no accelerator, or only of a part of one (an instance of a partitioned GPU)."""


_LINKS = frozenset({MergeBasis.LINK, MergeBasis.PCI_FUNCTIONS})
"""Reasons for a join that come from links. If such a join is refused, the BMC contradicts itself.

MergeBasis.CHASSIS is left out: nothing says that the devices in a chassis are one.
"""


class _Groups:
    """Union-find of the URIs of devices. Members of one collection, or resources that contradict each other, stay apart.

    :ivar joints: the joins and their reasons. ``refused``: links that would have joined two different devices.
    """

    def __init__(self) -> None:
        self.joints: list[Joint] = []
        self.refused: list[tuple[str, str]] = []
        self._above: dict[str, str] = {}
        self._collections: dict[str, set[str]] = {}
        self._said: dict[str, dict[str, set[str]]] = {}

    def add(self, uri: str, said: Iterable[tuple[str, set[str]]] = (), *, member: bool = True) -> None:
        """Add a URI as a group of its own.

        :param said: values that must not differ between two resources of one device.
        :param member: it is a device of its collection; a chassis or manager is not.
        """
        if uri not in self._above:
            self._above[uri] = uri
            self._collections[uri] = {parent(uri)} if member else set()
            self._said[uri] = dict(said)

    def __contains__(self, uri: str) -> bool:
        return uri in self._above

    def find(self, uri: str) -> str:
        """The representative of a URI's group."""
        above = self._above
        while above[uri] != uri:
            above[uri] = above[above[uri]]
            uri = above[uri]
        return uri

    def join(self, one: str | None, other: str | None, basis: MergeBasis = MergeBasis.LINK) -> None:
        """Join two groups, if both URIs are known and the groups are not two different devices."""
        if one is None or other is None or one not in self._above or other not in self._above:
            return
        a, b = self.find(one), self.find(other)
        if a == b:
            return
        if len(self._collections[a]) < len(self._collections[b]):
            a, b = b, a
        if not self._collections[b].isdisjoint(self._collections[a]) or self._contradict(a, b):
            if basis in _LINKS:
                self.refused.append((one, other))
            return
        self._above[b] = a
        self._collections[a] |= self._collections.pop(b)
        for name, values in self._said.pop(b).items():
            self._said[a].setdefault(name, set()).update(values)
        self.joints.append(Joint(basis, (one, other)))

    def _contradict(self, a: str, b: str) -> bool:
        return any(name in self._said[a] and self._said[a][name].isdisjoint(values) for name, values in self._said[b].items())


def join_by_links(walk: Discovery, devices: Devices) -> tuple[list[Device], list[tuple[str, str]]]:
    """A Device for each set of resources joined by links, and the refused links."""
    tree = walk.tree
    groups = _Groups()
    for name in TABLES:
        for uri, view in getattr(tree, name).items():
            if not absent(view) and _may_be_device(name, view, tree, devices):
                groups.add(uri, stated_values(name, ResourceView(view.ref, view.body, [])))
    owner = {f.ref.uri: uri for uri, functions in tree.functions.items() for f in functions}
    for uri, view in tree.processors.items():
        if uri in groups:
            groups.join(uri, link_of(walk, view, 'Links', 'PCIeDevice'))
            for link in links_of(walk, view, 'Links', 'PCIeFunctions'):
                groups.join(uri, owner.get(link))
            groups.join(uri, tree.offload.get(uri))
            groups.join(uri, link_of(walk, view, 'Links', 'GraphicsController'))
    shared: dict[str, str] = {}
    for uri, functions in tree.functions.items():
        device = tree.pcie_devices[uri]
        for link in links_of(walk, device, 'Links', 'Processors'):
            groups.join(uri, link)
        for f in functions:
            groups.join(uri, link_of(walk, f, 'Links', 'Processor'))
        # One device may be listed below Systems and below Chassis, with links to the same functions.
        for place in (*(f.ref.uri for f in functions), *links_of(walk, device, 'Links', 'PCIeFunctions')):
            groups.join(uri, shared.setdefault(place, uri), MergeBasis.PCI_FUNCTIONS)
    for uri, view in tree.adapters.items():
        for controller in view.parts('Controllers'):
            for link in links_of(walk, controller, 'Links', 'PCIeDevices') if controller is not None else ():
                groups.join(uri, link)
    for uri, view in tree.graphics.items():
        groups.join(uri, link_of(walk, view, 'Links', 'PCIeDevice'))
        for link in links_of(walk, view, 'Links', 'Processors'):
            groups.join(uri, link)
    _join_chassis(walk, groups)
    _join_card_bmcs(walk, devices, groups)
    return _built(walk, groups), groups.refused


def _may_be_device(table: str, view: ResourceView, tree: DiscoveredTree, devices: Devices) -> bool:
    """Whether a resource may be a device.

    CPUs (except a network adapter's), parts of processors, and Systems of hosts are not.
    """
    if table == 'processors':
        said = view.literal('ProcessorType')
        return said not in NO_DEVICE or (said == 'CPU' and view.ref.uri in tree.offload)
    return table != 'systems' or is_dpu(view, devices)


def _built(walk: Discovery, groups: _Groups) -> list[Device]:
    """The devices of the groups, in the order of the tree."""
    tree = walk.tree
    found: dict[str, Device] = {}
    for name in (*TABLES, 'chassis', 'managers'):
        for uri, view in getattr(tree, name).items():
            if uri in groups:
                getattr(found.setdefault(groups.find(uri), Device()), name)[uri] = view
    for uri, functions in tree.functions.items():
        if uri not in groups:
            continue
        device = found[groups.find(uri)]
        known = {f.ref for f in device.functions}
        for f in functions:
            # On a board with several processors each has functions of its own.
            processor = link_of(walk, f, 'Links', 'Processor')
            its = found[groups.find(processor)] if processor is not None and processor in groups else device
            if its is not device:
                its.functions += (f,) if f.ref not in {g.ref for g in its.functions} else ()
            elif f.ref not in known:
                known.add(f.ref)
                device.functions += (f,)
    for joint in groups.joints:
        found[groups.find(joint.uris[0])].joints.append(joint)
    for other, uri in tree.listed_again.items():
        if uri in groups:
            device = found[groups.find(uri)]
            device.extra.add(other)
            device.joints.append(Joint(MergeBasis.PCI_FUNCTIONS, (uri, other)))
    return list(found.values())


def _join_chassis(walk: Discovery, groups: _Groups) -> None:
    """Join a chassis to a device, if it is a card or module and everything in it is that one device."""
    tree = walk.tree
    residents: dict[str, dict[str, None]] = {
        uri: {} for uri, view in tree.chassis.items() if view.literal('ChassisType') in OWN_CHASSIS and not absent(view)
    }
    if not residents:
        return

    def lives(uri: str, chassis: str | None) -> None:
        if chassis in residents:
            residents[chassis][uri] = None

    for uri, view in tree.processors.items():
        if not absent(view):
            lives(uri, link_of(walk, view, 'Links', 'Chassis'))
    for table in (tree.pcie_devices, tree.adapters):
        for uri, view in table.items():
            if not absent(view):
                lives(uri, parent(parent(uri)))
    for uri, view in tree.pcie_devices.items():
        if not absent(view):
            for link in links_of(walk, view, 'Links', 'Chassis'):
                lives(uri, link)
    for uri, view in tree.systems.items():
        if uri in groups:
            for link in links_of(walk, view, 'Links', 'Chassis'):
                lives(uri, link)
    placed = _by_place(tree, residents)
    for chassis, inside in residents.items():
        if not inside or not all(uri in groups for uri in inside) or _carries(tree, chassis, inside):
            continue
        first, *others = inside
        for uri in others:
            groups.join(first, uri, MergeBasis.CHASSIS)
        if len({groups.find(uri) for uri in inside}) == 1:
            groups.add(chassis, member=False)
            groups.join(chassis, first, MergeBasis.LOCATION if chassis in placed else MergeBasis.CHASSIS)


def _by_place(tree: DiscoveredTree, residents: dict[str, dict[str, None]]) -> set[str]:
    """Put into each chassis without contents the one processor with the same location label and context, and the same number.

    :returns: these chassis.
    """
    placed: set[str] = set()
    places: dict[str, list[str]] = {}
    for uri, view in tree.processors.items():
        if (label := label_of(view)) is not None and not absent(view):
            places.setdefault(label.casefold(), []).append(uri)
    chassis = Counter(label.casefold() for uri in residents if (label := label_of(tree.chassis[uri])) is not None)
    for uri, inside in residents.items():
        label = label_of(tree.chassis[uri])
        if inside or label is None or chassis[label.casefold()] != 1:
            continue
        there = places.get(label.casefold(), [])
        if len(there) == 1 and ordinal(last(there[0])) == ordinal(last(uri)):
            inside[there[0]] = None
            placed.add(uri)
    return placed


def _carries(tree: DiscoveredTree, chassis: str, inside: Iterable[str]) -> bool:
    """Whether a chassis is not the card but what it is plugged into, such as a riser.

    A chassis whose serial number differs from that of the processor or PCIeDevice in it is another device. A network adapter
    may have another one than its card (recording dmtf/smartnic).
    """
    view = tree.chassis[chassis]
    own = serial_of(view)
    inner = [tree.processors.get(uri) or tree.pcie_devices.get(uri) for uri in inside]
    serials = {s.casefold() for v in inner if v is not None and (s := serial_of(v))}
    if own is not None and serials:
        return own.casefold() not in serials
    texts = (view.text('Id'), view.text('Name'), view.text('Model'), view.text('Description'))
    return any(CARRIER.search(text) for text in texts if text)


def _join_card_bmcs(walk: Discovery, devices: Devices, groups: _Groups) -> None:
    """Join the resources of a card with a BMC of its own: its chassis, the chassis in it, its System and its Manager."""
    tree = walk.tree
    managers: dict[str, list[str]] = {}
    for uri, view in tree.managers.items():
        chassis = link_of(walk, view, 'Links', 'ManagerInChassis')
        if chassis is not None:
            managers.setdefault(chassis, []).append(uri)
            if chassis not in tree.chassis:
                walk.gaps.append(Gap(ref=view.ref, field='Links/ManagerInChassis', reason=NOTHING, hides=True))
    contained: dict[str, list[str]] = {}
    for uri, view in tree.chassis.items():
        if (outer := link_of(walk, view, 'Links', 'ContainedBy')) is not None:
            contained.setdefault(outer, []).append(uri)
    for uri, view in tree.chassis.items():
        row = devices.by_name(view.text('Model'))
        if row is None or row.kind is not Kind.DPU or view.literal('ChassisType') not in OWN_CHASSIS:
            continue
        groups.add(uri, member=False)
        links = [*links_of(walk, view, 'Links', 'Contains'), *contained.get(uri, ())]
        inner = [link for link in dict.fromkeys(links) if link in tree.chassis]
        for link in inner:
            groups.add(link, member=False)
            groups.join(uri, link)
        for system in links_of(walk, view, 'Links', 'ComputerSystems'):
            if system in tree.systems and _is_cards_own(walk, tree.systems[system], view, {uri, *inner}):
                groups.add(system)
            groups.join(uri, system)
        for chassis in (uri, *inner):
            for manager in managers.get(chassis, ()):
                groups.add(manager, member=False)
                groups.join(uri, manager)


def _is_cards_own(walk: Discovery, system: ResourceView, card: ResourceView, chassis: set[str]) -> bool:
    """Whether a System that a card links to is the card's own: same serial number or UUID, or located only in the card.

    A card may also link to the System of the host into which it is plugged.
    """
    serial, uuid = serial_of(card), uuid_of(card, 'UUID') if card.has('UUID') else None
    if serial is not None and (own := serial_of(system)) is not None:
        return own.casefold() == serial.casefold()
    if uuid is not None and system.has('UUID') and uuid_of(system, 'UUID') == uuid:
        return True
    places = set(links_of(walk, system, 'Links', 'Chassis'))
    return bool(places) and places <= chassis


def stated_values(table: str, view: ResourceView) -> Iterator[tuple[str, set[str]]]:
    if view.has('UUID') and (uuid := uuid_of(view, 'UUID')):
        yield f'{table} UUID', {uuid}
    if serial := serial_of(view):
        yield f'{table} SerialNumber', {serial.casefold()}
