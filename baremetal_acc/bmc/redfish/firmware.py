# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Assign SoftwareInventory items to the devices whose firmware they are, and say whether the assignment is certain.

The first of these that finds a device wins: RelatedItem (the device, a resource below it, its root of trust, or one of its
slots); links from the device's resources to their software images; a naming convention of the items' Ids, or a slot that an
item names, where :mod:`baremetal_acc.bmc.quirks` knows of one; the number at the end of both Ids (``GPU_0``; never certain).
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from baremetal_acc.bmc.quirks import Quirks
from baremetal_acc.bmc.redfish.device import Device, extension_text, function, ordinal, own_version, staged_version
from baremetal_acc.bmc.redfish.discovered_tree import DiscoveredTree
from baremetal_acc.bmc.redfish.discovery import CARRIER, Discovery
from baremetal_acc.bmc.redfish.parse import MOST, ResourceView, component, last, parent, uuid_of, version_of
from baremetal_acc.model.accelerator import Function, ReconfigurationSlot
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.inventory import Gap
from baremetal_acc.model.ref import Ref
from baremetal_acc.model.uri import Spellings

SLOT = re.compile(r'^/?FPGA/ReconfigurationSlots/(\d{1,4})$')
"""A JSON pointer to a reconfiguration slot: the fragment of a RelatedItem. Source: RFC 6901."""

SPOKEN_OF = re.compile(r'(?<![A-Za-z])(?P<word>GPU|FPGA|DPU)s?(?![A-Za-z])', re.IGNORECASE)
"""Kinds of devices mentioned in a text: ``GPUs vBIOS``."""

MOST_TEXT = 256
"""Characters of a text that are searched for them."""

MOST_RELATED = 100
"""RelatedItem links of one item that are checked. Real items have up to eight."""

DEEPEST = 12
"""Segments that are removed from a link to find the device above it."""


@dataclass(slots=True, kw_only=True)
class Items:
    """The firmware items of one device.

    :ivar components: those of the device itself.
    :ivar slots: the item of a reconfiguration slot, by URI of the Processor and index of the slot.
    """

    components: list[Component] = field(default_factory=list)
    slots: dict[tuple[str, int], Component] = field(default_factory=dict)


def assign(walk: Discovery, devices: list[Device], quirks: Quirks) -> list[Items]:
    """Assign the firmware items to devices; a device without a certain item gets the version that its own resources show.

    :returns: the items of each device, in the order of the devices.
    """
    tree = walk.tree
    found = [Items() for _ in devices]
    owner = {uri: n for n, device in enumerate(devices) for uri in device.uris()}
    trusted = _roots_of_trust(walk, owner)
    images = _linked_images(walk, devices)
    ordinals = _ordinals(devices)
    slots = _slot_functions(walk, devices)
    spelling = Spellings((*owner, *trusted, *slots))
    ids = _ids(devices) if quirks.item_id_ends_with_device_id() else {}
    naming = quirks.item_names_accelerator()
    nodes = _of_systems(devices)
    nobodys: list[ResourceView] = []
    path = quirks.item_slot()
    places = _slots(devices) if path is not None else {}
    for uri, view in tree.items.items():
        related = view.links('RelatedItem')
        place = _by_related(walk, view, related, owner, trusted, slots, spelling) if related else None
        for link in related[:MOST_RELATED]:
            walk.promise(view, 'RelatedItem', link)
        if len(related) > MOST_RELATED:
            walk.gaps.append(
                Gap(
                    ref=view.ref,
                    field='RelatedItem',
                    reason=f'more than {MOST_RELATED} links: the rest was not read',
                    hides=True,
                )
            )
        if place is not None and isinstance(place, _Slot):
            found[place.device].slots.setdefault((place.processor, place.index), component(view))
            continue
        number, certain = place, True
        if number is None:
            number = images.get(uri)
        if number is None and ids:
            number = _by_id(view, ids, quirks)
        if number is None and (match := naming.fullmatch(view.id)) is not None:
            number = nodes.get((match['system'].casefold(), int(match['number'])))
        if number is None and path is not None and places:
            number = places.get(view.text(*path) or '')
        if number is None and not related and ordinals:
            number, certain = ordinals.get(ordinal(view.id) or ('', -1)), False
        if number is not None:
            found[number].components.append(component(view, certain=certain))
        elif not related and view.body.get('RelatedItem') not in (None, []):
            reason = 'cannot be parsed: this may be firmware of a device'
            walk.gaps.append(Gap(ref=view.ref, field='RelatedItem', reason=reason, hides=True))
        elif not related:
            nobodys.append(view)
    for device, items in zip(devices, found, strict=True):
        items.components = _with_own_staged(device, _with_staged(walk, items.components))
        if not any(c.certain for c in items.components):
            own = own_version(device)
            if own is not None:
                items.components.insert(0, own)
    walk.gaps += _spoken_of(nobodys, devices, found)
    return found


def of_none(walk: Discovery, found: list[Items]) -> tuple[Component, ...]:
    """The firmware items that belong to no accelerator."""
    taken = {c.ref for items in found for c in (*items.components, *items.slots.values())}
    return tuple(component(view) for view in walk.tree.items.values() if view.ref not in taken)


def _spoken_of(nobodys: list[ResourceView], devices: list[Device], found: list[Items]) -> Iterator[Gap]:
    """A gap for each unassigned item that mentions a kind of device of which some devices show no firmware.

    Seen: one item for all GPUs of a node (Cray-HPE/csm-redfish-interface-emulator, mockups/EX235a, ``Node0.AccVBIOS``).
    """
    bare = Counter(d.kind.value for d, items in zip(devices, found, strict=True) if d.kind is not None and not items.components)
    for view in nobodys if bare else ():
        texts = [text for name in ('Id', 'Name', 'Description') if isinstance(text := view.body.get(name), str)]
        words = {match['word'].upper() for text in texts for match in SPOKEN_OF.finditer(text[:MOST_TEXT])}
        if any(CARRIER.search(text) for text in texts):
            continue
        for word in sorted(words & bare.keys()):
            bearers = f'{bare[word]} {word} without firmware items'
            reason = f'mentions {word}, but no device: it may be the firmware of {bearers}'
            yield Gap(ref=view.ref, reason=reason)


def slots(device: Device, items: Items, walk: Discovery) -> tuple[ReconfigurationSlot, ...]:
    """The reconfiguration slots of a device. Source: DSP8010 2025.4, Processor v1_22_0, FPGA.ReconfigurationSlots."""
    found = []
    for uri, view in device.processors.items():
        functions = walk.tree.acceleration.get(uri, ())
        known = {f.ref.uri: function(f) for f in functions}
        named = _by_slot_name(functions, known)
        fpga = view.part('FPGA')
        if unread := _unread_slots(view, fpga):
            reason = 'cannot be parsed: slots may be missing'
            walk.gaps.append(Gap(ref=view.ref, field=unread, reason=reason, hides=True))
        for index, slot in enumerate(fpga.parts('ReconfigurationSlots') if fpga is not None else ()):
            if slot is None:
                place = f'FPGA/ReconfigurationSlots/{index}'
                walk.gaps.append(Gap(ref=view.ref, field=place, reason='a slot is not an object', hides=True))
                continue
            slot_id = slot.text('SlotId') or str(index)
            found.append(
                ReconfigurationSlot(
                    slot_id=slot_id,
                    index=index,
                    uuid=uuid_of(slot, 'UUID'),
                    programmable_from_host=slot.boolean('ProgrammableFromHost'),
                    function=_function_in(walk, view, slot, slot_id, known, named),
                    item=items.slots.get((uri, index)),
                )
            )
    return tuple(found)


def _unread_slots(view: ResourceView, fpga: ResourceView | None) -> str | None:
    """The property that should hold the reconfiguration slots, if its value has the wrong type; else None."""
    if fpga is None:
        return 'FPGA' if view.has('FPGA') and view.literal('ProcessorType') == 'FPGA' else None
    slots = fpga.body.get('ReconfigurationSlots')
    return None if slots is None or isinstance(slots, list) else 'FPGA/ReconfigurationSlots'


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slot:
    """A reconfiguration slot: index of the device in the list of devices, URI of the Processor, index of the slot."""

    device: int
    processor: str
    index: int


def _by_related(
    walk: Discovery,
    view: ResourceView,
    related: tuple[str, ...],
    owner: dict[str, int],
    trusted: dict[str, int],
    slots: dict[str, _Slot],
    spelling: Spellings,
) -> int | _Slot | None:
    """Find the device or slot of an item by RelatedItem: the resource, else a root of trust, else a resource above it."""
    places = []
    for link in related:
        bare, _, fragment = link.partition('#')
        place = walk.settled(bare)
        if place is None:
            continue
        place = spelling.of(place)
        pointer = SLOT.match(fragment)
        if pointer is not None and place in owner:
            return _Slot(device=owner[place], processor=place, index=int(pointer.group(1)))
        if place in slots:
            return slots[place]
        places.append(place)
    named = list(dict.fromkeys(n for place in places if (n := owner.get(place, trusted.get(place))) is not None))
    if len(named) > 1:
        walk.gaps.append(Gap(ref=view.ref, field='RelatedItem', reason='names several devices: assigned to the first'))
    if named:
        return named[0]
    for place in places:
        for _ in range(DEEPEST):
            place = spelling.of(parent(place))
            if place in owner or place in trusted:
                return owner.get(place, trusted.get(place))
    return None


def _roots_of_trust(walk: Discovery, owner: dict[str, int]) -> dict[str, int]:
    """Chassis with ComponentsProtected (roots of trust), and the device that each protects."""
    found: dict[str, int] = {}
    spelling = Spellings(owner)
    for uri, view in walk.tree.chassis.items():
        for link in view.oem_links('ComponentsProtected'):
            place = walk.settled(link)
            if place is not None and (known := spelling.of(place)) in owner:
                found[uri] = owner[known]
            else:
                walk.promise(view, 'Links/Oem/ComponentsProtected', link)
    return found


def _linked_images(walk: Discovery, devices: list[Device]) -> dict[str, int]:
    """Items that a device's resources link to as their software images.

    Source: DSP8010 2025.4: Manager and NetworkAdapter.Controllers, Links.ActiveSoftwareImage and SoftwareImages.
    """
    found: dict[str, int] = {}
    spelling = Spellings(walk.tree.items)
    for n, device in enumerate(devices):
        views: list[ResourceView | None] = [*device.managers.values(), *device.systems.values()]
        for adapter in device.adapters.values():
            views += adapter.parts('Controllers')
        for view in views:
            if view is None:
                continue
            links = list(view.links('Links', 'SoftwareImages'))
            active = view.link('Links', 'ActiveSoftwareImage')
            for link in [*links, *([active] if active else [])]:
                place = walk.settled(link)
                if place is not None:
                    found.setdefault(spelling.of(place), n)
    return found


def _ids(devices: list[Device]) -> dict[str, int]:
    """Devices by the Ids of their resources, case-folded."""
    found: dict[str, int] = {}
    for n, device in enumerate(devices):
        for uri in sorted(device.uris()):
            found.setdefault(last(uri).casefold(), n)
    return found


def _by_id(view: ResourceView, ids: dict[str, int], quirks: Quirks) -> int | None:
    """Find the device of an item whose Id ends with two underscores and the Id of one of the device's resources."""
    head, mark, tail = view.id.rpartition('__')
    if not mark or (quirks.inventory_keeps_old_versions() and head.startswith(('Current-', 'Previous-'))):
        return None
    return ids.get(tail.casefold())


def _of_systems(devices: list[Device]) -> dict[tuple[str, int], int]:
    """Devices by the Id of the System above their Processor, and the number in the Processor's Id."""
    found: dict[tuple[str, int], int] = {}
    for n, device in enumerate(devices):
        for uri in device.processors:
            key = ordinal(last(uri))
            if key is not None:
                found.setdefault((last(parent(parent(uri))).casefold(), key[1]), n)
    return found


def _slots(devices: list[Device]) -> dict[str, int]:
    """Devices by the slot (Location) of their extension resources, if only one device has it."""
    found: dict[str, set[int]] = {}
    for n, device in enumerate(devices):
        for view in device.extensions.values():
            if (slot := extension_text(view, 'Location')) is not None:
                found.setdefault(slot, set()).add(n)
    return {slot: next(iter(numbers)) for slot, numbers in found.items() if len(numbers) == 1}


def _ordinals(devices: list[Device]) -> dict[tuple[str, int], int]:
    """Devices by kind and number in the Id of their primary resource; numbers of several devices are left out."""
    found: dict[tuple[str, int], list[int]] = {}
    for n, device in enumerate(devices):
        key = ordinal(last(device.primary.ref.uri))
        if key is not None:
            found.setdefault(key, []).append(n)
    return {key: numbers[0] for key, numbers in found.items() if len(numbers) == 1}


def _slot_functions(walk: Discovery, devices: list[Device]) -> dict[str, _Slot]:
    """Reconfiguration slots by the URI of the AccelerationFunction that they hold."""
    found: dict[str, _Slot] = {}
    for n, device in enumerate(devices):
        for uri, view in device.processors.items():
            fpga = view.part('FPGA')
            for index, slot in enumerate(fpga.parts('ReconfigurationSlots') if fpga is not None else ()):
                link = slot.link('AccelerationFunction') if slot is not None else None
                place = walk.settled(link) if link is not None else None
                if place is not None:
                    found[place] = _Slot(device=n, processor=uri, index=index)
    return found


def _function_in(
    walk: Discovery,
    processor: ResourceView,
    slot: ResourceView,
    slot_id: str,
    known: dict[str, Function],
    named: dict[str, Function],
) -> Function | None:
    """The function in a slot: by the slot's link, else the function that names the slot.

    A function that is linked but could not be read is returned with its URI alone: the slot is not empty.
    """
    link = slot.link('AccelerationFunction')
    place = walk.settled(link) if link is not None else None
    if place is not None:
        ref = Ref(bmc=processor.ref.bmc, uri=place)
        return known.get(place) or Function(ref=ref, id=last(place))
    if slot.has('AccelerationFunction'):
        return Function(ref=slot.ref, id='?')
    return named.get(slot_id)


def _by_slot_name(views: tuple[ResourceView, ...], known: dict[str, Function]) -> dict[str, Function]:
    """Functions by the slots in their FpgaReconfigurationSlots."""
    found: dict[str, Function] = {}
    for view in views:
        names = view.body.get('FpgaReconfigurationSlots')
        if isinstance(names, list):
            for name in names[:MOST]:
                if isinstance(name, str):
                    found.setdefault(name.strip(), known[view.ref.uri])
        elif names is not None:
            view.odd('FpgaReconfigurationSlots', 'array expected')
    return found


def _with_staged(walk: Discovery, components: list[Component]) -> list[Component]:
    """Merge an item that is staged and not active into its active counterpart, as ``staged``: same SoftwareId, or same name.

    Without a counterpart it is a component of which only the staged version is known.
    Source: DSP8010 2025.4, SoftwareInventory v1_12: Active, Staged.
    """
    tree: DiscoveredTree = walk.tree
    rest: list[Component] = []
    staged: list[Component] = []
    for c in components:
        (staged if _flags(tree.items[c.ref.uri]) == (False, True) else rest).append(c)
    twins: dict[tuple[str, str], int] = {}
    for n, c in enumerate(rest if staged else ()):
        for key in _twin_keys(c):
            twins.setdefault(key, n)
    for waiting in staged:
        n = next((twins[key] for key in _twin_keys(waiting) if key in twins), -1)
        if n >= 0:
            rest[n] = replace(rest[n], staged=waiting.version)
        else:
            rest.append(replace(waiting, version=None, staged=waiting.version))
    return rest


def _twin_keys(c: Component) -> list[tuple[str, str]]:
    return [(word, text) for word, text in (('SoftwareId', c.software_id), ('Name', c.name)) if text]


def _with_own_staged(device: Device, components: list[Component]) -> list[Component]:
    """Add PCIeDevice.StagedVersion to the one component whose version is the card's FirmwareVersion.

    Without exactly one such component, the card's own version is a component of its own.

    Source: DSP8010 2025.4, PCIeDevice v1_21_0: FirmwareVersion, StagedVersion.
    """
    staged = staged_version(device)
    if staged is None or not any(c.certain for c in components):
        return components
    running = {version_of(view, 'FirmwareVersion') for view in device.pcie_devices.values()} - {None}
    same = [n for n, c in enumerate(components) if c.certain and c.version in running]
    if len(same) != 1:
        own = own_version(device)
        return components if own is None else [own, *components]
    found = list(components)
    if found[same[0]].staged is None:
        found[same[0]] = replace(found[same[0]], staged=staged)
    return found


def _flags(view: ResourceView) -> tuple[bool | None, bool | None]:
    return view.boolean('Active'), view.boolean('Staged')
