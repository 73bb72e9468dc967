# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Chains of custody: since when nobody else's code can have written a card, and the evidence for it.

A chain begins with a proven write, a measurement or an operator's acceptance, and reaches to the last reading of the machine.
Between two readings it has an interval with its evidence. Where there is no evidence the chain is broken, and only a new chain
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
    """The beginning of a chain of custody.

    ``written``: we wrote every part of the card that the rules name, and the writes were seen to succeed. ``measured``: the
    card's root of trust has signed what the card runs, and the catalogue knows that firmware. ``accepted``: an operator answers
    for what the card runs.
    """

    WRITTEN = 'written'
    MEASURED = 'measured'
    ACCEPTED = 'accepted'


class Cover(StrEnum):
    """The reason why nobody else's code could write the card in an interval.

    ``host-off``: the host was off. ``locked``: every demanded path from the host was closed and proven at both ends.
    ``ramdisk``: only the operator's own ramdisk ran. ``several``: a join of older intervals, each with one of these covers.
    """

    HOST_OFF = 'host-off'
    LOCKED = 'locked'
    RAMDISK = 'ramdisk'
    SEVERAL = 'several'


class Strength(StrEnum):
    """The evidence for an interval: ``polled``: only readings of the power state; ``evidenced``: more than that."""

    POLLED = 'polled'
    EVIDENCED = 'evidenced'


class BreakCause(StrEnum):
    """The cause that broke a chain of custody.

    ``host-ran``: the host ran while a demanded path was open. ``host-unseen``: a demanded path was open, the power of the host
    was not read often enough, and no other source shows that it stayed off. ``path-open`` and ``path-unknown``: a demanded path
    that was closed was found open or unknown. ``lock-changed``: a lock is closed in another way than before. ``not-seen``: the
    BMC did not report the card. ``exposed``: the card was found changed, or with an open lock, by somebody else.
    ``foreign-write``: its BMC was seen to work on a task that is not ours, and that may write to the card. ``write-failed``: a
    write of ours failed. ``write-unproven``: a write of ours ended well, at a version that the card had before, and nothing
    shows that it has reached the card. ``acceptance-ended``: the acceptance of the operator has ended.
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
    """What a rule demands of the custody of a card.

    ``reported``: the chain is recorded and reported, and refuses nothing. ``required``: a card whose chain does not hold is
    written again by cleaning, and no node is handed over with it. ``evidenced``: likewise, and no interval may rest on readings
    of the power state alone.
    """

    EVIDENCED = 'evidenced'
    REQUIRED = 'required'
    REPORTED = 'reported'


class Access(StrEnum):
    """Whether the host can write a card by the paths that the rules want blocked: ``open`` where they name none."""

    CLOSED = 'closed'
    OPEN = 'open'
    UNKNOWN = 'unknown'


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSeen:
    """A System as it was read together with a card.

    :ivar off_since: when the System was first read off, with no gap in the readings since, UTC; None where this reading did not
        find it off.
    """

    system: Ref
    reading: HostReading
    off_since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CardSeen:
    """The facts of one reading of a card that custody needs.

    :ivar at: when the reading began, UTC.
    :ivar hosts: the Systems whose code may reach the card.
    :ivar locks: the locks that close demanded paths, sorted: digests of place, part and value, so that another lock or another
        setting has another digest.
    :ivar proven: the locks were engaged by us and read back, or are as they were then.
    :ivar own_processor: the card has a processor of its own that runs code, and the processor was not read off.
    :ivar bmcs: the BMCs that show the card, and may write it.
    :ivar restarted: the operator's ramdisk ran on the host, which was restarted since: it is unknown what it runs now.
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
    """A period in which nobody else's code could write the card.

    :ivar since: ``since`` and ``until`` are times of readings, UTC.
    """

    since: datetime
    until: datetime
    cover: Cover
    strength: Strength


def weakest(intervals: Iterable[Interval]) -> Strength:
    """Return the strength of the weakest of these intervals; ``evidenced`` where there is none."""
    polled = any(interval.strength is Strength.POLLED for interval in intervals)
    return Strength.POLLED if polled else Strength.EVIDENCED


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """The break at the end of a chain.

    :ivar since: the last reading that was covered, UTC; ``until`` the first one that was not.
    :ivar ref: the resource that showed the break; None where none did.
    """

    cause: BreakCause
    since: datetime
    until: datetime
    ref: Ref | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The custody of one card.

    :ivar begun: the last reading before the card was written, or the reading of the measurement or the acceptance, UTC.
    :ivar by: names of the images that were written, or the person who has accepted the card.
    :ivar until: when an acceptance ends, UTC; ``reason`` why it was given.
    :ivar intervals: from ``begun`` on, without a gap, the oldest first.
    :ivar covers_own_processor: False where a processor of the card itself may have run somebody else's code.
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
        """The time of the last reading up to which nobody else's code could write the card, UTC."""
        return self.intervals[-1].until if self.intervals else self.begun

    @property
    def strength(self) -> Strength:
        """The strength of the weakest interval."""
        return weakest(self.intervals)


@dataclass(frozen=True, slots=True, kw_only=True)
class CardCustody:
    """The custody state that is stored of one card.

    :ivar chain: None where no chain has begun.
    :ivar writing: the chain that replaces ``chain`` once the card is written; None while nothing is written to the card.
    :ivar seen: the last reading of the card, from which both chains are extended.
    """

    accelerator: AcceleratorId
    chain: Chain | None = None
    writing: Chain | None = None
    seen: CardSeen | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownUpdates:
    """The update tasks that a BMC showed when all of its resources were read last.

    :ivar marks: a digest of each task, sorted.
    :ivar stuck: digests of the tasks of our own writes that claim to run although the device shows that they have ended,
        sorted.
    """

    bmc: BmcName
    marks: tuple[str, ...] = ()
    stuck: tuple[str, ...] = field(default=(), metadata=SPARSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Custody:
    """The custody of the cards of one machine, sorted by their identities.

    :ivar dependable: the Systems whose BMC was seen to set the time of the last reset when the host was started, sorted.
    :ivar updates: the known updates by BMC, sorted. A BMC that is missing here was not asked yet, or we have written to it
        since.
    """

    cards: tuple[CardCustody, ...] = ()
    dependable: tuple[Ref, ...] = ()
    updates: tuple[KnownUpdates, ...] = ()

    def of(self, accelerator: AcceleratorId) -> CardCustody:
        """Return what is stored of a card; an empty record where nothing is."""
        found = next((c for c in self.cards if c.accelerator == accelerator), None)
        return CardCustody(accelerator=accelerator) if found is None else found


NO_CUSTODY = Custody()
"""The custody of a machine that was not read yet."""
