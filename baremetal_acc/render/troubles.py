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
from baremetal_acc.render import changes, findings

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
            why = 'the BMC no longer shows it' if gap is None else f'could not be read: {shown(gap.reason)}'
            return f'{_lock(fact.card, fact.was)}: was {fact.was.state}, but {why}'
        case t.LockChanged():
            value = '' if fact.found.value is None else f' ({shown(fact.found.value)})'
            return f'{_lock(fact.card, fact.was)}: was {fact.was.state}, is {fact.found.state}{value}{_because(fact.found)}'
        case t.PathOpened():
            by = fact.by.reading
            what = f'{_named(fact.card)}, {fact.by.subject}' if by is None else _lock(fact.card, by)
            opened = f'write path {fact.path} was blocked, but this, which is new since then, is {fact.by.state}'
            return f'{what}: {opened}{_because(by)}'
        case t.LockOpen():
            return f'{_lock(fact.card, fact.found)}: is {fact.found.state}'
        case t.LocksOpened():
            return f'locks have been open since {fact.since:%Y-%m-%d %H:%M:%S} UTC ({fact.by})'
        case t.NotExpected():
            return f'{trouble.subject}: no rule expects it'
        case t.AccountsUnread():
            return f'{trouble.subject}: not all of them could be read: {shown(fact.error)}'
        case t.SettingNotMet():
            return f'{trouble.subject}: {shown(findings.clause(fact.found, fact.rule), 4 * CHARACTERS)}'
        case t.Unreadable():
            return f'the accelerators cannot be compared with their state at hand-over: {_said(fact.error)}'
        case t.CertificateUnreadable():
            unread = shown(f'its certificate cannot be checked: {fact.error}', 4 * CHARACTERS)
            return f'the accelerators cannot be compared with their state at hand-over: {unread}'
        case t.Unloadable():
            return f'the node cannot be loaded, so it is not watched: {_said(fact.error)}'
        case t.NotHandedOver():
            adopted = 'it was adopted, or deployed without verify_accelerators; undeploy it, or deploy it again'
            return f'the node is {fact.state}, but its state at hand-over is unknown: {adopted}'
        case t.NoCertificate():
            return f'the node is {fact.state}, but no certificate shows its state at hand-over: {fact.error}'
        case t.HostOn():
            lost = '' if fact.trusted else ' (nothing was ever verified on this node, so no proof is lost)'
            return f'{_on(fact.state)}: these cards are not proven to be locked against it: {_names(fact.cards)}{lost}'
        case t.HostOnUnread():
            return f'{_on(fact.state)}: it cannot be read whether these cards are locked against it: {_names(fact.cards)}'
        case t.HostUnread():
            why = 'its BMC does not report the power state' if fact.error is None else _said(fact.error)
            return f'the node is {fact.state}, and it is unknown whether its host is off: {why}'
        case _:
            assert_never(fact)


def not_closed(why: t.NotClosed) -> str:
    """Say why a lock cannot be engaged again."""
    match why:
        case t.LockNotShown():
            return f'{why.device or "the machine"}: {why.mechanism} is not shown, so it cannot be engaged'
        case t.NeedsReset():
            return (
                f'{_lock(why.card, why.lock)}: it takes effect only after a {why.lock.needs}, which is not done to the '
                'host of a tenant: have the node serviced with lock_accelerators'
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
