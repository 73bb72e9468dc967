# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Tell whether the host of a node must be off while locks are open, and which host."""

from typing import Any

from baremetal_acc.model.job import Flow
from baremetal_acc.model.ref import Ref
from baremetal_acc_ironic import settings
from baremetal_acc_ironic.authorization import ramdisk_source
from baremetal_acc_ironic.state import handover, node_store
from baremetal_acc_ironic.state.node_state import NodeState


def must_hold_host(task: Any, flow: Flow) -> bool:
    """Whether the host must be off while locks are open: always, except in the operator's own ramdisk.

    Ironic takes the first client that asks with the node's MAC, while it waits for a ramdisk, for the ramdisk. A ramdisk that
    somebody else has chosen, or whose kernel parameters somebody else has set, is not the operator's own
    (:mod:`baremetal_acc_ironic.authorization.ramdisk_source`). Ironic refuses to change these while the node is cleaned.
    """
    info = task.node.driver_internal_info
    in_ramdisk = bool(info.get('agent_url')) and not info.get('cleaning_disable_ramdisk')
    in_ramdisk = in_ramdisk and ramdisk_source.trusted(task.node, node_store.load(task.node))
    return not (flow is Flow.CLEAN and in_ramdisk and settings.guest().trust_ramdisk)


def host_to_lock_out(task: Any, state: NodeState, flow: Flow) -> Ref | None:
    """Return the host of a node that has just come back, unless the operator's own ramdisk runs there."""
    wanted = flow is Flow.CLEAN and settings.guest().power_off_tenant_host and must_hold_host(task, flow)
    return handover.host_of(task, state) if wanted else None


def may_boot_ramdisk(task: Any, flow: Flow) -> bool:
    """Whether Ironic has started a ramdisk in this flow, from virtual media or by a boot override, or may start one.

    Only a flow that was requested without a ramdisk (``disable_ramdisk``) has none.
    """
    info = task.node.driver_internal_info
    without = {Flow.CLEAN: 'cleaning_disable_ramdisk', Flow.SERVICE: 'service_disable_ramdisk'}
    return not (flow in without and info.get(without[flow]))
