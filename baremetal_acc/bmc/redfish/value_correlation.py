# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Join the Redfish resources of one physical device by the values that they show, the strongest first."""

from collections.abc import Callable, Iterable, Iterator

from baremetal_acc.bmc.device_ids import Devices
from baremetal_acc.bmc.redfish.device import GENERIC_NAMES, TABLES, Device, Joint, ordinal
from baremetal_acc.bmc.redfish.discovery import Discovery
from baremetal_acc.bmc.redfish.link_correlation import stated_values
from baremetal_acc.bmc.redfish.parse import last, parent, serial_of, uuid_of
from baremetal_acc.model.accelerator import MergeBasis
from baremetal_acc.model.inventory import Gap

_Key = Callable[[Device], Iterable[tuple[object, str]]]
"""A function that returns identifying values of a device, each with the URI of the resource that shows it."""


def join_by_values(groups: list[Device], walk: Discovery, devices: Devices) -> list[Device]:
    """Join groups that are not linked by the values that they show, the strongest value first.

    Only if one of them is an accelerator: parts of a plain NIC need not be joined here.
    """
    for device in groups:
        device.recognise(devices)
    if not any(device.kind for device in groups):
        return groups
    for basis, (keys, trusted) in _KEYS.items():
        groups = _joined(groups, basis, keys, walk, devices, trusted=trusted)
    groups = _in_two_lists(groups, walk, devices)
    return _paired(groups, walk, devices)


def _joined(
    groups: list[Device], basis: MergeBasis, keys: _Key, walk: Discovery, devices: Devices, *, trusted: bool
) -> list[Device]:
    """Join all devices that share a value.

    :param trusted: the value identifies a device. Otherwise it is a location or number, and joins only different views of one
        kind.
    """
    buckets: dict[object, list[tuple[Device, str]]] = {}
    for device in groups:
        for name, uri in keys(device):
            buckets.setdefault(name, []).append((device, uri))
    gone: dict[int, Device] = {}
    for bucket in buckets.values():
        if len(bucket) < 2:
            continue
        saying: dict[int, tuple[Device, str]] = {}
        for device, uri in bucket:
            now = _follow(gone, device)
            saying.setdefault(id(now), (now, uri))
        alive = [device for device, _ in saying.values()]
        if len(alive) < 2 or not any(d.kind for d in alive):
            continue
        if not trusted and not _are_views_of_one(alive):
            continue
        if _are_several(alive):
            if trusted:
                walk.gaps.append(Gap(ref=alive[0].primary.ref, reason=_REPEATED.format(others=_others(alive))))
            continue
        alive[0].absorb(*alive[1:], by=Joint(basis, tuple(uri for _, uri in saying.values())))
        gone |= dict.fromkeys(map(id, alive[1:]), alive[0])
        alive[0].recognise(devices)
    return [d for d in groups if id(d) not in gone]


def _in_two_lists(groups: list[Device], walk: Discovery, devices: Devices) -> list[Device]:
    """Join a card that both a System and its Chassis list, each with functions of its own.

    The two have the same Id and the same four PCI ids, and nothing that distinguishes them. If more than two devices match, it
    is unknown which are the same: they stay apart, with a gap.
    """
    buckets: dict[object, list[Device]] = {}
    for device in groups:
        uris = [*device.pcie_devices]
        if device.kind is not None and len(uris) == 1 and (ids := _all_ids(device)):
            buckets.setdefault((last(uris[0]).casefold(), ids), []).append(device)
    gone: set[int] = set()
    _note_half_shown(groups, walk)
    for bucket in buckets.values():
        of_systems = [d for d in bucket if '/Systems/' in next(iter(d.pcie_devices))]
        of_chassis = [d for d in bucket if d not in of_systems]
        if not of_systems or not of_chassis:
            continue
        one, other = of_chassis[0], of_systems[0]
        if _are_several([other, one]):
            reason = _CONTRADICTED.format(other=one.primary.ref.uri)
            walk.gaps.append(Gap(ref=other.primary.ref, reason=reason))
            continue
        if len(bucket) > 2:
            reason = f'may be the same card as {_others(bucket)}: treated as different devices'
            walk.gaps.append(Gap(ref=bucket[0].primary.ref, reason=reason, hides=True))
            continue
        one.absorb(other, by=Joint(MergeBasis.ID_AND_PCI_IDS, (next(iter(one.pcie_devices)), next(iter(other.pcie_devices)))))
        one.recognise(devices)
        gone.add(id(other))
    return [d for d in groups if id(d) not in gone]


def _note_half_shown(groups: list[Device], walk: Discovery) -> None:
    """A gap with ``hides`` for a System's card that may be one of a Chassis: same Id, but not both show all PCI ids."""
    named: dict[str, list[Device]] = {}
    for device in groups:
        if len(device.pcie_devices) == 1:
            named.setdefault(last(next(iter(device.pcie_devices))).casefold(), []).append(device)
    for same in named.values():
        of_systems = [d for d in same if '/Systems/' in next(iter(d.pcie_devices))]
        for one in of_systems:
            for other in (d for d in same if d not in of_systems):
                told = (one.kind or other.kind) is not None and not (_all_ids(one) and _all_ids(other))
                if not told or _are_several([one, other]):
                    continue
                reason = (
                    f'may be the same card as {other.primary.ref.uri}, but not all PCI ids are shown: treated as two devices'
                )
                walk.gaps.append(Gap(ref=one.primary.ref, reason=reason, hides=True))


def _all_ids(device: Device) -> tuple[object, ...]:
    """The four PCI ids of each function; empty if not all are shown."""
    ids = tuple((i.vendor_id, i.device_id, i.subsystem_vendor_id, i.subsystem_id) for i in device.ids)
    return ids if ids and all(all(one) for one in ids) else ()


def _are_several(alive: list[Device]) -> bool:
    """Whether devices cannot be one: two are members of one collection, or they contradict each other."""
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
    """Values that must not differ between two views of one device: PCI address; UUID and serial number by resource type."""
    for name in TABLES:
        said: dict[str, set[str]] = {}
        for view in getattr(device, name).values():
            for what, values in stated_values(name, view):
                said.setdefault(what, set()).update(values)
        yield from said.items()
    addresses = {ids.address for ids in device.ids if ids.address}
    if addresses:
        yield 'address', addresses


def _are_views_of_one(alive: list[Device]) -> bool:
    """Whether devices are of one kind, and no two of them have the same type of resource."""
    tables = [name for device in alive for name in TABLES if getattr(device, name)]
    return len(set(tables)) == len(tables) and len({device.kind for device in alive}) == 1


def _paired(groups: list[Device], walk: Discovery, devices: Devices) -> list[Device]:
    """Pair cards without identity with the processors or adapters of their kind, in their order, if there are as many of each.

    A BMC that links nothing and shows nothing to tell its cards apart still has each of them once. Which processor is which
    card is a guess, and a gap says so. If the device already has a card, only the URIs of such a card are added, as the list of
    PCIe devices that a BIOS passes to a BMC may be in any order.
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
            by = Joint(MergeBasis.ORDER, (device.primary.ref.uri, card.primary.ref.uri))
            if bare:
                device.absorb(card, by=by)
                device.recognise(devices)
            else:
                device.joints += [by, *card.joints]
                device.extra |= {*card.uris(), *(f.ref.uri for f in card.functions)}
            gone.add(id(card))
    return [d for d in groups if id(d) not in gone]


def _same_products(whole: list[Device], cards: list[Device]) -> bool:
    """Whether cards have no identity and the same PCI ids as the devices, and no device has a PCI address."""
    if any(card.serial or card.uuid for card in cards):
        return False
    ids = [{(i.vendor_id, i.device_id) for i in d.ids if i.vendor_id} for d in whole]
    theirs = {(i.vendor_id, i.device_id) for d in cards for i in d.ids if i.vendor_id}
    return all(not known or known & theirs for known in ids) and not any(i.address for d in whole for i in d.ids)


def _mixed(devices: list[Device]) -> bool:
    """Whether devices are members of several collections."""
    return len({parent(d.primary.ref.uri) for d in devices}) > 1


def _differ(one: Device, other: Device) -> bool:
    """Whether two devices are members of one collection, or have different serial numbers."""
    return not one.collections().isdisjoint(other.collections()) or bool(
        one.serial and other.serial and one.serial.casefold() != other.serial.casefold()
    )


_REPEATED = 'has the same UUID or serial number as {others}: treated as different devices'

_CONTRADICTED = (
    'has the Id and PCI ids of {other}, but another UUID, serial number or PCI address: treated as different devices'
)

_GUESSED = 'no property tells which card this is: assigned to {card} by order'


def _others(devices: list[Device]) -> str:
    return ', '.join(d.primary.ref.uri for d in devices[1:4])


def _follow(gone: dict[int, Device], device: Device) -> Device:
    while id(device) in gone:
        device = gone[id(device)]
    return device


def _uuids(device: Device) -> Iterable[tuple[object, str]]:
    return [(u, view.ref.uri) for view in device.views if view.has('UUID') and (u := uuid_of(view, 'UUID'))]


def _serials(device: Device) -> Iterable[tuple[object, str]]:
    """The serial number with each text that names the product, and with the kind."""
    found: list[tuple[object, str]] = []
    for view in device.views:
        serial = serial_of(view)
        if serial is not None:
            texts = (view.text('PartNumber'), view.text('Model'), view.text('Name'))
            known = {t.casefold() for t in texts if t}
            found += [((serial.casefold(), t), view.ref.uri) for t in sorted(known - GENERIC_NAMES)]
            if device.kind is not None:
                found.append(((serial.casefold(), device.kind), view.ref.uri))
    return found


def _addresses(device: Device) -> Iterable[tuple[object, str]]:
    """The PCI address with the PCI ids, as only one card is at an address."""
    return [
        ((i.address, i.vendor_id, i.device_id), f.ref.uri)
        for f, i in zip(device.functions, device.ids, strict=True)
        if i.address and i.vendor_id and i.device_id
    ]


def _labels(device: Device) -> Iterable[tuple[object, str]]:
    """The location label."""
    label = device.location if device.kind is not None else None
    return () if label is None else ((label.casefold(), device.primary.ref.uri),)


def _ordinals(device: Device) -> Iterable[tuple[object, str]]:
    """Kind and number in its Ids."""
    if device.kind is None:
        return ()
    uris = [uri for name in ('processors', 'pcie_devices', 'graphics') for uri in getattr(device, name)]
    return [(key, uri) for uri in uris if (key := ordinal(last(uri))) is not None]


_KEYS: dict[MergeBasis, tuple[_Key, bool]] = {
    MergeBasis.UUID: (_uuids, True),
    MergeBasis.SERIAL: (_serials, True),
    MergeBasis.PCI_ADDRESS: (_addresses, True),
    MergeBasis.LOCATION: (_labels, False),
    MergeBasis.NUMBER: (_ordinals, False),
}
"""Values that may join devices, the strongest first, and whether each identifies a device."""
