# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Render what an operator has reserved of our providers in placement."""

from baremetal_acc.model.provider import KeptReservation


def sentence(kept: KeptReservation) -> str:
    """Say what stays reserved."""
    return (
        f'{kept.reserved} of {kept.total} {kept.resource_class} of provider {kept.name} ({kept.uuid}) stays reserved, as an '
        'operator has set it; set reserved to 0 in placement to make it available'
    )
