# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Compare the settings of a watched node's BMCs with the rules of ``[bmc]``: read at most once an hour, with a full inspection.

Full inspections between two reads repeat what the last read has found, so that its alarms do not seem to be over.
"""

from datetime import datetime, timedelta
from typing import Any

from baremetal_acc.model.inventory import Inventory
from baremetal_acc.planning import bmc_settings
from baremetal_acc.planning.watch_alarms import WatchTrouble
from baremetal_acc.policy.baseline_rules import Baseline
from baremetal_acc_ironic.periodics.rounds import KeptSettings, WatchRounds
from baremetal_acc_ironic.state.target import target as target_of

EVERY = timedelta(hours=1)
"""Time between two reads of the settings of one node."""


def are_due(rounds: WatchRounds, uuid: str, baseline: Baseline, now: datetime) -> bool:
    """Whether a full inspection of now has to read the settings of a node's BMCs."""
    kept = rounds.settings.get(uuid)
    return bool(baseline.bmc) and (kept is None or kept.rules != baseline.bmc or not kept.at <= now < kept.at + EVERY)


def troubles(
    task: Any, rounds: WatchRounds, baseline: Baseline, inventory: Inventory, now: datetime
) -> tuple[WatchTrouble, ...]:
    """Return what the BMCs show otherwise than the rules demand, by this inspection or by the last one that read it."""
    uuid = task.node.uuid
    if not baseline.bmc:
        rounds.settings.pop(uuid, None)
        return ()
    if are_due(rounds, uuid, baseline, now):
        found = tuple(bmc_settings.troubles(bmc_settings.findings(inventory, baseline, target_of(task).node)))
        rounds.settings[uuid] = KeptSettings(at=now, rules=baseline.bmc, found=found)
    return rounds.settings[uuid].found


__all__ = ['EVERY', 'are_due', 'troubles']
