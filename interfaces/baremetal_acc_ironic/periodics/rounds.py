# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What one conductor keeps in memory about its watch rounds: last rounds, BMC sessions, judged locks, unreported findings.

A conductor that is restarted, or that takes a node over, begins without it and reads the node again.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from baremetal_acc.bmc.driver import BmcAddress
from baremetal_acc.execution.integrity_watch import WatchSessions
from baremetal_acc.model.lock import Engagement
from baremetal_acc.model.ref import AcceleratorId, Ref
from baremetal_acc.model.watched_resource import WatchedResource
from baremetal_acc.planning.untended import Unproven
from baremetal_acc.planning.watch_alarms import Alarm, TroubleKind, WatchTrouble
from baremetal_acc.policy.baseline_rules import Baseline, BmcRule


@dataclass(slots=True)
class Lost:
    """Consecutive rounds of one node that did not count, since another task held the node's lock.

    :ivar rounds: how many.
    :ivar told: keys of the findings that were reported without being stored.
    """

    rounds: int = 0
    told: set[tuple[TroubleKind, Any, str]] = field(default_factory=set)


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """What a judgement of the locks of an unused node rests on besides the machine itself."""

    lifecycle: int
    evidence: tuple[Engagement, ...]
    cards: frozenset[AcceleratorId]
    baseline: Baseline


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedNode:
    """The locks of an unused node whose host is on, as a full inventory read has found them.

    :ivar witnesses: the resources that a round rereads; the judgement holds while they are unchanged.
    """

    at: datetime
    basis: Basis
    unproven: Unproven
    witnesses: tuple[WatchedResource, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSettings:
    """What the last read of the settings of a node's BMCs has found.

    :ivar rules: the rules that it was compared with.
    """

    at: datetime
    rules: tuple[BmcRule, ...]
    found: tuple[WatchTrouble, ...]


@dataclass(slots=True)
class WatchRounds:
    """What one conductor keeps in memory about its rounds.

    :ivar last: when each node's last round began, or when the node was first seen here.
    :ivar first: the same, of rounds that were to be the first after a hand-over.
    :ivar lost: nodes whose last rounds could not store what they found, since another task held the lock.
    :ivar unloaded: nodes that cannot be loaded, with the alarm about it, which cannot be stored with the node.
    :ivar hosts: of unused nodes, the System that the node is, and the BMC at which it was found.
    :ivar judged: of unused nodes whose host is on.
    :ivar settings: of nodes whose BMCs have rules.
    """

    last: dict[str, datetime] = field(default_factory=dict)
    first: dict[str, datetime] = field(default_factory=dict)
    lost: dict[str, Lost] = field(default_factory=dict)
    unloaded: dict[str, Alarm] = field(default_factory=dict)
    hosts: dict[str, tuple[BmcAddress, Ref]] = field(default_factory=dict)
    judged: dict[str, JudgedNode] = field(default_factory=dict)
    settings: dict[str, KeptSettings] = field(default_factory=dict)
    sessions: WatchSessions = field(default_factory=WatchSessions)

    def forget_all_but(self, mine: frozenset[str]) -> None:
        """Drop nodes that this conductor no longer manages, or whose state is not watched."""
        known: dict[str, Any]
        for known in (self.last, self.first, self.lost, self.unloaded, self.hosts, self.judged, self.settings):
            for uuid in known.keys() - mine:
                known.pop(uuid, None)
        self.sessions.forget(self.sessions.owners() - mine)


__all__ = ['Basis', 'JudgedNode', 'KeptSettings', 'Lost', 'WatchRounds']
