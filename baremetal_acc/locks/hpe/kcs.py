# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Lock the KCS (the IPMI system interface) of an HPE iLO: ManagerNetworkProtocol, Oem.Hpe.KcsEnabled.

What hardware: HPE with iLO 6 1.40 and later.
How it is found: the NetworkProtocol of a Manager shows it.
What it can do: read, engage, release, by PATCH of the NetworkProtocol.
Which write paths it blocks: ``host-bmc-ipmi``. CHIF, the host's other channel to the iLO, is blocked by
:mod:`~baremetal_acc.locks.hpe.host_authentication`.
How an update behaves: ours comes over the iLO's network and is not blocked.
What it cannot prove: that the iLO answers nothing on the interface.
What it was tried on: the recording hpe/dl380a-gen11-2xh100nvl and the emulator; no hardware.

Source: NVIDIA/libredfish hpe.rs, enable_bmc_lockdown2. Its unlock, disable_bmc_lockdown2, writes false too, so it is no guide
for releasing.
"""

from baremetal_acc.bmc.driver import Lead
from baremetal_acc.locks.bmc_setting import BooleanPropertyMechanism
from baremetal_acc.locks.harmless_write import IDENTIFY_CHASSIS
from baremetal_acc.locks.mechanism import MechanismInfo
from baremetal_acc.model.lock import Scope, WritePath


class HpeKcs(BooleanPropertyMechanism):
    """Entry point ``hpe_kcs``."""

    name = 'hpe_kcs'
    about = MechanismInfo(
        hardware='HPE with iLO 6 1.40 and later',
        blocks=frozenset({WritePath.HOST_BMC_IPMI}),
        protects=frozenset({Scope.BMC}),
        read_back='ManagerNetworkProtocol, Oem.Hpe.KcsEnabled',
        cannot_prove='that the iLO answers nothing on the interface',
        source='NVIDIA/libredfish hpe.rs; recording hpe/dl380a-gen11-2xh100nvl',
        harmless=(IDENTIFY_CHASSIS,),
    )
    leads = (Lead(path=('NetworkProtocol',), beside=('Oem', 'Hpe')),)
    path = ('Oem', 'Hpe', 'KcsEnabled')
    closed = (False,)
    open = (True,)
