# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What one conductor remembers of its rounds of the watch. A conductor that is restarted, or takes a node over, reads anew."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from baremetal_acc.bmc.api import BmcAddress
from baremetal_acc.decide.baseline import Baseline
from baremetal_acc.decide.untended import Unproven
from baremetal_acc.decide.watch import Alarm, TroubleKind
from baremetal_acc.model.lock import Engagement
from baremetal_acc.model.ref import AcceleratorId, Ref
from baremetal_acc.model.witness import Witness
from baremetal_acc.run.glancing import Sessions


@dataclass(slots=True)
class Lost:
    """Rounds of one node, one after the other, that counted for nothing since somebody else held the node.

    :ivar told: of what they found, what was told without the node: its keys.
    """

    rounds: int = 0
    told: set[tuple[TroubleKind, Any, str]] = field(default_factory=set)


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """What a judgement of the locks of an untended node rests on besides the machine."""

    lifecycle: int
    evidence: tuple[Engagement, ...]
    cards: frozenset[AcceleratorId]
    baseline: Baseline


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The locks of an untended node whose host is on, as a whole look has found them.

    :ivar witnesses: what a glance reads again; it holds while they say the same.
    """

    at: datetime
    basis: Basis
    unproven: Unproven
    witnesses: tuple[Witness, ...]


@dataclass(slots=True)
class Rounds:
    """What one conductor knows of its rounds.

    :ivar last: when each node's last round began, or when the node was first seen here.
    :ivar first: the same, of rounds that were to be the first after a hand-over.
    :ivar lost: nodes whose last rounds could not remember what they saw, since somebody else held the node.
    :ivar unloaded: nodes that cannot be loaded, and what was told of that: it cannot be kept with the node.
    :ivar hosts: of untended nodes, the System that the node is, and the BMC that it was found at.
    :ivar judged: of untended nodes whose host is on.
    """

    last: dict[str, datetime] = field(default_factory=dict)
    first: dict[str, datetime] = field(default_factory=dict)
    lost: dict[str, Lost] = field(default_factory=dict)
    unloaded: dict[str, Alarm] = field(default_factory=dict)
    hosts: dict[str, tuple[BmcAddress, Ref]] = field(default_factory=dict)
    judged: dict[str, Judged] = field(default_factory=dict)
    sessions: Sessions = field(default_factory=Sessions)

    def forget_all_but(self, mine: frozenset[str]) -> None:
        """Nodes that are not this conductor's any more, or in no state that is watched."""
        known: dict[str, Any]
        for known in (self.last, self.first, self.lost, self.unloaded, self.hosts, self.judged):
            for uuid in known.keys() - mine:
                known.pop(uuid, None)
        self.sessions.forget(self.sessions.owners() - mine)


__all__ = ['Basis', 'Judged', 'Lost', 'Rounds']
