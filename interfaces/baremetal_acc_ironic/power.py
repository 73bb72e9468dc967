# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The Ironic power interfaces ``redfish-acc`` and ``ipmi-acc``: Ironic's own, but a host starts only if the gate allows it.

Ironic's API lets members of the project that leases a node switch its host in nearly every provision state, and so do flows
that such a project begins. All of these pass through here: power on, reboots, the power synchronisation, and Ironic's own
flows.
"""

from http import HTTPStatus
from typing import Any

from ironic.common import exception, states
from ironic.conductor import task_manager
from ironic.drivers import base
from ironic.drivers.modules import agent_base, boot_mode_utils
from ironic.drivers.modules.ansible.deploy import AnsibleDeploy
from ironic.drivers.modules.ipmitool import IPMIPower
from ironic.drivers.modules.redfish.power import RedfishPower
from oslo_log import log

from baremetal_acc_ironic.authorization import interface_overrides, ramdisk_source, requester
from baremetal_acc_ironic.host_power import gate, host_start, left_off
from baremetal_acc_ironic.host_power.gate import Obstacle, Reason, StartRefused
from baremetal_acc_ironic.host_power.host_start import STARTING
from baremetal_acc_ironic.state import proof, provision_state

LOG = log.getLogger(__name__)

_OFF = frozenset({states.POWER_OFF, states.SOFT_POWER_OFF})

_POWER_REQUEST = 'changing node power state'
"""Purpose of Ironic's task for a power request: only then is the interface validated for power on and power off alike. Source:
ironic 39.0.0, conductor/manager.py, change_node_power_state."""

_UNDEPLOY = 'node tear down'
"""Purpose of Ironic's task for an undeploy, which begins with a validation of this interface, whatever others the node has.
Source: ironic 32.1.0 and 39.0.0, conductor/manager.py, do_node_tear_down."""

MANAGED_INSPECTION = 'inspector_manage_boot'
"""Key of driver_internal_info: Ironic boots the ramdisk of an inspection itself. Source: ironic 39.0.0,
drivers/modules/inspector/interface.py."""


class PowerRefused(exception.IronicException):
    """A power request that is refused: by the gate, while a job writes, or because its power state is unknown."""

    code = HTTPStatus.CONFLICT


class AccPower(base.PowerInterface):
    """Power interface that asks the gate before Ironic's own power interface."""

    def validate(self, task: Any) -> None:
        """Check what Ironic checks, and that no interface of the node is replaced. When an undeploy begins, record that.

        The second check is left out for a power request, so that no power-off is refused for it.

        :raises InvalidParameterValue: ``instance_info`` replaces an interface.
        """
        super().validate(task)
        purpose = getattr(task, '_purpose', None)
        keys = interface_overrides.standing(task.node.instance_info)
        if keys and purpose != _POWER_REQUEST:
            raise exception.InvalidParameterValue(f'node {task.node.uuid}: {interface_overrides.text(keys)}')
        if purpose == _UNDEPLOY:
            proof.undeploy_begins(task)

    def get_power_state(self, task: Any) -> str | None:
        """Return the power state that the BMC reports; while a job writes, the one that Ironic has recorded.

        The job records what it does to the host, so that the power synchronisation corrects nothing meanwhile.
        """
        state = host_start.remembered(task.node)
        if state is not None and state.writing and task.node.power_state is not None:
            return str(task.node.power_state)
        power_state = super().get_power_state(task)
        return None if power_state is None else str(power_state)

    def get_supported_power_states(self, task: Any) -> list[str]:
        """Return Ironic's power states without those that the gate refuses now: the API then answers 400."""
        found = [str(state) for state in super().get_supported_power_states(task)]
        return [s for s in found if s not in STARTING or not isinstance(gate.decide(_situation(task, s)), StartRefused)]

    def supports_power_sync(self, task: Any) -> bool:
        """Whether Ironic may force the power state that it has recorded, rather than record the present one.

        A host that went off by itself stays off if nothing allows it to be started, and that is no fault of the node.
        """
        refused = task.node.power_state == states.POWER_ON and isinstance(
            gate.decide(_situation(task, states.POWER_ON)), StartRefused
        )
        return bool(super().supports_power_sync(task)) and not refused

    @task_manager.require_exclusive_lock
    def set_power_state(self, task: Any, power_state: str, timeout: int | None = None) -> None:
        """Power the host on or off, or restart it.

        :raises PowerRefused: the request is not allowed now; says why and what to do.
        """
        reason = None
        if power_state in STARTING:
            reason = _reason(task, power_state)
        elif power_state in _OFF:
            if _held_off(task):
                return
            _refuse_while_writing(task, power_state)
            left_off.woke(task, super().get_power_state(task))
        else:
            raise PowerRefused(f'node {task.node.uuid}: unknown power state {power_state!r}')
        if reason is not None:
            _note(task, power_state, reason)
            provision_state.host_starts(task.node)
        super().set_power_state(task, power_state, timeout=timeout)
        if power_state in _OFF:
            left_off.note(task)

    @task_manager.require_exclusive_lock
    def reboot(self, task: Any, timeout: int | None = None) -> None:
        """Restart the host.

        :raises PowerRefused: the restart is not allowed now; says why and what to do.
        """
        reason = _reason(task, states.REBOOT)
        _note(task, states.REBOOT, reason)
        provision_state.host_starts(task.node)
        super().reboot(task, timeout=timeout)


class RedfishAccPower(AccPower, RedfishPower):
    """Ironic's Redfish power interface, behind the gate."""


class IpmiAccPower(AccPower, IPMIPower):
    """Ironic's IPMI power interface (``ipmitool``), behind the gate."""


def _situation(task: Any, power_state: str) -> gate.Situation:
    node = task.node
    state = host_start.remembered(node)
    boots = state is not None and _boots_ramdisk(task, power_state)
    accepted = state is not None and ramdisk_source.trusted(node, state)
    return host_start.situation(
        node,
        requester.of(task.context),
        # The boot mode is read from the BMC, and only where the answer depends on it.
        ramdisk=boots and accepted and not _changes_boot_mode(task),
        other_ramdisk=boots and not accepted,
    )


def _boots_ramdisk(task: Any, power_state: str) -> bool:
    """Whether Ironic has set the boot source to its ramdisk, in a flow in which no tenant has the node.

    In cleaning Ironic boots its ramdisk by a reboot. It powers a host on there only for the sake of a Smart NIC, into the
    firmware set-up. A host that it may not power off it reboots once more after the ramdisk was torn down. Source: ironic
    39.0.0, conductor/utils.py, power_on_node_if_needed; drivers/modules/deploy_utils.py, prepare_inband_cleaning.
    """
    node = task.node
    info = node.driver_internal_info
    if node.provision_state == states.INSPECTING:
        return bool(info.get(MANAGED_INSPECTION))
    reboots = power_state == states.REBOOT and not node.disable_power_off
    return reboots and _prepares_ramdisk(task) and not info.get('cleaning_disable_ramdisk')


def _prepares_ramdisk(task: Any) -> bool:
    """Whether the deploy interface sets the boot source to the ramdisk in cleaning: it can, and the operator lets it."""
    match task.driver.deploy:
        case agent_base.AgentBaseMixin() as deploy:
            return bool(deploy.should_manage_boot(task))
        case AnsibleDeploy():
            return True
        case _:
            return False


def _changes_boot_mode(task: Any) -> bool:
    """Whether Ironic restarts the host to change its boot mode, which it does before it sets the boot source.

    A host whose boot mode cannot be read is not restarted for it. Source: ironic 39.0.0, drivers/modules/redfish/management.py,
    set_boot_mode; drivers/modules/boot_mode_utils.py, sync_boot_mode.
    """
    wanted = boot_mode_utils.get_boot_mode_for_deploy(task.node)
    try:
        found = task.driver.management.get_boot_mode(task)
    except exception.UnsupportedDriverExtension:
        return False
    return None not in (wanted, found) and wanted != found


def _reason(task: Any, power_state: str) -> Reason:
    """Return the reason for which the host may be started.

    :raises PowerRefused: there is none.
    """
    situation = _situation(task, power_state)
    found = gate.decide(situation)
    if isinstance(found, StartRefused):
        raise PowerRefused(host_start.text(task.node, power_state, situation, found))
    LOG.info('Node %s: %s: %s', task.node.uuid, power_state, found)
    return found


def _note(task: Any, power_state: str, reason: Reason) -> None:
    """Record what follows from a start, before the host is started."""
    if reason is not Reason.PROVEN:
        left_off.starts(task)
    host_start.note(task, power_state, reason)


def _held_off(task: Any) -> bool:
    """Whether the host is off already, because the job that writes holds it off."""
    state = host_start.remembered(task.node)
    return state is not None and state.writing and task.node.power_state == states.POWER_OFF


def _refuse_while_writing(task: Any, power_state: str) -> None:
    """Do not cut the power of cards that are being written.

    :raises PowerRefused: a job writes.
    """
    situation = _situation(task, power_state)
    if situation.state is not None and situation.state.writing:
        raise PowerRefused(host_start.text(task.node, power_state, situation, StartRefused(obstacles=(Obstacle.WRITING,))))
