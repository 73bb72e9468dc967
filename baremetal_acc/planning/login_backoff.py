# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Back off from a BMC that has rejected the credentials of a job: how often to retry, and when.

A rejected login rarely succeeds later, and each attempt counts: BMCs lock an account after three to five failures within
minutes, which also locks out its owner. But a BMC that has just started may not know its accounts for a moment, and nobody else
closes the locks that a job has opened there. So the job retries a few times, at growing intervals: at most twice in two
minutes, and at most three times in five.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta

from baremetal_acc.errors import BmcNotAuthorised
from baremetal_acc.model.action import Reset, ResetPurpose
from baremetal_acc.model.job import Job
from baremetal_acc.model.login_refusal import LoginRefusal, Right
from baremetal_acc.model.ref import BmcName

PAUSES = (timedelta(seconds=10), timedelta(minutes=2), timedelta(minutes=5), timedelta(minutes=5))
"""How long to wait after the first rejected login, after the second, and so on."""

LATER = timedelta(hours=1)
"""How long to wait after every further rejected login, for a job that may not give up: one wrong login an hour locks no
account.
"""

FEW, MANY = 3, 1 + len(PAUSES)
"""How often a job tries to log in: FEW while nothing that it did could have made the BMC reject it; MANY once it has to finish.
"""

Kind = tuple[BmcName, Right]
"""A BMC, and the right that the rejected request needed there."""


def most(job: Job) -> int:
    """Return how often a job tries to log in.

    A job that has opened a lock or sent an image has to close the locks again, and a BMC that it has written or reset may just
    be starting.
    """
    resets = (i for i in job.items if isinstance(i.action, Reset) and i.action.purpose is ResetPurpose.ENFORCE)
    return MANY if job.opened or any(i.state.begun for i in resets) else FEW


def next_time(refused: LoginRefusal) -> datetime:
    """Return when the BMC may be asked again."""
    return refused.at + (PAUSES[refused.times - 1] if refused.times <= len(PAUSES) else LATER)


def noted(
    before: Iterable[LoginRefusal], refused: Mapping[Kind, BmcNotAuthorised], passed: Collection[Kind], now: datetime
) -> tuple[LoginRefusal, ...]:
    """Return the rejected logins to remember after BMCs were asked.

    :param refused: the logins that were rejected now.
    :param passed: where a request succeeded that needs valid credentials: the row of rejections there ends.
    """
    known = {(one.bmc, one.right): one for one in before}
    found = {kind: one for kind, one in known.items() if kind not in passed}
    for kind, exc in refused.items():
        times = known[kind].times + 1 if kind in known else 1
        found[kind] = LoginRefusal(bmc=kind[0], right=kind[1], times=times, at=now, what=exc.what, hint=exc.hint)
    return tuple(found[kind] for kind in sorted(found))
