# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Tell what the resources of one physical device say of it together, and what kind of device it is.

A card is shown as Processor, as PCIeDevice with its functions, as NetworkAdapter, as GraphicsController, as Chassis, as System
and Manager: each says a part. Which of them are one device is decided in :mod:`.join`.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from baremetal_acc.bmc.devices import Devices, Row
from baremetal_acc.bmc.redfish.parse import View, base_class, last, parent, pci_ids, serial_of, state_of, uuid_of, version_of
from baremetal_acc.bmc.redfish.walk import Tree, Walk
from baremetal_acc.model.accelerator import COMPUTATIONAL_STORAGE, Function, Kind, MergeBasis, PciIds
from baremetal_acc.model.firmware import Component

OWN_CHASSIS = frozenset({'Card', 'Module', 'Component', 'Cartridge'})
"""ChassisType of what may be one device; the others are enclosures."""

PROCESSOR_KINDS = {'GPU': Kind.GPU, 'FPGA': Kind.FPGA, 'DSP': Kind.ASIC, 'Accelerator': Kind.ASIC}
"""ProcessorType to Kind. Source: DSP8010 2025.4, Processor v1_22_0."""

GENERIC_NAMES = frozenset({
    'processor', 'gpu', 'fpga', 'pcie device', 'pciedevices', 'networkadapter', 'network adapter', 'network adapter view',
    'adapter',
})  # fmt: skip
"""Names that say nothing about a model."""

ORDINAL = re.compile(r'(?:^|[_.-])(?P<word>GPU|FPGA|DPU)(?:[_-][A-Za-z]+)?[_-]?(?P<number>[0-9]{1,3})$', re.IGNORECASE)
"""``GPU1``, ``GPU_0``, ``HGX_FW_GPU_SXM_1``."""

SLOT_ID = re.compile(r'(?:^|[._ -])Slot[._ -]?(?P<number>[0-9]{1,3})(?![0-9])', re.IGNORECASE)
"""``NIC.Slot.5-1``, ``slot_3``: Ids that name the slot."""

TABLES = ('processors', 'pcie_devices', 'adapters', 'graphics', 'systems')
"""Tables of the tree whose members are devices, those that tell most of them first."""

T = TypeVar('T')


class worked_out(Generic[T]):  # noqa: N801 (used as a decorator)
    """A property that is worked out once. As functools.cached_property, without the lock that it takes in Python 3.11."""

    def __init__(self, function: Callable[[Any], T]) -> None:
        self._function = function
        self._name = function.__name__
        self.__doc__ = function.__doc__

    def __get__(self, device: Any, owner: type | None = None) -> T:
        found = device.__dict__[self._name] = self._function(device)
        return found


class Joint(NamedTuple):
    """Why resources are one device, and the URIs of those that say it."""

    basis: MergeBasis
    uris: tuple[str, ...]


@dataclass(kw_only=True, eq=False)
class Device:
    """One physical device while it is put together.

    What is asked of it is worked out once, until it takes over another one.

    :ivar alone: extensions that are all that shows it.
    :ivar extra: URIs of further resources that are this device: functions, interfaces, extensions, drives.
    :ivar joints: what made one device of its resources.
    """

    processors: dict[str, View] = field(default_factory=dict)
    pcie_devices: dict[str, View] = field(default_factory=dict)
    adapters: dict[str, View] = field(default_factory=dict)
    graphics: dict[str, View] = field(default_factory=dict)
    chassis: dict[str, View] = field(default_factory=dict)
    systems: dict[str, View] = field(default_factory=dict)
    managers: dict[str, View] = field(default_factory=dict)
    extensions: dict[str, View] = field(default_factory=dict)
    alone: dict[str, View] = field(default_factory=dict)
    functions: tuple[View, ...] = ()
    extra: set[str] = field(default_factory=set)
    joints: list[Joint] = field(default_factory=list)
    kind: Kind | None = None
    row: Row | None = None

    def uris(self) -> set[str]:
        """All resources of it."""
        tables = (*(getattr(self, name) for name in TABLES), self.chassis, self.managers, self.extensions)
        return {uri for table in tables for uri in table} | self.extra

    @worked_out
    def views(self) -> tuple[View, ...]:
        """Its resources, those that tell most of it first."""
        return (
            *self.processors.values(), *self.pcie_devices.values(), *self.main_chassis, *self.systems.values(),
            *self.adapters.values(), *self.graphics.values(), *self.alone.values(),
        )  # fmt: skip

    @worked_out
    def primary(self) -> View:
        """The resource to show."""
        tables: tuple[Iterable[View], ...] = (
            self.processors.values(), self.main_chassis if self.systems or self.managers else (), self.pcie_devices.values(),
            self.adapters.values(), self.graphics.values(), self.chassis.values(), self.systems.values(), self.alone.values(),
        )  # fmt: skip
        return next(view for table in tables for view in table)

    @worked_out
    def main_chassis(self) -> tuple[View, ...]:
        """Chassis that are not contained in another one of this device."""
        if not self.chassis:
            return ()
        inner = {_bare(uri) for view in self.chassis.values() for uri in view.links('Links', 'Contains')}
        return tuple(view for uri, view in self.chassis.items() if uri not in inner)

    @worked_out
    def serial(self) -> str | None:
        """The first serial number that one of its resources has."""
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
        """The first part number."""
        return next((p for view in self.views if (p := view.text('PartNumber'))), None)

    @worked_out
    def ids(self) -> tuple[PciIds, ...]:
        """The ids of its functions."""
        return tuple(pci_ids(view) for view in self.functions)

    @property
    def pci(self) -> PciIds:
        """Ids of the function that says what it is: one that the table knows, else one that computes, else the first."""
        computes = [ids for ids, word in zip(self.ids, self.classes, strict=True) if word is not None]
        known = [ids for ids in self.ids if ids.vendor_id]
        return next(iter([*(ids for ids in computes if ids.vendor_id), *known, *self.ids]), PciIds())

    @worked_out
    def classes(self) -> tuple[str | None, ...]:
        """Of each function: ``3d``, ``display``, ``processing``, or None."""
        return tuple(_class(view, ids.class_code) for view, ids in zip(self.functions, self.ids, strict=True))

    @worked_out
    def location(self) -> str | None:
        """Where it is plugged in, as the BMC labels it."""
        # Where an extension has a text for its place, that is not odd; it is read below.
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
        """Status.Health, the worst that one of its resources gives."""
        return _worst(view.literal('Status', 'Health') for view in self.views)

    @property
    def health_rollup(self) -> str | None:
        """Status.HealthRollup, the worst that one of its resources gives."""
        return _worst(view.literal('Status', 'HealthRollup') for view in self.views)

    @property
    def state(self) -> str | None:
        """Status.State of the first of its resources that has one; the one that is shown comes first."""
        return next((state for view in (self.primary, *self.views) if (state := state_of(view))), None)

    def traits(self, devices: Devices) -> frozenset[str]:
        """Those of the table, of its row and of its PCI ids; and one for a device that is a drive too."""
        traits = self.row.traits if self.row is not None else frozenset()
        if self.kind is not None:
            traits |= devices.traits(self.kind, self.pci.vendor_id, self.pci.device_id)
        return traits | {COMPUTATIONAL_STORAGE} if any(map(_stores, self.functions)) else traits

    def model(self, devices: Devices) -> str | None:
        """The model: the table's name, else the text that the table knows, else the first that is no part number."""
        if self.row is not None and self.row.model is not None:
            return self.row.model
        known = next((t for t in self.names if devices.by_name(t)), None)
        parts = {self.part_number}
        return known or next((t for t in self.names if t not in parts and t.casefold() not in GENERIC_NAMES), None)

    def vendor(self, devices: Devices) -> str | None:
        """The vendor: the table's, else the BMC's text as the table writes it."""
        if self.row is not None and self.row.vendor is not None:
            return self.row.vendor
        return next((devices.vendor(v) for view in self.views if (v := view.text('Manufacturer'))), None)

    @worked_out
    def names(self) -> tuple[str, ...]:
        """What may be its model: every Model, then the names of processors and cards."""
        models = [view.text('Model') for view in self.views]
        named = (*self.processors.values(), *self.pcie_devices.values(), *self.graphics.values(), *self.alone.values())
        return tuple(filter(None, (*models, *[view.text('Name') for view in named])))

    def recognise(self, devices: Devices) -> Kind | None:
        """Work out row and kind."""
        self.row, self.kind = _kind(self, devices)
        return self.kind

    def add_functions(self, functions: Iterable[View], devices: Devices) -> bool:
        """Take over functions that are shown elsewhere, where it has none itself.

        :returns: False: by them it would be no accelerator; they are another device's, and are not taken.
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

    def _show(self, functions: tuple[View, ...]) -> None:
        """Have these functions."""
        self.functions = functions
        for name in _WORKED_OUT:
            self.__dict__.pop(name, None)

    def absorb(self, *others: 'Device', by: Joint) -> None:
        """Take over everything of others, for a reason."""
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
        """The collections that it is a member of."""
        return {parent(uri) for name in TABLES for uri in getattr(self, name)}


_WORKED_OUT = tuple(name for name, value in vars(Device).items() if isinstance(value, worked_out))


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
        state=state_of(view),
        health=view.literal('Status', 'Health'),
    )


def own_version(device: Device) -> Component | None:
    """The version that the device's own resources show, for BMCs without an item for it.

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
    """PCIeDevice.StagedVersion: what the card will run."""
    return next((s for view in device.pcie_devices.values() if (s := version_of(view, 'StagedVersion'))), None)


def extension_text(view: View, name: str) -> str | None:
    """A text of an extension resource; vendors give some names objects instead, and that is not odd."""
    return view.literal(name) if isinstance(view.body.get(name), str) else None


def ordinal(text: str) -> tuple[str, int] | None:
    """Word and number at the end of an Id."""
    match = ORDINAL.search(text[-64:])
    return (match['word'].upper(), int(match['number'])) if match else None


def _kind(device: Device, devices: Devices) -> tuple[Row | None, Kind | None]:
    """The table's row and the kind; no kind for what is no accelerator.

    PCI ids come first, then what the standard says (ProcessorType, SystemType), then the model's name, then the PCI class.
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
        # Accelerator is a word for all of them: a Dell XE9680 calls its MI300X so.
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
    """Models with their maker, for BMCs that write the maker beside the model and not into it: NVIDIA, A100."""
    for view in (*device.processors.values(), *device.pcie_devices.values(), *device.graphics.values()):
        model, maker = view.text('Model'), view.text('Manufacturer')
        if model and maker:
            yield f'{devices.vendor(maker)} {model}'


def _may_be(device: Device, named: Row) -> bool:
    """A name counts for a card, unless its functions say that it is a bridge: switches are named after what they carry."""
    if named.kind is Kind.DPU:
        return True
    bases = [_base(view, i.class_code) for view, i in zip(device.functions, device.ids, strict=True)]
    if bases and all(base == 0x06 for base in bases):
        return False
    if any(view.has('Switch') for view in _link_parts(device)):
        return False
    return bool(device.processors or device.pcie_devices or device.adapters or device.graphics or device.alone)


def _link_parts(device: Device) -> Iterator[View]:
    for view in device.pcie_devices.values():
        links = view.part('Links')
        if links is not None:
            yield links


def _class(view: View, code: str | None) -> str | None:
    """``display``, ``3d`` or ``processing``, by ClassCode or, where that is absent or odd, by DeviceClass.

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
"""DeviceClass to base class, as far as they matter here. Source: DSP8010 2025.4, PCIeFunction v1_7_0."""


def _base(view: View, code: str | None) -> int | None:
    """The base class by ClassCode, else by DeviceClass."""
    base = int(code[2:4], 16) if code is not None else base_class(view)
    return base or _BASES.get(view.literal('DeviceClass') or '')


def _stores(view: View) -> bool:
    """A function that is a storage controller, or has drives."""
    if _base(view, pci_ids(view).class_code) == 0x01:
        return True
    return bool(view.links('Links', 'Drives') or view.links('Links', 'StorageControllers'))


def is_dpu(view: View, devices: Devices) -> bool:
    """The System is that of a card. Real DPUs call themselves Physical; their model tells them."""
    row = devices.by_name(view.text('Model'))
    return view.literal('SystemType') == 'DPU' or (row is not None and row.kind is Kind.DPU)


def label_of(view: View) -> str | None:
    """ServiceLabel of the place that a resource says it is in, with what that is in: modules label their places alike.

    Source: DSP8010 2025.4, Resource.PartLocationContext.
    """
    for path in (('Location',), ('Slot', 'Location'), ('PhysicalLocation',)):
        if path[0] in view.body and (label := view.text(*path, 'PartLocation', 'ServiceLabel')):
            context = view.text(*path, 'PartLocationContext')
            return label if context is None else f'{context}, {label}'
    return None


def _position(view: View) -> str | None:
    """Type and number of the place, where it has no label: ``Slot 3``."""
    for path in (('Location',), ('Slot', 'Location'), ('PhysicalLocation',)):
        place = view.part(*path, 'PartLocation') if path[0] in view.body else None
        if place is not None and (number := place.integer('LocationOrdinalValue')) is not None:
            return f'{place.text("LocationType") or "Place"} {number}'
    return None


def _extension_place(view: View) -> str | None:
    return extension_text(view, 'Location')


def _worst(said: Iterable[str | None]) -> str | None:
    """One resource of a card that says OK does not make the Critical of another go away."""
    return max((word for word in said if word is not None), key=lambda word: _HEALTH.get(word, 0), default=None)


_HEALTH = {'OK': 1, 'Warning': 2, 'Critical': 3}
"""Source: DSP8010 2025.4, Resource.Health. A word that nobody knows says less than one that is known."""


def link_of(walk: Walk, view: View, *path: str) -> str | None:
    """A link as the keys of the tree's tables are written; None when it leads off the BMC."""
    uri = view.link(*path)
    return walk.settled(uri) if uri is not None else None


def links_of(walk: Walk, view: View, *path: str) -> tuple[str, ...]:
    """An array of links likewise; those that lead off the BMC are left out."""
    return tuple(place for uri in view.links(*path) if (place := walk.settled(uri)) is not None)


def _bare(uri: str) -> str:
    return uri.partition('#')[0].rstrip('/')
