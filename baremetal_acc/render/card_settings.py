# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Render the findings about the settings of cards: what a rule expects, and what the BMC shows."""

from typing import assert_never

from baremetal_acc.model.card_setting import CardSettingReading, CardSettingResult
from baremetal_acc.model.finding import CardSettingFound

_MOST = 4
"""Limit of the properties that one text lists."""


def words(fact: CardSettingFound) -> tuple[str, str]:
    """Return what was expected and what was found."""
    return fact.expected, _found(fact)


def _found(fact: CardSettingFound) -> str:
    match fact.result:
        case CardSettingResult.MATCHES:
            return fact.expected
        case CardSettingResult.DIFFERS:
            return _listed([f'{r.value} ({_place(r)}){_later(r)}' for r in fact.readings])
        case CardSettingResult.PENDING:
            return _listed([f'{r.value or "not shown"} ({_place(r)}){_later(r)}' for r in fact.readings])
        case CardSettingResult.UNREAD:
            return f'could not be read: {_listed([f"{_place(r)}: {r.reason}" for r in fact.readings])}'
        case CardSettingResult.NOT_SHOWN:
            where = _listed([_place(r) for r in fact.readings])
            return f'not shown by the BMC{f" ({where})" if where else ""}'
        case CardSettingResult.NOT_READ:
            return 'not read in this inspection'
    assert_never(fact.result)


def _later(reading: CardSettingReading) -> str:
    return '' if reading.pending is None else f', with {reading.pending} set for the next reset'


def _place(reading: CardSettingReading) -> str:
    return f'{reading.ref} {reading.field}'


def _listed(texts: list[str]) -> str:
    more = [f'and {len(texts) - _MOST} more'] if len(texts) > _MOST else []
    return '; '.join((*texts[:_MOST], *more))
