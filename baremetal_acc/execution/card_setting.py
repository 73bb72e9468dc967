# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Set a setting of a card that is still as the plan saw it.

The setting is read back by the next inspection (:mod:`baremetal_acc.planning.lock_changes`). Whether it is in effect in the end
is seen by the final inspection, after the reset that it may need.
"""

import logging
from dataclasses import replace

from baremetal_acc.errors import AccError
from baremetal_acc.execution.power import host_runs
from baremetal_acc.execution.step_context import StepContext
from baremetal_acc.model.action import SetCardSetting
from baremetal_acc.model.job import Job
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.planning import known_later
from baremetal_acc.planning.action_descriptions import describe
from baremetal_acc.planning.card_settings import is_set, reading_of

LOG = logging.getLogger(__name__)

_NOT_SHOWN = 'this card no longer shows this setting'


def set_card_setting(at: StepContext, action: SetCardSetting) -> Job:
    """Set a setting, while a host that is to be off is off. Nothing is sent if the value is set already."""
    tools, now = at.tools, at.now
    mechanism = next((m for m in tools.card_settings if m.name == action.mechanism), None)
    reading = reading_of(action, at.inventory)
    # A card that has just been written takes time to be shown again.
    if reading is None and mechanism is not None and now <= at.job.deadline and now - at.item.since <= tools.patience.settle:
        return at.with_item(replace(at.item, message=_NOT_SHOWN))
    if mechanism is None or reading is None:
        return at.failed(known_later.hidden_by_hold(at.job, at.inventory, action.accelerator) or _NOT_SHOWN)
    running = host_runs(at.job, at.inventory)
    if running is not None:
        return at.failed(running)
    if is_set(reading, action.value):
        return at.done()
    if reading.value != action.expects:
        return at.failed(f'the plan was made with {action.expects}, but the setting is now {reading.value}')
    if action.value not in reading.sets:
        return at.failed(f'the BMC offers no way any more to set it to {action.value}')
    try:
        writer = at.bmcs[action.ref.bmc].writer()
        mechanism.set(writer, reading, action.value)
    except AccError as exc:
        return at.not_performed(exc)
    objection = writer.objections[-1] if writer.objections else None
    if objection is not None:
        LOG.warning('%s: %s: the BMC accepted it with the message: %s', at.job.target, describe(action), objection.text)
    task = writer.accepted[-1].task if writer.accepted else None
    item = replace(at.item.to(ItemState.RUNNING, now), task=task, follows=task is not None, before=reading.value)
    return at.with_item(replace(item, unconditional=bool(writer.unconditional), objection=objection))
