# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Merge texts that differ only in numbers, as those of several identical cards do: ``GPU_0`` and ``GPU_1`` become ``GPU_*``."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from baremetal_acc.render.words import shortened

_NUMBER = re.compile('([0-9]+)')

T = TypeVar('T')


def shape(text: str) -> str:
    """Return the text with each number replaced by ``*``: equal for texts that differ only in numbers."""
    return _NUMBER.sub('*', text)


def merged(texts: Sequence[str]) -> str:
    """Return one text for texts of the same shape, with ``*`` for each number in which they differ."""
    if len({shape(text) for text in texts}) > 1:
        raise ValueError('texts that differ in more than numbers')
    columns = zip(*map(_NUMBER.split, texts), strict=True)
    return ''.join(column[0] if len(set(column)) == 1 else '*' for column in columns)


def grouped(items: Iterable[T], key: Callable[[T], object]) -> list[list[T]]:
    """Return the items in groups of the same key, in the order of the first item of each group."""
    found: dict[object, list[T]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return list(found.values())


def named(labels: Iterable[str]) -> str:
    """Return the labels of devices, those that differ only in numbers once, with their number: ``H100 GPU_* (8)``."""
    groups = grouped(dict.fromkeys(labels), shape)
    return shortened([group[0] if len(group) == 1 else f'{merged(group)} ({len(group)})' for group in groups])
