# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What the watch expects of a node in each provision state of Ironic: a table.

The table is total over Ironic's state machine, and a test asserts that: a state that Ironic gains has to be added here. A state
that is not in it is not watched. This module is pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from ironic.common import states


class ExpectedState(StrEnum):
    """What the watch expects of a node.

    ``given``: the node is deployed, and is as it was handed over. ``left``: the same if it was handed over and has not come
    back; else as ``untended``. ``waiting``: the same if it was handed over; else a flow is at work. ``untended``: nobody uses
    the node, so its host is off, or its locks are proven. ``worked-on``: a flow of Ironic or of ours is at work, and there is
    no watch.
    """

    GIVEN = 'given'
    LEFT = 'left'
    WAITING = 'waiting'
    UNTENDED = 'untended'
    WORKED_ON = 'worked-on'


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What is expected in one provision state.

    :ivar why: for people.
    :ivar nobodys: where the node was not handed over, the state says that nobody has it: powering its host off interrupts
        nobody's work.
    """

    expected: ExpectedState
    why: str
    nobodys: bool = False


def _given(why: str) -> Expectation:
    return Expectation(expected=ExpectedState.GIVEN, why=why)


def _left(why: str, *, nobodys: bool = False) -> Expectation:
    return Expectation(expected=ExpectedState.LEFT, why=why, nobodys=nobodys)


def _untended(why: str, *, nobodys: bool = True) -> Expectation:
    return Expectation(expected=ExpectedState.UNTENDED, why=why, nobodys=nobodys)


def _worked_on(why: str) -> Expectation:
    return Expectation(expected=ExpectedState.WORKED_ON, why=why)


_LOCKED = 'a conductor works on the node and holds its lock; the state in which that ends is watched'
_FROM_SOMEBODY = 'Ironic enters this state from active and rescue only, so the node is deployed'

EXPECTED: Mapping[str, Expectation] = {
    states.ACTIVE: _given('the node is deployed, so it must have been handed over by us'),
    states.RESCUE: _given('the node is deployed, so it must have been handed over by us'),
    states.DEPLOYHOLD: _left('a step of the deploy may keep the node there for any time', nobodys=True),
    states.DEPLOYFAIL: _left('the deploy has ended; after our verification its host may be on', nobodys=True),
    states.ERROR: _left('the undeploy failed, so its tenant may still use the host', nobodys=True),
    states.SERVICEHOLD: _left(_FROM_SOMEBODY),
    states.SERVICEFAIL: _left(_FROM_SOMEBODY),
    states.RESCUEWAIT: _left(_FROM_SOMEBODY),
    states.RESCUEFAIL: _left(_FROM_SOMEBODY),
    states.UNRESCUEFAIL: _left(_FROM_SOMEBODY),
    states.DEPLOYWAIT: Expectation(
        expected=ExpectedState.WAITING,
        why=(
            'a ramdisk or a job of ours is at work, which [conductor] deploy_callback_timeout ends; in maintenance nothing '
            'ends it'
        ),
    ),
    states.SERVICEWAIT: Expectation(
        expected=ExpectedState.WAITING, why="a step or a job of ours is at work, next to a tenant's host"
    ),
    states.ENROLL: _untended('the node is not in use yet'),
    states.MANAGEABLE: _untended('only the operator uses the node'),
    states.AVAILABLE: _untended('the node is not in use, and can be deployed at any time'),
    states.INSPECTWAIT: _untended("the node is not in use, and the operator's ramdisk may run"),
    states.INSPECTFAIL: _untended('the node is not in use'),
    states.CLEANHOLD: _untended("the node is not in use, and the operator's ramdisk may run for any time"),
    states.CLEANFAIL: _untended('the node is not in use, and cannot be deployed before it is cleaned'),
    states.ADOPTFAIL: _untended('its tenant may use the host already', nobodys=False),
    states.VERIFYING: _worked_on(_LOCKED),
    states.INSPECTING: _worked_on(_LOCKED),
    states.ADOPTING: _worked_on(_LOCKED),
    states.CLEANING: _worked_on(_LOCKED),
    states.DEPLOYING: _worked_on(_LOCKED),
    states.SERVICING: _worked_on(_LOCKED),
    states.RESCUING: _worked_on(_LOCKED),
    states.UNRESCUING: _worked_on(_LOCKED),
    states.DELETING: _worked_on(_LOCKED),
    states.CLEANWAIT: _worked_on('a ramdisk that is restarted or a job of ours, which reads the host itself, is at work'),
}
"""By provision state, of Ironic 39.0.0. Only the state counts here: a node that a job works on, or that is locked, is left
alone whatever its state."""

GIVEN = tuple(state for state, row in EXPECTED.items() if row.expected is ExpectedState.GIVEN)

THEIRS = tuple(
    s for s, row in EXPECTED.items() if row.expected in {ExpectedState.GIVEN, ExpectedState.LEFT, ExpectedState.WAITING}
)
"""States in which somebody else's host may be on for any length of time."""

WATCHED = tuple(state for state, row in EXPECTED.items() if row.expected is not ExpectedState.WORKED_ON)
"""States in which there are rounds."""

_UNKNOWN = _worked_on('Ironic has a state that is not known here')


def expectation(state: str | None) -> Expectation:
    """Return what is expected in a provision state."""
    return EXPECTED.get(state or '', _UNKNOWN)


__all__ = ['EXPECTED', 'GIVEN', 'THEIRS', 'WATCHED', 'Expectation', 'ExpectedState', 'expectation']
