# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""When must nobody switch a host? While cards are written; and for somebody else's code while locks are open or cards spoilt.

Ironic's API lets tenants switch a node that waits in a service step, and lets it be undeployed; a host that is powered on then
reaches open cards, and one that is cut off may spoil a card that is being written.
"""

from http import HTTPStatus
from typing import Any

from ironic.common import exception, states
from ironic.conductor import task_manager
from ironic.drivers import base
from ironic.drivers.modules.ipmitool import IPMIPower
from ironic.drivers.modules.redfish.power import RedfishPower
from oslo_log import log

from baremetal_acc.decide.advance import current
from baremetal_acc.errors import StaleJob
from baremetal_acc.model.job import Flow
from baremetal_acc_ironic import node as memory
from baremetal_acc_ironic import policy, quarantine
from baremetal_acc_ironic.node import Memory
from baremetal_acc_ironic.outcome import TENANT_STATES
from baremetal_acc_ironic.recovery import STATES

LOG = log.getLogger(__name__)

_OFF = (states.POWER_OFF, states.SOFT_POWER_OFF)


class PowerRefused(exception.IronicException):
    """A power request that would do harm."""

    code = HTTPStatus.CONFLICT


class AccPower(base.PowerInterface):
    """These refusals, over the power of Ironic."""

    def get_power_state(self, task: Any) -> str | None:
        """What the BMC says; while a job works on the node, what the job last did, so that nobody corrects it meanwhile."""
        mind = _mind(task)
        if mind is not None and mind.writing and task.node.power_state is not None:
            return str(task.node.power_state)
        state = super().get_power_state(task)
        return None if state is None else str(state)

    @task_manager.require_exclusive_lock
    def set_power_state(self, task: Any, power_state: str, timeout: int | None = None) -> None:
        """Switch the host.

        :raises PowerRefused: not now; says why and until when.
        """
        if power_state in _OFF and task.node.power_state == states.POWER_OFF and _writing(task):
            return  # it is off already, because the job holds it so
        _refuse(task, power_state)
        super().set_power_state(task, power_state, timeout=timeout)

    @task_manager.require_exclusive_lock
    def reboot(self, task: Any, timeout: int | None = None) -> None:
        """Restart the host.

        :raises PowerRefused: not now; says why and until when.
        """
        _refuse(task, states.REBOOT)
        super().reboot(task, timeout=timeout)


class RedfishAccPower(AccPower, RedfishPower):
    """Ironic's Redfish power with these refusals."""


class IpmiAccPower(AccPower, IPMIPower):
    """Ironic's IPMI power, by ``ipmitool``, with these refusals."""


def _mind(task: Any) -> Memory | None:
    """What is remembered; None if it cannot be read."""
    try:
        return memory.load(task.node)
    except StaleJob as exc:
        LOG.warning('%s', exc)
        return None


def _writing(task: Any) -> bool:
    mind = _mind(task)
    return mind is not None and mind.writing


def _for_somebody_else(task: Any) -> bool:
    """The host would run somebody else's code; between deploys, what the project that leases the node has left to be booted."""
    state = task.node.provision_state
    return state in TENANT_STATES or (state in STATES and policy.as_lessee(task))


def _refuse(task: Any, power_state: str) -> None:
    node = task.node
    mind = _mind(task)
    if mind is None:
        if power_state not in _OFF:
            raise PowerRefused(f'node {node.uuid}: {power_state} is refused: what is under way on its accelerators is unknown')
        return
    job = mind.job
    if job is not None and mind.writing:
        at = current(job)
        raise PowerRefused(
            f'node {node.uuid}: {power_state} is refused: {job.step.split("#", 1)[0]} works on its accelerators '
            f'(stage {"end" if at is None else at.name.lower()}, since {job.created:%Y-%m-%d %H:%M:%S} UTC, '
            f'until {job.deadline:%Y-%m-%d %H:%M:%S} UTC at the latest)'
        )
    if power_state in _OFF or not _for_somebody_else(task):
        return
    if mind.opened is not None:
        raise PowerRefused(
            f'node {node.uuid}: {power_state} is refused: locks of its accelerators are open since '
            f'{mind.opened.since:%Y-%m-%d %H:%M:%S} UTC ({mind.opened.why}); service the node with lock_accelerators first'
        )
    if mind.quarantined:
        raise PowerRefused(
            f'node {node.uuid}: {power_state} is refused: {"; ".join(quarantine.reasons(mind))} '
            f'(first {quarantine.WAY_BACK[Flow.SERVICE]})'
        )
