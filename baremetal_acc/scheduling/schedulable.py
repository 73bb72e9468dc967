# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Evaluate the rules that say how each device of a node can be claimed in placement.

There are two kinds of slots. A slot that is offered as its *function* is claimed by the resource class of the function that it
verifiably holds; without a function, it cannot be claimed. A slot that is offered as a *region* is claimed by a class of its
own, whatever it holds; traits say which function it holds and which functions it can be given, and a deployment programs the
function that the tenant asked for.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from baremetal_acc.errors import UsageError
from baremetal_acc.model.accelerator import Accelerator, Kind, ReconfigurationSlot
from baremetal_acc.model.action import Program
from baremetal_acc.model.image import Image, ImageKind
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import Job
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.model.verdict import Verdict
from baremetal_acc.planning import image_selection
from baremetal_acc.planning.verify import functions_in_play
from baremetal_acc.policy.baseline_rules import Baseline, NodeFacts, Offering, OnLeave
from baremetal_acc.policy.device_demands import Demands, demands

Functions = Mapping[tuple[AcceleratorId, str], str]
"""Name of the function that a slot verifiably holds, by device and SlotId."""


Place = tuple[AcceleratorId, str]
"""A device, and a SlotId of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """How one device can be claimed.

    :ivar resource_class: class of the device, or of each of its regions; None: the class of its kind.
    :ivar takes: names of the functions that each of its slots can be given, by SlotId.
    :ivar known: SlotIds of the slots whose content is certain: empty, or a function of the catalogue.
    :ivar uuids: UUIDs of the functions that slots hold, by SlotId, where the catalogue gives them. The UUID that a BMC reports
        is not used, because it may be that of the resource.
    """

    how: Offering
    resource_class: str | None = None
    takes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    known: frozenset[str] = frozenset()
    uuids: Mapping[str, str] = field(default_factory=dict)


Offers = Mapping[AcceleratorId, Offer]
"""Offers of one inventory, by device. A device without one is offered as :func:`usual` says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Supply:
    """What a node can offer, from one inventory.

    :ivar functions: the functions that its slots verifiably hold.
    :ivar offers: how its devices can be claimed.
    """

    functions: Functions
    offers: Offers


def supply(
    inventory: Inventory,
    verdict: Verdict,
    baseline: Baseline,
    node: NodeFacts,
    catalogue: Iterable[Image],
    *,
    left: frozenset[Place] = frozenset(),
) -> Supply:
    """Return what a node can offer.

    :param verdict: on the same inventory; no function of a device with an unmet demand counts.
    :param left: slots that a tenant who is gone has had, and that were not programmed since.
    :raises UsageError: a rule makes an offer that is not possible.
    """
    catalogue = tuple(catalogue)
    functions: Functions = functions_in_play(inventory, verdict, baseline, node, catalogue)
    spent = removed(inventory, baseline, node, left)
    functions = {place: name for place, name in functions.items() if place not in spent}
    made = {a.id: offer(a, demands(baseline, a, node), node, catalogue, functions) for a in inventory.accelerators}
    return Supply(functions=functions, offers=made)


def able(
    inventory: Inventory, baseline: Baseline, node: NodeFacts, catalogue: Iterable[Image]
) -> dict[tuple[AcceleratorId, str], frozenset[str]]:
    """Return the functions that each slot can be given, for the devices whose slots are claimed one by one."""
    catalogue = tuple(catalogue)
    found: dict[tuple[AcceleratorId, str], frozenset[str]] = {}
    for accelerator in inventory.accelerators:
        wanted = demands(baseline, accelerator, node)
        if (wanted.offer or usual(accelerator)) in (Offering.FUNCTION, Offering.REGION):
            found |= {(accelerator.id, s.slot_id): _takes(accelerator, s, wanted, catalogue) for s in accelerator.slots}
    return found


def single(inventory: Inventory, baseline: Baseline, node: NodeFacts, catalogue: Iterable[Image]) -> dict[Place, str]:
    """Return the functions of the slots that are claimed as the function that they hold.

    Slots that are empty, or whose content nobody can tell, are omitted: they promise nothing to anybody.
    """
    catalogue = tuple(catalogue)
    found: dict[Place, str] = {}
    for accelerator in inventory.accelerators:
        if (demands(baseline, accelerator, node).offer or usual(accelerator)) is Offering.FUNCTION:
            holds = {s.slot_id: image_selection.held(catalogue, accelerator, s) for s in accelerator.slots}
            found |= {(accelerator.id, slot): name for slot, name in holds.items() if name is not None}
    return found


def removed(inventory: Inventory, baseline: Baseline, node: NodeFacts, left: frozenset[Place]) -> frozenset[Place]:
    """Return the slots whose function is not offered any more, because a tenant has left and their rules say ``remove``.

    :param left: slots that a tenant who is gone has had, and that were not programmed since.
    """
    return frozenset(
        (a.id, s.slot_id)
        for a in inventory.accelerators
        for s in a.slots
        if (a.id, s.slot_id) in left and goes(a, demands(baseline, a, node))
    )


def goes(accelerator: Accelerator, wanted: Demands) -> bool:
    """Whether the functions of a device's slots are not offered any more after a tenant has left.

    Only if a slot is claimed as its function: a region is offered whatever it holds, and its next tenant chooses.
    """
    how = usual(accelerator) if wanted.offer is None else wanted.offer
    return how is Offering.FUNCTION and wanted.on_leave is OnLeave.REMOVE


def unknown(baseline: Baseline, catalogue: Iterable[Image]) -> tuple[tuple[str, str], ...]:
    """Return the functions in ``takes`` of rules for which the catalogue has no image.

    They promise nothing, and may be misspelt.

    :returns: pairs of a rule and a function.
    """
    known = {i.function for i in catalogue if i.kind is ImageKind.FUNCTION}
    return tuple((rule.name, name) for rule in baseline.rules for name in rule.takes or () if name not in known)


def slots(inventory: Inventory) -> frozenset[Place]:
    """Return all slots of a machine."""
    return frozenset((a.id, s.slot_id) for a in inventory.accelerators for s in a.slots)


def programmed(job: Job) -> frozenset[Place]:
    """Return the slots into which a job has programmed a function. A rollback does not count."""
    return frozenset(
        (i.action.accelerator, i.action.slot)
        for i in job.items
        if isinstance(i.action, Program) and i.state is ItemState.DONE and not i.restoring
    )


def usual(accelerator: Accelerator) -> Offering:
    """Return how a device is offered without a rule: an FPGA with slots by its functions, any other device as a whole."""
    return Offering.FUNCTION if accelerator.kind is Kind.FPGA and accelerator.slots else Offering.DEVICE


def offer(
    accelerator: Accelerator, wanted: Demands, node: NodeFacts, catalogue: Iterable[Image], functions: Functions
) -> Offer:
    """Return how one device can be claimed.

    :raises UsageError: the device cannot be offered as its rule says.
    """
    how = usual(accelerator) if wanted.offer is None else wanted.offer
    if how is Offering.TOGETHER and accelerator.slots:
        raise UsageError(
            argument=f'offer = "{how}" of rule {wanted.offer_rule} for {accelerator.label}',
            what='a device with slots cannot be offered together with others',
            hint='offer it as "function", "region" or "device"',
        )
    own = None if node.resource_class is None else 'CUSTOM_' + re.sub('[^0-9A-Z]+', '_', node.resource_class.upper())
    if wanted.offer_class is not None and wanted.offer_class == own:
        raise UsageError(
            argument=f'offer_class of rule {wanted.offer_class_rule} for {accelerator.label}',
            what=f'{own} is the resource class of the node itself: a flavor for nodes would claim the card',
            hint='choose another resource class',
        )
    catalogue = tuple(catalogue)
    takes = {s.slot_id: _takes(accelerator, s, wanted, catalogue) for s in accelerator.slots}
    known = {s.slot_id for s in accelerator.slots if s.function is None or (accelerator.id, s.slot_id) in functions}
    return Offer(
        how=how,
        resource_class=wanted.offer_class,
        takes=takes if how is Offering.REGION else {},
        known=frozenset(known) if how is Offering.REGION else frozenset(),
        uuids=_uuids(accelerator, catalogue, functions),
    )


def _uuids(accelerator: Accelerator, catalogue: tuple[Image, ...], functions: Functions) -> dict[str, str]:
    found = {}
    for slot in accelerator.slots:
        name = functions.get((accelerator.id, slot.slot_id))
        fitting = () if name is None else image_selection.function_image(catalogue, accelerator, slot, name)
        for image in fitting:
            if image.uuid is not None and image_selection.holds(slot, image):
                found[slot.slot_id] = image.uuid
    return found


def _takes(
    accelerator: Accelerator, slot: ReconfigurationSlot, wanted: Demands, catalogue: tuple[Image, ...]
) -> frozenset[str]:
    """Return the functions that a slot can be given, each by exactly one image that is not denied and not only fits by name."""
    if slot.item is None:
        return frozenset()
    names = set(wanted.takes or ())
    if wanted.takes is None:
        names = {i.function for i in catalogue if i.kind is ImageKind.FUNCTION and i.function is not None}
    found = set()
    for name in names:
        fitting = image_selection.function_image(catalogue, accelerator, slot, name)
        good = [i for i in fitting if i.denied is None]
        denied = [i for i in fitting if i.denied is not None]
        if (
            len(good) == 1
            and not image_selection.by_name_only(good[0], accelerator, slot.item)
            and not any(image_selection.same_version(i.version, good[0].version) for i in denied)
        ):
            found.add(name)
    return frozenset(found)
