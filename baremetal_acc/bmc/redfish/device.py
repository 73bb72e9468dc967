# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""One physical accelerator card as the sum of its Redfish resources: kind, vendor, model, serial number, PCI ids, health.

A card may be shown as Processor, PCIeDevice with PCIeFunctions, NetworkAdapter, GraphicsController, Chassis, ComputerSystem and
Manager; each resource has some of its properties. :mod:`.device_correlation` decides which resources are one device.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from baremetal_acc.bmc.device_ids import DeviceRow, Devices
from baremetal_acc.bmc.redfish.discovered_tree import DiscoveredTree
from baremetal_acc.bmc.redfish.discovery import Discovery
from baremetal_acc.bmc.redfish.parse import ResourceView, last, parent, serial_of, state_of, uuid_of, version_of
from baremetal_acc.bmc.redfish.pcie_function import base_class, pci_ids
from baremetal_acc.model.accelerator import COMPUTATIONAL_STORAGE, Function, Kind, MergeBasis, PciIds
from baremetal_acc.model.firmware import Component

OWN_CHASSIS = frozenset({'Card', 'Module', 'Component', 'Cartridge'})
"""ChassisType of a chassis that may be one device; other types are enclosures."""

PROCESSOR_KINDS = {'GPU': Kind.GPU, 'FPGA': Kind.FPGA, 'DSP': Kind.ASIC, 'Accelerator': Kind.ASIC}
"""ProcessorType to Kind. Source: DSP8010 2025.4, Processor v1_22_0."""

GENERIC_NAMES = frozenset({
    'processor', 'gpu', 'fpga', 'pcie device', 'pciedevices', 'networkadapter', 'network adapter', 'network adapter view',
    'adapter',
})  # fmt: skip
"""Names that do not tell a model."""

ORDINAL = re.compile(r'(?:^|[_.-])(?P<word>GPU|FPGA|DPU)(?:[_-][A-Za-z]+)?[_-]?(?P<number>[0-9]{1,3})$', re.IGNORECASE)
"""Kind and number at the end of an Id: ``GPU1``, ``GPU_0``, ``HGX_FW_GPU_SXM_1``."""

SLOT_ID = re.compile(r'(?:^|[._ -])Slot[._ -]?(?P<number>[0-9]{1,3})(?![0-9])', re.IGNORECASE)
"""Slot number in an Id: ``NIC.Slot.5-1``, ``slot_3``."""

TABLES = ('processors', 'pcie_devices', 'adapters', 'graphics', 'systems')
"""Tables of the tree whose members are devices, the most informative first."""

T = TypeVar('T')


class worked_out(Generic[T]):  # noqa: N801 (used as a decorator)
    """A cached property: functools.cached_property without the lock that it takes in Python 3.11."""

    def __init__(self, function: Callable[[Any], T]) -> None:
        self._function = function
        self._name = function.__name__
        self.__doc__ = function.__doc__

    def __get__(self, device: Any, owner: type | None = None) -> T:
        found = device.__dict__[self._name] = self._function(device)
        return found


class Joint(NamedTuple):
    """Why resources are one device, and the URIs of the resources that show it."""

    basis: MergeBasis
    uris: tuple[str, ...]


@dataclass(kw_only=True, eq=False)
class Device:
    """One physical device while its resources are being joined.

    Cached properties are computed once, and again after the device has taken over another one's resources.

    :ivar processors: its Processors by URI; ``pcie_devices`` to ``extensions`` likewise.
    :ivar alone: OEM extension resources of a device that no standard resource shows.
    :ivar functions: its PCIeFunctions.
    :ivar extra: URIs of further resources that are this device: functions, interfaces, extensions, drives.
    :ivar joints: why its resources are one device.
    :ivar kind: the kind of accelerator, None if it is none.
    :ivar row: its row in the table of devices, if it has one.
    """

    processors: dict[str, ResourceView] = field(default_factory=dict)
    pcie_devices: dict[str, ResourceView] = field(default_factory=dict)
    adapters: dict[str, ResourceView] = field(default_factory=dict)
    graphics: dict[str, ResourceView] = field(default_factory=dict)
    chassis: dict[str, ResourceView] = field(default_factory=dict)
    systems: dict[str, ResourceView] = field(default_factory=dict)
    managers: dict[str, ResourceView] = field(default_factory=dict)
    extensions: dict[str, ResourceView] = field(default_factory=dict)
    alone: dict[str, ResourceView] = field(default_factory=dict)
    functions: tuple[ResourceView, ...] = ()
    extra: set[str] = field(default_factory=set)
    joints: list[Joint] = field(default_factory=list)
    kind: Kind | None = None
    row: DeviceRow | None = None

    def uris(self) -> set[str]:
        """URIs of all its resources."""
        tables = (*(getattr(self, name) for name in TABLES), self.chassis, self.managers, self.extensions)
        return {uri for table in tables for uri in table} | self.extra

    @worked_out
    def views(self) -> tuple[ResourceView, ...]:
        """Its resources, the most informative first."""
        return (
            *self.processors.values(), *self.pcie_devices.values(), *self.main_chassis, *self.systems.values(),
            *self.adapters.values(), *self.graphics.values(), *self.alone.values(),
        )  # fmt: skip

    @worked_out
    def primary(self) -> ResourceView:
        """The resource under which the device is shown."""
        tables: tuple[Iterable[ResourceView], ...] = (
            self.processors.values(), self.main_chassis if self.systems or self.managers else (), self.pcie_devices.values(),
            self.adapters.values(), self.graphics.values(), self.chassis.values(), self.systems.values(), self.alone.values(),
        )  # fmt: skip
        return next(view for table in tables for view in table)

    @worked_out
    def main_chassis(self) -> tuple[ResourceView, ...]:
        """Its chassis that are not contained in another chassis of this device."""
        if not self.chassis:
            return ()
        inner = {_bare(uri) for view in self.chassis.values() for uri in view.links('Links', 'Contains')}
        return tuple(view for uri, view in self.chassis.items() if uri not in inner)

    @worked_out
    def serial(self) -> str | None:
        """The first serial number among its resources."""
        return next((s for view in self.views if (s := serial_of(view))), None)

    @worked_out
    def uuids(self) -> tuple[str, ...]:
        """All UUIDs. Chassis within the card are left out: roots of trust have UUIDs that are constants of the product."""
        return tuple(dict.fromkeys(u for view in self.views if view.has('UUID') and (u := uuid_of(view, 'UUID'))))

    @property
    def uuid(self) -> str | None:
        """The first UUID."""
        return self.uuids[0] if self.uuids else None

    @worked_out
    def part_number(self) -> str | None:
        """The first part number among its resources."""
        return next((p for view in self.views if (p := view.text('PartNumber'))), None)

    @worked_out
    def ids(self) -> tuple[PciIds, ...]:
        """The PCI ids of its functions."""
        return tuple(pci_ids(view) for view in self.functions)

    @property
    def pci(self) -> PciIds:
        """PCI ids of its main function: the first with ids that is a display, 3D or processing one, else the first with ids."""
        computes = [ids for ids, word in zip(self.ids, self.classes, strict=True) if word is not None]
        known = [ids for ids in self.ids if ids.vendor_id]
        return next(iter([*(ids for ids in computes if ids.vendor_id), *known, *self.ids]), PciIds())

    @worked_out
    def classes(self) -> tuple[str | None, ...]:
        """The class of each function: ``3d``, ``display``, ``processing``, or None."""
        return tuple(_class(view, ids.class_code) for view, ids in zip(self.functions, self.ids, strict=True))

    @worked_out
    def location(self) -> str | None:
        """Where it is plugged in.

        ServiceLabel comes first, then the Location of an extension, then LocationType and number, then the slot number in its
        URIs.
        """
        # An extension whose Location is a text is left out here, so that no gap is noted; it is read below.
        texts = {uri for uri, view in self.extensions.items() if extension_text(view, 'Location') is not None}
        views = [view for view in self.views if view.ref.uri not in texts]
        for adapter in self.adapters.values():
            views += [controller for controller in adapter.parts('Controllers') if controller is not None]
        for where in (label_of, _position):
            found = next((label for view in views if (label := where(view))), None)
            if found is not None:
                return found
            if where is label_of and (label := next(filter(None, map(_extension_place, self.extensions.values())), None)):
                return label
        uris = (*self.processors, *self.pcie_devices, *self.adapters, *self.extensions)
        numbers = {match['number'] for uri in uris if (match := SLOT_ID.search(last(uri)[-64:]))}
        return f'Slot {numbers.pop()}' if len(numbers) == 1 else None

    @property
    def health(self) -> str | None:
        """The worst Status.Health of its resources."""
        return _worst(view.literal('Status', 'Health') for view in self.views)

    @property
    def health_rollup(self) -> str | None:
        """The worst Status.HealthRollup of its resources."""
        return _worst(view.literal('Status', 'HealthRollup') for view in self.views)

    @property
    def state(self) -> str | None:
        """The first Status.State of its resources, beginning with the primary."""
        return next((state for view in (self.primary, *self.views) if (state := state_of(view))), None)

    def traits(self, devices: Devices) -> frozenset[str]:
        """The traits of its row and of its PCI ids in the table of devices; and COMPUTATIONAL_STORAGE if it is a drive too."""
        traits = self.row.traits if self.row is not None else frozenset()
        if self.kind is not None:
            traits |= devices.traits(self.kind, self.pci.vendor_id, self.pci.device_id)
        return traits | {COMPUTATIONAL_STORAGE} if any(map(_stores, self.functions)) else traits

    def model(self, devices: Devices) -> str | None:
        """The model: the one in the table of devices, else the first text that the table knows, else the first other text.

        Part numbers and generic names are left out.
        """
        if self.row is not None and self.row.model is not None:
            return self.row.model
        known = next((t for t in self.names if devices.by_name(t)), None)
        parts = {self.part_number}
        return known or next((t for t in self.names if t not in parts and t.casefold() not in GENERIC_NAMES), None)

    def vendor(self, devices: Devices) -> str | None:
        """The vendor: from the table of devices, else the BMC's Manufacturer in the table's spelling."""
        if self.row is not None and self.row.vendor is not None:
            return self.row.vendor
        return next((devices.vendor(v) for view in self.views if (v := view.text('Manufacturer'))), None)

    @worked_out
    def names(self) -> tuple[str, ...]:
        """Texts that may be its model: every Model, then the Names of processors and cards."""
        models = [view.text('Model') for view in self.views]
        named = (*self.processors.values(), *self.pcie_devices.values(), *self.graphics.values(), *self.alone.values())
        return tuple(filter(None, (*models, *[view.text('Name') for view in named])))

    def recognise(self, devices: Devices) -> Kind | None:
        """Set ``row`` and ``kind`` from the table of devices and the standard properties."""
        self.row, self.kind = _kind(self, devices)
        return self.kind

    def add_functions(self, functions: Iterable[ResourceView], devices: Devices) -> bool:
        """Take over functions that an extension shows, if the device has none itself.

        :returns: False if the device would be no accelerator with them: they are another device's, and are not taken over.
        """
        if self.functions:
            return True
        row, kind = self.row, self.kind
        self._show(tuple(functions))
        if self.recognise(devices) is not None or kind is None:
            return True
        self._show(())
        self.row, self.kind = row, kind
        return False

    def _show(self, functions: tuple[ResourceView, ...]) -> None:
        """Replace the functions, and discard cached properties."""
        self.functions = functions
        for name in _WORKED_OUT:
            self.__dict__.pop(name, None)

    def absorb(self, *others: 'Device', by: Joint) -> None:
        """Take over the resources of other devices, for a reason. Extensions are assigned later."""
        self.joints.append(by)
        functions = {f.ref: f for f in self.functions}
        for other in others:
            for name in (*TABLES, 'chassis', 'managers'):
                getattr(self, name).update(getattr(other, name))
            for f in other.functions:
                functions.setdefault(f.ref, f)
            self.extra |= other.extra
            self.joints += other.joints
        self.functions = tuple(functions.values())
        for name in _WORKED_OUT:
            self.__dict__.pop(name, None)

    def collections(self) -> set[str]:
        """The collections of which it is a member."""
        return {parent(uri) for name in TABLES for uri in getattr(self, name)}


_WORKED_OUT = tuple(name for name, value in vars(Device).items() if isinstance(value, worked_out))


def functions_of(device: Device, tree: DiscoveredTree) -> tuple[Function, ...]:
    """The AccelerationFunctions of a device."""
    return tuple(function(view) for uri in device.processors for view in tree.acceleration.get(uri, ()))


def function(view: ResourceView) -> Function:
    """Parse an AccelerationFunction. Source: DSP8010 2025.4, AccelerationFunction v1_0_5."""
    return Function(
        ref=view.ref,
        id=view.id,
        name=view.text('Name'),
        type=view.literal('AccelerationFunctionType'),
        uuid=uuid_of(view, 'UUID'),
        version=version_of(view, 'Version'),
        manufacturer=view.text('Manufacturer'),
        state=state_of(view),
        health=view.literal('Status', 'Health'),
    )


def own_version(device: Device) -> Component | None:
    """The firmware version in the device's own resources, for BMCs without a SoftwareInventory item for it.

    Source: DSP8010 2025.4: Processor.FirmwareVersion, Processor.FPGA.FirmwareVersion (deprecated), PCIeDevice.FirmwareVersion
    and StagedVersion, NetworkAdapter.Controllers[].FirmwarePackageVersion, GraphicsController.BiosVersion.
    """
    staged = staged_version(device)
    for view in (*device.processors.values(), *device.pcie_devices.values()):
        version = version_of(view, 'FirmwareVersion') or version_of(view, 'FPGA', 'FirmwareVersion')
        if version is not None:
            return Component(id=None, ref=view.ref, version=version, staged=staged)
    for view in device.extensions.values():
        version = extension_text(view, 'FirmwareVersion')
        if version is not None:
            return Component(id=None, ref=view.ref, version=version, staged=staged)
    for view in device.graphics.values():
        version = version_of(view, 'BiosVersion')
        if version is not None:
            return Component(id=None, ref=view.ref, version=version, staged=staged)
    for view in device.adapters.values():
        for controller in view.parts('Controllers'):
            if controller is not None and (version := version_of(controller, 'FirmwarePackageVersion')):
                return Component(id=None, ref=view.ref, version=version, staged=staged, certain=not device.processors)
    if staged is not None:
        return Component(id=None, ref=next(iter(device.pcie_devices.values())).ref, staged=staged)
    return None


def staged_version(device: Device) -> str | None:
    """PCIeDevice.StagedVersion: the version that becomes active later."""
    return next((s for view in device.pcie_devices.values() if (s := version_of(view, 'StagedVersion'))), None)


def extension_text(view: ResourceView, name: str) -> str | None:
    """A text property of an extension resource; None, without a gap, if vendors use an object for that name."""
    return view.literal(name) if isinstance(view.body.get(name), str) else None


def ordinal(text: str) -> tuple[str, int] | None:
    """Kind and number at the end of an Id, None if it has none."""
    match = ORDINAL.search(text[-64:])
    return (match['word'].upper(), int(match['number'])) if match else None


def _kind(device: Device, devices: Devices) -> tuple[DeviceRow | None, Kind | None]:
    """The row in the table of devices, and the kind; None for a device that is no accelerator.

    PCI ids come first, then standard properties (ProcessorType, SystemType), then the model's name, then the PCI class.
    """
    display = any(device.classes)
    rows = [row for i in device.ids if (row := devices.by_pci(i.vendor_id, i.device_id, display=display)) is not None]
    if rows:
        row = next((row for row in rows if row.kind is not None), rows[0])
        return row, row.kind
    named = next((row for text in (*device.names, *_full_names(device, devices)) if (row := devices.by_name(text))), None)
    if named is not None and named.kind is None:
        return named, None
    said = Kind.DPU if device.systems else None
    for view in device.processors.values():
        said = said or PROCESSOR_KINDS.get(view.literal('ProcessorType') or '')
    if said is None and device.processors and device.adapters:
        said = Kind.NIC
    if said is Kind.ASIC and named is not None:
        # ProcessorType Accelerator is generic: a Dell XE9680 uses it for its MI300X, which is a GPU.
        return named, named.kind
    if said is not None:
        return (named if named is not None and named.kind is said else None), said
    if named is not None and _may_be(device, named):
        return named, named.kind
    if 'processing' in device.classes:
        return None, Kind.ASIC
    if '3d' in device.classes:
        return None, Kind.GPU
    return None, None


def _full_names(device: Device, devices: Devices) -> Iterator[str]:
    """Manufacturer and Model as one text, for BMCs whose Model lacks the vendor: NVIDIA, A100."""
    for view in (*device.processors.values(), *device.pcie_devices.values(), *device.graphics.values()):
        model, maker = view.text('Model'), view.text('Manufacturer')
        if model and maker:
            yield f'{devices.vendor(maker)} {model}'


def _may_be(device: Device, named: DeviceRow) -> bool:
    """Whether a name in the table of devices counts for this device.

    It does not if all functions are bridges: switches are named after what they carry.
    """
    if named.kind is Kind.DPU:
        return True
    bases = [_base(view, i.class_code) for view, i in zip(device.functions, device.ids, strict=True)]
    if bases and all(base == 0x06 for base in bases):
        return False
    if any(view.has('Switch') for view in _link_parts(device)):
        return False
    return bool(device.processors or device.pcie_devices or device.adapters or device.graphics or device.alone)


def _link_parts(device: Device) -> Iterator[ResourceView]:
    for view in device.pcie_devices.values():
        links = view.part('Links')
        if links is not None:
            yield links


def _class(view: ResourceView, code: str | None) -> str | None:
    """``display``, ``3d`` or ``processing``, by ClassCode or, where that is absent or malformed, by DeviceClass.

    A 3D controller has no video output: it computes. Source: PCI Code and ID Assignment Specification, class codes 03h and 12h.
    """
    if code is not None and code.startswith('0x0302'):
        return '3d'
    base = _base(view, code)
    return None if base is None else _WORDS.get(base)


_WORDS = {0x03: 'display', 0x12: 'processing'}

_BASES = {
    'DisplayController': 0x03,
    'ProcessingAccelerators': 0x12,
    'MassStorageController': 0x01,
    'NetworkController': 0x02,
    'Bridge': 0x06,
}
"""DeviceClass to PCI base class, for the classes that matter here. Source: DSP8010 2025.4, PCIeFunction v1_7_0."""


def _base(view: ResourceView, code: str | None) -> int | None:
    """The PCI base class by ClassCode, else by DeviceClass."""
    base = int(code[2:4], 16) if code is not None else base_class(view)
    return base or _BASES.get(view.literal('DeviceClass') or '')


def _stores(view: ResourceView) -> bool:
    """Whether a function is a storage controller, or has drives."""
    if _base(view, pci_ids(view).class_code) == 0x01:
        return True
    return bool(view.links('Links', 'Drives') or view.links('Links', 'StorageControllers'))


def is_dpu(view: ResourceView, devices: Devices) -> bool:
    """Whether a System is that of a DPU. Real DPUs have SystemType Physical; their Model tells."""
    row = devices.by_name(view.text('Model'))
    return view.literal('SystemType') == 'DPU' or (row is not None and row.kind is Kind.DPU)


def label_of(view: ResourceView) -> str | None:
    """ServiceLabel of a resource's location, after its PartLocationContext, as modules may have the same labels.

    Source: DSP8010 2025.4, Resource.PartLocationContext.
    """
    for path in (('Location',), ('Slot', 'Location'), ('PhysicalLocation',)):
        if path[0] in view.body and (label := view.text(*path, 'PartLocation', 'ServiceLabel')):
            context = view.text(*path, 'PartLocationContext')
            return label if context is None else f'{context}, {label}'
    return None


def _position(view: ResourceView) -> str | None:
    """LocationType and LocationOrdinalValue, for a location without a label: ``Slot 3``."""
    for path in (('Location',), ('Slot', 'Location'), ('PhysicalLocation',)):
        place = view.part(*path, 'PartLocation') if path[0] in view.body else None
        if place is not None and (number := place.integer('LocationOrdinalValue')) is not None:
            return f'{place.text("LocationType") or "Place"} {number}'
    return None


def _extension_place(view: ResourceView) -> str | None:
    return extension_text(view, 'Location')


def _worst(said: Iterable[str | None]) -> str | None:
    """The worst health word: an OK of one resource of a card does not cancel the Critical of another."""
    return max((word for word in said if word is not None), key=lambda word: _HEALTH.get(word, 0), default=None)


_HEALTH = {'OK': 1, 'Warning': 2, 'Critical': 3}
"""Severity of each health word; an unknown word counts least. Source: DSP8010 2025.4, Resource.Health."""


def link_of(walk: Discovery, view: ResourceView, *path: str) -> str | None:
    """A link as a key of the tree's tables; None if it leads off the BMC."""
    uri = view.link(*path)
    return walk.settled(uri) if uri is not None else None


def links_of(walk: Discovery, view: ResourceView, *path: str) -> tuple[str, ...]:
    """An array of links as keys of the tree's tables, without those that lead off the BMC."""
    return tuple(place for uri in view.links(*path) if (place := walk.settled(uri)) is not None)


def _bare(uri: str) -> str:
    return uri.partition('#')[0].rstrip('/')
