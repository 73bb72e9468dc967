# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Decide when a flow accepts ("takes") a node's resource class, traits, ramdisk and BMC addresses on behalf of an operator.

Ironic lets members of the projects that own or lease a node write these, so a value may be a tenant's even if the flow that
meets it is an operator's: Nova deploys, and automated cleaning runs, whoever wrote the value. Hence a value is accepted

- **by hand**: an operator who asks for ``reconcile_accelerators`` in manual cleaning or service accepts what the node shows, at
  any time (:func:`~baremetal_acc_ironic.authorization.exposure.by_hand_of_an_operator`);
- **at first**: any flow that an operator has begun accepts what nobody has accepted yet, if no tenant can have written it: no
  project owns or leases the node, and none did when a flow or periodic of ours met the node before (:attr:`NodeState.owned`,
  :attr:`NodeState.leased`).

In the usual life of a node (enrol, manage, provide) the automated cleaning accepts the class, and a project that leases the
node later changes nothing. A node that has an owner or a lessee from the start needs one reconciling by hand where rules ask
for a class or a trait. An operator is whoever belongs to neither project
(:func:`~baremetal_acc_ironic.authorization.exposure.operator`).

Ramdisk and BMC addresses of a node that has not been met with an owner are accepted by each flow of an operator, and the first
BMC addresses of any node likewise (:mod:`~baremetal_acc_ironic.authorization.ramdisk_source`,
:mod:`~baremetal_acc_ironic.authorization.bmc_source`).

While nothing was accepted, rules go by no class and by no trait, and a node on which a class or trait could select other rules
does not verify. A periodic stores that a node has an owner or a lessee, so that a lease that ended before any flow of ours is
known, too.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ironic.common import exception
from oslo_log import log

from baremetal_acc.errors import AccError
from baremetal_acc.model.job import Flow
from baremetal_acc.policy.baseline_rules import BmcRule, Rule
from baremetal_acc_ironic import opts
from baremetal_acc_ironic.authorization import bmc_source, exposure, ramdisk_source
from baremetal_acc_ironic.state import node_store
from baremetal_acc_ironic.state.node_state import NodeState
from baremetal_acc_ironic.steps.definitions import Step

LOG = log.getLogger(__name__)

EMPTY_ASKS_FOR_NOTHING = frozenset({'firmware', 'revocations', 'functions', 'block', 'count', 'security_floor'})
ASKS = frozenset({'accept', 'on_missing', 'on_drift', 'measure', 'custody', 'takes', 'bmc_users', 'sriov', 'dpu_mode'})
LESSENS = frozenset({'downgrade', 'waiver', 'tenants_program', 'offer', 'offer_class', 'on_leave'})
"""The keys of a baseline rule by what they may do to a node that does not match the rule; ``name`` and ``match`` are left
out."""


def takes(task: Any, state: NodeState, step: Step, flow: Flow, *, known: bool) -> bool:
    """Whether a step accepts the value that the node has now.

    :param known: a value was accepted before.
    """
    if exposure.by_hand_of_an_operator(task, state, step, flow):
        return True
    return not known and not tenants_met(task.node, state) and exposure.operator(task, state, flow)


def with_ramdisk(task: Any, state: NodeState, step: Step, flow: Flow) -> NodeState:
    """Return the state with the ramdisk that a step accepts (:mod:`~baremetal_acc_ironic.authorization.ramdisk_source`);
    stored at once.
    """
    node = task.node
    now = ramdisk_source.digest(node)
    owner = met(state, node).owned
    by_hand = exposure.by_hand_of_an_operator(task, state, step, flow)
    if now == state.ramdisk or not (by_hand or (not owner and exposure.operator(task, state, flow))):
        return state
    node_store.store(node, replace(node_store.load(node), ramdisk=now))
    return replace(state, ramdisk=now)


def with_bmcs(task: Any, state: NodeState, step: Step, flow: Flow) -> NodeState:
    """Return the state with the BMCs that a step accepts (:mod:`~baremetal_acc_ironic.authorization.bmc_source`); stored at
    once.
    """
    node = task.node
    now = bmc_source.digest(node)
    open_to_all = state.bmcs is None or not met(state, node).owned
    by_hand = exposure.by_hand_of_an_operator(task, state, step, flow)
    if now == state.bmcs or not (by_hand or (open_to_all and exposure.operator(task, state, flow))):
        return state
    node_store.store(node, replace(node_store.load(node), bmcs=now))
    return replace(state, bmcs=now)


def tenants_met(node: Any, state: NodeState) -> bool:
    """Whether a project owns or leases the node, or did when a flow or periodic of ours met it."""
    now = met(state, node)
    return now.owned or now.leased


def met(state: NodeState, node: Any) -> NodeState:
    """Return the node state with the fact that a project owns or leases the node now."""
    return replace(state, owned=state.owned or node.owner is not None, leased=state.leased or node.lessee is not None)


def noted(node: Any, state: NodeState) -> NodeState:
    """Do as :func:`met`, and store it at once if it is new."""
    if met(state, node) == state:
        return state
    node_store.store(node, met(node_store.load(node), node))
    return met(state, node)


def asks_for_more(rule: Rule | BmcRule) -> bool:
    """Whether a node that does not match the rule may have less asked of it."""
    if isinstance(rule, BmcRule):
        return True
    return any(getattr(rule, key) for key in EMPTY_ASKS_FOR_NOTHING) or any(getattr(rule, key) is not None for key in ASKS)


# ------------------------------------------------------------------------------------------------------------ the periodic


def unmet(manager: Any) -> Iterator[str]:
    """Yield this conductor's nodes that a project owns or leases without that being stored yet."""
    for uuid, _driver, _group, name, info, owner, lessee in manager.iter_nodes(
        fields=['firmware_interface', 'driver_internal_info', 'owner', 'lessee']
    ):
        now = {what for what, project in (('owned', owner), ('leased', lessee)) if project is not None}
        if name in opts.HARDWARE_TYPES and now and not now <= node_store.projects_met(info):
            yield uuid


def keep(task: Any) -> None:
    """Store that a project owns or leases the node. The task holds the node exclusively."""
    try:
        noted(task.node, node_store.load(task.node))
    except exception.NodeNotFound:
        LOG.info('Node %s was deleted', task.node.uuid)
    except AccError as exc:
        LOG.warning('Node %s: %s', task.node.uuid, exc)
