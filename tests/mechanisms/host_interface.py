# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A BMC lists the standard HostInterface of each Manager."""

from baremetal_acc.locks.host_interface import HostInterface
from baremetal_acc.model.lock import LockState, WritePath
from tests.mechanisms.switch import Switch

SWITCH = Switch(
    kind=HostInterface,
    shown=lambda manager, value: {
        manager: {'HostInterfaces': {'@odata.id': f'{manager}/HostInterfaces'}},
        f'{manager}/HostInterfaces': {'Members': [{'@odata.id': f'{manager}/HostInterfaces/1'}]},
        f'{manager}/HostInterfaces/1': {'InterfaceEnabled': value},
    },
    at=lambda manager: f'{manager}/HostInterfaces/1',
    field='InterfaceEnabled',
    blocks=WritePath.HOST_BMC_REDFISH,
    closed=(False,),
    open=(True,),
    way='redfish',
    feature='',
    recorded={
        'dell/r750-h100-bluefield2': LockState.LOCKED_REPORTED,
        'hpe/dl380a-gen11-2xh100nvl': LockState.LOCKED_REPORTED,
        'lenovo/sr670v2-8xl40-bluefield2': LockState.LOCKED_REPORTED,
        'supermicro/hgx-h100-8gpu': LockState.UNLOCKED,
        'nvidia/gh200': LockState.UNLOCKED,
        'dmtf/rackmount': LockState.UNLOCKED,
    },
)
