# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Lock the CHIF channel between host and HPE iLO by requiring a login: Manager, Oem.Hpe.RequireHostAuthentication.

What hardware: HPE with iLO 5 and 6. An iLO 7 has no such channel and does not show it.
How it is found: a Manager shows it.
What it can do: read, engage, release, by PATCH of the Manager.
Which write paths it blocks: ``host-bmc-redfish``, together with the other locks of that path: without it whoever is root on the
host speaks Redfish to the iLO over CHIF (the channel of HPE's tools) without any account, also where the virtual NIC is off.
How an update behaves: ours comes over the iLO's network and is not blocked.
What it cannot prove: that no user of the host has an account of the iLO.
What it was tried on: the recording hpe/dl380a-gen11-2xh100nvl and the emulator; no hardware.

Source: HPE, iLO 6 Redfish reference, HpeiLO, RequireHostAuthentication.
"""

from baremetal_acc.bmc.driver import Lead
from baremetal_acc.locks.bmc_setting import BooleanPropertyMechanism
from baremetal_acc.locks.mechanism import MechanismInfo
from baremetal_acc.model.lock import Scope, WritePath


class HostAuthentication(BooleanPropertyMechanism):
    """Entry point ``hpe_host_authentication``."""

    name = 'hpe_host_authentication'
    about = MechanismInfo(
        hardware='HPE with iLO 5 and 6',
        blocks=frozenset({WritePath.HOST_BMC_REDFISH}),
        protects=frozenset({Scope.BMC}),
        read_back='Manager, Oem.Hpe.RequireHostAuthentication: of the channel of the host (CHIF)',
        cannot_prove='that no user of the host has an account of the iLO',
        source='HPE iLO 6 Redfish reference, HpeiLO; recording hpe/dl380a-gen11-2xh100nvl',
    )
    leads = (Lead(),)
    path = ('Oem', 'Hpe', 'RequireHostAuthentication')
    closed = (True,)
    open = (False,)
