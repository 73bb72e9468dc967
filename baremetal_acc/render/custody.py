# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Render the chain of custody of a card as a sentence."""

from collections.abc import Mapping
from datetime import datetime

from baremetal_acc.model.custody import BreakCause, CardCustody, Chain, Cover, Strength


def explain(card: CardCustody, now: datetime) -> str:
    """Say in one sentence what the chain of a card begins with, how far it reaches, and what broke it."""
    chain = card.chain
    if card.writing is not None:
        return 'it is being written'
    if chain is None:
        return 'no chain has begun: nobody knows who has written what it runs'
    by = f' ({", ".join(chain.by)})' if chain.by else ''
    until = '' if chain.until is None else f' until {_time(chain.until)}'
    why = '' if chain.reason is None else f' ({chain.reason})'
    begins = f'{chain.origin} at {_time(chain.begun)}{by}{until}{why}'
    if chain.broken is not None:
        where = '' if chain.broken.ref is None else f', {chain.broken.ref}'
        since, until = _time(chain.broken.since), _time(chain.broken.until)
        return f'{begins}, broken between {since} and {until}: {_CAUSES[chain.broken.cause]}{where}'
    if chain.until is not None and now >= chain.until:
        return f'{begins}, which is over'
    covers = ', '.join(f'{cover} ({strength})' for cover, strength in _kinds(chain))
    alone = '' if chain.covers_own_processor else '; what its own processor runs is not covered'
    return f'{begins}, unbroken until {_time(chain.reaches)}{": " if covers else ""}{covers}{alone}'


def _kinds(chain: Chain) -> tuple[tuple[Cover, Strength], ...]:
    return tuple(dict.fromkeys((i.cover, i.strength) for i in chain.intervals))


def _time(at: datetime) -> str:
    return f'{at:%Y-%m-%d %H:%M:%S}Z'


_CAUSES: Mapping[BreakCause, str] = {
    BreakCause.HOST_RAN: 'the host ran while a path that the rules want blocked was open',
    BreakCause.HOST_UNSEEN: 'a path that the rules want blocked was open, and nothing shows that the host stayed off',
    BreakCause.PATH_OPEN: 'a path that was closed was found open',
    BreakCause.PATH_UNKNOWN: 'of a path that was closed nobody can say whether it is',
    BreakCause.LOCK_CHANGED: 'a lock is closed otherwise than it was',
    BreakCause.NOT_SEEN: 'the card was not shown',
    BreakCause.EXPOSED: 'it was found changed, or reachable, by somebody else',
    BreakCause.FOREIGN_WRITE: 'its BMC worked on something that is not ours and that may have written to it',
    BreakCause.WRITE_FAILED: 'a write to it did not end well',
    BreakCause.WRITE_UNPROVEN: 'it was written at the version that it had, and nothing shows that the write has reached it',
    BreakCause.ACCEPTANCE_ENDED: 'its acceptance has ended',
}
