# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What has the instance of a node claimed of its accelerators, and which functions do its regions get for that?"""

import glob
from typing import Any

from ironic.conf import CONF

from baremetal_acc.conf import GROUP
from baremetal_acc.decide import claims
from baremetal_acc.decide.baseline import demands
from baremetal_acc.decide.offer import supply
from baremetal_acc.errors import UsageError
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import Verdict
from baremetal_acc.run import Tools
from baremetal_acc_ironic import placement
from baremetal_acc_ironic.node import Override
from baremetal_acc_ironic.target import target as target_of


def overrides(task: Any, tools: Tools, inventory: Inventory) -> tuple[Override, ...]:
    """The functions that the claimed regions get: those that the flavor of the instance asks for by its traits.

    :raises UsageError: there is no instance, nothing is published, or it cannot be done with what it has claimed.
    :raises PlacementError: placement cannot be asked.
    """
    node = target_of(task).node
    if not CONF[GROUP].publish or task.node.instance_uuid is None:
        why = 'the node has no instance' if task.node.instance_uuid is None else f'[{GROUP}] publish is off'
        raise UsageError(argument='argument claimed', what=f'{why}, so nothing is claimed', hint='name the slots: functions')
    held = placement.claims(task.node.instance_uuid)
    made = supply(inventory, Verdict(target=inventory.target, findings=()), tools.baseline, node, tools.catalogue)
    claimed = claims.regions(held, task.node.uuid, inventory)
    wanted = claims.asked(task.node.instance_info.get('traits') or (), made)
    chosen = claims.assign(claimed, wanted, made)
    return tuple(
        Override(device=a.id, functions=(*theirs, *demands(tools.baseline, a, node).functions))
        for a in inventory.accelerators
        # Functions are asked for by patterns of slots.
        if (theirs := tuple((glob.escape(slot), name) for (card, slot), name in sorted(chosen.items()) if card == a.id))
    )


def broken(task: Any, tools: Tools, inventory: Inventory, verdict: Verdict) -> tuple[str, ...]:
    """What the instance has claimed, and would not get. Where nothing is published, nothing is claimed.

    :raises PlacementError: placement cannot be asked.
    """
    if not CONF[GROUP].publish or task.node.instance_uuid is None:
        return ()
    made = supply(inventory, verdict, tools.baseline, target_of(task).node, tools.catalogue)
    held = placement.claims(task.node.instance_uuid)
    return tuple(claims.broken(claims.regions(held, task.node.uuid, inventory), made))
