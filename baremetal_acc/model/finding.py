# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What a demand asks for and what was found, as types: a closed union with facts only.

:mod:`baremetal_acc.render.findings` makes the words. Some facts are those of a refusal as well: they come from
:mod:`baremetal_acc.model.refusal`.
"""

from dataclasses import dataclass
from datetime import datetime

from baremetal_acc.model.accelerator import Function
from baremetal_acc.model.custody import CardCustody, CustodyDemand
from baremetal_acc.model.inventory import Gap
from baremetal_acc.model.lock import Coverage, LockState
from baremetal_acc.model.measurement import Compared, MeasurementReading
from baremetal_acc.model.ref import Ref
from baremetal_acc.model.refusal import Counted, MayHideDevices, NoAccelerators, RuleUndecided, SharedIdentity, WaiverEnded
from baremetal_acc.model.waiver import Waived


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingText:
    """A fact in words already: of a stored verdict, or what a shell says of its own marks and jobs."""

    expected: str
    found: str


# ------------------------------------------------------------------------------------------------------- cards and rules


@dataclass(frozen=True, slots=True, kw_only=True)
class CardMissing:
    """A card that was there before is not shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleMatchesNothing:
    """A rule matches no device here."""

    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CardLeftOut:
    """A rule for single cards is not for an identical card.

    :ivar keys: what nothing demands of the card; ``differs``: by what the cards differ.
    """

    rule: str
    keys: tuple[str, ...]
    differs: tuple[str, ...]


# ---------------------------------------------------------------------------------------------------- firmware, functions


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionShown:
    """The version of a component, or of what a revocation has left there.

    :ivar found: None: the BMC does not show it, because of ``unread`` where that is known.
    :ivar staged: another version that comes in force with the next reset.
    :ivar revocation: the demanded one that ``expected`` is the version of.
    """

    expected: str
    found: str | None
    unread: Gap | None = None
    staged: str | None = None
    revocation: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoComponent:
    """A version is demanded of a component that is not shown."""

    expected: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Denied:
    """The catalogue denies the version that runs, or is staged."""

    version: str
    denial: str
    is_staged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionDenied:
    """The catalogue denies what a slot holds."""

    image: str
    denial: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoRevocation:
    """A demanded revocation fits no component.

    :ivar is_known: the catalogue has it.
    """

    revocation: str
    is_known: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotHolds:
    """What a slot holds, of which a function is demanded.

    :ivar held: None: it is empty.
    :ivar has_image: the catalogue has one of the function for this slot.
    :ivar staged: as of :class:`VersionShown`.
    """

    function: str
    held: Function | None
    has_image: bool
    staged: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionWithoutSlot:
    """A function is demanded of a slot that is not shown."""

    function: str


# ------------------------------------------------------------------------------------------------- accounts, locks, custody


@dataclass(frozen=True, slots=True, kw_only=True)
class BmcAccounts:
    """The accounts of a BMC.

    :ivar strange: those that are not as expected, as :func:`baremetal_acc.decide.accounts.strange` names them.
    :ivar unread: why not all could be read.
    """

    expected: tuple[str, ...]
    strange: tuple[str, ...]
    unread: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PathState:
    """How a write path is blocked.

    :ivar state: the weakest, where nothing is open.
    :ivar open: what is not in an accepted state.
    :ivar waived: by what it may be open; ``vanished``: not any more, since a mechanism for it was shown before.
    :ivar waivers: those that name the path, and do not cover it now.
    """

    accepted: frozenset[LockState]
    state: LockState
    open: tuple[Coverage, ...] = ()
    waived: Waived | None = None
    vanished: bool = False
    waivers: tuple[WaiverEnded, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LockVanished:
    """A lock that we engaged is not shown any more."""

    field: str
    ref: Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainOfCustody:
    """The chain of custody of a card, at a time."""

    demand: CustodyDemand
    custody: CardCustody
    at: datetime


# -------------------------------------------------------------------------------------------------------------- measurements


@dataclass(frozen=True, slots=True, kw_only=True)
class NotMeasured:
    """Nothing was signed for a device.

    :ivar asked: nobody signs for it; else nobody has asked.
    """

    asked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NotProven:
    """A root of trust has proven nothing."""

    reading: MeasurementReading


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyUnknown:
    """It is not known by which key a reading was signed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyShared:
    """The key that signed is that of another device, too."""

    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RootShared:
    """A root of trust signs for other devices, too, and nothing else signs for this one alone."""

    others: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradicted:
    """What was signed is not what versions say."""

    compared: tuple[Compared, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proven:
    """What was signed holds.

    :ivar compared: components that the catalogue has measurements of.
    :ivar others: devices that the same root of trust signs for.
    """

    reading: MeasurementReading
    compared: tuple[Compared, ...]
    others: int


Signed = NotMeasured | NotProven | KeyUnknown | KeyShared | RootShared | Contradicted | Proven

Fact = (
    FindingText
    | NoAccelerators
    | SharedIdentity
    | CardMissing
    | MayHideDevices
    | Counted
    | RuleMatchesNothing
    | RuleUndecided
    | CardLeftOut
    | VersionShown
    | NoComponent
    | Denied
    | FunctionDenied
    | NoRevocation
    | SlotHolds
    | FunctionWithoutSlot
    | BmcAccounts
    | PathState
    | LockVanished
    | ChainOfCustody
    | Signed
)
