# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A BMC that does not show all of itself before a write is waited for, and not up to the deadline."""

from dataclasses import replace
from datetime import timedelta

import pytest

from baremetal_acc.model.action import Flash
from baremetal_acc.model.inventory import Gap, PowerState
from baremetal_acc.model.job import Done, Failed
from tests.unit.execution.bench import Connection, Machine, restorable
from tests.unit.planning import values as v

CONTRADICTS = 'two cards are said to be in one slot'


def bench_of(*, shows_all_after: timedelta | None):
    """A BMC that contradicts itself once its host is off, for so long; None: until the host is on again."""
    bench = restorable(Machine())
    off_at = []

    class Odd(Connection):
        def look(self, now):
            found = super().look(now)
            if self.machine.power is not PowerState.OFF:
                return found
            off_at.append(now)
            if shows_all_after is not None and now - off_at[0] > shows_all_after:
                return found
            return replace(found, gaps=(Gap(ref=v.ref('Chassis'), reason=CONTRADICTS, hides=True),))

    bench.tools = replace(bench.tools, connect=lambda _: Odd(bench.machine))
    return bench


@pytest.mark.parametrize('timeout', [timedelta(hours=1), timedelta(hours=20)])
def test_a_contradiction_that_appears_once_the_host_is_off_is_waited_for_and_then_fails_the_job(timeout):
    """Nothing is written, and the reason is the contradiction, however far the deadline is."""
    bench = bench_of(shows_all_after=None)
    _, outcome = bench.run(bench.job(hold=True, timeout=timeout), ticks=3000)
    assert isinstance(outcome, Failed)
    assert (False, ()) == (outcome.wrote, outcome.quarantined)
    assert not any(entry.startswith('push') for entry in bench.machine.log)
    assert any(CONTRADICTS in r and 'nothing was written' in r for r in outcome.reasons), outcome.reasons
    assert bench.now - v.NOW < 3 * bench.tools.patience.settle


def test_what_is_waited_for_is_said_with_its_end():
    """The item says until when, and the same at each poll."""
    bench = bench_of(shows_all_after=None)
    job, said = bench.job(hold=True), set()
    while bench.now - v.NOW < bench.tools.patience.settle:
        job, outcome = bench.turn(job)
        bench.now += max(outcome.delay, timedelta(seconds=1))
        said |= {i.message for i in job.items if isinstance(i.action, Flash) and i.message}
    assert 1 == len(said), said
    assert f'{CONTRADICTS}; waiting until ' in said.pop()


def test_a_contradiction_that_passes_is_no_reason():
    """The card is written once all of it is shown."""
    bench = bench_of(shows_all_after=timedelta(seconds=30))
    _, outcome = bench.run(bench.job(hold=True))
    assert isinstance(outcome, Done), outcome
    assert v.NEW == bench.machine.version
