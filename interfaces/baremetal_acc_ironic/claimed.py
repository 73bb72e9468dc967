# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""May a region get another function while its node has an instance? Not if it is, or could have been, claimed as a function."""

from collections.abc import Iterable
from typing import Any

from baremetal_acc.decide import claims
from baremetal_acc.decide.baseline import Baseline, NodeFacts
from baremetal_acc.decide.offer import single
from baremetal_acc.model.image import Image
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import Plan, Program
from baremetal_acc_ironic import placement


def keep(task: Any, plan: Plan, inventory: Inventory, baseline: Baseline, node: NodeFacts, catalogue: Iterable[Image]) -> None:
    """See that a plan leaves the instance of a node, and the regions beside it that are claimed as functions, what they have.

    :raises UsageError: it does not.
    :raises PlacementError: placement cannot be asked what is claimed.
    """
    instance = task.node.instance_uuid
    if not placement.is_wanted() or instance is None or not any(isinstance(a, Program) for a in plan.actions):
        return
    held = placement.claims(instance)
    fixed = single(inventory, baseline, node, catalogue) if held else {}
    claims.keep(claims.regions(held, task.node.uuid, inventory), plan, fixed, inventory)
