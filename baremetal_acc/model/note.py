# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Typed notes of a plan or a verdict, such as which rule demands a version: a closed union with facts only.

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
    """A version or a function that is written to a part of a device, and the rule that demands it.

    :ivar what: the version, or the function.
    """

    subject: Subject
    what: str
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFirst:
    """A version that is written first, since the demanded image may not be written over the running version."""

    subject: Subject
    version: str
    image: str
    over: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoked:
    """A revocation that is written, which cannot be undone."""

    subject: Subject
    component: str | None
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityVersionLowered:
    """A rule allows a lower security version than the running one."""

    subject: Subject
    before: int
    after: int
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NoRestoreImage:
    """There is no image to restore if the write fails."""

    subject: Subject
    image: str


class ForceCause(StrEnum):
    """Why a BMC is told to write an image over any version: the running version is equal, or the image's is lower."""

    EQUAL = 'equal'
    LOWER = 'lower'


@dataclass(frozen=True, slots=True, kw_only=True)
class Forced:
    """An image is sent with ForceUpdate."""

    subject: Subject
    cause: ForceCause


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenForCustody:
    """A card is written whatever version it shows, since its chain of custody does not hold.

    :ivar at: when the chain was judged.
    """

    custody: CardCustody
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundOpen:
    """A card is written whatever version it shows, since a lock of it that we had closed was found open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedSince:
    """A card is quarantined.

    :ivar ended: the plan ends the quarantine: it writes what a failed write has spoilt.
    :ivar firmware: firmware was spoilt, so that programming alone does not end the quarantine.
    """

    at: datetime
    ended: bool
    firmware: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownFromNextStart:
    """A BMC does not show activated firmware that runs from the next start of the host on."""

    subject: Subject


# ------------------------------------------------------------------------------------------------------------------ bundles


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftByBundle:
    """A component has the version of the bundle already."""

    subject: Subject
    bundle: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenByBundle:
    """A bundle writes a component for which no rule demands a version.

    :ivar again: the component has that version already, and the bundle is forced.
    """

    subject: Subject
    bundle: str
    version: str
    again: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleSent:
    """How a bundle is sent, and how many components it changes.

    :ivar targets: None: sent without Targets.
    :ivar change: number of components that change; ``again`` are written again, ``left`` are left as they are.
    """

    bundle: str
    targets: tuple[str, ...] | None
    change: int
    again: int
    left: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleHoldsMore:
    """Components of a bundle for which the BMC reports no card, each with its version."""

    bundle: str
    parts: tuple[tuple[str | None, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleIfItFails:
    """What is done where a component of a bundle fails.

    :ivar alone: the image is sent again to the failed component alone; otherwise the whole bundle is sent again.
    :ivar older: the bundle that is restored; None where there is none.
    """

    bundle: str
    alone: bool
    older: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownByName:
    """Components of a bundle are found by the name of the SoftwareInventory alone, not by its SoftwareId."""

    bundle: str
    components: tuple[str, ...]


# ---------------------------------------------------------------------------------------------------------- rules and locks


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOpen:
    """A write path stays open by a waiver."""

    waived: Waived


@dataclass(frozen=True, slots=True, kw_only=True)
class LessThanDefault:
    """A relaxation: a rule demands less than the default for a tenant's machine.

    :ivar cards: the labels of the cards that it is for, where it is not for all.
    """

    relaxation: Relaxation
    cards: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LockLeft:
    """An unlock leaves a lock as it is.

    :ivar paths: the write paths that it blocks, which no rule wants blocked; empty where we have closed nothing of the lock.
    """

    mechanism: str
    ref: Ref
    state: LockState
    paths: tuple[WritePath, ...] = ()


# ------------------------------------------------------------------------------------------------------ the target as a whole


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingToDo:
    """The plan has no action.

    :ivar unmet: a demand does not hold all the same.
    """

    unmet: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NotMended:
    """A finding that no action of the plan mends."""

    subject: Subject
    fact: Fact
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitsForUpdate:
    """A BMC works on an update already, and the job waits for that update before it changes anything.

    :ivar message: the message of the error about the update.
    """

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerCordPulled:
    """The job waits until somebody pulls the power cord of a System."""

    system: Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOff:
    """The host is left powered off, since cards are quarantined: label and identity of each card."""

    cards: tuple[tuple[str, AcceleratorId], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MayHideCardsWhileOff:
    """Only once the host is off is it seen whether the BMC still shows the cards."""


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
    """A remark for the reader of a plan, such as the rule that decided.

    :ivar label: label of the device, the lock, the BMC or the target that the note is about.
    """

    label: str
    content: Content
