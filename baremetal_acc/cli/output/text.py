# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Print errors, warnings and notes for people, one line each on standard error, and ask for passwords.

The text of a BMC may hold anything, control sequences of terminals included: only printable characters are printed.
"""

import getpass
import sys
from typing import Any

from baremetal_acc.errors import UsageError

PROGRAM = 'baremetal-acc'


def printable(text: str) -> str:
    """The text on one line, without control characters of a terminal."""
    return ''.join(c if c.isprintable() else ' ' if c in '\t\n\r' else '?' for c in text)


def cell(value: Any, between: str = ', ') -> str:
    """A value as text of a table's cell.

    :param between: the separator of the items of a tuple.
    """
    if isinstance(value, tuple):
        return between.join(cell(item) for item in value)
    return '' if value is None else printable(str(value))


def error(message: str) -> None:
    """Print an error."""
    _say(f'{PROGRAM}: error: {message}')


def warn(message: str) -> None:
    """Print a warning: what the reader ought to know before relying on the result."""
    _say(f'{PROGRAM}: warning: {message}')


def note(message: str) -> None:
    """Print a note on the progress or the result."""
    _say(f'{PROGRAM}: {message}')


def ask(question: str) -> str:
    """Ask for a secret at the terminal; the input is not shown.

    :raises UsageError: the input is not UTF-8, or nothing was typed.
    """
    try:
        found = getpass.getpass(question)
        found.encode()  # fails where Python has let undecodable bytes through, as in some locales
        return found
    except UnicodeError:
        what, hint = 'the input is not UTF-8', 'set the terminal to UTF-8, or use a password file'
    except EOFError:
        what, hint = 'there was no input', None
    raise UsageError(argument=question.strip().removesuffix(':'), what=what, hint=hint)


def _say(line: str) -> None:
    print(printable(line), file=sys.stderr, flush=True)
