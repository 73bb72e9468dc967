# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read our providers below a root, and cache them by their generation."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus

from baremetal_acc.model.provider import Provider, ProviderTree
from baremetal_acc.placement import provider_reader, schemas
from baremetal_acc.placement.answers import PlacementChanged
from baremetal_acc.placement.client import PlacementClient
from baremetal_acc.scheduling.provider_names import OWNER

REMEMBER_SECONDS = 300.0
"""How long an unchanged generation counts as unchanged content.

A provider that was deleted and made again starts with low generations again, and could reach the remembered one. Nova refreshes
its cache as often ([compute] resource_provider_association_refresh).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _CachedProviders:
    """The cached providers below one root.

    :ivar at: when they were first read, by the publisher's clock.
    :ivar foreign: UUIDs of providers that are not ours.
    """

    at: float
    ours: Mapping[str, Provider]
    foreign: frozenset[str]


class ProviderCache:
    """Reads our providers below roots, and keeps what it read: an unchanged provider is not read again.

    :param clock: returns monotonic seconds.
    """

    def __init__(self, client: PlacementClient, clock: Callable[[], float]) -> None:
        self._client = client
        self._clock = clock
        self._memories: dict[str, _CachedProviders] = {}
        self._roots: dict[str, int | None] = {}
        self._flat: dict[str, tuple[int | None, frozenset[str]]] = {}

    def cached(self, root: str) -> ProviderTree | None:
        """Return our cached providers below a root; None where the cache is too old."""
        memory = self._memories.get(root)
        if memory is None or self._clock() - memory.at >= REMEMBER_SECONDS:
            return None
        return ProviderTree(root_uuid=root, providers=tuple(memory.ours.values()))

    def read(self, root: str, known: frozenset[str]) -> ProviderTree:
        """Read our providers below a root, and those of the given UUIDs, which may not have the owner trait yet.

        :raises RootMissing: there is no such root.
        :raises PlacementChanged: placement was written while it was read.
        :raises PlacementError: placement cannot be read.
        """
        answer = self._client.get('/resource_providers', in_tree=root)
        summaries = tuple(schemas.summaries(answer))
        self._roots[root] = next((p.generation for p in summaries if p.uuid == root), None)
        below = schemas.below(root, summaries)
        if below is None:
            self._memories.pop(root, None)
            raise provider_reader.missing(self._client, root)
        memory = self._memories.get(root)
        if memory is None or self._clock() - memory.at >= REMEMBER_SECONDS:
            memory = _CachedProviders(at=self._clock(), ours={}, foreign=frozenset())
        ours = {uuid for uuid in below if uuid in memory.ours or uuid in known}
        if not set(below) <= ours | memory.foreign:
            ours |= provider_reader.having(self._client, root, OWNER) & set(below)
        found: dict[str, Provider] = {}
        for uuid in ours:
            remembered = memory.ours.get(uuid)
            seen = below[uuid]
            if remembered is None or remembered.generation != seen.generation:
                seen = self._contents(seen)
            else:
                seen = replace(seen, inventories=remembered.inventories, traits=remembered.traits)
            if OWNER in seen.traits or uuid in known:
                found[uuid] = seen
        self._memories[root] = _CachedProviders(at=memory.at, ours=found, foreign=frozenset(below) - frozenset(found))
        return ProviderTree(root_uuid=root, providers=tuple(found[uuid] for uuid in below if uuid in found))

    def _contents(self, provider: Provider) -> Provider:
        inventories = self._client.get(f'/resource_providers/{provider.uuid}/inventories')
        traits = self._client.get(f'/resource_providers/{provider.uuid}/traits')
        if HTTPStatus.NOT_FOUND in (inventories.status, traits.status):
            raise PlacementChanged
        seen = replace(provider, inventories=schemas.inventories(inventories), traits=schemas.traits(traits))
        if not schemas.generation(inventories) == schemas.generation(traits) == provider.generation:
            raise PlacementChanged
        return seen

    def root_classes(self, tree: ProviderTree) -> frozenset[str]:
        """Return the classes of a tree that its root offers itself, as of the last read: they would be offered twice.

        :raises PlacementError: placement cannot be read.
        """
        wanted = frozenset(i.resource_class for p in tree.providers for i in p.inventories)
        known = self._flat.get(tree.root_uuid)
        if known is None or known[0] is None or known[0] != self._roots.get(tree.root_uuid):
            answer = self._client.get(f'/resource_providers/{tree.root_uuid}/inventories')
            if answer.status == HTTPStatus.NOT_FOUND:
                return frozenset()
            known = (schemas.generation(answer), frozenset(i.resource_class for i in schemas.inventories(answer)))
            self._flat[tree.root_uuid] = known
        return wanted & known[1]

    def forget(self, root: str) -> None:
        """Forget the providers below a root: they are read again."""
        self._memories.pop(root, None)

    def keep(self, root: str, provider: Provider) -> None:
        """Keep a provider as our own write has left it."""
        memory = self._memories.get(root)
        if memory is not None:
            self._memories[root] = replace(memory, ours={**memory.ours, provider.uuid: provider})

    def keep_last(self, root: str, uuid: str, provider: Provider | None) -> None:
        """Keep a provider as our own write has left it, after all others; None where the write has deleted it."""
        memory = self._memories.get(root)
        if memory is not None:
            ours = {known: p for known, p in memory.ours.items() if known != uuid}
            ours |= {} if provider is None else {uuid: provider}
            self._memories[root] = replace(memory, ours=ours)
