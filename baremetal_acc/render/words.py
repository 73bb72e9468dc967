# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Shorten lists of names, and make numbers and verbs agree, for the sentences of the other modules."""

from collections.abc import Sequence

_MOST_NAMES = 4
"""Limit of the names that one text lists."""


def counted(number: int | str, noun: str) -> str:
    """Return a number with its noun, which is in the plural unless the number is 1."""
    return f'{number} {noun}{"" if str(number) == "1" else "s"}'


def are(names: Sequence[str]) -> str:
    """Return the verb after a list of names."""
    return 'is' if len(names) == 1 else 'are'


def do(names: Sequence[str]) -> str:
    """Return the auxiliary verb after a list of names."""
    return 'does' if len(names) == 1 else 'do'


def shortened(names: Sequence[str], most: int = _MOST_NAMES) -> str:
    """Return the first names of a list, and how many more there are."""
    more = '' if len(names) <= most else f' and {len(names) - most} more'
    return f'{", ".join(names[:most])}{more}'
