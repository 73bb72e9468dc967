# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Plan a placement reshape: move a flat inventory and its allocations from a node's root to its devices, or back.

::

    <node>  CUSTOM_GOLD 1, PGPU 2         <node>  CUSTOM_GOLD 1
                                    <->   +-- <node>_ACC_<id>  PGPU 1
                                          +-- <node>_ACC_<id>  PGPU 1

A flat class says how many devices there are, not which ones: any allocation may move to any device that is meant. So a plan has
to keep the amounts: of what each consumer holds, of what is reserved, and of what a device has. Placement checks only the
allocations that are written, so all of this is checked here.

Rules may have changed since something was claimed. Then a device is held as another class, or by another provider of the same
device (:func:`~baremetal_acc.scheduling.providers.overlapping`). Such a device takes over nothing, or it would be promised
twice.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import replace

from baremetal_acc.model.provider import Provider, ProviderTree
from baremetal_acc.model.reshape import (
    AllHeld,
    Consumer,
    HeldInventory,
    InventoryMove,
    Moved,
    MovedClaim,
    NodeClass,
    NoRoom,
    NoRoomInRoot,
    NotOffered,
    Placed,
    Reshape,
    ReshapeRefusal,
    SameDevices,
    Shift,
    Stock,
    Stocked,
)
from baremetal_acc.policy.baseline_rules import FUNCTION_PREFIX
from baremetal_acc.scheduling.provider_names import CLASSES
from baremetal_acc.scheduling.providers import overlapping

NODE_CLASSES = frozenset({'VCPU', 'MEMORY_MB', 'DISK_GB'})
"""Resource classes of a machine as a whole. With a class of the operator's, the node itself is claimed as these."""


# ------------------------------------------------------------------------------------------------------------------ moves


def chosen(placed: Placed, wanted: ProviderTree | None, moves: Sequence[InventoryMove]) -> tuple[InventoryMove, ...]:
    """Return the requested moves; without any, one for each class of the root that we publish for devices, under its own name.

    :param wanted: None for the way back: then one for each class of the devices' providers.
    """
    if moves:
        return tuple(moves)
    if wanted is None:
        names = {s.resource_class for c in placed.children for s in c.stocks}
    else:
        offered = {i.resource_class for p in wanted.providers for i in p.inventories} | set(CLASSES.values())
        flat = {s.resource_class for s in placed.root.stocks}
        names = {c for c in flat if c in offered or c.startswith(FUNCTION_PREFIX)}
    return tuple(InventoryMove(flat=c, nested=c) for c in sorted(names))


def node_class(resource_class: str | None) -> str | None:
    """Return Nova's resource class for the resource class of an Ironic node; None if that is unknown.

    Source: nova 34.0.0, utils.normalize_rc_name.
    """
    return None if resource_class is None else 'CUSTOM_' + re.sub(r'[^A-Z0-9]+', '_', resource_class.upper())


def leaving(placed: Placed, moves: Iterable[InventoryMove], *, back: bool) -> frozenset[tuple[str, str]]:
    """Return the providers and classes that the moves remove. Every consumer of one of them has to be read completely."""
    return frozenset((p.uuid, s.resource_class) for m in moves for p, s in _sources(placed, m, back=back))


def touched(placed: Placed, wanted: ProviderTree | None, moves: Iterable[InventoryMove]) -> frozenset[tuple[str, str]]:
    """Return the existing providers and classes that the moves remove, add to, or reserve.

    :param wanted: None for the way back.
    """
    moves = tuple(moves)
    if wanted is None:
        return leaving(placed, moves, back=True) | leaving(placed, moves, back=False)
    takers = [(p, m.nested) for m in moves for p, _ in _takers(placed, wanted, m)]
    arriving = {(p.uuid, name) for p, name in takers if p.stock(name) is not None}
    spare = {(p.uuid, s.resource_class) for p, s in _spare(placed, wanted, {p.uuid for p, _ in takers})}
    return leaving(placed, moves, back=False) | arriving | spare


# ------------------------------------------------------------------------------------------------------------------- plan


def forth(placed: Placed, wanted: ProviderTree, moves: Sequence[InventoryMove] = (), *, own: str | None = None) -> Reshape:
    """Plan the reshape from flat to one provider for each device.

    :param wanted: what the devices offer by the present inventory: only usable devices take over anything.
    :param moves: the requested moves; without any, every class of the root that we publish for devices.
    :param own: the class that the node itself is claimed as, if it is known.
    """
    made = _Making(placed)
    taken: dict[tuple[str, str], str] = {}
    held = _held(placed, wanted)
    offered = tuple(sorted({i.resource_class for p in wanted.providers for i in p.inventories}))
    for move in chosen(placed, wanted, moves):
        flat = placed.root.stock(move.flat)
        if flat is None:
            made.absent.append(move.flat)
            continue
        meant = _takers(placed, wanted, move)
        made.refuse_own(move, own)
        made.refuse_twice(move, ((p.uuid, move.nested) for p, _ in meant), taken)
        takers = [(p, s) for p, s in meant if p.uuid not in held]
        others = tuple((p.name, held[p.uuid]) for p, _ in meant if p.uuid in held)
        if not takers:
            made.refusals.append(AllHeld(flat=move.flat, held=others) if meant else NotOffered(move=move, offered=offered))
            continue
        rooms = {p.uuid: max(0, s.total - s.reserved - p.used.get(move.nested, 0)) for p, s in takers}
        claims = made.claims_on({(placed.root.uuid, move.flat)})
        need = sum(c.amount for _, c in claims)
        room = sum(rooms.values())
        if need > room:
            who = tuple(sorted({consumer for consumer, _ in claims}))
            made.refusals.append(NoRoom(move=move, claimed=need, room=room, consumers=who, held=others))
            continue
        made.shift(claims, move.nested, rooms)
        total = sum(s.total for _, s in takers)
        # A device with an unmet demand offers nothing, so it counts as one of those that were reserved.
        kept = _keep(takers, rooms, min(flat.reserved, flat.total) - max(0, flat.total - total))
        made.flat.add(move.flat)
        made.stock(placed.root, move.flat, None)
        for taker, stock in kept:
            made.stock(taker, move.nested, stock)
        for child, spare in _spare(placed, wanted, {p.uuid for p, _ in takers}):
            made.stock(child, spare.resource_class, replace(spare, reserved=spare.total))
        made.moves.append(
            Moved(
                source_class=move.flat,
                target_class=move.nested,
                before=flat.total,
                after=total,
                reserved=sum(s.reserved for _, s in kept),
                claimed=need,
            )
        )
    return made.done()


def back(placed: Placed, moves: Sequence[InventoryMove] = (), *, own: str | None = None) -> Reshape:
    """Plan the reshape from one provider for each device to flat: the root offers what the devices offered.

    :param moves: the requested moves; without any, every class of the devices' providers, under its own name.
    :param own: the class that the node itself is claimed as, if it is known.
    """
    made = _Making(placed)
    taken: dict[tuple[str, str], str] = {}
    for move in chosen(placed, None, moves):
        sources = _sources(placed, move, back=True)
        if not sources:
            made.absent.append(move.nested)
            continue
        made.refuse_own(move, own)
        made.refuse_twice(move, ((p.uuid, move.nested) for p, _ in sources), taken)
        total = sum(s.total for _, s in sources)
        claims = made.claims_on({(p.uuid, move.nested) for p, _ in sources})
        need = sum(c.amount for _, c in claims)
        already = placed.root.used.get(move.flat, 0)
        if need + already > total:
            made.refusals.append(NoRoomInRoot(move=move, of_root=already, of_devices=need, total=total))
            continue
        made.shift(claims, move.flat, {placed.root.uuid: need})
        # A claimed unit is not reserved, too: claims and reserves together never exceed the total.
        reserved = sum(min(s.reserved, max(0, s.total - p.used.get(move.nested, 0))) for p, s in sources)
        flat = Stock(resource_class=move.flat, total=total, reserved=min(reserved, total - need - already), max_unit=total)
        made.flat.add(move.flat)
        made.stock(placed.root, move.flat, flat)
        for provider, _ in sources:
            made.stock(provider, move.nested, None)
        made.moves.append(
            Moved(
                source_class=move.nested,
                target_class=move.flat,
                before=total,
                after=total,
                reserved=flat.reserved,
                claimed=need,
            )
        )
    return made.done()


# ---------------------------------------------------------------------------------------------------------------- helpers


class _Making:
    """A reshape under construction: the present providers, with the changes so far."""

    def __init__(self, placed: Placed) -> None:
        self.placed = placed
        self.changed: dict[str, Stocked] = {}
        self.shifts: list[Shift] = []
        self.moves: list[Moved] = []
        self.flat: set[str] = set()
        self.absent: list[str] = []
        self.refusals: list[ReshapeRefusal] = []

    def claims_on(self, sources: set[tuple[str, str]]) -> list[tuple[str, MovedClaim]]:
        """Return the claims on these sources with their consumers, the largest first: those are the hardest to keep whole."""
        found = [
            (c.uuid, claim)
            for c in self.placed.consumers
            for claim in c.claims
            if (claim.provider, claim.resource_class) in sources
        ]
        return sorted(found, key=lambda item: (-item[1].amount, item[0], item[1].provider))

    def shift(self, claims: Iterable[tuple[str, MovedClaim]], target_class: str, rooms: dict[str, int]) -> None:
        """Assign each claim to its new provider.

        :param rooms: the free units of each provider; changed in place.
        """
        for consumer, claim in claims:
            for target, amount in _share(claim.amount, rooms):
                self.shifts.append(
                    Shift(
                        consumer=consumer,
                        amount=amount,
                        source=claim.provider,
                        source_class=claim.resource_class,
                        target=target,
                        target_class=target_class,
                    )
                )

    def stock(self, provider: Stocked, resource_class: str, stock: Stock | None) -> None:
        """Set the stock of a class at a provider; None for none."""
        now = self.changed.get(provider.uuid, provider)
        others = tuple(s for s in now.stocks if s.resource_class != resource_class)
        added = () if stock is None else (stock,)
        self.changed[provider.uuid] = replace(now, stocks=tuple(sorted((*others, *added), key=lambda s: s.resource_class)))

    def refuse_own(self, move: InventoryMove, own: str | None) -> None:
        """Refuse to move the node's own class: the scheduler would not find the node any more."""
        if move.flat in NODE_CLASSES or move.flat == own:
            self.refusals.append(NodeClass(flat=move.flat))

    def refuse_twice(self, move: InventoryMove, places: Iterable[tuple[str, str]], taken: dict[tuple[str, str], str]) -> None:
        """Refuse two classes that mean the same devices: nobody could tell which device is which."""
        for place in places:
            first = taken.setdefault(place, move.flat)
            if first != move.flat:
                self.refusals.append(SameDevices(first=first, move=move))
                return

    def done(self) -> Reshape:
        """Return the plan. A single refusal empties it."""
        root = self.placed.root
        if self.refusals or not self.moves:
            return Reshape(
                root_uuid=root.uuid,
                stays=tuple(s.resource_class for s in root.stocks),
                absent=tuple(self.absent),
                refusals=tuple(self.refusals),
            )
        changed = [self.changed[root.uuid], *(p for u, p in sorted(self.changed.items()) if u != root.uuid)]
        moving = {s.consumer for s in self.shifts}
        return Reshape(
            root_uuid=root.uuid,
            moves=tuple(self.moves),
            providers=tuple(replace(p, used=_used(p, self.shifts)) for p in changed),
            consumers=tuple(_after(c, self.shifts) for c in self.placed.consumers if c.uuid in moving),
            shifts=tuple(self.shifts),
            stays=tuple(s.resource_class for s in root.stocks if s.resource_class not in self.flat),
            absent=tuple(self.absent),
        )


def _sources(placed: Placed, move: InventoryMove, *, back: bool) -> list[tuple[Stocked, Stock]]:
    """Return the providers that have the class that is removed, with their stock of it."""
    name = move.nested if back else move.flat
    meant = [c for c in placed.children if move.trait is None or move.trait in c.traits] if back else [placed.root]
    return [(p, stock) for p in meant if (stock := p.stock(name)) is not None]


def _takers(placed: Placed, wanted: ProviderTree, move: InventoryMove) -> list[tuple[Stocked, Stock]]:
    """Return the providers of the devices that take over, as they are now, with the stock that they are to have."""
    found = []
    for provider in wanted.providers:
        offer = next((i for i in provider.inventories if i.resource_class == move.nested), None)
        if offer is None or (move.trait is not None and move.trait not in provider.traits):
            continue
        now = placed.child(provider.uuid) or Stocked(uuid=provider.uuid, name=provider.name)
        seen = now.stock(move.nested)
        # A present reserve stays: somebody may be working on that device.
        reserved = offer.reserved if seen is None else min(offer.total, max(offer.reserved, seen.reserved))
        stock = Stock(resource_class=move.nested, total=offer.total, reserved=reserved, max_unit=offer.total)
        found.append((now, stock))
    return found


def _stray(placed: Placed, wanted: ProviderTree) -> Iterator[tuple[Stocked, frozenset[str], frozenset[str]]]:
    """Yield providers with their classes that are not wanted of them, and with all providers of the same device."""
    offers = {p.uuid: {i.resource_class for i in p.inventories} for p in wanted.providers}
    there = ProviderTree(
        root_uuid=placed.root.uuid,
        providers=tuple(
            Provider(uuid=c.uuid, name=c.name, parent_uuid=c.parent_uuid, traits=c.traits) for c in placed.children
        ),
    )
    for child in placed.children:
        classes = {s.resource_class for s in child.stocks} | child.used.keys()
        stray = frozenset(classes - offers.get(child.uuid, set()))
        if stray:
            yield child, stray, overlapping({child.uuid}, there, wanted) | {child.uuid}


def _held(placed: Placed, wanted: ProviderTree) -> dict[str, HeldInventory]:
    """Return the providers of devices that are held as another class than the wanted one, with what is held."""
    found: dict[str, HeldInventory] = {}
    for child, stray, same in _stray(placed, wanted):
        for name in sorted(stray & child.used.keys()):
            held = HeldInventory(
                amount=child.used[name],
                resource_class=name,
                provider=child.name,
                consumers=placed.holders.get((child.uuid, name), ()),
            )
            for uuid in same:
                found.setdefault(uuid, held)
    return found


def _spare(placed: Placed, wanted: ProviderTree, uuids: Set[str]) -> list[tuple[Stocked, Stock]]:
    """Return the stocks, of these providers and others of the same devices, whose class is not wanted of them."""
    return [
        (child, stock)
        for child, stray, same in _stray(placed, wanted)
        for stock in child.stocks
        if same & uuids and stock.resource_class in stray
    ]


def _share(amount: int, rooms: dict[str, int]) -> Iterator[tuple[str, int]]:
    """Distribute an amount: to the smallest provider with room for all of it, else to the largest ones first.

    :param rooms: with room for as many units in all; changed in place.
    """
    while amount:
        order = sorted(rooms, key=lambda uuid: (rooms[uuid], uuid))
        chosen = next((uuid for uuid in order if rooms[uuid] >= amount), order[-1])
        part = min(amount, rooms[chosen])
        rooms[chosen] -= part
        amount -= part
        yield chosen, part


def _keep(takers: Iterable[tuple[Stocked, Stock]], rooms: dict[str, int], reserved: int) -> list[tuple[Stocked, Stock]]:
    """Return the providers that take over, with this many units reserved in addition, as far as there is room.

    Units that an operator has reserved must not become available for the moment of a reshape.
    """
    found = []
    for taker, stock in takers:
        part = max(0, min(reserved, rooms[taker.uuid]))
        reserved -= part
        found.append((taker, replace(stock, reserved=stock.reserved + part)))
    return found


def _used(provider: Stocked, shifts: Iterable[Shift]) -> dict[str, int]:
    """Return what is claimed of a provider after the shifts, by class."""
    used = Counter(provider.used)
    for shift in shifts:
        if shift.source == provider.uuid:
            used[shift.source_class] -= shift.amount
        if shift.target == provider.uuid:
            used[shift.target_class] += shift.amount
    return {name: amount for name, amount in sorted(used.items()) if amount}


def _after(consumer: Consumer, shifts: Iterable[Shift]) -> Consumer:
    """Return a consumer with its claims after the shifts."""
    amounts = Counter({(c.provider, c.resource_class): c.amount for c in consumer.claims})
    for shift in shifts:
        if shift.consumer == consumer.uuid:
            amounts[shift.source, shift.source_class] -= shift.amount
            amounts[shift.target, shift.target_class] += shift.amount
    claims = (MovedClaim(provider=p, resource_class=c, amount=n) for (p, c), n in sorted(amounts.items()) if n)
    return replace(consumer, claims=tuple(claims))
