# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How does the command line talk to people? One line on standard error for each thing worth saying.

What a BMC says may hold anything, control sequences of terminals included: only printable characters get through.
"""

import getpass
import sys
from typing import Any

from baremetal_acc.errors import UsageError

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


def ask(question: str) -> str:
    """A secret that somebody types. It is not shown.

    :raises UsageError: it is no text, or nothing was typed.
    """
    try:
        found = getpass.getpass(question)
        found.encode()  # Python lets other bytes through in some locales
        return found
    except UnicodeError:
        what, hint = 'what was typed is not UTF-8', 'see how the terminal writes letters beyond ASCII, or use a password file'
    except EOFError:
        what, hint = 'nothing was typed', None
    raise UsageError(argument=question.strip().removesuffix(':'), what=what, hint=hint)


def _say(line: str) -> None:
    print(printable(line), file=sys.stderr, flush=True)
