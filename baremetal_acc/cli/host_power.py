# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The power state of the host at the end of a command, and the note about a host that stays off."""

from collections.abc import Sequence

from baremetal_acc.cli import target_verdict
from baremetal_acc.cli.output import text
from baremetal_acc.cli.plan_request import Verb
from baremetal_acc.cli.target_entry import TargetEntry
from baremetal_acc.model.inventory import Inventory, PowerState


def find_host_power(inventory: Inventory) -> PowerState | None:
    """The power state of the host; of several hosts it is off if one of them is off."""
    powers = [facts.power for facts in inventory.hosts]
    return PowerState.OFF if PowerState.OFF in powers else next(iter(powers), None)


def note_host_power(entry: TargetEntry, power: PowerState | None, verb: Verb, spoilt: Sequence[str], *, good: bool) -> None:
    """Note that the host is off and stays off: a command powers on only a host that it has powered off itself.

    :param spoilt: labels of the quarantined cards.
    """
    if power is not PowerState.OFF:
        return
    if spoilt:
        are = 'is' if len(spoilt) == 1 else 'are'
        what = f'is off, and has to stay off while {", ".join(spoilt)} {are} quarantined: {target_verdict.MENDING}'
    elif verb is Verb.UNLOCK and not good:
        what = (
            'is off and stays off, because locks may be open: run lock --execute, which engages all of them, then power it on'
        )
    elif verb is Verb.UNLOCK:
        what = 'is off and stays off while its cards are unlocked: run lock --execute, which locks them, then power it on'
    elif good:
        what = 'was found off and stays off: power it on when it is needed'
    else:
        what = 'is off and stays off: fix what failed and run the same command again, then power it on'
    text.note(f'{entry.name}: the host {what}')
