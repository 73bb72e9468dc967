# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A lock that opens only what was closed: the record is stored first, and lasts until it was opened."""

from dataclasses import replace

import pytest

from baremetal_acc.errors import BmcRefused, Refused
from baremetal_acc.locks.ipmi_firmware_firewall import FirmwareFirewall
from baremetal_acc.model.action import Release
from baremetal_acc.model.codec import decode
from baremetal_acc.model.job import Done, Failed, Job
from baremetal_acc.model.lock import LockState
from baremetal_acc.planning.plan import Part
from tests.unit.execution.bench import Bench, Machine, Mechanism
from tests.unit.planning import values as v

LOCK = frozenset({Part.LOCK})
UNLOCK = frozenset({Part.UNLOCK})


class Walled(Mechanism):
    """A lock of several parts, of which the vendor has closed some."""

    about = FirmwareFirewall.about
    opened = ()
    refuses = False
    shows = None
    leaves_then = ''
    before = ()

    def read(self, accelerator, readers, now):
        closed = self.machine.closed
        told = {'closes': '' if closed else '06/0:34', 'leaves': self.leaves_then if closed else ''}
        return tuple(replace(r, state=self.shows or r.state, **told) for r in super().read(accelerator, readers, now))

    def engage(self, writer, reading, closed=()):
        self.before = tuple(closed)
        super().engage(writer, reading)
        if self.refuses:
            raise BmcRefused(bmc='host', what='no')

    def reopen(self, writer, reading, closed):
        self.machine.log.append('reopen')
        self.opened = tuple(closed)
        if self.refuses:
            raise BmcRefused(bmc='host', what='no')
        self.machine.closed = False


def bench():
    made = Bench(machine=Machine(version=v.NEW))
    lock = Walled(made.machine)
    made.tools = replace(made.tools, mechanisms=(lock,))
    return made, lock


def kept(job):
    return [undo.closed for undo in job.undos]


def test_what_it_closes_is_stored_before_it_is_closed():
    """Who dies in between has the record, too."""
    made, _ = bench()
    job, outcome = made.run(made.job(parts=LOCK))
    assert isinstance(outcome, Done)
    assert [('06/0:34',)] == kept(job)
    before = made.machine.log.index('engage')
    jobs = [decode(Job, body) for body, length in made.saved if length <= before]
    assert [('06/0:34',)] == kept(jobs[-1])
    assert [] == kept(jobs[0])


def test_what_was_closed_before_is_told_to_who_closes_it_again():
    """What is open of that, and cannot be closed any more, is for the mechanism to find."""
    made, lock = bench()
    first, _ = made.run(made.job(parts=LOCK))
    assert ('06/0:34',) == lock.before
    made.machine.closed, lock.before = False, ()
    made.run(replace(made.job(parts=LOCK), undos=first.undos))
    assert ('06/0:34',) == lock.before


def test_a_lock_that_leaves_something_else_open_than_when_it_was_engaged_is_not_verified():
    """It may be what we have closed: the device does not let it be closed any more, and the lock reads closed."""
    made, lock = bench()
    job, outcome = made.run(made.job(parts=LOCK))
    assert (True, ['']) == (isinstance(outcome, Done), [e.leaves for e in job.engagements])
    made, lock = bench()
    lock.leaves_then = 'a1b2'
    _, outcome = made.run(made.job(parts=LOCK))
    assert isinstance(outcome, Failed)
    assert 'the parts that its BMC cannot lock differ from those when it was engaged' in str(outcome)


def test_an_engagement_that_failed_is_remembered():
    """It may have been done in part."""
    made, lock = bench()
    lock.refuses = True
    job, outcome = made.run(made.job(parts=LOCK))
    assert isinstance(outcome, Failed)
    assert [('06/0:34',)] == kept(job)


def test_another_job_opens_what_was_closed_and_forgets_it():
    """However many jobs lie between; nothing of the mechanism's other way to release is used."""
    made, lock = bench()
    first, _ = made.run(made.job(parts=LOCK))
    second, _ = made.run(replace(made.job(parts=LOCK), undos=first.undos))
    assert first.undos == second.undos
    third, outcome = made.run(made.job(parts=UNLOCK, demands_met=False, undos=second.undos))
    assert isinstance(outcome, Done)
    assert (('06/0:34',), []) == (lock.opened, kept(third))
    assert 'release' not in made.machine.log


@pytest.mark.parametrize('state', ['partial', 'locked-reported'])
def test_what_we_have_not_closed_is_not_opened_by_a_job_that_has_lost_its_record_either(state):
    """The plan refused that, or planned nothing; whoever has lost the record since opens nothing that is not his."""
    made, lock = bench()
    planned, _ = made.run(made.job(parts=LOCK))
    job = made.job(parts=UNLOCK, demands_met=False, undos=planned.undos)
    assert any(isinstance(i.action, Release) for i in job.items)
    made.machine.log.clear()
    lock.shows = LockState(state)
    lock.refuses = True
    _, outcome = made.run(replace(job, undos=()))
    log = [] if state == 'partial' else ['reopen']
    assert (state == 'partial', log) == (isinstance(outcome, Done), made.machine.log)
    assert lock.opened == ()


@pytest.mark.parametrize('hold', [False, True])
def test_where_nobody_remembers_the_plan_refuses_before_the_host_is_touched(hold):
    """Nothing of it could be opened in the end, and the host would have been powered off for that."""
    made, _ = bench()
    made.run(made.job(parts=LOCK))
    made.machine.log.clear()
    with pytest.raises(Refused, match='no record of what we engaged') as refused:
        made.job(parts=UNLOCK, hold=hold, demands_met=False)
    assert 'the record is kept where the lock was engaged' in refused.value.hint
    assert [] == made.machine.log


def test_what_could_not_be_opened_is_remembered():
    """The next one tries it again."""
    made, lock = bench()
    first, _ = made.run(made.job(parts=LOCK))
    lock.refuses = True
    second, outcome = made.run(made.job(parts=UNLOCK, demands_met=False, undos=first.undos))
    assert isinstance(outcome, Failed)
    assert [('06/0:34',)] == kept(second)
