# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The verdict on a target: which demands of the baseline hold, and what was found."""

from dataclasses import dataclass, field
from enum import StrEnum

from baremetal_acc.model.codec import SPARSE, stored_as
from baremetal_acc.model.finding import Fact, FindingText
from baremetal_acc.model.lock import LockState
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.model.subject import Subject
from baremetal_acc.model.waiver import Relaxation, Waived


class Met(StrEnum):
    """Whether a demand holds. A demand that could not be checked is ``no``."""

    YES = 'yes'
    NO = 'no'


class VerdictEnd(StrEnum):
    """The reason why a stored verdict does not describe the machine any more.

    ``handed-over``: somebody else has the machine since; ``returned``: it has come back since. ``written``: a job has begun to
    write, or to change locks, since. ``opened``: locks were opened, or found open, since. ``exposed``: somebody else may have
    written a card since. ``alarm``: the watch has reported a difference since. ``changed``: a later read has found the cards or
    their locks otherwise. ``unread``: a later verification could not read the machine.
    """

    HANDED_OVER = 'handed-over'
    RETURNED = 'returned'
    WRITTEN = 'written'
    OPENED = 'opened'
    EXPOSED = 'exposed'
    ALARM = 'alarm'
    CHANGED = 'changed'
    UNREAD = 'unread'


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One demand of the baseline, and what was found.

    :ivar rule: name of the rule that demands it.
    :ivar state: for locks: the weakest lock state, which decided.
    :ivar shows_another: the device shows a version or a function, and not the demanded one: only a write mends that.
    """

    accelerator: AcceleratorId | None
    label: str
    subject: Subject
    fact: Fact = field(metadata=stored_as(FindingText))
    met: Met
    rule: str
    state: LockState | None = None
    shows_another: bool = field(default=False, metadata=SPARSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of comparing an inventory with the baseline.

    :ivar waived: paths that are open by a waiver: their demands are met, and they are reported with every verdict.
    :ivar relaxed: demands that are weaker than the default for a tenant's machine.
    """

    target: str
    findings: tuple[Finding, ...]
    waived: tuple[Waived, ...] = ()
    relaxed: tuple[Relaxation, ...] = ()

    @property
    def met(self) -> bool:
        """Whether every demand holds."""
        return all(f.met is Met.YES for f in self.findings)

    @property
    def unmet(self) -> tuple[Finding, ...]:
        """The demands that do not hold."""
        return tuple(f for f in self.findings if f.met is not Met.YES)
