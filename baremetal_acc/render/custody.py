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
        return 'the card is being written'
    if chain is None:
        return 'no chain has begun: it is unknown who wrote the firmware that it runs'
    by = f' ({", ".join(chain.by)})' if chain.by else ''
    until = '' if chain.until is None else f' until {_time(chain.until)}'
    why = '' if chain.reason is None else f' ({chain.reason})'
    begins = f'{chain.origin} at {_time(chain.begun)}{by}{until}{why}'
    if chain.broken is not None:
        where = '' if chain.broken.ref is None else f', {chain.broken.ref}'
        since, until = _time(chain.broken.since), _time(chain.broken.until)
        return f'{begins}, broken between {since} and {until}: {_CAUSES[chain.broken.cause]}{where}'
    if chain.until is not None and now >= chain.until:
        return f'{begins}, which has ended'
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
    BreakCause.PATH_OPEN: 'a path that was blocked was found open',
    BreakCause.PATH_UNKNOWN: 'it is unknown whether a path that was blocked still is',
    BreakCause.LOCK_CHANGED: 'a lock is engaged with other settings than before',
    BreakCause.NOT_SEEN: 'the BMC did not show the card',
    BreakCause.EXPOSED: 'it was found changed by others, or writable by others',
    BreakCause.FOREIGN_WRITE: 'its BMC ran a task that is not ours and that may have written to it',
    BreakCause.WRITE_FAILED: 'a write to it did not succeed',
    BreakCause.WRITE_UNPROVEN: (
        'it was written with the version that it already had, and nothing shows that the write reached it'
    ),
    BreakCause.ACCEPTANCE_ENDED: 'its acceptance by an operator has expired',
}
