# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Print errors, warnings and notes for people on standard error, one line each, and ask for passwords.

An error with several causes has one more line, indented, for each of them.

The text of a BMC may hold anything, control sequences of terminals included: only printable characters are printed.
"""

import getpass
import sys
from collections.abc import Iterable
from typing import Any, TextIO

from baremetal_acc import standard_streams
from baremetal_acc.errors import LocalError, UsageError

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


def error(message: str, *causes: str) -> None:
    """Print an error, and below it its causes, each on a line of its own."""
    _say(f'{PROGRAM}: error: {message}')
    for cause in causes:
        _say(cause)


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
        what, hint = 'there was no input', 'type it, or use a password file'
    raise UsageError(argument=question.strip().removesuffix(':'), what=what, hint=hint)


class Output:
    """Standard output, whose failures are errors that name it. A reader that has gone is a ``BrokenPipeError``, as elsewhere.

    Attributes that are not defined here are those of the stream.

    :ivar reader_has_gone: a write has failed because nobody reads the output any more.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.reader_has_gone = False

    def write(self, data: str) -> int:
        """Write text.

        :raises LocalError: it cannot be written.
        """
        try:
            return self._stream.write(data)
        except BrokenPipeError:
            self.reader_has_gone = True
            raise
        except OSError as exc:
            raise self._lost(exc) from exc

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts.

        :raises LocalError: one cannot be written.
        """
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Write what is buffered.

        :raises LocalError: it cannot be written.
        """
        if self._stream.closed:  # by the pager of the help, whose reader has gone
            return
        try:
            self._stream.flush()
        except BrokenPipeError:
            self.reader_has_gone = True
            raise
        except OSError as exc:
            raise self._lost(exc) from exc

    def _lost(self, exc: OSError) -> LocalError:
        standard_streams.discard(self._stream)
        return LocalError(
            'standard output', f'cannot be written: {exc.strerror}', hint='send the output to a file that has room'
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _say(line: str) -> None:
    try:
        print(printable(line), file=sys.stderr, flush=True)
    except OSError:
        standard_streams.discard(sys.stderr)  # nobody can be told
