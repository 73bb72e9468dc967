# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Convert placement's JSON documents to types, and types to JSON."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from baremetal_acc.errors import PlacementRefused
from baremetal_acc.model.provider import Provider, ProviderInventory
from baremetal_acc.model.reshape import Consumer, MovedClaim, Stock
from baremetal_acc.placement.client import PlacementAnswer


def encode(inventory: ProviderInventory) -> dict[str, Any]:
    """Return the JSON of an inventory of one class of our providers."""
    return {
        'total': inventory.total,
        'reserved': inventory.reserved,
        'min_unit': 1,
        'max_unit': inventory.total,
        'step_size': 1,
        'allocation_ratio': 1.0,
    }


def invalid(what: str) -> PlacementRefused:
    """Return the error for an answer that is not as placement writes it."""
    return PlacementRefused(
        f'placement: the answer has no valid {what}', hint='another service seems to answer at the endpoint of placement'
    )


def mapping(value: object) -> dict[str, Any]:
    """Return a JSON object."""
    if not isinstance(value, dict):
        raise invalid('object')
    return value


def generation(answer: PlacementAnswer) -> int:
    """Return the generation of the provider that an answer is about."""
    value = answer.body.get('resource_provider_generation')
    if not isinstance(value, int):
        raise invalid('generation')
    return value


def inventories(answer: PlacementAnswer) -> tuple[ProviderInventory, ...]:
    """Return the inventories of a provider, reduced to the values that we write."""
    found = []
    for name, raw in sorted(mapping(answer.body.get('inventories')).items()):
        match raw:
            case {'total': int(total), 'reserved': int(reserved)}:
                ours = encode(ProviderInventory(resource_class=name, total=total, reserved=reserved))
                altered = any(raw.get(key) != value for key, value in ours.items())
                found.append(ProviderInventory(resource_class=name, total=total, reserved=reserved, altered=altered))
            case _:
                raise invalid('inventory')
    return tuple(found)


def traits(answer: PlacementAnswer) -> frozenset[str]:
    """Return the traits of a provider."""
    names = answer.body.get('traits')
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise invalid('list of traits')
    return frozenset(names)


def classes(answer: PlacementAnswer) -> frozenset[str]:
    """Return the resource classes that placement knows."""
    match answer.body.get('resource_classes'):
        case list(rows) if all(isinstance(row, dict) and isinstance(row.get('name'), str) for row in rows):
            return frozenset(row['name'] for row in rows)
    raise invalid('list of classes')


def provider(raw: object) -> Provider:
    """Return a provider without its inventories."""
    match raw:
        case {
            'uuid': str(uuid),
            'name': str(name),
            'parent_provider_uuid': str() | None as parent,
            'generation': int(generation),
        }:
            return Provider(uuid=uuid, name=name, parent_uuid=parent or '', generation=generation)
    raise invalid('provider')


def summaries(answer: PlacementAnswer) -> tuple[Provider, ...]:
    """Return a list of providers."""
    found = answer.body.get('resource_providers')
    if not isinstance(found, list):
        raise invalid('list of providers')
    return tuple(provider(raw) for raw in found)


def below(root: str, found: Iterable[Provider]) -> dict[str, Provider] | None:
    """Return the providers below a root, parents first; None if the root does not exist.

    An operator may have put the node's root below another provider: then placement's tree contains other nodes, too.

    :raises PlacementRefused: the providers form a cycle.
    """
    providers = tuple(found)
    if all(p.uuid != root for p in providers):
        return None
    return lower(root, children(providers))


def children(found: Iterable[Provider]) -> dict[str, list[Provider]]:
    """Return the children of each provider by its UUID."""
    everything = {p.uuid: p for p in found}
    known: dict[str, list[Provider]] = {uuid: [] for uuid in everything}
    for provider in everything.values():
        if provider.parent_uuid in known:
            known[provider.parent_uuid].append(provider)
    return known


def lower(root: str, known: Mapping[str, Sequence[Provider]]) -> dict[str, Provider]:
    """Return the providers below a root, parents first.

    :param known: the children of each provider.
    :raises PlacementRefused: the providers form a cycle.
    """
    found: dict[str, Provider] = {}
    parents = [root]
    while parents:
        level = [child for parent in parents for child in known.get(parent, ())]
        if any(child.uuid == root or child.uuid in found for child in level):
            raise invalid('tree of providers')
        found |= {p.uuid: p for p in sorted(level, key=lambda p: p.uuid)}
        parents = [p.uuid for p in level]
    return found


# ----------------------------------------------------------------------------------------------------------------- reshape


def encode_stock(stock: Stock) -> dict[str, Any]:
    """Return the JSON of an inventory with all of its values."""
    return {
        'total': stock.total,
        'reserved': stock.reserved,
        'min_unit': stock.min_unit,
        'max_unit': stock.max_unit,
        'step_size': stock.step_size,
        'allocation_ratio': stock.allocation_ratio,
    }


def stocks(answer: PlacementAnswer) -> tuple[Stock, ...]:
    """Return all inventories of a provider, sorted by class."""
    return tuple(_stock(name, raw) for name, raw in sorted(mapping(answer.body.get('inventories')).items()))


def encode_consumer(consumer: Consumer) -> dict[str, Any]:
    """Return the JSON of all claims of a consumer. Placement refuses an empty object, so a consumer needs a claim."""
    claims: dict[str, dict[str, dict[str, int]]] = {}
    for claim in consumer.claims:
        claims.setdefault(claim.provider, {'resources': {}})['resources'][claim.resource_class] = claim.amount
    return {
        'allocations': claims,
        'project_id': consumer.project_id,
        'user_id': consumer.user_id,
        'consumer_generation': consumer.generation,
    }


def consumer(uuid: str, answer: PlacementAnswer) -> Consumer | None:
    """Return a consumer with all of its claims; None if it has no claims, as for one that never existed."""
    allocations = mapping(answer.body.get('allocations'))
    if not allocations:
        return None
    match answer.body:
        case {'project_id': str(project), 'user_id': str(user), 'consumer_generation': int(generation)}:
            claims = (c for p, raw in sorted(allocations.items()) for c in _claims(p, raw))
            return Consumer(uuid=uuid, project_id=project, user_id=user, generation=generation, claims=tuple(claims))
    raise invalid('consumer')


def claims(provider: str, answer: PlacementAnswer) -> dict[str, tuple[MovedClaim, ...]]:
    """Return the claims on a provider, by consumer."""
    return {name: _claims(provider, raw) for name, raw in sorted(mapping(answer.body.get('allocations')).items())}


def usages(answer: PlacementAnswer) -> dict[str, int]:
    """Return the usages of a provider, by class."""
    found = mapping(answer.body.get('usages'))
    if not all(isinstance(amount, int) for amount in found.values()):
        raise invalid('usage')
    return found


def _stock(name: str, raw: object) -> Stock:
    match raw:
        case {
            'total': int(total),
            'reserved': int(reserved),
            'min_unit': int(smallest),
            'max_unit': int(largest),
            'step_size': int(step),
            'allocation_ratio': int() | float() as ratio,
        }:
            return Stock(
                resource_class=name,
                total=total,
                reserved=reserved,
                min_unit=smallest,
                max_unit=largest,
                step_size=step,
                allocation_ratio=float(ratio),
            )
    raise invalid('inventory')


def _claims(provider: str, raw: object) -> tuple[MovedClaim, ...]:
    resources = mapping(mapping(raw).get('resources'))
    if not all(isinstance(amount, int) and amount >= 1 for amount in resources.values()):
        raise invalid('allocation')
    return tuple(
        MovedClaim(provider=provider, resource_class=name, amount=amount) for name, amount in sorted(resources.items())
    )
