# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which providers stand for a device that another provider stands for, too?

A rule says whether a card is claimed whole, by its slots, or as one of many, and each of these is a provider of its own
(:class:`~baremetal_acc.decide.baseline.Offering`). Rules change while somebody holds what an earlier one offered: until that is
gone, nothing else that stands for the same device may be offered, or it would be promised twice.
"""

from collections.abc import Iterable

from baremetal_acc.decide.providers import PREFIX, TOGETHER
from baremetal_acc.model.accelerator import Kind
from baremetal_acc.model.provider import Provider, ProviderTree

_KINDS = frozenset(f'{PREFIX}{kind}' for kind in Kind)


def overlapping(uuids: Iterable[str], *trees: ProviderTree) -> frozenset[str]:
    """UUIDs of the providers that stand for a device of one of these, and are none of these.

    A card and its slots are one device, and slots beside each other are not. A provider that stands for several devices
    overlaps with all of its kind: which ones it stands for was said by rules that may have changed since.

    :param trees: as they are and as they are wanted; where both have a provider, both count.
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
