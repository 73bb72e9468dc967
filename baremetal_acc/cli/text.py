# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How does the command line talk to people? One line on standard error for each thing worth saying.

What a BMC says may hold anything, control sequences of terminals included: only printable characters get through.
"""

import sys
from typing import Any

PROGRAM = 'baremetal-acc'


def printable(text: str) -> str:
    """The text on one line, without characters that a terminal would obey."""
    return ''.join(c if c.isprintable() else ' ' if c in '\t\n\r' else '?' for c in text)


def cell(value: Any, between: str = ', ') -> str:
    """A value in a cell of a table.

    :param between: what stands between the items of a tuple.
    """
    if isinstance(value, tuple):
        return between.join(cell(item) for item in value)
    return '' if value is None else printable(str(value))


def error(message: str) -> None:
    """Say what failed."""
    _say(f'{PROGRAM}: error: {message}')


def warn(message: str) -> None:
    """Say what the reader ought to know before relying on the result."""
    _say(f'{PROGRAM}: warning: {message}')


def note(message: str) -> None:
    """Say what goes on."""
    _say(f'{PROGRAM}: {message}')


def _say(line: str) -> None:
    print(printable(line), file=sys.stderr, flush=True)
