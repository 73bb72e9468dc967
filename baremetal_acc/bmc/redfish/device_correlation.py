# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Device correlation: decide which Redfish resources (Processor, PCIeDevice, NetworkAdapter, ...) are one physical device.

Resources are joined by their links first, then by the values that they show (UUID, serial number, PCI address, location,
number), the strongest first; two members of one collection are never joined. The reason of each join is kept as evidence. See
doc/source/reference/inventory.rst. All work is near linear in the number of resources, as a hostile BMC may list thousands.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from baremetal_acc.bmc.device_ids import Devices
from baremetal_acc.bmc.redfish.device import (
    GENERIC_NAMES,
    OWN_CHASSIS,
    TABLES,
    Device,
    Joint,
    is_dpu,
    label_of,
    link_of,
    links_of,
    ordinal,
)
from baremetal_acc.bmc.redfish.discovery import CARRIER, NOTHING, DiscoveredTree, Discovery
from baremetal_acc.bmc.redfish.parse import ResourceView, absent, last, parent, serial_of, uuid_of
from baremetal_acc.model.accelerator import Kind, MergeBasis
from baremetal_acc.model.inventory import Gap

NO_DEVICE = frozenset({'CPU', 'Core', 'Thread', 'Partition'})
"""ProcessorTypes of no accelerator, or only of a part of one (an instance of a partitioned GPU)."""


def physical_devices(walk: Discovery, devices: Devices) -> list[Device]:
    """Every physical device of a tree that may be an accelerator, with its kind if it is one."""
    linked, refused = _by_links(walk, devices)
    found = _by_value(linked, walk, devices)
    _note_refused(found, refused, walk)
    return found


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


def _by_links(walk: Discovery, devices: Devices) -> tuple[list[Device], list[tuple[str, str]]]:
    """A Device for each set of resources joined by links, and the refused links."""
    tree = walk.tree
    groups = _Groups()
    for name in TABLES:
        for uri, view in getattr(tree, name).items():
            if not absent(view) and _may_be_device(name, view, tree, devices):
                groups.add(uri, _view_says(name, ResourceView(view.ref, view.body, [])))
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


def _note_refused(found: list[Device], refused: list[tuple[str, str]], walk: Discovery) -> None:
    """A gap for each refused link that would have made one accelerator of two. A board with several processors is none."""
    if not refused:
        return
    tables = (*TABLES, 'chassis', 'managers')
    owner = {uri: device for device in found for name in tables for uri in getattr(device, name)}
    for uri, link in refused:
        one, other = owner.get(uri), owner.get(link)
        if (
            one is None
            or other is None
            or one is other
            or (one.kind or other.kind) is None
            or _is_board(uri, link, one, other, walk)
        ):
            continue
        walk.gaps.append(Gap(ref=one.primary.ref, reason=_LINKED.format(uri=uri, link=link)))


def _is_board(uri: str, link: str, one: Device, other: Device, walk: Discovery) -> bool:
    """Whether the two are processors of one board, and the board links to no other processor instead."""
    both = one.collections() & other.collections()
    if not both or not both <= {parent(u) for u in one.processors}:
        return False
    card = walk.tree.pcie_devices.get(link)
    if card is None or uri not in walk.tree.processors:
        return True
    named = {*links_of(walk, card, 'Links', 'Processors')}
    named |= {p for f in walk.tree.functions.get(link, ()) if (p := link_of(walk, f, 'Links', 'Processor')) is not None}
    return not named or uri in named


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


_Key = Callable[[Device], Iterable[tuple[object, str]]]
"""A function that returns identifying values of a device, each with the URI of the resource that shows it."""


def _by_value(groups: list[Device], walk: Discovery, devices: Devices) -> list[Device]:
    """Join groups that are not linked by the values that they show, the strongest value first.

    Only if one of them is an accelerator: parts of a plain NIC need not be joined here.
    """
    for device in groups:
        device.recognise(devices)
    if not any(device.kind for device in groups):
        return groups
    for basis, (keys, trusted) in _KEYS.items():
        groups = _joined(groups, basis, keys, walk, devices, trusted=trusted)
    groups = _in_two_lists(groups, walk, devices)
    return _paired(groups, walk, devices)


def _joined(
    groups: list[Device], basis: MergeBasis, keys: _Key, walk: Discovery, devices: Devices, *, trusted: bool
) -> list[Device]:
    """Join all devices that share a value.

    :param trusted: the value identifies a device. Otherwise it is a location or number, and joins only different views of one
        kind.
    """
    buckets: dict[object, list[tuple[Device, str]]] = {}
    for device in groups:
        for name, uri in keys(device):
            buckets.setdefault(name, []).append((device, uri))
    gone: dict[int, Device] = {}
    for bucket in buckets.values():
        if len(bucket) < 2:
            continue
        saying: dict[int, tuple[Device, str]] = {}
        for device, uri in bucket:
            now = _follow(gone, device)
            saying.setdefault(id(now), (now, uri))
        alive = [device for device, _ in saying.values()]
        if len(alive) < 2 or not any(d.kind for d in alive):
            continue
        if not trusted and not _are_views_of_one(alive):
            continue
        if _are_several(alive):
            if trusted:
                walk.gaps.append(Gap(ref=alive[0].primary.ref, reason=_REPEATED.format(others=_others(alive))))
            continue
        alive[0].absorb(*alive[1:], by=Joint(basis, tuple(uri for _, uri in saying.values())))
        gone |= dict.fromkeys(map(id, alive[1:]), alive[0])
        alive[0].recognise(devices)
    return [d for d in groups if id(d) not in gone]


def _in_two_lists(groups: list[Device], walk: Discovery, devices: Devices) -> list[Device]:
    """Join a card that both a System and its Chassis list, each with functions of its own.

    The two have the same Id and the same four PCI ids, and nothing that distinguishes them. If more than two devices match, it
    is unknown which are the same: they stay apart, with a gap.
    """
    buckets: dict[object, list[Device]] = {}
    for device in groups:
        uris = [*device.pcie_devices]
        if device.kind is not None and len(uris) == 1 and (ids := _all_ids(device)):
            buckets.setdefault((last(uris[0]).casefold(), ids), []).append(device)
    gone: set[int] = set()
    _note_half_shown(groups, walk)
    for bucket in buckets.values():
        of_systems = [d for d in bucket if '/Systems/' in next(iter(d.pcie_devices))]
        of_chassis = [d for d in bucket if d not in of_systems]
        if not of_systems or not of_chassis:
            continue
        one, other = of_chassis[0], of_systems[0]
        if _are_several([other, one]):
            reason = _CONTRADICTED.format(other=one.primary.ref.uri)
            walk.gaps.append(Gap(ref=other.primary.ref, reason=reason))
            continue
        if len(bucket) > 2:
            reason = f'may be the card that {_others(bucket)} show too: they are taken for different devices'
            walk.gaps.append(Gap(ref=bucket[0].primary.ref, reason=reason, hides=True))
            continue
        one.absorb(other, by=Joint(MergeBasis.ID_AND_PCI_IDS, (next(iter(one.pcie_devices)), next(iter(other.pcie_devices)))))
        one.recognise(devices)
        gone.add(id(other))
    return [d for d in groups if id(d) not in gone]


def _note_half_shown(groups: list[Device], walk: Discovery) -> None:
    """A gap with ``hides`` for a System's card that may be one of a Chassis: same Id, but not both show all PCI ids."""
    named: dict[str, list[Device]] = {}
    for device in groups:
        if len(device.pcie_devices) == 1:
            named.setdefault(last(next(iter(device.pcie_devices))).casefold(), []).append(device)
    for same in named.values():
        of_systems = [d for d in same if '/Systems/' in next(iter(d.pcie_devices))]
        for one in of_systems:
            for other in (d for d in same if d not in of_systems):
                told = (one.kind or other.kind) is not None and not (_all_ids(one) and _all_ids(other))
                if not told or _are_several([one, other]):
                    continue
                reason = f'may be the card that {other.primary.ref.uri} shows too, and does not show all its ids: taken for two'
                walk.gaps.append(Gap(ref=one.primary.ref, reason=reason, hides=True))


def _all_ids(device: Device) -> tuple[object, ...]:
    """The four PCI ids of each function; empty if not all are shown."""
    ids = tuple((i.vendor_id, i.device_id, i.subsystem_vendor_id, i.subsystem_id) for i in device.ids)
    return ids if ids and all(all(one) for one in ids) else ()


def _are_several(alive: list[Device]) -> bool:
    """Whether devices cannot be one: two are members of one collection, or they contradict each other."""
    collections: set[str] = set()
    said: dict[str, set[str]] = {}
    for device in alive:
        mine = device.collections()
        if not collections.isdisjoint(mine):
            return True
        collections |= mine
        for name, values in _says(device):
            known = said.setdefault(name, values)
            if known is not values and known.isdisjoint(values):
                return True
            known |= values
    return False


def _says(device: Device) -> Iterator[tuple[str, set[str]]]:
    """Values that must not differ between two views of one device: PCI address; UUID and serial number by resource type."""
    for name in TABLES:
        said: dict[str, set[str]] = {}
        for view in getattr(device, name).values():
            for what, values in _view_says(name, view):
                said.setdefault(what, set()).update(values)
        yield from said.items()
    addresses = {ids.address for ids in device.ids if ids.address}
    if addresses:
        yield 'address', addresses


def _view_says(table: str, view: ResourceView) -> Iterator[tuple[str, set[str]]]:
    if view.has('UUID') and (uuid := uuid_of(view, 'UUID')):
        yield f'{table} UUID', {uuid}
    if serial := serial_of(view):
        yield f'{table} SerialNumber', {serial.casefold()}


def _are_views_of_one(alive: list[Device]) -> bool:
    """Whether devices are of one kind, and no two of them have the same type of resource."""
    tables = [name for device in alive for name in TABLES if getattr(device, name)]
    return len(set(tables)) == len(tables) and len({device.kind for device in alive}) == 1


def _paired(groups: list[Device], walk: Discovery, devices: Devices) -> list[Device]:
    """Pair cards without identity with the processors or adapters of their kind, in their order, if there are as many of each.

    A BMC that links nothing and shows nothing to tell its cards apart still has each of them once. Which processor is which
    card is a guess, and a gap says so. If the device already has a card, only the URIs of such a card are added, as the list of
    PCIe devices that a BIOS passes to a BMC may be in any order.
    """
    kinds: dict[tuple[object, object], tuple[list[Device], list[Device], list[Device]]] = {}
    for device in groups:
        if device.kind is None or device.systems:
            continue
        product = device.row.model if device.row is not None and device.row.model else device.vendor(devices)
        bare, whole, cards = kinds.setdefault((device.kind, (product or '').casefold()), ([], [], []))
        if device.pcie_devices and not device.processors and not device.adapters:
            cards.append(device)
        elif device.pcie_devices or device.functions:
            whole.append(device)
        else:
            bare.append(device)
    gone: set[int] = set()
    for bare, whole, cards in kinds.values():
        known = bare or whole
        if not cards or len(known) != len(cards) or (bare and whole) or _mixed(cards) or (bare and _mixed(bare)):
            continue
        if any(_differ(k, c) for k, c in zip(known, cards, strict=True)) or (whole and not _same_products(whole, cards)):
            continue
        for device, card in zip(known, cards, strict=True):
            walk.gaps.append(Gap(ref=device.primary.ref, reason=_GUESSED.format(card=card.primary.ref.uri)))
            by = Joint(MergeBasis.ORDER, (device.primary.ref.uri, card.primary.ref.uri))
            if bare:
                device.absorb(card, by=by)
                device.recognise(devices)
            else:
                device.joints += [by, *card.joints]
                device.extra |= {*card.uris(), *(f.ref.uri for f in card.functions)}
            gone.add(id(card))
    return [d for d in groups if id(d) not in gone]


def _same_products(whole: list[Device], cards: list[Device]) -> bool:
    """Whether cards have no identity and the same PCI ids as the devices, and no device has a PCI address."""
    if any(card.serial or card.uuid for card in cards):
        return False
    ids = [{(i.vendor_id, i.device_id) for i in d.ids if i.vendor_id} for d in whole]
    theirs = {(i.vendor_id, i.device_id) for d in cards for i in d.ids if i.vendor_id}
    return all(not known or known & theirs for known in ids) and not any(i.address for d in whole for i in d.ids)


def _mixed(devices: list[Device]) -> bool:
    """Whether devices are members of several collections."""
    return len({parent(d.primary.ref.uri) for d in devices}) > 1


def _differ(one: Device, other: Device) -> bool:
    """Whether two devices are members of one collection, or have different serial numbers."""
    return not one.collections().isdisjoint(other.collections()) or bool(
        one.serial and other.serial and one.serial.casefold() != other.serial.casefold()
    )


_REPEATED = 'UUID or serial number is that of {others} too: they are taken for different devices'

_LINKED = 'the BMC contradicts itself: a link makes one device of {uri} and {link}, which are two: taken for different devices'

_CONTRADICTED = (
    'has Id and PCI ids of {other}, and another UUID, serial number or PCI address: they are taken for different devices'
)

_GUESSED = 'nothing says which card it is: taken for {card} by their order'


def _others(devices: list[Device]) -> str:
    return ', '.join(d.primary.ref.uri for d in devices[1:4])


def _follow(gone: dict[int, Device], device: Device) -> Device:
    while id(device) in gone:
        device = gone[id(device)]
    return device


def _uuids(device: Device) -> Iterable[tuple[object, str]]:
    return [(u, view.ref.uri) for view in device.views if view.has('UUID') and (u := uuid_of(view, 'UUID'))]


def _serials(device: Device) -> Iterable[tuple[object, str]]:
    """The serial number with each text that names the product, and with the kind."""
    found: list[tuple[object, str]] = []
    for view in device.views:
        serial = serial_of(view)
        if serial is not None:
            texts = (view.text('PartNumber'), view.text('Model'), view.text('Name'))
            known = {t.casefold() for t in texts if t}
            found += [((serial.casefold(), t), view.ref.uri) for t in sorted(known - GENERIC_NAMES)]
            if device.kind is not None:
                found.append(((serial.casefold(), device.kind), view.ref.uri))
    return found


def _addresses(device: Device) -> Iterable[tuple[object, str]]:
    """The PCI address with the PCI ids, as only one card is at an address."""
    return [
        ((i.address, i.vendor_id, i.device_id), f.ref.uri)
        for f, i in zip(device.functions, device.ids, strict=True)
        if i.address and i.vendor_id and i.device_id
    ]


def _labels(device: Device) -> Iterable[tuple[object, str]]:
    """The location label."""
    label = device.location if device.kind is not None else None
    return () if label is None else ((label.casefold(), device.primary.ref.uri),)


def _ordinals(device: Device) -> Iterable[tuple[object, str]]:
    """Kind and number in its Ids."""
    if device.kind is None:
        return ()
    uris = [uri for name in ('processors', 'pcie_devices', 'graphics') for uri in getattr(device, name)]
    return [(key, uri) for uri in uris if (key := ordinal(last(uri))) is not None]


_KEYS: dict[MergeBasis, tuple[_Key, bool]] = {
    MergeBasis.UUID: (_uuids, True),
    MergeBasis.SERIAL: (_serials, True),
    MergeBasis.PCI_ADDRESS: (_addresses, True),
    MergeBasis.LOCATION: (_labels, False),
    MergeBasis.NUMBER: (_ordinals, False),
}
"""Values that may join devices, the strongest first, and whether each identifies a device."""
