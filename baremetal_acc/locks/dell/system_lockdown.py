# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Lock a Dell iDRAC by its System Lockdown mode: DellAttributes, Lockdown.1.SystemLockdown.

What hardware: PowerEdge with iDRAC 9 and later.
How it is found: a Manager links to DellAttributes, and one of them has the attribute. The older resource
Managers/.../Attributes was seen to say Disabled while DellAttributes said Enabled: it is not read.
What it can do: read, engage, release, by PATCH of the DellAttributes. While it holds the iDRAC changes no other setting, so it
is opened before and closed after everything else.
Which write paths it blocks: ``host-bmc-ipmi``, ``host-bmc-redfish`` and ``bmc-network``: no way into the BMC changes settings
or firmware. Updates by a vendor's tool on the host are blocked for some network cards since 4.40; no source says so for GPUs:
the card's own way to the host counts as open.
How an update behaves: refused while it holds. It is released for our own update, and engaged again whatever happens.
What it cannot prove: that a write by the host fails; a pending job may still change settings.
Licence: iDRAC Enterprise or Datacenter; without it the iDRAC refuses the attribute.
What it was tried on: the recording dell/r750-h100-bluefield2 and the emulator; no hardware.

Source: NVIDIA/libredfish dell.rs, enable_bmc_lockdown; Dell, iDRAC9 user's guide, System Lockdown mode.
"""

from baremetal_acc.bmc.driver import Lead
from baremetal_acc.locks.bmc_setting import BooleanPropertyMechanism
from baremetal_acc.locks.harmless_write import KEEP_ASSET_TAG
from baremetal_acc.locks.mechanism import MechanismInfo
from baremetal_acc.model.lock import Scope, WritePath

ATTRIBUTE = 'Lockdown.1.SystemLockdown'


class SystemLockdown(BooleanPropertyMechanism):
    """Entry point ``dell_system_lockdown``."""

    name = 'dell_system_lockdown'
    about = MechanismInfo(
        hardware='PowerEdge with iDRAC 9 and later',
        blocks=frozenset({WritePath.HOST_BMC_IPMI, WritePath.HOST_BMC_REDFISH, WritePath.BMC_NETWORK}),
        protects=frozenset({Scope.BMC}),
        wraps=True,
        licence='iDRAC Enterprise or Datacenter',
        read_back=f'DellAttributes, Attributes.{ATTRIBUTE}',
        cannot_prove=(
            'anything about GPUs, which the host reaches without the iDRAC; about network cards, more than that some '
            'are blocked since 4.40'
        ),
        source='NVIDIA/libredfish dell.rs; recording dell/r750-h100-bluefield2; iDRAC9 user guide, System Lockdown mode',
        harmless=(KEEP_ASSET_TAG,),
    )
    leads = (Lead(path=('Links', 'Oem', 'Dell', 'DellAttributes'), of_its_name=True),)
    path = ('Attributes', ATTRIBUTE)
    closed = ('Enabled',)
    open = ('Disabled',)
