# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A reset of a BMC is asked for once, not under an update, and believed when its Manager shows it, or has fallen silent."""

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest

from baremetal_acc.errors import BmcBusy, BmcNotAuthorised, BmcUnreachable
from baremetal_acc.execution.job_polling import sight_of
from baremetal_acc.execution.power import reset
from baremetal_acc.execution.step_context import StepContext
from baremetal_acc.model.action import Reset, ResetPurpose
from baremetal_acc.model.inventory import PowerState, UpdateActivity
from baremetal_acc.model.job import Flow
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.model.plan import Plan
from baremetal_acc.planning.job_transitions import advance, begin
from baremetal_acc.planning.retry_limits import RetryLimits
from tests.unit.planning import values as v

MANAGER = v.ref('Managers/1')


class Bmc:
    """A BMC that can be reset."""

    def __init__(self, last='2026-11-21T00:00:00Z', tasks=(), lost=False):
        self.last, self.tasks, self.lost, self.resets, self.away = last, tasks, lost, [], False
        self.host, self.switched = PowerState.ON, []

    def active_tasks(self):
        return self.tasks

    def offers_reset(self, ref, kind):
        return True

    def update_activity(self):
        return UpdateActivity.UNKNOWN

    def last_reset(self, ref):
        if self.away:
            raise BmcUnreachable(bmc='host', what='no answer')
        return self.last

    def power(self, ref):
        if ref == MANAGER:
            raise AssertionError('a Manager has no power button')
        return self.host

    def set_power(self, ref, wanted):
        self.switched.append((ref, wanted))

    def reset(self, ref, kind):
        self.resets.append((ref, kind))
        if self.lost:
            raise BmcUnreachable(bmc='host', what='no answer')


def job_of(purpose=ResetPurpose.ENFORCE, system=MANAGER, kind=ResetKind.BMC_RESET):
    made = Plan(target='node-1', actions=(Reset(system=system, purpose=purpose, kind=kind, why=('a lock',)),))
    return begin(made, identity='j', node='n', flow=Flow.CLI, step='s', lifecycle=1, now=v.NOW, timeout=timedelta(hours=1))


def asked(bmc, job):
    stored = []
    tools = SimpleNamespace(
        save=stored.append, patience=RetryLimits(), ramdisk=False, polling=None, power_changed=lambda *_: None
    )
    at = StepContext(job=job, position=0, target=None, tools=tools, bmcs={'host': bmc}, inventory=None, now=v.NOW)
    after = reset(at, at.item.action)
    return after, stored


def came(bmc, job):
    return sight_of(job, {'host': bmc}, v.NOW, RetryLimits()).resets[0]


@pytest.mark.parametrize('lost', [False, True])
def test_what_shows_it_is_stored_before_it_is_asked_for_and_it_is_asked_for_once(lost):
    """Also where the answer is lost: a second reset would meet whatever the first one has begun."""
    bmc = Bmc(lost=lost)
    job, stored = asked(bmc, job_of())
    assert ['2026-11-21T00:00:00Z'] == [j.items[0].before for j in stored]
    assert ([(MANAGER, ResetKind.BMC_RESET)], ItemState.RUNNING) == (bmc.resets, job.items[0].state)
    again, _ = asked(bmc, stored[0])
    assert (1, ItemState.RUNNING) == (len(bmc.resets), again.items[0].state)


@pytest.mark.parametrize(('system', 'kind'), [(MANAGER, ResetKind.BMC_RESET), (v.ref('Systems/1'), ResetKind.SYSTEM_RESET)])
@pytest.mark.parametrize(
    ('last', 'now'),
    [
        ('2026-11-21T12:00:00Z', True),
        ('2026-11-21T13:00:01+01:00', True),
        ('2026-11-21T11:59:59', True),
        ('2026-11-21T11:59:58Z', False),
        ('2026-11-21T12:00:02Z', False),
        ('2026-11-21T14:00:00Z', False),
        ('yesterday', False),
    ],
)
def test_what_was_reset_in_this_very_second_is_reset_later(system, kind, last, now):
    """Its time has whole seconds: the job would wait for a change that has been there."""
    bmc = Bmc(last=last)
    job = job_of(system=system, kind=kind)
    after, stored = asked(bmc, job)
    if now:
        assert (job, [], []) == (after, stored, bmc.resets)
    else:
        assert [last] == [j.items[0].before for j in stored]
        assert (ItemState.RUNNING, 1) == (after.items[0].state, len(bmc.resets))


def test_no_bmc_is_reset_under_an_update():
    """Its memory of the task is the only one that there is."""
    task = SimpleNamespace(ref=v.ref('Tasks/1'), raw='Running')
    bmc = Bmc(tasks=(task,))
    with pytest.raises(BmcBusy, match='still runs'):
        asked(bmc, job_of())
    assert [] == bmc.resets


def test_no_host_that_went_off_by_itself_is_powered_on_under_an_update():
    """What is written then may end in a card that does not start: lives 20261126240587 and 20261126283102."""
    task = SimpleNamespace(ref=v.ref('Tasks/1'), raw='Running')
    bmc = Bmc(tasks=(task,))
    bmc.host = PowerState.OFF
    job = job_of(system=v.SYSTEM, kind=ResetKind.POWER_CYCLE)
    with pytest.raises(BmcBusy, match='still runs'):
        asked(bmc, job)
    assert [] == bmc.switched
    bmc.tasks = ()
    asked(bmc, job)
    assert [(v.SYSTEM, PowerState.ON)] == bmc.switched


@pytest.mark.parametrize('error', [BmcBusy(bmc='host', what='503'), BmcNotAuthorised(bmc='host', what='401')])
def test_a_bmc_that_answers_at_all_is_not_silent(error):
    """Where no time is shown its silence is what tells; a BMC that is busy for once has not been restarted."""
    bmc = Bmc(last=None)
    job, _ = asked(bmc, job_of())

    def busy(ref):
        raise error

    there, bmc.last_reset = bmc.last_reset, busy
    assert came(bmc, job) is False
    job = advance(job, sight_of(job, {'host': bmc}, v.NOW, RetryLimits()), v.NOW, RetryLimits()).job
    bmc.last_reset = there
    assert came(bmc, job) is False


def test_it_came_when_the_manager_shows_another_time():
    """Not before, and not while it is silent."""
    bmc = Bmc()
    job, _ = asked(bmc, job_of())
    assert came(bmc, job) is False
    bmc.away = True
    assert came(bmc, job) is None
    bmc.away, bmc.last = False, '2026-11-21T00:05:00Z'
    assert came(bmc, job) is True
    bmc.last = None
    assert came(bmc, job) is False


def test_where_no_time_is_shown_it_came_when_it_was_silent():
    """An iLO shows none. One that never fell silent was never reset."""
    bmc = Bmc(last=None)
    job, stored = asked(bmc, job_of())
    assert [''] == [j.items[0].before for j in stored]
    assert came(bmc, job) is False
    silent = replace(job, items=(replace(job.items[0], silent=True),))
    assert came(bmc, silent) is True


def test_a_host_that_is_given_back_is_seen_by_its_power_whatever_kind_it_serves():
    """The strongest need of a plan may be a reset of the BMC: that is no property of the host's return."""
    job = job_of(ResetPurpose.RESUME, v.SYSTEM)
    job = replace(job, items=(job.items[0].to(ItemState.RUNNING, v.NOW),))
    assert came(Bmc(), job) is True
