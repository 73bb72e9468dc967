# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The Ironic hardware types ``redfish-acc`` and ``ipmi-acc``.

They support what Ironic's ``redfish`` and ``ipmi`` types support, except for the firmware and power interfaces, which are those
of this package only. ``noop`` deploy and ``fake`` boot are supported too, for nodes that Ironic does not image.
"""

from typing import Any, ClassVar

from ironic.drivers import hardware_type
from ironic.drivers.ipmi import IPMIHardware
from ironic.drivers.modules import fake
from ironic.drivers.redfish import RedfishHardware

from baremetal_acc_ironic import compat
from baremetal_acc_ironic.firmware import IpmiAccFirmware, RedfishAccFirmware
from baremetal_acc_ironic.inspect import IpmiAccInspect, RedfishAccInspect
from baremetal_acc_ironic.power import IpmiAccPower, RedfishAccPower


class AccHardware(hardware_type.AbstractHardwareType):
    """Base of our hardware types: Ironic's type with our interfaces added."""

    firmware: ClassVar[type]
    inspect: ClassVar[type]
    power: ClassVar[type]

    @property
    def supported_firmware_interfaces(self) -> list[Any]:
        """Only ours: with another firmware interface none of our steps would run."""
        return [self.firmware]

    @property
    def supported_inspect_interfaces(self) -> list[Any]:
        """Ours first, then those of Ironic's type."""
        return [self.inspect, *super().supported_inspect_interfaces]

    @property
    def supported_power_interfaces(self) -> list[Any]:
        """Only ours: with another power interface nothing would ask the gate before a host is started."""
        return [self.power]

    @property
    def supported_deploy_interfaces(self) -> list[Any]:
        """Those of Ironic's type, and ``noop``, which Ironic supports for manual management only; ``fake`` before Ironic 35."""
        return [*super().supported_deploy_interfaces, compat.NO_DEPLOY]

    @property
    def supported_boot_interfaces(self) -> list[Any]:
        """Those of Ironic's type, and ``fake``, which goes with ``noop`` deploy."""
        return [*super().supported_boot_interfaces, fake.FakeBoot]


class RedfishAccHardware(AccHardware, RedfishHardware):
    """Hardware type of nodes with accelerators whose BMC speaks Redfish."""

    firmware, inspect, power = RedfishAccFirmware, RedfishAccInspect, RedfishAccPower


class IpmiAccHardware(AccHardware, IPMIHardware):
    """Hardware type of nodes with accelerators whose BMC speaks IPMI."""

    firmware, inspect, power = IpmiAccFirmware, IpmiAccInspect, IpmiAccPower
