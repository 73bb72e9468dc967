# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Map the placement claims of an instance to FPGA regions, and assign the requested functions to them.

Placement does not say which provider served which request group of a flavor. But each region that an instance has claimed is
its own, so it does not matter which region gets which function, as long as every requested function is programmed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from baremetal_acc.errors import UsageError
from baremetal_acc.model.action import Action, Program
from baremetal_acc.model.attach import Claim
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.plan import Plan
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.policy.baseline_rules import FUNCTION_PREFIX, Offering
from baremetal_acc.scheduling.provider_names import (
    CAN_PREFIX,
    CLASSES,
    PREFIX,
    PROGRAM,
    can_trait,
    card_uuid,
    function_class,
    slot_uuid,
    together_uuid,
)
from baremetal_acc.scheduling.schedulable import Place, Supply


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """One region that the node's instance has claimed.

    :ivar label: of its card, for people.
    :ivar classes: the resource classes that it is claimed as.
    """

    accelerator: AcceleratorId
    slot_id: str
    label: str
    classes: frozenset[str]

    @property
    def place(self) -> Place:
        """Device and slot."""
        return self.accelerator, self.slot_id

    def __str__(self) -> str:
        return f'{self.slot_id} of {self.label}'


def everything(held: Mapping[str, frozenset[str]], node_uuid: str, inventory: Inventory) -> tuple[Claim, ...]:
    """Return all that an instance has claimed of the accelerators of a node, device by device and slot by slot.

    A provider that represents several devices is a claim of each of them: the node belongs to the instance, whatever number it
    has claimed. Rules may have changed since the claim, so what a device was offered as then counts like what it is offered as
    now.

    :param held: the claimed classes, by the UUID of the provider; the node's own provider is among them.
    """
    found: list[Claim] = []
    for a in inventory.accelerators:
        found += (
            Claim(provider=card, classes=classes, accelerator=a.id, kind=a.kind)
            for card in (card_uuid(node_uuid, a.id), together_uuid(node_uuid, a))
            if (classes := held.get(card))
        )
        for slot_id in dict.fromkeys(s.slot_id for s in a.slots):
            slot = slot_uuid(node_uuid, a.id, slot_id)
            if classes := held.get(slot):
                found.append(Claim(provider=slot, classes=classes, accelerator=a.id, kind=a.kind, slot=slot_id))
    return tuple(sorted(found, key=lambda c: (c.accelerator, c.slot or '')))


def not_shown(held: Mapping[str, frozenset[str]], node_uuid: str, claims: Iterable[Claim], supply: Supply) -> Iterator[str]:
    """Yield the accelerators that an instance has claimed and that the node does not report, such as a swapped card.

    A resource class that other services use, too, is ignored, unless a rule offers devices of the node as that class.
    """
    classes_of_ours = {*CLASSES.values(), *(made.resource_class for made in supply.offers.values())}
    known = {node_uuid, *(c.provider for c in claims)}
    for provider, classes in sorted(held.items()):
        ours = sorted(name for name in classes if name in classes_of_ours or name.startswith(PREFIX))
        if provider not in known and ours:
            yield f'the instance has claimed {", ".join(ours)} of provider {provider}, which is no device of the node'


def regions(held: Mapping[str, frozenset[str]], node_uuid: str, inventory: Inventory) -> tuple[Claimed, ...]:
    """Return the regions of a node that an instance has claimed, sorted.

    :param held: the claimed classes, by the UUID of the provider; those of other nodes and of whole cards may be among them.
    """
    found = [
        Claimed(accelerator=a.id, slot_id=slot_id, label=a.label, classes=classes)
        for a in inventory.accelerators
        for slot_id in dict.fromkeys(s.slot_id for s in a.slots)
        if (classes := held.get(slot_uuid(node_uuid, a.id, slot_id)))
    ]
    return tuple(sorted(found, key=lambda c: c.place))


def asked(traits: Iterable[str], supply: Supply) -> tuple[str, ...]:
    """Return the functions that the regions of an instance are to be given, from the traits that its flavor requires.

    Nova copies the required traits of every group into the instance_info of the node (nova 34.0.0, virt/ironic/patcher.py).
    """
    named = {can_trait(f): f for made in supply.offers.values() for names in made.takes.values() for f in names}
    return tuple(sorted({named[trait] for trait in traits if trait in named}))


def assign(claimed: Sequence[Claimed], functions: Sequence[str], supply: Supply) -> dict[Place, str]:
    """Assign a function to each claimed region that is offered as a region.

    Every requested function gets a region that can be given it; a region that holds it already is preferred. If there are more
    regions than functions, a flavor asks for one function more than once: the remaining regions keep a function that was asked
    for, and otherwise get the first one that they can be given.

    :raises UsageError: there is no such assignment.
    """
    free = [c for c in claimed if _how(c, supply) is Offering.REGION]
    able = {c.place: [f for f in functions if f in supply.offers[c.accelerator].takes.get(c.slot_id, ())] for c in free}
    if functions and not free:
        raise UsageError(
            argument='the claims of the instance',
            what=f'its flavor requires {", ".join(functions)}, but it has claimed no programmable region of the node',
            hint='request the resource class of the regions in the same group of the flavor as the trait',
        )
    chosen: dict[str, Claimed] = {}
    for function in functions:
        if not _place(function, free, able, supply, chosen, set()):
            raise UsageError(
                argument='the claims of the instance',
                what=(
                    f'the claimed regions ({", ".join(map(str, free))}) cannot be given all of {", ".join(functions)}: '
                    f'no region is left for {function}'
                ),
                hint='give each function a group of its own in the flavor, with class and trait in the same group',
            )
    found = {c.place: function for function, c in chosen.items()}
    for c in free:
        if c.place not in found and able[c.place]:
            now = supply.functions.get(c.place)
            found[c.place] = now if now in able[c.place] and now is not None else able[c.place][0]
    return found


def broken(claimed: Iterable[Claimed], supply: Supply) -> Iterator[str]:
    """Yield the functions that an instance has claimed, and that the region does not hold."""
    for c in claimed:
        holds = supply.functions.get(c.place)
        for name in sorted(c.classes):
            if name.startswith(FUNCTION_PREFIX) and (holds is None or function_class(holds) != name):
                yield f'{c}: the instance has claimed {name}, but the region holds {holds or "no known function"}'


def changed(actions: Iterable[Action], single: Mapping[Place, str]) -> dict[Place, tuple[str, str]]:
    """Return the slots that actions would give another function than the claimed one, with the present and the new function.

    :param single: as :func:`baremetal_acc.scheduling.schedulable.single` returns it. Another name of the same class is the
        same function.
    """
    gets = {(a.accelerator, a.slot): a.function for a in actions if isinstance(a, Program)}
    return {
        place: (single[place], function)
        for place, function in gets.items()
        if place in single and function_class(single[place]) != function_class(function)
    }


def keep(claimed: Iterable[Claimed], plan: Plan, single: Mapping[Place, str], inventory: Inventory) -> None:
    """Refuse a plan that changes a region's function while the node is in use and the function is, or could be, claimed.

    :param single: the functions of the slots that are claimed as the function that they hold. While an instance has the node,
        they are not available in placement, and their class is what was promised at the claim: another function waits until the
        node is free.
    :raises UsageError: the plan does so. A region that is claimed whatever it holds can be given any function.
    """
    gets = {(a.accelerator, a.slot): a.function for a in plan.actions if isinstance(a, Program)}
    promised = set[Place]()
    for c in claimed:
        names = {name for name in c.classes if name.startswith(FUNCTION_PREFIX)}
        if c.place in gets and names and function_class(gets[c.place]) not in names:
            raise UsageError(
                argument=str(c),
                what=f'the instance has claimed {", ".join(sorted(names))}, and the plan would program {gets[c.place]}',
                hint='it can be reprogrammed after the instance has been deleted',
            )
        if names:
            promised.add(c.place)
    for (device, slot), (holds, function) in changed(plan.actions, single).items():
        if (device, slot) not in promised:
            accelerator = inventory.accelerator(device)
            raise UsageError(
                argument=f'{slot} of {device if accelerator is None else accelerator.label}',
                what=(
                    f'it is published as its function {holds}, and the plan would program {function} '
                    'while an instance has claimed anything of the node'
                ),
                hint='it can be reprogrammed after the instance has been deleted; a region (offer = "region") can at any time',
            )


def unkept(traits: Iterable[str], places: Iterable[Place], supply: Supply) -> Iterator[str]:
    """Yield the functions that a flavor's required traits promise to an instance, and that none of its regions holds.

    ``CUSTOM_ACC_CAN_*`` traits count if the flavor asks for programming, by the trait that names the deploy template. Function
    traits count if the instance has claimed a region that is claimed whatever it holds.

    :param places: the slots that the instance has claimed.
    """
    traits, places = frozenset(traits), frozenset(places)
    holds = {supply.functions[place] for place in places if place in supply.functions}
    asked = {t for t in traits if t.startswith(CAN_PREFIX) and PROGRAM in traits} - {can_trait(f) for f in holds}
    offers = (supply.offers.get(card) for card, _ in places)
    if any(made is not None and made.how is Offering.REGION for made in offers):
        asked |= {t for t in traits if t.startswith(FUNCTION_PREFIX)} - {function_class(f) for f in holds}
    for trait in sorted(asked):
        there = ', '.join(sorted(holds)) or 'no known function'
        yield f'the flavor of the instance requires {trait}, but the claimed regions hold {there}'


def _how(c: Claimed, supply: Supply) -> Offering | None:
    made = supply.offers.get(c.accelerator)
    return None if made is None else made.how


def _place(
    function: str,
    free: Sequence[Claimed],
    able: Mapping[Place, Sequence[str]],
    supply: Supply,
    chosen: dict[str, Claimed],
    tried: set[Place],
) -> bool:
    """Find a region for a function; another function moves if there is another region for it (Kuhn's matching)."""
    for c in sorted(free, key=lambda c: (supply.functions.get(c.place) != function, c.place)):
        if function not in able[c.place] or c.place in tried:
            continue
        tried.add(c.place)
        other = next((f for f, taken in chosen.items() if taken == c), None)
        if other is None or _place(other, free, able, supply, chosen, tried):
            chosen[function] = c
            return True
    return False
