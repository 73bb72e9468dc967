# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Poll one reset: read from the BMC whether it was carried out."""

import logging

from baremetal_acc.bmc.driver import Connection
from baremetal_acc.errors import AccError, BmcUnreachable
from baremetal_acc.execution.observation import Bmcs
from baremetal_acc.model.action import Reset, ResetPurpose
from baremetal_acc.model.inventory import PowerState
from baremetal_acc.model.job import Job
from baremetal_acc.model.job_item import Item
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.planning import activation
from baremetal_acc.planning.image_selection import same_version

LOG = logging.getLogger(__name__)


def probe_reset(job: Job, item: Item, action: Reset, bmcs: Bmcs) -> bool | None:
    """Return whether a reset was carried out; None: the BMC does not answer."""
    try:
        bmc = bmcs[action.system.bmc]
        if action.kind.is_standby:
            return _cycle_came(job, item, action, bmc)
        if action.purpose is ResetPurpose.ENFORCE and action.kind is ResetKind.BMC_RESET:
            last = bmc.last_reset(action.system)
            return last not in (None, item.before) if item.before else item.silent
        if bmc.power(action.system) is not PowerState.ON:
            return False
        return item.before is None or bmc.last_reset(action.system) not in (None, item.before)
    except AccError as exc:
        LOG.info('%s', exc)
        # A BMC that is busy, or that refuses, is running: only one that cannot be reached may be restarting.
        there = action.kind.restarts_bmc and not isinstance(exc, BmcUnreachable)
        return False if there else None


def _cycle_came(job: Job, item: Item, action: Reset, bmc: Connection) -> bool:
    """Return whether the standby power of a System was cut, and its BMC is back.

    A restart of the BMC shows it. Where a person cuts the power, the firmware versions that run afterwards have to show it,
    too: the BMC may have restarted alone.

    :raises BmcError: it does not answer, or does not say.
    """
    last = None if action.manager is None else bmc.last_reset(action.manager)
    bmc.power(action.system)
    restarted = last not in (None, item.before) if item.before else item.silent
    flashes = activation.brought_in_force(job, action)
    if action.kind is not activation.BY_HAND or not flashes:
        return restarted
    runs = all(same_version(bmc.component(flash.ref).version, flash.version) for flash in flashes)
    return runs and (restarted or not item.shown)
