# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Report for each device and slot why it is offered in placement, or why not.

:mod:`baremetal_acc.render.standing` renders the sentences.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from baremetal_acc.model.accelerator import Accelerator, Function
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.provider import ProviderInventory
from baremetal_acc.model.verdict import Finding, Verdict
from baremetal_acc.policy.baseline_rules import Baseline, NodeFacts, Offering
from baremetal_acc.policy.device_demands import Demands, demands
from baremetal_acc.scheduling import provider_names, providers
from baremetal_acc.scheduling.schedulable import Offer, Supply, usual


@dataclass(frozen=True, slots=True, kw_only=True)
class Withheld:
    """A device is not offered.

    :ivar is_shared: another machine of its BMC shares it.
    :ivar findings: the unmet demands.
    """

    is_shared: bool
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedBy:
    """A device is offered as a rule says.

    :ivar by_slots: its slots are offered, not the device.
    """

    how: Offering
    rule: str
    by_slots: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotOffered:
    """A slot of a device that is offered by slots.

    :ivar function: the function that it can offer; None: none that may be offered.
    :ivar held: the function that it holds; None: it is empty.
    """

    function: str | None
    held: Function | None
    by: OfferedBy


@dataclass(frozen=True, slots=True, kw_only=True)
class CardNotMet:
    """A slot is not offered, because its card is withheld."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotAmbiguous:
    """The BMC gives several slots of a card the same SlotId."""


Why = Withheld | OfferedBy | SlotOffered | CardNotMet | SlotAmbiguous


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferReport:
    """One device or slot.

    :ivar label: its name, for people.
    :ivar provider: UUID of its provider, which may represent other devices, too.
    :ivar offers: inventories of that provider.
    :ivar why: which rule offers it, or why it is not offered.
    """

    label: str
    provider: str
    offers: tuple[ProviderInventory, ...]
    why: Why


def standing(
    inventory: Inventory, verdict: Verdict, baseline: Baseline, node: NodeFacts, root: str, supply: Supply
) -> tuple[OfferReport, ...]:
    """Report on all devices and their slots, each device before its slots.

    :param verdict: on the same inventory, as ``supply`` is.
    :raises UsageError: they cannot be published at all; see :func:`baremetal_acc.scheduling.providers.tree`.
    """
    tree = providers.tree(inventory, verdict, root, supply.functions, supply.offers)
    offered = {p.uuid: p.inventories for p in tree.providers}
    shared = inventory.shared_devices
    return tuple(
        found
        for accelerator in inventory.accelerators
        for found in _of_device(
            accelerator,
            verdict,
            demands(baseline, accelerator, node),
            tree.root_uuid,
            supply,
            offered,
            shared=accelerator.id in shared,
        )
    )


def _of_device(
    accelerator: Accelerator,
    verdict: Verdict,
    wanted: Demands,
    root: str,
    supply: Supply,
    offered: Mapping[str, tuple[ProviderInventory, ...]],
    *,
    shared: bool,
) -> Iterator[OfferReport]:
    made = supply.offers.get(accelerator.id) or Offer(how=usual(accelerator))
    bad = tuple(f for f in verdict.unmet if f.accelerator == accelerator.id)
    own = provider_names.card_uuid(root, accelerator.id)
    by_slots = bool(accelerator.slots) and made.how in (Offering.FUNCTION, Offering.REGION)
    by = OfferedBy(how=made.how, rule=wanted.offer_rule, by_slots=by_slots)
    if made.how is Offering.TOGETHER:
        own = provider_names.together_uuid(root, accelerator)
    is_withheld = bool(bad) or shared
    why = Withheld(is_shared=shared, findings=bad) if is_withheld else by
    yield OfferReport(label=accelerator.label, provider=own, offers=offered.get(own, ()), why=why)
    times = Counter(s.slot_id for s in accelerator.slots)
    for slot in accelerator.slots if by_slots else ():
        inner = provider_names.slot_uuid(root, accelerator.id, slot.slot_id)
        function = supply.functions.get((accelerator.id, slot.slot_id))
        of_slot: Why = CardNotMet() if is_withheld else SlotOffered(function=function, held=slot.function, by=by)
        if times[slot.slot_id] > 1:
            of_slot = SlotAmbiguous()
        label = f'{slot.slot_id} of {accelerator.label}'
        yield OfferReport(label=label, provider=inner, offers=offered.get(inner, ()), why=of_slot)
