# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Find the consumers that hold inventory of a node, and keep what they hold."""

from collections.abc import Mapping
from dataclasses import dataclass

from baremetal_acc.errors import ClaimedAlone, InventoryInUse
from baremetal_acc.model.provider import Call, ProviderTree
from baremetal_acc.placement import provider_reader, schemas
from baremetal_acc.placement.answers import PlacementChanged
from baremetal_acc.placement.client import PlacementClient
from baremetal_acc.scheduling import providers

MOST_NAMED = 4
"""Most consumers that a hint names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldProvider:
    """The reason why a provider is left as it is.

    :ivar consumers: its consumers, without the node's own instance.
    :ivar hint: the remedy, where it is not up to a consumer.
    """

    text: str
    consumers: frozenset[str] = frozenset()
    hint: str | None = None


def claims_of(client: PlacementClient, consumer: str) -> dict[str, frozenset[str]]:
    """Return the classes that a consumer holds, by the UUID of the provider, on any node.

    :raises PlacementError: placement cannot be read.
    """
    answer = client.get(f'/allocations/{consumer}')
    return {
        str(uuid): frozenset(schemas.mapping(schemas.mapping(allocation).get('resources')))
        for uuid, allocation in schemas.mapping(answer.body.get('allocations', {})).items()
    }


def holders_of(client: PlacementClient, provider: str) -> dict[str, frozenset[str]]:
    """Return the claimed classes of a provider, by consumer."""
    claimed = provider_reader.claims(client, provider)
    return {name: frozenset(c.resource_class for c in claims) for name, claims in claimed.items() if claims}


def claims_of_others(client: PlacementClient, root: str, consumer: str | None) -> dict[str, HeldProvider]:
    """Return the providers of a node, its root among them, that anybody but the node's own instance has claimed."""
    lower = provider_reader.below(client, root)
    names = {} if lower is None else {root: root} | {uuid: p.name for uuid, p in lower.items()}
    holders = {uuid: holders_of(client, uuid) for uuid in names}
    others = {uuid: _but(consumer, of) for uuid, of in holders.items()}
    return {uuid: _held_by(names[uuid], of) for uuid, of in others.items() if of}


def note_holders(
    client: PlacementClient, call: Call, consumer: str | None, held: dict[str, frozenset[str]], busy: dict[str, HeldProvider]
) -> None:
    """Find the consumers of a provider. They keep what they hold; any of them but the node's own instance makes it busy.

    :raises PlacementChanged: it has no consumer any more.
    """
    holders = holders_of(client, call.uuid)
    others = _but(consumer, holders)
    if not holders:
        nobodys = provider_reader.nobodys(client, (call.uuid,))
        if nobodys is None:
            raise PlacementChanged
        busy[call.uuid] = HeldProvider(text=nobodys.text, hint=nobodys.hint)
        held[call.uuid] = frozenset(nobodys.amounts)
        return
    if others:
        busy[call.uuid] = _held_by(call.name, others)
    held[call.uuid] = frozenset().union(*holders.values())


def refuse_held(
    client: PlacementClient, root: str, consumer: str | None, busy: Mapping[str, HeldProvider], *, why: str = ''
) -> InventoryInUse:
    """Return the error that names the consumers in the way, with a hint.

    An instance that leaves the machine frees its devices together with it; the claim of a consumer that has no machine
    stays.
    """
    text = f'placement, node {root}: {why}{"; ".join(b.text for _, b in sorted(busy.items()))}'
    names = sorted(frozenset().union(*(b.consumers for b in busy.values())) - {consumer})
    alone = [name for name in names if (claimed := claims_of(client, name)) and root not in claimed]
    show = '; '.join(f'openstack resource provider allocation show {name}' for name in (alone or names)[:MOST_NAMED])
    hints = [b.hint for _, b in sorted(busy.items()) if b.hint is not None]
    if hints:
        return ClaimedAlone(text, hint=hints[0])
    if alone:
        hint = (
            'the consumer has not claimed the node, so its claim is not waited for: delete the instance or its allocation '
            f'({show}), and request the resource class of the node in every flavor'
        )
        return ClaimedAlone(text, hint=hint)
    hint = f'a deleted instance frees its claim soon; if the instance no longer exists, delete its allocation, see {show}'
    return InventoryInUse(text, hint=hint)


def with_held(wanted: ProviderTree, actual: ProviderTree, held: Mapping[str, frozenset[str]]) -> ProviderTree:
    """Return the wanted tree with the inventory that consumers hold and the tree lacks, reserved."""
    for provider in actual.providers:
        if provider.uuid in held:
            wanted = providers.held(wanted, provider, held[provider.uuid])
    return wanted


def _but(consumer: str | None, holders: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    return {name: classes for name, classes in holders.items() if name != consumer}


def _held_by(name: str, others: Mapping[str, frozenset[str]]) -> HeldProvider:
    text = ', '.join(f'{" and ".join(sorted(classes))} by consumer {consumer}' for consumer, classes in sorted(others.items()))
    return HeldProvider(text=f'provider {name} is held: {text}', consumers=frozenset(others))
