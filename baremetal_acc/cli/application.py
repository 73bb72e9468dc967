# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The cliff application ``baremetal-acc``: its logging, and the exit code and error line of each failure."""

import argparse
import contextlib
import io
import itertools
import logging
import os
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import TextIO

from cliff import app, command, commandmanager

from baremetal_acc import standard_streams
from baremetal_acc.cli import exits, interruption
from baremetal_acc.cli.exits import Exit
from baremetal_acc.cli.output import text
from baremetal_acc.cli.output.report import strict
from baremetal_acc.errors import AccError, LocalError, UsageError
from baremetal_acc.model.toml import did_you_mean

OURS = 'baremetal_acc'

_LEVELS = {0: logging.ERROR, 1: logging.ERROR, 2: logging.INFO}


class _Verbs(commandmanager.CommandManager):
    """The commands, found by their entry points. Cliff's own manager would import every command to learn its name."""

    def load_commands(self, namespace: str) -> None:
        """Read the entry points of a namespace. Called by cliff."""
        self.group_list.append(namespace)
        self.commands.update({entry.name: entry for entry in metadata.entry_points(group=namespace)})

    def add_command(self, name: str, command_class: type[command.Command]) -> None:
        """Add a command of cliff, unless we have one of that name. Called by cliff."""
        if name not in self.commands:
            super().add_command(name, command_class)


class App(app.App):
    """The cliff application ``baremetal-acc``."""

    NAME = text.PROGRAM

    done: Exit = Exit.HOLDS
    """The exit code of the work that a command has done. It counts also if printing the report fails afterwards."""

    def __init__(self, output: text.Output | None = None) -> None:
        super().__init__(
            description='Inventory, flash, program, lock and verify accelerators of bare-metal machines through their BMCs.',
            version=metadata.version('baremetal-acc'),
            command_manager=_Verbs('baremetal_acc.cli', convert_underscores=False),
            stdout=output,  # type: ignore[arg-type]  # it has what cliff and the commands use
            deferred_help=True,
        )

    def build_option_parser(
        self, description: str | None, version: str | None, argparse_kwargs: dict[str, object] | None = None
    ) -> argparse.ArgumentParser:
        """The parser of the options that every command has."""
        return strict(super().build_option_parser(description, version, {'prog': self.NAME, **(argparse_kwargs or {})}))

    def configure_logging(self) -> None:
        """Log our own messages to standard error and ``--log-file``; those of libraries may hold passwords and tokens."""
        root = logging.getLogger()
        root.setLevel(logging.WARNING)
        console = _Console(self.stderr)
        console.setLevel(_LEVELS.get(self.options.verbose_level, logging.DEBUG))
        # Messages that are not written are not even formatted: a fleet makes thousands of requests.
        logging.getLogger(OURS).setLevel(logging.DEBUG if self.options.log_file else console.level)
        console.setFormatter(_OneLine(f'{self.NAME}: %(message)s'))
        handlers: list[logging.Handler] = [console]
        if self.options.log_file:
            to_file = _LogFile(self.options.log_file)
            to_file.setFormatter(_OneLine(self.LOG_FILE_MESSAGE_FORMAT))
            handlers.append(to_file)
        for handler in handlers:
            handler.addFilter(logging.Filter(OURS))
            root.addHandler(handler)

    def run(self, argv: list[str]) -> int:
        """Run one command."""
        self.options, rest = self.parser.parse_known_args(argv)
        self.configure_logging()
        _check_variables()
        if rest and self.options.deferred_help:
            self.options.deferred_help = False
            # From the first option on these are arguments of the command, whose help needs none of them.
            rest = ['help', *itertools.takewhile(lambda word: not word.startswith('-'), rest)]
        self.print_help_if_requested()
        if not rest:
            self.parser.print_help(self.stderr)
            return Exit.USAGE
        return self.run_subcommand(rest)

    def run_subcommand(self, argv: list[str]) -> int:
        """Find the command and run it.

        :raises AccError: it failed.
        """
        try:
            factory, name, rest = self.command_manager.find_command(argv)
        except ValueError:
            raise self._no_such(argv[0]) from None
        made = factory(self, self.options, cmd_name=name)
        parser = made.get_parser(f'{self.NAME} {name}')
        if name == 'help':
            strict(parser)  # it is cliff's
        parsed = parser.parse_args(rest)
        if name == 'help' and parsed.cmd and not any(one.startswith(parsed.cmd[0]) for one, _ in self.command_manager):
            raise self._no_such(parsed.cmd[0])
        return made.run(parsed)

    def _no_such(self, word: str) -> UsageError:
        hint = did_you_mean(word, [name for name, _ in self.command_manager]) or f'see {self.NAME} --help'
        return UsageError(argument=word, what='no such command', hint=hint)


def _check_variables() -> None:
    """Check the variables that cliff reads as numbers when it builds the parser of a command.

    :raises UsageError: one is no number.
    """
    for name in ('CLIFF_MAX_TERM_WIDTH', 'CLIFF_FIT_WIDTH'):
        try:
            int(os.environ.get(name, 0))
        except ValueError:
            what = f'{os.environ[name]!r} is not a whole number'
            raise UsageError(argument=f'environment variable {name}', what=what, hint='unset it') from None


class _Console(logging.StreamHandler[TextIO]):
    """Logs to standard error. A message that cannot be written there is lost without a traceback."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name in logging
        """Called by logging."""
        standard_streams.discard(self.stream)


class _LogFile(logging.FileHandler):
    """Logs to the file of ``--log-file``. The first message that cannot be written is reported, and ends the log."""

    def __init__(self, path: str) -> None:
        """Open the file.

        :raises UsageError: it cannot be opened.
        """
        self._path = path
        try:
            # Not blocking, so that a FIFO without a reader is an error.
            os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o666))
            super().__init__(path, encoding='utf-8', errors='backslashreplace')
        except OSError as exc:
            raise UsageError(argument='--log-file', what=f'{path!r}: {exc.strerror}', hint=_LOG_HINT) from exc

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name in logging
        """Called by logging."""
        found = sys.exc_info()[1]
        text.warn(f'--log-file: {self._path!r} cannot be written: {found}; the log ends here')
        logging.getLogger().removeHandler(self)
        if self.stream is not None:
            standard_streams.discard(self.stream)


_LOG_HINT = 'name a file that you may write'


class _OneLine(logging.Formatter):
    """Formats a log record as one line without control characters, which text of a BMC may contain."""

    def format(self, record: logging.LogRecord) -> str:
        record.exc_info = None
        return text.printable(super().format(record))


def run(arguments: Sequence[str]) -> int:
    """Run one command, print its error, and return its exit code; see :class:`baremetal_acc.cli.exits.Exit`."""
    arguments = list(arguments)
    # Read before the arguments are parsed, so that a failure of the parser shows its traceback, too.
    debug = '--debug' in arguments
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A character that the output's encoding lacks must not prevent the rest from being printed.
        sys.stdout.reconfigure(errors='backslashreplace')
    done: list[App] = []
    return exits.worst((_ended(done, arguments, debug=debug), *(application.done for application in done)))


def _ended(made: list[App], arguments: list[str], *, debug: bool) -> Exit:
    """Run the command, print its error, and return its exit code.

    :param made: takes the application, which is there even if the command fails.
    """
    output = text.Output(sys.stdout)
    try:
        with interruption.bounded():
            application = App(output)
            made.append(application)
            try:
                code = application.run(arguments)
            except SystemExit as exc:  # of the help and the version
                code = int(exc.code or 0)
            output.flush()
            return Exit(code)
    except AccError as exc:
        if debug:
            raise
        text.error(str(exc))
        return exits.of(exc)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except Exception as exc:
        if output.reader_has_gone:
            standard_streams.discard(sys.stdout)  # Python would report the error again when it closes the stream
            return Exit.HOLDS
        if debug:
            raise
        failure = _of_environment(exc)
        if failure is not None:
            text.error(str(failure))
            return exits.of(failure)
        text.error(f'internal error: {type(exc).__name__}: {exc} (run it again with --debug and report what it says)')
        return Exit.OUR_FAULT


def _of_environment(exc: Exception) -> LocalError | None:
    """The error of a failure that this machine causes; None for a defect of ours."""
    match exc:
        case OSError():
            where = 'working directory' if _is_lost() else exc.filename or 'the operating system'
            return LocalError(str(where), exc.strerror or str(exc), hint=_MEND)
        case MemoryError():
            return LocalError('memory', 'there is not enough', hint=_MEND)
        case RuntimeError(args=("can't start new thread",)):  # Python gives no other sign of it
            return LocalError('threads', 'no more can be started', hint=_MEND)
        case _:
            return None


_MEND = 'fix the cause, then run the same command again; --debug shows where it failed'


def _is_lost() -> bool:
    """Whether the working directory has been removed."""
    with contextlib.suppress(OSError):
        os.getcwd()
        return False
    return True
