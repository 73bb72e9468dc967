# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Detect from Ironic's own power actions that a host has run which a job had left powered off with open locks.

A job that holds the host off stores how the host is off (:class:`~baremetal_acc.model.interference.HeldOff`). A host that
Ironic finds on and powers off again, as its power synchronisation does, has run since; afterwards nothing shows that where a
BMC does not report the time of the last reset. In the operator's ramdisk the host is on while locks are open, and Ironic
powers it off when the cleaning ends: only from then on must it not run.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from ironic.common import states
from oslo_log import log

from baremetal_acc.errors import AccError
from baremetal_acc.execution.observation import sessions
from baremetal_acc.model.interference import HeldOff
from baremetal_acc.model.inventory import PowerState
from baremetal_acc.model.ref import HOST
from baremetal_acc.planning import interference
from baremetal_acc_ironic.state import node_store, provision_state
from baremetal_acc_ironic.state.target import target as target_of
from baremetal_acc_ironic.steps.job_context import tools as tools_of

LOG = log.getLogger(__name__)


def woke(task: Any, power: str | None) -> None:
    """Expose the cards of a host that was left off with open locks, and that is not off when Ironic is about to power it off.

    :param power: what its BMC reports now, in Ironic's words.
    """
    try:
        state = node_store.load(task.node)
        left = state.opened
        if left is None or not left.held_off or power == states.POWER_OFF:
            return
        node_store.store(
            task.node, replace(state, exposed=state.exposed | left.accelerators, opened=replace(left, held_off=()))
        )
    except AccError as exc:
        LOG.warning('Node %s: %s', task.node.uuid, exc)
    else:
        _tell(task, left.accelerators, f'the host was left powered off, and is {power}')


def starts(task: Any) -> None:
    """Record that the host is about to start for the operator's ramdisk, or by an operator's permission.

    Such a start is known: it does not count as a host that has run unseen. Whether the host has run before is read now, for the
    last time.
    """
    try:
        state = node_store.load(task.node)
        left = state.opened
        if left is None or not left.held_off:
            return
        tools = tools_of(task, state, images=False)
        settles = interference.tail(tools.patience.poll)
        with sessions(target_of(task), tools) as bmcs:
            seen = {mark.system: bmcs[mark.system.bmc].host(mark.system) for mark in left.held_off}
        ran = [m for m in left.held_off if interference.ran_unseen(m, seen[m.system], datetime.now(UTC), settles) is not None]
        exposed = state.exposed | left.accelerators if ran else state.exposed
        node_store.store(task.node, replace(state, exposed=exposed, opened=replace(left, held_off=(), started=True)))
    except AccError as exc:
        LOG.warning('Node %s: cannot read whether its host was off: %s', task.node.uuid, exc)
    else:
        if ran:
            _tell(task, left.accelerators, 'the host was left powered off, and has run since')


def _tell(task: Any, cards: Iterable[str], what: str) -> None:
    named = ', '.join(sorted(cards))
    provision_state.told(
        task.node,
        f'{what}: its code may have written {named}; these cards are written again before the next hand-over',
    )


def note(task: Any) -> None:
    """Read and store how the host is off, if cards are open to it and that is not stored yet.

    The task holds the node exclusively. If the BMC does not answer, our next step takes the cards for written by somebody else.
    """
    try:
        state = node_store.load(task.node)
        left, seen = state.opened, node_store.last_look(task.node, state)
        host = None if seen is None else seen.bmc(HOST)
        if left is None or left.held_off or not left.started or host is None or host.system is None:
            return
        with sessions(target_of(task), tools_of(task, state, images=False)) as bmcs:
            now = bmcs[host.system.bmc].host(host.system)
        if now.power is PowerState.OFF:
            mark = HeldOff(system=host.system, at=datetime.now(UTC), last_reset=now.last_reset, once=True)
            node_store.store(task.node, replace(state, opened=replace(left, held_off=(mark,))))
    except AccError as exc:
        LOG.warning('Node %s: cannot read whether its host is off: %s', task.node.uuid, exc)
