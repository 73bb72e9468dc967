# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read a node's BMCs in a round of the watch, and report what was found when another task holds the node's lock."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from oslo_log import log

from baremetal_acc import execution
from baremetal_acc.bmc.driver import Look
from baremetal_acc.execution import Tools, integrity_watch
from baremetal_acc.execution.integrity_watch import IntegrityReading, KeptReading
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.watched_resource import WatchedResource
from baremetal_acc.planning import watch_alarms
from baremetal_acc.planning.watch_alarms import Alarm, WatchTrouble
from baremetal_acc.policy.baseline_rules import DriftAction
from baremetal_acc.render import troubles
from baremetal_acc_ironic import settings
from baremetal_acc_ironic.periodics.rounds import Lost, WatchRounds
from baremetal_acc_ironic.periodics.workers import clock_of
from baremetal_acc_ironic.reporting import alarm
from baremetal_acc_ironic.state.node_state import NodeState
from baremetal_acc_ironic.state.target import target as target_of
from baremetal_acc_ironic.steps import wall_clock
from baremetal_acc_ironic.steps.job_context import tools as tools_of

LOG = log.getLogger(__name__)

_NAMED = 8
"""Troubles, or resources, that a log line names."""


def tools_for(task: Any, state: NodeState) -> Tools:
    """Build the execution context of one round."""
    return tools_of(task, state, clock=clock_of(task), images=False)


def sessions_with(task: Any, state: NodeState, rounds: WatchRounds) -> KeptReading:
    """Return the open sessions with the node's BMCs. They outlive the round, and so are not bound to its clock."""
    return rounds.sessions.for_target(task.node.uuid, tools_of(task, state, images=False).connect)


def glance(task: Any, state: NodeState, rounds: WatchRounds, witnesses: Iterable[WatchedResource]) -> IntegrityReading:
    """Reread the resources on which an earlier inventory read rests."""
    within = settings.guest().watch_timeout
    found = integrity_watch.glance(target_of(task), sessions_with(task, state, rounds), tuple(witnesses), within)
    if not found.quiet:
        odd = [str(ref) for ref in found.changed] + [f'{ref} ({why})' for ref, why in found.unread]
        LOG.info(
            'Node %s: these resources have changed or could not be read, so a full inspection follows: %s',
            task.node.uuid,
            ', '.join(odd[:_NAMED]),
        )
    return found


def look(
    task: Any, tools: Tools, seen: IntegrityReading | None = None, *, bmc_settings: bool = False
) -> tuple[Inventory, tuple[WatchedResource, ...]]:
    """Read the full inventory, and return the resources on which it rests.

    :param seen: the reread right before it.
    :param bmc_settings: read the settings of the BMCs that rules name, too.
    :raises BmcError: a BMC cannot be reached.
    """
    now = wall_clock.now()
    heard = None if seen is None else seen.heard
    found: list[WatchedResource] = []

    def looked(looks: tuple[Look, ...], inventory: Inventory) -> None:
        found.extend(integrity_watch.witnesses(looks, inventory, tools.mechanisms, now, heard))

    inventory = execution.observe(target_of(task), tools, now, settings=bmc_settings, looked=looked)
    return inventory, tuple(found)


def locked_out(
    task: Any,
    rounds: WatchRounds,
    found: Sequence[WatchTrouble],
    before: tuple[Alarm, ...],
    reactions: Callable[[WatchTrouble], frozenset[DriftAction]],
    *,
    lifecycle: int,
    now: datetime,
    blind: bool,
) -> None:
    """Report what a round has found although another task held the node's lock: a permanent lock must not hide it.

    The next round begins with the next tick. What is found again and again, and cannot be stored, is reported all the same.

    :param before: the alarms that are stored.
    :param blind: as of :func:`~baremetal_acc.planning.watch_alarms.next_round`.
    """
    uuid = task.node.uuid
    lost = rounds.lost.setdefault(uuid, Lost())
    lost.rounds += 1
    if not found:
        return
    LOG.error(
        'Node %s: alarms on its accelerators: %d; another task holds the node, so they cannot be stored (rounds so far: %d): '
        '%s',
        uuid,
        len(found),
        lost.rounds,
        '; '.join(map(troubles.sentence, found[:_NAMED])),
    )
    alarm.locked_out()
    if lost.rounds < settings.guest().watch_patience:
        return
    for one in watch_alarms.next_round(before, found, now, patience=1, blind=blind).begun:
        if one.trouble.key not in lost.told:
            lost.told.add(one.trouble.key)
            alarm.begun(task, one, reactions(one.trouble), first=False, lifecycle=lifecycle, now=now)


__all__ = ['glance', 'locked_out', 'look', 'sessions_with', 'tools_for']
