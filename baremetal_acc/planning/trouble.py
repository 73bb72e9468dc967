# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Define the troubles of a watched machine as types: a closed union that holds facts only.

:mod:`baremetal_acc.render.troubles` makes the sentences.
"""

from dataclasses import dataclass
from datetime import datetime

from baremetal_acc.model.finding import BmcSettingFound, CardSettingFound
from baremetal_acc.model.inventory import Gap
from baremetal_acc.model.inventory_change import CardNamed, Change
from baremetal_acc.model.lock import Coverage, LockReading, WritePath
from baremetal_acc.model.ref import AcceleratorId


@dataclass(frozen=True, slots=True, kw_only=True)
class TroubleText:
    """A fact that is text already: of a stored alarm."""

    text: str


# -------------------------------------------------------------------------------------------------------------------- locks


@dataclass(frozen=True, slots=True, kw_only=True)
class LockGone:
    """A lock that was closed is not shown any more; ``gap``: it could not be read."""

    card: CardNamed
    was: LockReading
    gap: Gap | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LockChanged:
    """A lock that was closed, by our own records, is not closed any more."""

    card: CardNamed
    was: LockReading
    found: LockReading


@dataclass(frozen=True, slots=True, kw_only=True)
class PathOpened:
    """A path that was blocked is open, by a lock or part that was not there then."""

    card: CardNamed
    path: WritePath
    by: Coverage


@dataclass(frozen=True, slots=True, kw_only=True)
class LockOpen:
    """A lock that the rules demand does not read closed."""

    card: CardNamed
    found: LockReading


@dataclass(frozen=True, slots=True, kw_only=True)
class LocksOpened:
    """Our own step has released locks.

    :ivar by: that step, as it was stored.
    """

    since: datetime
    by: str


# ---------------------------------------------------------------------------------------------------------------- accounts


@dataclass(frozen=True, slots=True, kw_only=True)
class NotExpected:
    """No rule expects the BMC account that the trouble is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountsUnread:
    """Not all BMC accounts could be read.

    :ivar error: as the BMC reports it.
    """

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingNotMet:
    """A setting of a BMC or of a card does not meet the rule of that name."""

    found: BmcSettingFound | CardSettingFound
    rule: str


# ---------------------------------------------------------------------------------------------------------------- the node


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A BMC does not answer, or cannot be read."""

    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateUnreadable:
    """The hand-over certificate cannot be checked."""

    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class Unloadable:
    """The stored state of the node cannot be read."""

    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class NotHandedOver:
    """Somebody uses the node, and it was not handed over by us.

    :ivar state: of the node.
    """

    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NoCertificate:
    """Somebody uses the node, and no certificate says how it was handed over."""

    state: str
    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOn:
    """Nobody uses the node, and its host is on although cards are not proven closed to it.

    :ivar trusted: something was proven of its cards before, or somebody had them.
    """

    state: str
    cards: frozenset[AcceleratorId]
    trusted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOnUnread:
    """Nobody uses the node, its host is on, and it cannot be told whether these cards are closed to it."""

    state: str
    cards: frozenset[AcceleratorId]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostUnread:
    """It cannot be told whether the host is off; ``error`` None: its BMC does not tell."""

    state: str
    error: Exception | None


TroubleFact = (
    TroubleText
    | Change
    | LockGone
    | LockChanged
    | PathOpened
    | LockOpen
    | LocksOpened
    | NotExpected
    | AccountsUnread
    | SettingNotMet
    | Unreadable
    | CertificateUnreadable
    | Unloadable
    | NotHandedOver
    | NoCertificate
    | HostOn
    | HostOnUnread
    | HostUnread
)


# ------------------------------------------------------------------------------------------------- locks not engaged again


@dataclass(frozen=True, slots=True, kw_only=True)
class LockNotShown:
    """A lock cannot be engaged again, since it is not shown; ``device`` None: it is a lock of the whole machine."""

    device: AcceleratorId | None
    mechanism: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedsReset:
    """A lock cannot be engaged again, since that needs a reset, which is not forced on somebody else's host."""

    card: CardNamed
    lock: LockReading


NotClosed = LockNotShown | NeedsReset
