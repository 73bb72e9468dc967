# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Why is a device, or a slot of it, on offer or not? In words, device by device, for whoever asks."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from baremetal_acc.decide import images, providers
from baremetal_acc.decide.baseline import Baseline, Demands, NodeFacts, Offering, demands
from baremetal_acc.decide.offer import Offer, Supply, usual
from baremetal_acc.model.accelerator import Accelerator, ReconfigurationSlot
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import Verdict
from baremetal_acc.model.provider import ProviderInventory

SHARED = 'another machine of its BMC has it, too: both would offer it'


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One device or slot.

    :ivar label: what it is, for people.
    :ivar provider: UUID of its provider, which may stand for other devices too.
    :ivar offers: what may be claimed of that.
    :ivar why: which rule offers it so, or what keeps it from being offered.
    """

    label: str
    provider: str
    offers: tuple[ProviderInventory, ...]
    why: str


def standing(
    inventory: Inventory, verdict: Verdict, baseline: Baseline, node: NodeFacts, root: str, supply: Supply
) -> tuple[Standing, ...]:
    """All devices and their slots, each device before its slots.

    :param verdict: of the same look, as ``supply`` is.
    :raises UsageError: they cannot be published at all; see :func:`baremetal_acc.decide.providers.tree`.
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
) -> Iterator[Standing]:
    made = supply.offers.get(accelerator.id) or Offer(how=usual(accelerator))
    rule = f'offer = "{made.how}" of rule {wanted.offer_rule}'
    findings = (f for f in verdict.unmet if f.accelerator == accelerator.id)
    bad = '; '.join(f'{f.subject}: expected {f.expected}, found {f.found} (rule {f.rule})' for f in findings)
    if shared:
        bad = '; '.join(filter(None, (SHARED, bad)))
    own = providers.card_uuid(root, accelerator.id)
    by_slots = bool(accelerator.slots) and made.how in (Offering.FUNCTION, Offering.REGION)
    why = f'its slots are offered: {rule}' if by_slots else rule
    if made.how is Offering.TOGETHER:
        own = providers.together_uuid(root, accelerator)
        why = f'counted with all of its make: {rule}'
    yield Standing(label=accelerator.label, provider=own, offers=offered.get(own, ()), why=bad or why)
    times = Counter(s.slot_id for s in accelerator.slots)
    for slot in accelerator.slots if by_slots else ():
        inner = providers.slot_uuid(root, accelerator.id, slot.slot_id)
        why = 'its card is not met' if bad else _of_slot(slot, supply.functions.get((accelerator.id, slot.slot_id)), rule)
        if times[slot.slot_id] > 1:
            why = 'the BMC calls two slots so'
        yield Standing(label=f'{slot.slot_id} of {accelerator.label}', provider=inner, offers=offered.get(inner, ()), why=why)


def _of_slot(slot: ReconfigurationSlot, function: str | None, rule: str) -> str:
    """:param function: what it has to offer; None: nothing that may be offered."""
    if function is not None:
        return f'it holds {function}: {rule}'
    if slot.function is None:
        return f'it is empty: {rule}'
    return f'it holds {images.shown(slot.function)}, and no function of the catalogue is certain to be that: {rule}'
