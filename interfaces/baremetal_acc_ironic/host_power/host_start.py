# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Collect the facts by which the gate decides on a host start of an Ironic node, and build the texts of its refusals.

The facts come from the node as the database has it, so that Ironic's API can ask as well. Only the conductor knows whether
Ironic boots a ramdisk next; the API takes no power request in the states in which that counts.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from ironic.common import states
from oslo_log import log

from baremetal_acc.errors import StaleJob
from baremetal_acc.model.job import Flow
from baremetal_acc.planning.job_transitions import current
from baremetal_acc.render import troubles
from baremetal_acc_ironic.authorization import interface_overrides, ramdisk_source, requester
from baremetal_acc_ironic.authorization.requester import Requester
from baremetal_acc_ironic.host_power import gate
from baremetal_acc_ironic.host_power.gate import Obstacle, Reason, Situation, StartRefused
from baremetal_acc_ironic.state import node_store, provision_state, quarantine
from baremetal_acc_ironic.state.node_state import NodeState
from baremetal_acc_ironic.steps import definitions

LOG = log.getLogger(__name__)

STARTING = frozenset({states.POWER_ON, states.REBOOT, states.SOFT_REBOOT})
"""Power states of Ironic's API that start a host or restart it."""


def remembered(node: Any) -> NodeState | None:
    """Load the node state; None if it cannot be read."""
    try:
        return node_store.load(node)
    except StaleJob as exc:
        LOG.warning('%s', exc)
        return None


def refusal(node: Any, wanted: str, who: Requester | None) -> str | None:
    """Return why a power request for a node is refused; None if the conductor may be asked.

    :param who: the requester, from :func:`requester.of`.
    """
    if wanted not in STARTING:
        return None
    stands = situation(node, who)
    found = gate.decide(stands)
    return text(node, wanted, stands, found) if isinstance(found, StartRefused) else None


def situation(node: Any, who: Requester | None, *, ramdisk: bool = False, other_ramdisk: bool = False) -> Situation:
    """Collect the facts about a node whose host is to be started.

    :param ramdisk: Ironic boots the operator's ramdisk next; only a conductor knows.
    :param other_ramdisk: Ironic boots a ramdisk next that no operator has accepted; only a conductor knows.
    """
    return Situation(
        provision_state=node.provision_state,
        state=remembered(node),
        overrides=interface_overrides.standing(node.instance_info),
        verified=_verified(node),
        ramdisk=ramdisk,
        other_ramdisk=other_ramdisk,
        leased=node.instance_uuid is not None or node.lessee is not None,
        operator=requester.is_operator(who),
        now=datetime.now(UTC),
    )


def _verified(node: Any) -> bool:
    """Whether the deploy that is under way has passed our verification: a step that fails ends the deploy."""
    info = node.driver_internal_info
    before = (info.get('deploy_steps') or [])[: info.get('deploy_step_index') or 0]
    return any((s.get('interface'), s.get('step')) == ('firmware', definitions.VERIFY.name) for s in before)


# ------------------------------------------------------------------------------------------------------------------ texts


def text(node: Any, wanted: str, situation: Situation, refused: StartRefused) -> str:
    """Return the text of a refusal: what is refused, why, and what to do."""
    reasons = '; '.join(_SAYS[obstacle](node, situation) for obstacle in refused.obstacles)
    return f'node {node.name or node.uuid}: {wanted} is refused: {reasons}{_way_back(situation, refused)}'


def _state_of(situation: Situation) -> NodeState:
    return situation.state or NodeState()


def _writing(_node: Any, situation: Situation) -> str:
    job = _state_of(situation).job
    if job is None:
        return 'a job works on its accelerators'
    at = current(job)
    return (
        f'{job.step.split("#", 1)[0]} works on its accelerators '
        f'(stage {"end" if at is None else at.name.lower()}, since {job.created:%Y-%m-%d %H:%M:%S} UTC, '
        f'until {job.deadline:%Y-%m-%d %H:%M:%S} UTC at the latest)'
    )


def _opened(_node: Any, situation: Situation) -> str:
    opened = _state_of(situation).opened
    return (
        'locks of its accelerators are open'
        if opened is None
        else f'locks of its accelerators are open since {opened.since:%Y-%m-%d %H:%M:%S} UTC ({opened.why})'
    )


def _lost(_node: Any, situation: Situation) -> str:
    watched = _state_of(situation).watched
    texts = [] if watched is None else [troubles.sentence(a.trouble) for a in watched.alarms]
    return f'a lock that was closed at the hand-over is not closed any more: {"; ".join(texts[:3])}'


def _ended(_node: Any, situation: Situation) -> str:
    allowed = _state_of(situation).start_allowed
    until = '' if allowed is None else f' at {allowed.until:%Y-%m-%d %H:%M:%S} UTC'
    return f'the permission given by {definitions.ALLOW_START.name} ended{until}'


_SAYS: Mapping[Obstacle, Callable[[Any, Situation], str]] = {
    Obstacle.UNREADABLE: lambda _n, _s: (
        'its stored state cannot be read, so it is unknown whether a job works on its accelerators'
    ),
    Obstacle.WRITING: _writing,
    Obstacle.OVERRIDDEN: lambda _n, s: interface_overrides.text(s.overrides),
    Obstacle.STATE: lambda _n, s: f'no host is started while its node is {s.provision_state}',
    Obstacle.UNPROVEN: lambda _n, _s: 'no verification has proven the locks of its accelerators closed for this deployment',
    Obstacle.UNVERIFIED: lambda _n, _s: f'this deploy has not passed {definitions.VERIFY.name}',
    Obstacle.UNWRITTEN: lambda _n, s: f'it is unknown what these cards run: {", ".join(sorted(_state_of(s).exposed))}',
    Obstacle.OPENED: _opened,
    Obstacle.QUARANTINED: lambda _n, s: '; '.join(quarantine.reasons(_state_of(s))),
    Obstacle.LOCK_LOST: _lost,
    Obstacle.NO_RAMDISK: lambda _n, s: f"the node is {s.provision_state}, and Ironic does not boot the operator's ramdisk",
    Obstacle.RAMDISK_NOT_ACCEPTED: lambda n, s: (
        f'the node is {s.provision_state}, and no operator has accepted the ramdisk that Ironic boots, which is named by '
        f'{", ".join(ramdisk_source.named_by(n))}'
    ),
    Obstacle.NOT_ALLOWED: lambda _n, s: (
        f'the node is {s.provision_state}, its locks are not proven, and no operator has allowed a start'
    ),
    Obstacle.ALLOWANCE_ENDED: _ended,
    Obstacle.LEASED: lambda _n, _s: 'the node has an instance or a lessee',
    Obstacle.NOT_AN_OPERATOR: lambda _n, _s: 'the requester does not have system scope',
}

_TENANTS = frozenset({Obstacle.UNPROVEN, Obstacle.OPENED, Obstacle.LOCK_LOST})
_FREE = frozenset({Obstacle.NOT_ALLOWED, Obstacle.ALLOWANCE_ENDED})


def _way_back(situation: Situation, refused: StartRefused) -> str:
    found = set(refused.obstacles)
    state = situation.provision_state or ''
    if Obstacle.QUARANTINED in found:
        flow = Flow.SERVICE if state in SERVICE_IS_POSSIBLE else Flow.DEPLOY
        return f' (first {quarantine.WAY_BACK[flow]})'
    if found & _TENANTS:
        if state in _NO_SERVICE:
            return f' ({_NO_SERVICE[state]})'
        before = SERVICE_IS_POSSIBLE.get(state, '')
        if Obstacle.UNWRITTEN in found:
            return (
                f' ({before}service the node with {definitions.RECONCILE.name} first, which writes these again, '
                'or undeploy and clean it)'
            )
        return f' ({before}service the node with {definitions.LOCK.name} first)'
    if found & _FREE:
        return f' (deploy the node, or let a system administrator run {definitions.ALLOW_START.name} in manual cleaning)'
    return ''.join(f' ({_WAYS[obstacle]})' for obstacle in refused.obstacles[:1] if obstacle in _WAYS)


SERVICE_IS_POSSIBLE: Mapping[str, str] = {
    states.ACTIVE: '',
    states.SERVICEFAIL: '',
    states.SERVICEHOLD: 'abort this service, then ',
    states.SERVICEWAIT: 'when this service has ended, ',
    states.SERVICING: 'when this service has ended, ',
}
"""States of a tenant's node from which it can be serviced, with what has to be done before."""

_UNDEPLOY = 'Ironic cannot service a node in this state: undeploy it'

_DEPLOY_AGAIN = 'deploy the node again, or undeploy it'

_NO_SERVICE: Mapping[str, str] = {
    states.DEPLOYFAIL: _DEPLOY_AGAIN,
    states.DEPLOYHOLD: f'abort this deploy, then {_DEPLOY_AGAIN}',
    states.DEPLOYWAIT: f'when this deploy has ended, {_DEPLOY_AGAIN}',
    states.DEPLOYING: f'when this deploy has ended, {_DEPLOY_AGAIN}',
    states.RESCUE: _UNDEPLOY,
    states.RESCUEFAIL: _UNDEPLOY,
    states.RESCUEWAIT: _UNDEPLOY,
    states.RESCUING: _UNDEPLOY,
    states.UNRESCUING: _UNDEPLOY,
    states.UNRESCUEFAIL: _UNDEPLOY,
    states.DELETING: 'wait until the node is undeployed',
}
"""The other states of a tenant's node, with what to do instead. Source: ironic 39.0.0, common/state_machine.py."""

_WAYS: Mapping[Obstacle, str] = {
    Obstacle.UNVERIFIED: f'give deploy steps that start the host a lower priority than {definitions.VERIFY.name}',
    Obstacle.NO_RAMDISK: (
        'let the deploy and boot interfaces of the node boot the ramdisk, with a boot device that its BMC keeps and the boot '
        'mode that the host has already; or, in manual cleaning, set disable_ramdisk'
    ),
    Obstacle.RAMDISK_NOT_ACCEPTED: (
        f'unset what the node should not name; an operator accepts the rest by {definitions.RECONCILE.name} in manual '
        'cleaning, except what instance_info names'
    ),
    Obstacle.STATE: 'wait until the node is in another state',
    Obstacle.UNREADABLE: "ask an administrator: the log of Ironic's API or conductor says why",
    Obstacle.LEASED: 'first remove the instance and the lessee from the node',
    Obstacle.NOT_AN_OPERATOR: 'send the request with a token of system scope',
}


def note(task: Any, wanted: str, reason: Reason) -> None:
    """Record a start that an operator has allowed although nothing is proven, before the host is started.

    Unless the operator vouches for what boots, the cards are marked as exposed: the next cleaning writes them again.
    """
    state = node_store.load(task.node)
    allowed = state.start_allowed
    if reason is not Reason.ALLOWED or allowed is None:
        return
    what = f'allowed until {allowed.until:%Y-%m-%d %H:%M:%S} UTC by {allowed.by}, who '
    what += 'vouches for what boots' if allowed.vouched else 'does not vouch for it: the next cleaning writes the cards again'
    provision_state.told(task.node, f'{wanted}: {what} ({allowed.why})')
    if not allowed.vouched:
        node_store.store(task.node, interface_overrides.exposed(task.node, node_store.load(task.node)))
