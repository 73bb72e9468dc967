# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Our resource providers in placement below a node's root provider, and the API calls that change them."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderInventory:
    """The inventory of one resource class of a provider.

    ``min_unit`` and ``step_size`` are always 1, ``max_unit`` is the total and ``allocation_ratio`` 1.0: a device is never
    promised twice.

    :ivar total: at least 1; for none the class is left out.
    :ivar reserved: how many units nobody may claim, at most the total.
    :ivar altered: somebody else set one of the other values; only ever read, never wanted.
    """

    resource_class: str
    total: int = 1
    reserved: int = 0
    altered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A resource provider of ours: a device, or a slot of a card.

    :ivar uuid: derived from device and slot: the same for the same card in the same node.
    :ivar parent_uuid: the node's root provider, or for a slot the provider of its card.
    :ivar inventories: sorted by class; empty when the provider offers nothing.
    :ivar generation: the generation in placement; None for a wanted provider.
    :ivar reserves: we reserve inventory of it ourselves, or may; of a wanted provider only.
    """

    uuid: str
    name: str
    parent_uuid: str
    inventories: tuple[ProviderInventory, ...] = ()
    traits: frozenset[str] = frozenset()
    generation: int | None = None
    reserves: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptReservation:
    """Units of a provider of ours that an operator has reserved, and that stay reserved.

    :ivar uuid: of the provider, as is ``name``.
    """

    uuid: str
    name: str
    resource_class: str
    total: int
    reserved: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderTree:
    """Our providers below one root provider. The root itself is Nova's and never one of them.

    :ivar root_uuid: the node's root provider, which has the UUID of the node.
    :ivar providers: parents before children.
    """

    root_uuid: str
    providers: tuple[Provider, ...] = ()

    def __post_init__(self) -> None:
        """Check that the root is not among the providers, so that nothing can ever write it.

        :raises ValueError: the root is among the providers, or a provider is listed twice: a bug of ours.
        """
        uuids = [p.uuid for p in self.providers]
        if self.root_uuid in uuids:
            raise ValueError(f'root provider {self.root_uuid} is among the providers of the devices')
        if len(uuids) != len(set(uuids)):
            raise ValueError(f'a provider is listed twice below {self.root_uuid}')

    def provider(self, uuid: str) -> Provider | None:
        """Return the provider of that UUID, or None."""
        return next((p for p in self.providers if p.uuid == uuid), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateProvider:
    """Create a provider without inventory."""

    uuid: str
    name: str
    parent_uuid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveProvider:
    """Give a provider its proper parent (and name)."""

    uuid: str
    name: str
    parent_uuid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetInventories:
    """Replace all inventories of a provider. Placement refuses to remove a class while a consumer holds some of it.

    :ivar unreserved: the inventories as they were of which fewer units are reserved afterwards; for reports only.
    """

    uuid: str
    name: str
    inventories: tuple[ProviderInventory, ...]
    unreserved: tuple[ProviderInventory, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTraits:
    """Replace the traits of a provider."""

    uuid: str
    name: str
    traits: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteProvider:
    """Delete a provider without inventory, whose hardware is gone."""

    uuid: str
    name: str


Call = CreateProvider | MoveProvider | SetInventories | SetTraits | DeleteProvider
