# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""``baremetal-acc complete``: print the script that completes commands, options and file names in bash, zsh or fish."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cliff import command
from cliff.app import App

from baremetal_acc.cli.output import text
from baremetal_acc.cli.output.report import strict

SHELLS = ('bash', 'zsh', 'fish')

_FILES = ('FILE', 'PATH', 'CATALOGUE', 'PACKAGE')
_FOLDERS = ('DIR',)
"""Words of metavars whose arguments are completed with names of files, or of folders."""


class Complete(command.Command):
    """Print the completion script of a shell: commands, options, their choices, and names of files.

    bash: complete --shell bash > ~/.local/share/bash-completion/completions/baremetal-acc; zsh: write it to the file
    _baremetal-acc in a folder of $fpath; fish: to ~/.config/fish/completions/baremetal-acc.fish. Print it again after an
    upgrade. Exit code 0.
    """

    app_dist_name = text.PROGRAM

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The parser, with the option that names the shell."""
        parser = strict(super().get_parser(prog_name))
        parser.add_argument('--shell', choices=SHELLS, default='bash', help='shell to complete in (default: %(default)s)')
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Print the script."""
        import shtab  # not needed by the other commands

        self.app.stdout.write(shtab.complete(command_line(self.app), parsed_args.shell))
        return 0


def command_line(app: App) -> argparse.ArgumentParser:
    """One parser of all commands, with a subparser for each word. cliff has a parser for each command only."""
    # cliff's own class can take over the options of cliff's parsers.
    kind = type(app.parser)
    root = kind(prog=app.NAME, parents=[app.parser], add_help=False, conflict_handler='ignore')
    words_of: dict[tuple[str, ...], argparse._SubParsersAction[Any]] = {(): root.add_subparsers()}
    for words, parser in parsers(app):
        for action in parser._actions:
            _complete_files(action)
        for length in range(1, len(words)):
            if words[:length] not in words_of:
                group = words_of[words[: length - 1]].add_parser(words[length - 1], help=f'{" ".join(words[:length])} commands')
                words_of[words[:length]] = group.add_subparsers()
        first = (parser.description or '').strip().partition('. ')[0].rstrip('.')
        words_of[words[:-1]].add_parser(words[-1], parents=[parser], add_help=False, help=first, conflict_handler='ignore')
    return root


def parsers(app: App) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    """The words and the parser of each command, in the order of their names."""
    for name in sorted(name for name, _ in app.command_manager):
        factory, found, _ = app.command_manager.find_command(name.split())
        parser = factory(app, app.options, cmd_name=found).get_parser(f'{app.NAME} {found}')
        yield tuple(name.split()), parser


def _complete_files(action: argparse.Action) -> None:
    import shtab

    metavar = str(action.metavar or '')
    if metavar in _FOLDERS:
        action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]  # shtab reads it
    elif action.type is Path or any(word in metavar for word in _FILES):
        action.complete = shtab.FILE  # type: ignore[attr-defined]
