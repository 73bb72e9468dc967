# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""HPE's iLO shows KcsEnabled in the NetworkProtocol of its Manager."""

from baremetal_acc.locks.hpe.kcs import HpeKcs
from baremetal_acc.model.lock import LockState, WritePath
from tests.mechanisms.switch import Switch

SWITCH = Switch(
    kind=HpeKcs,
    shown=lambda manager, value: {
        manager: {'Oem': {'Hpe': {}}, 'NetworkProtocol': {'@odata.id': f'{manager}/NetworkProtocol'}},
        f'{manager}/NetworkProtocol': {'Oem': {'Hpe': {'KcsEnabled': value}}},
    },
    at=lambda manager: f'{manager}/NetworkProtocol',
    field='Oem/Hpe/KcsEnabled',
    blocks=WritePath.HOST_BMC_IPMI,
    closed=(False,),
    open=(True,),
    way='kcs',
    feature='hpe-kcs',
    recorded={'hpe/dl380a-gen11-2xh100nvl': LockState.UNLOCKED},
)
