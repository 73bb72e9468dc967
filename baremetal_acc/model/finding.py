# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Typed facts of verification findings: what the baseline demands and what was found, as a closed union.

:mod:`baremetal_acc.render.findings` makes the sentences. Facts that a refusal has, too, come from
:mod:`baremetal_acc.model.refusal`.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from baremetal_acc.model.accelerator import Function
from baremetal_acc.model.bmc_state import BmcSetting, KeptReason, ShownAccount, ShownCertificate, ShownValue, UnreadSetting
from baremetal_acc.model.card_setting import CardSetting, CardSettingReading, CardSettingResult
from baremetal_acc.model.codec import SPARSE
from baremetal_acc.model.custody import CardCustody, CustodyDemand
from baremetal_acc.model.inventory import Gap
from baremetal_acc.model.lock import Coverage, LockState
from baremetal_acc.model.measurement import Compared, MeasurementReading
from baremetal_acc.model.ref import Ref
from baremetal_acc.model.reference import ReferenceResult
from baremetal_acc.model.refusal import Counted, MayHideDevices, NoAccelerators, RuleUndecided, SharedIdentity, WaiverEnded
from baremetal_acc.model.waiver import Waived


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingText:
    """A fact in words already: a fact of a stored verdict, or one that a shell reports of its own marks and jobs."""

    expected: str
    found: str


# ------------------------------------------------------------------------------------------------------- cards and rules


@dataclass(frozen=True, slots=True, kw_only=True)
class CardMissing:
    """The BMC does not report a card that was there before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleMatchesNothing:
    """A rule matches no device of the target."""

    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CardLeftOut:
    """A rule for single cards does not apply to a card that is identical to others.

    :ivar keys: the keys of the rule that nothing demands of this card; ``differs``: the properties in which the cards differ.
    """

    rule: str
    keys: tuple[str, ...]
    differs: tuple[str, ...]


# ---------------------------------------------------------------------------------------------------- firmware, functions


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionShown:
    """The version that a component shows, or that a revocation has left there.

    :ivar found: None where the BMC does not show the version; ``unread`` is the gap that explains it, where it is known.
    :ivar staged: another version, which takes effect with the next reset.
    :ivar revocation: the demanded revocation that ``expected`` is the version of.
    """

    expected: str
    found: str | None
    unread: Gap | None = None
    staged: str | None = None
    revocation: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoComponent:
    """A version is demanded of a component that the BMC does not report."""

    expected: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Denied:
    """The catalogue denies the version that runs, or is staged."""

    version: str
    denial: str
    is_staged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionDenied:
    """The catalogue denies the function that a slot holds."""

    image: str
    denial: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoRevocation:
    """A demanded revocation fits no component.

    :ivar is_known: the catalogue has the revocation.
    """

    revocation: str
    is_known: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotHolds:
    """The function that a slot holds, where the baseline demands one.

    :ivar held: None where the slot is empty.
    :ivar has_image: the catalogue has an image of the function for this slot.
    :ivar staged: see :class:`VersionShown`.
    """

    function: str
    held: Function | None
    has_image: bool
    staged: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionWithoutSlot:
    """A function is demanded of a slot that the BMC does not report."""

    function: str


# ------------------------------------------------------------------------------------------------- accounts, locks, custody


@dataclass(frozen=True, slots=True, kw_only=True)
class BmcAccounts:
    """The accounts of a BMC, compared with the expected ones.

    :ivar strange: accounts that are not as expected, as :func:`baremetal_acc.policy.accounts.strange` names them.
    :ivar unread: why not all accounts could be read.
    """

    expected: tuple[str, ...]
    strange: tuple[str, ...]
    unread: str | None


class SettingResult(StrEnum):
    """The result of comparing a setting of a BMC with a rule.

    ``absent-accepted``: the BMC does not show it, and the rule accepts that. ``in-use``: it differs, and the operator's ramdisk
    runs on the host, which may have been started by it. ``not-read``: this read did not include it.
    """

    MATCHES = 'matches'
    DIFFERS = 'differs'
    NOT_SHOWN = 'not-shown'
    ABSENT_ACCEPTED = 'absent-accepted'
    UNREAD = 'unread'
    IN_USE = 'in-use'
    NOT_READ = 'not-read'


class AccountFault(StrEnum):
    """What is wrong with an account: no rule names it, its name is not unique, or its role is above its limit."""

    UNEXPECTED = 'unexpected'
    DUPLICATE = 'duplicate'
    ROLE = 'role'


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferingAccount:
    """An account that is not as a rule expects.

    :ivar limit: the highest role that the rule allows, where it limits it.
    """

    account: ShownAccount
    fault: AccountFault
    limit: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferingCertificate:
    """A certificate with another issuer, or with too little time left.

    :ivar days_left: whole days that it is valid for; negative after its end; None where the BMC does not show the end.
    """

    certificate: ShownCertificate
    is_of_issuer: bool
    days_left: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BmcSettingFound:
    """A setting of a BMC, compared with a rule.

    :ivar expected: as :class:`~baremetal_acc.policy.baseline_rules.BmcDemand` has it; ``days_left`` likewise.
    :ivar shown: what was compared, where it is a value.
    :ivar differing: what is not as the rule demands. ``unread``: what could not be read.
    :ivar rests_on_it: the target is read over IPMI itself, so that IPMI over LAN cannot be disabled.
    :ivar kept: why a part of it is not restored although the rule says so.
    """

    setting: BmcSetting
    expected: tuple[str, ...]
    result: SettingResult
    days_left: int | None = None
    shown: tuple[ShownValue, ...] = ()
    differing: tuple[ShownValue | DifferingAccount | DifferingCertificate, ...] = ()
    unread: tuple[UnreadSetting, ...] = ()
    rests_on_it: bool = False
    kept: tuple[KeptReason, ...] = field(default=(), metadata=SPARSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class CardSettingFound:
    """A setting of a card, compared with a rule.

    :ivar readings: the properties by which the result was found; of one that differs, those that differ.
    """

    setting: CardSetting
    expected: str
    result: CardSettingResult
    readings: tuple[CardSettingReading, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PathState:
    """The lock states of a write path.

    :ivar state: the weakest state, where nothing is open.
    :ivar open: the parts that are not in an accepted state.
    :ivar waived: the waiver by which the path may be open; ``vanished``: the waiver does not count, since a mechanism for the
        path was reported before.
    :ivar waivers: waivers that name the path, and do not cover it now.
    """

    accepted: frozenset[LockState]
    state: LockState
    open: tuple[Coverage, ...] = ()
    waived: Waived | None = None
    vanished: bool = False
    waivers: tuple[WaiverEnded, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LockVanished:
    """The BMC does not report a lock any more that we engaged."""

    field: str
    ref: Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainOfCustody:
    """The chain of custody of a card at a given time."""

    demand: CustodyDemand
    custody: CardCustody
    at: datetime


# -------------------------------------------------------------------------------------------------------------- measurements


@dataclass(frozen=True, slots=True, kw_only=True)
class NotMeasured:
    """A device has no signed measurement.

    :ivar asked: True: the device has no root of trust that signs; False: nobody has asked.
    """

    asked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NotProven:
    """A measurement reading of a root of trust that is not proven."""

    reading: MeasurementReading


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyUnknown:
    """It is unknown with which key a reading was signed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyShared:
    """The key that signed the measurements is also the key of another device."""

    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RootShared:
    """A root of trust also signs for other devices, and no other one signs for this device alone."""

    others: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradicted:
    """The signed measurements contradict the versions that the BMC shows, or the reference values of the version they name."""

    compared: tuple[Compared, ...]
    references: tuple[ReferenceResult, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Proven:
    """The signed measurements are proven.

    :ivar compared: components for which the catalogue has measurements.
    :ivar others: how many other devices the same root of trust signs for.
    :ivar references: the versions that the measurements name, compared with the references of the catalogue.
    """

    reading: MeasurementReading
    compared: tuple[Compared, ...]
    others: int
    references: tuple[ReferenceResult, ...] = ()


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
    | BmcSettingFound
    | CardSettingFound
    | PathState
    | LockVanished
    | ChainOfCustody
    | Signed
)
