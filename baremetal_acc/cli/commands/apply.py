# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""``baremetal-acc apply``: flash, program and lock accelerators as the baseline demands, and verify the result."""

import argparse
from dataclasses import replace

from baremetal_acc.cli.plan_request import PlanRequest
from baremetal_acc.cli.write_command import PlanningCommand


class ApplyCommand(PlanningCommand):
    """Flash, program and lock accelerators until targets meet the baseline. Writes to BMCs only with --execute.

    Without --execute the plan is printed (dry run). With --execute, a job that an interrupted run left unfinished is read back
    and resumed. Exit code 0: the baseline is met; 3: a demand is not met, or a dry run found something to do; 4: refused, no
    image reached a device; 6: a write was begun and failed: inspect the device.
    """

    def add_own_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options that say which earlier proofs count."""
        add_lifecycle_arguments(parser)

    def request(self, arguments: argparse.Namespace) -> PlanRequest:
        """The request that the arguments describe."""
        return with_lifecycle(super().request(arguments), arguments)


def add_lifecycle_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that discard earlier proofs, and cards that were seen earlier."""
    what = parser.add_argument_group('stored evidence')
    what.add_argument(
        '--new-lifecycle',
        action='store_true',
        help='a tenant has returned the machine: discard earlier proof of its locks, and engage every lock again',
    )
    what.add_argument(
        '--forget-vanished',
        action='store_true',
        help='expect only the cards that are present now; without this option a card that has vanished is reported as not met',
    )


def with_lifecycle(request: PlanRequest, arguments: argparse.Namespace) -> PlanRequest:
    """The request with the values of those options."""
    return replace(request, new_lifecycle=arguments.new_lifecycle, forget_vanished=arguments.forget_vanished)
