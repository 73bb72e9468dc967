# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How does our inventory outlive an inspection that is not ours? The inspection hook ``accelerators-kept`` carries it over.

Every inspection of Ironic replaces all plugin data of a node. Named in ``[inspector] hooks`` and in ``[redfish]
inspection_hooks``, the hook puts what was stored for us into what is about to be stored.
"""

from typing import Any

from ironic.common import exception
from ironic.drivers.modules.inspector.hooks import base
from oslo_log import log

from baremetal_acc.errors import AccError
from baremetal_acc_ironic import node as memory
from baremetal_acc_ironic import record

LOG = log.getLogger(__name__)

NAME = 'accelerators-kept'
"""Entry point of it."""


class AcceleratorsKept(base.InspectionHook):
    """Keeps the inventory of accelerators. To nodes that have none it does nothing."""

    def preprocess(self, task: Any, inventory: Any, plugin_data: Any) -> None:
        """Put our part back, and drop one that somebody else sent in our name. No inspection fails for it."""
        plugin_data.pop(record.PLUGIN_KEY, None)
        try:
            kept = record.kept(task, memory.load(task.node).digest)
        except (AccError, exception.IronicException) as exc:
            LOG.warning('Node %s: the inventory of accelerators is not kept: %s', task.node.uuid, exc)
            return
        if kept is not None:
            plugin_data[record.PLUGIN_KEY] = kept
