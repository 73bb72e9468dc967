# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Compute the chain of custody of each card: begin it, extend it by a reading, or break it.

The types are in :mod:`baremetal_acc.model.custody`.

The unit of proof is the interval between two readings of a card (:mod:`~baremetal_acc.planning.custody_readings`), which
:mod:`~baremetal_acc.planning.custody_intervals` judges.

This relies on a BMC that reports power and locks truthfully, and for chains that begin with a write on an updater of the card
that writes what it is sent. A measurement that a root of trust has signed does not rely on the updater.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

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
from baremetal_acc.model.inventory import HostReading, PowerState
from baremetal_acc.model.ref import AcceleratorId, Ref
from baremetal_acc.planning import host_evidence
from baremetal_acc.planning.custody_intervals import (
    Conditions,
    HostActivity,
    between,
    find_lock_failure,
    host_activity,
    is_ramdisk_gone,
)
from baremetal_acc.planning.host_evidence import EvidenceSource

MOST_INTERVALS = 16
"""Limit of the intervals of one chain; above it the oldest two are joined.

A reader needs to know what covered the time since the last hand-over.
"""


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

    :param cards: as of :func:`~baremetal_acc.planning.custody_readings.seen`.
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
        ran = host_activity(last, now, (at if by is None else by) - last.at, conditions, dependable)
        if ran is not HostActivity.YES and all(_tells_later(host, hosts[host.system], dependable) for host in last.hosts):
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
        restarted=before is not None and is_ramdisk_gone(before, now, conditions),
    )
    if before is None:
        return replace(_broken(card, BreakCause.HOST_UNSEEN, now.at), seen=now)
    judged = between(before, now, conditions, dependable=dependable, by=by)
    if find_lock_failure(before, now) is None:
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
