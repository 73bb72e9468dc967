# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Show the progress of a recording."""

import time
from typing import TYPE_CHECKING, TextIO

from baremetal_acc.cli.output import text
from baremetal_acc.cli.output.terminal import Moving

if TYPE_CHECKING:
    pass


_EVERY = 5.0
"""Seconds between two progress lines where the output is not a terminal."""


class RecordProgress:
    """Shows how many resources were read: one line that is redrawn on a terminal, a line every few seconds elsewhere."""

    def __init__(self, stream: TextIO, target: str, *, quiet: bool = False) -> None:
        self._stream = stream
        self._target = target
        self._quiet = quiet
        self._moving = Moving(stream, quiet=quiet)
        self._next = 0.0 if self._moving.is_shown else time.monotonic() + _EVERY

    def told(self, read: int, waiting: int) -> None:
        """Show the numbers, at most ten times per second on a terminal and every five seconds elsewhere.

        :param read: resources that were read.
        :param waiting: resources that are known and not read yet.
        """
        if self._quiet or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + (0.1 if self._moving.is_shown else _EVERY)
        line = f'{text.PROGRAM}: {self._target}: {read} resources read, at least {waiting} left'
        if self._moving.is_shown:
            self._moving.draw([line])
        else:
            self._stream.write(f'{line}\n')
            self._stream.flush()

    def end(self) -> None:
        """Remove the progress line."""
        self._moving.clear()
