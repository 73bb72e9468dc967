# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Choose the resource classes and traits of devices and slots, and the traits of their node."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import assert_never

from baremetal_acc.errors import UsageError
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.verdict import Verdict
from baremetal_acc.policy.baseline_rules import FUNCTION_PREFIX, Offering
from baremetal_acc.scheduling.provider_names import (
    CAN_PREFIX,
    OPERATOR_RESERVED,
    PREFIX,
    PROGRAM,
    PROGRAMMABLE,
    REGION_CLASS,
    RESERVES_NOTHING,
    TOGETHER,
    bounded_name,
    can_trait,
    function_classes,
    placement_word,
)
from baremetal_acc.scheduling.schedulable import Functions, Offer, Offers, usual

_MAKER = re.compile(r'CUSTOM_FPGA_(?!(?:COMPUTE|NETWORK|STORAGE)$)([A-Z0-9]+)')
"""Cyborg's trait of an FPGA's maker, as in the lists of known devices. Cyborg's other traits of this form name a purpose."""

NODE_TRAITS = 50
"""Maximum number of traits of an Ironic node. Source: ironic 39.0.0, db/sqlalchemy/api.py, MAX_TRAITS_PER_NODE."""

AS_USUAL: Offers = MappingProxyType({})

_TRAIT = re.compile(r'[A-Z0-9_]{1,255}')

_OTHERS = ('COMPUTE_', 'MISC_', 'OWNER_', 'CUSTOM_OWNER_')
"""Prefixes of traits to which other services give a meaning: COMPUTE_MANAGED_PCI_DEVICE ends nova-compute at its start, and
MISC_SHARES_VIA_AGGREGATE lends the device to other nodes.
"""

_VERIFIED = (FUNCTION_PREFIX, CAN_PREFIX, TOGETHER, PROGRAM, RESERVES_NOTHING, OPERATOR_RESERVED)
"""Traits that say what was verified, what a rule offers, or who has reserved it: a list of known devices must not set them."""


def device_traits(accelerator: Accelerator) -> frozenset[str]:
    """Return the traits that say what a device is: kind, vendor, model and PCI ids, from the most general to the most exact.

    ``CUSTOM_ACC_GPU``, ``CUSTOM_ACC_GPU_<VENDOR>``, ``CUSTOM_ACC_GPU_<VENDOR>_<MODEL>``, ``CUSTOM_ACC_PCI_10DE_2330``. Texts
    that differ only in case, blanks or punctuation give one trait; an unknown value gives none.
    """
    kind = f'{PREFIX}{accelerator.kind}'
    vendor, model = placement_word(accelerator.vendor or ''), placement_word(accelerator.model or '')
    traits = {kind}
    if vendor:
        traits.add(bounded_name(f'{kind}_{vendor}'))
        if model:
            own = model.removeprefix(f'{vendor}_')  # many a model's name begins with its vendor's
            traits.add(bounded_name(f'{kind}_{vendor}_{own}'))
    ids = accelerator.pci
    if ids.vendor_id and ids.device_id:
        traits.add(bounded_name(f'{PREFIX}PCI_{placement_word(ids.vendor_id[2:])}_{placement_word(ids.device_id[2:])}'))
    return frozenset(traits)


def node_traits(
    inventory: Inventory,
    verdict: Verdict,
    functions: Functions,
    offers: Offers = AS_USUAL,
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
    names = function_class_names(functions, offers)
    for accelerator in offered_devices(inventory, verdict):
        own = operator_traits(accelerator)
        traits |= device_traits(accelerator) | own
        for slot_id, function in functions_by_slot(accelerator, functions).items():
            made = slot_offer(offer_of(accelerator, offers), slot_id, function, names, own)
            traits |= made.traits | {t for t in (made.resource_class,) if t is not None and t.startswith(FUNCTION_PREFIX)}
            traits |= {PROGRAM for t in made.traits if t.startswith(CAN_PREFIX)}
    kept = {t for t in others if not t.startswith(PREFIX)}
    first = {t for t in traits if t.startswith(PREFIX)}
    if len(first | kept) > NODE_TRAITS:
        raise UsageError(
            argument='traits of the node',
            what=f'{len(first)} for its accelerators and {len(kept)} others are more than the {NODE_TRAITS} that Ironic stores',
            hint='remove traits of your own from the node (baremetal node remove trait)',
        )
    return frozenset(traits)


def room_for(traits: frozenset[str], others: frozenset[str]) -> frozenset[str]:
    """Return the traits of :func:`node_traits` that Ironic has room for: all, or those that begin with ``CUSTOM_ACC_``.

    :param others: traits that the node has and keeps.
    """
    kept = {t for t in others if not t.startswith(PREFIX)}
    return traits if len(traits | kept) <= NODE_TRAITS else frozenset(t for t in traits if t.startswith(PREFIX))


def offered_devices(inventory: Inventory, verdict: Verdict) -> tuple[Accelerator, ...]:
    """Return the devices with every demand met, with an identity of their own, and that belong to this machine alone.

    A device that another machine of the BMC shares would be claimed on both.
    """
    unmet = {f.accelerator for f in verdict.unmet}
    times = Counter(a.id for a in inventory.accelerators)
    kept_back = unmet | inventory.shared_devices
    return tuple(a for a in inventory.accelerators if a.id not in kept_back and times[a.id] == 1)


def functions_by_slot(accelerator: Accelerator, functions: Functions) -> dict[str, str | None]:
    """Return the function of each slot; None if there is none, or if two slots have the same id."""
    times = Counter(s.slot_id for s in accelerator.slots)
    return {s: functions.get((accelerator.id, s)) if times[s] == 1 else None for s in times}


def function_class_names(functions: Functions, offers: Offers) -> dict[str, str]:
    """Return the resource class of each function that a slot holds, or that a region can be given."""
    taken = {name for made in offers.values() for names in made.takes.values() for name in names}
    return function_classes({*functions.values(), *taken})


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotOffer:
    """Resource class of a slot, if it can be claimed, and its traits besides those of its card."""

    resource_class: str | None
    traits: frozenset[str] = frozenset()


def offer_of(accelerator: Accelerator, offers: Offers) -> Offer:
    """Return how a device is offered: by a rule, or as usual."""
    return offers.get(accelerator.id) or Offer(how=usual(accelerator))


def slot_offer(made: Offer, slot_id: str, function: str | None, names: Mapping[str, str], given: frozenset[str]) -> SlotOffer:
    """Return how a slot can be claimed.

    :param function: the function that it verifiably holds; None: none, unknown, or in an ambiguous slot.
    :param given: the traits of its card from the lists of known devices.
    """
    named = None if function is None else names[function]
    ids = frozenset() if named is None else _function_ids(given, made.uuids.get(slot_id))
    match made.how:
        case Offering.FUNCTION:
            return SlotOffer(resource_class=named, traits=ids)
        case Offering.REGION:
            # An unknown function was left by somebody: the slot is handed to nobody.
            known = named is not None or slot_id in made.known
            can = {can_trait(f) for f in made.takes.get(slot_id, ())}
            traits = can | ({named} if named is not None else set()) | ({PROGRAMMABLE} if can else set()) | ids
            return SlotOffer(resource_class=(made.resource_class or REGION_CLASS) if known else None, traits=frozenset(traits))
        case Offering.DEVICE | Offering.TOGETHER | Offering.NOTHING:
            return SlotOffer(resource_class=None)
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
    return frozenset(bounded_name(f'CUSTOM_FPGA_FUNCTION_ID_{maker}_{digits}') for maker in makers)


def operator_traits(accelerator: Accelerator) -> frozenset[str]:
    """Return the traits of a device from the operator's lists of known devices.

    :raises UsageError: one of them may not be used.
    """
    for trait in sorted(accelerator.traits):
        if not _TRAIT.fullmatch(trait) or trait.startswith((*_OTHERS, *_VERIFIED)):
            raise UsageError(
                argument=f'trait {trait[:80]!r} of {accelerator.label}',
                what='cannot be set on a device: the name is invalid or reserved',
                hint='rename it in the list of known devices: CUSTOM_, then capital letters, digits and underscores',
            )
    return accelerator.traits
