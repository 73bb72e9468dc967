# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Find the accelerators in a BMC's Redfish tree, give each an identity (UUID, serial number or URI), and assign gaps to them.

FPGAs that manage the baseboard are reported as platform devices. A device that may be an accelerator, but that the table of
devices does not know, is reported as a gap.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from baremetal_acc.bmc.device_ids import Devices
from baremetal_acc.bmc.redfish.device import OWN_CHASSIS, Device, Joint, extension_text, link_of, links_of
from baremetal_acc.bmc.redfish.device_correlation import physical_devices
from baremetal_acc.bmc.redfish.discovered_tree import DiscoveredTree, within
from baremetal_acc.bmc.redfish.discovery import CARRIER, Discovery
from baremetal_acc.bmc.redfish.parse import ResourceView, absent, serial_of, uuid_of
from baremetal_acc.bmc.redfish.pcie_function import instance_function
from baremetal_acc.model.accelerator import Accelerator, IdentitySource, Kind, MergeBasis
from baremetal_acc.model.inventory import Gap, PlatformDevice
from baremetal_acc.model.ref import AcceleratorId, BmcName, Ref


def identify(walk: Discovery, devices: Devices) -> tuple[list[Device], list[PlatformDevice]]:
    """The accelerators of a tree, and the baseboard devices that only look like accelerators."""
    found, platform = [], []
    for device in physical_devices(walk, devices):
        if device.kind is None:
            _mention(device, walk)
            continue
        if _is_baseboard(device, walk.tree):
            view = device.primary
            why = 'shows nothing that a tenant could use or program: part of the baseboard'
            platform.append(PlatformDevice(ref=view.ref, kind=device.kind.value, model=device.model(devices), reason=why))
            continue
        found.append(device)
    found += _chassis_alone(walk, devices, found)
    for device in found:
        _complete(device, walk)
    _interfaces(found, walk)
    found += _extend(found, walk, devices)
    return found, platform


def identities(devices: list[Device], bmc: BmcName) -> list[tuple[AcceleratorId, IdentitySource]]:
    """The identity of each device: its UUID; else its serial number; else serial number and location; else its URI.

    A value that several devices of a BMC share identifies none of them. Real machines have repeated serial numbers and UUIDs.
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
    # A serial number may be spelled like another one with its location: then it identifies neither device.
    times = Counter(identity for identity, _ in found)
    return [one if times[one[0]] == 1 else by_uri(device) for device, one in zip(devices, found, strict=True)]


def attributed(gaps: Iterable[Gap], accelerators: Iterable[Accelerator]) -> tuple[Gap, ...]:
    """The gaps, each with the accelerator that its resource is, or is firmware or a function of."""
    owner: dict[Ref, AcceleratorId] = {}
    for a in accelerators:
        items = [s.item for s in a.slots if s.item is not None]
        for ref in (*a.refs, *(c.ref for c in (*a.firmware, *items)), *(f.ref for f in a.functions)):
            owner.setdefault(ref, a.id)
    return tuple(g if g.accelerator is not None or g.ref not in owner else replace(g, accelerator=owner[g.ref]) for g in gaps)


def _mention(device: Device, walk: Discovery) -> None:
    """Note a gap for a device that may be an accelerator, but that no table row and no standard property identifies."""
    if device.row is not None:
        return
    for view in device.processors.values():
        said = view.literal('ProcessorType')
        if view.ref.uri not in walk.tree.offload and said is not None:
            reason = f'ProcessorType {said}: may be an accelerator (a file in [baremetal_acc] devices can list its model)'
            walk.gaps.append(Gap(ref=view.ref, field='ProcessorType', reason=reason, hides=True))
    if 'display' in device.classes or device.graphics:
        hint = 'a file in [baremetal_acc] devices can list it'
        reason = f'this display controller is not in the device table, and is not treated as an accelerator ({hint})'
        walk.gaps.append(Gap(ref=device.primary.ref, reason=reason))


def _is_baseboard(device: Device, tree: DiscoveredTree) -> bool:
    """Whether an FPGA manages the baseboard: it shows no model, number or ids, and nothing to program.

    The standard has no word for it. Seen: recording nvidia/gh200, FPGA_0, whose FPGA object has FpgaType alone.
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


def _chassis_alone(walk: Discovery, devices: Devices, found: list[Device]) -> list[Device]:
    """Cards that a BMC shows only as Chassis, if it shows no other device of their kind.

    If it shows other devices of that kind, such a chassis may be a module that carries one of them and has its name.
    """
    kinds = {device.kind for device in found}
    alone = []
    for view in walk.tree.chassis.values():
        row = devices.by_name(view.text('Model'))
        kind = row.kind if row is not None else None
        if kind is None or kind in kinds or kind is Kind.DPU or absent(view) or view.literal('ChassisType') not in OWN_CHASSIS:
            continue
        texts = (view.text('Id'), view.text('Name'), view.text('Model'))
        if not any(CARRIER.search(text) for text in texts if text):
            alone.append(Device(chassis={view.ref.uri: view}, kind=kind, row=row))
    return alone


def _complete(device: Device, walk: Discovery) -> None:
    """Add the URIs of resources that are part of the device, but have no properties that are read."""
    found: set[str | None] = set()
    for f in device.functions:
        found.add(f.ref.uri)
        for name in ('EthernetInterfaces', 'Drives', 'StorageControllers'):
            found.update(links_of(walk, f, 'Links', name))
        found |= {p for uri in f.below('Oem') if (p := walk.settled(uri)) is not None and within(p, f.ref.uri)}
    for view in device.adapters.values():
        for controller in view.parts('Controllers'):
            found |= set(links_of(walk, controller, 'Links', 'NetworkDeviceFunctions')) if controller is not None else set()
    for uri, view in device.systems.items():
        found |= {p for link in view.below('Oem') if (p := walk.settled(link)) is not None and within(p, uri)}
    device.extra |= {uri for uri in found if uri is not None}


def _interfaces(found: list[Device], walk: Discovery) -> None:
    """Add each NetworkInterface to the device of its NetworkAdapter."""
    owner = {uri: device for device in found for uri in device.adapters}
    if not owner:
        return
    for view in walk.tree.interfaces.values():
        device = owner.get(link_of(walk, view, 'Links', 'NetworkAdapter') or '')
        if device is not None:
            device.extra.add(view.ref.uri)


def _extend(found: list[Device], walk: Discovery, devices: Devices) -> list[Device]:
    """Add each OEM extension resource to the one device with its serial number.

    :returns: devices that only an extension shows.
    """
    alone: list[Device] = []
    if not walk.tree.extensions:
        return alone
    owners: dict[str, list[Device]] = {}
    for device in found:
        if device.serial is not None:
            owners.setdefault(device.serial.casefold(), []).append(device)
    walk.gaps.extend(_of_two(walk, devices))
    for uri, view in walk.tree.extensions.items():
        serial = serial_of(view)
        mine = owners.get(serial.casefold(), []) if serial is not None else []
        instances = links_of(walk, view, 'DeviceInstances')
        functions = [instance_function(walk.tree.instances[place]) for place in instances if place in walk.tree.instances]
        if len(mine) == 1 and serial is not None:
            says = next(v for v in mine[0].views if (s := serial_of(v)) is not None and s.casefold() == serial.casefold())
            mine[0].joints.append(Joint(MergeBasis.SERIAL, (says.ref.uri, uri)))
            mine[0].extensions[uri] = view
            if mine[0].add_functions(functions, devices):
                mine[0].extra |= set(instances)
            else:
                reason = f'the BMC contradicts itself: these instances are no accelerator, but {mine[0].primary.ref.uri} is one'
                walk.gaps.append(Gap(ref=view.ref, field='DeviceInstances', reason=reason, hides=True))
            mine[0].__dict__.pop('location', None)
        elif not absent(view):
            device = Device(alone={uri: view}, extensions={uri: view}, functions=tuple(functions), extra=set(instances))
            _note_alone(device, view, found, alone, walk, devices)
    return alone


def _of_two(walk: Discovery, devices: Devices) -> Iterator[Gap]:
    """A gap for each PCI function that two extensions claim: one of them is another card.

    It hides a device unless the table knows both by name as no accelerators, such as two adapters of one vendor whose functions
    a BMC mixes up (seen: HewlettPackard/ilo-redfish-emulator, mockups/DL325_Gen10Plus_FC).
    """

    def is_none(view: ResourceView) -> bool:
        row = devices.by_name(view.text('Name'))
        return row is not None and row.kind is None

    first: dict[str, ResourceView] = {}
    for view in walk.tree.extensions.values():
        for place in links_of(walk, view, 'DeviceInstances'):
            other = first.setdefault(place, view)
            if other is not view:
                reason = f'the BMC contradicts itself: {place} is also an instance of {other.ref.uri}'
                hides = not (is_none(view) and is_none(other))
                yield Gap(ref=view.ref, field='DeviceInstances', reason=reason, hides=hides)


def _note_alone(
    device: Device, view: ResourceView, found: list[Device], alone: list[Device], walk: Discovery, devices: Devices
) -> None:
    """Decide what an extension is whose serial number no device has: a new device, none, or one that is already known.

    DeviceType GPU alone does not decide: baseboards and switches have it too (facts of HPE iLO 5).
    """
    if device.recognise(devices) is None:
        if device.row is None and view.body.get('DeviceType') == 'GPU' and not any(i.vendor_id for i in device.ids):
            reason = 'is GPU, but the device shows neither a known model nor PCI ids: may be an accelerator'
            texts = (view.text('Name'), extension_text(view, 'Location'))
            hides = not any(CARRIER.search(text) for text in texts if text)
            walk.gaps.append(Gap(ref=view.ref, field='DeviceType', reason=reason, hides=hides))
        return
    same = [d for d in found if d.kind is device.kind]
    places = {d.location.casefold() for d in same if d.location}
    addresses = {i.address for d in same for i in d.ids if i.address}
    if (device.location and device.location.casefold() in places) or addresses & {i.address for i in device.ids if i.address}:
        return
    if any(d.serial is None and d.location is None for d in same):
        reason = 'may be one of the devices of its kind that show neither serial number nor location'
        walk.gaps.append(Gap(ref=view.ref, reason=reason, hides=True))
        return
    alone.append(device)
