# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Find which resources of a quarantined device have to be written again, and which writes end its quarantine."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Self

from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.action import Action, Flash, Program
from baremetal_acc.model.image import revokes
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import Job
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.model.ref import AcceleratorId, Ref
from baremetal_acc.planning.written_places import part_of, shows_last_write, writes_by_place


def standing(inventory: Inventory, places: Iterable[Ref]) -> frozenset[AcceleratorId]:
    """Return the devices that are written by way of these resources, whatever identity they report."""
    wanted = set(places)
    return frozenset(a.id for a in inventory.accelerators if not wanted.isdisjoint(_parts(a)))


def _parts(accelerator: Accelerator) -> Iterator[Ref]:
    """Yield the resources of a device that can be written."""
    yield from (c.ref for c in accelerator.firmware)
    yield from (s.item.ref for s in accelerator.slots if s.item is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoilt:
    """What a job has left on a device that nobody may use now.

    :ivar firmware: its firmware is not trusted; False: only the function of a slot is not.
    :ivar places: every resource that was written: whatever device is there later is not trusted, whatever its identity.
    :ivar anew: the resources that have to be written well before anybody may use the device: those that do not show what was
        written last. A revocation is not among them: it is never written together with firmware, and a device that is not
        trusted has all of its firmware written.
    """

    firmware: bool
    places: tuple[Ref, ...]
    anew: tuple[Ref, ...]

    def beside(self, places: Iterable[Ref], anew: Iterable[Ref]) -> Self:
        """Add what was spoilt before, and has not been written well since."""
        return replace(self, places=tuple(sorted({*self.places, *places})), anew=tuple(sorted({*self.anew, *anew})))


def spoilt(job: Job, device: AcceleratorId, inventory: Inventory | None) -> Spoilt:
    """Return what a job has written on a device that nobody may use now.

    :param inventory: the final inventory, None if there is none, or it is not stored.
    """
    actions = [i.action for i in job.items if isinstance(i.action, Flash | Program) and (i.restoring or i.state.begun)]
    mine = [a for a in actions if a.accelerator == device]
    accelerator = None if inventory is None else inventory.accelerator(device)
    bad = set()
    for (identity, ref), written in writes_by_place(job).items():
        _, last, action = written[-1]
        component = None if accelerator is None else part_of(accelerator, ref)
        if identity == device and not revokes(action.content) and not shows_last_write(last, action, component, inventory):
            bad.add(ref)
    return Spoilt(
        firmware=any(isinstance(a, Flash) for a in mine),
        places=tuple(sorted({a.ref for a in mine})),
        anew=tuple(sorted(bad)),
    )


def still_to_write(anew: Iterable[Ref], job: Job, inventory: Inventory | None, *, firmware: bool) -> tuple[Ref, ...]:
    """Return what an earlier job has spoilt and this job, which has spoilt something else, has not written well.

    Slots that this job has written well are dropped: once they hold what they held before, no rule says what to write to them,
    so they would never be written again, and the device would stay quarantined.

    :param inventory: the final inventory, None if there is none: then nobody knows.
    :param firmware: firmware was spoilt: what was written by way of it is not known to be good.
    """
    if firmware:
        return tuple(anew)
    last = {place[1]: written[-1] for place, written in writes_by_place(job).items()}
    well = {
        ref
        for ref, (_, item, action) in last.items()
        if isinstance(action, Program) and shows_last_write(item, action, None, inventory)
    }
    return tuple(ref for ref in anew if ref not in well)


def written_anew(
    job: Job,
    device: AcceleratorId,
    *,
    firmware: bool,
    places: Iterable[Ref],
    anew: Iterable[Ref] = (),
    inventory: Inventory | None = None,
) -> frozenset[AcceleratorId]:
    """Like :func:`mended`, by the writes of a job that ended well."""
    return mended(written_well(job), device, firmware=firmware, places=places, anew=anew, inventory=inventory)


def written_well(job: Job) -> tuple[Action, ...]:
    """Return the actions of a job that ended well. Rollbacks do not count."""
    good = (ItemState.DONE, ItemState.STAGED)
    return tuple(i.action for i in job.items if i.state in good and not i.restoring)


def mended(
    writes: Iterable[Action],
    device: AcceleratorId,
    *,
    firmware: bool,
    places: Iterable[Ref],
    anew: Iterable[Ref] = (),
    inventory: Inventory | None = None,
) -> frozenset[AcceleratorId]:
    """Return the devices that these good writes remedy, whatever identity they report now; empty if the writes are not enough.

    :param firmware: firmware was spoilt; then a function alone remedies nothing.
    :param anew: resources that have to be among the writes. A resource that the device does not report any more cannot be:
        firmware that is named after its version, or another card.
    :param inventory: the present inventory. The device, and every device in its place, all have to be written: their identities
        may have changed, and nobody can tell which is which. None: the machine was not read, and all of ``anew`` has to be
        among what one of them was written.
    """
    places, anew = frozenset(places), frozenset(anew)
    kinds = Flash if firmware else Flash | Program
    refs: dict[AcceleratorId, set[Ref]] = {}
    right: dict[AcceleratorId, set[Ref]] = {}
    for action in writes:
        if isinstance(action, Flash | Program):
            refs.setdefault(action.accelerator, set()).add(action.ref)
            if isinstance(action, kinds):
                right.setdefault(action.accelerator, set()).add(action.ref)
    if inventory is None:
        return frozenset(a for a in right if (a == device or not places.isdisjoint(right[a])) and anew <= refs[a])
    there = {a.id: frozenset(_parts(a)) for a in inventory.accelerators}
    suspects = (standing(inventory, places) | {device}).intersection(there)
    good = all(a in right and anew & there[a] <= refs[a] for a in suspects)
    return suspects if good else frozenset()
