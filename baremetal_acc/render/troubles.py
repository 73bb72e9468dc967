# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Render the troubles of a watched machine: changed devices, open locks, BMC accounts, host power, certificates."""

from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

from baremetal_acc.model.inventory_change import CardNamed, Change
from baremetal_acc.model.lock import LockReading, Scope
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.planning import trouble as t
from baremetal_acc.planning.drift import CHARACTERS, shown
from baremetal_acc.planning.watch_alarms import WatchTrouble
from baremetal_acc.render import changes

_MOST_CARDS = 8
"""Limit of the cards that one text lists."""


def recorded(found: Iterable[WatchTrouble]) -> tuple[WatchTrouble, ...]:
    """Return troubles as alarms store them: with their facts as text."""
    return tuple(replace(one, fact=t.TroubleText(text=sentence(one))) for one in found)


def sentence(trouble: WatchTrouble) -> str:
    """Say what is wrong."""
    fact = trouble.fact
    match fact:
        case t.TroubleText():
            return fact.text
        case Change():
            return changes.sentence(fact)
        case t.LockGone():
            gap = fact.gap
            why = 'the BMC does not show it any more' if gap is None else f'could not be read: {shown(gap.reason)}'
            return f'{_lock(fact.card, fact.was)}: was {fact.was.state}, and {why}'
        case t.LockChanged():
            value = '' if fact.found.value is None else f' ({shown(fact.found.value)})'
            return f'{_lock(fact.card, fact.was)}: was {fact.was.state}, is {fact.found.state}{value}{_because(fact.found)}'
        case t.PathOpened():
            by = fact.by.reading
            what = f'{_named(fact.card)}, {fact.by.subject}' if by is None else _lock(fact.card, by)
            opened = f'the way {fact.path} was closed, and this, which was not there then, is {fact.by.state}'
            return f'{what}: {opened}{_because(by)}'
        case t.LockOpen():
            return f'{_lock(fact.card, fact.found)}: is {fact.found.state}'
        case t.LocksOpened():
            return f'locks are open since {fact.since:%Y-%m-%d %H:%M:%S} UTC ({fact.by})'
        case t.NotExpected():
            return f'{trouble.subject}: no rule expects it'
        case t.AccountsUnread():
            return f'{trouble.subject}: not all of them could be read: {shown(fact.error)}'
        case t.Unreadable():
            return f'nobody can say whether the accelerators are as they were handed over: {_said(fact.error)}'
        case t.CertificateUnreadable():
            unread = shown(f'its certificate cannot be checked: {fact.error}', 4 * CHARACTERS)
            return f'nobody can say whether the accelerators are as they were handed over: {unread}'
        case t.Unloadable():
            return f'the node cannot be loaded, so that nobody watches it: {_said(fact.error)}'
        case t.NotHandedOver():
            adopted = 'it was adopted, or deployed without verify_accelerators; undeploy it, or deploy it anew'
            return f'the node is {fact.state}, and nothing says how it was handed over: {adopted}'
        case t.NoCertificate():
            return f'the node is {fact.state}, and no certificate says how it was handed over: {fact.error}'
        case t.HostOn():
            lost = '' if fact.trusted else ' (nothing was ever proven of this node, so that nothing is lost by it)'
            return f'{_on(fact.state)}: nothing proves these closed to it: {_names(fact.cards)}{lost}'
        case t.HostOnUnread():
            return f'{_on(fact.state)}: nobody can say whether these are closed to it: {_names(fact.cards)}'
        case t.HostUnread():
            why = 'its BMC does not tell the power state' if fact.error is None else _said(fact.error)
            return f'nobody can say whether the host of the node, which is {fact.state}, is off: {why}'
        case _:
            assert_never(fact)


def not_closed(why: t.NotClosed) -> str:
    """Say why a lock cannot be engaged again."""
    match why:
        case t.LockNotShown():
            return f'{why.device or "the machine"}: {why.mechanism} is not shown, so it cannot be closed'
        case t.NeedsReset():
            return (
                f'{_lock(why.card, why.lock)}: it comes in force with a {why.lock.needs} only, which is not forced '
                'on the host of somebody else: have the node serviced with lock_accelerators'
            )
        case _:
            assert_never(why)


def _named(card: CardNamed) -> str:
    return f'{card.label} ({card.id})'


def _lock(card: CardNamed, lock: LockReading) -> str:
    whose = 'the machine' if lock.scope is Scope.BMC else _named(card)
    return f'{whose}, {lock.mechanism} at {lock.ref} {shown(lock.field)}'


def _because(reading: LockReading | None) -> str:
    return '' if reading is None or reading.reason is None else f', {shown(reading.reason)}'


def _said(error: Exception) -> str:
    return shown(str(error), 4 * CHARACTERS)


def _on(state: str) -> str:
    return f'the host is on, and the node is {state}'


def _names(cards: frozenset[AcceleratorId]) -> str:
    more = '' if len(cards) <= _MOST_CARDS else f' and {len(cards) - _MOST_CARDS} more'
    return ', '.join(sorted(cards)[:_MOST_CARDS]) + more
