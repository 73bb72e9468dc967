# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Build the placement provider tree of a node's accelerators, and the API calls that publish it.

Below the node's root provider, every accelerator is one provider, and every slot is one more below the provider of its card::

    <node>                          Nova's, never ours
    +-- <node>_ACC_<id>             GPU: PGPU. FPGA without slots: FPGA. Others: CUSTOM_ACC_<KIND>
    +-- <node>_ACC_<id>             all GPUs of one make that a rule offers together: PGPU, as many as are usable
    +-- <node>_ACC_<id>             FPGA with slots: nothing
        +-- <node>_ACC_<id>         slot with a verified function: CUSTOM_ACC_FN_<NAME>
        +-- <node>_ACC_<id>         slot that a rule offers as a region: FPGA, whatever it holds

What is consumed is a resource class, what is true of a provider is a trait. A device offers nothing, but keeps its provider,
when any demand on it is not met, when it cannot be told from another device, or when another machine shares it.
:mod:`baremetal_acc.scheduling.schedulable` evaluates what the rules offer.
"""

import hashlib
import re
import unicodedata
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import assert_never

from baremetal_acc.errors import UsageError
from baremetal_acc.model.accelerator import Accelerator, Kind
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import Verdict
from baremetal_acc.model.provider import (
    Call,
    CreateProvider,
    DeleteProvider,
    MoveProvider,
    Provider,
    ProviderInventory,
    ProviderTree,
    SetInventories,
    SetTraits,
)
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.policy.baseline import FUNCTION_PREFIX, Offering
from baremetal_acc.scheduling.schedulable import Functions, Offer, Offers, usual

OWNER = 'CUSTOM_OWNER_BAREMETAL_ACC'
"""Trait of every provider of ours. A provider without it is somebody else's."""

NAMESPACE = uuid.UUID('5b1f1c0e-8a55-5d0c-9f0e-2d5f3f0f6a41')
"""Namespace of the UUIDs of our providers. Another value would orphan every provider that was ever published."""

PREFIX = 'CUSTOM_ACC_'
"""Prefix of every trait and class that we make up. On Ironic nodes we add and remove traits with this prefix only."""

CAN_PREFIX = f'{PREFIX}CAN_'
"""Prefix of the trait of a region that can be given a function."""

PROGRAM = f'{PREFIX}PROGRAM'
"""Trait of a node with regions that can be given a function, and name of the deploy template that programs them.

Ironic runs the templates that the traits of an instance name. One template for each function is not possible: Ironic refuses
two templates with the same step (ironic 39.0.0, conductor/steps.py).
"""

TOGETHER = f'{PREFIX}TOGETHER'
"""Trait of a provider that represents several devices. Whoever changes a device of the node withdraws this provider, whichever
devices it represents: the rules that chose them may have changed since it was published.
"""

PROGRAMMABLE = 'CUSTOM_PROGRAMMABLE'
"""Cyborg's trait of a region that can be given a function (openstack-cyborg 17.0.0, conductor/manager.py)."""

_MAKER = re.compile(r'CUSTOM_FPGA_(?!(?:COMPUTE|NETWORK|STORAGE)$)([A-Z0-9]+)')
"""Cyborg's trait of an FPGA's maker, as in the lists of known devices. Cyborg's other traits of this form name a purpose."""

NAME_LENGTH = 255
"""Maximum length of a class or trait. Source: placement 16.0.0, schemas/resource_class.py and schemas/trait.py."""

NODE_TRAITS = 50
"""Maximum number of traits of an Ironic node. Source: ironic 39.0.0, db/sqlalchemy/api.py, MAX_TRAITS_PER_NODE."""

CLASSES = {kind: f'{PREFIX}{kind}' for kind in Kind} | {Kind.GPU: 'PGPU', Kind.FPGA: 'FPGA'}
"""Resource class of a whole device, by kind. The other kinds have no standard class (os-resource-classes 1.1.0)."""

REGION_CLASS = 'FPGA'
"""Resource class of a slot that is offered as a region, if its rule names none."""

_USUAL: Offers = MappingProxyType({})

_TRAIT = re.compile(r'[A-Z0-9_]{1,255}')

_OTHERS = ('COMPUTE_', 'MISC_', 'OWNER_', 'CUSTOM_OWNER_')
"""Prefixes of traits to which other services give a meaning: COMPUTE_MANAGED_PCI_DEVICE ends nova-compute at its start, and
MISC_SHARES_VIA_AGGREGATE lends the device to other nodes.
"""

_VERIFIED = (FUNCTION_PREFIX, CAN_PREFIX, TOGETHER, PROGRAM)
"""Traits that say what was verified, or what a rule offers: a list of known devices must not set them."""


def card_uuid(node_uuid: str, accelerator: AcceleratorId) -> str:
    """Return the UUID of the provider of a device in a node.

    :raises UsageError: ``node_uuid`` is no UUID.
    """
    return _uuid(node_uuid, accelerator)


def slot_uuid(node_uuid: str, accelerator: AcceleratorId, slot_id: str) -> str:
    """Return the UUID of the provider of a slot.

    :raises UsageError: ``node_uuid`` is no UUID.
    """
    return _uuid(node_uuid, accelerator, slot_id)


def together_uuid(node_uuid: str, accelerator: Accelerator) -> str:
    """Return the UUID of the provider that represents all devices of one make (kind, vendor and model) in a node.

    If there is no model, the PCI ids of vendor and device count instead: many BMCs report those only while the host runs.

    :raises UsageError: ``node_uuid`` is no UUID.
    """
    ids = accelerator.pci
    make = (accelerator.vendor, accelerator.model) if accelerator.model else (ids.vendor_id, ids.device_id)
    # No clash with other providers: the UUID of a card is made from one part, that of a slot from two.
    return _uuid(node_uuid, 'together', str(accelerator.kind), *(_whole_word(text or '') for text in make))


def function_class(function: str) -> str:
    """Return the resource class of a function, also the trait of a node that offers it: ``CUSTOM_ACC_FN_<NAME>``.

    Only letters and digits count, in upper case; whatever is between them becomes one underscore.

    :raises UsageError: the name has no letter or digit.
    """
    word = _word(function)
    if not word:
        raise UsageError(
            argument=f'function {function!r}',
            what='has no letter and no digit, so placement can have no name for it',
            hint='rename it in the catalogue',
        )
    return _bounded(FUNCTION_PREFIX + word)


def can_trait(function: str) -> str:
    """Return the trait of a region, and of its node, that can be given a function: ``CUSTOM_ACC_CAN_<NAME>``.

    :raises UsageError: the name has no letter or digit.
    """
    return _bounded(CAN_PREFIX + function_class(function).removeprefix(FUNCTION_PREFIX))


def function_classes(functions: Iterable[str]) -> dict[str, str]:
    """Return the resource class of each function.

    :raises UsageError: two functions would share a class: a tenant could get the wrong one.
    """
    found: dict[str, str] = {}
    taken: dict[str, str] = {}
    for function in sorted(set(functions)):
        name = function_class(function)
        first = taken.setdefault(name, function)
        if first.casefold() != function.casefold():
            raise UsageError(
                argument=f'functions {first!r} and {function!r}',
                what=f'are both {name} in placement',
                hint='rename one of them in the catalogue',
            )
        found[function] = name
    return found


def device_traits(accelerator: Accelerator) -> frozenset[str]:
    """Return the traits that say what a device is: kind, vendor, model and PCI ids, from the most general to the most exact.

    ``CUSTOM_ACC_GPU``, ``CUSTOM_ACC_GPU_<VENDOR>``, ``CUSTOM_ACC_GPU_<VENDOR>_<MODEL>``, ``CUSTOM_ACC_PCI_10DE_2330``. Texts
    that differ only in case, blanks or punctuation give one trait; an unknown value gives none.
    """
    kind = f'{PREFIX}{accelerator.kind}'
    vendor, model = _word(accelerator.vendor or ''), _word(accelerator.model or '')
    traits = {kind}
    if vendor:
        traits.add(_bounded(f'{kind}_{vendor}'))
        if model:
            own = model.removeprefix(f'{vendor}_')  # many a model's name begins with its vendor's
            traits.add(_bounded(f'{kind}_{vendor}_{own}'))
    ids = accelerator.pci
    if ids.vendor_id and ids.device_id:
        traits.add(_bounded(f'{PREFIX}PCI_{_word(ids.vendor_id[2:])}_{_word(ids.device_id[2:])}'))
    return frozenset(traits)


def node_traits(
    inventory: Inventory,
    verdict: Verdict,
    functions: Functions,
    offers: Offers = _USUAL,
    *,
    others: frozenset[str] = frozenset(),
) -> frozenset[str]:
    """Return the traits for the Ironic node: its devices, the functions that they offer, and those that they can be given.

    Devices with an unmet demand add none. A flavor's ``trait_...=required`` reaches Ironic, which refuses the deploy unless the
    node has the trait, too (nova 34.0.0, virt/ironic/patcher.py; ironic 39.0.0, conductor/utils.py).

    :param others: traits that the node has and keeps.
    :raises UsageError: the traits that begin with ``CUSTOM_ACC_`` are more than Ironic takes. For the others see
        :func:`room_for`.
    """
    traits: set[str] = set()
    names = _classes(functions, offers)
    for accelerator in _offered(inventory, verdict):
        own = _own_traits(accelerator)
        traits |= device_traits(accelerator) | own
        for slot_id, function in _slots(accelerator, functions).items():
            made = _of_slot(_offer(accelerator, offers), slot_id, function, names, own)
            traits |= made.traits | {t for t in (made.resource_class,) if t is not None and t.startswith(FUNCTION_PREFIX)}
            traits |= {PROGRAM for t in made.traits if t.startswith(CAN_PREFIX)}
    kept = {t for t in others if not t.startswith(PREFIX)}
    first = {t for t in traits if t.startswith(PREFIX)}
    if len(first | kept) > NODE_TRAITS:
        raise UsageError(
            argument='traits of the node',
            what=f'its accelerators have {len(first)} and it has {len(kept)} others, but Ironic keeps {NODE_TRAITS}',
            hint='remove traits of your own from the node (baremetal node remove trait)',
        )
    return frozenset(traits)


def room_for(traits: frozenset[str], others: frozenset[str]) -> frozenset[str]:
    """Return the traits of :func:`node_traits` that Ironic has room for: all, or those that begin with ``CUSTOM_ACC_``.

    :param others: traits that the node has and keeps.
    """
    kept = {t for t in others if not t.startswith(PREFIX)}
    return traits if len(traits | kept) <= NODE_TRAITS else frozenset(t for t in traits if t.startswith(PREFIX))


def tree(inventory: Inventory, verdict: Verdict, node_uuid: str, functions: Functions, offers: Offers = _USUAL) -> ProviderTree:
    """Build the provider tree that placement should have of a node.

    :param verdict: on the same inventory; a device with an unmet demand offers nothing.
    :param functions: from the same inventory; a slot that is offered as its function, and has none, offers nothing.
    :param offers: from the same inventory; a device without one is offered as usual.
    :raises UsageError: ``node_uuid`` is no UUID, two functions share a name, or a device's own trait may not be used.
    """
    root = _canonical(node_uuid)
    offered = {a.id for a in _offered(inventory, verdict)}
    names = _classes(functions, offers)
    providers: dict[str, Provider] = {}
    for accelerator in inventory.accelerators:
        made = _offer(accelerator, offers)
        holds = accelerator.id in offered
        given = _own_traits(accelerator)
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
        for slot_id, function in _slots(accelerator, functions).items():
            inner = slot_uuid(root, accelerator.id, slot_id)
            slot = _of_slot(made, slot_id, function, names, given)
            providers[inner] = _provider(root, inner, own, slot.resource_class if holds else None, traits | slot.traits)
    return ProviderTree(root_uuid=root, providers=_parents_first(providers.values()))


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
    return _with_descendants(published, only) | (several if only else set())


def prepared(wanted: ProviderTree, actual: ProviderTree) -> ProviderTree:
    """Return the wanted providers and traits with the present inventories: new providers offer nothing, none is removed."""
    now = {p.uuid: p for p in actual.providers}
    wants = tuple(replace(p, inventories=now[p.uuid].inventories if p.uuid in now else ()) for p in wanted.providers)
    others = tuple(replace(p, generation=None) for p in actual.providers if wanted.provider(p.uuid) is None)
    return replace(wanted, providers=_parents_first((*wants, *others)))


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
    chosen = kept | offers if classes <= offers.keys() else kept
    merged = replace(now, inventories=tuple(i for _, i in sorted(chosen.items())))
    others = tuple(p for p in wanted.providers if p.uuid != actual.uuid)
    return replace(wanted, providers=_parents_first((*others, merged)))


def diff(wanted: ProviderTree, actual: ProviderTree, *, delete_gone: bool = False) -> tuple[Call, ...]:
    """Return the placement calls that turn the actual tree into the wanted one, in a safe order.

    New providers are created empty, parents first. Then classes that go are withdrawn, then traits are set, and only then is
    anything offered: no device can be claimed under a trait that it does not have. A provider of ours that the wanted tree
    lacks offers nothing afterwards and stays.

    :param delete_gone: delete those providers instead: their hardware is gone for good. Nova, which caches providers for 300 s,
        cannot update a node in that time, so only while the node is neither available nor being deployed.
    """
    known = {p.uuid: p for p in actual.providers}
    targets = {p.uuid: p for p in wanted.providers}
    gone = [p for p in actual.providers if p.uuid not in targets]
    create: list[Call] = []
    withdraw: list[Call] = [SetInventories(uuid=p.uuid, name=p.name, inventories=()) for p in gone if p.inventories]
    traits: list[Call] = []
    offer: list[Call] = []
    for provider in _parents_first(wanted.providers):
        seen = known.get(provider.uuid)
        if seen is None:
            create.append(CreateProvider(uuid=provider.uuid, name=provider.name, parent_uuid=provider.parent_uuid))
            seen = replace(provider, inventories=(), traits=frozenset())
        elif (seen.parent_uuid, seen.name) != (provider.parent_uuid, provider.name):
            create.append(MoveProvider(uuid=provider.uuid, name=provider.name, parent_uuid=provider.parent_uuid))
        wants = {i.resource_class for i in provider.inventories}
        stays = tuple(i for i in seen.inventories if i.resource_class in wants)
        if len(stays) < len(seen.inventories):
            withdraw.append(SetInventories(uuid=provider.uuid, name=provider.name, inventories=_rewritable(stays)))
            stays = _rewritable(stays)
        if seen.traits != provider.traits:
            traits.append(SetTraits(uuid=provider.uuid, name=provider.name, traits=provider.traits))
        if set(stays) != set(provider.inventories):
            offer.append(SetInventories(uuid=provider.uuid, name=provider.name, inventories=provider.inventories))
    delete: list[Call] = []
    if delete_gone:
        children_first = reversed(_parents_first(gone))
        delete += (DeleteProvider(uuid=p.uuid, name=p.name) for p in children_first)
    return (*create, *withdraw, *traits, *offer, *delete)


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
            return f'create provider {call.name} below {call.parent_uuid}'
        case MoveProvider():
            return f'move provider {call.name} below {call.parent_uuid}'
        case SetInventories(inventories=()):
            return f'{call.name}: offer nothing'
        case SetInventories():
            offers = (
                f'{i.resource_class} {i.total}' + (f' ({i.reserved} reserved)' if i.reserved else '') for i in call.inventories
            )
            return f'{call.name}: offer {", ".join(offers)}'
        case SetTraits():
            return f'{call.name}: set traits {", ".join(sorted(call.traits))}'
        case DeleteProvider():
            return f'delete provider {call.name}'
        case _:
            assert_never(call)


def _canonical(node_uuid: str) -> str:
    """Return the UUID of a node in normal form.

    :raises UsageError: ``node_uuid`` is no UUID.
    """
    try:
        return str(uuid.UUID(node_uuid))
    except ValueError:
        raise UsageError(
            argument='node', what=f'{node_uuid!r} is no UUID', hint='placement knows a node by its UUID in Ironic'
        ) from None


def _uuid(node_uuid: str, *parts: str) -> str:
    # A length before each part: the id of one card cannot equal the id of another card and a slot.
    text = ''.join(f'{len(part)}:{part}' for part in parts)
    # JSON can carry half a surrogate pair, which has no UTF-8 encoding.
    text = text.encode(errors='backslashreplace').decode()
    return str(uuid.uuid5(NAMESPACE, _canonical(node_uuid) + text))


def _word(text: str) -> str:
    """Return a text as part of a name in placement: letters and digits in upper case, one underscore between them."""
    return re.sub(r'[^0-9A-Za-z]+', '_', text).strip('_').upper()


def _whole_word(text: str) -> str:
    """Return a word that differs for different texts, also if the text has letters that no placement name may have."""
    if all(c.isascii() for c in unicodedata.normalize('NFC', text) if c.isalnum()):
        return _word(text)
    same = unicodedata.normalize('NFKC', text).casefold()
    return f'{_word(same)}_{hashlib.sha256(same.encode("utf-8", "surrogatepass")).hexdigest()[:12].upper()}'


def _bounded(name: str) -> str:
    """Return a class or trait in the length that placement takes: the end of a longer one is replaced by a digest."""
    if len(name) <= NAME_LENGTH:
        return name
    rest = hashlib.sha256(name.encode()).hexdigest()[:12].upper()
    return f'{name[: NAME_LENGTH - 13]}_{rest}'


def _offered(inventory: Inventory, verdict: Verdict) -> tuple[Accelerator, ...]:
    """Return the devices with every demand met, with an identity of their own, and that belong to this machine alone.

    A device that another machine of the BMC shares would be claimed on both.
    """
    unmet = {f.accelerator for f in verdict.unmet}
    times = Counter(a.id for a in inventory.accelerators)
    kept_back = unmet | inventory.shared_devices
    return tuple(a for a in inventory.accelerators if a.id not in kept_back and times[a.id] == 1)


def _slots(accelerator: Accelerator, functions: Functions) -> dict[str, str | None]:
    """Return the function of each slot; None if there is none, or if two slots have the same id."""
    times = Counter(s.slot_id for s in accelerator.slots)
    return {s: functions.get((accelerator.id, s)) if times[s] == 1 else None for s in times}


def _classes(functions: Functions, offers: Offers) -> dict[str, str]:
    """Return the resource class of each function that a slot holds, or that a region can be given."""
    taken = {name for made in offers.values() for names in made.takes.values() for name in names}
    return function_classes({*functions.values(), *taken})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slot:
    """Resource class of a slot, if it can be claimed, and its traits besides those of its card."""

    resource_class: str | None
    traits: frozenset[str] = frozenset()


def _offer(accelerator: Accelerator, offers: Offers) -> Offer:
    """Return how a device is offered: by a rule, or as usual."""
    return offers.get(accelerator.id) or Offer(how=usual(accelerator))


def _of_slot(made: Offer, slot_id: str, function: str | None, names: Mapping[str, str], given: frozenset[str]) -> _Slot:
    """Return how a slot can be claimed.

    :param function: the function that it verifiably holds; None: none, unknown, or in an ambiguous slot.
    :param given: the traits of its card from the lists of known devices.
    """
    named = None if function is None else names[function]
    ids = frozenset() if named is None else _function_ids(given, made.uuids.get(slot_id))
    match made.how:
        case Offering.FUNCTION:
            return _Slot(resource_class=named, traits=ids)
        case Offering.REGION:
            # An unknown function was left by somebody: the slot is handed to nobody.
            known = named is not None or slot_id in made.known
            can = {can_trait(f) for f in made.takes.get(slot_id, ())}
            traits = can | ({named} if named is not None else set()) | ({PROGRAMMABLE} if can else set()) | ids
            return _Slot(resource_class=(made.resource_class or REGION_CLASS) if known else None, traits=frozenset(traits))
        case Offering.DEVICE | Offering.TOGETHER | Offering.NOTHING:
            return _Slot(resource_class=None)
        case _:
            assert_never(made.how)


def _function_ids(given: frozenset[str], function_uuid: str | None) -> frozenset[str]:
    """Return Cyborg's traits of a function, one for each maker that the card's traits name.

    ``CUSTOM_FPGA_FUNCTION_ID_<MAKER>_<UUID>``.
    """
    digits = None if function_uuid is None else function_uuid.replace('-', '').upper()
    if digits is None or not re.fullmatch('[0-9A-F]{32}', digits) or set(digits) == {'0'}:
        return frozenset()
    makers = (m[1] for t in given if (m := _MAKER.fullmatch(t)) is not None)
    return frozenset(_bounded(f'CUSTOM_FPGA_FUNCTION_ID_{maker}_{digits}') for maker in makers)


def _one_more(inventories: tuple[ProviderInventory, ...], resource_class: str) -> tuple[ProviderInventory, ...]:
    totals = {i.resource_class: i.total for i in inventories}
    totals[resource_class] = totals.get(resource_class, 0) + 1
    return tuple(ProviderInventory(resource_class=name, total=total) for name, total in sorted(totals.items()))


def _own_traits(accelerator: Accelerator) -> frozenset[str]:
    """Return the traits of a device from the operator's lists of known devices.

    :raises UsageError: one of them may not be used.
    """
    for trait in sorted(accelerator.traits):
        if not _TRAIT.fullmatch(trait) or trait.startswith((*_OTHERS, *_VERIFIED)):
            raise UsageError(
                argument=f'trait {trait[:80]!r} of {accelerator.label}',
                what='cannot be set on a device: no valid name, or a name that others give a meaning',
                hint='the lists of known devices name it: use CUSTOM_ and capital letters, digits and underlines',
            )
    return accelerator.traits


def _provider(root: str, own: str, parent: str, resource_class: str | None, traits: frozenset[str]) -> Provider:
    # 36 + 5 + 12 characters; placement takes 200. Unique in the cloud, since the node's UUID is.
    name = f'{root}_ACC_{own.replace("-", "")[:12]}'
    offers = () if resource_class is None else (ProviderInventory(resource_class=resource_class),)
    return Provider(uuid=own, name=name, parent_uuid=parent, inventories=offers, traits=traits)


def _parents_first(providers: Iterable[Provider]) -> tuple[Provider, ...]:
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


def _with_descendants(published: ProviderTree, roots: frozenset[str]) -> frozenset[str]:
    """Return the UUIDs of these providers, and of all providers below them."""
    found = set(roots)
    for provider in _parents_first(published.providers):
        if provider.parent_uuid in found:
            found.add(provider.uuid)
    return frozenset(found)


def _rewritable(inventories: tuple[ProviderInventory, ...]) -> tuple[ProviderInventory, ...]:
    """Return the inventories as they can be sent: an altered one is sent with our own values."""
    return tuple(replace(i, altered=False) for i in inventories)
