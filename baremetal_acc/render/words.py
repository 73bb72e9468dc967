# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Small pieces that several sentences are made of."""

from collections.abc import Sequence

_MOST_NAMES = 4
"""Of one list in one text."""


def shortened(names: Sequence[str]) -> str:
    """The first names of a list, and how many more there are."""
    more = '' if len(names) <= _MOST_NAMES else f' and {len(names) - _MOST_NAMES} more'
    return f'{", ".join(names[:_MOST_NAMES])}{more}'
