# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which resources are one physical device, is it an accelerator, and what identifies it?

A BMC shows one card as Processor, as one or two PCIeDevices, as NetworkAdapter, as Chassis, and as System and Manager when
it has a BMC of its own. Resources are joined by their links first, then by UUID, then by serial number with model or part
number, and never two members of one collection. See doc/source/inventory.rst.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from baremetal_acc.bmc.devices import Class, Devices, Row
from baremetal_acc.bmc.redfish.parse import View, parent, pci_ids, serial_of, uuid_of, version_of
from baremetal_acc.bmc.redfish.walk import Tree, Walk, siblings, within
from baremetal_acc.model.accelerator import Function, Kind, PciIds
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.inventory import Gap, PlatformDevice

OWN_CHASSIS = frozenset({'Card', 'Module', 'Component', 'Cartridge'})
"""ChassisType of what may be one device; the others are enclosures."""

PROCESSOR_KINDS = {'GPU': Kind.GPU, 'FPGA': Kind.FPGA, 'DSP': Kind.ASIC, 'Accelerator': Kind.ASIC}
"""ProcessorType to Kind. Source: DSP8010 2025.4, Processor v1_22_0."""

GENERIC_NAMES = frozenset({
    'processor', 'gpu', 'fpga', 'pcie device', 'pciedevices', 'networkadapter', 'network adapter', 'network adapter view',
    'adapter',
})  # fmt: skip
"""Names that say nothing about a model."""


@dataclass(slots=True, kw_only=True, eq=False)
class Device:
    """One physical device while it is put together.

    :ivar extra: URIs of further resources that are this device: functions, interfaces, extensions.
    """

    processors: dict[str, View] = field(default_factory=dict)
    pcie_devices: dict[str, View] = field(default_factory=dict)
    adapters: dict[str, View] = field(default_factory=dict)
    chassis: dict[str, View] = field(default_factory=dict)
    systems: dict[str, View] = field(default_factory=dict)
    managers: dict[str, View] = field(default_factory=dict)
    extensions: dict[str, View] = field(default_factory=dict)
    functions: tuple[View, ...] = ()
    extra: set[str] = field(default_factory=set)
    kind: Kind | None = None
    row: Row | None = None

    def uris(self) -> set[str]:
        """All resources of it."""
        tables = (self.processors, self.pcie_devices, self.adapters, self.chassis, self.systems, self.managers, self.extensions)
        return {uri for table in tables for uri in table} | self.extra

    def views(self) -> Iterator[View]:
        """Its resources, those that tell most of it first."""
        yield from self.processors.values()
        yield from self.pcie_devices.values()
        yield from self._main_chassis()
        yield from self.systems.values()
        yield from self.adapters.values()

    @property
    def primary(self) -> View:
        """The resource to show."""
        tables: tuple[Iterable[View], ...] = (
            self.processors.values(), self._main_chassis() if self.systems or self.managers else (), self.pcie_devices.values(),
            self.adapters.values(), self.chassis.values(), self.systems.values(),
        )  # fmt: skip
        return next(view for table in tables for view in table)

    @property
    def serial(self) -> str | None:
        """The first serial number that one of its resources has."""
        return next((s for view in self.views() if (s := serial_of(view))), None)

    @property
    def uuid(self) -> str | None:
        """The first UUID. Chassis within the card are left out: roots of trust have UUIDs that are constants of the product."""
        return next((u for view in self.views() if (u := uuid_of(view, 'UUID'))), None)

    @property
    def part_number(self) -> str | None:
        """The first part number."""
        return next((p for view in self.views() if (p := view.text('PartNumber'))), None)

    @property
    def pci(self) -> PciIds:
        """Ids of the first function that has some."""
        found = [pci_ids(view) for view in self.functions]
        return next((ids for ids in found if ids.vendor_id), found[0] if found else PciIds())

    @property
    def location(self) -> str | None:
        """Where it is plugged in, as the BMC labels it."""
        for view in self.views():
            for path in (('Location',), ('Slot', 'Location')):
                if label := view.text(*path, 'PartLocation', 'ServiceLabel'):
                    return label
        for view in self.adapters.values():
            for controller in view.parts('Controllers'):
                if controller is not None and (label := controller.text('Location', 'PartLocation', 'ServiceLabel')):
                    return label
        return next((label for view in self.extensions.values() if (label := extension_text(view, 'Location'))), None)

    def model(self, devices: Devices) -> str | None:
        """The model: the table's name, else the text that the table knows, else the first that is no part number."""
        if self.row is not None and self.row.model is not None:
            return self.row.model
        texts = self._names()
        known = next((t for t in texts if devices.by_name(t)), None)
        parts = {self.part_number}
        return known or next((t for t in texts if t not in parts and t.casefold() not in GENERIC_NAMES), None)

    def vendor(self, devices: Devices) -> str | None:
        """The vendor: the table's, else the BMC's text as the table writes it."""
        if self.row is not None and self.row.vendor is not None:
            return self.row.vendor
        return next((devices.vendor(v) for view in self.views() if (v := view.text('Manufacturer'))), None)

    def _names(self) -> list[str]:
        views = list(self.views())
        texts = [view.text('Model') for view in views]
        texts += [view.text('Name') for view in (*self.processors.values(), *self.pcie_devices.values())]
        return [text for text in texts if text]

    def _main_chassis(self) -> list[View]:
        """Chassis that are not contained in another one of this device."""
        inner = {uri for view in self.chassis.values() for uri in map(_bare, view.links('Links', 'Contains'))}
        return [view for uri, view in self.chassis.items() if uri not in inner]

    def absorb(self, other: 'Device') -> None:
        """Take over everything of another."""
        for name in ('processors', 'pcie_devices', 'adapters', 'chassis', 'systems', 'managers'):
            getattr(self, name).update(getattr(other, name))
        self.functions += tuple(f for f in other.functions if f.ref not in {g.ref for g in self.functions})
        self.extra |= other.extra

    def clashes(self, other: 'Device') -> bool:
        """Both hold members of one collection: those are two devices."""
        return any(
            siblings(a, b)
            for name in ('processors', 'pcie_devices', 'adapters', 'systems')
            for a in getattr(self, name)
            for b in getattr(other, name)
        )


def identify(walk: Walk, devices: Devices) -> tuple[list[Device], list[PlatformDevice]]:
    """The accelerators of a tree, and the parts of the baseboard that only look like some."""
    groups = _by_links(walk, devices)
    groups = _by_value(groups, walk, devices)
    found, platform = [], []
    for device in groups:
        device.row, device.kind = _kind(device, devices)
        if device.kind is None:
            if device.row is None and any(_class(view, code) == 'display' for view, code in _classes(device)):
                reason = (
                    'a display controller that the table does not know: not taken for an accelerator (devices.d may name it)'
                )
                walk.gaps.append(Gap(ref=device.primary.ref, reason=reason))
            continue
        if _is_baseboard(device, walk.tree):
            view = device.primary
            why = 'shows nothing that a tenant could use or program: a part of the baseboard'
            platform.append(PlatformDevice(ref=view.ref, kind=device.kind, model=device.model(devices), reason=why))
            continue
        _complete(device, walk)
        found.append(device)
    _extend(found, walk)
    return found, platform


def functions_of(device: Device, tree: Tree) -> tuple[Function, ...]:
    """Its AccelerationFunctions."""
    return tuple(function(view) for uri in device.processors for view in tree.acceleration.get(uri, ()))


def function(view: View) -> Function:
    """An AccelerationFunction. Source: DSP8010 2025.4, AccelerationFunction v1_0_5."""
    return Function(
        ref=view.ref,
        id=view.id,
        name=view.text('Name'),
        type=view.literal('AccelerationFunctionType'),
        uuid=uuid_of(view, 'UUID'),
        version=version_of(view, 'Version'),
        manufacturer=view.text('Manufacturer'),
    )


def own_version(device: Device) -> Component | None:
    """The version that the device's own resources show, for BMCs without an item for it.

    Source: DSP8010 2025.4: Processor.FirmwareVersion, Processor.FPGA.FirmwareVersion (deprecated), PCIeDevice.FirmwareVersion
    and StagedVersion, NetworkAdapter.Controllers[].FirmwarePackageVersion.
    """
    staged = next((s for view in device.pcie_devices.values() if (s := version_of(view, 'StagedVersion'))), None)
    for view in (*device.processors.values(), *device.pcie_devices.values()):
        version = version_of(view, 'FirmwareVersion') or version_of(view, 'FPGA', 'FirmwareVersion')
        if version is not None:
            return Component(id=None, ref=view.ref, version=version, staged=staged)
    for view in device.extensions.values():
        version = extension_text(view, 'FirmwareVersion')
        if version is not None:
            return Component(id=None, ref=view.ref, version=version, staged=staged)
    for view in device.adapters.values():
        for controller in view.parts('Controllers'):
            if controller is not None and (version := version_of(controller, 'FirmwarePackageVersion')):
                return Component(id=None, ref=view.ref, version=version, staged=staged, certain=not device.processors)
    return None


def extension_text(view: View, name: str) -> str | None:
    """A text of an extension resource; vendors give some names objects instead, and that is not odd."""
    return view.literal(name) if isinstance(view.body.get(name), str) else None


def _extend(found: list[Device], walk: Walk) -> None:
    """Give each extension resource to the one device that has its serial number."""
    for uri, view in walk.tree.extensions.items():
        serial = serial_of(view)
        owners = [d for d in found if serial is not None and (d.serial or '').casefold() == serial.casefold()]
        if len(owners) == 1:
            owners[0].extensions[uri] = view
            owners[0].extra |= set(_links(walk, view, 'DeviceInstances'))


def _by_links(walk: Walk, devices: Devices) -> list[Device]:
    """One Device for each set of resources that links hold together."""
    tree = walk.tree
    groups: dict[str, Device] = {}
    for name in ('processors', 'pcie_devices', 'adapters', 'systems'):
        for uri, view in getattr(tree, name).items():
            if name == 'systems' and not _is_dpu(view, devices):
                continue
            groups[uri] = Device()
            getattr(groups[uri], name)[uri] = view
    for uri, functions in tree.functions.items():
        if uri in groups:
            groups[uri].functions = functions

    def join(one: str | None, other: str | None) -> None:
        if one is None or other is None or one not in groups or other not in groups:
            return
        a, b = groups[one], groups[other]
        if a is b or a.clashes(b):
            return
        a.absorb(b)
        for uri in b.uris():
            groups[uri] = a

    owner = {f.ref.uri: uri for uri, functions in tree.functions.items() for f in functions}
    for uri, view in tree.processors.items():
        join(uri, _link(walk, view, 'Links', 'PCIeDevice'))
        for link in _links(walk, view, 'Links', 'PCIeFunctions'):
            join(uri, owner.get(link))
        join(uri, tree.offload.get(uri))
    shared: dict[str, str] = {}
    for uri, functions in tree.functions.items():
        for link in _links(walk, tree.pcie_devices[uri], 'Links', 'Processors'):
            join(uri, link)
        for f in functions:
            join(uri, _link(walk, f, 'Links', 'Processor'))
        # One device below Systems and below Chassis: two lists of functions, and links to the same ones.
        for place in (*(f.ref.uri for f in functions), *_links(walk, tree.pcie_devices[uri], 'Links', 'PCIeFunctions')):
            join(uri, shared.setdefault(place, uri))
    for uri, view in tree.adapters.items():
        for controller in view.parts('Controllers'):
            for link in _links(walk, controller, 'Links', 'PCIeDevices') if controller is not None else ():
                join(uri, link)
    _join_chassis(walk, groups)
    _join_card_bmcs(walk, devices, groups)
    return list({id(d): d for d in groups.values()}.values())


def _join_chassis(walk: Walk, groups: dict[str, Device]) -> None:
    """A chassis is a device when it is a card or module and everything in it is that one device."""
    tree = walk.tree
    residents: dict[str, set[str]] = {uri: set() for uri in tree.chassis}

    def lives(uri: str, chassis: str | None) -> None:
        if chassis in residents:
            residents[chassis].add(uri)

    for uri, view in tree.processors.items():
        lives(uri, _link(walk, view, 'Links', 'Chassis'))
    for table in (tree.pcie_devices, tree.adapters):
        for uri in table:
            lives(uri, parent(parent(uri)))
    for uri, view in tree.pcie_devices.items():
        for link in _links(walk, view, 'Links', 'Chassis'):
            lives(uri, link)
    for uri, view in tree.systems.items():
        if uri in groups:
            for link in _links(walk, view, 'Links', 'Chassis'):
                lives(uri, link)
    for uri, inside in residents.items():
        view = tree.chassis[uri]
        is_card = view.literal('ChassisType') in OWN_CHASSIS
        if not inside or not is_card:
            continue
        owners = list({id(groups[r]): groups[r] for r in inside if r in groups}.values())
        while len(owners) > 1 and not owners[0].clashes(owners[1]):
            other = owners.pop(1)
            owners[0].absorb(other)
            for moved in other.uris():
                groups[moved] = owners[0]
        if len(owners) == 1 and len(inside) == len([r for r in inside if r in groups]):
            owners[0].chassis[uri] = view
            groups[uri] = owners[0]


def _join_card_bmcs(walk: Walk, devices: Devices, groups: dict[str, Device]) -> None:
    """A card with a BMC of its own: its chassis contains chassis, a System and a Manager that are all this card."""
    tree = walk.tree
    for uri, view in tree.chassis.items():
        row = devices.by_name(view.text('Model'))
        if row is None or row.kind is not Class.DPU or view.literal('ChassisType') not in OWN_CHASSIS:
            continue
        card = groups.get(uri)
        if card is None:
            card = groups[uri] = Device()
            card.chassis[uri] = view
        for inner in _links(walk, view, 'Links', 'Contains'):
            if inner not in tree.chassis:
                continue
            other = groups.get(inner)
            if other is not None and other is not card:
                card.absorb(other)
                for moved in other.uris():
                    groups[moved] = card
            card.chassis[inner] = tree.chassis[inner]
            groups[inner] = card
        for system in _links(walk, view, 'Links', 'ComputerSystems'):
            other = groups.get(system)
            if other is not None and other is not card:
                card.absorb(other)
                for moved in other.uris():
                    groups[moved] = card
        for manager, body in tree.managers.items():
            if _link(walk, body, 'Links', 'ManagerInChassis') in card.chassis:
                card.managers[manager] = body
                groups[manager] = card


def _by_value(groups: list[Device], walk: Walk, devices: Devices) -> list[Device]:
    """Join groups that links leave apart: one UUID, or one serial number and one part number, model or name."""
    for keys in (_uuids, _serials):
        buckets: dict[object, list[Device]] = {}
        for device in groups:
            for name in keys(device):
                buckets.setdefault(name, []).append(device)
        gone: dict[int, Device] = {}
        for bucket in buckets.values():
            alive = list({id(d): d for d in (_follow(gone, device) for device in bucket)}.values())
            if len(alive) < 2 or not any(_kind(d, devices)[1] for d in alive):
                continue
            if any(a.clashes(b) for n, a in enumerate(alive) for b in alive[n + 1 :]):
                walk.gaps.append(Gap(ref=alive[0].primary.ref, reason=_REPEATED.format(others=_others(alive))))
                continue
            for other in alive[1:]:
                alive[0].absorb(other)
                gone[id(other)] = alive[0]
        groups = [d for d in groups if id(d) not in gone]
    return groups


_REPEATED = 'UUID or serial number is that of {others} too: they are taken for different devices'


def _others(devices: list[Device]) -> str:
    return ', '.join(d.primary.ref.uri for d in devices[1:4])


def _follow(gone: dict[int, Device], device: Device) -> Device:
    while id(device) in gone:
        device = gone[id(device)]
    return device


def _uuids(device: Device) -> set[object]:
    return {u for view in device.views() if (u := uuid_of(view, 'UUID'))}


def _serials(device: Device) -> set[object]:
    """Serial number with each text that says which product it is."""
    found: set[object] = set()
    for view in device.views():
        serial = serial_of(view)
        if serial is not None:
            texts = (view.text('PartNumber'), view.text('Model'), view.text('Name'))
            found |= {(serial.casefold(), t.casefold()) for t in texts if t and t.casefold() not in GENERIC_NAMES}
    return found


def _kind(device: Device, devices: Devices) -> tuple[Row | None, Kind | None]:
    """The table's row and the kind; no kind for what is no accelerator.

    PCI ids come first, then what the standard says (ProcessorType, SystemType), then the model's name, then the PCI class.
    """
    ids = [pci_ids(view) for view in device.functions]
    display = any(_class(view, code) in ('display', 'processing') for view, code in _classes(device))
    for known in ids:
        row = devices.by_pci(known.vendor_id, known.device_id, display=display)
        if row is not None:
            return row, row.kind.kind()
    named = next((row for text in device._names() if (row := devices.by_name(text))), None)
    said = Kind.DPU if device.systems else None
    for view in device.processors.values():
        said = said or PROCESSOR_KINDS.get(view.literal('ProcessorType') or '')
    if said is not None:
        return (named if named is not None and named.kind.kind() is said else None), said
    if named is not None and (device.pcie_devices or device.adapters or named.kind is Class.DPU):
        return named, named.kind.kind()
    classes = {_class(view, code) for view, code in _classes(device)}
    if 'processing' in classes:
        return None, Kind.ASIC
    if '3d' in classes:
        return None, Kind.GPU
    return None, None


def _classes(device: Device) -> list[tuple[View, str | None]]:
    return [(view, pci_ids(view).class_code) for view in device.functions]


def _class(view: View, code: str | None) -> str | None:
    """``display``, ``3d`` or ``processing``, by ClassCode or, where that is absent or odd, by DeviceClass.

    A 3D controller has no video output: it computes. Source: PCI Code and ID Assignment Specification, class codes 03h and 12h.
    """
    if code is not None:
        if code.startswith('0x0302'):
            return '3d'
        return {'0x03': 'display', '0x12': 'processing'}.get(code[:4])
    return {'DisplayController': 'display', 'ProcessingAccelerators': 'processing'}.get(view.literal('DeviceClass') or '')


def _is_dpu(view: View, devices: Devices) -> bool:
    row = devices.by_name(view.text('Model'))
    return view.literal('SystemType') == 'DPU' or (row is not None and row.kind is Class.DPU)


def _is_baseboard(device: Device, tree: Tree) -> bool:
    """An FPGA that shows no model, no number, no PCIe device and nothing to program manages the baseboard.

    The standard has no word for it. Seen: recordings/nvidia/gh200, FPGA_0, whose FPGA object has FpgaType alone.
    """
    if device.kind is not Kind.FPGA or not device.processors or device.pcie_devices or device.adapters:
        return False
    for uri, view in device.processors.items():
        fpga = view.part('FPGA')
        shown = [
            view.text('Model'),
            serial_of(view),
            view.text('PartNumber'),
            uuid_of(view, 'UUID'),
            tree.acceleration.get(uri),
        ]
        if fpga is not None:
            shown += [fpga.body.get(name) for name in ('ReconfigurationSlots', 'ProgrammableFromHost', 'FirmwareId', 'Model')]
        if any(value is not None and value != () for value in shown):
            return False
    return True


def _complete(device: Device, walk: Walk) -> None:
    """Add the resources that are the device too, but tell nothing more of it."""
    tree = walk.tree
    found: set[str | None] = set()
    for f in device.functions:
        found |= {f.ref.uri, *_links(walk, f, 'Links', 'EthernetInterfaces')}
        found |= {p for uri in f.below('Oem') if (p := walk.place(uri)) is not None and within(p, f.ref.uri)}
    for view in tree.interfaces.values():
        if _link(walk, view, 'Links', 'NetworkAdapter') in device.adapters:
            found.add(view.ref.uri)
    for view in device.adapters.values():
        for controller in view.parts('Controllers'):
            found |= set(_links(walk, controller, 'Links', 'NetworkDeviceFunctions')) if controller is not None else set()
    for uri, view in device.systems.items():
        found |= {p for link in view.below('Oem') if (p := walk.place(link)) is not None and within(p, uri)}
    device.extra |= {uri for uri in found if uri is not None}


def _link(walk: Walk, view: View, *path: str) -> str | None:
    uri = view.link(*path)
    return walk.place(uri) if uri is not None else None


def _links(walk: Walk, view: View, *path: str) -> tuple[str, ...]:
    return tuple(place for uri in view.links(*path) if (place := walk.place(uri)) is not None)


def _bare(uri: str) -> str:
    return uri.partition('#')[0].rstrip('/')
