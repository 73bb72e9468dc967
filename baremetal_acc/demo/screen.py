# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How does the story look? Sections, lines, tables and checked facts; coloured on a terminal only, and kept in a file."""

import os
import sys
import textwrap
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

RESET = '\x1b[0m'
BOLD = '\x1b[1m'
DIM = '\x1b[2m'
RED = '\x1b[31m'
GREEN = '\x1b[32m'
CYAN = '\x1b[36m'
CLEAR_LINE = '\r\x1b[2K'

WIDTH = 116
"""Longer lines are wrapped: wide enough for the tables, narrow enough for a laptop."""

BAR_CELLS = 24


class ClaimFailed(Exception):
    """A fact of the story does not hold.

    :ivar what: the fact; ``expected`` and ``found`` as text.
    """

    def __init__(self, what: str, expected: object, found: object) -> None:
        self.what = what
        self.expected = str(expected)
        self.found = str(found)
        super().__init__(f'{what}: expected {self.expected}, found {self.found}')


class Screen:
    """Where the story is told: standard output, and without colours a file beside the logs.

    :param file: the copy.
    """

    def __init__(self, file: Path) -> None:
        self._copy = file.open('w', encoding='utf-8')
        self._out: IO[str] = sys.stdout
        self._is_terminal = self._out.isatty() and os.environ.get('TERM', '') != 'dumb' and 'NO_COLOR' not in os.environ
        self._has_progress = False
        self._began = time.monotonic()
        self.facts = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._erase()
        self._copy.close()

    # -- words --------------------------------------------------------------------------------------------------------

    def section(self, title: str) -> None:
        """A new chapter, with the seconds since the beginning."""
        stamp = f'{time.monotonic() - self._began:5.1f} s'
        self._write(f'\n== {title} {"=" * max(3, WIDTH - len(title) - len(stamp) - 5)} {stamp}', BOLD + CYAN)

    def say(self, text: str) -> None:
        """What happens, in a sentence."""
        for line in textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False) or ['']:
            self._write(line)

    def detail(self, text: str) -> None:
        """What a service answers, word for word, indented."""
        for line in textwrap.wrap(text, WIDTH - 4, break_long_words=False, break_on_hyphens=False) or ['']:
            self._write(f'    {line}', DIM)

    def failure(self, text: str) -> None:
        """What went wrong."""
        self._write(text, RED)

    def table(self, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """A table. A last column that is too long for the width ends in dots."""
        lines = [tuple(head), *(tuple(row) for row in rows)]
        widths = [max(len(line[column]) for line in lines) for column in range(len(head) - 1)]
        room = max(12, WIDTH - 4 - sum(width + 2 for width in widths))
        lines = [(*line[:-1], line[-1] if len(line[-1]) <= room else f'{line[-1][: room - 3]}...') for line in lines]
        for number, line in enumerate(lines):
            cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=False)]
            self._write('    ' + '  '.join([*cells, line[-1]]).rstrip(), BOLD if number == 0 else '')
            if number == 0:
                self._write('    ' + '  '.join('-' * width for width in (*widths, max(len(one[-1]) for one in lines))), DIM)

    # -- facts --------------------------------------------------------------------------------------------------------

    def expect(self, what: str, expected: object, found: object) -> None:
        """A fact that the story claims.

        :raises ClaimFailed: it does not hold.
        """
        if expected != found:
            raise ClaimFailed(what, expected, found)
        self.facts += 1
        self._write(f'  + {what}', GREEN)

    def expect_words(self, what: str, words: Iterable[str], text: str) -> None:
        """A fact about a text: it holds all of these words.

        :raises ClaimFailed: one is missing.
        """
        missing = [word for word in words if word.casefold() not in text.casefold()]
        if missing:
            raise ClaimFailed(what, f'a text with {", ".join(missing)}', text or 'nothing')
        self.facts += 1
        self._write(f'  + {what}', GREEN)

    # -- progress -----------------------------------------------------------------------------------------------------

    def progress(self, parts: Sequence[tuple[str, int]]) -> None:
        """What is under way, with percentages: one line that changes on a terminal, nothing elsewhere."""
        if not self._is_terminal:
            return
        text = '  '.join(f'{name} {_bar(percent, BAR_CELLS // max(1, len(parts)))} {percent:3d} %' for name, percent in parts)
        self._out.write(f'{CLEAR_LINE}    {text[: WIDTH + 20]}')
        self._out.flush()
        self._has_progress = True

    def milestone(self, text: str) -> None:
        """A moment of the progress that stays to be read, also where there is no terminal."""
        self._write(f'    {text}', DIM)

    def _erase(self) -> None:
        if self._has_progress:
            self._out.write(CLEAR_LINE)
            self._out.flush()
            self._has_progress = False

    def _write(self, line: str, style: str = '') -> None:
        self._erase()
        self._out.write(f'{style}{line}{RESET}\n' if style and self._is_terminal else f'{line}\n')
        self._out.flush()
        self._copy.write(f'{line}\n')
        self._copy.flush()


def _bar(percent: int, cells: int) -> str:
    full = round(cells * percent / 100)
    return f'[{"#" * full}{"." * (cells - full)}]'
