# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Periodic: forget the proof and the certificate of a deployment once nobody has the node any more.

No step of ours runs when a node is undeployed without cleaning, and Ironic calls no method of a deploy interface that images
nothing. So a periodic finds what is left of such a deployment, before the node could be adopted with it.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ironic.common import exception
from oslo_log import log

from baremetal_acc.errors import AccError
from baremetal_acc_ironic import opts
from baremetal_acc_ironic.host_power import gate
from baremetal_acc_ironic.host_power.gate import Reason
from baremetal_acc_ironic.state import certificate, node_store

LOG = log.getLogger(__name__)


def lasts(state: str | None) -> bool:
    """Whether the proof of a deployment counts in a provision state."""
    return gate.counts(Reason.PROVEN, state)


def over(manager: Any) -> Iterator[str]:
    """Yield this conductor's nodes whose deployment is over, and for which a proof or certificate of it is still stored."""
    for uuid, _driver, _group, name, state, info in manager.iter_nodes(
        fields=['firmware_interface', 'provision_state', 'driver_internal_info']
    ):
        if name in opts.HARDWARE_TYPES and not lasts(state) and (node_store.proven(info) or node_store.certified(info)):
            yield uuid


def end(task: Any) -> None:
    """Forget proof and certificate. The task holds the node exclusively."""
    if lasts(task.node.provision_state):
        return
    try:
        state = node_store.load(task.node)
        node_store.store(task.node, replace(certificate.ended(task, state), proven=None))
    except exception.NodeNotFound:
        LOG.info('Node %s was deleted', task.node.uuid)
    except AccError as exc:
        LOG.warning('Node %s: %s', task.node.uuid, exc)
