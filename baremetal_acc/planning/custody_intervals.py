# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Judge the interval between two readings of a card: what covered it, or why it breaks a custody chain.

:func:`between` judges by the two readings at the ends, in this order: the host is known to have been off all the time; every
demanded path was closed and proven at both ends; only the operator's ramdisk ran; the host was read off at both ends, which are
no further apart than a host needs to start. Anything else breaks the chain. Time in which nobody reads the machine breaks a
chain only where a demanded path was open at its start or is not closed as before at its end.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum

from baremetal_acc.model.custody import Access, Break, BreakCause, CardSeen, Cover, HostSeen, Interval, Strength
from baremetal_acc.model.inventory import HostReading
from baremetal_acc.model.ref import Ref
from baremetal_acc.planning import host_evidence
from baremetal_acc.planning.host_evidence import EvidenceSource, HostRan


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What the reading of a machine is judged by, apart from the reading itself.

    :ivar blind_limit: how far apart two readings that find the host off may be where no other source says that it stayed off.
    :ivar settles: how long after a host was first read off what its BMC says of it may still change by that power-off.
    :ivar ramdisk: a job works while the operator's ramdisk, which was booted on the host, runs. Once the host was restarted it
        is unknown what runs on it.
    """

    blind_limit: timedelta
    settles: timedelta = timedelta(0)
    ramdisk: bool = False


def between(
    before: CardSeen,
    after: CardSeen,
    conditions: Conditions,
    *,
    dependable: frozenset[Ref] = frozenset(),
    by: datetime | None = None,
) -> Interval | Break:
    """Judge the interval between two readings of a card.

    :param by: when the power of the hosts had been read at the end of the interval, UTC; None: at once. An inspection takes
        time, and it is unknown how much of it had passed when the power was read.
    :param conditions: of the later reading.
    :param dependable: the Systems whose BMC was seen to set the time of the last reset at a start.
    """
    elapsed = (after.at if by is None else by) - before.at
    ran = host_activity(before, after, elapsed, conditions, dependable)

    def covered(cover: Cover, strength: Strength = Strength.EVIDENCED) -> Interval:
        return Interval(since=before.at, until=after.at, cover=cover, strength=strength)

    if ran is HostActivity.NO:
        return covered(Cover.HOST_OFF)
    failure = find_lock_failure(before, after)
    if failure is None:
        return covered(Cover.LOCKED)
    restarted = _restarted(before, after)
    if conditions.ramdisk and not before.restarted and restarted is not HostRan.RAN:
        return covered(Cover.RAMDISK, Strength.EVIDENCED if restarted is HostRan.DID_NOT_RUN else Strength.POLLED)
    if ran is HostActivity.NOT_BY_POWER:
        return covered(Cover.HOST_OFF, Strength.POLLED)
    if failure is BreakCause.HOST_UNSEEN and ran is HostActivity.YES:
        failure = BreakCause.HOST_RAN
    return Break(cause=failure, since=before.at, until=after.at, ref=after.hosts[0].system if after.hosts else None)


class HostActivity(IntEnum):
    """Whether the host ran code of its own in an interval, the best first.

    ``no``: a source besides its power shows that it did not. ``not-by-power``: it was read off at both ends, which are close
    together. ``silent``: no source tells.
    """

    NO = 0
    NOT_BY_POWER = 1
    SILENT = 2
    YES = 3


def host_activity(
    before: CardSeen,
    after: CardSeen,
    elapsed: timedelta,
    conditions: Conditions,
    dependable: frozenset[Ref],
) -> HostActivity:
    """Return whether any System that reaches the card has run: the worst of them. One that only one reading shows is silent."""
    now = {host.system: host.reading for host in after.hosts}
    found = [
        _ran(host, before.at, now[host.system], elapsed, conditions, dependable) if host.system in now else HostActivity.SILENT
        for host in before.hosts
    ]
    same = bool(found) and {host.system for host in before.hosts} == set(now)
    return max(found) if same else max((*found, HostActivity.SILENT))


def _ran(
    host: HostSeen,
    at: datetime,
    reading: HostReading,
    elapsed: timedelta,
    conditions: Conditions,
    dependable: frozenset[Ref],
) -> HostActivity:
    # What the BMC shows of a host may still change by the power-off, counted from the first reading that found it off.
    off_for = None if host.off_since is None else max(timedelta(0), at - host.off_since)
    tail = timedelta(0) if off_for is None else max(timedelta(0), conditions.settles - off_for)
    said = host_evidence.evidence(
        host.reading,
        reading,
        elapsed,
        settles=tail,
        blind_limit=conditions.blind_limit,
        dependable=frozenset({EvidenceSource.LAST_RESET} if host.system in dependable else ()),
    )
    if any(one.says is HostRan.RAN for one in said):
        return HostActivity.YES
    shows = {one.source for one in said if one.says is HostRan.DID_NOT_RUN}
    if EvidenceSource.LAST_RESET in shows:
        return HostActivity.NO
    return HostActivity.NOT_BY_POWER if EvidenceSource.POWER in shows else HostActivity.SILENT


def _restarted(before: CardSeen, after: CardSeen) -> HostRan:
    """Return whether any System that was on at two readings was restarted between them.

    A System that only one of the readings shows counts as restarted; and so does whatever reaches a card of which no System is
    shown.
    """
    now = {host.system: host.reading for host in after.hosts}
    if not now or now.keys() != {host.system for host in before.hosts}:
        return HostRan.RAN
    said = {host_evidence.restarted(host.reading, now[host.system]) for host in before.hosts}
    return next(word for word in (HostRan.RAN, HostRan.SILENT, HostRan.DID_NOT_RUN) if word in said)


def is_ramdisk_gone(before: CardSeen, after: CardSeen, conditions: Conditions) -> bool:
    """Whether the host was restarted during a job that relies on the ramdisk, and not again since.

    Between two such jobs a restart is taken for the one by which the ramdisk was booted again.
    """
    restarted = _restarted(before, after) is HostRan.RAN
    return before.restarted or restarted if conditions.ramdisk else before.restarted and not restarted


def find_lock_failure(before: CardSeen, after: CardSeen) -> BreakCause | None:
    """Return why locks do not cover an interval; None: they do. ``host-unseen``: they were not proven closed at its start."""
    if before.access is not Access.CLOSED or not before.proven:
        return BreakCause.HOST_UNSEEN
    match after.access:
        case Access.OPEN:
            return BreakCause.PATH_OPEN
        case Access.UNKNOWN:
            return BreakCause.PATH_UNKNOWN
        case Access.CLOSED:
            pass
    return None if set(before.locks) <= set(after.locks) else BreakCause.LOCK_CHANGED
