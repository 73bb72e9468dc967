# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Extend, break and begin the custody of cards (see :mod:`baremetal_acc.model.custody`).

The unit of proof is the interval between two readings of a card. :func:`between` judges one interval by the two readings at
its ends, in this order: the host is known to have been off all the time; every demanded path was closed and proven at both
ends; only the operator's ramdisk ran; the host was read off at both ends, which are no further apart than a host needs to
start. Anything else breaks the chain. Time in which nobody reads the machine breaks a chain only where a demanded path was open
at its start or is not closed as before at its end.

What this rests on: a BMC that says the truth about power and locks, and for chains that begin with a write an updater of the
card that writes what it is sent. A measurement that a root of trust has signed does not rest on the latter.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from enum import Enum
from typing import assert_never

from baremetal_acc.decide import evidence, measurement
from baremetal_acc.decide.baseline import HOST_PATHS, Baseline, CustodyDemand, Demands, NodeFacts, demands
from baremetal_acc.decide.verify import components_wanted, slots_wanted
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
from baremetal_acc.model.image import Image
from baremetal_acc.model.inventory import HostReading, Inventory, PowerState
from baremetal_acc.model.job import Finding, Flash, Met, Plan, Program
from baremetal_acc.model.lock import Engagement, LockReading, LockState
from baremetal_acc.model.ref import HOST, AcceleratorId, Ref

MOST_INTERVALS = 16
"""Of one chain. Above it the oldest two are joined: what a reader needs is what covered the time since the last hand-over."""

_CLOSED = frozenset({LockState.LOCKED_VERIFIED, LockState.LOCKED_REPORTED})


# ---------------------------------------------------------------------------------------------------------------- readings


def seen(
    inventory: Inventory,
    baseline: Baseline,
    node: NodeFacts,
    engagements: Iterable[Engagement],
    *,
    lifecycle: int,
    starting: Ref | None = None,
) -> dict[AcceleratorId, CardSeen]:
    """What custody needs of a whole reading of a machine, by card.

    :param engagements: our own records; only they make a lock proven.
    :param starting: as of :func:`~baremetal_acc.decide.evidence.judge`.
    """
    records = tuple(engagements)
    found = {}
    for accelerator in inventory.accelerators:
        locks = tuple(evidence.judge(r, records, lifecycle=lifecycle, starting=starting) for r in accelerator.locks)
        found[accelerator.id] = _card(accelerator, demands(baseline, accelerator, node), locks, inventory)
    return found


def _card(accelerator: Accelerator, wanted: Demands, locks: tuple[LockReading, ...], inventory: Inventory) -> CardSeen:
    paths = sorted(wanted.block & HOST_PATHS)
    weakest = [evidence.weakest(evidence.coverage(accelerator, path, locks)).state for path in paths]
    closing = [r for r in locks if r.blocks & wanted.block & HOST_PATHS and r.state in _CLOSED]
    own = _own_system(accelerator, inventory)
    return CardSeen(
        at=inventory.at,
        access=_access(weakest),
        hosts=tuple(
            HostSeen(system=facts.system, reading=facts.host)
            for facts in inventory.bmcs
            if facts.system is not None and facts.name == HOST
        ),
        locks=tuple(sorted(map(_digest, closing))),
        proven=bool(weakest) and all(state is LockState.LOCKED_VERIFIED for state in weakest),
        own_processor=accelerator.kind is Kind.DPU and own is not PowerState.OFF,
    )


def _access(states: list[LockState]) -> Access:
    if not states or any(s not in _CLOSED and s is not LockState.UNKNOWN for s in states):
        return Access.OPEN
    return Access.UNKNOWN if LockState.UNKNOWN in states else Access.CLOSED


def _own_system(accelerator: Accelerator, inventory: Inventory) -> PowerState:
    """The power of the System that a card is by itself, as the BMC of a DPU has it; unknown where no BMC shows it."""
    names = {ref.bmc for ref in accelerator.refs} - {HOST}
    found = [facts.power for facts in inventory.bmcs if facts.name in names and facts.system is not None]
    return found[0] if len(found) == 1 else PowerState.UNKNOWN


def _digest(reading: LockReading) -> str:
    """Tells apart locks and their settings. 64 bits: nobody gains by two of his own that collide."""
    place = (reading.mechanism, encode(reading.ref), reading.field, reading.part, reading.value, reading.leaves)
    return hashlib.sha256(json.dumps(place).encode()).hexdigest()[:16]


# ---------------------------------------------------------------------------------------------------------------- intervals


def between(
    before: CardSeen, after: CardSeen, *, blind_limit: timedelta, settles: timedelta = timedelta(0), ramdisk: bool = False
) -> Interval | Break:
    """Judge the interval between two readings of a card.

    :param blind_limit: how far apart two readings that find the host off may be where no other source says that it stayed off.
    :param settles: how long after a host was first read off its time of the last reset may still change by that power-off.
    :param ramdisk: the operator's ramdisk runs on the host at both readings. Where the host was reset between them nobody knows
        what it has booted first.
    """
    ran = _host_ran(before, after, settles)

    def covered(cover: Cover, strength: Strength = Strength.EVIDENCED) -> Interval:
        return Interval(since=before.at, until=after.at, cover=cover, strength=strength)

    if ran is _Ran.NO:
        return covered(Cover.HOST_OFF)
    opened = _not_locked(before, after)
    if opened is None:
        return covered(Cover.LOCKED)
    if ramdisk and not _was_reset(before, after):
        return covered(Cover.RAMDISK)
    near = timedelta(0) <= after.at - before.at <= blind_limit  # a clock that was put back proves nothing
    if ran is _Ran.SILENT and is_host_off(before) and is_host_off(after) and near:
        return covered(Cover.HOST_OFF, Strength.POLLED)
    if opened is BreakCause.HOST_UNSEEN and ran is _Ran.YES:
        opened = BreakCause.HOST_RAN
    return Break(cause=opened, since=before.at, until=after.at, ref=after.hosts[0].system if after.hosts else None)


class _Ran(Enum):
    """Whether the host ran code of its own in an interval; ``silent`` where nothing tells."""

    YES = 'yes'
    NO = 'no'
    SILENT = 'silent'


def _host_ran(before: CardSeen, after: CardSeen, settles: timedelta) -> _Ran:
    """Whether any System that reaches the card has run. A System that only one of the readings shows says nothing."""
    now = {host.system: host.reading for host in after.hosts}
    found = [
        _ran(host.reading, now[host.system], just_off=_just_off(host, after.at, settles)) if host.system in now else _Ran.SILENT
        for host in before.hosts
    ]
    if _Ran.YES in found:
        return _Ran.YES
    same = {host.system for host in before.hosts} == set(now)
    return _Ran.NO if found and same and _Ran.SILENT not in found else _Ran.SILENT


_RUNS = frozenset({PowerState.ON, PowerState.POWERING_ON, PowerState.POWERING_OFF, PowerState.PAUSED})


def _ran(before: HostReading, after: HostReading, *, just_off: bool) -> _Ran:
    """By power state and time of the last reset, which a System that is started has anew.

    A BMC that has none says nothing. Source: DSP0268 2025.4, ComputerSystem, LastResetTime: when the system was last reset or
    rebooted.

    :param just_off: the time may change once more by the very power-off.
    """
    if before.power in _RUNS or after.power in _RUNS:
        return _Ran.YES
    if PowerState.UNKNOWN in (before.power, after.power) or None in (before.last_reset, after.last_reset):
        return _Ran.SILENT
    return _Ran.NO if before.last_reset == after.last_reset or just_off else _Ran.YES


def _just_off(host: HostSeen, at: datetime, settles: timedelta) -> bool:
    return host.off_since is not None and timedelta(0) <= at - host.off_since <= settles


def _was_reset(before: CardSeen, after: CardSeen) -> bool:
    """A System is known to have been reset between two readings, or only one of them has it."""
    now = {host.system: host.reading.last_reset for host in after.hosts}
    then = {host.system: host.reading.last_reset for host in before.hosts}
    return now.keys() != then.keys() or any(None not in (at, now[system]) and at != now[system] for system, at in then.items())


def is_host_off(card: CardSeen) -> bool:
    """Every System that reaches the card was read off."""
    return bool(card.hosts) and all(host.reading.power is PowerState.OFF for host in card.hosts)


def _not_locked(before: CardSeen, after: CardSeen) -> BreakCause | None:
    """Why locks do not cover an interval; ``host-unseen`` where they were not proven closed at its start; None: they do."""
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


# -------------------------------------------------------------------------------------------------------------------- chains


def read(
    custody: Custody,
    cards: Mapping[AcceleratorId, CardSeen],
    at: datetime,
    *,
    blind_limit: timedelta,
    settles: timedelta = timedelta(0),
    ramdisk: bool = False,
    absent_breaks: bool = True,
) -> Custody:
    """The custody after a whole reading of a machine.

    :param cards: as of :func:`seen`.
    :param at: when the reading began, UTC.
    :param absent_breaks: a card that is not shown breaks its chain: it may be anywhere. A card that was just written, or a BMC
        that was just reset, may take its time to show itself again.
    """
    known = {card.accelerator: card for card in custody.cards}
    for accelerator in sorted(known.keys() | cards.keys()):
        card = known.get(accelerator, CardCustody(accelerator=accelerator))
        now = cards.get(accelerator)
        if now is not None:
            known[accelerator] = _extended(card, now, blind_limit=blind_limit, settles=settles, ramdisk=ramdisk)
        elif absent_breaks:
            known[accelerator] = _broken(card, BreakCause.NOT_SEEN, at)
    return _custody(known)


def polled(
    custody: Custody,
    hosts: Mapping[Ref, HostReading],
    at: datetime,
    *,
    opened: frozenset[AcceleratorId],
    blind_limit: timedelta,
    settles: timedelta = timedelta(0),
    ramdisk: bool = False,
) -> Custody:
    """The custody after the hosts alone were read, while a job works.

    Cards that are closed go on from their last whole reading; an open one goes on from here, as far as its hosts were read.

    :param hosts: by System what was read.
    :param opened: the cards that are not known to be closed, since the job has opened them.
    """
    known = {card.accelerator: card for card in custody.cards}
    for accelerator, card in known.items():
        last = card.seen
        if last is None or (last.access is Access.CLOSED and accelerator not in opened):
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
        known[accelerator] = _extended(card, now, blind_limit=blind_limit, settles=settles, ramdisk=ramdisk)
    return _custody(known)


def _extended(card: CardCustody, now: CardSeen, *, blind_limit: timedelta, settles: timedelta, ramdisk: bool) -> CardCustody:
    before = card.seen
    now = replace(now, hosts=tuple(_with_off_since(host, before, now.at) for host in now.hosts))
    if before is None:
        return replace(_broken(card, BreakCause.HOST_UNSEEN, now.at), seen=now)
    judged = between(before, now, blind_limit=blind_limit, settles=settles, ramdisk=ramdisk)
    if _not_locked(before, now) is None:
        now = replace(now, proven=True)  # as they were when they were proven
    alone = before.own_processor or now.own_processor
    return replace(
        card,
        chain=None if card.chain is None else _longer(card.chain, judged, now.at, alone=alone),
        writing=None if card.writing is None else _longer(card.writing, judged, now.at, alone=alone),
        seen=now,
    )


def _longer(chain: Chain, judged: Interval | Break, at: datetime, *, alone: bool) -> Chain:
    """The chain with one more interval, or broken.

    :param alone: a processor of the card itself may have run code of somebody else.
    """
    if chain.broken is not None:
        return chain
    if chain.until is not None and at >= chain.until:
        return _broken_chain(chain, BreakCause.ACCEPTANCE_ENDED, at)
    if isinstance(judged, Break):
        return replace(chain, broken=judged)
    return replace(
        chain,
        intervals=_joined((*chain.intervals, replace(judged, since=max(judged.since, chain.begun)))),
        covers_own_processor=chain.covers_own_processor and not alone,
    )


def _with_off_since(host: HostSeen, before: CardSeen | None, at: datetime) -> HostSeen:
    if host.reading.power is not PowerState.OFF:
        return replace(host, off_since=None)
    earlier = () if before is None else before.hosts
    known = next((h.off_since for h in earlier if h.system == host.system), None)
    return replace(host, off_since=at if known is None else known)


def _joined(intervals: tuple[Interval, ...]) -> tuple[Interval, ...]:
    """The intervals with neighbours of one kind as one, and no more than :data:`MOST_INTERVALS`."""
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
    """The custody with cards of which we are about to open a lock: they are open from here, whatever the next reading finds."""
    known = {card.accelerator: card for card in custody.cards}
    for accelerator in accelerators:
        card = known.get(accelerator)
        if card is not None and card.seen is not None:
            known[accelerator] = replace(card, seen=replace(card.seen, access=Access.OPEN, locks=(), proven=False))
    return _custody(known)


def broken(
    custody: Custody, accelerators: Iterable[AcceleratorId], cause: BreakCause, at: datetime, ref: Ref | None = None
) -> Custody:
    """The custody with the chains of these cards broken, if they were not before."""
    known = {card.accelerator: card for card in custody.cards}
    for accelerator in accelerators:
        if accelerator in known:
            known[accelerator] = _broken(known[accelerator], cause, at, ref)
    return _custody(known)


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
    """The custody with a new chain of a card, in place of the one before.

    :param at: where it begins, UTC: with the last reading of the card.
    :param by: what the catalogue calls that which was measured, or who answers for the card.
    """
    card = custody.of(accelerator)
    chain = _first(card, origin, at, by)
    return _with(custody, replace(card, chain=replace(chain, until=until, reason=reason), writing=None))


def write_begun(custody: Custody, accelerator: AcceleratorId, at: datetime, *, images: Iterable[str]) -> Custody:
    """The custody with a card that is about to be written by us. No chain of it holds until :func:`write_ended`.

    :param at: a time before the write; the chain begins with the last reading of the card before that.
    :param images: by name.
    """
    card = custody.of(accelerator)
    since = at if card.seen is None else card.seen.at
    return _with(custody, replace(card, writing=_first(card, Origin.WRITTEN, since, images)))


def write_ended(custody: Custody, accelerator: AcceleratorId, at: datetime, *, evidenced: bool) -> Custody:
    """The custody with a card of which every write has ended well.

    :param evidenced: it is shown of each of them that it has reached the card.
    """
    card = custody.of(accelerator)
    if card.writing is None:
        return custody
    chain = card.writing if evidenced else _broken_chain(card.writing, BreakCause.WRITE_UNPROVEN, at)
    return _with(custody, replace(card, chain=chain, writing=None))


def write_failed(custody: Custody, accelerator: AcceleratorId, at: datetime, *, touched: bool) -> Custody:
    """The custody with a card whose write has failed, or was cut off.

    :param touched: something of it may have reached the card; else the chain before it goes on.
    """
    card = replace(custody.of(accelerator), writing=None)
    return _with(custody, _broken(card, BreakCause.WRITE_FAILED, at) if touched else card)


def _first(card: CardCustody, origin: Origin, at: datetime, by: Iterable[str]) -> Chain:
    covers = card.seen is None or not card.seen.own_processor
    return Chain(accelerator=card.accelerator, origin=origin, begun=at, by=tuple(by), covers_own_processor=covers)


def _with(custody: Custody, card: CardCustody) -> Custody:
    return _custody({c.accelerator: c for c in custody.cards} | {card.accelerator: card})


def _custody(cards: Mapping[AcceleratorId, CardCustody]) -> Custody:
    return Custody(cards=tuple(cards[accelerator] for accelerator in sorted(cards)))


def holds(card: CardCustody, now: datetime) -> bool:
    """The chain of a card has begun, no write of it is pending, it is not broken, and its acceptance, if it is one, lasts.

    It reaches to the last reading: whoever hands the card over reads it right before.
    """
    chain = card.chain
    if chain is None or card.writing is not None or chain.broken is not None:
        return False
    return chain.until is None or now < chain.until


def in_doubt(
    custody: Custody, inventory: Inventory, baseline: Baseline, node: NodeFacts, now: datetime
) -> frozenset[AcceleratorId]:
    """The cards whose rules require a chain of custody, and whose chain is none that they take."""
    return frozenset(
        accelerator.id
        for accelerator in inventory.accelerators
        if not satisfies(custody.of(accelerator.id), demands(baseline, accelerator, node).custody, now)
    )


def satisfies(card: CardCustody, demand: CustodyDemand, now: datetime) -> bool:
    """The custody of a card is what a rule wants of it."""
    match demand:
        case CustodyDemand.REPORTED:
            return True
        case CustodyDemand.REQUIRED:
            return holds(card, now)
        case CustodyDemand.EVIDENCED:
            return holds(card, now) and card.chain is not None and card.chain.strength is Strength.EVIDENCED
        case _:
            assert_never(demand)


def slots_in_doubt(
    doubted: frozenset[AcceleratorId], inventory: Inventory, baseline: Baseline, node: NodeFacts
) -> frozenset[tuple[AcceleratorId, str]]:
    """The slots of cards in doubt that rules name: they get their function again, though they show it."""
    return frozenset(
        (accelerator.id, slot.slot_id)
        for accelerator in inventory.accelerators
        if accelerator.id in doubted
        for slot, _ in slots_wanted(accelerator, demands(baseline, accelerator, node))
        if slot is not None
    )


def findings(custody: Custody, inventory: Inventory, baseline: Baseline, node: NodeFacts, now: datetime) -> tuple[Finding, ...]:
    """What a verdict says of the custody of each card whose rules require it."""
    found = []
    for accelerator in inventory.accelerators:
        wanted = demands(baseline, accelerator, node)
        if wanted.custody is CustodyDemand.REPORTED:
            continue
        card = custody.of(accelerator.id)
        met = satisfies(card, wanted.custody, now)
        found.append(
            Finding(
                accelerator=accelerator.id,
                label=accelerator.label,
                subject='custody',
                expected=f'a chain that holds ({wanted.custody})',
                found=explain(card, now),
                met=Met.YES if met else Met.NO,
                rule=wanted.custody_rule,
            )
        )
    return tuple(found)


def explain(card: CardCustody, now: datetime) -> str:
    """One sentence for people: what the chain of a card begins with, how far it reaches, and what broke it."""
    chain = card.chain
    if card.writing is not None:
        return 'it is being written'
    if chain is None:
        return 'no chain has begun: nobody knows who has written what it runs'
    by = f' ({", ".join(chain.by)})' if chain.by else ''
    begins = f'{chain.origin} at {_time(chain.begun)}{by}'
    if chain.broken is not None:
        where = '' if chain.broken.ref is None else f', {chain.broken.ref}'
        since, until = _time(chain.broken.since), _time(chain.broken.until)
        return f'{begins}, broken between {since} and {until}: {_CAUSES[chain.broken.cause]}{where}'
    if chain.until is not None and now >= chain.until:
        return f'{begins}, accepted until {_time(chain.until)} only'
    covers = ', '.join(f'{cover} ({strength})' for cover, strength in _kinds(chain))
    alone = '' if chain.covers_own_processor else '; what its own processor runs is not covered'
    return f'{begins}, unbroken until {_time(chain.reaches)}{": " if covers else ""}{covers}{alone}'


def _kinds(chain: Chain) -> tuple[tuple[Cover, Strength], ...]:
    return tuple(dict.fromkeys((i.cover, i.strength) for i in chain.intervals))


def _time(at: datetime) -> str:
    return f'{at:%Y-%m-%d %H:%M:%S}Z'


_CAUSES: Mapping[BreakCause, str] = {
    BreakCause.HOST_RAN: 'the host ran while a path that the rules want blocked was open',
    BreakCause.HOST_UNSEEN: 'a path that the rules want blocked was open, and nothing shows that the host stayed off',
    BreakCause.PATH_OPEN: 'a path that was closed was found open',
    BreakCause.PATH_UNKNOWN: 'of a path that was closed nobody can say whether it is',
    BreakCause.LOCK_CHANGED: 'a lock is closed otherwise than it was',
    BreakCause.NOT_SEEN: 'the card was not shown',
    BreakCause.EXPOSED: 'it was found changed, or reachable, by somebody else',
    BreakCause.WRITE_FAILED: 'a write to it did not end well',
    BreakCause.WRITE_UNPROVEN: 'it was written at the version that it had, and nothing shows that the write has reached it',
    BreakCause.ACCEPTANCE_ENDED: 'its acceptance has ended',
}


# -------------------------------------------------------------------------------------------------------------------- writes


def wholly_written(made: Plan, inventory: Inventory, baseline: Baseline, node: NodeFacts) -> frozenset[AcceleratorId]:
    """The cards of which a plan writes every part that the rules name: firmware, and functions in slots.

    What no rule names is not written, and no chain says anything of it.
    """
    written: dict[AcceleratorId, set[Ref]] = {}
    for action in made.actions:
        if isinstance(action, Flash | Program):
            written.setdefault(action.accelerator, set()).add(action.ref)
    return frozenset(
        accelerator.id
        for accelerator in inventory.accelerators
        if accelerator.id in written
        and (named := _named(accelerator, demands(baseline, accelerator, node)))
        and named <= written[accelerator.id]
    )


def measured(
    custody: Custody, inventory: Inventory, baseline: Baseline, node: NodeFacts, catalogue: Iterable[Image]
) -> Custody:
    """The custody with a new chain of each card that has signed, of every part that the rules name, what the catalogue knows.

    :param inventory: a reading in which devices were asked to sign, that the custody reaches to.
    """
    images = tuple(catalogue)
    for accelerator in inventory.accelerators:
        found = measurement.matching(accelerator, inventory.accelerators, images)
        named = _named(accelerator, demands(baseline, accelerator, node))
        if custody.of(accelerator.id).writing is None and named and named <= found.keys():
            names = dict.fromkeys(name for ref in sorted(found) for name in found[ref])
            custody = begun(custody, accelerator.id, Origin.MEASURED, inventory.at, by=names)
    return custody


def _named(accelerator: Accelerator, wanted: Demands) -> set[Ref | None]:
    parts: set[Ref | None] = {None if c is None else c.ref for c, _, _ in components_wanted(accelerator, wanted)}
    parts |= {None if s is None or s.item is None else s.item.ref for s, _ in slots_wanted(accelerator, wanted)}
    return parts
