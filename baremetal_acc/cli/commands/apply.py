# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""``baremetal-acc apply``: flash, program and lock accelerators as the baseline demands, and verify the result."""

import argparse
from dataclasses import replace

from baremetal_acc.cli.plan_request import PlanRequest
from baremetal_acc.cli.write_command import PlanningCommand


class ApplyCommand(PlanningCommand):
    """Flash, program and lock until targets hold to the baseline. A dry run unless --execute is given.

    With --execute a job that an earlier, killed run left behind is looked at and continued.
    """

    def add_own_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options that say which earlier proofs count."""
        add_lifecycle_arguments(parser)

    def request(self, arguments: argparse.Namespace) -> PlanRequest:
        """The request that the arguments describe."""
        return with_lifecycle(super().request(arguments), arguments)


def add_lifecycle_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that discard earlier proofs, and cards that were seen earlier."""
    what = parser.add_argument_group('what counts')
    what.add_argument(
        '--new-lifecycle',
        action='store_true',
        help='the machine comes back from a tenant: locks that were proven before count for nothing and are engaged again',
    )
    what.add_argument(
        '--forget-vanished',
        action='store_true',
        help='the cards that are there now are all that ought to be there; without this a card that has vanished is not met',
    )


def with_lifecycle(request: PlanRequest, arguments: argparse.Namespace) -> PlanRequest:
    """The request with the values of those options."""
    return replace(request, new_lifecycle=arguments.new_lifecycle, forget_vanished=arguments.forget_vanished)
