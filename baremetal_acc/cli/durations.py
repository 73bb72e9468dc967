# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How long a plan will take: as long as a stored job of any target that did the same. Without such a job it is unknown.

Timeouts are no estimates, and a BMC does not report how long an update takes. The same means: the same images on as many
components, as many settings of the same lock mechanisms, and the same resets. The stored job of a target is its last one.
"""

from collections import Counter
from collections.abc import Hashable, Iterable
from datetime import timedelta
from functools import cached_property
from statistics import median_low

from baremetal_acc.cli.state import TargetStore
from baremetal_acc.errors import StateError
from baremetal_acc.model.action import (
    Action,
    CheckImage,
    Engage,
    Flash,
    Program,
    Publish,
    Release,
    Reset,
    SetCardSetting,
    Withdraw,
)
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.model.plan import Plan

_MOST_JOBS = 256
"""Limit of the jobs that are read: a command with a large fleet in its database does not wait for that."""


class EarlierJobs:
    """The durations of the stored jobs in which every action succeeded at once."""

    def __init__(self, store: TargetStore) -> None:
        self._store = store

    def lasted(self, made: Plan) -> timedelta | None:
        """The median duration of the jobs that did the same as a plan would do; None where there is none."""
        found = self._durations.get(_signature(made.actions), []) if made.actions and not made.refusals else []
        return median_low(found) if found else None

    @cached_property
    def _durations(self) -> dict[Hashable, list[timedelta]]:
        found: dict[Hashable, list[timedelta]] = {}
        try:
            jobs = list(self._store.jobs(_MOST_JOBS))
        except StateError:
            return {}
        for job in jobs:
            if job.ended and not job.reasons and not job.second and all(i.state is ItemState.DONE for i in job.items):
                took = max(i.since for i in job.items) - job.created if job.items else timedelta()
                found.setdefault(_signature(i.action for i in job.items), []).append(took)
        return found


def _signature(actions: Iterable[Action]) -> Hashable:
    """What actions do, whatever cards and BMCs they are for: each kind of write, and how often."""
    return frozenset(Counter(_kind(a) for a in actions if not isinstance(a, CheckImage | Withdraw | Publish)).items())


def _kind(action: Action) -> tuple[str, ...]:
    match action:
        case Flash() | Program():
            return type(action).__name__, action.image, action.content or '', action.ref.bmc
        case SetCardSetting():
            return type(action).__name__, action.mechanism, action.value
        case Engage() | Release():
            return type(action).__name__, action.mechanism
        case Reset():
            return type(action).__name__, action.purpose, action.kind
        case _:
            return (type(action).__name__,)
