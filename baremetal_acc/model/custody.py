# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The custody of cards: since when nobody else's code can have written a card, and what shows it.

A chain begins with a proven write, a measurement or the word of an operator, and reaches to the last reading of the machine.
Between two readings it has an interval with its evidence. Where there is none, the chain is broken, and only a new beginning
mends that.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from baremetal_acc.model.codec import SPARSE
from baremetal_acc.model.inventory import HostReading
from baremetal_acc.model.ref import AcceleratorId, BmcName, Ref


class Origin(StrEnum):
    """What a chain begins with.

    ``written``: every part of the card that the rules name was written by us, and that was seen. ``measured``: its root of
    trust has signed what it runs, and the catalogue knows it. ``accepted``: an operator answers for what it runs.
    """

    WRITTEN = 'written'
    MEASURED = 'measured'
    ACCEPTED = 'accepted'


class Cover(StrEnum):
    """Why nobody else's code could write the card in an interval.

    ``host-off``: the host was off. ``locked``: every demanded path from the host was closed and proven at both ends.
    ``ramdisk``: only the operator's own ramdisk ran.
    ``several``: older intervals, each covered by one of these, that were joined.
    """

    HOST_OFF = 'host-off'
    LOCKED = 'locked'
    RAMDISK = 'ramdisk'
    SEVERAL = 'several'


class Strength(StrEnum):
    """How well an interval is known: ``polled``: by readings of the power state alone; ``evidenced``: by more than that."""

    POLLED = 'polled'
    EVIDENCED = 'evidenced'


class BreakCause(StrEnum):
    """What broke a chain.

    ``host-ran``: the host ran while a demanded path was open. ``host-unseen``: a demanded path was open, the power of the host
    was not read often enough, and no other source shows that it stayed off. ``path-open`` and ``path-unknown``: a demanded
    path that was closed was found so. ``lock-changed``: a lock is closed otherwise than it was. ``not-seen``: the card was not
    shown. ``exposed``: the card was found changed, or with an open lock, by somebody else. ``foreign-write``: its BMC was
    seen to work on something that is not ours, and that may be a write to the card. ``write-failed``: a write of ours
    did not end well. ``write-unproven``: it did, at a version that the card had before, and nothing shows that it has reached
    the card. ``acceptance-ended``: the word of the operator is over.
    """

    HOST_RAN = 'host-ran'
    HOST_UNSEEN = 'host-unseen'
    PATH_OPEN = 'path-open'
    PATH_UNKNOWN = 'path-unknown'
    LOCK_CHANGED = 'lock-changed'
    NOT_SEEN = 'not-seen'
    EXPOSED = 'exposed'
    FOREIGN_WRITE = 'foreign-write'
    WRITE_FAILED = 'write-failed'
    WRITE_UNPROVEN = 'write-unproven'
    ACCEPTANCE_ENDED = 'acceptance-ended'


class CustodyDemand(StrEnum):
    """What a rule makes of the custody of a card.

    ``reported``: it is recorded and told, and refuses nothing. ``required``: a card whose chain does not hold is written again
    by cleaning, and no node is handed over with it. ``evidenced``: likewise, and no interval may rest on readings of the power
    state alone.
    """

    EVIDENCED = 'evidenced'
    REQUIRED = 'required'
    REPORTED = 'reported'


class Access(StrEnum):
    """Whether the host can write a card, by the paths that the rules want blocked: ``open`` where they name none."""

    CLOSED = 'closed'
    OPEN = 'open'
    UNKNOWN = 'unknown'


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSeen:
    """One System as it was read together with a card.

    :ivar off_since: the first of the readings without a gap that have found it off, UTC; None: this one has not.
    """

    system: Ref
    reading: HostReading
    off_since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CardSeen:
    """What custody needs of one reading of a card.

    :ivar at: when the reading began, UTC.
    :ivar hosts: the Systems whose code may reach the card.
    :ivar locks: those that close demanded paths, sorted: digests of place, part and value, so that another one is another lock,
        or another setting.
    :ivar proven: they were engaged by us and read back, or are as they were then.
    :ivar own_processor: the card has a processor of its own that runs code, and that was not read off.
    :ivar bmcs: those that show the card, and may write it.
    :ivar restarted: the operator's ramdisk ran on the host, which was restarted since: what runs now nobody knows.
    """

    at: datetime
    access: Access
    hosts: tuple[HostSeen, ...] = ()
    locks: tuple[str, ...] = ()
    proven: bool = False
    own_processor: bool = False
    bmcs: frozenset[BmcName] = frozenset()
    restarted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A time in which nobody else's code could write the card.

    :ivar since: ``since`` and ``until`` are times of readings, UTC.
    """

    since: datetime
    until: datetime
    cover: Cover
    strength: Strength


def weakest(intervals: Iterable[Interval]) -> Strength:
    """How well the weakest of these intervals is known; none has no weakness."""
    polled = any(interval.strength is Strength.POLLED for interval in intervals)
    return Strength.POLLED if polled else Strength.EVIDENCED


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """Where a chain ends.

    :ivar since: the last reading that was covered, UTC; ``until`` the one that was not.
    :ivar ref: what showed it, None where nothing did.
    """

    cause: BreakCause
    since: datetime
    until: datetime
    ref: Ref | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The custody of one card.

    :ivar begun: the last reading before the card was written, or that of the measurement or the acceptance, UTC.
    :ivar by: the images by name, or who has accepted it.
    :ivar until: when an acceptance ends, UTC; ``reason`` why it was given.
    :ivar intervals: from ``begun`` on, without a gap, the oldest first.
    :ivar covers_own_processor: False where a processor of the card itself may have run code of somebody else.
    """

    accelerator: AcceleratorId
    origin: Origin
    begun: datetime
    by: tuple[str, ...] = ()
    until: datetime | None = None
    reason: str | None = None
    intervals: tuple[Interval, ...] = ()
    broken: Break | None = None
    covers_own_processor: bool = True

    @property
    def reaches(self) -> datetime:
        """The last reading up to which nobody else's code could write the card, UTC."""
        return self.intervals[-1].until if self.intervals else self.begun

    @property
    def strength(self) -> Strength:
        """That of the weakest interval."""
        return weakest(self.intervals)


@dataclass(frozen=True, slots=True, kw_only=True)
class CardCustody:
    """What is kept of one card.

    :ivar chain: None where none has begun.
    :ivar writing: the chain that takes its place once the card is written; None while it is not written to.
    :ivar seen: the last reading, from which they go on.
    """

    accelerator: AcceleratorId
    chain: Chain | None = None
    writing: Chain | None = None
    seen: CardSeen | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownUpdates:
    """The updates that a BMC has shown among its tasks when all that it had to do with was read last.

    :ivar marks: a digest of each, sorted.
    :ivar stuck: likewise the tasks of our own writes that claim to run although the device shows that they have ended.
    """

    bmc: BmcName
    marks: tuple[str, ...] = ()
    stuck: tuple[str, ...] = field(default=(), metadata=SPARSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Custody:
    """The custody of the cards of one machine, sorted by their identities.

    :ivar dependable: the Systems whose BMC was seen to set the time of the last reset when the host was started, sorted.
    :ivar updates: by BMC those that are known, sorted. Of a BMC that is not here nothing is known: it was not asked yet, or we
        have written to it since.
    """

    cards: tuple[CardCustody, ...] = ()
    dependable: tuple[Ref, ...] = ()
    updates: tuple[KnownUpdates, ...] = ()

    def of(self, accelerator: AcceleratorId) -> CardCustody:
        """What is kept of a card; of one that is not known, nothing."""
        found = next((c for c in self.cards if c.accelerator == accelerator), None)
        return CardCustody(accelerator=accelerator) if found is None else found


NO_CUSTODY = Custody()
"""Of a machine that nobody has read yet."""
