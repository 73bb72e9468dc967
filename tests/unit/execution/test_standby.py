# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Standby power goes once, under no update and of no running host; what shows that it was away is what can show it."""

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest

from baremetal_acc.errors import BmcBusy, BmcUnreachable
from baremetal_acc.execution import doing
from baremetal_acc.execution.job_polling import sight_of
from baremetal_acc.execution.power import reset
from baremetal_acc.execution.step_context import StepContext
from baremetal_acc.model.action import Reset, ResetPurpose
from baremetal_acc.model.inventory import PowerState, UpdateActivity
from baremetal_acc.model.job import Flow
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.model.plan import Plan
from baremetal_acc.planning.job_items import ended
from baremetal_acc.planning.job_transitions import advance, begin
from baremetal_acc.planning.retry_limits import RetryLimits
from tests.unit.planning import values as v
from tests.unit.planning.test_activation import CHASSIS, FLASH, MANAGER

AUX, AC = ResetKind.AUX_POWER_CYCLE, ResetKind.AC_POWER_CYCLE
BEFORE, AFTER = '2026-11-20T00:00:00Z', '2026-11-21T12:30:00Z'
PATIENCE = RetryLimits(person=timedelta(hours=3))


class Bmc:
    """A BMC whose Manager says when it was restarted, or not, and a component."""

    def __init__(self, last=BEFORE, power=PowerState.OFF, version=v.OLD, copies=False):
        self.last, self.host, self.version, self.copies = last, power, version, copies
        self.resets, self.switched, self.away = [], [], False

    def active_tasks(self):
        return ()

    def update_activity(self):
        return UpdateActivity.BUSY if self.copies else UpdateActivity.IDLE

    def last_reset(self, ref):
        assert MANAGER == ref
        return self.last

    def power(self, ref):
        if self.away:
            raise BmcUnreachable(bmc='host', what='no answer')
        return self.host

    def component(self, ref):
        return replace(v.component(), version=self.version)

    def set_power(self, ref, wanted):
        self.switched.append(wanted)

    def reset(self, ref, kind):
        self.resets.append((ref, kind))


def job_of(kind=AUX, manager=MANAGER):
    cycle = Reset(
        system=v.SYSTEM, purpose=ResetPurpose.ENFORCE, kind=kind, why=(), by=CHASSIS if kind is AUX else None, manager=manager
    )
    back = Reset(system=v.SYSTEM, purpose=ResetPurpose.ENFORCE, kind=ResetKind.POWER_CYCLE, why=())
    made = Plan(target='node-1', actions=(replace(FLASH, reset=kind), cycle, back))
    job = begin(made, identity='j', node='n', flow=Flow.CLI, step='s', lifecycle=1, now=v.NOW, timeout=timedelta(hours=1))
    return ended(job, 0, ItemState.STAGED, v.NOW)


def done(bmc, job, position=1, now=v.NOW):
    tools = SimpleNamespace(save=lambda _: None, patience=PATIENCE, ramdisk=False, polling=None, power_changed=lambda *_: None)
    at = StepContext(job=job, position=position, target=None, tools=tools, bmcs={'host': bmc}, inventory=None, now=now)
    return reset(at, at.item.action)


def came(bmc, job):
    return sight_of(job, {'host': bmc}, v.NOW, PATIENCE).resets.get(1)


def test_the_action_is_sent_once_to_whom_the_plan_names():
    """A second loss of power would meet whatever the first one has begun."""
    bmc = Bmc()
    job = done(bmc, job_of())
    assert ([(CHASSIS, AUX)], ItemState.RUNNING, BEFORE) == (bmc.resets, job.items[1].state, job.items[1].before)
    assert ([(CHASSIS, AUX)], ItemState.RUNNING) == (bmc.resets, done(bmc, job).items[1].state)


@pytest.mark.parametrize('kind', [AUX, AC])
def test_a_host_that_runs_is_powered_off_first(kind):
    """Its power is not cut under it, by nobody."""
    bmc = Bmc(power=PowerState.ON)
    job = done(bmc, job_of(kind))
    assert ([], [PowerState.OFF], ItemState.PLANNED) == (bmc.resets, bmc.switched, job.items[1].state)
    bmc.host = PowerState.POWERING_OFF
    assert (job, [PowerState.OFF]) == (done(bmc, job), bmc.switched)
    late = done(bmc, job, now=v.NOW + PATIENCE.reset + timedelta(seconds=1)).items[1]
    assert (ItemState.FAILED, True) == (late.state, 'did not power off' in late.message)


@pytest.mark.parametrize('kind', [AUX, AC])
def test_a_background_copy_is_waited_for(kind):
    """What is cut off then is lost; and nobody is asked to pull a cord meanwhile."""
    bmc = Bmc(copies=True)
    with pytest.raises(BmcBusy):
        done(bmc, job_of(kind))
    assert [] == bmc.resets


@pytest.mark.parametrize(('manager', 'last', 'silent', 'shown'), [
    (MANAGER, BEFORE, True, False),
    (MANAGER, AFTER, False, True),
    (None, BEFORE, False, False),
    (None, BEFORE, True, True),
    (MANAGER, None, True, False),
])  # fmt: skip
def test_a_bmc_that_has_restarted_shows_that_it_came(manager, last, silent, shown):
    """By its time; only one that keeps none by its silence."""
    bmc = Bmc()
    job = done(bmc, job_of(manager=manager))
    bmc.last = last
    job = replace(job, items=(job.items[0], replace(job.items[1], silent=silent), job.items[2]))
    assert shown is came(bmc, job)
    bmc.away = True
    assert came(bmc, job) is None


def test_a_restart_of_the_bmc_alone_is_no_pulled_cord():
    """The versions tell; where they were shown before, they do not."""
    bmc = Bmc()
    job = done(bmc, job_of(AC))
    assert ([], ItemState.RUNNING, False) == (bmc.resets, job.items[1].state, job.items[1].shown)
    bmc.last = AFTER
    assert came(bmc, job) is False
    bmc.version = v.NEW
    assert came(bmc, job) is True
    bmc.last = BEFORE
    assert came(bmc, job) is True
    early = done(bmc, job_of(AC))
    assert early.items[1].shown
    assert came(bmc, early) is False
    bmc.last = AFTER
    assert came(bmc, early) is True


def test_whoever_waits_for_a_person_says_for_what_and_until_when():
    """In every turn."""
    job = done(Bmc(), job_of(AC))
    until = v.NOW + PATIENCE.person
    assert until + timedelta(hours=1) == job.deadline
    said = doing(job)
    assert f'wait for a person to unplug and replug the power cord of {v.SYSTEM}' in said
    assert f'until {until:%Y-%m-%d %H:%M:%S}Z' in said


def test_a_host_that_came_on_by_itself_is_not_started_once_more():
    """None more than needed."""
    bmc = Bmc(power=PowerState.ON)
    job = ended(job_of(), 1, ItemState.DONE, v.NOW)
    job = done(bmc, job, 2)
    assert ([], [], ItemState.RUNNING) == (bmc.resets, bmc.switched, job.items[2].state)
    seen = sight_of(job, {'host': bmc}, v.NOW, PATIENCE)
    assert ItemState.DONE is advance(job, seen, v.NOW, PATIENCE).job.items[2].state


def test_a_host_that_is_off_is_started_after_it():
    """As it was before."""
    bmc = Bmc()
    done(bmc, ended(job_of(), 1, ItemState.DONE, v.NOW), 2)
    assert ([], [PowerState.ON]) == (bmc.resets, bmc.switched)
