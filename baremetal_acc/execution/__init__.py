# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Execute a job on a machine: :func:`tick` does one turn of it (poll the BMCs, decide what is due, store the job, perform).

A job observes the machine, acts by its plan, observes again, verifies and publishes to placement. The command line sleeps
between two ticks, Ironic's periodic task comes back later, and tests set the clock. Nothing here sleeps. The job is stored
before every write (:attr:`Tools.save`), so that a restarted process can read the machine and resume. What a failed write has
broken is restored (:mod:`~baremetal_acc.planning.rollback`).
"""

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from baremetal_acc.bmc.driver import BmcAddress, Connection
from baremetal_acc.errors import AccError, BmcNotAuthorised
from baremetal_acc.execution import custody_feed
from baremetal_acc.execution.checking import check_idle, check_image
from baremetal_acc.execution.context import Attestor, ImageStore, PlacementShell, Target, Tools
from baremetal_acc.execution.dispatch import needs_inventory, one_for_each_upload, perform
from baremetal_acc.execution.finish import final_look, look_again, outcome_of, shut_out
from baremetal_acc.execution.host_polling import HostPoll, HostPolling
from baremetal_acc.execution.job_polling import cancel_tasks, of_asked_bmcs, sight_of, tell_complaints
from baremetal_acc.execution.login_tracker import Credentials
from baremetal_acc.execution.login_tracker import shut_out as away
from baremetal_acc.execution.observation import Bmcs, check, compare, observe, sessions, unprotected
from baremetal_acc.execution.power import power_off
from baremetal_acc.execution.retry_policy import blind
from baremetal_acc.execution.step_context import StepContext
from baremetal_acc.execution.target_identity import bound, origin
from baremetal_acc.model.action import Engage, Flash, Program, Release, Reset, SetCardSetting, Stage
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import Job, Outcome, Wait
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.model.login_refusal import Right
from baremetal_acc.planning import activation, interference, lock_changes, login_backoff, rollback, succession
from baremetal_acc.planning.action_descriptions import describe
from baremetal_acc.planning.due_actions import DueActions, waits_for_lock
from baremetal_acc.planning.job_transitions import advance, current, sent, taken_up
from baremetal_acc.planning.retry_limits import RetryLimits

LOG = logging.getLogger(__name__)

_NOW = timedelta(0)


def tick(job: Job, target: Target, tools: Tools, now: datetime) -> tuple[Job, Outcome]:
    """Do one turn of a job: poll what is under way, decide, store the job, and perform what is due.

    :returns: the job to store and to call again with, and whether to call again. A wait of zero means at once.
    :raises StaleJob: the job was begun on another machine; no request was sent to this one.
    """
    if job.ended:
        return job, outcome_of(job)
    job = bound(job, target)
    until = time.monotonic() + (job.deadline - now).total_seconds()
    entry = Credentials(job.turned_away, _in_time(tools.connect, until), now, most=login_backoff.most(job))

    def noted(job: Job) -> Job:
        return replace(job, turned_away=entry.noted())

    # The cards of the plan were there when it was made: one that a write or a reset has lost is not met.
    save = tools.save
    apart = _in_time(tools.connect_apart or tools.connect, until)
    with HostPolling(apart, target.bmcs, now, limit=tools.patience.blind) as polling:
        tools = replace(
            tools,
            known=tools.known | job.devices,
            connect=entry.connect,
            save=lambda job: save(noted(job)),
            polling=polling,
        )
        job, came = _turn(taken_up(job), target, tools, polling, now)
    if noted(job) != job:
        job = noted(job)
        tools.save(job)
    gone = next((one for one in job.turned_away if one.right is Right.READ and one.times >= login_backoff.most(job)), None)
    if gone is None or not isinstance(came, Wait) or job.verdict is not None:
        return job, came
    label = next((b.label for b in target.bmcs if b.name == gone.bmc), gone.bmc)
    job = shut_out(job, away(gone, label), now)
    tools.save(job)
    return job, Wait(delay=_NOW, doing=doing(job))


def _in_time(connect: Callable[[BmcAddress], Connection], until: float) -> Callable[[BmcAddress], Connection]:
    """Return a function that opens sessions whose requests end with the deadline of the job.

    :param until: the deadline, by the monotonic clock. After it locks are still engaged and the machine is still read.
    """
    return lambda address: connect(replace(address, until=until))


def _turn(job: Job, target: Target, tools: Tools, polling: HostPolling, now: datetime) -> tuple[Job, Outcome]:
    """Do the turn of :func:`tick`. BMCs that have refused our credentials are asked only when they may be."""
    at, before = current(job), job
    with sessions(target, tools) as bmcs:
        sight = sight_of(job, bmcs, now, tools.patience)
        job = custody_feed.after_poll(job, HostPoll(at=now, by=polling.moment(), hosts=sight.hosts), tools)
        job = custody_feed.after_foreign_writes(job, sight.foreign_writes, now)
        job = lock_changes.seen(job, sight.changes, now, tools.patience)
        move = of_asked_bmcs(advance(job, sight, now, tools.patience), sight)
        job = custody_feed.after_writes(before, move.job, now)
        tell_complaints(before, job)
        if any(item.cancelled == now for item in job.items):
            tools.save(job)
            job = cancel_tasks(before, job, bmcs, now)
        move = replace(move, job=job)
        polling.begin(interference.holding(job))
        running = interference.running(job, sight.hosts)
        if running:
            tools.save(job)  # the interference is stored before the host is powered off
            power_off(running, bmcs, tools)
        putting_back = job.verdict is None and bool(rollback.due(job, now))
        if putting_back:
            # A failed write comes first: nothing is locked or reset before it is known what has to be restored.
            move = DueActions(job=job)
        try:
            reads = putting_back or needs_inventory(move) or lock_changes.reads_back(job)
            inventory = observe(target, tools, now) if reads else None
        except AccError as exc:
            return blind(job, move, exc, tools, now)
        if inventory is not None:
            job = succession.followed(job, inventory)
            job = lock_changes.read_back(job, inventory, now, tools.patience)
            job = custody_feed.after_reading(job, inventory, target, tools)
            job = interference.looked(job, inventory, tools.baseline, target.node, now, interference.tail(tools.patience.poll))
            if job.interferences != move.job.interferences:
                move = DueActions(job=job)  # the next turn decides what is still due, knowing of the interference
                tools.save(job)
                power_off(interference.running(job, interference.hosts_of(job, inventory)), bmcs, tools)
        if putting_back and inventory is not None:
            return _put_back(job, inventory, tools, now)
        try:
            _see_rights(job, move, bmcs)
        except BmcNotAuthorised as exc:
            LOG.warning('%s: %s', job.target, exc)
            job = replace(job, reasons=(*job.reasons, f'nothing was changed: {exc}'))
            tools.save(job)
            return job, Wait(delay=_NOW, doing=doing(job))
        except AccError as exc:
            return blind(job, move, exc, tools, now)
        planned, job = job, sent(job, move.perform, now)
        job = custody_feed.after_writes(planned, job, now)
        tools.save(job)
        for position in one_for_each_upload(job, move.perform):
            if waits_for_lock(job, position):
                continue  # the BMC carries out the last change of a lock later: this one is sent after it
            due = job
            job = perform(
                StepContext(job=job, position=position, target=target, tools=tools, bmcs=bmcs, inventory=inventory, now=now)
            )
            job = custody_feed.after_writes(due, custody_feed.after_polling(job, tools), now)
            tools.save(job)
    # Not in the tick that saw the last reset come: the final inspection has to be later than what it proves.
    if not move.perform and current(job) is Stage.VERIFY and at is Stage.VERIFY:
        job = custody_feed.after_writes(job, final_look(job, target, tools, now), now)
        tools.save(job)
    if current(job) is None:
        job = replace(job, ended=True)
        tools.save(job)
        return job, outcome_of(job)
    return job, Wait(delay=_delay(job, at, move, tools.patience, now), doing=doing(job))


def doing(job: Job) -> str:
    """Return one line for people about what a job is doing now."""
    at = current(job)
    if at is None:
        return 'ended'
    if at is Stage.VERIFY:
        return 'verifying'
    busy = [i for i in job.items if i.state in (ItemState.SENT, ItemState.RUNNING)]
    person = next(filter(activation.waits_for_person, busy), None)
    if person is not None:
        return f'{at.name.lower()}: {describe(person.action)}, {person.message}'
    names = [describe(i.action) + (f' {i.percent} %' if i.percent is not None else '') for i in busy]
    return f'{at.name.lower()}: {", ".join(names)}' if names else at.name.lower()


def _see_rights(job: Job, move: DueActions, bmcs: Bmcs) -> None:
    """Before the first change, check that our account may do everything planned, on every BMC that is written.

    :raises BmcNotAuthorised: it may not. ``BmcError``: that could not be found out.
    """
    changes = Release | Flash | Program | SetCardSetting | Reset | Engage
    if job.writing or not any(isinstance(job.items[p].action, changes) for p in move.perform):
        return
    planned = [i.action for i in job.items if not i.state.ended]
    written = {a.ref.bmc for a in planned if isinstance(a, Release | Flash | Program | SetCardSetting | Engage)}
    for name in sorted(written):
        bmcs[name].may_write()


def _put_back(job: Job, inventory: Inventory, tools: Tools, now: datetime) -> tuple[Job, Outcome]:
    """Plan what is to be restored, from what is there now. The plan is stored before anything of it is done."""
    job = rollback.put_back(job, inventory, tools.catalogue, now, tools.patience.settle)
    tools.save(job)
    if rollback.due(job, now):
        return job, Wait(delay=tools.patience.poll, doing='waiting for a card to be shown again, to restore what was there')
    return job, Wait(delay=_NOW, doing=doing(job))


def _delay(job: Job, before: Stage | None, move: DueActions, patience: RetryLimits, now: datetime) -> timedelta:
    """Return how long to wait before the next turn.

    That is no time when something can be done at once: an image that is sent in turns has progressed, or nothing is under way,
    and this tick did something or changed the stage.
    """
    if any(i.progress is not None and i.moved == now for i in job.items):
        return _NOW
    under_way = any(i.state in (ItemState.SENT, ItemState.RUNNING) for i in job.items)
    did = any(job.items[p].state.ended for p in move.perform)
    return _NOW if (did or current(job) is not before) and not under_way else patience.poll


__all__ = [
    'Attestor',
    'ImageStore',
    'PlacementShell',
    'Target',
    'Tools',
    'bound',
    'check',
    'check_idle',
    'check_image',
    'compare',
    'doing',
    'look_again',
    'observe',
    'origin',
    'sessions',
    'tick',
    'unprotected',
]
