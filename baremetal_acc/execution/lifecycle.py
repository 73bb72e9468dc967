# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Keep what is remembered of a target from job to job, and plan and begin its jobs from that, for command line and Ironic.

This module decides which cards are trusted. The command line and Ironic store what is remembered, each in its own way. What
only one of them needs is not here: arguments and waiting on the command line, provision states, traits and hand-overs in
Ironic.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Self

from baremetal_acc.execution import custody_feed
from baremetal_acc.execution.context import Target, Tools
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.codec import SPARSE
from baremetal_acc.model.custody import Custody
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import Job
from baremetal_acc.model.lock import Engagement, LockState, LockUndoRecord, Way, WritePath
from baremetal_acc.model.plan import Plan
from baremetal_acc.model.quarantine import Quarantine
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.planning import custody_rules, interference, lock_evidence, quarantine, waivers
from baremetal_acc.planning.plan import Part, plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """What every shell remembers of a target.

    :ivar lifecycle: number of the present one; evidence of another lifecycle does not count.
    :ivar job: the last one, ended or not.
    :ivar known: devices that were there when everything was last found as it should be; one that has vanished is not met.
    :ivar blockable: write paths that mechanisms of devices could block when the devices were read: no waiver applies to a
        mechanism that vanishes.
    :ivar ways: the host's ways to its BMCs that were shown when the BMCs were read; one that vanishes may be open.
    :ivar quarantined: devices that nobody may use until they have been repaired.
    :ivar anew: devices that stood open to somebody else: whatever writes firmware writes them, whatever they show.
    """

    lifecycle: int = 1
    job: Job | None = None
    known: frozenset[AcceleratorId] = frozenset()
    blockable: tuple[tuple[AcceleratorId, WritePath, str], ...] = field(default=(), metadata=SPARSE)
    ways: frozenset[Way] = field(default=frozenset(), metadata=SPARSE)
    quarantined: tuple[Quarantine, ...] = ()
    anew: frozenset[AcceleratorId] = field(default=frozenset(), metadata=SPARSE)

    def shown(self, accelerators: Iterable[Accelerator]) -> Self:
        """Add what mechanisms of these devices could block to what was known of devices that must be there."""
        accelerators = tuple(accelerators)
        there = waivers.blockable(accelerators)
        kept = {known for known in self.blockable if known[0] in self.known}
        return replace(self, blockable=tuple(sorted(there | kept)), ways=self.ways | lock_evidence.ways(accelerators))

    def without_shown(self) -> Self:
        """Forget which devices, locks and ways have to be there, so that none that has vanished is missed."""
        return replace(self, known=frozenset(), blockable=(), ways=frozenset())

    def after(self, job: Job, inventory: Inventory | None, now: datetime, *, met: bool, whole: bool) -> Self:
        """Return what is remembered after a job: the devices that it left unusable, and those that must be there from now on.

        A quarantine ends when the job wrote the device well and nothing of it is unmet.

        :param inventory: of the final inspection; None if there was none.
        :param met: everything holds that the job was for.
        :param whole: that is all that the baseline demands. A quarantined device that is not there was taken out.
        """
        unmet = None if job.reasons or job.verdict is None else {f.accelerator for f in job.verdict.unmet}
        left = self.quarantined if inventory is None or not whole else quarantine.still_there(self.quarantined, inventory)
        marks = quarantine.after(left, job, inventory, now, lambda written: unmet is not None and written.isdisjoint(unmet))
        kept = replace(self, quarantined=marks)
        if inventory is None or not met:
            return kept
        there = inventory.accelerators
        return replace(kept, known=self.known | {a.id for a in there}).shown(there)

    def tools(self, tools: Tools) -> Tools:
        """Return tools that report devices, mechanisms and ways that have vanished."""
        return replace(tools, known=self.known, blockable=frozenset(self.blockable), ways=self.ways)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A plan, and the devices that it writes whatever they show.

    :ivar suspects: devices that are quarantined, or that are in the place of one that is.
    :ivar doubted: devices whose custody the rules demand, and does not hold.
    """

    made: Plan
    suspects: frozenset[AcceleratorId]
    doubted: frozenset[AcceleratorId]


def propose(
    kept: Remembered,
    custody: Custody,
    inventory: Inventory,
    target: Target,
    tools: Tools,
    undos: Iterable[LockUndoRecord],
    *,
    parts: frozenset[Part],
    hold: bool,
    only: frozenset[AcceleratorId] | None,
    again: frozenset[AcceleratorId] = frozenset(),
    slots_anew: frozenset[tuple[AcceleratorId, str]] = frozenset(),
    ramdisk: bool = False,
) -> Proposal:
    """Plan from an inspection and from what is remembered: a device that cannot be trusted is written, whatever it shows.

    :param custody: of the cards, after that inspection.
    :param again: further devices that are written whatever they show; ``slots_anew``: slots, by their SlotIds.
    :param ramdisk: a ramdisk was or may be started on the host in this flow.
    """
    node = target.node
    doubted = custody_rules.in_doubt(custody, inventory, tools.baseline, node, inventory.at)
    suspects = quarantine.suspects(kept.quarantined, inventory)
    made = plan(
        inventory,
        tools.baseline,
        node,
        tools.catalogue,
        parts=parts,
        hold=hold,
        only=only,
        again=suspects | doubted | again,
        anew=slots_anew | custody_rules.slots_in_doubt(doubted, inventory, tools.baseline, node),
        spoilt=suspects,
        blockable=tools.blockable,
        undos=tuple(undos),
        ramdisk=ramdisk,
    )
    return Proposal(made=made, suspects=suspects, doubted=doubted)


def begun(job: Job, custody: Custody, made: Plan, inventory: Inventory, target: Target, tools: Tools) -> Job:
    """Return a job with what the inspection that it was planned from shows: the cards that are closed, and their custody."""
    shut = interference.closed(inventory, tools.baseline, target.node)
    return custody_feed.begun_with(replace(job, shut=shut), custody, made, inventory, target, tools)


def stood_open(records: Iterable[Engagement], lifecycle: int, inventory: Inventory) -> frozenset[AcceleratorId]:
    """Return the devices with a lock that we have engaged in this lifecycle and that reads open now.

    A lock that we have released since does not count: releasing it removes its record.
    """
    places = {e.place for e in records if e.lifecycle == lifecycle}
    return frozenset(
        a.id for a in inventory.accelerators for r in a.locks if r.place in places and r.state is LockState.UNLOCKED
    )
