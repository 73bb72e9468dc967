# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Note the demanded firmware whose version after the next host restart the BMC does not show."""

from collections.abc import Iterator

from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.note import Note, ShownFromNextStart
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.model.subject import firmware
from baremetal_acc.planning.verify import components_wanted
from baremetal_acc.policy.baseline import Baseline, NodeFacts, demands


def notes(
    inventory: Inventory, baseline: Baseline, node: NodeFacts, only: frozenset[AcceleratorId] | None = None
) -> Iterator[Note]:
    """Yield a note for each demanded version that is met now, and may be another one after a restart.

    :param only: these devices; None for all.
    """
    hidden = {ref for bmc in inventory.bmcs if bmc.update is not None for ref in bmc.update.unseen}
    for accelerator in inventory.accelerators:
        if only is not None and accelerator.id not in only:
            continue
        for component, _, _ in components_wanted(accelerator, demands(baseline, accelerator, node)):
            if component is not None and component.ref in hidden:
                about = ShownFromNextStart(subject=firmware(str(component.id)))
                yield Note(label=accelerator.label, content=about)
