# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What a reader of a plan or a verdict should know, as types: a closed union with facts only.

:mod:`baremetal_acc.render.notes` makes the sentences.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from baremetal_acc.model.custody import CardCustody
from baremetal_acc.model.finding import CardLeftOut, Fact, RuleMatchesNothing
from baremetal_acc.model.lock import LockState, WritePath
from baremetal_acc.model.ref import AcceleratorId, Ref
from baremetal_acc.model.subject import Subject
from baremetal_acc.model.waiver import Relaxation, Waived

# --------------------------------------------------------------------------------------------------------- what is written


@dataclass(frozen=True, slots=True, kw_only=True)
class Demanded:
    """What is written to a part of a device, and the rule that demands it.

    :ivar what: a version, or a function.
    """

    subject: Subject
    what: str
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFirst:
    """A version that is written first, since an image may not be written over what runs."""

    subject: Subject
    version: str
    image: str
    over: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoked:
    """A revocation, which cannot be undone."""

    subject: Subject
    component: str | None
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityVersionLowered:
    """A rule allows a lower security version than what runs."""

    subject: Subject
    before: int
    after: int
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NoRestoreImage:
    """There is no way back if a write fails."""

    subject: Subject
    image: str


class ForceCause(StrEnum):
    """Why a BMC is told to write an image whatever version is there: this one is, or a higher one."""

    EQUAL = 'equal'
    LOWER = 'lower'


@dataclass(frozen=True, slots=True, kw_only=True)
class Forced:
    """An image is sent with ForceUpdate."""

    subject: Subject
    cause: ForceCause


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenForCustody:
    """A card is written whatever it shows, since its custody does not hold.

    :ivar at: when it was judged.
    """

    custody: CardCustody
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundOpen:
    """A card is written whatever it shows, for one of its locks that we had closed was found open since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedSince:
    """A card is quarantined.

    :ivar ended: this plan writes what was spoilt.
    :ivar firmware: it was firmware, so that programming alone does not end it.
    """

    at: datetime
    ended: bool
    firmware: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownFromNextStart:
    """A BMC does not show the firmware that was activated and runs from the next start of the host on."""

    subject: Subject


# ------------------------------------------------------------------------------------------------------------------ bundles


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftByBundle:
    """A component has the version of a bundle already."""

    subject: Subject
    bundle: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenByBundle:
    """A bundle writes what no rule asks for.

    :ivar again: it has that version already, and the bundle is forced.
    """

    subject: Subject
    bundle: str
    version: str
    again: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleSent:
    """How a bundle is sent.

    :ivar targets: None: without Targets.
    :ivar change: how many components change; ``again`` are written again, ``left`` are left as they are.
    """

    bundle: str
    targets: tuple[str, ...] | None
    change: int
    again: int
    left: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleHoldsMore:
    """Components of a bundle for which no card is shown: each with its version."""

    bundle: str
    parts: tuple[tuple[str | None, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleIfItFails:
    """What is done where a part of a bundle fails.

    :ivar alone: what has failed is sent again to that component alone; else the whole bundle is.
    :ivar older: the bundle that is restored; None: there is none.
    """

    bundle: str
    alone: bool
    older: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownByName:
    """Components of a bundle are known by the name of the item alone, not by its SoftwareId."""

    bundle: str
    components: tuple[str, ...]


# ---------------------------------------------------------------------------------------------------------- rules and locks


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOpen:
    """A path stays open by a waiver."""

    waived: Waived


@dataclass(frozen=True, slots=True, kw_only=True)
class LessThanDefault:
    """Less is asked than of a tenant's machine by default.

    :ivar cards: the labels of those that it is for, where it is not for all.
    """

    relaxation: Relaxation
    cards: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LockLeft:
    """An unlock leaves a lock as it is.

    :ivar paths: what it blocks, which no rule wants; empty: nothing of it was closed by us.
    """

    mechanism: str
    ref: Ref
    state: LockState
    paths: tuple[WritePath, ...] = ()


# ------------------------------------------------------------------------------------------------------ the target as a whole


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingToDo:
    """Nothing is to be done.

    :ivar unmet: something does not hold.
    """

    unmet: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NotMended:
    """No action of the plan mends a finding: its fields."""

    subject: Subject
    fact: Fact
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitsForUpdate:
    """A BMC works on an update already, and the job waits for it before it changes anything.

    :ivar message: of the error about it.
    """

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerCordPulled:
    """The job waits for somebody who pulls the power cord of a System."""

    system: Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOff:
    """The host is left powered off, since cards are quarantined: label and identity of each."""

    cards: tuple[tuple[str, AcceleratorId], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MayHideCardsWhileOff:
    """Whether the BMC still shows the cards while the host is off is seen only then."""


Content = (
    Demanded
    | StepFirst
    | Revoked
    | SecurityVersionLowered
    | NoRestoreImage
    | Forced
    | WrittenForCustody
    | FoundOpen
    | QuarantinedSince
    | ShownFromNextStart
    | LeftByBundle
    | WrittenByBundle
    | BundleSent
    | BundleHoldsMore
    | BundleIfItFails
    | KnownByName
    | RuleMatchesNothing
    | CardLeftOut
    | LeftOpen
    | LessThanDefault
    | LockLeft
    | NothingToDo
    | NotMended
    | WaitsForUpdate
    | PowerCordPulled
    | LeftOff
    | MayHideCardsWhileOff
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something a reader should know, such as the rule that decided.

    :ivar label: of the device, the lock, the BMC or the target that it is about.
    """

    label: str
    content: Content
