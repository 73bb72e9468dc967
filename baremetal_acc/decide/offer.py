# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What of a node can be claimed, and as what? The rules' answer for each device that was looked at.

Two kinds of slots. One that is offered as its *function* is claimed by the resource class of the function that it verifiably
holds; without one it cannot be claimed. One that is offered as a *region* is claimed by a class of its own whatever it holds;
traits say which function that is and which ones it can be given, and a deployment gives it the one that its tenant asked for.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from baremetal_acc.decide import images
from baremetal_acc.decide.baseline import Baseline, Demands, NodeFacts, Offering, OnLeave, demands
from baremetal_acc.decide.verify import functions_in_play
from baremetal_acc.errors import UsageError
from baremetal_acc.model.accelerator import Accelerator, Kind, ReconfigurationSlot
from baremetal_acc.model.image import Image, ImageKind
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import ItemState, Job, Program, Verdict
from baremetal_acc.model.ref import AcceleratorId

Functions = Mapping[tuple[AcceleratorId, str], str]
"""Name of the function that a slot verifiably holds, by device and SlotId."""


Place = tuple[AcceleratorId, str]
"""A device and a SlotId of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """How one device can be claimed.

    :ivar resource_class: what it, or each of its regions, is claimed as; None: as the class of its kind.
    :ivar takes: names of the functions that each of its slots can be given, by SlotId.
    :ivar known: SlotIds of slots of which it is certain what they hold: nothing, or a function of the catalogue.
    :ivar uuids: UUIDs of the functions that slots hold, by SlotId, where the catalogue gives them: a BMC's own word counts for
        nothing, since it may mean the resource.
    """

    how: Offering
    resource_class: str | None = None
    takes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    known: frozenset[str] = frozenset()
    uuids: Mapping[str, str] = field(default_factory=dict)


Offers = Mapping[AcceleratorId, Offer]
"""Those of one look. A device that is not among them is offered as :func:`usual` says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Supply:
    """What a node has to offer, of one look.

    :ivar functions: what its slots verifiably hold.
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
    """What a node has to offer.

    :param verdict: of the same look; of a device with anything unmet no function counts.
    :param left: slots that somebody has had who is gone, and that were not programmed since.
    :raises UsageError: a rule makes an offer that cannot be made.
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
    """The functions that each slot can be given, of the devices whose slots are claimed one by one."""
    catalogue = tuple(catalogue)
    found: dict[tuple[AcceleratorId, str], frozenset[str]] = {}
    for accelerator in inventory.accelerators:
        wanted = demands(baseline, accelerator, node)
        if (wanted.offer or usual(accelerator)) in (Offering.FUNCTION, Offering.REGION):
            found |= {(accelerator.id, s.slot_id): _takes(accelerator, s, wanted, catalogue) for s in accelerator.slots}
    return found


def single(inventory: Inventory, baseline: Baseline, node: NodeFacts, catalogue: Iterable[Image]) -> dict[Place, str]:
    """What slots hold, by name, that are claimed as the function that they hold.

    Without those that hold nothing, and those of which nobody can tell what they hold: they promise nothing to anybody.
    """
    catalogue = tuple(catalogue)
    found: dict[Place, str] = {}
    for accelerator in inventory.accelerators:
        if (demands(baseline, accelerator, node).offer or usual(accelerator)) is Offering.FUNCTION:
            holds = {s.slot_id: images.held(catalogue, accelerator, s) for s in accelerator.slots}
            found |= {(accelerator.id, slot): name for slot, name in holds.items() if name is not None}
    return found


def removed(inventory: Inventory, baseline: Baseline, node: NodeFacts, left: frozenset[Place]) -> frozenset[Place]:
    """The slots whose function is not offered any more, since somebody has left them and their rules say ``remove``.

    :param left: slots that somebody has had who is gone, and that were not programmed since.
    """
    return frozenset(
        (a.id, s.slot_id)
        for a in inventory.accelerators
        for s in a.slots
        if (a.id, s.slot_id) in left and goes(a, demands(baseline, a, node))
    )


def goes(accelerator: Accelerator, wanted: Demands) -> bool:
    """Whether the functions of a device's slots go from what is offered when somebody leaves them.

    Only where a slot is claimed as its function: a region is offered whatever it holds, and its next tenant chooses.
    """
    how = usual(accelerator) if wanted.offer is None else wanted.offer
    return how is Offering.FUNCTION and wanted.on_leave is OnLeave.REMOVE


def unknown(baseline: Baseline, catalogue: Iterable[Image]) -> tuple[tuple[str, str], ...]:
    """What rules let slots be given that no image of the catalogue is: it promises nothing, and may be misspelt.

    :returns: pairs of a rule and a function.
    """
    known = {i.function for i in catalogue if i.kind is ImageKind.FUNCTION}
    return tuple((rule.name, name) for rule in baseline.rules for name in rule.takes or () if name not in known)


def slots(inventory: Inventory) -> frozenset[Place]:
    """All slots of a machine."""
    return frozenset((a.id, s.slot_id) for a in inventory.accelerators for s in a.slots)


def programmed(job: Job) -> frozenset[Place]:
    """The slots that a job has given a function. To put back what was there before is none."""
    return frozenset(
        (i.action.accelerator, i.action.slot)
        for i in job.items
        if isinstance(i.action, Program) and i.state is ItemState.DONE and not i.restoring
    )


def usual(accelerator: Accelerator) -> Offering:
    """How a device is offered of which no rule says anything: an FPGA with slots by its functions, all others whole."""
    return Offering.FUNCTION if accelerator.kind is Kind.FPGA and accelerator.slots else Offering.DEVICE


def offer(
    accelerator: Accelerator, wanted: Demands, node: NodeFacts, catalogue: Iterable[Image], functions: Functions
) -> Offer:
    """How one device can be claimed.

    :raises UsageError: not as its rule wants it.
    """
    how = usual(accelerator) if wanted.offer is None else wanted.offer
    if how is Offering.TOGETHER and accelerator.slots:
        raise UsageError(
            argument=f'offer = "{how}" of rule {wanted.offer_rule} for {accelerator.label}',
            what='it has slots for functions, so it is not like any other one',
            hint='offer it as "function", "region" or "device"',
        )
    own = None if node.resource_class is None else 'CUSTOM_' + re.sub('[^0-9A-Z]+', '_', node.resource_class.upper())
    if wanted.offer_class is not None and wanted.offer_class == own:
        raise UsageError(
            argument=f'offer_class of rule {wanted.offer_class_rule} for {accelerator.label}',
            what=f'{own} is what the machine itself is claimed as: a flavor for machines would get the card',
            hint='choose another class',
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
        fitting = () if name is None else images.function_image(catalogue, accelerator, slot, name)
        for image in fitting:
            if image.uuid is not None and images.holds(slot, image):
                found[slot.slot_id] = image.uuid
    return found


def _takes(
    accelerator: Accelerator, slot: ReconfigurationSlot, wanted: Demands, catalogue: tuple[Image, ...]
) -> frozenset[str]:
    """The functions that a slot can be given: as a plan would let it, by an image that fits it, is certain and not denied."""
    if slot.item is None:
        return frozenset()
    names = set(wanted.takes or ())
    if wanted.takes is None:
        names = {i.function for i in catalogue if i.kind is ImageKind.FUNCTION and i.function is not None}
    found = set()
    for name in names:
        fitting = images.function_image(catalogue, accelerator, slot, name)
        good = [i for i in fitting if i.denied is None]
        denied = [i for i in fitting if i.denied is not None]
        if (
            len(good) == 1
            and not images.by_name_only(good[0], accelerator, slot.item)
            and not any(images.same_version(i.version, good[0].version) for i in denied)
        ):
            found.add(name)
    return frozenset(found)
