# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""``baremetal-acc demo``: run the demo, a node's life with emulated BMCs, real Ironic and real placement, as a process."""

import argparse
import importlib.util
import signal
import subprocess
import sys

from cliff import command

from baremetal_acc.cli.output import text
from baremetal_acc.cli.output.report import strict
from baremetal_acc.errors import UsageError

NEEDED = ('ironic', 'placement', 'waitress', 'aiohttp', 'cryptography')


class Demo(command.Command):
    """Show the main job with emulated BMCs, real placement and real Ironic. Needs the extra demo.

    All state and logs are in one folder, which is printed. Every service that was started is stopped at the end. Exit code 0:
    every fact of the demo holds; 1: one does not, or a service failed; 2: an argument is wrong; 130: interrupted.
    """

    app_dist_name = text.PROGRAM

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The parser, with the options that are passed on to the demo."""
        parser = strict(super().get_parser(prog_name))
        parser.add_argument(
            '--state', metavar='DIR', help='new or empty folder for state and logs (default: a new temporary folder)'
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Run the demo as a separate process: it talks to services over HTTP, and shares no code with this command."""
        missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
        if missing:
            hint = "pip install 'baremetal-acc[demo]'"
            raise UsageError(
                argument='demo', what=f'{", ".join(missing)} {"is" if len(missing) == 1 else "are"} not installed', hint=hint
            )
        options = ['--state', parsed_args.state] if parsed_args.state else []
        # In its own session: Ctrl-C reaches only this process, which passes it to the demo once, and waits until the demo has
        # stopped its services.
        process = subprocess.Popen([sys.executable, '-m', 'baremetal_acc.demo', *options], start_new_session=True)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda received, _frame: process.send_signal(received))
        code = process.wait()
        return code if code >= 0 else 128 - code
