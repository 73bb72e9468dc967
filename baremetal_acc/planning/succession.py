# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Find the SoftwareInventory item of a component again after an update has changed its URI.

Some BMCs put the version into the URI of an item. After the write the old item is gone, or is marked as the previous one, and
another item of the same card shows the version that was sent. It is the successor where the evidence says that it is the same
component, and where no other item can be that: then every action and record of the job that names the old item is changed to
name the new one. Where two items can be it, neither is taken.

Seen: Dell PowerEdge R750, iDRAC9 6.00.30.00 (recordings of public trees): ``Installed-<component>-<version>__<device>``.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.action import Engage, Flash, Program, Release
from baremetal_acc.model.firmware import Component, ItemIdentity
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import Job
from baremetal_acc.planning.image_selection import same_version


def identity(accelerator: Accelerator, component: Component) -> ItemIdentity:
    """Return what the item of a component of a card is recognised by after an update."""
    others = (c for c in accelerator.firmware if c.ref != component.ref)
    beside = tuple(sorted(c.ref for c in others if _may_be_taken_for(component, c)))
    return ItemIdentity(software_id=component.software_id, beside=beside)


def successor(job: Job, action: Flash | Program, card: Accelerator) -> Component | None:
    """Return the item by which a card shows what was written to an item that it does not show any more.

    None where there is no such item, or more than one.

    :param card: as an inspection without gaps shows it.
    """
    if any(c.ref == action.ref for c in _parts(card)):
        return None
    found = list(_candidates(job, action, card))
    return found[0] if len(found) == 1 else None


def followed(job: Job, inventory: Inventory) -> Job:
    """Return the job with the items that its writes have renamed, as a whole inspection shows them."""
    for item in job.items:
        action = item.action
        if not isinstance(action, Flash | Program) or not item.state.begun or item.untouched:
            continue
        card = inventory.accelerator(action.accelerator)
        if card is None or any(gap.hides and gap.ref.bmc == action.ref.bmc for gap in inventory.gaps):
            continue
        found = successor(job, action, card)
        if found is not None:
            job = moved(job, action, found)
    return job


def moved(job: Job, action: Flash | Program, found: Component) -> Job:
    """Return the job with another item in place of that of a write, wherever the job names it.

    It is named in what is still to be written or restored, in locks of the item itself, and in their records.
    """
    old, new = action.ref, found.ref

    def now(one: object) -> bool:
        return isinstance(one, Flash | Program | Release | Engage) and one.ref == old and one.accelerator == action.accelerator

    items = []
    for item in job.items:
        at = item.action
        if isinstance(at, Flash) and now(at):
            item = replace(item, action=replace(at, ref=new, component=found.id or at.component))
        elif isinstance(at, Program | Release | Engage) and now(at):
            item = replace(item, action=replace(at, ref=new))
        items.append(item)
    part = action.component if isinstance(action, Flash) else None
    engagements = tuple(
        replace(e, ref=new, part=found.id if e.part == part else e.part)
        if e.ref == old and e.accelerator == action.accelerator
        else e
        for e in job.engagements
    )
    undos = tuple(replace(u, ref=new) if u.ref == old else u for u in job.undos)
    return replace(job, items=tuple(items), engagements=engagements, undos=undos)


def _candidates(job: Job, action: Flash | Program, card: Accelerator) -> Iterator[Component]:
    """List the items of a card that show the version that was sent, and are the same component."""
    if isinstance(action, Program):
        items = (s.item for s in card.slots if s.slot_id == action.slot)
        yield from (c for c in items if c is not None and same_version(c.version, action.version))
        return
    # An item that the plan saw of another card is no new item of this one: swapped cards prove nothing.
    others = {i.action.ref for i in job.items if isinstance(i.action, Flash | Program)} - {action.ref}
    known = action.item or ItemIdentity()
    for component in card.firmware:
        is_new = component.ref.bmc == action.ref.bmc and component.ref not in {*others, *known.beside}
        if is_new and same_version(component.version, action.version) and _is_same(action, known, component):
            yield component


def _is_same(action: Flash, known: ItemIdentity, component: Component) -> bool:
    """Whether an item belongs to the component that was written.

    The SoftwareId decides; where one of the items has none, an Id that differs in the version alone. A Name proves nothing:
    BMCs use one for many items.
    """
    if component.id is None or not component.certain:
        return False
    if known.software_id is not None and component.software_id is not None:
        return known.software_id == component.software_id
    return _differ_by_version(action.component, action.expects, component.id, component.version)


def _may_be_taken_for(one: Component, other: Component) -> bool:
    """Whether two items of one card differ by no more than an item before and after an update."""
    if one.software_id is not None and other.software_id is not None:
        return one.software_id == other.software_id
    return one.id is not None and other.id is not None and _differ_by_version(one.id, one.version, other.id, other.version)


def _differ_by_version(one: str, version: str | None, other: str, other_version: str | None) -> bool:
    """Whether two Ids are the same except for the version in them, whatever signs a BMC puts between its numbers."""
    one, other = _plain(one), _plain(other)
    old, new = _plain(version or ''), _plain(other_version or '')
    if not old or not new:
        return False
    places = (n for n in range(len(one)) if one.startswith(old, n))
    return any(other == f'{one[:n]}{new}{one[n + len(old) :]}' for n in places)


def _plain(text: str) -> str:
    return re.sub('[^a-z0-9]', '.', text.casefold())


def _parts(card: Accelerator) -> Iterator[Component]:
    yield from card.firmware
    yield from (s.item for s in card.slots if s.item is not None)


__all__ = ['followed', 'identity', 'moved', 'successor']
