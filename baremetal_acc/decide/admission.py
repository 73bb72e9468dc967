# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How often is a BMC asked again that has refused our credentials?

Waiting hardly helps, and each wrong login counts: BMCs lock an account out after three to five of them within minutes, and its
owner with it. But one that has just started may know no accounts for a moment, and what a job has opened there nobody else
closes. So it is asked a few times, at growing distances: never more than twice in two minutes, nor three times in five.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta

from baremetal_acc.errors import BmcNotAuthorised
from baremetal_acc.model.job import Job, Reset, ResetPurpose, Right, TurnedAway
from baremetal_acc.model.ref import BmcName

PAUSES = (timedelta(seconds=10), timedelta(minutes=2), timedelta(minutes=5), timedelta(minutes=5))
"""After the first refusal, the second, and so on."""

LATER = timedelta(hours=1)
"""After all others, for who may not give up: one wrong login an hour locks nobody out."""

FEW, MANY = 3, 1 + len(PAUSES)
"""How often a job asks: while nothing of it could have made the BMC refuse; and once there is no way but through."""

Kind = tuple[BmcName, Right]
"""A BMC, and what was wanted of it."""


def most(job: Job) -> int:
    """How often a job asks. What it has opened or written has to be closed; and what it has written or reset may just start."""
    resets = (i for i in job.items if isinstance(i.action, Reset) and i.action.purpose is ResetPurpose.ENFORCE)
    return MANY if job.opened or any(i.state.begun for i in resets) else FEW


def next_time(refused: TurnedAway) -> datetime:
    """When it may be asked again."""
    return refused.at + (PAUSES[refused.times - 1] if refused.times <= len(PAUSES) else LATER)


def noted(
    before: Iterable[TurnedAway], refused: Mapping[Kind, BmcNotAuthorised], passed: Collection[Kind], now: datetime
) -> tuple[TurnedAway, ...]:
    """What is remembered after BMCs were asked.

    :param refused: what has refused now.
    :param passed: where something was done that would not have been without good credentials: that ends the row.
    """
    known = {(one.bmc, one.right): one for one in before}
    found = {kind: one for kind, one in known.items() if kind not in passed}
    for kind, exc in refused.items():
        times = known[kind].times + 1 if kind in known else 1
        found[kind] = TurnedAway(bmc=kind[0], right=kind[1], times=times, at=now, what=exc.what, hint=exc.hint)
    return tuple(found[kind] for kind in sorted(found))
