# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Discovery: walk a BMC's Redfish tree and read the resources that an accelerator inventory needs; what fails becomes a gap.

Several requests are sent at a time, those from which most follows first. The walk continues when a resource cannot be read.
"""

import functools
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from baremetal_acc.bmc.device_ids import DeviceRow, Devices
from baremetal_acc.bmc.driver import CardLead, Document, JsonObject, Lead, NotReadYet
from baremetal_acc.bmc.quirks import Quirks
from baremetal_acc.bmc.redfish import standby
from baremetal_acc.bmc.redfish.extended_info import short
from baremetal_acc.bmc.redfish.parse import COMPUTES, Gaps, ResourceView, absent, base_class, last, parent, pci_ids, serial_of
from baremetal_acc.bmc.redfish.reader import Found, RedfishReader, SoFar, identity_of, link_of, members, resource_type
from baremetal_acc.bmc.redfish.system import action_info, resettable
from baremetal_acc.errors import BmcAnswerInvalid, BmcError, is_not_found
from baremetal_acc.model.accelerator import Kind
from baremetal_acc.model.inventory import Gap
from baremetal_acc.model.ref import Ref
from baremetal_acc.model.uri import DEVICE

ROOT = '/redfish/v1'

_FIRST, _EARLY, _DEEP, _CHAIN, _LATE, _LAST = -1, 1, 2, 7, 8, 9
"""Ranks: resources from which much follows are read first; those from which nothing follows fill the gaps.

Resources of locks that lead to others have a rank in between: one after the other at the end, each would take a round trip.
"""

CARRIER = re.compile(
    r'riser|backplane|carrier|tray|switch|baseboard|\bUBB\b|retimer|expander|enclosure|processor.?module', re.IGNORECASE
)
"""Names of chassis that carry devices and are none themselves."""

_NETWORKED = frozenset({Kind.DPU, Kind.NIC, Kind.FPGA})
"""Accelerators that may also be network adapters."""

_ACCELERATORS = frozenset({'GPU', 'FPGA', 'DSP', 'Accelerator'})
"""ProcessorTypes of accelerators. Source: DSP8010 2025.4, Processor v1_22_0."""


NOTHING = 'a link leads to nothing (HTTP 404), where something was to be'

_LONGEST_PLACE = 512
"""Characters of a URI that are searched for a device. Real URIs are shorter than 200."""

_PARTS = ('/PCIeFunctions', '/SubProcessors')

_PROMISED = 'leads to {place}, and no device is there: what this belongs to is not seen'

_OFF = 'leads off the BMC: what this belongs to is not seen'

_ONE_URI = 'two resources whose links differ in their case alone, and that are not one, give themselves this URI'

_LISTED_TWICE = 'is listed twice, in another case: nobody can tell whether that is one resource or two'

_OTHER_KIND = 'a link leads to something that is no {kind}'

_KINDS = {
    'systems': 'ComputerSystem',
    'chassis': 'Chassis',
    'managers': 'Manager',
    'processors': 'Processor',
    'pcie_devices': 'PCIeDevice',
    'adapters': 'NetworkAdapter',
    'interfaces': 'NetworkInterface',
    'graphics': 'GraphicsController',
    'items': 'SoftwareInventory',
}
"""The resource type of each table. Source: DSP8010 2025.4."""

_KNOWN_KINDS = frozenset(kind + tail for kind in _KINDS.values() for tail in ('', 'Collection'))

_OTHER_SERVICES = frozenset({
    'AccountService', 'CertificateService', 'EventService', 'JobService', 'LicenseService', 'ServiceRoot', 'SessionService',
    'TaskService', 'TelemetryService',
})  # fmt: skip
"""Types of the services next to the UpdateService. Source: DSP8010 2025.4, ServiceRoot."""

_ROUNDS = 5
"""Rounds in which links outside collections are followed. The longest chain of nested chassis seen has three."""


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


class ReadStage:
    """Counts pending reads, and runs callbacks when none is left."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._waiting = [then]
        self._open = 1

    def begin(self) -> None:
        """Count one more pending read."""
        self._open += 1

    def end(self) -> None:
        """Count one read as done."""
        self._open -= 1
        if not self._open:
            waiting, self._waiting = self._waiting, []
            for then in waiting:
                then()

    def after(self, then: Callable[[], None]) -> None:
        """Run a callback when all reads are done; at once if they are."""
        if self._open:
            self._waiting.append(then)
        else:
            then()


class TreeReader:
    """Reads resources and collections into the tables of a discovered tree, each once; what cannot be read becomes a gap.

    :ivar tree: the resources read so far.
    :ivar gaps: what could not be read, or is malformed.
    :ivar expansion: tells whether collections are expanded.
    :ivar seen: which URI was read into which table.
    :ivar listed: URIs that are members of a collection.
    :ivar offered: URIs of the collections of resources.
    :ivar dangling: links to nothing, each with its table and whether a device may be hidden.
    :ivar guessed: URIs that were tried although no resource links to them.
    :ivar usual: guesses for which a 404 is not noted as a gap.
    """

    def __init__(self, reader: RedfishReader, tree: DiscoveredTree) -> None:
        self.tree = tree
        self.gaps = tree.gaps
        self.expansion = reader.pages
        self.seen: set[tuple[int, str]] = set()
        self.listed: set[str] = set()
        self.offered: set[str] = set()
        self.dangling: list[tuple[str, dict[str, ResourceView], bool]] = []
        self.guessed: set[str | None] = set()
        self.usual: set[str | None] = set()
        self.table = reader.table
        self._name = reader.name
        self._want = reader.want
        self._kinds = {id(getattr(tree, name)): kind for name, kind in _KINDS.items()}

    def collection(
        self,
        view: ResourceView,
        name: str,
        into: dict[str, ResourceView],
        then: Callable[[ResourceView], None] | None = None,
        *,
        stages: tuple[ReadStage, ...] = (),
        inner: tuple[ReadStage, ...] = (),
        rank: int = 0,
    ) -> None:
        """Read the members of a collection below a resource, or of an array of links in its place.

        :param stages: see :meth:`members`; likewise ``inner``.
        """
        if isinstance(view.body.get(name), list):
            self.each(view.links(name), into, then, hides=True, stages=inner, rank=rank)
            return
        link = view.link(name)
        if link is not None:
            self.offered.add(self.place(link) or link)
            hides = into is not self.tree.interfaces
            self.members(link, into, then, hides=hides, stages=stages, inner=inner, rank=rank)

    def members(
        self,
        uri: str,
        into: dict[str, ResourceView],
        then: Callable[[ResourceView], None] | None = None,
        *,
        hides: bool,
        error: Callable[[BmcError], None] | None = None,
        stages: tuple[ReadStage, ...] = (),
        inner: tuple[ReadStage, ...] = (),
        rank: int = 0,
        inner_rank: int | None = None,
    ) -> None:
        """Read the members of a collection into a table.

        :param into: the table. ``then``: called with each member.
        :param hides: devices may be hidden if the read fails.
        :param error: called with the error if the collection cannot be read.
        :param stages: stages that wait for the collection itself; ``inner`` those that wait for its members too.
        """

        def here(found: Found) -> None:
            if isinstance(found, BmcError):
                if error is not None:
                    error(found)
                self.gap(uri, found, hides=hides)
            else:
                links = self._links_of(uri, found, hides=hides)
                if into is self.tree.processors:
                    links.sort(key=_may_be_cpu)  # CPUs last, as more reads follow from an accelerator
                self.is_other_kind(into, found, 'Collection')
                below = inner_rank if inner_rank is not None else rank + 1
                self.each(links, into, then, hides=hides, stages=inner, rank=below)
            for stage in (*stages, *inner):
                stage.end()

        for stage in (*stages, *inner):
            stage.begin()
        self._want(uri, here, whole=True, rank=rank)

    def _links_of(self, uri: str, collection: Document, *, hides: bool) -> list[str]:
        """The URIs of a collection's members. A member that is no link may be a device that cannot be read."""
        listed = collection.body.get('Members')
        links = []
        for number, member in enumerate(listed if isinstance(listed, list) else ()):
            link = link_of(member)
            if link is not None:
                links.append(link)
                self.listed.add(self.place(link) or link)
            else:
                ref = Ref(bmc=self._name, uri=self.place(uri) or short(uri))
                self.gaps.append(Gap(ref=ref, field=f'Members/{number}', reason='link expected', hides=hides))
        return links

    def each(
        self,
        uris: Iterable[str],
        into: dict[str, ResourceView],
        then: Callable[[ResourceView], None] | None = None,
        *,
        hides: bool,
        stages: tuple[ReadStage, ...] = (),
        rank: int = 0,
    ) -> None:
        """Read resources into a table, each once.

        :param stages: stages that wait for them.
        """
        for uri in uris:
            place = self.place(uri)
            mark = (id(into), place or uri)
            if mark in self.seen or (into is self.tree.pcie_devices and place in self.tree.listed_again):
                continue
            self.seen.add(mark)
            found = self.table.at(place) if place is not None else None
            if found is not None:
                self._here(uri, into, then, hides, (), found)
                continue
            for stage in stages:
                stage.begin()
            self._want(uri, functools.partial(self._here, uri, into, then, hides, stages), rank=rank)

    def _here(
        self,
        uri: str,
        into: dict[str, ResourceView],
        then: Callable[[ResourceView], None] | None,
        hides: bool,
        stages: tuple[ReadStage, ...],
        found: Found,
    ) -> None:
        if is_not_found(found):
            self.dangling.append((uri, into, hides))
        elif isinstance(found, BmcError):
            self.gap(uri, found, hides=hides)
        else:
            if self.is_other_kind(into, found):
                for stage in stages:
                    stage.end()
                return
            view = ResourceView.of(found, self.gaps)
            known = into.setdefault(view.ref.uri, view)
            if known is not view and identity_of(known.body) != identity_of(view.body):
                self.gaps.append(Gap(ref=view.ref, reason=_ONE_URI, hides=True))
            elif known is view and then is not None:
                then(view)
        for stage in stages:
            stage.end()

    def is_other_kind(self, into: dict[str, ResourceView], found: Document, tail: str = '') -> bool:
        """Whether a resource is of another type than its table holds: then the expected one is not seen, and a gap is noted.

        Only types that are read elsewhere count, as BMCs have type names of their own.
        """
        wanted, said = self._kinds.get(id(into)), resource_type(found.body)
        if wanted is None or said == f'{wanted}{tail}' or said not in _KNOWN_KINDS:
            return False
        gap = Gap(ref=found.ref, field='@odata.type', reason=_OTHER_KIND.format(kind=f'{wanted}{tail}'), hides=True)
        if gap not in self.gaps:
            self.gaps.append(gap)
        return True

    def place(self, uri: str) -> str | None:
        """A URI in normal form, as in the tree's tables; None if it leads off the BMC."""
        try:
            return self.table.place(uri)
        except BmcAnswerInvalid:
            return None

    def settled(self, uri: str) -> str | None:
        """The URI of the resource that a link means, once everything was read; None if it leads off the BMC."""
        place = self.place(uri)
        return None if place is None else self.table.settled(place)

    def gap(self, uri: str, exc: BmcError, *, hides: bool) -> None:
        """Note that a resource could not be read, or does not exist (HTTP 404) although something links to it."""
        gone = is_not_found(exc)
        if gone and uri in self.usual:
            return
        place = self.place(uri)
        ref = Ref(bmc=self._name, uri=place if place is not None else short(uri))
        found = Gap(ref=ref, reason=NOTHING if gone else exc.what, hides=hides and not (gone and uri in self.guessed))
        if found not in self.gaps:
            self.gaps.append(found)


def put_in_order(reads: TreeReader) -> None:
    """Sort the tables, so that the order of answers does not matter; move absent devices; note dangling links."""
    tree = reads.tree
    for uri, into, hides in reads.dangling:
        if reads.settled(uri) not in into and uri not in reads.usual:
            ref = Ref(bmc=reads.table.name, uri=reads.place(uri) or short(uri))
            reads.gaps.append(Gap(ref=ref, reason=NOTHING, hides=hides and uri not in reads.guessed))
    for table in (tree.processors, tree.pcie_devices, tree.adapters):
        for uri in [uri for uri, view in table.items() if absent(view)]:
            tree.absent[uri] = table.pop(uri)
    for table in (
        tree.systems, tree.chassis, tree.managers, tree.processors, tree.pcie_devices, tree.adapters, tree.interfaces,
        tree.graphics, tree.items, tree.extensions, tree.instances,
    ):  # fmt: skip
        _sort(table)
        _join_cases(reads, table)
    tree.functions = {uri: _sorted(tree.function_tables.get(uri, {})) for uri in tree.pcie_devices}
    tree.acceleration = {uri: _sorted(tree.acceleration_tables.get(uri, {})) for uri in tree.processors}
    reads.gaps.sort(key=lambda g: (g.ref, g.field or '', g.reason))


def _join_cases(reads: TreeReader, table: dict[str, ResourceView]) -> None:
    """Remove one of two resources that are alike but for the case of their URIs: a BMC may repeat a URI as requested.

    If both are listed, both are kept, and a gap says that they may be one.
    """
    folded: dict[str, list[str]] = {}
    for uri in table:
        folded.setdefault(uri.casefold(), []).append(uri)
    for same in folded.values():
        if len(same) < 2:
            continue
        listed = [uri for uri in same if uri in reads.listed]
        kept = (listed or same)[0]
        if len({json.dumps(table[uri].body, sort_keys=True).casefold() for uri in same}) > 1:
            continue
        if len(listed) > 1:
            reads.gaps.append(Gap(ref=table[kept].ref, reason=_LISTED_TWICE, hides=True))
            continue
        for uri in same:
            if uri != kept:
                del table[uri]
                reads.table.means(uri, kept)


class ReadAhead:
    """Reads in advance what is read after the inventory if there is an accelerator: the resources of locks, and the Managers.

    :ivar leads: what locks read below lists of the service root; empty once it is being read.
    """

    def __init__(self, reader: RedfishReader, tree: DiscoveredTree, leads: Iterable[Lead | CardLead]) -> None:
        self._reader = reader
        self._so_far = SoFar(reader)
        self._tree = tree
        given = tuple(leads)
        self.leads = tuple(lead for lead in given if isinstance(lead, Lead))
        self._card_leads = tuple(lead for lead in given if isinstance(lead, CardLead))

    def read_managers(self, systems_here: ReadStage) -> None:
        """Read the Managers and the BMC's own Manager in advance, as the inventory's end and the locks need them.

        In parallel with Systems and Chassis this costs no time. Whether there is an accelerator is known only later, and the
        Managers would then have to be waited for.

        :param systems_here: ends when all Systems were read.
        """
        root = ResourceView(self._tree.root.ref, self._tree.root.body, [])
        link = root.link('Managers')
        if link is None or not self.leads or self._reader.at_once == 1:
            return

        def listed(_: Document) -> None:
            if root.links('Links', 'ManagerProvidingService'):
                own_is_known()
            else:
                systems_here.after(own_is_known)

        def own_is_known() -> None:
            systems = tuple(self._tree.systems.values())
            own = own_manager(root, systems[0] if len(systems) == 1 else None)
            if own is not None:
                self._reader.want(own, _nothing, rank=_CHAIN, ahead=True)

        self._ahead(link, listed, whole=True)

    def read_standby(self) -> None:
        """Read in advance the ActionInfos that tell which resets of standby power the machine has."""
        found = handed_out(self._tree)
        if len(found) != 1:
            return
        try:
            standby.place(found[0], self._tree.chassis, self._so_far.get)
        except NotReadYet as exc:
            self._ahead(exc.uri, lambda _: self.read_standby())

    def read_below_card(self, system: Document) -> None:
        """Read in advance what locks read below the System of a card."""
        for lead in self._card_leads:
            self._card_ahead(lead, system)

    def _card_ahead(self, lead: CardLead, system: Document) -> None:
        """Read in advance what locks read below the System of a card, one resource after the other."""
        try:
            lead.read(self._so_far, system)
        except NotReadYet as exc:
            self._ahead(exc.uri, lambda _: self._card_ahead(lead, system))

    def follow_leads(self) -> None:
        """Read in advance what locks will read, as an accelerator was found."""
        leads, self.leads = self.leads, ()
        by_list: dict[str, list[Lead]] = {}
        for lead in leads:
            by_list.setdefault(lead.above, []).append(lead)
        for name, mine in by_list.items():
            link = self._tree.root.link(name)
            if link is not None:
                self._ahead(link, functools.partial(self._listed_ahead, mine), whole=True)

    def _listed_ahead(self, leads: list[Lead], listed: Document) -> None:
        for link in filter(None, map(link_of, members(listed.body))):
            self._ahead(link, functools.partial(self._lead_on, leads))

    def _lead_on(self, leads: list[Lead], found: Document) -> None:
        for lead in leads:
            if lead.beside and not isinstance(_at(found.body, lead.beside), dict):
                continue
            value = _at(found.body, lead.path) if lead.path else None
            links = [link for one in (value if isinstance(value, list) else [value]) if (link := link_of(one)) is not None]
            for link in links:
                if lead.of_its_name and last(link).casefold() != last(found.ref.uri).casefold():
                    continue
                self._ahead(link, self._members_ahead if lead.is_collection else _no_more, whole=lead.is_collection)

    def _members_ahead(self, found: Document) -> None:
        for link in filter(None, map(link_of, members(found.body))):
            self._ahead(link, _no_more)

    def _ahead(self, link: str, then: Callable[[Document], None], *, whole: bool = False) -> None:
        def here(found: Found) -> None:
            if isinstance(found, Document):
                then(found)

        # With one request at a time nothing is gained by an early read: devices come first, in case the time runs out.
        leads_on = then is not _no_more and self._reader.at_once > 1
        self._reader.want(link, here, whole=whole, rank=_CHAIN if leads_on else _LAST, ahead=True)


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
                self._reads.members(link, found, self._function, hides=True, rank=_DEEP)
        else:
            listed = view.links('Links', 'PCIeFunctions')
        self._reads.each(listed, found, self._function, hides=True, rank=_DEEP)

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
        if row is not None and row.kind in _NETWORKED:
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
            self._reads.each(view.links('Links', 'PCIeFunctions'), found, hides=True, rank=_DEEP)

    def _may_compute(self, function: ResourceView) -> bool:
        ids = pci_ids(function)
        row = self._devices.by_pci(ids.vendor_id, ids.device_id, display=True)
        return row.kind is not None if row is not None else base_class(function) in COMPUTES


class Discovery:
    """One walk through a BMC's tree: each answer decides, as soon as it arrives, what is read next.

    :ivar gaps: what could not be read, or is malformed.
    :ivar tree: the resources read so far.
    :ivar guessed: URIs that were tried although no resource links to them.
    :ivar settled: returns the resource that a link means, once everything was read (:meth:`TreeReader.settled`).
    """

    def __init__(
        self, reader: RedfishReader, root: Document, quirks: Quirks, devices: Devices, leads: Iterable[Lead | CardLead] = ()
    ) -> None:
        """Create the walk; nothing is read.

        :param leads: resources that locks read after the inventory, to be read in advance if there is an accelerator.
        """
        self._reader = reader
        self._quirks = quirks
        self._devices = devices
        self.gaps: list[Gap] = Gaps()
        self.tree = DiscoveredTree(gaps=self.gaps, root=ResourceView.of(root, self.gaps))
        self._reads = reads = TreeReader(reader, self.tree)
        self.guessed = reads.guessed
        self.settled = reads.settled
        self._ahead = ReadAhead(reader, self.tree, leads)
        self._pcie = PcieDevices(reads, devices, self._ahead, self._read_interfaces)
        self._systems_here = ReadStage(lambda: None)
        self._known = ReadStage(lambda: None)  # ends when all Systems were read, and the Chassis were listed
        self._adapters_matter = self._managers_matter = False
        self._undecided: list[ResourceView] = []

    def run(self) -> DiscoveredTree:
        """Read everything.

        :raises BmcError: neither Systems nor Chassis could be read.
        """
        tree, root = self.tree, self.tree.root
        names = ('Systems', 'Chassis', 'Managers')
        places = {name: root.link(name) or f'{ROOT}/{name}' for name in names[:2]}
        guess = None if root.has('UpdateService') else f'{ROOT}/UpdateService'
        self.guessed.update((guess, *(f'{ROOT}/{name}' for name in names if not root.has(name))))
        if any(root.has(name) for name in names):
            self._reads.usual.add(guess)
        errors: dict[str, BmcError] = {}
        both = ReadStage(self._all_listed_are_here)
        top = ReadStage(lambda: None)

        def failed(name: str) -> Callable[[BmcError], None]:
            return lambda exc: errors.update({name: exc})

        self._reads.members(
            places['Systems'],
            tree.systems,
            self._system,
            hides=True,
            error=failed('Systems'),
            stages=(top,),
            inner=(both, self._systems_here, self._known),
            inner_rank=0,  # few resources, from which much follows
        )
        self._reads.members(
            places['Chassis'],
            tree.chassis,
            self._chassis,
            hides=True,
            error=failed('Chassis'),
            stages=(top, self._known),
            inner=(both,),
        )
        self._ahead.read_managers(self._systems_here)
        # Sent last, so that its time shows how long a plain read waits in the BMC's queue (see habits.Expansion).
        self._updates(root.link('UpdateService') or guess, top)
        self._systems_here.end()
        self._known.end()
        both.end()
        top.end()
        for _ in range(_ROUNDS):
            self._reader.run()
            if 'Systems' in errors and 'Chassis' in errors:
                raise errors['Systems']
            if not self._linked():
                break
        else:
            reason = f'links lead on after {_ROUNDS} rounds: what is behind them was not read'
            self.gaps.append(Gap(ref=root.ref, reason=reason, hides=True))
        put_in_order(self._reads)
        return tree

    # ---- which reads follow from a resource ----

    def _all_listed_are_here(self) -> None:
        """Called when all listed Systems and Chassis were read."""
        self._pcie.named_by_chassis.end()
        self._ahead.read_standby()

    def _contained(self, view: ResourceView, name: str) -> None:
        """Read Chassis that only a link of a listed resource leads to. It is known by now which Chassis are listed.

        Chassis further down are read at the end (:meth:`_linked`). So are all of them if a System lists its devices one by one,
        as a chassis may list the same devices.
        """
        if not self._pcie.array and view.ref.uri in self._reads.listed:
            quiet = ResourceView(view.ref, view.body, [])
            self._reads.each(quiet.links('Links', name), self.tree.chassis, self._chassis, hides=True, rank=_FIRST)

    def _system(self, view: ResourceView) -> None:
        tree = self.tree
        if named_kind(view, self._devices) is Kind.DPU or view.literal('SystemType') == 'DPU':
            self._read_managers()
            self._ahead.read_below_card(Document(ref=view.ref, body=view.body))
        self._known.after(lambda: self._contained(view, 'Chassis'))
        self._reads.collection(view, 'Processors', tree.processors, self._processor)
        self._reads.collection(view, 'GraphicsControllers', tree.graphics)
        if isinstance(view.body.get('PCIeDevices'), list):
            self._pcie.array += view.links('PCIeDevices')
        else:
            self._reads.collection(view, 'PCIeDevices', tree.pcie_devices, self._pcie.device)
        self._extensions('systems', view)
        info = action_info(view)
        if info is not None:
            self._reader.expect((info,), rank=_LATE)
        if self._adapters_matter:
            self._interfaces(view)

    def _chassis(self, view: ResourceView) -> None:
        tree = self.tree
        self._known.after(lambda: self._contained(view, 'Contains'))
        if named_kind(view, self._devices) is Kind.DPU:
            self._read_managers()
        stages = (self._pcie.named_by_chassis,)
        self._reads.collection(
            view, 'PCIeDevices', tree.pcie_devices, self._pcie.device, stages=stages, inner=(self._pcie.shown,)
        )
        self._reads.collection(view, 'NetworkAdapters', tree.adapters, self._adapter)
        self._reads.collection(view, 'Processors', tree.processors, self._processor)
        self._extensions('chassis', view)

    def _processor(self, view: ResourceView) -> None:
        if view.literal('ProcessorType') in _ACCELERATORS or named_kind(view, self._devices) is not None:
            self._ahead.follow_leads()
        link = view.link('AccelerationFunctions')
        if link is not None:
            found: dict[str, ResourceView] = {}
            self.tree.acceleration_tables[view.ref.uri] = found
            self._reads.members(link, found, hides=True)

    def _adapter(self, view: ResourceView) -> None:
        if named_kind(view, self._devices) in _NETWORKED:
            self._read_interfaces()
            self._ahead.follow_leads()
        link = view.link('Processors')
        if link is not None:
            self._read_interfaces()

            def processor(inner: ResourceView) -> None:
                self.tree.offload[inner.ref.uri] = view.ref.uri
                self._processor(inner)

            self._reads.members(link, self.tree.processors, processor, hides=True)

    def _read_managers(self) -> None:
        """Read the Managers: they are devices only on a card with a BMC of its own."""
        if not self._managers_matter:
            self._managers_matter = True
            place = self.tree.root.link('Managers') or f'{ROOT}/Managers'
            self._reads.members(place, self.tree.managers, hides=True, rank=_LATE)

    def _read_interfaces(self) -> None:
        """Read the NetworkInterfaces, which show only which adapters a System uses, as an adapter may be an accelerator."""
        if not self._adapters_matter:
            self._adapters_matter = True
            for system in self.tree.systems.values():
                self._interfaces(system)

    def _interfaces(self, system: ResourceView, *, decided: bool = False) -> None:
        """Read the NetworkInterfaces of a System; decide later if those of the last inventory may be kept instead."""
        link = system.link('NetworkInterfaces') if isinstance(system.body.get('NetworkInterfaces'), dict) else None
        if not decided and link is not None and self._reader.may_keep(link):
            self._undecided.append(system)
        else:
            self._reads.collection(system, 'NetworkInterfaces', self.tree.interfaces, rank=_LATE)

    def _decide(self) -> None:
        """Keep the NetworkInterfaces of the last inventory, or read them again."""
        undecided, self._undecided = self._undecided, []
        if undecided:
            tree = self.tree
            known = [{uri: Document(ref=v.ref, body=v.body) for uri, v in t.items()} for t in (tree.systems, tree.adapters)]
            self._reader.keep(*known)
        for system in undecided:
            self._interfaces(system, decided=True)

    def _extensions(self, table: str, view: ResourceView) -> None:
        """Read OEM extension resources. A failed read may hide a device: some BMCs show cards nowhere else."""
        for name, path in self._quirks.device_extensions():
            link = view.link(*path) if name == table else None
            if link is not None:
                self._reads.members(link, self.tree.extensions, hides=True, rank=_LATE)

    def _updates(self, link: str | None, top: ReadStage) -> None:
        """Read the UpdateService and the firmware items. An item that cannot be read may be firmware that is not protected."""
        if link is None:
            return

        def service(view: ResourceView) -> None:
            # A collection is no UpdateService, whatever its @odata.type.
            if resource_type(view.body) in _KNOWN_KINDS | _OTHER_SERVICES or isinstance(view.body.get('Members'), list):
                self.gaps.append(
                    Gap(ref=view.ref, field='@odata.type', reason=_OTHER_KIND.format(kind='UpdateService'), hides=True)
                )
                return
            self.tree.update = view
            # These are the largest collections: wait until the first answers show whether expanding is faster.
            if self._reader.pages.should_try:
                top.after(lambda: self._items(view))
            else:
                self._items(view)

        self._reads.each([link], {}, service, hides=True, stages=(top,), rank=_LATE)

    def _items(self, service: ResourceView) -> None:
        for name in ('FirmwareInventory', 'SoftwareInventory'):
            collection = service.link(name)
            if collection is None and name == 'FirmwareInventory' and not service.has(name):
                # Every UpdateService has a FirmwareInventory: one that does not link to it may still have it.
                collection = f'{service.ref.uri}/{name}'
                self.guessed.add(collection)
                self._reads.usual.add(collection)
            if collection is not None:
                self._reads.members(collection, self.tree.items, hides=True, rank=_EARLY, inner_rank=_LATE)

    def _linked(self) -> bool:
        """Queue resources that no collection lists and only links lead to. Most BMCs have none.

        :returns: whether there is something to read.
        """
        tree = self.tree
        before = len(self._reads.seen)
        for chassis in list(tree.chassis.values()):
            self._reads.each(chassis.links('Links', 'Contains'), tree.chassis, self._chassis, hides=True)
            self._reads.each(chassis.links('Links', 'PCIeDevices'), tree.pcie_devices, self._pcie.device, hides=True)
            self._reads.each(chassis.links('Links', 'Processors'), tree.processors, self._processor, hides=True)
            self._reads.each(chassis.links('Links', 'ComputerSystems'), tree.systems, self._system, hides=True)
        for system in list(tree.systems.values()):
            self._reads.each(system.links('Links', 'Chassis'), tree.chassis, self._chassis, hides=True)
            functions = system.links('PCIeFunctions') if isinstance(system.body.get('PCIeFunctions'), list) else ()
            self._reads.each(filter(None, map(device_of, functions)), tree.pcie_devices, self._pcie.device, hides=False)
        for view in (*tree.processors.values(), *tree.pcie_devices.values()):
            self._reads.each(view.links('Links', 'Chassis'), tree.chassis, self._chassis, hides=False)
        self._reads.each(self._pcie.array, tree.pcie_devices, self._pcie.device, hides=True)
        if not tree.adapters:
            self._read_interfaces()
        self._decide()
        for interface in list(tree.interfaces.values()):
            self._reads.each(interface.links('Links', 'NetworkAdapter'), tree.adapters, self._adapter, hides=True)
        for processor in list(tree.processors.values()):
            linked = [*processor.links('Links', 'PCIeDevice')]
            linked += filter(None, map(device_of, processor.links('Links', 'PCIeFunctions')))
            self._reads.each(linked, tree.pcie_devices, self._pcie.device, hides=False)
        for adapter in list(tree.adapters.values()):
            for controller in adapter.parts('Controllers'):
                linked = list(controller.links('Links', 'PCIeDevices')) if controller is not None else []
                self._reads.each(linked, tree.pcie_devices, self._pcie.device, hides=False)
        self._ask_instances()
        return len(self._reads.seen) > before or self._reader.wanting

    def _ask_instances(self) -> None:
        """Read the PCI ids of devices that an extension calls accelerators, if no PCIeDevice of that serial has any."""
        tree = self.tree
        known = {serial_of(view) for uri, view in tree.pcie_devices.items() if tree.function_tables.get(uri)}
        for view in tree.extensions.values():
            is_named = named_kind(view, self._devices) is not None
            if (is_named or view.body.get('DeviceType') == 'GPU') and serial_of(view) not in known - {None}:
                self._reads.each(view.links('DeviceInstances'), tree.instances, hides=False, rank=_LATE)

    def promise(self, view: ResourceView, field: str, uri: str) -> None:
        """Note a gap if a resource links to a device that was not found: the resource belongs to something unknown."""
        place = self.settled(uri.partition('#')[0])
        if place is None:
            self.gaps.append(Gap(ref=view.ref, field=field, reason=_OFF, hides=True))
            return
        match = DEVICE.fullmatch(place[:_LONGEST_PLACE])
        device = match[1] if match is not None else ''
        # Parts of a device are not always read, but the device is.
        above = (device, parent(parent(device))) if parent(device).endswith(_PARTS) else (device,)
        if device and not any(self._reader.table.peek(uri) is not None for uri in above) and not CARRIER.search(last(device)):
            self.gaps.append(Gap(ref=view.ref, field=field, reason=_PROMISED.format(place=short(place)), hides=True))


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


def _nothing(found: Found) -> None:
    """Do nothing: the result is used when the URI is wanted later."""


def _no_more(found: Document) -> None:
    """Do nothing: the document is used when the URI is wanted later."""


def named_row(view: ResourceView, devices: Devices) -> DeviceRow | None:
    """The row of the table of devices for a resource's Model or Name."""
    rows = [row for name in ('Model', 'Name') if (row := devices.by_name(view.text(name))) is not None]
    return next((row for row in rows if row.kind is not None), rows[0] if rows else None)


def named_kind(view: ResourceView, devices: Devices) -> Kind | None:
    """The kind of accelerator for a resource's Model or Name."""
    row = named_row(view, devices)
    return None if row is None else row.kind


def _may_be_cpu(uri: str) -> bool:
    """Whether a URI looks like a CPU's. Used only for the order of reads."""
    return 'cpu' in last(uri).casefold()


def _at(body: JsonObject, path: tuple[str, ...]) -> object:
    value: object = body
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def device_of(function: str) -> str | None:
    """The URI of the PCIeDevice above a PCIeFunction, if the URI shows it. Source: DSP2043 2025.4, PCIeFunction, URIs."""
    head, mark, tail = function.rstrip('/').rpartition('/PCIeFunctions/')
    # Some BMCs list functions directly below a System, which is not a PCIeDevice (seen: Lenovo XCC).
    return head if mark and '/' not in tail and parent(head).endswith('/PCIeDevices') else None


def _sort(table: dict[str, ResourceView]) -> None:
    ordered = sorted(table)
    if ordered != list(table):
        views = [table[uri] for uri in ordered]
        table.clear()
        table.update(zip(ordered, views, strict=True))


def _sorted(table: dict[str, ResourceView]) -> tuple[ResourceView, ...]:
    _sort(table)
    return tuple(table.values())


def within(uri: str, outer: str) -> bool:
    """Whether a URI is another one, or below it."""
    return uri == outer or uri.startswith(outer + '/')


def _same_id(one: str, other: str) -> bool:
    return one != other and last(one).casefold() == last(other).casefold()
