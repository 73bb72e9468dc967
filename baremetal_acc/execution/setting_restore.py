# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Restore a setting of a BMC, and read it back.

A setting is read first, and written only if it still shows what the plan saw. So a job that was interrupted after the write
finds it restored. A BMC that accepts the write and does not show it gets some time, and the write is not sent again.
"""

import logging
from dataclasses import replace

from baremetal_acc.bmc.settings_reader import RestoresSettings
from baremetal_acc.errors import BmcUnsupported
from baremetal_acc.execution.step_context import StepContext
from baremetal_acc.model.action import RestoreSetting
from baremetal_acc.model.bmc_state import RESTORED_TO, BmcSetting
from baremetal_acc.model.job import Job
from baremetal_acc.planning import action_descriptions
from baremetal_acc.planning.setting_restores import is_link_local, resembles
from baremetal_acc.policy.baseline_rules import BmcProtocol
from baremetal_acc.policy.bmc_rules import protocol_of

LOG = logging.getLogger(__name__)


def restore_setting(at: StepContext, action: RestoreSetting) -> Job:
    """Restore a setting that is still as the plan saw it, and that the target does not rest on.

    :raises AccError: it could not be read, or was not accepted.
    """
    item, patience = at.item, at.tools.patience
    rests = _rests(at, action)
    if rests is not None:
        return at.failed(f'nothing was written: {rests}', untouched=True)
    connection = at.bmcs[action.ref.bmc]
    if not isinstance(connection, RestoresSettings):
        raise BmcUnsupported(bmc=action.ref.bmc, uri=action.ref.uri, what='settings of this BMC are not restored')
    was_sent = item.before is not None
    sight = connection.restore(action, send=not was_sent)
    if sight.sent:
        item = replace(item, before=action.expects, since=at.now, unconditional=sight.unconditional, objection=sight.objection)
        at = at.of(at.with_item(item))
        if sight.objection is not None:
            LOG.warning(
                '%s: %s: the BMC accepted it with the message: %s',
                at.job.target, action_descriptions.describe(action), sight.objection.text,
            )  # fmt: skip
    if sight.restored:
        return at.done()
    shown = 'it is not shown' if sight.value is None else f'it shows {sight.value!r:.200}'
    if item.before is None:
        return at.failed(f'the plan was made with {action.expects!r:.200}, but now {shown}', untouched=True)
    if at.now - item.since > patience.settle or at.now > at.job.deadline + patience.settle:
        wanted = RESTORED_TO[action.setting]
        objected = action_descriptions.objected(item)
        return at.failed(f'the BMC accepted the change to {wanted!r}, but after {patience.settle} {shown} as before{objected}')
    return at.with_item(replace(item, message='accepted by the BMC; waiting for the setting to show it'))


def _rests(at: StepContext, action: RestoreSetting) -> str | None:
    """Return what of the target rests on a setting, as the target is now: credentials may have changed since the plan."""
    match action.setting:
        case BmcSetting.ACCOUNTS:
            logins = (b.username for b in at.target.bmcs if b.username is not None)
            return 'a BMC of the target is used with this account' if resembles(action.expects, logins) else None
        case BmcSetting.IPMI_OVER_LAN | BmcSetting.SERIAL_OVER_LAN:
            over_ipmi = at.target.node.over_ipmi or any(protocol_of(b.address) is BmcProtocol.IPMI for b in at.target.bmcs)
            return 'a BMC of the target is used over IPMI' if over_ipmi else None
        case BmcSetting.HOST_INTERFACES:
            addresses = (b.address for b in at.target.bmcs if b.name == action.ref.bmc)
            return 'the BMC is used through its host interface' if any(map(is_link_local, addresses)) else None
        case _:
            return None
