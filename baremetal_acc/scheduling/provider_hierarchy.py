# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Sort providers from parents to children, and find the providers below others."""

from collections.abc import Iterable

from baremetal_acc.model.provider import Provider, ProviderTree


def parents_first(providers: Iterable[Provider]) -> tuple[Provider, ...]:
    """Sort by depth, then UUID. A parent that is not among the providers counts as the root."""
    by_uuid = {p.uuid: p for p in providers}

    def depth(provider: Provider) -> int:
        seen = {provider.uuid}
        parent = provider.parent_uuid
        while parent in by_uuid and parent not in seen:
            seen.add(parent)
            parent = by_uuid[parent].parent_uuid
        return len(seen)

    return tuple(sorted(by_uuid.values(), key=lambda p: (depth(p), p.uuid)))


def with_descendants(published: ProviderTree, roots: frozenset[str]) -> frozenset[str]:
    """Return the UUIDs of these providers, and of all providers below them."""
    found = set(roots)
    for provider in parents_first(published.providers):
        if provider.parent_uuid in found:
            found.add(provider.uuid)
    return frozenset(found)
