# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""May a region get another function while the instance of its node has claimed it? Not if it was claimed as a function."""

from typing import Any

from ironic.conf import CONF

from baremetal_acc.conf import GROUP
from baremetal_acc.decide import claims
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import Plan, Program
from baremetal_acc_ironic import placement


def keep(task: Any, plan: Plan, inventory: Inventory) -> None:
    """See that a plan leaves the instance of a node the functions that it has claimed.

    :raises UsageError: it does not.
    :raises PlacementError: placement cannot be asked what is claimed.
    """
    instance = task.node.instance_uuid
    if not CONF[GROUP].publish or instance is None or not any(isinstance(a, Program) for a in plan.actions):
        return
    claims.keep(claims.regions(placement.claims(instance), task.node.uuid, inventory), plan)
