# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Entry point of ``baremetal-acc``: the cliff application, its logging, and the exit code and error line of each failure."""

import argparse
import errno
import io
import itertools
import logging
import os
import sys
from collections.abc import Sequence
from importlib import metadata

from cliff import app, commandmanager
from cliff.help import HelpExit

from baremetal_acc.cli import exits, interruption
from baremetal_acc.cli.exits import Exit
from baremetal_acc.cli.output import text
from baremetal_acc.cli.output.report import strict
from baremetal_acc.errors import AccError, UsageError
from baremetal_acc.model.toml import did_you_mean

OURS = 'baremetal_acc'

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

_LEVELS = {0: logging.ERROR, 1: logging.ERROR, 2: logging.INFO}


class _Verbs(commandmanager.CommandManager):
    """The commands, found by their entry points. Cliff's own manager would import every command to learn its name."""

    def load_commands(self, namespace: str) -> None:
        """Read the entry points of a namespace. Called by cliff."""
        self.group_list.append(namespace)
        self.commands.update({entry.name: entry for entry in metadata.entry_points(group=namespace)})


class App(app.App):
    """The cliff application ``baremetal-acc``."""

    NAME = text.PROGRAM

    done: Exit = Exit.HOLDS
    """The exit code of the work that a command has done. It counts also if printing the report fails afterwards."""

    def __init__(self) -> None:
        super().__init__(
            description='Inventory, flash, program, lock and verify accelerators of bare-metal machines through their BMCs.',
            version=metadata.version('baremetal-acc'),
            command_manager=_Verbs('baremetal_acc.cli', convert_underscores=False),
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
        console = logging.StreamHandler(self.stderr)
        console.setLevel(_LEVELS.get(self.options.verbose_level, logging.DEBUG))
        # Messages that are not written are not even formatted: a fleet makes thousands of requests.
        logging.getLogger(OURS).setLevel(logging.DEBUG if self.options.log_file else console.level)
        console.setFormatter(_OneLine(f'{self.NAME}: %(message)s'))
        handlers: list[logging.Handler] = [console]
        if self.options.log_file:
            try:
                to_file = logging.FileHandler(self.options.log_file, encoding='utf-8')
            except OSError as exc:
                raise UsageError(argument='--log-file', what=f'{self.options.log_file}: {exc.strerror}') from exc
            to_file.setFormatter(_OneLine(self.LOG_FILE_MESSAGE_FORMAT))
            handlers.append(to_file)
        for handler in handlers:
            handler.addFilter(logging.Filter(OURS))
            root.addHandler(handler)

    def run(self, argv: list[str]) -> int:
        """Run one command."""
        self.options, rest = self.parser.parse_known_args(argv)
        self.configure_logging()
        if rest and self.options.deferred_help:
            self.options.deferred_help = False
            # From the first option on these are arguments of the command, whose help needs none of them.
            words = list(itertools.takewhile(lambda word: not word.startswith('-'), rest))
            if words and not any(name.startswith(words[0]) for name, _ in self.command_manager):
                raise self._no_such(words[0])
            rest = ['help', *words]
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
        return made.run(parser.parse_args(rest))

    def _no_such(self, word: str) -> UsageError:
        hint = did_you_mean(word, [name for name, _ in self.command_manager]) or f'see {self.NAME} --help'
        return UsageError(argument=word, what='no such command', hint=hint)


class _OneLine(logging.Formatter):
    """Formats a log record as one line without control characters, which text of a BMC may contain."""

    def format(self, record: logging.LogRecord) -> str:
        record.exc_info = None
        return text.printable(super().format(record))


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point.

    :returns: the exit code; see :class:`baremetal_acc.cli.exits.Exit`.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    # Read before the arguments are parsed, so that a failure of the parser shows its traceback, too.
    debug = '--debug' in arguments
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A character that the output's encoding lacks must not prevent the rest from being printed.
        sys.stdout.reconfigure(errors='backslashreplace')
    application = App()
    return exits.worst((_ended(application, arguments, debug=debug), application.done))


def _ended(application: App, arguments: list[str], *, debug: bool) -> Exit:
    """Run the command, print its error, and return its exit code."""
    try:
        with interruption.bounded():
            return Exit(application.run(arguments))
    except HelpExit:
        return Exit.HOLDS
    except AccError as exc:
        if debug:
            raise
        text.error(str(exc))
        return exits.of(exc)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone; without this, Python would report the error again when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.HOLDS
    except Exception as exc:
        if debug:
            raise
        if isinstance(exc, OSError) and exc.errno in _NO_ROOM:
            text.error(f'the output cannot be written: {exc.strerror}')
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return Exit.USAGE
        text.error(f'internal error: {type(exc).__name__}: {exc} (run it again with --debug and report what it says)')
        return Exit.OUR_FAULT


if __name__ == '__main__':
    sys.exit(main())
