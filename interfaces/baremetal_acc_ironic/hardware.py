# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The hardware types ``redfish-acc`` and ``ipmi-acc``.

A node of one of them can use what one of Ironic's ``redfish`` or ``ipmi`` can, but for its firmware and power interfaces, which
are those of this package and no others. ``noop`` deploy and ``fake`` boot are allowed for nodes that are not imaged by Ironic.
"""

from typing import Any, ClassVar

from ironic.drivers import hardware_type
from ironic.drivers.ipmi import IPMIHardware
from ironic.drivers.modules import fake, noop
from ironic.drivers.redfish import RedfishHardware

from baremetal_acc_ironic.firmware import IpmiAccFirmware, RedfishAccFirmware
from baremetal_acc_ironic.inspect import IpmiAccInspect, RedfishAccInspect
from baremetal_acc_ironic.power import IpmiAccPower, RedfishAccPower


class AccHardware(hardware_type.AbstractHardwareType):
    """A hardware type of Ironic with our interfaces before its own."""

    firmware: ClassVar[type]
    inspect: ClassVar[type]
    power: ClassVar[type]

    @property
    def supported_firmware_interfaces(self) -> list[Any]:
        """Ours alone: with another one no step of ours would run."""
        return [self.firmware]

    @property
    def supported_inspect_interfaces(self) -> list[Any]:
        """Ours is preferred."""
        return [self.inspect, *super().supported_inspect_interfaces]

    @property
    def supported_power_interfaces(self) -> list[Any]:
        """Ours alone: with another one nothing would ask the gate before a host is started."""
        return [self.power]

    @property
    def supported_deploy_interfaces(self) -> list[Any]:
        """With ``noop``, which Ironic has for manual management only."""
        return [*super().supported_deploy_interfaces, noop.NoDeploy]

    @property
    def supported_boot_interfaces(self) -> list[Any]:
        """With ``fake``, which goes with ``noop`` deploy."""
        return [*super().supported_boot_interfaces, fake.FakeBoot]


class RedfishAccHardware(AccHardware, RedfishHardware):
    """Machines with accelerators whose BMC speaks Redfish."""

    firmware, inspect, power = RedfishAccFirmware, RedfishAccInspect, RedfishAccPower


class IpmiAccHardware(AccHardware, IPMIHardware):
    """Machines with accelerators whose BMC speaks IPMI."""

    firmware, inspect, power = IpmiAccFirmware, IpmiAccInspect, IpmiAccPower
