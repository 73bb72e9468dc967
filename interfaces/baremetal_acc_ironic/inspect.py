# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What does inspection add to Ironic's own? Accelerators: inventory, capabilities, and the devices that must be there later."""

from dataclasses import replace
from typing import Any

from ironic.common import exception, states
from ironic.drivers import base
from ironic.drivers.modules import ipmitool
from ironic.drivers.modules.redfish.inspect import RedfishInspect

from baremetal_acc.errors import AccError
from baremetal_acc.model.inventory import Inventory
from baremetal_acc_ironic import drift, policy, reading
from baremetal_acc_ironic import node as memory
from baremetal_acc_ironic.target import PROPERTIES
from baremetal_acc_ironic.target import target as target_of


class AccInspect(base.InspectInterface):
    """Out-of-band inspection with accelerators. Placement's root provider is never touched."""

    def inspect_hardware(self, task: Any) -> str:
        """Inspect as Ironic does, if it can, then add the accelerators to what is stored.

        The devices that are found are those that must be there from now on: inspect a node again after its hardware was
        changed. One that may only be hidden from this look must still be there; and all that were there before, if the project
        that leases the node asks: its code may have hidden them.

        :raises HardwareInspectionFailure: Ironic's part or ours failed.
        """
        state = super().inspect_hardware(task) or states.MANAGEABLE
        try:
            self._remember(task, reading.take_stock(task, drift.INSPECTION))
        except AccError as exc:
            raise exception.HardwareInspectionFailure(error=str(exc)) from exc
        return str(state)

    def _remember(self, task: Any, known: Inventory) -> None:
        mind = memory.load(task.node)
        lessee = policy.as_lessee(task)
        if not lessee:
            mind = mind.without_shown()
        mind = replace(mind, known=mind.known | {a.id for a in known.accelerators})
        memory.store(task.node, mind.shown(known.accelerators))


class RedfishAccInspect(AccInspect, RedfishInspect):
    """Of machines whose host has a BMC that speaks Redfish."""

    def get_properties(self) -> dict[str, str]:
        """What ``driver_info`` may hold."""
        return dict(super().get_properties()) | PROPERTIES


class IpmiAccInspect(AccInspect):
    """Of machines whose host has a BMC that speaks IPMI: their accelerators, and nothing else of them.

    What an inspection in band has stored of the rest stays.
    """

    def get_properties(self) -> dict[str, str]:
        """What ``driver_info`` may hold."""
        return dict(ipmitool.COMMON_PROPERTIES) | PROPERTIES

    def validate(self, task: Any) -> None:
        """Check ``driver_info``, without a BMC.

        :raises InvalidParameterValue: something is wrong; names where.
        :raises MissingParameterValue: something is missing.
        """
        try:
            target_of(task)
        except AccError as exc:
            raise exception.InvalidParameterValue(str(exc)) from exc
