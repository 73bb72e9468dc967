# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Decide which devices are quarantined, and what ends a quarantine: the same for the command line and for Ironic.

A device whose last write did not end as it should, and that could not be restored either, is quarantined: it is not available
in placement, and no verification passes. The versions that it shows are not trusted: every job that writes firmware or
functions writes the device again, even if it seems to meet the baseline. The quarantine ends when such a write, and everything
else in the job, has ended well, or when no device is found in its place any more. A card that reports another identity in the
same place stays quarantined; so does a new card there, until it was written once. Where two cards have changed places, so that
either may be the spoilt one, both are written.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime

from baremetal_acc.model.action import Action
from baremetal_acc.model.interference import Interference
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import Job
from baremetal_acc.model.quarantine import Quarantine
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.planning import quarantine_writes, write_outcomes


def suspects(quarantined: Iterable[Quarantine], inventory: Inventory) -> frozenset[AcceleratorId]:
    """Return the devices that are quarantined, and those in the place of one of them, under whatever identity."""
    quarantined = tuple(quarantined)
    places = {ref for q in quarantined for ref in q.refs}
    return quarantine_writes.standing(inventory, places) | {q.device for q in quarantined}


def still_there(quarantined: Iterable[Quarantine], inventory: Inventory) -> tuple[Quarantine, ...]:
    """Return the quarantines of devices in whose place there still is a device; all others were taken out."""
    there = {a.id for a in inventory.accelerators}
    return tuple(q for q in quarantined if not there.isdisjoint(suspects([q], inventory)))


def after(
    quarantined: Iterable[Quarantine],
    job: Job,
    inventory: Inventory | None,
    now: datetime,
    is_well: Callable[[frozenset[AcceleratorId]], bool],
) -> tuple[Quarantine, ...]:
    """Return the quarantines after a job: with the devices that it left unusable, and without those that it has repaired.

    :param inventory: of the final inspection, None if there was none.
    :param is_well: whether devices that a job has written are as they should be after it.
    """
    kept = [q for q in quarantined if not ((written := written_well(q, job, inventory)) and is_well(written))]
    new = _left(job, inventory, now)
    again = {(q.device, q.firmware) for q in new}
    kept = [
        replace(q, anew=quarantine_writes.still_to_write(q.anew, job, inventory, firmware=q.firmware))
        if (q.device, q.firmware) in again
        else q
        for q in kept
    ]
    return joined(kept, new)


def joined(before: Iterable[Quarantine], new: Iterable[Quarantine]) -> tuple[Quarantine, ...]:
    """Join quarantines: of one device at most one for its firmware, and one for its functions.

    What ends the one does not end the other, and what was spoilt before still has to be repaired.
    """
    found: dict[tuple[AcceleratorId, bool], Quarantine] = {}
    for one in (*before, *new):
        key = (one.device, one.firmware)
        found[key] = _with_earlier(one, found[key]) if key in found else one
    return tuple(found.values())


def with_interferences(before: Iterable[Quarantine], found: Iterable[Interference]) -> tuple[Quarantine, ...]:
    """Add a quarantine for each card that somebody else may have written, if its firmware is not quarantined already."""
    known = {(q.device, q.firmware): q for q in before}
    for one in found:
        for card in sorted(one.accelerators):
            known.setdefault((card, True), Quarantine(device=card, since=one.at, why=f'{one}: {card} is quarantined'))
    return tuple(known.values())


def _with_earlier(one: Quarantine, earlier: Quarantine) -> Quarantine:
    left = quarantine_writes.Spoilt(firmware=one.firmware, places=one.refs, anew=one.anew).beside(earlier.refs, earlier.anew)
    return replace(one, refs=left.places, anew=left.anew)


def _left(job: Job, inventory: Inventory | None, now: datetime) -> tuple[Quarantine, ...]:
    """Return the quarantines of devices that a job has left unusable, each with the sentences that name the device."""
    # A job that has had its final inspection, and whose shell died after it, is judged already.
    judged = inventory is None and job.verdict is not None
    unusable = () if judged else write_outcomes.judge(job, inventory).unusable
    found = []
    for device in dict.fromkeys((*job.quarantined, *(device for device, _ in unusable))):
        told = _stored_sentences(job, device) if judged else [sentence for one, sentence in unusable if one == device]
        why = ' '.join(told) or f'{device} is quarantined'
        left = quarantine_writes.spoilt(job, device, inventory)
        found.append(Quarantine(device=device, since=now, why=why, firmware=left.firmware, refs=left.places, anew=left.anew))
    return tuple(found)


def _stored_sentences(job: Job, device: AcceleratorId) -> list[str]:
    """Return those of a job's stored reasons that say that a device is quarantined, by its label or not."""
    heads = (f'{device} is quarantined: ', f'({device}) is quarantined: ')
    return [reason for reason in job.reasons if any(head in reason for head in heads)]


def unmended(quarantined: Iterable[Quarantine], job: Job, inventory: Inventory) -> frozenset[AcceleratorId]:
    """Return the devices of an inventory that are quarantined, and that a job has not written well."""
    left = [q for q in quarantined if not written_well(q, job, inventory)]
    return suspects(left, inventory).intersection(a.id for a in inventory.accelerators)


def written_well(one: Quarantine, job: Job, inventory: Inventory | None) -> frozenset[AcceleratorId]:
    """Return the devices in the place of a quarantined one, if a job has written well what was spoilt of it."""
    return mended(one, quarantine_writes.written_well(job), inventory)


def mended(one: Quarantine, writes: Iterable[Action], inventory: Inventory | None) -> frozenset[AcceleratorId]:
    """As :func:`written_well`, for given writes that have ended well."""
    return quarantine_writes.mended(
        writes, one.device, firmware=one.firmware, places=one.refs, anew=one.anew, inventory=inventory
    )
