# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a machine that is watched, as types: a closed union with facts only.

:mod:`baremetal_acc.render.troubles` makes the sentences.
"""

from dataclasses import dataclass
from datetime import datetime

from baremetal_acc.decide.drift import CardNamed, Change
from baremetal_acc.model.inventory import Gap
from baremetal_acc.model.lock import Coverage, LockReading, WritePath
from baremetal_acc.model.ref import AcceleratorId


@dataclass(frozen=True, slots=True, kw_only=True)
class TroubleText:
    """A fact in words already: of an alarm that is stored."""

    text: str


# -------------------------------------------------------------------------------------------------------------------- locks


@dataclass(frozen=True, slots=True, kw_only=True)
class LockGone:
    """A lock that was closed is not shown; ``gap``: it could not be read."""

    card: CardNamed
    was: LockReading
    gap: Gap | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LockChanged:
    """A lock that was closed is not, by our own records."""

    card: CardNamed
    was: LockReading
    found: LockReading


@dataclass(frozen=True, slots=True, kw_only=True)
class PathOpened:
    """A path that was blocked is not, by something that was not there then."""

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
    """Our own step has opened locks.

    :ivar by: which, as it was kept.
    """

    since: datetime
    by: str


# ---------------------------------------------------------------------------------------------------------------- accounts


@dataclass(frozen=True, slots=True, kw_only=True)
class NotExpected:
    """No rule expects the account that the trouble is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountsUnread:
    """Not all accounts could be read, as the BMC says it."""

    error: str


# ---------------------------------------------------------------------------------------------------------------- the node


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A BMC says nothing."""

    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateUnreadable:
    """The certificate of the hand-over cannot be checked."""

    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class Unloadable:
    """What is remembered of the node cannot be read."""

    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class NotHandedOver:
    """The node is with somebody, and was not handed over by us.

    :ivar state: of the node.
    """

    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NoCertificate:
    """The node is with somebody, and no certificate says how it was handed over."""

    state: str
    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOn:
    """Nobody uses the node, and its host is on beside cards that nothing proves closed.

    :ivar trusted: something was proven of its cards before, or somebody had them.
    """

    state: str
    cards: frozenset[AcceleratorId]
    trusted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOnUnread:
    """Nobody uses the node, its host is on, and nobody can say whether these cards are closed to it."""

    state: str
    cards: frozenset[AcceleratorId]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostUnread:
    """Nobody can say whether the host is off; ``error`` None: its BMC does not tell."""

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
    | Unreadable
    | CertificateUnreadable
    | Unloadable
    | NotHandedOver
    | NoCertificate
    | HostOn
    | HostOnUnread
    | HostUnread
)


# ------------------------------------------------------------------------------------------------- what is not closed again


@dataclass(frozen=True, slots=True, kw_only=True)
class LockNotShown:
    """A lock cannot be closed again, since it is not shown; ``device`` None: it is of the machine."""

    device: AcceleratorId | None
    mechanism: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedsReset:
    """A lock cannot be closed again, since that needs a reset, which is not forced on somebody else's host."""

    card: CardNamed
    lock: LockReading


NotClosed = LockNotShown | NeedsReset
