# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Is a node fit to be deployed, so that what it has may be on offer? By what Ironic shows of it, and no BMC is asked.

Placement does not know: Nova reserves the node itself when it is not fit, and leaves alone what lies below it. And a device can
be claimed without its machine.
"""

from dataclasses import dataclass
from enum import Enum, auto

AVAILABLE = 'available'

FLOWS = frozenset({'cleaning', 'clean wait'})
"""Provision states of Ironic in which our own steps say what is on offer, from the first of them on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a node stands in Ironic.

    :ivar state: its provision state.
    :ivar claimed: an instance is put down for it, whether or not its deployment has begun.
    :ivar exposed: somebody may have written its cards since they were cleaned: no deploy of it passes.
    :ivar said: a step of ours has said in this cleaning what is on offer, or is about to.
    """

    state: str
    maintenance: bool = False
    retired: bool = False
    claimed: bool = False
    exposed: bool = False
    said: bool = False


class Due(Enum):
    """What is to be told placement of a node at rest."""

    NOTHING = auto()
    WITHDRAW = auto()
    OFFER = auto()


def unfit(standing: Standing) -> str | None:
    """Why nothing of a node may be on offer; None if it may, or if our own steps say so."""
    if standing.maintenance:
        return 'it is in maintenance'
    if standing.retired:
        return 'it is retired'
    if standing.state in FLOWS:
        return None if standing.said else 'it is being cleaned, and was not verified yet'
    if standing.state != AVAILABLE:
        return f'it is in state {standing.state}'
    if standing.exposed:
        return 'somebody may have written its cards, and it was not cleaned since'
    return 'an instance is put down for it' if standing.claimed else None


def due(standing: Standing, *, withdrawn: bool, doubtful: bool = False) -> Due:
    """What is to be told.

    :param withdrawn: nothing is on offer, as far as was told placement.
    :param doubtful: but somebody was about to offer it again.
    """
    if unfit(standing) is not None:
        return Due.NOTHING if withdrawn and not doubtful else Due.WITHDRAW
    return Due.OFFER if withdrawn and standing.state == AVAILABLE else Due.NOTHING
