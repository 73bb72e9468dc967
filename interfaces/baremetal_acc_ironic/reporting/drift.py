# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Report drift of a node's accelerators: a log line for each change, one notification, the node's history and our stored state.

Every inventory read is compared with the one before it, whichever step or inspection made it. What a job changed itself is not
drift. A gap is reported when it appears, and not again while it stays.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from oslo_log import log

from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.inventory_change import Change, ChangeKind
from baremetal_acc.model.job_item import Item
from baremetal_acc.planning import drift, remembered_inventory
from baremetal_acc.planning.drift import shown
from baremetal_acc.render.changes import sentence
from baremetal_acc_ironic.reporting import notification
from baremetal_acc_ironic.state import node_store, provision_state
from baremetal_acc_ironic.state.node_state import NodeState, ReportedState

LOG = log.getLogger(__name__)

_SHOWN, _CHARACTERS = 20, 400
"""Changes in the history and in our key, and their length: enough for every card of a machine, small enough for the node's row.
The log and the notification have all of them."""

INSPECTION = 'inspection'
CACHE = 'cache_firmware_components'
"""Readers of the inventory besides our steps: inspection, and Ironic at the beginning and at the end of a flow."""


def tell(task: Any, state: NodeState, inventory: Inventory, by: str, done: Iterable[Item] = ()) -> tuple[NodeState, Inventory]:
    """Compare an inventory with the previous one, and report what has changed.

    :param by: the step, or what else made the read.
    :param done: items of a job; those that were begun account for what they changed.
    :returns: the node state, not yet stored; and the inventory completed with what this read could not see.
    """
    node = task.node
    before = node_store.last_look(node, state)
    known = remembered_inventory.remembered(before, inventory)
    found: tuple[Change, ...] = ()
    if before is not None:
        found = drift.beyond(drift.drift(before, inventory), (item.action for item in done if item.state.begun))
    unseen = _unseen(found)
    news = tuple(c for c in found if c.certain or unseen != state.unseen)
    state = replace(state, seen=node_store.packed_look(node, known), unseen=unseen)
    if before is None or not news:
        return state, known
    for change in news:
        LOG.log(
            _level(change), 'Node %s: %s found by %s: %s', node.uuid, 'drift' if change.certain else 'gap', by, sentence(change)
        )
    texts = tuple(shown(sentence(c), _CHARACTERS) for c in news[:_SHOWN])
    told = ReportedState(at=inventory.at, since=before.at, by=by, changes=texts, more=len(news) - len(texts))
    more = f'; and {told.more} more' if told.more else ''
    what = 'have changed' if any(c.certain for c in news) else 'could not all be read again'
    provision_state.told(
        node, f'accelerators {what} since {before.at:%Y-%m-%d %H:%M:%S} UTC, found by {by}: {"; ".join(texts)}{more}'
    )
    notification.emit(task, news, by=by, at=inventory.at, since=before.at, grave=any(_grave(c) for c in news))
    return replace(state, drift=told), known


def looked(task: Any, state: NodeState, inventory: Inventory, by: str, done: Iterable[Item] = ()) -> NodeState:
    """Report drift and store that at once, whatever becomes of a step that has only just begun.

    A failure here is logged: it is no reason not to lock a card.

    :param state: the state that the step is about to store; nothing else of it is stored here.
    """
    try:
        stored, _ = tell(task, node_store.load(task.node), inventory, by, done)
        node_store.store(task.node, stored)
    except Exception:
        LOG.exception('Node %s: drift of its accelerators could not be reported', task.node.uuid)
    return with_told(task.node, state)


def with_told(node: Any, state: NodeState) -> NodeState:
    """Return the state that a step is about to store, with what was reported and stored meanwhile."""
    stored = node_store.load(node)
    return replace(state, seen=stored.seen, drift=stored.drift, unseen=stored.unseen)


def _grave(change: Change) -> bool:
    """Whether the change is anything but an added card."""
    return change.kind is not ChangeKind.NEW


def _level(change: Change) -> int:
    return log.WARNING if _grave(change) else log.INFO


def _unseen(changes: Iterable[Change]) -> str | None:
    """Return a digest of the gaps; None if there are none."""
    gaps = sorted(f'{c.kind} {c.accelerator} {c.subject} {c.ref}' for c in changes if not c.certain)
    return hashlib.sha256('\n'.join(gaps).encode()).hexdigest()[:16] if gaps else None
