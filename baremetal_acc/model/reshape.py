# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What moves when flat inventory becomes one provider for each device: stocks, claims, and the plan that moves both at once."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Stock:
    """How much of one resource class a provider has, with every value that placement keeps: it can be written back unchanged.

    :ivar max_unit: as much as one claim may take at once.
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
    """A provider with what it has, and how much of that is claimed.

    :ivar stocks: sorted by class.
    :ivar parent_uuid: empty for the root, and where the parent is of no account.
    :ivar used: claimed units by class, of whomever.
    :ivar generation: as placement has it; None for a provider that is not there yet.
    """

    uuid: str
    name: str
    parent_uuid: str = ''
    stocks: tuple[Stock, ...] = ()
    used: Mapping[str, int] = field(default_factory=dict)
    traits: frozenset[str] = frozenset()
    generation: int | None = None

    def stock(self, resource_class: str) -> Stock | None:
        """What it has of a class, or None."""
        return next((s for s in self.stocks if s.resource_class == resource_class), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """So many units of one class of one provider."""

    provider: str
    resource_class: str
    amount: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """Who claims: an instance, as a rule.

    :ivar claims: all of them, those of other nodes' providers too, sorted by provider and class. Placement replaces what a
        consumer has by what it is told: what is left out here would be freed.
    """

    uuid: str
    project_id: str
    user_id: str
    generation: int
    claims: tuple[Claim, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """What placement holds of one node, as far as a reshape is about it.

    :ivar root: the node's root provider.
    :ivar children: all providers of ours below it that have anything, and those that are wanted, as far as they are there.
    :ivar consumers: whoever claims something that is to move, whole.
    :ivar holders: UUIDs of all who claim anything of a provider, by provider and class, sorted.
    """

    root: Stocked
    children: tuple[Stocked, ...] = ()
    consumers: tuple[Consumer, ...] = ()
    holders: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)

    def child(self, uuid: str) -> Stocked | None:
        """The child of that UUID, or None."""
        return next((c for c in self.children if c.uuid == uuid), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A class of the root, and the class that its devices' own providers have.

    :ivar trait: of the devices that are meant; None for all that have the nested class.
    """

    flat: str
    nested: str
    trait: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What becomes of one class.

    :ivar before: total where it leaves.
    :ivar after: total where it arrives.
    :ivar reserved: how much of that nobody may claim.
    :ivar claimed: units that are claimed, and move with their claims.
    """

    source_class: str
    target_class: str
    before: int
    after: int
    reserved: int
    claimed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """Units of one consumer that go from one provider to another."""

    consumer: str
    amount: int
    source: str
    source_class: str
    target: str
    target_class: str


# -------------------------------------------------------------------------------------------------------- why it is refused


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeClass:
    """A class is what the node itself is claimed as."""

    flat: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SameDevices:
    """A move means devices that another one means.

    :ivar first: the class of the root that is said of them before.
    """

    first: str
    move: Move


@dataclass(frozen=True, slots=True, kw_only=True)
class NotOffered:
    """No device that holds up offers what a move means.

    :ivar offered: classes that they offer.
    """

    move: Move
    offered: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Claims on a device as something else than it is wanted as. It takes nothing over.

    :ivar provider: the name of the provider that they are on.
    """

    amount: int
    resource_class: str
    provider: str
    consumers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AllHeld:
    """Every device that a class of the root means is claimed as something else.

    :ivar held: each with the name of its provider.
    """

    flat: str
    held: tuple[tuple[str, Held], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoRoom:
    """More is claimed of the root than devices can take.

    :ivar consumers: who claims.
    :ivar held: devices that take nothing, each with the name of its provider.
    """

    move: Move
    claimed: int
    room: int
    consumers: tuple[str, ...]
    held: tuple[tuple[str, Held], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoRoomInRoot:
    """More is claimed, of the root and of devices, than the root would have."""

    move: Move
    of_root: int
    of_devices: int
    total: int


ReshapeRefusal = NodeClass | SameDevices | NotOffered | AllHeld | NoRoom | NoRoomInRoot


@dataclass(frozen=True, slots=True, kw_only=True)
class Reshape:
    """What one call changes, all of it or nothing.

    :ivar moves: empty when there is nothing to move.
    :ivar providers: with the stocks that they are to have, the root first.
    :ivar consumers: with the claims that they are to have.
    :ivar stays: classes of the root that are not touched.
    :ivar absent: classes that were asked for and are not where they would leave.
    :ivar refusals: why it may not be done.
    """

    root_uuid: str
    moves: tuple[Moved, ...] = ()
    providers: tuple[Stocked, ...] = ()
    consumers: tuple[Consumer, ...] = ()
    shifts: tuple[Shift, ...] = ()
    stays: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    refusals: tuple[ReshapeRefusal, ...] = ()
