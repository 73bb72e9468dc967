# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The data of a placement reshape: inventories, allocations, and the plan that moves them from a node's root to its devices."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Stock:
    """The inventory of one resource class of a provider, with every value that placement keeps, so that it can be written back.

    :ivar max_unit: the most that one claim may take at once.
    """

    resource_class: str
    total: int
    reserved: int = 0
    min_unit: int = 1
    max_unit: int
    step_size: int = 1
    allocation_ratio: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stocked:
    """A provider with its inventories and usages.

    :ivar stocks: the inventories, sorted by class.
    :ivar parent_uuid: empty for the root, and where the parent does not matter.
    :ivar used: claimed units by class, of all consumers.
    :ivar generation: the generation in placement; None for a provider that is not there yet.
    """

    uuid: str
    name: str
    parent_uuid: str = ''
    stocks: tuple[Stock, ...] = ()
    used: Mapping[str, int] = field(default_factory=dict)
    traits: frozenset[str] = frozenset()
    generation: int | None = None

    def stock(self, resource_class: str) -> Stock | None:
        """Return the inventory of a class, or None."""
        return next((s for s in self.stocks if s.resource_class == resource_class), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedClaim:
    """An allocation: a number of units of one class of one provider."""

    provider: str
    resource_class: str
    amount: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """A consumer of allocations, which is an instance as a rule.

    :ivar claims: all its claims, those on other nodes' providers too, sorted by provider and class. Placement replaces all
        allocations of a consumer by those that are sent: a claim that is left out here would be freed.
    """

    uuid: str
    project_id: str
    user_id: str
    generation: int
    claims: tuple[MovedClaim, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """The state of one node in placement, as far as a reshape needs it.

    :ivar root: the node's root provider.
    :ivar children: all our providers below the root that have inventory, and the wanted ones, as far as they exist.
    :ivar consumers: the consumers of inventory that is to move, each with all of its claims.
    :ivar holders: UUIDs of all consumers of a provider, by provider and class, sorted.
    """

    root: Stocked
    children: tuple[Stocked, ...] = ()
    consumers: tuple[Consumer, ...] = ()
    holders: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)

    def child(self, uuid: str) -> Stocked | None:
        """Return the child of that UUID, or None."""
        return next((c for c in self.children if c.uuid == uuid), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryMove:
    """A class of the root, and the class that the providers of its devices have.

    :ivar trait: trait of the devices that are meant; None for all that have the nested class.
    """

    flat: str
    nested: str
    trait: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """The effect of a reshape on one class.

    :ivar before: total of the source class.
    :ivar after: total of the target class.
    :ivar reserved: how many units of the target class nobody may claim.
    :ivar claimed: claimed units, which move with their claims.
    """

    source_class: str
    target_class: str
    before: int
    after: int
    reserved: int
    claimed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """Claimed units of one consumer that move from one provider to another."""

    consumer: str
    amount: int
    source: str
    source_class: str
    target: str
    target_class: str


# ------------------------------------------------------------------------------------------------------------------ refusals


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeClass:
    """A move names the resource class of the node itself."""

    flat: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SameDevices:
    """Two moves mean the same devices.

    :ivar first: the class of the root in the earlier move.
    """

    first: str
    move: InventoryMove


@dataclass(frozen=True, slots=True, kw_only=True)
class NotOffered:
    """No verified device offers the class that a move means.

    :ivar offered: classes that the devices offer.
    """

    move: InventoryMove
    offered: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldInventory:
    """Claims on a device under another class than the wanted one. Such a device takes over no claims.

    :ivar provider: the name of the provider of the claims.
    """

    amount: int
    resource_class: str
    provider: str
    consumers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AllHeld:
    """Every device that a move means is claimed under another class.

    :ivar held: each device's claims, with the name of its provider.
    """

    flat: str
    held: tuple[tuple[str, HeldInventory], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoRoom:
    """More units of the root are claimed than the devices can take.

    :ivar consumers: the consumers of these claims.
    :ivar held: devices that take over no claims, each with the name of its provider.
    """

    move: InventoryMove
    claimed: int
    room: int
    consumers: tuple[str, ...]
    held: tuple[tuple[str, HeldInventory], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoRoomInRoot:
    """More units of the root and of the devices are claimed than the root would have."""

    move: InventoryMove
    of_root: int
    of_devices: int
    total: int


ReshapeRefusal = NodeClass | SameDevices | NotOffered | AllHeld | NoRoom | NoRoomInRoot


@dataclass(frozen=True, slots=True, kw_only=True)
class Reshape:
    """The changes of one call to the reshaper, all of them or none.

    :ivar moves: empty when there is nothing to move.
    :ivar providers: the changed providers with their new inventories, the root first.
    :ivar consumers: the moved consumers with their new claims.
    :ivar stays: classes of the root that are not changed.
    :ivar absent: classes that were asked for, and that their source does not have.
    :ivar refusals: why the reshape may not be done.
    """

    root_uuid: str
    moves: tuple[Moved, ...] = ()
    providers: tuple[Stocked, ...] = ()
    consumers: tuple[Consumer, ...] = ()
    shifts: tuple[Shift, ...] = ()
    stays: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    refusals: tuple[ReshapeRefusal, ...] = ()
