# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Discovery: walk a BMC's Redfish tree and read the resources that an accelerator inventory needs; what fails becomes a gap.

Several requests are sent at a time, those from which most follows first. The walk continues when a resource cannot be read.
"""

import re
from collections.abc import Callable, Iterable

from baremetal_acc.bmc.device_ids import Devices
from baremetal_acc.bmc.driver import CardLead, Document, Lead
from baremetal_acc.bmc.quirks import Quirks
from baremetal_acc.bmc.redfish.device_rows import named_kind
from baremetal_acc.bmc.redfish.discovered_tree import DiscoveredTree
from baremetal_acc.bmc.redfish.extended_info import short
from baremetal_acc.bmc.redfish.parse import Gaps, ResourceView, last, parent, serial_of
from baremetal_acc.bmc.redfish.pcie_devices import NETWORKED, PcieDevices, device_of
from baremetal_acc.bmc.redfish.read_ahead import ReadAhead
from baremetal_acc.bmc.redfish.reader import RedfishReader
from baremetal_acc.bmc.redfish.resource_document import resource_type
from baremetal_acc.bmc.redfish.system import action_info
from baremetal_acc.bmc.redfish.tree_order import put_in_order
from baremetal_acc.bmc.redfish.tree_reader import (
    KNOWN_TYPES,
    OTHER_TYPE,
    RANK_EARLY,
    RANK_FIRST,
    RANK_LATE,
    ReadStage,
    TreeReader,
)
from baremetal_acc.errors import BmcError
from baremetal_acc.model.accelerator import Kind
from baremetal_acc.model.inventory import Gap
from baremetal_acc.model.uri import DEVICE

ROOT = '/redfish/v1'

CARRIER = re.compile(
    r'riser|backplane|carrier|tray|switch|baseboard|\bUBB\b|retimer|expander|enclosure|processor.?module', re.IGNORECASE
)
"""Names of chassis that carry devices and are none themselves."""

_ACCELERATORS = frozenset({'GPU', 'FPGA', 'DSP', 'Accelerator'})
"""ProcessorTypes of accelerators. Source: DSP8010 2025.4, Processor v1_22_0."""

_LONGEST_PLACE = 512
"""Characters of a URI that are searched for a device. Real URIs are shorter than 200."""

_PARTS = ('/PCIeFunctions', '/SubProcessors')

_PROMISED = 'points to {place}, where no device was found: the device of this resource is unknown'

_OFF = 'does not point to this BMC: the device of this resource is unknown'

_OTHER_SERVICES = frozenset({
    'AccountService', 'CertificateService', 'EventService', 'JobService', 'LicenseService', 'ServiceRoot', 'SessionService',
    'TaskService', 'TelemetryService',
})  # fmt: skip
"""Types of the services next to the UpdateService. Source: DSP8010 2025.4, ServiceRoot."""

_ROUNDS = 5
"""Rounds in which links outside collections are followed. The longest chain of nested chassis seen has three."""


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
            reason = f'there are further links after {_ROUNDS} rounds: they were not followed'
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
            self._reads.each(quiet.links('Links', name), self.tree.chassis, self._chassis, hides=True, rank=RANK_FIRST)

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
            self._reader.expect((info,), rank=RANK_LATE)
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
        if named_kind(view, self._devices) in NETWORKED:
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
            self._reads.members(place, self.tree.managers, hides=True, rank=RANK_LATE)

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
            self._reads.collection(system, 'NetworkInterfaces', self.tree.interfaces, rank=RANK_LATE)

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
                self._reads.members(link, self.tree.extensions, hides=True, rank=RANK_LATE)

    def _updates(self, link: str | None, top: ReadStage) -> None:
        """Read the UpdateService and the firmware items. An item that cannot be read may be firmware that is not protected."""
        if link is None:
            return

        def service(view: ResourceView) -> None:
            # A collection is no UpdateService, whatever its @odata.type.
            if resource_type(view.body) in KNOWN_TYPES | _OTHER_SERVICES or isinstance(view.body.get('Members'), list):
                self.gaps.append(
                    Gap(ref=view.ref, field='@odata.type', reason=OTHER_TYPE.format(kind='UpdateService'), hides=True)
                )
                return
            self.tree.update = view
            # These are the largest collections: wait until the first answers show whether expanding is faster.
            if self._reader.pages.should_try:
                top.after(lambda: self._items(view))
            else:
                self._items(view)

        self._reads.each([link], {}, service, hides=True, stages=(top,), rank=RANK_LATE)

    def _items(self, service: ResourceView) -> None:
        for name in ('FirmwareInventory', 'SoftwareInventory'):
            collection = service.link(name)
            if collection is None and name == 'FirmwareInventory' and not service.has(name):
                # Every UpdateService has a FirmwareInventory: one that does not link to it may still have it.
                collection = f'{service.ref.uri}/{name}'
                self.guessed.add(collection)
                self._reads.usual.add(collection)
            if collection is not None:
                self._reads.members(collection, self.tree.items, hides=True, rank=RANK_EARLY, inner_rank=RANK_LATE)

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
                self._reads.each(view.links('DeviceInstances'), tree.instances, hides=False, rank=RANK_LATE)

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
