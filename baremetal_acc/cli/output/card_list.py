# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The cards of an inventory as a list of lines, for a terminal that is too narrow for their table."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from baremetal_acc.cli.output.layout import INDENT, Block
from baremetal_acc.cli.output.text import cell

Row = tuple[object, ...]
"""A row of the table: target, kind, model, identity, place, firmware, functions and lock."""


def instead_of_table(columns: Sequence[str], rows: Sequence[Row], width: int | None) -> tuple[Block, ...] | None:
    """A block for each target; None where the table fits.

    :param width: columns of the terminal; None where lines are not wrapped.
    """
    if width is None or _table_width(columns, rows) <= width:
        return None
    return tuple(
        Block(before=(f'{target}:', *(line for row in of_target for line in _lines(row))))
        for target, of_target in groupby(rows, key=lambda row: row[0])
    )


def _table_width(columns: Sequence[str], rows: Sequence[Row]) -> int:
    """The width of the table with no cell wrapped: each column has two blanks and a border."""
    cells = [columns, *(tuple(cell(value, '\n') for value in row) for row in rows)]
    return 1 + sum(3 + max(len(line) for text in column for line in text.split('\n')) for column in zip(*cells, strict=True))


def _lines(row: Row) -> Iterator[str]:
    """The lines of a card: what it is, where it is and its lock, then its firmware, then its functions."""
    _, kind, model, identity, place, firmware, functions, lock = row
    named = ' '.join(filter(None, map(cell, (kind, model, identity))))
    yield f'{INDENT}{named}{f" ({place})" if place else ""}: {cell(lock)}'
    for parts in (firmware, functions):
        if parts:
            yield f'{INDENT * 2}{cell(parts)}'
