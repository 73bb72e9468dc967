# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Find the cards of an unused machine that are not proven closed to its host, and report them while the host is on.

No code has a reason to run on such a machine. So either its host is off; or every path from the host that the rules want
blocked is closed, by locks of ours that were read back, or left open by a waiver. Anything else is a trouble of the node.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.lock import Engagement, LockState, Way
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.planning import lock_evidence
from baremetal_acc.planning.trouble import HostOn, HostOnUnread, HostUnread
from baremetal_acc.planning.verify import verify
from baremetal_acc.planning.waivers import Blockable
from baremetal_acc.planning.watch_alarms import TroubleKind, WatchTrouble
from baremetal_acc.policy.baseline_rules import Baseline, NodeFacts
from baremetal_acc.policy.device_demands import demands


@dataclass(frozen=True, slots=True, kw_only=True)
class Unproven:
    """Cards with a demanded path from the host that is not proven closed.

    :ivar open: a path was read and is open, or the card is not reported. ``unread``: it could not be read.
    """

    open: frozenset[AcceleratorId] = frozenset()
    unread: frozenset[AcceleratorId] = frozenset()


def unproven(
    inventory: Inventory,
    baseline: Baseline,
    node: NodeFacts,
    engagements: Iterable[Engagement],
    *,
    lifecycle: int,
    cards: Iterable[AcceleratorId] = (),
    blockable: Blockable = frozenset(),
    ways: frozenset[Way] = frozenset(),
) -> Unproven:
    """Return the cards of a machine that are not proven closed, judged as in a verification: a waived path counts as closed.

    :param inventory: a complete inventory.
    :param engagements: our own records; only they make a lock proven.
    :param cards: the cards that have to be reported.
    :param blockable: and ``ways``: as in :func:`~baremetal_acc.planning.verify.verify`.
    """
    engagements = tuple(engagements)
    records = lock_evidence.Records(engagements)
    verdict = verify(
        inventory, baseline, node, (), engagements, lifecycle=lifecycle, blockable=blockable, ways=ways, measured=False
    )
    opened, unread = set(), set()
    for a in inventory.accelerators:
        states = {f.state for f in verdict.unmet if f.accelerator == a.id and f.state is not None}
        if states - {LockState.UNKNOWN} or (states and _shows_open(a, baseline, node, records, lifecycle)):
            opened.add(a.id)
        elif states:
            unread.add(a.id)
    missing = frozenset(cards) - {a.id for a in inventory.accelerators}
    hidden = any(gap.hides for gap in inventory.gaps)
    return Unproven(
        open=frozenset(opened) | (frozenset() if hidden else missing),
        unread=frozenset(unread) | (missing if hidden else frozenset()),
    )


def _shows_open(
    accelerator: Accelerator, baseline: Baseline, node: NodeFacts, records: lock_evidence.Records, lifecycle: int
) -> bool:
    """Whether some part of a demanded path was read and is open, next to an unreadable part, which a verdict names first."""
    wanted = demands(baseline, accelerator, node)
    locks = tuple(lock_evidence.judge(r, records.at(r), lifecycle=lifecycle) for r in accelerator.locks)
    found = {c.state for path in wanted.block for c in lock_evidence.coverage(accelerator, path, locks)}
    return bool(found - wanted.accept - {LockState.UNKNOWN, LockState.UNSUPPORTED})


def troubles(found: Unproven, *, state: str, trusted: bool) -> tuple[WatchTrouble, ...]:
    """Return what is wrong with an unused machine whose host is on.

    :param state: of the node, for the text.
    :param trusted: its cards were proven, or a tenant had them, before: their exposure begins with this.
    """
    if found.open:
        of = found.open if trusted else frozenset()
        on = HostOn(state=state, cards=found.open, trusted=trusted)
        return (WatchTrouble(kind=TroubleKind.HOST_ON, device=None, subject='host', fact=on, of=of),)
    if found.unread:
        unread = HostOnUnread(state=state, cards=found.unread)
        return (WatchTrouble(kind=TroubleKind.UNREADABLE, device=None, subject='locks', fact=unread, certain=False),)
    return ()


def unread_host(error: Exception | None, *, state: str) -> WatchTrouble:
    """Return the trouble that a BMC does not report whether the host of an unused machine is on."""
    fact = HostUnread(state=state, error=error)
    return WatchTrouble(kind=TroubleKind.UNREADABLE, device=None, subject='host', fact=fact, certain=False)


__all__ = ['Unproven', 'troubles', 'unproven', 'unread_host']
