# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""List the mechanisms that read the settings of cards."""

from baremetal_acc.card_settings.mechanism import CardSettingMechanism
from baremetal_acc.card_settings.nvidia.bluefield_mode import BluefieldMode
from baremetal_acc.card_settings.sriov import StandardSriov


def mechanisms() -> tuple[CardSettingMechanism, ...]:
    """Return all mechanisms, sorted by name."""
    return BluefieldMode(), StandardSriov()
