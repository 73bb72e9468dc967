# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Decide from the state of an Ironic node whether its accelerators may be available in placement.

No BMC is asked. Placement does not know the state of the node: Nova reserves the inventory of the node itself when the node is
not available, and leaves the child providers as they are. And a device can be claimed without its node.
"""

from dataclasses import dataclass
from enum import Enum, auto

AVAILABLE = 'available'

FLOWS = frozenset({'cleaning', 'clean wait'})
"""Provision states in which our own steps publish to placement, from the first of these steps on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAvailability:
    """The state of a node in Ironic, as far as it decides what may be available in placement.

    :ivar state: its provision state.
    :ivar claimed: an instance is assigned to it, whether or not its deployment has begun.
    :ivar exposed: somebody may have written its cards since they were cleaned: no deploy of the node passes.
    :ivar said: one of our steps has published to placement in this cleaning, or is about to.
    """

    state: str
    maintenance: bool = False
    retired: bool = False
    claimed: bool = False
    exposed: bool = False
    said: bool = False


class Due(Enum):
    """What to change in placement for a node on which no step of ours runs."""

    NOTHING = auto()
    WITHDRAW = auto()
    OFFER = auto()


def unfit(standing: NodeAvailability) -> str | None:
    """Return why nothing of a node may be available in placement; None if it may, or if our own steps decide that."""
    if standing.maintenance:
        return 'it is in maintenance'
    if standing.retired:
        return 'it is retired'
    if standing.state in FLOWS:
        return None if standing.said else 'it is being cleaned and is not verified yet'
    if standing.state != AVAILABLE:
        return f'it is in state {standing.state}'
    if standing.exposed:
        return 'its cards may have been written since its last cleaning'
    return 'an instance is assigned to it' if standing.claimed else None


def due(standing: NodeAvailability, *, withdrawn: bool, doubtful: bool = False) -> Due:
    """Return what to change in placement.

    :param withdrawn: the node is withdrawn from placement, as far as placement was told.
    :param doubtful: but a process was about to offer it again.
    """
    if unfit(standing) is not None:
        return Due.NOTHING if withdrawn and not doubtful else Due.WITHDRAW
    return Due.OFFER if withdrawn and standing.state == AVAILABLE else Due.NOTHING
