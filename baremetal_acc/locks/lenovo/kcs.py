# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Lock the KCS (the IPMI system interface) of a Lenovo XCC: Manager, Oem.Lenovo.KCSEnabled.

What hardware: Lenovo ThinkSystem with XCC; the property is true or false, or a text, by version.
How it is found: a Manager shows it.
What it can do: read, engage, release, by PATCH of the Manager, with the kind of value that it shows.
Which write paths it blocks: ``host-bmc-ipmi``.
How an update behaves: ours comes over the XCC's network and is not blocked.
What it cannot prove: that the XCC answers nothing on the interface.
What it was tried on: the recording lenovo/sr670v2-8xl40-bluefield2 (closed) and the emulator; no hardware.

Source: NVIDIA/libredfish lenovo.rs, enable_lockdown.
"""

from baremetal_acc.bmc.driver import Lead
from baremetal_acc.locks.bmc_setting import BooleanPropertyMechanism
from baremetal_acc.locks.harmless_write import IDENTIFY_CHASSIS
from baremetal_acc.locks.mechanism import MechanismInfo
from baremetal_acc.model.lock import Scope, WritePath


class LenovoKcs(BooleanPropertyMechanism):
    """Entry point ``lenovo_kcs``."""

    name = 'lenovo_kcs'
    about = MechanismInfo(
        hardware='Lenovo ThinkSystem with XCC',
        blocks=frozenset({WritePath.HOST_BMC_IPMI}),
        protects=frozenset({Scope.BMC}),
        read_back='Manager, Oem.Lenovo.KCSEnabled',
        cannot_prove='that the XCC answers nothing on the interface',
        source='NVIDIA/libredfish lenovo.rs; recording lenovo/sr670v2-8xl40-bluefield2',
        harmless=(IDENTIFY_CHASSIS,),
    )
    leads = (Lead(),)
    path = ('Oem', 'Lenovo', 'KCSEnabled')
    closed = (False, 'Disabled', 'false')
    open = (True, 'Enabled', 'true')
