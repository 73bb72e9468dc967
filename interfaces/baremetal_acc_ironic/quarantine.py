# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which devices may nobody use, how is that told, and what ends it?

A device whose last write did not end as it should, and that could not be put back either, is quarantined: its node goes to
maintenance, nothing of it is offered, and no verification passes. What it shows is believed by nobody: every job that writes
firmware or functions writes it anew, though it seems to be as the baseline wants it. The quarantine ends when such a write, and
all else of the job, has ended well, or when cleaning finds that nothing stands in its place any more. A card that gives itself
another name in its place stays quarantined; so does a new one, until it was written once. Where two cards may be the one that
was spoilt, since they have changed their places, both are written.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

from baremetal_acc.decide import restore
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import Action, Finding, Flow, Job, Met, Verdict
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.model.subject import QUARANTINE
from baremetal_acc_ironic.node import Memory, Quarantine

WAY_BACK = {
    Flow.CLEAN: 'clear maintenance, manage, and provide or clean the node',
    Flow.DEPLOY: 'clear maintenance and undeploy the node',
    Flow.SERVICE: 'clear maintenance, and service the node with update_accelerator_firmware, or undeploy it',
}

_REASON_CHARACTERS = 2000


def suspects(quarantined: Iterable[Quarantine], inventory: Inventory) -> frozenset[AcceleratorId]:
    """The devices that are quarantined, and those of an inventory that stand in the place of one, under whatever identity."""
    quarantined = tuple(quarantined)
    places = {ref for q in quarantined for ref in q.refs}
    return restore.standing(inventory, places) | {q.device for q in quarantined}


def after(mind: Memory, job: Job, inventory: Inventory | None, now: datetime, *, whole: bool) -> Memory:
    """What is remembered, with the devices that a job left unusable and without those that it has put right.

    :param inventory: the final look, None if there was none.
    :param whole: the job was the whole path, and everything holds; a device that is gone then was taken out.
    """
    kept = [q for q in mind.quarantined if not _put_right(q, job, inventory)]
    if whole and inventory is not None:
        there = {a.id for a in inventory.accelerators}
        kept = [q for q in kept if not there.isdisjoint(suspects([q], inventory))]
    new = _left(job, inventory, now)
    again = {(q.device, q.firmware) for q in new}
    kept = [
        replace(q, anew=restore.still_to_write(q.anew, job, inventory, firmware=q.firmware))
        if (q.device, q.firmware) in again
        else q
        for q in kept
    ]
    return replace(mind, quarantined=joined(kept, new))


def joined(before: Iterable[Quarantine], new: Iterable[Quarantine]) -> tuple[Quarantine, ...]:
    """All of them; of one device no more than one for its firmware, and one for its functions.

    What ends the one does not end the other, and what was spoilt before has still to be mended.
    """
    found: dict[tuple[AcceleratorId, bool], Quarantine] = {}
    for one in (*before, *new):
        key = (one.device, one.firmware)
        found[key] = _with_earlier(one, found[key]) if key in found else one
    return tuple(found.values())


def _with_earlier(one: Quarantine, earlier: Quarantine) -> Quarantine:
    left = restore.Spoilt(firmware=one.firmware, places=one.refs, anew=one.anew).beside(earlier.refs, earlier.anew)
    return replace(one, refs=left.places, anew=left.anew)


def _left(job: Job, inventory: Inventory | None, now: datetime) -> tuple[Quarantine, ...]:
    """The devices that a job has left unusable; each with the sentences that name it."""
    # A job that has had its final look, and whose conductor died after it, is judged already.
    judged = inventory is None and job.verdict is not None
    end = restore.End(restored=(), why=job.reasons, quarantined=job.quarantined) if judged else restore.judge(job, inventory)
    found = []
    for device in dict.fromkeys((*job.quarantined, *end.quarantined)):
        why = ' '.join(w for w in end.why if device in w and 'is quarantined' in w) or f'{device} is quarantined'
        left = restore.spoilt(job, device, inventory)
        found.append(Quarantine(device=device, since=now, why=why, firmware=left.firmware, refs=left.places, anew=left.anew))
    return tuple(found)


def _put_right(one: Quarantine, job: Job, inventory: Inventory | None) -> bool:
    """A job that ended well has written the device, what was spoilt of it, and found it as the baseline wants it."""
    if job.reasons or job.verdict is None:
        return False
    written = _written(one, job, inventory)
    return bool(written) and written.isdisjoint(f.accelerator for f in job.verdict.unmet)


def unmended(mind: Memory, job: Job, inventory: Inventory) -> frozenset[AcceleratorId]:
    """The devices of an inventory that are quarantined, and that a job has not written well."""
    left = [q for q in mind.quarantined if not _written(q, job, inventory)]
    return suspects(left, inventory).intersection(a.id for a in inventory.accelerators)


def _written(one: Quarantine, job: Job, inventory: Inventory | None) -> frozenset[AcceleratorId]:
    """Who stands in the place of a quarantined device, if a job has written well what was spoilt of it."""
    return _mended(one, restore.written_well(job), inventory)


def _mended(one: Quarantine, writes: Iterable[Action], inventory: Inventory | None) -> frozenset[AcceleratorId]:
    """As :func:`_written`, if these are written well."""
    return restore.mended(writes, one.device, firmware=one.firmware, places=one.refs, anew=one.anew, inventory=inventory)


def maintain(node: Any, quarantined: Iterable[Quarantine], flow: Flow) -> None:
    """Nobody shall use the node. The caller saves it; Ironic's own handlers add the fault where they have one."""
    sentences = ' '.join(dict.fromkeys(q.why for q in quarantined))
    if len(sentences) > _REASON_CHARACTERS:
        sentences = sentences[:_REASON_CHARACTERS] + '...'
    way = WAY_BACK.get(flow, WAY_BACK[Flow.CLEAN])
    ends = 'cleaning takes the quarantine away once it has written the device anew and everything is at the baseline'
    text = f'{sentences} (then {way}: {ends})'
    others = node.maintenance_reason if node.maintenance else None
    node.maintenance_reason = text if not others or others == text else f'{text}; before that: {others[:_REASON_CHARACTERS]}'
    node.maintenance = True


def reasons(mind: Memory) -> list[str]:
    """Why no verification passes."""
    return [f'{q.device} is quarantined since {q.since:%Y-%m-%d %H:%M:%S} UTC: {q.why}' for q in mind.quarantined]


def still_bad(mind: Memory, inventory: Inventory) -> frozenset[AcceleratorId]:
    """What a job does not offer, though it may hold: what is quarantined, and not mended by what that very job writes."""
    writes = () if mind.job is None else tuple(i.action for i in mind.job.items if not i.restoring)
    return suspects([q for q in mind.quarantined if not _mended(q, writes, inventory)], inventory)


def withheld(verdict: Verdict, devices: frozenset[AcceleratorId]) -> Verdict:
    """The verdict as placement may hear it: a quarantined device offers nothing, whatever it shows."""
    findings = tuple(
        Finding(
            accelerator=device,
            label=device,
            subject=QUARANTINE,
            expected='none',
            found='quarantined',
            met=Met.NO,
            rule='quarantine',
        )
        for device in sorted(devices)
    )
    return replace(verdict, findings=(*verdict.findings, *findings))
