# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Find the placement providers that represent the same device as another provider.

A rule says whether a card is claimed whole, by its slots, or as one of several, and each of these is a provider of its own
(:class:`~baremetal_acc.policy.baseline.Offering`). Rules may change while a consumer holds what an earlier rule offered. Until
that claim is gone, no other provider of the same device may be offered, or the device would be promised twice.
"""

from collections.abc import Iterable

from baremetal_acc.model.accelerator import Kind
from baremetal_acc.model.provider import Provider, ProviderTree
from baremetal_acc.scheduling.providers import PREFIX, TOGETHER

_KINDS = frozenset(f'{PREFIX}{kind}' for kind in Kind)


def overlapping(uuids: Iterable[str], *trees: ProviderTree) -> frozenset[str]:
    """Return UUIDs of the providers that represent a device of one of the given providers, and are none of these.

    A card and its slots are one device; two slots of a card are not. A provider that represents several devices overlaps with
    every provider of its kind: the devices that it represents were chosen by rules that may have changed since.

    :param trees: the actual and the wanted trees; if both have a provider, both versions count.
    """
    known = [p for tree in trees for p in tree.providers]
    above: dict[str, set[str]] = {}
    for provider in known:
        above.setdefault(provider.uuid, set()).add(provider.parent_uuid)
    chosen = frozenset(uuids)
    taken = [p for p in known if p.uuid in chosen]
    found = {p.uuid for p in known if any(_overlap(p, other, above) for other in taken)}
    return frozenset(found - chosen)


def _overlap(one: Provider, other: Provider, above: dict[str, set[str]]) -> bool:
    if TOGETHER in one.traits or TOGETHER in other.traits:
        return bool(_KINDS & one.traits & other.traits)
    return one.uuid in above[other.uuid] or other.uuid in above[one.uuid]
