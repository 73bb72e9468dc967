# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Find and remove ``<x>_interface`` keys in ``instance_info``, by which a tenant could replace a node's own interfaces.

Ironic takes ``instance_info['<x>_interface']`` before the node's field of that name (ironic 39.0.0, objects/node.py,
``Node.get_interface``), and managers of the project that leases a node may write ``instance_info``. So such a key selects the
code that runs for a node. While one is set, no flow begins and no host is started; :func:`remove_from_nodes` removes it.
"""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from ironic.common import exception
from ironic.conductor import task_manager
from ironic.db.sqlalchemy import models
from ironic.drivers import base
from oslo_db.sqlalchemy import enginefacade
from oslo_log import log
from sqlalchemy import Text, select, type_coerce, update

from baremetal_acc.errors import AccError
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc_ironic import opts, settings
from baremetal_acc_ironic.reporting import alarm
from baremetal_acc_ironic.state import node_store
from baremetal_acc_ironic.state.node_state import NodeState

LOG = log.getLogger(__name__)

KEYS = frozenset(f'{name}_interface' for name in base.ALL_INTERFACES)
"""Keys of ``instance_info``: one for every interface that Ironic knows."""

DEPLOY = 'deploy_interface'

INTERVAL = 60.0
"""Seconds between two rounds of :func:`remove_from_nodes`. The database reads ``instance_info`` of each node, configdrives and
all, to find the keys; Ironic's API refuses to write them in the first place."""

_WITH_A_KEY = '%\\_interface%'
"""Pattern of SQL's LIKE for the stored JSON."""

CONTEXT = threading.local()
"""oslo.db keeps the session of a thread in it."""

_UNMARKED: 'WeakKeyDictionary[Any, dict[str, tuple[str, ...]]]' = WeakKeyDictionary()
"""By conductor: nodes from which keys were removed while another task held their lock, so that their cards are not marked
yet."""


def standing(instance_info: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the keys that replace interfaces without being allowed to, sorted by name.

    ``[baremetal_acc] tenant_deploy_interfaces`` allows deploy interfaces by name.
    """
    found = instance_info or {}
    replaced = KEYS & found.keys()
    if DEPLOY in replaced and found[DEPLOY] in tuple(settings.guest().tenant_deploy_interfaces):
        replaced -= {DEPLOY}
    return tuple(sorted(replaced))


def text(keys: tuple[str, ...]) -> str:
    """Return a text that says which keys are set, and what becomes of them."""
    shown = ', '.join(f"instance_info['{key}']" for key in keys)
    what = 'replaces an interface' if len(keys) == 1 else 'replace interfaces'
    it = 'it is' if len(keys) == 1 else 'they are'
    return (
        f'{shown} {what} that the operator has chosen for the node ({it} removed within {INTERVAL:.0f} s, and the next '
        'cleaning writes the cards again)'
    )


# ------------------------------------------------------------------------------------------------------------ the periodic


def remove_from_nodes(manager: Any, context: Any) -> None:
    """Remove the keys from nodes of this conductor, and have their cards written again before the next hand-over.

    A node with such a key may not be loadable, so the keys are removed in the database; and the very flow that the key is to
    mislead may hold the node's lock, so that no lock is waited for.
    """
    unmarked = _UNMARKED.setdefault(manager, {})
    found = dict(_with_a_key())
    mine = {uuid for uuid, *_ in manager.iter_nodes(filters={'uuid_in': list(found)})} if found else set()
    for uuid in sorted(mine):
        keys = _remove(uuid, found[uuid])
        if keys:
            LOG.error('Node %s: removed from its instance_info: %s', uuid, ', '.join(keys))
            unmarked[uuid] = tuple(sorted({*unmarked.get(uuid, ()), *keys}))
    for uuid in sorted(unmarked):
        with suppress(exception.NodeLocked):
            _mark(context, uuid, unmarked[uuid])
            del unmarked[uuid]


def _with_a_key() -> Iterator[tuple[str, str]]:
    """Yield nodes of our hardware types that may have such a key, with the text of their ``instance_info``."""
    stored = type_coerce(models.Node.instance_info, Text)
    query = select(models.Node.uuid, stored).where(
        models.Node.driver.in_(opts.HARDWARE_TYPES), stored.like(_WITH_A_KEY, escape='\\')
    )
    with enginefacade.reader.using(CONTEXT) as session:
        yield from [(uuid, text) for uuid, text in session.execute(query)]


def _remove(uuid: str, stored: str) -> tuple[str, ...]:
    """Remove the keys if ``instance_info`` still is what was read; returns the keys that were removed."""
    info = json.loads(stored)
    keys = standing(info)
    if not keys:
        return ()
    left = {key: value for key, value in info.items() if key not in keys}
    change = (
        update(models.Node)
        .where(models.Node.uuid == uuid, type_coerce(models.Node.instance_info, Text) == stored)
        .values(instance_info=left)
        .execution_options(synchronize_session=False)
    )
    with enginefacade.writer.using(CONTEXT) as session:
        return keys if session.execute(change).rowcount else ()


def _mark(context: Any, uuid: str, keys: tuple[str, ...]) -> None:
    """Store that it is unknown what has run on a node.

    :raises NodeLocked: another task holds its lock.
    """
    try:
        with task_manager.acquire(
            context, uuid, shared=False, retry=False, load_driver=False, purpose='exposing cards'
        ) as task:
            state = node_store.load(task.node)
            marked = exposed(task.node, state)
            node_store.store(task.node, marked)
            what = f'instance_info contained {", ".join(keys)}, by which a tenant can keep Ironic from running our steps'
            alarm.told(task, [f'{what}; the next cleaning writes these cards again: {", ".join(sorted(marked.exposed))}'])
    except exception.NodeNotFound:
        LOG.info('Node %s was deleted', uuid)
    except AccError as exc:
        LOG.error('Node %s: its cards could not be marked to be written again: %s', uuid, exc)


def exposed(node: Any, state: NodeState) -> NodeState:
    """Return the node state with every known card of the node exposed, and nothing proven."""
    looks = (node_store.last_look(node, state), node_store.handed_over(node, state))
    seen: set[AcceleratorId] = {a.id for look in looks if look is not None for a in look.accelerators}
    return replace(state, exposed=state.exposed | state.known | seen, proven=None)
