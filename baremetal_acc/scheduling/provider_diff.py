# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Compute the placement calls that turn one provider tree into another, in a safe order."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import assert_never

from baremetal_acc.model.provider import (
    Call,
    CreateProvider,
    DeleteProvider,
    MoveProvider,
    ProviderInventory,
    ProviderTree,
    SetInventories,
    SetTraits,
)
from baremetal_acc.scheduling import reservations
from baremetal_acc.scheduling.provider_hierarchy import parents_first
from baremetal_acc.scheduling.provider_names import RESERVES_NOTHING


def diff(wanted: ProviderTree, actual: ProviderTree, *, delete_gone: bool = False) -> tuple[Call, ...]:
    """Return the placement calls that turn the actual tree into the wanted one, in a safe order.

    New providers are created empty, parents first. Then classes that go are withdrawn, then traits are set, and only then is
    anything offered: no device can be claimed under a trait that it does not have. A provider of ours that the wanted tree
    lacks offers nothing afterwards and stays.

    The traits that tell an operator's reservation from ours (:mod:`baremetal_acc.scheduling.reservations`) have an order of
    their own: what the operator has reserved is noted before that inventory is withdrawn, and the trait that we reserve nothing
    comes last where we have reserved something.

    :param delete_gone: delete those providers instead: their hardware is gone for good. Nova, which caches providers for 300 s,
        cannot update a node in that time, so only while the node is neither available nor being deployed.
    """
    known = {p.uuid: p for p in actual.providers}
    targets = {p.uuid: p for p in wanted.providers}
    gone = [p for p in actual.providers if p.uuid not in targets]
    create: list[Call] = []
    withdraw: list[Call] = [SetInventories(uuid=p.uuid, name=p.name, inventories=()) for p in gone if p.inventories]
    note: list[Call] = []
    traits: list[Call] = []
    offer: list[Call] = []
    last: list[Call] = []
    for provider in parents_first(wanted.providers):
        seen = known.get(provider.uuid)
        if seen is None:
            create.append(CreateProvider(uuid=provider.uuid, name=provider.name, parent_uuid=provider.parent_uuid))
            seen = replace(provider, inventories=(), traits=frozenset())
        elif (seen.parent_uuid, seen.name) != (provider.parent_uuid, provider.name):
            create.append(MoveProvider(uuid=provider.uuid, name=provider.name, parent_uuid=provider.parent_uuid))
        wants = {i.resource_class for i in provider.inventories}
        stays = tuple(i for i in seen.inventories if i.resource_class in wants)
        has = seen.traits
        notes = frozenset(filter(reservations.is_note, provider.traits))
        if len(stays) < len(seen.inventories) and not notes <= has:
            has = frozenset(t for t in has if not reservations.is_note(t)) | notes
            note.append(SetTraits(uuid=provider.uuid, name=provider.name, traits=has))
        if len(stays) < len(seen.inventories):
            withdraw.append(SetInventories(uuid=provider.uuid, name=provider.name, inventories=_rewritable(stays)))
            stays = _rewritable(stays)
        is_last = RESERVES_NOTHING in provider.traits - seen.traits and any(i.reserved for i in stays)
        now = provider.traits - {RESERVES_NOTHING} if is_last else provider.traits
        if has != now:
            traits.append(SetTraits(uuid=provider.uuid, name=provider.name, traits=now))
        if is_last:
            last.append(SetTraits(uuid=provider.uuid, name=provider.name, traits=provider.traits))
        if set(stays) != set(provider.inventories):
            after = {i.resource_class: i.reserved for i in provider.inventories}
            freed = tuple(i for i in stays if i.reserved > after[i.resource_class])
            offer.append(
                SetInventories(uuid=provider.uuid, name=provider.name, inventories=provider.inventories, unreserved=freed)
            )
    delete: list[Call] = []
    if delete_gone:
        children_first = reversed(parents_first(gone))
        delete += (DeleteProvider(uuid=p.uuid, name=p.name) for p in children_first)
    return (*create, *note, *withdraw, *traits, *offer, *last, *delete)


def offers(calls: Sequence[Call], actual: ProviderTree) -> tuple[SetInventories, ...]:
    """Return those calls of a :func:`diff` that take nothing away and come last: no consumer can be in their way."""
    there = {p.uuid: {i.resource_class for i in p.inventories} for p in actual.providers}
    found = []
    for call in calls:
        if isinstance(call, SetInventories):
            classes = {i.resource_class for i in call.inventories}
            if classes and there.get(call.uuid, set()) <= classes:
                found.append(call)
            there[call.uuid] = classes
    return tuple(found)


def describe(call: Call) -> str:
    """Describe a call in one line for people."""
    match call:
        case CreateProvider():
            return f'create provider {call.name} with parent {call.parent_uuid}'
        case MoveProvider():
            return f'move provider {call.name} to parent {call.parent_uuid}'
        case SetInventories(inventories=()):
            return f'{call.name}: remove all inventory'
        case SetInventories():
            before = {i.resource_class: i.reserved for i in call.unreserved}
            return f'{call.name}: set inventory {", ".join(_offer(i, before) for i in call.inventories)}'
        case SetTraits():
            return f'{call.name}: set traits {", ".join(sorted(call.traits))}'
        case DeleteProvider():
            return f'delete provider {call.name}'
        case _:
            assert_never(call)


def _offer(inventory: ProviderInventory, before: Mapping[str, int]) -> str:
    """Describe an inventory, with the units that were reserved and are not any more."""
    what = f'{inventory.resource_class} {inventory.total}'
    was = before.get(inventory.resource_class)
    if was is not None:
        return f'{what} (reserved: {was} -> {inventory.reserved})'
    return f'{what} ({inventory.reserved} reserved)' if inventory.reserved else what


def _rewritable(inventories: tuple[ProviderInventory, ...]) -> tuple[ProviderInventory, ...]:
    """Return the inventories as they can be sent: an altered one is sent with our own values."""
    return tuple(replace(i, altered=False) for i in inventories)
