# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Build the placement provider tree of a node's accelerators, as it is wanted, withdrawn, or held by a consumer.

Below the node's root provider, every accelerator is one provider, and every slot is one more below the provider of its card::

    <node>                          Nova's, never ours
    +-- <node>_ACC_<id>             GPU: PGPU. FPGA without slots: FPGA. Others: CUSTOM_ACC_<KIND>
    +-- <node>_ACC_<id>             all GPUs of one make that a rule offers together: PGPU, as many as are usable
    +-- <node>_ACC_<id>             FPGA with slots: nothing
        +-- <node>_ACC_<id>         slot with a verified function: CUSTOM_ACC_FN_<NAME>
        +-- <node>_ACC_<id>         slot that a rule offers as a region: FPGA, whatever it holds

What is consumed is a resource class, what is true of a provider is a trait. A device offers nothing, but keeps its provider,
when any demand on it is not met, when it cannot be told from another device, or when another machine shares it.
:mod:`baremetal_acc.scheduling.schedulable` evaluates what the rules offer, and :mod:`baremetal_acc.scheduling.provider_diff`
computes the calls that publish a tree.
"""

from collections.abc import Iterable
from dataclasses import replace

from baremetal_acc.model.accelerator import Kind
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.provider import Provider, ProviderInventory, ProviderTree
from baremetal_acc.model.verdict import Verdict
from baremetal_acc.policy.baseline_rules import Offering
from baremetal_acc.scheduling.provider_hierarchy import parents_first, with_descendants
from baremetal_acc.scheduling.provider_names import (
    CLASSES,
    OWNER,
    PREFIX,
    TOGETHER,
    canonical_uuid,
    card_uuid,
    slot_uuid,
    together_uuid,
)
from baremetal_acc.scheduling.provider_traits import (
    AS_USUAL,
    device_traits,
    function_class_names,
    functions_by_slot,
    offer_of,
    offered_devices,
    operator_traits,
    slot_offer,
)
from baremetal_acc.scheduling.schedulable import Functions, Offers

_KINDS = frozenset(f'{PREFIX}{kind}' for kind in Kind)
"""The traits of our providers that name a kind of device."""


def tree(
    inventory: Inventory, verdict: Verdict, node_uuid: str, functions: Functions, offers: Offers = AS_USUAL
) -> ProviderTree:
    """Build the provider tree that placement should have of a node.

    :param verdict: on the same inventory; a device with an unmet demand offers nothing.
    :param functions: from the same inventory; a slot that is offered as its function, and has none, offers nothing.
    :param offers: from the same inventory; a device without one is offered as usual.
    :raises UsageError: ``node_uuid`` is no UUID, two functions share a name, or a device's own trait may not be used.
    """
    root = canonical_uuid(node_uuid)
    offered = {a.id for a in offered_devices(inventory, verdict)}
    names = function_class_names(functions, offers)
    providers: dict[str, Provider] = {}
    for accelerator in inventory.accelerators:
        made = offer_of(accelerator, offers)
        holds = accelerator.id in offered
        given = operator_traits(accelerator)
        traits = device_traits(accelerator) | {OWNER} | given
        whole = made.resource_class or CLASSES[accelerator.kind]
        if made.how is Offering.TOGETHER:
            several = together_uuid(root, accelerator)
            known = providers.get(several) or _provider(root, several, root, None, traits | {TOGETHER})
            # The provider has only the traits that every device has.
            common = known.traits & (traits | {TOGETHER})
            providers[several] = replace(
                known, traits=common, inventories=_one_more(known.inventories, whole) if holds else known.inventories
            )
            continue
        own = card_uuid(root, accelerator.id)
        alone = made.how is Offering.DEVICE or (made.how is Offering.REGION and not accelerator.slots)
        providers[own] = _provider(root, own, root, whole if holds and alone else None, traits)
        for slot_id, function in functions_by_slot(accelerator, functions).items():
            inner = slot_uuid(root, accelerator.id, slot_id)
            slot = slot_offer(made, slot_id, function, names, given)
            providers[inner] = _provider(root, inner, own, slot.resource_class if holds else None, traits | slot.traits)
    return ProviderTree(root_uuid=root, providers=parents_first(providers.values()))


def withdrawn(published: ProviderTree, only: frozenset[str] | None = None) -> ProviderTree:
    """Return the same tree with nothing offered.

    :param only: UUIDs of the providers to empty, with everything below them, and with those that represent several devices;
        None for all.
    """
    gone = emptied(published, only)
    return replace(published, providers=tuple(replace(p, inventories=()) if p.uuid in gone else p for p in published.providers))


def emptied(published: ProviderTree, only: frozenset[str] | None) -> frozenset[str]:
    """Return the UUIDs of the providers that :func:`withdrawn` empties."""
    if only is None:
        return frozenset(p.uuid for p in published.providers)
    several = {p.uuid for p in published.providers if TOGETHER in p.traits}
    return with_descendants(published, only) | (several if only else set())


def prepared(wanted: ProviderTree, actual: ProviderTree) -> ProviderTree:
    """Return the wanted providers and traits with the present inventories: new providers offer nothing, none is removed.

    A reshape may reserve inventory of any of them.
    """
    now = {p.uuid: p for p in actual.providers}
    wants = tuple(
        replace(p, inventories=now[p.uuid].inventories if p.uuid in now else (), reserves=True) for p in wanted.providers
    )
    others = tuple(replace(p, generation=None, reserves=True) for p in actual.providers if wanted.provider(p.uuid) is None)
    return replace(wanted, providers=parents_first((*wants, *others)))


def beside(wanted: ProviderTree, actual: ProviderTree, flat: frozenset[str]) -> ProviderTree:
    """Return the wanted tree without the classes that the node's root offers: until a reshape, these would be offered twice.

    A class that a provider offers already stays: its consumer is in nobody's way, and a reshape ends the double offer.

    :param flat: the classes that the root offers.
    """
    now = {p.uuid: {i.resource_class for i in p.inventories} for p in actual.providers}
    made = tuple(
        replace(p, inventories=tuple(i for i in p.inventories if i.resource_class not in flat - now.get(p.uuid, set())))
        for p in wanted.providers
    )
    return replace(wanted, providers=made)


def held(wanted: ProviderTree, actual: Provider, classes: frozenset[str]) -> ProviderTree:
    """Return the wanted tree with what a consumer holds of a provider kept and fully reserved, so nobody else can claim it.

    If the wanted tree offers the provider as another class, that offer waits until the consumer is gone: it is one device,
    however it is called.

    :param actual: the provider as placement has it.
    :param classes: the classes that are held of it.
    """
    kept = {
        i.resource_class: replace(i, reserved=i.total, altered=False) for i in actual.inventories if i.resource_class in classes
    }
    now = wanted.provider(actual.uuid) or replace(actual, inventories=(), generation=None)
    offers = {i.resource_class: i for i in now.inventories}
    # Classes that are wanted anyway stay as wanted.
    is_wanted = classes <= offers.keys()
    chosen = kept | offers if is_wanted else kept
    merged = replace(now, inventories=tuple(i for _, i in sorted(chosen.items())), reserves=not is_wanted)
    others = tuple(p for p in wanted.providers if p.uuid != actual.uuid)
    return replace(wanted, providers=parents_first((*others, merged)))


def _one_more(inventories: tuple[ProviderInventory, ...], resource_class: str) -> tuple[ProviderInventory, ...]:
    totals = {i.resource_class: i.total for i in inventories}
    totals[resource_class] = totals.get(resource_class, 0) + 1
    return tuple(ProviderInventory(resource_class=name, total=total) for name, total in sorted(totals.items()))


def _provider(root: str, own: str, parent: str, resource_class: str | None, traits: frozenset[str]) -> Provider:
    # 36 + 5 + 12 characters; placement takes 200. Unique in the cloud, since the node's UUID is.
    name = f'{root}_ACC_{own.replace("-", "")[:12]}'
    offers = () if resource_class is None else (ProviderInventory(resource_class=resource_class),)
    return Provider(uuid=own, name=name, parent_uuid=parent, inventories=offers, traits=traits)


def overlapping(uuids: Iterable[str], *trees: ProviderTree) -> frozenset[str]:
    """Return UUIDs of the providers that represent a device of one of the given providers, and are none of these.

    A card and its slots are one device; two slots of a card are not. A provider that represents several devices overlaps with
    every provider of its kind: the devices that it represents were chosen by rules that may have changed since.

    Rules may change while a consumer holds what an earlier rule offered. Until that claim is gone, no other provider of the
    same device may be offered, or the device would be promised twice.

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
