# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Group the writes of a job by device and component, and compare a component with what was written to it."""

from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.action import Flash, Program
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import Job
from baremetal_acc.model.job_item import Item, ItemState
from baremetal_acc.model.ref import AcceleratorId, Ref
from baremetal_acc.planning import image_selection

WrittenPlace = tuple[AcceleratorId, Ref]
"""A device, and the SoftwareInventory item of it that is written."""

_MOST_PARTS = 6
"""How many firmware components of a card a sentence names at most."""


def is_version_shown(version: str | None, staged: str | None, wanted: str) -> bool:
    """Whether the wanted version runs, and no other one is staged."""
    return image_selection.same_version(version, wanted) and (staged is None or image_selection.same_version(staged, wanted))


def shows_last_write(last: Item, action: Flash | Program, component: Component | None, inventory: Inventory | None) -> bool:
    """Whether a place shows what was last written to it. What a slot holds is judged by the verdict."""
    good = last.state in (ItemState.DONE, ItemState.STAGED)
    return good and (shows_version(component, action.version) if isinstance(action, Flash) else inventory is not None)


def writes_by_place(job: Job) -> dict[WrittenPlace, list[tuple[int, Item, Flash | Program]]]:
    """Return the writes that have reached a device, or may have, by place. Rollbacks always count."""
    found: dict[WrittenPlace, list[tuple[int, Item, Flash | Program]]] = {}
    for position, item in enumerate(job.items):
        action = item.action
        if isinstance(action, Flash | Program) and (item.restoring or (item.state.begun and not item.untouched)):
            found.setdefault(place_of(action), []).append((position, item, action))
    return found


def shows_version(component: Component | None, version: str) -> bool:
    """Whether the component runs the version, and the next reset does not change that."""
    return component is not None and is_version_shown(component.version, component.staged, version)


def found_in(accelerator: Accelerator | None, component: Component | None) -> str:
    """Describe in a few words what a component showed; if its card did not show it, what the card showed instead.

    The text is in the past tense because it is read much later: by then the component may run something else.
    """
    if component is None:
        return 'was no longer shown' if accelerator is None else f'was no longer shown; {_parts_of(accelerator)}'
    ran = 'showed no version' if component.version is None else f'ran {component.version}'
    return ran if component.staged is None else f'{ran}, with {component.staged} staged'


def _parts_of(accelerator: Accelerator) -> str:
    """List the firmware that a card shows, in the length of a sentence."""
    shown = sorted(f'{c.id or "the card itself":.60} {c.version or "without a version":.60}' for c in accelerator.firmware)
    more = f' and {len(shown) - _MOST_PARTS} more' if len(shown) > _MOST_PARTS else ''
    return f'the card showed {", ".join(shown[:_MOST_PARTS]) or "no firmware"}{more}'


def part_of(accelerator: Accelerator, ref: Ref) -> Component | None:
    """Return the firmware component, or the item of the slot, that an update of this SoftwareInventory writes."""
    slots = (s.item for s in accelerator.slots if s.item is not None)
    return next((c for c in (*accelerator.firmware, *slots) if c.ref == ref), None)


def component_at(accelerator: Accelerator | None, ref: Ref) -> Component | None:
    """Return the firmware component of a device that an update of this SoftwareInventory writes."""
    return None if accelerator is None else next((c for c in accelerator.firmware if c.ref == ref), None)


def place_of(action: Flash | Program) -> WrittenPlace:
    """Return the place that an action writes."""
    return (action.accelerator, action.ref)
