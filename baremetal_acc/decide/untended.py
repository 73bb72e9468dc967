# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which cards of a machine that nobody uses are not proven closed to its host, and what that comes to while the host is on.

Nobody's code has a reason to run on such a machine. So its host is off; or every path from it to a card that the rules want
blocked is closed, by locks of ours that were read back, or let be open by a waiver. What is neither is a trouble of the node.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from baremetal_acc.decide import drift, evidence
from baremetal_acc.decide.baseline import Baseline, NodeFacts, demands
from baremetal_acc.decide.drift import shown
from baremetal_acc.decide.verify import verify
from baremetal_acc.decide.waiver import Blockable
from baremetal_acc.decide.watch import Trouble, TroubleKind
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.lock import Engagement, LockState, Way
from baremetal_acc.model.ref import AcceleratorId

_NAMED = 8
"""Cards that a text names."""


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
    what = f'the host is on, and the node is {state}'
    if found.open:
        text = f'{what}: nothing proves these closed to it: {_names(found.open)}'
        if not trusted:
            text += ' (nothing was ever proven of this node, so that nothing is lost by it)'
        of = found.open if trusted else frozenset()
        return (Trouble(kind=TroubleKind.HOST_ON, device=None, subject='host', text=text, of=of),)
    if found.unread:
        text = f'{what}: nobody can say whether these are closed to it: {_names(found.unread)}'
        return (Trouble(kind=TroubleKind.UNREADABLE, device=None, subject='locks', text=text, certain=False),)
    return ()


def _names(cards: frozenset[AcceleratorId]) -> str:
    more = '' if len(cards) <= _NAMED else f' and {len(cards) - _NAMED} more'
    return ', '.join(sorted(cards)[:_NAMED]) + more


def unread_host(why: str, *, state: str) -> Trouble:
    """A BMC that does not say whether the host of such a machine is on."""
    text = f'nobody can say whether the host of the node, which is {state}, is off: {shown(why, 4 * drift.CHARACTERS)}'
    return Trouble(kind=TroubleKind.UNREADABLE, device=None, subject='host', text=text, certain=False)


__all__ = ['Unproven', 'troubles', 'unproven', 'unread_host']
