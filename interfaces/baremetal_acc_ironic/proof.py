# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""End what was proven for a deployment, and its certificate, when the node is nobody's any more.

No step of ours runs when a node is undeployed without cleaning, and Ironic calls nothing of a deploy interface that images
nothing. So a periodic finds what is left of such a deployment, before the node can be adopted by it.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ironic.common import exception
from oslo_log import log

from baremetal_acc.errors import AccError
from baremetal_acc_ironic import certificate, gate, opts
from baremetal_acc_ironic import node as memory
from baremetal_acc_ironic.gate import Reason

LOG = log.getLogger(__name__)


def lasts(state: str | None) -> bool:
    """What is proven for a deployment counts in a provision state."""
    return gate.counts(Reason.PROVEN, state)


def over(manager: Any) -> Iterator[str]:
    """Nodes of this conductor that are nobody's, and of which something is proven, or certified, for a deployment."""
    for uuid, _driver, _group, name, state, info in manager.iter_nodes(
        fields=['firmware_interface', 'provision_state', 'driver_internal_info']
    ):
        if name in opts.HARDWARE_TYPES and not lasts(state) and (memory.proven(info) or memory.certified(info)):
            yield uuid


def end(task: Any) -> None:
    """Forget it. The task holds the node exclusively."""
    if lasts(task.node.provision_state):
        return
    try:
        mind = memory.load(task.node)
        memory.store(task.node, replace(certificate.ended(task, mind), proven=None))
    except exception.NodeNotFound:
        LOG.info('A node was deleted')
    except AccError as exc:
        LOG.warning('Node %s: %s', task.node.uuid, exc)
