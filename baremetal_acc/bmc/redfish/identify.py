# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which resources are one physical device, is it an accelerator, and what identifies it?

A BMC shows one card as Processor, as one or two PCIeDevices, as NetworkAdapter, as GraphicsController, as Chassis, and as
System and Manager when it has a BMC of its own. Resources are joined by their links first, then by what they say of themselves,
the strongest first; never two members of one collection. See doc/source/inventory.rst.

All work is near linear in the number of resources: a hostile BMC lists thousands.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from baremetal_acc.bmc.devices import Class, Devices, Row
from baremetal_acc.bmc.redfish.parse import (
    View,
    absent,
    base_class,
    last,
    parent,
    pci_ids,
    serial_of,
    state_of,
    uuid_of,
    version_of,
)
from baremetal_acc.bmc.redfish.walk import Tree, Walk, within
from baremetal_acc.model.accelerator import COMPUTATIONAL_STORAGE, Accelerator, Function, IdentitySource, Kind, PciIds
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.inventory import Gap, PlatformDevice
from baremetal_acc.model.ref import AcceleratorId, BmcName, Ref

OWN_CHASSIS = frozenset({'Card', 'Module', 'Component', 'Cartridge'})
"""ChassisType of what may be one device; the others are enclosures."""

CARRIER = re.compile(
    r'riser|backplane|carrier|tray|switch|baseboard|\bUBB\b|retimer|expander|enclosure|processor.?module', re.IGNORECASE
)
"""Names of chassis that carry devices and are none."""

PROCESSOR_KINDS = {'GPU': Kind.GPU, 'FPGA': Kind.FPGA, 'DSP': Kind.ASIC, 'Accelerator': Kind.ASIC}
"""ProcessorType to Kind. Source: DSP8010 2025.4, Processor v1_22_0."""

NO_DEVICE = frozenset({'CPU', 'Core', 'Thread', 'Partition'})
"""ProcessorTypes that are no accelerator, or only a part of one (the instances of a divided GPU)."""

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


@dataclass(kw_only=True, eq=False)
class Device:
    """One physical device while it is put together.

    What is asked of it is worked out once, until it takes over another one.

    :ivar extra: URIs of further resources that are this device: functions, interfaces, extensions, drives.
    """

    processors: dict[str, View] = field(default_factory=dict)
    pcie_devices: dict[str, View] = field(default_factory=dict)
    adapters: dict[str, View] = field(default_factory=dict)
    graphics: dict[str, View] = field(default_factory=dict)
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
        tables = (*(getattr(self, name) for name in TABLES), self.chassis, self.managers, self.extensions)
        return {uri for table in tables for uri in table} | self.extra

    @worked_out
    def views(self) -> tuple[View, ...]:
        """Its resources, those that tell most of it first."""
        return (
            *self.processors.values(), *self.pcie_devices.values(), *self.main_chassis, *self.systems.values(),
            *self.adapters.values(), *self.graphics.values(),
        )  # fmt: skip

    @worked_out
    def primary(self) -> View:
        """The resource to show."""
        tables: tuple[Iterable[View], ...] = (
            self.processors.values(), self.main_chassis if self.systems or self.managers else (), self.pcie_devices.values(),
            self.adapters.values(), self.graphics.values(), self.chassis.values(), self.systems.values(),
        )  # fmt: skip
        return next(view for table in tables for view in table)

    @worked_out
    def main_chassis(self) -> tuple[View, ...]:
        """Chassis that are not contained in another one of this device."""
        inner = (
            {_bare(uri) for view in self.chassis.values() for uri in view.links('Links', 'Contains')} if self.chassis else set()
        )
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
        views = list(self.views)
        for adapter in self.adapters.values():
            views += [controller for controller in adapter.parts('Controllers') if controller is not None]
        for where in (_label, _position):
            found = next((label for view in views if (label := where(view))), None)
            if found is not None:
                return found
            if where is _label and (label := next(filter(None, map(_extension_place, self.extensions.values())), None)):
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

    @property
    def traits(self) -> frozenset[str]:
        """Those of the table; and one for a device that is a drive too."""
        traits = self.row.traits if self.row is not None else frozenset()
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
        texts = [view.text('Model') for view in self.views]
        named = (*self.processors.values(), *self.pcie_devices.values(), *self.graphics.values())
        return tuple(text for text in (*texts, *(view.text('Name') for view in named)) if text)

    def recognise(self, devices: Devices) -> Kind | None:
        """Work out row and kind."""
        self.row, self.kind = _kind(self, devices)
        return self.kind

    def absorb(self, *others: 'Device') -> None:
        """Take over everything of others."""
        functions = {f.ref: f for f in self.functions}
        for other in others:
            for name in (*TABLES, 'chassis', 'managers'):
                getattr(self, name).update(getattr(other, name))
            for f in other.functions:
                functions.setdefault(f.ref, f)
            self.extra |= other.extra
        self.functions = tuple(functions.values())
        for name in _WORKED_OUT:
            self.__dict__.pop(name, None)

    def collections(self) -> set[str]:
        """The collections that it is a member of."""
        return {parent(uri) for name in TABLES for uri in getattr(self, name)}


_WORKED_OUT = tuple(name for name, value in vars(Device).items() if isinstance(value, worked_out))


def identify(walk: Walk, devices: Devices) -> tuple[list[Device], list[PlatformDevice]]:
    """The accelerators of a tree, and the parts of the baseboard that only look like some."""
    groups = _by_value(_by_links(walk, devices), walk, devices)
    found, platform = [], []
    for device in groups:
        if device.kind is None:
            _mention(device, walk)
            continue
        if _is_baseboard(device, walk.tree):
            view = device.primary
            why = 'shows nothing that a tenant could use or program: a part of the baseboard'
            platform.append(PlatformDevice(ref=view.ref, kind=device.kind, model=device.model(devices), reason=why))
            continue
        found.append(device)
    found += _chassis_alone(walk, devices, found)
    for device in found:
        _complete(device, walk)
    _interfaces(found, walk)
    _extend(found, walk)
    return found, platform


def identities(devices: list[Device], bmc: BmcName) -> list[tuple[AcceleratorId, IdentitySource]]:
    """What identifies each device: its UUID, else its serial number, with the location where that repeats, else its URI.

    A value that several devices of a BMC have identifies none of them. Serial numbers and UUIDs do repeat on real machines.
    """

    def serial(device: Device) -> str | None:
        return device.serial.casefold() if device.serial else None

    def place(device: Device) -> tuple[str, str] | None:
        return (device.serial.casefold(), device.location.casefold()) if device.serial and device.location else None

    uuids = Counter(d.uuid for d in devices)
    serials, places = Counter(map(serial, devices)), Counter(map(place, devices))

    def named(device: Device) -> tuple[AcceleratorId, IdentitySource]:
        if device.uuid is not None and uuids[device.uuid] == 1:
            return AcceleratorId(f'uuid:{device.uuid}'), IdentitySource.UUID
        if device.serial is not None and serials[serial(device)] == 1:
            return AcceleratorId(f'serial:{device.serial}'), IdentitySource.SERIAL
        if place(device) is not None and places[place(device)] == 1:
            return AcceleratorId(f'serial:{device.serial}@{device.location}'), IdentitySource.SERIAL
        return by_uri(device)

    def by_uri(device: Device) -> tuple[AcceleratorId, IdentitySource]:
        return AcceleratorId(f'uri:{bmc}:{device.primary.ref.uri}'), IdentitySource.URI

    found = [named(device) for device in devices]
    # A serial number may be written so that it looks like another one with its location: then it is neither's.
    times = Counter(identity for identity, _ in found)
    return [one if times[one[0]] == 1 else by_uri(device) for device, one in zip(devices, found, strict=True)]


def attributed(gaps: Iterable[Gap], accelerators: Iterable[Accelerator]) -> tuple[Gap, ...]:
    """Each gap with the device that it concerns, where its resource is that device's, its firmware's or its function's."""
    owner: dict[Ref, AcceleratorId] = {}
    for a in accelerators:
        items = [s.item for s in a.slots if s.item is not None]
        for ref in (*a.refs, *(c.ref for c in (*a.firmware, *items)), *(f.ref for f in a.functions)):
            owner.setdefault(ref, a.id)
    return tuple(g if g.accelerator is not None or g.ref not in owner else replace(g, accelerator=owner[g.ref]) for g in gaps)


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


# ------------------------------------------------------------------------------------------------------------ by links


class _Groups:
    """Which URIs are one device. Two members of one collection never are."""

    def __init__(self) -> None:
        self._above: dict[str, str] = {}
        self._collections: dict[str, set[str]] = {}

    def add(self, uri: str, *, member: bool = True) -> None:
        """A group of one.

        :param member: it is a device of its collection; a chassis or manager is not.
        """
        if uri not in self._above:
            self._above[uri] = uri
            self._collections[uri] = {parent(uri)} if member else set()

    def __contains__(self, uri: str) -> bool:
        return uri in self._above

    def find(self, uri: str) -> str:
        """The name of its group."""
        above = self._above
        while above[uri] != uri:
            above[uri] = above[above[uri]]
            uri = above[uri]
        return uri

    def join(self, one: str | None, other: str | None) -> None:
        """Make two groups one, if both are there and they are not two devices."""
        if one is None or other is None or one not in self._above or other not in self._above:
            return
        a, b = self.find(one), self.find(other)
        if a == b:
            return
        if len(self._collections[a]) < len(self._collections[b]):
            a, b = b, a
        if self._collections[b].isdisjoint(self._collections[a]):
            self._above[b] = a
            self._collections[a] |= self._collections.pop(b)


def _by_links(walk: Walk, devices: Devices) -> list[Device]:
    """One Device for each set of resources that links hold together."""
    tree = walk.tree
    groups = _Groups()
    for name in TABLES:
        for uri, view in getattr(tree, name).items():
            if not absent(view) and _may_be_device(name, view, tree, devices):
                groups.add(uri)
    owner = {f.ref.uri: uri for uri, functions in tree.functions.items() for f in functions}
    for uri, view in tree.processors.items():
        if uri in groups:
            groups.join(uri, _link(walk, view, 'Links', 'PCIeDevice'))
            for link in _links(walk, view, 'Links', 'PCIeFunctions'):
                groups.join(uri, owner.get(link))
            groups.join(uri, tree.offload.get(uri))
            groups.join(uri, _link(walk, view, 'Links', 'GraphicsController'))
    shared: dict[str, str] = {}
    for uri, functions in tree.functions.items():
        device = tree.pcie_devices[uri]
        for link in _links(walk, device, 'Links', 'Processors'):
            groups.join(uri, link)
        for f in functions:
            groups.join(uri, _link(walk, f, 'Links', 'Processor'))
        # One device below Systems and below Chassis: two lists of functions, and links to the same ones.
        for place in (*(f.ref.uri for f in functions), *_links(walk, device, 'Links', 'PCIeFunctions')):
            groups.join(uri, shared.setdefault(place, uri))
    for uri, view in tree.adapters.items():
        for controller in view.parts('Controllers'):
            for link in _links(walk, controller, 'Links', 'PCIeDevices') if controller is not None else ():
                groups.join(uri, link)
    for uri, view in tree.graphics.items():
        groups.join(uri, _link(walk, view, 'Links', 'PCIeDevice'))
        for link in _links(walk, view, 'Links', 'Processors'):
            groups.join(uri, link)
    _join_chassis(walk, groups)
    _join_card_bmcs(walk, devices, groups)
    return _built(walk, groups)


def _may_be_device(table: str, view: View, tree: Tree, devices: Devices) -> bool:
    """CPUs and parts of processors are not, but those of a network adapter are; Systems only where they are cards."""
    if table == 'processors':
        said = view.literal('ProcessorType')
        return said not in NO_DEVICE or (said == 'CPU' and view.ref.uri in tree.offload)
    return table != 'systems' or _is_dpu(view, devices)


def _built(walk: Walk, groups: _Groups) -> list[Device]:
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
            # A board with several processors: each of them has its own functions.
            processor = _link(walk, f, 'Links', 'Processor')
            its = found[groups.find(processor)] if processor is not None and processor in groups else device
            if its is not device:
                its.functions += (f,) if f.ref not in {g.ref for g in its.functions} else ()
            elif f.ref not in known:
                known.add(f.ref)
                device.functions += (f,)
    return list(found.values())


def _join_chassis(walk: Walk, groups: _Groups) -> None:
    """A chassis is a device when it is a card or module and everything in it is that one device."""
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
            lives(uri, _link(walk, view, 'Links', 'Chassis'))
    for table in (tree.pcie_devices, tree.adapters):
        for uri, view in table.items():
            if not absent(view):
                lives(uri, parent(parent(uri)))
    for uri, view in tree.pcie_devices.items():
        if not absent(view):
            for link in _links(walk, view, 'Links', 'Chassis'):
                lives(uri, link)
    for uri, view in tree.systems.items():
        if uri in groups:
            for link in _links(walk, view, 'Links', 'Chassis'):
                lives(uri, link)
    for chassis, inside in residents.items():
        if not inside or not all(uri in groups for uri in inside) or _carries(tree, chassis, inside):
            continue
        first, *others = inside
        for uri in others:
            groups.join(first, uri)
        if len({groups.find(uri) for uri in inside}) == 1:
            groups.add(chassis, member=False)
            groups.join(chassis, first)


def _carries(tree: Tree, chassis: str, inside: Iterable[str]) -> bool:
    """The chassis is not the card but what it is plugged into: a riser, say, or one with a serial number of its own.

    A processor or PCIeDevice that has another serial number than the chassis is another thing. A network adapter may well
    have another one than its card (recordings/dmtf/smartnic).
    """
    view = tree.chassis[chassis]
    own = serial_of(view)
    inner = [tree.processors.get(uri) or tree.pcie_devices.get(uri) for uri in inside]
    serials = {s.casefold() for v in inner if v is not None and (s := serial_of(v))}
    if own is not None and serials:
        return own.casefold() not in serials
    texts = (view.text('Id'), view.text('Name'), view.text('Model'), view.text('Description'))
    return any(CARRIER.search(text) for text in texts if text)


def _join_card_bmcs(walk: Walk, devices: Devices, groups: _Groups) -> None:
    """A card with a BMC of its own: its chassis contains chassis, a System and a Manager that are all this card."""
    tree = walk.tree
    managers: dict[str, list[str]] = {}
    for uri, view in tree.managers.items():
        chassis = _link(walk, view, 'Links', 'ManagerInChassis')
        if chassis is not None:
            managers.setdefault(chassis, []).append(uri)
    for uri, view in tree.chassis.items():
        row = devices.by_name(view.text('Model'))
        if row is None or row.kind is not Class.DPU or view.literal('ChassisType') not in OWN_CHASSIS:
            continue
        groups.add(uri, member=False)
        inner = [link for link in _links(walk, view, 'Links', 'Contains') if link in tree.chassis]
        for link in inner:
            groups.add(link, member=False)
            groups.join(uri, link)
        for system in _links(walk, view, 'Links', 'ComputerSystems'):
            groups.join(uri, system)
        for chassis in (uri, *inner):
            for manager in managers.get(chassis, ()):
                groups.add(manager, member=False)
                groups.join(uri, manager)


# ---------------------------------------------------------------------------------------------------------- by values

_Key = Callable[[Device], Iterable[object]]


def _by_value(groups: list[Device], walk: Walk, devices: Devices) -> list[Device]:
    """Join groups that links leave apart, by what they say of themselves, the strongest first.

    Only where one of them is an accelerator: whether two halves of a plain NIC belong together is nobody's question here.
    """
    for device in groups:
        device.recognise(devices)
    if not any(device.kind for device in groups):
        return groups
    for keys, trusted in ((_uuids, True), (_serials, True), (_addresses, True), (_labels, False), (_ordinals, False)):
        groups = _joined(groups, keys, walk, devices, trusted=trusted)
    return _paired(groups, walk, devices)


def _joined(groups: list[Device], keys: _Key, walk: Walk, devices: Devices, *, trusted: bool) -> list[Device]:
    """Make one device of all that share a key.

    :param trusted: the key names a device; else it names a place or a number, and joins only different views of one kind.
    """
    buckets: dict[object, list[Device]] = {}
    for device in groups:
        for name in keys(device):
            buckets.setdefault(name, []).append(device)
    gone: dict[int, Device] = {}
    for bucket in buckets.values():
        if len(bucket) < 2:
            continue
        alive = list({id(d): d for d in (_follow(gone, device) for device in bucket)}.values())
        if len(alive) < 2 or not any(d.kind for d in alive):
            continue
        if not trusted and not _are_views_of_one(alive):
            continue
        if _are_several(alive):
            if trusted:
                walk.gaps.append(Gap(ref=alive[0].primary.ref, reason=_REPEATED.format(others=_others(alive))))
            continue
        alive[0].absorb(*alive[1:])
        gone |= dict.fromkeys(map(id, alive[1:]), alive[0])
        alive[0].recognise(devices)
    return [d for d in groups if id(d) not in gone]


def _are_several(alive: list[Device]) -> bool:
    """They cannot be one device: two are members of one collection, or they contradict each other."""
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
    """What must not differ between two views of one device: UUID and serial number by kind of resource, and PCI address."""
    for name in TABLES:
        table = getattr(device, name)
        if table:
            uuids = {u for view in table.values() if view.has('UUID') and (u := uuid_of(view, 'UUID'))}
            serials = {s.casefold() for view in table.values() if (s := serial_of(view))}
            if uuids:
                yield f'{name} UUID', uuids
            if serials:
                yield f'{name} SerialNumber', serials
    addresses = {ids.address for ids in device.ids if ids.address}
    if addresses:
        yield 'address', addresses


def _are_views_of_one(alive: list[Device]) -> bool:
    """One kind, and no two of them are the same sort of resource."""
    tables = [name for device in alive for name in TABLES if getattr(device, name)]
    return len(set(tables)) == len(tables) and len({device.kind for device in alive}) == 1


def _paired(groups: list[Device], walk: Walk, devices: Devices) -> list[Device]:
    """Put cards that nothing identifies to the processors or adapters of their kind, where there are as many of each.

    A BMC that links nothing, and gives nothing that tells its cards apart, still has each of them once. Which processor is
    which card is a guess then, and a gap says so. To a device that has a card already such a one adds its URIs alone: the list
    of PCIe devices that a BIOS hands to a BMC may be in any order.
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
            if bare:
                device.absorb(card)
                device.recognise(devices)
            else:
                device.extra |= {*card.uris(), *(f.ref.uri for f in card.functions)}
            gone.add(id(card))
    return [d for d in groups if id(d) not in gone]


def _same_products(whole: list[Device], cards: list[Device]) -> bool:
    """Cards without any identity, of the same ids, and not known to stand at other addresses."""
    if any(card.serial or card.uuid for card in cards):
        return False
    ids = [{(i.vendor_id, i.device_id) for i in d.ids if i.vendor_id} for d in whole]
    theirs = {(i.vendor_id, i.device_id) for d in cards for i in d.ids if i.vendor_id}
    return all(not known or known & theirs for known in ids) and not any(i.address for d in whole for i in d.ids)


def _mixed(devices: list[Device]) -> bool:
    """They stand in several collections."""
    return len({parent(d.primary.ref.uri) for d in devices}) > 1


def _differ(one: Device, other: Device) -> bool:
    """Both have a serial number, and another one."""
    return bool(one.serial and other.serial and one.serial.casefold() != other.serial.casefold())


_REPEATED = 'UUID or serial number is that of {others} too: they are taken for different devices'

_GUESSED = 'nothing says which card it is: taken for {card} by their order'


def _others(devices: list[Device]) -> str:
    return ', '.join(d.primary.ref.uri for d in devices[1:4])


def _follow(gone: dict[int, Device], device: Device) -> Device:
    while id(device) in gone:
        device = gone[id(device)]
    return device


def _uuids(device: Device) -> Iterable[object]:
    return device.uuids


def _serials(device: Device) -> Iterable[object]:
    """Serial number with each text that says which product it is, and with the kind."""
    found: set[object] = set()
    for view in device.views:
        serial = serial_of(view)
        if serial is not None:
            texts = (view.text('PartNumber'), view.text('Model'), view.text('Name'))
            found |= {(serial.casefold(), t.casefold()) for t in texts if t and t.casefold() not in GENERIC_NAMES}
            if device.kind is not None:
                found.add((serial.casefold(), device.kind))
    return found


def _addresses(device: Device) -> Iterable[object]:
    """PCI address with the ids: one card stands there."""
    return {(i.address, i.vendor_id, i.device_id) for i in device.ids if i.address and i.vendor_id and i.device_id}


def _labels(device: Device) -> Iterable[object]:
    """What is printed at its slot."""
    label = device.location if device.kind is not None else None
    return () if label is None else (label.casefold(),)


def _ordinals(device: Device) -> Iterable[object]:
    """The word and number of its Ids."""
    if device.kind is None:
        return ()
    found = {ordinal(last(uri)) for name in ('processors', 'pcie_devices', 'graphics') for uri in getattr(device, name)}
    return {key for key in found if key is not None}


def ordinal(text: str) -> tuple[str, int] | None:
    """Word and number at the end of an Id."""
    match = ORDINAL.search(text[-64:])
    return (match['word'].upper(), int(match['number'])) if match else None


# -------------------------------------------------------------------------------------------------------- recognition


def _kind(device: Device, devices: Devices) -> tuple[Row | None, Kind | None]:
    """The table's row and the kind; no kind for what is no accelerator.

    PCI ids come first, then what the standard says (ProcessorType, SystemType), then the model's name, then the PCI class.
    """
    display = any(device.classes)
    rows = [row for i in device.ids if (row := devices.by_pci(i.vendor_id, i.device_id, display=display)) is not None]
    if rows:
        row = next((row for row in rows if row.kind is not Class.NONE), rows[0])
        return row, row.kind.kind()
    named = next((row for text in (*device.names, *_full_names(device, devices)) if (row := devices.by_name(text))), None)
    if named is not None and named.kind is Class.NONE:
        return named, None
    said = Kind.DPU if device.systems else None
    for view in device.processors.values():
        said = said or PROCESSOR_KINDS.get(view.literal('ProcessorType') or '')
    if said is None and device.processors and device.adapters:
        said = Kind.NIC
    if said is Kind.ASIC and named is not None:
        # Accelerator is a word for all of them: a Dell XE9680 calls its MI300X so.
        return named, named.kind.kind()
    if said is not None:
        return (named if named is not None and named.kind.kind() is said else None), said
    if named is not None and _may_be(device, named):
        return named, named.kind.kind()
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
    if named.kind is Class.DPU:
        return True
    bases = [_base(view, i.class_code) for view, i in zip(device.functions, device.ids, strict=True)]
    if bases and all(base == 0x06 for base in bases):
        return False
    if any(view.has('Switch') for view in _link_parts(device)):
        return False
    return bool(device.processors or device.pcie_devices or device.adapters or device.graphics)


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


def _is_dpu(view: View, devices: Devices) -> bool:
    row = devices.by_name(view.text('Model'))
    return view.literal('SystemType') == 'DPU' or (row is not None and row.kind is Class.DPU)


def _mention(device: Device, walk: Walk) -> None:
    """Say of what may be an accelerator, and is none by all that is known, that it was seen."""
    if device.row is not None:
        return
    for view in device.processors.values():
        said = view.literal('ProcessorType')
        if view.ref.uri not in walk.tree.offload:
            what = f'ProcessorType {said}' if said is not None else 'a processor without a type'
            reason = f'{what}: it may be an accelerator (devices.d may name its model)'
            shows = any(view.has(name) for name in ('Model', 'Manufacturer', 'SerialNumber', 'PartNumber', 'UUID', 'FPGA'))
            walk.gaps.append(Gap(ref=view.ref, field='ProcessorType', reason=reason, hides=said is not None or shows))
    if 'display' in device.classes or device.graphics:
        reason = 'a display controller that the table does not know: not taken for an accelerator (devices.d may name it)'
        walk.gaps.append(Gap(ref=device.primary.ref, reason=reason))


def _is_baseboard(device: Device, tree: Tree) -> bool:
    """An FPGA that shows no model, no number, no ids and nothing to program manages the baseboard.

    The standard has no word for it. Seen: recordings/nvidia/gh200, FPGA_0, whose FPGA object has FpgaType alone.
    """
    if device.kind is not Kind.FPGA or not device.processors or device.adapters or any(i.vendor_id for i in device.ids):
        return False
    for view in device.pcie_devices.values():
        if view.text('Model') or serial_of(view) or view.text('PartNumber') or uuid_of(view, 'UUID'):
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


def _chassis_alone(walk: Walk, devices: Devices, found: list[Device]) -> list[Device]:
    """Cards that a BMC shows as Chassis and as nothing else, where it shows no other device of their kind.

    Beside other views of a device its chassis adds nothing: a module that carries a GPU often has the GPU's name.
    """
    kinds = {device.kind for device in found}
    alone = []
    for view in walk.tree.chassis.values():
        row = devices.by_name(view.text('Model'))
        kind = row.kind.kind() if row is not None else None
        if kind is None or kind in kinds or kind is Kind.DPU or absent(view) or view.literal('ChassisType') not in OWN_CHASSIS:
            continue
        texts = (view.text('Id'), view.text('Name'), view.text('Model'))
        if not any(CARRIER.search(text) for text in texts if text):
            alone.append(Device(chassis={view.ref.uri: view}, kind=kind, row=row))
    return alone


# ------------------------------------------------------------------------------------------------------- what else it is


def _complete(device: Device, walk: Walk) -> None:
    """Add the resources that are the device too, but tell nothing more of it."""
    found: set[str | None] = set()
    for f in device.functions:
        found.add(f.ref.uri)
        for name in ('EthernetInterfaces', 'Drives', 'StorageControllers'):
            found.update(_links(walk, f, 'Links', name))
        found |= {p for uri in f.below('Oem') if (p := walk.place(uri)) is not None and within(p, f.ref.uri)}
    for view in device.adapters.values():
        for controller in view.parts('Controllers'):
            found |= set(_links(walk, controller, 'Links', 'NetworkDeviceFunctions')) if controller is not None else set()
    for uri, view in device.systems.items():
        found |= {p for link in view.below('Oem') if (p := walk.place(link)) is not None and within(p, uri)}
    device.extra |= {uri for uri in found if uri is not None}


def _interfaces(found: list[Device], walk: Walk) -> None:
    """Give each NetworkInterface to the device whose adapter it is."""
    owner = {uri: device for device in found for uri in device.adapters}
    if not owner:
        return
    for view in walk.tree.interfaces.values():
        device = owner.get(_link(walk, view, 'Links', 'NetworkAdapter') or '')
        if device is not None:
            device.extra.add(view.ref.uri)


def _extend(found: list[Device], walk: Walk) -> None:
    """Give each extension resource to the one device that has its serial number."""
    if not walk.tree.extensions:
        return
    owners: dict[str, list[Device]] = {}
    for device in found:
        if device.serial is not None:
            owners.setdefault(device.serial.casefold(), []).append(device)
    for uri, view in walk.tree.extensions.items():
        serial = serial_of(view)
        mine = owners.get(serial.casefold(), []) if serial is not None else []
        if len(mine) == 1:
            mine[0].extensions[uri] = view
            mine[0].extra |= set(_links(walk, view, 'DeviceInstances'))
            mine[0].__dict__.pop('location', None)


def _label(view: View) -> str | None:
    """ServiceLabel of the place that a resource says it is in."""
    for path in (('Location',), ('Slot', 'Location'), ('PhysicalLocation',)):
        if path[0] in view.body and (label := view.text(*path, 'PartLocation', 'ServiceLabel')):
            return label
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


def _link(walk: Walk, view: View, *path: str) -> str | None:
    uri = view.link(*path)
    return walk.place(uri) if uri is not None else None


def _links(walk: Walk, view: View, *path: str) -> tuple[str, ...]:
    return tuple(place for uri in view.links(*path) if (place := walk.place(uri)) is not None)


def _worst(said: Iterable[str | None]) -> str | None:
    """One resource of a card that says OK does not make the Critical of another go away."""
    return max((word for word in said if word is not None), key=lambda word: _HEALTH.get(word, 0), default=None)


_HEALTH = {'OK': 1, 'Warning': 2, 'Critical': 3}
"""Source: DSP8010 2025.4, Resource.Health. A word that nobody knows says less than one that is known."""


def _bare(uri: str) -> str:
    return uri.partition('#')[0].rstrip('/')


__all__ = [
    'Device',
    'attributed',
    'extension_text',
    'function',
    'functions_of',
    'identify',
    'identities',
    'ordinal',
    'own_version',
    'staged_version',
]
