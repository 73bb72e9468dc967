# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Apply the custody rules of the baseline: which cards are in doubt, what a verdict says, which measurements begin a chain.

The chains themselves are computed in :mod:`baremetal_acc.planning.custody`.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import assert_never

from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.action import Flash, Program
from baremetal_acc.model.custody import CardCustody, Custody, CustodyDemand, Origin, Strength
from baremetal_acc.model.finding import ChainOfCustody
from baremetal_acc.model.image import Image
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.note import Note, WrittenForCustody
from baremetal_acc.model.plan import Plan
from baremetal_acc.model.ref import AcceleratorId, Ref
from baremetal_acc.model.reference import VersionReference
from baremetal_acc.model.subject import CUSTODY
from baremetal_acc.model.verdict import Finding, Met
from baremetal_acc.planning import attestation
from baremetal_acc.planning.custody import begun, holds
from baremetal_acc.planning.verify import components_wanted, slots_wanted
from baremetal_acc.policy.baseline_rules import Baseline, NodeFacts
from baremetal_acc.policy.device_demands import Demands, demands


def in_doubt(
    custody: Custody, inventory: Inventory, baseline: Baseline, node: NodeFacts, now: datetime
) -> frozenset[AcceleratorId]:
    """Return the cards whose rules require a chain of custody, and whose chain does not satisfy them."""
    return frozenset(
        accelerator.id
        for accelerator in inventory.accelerators
        if not satisfies(custody.of(accelerator.id), demands(baseline, accelerator, node).custody, now)
    )


def satisfies(card: CardCustody, demand: CustodyDemand, now: datetime) -> bool:
    """Whether the custody of a card satisfies what a rule demands."""
    match demand:
        case CustodyDemand.REPORTED:
            return True
        case CustodyDemand.REQUIRED:
            return holds(card, now)
        case CustodyDemand.EVIDENCED:
            return holds(card, now) and card.chain is not None and card.chain.strength is Strength.EVIDENCED
        case _:
            assert_never(demand)


def slots_in_doubt(
    doubted: frozenset[AcceleratorId], inventory: Inventory, baseline: Baseline, node: NodeFacts
) -> frozenset[tuple[AcceleratorId, str]]:
    """Return the slots that rules name of cards in doubt: they are programmed again, even if they show their function."""
    return frozenset(
        (accelerator.id, slot.slot_id)
        for accelerator in inventory.accelerators
        if accelerator.id in doubted
        for slot, _ in slots_wanted(accelerator, demands(baseline, accelerator, node))
        if slot is not None
    )


def findings(custody: Custody, inventory: Inventory, baseline: Baseline, node: NodeFacts, now: datetime) -> tuple[Finding, ...]:
    """Return the findings of a verdict about the custody of each card whose rules require it."""
    found = []
    for accelerator in inventory.accelerators:
        wanted = demands(baseline, accelerator, node)
        if wanted.custody is CustodyDemand.REPORTED:
            continue
        card = custody.of(accelerator.id)
        met = satisfies(card, wanted.custody, now)
        found.append(
            Finding(
                accelerator=accelerator.id,
                label=accelerator.label,
                subject=CUSTODY,
                fact=ChainOfCustody(demand=wanted.custody, custody=card, at=now),
                met=Met.YES if met else Met.NO,
                rule=wanted.custody_rule,
            )
        )
    return tuple(found)


def reasons_to_write(
    doubted: frozenset[AcceleratorId], made: Plan, custody: Custody, inventory: Inventory, now: datetime
) -> tuple[Note, ...]:
    """Return notes on why a plan writes cards that may show the right version: the chain of each that does not hold.

    :param doubted: as of :func:`in_doubt`.
    """
    written = {a.accelerator for a in made.actions if isinstance(a, Flash | Program)}
    return tuple(
        Note(
            label=a.label,
            content=WrittenForCustody(custody=custody.of(a.id), at=now),
        )
        for a in inventory.accelerators
        if a.id in doubted & written
    )


# -------------------------------------------------------------------------------------------------------------------- writes


def wholly_written(made: Plan, inventory: Inventory, baseline: Baseline, node: NodeFacts) -> frozenset[AcceleratorId]:
    """Return the cards of which a plan writes every part that the rules name: firmware, and functions in slots.

    What no rule names is not written, and no chain covers it.
    """
    written: dict[AcceleratorId, set[Ref]] = {}
    for action in made.actions:
        if isinstance(action, Flash | Program):
            written.setdefault(action.accelerator, set()).add(action.ref)
    return frozenset(
        accelerator.id
        for accelerator in inventory.accelerators
        if accelerator.id in written
        and (named := _named(accelerator, demands(baseline, accelerator, node)))
        and named <= written[accelerator.id]
    )


def measured(
    custody: Custody,
    inventory: Inventory,
    baseline: Baseline,
    node: NodeFacts,
    catalogue: Iterable[Image],
    references: tuple[VersionReference, ...] = (),
) -> Custody:
    """Return the custody with a new chain of each card whose measurements match the catalogue, for all parts that rules name.

    :param inventory: the reading that the custody reaches to, with signed measurements.
    """
    images = tuple(catalogue)
    for accelerator in inventory.accelerators:
        found = attestation.matching(accelerator, inventory.accelerators, images, references)
        named = _named(accelerator, demands(baseline, accelerator, node))
        if custody.of(accelerator.id).writing is None and named and named <= found.keys():
            names = dict.fromkeys(name for ref in sorted(found) for name in found[ref])
            custody = begun(custody, accelerator.id, Origin.MEASURED, inventory.at, by=names)
    return custody


def _named(accelerator: Accelerator, wanted: Demands) -> set[Ref | None]:
    parts: set[Ref | None] = {None if c is None else c.ref for c, _, _ in components_wanted(accelerator, wanted)}
    parts |= {None if s is None or s.item is None else s.item.ref for s, _ in slots_wanted(accelerator, wanted)}
    return parts
