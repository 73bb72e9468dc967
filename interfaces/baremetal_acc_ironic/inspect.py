# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What does inspection add to Ironic's own? Accelerators: inventory, capabilities, and the devices that must be there later."""

from dataclasses import replace
from typing import Any

from ironic.common import exception
from ironic.conf import CONF
from ironic.drivers.modules.redfish.inspect import RedfishInspect

from baremetal_acc.errors import AccError
from baremetal_acc.model.inventory import Inventory
from baremetal_acc_ironic import drift, opts, policy, reading
from baremetal_acc_ironic import node as memory
from baremetal_acc_ironic.target import PROPERTIES

opts.register(CONF)


class RedfishAccInspect(RedfishInspect):
    """Out-of-band inspection with accelerators. Placement's root provider is never touched."""

    def get_properties(self) -> dict[str, str]:
        """What ``driver_info`` may hold."""
        return dict(super().get_properties()) | PROPERTIES

    def inspect_hardware(self, task: Any) -> str:
        """Inspect as Ironic does, then add the accelerators to what it stored.

        The devices that are found are those that must be there from now on: inspect a node again after its hardware was
        changed. One that may only be hidden from this look must still be there; and all that were there before, if the project
        that leases the node asks: its code may have hidden them.

        :raises HardwareInspectionFailure: Ironic's part or ours failed.
        """
        state = super().inspect_hardware(task)
        try:
            self._remember(task, reading.take_stock(task, drift.INSPECTION))
        except AccError as exc:
            raise exception.HardwareInspectionFailure(error=str(exc)) from exc
        return str(state)

    def _remember(self, task: Any, known: Inventory) -> None:
        mind = memory.load(task.node)
        lessee = policy.as_lessee(task)
        if not lessee:
            mind = replace(mind, known=frozenset(), blockable=(), ways=frozenset())
        mind = replace(mind, known=mind.known | {a.id for a in known.accelerators})
        memory.store(task.node, mind.shown(known.accelerators))
