# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The plugin's state of a node, in types; :mod:`baremetal_acc_ironic.state.node_store` loads and stores it."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import ClassVar

from baremetal_acc.execution.lifecycle import Remembered
from baremetal_acc.model.attach import Attached
from baremetal_acc.model.custody import NO_CUSTODY, Custody
from baremetal_acc.model.interference import HeldOff
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import Flow
from baremetal_acc.model.lock import Engagement, LockUndoRecord, Scope
from baremetal_acc.model.ref import AcceleratorId, Ref
from baremetal_acc.model.verdict import VerdictEnd
from baremetal_acc.model.waiver import Waiver
from baremetal_acc.model.watched_resource import WatchedResource
from baremetal_acc.planning.watch_alarms import Alarm
from baremetal_acc.policy.baseline_rules import Exposure
from baremetal_acc.scheduling.denied_devices import WithheldDevice
from baremetal_acc.scheduling.regions import Regions
from baremetal_acc.scheduling.schedulable import Place, slots
from baremetal_acc_ironic.authorization.requester import RequestContext

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A mark: locks are open, or may be. It fails every verification until all locks are engaged again.

    :ivar since: when they were opened, or found open.
    :ivar why: who has opened them, or which failure.
    :ivar held_off: the hosts that were left off with these locks open, as they were when they were read as off.
    :ivar accelerators: the cards that were not known to be locked then.
    :ivar found: no step has opened the locks; a step that wanted them closed has found them open.
    :ivar started: the operator's ramdisk ran on the host, or an operator allowed its start, and the host was not read as off
        since.
    """

    since: datetime
    why: str
    held_off: tuple[HeldOff, ...] = ()
    accelerators: frozenset[AcceleratorId] = frozenset()
    found: bool = False
    started: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """Functions that a program step asked for; they come before the baseline's until the node comes back.

    :ivar functions: pairs of a pattern over SlotIds and a function, in order of precedence, the baseline's own among them.
    """

    device: AcceleratorId
    functions: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """A waiver that a step has given for the node; it holds until the node comes back, and no longer than it says itself.

    :ivar devices: the devices that it is for; empty: all of the node.
    """

    waiver: Waiver
    since: datetime
    devices: frozenset[AcceleratorId] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedState:
    """The drift that was reported last.

    :ivar since: when the inventory read began that this one was compared with.
    :ivar by: the step that read, or ``inspection``.
    :ivar more: how many changes there were besides these.
    """

    STORED_NAME: ClassVar = 'Told'

    at: datetime
    since: datetime
    by: str
    changes: tuple[str, ...]
    more: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What the watch knows of a deployed node.

    :ivar lifecycle: lifecycle of the node that this is about; in any other it does not count.
    :ivar looked: when the last full inventory read began; None: there was none yet, so the first one is still due.
    :ivar witnesses: the resources that a round rereads; none while there are alarms, for then each round reads everything.
    :ivar alarms: what is not as it was handed over.
    """

    lifecycle: int
    looked: datetime | None
    witnesses: tuple[WatchedResource, ...] = ()
    alarms: tuple[Alarm, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptInventory:
    """A hand-over certificate of the node, and where else it is stored.

    :ivar lifecycle: of the node while it is handed over, as of :attr:`NodeState.lifecycle`.
    :ivar name: of the node when the certificate was issued.
    :ivar key: name of the key that it is signed with; ``digest`` is that of the signed bytes.
    :ivar where: the other places where it is stored.
    :ivar packed: the signed bytes, compressed and in base64; None where only the other places have them.
    :ivar superseded: the node has come back since; ``away``: the other places are marked so, too.
    """

    STORED_NAME: ClassVar = 'Kept'

    lifecycle: int
    deployment: str
    name: str
    issued: datetime
    key: str
    digest: str
    where: tuple[str, ...]
    packed: str | None
    superseded: bool = False
    away: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredVerdict:
    """What is known of the verdict that was stored last in Ironic's inspection data.

    :ivar digest: of our part of the inspection data, as :func:`baremetal_acc_ironic.reporting.record.digest_of` computes it.
    :ivar lifecycle: lifecycle of the node that the verdict is about; ``at``: when it was stored.
    :ivar exposed: the cards that were exposed then; ``opened``: there was a mark then that locks are open.
    :ivar ended: why it does not describe the node any more; ``ended_at``: since when.
    :ivar marked: the inspection data say so, too.
    """

    digest: str
    lifecycle: int
    at: datetime
    exposed: frozenset[AcceleratorId] = frozenset()
    opened: bool = False
    ended: VerdictEnd | None = None
    ended_at: datetime | None = None
    marked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawn:
    """Nothing of a node is available in placement; what is claimed of it is wholly reserved.

    :ivar doubtful: publishing it again had begun, so that some of it may be available.
    """

    since: datetime
    why: str
    doubtful: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StartAllowed:
    """An operator's permission to start the host of a free node although nothing is proven.

    :ivar by: who has given it, for people.
    :ivar until: when it ends; it ends with the next automated cleaning or deploy at the latest.
    :ivar vouched: the operator answers for what boots; else the next cleaning writes the cards again once the host was started.
    """

    since: datetime
    until: datetime
    by: str
    why: str
    vouched: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawals:
    """What of a node is withdrawn from placement, and which of its slots a tenant has had.

    :ivar used: slots that a tenant has had, and that were not programmed since.
    :ivar unsorted: a tenant has had the node, and its slots were not read since.
    :ivar withdrawn: None: what is verified is available in placement, or nothing was published yet.
    """

    STORED_NAME: ClassVar = 'Shelf'

    used: frozenset[Place] = frozenset()
    unsorted: bool = False
    withdrawn: Withdrawn | None = None

    def had(self, inventory: Inventory) -> 'Withdrawals':
        """Return it with all slots of an inventory among those that a tenant has had."""
        return replace(self, used=self.used | slots(inventory), unsorted=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState(Remembered):
    """Our stored state of a node, besides what is stored for every target.

    :ivar lifecycle: raised when the node is handed over and when it comes back; evidence of another value does not count.
    :ivar handed_over: somebody else's code may have run since.
    :ivar ending: an undeploy has begun since then: what was proven, waived or asked for counts no longer than that lasts, even
        if the node is active again.
    :ivar asked: who has begun the flow that the node is in, or was in last.
    :ivar job: the one that runs, or that has just ended and whose step has not been left yet.
    :ivar unplanned: the job still waits for the host to be off, or for what a BMC was doing before; its plan is made then.
    :ivar evidence: records of locks that we engaged.
    :ivar opened: the mark that locks are open; None: they are not, as far as we know.
    :ivar overrides: functions that program steps asked for.
    :ivar waivers: those that a step has given until the node comes back.
    :ivar exposure: what rules go by, whatever ``driver_info`` says now; None until an operator has accepted one.
    :ivar resource_class: what rules go by, whatever the node shows now; empty: none; None until an operator has accepted one.
    :ivar taken: traits that rules go by besides ours, whatever the node shows now; None until an operator has accepted them.
    :ivar ramdisk: digest of what ``driver_info`` said of Ironic's ramdisk when an operator accepted it last; None: never.
    :ivar bmcs: the same of the addresses of the node's BMCs.
    :ivar owned: a flow or periodic of ours has met the node with an owner; ``leased``: with a lessee.
    :ivar digest: of the last inventory that was stored.
    :ivar looked: when Ironic's own tables were last updated to the cards.
    :ivar traits: those of the node that we set, and may remove again.
    :ivar certificate: the last one that was issued.
    :ivar seen: the inventory that the next read is compared with, packed
        (:func:`~baremetal_acc_ironic.state.node_store.last_look` unpacks it).
    :ivar drift: the drift that was reported last.
    :ivar unseen: digest of what the last read could not see, so that it is reported once.
    :ivar handed: how the node was handed over, packed
        (:func:`~baremetal_acc_ironic.state.node_store.handed_over` unpacks it), until it has come back and was compared.
    :ivar watched: what the watch knows; None before its first read after the hand-over.
    :ivar exposed: devices whose locks were open, or that were written, while the node was deployed, or that somebody else may
        have written during a job: they are written again, whatever they report, or not used.
    :ivar anew: what cleaning writes whatever it reports: these, and devices that were handed over open and have images. It
        lasts until the whole path has written them, however often the node is handed over meanwhile.
    :ivar regions: what the node's slots were found to hold, and can be given; None: it has none, or was not read yet.
    :ivar shelf: what of it is withdrawn from placement, and which slots a tenant has had.
    :ivar attached: accelerators that an instance has got, or was to get, until cleaning has restored them.
    :ivar undos: what we have locked, for the step that unlocks. While there is a job, the job's record counts.
    :ivar proven: when the locks that the rules demand were last proven closed for the present deployment of the node; None:
        they were not, and nothing of Ironic starts the host for whoever has the node.
    :ivar start_allowed: an operator has allowed the host to be started all the same.
    :ivar custody: of its cards, as far as it reaches. While there is a job, the job's record counts.
    :ivar untended: alarms of an unused node, until a watch round finds them over.
    :ivar verdict: the verdict that was stored last in the inspection data; None: none was.
    :ivar denied: devices that are withheld from placement since the deny list of the catalogue means what they run.
    """

    STORED_NAME: ClassVar = 'Memory'

    format: int = FORMAT
    handed_over: bool = False
    ending: bool = False
    asked: RequestContext | None = None
    unplanned: bool = False
    evidence: tuple[Engagement, ...] = ()
    opened: Opened | None = None
    overrides: tuple[Override, ...] = ()
    waivers: tuple[Granted, ...] = ()
    exposure: Exposure | None = None
    resource_class: str | None = None
    taken: frozenset[str] | None = None
    ramdisk: str | None = None
    bmcs: str | None = None
    owned: bool = False
    leased: bool = False
    digest: str | None = None
    looked: datetime | None = None
    traits: frozenset[str] = frozenset()
    certificate: KeptInventory | None = None
    seen: str | None = None
    drift: ReportedState | None = None
    unseen: str | None = None
    handed: str | None = None
    watched: Watched | None = None
    exposed: frozenset[AcceleratorId] = frozenset()
    regions: Regions | None = None
    shelf: Withdrawals = Withdrawals()
    attached: Attached | None = None
    undos: tuple[LockUndoRecord, ...] = ()
    proven: datetime | None = None
    start_allowed: StartAllowed | None = None
    custody: Custody = NO_CUSTODY
    untended: tuple[Alarm, ...] = ()
    verdict: StoredVerdict | None = None
    denied: tuple[WithheldDevice, ...] = ()

    @property
    def verdict_end(self) -> VerdictEnd | None:
        """Why the stored verdict does not describe the node any more; None: it does, or there is none."""
        known = self.verdict
        if known is None or known.ended is not None:
            return None if known is None else known.ended
        if self.lifecycle != known.lifecycle:
            return VerdictEnd.HANDED_OVER if self.handed_over else VerdictEnd.RETURNED
        if self.writing:
            return VerdictEnd.WRITTEN
        if self.exposed - known.exposed:
            return VerdictEnd.EXPOSED
        if self.opened is not None and not known.opened:
            return VerdictEnd.OPENED
        alarms = (*self.untended, *(() if self.watched is None else self.watched.alarms))
        return VerdictEnd.ALARM if any(a.told and a.since > known.at for a in alarms) else None

    @property
    def writing(self) -> bool:
        """Whether a job is between its first write and its end."""
        return self.job is not None and self.job.writing

    def came_back(self) -> 'NodeState':
        """Return the state of a node that has come back: nothing that was proven or asked for before counts any more."""
        return replace(
            self,
            lifecycle=self.lifecycle + 1,
            handed_over=False,
            ending=False,
            evidence=(),
            overrides=(),
            waivers=(),
            watched=None,
            proven=None,
            shelf=replace(self.shelf, unsorted=True),
        )

    def without_rights(self) -> 'NodeState':
        """Return the state of a node whose deployment is over, without what was proven, waived or asked for in it.

        The rest of what was known of the deployment stays until the node has come back.
        """
        return replace(self, proven=None) if not self.handed_over else replace(self, proven=None, overrides=(), waivers=())

    def given_away(self, now: datetime) -> 'NodeState':
        """Return the state of a node that is handed over: what was proven for it counts for no other deployment."""
        return replace(
            self, lifecycle=self.lifecycle + 1, handed_over=True, ending=False, watched=None, proven=now, start_allowed=None
        )

    def proven_by(self, engagements: Iterable[Engagement]) -> 'NodeState':
        """Return the state with further evidence; a newer record of a place replaces an older one of the same card.

        Several cards may share one place, such as a root of trust, and each of them needs a record of its own.
        """
        new = tuple(engagements)
        places = {_proves(e) for e in new}
        return replace(self, evidence=(*(e for e in self.evidence if _proves(e) not in places), *new))

    def with_custody(self, kept: Custody) -> 'NodeState':
        """Return the state with this custody of its cards; a job that has not ended holds it, too, and its copy is stored."""
        job = self.job
        return replace(self, custody=kept, job=job if job is None or job.ended else replace(job, custody=kept))

    def without_evidence_of(self, flow: Flow) -> 'NodeState':
        """Return the state without what was engaged in one flow."""
        return replace(self, evidence=tuple(e for e in self.evidence if e.flow != flow))


def _proves(e: Engagement) -> tuple[tuple[str, Ref, str], AcceleratorId | None]:
    """What a lock record is about. A lock of a whole machine is engaged once for all of its cards."""
    return (e.place, None if e.scope is Scope.BMC else e.accelerator)


def settled_before(state: NodeState) -> bool:
    """Whether an earlier version, which accepted no traits, has run a step on the node.

    The first step has always accepted the class.
    """
    return state.taken is None and state.resource_class is not None
