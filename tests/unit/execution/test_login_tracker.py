# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What a job does at a BMC that refuses its credentials."""

from dataclasses import replace
from datetime import timedelta

import pytest

from baremetal_acc.bmc.driver import Document
from baremetal_acc.errors import BmcNotAuthorised
from baremetal_acc.model.inventory import PowerState
from baremetal_acc.model.job import Done, Failed
from tests.unit.execution.bench import Bench, Connection, Machine, Mechanism, Reader, restorable
from tests.unit.planning import values as v

WRONG = BmcNotAuthorised(bmc='host (https://192.0.2.1)', what='the password is wrong', hint='check username and password')


def turned_until(bench, entry, **how):
    """A job that has just done that."""
    job = bench.job(**how)
    while not any(line.startswith(entry) for line in bench.machine.log):
        job, outcome = bench.turn(job)
        bench.now += outcome.delay
    return job


def refusing(bench, until=None):
    """From now on the BMC refuses every login. The moments at which it is asked."""
    asked = []

    def connect(address):
        if until is not None and bench.now >= until:
            return Connection(bench.machine)
        asked.append(bench.now)
        raise WRONG

    bench.tools = replace(bench.tools, connect=connect)
    return asked


@pytest.mark.parametrize('when', ['release', 'push', 'engage'])
def test_a_password_that_was_changed_while_a_job_writes_is_tried_five_times_in_twelve_minutes(when):
    """Not at each poll up to the deadline: the account would be locked out. Then the job ends and says what to do."""
    bench = restorable(Machine(protects_all=True, closed=True))
    job = turned_until(bench, when, hold=True)
    asked = refusing(bench)
    job, outcome = bench.run(job, ticks=5000)
    assert isinstance(outcome, Failed)
    assert [0, 10, 130, 430, 730] == pytest.approx([(at - asked[0]).total_seconds() for at in asked], abs=30)
    assert timedelta(minutes=13) > bench.now - asked[0]
    assert outcome.reasons[0] == (
        'BMC host (https://192.0.2.1): it refused us 5 times, and gets no more requests: the password is wrong '
        '(check username '
        'and password; set valid credentials, check that the account is not locked out, and start again)'
    )
    # Nobody knows what became of what was sent: the card is held, and the next job reads it.
    assert () == outcome.quarantined
    assert ('release' == when) is not any(f'{v.GPU} is held: ' in r for r in outcome.reasons)
    assert 'publish' not in bench.machine.log
    assert 'withdraw everything' == bench.machine.log[-1]
    assert PowerState.OFF is bench.machine.power
    assert any('was powered off, and not powered on again by us' in r for r in outcome.reasons)
    assert 'engage' == when or any('it could not be read whether the lock is engaged again' in r for r in outcome.reasons)


def test_a_job_that_has_opened_nothing_asks_three_times_in_two_minutes():
    """Nothing is lost, and whoever began it can do so again."""
    bench = Bench()
    job = turned_until(bench, 'withdraw')
    asked = refusing(bench)
    job, outcome = bench.run(job)
    assert isinstance(outcome, Failed)
    assert [0, 10, 130] == pytest.approx([(at - asked[0]).total_seconds() for at in asked], abs=10)
    assert 'it refused us 3 times' in outcome.reasons[0]
    assert not job.opened


def test_a_bmc_that_lets_us_in_again_begins_a_new_row():
    """It has started; what refuses much later is another matter. The account for good ones is not kept."""
    bench = restorable(Machine())
    job = turned_until(bench, 'push')
    asked = refusing(bench, until=bench.now + timedelta(minutes=2))
    while not asked:
        job, outcome = bench.turn(job)
        bench.now += outcome.delay
    assert [1] == [one.times for one in job.turned_away]
    job, outcome = bench.run(job)
    assert isinstance(outcome, Done)
    assert (2, ()) == (len(asked), job.turned_away)


def test_a_shell_that_dies_does_not_begin_to_count_anew():
    """The count is stored with the job; the bench's jobs go through their stored form at each turn."""
    bench = restorable(Machine())
    job = turned_until(bench, 'push')
    refusing(bench)
    for _ in range(3):
        job, _ = bench.turn(job)
    stored, _ = bench.saved[-1]
    assert [1] == [one['times'] for one in stored['turned_away']]


def test_an_account_that_may_only_read_is_found_out_before_anything_is_changed():
    """Once, before the host is held: no power is cut, and no lock opened, for a job that cannot be done."""
    bench = Bench(machine=Machine(operator=True, protects_all=True))
    _, outcome = bench.run(bench.job(hold=True))
    assert isinstance(outcome, Failed)
    assert 'nothing was changed: BMC host: the user may not be administrator' in outcome.reasons
    assert not outcome.wrote
    assert PowerState.ON is bench.machine.power
    assert ['withdraw', 'withdraw everything'] == bench.machine.log


def test_what_may_read_and_not_write_ends_with_what_is_open():
    """The role was taken while the job wrote: engaging is refused five times, and what is open can still be read."""

    class Writer(Reader):
        def patch(self, document, body):
            refused.append(bench.now)
            raise WRONG

    class Reads(Connection):
        def writer(self):
            return Writer(self.session)

    class Writes(Mechanism):
        def engage(self, writer, reading):
            writer.patch(Document(ref=reading.ref, body={}), {})

    bench = restorable(Machine(protects_all=True))
    job = turned_until(bench, 'push')
    refused = []
    bench.tools = replace(bench.tools, connect=lambda address: Reads(bench.machine), mechanisms=(Writes(bench.machine),))
    _, outcome = bench.run(job, ticks=5000)
    assert isinstance(outcome, Failed)
    assert 5 == len(refused)
    assert any('it refused us 5 times' in r for r in outcome.reasons)
    assert any('lock host-device' in r for r in outcome.reasons)
    assert v.NEW == bench.machine.version
