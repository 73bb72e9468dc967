# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Lock the KCS (the IPMI system interface) of a Supermicro BMC: KCSInterface.Privilege.

What hardware: Supermicro X11 and later; Grace boards link to it and answer 404.
How it is found: a Manager links to Oem.Supermicro.KCSInterface.
What it can do: read, engage (Callback), release (Administrator), by PATCH of the resource.
Which write paths it blocks: ``host-bmc-ipmi``: with Callback the host may not send what changes or updates anything.
How an update behaves: ours comes over the BMC's network and is not blocked.
What it cannot prove: that the BMC refuses every command of its vendor at that privilege.
What it was tried on: the recording supermicro/hgx-h100-8gpu and the emulator; no hardware.

Source: NVIDIA/libredfish supermicro.rs, lockdown; IPMI 2.0, table 6-2 (privilege levels).
"""

from baremetal_acc.bmc.driver import Lead
from baremetal_acc.locks.bmc_setting import BooleanPropertyMechanism
from baremetal_acc.locks.harmless_write import IDENTIFY_CHASSIS
from baremetal_acc.locks.mechanism import MechanismInfo
from baremetal_acc.model.lock import Scope, WritePath


class KcsPrivilege(BooleanPropertyMechanism):
    """Entry point ``supermicro_kcs``."""

    name = 'supermicro_kcs'
    about = MechanismInfo(
        hardware='Supermicro X11 and later, except Grace boards',
        blocks=frozenset({WritePath.HOST_BMC_IPMI}),
        protects=frozenset({Scope.BMC}),
        read_back='Managers, Oem.Supermicro.KCSInterface, Privilege: Callback is closed',
        cannot_prove="that every command of the vendor's own is refused at privilege Callback",
        source='NVIDIA/libredfish supermicro.rs; recording supermicro/hgx-h100-8gpu',
        harmless=(IDENTIFY_CHASSIS,),
    )
    leads = (Lead(path=('Oem', 'Supermicro', 'KCSInterface')),)
    path = ('Privilege',)
    closed = ('Callback',)
    open = ('Administrator', 'Operator', 'User')
