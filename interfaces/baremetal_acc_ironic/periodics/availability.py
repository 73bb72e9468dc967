# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Periodic: withdraw from placement what unavailable nodes offer, and publish it again once a node is available.

A node goes to maintenance, fails, is moved to manageable, is adopted: none of this runs a step of ours, and a device can be
claimed without its machine. So a periodic compares the state of each node (:mod:`baremetal_acc.scheduling.node_availability`)
with what placement was last sent, which is stored with the node. For a node at rest this needs no request to placement or to a
BMC.

Before anything is published again, the whole node is read and verified: an operator may have put it into maintenance to swap a
card. A node that a tenant has had, and that was not cleaned since, is not published, whatever its BMC reports. What a pool has
withdrawn stays withdrawn: only what was withdrawn here, or by a step, is published again.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from ironic.common import exception
from oslo_log import log

from baremetal_acc import execution
from baremetal_acc.errors import AccError, InventoryInUse, NotMet
from baremetal_acc.execution import Tools
from baremetal_acc.model.action import Publish
from baremetal_acc.model.job import Job
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.model.plan import Plan
from baremetal_acc.planning.plan import Part
from baremetal_acc.scheduling.node_availability import FLOWS, Due, NodeAvailability, due, unfit
from baremetal_acc.scheduling.schedulable import supply
from baremetal_acc_ironic import opts, placement, settings
from baremetal_acc_ironic.authorization import exposure, resource_class, traits
from baremetal_acc_ironic.periodics.workers import clock_of, workers
from baremetal_acc_ironic.state import handover, node_store, provision_state
from baremetal_acc_ironic.state.node_state import NodeState, Withdrawn
from baremetal_acc_ironic.state.target import target as target_of
from baremetal_acc_ironic.steps import definitions, verdict_record
from baremetal_acc_ironic.steps.job_context import seen
from baremetal_acc_ironic.steps.job_context import tools as tools_of
from baremetal_acc_ironic.steps.verdict_record import StepVerdict

LOG = log.getLogger(__name__)

NAME = 'fitness'
"""Name of this reader in drift reports."""

AT_A_TIME = 50
"""Nodes that are begun in one round: a hundred thousand that change at once must not keep a conductor from everything else."""

LONGEST = {Due.WITHDRAW: timedelta(minutes=5), Due.OFFER: timedelta(minutes=30)}
"""Longest pause before a failed request is retried. Publishing again takes a full read of the BMCs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LateNodes:
    """A failed update of placement, to be retried.

    :ivar standing: the node's Ironic state at that time.
    :ivar at: when it is retried, if the node's state is still the same.
    :ivar pause: the pause before that; doubled by each further failure.
    """

    standing: NodeAvailability
    at: datetime
    pause: timedelta
    why: str


@dataclass(slots=True)
class AvailabilityRounds:
    """What one conductor keeps in memory about its rounds.

    :ivar mine: nodes of this conductor about which placement may have been sent something.
    :ivar gone: nodes that were deleted, and of which placement may still have providers.
    :ivar others: nodes that have another firmware interface by now, with their instance, which placement may still offer: none
        of our steps will ever withdraw them. ``quiet`` are those that were withdrawn since.
    :ivar late: failed updates, by node.
    :ivar burying: a worker is dealing with ``gone`` and ``others``.
    """

    mine: set[str] = field(default_factory=set)
    gone: dict[str, LateNodes | None] = field(default_factory=dict)
    others: dict[str, str | None] = field(default_factory=dict)
    quiet: set[str] = field(default_factory=set)
    late: dict[str, LateNodes] = field(default_factory=dict)
    burying: bool = False


_CONDUCTORS: 'WeakKeyDictionary[Any, AvailabilityRounds]' = WeakKeyDictionary()

_GONE = NodeAvailability(state='')

_SAY = frozenset(name for name, step in definitions.STEPS.items() if Part.PUBLISH in step.parts)
"""Steps of ours that publish to placement."""


def rounds_of(manager: Any) -> AvailabilityRounds:
    """Return the rounds of one conductor."""
    return _CONDUCTORS.setdefault(manager, AvailabilityRounds())


def tick() -> float:
    """Return the seconds between two rounds."""
    return settings.guest().availability_interval.total_seconds() or 60.0


def on() -> bool:
    """Whether the periodic is enabled: publishing is on, and its interval is not 0."""
    return placement.is_wanted() and bool(settings.guest().availability_interval)


def hand_out(manager: Any, context: Any, now: datetime) -> None:
    """Begin what is due. This asks the database once, and neither placement nor a BMC."""
    if not on():
        return
    rounds = rounds_of(manager)
    fields = [
        'firmware_interface',
        'provision_state',
        'maintenance',
        'retired',
        'instance_uuid',
        'reservation',
        'driver_internal_info',
    ]
    mine: set[str] = set()
    others: dict[str, str | None] = {}
    waiting = []
    for uuid, _driver, _group, name, state, maintenance, retired, instance, reservation, info in manager.iter_nodes(
        fields=fields
    ):
        if not node_store.known(info):
            continue  # nothing was ever published of it
        if name not in opts.HARDWARE_TYPES:
            others[uuid] = instance
            continue
        mine.add(uuid)
        if reservation is not None or node_store.busy(info):
            continue
        standing = _standing(state, maintenance, retired, instance, info)
        withdrawn, doubtful = node_store.withdrawn(info)
        if due(standing, withdrawn=withdrawn, doubtful=doubtful) is Due.NOTHING:
            rounds.late.pop(uuid, None)
        elif not _later(rounds.late.get(uuid), standing, now):
            waiting.append(uuid)
    _forget(manager, rounds, mine)
    if waiting:
        turn = partial(look_after, rounds=rounds)
        workers(manager).hand_out(manager, context, waiting[:AT_A_TIME], turn, 'the update of placement', watching=True)
    rounds.quiet &= others.keys()
    rounds.others = {uuid: instance for uuid, instance in others.items() if uuid not in rounds.quiet}
    if (rounds.gone or any(not _later(rounds.late.get(u), _GONE, now) for u in rounds.others)) and not rounds.burying:
        _begin_burial(manager, rounds, now)


def _later(late: LateNodes | None, standing: NodeAvailability, now: datetime) -> bool:
    """Whether a try has failed, the node's state is the same since, and it is not yet time to retry."""
    return late is not None and late.standing == standing and now < late.at


def _failed(uuid: str, standing: NodeAvailability, what: Due, why: str, before: LateNodes | None) -> LateNodes:
    """Log a new reason once, and return when the next try is due, after a pause that grows."""
    first = timedelta(seconds=tick())
    same = before is not None and before.standing == standing
    pause = min(before.pause * 2 if same and before is not None else first, max(LONGEST[what], first))
    if not same or before is None or before.why != why:
        LOG.warning('Node %s: placement cannot be updated: %s', uuid, why)
    return LateNodes(standing=standing, at=datetime.now(UTC) + pause, pause=pause, why=why)


# --------------------------------------------------------------------------------------------------------------- one node


def standing_of(node: Any) -> NodeAvailability:
    """Return the facts of an Ironic node on which its availability depends."""
    return _standing(node.provision_state, node.maintenance, node.retired, node.instance_uuid, node.driver_internal_info)


def _standing(
    state: str, maintenance: Any, retired: Any, instance: str | None, info: Mapping[str, Any] | None
) -> NodeAvailability:
    return NodeAvailability(
        state=state,
        maintenance=bool(maintenance),
        retired=bool(retired),
        claimed=instance is not None,
        exposed=node_store.exposed(info),
        said=state in FLOWS and _said(info or {}),
    )


def _said(info: Mapping[str, Any]) -> bool:
    """Whether one of the steps of this cleaning, up to the present one, publishes to placement."""
    begun = (info.get('clean_steps') or [])[: (info.get('clean_step_index') or 0) + 1]
    return any(s.get('interface') == 'firmware' and s.get('step') in _SAY for s in begun)


def look_after(task: Any, rounds: AvailabilityRounds) -> None:
    """Do what is due for one node. The task shares the node's lock."""
    node = task.node
    standing = standing_of(node)
    what = Due.WITHDRAW
    try:
        state = node_store.load(node)
        shelf = state.shelf.withdrawn
        what = due(standing, withdrawn=shelf is not None, doubtful=shelf is not None and shelf.doubtful)
        if state.job is not None or what is Due.NOTHING:
            return
        if what is Due.WITHDRAW:
            _withdraw(task, standing)
        else:
            _offer(task, state, standing)
        rounds.late.pop(node.uuid, None)
    except exception.NodeNotFound:
        LOG.info('Node %s was deleted while placement was updated', node.uuid)
    except exception.NodeLocked:
        LOG.debug('Node %s is locked by another task; the next round updates placement', node.uuid)
    except AccError as exc:
        rounds.late[node.uuid] = _failed(node.uuid, standing, what, str(exc), rounds.late.get(node.uuid))
    except Exception as exc:
        LOG.exception('Node %s: unexpected error while placement was updated', node.uuid)
        rounds.late[node.uuid] = _failed(node.uuid, standing, what, str(exc), rounds.late.get(node.uuid))


def _still(task: Any, standing: NodeAvailability) -> NodeState | None:
    """Lock the node exclusively; None if its state is not the one that was read before."""
    task.upgrade_lock(retry=True)
    state = node_store.load(task.node)
    if state.job is not None or standing_of(task.node) != standing:
        LOG.debug('Node %s has changed since this round read it; the next round reads it again', task.node.uuid)
        return None
    return state


def _withdraw(task: Any, standing: NodeAvailability) -> None:
    why = unfit(standing)
    if _still(task, standing) is None or why is None:
        return
    node = task.node  # as loaded under the exclusive lock
    held = None
    changed = True
    try:
        changed = placement.withdraw(node.uuid, node.instance_uuid, partial(node_store.held, node))
    except InventoryInUse as exc:
        held = exc.message  # all else is withdrawn, and this is reserved: nobody can claim it once it is released
    node_store.store(node, told(node_store.load(node), Withdrawn(since=datetime.now(UTC), why=why)))
    if changed:
        provision_state.told(node, f'its accelerators were withdrawn from placement: {why}' + (f'; {held}' if held else ''))
    if held:
        LOG.warning(
            'Node %s: its accelerators were withdrawn from placement (%s), but an allocation remains: %s', node.uuid, why, held
        )


def _offer(task: Any, state: NodeState, standing: NodeAvailability) -> None:
    """Read the inventory, verify it, and publish what is met."""
    refuse_uncleaned(state)
    placement.ready(task.node.uuid)  # before any BMC is read
    clock = clock_of(task)
    now = datetime.now(UTC)
    inventory, verdict = execution.check(
        target_of(task), tools_of(task, state, clock=clock), state.evidence, now, lifecycle=state.lifecycle
    )
    again = _still(task, standing)
    if again is None:
        return
    node = task.node  # as loaded under the exclusive lock
    mine = (state.lifecycle, state.evidence, state.opened, state.quarantined, state.shelf)
    if mine != (again.lifecycle, again.evidence, again.opened, again.quarantined, again.shelf):
        return
    tools = tools_of(task, again, clock=clock)
    if tools.placement is None:
        return
    why = contested(task, again, tools)
    if why:
        raise NotMet(why)
    made = supply(inventory, verdict, tools.baseline, target_of(task).node, tools.catalogue, left=tools.left)
    # If this process ends from here on, the node counts neither as withdrawn nor as published.
    shelf = again.shelf
    if shelf.withdrawn is not None:
        node_store.store(node, told(again, replace(shelf.withdrawn, doubtful=True)))
    tools.placement.publish(inventory, verdict, made)
    last = seen(task, node_store.load(node), tools, inventory, verdict, by=NAME)
    judged = StepVerdict(inventory=inventory, verdict=verdict, proof=again.evidence, by=NAME, flow=None)
    last = verdict_record.kept(task, last, tools, judged)
    node_store.store(node, told(last, None))
    unmet = sorted({f.label for f in verdict.unmet})
    more = f'; not published, since not verified: {", ".join(unmet)}' if unmet else ''
    was = shelf.withdrawn
    since = '' if was is None else f' (withdrawn since {was.since:%Y-%m-%d %H:%M:%S} UTC: {was.why})'
    provision_state.told(node, f'its verified accelerators are published again{since}{more}')


def contested(task: Any, state: NodeState, tools: Tools) -> tuple[str, ...]:
    """Return why nothing of a node may be published although every rule is met: other rules may have been meant for it."""
    node = task.node
    why = (*resource_class.contested(node, target_of(task).node, tools.baseline), *exposure.contested(node, state))
    return (*why, *traits.contested(node, state, tools.baseline))


def refuse_uncleaned(state: NodeState) -> None:
    """Refuse to publish a node that a tenant has had and that was not cleaned since.

    An inventory read cannot tell what the tenant has done to it.

    :raises NotMet: the node was not cleaned since, or its locks are open.
    """
    why = []
    if state.handed_over or state.shelf.unsorted or handover.came_back(state) or state.exposed or state.anew:
        why.append('a tenant has had the node, or a host may have written its cards, and it was not cleaned since')
    if state.opened is not None:
        why.append(f'locks are open since {state.opened.since:%Y-%m-%d %H:%M:%S} UTC ({state.opened.why})')
    if why:
        raise NotMet(why, hint='clean the node')


# -------------------------------------------------------------------------------------------------- what jobs have published


def told(state: NodeState, what: Withdrawn | None) -> NodeState:
    """Return the node state with what was withdrawn from placement last."""
    return replace(state, shelf=replace(state.shelf, withdrawn=what))


def close(task: Any, state: NodeState, made: Plan) -> None:
    """Withdraw what a node offers before a publishing job of its cleaning begins, whatever devices that job touches.

    A node may be cleaned right after it was made manageable, before a round has come by, and nothing of it may be available
    until it was verified. If placement cannot be asked, the job itself withdraws what it touches, and waits for that.
    """
    shelf = state.shelf.withdrawn
    offered = shelf is None or shelf.doubtful
    if placement.is_wanted() and offered and task.node.provision_state in FLOWS and _publishes(made):
        try:
            placement.withdraw(task.node.uuid, task.node.instance_uuid, partial(node_store.held, task.node))
        except AccError as exc:
            LOG.warning(
                'Node %s: its accelerators could not be withdrawn from placement, and stay there until it is cleaned: %s',
                task.node.uuid,
                exc,
            )


def begun(state: NodeState, made: Plan) -> NodeState:
    """Return the node state when a job begins: one that publishes, and is cut off, may have published anything."""
    return told(state, None) if _publishes(made) else state


def _publishes(made: Plan) -> bool:
    return any(isinstance(a, Publish) for a in made.actions)


def ended(task: Any, state: NodeState, job: Job) -> NodeState:
    """Return the node state when a job has ended, with what the job itself has sent to placement."""
    if not any(isinstance(i.action, Publish) and i.state is ItemState.DONE for i in job.items):
        return state
    if job.reasons:
        return told(state, Withdrawn(since=datetime.now(UTC), why=f'{job.step.split("#", 1)[0]} failed'))
    if task.node.provision_state in provision_state.TENANT_STATES:
        return told(state, Withdrawn(since=datetime.now(UTC), why='the node is in use'))
    return told(state, None)


# ------------------------------------------------------------------------------------------------------------ deleted nodes


def _forget(manager: Any, rounds: AvailabilityRounds, mine: set[str]) -> None:
    """Distinguish deleted nodes from those that another conductor has now."""
    missing = rounds.mine - mine
    rounds.mine = mine
    for uuid in rounds.late.keys() - mine - rounds.others.keys():
        rounds.late.pop(uuid, None)
    if not missing:
        return
    left = {row[0] for row in manager.dbapi.get_nodeinfo_list(columns=['uuid'], filters={'uuid_in': sorted(missing)})}
    for uuid in missing - left:
        LOG.info('Node %s was deleted: its accelerators are deleted from placement', uuid)
        rounds.gone.setdefault(uuid, None)


def _silence(rounds: AvailabilityRounds, now: datetime) -> None:
    """Withdraw nodes that have another firmware interface by now: they are deployed without our verification."""
    ready = [(uuid, instance) for uuid, instance in rounds.others.items() if not _later(rounds.late.get(uuid), _GONE, now)]
    for uuid, instance in ready[:AT_A_TIME]:
        try:
            with contextlib.suppress(InventoryInUse):  # what is claimed stays, reserved
                if placement.withdraw(uuid, instance, lambda: None):
                    LOG.warning(
                        'Node %s has another firmware interface now: its accelerators were withdrawn from placement', uuid
                    )
        except AccError as exc:
            rounds.late[uuid] = _failed(uuid, _GONE, Due.WITHDRAW, str(exc), rounds.late.get(uuid))
        else:
            rounds.late.pop(uuid, None)
            rounds.quiet.add(uuid)


def _begin_burial(manager: Any, rounds: AvailabilityRounds, now: datetime) -> None:
    rounds.burying = True
    try:
        manager._spawn_worker(_bury, rounds, now, _allow_reserved_pool=False)
    except exception.NoFreeConductorWorker:
        rounds.burying = False
        LOG.warning('No worker of Ironic is free to remove deleted nodes from placement: the next round retries')


def _bury(rounds: AvailabilityRounds, now: datetime) -> None:
    """Delete the providers below nodes that were deleted, and withdraw nodes that have another firmware interface by now.

    Nova deletes the providers of a deleted node too, but leaves them where some of them are allocated.
    """
    try:
        ready = [uuid for uuid, late in rounds.gone.items() if not _later(late, _GONE, now)]
        for uuid in ready[:AT_A_TIME]:
            try:
                placement.delete(uuid)
            except AccError as exc:
                rounds.gone[uuid] = _failed(uuid, _GONE, Due.WITHDRAW, str(exc), rounds.gone[uuid])
            else:
                del rounds.gone[uuid]
        _silence(rounds, now)
    finally:
        rounds.burying = False
