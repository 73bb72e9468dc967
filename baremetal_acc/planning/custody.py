# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Compute the chain of custody of each card: begin it, extend it by a reading, or break it.

The types are in :mod:`baremetal_acc.model.custody`.

The unit of proof is the interval between two readings of a card. :func:`between` judges one interval by the two readings at its
ends, in this order: the host is known to have been off all the time; every demanded path was closed and proven at both ends;
only the operator's ramdisk ran; the host was read off at both ends, which are no further apart than a host needs to start.
Anything else breaks the chain. Time in which nobody reads the machine breaks a chain only where a demanded path was open at its
start or is not closed as before at its end.

This relies on a BMC that reports power and locks truthfully, and for chains that begin with a write on an updater of the card
that writes what it is sent. A measurement that a root of trust has signed does not rely on the updater.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import IntEnum

from baremetal_acc.model.accelerator import Accelerator, Kind
from baremetal_acc.model.codec import encode
from baremetal_acc.model.custody import (
    Access,
    Break,
    BreakCause,
    CardCustody,
    CardSeen,
    Chain,
    Cover,
    Custody,
    HostSeen,
    Interval,
    Origin,
    Strength,
)
from baremetal_acc.model.inventory import BmcFacts, HostReading, Inventory, PowerState
from baremetal_acc.model.lock import Engagement, LockReading, LockState
from baremetal_acc.model.ref import HOST, AcceleratorId, Ref
from baremetal_acc.planning import host_evidence, lock_evidence
from baremetal_acc.planning.host_evidence import EvidenceSource, HostRan
from baremetal_acc.policy.baseline import HOST_PATHS, Baseline, Demands, NodeFacts, demands

MOST_INTERVALS = 16
"""Limit of the intervals of one chain; above it the oldest two are joined.

A reader needs to know what covered the time since the last hand-over.
"""

_CLOSED = frozenset({LockState.LOCKED_VERIFIED, LockState.LOCKED_REPORTED})


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


def seen(
    inventory: Inventory,
    baseline: Baseline,
    node: NodeFacts,
    engagements: Iterable[Engagement],
    *,
    lifecycle: int,
    before: Custody,
    starting: Ref | None = None,
) -> dict[AcceleratorId, CardSeen]:
    """Return what custody needs of a whole reading of a machine, by card.

    :param engagements: our own records; only they make a lock proven.
    :param before: the custody that the reading is going to extend.
    :param starting: as of :func:`~baremetal_acc.planning.lock_evidence.judge`.
    """
    records = lock_evidence.Records(engagements)
    hosts, shared = inventory.hosts, inventory.shared_devices
    found = {}
    for accelerator in inventory.accelerators:
        closed = _proven_closed(before.of(accelerator.id).seen)
        locks = tuple(
            _engaged_again(r, lock_evidence.judge(r, records.at(r), lifecycle=lifecycle, starting=starting), closed)
            for r in accelerator.locks
        )
        # A device that other machines of the BMC reach, too, has hosts that are not read: none is known.
        reaching = () if accelerator.id in shared else hosts
        own = _own_system(accelerator, inventory, hosts)
        found[accelerator.id] = _card(accelerator, demands(baseline, accelerator, node), locks, inventory.at, reaching, own)
    return found


def _proven_closed(card: CardSeen | None) -> frozenset[str]:
    """Return the digests of the locks that keep a card closed."""
    return frozenset(card.locks) if card is not None and card.access is Access.CLOSED and card.proven else frozenset()


def _engaged_again(reading: LockReading, judged: LockReading, closed: frozenset[str]) -> LockReading:
    """Return a lock that was closed, and that we have engaged once more, as closed: only the new record waits for its reset."""
    waits = reading.state is LockState.LOCKED_REPORTED and judged.state is LockState.PENDING_RESET
    return reading if waits and _digest(reading) in closed else judged


def _card(
    accelerator: Accelerator,
    wanted: Demands,
    locks: tuple[LockReading, ...],
    at: datetime,
    hosts: tuple[BmcFacts, ...],
    own: PowerState,
) -> CardSeen:
    """Return what custody needs of one card.

    :param hosts: those that reach the card; ``own``: the power of the System that the card itself is.
    """
    paths = sorted(wanted.block & HOST_PATHS)
    weakest = [lock_evidence.weakest(lock_evidence.coverage(accelerator, path, locks)).state for path in paths]
    # A lock that takes effect with a start shows another value after it: it only has to be closed then.
    pending = {r.place for r in accelerator.locks if r.state is LockState.PENDING_RESET}
    closing = [r for r in locks if r.blocks & wanted.block & HOST_PATHS and r.state in _CLOSED and r.place not in pending]
    return CardSeen(
        at=at,
        access=_access(weakest),
        hosts=tuple(HostSeen(system=facts.system, reading=facts.host) for facts in hosts if facts.system is not None),
        locks=tuple(sorted(map(_digest, closing))),
        proven=bool(weakest) and all(state is LockState.LOCKED_VERIFIED for state in weakest),
        own_processor=accelerator.kind is Kind.DPU and own is not PowerState.OFF,
        bmcs=frozenset(ref.bmc for ref in accelerator.refs),
    )


def _access(states: list[LockState]) -> Access:
    if not states or any(s not in _CLOSED and s is not LockState.UNKNOWN for s in states):
        return Access.OPEN
    return Access.UNKNOWN if LockState.UNKNOWN in states else Access.CLOSED


def _own_system(accelerator: Accelerator, inventory: Inventory, hosts: tuple[BmcFacts, ...]) -> PowerState:
    """Return the power of the System that a card itself is, as the BMC of a DPU shows it; unknown where no BMC shows it."""
    names = {ref.bmc for ref in accelerator.refs} - {HOST, *(facts.name for facts in hosts)}
    found = [facts.power for facts in inventory.bmcs if facts.name in names and facts.system is not None]
    return found[0] if len(found) == 1 else PowerState.UNKNOWN


def _digest(reading: LockReading) -> str:
    """Return a digest that differs for different locks and settings. 64 bits suffice: a collision helps no attacker."""
    place = (reading.mechanism, encode(reading.ref), reading.field, reading.part, reading.value, reading.leaves)
    return hashlib.sha256(json.dumps(place).encode()).hexdigest()[:16]


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
    ran = _host_ran(before, after, elapsed, conditions, dependable)

    def covered(cover: Cover, strength: Strength = Strength.EVIDENCED) -> Interval:
        return Interval(since=before.at, until=after.at, cover=cover, strength=strength)

    if ran is _Ran.NO:
        return covered(Cover.HOST_OFF)
    failure = _not_locked(before, after)
    if failure is None:
        return covered(Cover.LOCKED)
    restarted = _restarted(before, after)
    if conditions.ramdisk and not before.restarted and restarted is not HostRan.RAN:
        return covered(Cover.RAMDISK, Strength.EVIDENCED if restarted is HostRan.DID_NOT_RUN else Strength.POLLED)
    if ran is _Ran.NOT_BY_POWER:
        return covered(Cover.HOST_OFF, Strength.POLLED)
    if failure is BreakCause.HOST_UNSEEN and ran is _Ran.YES:
        failure = BreakCause.HOST_RAN
    return Break(cause=failure, since=before.at, until=after.at, ref=after.hosts[0].system if after.hosts else None)


class _Ran(IntEnum):
    """Whether the host ran code of its own in an interval, the best first.

    ``no``: a source besides its power shows that it did not. ``not-by-power``: it was read off at both ends, which are close
    together. ``silent``: no source tells.
    """

    NO = 0
    NOT_BY_POWER = 1
    SILENT = 2
    YES = 3


def _host_ran(
    before: CardSeen,
    after: CardSeen,
    elapsed: timedelta,
    conditions: Conditions,
    dependable: frozenset[Ref],
) -> _Ran:
    """Return whether any System that reaches the card has run: the worst of them. One that only one reading shows is silent."""
    now = {host.system: host.reading for host in after.hosts}
    found = [
        _ran(host, before.at, now[host.system], elapsed, conditions, dependable) if host.system in now else _Ran.SILENT
        for host in before.hosts
    ]
    same = bool(found) and {host.system for host in before.hosts} == set(now)
    return max(found) if same else max((*found, _Ran.SILENT))


def _ran(
    host: HostSeen,
    at: datetime,
    reading: HostReading,
    elapsed: timedelta,
    conditions: Conditions,
    dependable: frozenset[Ref],
) -> _Ran:
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
        return _Ran.YES
    shows = {one.source for one in said if one.says is HostRan.DID_NOT_RUN}
    if EvidenceSource.LAST_RESET in shows:
        return _Ran.NO
    return _Ran.NOT_BY_POWER if EvidenceSource.POWER in shows else _Ran.SILENT


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


def _is_ramdisk_gone(before: CardSeen, after: CardSeen, conditions: Conditions) -> bool:
    """Whether the host was restarted during a job that relies on the ramdisk, and not again since.

    Between two such jobs a restart is taken for the one by which the ramdisk was booted again.
    """
    restarted = _restarted(before, after) is HostRan.RAN
    return before.restarted or restarted if conditions.ramdisk else before.restarted and not restarted


def is_host_off(card: CardSeen) -> bool:
    """Whether every System that reaches the card was read off."""
    return bool(card.hosts) and all(host.reading.power is PowerState.OFF for host in card.hosts)


def is_kept(card: CardSeen) -> bool:
    """Whether nobody else's code can write the card as it was read, so that the next reading breaks no chain begun here."""
    return is_host_off(card) or (card.access is Access.CLOSED and card.proven)


def _not_locked(before: CardSeen, after: CardSeen) -> BreakCause | None:
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


def read(
    custody: Custody,
    cards: Mapping[AcceleratorId, CardSeen],
    at: datetime,
    conditions: Conditions,
    *,
    absent_breaks: bool = True,
    by: datetime | None = None,
) -> Custody:
    """Return the custody after a whole reading of a machine.

    :param cards: as of :func:`seen`.
    :param at: when the reading began, UTC; ``by`` when it had ended, None: at once.
    :param absent_breaks: a card that is not shown breaks its chain: it may be anywhere. A card that was just written, or a BMC
        that was just reset, may take time to be shown again.
    """
    known = {card.accelerator: card for card in custody.cards}
    dependable = frozenset(custody.dependable)
    learnt = set(dependable)
    for accelerator in sorted(known.keys() | cards.keys()):
        card = known.get(accelerator, CardCustody(accelerator=accelerator))
        now = cards.get(accelerator)
        if now is not None:
            learnt = _learnt(learnt, card.seen, now, conditions.settles)
            known[accelerator] = _extended(card, now, conditions, dependable=dependable, by=by)
        elif absent_breaks:
            known[accelerator] = _broken(card, BreakCause.NOT_SEEN, at)
    return replace(_with_cards(custody, known), dependable=tuple(sorted(learnt)))


def _learnt(dependable: set[Ref], before: CardSeen | None, after: CardSeen, settles: timedelta) -> set[Ref]:
    """Return the Systems whose BMC sets the time of the last reset at a start, after one more reading.

    A System that was off, and whose power-off had settled, and that is on now, was started in between: that time was set then,
    or not.
    """
    now = {host.system: host.reading for host in after.hosts}
    found = set(dependable)
    for host in () if before is None else before.hosts:
        started = now.get(host.system)
        settled = before is not None and host.off_since is not None and before.at - host.off_since >= settles
        if started is None or not settled or started.power is not PowerState.ON:
            continue
        if EvidenceSource.LAST_RESET in host_evidence.changed_by_start(host.reading, started):
            found.add(host.system)
        else:
            found.discard(host.system)
    return found


def polled(
    custody: Custody,
    hosts: Mapping[Ref, HostReading],
    at: datetime,
    conditions: Conditions,
    *,
    opened: frozenset[AcceleratorId],
    by: datetime | None = None,
) -> Custody:
    """Return the custody after the power of the hosts alone was read, while a job works.

    Cards that are proven closed continue from their last whole reading; any other card continues from here, if its hosts were
    read.

    :param hosts: by System what was read.
    :param at: when that began, UTC; ``by`` when it had ended, None: at once.
    :param opened: the cards that are not known to be closed, since the job has opened them.
    """
    known = {card.accelerator: card for card in custody.cards}
    dependable = frozenset(custody.dependable)
    for accelerator, card in known.items():
        last = card.seen
        if last is None or (last.access is Access.CLOSED and last.proven and accelerator not in opened):
            continue
        if not last.hosts or any(host.system not in hosts for host in last.hosts):
            continue
        now = replace(
            last,
            at=at,
            access=Access.OPEN,
            locks=(),
            proven=False,
            hosts=tuple(replace(host, reading=hosts[host.system]) for host in last.hosts),
        )
        ran = _host_ran(last, now, (at if by is None else by) - last.at, conditions, dependable)
        if ran is not _Ran.YES and all(_tells_later(host, hosts[host.system], dependable) for host in last.hosts):
            continue
        known[accelerator] = _extended(card, now, conditions, dependable=dependable, by=by)
    return _with_cards(custody, known)


def _tells_later(host: HostSeen, polled: HostReading, dependable: frozenset[Ref]) -> bool:
    """Whether the next whole reading, which also reads the Manager, can judge all of the time since the last one."""
    known = host.reading.bmc_reset is not None and polled.last_reset is not None
    return known and host.system in dependable


def _extended(
    card: CardCustody,
    now: CardSeen,
    conditions: Conditions,
    *,
    dependable: frozenset[Ref],
    by: datetime | None,
) -> CardCustody:
    before = card.seen
    if before is not None and now.at < before.at <= (by or now.at):
        now = replace(now, at=before.at)  # the power of the host was polled during this reading
    now = replace(
        now,
        hosts=tuple(_with_off_since(host, before, now.at) for host in now.hosts),
        restarted=before is not None and _is_ramdisk_gone(before, now, conditions),
    )
    if before is None:
        return replace(_broken(card, BreakCause.HOST_UNSEEN, now.at), seen=now)
    judged = between(before, now, conditions, dependable=dependable, by=by)
    if _not_locked(before, now) is None:
        now = replace(now, proven=True)  # unchanged since they were proven
    alone = before.own_processor or now.own_processor
    return replace(
        card,
        chain=None if card.chain is None else _longer(card.chain, judged, now.at, alone=alone),
        writing=None if card.writing is None else _longer(card.writing, judged, now.at, alone=alone),
        seen=now,
    )


def _longer(chain: Chain, judged: Interval | Break, at: datetime, *, alone: bool) -> Chain:
    """Return the chain with one more interval, or broken.

    :param alone: a processor of the card itself may have run somebody else's code.
    """
    if chain.broken is not None:
        return chain
    if chain.until is not None and at >= chain.until:
        return _broken_chain(chain, BreakCause.ACCEPTANCE_ENDED, at)
    if isinstance(judged, Break):
        return replace(chain, broken=judged)
    # The first interval may begin before the chain. Later ones do so only where the clock was set back.
    added = judged if chain.intervals else replace(judged, since=max(judged.since, chain.begun))
    return replace(
        chain,
        intervals=_joined((*chain.intervals, added)),
        covers_own_processor=chain.covers_own_processor and not alone,
    )


def _with_off_since(host: HostSeen, before: CardSeen | None, at: datetime) -> HostSeen:
    if host.reading.power is not PowerState.OFF:
        return replace(host, off_since=None)
    earlier = () if before is None else before.hosts
    known = next((h.off_since for h in earlier if h.system == host.system), None)
    return replace(host, off_since=at if known is None else known)


def _joined(intervals: tuple[Interval, ...]) -> tuple[Interval, ...]:
    """Return the intervals with neighbours of one kind joined, and no more than :data:`MOST_INTERVALS`."""
    found: list[Interval] = []
    for one in intervals:
        if found and (found[-1].cover, found[-1].strength) == (one.cover, one.strength):
            found[-1] = replace(found[-1], until=one.until)
        else:
            found.append(one)
    while len(found) > MOST_INTERVALS:
        first, second = found[:2]
        weaker = Strength.POLLED if Strength.POLLED in (first.strength, second.strength) else Strength.EVIDENCED
        cover = first.cover if first.cover is second.cover else Cover.SEVERAL
        found[:2] = [Interval(since=first.since, until=second.until, cover=cover, strength=weaker)]
    return tuple(found)


def opened(custody: Custody, accelerators: Iterable[AcceleratorId]) -> Custody:
    """Return the custody with cards of which we are about to release a lock: they are open from here on.

    The next reading cannot change that, whatever it finds.
    """
    known = {card.accelerator: card for card in custody.cards}
    for accelerator in accelerators:
        card = known.get(accelerator)
        if card is not None and card.seen is not None:
            known[accelerator] = replace(card, seen=replace(card.seen, access=Access.OPEN, locks=(), proven=False))
    return _with_cards(custody, known)


def broken(
    custody: Custody, accelerators: Iterable[AcceleratorId], cause: BreakCause, at: datetime, ref: Ref | None = None
) -> Custody:
    """Return the custody with the chains of these cards broken, if they were not broken before."""
    known = {card.accelerator: card for card in custody.cards}
    for accelerator in accelerators:
        if accelerator in known:
            known[accelerator] = _broken(known[accelerator], cause, at, ref)
    return _with_cards(custody, known)


def _broken(card: CardCustody, cause: BreakCause, at: datetime, ref: Ref | None = None) -> CardCustody:
    return replace(
        card,
        chain=None if card.chain is None else _broken_chain(card.chain, cause, at, ref),
        writing=None if card.writing is None else _broken_chain(card.writing, cause, at, ref),
    )


def _broken_chain(chain: Chain, cause: BreakCause, at: datetime, ref: Ref | None = None) -> Chain:
    if chain.broken is not None:
        return chain
    return replace(chain, broken=Break(cause=cause, since=chain.reaches, until=max(at, chain.reaches), ref=ref))


def begun(
    custody: Custody,
    accelerator: AcceleratorId,
    origin: Origin,
    at: datetime,
    *,
    by: Iterable[str],
    until: datetime | None = None,
    reason: str | None = None,
) -> Custody:
    """Return the custody with a new chain of a card, in place of the one before.

    :param at: where it begins, UTC: with the last reading of the card.
    :param by: the catalogue's name of what was measured, or who answers for the card.
    """
    card = custody.of(accelerator)
    chain = _first(card, origin, at, by)
    return _with(custody, replace(card, chain=replace(chain, until=until, reason=reason), writing=None))


def write_begun(custody: Custody, accelerator: AcceleratorId, at: datetime, *, images: Iterable[str]) -> Custody:
    """Return the custody with a card that we are about to write. No chain of it holds until :func:`write_ended`.

    :param at: a time before the write; the chain begins with the last reading of the card before that.
    :param images: by name.
    """
    card = custody.of(accelerator)
    since = at if card.seen is None else card.seen.at
    return _with(custody, replace(card, writing=_first(card, Origin.WRITTEN, since, images)))


def write_ended(custody: Custody, accelerator: AcceleratorId, at: datetime, *, evidenced: bool) -> Custody:
    """Return the custody with a card of which every write has ended well.

    :param evidenced: there is evidence for each of them that it has reached the card.
    """
    card = custody.of(accelerator)
    if card.writing is None:
        return custody
    chain = card.writing if evidenced else _broken_chain(card.writing, BreakCause.WRITE_UNPROVEN, at)
    return _with(custody, replace(card, chain=chain, writing=None))


def write_failed(custody: Custody, accelerator: AcceleratorId, at: datetime, *, touched: bool) -> Custody:
    """Return the custody with a card whose write has failed, or was cut off.

    :param touched: something of it may have reached the card; else the earlier chain continues.
    """
    card = replace(custody.of(accelerator), writing=None)
    return _with(custody, _broken(card, BreakCause.WRITE_FAILED, at) if touched else card)


def _first(card: CardCustody, origin: Origin, at: datetime, by: Iterable[str]) -> Chain:
    covers = card.seen is None or not card.seen.own_processor
    return Chain(accelerator=card.accelerator, origin=origin, begun=at, by=tuple(by), covers_own_processor=covers)


def _with(custody: Custody, card: CardCustody) -> Custody:
    return _with_cards(custody, {c.accelerator: c for c in custody.cards} | {card.accelerator: card})


def _with_cards(custody: Custody, cards: Mapping[AcceleratorId, CardCustody]) -> Custody:
    return replace(custody, cards=tuple(cards[accelerator] for accelerator in sorted(cards)))


def holds(card: CardCustody, now: datetime) -> bool:
    """Whether the chain of a card has begun and is not broken, no write is pending, and an acceptance has not ended.

    The chain reaches to the last reading: whoever hands the card over reads it right before.
    """
    chain = card.chain
    if chain is None or card.writing is not None or chain.broken is not None:
        return False
    return chain.until is None or now < chain.until


def breaks(before: Custody, after: Custody) -> bool:
    """Whether a reading has broken a chain: that has to be stored, as the next reading may not show it."""
    broken_now = (card.accelerator for card in after.cards if card.chain is not None and card.chain.broken is not None)
    return any((chain := before.of(accelerator).chain) is not None and chain.broken is None for accelerator in broken_now)
