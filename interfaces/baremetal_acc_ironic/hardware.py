# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What can a node of the hardware type ``redfish-acc`` use?

Everything that a node of Ironic's ``redfish`` can, and the interfaces of this package. ``noop`` deploy and ``fake`` boot are
allowed for nodes that are not imaged by Ironic.
"""

from typing import Any

from ironic.conf import CONF
from ironic.drivers.modules import fake, noop
from ironic.drivers.redfish import RedfishHardware

from baremetal_acc_ironic import opts
from baremetal_acc_ironic.firmware import RedfishAccFirmware
from baremetal_acc_ironic.inspect import RedfishAccInspect
from baremetal_acc_ironic.power import RedfishAccPower

opts.register(CONF)


class RedfishAccHardware(RedfishHardware):
    """Redfish machines with accelerators."""

    @property
    def supported_firmware_interfaces(self) -> list[Any]:
        """Ours is preferred."""
        return [RedfishAccFirmware, *super().supported_firmware_interfaces]

    @property
    def supported_inspect_interfaces(self) -> list[Any]:
        """Ours is preferred."""
        return [RedfishAccInspect, *super().supported_inspect_interfaces]

    @property
    def supported_power_interfaces(self) -> list[Any]:
        """Ours is preferred."""
        return [RedfishAccPower, *super().supported_power_interfaces]

    @property
    def supported_deploy_interfaces(self) -> list[Any]:
        """With ``noop``, which Ironic has for manual management only."""
        return [*super().supported_deploy_interfaces, noop.NoDeploy]

    @property
    def supported_boot_interfaces(self) -> list[Any]:
        """With ``fake``, which goes with ``noop`` deploy."""
        return [*super().supported_boot_interfaces, fake.FakeBoot]
