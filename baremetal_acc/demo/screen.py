# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Print the demo on the terminal: sections, sentences, tables, checked facts and progress bars.

A terminal gets colours; any other output, and the copy in a file, get the same words without. The answers of services are
printed as plain text: neither as markup nor as control sequences of a terminal.
"""

import sys
import textwrap
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

WIDTH = 116
"""Characters of a line of the copy, and of an output that is no terminal: wide enough for the tables."""

CELL_WIDTH = 24
"""The widest cell, except the last of a row, in a table that would be too wide otherwise; longer text wraps."""

BAR_CELLS = 24

INDENT = (0, 0, 0, 4)
"""Padding of tables and bars: above, right, below, left."""


class ClaimFailed(Exception):
    """A fact that the story claims is false.

    :ivar what: the fact, in words.
    :ivar expected: the expected value as text.
    :ivar found: the value that was found, as text.
    """

    def __init__(self, what: str, expected: object, found: object) -> None:
        self.what = what
        self.expected = str(expected)
        self.found = str(found)
        super().__init__(f'{what}: expected {self.expected}, found {self.found}')


class Screen:
    """Prints the story to standard output, and without colours to a file next to the logs.

    :param file: the path of that copy.
    """

    def __init__(self, file: Path) -> None:
        self._copy = file.open('w', encoding='utf-8')
        is_terminal = sys.stdout.isatty()  # FORCE_COLOR is ignored
        self._out = Console(file=sys.stdout, force_terminal=is_terminal, highlight=False, width=None if is_terminal else WIDTH)
        self._consoles = (self._out, Console(file=self._copy, force_terminal=False, highlight=False, width=WIDTH))
        self._live: Live | None = None
        self._began = time.monotonic()
        self.facts = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._erase()
        self._copy.close()

    # -- words --------------------------------------------------------------------------------------------------------

    def section(self, title: str) -> None:
        """Print the title of a section, with the seconds since the beginning."""
        stamp = f'{time.monotonic() - self._began:5.1f} s'
        self._erase()
        for console in self._consoles:
            *lines, last = textwrap.wrap(f'== {title}', console.width - len(stamp) - 5)
            rule = '=' * (console.width - len(last) - len(stamp) - 2)
            self._print(console, Text('\n'.join(['', *lines, f'{last} {rule} {stamp}']), style='bold cyan'))

    def say(self, text: str) -> None:
        """Print a sentence on what happens."""
        self._write(text)

    def detail(self, text: str) -> None:
        """Print the answer of a service, unchanged and indented."""
        self._write(text, 'dim', '    ')

    def failure(self, text: str) -> None:
        """Print an error."""
        for line in text.split('\n'):
            self._write(line, 'red')

    def table(self, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Print a table without breaking words; where the terminal is too narrow for it, one line for each cell."""
        lines = [tuple(map(_text, row)) for row in (head, *rows)]
        self._erase()
        for console in self._consoles:
            bounds = (_widths(lines, bound) for bound in (console.width, CELL_WIDTH))
            widths = next((w for w in bounds if sum(w) + 2 * len(head) + 2 <= console.width), None)
            self._print(console, Padding(_listed(lines) if widths is None else _table(lines, widths), INDENT, expand=False))

    # -- facts --------------------------------------------------------------------------------------------------------

    def expect(self, what: str, expected: object, found: object) -> None:
        """Check a fact that the story claims, and print it.

        :raises ClaimFailed: the values differ.
        """
        if expected != found:
            raise ClaimFailed(what, expected, found)
        self._fact(what)

    def expect_words(self, what: str, words: Iterable[str], text: str) -> None:
        """Check that a text contains all of these words, and print the fact.

        :raises ClaimFailed: a word is missing.
        """
        missing = [word for word in words if word.casefold() not in text.casefold()]
        if missing:
            raise ClaimFailed(what, f'a text with {", ".join(missing)}', text or 'nothing')
        self._fact(what)

    def _fact(self, what: str) -> None:
        self.facts += 1
        self._write(what, 'green', '    ', '  + ')

    # -- progress -----------------------------------------------------------------------------------------------------

    def progress(self, parts: Sequence[tuple[str, int]]) -> None:
        """Draw progress bars, which are redrawn on a terminal; elsewhere draw nothing.

        :param parts: pairs of a name and a percentage.
        """
        if not self._out.is_terminal:
            return
        if self._live is None:
            self._live = Live(
                console=self._out, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
            )
            self._live.start()
            self._out.show_cursor()  # so that a process that is killed leaves no hidden cursor
        bars = Table.grid(padding=(0, 2, 0, 0))
        bars.add_column(width=BAR_CELLS)
        bars.add_column(justify='right')
        bars.add_column(no_wrap=True, overflow='ellipsis')
        for name, percent in parts:
            bars.add_row(ProgressBar(completed=percent), f'{percent} %', _text(name))
        self._live.update(Padding(bars, INDENT), refresh=True)

    def milestone(self, text: str) -> None:
        """Print an event of the progress as a line that stays, also where the output is no terminal."""
        self.detail(text)

    def _erase(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _write(self, text: str, style: str = '', indent: str = '', first: str | None = None) -> None:
        """Print text, wrapped. A word that is longer than the line, such as a path, stays whole, so that it can be copied."""
        self._erase()
        wrap = textwrap.TextWrapper(
            initial_indent=indent if first is None else first,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for console in self._consoles:
            wrap.width = console.width
            self._print(console, *(_text(line, style) for line in wrap.wrap(text) or ['']))

    def _print(self, console: Console, *what: Text | Padding) -> None:
        for one in what:
            with console.capture() as shown:
                console.print(one, soft_wrap=isinstance(one, Text))
            console.file.write(''.join(f'{line.rstrip(" ")}\n' for line in shown.get().splitlines()) or '\n')
        console.file.flush()


def _text(text: str, style: str = '') -> Text:
    """The text without rich's markup and without control characters of a terminal."""
    return Text(''.join(c if c.isprintable() else ' ' if c.isspace() else '?' for c in text), style=style)


def _widths(lines: Sequence[Sequence[Text]], bound: int) -> list[int]:
    """The widths of a table's columns: that of the longest cell, but at most ``bound``, and never less than a word."""
    columns = list(zip(*lines, strict=True))
    words = [max(cell_len(word) for cell in column for word in cell.plain.split() or ['']) for column in columns]
    cells = [max(cell.cell_len for cell in column) for column in columns]
    return [max(word, min(cell, bound)) for word, cell in zip(words[:-1], cells[:-1], strict=True)] + words[-1:]


def _table(lines: Sequence[Sequence[Text]], widths: Sequence[int]) -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True, border_style='dim')
    for name, width in zip(lines[0][:-1], widths[:-1], strict=True):
        table.add_column(name, width=width)
    table.add_column(lines[0][-1])
    for row in lines[1:]:
        table.add_row(*row)
    return table


def _listed(lines: Sequence[Sequence[Text]]) -> Table:
    """The rows of a table one below the other, with a line for each cell."""
    listed = Table.grid(padding=(0, 2, 0, 0))
    for row in lines[1:]:
        for name, cell in zip(lines[0], row, strict=True):
            listed.add_row(name, cell)
        listed.add_row()
    listed.columns[0].style = 'dim'
    return listed
