# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What placement is told: the providers of ours below a node's root, and the calls that change them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderInventory:
    """How much of one resource class a provider has.

    ``min_unit`` and ``step_size`` are always 1, ``max_unit`` the total and ``allocation_ratio`` 1.0: a device is never
    promised twice.

    :ivar total: at least 1; none is said by leaving the class out.
    :ivar reserved: how much of it nobody may claim, at most the total.
    :ivar altered: somebody else gave one of the other values; only ever read, never wanted.
    """

    resource_class: str
    total: int = 1
    reserved: int = 0
    altered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One resource provider of ours.

    :ivar uuid: of device and slot; the same for the same card in the same node.
    :ivar parent_uuid: the node's root, or for a slot the provider of its card.
    :ivar inventories: sorted by class; empty when nothing is offered.
    :ivar generation: as placement has it; None for what is wanted.
    """

    uuid: str
    name: str
    parent_uuid: str
    inventories: tuple[ProviderInventory, ...] = ()
    traits: frozenset[str] = frozenset()
    generation: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderTree:
    """Our providers below one root. The root is Nova's and never one of them.

    :ivar root_uuid: the node's root provider, which has the node's UUID.
    :ivar providers: parents before children.
    """

    root_uuid: str
    providers: tuple[Provider, ...] = ()

    def __post_init__(self) -> None:
        """Nothing that writes providers can ever be given the root.

        :raises ValueError: the root is among the providers, or a provider comes twice: our own fault.
        """
        uuids = [p.uuid for p in self.providers]
        if self.root_uuid in uuids:
            raise ValueError(f'root provider {self.root_uuid} is not ours')
        if len(uuids) != len(set(uuids)):
            raise ValueError(f'a provider comes twice below {self.root_uuid}')

    def provider(self, uuid: str) -> Provider | None:
        """The provider of that UUID, or None."""
        return next((p for p in self.providers if p.uuid == uuid), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateProvider:
    """Make an empty provider."""

    uuid: str
    name: str
    parent_uuid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveProvider:
    """Give a provider the parent (and the name) that it ought to have."""

    uuid: str
    name: str
    parent_uuid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetInventories:
    """Replace everything that a provider offers. A class that goes is refused while a consumer holds some of it."""

    uuid: str
    name: str
    inventories: tuple[ProviderInventory, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTraits:
    """Replace the traits of a provider."""

    uuid: str
    name: str
    traits: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteProvider:
    """Remove a provider whose hardware is gone and that offers nothing."""

    uuid: str
    name: str


Call = CreateProvider | MoveProvider | SetInventories | SetTraits | DeleteProvider
