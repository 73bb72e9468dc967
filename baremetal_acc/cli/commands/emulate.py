# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""``baremetal-acc emulate``: serve an emulated BMC of a machine with accelerators, or a recorded Redfish tree."""

import argparse
import importlib
from types import ModuleType

from cliff import command

from baremetal_acc.cli.output import text
from baremetal_acc.cli.output.report import strict
from baremetal_acc.errors import UsageError

_LAST_PORT = 65535


class Emulate(command.Command):
    """Serve the BMCs of an emulated machine with accelerators, or a recorded tree, until Ctrl-C. Needs the extra emulator.

    Exit code 0: stopped; 1: could not serve; 2: an argument is wrong.
    """

    app_dist_name = text.PROGRAM

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The parser, with the emulator's own arguments."""
        parser = strict(super().get_parser(prog_name))
        try:
            self._main = _main()
        except UsageError as exc:
            # --help must work without the extra, and say what is missing.
            parser.epilog = f'{parser.epilog}\n\n{exc}'
            return parser
        self._main.add_arguments(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Serve the emulated machine until Ctrl-C.

        :raises UsageError: the port number is out of range.
        """
        serve = _main().run
        try:
            return int(serve(parsed_args))
        except OverflowError:
            hint = f'0 to {_LAST_PORT}; each further BMC has the port after it'
            raise UsageError(argument='--port', what=f'{parsed_args.port} is out of range', hint=hint) from None


def _main() -> ModuleType:
    """The emulator's entry point. The emulator needs libraries that the core does not need.

    :raises UsageError: they are not installed.
    """
    try:
        return importlib.import_module('baremetal_acc.emulator.main')
    except ModuleNotFoundError as exc:
        if (exc.name or '').startswith('baremetal_acc'):
            raise
        hint = "pip install 'baremetal-acc[emulator]'"
        raise UsageError(argument='emulate', what=f'{exc.name} is not installed', hint=hint) from exc
