# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Custody of cards: which intervals between two readings are covered, and what breaks, begins and extends a chain."""

import itertools
import random
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from baremetal_acc.model.accelerator import Kind
from baremetal_acc.model.codec import decode, encode
from baremetal_acc.model.custody import (
    NO_CUSTODY,
    Access,
    Break,
    BreakCause,
    CardSeen,
    Cover,
    Custody,
    CustodyDemand,
    HostSeen,
    Interval,
    Origin,
    Strength,
)
from baremetal_acc.model.inventory import HostReading, PowerEvent, PowerState
from baremetal_acc.model.lock import LockState, ResetKind, WritePath
from baremetal_acc.model.measurement import MeasurementState
from baremetal_acc.model.ref import AcceleratorId, BmcName, Ref
from baremetal_acc.model.verdict import Met
from baremetal_acc.planning import custody, custody_intervals, custody_readings, custody_rules
from baremetal_acc.planning.custody_intervals import Conditions
from baremetal_acc.planning.plan import plan
from baremetal_acc.policy.baseline_rules import Baseline, Match, Rule
from baremetal_acc.render import custody as custody_words
from tests.unit.planning import refusal_words
from tests.unit.planning import test_attestation as measures
from tests.unit.planning import values as v

ON, OFF = PowerState.ON, PowerState.OFF
LIMIT = timedelta(seconds=10)
CONDITIONS = Conditions(blind_limit=LIMIT)
HALF = LIMIT / 2
LOCK = 'a'
OTHER = AcceleratorId('uuid:other')


def at(seconds: float):
    """A moment after the beginning."""
    return v.NOW + timedelta(seconds=seconds)


def reading(power: PowerState, reset: str | None = None, bmc: str = 'b') -> HostReading:
    """Of the host: by default by a BMC that has not restarted, and keeps the time of the last reset, or none of that."""
    return HostReading(power=power, last_reset=reset, bmc_reset=None if reset is None else bmc)


def card(seconds: float, power: PowerState, *, closed: bool = True, reset: str | None = None, **changes) -> CardSeen:
    """A reading of a card: by default its lock is closed and proven."""
    access = Access.CLOSED if closed else Access.OPEN
    hosts = (HostSeen(system=v.SYSTEM, reading=reading(power, reset)),)
    locks = (LOCK,) if closed else ()
    return replace(CardSeen(at=at(seconds), access=access, hosts=hosts, locks=locks, proven=closed), **changes)


def judged(before: CardSeen, after: CardSeen, **how):
    """What covers an interval, and how well; or what breaks the chain."""
    conditions = Conditions(blind_limit=LIMIT, ramdisk=how.pop('ramdisk', False))
    found = custody_intervals.between(before, after, conditions, **{'dependable': frozenset({v.SYSTEM})} | how)
    if isinstance(found, Break):
        return found.cause
    assert (before.at, after.at) == (found.since, found.until)
    return (found.cover, found.strength)


def begun(seen: CardSeen) -> Custody:
    """A chain that begins with a write, at that reading."""
    return custody.begun(start(seen), v.GPU, Origin.WRITTEN, seen.at, by=['gpu-new'])


def start(seen: CardSeen) -> Custody:
    """A card that was read once, on a machine whose BMC is known to set the time of the last reset at a start."""
    return read(Custody(dependable=(v.SYSTEM,)), seen)


def read(kept: Custody, seen: CardSeen | None, seconds: float = 0, **how) -> Custody:
    """A whole reading of the machine."""
    when = at(seconds) if seen is None else seen.at
    given = {name: how.pop(name) for name in ('settles', 'ramdisk') if name in how}
    return custody.read(kept, {} if seen is None else {v.GPU: seen}, when, Conditions(blind_limit=LIMIT, **given), **how)


def chain(kept: Custody):
    """The chain of the card."""
    return kept.of(v.GPU).chain


# ---------------------------------------------------------------------------------------------------------------- intervals

HOST_OFF = (Cover.HOST_OFF, Strength.EVIDENCED)
POLLED = (Cover.HOST_OFF, Strength.POLLED)
LOCKED = (Cover.LOCKED, Strength.EVIDENCED)


@pytest.mark.parametrize(
    ('before', 'after', 'expected'),
    [
        # the host is off, and a source shows that it stayed off, however long nobody looked
        (card(0, OFF, closed=False, reset='1'), card(9999, OFF, closed=False, reset='1'), HOST_OFF),
        (card(0, OFF, reset='1'), card(9999, OFF, closed=False, reset='1'), HOST_OFF),
        # only the power state tells: two readings no further apart than a host needs to start
        (card(0, OFF, closed=False), card(10, OFF, closed=False), POLLED),
        (card(0, OFF, closed=False), card(10.001, OFF, closed=False), BreakCause.HOST_UNSEEN),
        (card(0, OFF, closed=False), card(5, PowerState.UNKNOWN, closed=False), BreakCause.HOST_UNSEEN),
        # it has run
        (card(0, OFF, closed=False, reset='1'), card(5, OFF, closed=False, reset='2'), BreakCause.HOST_RAN),
        (card(0, OFF, closed=False), card(5, ON, closed=False), BreakCause.HOST_RAN),
        (card(0, ON, closed=False), card(5, OFF, closed=False), BreakCause.HOST_RAN),
        (card(0, ON, closed=False), card(5, ON, closed=True), BreakCause.HOST_RAN),
        # closed at both ends: the host may do what it likes, and nobody has to look meanwhile
        (card(0, ON), card(9999, ON), LOCKED),
        (card(0, ON, reset='1'), card(9999, ON, reset='5'), LOCKED),
        (card(0, OFF), card(9999, ON), LOCKED),
        (card(0, OFF), card(9999, OFF), LOCKED),
        (card(0, ON), card(9999, ON, proven=False), LOCKED),
        (card(0, ON), card(9999, ON, locks=(LOCK, 'b')), LOCKED),
        # closed at its start, and not as before at its end
        (card(0, ON), card(5, ON, closed=False), BreakCause.PATH_OPEN),
        (card(0, ON), card(5, ON, access=Access.UNKNOWN), BreakCause.PATH_UNKNOWN),
        (card(0, ON), card(5, ON, locks=('b',)), BreakCause.LOCK_CHANGED),
        # found closed is not proven closed
        (card(0, ON, proven=False), card(5, ON), BreakCause.HOST_RAN),
        (card(0, ON, access=Access.UNKNOWN), card(5, ON), BreakCause.HOST_RAN),
        # no System is known
        (card(0, OFF, closed=False, hosts=()), card(1, OFF, closed=False, hosts=()), BreakCause.HOST_UNSEEN),
        (card(0, OFF, closed=False, reset='1'), card(1, OFF, closed=False, hosts=()), BreakCause.HOST_UNSEEN),
    ],
)
def test_what_covers_an_interval(before, after, expected):
    """Two readings decide, and nothing else."""
    assert expected == judged(before, after)


@pytest.mark.parametrize(('ended', 'expected'), [(10, POLLED), (10.001, BreakCause.HOST_UNSEEN)])
def test_the_time_between_two_readings_of_a_power_ends_with_the_later_reading(ended, expected):
    """When the power was read of the time that a reading takes nobody knows. Nobody takes it for granted that it was early."""
    before, after = card(0, OFF, closed=False), card(5, OFF, closed=False)
    assert expected == judged(before, after, by=at(ended))
    whole = read(begun(before), after, by=at(ended))
    hosts = {v.SYSTEM: HostReading(power=OFF)}
    alone = custody.polled(begun(before), hosts, at(5), CONDITIONS, opened=frozenset(), by=at(ended))
    for kept in (whole, alone):
        cause = chain(kept).broken and chain(kept).broken.cause
        assert cause == (expected if isinstance(expected, BreakCause) else None)


def test_how_long_nobody_may_look_is_the_operators():
    """Of a host that starts faster than others, or slower."""
    before, after = card(0, OFF, closed=False), card(15, OFF, closed=False)
    slow, fast = (Conditions(blind_limit=timedelta(seconds=seconds)) for seconds in (15, 14))
    assert Cover.HOST_OFF is custody_intervals.between(before, after, slow).cover
    assert BreakCause.HOST_UNSEEN is custody_intervals.between(before, after, fast).cause


def test_only_the_operators_ramdisk_may_run_beside_an_open_card():
    """And what reads closed at both ends is locked all the same."""
    assert (Cover.RAMDISK, Strength.POLLED) == judged(card(0, ON, closed=False), card(99, ON, closed=False), ramdisk=True)
    assert LOCKED == judged(card(0, ON), card(99, ON), ramdisk=True)
    before, after = card(0, ON, closed=False, reset='1'), card(99, ON, closed=False, reset='1')
    assert (Cover.RAMDISK, Strength.EVIDENCED) == judged(before, after, ramdisk=True)
    assert BreakCause.HOST_RAN == judged(before, card(99, ON, closed=False, reset='2'), ramdisk=True)


@pytest.mark.parametrize(
    ('then', 'now', 'expected'),
    [
        ({'last_reset': '1', 'bmc_reset': 'b'}, {'last_reset': '1', 'bmc_reset': 'b'}, Strength.EVIDENCED),
        ({'last_reset': '1', 'bmc_reset': 'b'}, {'last_reset': '1', 'bmc_reset': 'c'}, BreakCause.HOST_RAN),
        ({'last_reset': '1'}, {'last_reset': '1'}, Strength.POLLED),
        ({'last_reset': '1', 'bmc_reset': 'b'}, {'last_reset': '1'}, Strength.POLLED),
        ({'bmc_reset': 'b'}, {'bmc_reset': 'b'}, Strength.POLLED),
        ({'restart_cause': 'a'}, {'restart_cause': 'b'}, BreakCause.HOST_RAN),
        ({'restart_cause': 'a'}, {}, Strength.POLLED),
        ({'power_event': frozenset()}, {'power_event': frozenset({PowerEvent.MAINS_LOST})}, BreakCause.HOST_RAN),
        ({'power_event': frozenset()}, {}, Strength.POLLED),
        ({}, {'power_event': frozenset()}, Strength.POLLED),
    ],
)
def test_a_host_that_was_reset_may_have_booted_something_else_than_the_ramdisk(then, now, expected):
    """And where the BMC keeps no times, or has restarted itself, a reset need not show."""
    before, after = (
        card(at, ON, closed=False, hosts=(HostSeen(system=v.SYSTEM, reading=HostReading(power=ON, **said)),))
        for at, said in ((0, then), (5, now))
    )
    found = judged(before, after, ramdisk=True)
    assert expected == (found[1] if isinstance(found, tuple) else found)
    assert BreakCause.HOST_UNSEEN == judged(before, replace(after, hosts=()), ramdisk=True)


@pytest.mark.parametrize('power', [ON, OFF])
def test_of_a_card_that_another_machine_has_too_no_host_is_known(power):
    """The power of the target's own host says nothing of the other one, which may write the card as well."""
    facts = v.facts(power=power, last_reset='1')
    for shared, hosts in ((), 1), (v.gpu().refs, 0), ((v.fpga().primary,), 1):
        seen = v.inventory(bmcs=(facts,), shared=shared)
        found = custody_readings.seen(seen, v.baseline(), v.NODE, (), lifecycle=1, before=NO_CUSTODY)[v.GPU]
        assert (hosts, bool(hosts) and power is OFF) == (len(found.hosts), custody_readings.is_host_off(found))


@pytest.mark.parametrize('ramdisk', [False, True])
def test_a_card_of_which_no_host_is_known_is_covered_by_its_locks_alone(ramdisk):
    """What the operator's ramdisk is to a host it is to no other one."""
    bare, closed = (card(0, ON, closed=closed, hosts=()) for closed in (False, True))
    assert BreakCause.HOST_UNSEEN == judged(bare, replace(bare, at=at(1)), ramdisk=ramdisk)
    assert LOCKED == judged(closed, replace(closed, at=at(1)), ramdisk=ramdisk)


def test_a_lock_that_we_open_counts_as_open_from_there_whatever_is_read_next():
    """Whoever dies after that may find it closed again by somebody else, after the host has run."""
    kept = custody.opened(begun(card(0, ON)), [v.GPU, v.FPGA])
    assert BreakCause.HOST_RAN is chain(read(kept, card(5, ON))).broken.cause
    kept = custody.opened(begun(card(0, OFF, reset='1')), [v.GPU])
    assert custody.holds(read(kept, card(5, OFF, reset='1')).of(v.GPU), at(5))


def test_the_time_of_the_last_reset_may_settle_after_a_host_was_powered_off():
    """A BMC writes it a moment after it calls the host off."""
    kept = begun(card(0, OFF, closed=False, reset='1'))
    kept = read(read(kept, card(5, OFF, closed=False, reset='2'), settles=LIMIT), card(15, OFF, closed=False, reset='2'))
    assert custody.holds(kept.of(v.GPU), at(15))
    late = read(kept, card(20, OFF, closed=False, reset='3'), settles=LIMIT)
    assert BreakCause.HOST_RAN is chain(late).broken.cause
    last = read(begun(card(0, OFF, closed=False, reset='1')), card(10, OFF, closed=False, reset='2'), settles=LIMIT)
    assert custody.holds(last.of(v.GPU), at(10))
    at_once = read(begun(card(0, OFF, closed=False, reset='1')), card(5, OFF, closed=False, reset='2'))
    assert BreakCause.HOST_RAN is chain(at_once).broken.cause


def test_the_time_in_which_it_may_settle_begins_with_the_first_reading_that_finds_the_host_off():
    """And again with the next power-off, not with each reading."""
    kept = begun(card(0, ON))
    for seconds, power, reset in ((5, ON, '1'), (10, OFF, '1'), (18, OFF, '2'), (25, OFF, '2')):
        kept = read(kept, card(seconds, power, closed=power is ON or seconds == 10, reset=reset), settles=LIMIT)
    assert at(10) == kept.of(v.GPU).seen.hosts[0].off_since
    assert custody.holds(kept.of(v.GPU), at(25))


# ------------------------------------------------------------------------------------------------------------------- chains


def test_no_chain_holds_before_one_has_begun():
    """Of a card that nobody has written or accepted nobody knows what it runs, however well it is locked."""
    kept = read(start(card(0, ON)), card(5, ON))
    assert not custody.holds(kept.of(v.GPU), at(5))
    assert not custody.holds(Custody().of(v.GPU), at(5))


def test_a_chain_goes_on_from_the_write_to_the_tenant_and_back():
    """Off while it is open, closed before the host starts, closed when the tenant has gone: as a node lives."""
    kept = begun(card(0, OFF, closed=False))
    kept = custody.polled(kept, {v.SYSTEM: HostReading(power=OFF)}, at(5), opened=frozenset({v.GPU}), conditions=CONDITIONS)
    for seen in (card(10, OFF), card(20, ON), card(9999, ON, proven=False), card(10100, OFF, proven=False)):
        kept = read(kept, seen)
    found = chain(kept)
    assert custody.holds(kept.of(v.GPU), at(10100))
    assert (at(0), at(10100), Strength.POLLED) == (found.begun, found.reaches, found.strength)
    assert [(Cover.HOST_OFF, at(0), at(10)), (Cover.LOCKED, at(10), at(10100))] == [
        (i.cover, i.since, i.until) for i in found.intervals
    ]
    assert kept == decode(Custody, encode(kept))


def test_a_broken_chain_stays_broken_whatever_is_read_later():
    """The lock is closed again: nobody knows what was written before."""
    kept = read(begun(card(0, ON)), card(5, ON, closed=False))
    first = chain(kept).broken
    kept = read(read(kept, card(10, ON)), card(15, ON, closed=False))
    assert (BreakCause.PATH_OPEN, at(0), at(5)) == (first.cause, first.since, first.until)
    assert first == chain(kept).broken
    assert not custody.holds(kept.of(v.GPU), at(15))


def test_a_new_beginning_mends_it():
    """The card is written again."""
    kept = read(begun(card(0, ON)), card(5, ON, closed=False))
    kept = custody.begun(read(kept, card(9, OFF, closed=False)), v.GPU, Origin.WRITTEN, at(9), by=['gpu-new'])
    assert custody.holds(kept.of(v.GPU), at(9))
    assert () == chain(kept).intervals


def test_a_host_that_was_restarted_beside_a_job_does_not_run_the_ramdisk_any_more():
    """Also where its cards were closed just then, and are opened later in the same boot: life 20261126240342."""
    kept = begun(card(0, ON, reset='1'))
    kept = read(kept, card(50, ON, reset='2'), ramdisk=True)
    assert chain(kept).broken is None
    assert kept.of(v.GPU).seen.restarted
    kept = read(kept, card(60, ON, reset='2'), ramdisk=True)
    opened = read(kept, card(70, ON, closed=False, reset='2'), ramdisk=True)
    assert BreakCause.PATH_OPEN == chain(opened).broken.cause
    open_at_once = custody.opened(kept, [v.GPU])
    assert BreakCause.HOST_RAN == chain(read(open_at_once, card(70, ON, reset='2'), ramdisk=True)).broken.cause


@pytest.mark.parametrize(
    ('between', 'gone'),
    [
        # Ironic boots the ramdisk again: the host is restarted while no job works
        (card(70, ON, reset='3'), False),
        # the next job of the same cleaning
        (card(70, ON, reset='2'), True),
    ],
)
def test_the_ramdisk_counts_again_once_it_was_booted_again(between, gone):
    """A restart between two jobs is Ironic's."""
    kept = read(begun(card(0, ON, reset='1')), card(50, ON, reset='2'), ramdisk=True)
    kept = read(kept, between)
    assert gone is kept.of(v.GPU).seen.restarted
    kept = custody.opened(kept, [v.GPU])
    after = chain(read(kept, card(80, ON, closed=False, reset=between.hosts[0].reading.last_reset), ramdisk=True))
    assert gone is (after.broken is not None)
    assert gone or Cover.RAMDISK is after.intervals[-1].cover


@pytest.mark.parametrize('seconds', [60, 61])
def test_an_acceptance_ends(seconds):
    """Who answers for a card says until when."""
    kept = custody.begun(start(card(0, ON)), v.GPU, Origin.ACCEPTED, at(0), by=['ada'], until=at(60), reason='day one')
    assert custody.holds(kept.of(v.GPU), at(59))
    assert not custody.holds(kept.of(v.GPU), at(seconds))
    kept = read(kept, card(seconds, ON))
    assert BreakCause.ACCEPTANCE_ENDED is chain(kept).broken.cause


def test_each_interval_begins_where_the_one_before_it_ended_though_the_clock_is_put_back():
    """Behind the beginning of the chain, too; a certificate whose intervals leave a gap is refused."""
    kept = begun(card(6000, ON))
    for seconds, power in ((6010, ON), (10, OFF), (20, OFF), (30, ON)):
        kept = read(kept, card(seconds, power, reset='1' if power is OFF else None))
    found = chain(kept)
    assert None is found.broken
    assert [found.begun, *(i.until for i in found.intervals[:-1])] == [i.since for i in found.intervals]
    assert at(30) == found.reaches


def test_a_card_that_is_not_shown_breaks_its_chain_unless_it_was_just_written():
    """It may be in another machine."""
    kept = begun(card(0, ON))
    assert kept == read(kept, None, 5, absent_breaks=False)
    kept = read(kept, None, 5)
    assert (BreakCause.NOT_SEEN, at(0), at(5)) == (chain(kept).broken.cause, chain(kept).broken.since, chain(kept).broken.until)


def test_a_break_that_somebody_else_found_counts():
    """The watch, or a job that has met what it did not make; the first cause stays."""
    kept = custody.broken(begun(card(0, ON)), [v.GPU, v.FPGA], BreakCause.EXPOSED, at(7), v.SYSTEM)
    kept = custody.broken(kept, [v.GPU], BreakCause.WRITE_FAILED, at(8))
    assert Break(cause=BreakCause.EXPOSED, since=at(0), until=at(7), ref=v.SYSTEM) == chain(kept).broken
    assert 1 == len(kept.cards)


def test_a_closed_card_goes_on_from_its_last_whole_reading_while_a_job_works_on_another_one():
    """Readings of the host alone say nothing of its lock."""
    kept = begun(card(0, ON))
    assert kept == custody.polled(kept, {v.SYSTEM: HostReading(power=ON)}, at(5), opened=frozenset(), conditions=CONDITIONS)


def test_a_card_that_was_found_closed_and_not_proven_so_goes_on_from_each_reading_of_a_host_that_is_off():
    """Only the host covers it, as it does an open one: who waits for the next whole reading has lost that evidence."""
    kept = begun(card(0, OFF, proven=False))
    for seconds in (8, 16, 24):
        kept = custody.polled(kept, {v.SYSTEM: HostReading(power=OFF)}, at(seconds), opened=frozenset(), conditions=CONDITIONS)
    kept = read(kept, card(32, OFF))
    assert (None, at(32)) == (chain(kept).broken, chain(kept).reaches)


def test_a_host_that_was_not_read_extends_nothing():
    """Its BMC was silent: the next reading that succeeds is compared with the last one that did."""
    kept = begun(card(0, OFF, closed=False))
    assert kept == custody.polled(kept, {}, at(5), opened=frozenset({v.GPU}), conditions=CONDITIONS)
    kept = custody.polled(kept, {v.SYSTEM: HostReading(power=OFF)}, at(15), opened=frozenset({v.GPU}), conditions=CONDITIONS)
    assert BreakCause.HOST_UNSEEN is chain(kept).broken.cause


def test_a_chain_without_a_reading_to_go_on_from_is_broken():
    """What was stored was lost."""
    kept = begun(card(0, ON))
    lost = Custody(cards=(replace(kept.cards[0], seen=None),))
    assert BreakCause.HOST_UNSEEN is chain(read(lost, card(5, ON))).broken.cause


def test_old_intervals_are_joined_without_becoming_better():
    """The number of intervals is bounded, their times have no gaps, and a polled one stays polled."""
    kept = begun(card(0, OFF, closed=False))
    seconds = 0
    for number in range(3 * custody.MOST_INTERVALS):
        seconds += 5
        kept = read(kept, card(seconds, OFF, closed=number % 2 == 0))
        kept = read(kept, card(seconds + 1000, OFF if number % 2 else ON, closed=number % 2 == 0, reset=str(number)))
        if chain(kept).broken is not None:
            break
        seconds += 1000
    for number in range(40):
        kept = read(begun(card(0, OFF, closed=False)) if not number else kept, card(number * 8 + 4, OFF))
        kept = read(kept, card(number * 8 + 8, OFF, closed=False))
    found = chain(kept).intervals
    assert len(found) <= custody.MOST_INTERVALS
    assert all(a.until == b.since for a, b in itertools.pairwise(found))
    assert Strength.POLLED is chain(kept).strength


def test_joined_intervals_say_that_they_are_several():
    """Of the oldest the cover is not told any more where it was not one."""
    many = tuple(
        Interval(
            since=at(n),
            until=at(n + 1),
            cover=(Cover.LOCKED, Cover.HOST_OFF)[n % 2],
            strength=(Strength.EVIDENCED, Strength.POLLED)[n % 2],
        )
        for n in range(40)
    )
    kept = begun(card(0, OFF))
    one = kept.cards[0]
    kept = Custody(cards=(replace(one, chain=replace(one.chain, intervals=many), seen=card(40, OFF)),))
    found = chain(read(kept, card(50, OFF))).intervals
    assert custody.MOST_INTERVALS == len(found)
    assert (Cover.SEVERAL, Strength.POLLED, at(0)) == (found[0].cover, found[0].strength, found[0].since)
    assert at(50) == found[-1].until


def two(first: CardSeen, second: CardSeen, third: CardSeen | None = None) -> Custody:
    """Three cards of one machine whose chains have begun."""
    cards = {v.FPGA: first, v.GPU: second, OTHER: third or second}
    kept = custody.read(Custody(), cards, first.at, conditions=CONDITIONS)
    for accelerator in cards:
        kept = custody.begun(kept, accelerator, Origin.WRITTEN, first.at, by=[])
    return kept


def test_readings_of_the_host_extend_each_open_card_and_no_closed_one():
    """Whatever stands beside it; an open card stays open, and unproven, until it is read."""
    lost = card(0, OFF, closed=False, hosts=())
    for first, second, third in itertools.permutations((card(0, OFF), card(0, OFF, closed=False), lost)):
        before = two(first, second, third)
        kept = custody.polled(before, {v.SYSTEM: HostReading(power=OFF)}, at(5), opened=frozenset(), conditions=CONDITIONS)
        reached = {c.accelerator: c.chain.reaches for c in kept.cards}
        expected = {
            accelerator: at(5) if seen.access is Access.OPEN and seen.hosts else at(0)
            for accelerator, seen in ((v.FPGA, first), (v.GPU, second), (OTHER, third))
        }
        assert expected == reached
    kept = custody.polled(
        begun(card(0, OFF)), {v.SYSTEM: HostReading(power=OFF)}, at(5), opened=frozenset({v.GPU}), conditions=CONDITIONS
    )
    seen = kept.of(v.GPU).seen
    assert (at(5), Access.OPEN, (), False) == (seen.at, seen.access, seen.locks, seen.proven)


def test_a_lock_that_is_opened_leaves_nothing_of_what_was_proven():
    """Nor its place."""
    seen = custody.opened(begun(card(0, OFF)), [v.GPU]).of(v.GPU).seen
    assert (at(0), Access.OPEN, (), False) == (seen.at, seen.access, seen.locks, seen.proven)


def test_a_host_that_was_on_between_has_been_off_since_it_was_read_off_again():
    """Read alone, or with its cards."""
    kept = begun(card(0, OFF, closed=False))
    for seconds, power in ((4, OFF), (8, ON), (12, OFF), (16, OFF)):
        hosts = {v.SYSTEM: HostReading(power=power)}
        kept = custody.polled(kept, hosts, at(seconds), opened=frozenset(), conditions=CONDITIONS)
        assert (None if power is ON else at(0) if seconds < 8 else at(12)) == kept.of(v.GPU).seen.hosts[0].off_since


def test_what_breaks_a_chain_breaks_the_one_that_begins_with_a_write_under_way():
    """The card is not what we make of it."""
    kept = custody.write_begun(begun(card(0, OFF)), v.GPU, at(1), images=['gpu-new'])
    assert at(0) == kept.of(v.GPU).writing.begun, 'the last reading before the write'
    kept = custody.broken(kept, [v.GPU], BreakCause.EXPOSED, at(3), v.SYSTEM)
    assert Break(cause=BreakCause.EXPOSED, since=at(0), until=at(3), ref=v.SYSTEM) == kept.of(v.GPU).writing.broken
    ended = custody.write_ended(kept, v.GPU, at(4), evidenced=True)
    assert BreakCause.EXPOSED is chain(ended).broken.cause
    assert None is custody.begun(kept, v.GPU, Origin.ACCEPTED, at(3), by=['ada']).of(v.GPU).writing
    assert at(1) == custody.write_begun(Custody(), v.GPU, at(1), images=[]).of(v.GPU).writing.begun


def test_a_chain_covers_the_time_since_it_has_begun_and_no_more():
    """The reading before that was another life of the card."""
    kept = custody.begun(start(card(0, ON)), v.GPU, Origin.MEASURED, at(3), by=[], reason='asked')
    found = chain(read(kept, card(5, ON)))
    assert [(at(3), at(5))] == [(i.since, i.until) for i in found.intervals]
    assert 'asked' == found.reason


@pytest.mark.parametrize(('before', 'after'), [(True, False), (False, True), (True, True)])
def test_a_processor_of_the_card_that_ran_at_either_end_is_not_covered(before, after):
    """And stays so."""
    kept = begun(card(0, ON))
    kept = Custody(cards=(replace(kept.cards[0], seen=card(0, ON, own_processor=before)),))
    kept = read(kept, card(5, ON, own_processor=after))
    assert chain(kept).covers_own_processor is False
    assert chain(read(kept, card(9, ON))).covers_own_processor is False
    assert chain(read(begun(card(0, ON)), card(5, ON))).covers_own_processor is True


@pytest.mark.parametrize(
    ('kinds', 'first'),
    [
        (((Cover.LOCKED, Strength.EVIDENCED), (Cover.LOCKED, Strength.POLLED)), (Cover.LOCKED, Strength.POLLED)),
        (((Cover.LOCKED, Strength.EVIDENCED), (Cover.HOST_OFF, Strength.EVIDENCED)), (Cover.SEVERAL, Strength.EVIDENCED)),
        (((Cover.LOCKED, Strength.POLLED), (Cover.HOST_OFF, Strength.POLLED)), (Cover.SEVERAL, Strength.POLLED)),
    ],
)
def test_two_intervals_are_joined_as_the_weaker_of_them(kinds, first):
    """And told by name where they are of one kind."""
    many = tuple(
        Interval(since=at(n), until=at(n + 1), cover=kinds[n % 2][0], strength=kinds[n % 2][1])
        for n in range(custody.MOST_INTERVALS)
    )
    kept = begun(card(0, OFF))
    one = kept.cards[0]
    end = card(custody.MOST_INTERVALS, ON, closed=False)
    kept = Custody(cards=(replace(one, chain=replace(one.chain, intervals=many), seen=end),))
    found = chain(read(kept, card(50, ON, closed=False), ramdisk=True)).intervals
    assert custody.MOST_INTERVALS == len(found)
    assert first == (found[0].cover, found[0].strength)
    assert (at(0), at(2)) == (found[0].since, found[0].until)


@pytest.mark.parametrize(
    ('seconds', 'how', 'after', 'expected'),
    [
        (9999, {}, reading(OFF, '1'), HOST_OFF),
        # its BMC was never seen to set the time at a start
        (9999, {'dependable': frozenset()}, reading(OFF, '1'), BreakCause.HOST_UNSEEN),
        (5, {'dependable': frozenset()}, reading(OFF, '1'), POLLED),
        # it has restarted, or nobody knows whether it has: it saw nothing meanwhile
        (9999, {}, reading(OFF, '1', bmc='c'), BreakCause.HOST_UNSEEN),
        (9999, {}, HostReading(power=OFF, last_reset='1'), BreakCause.HOST_UNSEEN),
        (5, {}, reading(OFF, '1', bmc='c'), POLLED),
        # another source shows that it has run
        (5, {}, replace(reading(OFF, '1'), restart_cause='wake'), BreakCause.HOST_RAN),
    ],
)
def test_the_time_of_the_last_reset_counts_where_it_could_not_have_missed_a_start(seconds, how, after, expected):
    """Of a BMC that sets it at a start, and that has not restarted meanwhile."""
    first = HostSeen(system=v.SYSTEM, reading=replace(reading(OFF, '1'), restart_cause='button'))
    before = card(0, OFF, closed=False, hosts=(first,))
    assert expected == judged(before, card(seconds, OFF, closed=False, hosts=(replace(first, reading=after),)), **how)


def test_a_bmc_is_seen_to_set_the_time_of_the_last_reset_at_a_start():
    """And not believed any more once it was seen not to; a power-off that has not settled teaches nothing."""
    kept = read(read(Custody(), card(0, OFF, reset='1')), card(20, OFF, reset='1'), settles=LIMIT)
    assert () == kept.dependable
    kept = read(kept, card(40, ON, reset='2'), settles=LIMIT)
    assert (v.SYSTEM,) == kept.dependable
    kept = read(kept, card(60, ON, reset='3'), settles=LIMIT)
    assert (v.SYSTEM,) == kept.dependable
    at_once = read(read(kept, card(80, OFF, reset='4'), settles=LIMIT), card(85, ON, reset='4'), settles=LIMIT)
    assert (v.SYSTEM,) == at_once.dependable, 'it may have been set by the power-off'
    kept = read(read(kept, card(80, OFF, reset='4')), card(95, OFF, reset='4'), settles=LIMIT)
    assert (v.SYSTEM,) == kept.dependable
    assert () == read(kept, card(99, ON, reset='4'), settles=LIMIT).dependable
    soon = read(read(Custody(), card(0, OFF, reset='1')), card(5, ON, reset='2'), settles=LIMIT)
    assert () == soon.dependable
    assert kept == decode(Custody, encode(kept))


def test_a_poll_leaves_to_the_next_whole_reading_what_only_that_can_tell():
    """An upload may take minutes: the whole reading asks the BMC whether it has restarted, and judges all of it."""
    kept = begun(card(0, OFF, closed=False, reset='1'))
    polls = custody.polled(
        kept, {v.SYSTEM: HostReading(power=OFF, last_reset='1')}, at(99), opened=frozenset(), conditions=CONDITIONS
    )
    assert kept == polls
    assert Strength.EVIDENCED is chain(read(polls, card(120, OFF, closed=False, reset='1'))).strength
    silent = begun(
        card(0, OFF, closed=False, hosts=(HostSeen(system=v.SYSTEM, reading=HostReading(power=OFF, last_reset='1')),))
    )
    polls = custody.polled(
        silent, {v.SYSTEM: HostReading(power=OFF, last_reset='1')}, at(9), opened=frozenset(), conditions=CONDITIONS
    )
    assert at(9) == chain(polls).reaches, 'nothing will tell later whether that BMC has restarted'
    polls = kept
    restarted = card(120, OFF, closed=False, hosts=(HostSeen(system=v.SYSTEM, reading=reading(OFF, '1', bmc='c')),))
    assert BreakCause.HOST_UNSEEN is chain(read(polls, restarted)).broken.cause
    ran = custody.polled(
        kept, {v.SYSTEM: HostReading(power=OFF, last_reset='2')}, at(99), opened=frozenset(), conditions=CONDITIONS
    )
    assert BreakCause.HOST_RAN is chain(ran).broken.cause


def test_a_clock_that_was_put_back_covers_nothing():
    """Nobody can say how far apart the two readings are."""
    assert BreakCause.HOST_UNSEEN == judged(card(5, OFF, closed=False), card(0, OFF, closed=False))
    kept = begun(card(5, OFF, closed=False, reset='1'))
    kept = read(read(kept, card(6, OFF, closed=False, reset='1')), card(0, OFF, closed=False, reset='2'), settles=LIMIT)
    assert BreakCause.HOST_RAN is chain(kept).broken.cause


def test_what_changes_while_a_host_is_read_alone_for_long_is_not_of_its_power_off():
    """What the BMC says may have been read when that had settled."""
    kept, polled = begun(card(0, OFF, closed=False, reset='1')), {v.SYSTEM: HostReading(power=OFF, last_reset='2')}
    conditions = Conditions(blind_limit=LIMIT, settles=LIMIT)
    assert kept == custody.polled(kept, polled, at(5), conditions, opened=frozenset(), by=at(10))
    late = custody.polled(kept, polled, at(5), conditions, opened=frozenset(), by=at(10.001))
    assert BreakCause.HOST_RAN is chain(late).broken.cause


def test_a_card_that_is_left_to_the_next_whole_reading_holds_up_no_other():
    """Of one the last reset of its BMC is known, of the other it is not."""
    known = card(0, OFF, closed=False, reset='1')
    unknown = replace(known, hosts=(HostSeen(system=v.SYSTEM, reading=HostReading(power=OFF, last_reset='1')),))
    kept = replace(two(known, unknown, known), dependable=(v.SYSTEM,))
    polled = {v.SYSTEM: HostReading(power=OFF, last_reset='1')}
    kept = custody.polled(kept, polled, at(5), CONDITIONS, opened=frozenset())
    assert {v.FPGA: at(0), v.GPU: at(5), OTHER: at(0)} == {c.accelerator: c.chain.reaches for c in kept.cards}


@pytest.mark.parametrize('ended', [5, 6])
def test_a_reading_in_which_its_host_was_read_alone_goes_on_from_there(ended):
    """It began before that and ended after it: no time is covered twice, and none is missing."""
    kept, hosts = begun(card(0, OFF, closed=False)), {v.SYSTEM: HostReading(power=OFF)}
    kept = custody.polled(kept, hosts, at(5), CONDITIONS, opened=frozenset())
    kept = read(kept, card(3, OFF, closed=False), by=at(ended))
    assert (at(5), at(5), None) == (chain(kept).reaches, kept.of(v.GPU).seen.at, chain(kept).broken)


@pytest.mark.parametrize(('seconds', 'learnt'), [(9.999, ()), (10, (v.SYSTEM,))])
def test_a_power_off_has_settled_when_its_time_is_over(seconds, learnt):
    """What changes from then on is of a start."""
    kept = read(read(Custody(), card(0, OFF, reset='1')), card(seconds, OFF, reset='1'), settles=LIMIT)
    assert learnt == read(kept, card(40, ON, reset='2'), settles=LIMIT).dependable


def test_each_system_that_reaches_a_card_teaches_for_itself():
    """One that stays off hides no start of another one, in either order."""
    other = Ref(bmc=v.SYSTEM.bmc, uri='/redfish/v1/Systems/2')
    stays = HostSeen(system=other, reading=reading(OFF, '1'))
    for place in (0, 1):
        kept = Custody()
        for seconds, power, reset in ((0, OFF, '1'), (20, OFF, '1'), (40, ON, '2')):
            starts = HostSeen(system=v.SYSTEM, reading=reading(power, reset))
            hosts = (stays, starts) if place else (starts, stays)
            kept = read(kept, card(seconds, power, hosts=hosts), settles=LIMIT)
        assert (v.SYSTEM,) == kept.dependable


@pytest.mark.parametrize(
    ('seen', 'off', 'kept'),
    [
        (card(0, OFF, closed=False), True, True),
        (card(0, PowerState.UNKNOWN, closed=False), False, False),
        (card(0, ON, closed=False), False, False),
        (card(0, ON), False, True),
        (card(0, ON, proven=False), False, False),
        (card(0, ON, access=Access.UNKNOWN), False, False),
        # no System is known that reaches it
        (card(0, OFF, closed=False, hosts=()), False, False),
        (card(0, OFF, hosts=()), False, True),
    ],
)
def test_a_chain_may_begin_where_the_host_is_off_or_the_card_is_proven_closed(seen, off, kept):
    """At another time its acceptance is refused: the next reading would break it."""
    assert (off, kept) == (custody_readings.is_host_off(seen), custody_readings.is_kept(seen))


def test_a_card_that_one_of_two_hosts_reaches_is_not_behind_a_host_that_is_off():
    """Each of them has to be."""
    hosts = tuple(
        HostSeen(system=Ref(bmc=v.SYSTEM.bmc, uri=f'/redfish/v1/Systems/{n}'), reading=reading(power))
        for n, power in enumerate((OFF, ON))
    )
    assert not custody_readings.is_host_off(card(0, OFF, hosts=hosts))


def test_whether_a_reading_breaks_a_chain():
    """One that was broken before, and one that has not begun, are no news."""
    whole, nothing = begun(card(0, ON)), start(card(0, ON))
    broken = custody.broken(whole, [v.GPU], BreakCause.EXPOSED, at(1))
    assert custody.breaks(whole, broken)
    assert not custody.breaks(broken, broken)
    assert not custody.breaks(whole, whole)
    assert not custody.breaks(nothing, broken)
    assert not custody.breaks(whole, nothing)


def test_a_break_names_what_showed_it():
    """The System, or nothing where none is known."""
    assert (
        v.SYSTEM == custody_intervals.between(card(0, OFF, closed=False), card(5, ON, closed=False), conditions=CONDITIONS).ref
    )
    assert (
        None
        is custody_intervals.between(card(0, ON, closed=False), card(5, ON, closed=False, hosts=()), conditions=CONDITIONS).ref
    )


# --------------------------------------------------------------------------------------------------------------------- rules


@pytest.mark.parametrize(
    ('demand', 'polled', 'broken', 'doubted'),
    [
        (None, True, False, False),
        (None, False, True, True),
        (CustodyDemand.REPORTED, True, True, False),
        (CustodyDemand.REQUIRED, False, False, False),
        (CustodyDemand.REQUIRED, True, False, False),
        (CustodyDemand.REQUIRED, False, True, True),
        (CustodyDemand.EVIDENCED, False, False, False),
        (CustodyDemand.EVIDENCED, True, False, True),
        (CustodyDemand.EVIDENCED, False, True, True),
    ],
)
def test_what_a_rule_makes_of_a_chain(demand, polled, broken, doubted):
    """What is reported refuses nothing; what is required is a demand like any other, by the name of its rule.

    Where no rule says it, a card whose firmware is named and whose host has to be kept from it needs a chain.
    """
    kept = begun(card(0, OFF, closed=False, reset=None if polled else '1'))
    kept = read(kept, card(5, OFF, closed=False, reset=None if polled else '1'))
    if broken:
        kept = custody.broken(kept, [v.GPU], BreakCause.EXPOSED, at(5))
    rules, inventory = v.baseline(custody=demand), v.inventory()
    assert ({v.GPU} if doubted else set()) == custody_rules.in_doubt(kept, inventory, rules, v.NODE, at(5))
    found = custody_rules.findings(kept, inventory, rules, v.NODE, at(5))
    if demand is CustodyDemand.REPORTED:
        assert () == found
    else:
        met, rule = Met.NO if doubted else Met.YES, 'default' if demand is None else 'all'
        assert [(v.GPU, 'custody', rule, met)] == [(f.accelerator, str(f.subject), f.rule, f.met) for f in found]


def test_each_card_is_judged_by_its_own_rule():
    """One that nobody asks about hides no other."""
    rules = Baseline(
        rules=(
            Rule(name='fpgas', match=Match(kind=Kind.FPGA), custody=CustodyDemand.REPORTED),
            Rule(name='all', match=Match(), custody=CustodyDemand.REQUIRED),
        )
    )
    inventory = v.inventory(v.fpga(), v.gpu())
    assert [v.GPU] == [f.accelerator for f in custody_rules.findings(NO_CUSTODY, inventory, rules, v.NODE, at(0))]
    assert {v.GPU} == custody_rules.in_doubt(NO_CUSTODY, inventory, rules, v.NODE, at(0))


def test_slots_of_a_card_in_doubt_get_their_functions_again():
    """Those that the rules name, and of no other card."""
    rules, inventory = v.baseline(functions=(('Slot0', 'gzip'),)), v.inventory(v.fpga(), v.gpu())
    assert {(v.FPGA, 'Slot0')} == custody_rules.slots_in_doubt(frozenset({v.FPGA}), inventory, rules, v.NODE)
    assert set() == custody_rules.slots_in_doubt(frozenset({v.GPU}), inventory, rules, v.NODE)


@pytest.mark.parametrize(('doubted', 'told'), [({v.GPU, v.FPGA}, True), ({v.GPU}, True), ({v.FPGA}, False), (set(), False)])
def test_a_plan_says_why_it_writes_a_card_that_shows_what_it_has_to(doubted, told):
    """Of the cards in doubt that it writes, and of no other one that it writes or that is in doubt."""
    rules, inventory = v.baseline(), v.inventory(v.fpga(), v.gpu())
    made = plan(inventory, rules, v.NODE, (v.image(),))
    found = custody_rules.reasons_to_write(frozenset(doubted), made, NO_CUSTODY, inventory, at(0))
    text = (
        'the card is written even if it shows the required versions, since its chain of custody is not valid: no '
        'chain has begun: it is unknown who wrote the firmware that it runs'
    )
    assert ([(v.gpu().label, text)] if told else []) == refusal_words.notes(found)


def test_every_cause_and_every_end_of_a_chain_is_explained():
    """In words that name what was seen and when."""
    kept = begun(card(0, ON))
    longer = custody.polled(
        read(begun(card(0, OFF)), card(5, OFF)),
        {v.SYSTEM: HostReading(power=OFF)},
        at(9),
        opened=frozenset({v.GPU}),
        conditions=CONDITIONS,
    )
    assert (
        'written at 2026-11-21 12:00:00Z (gpu-new), unbroken until 2026-11-21 12:00:09Z: locked (evidenced), host-off (polled)'
    ) == custody_words.explain(longer.of(v.GPU), at(9))
    bare = custody.begun(start(card(0, ON, own_processor=True)), v.GPU, Origin.MEASURED, at(0), by=['a', 'b'])
    assert (
        'measured at 2026-11-21 12:00:00Z (a, b), unbroken until 2026-11-21 12:00:00Z; what its own processor runs is not '
        'covered'
    ) == custody_words.explain(bare.of(v.GPU), at(5))
    nobody = custody.begun(start(card(0, ON)), v.GPU, Origin.MEASURED, at(0), by=[])
    expected = 'measured at 2026-11-21 12:00:00Z, unbroken until 2026-11-21 12:00:00Z'
    assert expected == custody_words.explain(nobody.of(v.GPU), at(5))
    seen = custody.broken(kept, [v.GPU], BreakCause.EXPOSED, at(5), v.SYSTEM)
    assert (
        'written at 2026-11-21 12:00:00Z (gpu-new), broken between 2026-11-21 12:00:00Z and 2026-11-21 12:00:05Z: it '
        'was found changed by others, or writable by others, host:/redfish/v1/Systems/1'
    ) == custody_words.explain(seen.of(v.GPU), at(5))
    alone = custody.broken(kept, [v.GPU], BreakCause.NOT_SEEN, at(5))
    assert custody_words.explain(alone.of(v.GPU), at(5)).endswith(': the BMC did not show the card')
    said = {custody_words.explain(custody.broken(kept, [v.GPU], cause, at(5)).of(v.GPU), at(5)) for cause in BreakCause}
    assert len(BreakCause) == len(said)
    assert all('written at 2026-11-21 12:00:00Z (gpu-new), broken between' in text for text in said)
    assert 'no chain has begun: it is unknown who wrote the firmware that it runs' == custody_words.explain(
        NO_CUSTODY.of(v.GPU), at(5)
    )
    kept = custody.write_begun(kept, v.GPU, at(5), images=['gpu-new'])
    assert 'the card is being written' == custody_words.explain(kept.of(v.GPU), at(5))
    kept = custody.begun(start(card(0, ON)), v.GPU, Origin.ACCEPTED, at(0), by=['ada'], until=at(60), reason='day one')
    accepted = 'accepted at 2026-11-21 12:00:00Z (ada) until 2026-11-21 12:01:00Z (day one)'
    assert f'{accepted}, unbroken until 2026-11-21 12:00:00Z' == custody_words.explain(kept.of(v.GPU), at(5))
    assert f'{accepted}, which has ended' == custody_words.explain(kept.of(v.GPU), at(60))


# ------------------------------------------------------------------------------------------------------------------ readings


def seen_of(accelerator, *engagements, baseline=None, before=NO_CUSTODY, **facts) -> CardSeen:
    """What custody needs of a look."""
    inventory = v.inventory(accelerator, bmcs=(v.facts(**facts),))
    found = custody_readings.seen(
        inventory, baseline or v.baseline(), v.NODE, engagements, lifecycle=v.LIFECYCLE, before=before
    )
    return found[accelerator.id]


def test_a_lock_that_we_engaged_is_proven_and_one_that_was_found_closed_is_not():
    """Only our own record makes it so."""
    closed = v.reading(LockState.LOCKED_REPORTED, session='other')
    accelerator = v.gpu(locks=(closed,))
    ours = seen_of(accelerator, v.engagement(closed, session='s0', at=v.EARLIER))
    assert (Access.CLOSED, True) == (ours.access, ours.proven)
    assert (Access.CLOSED, False) == (seen_of(accelerator).access, seen_of(accelerator).proven)
    assert 1 == len(ours.locks)


@pytest.mark.parametrize(
    ('state', 'access'),
    [
        (LockState.UNLOCKED, Access.OPEN),
        (LockState.PARTIAL, Access.OPEN),
        (LockState.PENDING_RESET, Access.OPEN),
        (LockState.UNSUPPORTED, Access.OPEN),
        (LockState.UNKNOWN, Access.UNKNOWN),
        (LockState.LOCKED_REPORTED, Access.CLOSED),
    ],
)
def test_how_a_card_can_be_reached(state, access):
    """By the worst of what protects it."""
    assert access is seen_of(v.gpu(locks=(v.reading(state),))).access


def test_a_lock_that_was_proven_before_is_proven_by_our_record_again():
    """That it was closed and proven then takes nothing from what our record says now."""
    closed = v.reading(LockState.LOCKED_REPORTED, session='other')
    accelerator, record = v.gpu(locks=(closed,)), v.engagement(closed, session='s0', at=v.EARLIER)
    once = seen_of(accelerator, record)
    again = seen_of(accelerator, record, before=start(once))
    assert (True, Access.CLOSED, True) == (once.proven, again.access, again.proven)


def test_a_card_without_a_demand_is_open():
    """Nothing is known to close it; what the operator's own network can do is another matter."""
    assert Access.OPEN is seen_of(v.gpu(), baseline=v.baseline(block=frozenset())).access
    own = seen_of(
        v.gpu(locks=(v.reading(LockState.LOCKED_REPORTED),)), baseline=v.baseline(block=frozenset({WritePath.BMC_NETWORK}))
    )
    assert (Access.OPEN, ()) == (own.access, own.locks)


def test_another_value_or_place_is_another_lock():
    """So that a lock that is closed otherwise than before is noticed."""
    of = {
        seen_of(v.gpu(locks=(replace(v.reading(LockState.LOCKED_REPORTED), **changes),))).locks[0]
        for changes in ({}, {'value': 'other'}, {'field': 'other'}, {'leaves': 'x'}, {'ref': v.ref('Other')})
    }
    assert 5 == len(of)


def test_a_lock_that_the_last_release_has_stored_is_the_same_lock():
    """Else an upgrade would break the chain of every card that is with a tenant."""
    found = seen_of(v.gpu(locks=(v.reading(LockState.LOCKED_REPORTED),)))
    assert ('7cd6caaffacf1401',) == found.locks
    part = replace(v.reading(LockState.LOCKED_REPORTED), part='Slot0', value=None, leaves='x')
    assert ('eb8abc85a34023be',) == seen_of(v.gpu(locks=(part,))).locks


def test_a_lock_that_comes_in_force_with_the_start_of_the_host_counts_where_that_is_what_comes_next():
    """Set by us, and in force before any code of the host runs."""
    waits = replace(v.reading(LockState.PENDING_RESET), with_start=v.SYSTEM)
    inventory = v.inventory(v.gpu(locks=(waits,)))
    records = (v.engagement(waits, session='s0', at=v.EARLIER),)
    for starting, expected in ((None, (Access.OPEN, False)), (v.SYSTEM, (Access.CLOSED, True))):
        found = custody_readings.seen(
            inventory, v.baseline(), v.NODE, records, lifecycle=v.LIFECYCLE, before=NO_CUSTODY, starting=starting
        )[v.GPU]
        assert expected == (found.access, found.proven)


def test_a_lock_that_has_come_in_force_with_the_start_of_the_host_is_not_another_lock():
    """It shows another value then. One that has not come in force leaves its path open."""
    waits = replace(v.reading(LockState.PENDING_RESET), with_start=v.SYSTEM, value='"closed with the next start"')
    records = (v.engagement(waits, session='s0', at=v.EARLIER),)
    inventory = v.inventory(v.gpu(locks=(waits,)), bmcs=(v.facts(power=OFF),))
    before = custody_readings.seen(
        inventory, v.baseline(), v.NODE, records, lifecycle=v.LIFECYCLE, before=NO_CUSTODY, starting=v.SYSTEM
    )[v.GPU]
    for state, value, expected in (
        (LockState.LOCKED_REPORTED, '"closed"', LOCKED),
        (LockState.PENDING_RESET, waits.value, BreakCause.PATH_OPEN),
        (LockState.UNLOCKED, '"open"', BreakCause.PATH_OPEN),
    ):
        after = seen_of(v.gpu(locks=(replace(v.reading(state), value=value),)), *records, power=ON)
        assert expected == judged(before, after)


WAITING = replace(v.reading(LockState.LOCKED_REPORTED, session='other'), needs=ResetKind.POWER_CYCLE)
"""A lock that is read closed; once it is engaged nothing but a reset proves that it is in force."""


@pytest.mark.parametrize(
    ('changes', 'expected'),
    [
        ({}, LOCKED),
        ({'value': 'other'}, BreakCause.PATH_OPEN),
        ({'leaves': 'x'}, BreakCause.PATH_OPEN),
        ({'state': LockState.UNLOCKED}, BreakCause.PATH_OPEN),
        ({'state': LockState.PENDING_RESET}, BreakCause.PATH_OPEN),
        ({'state': LockState.UNKNOWN}, BreakCause.PATH_UNKNOWN),
    ],
)
def test_a_lock_that_was_closed_and_is_engaged_once_more_stays_closed_until_its_reset(changes, expected):
    """Our own engaging opens nothing. What reads in another way than before it is judged as it reads."""
    first = v.engagement(WAITING, session='s0')
    before = seen_of(v.gpu(locks=(WAITING,)), first, power=ON)
    assert (Access.CLOSED, True) == (before.access, before.proven)
    again = replace(first, at=v.EARLIER + timedelta(seconds=1), reset_at=None)
    now = v.gpu(locks=(replace(WAITING, **changes),))
    assert expected == judged(before, seen_of(now, again, before=start(before), power=ON))


@pytest.mark.parametrize('opened', [True, False])
def test_a_lock_that_was_not_proven_closed_waits_for_its_reset(opened):
    """One that we have opened, and one that was found closed: nobody knows whether what is set now is in force."""
    records = (v.engagement(WAITING, session='s0'),) if opened else ()
    before = start(seen_of(v.gpu(locks=(WAITING,)), *records, power=ON))
    before = custody.opened(before, [v.GPU]) if opened else before
    waits = v.engagement(WAITING, session='s0', reset_at=None)
    assert Access.OPEN is seen_of(v.gpu(locks=(WAITING,)), waits, before=before, power=ON).access


def test_the_host_is_read_with_the_card():
    """Its power, and when it was last reset."""
    found = seen_of(v.gpu(), power=OFF, last_reset='then')
    assert (HostSeen(system=v.SYSTEM, reading=HostReading(power=OFF, last_reset='then')),) == found.hosts


@pytest.mark.parametrize(('power', 'alone'), [(ON, True), (PowerState.UNKNOWN, True), (OFF, False)])
def test_a_dpu_runs_code_of_its_own_unless_its_system_is_read_off(power, alone):
    """No lock of the host closes that."""
    name = BmcName('dpu')
    dpu = v.gpu(kind=Kind.DPU, refs=(v.ref('Chassis/DPU'), Ref(bmc=name, uri='/redfish/v1/Systems/Bluefield')))
    own = v.facts(name=name, system=Ref(bmc=name, uri='/redfish/v1/Systems/Bluefield'), power=power)
    inventory = v.inventory(dpu, bmcs=(v.facts(), own))
    seen = custody_readings.seen(inventory, v.baseline(), v.NODE, (), lifecycle=v.LIFECYCLE, before=NO_CUSTODY)[dpu.id]
    assert alone is seen.own_processor
    kept = custody.begun(Custody(), dpu.id, Origin.WRITTEN, at(0), by=[])
    kept = custody.read(kept, {dpu.id: seen}, at(0), conditions=CONDITIONS)
    kept = custody.begun(kept, dpu.id, Origin.WRITTEN, at(0), by=[])
    assert alone is not kept.of(dpu.id).chain.covers_own_processor


# -------------------------------------------------------------------------------------------------------------- measurements


@pytest.mark.parametrize(
    ('readings', 'rules', 'begins'),
    [
        ((measures.reading(),), v.baseline(), True),
        ((), v.baseline(), False),
        ((measures.reading('0c' * 48),), v.baseline(), False),
        ((measures.reading(state=MeasurementState.REFUSED),), v.baseline(), False),
        ((measures.reading(), measures.reading(integrity='ROT_1', state=MeasurementState.UNKNOWN)), v.baseline(), False),
        ((measures.reading(),), v.baseline(firmware=(('*', v.OLD),)), False),
        ((measures.reading(),), v.baseline(firmware=()), False),
    ],
)
def test_a_card_that_has_signed_all_that_the_rules_name_begins_a_chain(readings, rules, begins):
    """Of every component that a rule names, and as the catalogue knows it; a broken chain is mended by it."""
    device = v.gpu(firmware=(v.component('GPU_0'), v.component('OTHER')), measurements=readings)
    inventory = v.inventory(device)
    kept = custody.broken(begun(card(0, ON)), [v.GPU], BreakCause.EXPOSED, at(0))
    kept = custody_rules.measured(kept, inventory, rules, v.NODE, measures.CATALOGUE)
    assert begins is custody.holds(kept.of(v.GPU), at(0))
    if begins:
        assert (Origin.MEASURED, v.NOW, ('gpu-1.0',)) == (chain(kept).origin, chain(kept).begun, chain(kept).by)


def test_what_a_card_signs_while_it_is_written_begins_nothing():
    """The write is still to end."""
    kept = custody.write_begun(begun(card(0, ON)), v.GPU, at(0), images=['gpu-new'])
    inventory = v.inventory(v.gpu(measurements=(measures.reading(),)))
    assert kept == custody_rules.measured(kept, inventory, v.baseline(), v.NODE, measures.CATALOGUE)


# -------------------------------------------------------------------------------------------------------------------- writes


def test_a_plan_that_writes_all_that_the_rules_name_can_begin_a_chain():
    """One that writes only a part of it mends nothing."""
    two = v.gpu(firmware=(v.component('GPU_0'), v.component('GPU_1')))
    half = v.gpu(firmware=(v.component('GPU_0'), v.component('GPU_1', v.NEW)))
    for accelerator, again, expected in ((two, (), {v.GPU}), (half, (), set()), (half, (v.GPU,), {v.GPU})):
        inventory = v.inventory(accelerator)
        made = plan(inventory, v.baseline(), v.NODE, (v.image(),), again=frozenset(again))
        assert expected == custody_rules.wholly_written(made, inventory, v.baseline(), v.NODE)


def test_a_function_in_a_slot_is_a_part_too():
    """Firmware alone does not begin the chain of a card whose slots the rules name."""
    rules = v.baseline(firmware=(('FPGA1', v.NEW),), functions=(('Slot0', 'gzip'),))
    inventory = v.inventory(v.fpga(firmware=(v.component('FPGA1', v.OLD),)))
    images = (v.image(component='FPGA1', fits=v.function_image().fits), v.function_image())
    made = plan(inventory, rules, v.NODE, images)
    assert set() == custody_rules.wholly_written(made, inventory, rules, v.NODE)
    made = plan(inventory, rules, v.NODE, images, again=frozenset({v.FPGA}), anew=frozenset({(v.FPGA, 'Slot0')}))
    assert {v.FPGA} == custody_rules.wholly_written(made, inventory, rules, v.NODE)


# ------------------------------------------------------------------------------------------------------------------ the truth


@dataclass
class World:
    """A machine whose truth is known, second by second: a tenant writes the card whenever its code runs and the lock is open.

    :ivar tells: its BMC keeps the time of the last reset. :ivar boots: seconds from power on to code of the host.
    """

    tells: bool
    boots: int
    seconds: int = 0
    power: bool = True
    on_for: int = 999
    closed: bool = True
    resets: int = 0
    evil: bool = False

    def second(self) -> None:
        self.seconds += 1
        self.on_for = self.on_for + 1 if self.power else 0
        self.evil |= self.power and self.on_for > self.boots and not self.closed

    def switch(self, power: bool) -> None:
        if power != self.power:
            self.power, self.on_for, self.resets = power, 0, self.resets + 1

    def seen(self, proven: bool) -> CardSeen:
        found = card(
            self.seconds, ON if self.power else OFF, closed=self.closed, reset=str(self.resets) if self.tells else None
        )
        return replace(found, proven=proven and self.closed)


@pytest.mark.parametrize('seed', range(40))
def test_no_chain_holds_over_a_card_that_somebody_else_has_written(seed):
    """Random lives of machines that are read at random times. What is false is not found; nor is much that is true refused."""
    dice = random.Random(seed)
    held = 0
    for _ in range(60):
        world = World(tells=dice.random() < 0.5, boots=dice.choice([10, 12, 30]))
        world.switch(False)
        world.closed = dice.random() < 0.5
        seen = world.seen(True)
        kept = begun(seen)
        world.evil = False
        while world.seconds < 300:
            for _ in range(dice.choice([1, 4, 9, 10, 11, 40])):
                world.second()
            if dice.random() < 0.08:
                world.switch(not world.power)
            if dice.random() < 0.08:
                world.closed = not world.closed
            kept = read(kept, world.seen(True))
            assert not (world.evil and custody.holds(kept.of(v.GPU), at(world.seconds)))
        held += custody.holds(kept.of(v.GPU), at(world.seconds))
    assert 0 < held < 60
