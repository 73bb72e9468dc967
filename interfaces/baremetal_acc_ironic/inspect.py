# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The Ironic inspect interfaces ``redfish-acc`` and ``ipmi-acc``: accelerators in out-of-band inspection.

They add to Ironic's own inspection the inventory of accelerators, capabilities, and the list of devices that have to be present
from then on.
"""

from dataclasses import replace
from typing import Any

from ironic.common import exception, states
from ironic.drivers import base
from ironic.drivers.modules import ipmitool
from ironic.drivers.modules.redfish.inspect import RedfishInspect

from baremetal_acc.errors import AccError
from baremetal_acc.model.inventory import Inventory
from baremetal_acc_ironic.authorization import policy
from baremetal_acc_ironic.reporting import drift
from baremetal_acc_ironic.state import node_store
from baremetal_acc_ironic.state.target import PROPERTIES
from baremetal_acc_ironic.state.target import target as target_of
from baremetal_acc_ironic.steps import read_only


class AccInspect(base.InspectInterface):
    """Out-of-band inspection with accelerators. Placement's root provider is never written."""

    def inspect_hardware(self, task: Any) -> str:
        """Inspect as Ironic does, if it can, then add the accelerators to what is stored.

        The devices that are found have to be present from now on: inspect a node again after its hardware was changed. A device
        that may only be hidden from this read still has to be present; and if the project that leases the node asks, so do all
        devices that were known before, since its code may have hidden them.

        :raises HardwareInspectionFailure: Ironic's part or ours failed.
        """
        state = super().inspect_hardware(task) or states.MANAGEABLE
        try:
            self._remember(task, read_only.take_stock(task, drift.INSPECTION))
        except AccError as exc:
            raise exception.HardwareInspectionFailure(error=str(exc)) from exc
        return str(state)

    def _remember(self, task: Any, known: Inventory) -> None:
        state = node_store.load(task.node)
        lessee = policy.as_lessee(task)
        if not lessee:
            state = state.without_shown()
        state = replace(state, known=state.known | {a.id for a in known.accelerators})
        node_store.store(task.node, state.shown(known.accelerators))


class RedfishAccInspect(AccInspect, RedfishInspect):
    """Inspect interface of nodes whose host has a Redfish BMC."""

    def get_properties(self) -> dict[str, str]:
        """Describe the keys of ``driver_info``."""
        return dict(super().get_properties()) | PROPERTIES


class IpmiAccInspect(AccInspect):
    """Inspect interface of nodes whose host has an IPMI BMC: it inspects their accelerators, and nothing else.

    What an in-band inspection has stored about the rest stays.
    """

    def get_properties(self) -> dict[str, str]:
        """Describe the keys of ``driver_info``."""
        return dict(ipmitool.COMMON_PROPERTIES) | PROPERTIES

    def validate(self, task: Any) -> None:
        """Check ``driver_info``, without a BMC.

        :raises InvalidParameterValue: a value is wrong; names where.
        :raises MissingParameterValue: a value is missing.
        """
        try:
            target_of(task)
        except AccError as exc:
            raise exception.InvalidParameterValue(str(exc)) from exc
