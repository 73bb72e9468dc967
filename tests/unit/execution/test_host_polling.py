# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Hosts are read while a turn is busy with an upload, in real time: a host that is started and off again meanwhile is seen."""

import time
from dataclasses import replace
from datetime import timedelta

import pytest

from baremetal_acc.errors import BmcNotAuthorised, BmcUnreachable
from baremetal_acc.execution import tick
from baremetal_acc.execution.host_polling import MOST_FAILED_SESSIONS, HostPolling
from baremetal_acc.model.custody import NO_CUSTODY, BreakCause, Strength
from baremetal_acc.model.interference import InterferenceKind
from baremetal_acc.model.inventory import HostReading, PowerState
from baremetal_acc.model.job import Done, Failed, Wait
from baremetal_acc.model.ref import HOST, BmcName, Ref
from baremetal_acc.planning import custody
from tests.unit.execution.bench import Bench, Connection, Machine
from tests.unit.execution.test_custody import Silent, job_of
from tests.unit.planning import values as v

LIMIT = timedelta(seconds=1.5)
UPLOAD = 2 * LIMIT.total_seconds()
"""Seconds that an upload takes: no host may be left unread for so long."""


class Uploading(Silent):
    """A BMC that takes an image for longer than its host may be unread, and keeps no time of the last reset."""

    def push(self, target, upload):
        time.sleep(UPLOAD)
        return super().push(target, upload)


class Waking(Silent):
    """The same, whose host is started and switched off again during the upload."""

    def push(self, target, upload):
        time.sleep(UPLOAD / 3)
        self.machine.power = PowerState.ON
        time.sleep(UPLOAD / 3)
        self.machine.power = PowerState.OFF
        time.sleep(UPLOAD / 3)
        return super().push(target, upload)


def in_real_time(bench, job):
    """Turn a job until it ends, by a clock that is not fed."""
    began, now = time.monotonic(), bench.now
    while True:
        at = now + timedelta(seconds=time.monotonic() - began)
        job, outcome = tick(job, bench.target, bench.tools, at)
        if not isinstance(outcome, Wait):
            return job, outcome
        time.sleep(outcome.delay.total_seconds())


def bench_of(connection, apart=None, *, machine=None):
    """A bench whose BMC takes its time, and how a session next to that is opened."""
    bench = Bench(machine=machine or Machine(power=PowerState.OFF))
    brief = timedelta(seconds=0.02)
    patience = replace(bench.tools.patience, poll=brief, settle=brief, blind=LIMIT)
    bench.tools = replace(
        bench.tools, connect=lambda _: connection(bench.machine), connect_apart=apart, patience=patience, placement=None
    )
    return bench


def test_an_upload_that_takes_long_leaves_no_time_in_which_the_host_was_not_read():
    """Its BMC tells nothing but the power, and the card is open until it is written."""
    bench = bench_of(Uploading)
    job, outcome = in_real_time(bench, job_of(bench, NO_CUSTODY))
    assert isinstance(outcome, Done), outcome
    card = job.custody.of(v.GPU)
    assert custody.holds(card, bench.now), card.chain
    assert Strength.POLLED is card.chain.strength


def test_a_host_that_is_started_and_off_again_during_an_upload_breaks_the_chain_and_fails_the_job():
    """Neither the reading before the upload nor the one after it shows that."""
    bench = bench_of(Waking)
    job, outcome = in_real_time(bench, job_of(bench, NO_CUSTODY))
    assert isinstance(outcome, Failed)
    assert BreakCause.HOST_RAN is job.custody.of(v.GPU).chain.broken.cause
    assert {InterferenceKind.HOST_ON} == {one.kind for one in outcome.interferences}
    assert frozenset({v.GPU}) == job.suspect


@pytest.mark.parametrize(
    'error', [BmcUnreachable(bmc='host', what='busy'), BmcNotAuthorised(bmc='host', what='no session left')]
)
def test_a_bmc_that_gives_no_second_session_takes_the_image_all_the_same_and_leaves_the_host_unseen(error):
    """What could not be read is no trouble of the upload, and not said to have been seen."""
    asked = []

    def apart(address):
        asked.append(address)
        raise error

    bench = bench_of(Uploading, apart)
    job, outcome = in_real_time(bench, job_of(bench, NO_CUSTODY))
    assert isinstance(outcome, Done), outcome
    assert BreakCause.HOST_UNSEEN is job.custody.of(v.GPU).chain.broken.cause
    assert asked
    assert isinstance(error, BmcUnreachable) or len(asked) == 1, 'who is refused does not ask again'


def test_a_bmc_that_is_asked_for_one_thing_at_a_time_is_asked_nothing_during_an_upload():
    """The operator has said so."""
    asked = []

    def apart(address):
        asked.append(address)
        return Silent(bench.machine)

    bench = bench_of(Uploading, apart)
    bench.target = replace(bench.target, bmcs=tuple(replace(b, concurrency=1) for b in bench.target.bmcs))
    job, outcome = in_real_time(bench, job_of(bench, NO_CUSTODY))
    assert isinstance(outcome, Done), outcome
    assert [] == asked
    assert BreakCause.HOST_UNSEEN is job.custody.of(v.GPU).chain.broken.cause


def test_no_session_is_opened_for_turns_that_are_short():
    """As nearly all are."""

    def apart(address):
        raise AssertionError('a session more')

    bench = bench_of(Silent, apart)
    _, outcome = in_real_time(bench, job_of(bench, NO_CUSTODY))
    assert isinstance(outcome, Done), outcome


def test_a_host_that_the_job_gives_back_is_not_read_as_one_that_woke():
    """What is read from then on is of our own doing."""

    class Slow(Connection):
        def set_power(self, system, wanted):
            super().set_power(system, wanted)
            if wanted is PowerState.ON:
                time.sleep(UPLOAD)

    bench = bench_of(Slow, machine=Machine(power=PowerState.ON))
    job, outcome = in_real_time(bench, job_of(bench, NO_CUSTODY))
    assert isinstance(outcome, Done), outcome
    assert 'power On' in bench.machine.log
    assert () == job.interferences
    assert custody.holds(job.custody.of(v.GPU), bench.now)


# ------------------------------------------------------------------------------------------------------------- the thread


class Answers:
    """A session that tells how often it was asked, and when it was left."""

    def __init__(self, fails=()):
        self.asked, self.left, self.fails = 0, 0, list(fails)

    def close(self):
        self.left += 1

    def host(self, system):
        self.asked += 1
        if self.fails and (error := self.fails.pop(0)):
            raise error
        return HostReading(power=PowerState.OFF)


def polling(session, *, limit=timedelta(seconds=0.06)):
    return HostPolling(lambda _: session, Bench().target.bmcs, v.NOW, limit=limit)


def until(condition):
    """Wait for what a thread does."""
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_what_was_read_is_told_once_in_order_and_with_the_time_that_it_took():
    """The times are those of the turn, whatever the clock of this machine says."""
    session, taken = Answers(), []
    with polling(session) as reads:
        reads.begin([v.SYSTEM])
        until(lambda: session.asked >= 3)
        until(lambda: taken.extend(reads.taken()) or len(taken) >= 3)
    times = [t for poll in taken for t in (poll.at, poll.by)]
    assert times == sorted(times)
    assert v.NOW < times[0] < v.NOW + timedelta(seconds=20)
    assert {v.SYSTEM: HostReading(power=PowerState.OFF)} == taken[0].hosts
    until(lambda: session.left == 1)


def test_a_reading_that_failed_is_missing_and_the_next_one_opens_another_session():
    """The one before may be dead."""
    session = Answers([BmcUnreachable(bmc='host', what='gone')])
    with polling(session) as reads:
        reads.begin([v.SYSTEM])
        until(lambda: session.asked >= 2)
        found = []
        until(lambda: found.extend(reads.taken()) or len(found) >= 2)
    assert [{}, {v.SYSTEM: HostReading(power=PowerState.OFF)}] == [dict(poll.hosts) for poll in found[:2]]
    until(lambda: session.left == 2)


def test_a_bmc_that_fails_again_and_again_is_left_alone():
    """It may have no session left but ours, and end that one for the next."""
    session = Answers([BmcUnreachable(bmc='host', what='gone')] * 20)
    with polling(session) as reads:
        reads.begin([v.SYSTEM])
        until(lambda: len(reads._polls) >= MOST_FAILED_SESSIONS + 3)
    assert MOST_FAILED_SESSIONS == session.asked == session.left
    assert not any(poll.hosts for poll in reads.taken())


def test_nothing_counts_that_is_read_after_its_end():
    """A reading that is under way, and what would begin later."""
    session = Answers()
    reads = polling(session)
    reads.end()
    reads.begin([v.SYSTEM])
    time.sleep(0.1)
    assert (0, ()) == (session.asked, reads.taken())


def test_a_reading_that_is_under_way_when_it_ends_does_not_count():
    """The host may have been switched on while it was read."""

    class Late(Answers):
        def host(self, system):
            found = super().host(system)
            reads.end()
            return found

    session = Late()
    reads = polling(session)
    reads.begin([v.SYSTEM])
    until(lambda: session.left == 1)
    assert (1, ()) == (session.asked, reads.taken())


@pytest.mark.parametrize(('limit', 'system'), [(timedelta(0), v.SYSTEM), (LIMIT, Ref(bmc=BmcName('other'), uri=v.SYSTEM.uri))])
def test_no_thread_is_begun_where_nothing_can_be_read(limit, system):
    """No limit means that a reading never covers anything; and a BMC that the target has not cannot be asked."""
    assert HOST != system.bmc or limit == timedelta(0)
    session = Answers()
    with polling(session, limit=limit) as reads:
        reads.begin([system])
        time.sleep(0.2)
    assert 0 == session.asked
