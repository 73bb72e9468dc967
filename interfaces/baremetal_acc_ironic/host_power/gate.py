# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Decide whether a host may be powered on: only for a reason that counts in the node's provision state.

All code that powers on or restarts a host in Ironic calls :func:`decide`. There are three reasons, and :data:`MAY_START` says
which of them count in which provision state; in a state that is not in the table no reason counts. A job powers on its host
without the gate, under the conditions of :mod:`baremetal_acc.execution.power`. While a job writes, the gate allows no start.

This module is pure: :mod:`baremetal_acc_ironic.host_power.host_start` collects the facts and builds the texts of refusals.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from ironic.common import states

from baremetal_acc.planning.watch_alarms import TroubleKind
from baremetal_acc_ironic.state.node_state import NodeState


class Reason(StrEnum):
    """A reason for which a host may be started.

    ``proven``: the locks that the rules demand were proven closed for this very deployment, and nothing is known to have broken
    since. ``ramdisk``: Ironic boots the operator's ramdisk in cleaning or inspection. ``allowed``: an operator has allowed it
    beforehand, for a node without instance and lessee.
    """

    PROVEN = 'proven'
    RAMDISK = 'ramdisk'
    ALLOWED = 'allowed'


class Obstacle(StrEnum):
    """Why a reason does not hold, or why no reason can."""

    UNREADABLE = 'unreadable'
    WRITING = 'writing'
    OVERRIDDEN = 'overridden'
    STATE = 'state'
    UNPROVEN = 'unproven'
    UNVERIFIED = 'unverified'
    UNWRITTEN = 'unwritten'
    OPENED = 'opened'
    QUARANTINED = 'quarantined'
    LOCK_LOST = 'lock-lost'
    NO_RAMDISK = 'no-ramdisk'
    RAMDISK_NOT_ACCEPTED = 'ramdisk-not-accepted'
    NOT_ALLOWED = 'not-allowed'
    ALLOWANCE_ENDED = 'allowance-ended'
    LEASED = 'leased'
    NOT_AN_OPERATOR = 'not-an-operator'


_NONE: frozenset[Reason] = frozenset()
_PROVEN = frozenset({Reason.PROVEN})
_RAMDISK = frozenset({Reason.RAMDISK})
_ALLOWED = frozenset({Reason.ALLOWED})

MAY_START: Mapping[str, frozenset[Reason]] = {
    states.ENROLL: _ALLOWED,
    states.VERIFYING: _NONE,
    states.MANAGEABLE: _ALLOWED,
    states.AVAILABLE: _ALLOWED,
    states.INSPECTING: _RAMDISK,
    states.INSPECTWAIT: _NONE,
    states.INSPECTFAIL: _ALLOWED,
    states.CLEANING: _RAMDISK,
    states.CLEANWAIT: _RAMDISK,
    states.CLEANHOLD: _ALLOWED,
    states.CLEANFAIL: _ALLOWED,
    states.DEPLOYING: _PROVEN,
    states.DEPLOYWAIT: _PROVEN,
    states.DEPLOYHOLD: _PROVEN,
    states.DEPLOYFAIL: _PROVEN,
    states.ACTIVE: _PROVEN,
    states.RESCUING: _PROVEN,
    states.RESCUEWAIT: _PROVEN,
    states.RESCUE: _PROVEN,
    states.RESCUEFAIL: _PROVEN,
    states.UNRESCUING: _PROVEN,
    states.UNRESCUEFAIL: _PROVEN,
    states.SERVICING: _PROVEN,
    states.SERVICEWAIT: _PROVEN,
    states.SERVICEHOLD: _PROVEN,
    states.SERVICEFAIL: _PROVEN,
    states.DELETING: _PROVEN,
    states.ERROR: _NONE,
    states.ADOPTING: _NONE,
    states.ADOPTFAIL: _NONE,
}
"""By provision state: total over Ironic's state machine. In ``clean wait`` Ironic's API takes no power request, and Ironic
restarts its ramdisk; in ``inspect wait`` nothing of Ironic restarts a host."""

DEPLOYING = frozenset({states.DEPLOYING, states.DEPLOYWAIT, states.DEPLOYHOLD})
"""A deploy is under way: what an earlier deploy has proven does not count until this one is verified."""

_LOST = frozenset({TroubleKind.LOCK, TroubleKind.OPENED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """The facts about a node whose host is to be started.

    :ivar provision_state: provision state.
    :ivar state: our stored state of the node; None if it cannot be read.
    :ivar overrides: keys of ``instance_info`` that replace interfaces without being allowed to.
    :ivar verified: the deploy that is under way has passed our verification.
    :ivar ramdisk: Ironic boots the operator's ramdisk next.
    :ivar other_ramdisk: Ironic boots a ramdisk next that the node names and that no operator has accepted.
    :ivar leased: the node has an instance or a lessee.
    :ivar operator: the requester has system scope, or Ironic does not authenticate requests.
    """

    provision_state: str | None
    state: NodeState | None
    overrides: tuple[str, ...] = ()
    verified: bool = False
    ramdisk: bool = False
    other_ramdisk: bool = False
    leased: bool = True
    operator: bool = False
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRefused:
    """The host must not be started. ``obstacles`` is never empty."""

    obstacles: tuple[Obstacle, ...]


def decide(situation: Situation) -> Reason | StartRefused:
    """Return the reason for which a host may be started now, or the obstacles to each reason that could count in its state."""
    state = situation.state
    if state is None:
        return StartRefused(obstacles=(Obstacle.UNREADABLE,))
    if state.writing:
        return StartRefused(obstacles=(Obstacle.WRITING,))
    if situation.overrides:
        return StartRefused(obstacles=(Obstacle.OVERRIDDEN,))
    reasons = MAY_START.get(situation.provision_state or '', _NONE)
    found: list[Obstacle] = []
    for reason in sorted(reasons):
        against = tuple(_OBSTACLES[reason](situation, state))
        if not against:
            return reason
        found += against
    return StartRefused(obstacles=tuple(found) or (Obstacle.STATE,))


def counts(reason: Reason, state: str | None) -> bool:
    """Whether a reason may allow a start in a provision state."""
    return reason in MAY_START.get(state or '', _NONE)


def lasts(provision_state: str | None, *, ending: bool) -> bool:
    """Whether a deployment lasts, so that what was proven for it may allow a start.

    The state alone does not say so: a node that is undeployed without cleaning, and adopted, is active again.

    :param ending: an undeploy has begun since the node was handed over.
    """
    return counts(Reason.PROVEN, provision_state) and (not ending or provision_state == states.DELETING)


def _unproven(situation: Situation, state: NodeState) -> Iterator[Obstacle]:
    if state.opened is not None:
        yield Obstacle.OPENED
    if state.quarantined:
        yield Obstacle.QUARANTINED
    if _lost(state):
        yield Obstacle.LOCK_LOST
    if situation.provision_state in DEPLOYING and not situation.verified:
        yield Obstacle.UNVERIFIED
    elif state.proven is None or not lasts(situation.provision_state, ending=state.ending):
        yield Obstacle.UNPROVEN
        if state.exposed:
            yield Obstacle.UNWRITTEN


def _lost(state: NodeState) -> bool:
    """Whether the watch has found a lock open that was closed at the hand-over, and has not found it closed since."""
    known = state.watched
    if known is None or known.lifecycle != state.lifecycle:
        return False
    return any(a.trouble.kind in _LOST and (a.trouble.certain or a.told) for a in known.alarms)


def _without_ramdisk(situation: Situation, _state: NodeState) -> Iterator[Obstacle]:
    if not situation.ramdisk:
        yield Obstacle.RAMDISK_NOT_ACCEPTED if situation.other_ramdisk else Obstacle.NO_RAMDISK


def _not_allowed(situation: Situation, state: NodeState) -> Iterator[Obstacle]:
    allowance = state.start_allowed
    if allowance is None:
        yield Obstacle.NOT_ALLOWED
    elif situation.now >= allowance.until:
        yield Obstacle.ALLOWANCE_ENDED
    if situation.leased:
        yield Obstacle.LEASED
    if not situation.operator:
        yield Obstacle.NOT_AN_OPERATOR


_OBSTACLES = {Reason.PROVEN: _unproven, Reason.RAMDISK: _without_ramdisk, Reason.ALLOWED: _not_allowed}
