# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Detect firmware updates by somebody else since the last reading, from the tasks that a BMC shows.

A BMC keeps tasks that have ended, a hundred or so, until it restarts. An update that was not among them at the last reading,
and that is not ours, was somebody else's. The updates of the last reading are remembered. Before we write to a BMC they are
forgotten, so that the next reading learns our own updates too and judges nothing.

Only tasks that say that they are updates count (:attr:`~baremetal_acc.model.inventory.TaskReading.is_update`): BMCs have tasks
for logs and measurements, and many do not say what a task is for.
"""

import hashlib
from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import UTC, datetime

from baremetal_acc.model.custody import Custody, KnownUpdates
from baremetal_acc.model.inventory import BmcFacts, TaskReading
from baremetal_acc.model.ref import BmcName, Ref


def new(custody: Custody, facts: BmcFacts) -> Ref | None:
    """Return an update that has ended and is not known; None where there is none.

    Nor is there one where the tasks were not read, or nothing was known before.
    """
    known = _known(custody, facts.name)
    if known is None:
        return None
    return next((t.ref for t in facts.ended_tasks or () if t.is_update and _mark(t) not in known.marks), None)


def running(custody: Custody, facts: BmcFacts) -> Ref | None:
    """Return a task that runs, may write firmware and is not a stuck one of ours; None: there is none."""
    known = _known(custody, facts.name)
    stuck = () if known is None else known.stuck
    return next((t.ref for t in facts.active_tasks if t.may_write and _mark(t) not in stuck), None)


def learnt(custody: Custody, facts: BmcFacts, stuck: Collection[Ref] = ()) -> Custody:
    """Return the custody with all updates known that a BMC shows; unchanged where its tasks were not read.

    :param stuck: tasks of our own writes that claim to run for ever. They stay known for as long as the BMC shows them.
    """
    if facts.ended_tasks is None:
        return custody
    shown = (*facts.active_tasks, *facts.ended_tasks)
    known = _known(custody, facts.name)
    before = () if known is None else known.stuck
    ours = {mark for t in facts.active_tasks if (mark := _mark(t)) in before or t.ref in stuck}
    now = KnownUpdates(
        bmc=facts.name,
        marks=tuple(sorted({_mark(t) for t in shown if t.is_update})),
        stuck=tuple(sorted(ours)),
    )
    others = tuple(k for k in custody.updates if k.bmc != facts.name)
    return replace(custody, updates=tuple(sorted((*others, now), key=lambda k: k.bmc)))


def forgotten(custody: Custody, names: Iterable[BmcName]) -> Custody:
    """Return the custody without the known updates of BMCs that we are about to write to."""
    gone = frozenset(names)
    return replace(custody, updates=tuple(k for k in custody.updates if k.bmc not in gone))


def _known(custody: Custody, name: BmcName) -> KnownUpdates | None:
    return next((k for k in custody.updates if k.bmc == name), None)


def _mark(task: TaskReading) -> str:
    """Return a mark of a task, which differs for tasks of one number before and after a restart of the BMC.

    32 bits are enough for a hundred tasks.
    """
    return hashlib.sha256(f'{task.ref.uri} {_moment(task.started)}'.encode()).hexdigest()[:8]


def _moment(started: str | None) -> str:
    """Return a time in UTC; empty where it has no offset. A BMC whose time zone is changed writes the same moment otherwise."""
    try:
        at = datetime.fromisoformat(started or '')
    except ValueError:
        return ''
    return at.astimezone(UTC).isoformat() if at.tzinfo is not None else ''


__all__ = ['forgotten', 'learnt', 'new', 'running']
