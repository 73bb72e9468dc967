# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Lock the IPMI system interface between host and BMC: ComputerSystem, IPMIHostInterface.ServiceEnabled.

What hardware: BMCs that implement the standard property, whatever the interface is (KCS, SSIF).
How it is found: a System shows it.
What it can do: read, engage, release, by PATCH of the System.
Which write paths it blocks: ``host-bmc-ipmi``, together with the other locks of that path.
How an update behaves: ours comes over the BMC's network and is not blocked.
What it cannot prove: when it takes effect, which the standard does not say, and that the interface refuses a command then.
What it was tried on: written replies; no hardware and no recording.

Source: DSP8010 2025.4, ComputerSystem v1_25_0, IPMIHostInterface.
"""

from collections.abc import Iterator

from baremetal_acc.bmc.driver import Reader
from baremetal_acc.locks.bmc_setting import BooleanPropertyMechanism, FoundSetting, systems
from baremetal_acc.locks.harmless_write import IDENTIFY_CHASSIS
from baremetal_acc.locks.mechanism import MechanismInfo
from baremetal_acc.model.lock import Scope, WritePath


class IpmiHostInterface(BooleanPropertyMechanism):
    """Entry point ``ipmi_host_interface``."""

    name = 'ipmi_host_interface'
    about = MechanismInfo(
        hardware='BMCs with the standard property of the System',
        blocks=frozenset({WritePath.HOST_BMC_IPMI}),
        protects=frozenset({Scope.BMC}),
        read_back='ComputerSystem, IPMIHostInterface.ServiceEnabled',
        cannot_prove='when it takes effect, and that the interface refuses a command then',
        source='DSP8010 2025.4, ComputerSystem v1_25_0',
        harmless=(IDENTIFY_CHASSIS,),
    )
    path = ('IPMIHostInterface', 'ServiceEnabled')
    closed = (False,)
    open = (True,)

    def resources(self, reader: Reader, top: str) -> Iterator[FoundSetting]:
        """List the Systems."""
        yield from systems(reader, top)
