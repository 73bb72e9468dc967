# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Lock a Supermicro BMC by its system lockdown: SysLockdown.SysLockdownEnabled.

What hardware: Supermicro X12 and later.
How it is found: a Manager links to Oem.Supermicro.SysLockdown.
What it can do: read, engage, release, by PATCH of the resource. While it holds the BMC changes no other setting, so it is
opened before and closed after everything else.
Which write paths it blocks: ``host-bmc-ipmi``, ``host-bmc-redfish`` and ``bmc-network``. What it does for GPUs is not known:
the card's own way to the host counts as open.
How an update behaves: refused while it holds. It is released for our own update, and engaged again whatever happens.
What it cannot prove: that a write by the host fails.
Licence: a node key (SFT-DCMS-SINGLE) is said to be needed; not confirmed.
What it was tried on: the recording supermicro/hgx-h100-8gpu and the emulator; no hardware.

Source: NVIDIA/libredfish supermicro.rs, lockdown.
"""

from baremetal_acc.bmc.driver import Lead
from baremetal_acc.locks.bmc_setting import BooleanPropertyMechanism
from baremetal_acc.locks.mechanism import MechanismInfo
from baremetal_acc.model.lock import Scope, WritePath


class SysLockdown(BooleanPropertyMechanism):
    """Entry point ``supermicro_sys_lockdown``."""

    name = 'supermicro_sys_lockdown'
    about = MechanismInfo(
        hardware='Supermicro X12 and later',
        blocks=frozenset({WritePath.HOST_BMC_IPMI, WritePath.HOST_BMC_REDFISH, WritePath.BMC_NETWORK}),
        protects=frozenset({Scope.BMC}),
        wraps=True,
        licence='a node key (SFT-DCMS-SINGLE), not confirmed',
        read_back='Managers, Oem.Supermicro.SysLockdown, SysLockdownEnabled',
        cannot_prove='anything about GPUs: what it blocks for them is unknown',
        source='NVIDIA/libredfish supermicro.rs; recording supermicro/hgx-h100-8gpu',
    )
    leads = (Lead(path=('Oem', 'Supermicro', 'SysLockdown')),)
    path = ('SysLockdownEnabled',)
    closed = (True,)
    open = (False,)
