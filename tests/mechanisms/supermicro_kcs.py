# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A Supermicro BMC links from its Manager to KCSInterface, which has the privilege of the host."""

from baremetal_acc.locks.supermicro.kcs import KcsPrivilege
from baremetal_acc.model.lock import LockState, WritePath
from tests.mechanisms.switch import Switch

SWITCH = Switch(
    kind=KcsPrivilege,
    shown=lambda manager, value: {
        manager: {'Oem': {'Supermicro': {'KCSInterface': {'@odata.id': f'{manager}/Oem/Supermicro/KCSInterface'}}}},
        f'{manager}/Oem/Supermicro/KCSInterface': {'Privilege': value},
    },
    at=lambda manager: f'{manager}/Oem/Supermicro/KCSInterface',
    field='Privilege',
    blocks=WritePath.HOST_BMC_IPMI,
    closed=('Callback',),
    open=('Administrator', 'Operator', 'User'),
    way='kcs',
    feature='supermicro-kcs',
    recorded={'supermicro/hgx-h100-8gpu': LockState.UNLOCKED},
)
