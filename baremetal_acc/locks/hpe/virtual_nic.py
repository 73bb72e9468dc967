# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Lock the virtual network card between host and HPE iLO: Manager, Oem.Hpe.VirtualNICEnabled.

What hardware: HPE with iLO 5 2.10 and later.
How it is found: a Manager shows it.
What it can do: read, engage, release, by PATCH of the Manager. It takes effect after a reset of the iLO.
Which write paths it blocks: ``host-bmc-redfish``, together with the other locks of that path.
How an update behaves: ours comes over the iLO's network and is not blocked.
What it cannot prove: what is in effect until the iLO has been reset. The property shows what is set; ConfigurationSettings next
to it says whether all that is set is in effect. Where ConfigurationSettings does not say so, every engagement needs a reset of
the iLO.
What it was tried on: the recording hpe/dl380a-gen11-2xh100nvl and the emulator; no hardware.

Source: HPE, iLO 6 Redfish reference, HpeiLO, VirtualNICEnabled and ConfigurationSettings; NVIDIA/libredfish hpe.rs.
"""

from baremetal_acc.bmc.driver import Document, Lead
from baremetal_acc.locks.bmc_setting import BooleanPropertyMechanism, SettingPlace
from baremetal_acc.locks.harmless_write import LOCATE_SYSTEM
from baremetal_acc.locks.mechanism import MechanismInfo
from baremetal_acc.locks.property_reading import value_at
from baremetal_acc.model.lock import LockState, ResetKind, Scope, WritePath

PENDING = 'SomePendingReset'
IN_FORCE = 'Current'


class VirtualNic(BooleanPropertyMechanism):
    """Entry point ``hpe_virtual_nic``."""

    name = 'hpe_virtual_nic'
    about = MechanismInfo(
        hardware='HPE with iLO 5 2.10 and later',
        blocks=frozenset({WritePath.HOST_BMC_REDFISH}),
        protects=frozenset({Scope.BMC}),
        needs=ResetKind.BMC_RESET,
        read_back='Manager, Oem.Hpe.VirtualNICEnabled, with ConfigurationSettings next to it',
        cannot_prove='what is in effect before the iLO was reset',
        source='HPE iLO 6 Redfish reference, HpeiLO; recording hpe/dl380a-gen11-2xh100nvl',
        harmless=(LOCATE_SYSTEM,),
    )
    leads = (Lead(),)
    path = ('Oem', 'Hpe', 'VirtualNICEnabled')
    closed = (False,)
    open = (True,)

    def place(self, document: Document, field: str, value: object) -> SettingPlace:
        """Return what is set, and whether it is in effect."""
        state, reason = self.judged(value)
        settings = value_at(document.body, 'Oem', 'Hpe', 'ConfigurationSettings')
        if state is LockState.LOCKED_REPORTED and settings == PENDING:
            state, reason = (
                LockState.PENDING_RESET,
                'set, but the iLO reports that a setting takes effect only after its next reset',
            )
        in_force = state is LockState.LOCKED_REPORTED and settings == IN_FORCE
        return SettingPlace(
            ref=document.ref,
            field=field,
            value=value,
            state=state,
            reason=reason,
            needs=ResetKind.BMC_RESET,
            reset=document.ref,
            in_force=in_force,
        )
