# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""``baremetal-acc program``: program functions into the reconfiguration slots of FPGAs; firmware is never written."""

import argparse
from dataclasses import replace
from typing import ClassVar

from baremetal_acc.cli.plan_request import PlanRequest, Verb
from baremetal_acc.cli.write_command import PlanningCommand
from baremetal_acc.errors import UsageError


class ProgramCommand(PlanningCommand):
    """Program functions into reconfiguration slots of FPGAs. Writes to BMCs only with --execute.

    Without --execute the plan is printed (dry run). Writes function images only, never firmware. Locks that block the write are
    released, and engaged again afterwards. The exit codes are those of apply.
    """

    VERB: ClassVar[Verb] = Verb.PROGRAM

    def add_own_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the option that says which function is programmed into which slot."""
        parser.add_argument(
            '--slot',
            action='append',
            required=True,
            metavar='PATTERN=FUNCTION',
            help='shell pattern of SlotIds, and a function of the catalogue; can be repeated, the first match applies',
        )

    def request(self, arguments: argparse.Namespace) -> PlanRequest:
        """The request that the arguments describe."""
        return replace(super().request(arguments), functions=tuple(_pair(text) for text in arguments.slot))


def _pair(text: str) -> tuple[str, str]:
    pattern, equals, function = (part.strip() for part in text.partition('='))
    if not (pattern and equals and function):
        raise UsageError(
            argument='--slot', what=f'{text!r} is not of the form PATTERN=FUNCTION', hint='for example "Slot*=gzip"'
        )
    return pattern, function
