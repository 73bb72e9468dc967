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
from baremetal_acc.bmc.redfish.reader import Found, RedfishReader, SoFar, identity_of, link_of, members
from baremetal_acc.bmc.redfish.system import action_info, resettable
from baremetal_acc.errors import BmcAnswerInvalid, BmcError, is_not_found
from baremetal_acc.model.accelerator import Kind
from baremetal_acc.model.inventory import Gap
from baremetal_acc.model.ref import Ref
from baremetal_acc.model.uri import DEVICE

ROOT = '/redfish/v1'

MAX_TASKS = 100

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


class Discovery:
    """One walk through a BMC's tree: each answer decides, as soon as it arrives, what is read next.

    :ivar gaps: what could not be read, or is malformed.
    :ivar tree: the resources read so far.
    :ivar guessed: URIs that were tried although no resource links to them.
    """

    def __init__(
        self, reader: RedfishReader, root: Document, quirks: Quirks, devices: Devices, leads: Iterable[Lead | CardLead] = ()
    ) -> None:
        """Create the walk; nothing is read.

        :param leads: resources that locks read after the inventory, to be read in advance if there is an accelerator.
        """
        self._reader = reader
        self._so_far = SoFar(reader)
        given = tuple(leads)
        self._leads = tuple(lead for lead in given if isinstance(lead, Lead))
        self._card_leads = tuple(lead for lead in given if isinstance(lead, CardLead))
        self._quirks = quirks
        self._devices = devices
        self.gaps: list[Gap] = Gaps()
        self.tree = DiscoveredTree(gaps=self.gaps, root=ResourceView.of(root, self.gaps))
        self._seen: set[tuple[int, str]] = set()
        self._offered: set[str] = set()
        self._array: list[str] = []
        self._waiting: list[str] = []
        self._twice: set[str] = set()
        self._by_device: tuple[int, dict[str, frozenset[str]]] = (0, {})
        self._named_by_chassis = self._shown = self._systems_here = self._known = _Stage(lambda: None)
        self._adapters_matter = self._managers_matter = False
        self._undecided: list[ResourceView] = []
        self._listed: set[str] = set()
        self._dangling: list[tuple[str, dict[str, ResourceView], bool]] = []
        self.guessed: set[str | None] = set()
        self._usual: set[str | None] = set()  # guesses for which a 404 is not noted as a gap
        self._kinds = {id(getattr(self.tree, name)): kind for name, kind in _KINDS.items()}

    def run(self) -> DiscoveredTree:
        """Read everything.

        :raises BmcError: neither Systems nor Chassis could be read.
        """
        tree, root = self.tree, self.tree.root
        names = ('Systems', 'Chassis', 'Managers')
        places = {name: root.link(name) or f'{ROOT}/{name}' for name in names[:2]}
        guess = None if root.has('UpdateService') else f'{ROOT}/UpdateService'
        self.guessed = {guess, *(f'{ROOT}/{name}' for name in names if not root.has(name))}
        if any(root.has(name) for name in names):
            self._usual.add(guess)
        errors: dict[str, BmcError] = {}
        self._shown = _Stage(self._devices_listed_again)
        self._named_by_chassis = _Stage(self._devices_of_arrays)
        self._systems_here = _Stage(lambda: None)
        self._known = _Stage(lambda: None)  # ends when all Systems were read, and the Chassis were listed
        both = _Stage(self._all_listed_are_here)
        top = _Stage(lambda: None)

        def failed(name: str) -> Callable[[BmcError], None]:
            return lambda exc: errors.update({name: exc})

        self._members(
            places['Systems'],
            tree.systems,
            self._system,
            hides=True,
            error=failed('Systems'),
            stages=(top,),
            inner=(both, self._systems_here, self._known),
            inner_rank=0,  # few resources, from which much follows
        )
        self._members(
            places['Chassis'],
            tree.chassis,
            self._chassis,
            hides=True,
            error=failed('Chassis'),
            stages=(top, self._known),
            inner=(both,),
        )
        self._managers_ahead()
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
        self._tidy()
        return tree

    # ---- which reads follow from a resource ----

    def _all_listed_are_here(self) -> None:
        """Called when all listed Systems and Chassis were read."""
        self._named_by_chassis.end()
        self._standby_ahead()

    def _contained(self, view: ResourceView, name: str) -> None:
        """Read Chassis that only a link of a listed resource leads to. It is known by now which Chassis are listed.

        Chassis further down are read at the end (:meth:`_linked`). So are all of them if a System lists its devices one by one,
        as a chassis may list the same devices.
        """
        if not self._array and view.ref.uri in self._listed:
            quiet = ResourceView(view.ref, view.body, [])
            self._each(quiet.links('Links', name), self.tree.chassis, self._chassis, hides=True, rank=_FIRST)

    def _system(self, view: ResourceView) -> None:
        tree = self.tree
        if self._kind(view) is Kind.DPU or view.literal('SystemType') == 'DPU':
            self._look_at_managers()
            for lead in self._card_leads:
                self._card_ahead(lead, Document(ref=view.ref, body=view.body))
        self._known.after(lambda: self._contained(view, 'Chassis'))
        self._collection(view, 'Processors', tree.processors, self._processor)
        self._collection(view, 'GraphicsControllers', tree.graphics)
        if isinstance(view.body.get('PCIeDevices'), list):
            self._array += view.links('PCIeDevices')
        else:
            self._collection(view, 'PCIeDevices', tree.pcie_devices, self._device)
        self._extensions('systems', view)
        info = action_info(view)
        if info is not None:
            self._reader.expect((info,), rank=_LATE)
        if self._adapters_matter:
            self._interfaces(view)

    def _chassis(self, view: ResourceView) -> None:
        tree = self.tree
        self._known.after(lambda: self._contained(view, 'Contains'))
        if self._kind(view) is Kind.DPU:
            self._look_at_managers()
        stages = (self._named_by_chassis,)
        self._collection(view, 'PCIeDevices', tree.pcie_devices, self._device, stages=stages, inner=(self._shown,))
        self._collection(view, 'NetworkAdapters', tree.adapters, self._adapter)
        self._collection(view, 'Processors', tree.processors, self._processor)
        self._extensions('chassis', view)

    def _processor(self, view: ResourceView) -> None:
        if view.literal('ProcessorType') in _ACCELERATORS or self._kind(view) is not None:
            self._follow_leads()
        link = view.link('AccelerationFunctions')
        if link is not None:
            found: dict[str, ResourceView] = {}
            self.tree.acceleration_tables[view.ref.uri] = found
            self._members(link, found, hides=True)

    def _adapter(self, view: ResourceView) -> None:
        if self._kind(view) in _NETWORKED:
            self._look_at_interfaces()
            self._follow_leads()
        link = view.link('Processors')
        if link is not None:
            self._look_at_interfaces()

            def processor(inner: ResourceView) -> None:
                self.tree.offload[inner.ref.uri] = view.ref.uri
                self._processor(inner)

            self._members(link, self.tree.processors, processor, hides=True)

    def _device(self, view: ResourceView) -> None:
        named = self._named(view)
        if absent(view) or (named is not None and named.kind is None):
            return
        if named is not None:
            self._follow_leads()
        found: dict[str, ResourceView] = {}
        self.tree.function_tables[view.ref.uri] = found
        listed: tuple[str, ...] = ()
        if isinstance(view.body.get('PCIeFunctions'), dict):
            link = view.link('PCIeFunctions')
            listed = () if self._reader.expands else self._functions_listed(view)
            if link is not None and not listed:
                self._members(link, found, self._function, hides=True, rank=_DEEP)
        else:
            listed = view.links('Links', 'PCIeFunctions')
        self._each(listed, found, self._function, hides=True, rank=_DEEP)

    def _functions_listed(self, device: ResourceView) -> tuple[str, ...]:
        """All functions of a device, if the device or its System lists them: this saves the request for their collection.

        Empty if the list may be incomplete: the lists differ, a MultiFunction device has one function, or a function lies
        elsewhere.
        """
        uri = device.ref.uri
        quiet = ResourceView(device.ref, device.body, [])
        own = quiet.links('Links', 'PCIeFunctions')
        mine = {place for link in own if (place := self.place(link)) is not None}
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
        if self._by_device[0] != len(self.tree.systems):
            found: dict[str, set[str]] = {}
            for system in self.tree.systems.values():
                quiet = ResourceView(system.ref, system.body, [])
                links = quiet.links('PCIeFunctions') if isinstance(system.body.get('PCIeFunctions'), list) else ()
                for place in filter(None, map(self.place, links)):
                    device = device_of(place)
                    if device is not None:
                        found.setdefault(device, set()).add(place)
            self._by_device = (len(self.tree.systems), {uri: frozenset(places) for uri, places in found.items()})
        return self._by_device[1]

    def _function(self, view: ResourceView) -> None:
        ids = pci_ids(view)
        row = self._devices.by_pci(ids.vendor_id, ids.device_id, display=False)
        if row is not None and row.kind in _NETWORKED:
            self._look_at_interfaces()
        if self._leads and self._may_compute(view):
            self._follow_leads()
        device = device_of(view.ref.uri)
        if device is not None and device in self._twice:
            self._functions_again(device)

    def _managers_ahead(self) -> None:
        """Read the Managers and the BMC's own Manager in advance, as the inventory's end and the locks need them.

        In parallel with Systems and Chassis this costs no time. Whether there is an accelerator is known only later, and the
        Managers would then have to be waited for.
        """
        root = ResourceView(self.tree.root.ref, self.tree.root.body, [])
        link = root.link('Managers')
        if link is None or not self._leads or self._reader.at_once == 1:
            return

        def listed(_: Document) -> None:
            if root.links('Links', 'ManagerProvidingService'):
                own_is_known()
            else:
                self._systems_here.after(own_is_known)

        def own_is_known() -> None:
            systems = tuple(self.tree.systems.values())
            own = own_manager(root, systems[0] if len(systems) == 1 else None)
            if own is not None:
                self._reader.want(own, _nothing, rank=_CHAIN, ahead=True)

        self._ahead(link, listed, whole=True)

    def _standby_ahead(self) -> None:
        """Read in advance the ActionInfos that tell which resets of standby power the machine has."""
        found = handed_out(self.tree)
        if len(found) != 1:
            return
        try:
            standby.place(found[0], self.tree.chassis, self._so_far.get)
        except NotReadYet as exc:
            self._ahead(exc.uri, lambda _: self._standby_ahead())

    def _card_ahead(self, lead: CardLead, system: Document) -> None:
        """Read in advance what locks read below the System of a card, one resource after the other."""
        try:
            lead.read(self._so_far, system)
        except NotReadYet as exc:
            self._ahead(exc.uri, lambda _: self._card_ahead(lead, system))

    def _follow_leads(self) -> None:
        """Read in advance what locks will read, as an accelerator was found."""
        leads, self._leads = self._leads, ()
        by_list: dict[str, list[Lead]] = {}
        for lead in leads:
            by_list.setdefault(lead.above, []).append(lead)
        for name, mine in by_list.items():
            link = self.tree.root.link(name)
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

    def _named(self, view: ResourceView) -> DeviceRow | None:
        """The row of the table of devices for a resource's Model or Name."""
        rows = [row for name in ('Model', 'Name') if (row := self._devices.by_name(view.text(name))) is not None]
        return next((row for row in rows if row.kind is not None), rows[0] if rows else None)

    def _kind(self, view: ResourceView) -> Kind | None:
        """The kind of accelerator for a resource's Model or Name."""
        row = self._named(view)
        return None if row is None else row.kind

    def _look_at_managers(self) -> None:
        """Read the Managers: they are devices only on a card with a BMC of its own."""
        if not self._managers_matter:
            self._managers_matter = True
            place = self.tree.root.link('Managers') or f'{ROOT}/Managers'
            self._members(place, self.tree.managers, hides=True, rank=_LATE)

    def _look_at_interfaces(self) -> None:
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
            self._collection(system, 'NetworkInterfaces', self.tree.interfaces, rank=_LATE)

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
                self._members(link, self.tree.extensions, hides=True, rank=_LATE)

    def _updates(self, link: str | None, top: '_Stage') -> None:
        """Read the UpdateService and the firmware items. An item that cannot be read may be firmware that is not protected."""
        if link is None:
            return

        def service(view: ResourceView) -> None:
            # A collection is no UpdateService, whatever its @odata.type.
            if _kind(view.body) in _KNOWN_KINDS | _OTHER_SERVICES or isinstance(view.body.get('Members'), list):
                self.gaps.append(
                    Gap(ref=view.ref, field='@odata.type', reason=_OTHER_KIND.format(kind='UpdateService'), hides=True)
                )
                return
            self.tree.update = view
            # These are the largest collections: wait until the first answers show whether expanding is faster.
            if self._reader.should_try:
                top.after(lambda: self._items(view))
            else:
                self._items(view)

        self._each([link], {}, service, hides=True, stages=(top,), rank=_LATE)

    def _items(self, service: ResourceView) -> None:
        for name in ('FirmwareInventory', 'SoftwareInventory'):
            collection = service.link(name)
            if collection is None and name == 'FirmwareInventory' and not service.has(name):
                # Every UpdateService has a FirmwareInventory: one that does not link to it may still have it.
                collection = f'{service.ref.uri}/{name}'
                self.guessed.add(collection)
                self._usual.add(collection)
            if collection is not None:
                self._members(collection, self.tree.items, hides=True, rank=_EARLY, inner_rank=_LATE)

    def _devices_of_arrays(self) -> None:
        """Read PCIeDevices that a System lists one by one, except those that a collection of a chassis lists too.

        Devices with the same Id as one of a chassis may be that device: they wait until it was read.
        """
        links = [uri for uri in self._array if parent(self.place(uri) or uri) not in self._offered]
        ids = {last(uri).casefold() for uri in self._listed if parent(uri) in self._offered}
        self._waiting = [uri for uri in links if last(self.place(uri) or uri).casefold() in ids]
        waiting = set(self._waiting)
        self._each((uri for uri in links if uri not in waiting), self.tree.pcie_devices, self._device, hides=True)
        self._shown.end()

    def _devices_listed_again(self) -> None:
        """Note devices that both a System and a chassis list: the functions of the chassis's are below the System's.

        They are not read again. Seen: recordings dell/r750-h100-bluefield2, where all are listed twice.
        """
        waiting, self._waiting = self._waiting, []
        places = {place for uri in waiting if (place := self.place(uri)) is not None}
        claims: dict[str, list[str]] = {}
        for uri, view in self.tree.pcie_devices.items():
            functions = ResourceView(view.ref, view.body, []).links('Links', 'PCIeFunctions')
            above = {device and self.place(device) for device in map(device_of, functions)}
            if len(above) == 1 and (other := above.pop()) is not None and other in places and _same_id(uri, other):
                claims.setdefault(other, []).append(uri)
        for other, mine in claims.items():
            if len(mine) == 1 and (id(self.tree.pcie_devices), other) not in self._seen:
                self.tree.listed_again[other] = mine[0]
                self._twice.add(mine[0])
                self._reader.means(other, mine[0])
        for device in sorted(self._twice):
            self._functions_again(device)
        self._each(waiting, self.tree.pcie_devices, self._device, hides=True)

    def _functions_again(self, device: str) -> None:
        """Read the functions of a device below its second URI if it may be an accelerator, as more may be listed there."""
        found, view = self.tree.function_tables.get(device), self.tree.pcie_devices[device]
        if found is not None and (self._kind(view) is not None or any(map(self._may_compute, found.values()))):
            self._each(view.links('Links', 'PCIeFunctions'), found, hides=True, rank=_DEEP)

    def _may_compute(self, function: ResourceView) -> bool:
        ids = pci_ids(function)
        row = self._devices.by_pci(ids.vendor_id, ids.device_id, display=True)
        return row.kind is not None if row is not None else base_class(function) in COMPUTES

    def _linked(self) -> bool:
        """Queue resources that no collection lists and only links lead to. Most BMCs have none.

        :returns: whether there is something to read.
        """
        tree = self.tree
        before = len(self._seen)
        for chassis in list(tree.chassis.values()):
            self._each(chassis.links('Links', 'Contains'), tree.chassis, self._chassis, hides=True)
            self._each(chassis.links('Links', 'PCIeDevices'), tree.pcie_devices, self._device, hides=True)
            self._each(chassis.links('Links', 'Processors'), tree.processors, self._processor, hides=True)
            self._each(chassis.links('Links', 'ComputerSystems'), tree.systems, self._system, hides=True)
        for system in list(tree.systems.values()):
            self._each(system.links('Links', 'Chassis'), tree.chassis, self._chassis, hides=True)
            functions = system.links('PCIeFunctions') if isinstance(system.body.get('PCIeFunctions'), list) else ()
            self._each(filter(None, map(device_of, functions)), tree.pcie_devices, self._device, hides=False)
        for view in (*tree.processors.values(), *tree.pcie_devices.values()):
            self._each(view.links('Links', 'Chassis'), tree.chassis, self._chassis, hides=False)
        self._each(self._array, tree.pcie_devices, self._device, hides=True)
        if not tree.adapters:
            self._look_at_interfaces()
        self._decide()
        for interface in list(tree.interfaces.values()):
            self._each(interface.links('Links', 'NetworkAdapter'), tree.adapters, self._adapter, hides=True)
        for processor in list(tree.processors.values()):
            linked = [*processor.links('Links', 'PCIeDevice')]
            linked += filter(None, map(device_of, processor.links('Links', 'PCIeFunctions')))
            self._each(linked, tree.pcie_devices, self._device, hides=False)
        for adapter in list(tree.adapters.values()):
            for controller in adapter.parts('Controllers'):
                linked = list(controller.links('Links', 'PCIeDevices')) if controller is not None else []
                self._each(linked, tree.pcie_devices, self._device, hides=False)
        self._ask_instances()
        return len(self._seen) > before or self._reader.wanting

    def _ask_instances(self) -> None:
        """Read the PCI ids of devices that an extension calls accelerators, if no PCIeDevice of that serial has any."""
        tree = self.tree
        known = {serial_of(view) for uri, view in tree.pcie_devices.items() if tree.function_tables.get(uri)}
        for view in tree.extensions.values():
            is_named = self._kind(view) is not None
            if (is_named or view.body.get('DeviceType') == 'GPU') and serial_of(view) not in known - {None}:
                self._each(view.links('DeviceInstances'), tree.instances, hides=False, rank=_LATE)

    def _tidy(self) -> None:
        """Sort the tables, so that the order of answers does not matter; move absent devices; note dangling links."""
        tree = self.tree
        for uri, into, hides in self._dangling:
            if self.settled(uri) not in into and uri not in self._usual:
                ref = Ref(bmc=self._reader.name, uri=self.place(uri) or short(uri))
                self.gaps.append(Gap(ref=ref, reason=NOTHING, hides=hides and uri not in self.guessed))
        for table in (tree.processors, tree.pcie_devices, tree.adapters):
            for uri in [uri for uri, view in table.items() if absent(view)]:
                tree.absent[uri] = table.pop(uri)
        for table in (
            tree.systems, tree.chassis, tree.managers, tree.processors, tree.pcie_devices, tree.adapters, tree.interfaces,
            tree.graphics, tree.items, tree.extensions, tree.instances,
        ):  # fmt: skip
            _sort(table)
            self._join_cases(table)
        tree.functions = {uri: _sorted(tree.function_tables.get(uri, {})) for uri in tree.pcie_devices}
        tree.acceleration = {uri: _sorted(tree.acceleration_tables.get(uri, {})) for uri in tree.processors}
        self.gaps.sort(key=lambda g: (g.ref, g.field or '', g.reason))

    def _join_cases(self, table: dict[str, ResourceView]) -> None:
        """Remove one of two resources that are alike but for the case of their URIs: a BMC may repeat a URI as requested.

        If both are listed, both are kept, and a gap says that they may be one.
        """
        folded: dict[str, list[str]] = {}
        for uri in table:
            folded.setdefault(uri.casefold(), []).append(uri)
        for same in folded.values():
            if len(same) < 2:
                continue
            listed = [uri for uri in same if uri in self._listed]
            kept = (listed or same)[0]
            if len({json.dumps(table[uri].body, sort_keys=True).casefold() for uri in same}) > 1:
                continue
            if len(listed) > 1:
                self.gaps.append(Gap(ref=table[kept].ref, reason=_LISTED_TWICE, hides=True))
                continue
            for uri in same:
                if uri != kept:
                    del table[uri]
                    self._reader.means(uri, kept)

    # ---- reading ----

    def _collection(
        self,
        view: ResourceView,
        name: str,
        into: dict[str, ResourceView],
        then: Callable[[ResourceView], None] | None = None,
        *,
        stages: tuple['_Stage', ...] = (),
        inner: tuple['_Stage', ...] = (),
        rank: int = 0,
    ) -> None:
        """Read the members of a collection below a resource, or of an array of links in its place.

        :param stages: see :meth:`_members`; likewise ``inner``.
        """
        if isinstance(view.body.get(name), list):
            self._each(view.links(name), into, then, hides=True, stages=inner, rank=rank)
            return
        link = view.link(name)
        if link is not None:
            self._offered.add(self.place(link) or link)
            hides = into is not self.tree.interfaces
            self._members(link, into, then, hides=hides, stages=stages, inner=inner, rank=rank)

    def _members(
        self,
        uri: str,
        into: dict[str, ResourceView],
        then: Callable[[ResourceView], None] | None = None,
        *,
        hides: bool,
        error: Callable[[BmcError], None] | None = None,
        stages: tuple['_Stage', ...] = (),
        inner: tuple['_Stage', ...] = (),
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
                self._is_other_kind(into, found, 'Collection')
                below = inner_rank if inner_rank is not None else rank + 1
                self._each(links, into, then, hides=hides, stages=inner, rank=below)
            for stage in (*stages, *inner):
                stage.end()

        for stage in (*stages, *inner):
            stage.begin()
        self._reader.want(uri, here, whole=True, rank=rank)

    def _links_of(self, uri: str, collection: Document, *, hides: bool) -> list[str]:
        """The URIs of a collection's members. A member that is no link may be a device that cannot be read."""
        listed = collection.body.get('Members')
        links = []
        for number, member in enumerate(listed if isinstance(listed, list) else ()):
            link = link_of(member)
            if link is not None:
                links.append(link)
                self._listed.add(self.place(link) or link)
            else:
                ref = Ref(bmc=self._reader.name, uri=self.place(uri) or short(uri))
                self.gaps.append(Gap(ref=ref, field=f'Members/{number}', reason='link expected', hides=hides))
        return links

    def _each(
        self,
        uris: Iterable[str],
        into: dict[str, ResourceView],
        then: Callable[[ResourceView], None] | None = None,
        *,
        hides: bool,
        stages: tuple['_Stage', ...] = (),
        rank: int = 0,
    ) -> None:
        """Read resources into a table, each once."""
        for uri in uris:
            place = self.place(uri)
            mark = (id(into), place or uri)
            if mark in self._seen or (into is self.tree.pcie_devices and place in self.tree.listed_again):
                continue
            self._seen.add(mark)
            found = self._reader.at(place) if place is not None else None
            if found is not None:
                self._here(uri, into, then, hides, (), found)
                continue
            for stage in stages:
                stage.begin()
            self._reader.want(uri, functools.partial(self._here, uri, into, then, hides, stages), rank=rank)

    def _here(
        self,
        uri: str,
        into: dict[str, ResourceView],
        then: Callable[[ResourceView], None] | None,
        hides: bool,
        stages: tuple['_Stage', ...],
        found: Found,
    ) -> None:
        if is_not_found(found):
            self._dangling.append((uri, into, hides))
        elif isinstance(found, BmcError):
            self.gap(uri, found, hides=hides)
        else:
            if self._is_other_kind(into, found):
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

    def _is_other_kind(self, into: dict[str, ResourceView], found: Document, tail: str = '') -> bool:
        """Whether a resource is of another type than its table holds: then the expected one is not seen, and a gap is noted.

        Only types that are read elsewhere count, as BMCs have type names of their own.
        """
        wanted, said = self._kinds.get(id(into)), _kind(found.body)
        if wanted is None or said == f'{wanted}{tail}' or said not in _KNOWN_KINDS:
            return False
        gap = Gap(ref=found.ref, field='@odata.type', reason=_OTHER_KIND.format(kind=f'{wanted}{tail}'), hides=True)
        if gap not in self.gaps:
            self.gaps.append(gap)
        return True

    def place(self, uri: str) -> str | None:
        """A URI in normal form, as in the tree's tables; None if it leads off the BMC."""
        try:
            return self._reader.place(uri)
        except BmcAnswerInvalid:
            return None

    def settled(self, uri: str) -> str | None:
        """The URI of the resource that a link means, once everything was read; None if it leads off the BMC."""
        place = self.place(uri)
        return None if place is None else self._reader.settled(place)

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
        if device and not any(self._reader.peek(uri) is not None for uri in above) and not CARRIER.search(last(device)):
            self.gaps.append(Gap(ref=view.ref, field=field, reason=_PROMISED.format(place=short(place)), hides=True))

    def gap(self, uri: str, exc: BmcError, *, hides: bool) -> None:
        """Note that a resource could not be read, or does not exist (HTTP 404) although something links to it."""
        gone = is_not_found(exc)
        if gone and uri in self._usual:
            return
        place = self.place(uri)
        ref = Ref(bmc=self._reader.name, uri=place if place is not None else short(uri))
        found = Gap(ref=ref, reason=NOTHING if gone else exc.what, hides=hides and not (gone and uri in self.guessed))
        if found not in self.gaps:
            self.gaps.append(found)


class _Stage:
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


def _may_be_cpu(uri: str) -> bool:
    """Whether a URI looks like a CPU's. Used only for the order of reads."""
    return 'cpu' in last(uri).casefold()


def _at(body: JsonObject, path: tuple[str, ...]) -> object:
    value: object = body
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _kind(body: JsonObject) -> str:
    """The type of a resource without its version; empty if it has none."""
    said = body.get('@odata.type')
    return said.lstrip('#').partition('.')[0] if isinstance(said, str) else ''


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
