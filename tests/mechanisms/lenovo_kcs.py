# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Lenovo's XCC shows KCSEnabled in its Manager: true or false, or by version a text."""

from baremetal_acc.locks.lenovo.kcs import LenovoKcs
from baremetal_acc.model.lock import LockState, WritePath
from tests.mechanisms.switch import Switch

SWITCH = Switch(
    kind=LenovoKcs,
    shown=lambda manager, value: {manager: {'Oem': {'Lenovo': {'KCSEnabled': value}}}},
    at=lambda manager: manager,
    field='Oem/Lenovo/KCSEnabled',
    blocks=WritePath.HOST_BMC_IPMI,
    closed=(False, 'Disabled', 'false'),
    open=(True, 'Enabled', 'true'),
    way='kcs',
    feature='lenovo-kcs',
    recorded={'lenovo/sr670v2-8xl40-bluefield2': LockState.LOCKED_REPORTED},
)
