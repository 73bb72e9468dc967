# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Render what has changed between two inspections of a target (drift) as sentences."""

from typing import assert_never

from baremetal_acc.model import inventory_change
from baremetal_acc.model.inventory_change import Change, ChangeKind
from baremetal_acc.planning.drift import CHARACTERS, shown

_MAY = {True: 'the host may program it', False: 'the host may not program it'}


def sentence(change: Change) -> str:
    """Say what has changed, and what else the reader has to know about it."""
    because = '' if change.reason is None else f' ({reason(change.reason)})'
    return f'{_text(change)}{because}'


def _text(change: Change) -> str:
    name, was, found = f'{change.label} ({change.accelerator})', value(change.was), value(change.found)
    match change.kind:
        case ChangeKind.GONE:
            return f'{name} is gone, was at {was}'
        case ChangeKind.NEW:
            return f'{name} is new, at {found}'
        case ChangeKind.SWAPPED:
            return f'{name} is in the place of {was}'
        case ChangeKind.MOVED:
            return f'{name} has moved: at {was} before, at {found} now'
        case ChangeKind.IDENTITY:
            return f'{name} was known as {was} before'
        case ChangeKind.NOT_SEEN:
            return f'{name} could not be read, was at {was}'
        case ChangeKind.UNREADABLE:
            return f'{change.label}, {change.subject}: {was} before, could not be read now'
        case ChangeKind.DEVICE | ChangeKind.FIRMWARE | ChangeKind.FUNCTION | ChangeKind.LOCK | ChangeKind.PATH:
            return f'{change.label}, {change.subject}: {was or "absent"} before, {found or "absent"} now'
        case _:
            assert_never(change.kind)


def value(of: inventory_change.Value | None) -> str | None:
    """Render the old or new value of a change; None for nothing."""
    match of:
        case None | str():
            return of
        case bool():
            return _MAY[of]
        case inventory_change.CardNamed():
            return f'{of.label} ({of.id})'
        case inventory_change.CardSaying():
            return f'a card with {", ".join(f"{name} {text}" for name, text in of.facts)}'
        case inventory_change.Staged():
            return f'{of.version or "no version"}, with {of.staged} staged for the next reset'
        case inventory_change.SlotContent():
            return shown(' '.join(of.parts)) or 'empty'
        case _:
            assert_never(of)


def reason(why: inventory_change.Reason) -> str:
    """Say why something could not be read, or what else the reader has to know."""
    return shown(_reason(why), 3 * CHARACTERS)


def _reason(why: inventory_change.Reason) -> str:
    match why:
        case inventory_change.BmcsNotAsked():
            return f'not read: BMC {", ".join(why.names)}'
        case inventory_change.BehindGap():
            return f'{why.gap.ref} could not be read: {why.gap.reason}'
        case inventory_change.WasHidden():
            return f'or was hidden before: {_reason(why.by)}'
        case inventory_change.KnownByUri():
            return 'identified by its URI only: an identical card in its place would not be noticed'
        case inventory_change.SameCard(proof=None):
            return 'it is unknown whether it is the same card'
        case inventory_change.SameCard():
            return f'it is the same card by its {why.proof}'
        case inventory_change.NotRead():
            return f'{why.gap.ref}: {why.gap.reason}'
        case _:
            assert_never(why)
