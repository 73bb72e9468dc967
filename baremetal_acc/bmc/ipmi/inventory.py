# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Build the accelerator inventory of a machine from IPMI: boards by their FRU data, firmware by HPM.1 components.

IPMI does not report which boards are accelerators; it has only names and numbers in FRUs. A board is an accelerator if the
device table knows its product name. A card that the table does not know is reported as a gap. A board that may be a card, and
whose FRU cannot be read, has no name, or has a name that cannot be trusted, may be an accelerator: its gap is marked ``hides``.
A gap does not hide anything if the locator says that the FRU is memory, a power supply or a backplane
(:mod:`baremetal_acc.bmc.ipmi.entities`), or if the table lists the name of the locator as no accelerator.

The firmware that a controller takes by HPM.1 belongs to the board that the controller is on, which has the controller's FRU 0.
A BMC may also take the firmware of cards without a controller: a component whose name matches exactly one card is assigned to
that card, and is marked as not certain. All other components of a BMC belong to the baseboard.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from baremetal_acc.bmc.device_ids import DeviceRow, Devices
from baremetal_acc.bmc.ipmi import controller_inventory, entities, fru_contents
from baremetal_acc.bmc.ipmi.controller_path import Path
from baremetal_acc.bmc.ipmi.hpm import commands
from baremetal_acc.bmc.ipmi.resource import ControllerAddress, MachinePart
from baremetal_acc.model.accelerator import Accelerator, IdentitySource, Kind
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.inventory import Gap, PlatformDevice
from baremetal_acc.model.ref import AcceleratorId, BmcName, Ref

FIRMWARE = 'firmware'
"""Kind of a platform device that is a component of the baseboard's firmware."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryTarget:
    """A controller that takes firmware by HPM.1."""

    path: Path
    components: tuple[commands.HpmComponent, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundBoard:
    """Accelerators, other platform devices and gaps of a machine."""

    accelerators: tuple[Accelerator, ...]
    platform: tuple[PlatformDevice, ...]
    gaps: tuple[Gap, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Card:
    """A board that is an accelerator."""

    place: ControllerAddress
    found: controller_inventory.Fru
    contents: fru_contents.Contents
    row: DeviceRow
    kind: Kind

    @property
    def serial(self) -> str | None:
        """Serial number of the product area, else of the board area."""
        return _first(self.contents, 'serial')

    @property
    def location(self) -> str | None:
        """Location of the card, by its locator."""
        return self.found.location


def found(
    seen: controller_inventory.ControllerInventory,
    targets: Sequence[InventoryTarget],
    bmc: BmcName,
    known: Devices,
    system: Ref | None,
    gaps: Iterable[Gap] = (),
) -> FoundBoard:
    """Build the inventory from one inspection.

    :param targets: the controllers that support HPM.1.
    :param system: the System through which the cards are reset.
    :param gaps: further gaps to include.
    """
    told = [*gaps, *_unread(seen, bmc, known)]
    cards = [card for one in seen.frus if (card := _card(one, bmc, known, told)) is not None]
    items, platform = _assigned(cards, targets, bmc, told)
    accelerators = [
        _accelerator(card, identity, items.get(card.place, ()), bmc, known, system)
        for card, identity in zip(cards, _identities(cards, bmc, told), strict=True)
    ]
    owners = {ref: a.id for a in accelerators for ref in (*a.refs, *(c.ref for c in a.firmware))}
    return FoundBoard(
        accelerators=tuple(sorted(accelerators, key=lambda a: a.id)),
        platform=tuple(sorted(platform, key=lambda p: p.ref)),
        gaps=tuple(
            sorted(
                {Gap(ref=g.ref, reason=g.reason, field=g.field, accelerator=owners.get(g.ref), hides=g.hides) for g in told},
                key=lambda g: (g.ref, g.field or '', g.reason),
            )
        ),
    )


def _unread(seen: controller_inventory.ControllerInventory, bmc: BmcName, known: Devices) -> Iterable[Gap]:
    for one in seen.unread:
        hides = one.hides and not _is_none(known, one.location)
        reason = one.reason + (_hint(one.location) if hides else '')
        if one.fru is not None:
            yield Gap(ref=Ref(bmc=bmc, uri=_place(one.fru).uri), reason=reason, hides=hides)
        else:
            yield Gap(ref=Ref(bmc=bmc, uri=ControllerAddress(path=one.path).uri), field=one.what, reason=reason, hides=hides)


def _is_none(known: Devices, location: str | None) -> bool:
    """Whether the device table lists this location's name as no accelerator, whatever is there."""
    row = known.by_name(location)
    return row is not None and row.kind is None


def _hint(location: str | None) -> str:
    """How the operator declares that no accelerator is there."""
    if location is None:
        return ''
    row = f'a row with kind "none" and the name {location!r}'
    return f' (if this is no accelerator, add {row} to a file in [baremetal_acc] devices)'


def _place(found: controller_inventory.Fru) -> ControllerAddress:
    return ControllerAddress(path=found.path, part=MachinePart.FRU, number=found.number, lun=found.lun)


def _card(found: controller_inventory.Fru, bmc: BmcName, known: Devices, told: list[Gap]) -> _Card | None:
    if found.contents is None:
        return None
    place = _place(found)
    ref = Ref(bmc=bmc, uri=place.uri)
    names = _names(found.contents)
    row = next((row for name in names if (row := known.by_name(name)) is not None), None)
    kind = None if row is None else row.kind
    # A name listed as no accelerator may be the board's only; the product's name may be in an invalid area.
    unknown = kind is None and (found.contents.unsure or not names)
    hides = unknown and found.may_be_card and not _is_none(known, found.location)
    told += [
        Gap(ref=ref, reason=fault + (_hint(found.location) if hides else ''), hides=hides) for fault in found.contents.faults
    ]
    if not names and hides and not found.contents.faults:
        told.append(
            Gap(ref=ref, reason=f'the FRU contains neither a board name nor a product name{_hint(found.location)}', hides=True)
        )
    if row is None and names and found.entity in entities.CARDS:
        hint = 'a file in [baremetal_acc] devices can list it'
        reason = f'{names[0]}: this card is not in the device table, and is not treated as an accelerator ({hint})'
        told.append(Gap(ref=ref, reason=reason))
    if row is None or kind is None:
        return None
    return _Card(place=place, found=found, contents=found.contents, row=row, kind=kind)


def _names(contents: fru_contents.Contents) -> list[str]:
    names = (contents.product and contents.product.name, contents.board and contents.board.product)
    return [name for name in names if name]


def _first(contents: fru_contents.Contents, field: str) -> str | None:
    """A field of the product area, else of the board area."""
    areas = (contents.product, contents.board)
    return next((value for area in areas if area is not None and (value := getattr(area, field)) is not None), None)


def _identities(cards: Sequence[_Card], bmc: BmcName, told: list[Gap]) -> list[tuple[AcceleratorId, IdentitySource]]:
    """Identity of each card: its serial number, with the location where the serial number repeats, else its URI.

    Serial numbers do repeat on real machines.
    """
    keys = [(card.serial.casefold() if card.serial else None, card.location) for card in cards]
    serials, places = Counter(serial for serial, _ in keys), Counter(keys)
    identities = []
    for card, (serial, location) in zip(cards, keys, strict=True):
        if serial is not None and serials[serial] == 1:
            identities.append((AcceleratorId(f'serial:{card.serial}'), IdentitySource.SERIAL))
            continue
        if serial is not None:
            reason = f'{serials[serial]} boards have the serial number {card.serial}: they may be the same board, found twice'
            told.append(Gap(ref=Ref(bmc=bmc, uri=card.place.uri), reason=reason))
        if serial is not None and location is not None and places[serial, location] == 1:
            identities.append((AcceleratorId(f'serial:{card.serial}@{location}'), IdentitySource.SERIAL))
        else:
            identities.append((AcceleratorId(f'uri:{bmc}:{card.place.uri}'), IdentitySource.URI))
    times = Counter(identity for identity, _ in identities)
    return [
        one if times[one[0]] == 1 else (AcceleratorId(f'uri:{bmc}:{card.place.uri}'), IdentitySource.URI)
        for card, one in zip(cards, identities, strict=True)
    ]


def _assigned(
    cards: Sequence[_Card], targets: Sequence[InventoryTarget], bmc: BmcName, told: list[Gap]
) -> tuple[dict[ControllerAddress, list[Component]], list[PlatformDevice]]:
    """Assign each HPM.1 component to a card or to the platform."""
    items: dict[ControllerAddress, list[Component]] = {}
    platform = []
    own = {card.place.path: card for card in reversed(cards) if card.place.number == 0}  # the one on LUN 0, if there is one
    for target in targets:
        numbered = Counter(one.name for one in target.components)
        for one in target.components:
            ref = Ref(bmc=bmc, uri=ControllerAddress(path=target.path, part=MachinePart.HPM, number=one.number).uri)
            told += [Gap(ref=ref, reason=reason) for reason in one.unread]
            card = own.get(target.path)
            certain = card is not None
            if card is None:
                called = [c for c in cards if c.place.path == target.path and one.name and _is_called(c, one.name)]
                card = called[0] if len(called) == 1 else None
            item = component(one, ref, alone=numbered[one.name] == 1, certain=certain)
            if card is not None:
                items.setdefault(card.place, []).append(item)
            else:
                version = f'version {item.version}' if item.version is not None else 'an unknown version'
                why = f'{version} of HPM.1 component {one.number}: firmware that belongs to no accelerator'
                platform.append(PlatformDevice(ref=ref, kind=FIRMWARE, model=one.name, reason=why))
    return items, platform


def unseen(targets: Iterable[InventoryTarget], bmc: BmcName) -> Iterator[Ref]:
    """Components that do not show which activated firmware waits for a payload cold reset.

    HPM.1 has no query for it: the deferred version is the one that has *not* been activated. Source: PICMG HPM.1
    R1.0, section 3, Get Component Properties, general properties, bit 5.
    """
    for target in targets:
        for one in target.components:
            if one.properties is not None and one.properties.cold_reset:
                yield Ref(bmc=bmc, uri=ControllerAddress(path=target.path, part=MachinePart.HPM, number=one.number).uri)


def _is_called(card: _Card, name: str) -> bool:
    """Whether a card has the name of a component. Only eleven characters are compared: component names have no more."""
    texts = (card.found.name, *_names(card.contents))
    return any(text is not None and text.casefold()[:11] == name.casefold()[:11] for text in texts)


def component(one: commands.HpmComponent, ref: Ref, *, alone: bool = True, certain: bool = True) -> Component:
    """Convert an HPM.1 component to the model's.

    :param alone: no other component of the controller has its name.
    :param certain: it is known that the component belongs to that card.
    """
    called = one.name or FIRMWARE
    return Component(
        id=called if alone and one.name else f'{called}-{one.number}',
        ref=ref,
        name=one.name,
        version=None if one.current is None else one.current.text,
        staged=None if one.deferred is None else one.deferred.text,
        updateable=True,  # a target lists only components that it can update
        certain=certain,
    )


def _accelerator(
    card: _Card,
    identity: tuple[AcceleratorId, IdentitySource],
    items: Sequence[Component],
    bmc: BmcName,
    known: Devices,
    system: Ref | None,
) -> Accelerator:
    names = _names(card.contents)
    ref = Ref(bmc=bmc, uri=card.place.uri)
    return Accelerator(
        id=identity[0],
        kind=card.kind,
        identity=identity[1],
        primary=ref,
        refs=(ref,),
        vendor=card.row.vendor or known.vendor(_first(card.contents, 'manufacturer')),
        model=card.row.model or names[0],
        part_number=_first(card.contents, 'part_number'),
        serial=card.serial,
        location=card.location,
        firmware=tuple(sorted(items, key=lambda c: (c.id or '', c.ref))),
        traits=card.row.traits | known.traits(card.kind, None, None),
        system=system,
    )
