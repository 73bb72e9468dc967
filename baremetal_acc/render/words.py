# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Shorten lists of names for the sentences of the other modules."""

from collections.abc import Sequence

_MOST_NAMES = 4
"""Limit of the names that one text lists."""


def shortened(names: Sequence[str]) -> str:
    """Return the first names of a list, and how many more there are."""
    more = '' if len(names) <= _MOST_NAMES else f' and {len(names) - _MOST_NAMES} more'
    return f'{", ".join(names[:_MOST_NAMES])}{more}'
