# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Note in a plan that a BMC may not show a card once its host is powered off, and report a card that is missing for that."""

from collections.abc import Collection, Iterator

from baremetal_acc.model.action import Flash, Program, Release, Reset, ResetPurpose
from baremetal_acc.model.inventory import Inventory, PowerState
from baremetal_acc.model.job import Job
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.model.note import MayHideCardsWhileOff, Note
from baremetal_acc.model.ref import AcceleratorId, Ref


def notes(inventory: Inventory, changes: Collection[Flash | Program | Release], hosts: Collection[Ref]) -> Iterator[Note]:
    """Return the notes of a plan about what is known only later.

    :param changes: what is written and unlocked.
    :param hosts: the Systems that are held off meanwhile.
    """
    found = [inventory.bmc(host.bmc) for host in hosts]
    if changes and any(facts is not None and facts.power is PowerState.ON for facts in found):
        yield Note(label=inventory.target, content=MayHideCardsWhileOff())


def hidden_by_hold(job: Job, inventory: Inventory | None, card: AcceleratorId) -> str | None:
    """Say why a card of the plan is not shown any more, where the job has powered its host off; else None.

    Some BMCs show a card only while its host has power; or somebody has taken it out meanwhile.
    """
    if inventory is None or inventory.accelerator(card) is not None:
        return None
    for item in job.items:
        action = item.action
        if not isinstance(action, Reset) or action.purpose is not ResetPurpose.HOLD or item.state is not ItemState.DONE:
            continue
        facts = inventory.bmc(action.system.bmc)
        if facts is not None and facts.system == action.system and facts.power is PowerState.OFF:
            return (
                'the BMC no longer shows the card now that its host is off, and nothing on the card was changed: a '
                'card that is '
                "shown only while the host is on can be changed only then; that is safe with the operator's own "
                'ramdisk (in-band '
                'cleaning)'
            )
    return None
