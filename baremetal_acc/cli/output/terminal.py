# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Tables and progress lines on a terminal, as wide as the terminal. Used only where the output is a terminal.

rich is imported only when it is needed: the import takes a tenth of a second, which a command that prints to a file saves.
"""

import argparse
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from baremetal_acc.cli.output.text import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

_BAR = 24
"""Characters of a bar."""

Line = str | tuple[int | None, str]
"""A line of text, or a progress bar with its text: the percentage is None where it is not known."""


class Moving:
    """Progress lines that are redrawn in place on a terminal, and removed before anything else is printed.

    Nothing is drawn where the output is not a terminal.

    :param quiet: draw nothing on a terminal either.
    :ivar is_shown: whether lines are drawn at all.
    """

    def __init__(self, stream: TextIO, *, quiet: bool = False) -> None:
        self._stream = stream
        self._live: Live | None = None
        self.is_shown = stream.isatty() and not quiet

    def draw(self, lines: Iterable[Line]) -> None:
        """Draw these lines in place of the previous ones."""
        if not self.is_shown:
            return
        from rich.live import Live
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        table = Table.grid(padding=(0, 1, 0, 0))
        table.add_column(no_wrap=True, overflow='ellipsis')
        for line in lines:
            if isinstance(line, str):
                table.add_row(_text(line))
                continue
            percent, words = line
            bar = Table.grid(padding=(0, 1, 0, 0))
            bar.add_column(width=_BAR)
            bar.add_column(width=5, justify='right')
            bar.add_column(no_wrap=True, overflow='ellipsis')
            done = None if percent is None else min(100, max(0, percent))
            # An animated bar would need a thread: an unknown percentage is drawn as an empty bar.
            bar.add_row(ProgressBar(completed=done or 0), '? %' if done is None else f'{done} %', _text(words))
            table.add_row(bar)
        if self._live is None:
            console = _console(self._stream)
            self._live = Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False)
            self._live.start()
            console.show_cursor()  # so that a process that is killed leaves no hidden cursor
        self._live.update(table, refresh=True)

    def clear(self) -> None:
        """Remove the lines, so that something else can be printed."""
        if self._live is not None:
            self._live.stop()
            self._live = None


class Formatter:
    """A table as wide as the terminal, in place of cliff's table. A cell that is too long for its column is wrapped.

    :param compact: without borders, so that more fits on a line.
    """

    def __init__(self, *, compact: bool = False) -> None:
        self._compact = compact

    def emit_list(
        self, column_names: Sequence[str], data: Iterable[Sequence[Any]], stdout: TextIO, parsed_args: argparse.Namespace
    ) -> None:
        """Print the table. Called by cliff."""
        from rich.box import ROUNDED, SIMPLE_HEAD
        from rich.table import Table

        rows = [tuple(map(str, row)) for row in data]
        if not rows and not parsed_args.print_empty:
            return
        if self._compact:
            table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), header_style='bold', border_style='dim')
        else:
            lines = any('\n' in c for row in rows for c in row)
            table = Table(box=ROUNDED, header_style='bold', border_style='dim', show_lines=lines)
        for name in column_names:
            table.add_column(_text(name), overflow='fold')
        for row in rows:
            table.add_row(*(_lines(cell) for cell in row))
        _console(stdout, parsed_args.max_width).print(table)


def _console(stream: TextIO, width: int = 0) -> 'Console':
    from rich.console import Console

    return Console(file=stream, force_terminal=True, highlight=False, width=width if width > 0 else None)


def _text(words: str) -> 'Text':
    """The text without rich's markup and without control characters of a terminal."""
    from rich.text import Text

    return Text(printable(words))


def _lines(cell: str) -> 'Text':
    """A cell of a table, one line for each of its items."""
    from rich.text import Text

    return Text('\n').join(map(_text, cell.split('\n')))
