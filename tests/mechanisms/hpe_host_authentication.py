# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""HPE's iLO shows in its Manager whether tools of the host need a password."""

from baremetal_acc.locks.hpe.host_authentication import HostAuthentication
from baremetal_acc.model.lock import LockState, WritePath
from tests.mechanisms.switch import Switch

SWITCH = Switch(
    kind=HostAuthentication,
    shown=lambda manager, value: {manager: {'Oem': {'Hpe': {'RequireHostAuthentication': value}}}},
    at=lambda manager: manager,
    field='Oem/Hpe/RequireHostAuthentication',
    blocks=WritePath.HOST_BMC_REDFISH,
    closed=(True,),
    open=(False,),
    way='chif',
    feature='hpe-host-authentication',
    recorded={'hpe/dl380a-gen11-2xh100nvl': LockState.UNLOCKED},
)
