# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A reset that is answered with an error of the BMC may have been carried out: it is read, and asked for once more at most."""

from dataclasses import replace
from datetime import timedelta

import pytest

from baremetal_acc.errors import BmcRefusalReason, BmcRefused
from baremetal_acc.execution import power
from baremetal_acc.model.action import Reset, ResetPurpose
from baremetal_acc.model.inventory import PowerState
from baremetal_acc.model.job import Done, Failed
from baremetal_acc.model.job_item import Item, ItemState
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.planning.retry_limits import RetryLimits
from tests.unit.execution.bench import Bench, Connection, Machine, restorable
from tests.unit.planning import values as v

ERROR = BmcRefused(bmc='host', what='POST refused with HTTP 500', reason=BmcRefusalReason.INTERNAL_ERROR)


class Falters(Connection):
    """It answers the first resets with an error; ``resets_all_the_same``: and carries them out."""

    resets_all_the_same = False
    errors = 1
    error = ERROR

    def reset(self, system, kind):
        log = self.machine.log
        log.append(f'reset {kind}')
        if log.count(f'reset {kind}') > self.errors:
            self.machine.power_cycle()
            return
        if self.resets_all_the_same:
            self.machine.power_cycle()
        raise self.error

    def offers_reset(self, system, kind):
        return True


def ended(made: type[Connection]) -> tuple[Bench, object]:
    """A job whose firmware needs a power cycle, and how it ends."""
    bench = Bench(machine=Machine(closed=True, protects_all=True), image=v.image(reset=ResetKind.POWER_CYCLE))
    bench.tools = replace(bench.tools, connect=lambda _: made(bench.machine))
    _, outcome = bench.run(bench.job())
    return bench, outcome


@pytest.mark.parametrize('all_the_same', [False, True])
def test_a_reset_that_is_answered_with_an_error_is_read_and_asked_for_once_more_where_it_did_not_come(all_the_same):
    """Never twice where it came."""
    bench, outcome = ended(type('Once', (Falters,), {'resets_all_the_same': all_the_same}))
    assert isinstance(outcome, Done), outcome
    assert (1 if all_the_same else 2, 1) == (bench.machine.log.count('reset power-cycle'), bench.machine.resets)
    assert v.NEW == bench.machine.version


@pytest.mark.parametrize(
    ('shown', 'last', 'is_due'),
    [(PowerState.ON, 'then', True), (PowerState.ON, 'now', False), (PowerState.POWERING_ON, 'then', False)],
)
def test_one_that_came_right_before_it_is_asked_for_once_more_is_not(shown, last, is_due):
    """Between the look that has not seen it and the request it may have come."""

    class Shows:
        def power(self, system):
            return shown

        def last_reset(self, system):
            return last

    action = Reset(system=v.SYSTEM, purpose=ResetPurpose.ENFORCE, kind=ResetKind.POWER_CYCLE, why=())
    item = Item(action=action, since=v.NOW, before='then')
    assert is_due is power._has_not_come(item, action, Shows())


def test_there_is_no_third_time():
    """What did not come is told with what the BMC has said."""
    bench, outcome = ended(type('Always', (Falters,), {'errors': 99}))
    assert isinstance(outcome, Failed)
    assert (2, 0) == (bench.machine.log.count('reset power-cycle'), bench.machine.resets)
    assert any('the reset was not seen within' in r and 'HTTP 500' in r for r in outcome.reasons), outcome.reasons


def test_what_is_on_its_way_is_not_asked_for_once_more():
    """It takes longer than ``settle_timeout`` to come back, and is off or powers up meanwhile."""

    class Slow(Falters):
        def reset(self, system, kind):
            self.machine.log.append(f'reset {kind}')
            self.machine.away = True
            raise self.error

        def power(self, system):
            machine = self.machine
            if getattr(machine, 'away', False):
                machine.polls = getattr(machine, 'polls', 0) + 1
                if machine.polls < 30:
                    return PowerState.POWERING_ON
                machine.away = False
                machine.power_cycle()
            return machine.power

    bench, outcome = ended(Slow)
    assert isinstance(outcome, Done), outcome
    assert (1, 1) == (bench.machine.log.count('reset power-cycle'), bench.machine.resets)


def test_a_reset_that_is_refused_fails_at_once():
    """A BMC that says what is wrong with a request has done nothing."""
    error = BmcRefused(bmc='host', what='POST refused with HTTP 400', reason=BmcRefusalReason.INVALID_REQUEST)
    bench, outcome = ended(type('Refuses', (Falters,), {'error': error}))
    assert isinstance(outcome, Failed)
    assert 1 == bench.machine.log.count('reset power-cycle')


def test_a_power_off_that_is_answered_with_an_error_is_asked_for_once_more():
    """The host is read before that, and is still on."""

    class Switches(Connection):
        def set_power(self, system, wanted):
            if 'error' not in self.machine.log:
                self.machine.log.append('error')
                raise ERROR
            return super().set_power(system, wanted)

    bench = restorable(Machine())
    bench.tools = replace(bench.tools, connect=lambda _: Switches(bench.machine))
    _, outcome = bench.run(bench.job(hold=True))
    assert isinstance(outcome, Done), outcome
    assert ['power Off', 'power On'] == [one for one in bench.machine.log if one.startswith('power')]


def test_no_host_is_reset_under_a_write_that_may_go_on():
    """It was given up, and what it needs to be in force is not given to it: its power may be what it needs most."""
    bench = restorable(Machine(), reset=ResetKind.POWER_CYCLE)
    job = bench.job(timeout=timedelta(hours=1))
    while not any(i.task is not None for i in job.items):
        job, _ = bench.turn(job)
        bench.now += RetryLimits().poll
    position = next(n for n, i in enumerate(job.items) if i.task is not None)
    given_up = replace(job.items[position], state=ItemState.FAILED, unsure=True)
    job = replace(job, items=(*job.items[:position], given_up, *job.items[position + 1 :]), reasons=('given up',))
    _, outcome = bench.run(job)
    assert isinstance(outcome, Failed)
    assert 0 == bench.machine.resets
    assert any('it is not reset while a write may still run' in r for r in outcome.reasons), outcome.reasons
