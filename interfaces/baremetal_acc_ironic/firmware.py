# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The Ironic firmware interfaces ``redfish-acc`` and ``ipmi-acc``: their steps and their periodic tasks.

Both have the same steps and periodics. ``redfish-acc`` is built on Ironic's own Redfish firmware interface, whose step
``update`` still updates BIOS, BMC and NICs; Ironic has no such interface for IPMI. None of our steps needs a ramdisk, and none
that writes can be aborted half way. Nothing sleeps here: a step returns a wait state, and a periodic continues its job.
"""

import functools
from collections.abc import Callable
from datetime import timedelta
from importlib import metadata
from typing import Any, ClassVar, TypeVar, cast

from ironic.common import exception, metrics_utils, states
from ironic.drivers import base
from ironic.drivers.modules import ipmitool
from ironic.drivers.modules.redfish.firmware import RedfishFirmware
from oslo_log import log

from baremetal_acc import bootstrap, execution
from baremetal_acc.config.options import GROUP
from baremetal_acc.errors import AccError, DocumentError
from baremetal_acc.model.job import Flow
from baremetal_acc_ironic import compat, opts, placement_setup, settings
from baremetal_acc_ironic.authorization import accepted_values, interface_overrides, policy, rights, step_rules
from baremetal_acc_ironic.periodics import availability, deny_list, recovery, watch
from baremetal_acc_ironic.periodics.workers import with_jobs, workers
from baremetal_acc_ironic.reporting import drift, record
from baremetal_acc_ironic.state import node_store, proof, provision_state
from baremetal_acc_ironic.state.target import PROPERTIES
from baremetal_acc_ironic.state.target import target as target_of
from baremetal_acc_ironic.steps import (
    accept_custody,
    allow_start,
    definitions,
    read_only,
    runner,
    step_preparation,
    verdict_record,
    waivers,
    wall_clock,
)
from baremetal_acc_ironic.steps.job_context import tools as tools_of

LOG = log.getLogger(__name__)
METRICS = metrics_utils.get_metrics_logger(__name__)

RECONCILE_PRIORITY = 90
"""Priority in automated cleaning; ``[conductor] clean_step_priority_override = firmware.reconcile_accelerators:N`` changes
it."""

LOCK_PRIORITY = 120
VERIFY_PRIORITY = 110
"""Priorities in a deploy. Above 100, where Ironic images the node and boots its agent: below, we would power off the agent's
ramdisk."""


IN_TREE = 'redfish'
"""Name of Ironic's own firmware interface."""

FRESH = timedelta(minutes=1)
"""Ironic asks for the versions at the end of every flow, when our own step has just read the node. A full read of a large
machine takes up to a minute and costs its BMC hundreds of requests."""


def _poll_interval() -> float:
    return settings.core().poll_interval.total_seconds()


Method = TypeVar('Method', bound=Callable[..., Any])


def timed(method: Method) -> Method:
    """Time a method by a metric that is named after the interface, such as ``RedfishAccFirmware.turn_jobs``."""

    @functools.wraps(method)
    def wrapped(self: Any, *arguments: Any, **named: Any) -> Any:
        return METRICS.timer(f'{type(self).__name__}.{method.__name__}')(method)(self, *arguments, **named)

    return cast(Method, wrapped)


class AccFirmware(base.FirmwareInterface):
    """Firmware interface for accelerators: steps on their firmware, functions and locks, and periodic tasks.

    :cvar hardware_type: the hardware type that it belongs to; the interface has the same name.
    """

    hardware_type: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        try:
            settings.check()
        except DocumentError as exc:
            raise exception.DriverLoadError(driver=self.hardware_type, reason=str(exc)) from exc
        compat.resolve_spacings(self)
        known, theirs = settings.core(), settings.guest()
        for name, text in policy.shortcomings():
            if not policy.is_accepted(name):
                raise exception.DriverLoadError(
                    driver=self.hardware_type,
                    reason=f'{text} (or add {name} to [{GROUP}] accepted_misconfigurations to accept this)',
                )
            LOG.warning('%s (accepted by [%s] accepted_misconfigurations)', text, GROUP)
        LOG.info('%s', step_rules.who_checks())
        installed = {e.name for e in metadata.entry_points(group='ironic.hardware.interfaces.deploy')}
        unknown = sorted(theirs.tenant_deploy_interfaces - installed)
        if unknown:
            raise exception.DriverLoadError(
                driver=self.hardware_type,
                reason=(
                    f'[{GROUP}] tenant_deploy_interfaces: Ironic has no deploy interface {", ".join(map(repr, unknown))} '
                    f'(installed: {", ".join(sorted(installed))})'
                ),
            )
        if known.certificate_key is None:
            LOG.warning('[%s] certificate_key is not set: no node will be deployed for a tenant', GROUP)

    def validate(self, task: Any) -> None:
        """Check what can be checked without a BMC: driver_info, baseline and catalogue.

        :raises InvalidParameterValue: a value is wrong; names where.
        :raises MissingParameterValue: a value is missing.
        """
        rights.noted(task)
        super().validate(task)
        try:
            target_of(task)
            settings.check_names()
            bootstrap.documents(settings.core())
        except AccError as exc:
            raise exception.InvalidParameterValue(str(exc)) from exc
        keys = interface_overrides.standing(task.node.instance_info)
        if keys:
            raise exception.InvalidParameterValue(f'node {task.node.uuid}: {interface_overrides.text(keys)}')

    # ------------------------------------------------------------------------------------------------------------- steps

    @timed
    @base.clean_step(
        priority=RECONCILE_PRIORITY, abortable=False, argsinfo=definitions.RECONCILE.argsinfo, requires_ramdisk=False
    )
    @base.service_step(priority=0, abortable=False, argsinfo=definitions.RECONCILE.argsinfo, requires_ramdisk=False)
    def reconcile_accelerators(self, task: Any, **arguments: Any) -> str | None:
        """Bring firmware, functions, locks and placement of the node to the baseline."""
        return runner.start(task, definitions.RECONCILE, arguments)

    @timed
    @base.clean_step(priority=0, abortable=False, argsinfo=definitions.INVENTORY.argsinfo, requires_ramdisk=False)
    @base.service_step(priority=0, abortable=False, argsinfo=definitions.INVENTORY.argsinfo, requires_ramdisk=False)
    def inventory_accelerators(self, task: Any, **arguments: Any) -> None:
        """Read the inventory, store it, and report what has changed."""
        definitions.INVENTORY.arguments(arguments)
        read_only.take_stock(task, definitions.INVENTORY.name)

    @timed
    @base.clean_step(priority=0, abortable=False, argsinfo=definitions.VERIFY.argsinfo, requires_ramdisk=False)
    @compat.deploy_step(priority=VERIFY_PRIORITY, abortable=False, argsinfo=definitions.VERIFY.argsinfo)
    @base.service_step(priority=0, abortable=False, argsinfo=definitions.VERIFY.argsinfo, requires_ramdisk=False)
    def verify_accelerators(self, task: Any, **arguments: Any) -> None:
        """Compare the node with the baseline; a deploy fails unless everything is proven."""
        definitions.VERIFY.arguments(arguments)
        read_only.verify(task)

    @timed
    @base.clean_step(priority=0, abortable=False, argsinfo=definitions.UNLOCK.argsinfo, requires_ramdisk=False)
    @base.service_step(priority=0, abortable=False, argsinfo=definitions.UNLOCK.argsinfo, requires_ramdisk=False)
    def unlock_accelerators(self, task: Any, **arguments: Any) -> str | None:
        """Release locks. Until they are engaged again no verification passes, and the host is not powered on."""
        return runner.start(task, definitions.UNLOCK, arguments)

    @timed
    @base.clean_step(priority=0, abortable=False, argsinfo=definitions.LOCK.argsinfo, requires_ramdisk=False)
    @compat.deploy_step(priority=LOCK_PRIORITY, abortable=False, argsinfo=definitions.LOCK.argsinfo)
    @base.service_step(priority=0, abortable=False, argsinfo=definitions.LOCK.argsinfo, requires_ramdisk=False)
    def lock_accelerators(self, task: Any, **arguments: Any) -> str | None:
        """Engage locks and read them back."""
        return runner.start(task, definitions.LOCK, arguments)

    @timed
    @base.clean_step(priority=0, abortable=False, argsinfo=definitions.UPDATE.argsinfo, requires_ramdisk=False)
    @compat.deploy_step(priority=0, abortable=False, argsinfo=definitions.UPDATE.argsinfo)
    @base.service_step(priority=0, abortable=False, argsinfo=definitions.UPDATE.argsinfo, requires_ramdisk=False)
    def update_accelerator_firmware(self, task: Any, **arguments: Any) -> str | None:
        """Write firmware that is not at the baseline, then engage the locks."""
        return runner.start(task, definitions.UPDATE, arguments)

    @timed
    @base.clean_step(priority=0, abortable=False, argsinfo=definitions.PROGRAM.argsinfo, requires_ramdisk=False)
    @compat.deploy_step(priority=0, abortable=False, argsinfo=definitions.PROGRAM.argsinfo)
    @base.service_step(priority=0, abortable=False, argsinfo=definitions.PROGRAM.argsinfo, requires_ramdisk=False)
    def program_accelerators(self, task: Any, **arguments: Any) -> str | None:
        """Program functions into slots, then engage the locks."""
        return runner.start(task, definitions.PROGRAM, arguments)

    @timed
    @base.clean_step(priority=0, abortable=False, argsinfo=definitions.PUBLISH.argsinfo, requires_ramdisk=False)
    @base.service_step(priority=0, abortable=False, argsinfo=definitions.PUBLISH.argsinfo, requires_ramdisk=False)
    def publish_accelerators(self, task: Any, **arguments: Any) -> str | None:
        """Update placement to what is verified on the node."""
        return runner.start(task, definitions.PUBLISH, arguments)

    @timed
    @base.clean_step(priority=0, abortable=False, argsinfo=definitions.WAIVE.argsinfo, requires_ramdisk=False)
    @base.service_step(priority=0, abortable=False, argsinfo=definitions.WAIVE.argsinfo, requires_ramdisk=False)
    def waive_accelerator_locks(self, task: Any, **arguments: Any) -> None:
        """Let write paths that no mechanism blocks stay open until a date; this is reported."""
        waivers.waive(task, arguments)

    @timed
    @base.clean_step(priority=0, abortable=False, argsinfo=definitions.ALLOW_START.argsinfo, requires_ramdisk=False)
    def allow_host_start(self, task: Any, **arguments: Any) -> None:
        """Allow the host of a free node to be powered on until a date although nothing is proven."""
        allow_start.allow(task, arguments)

    @timed
    @base.clean_step(priority=0, abortable=False, argsinfo=definitions.ACCEPT.argsinfo, requires_ramdisk=False)
    def accept_accelerator_custody(self, task: Any, **arguments: Any) -> None:
        """Begin the chains of custody of cards on an operator's word, until a date."""
        accept_custody.accept(task, arguments)

    def get_clean_steps(self, task: Any) -> list[Any]:
        """Return our steps; refuse a cleaning with steps that whoever began it may not run.

        :raises StepRefused: one of its steps is for the operator only.
        """
        rights.permit_all(task, Flow.CLEAN)
        return list(super().get_clean_steps(task))

    def get_service_steps(self, task: Any) -> list[Any]:
        """Return our steps; refuse a service with steps that whoever began it may not run.

        :raises StepRefused: one of its steps is for the operator only.
        """
        rights.permit_all(task, Flow.SERVICE)
        return list(super().get_service_steps(task))

    def get_deploy_steps(self, task: Any) -> list[Any]:
        """Return our steps; refuse a deploy without verification, or with steps that whoever began it may not run.

        :raises InstanceDeployFailure: an argument, a deploy template or Ironic's configuration leaves the verification out, a
            step would run before it, or a step is for the operator only.
        """
        rights.noted_deploy(task)
        if task.node.provision_state in (states.DEPLOYING, states.DEPLOYWAIT):
            try:
                rights.permit_all(task, Flow.DEPLOY)
            except rights.StepRefused as exc:
                raise exception.InstanceDeployFailure(str(exc)) from exc
            rights.forget_proof(task)
            early = read_only.before_verification(task, VERIFY_PRIORITY)
            if early:
                raise exception.InstanceDeployFailure(
                    f'node {task.node.name or task.node.uuid}: {", ".join(early)} would run before {definitions.VERIFY.name}, '
                    f'while no lock is proven (give each a lower priority than {definitions.VERIFY.name})'
                )
            why = read_only.left_out(task)
            if why is not None:
                raise exception.InstanceDeployFailure(
                    f'node {task.node.name or task.node.uuid}: {definitions.VERIFY.name} is left out of this deploy by {why}; '
                    'without it no lock is proven'
                )
        return list(super().get_deploy_steps(task))

    def execute_clean_step(self, task: Any, step: Any) -> Any:
        """Run a step if whoever began the flow may run it."""
        rights.permit(task, Flow.CLEAN, [step])
        return super().execute_clean_step(task, step)

    def execute_deploy_step(self, task: Any, step: Any) -> Any:
        """Run a step if whoever began the flow may run it."""
        rights.permit(task, Flow.DEPLOY, [step])
        return super().execute_deploy_step(task, step)

    def execute_service_step(self, task: Any, step: Any) -> Any:
        """Run a step if whoever began the flow may run it."""
        rights.permit(task, Flow.SERVICE, [step])
        return super().execute_service_step(task, step)

    # --------------------------------------------------------------------------------------------------------- periodics

    @timed
    @compat.periodic(spacing=_poll_interval)
    def turn_jobs(self, manager: Any, context: Any) -> None:
        """Advance the jobs of waiting nodes, each in a worker of its own: a slow BMC delays no other node."""
        ours = workers(manager)
        if ours.led_by(self):
            nodes = with_jobs(manager, (states.CLEANWAIT, states.DEPLOYWAIT, states.SERVICEWAIT))
            ours.hand_out(manager, context, nodes, runner.turn, 'the next turn of a job on accelerators')

    @timed
    @compat.periodic(spacing=_poll_interval)
    def recover_jobs(self, manager: Any, context: Any) -> None:
        """Recover jobs whose step is gone, of nodes in maintenance too."""
        ours = workers(manager)
        if ours.led_by(self):
            nodes = with_jobs(manager, recovery.STATES)
            ours.hand_out(manager, context, nodes, recovery.recover, 'the recovery of an interrupted job')

    @timed
    @compat.periodic(spacing=watch.tick)
    def watch_nodes(self, manager: Any, context: Any) -> None:
        """Begin the watch rounds that are due, over deployed and unused nodes."""
        if workers(manager).led_by(self):
            watch.hand_out(manager, context, wall_clock.now())

    @timed
    @compat.periodic(spacing=_poll_interval)
    def keep_vocabulary(self, manager: Any, context: Any) -> None:
        """Make sure that placement has the resource classes and traits that flavors may name."""
        if workers(manager).led_by(self):
            placement_setup.keep(manager)

    @timed
    @compat.periodic(spacing=availability.tick)
    def tell_fitness(self, manager: Any, context: Any) -> None:
        """Withdraw from placement what unavailable nodes offer, and publish it again once they are available."""
        if workers(manager).led_by(self):
            availability.hand_out(manager, context, wall_clock.now())

    @timed
    @compat.periodic(spacing=deny_list.tick)
    def apply_deny_list(self, manager: Any, context: Any) -> None:
        """Withdraw from placement what the deny list of the catalogue means, and publish it again once it does not."""
        if workers(manager).led_by(self):
            deny_list.hand_out(manager, context)

    @timed
    @compat.periodic(spacing=lambda: max(interface_overrides.INTERVAL, _poll_interval()))
    def remove_interface_overrides(self, manager: Any, context: Any) -> None:
        """Remove ``instance_info`` keys that replace a node's own interfaces."""
        if workers(manager).led_by(self):
            interface_overrides.remove_from_nodes(manager, context)

    @timed
    @compat.periodic(spacing=_poll_interval)
    def end_proofs(self, manager: Any, context: Any) -> None:
        """Forget what was proven for a deployment once the deployment is over."""
        ours = workers(manager)
        if ours.led_by(self):
            ours.hand_out(manager, context, proof.over(manager), proof.end, 'the removal of the proof of an ended deployment')

    @timed
    @compat.periodic(spacing=_poll_interval)
    def keep_projects(self, manager: Any, context: Any) -> None:
        """Store that a project owns or leases a node: values that it may have written are then accepted only by hand."""
        ours = workers(manager)
        if ours.led_by(self):
            ours.hand_out(
                manager, context, accepted_values.unmet(manager), accepted_values.keep, 'the record of an owner or lessee'
            )

    # ------------------------------------------------------------------------------------------------------------- cache

    @timed
    def cache_firmware_components(self, task: Any) -> None:
        """Store the versions of BIOS, BMC and NICs as Ironic does, and those of accelerators.

        A failure of one does not stop the other. Ironic calls this at the beginning and at the end of a flow and after an
        in-band inspection, which has then replaced our part of the inspection store. So the inventory that is read here is
        stored, and what has changed is reported.
        """
        try:
            super().cache_firmware_components(task)
        except exception.UnsupportedDriverExtension:
            LOG.info('Node %s: its firmware interface reads no versions of BIOS, BMC or NICs', task.node.uuid)
        try:
            state = node_store.load(task.node)
            fresh = state.looked is not None and wall_clock.now() - state.looked < FRESH
            if fresh and (settings.ironic().inventory_backend == 'none' or record.kept(task, state) is not None):
                return
            if state.handed is not None and provision_state.FLOWS.get(task.node.provision_state) is Flow.CLEAN:
                return  # a step powers off the host of a returned node first, and reads the inventory then
            tools = tools_of(task, state)
            inventory = execution.observe(target_of(task), tools, wall_clock.now())
            state = drift.looked(task, state, inventory, drift.CACHE, step_preparation.done(state))
        except AccError as exc:
            LOG.warning('Node %s: versions of accelerators could not be read: %s', task.node.uuid, exc)
        else:
            record.sync_firmware(task, inventory)
            node_store.store(task.node, verdict_record.reread(task, state, tools, inventory))


class RedfishAccFirmware(AccFirmware, RedfishFirmware):
    """Firmware interface of nodes whose host has a Redfish BMC."""

    hardware_type = opts.REDFISH_ACC

    def __init__(self) -> None:
        super().__init__()
        if IN_TREE in settings.ironic().firmware_interfaces:
            compat.leave_periodics_to(self, RedfishFirmware)

    def get_properties(self) -> dict[str, str]:
        """Describe the keys of ``driver_info``."""
        return dict(super().get_properties()) | PROPERTIES


class IpmiAccFirmware(AccFirmware):
    """Firmware interface of nodes whose host has an IPMI BMC. Ironic has no firmware interface for these."""

    hardware_type = opts.IPMI_ACC

    def get_properties(self) -> dict[str, str]:
        """Describe the keys of ``driver_info``."""
        return dict(ipmitool.COMMON_PROPERTIES) | PROPERTIES

    def update(self, task: Any, settings: Any) -> None:
        """Refuse Ironic's own update of BIOS, BMC and NICs; it is no step of this interface.

        :raises UnsupportedDriverExtension: always; ``update_accelerator_firmware`` is the step that writes firmware.
        """
        raise exception.UnsupportedDriverExtension(driver=task.node.driver, extension='firmware.update')
