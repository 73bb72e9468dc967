# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The report on a target for people: lines, a table where there is one, and lines below it.

Lines are wrapped to the width of a terminal. In a pipe or a file each stays one line, so that ``grep`` finds it whole.
"""

import os
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TextIO

from baremetal_acc.cli.output.text import printable

_FEWEST = 40
"""Columns below which lines are not wrapped any narrower: the terminal does that."""

INDENT = '  '


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """The report on one target for people.

    :ivar before: lines above the table.
    :ivar after: lines below it. A line that begins with blanks belongs to the one above it.
    """

    columns: tuple[str, ...] = ()
    rows: tuple[tuple[object, ...], ...] = ()
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


def width(stream: TextIO, wanted: int = 0) -> int | None:
    """The number of columns to which lines are wrapped: ``wanted``, or that of the terminal; None: lines are not wrapped.

    ``COLUMNS`` overrides the width of a terminal, as for tables.
    """
    if wanted > 0:
        return wanted
    if not stream.isatty():
        return None
    named = os.environ.get('COLUMNS', '')
    if named.isdecimal() and int(named) > 0:
        return int(named)
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def wrapped(lines: Iterable[str], columns: int | None) -> Iterator[str]:
    """The lines without control characters, wrapped at blanks; what follows the first line of each is indented.

    A word that is longer than a line, such as a URI, is not broken: it can still be copied.
    """
    for line in lines:
        line = printable(line)
        indent = line[: len(line) - len(line.lstrip(' '))]
        if columns is None or len(line) <= columns:
            yield line
            continue
        yield from textwrap.wrap(
            line.lstrip(' '),
            max(columns, _FEWEST),
            initial_indent=indent,
            subsequent_indent=f'{indent}{INDENT * 2}',
            break_long_words=False,
            break_on_hyphens=False,
        )
