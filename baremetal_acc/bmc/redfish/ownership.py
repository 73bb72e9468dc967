# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Find out to which of several machines (ComputerSystems) behind one BMC each resource belongs, by links and containment only.

A resource below a System's URI belongs to that System, and so does what the System lists (Processors, PCIeDevices,
NetworkInterfaces). A Chassis belongs to the Systems that link to it or to which it links; a Chassis without such a link belongs
to the machines of the Chassis that contains it, or that it contains. A resource in a Chassis that no System links to belongs to
the machines of the Chassis. A Manager belongs to one machine only if every machine says who manages it, and no other machine
names this Manager.

Sources: DSP8010 2025.4: ComputerSystem Links.Chassis and Links.ManagedBy; Chassis Links.ComputerSystems, Contains, ContainedBy.
"""

import re
from collections.abc import Iterable, Iterator

from baremetal_acc.bmc.device_ids import Devices
from baremetal_acc.bmc.redfish.collection_members import link_of as member_link
from baremetal_acc.bmc.redfish.collection_members import members
from baremetal_acc.bmc.redfish.device import Device, is_dpu, link_of, links_of
from baremetal_acc.bmc.redfish.discovered_tree import within
from baremetal_acc.bmc.redfish.discovery import ROOT, Discovery
from baremetal_acc.bmc.redfish.firmware import Items
from baremetal_acc.bmc.redfish.parse import ResourceView, last
from baremetal_acc.bmc.redfish.reader import RedfishReader
from baremetal_acc.bmc.redfish.system import resettable
from baremetal_acc.errors import is_not_found
from baremetal_acc.model.inventory import Gap
from baremetal_acc.model.ownership import Ownership

_LISTS = ('Processors', 'PCIeDevices', 'PCIeFunctions', 'GraphicsControllers', 'NetworkInterfaces')

_Owners = dict[str, frozenset[str]]


def ownership(
    walk: Discovery, reader: RedfishReader, devices: Devices, found: list[Device], items: list[Items], named: str | None
) -> Ownership:
    """Compute the machines of a BMC, and to which of them each resource belongs.

    :param found: the accelerators; ``items`` the firmware items of each.
    :param named: URI of the System that the target names: it counts as a machine whatever its properties are.
    """
    tree = walk.tree
    machines = _machines(walk, reader, devices)
    if named is not None:
        machines |= {named}
    ids: dict[str, str | None] = dict.fromkeys(machines - {systems_place(walk)}) | {
        uri: v.id for uri, v in tree.systems.items()
    }
    if len(machines) < 2:
        return Ownership(machines=machines, ids=ids)
    listed = {machine: frozenset(_listed(walk, reader, machine)) for machine in machines}
    chassis = _chassis(walk, machines)
    # A System collection that cannot be read stands for unknown machines, and is not a machine itself.
    owners: _Owners = {machine: frozenset({machine}) for machine in machines if machine != systems_place(walk)}
    owners |= chassis
    owners |= {uri: of for uri, view in tree.systems.items() if uri not in machines and (of := _part(walk, view, chassis))}
    owners |= _managers(walk, machines)
    for device, owned in zip(found, items, strict=True):
        of = _of_device(walk, device, machines, listed, chassis, owners)
        owners |= dict.fromkeys(device.uris(), of)
        refs = [c.ref.uri for c in owned.components] + [c.ref.uri for c in owned.slots.values()]
        for uri in refs:
            if uri in tree.items:
                owners[uri] = owners.get(uri, frozenset()) | of
    _items(walk, owners)
    return Ownership(machines=machines, owners=owners, ids=ids)


def _machines(walk: Discovery, reader: RedfishReader, devices: Devices) -> frozenset[str]:
    """Systems that may run a tenant's code: all but those of cards, and those that are part of another machine.

    A System that is listed and cannot be read may be a machine. If the collection itself cannot be read, it stands for unknown
    machines.
    """
    tree = walk.tree
    place = systems_place(walk)
    known = reader.at(place)
    found = set(tree.systems)
    if known is None or isinstance(known, Exception):
        found.add(place)
    else:
        links = (member_link(member) for member in members(known.body))
        found |= {
            uri for link in links if link is not None and (uri := walk.settled(link)) is not None and not _gone(reader, uri)
        }
    if len(found) < 2:
        return frozenset(found)
    machines = {
        uri for uri in found if (view := tree.systems.get(uri)) is None or not _is_no_machine(walk, reader, view, devices)
    }
    # A System named like a machine except for its number (Node0, Node1) is a machine too, even if it shows no CPU now.
    words = {_word(uri) for uri in machines} - {''}
    machines |= {uri for uri in found - machines if _word(uri) in words and not is_dpu(tree.systems[uri], devices)}
    for uri in sorted(found - machines if machines else ()):
        view = tree.systems[uri]
        if not is_dpu(view, devices) and not _is_baseboard(view):
            walk.gaps.append(Gap(ref=view.ref, reason=_TAKEN_FOR_PART))
    return frozenset(machines or found)


_TAKEN_FOR_PART = (
    'can be reset, but shows no CPU among its processors and nothing to boot: treated as a part of another machine'
)


_NUMBERED = re.compile(r'(.*[A-Za-z])[^A-Za-z0-9]?[0-9]{1,4}')
"""Ids of a word and a number, such as ``Node0`` and ``System_1``.

The Ids ``437XR1138R2`` and ``Card1-SoC`` of one BMC have no word in common, so that neither System makes a machine of the
other.
"""


def _word(uri: str) -> str:
    """The part of a System's Id before its number, case-folded; empty if the Id has another form."""
    found = _NUMBERED.fullmatch(last(uri)[:64])
    return '' if found is None else found[1].casefold()


def systems_place(walk: Discovery) -> str:
    """The URI of the System collection."""
    usual = f'{ROOT}/Systems'
    return walk.settled(walk.tree.root.link('Systems') or usual) or usual


def _gone(reader: RedfishReader, uri: str) -> bool:
    known = reader.at(uri)
    return is_not_found(known)


def _is_no_machine(walk: Discovery, reader: RedfishReader, view: ResourceView, devices: Devices) -> bool:
    """Whether a System is a card's own or a baseboard.

    A baseboard has no Reset action; or it has processors without a CPU among them, and nothing to boot.
    """
    if is_dpu(view, devices) or _is_baseboard(view):
        return True
    boots = any(view.has(name) for name in ('Boot', 'BootProgress', 'Bios', 'BiosVersion'))
    return not boots and not _may_have_cpu(walk, reader, view)


def _is_baseboard(view: ResourceView) -> bool:
    return not resettable(view) and view.literal('SystemType') in (None, 'Physical')


def _may_have_cpu(walk: Discovery, reader: RedfishReader, view: ResourceView) -> bool:
    """Whether a System may have a CPU.

    So if a CPU (even absent) or a processor without a type is listed, if not all processors could be read, or if there are
    none.
    """
    place = view.link('Processors') if isinstance(view.body.get('Processors'), dict) else None
    listed = reader.peek(place) if place is not None else None
    inside = [p.body for uri, p in walk.tree.processors.items() if within(uri, view.ref.uri)]
    if listed is not None:
        links = [member_link(member) for member in members(listed.body)]
        found = [None if link is None else reader.peek(link) for link in links]
        if None in found:
            return True
        inside += [one.body for one in found if one is not None]
    return not inside or any(body.get('ProcessorType') in (None, 'CPU') for body in inside)


def _listed(walk: Discovery, reader: RedfishReader, machine: str) -> Iterator[str]:
    """URIs that a System lists in its collections and arrays, wherever they are."""
    view = walk.tree.systems.get(machine)
    if view is None:
        return
    for name in _LISTS:
        if isinstance(view.body.get(name), list):
            yield from links_of(walk, view, name)
        elif (place := link_of(walk, view, name)) is not None and (found := reader.peek(place)) is not None:
            links = (member_link(member) for member in members(found.body))
            yield from (uri for link in links if link is not None and (uri := walk.settled(link)) is not None)


def _chassis(walk: Discovery, machines: frozenset[str]) -> _Owners:
    """The machines of each Chassis."""
    tree = walk.tree
    direct: dict[str, set[str]] = {uri: set() for uri in tree.chassis}
    inside: dict[str, set[str]] = {uri: set() for uri in tree.chassis}
    for machine in machines & set(tree.systems):
        for uri in links_of(walk, tree.systems[machine], 'Links', 'Chassis'):
            direct.setdefault(uri, set()).add(machine)
    for uri, view in tree.chassis.items():
        direct[uri] |= machines.intersection(links_of(walk, view, 'Links', 'ComputerSystems'))
        for inner in links_of(walk, view, 'Links', 'Contains'):
            inside[uri].add(inner)
        outer = link_of(walk, view, 'Links', 'ContainedBy')
        if outer is not None:
            inside.setdefault(outer, set()).add(uri)
    owners = {uri: frozenset(of) for uri, of in direct.items() if of}
    above: dict[str, set[str]] = {}
    for outer, inner_ones in inside.items():
        for inner in inner_ones:
            above.setdefault(inner, set()).add(outer)
    down = _spread(owners, above)
    return _spread(down, inside) if len(down) < len(direct) else down


def _spread(owners: _Owners, sources: dict[str, set[str]]) -> _Owners:
    """Give each resource without machines those of its sources, directly or through several steps."""
    found = dict(owners)
    waiting = [uri for uri in sources if uri not in owners]
    while waiting:
        new = {uri: of for uri in waiting if (of := frozenset().union(*(found.get(s, frozenset()) for s in sources[uri])))}
        if not new:
            break
        found |= new
        waiting = [uri for uri in waiting if uri not in new]
    return found


def _part(walk: Discovery, view: ResourceView, chassis: _Owners) -> frozenset[str]:
    """The machines of a System that is no machine itself: its HostingComputerSystem, else those of its Chassis."""
    host = link_of(walk, view, 'Links', 'HostingComputerSystem')
    if host is not None:
        return frozenset({host})
    return _union(chassis.get(uri) for uri in links_of(walk, view, 'Links', 'Chassis'))


def _managers(walk: Discovery, machines: frozenset[str]) -> _Owners:
    said = {m: links_of(walk, v, 'Links', 'ManagedBy') for m in machines if (v := walk.tree.systems.get(m)) is not None}
    if len(said) < len(machines) or not all(said.values()):
        return {}
    owners: dict[str, set[str]] = {}
    for machine, managers in said.items():
        for uri in managers:
            owners.setdefault(uri, set()).add(machine)
    return {uri: frozenset(of) for uri, of in owners.items()}


def _of_device(
    walk: Discovery,
    device: Device,
    machines: frozenset[str],
    listed: dict[str, frozenset[str]],
    chassis: _Owners,
    owners: _Owners,
) -> frozenset[str]:
    uris = device.uris()
    mine = {m for m in machines if any(within(uri, m) for uri in uris) or not uris.isdisjoint(listed[m])}
    if mine:
        return frozenset(mine)
    places = {c for uri in uris if (c := _chassis_of(uri, chassis)) is not None}
    for view in (*device.processors.values(), *device.pcie_devices.values()):
        places.update(links_of(walk, view, 'Links', 'Chassis'))
    above = {s for uri in uris for s in walk.tree.systems if within(uri, s)}
    return _union([*(chassis.get(c) for c in places), *(owners.get(s) for s in above)])


def _chassis_of(uri: str, chassis: _Owners) -> str | None:
    while uri:
        if uri in chassis:
            return uri
        uri = uri.rpartition('/')[0]
    return None


def _items(walk: Discovery, owners: _Owners) -> None:
    """Add to each assigned item the machines of all its RelatedItem."""
    place_owners = Ownership(machines=frozenset({'', '/'}), owners=dict(owners))
    for uri, view in walk.tree.items.items():
        if uri in owners:
            owners[uri] |= _union(place_owners.of(link) for link in links_of(walk, view, 'RelatedItem'))


def _union(sets: Iterable[frozenset[str] | None]) -> frozenset[str]:
    return frozenset().union(*(one for one in sets if one is not None))
