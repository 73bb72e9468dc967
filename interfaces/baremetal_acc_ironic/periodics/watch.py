# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Periodic: watch that deployed nodes stay as they were handed over, and that unused nodes are off or locked.

Each node has its own rounds, spread over an interval; :mod:`baremetal_acc_ironic.periodics.watch_states` says which node is
watched how, and :mod:`baremetal_acc_ironic.periodics.unused_nodes` has the rounds of unused nodes.

The first round after a node has become active begins at once and reads the full inventory: it closes the gap between the
verification of the deploy and the start of the host. Later rounds reread the watched resources only
(:mod:`baremetal_acc.execution.integrity_watch`): a quiet one costs a BMC a few requests and does not touch the node. If a
reread finds a change, the full inventory is read before anything is reported. :mod:`baremetal_acc.planning.watch` decides what
is reported and what is done.

A round shares the node's lock while it only reads; its findings count only if the node is still the same afterwards.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from ironic.common import exception, states
from oslo_log import log

from baremetal_acc.errors import AccError, CertificateInvalid
from baremetal_acc.execution import Tools, locking
from baremetal_acc.execution.integrity_watch import IntegrityReading
from baremetal_acc.execution.observation import sessions
from baremetal_acc.execution.retry_policy import took_nothing
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import Flow
from baremetal_acc.model.lock import Engagement, LockReading, LockState, Scope, to_be_closed
from baremetal_acc.model.watched_resource import WatchedResource
from baremetal_acc.planning import card_settings, watch, watch_alarms
from baremetal_acc.planning.trouble import CertificateUnreadable, NoCertificate, NotHandedOver
from baremetal_acc.planning.watch_alarms import Alarm, TroubleKind, WatchTrouble
from baremetal_acc.policy.baseline_rules import DriftAction
from baremetal_acc.policy.device_demands import ON_DRIFT
from baremetal_acc.render import troubles
from baremetal_acc_ironic import opts, settings
from baremetal_acc_ironic.periodics import bmc_settings, round_reading, unused_nodes, watch_states
from baremetal_acc_ironic.periodics.rounds import WatchRounds
from baremetal_acc_ironic.periodics.watch_states import ExpectedState, expectation
from baremetal_acc_ironic.periodics.workers import workers
from baremetal_acc_ironic.reporting import alarm
from baremetal_acc_ironic.state import certificate, node_store, provision_state
from baremetal_acc_ironic.state import handover as handed_to
from baremetal_acc_ironic.state.node_state import NodeState, Watched
from baremetal_acc_ironic.state.target import target as target_of
from baremetal_acc_ironic.steps import custody_reading, wall_clock

LOG = log.getLogger(__name__)

HELD = (states.DEPLOYHOLD, states.DEPLOYWAIT)
"""States in which the rest of a deploy may still start the host: a read there does not count as the first. While a deploy waits
for its ramdisk, which is restarted, a node is watched in maintenance only: then the deploy makes no progress, and Ironic does
not end it."""

STATES = watch_states.THEIRS
"""States in which somebody else's host may be on for any length of time: a lessee's admin may have a node held in service. In
those that are not ``given`` a node is watched as handed over if it was, and has not come back."""

MOST_WITNESSES = 600
"""Watched resources that are stored, about 30 bytes each in the node; on a machine with more, every round reads everything."""

AGAIN = timedelta(minutes=1)
"""Pause after a first read that failed. The interval would be long for a gap that is open; no pause would burden a BMC that
starts together with its host."""


_CONDUCTORS: 'WeakKeyDictionary[Any, WatchRounds]' = WeakKeyDictionary()


def rounds_of(manager: Any) -> WatchRounds:
    """Return the rounds of one conductor."""
    return _CONDUCTORS.setdefault(manager, WatchRounds())


def tick() -> float:
    """Return the seconds between two checks for due rounds; each check reads our stored state of every watched node."""
    return max(settings.core().poll_interval, settings.guest().watch_interval / 20).total_seconds()


def hand_out(manager: Any, context: Any, now: datetime) -> None:
    """Begin the rounds that are due. This reads no BMC itself."""
    rounds = rounds_of(manager)
    if not settings.guest().watch_interval:
        rounds.sessions.forget(rounds.sessions.owners())
        return
    waiting = list(_due(manager, rounds, now))
    if waiting:
        turn = partial(look_after, rounds=rounds, due=now)
        workers(manager).hand_out(manager, context, waiting, turn, 'a round of the watch', watching=True)


def _due(manager: Any, rounds: WatchRounds, now: datetime) -> Iterator[str]:
    """Yield this conductor's nodes whose round is due, and forget those that are no longer its own."""
    interval = settings.guest().watch_interval
    fields = ['firmware_interface', 'provision_state', 'driver_internal_info']
    found = list(manager.iter_nodes(filters={'provision_state_in': list(watch_states.WATCHED)}, fields=fields))
    mine = {uuid: (state, info) for uuid, _driver, _group, name, state, info in found if name in opts.HARDWARE_TYPES}
    rounds.forget_all_but(frozenset(mine))
    for uuid, (state, info) in mine.items():
        if node_store.busy(info):
            continue
        if uuid in rounds.lost:
            yield uuid
        elif node_store.unwatched(info) and _owes_first_look(state, info):
            if now - rounds.first.get(uuid, now - interval) >= min(AGAIN, interval):
                yield uuid
        elif watch_alarms.due(uuid, rounds.last.setdefault(uuid, now), now, interval):
            yield uuid


def _owes_first_look(state: str, info: Any) -> bool:
    """Whether the first read is due at once: it is for a deployed node; an unused one can wait."""
    match expectation(state).expected:
        case ExpectedState.GIVEN | ExpectedState.WAITING:
            return True
        case ExpectedState.LEFT:
            return node_store.given(info)
        case ExpectedState.UNTENDED | ExpectedState.WORKED_ON:
            return False


# ------------------------------------------------------------------------------------------------------------- one round


def look_after(task: Any, rounds: WatchRounds, due: datetime) -> None:
    """Run one round of one node. The task shares the node's lock.

    :param due: when the round became due.
    """
    node = task.node
    rounds.last[node.uuid] = rounds.first[node.uuid] = due
    one: _Round | unused_nodes.UnusedNodeRound | None = None
    try:
        state = _loaded(task, rounds)
        if state is not None and state.job is None:
            if watched(node, state):
                one = _Round(task, state, rounds, wall_clock.now())
            elif is_untended(node, state):
                one = unused_nodes.UnusedNodeRound(task, state, rounds, wall_clock.now())
            if one is not None:
                one.run()
        rounds.lost.pop(node.uuid, None)
    except exception.NodeNotFound:
        LOG.info('Node %s was deleted while it was watched', node.uuid)
    except exception.NodeLocked:
        LOG.info('Node %s is locked by another task; this round of the watch could not store its result', node.uuid)
        if one is not None:
            one.locked_out()
    except Exception as exc:
        # Any error: a node that cannot be watched must not look like one that is watched.
        LOG.error('Node %s: its accelerators cannot be watched: %s', node.uuid, exc, exc_info=not isinstance(exc, AccError))


def _loaded(task: Any, rounds: WatchRounds) -> NodeState | None:
    """Load the node state; None where that, or ``driver_info``, cannot be read.

    This is an alarm, reported once by each conductor that has the node, since it cannot be stored with the node. It is none for
    a node that is being enrolled and of which nothing is stored: that may not be ready yet.
    """
    node = task.node
    try:
        state = node_store.load(node)
        target_of(task)
    except Exception as exc:
        # Any error: a node that cannot be loaded must not look like one that is watched.
        LOG.warning('Node %s cannot be loaded, and is not watched: %s', node.uuid, exc, exc_info=not isinstance(exc, AccError))
        if node.uuid not in rounds.unloaded and not unused_nodes.is_enrolling(node):
            (unloadable,) = troubles.recorded([watch.unloadable(exc)])
            one = Alarm(trouble=unloadable, since=wall_clock.now(), told=True)
            alarm.begun(task, one, ON_DRIFT, first=False, lifecycle=0, now=one.since)
            rounds.unloaded[node.uuid] = one
        return None
    known = rounds.unloaded.pop(node.uuid, None)
    if known is not None:
        alarm.over(task, known, ON_DRIFT, lifecycle=state.lifecycle, now=wall_clock.now())
    return state


def _was_handed_over(state: NodeState) -> bool:
    return state.handed_over and (state.handed is not None or state.watched is not None)


def watched(node: Any, state: NodeState) -> bool:
    """Whether a node is deployed, or handed over and not back, as far as we know."""
    match expectation(node.provision_state).expected:
        case ExpectedState.GIVEN:
            return True
        case ExpectedState.LEFT:
            return _was_handed_over(state)
        case ExpectedState.WAITING:
            at_work = node.provision_state == states.DEPLOYWAIT and not node.maintenance
            return _was_handed_over(state) and not at_work
        case ExpectedState.UNTENDED | ExpectedState.WORKED_ON:
            return False


def is_untended(node: Any, state: NodeState) -> bool:
    """Whether a node is unused, as far as we know, and no flow works on it."""
    match expectation(node.provision_state).expected:
        case ExpectedState.UNTENDED:
            return True
        case ExpectedState.LEFT:
            return not _was_handed_over(state)
        case ExpectedState.GIVEN | ExpectedState.WAITING | ExpectedState.WORKED_ON:
            return False


class _Round:
    """One round over a deployed node."""

    def __init__(self, task: Any, state: NodeState, rounds: WatchRounds, now: datetime) -> None:
        self._task = task
        self._state = state
        self._rounds = rounds
        self._now = now
        self._witnesses: tuple[WatchedResource, ...] = ()
        watched = state.watched
        self._watched = watched if watched is not None and watched.lifecycle == state.lifecycle else None
        self._tools: Tools | None = None
        self._unanswered: list[tuple[LockReading, str, AccError]] = []
        self._found: tuple[list[WatchTrouble], Inventory | None, Inventory | None, bool] | None = None

    def run(self) -> None:
        """Reread the watched resources, and read the full inventory where that is not enough."""
        seen = None
        try:
            self._tools = round_reading.tools_for(self._task, self._state)
            if self._may_glance:
                seen = self._glance()
                if seen.quiet:
                    LOG.debug('Node %s: accelerators are as they were handed over', self._task.node.uuid)
                    return
            inventory = self._look(seen)
        except (AccError, exception.InvalidParameterValue, exception.MissingParameterValue) as exc:
            self._say([watch.unreadable(exc)], None, None, blind=True)
            return
        handed = node_store.handed_over(self._task.node, self._state)
        self._say(list(self._troubles(handed, inventory)), handed, inventory)

    @property
    def _may_glance(self) -> bool:
        known = self._watched
        if known is None or known.looked is None or known.alarms or not known.witnesses:
            return False
        return self._now - known.looked < settings.guest().watch_look_interval

    def _glance(self) -> IntegrityReading:
        known = self._watched
        return round_reading.glance(self._task, self._state, self._rounds, known.witnesses if known is not None else ())

    def _look(self, seen: IntegrityReading | None = None) -> Inventory:
        """Read the full inventory, and keep the resources on which it rests.

        :param seen: the reread right before it.
        """
        if self._tools is None:
            raise AssertionError('the tools of this round are not built')
        due = bmc_settings.are_due(self._rounds, self._task.node.uuid, self._tools.baseline, self._now)
        inventory, self._witnesses = round_reading.look(self._task, self._tools, seen, bmc_settings=due)
        return inventory

    # ---- findings ----

    def _troubles(self, handed: Inventory | None, inventory: Inventory) -> Iterator[WatchTrouble]:
        state = self._state
        if state.opened is not None:
            yield watch.opened(state.opened.since, state.opened.why)
        if self._tools is not None:
            yield from watch.accounts(inventory, self._tools.baseline, target_of(self._task).node)
            yield from bmc_settings.troubles(self._task, self._rounds, self._tools.baseline, inventory, self._now)
            yield from card_settings.troubles(inventory, self._tools.baseline, target_of(self._task).node)
        if handed is None:
            yield watch.unproven(NotHandedOver(state=self._task.node.provision_state))
            if self._tools is not None:
                yield from watch.open_locks(inventory, self._tools.baseline, target_of(self._task).node)
            return
        yield from self._uncertified()
        yield from watch.troubles(handed, inventory, custody_reading.evidence(state, Flow.SERVICE), lifecycle=state.lifecycle)

    def _uncertified(self) -> Iterator[WatchTrouble]:
        """Yield a trouble if this deployment has no certificate, or one that is not valid."""
        state = self._task.node.provision_state
        if not certificate.wanted(target_of(self._task).node, self._state):
            return
        try:
            certificate.of(self._task.node, self._state)
        except CertificateInvalid as exc:
            yield watch.unproven(NoCertificate(state=state, error=exc), 'certificate')
        except AccError as exc:
            yield replace(watch.unreadable(exc), subject='certificate', fact=CertificateUnreadable(error=exc))

    def _say(
        self, found: list[WatchTrouble], handed: Inventory | None, inventory: Inventory | None, *, blind: bool = False
    ) -> None:
        """Report, do and store what follows from the findings. From here on the task holds the node exclusively."""
        self._found = (found, handed, inventory, blind)
        if not self._take():
            return
        self._found = None
        first = self._watched is None or self._watched.looked is None
        self._step(found, handed, inventory, blind=blind, first=first)
        if inventory is None or self._state.opened is not None:
            return
        open_ones = [t for t in found if DriftAction.REENGAGE in self._reactions(handed, inventory, t)]
        readings, why = watch.closable(open_ones, inventory)
        alarm.told(self._task, map(troubles.not_closed, why) if first or self._is_new(open_ones) else ())
        if readings and self._engage(readings, inventory):
            try:
                again = self._look()
            except AccError as exc:
                alarm.told(self._task, [f'{_named(r)} could not be engaged again: {said}' for r, _, said in self._unanswered])
                self._step([watch.unreadable(exc)], handed, None, blind=True, first=False)
                return
            self._read_back(again)
            self._step(list(self._troubles(handed, again)), handed, again, first=False)

    def locked_out(self) -> None:
        """Report the findings although another task holds the node's lock."""
        if self._found is None:
            return
        found, handed, inventory, blind = self._found
        round_reading.locked_out(
            self._task,
            self._rounds,
            found,
            () if self._watched is None else self._watched.alarms,
            lambda trouble: self._reactions(handed, inventory, trouble),
            lifecycle=self._state.lifecycle,
            now=self._now,
            blind=blind,
        )

    def _is_new(self, found: Iterable[WatchTrouble]) -> bool:
        keys = {t.key for t in found}
        watched = self._state.watched
        return watched is not None and any(a.trouble.key in keys and a.rounds == 1 for a in watched.alarms)

    def _take(self) -> bool:
        """Lock the node exclusively; False if it has changed since it was read."""
        task = self._task
        task.upgrade_lock(retry=True)
        state = node_store.load(task.node)
        before = self._state
        same = watched(task.node, state) and state.job is None and state.lifecycle == before.lifecycle
        same = same and (state.handed, state.opened, state.evidence) == (before.handed, before.opened, before.evidence)
        if not same:
            LOG.info('Node %s has changed since this round read it; the next round reads it again', task.node.uuid)
        self._state = state
        return same

    def _step(
        self,
        found: list[WatchTrouble],
        handed: Inventory | None,
        inventory: Inventory | None,
        *,
        first: bool,
        blind: bool = False,
    ) -> None:
        """Report the alarms that begin and end, and store what is known after the round."""
        task, state = self._task, self._state
        before: tuple[Alarm, ...] = ()
        if state.watched is not None and state.watched.lifecycle == state.lifecycle:
            before = state.watched.alarms
        came = watch_alarms.next_round(
            before, troubles.recorded(found), self._now, patience=settings.guest().watch_patience, blind=blind
        )
        for one in came.begun:
            reactions = self._reactions(handed, inventory, one.trouble)
            proven = first and one.trouble.kind not in (TroubleKind.UNPROVEN, TroubleKind.UNREADABLE)
            alarm.begun(task, one, reactions, first=proven, lifecycle=state.lifecycle, now=self._now)
            if DriftAction.MAINTENANCE in reactions:
                _maintain(task.node, one)
        for one in came.ended:
            reactions = self._reactions(handed, inventory, one.trouble)
            alarm.over(task, one, reactions, lifecycle=state.lifecycle, now=self._now)
        to_come = task.node.provision_state in HELD
        if first and not came.alarms and not to_come:
            provision_state.told(
                task.node, 'the first inspection after the hand-over found accelerators and locks as they were verified'
            )
        before_this = None if self._watched is None else self._watched.looked
        kept = Watched(
            lifecycle=state.lifecycle,
            looked=before_this if inventory is None or to_come else self._now,  # None: the first read is still due
            witnesses=() if came.alarms or len(self._witnesses) > MOST_WITNESSES else self._witnesses,
            alarms=came.alarms,
        )
        exposed = state.exposed | watch.exposed(found, opened=handed_to.opened_by_us(state))
        state = unused_nodes.over(task, state, self._now)
        state = replace(state, watched=kept, exposed=exposed, handed_over=True)
        node_store.store(task.node, state)
        self._state = state

    def _reactions(
        self, handed: Inventory | None, inventory: Inventory | None, trouble: WatchTrouble
    ) -> frozenset[DriftAction]:
        if self._tools is None:
            return ON_DRIFT
        return watch.reactions(self._tools.baseline, target_of(self._task).node, inventory or handed, trouble)

    # ---- engage locks again ----

    def _engage(self, readings: Iterable[LockReading], inventory: Inventory) -> bool:
        """Engage locks at once. This needs no job: engaging twice does no harm, and a lock that failed is found open again.

        Several cards may share one place, such as a root of trust: it is written once, and recorded for each of them.

        :returns: something was written.
        """
        tools = self._tools
        if tools is None:
            return False
        mechanisms = {m.name: m for m in tools.mechanisms}
        wrote = False
        self._unanswered = []
        with sessions(target_of(self._task), tools) as bmcs:
            for reading in readings:
                session = None
                try:
                    writer = bmcs[reading.ref.bmc].writer()
                    node_store.held(self._task.node)
                    undos = to_be_closed(self._state.undos, reading)
                    if undos != self._state.undos:
                        self._state = replace(self._state, undos=undos)
                        node_store.store(self._task.node, self._state)
                    session = writer.session
                    locking.close(mechanisms[reading.mechanism], writer, reading, undos)
                except AccError as exc:
                    if session is not None and not took_nothing(exc):
                        # The lock may be engaged, and only the answer lost: it is read back.
                        self._unanswered.append((reading, session, exc))
                        wrote = True
                        continue
                    alarm.told(self._task, [f'{_named(reading)} could not be engaged again: {exc}'])
                    continue
                wrote = True
                self._closed(reading, session, inventory)
                alarm.told(self._task, [f'{_named(reading)} was engaged again; it is read back next'])
        return wrote

    def _closed(self, reading: LockReading, session: str, inventory: Inventory) -> None:
        """Store the record of a lock that we have engaged, as evidence for what is read back over another session."""
        shared = [r for a in inventory.accelerators for r in a.locks if r.place == reading.place]
        whole = reading.scope is Scope.BMC
        records = [
            Engagement(
                mechanism=r.mechanism,
                accelerator=r.accelerator,
                ref=r.ref,
                field=r.field,
                lifecycle=self._state.lifecycle,
                flow=Flow.SERVICE,
                session=session,
                at=self._now,
                part=r.part,
                needs=r.needs,
                reset=r.reset,
                scope=r.scope,
                leaves=r.leaves,
            )
            for r in ([reading] if whole else shared)
        ]
        self._state = self._state.proven_by(records)
        node_store.store(self._task.node, self._state)

    def _read_back(self, again: Inventory) -> None:
        """Check the locks whose BMC has answered the request to engage them with an error, or not at all.

        A lock whose value has changed, and that is closed now, was engaged by the request.
        """
        for reading, session, exc in self._unanswered:
            name = _named(reading)
            now = next((r for a in again.accelerators for r in a.locks if r.place == reading.place), None)
            if now is None or now.state is not LockState.LOCKED_REPORTED or now.value == reading.value:
                alarm.told(self._task, [f'{name} could not be engaged again: {exc}'])
                continue
            self._closed(reading, session, again)
            alarm.told(self._task, [f'{name} was engaged again, although the request to its BMC failed: {exc}'])
        self._unanswered = []


def _named(reading: LockReading) -> str:
    return f'{reading.mechanism} of {reading.accelerator} at {reading.ref} {reading.field}'


def _maintain(node: Any, one: Alarm) -> None:
    """Put the node into maintenance, so that it is used for nothing new. The host, which runs a tenant's work, stays on."""
    node_store.held(node)
    others = node.maintenance_reason if node.maintenance else None
    text = f'accelerators are not as they were handed over: {troubles.sentence(one.trouble)}'
    node.maintenance = True
    node.maintenance_reason = (text if not others else f'{text}; before that: {others}')[:4000]
    node.save()
