# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Build the execution context of a node's job (:class:`baremetal_acc.execution.Tools`): Ironic's storage, power and
placement.
"""

import functools
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import os_traits
from ironic.common import states
from oslo_log import log

from baremetal_acc import bootstrap
from baremetal_acc.execution import Tools
from baremetal_acc.model.inventory import Inventory, PowerState
from baremetal_acc.model.job import Job
from baremetal_acc.model.job_item import Item
from baremetal_acc.model.ref import HOST, Ref
from baremetal_acc.model.verdict import Verdict
from baremetal_acc.planning.quarantine import suspects, unmended
from baremetal_acc.scheduling import regions
from baremetal_acc.scheduling.provider_traits import node_traits, room_for
from baremetal_acc.scheduling.schedulable import able, supply
from baremetal_acc_ironic import placement, settings
from baremetal_acc_ironic.periodics.workers import TurnClock
from baremetal_acc_ironic.reporting import drift, record
from baremetal_acc_ironic.state import handover, node_store, provision_state
from baremetal_acc_ironic.state.node_state import NodeState
from baremetal_acc_ironic.state.quarantine import still_bad, withheld
from baremetal_acc_ironic.state.target import shown_traits
from baremetal_acc_ironic.state.target import target as target_of
from baremetal_acc_ironic.steps import definitions

LOG = log.getLogger(__name__)

_POWER = {PowerState.ON: states.POWER_ON, PowerState.OFF: states.POWER_OFF}


def tools(
    task: Any,
    state: NodeState,
    *,
    clock: TurnClock | None = None,
    images: bool = True,
    rules: bool = True,
    save: Callable[[Job], None] | None = None,
    observed: Callable[[Inventory, Verdict], None] | None = None,
) -> Tools:
    """Build the execution context of one node.

    :param clock: of the turn that it is for.
    :param images: read the catalogue; a step that only locks continues where the catalogue is refused.
    :param rules: there must be a baseline; a step that only reads continues where there is none.
    :param save: stores a changed job.
    :param observed: called with every final inventory and its verdict.
    :raises DocumentError: baseline or catalogue is missing or wrong.
    :raises AccError: a plugin is broken.
    """
    known = settings.core()
    if images and (rules or known.baseline.exists()):
        settings.check_names()
    read = bootstrap.documents(known, images=images, rules=rules)
    for remark in read.remarks:
        _remarked(remark)
    made = bootstrap.tools(known, read)
    hooks: dict[str, Any] = {'save': save} if save is not None else {}
    if observed is not None:
        hooks['observed'] = observed
    if clock is not None:
        hooks['connect'] = clock.connecting(made.connect)
        hooks['connect_apart'] = made.connect
    return replace(
        state.tools(made),
        baseline=definitions.waived(definitions.overridden(made.baseline, state.overrides), state.waivers),
        unusable=functools.partial(unmended, state.quarantined),
        left=handover.left(task, state),
        placement=placement.shell(
            task.node.uuid,
            task.node.instance_uuid,
            lambda inventory: still_bad(state, inventory) | handover.doubted(state),
            held=lambda: node_store.held(task.node),
            # A node has an instance before its deployment begins, and keeps it where the deployment has failed.
            taken=task.node.provision_state in provision_state.TENANT_STATES or task.node.instance_uuid is not None,
            told=lambda text: provision_state.told(task.node, text),
        ),
        power_changed=lambda system, power: _power_changed(task, system, power),
        **hooks,
    )


@functools.lru_cache(maxsize=1000)
def _remarked(remark: str) -> None:
    """Log a remark once: the files are read again at each turn."""
    LOG.warning('%s', remark)


def seen(
    task: Any,
    state: NodeState,
    with_tools: Tools,
    inventory: Inventory,
    verdict: Verdict,
    *,
    by: str,
    done: Iterable[Item] = (),
) -> NodeState:
    """Report drift, and store in Ironic what was read. A failure is logged only.

    :param by: the step that read; ``done`` is what its job did before.
    :returns: the node state with the traits that are ours.
    """
    try:
        # First, since pools rely on it, and storing the rest may fail while Ironic's database is unavailable.
        state = counted(task, state, with_tools, inventory, verdict)
        state, known = drift.tell(task, state, inventory, by, done)
        return show(task, state, with_tools, inventory, known, verdict)
    except Exception:
        # A failure to store what was read does not fail what was done to the cards.
        LOG.exception('Node %s: the inventory of its accelerators could not be stored', task.node.uuid)
        return state


def show(
    task: Any,
    state: NodeState,
    with_tools: Tools,
    inventory: Inventory,
    known: Inventory,
    verdict: Verdict,
) -> NodeState:
    """Store in Ironic what was read: firmware components, capabilities, node traits.

    :mod:`baremetal_acc_ironic.steps.verdict_record` stores the inventory itself, together with the verdict.

    :param known: the inventory completed with what this read could not see: a card that may be hidden still counts.
    :returns: the node state with the traits that are ours.
    """
    node = target_of(task).node
    record.sync_firmware(task, inventory)
    record.sync_capabilities(task, known)
    verdict = _trusted(state, inventory, verdict)
    left = handover.left(task, state)
    made = supply(inventory, verdict, with_tools.baseline, node, with_tools.catalogue, left=left)
    others = shown_traits(task.node, state)
    wanted = node_traits(inventory, verdict, made.functions, made.offers, others=others)
    # An unknown trait would keep Nova from updating the node.
    strange = {t for t in os_traits.check_traits(wanted)[1] if not t.startswith('CUSTOM_')}
    fitting = room_for(wanted - strange, others)
    if fitting != wanted and fitting != state.traits:
        missing = ', '.join(sorted(wanted - fitting))
        LOG.warning(
            'Node %s has no room for these traits, so flavors that require one cannot be deployed on it: %s',
            task.node.uuid,
            missing,
        )
    traits = record.sync_traits(task, fitting, state.traits)
    return replace(state, traits=traits, looked=inventory.at)


def counted(task: Any, state: NodeState, with_tools: Tools, inventory: Inventory, verdict: Verdict) -> NodeState:
    """Return the node state with what its regions hold and can be given, for pools. Nothing is stored.

    :raises AccError: rules make an offer that cannot be made.
    """
    node, catalogue = target_of(task).node, with_tools.catalogue
    verdict = _trusted(state, inventory, verdict)
    made = supply(inventory, verdict, with_tools.baseline, node, catalogue, left=handover.left(task, state))
    can = able(inventory, with_tools.baseline, node, catalogue)
    return replace(state, regions=regions.seen(inventory, verdict, made.functions, can, state.regions))


def _trusted(state: NodeState, inventory: Inventory, verdict: Verdict) -> Verdict:
    """Return the verdict without what is quarantined, or has to be written before it can be trusted."""
    return withheld(verdict, suspects(state.quarantined, inventory) | handover.doubted(state))


def _power_changed(task: Any, system: Ref, power: PowerState) -> None:
    """Record in Ironic what a job did to the host, for Ironic's power sync; a DPU's own System does not concern Ironic."""
    if system.bmc == HOST and power in _POWER:
        node_store.held(task.node)
        task.node.power_state = _POWER[power]
        task.node.save()
