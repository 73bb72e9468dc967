# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Lock the Redfish Host Interface, by which the host speaks Redfish to its BMC: HostInterface.InterfaceEnabled of each Manager.

What hardware: every BMC that shows the standard resource; seen on Dell, HPE, Lenovo, NVIDIA and Supermicro.
How it is found: a Manager has HostInterfaces with members.
What it can do: read, engage, release, by PATCH of the HostInterface.
Which write paths it blocks: ``host-bmc-redfish``: the network between host and BMC, and with it every update that the BMC takes
by Redfish, its web pages or a shell. Neither the system interface (KCS) nor the card's own way to the host.
How an update behaves: ours comes over the BMC's network and is not blocked.
What it cannot prove: that the host has no other way to the BMC's network; and where the system interface is open, whoever is
root on the host may switch the interface on again.
What it was tried on: recordings and the emulator; no hardware.

Source: DSP8010 2025.4, HostInterface v1_3_2, InterfaceEnabled; DSP0270 1.3 (Redfish Host Interface).
"""

from baremetal_acc.bmc.driver import Lead
from baremetal_acc.locks.bmc_setting import BooleanPropertyMechanism
from baremetal_acc.locks.harmless_write import LOCATE_SYSTEM
from baremetal_acc.locks.mechanism import MechanismInfo
from baremetal_acc.model.lock import Scope, WritePath


class HostInterface(BooleanPropertyMechanism):
    """Entry point ``host_interface``."""

    name = 'host_interface'
    about = MechanismInfo(
        hardware='BMCs with the standard resource: seen on Dell, HPE, Lenovo, NVIDIA and Supermicro',
        blocks=frozenset({WritePath.HOST_BMC_REDFISH}),
        protects=frozenset({Scope.BMC}),
        read_back='HostInterface.InterfaceEnabled of each Manager',
        cannot_prove='that it stays off where KCS is open; that the host has no other way to the network of the BMC',
        source='DSP8010 2025.4, HostInterface v1_3_2; DSP0270 1.3; recordings',
        harmless=(LOCATE_SYSTEM,),
    )
    leads = (Lead(path=('HostInterfaces',), is_collection=True),)
    path = ('InterfaceEnabled',)
    closed = (False,)
    open = (True,)
