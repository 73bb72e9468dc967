# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The step ``accept_accelerator_custody``: an operator answers for the firmware of a free node's cards until a given date.

The step begins a new chain of custody without writing firmware: for the first day of a fleet, and for cards without an image.
It refuses a card that somebody else is known to have reached, or on which a write of ours has failed: cleaning has to write it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from oslo_log import log

from baremetal_acc import execution
from baremetal_acc.errors import UsageError
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.custody import Custody, Origin
from baremetal_acc.model.waiver import moment
from baremetal_acc.planning import custody, custody_readings
from baremetal_acc.planning.quarantine import suspects
from baremetal_acc_ironic.state import node_store, provision_state
from baremetal_acc_ironic.state.target import target as target_of
from baremetal_acc_ironic.steps import (
    custody_reading,
    definitions,
    flow_steps,
    statement,
    step_errors,
    step_preparation,
    verdict_record,
    wall_clock,
)
from baremetal_acc_ironic.steps.job_context import tools as tools_of

LOG = log.getLogger(__name__)


def accept(task: Any, given: Mapping[str, Any]) -> None:
    """Read the cards, and begin a new chain of custody for each chosen one. Nothing is written to a BMC.

    :raises StepFailed: an argument is wrong, no operator has asked for the step by hand, an interrupted job is unfinished, or
        somebody else has reached one of the cards or can.
    """
    step = definitions.ACCEPT
    with step_errors.told_by(task, step):
        flow = flow_steps.flow_of(task)
        arguments = step.arguments(given)
        state = step_preparation.returned(task, node_store.load(task.node), flow, step)
        who = statement.made_by(task, state, flow, step)
        reason, until = statement.reason_and_end(arguments, step, wall_clock.now(), end='until')
        step_preparation.refuse_interrupted(state)
        target, tools = target_of(task), tools_of(task, state)
        proof = custody_reading.evidence(state, flow)
        inventory = execution.observe(target, tools, wall_clock.now())
        only = definitions.chosen(inventory, arguments.get('devices'))
        chosen = [a for a in inventory.accelerators if only is None or a.id in only]
        reached = (state.exposed | state.anew | suspects(state.quarantined, inventory)) & {a.id for a in chosen}
        if reached:
            raise UsageError(
                argument='argument devices',
                what=f'a tenant or a host may have written {", ".join(sorted(reached))}, or a write of ours has failed',
                hint='clean the node, which writes them; or name other devices',
            )
        state = custody_reading.with_custody(state, inventory, target, tools, proof)
        kept = state.custody
        _refuse_open(kept, chosen)
        for accelerator in chosen:
            kept = custody.begun(kept, accelerator.id, Origin.ACCEPTED, inventory.at, by=[who.by], until=until, reason=reason)
        state = replace(state, custody=kept)
        state = verdict_record.compared(task, state, tools, inventory, proof, by=step.name, flow=flow)
        node_store.store(task.node, state)
        names = ', '.join(f'{a.label} ({a.id})' for a in chosen) or 'no card'
        text = f'{step.name}: {who.by} vouches for what these cards run until {moment(until)}: {names}: {reason}'
        LOG.warning('Node %s: %s', task.node.uuid, text)
        provision_state.told(task.node, text, user=who.user)


def _refuse_open(kept: Custody, chosen: Iterable[Accelerator]) -> None:
    """Refuse cards whose chain of custody the next inventory read would break.

    :raises UsageError: a write path to one of the cards is open, and its host is not off.
    """
    for accelerator in chosen:
        seen = kept.of(accelerator.id).seen
        if seen is None or not custody_readings.is_kept(seen):
            raise UsageError(
                argument='argument devices',
                what=f'{accelerator.label} ({accelerator.id}) is not proven closed to its host, which is not off',
                hint=f'first run {definitions.LOCK.name}, or power off the node',
            )
