# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The inspection hook ``accelerators-kept``: keep our inventory and verdict when another inspection replaces the plugin data.

Every inspection of Ironic replaces all plugin data of a node. Named in ``[inspector] hooks`` and in ``[redfish]
inspection_hooks``, the hook copies our stored part into the plugin data that is about to be stored.
"""

from typing import Any

from ironic.common import exception
from ironic.drivers.modules.inspector.hooks import base
from oslo_log import log

from baremetal_acc.errors import AccError
from baremetal_acc_ironic.reporting import record
from baremetal_acc_ironic.state import node_store

LOG = log.getLogger(__name__)

NAME = 'accelerators-kept'
"""Name of its entry point."""


class AcceleratorsKept(base.InspectionHook):
    """Keep the inventory of accelerators through an inspection; nodes without one are left alone."""

    def preprocess(self, task: Any, inventory: Any, plugin_data: Any) -> None:
        """Replace our part of the plugin data by what we have stored; the new part may be somebody else's.

        An inspection does not fail for a failure of this.
        """
        plugin_data.pop(record.PLUGIN_KEY, None)
        try:
            kept = record.kept(task, node_store.load(task.node))
        except (AccError, exception.IronicException) as exc:
            LOG.warning('Node %s: the inventory of accelerators is not stored: %s', task.node.uuid, exc)
            return
        if kept is not None:
            plugin_data[record.PLUGIN_KEY] = kept
