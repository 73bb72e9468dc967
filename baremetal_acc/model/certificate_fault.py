# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Why a hand-over certificate whose signature is good does not hold: one class for each reason.

:mod:`baremetal_acc.render.certificate_faults` puts each into words. ``kind`` names the reason for programs.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from baremetal_acc.model.custody import Strength
from baremetal_acc.model.lock import LockState, WritePath
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.model.waiver import Waived


@dataclass(frozen=True, slots=True, kw_only=True)
class AnotherNode:
    """The certificate is of another node than the expected one; UUIDs, or names of nodes without UUID."""

    kind: ClassVar[str] = 'another-node'
    node: str
    expected: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AnotherInstance:
    """The certificate is of another instance than the expected one; None: of no instance."""

    kind: ClassVar[str] = 'another-instance'
    instance: str | None
    expected: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AnotherLifecycle:
    """The certificate is of another lifecycle of the node than the expected one."""

    kind: ClassVar[str] = 'another-lifecycle'
    lifecycle: int
    expected: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AnotherDeployment:
    """The certificate is of another deployment of the node than the expected one."""

    kind: ClassVar[str] = 'another-deployment'
    deployment: str
    expected: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedInFuture:
    """The certificate was issued later than now."""

    kind: ClassVar[str] = 'issued-in-future'
    issued: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedAtOtherTime:
    """The inspection was after the issue, or too long before it."""

    kind: ClassVar[str] = 'inspected-at-other-time'
    issued: datetime
    looked: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateExpired:
    """The certificate has an end, which has passed."""

    kind: ClassVar[str] = 'expired'
    expires: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class NoAcceleratorListed:
    """The certificate lists no accelerator."""

    kind: ClassVar[str] = 'no-accelerator'


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceleratorListedTwice:
    """The certificate lists an accelerator twice."""

    kind: ClassVar[str] = 'accelerator-twice'


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceleratorNotListed:
    """An accelerator is expected, but not listed."""

    kind: ClassVar[str] = 'accelerator-missing'
    accelerator: AcceleratorId


@dataclass(frozen=True, slots=True, kw_only=True)
class WaiverHasExpired:
    """A waiver that the certificate rests on has expired."""

    kind: ClassVar[str] = 'waiver-expired'
    waiver: Waived


@dataclass(frozen=True, slots=True, kw_only=True)
class OfCard:
    """A reason that is of one card."""

    accelerator: AcceleratorId
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PathNotBlocked(OfCard):
    """A write path must be blocked, and is not proven so."""

    kind: ClassVar[str] = 'path-not-blocked'
    path: WritePath
    rule: str
    state: LockState


@dataclass(frozen=True, slots=True, kw_only=True)
class NoUnbrokenChain(OfCard):
    """A chain of custody is required, and none holds."""

    kind: ClassVar[str] = 'no-custody'
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainEndsEarly(OfCard):
    """A chain of custody is required, and ends before the inspection."""

    kind: ClassVar[str] = 'custody-ends-early'
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainTooWeak(OfCard):
    """A chain of custody must be evidenced, and is not."""

    kind: ClassVar[str] = 'custody-too-weak'
    rule: str
    strength: Strength | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptanceHasExpired(OfCard):
    """The acceptance that a chain of custody begins with has expired."""

    kind: ClassVar[str] = 'acceptance-expired'
    by: tuple[str, ...]
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainIncomplete(OfCard):
    """A chain of custody lacks some of its facts."""

    kind: ClassVar[str] = 'custody-contradicts-itself'


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainHasGap(OfCard):
    """An interval of a chain of custody does not begin where the one before it ended."""

    kind: ClassVar[str] = 'custody-contradicts-itself'
    reached: datetime
    continues: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainReachesElsewhere(OfCard):
    """A chain of custody is said to reach to another time than its intervals do."""

    kind: ClassVar[str] = 'custody-contradicts-itself'
    reached: datetime
    reaches: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainReachesPastIssue(OfCard):
    """A chain of custody reaches past the time at which the certificate was issued."""

    kind: ClassVar[str] = 'custody-contradicts-itself'
    reaches: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainOfOtherStrength(OfCard):
    """A chain of custody is said to have another strength than its intervals."""

    kind: ClassVar[str] = 'custody-contradicts-itself'
    said: Strength
    found: Strength | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainWithoutEvidence(OfCard):
    """A chain of custody begins with a write, and has no interval."""

    kind: ClassVar[str] = 'custody-contradicts-itself'


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptanceWithoutEnd(OfCard):
    """A chain of custody begins with an acceptance, and does not say by whom and until when."""

    kind: ClassVar[str] = 'custody-contradicts-itself'


CardFault = (
    PathNotBlocked
    | NoUnbrokenChain
    | ChainEndsEarly
    | ChainTooWeak
    | AcceptanceHasExpired
    | ChainIncomplete
    | ChainHasGap
    | ChainReachesElsewhere
    | ChainReachesPastIssue
    | ChainOfOtherStrength
    | ChainWithoutEvidence
    | AcceptanceWithoutEnd
)

CertificateFault = (
    AnotherNode
    | AnotherInstance
    | AnotherLifecycle
    | AnotherDeployment
    | IssuedInFuture
    | InspectedAtOtherTime
    | CertificateExpired
    | NoAcceleratorListed
    | AcceleratorListedTwice
    | AcceleratorNotListed
    | WaiverHasExpired
    | CardFault
)
