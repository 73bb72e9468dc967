# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A job: a plan under execution as it is stored between turns, and the outcome of a turn."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from baremetal_acc.model.action import Engage, Flash, Program, Release, Reset, SetCardSetting
from baremetal_acc.model.custody import NO_CUSTODY, Custody
from baremetal_acc.model.interference import HeldOff, Interference
from baremetal_acc.model.job_item import Item
from baremetal_acc.model.lock import Engagement, LockUndoRecord
from baremetal_acc.model.login_refusal import LoginRefusal
from baremetal_acc.model.ref import AcceleratorId, BmcName, Ref
from baremetal_acc.model.verdict import Verdict

FORMAT = 1
"""Format version of a stored job. A job of another format is not resumed."""


class Flow(StrEnum):
    """The flow that runs a job: one of Ironic's flows, or the command line."""

    CLEAN = 'clean'
    DEPLOY = 'deploy'
    SERVICE = 'service'
    CLI = 'cli'


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A plan under execution, as it is stored between turns.

    :ivar node: UUID of the node; on the command line the name of the target.
    :ivar step: the step or verb that began the job, with its position among the flow's steps where there is one.
    :ivar lifecycle: lifecycle of the node when the job began; a job of another lifecycle is never resumed.
    :ivar parallel: how many updates each BMC takes at once; 1 where a BMC is not named.
    :ivar requester: who requested the job, as far as it is known.
    :ivar demands_met: the final verdict must be met, or else the job fails (``verify`` and everything that writes).
    :ivar deadline: after it the job fails, whatever it waits for.
    :ivar engagements: locks engaged so far, the evidence for the verdict.
    :ivar undos: what we have closed, in this job or before it, so that it can be opened again.
    :ivar reasons: why the job failed; a job with reasons ends as Failed, after everything was locked again.
    :ivar second: the stages run a second time, to restore what only the final read found wrong. There is no third time.
    :ivar quarantined: devices that nobody may use: a write failed, and the earlier firmware or function could not be restored.
        ``reasons`` names them.
    :ivar bmcs: the address of each BMC at the first turn of the job: at another address it is another machine. Empty in jobs
        that were stored by releases without this field.
    :ivar off_since: when the end of the job first requested that a host that must not run is powered off, UTC.
    :ivar turned_away: BMCs that refuse our credentials, and that are not asked again before their back-off has ended.
    :ivar held_off: the hosts that the job holds off, as they were first read off.
    :ivar left_on: the hosts that the job leaves on, since they run the operator's ramdisk, with the time of their last reset.
    :ivar shut: cards whose demanded paths were proven closed when the job began, and were not found open since then.
    :ivar interferences: interference by somebody else that the job has met. A job with any of them has failed.
    :ivar custody: the custody of the machine's cards, up to the job's last reading.
    :ivar wholly: cards of which the job writes every part that the rules name, so that a new chain of custody can begin.
    """

    id: str
    target: str
    node: str
    flow: Flow
    step: str
    lifecycle: int
    created: datetime
    deadline: datetime
    items: tuple[Item, ...]
    parallel: tuple[tuple[BmcName, int], ...] = ()
    demands_met: bool = True
    requester: str | None = None
    format: int = FORMAT
    engagements: tuple[Engagement, ...] = ()
    undos: tuple[LockUndoRecord, ...] = ()
    reasons: tuple[str, ...] = ()
    verdict: Verdict | None = None
    ended: bool = False
    second: bool = False
    quarantined: tuple[AcceleratorId, ...] = ()
    bmcs: tuple[tuple[BmcName, str], ...] = ()
    off_since: datetime | None = None
    turned_away: tuple[LoginRefusal, ...] = ()
    held_off: tuple[HeldOff, ...] = ()
    left_on: tuple[tuple[Ref, str], ...] = ()
    shut: frozenset[AcceleratorId] = frozenset()
    interferences: tuple[Interference, ...] = ()
    custody: Custody = NO_CUSTODY
    wholly: frozenset[AcceleratorId] = frozenset()

    @property
    def suspect(self) -> frozenset[AcceleratorId]:
        """The cards that somebody else may have written during the job: they must be written again before anybody uses them."""
        return frozenset(card for one in self.interferences for card in one.accelerators)

    @property
    def writing(self) -> bool:
        """Whether something was written or is about to be, and the job has not ended: nobody else may change power or cards."""
        return not self.ended and any(
            i.state.begun and isinstance(i.action, Release | Flash | Program | SetCardSetting | Reset | Engage)
            for i in self.items
        )

    @property
    def opened(self) -> bool:
        """Whether a lock was released or an image sent, or may have been."""
        return any(i.state.begun and isinstance(i.action, Release | Flash | Program) for i in self.items)

    @property
    def sent_to(self) -> frozenset[BmcName]:
        """The BMCs that an image was sent to, or may have been, including restore images."""
        return frozenset(i.action.ref.bmc for i in self.items if i.state.begun and isinstance(i.action, Flash | Program))

    @property
    def devices(self) -> frozenset[AcceleratorId]:
        """The devices that the job's actions are for: they were there when the plan was made."""
        kinds = Release | Flash | Program | SetCardSetting | Engage
        return frozenset(i.action.accelerator for i in self.items if isinstance(i.action, kinds))


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The job has ended, and every demand holds."""

    verdict: Verdict | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """The job has not ended: run its next turn after the delay.

    :ivar doing: one line for people: the present activity.
    """

    delay: timedelta
    doing: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The job has ended, and a demand does not hold.

    :ivar wrote: whether anything was written to a device.
    :ivar quarantined: devices that nobody may use: a write failed, and the earlier firmware or function could not be restored.
    :ivar interferences: interference by somebody else that the job has met.
    """

    reasons: tuple[str, ...]
    wrote: bool
    verdict: Verdict | None = None
    quarantined: tuple[AcceleratorId, ...] = ()
    interferences: tuple[Interference, ...] = ()


Outcome = Done | Wait | Failed

__all__ = ['FORMAT', 'Done', 'Failed', 'Flow', 'Job', 'Outcome', 'Wait']
