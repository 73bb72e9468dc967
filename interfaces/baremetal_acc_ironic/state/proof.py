# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""End the proof, the certificate, the waivers and the requested functions of a deployment that is over.

No step of ours runs when a node is undeployed without cleaning, and Ironic calls no method of a deploy interface that images
nothing; nor does an adoption call anything of ours. But each undeploy begins with a check of the power interface. From then on
the node is marked, and nothing of its deployment counts once the undeploy has ended, even if the node is adopted at once. A
periodic removes what is left.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ironic.common import exception
from oslo_log import log

from baremetal_acc.errors import AccError
from baremetal_acc_ironic import opts
from baremetal_acc_ironic.host_power import gate
from baremetal_acc_ironic.state import certificate, node_store

LOG = log.getLogger(__name__)

_DELETE = 'delete'
"""The event by which an undeploy begins. Source: ironic 39.0.0, conductor/manager.py, do_node_tear_down."""


def undeploy_begins(task: Any) -> None:
    """Mark the node whose undeploy is about to begin. The task holds the node exclusively.

    It is marked before its state changes. If no worker of Ironic is free, the node stays as it is and is not proven any more: a
    service proves it again.

    :raises NodeLocked: the task does not hold the node any more.
    """
    if task.shared or not task.fsm.is_actionable_event(_DELETE):
        return
    try:
        state = node_store.load(task.node)
        if state.handed_over and not state.ending:
            node_store.store(task.node, replace(state, ending=True))
    except AccError as exc:
        LOG.warning('Node %s: %s', task.node.uuid, exc)


def over(manager: Any) -> Iterator[str]:
    """Yield this conductor's nodes whose deployment is over, and for which something of it is still stored that counted."""
    for uuid, _driver, _group, name, state, info in manager.iter_nodes(
        fields=['firmware_interface', 'provision_state', 'driver_internal_info']
    ):
        is_over = not gate.lasts(state, ending=node_store.ending(info))
        if name in opts.HARDWARE_TYPES and is_over and node_store.of_deployment(info):
            yield uuid


def end(task: Any) -> None:
    """Forget proof, certificate, waivers and requested functions. The task holds the node exclusively."""
    try:
        state = node_store.load(task.node)
        if not gate.lasts(task.node.provision_state, ending=state.ending):
            node_store.store(task.node, certificate.ended(task, state).without_rights())
    except exception.NodeNotFound:
        LOG.info('Node %s was deleted', task.node.uuid)
    except AccError as exc:
        LOG.warning('Node %s: %s', task.node.uuid, exc)
