# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a host has run between two readings is told by what a BMC says of it, and by nothing that could have missed it."""

from dataclasses import fields, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from baremetal_acc.model.codec import decode, encode
from baremetal_acc.model.inventory import BmcFacts, HostReading, PowerEvent, PowerState
from baremetal_acc.model.ref import HOST
from baremetal_acc.planning.host_evidence import (
    BLIND_LIMIT,
    SOURCES,
    Evidence,
    EvidenceSource,
    HostRan,
    HostWitness,
    changed_by_start,
    evidence,
    host_ran,
    with_bmc_reset,
)

HOUR = timedelta(hours=1)
MOMENT = timedelta(microseconds=1)
NO_TIME = timedelta(0)

OFF = HostReading(
    power=PowerState.OFF,
    last_reset='monday',
    boot_progress='None monday',
    bmc_reset='sunday',
    power_on_hours=6000,
    restart_cause='Chassis Control, channel 1h',
    power_event=frozenset({PowerEvent.ON_BY_COMMAND}),
    log_mark='7 entries, the last at 1000',
)
ANOTHER: dict[EvidenceSource, Any] = {
    EvidenceSource.POWER: PowerState.ON,
    EvidenceSource.LAST_RESET: 'tuesday',
    EvidenceSource.BOOT_PROGRESS: 'OSRunning tuesday',
    EvidenceSource.BMC_RESET: 'tuesday',
    EvidenceSource.POWER_ON_HOURS: 6060,
    EvidenceSource.RESTART_CAUSE: 'power button',
    EvidenceSource.POWER_EVENT: frozenset(),
    EvidenceSource.LOG_MARK: '8 entries, the last at 2000',
}
DEPENDABLE = frozenset({EvidenceSource.LAST_RESET})


def other(source: EvidenceSource, of: HostReading = OFF) -> HostReading:
    """The reading with another value in one place."""
    return replace(of, **{source.value: ANOTHER[source]})


def said(source: EvidenceSource, *args: Any, **more: Any) -> Evidence:
    """What one source says."""
    (found,) = [one for one in evidence(*args, **more) if one.source is source]
    return found


def test_there_is_one_row_for_each_thing_that_is_read_of_a_host() -> None:
    """No field of a reading without a row, no row without a field; each names its specification."""
    assert [field.name for field in fields(HostReading)] == [source.value for source in EvidenceSource] == list(SOURCES)
    assert set(ANOTHER) == set(EvidenceSource)
    assert not [row for row in SOURCES.values() if not row.name or not ('DSP8010' in row.origin or 'section' in row.origin)]


def test_what_is_learnt_of_a_bmc_holds_all_of_a_reading() -> None:
    """So that a look and a poll can be compared."""
    values = {field.name: getattr(OFF, field.name) for field in fields(HostReading)}
    assert OFF == BmcFacts(name=HOST, address='a', session='s', **values).host


def test_what_the_last_release_has_stored_is_read() -> None:
    """It says nothing of what it did not know; and what is stored now comes back as it was."""
    stored = {'power': 'Off', 'last_reset': 'monday'}
    known = HostReading(power=PowerState.OFF, last_reset='monday')
    assert known == decode(HostReading, stored)
    assert known == decode(BmcFacts, {'name': 'host', 'address': 'a', 'session': '', **stored}).host
    assert OFF == decode(HostReading, encode(OFF))


@pytest.mark.parametrize('source', list(EvidenceSource))
def test_a_change_shows_what_its_row_says(source: EvidenceSource) -> None:
    """An hour later, when nothing settles any more, and also where the BMC is known to set something at each start."""
    for dependable in (frozenset[EvidenceSource](), DEPENDABLE):
        found = said(source, OFF, other(source), HOUR, dependable=dependable)
        assert (SOURCES[source].changed, HostWitness.CHANGED) == (found.says, found.seen)
        assert SOURCES[source].changed == host_ran(OFF, other(source), HOUR)
        back = said(source, other(source), OFF, HOUR, dependable=dependable)
        assert found == back


def test_what_shows_that_a_host_has_run() -> None:
    """The entries of a log and a restart of the BMC are of anything."""
    assert {EvidenceSource.BMC_RESET, EvidenceSource.LOG_MARK} == {
        s for s in EvidenceSource if SOURCES[s].changed is not HostRan.RAN
    }
    assert {EvidenceSource.POWER, EvidenceSource.LAST_RESET} == {
        s for s in EvidenceSource if SOURCES[s].unchanged is not HostRan.SILENT
    }


@pytest.mark.parametrize('power', list(PowerState))
@pytest.mark.parametrize('elapsed', [NO_TIME, HOUR])
def test_a_host_that_is_not_off_at_one_end_runs(power: PowerState, elapsed: timedelta) -> None:
    """Whatever else is unchanged. Where the power is not known nothing tells, not even a time that is the same."""
    shown = {PowerState.OFF: None, PowerState.UNKNOWN: HostRan.SILENT}.get(power, HostRan.RAN)
    for ends in ((OFF, replace(OFF, power=power)), (replace(OFF, power=power), OFF)):
        if shown is not None:
            assert shown is host_ran(*ends, elapsed, dependable=DEPENDABLE)
            assert shown is host_ran(*ends, elapsed, settles=HOUR, dependable=DEPENDABLE)
            seen = HostWitness.ABSENT if shown is HostRan.SILENT else HostWitness.CHANGED
            assert Evidence(source=EvidenceSource.POWER, says=shown, seen=seen) == said(EvidenceSource.POWER, *ends, elapsed)


@pytest.mark.parametrize(
    ('elapsed', 'shown'),
    [
        (-MOMENT, HostRan.SILENT),
        (NO_TIME, HostRan.DID_NOT_RUN),
        (BLIND_LIMIT, HostRan.DID_NOT_RUN),
        (BLIND_LIMIT + MOMENT, HostRan.SILENT),
    ],
)
def test_a_host_that_is_off_twice_in_a_short_time_did_not_run(elapsed: timedelta, shown: HostRan) -> None:
    """Not when the clock went backwards: then nobody knows how long it was."""
    bare = HostReading(power=PowerState.OFF)
    assert shown is host_ran(bare, bare, elapsed)
    assert shown is host_ran(OFF, OFF, elapsed)


def test_the_short_time_is_the_operators() -> None:
    """A host that starts faster, or slower, than is assumed."""
    bare = HostReading(power=PowerState.OFF)
    assert HostRan.SILENT is host_ran(bare, bare, BLIND_LIMIT, blind_limit=BLIND_LIMIT - MOMENT)
    assert HostRan.DID_NOT_RUN is host_ran(bare, bare, HOUR, blind_limit=HOUR)
    assert timedelta(seconds=10) == BLIND_LIMIT


@pytest.mark.parametrize('source', list(EvidenceSource))
def test_another_value_outweighs_two_readings_in_a_short_time(source: EvidenceSource) -> None:
    """They have missed it, or the BMC contradicts itself: neither is proof."""
    shown = HostRan.RAN if SOURCES[source].changed is HostRan.RAN else HostRan.DID_NOT_RUN
    assert shown is host_ran(OFF, other(source), MOMENT)


@pytest.mark.parametrize('source', [s for s in EvidenceSource if s is not EvidenceSource.POWER])
def test_what_a_bmc_does_not_say_shows_nothing(source: EvidenceSource) -> None:
    """At one end, or at both: another BMC, a resource that was read together with its collection, an older release."""
    silent = replace(OFF, **{source.value: None})
    for ends in ((OFF, silent), (silent, OFF), (silent, silent)):
        assert Evidence(source=source, says=HostRan.SILENT, seen=HostWitness.ABSENT) == said(
            source, *ends, HOUR, dependable=frozenset(EvidenceSource)
        )


@pytest.mark.parametrize('source', [s for s in EvidenceSource if s is not EvidenceSource.POWER])
def test_an_unchanged_value_shows_nothing_of_a_bmc_that_nobody_knows(source: EvidenceSource) -> None:
    """That it would have changed has to be known of this very BMC first."""
    assert Evidence(source=source, says=HostRan.SILENT, seen=HostWitness.UNCHANGED) == said(source, OFF, OFF, HOUR)
    assert HostRan.SILENT is host_ran(OFF, OFF, HOUR, dependable=frozenset(EvidenceSource) - DEPENDABLE)


def test_the_time_of_the_last_reset_shows_that_a_host_did_not_run() -> None:
    """Of a BMC that sets it at each start, and that was there all the time."""
    assert HostRan.DID_NOT_RUN is host_ran(OFF, OFF, HOUR, dependable=DEPENDABLE)
    assert HostRan.SILENT is host_ran(OFF, OFF, -MOMENT, dependable=DEPENDABLE)
    only = replace(HostReading(power=PowerState.OFF), last_reset='monday', bmc_reset='sunday')
    assert HostRan.DID_NOT_RUN is host_ran(only, only, HOUR, dependable=DEPENDABLE)


@pytest.mark.parametrize('bmc_reset', [None, 'tuesday'])
def test_a_bmc_that_may_have_restarted_has_seen_nothing_meanwhile(bmc_reset: str | None) -> None:
    """Its time is the one that it has kept; the host was started by hand while it was away."""
    assert HostRan.SILENT is host_ran(OFF, replace(OFF, bmc_reset=bmc_reset), HOUR, dependable=DEPENDABLE)
    assert HostRan.SILENT is host_ran(replace(OFF, bmc_reset=bmc_reset), OFF, HOUR, dependable=DEPENDABLE)


def test_a_poll_keeps_what_was_last_known_of_the_bmc() -> None:
    """The BMC that has not restarted since the reading before the poll has not restarted since the poll."""
    poll = HostReading(power=PowerState.OFF, last_reset='monday')
    kept = with_bmc_reset(poll, OFF)
    assert replace(poll, bmc_reset='sunday') == kept
    assert HostRan.SILENT is host_ran(poll, OFF, HOUR, dependable=DEPENDABLE)
    assert HostRan.DID_NOT_RUN is host_ran(kept, OFF, HOUR, dependable=DEPENDABLE)
    assert HostRan.SILENT is host_ran(kept, replace(OFF, bmc_reset='tuesday'), HOUR, dependable=DEPENDABLE)
    assert OFF == with_bmc_reset(OFF, other(EvidenceSource.BMC_RESET)), 'what was read is not replaced'
    assert poll == with_bmc_reset(poll, poll)


@pytest.mark.parametrize('source', [s for s in EvidenceSource if s is not EvidenceSource.POWER])
@pytest.mark.parametrize(
    ('elapsed', 'settling'),
    [(-MOMENT, False), (NO_TIME, True), (timedelta(seconds=20), True), (timedelta(seconds=20) + MOMENT, False)],
)
def test_what_changes_right_after_a_host_was_read_off_may_be_of_that_power_off(
    source: EvidenceSource, elapsed: timedelta, settling: bool
) -> None:
    """It shows nothing then; neither does it show that the host did not run."""
    found = said(source, OFF, other(source), elapsed, settles=timedelta(seconds=20), dependable=frozenset(EvidenceSource))
    row = SOURCES[source]
    assert (HostRan.SILENT if settling else row.changed, HostWitness.SETTLING if settling else HostWitness.CHANGED) == (
        found.says,
        found.seen,
    )


def test_nothing_settles_unless_it_is_asked_for() -> None:
    """Two readings of one moment that differ are a change."""
    assert HostWitness.CHANGED is said(EvidenceSource.LAST_RESET, OFF, other(EvidenceSource.LAST_RESET), NO_TIME).seen


def test_a_host_that_settles_is_not_known_to_be_off_by_that() -> None:
    """Two readings in a short time still are."""
    settled = other(EvidenceSource.LAST_RESET)
    assert HostRan.DID_NOT_RUN is host_ran(OFF, settled, BLIND_LIMIT, settles=HOUR)
    assert HostRan.SILENT is host_ran(OFF, settled, HOUR, settles=HOUR, dependable=DEPENDABLE)


def test_a_loss_of_mains_is_no_start() -> None:
    """A host that is off meets it too; every other flag comes with a change of the power of the host."""
    for event in PowerEvent:
        assert OFF.power_event is not None
        seen = replace(OFF, power_event=OFF.power_event ^ {event})
        shown = HostRan.SILENT if event is PowerEvent.MAINS_LOST else HostRan.RAN
        assert (event, shown) == (event, host_ran(OFF, seen, HOUR))


def test_a_counter_that_goes_back_is_a_change() -> None:
    """A contradiction is no proof of rest."""
    assert HostRan.RAN is host_ran(OFF, replace(OFF, power_on_hours=0), MOMENT)


def test_it_is_learnt_from_a_start_of_our_own_what_a_bmc_sets() -> None:
    """Only from off to on, and only of what could show that a host did not run."""
    on = replace(OFF, power=PowerState.ON, **{s.value: ANOTHER[s] for s in EvidenceSource if s is not EvidenceSource.POWER})
    assert DEPENDABLE == changed_by_start(OFF, on)
    assert frozenset() == changed_by_start(OFF, replace(on, last_reset=OFF.last_reset))
    assert frozenset() == changed_by_start(replace(OFF, last_reset=None), on)
    for power in set(PowerState) - {PowerState.OFF}:
        assert frozenset() == changed_by_start(replace(OFF, power=power), on)
    for power in set(PowerState) - {PowerState.ON}:
        assert frozenset() == changed_by_start(OFF, replace(on, power=power))


def test_the_page_explains_each_source(tree: Path) -> None:
    """By the name that the specification gives it, with the place in the specification."""
    page = ' '.join((tree / 'doc' / 'source' / 'howto' / 'watch.rst').read_text().split())
    for row in SOURCES.values():
        for part in (*row.name.split(', '), *row.origin.split('; ')):
            assert part in page, part
