# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How often, and when, a BMC that has refused our credentials is asked again."""

import itertools
from dataclasses import replace
from datetime import timedelta

import pytest

from baremetal_acc.errors import BmcNotAuthorised
from baremetal_acc.model.action import Reset, ResetPurpose
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.model.login_refusal import Right
from baremetal_acc.model.ref import HOST, BmcName
from baremetal_acc.planning import login_backoff
from tests.unit.planning import values as v
from tests.unit.planning.test_job_transitions import job as job_of

WRONG = BmcNotAuthorised(bmc='host', what='the password is wrong', hint='check it')
READ, WRITE = (HOST, Right.READ), (HOST, Right.WRITE)


def refusals(times):
    """The moments at which a BMC is asked that always refuses, by one who asks all the time."""
    known, now, asked = (), v.NOW, []
    while len(asked) < times:
        if all(login_backoff.next_time(one) <= now for one in known):
            asked.append(now)
            known = login_backoff.noted(known, {READ: WRONG}, (), now)
        now += timedelta(seconds=1)
    assert (times, 'the password is wrong', 'check it') == (known[0].times, known[0].what, known[0].hint)
    return asked


@pytest.mark.parametrize(('within', 'most'), [(60, 2), (119, 2), (300, 3), (600, 4)])
def test_no_account_is_locked_out_by_us(within, most):
    """BMCs do that after three to five wrong logins within minutes."""
    asked = refusals(12)
    for first in asked:
        assert most >= sum(1 for at in asked if first <= at < first + timedelta(seconds=within))
    assert [timedelta(hours=1)] * 7 == [b - a for a, b in itertools.pairwise(asked[4:])]


def test_a_bmc_that_starts_has_its_time():
    """One that a job has written or reset is asked for more than twelve minutes, any other for two."""
    asked = refusals(login_backoff.MANY)
    assert timedelta(minutes=12) < asked[-1] - asked[0]
    assert timedelta(minutes=3) > asked[login_backoff.FEW - 1] - asked[0]


def test_only_what_the_credentials_were_needed_for_ends_a_row():
    """That we may read says nothing of whether we may write; another BMC says nothing of this one."""
    known = login_backoff.noted((), {READ: WRONG, WRITE: WRONG}, (), v.NOW)
    assert [('read', 1), ('write', 1)] == [(one.right, one.times) for one in known]
    known = login_backoff.noted(known, {WRITE: WRONG}, {READ, (BmcName('dpu'), Right.WRITE)}, v.NOW)
    assert [('write', 2)] == [(one.right, one.times) for one in known]
    assert () == login_backoff.noted(known, {}, {WRITE}, v.NOW)
    again = login_backoff.noted(known, {WRITE: WRONG}, {WRITE}, v.NOW)
    assert [3] == [one.times for one in again], 'it passed, and then it did not, in one turn'


def test_patience_is_for_what_was_opened_written_or_reset():
    """A job that has only powered the host off has given no BMC a reason to refuse."""
    hold = Reset(system=v.SYSTEM, purpose=ResetPurpose.HOLD, kind=ResetKind.NONE, why=())
    job = job_of(hold)
    begun = [replace(i, state=ItemState.SENT) for i in job.items]
    assert login_backoff.FEW == login_backoff.most(replace(job, items=tuple(begun)))
    enforce = replace(hold, purpose=ResetPurpose.ENFORCE, kind=ResetKind.BMC_RESET)
    job = job_of(enforce)
    assert login_backoff.FEW == login_backoff.most(job)
    assert login_backoff.MANY == login_backoff.most(replace(job, items=(replace(job.items[0], state=ItemState.RUNNING),)))
