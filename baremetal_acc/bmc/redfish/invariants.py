# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Consistency checks of a Redfish tree: where a BMC contradicts itself about which resources exist, a device may be hidden.

Each contradiction is reported as a gap. All checks run at every inventory, on what was read anyway.
doc/source/reference/inventory.rst shows the table :data:`INVARIANTS`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from baremetal_acc.bmc.device_ids import Devices
from baremetal_acc.bmc.driver import Document, JsonObject
from baremetal_acc.bmc.redfish.collection_members import link_of
from baremetal_acc.bmc.redfish.device import ORDINAL, Device, ordinal
from baremetal_acc.bmc.redfish.discovered_tree import DiscoveredTree, within
from baremetal_acc.bmc.redfish.discovery import CARRIER
from baremetal_acc.bmc.redfish.extended_info import short
from baremetal_acc.bmc.redfish.firmware import Items
from baremetal_acc.bmc.redfish.parse import ResourceView, absent, last, parent, serial_of
from baremetal_acc.bmc.redfish.resource_document import identity_of
from baremetal_acc.model.accelerator import Kind
from baremetal_acc.model.inventory import Gap
from baremetal_acc.model.ref import Ref
from baremetal_acc.model.uri import differ_in_case_only, normal

_DEVICE_LISTS = frozenset({'PCIeDevices', 'PCIeFunctions', 'Processors', 'NetworkAdapters', 'GraphicsControllers', 'Chassis'})
"""Arrays of links to resources that may be devices, and that may have a count next to them."""


_ITEM_LISTS = frozenset({'FirmwareInventory', 'SoftwareInventory'})
"""Collections in which a real BMC lists, and counts, a member twice. Seen: recording nvidia/gh200."""

_IMAGES = ('ActiveSoftwareImage', 'SoftwareImages')
"""Links to software images. Source: DSP8010 2025.4: Manager, NetworkAdapter.Controllers."""

_NUMBERED = frozenset({Kind.GPU.value, Kind.DPU.value})

_ROOT = 'ERoT'
"""Part of the Id of a root of trust next to its device. Seen: recordings nvidia/gh200 and supermicro/hgx-h100-8gpu."""

_NO_TYPE = 'processor without ProcessorType: may be an accelerator (a file in [baremetal_acc] devices can list its model)'


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedExistence:
    """The input of the checks: what was read, and what discovery made of it.

    :ivar tree: the resources that discovery read.
    :ivar documents: all documents that were read, by URI.
    :ivar devices: the table of devices.
    :ivar found: the accelerators; ``items`` the firmware of each.
    :ivar platform: URIs of baseboard devices.
    :ivar slot: path of the property in which an item names the slot of its device, None if the BMC has none.
    """

    tree: DiscoveredTree
    documents: dict[str, Document]
    devices: Devices
    found: list[Device]
    items: list[Items]
    platform: frozenset[str]
    slot: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Invariant:
    """One consistency check.

    :ivar says: the property that states that something exists; ``other`` what has to agree with it.
    :ivar check: yields a gap for each contradiction.
    """

    name: str
    says: str
    other: str
    check: Callable[[StatedExistence], Iterator[Gap]]


def contradictions(seen: StatedExistence) -> Iterator[Gap]:
    """A gap with ``hides`` for each contradiction of a BMC with itself."""
    for invariant in INVARIANTS:
        yield from invariant.check(seen)


def _gap(ref: Ref, field: str | None, reason: str) -> Gap:
    return Gap(ref=ref, field=field, reason=f'the BMC contradicts itself: {reason}', hides=True)


def _members(seen: StatedExistence) -> Iterator[Gap]:
    yield from miscounted(seen.documents.values())


def miscounted(documents: Iterable[Document]) -> Iterator[Gap]:
    """A gap for each collection that counts more members than it lists."""
    for document in documents:
        listed, count = document.body.get('Members'), document.body.get('Members@odata.count')
        if not isinstance(listed, list) or count is None:
            continue
        number = len(listed) if last(document.ref.uri) in _ITEM_LISTS else _distinct(listed)
        if not _agrees(count, number):
            yield _gap(document.ref, 'Members@odata.count', f'{count} counted, but {number} listed')


def _arrays(seen: StatedExistence) -> Iterator[Gap]:
    tree = seen.tree
    for table in (tree.systems, tree.chassis, tree.processors, tree.pcie_devices):
        for view in table.values():
            links = view.body.get('Links')
            for at, body in (('', view.body), ('Links/', links if isinstance(links, dict) else {})):
                for name in _DEVICE_LISTS & body.keys():
                    listed, count = body[name], body.get(f'{name}@odata.count')
                    # A real BMC lists links twice in such an array, and counts them twice.
                    if isinstance(listed, list) and not _agrees(count, len(listed)):
                        yield _gap(view.ref, f'{at}{name}@odata.count', f'{count} counted, but {len(listed)} listed')


def _agrees(count: object, listed: int) -> bool:
    """Whether no more are counted than are listed. More listed than counted was seen on a real BMC, and hides nothing."""
    return not isinstance(count, int) or isinstance(count, bool) or count <= listed


def _distinct(listed: list[object]) -> int:
    """Number of distinct members: a link that is listed twice may have taken the place of another."""
    links = [link_of(one) for one in listed]
    return len({normal(link) for link in links if link is not None}) + links.count(None)


def _themselves(seen: StatedExistence) -> Iterator[Gap]:
    """A gap for each resource whose ``@odata.id`` is that of another: the resource that should be at its URI is not seen."""
    for uri, document in seen.documents.items():
        said = document.body.get('@odata.id')
        if said == uri:
            continue
        own = normal(said) if isinstance(said, str) and said.startswith('/') else uri
        if own == uri or differ_in_case_only(own, uri) or parent(own) != parent(uri):
            continue
        if own not in seen.documents and not _has_members_of(own, document):
            continue
        # The resource may belong to another machine, so the gap is noted at the collection of both, for every machine.
        place = replace(document.ref, uri=parent(uri))
        yield _gap(place, f'Members ({short(last(uri))})', f'its @odata.id is that of another resource, {short(own)}')


def _put_in_twice(seen: StatedExistence) -> Iterator[Gap]:
    """A gap for each collection with two expanded members of the same ``@odata.id`` and different contents."""
    for document in seen.documents.values():
        listed = document.body.get('Members')
        whole = [one for one in listed if isinstance(one, dict) and 'Id' in one] if isinstance(listed, list) else []
        first: dict[str, JsonObject] = {}
        for member in whole if len(whole) > 1 and len(set(map(link_of, whole))) < len(whole) else ():
            link = link_of(member)
            other = member if link is None else first.setdefault(normal(link), member)
            if _what(other) != _what(member):
                names = ' and '.join(sorted(short(str(one.get('Id'))) for one in (other, member)))
                yield _gap(document.ref, 'Members', f'{names} are different, but both have the @odata.id {short(str(link))}')
                break


def _what(body: JsonObject) -> tuple[object, ...]:
    """Properties that tell one member of a collection from another."""
    return (*identity_of(body), body.get('Version'))


def _has_members_of(collection: str, document: Document) -> bool:
    """Whether a document is a collection whose members all belong to another collection, which may not have been read."""
    listed = document.body.get('Members')
    if not isinstance(listed, list) or not listed:
        return False
    links = [link_of(one) for one in listed]
    return all(link is not None and within(normal(link), collection) for link in links)


def _images(seen: StatedExistence) -> Iterator[Gap]:
    yield from unlisted(seen.documents.values(), seen.tree.items)


def unlisted(documents: Iterable[Document], items: Mapping[str, ResourceView]) -> Iterator[Gap]:
    """A gap for each software image that a resource links to and that is no firmware item: its version is unknown."""
    for document in documents:
        links = document.body.get('Links')
        for name in [name for name in _IMAGES if name in links] if isinstance(links, dict) else ():
            for place in map(normal, ResourceView.of(document, []).links('Links', name)):
                if last(parent(place)) in _ITEM_LISTS and place not in items and not _in_another_case(place, items):
                    yield _gap(document.ref, f'Links/{name}', f'links to {short(place)}, but there is no such firmware item')


def _in_another_case(place: str, items: Iterable[str]) -> bool:
    return any(differ_in_case_only(place, uri) for uri in items)


def _absent(seen: StatedExistence) -> Iterator[Gap]:
    """A gap for each absent resource whose serial number a vendor's extension shows as present."""
    tree = seen.tree
    gone = {serial.casefold(): view for view in tree.absent.values() if (serial := serial_of(view)) is not None}
    for view in tree.extensions.values():
        serial = serial_of(view)
        other = gone.get(serial.casefold()) if serial is not None else None
        if other is not None and not absent(view):
            yield _gap(
                other.ref, 'Status/State', f'is absent, but {short(view.ref.uri)} with the same serial number is present'
            )


def _processors(seen: StatedExistence) -> Iterator[Gap]:
    """A gap for each System that counts more processors than it lists.

    Sockets are counted and may be empty; accelerators are counted by some BMCs and not by others.
    """
    tree = seen.tree
    for view in tree.systems.values():
        summary = view.part('ProcessorSummary')
        count = summary.integer('Count') if summary is not None else None
        if count is None or not isinstance(view.body.get('Processors'), dict):
            continue
        place = view.link('Processors')
        listed = seen.documents.get(place.rstrip('/')) if place is not None else None
        members = listed.body.get('Members') if listed is not None else None
        if isinstance(members, list) and count > _distinct(members):
            yield _gap(view.ref, 'ProcessorSummary/Count', f'{count} counted, but {_distinct(members)} listed')


def _untyped(seen: StatedExistence) -> Iterator[Gap]:
    known = {uri for device in seen.found for uri in device.uris()} | seen.platform
    for uri, view in seen.tree.processors.items():
        if uri in known or uri in seen.tree.offload or view.literal('ProcessorType') is not None:
            continue
        row = seen.devices.by_name(view.text('Model'))
        if row is None or row.kind is not None:
            yield Gap(ref=view.ref, field='ProcessorType', reason=_NO_TYPE, hides=True)


def _numbered(seen: StatedExistence) -> Iterator[Gap]:
    """A gap if firmware items number more GPUs or DPUs than there are devices.

    FPGAs are left out: an FPGA of a baseboard has items, and is not always shown.
    """
    numbers: dict[str, set[int]] = {}
    shown: dict[str, ResourceView] = {}
    for view in seen.tree.items.values():
        match = ORDINAL.search(view.id[-64:])
        if match is not None and match['word'].upper() in _NUMBERED and _ROOT not in view.id:
            numbers.setdefault(match['word'].upper(), set()).add(int(match['number']))
            shown.setdefault(match['word'].upper(), view)
    have = Counter(device.kind.value for device in seen.found if device.kind is not None)
    have.update(key[0] for uri in seen.platform if (key := ordinal(last(uri))) is not None)
    for word, found in sorted(numbers.items()):
        if len(found) > have[word]:
            reason = f'firmware items are numbered for {len(found)} {word}, but the number of devices found is {have[word]}'
            yield _gap(shown[word].ref, None, reason)


def _unowned(seen: StatedExistence) -> Iterator[Gap]:
    """A gap for each unassigned item that has the name of an accelerator, if no such device is there."""
    owned = {c.ref.uri for items in seen.items for c in (*items.components, *items.slots.values())}
    kinds = {device.kind for device in seen.found}
    slots = {(device.location or '').casefold() for device in seen.found}
    for uri, view in seen.tree.items.items():
        row = seen.devices.by_name(view.text('Name'))
        kind = row.kind if row is not None else None
        slot = view.text(*seen.slot) if seen.slot is not None else None
        if uri in owned or kind is None or (kind in kinds and (slot is None or slot.casefold() in slots)):
            continue
        where = '' if slot is None else f' in {slot}'
        yield _gap(
            view.ref, 'Name', f'firmware item of a {kind.value}{where} ({view.text("Name")}), but no such device was found'
        )


def _roots(seen: StatedExistence) -> Iterator[Gap]:
    """A gap for each root of trust that is named after a numbered device that is not there."""
    known = {last(uri).casefold() for device in seen.found for uri in device.uris()} | {
        last(uri).casefold() for uri in seen.platform
    }
    for uri, view in seen.tree.chassis.items():
        _, mark, tail = last(uri).partition(f'_{_ROOT}_')
        key = ordinal(tail) if mark else None
        if key is None or view.oem_links('ComponentsProtected'):
            continue
        if not any(name == tail.casefold() or name.endswith(f'_{tail.casefold()}') for name in known):
            yield _gap(view.ref, None, f'root of trust of {tail}, but no such device was found')


def _modules(seen: StatedExistence) -> Iterator[Gap]:
    """A gap if more cards and modules have the name of an accelerator than there are devices of that kind."""
    owned = {uri for device in seen.found for uri in device.uris()}
    named: dict[str, list[ResourceView]] = {}
    for uri, view in seen.tree.chassis.items():
        row = seen.devices.by_name(view.text('Model'))
        texts = (view.text('Id'), view.text('Name'), view.text('Model'))
        if uri in owned or row is None or row.kind is None or view.literal('ChassisType') not in ('Card', 'Module'):
            continue
        inner = any(within(u, uri) for u in owned)
        if not inner and not any(CARRIER.search(text) for text in texts if text):
            named.setdefault(row.kind.value, []).append(view)
    have = Counter(device.kind.value for device in seen.found if device.kind is not None)
    for kind, views in sorted(named.items()):
        if len(views) > have[kind]:
            yield _gap(
                views[0].ref, None, f'{len(views)} Chassis named as {kind}, but the number of devices found is {have[kind]}'
            )


INVARIANTS: tuple[Invariant, ...] = (
    Invariant(
        name='members', says='``Members@odata.count`` of a collection', other='the members that it lists', check=_members
    ),
    Invariant(
        name='themselves',
        says='``@odata.id`` of a resource',
        other='the URI that it was read from, if the other URI is next to it, and is another resource or holds all its members',
        check=_themselves,
    ),
    Invariant(
        name='put in twice',
        says='a member that is expanded in a collection (``$expand``)',
        other='another member with the same ``@odata.id``: the same contents',
        check=_put_in_twice,
    ),
    Invariant(
        name='arrays',
        says='``PCIeDevices@odata.count``, ``Processors@odata.count`` and similar properties',
        other='the links next to it',
        check=_arrays,
    ),
    Invariant(
        name='processors',
        says='``ProcessorSummary.Count`` of a System',
        other='its Processors, of whatever type: not fewer',
        check=_processors,
    ),
    Invariant(name='untyped', says='a Processor', other='its ``ProcessorType``, or a known model', check=_untyped),
    Invariant(
        name='numbered',
        says='firmware items that number GPU, FPGA or DPU',
        other='the devices of that kind: not fewer',
        check=_numbered,
    ),
    Invariant(
        name='unowned',
        says='a firmware item with the name of a product',
        other='a device of that kind, in the slot that the item names',
        check=_unowned,
    ),
    Invariant(
        name='images',
        says='``SoftwareImages`` and ``ActiveSoftwareImage`` of a resource',
        other='the firmware items',
        check=_images,
    ),
    Invariant(
        name='absent',
        says="a vendor's extension that shows a device",
        other='the resource with its serial number, which is not absent',
        check=_absent,
    ),
    Invariant(name='roots', says='a root of trust that is named after a numbered device', other='the device', check=_roots),
    Invariant(
        name='modules',
        says='Chassis that are cards or modules and have the name of a product',
        other='the devices of that kind: not fewer',
        check=_modules,
    ),
)
