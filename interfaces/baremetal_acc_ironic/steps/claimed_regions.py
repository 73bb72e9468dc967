# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Refuse plans that reprogram an FPGA region if the node's instance has, or may have, claimed the function that it holds."""

from collections.abc import Iterable
from typing import Any

from baremetal_acc.model.action import Program
from baremetal_acc.model.image import Image
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.plan import Plan
from baremetal_acc.policy.baseline_rules import Baseline, NodeFacts
from baremetal_acc.scheduling import region_claims
from baremetal_acc.scheduling.schedulable import single
from baremetal_acc_ironic import placement


def keep(task: Any, plan: Plan, inventory: Inventory, baseline: Baseline, node: NodeFacts, catalogue: Iterable[Image]) -> None:
    """Check that a plan does not reprogram regions that the node's instance has claimed as functions, or could have claimed so.

    :raises UsageError: it does.
    :raises PlacementError: placement cannot be asked what is claimed.
    """
    instance = task.node.instance_uuid
    if not placement.is_wanted() or instance is None or not any(isinstance(a, Program) for a in plan.actions):
        return
    held = placement.claims(instance)
    fixed = single(inventory, baseline, node, catalogue) if held else {}
    region_claims.keep(region_claims.regions(held, task.node.uuid, inventory), plan, fixed, inventory)
