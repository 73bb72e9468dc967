# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which cards of a machine that nobody uses are not proven closed to its host, and what that comes to while the host is on.

Nobody's code has a reason to run on such a machine. So its host is off; or every path from it to a card that the rules want
blocked is closed, by locks of ours that were read back, or let be open by a waiver. What is neither is a trouble of the node.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from baremetal_acc.decide import evidence
from baremetal_acc.decide.baseline import Baseline, NodeFacts, demands
from baremetal_acc.decide.verify import verify
from baremetal_acc.decide.waiver import Blockable
from baremetal_acc.decide.watch import Trouble, TroubleKind
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.lock import Engagement, LockState, Way
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.planning.trouble import HostOn, HostOnUnread, HostUnread


@dataclass(frozen=True, slots=True, kw_only=True)
class Unproven:
    """Cards with a demanded path from the host that is not proven closed.

    :ivar open: it was read, or the card is not shown. ``unread``: it could not be read.
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
    """The cards of a machine that are not proven closed, as a verification has it: what a waiver lets be open counts as closed.

    :param inventory: a whole look.
    :param engagements: our own records; only they make a lock proven.
    :param cards: that have to be shown.
    :param blockable: and ``ways``: as of :func:`~baremetal_acc.decide.verify.verify`.
    """
    engagements = tuple(engagements)
    records = evidence.Records(engagements)
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
    accelerator: Accelerator, baseline: Baseline, node: NodeFacts, records: evidence.Records, lifecycle: int
) -> bool:
    """A part of a demanded path was read and is open, beside one that could not be read, which a verdict names first."""
    wanted = demands(baseline, accelerator, node)
    locks = tuple(evidence.judge(r, records.at(r), lifecycle=lifecycle) for r in accelerator.locks)
    found = {c.state for path in wanted.block for c in evidence.coverage(accelerator, path, locks)}
    return bool(found - wanted.accept - {LockState.UNKNOWN, LockState.UNSUPPORTED})


def troubles(found: Unproven, *, state: str, trusted: bool) -> tuple[Trouble, ...]:
    """What is wrong with a machine that nobody uses, and whose host is on.

    :param state: of the node, for the text.
    :param trusted: something was proven of its cards, or somebody had them, before: what is exposed is exposed by this.
    """
    if found.open:
        of = found.open if trusted else frozenset()
        on = HostOn(state=state, cards=found.open, trusted=trusted)
        return (Trouble(kind=TroubleKind.HOST_ON, device=None, subject='host', fact=on, of=of),)
    if found.unread:
        unread = HostOnUnread(state=state, cards=found.unread)
        return (Trouble(kind=TroubleKind.UNREADABLE, device=None, subject='locks', fact=unread, certain=False),)
    return ()


def unread_host(error: Exception | None, *, state: str) -> Trouble:
    """A BMC that does not say whether the host of such a machine is on."""
    fact = HostUnread(state=state, error=error)
    return Trouble(kind=TroubleKind.UNREADABLE, device=None, subject='host', fact=fact, certain=False)


__all__ = ['Unproven', 'troubles', 'unproven', 'unread_host']
